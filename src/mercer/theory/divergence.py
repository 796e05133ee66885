"""Which Gaussian is closest? KL(p || q) and KL(q || p) answer differently (Kuss figure 5.8): EP imitates the
first, variational methods minimise the second."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import minimize


@dataclasses.dataclass(frozen=True)
class GaussianFits:
    """Gaussians fitted to a density: (mean, variance) of KL(p || q),
    and of every local minimum of KL(q || p) with its value.
    """

    moments: tuple[float, float]
    reverse: tuple[tuple[float, float, float], ...]  # mean, variance, KL(q || p), the best first
    x: np.ndarray
    density: np.ndarray

    def forward_divergence(self, mean: ArrayLike, variance: ArrayLike) -> np.ndarray:
        """KL(p || q) for arrays of means and variances."""
        m, v = np.broadcast_arrays(np.asarray(mean, float), np.asarray(variance, float))
        m1, v1 = self.moments
        inside = np.where(self.density > 0, self.density, 1.0)
        entropy = -np.trapezoid(self.density * np.log(inside), self.x)
        return 0.5 * (np.log(2 * np.pi * v) + ((m1 - m) ** 2 + v1) / v) - entropy

    def reverse_divergence(self, mean: ArrayLike, variance: ArrayLike) -> np.ndarray:
        """KL(q || p) for arrays of means and variances."""
        m, v = np.broadcast_arrays(np.asarray(mean, float), np.asarray(variance, float))
        log_p = np.log(np.maximum(self.density, 1e-300))
        q = np.exp(-0.5 * (self.x - m[..., None]) ** 2 / v[..., None]) / np.sqrt(2 * np.pi * v[..., None])
        return -0.5 * np.log(2 * np.pi * np.e * v) - np.trapezoid(q * log_p, self.x, axis=-1)


def gaussian_fits(log_density: Callable, low: float, high: float, count: int = 4001) -> GaussianFits:
    """Gaussians closest to the one-dimensional density exp(log_density(x)) on [low, high], which need not be
    normalised.

    >>> fits = gaussian_fits(lambda x: np.logaddexp(-(x + 2)**2, -2 * (x - 2)**2), -8, 8)
    >>> fits.moments, fits.reverse
    """
    x = np.linspace(low, high, count)
    log_p = np.asarray(log_density(x), float)
    p = np.exp(log_p - log_p.max())
    p /= np.trapezoid(p, x)
    mean = float(np.trapezoid(p * x, x))
    variance = float(np.trapezoid(p * (x - mean) ** 2, x))
    fits = GaussianFits((mean, variance), (), x, p)

    def objective(z):
        return float(fits.reverse_divergence(z[0], np.exp(z[1])))

    modes = x[1:-1][(p[1:-1] >= p[:-2]) & (p[1:-1] > p[2:])]
    found: list[tuple[float, float, float]] = []
    for start in (*modes, mean):
        for log_v in (np.log(variance), np.log(variance) - 3.0):
            end = minimize(
                objective,
                [start, log_v],
                method="Nelder-Mead",
                options=dict(xatol=1e-6, fatol=1e-10, maxiter=2000),
            )
            new = (float(end.x[0]), float(np.exp(end.x[1])), float(end.fun))
            if not any(
                abs(new[0] - m) < 1e-3 * np.sqrt(variance) and abs(new[1] / v - 1) < 1e-2 for m, v, _ in found
            ):
                found.append(new)
    return dataclasses.replace(fits, reverse=tuple(sorted(found, key=lambda f: f[2])))
