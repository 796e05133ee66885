"""Eleven years of hourly values, trend and seasons of a day and a week: a whole fit of `GPTimeSeries`, how
often it evaluates the evidence, and forecasts of the next week; beside a structural model of statsmodels (of
the test extra), and Prophet in an environment of its own.

``python -m benchmarks.hourly [--n 100000] [--peers statsmodels,prophet]`` runs it. A library answers
``python -m benchmarks.hourly NAME data.npz`` in its own environment (`python -m benchmarks setup` does not
make Prophet's: `pip install prophet` into benchmarks/envs/prophet does).
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

AHEAD = 7 * 24
MOST = 60  # evaluations of the evidence
HARMONICS = 4  # of each season, as GPTimeSeries has them where there are several


def series(n: int) -> np.ndarray:
    """Values of n hours and of a week more."""
    rng, t = np.random.default_rng(0), np.arange(n + AHEAD)
    trend = np.cumsum(np.cumsum(1e-5 * rng.normal(size=t.size))) + 5.0 * t / n
    day, week = 2 * np.pi * t / 24, 2 * np.pi * t / (24 * 7)
    seasons = 2.0 * np.sin(day) + 0.7 * np.cos(2 * day + 1) + np.sin(week + 2) + 0.4 * np.cos(2 * week)
    return 20.0 + trend + seasons + 0.5 * rng.normal(size=t.size)


def stamps(n: int) -> np.ndarray:
    """Of n hours."""
    return np.datetime64("2010-01-01T00") + np.arange(n).astype("timedelta64[h]")


def by_mercer(y: np.ndarray) -> dict[str, Any]:
    import mercer as mc
    from mercer.solvers.markov import MarkovState

    asked: Counter = Counter()
    plain = MarkovState.__init__

    def counted(self, prior, X, *rest):
        asked[len(X)] += 1
        plain(self, prior, X, *rest)

    MarkovState.__init__ = counted  # type: ignore[method-assign]
    table = {"when": stamps(len(y)), "y": y}
    found = []
    for _ in range(2):  # the first compiles
        asked.clear()
        start = time.perf_counter()
        model = mc.GPTimeSeries(progress=False).fit(table, time="when", value="y")
        found.append(time.perf_counter() - start)
    start = time.perf_counter()
    forecast = model.forecast(AHEAD)
    return {
        "first fit s": found[0], "fit s": found[1], "forecast s": time.perf_counter() - start,
        "evaluations": sum(asked.values()), "by rows": dict(asked),
        "in passes over all rows": sum(n * k for n, k in asked.items()) / len(y),
        "climb": model.fit_.status.evaluations,
        "notes": list(model.notes_), "mean": np.asarray(forecast["mean"], float).tolist(),
        "std": np.asarray(forecast["std"], float).tolist(),
    }  # fmt: skip


def by_statsmodels(y: np.ndarray) -> dict[str, Any]:
    from statsmodels.tsa.statespace.structural import UnobservedComponents

    seasons = [{"period": period, "harmonics": HARMONICS} for period in (24, 24 * 7)]
    start = time.perf_counter()
    model = UnobservedComponents(y, "local linear trend", freq_seasonal=seasons,
                                 stochastic_freq_seasonal=[False, False])  # fmt: skip
    calls = Counter()
    plain = model.loglike

    def counted(*args, **rest):
        calls["evaluations"] += 1
        return plain(*args, **rest)

    model.loglike = counted
    fitted = model.fit(disp=False, maxiter=50)
    fit = time.perf_counter() - start
    ahead = fitted.get_forecast(AHEAD)
    return {"fit s": fit, "forecast s": time.perf_counter() - start - fit, **calls,
            "mean": np.asarray(ahead.predicted_mean).tolist(),
            "std": np.sqrt(np.asarray(ahead.var_pred_mean)).tolist()}  # fmt: skip


def by_prophet(y: np.ndarray) -> dict[str, Any]:
    import pandas as pd
    from prophet import Prophet

    when = stamps(len(y) + AHEAD)
    start = time.perf_counter()
    model = Prophet(interval_width=0.6827).fit(pd.DataFrame({"ds": when[: len(y)], "y": y}))
    fit = time.perf_counter() - start
    ahead = model.predict(pd.DataFrame({"ds": when[len(y) :]}))
    std = 0.5 * (ahead["yhat_upper"] - ahead["yhat_lower"])
    return {"fit s": fit, "forecast s": time.perf_counter() - start - fit, "mean": ahead["yhat"].tolist(),
            "std": std.tolist()}  # fmt: skip


LIBRARIES = {"mercer": by_mercer, "statsmodels": by_statsmodels, "prophet": by_prophet}


def alone(n: int, peers: list[str]) -> None:
    """Every library in a process of its own, printed."""
    from benchmarks.environments import interpreter
    from benchmarks.workers import ROOT, settings

    y = series(n)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "hourly.npz")
        np.savez(path, y=y[:n])
        for name in ("mercer", *peers):
            python = str(interpreter(name)) if name == "prophet" else sys.executable
            command = [python, "-m", "benchmarks.hourly", name, str(path)]
            done = subprocess.run(command, cwd=ROOT, env=settings(), capture_output=True, text=True)
            if done.returncode:
                print(f"{name}: {done.stderr[-500:]}")
                continue
            found = json.loads(done.stdout.splitlines()[-1])
            mean, std = (np.array(found.pop(key)) for key in ("mean", "std"))
            z = (y[n:] - mean) / std
            found |= {"RMSE": float(np.sqrt(np.mean((y[n:] - mean) ** 2))),
                      "NLPD": float(np.mean(0.5 * z**2 + np.log(std) + 0.5 * np.log(2 * np.pi)))}  # fmt: skip
            print(name, json.dumps(found))
            if name == "mercer":
                met = found["evaluations"] <= MOST
                print(f"{'met   ' if met else 'MISSED'} evaluations of the evidence: {found['evaluations']}")


if __name__ == "__main__":
    if len(sys.argv) == 3 and sys.argv[1] in LIBRARIES:
        print(json.dumps(LIBRARIES[sys.argv[1]](np.load(sys.argv[2])["y"])))
    else:
        parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
        parser.add_argument("--n", type=int, default=100_000, help="hours")
        parser.add_argument("--peers", default="statsmodels", help="libraries, by commas")
        given = parser.parse_args()
        alone(given.n, [name for name in given.peers.split(",") if name])
