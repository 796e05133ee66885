"""Bayesian optimisation one row at a time: `ask` for a row to try, `tell` what came of it."""

from __future__ import annotations

import dataclasses
import math
import numbers
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from mercer.decide import acquisition, ahead, climb, feasible, pareto, surrogate
from mercer.decide.evaluations import Evaluation, Front, Optimum, Suggestion, evaluations
from mercer.decide.feasible import LabelLearner, Worth
from mercer.decide.learner import Learner
from mercer.decide.reasons import reason
from mercer.decide.settings import as_number, checked_cost, checked_limits, checked_objectives, signs
from mercer.decide.space import LinearConstraint, Space
from mercer.decide.surrogate import Surrogate
from mercer.persist import AbstractSavable
from mercer.registry import unknown
from mercer.report import AbstractReported, Report
from mercer.report.reported import keeps_its_data

__all__ = ["ACQUISITIONS", "Optimiser"]

DRAWS = 64  # of the values that an improvement is judged against
RIVALS = 16  # of the best rows, where noise hides which is best
REFINED = 2e-3  # distance, of the width of the space, within which a row only refines another
QUIET = 1e-4  # noise variance, of standardised values, below which the best is taken as known
ACQUISITIONS = (
    "expected-improvement",
    "noisy-expected-improvement",
    "probability-of-improvement",
    "confidence-bound",
    "thompson",
    "knowledge-gradient",
    "max-value-entropy",
)
NOTHING = np.zeros((0, 1))


