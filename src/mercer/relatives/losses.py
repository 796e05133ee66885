"""Losses for regularised fits (GPML 6.2): what a value f of the function costs where the target is y.

A loss is two lines, its value and its slope in f; what a fit needs besides (the proximal map, and by it the
distance from the optimum) follows from these for every convex loss.
"""

from __future__ import annotations

import abc
import dataclasses
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit, log_expit, log_ndtr

from mercer.likelihoods.base import AbstractLikelihood
from mercer.params import strip
from mercer.registry import unknown
from mercer.relatives.checks import Array

_HALF_LOG_2PI = 0.5 * float(np.log(2 * np.pi))
ULPS = 4.0  # units of rounding, to which the proximal map is found


class AbstractLoss(abc.ABC):
    """A loss of one datum. Subclass it with `value` and `slope` for one of your own, which must be convex in
    f unless it says otherwise.

    >>> @dataclasses.dataclass(frozen=True)
    ... class Cosh(AbstractLoss):
    ...     def value(self, y, f):
    ...         return np.logaddexp(f - y, y - f)
    ...     def slope(self, y, f):
    ...         return np.tanh(f - y)
    """

    labels: ClassVar[bool] = False  # y is a label, -1 or 1, and f speaks for 1

    @property
    def convex(self) -> bool:
        """Whether the value is convex in f: then a fit has one minimum."""
        return True

    @abc.abstractmethod
    def value(self, y: Array, f: Array) -> Array:
        """What f (n,) costs, (n,)."""

    @abc.abstractmethod
    def slope(self, y: Array, f: Array) -> Array:
        """Its derivative by f (n,); where it has a kink, any number between the slopes on both sides."""


@dataclasses.dataclass(frozen=True)
class Squared(AbstractLoss):
    """(y - f)^2 / 2: kernel ridge regression; of labels, least-squares classification."""

    def value(self, y: Array, f: Array) -> Array:
        return 0.5 * (y - f) ** 2

    def slope(self, y: Array, f: Array) -> Array:
        return f - y


@dataclasses.dataclass(frozen=True)
class Pinball(AbstractLoss):
    """The loss of a quantile: quantile * (y - f) where f is too low, (1 - quantile) * (f - y) where it is too
    high. The default is half of |y - f|, of the median.
    """

    quantile: float = 0.5

    def __post_init__(self) -> None:
        if not 0 < self.quantile < 1:
            raise ValueError(f"quantile must lie strictly between 0 and 1, got {self.quantile!r}.")

    def value(self, y: Array, f: Array) -> Array:
        return np.maximum(self.quantile * (y - f), (self.quantile - 1) * (y - f))

    def slope(self, y: Array, f: Array) -> Array:
        return np.where(f < y, -self.quantile, 1.0 - self.quantile)


@dataclasses.dataclass(frozen=True)
class Absolute(AbstractLoss):
    """|y - f|: medians, which wild targets hardly move."""

    def value(self, y: Array, f: Array) -> Array:
        return np.abs(y - f)

    def slope(self, y: Array, f: Array) -> Array:
        return np.sign(f - y)


@dataclasses.dataclass(frozen=True)
class Huber(AbstractLoss):
    """(y - f)^2 / 2 for residuals up to `width`, in units of y, and linear beyond."""

    width: float = 1.0

    def __post_init__(self) -> None:
        if not self.width > 0:
            raise ValueError(f"width must be positive, got {self.width!r}.")

    def value(self, y: Array, f: Array) -> Array:
        r = np.abs(y - f)
        return np.where(r <= self.width, 0.5 * r**2, self.width * (r - 0.5 * self.width))

    def slope(self, y: Array, f: Array) -> Array:
        return np.clip(f - y, -self.width, self.width)


@dataclasses.dataclass(frozen=True)
class EpsilonInsensitive(AbstractLoss):
    """max(|y - f| - epsilon, 0) (6.40), of support vector regression: residuals up to epsilon, in units of y,
    cost nothing. `likelihoods.EpsilonInsensitive` is the noise that belongs to it.
    """

    epsilon: float = 0.1

    def __post_init__(self) -> None:
        if not self.epsilon >= 0:
            raise ValueError(f"epsilon must not be negative, got {self.epsilon!r}.")

    def value(self, y: Array, f: Array) -> Array:
        return np.maximum(np.abs(y - f) - self.epsilon, 0.0)

    def slope(self, y: Array, f: Array) -> Array:
        return np.where(np.abs(y - f) > self.epsilon, np.sign(f - y), 0.0)


