"""Time series as they come: each observation in O(1), forecasts at any time, the last few values smoothed."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from mercer.inputs import InputError, as_inputs
from mercer.kernels.statespace import TOLERANCE, AbstractForm, NoStateSpace, state_space
from mercer.linalg import tiles
from mercer.params import strip
from mercer.prior import AbstractPrior
from mercer.solvers.protocol import SolverError


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
        seen = ~np.isnan(y)
        residual = np.where(seen, y - np.asarray(self.gp.mean.value(t[:, None]), float), 0.0)
        self._state, steps = self._run(t, residual, seen / self.noise_variance)
        terms = np.log(2 * np.pi * self.noise_variance * steps.D) + steps.w * steps.e**2
        self.log_evidence -= 0.5 * float(np.sum(terms[seen]))
        self.time, self.count = float(t[-1]), self.count + int(seen.sum())
        joined = (
            steps
            if self._recent is None
            else _Steps(*map(np.concatenate, zip(self._recent, steps, strict=True)))
        )
        self._recent = _Steps(*(a[-(self.lag + 1) :] for a in joined))
        return self

    def forecast(self, t: Any) -> tuple[np.ndarray, np.ndarray]:
        """Mean and variance (m,) of f at times t from the last observation on, in ascending order.
        Add the noise variance for y.
        """
        t = np.atleast_1d(np.asarray(t, float))
        self._check(t, "forecast")
        _, steps = self._run(t, np.zeros(t.shape), np.zeros(t.shape))
        mean = np.asarray(self.gp.mean.value(t[:, None]), float) + np.einsum("ns,ns->n", steps.h, steps.m)
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
            means[i], variances[i] = h @ steps.m[i] + k @ r, h @ k - k @ N @ k
            r, N = steps.Phi[i].T @ r, steps.Phi[i].T @ N @ steps.Phi[i]
        return (
            steps.t,
            np.asarray(self.gp.mean.value(steps.t[:, None]), float) + means,
            np.maximum(variances, 0.0),
        )

    def _check(self, t: np.ndarray, what: str) -> None:
        self.gp.kernel.encode(t[:, None])
        if not np.isfinite(t).all():
            raise InputError(f"{what} needs finite times.")
        if (np.diff(t, prepend=t[0] if self.time is None else self.time) < 0).any():
            since = "" if self.time is None else f" from {self.time:g}, the last observation, on"
            raise InputError(
                f"{what} needs times in ascending order{since}; for earlier ones condition with "
                "solver='markov'."
            )

    def _run(self, t: np.ndarray, z: np.ndarray, W: np.ndarray) -> tuple[Any, _Steps]:
        n = t.shape[0]
        length = 1 << (n - 1).bit_length()
        last = np.full(length - n, t[-1])
        nothing = np.zeros(length - n)
        start = np.float64(t[0] if self.time is None else self.time)
        arrays = np.concatenate([t, last]), np.concatenate([z, nothing]), np.concatenate([W, nothing])
        state, steps = tiles.call(_run, self.form, *self._state, start, np.bool_(self.time is None), *arrays)
        return state, _Steps(*(np.asarray(a)[:n] for a in steps))


class _Steps(NamedTuple):
    """What the filter did at each time: m and k = P h from before the datum there."""

    t: Any
    Phi: Any
    h: Any
    m: Any
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
        return (m + k * (w * e), P - w * jnp.outer(k, k)), (m, k, D, w, e)

    state, (m, k, D, w, e) = jax.lax.scan(step, (m, P), (Phi, Q, h, z, W))
    return state, _Steps(t, Phi, h, m, k, D, w, e)


__all__ = ["OnlineMarkov"]