class Optimiser(AbstractSavable, AbstractReported):
    """Finds the best row of a space in few evaluations of an expensive function.

    space: columns by name: (low, high) for real numbers, range(1, 9) for whole ones, a list of levels, or
        `Real`, `Integer`, `Categorical`
    maximise: whether large values are wanted; of several objectives, the names of those
    constraints: linear ones between columns that are known beforehand, such as "x + 2*y <= 10"
    limits: outcomes that are measured with the value, by name, with the (low, high) they must lie in; None
        for no limit: {"weight": (None, 5.0)}
    objectives: names, where there are two or three; `front` is then what is sought
    fidelity: a column whose highest value is the function itself, and lower ones a cheaper likeness of it;
        what rows cost must then be told. Every fourth row is at the highest
    acquisition: None: the expected improvement, that for noisy values where there is noise or something is
        pending (with a fidelity the knowledge gradient); or its name
    initial: how many rows of a Sobol sequence come first (None: twice the columns, at least five)
    kappa: standard deviations that "confidence-bound" looks ahead
    seed: the same seed, asked and told the same, gives the same rows

    Failures, and rows told feasible=False, are learned by a classifier and kept away from. Where costs are
    told, what counts is the improvement per cost.

    >>> opt = Optimiser({"rate": Real(1e-5, 1e-1, log=True), "depth": range(1, 9), "kind": ["a", "b"]})
    >>> for _ in range(20):
    ...     row = opt.ask()
    ...     opt.tell(row, run(**row))
    >>> opt.best().point
    >>> opt.save("run.mercer")
    """

    def __init__(
        self,
        space: Mapping[str, Any],
        maximise: bool | Sequence[str] = False,
        constraints: Sequence[str | LinearConstraint] = (),
        limits: Mapping[str, tuple[float | None, float | None]] | None = None,
        objectives: Sequence[str] = ("value",),
        fidelity: str | None = None,
        acquisition: str | None = None,
        initial: int | None = None,
        kappa: float = 2.0,
        seed: int = 0,
    ):
        self.space = Space.of(space, constraints)
        self.objectives = checked_objectives(objectives)
        self.limits = checked_limits(limits or {}, self.objectives)
        self.maximise = maximise
        self._signs = signs(maximise, self.objectives)
        if fidelity is not None and fidelity not in self.space.columns:
            raise ValueError(unknown("column for fidelity", fidelity, self.space.names))
        if fidelity is not None and len(self.objectives) > 1:
            raise ValueError("fidelity is for one objective.")
        if acquisition is not None and acquisition not in ACQUISITIONS:
            raise ValueError(unknown("acquisition", acquisition, ACQUISITIONS))
        if acquisition is not None and len(self.objectives) > 1:
            raise ValueError("several objectives have one acquisition, the expected hypervolume improvement.")
        if initial is not None and (isinstance(initial, bool) or not initial >= 1):
            raise ValueError(f"initial must be at least 1, got {initial!r}.")
        if not kappa >= 0:
            raise ValueError(f"kappa must be 0 or more, got {kappa!r}.")
        self.fidelity, self.acquisition, self.kappa, self.seed = fidelity, acquisition, float(kappa), seed
        self.initial = initial if initial is not None else max(5, 2 * len(self.space.columns))
        self._evaluations: list[Evaluation] = []
        self._inputs: list[np.ndarray] = []
        self._pending: list[np.ndarray] = []
        self._asked = 0
        groups, single = self.space.groups, len(self.objectives) == 1
        self._learners = {name: Learner(groups, warped=single) for name in self.objectives}
        self._learners |= {name: Learner(groups, warped=False) for name in (*self.limits, "cost")}
        self._labels = LabelLearner(groups)

    def __repr__(self) -> str:
        failed = sum(e.failed for e in self._evaluations)
        said = [
            f"{evaluations(len(self._evaluations))} told",
            *([f"{failed} failed"] if failed else []),
            *([f"{len(self._pending)} pending"] if self._pending else []),
        ]
        return f"<Optimiser of {', '.join(self.space.names)}: {', '.join(said)}>"

    # -- ask and tell ----------------------------------------------------------------------------------------

    def ask(self, batch: int | None = None) -> Any:
        """A row to evaluate next, a dict; a list of them for a `batch` of so many. Rows that were asked for
        and not yet told are pending: the next ones keep away from them.

        >>> row = opt.ask()
        >>> rows = opt.ask(4)
        """
        if batch is None:
            return self._one()[0]
        if isinstance(batch, bool) or not isinstance(batch, numbers.Integral) or batch < 1:
            raise ValueError(f"ask takes a number of rows of at least 1, got {batch!r}.")
        return [self._one()[0] for _ in range(int(batch))]

    def suggest(self) -> Suggestion:
        """The row that `ask` would give, pending from now on, and why it is this one, in words.

        >>> print(opt.suggest())
        """
        row, words = self._one(explain=True)
        return Suggestion(row, words)

    def tell(
        self,
        row: Mapping[str, Any],
        value: Any = None,
        failed: bool = False,
        feasible: bool | None = None,
        cost: float | None = None,
        note: str = "",
    ) -> None:
        """What came of a row, whether it was asked for or not.

        value: a number; with limits or several objectives a dict of them by name, the cost may be among them
        failed: True where there is no value; a value that is not finite is a failure, too
        feasible: False for a row that is of no use although it has a value
        cost: what the evaluation cost, positive, in any unit
        note: kept with the evaluation, such as the error of a failure

        >>> opt.tell(row, 0.25)
        >>> opt.tell(row, {"value": 0.25, "weight": 3.1})
        >>> opt.tell(row, failed=True)
        """
        u = self.space.encode(row)
        if value is None and not failed:
            raise ValueError("tell takes the value of the row, or failed=True.")
        outcomes, told_cost = ({}, None) if failed or value is None else self._outcomes(value)
        cost = checked_cost(told_cost if cost is None else cost)
        if any(not math.isfinite(number) for number in outcomes.values()):
            outcomes, failed, note = {}, True, note or "the value was not finite"
        if outcomes:
            self._warn_of_repeats(u, outcomes)
        for i, waiting in enumerate(self._pending):
            if np.max(np.abs(waiting - u)) < 1e-9:
                del self._pending[i]
                break
        self._inputs.append(u)
        point = {
            name: float(row[name]) if column.count is None else column.decode(u[place])
            for name, column, place in self.space.parts()
        }
        told = None if failed else feasible
        self._evaluations.append(Evaluation(point, outcomes, self.objectives, failed, told, cost, note))

    @property
    def history(self) -> tuple[Evaluation, ...]:
        """Every evaluation in the order told."""
        return tuple(self._evaluations)

    @property
    def pending(self) -> list[dict[str, Any]]:
        """Rows asked for and not yet told."""
        return [self.space.decode(u) for u in self._pending]

    def forget_pending(self) -> None:
        """Rows that were asked for will never be told."""
        self._pending = []

    def best(self) -> Optimum:
        """The best row told that keeps all limits: that of the best value; where there is noise, of the best
        mean of the surrogate among them.
        """
        if len(self.objectives) > 1:
            raise ValueError("several objectives have no one best row: `front` gives those that none beats.")
        told, fine = self._usable()
        if not fine.any():
            raise ValueError(
                "nothing was told yet that did not fail: there is no best row."
                if not len(told)
                else f"none of the {len(told)} rows told is feasible, at the highest fidelity: none is best."
            )
        target = self._signs[0] * np.array([self._evaluations[i].value for i in told])
        at = int(np.argmin(np.where(fine, target, np.inf)))
        if len(told) > self.initial and np.ptp(target) > 0:
            gp = self._gp(self.objectives[0])
            if float(gp.noise_variance) > QUIET:
                at = int(np.argmin(np.where(fine, _means(gp, len(told)), np.inf)))
        row = self._evaluations[told[at]]
        return Optimum(row.outcomes[self.objectives[0]], dict(row.point), dict(row.outcomes), self.history)

    def front(self) -> Front:
        """Of several objectives, the rows told that keep all limits and that none beats in all of them."""
        told, fine = self._usable()
        kept = [int(i) for i in np.asarray(told)[fine]]
        Y = np.array([self._minimised(self._evaluations[i]) for i in kept]).reshape(-1, len(self.objectives))
        rows = pareto.front_rows(Y)
        rows = rows[np.argsort(Y[rows, 0], kind="stable")] if len(rows) else rows
        return Front(tuple(self._evaluations[kept[i]] for i in rows), self.history)

    # -- one row ---------------------------------------------------------------------------------------------

    def _one(self, explain: bool = False) -> tuple[dict[str, Any], str]:
        rng = np.random.default_rng([self.seed, self._asked])
        u, data = self._next(rng)
        row = self.space.decode(u)
        words = reason(self, u, data) if explain else ""
        self._asked += 1
        self._pending.append(self.space.encode(row))
        return row, words

    def _next(self, rng: np.random.Generator) -> tuple[np.ndarray, dict[str, Any] | None]:
        taken = np.array([*self._inputs, *self._pending]).reshape(-1, self.space.width)
        told, fine = self._usable()
        if len(taken) < self.initial or len(told) < 2 or self._is_constant(told):
            return self._filling(taken), None
        U = np.array([self._inputs[i] for i in told])
        data = self._beside()
        gps = [self._gp(name) for name in self.objectives]
        order = np.argsort(_means(gps[0], len(told)), kind="stable")
        near = U[[*order[fine[order]][:5], *order[~fine[order]][:2]]]
        if not fine.any() and data:
            base: acquisition.Score = feasible.only_feasible
            data["base"] = {}
        elif len(gps) > 1:
            base, data["base"] = pareto.hypervolume_improvement, self._volume(gps, fine)
            near = U[pareto.front_rows(np.array([_means(gp, len(told)) for gp in gps]).T)]
        else:
            if self._at_full():
                data["full"] = self._full()
            base, data["base"] = self._score(gps[0], fine if fine.any() else ~fine, near, rng)
        u, _ = climb.maximise(Worth(base), data, self.space, near, taken, rng)
        if self.acquisition is None and len(gps) == 1 and self._only_refines(u, gps[0]):
            base, data["base"] = self._score(self._doubted(), fine, near, rng)
            u, _ = climb.maximise(Worth(base), data, self.space, near, taken, rng)
        which, full = data.get("full", (False, 0.0))
        return np.where(which, full, u), data

    def _only_refines(self, u: np.ndarray, gp: Surrogate) -> bool:
        """Whether u, and the row told before, lie so near to other rows that without noise little is to be
        learned from them: the surrogate may be too sure of the rest of the space.
        """
        if float(gp.noise_variance) > QUIET or len(self._inputs) < 3 or not self.space.continuous.any():
            return False
        rows = np.array(self._inputs)
        return all(
            np.abs(others - row).max(1).min() < REFINED for row, others in ((u, rows), (rows[-1], rows[:-1]))
        )

    def _doubted(self) -> Surrogate:
        """The surrogate with length-scales a third as long: less sure of where it has not been."""
        name = self.objectives[0]
        U, y = self._rows(name)
        theta = np.array(self._learners[name].theta)
        theta[:-3] -= math.log(3.0)
        return surrogate.condition(theta, U, y, self.space.groups)

    def _at_full(self) -> bool:
        """Whether it is the turn of the highest fidelity."""
        return self.fidelity is not None and (len(self._inputs) + len(self._pending)) % 4 == 3

    def _filling(self, taken: np.ndarray) -> np.ndarray:
        """The first row of the Sobol sequence that was neither told nor asked for."""
        size = 64 + 2 * len(taken)
        U = self.space.sobol(size * (8 if self.space.constraints else 1), self.seed)
        known = {tuple(np.round(t, 9)) for t in taken}
        if self._at_full():
            U = np.where(*self._full(), U)
        fresh = [u for u in U if tuple(np.round(u, 9)) not in known]
        return fresh[0] if fresh else U[len(taken) % len(U)]

    def _score(
        self, gp: Surrogate, fine: np.ndarray, near: np.ndarray, rng: np.random.Generator
    ) -> tuple[acquisition.Score, acquisition.Data]:
        """The acquisition of one objective, and what it reads."""
        rows = np.where(*self._full(), gp.inputs)  # what counts is the highest fidelity
        mean = np.asarray(surrogate.predict_jit(gp, rows)[0])[: len(fine)]
        mean = mean if self.fidelity is not None else np.where(fine, mean, np.inf)
        best = float(mean.min())
        for u in (u for u, e in zip(self._inputs, self._evaluations, strict=True) if e.failed):
            gp = surrogate.believe(gp, u, max(float(surrogate.predict_jit(gp, u[None])[0][0]), best))
        noisy = float(gp.noise_variance) > QUIET
        name = self.acquisition
        if name is None and self.fidelity is not None and not self._at_full():
            name = "knowledge-gradient"
        if name is None:
            name = f"{'noisy-' if noisy or self._pending else ''}expected-improvement"
        if name == "noisy-expected-improvement":
            rivals = np.argsort(mean, kind="stable")[: min(RIVALS if noisy else 1, int(fine.sum()))]
            points = np.array([*rows[rivals], *self._pending])
            size = surrogate.bucket(len(points))
            known = np.r_[np.ones(len(points)), np.zeros(size - len(points))]
            padded = np.concatenate([points, np.zeros((size - len(points), points.shape[1]))])
            normals = acquisition.standard_normals(DRAWS, size)
            return acquisition.noisy_improvement, acquisition.noisy(gp, padded, known, normals)
        for u in self._pending:
            gp = surrogate.believe(gp, u, surrogate.predict_jit(gp, u[None])[0][0])
        if name == "confidence-bound":
            return acquisition.confidence_bound, {"gp": gp, "kappa": self.kappa}
        if name == "probability-of-improvement":
            return acquisition.probability_of_improvement, {"gp": gp, "best": best}
        if name == "thompson":
            return ahead.thompson, ahead.draw(gp, rng)
        if name == "knowledge-gradient":
            places = climb.candidates(self.space, near, rng)
            return ahead.knowledge_gradient, ahead.knowledge(gp, places, self._full())
        if name == "max-value-entropy":
            return ahead.entropy_of_the_least, ahead.least_values(gp, climb.candidates(self.space, near, rng))
        return acquisition.expected_improvement, {"gp": gp, "best": best}

    def _volume(self, gps: list[Surrogate], fine: np.ndarray) -> acquisition.Data:
        """What the hypervolume improvement reads: the front of the means, and a reference point: the median
        of the first rows, which no later one moves; beyond the front by a tenth of its extent at least.
        """
        Y = np.array([_means(gp, len(fine)) for gp in gps]).T
        kept = Y[fine]
        front = kept[pareto.front_rows(kept)]
        extent = front.max(0) - front.min(0)
        reference = np.maximum(np.median(Y[: self.initial], 0), front.max(0) + 0.1 * extent)
        for u in self._pending:
            seen = [surrogate.predict_jit(gp, u[None])[0][0] for gp in gps]
            gps = [surrogate.believe(gp, u, mean) for gp, mean in zip(gps, seen, strict=True)]
            front = np.r_[front, np.array([[float(mean) for mean in seen]])]
        return pareto.volume_data(tuple(gps), front[pareto.front_rows(front)], reference)

    def _beside(self) -> dict[str, Any]:
        """Limits, labels and costs as surrogates, where there are any."""
        data: dict[str, Any] = {}
        if self.limits:
            gps = {name: self._gp(name) for name in self.limits}
            data["limits"] = tuple(
                {
                    "gp": gp,
                    "low": -np.inf if low is None else gp.warp(low),
                    "high": np.inf if high is None else gp.warp(high),
                }
                for (low, high), gp in zip(self.limits.values(), gps.values(), strict=True)
            )
        labels = np.array([0 if e.failed or e.feasible is False else 1 for e in self._evaluations])
        if 0 < labels.sum() < len(labels):
            data["labels"] = self._labels.gp(np.array(self._inputs), labels)
        if sum(e.cost is not None for e in self._evaluations) >= self.initial:
            data["cost"] = self._gp("cost")
        return data

    # -- what was told ---------------------------------------------------------------------------------------

    def _usable(self) -> tuple[list[int], np.ndarray]:
        """Positions of the evaluations with a value, and which of them keep all limits: may be the best."""
        told = [i for i, e in enumerate(self._evaluations) if not e.failed]
        return told, np.array([self._keeps_limits(self._evaluations[i]) for i in told], bool)

    def _keeps_limits(self, evaluation: Evaluation) -> bool:
        if evaluation.feasible is False:
            return False
        if self.fidelity is not None:
            which, full = self._full()
            u = self.space.encode(evaluation.point)
            if np.any(np.abs(u - full)[which] > 1e-9):
                return False
        return all(
            (low is None or evaluation.outcomes[name] >= low)
            and (high is None or evaluation.outcomes[name] <= high)
            for name, (low, high) in self.limits.items()
        )

    def _full(self) -> tuple[np.ndarray, np.ndarray]:
        """Which columns of the unit cube are the fidelity's (D,), and their highest values (D,)."""
        which, full = np.zeros(self.space.width, bool), np.zeros(self.space.width)
        for name, column, place in self.space.parts():
            if name == self.fidelity:
                which[place], full[place] = True, column.snap(np.ones((1, column.width)))[0]
        return which, full

    def _minimised(self, evaluation: Evaluation) -> np.ndarray:
        return self._signs * np.array([evaluation.outcomes[name] for name in self.objectives])

    def _gp(self, name: str) -> Surrogate:
        """The surrogate of an outcome by name."""
        return self._learners[name].gp(*self._rows(name))

    def _rows(self, name: str) -> tuple[np.ndarray, np.ndarray]:
        """Rows (n, D) and values (n,) of an outcome; objectives to be minimised, costs on a log scale."""
        if name == "cost":
            rows = [i for i, e in enumerate(self._evaluations) if e.cost is not None]
            y = np.log([self._evaluations[i].cost or 1.0 for i in rows])
        else:
            rows = [i for i, e in enumerate(self._evaluations) if not e.failed]
            sign = self._signs[self.objectives.index(name)] if name in self.objectives else 1.0
            y = sign * np.array([self._evaluations[i].outcomes[name] for i in rows])
        return np.array([self._inputs[i] for i in rows]), y

    def _is_constant(self, told: list[int]) -> bool:
        """Whether there is nothing to learn, which is said once it is not by chance."""
        for name in self.objectives:
            values = {self._evaluations[i].outcomes[name] for i in told}
            if len(values) == 1:
                if len(told) >= self.initial:
                    warnings.warn(
                        f"{name!r} was {values.pop():g} at all {len(told)} rows told: there is nothing to "
                        "learn, and rows that fill the space are given. Does it read its arguments?",
                        stacklevel=5,
                    )
                return True
        return False

    def _outcomes(self, value: Any) -> tuple[dict[str, float], float | None]:
        """Outcomes by name, and the cost where it is among them."""
        names = (*self.objectives, *self.limits)
        if not isinstance(value, Mapping):
            one = len(names) == 1
            if not one and (np.ndim(value) != 1 or len(value) != len(self.objectives) or self.limits):
                raise ValueError(f"tell takes a dict of {list(names)}, got {value!r}.")
            value = {names[0]: value} if one else dict(zip(names, value, strict=True))
        cost = value.get("cost")
        missing, more = set(names) - set(value), set(value) - {*names, "cost"}
        if missing or more:
            raise ValueError(
                f"tell takes a dict of {list(names)}, and of the cost; got {sorted(map(str, value))}."
            )
        return {name: as_number(name, value[name]) for name in names}, cost

    def _warn_of_repeats(self, u: np.ndarray, outcomes: dict[str, float]) -> None:
        for i, (known, e) in enumerate(zip(self._inputs, self._evaluations, strict=True)):
            if e.outcomes == outcomes and np.array_equal(known, u):
                warnings.warn(
                    f"the row {self.space.decode(u)} was told before, as evaluation {i + 1}, with the same "
                    "value: it is kept as a second measurement.",
                    stacklevel=3,
                )
                return

    def _told(self, budget: float | str, X: Any) -> Report:
        from mercer.decide.told import told

        keeps_its_data(X)
        return told(self)

    # -- files -----------------------------------------------------------------------------------------------

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The settings, as the constructor takes them."""
        return {
            "space": dict(self.space.columns), "maximise": self.maximise,
            "constraints": list(self.space.constraints), "limits": dict(self.limits),
            "objectives": list(self.objectives), "fidelity": self.fidelity, "acquisition": self.acquisition,
            "initial": self.initial, "kappa": self.kappa, "seed": self.seed,
        }  # fmt: skip

    def _learned(self) -> dict[str, Any]:
        return {
            "evaluations": [dataclasses.asdict(e) | {"objectives": None} for e in self._evaluations],
            "pending": self.pending,
            "asked": self._asked,
            "learners": {name: learner.kept() for name, learner in self._learners.items()},
            "labels": self._labels.kept(),
        }

    def _relearn(self, learned: dict[str, Any]) -> None:
        for said in learned["evaluations"]:
            e = Evaluation(**(said | {"objectives": self.objectives}))
            self._inputs.append(self.space.encode(e.point))
            self._evaluations.append(e)
        self._pending = [self.space.encode(row) for row in learned["pending"]]
        self._asked = int(learned["asked"])
        for name, kept in learned["learners"].items():
            self._learners[name].restore(kept)
        self._labels.restore(learned["labels"])


def _means(gp: Surrogate, n: int) -> np.ndarray:
    """The means of the surrogate at its n rows."""
    return np.asarray(surrogate.predict_jit(gp, gp.inputs)[0])[:n]
