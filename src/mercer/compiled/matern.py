"""Transitions of Matern processes of half-integer order, made a block of steps at a time.

With x the rate times the gap, M = F + I nilpotent, and c(x) the last column of Phi(x) times the root of the
noise's spectral density (GPML B.30):

    Phi(x) = exp(-x) sum_k M^k x^k / k!,       dPhi/dx = F Phi,
    Q(x) = variance integral_0^x c c' du,      dQ/dx = variance c c'.

A block stays in the cache: making its steps again for every sweep is cheaper than keeping all of them.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import solve_continuous_lyapunov

from mercer.compiled import compiled
from mercer.compiled.kalman import AbstractSteps, Links, LinksBar

SCRATCH = 2**19  # bytes of the transitions of a block
ONCE = 256  # different gaps, up to which their transitions are kept instead
LEAST = 16  # steps of a block
LANES = 64  # steps whose moments are at hand at a time


class MaternProcess:
    """Constants of the Matern process with s states, rate and variance one.

    F: (s, s) dx = F x dt + noise; density: of the noise
    transition: (s, s, s) M^k / k!
    diffusion: (2 s - 1, s, s) the factors of u^m exp(-2 u) in c c'
    stationary: (s, s) covariance
    """

    def __init__(self, s: int):
        self.F = np.diag(np.ones(s - 1), 1)
        self.F[-1] = [-math.comb(s, j) for j in range(s)]
        powers = [np.linalg.matrix_power(self.F + np.eye(s), k) / math.factorial(k) for k in range(s)]
        noise = np.zeros((s, s))
        noise[-1, -1] = 1.0
        stationary = solve_continuous_lyapunov(self.F, -noise)
        self.density = 1.0 / float(stationary[0, 0])
        self.transition = np.array(powers)
        self.stationary = self.density * stationary
        self.diffusion = np.zeros((2 * s - 1, s, s))
        for i, j in np.ndindex(s, s):
            self.diffusion[i + j] += self.density * np.outer(powers[i][:, -1], powers[j][:, -1])


@functools.cache
def process(s: int) -> MaternProcess:
    """That of s states."""
    return MaternProcess(s)


class Block(NamedTuple):
    """`copies` of a Matern process with s states, side by side; of weights that stay as they are if s = 0."""

    s: int
    copies: int = 1

    @property
    def sizes(self) -> tuple[int, ...]:
        return (max(self.s, 1),) * self.copies

    @property
    def size(self) -> int:
        return sum(self.sizes)


def transitions(
    blocks: tuple[Block, ...], theta: np.ndarray, gaps: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Phi and Q (n, s, s) of all these blocks over gaps (n,), at once; theta: as in `MaternSteps`."""
    s = sum(block.size for block in blocks)
    Phi, Q = np.zeros((2, len(gaps), s, s))
    at, values = 0, iter(theta.reshape(-1, 2))
    for block in blocks:
        if block.s:
            rate, variance = next(values)
            x = rate * gaps
            _loops(block.s).make(x, np.exp(-x), variance, Phi, Q, at, block.copies)
        else:
            still = range(at, at + block.size)
            Phi[:, still, still] = 1.0
        at += block.size
    return Phi, Q


class MaternBar(NamedTuple):
    """Derivatives with respect to theta, and to the observations unless f is the first state."""

    theta: np.ndarray
    h: np.ndarray | None


