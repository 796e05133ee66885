"""Bayesian optimisation one row at a time: `ask` for a row to try, `tell` what came of it."""

from __future__ import annotations

import dataclasses
import math
import numbers
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from mercer.decide import acquisition, surrogate
from mercer.decide.climb import maximise
from mercer.decide.space import LinearConstraint, Space
from mercer.decide.surrogate import Surrogate
from mercer.registry import unknown

__all__ = ["Evaluation", "Optimiser", "Optimum"]

ALWAYS = 60  # rows up to which hyperparameters are learned anew for every row
GROWTH = 1.05  # beyond, they are when the rows have grown by so much
DRAWS = 64  # of the values that an improvement is judged against
RIVALS = 16  # of the best rows, where noise hides which is best
QUIET = 1e-4  # noise variance, of standardised values, below which the best is taken as known
ACQUISITIONS = {
    "expected-improvement": "how far below the best a value is expected to be",
    "noisy-expected-improvement": "the same, where the best is not known exactly",
    "probability-of-improvement": "how probable a value below the best is",
    "confidence-bound": "how low a value may plausibly be",
}


@dataclasses.dataclass(frozen=True)
class Evaluation:
    """One row that was evaluated.

    point: the row; value: what was told (None for a failure); failed: whether it failed
    """

    point: dict[str, Any]
    value: float | None = None
    failed: bool = False


@dataclasses.dataclass(frozen=True)
class Optimum:
    """The best row found.

    value: its value as observed; point: the row; history: every `Evaluation` in the order told
    """

    value: float
    point: dict[str, Any]
    history: tuple[Evaluation, ...]


