"""What is known of the noise of each training row: its weight, its error, and which rows share a variance."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from mercer.columns import Columns, Groups
from mercer.inputs import InputError, as_targets
from mercer.likelihoods import AbstractLikelihood, Gaussian
from mercer.likelihoods.scales import NOISE_PRIOR, NOISE_SHARE, robust_scale, typical_weight
from mercer.params import Info, Param

FEW = 5  # rows of a group, below which a note says how few they are


@dataclasses.dataclass(frozen=True, eq=False)
class RowNoise:
    """weight (n,) and error (n,) of the rows, each or None; the groups that share a noise variance and the
    number (n,) of each row's, or None; the slopes (n, d) of f, and the variances of the errors of inputs, or
    None.
    """

    weight: np.ndarray | None = None
    error: np.ndarray | None = None
    groups: Groups | None = None
    group: np.ndarray | None = None
    slopes: np.ndarray | None = None
    input_variance: Param | None = None

    @classmethod
    def read(cls, sample_weight: Any, y_error: Any, n: int) -> RowNoise:
        """As people give them to `fit`, checked."""
        weight = None if sample_weight is None else as_targets(sample_weight, n, "sample_weight")
        error = None if y_error is None else as_targets(y_error, n, "y_error")
        if weight is not None:
            _refuse(weight <= 0, weight, "sample_weight must be above zero", "leave out rows of zero weight")
        if error is not None:
            what = "each is a standard deviation, in units of y"
            _refuse(error < 0, error, "y_error must not be negative", what)
        return cls(weight, error)

    @property
    def nothing(self) -> bool:
        """Whether nothing is known."""
        return all(part is None for part in (self.weight, self.error, self.groups, self.slopes))

    @property
    def columns(self) -> list[np.ndarray]:
        """What must agree, beside inputs and target, for rows to be copies."""
        return [column for column in (self.weight, self.error) if column is not None]

    def at(self, rows: np.ndarray) -> RowNoise:
        """That of some of the rows; their groups are still to be found."""
        weight = None if self.weight is None else self.weight[rows]
        return RowNoise(weight, None if self.error is None else self.error[rows])

    def by(self, columns: Columns | None, name: str | int | None, X: np.ndarray) -> RowNoise:
        """The same with the groups of rows X (n, d) by one of the columns, where one is named."""
        if name is None or columns is None:
            return self
        groups = Groups.learn(columns, name, X)
        return dataclasses.replace(self, groups=groups, group=groups.of(X))

    @property
    def typical_weight(self) -> float:
        """What the noise of a typical row is divided by."""
        return 1.0 if self.weight is None else typical_weight(self.weight)

    def shares(self, y: np.ndarray) -> np.ndarray | None:
        """How much each of y (n,) says of their mean and spread, where rows differ in that: one over its
        variance, as it is before anything is learned.
        """
        if not self.columns:
            return None
        variance = np.full(len(y), robust_scale(y) ** 2 or 1.0)
        if self.weight is not None:
            variance = variance * (1.0 + NOISE_SHARE * self.typical_weight / self.weight)
        return 1.0 / (variance if self.error is None else variance + self.error**2)

    def gaussian(self, noise: Any, y: np.ndarray) -> Gaussian:
        """Gaussian noise that starts at `noise`, a number, one for each row, or a `Param`.

        Groups may be small: each variance has a weak prior, that of the default noise where `noise` has none.
        """
        if self.nothing:
            return Gaussian(noise)
        value, info = (noise.value, noise.info) if isinstance(noise, Param) else (noise, Info())
        if np.ndim(value):
            raise ValueError(
                "noise_variance for each row is all of its noise: leave out sample_weight, y_error, noise_by "
                "and input_noise, or give one number."
            )
        free = info.free and value > 0
        if self.groups is not None:
            value = np.full(len(self.groups.levels), value, float)
            if info.prior is None:
                spread = float(np.var(y)) or 1.0
                prior = NOISE_PRIOR.scaled(spread * self.typical_weight)
                info = dataclasses.replace(info, prior=prior)
        return Gaussian(
            Param(value, info if free else Info(free=False)),
            weight=self.weight,
            error=self.error,
            by=self.groups,
            group=self.group,
            slopes=self.slopes,
            input_variance=self.input_variance,
        )

    def instead_of(self, given: AbstractLikelihood, y: np.ndarray) -> AbstractLikelihood:
        """A likelihood that was given, with what is known of the rows; an error where it takes none of it."""
        if self.nothing:
            return given
        if not isinstance(given, Gaussian) or given.per_datum:
            raise ValueError(not_with(f"likelihood={type(given).__name__}(...)"))
        return self.gaussian(Param(given.noise_variance, dict(given.info).get("noise_variance", Info())), y)


def not_with(likelihood: str) -> str:
    """What to say where noise that is not Gaussian cannot take what is known of rows."""
    return (
        "sample_weight, y_error, noise_by and input_noise go with Gaussian noise alone: leave out "
        f"{likelihood}, or them."
    )


def few_rows(likelihood: AbstractLikelihood, X: np.ndarray) -> str | None:
    """A note on groups whose noise is learned from very few of the rows X (n, d)."""
    if not isinstance(likelihood, Gaussian) or likelihood.by is None:
        return None
    groups = likelihood.by.value
    numbers = groups.of(X)
    if not np.array_equal(numbers, likelihood.group):
        raise ValueError(f"the groups by {groups.name!r} are not those of the training data.")
    counts = np.bincount(numbers, minlength=len(groups.labels))
    few = [f"{label} ({n})" for label, n in zip(groups.labels, counts, strict=True) if n < FEW]
    if not few:
        return None
    return (
        f"the noise of groups with few rows is uncertain, and hardly more than its prior: {groups.name} "
        f"{', '.join(few)}"
    )


def _refuse(bad: np.ndarray, values: np.ndarray, what: str, remedy: str) -> None:
    if bad.any():
        row = int(np.argmax(bad))
        many = int(bad.sum())
        where = f"row {row}" if many == 1 else f"{many} rows, the first {row}"
        raise InputError(f"{what}, got {values[row]:g} in {where}: {remedy}.")


def check_duplicates(X: np.ndarray, y: np.ndarray, noise: np.ndarray) -> None:
    """Noise-free observations of one input must agree."""
    rows = np.flatnonzero(noise == 0)
    if rows.size == 0 or X.dtype == object:
        return
    _, first, inverse = np.unique(X[rows], axis=0, return_index=True, return_inverse=True)
    other = rows[first][inverse.ravel()]
    wrong = np.flatnonzero(y[rows] != y[other])
    if wrong.size:
        i, j = other[wrong[0]], rows[wrong[0]]
        raise InputError(
            f"rows {i} and {j} of X are the same but their targets differ ({y[i]:g} and {y[j]:g}), which "
            "noise_variance=0 cannot explain: give a noise variance, or drop the duplicates."
        )
