"""Can data tell two Gaussian processes apart (GPML 7.2.3)? On ever more inputs in one region the divergence
between them either stays bounded (they are equivalent: no data decide) or grows without limit (orthogonal).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import LinAlgError, cho_factor, cho_solve, eigh
from scipy.special import expit

from mercer.inputs import as_inputs
from mercer.kernels import AbstractKernel

BOUNDED = 0.25  # growth exponents below are those of a divergence that settles


@dataclasses.dataclass(frozen=True, eq=False)
class Apart:
    """Symmetric divergences (s,), in nats, on designs of `sizes` (s,) inputs; growth: the exponent g with
    which it grows at the end, as n^g.
    """

    sizes: np.ndarray
    divergence: np.ndarray
    growth: float

    @property
    def orthogonal(self) -> bool:
        """Whether the divergence still grows, so that enough data tell the two apart."""
        return self.growth > BOUNDED

    def __str__(self) -> str:
        last = f"{self.divergence[-1]:.4g} nats on {self.sizes[-1]} inputs"
        if self.orthogonal:
            return f"data tell them apart: the divergence grows as n^{self.growth:.2g}, {last}"
        return f"no sign that data tell them apart: the divergence settles, {last}"


def symmetric_divergence(
    kernel: AbstractKernel, other: AbstractKernel, X: Any, shift: ArrayLike = 0.0, noise_variance: float = 0.0
) -> float:
    """KL(0 || 1) + KL(1 || 0) in nats of two processes at the inputs X (n, d) (7.18).

    shift: difference (n,) of their means. noise_variance: of observations at X, in both

    >>> symmetric_divergence(Matern(nu=0.5), 0.5 * Matern(0.5, nu=0.5), np.linspace(0, 1, 101)[:, None])
    """
    inputs = as_inputs(X)
    n = inputs.values.shape[0]
    K0, K1 = (k(inputs) + noise_variance * np.eye(n) for k in (kernel, other))
    try:
        ratio = eigh(K0, K1, eigvals_only=True)
        m = np.broadcast_to(np.asarray(shift, float), (n,))
        both = cho_solve(cho_factor(K0), m) + cho_solve(cho_factor(K1), m)
    except LinAlgError as error:
        raise ValueError(
            "a covariance matrix is singular to rounding, where a divergence has no meaning: use fewer "
            "inputs, rougher kernels or a noise_variance."
        ) from error
    if ratio.min() <= 0:
        raise ValueError("a covariance matrix is singular to rounding: use fewer inputs or a noise_variance.")
    return 0.5 * float(np.sum((ratio - 1.0) ** 2 / ratio)) + 0.5 * float(m @ both)


def periodic_divergence(weights: ArrayLike, others: ArrayLike) -> float:
    """The same of two processes that repeat with one period, observed everywhere, from the variances of their
    frequencies 0, 1, 2, ... (`kernels.line_spectrum`), where the sum converges: half of what (7.19) prints.
    """
    p, q = np.asarray(weights, float), np.asarray(others, float)
    if p.shape != q.shape or p.ndim != 1 or not ((p > 0) & (q > 0)).all():
        raise ValueError("both must have positive weights for the same frequencies.")
    terms = (p - q) ** 2 / (p * q)
    return float(0.5 * terms[0] + np.sum(terms[1:]))


def tell_apart(
    kernel: AbstractKernel,
    other: AbstractKernel,
    low: float = 0.0,
    high: float = 1.0,
    sizes: Sequence[int] = (25, 50, 100, 200, 400),
    noise_variance: float = 0.0,
) -> Apart:
    """Whether ever more data in [low, high] tell two kernels of one column apart: divergences on even grids,
    and how fast they grow.

    >>> print(tell_apart(Matern(nu=0.5), 0.5 * Matern(0.5, nu=0.5)))      # same spectrum far out: equivalent
    """
    numbers = np.asarray(sizes, int)
    if numbers.size < 3 or numbers.min() < 2 or not (np.diff(numbers) > 0).all() or high <= low:
        raise ValueError("sizes are at least three growing numbers of inputs, and high is above low.")
    grids = [np.linspace(low, high, n)[:, None] for n in numbers]
    found = np.array([symmetric_divergence(kernel, other, X, 0.0, noise_variance) for X in grids])
    with np.errstate(divide="ignore"):
        logs = np.log(np.maximum(found[-3:], 1e-300))
    growth = np.polyfit(np.log(numbers[-3:]), logs, 1)[0] if found[-1] > 1e-9 else 0.0
    return Apart(numbers, found, float(growth))


def model_probability(log_evidence: float, other: float, prior: float = 0.5) -> float:
    """Probability of the first of two models, from the log evidences of both and its prior probability."""
    if not 0 < prior < 1:
        raise ValueError(f"prior must lie strictly between 0 and 1, got {prior:g}.")
    return float(expit(log_evidence - other + np.log(prior) - np.log1p(-prior)))
