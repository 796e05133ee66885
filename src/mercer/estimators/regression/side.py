"""What else is known of each training row, beside inputs and target: trials, exposure, events, limits."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from mercer.estimators import defaults
from mercer.inputs import InputError, as_targets
from mercer.likelihoods import AbstractLikelihood, of_numbers

TAKEN_BY = {
    "exposure": "'poisson' or 'negative-binomial'",
    "trials": "'binomial'",
    "event": "'weibull' or 'log-logistic'",
    "lower": "'censored'",
    "upper": "'censored'",
}


@dataclasses.dataclass(frozen=True, eq=False)
class Side:
    """given: (n,) each, by name."""

    given: dict[str, np.ndarray]

    @classmethod
    def read(cls, n: int, **given: Any) -> Side:
        """As people give them to `fit`, checked; limits may be infinite, or empty."""
        values = {name: value for name, value in given.items() if value is not None}
        limits = {name: _limits(values.pop(name), n, name) for name in ("lower", "upper") if name in values}
        return cls({name: as_targets(value, n, name) for name, value in values.items()} | limits)

    @property
    def columns(self) -> list[np.ndarray]:
        """What must agree, beside inputs and target, for rows to be copies."""
        return list(self.given.values())

    def at(self, rows: np.ndarray) -> Side:
        """That of some of the rows."""
        return Side({name: value[rows] for name, value in self.given.items()})

    def into(self, likelihood: Any, y: np.ndarray) -> tuple[Any, np.ndarray]:
        """The likelihood, which may be a name, with what is known of rows; and y (n,) as it then reads it."""
        if not self.given:
            return likelihood, y
        if likelihood in (None, "gaussian") and set(self.given) <= {"lower", "upper"}:
            likelihood = "censored"
        named = isinstance(likelihood, str) and likelihood not in ("gaussian", "auto")
        plain = of_numbers(likelihood) if named else likelihood
        taken = plain.side if isinstance(plain, AbstractLikelihood) else ()
        if other := [name for name in self.given if name not in taken]:
            who = TAKEN_BY[other[0]]
            raise ValueError(f"{other[0]} goes with likelihood={who}: name it, or leave it out.")
        found = defaults.default_likelihood(likelihood, y, self.given) if named else plain
        return found.with_side(y, **self.given)


def seen_or_limit(y: Any, lower: Any, upper: Any) -> Any:
    """Targets with a limit in the place of each empty cell that has one: there y is not read."""
    if lower is None and upper is None:
        return y
    try:
        values = np.array(y, float)
    except (TypeError, ValueError):
        return y  # an error further down says what is wrong
    for limit, name in ((lower, "lower"), (upper, "upper")):
        if limit is not None and values.ndim == 1:
            known = _limits(limit, len(values), name)
            values = np.where(np.isnan(values) & np.isfinite(known), known, values)
    return values


def _limits(values: Any, n: int, name: str) -> np.ndarray:
    try:
        array = np.asarray(values, float)
    except (TypeError, ValueError):
        raise InputError(f"{name} must be one column of numbers.") from None
    array = np.full(n, array) if array.ndim == 0 else array.reshape(-1) if array.ndim == 2 else array
    if array.shape != (n,):
        raise InputError(f"{name} has {array.shape[0]} entries but there are {n} rows of inputs.")
    return array
