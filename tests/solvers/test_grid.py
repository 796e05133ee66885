"""Kronecker and Toeplitz solvers against the reference integral: they are exact."""

import numpy as np
import pytest

import mercer as mc
from mercer import kernels as k
from mercer import means
from mercer.inputs import as_inputs
from mercer.solvers import Dense, Kronecker, Sites, SolverError, Toeplitz, WithBasis

from .conformance import Case, assert_pullback, assert_views, bars_of, central, found_cotangents, reference

RNG = np.random.default_rng(0)
AXES = (np.array([0.0, 0.3, 1.0, 1.2]), np.array([-1.0, 0.5, 2.0]), np.array([0.1, 0.7]))


def grid(*axes, seed=1):
    """All combinations, shuffled."""
    X = np.stack([a.ravel() for a in np.meshgrid(*axes, indexing="ij")], 1)
    return X[np.random.default_rng(seed).permutation(len(X))]


MEAN2, MEAN3, MEAN1 = (
    means.Linear([0.3, -0.2], 0.5),
    means.Linear([0.3, -0.2, 0.1], 0.5),
    means.Linear([0.3], 0.5),
)
LINE = np.random.default_rng(2).permutation(0.37 * np.arange(11) - 1.0)[:, None]
CASES = [
    Case("se-ard", Kronecker(), mc.GP(k.SE([0.9, 1.4], 1.3), MEAN2)),
    Case(
        "product",
        Kronecker(),
        mc.GP(
            1.7
            * (
                k.Matern(0.7, nu=1.5).on(0) * ((k.Linear(0.4) + k.Constant(0.3)) * k.Periodic(1.1, 0.8)).on(1)
            ),
            MEAN2,
        ),
    ),
    Case(
        "tied",
        Kronecker(),
        mc.GP(k.Matern([0.7, 0.9], nu=2.5).on(2, 0) * k.RationalQuadratic(0.8, 0.6).on(1), MEAN3),
    ),
    Case("three", Kronecker(), mc.GP(k.SE([0.9, 1.4, 0.5], 0.8) * k.Constant(2.0), MEAN3)),
    Case("toeplitz", Toeplitz(), mc.GP(k.Matern(0.9, 1.3, nu=1.5) + k.Periodic(1.3, 0.9, 0.4), MEAN1)),
]
each = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
slopes = pytest.mark.parametrize("slope", [False, True], ids=["plain", "slope"])
close = dict(rtol=1e-9, atol=1e-10)


def problem(case):
    if isinstance(case.solver, Toeplitz):
        return LINE, RNG.uniform(-2, 4, size=(5, 1))
    d = len(case.gp.mean.weights) if hasattr(case.gp.mean, "weights") else 2
    return grid(*AXES[:d]), np.random.default_rng(3).normal(size=(5, d))


def sites(n, slope, w=4.0):
    rng = np.random.default_rng(4)
    return Sites(rng.normal(size=(n, 1)), np.full((n, 1), w), rng.normal(size=(n, 1)) if slope else None)


@slopes
@each
def test_everything_is_exact(case, slope):
    """Log normaliser, marginals, dual, R V, K V and predictions."""
    X, Xs = problem(case)
    n = len(X)
    V = np.random.default_rng(5).normal(size=(n, 3))
    s = sites(n, slope)
    state, expected = case.solver.factor(case.gp.bind(as_inputs(X)), X, s), reference(case.gp, X, s, Xs, V)
    assert state.log_normaliser == pytest.approx(expected["log_normaliser"], rel=1e-10, abs=1e-10)
    assert_views(state, expected, Xs, V, **close)
    K = case.gp.kernel(X)
    np.testing.assert_allclose(state.times_K(V), K @ V, **close)
    np.testing.assert_allclose(state.cross(Xs, V), case.gp.kernel(Xs, X) @ V, **close)


