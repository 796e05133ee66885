"""Rising functions z = g(y) of the target, under which it is Gaussian: warped Gaussian processes (Snelson,
Rasmussen and Ghahramani 2004).

g(y) = f(x) + Gaussian noise. Quantiles and draws of z are carried back by the inverse of g, and the density
of y is that of z times g'(y): with it, what g has to learn is learned by the evidence of y, together with the
kernel.

>>> mercer.GPRegressor(warp="box-cox").fit(X, y)
>>> mercer.GPRegressor(warp=warps.Logit(lower=0.0, upper=100.0)).fit(X, percent)
"""

from __future__ import annotations

import abc
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from mercer.hyperpriors import LogNormal, Normal
from mercer.inputs import Array, InputError
from mercer.params import Hyper, ParameterError, Parametrised, fixed, hyper, interval, param, positive, real
from mercer.registry import named

__all__ = ["AbstractWarp", "BoxCox", "Log", "Logit", "Tanh", "YeoJohnson", "by_name"]

POWERS = np.linspace(0.05, 1.95, 39)  # where learning of a power may start
TANHS = 3  # terms of a `Tanh` that nobody described
_SERIES = 1e-2


class AbstractWarp(Parametrised):
    """z = g(y), rising. `forward` and `log_slope` are JAX-traceable and elementwise."""

    @abc.abstractmethod
    def forward(self, y: Array) -> jax.Array:
        """z = g(y)."""

    @abc.abstractmethod
    def log_slope(self, y: Array) -> jax.Array:
        """log g'(y)."""

    @abc.abstractmethod
    def inverse(self, z: np.ndarray) -> np.ndarray:
        """y with g(y) = z; the end of the range of y where z is beyond that of g."""

    @abc.abstractmethod
    def words(self) -> str:
        """What z is of y, as a person would say it."""

    @property
    def support(self) -> tuple[float, float]:
        """The ends between which y lies strictly."""
        return -np.inf, np.inf

    def suited(self, y: np.ndarray) -> AbstractWarp:
        """The same for targets y (n,): units from their scale, a start from their shape, weak priors."""
        return self

    def inside(self, y: np.ndarray) -> np.ndarray:
        """Which of y it is defined for."""
        lower, upper = self.support
        return (y > lower) & (y < upper)

    def check(self, y: np.ndarray) -> None:
        """An error that names the first target outside the support, where there is one."""
        bad = ~self.inside(y)
        if bad.any():
            lower, upper = self.support
            row = int(np.argmax(bad))
            ends = f"above {lower:g}" if upper == np.inf else f"strictly between {lower:g} and {upper:g}"
            raise InputError(
                f"the warp {type(self).__name__} takes y {ends}: {int(bad.sum())} of {len(y)} do not fit, "
                f"the first is {y[row]:g} in row {row}. {_REMEDY[upper == np.inf]}"
            )


_REMEDY = {
    True: "Give warp='yeo-johnson', which takes every number, or a lower end below all of y, as in "
    "warp=mercer.warps.Log(lower=-1.0).",
    False: "Give the ends of your scale, as in warp=mercer.warps.Logit(lower=0.0, upper=100.0); a target at "
    "an end itself has no logit: move it inwards, or take likelihood='censored'.",
}


class Log(AbstractWarp):
    """z = log(y - lower), of positive targets or of those above another `lower` end: y is log-normal.

    >>> Log().forward(np.array([1.0, 10.0]))
    """

    lower: Hyper = hyper(0.0, real, free=False)

    @property
    def support(self) -> tuple[float, float]:
        return float(self.lower), np.inf

    def forward(self, y: Array) -> jax.Array:
        return jnp.log(y - self.lower)

    def log_slope(self, y: Array) -> jax.Array:
        return -jnp.log(y - self.lower)

    def inverse(self, z: np.ndarray) -> np.ndarray:
        return self.lower + np.exp(z)

    def words(self) -> str:
        return f"log {_above(self.lower)}"


class Logit(AbstractWarp):
    """z = log((y - lower) / (upper - y)), of targets strictly between two ends.

    >>> Logit(lower=0.0, upper=100.0)                             # percent
    """

    lower: Hyper = hyper(0.0, real, free=False)
    upper: Hyper = hyper(1.0, real, free=False)

    def __check_init__(self):
        if isinstance(self.lower, np.ndarray) and not np.all(self.lower < self.upper):
            raise ParameterError(f"Logit: lower {self.lower:g} must be below upper {self.upper:g}.")

    @property
    def support(self) -> tuple[float, float]:
        return float(self.lower), float(self.upper)

    def forward(self, y: Array) -> jax.Array:
        return jnp.log(y - self.lower) - jnp.log(self.upper - y)

    def log_slope(self, y: Array) -> jax.Array:
        return jnp.log(self.upper - self.lower) - jnp.log(y - self.lower) - jnp.log(self.upper - y)

    def inverse(self, z: np.ndarray) -> np.ndarray:
        from scipy.special import expit

        return self.lower + (self.upper - self.lower) * expit(z)

    def words(self) -> str:
        return f"the logit of y between {self.lower:g} and {self.upper:g}"


