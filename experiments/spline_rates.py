"""How fast splines and Ornstein-Uhlenbeck processes learn (GPML 7.1.1, 7.3, exercises 7.7.1-7.7.4): claimed exponents beside measured ones.

All of it on (0, 1) in the O(n) Markov solver. The equivalent kernel is the response of the posterior mean to one datum in the middle;
its width is that at half of its height.
"""

from __future__ import annotations

import numpy as np

import mercer as mc
from experiments._table import table
from mercer import kernels as k

NOISE = 0.01
OU, MATERN32 = k.Matern(0.5, nu=0.5), k.Matern(0.5, nu=1.5)


def slope(sizes, values) -> float:
    """The exponent: of log values on log sizes, by least squares."""
    return float(np.polyfit(np.log(sizes), np.log(values), 1)[0])


def kernel_width(gp: mc.GP, n: int, noise: float = NOISE) -> float:
    """Width at half height of the weights that the posterior mean in the middle gives to n data on a grid."""
    X, y = _grid(n), np.zeros(n)
    y[n // 2] = 1.0  # the smoother matrix is symmetric: its column is its row
    weights = gp.condition(X, y, noise_variance=noise, solver="markov").mean(X)[n // 2 :]
    weights /= weights[0]
    i = int(np.argmax(weights < 0.5))
    return 2.0 * (i - (0.5 - weights[i]) / (weights[i - 1] - weights[i])) / n


def mean_variance(gp: mc.GP, n: int, noise: float) -> float:
    """The average over (0, 1) of the posterior variance given n data on a grid: the expected squared error."""
    between = (np.arange(4 * n) + 0.5) / (4 * n)
    post = gp.condition(_grid(n), np.zeros(n), noise_variance=noise, solver="markov")
    return float(post.variance(between[:, None], latent=True).mean())


def eigenvalue_decay(kernel, first: int = 10, last: int = 40, n: int = 600) -> float:
    """The exponent of the eigenvalues of a kernel on (0, 1), from the first to the last."""
    eigenvalues = np.linalg.eigvalsh(kernel(_grid(n)))[::-1] / n
    i = np.arange(first, last)
    return slope(i - 0.5, eigenvalues[i - 1])


def spline(m: int, variance: float = 1.0) -> mc.GP:
    """The process of the smoothing spline of order m."""
    return mc.GP(k.IntegratedWiener(m - 1, variance), basis=mc.means.Polynomial(m - 1))


def rates(widths=(2**12, 2**14, 2**16), errors=(2**11, 2**13, 2**15), exact=(16, 32, 64)) -> list[list]:
    """Rows: what, claimed exponent, measured exponent."""
    rows = []
    processes = [("OU", mc.GP(OU), 1), ("Matern 3/2", mc.GP(MATERN32), 2)]
    processes += [
        (f"spline of order {m}", spline(m, variance), m) for m, variance in ((1, 1.0), (2, 100.0), (3, 1e4))
    ]
    for name, gp, m in processes:
        rows.append(
            [
                f"width of the equivalent kernel, {name}",
                -1 / (2 * m),
                slope(widths, [kernel_width(gp, n) for n in widths]),
            ]
        )
    for name, gp, r in (
        ("OU", mc.GP(OU), 0),
        ("Matern 3/2", mc.GP(MATERN32), 1),
        ("spline of order 2", spline(2, 100.0), 1),
    ):
        noisy = slope(errors, [mean_variance(gp, n, NOISE) for n in errors])
        rows.append([f"error, noise variance {NOISE}, {name} (r = {r})", -(2 * r + 1) / (2 * r + 2), noisy])
        without = slope(exact, [mean_variance(gp, n, 1e-14) for n in exact])
        rows.append([f"error without noise, {name} (r = {r})", -(2 * r + 1), without])
    for name, kernel, r in (
        ("OU", OU, 0),
        ("Matern 3/2", MATERN32, 1),
        ("integrated Wiener", k.IntegratedWiener(1), 1),
    ):
        rows.append([f"eigenvalues, {name} (r = {r})", -(2 * r + 2), eigenvalue_decay(kernel)])
    return rows


def run(out=None) -> str:
    header = ["quantity", "claimed exponent", "measured exponent"]
    return f"# How fast splines and Ornstein-Uhlenbeck processes learn\n\n{table(header, rates())}"


def _grid(n: int) -> np.ndarray:
    return ((np.arange(n) + 0.5) / n)[:, None]
