"""The Markov solver is the dense one, in O(n): values, marginals, derivatives, every rule. GPML B.2, 2.2-2.7;
GM11.
"""

import jax
import numpy as np
import pytest

import mercer as mc
from mercer import kernels as k
from mercer import likelihoods, means
from mercer.inference import EP, ScaleMixture
from mercer.inputs import InputError, as_inputs
from mercer.kernels.statespace import state_space
from mercer.linalg.cholesky import NotPositiveDefinite
from mercer.params import strip
from mercer.solvers import Dense, Markov, Sites, SolverError
from mercer.solvers.auto import Auto
from mercer.solvers.markov_sweeps import Line, Scans, _padded

from .conformance import (
    assert_draws,
    assert_pullback,
    assert_sum_of_parts,
    assert_views,
    bars_of,
    reference,
    sites,
)

N, M = 9, 4
RNG = np.random.default_rng(3)
X = RNG.uniform(0.0, 2.0, size=(N, 1))
X[1] = X[0]
XS = RNG.uniform(0.0, 2.5, size=(M, 1))
XS[0] = X[2]
V = RNG.normal(size=(N, 3))
KERNEL = k.Matern(0.7, 1.3, nu=1.5) + 0.5 * k.Linear(0.4) * k.Matern(nu=0.5)
GP = mc.GP(KERNEL, means.Linear([0.3], 0.5))
BARS = bars_of(V)
close = dict(rtol=1e-10, atol=1e-11)


def some_sites(kind):
    """Those of the conformance suite, and with a negative precision."""
    if kind != "negative":
        return sites(kind)
    given = sites("general")
    given.precision[7] = -0.3
    return given


def factor(kind, gp=GP, X=X):
    return Markov().factor(gp.bind(as_inputs(X)), X, some_sites(kind))


@pytest.mark.parametrize("noise", [1e-4, 0.1, 10.0])
@pytest.mark.parametrize("nu", [0.5, 2.5])
def test_condition_is_bounded_from_below(nu, noise):
    x = np.sort(np.random.default_rng(0).uniform(0.0, 20.0, 40))[:, None]
    kernel = k.Matern(2.0, nu=nu)
    found = mc.GP(kernel).condition(x, np.sin(x[:, 0]), noise, solver=Markov()).state.diagnostics().condition
    true = np.linalg.cond(np.eye(40) + kernel(x) / noise)
    assert true / 40 < found <= true


