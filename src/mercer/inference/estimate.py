"""A log evidence with what is known of its error."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from mercer.sampling.thermodynamics import Thermodynamic


class Estimate(float):
    """A log evidence with what is known of its error. It is a float: the forward estimate.

    standard_error: of the log, from the spread over forward runs
    forward, reverse: they bracket the value up to that error (reverse is nan where none was asked for)
    runs, reverse_runs: the log weight of each run
    temperatures, log_likelihood: (T + 1,), and log p(y | f) of the forward runs at each (T + 1, runs)
    interrupted: Ctrl-C ended the work early; the notes say what was left out
    """

    standard_error: float = float("nan")
    forward: float = float("nan")
    reverse: float = float("nan")
    runs: np.ndarray = np.zeros(0)
    reverse_runs: np.ndarray = np.zeros(0)
    temperatures: np.ndarray = np.zeros(0)
    log_likelihood: np.ndarray = np.zeros((0, 0))
    acceptance: float = float("nan")
    interrupted: bool = False
    notes: tuple[str, ...] = ()

    @property
    def path(self) -> np.ndarray:
        """Mean of log p(y | f) over the forward runs at each temperature, (T + 1,)."""
        return self.log_likelihood.mean(1) if self.log_likelihood.size else np.zeros(0)

    @property
    def thermodynamic(self) -> Thermodynamic:
        """The estimate by thermodynamic integration; nan where there were no temperatures."""
        from mercer.sampling.thermodynamics import Thermodynamic, thermodynamic

        if not self.temperatures.size:
            return Thermodynamic(float("nan"))
        return thermodynamic(self.temperatures, self.log_likelihood)

    def __new__(cls, value: float, **known: Any) -> Estimate:
        self = super().__new__(cls, value)
        for name, item in known.items():
            setattr(self, name, item)
        return self

    def __repr__(self) -> str:
        both = (
            ""
            if np.isnan(self.reverse)
            else f" (forward {self.forward:.3f}, reverse {self.reverse:.3f}, {len(self.runs)} runs)"
        )
        return f"{float(self):.3f} +- {self.standard_error:.2g}{both}"

    __str__ = __repr__

    def __reduce__(self):
        return _rebuild, (float(self), self.__dict__)


def _rebuild(value: float, known: dict) -> Estimate:
    return Estimate(value, **known)
