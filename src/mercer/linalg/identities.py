"""Matrix identities: inverses of sums and of partitioned matrices, pseudo-inverses, derivatives, quadratic
forms.

Functions that only multiply, add and solve return JAX arrays for JAX arrays, under `jit` too; the others
NumPy arrays.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from mercer.linalg.semidefinite import EPS, semidefinite_factor

# Inverses and determinants of sums


def woodbury_solve(Z: Any, U: Any, W: Any, b: Any, V: Any = None) -> Any:
    """(Z + U W Vᵀ)⁻¹ b by the matrix inversion lemma (A.9), factoring only m × m matrices besides Z.

    Z is (n, n), or (n,) for a diagonal; U and V are (n, m), V = U unless given; W is (m, m) and may be
    singular, as the lemma is used in the form Z⁻¹ − Z⁻¹ U (I + W Vᵀ Z⁻¹ U)⁻¹ W Vᵀ Z⁻¹; b is (n,) or (n, k).
    """
    xp, Z, U, W, b = _arrays(Z, U, W, b)
    V = U if V is None else xp.asarray(V)
    Zb = _solve(xp, Z, b)
    ZU = _solve(xp, Z, U)
    core = xp.eye(W.shape[0]) + W @ (V.T @ ZU)
    return Zb - ZU @ _solve(xp, core, W @ (V.T @ Zb))


def woodbury_inverse(Z_inverse: Any, U: Any, W: Any, V: Any = None) -> Any:
    """(Z + U W Vᵀ)⁻¹ from a known Z⁻¹ (A.9); shapes as in `woodbury_solve`.

    With U = C, V = Dᵀ and W = −B⁻¹ this is (A − C B⁻¹ D)⁻¹ = A⁻¹ + A⁻¹ C (B − D A⁻¹ C)⁻¹ D A⁻¹: Kuss's (B.4)
    with its sign put right.
    """
    xp, Zi, U, W = _arrays(Z_inverse, U, W)
    V = U if V is None else xp.asarray(V)
    ZU = Zi @ U
    core = xp.eye(W.shape[0]) + W @ (V.T @ ZU)
    return Zi - ZU @ _solve(xp, core, W @ (V.T @ Zi))


def woodbury_logdet(Z: Any, U: Any, W: Any, V: Any = None) -> tuple[Any, Any]:
    """Sign and log of |Z + U W Vᵀ| = |Z| |I + W Vᵀ Z⁻¹ U| (A.10); shapes as in `woodbury_solve`,
    W may be singular.
    """
    xp, Z, U, W = _arrays(Z, U, W)
    V = U if V is None else xp.asarray(V)
    if Z.ndim == 1:
        sign, log = xp.prod(xp.sign(Z)), xp.sum(xp.log(xp.abs(Z)))
    else:
        sign, log = xp.linalg.slogdet(Z)
    core_sign, core_log = xp.linalg.slogdet(xp.eye(W.shape[0]) + W @ (V.T @ _solve(xp, Z, U)))
    return sign * core_sign, log + core_log


def parallel_sum(A: ArrayLike, B: ArrayLike) -> np.ndarray:
    """(A⁻¹ + B⁻¹)⁻¹ = A (A + B)⁻¹ B for positive semi-definite A and B (B.3), inverting neither: both may be
    singular.

    The result is the covariance of the product of two normals; its range is where the ranges of A and B meet.
    """
    A, B = np.asarray(A, dtype=float), np.asarray(B, dtype=float)
    total = semidefinite_factor(A + B)
    left, right = total.solve(B), total.solve(A)
    return left.T @ A @ left + right.T @ B @ right


# Partitioned matrices


def schur_complement(A: Any, C: Any, B: Any, D: Any = None) -> Any:
    """A − C B⁻¹ D, with D = Cᵀ unless given: what is left of block A of [[A, C], [D, B]] when B is
    eliminated.

    For a joint covariance it is the covariance of x given y; for any matrix its inverse is the A-block of the
    inverse.
    """
    xp, A, C, B = _arrays(A, C, B)
    return A - C @ _solve(xp, B, C.T if D is None else xp.asarray(D))


def partitioned_inverse(P: Any, Q: Any, R: Any, S: Any, eliminate: str = "P") -> tuple[Any, Any, Any, Any]:
    """The four blocks of [[P, Q], [R, S]]⁻¹.

    ``eliminate="P"`` inverts P and M = (S − R P⁻¹ Q)⁻¹ (A.12, B.5); ``"S"`` inverts S and N = (P − Q S⁻¹ R)⁻¹
    (A.13), for when P is singular or S is the one whose inverse is cheap.
    """
    if eliminate == "S":
        S_, R_, Q_, P_ = partitioned_inverse(S, R, Q, P)
        return P_, Q_, R_, S_
    if eliminate != "P":
        raise ValueError(f'eliminate must be "P" or "S", not {eliminate!r}')
    xp, P, Q, R, S = _arrays(P, Q, R, S)
    P_inverse = xp.linalg.inv(P)
    PQ, RP = P_inverse @ Q, R @ P_inverse
    M = xp.linalg.inv(S - R @ PQ)
    return P_inverse + PQ @ M @ RP, -PQ @ M, -M @ RP, M


# Pseudo-inverses


def pseudo_inverse(A: ArrayLike, rtol: float | None = None) -> np.ndarray:
    """The Moore-Penrose inverse A⁺ (m', m) of A (m, m'): U Λ⁻¹ Uᵀ over the non-zero eigenvalues of a
    symmetric A.

    Eigenvalues (singular values when A is not symmetric) at or below ``rtol`` times the largest count as
    zero; by default rtol is max(m, m') times the rounding unit. `penrose_residuals` checks the result.
    """
    A = np.asarray(A, dtype=float)
    if A.shape[0] == A.shape[1] and np.array_equal(A, A.T):
        values, right = np.linalg.eigh(A)
        left = right
    else:
        left, values, right_t = np.linalg.svd(A, full_matrices=False)
        right = right_t.T
    size = np.abs(values)
    keep = size > (max(A.shape) * EPS if rtol is None else rtol) * size.max(initial=0.0)
    return (right[:, keep] / values[keep]) @ left[:, keep].T


def penrose_residuals(A: ArrayLike, X: ArrayLike) -> np.ndarray:
    """How far X is from being A⁺: relative Frobenius residuals of the four Penrose conditions (B.7a-d).

    In order A X A = A, X A X = X, X A symmetric, A X symmetric. All four are at rounding level only for A⁺;
    the first alone makes X a generalised inverse (B.6).
    """
    A, X = np.asarray(A, dtype=float), np.asarray(X, dtype=float)
    AX, XA = A @ X, X @ A
    pairs = [(AX @ A, A), (XA @ X, X), (XA.T, XA), (AX.T, AX)]
    return np.array([np.linalg.norm(a - b) / max(np.linalg.norm(b), np.finfo(float).tiny) for a, b in pairs])


# Derivatives; dA is ∂A/∂x element by element, or a stack (..., n, n) of such


def inverse_derivative(A: Any, dA: Any) -> Any:
    """∂A⁻¹/∂x = −A⁻¹ (∂A/∂x) A⁻¹ (A.14, B.10b)."""
    xp, A, dA = _arrays(A, dA)
    A_inverse = xp.linalg.inv(A)
    return -A_inverse @ dA @ A_inverse


def logdet_derivative(A: Any, dA: Any) -> Any:
    """∂ log |A| / ∂x = tr(A⁻¹ ∂A/∂x) (A.15, B.10d)."""
    xp, A, dA = _arrays(A, dA)
    return trace_of_product(xp.linalg.inv(A), dA)


def determinant_derivative(A: Any, dA: Any) -> Any:
    """∂|A|/∂x = |A| tr(A⁻¹ ∂A/∂x) (B.10c)."""
    xp, A, dA = _arrays(A, dA)
    return xp.linalg.det(A) * logdet_derivative(A, dA)


def trace_derivative(B: Any, dA: Any) -> Any:
    """∂ tr(A B)/∂x = tr(∂A/∂x B) for a constant B; B = I gives (B.10a), and ∂ tr(A B)/∂A = Bᵀ (B.11)."""
    _, B, dA = _arrays(B, dA)
    return trace_of_product(B, dA)


def logdet_gradient(A: Any) -> Any:
    """∂ log |A| / ∂A = A⁻ᵀ, every element of A free (B.11)."""
    xp, A = _arrays(A)
    return xp.linalg.inv(A).T


def trace_of_product(A: Any, B: Any) -> Any:
    """tr(A B) = Σ A ∘ Bᵀ without forming the product; stacks (..., n, n) broadcast."""
    xp, A, B = _arrays(A, B)
    return xp.sum(A * xp.swapaxes(B, -1, -2), axis=(-2, -1))


# Quadratic forms and norms


def complete_square(
    A: ArrayLike, b: ArrayLike, B: ArrayLike, c: ArrayLike
) -> tuple[np.ndarray, np.ndarray, float]:
    """Two quadratic forms as one (B.14): the centre z, the matrix Z and the constant r in

        (x−b)ᵀ A⁻¹ (x−b) + (x−c)ᵀ B⁻¹ (x−c) = (x−z)ᵀ Z⁻¹ (x−z) + r  for every x.

    Z = (A⁻¹ + B⁻¹)⁻¹ by `parallel_sum`, z = b + A (A + B)⁻¹ (c − b), r = (b−c)ᵀ (A + B)⁻¹ (b−c): A and B,
    positive semi-definite, are never inverted.
    """
    A, B = np.asarray(A, dtype=float), np.asarray(B, dtype=float)
    b = np.asarray(b, dtype=float)
    gap = np.asarray(c, dtype=float) - b
    weights = semidefinite_factor(A + B).solve(gap)
    return b + A @ weights, parallel_sum(A, B), float(gap @ weights)


def frobenius_norm(A: Any) -> Any:
    """‖A‖_F = (Σ |a_ij|²)^½ = tr(A Aᵀ)^½ (A.16); stacks (..., m, n) give one norm each."""
    xp, A = _arrays(A)
    return xp.sqrt(xp.sum(xp.abs(A) ** 2, axis=(-2, -1)))


def frobenius_inner(A: Any, B: Any) -> Any:
    """⟨A, B⟩_F = tr(A Bᵀ) = Σ a_ij b_ij, the inner product behind kernel alignment."""
    xp, A, B = _arrays(A, B)
    return xp.sum(A * B, axis=(-2, -1))


def _arrays(*values: Any) -> tuple[Any, ...]:
    """The array module to use (JAX's if any value is a JAX array) and the values as its arrays."""
    spaces = [value.__array_namespace__() for value in values if hasattr(value, "__array_namespace__")]
    xp = next((space for space in spaces if space is not np), np)
    return xp, *(xp.asarray(value, dtype=float) if xp is np else xp.asarray(value) for value in values)


def _solve(xp: Any, Z: Any, b: Any) -> Any:
    if Z.ndim == 1:
        return (b.T / Z).T
    return xp.linalg.solve(Z, b)
