"""What has seen data: a posterior, a fit, a fitted estimator. Pictures and assessments are of these."""

from __future__ import annotations

import abc
from typing import Any

__all__ = ["AbstractConditioned"]


class AbstractConditioned(abc.ABC):
    """Something that holds a posterior."""

    @abc.abstractmethod
    def one_posterior(self) -> Any:
        """The posterior it holds (`mercer.posteriors.AbstractPosterior`); an error that says which to choose
        where there are several, or what to do first where there is none yet.
        """
