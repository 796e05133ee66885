"""The sweeps of `mercer.linalg.kalman`, in its notation, as loops: covariance filter, innovations, adjoints.

Transitions come block by block (`AbstractSteps`), all at once or made when they are needed; what a sweep
knows is handed on from one block to the next. Steps that repeat are stored once: step i of a block is number
`step[i]` of its transitions. The number of states is a constant of what is compiled.
"""

from __future__ import annotations

import abc
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from mercer.compiled import kalman_few
from mercer.compiled.kalman_loops import sweeps


class Links(NamedTuple):
    """Transitions Phi (u, s, s) and covariances Q (u, s, s) of the different steps, the first the start;
    observations h (n, s); and which of the steps leads to each time (n,).
    """

    Phi: np.ndarray
    Q: np.ndarray
    h: np.ndarray
    step: np.ndarray


class LinksBar(NamedTuple):
    """Derivatives with respect to Phi, Q (u, s, s) and h (n, s)."""

    Phi: np.ndarray
    Q: np.ndarray
    h: np.ndarray


class AbstractSteps(abc.ABC):
    """A chain of n steps and s states, of parts of such `sizes` that do not know of each other. first: f is
    the first state at all times.
    """

    n: int
    s: int
    sizes: tuple[int, ...]
    first: bool = False

    @abc.abstractmethod
    def blocks(self, backwards: bool = False) -> Iterator[tuple[slice, Links]]:
        """The steps in order: which they are, and their links, until the next are asked for."""

    @abc.abstractmethod
    def nothing(self) -> Any:
        """Derivatives with respect to what the steps are made of, zero so far."""

    @abc.abstractmethod
    def room(self, total: Any, rows: slice) -> LinksBar:
        """Where derivatives with respect to the links of this block are added."""

    @abc.abstractmethod
    def add(self, total: Any, rows: slice, bar: LinksBar) -> None:
        """Add what they say to the total."""


class Given(AbstractSteps):
    """Steps whose links are at hand, in one block."""

    def __init__(self, links: Links):
        self.links, self.n, self.s = links, len(links.step), links.h.shape[1]
        self.sizes = (self.s,)

    def blocks(self, backwards: bool = False) -> Iterator[tuple[slice, Links]]:
        yield slice(0, self.n), self.links

    def nothing(self) -> LinksBar:
        return LinksBar(*(np.zeros(a.shape) for a in self.links[:3]))

    def room(self, total: LinksBar, rows: slice) -> LinksBar:
        return total

    def add(self, total: LinksBar, rows: slice, bar: LinksBar) -> None:
        pass


class Sums(NamedTuple):
    """The sums of log D and of w e^2, and the least D."""

    logdet: float
    squares: float
    least: float


class Filtered(NamedTuple):
    """k = P h (n, s), D (n,), w = W / D (n,), innovations e (n,), and the means (n + 1, s) and covariances
    (n + 1, s, s) of the states after each datum, the first of them before any.
    """

    k: np.ndarray
    D: np.ndarray
    w: np.ndarray
    e: np.ndarray
    means: np.ndarray
    after: np.ndarray


def evidence(steps: AbstractSteps, W: np.ndarray, z: np.ndarray) -> Sums:
    """Of the covariance filter for precisions W (n,) and the innovations of z (n,)."""
    s = steps.s
    return _filter(steps, W, z, *(np.empty(shape) for shape in ((0, s), 0, 0, (0, s), (0, s, s))))


def filtered(steps: AbstractSteps, W: np.ndarray, z: np.ndarray) -> tuple[Filtered, Sums]:
    """What the same filter finds at every step, and its sums."""
    n, s = steps.n, steps.s
    k, D, e = np.empty((n, s)), np.empty(n), np.empty(n)
    means, after = np.empty((n + 1, s)), np.empty((n + 1, s, s))
    means[0], after[0] = 0.0, 0.0
    sums = _filter(steps, W, z, k, D, e, means[1:], after[1:])
    return Filtered(k, D, W / D, e, means, after), sums


