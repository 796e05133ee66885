"""What more data can teach (GPML 5.2, Stein): denser on a fixed interval, or as dense on a growing one.

An Ornstein-Uhlenbeck process of length-scale 1, variance 1, observed without noise: standard deviation over draws of the
learned log length-scale.
On a fixed interval only the ratio variance / length-scale can be learned, however many data there are.
"""

from __future__ import annotations

import numpy as np

import mercer as mc
from experiments._table import table
from mercer import kernels as k


def spread(sizes: list[int], draws: int, growing: bool) -> list[float]:
    """Standard deviation of log lengthscale for each number of data."""
    ou = k.Matern(nu=0.5, lengthscale=1.0)
    out = []
    for n in sizes:
        X = np.linspace(0, n / 4 if growing else 4.0, n)[:, None]
        found = []
        for seed in range(draws):
            y = mc.GP(ou).sample(X, 1, seed=seed)[0]
            bounded = k.Matern(nu=0.5, lengthscale=mc.param(1.0, bounds=(1e-2, 1e3)))
            fit = mc.fit(mc.Model(mc.GP(bounded), mc.likelihoods.Gaussian(mc.fixed(1e-8))), X, y)
            found.append(np.log(float(fit.model.gp.kernel.lengthscale)))
        out.append(float(np.std(found)))
    return out


def run(out=None, draws: int = 30) -> str:
    sizes = [16, 32, 64, 128, 256]
    columns = zip(sizes, spread(sizes, draws, False), spread(sizes, draws, True), strict=True)
    rows = [[f"{n}", f"{a:.2f}", f"{b:.2f}"] for n, a, b in columns]
    header = [
        "number of data",
        "sd of log length-scale, fixed interval [0, 4]",
        "growing interval, 4 data per length-scale",
    ]
    return "\n".join([
        "# What more data can teach", "",
        f"An Ornstein-Uhlenbeck process of length-scale 1 and variance 1, observed without noise, {draws} draws: the standard deviation over draws of the learned log "
        "length-scale. Denser data on the same interval do not teach it, for only the ratio of variance and length-scale can be learned there (GPML 5.2); a longer interval does.", "",
        table(header, rows),
    ])  # fmt: skip
