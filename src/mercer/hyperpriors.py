"""Priors on hyperparameters: densities of the value people see (a length-scale, a variance), used for MAP and
sampling.

Each has `log_prob(x)`, its derivative `score(x)` and `sample(seed, shape)`. They are small frozen
dataclasses, static wherever they are kept.
`scaled(c)` is the prior of c times the variable: it is how a prior written for standardised data is carried
to the user's units.

>>> mc.param(1.0, prior=mc.hyperpriors.LogNormal(0.0, 1.0))
"""

from __future__ import annotations

import abc
import dataclasses
import math
from typing import Any, ClassVar, NoReturn, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from mercer.registry import Saved

__all__ = [
    "AbstractHyperprior",
    "Beta",
    "Each",
    "Exponential",
    "Flat",
    "Gamma",
    "HalfNormal",
    "InverseGamma",
    "LogNormal",
    "Normal",
    "Uniform",
]

# one number, or an array of them
Numbers: TypeAlias = float | np.ndarray

_LOG_2PI = math.log(2 * math.pi)


@Saved.register
@dataclasses.dataclass(frozen=True)
class AbstractHyperprior(abc.ABC):
    """A density over one positive or real number; elementwise over arrays."""

    @abc.abstractmethod
    def log_prob(self, x: Numbers) -> Numbers:
        """Log density at x, elementwise."""

    @abc.abstractmethod
    def score(self, x: Numbers) -> Numbers:
        """d log_prob / dx."""

    @abc.abstractmethod
    def sample(self, seed: Any = None, shape: tuple[int, ...] = ()) -> np.ndarray:
        """Independent draws of this shape; `seed`: a number, a generator, or None for a random one."""

    @abc.abstractmethod
    def scaled(self, c: float) -> AbstractHyperprior:
        """The prior of c times the variable."""

    proper: ClassVar[bool] = True


def _require(ok: bool, message: str) -> None:
    if not ok:
        raise ValueError(message)


@dataclasses.dataclass(frozen=True)
class Normal(AbstractHyperprior):
    """Normal with mean `mean` and standard deviation `sd`."""

    mean: float = 0.0
    sd: float = 1.0

    def __post_init__(self):
        _require(self.sd > 0, f"Normal.sd must be positive, got {self.sd}.")

    def log_prob(self, x: Numbers) -> Numbers:
        return -0.5 * ((x - self.mean) / self.sd) ** 2 - math.log(self.sd) - 0.5 * _LOG_2PI

    def score(self, x: Numbers) -> Numbers:
        return -(x - self.mean) / self.sd**2

    def sample(self, seed: Any = None, shape: tuple[int, ...] = ()) -> np.ndarray:
        return np.random.default_rng(seed).normal(self.mean, self.sd, shape)

    def scaled(self, c: float) -> Normal:
        return Normal(c * self.mean, c * self.sd)


@dataclasses.dataclass(frozen=True)
class LogNormal(AbstractHyperprior):
    """log x is normal with mean `mu` and standard deviation `sigma`; the median of x is exp(mu)."""

    mu: float = 0.0
    sigma: float = 1.0

    def __post_init__(self):
        _require(self.sigma > 0, f"LogNormal.sigma must be positive, got {self.sigma}.")

    def log_prob(self, x: Numbers) -> Numbers:
        z = (np.log(x) - self.mu) / self.sigma
        return -0.5 * z**2 - np.log(x) - math.log(self.sigma) - 0.5 * _LOG_2PI

    def score(self, x: Numbers) -> Numbers:
        return -((np.log(x) - self.mu) / self.sigma**2 + 1.0) / x

    def sample(self, seed: Any = None, shape: tuple[int, ...] = ()) -> np.ndarray:
        return np.exp(np.random.default_rng(seed).normal(self.mu, self.sigma, shape))

    def scaled(self, c: float) -> LogNormal:
        return LogNormal(self.mu + math.log(c), self.sigma)


