"""KISS-GP: exact for data on the points of its grid, close to exact on a fine one, and what it says of both.
E.SK1.
"""

import numpy as np
import pytest

import mercer as mc
from mercer import kernels as k
from mercer.inputs import as_inputs
from mercer.linalg.lattice import Lattice, LatticeToeplitz
from mercer.solvers import KISS, Dense, Sites, SolverError

from .conformance import KINDS, N, assert_pullback, assert_views, bars_of, found_cotangents, reference, sites

KERNEL = k.Matern([0.9, 1.4], 1.3, nu=2.5) + 0.4 * k.SE(0.8)
GP = mc.GP(KERNEL, mc.means.Linear([0.3, -0.2], 0.5))
GRID = KISS(grid=(5, 4), box=((0.0, 2.0), (0.0, 1.5)), tol=1e-13)
RNG = np.random.default_rng(3)
X = 0.5 * np.column_stack([RNG.integers(0, 5, N), RNG.integers(0, 4, N)])  # points of the grid, some twice
XS = np.array([[0.5, 1.0], [2.0, 1.5], [2.7, -0.3], [0.1, 4.0]])  # two of its points, two outside
V = np.random.default_rng(5).normal(size=(N, 3))


def state_of(kind):
    return GRID.factor(GP.bind(as_inputs(X)), X, sites(kind))