def go_on(
    links: Links, W: np.ndarray, z: np.ndarray, mean: np.ndarray, covariance: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """k (n, s), D (n,) and e (n,) of the filter from the state N(mean, covariance), which is overwritten by
    that after the last datum.
    """
    n, s = links.h.shape
    k, D, e, *rest = (np.empty(shape) for shape in ((n, s), n, n, (n, s), (n, s, s)))
    sweeps((s,)).forward(*links, W, z, k, D, e, *rest, mean, covariance)
    return k, D, e


def _filter(steps, W, z, *out):
    run, carry = _learning(steps, sweeps(steps.sizes).forward, kalman_few.one, kalman_few.two)
    return _summed(
        run(*links, W[rows], z[rows], *(a[rows] for a in out), *carry) for rows, links in steps.blocks()
    )


def _learning(steps, many, one, two):
    """The loop for as many states, and what it carries along, nothing so far."""
    s = steps.s
    if steps.first and s <= 2:
        return (one, two)[s - 1], [np.zeros(5)]
    return many, [np.zeros(s), np.zeros((s, s))]


def _summed(parts):
    logdets, squares, least = zip(*parts, strict=True)
    return Sums(sum(logdets), sum(squares), float(np.min(least)))


def innovations(steps: AbstractSteps, f: Filtered, V: np.ndarray) -> np.ndarray:
    """L^-1 V for V (n, q)."""
    E, x = np.empty(V.shape), np.zeros((steps.s, V.shape[1]))
    for rows, links in steps.blocks():
        sweeps(steps.sizes).innovations(*links, f.k[rows], f.w[rows], V[rows], E[rows], x)
    return E


def dual(steps: AbstractSteps, f: Filtered, E: np.ndarray) -> np.ndarray:
    """R V for the innovations E of V (n, q)."""
    R, later = np.empty(E.shape), np.zeros((steps.s, E.shape[1]))
    for rows, links in steps.blocks(backwards=True):
        sweeps(steps.sizes).dual(*links, f.k[rows], f.w[rows], E[rows], R[rows], later)
    return R


def times(steps: AbstractSteps, V: np.ndarray) -> np.ndarray:
    """K V for V (n, q)."""
    r, out, x = _adjoint(steps, V), np.empty(V.shape), np.zeros((steps.s, V.shape[1]))
    for rows, links in steps.blocks():
        sweeps(steps.sizes).states(*links, r[rows], out[rows], x)
    return out


def _adjoint(steps, V):
    """The adjoint states (n, s, q) of V (n, q)."""
    r, later = np.empty((steps.n, steps.s, V.shape[1])), np.zeros((steps.s, V.shape[1]))
    for rows, links in steps.blocks(backwards=True):
        sweeps(steps.sizes).adjoint(*links, V[rows], r[rows], later)
    return r


def drive(links: Links, U: np.ndarray) -> np.ndarray:
    """h . x (n, q) of the states x_i = Phi_i x_{i-1} + U_i for U (n, s, q)."""
    out = np.empty((U.shape[0], U.shape[2]))
    sweeps((links.h.shape[1],)).drive(*links, U, out)
    return out


def pull_evidence(steps: AbstractSteps, W: np.ndarray, f: Filtered) -> tuple[Any, np.ndarray, np.ndarray]:
    """Derivatives of -1/2 log|I + K W| - 1/2 z' R z, for the data z that were filtered, with respect to what
    the steps are made of; R z (n,) and the posterior variances of f (n,), all in one sweep.
    """
    total, alpha, variances = steps.nothing(), np.empty(steps.n), np.empty(steps.n)
    run, carry = _learning(steps, sweeps(steps.sizes).back, kalman_few.one_back, kalman_few.two_back)
    for rows, links in steps.blocks(backwards=True):
        bar, more = steps.room(total, rows), slice(rows.start, rows.stop + 1)
        parts = W[rows], f.k[rows], f.D[rows], f.e[rows], f.means[more], f.after[more]
        run(*links, *parts, *bar, alpha[rows], variances[rows], *carry)
        steps.add(total, rows, bar)
    return total, alpha, variances


def pull_logdet(steps: AbstractSteps, W: np.ndarray, f: Filtered) -> tuple[Any, np.ndarray]:
    """Derivatives of log|I + K W| with respect to what the steps are made of and to W; the latter are the
    posterior variances of f (n,).
    """
    total, variances, L = steps.nothing(), np.empty(steps.n), np.zeros((steps.s, steps.s))
    for rows, links in steps.blocks(backwards=True):
        bar = steps.room(total, rows)
        parts = W[rows], f.k[rows], f.D[rows], f.after[rows.start : rows.stop + 1]
        sweeps(steps.sizes).information(*links, *parts, *bar, variances[rows], L)
        steps.add(total, rows, bar)
    return total, variances


def pull_products(steps: AbstractSteps, P: np.ndarray, Q: np.ndarray) -> Any:
    """Derivatives of sum_c P_c' K Q_c with respect to what the steps are made of, P and Q (n, q)."""
    ratio = P[0, 0] / Q[0, 0] if Q.size and Q[0, 0] else 1.0
    alike = np.array_equal(P, ratio * Q)  # as in the derivative of a quadratic form
    V, shift, factor = (Q, 0, 2.0 * ratio) if alike else (np.concatenate([P, Q], 1), Q.shape[1], 1.0)
    total, r, x = steps.nothing(), _adjoint(steps, V), np.zeros((steps.s, V.shape[1]))
    for rows, links in steps.blocks():
        bar = steps.room(total, rows)
        sweeps(steps.sizes).outer(*links, V[rows], r[rows], *bar, x, shift, factor)
        steps.add(total, rows, bar)
    return total
