"""The best single guess is the one with the least expected loss (GPML 2.32-2.33, Kuss 2.3-2.5).

The predictive distribution and the loss are independent choices: a model says what may happen, a loss what it
costs.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import logsumexp, ndtr, ndtri

Array = NDArray[np.float64]
Loss = str | Callable[[Array, Array], ArrayLike]


class Decision(NamedTuple):
    """The optimal guess for each test case and the loss to expect from it, both (n,)."""

    guess: Array
    risk: Array


def optimal_prediction(
    predictive: AbstractPredictive,
    loss: Loss = "squared",
    *,
    q: float | None = None,
    a: float | None = None,
    width: float | None = None,
    smooth: bool = False,
) -> Decision:
    """The guess g that minimises the expected loss E[L(y, g)], and that risk, for each test case.

    `predictive` is `gaussian(mean, std)`, a `PredictiveMixture` of Gaussians, `Samples`, or any
    `AbstractPredictive`. `loss` is

    - "squared": (y - g)². The mean; its risk is the variance.
    - "absolute": |y - g|. The median.
    - "pinball": q (y - g) above the guess, (1 - q)(g - y) below. The q-quantile.
    - "linex": exp(a (g - y)) - a (g - y) - 1. With a > 0, guessing too high is the expensive mistake.
    - "zero-one": 1 unless |y - g| ≤ `width`. The mode when width is 0, the default (a continuous y then has
      risk 1).
    - a function loss(y_true, y_guess) of arrays. Its expectation is taken by Gauss-Legendre quadrature on
      either side of the guess, where most losses have a kink; `smooth=True` uses Gauss-Hermite quadrature
      instead, cheaper and exact for polynomials, but poor when the loss has a kink.

        >>> optimal_prediction(gaussian(mean, std), "pinball", q=0.9).guess
        >>> optimal_prediction(gaussian(mean, std), lambda y, g: np.where(g < y, 5.0, 1.0) * (y - g) ** 2)
    """
    kind, parameter = _named(loss, q, a, width)
    if kind == "squared":
        guess = predictive.mean
    elif kind in ("absolute", "pinball"):
        guess = predictive.quantile(0.5 if kind == "absolute" else parameter)
    elif kind == "linex":
        guess = -predictive.log_mgf(-parameter) / parameter
    elif kind == "zero-one":
        guess = predictive.mode(parameter)
    else:
        guess = minimise(lambda g: _expectation(predictive, g, loss, smooth), predictive.search_points())
    return Decision(guess, expected_loss(predictive, guess, loss, q=q, a=a, width=width, smooth=smooth))


def expected_loss(
    predictive: AbstractPredictive,
    guess: ArrayLike,
    loss: Loss = "squared",
    *,
    q: float | None = None,
    a: float | None = None,
    width: float | None = None,
    smooth: bool = False,
) -> Array:
    """The risk E[L(y, guess)] of any guess (a number or one for each case);
    arguments as in `optimal_prediction`.
    """
    kind, parameter = _named(loss, q, a, width)
    g = np.broadcast_to(np.asarray(guess, dtype=np.float64), predictive.mean.shape)
    if kind == "squared":
        return predictive.variance + (g - predictive.mean) ** 2
    if kind in ("absolute", "pinball"):
        above = predictive.excess(g)
        below = above - (predictive.mean - g)
        return above + below if kind == "absolute" else parameter * above + (1 - parameter) * below
    if kind == "linex":
        return np.expm1(parameter * g + predictive.log_mgf(-parameter)) - parameter * (g - predictive.mean)
    if kind == "zero-one":
        return 1 - predictive.probability(g - parameter, g + parameter)
    return _expectation(predictive, g, loss, smooth)


class AbstractPredictive(ABC):
    """What a decision needs to know about the distributions of n unknown numbers; every array is (n,)."""

    @property
    @abstractmethod
    def mean(self) -> Array:
        """Predictive means (m,)."""

    @property
    @abstractmethod
    def variance(self) -> Array:
        """Predictive variances (m,)."""

    @abstractmethod
    def quantile(self, q: float) -> Array:
        """The q-quantile."""

    @abstractmethod
    def excess(self, g: Array) -> Array:
        """E[max(y - g, 0)]."""

    @abstractmethod
    def log_mgf(self, t: float) -> Array:
        """log E[exp(t y)]."""

    @abstractmethod
    def probability(self, lower: Array, upper: Array) -> Array:
        """P(lower ≤ y ≤ upper)."""

    @abstractmethod
    def mode(self, width: float) -> Array:
        """The centre of the likeliest interval of half-width `width`;
        the peak of the density when it is 0.
        """

    @abstractmethod
    def nodes(self, g: Array, smooth: bool) -> tuple[Array, Array]:
        """Quadrature nodes and weights, both (m, n),
        for functions of y that may have a kink at g unless smooth.
        """

    @abstractmethod
    def search_points(self) -> Array:
        """Values (m, n) among which a minimiser is bracketed."""


class PredictiveMixture(AbstractPredictive):
    """Mixtures of K Gaussians, one for each of n cases; for instance the predictions of K draws of
    hyperparameters.

    `means` and `stds` are (K, n), or (K,) for a single case; `weights` are (K,) or (K, n) and sum to one.
    """

    def __init__(self, weights: ArrayLike, means: ArrayLike, stds: ArrayLike):
        self.means = _columns("means", means)
        self.stds = np.broadcast_to(_columns("stds", stds), self.means.shape)
        self.weights = np.broadcast_to(_columns("weights", weights), self.means.shape)
        if np.any(self.stds <= 0):
            raise ValueError(f"stds must be positive; the least is {self.stds.min():g}.")
        if np.any(self.weights < 0) or not np.allclose(self.weights.sum(axis=0), 1, rtol=0, atol=1e-9):
            raise ValueError(
                "weights must be non-negative and sum to one over the components (the first axis)."
            )

    def _average(self, values: Array) -> Array:
        return np.sum(self.weights * values, axis=0)

    def _z(self, y: Array) -> Array:
        return (y - self.means) / self.stds

    @property
    def mean(self) -> Array:
        return self._average(self.means)

    @property
    def variance(self) -> Array:
        return self._average(self.stds**2 + (self.means - self.mean) ** 2)

    def quantile(self, q: float) -> Array:
        """By bisection of the distribution function between the least and the greatest quantile of a
        component.
        """
        components = self.means + self.stds * ndtri(q)
        low, high = components.min(axis=0), components.max(axis=0)
        for _ in range(64):
            middle = low + (high - low) / 2
            below = self._average(ndtr(self._z(middle))) < q
            low, high = np.where(below, middle, low), np.where(below, high, middle)
        return low + (high - low) / 2

    def excess(self, g: Array) -> Array:
        z = -self._z(g)
        return self._average(self.stds * (z * ndtr(z) + np.exp(-0.5 * z**2) / np.sqrt(2 * np.pi)))

    def log_mgf(self, t: float) -> Array:
        return logsumexp(t * self.means + 0.5 * (t * self.stds) ** 2, b=self.weights, axis=0)

    def probability(self, lower: Array, upper: Array) -> Array:
        return self._average(ndtr(self._z(upper)) - ndtr(self._z(lower)))

    def density(self, y: Array) -> Array:
        """Density at y (m,), one value for each distribution: (m,)."""
        return self._average(np.exp(-0.5 * self._z(y) ** 2) / (np.sqrt(2 * np.pi) * self.stds))

    def mode(self, width: float) -> Array:
        if len(self.means) == 1:
            return self.means[0]
        # a narrow component makes a narrow peak, about its mean or where it comes to lie barely within the
        # interval
        offset = self.stds if width == 0 else width - 3 * self.stds
        points = np.concatenate([self.search_points(), self.means - offset, self.means + offset])
        if width == 0:
            return minimise(lambda g: -self.density(g), points)
        return minimise(lambda g: -self.probability(g - width, g + width), points)

    def nodes(self, g: Array, smooth: bool) -> tuple[Array, Array]:
        if smooth:
            t, w = _HERMITE
            z = np.broadcast_to(t[:, None, None], (len(t), *self.means.shape))
            weights = (w / w.sum())[:, None, None] * self.weights
        else:
            t, w = _LEGENDRE
            cut, reach = np.clip(self._z(g), -_REACH, _REACH), np.full_like(self.means, _REACH)
            panels = [panel(t, w, -reach, cut), panel(t, w, cut, reach)]
            z, w = (np.concatenate(part) for part in zip(*panels, strict=True))
            weights = w * np.exp(-0.5 * z**2) / np.sqrt(2 * np.pi) * self.weights
        n = self.means.shape[1]
        return (self.means + self.stds * z).reshape(-1, n), np.broadcast_to(weights, z.shape).reshape(-1, n)

    def search_points(self) -> Array:
        low, high = (self.means - 8 * self.stds).min(axis=0), (self.means + 8 * self.stds).max(axis=0)
        return np.concatenate([np.linspace(low, high, 65), self.means])


def gaussian(mean: ArrayLike, std: ArrayLike) -> PredictiveMixture:
    """Gaussian predictions with the given means and standard deviations, (n,) or single numbers."""
    mean, std = np.broadcast_arrays(np.atleast_1d(mean), np.atleast_1d(std))
    return PredictiveMixture([1.0], mean[None], std[None])


class Samples(AbstractPredictive):
    """Draws from the predictive distribution: (draws, n), or (draws,) for a single case."""

    def __init__(self, draws: ArrayLike):
        self.draws = _columns("draws", draws)

    @property
    def mean(self) -> Array:
        return self.draws.mean(axis=0)

    @property
    def variance(self) -> Array:
        return self.draws.var(axis=0)

    def quantile(self, q: float) -> Array:
        return np.quantile(self.draws, q, axis=0, method="averaged_inverted_cdf")

    def excess(self, g: Array) -> Array:
        return np.maximum(self.draws - g, 0).mean(axis=0)

    def log_mgf(self, t: float) -> Array:
        return logsumexp(t * self.draws, axis=0) - np.log(len(self.draws))

    def probability(self, lower: Array, upper: Array) -> Array:
        return np.mean((lower <= self.draws) & (self.draws <= upper), axis=0)

    def mode(self, width: float) -> Array:
        """The commonest value when `width` is 0,
        else the centre of the interval of that half-width with most draws.
        """
        y = np.sort(self.draws, axis=0)
        last = np.column_stack([np.searchsorted(c, c + 2 * width, side="right") - 1 for c in y.T])
        count = last - np.arange(len(y))[:, None]
        first, case = count.argmax(axis=0), np.arange(y.shape[1])
        if width == 0 and np.any(count[first, case] == 0):
            raise ValueError(
                "The commonest draw is undefined: no value occurs twice. Draws of a continuous quantity need "
                "width > 0, or a `PredictiveMixture` in place of `Samples`."
            )
        return (y[first, case] + y[last[first, case], case]) / 2

    def nodes(self, g: Array, smooth: bool) -> tuple[Array, Array]:
        return self.draws, np.full_like(self.draws, 1 / len(self.draws))

    def search_points(self) -> Array:
        low, high = self.draws.min(axis=0), self.draws.max(axis=0)
        span = np.where(high > low, high - low, np.maximum(1, np.abs(high)))
        return np.concatenate(
            [np.linspace(low - span, high + span, 97), np.quantile(self.draws, _LEVELS, axis=0)]
        )


def minimise(f: Callable[[Array], Array], points: Array, at_ends: bool = False) -> Array:
    """Minimisers (n,) of n functions: golden-section search between the neighbours of the best of `points`
    (m, n).
    """
    values = np.array([f(p) for p in points])
    best = np.take_along_axis(points, values.argmin(axis=0)[None], axis=0)[0]
    near = 1e-9 * np.ptp(points, axis=0)  # points closer than this are ordered by rounding errors
    low = np.max(points, axis=0, where=points < best - near, initial=-np.inf)
    high = np.min(points, axis=0, where=points > best + near, initial=np.inf)
    if at_ends:
        low, high = np.maximum(low, points.min(axis=0)), np.minimum(high, points.max(axis=0))
    elif np.isinf(low).any() or np.isinf(high).any():
        raise ValueError(
            "No guess near the predictive distribution is the best one: is the loss monotone in the guess?"
        )
    ratio = (np.sqrt(5) - 1) / 2
    left, right = high - ratio * (high - low), low + ratio * (high - low)
    f_left, f_right = f(left), f(right)
    for _ in range(60):
        go_left = f_left < f_right
        low, high = np.where(go_left, low, left), np.where(go_left, right, high)
        kept, f_kept = np.where(go_left, left, right), np.where(go_left, f_left, f_right)
        new = np.where(go_left, high - ratio * (high - low), low + ratio * (high - low))
        f_new = f(new)
        left, right = np.where(go_left, new, kept), np.where(go_left, kept, new)
        f_left, f_right = np.where(go_left, f_new, f_kept), np.where(go_left, f_kept, f_new)
    found = np.where(f_left < f_right, left, right)
    return np.where(np.minimum(f_left, f_right) <= values.min(axis=0), found, best)


def panel(t: Array, w: Array, low: Array, high: Array) -> tuple[Array, Array]:
    """Gauss-Legendre nodes and weights moved to [low, high], along a new first axis."""
    half = (high - low) / 2
    shape = (-1,) + (1,) * np.ndim(half)
    return (low + high) / 2 + half * t.reshape(shape), half * w.reshape(shape)


_HERMITE = np.polynomial.hermite_e.hermegauss(64)
_LEGENDRE, _REACH = np.polynomial.legendre.leggauss(32), 8.5
_LEVELS = np.linspace(0.01, 0.99, 33)
_PARAMETER = {"squared": None, "absolute": None, "pinball": "q", "linex": "a", "zero-one": "width"}


def _expectation(predictive: AbstractPredictive, g: Array, loss: Loss, smooth: bool) -> Array:
    assert callable(loss)
    y, w = predictive.nodes(g, smooth)
    values = np.asarray(loss(y, g), dtype=np.float64)
    if values.shape != y.shape:
        raise ValueError(
            f"loss(y_true, y_guess) must work elementwise: for arrays of shape {y.shape} and {g.shape} it "
            "returned "
            f"shape {values.shape}."
        )
    if not np.isfinite(values).all():
        raise ValueError(
            "loss(y_true, y_guess) is NaN or infinite for some y within reach of the predictive distribution."
        )
    return np.sum(w * values, axis=0)


def _named(loss: Loss, q: float | None, a: float | None, width: float | None) -> tuple[str, float]:
    """The name of a loss ("" for a function) and its parameter."""
    given = {name: value for name, value in {"q": q, "a": a, "width": width}.items() if value is not None}
    if not isinstance(loss, str):
        wanted, kind = None, ""
    elif loss in _PARAMETER:
        wanted, kind = _PARAMETER[loss], loss
    else:
        raise ValueError(f"Unknown loss {loss!r}; use one of {', '.join(_PARAMETER)}, or a function.")
    if stray := set(given) - {wanted}:
        raise ValueError(f"{stray.pop()}= does not belong to the loss {kind or loss!r}.")
    value = given.get(wanted or "", 0.0)
    if wanted == "q" and not 0 < value < 1:
        raise ValueError("The pinball loss needs q=, strictly between 0 and 1.")
    if wanted == "a" and not (np.isfinite(value) and value != 0):
        raise ValueError("The linex loss needs a=, a number that is not zero, in units of 1/y.")
    if wanted == "width" and not value >= 0:
        raise ValueError(f"width must not be negative; got {value!r}.")
    return kind, float(value)


def _columns(name: str, values: ArrayLike) -> Array:
    a = np.asarray(values, dtype=np.float64)
    if a.ndim == 1:
        a = a[:, None]
    if a.ndim != 2 or a.size == 0:
        raise ValueError(
            f"{name} must be (count,) or (count, cases) and not empty; got shape {np.shape(values)}."
        )
    if not np.isfinite(a).all():
        raise ValueError(f"{name} has values that are NaN or infinite.")
    return a
