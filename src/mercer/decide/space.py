"""Where an optimiser searches: columns of real numbers, whole numbers and categories, with linear constraints
that are known beforehand.

A row is a dict of values by column. The surrogate sees it in the unit cube: a number as its share of the way
from low to high (of the logarithms, with `log`), a category of two levels as 0 or 1, one of more as an
indicator of each level over sqrt(2), so that two different levels are one apart.
"""

from __future__ import annotations

import abc
import ast
import dataclasses
import math
import numbers
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from mercer.registry import Saved, unknown

__all__ = [
    "AbstractSearchColumn",
    "Categorical",
    "Integer",
    "LinearConstraint",
    "Real",
    "Space",
    "SpaceError",
]

SLACK = 1e-9  # rounding that a told value or a constraint may be off by, relative to its size


class SpaceError(ValueError):
    """A search space that makes no sense, or a row that is not in it."""


@Saved.register
class AbstractSearchColumn(abc.ABC):
    """One column of a search space."""

    @property
    @abc.abstractmethod
    def width(self) -> int:
        """How many columns of the unit cube it takes."""

    @property
    @abc.abstractmethod
    def count(self) -> int | None:
        """How many values there are; None for a continuum."""

    @abc.abstractmethod
    def encode(self, value: Any) -> np.ndarray:
        """A value in the unit cube, (width,); a `SpaceError` for one that is not in the column."""

    @abc.abstractmethod
    def decode(self, u: np.ndarray) -> Any:
        """The value nearest to a point (width,) of the unit cube."""

    @abc.abstractmethod
    def snap(self, U: np.ndarray) -> np.ndarray:
        """Points (m, width) moved to the nearest values."""

    @abc.abstractmethod
    def numbers(self, U: Any) -> Any:
        """Points (m, width) as numbers (m,) in units of the column; also for traced arrays."""

    @abc.abstractmethod
    def spread(self, uniform: np.ndarray) -> np.ndarray:
        """Uniform numbers (m,) as values spread over the column, (m, width)."""

    @abc.abstractmethod
    def neighbours(self, u: np.ndarray) -> np.ndarray:
        """Other values beside one of a column that is not continuous, (k, width)."""


@dataclasses.dataclass(frozen=True)
class Real(AbstractSearchColumn):
    """A real number from low to high; `log`: what matters is its logarithm, as for a rate from 1e-5 to 0.1.

    In a space a pair of numbers is the same: `{"x": (-5.0, 10.0)}`.

    >>> Real(1e-5, 1e-1, log=True)
    """

    low: float
    high: float
    log: bool = False

    def __post_init__(self) -> None:
        _check_ends("Real", self.low, self.high, self.log)
        if not (float(self.high) - float(self.low)) < math.inf:
            raise SpaceError(f"Real({self.low:g}, {self.high:g}) is wider than numbers reach.")

    @property
    def width(self) -> int:
        return 1

    @property
    def count(self) -> int | None:
        return None

    def encode(self, value: Any) -> np.ndarray:
        number = _number(value)
        slack = SLACK * (self.high - self.low)
        if not self.low - slack <= number <= self.high + slack:
            raise SpaceError(f"must be from {self.low:g} to {self.high:g}, got {number:g}.")
        low, high = _scaled((self.low, self.high), self.log)
        clipped = min(max(number, self.low), self.high)
        return np.array([(_scaled((clipped,), self.log)[0] - low) / (high - low)])

    def decode(self, u: np.ndarray) -> float:
        return float(np.clip(self.numbers(np.clip(np.reshape(u, (1, 1)), 0.0, 1.0))[0], self.low, self.high))

    def snap(self, U: np.ndarray) -> np.ndarray:
        return np.clip(U, 0.0, 1.0)

    def numbers(self, U: Any) -> Any:
        return _between(U[:, 0], self.low, self.high, self.log)

    def spread(self, uniform: np.ndarray) -> np.ndarray:
        return uniform[:, None]

    def neighbours(self, u: np.ndarray) -> np.ndarray:
        return np.zeros((0, 1))


