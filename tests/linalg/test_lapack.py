"""Triangular solutions by BLAS, where one column has a routine of its own; inverses in two halves."""

import numpy as np
import pytest

from mercer.linalg import lapack
from mercer.linalg.cholesky import factor, invert, invert_factor, multiply_factor


@pytest.mark.parametrize("transpose", [False, True])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_one_column_as_several(dtype, transpose):
    rng = np.random.default_rng(0)
    U = np.triu(rng.normal(size=(60, 60)) + 20.0 * np.eye(60)).astype(dtype)
    block = np.full((70, 70), np.nan, dtype)  # whose leading dimension is another
    block[:60, :60] = U
    B = np.asfortranarray(rng.normal(size=(60, 3)), dtype)
    expected = np.linalg.solve(U if transpose else U.T, B)
    rounding = 100 * np.finfo(dtype).eps
    for B_some, wanted in ((B, expected), (B[:, :1], expected[:, :1]), (B[:, 0], expected[:, 0])):
        out = lapack.solve_lower(block[:60, :60], B_some.copy(order="F"), transpose)
        np.testing.assert_allclose(out, wanted, rtol=0, atol=rounding)


@pytest.mark.parametrize("n", [0, 5, 64, 150])
def test_the_diagonal_of_an_inverse_is_there_halfway(n):
    A = np.random.default_rng(1).normal(size=(n, n + 5))
    M = A @ A.T + np.eye(n)
    factor(lambda buffer: np.copyto(buffer, M), U := np.empty((n, n)))
    whole = U.copy()
    invert(whole)
    invert_factor(U)
    np.testing.assert_allclose(lapack.row_squares(U), np.diag(whole), rtol=1e-12)
    multiply_factor(U)
    np.testing.assert_allclose(np.triu(U), np.triu(whole), rtol=1e-12, atol=1e-14)
