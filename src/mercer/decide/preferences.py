"""Items ranked by a latent utility, learned from comparisons of pairs (`mercer.kernels.Preference`)."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from mercer.inputs import as_inputs
from mercer.prior import sample_gaussian

__all__ = ["Utilities", "utilities"]


@dataclasses.dataclass(frozen=True, eq=False)
class Utilities:
    """Utilities of m items, less their average: comparisons say nothing of a level that all share.

    mean: (m,). covariance: (m, m). In units of the noise with which items are compared: of two items one unit
    apart, for sure, the better one is preferred with probability Phi(1) = 84 % under the probit likelihood.
    """

    mean: np.ndarray
    covariance: np.ndarray

    @property
    def std(self) -> np.ndarray:
        """Standard deviations (m,)."""
        return np.sqrt(np.maximum(np.diag(self.covariance), 0.0))

    @property
    def ranking(self) -> np.ndarray:
        """Positions of the items (m,), that of the largest mean first."""
        return np.argsort(-self.mean, kind="stable")

    def probability_best(self, draws: int = 4000, seed: Any = 0) -> np.ndarray:
        """Probability (m,) that an item is the best of them, as the share of draws in which it is."""
        best = sample_gaussian(self.mean, self.covariance, draws, seed).argmax(1)
        return np.bincount(best, minlength=len(self.mean)) / draws


def utilities(conditioned: Any, items: Any) -> Utilities:
    """Utilities of items (m, d), an array or a frame, under a model of preferences.

    conditioned: a posterior whose kernel is a `kernels.Preference` on pairs of such items; or a fit or a
    fitted `GPClassifier` that holds one

    >>> found = utilities(post, items)
    >>> found.ranking, found.mean, found.std, found.probability_best()     # the best first; (m,) each
    """
    post = conditioned.one_posterior()
    values = as_inputs(items, "items", objects=post.model.reads_objects()).values
    d = post.inputs.values.shape[1]
    if 2 * values.shape[1] != d:
        raise ValueError(
            f"items have {values.shape[1]} columns, but the model compares pairs of {d // 2} columns each."
        )
    pairs = np.hstack([values, np.repeat(values[:1], len(values), 0)])
    centre = np.eye(len(values)) - 1.0 / len(values)
    mean, covariance = post.mean(pairs, latent=True), post.covariance(pairs, latent=True)
    return Utilities(centre @ mean, centre @ covariance @ centre)
