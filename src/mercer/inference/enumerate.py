"""Exact inference for mixture noise and a handful of data: a sum over every set of outliers (Kuss 5.3)."""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar

import numpy as np
from scipy.special import logsumexp

from mercer.inference.protocol import AbstractConditioning, AbstractEvidence
from mercer.inputs import Inputs
from mercer.likelihoods import GaussianMixtureNoise
from mercer.posteriors.enumerated import EnumeratedPosterior
from mercer.sampling.target import prior_moments
from mercer.solvers.protocol import AbstractSolver, SolverError

MOST = 15  # data: 2^15 Gaussians
_LOG_2PI = float(np.log(2 * np.pi))


@dataclasses.dataclass(frozen=True)
class Enumeration(AbstractConditioning, AbstractEvidence):
    """The exact posterior for `GaussianMixtureNoise` and at most 15 data: a mixture of 2^n Gaussians, one for
    each set of outliers.

    It is what EP, Laplace and the samplers can be held against; hyperparameters are not learned with it.

    >>> post = model.condition(X, y, Enumeration()); post.log_evidence, post.outlier_score()
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
