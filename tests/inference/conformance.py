"""What every inference rule is checked on: a likelihood with data, the rules that take it, and the solvers it
runs on.

A likelihood joins by one line in `CASES`, a rule by one in `RULES`, a solver by one in `SOLVERS`.
"""

from __future__ import annotations

import dataclasses

import jax.numpy as jnp
import numpy as np

import mercer as mc
from mercer import kernels as k
from mercer import likelihoods as lk
from mercer.gp import choose_solver, prepare
from mercer.inference import EP, KL, Exact, Laplace, LocalBound, ScaleMixture
from mercer.params import parameters, replace_leaves

N = 14
RNG = np.random.default_rng(11)
X = RNG.normal(size=(N, 2))
X[5] = X[4]  # a repeated input
XS = np.array([[0.1, -0.4], [1.7, 0.3], *X[2:3]])
F = 1.5 * np.sin(2 * X[:, 0]) + 0.3 * X[:, 1]
LABELS = np.where(F + 0.5 * RNG.normal(size=N) > 0, 1.0, -1.0)
LABELS[3] = -LABELS[3]
COUNTS = RNG.poisson(np.exp(0.6 * F)).astype(float)
CLASSES = np.digitize(F + 0.4 * RNG.normal(size=N), [-0.7, 0.7]).astype(float)
REAL = F + 0.3 * RNG.standard_t(3, size=N)
OUTLYING = REAL + 5.0 * (np.arange(N) == 6)
SHARES = 1.0 / (1.0 + np.exp(-REAL))
TIMES, HOW = np.exp(REAL), np.tile([0.0, -1.0, 1.0, 2.0], 4)[:N]
EXPOSURE = np.linspace(0.5, 3.0, N)

FULL = k.SE([0.9, 1.6], 1.4)
FINITE = k.Linear([0.7, 0.3]) + k.Constant(0.5) * k.Polynomial(2, 0.6, 0.2)

SOLVERS = {"dense": ("dense", FULL), "weight_space": ("weight-space", FINITE)}

RULES = {
    "exact": Exact(),
    "laplace": Laplace(tol=1e-14),
    "ep": EP(tol=1e-11),
    "power-ep": EP(tol=1e-11, power=0.5),
    "ep-sequential": EP("sequential", tol=1e-11),
    "kl": KL(tol=1e-10),
    "local-bound": LocalBound(tol=1e-14),
    "scale-mixture": ScaleMixture(tol=1e-11),
}
ONE = ("laplace", "ep", "kl")  # for smooth likelihoods of one latent function


def sech(f, y, scale):
    """Hyperbolic-secant noise, as a user would write it."""
    u = jnp.abs(y - f) / scale
    return -u - jnp.log1p(jnp.exp(-2 * u)) + jnp.log(2 / (jnp.pi * scale))


@dataclasses.dataclass(frozen=True, eq=False)
class Case:
    """`gps`: from a kernel to what the Model takes, where that is not one GP. `rtol`: how well derivatives of
    KL are expected to agree with differences, which is less where averages are by quadrature across a kink.
    """

    likelihood: lk.AbstractLikelihood
    y: np.ndarray
    rules: tuple[str, ...] = ONE
    gps: object = None
    rtol: float = 1e-5

    def model(self, kernel) -> mc.Model:
        return mc.Model(
            mc.GP(kernel, mc.param(0.2)) if self.gps is None else self.gps(kernel), self.likelihood
        )


def per_class(kernel):
    return tuple(mc.GP(kernel * k.Constant(s)) for s in (0.6, 1.0, 1.7))


def mean_and_noise(kernel):
    return mc.GP(kernel), mc.GP(k.Constant(0.4) * kernel, mc.param(-1.0))