@dataclasses.dataclass(frozen=True)
class Gamma(AbstractHyperprior):
    """Gamma with `shape` and `rate`: mean shape / rate."""

    shape: float = 1.0
    rate: float = 1.0

    def __post_init__(self):
        _require(
            self.shape > 0 and self.rate > 0,
            f"Gamma needs positive shape and rate, got {self.shape}, {self.rate}.",
        )

    def log_prob(self, x: Numbers) -> Numbers:
        a, b = self.shape, self.rate
        return a * math.log(b) - math.lgamma(a) + (a - 1) * np.log(x) - b * x

    def score(self, x: Numbers) -> Numbers:
        return (self.shape - 1) / x - self.rate

    def sample(self, seed: Any = None, shape: tuple[int, ...] = ()) -> np.ndarray:
        return np.random.default_rng(seed).gamma(self.shape, 1 / self.rate, shape)

    def scaled(self, c: float) -> Gamma:
        return Gamma(self.shape, self.rate / c)


@dataclasses.dataclass(frozen=True)
class InverseGamma(AbstractHyperprior):
    """1/x is Gamma(shape, rate=scale): keeps x away from zero."""

    shape: float = 2.0
    scale: float = 1.0

    def __post_init__(self):
        _require(
            self.shape > 0 and self.scale > 0, f"InverseGamma needs positive shape and scale, got {self}."
        )

    def log_prob(self, x: Numbers) -> Numbers:
        a, b = self.shape, self.scale
        return a * math.log(b) - math.lgamma(a) - (a + 1) * np.log(x) - b / x

    def score(self, x: Numbers) -> Numbers:
        return -(self.shape + 1) / x + self.scale / x**2

    def sample(self, seed: Any = None, shape: tuple[int, ...] = ()) -> np.ndarray:
        return 1 / np.random.default_rng(seed).gamma(self.shape, 1 / self.scale, shape)

    def scaled(self, c: float) -> InverseGamma:
        return InverseGamma(self.shape, self.scale * c)


@dataclasses.dataclass(frozen=True)
class Exponential(AbstractHyperprior):
    """Exponential with `rate`: mean 1 / rate."""

    rate: float = 1.0

    def __post_init__(self):
        _require(self.rate > 0, f"Exponential.rate must be positive, got {self.rate}.")

    def log_prob(self, x: Numbers) -> Numbers:
        return np.where(x < 0, -np.inf, math.log(self.rate) - self.rate * x)

    def score(self, x: Numbers) -> Numbers:
        return -self.rate * np.ones_like(x)

    def sample(self, seed: Any = None, shape: tuple[int, ...] = ()) -> np.ndarray:
        return np.random.default_rng(seed).exponential(1 / self.rate, shape)

    def scaled(self, c: float) -> Exponential:
        return Exponential(self.rate / c)


@dataclasses.dataclass(frozen=True)
class HalfNormal(AbstractHyperprior):
    """The absolute value of a normal with standard deviation `sd`."""

    sd: float = 1.0

    def __post_init__(self):
        _require(self.sd > 0, f"HalfNormal.sd must be positive, got {self.sd}.")

    def log_prob(self, x: Numbers) -> Numbers:
        inside = 0.5 * math.log(2 / math.pi) - math.log(self.sd) - 0.5 * (x / self.sd) ** 2
        return np.where(x < 0, -np.inf, inside)

    def score(self, x: Numbers) -> Numbers:
        return -x / self.sd**2

    def sample(self, seed: Any = None, shape: tuple[int, ...] = ()) -> np.ndarray:
        return np.abs(np.random.default_rng(seed).normal(0, self.sd, shape))

    def scaled(self, c: float) -> HalfNormal:
        return HalfNormal(c * self.sd)


