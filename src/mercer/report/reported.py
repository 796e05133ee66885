"""What can be told in a report."""

from __future__ import annotations

import abc
import os
from typing import Any

from mercer.report.document import Report

__all__ = ["AbstractReported"]

BUDGET = "30s"


class AbstractReported(abc.ABC):
    """Something fitted that has a report."""

    @abc.abstractmethod
    def _told(self, budget: float | str, X: Any) -> Report:
        """The report; `budget` is what assessing the approximation may take, X rows to show."""

    def report(
        self, path: str | os.PathLike[str] | None = None, budget: float | str = BUDGET, X: Any = None
    ) -> Report:
        """What was fitted, in words, tables and charts: one HTML file that needs no network, with sliders
        that move the prediction where the model is small.

        path: where to write it, such as "r.html"; None: nowhere
        budget: how long an assessment of the approximation may take, where there is one: seconds, "30s"
        X: rows to show, of models that do not keep those they learned from (mixtures, hidden Markov models)

        >>> model.report("r.html")
        >>> model.report().html()                                 # the same as text
        """
        told = self._told(budget, X)
        if path is not None:
            told.save(path)
        return told


def keeps_its_data(X: Any) -> None:
    """Refuse rows to show where the training data are there."""
    if X is not None:
        raise ValueError("this model keeps the rows it learned from, and reports on these: leave out X.")