CASES = {
    "gaussian": Case(lk.Gaussian(0.3), REAL, ("exact", "power-ep", *ONE)),
    "probit": Case(lk.Bernoulli(), LABELS, (*ONE, "power-ep")),
    "logit": Case(lk.Bernoulli("logit"), LABELS, (*ONE, "local-bound")),
    "probit, wrong labels": Case(lk.Bernoulli(flip=mc.param(0.1)), LABELS),
    "softmax": Case(lk.Softmax(3), CLASSES, ("laplace",)),
    "softmax, a kernel each": Case(lk.Softmax(3), CLASSES, ("laplace",), per_class),
    "multinomial": Case(lk.MultinomialProbit(3), CLASSES, ("ep",)),
    "multinomial, a kernel each": Case(lk.MultinomialProbit(3), CLASSES, ("ep",), per_class),
    "poisson": Case(lk.Poisson(), COUNTS),
    "poisson, exposure": Case(lk.Poisson(EXPOSURE), COUNTS),
    "ordinal": Case(lk.Ordinal([-0.6, 0.8]), CLASSES),
    "student-t": Case(lk.StudentT(0.3, 3.0), OUTLYING, (*ONE, "scale-mixture", "power-ep")),
    "laplace": Case(lk.Laplace(0.3), OUTLYING, ("ep", "kl", "scale-mixture")),
    "epsilon-insensitive": Case(lk.EpsilonInsensitive(0.3, 0.1), OUTLYING, ("ep", "kl")),
    "mixture": Case(lk.GaussianMixtureNoise(0.2, 0.2, 20.0), OUTLYING, (*ONE, "scale-mixture")),
    "uniform": Case(lk.ContaminatedUniform(0.1, 0.1, 20.0), OUTLYING),
    "heteroscedastic": Case(lk.Heteroscedastic(), OUTLYING, ("laplace",), mean_and_noise),
    "negative binomial": Case(lk.NegativeBinomial(0.4), COUNTS),
    "binomial": Case(lk.Binomial(COUNTS + 2.0), COUNTS),
    "beta": Case(lk.Beta(12.0), SHARES),
    "gamma": Case(lk.Gamma(2.0), TIMES),
    "weibull, some still wait": Case(lk.Weibull(1.7, HOW < 1), TIMES),
    "log-logistic, some still wait": Case(lk.LogLogistic(1.7, HOW < 1), TIMES),
    "censored": Case(lk.Censored(0.4, HOW, np.full(N, 0.8)), REAL),
    "custom": Case(lk.Custom(sech, "sech", {"scale": 0.4}, concave=True), OUTLYING),
}
PAIRS = [(case, rule, solver) for case in CASES for rule in CASES[case].rules for solver in SOLVERS]


def one_latent(case: str) -> bool:
    return CASES[case].likelihood.latents == 1


def run(model, X, y, rule, solver="dense", workspace=None):
    """The rule's own Result, and what its gradient needs."""
    inputs, y = prepare(model, X, y)
    model = model.bind(inputs)
    return model, y, rule.run(model, inputs.values, y, choose_solver(model, solver), workspace)


SIDE = ("exposure", "trials", "event", "how", "width")
HELD = {
    *(f"likelihood.{name}" for name in SIDE),
    "likelihood.flip",
}  # given, not learned (flip = 0 is the end of its range)


def learned(model, case: str) -> list:
    return [
        p
        for p in parameters(model)
        if p.name not in HELD or (p.name == "likelihood.flip" and case == "probit, wrong labels")
    ]


def differences(model, X, y, rule, solver, names, step=2e-4):
    """Central differences of the log evidence for hyperparameters, by name."""

    def value(name, at):
        return run(replace_leaves(model, {name: at}), X, y, rule, solver)[2].log_evidence

    out = {}
    for p in parameters(model):
        if p.name not in names:
            continue
        at = np.asarray(p.value, float)
        slope = np.zeros(at.shape)
        for index in np.ndindex(at.shape):
            h = np.zeros(at.shape)
            h[index] = step * max(abs(at[index]), 0.1)
            slope[index] = (value(p.name, at + h) - value(p.name, at - h)) / (2 * h[index])
        out[p.name] = slope
    return out


def along(model, X, y, rule, solver, direction, step=1e-4):
    """The derivative of the log evidence along a direction in all named hyperparameters at once (four
    points).
    """
    at = {p.name: np.asarray(p.value, float) for p in parameters(model) if p.name in direction}

    def value(t):
        return run(
            replace_leaves(model, {n: v + t * direction[n] for n, v in at.items()}), X, y, rule, solver
        )[2].log_evidence

    near, far = value(step) - value(-step), value(2 * step) - value(-2 * step)
    return float(8 * near - far) / (12 * step)