@dataclasses.dataclass(frozen=True)
class Hinge(AbstractLoss):
    """max(1 - y f, 0), of support vector classification: labels with a margin of 1 cost nothing."""

    labels: ClassVar[bool] = True

    def value(self, y: Array, f: Array) -> Array:
        return np.maximum(1.0 - y * f, 0.0)

    def slope(self, y: Array, f: Array) -> Array:
        return np.where(y * f < 1.0, -y, 0.0)


@dataclasses.dataclass(frozen=True)
class Logistic(AbstractLoss):
    """log(1 + exp(-y f)): minus the log probability of a label by the logistic function."""

    labels: ClassVar[bool] = True

    def value(self, y: Array, f: Array) -> Array:
        return -log_expit(y * f)

    def slope(self, y: Array, f: Array) -> Array:
        return -y * expit(-y * f)


@dataclasses.dataclass(frozen=True)
class Probit(AbstractLoss):
    """-log Phi(y f): minus the log probability of a label by the cumulative Gaussian."""

    labels: ClassVar[bool] = True

    def value(self, y: Array, f: Array) -> Array:
        return -log_ndtr(y * f)

    def slope(self, y: Array, f: Array) -> Array:
        return -y * np.exp(-0.5 * f**2 - _HALF_LOG_2PI - log_ndtr(y * f))


@dataclasses.dataclass(frozen=True)
class LogLikelihood(AbstractLoss):
    """-log p(y | f) of a likelihood with one latent function: then the fit is the mode of a GP's posterior
    with penalty 1. Those that are not log-concave (Student-t noise) may have several.

    >>> Regularised(kernel, LogLikelihood(likelihoods.Poisson()), bias=False)
    """

    likelihood: AbstractLikelihood

    def __post_init__(self) -> None:
        if self.likelihood.latents != 1:
            raise ValueError(
                f"{type(self.likelihood).__name__} has several latent functions; a loss has one."
            )

    @property
    def convex(self) -> bool:
        return self.likelihood.log_concave

    def value(self, y: Array, f: Array) -> Array:
        return -np.asarray(_log_prob(strip(self.likelihood), f, y), np.float64)

    def slope(self, y: Array, f: Array) -> Array:
        return -np.asarray(_log_slope(strip(self.likelihood), f, y), np.float64)


@eqx.filter_jit
def _log_prob(likelihood: AbstractLikelihood, f: Any, y: Any) -> jax.Array:
    return likelihood.log_prob(f, y)


@eqx.filter_jit
def _log_slope(likelihood: AbstractLikelihood, f: Any, y: Any) -> jax.Array:
    return jax.grad(lambda f: jnp.sum(likelihood.log_prob(f, y)))(f)


def hinge_mass(f: ArrayLike, C: float) -> Array:
    """What the two labels have together at f where exp(-C hinge) is taken as a probability, scaled to be at
    most 1 (6.39): 1 at f = +-1, 1 / cosh(C) at f = 0, 1 / (1 + exp(-2 C)) far away. No scale makes it 1
    everywhere, so the hinge loss is of no likelihood; of `Logistic` and `Probit` the two always sum to 1.
    """
    if not C > 0:
        raise ValueError(f"C must be positive, got {C!r}.")
    x = np.asarray(f, float)
    both = np.exp(-C * np.maximum(1 - x, 0.0)) + np.exp(-C * np.maximum(1 + x, 0.0))
    return both / (1.0 + np.exp(-2.0 * C))


NAMED: dict[str, AbstractLoss] = {
    "squared": Squared(),
    "absolute": Absolute(),
    "pinball": Pinball(),
    "huber": Huber(),
    "epsilon-insensitive": EpsilonInsensitive(),
    "hinge": Hinge(),
    "logistic": Logistic(),
    "probit": Probit(),
}


def read_loss(loss: str | AbstractLoss) -> AbstractLoss:
    """A loss by its name, with its usual setting, or as it is."""
    if isinstance(loss, AbstractLoss):
        return loss
    if not isinstance(loss, str) or loss not in NAMED:
        raise ValueError(unknown("loss", loss, NAMED))
    return NAMED[loss]


def proximal(loss: AbstractLoss, y: ArrayLike, z: ArrayLike, width: float) -> Array:
    """The values p (n,) that minimise loss(y, p) + (p - z)^2 / (2 width), of a convex loss, to rounding.

    p + width * slope(p) = z rises in p, and its root lies between z and z - width * slope(z).
    """
    y, z = np.asarray(y, float), np.asarray(z, float)
    end = z - width * loss.slope(y, z)
    low, high = np.minimum(z, end), np.maximum(z, end)
    while True:
        middle = low + 0.5 * (high - low)
        if np.all(high - low <= ULPS * np.spacing(np.maximum(np.abs(z), np.abs(middle)))):
            return middle
        above = middle + width * loss.slope(y, middle) > z
        low, high = np.where(above, low, middle), np.where(above, middle, high)
