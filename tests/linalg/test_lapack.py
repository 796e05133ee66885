"""Triangular solutions by BLAS: one column has a routine of its own."""

import numpy as np
import pytest

from mercer.linalg import lapack


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
