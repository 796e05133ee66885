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
from mercer.compiled.lanes import Lanes, Layout
from mercer.compiled.matern import MaternBar, MaternSteps
from mercer.inputs import Array
from mercer.kernels.statespace import AbstractForm, chain, chain_by_steps
from mercer.linalg import kalman, tiles
from mercer.programs import program

COLUMN_BYTES = 128 * 2**20  # of right-hand sides at a time
LOOPS_FROM = 2000  # data; a scan over fewer ends before numba is imported
LANES_FROM, LANES_STATES = 4000, 2  # data, and states, from and up to which chunks are run side by side
FEW = 0.5  # different steps for each datum, up to which they are looked up


class Line:
    """Times in order, padded at the end by silent repetitions of the last so that few lengths are ever
    compiled.

    climbed: whether derivatives were asked for, as a climb does every time; filters then keep what they need
    """

    climbed = False

    def __init__(self, t: np.ndarray):
        self.n, self.length = t.shape[0], _padded(t.shape[0])
        self.order: Any = slice(None) if (t[1:] >= t[:-1]).all() else np.argsort(t, kind="stable")
        self._ordered = t[self.order]
        self._in_lanes: dict[int, np.ndarray] = {}
        self.t = jax.device_put(_repeat_last(self._ordered, self.length))

    @functools.cached_property
    def every_gap(self) -> np.ndarray:
        """The lengths (n,) of all steps, the first zero."""
        return np.diff(self._ordered, prepend=self._ordered[0])

    def gaps_in_lanes(self, s: int) -> np.ndarray:
        """The same for chunks side by side, of s states."""
        if s not in self._in_lanes:
            self._in_lanes[s] = Layout.of(self.n, s).lanes(self.every_gap)
        return self._in_lanes[s]

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

    @functools.cached_property
    def gaps(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The lengths (n,) of all steps, the first zero, each length once (u,), and which of them is that of
        each (n,).
        """
        t0, t1, step = self.different_steps
        lengths = np.asarray(t1)[: step.max() + 1] - np.asarray(t0)[: step.max() + 1]
        return self.every_gap, lengths, step


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
    def pull_evidence(self, z: np.ndarray) -> tuple[AbstractForm, np.ndarray]:
        """The derivative of -1/2 log|I + K W| - 1/2 z' R z with respect to the form, and the variances, as
        `variances`.
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
    """The filter, and all that a climb of the evidence asks of it: derivatives for the form's leaves, too."""
    links, pull = jax.vjp(lambda form: chain(form, t), form)
    filtered, found, bar = kalman.evidence(links, W, z)
    return links, filtered, jnp.min(filtered.D), found, jax.tree.leaves(pull(bar)[0])


def _solve(links, filtered, z):
    """z' R z and R z for z (n,)."""
    e = kalman.innovations(links, filtered, z[:, None])
    return jnp.sum(filtered.w * e[:, 0] ** 2), kalman.dual(links, filtered, e)[:, 0]


def _observed(links, U):
    return kalman.observe(links, kalman.drive(links.Phi, U))


def _pull_chain(form, t, P, Q, coefficient, bar):
    """The cotangents of a form's leaves in sum_c P_c' K Q_c + coefficient times what has the cotangent `bar`
    with respect to its chain.
    """
    links, pull = jax.vjp(lambda form: chain(form, t), form)
    products = kalman.pull_products(links, P, Q)
    total = jax.tree.map(lambda a, b: a + coefficient * b, products, bar)
    return jax.tree.leaves(pull(total)[0])


_resolve, _times, _solved = program(kalman.resolve), program(kalman.times), program(_solve)
_logdet, _variances = program(kalman.pull_logdet), program(kalman.pull_variances)
_simulate = program(_observed)


class Scans(AbstractSweeps):
    """By scans."""

    def __init__(self, form: AbstractForm, line: Line, precision: np.ndarray, z: np.ndarray | None):
        self.form, self.line = form, line
        self.W = line.onto(precision)
        self._data, self._evidence = z, None
        if z is None:
            found = tiles.call(_filtered, form, line.t, self.W)
            self.links, self.filtered, least, logdet = found
        else:
            found = tiles.call(_evidence, form, line.t, self.W, line.onto(z))
            self.links, self.filtered, least, self._evidence, self._form_bar = found
            logdet = self._evidence.logdet
        self.least, self.logdet = float(least), float(logdet)

    def solve(self, z: np.ndarray) -> tuple[float, Callable[[], np.ndarray]]:
        if self._evidence is not None and self._data is z:
            squares, R_z = self._evidence.squares, self._evidence.dual
        else:
            squares, R_z = _solved(self.links, self.filtered, self.line.onto(z))
        return float(squares), functools.partial(self.line.back, R_z)  # which pickles

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
        known = self._logdet_bar if self._evidence is None else self._evidence
        return self.line.back(known.variances)

    def turn(self, direction: np.ndarray) -> np.ndarray:
        return self.line.back(_variances(self.links, self.W, self.line.onto(direction)).variances)

    def pull(
        self, P: np.ndarray, Q: np.ndarray, coefficient: float, direction: np.ndarray | None
    ) -> AbstractForm:
        bar = self._logdet_bar.chain if coefficient else jax.tree.map(np.zeros_like, self.links)
        if direction is not None:
            turned = _variances(self.links, self.W, self.line.onto(direction)).chain
            bar = jax.tree.map(lambda a, b: coefficient * np.asarray(a) + np.asarray(b), bar, turned)
            coefficient = 1.0
        leaves = tiles.call(
            _pull_chain,
            self.form,
            self.line.t,
            self.line.onto(P),
            self.line.onto(Q),
            np.float64(coefficient),
            bar,
        )
        return jax.tree.unflatten(jax.tree.structure(self.form), leaves)

    def pull_evidence(self, z: np.ndarray) -> tuple[AbstractForm, np.ndarray]:
        if self._evidence is None or self._data is not z:
            return Scans(self.form, self.line, self.line.back(self.W), z).pull_evidence(z)
        return jax.tree.unflatten(jax.tree.structure(self.form), self._form_bar), self.variances()

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


def _made_of(form, t):
    return MaternBar(form.theta(), None if form.f_is_first else form.observation(t))


def _pull_made_of(form, t, bar):
    return jax.vjp(lambda form: _made_of(form, t), form)[1](bar)[0]


def _pull_steps(form, t, t0, t1, bar):
    return jax.vjp(lambda form: chain_by_steps(form, t, t0, t1), form)[1](bar)[0]


class Loops(AbstractSweeps):
    """By compiled loops; steps of one length are made once where the form allows it. A filter that is asked
    for nothing but the evidence keeps nothing; that of a simple process runs in chunks side by side.
    """

    def __init__(self, form: AbstractForm, line: Line, precision: np.ndarray, z: np.ndarray | None):
        self.form, self.line = form, line
        self.W, self._z = self._onto(precision), z
        self._data = np.zeros(line.n) if z is None else self._onto(z)
        self._dual_of_data: np.ndarray | None = None  # once it was found on the way
        self._made_of: MaternBar | None = None
        if form.blocks is not None:
            self._made_of = jax.tree.map(np.asarray, tiles.call(_made_of, form, line.t))
        self.lanes: Lanes | None = None
        simple = form.f_is_first and form.size <= LANES_STATES and line.n >= LANES_FROM
        if self._made_of is not None and simple and self.W.min() >= 0:
            gaps = line.gaps_in_lanes(form.size)
            self.lanes = Lanes(form.size, self._made_of.theta, gaps, self.W, self._data)
            found = self.lanes.evidence()
        elif line.climbed:
            self.filtered, found = loops.filtered(self.steps, self.W, self._data)
        else:
            found = loops.evidence(self.steps, self.W, self._data)
        self.logdet, self._squares, self.least = found

    @functools.cached_property
    def steps(self) -> loops.AbstractSteps:
        if self._made_of is None:
            return loops.Given(self.links)
        assert self.form.blocks is not None
        return MaternSteps(self.form.blocks, *self._made_of, *self.line.gaps)

    @functools.cached_property
    def links(self) -> loops.Links:
        """As XLA makes them, all at once."""
        t0, t1, step = self._between
        Phi, Q, h = map(np.asarray, tiles.call(chain_by_steps, self.form, self.line.t, t0, t1))
        return loops.Links(Phi, Q, h, step)

    @property
    def _between(self) -> tuple[Array, Array, np.ndarray]:
        return self.line.different_steps if self.form.timeless else self.line.every_step

    @functools.cached_property
    def filtered(self) -> loops.Filtered:
        return loops.filtered(self.steps, self.W, self._data)[0]

    def solve(self, z: np.ndarray) -> tuple[float, Callable[[], np.ndarray]]:
        if self._z is z:
            return self._squares, self._alpha  # methods pickle
        E = loops.innovations(self.steps, self.filtered, self._onto(z)[:, None])
        return float(self.filtered.w @ E[:, 0] ** 2), functools.partial(self._alpha, E)

    def _alpha(self, E: np.ndarray | None = None) -> np.ndarray:
        """From innovations, (n, 1), those of the data unless others are given."""
        if E is None and self._dual_of_data is not None:
            return self.line.back(self._dual_of_data)
        return self._dual(self.filtered.e[:, None] if E is None else E)[:, 0]

    def _dual(self, E: np.ndarray) -> np.ndarray:
        return self.line.back(loops.dual(self.steps, self.filtered, E))

    def _onto(self, V: np.ndarray) -> np.ndarray:
        """Rows in the order of time, in memory of their own."""
        return np.array(V[self.line.order], order="C")

    def resolve(self, V: np.ndarray) -> np.ndarray:
        return self._dual(loops.innovations(self.steps, self.filtered, self._onto(V)))

    def times(self, V: np.ndarray) -> np.ndarray:
        out = np.empty(V.shape)
        most = int(np.clip(COLUMN_BYTES // (8 * self.steps.n * self.steps.s), 1, 128))
        for first in range(0, V.shape[1], most):
            block = self._onto(V[:, first : first + most])
            out[:, first : first + most] = self.line.back(loops.times(self.steps, block))
        return out

    def simulate(self, rng: np.random.Generator, size: int) -> np.ndarray:
        def observed(U):
            return self.line.back(loops.drive(self.links, U))

        return _simulated(self.links.Q, self.links.step, observed, rng, size)

    @functools.cached_property
    def _logdet_bar(self) -> tuple[Any, np.ndarray]:
        return loops.pull_logdet(self.steps, self.W, self.filtered)

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
        bar = loops.pull_products(self.steps, self._onto(P), self._onto(Q))
        if coefficient:
            bar = jax.tree.map(lambda a, b: a + coefficient * b, bar, self._logdet_bar[0])
        total = self._pulled(bar)
        if direction is not None:
            turned = tiles.pull(chain, self.form, self.line.t, self._turned(direction).chain)
            total = jax.tree.map(jnp.add, total, turned)
        return total

    def pull_evidence(self, z: np.ndarray) -> tuple[AbstractForm, np.ndarray]:
        self.line.climbed = True
        if self._z is z and self.lanes is not None:
            bar, alpha, variances = self.lanes.pull()
        else:
            f = self.filtered if self._z is z else loops.filtered(self.steps, self.W, self._onto(z))[0]
            bar, alpha, variances = loops.pull_evidence(self.steps, self.W, f)
        if self._z is z:
            self._dual_of_data = alpha
        return self._pulled(bar), self.line.back(variances)

    def _pulled(self, bar: Any) -> AbstractForm:
        """Derivatives with respect to the form, from those with respect to what its steps are made of."""
        if self.form.blocks is None:
            chained = kalman.Chain(*map(jnp.asarray, bar))
            return tiles.call(_pull_steps, self.form, self.line.t, *self._between[:2], chained)
        theta, h = bar
        return tiles.call(_pull_made_of, self.form, self.line.t, MaternBar(theta.reshape(-1), h))

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
