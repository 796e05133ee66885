"""EP on one site after the other, with a rank-one update of the covariance each (Algorithm 3.5).

The updates of a block of sites are gathered: a site needs its own column of the covariance, and the diagonal,
as they are now; the rest takes the updates of a block all at once, as a product of matrices, where its sites
are yet to come.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import numpy as np

from mercer import compiled
from mercer.compiled import ep as loops
from mercer.compiled.ep import SHORTEST, Probits
from mercer.inference import pointwise
from mercer.inference.ep.point import End, OneLatent, Point, largest_change
from mercer.solvers.protocol import Sites

BLOCK = 32  # sites between two updates of the whole covariance
LOOPS_FROM = 500  # sites; fewer are visited before numba is imported

# d and D of a datum by its number, and mean and variance of its cavity
Tilted = Callable[[int, float, float], tuple[float, float]]


@dataclasses.dataclass(frozen=True)
class Sequential:
    """One site after the other, each step at most `damping`; factored afresh after every sweep, so that
    rounding does not add up.
    """

    damping: float
    tol: float
    max_iterations: int

    def run(self, problem: OneLatent, sites: Sites, before: int = 0) -> End:
        """From these sites, after `before` sweeps of earlier runs."""
        point, change, sweep = problem.point(sites), np.inf, 0
        visits = _visits(problem, self.damping)
        for sweep in range(1, self.max_iterations + 1):  # noqa: B007
            joint = Joint.at(problem, point)
            old = joint.sites()
            joint.sweep(visits)
            change = joint.change_from(old)
            new = problem.step(joint.sites(), point.proper)
            if new is None:
                point = problem.point(old)
                break
            point = new
            if change <= self.tol:
                break
        last = max(change, point.change if change <= self.tol else 0.0)
        return dataclasses.replace(point, change=last).end(self.tol, before + sweep)


@dataclasses.dataclass(eq=False)
class Joint:
    """The posterior of f at the data while its sites change one by one in place: mean (n,), covariance A, of
    which a sweep keeps up to date only `diagonal` and the rows of sites that are yet to come, precisions W
    and slopes gamma of the sites at the current mean, each (n,).
    """

    mean: np.ndarray
    A: np.ndarray
    diagonal: np.ndarray
    W: np.ndarray
    gamma: np.ndarray

    @classmethod
    def at(cls, problem: OneLatent, point: Point) -> Joint:
        mean, A = point.state.predict(problem.X, full=True)
        assert A is not None
        A = np.ascontiguousarray(A)
        return cls(mean[:, 0].copy(), A, np.diag(A).copy(), point.W[:, 0].copy(), point.state.alpha + 0.0)

    def sites(self) -> Sites:
        """A copy of the sites as they are."""
        return Sites(*(x[:, None].copy() for x in (self.mean, self.W, self.gamma)))

    def change_from(self, old: Sites) -> float:
        """The largest change of a site since then, slopes compared at the old centres."""
        variance = np.maximum(np.abs(self.diagonal), 1e-300)
        slope = self.gamma + self.W * (self.mean - old.centre[:, 0])
        return largest_change(self.W - old.precision[:, 0], slope - old.slope[:, 0], variance)

    def sweep(self, visits: Visits) -> None:
        """Every site once, in order."""
        n = self.mean.size
        for begin in range(0, n, BLOCK):
            end = min(begin + BLOCK, n)
            U, shares = np.zeros((end - begin, n)), np.zeros(end - begin)
            visits(self, begin, U, shares)
            self.A[end:] -= (U[:, end:] * shares[:, None]).T @ U

    def visit(
        self, tilted: Tilted, power: float, longest: float, begin: int, U: np.ndarray, shares: np.ndarray
    ) -> None:
        """Move the sites from `begin` on, as many as U has rows, towards those that their cavities ask for,
        and leave them where there is no proper one. The covariance then is A - sum_k shares_k U_k U_k'.
        """
        for k, i in enumerate(range(begin, begin + len(U))):
            share = 1.0 - power * self.W[i] * self.diagonal[i]
            if not share > 0:
                continue
            v = self.diagonal[i] / share
            mu = self.mean[i] - v * power * self.gamma[i]
            d, D = tilted(i, mu, v)
            rest = power * (1.0 - v * D)
            if not (np.isfinite(d) and np.isfinite(D) and rest > 0):
                continue
            W, g = D / rest, d / rest  # (3.59)
            dW, dg = W - self.W[i], g + W * (mu - self.mean[i]) - self.gamma[i]
            U[k] = self.A[i] - (shares[:k] * U[:k, i]) @ U[:k]
            shares[k] = self._change(i, U[k], dW, dg, longest, power)

    def _change(self, i: int, a: np.ndarray, dW: float, dg: float, longest: float, power: float) -> float:
        """Change site i by the largest part of (dW, dg) that leaves the posterior and all cavities proper:
        A <- A - share a a', share = dW / (1 + dW s), with a = A[:, i] and s = A[i, i] (3.70), and the slopes
        of all sites, which move with the mean, g(m) = g(c) + W (c - m). Returns the share.
        """
        proper = power * self.W * self.diagonal < 1.0
        step = longest
        while step > SHORTEST:
            rest = 1.0 + step * dW * self.diagonal[i]
            if rest > 1e-8:
                share, after = step * dW / rest, self.W.copy()
                after[i] += step * dW
                diagonal = self.diagonal - share * a**2
                if (power * after * diagonal < 1.0)[proper].all():
                    break
            step *= 0.5
        else:
            return 0.0
        dW, dg = step * dW, step * dg
        shift = a * (dg / rest)
        self.mean += shift
        self.gamma -= self.W * shift
        self.gamma[i] += dg - dW * shift[i]
        self.W[i] += dW
        self.diagonal = diagonal
        return float(share)


# visits(joint, begin, U, shares) does what `Joint.visit` says
Visits = Callable[[Joint, int, np.ndarray, np.ndarray], None]


def _visits(problem: OneLatent, longest: float) -> Visits:
    """By a compiled loop for what is a mixture of probits, else one datum after the other."""
    likelihood, y, power = problem.model.likelihood, problem.y, problem.power
    probits = likelihood.probits() if power == 1.0 else None
    if probits is not None and len(y) >= LOOPS_FROM and compiled.ready():
        given = Probits(*probits)
        return lambda joint, *block: loops.visit(joint, y, given, longest, *block)
    tilted = _tilted(problem)
    return lambda joint, *block: joint.visit(tilted, power, longest, *block)


def _tilted(problem: OneLatent) -> Tilted:
    likelihood, y, power = problem.model.likelihood, problem.y, problem.power
    if not likelihood.per_datum:
        one = pointwise.tilted_one(likelihood, power)
        return lambda i, mean, variance: tuple(one(y[i], mean, variance)[1:].tolist())

    def among_all(i: int, mean: float, variance: float) -> tuple[float, float]:
        """A likelihood with a parameter for each datum needs all of them in their places."""
        cavity = np.full((len(y), 1), mean), np.full((len(y), 1), variance)
        _, d, D = pointwise.tilted(likelihood, y, *cavity, power=power)
        return float(d[i, 0]), float(D[i, 0])

    return among_all
