"""Ebden's worked example: K, K_*, mean 0.95, variance 0.21, length-scale 1 and amplitude 1.27 by evidence.

The six targets are not printed in the tutorial; they are those of the author's own script, and they are centred before use.
"""

from __future__ import annotations

import numpy as np

import mercer as mc
from experiments._table import table
from mercer import datasets
from mercer import kernels as k


def run(out=None) -> str:
    data = datasets.ebden()
    X, y = data.X, data.y - data.y.mean()
    model = mc.Model(mc.GP(k.SE(1.0, variance=1.0)), mc.likelihoods.Gaussian(mc.fixed(0.3**2)))
    fit = mc.fit(model, X, y, restarts=3, seed=0)
    kernel = fit.model.gp.kernel
    rounded = k.SE(1.0, variance=1.27**2)
    Xs = np.array([[0.2]])
    noisy = kernel(X) + 0.09 * np.eye(6)
    rows = [
        ["length-scale l", "1", f"{float(kernel.lengthscale):.3f}"],
        ["amplitude sigma_f", "1.27", f"{float(np.sqrt(kernel.variance)):.3f}"],
        ["log evidence", "-", f"{fit.posterior.log_evidence:.3f}"],
        [
            "mean at x = 0.2 (of centred y + mean)",
            "0.95",
            f"{float(fit.posterior.mean(Xs)[0] + data.y.mean()):.3f}",
        ],
        ["variance of y at x = 0.2", "0.21", f"{float(fit.posterior.variance(Xs)[0]):.3f}"],
        ["K (with noise), first row, at the optimum", "1.70 1.42 1.21 .87 .72 .51", row(noisy[0])],
        ["K_*, at l = 1, sigma_f = 1.27", ".38 .79 1.03 1.35 1.46 1.58", row(rounded(Xs, X)[0])],
    ]
    return "# Ebden's example\n\n" + table(["quantity", "published", "here"], rows)


def row(values: np.ndarray) -> str:
    return " ".join(f"{v:.2f}" for v in values)