@slopes
@pytest.mark.parametrize("quantity", ["log_normaliser", "mean", "var", "alpha", "kappa", "apply"])
@each
def test_pullback(case, quantity, slope):
    """Every bar against central differences of the reference; the inputs are refused."""
    X, _ = problem(case)
    n, s = len(X), sites(len(X), slope)
    bar = bars_of(np.random.default_rng(7).normal(size=(n, 3)))[quantity]
    state = case.solver.factor(case.gp.bind(as_inputs(X)), X, s)
    assert_pullback(state, case.gp, X, s, quantity, bar, atol=5e-8)


@pytest.mark.parametrize("case", [CASES[1], CASES[4]], ids=lambda case: case.name)
def test_evidence_gradient_by_finite_differences(case):
    """Through the front door: the noise variance, and the first hyperparameter of the kernel."""
    X, _ = problem(case)
    y = np.sin(X[:, 0])
    value = lambda gp, noise: mc.log_evidence_and_gradient(gp, X, y, noise, solver=case.solver)  # noqa: E731
    _, gradient = value(case.gp, 0.2)
    slope = central(lambda noise: value(case.gp, float(noise))[0], 0.2)
    assert gradient["likelihood.noise_variance"] == pytest.approx(float(slope), rel=1e-7)
    first = mc.params.parameters(case.gp.kernel)[0]
    slope = central(
        lambda v: value(mc.GP(mc.params.replace_leaves(case.gp.kernel, {first.name: v}), case.gp.mean), 0.2)[
            0
        ],
        first.value,
    )
    np.testing.assert_allclose(gradient[f"kernel.{first.name}"], slope, rtol=1e-7)


def test_silent_sites():
    """w = 0: the posterior is the prior."""
    for case in (CASES[0], CASES[4]):
        X, _ = problem(case)
        state = case.solver.factor(case.gp.bind(as_inputs(X)), X, sites(len(X), False, w=0.0))
        assert state.log_normaliser == 0.0
        np.testing.assert_allclose(state.variances(), np.diag(case.gp.kernel(X)), rtol=1e-12)
        assert not state.alpha.any()


@pytest.mark.parametrize("noise", [1e-2, 1e-6])
def test_toeplitz_is_accurate_where_it_is_hard(noise):
    """A smooth kernel on 300 points with little noise: condition numbers of 1e4 and 1e8."""
    x = np.linspace(0, 10, 300)[:, None]
    y = np.sin(x[:, 0])
    prior = mc.GP(k.SE(0.8, 1.5)).bind(as_inputs(x))
    s = Sites(y[:, None], np.full((300, 1), 1 / noise))
    ours, dense = Toeplitz().factor(prior, x, s), Dense().factor(prior, x, s)
    assert ours.log_normaliser == pytest.approx(dense.log_normaliser, rel=1e-8)
    np.testing.assert_allclose(ours.mean(), dense.mean(), rtol=0, atol=1e-8)
    np.testing.assert_allclose(ours.variances(), dense.variances(), rtol=0, atol=1e-3 * noise)
    a, b = (found_cotangents(state.pullback(1.0)) for state in (ours, dense))
    for name in ("kernel.lengthscale", "kernel.variance"):
        assert a[name] == pytest.approx(b[name], rel=1e-5)


def test_basis_functions():
    """A vague trend on top of a grid."""
    x = np.linspace(0, 3, 25)[:, None]
    gp = mc.GP(k.Matern(0.9, nu=1.5), basis=means.Polynomial(1)).bind(as_inputs(x))
    ours, dense = (WithBasis(solver).factor(gp, x, sites(25, False)) for solver in (Toeplitz(), Dense()))
    assert ours.log_normaliser == pytest.approx(dense.log_normaliser, rel=1e-10)
    np.testing.assert_allclose(ours.predict(x + 0.1)[1], dense.predict(x + 0.1)[1], rtol=1e-8)


