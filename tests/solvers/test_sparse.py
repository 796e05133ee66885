"""The sparse solver says what dense says for kernels of compact support,
without ever holding an n x n matrix.
"""

import tracemalloc

import numpy as np
import pytest

import mercer as mc
from mercer import kernels as k
from mercer import means
from mercer.inputs import as_inputs
from mercer.learning import FitWarning
from mercer.linalg.sparse import Elimination
from mercer.solvers import Dense, Sites, SolverError, SparseCholesky, WithBasis, by_name
from mercer.solvers.sparse import support

from .conformance import (
    KINDS,
    MEAN,
    N,
    assert_pullback,
    assert_views,
    bars_of,
    found_cotangents,
    problem,
    reference,
    sites,
)

COMPACT = k.PiecewisePolynomial([0.9, 1.6], 1.3, q=2) * k.Linear(0.4).on(1) + k.PiecewisePolynomial(
    1.1, 0.4, q=3
)
V = np.random.default_rng(5).normal(size=(N, 3))
BARS = bars_of(V)
kinds = pytest.mark.parametrize("kind", KINDS)


# -------------------------------------------------------------------------------------------------
# block-tridiagonal matrices


def pairs_of(A):
    i, j = np.nonzero(np.triu(A))
    return i, j


@pytest.mark.parametrize("kind", ["chain", "scattered", "apart", "full", "one"])
def test_block_cholesky(kind):
    """Log determinant, solves and the inverse on the pattern, against dense algebra;
    also in unconnected parts.
    """
    rng = np.random.default_rng(1)
    n = 1 if kind == "one" else 300
    place = {
        "chain": np.arange(n)[:, None] / 9.0,
        "scattered": rng.uniform(size=(n, 2)) * 9,
        "apart": np.sort(rng.integers(0, 60, n))[:, None] * 3.0 + rng.uniform(size=(n, 1)),
        "full": rng.uniform(size=(n, 2)) / 2,
        "one": np.zeros((1, 1)),
    }[kind]
    A = k.PiecewisePolynomial(1.0, q=1)(rng.permutation(place)) + 0.3 * np.eye(n)
    plan = Elimination(*pairs_of(A), n)
    factor = plan.factor(A[plan.i, plan.j])
    assert factor.logdet == pytest.approx(np.linalg.slogdet(A)[1], rel=1e-12)
    V = rng.normal(size=(n, 3))
    np.testing.assert_allclose(factor.solve(V), np.linalg.solve(A, V), rtol=1e-10, atol=1e-11)
    half = factor.forward(V)
    np.testing.assert_allclose(half.T @ half, V.T @ np.linalg.solve(A, V), rtol=1e-10)
    np.testing.assert_allclose(factor.inverse(), np.linalg.inv(A)[plan.i, plan.j], rtol=1e-10, atol=1e-12)
    assert plan.edges[0] == 0 and plan.edges[-1] == n
    assert plan.bytes == 8 * sum(block.size for block in [*factor.L, *factor.M])
    assert {"chain": plan.widest == 64, "full": plan.widest > 200, "apart": plan.widest < 130}.get(kind, True)


def test_not_positive_definite():
    A = np.eye(100)
    A[70, 70] = -1.0
    plan = Elimination(*pairs_of(A), 100)
    with pytest.raises(np.linalg.LinAlgError, match="not positive definite"):
        plan.factor(A[plan.i, plan.j])


def test_support():
    """Every covariance that is not zero lies in the support, through sums, products, scales and columns;
    little else does.
    """
    rng = np.random.default_rng(0)
    X, XS = rng.uniform(size=(80, 2)) * 5, rng.uniform(size=(30, 2)) * 5
    pp = k.PiecewisePolynomial
    for kernel in (
        pp(1.0),
        2.0 * pp([0.5, 2.0]),
        pp(0.7).on(1),
        pp(1.0).on(0) * pp(1.0).on(1),
        pp(1.0) * k.SE(1.0),
        COMPACT,
    ):
        bound = mc.params.strip(kernel.bind(2))
        for other in (X, XS):
            where, K = support(bound, X, other).toarray() > 0, kernel(X, other)
            assert not K[~where].any()
            assert np.mean(K[where] == 0) < 0.01 and where.mean() < 0.6
    with pytest.raises(
        SolverError, match=r"compact support, such as PiecewisePolynomial.*SE.*solver='dense'"
    ):
        support(k.SE(1.0).bind(2) + pp(1.0).bind(2), X, X)
    with pytest.raises(SolverError, match="compact support"):
        support(k.SE(1.0).bind(2) * k.SE(1.0).bind(2), X, X)


# -------------------------------------------------------------------------------------------------
# conformance


