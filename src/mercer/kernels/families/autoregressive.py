"""Autoregressive processes in continuous time as kernels (GPML B.2): linear differential equations driven by
white noise.

Any stable equation of order p has p positive rates (r_1 ... r_p) and states x of unit variance, independent
of each other at any one time, in which it is the chain

    x_1' = r_1 x_2,   x_j' = r_j x_(j+1) - r_(j-1) x_(j-1),   x_p' = -r_(p-1) x_(p-1) - r_p x_p + sqrt(2 r_p)
    white noise

(the form of Routh and Schwarz): x' = F x + noise with F skew-symmetric but for the last entry, so that exp(F
t) never grows.
"""

from __future__ import annotations

import abc
from typing import Self

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike

from mercer.kernels.base import AbstractKernel
from mercer.kernels.spectral.density import density
from mercer.kernels.statespace import TOLERANCE, AbstractKernelForm, state_space
from mercer.kernels.traits import Traits
from mercer.linalg.kalman import multiply
from mercer.params import Hyper, ParameterError, hyper, positive

DOUBLINGS = 24  # of a step, at most


class AbstractAutoregressive(AbstractKernel):
    """variance * exp(F |t - t'|)_11 of the chain with these rates."""

    @abc.abstractmethod
    def chain(self) -> jax.Array:
        """The rates r_1 ... r_p (p,), in 1 / (units of the input)."""

    @property
    @abc.abstractmethod
    def order(self) -> int:
        """p: functions have p - 1 derivatives."""

    def equation(self) -> np.ndarray:
        """a_0 ... a_(p-1) of f^(p) + a_(p-1) f^(p-1) + ... + a_0 f = white noise."""
        return np.poly(np.asarray(_drift(self.chain())))[:0:-1]

    def block(self, A: jax.Array, B: jax.Array) -> jax.Array:
        gap = A - B.T
        gap = jnp.where(gap < 0, -gap, gap)
        correlation = _exponential(self.chain(), gap.ravel())[:, 0, 0].reshape(gap.shape)
        return self.variance * correlation  # type: ignore[attr-defined]

    def bind(self, d: int, names: tuple[str, ...] | None = None) -> Self:
        if d != 1:
            raise ParameterError(
                f"{type(self).__name__} reads one column, a time; the inputs have {d}: choose one with "
                ".on(...)."
            )
        return self

    def traits(self, d: int = 1) -> Traits:
        roots = np.roots([1.0, *self.equation()[::-1]])
        waves = (np.abs(roots.imag) > 1e-6 * np.abs(roots)).any()
        return Traits(
            stationary=True,
            isotropic=True,
            smoothness=self.order - 1,
            lengthscale=getattr(self, "lengthscale", None),
            max_dimension=1,
            beyond="returns to the mean, swinging around it" if waves else "returns to the mean",
        )


class Oscillator(AbstractAutoregressive):
    """A damped oscillator kept going by white noise: f'' + (2 / lengthscale) f' + (2 pi / period)^2 f =
    noise.

    The covariance is variance exp(-t / lengthscale) (cos w t + sin(w t) / (w lengthscale)) with w^2 = (2 pi /
    period)^2 - 1 / lengthscale^2: waves whose phase is forgotten within a few length-scales. The quality
    factor is pi lengthscale / period; a lengthscale below period / (2 pi) is overdamped (no waves), and equal
    to it the process is the Matern of order 3/2.

    period: of the undamped oscillator. lengthscale: the time in which a wave dies to 1 / e. Both in the units
    of the input.

    >>> Oscillator(period=11.0, lengthscale=30.0, variance=2.0)
    """

    period: Hyper = hyper(1.0, positive)
    lengthscale: Hyper = hyper(1.0, positive)
    variance: Hyper = hyper(1.0, positive)

    def chain(self) -> jax.Array:
        return jnp.stack([2.0 * jnp.pi / jnp.asarray(self.period), 2.0 / jnp.asarray(self.lengthscale)])

    @property
    def order(self) -> int:
        return 2

    def suggest(self, X: np.ndarray, variance: float) -> Oscillator:
        spread = float(np.std(X)) or 1.0
        return self.with_values(period=spread, lengthscale=spread, variance=variance)


