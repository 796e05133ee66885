"""Several outputs of common inputs: exact, and p problems of size n in place of one. B.X1, B.X2."""

import numpy as np
import pytest

import mercer as mc
from mercer import kernels as k
from mercer import means
from mercer.columns import Groups
from mercer.inference.exact import Exact
from mercer.inputs import as_inputs
from mercer.solvers import Auto, Dense, Kronecker, Outputs, Sites, SolverError
from mercer.solvers import outputs as module

from .conformance import Case, assert_pullback, assert_views, bars_of, reference

N = 5
LOADINGS, OWN = [[0.9, 0.1], [-0.4, 0.7], [0.5, 0.5]], [0.2, 0.1, 0.3]
MIXING = k.CategoricalCovariance([0.0, 1.0, 2.0], LOADINGS, OWN)
X_SIDE = k.Matern([0.9, 1.4], 1.3, nu=2.5).on(0, 1)
NOISE = k.OutputNoise([[0.4], [-0.3], [0.2]])
CASES = [
    Case("intrinsic", Outputs(), mc.GP(X_SIDE * MIXING.on(3), means.Linear([0.3, -0.2, 0.0, 0.4], 0.5))),
    Case("noise", Outputs(), mc.GP(NOISE.on(2, 3) + MIXING.on(3) * X_SIDE * k.SE(2.0).on(1))),
]
each = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)

close = dict(rtol=1e-9, atol=1e-10)


