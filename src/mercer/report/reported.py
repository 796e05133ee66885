"""What can be told in a report."""

from __future__ import annotations

import abc
import os

from mercer.report.document import Report

__all__ = ["AbstractReported"]

BUDGET = "10s"


class AbstractReported(abc.ABC):
    """Something fitted that has a report."""

    @abc.abstractmethod
    def _told(self, budget: float | str) -> Report:
        """The report; `budget` is what assessing the approximation may take."""

    def report(self, path: str | os.PathLike[str] | None = None, budget: float | str = BUDGET) -> Report:
        """What was fitted, in words, tables and charts: one HTML file that needs no network, with sliders
        that move the prediction where the model is small.

        path: where to write it, such as "r.html"; None: nowhere
        budget: how long an assessment of the approximation may take, where there is one: seconds, "10s"

        >>> model.report("r.html")
        >>> model.report().html()                                 # the same as text
        """
        told = self._told(budget)
        if path is not None:
            told.save(path)
        return told