@dataclasses.dataclass(frozen=True)
class Beta(AbstractHyperprior):
    """The Beta(a, b) distribution on (0, `upper`)."""

    a: float = 1.0
    b: float = 1.0
    upper: float = 1.0

    def __post_init__(self):
        _require(min(self.a, self.b, self.upper) > 0, f"Beta needs positive a, b and upper, got {self}.")

    def log_prob(self, x: Numbers) -> Numbers:
        t = x / self.upper
        norm = math.lgamma(self.a + self.b) - math.lgamma(self.a) - math.lgamma(self.b) - math.log(self.upper)
        return norm + (self.a - 1) * np.log(t) + (self.b - 1) * np.log1p(-t)

    def score(self, x: Numbers) -> Numbers:
        return (self.a - 1) / x - (self.b - 1) / (self.upper - x)

    def sample(self, seed: Any = None, shape: tuple[int, ...] = ()) -> np.ndarray:
        return self.upper * np.random.default_rng(seed).beta(self.a, self.b, shape)

    def scaled(self, c: float) -> Beta:
        return Beta(self.a, self.b, c * self.upper)


@dataclasses.dataclass(frozen=True)
class Uniform(AbstractHyperprior):
    """Uniform on (lower, upper)."""

    lower: float = 0.0
    upper: float = 1.0

    def __post_init__(self):
        _require(self.lower < self.upper, f"Uniform needs lower < upper, got {self}.")

    def log_prob(self, x: Numbers) -> Numbers:
        inside = (x >= self.lower) & (x <= self.upper)
        return np.where(inside, -math.log(self.upper - self.lower), -np.inf)

    def score(self, x: Numbers) -> Numbers:
        return np.zeros_like(x)

    def sample(self, seed: Any = None, shape: tuple[int, ...] = ()) -> np.ndarray:
        return np.random.default_rng(seed).uniform(self.lower, self.upper, shape)

    def scaled(self, c: float) -> Uniform:
        return Uniform(c * self.lower, c * self.upper)


@dataclasses.dataclass(frozen=True)
class Flat(AbstractHyperprior):
    """The improper constant prior: no density to integrate,
    so an evidence over hyperparameters with it is refused.
    """

    proper: ClassVar[bool] = False

    def log_prob(self, x: Numbers) -> Numbers:
        return np.zeros_like(x)

    def score(self, x: Numbers) -> Numbers:
        return np.zeros_like(x)

    def sample(self, seed: Any = None, shape: tuple[int, ...] = ()) -> NoReturn:
        raise ValueError(
            "a flat prior is improper and cannot be sampled; give the hyperparameter a proper prior."
        )

    def scaled(self, c: float) -> Flat:
        return self


@dataclasses.dataclass(frozen=True)
class Each(AbstractHyperprior):
    """A prior of its own for every entry of a vector: `Each((LogNormal(0, 1), LogNormal(2, 1)))` for two
    length-scales.

    `scaled(c)` takes one factor, or one for each entry.
    """

    priors: tuple[AbstractHyperprior, ...]

    def __post_init__(self):
        _require(len(self.priors) > 0, "Each needs at least one prior.")

    @property
    def proper(self) -> bool:  # type: ignore[override]
        return all(p.proper for p in self.priors)

    def log_prob(self, x: Numbers) -> Numbers:
        return np.array([p.log_prob(v) for p, v in zip(self.priors, self._entries(x), strict=True)])

    def score(self, x: Numbers) -> Numbers:
        return np.array([p.score(v) for p, v in zip(self.priors, self._entries(x), strict=True)])

    def sample(self, seed: Any = None, shape: tuple[int, ...] = ()) -> np.ndarray:
        rng = np.random.default_rng(seed)
        if shape not in ((), (len(self.priors),)):
            raise ValueError(f"Each of {len(self.priors)} priors cannot be sampled in shape {shape}.")
        return np.array([p.sample(rng) for p in self.priors])

    def scaled(self, c: ArrayLike) -> Each:
        factors = np.broadcast_to(np.asarray(c, float), (len(self.priors),))
        return Each(tuple(p.scaled(float(f)) for p, f in zip(self.priors, factors, strict=True)))

    def _entries(self, x):
        x = np.asarray(x, float)
        if x.shape != (len(self.priors),):
            raise ValueError(
                f"Each of {len(self.priors)} priors needs a vector of as many entries, got shape {x.shape}."
            )
        return x


def __dir__() -> list[str]:
    return sorted(__all__)
