"""What has seen data: a posterior, a fit, a fitted estimator. Pictures and assessments are of these."""

from __future__ import annotations

import abc
from typing import Any

__all__ = ["AbstractConditioned", "AbstractSubject"]


class AbstractSubject(abc.ABC):  # noqa: B024  (hooks)
    """What a picture may be of. Each question is answered by None where there is nothing to say."""

    def input_importance(self) -> Any:
        """How much each column matters (`mercer.explain.Importance`)."""
        return None

    def column_effects(self, columns: Any = None, most: int = 6, level: float = 0.95) -> Any:
        """How columns matter (a tuple of `mercer.explain.Effect`)."""
        return None

    def outlier_report(self) -> Any:
        """Which training rows are outliers (`GPRegressor.outliers_`)."""
        return None

    def course(self) -> Any:
        """The fit that learned it (`mercer.Fit`), with its history."""
        return None


class AbstractConditioned(AbstractSubject):
    """Something that holds a posterior."""

    @abc.abstractmethod
    def one_posterior(self) -> Any:
        """The posterior it holds (`mercer.posteriors.AbstractPosterior`); an error that says which to choose
        where there are several, or what to do first where there is none yet.
        """
