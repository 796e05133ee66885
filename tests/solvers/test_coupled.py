"""Sites of negative precision and sites that couple latent functions: W = diag(D) - P P',
against one dense Gaussian integral.
"""

import numpy as np
import pytest

import mercer as mc
from mercer import kernels as k
from mercer import means
from mercer.linalg.cholesky import NotPositiveDefinite
from mercer.params import parameters, replace_leaves
from mercer.solvers import Dense, Sites, SolverError, WeightSpace, WithBasis

from .conformance import CASES, FINITE, N, assert_pullback, bars_of, central, problem, reference

X, XS = problem()
V = np.random.default_rng(5).normal(size=(N, 3))
BARS = bars_of(V)
negative = pytest.mark.parametrize(
    "case", [c for c in CASES if "jax" not in c.name], ids=lambda case: case.name
)


def negative_sites() -> Sites:
    rng = np.random.default_rng(4)
    W = np.exp(rng.normal(size=(N, 1)))
    W[2], W[6] = -0.05, -0.1
    W[4] = 0.0
    return Sites(rng.normal(size=(N, 1)), W, rng.normal(size=(N, 1)))


@negative
def test_negative_precision(case):
    """Everything a State says, with two sites of negative precision and one of none."""
    given = negative_sites()
    state, expected = case.solver.factor(case.gp, X, given), reference(case.gp, X, given, XS, V)
    assert state.log_normaliser == pytest.approx(expected["log_normaliser"], rel=1e-10)
    mean, variance = state.marginals()
    np.testing.assert_allclose(mean[:, 0], expected["mean"], rtol=1e-9)
    np.testing.assert_allclose(state.mean()[:, 0], expected["mean"], rtol=1e-9)
    np.testing.assert_allclose(variance[:, 0], expected["var"], rtol=1e-9)
    alpha, kappa = state.dual()
    np.testing.assert_allclose(alpha[:, 0], expected["alpha"], rtol=1e-8, atol=1e-9)
    np.testing.assert_allclose(kappa[:, 0], expected["kappa"], rtol=1e-8, atol=1e-9)
    np.testing.assert_allclose(state.apply(V), expected["apply"], rtol=1e-8, atol=1e-9)
    mean, covariance = state.predict(XS, full=True)
    np.testing.assert_allclose(mean[:, 0], expected["test_mean"], rtol=1e-9)
    np.testing.assert_allclose(covariance, expected["test_covariance"], rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(state.predict(XS)[1][:, 0], np.diag(expected["test_covariance"]), rtol=1e-8)


@pytest.mark.parametrize("bar", BARS)
@negative
def test_negative_pullback(case, bar):
    given, value = negative_sites(), BARS[bar]
    if bar == "mean" and case.gp.basis is not None:
        value = np.where(given.precision[:, 0] != 0, value, 0.0)  # where a site says something
    state = case.solver.factor(case.gp, X, given)
    assert_pullback(state, case.gp, X, given, bar, value, rtol=2e-5, atol=2e-6)


def test_improper():
    """Negative precision beyond what the prior holds is an error, not a number."""
    gp = mc.GP(k.SE(1.0, 1.0))
    with pytest.raises(NotPositiveDefinite, match="not proper"):
        Dense().factor(gp, X, Sites(np.zeros((N, 1)), np.full((N, 1), -2.0)))


# ------------------------------------------------------------------------------------------------- several
# latent functions

GPS = (
    mc.GP(k.SE(1.1, 1.4), means.Constant(0.3)),
    mc.GP(k.Matern([0.8, 1.7], 0.9, nu=1.5)),
    mc.GP(k.SE(2.0, 0.5)),
)
FINITE_GPS = (mc.GP(FINITE), mc.GP(k.Linear([0.5, 0.4]) + k.Constant(1.0)), mc.GP(k.Linear(0.4)))


def block_sites(L: int, kind: str) -> Sites:
    rng = np.random.default_rng(11)
    c, g = rng.normal(size=(N, L)), rng.normal(size=(N, L))
    D = np.exp(rng.normal(size=(N, L)))
    if kind == "softmax":
        D = D / D.sum(1, keepdims=True)
        return Sites(c, D, g, D[:, :, None])
    if kind == "saturated":  # some classes all but impossible
        D = np.where(rng.random((N, L)) < 0.4, 1e-12, D)
        D = D / D.sum(1, keepdims=True)
        return Sites(c, D, g, D[:, :, None])
    if kind == "diagonal":
        return Sites(c, D, g)
    P = 0.4 * rng.normal(size=(N, L, 2)) * np.sqrt(D)[:, :, None]
    D[3, 0] = -0.02
    return Sites(c, D, g, P)


def stacked(gps, sites: Sites, Xs=None):
    """The same from dense algebra on the stacked vector: log normaliser, mean,
    covariance at data (and tests).
    """
    n, L = sites.centre.shape
    Xs = X[:0] if Xs is None else Xs
    both = np.concatenate([X, Xs])
    b = both.shape[0]
    K = np.zeros((L * b, L * b))
    for j, gp in enumerate(gps):
        K[j * b : (j + 1) * b, j * b : (j + 1) * b] = gp.kernel(both)
    m = np.concatenate([np.asarray(gp.mean.value(both), float) for gp in gps])
    data = np.concatenate([np.arange(j * b, j * b + n) for j in range(L)])
    W = np.zeros((L * n, L * n))
    for i in range(n):
        block = np.diag(sites.precision[i])
        if sites.coupling is not None:
            block = block - sites.coupling[i] @ sites.coupling[i].T
        W[np.ix_(i + n * np.arange(L), i + n * np.arange(L))] = block
    c, g = sites.centre.T.ravel(), sites.slope.T.ravel()
    Kd, A = K[np.ix_(data, data)], K[:, data]
    B = np.eye(L * n) + W @ Kd
    delta = c - m[data]
    h = g + W @ delta
    alpha = np.linalg.solve(B, h)
    log_normaliser = (
        -0.5 * np.linalg.slogdet(B)[1] + 0.5 * h @ (Kd @ alpha) - g @ delta - 0.5 * delta @ W @ delta
    )
    mean = m + A @ alpha
    covariance = K - A @ np.linalg.solve(B, W) @ A.T
    return log_normaliser, mean.reshape(L, b).T, covariance.reshape(L, b, L, b)


@pytest.mark.parametrize("kind", ["softmax", "saturated", "diagonal", "general"])
@pytest.mark.parametrize("solver", [Dense(), WeightSpace()], ids=["dense", "weight-space"])
@pytest.mark.parametrize("held", [False, True])
def test_blocks(solver, kind, held):
    gps = GPS if isinstance(solver, Dense) else FINITE_GPS
    given = block_sites(3, kind)
    workspace = None
    if held:
        workspace = solver.workspace(gps, X)
        workspace.hold(gps)
    state = solver.factor(gps, X, given, workspace)
    value, mean, covariance = stacked(gps, given, XS)
    assert state.log_normaliser == pytest.approx(value, rel=1e-9)
    np.testing.assert_allclose(state.mean(), mean[:N], rtol=1e-8, atol=1e-9)
    expected = np.einsum("lipi->ilp", covariance)
    np.testing.assert_allclose(state.marginals()[1], expected[:N], rtol=1e-7, atol=1e-9)
    found, second = state.predict(XS)
    np.testing.assert_allclose(found, mean[N:], rtol=1e-8, atol=1e-9)
    np.testing.assert_allclose(second, expected[N:], rtol=1e-7, atol=1e-9)
    W = np.stack([np.diag(d) for d in given.precision])
    if given.coupling is not None:
        W = W - given.coupling @ np.swapaxes(given.coupling, 1, 2)
    alpha = given.slope + np.einsum("nij,nj->ni", W, given.centre - mean[:N])
    np.testing.assert_allclose(state.alpha, alpha, rtol=1e-7, atol=1e-8)


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("solver", [Dense(), WeightSpace()], ids=["dense", "weight-space"])
def test_block_pullback(solver, shared):
    """Cotangents of the log normaliser and the mean, by central differences of the dense reference."""
    gps = GPS if isinstance(solver, Dense) else FINITE_GPS
    gps = (gps[0],) * 3 if shared else gps
    given, u = block_sites(3, "softmax"), np.random.default_rng(2).normal(size=(N, 3))

    def scalar(gps, sites):
        value, mean, _ = stacked(gps, sites)
        return 1.3 * value + np.sum(u * mean)

    bars = solver.factor(gps, X, given).pullback(1.3, mean_bar=u)
    total: dict[str, np.ndarray] = {}
    for j in range(3):
        for room in ("kernel", "mean"):
            for p in parameters(getattr(bars.prior[j], room)):
                name = f"{0 if shared else j}.{room}.{p.name}"
                total[name] = total.get(name, 0.0) + np.asarray(p.value)
    for j in range(1 if shared else 3):
        for p in parameters(gps[j]):

            def moved(v, j=j, p=p):
                new = replace_leaves(gps[j], {p.name: v})
                return scalar((new,) * 3 if shared else (*gps[:j], new, *gps[j + 1 :]), given)

            np.testing.assert_allclose(
                total[f"{j}.{p.name}"], central(moved, p.value), rtol=1e-5, atol=1e-6, err_msg=p.name
            )
    rest = dict(precision=given.precision, slope=given.slope, coupling=given.coupling)
    expected = central(lambda v: scalar(gps, Sites(v, **rest)), given.centre)
    np.testing.assert_allclose(bars.sites.centre, expected, rtol=1e-5, atol=1e-6)
    expected = central(
        lambda v: scalar(gps, Sites(given.centre, given.precision, v, given.coupling)), given.slope
    )
    np.testing.assert_allclose(bars.sites.slope, expected, rtol=1e-5, atol=1e-6)
    expected = central(
        lambda v: scalar(gps, Sites(given.centre, v, given.slope, given.coupling)), given.precision
    )
    np.testing.assert_allclose(np.einsum("ill->il", bars.sites.precision), expected, rtol=1e-5, atol=1e-6)
    expected = central(
        lambda v: scalar(gps, Sites(given.centre, given.precision, given.slope, v)), given.coupling
    )
    by_block = -2.0 * np.einsum("ilp,ipr->ilr", bars.sites.precision, given.coupling)
    np.testing.assert_allclose(by_block, expected, rtol=1e-5, atol=1e-6)


def test_errors():
    with pytest.raises(SolverError, match="2 priors but the sites have 3"):
        Dense().factor(GPS[:2], X, block_sites(3, "softmax"))
    with pytest.raises(SolverError, match="backend='lapack'"):
        Dense("jax").factor(GPS, X, block_sites(3, "softmax"))
    with pytest.raises(ValueError, match=r"must be \(n, L, r\)"):
        Sites(np.zeros((4, 2)), np.ones((4, 2)), None, np.zeros((4, 3, 1)))
    assert "blocks" in Dense().offers and "blocks" not in WithBasis(Dense()).offers


def test_joint_covariances_hold_those_of_each_point():
    state = Dense().factor(GPS, X, block_sites(3, "softmax"))
    mean, full = state.predict(XS, full=True)
    same, each = state.predict(XS)
    m = len(XS)
    assert full.shape == (m, 3, m, 3)
    np.testing.assert_allclose(mean, same, atol=1e-12)
    np.testing.assert_allclose(np.einsum("iaib->iab", full), each, atol=1e-10)
    flat = full.reshape(3 * m, 3 * m)
    assert np.linalg.eigvalsh(0.5 * (flat + flat.T)).min() > -1e-9
