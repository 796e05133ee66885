"""What a column is, learned from its cells, and how it becomes numbers: number, category, date."""

from __future__ import annotations

import abc
import collections
import dataclasses

import numpy as np

from mercer.columns.table import DAY, EMPTY_WORDS, STAMP, Cells, as_cells, as_date, as_number, label
from mercer.inputs import InputError
from mercer.registry import Saved

__all__ = ["AbstractColumn", "Category", "Date", "LeftOut", "Number", "Part", "Raw"]

MOST = 32  # levels of a category that are told apart
PERIODS = {"year": 365.2425, "week": 7.0, "day": 1.0}  # in days
CYCLES = 2.0  # a season is one if the dates cover this many periods
PHASES = 3  # and at least so many different times in it, counted in twelfths


@dataclasses.dataclass(frozen=True)
class Part:
    """Encoded columns that share one length-scale, and what that is called."""

    name: str
    columns: tuple[str, ...]


@Saved.register
@dataclasses.dataclass(frozen=True)
class AbstractColumn(abc.ABC):
    """One column of a table as a model reads it.

    name: what the user calls it; "x3" where there are no names
    """

    name: str

    @property
    @abc.abstractmethod
    def parts(self) -> tuple[Part, ...]:
        """The encoded columns, in order."""

    @property
    def width(self) -> int:
        """The number of encoded columns."""
        return sum(len(part.columns) for part in self.parts)

    @property
    @abc.abstractmethod
    def plain(self) -> bool:
        """Whether the encoded column is the column as it is."""

    @abc.abstractmethod
    def encode(self, cells: Cells) -> tuple[np.ndarray, list[str]]:
        """Numbers (n, width), all finite, and notes on what is new in these cells."""

    @abc.abstractmethod
    def words(self) -> str:
        """What it is, in a few words."""


@dataclasses.dataclass(frozen=True)
class Number(AbstractColumn):
    """A number, or a boolean as 0 and 1.

    fill: where empty cells were seen in training, the mean of the others. An empty cell is put there, and an
    indicator, 1 for it and else 0, is a further column with a length-scale of its own: what an empty cell
    means is learned. None: none was empty, and none may be.
    """

    fill: float | None = None

    def __post_init__(self):
        _check_name(self.name)
        _check_fill(self.fill)

    @classmethod
    def learn(cls, name: str, cells: Cells) -> Number:
        """What a column of numbers is."""
        return cls(name, _fill(cells.values))

    @property
    def parts(self) -> tuple[Part, ...]:
        return (Part(self.name, (self.name,)), *_indicator(self.name, self.fill))

    @property
    def plain(self) -> bool:
        return self.fill is None

    def encode(self, cells: Cells) -> tuple[np.ndarray, list[str]]:
        values = _numbers(self.name, cells)
        return _filled(self.name, values, values[:, None], self.fill), []

    def words(self) -> str:
        return "number" + _gaps(self.fill)


@dataclasses.dataclass(frozen=True)
class Category(AbstractColumn):
    """One of several labels, of which only equality means something: as many columns, 0 or 1 / sqrt 2, that
    share one length-scale, so that rows with different labels are 1 apart.

    levels: the labels told apart, of at most 32 (of groups: all); None is that of empty cells
    rare: other labels of the training data, taken together as one

    A label that was not seen in training has a column of its own, which is 0 for every training row: it is
    one more level of the same kind, of which nothing is known but what levels have in common.
    """

    levels: tuple[str | None, ...]
    rare: tuple[str | None, ...] = ()

    def __post_init__(self):
        _check_name(self.name)
        labels = (*self.levels, *self.rare)
        if len(set(labels)) != len(labels) or not all(isinstance(one, str | None) for one in labels):
            raise ValueError("the levels of a category are different labels.")

    @classmethod
    def learn(cls, name: str, cells: Cells, most: int | None = MOST) -> Category | LeftOut:
        """Up to `most` levels are told apart (None: all), of more the most frequent ones. Where no label
        comes twice there is nothing to learn.
        """
        return cls.counted(name, labels_of(cells), most)

    @classmethod
    def counted(
        cls, name: str, counts: collections.Counter[str | None], most: int | None = MOST
    ) -> Category | LeftOut:
        """The same from how often each label is there."""
        if len(counts) > 2 and set(counts.values()) == {1}:
            return LeftOut(name, "has a different value in every row")
        often = [level for level, count in counts.most_common(most) if count > 1]
        levels = set(counts) if most is None or len(counts) <= most else set(often)
        return cls(name, tuple(sorted(levels, key=_order)), tuple(sorted(set(counts) - levels, key=_order)))

    @property
    def parts(self) -> tuple[Part, ...]:
        shown = [*(("(empty)" if v is None else v) for v in self.levels), *(["(other)"] if self.rare else [])]
        return (Part(self.name, tuple(f"{self.name}={level}" for level in (*shown, "(new)"))),)

    @property
    def plain(self) -> bool:
        return False

    def encode(self, cells: Cells) -> tuple[np.ndarray, list[str]]:
        where = {level: j for j, level in enumerate(self.levels)}
        where |= dict.fromkeys(self.rare, len(self.levels))
        labels, width = _labels(cells), self.width
        code = np.array([where.get(one, width - 1) for one in labels], int)
        out = np.zeros((len(code), width))
        out[np.arange(len(code)), code] = np.sqrt(0.5)
        new = collections.Counter(one for one, c in zip(labels, code, strict=True) if c == width - 1)
        return out, [_new_levels(self.name, new)] if new else []

    def words(self) -> str:
        rare = f", {len(self.rare)} rarer ones as one" if self.rare else ""
        return f"category of {len(self.levels)} level{'s' * (len(self.levels) != 1)}{rare}"


