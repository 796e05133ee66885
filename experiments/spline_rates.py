"""How fast splines and other processes learn (GPML 7.1.1, 7.3, exercises 7.7.1-7.7.4): claimed exponents beside measured ones.

On (0, 1) in the O(n) Markov solver, thin plates on the square. The equivalent kernel is the response of the posterior mean to one datum in
the middle; its width is that at half of its height.
"""

from __future__ import annotations

import numpy as np

import mercer as mc
from experiments._table import table
from mercer import kernels as k
from mercer import theory

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


def plate_width(order: int, side: int, scale: float = 0.06) -> float:
    """The same of a thin plate, for data on a square grid of an odd number of rows, about this scale for 1,225 data."""
    axis = (np.arange(side) + 0.5) / side
    X, y = np.stack(np.meshgrid(axis, axis), -1).reshape(-1, 2), np.zeros(side**2)
    y[side**2 // 2] = 1.0
    plate = mc.ThinPlate(1225 * scale ** (2 * order), order).fit(X, y)

    def weights(r: np.ndarray) -> np.ndarray:
        return plate.predict(np.column_stack([0.5 + np.asarray(r), np.full(np.size(r), 0.5)]))

    return 2.0 * theory.half_width(weights, 0.01)


def cutoffs(sizes, lengthscale: float = 0.1, noise: float = 0.1) -> float:
    """How s_c^2 grows with log n, where s_c is half of the exact equivalent kernel's height at 0, times 2 pi^2 l^2."""
    heights = [theory.equivalent_weights(k.SE(lengthscale), [0.0], n, noise)[0] for n in sizes]
    return (
        float(np.polyfit(np.log(sizes), (0.5 * np.array(heights)) ** 2, 1)[0]) * 2 * np.pi**2 * lengthscale**2
    )


def first_decrease(sizes=(1, 2, 3, 4, 6)) -> float:
    """The exponent with which the error of the first few data falls from that of none."""
    curve = theory.learning_curve(
        k.SE(0.01), lambda rng, n: rng.random((n, 1)), sizes, 0.1, theory.uniform_nodes(400), repeats=50
    )
    return slope(curve.sizes, 1.0 - curve.error)


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


def rates(
    widths=(2**12, 2**14, 2**16), errors=(2**11, 2**13, 2**15), exact=(16, 32, 64), sides=(17, 35)
) -> list[list]:
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
    for m in (2, 3):
        plates = [plate_width(m, side) for side in sides]
        rows.append(
            [f"the same in the plane, thin plate of order {m}", -1 / (2 * m), slope(np.square(sides), plates)]
        )
    rows.append(["SE: s_c^2 by log n, times 2 pi^2 l^2", 1.0, cutoffs((1e6, 1e8, 1e10))])
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
    rows.append(["1 - error of the first data, SE of length-scale 0.01", 1.0, first_decrease()])
    n = np.array([100.0, 1e4])
    rows.append(
        [
            "error without noise on random inputs, OU, exactly",
            -1.0,
            slope(n, theory.ou_learning_curve(n, 0.5)),
        ]
    )
    return rows


def run(out=None) -> str:
    header = ["quantity", "claimed exponent", "measured exponent"]
    return "\n".join([
        "# How fast splines and other processes learn", "",
        table(header, rates()), "",
        "Grids are regular, (i + 1/2) / n, except where random inputs are named. The height of the SE's equivalent kernel is 2 s_c for the step of (7.12) and a little less exactly; both grow as (log n)^(1/2). "
        "That the bounds of 7.3 hold for all n is on the page of [learning curves](learning_curves.md), with the consistency of GPs and of kernel regression.",
    ])  # fmt: skip


def _grid(n: int) -> np.ndarray:
    return ((np.arange(n) + 0.5) / n)[:, None]