class BoxCox(AbstractWarp):
    """z = unit (t^power - 1) / power with t = (y - lower) / unit, of targets above `lower`; the logarithm for
    power 0, y itself (less lower and unit) for power 1.

    power: between 0 and 2, learned unless `fixed`. Powers below 0 would give y an infinite mean
    lower: the end that y stays above
    unit: where the slope is 1, in units of y - lower; 1 is the textbook's form

    g ends at z = -unit / power, that is y = lower: what a prediction has beyond it is put there.

    >>> BoxCox(fixed(0.5)).forward(np.array([1.0, 4.0]))          # 0, 2
    """

    power: Hyper = hyper(1.0, interval(0.0, 2.0))
    lower: Hyper = hyper(0.0, real, free=False)
    unit: Hyper = hyper(1.0, positive, free=False)

    @property
    def support(self) -> tuple[float, float]:
        return float(self.lower), np.inf

    def forward(self, y: Array) -> jax.Array:
        return self.unit * _powered(self.power, self._log(y))

    def log_slope(self, y: Array) -> jax.Array:
        return (self.power - 1.0) * self._log(y)

    def inverse(self, z: np.ndarray) -> np.ndarray:
        return self.lower + self.unit * np.exp(_unpowered(self.power, z / self.unit))

    def suited(self, y: np.ndarray) -> AbstractWarp:
        self.check(y)
        unit = fixed(np.exp(np.mean(np.log(y - self.lower))))
        tried = BoxCox(POWERS[:, None], fixed(self.lower), unit)
        return BoxCox(param(_likeliest(tried, y)), fixed(self.lower), unit)

    def words(self) -> str:
        return f"the Box-Cox transform of {_above(self.lower)} with power {self.power:.3g}"

    def _log(self, y: Array) -> jax.Array:
        return jnp.log(y - self.lower) - jnp.log(self.unit)


class YeoJohnson(AbstractWarp):
    """Of any targets: with t = (y - centre) / unit, z / unit is ((1 + t)^power - 1) / power above the centre
    and -((1 - t)^(2 - power) - 1) / (2 - power) below; y itself for power 1, a long upper tail drawn in by a
    lower power, a long lower one by a higher.

    power: between 0 and 2, learned unless `fixed`
    centre, unit: where it turns, and over what length, in units of y; 0 and 1 are the textbook's form

    >>> YeoJohnson(fixed(0.5)).forward(np.array([0.0, 3.0]))      # 0, 2
    """

    power: Hyper = hyper(1.0, interval(0.0, 2.0))
    centre: Hyper = hyper(0.0, real, free=False)
    unit: Hyper = hyper(1.0, positive, free=False)

    def forward(self, y: Array) -> jax.Array:
        t = (y - self.centre) / self.unit
        size = jnp.log1p(jnp.abs(t))
        z = jnp.where(t >= 0, _powered(self.power, size), -_powered(2.0 - self.power, size))
        return self.unit * z

    def log_slope(self, y: Array) -> jax.Array:
        t = (y - self.centre) / self.unit
        return jnp.where(t >= 0, 1.0, -1.0) * (self.power - 1.0) * jnp.log1p(jnp.abs(t))

    def inverse(self, z: np.ndarray) -> np.ndarray:
        size = np.abs(z) / self.unit
        above, below = (np.expm1(_unpowered(p, size)) for p in (self.power, 2.0 - self.power))
        return self.centre + self.unit * np.where(np.asarray(z) >= 0, above, -below)

    def suited(self, y: np.ndarray) -> AbstractWarp:
        centre, unit = (fixed(value) for value in _middle(y))
        power = _likeliest(YeoJohnson(POWERS[:, None], centre, unit), y)
        return YeoJohnson(param(power), centre, unit)

    def words(self) -> str:
        return f"the Yeo-Johnson transform of y with power {self.power:.3g}"