@dataclasses.dataclass(frozen=True)
class Date(AbstractColumn):
    """A date or time, in days since `origin`.

    seasons: of "year", "week" and "day": the sine and cosine of the time in it, which share a length-scale
    fill: as for a `Number`, in days
    """

    origin: str
    seasons: tuple[str, ...] = ()
    fill: float | None = None

    def __post_init__(self):
        _check_name(self.name)
        _check_fill(self.fill)
        if np.isnat(np.datetime64(self.origin)) or not set(self.seasons) <= set(PERIODS):
            raise ValueError(f"a date counts from a date, with seasons among {list(PERIODS)}.")

    @classmethod
    def learn(cls, name: str, cells: Cells) -> Date:
        """Counts from the first date; a season is taken where the dates cover two of it, and several times in
        it.
        """
        first = np.datetime_as_string(np.nanmin(cells.values))
        days = cls(name, first)._days(cells.values)
        told = days[~np.isnan(days)]
        seasons = [
            season
            for season, period in PERIODS.items()
            if np.ptp(told) >= CYCLES * period and np.unique(np.floor(12 * told / period % 12)).size >= PHASES
        ]
        return cls(name, first, tuple(seasons), _fill(days))

    @property
    def parts(self) -> tuple[Part, ...]:
        name = self.name
        circles = [
            Part(f"{name}, {s}", (f"{name}, sine of the {s}", f"{name}, cosine of the {s}"))
            for s in self.seasons
        ]
        return (Part(f"{name} (days)", (f"{name} (days)",)), *circles, *_indicator(name, self.fill))

    @property
    def plain(self) -> bool:
        return False

    def encode(self, cells: Cells) -> tuple[np.ndarray, list[str]]:
        days = self._days(_dates(self.name, cells))
        angles = [2 * np.pi * days / PERIODS[season] for season in self.seasons]
        columns = [days, *(turn(angle) for angle in angles for turn in (np.sin, np.cos))]
        return _filled(self.name, days, np.column_stack(columns), self.fill), []

    def _days(self, stamps: np.ndarray) -> np.ndarray:
        return (stamps - np.datetime64(self.origin).astype(STAMP)) / DAY

    def stamps(self, days: np.ndarray) -> np.ndarray:
        """Dates, to the millisecond, from days since the origin."""
        since = np.round(np.asarray(days) * 86_400_000).astype("timedelta64[ms]")
        return np.datetime64(self.origin, "ms") + since

    def texts(self, days: np.ndarray) -> list[str]:
        """The same as text, without the time of day where all are midnight."""
        found = self.stamps(days)
        whole = bool((found == found.astype("datetime64[D]")).all())
        return [str(one) for one in found.astype("datetime64[D]" if whole else "datetime64[m]")]

    def words(self) -> str:
        season = f", seasons: {', '.join(self.seasons)}" if self.seasons else ""
        return f"date, in days since {self.origin[:10]}{season}{_gaps(self.fill)}"


@dataclasses.dataclass(frozen=True)
class LeftOut(AbstractColumn):
    """A column that a model cannot learn from, and why."""

    why: str

    def __post_init__(self):
        _check_name(self.name)

    @property
    def parts(self) -> tuple[Part, ...]:
        return ()

    @property
    def plain(self) -> bool:
        return False

    def encode(self, cells: Cells) -> tuple[np.ndarray, list[str]]:
        return np.empty((len(cells.values), 0)), []

    def words(self) -> str:
        return f"left out: it {self.why}"