@dataclasses.dataclass(frozen=True)
class Integer(AbstractSearchColumn):
    """A whole number from low to high, both included; in a space a range is the same: `range(1, 9)` is
    Integer(1, 8).

    >>> Integer(16, 1024, log=True)
    """

    low: int
    high: int
    log: bool = False

    def __post_init__(self) -> None:
        if not (_is_whole(self.low) and _is_whole(self.high)):
            raise SpaceError(f"Integer takes whole numbers, got {self.low!r} and {self.high!r}.")
        _check_ends("Integer", self.low, self.high, self.log)

    @property
    def width(self) -> int:
        return 1

    @property
    def count(self) -> int | None:
        return int(self.high) - int(self.low) + 1

    def encode(self, value: Any) -> np.ndarray:
        number = _number(value)
        if number != round(number):
            raise SpaceError(f"must be a whole number, got {number:g}.")
        if not self.low <= number <= self.high:
            raise SpaceError(f"must be from {self.low} to {self.high}, got {number:g}.")
        low, high = _scaled((self.low, self.high), self.log)
        return np.array([(_scaled((number,), self.log)[0] - low) / (high - low)])

    def decode(self, u: np.ndarray) -> int:
        number = self.numbers(np.clip(np.reshape(u, (1, 1)), 0.0, 1.0))[0]
        return int(np.clip(round(float(number)), self.low, self.high))

    def snap(self, U: np.ndarray) -> np.ndarray:
        whole = np.clip(np.round(self.numbers(np.clip(U, 0.0, 1.0))), self.low, self.high)
        low, high = _scaled((self.low, self.high), self.log)
        return ((np.log(whole) if self.log else whole) - low)[:, None] / (high - low)

    def numbers(self, U: Any) -> Any:
        return _between(U[:, 0], self.low, self.high, self.log)

    def spread(self, uniform: np.ndarray) -> np.ndarray:
        if self.log:
            return self.snap(uniform[:, None])
        whole = np.minimum(np.floor(uniform * (self.high - self.low + 1)), self.high - self.low)
        return (whole / (self.high - self.low))[:, None]

    def neighbours(self, u: np.ndarray) -> np.ndarray:
        here = self.decode(u)
        steps = [here + step for step in (-2, -1, 1, 2) if self.low <= here + step <= self.high]
        return np.array([self.encode(value) for value in steps]).reshape(len(steps), 1)


@dataclasses.dataclass(frozen=True)
class Categorical(AbstractSearchColumn):
    """One of several levels without an order: text, numbers or truth values. In a space a list is the same.

    >>> Categorical(["adam", "sgd"])
    """

    levels: tuple

    def __post_init__(self) -> None:
        object.__setattr__(self, "levels", tuple(self.levels))
        plain = all(isinstance(level, (str, bool, numbers.Real)) for level in self.levels)
        if not plain or len(set(map(repr, self.levels))) != len(self.levels):
            raise SpaceError(f"levels must be different texts, numbers or truth values, got {self.levels!r}.")
        if len(self.levels) < 2:
            raise SpaceError(
                f"a category needs at least two levels, got {self.levels!r}: leave the column out."
            )

    @property
    def width(self) -> int:
        return 1 if len(self.levels) == 2 else len(self.levels)

    @property
    def count(self) -> int | None:
        return len(self.levels)

    def encode(self, value: Any) -> np.ndarray:
        exact = [i for i, level in enumerate(self.levels) if level == value and type(level) is type(value)]
        close = exact or [i for i, level in enumerate(self.levels) if _alike(level, value)]
        if not close:
            raise SpaceError(unknown("level", value, [str(level) for level in self.levels]))
        return self._codes(np.array([close[0]]))[0]

    def decode(self, u: np.ndarray) -> Any:
        return self.levels[int(self._positions(np.reshape(u, (1, self.width)))[0])]

    def snap(self, U: np.ndarray) -> np.ndarray:
        return self._codes(self._positions(U))

    def numbers(self, U: Any) -> Any:
        raise SpaceError("a category is no number.")

    def spread(self, uniform: np.ndarray) -> np.ndarray:
        k = len(self.levels)
        return self._codes(np.minimum((uniform * k).astype(int), k - 1))

    def neighbours(self, u: np.ndarray) -> np.ndarray:
        here = int(self._positions(np.reshape(u, (1, self.width)))[0])
        return self._codes(np.array([i for i in range(len(self.levels)) if i != here]))

    def _codes(self, positions: np.ndarray) -> np.ndarray:
        if len(self.levels) == 2:
            return positions.astype(float)[:, None]
        return np.eye(len(self.levels))[positions] / math.sqrt(2.0)

    def _positions(self, U: np.ndarray) -> np.ndarray:
        return (U[:, 0] > 0.5).astype(int) if len(self.levels) == 2 else np.argmax(U, 1)


