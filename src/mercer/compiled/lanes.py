"""Evidence of a Matern process and its derivatives, by LANES chunks of the chain that are run side by side.

A filter waits for the step before; chunks do not wait for each other. So every chunk is run as if the state x
before it were zero, and what it says of that is found on the way: x at its end moves by G x, and its data see
x with precision J and say eta of it (de Jong, The diffuse Kalman filter, 1991). That is as much as a few
observations of x, and so the chunks are the steps of a short chain (`link`), whose filter and adjoints tell
what each of them truly begins with, and what those after it say. Nothing is approximated. Most chains forget
where they began: then G vanishes soon, and the rest of a chunk is the plain filter.

For derivatives states are kept at the beginnings of blocks alone; a block is filtered again before it is gone
through backwards.
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import numpy as np

from mercer.compiled import compiled
from mercer.compiled.kalman import Sums
from mercer.compiled.lanes_loops import (
    CARRIED,
    GIVEN,
    LANES,
    MADE,
    STARTS,
    lay,
    lift,
    link,
    link_back,
    sweeps,
)
from mercer.compiled.matern import MaternBar, process

SCRATCH = 2**20  # bytes of a block
TOGETHER = 4  # factors of which one logarithm is taken
FORGOTTEN = 1e-40  # of what a chunk began with


class Layout(NamedTuple):
    """LANES chunks of so many blocks of `steps` each."""

    blocks: int
    steps: int

    @classmethod
    def of(cls, n: int, s: int) -> Layout:
        """For n steps of s states."""
        length = -(-n // LANES)
        count = -(-length * 8 * LANES * (GIVEN + MADE[s] + CARRIED[s] + 3) // SCRATCH)
        return cls(count, -(-length // (TOGETHER * count)) * TOGETHER)

    def goes_on(self, i: int, n: int) -> np.ndarray:
        """Which lanes have data after block i, of n in all."""
        return np.arange(LANES) * self.blocks * self.steps + (i + 1) * self.steps < n

    def lanes(self, *values: np.ndarray) -> np.ndarray:
        """Each (n,) as rows of (blocks, steps, rows, LANES), zeros at the end."""
        out = np.empty((self.blocks * self.steps, len(values), LANES))
        for row, value in enumerate(values):
            lay(value, out, row)
        return out.reshape(self.blocks, self.steps, len(values), LANES)

    def row(self, lanes: np.ndarray, row: int, n: int) -> np.ndarray:
        """And back: row (n,) of (blocks, steps, rows, LANES)."""
        out = np.empty(n)
        lift(lanes.reshape(self.blocks * self.steps, -1, LANES), row, out)
        return out


class Lanes:
    """A Matern process of one or two states, f the first of them, with its data.

    theta: (2,) rate and variance
    gaps: (n,), the first zero, in lanes
    W, z: (n,) precisions, none negative, and data
    """

    def __init__(self, s: int, theta: np.ndarray, gaps: np.ndarray, W: np.ndarray, z: np.ndarray):
        self.s, self.n, self.layout = s, len(z), Layout.of(len(z), s)
        self.rate, self.variance = map(float, theta)
        self.gaps, self.given = gaps, self.layout.lanes(W, z)
        self.made = np.empty((self.layout.steps, MADE[s], LANES))
        self.scratch = np.empty((2, self.layout.steps, LANES))

    def evidence(self) -> Sums:
        """As `kalman.evidence`."""
        s, rows = self.s, CARRIED[self.s]
        carry = np.zeros((rows + 2 + STARTS[s], LANES))
        carry[rows + 1] = np.inf
        G = carry[rows + 2 : rows + 2 + s * s].reshape(s, s, LANES)
        G[:] = np.eye(s)[:, :, None]
        D, logdet, run = np.empty((self.layout.steps, LANES)), 0.0, sweeps(s).start
        self.begins: list[
            np.ndarray
        ] = []  # of blocks that chunks reach when they have forgotten how they began
        for i in range(self.layout.blocks):
            if run is sweeps(s).forward:
                self.begins.append(carry[: rows + 2].copy())
            self._make(i)
            self._run(run, i, carry, D)
            logdet += _log_product(D)
            if np.abs(G[:, :, self.layout.goes_on(i, self.n)]).max(initial=0.0) < FORGOTTEN:
                run = sweeps(s).forward
        J, eta = _unpacked(carry[rows + 2 + s * s :], s)
        P, x = _unpacked(carry[:rows], s)
        self.G, self.means, self.after = G, np.empty((s, LANES)), np.empty((s, s, LANES))
        self.seen = np.empty((s, s + 3, LANES))
        more, less = link(x, P, G, J, eta, self.means, self.after, self.seen)
        return Sums(logdet + more, float(carry[rows].sum()) + less, float(np.min(carry[rows + 1])))

    def pull(self) -> tuple[MaternBar, np.ndarray, np.ndarray]:
        """As `kalman.pull_evidence`, after `evidence`."""
        s, (count, steps), rows = self.s, self.layout, CARRIED[self.s]
        carry, D, begins = np.zeros((rows + 2, LANES)), np.empty((steps, LANES)), []
        carry[:rows] = _packed(self.after, self.means)
        for i in range(count - len(self.begins)):
            begins.append(carry.copy())
            if i < count - 1 - len(self.begins):
                self._make(i)
                self._run(sweeps(s).forward, i, carry, D)
        begins += [begin.copy() for begin in self.begins]
        kept, out = np.empty((steps, rows, LANES)), np.empty((count, steps, 2, LANES))
        later, L = np.empty((s, LANES)), np.empty((s, s, LANES))
        link_back(self.G, self.after, self.seen, later, L)
        carry[:], carry[:rows] = 0.0, _packed(L, later)
        spread = self.variance * process(s).density
        for i in reversed(range(count)):
            self._make(i)
            self._run(sweeps(s).keep, i, begins[i], kept)
            arrays = (a.reshape(-1) for a in (self.gaps[i], self.given[i], self.made, kept, carry, out[i]))
            sweeps(s).back(*arrays, spread, *_counts(steps))
        by_rate, by_variance = carry[rows:].sum(1)
        bar = MaternBar(np.array([[by_rate, by_variance / self.variance]]), None)
        return bar, self.layout.row(out, 0, self.n), self.layout.row(out, 1, self.n)

    def _run(self, loop, i, carry, out):
        loop(*(a.reshape(-1) for a in (self.given[i], self.made, carry, out)), *_counts(self.layout.steps))

    def _make(self, i: int) -> None:
        """Phi and Q of block i."""
        x, decay = self.scratch
        steps, made = _counts(len(x))[0], self.made.reshape(-1)
        np.multiply(self.gaps[i, :, 0], -self.rate if self.s == 1 else self.rate, out=x)
        if self.s == 1:
            _make_one(np.expm1(x, out=x).reshape(-1), self.variance, made, steps)
        else:
            np.exp(np.negative(x, out=decay), out=decay)
            _make(self.s)(x.reshape(-1), decay.reshape(-1), self.variance, made, steps)
        if i == 0:
            start = _triangle(self.variance * process(self.s).stationary)
            self.made[0, -len(start) :, 0] = start


def _log_product(D: np.ndarray) -> float:
    with np.errstate(over="ignore", invalid="ignore"):  # where D is not positive, `least` tells
        total = float(np.log(np.multiply.reduce(D.reshape(TOGETHER, -1))).sum())
        return total if np.isfinite(total) else float(np.log(D).sum())


def _counts(steps: int) -> tuple[np.uint64, np.uint64]:
    return np.uint64(steps), np.uint64(LANES)


def _triangle(P: np.ndarray) -> np.ndarray:
    return P[np.tril_indices(len(P))]


def _packed(P: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Rows that a chunk carries along."""
    return np.concatenate([_triangle(P), x])


