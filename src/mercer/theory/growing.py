"""Consistency (GPML 7.2): whether a way to learn finds any regression function when data are plenty, and how
fast; and how many data a model at hand needs.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import cholesky, solve_triangular

from mercer.conditioned import AbstractConditioned
from mercer.inputs import as_inputs
from mercer.likelihoods import Gaussian
from mercer.theory.curves import Draw, LearningCurve, Rule, _rule

SETTLED = -0.1  # exponents above are those of a risk that stays where it is


@dataclasses.dataclass(frozen=True, eq=False)
class Consistency:
    """Excess risks of ways to learn, from ever more data.

    curves: by name, a `LearningCurve` of the squared distance from the regression function, averaged over new
    inputs and data sets (7.15); to predict y costs the noise variance besides
    """

    curves: dict[str, LearningCurve]

    @property
    def slopes(self) -> dict[str, float]:
        """By name, the exponent with which the risk changes over the last half of the sizes, as n^slope."""
        return {
            name: _slope(curve.sizes, curve.error, max(2, curve.sizes.size // 2 + 1))
            for name, curve in self.curves.items()
        }

    def __str__(self) -> str:
        lines = []
        for name, slope in self.slopes.items():
            curve = self.curves[name]
            how = f"falls as n^{slope:.2f}" if slope < SETTLED else "stays where it is: not consistent here"
            lines.append(f"{name}: excess risk {curve.error[-1]:.3g} of {curve.sizes[-1]} data; it {how}")
        return "\n".join(lines)


def consistency(
    methods: Mapping[str, Callable[[int], Any]],
    regression: Callable[[np.ndarray], ArrayLike],
    draw: Draw,
    sizes: Sequence[int],
    rule: Rule,
    noise: float | Callable[[np.random.Generator, np.ndarray], ArrayLike] = 0.1,
    repeats: int = 20,
    seed: int = 0,
) -> Consistency:
    """Whether ways to learn find a regression function as data grow, by trying (7.14, 7.15).

    methods: by name, for n data an estimator with fit and predict. What depends on n is the schedule: kernel
        regression is consistent if its bandwidth h falls while n h^d grows; a penalty lambda |f|^2 on the
        mean loss if lambda falls while n lambda grows (a GP's is noise_variance / n; Zhang 2004)
    regression: the function to find, of inputs (n, d), (n,)
    draw, rule: inputs of their density, draw(rng, n), and its nodes and weights
    noise: standard deviation of y about it; or a function of rng and inputs that draws y - regression (n,)

    >>> methods = {"GP": lambda n: relatives.KernelRidge(kernels.SE(0.2), 0.01),
    ...            "kernel regression": lambda n: relatives.NadarayaWatson(0.3 * n**-0.2),
    ...            "straight line": lambda n: relatives.LinearRegression()}
    >>> print(consistency(methods, lambda X: np.sin(6 * X[:, 0]), lambda rng, n: rng.random((n, 1)),
    ...                   [20, 80, 320], uniform_nodes(100)))
    """
    numbers = np.asarray(sizes, int)
    if numbers.ndim != 1 or numbers.size < 2 or numbers.min() < 1 or (np.diff(numbers) <= 0).any():
        raise ValueError("sizes must be two or more numbers of data, each larger than the one before.")
    if repeats < 2:
        raise ValueError(f"a standard error takes at least two repeats, got {repeats}.")
    rng, (nodes, weights) = np.random.default_rng(seed), _rule(rule)
    truth = np.asarray(regression(nodes), float)
    found = {name: np.empty((repeats, numbers.size)) for name in methods}
    for repeat in range(repeats):
        X = np.asarray(as_inputs(draw(rng, int(numbers.max()))).values)
        away = noise(rng, X) if callable(noise) else noise * rng.normal(size=len(X))
        y = np.asarray(regression(X), float) + np.asarray(away, float)
        for name, method in methods.items():
            for i, n in enumerate(numbers):
                predicted = method(int(n)).fit(X[:n], y[:n]).predict(nodes)
                found[name][repeat, i] = weights @ (predicted - truth) ** 2
    return Consistency(
        {
            name: LearningCurve(numbers, risks.mean(0), risks.std(0, ddof=1) / np.sqrt(repeats))
            for name, risks in found.items()
        }
    )


def _slope(sizes: np.ndarray, values: np.ndarray, last: int) -> float:
    """Of log values on log sizes, over the last of them."""
    return float(np.polyfit(np.log(sizes[-last:]), np.log(values[-last:]), 1)[0])


# ---------------------------------------------------------------------------------------------- how many data


@dataclasses.dataclass(frozen=True, eq=False)
class DataNeeded:
    """How sure a model will be of the function, from more data like those it has.

    sizes: (s,) numbers of data in all, those it has first. std: (s,) root mean square of the standard
    deviations of f at new inputs, the expected error of its mean. standard_error: of these, over draws
    noise_std: that of y about f, below which no number of data predicts y
    target_std: what was asked for. n: so many data reach it, in all; None where it was not asked for, or is
    out of reach. extrapolated: whether n lies beyond what was simulated; it then has two digits
    """

    sizes: np.ndarray
    std: np.ndarray
    standard_error: np.ndarray
    noise_std: float
    target_std: float | None
    n: int | None
    extrapolated: bool

    @property
    def slope(self) -> float:
        """The exponent with which std falls at the end, as n^slope."""
        return _slope(self.sizes, self.std, max(3, self.sizes.size // 3))

    def __str__(self) -> str:
        n, has = self.n, int(self.sizes[0])
        lines = [
            f"{has} data: f is known to a std of {self.std[0]:.3g}; y has a noise of {self.noise_std:.3g}"
        ]
        if self.target_std is not None:
            if n is None:
                answer = "out of sight"
            elif n <= has:
                answer = "the data at hand suffice"
            else:
                beyond = f" (extrapolated from {self.sizes[-1]})" if self.extrapolated else ""
                answer = f"about {n} data, {n - has} more{beyond}"
            lines.append(f"a std of {self.target_std:.3g}: {answer}")
        lines.append(
            f"{self.sizes[-1]} data: a std of {self.std[-1]:.3g}, falling as n^{self.slope:.2f}, if new "
            "inputs are like these and kernel and noise are as learned"
        )
        return "\n".join(lines)


def data_needed(
    model: AbstractConditioned,
    target_std: float | None = None,
    most: int = 1000,
    inputs: Any = None,
    repeats: int = 5,
    seed: int = 0,
) -> DataNeeded:
    """How many data a model needs, from a fit to the few there are: the learning curve that goes on from it.

    model: a fitted GPRegressor, a Fit or a posterior, with Gaussian noise; with `warp=`, std are of warped y
    target_std: how well f is to be known: root mean square of its standard deviations at new inputs
    most: how many more data are simulated; a number beyond is extrapolated along a power of n
    inputs: (m, d) rows like those to come, as the posterior reads them; by default those it has. New ones are
        drawn from them and moved about a little, except in columns where more than half of the values repeat

    Each repeat costs (m + most)^3 at worst. Where you choose the inputs, `mercer.design` needs fewer data.

    >>> found = data_needed(mercer.GPRegressor().fit(X, y), target_std=0.05)
    >>> print(found)
    >>> viz.data_needed(found)
    """
    if target_std is not None and not target_std > 0:
        raise ValueError(f"target_std must be positive, got {target_std!r}.")
    if most < 4 or repeats < 2:
        raise ValueError(f"most must be at least 4 and repeats at least 2, got {most} and {repeats}.")
    posterior = model.one_posterior()
    if not isinstance(likelihood := posterior.model.likelihood, Gaussian):
        raise ValueError(
            "what more data tell is known beforehand for Gaussian noise, not for "
            f"{type(likelihood).__name__}: fit a GPRegressor with the default noise."
        )
    rows = np.asarray(posterior.inputs.values if inputs is None else as_inputs(inputs, "inputs").values)
    if rows.dtype == object:
        raise ValueError("inputs that are not numbers cannot be drawn: put them into numbers first.")
    has, rng = len(posterior.y), np.random.default_rng(seed)
    variance = np.empty((repeats, most + 1))
    noise = np.empty((repeats, most))
    for repeat in range(repeats):
        X = _alike(rows, most + AT, rng)
        S = posterior.covariance(X, latent=True)
        noise[repeat] = posterior.variance(X[:most]) - np.diag(S)[:most]
        floor = np.maximum(noise[repeat], TINY * np.diag(S).max())
        L = cholesky(S[:most, :most] + np.diag(floor), lower=True)
        V = solve_triangular(L, S[:most, most:], lower=True)
        variance[repeat] = np.diag(S)[most:].mean() - np.append(0.0, np.cumsum((V**2).mean(1)))
    mean = variance.mean(0)
    at = np.unique(np.round(np.geomspace(has, has + most, 24)).astype(int)) - has
    std = np.sqrt(mean)
    error = variance.std(0, ddof=1) / np.sqrt(repeats) / (2 * std)
    found = DataNeeded(
        at + has, std[at], error[at], float(np.sqrt(np.maximum(noise, 0).mean())), target_std, None, False
    )
    if target_std is None:
        return found
    if std[-1] <= target_std:
        return dataclasses.replace(found, n=has + int(np.argmax(std <= target_std)))
    power = np.log(std[-1] / target_std) / -found.slope if found.slope < SLOWEST else np.inf
    if power > FARTHEST:
        return found
    n = int(float(f"{(has + most) * math.exp(power):.2g}"))
    return dataclasses.replace(found, n=n, extrapolated=True)


AT = 200  # new inputs that std is averaged over
TINY = 1e-10  # of the variance of f, for data without noise
SLOWEST, FARTHEST = -0.02, math.log(1e6)  # a slope that leads nowhere; how far a power of n is believed


def _alike(rows: np.ndarray, n: int, rng: np.random.Generator) -> np.ndarray:
    """n inputs of the density of these rows: some of them, moved by half of Scott's bandwidth and reflected
    at the least and largest values.
    """
    m, d = rows.shape
    low, span = rows.min(0), np.ptp(rows, 0)
    away = 0.5 * m ** (-1 / (d + 4)) * rows.std(0) * rng.normal(size=(n, d))
    drawn = rows[rng.integers(m, size=n)]
    moved = np.array([np.unique(column).size > m / 2 for column in rows.T])
    folded = np.mod(drawn + away - low, 2 * np.where(span > 0, span, 1.0))
    return np.where(moved, low + np.minimum(folded, 2 * span - folded), drawn)
