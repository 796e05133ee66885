"""Cholesky factors and the one jitter policy.

A matrix that is not numerically positive definite gets jitter: a multiple of its mean diagonal from a short
ladder, reported with the
result. When the ladder ends, the error names the likely cause. Nothing else in the library adds anything to a
diagonal.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from mercer.linalg import blocked, lapack

LADDER = (0.0, 1e-12, 1e-10, 1e-8, 1e-6)
NOISE_FLOOR = 1e-10  # relative to the mean prior variance: what noise-free conditioning uses instead of zero


class NotPositiveDefinite(np.linalg.LinAlgError):
    """A covariance matrix could not be factored even with jitter."""


def factor(fill: Callable[[np.ndarray], None], buffer: np.ndarray) -> float:
    """Factor in place the matrix that `fill` writes into the upper triangle of `buffer`; returns the jitter
    that was added.

    `fill` is called again for each rung of the ladder, because LAPACK works in place.
    """
    n = buffer.shape[0]
    potrf = lapack.potrf if n < blocked.FROM else blocked.potrf
    diagonal = np.einsum("ii->i", buffer)
    for relative in LADDER:
        fill(buffer)
        scale = float(np.mean(diagonal)) if n else 1.0
        if not np.isfinite(scale):
            break
        jitter = relative * scale
        diagonal += jitter
        if potrf(buffer) == 0 and np.isfinite(diagonal).all():
            return jitter
    raise NotPositiveDefinite(_explain(fill, buffer))


def invert(factored: np.ndarray) -> None:
    """From the factor to the inverse, in place (upper triangles)."""
    (lapack.potri if factored.shape[0] < blocked.FROM else blocked.potri)(factored)


def invert_factor(factored: np.ndarray) -> None:
    """From the factor L to L^-1, in place: half the way to the inverse, whose diagonal is there already, as
    the squares of `lapack.row_squares`.
    """
    (lapack.trtri if factored.shape[0] < blocked.FROM else blocked.trtri)(factored)


def multiply_factor(inverted: np.ndarray) -> None:
    """From L^-1 to the inverse L^-T L^-1, in place: the other half."""
    (lapack.lauum if inverted.shape[0] < blocked.FROM else blocked.lauum)(inverted)


def cholesky(matrix: np.ndarray) -> tuple[np.ndarray, float]:
    """Lower factor L of a symmetric matrix and the jitter that was needed."""

    def fill(buffer):
        buffer[:] = matrix

    buffer = np.empty(matrix.shape)
    jitter = factor(fill, buffer)
    return np.tril(buffer.T), jitter


def _explain(fill, buffer) -> str:
    fill(buffer)
    values = buffer[np.triu_indices(buffer.shape[0])]
    if not np.isfinite(values).all():
        return (
            "the covariance matrix has entries that are not finite: a hyperparameter is extreme or the "
            "kernel is undefined at "
            "some inputs. Check for very small length-scales or very large variances, and bound or fix them."
        )
    return (
        f"the {buffer.shape[0]} x {buffer.shape[0]} covariance matrix is not positive definite even with "
        "jitter of "
        f"{LADDER[-1]:g} times its mean diagonal. Likely causes: duplicated or nearly duplicated rows with "
        "(almost) no noise, a "
        "length-scale far larger than the range of the inputs, or a function that is not a covariance. "
        "Remedies: a larger noise_variance, removing duplicates, a bound on the length-scale."
    )