@Saved.register
@dataclasses.dataclass(frozen=True)
class LinearConstraint:
    """sum of coefficient * column <= limit, over columns of numbers in their own units.

    >>> LinearConstraint.parse("2*x + y <= 10")
    """

    coefficients: dict
    limit: float
    text: str = ""

    @staticmethod
    def parse(text: str) -> LinearConstraint:
        """From words such as "x + 2*y <= 10" or "x >= y"."""
        try:
            tree = ast.parse(text.strip(), mode="eval").body
            if not isinstance(tree, ast.Compare) or len(tree.ops) != 1:
                raise SpaceError("it needs one <= or >=.")
            less = isinstance(tree.ops[0], (ast.LtE, ast.Lt))
            if not less and not isinstance(tree.ops[0], (ast.GtE, ast.Gt)):
                raise SpaceError("it needs <= or >=.")
            left, right = _linear(tree.left), _linear(tree.comparators[0])
        except (SyntaxError, SpaceError) as error:
            raise SpaceError(
                f"the constraint {text!r} is not read: {error} Write it as 'x + 2*y <= 10'."
            ) from None
        sign = 1.0 if less else -1.0
        total = {name: sign * (left.get(name, 0.0) - right.get(name, 0.0)) for name in {**left, **right}}
        limit = -total.pop("", 0.0)
        return LinearConstraint({k: v for k, v in total.items() if v != 0.0}, limit, text.strip())

    def excess(self, columns: Mapping[str, Any]) -> Any:
        """How far beyond the limit, in units of the size of its terms; negative where it holds."""
        size = abs(self.limit) + sum(abs(c) for c in self.coefficients.values())
        return (sum(c * columns[name] for name, c in self.coefficients.items()) - self.limit) / (size or 1.0)


