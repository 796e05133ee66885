"""Several outputs: a model of each, or one of all of them (`coregional`)."""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from sklearn.base import clone

from mercer.columns import Columns
from mercer.estimators import reading
from mercer.inputs import InputError, chosen, is_table, named_columns
from mercer.registry import unknown

if TYPE_CHECKING:
    from mercer.estimators.regression.coregional import Coregional
    from mercer.estimators.regression.regressor import GPRegressor

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
    def ask(self, X: Any, question: Question, units: Sequence[str], latent: bool = False) -> np.ndarray:
        """What models answer for each row and output: (m, p, c). units: of the c answers, "value" or
        "spread"; latent: they are of functions without noise.
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

    @property
    @abc.abstractmethod
    def noise_covariance(self) -> np.ndarray | None:
        """Between the noise of the outputs in one row, (p, p), where noise is Gaussian."""

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
        if estimator.output_noise != "independent" or estimator.output_rank is not None:
            raise ValueError(
                "output_noise and output_rank are of outputs that are learned together: use "
                "outputs='coregional'."
            )
        members = []
        for name, y in outputs.items():
            seen = ~np.isnan(y)
            one = clone(estimator).set_params(output_column=None).fit(reading.some_rows(X, seen), y[seen])
            members.append(one.name_target(name))
        return cls(tuple(outputs), tuple(members))

    def ask(self, X: Any, question: Question, units: Sequence[str], latent: bool = False) -> np.ndarray:
        return np.stack([question(member, X) for member in self.members], 1)

    @property
    def columns(self) -> Columns | None:
        return self.members[0].columns_

    def log_density(self, X: Any, Y: Any) -> np.ndarray:
        table = targets_of(Y, self.names)
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

    @property
    def noise_covariance(self) -> np.ndarray | None:
        noise = self.noise_variance
        return None if noise is None else np.diag(noise)

    def packed(self) -> dict[str, Any]:
        return {"names": list(self.names), "members": [member._learned() for member in self.members]}

    @classmethod
    def unpacked(cls, estimator: GPRegressor, said: dict[str, Any]) -> Independent:
        names, members = (
            tuple(map(str, said["names"])),
            tuple(clone(estimator).set_params(output_column=None) for _ in said["members"]),
        )
        for member, learned in zip(members, said["members"], strict=True):
            member._relearn(learned)
        if len(names) != len(members):
            raise ValueError(f"there are {len(members)} models for {len(names)} outputs.")
        return cls(names, members)

    def summary(self) -> str:
        each = zip(self.names, self.members, strict=True)
        return "\n\n".join(f"output {name}\n{'=' * (7 + len(name))}\n{m.summary()}" for name, m in each)


def kind_of(outputs: str) -> type[Independent | Coregional]:
    """By the name that people type."""
    from mercer.estimators.regression.coregional import Coregional

    kinds: dict[str, type[Independent | Coregional]] = {"independent": Independent, "coregional": Coregional}
    if outputs not in kinds:
        raise ValueError(unknown("outputs", outputs, list(kinds)))
    return kinds[outputs]


def targets_of(Y: Any, names: tuple[str, ...]) -> np.ndarray:
    """A table of targets (m, p) in the order of the outputs."""
    table = named_columns(Y, "y") if is_table(Y) else None
    if table is not None:
        columns = chosen(table, names, "y")
        return np.column_stack([np.asarray(column, float) for column in columns.values()])
    array = np.asarray(Y, float)
    if array.ndim != 2 or array.shape[1] != len(names):
        raise InputError(f"y must have a column for each of {', '.join(names)}, got shape {array.shape}.")
    return array
