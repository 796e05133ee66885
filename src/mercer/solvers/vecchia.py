"""Vecchia's approximation: the density of the data as a product of small conditional densities. n k^3 flops,
n k memory.

The noisy data, each divided by its noise deviation, have covariance B = I + S K S, S = W^1/2. In some order,
datum j is conditioned on its k nearest predecessors only. With B_j the covariance of those and j itself
(last), e_j = B_j^-1 l / sqrt(l' B_j^-1 l), l = (0, ..., 0, 1), is column j of a sparse upper triangular U,
and

    B^-1 ~ U U',   log|B| ~ -2 sum_j log U_jj,   R ~ S U U' S.

With k = n - 1 nothing is left out. Vecchia (1988); Katzfuss and Guinness (2021).
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterable
from typing import Any, ClassVar

import jax
import numpy as np
from scipy.sparse import csr_matrix
from scipy.sparse.linalg import spsolve_triangular
from scipy.spatial import cKDTree

from mercer.inputs import InputError, numeric
from mercer.kernels.base import AbstractKernel
from mercer.linalg import tiles
from mercer.linalg.cholesky import LADDER, NotPositiveDefinite
from mercer.linalg.neighbours import (
    ORDERINGS,
    columns,
    conditionals,
    in_chunks,
    ordering,
    predecessors,
    pull_columns,
    pull_columns_and_inputs,
)
from mercer.params import strip
from mercer.prior import AbstractPrior
from mercer.solvers.dense import Dense
from mercer.solvers.host import Columns, pull_inputs, pull_mean
from mercer.solvers.protocol import (
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
    check_sites,
    condition_from_pivots,
)

FULL_ROWS = 6000  # data that a joint covariance may condition on


@dataclasses.dataclass(frozen=True)
class Vecchia(AbstractSolver):
    """For regression on many data with few input columns (say up to five): 10^5 rows in seconds.

    neighbours: how many earlier data each datum is conditioned on; more is slower and nearer to exact
    ordering: "maximin" (coarse to fine; the best), "random" or "coordinate"
    seed: of the ordering
    test_neighbours: how many of the nearest data a prediction is conditioned on; by default four times
        `neighbours`

    Best where functions are rough, or noise is small: a few neighbours then say it all. A smooth function
    under much noise is an average over many data, which VFE or FITC does better. A joint covariance is
    conditioned on the neighbours of all its inputs together. Distances are in units of how far the prior
    correlates along each column: while learning, that where it started; for the posterior, what was
    learned. Gaussian noise only: for other likelihoods use FITC.

    >>> mercer.GPRegressor(solver=Vecchia(neighbours=30)).fit(X, y).predict(Xs)
    """

    neighbours: int = 30
    ordering: str = "maximin"
    seed: int = 0
    test_neighbours: int | None = None

    offers: ClassVar[frozenset[str]] = frozenset({"logdet", "sample", "full"})

    def __post_init__(self) -> None:
        for name in ("neighbours", "test_neighbours"):
            value = getattr(self, name)
            if not (isinstance(value, (int, np.integer)) and value >= 1) and (
                value is not None or name == "neighbours"
            ):
                raise ValueError(f"Vecchia.{name} must be a whole number of at least 1, got {value!r}.")
        if self.ordering not in ORDERINGS:
            raise ValueError(f"Vecchia.ordering must be one of {list(ORDERINGS)}, got {self.ordering!r}.")

    @classmethod
    def propose(cls, task: Any) -> Iterable[Proposal]:
        if not task.gaussian or not task.noise or task.several or task.X.dtype == object:
            return []
        if task.d > 3 and not task.judged:  # what neighbours in many columns leave out is not foreseen
            return []
        solver = cls()
        cost = solver.cost(task.n, task.d)
        error = expected_loss(task.kernel, task.X, task.noise, solver.neighbours)
        return [Proposal(solver, cost.seconds, cost.bytes, error, "each datum given its 30 nearest")]

    def workspace(self, prior: Any, X: np.ndarray) -> VecchiaWorkspace:
        if isinstance(prior, tuple):
            raise SolverError("Vecchia works with one latent function; use solver='dense'.")
        return VecchiaWorkspace(self, prior, X)

    def factor(self, prior: Any, X: np.ndarray, sites: Sites, workspace: Any = None) -> AbstractState:
        return VecchiaState(prior, X, sites, workspace or self.workspace(prior, X))

    def cost(self, n: int, d: int, L: int = 1) -> Cost:
        k = min(self.neighbours, n - 1) + 1
        flops = L * n * (k**3 / 3 + k**2 * (2 * d + 20))
        return Cost(flops, bytes=85.0 * L * n * k, rate=1.5e9)  # many small matrices


class VecchiaWorkspace(AbstractWorkspace):
    """Who is conditioned on whom, found once: the evidence stays a smooth function of the hyperparameters."""

    def __init__(self, solver: Vecchia, prior: Any, X: np.ndarray):
        self.columns, self.encoded = Columns(X), prior.kernel.encode(X)
        values, n = _places(X), X.shape[0]
        self.unit = reach(strip(prior.kernel), values)
        self.scaled = values / self.unit
        self.order = ordering(self.scaled, solver.ordering, solver.seed)
        found = predecessors(self.scaled, self.order, min(solver.neighbours, n - 1))
        self.test_neighbours = min(n, solver.test_neighbours or 4 * solver.neighbours)
        self.index = np.column_stack([np.maximum(found, 0), np.arange(n)])
        self.present = np.column_stack([found >= 0, np.ones(n, bool)])

    def share(self, other: VecchiaWorkspace) -> None:
        """Use the neighbours that another workspace found."""
        self.__dict__.update({name: value for name, value in other.__dict__.items() if name != "memory"})

    @functools.cached_property
    def tree(self) -> cKDTree:
        return cKDTree(self.scaled)

    def nearest(self, Xs: np.ndarray) -> np.ndarray:
        """The data nearest to test inputs (m, k)."""
        return self.tree.query(_places(Xs) / self.unit, np.arange(1, self.test_neighbours + 1), workers=-1)[1]


class VecchiaState(AbstractState):
    """`U` holds the columns of U row by row: entry (j, a) belongs to row index[j, a] of column j;
    the last one is U_jj.
    """

    exact = False
    pulls = frozenset({"log_normaliser", "alpha", "kappa", "apply", "inputs"})
    instead = "FITC or solver='dense'"

    def __init__(self, prior: AbstractPrior, X: np.ndarray, sites: Sites, workspace: VecchiaWorkspace):
        check_sites(sites, "Vecchia")
        if sites.slope is not None or not (sites.precision > 0).all():
            raise SolverError(
                "Vecchia needs Gaussian noise at every datum (exact inference); for other likelihoods use "
                "FITC."
            )
        self.prior, self.X, self.sites, self.workspace = prior, X, sites, workspace
        self.kernel = strip(prior.kernel)
        self.index, self.encoded = workspace.index, workspace.encoded
        self.m = np.asarray(prior.mean.value(X), float)
        self.root = np.sqrt(sites.precision[:, 0])
        self.delta = sites.centre[:, 0] - self.m
        self.jitter = self._factor()
        n, k = self.index.shape
        self.U = csr_matrix(
            (self.entries.ravel(), self.index.ravel(), np.arange(0, n * k + 1, k)), shape=(n, n)
        ).T
        self.whitened = self.U.T @ (self.root * self.delta)
        self.alpha = self.root * (self.U @ self.whitened)
        self.log_normaliser = float(np.sum(np.log(self.entries[:, -1])) - 0.5 * self.whitened @ self.whitened)

    def _factor(self) -> float:
        for relative in LADDER:
            self.shift = relative * self._mean_diagonal() if relative else 0.0
            parts = in_chunks(columns, self.kernel, self.shift, self.encoded, self.index, self._roots())
            self.entries = np.concatenate([np.asarray(part) for _, part in parts])
            if np.isfinite(self.entries).all() and self.entries[:, -1].min() > 0:
                return self.shift
        raise NotPositiveDefinite(
            "the covariance of a datum and its neighbours is not positive definite even with jitter: a "
            "hyperparameter is extreme, "
            "or rows are duplicated with (almost) no noise. Remedies: a larger noise_variance, a bound on "
            "the length-scale."
        )

    def _mean_diagonal(self) -> float:
        """Of B."""
        prior = tiles.diagonal(self.kernel, tiles.Panels(self.encoded, tiles.tile_size(self.root.size)))
        return 1.0 + float(np.mean(self.root**2 * prior))

    def _roots(self) -> np.ndarray:
        return self.root[self.index] * self.workspace.present

    @property
    def pivots(self) -> np.ndarray:
        """Conditional standard deviations: the diagonal of a factor of B (n,)."""
        return 1.0 / self.entries[:, -1]

    def diagnostics(self) -> Diagnostics:
        condition = condition_from_pivots(self.pivots)
        return Diagnostics(condition, "B = I + W^1/2 K W^1/2", self.jitter, notes=self.notes)

    # -- views -----------------------------------------------------------------------------------------------

    def prior_mean(self) -> np.ndarray:
        return self.m[:, None]

    def mean(self) -> np.ndarray:
        return self.predict(self.X, variance=False)[0]

    def marginals(self) -> tuple[np.ndarray, np.ndarray]:
        mean, variance = self.predict(self.X)
        assert variance is not None
        return mean, variance

    def dual(self) -> tuple[np.ndarray, np.ndarray]:
        kappa = self.root**2 * np.bincount(self.index.ravel(), (self.entries**2).ravel(), self.root.size)
        return self.alpha[:, None], kappa[:, None]

    def apply(self, V: np.ndarray) -> np.ndarray:
        return self.root[:, None] * (self.U @ (self.U.T @ (self.root[:, None] * V)))

    def _times_noisy(self, V: np.ndarray) -> np.ndarray:
        """R^-1 V = (K + W^-1) V as this approximation sees it."""
        order = self.workspace.order
        L = self.U.T.tocsr()[order][:, order]
        L.sum_duplicates()
        Y = spsolve_triangular(L.T.tocsr(), V[order] / self.root[order, None], lower=False)
        out = np.empty_like(Y)
        out[order] = spsolve_triangular(L, Y, lower=True) / self.root[order, None]
        return out

    def times_K(self, V: np.ndarray) -> np.ndarray:
        return self._times_noisy(V) - V / self.root[:, None] ** 2

    def cross(self, Xs: np.ndarray, V: np.ndarray) -> np.ndarray:
        """K(Xs, X) V as this approximation sees it: what the neighbours predict of R^-1 V."""
        near, weights, _ = self._condition(Xs)
        return np.einsum("ij,ijq->iq", weights, self._times_noisy(V)[near])

    def predict(
        self, Xs: np.ndarray, full: bool = False, variance: bool = True
    ) -> tuple[np.ndarray, np.ndarray | None]:
        if full:
            return self._joint(Xs)
        near, weights, second = self._condition(Xs)
        mean = np.asarray(self.prior.mean.value(Xs), float) + np.einsum("ij,ij->i", weights, self.delta[near])
        return mean[:, None], np.maximum(second, 0.0)[:, None] if variance else None

    def _condition(self, Xs):
        """Nearest data of test inputs (m, k), their weights in the mean (m, k), and the variances (m,)."""
        near, test = self.workspace.nearest(Xs), self.kernel.encode(Xs)
        parts = list(
            in_chunks(conditionals, self.kernel, self.shift, self.encoded, near, self.root[near], test=test)
        )
        return near, *(np.concatenate([np.asarray(part[i]) for _, part in parts]) for i in range(2))

    def _joint(self, Xs):
        rows = np.unique(self.workspace.nearest(Xs))
        if rows.size > FULL_ROWS:
            raise SolverError(
                f"a joint covariance of these {Xs.shape[0]} inputs would condition on {rows.size} data (at "
                f"most {FULL_ROWS}): ask "
                "for fewer inputs at a time, or use FITC."
            )
        near = Sites(self.sites.centre[rows], self.sites.precision[rows])
        return Dense("lapack").factor(self.prior, self.X[rows], near).predict(Xs, full=True)

    # -- cotangents ------------------------------------------------------------------------------------------

    def pull(self, bars: Bars) -> Cotangents:
        n, ln = self.root.size, float(bars.log_normaliser)
        s, index, entries = self.root, self.index, self.entries
        bar, s_bar, scaled_bar = np.zeros_like(entries), np.zeros(n), np.zeros(n)  # of U, of S, of S delta
        if ln:
            bar[:, -1] += ln / entries[:, -1]
            bar -= ln * self.whitened[:, None] * (s * self.delta)[index]
            scaled_bar -= ln * (self.U @ self.whitened)
        if bars.kappa is not None:
            k = np.asarray(bars.kappa, float).reshape(n)
            s_bar += 2.0 * k * self.dual()[1][:, 0] / s
            bar += 2.0 * (s**2 * k)[index] * entries
        if bars.alpha is not None:
            scaled_bar += self._pull_apply(self.delta, np.asarray(bars.alpha, float).reshape(n), bar, s_bar)
        if bars.apply is not None:
            for v, y_bar in zip(*(np.transpose(x) for x in bars.apply), strict=True):
                s_bar += v * self._pull_apply(v, y_bar, bar, s_bar)
        s_bar += scaled_bar * self.delta
        c_bar = s * scaled_bar
        kernel_bar, encoded_bar = self._pull_entries(bar * self.workspace.present, s_bar, bars.inputs)
        prior_bar = PriorBar(kernel_bar, pull_mean(self.prior.mean, self.workspace.columns, -c_bar))
        inputs_bar = pull_inputs(self.prior, self.X, encoded_bar, -c_bar) if bars.inputs else None
        return Cotangents(prior_bar, SiteBars(c_bar[:, None], (0.5 * s_bar / s)[:, None]), inputs_bar)

    def _pull_apply(self, v, y_bar, bar, s_bar):
        """Adds what the cotangent of S U U' S v says of U and of the outer S;
        returns the cotangent of S v.
        """
        s, u = self.root, self.U.T @ (self.root * v)
        s_bar += y_bar * (self.U @ u)
        u_bar = self.U.T @ (s * y_bar)
        bar += u[:, None] * (s * y_bar)[self.index] + u_bar[:, None] * (s * v)[self.index]
        return self.U @ u_bar

    def _pull_entries(self, bar, s_bar, inputs):
        """Cotangents of the kernel and the encoded inputs for that of U; adds that of S to s_bar."""
        pull = pull_columns_and_inputs if inputs else pull_columns
        total: Any = 0.0
        encoded_bar = jax.tree.map(lambda a: np.zeros(np.shape(a)), self.encoded)
        for rows, (leaves, root_bar, A_bar) in in_chunks(
            pull, self.kernel, self.shift, self.encoded, self.index, self._roots(), self.entries, bar
        ):
            index = self.index[rows]
            total = [np.asarray(leaf) + (total[i] if total else 0.0) for i, leaf in enumerate(leaves)]
            np.add.at(s_bar, index, root_bar * self.workspace.present[rows])
            if inputs:
                jax.tree.map(
                    lambda out, part, at=index: np.add.at(out, at, np.asarray(part)), encoded_bar, A_bar
                )
        return jax.tree.unflatten(jax.tree.structure(self.kernel), total or []), encoded_bar


def _places(X: np.ndarray) -> np.ndarray:
    try:
        return numeric(X)
    except InputError as error:
        raise SolverError(
            f"Vecchia looks for nearest neighbours, among numbers: {error} Or use solver='dense'."
        ) from None


def reach(kernel: AbstractKernel, X: np.ndarray) -> np.ndarray:
    """How far along each column of X (n, d) the prior correlation stays above one half: (d,).

    Looked up between some of the data and inputs moved away from them, inside the range of the data;
    extrapolated as a parabola.
    """
    low, width = X.min(0), np.ptp(X, axis=0)
    anchors = X[np.linspace(0, X.shape[0] - 1, 8).astype(int)]
    steps = 0.5 * np.logspace(-4, 0, 41)
    inward = np.where(anchors < low + 0.5 * width, 1.0, -1.0) * width
    d = X.shape[1]
    moved = np.broadcast_to(anchors[:, None, None, :], (8, d, steps.size, d)).copy()
    for j in range(d):
        moved[:, j, :, j] += inward[:, None, j] * steps
    start = np.broadcast_to(anchors[:, None, None, :], moved.shape)
    A, B = (kernel.encode(np.ascontiguousarray(x.reshape(-1, d))) for x in (start, moved))
    k, ka, kb = (np.asarray(part).reshape(8, d, -1) for part in tiles.call(_along, kernel, A, B))
    with np.errstate(all="ignore"):
        correlation = np.mean(k / np.sqrt(ka) / np.sqrt(kb), 0)
        correlation = np.nan_to_num(correlation / correlation[:, :1], nan=1.0)
    below = correlation < 0.5
    last = np.where(below.any(1), below.argmax(1), steps.size - 1)
    drop = np.maximum(1.0 - np.take_along_axis(correlation, last[:, None], 1)[:, 0], 1e-6)
    distance = np.where(below.any(1), steps[last], steps[-1] * np.sqrt(0.5 / drop))
    return np.where(width > 0, distance * width, 1.0)


def _along(kernel, A, B):
    return jax.vmap(kernel.point)(A, B), kernel.diag(A), kernel.diag(B)


def expected_loss(
    kernel: AbstractKernel, X: np.ndarray, noise: float, neighbours: int, sample: int = 64
) -> float:
    """Nats that a datum loses on average when it is conditioned on its nearest `neighbours` instead of four
    times as many.

    The expected divergence of the two is half the logarithm of the ratio of their variances, here over a
    sample of the data.
    """
    rng = np.random.default_rng(0)
    places = _places(X) / reach(kernel, X)
    rows = rng.choice(X.shape[0], min(sample, X.shape[0]), replace=False)
    _, near = cKDTree(places).query(places[rows], min(4 * neighbours + 1, X.shape[0]))
    losses = []
    for i, others in zip(rows, near, strict=True):
        A = kernel.encode(X[np.concatenate([[i], others[others != i]])])
        K = tiles.matrix(kernel, A, A)
        V = np.linalg.solve(np.linalg.cholesky(K[1:, 1:] + noise * np.eye(K.shape[0] - 1)), K[1:, 0])
        explained = np.cumsum(V**2)
        variance = K[0, 0] + noise - explained
        losses.append(0.5 * np.log(variance[min(neighbours, variance.shape[0]) - 1] / variance[-1]))
    return float(np.mean(losses))
