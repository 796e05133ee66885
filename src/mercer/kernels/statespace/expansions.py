"""Kernels without a finite state, approximated to a tolerance: the SE by a rational spectrum,
the periodic one by harmonics.
"""

from __future__ import annotations

import functools
import math

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from scipy.linalg import solve_continuous_lyapunov
from scipy.special import ive

from mercer.kernels.families.periodic import ZeroSumPeriodic
from mercer.kernels.families.stationary import SE, Periodic
from mercer.kernels.statespace.form import TOLERANCE, AbstractKernelForm, AbstractWeights, state_space
from mercer.kernels.statespace.processes import rate

MOST_HARMONICS = 24
SE_ORDERS = (2, 4, 6, 8, 10, 12)


@state_space.register
def _(kernel: SE, tolerance=TOLERANCE):
    order = next((N for N in SE_ORDERS if _se(N).error <= tolerance), SE_ORDERS[-1])
    return SEForm(kernel, order)


class SEForm(AbstractKernelForm):
    """The spectral density exp(-w^2 / 2) as 1 / (1 + w^2 / 2 + ... + (w^2 / 2)^N / N!): N damped oscillators,
    in pairs.
    """

    order: int = eqx.field(static=True)

    @property
    def size(self) -> int:
        return self.order

    @property
    def timeless(self) -> bool:
        return True

    @property
    def settled(self) -> bool:
        return True

    def transition(self, t0: jax.Array, t1: jax.Array) -> tuple[jax.Array, jax.Array]:
        fixed = _se(self.order)
        x = rate(self.kernel) * (t1 - t0)
        damped, angle = jnp.exp(x[:, None] * fixed.roots.real), x[:, None] * fixed.roots.imag
        c, s = damped * jnp.cos(angle), damped * jnp.sin(angle)
        Phi = jnp.zeros((x.shape[0], self.order, self.order))
        even = 2 * np.arange(self.order // 2)
        Phi = Phi.at[:, even, even].set(c).at[:, even + 1, even + 1].set(c)
        Phi = Phi.at[:, even, even + 1].set(s).at[:, even + 1, even].set(-s)
        return Phi, self.kernel.variance * (fixed.stationary - Phi @ fixed.stationary @ Phi.mT)

    def covariance(self, t: jax.Array) -> jax.Array:
        return self._spread(self.kernel.variance * _se(self.order).stationary, t)

    def observation(self, t: jax.Array) -> jax.Array:
        return self._spread(jnp.asarray(_se(self.order).observation), t)

    def error(self) -> float:
        return _se(self.order).error


class _SquaredExponential:
    """Roots, modes and stationary covariance for length-scale 1 and unit variance;
    the largest error of the correlation.
    """

    def __init__(self, N: int):
        coefficients = np.zeros(2 * N + 1)  # of sum_k (-z^2 / 2)^k / k!, highest power first
        for k in range(N + 1):
            coefficients[2 * (N - k)] = (-0.5) ** k / math.factorial(k)
        roots = np.roots(coefficients)
        roots = roots[roots.real < 0]
        F = np.diag(np.ones(N - 1), 1)
        F[-1] = -np.real(np.poly(roots))[:0:-1]
        noise = np.zeros((N, N))
        noise[-1, -1] = 1.0
        P = solve_continuous_lyapunov(F, -noise)
        self.roots = roots[roots.imag > 0]
        vectors = self.roots[None, :] ** np.arange(N)[:, None]
        modes = np.stack([vectors.real, vectors.imag], 2).reshape(N, N)  # F modes = modes [[a, b], [-b, a]]
        inverse = np.linalg.inv(modes)
        stationary = inverse @ (P / P[0, 0]) @ inverse.T
        self.stationary, self.observation = 0.5 * (stationary + stationary.T), modes[0]
        lags = np.linspace(0.0, 12.0, 4001)
        decay = np.exp(lags[:, None] * self.roots)
        start = (modes[0] @ self.stationary).reshape(-1, 2)  # cov(f, x): decays and turns
        first = modes[0].reshape(-1, 2)
        a, b = decay.real, decay.imag
        turned = np.stack([a * start[:, 0] + b * start[:, 1], -b * start[:, 0] + a * start[:, 1]], 2)
        self.error = float(np.abs(np.einsum("tij,ij->t", turned, first) - np.exp(-0.5 * lags**2)).max())


@functools.lru_cache
def _se(order: int) -> _SquaredExponential:
    return _SquaredExponential(order)


@state_space.register
def _(kernel: Periodic, tolerance=TOLERANCE):
    return _harmonics(kernel, 0, tolerance)


@state_space.register
def _(kernel: ZeroSumPeriodic, tolerance=TOLERANCE):
    return _harmonics(kernel, 1, tolerance)


def _harmonics(kernel, first: int, tolerance: float) -> PeriodicForm:
    forms = [PeriodicForm(kernel, J, first) for J in range(1, MOST_HARMONICS + 1)]
    return next((form for form in forms if form.error() <= tolerance), forms[-1])


class PeriodicForm(AbstractWeights):
    """The Fourier series with coefficients exp(-a) I_j(a), a = 1 / l^2, from `first` (0: with the constant)
    up to `harmonics`; the variance is kept.
    """

    harmonics: int = eqx.field(static=True)
    first: int = eqx.field(static=True)

    @property
    def size(self) -> int:
        return 2 * self.harmonics + 1 - self.first

    def observation(self, t: jax.Array) -> jax.Array:
        J = self.harmonics
        a = 1.0 / jnp.square(jnp.reshape(self.kernel.lengthscale, ()))
        ratio, ratios = jnp.zeros_like(a), []
        for j in range(J + 24, 0, -1):  # I_j / I_{j-1}, downwards
            ratio = a / (2.0 * j + a * ratio)
            ratios.append(ratio)
        weights = 2.0 * jnp.cumprod(jnp.stack(ratios[::-1][:J]))
        constant = jnp.ones(1 - self.first)
        roots = jnp.sqrt(self.kernel.variance / (jnp.sum(constant) + jnp.sum(weights)))
        waves = roots * jnp.sqrt(weights)
        angle = 2.0 * jnp.pi * t[:, None] / jnp.reshape(self.kernel.period, ()) * jnp.arange(1, J + 1)
        level = jnp.broadcast_to(roots * constant, (t.shape[0], 1 - self.first))
        return jnp.concatenate([level, waves * jnp.cos(angle), waves * jnp.sin(angle)], 1)

    def error(self) -> float:
        """The largest error of the correlation: twice the share of the harmonics that are left out."""
        a = float(np.reshape(self.kernel.lengthscale, ())) ** -2.0
        enough = self.harmonics + 40 + int(8.0 * np.sqrt(min(a, 1e6)))  # of the series' terms
        parts = ive(np.arange(enough), a) * np.where(np.arange(enough) > 0, 2.0, 1.0)
        return float(2.0 * np.sum(parts[self.harmonics + 1 :]) / np.sum(parts[self.first :]))
