"""Matrix identities on random matrices; A.N3-A.N5, A.N9, B.MB3-B.MB5, C.LIN1, C.LIN3, C.LIN4, C.LIN6,
D.GI3.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mercer.linalg import identities as ids

cases = given(seed=st.integers(0, 10**6), n=st.integers(2, 7), m=st.integers(1, 3))
steady = settings(derandomize=True, deadline=None, max_examples=25)
inv = np.linalg.inv


def regular(rng, n):
    """A matrix with no symmetry that is safely invertible."""
    return rng.normal(size=(n, n)) + 4 * np.sqrt(n) * np.eye(n)


def positive(rng, n, rank=None):
    B = rng.normal(size=(n, n if rank is None else rank))
    return B @ B.T + (0.3 * np.eye(n) if rank is None else 0.0)


@steady
@cases
def test_matrix_inversion_lemma(seed, n, m):
    """A.N3, B.MB3, C.LIN1, D.GI3: (A.9) as an inverse and as a solve, Z full or diagonal, U ≠ V."""
    rng = np.random.default_rng(seed)
    Z, W = regular(rng, n), regular(rng, m)
    U, V, b = 0.3 * rng.normal(size=(n, m)), 0.3 * rng.normal(size=(n, m)), rng.normal(size=(n, 2))
    expected = inv(Z + U @ W @ V.T)
    np.testing.assert_allclose(ids.woodbury_inverse(inv(Z), U, W, V), expected, rtol=1e-9, atol=1e-11)
    book = inv(Z) - inv(Z) @ U @ inv(inv(W) + V.T @ inv(Z) @ U) @ V.T @ inv(Z)
    np.testing.assert_allclose(ids.woodbury_inverse(inv(Z), U, W, V), book, rtol=1e-9, atol=1e-11)
    np.testing.assert_allclose(ids.woodbury_solve(Z, U, W, b, V), expected @ b, rtol=1e-9, atol=1e-11)
    d = rng.uniform(0.5, 2, size=n)
    S = positive(rng, m)
    np.testing.assert_allclose(
        ids.woodbury_solve(d, U, S, b[:, 0]), inv(np.diag(d) + U @ S @ U.T) @ b[:, 0], rtol=1e-8, atol=1e-10
    )


@steady
@cases
def test_determinant_lemma(seed, n, m):
    """A.N3, B.MB3: (A.10), sign included, and with a singular W, where |W| |W⁻¹ + …| would be 0 · ∞."""
    rng = np.random.default_rng(seed)
    Z, U, V, W = (
        rng.normal(size=(n, n)),
        rng.normal(size=(n, m)),
        rng.normal(size=(n, m)),
        rng.normal(size=(m, m)),
    )
    sign, log = ids.woodbury_logdet(Z, U, W, V)
    expected_sign, expected_log = np.linalg.slogdet(Z + U @ W @ V.T)
    assert sign == expected_sign
    np.testing.assert_allclose(log, expected_log, rtol=1e-7, atol=1e-8)
    d = rng.uniform(0.5, 2, size=n)
    np.testing.assert_allclose(
        ids.woodbury_logdet(d, U, np.zeros((m, m)))[1], np.log(d).sum(), rtol=1e-12, atol=1e-13
    )
    np.testing.assert_allclose(
        ids.woodbury_inverse(np.diag(1 / d), U, np.zeros((m, m))), np.diag(1 / d), rtol=1e-12, atol=1e-13
    )


@steady
@cases
def test_kuss_b4_sign(seed, n, m):
    """C.LIN1, D.GI3 with ER7: (A − C B⁻¹ D)⁻¹ = A⁻¹ + A⁻¹ C (B − D A⁻¹ C)⁻¹ D A⁻¹;
    the printed plus sign is wrong.
    """
    rng = np.random.default_rng(seed)
    A, B, C, D = regular(rng, n), regular(rng, m), rng.normal(size=(n, m)), rng.normal(size=(m, n))
    expected = inv(ids.schur_complement(A, C, B, D))
    np.testing.assert_allclose(ids.woodbury_inverse(inv(A), C, -inv(B), D.T), expected, rtol=1e-8, atol=1e-10)
    right = inv(A) + inv(A) @ C @ inv(B - D @ inv(A) @ C) @ D @ inv(A)
    printed = inv(A) + inv(A) @ C @ inv(B + D @ inv(A) @ C) @ D @ inv(A)
    np.testing.assert_allclose(right, expected, rtol=1e-8, atol=1e-10)
    assert np.abs(printed - expected).max() > 1e3 * np.abs(right - expected).max()


@steady
@cases
def test_sums_of_inverses(seed, n, m):
    """C.LIN1 (B.1-B.3): products and sums of inverses; the parallel sum needs neither inverse."""
    rng = np.random.default_rng(seed)
    A, B = positive(rng, n), positive(rng, n)
    np.testing.assert_allclose(inv(A @ B), inv(B) @ inv(A), rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(inv(A) + inv(B), inv(A) @ (A + B) @ inv(B), rtol=1e-8, atol=1e-9)
    np.testing.assert_allclose(ids.parallel_sum(A, B), inv(inv(A) + inv(B)), rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(ids.parallel_sum(A, B), B @ inv(A + B) @ A, rtol=1e-8, atol=1e-10)


def test_parallel_sum_of_singular_matrices():
    """C.LIN1, D.GI2: the range of the parallel sum is where the two ranges meet; a limit of regular sums."""
    A, B = np.diag([2.0, 3.0, 0.0]), np.diag([2.0, 0.0, 5.0])
    np.testing.assert_allclose(ids.parallel_sum(A, B), np.diag([1.0, 0.0, 0.0]), atol=1e-14)
    rng = np.random.default_rng(0)
    A, B = positive(rng, 4, rank=2), positive(rng, 4)
    nearly = A + 1e-8 * np.eye(4)
    np.testing.assert_allclose(ids.parallel_sum(A, B), inv(inv(nearly) + inv(B)), atol=1e-6)
    np.testing.assert_array_equal(ids.parallel_sum(np.zeros((2, 2)), np.zeros((2, 2))), np.zeros((2, 2)))


@steady
@cases
def test_partitioned_inverse(seed, n, m):
    """A.N4, B.MB4, C.LIN1, D.GI3, D.SL2: both forms (A.12) and (A.13) are the blocks of the inverse."""
    rng = np.random.default_rng(seed)
    A = regular(rng, n + m)
    P, Q, R, S = A[:n, :n], A[:n, n:], A[n:, :n], A[n:, n:]
    for eliminate in ("P", "S"):
        P_, Q_, R_, S_ = ids.partitioned_inverse(P, Q, R, S, eliminate)
        np.testing.assert_allclose(np.block([[P_, Q_], [R_, S_]]), inv(A), rtol=1e-8, atol=1e-10)


def test_partitioned_inverse_with_a_singular_block():
    """A.N4: (A.13) serves when P is singular."""
    P, Q, R, S = np.zeros((1, 1)), np.ones((1, 1)), np.ones((1, 1)), np.full((1, 1), 2.0)
    blocks = ids.partitioned_inverse(P, Q, R, S, eliminate="S")
    np.testing.assert_allclose([b.item() for b in blocks], inv(np.array([[0.0, 1.0], [1.0, 2.0]])).ravel())
    with pytest.raises(ValueError, match="eliminate"):
        ids.partitioned_inverse(P, Q, R, S, eliminate="Q")


@steady
@given(seed=st.integers(0, 10**6), n=st.integers(1, 7), m=st.integers(1, 7))
def test_penrose_conditions(seed, n, m):
    """C.LIN3, D.GI3 (B.6-B.7): symmetric indefinite, rectangular and zero matrices of any rank."""
    rng = np.random.default_rng(seed)
    rank = int(rng.integers(0, min(n, m) + 1))
    left = rng.normal(size=(n, rank))
    symmetric = left @ np.diag(rng.choice([-1.0, 1.0], size=rank)) @ left.T
    for A in ((symmetric + symmetric.T) / 2, left @ rng.normal(size=(rank, m))):
        X = ids.pseudo_inverse(A, rtol=1e-11)
        assert X.shape == A.T.shape
        assert np.all(ids.penrose_residuals(A, X) < 1e-7)
        np.testing.assert_allclose(
            X, np.linalg.pinv(A, rcond=1e-11), rtol=1e-6, atol=1e-6 * np.abs(X).max(initial=0)
        )


def test_pseudo_inverse_is_the_inverse_and_residuals_notice_others():
    """C.LIN3: A⁺ = A⁻¹ when that exists; a generalised inverse that is not A⁺ passes (B.6) and fails the
    rest.
    """
    A = positive(np.random.default_rng(1), 4)
    np.testing.assert_allclose(ids.pseudo_inverse(A), inv(A), rtol=1e-10)
    singular = np.diag([1.0, 0.0])
    generalised = np.array([[1.0, 2.0], [0.0, 5.0]])
    residuals = ids.penrose_residuals(singular, generalised)
    assert residuals[0] < 1e-15
    assert residuals[1] > 0.1 and residuals[3] > 0.1


@steady
@cases
def test_derivative_rules(seed, n, m):
    """A.N5, B.MB5, C.LIN4, D.GI3: (A.14), (A.15), (B.10) against central differences along A + t dA,
    stacked too.
    """
    rng = np.random.default_rng(seed)
    A, B, dA = regular(rng, n), rng.normal(size=(n, n)), rng.normal(size=(2, n, n))
    rules = [
        (np.linalg.inv, ids.inverse_derivative(A, dA)),
        (lambda M: np.linalg.slogdet(M)[1], ids.logdet_derivative(A, dA)),
        (np.linalg.det, ids.determinant_derivative(A, dA)),
        (lambda M: np.trace(M @ B), ids.trace_derivative(B, dA)),
        (np.trace, ids.trace_derivative(np.eye(n), dA)),
    ]
    h = 1e-5
    for f, derivative in rules:
        differences = np.stack([(f(A + h * d) - f(A - h * d)) / (2 * h) for d in dA])
        np.testing.assert_allclose(
            derivative, differences, rtol=1e-6, atol=1e-8 * max(1, np.abs(differences).max())
        )


def test_gradients_with_respect_to_a_matrix():
    """C.LIN4 (B.11): ∂ log|A|/∂A = A⁻ᵀ and ∂ tr(AB)/∂A = Bᵀ, against automatic differentiation."""
    rng = np.random.default_rng(2)
    A, B = regular(rng, 4), rng.normal(size=(4, 4))
    np.testing.assert_allclose(
        ids.logdet_gradient(A), jax.grad(lambda M: jnp.linalg.slogdet(M)[1])(jnp.asarray(A)), rtol=1e-12
    )
    units = np.eye(16).reshape(16, 4, 4)
    np.testing.assert_allclose(ids.trace_derivative(B, units).reshape(4, 4), B.T, rtol=1e-15)


@steady
@cases
def test_complete_square(seed, n, m):
    """C.LIN6, D.GI2 (B.14): the identity holds at arbitrary x."""
    rng = np.random.default_rng(seed)
    A, B, b, c, x = positive(rng, n), positive(rng, n), *rng.normal(size=(3, n))
    z, Z, rest = ids.complete_square(A, b, B, c)
    two = (x - b) @ inv(A) @ (x - b) + (x - c) @ inv(B) @ (x - c)
    np.testing.assert_allclose((x - z) @ inv(Z) @ (x - z) + rest, two, rtol=1e-7)
    np.testing.assert_allclose(z, inv(inv(A) + inv(B)) @ (inv(A) @ b + inv(B) @ c), rtol=1e-7, atol=1e-8)


def test_complete_square_with_an_exact_form():
    """C.LIN6: a singular A pins the centre to b in its null space instead of failing."""
    z, Z, rest = ids.complete_square(np.diag([1.0, 0.0]), [0.0, 7.0], np.eye(2), [2.0, 3.0])
    np.testing.assert_allclose(z, [1.0, 7.0], rtol=1e-14)
    np.testing.assert_allclose(Z, np.diag([0.5, 0.0]), atol=1e-15)
    np.testing.assert_allclose(rest, 4 / 2 + 16 / 1, rtol=1e-14)


def test_frobenius():
    """A.N9, B.MB5: ‖A‖_F² = Σ a² = tr(AAᵀ), invariant under rotation;
    the inner product bounds by Cauchy-Schwarz.
    """
    rng = np.random.default_rng(3)
    A, B = rng.normal(size=(2, 3, 4))
    assert ids.frobenius_norm([[3.0, 0.0], [0.0, 4.0]]) == 5.0
    np.testing.assert_allclose(ids.frobenius_norm(A) ** 2, np.trace(A @ A.T), rtol=1e-13)
    rotation = np.linalg.qr(rng.normal(size=(3, 3)))[0]
    np.testing.assert_allclose(ids.frobenius_norm(rotation @ A), ids.frobenius_norm(A), rtol=1e-13)
    np.testing.assert_allclose(ids.frobenius_inner(A, B), np.trace(A @ B.T), rtol=1e-12)
    assert abs(ids.frobenius_inner(A, B)) < ids.frobenius_norm(A) * ids.frobenius_norm(B)
    assert ids.frobenius_norm(np.stack([A, B])).shape == (2,)
    np.testing.assert_allclose(ids.trace_of_product(A, B.T), np.trace(A @ B.T), rtol=1e-12)


def test_jax_arrays_stay_jax_arrays():
    """The solve-and-multiply identities run under jit and differentiate."""
    rng = np.random.default_rng(4)
    Z, U, W, b = positive(rng, 4), rng.normal(size=(4, 2)), positive(rng, 2), rng.normal(size=4)
    expected = np.linalg.solve(Z + U @ W @ U.T, b)
    jitted = jax.jit(ids.woodbury_solve)(Z, U, W, b)
    assert isinstance(jitted, jax.Array)
    np.testing.assert_allclose(jitted, expected, rtol=1e-9)
    gradient = jax.grad(lambda scale: ids.woodbury_logdet(Z, U, scale * W)[1])(1.0)
    np.testing.assert_allclose(gradient, np.trace(inv(Z + U @ W @ U.T) @ U @ W @ U.T), rtol=1e-9)
    assert isinstance(ids.schur_complement(Z, U, W), np.ndarray)
