"""What every likelihood is checked on, and integrals by many Gauss-Legendre panels to check against."""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np

from mercer import param
from mercer.likelihoods import (
    AbstractLikelihood,
    Bernoulli,
    Beta,
    Binomial,
    Censored,
    Custom,
    EpsilonInsensitive,
    Gamma,
    Gaussian,
    GaussianMixtureNoise,
    Laplace,
    LogLogistic,
    NegativeBinomial,
    Ordinal,
    Poisson,
    Real,
    StudentT,
    Warped,
    Weibull,
)
from mercer.warps import Log, Tanh

LOG_2PI = np.log(2 * np.pi)


def sech(f, y, scale, shift):
    """Hyperbolic-secant noise, moved by `shift`."""
    u = jnp.abs(y - f - shift) / scale
    return -u - jnp.log1p(jnp.exp(-2 * u)) + jnp.log(2 / (jnp.pi * scale))


def cloglog(f, y):
    """Labels 0 and 1, P(y = 0) = exp(-exp(f))."""
    rate = jnp.exp(f)
    return jnp.where(y > 0.5, jnp.log(-jnp.expm1(-rate)), -rate)


@dataclasses.dataclass(frozen=True)
class Case:
    likelihood: AbstractLikelihood
    y: tuple  # values to try
    values: tuple | None = None  # all of them, where finitely many matter
    kinks: tuple = ()  # of log_prob, as y - f
    steps: tuple = ()  # further places in f where it changes quickly
    support: tuple = (-np.inf, np.inf)  # of y

    def places(self, centre, reach) -> np.ndarray:
        """Break points in y around the place that f = centre asks for."""
        if self.support == (0.0, np.inf):
            return np.exp(np.clip(spread(centre, 0.3, reach), -600.0, 600.0))
        if self.support == (0.0, 1.0):
            z = np.concatenate([[centre], np.arange(-700.0, -40.0, 2.0), np.arange(-40.0, 36.0, 0.5)])
            return 1.0 / (1.0 + np.exp(-z))
        return spread(centre, 0.3, reach)

    def latent(self, y):
        """The f that explains y best, about."""
        if self.support == (0.0, np.inf):
            return np.log(y)
        if self.support == (0.0, 1.0):
            return np.log(y / (1.0 - y))
        return y if self.values is None else np.log(max(y, 0) + 0.5)


CASES = {
    "gaussian": Case(Gaussian(0.3), (-1.2, 2.0)),
    "probit": Case(Bernoulli(), (-1.0, 1.0), (-1.0, 1.0), steps=(0.0,)),
    "logit": Case(Bernoulli("logit"), (-1.0, 1.0), (-1.0, 1.0), steps=(0.0,)),
    "probit, wrong labels": Case(Bernoulli(flip=param(0.1)), (-1.0, 1.0), (-1.0, 1.0), steps=(0.0,)),
    "logit, wrong labels": Case(Bernoulli("logit", flip=param(0.03)), (-1.0, 1.0), (-1.0, 1.0), steps=(0.0,)),
    "poisson": Case(Poisson(), (0.0, 1.0, 7.0, 300.0), tuple(range(400)), steps=(0.0,)),
    "poisson with exposure": Case(Poisson(param(2.5)), (0.0, 4.0), tuple(range(400)), steps=(-1.0,)),
    "negative binomial": Case(NegativeBinomial(0.4), (0.0, 7.0), tuple(range(3000)), steps=(0.0, 1.0)),
    "binomial": Case(Binomial(9.0), (0.0, 4.0, 9.0), tuple(range(10)), steps=(0.0,)),
    "binomial, probit": Case(Binomial(4.0, "probit"), (0.0, 3.0), tuple(range(5)), steps=(0.0,)),
    "beta": Case(Beta(40.0), (0.03, 0.6), support=(0.0, 1.0), steps=(0.0,)),
    "gamma": Case(Gamma(1.7), (0.2, 3.0), support=(0.0, np.inf)),
    "weibull": Case(Weibull(1.4), (0.2, 3.0), support=(0.0, np.inf)),
    "log-logistic": Case(LogLogistic(2.6), (0.2, 3.0), support=(0.0, np.inf)),
    "censored, but nothing is": Case(Censored(0.5), (-1.2, 2.0)),
    "warped, log": Case(Warped(Log(), Gaussian(0.3)), (0.2, 3.0), support=(0.0, np.inf)),
    "warped, tanh": Case(Warped(Tanh([0.4], [1.5], [0.2]), Gaussian(0.3)), (-1.2, 2.0)),
    "student": Case(StudentT(0.4, 3.0), (-1.2, 2.0)),
    "cauchy": Case(StudentT(0.5, 1.0), (0.3, 4.0)),
    "laplace": Case(Laplace(0.5), (-1.2, 2.0), kinks=(0.0,)),
    "epsilon-insensitive": Case(EpsilonInsensitive(0.5, 0.2), (-1.2, 2.0), kinks=(-0.2, 0.2)),
    "mixture": Case(GaussianMixtureNoise(0.2, 0.1, 30.0), (-1.2, 2.0)),
    "ordinal": Case(
        Ordinal([-1.0, 0.2, 1.5], scale=param(0.7)), (0.0, 1.0, 3.0), (0, 1, 2, 3), steps=(-1.0, 0.2, 1.5)
    ),
    "custom noise": Case(
        Custom(sech, "sech", {"scale": 0.6, "shift": Real(0.2)}, concave=True), (-1.2, 2.0), kinks=(0.2,)
    ),
    "custom labels": Case(
        Custom(cloglog, values=(0, 1), concave=True, step=(0.0, 1.0)), (0.0, 1.0), (0, 1), steps=(0.0,)
    ),
}
CAVITIES = ((0.0, 1.0), (1.5, 0.04), (-2.0, 25.0), (3.0, 1e4), (-8.0, 0.5), (0.3, 1e-4))


