"""Tables as people have them, drawn with a seed and written as files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd


def mixed(n: int = 160, new: int = 200) -> tuple[pd.DataFrame, pd.DataFrame, list[int]]:
    """Rents of flats: numbers, text, dates and booleans, a tenth of a column empty, four rents with a slip of
    the pen; new flats without slips; and the rows of the file (counted from 1) that are wrong.
    """
    rng = np.random.default_rng(16)
    m = n + new
    area, floor = rng.uniform(20, 120, m), rng.integers(0, 6, m)
    quarter = rng.choice(["north", "harbour", "centre", "hill"], m, p=[0.4, 0.3, 0.2, 0.1])
    balcony = rng.random(m) < 0.4
    day = np.datetime64("2022-01-01") + rng.integers(0, 1000, m)
    price = np.select([quarter == q for q in ("north", "harbour", "centre")], [9.0, 11.0, 16.0], 13.0)
    rent = price * area**0.9 + 60 * balcony + 80 * np.sin(2 * np.pi * day.astype(int) / 365.25)
    rent += 15 * rng.standard_normal(m)
    table = pd.DataFrame(
        {
            "area": area,
            "floor": floor,
            "quarter": quarter,
            "balcony": balcony,
            "day": day.astype(str),
            "rent": rent,
        }
    )
    table.loc[rng.choice(m, m // 10, replace=False), "floor"] = np.nan
    wrong = rng.choice(n, 4, replace=False)
    table.loc[wrong, "rent"] *= 10.0
    return table[:n], table[n:], sorted(int(row) + 1 for row in wrong)


def series(n: int = 900, ahead: int = 60) -> tuple[pd.DataFrame, pd.DataFrame]:
    """A level of water: a third of the days, in no order, with a gap of 60 days; a trend, a year, and floods
    that last a few days; then the days that came after.
    """
    rng = np.random.default_rng(16)
    t = np.arange(n + ahead)
    floods = np.convolve(rng.standard_normal(n + ahead), np.exp(-np.arange(30) / 5.0))[: n + ahead]
    level = 50 + 0.005 * t + 6 * np.sin(2 * np.pi * t / 365.25) + 0.5 * floods
    day = (np.datetime64("2022-01-01") + t).astype(str)
    table = pd.DataFrame({"day": day, "level": level + 0.3 * rng.standard_normal(n + ahead)})
    kept = np.flatnonzero((rng.random(n) < 0.33) & ((t[:n] < 500) | (t[:n] >= 560)))
    return table.iloc[rng.permutation(kept)], table[n:]


def classes(n: int = 90, new: int = 300) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Three kinds of plants in four measures: two kinds overlap, and a straight line does not part them."""
    rng = np.random.default_rng(16)
    kind = rng.integers(0, 3, n + new)
    angle = rng.uniform(0, np.pi, n + new)
    radius = np.choose(kind, [1.0, 2.0, 2.0]) + 0.2 * rng.standard_normal(n + new)
    side = np.where(kind == 2, -1.0, 1.0)
    measures = np.c_[radius * np.cos(angle), side * radius * np.sin(angle)]
    table = pd.DataFrame(
        np.c_[measures, rng.standard_normal((n + new, 2))], columns=["leaf", "stem", "seed", "root"]
    )
    table["kind"] = np.array(["alba", "rosa", "viridis"])[kind]
    return table[:n], table[n:]


def friedman(n: int = 60_000, new: int = 2000) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Friedman's function of five columns of six, with noise of standard deviation 1."""
    rng = np.random.default_rng(16)
    x = rng.random((n + new, 6))
    y = 10 * np.sin(np.pi * x[:, 0] * x[:, 1]) + 20 * (x[:, 2] - 0.5) ** 2 + 10 * x[:, 3] + 5 * x[:, 4]
    table = pd.DataFrame(x, columns=[f"x{j}" for j in range(6)])
    table["y"] = y + rng.standard_normal(n + new)
    return table[:n], table[n:]


def write(folder: Path, train: pd.DataFrame, new: pd.DataFrame) -> None:
    """`data.csv` to learn from, and `new.csv` without its last column to predict."""
    train.to_csv(folder / "data.csv", index=False)
    new.iloc[:, :-1].to_csv(folder / "new.csv", index=False)
