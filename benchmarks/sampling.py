"""Sampling the latent values of a classifier: effective draws per CPU second, by Mercer,
blackjax as it comes, and NumPyro.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.reference import classification
from benchmarks.workers import Worker

LENGTHSCALE, VARIANCE = 2.5, 4.0
MERCER = {
    "Mercer NUTS": {"sampler": "nuts", "whiten": "posterior"},
    "Mercer NUTS, whitened by the prior": {"sampler": "nuts", "whiten": "prior"},
    "Mercer elliptical slice": {"sampler": "elliptical", "whiten": "posterior"},
}


def sampling(run: Any, outcome: Any, check: Any) -> None:
    """f = L u at fixed hyperparameters, logit, four chains; peers sample u by NUTS with their own adaptation.

    Every library returns its draws of f and the CPU seconds of tuning and sampling, compilation not counted;
    the effective number of draws is computed here, by one formula for all, and is that of the latent value
    where it is least.
    """
    n, draws = (60, 50) if run.quick else (300, 500)
    path = run.folder / f"sampling-{n}.npz"
    X, y = classification(n)
    np.savez(path, X=X, y=y)
    common = {
        "data": str(path),
        "lengthscale": LENGTHSCALE,
        "variance": VARIANCE,
        "draws": draws,
        "tune": draws,
        "chains": 4,
    }
    jobs = [(name, "mercer", "sampling", settings) for name, settings in MERCER.items()]
    jobs.append(("blackjax NUTS, window adaptation", "mercer", "sampling_blackjax", {}))
    if "numpyro" in run.beside("sampling", outcome.errors):
        jobs.append(("NumPyro NUTS", "numpyro", "sampling", {}))
    workers = {name: Worker(name) for name in {job[1] for job in jobs}}
    rates: dict[str, list[float]] = {job[0]: [] for job in jobs}
    means: dict[str, np.ndarray] = {}
    last: dict[str, dict] = {}
    try:
        for turn in range(run.repeats):
            for name, worker, task, settings in jobs:
                run.say(f"sampling by {name}, turn {turn + 1} of {run.repeats}")
                out = run.folder / "draws.npz"
                answer = workers[worker].ask(task, out=str(out), seed=turn, **common, **settings)
                f = np.load(out)["f"]
                answer["ess"], answer["r_hat"] = quality(f)
                rates[name].append(answer["ess"] / answer["cpu"])
                means[name], spread, last[name] = f.mean((0, 1)), f.std((0, 1)), answer
    finally:
        for worker in workers.values():
            worker.__exit__()
    for name, answer in last.items():
        outcome.rows.append(
            {
                "what": name,
                "effective / CPU s": float(np.median(rates[name])),
                "least effective": answer["ess"],
                "CPU s": answer["cpu"],
                "R-hat": answer["r_hat"],
            }
        )
    best = float(np.median(rates["Mercer NUTS"]))
    for name in rates:
        if not name.startswith("Mercer"):
            ratio = best / float(np.median(rates[name]))
            outcome.checks.append(
                check(f"Mercer NUTS, times {name}", ratio, least=None if run.quick else 1.0)
            )
    apart = max(float(np.max(np.abs(m - means["Mercer NUTS"]) / spread)) for m in means.values())
    outcome.checks.append(
        check(
            "largest difference of a posterior mean, in standard deviations",
            apart,
            most=None if run.quick else 0.2,
        )
    )
    outcome.notes.append(
        f"n = {n}, {draws} draws and as many tuning steps in each of 4 chains, {run.repeats} turns; "
        "medians of the rates"
    )


def hyperparameters(run: Any, outcome: Any, check: Any) -> None:
    """Draws of the hyperparameters of a regression (an ARD squared exponential of three columns, noise),
    log-normal priors, the same for all; effective draws of the one with fewest, for each CPU second.
    """
    n, draws = (40, 40) if run.quick else (300, 400)
    rng, path = np.random.default_rng(0), run.folder / f"hyperparameters-{n}.npz"
    X = rng.normal(size=(n, 3))
    y = np.sin(2.0 * X[:, 0]) + 0.5 * X[:, 1] + 0.2 * rng.normal(size=n)
    np.savez(path, X=X, y=y)
    names = ["mercer", *run.beside("hyperparameters", outcome.errors)]
    rates: dict[str, float] = {}
    means: dict[str, np.ndarray] = {}
    for name in names:
        run.say(f"hyperparameters sampled by {name}")
        out = run.folder / "draws.npz"
        with Worker(name) as worker:
            settings = dict(data=str(path), out=str(out), draws=draws, tune=draws, chains=4, seed=0)
            answer = worker.ask("hyperparameters", **settings)
        theta = np.load(out)["f"]
        ess, r_hat = quality(theta)
        rates[name], means[name] = ess / answer["cpu"], np.sort(theta.mean((0, 1)))
        outcome.rows.append(
            {
                "what": f"hyperparameters, n = {n}, {name}",
                "effective / CPU s": rates[name],
                "least effective": ess,
                "CPU s": answer["cpu"],
                "R-hat": r_hat,
            }
        )
    for name in names[1:]:
        label = f"hyperparameters, Mercer's effective draws per CPU second over {name}'s"
        outcome.checks.append(check(label, rates["mercer"] / rates[name], least=None if run.quick else 1.0))
        apart = float(np.max(np.abs(means[name] - means["mercer"])))
        label = f"largest difference of a mean log hyperparameter from {name}'s"
        outcome.checks.append(check(label, apart, most=None if run.quick else 0.25))


def draws_of_y(run: Any, outcome: Any, check: Any) -> None:
    """Joint draws of y beside those of f."""
    rows, size = (40, 200) if run.quick else (200, 5000)
    with Worker("mercer") as worker:
        run.say(f"{size} draws of f and of y")
        found = worker.ask("draws_of_y", rows=rows, size=size, repeats=1 if run.quick else 5)
    for kind, seconds in found.items():
        label = f"{kind}: {size} draws of y over those of f ({1e3 * seconds['f']:.1f} ms)"
        ratio = seconds["y"] / seconds["f"]
        outcome.checks.append(check(label, ratio, most=None if run.quick else 6.0))


def quality(f: np.ndarray) -> tuple[float, float]:
    """Least effective number of draws and largest R-hat over the latent values (chains, draws, n)."""
    from mercer.sampling import effective_sample_size, r_hat

    return float(np.min(effective_sample_size(f))), float(np.max(r_hat(f)))