class MaternSteps(AbstractSteps):
    """Steps of independent Matern processes and weights, to each of n times from the one before it.

    theta: (2 b,) rate sqrt(2 nu) / l and variance of each block that moves
    h: (n, s), or more rows; None where f is the first state
    gaps: (n,), the first of which does not matter
    lengths: (u,) each length of the gaps once, after one for the start; step: (n,) which of them each is
    """

    def __init__(
        self, blocks: tuple[Block, ...], theta: np.ndarray, h: np.ndarray | None, gaps: np.ndarray,
        lengths: np.ndarray, step: np.ndarray,
    ):  # fmt: skip
        self.sizes = tuple(size for block in blocks for size in block.sizes)
        self.n, self.s, self.first = len(gaps), sum(self.sizes), h is None
        self.size = min(self.n, max(SCRATCH // (16 * self.s**2), LEAST))
        self.once = len(lengths) <= ONCE
        self.gaps = lengths if self.once else gaps
        self.step = step if self.once else np.arange(self.size)
        self.theta, self.h = theta.reshape(-1, 2), h
        self._h = _first(self.size, self.s)
        begins = np.cumsum([0, *(block.size for block in blocks)])
        self.moving = [(block, int(at)) for block, at in zip(blocks, begins, strict=False) if block.s]
        self.start = np.eye(self.s)
        for (block, at), (_, variance) in zip(self.moving, self.theta, strict=True):
            whole = slice(at, at + block.size)
            self.start[whole, whole] = variance * np.kron(np.eye(block.copies), process(block.s).stationary)
        self.Phi, self.Q = np.empty((2, len(lengths) if self.once else self.size, self.s, self.s))
        if len(self.sizes) > 1:  # of independent parts
            self.Phi[:], self.Q[:] = np.eye(self.s), 0.0
        if self.once:
            self._make(lengths, True)

    def blocks(self, backwards: bool = False) -> Iterator[tuple[slice, Links]]:
        starts = range(0, self.n, self.size)
        for start in reversed(starts) if backwards else starts:
            rows = slice(start, min(start + self.size, self.n))
            if not self.once:
                self._make(self.gaps[rows], start == 0)
            step = self.step[rows] if self.once else self.step[: rows.stop - start]
            yield rows, Links(self.Phi, self.Q, self._h if self.h is None else self.h[rows], step)

    def _make(self, gaps: np.ndarray, begins: bool) -> None:
        self.Q[0] = 0.0
        for (block, at), (rate, variance) in zip(self.moving, self.theta, strict=True):
            x, decay = rate * gaps, -rate * gaps
            np.exp(decay, out=decay)
            _loops(block.s).make(x, decay, variance, self.Phi, self.Q, at, block.copies)
        if begins:
            self.Q[0] = self.start

    def nothing(self) -> MaternBar:
        return MaternBar(np.zeros(self.theta.shape), None if self.h is None else np.zeros(self.h.shape))

    def room(self, total: MaternBar, rows: slice) -> LinksBar:
        for part in self._room:
            part[:] = 0.0
        return self._room if total.h is None else self._room._replace(h=total.h[rows])

    @functools.cached_property
    def _room(self) -> LinksBar:
        return LinksBar(*(np.empty(a.shape) for a in (self.Phi, self.Q, self._h)))

    def add(self, total: MaternBar, rows: slice, bar: LinksBar) -> None:
        gaps = self.gaps if self.once else self.gaps[rows]
        begins = int(self.once or rows.start == 0)  # the start does not depend on the rate
        parts = [a[begins : len(gaps)] for a in (self.Phi, self.Q, bar.Phi, bar.Q)]
        for (block, at), (_, variance), out in zip(self.moving, self.theta, total.theta, strict=True):
            out += _loops(block.s).pull(gaps[begins:], variance, *parts, at, block.copies)
            whole = slice(at, at + block.size)
            out[1] += begins * float(np.sum(bar.Q[0, whole, whole] * self.start[whole, whole])) / variance


@functools.cache
def _first(n: int, s: int) -> np.ndarray:
    """Observations (n, s) of the first state."""
    return np.tile(np.eye(1, s), (n, 1))


class _Loops(NamedTuple):
    make: Any
    pull: Any


@functools.cache
def _loops(s: int) -> _Loops:
    """For s states; constants of the process are constants of what is compiled."""
    of, top = process(s), 2 * s - 2
    transition, diffusion, F, density = of.transition, of.diffusion, of.F, of.density
    middle, terms = 1.0 + top / 4, 20 + top
    series = np.cumprod([1.0 / (top + 1), *(2.0 / (top + 1 + k) for k in range(1, terms + 1))])

    def make(x, decay, variance, Phi, Q, at, copies):
        """By the moments m_k, the integrals of u^k exp(-2 u) over (0, x): where x is small, downwards from
        m_k = (2 m_k+1 + x^(k+1) exp(-2 x)) / (k + 1), and upwards where it is not: no digits are lost.
        """
        moments = np.empty((top + 1, LANES))
        for i in range(x.shape[0]):
            for a in range(s):
                for b in range(s):
                    total = 0.0
                    for k in range(s - 1, -1, -1):
                        total = transition[k, a, b] + x[i] * total
                    Phi[i, at + a, at + b] = decay[i] * total
        for first in range(0, x.shape[0], LANES):
            some = min(LANES, x.shape[0] - first)
            for c in range(some):
                u, gone = x[first + c], decay[first + c] ** 2
                near, far, scaled = min(u, middle), max(u, middle), series[terms]
                for k in range(terms - 1, -1, -1):
                    scaled = series[k] + near * scaled
                moments[top, c] = scaled  # m_k over x^(k+1) exp(-2 x)
                for k in range(top - 1, -1, -1):
                    scaled = (1.0 + 2.0 * near * scaled) * (1.0 / (k + 1))
                    moments[k, c] = scaled
                low, high, upwards = near * gone, gone, 0.5 - 0.5 * gone
                for k in range(top + 1):
                    moments[k, c] = low * moments[k, c] if u < middle else upwards
                    low, high = low * near, high * far
                    upwards = 0.5 * ((k + 1) * upwards - high)
            for c in range(some):
                for a in range(s):
                    for b in range(a + 1):
                        total = 0.0
                        for k in range(top - a - b, top + 1):  # lower powers of the gap do not occur
                            total += diffusion[k, a, b] * moments[k, c]
                        Q[first + c, at + a, at + b] = Q[first + c, at + b, at + a] = variance * total
        for to in range(at + s, at + s * copies, s):
            for i in range(x.shape[0]):
                for a in range(s):
                    for b in range(s):
                        Phi[i, to + a, to + b] = Phi[i, at + a, at + b]
                        Q[i, to + a, to + b] = Q[i, at + a, at + b]

    def pull(gaps, variance, Phi, Q, Phi_bar, Q_bar, at, copies):
        """Derivatives with respect to rate and variance."""
        by_rate, by_variance = 0.0, 0.0
        for i in range(gaps.shape[0]):
            x_bar = 0.0
            for here in range(at, at + s * copies, s):
                for b in range(s):
                    below = 0.0  # of the last row of F Phi, whose others are those of Phi further down
                    for a in range(s):
                        below += F[s - 1, a] * Phi[i, here + a, here + b]
                    x_bar += Phi_bar[i, here + s - 1, here + b] * below
                    for a in range(s - 1):
                        x_bar += Phi_bar[i, here + a, here + b] * Phi[i, here + a + 1, here + b]
                    spread = variance * density * Phi[i, here + b, here + s - 1]
                    for a in range(s):
                        x_bar += Q_bar[i, here + a, here + b] * spread * Phi[i, here + a, here + s - 1]
                        by_variance += Q_bar[i, here + a, here + b] * Q[i, here + a, here + b]
            by_rate += gaps[i] * x_bar
        return np.array([by_rate, by_variance / variance])

    return _Loops(compiled(make), compiled(pull))
