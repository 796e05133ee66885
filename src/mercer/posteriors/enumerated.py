"""The exact posterior for mixture noise: a Gaussian for every set of outliers (Kuss 5.3)."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, ClassVar, NoReturn

import numpy as np
from scipy.special import logsumexp

from mercer.inputs import Inputs
from mercer.likelihoods.base import continuous_quantile
from mercer.posteriors.answers import InferenceStatus
from mercer.posteriors.functions import SampledFunctions, joined, sample_functions
from mercer.posteriors.mixture import AbstractMixturePosterior
from mercer.posteriors.packing import Again
from mercer.posteriors.scores import log_likelihoods
from mercer.prior import sample_gaussian
from mercer.sampling.target import cross_moments, prior_moments
from mercer.solvers.dense import Dense
from mercer.solvers.protocol import Sites

ROWS = 16  # test inputs at a time


@dataclasses.dataclass(frozen=True, eq=False)
class EnumeratedPosterior(AbstractMixturePosterior):
    """An exact mixture of Gaussians: `weights` (2^n,) of the sets of outliers in the rows of `outlying` (2^n,
    n). Made by `inference.Enumeration`.

    root (2^n, n): 1 / standard deviation of each datum's noise; factors (2^n, n, n): Cholesky factors of
    I + root K root; whitened (2^n, n): factors^-1 root (y - m).
    """

    model: Any
    inputs: Inputs
    y: np.ndarray
    evidence: float
    outlying: np.ndarray
    weights: np.ndarray
    root: np.ndarray
    factors: np.ndarray
    whitened: np.ndarray
    notes: tuple[str, ...] = ()
    status: InferenceStatus = InferenceStatus()
    solver: Any = None

    averages: ClassVar[bool] = False
    many: ClassVar[str] = "sets of outliers"

    def _nor(self, question: str) -> str | None:
        if question == "save":
            return "a sum over all sets of outliers is not saved: save a fit with another inference, say EP."
        return None

    def packed(self) -> NoReturn:
        """Not this one: a `PosteriorError`."""
        self._refuse("save")

    @classmethod
    def unpacked(cls, packed: dict[str, Any], again: Again) -> NoReturn:
        """Not this one."""
        raise ValueError("a sum over all sets of outliers is not saved.")

    def latent_moments(self, Xs: Any, variance: bool = True) -> tuple[np.ndarray, np.ndarray | None]:
        """Mean and variance of f at Xs, (m,) each."""
        mean, total = self._pooled(*self._gaussians(self._values(Xs)))
        return mean, total if variance else None

    def outlier_score(self) -> np.ndarray:
        """P(datum i is an outlier | y) (n,)."""
        score: np.ndarray = self.weights @ self.outlying
        return score

    def _observed(self, values: np.ndarray, noise_variance: Any) -> tuple[np.ndarray, np.ndarray]:
        mean, variance = self._likelihood(values, noise_variance).predict(*self.latent_moments(values))
        return mean, variance

    def _pooled(self, means: np.ndarray, variances: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Mean and variance (m,) of the mixture of Gaussians (sets, m)."""
        mean: np.ndarray = self.weights @ means
        return mean, self.weights @ (variances + (means - mean) ** 2)

    def _log_density(self, values: np.ndarray, ys: np.ndarray, noise_variance: Any) -> np.ndarray:
        means, variances = self._gaussians(values)
        each = np.broadcast_to(ys, means.shape).ravel(), means.ravel(), variances.ravel()
        logs = self.model.likelihood.log_density(*each).reshape(means.shape)
        return np.asarray(logsumexp(logs, axis=0, b=self.weights[:, None]))

    def _predictive(
        self, values: np.ndarray, levels: np.ndarray, noise_variance: Any
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        likelihood = self._likelihood(values, noise_variance)
        means, variances = self._gaussians(values)
        moments = likelihood.predict(*self._pooled(means, variances))
        # what is left out moves no distribution function by more than 2^15 of these
        heavy = self.weights > 1e-10
        w, means, variances = self.weights[heavy], means[heavy], variances[heavy]
        centre, width = w @ means, np.sqrt(w @ variances) + np.ptp(means, 0)

        def cdf(y: np.ndarray) -> Any:
            return w @ likelihood.cdf(y, means, variances) / w.sum()

        ends = centre - 3 * width, centre + 3 * width
        return *moments, np.stack([continuous_quantile(cdf, q, *ends) for q in levels], 1)

    def _average(self, values: np.ndarray, function: Callable[..., np.ndarray], how: str) -> np.ndarray:
        means, variances = self._gaussians(values)
        each = [function(self.model.likelihood, m, v) for m, v in zip(means, variances, strict=True)]
        return np.tensordot(self.weights, np.stack(each), 1)

    def _covariance(self, values: np.ndarray, latent: bool, noise_variance: Any) -> np.ndarray:
        """Of f: for y with mixture noise there is none."""
        total, means = np.zeros((len(values),) * 2), np.zeros((len(self.weights), len(values)))
        prior = self._prior(values)
        for i, weight in enumerate(self.weights):
            means[i], covariance = self._joint(i, *prior)
            total += weight * covariance
        e = means - self.weights @ means
        return total + (self.weights * e.T) @ e

    def _sample(
        self, values: np.ndarray, size: int, rng: np.random.Generator, latent: bool, noise_variance: Any
    ) -> np.ndarray:
        counts, parts = rng.multinomial(size, self.weights), [np.zeros((0, len(values)))]
        prior = self._prior(values)
        for i in np.flatnonzero(counts):
            parts.append(sample_gaussian(*self._joint(int(i), *prior), int(counts[i]), rng))
        f = np.concatenate(parts)[rng.permutation(size)]
        if latent:
            return f
        y: np.ndarray = self._likelihood(values, noise_variance).sample(rng, f)
        return y

    def _sample_functions(
        self, size: int, rng: np.random.Generator, points: np.ndarray | None, waves: int
    ) -> SampledFunctions:
        counts, parts, centre = rng.multinomial(size, self.weights), [], self.y[:, None]
        for i in np.flatnonzero(counts):
            sites = Sites(centre, self.root[i][:, None] ** 2)
            state = Dense().factor(self.model.priors, self.inputs.values, sites)
            parts.append(sample_functions(state, int(counts[i]), rng, self._values, points, waves))
        return joined(parts, rng)

    def _log_likelihoods(self, rows: slice, size: int, rng: np.random.Generator) -> np.ndarray:
        means, variances = self._gaussians(self.inputs.values[rows])
        chosen = rng.choice(len(self.weights), size, p=self.weights)
        f = means[chosen] + np.sqrt(variances[chosen]) * rng.standard_normal((size, means.shape[1]))
        return log_likelihoods(self.model.likelihood, f, self.y[rows])

    def _gaussians(self, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Means and variances (2^n, m) of f at test inputs in each Gaussian, for a few of them at a time."""
        parts = []
        for first in range(0, max(len(values), 1), ROWS):
            mean, cross, variance = cross_moments(
                self.model.priors, self.inputs.values, values[first : first + ROWS]
            )
            V = np.linalg.solve(self.factors, self.root[:, :, None] * cross)
            within = np.maximum(variance - np.einsum("sim,sim->sm", V, V), 0.0)
            parts.append((mean + np.einsum("si,sim->sm", self.whitened, V), within))
        return np.concatenate([m for m, _ in parts], 1), np.concatenate([v for _, v in parts], 1)

    def _prior(self, values: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Before any datum is seen: mean (m,) of f at test inputs, covariance (n, m) of f at the data with
        it, and its own covariance (m, m).
        """
        mean, cross, _ = cross_moments(self.model.priors, self.inputs.values, values)
        return mean, cross, prior_moments(self.model, values)[1][0]

    def _joint(
        self, i: int, mean: np.ndarray, cross: np.ndarray, covariance: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Mean (m,) and covariance (m, m) of f at test inputs in one Gaussian, from `_prior`."""
        V = np.linalg.solve(self.factors[i], self.root[i][:, None] * cross)
        return mean + self.whitened[i] @ V, covariance - V.T @ V

    def _findings(self) -> list[str]:
        return [f"log evidence: {self.log_evidence:.4f}"]

    def __repr__(self) -> str:
        n, d = self.inputs.values.shape
        return f"EnumeratedPosterior(n={n}, d={d}, log_evidence={self.log_evidence:.4f})"
