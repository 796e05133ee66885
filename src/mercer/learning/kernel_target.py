"""Kernel alignment (5.28): how well a covariance matrix agrees with the targets,
and the sum of kernels that agrees best.
"""

from __future__ import annotations

import dataclasses
import functools
import operator
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import nnls

from mercer.inputs import as_inputs, as_targets
from mercer.kernels import AbstractKernel


def alignment(K: ArrayLike, y: Any) -> float:
    """y'Ky / (|y|^2 |K|_F): the cosine between the covariance matrix K (n, n) and yy', for targets or labels
    y (n,); from 0 to 1.

    It does not change with the scale of K or y; K = yy' gives 1.

    >>> alignment(SE()(X), labels)
    """
    matrix = _matrix(K)
    targets = as_targets(y, matrix.shape[0])
    size = np.linalg.norm(matrix) * (targets @ targets)
    if size == 0:
        raise ValueError("the alignment of a zero matrix, or with zero targets, is not defined.")
    return float(targets @ matrix @ targets / size)


@dataclasses.dataclass(frozen=True, eq=False)
class Aligned:
    """The combination of kernels with the largest alignment.

    kernel: the sum of the kernels times their weights (those with weight 0 left out)
    weights: (m,), not negative, summing to 1
    alignment: of the combination
    single: (m,), of each kernel alone
    """

    kernel: AbstractKernel
    weights: np.ndarray
    alignment: float
    single: np.ndarray


def align(kernels: Sequence[AbstractKernel], X: Any, y: Any) -> Aligned:
    """The non-negative combination of kernels whose covariance matrix on X is best aligned with y.

    >>> align([SE(l) for l in (0.1, 1.0, 10.0)], X, labels).kernel
    """
    if not kernels:
        raise ValueError("there are no kernels to combine.")
    inputs = as_inputs(X, objects=any(kernel.reads_objects() for kernel in kernels))
    matrices = [kernel(inputs) for kernel in kernels]
    weights = alignment_weights(matrices, y)
    terms = [float(w) * kernel for w, kernel in zip(weights, kernels, strict=True) if w > 0]
    combined = functools.reduce(operator.add, (w * K for w, K in zip(weights, matrices, strict=True)))
    single = np.array([alignment(K, y) for K in matrices])
    return Aligned(functools.reduce(operator.add, terms), weights, alignment(combined, y), single)


def alignment_weights(matrices: Iterable[ArrayLike], y: Any) -> np.ndarray:
    """Weights (m,) >= 0 of matrices (n, n) that maximise the alignment of their sum; they sum to 1.

    The maximum of a.w / sqrt(w'Gw) with G_ij = <K_i, K_j> and a_i = y'K_i y lies in the direction of the
    minimum of w'Gw - 2 a.w, a non-negative least-squares problem.
    """
    stack = [_matrix(K) for K in matrices]
    targets = as_targets(y, stack[0].shape[0])
    sizes = np.array([np.linalg.norm(K) for K in stack])
    if (sizes == 0).any():
        raise ValueError(f"matrix {int(np.argmin(sizes))} is zero: it cannot be aligned.")
    flat = np.array([K.ravel() / s for K, s in zip(stack, sizes, strict=True)])
    values, vectors = np.linalg.eigh(flat @ flat.T)
    kept = values > len(values) * np.finfo(float).eps * values[-1]
    root = np.sqrt(values[kept])[:, None] * vectors[:, kept].T
    a = flat @ np.outer(targets, targets).ravel()
    weights = nnls(root, (vectors[:, kept].T @ a) / np.sqrt(values[kept]))[0] / sizes
    if not weights.any():
        raise ValueError("no kernel has a positive alignment with y.")
    return weights / weights.sum()


def _matrix(K) -> np.ndarray:
    matrix = np.asarray(K, float)
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or not np.isfinite(matrix).all():
        raise ValueError(f"expected a square covariance matrix of finite numbers, got shape {matrix.shape}.")
    return matrix
