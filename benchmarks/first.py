"""First calls: fresh processes that fit n = 100 and predict, beside the bare imports of jax, equinox and
scikit-learn's base, with compiled programs in the cache on disk and without.

    python -m benchmarks.first 7          processor time, best and median of seven turns, on a busy machine
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.workers import fresh, processors

BARE = "import jax, equinox, sklearn.base"
CALLS = {
    "GPRegressor": "mc.GPRegressor().fit(X, y).predict(X)",
    "GPClassifier": "mc.GPClassifier().fit(X, y > 0).predict(X)",
    "GPTimeSeries": "mc.GPTimeSeries().fit(np.arange(float(len(y))), y).forecast(5)",
}
TARGETS = {"beyond": 0.5, "share": 0.2, "cold": 1.5}


def first(run: Any, outcome: Any, check: Callable) -> None:
    """Seconds of whole processes, taken in turn with the bare imports: A B C D A B C D ..."""
    n, repeats = (30, 1) if run.quick else (100, 5)
    with tempfile.TemporaryDirectory() as empty:
        codes = _codes(run.data(n), empty)
        run.say("first calls with an empty cache")
        cold = {name: fresh(code) for name, code in codes.items()}
        run.say("first calls with a warm cache")
        _compare(run, outcome, check, codes, cold, repeats)


def _codes(data: str, cache: str) -> dict[str, str]:
    """What each process runs, with a cache of its own in a folder."""
    start = f"import numpy as np; data = np.load({data!r}); X, y = data['X'], data['y']; import mercer as mc"
    return {
        name: f"import os; os.environ['MERCER_CACHE'] = {f'{cache}/{name}'!r}; {start}; {call}"
        for name, call in CALLS.items()
    }


def _compare(run: Any, outcome: Any, check: Callable, codes: dict, cold: dict, repeats: int) -> None:
    turns = [{name: fresh(code) for name, code in {"imports": BARE, **codes}.items()} for _ in range(repeats)]
    seconds = {name: [turn[name] for turn in turns] for name in turns[0]}
    bare = median(seconds["imports"])
    outcome.rows.append({"what": BARE, "best s": min(seconds["imports"]), "median s": bare})
    for name in codes:
        warm = median(seconds[name])
        outcome.rows.append(
            {"what": name, "best s": min(seconds[name]), "median s": warm, "empty cache s": cold[name]}
        )
        most = dict.fromkeys(("beyond", "share", "cold")) if run.quick else TARGETS
        outcome.checks += [
            check(f"{name}: s beyond bare imports", warm - bare, most=most["beyond"]),
            check(f"{name}: the same as a share of them", (warm - bare) / bare, most=most["share"]),
            check(f"{name}: s beyond bare imports, empty cache", cold[name] - bare, most=most["cold"]),
        ]
    outcome.raw |= {"first": seconds}


def by_processors(repeats: int) -> None:
    """Print processor seconds beyond those of the bare imports, in turn."""
    from benchmarks.tasks import Run

    with tempfile.TemporaryDirectory() as folder:
        codes = _codes(Run(Path(folder)).data(100), folder)
        cold = {name: fresh(code, processors) for name, code in codes.items()}
        turns = [
            {name: fresh(code, processors) for name, code in {"imports": BARE, **codes}.items()}
            for _ in range(repeats)
        ]
    seconds = {name: [turn[name] for turn in turns] for name in turns[0]}
    least, usual = min(seconds["imports"]), median(seconds["imports"])
    print(f"{BARE}: best {least:.2f} s, median {usual:.2f} s")
    for name in codes:
        best, middle = min(seconds[name]) - least, median(seconds[name]) - usual
        print(f"{name}: {best:.2f} s, {middle:.2f} s; empty cache {cold[name] - least:.2f} s beyond them")


if __name__ == "__main__":
    by_processors(int(sys.argv[1]) if len(sys.argv) > 1 else 7)
