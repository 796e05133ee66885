"""What forecasts must beat: the value one season before, and exponential smoothing, on values at equal steps.

Exponential smoothing with additive errors is y = D x0 + (C / A) e: the response D of the states x0 at the
start, plus the one-step errors e passed through a filter,

    A(B) = (1 - phi B)(1 - B)(1 - B^m)
    C(B) = A(B) + B [alpha (1 - phi B) + phi beta] (1 - B^m) + gamma B^m (1 - phi B)(1 - B)

with B the step back (Hyndman, Koehler, Ord and Snyder 2008, chapters 3 and 11). So the errors are the inverse
filter of y - D x0, the states at the start a least-squares problem, and the impulse response of C / A says
how errors add up in forecasts.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit, logit

MOST = 1000  # values that exponential smoothing learns from at most: the last (and five seasons at least)
DAMPED = 0.8, 0.98  # how much of a trend lives on at each step, where it is damped
START = 0.3, 0.1, 0.1, 0.5  # of alpha, beta / alpha, gamma / (1 - alpha), and phi between its ends
WORST = 1e300


def seasonal_naive(y: np.ndarray, season: int, horizon: int) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard deviation (horizon,) of what follows values y: each is the value one season before
    (with season 1 the last value), and the variance of such steps adds up season by season.
    """
    ahead = np.arange(horizon)
    steps = y[season:] - y[:-season]
    return y[y.size - season + ahead % season], np.sqrt(np.mean(steps**2) * (1 + ahead // season))


@dataclasses.dataclass(frozen=True)
class Smoother:
    """Exponential smoothing with additive errors, trend and season.

    alpha, beta, gamma: how much of a one-step error goes into the level, the slope and the season
    phi: how much of the slope lives on at each step; 0 where there is no trend
    season: steps of a season; 1 where there is none
    """

    alpha: float
    beta: float = 0.0
    gamma: float = 0.0
    phi: float = 0.0
    season: int = 1

    def filter(self) -> tuple[np.ndarray, np.ndarray]:
        """C and A, as coefficients of B^0, B^1, ..."""
        one = np.ones(1)
        trend, step = np.array([1.0, -self.phi]), np.array([1.0, -1.0])
        season = np.append(one, np.append(np.zeros(self.season - 1), -1.0)) if self.season > 1 else one
        line = np.convolve(trend, step)
        level = self.alpha * np.array([0.0, 1.0, -self.phi]) + [0.0, self.phi * self.beta, 0.0]
        a = np.convolve(line, season)
        c = a + np.convolve(level, season)
        if self.season > 1:
            c += np.append(np.zeros(self.season), self.gamma * line)
        return c, a

    def response(self, n: int) -> np.ndarray:
        """What level, slope and season (n, 1 to 2 + season) at the start contribute to n values."""
        columns = [np.ones((n, 1))]
        if self.phi:
            columns.append(np.cumsum(self.phi ** np.arange(1.0, n + 1))[:, None])
        if self.season > 1:
            columns.append(np.eye(self.season)[np.arange(n) % self.season])
        return np.hstack(columns)

    def errors(self, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """One-step errors e (n,) of values y, and the states at the start that make them least."""
        from scipy.signal import lfilter  # which takes long to load

        c, a = self.filter()
        seen, response = lfilter(a, c, y), lfilter(a, c, self.response(y.size), axis=0)
        start = np.linalg.lstsq(response, seen, rcond=1e-10)[0]
        return seen - response @ start, start

    def forecast(self, y: np.ndarray, horizon: int) -> tuple[np.ndarray, np.ndarray]:
        """Mean and standard deviation (horizon,) of what follows values y."""
        from scipy.signal import lfilter

        n = y.size
        c, a = self.filter()
        e, start = self.errors(y)
        mean = self.response(n + horizon) @ start + lfilter(c, a, np.append(e, np.zeros(horizon)))
        impulse = lfilter(c, a, np.append(1.0, np.zeros(horizon - 1)))
        noise = np.sum(e**2) / max(n - self.parameters + 1, 1)
        return mean[n:], np.sqrt(noise * np.cumsum(impulse**2))

    @property
    def parameters(self) -> int:
        """How many numbers are learned, the variance of the errors among them."""
        season = self.season > 1
        damped = 0 < self.phi < 1
        return 3 + 2 * bool(self.phi) + damped + season * self.season

    def criterion(self, y: np.ndarray) -> float:
        """Akaike's, corrected for few values: smaller is better."""
        n, p = y.size, self.parameters
        if n <= p + 1:
            return np.inf
        return float(n * np.log(np.mean(self.errors(y)[0] ** 2) + 1e-300) + 2 * p * n / (n - p - 1))


def exponential_smoothing(y: np.ndarray, season: int, horizon: int) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard deviation (horizon,) of what follows values y, by the smoother learned from them."""
    y = y[-max(MOST, 5 * season) :]
    return smoothed(y, season).forecast(y, horizon)


def smoothed(y: np.ndarray, season: int) -> Smoother:
    """The smoother of values y by least squares: without a trend, with one, or with a damped one; with a
    season of so many steps where that is above 1, or without; the one that Akaike's criterion prefers.
    """
    seasons = (1, season) if season > 1 and y.size >= 2 * season else (1,)
    found = [_learned(y, m, trend) for m in seasons for trend in ("none", "linear", "damped")]
    return min(found, key=lambda one: one.criterion(y))


def _learned(y: np.ndarray, season: int, trend: str) -> Smoother:
    which = [0, *([] if trend == "none" else [1]), *([2] if season > 1 else [])]
    which += [3] if trend == "damped" else []
    scale = float(np.mean((y - y.mean()) ** 2)) or 1.0

    def made(x: np.ndarray) -> Smoother:
        values = np.zeros(4)
        values[which] = expit(x)
        alpha, beta, gamma, phi = values
        low, high = DAMPED
        lives = {"none": 0.0, "linear": 1.0, "damped": low + (high - low) * phi}[trend]
        return Smoother(alpha, alpha * beta, (1 - alpha) * gamma, lives, season)

    def loss(x: np.ndarray) -> float:
        with np.errstate(over="ignore", invalid="ignore"):
            value = np.mean(made(x).errors(y)[0] ** 2) / scale
        return float(np.log(value + 1e-12)) if np.isfinite(value) else WORST

    bounds: Sequence[tuple[float, float]] = [(-9.0, 9.0)] * len(which)
    best = minimize(loss, logit(np.array(START)[which]), method="L-BFGS-B", bounds=bounds)
    return made(best.x)