@kinds
def test_views(kind):
    """Everything a State says, against one Gaussian integral in NumPy."""
    X, XS = problem()
    gp = mc.GP(COMPACT, MEAN).bind(as_inputs(X))
    state, expected = SparseCholesky().factor(gp, X, sites(kind)), reference(gp, X, sites(kind), XS, V)
    close = dict(rtol=1e-10, atol=1e-11)
    assert state.log_normaliser == pytest.approx(expected["log_normaliser"], rel=1e-11)
    root = np.sqrt(sites(kind).precision[:, 0])
    B = np.eye(N) + root[:, None] * gp.kernel(X) * root
    assert 2 * np.sum(np.log(state.pivots)) == pytest.approx(np.linalg.slogdet(B)[1], rel=1e-11)
    assert state.jitter == 0.0 and state.notes == ()
    assert_views(state, expected, XS, V, **close)
    np.testing.assert_allclose(state.cross(XS, V), gp.kernel(XS, X) @ V, **close)
    np.testing.assert_allclose(state.times_K(V), gp.kernel(X) @ V, **close)


@pytest.mark.parametrize("kind", ["per-datum", "general"])
@pytest.mark.parametrize("quantity", list(BARS))
def test_pullback(quantity, kind):
    """Each bar against central differences: kernel, mean, centre, precision, slope, inputs."""
    X, _ = problem()
    gp = mc.GP(COMPACT, MEAN)
    state = SparseCholesky().factor(gp.bind(as_inputs(X)), X, sites(kind))
    assert_pullback(state, gp, X, sites(kind), quantity, BARS[quantity])


@kinds
def test_equals_dense_over_several_blocks(kind):
    """To 1e-10: log normaliser, marginals, predictions and all bars at once,
    with seven blocks and several chunks of pairs.
    """
    n = 400
    X, XS = problem(n, 7)
    X, XS = 4 * X, 4 * XS
    gp, given = mc.GP(COMPACT, MEAN).bind(as_inputs(X)), sites(kind, n)
    sparse, dense = (solver.factor(gp, X, given) for solver in (SparseCholesky(), Dense("lapack")))
    assert len(sparse.factor.L) >= 5 and sparse.K.nnz < 0.1 * n**2 and sparse.i.size > 1024
    assert sparse.log_normaliser == pytest.approx(dense.log_normaliser, rel=1e-12)
    for one, other in (
        (sparse.marginals(), dense.marginals()),
        (sparse.predict(XS, full=True), dense.predict(XS, full=True)),
    ):
        for a, b in zip(one, other, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-11)
    given = {
        f"{name}_bar": bar for name, bar in bars_of(np.random.default_rng(5).normal(size=(n, 3))).items()
    }
    one, other = (found_cotangents(state.pullback(**given, inputs=True)) for state in (sparse, dense))
    assert sorted(one) == sorted(other)
    for name, value in other.items():
        np.testing.assert_allclose(
            one[name], value, rtol=1e-10, atol=1e-10 * np.abs(value).max(), err_msg=name
        )


def test_with_basis():
    X, XS = problem()
    gp = mc.GP(COMPACT, MEAN, means.Polynomial(1)).bind(as_inputs(X))
    sparse, dense = (
        WithBasis(solver).factor(gp, X, sites("per-datum")) for solver in (SparseCholesky(), Dense("lapack"))
    )
    assert sparse.log_normaliser == pytest.approx(dense.log_normaliser, rel=1e-11)
    np.testing.assert_allclose(sparse.predict(XS)[1], dense.predict(XS)[1], rtol=1e-10)
    one, other = (found_cotangents(state.pullback(1.0, kappa_bar=np.ones(N))) for state in (sparse, dense))
    for name, value in other.items():
        np.testing.assert_allclose(one[name], value, rtol=1e-9, atol=1e-10, err_msg=name)


def test_a_workspace_is_reused():
    """Holding a prior keeps its covariances; another prior, or another workspace, gets its own or shares."""
    X, _ = problem()
    gp = mc.GP(COMPACT, MEAN).bind(as_inputs(X))
    longer = mc.GP(k.Sum((COMPACT.terms[0], COMPACT.terms[1].with_values(lengthscale=3.0))), MEAN).bind(
        as_inputs(X)
    )
    solver = SparseCholesky()
    workspace, other = solver.workspace(gp, X), solver.workspace(gp, X)
    workspace.hold(gp)
    other.share(workspace)
    for prior in (gp, longer):
        for place in (workspace, other):
            again, afresh = (
                solver.factor(prior, X, sites("noise"), place),
                solver.factor(prior, X, sites("noise")),
            )
            assert again.log_normaliser == afresh.log_normaliser and again.K.nnz == afresh.K.nnz
    assert solver.factor(longer, X, sites("noise"), workspace).K.nnz > workspace.known(gp).K.nnz
    assert other.known(gp) is workspace.known(gp)


# ------------------------------------------------------------------------------------------------- size and
# use


def test_memory_grows_as_the_bandwidth():
    """Factor and gradient in O(n b) bytes: twice the data of the same density take twice the memory,
    far below n^2 numbers.
    """
    peaks, solver = [], SparseCholesky()
    for n in (3000, 6000):
        x = np.random.default_rng(0).uniform(0, n, size=(n, 1))
        gp = mc.GP(k.PiecewisePolynomial(15.0, q=1)).bind(as_inputs(x))
        given = Sites(np.sin(x), np.full((n, 1), 4.0))
        solver.factor(gp, x, given).pullback(1.0)  # compiled
        tracemalloc.start()
        state = solver.factor(gp, x, given)
        state.pullback(1.0)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        assert state.factor.plan.bytes < 8.0 * n * 2 * 80
    assert peaks[1] < 2.3 * peaks[0]
    assert peaks[1] < 0.15 * 8 * 6000**2