def spread(n: int, seed: int = 0, noise: float = 0.05):
    """A prior, inputs between points of any grid, and the sites of noisy data."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(0.0, 3.0, (n, 2))
    y = np.sin(2.0 * X[:, 0]) + np.cos(X[:, 1]) + np.sqrt(noise) * rng.normal(size=n)
    prior = mc.GP(k.Matern([0.8, 1.2], 1.3, nu=2.5)).bind(as_inputs(X))
    return prior, X, Sites(y[:, None], np.full((n, 1), 1.0 / noise))


def test_lattice():
    """Interpolation is exact for quadratics; products and sums over lags are those of the covariance matrix,
    also for a kernel that is not the same in mirrored directions.
    """
    lattice = Lattice.over(((-1.0, 1.0), (0.0, 3.0)), (6, 5))
    U, A = lattice.points(), np.random.default_rng(0).uniform([-1.0, 0.0], [1.0, 3.0], (20, 2))
    quadratic = lambda X: 1.0 + X[:, 0] - 2.0 * X[:, 1] + X[:, 0] * X[:, 1] + 0.5 * X[:, 1] ** 2  # noqa: E731
    S = lattice.interpolation(A)
    np.testing.assert_allclose(S @ quadratic(U), quadratic(A), rtol=1e-13)
    assert not lattice.inside(np.array([[1.01, 1.0]]))[0] and lattice.inside(np.array([[1.0, 3.0]]))[0]
    kernel = k.SE([1.0, 2.0], loadings=[[0.5], [-0.3]])
    toeplitz = LatticeToeplitz(lattice)
    spectrum = toeplitz.spectrum(kernel(toeplitz.lags, np.zeros((1, 2)))[:, 0])
    P, Q = np.random.default_rng(1).normal(size=(2, lattice.size, 18))
    np.testing.assert_allclose(toeplitz.times(spectrum, P), kernel(U) @ P, atol=1e-12)
    table = np.random.default_rng(2).normal(size=toeplitz.lags.shape[0])
    sums = toeplitz.lag_sums(P, Q)
    index = np.array(np.unravel_index(np.arange(lattice.size), lattice.shape))
    place = np.ravel_multi_index(
        tuple((index[:, :, None] - index[:, None, :]) % np.array(toeplitz.sizes)[:, None, None]),
        toeplitz.sizes,
    )
    assert sums @ table == pytest.approx(np.sum(P * (table[place] @ Q)), rel=1e-10)
    sparse = S.T @ S
    assert toeplitz.sparse_lag_sums(sparse) @ table == pytest.approx(np.sum(sparse.toarray() * table[place]))


@pytest.mark.parametrize("kind", KINDS)
def test_data_on_the_grid_are_exact(kind):
    """Nothing is interpolated there, and with a preconditioner of all points the log-determinant has no error
    either; test inputs outside the grid are seen by the kernel itself.
    """
    state, expected = state_of(kind), reference(GP, X, sites(kind), XS, V)
    assert state.log_normaliser == pytest.approx(expected["log_normaliser"], rel=1e-9)
    assert state.logdet_error < 1e-8
    assert_views(state, expected, XS, V, rtol=1e-7, atol=1e-8)
    np.testing.assert_allclose(state.cross(XS, V), KERNEL(XS, X) @ V, rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(state.times_K(V), KERNEL(X) @ V, rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(state.smoother(XS), (expected["R"] @ KERNEL(X, XS)).T, rtol=1e-7, atol=1e-8)


@pytest.mark.parametrize("quantity", list(bars_of(V)))
@pytest.mark.parametrize("kind", [pytest.param("per-datum", marks=pytest.mark.slow), "general"])
def test_pullback(kind, quantity):
    """Every bar it declares against central differences of the reference; the others are refused."""
    assert_pullback(state_of(kind), GP, X, sites(kind), quantity, bars_of(V)[quantity])


def test_a_fine_grid_is_the_dense_solver():
    """Between the points of the grid, evidence, derivatives and predictions tend to those of the kernel; the
    probes are as far off as they say.
    """
    prior, X, s = spread(120)
    dense, Xs = Dense().factor(prior, X, s), np.random.default_rng(1).uniform(0.2, 2.8, (5, 2))
    exact = found_cotangents(dense.pullback(1.0))
    errors = []
    for grid in (12, 40):
        state = KISS(grid=grid, rank=300).factor(prior, X, s)
        errors.append(abs(state.log_normaliser - dense.log_normaliser))
        for a, b in zip(state.predict(Xs), dense.predict(Xs), strict=True):
            np.testing.assert_allclose(a, b, atol=0.3 / grid)
    assert errors[1] < 0.1 * errors[0] and errors[1] < 0.02 + 3 * state.logdet_error
    found = found_cotangents(state.pullback(1.0))
    for name, value in exact.items():
        np.testing.assert_allclose(found[name], value, atol=0.02 * np.abs(value).max(), err_msg=name)


@pytest.mark.slow
def test_log_determinant_and_gradient_within_their_errors():
    """Over seeds unbiased and as far off as the notes say, with a preconditioner too small to be exact."""
    prior, X, s = spread(400)
    exact = KISS(grid=16, rank=400).factor(prior, X, s)
    value, slope = exact.logdet, found_cotangents(exact.pullback(1.0))["kernel.variance"]
    assert exact.logdet_error < 1e-6
    states = [KISS(grid=16, rank=15, probes=8, seed=seed).factor(prior, X, s) for seed in range(20)]
    errors, said = (
        np.array(a) for a in zip(*((t.logdet - value, t.logdet_error) for t in states), strict=True)
    )
    assert abs(errors.mean()) < 3 * np.sqrt(np.mean(said**2) / 20)
    assert 0.6 < np.sqrt(np.mean(errors**2) / np.mean(said**2)) < 1.6
    slopes = np.array([found_cotangents(t.pullback(1.0))["kernel.variance"] - slope for t in states])
    along = [float(t.notes[1].split()[-1]) / 1.3 for t in states]
    assert abs(slopes.mean()) < 3 * slopes.std() / np.sqrt(20)
    assert 0.6 < np.sqrt(np.mean(slopes**2) / np.mean(np.square(along))) < 1.6


def test_the_grid_is_chosen_and_what_it_misses_is_told():
    """Enough points for the length-scales and half of them; shorter ones are told of; one column has more."""
    prior, X, s = spread(60)
    solver = KISS(rank=20).prepare(prior, X, s.centre)
    assert solver.box[0] == (X[:, 0].min(), X[:, 0].max()) and solver.grid[0] > solver.grid[1] > 20
    assert "TOO COARSE" not in solver.factor(prior, X, s).notes[2]
    short = mc.GP(k.Matern([0.05, 1.2], 1.3, nu=2.5)).bind(as_inputs(X))
    assert "THE GRID IS TOO COARSE" in solver.factor(short, X, s).notes[2]
    assert KISS().prepare(short, X, s.centre).grid[0] > solver.grid[0]
    rough = mc.GP(k.Matern(0.01, nu=0.5)).bind(as_inputs(X))
    assert np.prod(KISS().prepare(rough, X, s.centre).grid) <= 2**16


@pytest.mark.slow
def test_regressor_and_classifier(tmp_path):
    """Learned by estimators, saved and loaded; Laplace's rule on it gives the dense classes."""
    _, X, s = spread(300)
    y = s.centre[:, 0]
    model = mc.GPRegressor(k.SE([1.0, 1.0]), solver=KISS()).fit(X, y)
    exact = mc.GPRegressor(k.SE([1.0, 1.0])).fit(X, y)
    mean, std = model.predict(X[:10], return_std=True)
    np.testing.assert_allclose(mean, exact.predict(X[:10]), atol=0.02)
    np.testing.assert_allclose(std, exact.predict(X[:10], return_std=True)[1], rtol=0.05)
    assert "a grid of" in model.summary()
    model.save(tmp_path / "grid.mercer")
    np.testing.assert_allclose(mc.load(tmp_path / "grid.mercer").predict(X[:10]), mean, rtol=1e-9)
    classes = mc.Model(mc.GP(k.SE([1.0, 1.0], 3.0)), mc.likelihoods.Bernoulli())
    labels = np.where(y > 0.5, 1, -1)
    ours, dense = (
        classes.condition(X[:80], labels[:80], inference="laplace", solver=solver).probability(X[80:90])
        for solver in (KISS(grid=24, rank=300), "dense")
    )
    np.testing.assert_allclose(ours, dense, atol=2e-3)


def test_what_it_does_not_do_is_refused():
    prior, X, s = spread(20)
    for kernel, inputs, says in (
        (k.Linear(), X, "stationary kernel"),
        (k.SE(), np.zeros((3, 5)), "one to 4 numeric columns"),
    ):
        with pytest.raises(SolverError, match=says):
            KISS().prepare(mc.GP(kernel).bind(as_inputs(inputs)), inputs, inputs)
    with pytest.raises(SolverError, match="one latent function"):
        KISS().workspace((GP, GP), X)
    with pytest.raises(SolverError, match="lies outside the box"):
        KISS(box=((0.0, 1.0), (0.0, 1.0)), grid=8).factor(prior, X, s)
    with pytest.raises(SolverError, match="grid has 3 numbers"):
        KISS(grid=(8, 8, 8)).factor(prior, X, s)
    for bad in (dict(rank=0), dict(probes=1), dict(tol=0.0), dict(grid=1), dict(box=((1.0, 0.0),))):
        with pytest.raises(ValueError, match="KISS"):
            KISS(**bad)
    with pytest.warns(RuntimeWarning, match="raise rank or max_iterations"):
        state = KISS(grid=8, rank=3, max_iterations=2).factor(prior, X, s)
    assert "DID NOT CONVERGE" in state.notes[0]
