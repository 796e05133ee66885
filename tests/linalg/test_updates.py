"""Updates of factors and inverses equal factoring and inverting afresh; A.N4, A.N6, B.MB4, B.MB6, C.LIN5."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mercer.linalg import updates as up

cases = given(seed=st.integers(0, 10**6), n=st.integers(1, 8))
steady = settings(derandomize=True, deadline=None, max_examples=25)
close = dict(rtol=1e-9, atol=1e-10)


def positive(rng, n):
    B = rng.normal(size=(n, n))
    return B @ B.T + 0.5 * np.eye(n)


@steady
@cases
def test_rank_one_update_and_downdate(seed, n):
    """C.LIN5, A.N6, B.MB6: the factors of A ± vvᵀ; arguments are left alone."""
    rng = np.random.default_rng(seed)
    A, v = positive(rng, n), rng.normal(size=n)
    L = np.linalg.cholesky(A)
    before = L.copy(), v.copy()
    up_L = up.cholesky_update(L, v)
    np.testing.assert_allclose(up_L, np.linalg.cholesky(A + np.outer(v, v)), **close)
    np.testing.assert_allclose(up.cholesky_downdate(up_L, v), L, **close)
    np.testing.assert_array_equal(L, before[0])
    np.testing.assert_array_equal(v, before[1])
    V = rng.normal(size=(n, 3))
    np.testing.assert_allclose(up.cholesky_update(L, V), np.linalg.cholesky(A + V @ V.T), **close)


def test_downdate_refuses_to_leave_the_positive_definite():
    """C.LIN5: taking away more than there is raises instead of returning nonsense."""
    with pytest.raises(np.linalg.LinAlgError, match="not positive definite"):
        up.cholesky_downdate(np.eye(3), [0.0, 1.5, 0.0])
    with pytest.raises(ValueError, match=r"got \(3, 3\) and \(2,\)"):
        up.cholesky_update(np.eye(3), [0.0, 1.5])


def test_downdate_is_accurate_near_singularity():
    """C.LIN5: downdating to a smallest eigenvalue of 1e-8 keeps the product to rounding."""
    rng = np.random.default_rng(0)
    A = positive(rng, 6)
    L = np.linalg.cholesky(A)
    direction = rng.normal(size=6)
    v = L @ direction / np.linalg.norm(direction) * np.sqrt(1 - 1e-8)
    D = up.cholesky_downdate(L, v)
    np.testing.assert_allclose(D @ D.T, A - np.outer(v, v), atol=1e-13 * np.abs(A).max())


@steady
@cases
def test_rows_come_and_go(seed, n):
    """C.LIN5, A.N4: append a block, insert anywhere, remove anywhere: the factor of the changed matrix."""
    rng = np.random.default_rng(seed)
    A = positive(rng, n + 2)
    full = np.linalg.cholesky(A)
    np.testing.assert_allclose(up.cholesky_append(full[:n, :n], A[:n, n:], A[n:, n:]), full, **close)
    np.testing.assert_allclose(up.cholesky_append(full[:-1, :-1], A[:-1, -1], A[-1, -1]), full, **close)
    for index in range(n + 2):
        fewer = np.linalg.cholesky(np.delete(np.delete(A, index, 0), index, 1))
        np.testing.assert_allclose(up.cholesky_remove(full, index), fewer, **close)
        np.testing.assert_allclose(up.cholesky_insert(fewer, index, A[index]), full, **close)


def test_repeated_row_is_refused():
    """C.LIN5: a noise-free duplicate makes the matrix singular, and says so."""
    L = np.linalg.cholesky(np.array([[4.0, 2.0], [2.0, 5.0]]))
    with pytest.raises(np.linalg.LinAlgError):
        up.cholesky_append(L, [4.0, 2.0], 4.0)
    with pytest.raises(np.linalg.LinAlgError, match="pivot"):
        up.cholesky_insert(L, 1, [4.0, 4.0, 2.0])
    with pytest.raises(ValueError, match="3 numbers"):
        up.cholesky_insert(L, 1, [4.0, 4.0])
    with pytest.raises(ValueError, match="no row 2"):
        up.cholesky_remove(L, 2)


@steady
@cases
def test_inverse_updates(seed, n):
    """C.LIN5, A.N4, B.MB4: rank-one change, one row more, one row less, each from the known inverse."""
    rng = np.random.default_rng(seed)
    A, u, v = positive(rng, n + 1), rng.normal(size=n + 1), rng.normal(size=n + 1)
    A_inverse = np.linalg.inv(A)
    np.testing.assert_allclose(up.inverse_update(A_inverse, u), np.linalg.inv(A + np.outer(u, u)), **close)
    back = up.inverse_update(up.inverse_update(A_inverse, u), u, scale=-1.0)
    np.testing.assert_allclose(back, A_inverse, rtol=1e-7, atol=1e-8)
    small = 0.1 * A_inverse @ A_inverse @ v
    np.testing.assert_allclose(
        up.inverse_update(A_inverse, u, small, 0.3),
        np.linalg.inv(A + 0.3 * np.outer(u, small)),
        rtol=1e-6,
        atol=1e-7,
    )
    for index in range(n + 1):
        fewer = np.linalg.inv(np.delete(np.delete(A, index, 0), index, 1))
        np.testing.assert_allclose(up.inverse_remove(A_inverse, index), fewer, **close)
    np.testing.assert_allclose(
        up.inverse_append(np.linalg.inv(A[:-1, :-1]), A[:-1, -1], A[-1, -1]), A_inverse, rtol=1e-7, atol=1e-8
    )


def test_singular_inverse_updates_are_refused():
    """C.LIN5: a change that makes the matrix singular has no inverse."""
    with pytest.raises(np.linalg.LinAlgError, match="singular"):
        up.inverse_update(np.eye(2), [1.0, 0.0], scale=-1.0)
    with pytest.raises(np.linalg.LinAlgError, match="singular"):
        up.inverse_append(np.eye(1), [1.0], 1.0)