@dataclasses.dataclass(frozen=True)
class Raw(AbstractColumn):
    """A column that the kernel reads as it is: numbers, or (`objects`) also other objects."""

    objects: bool = False

    def __post_init__(self):
        _check_name(self.name)

    @property
    def parts(self) -> tuple[Part, ...]:
        return (Part(self.name, (self.name,)),)

    @property
    def plain(self) -> bool:
        return True

    def encode(self, cells: Cells) -> tuple[np.ndarray, list[str]]:
        return cells.values[:, None], []

    def words(self) -> str:
        return "as the kernel reads it"


def _check_name(name: str) -> None:
    if not isinstance(name, str):
        raise TypeError(f"a column's name is text, got {name!r}.")


# --------------------------------------------------------------------------------------------- empty cells


def _check_fill(fill: float | None) -> None:
    if not (fill is None or np.isfinite(fill)):
        raise ValueError(f"empty cells are put at a number, not at {fill}.")


def _fill(values: np.ndarray) -> float | None:
    empty = np.isnan(values)
    return float(np.mean(values[~empty])) if empty.any() else None


def _indicator(name: str, fill: float | None) -> tuple[Part, ...]:
    return () if fill is None else (Part(f"{name} empty", (f"{name} empty",)),)


def _gaps(fill: float | None) -> str:
    return "" if fill is None else ", with empty cells"


def _filled(name: str, values: np.ndarray, columns: np.ndarray, fill: float | None) -> np.ndarray:
    """Encoded columns with the first at `fill`, the others at 0, and 1 in a further one, where `values` are
    NaN.
    """
    empty = np.isnan(values)
    if fill is None:
        if empty.any():
            raise InputError(
                f"column {name!r} has {_cells(empty, 'without a value')}, and no empty cells were seen in "
                "training, so that nothing is known of what they mean: fill them in, or fit to rows with "
                "empty cells too."
            )
        return columns
    out = np.column_stack([columns, empty])
    out[empty, :-1] = 0.0
    out[empty, 0] = fill
    return out


# ------------------------------------------------------------------------------------------------- cells


def _numbers(name: str, cells: Cells) -> np.ndarray:
    values = _as(cells, "number", as_number, np.float64, name)
    if np.isinf(values).any():
        row, many = int(np.argmax(np.isinf(values))), int(np.isinf(values).sum())
        first = f"in row {row}" if many == 1 else f"in {many} rows, the first {row}"
        raise InputError(f"X contains infinity in column {name!r}, {first}. Remove or impute it first.")
    return values


def _dates(name: str, cells: Cells) -> np.ndarray:
    return _as(cells, "date", as_date, STAMP, name)


def _as(cells: Cells, kind: str, read, dtype, name: str) -> np.ndarray:
    """The cells as numbers or dates, which they may be without looking like it."""
    if cells.kind == kind or cells.empty.all():
        return cells.values if cells.kind == kind else as_cells([None] * len(cells.values), read, dtype)
    text = _labels(cells)
    wrong = np.array(
        [one is not None and read(one) is None and one.strip().lower() not in EMPTY_WORDS for one in text]
    )
    if wrong.any():
        raise InputError(
            f"column {name!r} held {kind}s in training, but has {_cells(wrong, 'with something else')}: "
            f"{text[int(np.argmax(wrong))]!r}."
        )
    return as_cells(text, read, dtype)


def _labels(cells: Cells) -> list[str | None]:
    """Labels, None where a cell is empty."""
    if cells.kind == "text":
        return cells.values.tolist()
    shown = [str(v) for v in cells.values] if cells.kind == "date" else map(label, cells.values.tolist())
    return [None if empty else one for empty, one in zip(cells.empty, shown, strict=True)]


def labels_of(cells: Cells) -> collections.Counter[str | None]:
    """How often each label is there, None for empty cells."""
    return collections.Counter(_labels(cells))


def _order(level: str | None) -> tuple[bool, str]:
    return (level is None, level or "")


def _cells(which: np.ndarray, what: str) -> str:
    """How many cells, and where the first is."""
    many = int(which.sum())
    first = f"row {int(np.argmax(which))}"
    return f"1 cell {what}, in {first}" if many == 1 else f"{many} cells {what}, the first in {first}"


def _new_levels(name: str, counts: collections.Counter[str | None]) -> str:
    shown = [f"{'(empty)' if level is None else repr(level)} ({n})" for level, n in counts.most_common(5)]
    more = f" and {len(counts) - 5} more" if len(counts) > 5 else ""
    rows = sum(counts.values())
    return (
        f"column {name!r} has labels that were not seen in training, in {rows} row{'s' * (rows != 1)}: "
        f"{', '.join(shown)}{more}. Predictions there are less certain."
    )
