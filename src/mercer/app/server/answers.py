"""What each kind of saved model answers: to rows, or to a look ahead.

`served` wraps a loaded model. `read` turns a request into a `Question`, refusing what is wrong with it;
`answer` computes, for the rows of several questions of one `key` at once where the kind allows it.
"""

from __future__ import annotations

import abc
import copy
import dataclasses
import math
import numbers
from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np

import mercer as mc
from mercer.app.server.rows import Field, Rows, fields_of, read_rows
from mercer.app.web import WebError
from mercer.columns.table import as_date

__all__ = ["AbstractServed", "Question", "served"]

Answer = list[dict[str, Any]]
LEVEL = 0.95
MOST_QUANTILES = 100


@dataclasses.dataclass(frozen=True, eq=False)
class Question:
    """What is asked: rows, or a look ahead; questions of one `key` can be answered together, None alone."""

    options: dict[str, Any]
    rows: Rows | None = None
    ahead: Any = None
    regressors: Any = None

    @property
    def key(self) -> Hashable | None:
        """What must agree."""
        if self.rows is None:
            return None
        return (tuple(sorted(self.options.items())), tuple(self.rows.columns))

    @property
    def count(self) -> int:
        """Rows that are asked for."""
        return 1 if self.rows is None else self.rows.count