class Tanh(AbstractWarp):
    """z / unit = t + sum_i height_i tanh(steepness_i (t - place_i)) with t = (y - centre) / unit, of any
    targets: bends of any kind, all learned (Snelson et al.).

    height, steepness, place: (k,) each, of k bends
    centre, unit: in units of y

    >>> Tanh([0.5], [2.0], [0.0])                                 # draws both tails in
    """

    height: Hyper = hyper((0.1,) * TANHS, positive)
    steepness: Hyper = hyper((1.0,) * TANHS, positive)
    place: Hyper = hyper((-1.0, 0.0, 1.0), real)
    centre: Hyper = hyper(0.0, real, free=False)
    unit: Hyper = hyper(1.0, positive, free=False)

    def __check_init__(self):
        shapes = {np.shape(a) for a in (self.height, self.steepness, self.place)}
        if len(shapes) != 1 or len(next(iter(shapes))) != 1:
            raise ParameterError("Tanh: height, steepness and place are lists of one length.")

    def forward(self, y: Array) -> jax.Array:
        t = (y - self.centre) / self.unit
        bends = self.height * jnp.tanh(self.steepness * (t[..., None] - self.place))
        return self.unit * (t + bends.sum(-1))

    def log_slope(self, y: Array) -> jax.Array:
        t = (y - self.centre) / self.unit
        curve = 1.0 - jnp.tanh(self.steepness * (t[..., None] - self.place)) ** 2
        return jnp.log1p((self.height * self.steepness * curve).sum(-1))

    def inverse(self, z: np.ndarray) -> np.ndarray:
        """Newton's steps within a bracket, which is halved where they leave it or do not shrink by half."""
        z = np.asarray(z, float) / self.unit
        reach = float(np.sum(self.height))
        low, high, t = z - reach, z + reach, z.copy()
        grain, moved = 4.0 * np.finfo(float).eps * (1.0 + np.abs(z) + reach), high - low
        for _ in range(200):
            bend = np.tanh(self.steepness * (t[..., None] - self.place))
            excess = t + (self.height * bend).sum(-1) - z
            low, high = np.where(excess < 0, t, low), np.where(excess > 0, t, high)
            newton = t - excess / (1.0 + (self.height * self.steepness * (1.0 - bend**2)).sum(-1))
            trusted = (newton >= low) & (newton <= high) & (np.abs(newton - t) <= 0.5 * moved)
            new = np.where(excess == 0, t, np.where(trusted, newton, 0.5 * (low + high)))
            t, moved = new, np.abs(new - t)
            if np.all(moved <= grain):
                break
        return self.centre + self.unit * t

    def suited(self, y: np.ndarray) -> AbstractWarp:
        centre, unit = _middle(y)
        place = np.quantile((y - centre) / unit, (np.arange(TANHS) + 0.5) / TANHS)
        return Tanh(
            param(np.full(TANHS, 0.2), prior=LogNormal(np.log(0.2), 1.5)),
            param(np.ones(TANHS), prior=LogNormal(0.0, 0.7)),
            param(place, prior=Normal(0.0, 2.0)),
            fixed(centre),
            fixed(unit),
        )

    def words(self) -> str:
        return f"y bent by {len(self.height)} hyperbolic tangents"


def by_name(warp: Any) -> AbstractWarp:
    """A warp from its name ("log", "logit", "box-cox", "yeo-johnson", "tanh"), or an instance as it is.

    >>> by_name("box-cox")
    """
    if isinstance(warp, AbstractWarp):
        return warp
    found: AbstractWarp = named("warps", warp, AbstractWarp)()
    return found


def _likeliest(tried: AbstractWarp, y: np.ndarray) -> float:
    """The power, among POWERS, under which z of y (n,) are likeliest as independent normal numbers."""
    z, slope = np.asarray(tried.forward(y)), np.asarray(tried.log_slope(y))
    gain = slope.mean(1) - 0.5 * np.log(np.maximum(z.var(1), 1e-300))
    return float(POWERS[np.argmax(gain)])


def _middle(y: np.ndarray) -> tuple[float, float]:
    """The median, and the standard deviation; 1 where y does not vary."""
    return float(np.median(y)), float(np.std(y)) or 1.0


def _above(lower: Any) -> str:
    return "y" if lower == 0 else f"y {'-' if lower > 0 else '+'} {abs(lower):g}"


def _powered(power: Any, x: jax.Array) -> jax.Array:
    """(e^(power x) - 1) / power, x for power 0."""
    a = power * x
    near = jnp.abs(a) < _SERIES
    away = jnp.where(near, 1.0, a)
    series = 1.0 + a / 2 * (1.0 + a / 3 * (1.0 + a / 4 * (1.0 + a / 5 * (1.0 + a / 6 * (1.0 + a / 7)))))
    return x * jnp.where(near, series, jnp.expm1(away) / away)


def _unpowered(power: Any, z: np.ndarray) -> np.ndarray:
    """log(1 + power z) / power, z for power 0: minus infinity where there is none."""
    power, z = np.asarray(power, float), np.asarray(z, float)
    if power == 0:
        return z
    with np.errstate(divide="ignore"):
        return np.log1p(np.maximum(power * z, -1.0)) / power


def __dir__() -> list[str]:
    return sorted(__all__)
