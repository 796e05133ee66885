"""Variational inference for noise that is a scale mixture of normals: y_i = f_i + N(0, s_i), with a variance
s_i of its own for each datum (Kuss 5.4.1).

q(f) q(s) maximises a lower bound on the evidence. With e_i = E[(y_i - f_i)^2] under q(f), the best q(s_i)
leaves the term phi(e_i) = log p(residual = sqrt(e_i)) and the weight w_i = E[1 / s_i] = -2 phi'(e_i), which
is the precision of a Gaussian site at y_i. Because phi is convex, e -> w -> q(f) -> e never lowers the bound

    log normaliser of the sites + sum_i [phi(e_i) + w_i e_i / 2].
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

import numpy as np

from mercer.inference import pointwise
from mercer.inference.gradient import prior_gradient
from mercer.inference.protocol import (
    AbstractSiteProblem,
    AbstractSiteRule,
    Result,
    begin,
    jitter_notes,
    prior_mean,
)
from mercer.likelihoods.noise import AbstractNoise
from mercer.posteriors.answers import InferenceStatus
from mercer.solvers.protocol import AbstractSolver, AbstractState, AbstractWorkspace, Sites, SolverError

ENOUGH = 1e-2  # change of the weights at which the higher of two bounds is known
SAME = 1e-13  # relative difference of weights that rounding leaves


@dataclasses.dataclass(frozen=True)
class ScaleMixture(AbstractSiteRule):
    """The factorial variational scheme for Student-t, Laplace and mixture noise; `log_evidence` is a lower
    bound.

    Outliers get small weights, which are the precisions of the sites: `posterior.state.sites.precision`. tol:
    largest change of w_i e_i (an expected squared residual in units of its noise) at which the search ends. A
    run without earlier weights starts twice, with all data regular and with all judged by their distance from
    the prior mean, and keeps the higher bound.

    >>> Model(GP(kernels.SE()), likelihoods.StudentT(0.2, dof=4.0)).condition(X, y, ScaleMixture())
    """

    tol: float = 1e-6
    max_iterations: int = 300

    needs: ClassVar[frozenset[str]] = frozenset({"logdet", "variance"})
    lower_bound: ClassVar[bool] = True
    warm: ClassVar[bool] = True

    def rough(self, tight: bool = False) -> ScaleMixture:
        """The bound is stationary in the weights: it is right to the square of their error."""
        return self if tight else dataclasses.replace(self, tol=max(self.tol, 1e-3))

    def foresee(
        self, model: Any, y: np.ndarray, mean: np.ndarray, variance: np.ndarray
    ) -> dict[str, np.ndarray]:
        return {"scale-mixture": _term(model.likelihood, (y[:, None] - mean) ** 2 + variance).weight}

    def run(
        self,
        model: Any,
        X: np.ndarray,
        y: np.ndarray,
        solver: AbstractSolver,
        workspace: AbstractWorkspace | None = None,
    ) -> Result:
        self.check(solver)
        if not model.likelihood.scale_mixture:
            raise SolverError(
                "ScaleMixture is for noise that is a scale mixture of normals (StudentT, Laplace, "
                "GaussianMixtureNoise), which "
                f"{type(model.likelihood).__name__} is not: use inference='kl', 'ep' or 'laplace'."
            )
        workspace = begin(model, X, solver, workspace)
        problem = _Problem(model, X, y, solver, workspace)
        warm = workspace.memory.get("scale-mixture")
        starts = [warm] if warm is not None and warm.shape[0] == y.shape[0] else problem.starts()
        notes = []
        ends = [problem.climb(problem.point(w), max(self.tol, ENOUGH), self.max_iterations) for w in starts]
        best = max(ends, key=lambda end: end.bound)
        gap = best.bound - min(end.bound for end in ends)
        if gap > 1e-3:
            notes.append(f"the lower bound has several maxima: this one, and one that is {gap:.3g} lower")
        if best is not ends[-1]:  # whose state has been written over
            best = problem.point(best.weight)
        best = problem.climb(best, self.tol, self.max_iterations)
        converged = best.change <= self.tol
        if converged:
            workspace.memory["scale-mixture"] = best.weight
        else:
            notes.append(
                f"the weights had not converged after {problem.factorisations} factorisations: change "
                f"{best.change:.1e}"
            )
        status = InferenceStatus(converged, problem.factorisations, f"last change {best.change:.1e}")
        said = (*jitter_notes(best.state), "log_evidence is a lower bound", *notes)
        return Result(best.state, best.bound, said, status)

    def gradient(
        self,
        model: Any,
        y: np.ndarray,
        result: Result,
        consume: bool = False,
        log_evidence_bar: float = 1.0,
        **bars: Any,
    ) -> dict[str, np.ndarray]:
        self.check_bars(bars)
        r = np.sqrt(_squares(model.likelihood, result.state).expected)
        bar = result.state.pullback(log_evidence_bar, consume=consume)
        zero = np.zeros_like(r)
        by_name = pointwise.pull_slopes(
            model.likelihood, -r, zero[:, 0], np.full(y.shape, log_evidence_bar), zero, zero
        )
        return prior_gradient(model, bar.prior) | by_name


class _Squares(NamedTuple):
    """e = E[(y - f)^2] under q(f), the residual y - E[f] and the variance of f, each (n, 1)."""

    expected: np.ndarray
    residual: np.ndarray
    variance: np.ndarray


class _Term(NamedTuple):
    """What the best q(s) leaves: phi(e) (n,), w = -2 phi'(e) and bend = -dw/de >= 0, each (n, 1)."""

    phi: np.ndarray
    weight: np.ndarray
    bend: np.ndarray


