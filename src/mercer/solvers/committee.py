"""Committees: the data in blocks, a posterior for each, predictions combined (GPML 8.3.5; Tresp's Bayesian
committee machine).

For everything that learning and inference need, a committee is a prior in which blocks are independent: K and
R are block-diagonal, the evidence is the sum over blocks (8.31), and every cotangent is the sum of the
members'. Only predictions put them together. With K the prior covariance of the test values f and C_i = cov(f
| block i), all rules have one form,

    precision = sum_i b_i C_i^-1 + b_0 K^-1,    mean = m + precision^-1 sum_i b_i C_i^-1 (mean_i - m):

    "poe"   product of experts       b_i = 1, b_0 = 0: far from the data p times too sure
    "gpoe"  generalised              b_i in proportion to how much block i lowers the entropy, summing to 1;
    b_0 = 0 "bcm"   Bayesian committee       b_i = 1, b_0 = 1 - p (8.29-8.30): the prior counted once
    "rbcm"  robust                   b_i = the decrease of entropy by block i (per value), b_0 = 1 - sum_i b_i
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import Any, ClassVar

import jax
import numpy as np

from mercer.linalg import tiles
from mercer.linalg.cholesky import LADDER, NotPositiveDefinite
from mercer.params import strip
from mercer.registry import unknown
from mercer.selection.clusters import scaled
from mercer.solvers.dense import Dense
from mercer.solvers.protocol import (
    AbstractSolver,
    AbstractState,
    AbstractWorkspace,
    Bars,
    Cost,
    Cotangents,
    Diagnostics,
    PriorBar,
    SiteBars,
    Sites,
    SolverError,
    worst,
)

SPLIT = ("k-means", "random")
COMBINE = ("bcm", "poe", "gpoe", "rbcm")
# weight of a member that says nothing, so that generalised products stay defined far from all data
SILENT = 1e-12


@dataclasses.dataclass(frozen=True)
class Committee(AbstractSolver):
    """p blocks of about `size` data each, exact within a block, combined where they predict. n size^2 flops,
    n size numbers.

    blocks: their number, if not n / size rounded up
    split: "k-means" (compact clusters of equal size) or "random"
    combine: "bcm", "poe", "gpoe" or "rbcm" (see the module)
    base: the solver of each block
    query: how many test inputs are predicted jointly, in the order given; 1 predicts each on its own (cheap,
        and independent of the other test inputs)

    The Bayesian committee machine is transductive: its members agree on a prediction through the other test
    inputs of the query, and it is exact when those include all training inputs. `full=True` and joint draws
    take all test inputs as one query.

    >>> post = gp.condition(X, y, 0.1, solver=Committee(size=500, query=200))
    """

    blocks: int | None = None
    size: int = 1000
    split: str = "k-means"
    combine: str = "bcm"
    base: AbstractSolver = Dense()
    query: int = 1
    seed: int = 0

    in_chunks: ClassVar[str | None] = "members"

    def __post_init__(self) -> None:
        if self.split not in SPLIT:
            raise ValueError(unknown("Committee.split", self.split, SPLIT))
        if self.combine not in COMBINE:
            raise ValueError(unknown("Committee.combine", self.combine, COMBINE))
        for name in ("size", "query", "blocks"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ValueError(f"Committee.{name} must be 1 or more, got {value}.")

    @property
    def offers(self) -> frozenset[str]:  # type: ignore[override]
        """Not "full": the joint covariance of a query is not that of the block-diagonal posterior at the
        data.
        """
        return self.base.offers & {"variance", "logdet", "sample", "blocks", "indefinite"}

    def members(self, X: np.ndarray) -> list[np.ndarray]:
        """The rows of every block, in ascending order. They depend on the inputs and the seed alone."""
        n = X.shape[0]
        p = self.blocks or -(-n // self.size)
        if p > n:
            raise SolverError(f"{p} blocks for {n} data would leave some empty: ask for at most {n}.")
        if X.dtype == object and self.split == "k-means" and p > 1:
            raise SolverError("clusters need numeric inputs; for text and categories split='random'.")
        if self.split == "random":
            order = np.random.default_rng(self.seed).permutation(n)
            return [np.sort(rows) for rows in np.array_split(order, p)]
        return [np.sort(rows) for rows in _clusters(scaled(X), np.arange(n), p)] if p > 1 else [np.arange(n)]

    def workspace(self, prior: Any, X: np.ndarray) -> CommitteeWorkspace:
        return CommitteeWorkspace(self, prior, X)

    def factor(self, prior: Any, X: np.ndarray, sites: Sites, workspace: Any = None) -> AbstractState:
        return CommitteeState(self, prior, X, sites, workspace or CommitteeWorkspace(self, prior, X))

    def together(
        self, priors: tuple[Any, ...], Xs: np.ndarray, answers: list[tuple[np.ndarray, np.ndarray]]
    ) -> tuple[np.ndarray, np.ndarray]:
        return together(self.combine, priors, Xs, answers)

    def cost(self, n: int, d: int, L: int = 1) -> Cost:
        p = self.blocks or -(-n // self.size)
        one = self.base.cost(-(-n // p), d, L)
        return Cost(p * one.flops, p * one.bytes)


def _clusters(Z: np.ndarray, rows: np.ndarray, p: int) -> list[np.ndarray]:
    """p clusters of equal size: two means at a time,
    cut across the line that joins them where the sizes come out right.
    """
    if p == 1:
        return [rows]
    left, A = p // 2, Z[rows]
    axis = np.linalg.svd(A[:: max(1, rows.size // 2048)] - A.mean(0), full_matrices=False)[2][0]
    cut = max(left, round(rows.size * left / p))
    for _ in range(5):
        order = np.argsort(A @ axis, kind="stable")
        step = A[order[cut:]].mean(0) - A[order[:cut]].mean(0)
        if not np.any(step):
            break
        axis = step
    return _clusters(Z, rows[order[:cut]], left) + _clusters(Z, rows[order[cut:]], p - left)


class CommitteeWorkspace(AbstractWorkspace):
    """The blocks, and a workspace of the base solver for each."""

    def __init__(self, solver: Committee, prior: Any, X: np.ndarray):
        self.rows = solver.members(X)
        self.X = [X[rows] for rows in self.rows]
        self.children = [solver.base.workspace(prior, X) for X in self.X]

    def hold(self, prior: Any) -> None:
        for child in self.children:
            child.hold(prior)

    def share(self, other: CommitteeWorkspace) -> None:
        for mine, theirs in zip(self.children, other.children, strict=True):
            mine.share(theirs)


class CommitteeState(AbstractState):
    """The members' States side by side; `members` holds them, `rows` the data of each."""

    exact = False

    @property
    def pulls(self) -> frozenset[str]:
        """What all members pull back."""
        return frozenset.intersection(*(member.pulls for member in self.members))

    def __init__(
        self, solver: Committee, prior: Any, X: np.ndarray, sites: Sites, workspace: CommitteeWorkspace
    ):
        self.solver, self.prior, self.X, self.sites, self.rows = solver, prior, X, sites, workspace.rows
        self.priors = prior if isinstance(prior, tuple) else (prior,) * sites.centre.shape[1]
        self.members: list[Any] = [
            solver.base.factor(
                prior, block, jax.tree.map(lambda a, rows=rows: np.asarray(a)[rows], sites), space
            )
            for rows, block, space in zip(self.rows, workspace.X, workspace.children, strict=True)
        ]
        self.jitter = max(member.jitter for member in self.members)
        self.log_normaliser = float(sum(member.log_normaliser for member in self.members))
        self.alpha = self._gather([member.alpha for member in self.members])
        self.notes = tuple(dict.fromkeys(note for member in self.members for note in member.notes))

    def _gather(self, parts) -> np.ndarray:
        """Rows of the members' arrays put back where they belong."""
        first = np.asarray(parts[0])
        out = np.empty((self.X.shape[0], *first.shape[1:]))
        for rows, part in zip(self.rows, parts, strict=True):
            out[rows] = part
        return out

    # -- views of the block-diagonal posterior ---------------------------------------------------------------

    def prior_mean(self) -> np.ndarray:
        return self._gather([member.prior_mean() for member in self.members])

    def mean(self) -> np.ndarray:
        return self._gather([member.mean() for member in self.members])

    def marginals(self) -> tuple[np.ndarray, np.ndarray]:
        means, variances = zip(*[member.marginals() for member in self.members], strict=True)
        return self._gather(means), self._gather(variances)

    def site_marginals(self) -> tuple[np.ndarray, np.ndarray]:
        means, variances = zip(*[member.site_marginals() for member in self.members], strict=True)
        return self._gather(means), self._gather(variances)

    def dual(self) -> tuple[np.ndarray, np.ndarray]:
        alphas, kappas = zip(*[member.dual() for member in self.members], strict=True)
        return self._gather(alphas), self._gather(kappas)

    def apply(self, V: np.ndarray) -> np.ndarray:
        return self._gather(
            [member.apply(V[rows]) for rows, member in zip(self.rows, self.members, strict=True)]
        )

    def times_K(self, V: np.ndarray) -> np.ndarray:
        return self._gather(
            [member.times_K(V[rows]) for rows, member in zip(self.rows, self.members, strict=True)]
        )

    def diagnostics(self) -> Diagnostics:
        """That of the worst member."""
        return dataclasses.replace(worst(member.diagnostics() for member in self.members), notes=self.notes)

    def cross(self, Xs: np.ndarray, V: np.ndarray) -> np.ndarray:
        raise SolverError(
            "a committee's predictions are not products with K(Xs, X): basis functions need another "
            "solver, or a "
            "Linear kernel instead of them."
        )

    def pull(self, bars: Bars) -> Cotangents:
        parts = [member.pull(_at(bars, rows)) for rows, member in zip(self.rows, self.members, strict=True)]
        slope = None if self.sites.slope is None else self._gather([part.sites.slope for part in parts])
        bar = SiteBars(
            self._gather([part.sites.centre for part in parts]),
            self._gather([part.sites.precision for part in parts]),
            slope,
        )
        return Cotangents(
            _sum([part.prior for part in parts]),
            bar,
            self._gather([p.inputs for p in parts]) if bars.inputs else None,
        )

    def answers(self, Xs: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
        """What each member says of f at Xs, one at a time: mean (m, L) and covariance (m, L, L)."""
        L = len(self.priors)
        said = (member.predict(Xs) for member in self.members)
        return [(mean, np.reshape(variance, (-1, L, L))) for mean, variance in said]

    # -- combined predictions --------------------------------------------------------------------------------

    def predict(
        self, Xs: np.ndarray, full: bool = False, variance: bool = True
    ) -> tuple[np.ndarray, np.ndarray | None]:
        if len(self.members) == 1:
            return self.members[0].predict(Xs, full, variance)
        L, m, q = len(self.priors), Xs.shape[0], self.solver.query
        if full:
            mean, covariance = self._joint(Xs)
            return mean[:, None], covariance if variance else None
        if L > 1 or q == 1:
            mean, covariance = self._pointwise(Xs)
            return mean, None if not variance else covariance if L > 1 else covariance[:, :, 0]
        blocks = [self._joint(Xs[i : i + q]) for i in range(0, m, q)]
        means, variances = zip(*[(mean, np.diag(covariance)) for mean, covariance in blocks], strict=True)
        return np.concatenate(means)[:, None], np.concatenate(variances)[:, None] if variance else None

    def _joint(self, Xs) -> tuple[np.ndarray, np.ndarray]:
        """Mean (q,) and covariance (q, q) of f at one query."""
        if len(self.priors) > 1:
            raise SolverError(
                "a joint covariance over inputs is available for one latent function; ask for variances."
            )
        kernel = strip(self.prior.kernel)
        prior = tiles.matrix(kernel, *[kernel.encode(Xs)] * 2)[None]
        m = np.asarray(self.prior.mean.value(Xs), float)[None]
        answers = (
            (mean[None, :, 0], C[None])
            for mean, C in (member.predict(Xs, full=True) for member in self.members)
        )
        mean, covariance = combine(self.solver.combine, len(self.members), m, prior, answers)
        return mean[0], covariance[0]

    def _pointwise(self, Xs) -> tuple[np.ndarray, np.ndarray]:
        """Mean (m, L) and covariance (m, L, L) of the latent values at each test input by itself."""
        return together(self.solver.combine, self.priors, Xs, self.answers(Xs))


def together(
    rule: str, priors: tuple[Any, ...], Xs: np.ndarray, answers: list[tuple[np.ndarray, np.ndarray]]
) -> tuple[np.ndarray, np.ndarray]:
    """Mean (m, L) and covariance (m, L, L) at each test input by itself, from what all members say."""
    L = len(priors)
    prior, m = np.zeros((Xs.shape[0], L, L)), np.empty((Xs.shape[0], L))
    for j, gp in enumerate(priors):
        kernel = strip(gp.kernel)
        panels = tiles.Panels(kernel.encode(Xs), tiles.tile_size(Xs.shape[0]))
        prior[:, j, j] = tiles.diagonal(kernel, panels)
        m[:, j] = np.asarray(gp.mean.value(Xs), float)
    return combine(rule, len(answers), m, prior, answers)


FLOORS = (0.0, 1e-9, 1e-7)  # of the prior variance, tried in turn


def combine(
    rule: str, p: int, m: np.ndarray, K: np.ndarray, answers: Iterable[tuple[np.ndarray, np.ndarray]]
) -> tuple[np.ndarray, np.ndarray]:
    """Mean (b, k) and covariance (b, k, k) from the p members' `answers`, pairs of such arrays: b queries of
    k values each.

    All in coordinates in which the prior N(m, K) is N(0, I): there each member's covariance S lies between 0
    and I, and for the committee machines the precision I + sum_i b_i (S_i^-1 - I) is never less than I.
    Rounding can break that where a query's prior is nearly singular: a little is then added to the diagonals,
    and taken off the result.
    """
    answers, scale = list(answers), float(np.mean(np.einsum("bii->bi", K))) or 1.0
    for relative in FLOORS[:-1]:
        try:
            return _combine(rule, m, K, answers, relative * scale)
        except NotPositiveDefinite:
            continue
    return _combine(rule, m, K, answers, FLOORS[-1] * scale)


def _combine(
    rule: str, m: np.ndarray, K: np.ndarray, answers: list, floor: float
) -> tuple[np.ndarray, np.ndarray]:
    I = np.eye(K.shape[-1])
    K = K + floor * I
    L, jitter = _root(K, float(np.mean(np.einsum("bii->bi", K))) or 1.0, "the prior covariance of a query")
    J = np.linalg.inv(L)
    precision, h, total = np.zeros_like(K), np.zeros_like(m), np.zeros(K.shape[0])
    for mean, C in answers:
        S = J @ (C + (jitter + floor) * I) @ _t(J)
        T, _ = _root(0.5 * (S + _t(S)), 1.0, "a member's covariance of a query")
        G = np.linalg.inv(T)  # S^-1 = G' G
        weight = np.ones(K.shape[0])
        if rule in ("gpoe", "rbcm"):
            weight = np.maximum(-np.mean(np.log(np.einsum("bii->bi", T)), 1), 0.0) + (
                SILENT if rule == "gpoe" else 0.0
            )
        precision += weight[:, None, None] * (_t(G) @ G)
        h += weight[:, None] * (_t(G) @ (G @ (J @ (mean - m)[..., None])))[..., 0]
        total += weight
    if rule == "gpoe":
        precision, h = precision / total[:, None, None], h / total[:, None]
    if rule in ("bcm", "rbcm"):
        precision += (1.0 - total)[:, None, None] * I
    G = np.linalg.inv(_root(precision, 0.0, "the combined precision of a query")[0])
    A = L @ _t(G)
    return m + (A @ (G @ h[..., None]))[..., 0], A @ _t(A) - floor * I


def _t(A: np.ndarray) -> np.ndarray:
    return np.swapaxes(A, -1, -2)


def _root(A: np.ndarray, scale: float, what: str) -> tuple[np.ndarray, float]:
    """Lower factors of a batch of matrices, and the jitter that was needed:
    a multiple of `scale` from the ladder.
    """
    for jitter in [relative * scale for relative in LADDER] if scale else [0.0]:
        try:
            return np.linalg.cholesky(A + jitter * np.eye(A.shape[-1])), jitter
        except np.linalg.LinAlgError:
            continue
    raise NotPositiveDefinite(
        f"{what} is not positive definite: test inputs coincide or the noise is almost zero. Ask for "
        "smaller queries, or query=1."
    )


def _at(bars: Bars, rows: np.ndarray) -> Bars:
    """The bars of some data."""
    arrays = {name: getattr(bars, name) for name in ("mean", "var", "alpha", "kappa", "apply")}
    return dataclasses.replace(bars, **jax.tree.map(lambda a: np.asarray(a)[rows], arrays))


def _sum(bars: list[Any]) -> Any:
    """The members' cotangents of the prior, or of a tuple of priors, added up."""
    if isinstance(bars[0], tuple):
        return tuple(_sum(list(parts)) for parts in zip(*bars, strict=True))
    kernel = jax.tree.map(lambda *leaves: np.sum(leaves, 0), *[bar.kernel for bar in bars])
    return PriorBar(kernel, jax.tree.map(lambda *leaves: np.sum(leaves, 0), *[bar.mean for bar in bars]))
