"""Several outputs: a model of each, or one of all of them on a long table whose last column says which.

Coregionalised outputs (GPML 9.1) are one process on rows (x, output) with the covariance k(x, x') B[o, o'],
B = L L' + diag(v), and a noise variance of each output's own. They are learned in units of each output's
standard deviation, about its mean; everything shown is in the user's.
"""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from sklearn.base import clone

from mercer.columns import Columns
from mercer.estimators import defaults, reading
from mercer.estimators.base import read_kernel
from mercer.estimators.many import ROWS
from mercer.hyperpriors import LogNormal, Normal
from mercer.inputs import InputError, Inputs, chosen, is_table, named_columns
from mercer.kernels import AbstractKernel, CategoricalCovariance
from mercer.linalg import memory as room
from mercer.params import param
from mercer.registry import unknown
from mercer.solvers.outputs import Outputs

if TYPE_CHECKING:
    from mercer.estimators.regression.regressor import GPRegressor

RANK = 2  # of L, at most
SHARED = 0.8  # of the variance of an output, to start with, what it has in common with others
OWN_PRIOR = LogNormal(-1.0, 1.5)  # of its own part; most probable: 4 %

# rows of a table, asked of one model: (rows, c)
Question = Callable[[Any, Any], np.ndarray]


class AbstractOutputs(abc.ABC):
    """Fitted models of several outputs, asked as one."""

    names: tuple[str, ...]
    members: tuple[GPRegressor, ...]

    @property
    @abc.abstractmethod
    def columns(self) -> Columns | None:
        """What the columns of X are."""

    @classmethod
    @abc.abstractmethod
    def fit(cls, estimator: GPRegressor, X: Any, outputs: dict[str, np.ndarray]) -> Self:
        """Learned from the rows of X where each output, (n,), is not NaN."""

    @abc.abstractmethod
    def ask(self, X: Any, question: Question, units: Sequence[str]) -> np.ndarray:
        """What models answer for each row and output: (m, p, c). units: of the c answers, "value" or
        "spread".
        """

    @abc.abstractmethod
    def log_density(self, X: Any, Y: Any) -> np.ndarray:
        """Of each target on its own, (m, p); NaN where it is."""

    @property
    @abc.abstractmethod
    def log_evidence(self) -> float | None:
        """Of all outputs, in their units; None where hyperparameters were averaged over."""

    @property
    @abc.abstractmethod
    def noise_variance(self) -> np.ndarray | None:
        """(p,), where noise is Gaussian."""

    @abc.abstractmethod
    def packed(self) -> dict[str, Any]:
        """What a file must say of them."""

    @abc.abstractmethod
    def summary(self) -> str:
        """What was found."""


@dataclasses.dataclass(frozen=True, eq=False)
class Independent(AbstractOutputs):
    """A model for each output."""

    names: tuple[str, ...]
    members: tuple[GPRegressor, ...]

    @classmethod
    def fit(cls, estimator: GPRegressor, X: Any, outputs: dict[str, np.ndarray]) -> Independent:
        members = []
        for y in outputs.values():
            seen = ~np.isnan(y)
            members.append(clone(estimator).fit(reading.some_rows(X, seen), y[seen]))
        return cls(tuple(outputs), tuple(members))

    def ask(self, X: Any, question: Question, units: Sequence[str]) -> np.ndarray:
        return np.stack([question(member, X) for member in self.members], 1)

    @property
    def columns(self) -> Columns | None:
        return self.members[0].columns_

    def log_density(self, X: Any, Y: Any) -> np.ndarray:
        table = _targets(Y, self.names)
        out = np.full(table.shape, np.nan)
        for j, (member, y) in enumerate(zip(self.members, table.T, strict=True)):
            seen = ~np.isnan(y)
            out[seen, j] = member.log_density(reading.some_rows(X, seen), y[seen])
        return out

    @property
    def log_evidence(self) -> float | None:
        each = [member.log_marginal_likelihood_ for member in self.members]
        known = [one for one in each if one is not None]
        return sum(known) if len(known) == len(each) else None

    @property
    def noise_variance(self) -> np.ndarray | None:
        each = [member.noise_variance_ for member in self.members]
        return np.array(each) if all(isinstance(one, float) for one in each) else None

    def packed(self) -> dict[str, Any]:
        return {"names": list(self.names), "members": [member._learned() for member in self.members]}

    @classmethod
    def unpacked(cls, estimator: GPRegressor, said: dict[str, Any]) -> Independent:
        names, members = tuple(map(str, said["names"])), tuple(clone(estimator) for _ in said["members"])
        for member, learned in zip(members, said["members"], strict=True):
            member._relearn(learned)
        if len(names) != len(members):
            raise ValueError(f"there are {len(members)} models for {len(names)} outputs.")
        return cls(names, members)

    def summary(self) -> str:
        each = zip(self.names, self.members, strict=True)
        return "\n\n".join(f"output {name}\n{'=' * (7 + len(name))}\n{m.summary()}" for name, m in each)