class Optimiser:
    """Finds the best row of a space in few evaluations of an expensive function.

    space: columns by name: (low, high) for real numbers, range(1, 9) for whole ones, a list of levels, or
        `Real`, `Integer`, `Categorical`
    maximise: whether large values are wanted
    constraints: linear ones between columns that are known beforehand, such as "x + 2*y <= 10"
    acquisition: None: the expected improvement, that for noisy values where there is noise or something is
        pending; or its name
    initial: how many rows of a Sobol sequence come first (None: twice the columns, at least five)
    kappa: standard deviations that "confidence-bound" looks ahead
    seed: the same seed, asked and told the same, gives the same rows

    >>> opt = Optimiser({"rate": Real(1e-5, 1e-1, log=True), "depth": range(1, 9), "kind": ["a", "b"]})
    >>> for _ in range(20):
    ...     row = opt.ask()
    ...     opt.tell(row, run(**row))
    >>> opt.best().point
    """

    def __init__(
        self,
        space: Mapping[str, Any],
        maximise: bool = False,
        constraints: Sequence[str | LinearConstraint] = (),
        acquisition: str | None = None,
        initial: int | None = None,
        kappa: float = 2.0,
        seed: int = 0,
    ):
        self.space = Space.of(space, constraints)
        if acquisition is not None and acquisition not in ACQUISITIONS:
            raise ValueError(unknown("acquisition", acquisition, ACQUISITIONS))
        if initial is not None and (isinstance(initial, bool) or not initial >= 1):
            raise ValueError(f"initial must be at least 1, got {initial!r}.")
        self.maximise, self.acquisition, self.kappa, self.seed = maximise, acquisition, kappa, seed
        self.initial = initial if initial is not None else max(5, 2 * len(self.space.columns))
        self._evaluations: list[Evaluation] = []
        self._inputs: list[np.ndarray] = []
        self._pending: list[np.ndarray] = []
        self._asked = 0
        self._theta: np.ndarray | None = None
        self._learned_at = 0  # rows with values when theta was learned
        self._gp: Surrogate | None = None
        self._gp_rows = 0

    # -- ask and tell ----------------------------------------------------------------------------------------

    def ask(self, batch: int | None = None) -> Any:
        """A row to evaluate next; a list of them for a `batch` of so many. Rows that were asked
        for and not yet told are pending: the next ones keep away from them.
        """
        if batch is None:
            return self._one()
        if isinstance(batch, bool) or not isinstance(batch, numbers.Integral) or batch < 1:
            raise ValueError(f"ask takes a number of rows of at least 1, got {batch!r}.")
        return [self._one() for _ in range(batch)]

    def tell(self, row: Mapping[str, Any], value: float | None = None, failed: bool = False) -> None:
        """What came of a row, whether it was asked for or not: its value; or failed=True where there is
        none. A value that is not finite is a failure, too.
        """
        u = self.space.encode(row)
        if value is None and not failed:
            raise ValueError("tell takes the value of the row, or failed=True.")
        number = math.nan if failed or value is None else _as_number(value)
        failed = not math.isfinite(number)
        point = self.space.decode(u)
        if not failed:
            self._warn_of_repeats(u, number)
        for i, waiting in enumerate(self._pending):
            if np.max(np.abs(waiting - u)) < 1e-9:
                del self._pending[i]
                break
        self._inputs.append(u)
        self._evaluations.append(Evaluation(point, None if failed else number, failed))

    @property
    def history(self) -> tuple[Evaluation, ...]:
        """Every evaluation in the order told."""
        return tuple(self._evaluations)

    @property
    def pending(self) -> list[dict[str, Any]]:
        """Rows asked for and not yet told."""
        return [self.space.decode(u) for u in self._pending]

    def best(self) -> Optimum:
        """The best row: that of the lowest value; where there is noise, of the lowest mean of the surrogate
        among the rows evaluated.
        """
        _, y = self._data()
        if not len(y):
            raise ValueError("nothing was told yet that did not fail: there is no best row.")
        at = int(np.argmin(y))
        if len(y) > self.initial and np.ptp(y) > 0:
            gp = self._surrogate()
            if float(gp.noise_variance) > QUIET:
                at = int(np.argmin(np.asarray(surrogate.predict_jit(gp, gp.inputs)[0])[: len(y)]))
        row = [e for e in self._evaluations if not e.failed][at]
        assert row.value is not None
        return Optimum(row.value, dict(row.point), self.history)

    # -- one row ---------------------------------------------------------------------------------------------

    def _one(self) -> dict[str, Any]:
        rng = np.random.default_rng([self.seed, self._asked])
        u = self._next(rng)
        self._asked += 1
        self._pending.append(u)
        return self.space.decode(u)

    def _next(self, rng: np.random.Generator) -> np.ndarray:
        U, y = self._data()
        taken = np.array([*self._inputs, *self._pending]).reshape(-1, self.space.width)
        if len(self._inputs) + len(self._pending) < self.initial or len(y) < 2 or np.ptp(y) == 0:
            return self._filling(taken)
        gp = self._surrogate()
        order = np.argsort(y, kind="stable")[:5]
        score, data = self._score(gp, len(y))
        u, _ = maximise(score, data, self.space, U[order], taken, rng)
        return self.space.encode(self.space.decode(u))

    def _filling(self, taken: np.ndarray) -> np.ndarray:
        """The first row of the Sobol sequence that was neither told nor asked for."""
        size = 64 + 2 * len(taken)
        U = self.space.sobol(size * (8 if self.space.constraints else 1), self.seed)
        known = {tuple(np.round(t, 9)) for t in taken}
        fresh = [u for u in U if tuple(np.round(u, 9)) not in known]
        return fresh[0] if fresh else U[len(taken) % len(U)]

    def _score(self, gp: Surrogate, n: int) -> tuple[acquisition.Score, acquisition.Data]:
        mean = np.asarray(surrogate.predict_jit(gp, gp.inputs)[0])[:n]
        noisy = float(gp.noise_variance) > QUIET
        name = self.acquisition or (
            "noisy-expected-improvement" if noisy or self._pending else "expected-improvement"
        )
        if name == "noisy-expected-improvement":
            rivals = np.argsort(mean, kind="stable")[: RIVALS if noisy else 1]
            points = np.array([*np.asarray(gp.inputs)[rivals], *self._pending])
            size = surrogate.bucket(len(points))
            known = np.r_[np.ones(len(points)), np.zeros(size - len(points))]
            padded = np.concatenate([points, np.zeros((size - len(points), points.shape[1]))])
            normals = acquisition.standard_normals(DRAWS, size)
            return acquisition.noisy_improvement, acquisition.noisy(gp, padded, known, normals)
        best = float(mean.min())
        if name == "confidence-bound":
            return acquisition.confidence_bound, {"gp": gp, "kappa": self.kappa}
        if name == "probability-of-improvement":
            return acquisition.probability_of_improvement, {"gp": gp, "best": best}
        return acquisition.expected_improvement, {"gp": gp, "best": best}

    # -- the surrogate ---------------------------------------------------------------------------------------

    def _data(self) -> tuple[np.ndarray, np.ndarray]:
        """Rows with a value, in the unit cube, and the values to be minimised."""
        kept = [i for i, e in enumerate(self._evaluations) if not e.failed]
        U = np.array([self._inputs[i] for i in kept]).reshape(-1, self.space.width)
        y = np.array([self._evaluations[i].value for i in kept], float)
        return U, -y if self.maximise else y

    def _surrogate(self) -> Surrogate:
        """The surrogate of all values told: hyperparameters learned anew where it is time, rows told since
        appended.
        """
        U, y = self._data()
        groups = self.space.groups
        if self._theta is None or len(y) > max(
            self._learned_at * (1 if self._learned_at < ALWAYS else GROWTH), 0
        ):
            count = len(self.space.columns)
            starts = [surrogate.default_start(count), surrogate.default_start(count, 0.3)]
            if self._theta is not None:
                starts = [self._theta, starts[self._asked % 2]]
            self._theta = surrogate.learn(U, y, groups, starts)
            self._learned_at, self._gp = len(y), None
        if self._gp is None:
            at = self._learned_at
            self._gp = surrogate.condition(self._theta, U[:at], y[:at], groups)
            self._gp_rows = at
        for i in range(self._gp_rows, len(y)):
            self._gp = surrogate.append(self._gp, U[i], y[i])
        self._gp_rows = len(y)
        return self._gp

    def _warn_of_repeats(self, u: np.ndarray, value: float) -> None:
        for i, (known, e) in enumerate(zip(self._inputs, self._evaluations, strict=True)):
            if e.value == value and np.array_equal(known, u):
                warnings.warn(
                    f"the row {self.space.decode(u)} was told before, as evaluation {i + 1}, with the same "
                    f"value {value:g}: it is kept as a second measurement.",
                    stacklevel=3,
                )
                return


def _as_number(value: Any) -> float:
    if isinstance(value, (str, bool)) or np.ndim(value) != 0:
        raise ValueError(f"the value of a row is one number, got {value!r}.")
    try:
        return float(value)
    except (TypeError, ValueError):
        raise ValueError(f"the value of a row is one number, got {value!r}.") from None
