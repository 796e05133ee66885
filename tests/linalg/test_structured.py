"""Toeplitz and Kronecker algebra, and conjugate gradients, against dense matrices."""

import numpy as np
import pytest
from scipy.linalg import toeplitz

from mercer import kernels as k
from mercer.linalg import tiles
from mercer.linalg.cg import conjugate_gradients, symmetric_times, times
from mercer.linalg.cholesky import NotPositiveDefinite
from mercer.linalg.kronecker import along_axis, kronecker_diagonal, kronecker_times, rows_contract
from mercer.linalg.toeplitz import ToeplitzInverse, correlation, durbin

RNG = np.random.default_rng(0)


@pytest.mark.parametrize("n", [1, 2, 7, 64])
def test_toeplitz_inverse(n):
    """First column, determinant, solutions, diagonal and sums along diagonals of the inverse."""
    column = np.exp(-0.3 * np.arange(n)) + 0.5 * (np.arange(n) == 0)
    T, V = toeplitz(column), RNG.normal(size=(n, 3))
    inverse, ours = np.linalg.inv(T), ToeplitzInverse(column)
    np.testing.assert_allclose(ours.first, inverse[:, 0], rtol=0, atol=1e-13)
    assert ours.logdet == pytest.approx(np.linalg.slogdet(T)[1], rel=1e-12)
    np.testing.assert_allclose(ours.solve(V), inverse @ V, rtol=0, atol=1e-12)
    np.testing.assert_allclose(ours.diagonal(), np.diag(inverse), rtol=0, atol=1e-12)
    np.testing.assert_allclose(
        ours.diagonal_sums(), [np.trace(inverse, m) for m in range(n)], rtol=0, atol=1e-11
    )
    other = RNG.normal(size=n)
    np.testing.assert_allclose(ours.multiply(other, V), toeplitz(other) @ V, rtol=0, atol=1e-12)


def test_durbin_says_when_it_cannot():
    with pytest.raises(NotPositiveDefinite, match="order 2"):
        durbin(np.array([1.0, 1.5, 0.0]))


def test_correlation():
    p, q = RNG.normal(size=(2, 6, 2))
    np.testing.assert_allclose(
        correlation(p, q), [np.trace(p @ q.T, m) for m in range(6)], rtol=0, atol=1e-13
    )


def test_kronecker():
    """Products, diagonals, and contractions with Kronecker products of rows."""
    A = [RNG.normal(size=shape) for shape in ((2, 3), (4, 2), (3, 3))]
    V = RNG.normal(size=(18, 2))
    full = np.kron(np.kron(A[0], A[1]), A[2])
    np.testing.assert_allclose(kronecker_times(A, V), full @ V, rtol=0, atol=1e-13)
    np.testing.assert_allclose(kronecker_diagonal([a[0] for a in A]), full[0], rtol=0, atol=1e-13)
    tensor = RNG.normal(size=(3, 2, 3))
    rows = [RNG.normal(size=(5, n)) for n in tensor.shape]
    np.testing.assert_allclose(
        rows_contract(rows, tensor), np.einsum("ai,aj,ak,ijk->a", *rows, tensor), rtol=0, atol=1e-13
    )
    np.testing.assert_allclose(
        along_axis(A[1], tensor, 1), np.einsum("rj,ijk->irk", A[1], tensor), rtol=0, atol=1e-13
    )


def spd(n, seed=1):
    M = np.random.default_rng(seed).normal(size=(n, n))
    return M @ M.T / n + np.eye(n)


def test_conjugate_gradients():
    """n steps solve; the energy norm of the error falls at each; a zero column takes no step;
    quadrature gives functions of A.
    """
    n = 30
    A, B = spd(n), RNG.normal(size=(n, 4))
    B[:, 2] = 0.0
    exact = np.linalg.solve(A, B)
    solution = conjugate_gradients(lambda V: A @ V, B, 1e-13, 2 * n)
    np.testing.assert_allclose(solution.X, exact, rtol=0, atol=1e-11)
    assert solution.iterations[2] == 0 and solution.iterations.max() <= n + 2
    energies = []
    for steps in range(1, 8):
        error = conjugate_gradients(lambda V: A @ V, B[:, :1], 1e-13, steps).X - exact[:, :1]
        energies.append((error.T @ A @ error).item())
    assert (np.diff(energies) < 0).all()
    values, U = np.linalg.eigh(A)
    for j in (0, 1, 3):
        weights = (U.T @ B[:, j]) ** 2 / (B[:, j] @ B[:, j])
        assert solution.quadrature(np.log)[j] == pytest.approx(weights @ np.log(values), rel=1e-10)


@pytest.mark.parametrize("q", [1, 5, 33])
def test_products_without_the_matrix(q):
    """K V from the tiles of half of K, and K(A, B) V, for any number of columns,
    rows not a multiple of the tile.
    """
    X = RNG.normal(size=(150, 2))
    kernel = k.Matern([0.8, 1.3], nu=1.5).bind(2)
    panels, V = tiles.Panels(kernel.encode(X), 64), RNG.normal(size=(150, q))
    np.testing.assert_allclose(symmetric_times(kernel, panels, V), kernel(X) @ V, rtol=0, atol=1e-12)
    np.testing.assert_allclose(times(kernel, panels, panels, V), kernel(X) @ V, rtol=0, atol=1e-12)


def test_tiles_do_not_share_memory_with_the_inputs():
    """JAX may keep the memory of an array handed to it, if it is aligned: some of these are."""
    for seed in range(20):
        X = np.random.default_rng(seed).standard_normal((64, 3))
        panels, before = tiles.Panels(X, 64), X.copy()
        X[:] = 0.0
        np.testing.assert_array_equal(panels.tiles[0], before)
