"""Heterotopic cokriging on the metals of the Meuse: zinc at 60 sites, lead and copper at all 155, zinc at the
other 95 to be predicted; beside GPyTorch's multitask model.

``python -m benchmarks --only cokriging --peers gpytorch`` prints the table; the data are found through
MERCER_DATA.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.workers import Worker

KNOWN, SPLITS = 60, 5
METALS = (3, 2, 1)  # zinc, lead, copper: columns of the targets


def cokriging(run: Any, outcome: Any, check: Callable) -> None:
    """Error and density of held-out log zinc, averaged over splits; all models of a split see the same."""
    from mercer import datasets

    try:
        loaded = datasets.load("meuse")
    except FileNotFoundError as error:
        outcome.notes.append(f"Meuse: {error}")
        return
    sites, metals = loaded.X[:, :2], np.log(loaded.y[:, METALS])
    rng, scores = np.random.default_rng(0), {}
    for split in range(2 if run.quick else SPLITS):
        run.say(f"cokriging, split {split + 1}")
        hidden = rng.permutation(len(sites))[KNOWN:]
        known = metals.copy()
        known[hidden, 0] = np.nan
        found = _by_mercer(sites, known, hidden)
        for name in run.beside("cokriging", outcome.errors if split == 0 else []):
            found[name] = _by_peer(name, run.folder / f"meuse-{split}.npz", sites, known, hidden)
        for name, (mean, std) in found.items():
            z = (metals[hidden, 0] - mean) / std
            rmse = np.sqrt(np.mean((metals[hidden, 0] - mean) ** 2))
            nlpd = np.mean(0.5 * z**2 + np.log(std) + 0.5 * np.log(2 * np.pi))
            scores.setdefault(name, []).append([rmse, nlpd])
    outcome.raw["cokriging"] = {name: np.asarray(each).tolist() for name, each in scores.items()}
    mean = {name: np.mean(each, 0).tolist() for name, each in scores.items()}
    error = {name: (np.std(each, 0, ddof=1) / np.sqrt(len(each))).tolist() for name, each in scores.items()}
    outcome.rows += [
        {"model": name, "rmse": m[0], "± rmse": error[name][0], "nlpd": m[1], "± nlpd": error[name][1]}
        for name, m in mean.items()
    ]
    together, alone = mean["mercer, coregional"], mean["mercer, independent"]
    least = None if run.quick else 0.3
    outcome.checks.append(
        check("cokriging, nats gained over independent", alone[1] - together[1], least=least)
    )
    if "gpytorch" in mean:
        outcome.checks.append(
            check("cokriging, nats gained over gpytorch", mean["gpytorch"][1] - together[1])
        )


Moments = tuple[np.ndarray, np.ndarray]


def _by_mercer(sites: np.ndarray, known: np.ndarray, hidden: np.ndarray) -> dict[str, Moments]:
    """Means and standard deviations of the first output at the hidden sites, by default settings."""
    import mercer as mc

    out = {}
    for how in ("independent", "coregional"):
        mean, std = mc.GPRegressor(outputs=how).fit(sites, known).predict(sites[hidden], return_std=True)
        out[f"mercer, {how}"] = (mean[:, 0], std[:, 0])
    return out


def _by_peer(name: str, path: Any, sites: np.ndarray, known: np.ndarray, hidden: np.ndarray) -> Moments:
    """The same by a peer, on standardised inputs and outputs."""
    x = (sites - sites.mean(0)) / sites.std(0)
    centre, scale = np.nanmean(known, 0), np.nanstd(known, 0)
    task, row = np.nonzero(~np.isnan(known.T))
    X, y = np.column_stack([x[row], task]), ((known - centre) / scale)[row, task]
    new = np.column_stack([x[hidden], np.zeros(len(hidden))])
    np.savez(path, X=X, y=y, new=new, tasks=known.shape[1])
    with Worker(name) as worker:
        found = worker.ask("cokriging", data=str(path))
    return np.array(found["mean"]) * scale[0] + centre[0], np.array(found["std"]) * scale[0]
