"""Conjugate gradients: Gaussian algebra by products with K, which is computed in tiles and never stored.
O(n^2) flops an iteration.

B = I + W^1/2 K W^1/2 is compared with P = I + W^1/2 G G' W^1/2, G the pivoted Cholesky factor of K:
everything exact is said of P, and C = P^-1/2 B P^-1/2, which is close to the identity, is left to the
iterations. With probes z of independent signs,

    log|B| = log|P| + E[z' log(C) z],     B^-1 = c P^-1 + E[P^-1/2 (C^-1 - c I) z z' P^-1/2]:

log-determinant and trace terms are estimates, the better the closer C is to I, with standard errors that the
State reports. The number c takes as much from P as is worth it: the variance of tr(B^-1 dK) along dK = K is
least for c = tr((C - I)^2 C^-1) / tr((C - I)^2), which is near 1 for a good preconditioner and near 0 for a
bad one.
"""

from __future__ import annotations

import dataclasses
import functools
import warnings
from collections.abc import Callable
from typing import Any, ClassVar

import jax
import numpy as np

from mercer.linalg import cg, tiles
from mercer.params import named_leaves, strip
from mercer.prior import AbstractPrior
from mercer.selection.pivoted import pivoted_cholesky
from mercer.solvers.host import AbstractHostState, Columns, KernelBar, Pulled
from mercer.solvers.protocol import (
    AbstractSolver,
    AbstractState,
    AbstractWorkspace,
    Cost,
    MeanWeights,
    Sites,
    SolverError,
)
from mercer.solvers.sparse import Pairs

BLOCK = cg.WIDTHS[-1]  # right-hand sides solved at once
WEAK = 1e-4  # below this W k(x, x) the variance at a datum is computed as if it were a test input
PAIRS_BYTES = 1e9  # up to here the pairs inside a compact support are stored
ITERATIONS = 50  # what `cost` takes for granted
IN_FLIGHT_BYTES = 8.0 * cg.IN_FLIGHT * tiles.SIZES[-1] ** 2


@dataclasses.dataclass(frozen=True)
class ConjugateGradient(AbstractSolver):
    """Solutions to a tolerance, log-determinant and its derivatives by random probes: for n where a matrix n
    x n does not fit.

    rank: columns of the pivoted Cholesky preconditioner
    tol: relative residual at which a solution is good enough
    probes: random vectors for the log-determinant and the trace terms; their standard errors, which fall as 1
        / sqrt(probes), are in the State's notes
    max_iterations: where to give up (with a warning)
    seed: of the probes, which stay the same during a fit

    Kernels of compact support (`kernels.PiecewisePolynomial`) have their products with the pairs inside the
    support alone, which are stored where they take less than a gigabyte.

    Memory O(n (rank + probes)); means cost one product with K, variances (also those at the data, which
    leave-one-out, Laplace and EP need) a block of iterations for every 32 inputs.

    >>> mercer.GPRegressor(solver=ConjugateGradient(rank=200, probes=32)).fit(X, y)
    """

    rank: int = 100
    tol: float = 1e-6
    probes: int = 16
    max_iterations: int = 1000
    seed: int = 0

    offers: ClassVar[frozenset[str]] = frozenset({"variance", "logdet", "sample", "full", "exact"})

    def __post_init__(self) -> None:
        if self.rank < 0 or self.probes < 2 or self.max_iterations < 1 or not 0 < self.tol < 1:
            raise ValueError(
                "ConjugateGradient needs rank >= 0, probes >= 2 (for a standard error), max_iterations >= "
                "1 and "
                f"0 < tol < 1, got {self}."
            )

    def workspace(self, prior: Any, X: np.ndarray) -> ConjugateGradientWorkspace:
        if isinstance(prior, tuple):
            raise SolverError("ConjugateGradient has one latent function; for several use solver='dense'.")
        return ConjugateGradientWorkspace(self, prior, X)

    def factor(self, prior: Any, X: np.ndarray, sites: Sites, workspace: Any = None) -> AbstractState:
        return ConjugateGradientState(self, prior, X, sites, workspace or self.workspace(prior, X))

    def cost(self, n: int, d: int, L: int = 1) -> Cost:
        columns = self.probes + 1
        return Cost(
            flops=L
            * (
                n * self.rank**2
                + ITERATIONS * (n**2 * (2 * columns + 2 * d + 20) + 8.0 * n * self.rank * columns)
            ),
            bytes=8.0 * L * n * (13 * self.rank + 20 * max(columns, BLOCK) + 2 * d) + IN_FLIGHT_BYTES,
        )


