"""EP on one site after the other, with a rank-one update of the covariance each (Algorithm 3.5)."""

from __future__ import annotations

import dataclasses

import numpy as np

from mercer.inference import pointwise
from mercer.inference.ep.point import End, OneLatent, Point, largest_change
from mercer.solvers.protocol import Sites

SHORTEST = 1e-6  # a site whose step has to be shorter stays as it is


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
        for sweep in range(1, self.max_iterations + 1):  # noqa: B007
            joint = Joint.at(problem, point)
            old = joint.sites()
            for i in range(problem.y.shape[0]):
                joint.visit(problem, i, self.damping)
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
    """The posterior of f at the data, N(mean, A), while its sites change one by one in place: their
    precisions W and slopes gamma at the current mean, each (n,).
    """

    mean: np.ndarray
    A: np.ndarray
    W: np.ndarray
    gamma: np.ndarray

    @classmethod
    def at(cls, problem: OneLatent, point: Point) -> Joint:
        mean, A = point.state.predict(problem.X, full=True)
        assert A is not None
        return cls(mean[:, 0].copy(), A, point.W[:, 0].copy(), point.state.alpha + 0.0)

    def sites(self) -> Sites:
        """A copy of the sites as they are."""
        return Sites(*(x[:, None].copy() for x in (self.mean, self.W, self.gamma)))

    def change_from(self, old: Sites) -> float:
        """The largest change of a site since then, slopes compared at the old centres."""
        variance = np.maximum(np.abs(np.diag(self.A)), 1e-300)
        slope = self.gamma + self.W * (self.mean - old.centre[:, 0])
        return largest_change(self.W - old.precision[:, 0], slope - old.slope[:, 0], variance)

    def visit(self, problem: OneLatent, i: int, longest: float) -> None:
        """Move site i towards the one that its cavity asks for; leave it where there is no proper one."""
        s, power = self.A[i, i], problem.power
        share = 1.0 - power * self.W[i] * s
        if not share > 0:
            return
        v = s / share
        mu = self.mean[i] - v * power * self.gamma[i]
        d, D = _tilted(problem, i, mu, v)
        rest = power * (1.0 - v * D)
        if not (np.isfinite(d) and np.isfinite(D) and rest > 0):
            return
        W, g = D / rest, d / rest  # (3.59)
        self._change(i, W - self.W[i], g + W * (mu - self.mean[i]) - self.gamma[i], longest, power)

    def _change(self, i: int, dW: float, dg: float, longest: float, power: float) -> None:
        """Change site i by the largest part of (dW, dg) that leaves the posterior and all cavities proper:
        A <- A - dW a a' / (1 + dW s) with a = A[:, i] (3.70), and the slopes of all sites, which move with
        the mean, g(m) = g(c) + W (c - m).
        """
        s, a, diagonal = self.A[i, i], self.A[:, i].copy(), np.diag(self.A)
        proper = power * self.W * diagonal < 1.0
        step, scale = longest, 1.0
        while step > SHORTEST:
            rest = 1.0 + step * dW * s
            if rest > 1e-8:
                scale = 1.0 / rest
                after = self.W.copy()
                after[i] += step * dW
                if (power * after * (diagonal - step * dW * scale * a**2) < 1.0)[proper].all():
                    break
            step *= 0.5
        else:
            return
        dW, dg = step * dW, step * dg
        shift = a * (dg * scale)
        self.mean += shift
        self.gamma -= self.W * shift
        self.gamma[i] += dg - dW * shift[i]
        self.W[i] += dW
        self.A -= np.outer(a * (dW * scale), a)


def _tilted(problem: OneLatent, i: int, mean: float, variance: float) -> tuple[float, float]:
    """d and D of datum i. A likelihood with a parameter for each datum needs all of them in their places."""
    likelihood, n = problem.model.likelihood, problem.y.shape[0]
    rows, at = (np.arange(n), i) if likelihood.per_datum else (np.array([i]), 0)
    shape = (rows.size, 1)
    cavity = np.full(shape, mean), np.full(shape, variance)
    _, d, D = pointwise.tilted(likelihood, problem.y[rows], *cavity, power=problem.power)
    return float(d[at, 0]), float(D[at, 0])
