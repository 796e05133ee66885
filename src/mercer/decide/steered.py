"""HMC steered by a Gaussian process (Rasmussen 2003, GPML 9.8), for log densities that are expensive and have
no gradient.

A Gaussian process of the log density, with a quadratic in it, is learned from evaluations where its own draws
lie. Its gradient then steers whole trajectories, at no evaluation, and each end is accepted or rejected by
the true density: one evaluation for one transition. Leapfrogs along any gradient of the position alone are
reversible and keep volumes, so that the draws are those of the true density, however bad the surrogate is; a
bad one is rejected more often. It is held while draws are kept.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike

from mercer.gp import GP, Model
from mercer.hyperpriors import LogNormal
from mercer.kernels import SE, Polynomial
from mercer.learning import fit
from mercer.learning.unconverged import UnconvergedWarning
from mercer.likelihoods import Gaussian
from mercer.params import fixed, param
from mercer.processes import check_fork
from mercer.progress import Progress, shown, tell
from mercer.sampling.diagnostics import effective_sample_size
from mercer.uncertain.predictor import Predictor

__all__ = ["SteeredDraws", "surrogate_hmc"]

LEAPFROGS = 16
LENGTH = 1.6  # of a trajectory, in standard deviations
JITTER = 0.3  # of the step size, so that no trajectory comes round to where it began
EXPLORERS, TRANSITIONS = 32, 40  # chains on the surrogate, and how long they run
DEEP = 12.0  # log densities that far below the best, and twice d more, are all alike
ROUNDS = 4  # of chains on the surrogate before the draws
FAR = 8.0  # spreads of the data beyond which an explorer is not followed


@dataclass(frozen=True)
class SteeredDraws:
    """Draws of a density, by trajectories on a surrogate.

    draws: (S, d); log_density: the true one at each (S,)
    acceptance: share of the trajectories whose end was accepted
    evaluations: of the true log density, those that the surrogate was learned from included
    """

    draws: np.ndarray
    log_density: np.ndarray
    acceptance: float
    evaluations: int

    def effective_sample_size(self) -> np.ndarray:
        """How many independent draws would estimate each mean as well (d,)."""
        return np.asarray(effective_sample_size(self.draws[None], "mean"))


def surrogate_hmc(
    log_density: Callable[[np.ndarray], float],
    start: ArrayLike,
    draws: int = 1000,
    training: int | None = None,
    scale: ArrayLike = 1.0,
    seed: int = 0,
    progress: Progress = None,
) -> SteeredDraws:
    """Draws of exp(log_density) over x (d,), one evaluation each; no gradients are asked for.

    log_density: any Python function of an array (d,); -inf where the density is zero
    start: (d,), somewhere in the bulk; scale: about how wide the density is there, a number or (d,)
    training: evaluations from which the surrogate is learned first (None: 30 for each column, at least 60)

    For up to about ten columns and densities with one bulk. Check `acceptance`: below one half, more training
    helps.

    >>> found = surrogate_hmc(simulated_log_likelihood, np.zeros(3), draws=500)
    >>> found.draws.mean(0), found.evaluations
    """
    check_fork()
    start = np.atleast_1d(np.asarray(start, float))
    d = len(start)
    training = max(60, 30 * d) if training is None else training
    if start.ndim != 1 or training < 4 * (d + 1) or draws < 1:
        raise ValueError(
            f"start is (d,), training at least {4 * (d + 1)}, draws at least 1: got {training}, {draws}."
        )
    rng = np.random.default_rng(seed)
    total = training + draws
    with shown("sampling", progress):
        X = start + np.asarray(scale, float) * rng.standard_normal((2 * (d + 1), d))
        X[0] = start
        y = np.array([_called(log_density, x) for x in X])
        if not np.isfinite(y[0]):
            raise ValueError("the log density is not finite at start: give another.")
        while len(y) < training:
            surrogate = _learn(X, y)
            ends, _, _ = surrogate.explored(X, y, rng)
            new = ends[: min(max(d + 1, len(y) // 3), training - len(y))]
            X, y = np.vstack([X, new]), np.append(y, [_called(log_density, x) for x in new])
            tell(len(y), total, "evaluations")

        surrogate = _learn(X, y)
        _, centre, factor = surrogate.explored(X, y, rng, ROUNDS)
        best = int(np.argmax(y))
        x, value = X[best], float(y[best])
        kept, values, accepted = np.empty((draws, d)), np.empty(draws), 0
        for i in range(draws):
            u, p = np.linalg.solve(factor, x - centre), rng.standard_normal(d)
            step = LENGTH / LEAPFROGS * (1.0 + JITTER * (2 * rng.random() - 1.0))
            v, q = surrogate.trajectory(u, p, step, centre, factor)
            end = centre + factor @ v
            there = _called(log_density, end) if np.isfinite(end).all() else -math.inf
            if math.log(rng.random()) < there - value + 0.5 * (p @ p - q @ q):
                x, value, accepted = end, there, accepted + 1
            kept[i], values[i] = x, value
            tell(training + i + 1, total, "evaluations")
    return SteeredDraws(kept, values, accepted / draws, total)


@dataclass(frozen=True)
class _Surrogate:
    """The log density as a Gaussian process in standardised columns: x = middle + spread * s."""

    predictor: Predictor
    middle: np.ndarray
    spread: np.ndarray
    unit: float

    def trajectory(
        self, u: np.ndarray, p: np.ndarray, step: float, centre: np.ndarray, factor: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Where position and momentum go, in columns u with x = centre + factor u."""
        shift, turn = (centre - self.middle) / self.spread, factor / self.spread[:, None]
        v, q = _trajectory(self.predictor, self.unit, shift, turn, u, p, step)
        return np.asarray(v), np.asarray(q)

    def explored(
        self, X: np.ndarray, y: np.ndarray, rng: np.random.Generator, rounds: int = 1
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Ends (E, d) of chains on the surrogate from the better half of the data; the mean (d,) and the
        factor of the covariance (d, d) of where they were, by which the next round's columns are turned.
        """
        good = np.argsort(-y)[: max(2, len(y) // 2)]
        ends = (X[rng.choice(good, EXPLORERS)] - self.middle) / self.spread
        shift = np.zeros(X.shape[1])
        turn: np.ndarray = np.eye(X.shape[1])
        for _ in range(rounds):
            key = jax.random.key(int(rng.integers(2**32)))
            path = np.asarray(_explore(self.predictor, self.unit, shift, turn, ends, key))
            ends, cloud = path[-1], path[TRANSITIONS // 2 :].reshape(-1, X.shape[1])
            shift = cloud.mean(0)
            turn = np.linalg.cholesky(np.cov(cloud.T).reshape(turn.shape) + 1e-10 * np.eye(len(turn)))
        return (
            self.middle + self.spread * ends,
            self.middle + self.spread * shift,
            self.spread[:, None] * turn,
        )


def _learn(X: np.ndarray, y: np.ndarray) -> _Surrogate:
    """Data so deep that they do not matter are raised to one level, where the surrogate is not asked to
    follow them down.
    """
    d = X.shape[1]
    y = np.maximum(np.where(np.isfinite(y), y, -np.inf), y.max() - DEEP - 2 * d)
    near = X[y > y.max() - 0.5 * DEEP] if np.sum(y > y.max() - 0.5 * DEEP) > d + 1 else X
    middle, spread = near.mean(0), near.std(0) + 1e-9 * (1.0 + np.abs(near.mean(0)))
    unit = float(y.std()) or 1.0
    kernel = SE(
        param(np.full(d, 2.0), prior=LogNormal(math.log(2.0 * math.sqrt(d)), 0.7)),
        param(0.1, prior=LogNormal(-2.0, 2.0)),
    ) + Polynomial(2, variance=fixed(1.0))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnconvergedWarning)
        learned = fit(
            Model(GP(kernel), Gaussian(fixed(1e-6))),
            (X - middle) / spread,
            (y - y.mean()) / unit,
            progress=False,
        )
    found = learned.posterior.predictor()
    more = (0, (1 << (len(X) - 1).bit_length()) - len(X))  # compiled once a doubling
    padded = Predictor(
        found.kernels,
        found.means,
        jnp.pad(found.X, ((0, 0), more, (0, 0))),
        jnp.pad(found.alpha, ((0, 0), more)),
        jnp.zeros((1, 0, 0)),
        found.noise,
    )
    return _Surrogate(padded, middle, spread, unit)


def _leapfrogs(density: Callable[[Any], Any], u: Any, p: Any, step: Any) -> tuple[Any, Any]:
    slope = jax.grad(density)

    def one(_: Any, at: tuple[Any, Any]) -> tuple[Any, Any]:
        u, p = at
        p = p + 0.5 * step * slope(u)
        u = u + step * p
        return u, p + 0.5 * step * slope(u)

    return jax.lax.fori_loop(0, LEAPFROGS, one, (u, p))


@jax.jit
def _trajectory(
    predictor: Predictor, unit: Any, shift: Any, turn: Any, u: Any, p: Any, step: Any
) -> tuple[Any, Any]:
    return _leapfrogs(lambda v: unit * predictor.mean(shift + turn @ v)[0], u, p, step)


@jax.jit
def _explore(predictor: Predictor, unit: Any, shift: Any, turn: Any, at: Any, key: Any) -> Any:
    """HMC on the surrogate from each of the starts (E, d), in columns u with s = shift + turn u: all
    positions (T, E, d).
    """

    def density(u: Any) -> Any:
        return unit * predictor.mean(shift + turn @ u)[0]

    @jax.vmap
    def transition(u: Any, key: Any) -> Any:
        first, second, third = jax.random.split(key, 3)
        p = jax.random.normal(first, u.shape)
        step = LENGTH / LEAPFROGS * jax.random.uniform(second, minval=0.2, maxval=1.0)
        end, q = _leapfrogs(density, u, p, step)
        gain = density(end) - density(u) + 0.5 * (p @ p - q @ q)
        near = jnp.all(jnp.abs(shift + turn @ end) < FAR)
        return jnp.where(near & (jnp.log(jax.random.uniform(third)) < gain), end, u)

    def all_of_them(u: Any, key: Any) -> tuple[Any, Any]:
        u = transition(u, jax.random.split(key, EXPLORERS))
        return u, shift + u @ turn.T

    start = jnp.linalg.solve(turn, (at - shift).T).T
    return jax.lax.scan(all_of_them, start, jax.random.split(key, TRANSITIONS))[1]


def _called(log_density: Callable[[np.ndarray], float], x: np.ndarray) -> float:
    value = float(np.asarray(log_density(x.copy()), float).reshape(()))
    if math.isnan(value) or value == math.inf:
        raise ValueError(f"the log density is {value} at {x}: it must be a number, or -inf.")
    return value