class ContinuousAR(AbstractAutoregressive):
    """The stationary process f^(p) + a_(p-1) f^(p-1) + ... + a_0 f = white noise (B.2), p - 1 times
    differentiable, for any p.

    rates: p positive numbers in 1 / (units of the input); any are stable, and any stable equation has one
    such vector, so that all of them can be learned. The last damps, the others turn: [c] is the
    Ornstein-Uhlenbeck process exp(-c t), [r, c] the oscillator f'' + c f' + r^2 f, and [r, q, c] is f''' + c
    f'' + (q^2 + r^2) f' + c r^2 f. `from_equation` finds the rates of coefficients, `equation` tells the
    coefficients. The variance is that of f.

    >>> ContinuousAR([1.0, 2.0, 0.5], variance=2.0)
    >>> ContinuousAR.from_equation([2.0, 3.0]).equation()
    array([2., 3.])
    """

    rates: Hyper = hyper((1.0, 1.0), positive)
    variance: Hyper = hyper(1.0, positive)

    @classmethod
    def from_equation(cls, coefficients: ArrayLike, variance: Hyper = 1.0) -> ContinuousAR:
        """The process with coefficients a_0 ... a_(p-1), by Routh's scheme,
        which tells whether the equation is stable.
        """
        a = np.append(np.asarray(coefficients, float).ravel(), 1.0)[::-1]
        above, row = np.zeros((2, a.size // 2 + 2))
        above[: a[::2].size], row[: a[1::2].size] = a[::2], a[1::2]
        firsts = [1.0]
        for _ in range(a.size - 1):
            if not row[0] > 0:
                raise ParameterError(
                    f"the equation with coefficients {a[:0:-1].tolist()} is not stable: it has no "
                    "stationary solution."
                )
            firsts.append(row[0])
            above, row = row, np.append(above[1:] - above[0] / row[0] * row[1:], 0.0)
        ratios = np.array(firsts[2:]) / np.array(firsts[:-2])
        return cls(np.append(np.sqrt(ratios[::-1]), firsts[1]), variance)

    def __check_init__(self):
        if np.ndim(self.rates) != 1 or np.size(self.rates) == 0:
            raise ParameterError("ContinuousAR.rates must be a vector of p numbers, at least one.")

    def chain(self) -> jax.Array:
        return jnp.asarray(self.rates)

    @property
    def order(self) -> int:
        return int(np.size(self.rates))

    def suggest(self, X: np.ndarray, variance: float) -> ContinuousAR:
        rates = np.asarray(self.rates, float)
        spread = float(np.std(X)) or 1.0
        return self.with_values(
            rates=rates / np.exp(np.mean(np.log(rates))) * 2.0 / spread, variance=variance
        )


@density.register
def _(kernel: AbstractAutoregressive, s):
    rates = np.asarray(kernel.chain(), float)
    z = 2j * np.pi * s[:, 0]
    response = np.abs(np.polyval(np.poly(np.asarray(_drift(rates))), z)) ** -2.0
    power = float(kernel.variance) * 2.0 * rates[-1] * np.prod(rates[:-1] ** 2)  # type: ignore[attr-defined]
    return power * response


# ------------------------------------------------------------------------------------------------- states


@state_space.register
def _(kernel: AbstractAutoregressive, tolerance=TOLERANCE):
    return AutoregressiveForm(kernel)


class AutoregressiveForm(AbstractKernelForm):
    """The chain of rates: Pi = I, f = sqrt(variance) x_1."""

    @property
    def size(self) -> int:
        return self.kernel.order

    @property
    def timeless(self) -> bool:
        return True

    @property
    def settled(self) -> bool:
        return True

    def transition(self, t0: jax.Array, t1: jax.Array) -> tuple[jax.Array, jax.Array]:
        rates = self.kernel.chain()
        Phi = _exponential(rates, t1 - t0)
        return Phi, _noise(rates, t1 - t0, Phi)

    def covariance(self, t: jax.Array) -> jax.Array:
        return self._spread(jnp.eye(self.size), t)

    def observation(self, t: jax.Array) -> jax.Array:
        return self._spread(jnp.sqrt(self.kernel.variance) * jnp.eye(self.size)[0], t)


def _drift(rates):
    """F (p, p)."""
    turns = jnp.diag(rates[:-1], 1)
    return (turns - turns.T).at[-1, -1].set(-rates[-1])


def _exponential(rates, t):
    """exp(F t) (n, p, p) for t >= 0 (n,)."""
    p = rates.shape[0]
    if p == 1:
        return jnp.exp(-rates * t[:, None])[:, :, None]
    if p > 2:
        return _by_doubling(rates, t)
    g = 0.5 * rates[1]
    cosine, sine = _waves(rates[0], g, t)
    turn = _drift(rates) + g * jnp.eye(2)
    return cosine[:, None, None] * jnp.eye(2) + sine[:, None, None] * turn


def _waves(w0, g, t):
    """exp(-g t) cos(w t) and exp(-g t) sin(w t) / w with w^2 = w0^2 - g^2 of either sign,
    smooth where it is zero.
    """
    w2 = (w0 - g) * (w0 + g)
    small = jnp.abs(w2) * t**2 < 1.0
    u = -w2 * jnp.where(small, t, 0.0) ** 2
    even, odd = jnp.ones_like(u), jnp.ones_like(u)
    for k in range(9, 0, -1):
        even, odd = 1.0 + u / (2 * k * (2 * k - 1)) * even, 1.0 + u / (2 * k * (2 * k + 1)) * odd
    decay = jnp.exp(-g * t)
    near = decay * even, decay * t * odd
    waves = w2 > 0
    w = jnp.sqrt(jnp.where(waves, w2, 1.0))
    under = decay * jnp.cos(w * t), decay * jnp.sin(w * t) / w
    v = jnp.sqrt(jnp.where(waves | (w2 == 0), 1.0, -w2))
    slow = jnp.exp(-(w0**2) / (g + v) * t)  # g - v without cancellation
    over = 0.5 * slow * (1.0 + jnp.exp(-2.0 * v * t)), -0.5 * slow * jnp.expm1(-2.0 * v * t) / v
    return tuple(
        jnp.where(small, a, jnp.where(waves, b, c)) for a, b, c in zip(near, under, over, strict=True)
    )


def _by_doubling(rates, t):
    """exp(F t) by its series for t / 2^m and m squarings, both without cancellation."""
    p, size = rates.shape[0], jnp.sum(rates)
    x = jnp.minimum(size * t, 2.0 ** (DOUBLINGS - 1))
    m = jnp.ceil(jnp.log2(jnp.maximum(jax.lax.stop_gradient(x), 0.5))) + 1.0
    G, small = _drift(rates / size), x * 2.0**-m
    start = jnp.eye(p) + _series(lambda term: G @ term, G, small, 14)

    def double(P, i):
        return jnp.where((i < m)[:, None, None], multiply(P, P), P), None

    @jax.checkpoint
    def several(P, steps):
        return jax.lax.scan(double, P, steps)

    return jax.lax.scan(several, start, jnp.arange(float(DOUBLINGS)).reshape(-1, 4))[0]


def _noise(rates, t, Phi):
    """Q = I - Phi Phi' (n, p, p), by its series where a step is short."""
    p, size = rates.shape[0], jnp.sum(rates)
    x = size * t
    short = x < 1.0
    G, white = _drift(rates / size), jnp.zeros((p, p)).at[-1, -1].set(2.0 * rates[-1] / size)
    series = _series(lambda term: G @ term + term @ G.T, white, jnp.where(short, x, 0.0), 2 * p + 24)
    return jnp.where(short[:, None, None], series, jnp.eye(p) - multiply(Phi, Phi.mT))


def _series(operator, first, x, count: int):
    """The sum of x^k / k! operator^(k-1)(first) over k = 1 ... count (n, p, p)."""

    def step(term, k):
        return operator(term) / (k + 1.0), term

    terms = jax.lax.scan(step, first, jnp.arange(1.0, count + 1.0))[1]
    powers = jnp.stack([x**k for k in range(1, count + 1)], 1)
    return (powers @ terms.reshape(count, -1)).reshape(-1, *first.shape)


__all__ = ["AbstractAutoregressive", "AutoregressiveForm", "ContinuousAR", "Oscillator"]
