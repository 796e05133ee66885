"""A likelihood of the user's own: one function,
everything else by automatic differentiation and quadrature.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import equinox as eqx
import jax
import numpy as np

from mercer.inputs import Array
from mercer.likelihoods.base import AbstractLikelihood, refuse
from mercer.likelihoods.quadrature import log_integral
from mercer.params import Hyper, ParameterError, Parametrised, hyper, positive, real

# y - f = sinh of these: from a tiny fraction of a unit to ten million
_LOG_SCALES = np.linspace(-18.0, 18.0, 577)
_LARGEST = 700.0  # log density that can still be summed
_ROWS = 256  # draws made at a time


class Positive(Parametrised):
    """A positive hyperparameter of a `Custom` likelihood."""

    value: Hyper = hyper(1.0, positive)


class Real(Parametrised):
    """A hyperparameter of a `Custom` likelihood that may be any real number."""

    value: Hyper = hyper(0.0, real)


class Custom(AbstractLikelihood):
    """p(y | f) from a function of yours, log_prob(f, y, **hyperparameters), written in `jax.numpy` and acting
    elementwise.

    name: what a saved model calls the function; by default its own name
    hyperparameters: numbers by name, positive and learned; `fixed(...)` and `param(...)` as elsewhere,
        `Real(...)` for one that may be negative
    values: all that y can be, where that is a finite set; otherwise y is a real number, distributed around f
        or not too far from it in units of its own spread
    concave: whether log_prob is concave in f
    step: (location, width) in f of a change of p(y | f) that is much sharper than the spread of f

    >>> def log_prob(f, y, scale):
    ...     return -jnp.log(jnp.cosh((y - f) / scale)) - jnp.log(jnp.pi * scale)
    >>> Custom(log_prob, hyperparameters={"scale": 0.5}, concave=True)
    """

    function: Callable = eqx.field(static=True)
    name: str = eqx.field(static=True, default="")
    hyperparameters: Mapping[str, Any] = eqx.field(default_factory=dict, metadata={"transparent": True})
    values: tuple[float, ...] | None = eqx.field(static=True, default=None)
    concave: bool = eqx.field(static=True, default=False)
    step: tuple[float, float] | None = eqx.field(static=True, default=None)

    def __post_init__(self):
        super().__post_init__()
        if not callable(self.function):
            raise ParameterError(f"Custom needs a function log_prob(f, y, ...), got {self.function!r}.")
        self.name = self.name or getattr(self.function, "__name__", "")
        self.hyperparameters = {
            k: v if isinstance(v, Positive | Real) else Positive(v) for k, v in self.hyperparameters.items()
        }
        if self.values is not None:
            self.values = tuple(sorted(float(v) for v in self.values))
        if self.step is not None:
            self.step = (float(self.step[0]), float(self.step[1]))
            if not self.step[1] > 0:
                raise ParameterError(
                    f"Custom.step is (location, width) with a positive width, got {self.step}."
                )

    @property
    def log_concave(self) -> bool:
        return self.concave

    def encode(self, y: np.ndarray) -> np.ndarray:
        if self.values is not None:
            refuse(~np.isin(y, self.values), y, f"one of {', '.join(f'{v:g}' for v in self.values)}")
        return y

    def log_prob(self, f: Array, y: Array) -> jax.Array:
        return self.function(f, y, **{k: v.value for k, v in self.hyperparameters.items()})

    def log_partition(self, y: Array, mean: Array, variance: Array) -> jax.Array:
        centre, width = self.bend(y)
        return log_integral(lambda f: self.log_prob(f, y), mean, variance, centre, width, follow=False)

    def power_partition(self, y: Array, mean: Array, variance: Array, power: Array | float) -> jax.Array:
        centre, width = self.bend(y)
        return log_integral(
            lambda f: self.log_prob(f, y) * power, mean, variance, centre, width, follow=False
        )

    def bend(self, y: Array) -> tuple[float, float] | tuple[None, None]:
        return (None, None) if self.step is None else self.step

    # -- predictions, from the density of y on a grid --------------------------------------------------------

    def predict(self, mean: np.ndarray, variance: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        y, density, step = self._grid(mean, variance)
        weight = density * step
        weight = weight / weight.sum(0)
        average = np.sum(weight * y, 0)
        return average, np.sum(weight * (y - average) ** 2, 0)

    def quantile(self, q: float, mean: np.ndarray, variance: np.ndarray) -> np.ndarray:
        return self._invert(np.full(np.broadcast(mean, variance).shape, float(q)), mean, variance)

    def sample(self, rng: np.random.Generator, f: np.ndarray) -> np.ndarray:
        f = np.asarray(f, float)
        q, flat = rng.random(f.size), f.ravel()
        out = [
            self._invert(q[i : i + _ROWS], flat[i : i + _ROWS], np.zeros(1)) for i in range(0, f.size, _ROWS)
        ]
        return np.concatenate([*out, np.zeros(0)]).reshape(f.shape)

    def _grid(self, mean, variance):
        """Possible values of y, their density where f ~ N(mean, variance), each (k, m),
        and the step from one to the next.
        """
        mean, variance = (
            np.atleast_1d(a)
            for a in np.broadcast_arrays(np.asarray(mean, float), np.asarray(variance, float))
        )
        if self.values is not None:
            y, step = np.repeat(np.array(self.values)[:, None], mean.size, 1), 1.0
        else:
            y, step = (
                mean + np.sinh(_LOG_SCALES)[:, None],
                (np.cosh(_LOG_SCALES) * (_LOG_SCALES[1] - _LOG_SCALES[0]))[:, None],
            )
        rows = (y.ravel(), *(np.broadcast_to(a, y.shape).ravel() for a in (mean, variance)))
        log_density = self.log_density(*rows) if variance.any() else self.compute(_given, *rows[:2])
        wrong = ~(log_density < _LARGEST)  # NaN too
        if wrong.any():
            y_wrong = float(rows[0][np.argmax(wrong)])
            raise ParameterError(
                f"Custom.function is not a log density at y = {y_wrong:.3g} (NaN, or above {_LARGEST:g}): "
                "name all that y can be in values=, such as values=range(100) for counts, or let it be -inf "
                "where y is impossible."
            )
        return y, np.exp(log_density).reshape(y.shape), step

    def _invert(self, q, mean, variance):
        y, density, _ = self._grid(mean, variance)
        if self.values is not None:
            reached = np.cumsum(density / density.sum(0), 0)[:-1] < q
            return np.array(self.values)[reached.sum(0)]
        slope = density * np.cosh(_LOG_SCALES)[:, None]
        third = np.gradient(slope, axis=0)
        pieces = 0.5 * (slope[1:] + slope[:-1]) - (third[1:] - third[:-1]) / 12.0  # Euler-Maclaurin
        below = np.concatenate([np.zeros((1, y.shape[1])), np.cumsum(pieces, 0)])
        target = q * below[-1]
        k = np.clip((below < target).sum(0) - 1, 0, len(_LOG_SCALES) - 2)
        columns = np.arange(y.shape[1])
        step = _LOG_SCALES[1] - _LOG_SCALES[0]
        t = (target - below[k, columns]) / pieces[k, columns]
        for _ in range(30):  # the cubic that matches the slopes at both ends of the piece
            s0, s1, area = slope[k, columns], slope[k + 1, columns], pieces[k, columns]
            a, b = s0 + s1 - 2 * area, 3 * area - 2 * s0 - s1
            value, rate = ((a * t + b) * t + s0) * t, (3 * a * t + 2 * b) * t + s0
            t = np.clip(
                t - (value - (target - below[k, columns])) / np.where(rate > 0, rate, np.inf), 0.0, 1.0
            )
        return np.broadcast_to(mean, t.shape) + np.sinh(_LOG_SCALES[k] + step * t)


def _given(likelihood, y, f):
    return likelihood.log_prob(f, y)