@dataclasses.dataclass(frozen=True, eq=False)
class _Point:
    """Weights (n, 1) in use, the q(f) and the bound they give, and the best q(s) for that q(f), whose weights
    differ from those in use by `change` in units of the noise.
    """

    weight: np.ndarray
    state: AbstractState
    squares: _Squares
    best: _Term
    bound: float
    change: float


class _Problem(AbstractSiteProblem):
    def weighted(self, w: np.ndarray) -> AbstractState:
        return self.factor(Sites(self.y[:, None], w))

    def starts(self) -> list[np.ndarray]:
        """Weights if all data were regular, and if f were known to be near its prior mean."""
        regular = np.full((self.y.shape[0], 1), float(self.model.likelihood.grain) ** 2)
        squares = (self.y[:, None] - prior_mean(self.model, self.X)) ** 2
        distant = squares + max(float(np.median(squares)), regular[0, 0])
        return [_term(self.model.likelihood, e).weight for e in (distant, regular)]

    def climb(self, at: _Point, tol: float, max_iterations: int) -> _Point:
        """From weights on until they change by no more than `tol`: Newton steps, or plain ones where those
        would lower the bound.
        """
        for _ in range(max_iterations):
            if at.change <= tol:
                break
            new = self.point(_newton(at))
            if not new.bound >= at.bound - 1e-10 * abs(at.bound):  # a bound of n terms is no more accurate
                new = self.point(at.best.weight)
            at = new
        return at

    def point(self, w: np.ndarray) -> _Point:
        state = self.weighted(w)
        squares = _squares(self.model.likelihood, state)
        best, e = _term(self.model.likelihood, squares.expected), squares.expected
        bound = state.log_normaliser + float(np.sum(best.phi) + 0.5 * np.sum(w * e))
        moved = np.abs(best.weight - w)
        change = np.where(moved > SAME * w, moved * e, 0.0)  # of w e = 1e9 rounding alone is 1e-6
        return _Point(w, state, squares, best, bound, float(np.max(change)))


def _squares(likelihood: AbstractNoise, state: AbstractState) -> _Squares:
    """The residuals are taken from the sites' own equation alpha = w (y - E[f]); e stays positive."""
    variance = state.marginals()[1]
    residual = state.alpha[:, None] / state.sites.precision
    expected = np.maximum(residual**2 + variance, 1e-16 * float(likelihood.grain) ** 2)
    return _Squares(expected, residual, variance)


def _term(likelihood: AbstractNoise, e: np.ndarray) -> _Term:
    """From log p and its slope and curvature at a residual sqrt(e), for e (n, 1)."""
    r = np.sqrt(e)
    phi, slope, curvature, _ = pointwise.slopes(likelihood, -r, np.zeros(e.shape[0]))
    w = slope / r
    return _Term(phi, w, np.maximum(w - curvature, 0.0) / (2.0 * e))


def _newton(at: _Point) -> np.ndarray:
    """Weights (n, 1) after a Newton step for w = best(e(w)); the plain step where that leads nowhere.

    de/dw = -S, S = A o A + 2 A o r r' with the posterior covariance A = W^-1 - W^-1 R W^-1; of A o A the
    diagonal is kept. With B = diag(bend) the step solves (I - B S)(new - plain) = B S (plain - w), here as
    new - plain = B^1/2 z with a symmetric matrix.
    """
    w, plain = at.weight[:, 0], at.best.weight[:, 0]
    r, v = at.squares.residual[:, 0], at.squares.variance[:, 0]
    root = np.sqrt(at.best.bend[:, 0])

    def S(u: np.ndarray) -> np.ndarray:
        ru = r * u
        return 2.0 * r * (ru - at.state.apply((ru / w)[:, None])[:, 0]) / w + v**2 * u

    z = _few_conjugate_gradients(lambda d: d - root * S(root * d), root * S(plain - w))
    new = plain + root * z
    low, high = 0.1 * np.minimum(w, plain), 10.0 * np.maximum(w, plain)
    return np.where((new > low) & (new < high), new, plain)[:, None]


def _few_conjugate_gradients(times: Callable[[np.ndarray], np.ndarray], b: np.ndarray) -> np.ndarray:
    """z (n,) with A z close to b, `times` multiplying by a symmetric A: from zero, at most 12 steps, and none
    in a direction whose curvature is not positive.
    """
    z, rest = np.zeros_like(b), b.copy()
    direction, size = rest.copy(), rest @ rest
    goal = 1e-6 * size
    for _ in range(12):
        image = times(direction)
        curvature = direction @ image
        if not curvature > 1e-3 * (direction @ direction):
            break
        step = size / curvature
        z += step * direction
        rest -= step * image
        before, size = size, rest @ rest
        if size <= goal:
            break
        direction = rest + size / before * direction
    return z
