"""Sweeps over the data of a Markov chain in time, by scans of XLA or by compiled loops: the same numbers.

Rows come and go in the order of the data.
"""

from __future__ import annotations

import abc
import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from mercer import compiled
from mercer.compiled import kalman as loops
from mercer.inputs import Array
from mercer.kernels.statespace import AbstractForm, chain, chain_by_steps
from mercer.linalg import kalman, tiles

COLUMN_BYTES = 128 * 2**20  # of right-hand sides at a time
LOOPS_FROM = 2000  # data; a scan over fewer ends before numba is imported
FEW = 0.5  # different steps for each datum, up to which they are looked up


class Line:
    """Times in order, padded at the end by silent repetitions of the last so that few lengths are ever
    compiled.
    """

    def __init__(self, t: np.ndarray):
        self.n, self.length = t.shape[0], _padded(t.shape[0])
        self.order: Any = slice(None) if (t[1:] >= t[:-1]).all() else np.argsort(t, kind="stable")
        self._ordered = t[self.order]
        self.t = jnp.asarray(_repeat_last(self._ordered, self.length))

    def onto(self, V: np.ndarray) -> np.ndarray:
        """Rows in the order of time, padded by zeros."""
        out = np.zeros((self.length, *V.shape[1:]))
        out[: self.n] = V[self.order]
        return out

    def back(self, V: Array) -> np.ndarray:
        """Rows in the order of the data."""
        V = np.asarray(V)
        out = np.empty((self.n, *V.shape[1:]))
        out[self.order] = V[: self.n]
        return out

    @functools.cached_property
    def every_step(self) -> tuple[Array, Array, np.ndarray]:
        """From when to when each step goes, and the number (n,) of the step to each time."""
        before = np.concatenate([self._ordered[:1], self._ordered[:-1]])
        return jnp.asarray(_repeat_last(before, self.length)), self.t, np.arange(self.n)

    @functools.cached_property
    def different_steps(self) -> tuple[Array, Array, np.ndarray]:
        """The same where only their lengths matter: each length once, as far as times of floating point can
        tell lengths apart.
        """
        gaps = np.diff(self._ordered)
        grain = 4.0 * np.finfo(float).eps * max(float(np.abs(self._ordered).max()), 1e-300)
        _, first, number = np.unique(np.round(gaps / grain), return_index=True, return_inverse=True)
        if first.size > FEW * self.n:
            return self.every_step
        lengths = np.concatenate([[0.0], gaps[first]])
        padded = _repeat_last(lengths, _padded(lengths.size))
        return jnp.zeros(padded.size), jnp.asarray(padded), np.concatenate([[0], number + 1])