@dataclasses.dataclass(frozen=True, eq=False)
class Coregional(AbstractOutputs):
    """One model of all outputs. centre, scale: (p,), what each output is learned about, and in units of;
    reader: what reads the columns of X.
    """

    names: tuple[str, ...]
    members: tuple[GPRegressor, ...]
    centre: np.ndarray
    scale: np.ndarray
    reader: GPRegressor

    @classmethod
    def fit(cls, estimator: GPRegressor, X: Any, outputs: dict[str, np.ndarray]) -> Coregional:
        _refuse_settings(estimator)
        table = np.column_stack(list(outputs.values()))
        reader = clone(estimator)
        kernel = None if reader._own_kernel else read_kernel(reader.kernel)
        inputs, _ = reading.training_data(reader, X, np.zeros(len(table)), (kernel,))
        if inputs.values.dtype == object:
            raise ValueError("outputs='coregional' needs columns of numbers: give no kernel on objects.")
        centre = np.nanmean(table, 0)
        scale = np.array([defaults.target_scale(y[~np.isnan(y)]) for y in table.T])
        z = (table - centre) / scale
        member = _member(estimator, _kernel(reader, inputs, z)).set_params(**_solver(estimator, inputs, z))
        output, row = np.nonzero(~np.isnan(z.T))
        member.fit(_long(inputs, row, output), z[row, output])
        return cls(tuple(outputs), (member,), centre, scale, reader)

    def ask(self, X: Any, question: Question, units: Sequence[str]) -> np.ndarray:
        values, p = reading.new_inputs(self.reader, X), len(self.names)
        m = len(values)
        rows = _long(Inputs(values, self._names), np.tile(np.arange(m), p), np.repeat(np.arange(p), m))
        found = question(self.members[0], rows)
        found = np.swapaxes(found.reshape(p, len(values), -1), 0, 1)  # (m, p, c)
        scale, centre = self.scale[:, None], self.centre[:, None]
        shown = {"value": found * scale + centre, "spread": found * scale}
        return np.stack([shown[unit][..., j] for j, unit in enumerate(units)], -1)

    @property
    def columns(self) -> Columns | None:
        return self.reader.columns_

    def log_density(self, X: Any, Y: Any) -> np.ndarray:
        both = self.ask(X, lambda m, X: np.stack(m.predict(X, return_std=True), 1), ("value", "spread"))
        mean, std = both[..., 0], both[..., 1]
        return -0.5 * (((_targets(Y, self.names) - mean) / std) ** 2 + np.log(2.0 * np.pi)) - np.log(std)

    @property
    def log_evidence(self) -> float | None:
        (member,) = self.members
        if member.log_marginal_likelihood_ is None:
            return None
        output = member.posterior_.inputs.values[:, -1].astype(int)
        return member.log_marginal_likelihood_ - float(np.sum(np.log(self.scale[output])))

    @property
    def noise_variance(self) -> np.ndarray:
        noise = self.members[0].noise_variance_
        return np.asarray(noise * self.scale**2)

    @property
    def _names(self) -> tuple[str, ...]:
        columns = self.members[0].columns_
        assert columns is not None
        return columns.names[:-1]

    @property
    def correlations(self) -> np.ndarray:
        """Between the outputs, (p, p), of the functions without noise."""
        B = np.asarray(_mixing(self.members[0].kernel_).covariance())
        d = np.sqrt(np.diag(B))
        return B / np.outer(d, d)

    def packed(self) -> dict[str, Any]:
        (member,) = self.members
        said = {"centre": self.centre, "scale": self.scale, "kernel": member.kernel, "columns": self.columns}
        return {"names": list(self.names), "members": [member._learned()]} | said

    @classmethod
    def unpacked(cls, estimator: GPRegressor, said: dict[str, Any]) -> Coregional:
        names = tuple(map(str, said["names"]))
        centre, scale = (np.asarray(said[key], float) for key in ("centre", "scale"))
        if centre.shape != (len(names),) or scale.shape != (len(names),) or not (scale > 0).all():
            raise ValueError(f"centre and scale are not those of {len(names)} outputs.")
        if not isinstance(said["kernel"], AbstractKernel) or len(said["members"]) != 1:
            raise ValueError("one model of all outputs is not there.")
        if not isinstance(said["columns"], Columns):
            raise ValueError("it does not say what the columns are.")
        member, reader = _member(estimator, said["kernel"]), clone(estimator)
        member._relearn(said["members"][0])
        reading.name_features(reader, said["columns"])
        return cls(names, (member,), centre, scale, reader)

    def summary(self) -> str:
        from mercer.tables import text_table

        shown = [
            [name, *(f"{c:.2f}" for c in row)]
            for name, row in zip(self.names, self.correlations, strict=True)
        ]
        how = "outputs are learned together, about their means and in units of their standard deviations"
        lines = "\n".join(text_table(["", *self.names], shown))
        return f"{how}\n\ncorrelation of the functions without noise\n{lines}\n\n{self.members[0].summary()}"


