"""Time series as they come: each observation in O(1), forecasts at any time, the last few values smoothed."""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from mercer import compiled
from mercer.compiled import kalman as loops
from mercer.compiled import matern
from mercer.inputs import InputError, as_inputs
from mercer.kernels.statespace import TOLERANCE, AbstractForm, NoStateSpace, state_space
from mercer.linalg import tiles
from mercer.params import strip
from mercer.prior import AbstractPrior
from mercer.solvers.protocol import SolverError

LOOPS_FROM = 1000  # steps in all, updates and forecasts together; numba takes as long to import
PIECE = 4096  # steps whose transitions are held at a time


class OnlineMarkov:
    """A Gaussian process in time that is updated observation by observation; the same posterior as
    conditioning on all of them.

    gp: a prior whose kernel has a state-space form (see `solvers.Markov`). noise_variance: of the
    observations. lag: how many of the latest observations `smoothed` goes back to. tolerance: as in `Markov`.

    An update takes the same time however long the series is, and nothing but the state and the last `lag`
    steps is kept.

    >>> online = OnlineMarkov(GP(Matern(nu=1.5)), noise_variance=0.1, lag=5)
    >>> online.update(0.0, 1.2).update([0.5, 0.9], [1.0, np.nan])   # nan: nothing was observed
    >>> mean, variance = online.forecast([1.0, 2.0])
    """

    def __init__(self, gp: AbstractPrior, noise_variance: float, lag: int = 0, tolerance: float = TOLERANCE):
        if not (np.ndim(noise_variance) == 0 and noise_variance > 0):
            raise ValueError(
                f"OnlineMarkov.noise_variance must be one positive number, got {noise_variance!r}."
            )
        if not (isinstance(lag, (int, np.integer)) and lag >= 0):
            raise ValueError(f"OnlineMarkov.lag must be a whole number of at least 0, got {lag!r}.")
        if gp.basis is not None:
            raise SolverError(
                "OnlineMarkov takes no basis functions: add a Polynomial kernel with a large variance "
                "instead."
            )
        self.gp = gp.bind(as_inputs(np.zeros((1, 1))))
        self.noise_variance, self.lag = float(noise_variance), int(lag)
        try:
            self.form = state_space(strip(self.gp.kernel), tolerance)
        except NoStateSpace as error:
            raise SolverError(
                f"OnlineMarkov: {error}; condition again on all data with solver='dense'."
            ) from None
        s = self.form.size
        self.time: float | None = None
        self.count, self.log_evidence = 0, 0.0
        self._state: tuple[Any, Any] = (np.zeros(s), np.zeros((s, s)))
        self._recent: _Steps | None = None
        self._steps = 0
        # what every update asks for, taken apart once
        self._mean, self._encode = self.gp.mean.value, self.gp.kernel.encode
        self._leaves, self._treedef = jax.tree.flatten(self.form)

    def update(self, t: Any, y: Any) -> OnlineMarkov:
        """Add observations y at times t, one or several, none earlier than the last;
        nan in y says that nothing was observed.
        """
        t, y = (np.atleast_1d(np.asarray(a, float)) for a in (t, y))
        if t.ndim != 1 or t.shape != y.shape:
            raise InputError(f"update needs as many times as values, got {t.shape} and {y.shape}.")
        if t.size == 0:
            return self
        self._check(t, "update")
        if np.isinf(y).any():
            raise InputError(f"observation {int(np.flatnonzero(np.isinf(y))[0])} is infinite.")
        for first in range(0, t.size, PIECE):
            self._learn(t[first : first + PIECE], y[first : first + PIECE])
        return self

    def _learn(self, t: np.ndarray, y: np.ndarray) -> None:
        seen = ~np.isnan(y)
        residual = np.where(seen, y - np.asarray(self._mean(t[:, None]), float), 0.0)
        self._state, steps = self._run(t, residual, seen / self.noise_variance)
        terms = np.log(2 * np.pi * self.noise_variance * steps.D) + steps.w * steps.e**2
        self.log_evidence -= 0.5 * float(np.sum(terms[seen]))
        self.time, self.count = float(t[-1]), self.count + int(seen.sum())
        if self._recent is not None and t.size <= self.lag:
            steps = _Steps(*map(np.concatenate, zip(self._recent, steps, strict=True)))
        self._recent = _Steps(*(a[-(self.lag + 1) :] for a in steps))

    def forecast(self, t: Any) -> tuple[np.ndarray, np.ndarray]:
        """Mean and variance (m,) of f at times t from the last observation on, in ascending order.
        Add the noise variance for y.
        """
        t = np.atleast_1d(np.asarray(t, float))
        self._check(t, "forecast")
        _, steps = self._run(t, np.zeros(t.shape), np.zeros(t.shape))
        mean = np.asarray(self._mean(t[:, None]), float) - steps.e  # nothing was observed: e = 0 - h . m
        return mean, np.maximum(np.einsum("ns,ns->n", steps.h, steps.k), 0.0)

    def smoothed(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Times, means and variances of f at the last `lag` + 1 observations, (lag + 1,) each, given all that
        came so far.
        """
        if self._recent is None:
            raise SolverError("there is nothing to smooth yet: update first.")
        steps = self._recent
        s = self.form.size
        r, N = np.zeros(s), np.zeros((s, s))
        means, variances = np.empty(len(steps.t)), np.empty(len(steps.t))
        for i in reversed(range(len(steps.t))):
            h, k, w = steps.h[i], steps.k[i], steps.w[i]
            C = np.eye(s) - w * np.outer(k, h)
            r, N = h * (w * steps.e[i]) + C.T @ r, w * np.outer(h, h) + C.T @ N @ C
            means[i], variances[i] = steps.f[i] + k @ r, h @ k - k @ N @ k
            r, N = steps.Phi[i].T @ r, steps.Phi[i].T @ N @ steps.Phi[i]
        return (steps.t, np.asarray(self._mean(steps.t[:, None]), float) + means, np.maximum(variances, 0.0))

    def _check(self, t: np.ndarray, what: str) -> None:
        self._encode(t[:, None])
        if not np.isfinite(t).all():
            raise InputError(f"{what} needs finite times.")
        if (t[1:] < t[:-1]).any() or (self.time is not None and t[0] < self.time):
            since = "" if self.time is None else f" from {self.time:g}, the last observation, on"
            raise InputError(
                f"{what} needs times in ascending order{since}; for earlier ones condition with "
                "solver='markov'."
            )

    def _run(self, t: np.ndarray, z: np.ndarray, W: np.ndarray) -> tuple[Any, _Steps]:
        """The filter over residuals z with precisions W at times t, from the state as it is: the state after
        the last, and what was done at each.
        """
        self._steps += t.size
        first, start = self.time is None, t[0] if self.time is None else self.time
        if self._steps >= LOOPS_FROM and compiled.ready():
            before = np.concatenate([[start], t[:-1]])
            m, P = (np.array(a) for a in self._state)
            Phi, Q, h = self._links(before, t)
            if first:
                Q[0] = self._by_xla(_covariance, t[:1])[0]
            k, D, e = loops.go_on(loops.Links(Phi, Q, h, np.arange(t.size)), W, z, m, P)
            return (m, P), _Steps(t, Phi, h, z - e, k, D, W / D, e)
        n = t.shape[0]
        length = 1 << (n - 1).bit_length()
        last = np.full(length - n, t[-1])
        nothing = np.zeros(length - n)
        arrays = np.concatenate([t, last]), np.concatenate([z, nothing]), np.concatenate([W, nothing])
        program = tiles.compiled(_run, self._treedef)
        state, steps = program(self._leaves, *self._state, np.float64(start), np.bool_(first), *arrays)
        return state, _Steps(*(np.asarray(a)[:n] for a in steps))

    def _links(self, before: np.ndarray, t: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Phi and Q (n, s, s) from times `before` to t (n,), and h (n, s)."""
        if self._blocks is None:
            Phi, Q, h = self._by_xla(_transition, before, t)
            return Phi, Q.copy(), h
        h = self._by_xla(_observation, t) if self._h is None else np.repeat(self._h, t.size, 0)
        return *matern.transitions(*self._blocks, t - before), h

    @functools.cached_property
    def _blocks(self) -> tuple[tuple[matern.Block, ...], np.ndarray] | None:
        """What the transitions are made of, where compiled loops make them."""
        blocks = self.form.blocks
        return None if blocks is None else (blocks, np.asarray(self.form.theta()))

    @functools.cached_property
    def _h(self) -> np.ndarray | None:
        """h (1, s), where it is the same at all times."""
        return self._by_xla(_observation, np.zeros(1)) if self.form.fixed_observation else None

    def _by_xla(self, function: Any, *times: np.ndarray) -> Any:
        """function(form, *times), padded to few lengths."""
        n = times[0].size
        more = (1 << (n - 1).bit_length()) - n
        padded = (np.concatenate([t, np.full(more, t[-1])]) for t in times)
        found = tiles.compiled(function, self._treedef)(self._leaves, *padded)
        return jax.tree.map(lambda a: np.asarray(a)[:n], found)


class _Steps(NamedTuple):
    """What the filter did at each time: f = h . m and k = P h from before the datum there."""

    t: Any
    Phi: Any
    h: Any
    f: Any
    k: Any
    D: Any
    w: Any
    e: Any


def _run(form: AbstractForm, m, P, start, first, t, z, W) -> tuple[tuple[Any, Any], _Steps]:
    """The filter from the state N(m, P) at time `start` (`first`: from the prior) over residuals z with
    precisions W at times t: the state after the last, and what was done at each.
    """
    Phi, Q = form.transition(jnp.concatenate([start[None], t[:-1]]), t)
    Q = Q.at[0].set(jnp.where(first, form.covariance(t[:1])[0], Q[0]))
    h = form.observation(t)

    def step(state, x):
        m, P = state
        Phi, Q, h, z, W = x
        m, P = Phi @ m, Phi @ P @ Phi.T + Q
        k, e = P @ h, z - h @ m
        D = 1.0 + W * (h @ k)
        w = W / D
        return (m + k * (w * e), P - w * jnp.outer(k, k)), (k, D, w, e)

    state, (k, D, w, e) = jax.lax.scan(step, (m, P), (Phi, Q, h, z, W))
    return state, _Steps(t, Phi, h, z - e, k, D, w, e)


def _transition(form: AbstractForm, before, t):
    return *form.transition(before, t), form.observation(t)


def _observation(form: AbstractForm, t):
    return form.observation(t)


def _covariance(form: AbstractForm, t):
    return form.covariance(t)


__all__ = ["OnlineMarkov"]
