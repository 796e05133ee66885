"""Posteriors that are mixtures of Gaussians: over draws, over settings of hyperparameters, over sets of
outliers.

Means are averages of means, variances the average variance plus the variance of means, densities averages of
densities (Kuss 4.39). What needs one Gaussian process has no answer.
"""

from __future__ import annotations

import abc
from typing import Any, ClassVar, NoReturn

import numpy as np

from mercer.likelihoods.gaussian import Gaussian
from mercer.posteriors.answers import PosteriorError
from mercer.posteriors.protocol import AbstractPosterior, not_with

_OF_ONE = {
    "loo": "leave-one-out predictions need",
    "loo_latent": "leave-one-out predictions of f need",
    "left_out": "predictions without one datum need",
    "components": "components need",
    "evidence_bounds": "bounds of the evidence need",
    "evidence_terms": "the terms of the evidence (5.8) need",
    "prequential": "the sequential decomposition needs",
    "predictor": "predictors need",
    "smoother": "the weights of a linear smoother need",
    "degrees_of_freedom": "degrees of freedom need",
    "prior_divergence": "the divergence from the prior needs",
}


class AbstractMixturePosterior(AbstractPosterior):
    """A posterior of f that is a mixture of Gaussians."""

    many: ClassVar[str]  # what it averages over, in words

    def why_not(self, question: str) -> str | None:
        """Why one of the `QUESTIONS` has no answer here, and what to do instead; None where it has one."""
        if question in _OF_ONE:
            return (
                f"{_OF_ONE[question]} one Gaussian posterior; this one averages over many {self.many}: ask "
                "posterior.model.condition(X, y), which is one."
            )
        if question == "predict_uncertain" and self.model.reads_objects():
            return "inputs that are text or objects have no covariance: use predict."
        return not_with(self.model.likelihood, question) or self._nor(question)

    @abc.abstractmethod
    def _nor(self, question: str) -> str | None:
        """Why this kind of mixture cannot say it either."""

    def loo(self) -> NoReturn:
        """Not of a mixture: a `PosteriorError`."""
        self._refuse("loo")

    def loo_latent(self) -> NoReturn:
        """Not of a mixture: a `PosteriorError`."""
        self._refuse("loo_latent")

    def left_out(self, Xs: Any, rows: Any, variance: bool = True) -> NoReturn:
        """Not of a mixture: a `PosteriorError`."""
        self._refuse("left_out")

    def components(self, Xs: Any) -> NoReturn:
        """Not of a mixture: a `PosteriorError`."""
        self._refuse("components")

    def evidence_bounds(self) -> NoReturn:
        """Not of a mixture: a `PosteriorError`."""
        self._refuse("evidence_bounds")

    def evidence_terms(self) -> NoReturn:
        """Not of a mixture: a `PosteriorError`."""
        self._refuse("evidence_terms")

    def prequential(self) -> NoReturn:
        """Not of a mixture: a `PosteriorError`."""
        self._refuse("prequential")

    def predictor(self) -> NoReturn:
        """Not of a mixture: a `PosteriorError`."""
        self._refuse("predictor")

    def smoother(self, Xs: Any) -> NoReturn:
        """Not of a mixture: a `PosteriorError`."""
        self._refuse("smoother")

    def degrees_of_freedom(self) -> NoReturn:
        """Not of a mixture: a `PosteriorError`."""
        self._refuse("degrees_of_freedom")

    def prior_divergence(self) -> NoReturn:
        """Not of a mixture: a `PosteriorError`."""
        self._refuse("prior_divergence")

    def _refuse(self, question: str) -> NoReturn:
        raise PosteriorError(self.why_not(question))

    def _score_given_all(self) -> np.ndarray:
        """Outlier scores (n,), f at each datum given all data: none of them is left out."""
        likelihood, y = self.model.likelihood, np.asarray(self.y, float)
        if isinstance(likelihood, Gaussian):
            return np.zeros(len(y))
        score = likelihood.outlier_score(y, *self.latent_moments(self.inputs.values))
        return np.asarray(np.clip(score, 0.0, 1.0))