def kind_of(outputs: str) -> type[Independent | Coregional]:
    """By the name that people type."""
    kinds: dict[str, type[Independent | Coregional]] = {"independent": Independent, "coregional": Coregional}
    if outputs not in kinds:
        raise ValueError(unknown("outputs", outputs, list(kinds)))
    return kinds[outputs]


def _targets(Y: Any, names: tuple[str, ...]) -> np.ndarray:
    """A table of targets (m, p) in the order of the outputs."""
    table = named_columns(Y, "y") if is_table(Y) else None
    if table is not None:
        columns = chosen(table, names, "y")
        return np.column_stack([np.asarray(column, float) for column in columns.values()])
    array = np.asarray(Y, float)
    if array.ndim != 2 or array.shape[1] != len(names):
        raise InputError(f"y must have a column for each of {', '.join(names)}, got shape {array.shape}.")
    return array


def _long(inputs: Inputs, row: np.ndarray, output: np.ndarray) -> dict[str, np.ndarray]:
    """A table with a row for each pair of a row and an output."""
    names = inputs.names or tuple(f"x{j}" for j in range(inputs.values.shape[1]))
    columns = dict(zip(names, inputs.values[row].T, strict=True))
    return columns | {_free(names): output.astype(float)}


def _free(names: tuple[str, ...]) -> str:
    """A name for the column that says which output."""
    return next(name for name in ("output", "output of y", "which output of y") if name not in names)


def _refuse_settings(estimator: GPRegressor) -> None:
    if estimator.likelihood not in (None, "gaussian") or estimator.warp is not None:
        raise ValueError("outputs='coregional' goes with Gaussian noise: leave out likelihood and warp.")
    for name in ("noise_variance", "noise_by", "basis", "input_noise", "groups"):
        if getattr(estimator, name) is not None:
            raise ValueError(
                f"outputs='coregional' learns a noise and a mean of each output: leave out {name}."
            )


def _member(estimator: GPRegressor, kernel: AbstractKernel) -> GPRegressor:
    settings = {"kernel": kernel, "noise_by": -1, "mean": None, "outputs": "independent", "repeats": "keep"}
    return clone(estimator).set_params(**settings)


def _solver(estimator: GPRegressor, inputs: Inputs, z: np.ndarray) -> dict[str, Any]:
    """The settings that solve for all outputs at once, where nothing else was asked for, all of them are
    known everywhere, and there is room for it.
    """
    if estimator.solver is not None or estimator.inference not in (None, "exact") or np.isnan(z).any():
        return {}
    solver = Outputs(outputs=z.shape[1])
    limit = room.LIMIT if estimator.memory is None else room.parse(estimator.memory)
    if len(z) > ROWS or solver.cost(z.size, inputs.values.shape[1]).bytes > limit:
        return {}
    return {"solver": solver, "memory": None}


def _kernel(estimator: GPRegressor, inputs: Inputs, z: np.ndarray) -> AbstractKernel:
    """k(x, x') of variance 1, where the default is used, times B."""
    d, p = inputs.values.shape[1], z.shape[1]
    if estimator._own_kernel:
        kernel: Any = defaults.default_kernel(inputs.values, 1.0, columns=estimator.columns_, held=True)
    else:
        kernel = read_kernel(estimator.kernel).bind(d, inputs.names)  # type: ignore[union-attr]
    loadings, own = _start(z)
    mixing = CategoricalCovariance(
        tuple(float(j) for j in range(p)),
        param(loadings, prior=Normal(0.0, 1.0)),
        param(own, prior=OWN_PRIOR),
    )
    return kernel.on(*range(d)) * mixing.on(d)


def _start(z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Loadings (p, r) and own variances (p,) by the correlations of standardised outputs, over rows where
    both are there.
    """
    p = z.shape[1]
    seen = ~np.isnan(z)
    filled = np.where(seen, z, 0.0)
    both = np.maximum(seen.T.astype(float) @ seen, 1.0)
    S = np.where(np.eye(p, dtype=bool), 1.0, np.clip(filled.T @ filled / both, -0.95, 0.95))
    value, vector = np.linalg.eigh(S)
    r = min(p, RANK)
    loadings = vector[:, -r:] * np.sqrt(SHARED * np.maximum(value[-r:], 0.05))
    return loadings, np.maximum(1.0 - np.sum(loadings**2, 1), 0.1)


def _mixing(kernel: AbstractKernel) -> CategoricalCovariance:
    """B of the product that `_kernel` made."""
    product: Any = kernel
    return product.parts[-1].kernel
