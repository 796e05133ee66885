"""Gaussian processes in time in O(n): Kalman filter and smoother,
exact for kernels with a state-space form (GPML appendix B).
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterable, Iterator
from typing import Any, ClassVar

import jax
import numpy as np

from mercer.kernels.algebra.columns import On
from mercer.kernels.base import AbstractKernel
from mercer.kernels.statespace import TOLERANCE, AbstractForm, NoStateSpace, state_space
from mercer.linalg.cholesky import NotPositiveDefinite
from mercer.params import strip
from mercer.prior import AbstractPrior
from mercer.solvers.grid import diagonal
from mercer.solvers.host import AbstractHostState, Columns, KernelBar, Pulled, pull_mean
from mercer.solvers.markov_sweeps import AbstractSweeps, Line, sweeps
from mercer.solvers.protocol import (
    EVERYTHING,
    AbstractSolver,
    AbstractState,
    AbstractWorkspace,
    Bars,
    Cost,
    Cotangents,
    Diagnostics,
    PriorBar,
    Proposal,
    SiteBars,
    Sites,
    SolverError,
)

LOST, TOO_MUCH_LOST = 0.1, 3.0  # rounding in units of the noise variance: to be said, to be refused
SECONDS = 2e-7, 5e-8  # of value and gradient for each datum: times s^2 and s^3


@dataclasses.dataclass(frozen=True)
class Markov(AbstractSolver):
    """For data along one input (time), in any order, at any distances, with repetitions and gaps: O(n s^3)
    for s states. Other columns may be read by basis functions where the kernel is on the time alone.

    tolerance: the largest error of the correlations of kernels that are approximated (SE, periodic ones). The
        numbers of states and harmonics are chosen for the length-scales that learning starts from; the
        posterior's notes tell the error for those it ended with
    states: for `cost` alone; the kernel knows how many there are

    Exact for Matern kernels of order 1/2, 3/2, ... (s = 1, 2, ...), Wiener processes and their integrals,
    polynomials, cosines and all sums (states add up) and products (they multiply). Every inference rule runs
    on it: robust regression, classification and counts along time in O(n).

    >>> mercer.GPRegressor(kernels.Matern(nu=1.5), solver="markov").fit(X, y).predict(Xs)
    >>> mercer.Model(mercer.GP(kernels.SE()), likelihoods.Poisson()).condition(X, counts, solver=Markov())
    >>> mercer.GP(kernels.Matern().on(0), basis=means.Coordinates([1, 2]))    # two more columns, linearly
    """

    tolerance: float = TOLERANCE
    states: int | None = None  # for `cost` only; the kernel knows how many there are

    offers: ClassVar[frozenset[str]] = frozenset(
        {"variance", "logdet", "sample", "full", "exact", "indefinite"}
    )

    def __post_init__(self) -> None:
        if not self.tolerance > 0:
            raise ValueError(f"Markov.tolerance must be positive, got {self.tolerance!r}.")

    @classmethod
    def propose(cls, task: Any) -> Iterable[Proposal]:
        if task.several or task.d != 1 or task.X.dtype == object:
            return []
        try:
            form = state_space(task.kernel, TOLERANCE)
        except NoStateSpace:
            return []
        error = form.error()
        if error:
            scale = float(np.mean(diagonal(task.kernel, task.X[:: max(task.n // 256, 1)])))
            error = 0.5 * error * scale / task.noise if task.gaussian else np.inf
        cost = cls(states=form.size).cost(task.n, 1)
        seconds = 4e-3 + task.n * (SECONDS[0] * form.size**2 + SECONDS[1] * form.size**3)
        return [Proposal(cls(), seconds, cost.bytes, error, f"Kalman filter with {form.size} states")]

    def workspace(self, prior: Any, X: np.ndarray) -> MarkovWorkspace:
        if isinstance(prior, tuple):
            raise SolverError("Markov works with one latent function; for several use solver='dense'.")
        return MarkovWorkspace(self, prior, X)

    def factor(self, prior: Any, X: np.ndarray, sites: Sites, workspace: Any = None) -> AbstractState:
        return MarkovState(prior, X, sites, workspace or self.workspace(prior, X))

    def cost(self, n: int, d: int, L: int = 1) -> Cost:
        s = self.states or 2
        return Cost(flops=L * n * (40.0 * s**2 + 20.0 * s**3), bytes=8.0 * L * n * (24 * s**2 + 30))


class MarkovWorkspace(AbstractWorkspace):
    """The times in order, and how many states the kernel has."""

    def __init__(self, solver: Markov, prior: Any, X: np.ndarray):
        self.tolerance = solver.tolerance
        self.columns = Columns(X)
        self.line = Line(self.times(prior, X))
        try:
            form = state_space(strip(prior.kernel), solver.tolerance)
        except NoStateSpace as error:
            raise SolverError(f"Markov: {error}; use solver='dense', or 'vecchia' for many data.") from None
        self.treedef = jax.tree.structure(form)

    def times(self, prior: AbstractPrior, X: np.ndarray) -> np.ndarray:
        kernel = prior.kernel
        read = kernel.columns if isinstance(kernel, On) else tuple(range(X.shape[1]))
        if len(read) != 1:
            raise SolverError(
                f"Markov needs one input column, a time, not {len(read)}; use solver='dense', or "
                "'vecchia' for many data."
            )
        if X.dtype == object:
            raise SolverError(
                "Markov needs times that are numbers; for text and categories use solver='dense'."
            )
        kernel.encode(X)  # says what is wrong with the times, where something is
        return np.asarray(X[:, int(read[0])], float)

    def form(self, kernel: AbstractKernel) -> AbstractForm:
        """The form with this kernel's values; its sizes are those of the start."""
        return jax.tree.unflatten(self.treedef, jax.tree.leaves(kernel))

    def share(self, other: MarkovWorkspace) -> None:
        """Use the order that another workspace found."""
        self.line, self.treedef = other.line, other.treedef