class ConjugateGradientWorkspace(AbstractWorkspace):
    """Encoded inputs cut into tiles, and the pivoted Cholesky factor of the last kernel seen."""

    def __init__(self, solver: ConjugateGradient, prior: Any, X: np.ndarray):
        self.solver, self.columns = solver, Columns(X)
        self.encoded = prior.kernel.encode(X)
        self.panels = tiles.Panels(self.encoded, tiles.tile_size(X.shape[0]))
        self._seen: Any = None
        self._G: np.ndarray
        self._pairs: Pairs | None

    def hold(self, prior: Any) -> None:
        self.known(prior)

    def share(self, other: ConjugateGradientWorkspace) -> None:
        self._seen, self._G, self._pairs = other._seen, other._G, other._pairs

    def known(self, prior: AbstractPrior) -> tuple[np.ndarray, Pairs | None]:
        """G (n, k) with G G' close to K, and the pairs inside a compact support."""
        if self._seen is not prior.kernel:
            rank = self.solver.rank
            self._G = (
                pivoted_cholesky(prior.kernel, self.panels, rank)[0] if rank else np.zeros((self.panels.n, 0))
            )
            self._pairs = Pairs.inside(strip(prior.kernel), self.columns.X, self.encoded, PAIRS_BYTES)
            self._seen = prior.kernel
        return self._G, self._pairs


class Preconditioner:
    """P = I + Q Q' for Q (n, k): its inverse I - F F', inverse root and determinant,
    all without cancellation.
    """

    def __init__(self, Q: np.ndarray):
        t, E = np.linalg.eigh(Q.T @ Q)
        t = np.maximum(t, 0.0)
        self.logdet = float(np.sum(np.log1p(t)))
        self.Q, self.E, self.shrink = Q, E, 1.0 / (1.0 + t + np.sqrt(1.0 + t))
        self.F = Q @ (E / np.sqrt(1.0 + t))

    def half(self, V: np.ndarray) -> np.ndarray:
        """P^-1/2 V."""
        return V - self.Q @ (self.E @ (self.shrink[:, None] * (self.E.T @ (self.Q.T @ V))))

    def inverse_diagonal(self) -> np.ndarray:
        return 1.0 - np.einsum("ij,ij->i", self.F, self.F)


