"""Thermodynamic integration (Kuss 4.41, 4.45-4.46):
the log evidence as an area under the mean log likelihood.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike


class Thermodynamic(float):
    """A log evidence, with its standard error from the spread over runs (nan for one run).

    terms (T,): what each step of temperature adds; cumulative (T,): the log evidence of likelihood^tau at
    each temperature.
    """

    standard_error: float = float("nan")
    terms: np.ndarray = np.zeros(0)

    @property
    def cumulative(self) -> np.ndarray:
        """Running sums of the terms: log evidence up to each temperature."""
        return np.cumsum(self.terms)

    def __new__(cls, value: float, standard_error: float = float("nan"), terms: np.ndarray | None = None):
        self = super().__new__(cls, value)
        self.standard_error = standard_error
        self.terms = np.zeros(0) if terms is None else terms
        return self

    def __reduce__(self):
        return Thermodynamic, (float(self), self.standard_error, self.terms)


def thermodynamic(
    temperatures: ArrayLike, log_likelihood: ArrayLike, rule: str = "trapezoid"
) -> Thermodynamic:
    """log p(y) = integral over tau in [0, 1] of E[log p(y | f)] under p(y | f)^tau p(f).

    temperatures (T + 1,) from 0 to 1 and log_likelihood (T + 1, runs) of draws at each, as AIS leaves them in
    its estimate. rule: "trapezoid", or "left" for (tau_t - tau_(t-1)) log p(y | f_(t-1)) alone (4.46), which
    errs downwards by the first order of the steps. Unlike the average weight of AIS it is biased where the
    draws lag behind the temperature, but it does not depend on the few runs that have the largest weights.

    >>> thermodynamic(estimate.temperatures, estimate.log_likelihood).standard_error
    """
    tau, logs = np.asarray(temperatures, float), np.asarray(log_likelihood, float)
    if (
        tau.ndim != 1
        or logs.ndim != 2
        or logs.shape[0] != tau.shape[0]
        or tau.shape[0] < 2
        or logs.shape[1] < 1
    ):
        raise ValueError(
            f"temperatures (T + 1,) need log likelihoods (T + 1, runs), got shapes {tau.shape} and "
            f"{logs.shape}."
        )
    if tau[0] != 0 or tau[-1] != 1 or np.any(np.diff(tau) < 0):
        raise ValueError(f"temperatures must rise from 0 to 1, got {tau[0]:g} to {tau[-1]:g}.")
    heights = {"trapezoid": 0.5 * (logs[1:] + logs[:-1]), "left": logs[:-1]}
    if rule not in heights:
        raise ValueError(f"rule must be 'trapezoid' or 'left', got {rule!r}.")
    terms = np.diff(tau)[:, None] * heights[rule]
    each, runs = terms.sum(0), logs.shape[1]
    error = float(np.std(each, ddof=1) / np.sqrt(runs)) if runs > 1 else float("nan")
    return Thermodynamic(float(each.mean()), error, terms.mean(1))
