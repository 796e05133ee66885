"""Actions as functions of the state, with parameters that planning learns.

    a = middle + half squash(u(z)),   squash(u) = (9 sin u + sin 3u) / 8,   z = (states, sines, cosines)

The squashing function stays between -1 and 1 and has exact moments under a Gaussian u. So has each u here:
`LinearPolicy`, `RadialPolicy` (a sum of bumps), `GPPolicy` (the mean of a Gaussian process).
"""

from __future__ import annotations

import abc
import dataclasses
from typing import Any, ClassVar, Self

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from mercer.control.dynamics import features, gaussian_features
from mercer.control.propagate import Gaussian, Reply, Weights, reply, trigonometric
from mercer.registry import Saved

__all__ = ["AbstractPolicy", "GPPolicy", "LinearPolicy", "RadialPolicy"]


@Saved.register
class AbstractPolicy(eqx.Module):
    """An action for every state. `policy(state)` is an array (A,), within the bounds, in well below 1 ms.

    low, high: (A,) bounds; angles: which states are angles; learned: names of the fields that planning learns
    """

    low: Any
    high: Any
    angles: tuple[int, ...] = eqx.field(static=True)
    learned: ClassVar[tuple[str, ...]] = ()

    @abc.abstractmethod
    def raw(self, z: np.ndarray) -> np.ndarray:
        """u (A,) of features z (F,), in NumPy."""

    @abc.abstractmethod
    def raw_moments(self, z: Gaussian) -> Reply:
        """Exact moments of u at Gaussian features."""

    def parameters(self) -> tuple[Any, ...]:
        """What planning learns."""
        return tuple(getattr(self, name) for name in self.learned)

    def with_parameters(self, parameters: tuple[Any, ...]) -> Self:
        """The policy with others."""
        return dataclasses.replace(self, **dict(zip(self.learned, parameters, strict=True)))

    def __call__(self, state: Any) -> np.ndarray:
        """The action (A,) in a state (D,)."""
        low, high = np.asarray(self.low), np.asarray(self.high)
        u = self.raw(features(np.asarray(state, float), self.angles))
        squashed = (9.0 * np.sin(u) + np.sin(3.0 * u)) / 8.0
        return np.clip(0.5 * (low + high) + 0.5 * (high - low) * squashed, low, high)

    def moments(self, state: Gaussian) -> tuple[Gaussian, Any]:
        """The action in a Gaussian state, and its covariance (D, A) with the state."""
        half = 0.5 * (self.high - self.low)
        z, with_z = gaussian_features(state, self.angles)
        u = self.raw_moments(z)
        squashed, slope = squash(Gaussian(u.mean, u.covariance))
        mean = 0.5 * (self.low + self.high) + half * squashed.mean
        return Gaussian(mean, half[:, None] * squashed.covariance * half), with_z @ u.slope * (slope * half)


def squash(u: Gaussian) -> tuple[Gaussian, Any]:
    """(9 sin u + sin 3u) / 8 of a Gaussian u (A,): its exact moments, and its expected slope (A,)."""
    A = len(u.mean)
    tripled = jnp.concatenate([jnp.eye(A), 3.0 * jnp.eye(A)])
    both = Gaussian(tripled @ u.mean, tripled @ u.covariance @ tripled.T)
    waves, _ = trigonometric(both, tuple(range(2 * A)))
    mix = jnp.concatenate([9.0 * jnp.eye(A), jnp.eye(A)], 1) / 8.0
    sines, cosines = waves.mean[: 2 * A], waves.mean[2 * A :]
    covariance = mix @ waves.covariance[: 2 * A, : 2 * A] @ mix.T
    return Gaussian(mix @ sines, covariance), (9.0 * cosines[:A] + 3.0 * cosines[A:]) / 8.0


class LinearPolicy(AbstractPolicy):
    """u = gain z + offset: gain (A, F), offset (A,)."""

    gain: Any
    offset: Any
    learned: ClassVar[tuple[str, ...]] = ("gain", "offset")

    def raw(self, z: np.ndarray) -> np.ndarray:
        return np.asarray(self.gain) @ z + np.asarray(self.offset)

    def raw_moments(self, z: Gaussian) -> Reply:
        return Reply(self.gain @ z.mean + self.offset, self.gain @ z.covariance @ self.gain.T, self.gain.T)


class RadialPolicy(AbstractPolicy):
    """u_j = sum_i weights_ji exp(-1/2 |(z - centre_i) / width_j|^2): centres (M, F), log_width (A, F),
    weights (A, M).
    """

    centres: Any
    log_width: Any
    weights: Any
    learned: ClassVar[tuple[str, ...]] = ("centres", "log_width", "weights")

    def raw(self, z: np.ndarray) -> np.ndarray:
        return _bumps(z, self.centres, self.log_width, np.asarray(self.weights))

    def raw_moments(self, z: Gaussian) -> Reply:
        return reply(_certain(self.centres, self.log_width, self.weights), z.mean, z.covariance)


class GPPolicy(AbstractPolicy):
    """u_j is the mean of a Gaussian process with an SE kernel of width exp(log_width_j) and unit variance
    that saw targets_j (A, M) at the centres (M, F) with a noise of 0.1: what it does at its centres is what
    is learned, so that parameters mean something by themselves.
    """

    centres: Any
    log_width: Any
    targets: Any
    learned: ClassVar[tuple[str, ...]] = ("centres", "log_width", "targets")

    def raw(self, z: np.ndarray) -> np.ndarray:
        return _bumps(z, self.centres, self.log_width, np.asarray(self._weights(np)))

    def raw_moments(self, z: Gaussian) -> Reply:
        return reply(_certain(self.centres, self.log_width, self._weights(jnp)), z.mean, z.covariance)

    def _weights(self, xp: Any) -> Any:
        scaled = xp.asarray(self.centres) / xp.exp(xp.asarray(self.log_width))[:, None, :]  # (A, M, F)
        squares = xp.sum((scaled[:, :, None] - scaled[:, None]) ** 2, -1)
        K = xp.exp(-0.5 * squares) + 0.01 * xp.eye(scaled.shape[1])
        return xp.linalg.solve(K, xp.asarray(self.targets)[..., None])[..., 0]


def _bumps(z: np.ndarray, centres: Any, log_width: Any, weights: np.ndarray) -> np.ndarray:
    away = (z - np.asarray(centres)) ** 2  # (M, F)
    return np.sum(weights * np.exp(-0.5 * np.exp(-2.0 * np.asarray(log_width)) @ away.T), 1)


def _certain(centres: Any, log_width: Any, weights: Any) -> Weights:
    """Functions without doubt."""
    A, F = jnp.shape(log_width)
    ones, zeros = jnp.ones(A), jnp.zeros(A)
    return Weights(centres, jnp.exp(-2.0 * log_width), ones, weights, None, zeros, jnp.zeros((A, F)), zeros)