class ConjugateGradientState(AbstractHostState):
    """`logdet` with its standard error `logdet_error`; `notes` say both and how the iterations ended."""

    pulls = frozenset({"log_normaliser", "mean", "alpha", "apply"})  # the others need all of R

    def __init__(
        self,
        solver: ConjugateGradient,
        prior: AbstractPrior,
        X: np.ndarray,
        sites: Sites,
        workspace: ConjugateGradientWorkspace,
    ):
        super().__init__(prior, X, sites, workspace.columns)
        self.solver, self.kernel, self.jitter = solver, strip(prior.kernel), 0.0
        self.panels, self.encoded = workspace.panels, workspace.encoded
        self.root = np.sqrt(self.precision)
        G, self.pairs = workspace.known(prior)
        self.near = Preconditioner(self.root[:, None] * G)
        self._found = self._start()

    def solve_sites(self) -> tuple[np.ndarray, float]:
        return self._found

    def _start(self) -> tuple[np.ndarray, float]:
        """One block of iterations for the data and the probes: alpha and the log normaliser."""
        n, p = self.panels.n, self.solver.probes
        g, delta = self.slope, self.centre - self.m
        Kg = np.zeros(n) if g is None else self.times_K(g[:, None])[:, 0]
        rest = delta - Kg
        signs = np.random.default_rng(self.solver.seed).choice([-1.0, 1.0], (n, p))
        right = np.concatenate([self.near.half((self.root * rest)[:, None]), signs], 1)
        solution = self._iterate(right)
        logs = n * solution.quadrature(np.log)[1:]
        self.logdet, self.logdet_error = self.near.logdet + float(logs.mean()), _standard_error(logs)
        gain, whole = (
            solution.quadrature(f)[1:].mean() for f in (lambda t: (t - 1) ** 2 / t, lambda t: (t - 1) ** 2)
        )
        self.share = float(gain / whole) if whole > 0 else 1.0
        self.probe, self.inverse_probe = self.near.half(signs), self.near.half(solution.X[:, 1:])
        along = -self.share * n * solution.quadrature(lambda t: t)[1:] - np.einsum(
            "ij,ij->j", self.probe, self._ahead(self.share)
        )
        r = self.root * self.near.half(solution.X[:, :1])[:, 0]
        alpha = r if g is None else g + r
        value = -0.5 * self.logdet - 0.5 * rest @ r
        converged = (solution.residual <= self.solver.tol).all()
        ended = (
            ""
            if converged
            else f"DID NOT CONVERGE to {self.solver.tol:.1g}: a larger rank or max_iterations may help; "
        )
        self.notes: tuple[str, ...] = (
            (
                f"conjugate gradients: {ended}{solution.iterations.max()} iterations, relative residual "
                f"{solution.residual.max():.1e}"
            ),
            f"log-determinant by {p} random probes: standard error of the log evidence "
            f"{0.5 * self.logdet_error:.2g}, "
            f"of its derivative along the log amplitude {0.5 * _standard_error(along):.2g}",
        )
        return alpha, float(value if g is None else value - g @ delta + 0.5 * g @ Kg)

    # -- solutions -------------------------------------------------------------------------------------------

    def _iterate(self, right: np.ndarray) -> cg.Solution:
        """C X = right."""

        def product(V):
            H = self.near.half(V)
            return self.near.half(H + self.root[:, None] * self.times_K(self.root[:, None] * H))

        solution = cg.conjugate_gradients(product, right, self.solver.tol, self.solver.max_iterations)
        if (solution.residual > self.solver.tol).any():
            warnings.warn(
                f"conjugate gradients stopped after {solution.iterations.max()} iterations with a relative "
                f"residual of {solution.residual.max():.1e}, above tol = {self.solver.tol:.1e}: raise rank "
                "or max_iterations.",
                RuntimeWarning,
                stacklevel=3,
            )
        return solution

    def apply(self, V: np.ndarray) -> np.ndarray:
        H = self.near.half(self.root[:, None] * V)
        blocks = [self._iterate(H[:, j : j + BLOCK]).X for j in range(0, V.shape[1], BLOCK)]
        return self.root[:, None] * self.near.half(np.concatenate(blocks, 1))

    def _explained(self, panels: tiles.Panels) -> np.ndarray:
        """diag(K_* R K_*') for the rows of `panels`, a block of iterations for each tile."""
        out = []
        for i in range(len(panels.tiles)):
            K = tiles.between(self.kernel, panels.part(i, i + 1), self.panels)
            H = self.near.half(self.root[:, None] * K.T)
            out.append(np.einsum("ij,ij->j", H, self._iterate(H).X))
        return np.concatenate(out) if out else np.zeros(0)

    def _test_panels(self, Xs: np.ndarray) -> tiles.Panels:
        return tiles.Panels(self.kernel.encode(Xs), BLOCK)

    def _some(self, rows: np.ndarray) -> tiles.Panels:
        return tiles.Panels(jax.tree.map(lambda a: a[rows], self.encoded), BLOCK)

    # -- products --------------------------------------------------------------------------------------------

    def times_K(self, V: np.ndarray) -> np.ndarray:
        if self.pairs is not None:
            return self.pairs.K @ V
        return cg.symmetric_times(self.kernel, self.panels, V)

    def cross(self, Xs: np.ndarray, V: np.ndarray) -> np.ndarray:
        return cg.times(self.kernel, self._test_panels(Xs), self.panels, V)

    # -- variances -------------------------------------------------------------------------------------------

    @functools.cached_property
    def _inverse_diagonal(self) -> np.ndarray:
        """diag B^-1, by n solutions."""
        n, out = self.panels.n, []
        for j in range(0, n, BLOCK):
            rows = np.arange(j, min(j + BLOCK, n))
            unit = np.zeros((n, rows.size))
            unit[rows, np.arange(rows.size)] = 1.0
            H = self.near.half(unit)
            out.append(np.einsum("ij,ij->j", H, self._iterate(H).X))
        return np.concatenate(out)

    def _estimated_diagonal(self) -> np.ndarray:
        """diag B^-1, by the probes."""
        return self.near.inverse_diagonal() + np.mean(self.probe * self._ahead(1.0), 1)

    def _ahead(self, share: float) -> np.ndarray:
        """B^-1 - share P^-1 is the mean over the probes of this times `probe`'."""
        return self.inverse_probe - share * self.probe

    def kappa(self) -> np.ndarray:
        return self.precision * self._inverse_diagonal

    def variances(self) -> np.ndarray:
        return self._variances_by(lambda: self._inverse_diagonal)

    def site_kappa(self) -> np.ndarray:
        """By the probes: a derivative of the evidence takes no solution for each datum."""
        return self.precision * self._estimated_diagonal()

    def site_variances(self) -> np.ndarray:
        return self._variances_by(self._estimated_diagonal)

    def _variances_by(self, inverse_diagonal: Callable[[], np.ndarray]) -> np.ndarray:
        """Variances at the data from diag B^-1, which is asked for where sites say enough."""
        prior = tiles.diagonal(self.kernel, self.panels)
        weak = self.precision * prior < WEAK
        out = np.empty_like(prior)
        if not weak.all():
            out[~weak] = (1.0 - inverse_diagonal()[~weak]) / self.precision[~weak]
        if weak.any():
            out[weak] = prior[weak] - self._explained(self._some(np.flatnonzero(weak)))
        return out

    def predict(
        self, Xs: np.ndarray, full: bool = False, variance: bool = True
    ) -> tuple[np.ndarray, np.ndarray | None]:
        panels = self._test_panels(Xs)
        mean = np.asarray(self.prior.mean.value(Xs), float) + self.cross(Xs, self.alpha[:, None])[:, 0]
        if not variance:
            return mean[:, None], None
        if not full:
            prior = tiles.diagonal(self.kernel, panels)
            return mean[:, None], np.maximum(prior - self._explained(panels), 0.0)[:, None]
        K = tiles.between(self.kernel, panels, self.panels)
        covariance = tiles.between(self.kernel, panels, panels)
        covariance -= K @ self.apply(K.T)
        return mean[:, None], 0.5 * (covariance + covariance.T)

    def mean_weights(self) -> MeanWeights:
        return MeanWeights(self.alpha[:, None])

    # -- cotangents ------------------------------------------------------------------------------------------

    def pull_kernel(self, bar: KernelBar, inputs: bool) -> Pulled:
        """R by the probes: c W^1/2 P^-1 W^1/2 and the mean of W^1/2 (ahead probe') W^1/2, symmetric."""
        left, right, c = [bar.P], [bar.Q], bar.coefficient
        if c:
            F, half = self.root[:, None] * self.near.F, 0.5 * c / self.solver.probes
            ahead, probe = self.root[:, None] * self._ahead(self.share), self.root[:, None] * self.probe
            left += [-c * self.share * F, half * ahead, half * probe]
            right += [F, probe, ahead]
        pulled = self._pull(np.concatenate(left, 1), np.concatenate(right, 1))
        on_diagonal = tiles.pull_diagonal(self.kernel, self.panels, c * self.share * self.precision)
        return Pulled(jax.tree.map(np.add, pulled, on_diagonal))

    def _pull(self, P: np.ndarray, Q: np.ndarray) -> Any:
        """Cotangents of the kernel for cotangent P Q' of K."""
        if self.pairs is not None:
            bars = (p[self.pairs.i] * q[self.pairs.j] for p, q in zip(P.T, Q.T, strict=True))
            return self.pairs.pull(sum(bars))[0]
        nothing = np.broadcast_to(0.0, (self.panels.n,) * 2)  # a view of one number
        extra = ((0, 0), (0, -P.shape[1] % BLOCK))
        P, Q = np.pad(P, extra), np.pad(Q, extra)
        return tiles.pull_symmetric(self.kernel, self.panels, 0.0, nothing, np.zeros(self.panels.n), P, Q)[0]

    def gradient_error(self) -> dict[str, np.ndarray]:
        """Standard errors of the derivatives of the log evidence with respect to the kernel's
        hyperparameters, by name.

        Costs as much as one gradient for every probe.
        """
        ahead, probe = self.root[:, None] * self._ahead(self.share), self.root[:, None] * self.probe
        each = []
        for j in range(self.solver.probes):
            a, b = ahead[:, [j]], probe[:, [j]]
            bar = self._pull(0.5 * np.concatenate([a, b], 1), np.concatenate([b, a], 1))
            each.append({f"kernel.{name}": np.asarray(value) for name, value in named_leaves(bar)})
        return {name: 0.5 * _standard_error(np.stack([one[name] for one in each])) for name in each[0]}


def _standard_error(values: np.ndarray):
    return np.std(values, axis=0, ddof=1) / np.sqrt(values.shape[0])