class AbstractServed(abc.ABC):
    """A loaded model that answers questions."""

    takes: tuple[str, ...] = ()  # options that a request may have
    together: bool = True  # whether rows of several requests can be answered at once
    updates: bool = False

    def __init__(self, model: Any, most: int) -> None:
        self.model, self.most = model, most

    @property
    @abc.abstractmethod
    def fields(self) -> tuple[Field, ...]:
        """The columns of rows."""

    @abc.abstractmethod
    def answer(self, question: Question) -> Answer:
        """One object for each row."""

    def read(self, said: Any) -> Question:
        """What a body asks for."""
        if not isinstance(said, dict):
            raise WebError(422, "wrong_type", "the body must be an object.", hint=self.hint())
        self._known(said, ("rows", *self.takes))
        rows = read_rows(said.get("rows"), self.fields, self.most)
        return Question(self._options(said), rows)

    def _known(self, said: dict[str, Any], known: Sequence[str]) -> None:
        if other := sorted(set(said) - set(known)):
            message = f"nothing is known of {other[0]!r}: a request may have {', '.join(known)}."
            raise WebError(422, "unknown_option", message, hint=self.hint())

    def _options(self, said: dict[str, Any]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        if "level" in self.takes:
            found["level"] = _probability(said.get("level", LEVEL), "level")
        if "quantiles" in self.takes:
            asked = said.get("quantiles") or []
            if not isinstance(asked, list) or len(asked) > MOST_QUANTILES:
                message = f"quantiles must be a list of at most {MOST_QUANTILES} numbers."
                raise WebError(422, "wrong_type", message)
            found["quantiles"] = tuple(_probability(q, "quantiles") for q in asked)
        if "latent" in self.takes:
            found["latent"] = said.get("latent", False)
            if not isinstance(found["latent"], bool):
                raise WebError(422, "wrong_type", "latent must be true or false.")
        return found

    def hint(self) -> str:
        """What could be sent."""
        from mercer.app.web import dumps

        return dumps(self.example()).decode()

    def example(self) -> dict[str, Any]:
        """A body that is answered."""
        return {"rows": [{field.name: field.example for field in self.fields if field.needed}]}

    def schema(self) -> dict[str, Any]:
        """What OpenAPI says of a body."""
        row = {
            "type": "object",
            "properties": {field.name: field.schema() for field in self.fields},
            "required": [field.name for field in self.fields if field.needed],
        }
        rows = {"type": "array", "minItems": 1, "maxItems": self.most}
        rows["items"] = {
            "anyOf": [row, {"type": "array", "description": "cells in the order of the columns"}]
        }
        properties: dict[str, Any] = {"rows": rows} | {name: OPTIONS[name] for name in self.takes}
        return {"type": "object", "properties": properties, "required": ["rows"], "example": self.example()}

    def facts(self) -> dict[str, Any]:
        """What `/info` says besides the columns."""
        return {}

    def updated(self, said: Any) -> tuple[Any, int]:
        """A model that knows new values, too, and how many; the one that is served stays as it is."""
        raise WebError(
            409, "not_updatable", f"a {type(self.model).__name__} is not updated.", hint="fit it again"
        )


OPTIONS: dict[str, Any] = {
    "level": {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1, "default": LEVEL},
    "quantiles": {"type": "array", "items": {"type": "number"}, "maxItems": MOST_QUANTILES},
    "latent": {"type": "boolean", "default": False, "description": "the noise-free function"},
}


def served(model: Any, most: int) -> AbstractServed:
    """The model as the server asks it; at most so many rows at a time."""
    kinds: dict[Any, Any] = {
        mc.GPRegressor: Regression, mc.GPClassifier: Classification, mc.GPTimeSeries: Series,
        mc.GPPanel: Panel, mc.GPMixture: Experts, mc.GaussianMixture: Clusters,
        mc.BayesianGaussianMixture: Clusters, mc.HMM: States, mc.BayesianHMM: States,
        mc.GPDensity: Points, mc.GPIntensity: Points, mc.GPLVM: Places, mc.GTM: Places,
        mc.control.Controller: Actions,
    }  # fmt: skip
    kind = kinds.get(type(model))
    if kind is None:
        raise ValueError(
            f"a {type(model).__name__} is not served, as it answers no rows: mercer.load opens it in Python."
        )
    made: AbstractServed = kind(model, most)
    return made


def _probability(value: Any, name: str) -> float:
    number = isinstance(value, numbers.Real) and not isinstance(value, bool)
    if not number or not 0 < float(value) < 1:
        message = f"{name} must lie strictly between 0 and 1, got {value!r}."
        raise WebError(422, "wrong_type" if not number else "out_of_range", message)
    return float(value)


# ------------------------------------------------------------------------------------------ tables of columns


class AbstractTable(AbstractServed):
    """A model fitted to a table."""

    def __init__(self, model: Any, most: int) -> None:
        super().__init__(model, most)
        self._fields = self._find_fields()

    @property
    def fields(self) -> tuple[Field, ...]:
        return self._fields

    def _find_fields(self) -> tuple[Field, ...]:
        columns = self.model.columns_
        if columns is None:
            return _numbers(self.model)
        return fields_of(columns, self._encoded())

    def _encoded(self) -> np.ndarray:
        values: np.ndarray = self.model._training[0].values
        return values

    def table(self, rows: Rows) -> Any:
        """The rows as the model takes them: by name, or as an array where it has no names."""
        columns = self.model.columns_
        if columns is not None and columns.named:
            return rows.columns
        if len(rows.columns) == 1 and columns is not None and columns.objects:
            return list(next(iter(rows.columns.values())))
        return np.column_stack(list(rows.columns.values()))

    def facts(self) -> dict[str, Any]:
        return _learned(self.model)


def _numbers(model: Any) -> tuple[Field, ...]:
    """Columns of numbers, by their names where the model knows them; an empty cell where it takes NaN."""
    names = vars(model).get("feature_names_in_")
    width = int(model.n_features_in_)
    empty = isinstance(model, mc.GPLVM | mc.GTM)
    return tuple(Field(str(name), empty=empty) for name in (names if names is not None else _x(width)))


def _x(width: int) -> list[str]:
    return [f"x{j}" for j in range(width)]


def _learned(model: Any) -> dict[str, Any]:
    """Kernel, evidence and rows, of models that have them."""
    kernels = model.kernel_ if isinstance(model.kernel_, list | tuple) else [model.kernel_]
    evidence = model.log_marginal_likelihood_
    return {
        "training_rows": len(model._training[1]),
        "kernel": [str(kernel) for kernel in kernels],
        "log_evidence": None if evidence is None else float(evidence),
    }


class Regression(AbstractTable):
    """Mean, standard deviation, interval and quantiles; of several outputs by name."""

    takes = ("level", "quantiles", "latent")

    def _find_fields(self) -> tuple[Field, ...]:
        model = self.model
        if model._several is None:
            return super()._find_fields()
        fields = fields_of(model._several.columns, model.estimators_[0]._training[0].values)
        column = model.output_column
        return fields if not isinstance(column, str) else (*fields, Field(column, "category", needed=False))

    def answer(self, question: Question) -> Answer:
        assert question.rows is not None
        X, level, latent = self.table(question.rows), question.options["level"], question.options["latent"]
        quantiles = question.options["quantiles"]
        if latent and quantiles:
            raise WebError(422, "unknown_option", "quantiles are of observations: leave out latent.")
        if self.model._several is not None:
            return self._several(X, level, quantiles, latent)
        columns: dict[str, Any] = self.model.predict_columns(X, level, latent)
        if quantiles:
            columns["quantiles"] = _quantiles(quantiles, self.model.predict_quantile(X, list(quantiles)))
        return by_row(columns)

    def _several(self, X: Any, level: float, quantiles: tuple[float, ...], latent: bool) -> Answer:
        mean, std = self.model.predict(X, return_std=True, latent=latent)
        columns: dict[str, Any] = {"mean": mean, "std": std}
        if not latent:
            columns["lower"], columns["upper"] = self.model.predict_interval(X, level)
        if quantiles:
            found = self.model.predict_quantile(X, list(quantiles))
            flat = _quantiles(quantiles, found.reshape(-1, len(quantiles)))
            columns["quantiles"] = np.array(flat, dtype=object).reshape(mean.shape)
        if mean.ndim == 1:
            return by_row(columns)
        each = [by_row({k: v[:, j] for k, v in columns.items()}) for j in range(mean.shape[1])]
        return [dict(zip(self.model.outputs_, row, strict=True)) for row in zip(*each, strict=True)]

    def facts(self) -> dict[str, Any]:
        if self.model._several is not None:
            return {"outputs": list(self.model.outputs_)}
        return super().facts() | {"noise": self.model.model_.likelihood.words()}


class Classification(AbstractTable):
    """The likeliest class and the probability of each."""

    def answer(self, question: Question) -> Answer:
        assert question.rows is not None
        p = self.model.predict_proba(self.table(question.rows))
        labels = [str(label) for label in self.model.classes_.tolist()]
        best = p.argmax(1)
        return [
            {
                "class": plain(self.model.classes_[c]),
                "probabilities": dict(zip(labels, map(plain, row), strict=True)),
            }
            for c, row in zip(best, p, strict=True)
        ]

    def facts(self) -> dict[str, Any]:
        return super().facts() | {"classes": [plain(c) for c in self.model.classes_]}


class Points(AbstractTable):
    """A density, or an intensity, with its interval."""

    takes = ("level",)

    def answer(self, question: Question) -> Answer:
        assert question.rows is not None
        X = self.table(question.rows)
        lower, upper = self.model.predict_interval(X, question.options["level"])
        return by_row({"mean": self.model.predict(X), "lower": lower, "upper": upper})

    def facts(self) -> dict[str, Any]:
        return {}


class AbstractNumbers(AbstractTable):
    """A model of rows of numbers."""

    def __init__(self, model: Any, most: int) -> None:
        super().__init__(model, most)
        self.model = copy.copy(model)
        vars(self.model).pop("feature_names_in_", None)  # rows come in their order

    def _find_fields(self) -> tuple[Field, ...]:
        return _numbers(self.model)

    def table(self, rows: Rows) -> Any:
        return np.column_stack(list(rows.columns.values()))

    def facts(self) -> dict[str, Any]:
        return {}


class Experts(AbstractNumbers):
    """A mixture of experts: mean, standard deviation, interval and quantiles."""

    takes = ("level", "quantiles")

    def answer(self, question: Question) -> Answer:
        assert question.rows is not None
        X, quantiles = self.table(question.rows), question.options["quantiles"]
        mean, std = self.model.predict(X, return_std=True)
        lower, upper = self.model.predict_interval(X, question.options["level"])
        columns: dict[str, Any] = {"mean": mean, "std": std, "lower": lower, "upper": upper}
        if quantiles:
            columns["quantiles"] = _quantiles(quantiles, self.model.predict_quantile(X, list(quantiles)))
        return by_row(columns)


class Clusters(AbstractNumbers):
    """The cluster of each row, and the probability of each."""

    def answer(self, question: Question) -> Answer:
        assert question.rows is not None
        X = self.table(question.rows)
        p = self.model.predict_proba(X)
        return by_row(
            {"component": p.argmax(1), "probabilities": list(p), "log_density": self.model.score_samples(X)}
        )


class States(AbstractNumbers):
    """The rows are one sequence: the state at each, by the likeliest path, and the probability of each."""

    together = False

    def _find_fields(self) -> tuple[Field, ...]:
        if self.model.emission == "categorical":
            return (Field("symbol", example=0),)
        learned = self.model.model_.emission.learned()
        middle = next(learned[name] for name in ("means", "rates", "emission") if name in learned)
        return tuple(Field(name, empty=True) for name in _x(middle.shape[-1]))

    def answer(self, question: Question) -> Answer:
        assert question.rows is not None
        X = np.column_stack(list(question.rows.columns.values()))
        if self.model.emission == "categorical":
            X = X[:, 0].astype(int)
        return by_row({"state": self.model.predict(X), "probabilities": list(self.model.predict_proba(X))})


class Places(AbstractNumbers):
    """Where rows lie in the latent space."""

    def answer(self, question: Question) -> Answer:
        assert question.rows is not None
        points, std = self.model.transform(self.table(question.rows), return_std=True)
        return by_row({"place": list(points), "std": list(std)})


class Actions(AbstractServed):
    """What a controller does in each state."""

    @property
    def fields(self) -> tuple[Field, ...]:
        return tuple(Field(str(name)) for name in self.model.dynamics.states)

    def answer(self, question: Question) -> Answer:
        assert question.rows is not None
        found = []
        for state in np.column_stack(list(question.rows.columns.values())):
            self.model.forget()  # each row stands for itself
            found.append({"action": plain(self.model.act(state))})
        return found


# ---------------------------------------------------------------------------------------------- series


class AbstractAhead(AbstractServed):
    """A model that looks ahead: `horizon` is a number of steps, a length of time or a date; or `times`."""

    takes = ("level",)
    together = False

    @property
    def fields(self) -> tuple[Field, ...]:
        return ()

    def read(self, said: Any) -> Question:
        if not isinstance(said, dict):
            raise WebError(422, "wrong_type", "the body must be an object.", hint=self.hint())
        self._known(said, ("horizon", "times", "regressors", *self.takes))
        if ("horizon" in said) == ("times" in said):
            message = "a forecast has either a horizon or times."
            raise WebError(422, "missing_option", message, hint=self.hint())
        if "times" in said:
            ahead: Any = read_times(said["times"], self.most)
        else:
            ahead = said["horizon"]
            if isinstance(ahead, bool) or not isinstance(ahead, int | str):
                raise WebError(422, "wrong_type", "horizon must be a number of steps, or text such as '2y'.")
            self._check_steps(ahead)
        return Question(self._options(said), None, ahead, self._regressors(said.get("regressors")))

    def _check_steps(self, horizon: int | str) -> None:
        steps = horizon if isinstance(horizon, int) else 1
        if not 1 <= steps <= self.most:
            raise WebError(422, "out_of_range", f"horizon must be from 1 to {self.most} steps, got {steps}.")

    def _regressors(self, said: Any) -> Any:
        if said is None:
            return None
        if not isinstance(said, dict) or not all(isinstance(v, list) for v in said.values()):
            raise WebError(422, "wrong_type", "regressors must be an object of lists, one for each name.")
        time = self._time()
        return {
            name: read_times(cells, self.most) if name == time else Field(name, empty=True).read(cells)
            for name, cells in said.items()
        }

    @abc.abstractmethod
    def _time(self) -> str: ...

    def example(self) -> dict[str, Any]:
        return {"horizon": 12}

    def schema(self) -> dict[str, Any]:
        when = {"type": "array", "items": {"type": ["string", "number"]}, "maxItems": self.most}
        known = {"type": "object", "additionalProperties": {"type": "array"}}
        properties: dict[str, Any] = {"horizon": {"type": ["integer", "string"]}, "times": when}
        properties |= {"regressors": known} | {name: OPTIONS[name] for name in self.takes}
        return {"type": "object", "properties": properties, "example": self.example()}


class Series(AbstractAhead):
    """Forecasts of one series, which can be told new values."""

    updates = True

    def _time(self) -> str:
        return str(self.model.time_name_)

    def answer(self, question: Question) -> Answer:
        level = question.options["level"]
        stamps, columns = self.model.forecast_columns(question.ahead, level, question.regressors)
        if len(stamps) > self.most:
            raise WebError(422, "out_of_range", f"{len(stamps)} steps, and {self.most} are answered.")
        return by_row({"time": [_stamp(s) for s in stamps], **columns})

    def facts(self) -> dict[str, Any]:
        model = self.model
        return {
            "values": int((~np.isnan(model._y)).sum()),
            "time": model.time_name_,
            "value": model.value_name_,
            "first": _stamp(model.clock_.stamps(model._t[:1])[0]),
            "last": _stamp(model.clock_.stamps(model._t[-1:])[0]),
            "parts": list(model.component_names_),
            "regressors": list(model.regressors_),
        }

    def updated(self, said: Any) -> tuple[Any, int]:
        if not isinstance(said, dict):
            raise WebError(422, "wrong_type", "the body must be an object.", hint=UPDATE)
        self._known(said, ("times", "values", "regressors"))
        values, times = said.get("values"), read_times(said.get("times"), self.most)
        if not isinstance(values, list) or len(values) != len(times):
            message = f"values must be a list of {len(times)}, one for each time."
            raise WebError(422, "wrong_length", message, "values", None, UPDATE)
        numbers = Field("values", empty=True).read(values)
        name = self.model.time_name_
        new = {name: times, self.model.value_name_: numbers} | (
            self._regressors(said.get("regressors")) or {}
        )
        for column, cells in new.items():
            if len(cells) != len(times):
                message = f"{column!r} has {len(cells)} values for {len(times)} times."
                raise WebError(422, "wrong_length", message, column)
        series: Any = new if self.model.regressors_ else times
        return copy.copy(self.model).update(series, None if self.model.regressors_ else numbers), len(times)


UPDATE = '{"times": ["2024-01-31"], "values": [12.5]}'


class Panel(AbstractAhead):
    """Forecasts of several series, by name."""

    def _time(self) -> str:
        return ""

    def answer(self, question: Question) -> Answer:
        if question.regressors is not None:
            raise WebError(422, "unknown_option", "a panel has no regressors.")
        found = []
        for name, one in self.model.series_.items():
            stamps, columns = one.forecast_columns(question.ahead, question.options["level"])
            rows = by_row({"time": [_stamp(s) for s in stamps], **columns})
            found += [{"series": str(name)} | row for row in rows]
        return found

    def facts(self) -> dict[str, Any]:
        return {"series": [str(name) for name in self.model.names_]}


def read_times(said: Any, most: int) -> np.ndarray:
    """Stamps as JSON says them: dates as text, or numbers."""
    if not isinstance(said, list) or not 0 < len(said) <= most:
        message = f"times must be a list of 1 to {most} dates, or numbers."
        raise WebError(422, "wrong_type", message, "times")
    if all(isinstance(one, int | float) and not isinstance(one, bool) for one in said):
        return Field("times").read(said)
    found = [as_date(one) if isinstance(one, str) else None for one in said]
    if None in found:
        i = found.index(None)
        message = f"time {i} is {said[i]!r}, which is no date such as 2024-01-31."
        raise WebError(422, "wrong_type", message, "times", i)
    return np.array(found)


# ---------------------------------------------------------------------------------------------- as JSON


def by_row(columns: dict[str, Any]) -> Answer:
    """Columns as one object for each row."""
    lists = [[plain(v) for v in column] for column in columns.values()]
    return [dict(zip(columns, row, strict=True)) for row in zip(*lists, strict=True)]


def plain(value: Any) -> Any:
    """A value as JSON has it; what is not finite is null."""
    if isinstance(value, np.ndarray):
        return [plain(v) for v in value.tolist()]
    if isinstance(value, np.generic):
        value = value.item()
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _quantiles(asked: Sequence[float], found: np.ndarray) -> list[dict[str, Any]]:
    return [{f"{q:g}": plain(v) for q, v in zip(asked, row, strict=True)} for row in found]


def _stamp(stamp: Any) -> Any:
    if isinstance(stamp, np.datetime64):
        return str(stamp).removesuffix(".000000").removesuffix("T00:00:00")
    return plain(stamp)
