"""`State.diagnostics()`: which matrix was factored, and its condition against numpy.linalg.cond."""

import numpy as np
import pytest

import mercer as mc
from mercer import kernels as k
from mercer.solvers import (
    VFE,
    Committee,
    Dense,
    Kronecker,
    Sites,
    SparseCholesky,
    Vecchia,
    WeightSpace,
    WithBasis,
)

from .conformance import FINITE, FULL, GAUSSIAN, MEAN, N, problem, sites
from .test_coupled import GPS, block_sites, negative_sites

X, _ = problem()


def noisy(kernel, W):
    """B = I + W^1/2 K W^1/2, which has the same eigenvalues as C = I + Psi' W Psi, except ones."""
    root = np.sqrt(W)
    return np.eye(len(root)) + root[:, None] * kernel(X) * root


COMPACT = k.PiecewisePolynomial([1.5, 1.5], 1.3, q=1, dimension=2)
SINGLE = [
    ("dense", Dense("lapack"), FULL, None),
    ("jax", Dense("jax"), FULL, None),
    ("basis", WithBasis(Dense()), FULL, GAUSSIAN),
    ("weight-space", WeightSpace(), FINITE, None),
    ("sparse", SparseCholesky(), COMPACT, None),
    ("vecchia", Vecchia(neighbours=N - 1), FULL, None),
    ("vfe", VFE(inducing=X[1:]), FULL, None),
    ("one member", Committee(blocks=1), FULL, None),
]


@pytest.mark.parametrize(("solver", "kernel", "basis"), [c[1:] for c in SINGLE], ids=[c[0] for c in SINGLE])
def test_condition_of_the_factored_matrix(solver, kernel, basis):
    """A lower bound of the condition number of B, and not a trivial one."""
    given = sites("noise")
    state = solver.factor(mc.GP(kernel, MEAN, basis), X, given)
    found = state.diagnostics()
    exact = np.linalg.cond(noisy(kernel, given.precision[:, 0]))
    assert 1.0 < found.condition <= exact * (1 + 1e-9)
    assert found.condition > exact**0.3
    assert found.jitter == state.jitter and found.notes == state.notes


def test_condition_is_exact_on_a_grid():
    axes = np.meshgrid(np.linspace(0, 1, 4), np.linspace(0, 2, 3), indexing="ij")
    grid = np.stack([a.ravel() for a in axes], 1)
    kernel, W = k.SE([0.5, 0.9], 1.3), 4.0
    state = Kronecker().factor(mc.GP(kernel), grid, Sites(np.zeros((12, 1)), np.full((12, 1), W)))
    assert state.diagnostics().condition == pytest.approx(np.linalg.cond(np.eye(12) + W * kernel(grid)))


def coupled_matrices(gps, given: Sites):
    """B of every latent function, and M = I - P'(K - K R K) P, by plain algebra on the stacked functions."""
    W, n = given.precision, N
    D = np.maximum(W, 0.0)
    B = [noisy(gp.kernel, D[:, j]) for j, gp in enumerate(gps)]
    columns = [] if given.coupling is None else list(np.moveaxis(given.coupling, 2, 0))
    P = [np.concatenate([np.diag(c[:, j]) for j in range(len(gps))]) for c in columns]
    for i, j in np.argwhere(W < 0):
        unit = np.zeros((len(gps) * n, 1))
        unit[j * n + i] = np.sqrt(-W[i, j])
        P.append(unit)
    if not P:
        return B, None
    A = np.zeros((len(gps) * n,) * 2)
    for j, gp in enumerate(gps):
        K, root = gp.kernel(X), np.sqrt(D[:, j])
        A[j * n : (j + 1) * n, j * n : (j + 1) * n] = K - (K * root) @ np.linalg.solve(
            B[j], root[:, None] * K
        )
    P = np.concatenate(P, 1)
    return B, np.eye(P.shape[1]) - P.T @ A @ P


@pytest.mark.parametrize("kind", ["softmax", "diagonal", "general", "negative"])
def test_condition_of_coupled_sites(kind):
    """The worst of the matrices that were factored: not that of M alone, and defined where there is no M."""
    given = negative_sites() if kind == "negative" else block_sites(3, kind)
    gps = GPS[:1] if kind == "negative" else GPS
    found = Dense().factor(gps[0] if len(gps) == 1 else gps, X, given).diagnostics()
    B, M = coupled_matrices(gps, given)
    exact = max(np.linalg.cond(matrix) for matrix in [*B, *([] if M is None else [M])])
    assert 1.0 < found.condition <= exact * (1 + 1e-9)
    assert found.condition > exact**0.3


@pytest.mark.parametrize("coupled", [True, False])
def test_condition_of_coupled_sites_is_exact_where_all_is_diagonal(coupled):
    """White noise: every matrix is diagonal, and its condition number is read off the factor."""
    gps = (mc.GP(k.SE(1e-6, 1.4)), mc.GP(k.SE(1e-6, 0.6)))
    x = np.arange(5.0)[:, None]
    D = np.linspace(0.2, 3.0, 10).reshape(5, 2)
    P = 0.3 * np.sqrt(D)[:, :, None] if coupled else None
    found = Dense().factor(gps, x, Sites(np.zeros((5, 2)), D, None, P)).diagnostics()
    variance = np.array([1.4, 0.6])
    B = 1.0 + D * variance
    worst = {"B = I + W^1/2 K W^1/2": max(np.linalg.cond(np.diag(b)) for b in B.T)}
    if coupled:
        M = 1.0 - np.sum(P[:, :, 0] ** 2 * variance / B, 1)
        worst["M = I - P'(K - K R K) P"] = np.linalg.cond(np.diag(M))
    assert found.condition == pytest.approx(max(worst.values()), rel=1e-12)
    assert found.matrix == max(worst, key=worst.get)


def test_rank_and_bounds():
    """Inducing inputs and features are counted; the exact log normaliser lies between the bounds."""
    given, gp = sites("per-datum"), mc.GP(FULL, MEAN)
    found = VFE(inducing=X[2:6]).factor(gp, X, given).diagnostics()
    assert found.rank == 4
    assert found.bounds.lower < Dense().factor(gp, X, given).log_normaliser < found.bounds.upper
    assert Dense().factor(gp, X, given).diagnostics().bounds is None
    assert WeightSpace().factor(mc.GP(k.Linear([1.0, 2.0])), X, given).diagnostics().rank == 2
