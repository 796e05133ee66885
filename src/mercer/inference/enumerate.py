"""Exact inference for mixture noise and a handful of data: a sum over every set of outliers (Kuss 5.3)."""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar

import numpy as np
from scipy.special import logsumexp

from mercer.inference.protocol import AbstractConditioning, AbstractEvidence, InferenceStatus
from mercer.inputs import Inputs, as_targets
from mercer.likelihoods import GaussianMixtureNoise
from mercer.likelihoods.base import continuous_quantile
from mercer.posteriors.gaussian import Posterior
from mercer.sampling.target import cross_moments, prior_moments
from mercer.solvers.protocol import AbstractSolver, SolverError

MOST = 15  # data: 2^15 Gaussians
ROWS = 16  # test inputs at a time
_LOG_2PI = float(np.log(2 * np.pi))


@dataclasses.dataclass(frozen=True)
class Enumeration(AbstractConditioning, AbstractEvidence):
    """The exact posterior for `GaussianMixtureNoise` and at most 15 data: a mixture of 2^n Gaussians, one for
    each set of outliers.

    It is what EP, Laplace and the samplers can be held against; hyperparameters are not learned with it.

    >>> post = model.condition(X, y, Enumeration()); post.log_evidence, post.outlier_probability
    """

    needs: ClassVar[frozenset[str]] = frozenset({"exact"})
    gives: ClassVar[str] = (
        "returns a mixture, not a Gaussian posterior, and has no derivatives: use model.condition(..., "
        "inference={name}()), and another rule to learn hyperparameters, for example EP"
    )

    def evidence(self, model: Any, inputs: Inputs, y: np.ndarray, solver: AbstractSolver) -> float:
        """The log of the sum over all sets of outliers: exact."""
        return self.posterior(model, inputs, y, solver).log_evidence

    def posterior(
        self, model: Any, inputs: Inputs, y: np.ndarray, solver: AbstractSolver
    ) -> EnumeratedPosterior:
        """Weights of all sets of outliers: weight^|c| (1 - weight)^(n - |c|) N(y | m, K + Sigma_c),
        normalised.
        """
        self.check(solver)
        likelihood, n = model.likelihood, y.shape[0]
        if not isinstance(likelihood, GaussianMixtureNoise):
            raise SolverError(f"Enumeration is for GaussianMixtureNoise, not {type(likelihood).__name__}.")
        if n > MOST:
            raise SolverError(
                f"Enumeration sums over 2^n sets of outliers: at most {MOST} data, got {n}; use Gibbs."
            )
        outlying = (np.arange(2**n)[:, None] >> np.arange(n)) % 2 == 1
        root = 1.0 / np.sqrt(np.asarray(likelihood.variance) * np.where(outlying, likelihood.ratio, 1.0))
        mean, (K,) = prior_moments(model, inputs.values)
        factors = np.linalg.cholesky(np.eye(n) + root[:, :, None] * K * root[:, None, :])
        whitened = np.linalg.solve(factors, (root * (y - mean[:, 0]))[..., None])[..., 0]
        prior = np.where(outlying, np.log(likelihood.weight), np.log1p(-likelihood.weight)).sum(1)
        log_det = np.log(np.einsum("sii->si", factors)).sum(1) - np.log(root).sum(1)
        logs = prior - log_det - 0.5 * np.sum(whitened**2, 1) - 0.5 * n * _LOG_2PI
        total = float(logsumexp(logs))
        weights = np.exp(logs - total)
        note = (
            f"the heaviest of {weights.size} sets of outliers has posterior probability {weights.max():.3f}"
        )
        return EnumeratedPosterior(
            model, inputs, y, total, outlying, weights, root, factors, whitened, (note,)
        )