def _padded(n: int) -> int:
    """n rounded up to four sizes for each doubling,
    sixteen where a row takes longer than it would to compile for it.
    """
    step = max(16, 1 << max((n - 1).bit_length() - (3 if n < 8192 else 5), 0))
    return -(-n // step) * step


def _repeat_last(values: np.ndarray, length: int) -> np.ndarray:
    return np.concatenate([values, np.full(length - values.size, values[-1])])


class AbstractSweeps(abc.ABC):
    """A chain in time whose values have precisions W (n,): the filter has run."""

    logdet: float  # log|I + K W|
    least: float  # of D: not positive where the posterior is not proper
    line: Line

    @abc.abstractmethod
    def solve(self, z: np.ndarray) -> tuple[float, Callable[[], np.ndarray]]:
        """z' R z for z (n,), and how to get R z (n,)."""

    @abc.abstractmethod
    def resolve(self, V: np.ndarray) -> np.ndarray:
        """R V for V (n, q)."""

    @abc.abstractmethod
    def times(self, V: np.ndarray) -> np.ndarray:
        """K V for V (n, q)."""

    @abc.abstractmethod
    def simulate(self, rng: np.random.Generator, size: int) -> np.ndarray:
        """Draws from the prior (n, size)."""

    @abc.abstractmethod
    def variances(self) -> np.ndarray:
        """Posterior variances of f (n,), which rounding may make negative."""

    @abc.abstractmethod
    def turn(self, direction: np.ndarray) -> np.ndarray:
        """The derivative (n,) of the variances' sum, weighted by `direction` (n,), with respect to W."""

    @abc.abstractmethod
    def pull(
        self, P: np.ndarray, Q: np.ndarray, coefficient: float, direction: np.ndarray | None
    ) -> AbstractForm:
        """The derivative with respect to the form of sum_c P_c' K Q_c + coefficient log|I + K W| +
        direction . variances.
        """

    @abc.abstractmethod
    def whole(self) -> tuple[kalman.Chain, kalman.Filtered]:
        """The chain and its filter with a row for each time, padded."""


def sweeps(form: AbstractForm, line: Line, precision: np.ndarray, z: np.ndarray | None) -> AbstractSweeps:
    """The filter run for precisions (n,) and, where they are given, data z (n,), which `solve` is asked for
    first.
    """
    if line.n >= LOOPS_FROM and compiled.ready():
        return Loops(form, line, precision, z)
    return Scans(form, line, precision, z)


# --------------------------------------------------------------------------------------------------- by XLA


def _filtered(form, t, W):
    links = chain(form, t)
    filtered = kalman.covariance_filter(links, W)
    return links, filtered, jnp.min(filtered.D), jnp.sum(jnp.log(filtered.D))


def _evidence(form, t, W, z):
    links, filtered, least, logdet = _filtered(form, t, W)
    e = kalman.innovations(links, filtered, z)
    return links, filtered, least, logdet, e, jnp.sum(filtered.w * e[:, 0] ** 2)


_resolve, _times = jax.jit(kalman.resolve), jax.jit(kalman.times)
_innovations, _dual = jax.jit(kalman.innovations), jax.jit(kalman.dual)
_squares = jax.jit(lambda w, e: jnp.sum(w * e[:, 0] ** 2))
_logdet = jax.jit(kalman.pull_logdet)
_products = jax.jit(kalman.pull_products)
_variances = jax.jit(kalman.pull_variances)
_simulate = jax.jit(lambda links, U: kalman.observe(links, kalman.drive(links.Phi, U)))


def _pull_chain(form, t, bar):
    return jax.vjp(lambda form: chain(form, t), form)[1](bar)[0]


class Scans(AbstractSweeps):
    """By scans."""

    def __init__(self, form: AbstractForm, line: Line, precision: np.ndarray, z: np.ndarray | None):
        self.form, self.line = form, line
        self.W = jnp.asarray(line.onto(precision))
        self._solved = None
        if z is None:
            found = tiles.call(_filtered, form, line.t, self.W)
        else:  # one pass tells the evidence
            found = tiles.call(_evidence, form, line.t, self.W, line.onto(z[:, None]))
            self._solved = z, found[4], found[5]
        self.links, self.filtered, least, logdet = found[:4]
        self.least, self.logdet = float(least), float(logdet)

    def solve(self, z: np.ndarray) -> tuple[float, Callable[[], np.ndarray]]:
        if self._solved is not None and self._solved[0] is z:
            _, e, squares = self._solved
        else:
            e = _innovations(self.links, self.filtered, self.line.onto(z[:, None]))
            squares = _squares(self.filtered.w, e)
        return float(squares), lambda: self.line.back(_dual(self.links, self.filtered, e))[:, 0]

    def resolve(self, V: np.ndarray) -> np.ndarray:
        return self._columns(lambda V: _resolve(self.links, self.filtered, V), V)

    def times(self, V: np.ndarray) -> np.ndarray:
        return self._columns(lambda V: _times(self.links, V), V)

    def _columns(self, function: Callable[[np.ndarray], jax.Array], V: np.ndarray) -> np.ndarray:
        """function of V (n, q), by blocks of columns of few widths."""
        most = int(np.clip(COLUMN_BYTES // (8 * self.line.length), 1, 128))
        out = np.empty(V.shape)
        for first in range(0, V.shape[1], most):
            block = V[:, first : first + most]
            width = min(most, 1 << (block.shape[1] - 1).bit_length())
            padded = np.zeros((V.shape[0], width))
            padded[:, : block.shape[1]] = block
            found = self.line.back(function(self.line.onto(padded)))
            out[:, first : first + most] = found[:, : block.shape[1]]
        return out

    def simulate(self, rng: np.random.Generator, size: int) -> np.ndarray:
        def observed(U):
            return self.line.back(_simulate(self.links, U))

        return _simulated(np.asarray(self.links.Q), None, observed, rng, size)

    @functools.cached_property
    def _logdet_bar(self) -> kalman.LogDeterminant:
        return _logdet(self.links, self.W)

    def variances(self) -> np.ndarray:
        return self.line.back(self._logdet_bar.variances)

    def turn(self, direction: np.ndarray) -> np.ndarray:
        return self.line.back(_variances(self.links, self.W, self.line.onto(direction)).variances)

    def pull(
        self, P: np.ndarray, Q: np.ndarray, coefficient: float, direction: np.ndarray | None
    ) -> AbstractForm:
        total = _products(self.links, self.line.onto(P), self.line.onto(Q))
        if coefficient:
            total = jax.tree.map(lambda a, b: a + coefficient * b, total, self._logdet_bar.chain)
        if direction is not None:
            turned = _variances(self.links, self.W, self.line.onto(direction)).chain
            total = jax.tree.map(jnp.add, total, turned)
        return tiles.call(_pull_chain, self.form, self.line.t, total)

    def whole(self) -> tuple[kalman.Chain, kalman.Filtered]:
        return self.links, self.filtered


def _simulated(Q, step, observed, rng, size: int) -> np.ndarray:
    """Draws of the steps (n, s, size), some at a time, observed. step: which Q is that of each, or all."""
    eigenvalues, U = np.linalg.eigh(Q)
    root = U * np.sqrt(np.maximum(eigenvalues, 0.0))[:, None, :]
    n, s = len(Q) if step is None else len(step), Q.shape[1]
    most = int(np.clip(COLUMN_BYTES // (8 * n * s), 1, 128))
    parts = []
    for first in range(0, size, most):
        u = rng.standard_normal((n, s, min(most, size - first)))
        parts.append(observed((root if step is None else root[step]) @ u))
    return np.concatenate(parts, 1)


# ---------------------------------------------------------------------------------------------------- loops


def _pull_steps(form, t, t0, t1, bar):
    return jax.vjp(lambda form: chain_by_steps(form, t, t0, t1), form)[1](bar)[0]


class Loops(AbstractSweeps):
    """By compiled loops; steps of one length are made once where the form allows it."""

    def __init__(self, form: AbstractForm, line: Line, precision: np.ndarray, z: np.ndarray | None):
        self.form, self.line = form, line
        self.steps = line.different_steps if form.timeless else line.every_step
        Phi, Q, h = map(np.asarray, tiles.call(chain_by_steps, form, line.t, *self.steps[:2]))
        self.links = loops.Links(Phi, Q, h, self.steps[2])
        self.W = self._onto(precision)
        self._solved = z
        data = np.zeros(line.n) if z is None else self._onto(z)
        self.filtered = loops.filtered(self.links, self.W, data)
        self.logdet, self.least = self.filtered.logdet, self.filtered.least

    def solve(self, z: np.ndarray) -> tuple[float, Callable[[], np.ndarray]]:
        f = self.filtered
        if self._solved is z:
            e, squares = f.e, f.squares
        else:
            e = loops.innovations(self.links, f.k, f.w, self._onto(z)[:, None])[:, 0]
            squares = float(f.w @ e**2)
        return squares, lambda: self.line.back(loops.dual(self.links, f.k, f.w, e[:, None]))[:, 0]

    def _onto(self, V: np.ndarray) -> np.ndarray:
        """Rows in the order of time, in memory of their own."""
        return np.array(V[self.line.order], order="C")

    def resolve(self, V: np.ndarray) -> np.ndarray:
        f = self.filtered
        E = loops.innovations(self.links, f.k, f.w, self._onto(V))
        return self.line.back(loops.dual(self.links, f.k, f.w, E))

    def times(self, V: np.ndarray) -> np.ndarray:
        out = np.empty(V.shape)
        most = int(np.clip(COLUMN_BYTES // (16 * self.links.h.size), 1, 128))
        for first in range(0, V.shape[1], most):
            block = self._onto(V[:, first : first + most])
            out[:, first : first + most] = self.line.back(loops.times(self.links, block))
        return out

    def simulate(self, rng: np.random.Generator, size: int) -> np.ndarray:
        def observed(U):
            return self.line.back(loops.observe(self.links, loops.drive(self.links, U)))

        return _simulated(self.links.Q, self.links.step, observed, rng, size)

    @functools.cached_property
    def _logdet_bar(self) -> tuple[loops.LinksBar, np.ndarray]:
        return loops.pull_logdet(self.links, self.W)

    def variances(self) -> np.ndarray:
        return self.line.back(self._logdet_bar[1])

    def turn(self, direction: np.ndarray) -> np.ndarray:
        return self.line.back(self._turned(direction).variances)

    def _turned(self, direction: np.ndarray) -> kalman.LogDeterminant:
        """By the scan, which differentiates itself."""
        W, along = (self.line.onto(v) for v in (self.line.back(self.W), direction))
        return _variances(self.whole()[0], W, along)

    def pull(
        self, P: np.ndarray, Q: np.ndarray, coefficient: float, direction: np.ndarray | None
    ) -> AbstractForm:
        ordered = (self._onto(V) for V in (P, Q))
        total = loops.pull_products(self.links, *ordered)
        if coefficient:
            for one, more in zip(total, self._logdet_bar[0], strict=True):
                one += coefficient * more
        if direction is not None:
            n, turned = self.line.n, self._turned(direction).chain
            np.add.at(total.Phi, self.links.step, np.asarray(turned.Phi)[:n])
            np.add.at(total.Q, self.links.step, np.asarray(turned.Q)[:n])
            total.h[:n] += np.asarray(turned.h)[:n]
        return tiles.call(
            _pull_steps, self.form, self.line.t, *self.steps[:2], kalman.Chain(*map(jnp.asarray, total))
        )

    def whole(self) -> tuple[kalman.Chain, kalman.Filtered]:
        links, step = self.links, self.links.step
        last = np.concatenate([step, np.full(self.line.length - self.line.n, step[-1])])
        Phi, Q, h = (jnp.asarray(a) for a in (links.Phi[last], links.Q[last], links.h))
        k, D, w = (self._padded(a, fill) for a, fill in zip(self.filtered[:3], (0.0, 1.0, 0.0), strict=True))
        return kalman.Chain(Phi, Q, h), kalman.Filtered(k, D, w, None)

    def _padded(self, values: np.ndarray, fill: float) -> jax.Array:
        out = np.full((self.line.length, *values.shape[1:]), fill)
        out[: self.line.n] = values
        return jnp.asarray(out)