@pytest.mark.parametrize("solver", ["kronecker", "toeplitz"])
def test_regressor(solver):
    """Learning finds what the dense solver finds."""
    rng = np.random.default_rng(9)
    X = (
        grid(np.linspace(0, 2, 8), np.linspace(-1, 1, 6))
        if solver == "kronecker"
        else np.linspace(0, 4, 40)[:, None]
    )
    y = np.sin(2 * X[:, 0]) + X[:, -1] + 0.1 * rng.normal(size=len(X))
    kernel = k.SE(np.ones(X.shape[1]))
    ours, dense = (mc.GPRegressor(kernel, solver=s, restarts=0).fit(X, y) for s in (solver, "dense"))
    np.testing.assert_allclose(ours.predict(X + 0.05), dense.predict(X + 0.05), rtol=0, atol=1e-4)
    assert ours.posterior_.log_evidence == pytest.approx(dense.posterior_.log_evidence, abs=1e-5)


def test_kronecker_on_a_large_grid():
    """n = 40,000 = 200 x 200: the axes' matrices only;
    a part of it checked by the identity (K + I / w) alpha = y.
    """
    X = grid(np.linspace(0, 5, 200), np.linspace(0, 5, 200))
    y = np.sin(X[:, 0]) * X[:, 1]
    state = Kronecker().factor(
        mc.GP(k.Matern(0.7, nu=1.5).on(0) * k.SE(0.9).on(1)).bind(as_inputs(X)),
        X,
        Sites(y[:, None], np.full((40_000, 1), 10.0)),
    )
    np.testing.assert_allclose(
        state.times_K(state.alpha[:, None])[:, 0] + state.alpha / 10, y, rtol=0, atol=1e-9
    )
    mean, variance = state.predict(X[:3])
    np.testing.assert_allclose(mean, state.mean()[:3], rtol=1e-9)
    np.testing.assert_allclose(variance[:, 0], state.variances()[:3], rtol=1e-7)


def test_refusals():
    """No grid, no product, no stationarity, no single noise variance:
    said with a solver that does without.
    """
    x, X = LINE, grid(*AXES[:2])

    def fit(solver, kernel, X, s=None):
        return solver.factor(mc.GP(kernel).bind(as_inputs(X)), X, s or sites(len(X), False))

    uneven = Sites(np.zeros((len(X), 1)), np.linspace(1, 2, len(X))[:, None])
    for ask, message in (
        (lambda: fit(Kronecker(), k.SE(), X[:-1]), "11 data at 11"),
        (lambda: fit(Kronecker(), k.SE(), np.concatenate([X[:-1], X[:1]])), "12 data at 11"),
        (lambda: fit(Kronecker(), k.Matern(), X), "ties all columns"),
        (lambda: fit(Kronecker(), k.SE(loadings=[[1.0], [2.0]]), X), "ties all columns"),
        (lambda: fit(Kronecker(), k.SE(), X, uneven), "same noise variance"),
        (lambda: fit(Toeplitz(), k.SE(), X), "one input column"),
        (lambda: fit(Toeplitz(), k.Linear(), x), "stationary"),
        (lambda: fit(Toeplitz(), k.SE(), x**2), "equal distances"),
        (lambda: fit(Toeplitz(), k.SE(), np.zeros((4, 1))), "equal distances"),
        (
            lambda: fit(Toeplitz(), k.SE(), x, Sites(uneven.centre[:11], uneven.precision[:11])),
            "same noise variance",
        ),
    ):
        with pytest.raises(SolverError, match=message) as error:
            ask()
        assert "ConjugateGradient" in str(error.value)


@pytest.mark.parametrize("solver", [Kronecker(), Toeplitz()], ids=["kronecker", "toeplitz"])
def test_several_latent_functions_are_refused(solver):
    with pytest.raises(SolverError, match="dense"):
        solver.workspace((mc.GP(k.SE()), mc.GP(k.SE())), LINE)