def _unpacked(rows: np.ndarray, s: int) -> tuple[np.ndarray, np.ndarray]:
    P, at = np.empty((s, s, LANES)), np.tril_indices(s)
    P[at] = P[at[::-1]] = rows[:-s]
    return P, rows[-s:].copy()


@compiled
def _make_one(lost, variance, made, steps):
    """Phi = 1 + lost and Q = variance (1 - Phi^2), lost = exp(-x) - 1."""
    size = np.uint64(LANES)
    for t in range(steps):
        o = t * size
        for c in range(size):
            made[o + o + c] = 1.0 + lost[o + c]
            made[o + o + size + c] = -variance * lost[o + c] * (2.0 + lost[o + c])


@functools.cache
def _make(s: int) -> Any:
    """Transitions of a process with s states: see `matern`."""
    of, top = process(s), 2 * s - 2
    transition, diffusion = of.transition, of.diffusion
    middle = 0.25 + top / 4
    ratios = [2.0 * middle / (top + 1 + k) for k in range(1, 60)]
    terms = int(np.argmax(np.cumprod(ratios) < 1e-17))
    series = np.cumprod([1.0 / (top + 1), *(2.0 / (top + 1 + k) for k in range(1, terms + 1))])

    place = [np.uint64(LANES * k) for k in range(2 * s * s + 2)]  # rows
    rows, count, size = np.array(place), np.uint64(LANES * MADE[s]), np.uint64(LANES)

    def make(x, decay, variance, made, steps):
        moments = np.empty((top + 1) * LANES)
        for t in range(steps):
            o, m = t * size, t * count
            for a in range(s):
                for b in range(s):
                    row = rows[a * s + b]
                    for c in range(size):
                        total = 0.0
                        for k in range(s - 1, -1, -1):
                            total = transition[k, a, b] + x[o + c] * total
                        made[m + row + c] = decay[o + c] * total
            for c in range(size):
                u, gone = x[o + c], decay[o + c] ** 2
                near, far, scaled = min(u, middle), max(u, middle), series[terms]
                for k in range(terms - 1, -1, -1):
                    scaled = series[k] + near * scaled
                moments[rows[top] + c] = scaled  # m_k over x^(k+1) exp(-2 x)
                for k in range(top - 1, -1, -1):
                    scaled = (1.0 + 2.0 * near * scaled) * (1.0 / (k + 1))
                    moments[rows[k] + c] = scaled
                low, high, upwards = near * gone, gone, 0.5 - 0.5 * gone
                for k in range(top + 1):
                    moments[rows[k] + c] = low * moments[rows[k] + c] if u < middle else upwards
                    low, high = low * near, high * far
                    upwards = 0.5 * ((k + 1) * upwards - high)
            next_row = s * s
            for a in range(s):
                for b in range(a + 1):
                    row = rows[next_row]
                    for c in range(size):
                        total = 0.0
                        for k in range(top + 1):
                            total += diffusion[k, a, b] * moments[rows[k] + c]
                        made[m + row + c] = variance * total
                    next_row += 1

    return compiled(make)
