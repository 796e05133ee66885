"""Estimators as notebooks show them: what was learned, in place of scikit-learn's picture of settings."""

from __future__ import annotations

from typing import Any

from sklearn import get_config
from sklearn.base import BaseEstimator

from mercer.html import card, lines, table
from mercer.params import listed

__all__ = ["AbstractShown"]

MOST = 40  # lines of a summary


class AbstractShown(BaseEstimator):
    """An estimator of scikit-learn's with a face of its own in notebooks, which is switched off as that of
    others, by `sklearn.set_config(display="text")`.
    """

    def _html_repr(self) -> str:
        return card(type(self).__name__, *_parts(self))

    def _repr_html_inner(self) -> str:
        return self._html_repr()

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, str]:
        said = {"text/plain": repr(self)}
        return said | ({"text/html": self._html_repr()} if get_config()["display"] == "diagram" else {})


def _parts(estimator: Any) -> list[str]:
    settings = lines(repr(estimator))
    if not any(name.endswith("_") and not name.startswith("_") for name in vars(estimator)):
        return [settings, lines("not fitted yet")]
    if "fit_" not in vars(estimator):
        return [settings, lines("\n".join(estimator.summary().splitlines()[:MOST]))]
    fits = estimator.fit_ if isinstance(estimator.fit_, list) else [estimator.fit_]
    said = "\n".join(repr(found) for found in fits[:MOST])
    rows = [row for found in fits for row in listed(found.model)]
    return [settings, lines(said), table(("hyperparameter", "value", "status"), rows)]