@dataclasses.dataclass(frozen=True)
class Space:
    """Columns by name, and the linear constraints between them.

    >>> Space.of({"x": (-5.0, 10.0), "depth": range(1, 9), "kind": ["a", "b"]}, ["x + depth <= 10"])
    """

    columns: dict[str, AbstractSearchColumn]
    constraints: tuple[LinearConstraint, ...] = ()

    @staticmethod
    def of(columns: Mapping[str, Any], constraints: Sequence[str | LinearConstraint] = ()) -> Space:
        """From what people write: pairs, ranges, lists, and the columns of this module."""
        if not isinstance(columns, Mapping) or not columns:
            raise SpaceError(
                "a space is a dict of columns, such as {'x': (-5.0, 10.0), 'kind': ['a', 'b']}, "
                f"got {columns!r}."
            )
        made = {}
        for name, said in columns.items():
            if not isinstance(name, str) or not name:
                raise SpaceError(f"the names of columns are text, got {name!r}.")
            try:
                made[name] = _column(said)
            except SpaceError as error:
                raise SpaceError(f"column {name!r}: {error}") from None
        if isinstance(constraints, (str, LinearConstraint)):
            constraints = [constraints]
        limits = tuple(LinearConstraint.parse(c) if isinstance(c, str) else c for c in constraints)
        numeric = [name for name, column in made.items() if not isinstance(column, Categorical)]
        for limit in limits:
            for name in limit.coefficients:
                if name not in numeric:
                    raise SpaceError(
                        f"constraint {limit.text!r}: " + unknown("column of numbers", name, numeric)
                    )
        space = Space(made, limits)
        if limits and not len(space.sobol(4096, 0)):
            raise SpaceError(
                f"no point of the space holds the constraints {[c.text for c in limits]}: "
                "widen the columns or the limits."
            )
        return space

    @property
    def names(self) -> tuple[str, ...]:
        """Of the columns, in their order."""
        return tuple(self.columns)

    @property
    def width(self) -> int:
        """Columns of the unit cube, D."""
        return sum(column.width for column in self.columns.values())

    @property
    def groups(self) -> np.ndarray:
        """Which column each of the D belongs to."""
        widths = [column.width for column in self.columns.values()]
        return np.repeat(np.arange(len(widths)), widths)

    @property
    def continuous(self) -> np.ndarray:
        """Which of the D may be moved a little (D,)."""
        return np.repeat(
            [c.count is None for c in self.columns.values()], [c.width for c in self.columns.values()]
        )

    @property
    def count(self) -> int | None:
        """How many rows there are; None for a continuum."""
        counts = [column.count for column in self.columns.values()]
        return None if None in counts else math.prod(c for c in counts if c is not None)

    def parts(self) -> list[tuple[str, AbstractSearchColumn, slice]]:
        """Each column with its place among the D."""
        out, at = [], 0
        for name, column in self.columns.items():
            out.append((name, column, slice(at, at + column.width)))
            at += column.width
        return out

    def encode(self, row: Mapping[str, Any]) -> np.ndarray:
        """A row in the unit cube (D,); a `SpaceError` that names what is wrong with it."""
        if not isinstance(row, Mapping):
            raise SpaceError(f"a row is a dict with the columns {list(self.names)}, got {row!r}.")
        missing, more = set(self.columns) - set(row), set(row) - set(self.columns)
        if missing or more:
            said = {"missing": sorted(missing), "unknown": sorted(map(str, more))}
            wrong = ", ".join(f"{names} {what}" for what, names in said.items() if names)
            raise SpaceError(f"a row has the columns {list(self.names)}: {wrong}.")
        out = np.zeros(self.width)
        for name, column, place in self.parts():
            try:
                out[place] = column.encode(row[name])
            except SpaceError as error:
                raise SpaceError(f"column {name!r}: {error}") from None
        for limit in self.constraints:
            if limit.excess({n: float(row[n]) for n in limit.coefficients}) > SLACK:
                raise SpaceError(f"the row {dict(row)} breaks the constraint {limit.text!r}.")
        return out

    def decode(self, u: np.ndarray) -> dict[str, Any]:
        """The row nearest to a point of the unit cube."""
        return {name: column.decode(u[place]) for name, column, place in self.parts()}

    def snap(self, U: np.ndarray) -> np.ndarray:
        """Points (m, D) moved to the nearest rows."""
        return np.concatenate([column.snap(U[:, place]) for _, column, place in self.parts()], 1)

    def excess(self, U: Any) -> Any:
        """How far each point (m, D) is beyond the worst of the constraints (m,), negative where all hold;
        None without constraints. Also for traced arrays.
        """
        if not self.constraints:
            return None
        named = {n for limit in self.constraints for n in limit.coefficients}
        values = {name: c.numbers(U[:, place]) for name, c, place in self.parts() if name in named}
        worst = self.constraints[0].excess(values)
        for limit in self.constraints[1:]:
            other = limit.excess(values)
            worst = worst + (other - worst) * (other > worst)
        return worst

    def allowed(self, U: np.ndarray) -> np.ndarray:
        """Which points (m, D) hold the constraints (m,)."""
        excess = self.excess(U)
        return np.ones(len(U), bool) if excess is None else np.asarray(excess) <= 0.1 * SLACK

    def sobol(self, size: int, seed: Any) -> np.ndarray:
        """Up to `size` rows that fill the space, by a scrambled Sobol sequence; those that hold the
        constraints, (m, D).
        """
        from scipy.stats import qmc

        power = max(size - 1, 1).bit_length()
        uniform = qmc.Sobol(len(self.columns), rng=np.random.default_rng(seed)).random_base2(power)
        U = self.spread(uniform)
        return U[self.allowed(U)][:size] if self.constraints else U[:size]

    def spread(self, uniform: np.ndarray) -> np.ndarray:
        """Rows (m, D) from points in the unit cube (m, columns)."""
        columns = self.columns.values()
        return np.concatenate([column.spread(u) for column, u in zip(columns, uniform.T, strict=True)], 1)