@dataclasses.dataclass(frozen=True, eq=False)
class EnumeratedPosterior:
    """An exact mixture of Gaussians: `weights` (2^n,) of the sets of outliers in the rows of `outlying` (2^n,
    n).
    """

    model: Any
    inputs: Inputs
    y: np.ndarray
    log_evidence: float
    outlying: np.ndarray
    weights: np.ndarray
    _root: np.ndarray
    _factors: np.ndarray
    _whitened: np.ndarray
    notes: tuple[str, ...] = ()
    status: InferenceStatus = InferenceStatus()

    @property
    def outlier_probability(self) -> np.ndarray:
        """P(datum i is an outlier | y) (n,)."""
        return self.weights @ self.outlying

    def latent_moments(self, Xs, variance: bool = True) -> tuple[np.ndarray, np.ndarray | None]:
        """Mean and variance of f at Xs, (m,) each."""
        means, variances = self._components(Xs)
        mean = self.weights @ means
        return mean, self.weights @ (variances + (means - mean) ** 2) if variance else None

    def mean(self, Xs, latent: bool = False) -> np.ndarray:
        """Predictive mean (m,), of y as of f."""
        return self.latent_moments(Xs, variance=False)[0]

    def mean_and_std(self, Xs, latent: bool = False, noise_variance=None) -> tuple[np.ndarray, np.ndarray]:
        """Predictive mean and standard deviation of y, or of f with `latent=True`."""
        mean, variance = self.latent_moments(Xs)
        assert variance is not None
        if not latent:
            mean, variance = self._likelihood(noise_variance).predict(mean, variance)
        return mean, np.sqrt(variance)

    def std(self, Xs, latent: bool = False, noise_variance=None) -> np.ndarray:
        """Predictive standard deviation of y, or of f."""
        return self.mean_and_std(Xs, latent, noise_variance)[1]

    def variance(self, Xs, latent: bool = False, noise_variance=None) -> np.ndarray:
        """Predictive variance of y, or of f."""
        return self.std(Xs, latent, noise_variance) ** 2

    def log_density(self, Xs, ys, noise_variance=None) -> np.ndarray:
        """Log predictive density (m,) of each observation ys at Xs."""
        means, variances = self._components(Xs)
        ys = self._likelihood(noise_variance).targets(as_targets(ys, means.shape[1], "ys"))
        logs = self.model.likelihood.log_density(
            np.broadcast_to(ys, means.shape).ravel(), means.ravel(), variances.ravel()
        )
        return logsumexp(logs.reshape(means.shape), axis=0, b=self.weights[:, None])

    def quantile(self, Xs, q, noise_variance=None) -> np.ndarray:
        """Predictive quantiles of y: (m,) for one q, (m, len(q)) for several."""
        levels = np.asarray(q, float)
        if np.any((levels <= 0) | (levels >= 1)):
            raise ValueError(f"quantiles must lie strictly between 0 and 1, got {levels}.")
        likelihood = self._likelihood(noise_variance)
        means, variances = self._components(Xs)
        # what is left out moves no distribution function by more than 2^15 of these
        heavy = self.weights > 1e-10
        w, means, variances = self.weights[heavy], means[heavy], variances[heavy]
        centre, width = w @ means, np.sqrt(w @ variances) + np.ptp(means, 0)
        ends = centre - 3 * width, centre + 3 * width
        cdf = lambda y: w @ likelihood.cdf(y, means, variances) / w.sum()  # noqa: E731
        found = [continuous_quantile(cdf, p, *ends) for p in np.atleast_1d(levels)]
        return found[0] if levels.ndim == 0 else np.stack(found, 1)

    def _components(self, Xs) -> tuple[np.ndarray, np.ndarray]:
        """Means and variances (2^n, m) of f at Xs in each Gaussian, for a few test inputs at a time."""
        values, parts = self._values(Xs), []
        for first in range(0, max(len(values), 1), ROWS):
            mean, cross, variance = cross_moments(
                self.model.priors, self.inputs.values, values[first : first + ROWS]
            )
            V = np.linalg.solve(self._factors, self._root[:, :, None] * cross)
            within = np.maximum(variance - np.einsum("sim,sim->sm", V, V), 0.0)
            parts.append((mean + np.einsum("si,sim->sm", self._whitened, V), within))
        means, variances = (np.concatenate(x, 1) for x in zip(*parts, strict=True))
        return means, variances

    _values: ClassVar[Any] = Posterior._values
    _gaussian: ClassVar[Any] = Posterior._gaussian
    _likelihood: ClassVar[Any] = Posterior._likelihood

    def __repr__(self) -> str:
        n, d = self.inputs.values.shape
        return f"EnumeratedPosterior(n={n}, d={d}, log_evidence={self.log_evidence:.4f})"