@pytest.mark.parametrize("kind", ["noise", "per-datum", "general", "negative"])
def test_everything_a_state_says(kind):
    """Unsorted and repeated times; sites with slopes, of precision zero, and negative ones."""
    state, expected = factor(kind), reference(GP, X, some_sites(kind), XS, V)
    assert state.log_normaliser == pytest.approx(expected["log_normaliser"], rel=1e-11)
    assert_views(state, expected, XS, V, **close)
    np.testing.assert_allclose(state.cross(XS, V), GP.kernel(XS, X) @ V, rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(state.times_K(V), GP.kernel(X) @ V, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("kind", ["per-datum", "general", "negative"])
@pytest.mark.parametrize("quantity", list(BARS))
def test_pullback(quantity, kind):
    """Every bar against central differences: kernel, mean, centre, precision, slope; inputs are refused."""
    assert_pullback(factor(kind), GP, X, some_sites(kind), quantity, BARS[quantity])


def test_joint_pullback_is_the_sum():
    assert_sum_of_parts(lambda **bars: factor("general").pullback(**bars), BARS)


def test_sample():
    assert_draws(factor("general"), reference(GP, X, some_sites("general"), XS), XS)
    assert factor("negative").sample(0, XS, 3).shape == (3, M)


# ------------------------------------------------------------------------------------------------- equal to
# dense

T = np.sort(np.random.default_rng(5).uniform(0.0, 6.0, 40))[:, None]
T[7] = T[8]
Y = np.sin(2 * T[:, 0]) + 0.2 * np.random.default_rng(6).normal(size=40)
PAIRS = [
    (mc.Model(mc.GP(KERNEL), likelihoods.Gaussian(0.1)), Y, "exact", 1e-9),
    (mc.Model(mc.GP(k.Matern(0.8, 1.2, nu=2.5)), likelihoods.StudentT(0.3, dof=4.0)), Y, "laplace", 1e-7),
    (
        mc.Model(mc.GP(k.Matern(0.8, 1.2, nu=1.5)), likelihoods.StudentT(0.3, dof=4.0)),
        Y,
        ScaleMixture(),
        1e-6,
    ),
    (
        mc.Model(mc.GP(k.Matern(0.8, 1.2, nu=1.5)), likelihoods.Poisson()),
        np.round(np.exp(Y)),
        "laplace",
        1e-7,
    ),
    (mc.Model(mc.GP(k.Matern(0.8, 1.2, nu=1.5)), likelihoods.Bernoulli()), np.sign(Y), EP(), 1e-6),
    (mc.Model(mc.GP(k.Matern(0.8, 1.2, nu=1.5)), likelihoods.Poisson()), np.round(np.exp(Y)), "kl", 1e-6),
]


@pytest.mark.parametrize(
    ("model", "y", "rule", "tol"), PAIRS, ids=lambda v: str(v)[:24] if not isinstance(v, np.ndarray) else "y"
)
def test_every_rule_equals_its_dense_counterpart(model, y, rule, tol):
    """Evidence, gradient, marginals and forecasts of each inference rule."""
    (value, gradient), (expected, slopes) = (
        mc.log_evidence_and_gradient(model, T, y, inference=rule, solver=solver)
        for solver in ("markov", Dense("lapack"))
    )
    assert value == pytest.approx(expected, rel=tol)
    assert sorted(gradient) == sorted(slopes)
    scale = max(np.abs(v).max() for v in slopes.values())
    for name in slopes:
        np.testing.assert_allclose(
            gradient[name], slopes[name], rtol=10 * tol, atol=10 * tol * scale, err_msg=name
        )
    new = np.linspace(0.0, 8.0, 7)[:, None]
    found, dense = (model.condition(T, y, rule, solver).state for solver in ("markov", Dense("lapack")))
    for a, b in zip(
        (*found.marginals(), *found.predict(new)), (*dense.marginals(), *dense.predict(new)), strict=True
    ):
        np.testing.assert_allclose(a, b, rtol=10 * tol, atol=10 * tol)


def test_pooled_series_and_fit():
    """Several series with shared hyperparameters, and a fit through the estimator: the same as dense."""
    model = mc.Model(mc.GP(k.Matern(1.0, nu=1.5)), likelihoods.Gaussian(0.2))
    parts = [T[:22], T[15:]], [Y[:22], Y[15:]]
    markov, dense = (mc.fit(model, *parts, solver=solver) for solver in ("markov", None))
    assert markov.value == pytest.approx(dense.value, abs=1e-6)
    markov, dense = (
        mc.GPRegressor(k.Matern(1.0, nu=1.5), solver=solver).fit(T, Y) for solver in ("markov", None)
    )
    for a, b in zip(markov.predict(T, return_std=True), dense.predict(T, return_std=True), strict=True):
        np.testing.assert_allclose(a, b, atol=2e-3)


def test_basis_functions():
    """A smoothing spline: integrated Brownian motion and a vague straight line."""
    gp = mc.GP(k.IntegratedWiener(1, 2.0), basis=means.Polynomial(1))
    markov, dense = (gp.condition(T, Y, 0.05, solver=solver) for solver in ("markov", None))
    assert markov.log_evidence == pytest.approx(dense.log_evidence, rel=1e-8)
    for a, b in zip(markov.state.predict(T), dense.state.predict(T), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-7, atol=1e-8)


@pytest.mark.slow
def test_approximations_are_noted():
    """An SE and a periodic kernel come with an error in the notes,
    which bounds the difference to dense in scale.
    """
    gp = mc.GP(k.SE(0.9) + k.Periodic(1.7, 1.5, 0.5))
    coarse, fine, dense = (
        gp.condition(T, Y, 0.1, solver=solver)
        for solver in (Markov(tolerance=5e-3), Markov(tolerance=1e-4), None)
    )
    assert "states in time" in " ".join(coarse.notes) and not any(
        "states in time" in note for note in dense.notes
    )
    errors = [abs(p.log_evidence - dense.log_evidence) for p in (coarse, fine)]
    assert errors[1] < 0.05 and errors[1] < errors[0] < 1.0


def test_little_noise_and_near_coincidences():
    """Noise variance 1e-10, times a billionth apart: as accurate as dense,
    in the evidence of smooth processes too.
    """
    rng = np.random.default_rng(1)
    t = np.sort(rng.uniform(0, 3, 30))[:, None]
    t[4] = t[3] + 1e-9
    y = np.sin(t[:, 0])
    for nu in (0.5, 2.5):
        markov, dense = (
            mc.GP(k.Matern(1.0, nu=nu)).condition(t, y, 1e-10, solver=solver) for solver in ("markov", None)
        )
        assert markov.log_evidence == pytest.approx(dense.log_evidence, rel=1e-5)


# ------------------------------------------------------------------------------------------------- choice and
# refusal


def test_lengths_are_few():
    """One compilation serves a quarter of a doubling, and at most a quarter is padding."""
    assert [_padded(n) for n in (1, 16, 17, 100, 129, 100_000)] == [16, 16, 32, 112, 160, 102_400]
    sizes = np.arange(128, 5000)
    padded = np.array([_padded(int(n)) for n in sizes])
    assert (padded >= sizes).all() and (padded <= 1.25 * sizes).all() and np.unique(padded).size <= 24


def test_one_and_two_data():
    for n in (1, 2):
        markov, dense = (
            mc.GP(KERNEL).condition(T[:n], Y[:n], 0.1, solver=solver) for solver in ("markov", None)
        )
        assert markov.log_evidence == pytest.approx(dense.log_evidence, rel=1e-12)


def test_auto_proposes_it():
    """Ten thousand irregular times and a Matern kernel: nothing is faster, and it is exact."""
    t = np.random.default_rng(0).uniform(0, 1000, (10_000, 1))
    choice = Auto(say=False).choose(mc.GP(k.Matern(nu=1.5)), t, 0.1)
    assert isinstance(choice.solver, Markov) and choice.best.error == 0.0
    approximate = Auto(say=False, tolerance=0.1).choose(mc.GP(k.SE()), t, 0.1)
    proposal = next(p for p in approximate.proposals if isinstance(p.solver, Markov))
    assert 0 < proposal.error < 0.01
    assert not list(Markov.propose(type("Task", (), dict(several=False, d=2, X=t, n=1))()))


def test_refusals():
    with pytest.raises(SolverError, match=r"RationalQuadratic has no state-space form.*dense"):
        mc.GP(k.RationalQuadratic()).condition(T, Y, 0.1, solver="markov")
    with pytest.raises(SolverError, match="one input column"):
        mc.GP(k.Matern(nu=1.5)).condition(np.hstack([T, T]), Y, 0.1, solver="markov")
    with pytest.raises(InputError, match="zero or positive"):
        mc.GP(k.Wiener()).condition(T - 1.0, Y, 0.1, solver="markov")
    with pytest.raises(NotPositiveDefinite, match="outweigh"):
        Markov().factor(GP.bind(as_inputs(X)), X, Sites(np.zeros((N, 1)), np.full((N, 1), -5.0)))
    with pytest.raises(ValueError, match="tolerance"):
        Markov(tolerance=0.0)
    with pytest.raises(SolverError, match="one latent function"):
        Markov().workspace((GP, GP), X)
    assert (
        Markov().cost(1000, 1).bytes
        == Markov(states=2).cost(1000, 1).bytes
        < Markov(states=3).cost(1000, 1).bytes
    )


@pytest.mark.parametrize("span", [0.2, 4.0])
def test_states_that_would_lose_their_digits_are_refused(span):
    t = np.linspace(0.0, span, 2000)[:, None]
    gp, y = mc.GP(k.SE(1.0)), np.sin(3 * t[:, 0])
    with pytest.raises(NotPositiveDefinite, match="tolerance"):
        gp.condition(t, y, noise_variance=1e-6, solver=Markov(tolerance=1e-4))
    notes = gp.condition(t, y, noise_variance=1e-4, solver=Markov(tolerance=1e-4)).notes
    assert any("rounding may reach" in note for note in notes)


@pytest.mark.parametrize("kernel", [k.Matern(0.8, 1.3, nu=1.5), k.Wiener(0.7) + k.Matern(2.0, nu=0.5)])
def test_one_sweep_back_tells_what_the_sweeps_one_by_one_do(kernel):
    rng = np.random.default_rng(2)
    line, W, z = Line(rng.uniform(0.0, 9.0, 40)), rng.uniform(-0.1, 5.0, 40), rng.normal(size=40)
    form = state_space(strip(kernel.bind(1)))
    once, by_parts = Scans(form, line, W, z), Scans(form, line, W, None)
    (squares, dual), (expected, other) = once.solve(z), by_parts.solve(z)
    np.testing.assert_allclose([once.logdet, squares], [by_parts.logdet, expected], rtol=1e-12)
    np.testing.assert_allclose(dual(), other(), rtol=1e-10, atol=1e-12)
    (bar, variances), alpha = once.pull_evidence(z), other()[:, None]
    np.testing.assert_allclose(variances, by_parts.variances(), rtol=1e-10)
    parts = by_parts.pull(0.5 * alpha, alpha, -0.5, None)
    np.testing.assert_allclose(jax.tree.leaves(bar), jax.tree.leaves(parts), rtol=1e-9)
    np.testing.assert_array_equal(by_parts.pull_evidence(z)[1], variances)