def _column(said: Any) -> AbstractSearchColumn:
    if isinstance(said, AbstractSearchColumn):
        return said
    if isinstance(said, range):
        if abs(said.step) != 1 or len(said) == 0:
            raise SpaceError(f"a range has whole numbers in steps of one, got {said!r}; list others.")
        return Integer(min(said), max(said))
    if isinstance(said, tuple):
        if len(said) != 2 or any(isinstance(s, bool) or not isinstance(s, numbers.Real) for s in said):
            raise SpaceError(f"a pair is (low, high) in numbers, got {said!r}; levels stand in a list.")
        return Real(float(said[0]), float(said[1]))
    if isinstance(said, list):
        return Categorical(tuple(said))
    raise SpaceError(
        f"write (low, high) for real numbers, range(low, high + 1) for whole ones, a list of levels, or a "
        f"column of mercer.decide; got {said!r}."
    )


def _check_ends(what: str, low: Any, high: Any, log: bool) -> None:
    for end in (low, high):
        if isinstance(end, bool) or not isinstance(end, numbers.Real) or not math.isfinite(end):
            raise SpaceError(f"{what} needs finite numbers, got low = {low!r} and high = {high!r}.")
    if not low < high:
        raise SpaceError(f"{what} needs low < high, got low = {low:g} and high = {high:g}.")
    if log and not low > 0:
        raise SpaceError(f"{what} with log=True needs low > 0, got {low:g}.")


def _number(value: Any) -> float:
    try:
        number = math.nan if isinstance(value, (str, bool)) or np.ndim(value) else float(value)
    except (TypeError, ValueError):
        number = math.nan
    if not math.isfinite(number):
        raise SpaceError(f"must be a number, got {value!r}.")
    return number


def _is_whole(value: Any) -> bool:
    return isinstance(value, numbers.Integral) and not isinstance(value, bool)


def _alike(level: Any, value: Any) -> bool:
    """Whether a value read from elsewhere is a level: 1 and 1.0, NumPy's text and Python's."""
    if isinstance(level, (bool, np.bool_)) != isinstance(value, (bool, np.bool_)):
        return False
    return bool(np.ndim(value) == 0 and level == value)


def _scaled(values: Sequence[float], log: bool) -> list[float]:
    return [math.log(v) if log else float(v) for v in values]


def _between(u: Any, low: float, high: float, log: bool) -> Any:
    if not log:
        return low + u * (high - low)
    first, last = math.log(low), math.log(high)
    if isinstance(u, np.ndarray):
        return np.exp(first + u * (last - first))
    import jax.numpy as jnp

    return jnp.exp(first + u * (last - first))


def _linear(node: ast.expr) -> dict[str, float]:
    """Coefficients by column, that of "" the constant."""
    if isinstance(node, ast.Constant) and isinstance(node.value, (int, float)):
        return {"": float(node.value)}
    if isinstance(node, ast.Name):
        return {node.id: 1.0}
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.USub, ast.UAdd)):
        sign = -1.0 if isinstance(node.op, ast.USub) else 1.0
        return {k: sign * v for k, v in _linear(node.operand).items()}
    if isinstance(node, ast.BinOp):
        left, right = _linear(node.left), _linear(node.right)
        if isinstance(node.op, (ast.Add, ast.Sub)):
            sign = 1.0 if isinstance(node.op, ast.Add) else -1.0
            return {k: left.get(k, 0.0) + sign * right.get(k, 0.0) for k in {**left, **right}}
        if isinstance(node.op, ast.Mult) and "" in (*left, *right) and 1 in (len(left), len(right)):
            factor, terms = (left, right) if set(left) == {""} else (right, left)
            if set(factor) == {""}:
                return {k: factor[""] * v for k, v in terms.items()}
        if isinstance(node.op, ast.Div) and set(right) == {""} and right[""] != 0.0:
            return {k: v / right[""] for k, v in left.items()}
    raise SpaceError(f"{ast.unparse(node)!r} is not linear.")
