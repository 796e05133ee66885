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
        ["length-scale l", 1.0, float(kernel.lengthscale)],
        ["amplitude sigma_f", 1.27, float(np.sqrt(kernel.variance))],
        ["log evidence", "-", fit.posterior.log_evidence],
        ["mean at x = 0.2 (of centred y + mean)", 0.95, float(fit.posterior.mean(Xs)[0] + data.y.mean())],
        ["variance of y at x = 0.2", 0.21, float(fit.posterior.variance(Xs)[0])],
        [
            "K (with noise), first row, at the optimum",
            "1.70 1.42 1.21 .87 .72 .51",
            np.array2string(noisy[0], precision=3),
        ],
        [
            "K_*, at l = 1, sigma_f = 1.27",
            ".38 .79 1.03 1.35 1.46 1.58",
            np.array2string(rounded(Xs, X)[0], precision=3),
        ],
    ]
    return "# Ebden's example\n\n" + table(["quantity", "published", "here"], rows)