NODES = 4096  # the number of nodes is a multiple of it, so that few shapes are compiled


@jax.jit
def log_prob(likelihood, f, y):
    """As the likelihood says it, compiled as a whole."""
    return likelihood.log_prob(f, y)


def panels(breaks) -> tuple[np.ndarray, np.ndarray]:
    """Gauss-Legendre nodes and weights on every interval between sorted breaks; the last node is repeated,
    without weight, up to a multiple of NODES.
    """
    x, w = np.polynomial.legendre.leggauss(16)
    breaks = np.unique(breaks)
    half = 0.5 * np.diff(breaks)[:, None]
    nodes = (half * x + 0.5 * (breaks[1:] + breaks[:-1])[:, None]).ravel()
    more = -len(nodes) % NODES
    return np.pad(nodes, (0, more), "edge"), np.pad((half * w).ravel(), (0, more))


def spread(centre, scale, reach) -> np.ndarray:
    """Break points around a centre, from a hundredth of the scale out to `reach`."""
    steps = np.geomspace(0.01 * min(scale, reach), reach, 60)
    return np.concatenate([[centre], centre + steps, centre - steps])


def nodes_in_f(case: Case, y: float, mean: float, variance: float) -> tuple[np.ndarray, np.ndarray]:
    """A fine rule in f for integrals of p(y | f) and its logarithm against N(mean, variance)."""
    sd = np.sqrt(variance)
    centres = (*(y - k for k in case.kinks), case.latent(y), *case.steps)
    low, high = min(mean - 14 * sd, *(c - 3 for c in centres)), max(mean + 14 * sd, *(c + 3 for c in centres))
    b = np.concatenate(
        [spread(mean, sd, 14 * sd), *(spread(c, 0.3, 3 + 14 * sd + abs(c - mean)) for c in centres)]
    )
    return panels(np.concatenate([[low, high], b[(b > low) & (b < high)]]))


def log_normal(f, mean, variance):
    return -0.5 * ((f - mean) ** 2 / variance + np.log(variance) + LOG_2PI)


def tilted(case: Case, y: float, mean: float, variance: float) -> tuple[float, float, float]:
    """log of the integral of p(y | f) N(f | mean, variance),
    and mean and variance of f under that density.
    """
    f, w = nodes_in_f(case, y, mean, variance)
    log_q = np.asarray(log_prob(case.likelihood, f, y)) + log_normal(f, mean, variance)
    top = log_q.max()
    q = np.exp(log_q - top) * w
    Z = q.sum()
    m = np.sum(q * f) / Z
    return top + np.log(Z), m, np.sum(q * (f - m) ** 2) / Z
