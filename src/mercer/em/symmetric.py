"""Derivatives with respect to symmetric matrices, entries (i, j) and (j, i) moving together,
as Bilmes derives the M-step with.
"""

from __future__ import annotations

import numpy as np


def log_det_gradient(A: np.ndarray) -> np.ndarray:
    """∂ log|A| / ∂A = 2 A⁻¹ − diag(A⁻¹) for symmetric positive definite A."""
    root = np.linalg.inv(np.linalg.cholesky(A))
    return _twice(root.T @ root)


def trace_gradient(B: np.ndarray) -> np.ndarray:
    """∂ tr(A B) / ∂A = B + Bᵀ − diag(B) for symmetric A."""
    B = np.asarray(B, np.float64)
    return B + B.T - np.diag(np.diagonal(B))


def quadratic_gradient(A: np.ndarray, x: np.ndarray) -> np.ndarray:
    """∂ xᵀA x / ∂x = (A + Aᵀ) x."""
    A = np.asarray(A, np.float64)
    return (A + A.T) @ x


def _twice(S: np.ndarray) -> np.ndarray:
    return 2 * S - np.diag(np.diagonal(S))
