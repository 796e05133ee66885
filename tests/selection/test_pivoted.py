"""Pivoted incomplete Cholesky (SP4)."""

import numpy as np
import pytest

from mercer import kernels as k
from mercer.linalg import tiles
from mercer.selection import pivoted_cholesky

X = np.random.default_rng(0).normal(size=(90, 2))
KERNEL = k.SE([0.8, 1.5], 1.7)


def test_equals_nystrom_on_its_pivots():
    """G G' = K_nm K_mm^-1 K_mn (8.4), and the diagonal that is left is that of K - G G'."""
    G, pivots, rest = pivoted_cholesky(KERNEL, X, 12)
    K = KERNEL(X)
    nystrom = K[:, pivots] @ np.linalg.solve(K[np.ix_(pivots, pivots)], K[pivots])
    np.testing.assert_allclose(G @ G.T, nystrom, rtol=0, atol=1e-12)
    np.testing.assert_allclose(rest, np.diag(K - G @ G.T), rtol=0, atol=1e-13)
    assert rest.sum() == pytest.approx(np.trace(K) - np.sum(G**2), abs=1e-12)
    assert len(set(pivots)) == 12


def test_pivots_are_greedy():
    """Every pivot has the largest conditional variance given those before it."""
    _, pivots, _ = pivoted_cholesky(k.Linear(1.0) + KERNEL, X, 8)
    K = (k.Linear(1.0) + KERNEL)(X)
    for j in range(8):
        past = pivots[:j]
        left = np.diag(K) - np.einsum("ij,ji->i", K[:, past], np.linalg.solve(K[np.ix_(past, past)], K[past]))
        assert left[pivots[j]] == pytest.approx(left.max(), rel=1e-12)


def test_all_rows_give_the_matrix():
    """Rank n: K itself, of a kernel rough enough to have full rank."""
    kernel = k.Matern(0.5, nu=0.5)
    G, pivots, rest = pivoted_cholesky(kernel, X, 1000)
    assert G.shape == (90, 90) and sorted(pivots) == list(range(90))
    np.testing.assert_allclose(G @ G.T, kernel(X), rtol=0, atol=1e-14)
    assert not rest.any()


def test_tolerance_and_repeated_rows():
    """It stops when little enough is left; a repeated row is never a pivot twice;
    a kernel of rank 3 needs 3.
    """
    G, pivots, rest = pivoted_cholesky(KERNEL, X, 90, tol=1e-2)
    total = np.trace(KERNEL(X))
    assert rest.sum() <= 1e-2 * total < rest.sum() + G[:, -1] @ G[:, -1]
    twice = np.concatenate([X[:5], X[:5]])
    _, pivots, _ = pivoted_cholesky(k.Matern(nu=0.5), twice, 10)
    assert sorted(i % 5 for i in pivots) == list(range(5))
    assert pivoted_cholesky(k.Linear(0.5) + k.Constant(2.0), X, 20)[0].shape[1] == 3


def test_panels_and_bad_rank():
    """Encoded tiles serve as well as inputs, whatever their size."""
    kernel = KERNEL.bind(2)
    panels = tiles.Panels(kernel.encode(X), 32)
    for ours, theirs in zip(pivoted_cholesky(kernel, panels, 7), pivoted_cholesky(KERNEL, X, 7), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-12)
    with pytest.raises(ValueError, match="at least 1"):
        pivoted_cholesky(KERNEL, X, 0)