class MarkovState(AbstractHostState):
    """The filter's gains; everything else is a sweep over the data."""

    pulls = EVERYTHING - {"inputs"}

    def __init__(self, prior: AbstractPrior, X: np.ndarray, sites: Sites, workspace: MarkovWorkspace):
        if sites.centre.shape[1] > 1 or sites.coupling is not None:
            raise SolverError("Markov works with one latent function; for several use solver='dense'.")
        if not (np.isfinite(sites.precision).all() and np.isfinite(sites.centre).all()):
            raise SolverError("the sites are not finite.")
        self._keep(prior, X, sites, workspace.columns)  # precisions may be negative
        self.jitter, self.workspace, self.line = 0.0, workspace, workspace.line
        self.kernel = strip(prior.kernel)
        self.form = workspace.form(self.kernel)
        self._delta = self.centre - self.m
        self.sweeps = sweeps(
            self.form, self.line, self.precision, self._delta if self.slope is None else None
        )
        if not self.sweeps.least > 0:
            raise NotPositiveDefinite(
                "the sites of negative precision outweigh the prior: the posterior is not proper."
                if (self.precision < 0).any()
                else "the covariance filter lost positive definiteness: raise the noise variance or Markov's "
                "tolerance, or use solver='dense'."
            )
        self.logdet = self.sweeps.logdet
        self.notes = tuple(self._approximation())

    def _approximation(self) -> Iterator[str]:
        """What is to be said of a form that is not exact. The states of an SE cancel in f: what rounding
        leaves adds up along the data, and beside a small noise variance it is felt.
        """
        error = self.form.error()
        if not error:
            return
        size = self.form.size
        yield (
            f"the covariance is that of {size} states in time: its error is at most {error:.2g} of "
            "the variance"
        )
        P, h = (
            np.abs(np.asarray(part(self.line.t[:1]))[0])
            for part in (self.form.covariance, self.form.observation)
        )
        lost = float(h @ P @ h) * np.finfo(float).eps * self.line.n * float(np.max(self.precision))
        remedy = "a larger tolerance needs fewer states and is more accurate here"
        if lost > TOO_MUCH_LOST:
            raise NotPositiveDefinite(
                f"Markov: beside this small noise variance {size} states lose their digits (rounding up to "
                f"{lost:.2g} times the noise variance): {remedy}, or use solver='dense'."
            )
        if lost > LOST:
            yield f"rounding may reach {lost:.2g} of the noise variance: {remedy}"

    # -- alpha and the log normaliser ------------------------------------------------------------------------

    @functools.cached_property
    def _solution(self) -> tuple[float, Callable[[], np.ndarray]]:
        """Of z = c - m - K g: z' R z, and R z when it is asked for."""
        return self.sweeps.solve(self._delta if self.slope is None else self._delta - self._Kg)

    @functools.cached_property
    def _Kg(self) -> np.ndarray:
        assert self.slope is not None
        return self.times_K(self.slope[:, None])[:, 0]

    @functools.cached_property
    def log_normaliser(self) -> float:  # type: ignore[override]
        value = -0.5 * (self.logdet + self._solution[0])
        return value if self.slope is None else value - float(self.slope @ (self._delta - 0.5 * self._Kg))

    @functools.cached_property
    def alpha(self) -> np.ndarray:  # type: ignore[override]
        r = self._solution[1]()
        return r if self.slope is None else r + self.slope

    # -- products --------------------------------------------------------------------------------------------

    def apply(self, V: np.ndarray) -> np.ndarray:
        return self.sweeps.resolve(V)

    def times_K(self, V: np.ndarray) -> np.ndarray:
        return self.sweeps.times(V)

    # -- second moments --------------------------------------------------------------------------------------

    def variances(self) -> np.ndarray:
        return np.maximum(self.sweeps.variances(), 0.0)

    def kappa(self) -> np.ndarray:
        return self.precision - self.precision**2 * self.sweeps.variances()

    def diagnostics(self) -> Diagnostics:
        """B_ii (B^-1)_ii is at most the condition number of B, for every datum i."""
        told, found = np.flatnonzero(self.precision > 0), super().diagnostics()
        if not told.size:
            return found
        inverse = self.kappa()[told] / self.precision[told]
        i = told[np.argmax(inverse)]
        B = 1.0 + self.precision[i] * diagonal(self.prior.kernel, self.X[i : i + 1])[0]
        bound = max(1.0, float(B * inverse.max()))
        return dataclasses.replace(found, condition=bound, matrix="B = I + W^1/2 K W^1/2")

    # -- predictions -----------------------------------------------------------------------------------------

    def _with(self, Xs: np.ndarray) -> AbstractSweeps:
        """The data and test times in one chain; the latter have precision zero."""
        line = Line(np.concatenate([self.times, self._times(Xs)]))
        return sweeps(self.form, line, np.append(self.precision, np.zeros(len(Xs))), None)

    @property
    def times(self) -> np.ndarray:
        """Those of the data (n,), in their order."""
        return self._times(self.X)

    def _times(self, X: np.ndarray) -> np.ndarray:
        return self.workspace.times(self.prior, X)

    def cross(self, Xs: np.ndarray, V: np.ndarray) -> np.ndarray:
        joint = self._with(Xs)
        return joint.times(np.concatenate([V, np.zeros((len(Xs), V.shape[1]))]))[len(V) :]

    def predict(
        self, Xs: np.ndarray, full: bool = False, variance: bool = True
    ) -> tuple[np.ndarray, np.ndarray | None]:
        joint, n = self._with(Xs), self.centre.shape[0]
        mean = np.asarray(self.prior.mean.value(Xs), float)
        mean = (mean + joint.times(np.append(self.alpha, np.zeros(len(Xs)))[:, None])[n:, 0])[:, None]
        if not variance:
            return mean, None
        if not full:
            return mean, np.maximum(joint.variances()[n:, None], 0.0)
        unit = np.zeros((n + len(Xs), len(Xs)))
        unit[n:] = np.eye(len(Xs))
        covariance = joint.times(unit - joint.resolve(joint.times(unit)))[n:]
        return mean, 0.5 * (covariance + covariance.T)

    def sample(self, seed: Any, Xs: np.ndarray, size: int) -> np.ndarray:
        """Draws from the prior, corrected by what the data say: O(n) for each."""
        if (self.precision < 0).any():
            return super().sample(seed, Xs, size)
        joint, rng, n = self._with(Xs), np.random.default_rng(seed), self.centre.shape[0]
        f = joint.simulate(rng, size)
        silent = self.precision == 0
        noise = rng.standard_normal((n, size)) / np.sqrt(np.where(silent, np.inf, self.precision))[:, None]
        seen = np.concatenate([f[:n] + noise, np.zeros((len(Xs), size))])
        return (self.predict(Xs, variance=False)[0] + f[n:] - joint.times(joint.resolve(seen))[n:]).T

    # -- cotangents ------------------------------------------------------------------------------------------

    def pull(self, bars: Bars) -> Cotangents:
        bar = float(bars.log_normaliser)
        if self.slope is not None or bars.asked() != {"log_normaliser"}:
            return super().pull(bars)
        pulled, variances = self.sweeps.pull_evidence(self._delta)
        kernel = jax.tree.map(lambda leaf: bar * np.asarray(leaf), self._as_kernel(pulled))
        alpha = bar * self.alpha
        mean = pull_mean(self.prior.mean, self.columns, alpha)
        precision = self.residual() ** 2
        precision += variances
        precision *= -0.5 * bar
        return Cotangents(PriorBar(kernel, mean), SiteBars(-alpha[:, None], precision[:, None]))

    def weighted_squares(self, k: np.ndarray | None, v: np.ndarray | None) -> np.ndarray:
        out = self.sweeps.turn(self._direction(k, v))
        return out if k is None else out + k * (1.0 - 2.0 * self.precision * self.sweeps.variances())

    def _direction(self, k, v):
        """kappa = W - W^2 var: what the bars of kappa and var say of var."""
        total = np.zeros_like(self.precision) if v is None else v
        return total if k is None else total - k * self.precision**2

    def pull_kernel(self, bar: KernelBar, inputs: bool) -> Pulled:
        asked = bar.kappa is not None or bar.var is not None
        direction = self._direction(bar.kappa, bar.var) if asked else None
        pulled = self.sweeps.pull(*_distinct(bar.P, bar.Q), bar.coefficient, direction)
        return Pulled(self._as_kernel(pulled))

    def _as_kernel(self, form: AbstractForm) -> AbstractKernel:
        """What it says of the kernel."""
        leaves = [np.asarray(leaf) for leaf in jax.tree.leaves(form)]
        return jax.tree.unflatten(jax.tree.structure(self.kernel), leaves)


def _distinct(P: np.ndarray, Q: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Fewer columns with the same sum of p' K q,
    where a pair comes with its mirror image 1/2 (p q' + q p').
    """
    half, other = slice(None, None, 2), slice(1, None, 2)
    if (
        P.shape[1] % 2 == 0
        and (2 * P[:, half] == Q[:, other]).all()
        and (2 * P[:, other] == Q[:, half]).all()
    ):
        return 2.0 * P[:, half], Q[:, half]
    return P, Q
