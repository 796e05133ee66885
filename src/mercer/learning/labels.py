"""Labels +-1 predicted by regression, seen through the cumulative Gaussian (GPML 6.5.1)."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
from scipy.optimize import minimize
from scipy.special import log_ndtr

from mercer.inference.protocol import Result

_HALF_LOG_2PI = 0.5 * float(np.log(2 * np.pi))
FARTHEST = 2.0  # that the boundary between labels -1 and 1 is moved


@dataclasses.dataclass(frozen=True)
class ProbitMap:
    """Probabilities of labels from predictions of the numbers +-1:
    P(y = 1) = Phi((mean + shift) / sqrt(variance + spread)).

    This is (6.42) with alpha = 1 / sqrt(spread) and beta = alpha shift; the variance is that of y, noise
    included.
    """

    shift: float
    spread: float

    @classmethod
    def fitted(cls, mean: np.ndarray, variance: np.ndarray, y: np.ndarray) -> ProbitMap:
        """The highest probability of the labels y (n,), predicted with mean and variance (n,) from others."""
        unit = float(np.mean(variance))

        def cost(at: np.ndarray) -> tuple[float, np.ndarray]:
            value, slopes, root = cls(at[0], unit * at[1])._slopes(mean, variance, y)
            z = (mean + at[0]) / root
            return -value, -np.array([np.sum(slopes / root), -0.5 * unit * np.sum(slopes * z / root**2)])

        bounds = [(-FARTHEST, FARTHEST), (0.0, None)]
        options = dict(ftol=0.0, gtol=1e-11, maxiter=200)
        found = minimize(cost, [0.0, 1.0], jac=True, method="L-BFGS-B", bounds=bounds, options=options)
        return cls(float(found.x[0]), unit * float(found.x[1]))

    def log_probability(self, mean: np.ndarray, variance: np.ndarray | float, y: Any = 1.0) -> np.ndarray:
        """That of the labels y."""
        return log_ndtr(y * (mean + self.shift) / np.sqrt(variance + self.spread))

    def _slopes(
        self, mean: np.ndarray, variance: np.ndarray, y: np.ndarray
    ) -> tuple[float, np.ndarray, np.ndarray]:
        """The log probability of all labels, its derivative by each argument of Phi, and the square roots."""
        root = np.sqrt(variance + self.spread)
        z = (mean + self.shift) / root
        logs = log_ndtr(y * z)
        return float(np.sum(logs)), y * np.exp(-0.5 * z**2 - _HALF_LOG_2PI - logs), root


def loo_probit(result: Result) -> tuple[float, dict[str, Any]]:
    """The log probability of labels +-1, each predicted by all others (6.42), at the best `ProbitMap`: where
    it is the best, its own derivatives are zero and those of (6.43) are left.
    """
    alpha, kappa = (x[:, 0] for x in result.state.dual())
    y = np.asarray(result.state.sites.centre)[:, 0]
    if not np.isin(y, (-1.0, 1.0)).all():
        raise ValueError("objective='loo-probit' is for labels: every y must be -1 or 1.")
    mean, variance = y - alpha / kappa, 1.0 / kappa
    best = ProbitMap.fitted(mean, variance, y)
    value, slopes, root = best._slopes(mean, variance, y)
    mean_bar = slopes / root
    variance_bar = -0.5 * slopes * (mean + best.shift) / root**3
    kappa_bar = (mean_bar * alpha - variance_bar) / kappa**2
    return value, dict(log_evidence_bar=0.0, alpha_bar=-mean_bar / kappa, kappa_bar=kappa_bar)