def test_learning():
    """The same hyperparameters as dense through the estimator;
    the kernel's length-scale stays within its bounds.
    """
    rng = np.random.default_rng(0)
    x = rng.uniform(size=(150, 2))
    y = np.sin(6 * x[:, 0]) + x[:, 1] + 0.1 * rng.normal(size=150)
    kernel = k.PiecewisePolynomial(mc.param(0.3, bounds=(0.05, 0.6)), q=2)
    for objective in ("evidence", "loo"):
        with pytest.warns(FitWarning, match="kernel.lengthscale is at its upper bound 0.6"):
            one, other = (
                mc.GPRegressor(kernel, objective=objective, solver=s).fit(x, y)
                for s in (SparseCholesky(), None)
            )
        assert one.log_marginal_likelihood_ == pytest.approx(other.log_marginal_likelihood_, abs=1e-6)
        np.testing.assert_allclose(one.predict(x[:9]), other.predict(x[:9]), rtol=1e-5)


@pytest.mark.parametrize("rule", ["laplace", "ep", "variational"])
def test_other_likelihoods(rule):
    """Two classes: evidence and gradient as with dense, for every rule."""
    rng = np.random.default_rng(0)
    x = rng.uniform(size=(60, 1))
    y = np.where(np.sin(9 * x[:, 0]) + 0.3 * rng.normal(size=60) > 0, 1.0, -1.0)
    model = mc.Model(mc.GP(k.PiecewisePolynomial(0.3, 2.0, q=2)), mc.likelihoods.Bernoulli())
    (a, da), (b, db) = (
        mc.log_evidence_and_gradient(model, x, y, inference=rule, solver=s)
        for s in (SparseCholesky(), Dense())
    )
    assert a == pytest.approx(b, rel=1e-9)
    assert sorted(da) == sorted(db)
    for name, value in db.items():
        np.testing.assert_allclose(da[name], value, rtol=1e-6, atol=1e-8, err_msg=name)


def test_notes():
    """Where the support holds most pairs, a note says that dense is faster."""
    x = np.random.default_rng(0).uniform(size=(1100, 1))
    gp = mc.GP(k.PiecewisePolynomial(0.9)).bind(as_inputs(x))
    (note,) = SparseCholesky().factor(gp, x, Sites(x, np.ones((1100, 1)))).notes
    assert "of all pairs: solver='dense' would be faster" in note


def test_nearly_singular():
    """Duplicated rows almost without noise: jitter, reported; entries that are not finite:
    an error with the cause.
    """
    x = np.repeat(np.linspace(0, 1, 6), 2)[:, None]
    given = Sites(np.zeros((12, 1)), np.full((12, 1), 1e20))
    state = SparseCholesky().factor(mc.GP(k.PiecewisePolynomial(0.7, q=3)).bind(as_inputs(x)), x, given)
    assert state.jitter > 0 and np.isfinite(state.log_normaliser)
    with pytest.raises(np.linalg.LinAlgError, match="sparse covariance matrix"), np.errstate(all="ignore"):
        SparseCholesky().factor(mc.GP(k.PiecewisePolynomial(0.7, 1e300)).bind(as_inputs(x)), x, given)


def test_cost():
    """Linear in n for a given bandwidth."""
    solver = SparseCholesky(bandwidth=50)
    assert solver.cost(20_000, 2).flops == 2 * solver.cost(10_000, 2).flops
    assert solver.cost(20_000, 2).bytes == 2 * solver.cost(10_000, 2).bytes >= 16 * 20_000 * 50
    assert SparseCholesky().cost(10_000, 2).bytes >= 16 * 10_000 * 100
    assert SparseCholesky().cost(10_000, 2).flops < 1e-2 * Dense().cost(10_000, 2).flops


def test_errors():
    X, _ = problem()
    gp = mc.GP(COMPACT).bind(as_inputs(X))
    with pytest.raises(
        SolverError, match=r"pairs inside the kernel's support.*length-scale is too long.*memory"
    ):
        SparseCholesky(memory=100.0).factor(gp, X, sites("noise"))
    wide = np.linspace(0, 9, 300)[:, None]
    with pytest.raises(
        SolverError, match=r"a factor would take .* bytes, more than SparseCholesky\.memory = 1e\+05"
    ):
        SparseCholesky(memory=1e5).factor(
            mc.GP(k.PiecewisePolynomial(0.05)).bind(as_inputs(wide)), wide, sites("noise", 300)
        )
    with pytest.raises(SolverError, match="one latent function"):
        SparseCholesky().workspace((gp, gp), X)
    with pytest.raises(SolverError, match=r"compact support.*Matern"):
        mc.GPRegressor(solver=SparseCholesky()).fit(X, X[:, 0])
    assert by_name("sparse-cholesky") == SparseCholesky()
