"""The data sets the package ships, and `load` for those of a folder."""

from __future__ import annotations

import csv
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from mercer.datasets._files import _find, _given
from mercer.datasets._table import _ALIASES, _TABLE


@dataclass(frozen=True, eq=False, repr=False)
class Dataset:
    """Inputs X (n, d), targets y (n,) and what they mean.

    `columns` names the columns of X and `target` names y (a tuple of names when y has several columns).
    `units` maps a column or target name to its unit, where one is known. Text sets have X (n,) of strings;
    class labels may be text.
    """

    X: NDArray
    y: NDArray
    columns: tuple[str, ...]
    target: str | tuple[str, ...]
    units: Mapping[str, str]
    source: str
    description: str

    def __repr__(self) -> str:
        return f"Dataset(X={self.X.shape}, y={self.y.shape}, target={self.target!r}: {self.description})"


def load_co2() -> Dataset:
    """Monthly mean CO2 at Mauna Loa, March 1958 to December 2001, in ppm; shipped with the package.

    X is the middle of the month in decimal years. 521 months; the 5 without a measurement are left out. This
    is not the file of the book (545 months to 2003: `load("co2_gpml")`), but agrees with it to 0.1 ppm
    (standard deviation).
    """
    text = (
        resources.files("mercer.datasets").joinpath("mauna_loa_co2_monthly.csv").read_text(encoding="utf-8")
    )
    rows = list(csv.DictReader(line for line in text.splitlines() if not line.startswith("#")))
    year, month, co2 = (np.array([float(row[name]) for row in rows]) for name in ("year", "month", "co2"))
    return Dataset(
        X=(year + (month - 0.5) / 12)[:, None],
        y=co2,
        columns=("decimal_year",),
        target="co2",
        units={"decimal_year": "year", "co2": "ppm"},
        source=(
            "Keeling and Whorf (2004), by way of the public-domain weekly record in statsmodels; "
            "monthly means"
        ),
        description="monthly mean CO2 at Mauna Loa, 1958-2001",
    )


def ebden() -> Dataset:
    """The six points of Ebden's introduction to Gaussian process regression; observation noise has sd 0.3.

    The published prediction at x = 0.2 (mean 0.95, variance 0.21) subtracts the mean of y first and adds it
    back.
    """
    return Dataset(
        X=np.array([[-1.5], [-1.0], [-0.75], [-0.4], [-0.25], [0.0]]),
        y=np.array([-1.65, -1.10, -0.33, 0.22, 0.55, 0.88]),
        columns=("x",),
        target="y",
        units={},
        source=(
            "M. Ebden (2008), Gaussian Processes for Regression: A Quick Introduction. It prints X and "
            "plots y; "
            "these y are from a script attributed to the author and reproduce its figures"
        ),
        description="six points of a one-dimensional example",
    )


def load(
    name: str, part: str | None = None, *, split: int = 0, verify: bool = True, path: str | Path | None = None
) -> Dataset:
    """The data set called `name` (see `names`), read from the folder that the environment variable
    MERCER_DATA names.

    `part` is "train", "test" or "all", where the set is divided so; the default is "train" for sets that come
    with a fixed division and "all" for the others. Sets with several published divisions take their number as
    `split`. `verify=False` accepts a file whose checksum differs from the one this loader was written for.
    `path` names the file itself, wherever it is, and accepts it as it is; a CSV file may then lack the
    header, as those of UCI do, if its columns are in order.

        >>> sonar = load("sonar", path="downloads/sonar.all-data")
    """
    name = _ALIASES.get(name, name)
    if name in _SHIPPED:
        if path is not None:
            raise ValueError(f"{name!r} is shipped with mercer and takes no path.")
        if part not in (None, "all"):
            raise ValueError(f"{name!r} has no part {part!r}; it has: all.")
        return _SHIPPED[name]()
    if name not in _TABLE:
        raise ValueError(f"There is no data set called {name!r}. Known: {', '.join(names())}.")
    entry = _TABLE[name]
    part = entry.parts[0] if part is None else part
    if part not in entry.parts:
        raise ValueError(f"{name!r} has no part {part!r}; it has: {', '.join(entry.parts)}.")
    if not 0 <= split < entry.splits:
        raise ValueError(
            f"{name!r} has {entry.splits} published division(s); split must be 0 to {entry.splits - 1}."
        )
    if path is None:
        paths = [_find(name, entry, file, sha256 if verify else None) for file, sha256 in entry.files.items()]
    else:
        paths = [_given(name, entry, Path(path))]
    X, y = entry.read(entry, paths, part, split)
    return Dataset(X, y, entry.columns, entry.target, entry.units, entry.source, entry.description)


def names(available: bool = False) -> list[str]:
    """Names that `load` knows; with `available=True` only those whose files are in place now."""
    folder = os.environ.get("MERCER_DATA")
    here = Path(folder) if folder else None
    found = [
        n for n, e in _TABLE.items() if not available or (here and all((here / f).is_file() for f in e.files))
    ]
    return sorted([*_SHIPPED, *found])


_SHIPPED: dict[str, Callable[[], Dataset]] = {"co2": load_co2, "ebden": ebden}
