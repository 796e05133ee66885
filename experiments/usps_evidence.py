"""USPS 3 against 5 (Kuss 6.3.3): evidence by Laplace, EP and annealed importance sampling over the hyperparameters.

`python -m experiments usps_evidence` runs a coarse grid; `python -m experiments.usps_evidence 21 8000` as many points and temperatures.
"""

from __future__ import annotations

import pathlib
import sys

import numpy as np

from experiments.ionosphere_evidence import draw, report, surfaces
from experiments.usps_binary import Digits

LOG_L, LOG_S = (2.0, 4.0), (0.0, 4.5)


def run(out=None, points: int = 4, steps: int = 2000, runs: int = 3, draws: int = 200) -> str:
    data = Digits()
    log_l, log_s = np.linspace(*LOG_L, points), np.linspace(*LOG_S, points)
    found = surfaces(data.X, data.y, data.Xs, data.ys, log_l, log_s, steps, runs, draws)
    if out is not None:
        draw(found, out / "usps_evidence.png")
    return "\n".join([
        "# USPS 3 against 5: the evidence by three methods", "",
        f"{len(data.y)} training and {len(data.ys)} test images (the split of GPML), isotropic SE, probit.", "",
        *report(found, "a 'slightly modified' grid of", "`python -m experiments.usps_evidence 21 8000`"), "",
        *([] if out is None else ["![evidence and information over the grid](usps_evidence.png)"]),
    ])  # fmt: skip


if __name__ == "__main__":
    folder = pathlib.Path("docs/results")
    (folder / "usps_evidence.md").write_text(run(folder, *map(int, sys.argv[1:])) + "\n")