def long(n=N, p=3, seed=1):
    """Rows (x, x', number, output), shuffled; two rows have the same inputs."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 2))
    x[1] = x[0]
    X = np.column_stack([np.tile(np.column_stack([x, np.arange(n)]), (p, 1)), np.repeat(np.arange(p), n)])
    return X[rng.permutation(n * p)]


X = long()
# new rows, one with an output of the data's own row
XS = np.array([[0.3, 0.1, 8.0, 0.0], [0.3, 0.1, 8.0, 2.0], X[4], [1.0, 2.0, -1.0, 1.0]])


def sites(slope=False):
    rng = np.random.default_rng(4)
    W = np.array([4.0, 0.7, 9.0])[X[:, 3].astype(int), None]
    return Sites(rng.normal(size=(len(X), 1)), W, rng.normal(size=W.shape) if slope else None)


@pytest.fixture
def side(request, monkeypatch):
    monkeypatch.setattr(module, "SPECTRAL", 2 if request.param == "spectral" else 10)


sides = pytest.mark.parametrize("side", ["factored", "spectral"], indirect=True)


@sides
@each
def test_everything_is_exact(case, side):
    """Log normaliser, marginals, dual, R V, K V and predictions."""
    V, s = np.random.default_rng(5).normal(size=(len(X), 3)), sites(slope=True)
    state = case.solver.factor(case.gp.bind(as_inputs(X)), X, s)
    expected = reference(case.gp, X, s, XS, V)
    assert state.log_normaliser == pytest.approx(expected["log_normaliser"], rel=1e-10, abs=1e-10)
    assert_views(state, expected, XS, V, **close)
    np.testing.assert_allclose(state.times_K(V), case.gp.kernel(X) @ V, **close)
    np.testing.assert_allclose(state.cross(XS, V), case.gp.kernel(XS, X) @ V, **close)


@pytest.mark.parametrize("quantity", ["log_normaliser", "mean", "var", "alpha", "kappa", "apply"])
@sides
@each
def test_pullback(case, quantity, side):
    """Every declared bar against central differences of the reference; the rest is refused."""
    s = sites()
    bar = bars_of(np.random.default_rng(7).normal(size=(len(X), 3)))[quantity]
    state = case.solver.factor(case.gp.bind(as_inputs(X)), X, s)
    assert_pullback(state, case.gp, X, s, quantity, bar, atol=5e-8)


@each
def test_it_is_the_dense_evidence(case):
    """Value, gradient in every hyperparameter, predictions with their spread, and leave-one-out, to 1e-8."""
    y, groups = np.sin(X[:, 0]) + X[:, 3], Groups("output", (3,), ((0.0,), (1.0,), (2.0,)), ("a", "b", "c"))
    model = mc.Model(case.gp, mc.likelihoods.Gaussian([0.2, 0.4, 0.1], by=groups, group=X[:, 3]))
    ours, dense = (model.condition(X, y, solver=solver) for solver in (Outputs(), Dense()))
    assert ours.log_evidence == pytest.approx(dense.log_evidence, abs=1e-8)
    for mine, theirs in zip(ours.mean_and_std(XS), dense.mean_and_std(XS), strict=True):
        np.testing.assert_allclose(mine, theirs, atol=1e-8)
    for name in ("mean", "variance", "log_density"):
        np.testing.assert_allclose(getattr(ours.loo(), name), getattr(dense.loo(), name), atol=1e-8)
    bound = model.bind(as_inputs(X))
    mine, theirs = (
        Exact().gradient(bound, y, Exact().run(bound, X, y, solver)) for solver in (Outputs(), Dense())
    )
    assert set(mine) == set(theirs)
    for name, value in theirs.items():
        np.testing.assert_allclose(mine[name], value, atol=1e-8, err_msg=name)


def test_auto_knows_it():
    """Proposed, and chosen, for complete outputs with one noise variance each; not for others."""
    X, gp = long(400, 3), CASES[0].gp
    noise = np.array([0.2, 0.4, 0.1])[X[:, 3].astype(int)]
    assert Auto().choose(gp.bind(as_inputs(X)), X, noise).solver == Outputs(outputs=3)
    for rows, variance in ((X[1:], noise[1:]), (X, noise + X[:, 0] ** 2)):
        assert isinstance(Auto().choose(gp.bind(as_inputs(rows)), rows, variance).solver, Dense)


def test_a_part_of_the_data_has_all_outputs():
    """So that learning can look at it first; a grid has no part."""
    rows = Outputs().some_rows(X, 7, np.random.default_rng(0))
    part = X[rows]
    assert len(rows) == 6 and set(map(tuple, np.unique(part[:, 2:], axis=0))) == {
        (row, output) for row in np.unique(part[:, 2]) for output in range(3)
    }
    assert len(Kronecker().some_rows(X, 7, np.random.default_rng(0))) == len(X)


def test_refusals():
    """Not every output everywhere, no product, noise that varies within an output."""

    def ask(kernel, X, s=None):
        s = s or Sites(np.zeros((len(X), 1)), np.ones((len(X), 1)))
        return Outputs().factor(mc.GP(kernel).bind(as_inputs(X)), X, s)

    product, other = X_SIDE * MIXING.on(3), X.copy()
    other[0, 0] += 1.0
    for attempt, message in (
        (lambda: ask(product, X[:-1]), "4 to 5 inputs"),
        (lambda: ask(product, other), "5 inputs that differ"),
        (lambda: ask(product + X_SIDE, X), "needs one product"),
        (lambda: ask(k.SE(), X), "needs one product"),
        (lambda: ask(X_SIDE * k.SE().on(2, 3), X), "needs one product"),
        (lambda: ask(NOISE.on(1, 3) + product, X), "a number each"),
        (lambda: ask(product, X, Sites(X[:, :1], np.exp(X[:, :1]))), "one noise variance for each output"),
    ):
        with pytest.raises(SolverError, match=message):
            attempt()
    with pytest.raises(SolverError, match="one latent function"):
        Outputs().workspace((mc.GP(product), mc.GP(product)), X)


@pytest.mark.slow
def test_learning_on_a_grid_of_many_points():
    """A coarse look at a part of the data would have no grid."""
    axis = np.linspace(0, 5, 30)
    X = np.stack([a.ravel() for a in np.meshgrid(axis, axis)], 1)
    y = np.sin(X[:, 0]) * X[:, 1] + 0.1 * np.random.default_rng(0).normal(size=len(X))
    model = mc.GPRegressor(k.SE([1.0, 1.0]), solver="kronecker").fit(X, y)
    assert np.sqrt(model.noise_variance_) == pytest.approx(0.1, rel=0.1)
