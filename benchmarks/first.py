"""First calls: fresh processes that fit n = 100 and predict, beside the bare imports of jax, equinox and
scikit-learn's base, with compiled programs in the cache on disk and without.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from statistics import median
from typing import Any

from benchmarks.workers import fresh

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
    start = f"import numpy as np; data = np.load({run.data(n)!r}); X, y = data['X'], data['y']; "
    codes = {name: f"{start}import mercer as mc; {call}" for name, call in CALLS.items()}
    with tempfile.TemporaryDirectory() as empty:
        for name in codes:
            codes[name] = f"import os; os.environ['MERCER_CACHE'] = {f'{empty}/{name}'!r}; {codes[name]}"
        run.say("first calls with an empty cache")
        cold = {name: fresh(code) for name, code in codes.items()}
        run.say("first calls with a warm cache")
        _compare(run, outcome, check, codes, cold, repeats)


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
