"""Low-rank solvers (GPML 8.3): the prior seen through m inducing inputs Z. n m^2 flops, n m numbers, or m^2
when streaming.

With K_mm = L L', Psi = K_nm L^-T (n, m) and Q = Psi Psi' = K_nm K_mm^-1 K_mn, the rest t = diag(K - Q) is
treated in one of four ways; they share everything else:

    SubsetOfRegressors   f ~ N(m, Q) everywhere: too sure of itself far from Z (8.14-8.15)
    ProjectedProcess     the same at the data, the exact prior at test inputs (8.26-8.27); also called DTC
    FITC                 f ~ N(m, Q + diag t) at the data: a prior of its own, every rule runs on it
    VFE                  as ProjectedProcess, with -1/2 sum W t added to the log normaliser: a lower bound of
    the exact one

A site of precision W on f_i with independent variance t_i acts on the rest as precision Lambda = W / (1 + W
t). With C = I + Psi' Lambda Psi: R = Lambda - Lambda Psi C^-1 Psi' Lambda. C has eigenvalues >= 1, and
nothing divides by W.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import Any, ClassVar

import numpy as np

from mercer.linalg.lapack import thread_count
from mercer.prior import AbstractPrior
from mercer.selection import AbstractSelection, Clusters, Pool, Random
from mercer.selection import by_name as selection_by_name
from mercer.solvers.inducing import BLOCK_BYTES, JITTER, STORE_BYTES, InducingWorkspace
from mercer.solvers.lowrank_core import Core
from mercer.solvers.lowrank_state import AugmentedState, LowRankState, NystromState
from mercer.solvers.protocol import (
    RATE,
    AbstractSolver,
    AbstractState,
    AbstractWhole,
    Cost,
    Proposal,
    Sites,
    SolverError,
)

WORTH = 0.5  # of the time of an exact answer is what an approximation may take
SAMPLE = 1000  # data on which the unexplained variance is estimated


@dataclasses.dataclass(frozen=True)
class AbstractLowRank(AbstractSolver):
    """What the low-rank solvers share.

    m: number of inducing inputs
    select: how they are chosen among the data, once, before learning: an object of `mercer.selection`, or its
        name ("k-means", "random", "pivoted", "entropy", ...)
    inducing: your own choice (m, d) instead
    learn: whether `mercer.fit` moves them too
    store: keep the n x m features (None: if they take less than 3 GiB) or compute them again in every pass
    jitter: noise of the inducing variables, in units of the mean prior variance: inducing inputs may nearly
        coincide
    """

    m: int = 512
    select: str | AbstractSelection = "k-means"
    inducing: Any = dataclasses.field(default=None, compare=False, repr=False)
    learn: bool = False
    store: bool | None = None
    seed: int = 0
    jitter: float = JITTER

    offers: ClassVar[frozenset[str]] = frozenset({"variance", "logdet", "sample", "stream"})
    rest_in_prior: ClassVar[bool] = False  # f has the independent part t at the data (FITC)
    rest_in_bound: ClassVar[bool] = False  # the log normaliser pays for t (VFE)
    rest_at_test: ClassVar[bool] = True  # predictions have the exact prior variance
    pilot: ClassVar[bool] = True
    in_chunks: ClassVar[str | None] = "sums"

    def __post_init__(self) -> None:
        who = type(self).__name__
        if self.inducing is not None:
            if np.ndim(self.inducing) != 2:
                raise ValueError(
                    f"{who}.inducing must be rows of inputs, (m, d); its shape is {np.shape(self.inducing)}."
                )
            object.__setattr__(self, "m", int(np.shape(self.inducing)[0]))
        if not isinstance(self.m, (int, np.integer)):
            raise ValueError(f"{who}.m must be a whole number of inducing inputs, got {self.m!r}.")
        if self.m < 1:
            raise ValueError(f"{who} needs at least one inducing input, got m={self.m}.")
        if not (np.ndim(self.jitter) == 0 and 0 <= self.jitter < 1):
            raise ValueError(f"{who}.jitter is a share of the prior variance in [0, 1), got {self.jitter!r}.")
        selection_by_name(self.select)

    def prepare(self, prior: Any, X: np.ndarray, y: np.ndarray, noise_variance: Any = None) -> AbstractSolver:
        if self.inducing is not None:
            return self
        return dataclasses.replace(self, inducing=self._choose(prior, X, y, noise_variance))

    def _choose(self, prior, X, y=None, noise_variance=None) -> np.ndarray:
        if self.m > X.shape[0]:
            raise SolverError(
                f"{type(self).__name__}(m={self.m}) asks for more inducing inputs than there are data "
                f"({X.shape[0]}): ask for m={X.shape[0]} at most, which is exact, as is solver='dense' on "
                "data in one table."
            )
        if self.m == X.shape[0]:
            return X
        selection = selection_by_name(self.select)
        if X.dtype == object and selection == Clusters():  # which has no distances between objects
            selection = Random()
        return X[selection.rows(Pool(prior, X, y, noise_variance), self.m, self.seed)]

    def inducing_inputs(self) -> np.ndarray | None:
        return self.inducing

    def inducing_to_learn(self) -> np.ndarray | None:
        return self.inducing if self.learn else None

    def with_inducing(self, Z: np.ndarray, learn: bool) -> AbstractSolver:
        return dataclasses.replace(self, inducing=Z, learn=learn)

    def workspace(self, prior: Any, X: np.ndarray) -> InducingWorkspace:
        if isinstance(prior, tuple):
            raise SolverError(
                f"{type(self).__name__} takes one latent function: use one-vs-rest classes, or "
                "solver='dense'."
            )
        Z = self.inducing if self.inducing is not None else self._choose(prior, X)
        if np.shape(Z)[1] != X.shape[1]:
            raise SolverError(
                f"the inducing inputs have {np.shape(Z)[1]} columns, but the data have {X.shape[1]}."
            )
        if X.dtype != object and not np.isfinite(np.asarray(Z, float)).all():
            raise SolverError(
                "some inducing inputs are not finite numbers: choose them among the data, or leave "
                "`inducing` out."
            )
        return InducingWorkspace(prior, X, Z, self.store, self.jitter)

    def factor(self, prior: Any, X: np.ndarray, sites: Sites, workspace: Any = None) -> AbstractState:
        return LowRankState(self, prior, X, sites, workspace or self.workspace(prior, X))

    def sums(self, prior: AbstractPrior, X: np.ndarray, sites: Sites) -> dict[str, Any]:
        from mercer.solvers.lowrank_whole import sums

        return sums(self, prior, X, sites)

    def whole(self, sums: dict[str, Any]) -> AbstractWhole:
        from mercer.solvers.lowrank_whole import LowRankWhole

        return LowRankWhole(self, Core.of(sums))

    def cost(self, n: int, d: int, L: int = 1) -> Cost:
        m = min(self.m, n)
        return Cost(
            flops=L * (2.0 * n * m**2 + n * m * (2 * d + 20)), bytes=L * self.bytes(n, thread_count())
        )

    def bytes(self, n: int, threads: int) -> float:
        """What n rows take while so many threads work on them."""
        m = min(self.m, n)
        stored = self.store is True or (self.store is None and 8.0 * n * m <= STORE_BYTES)
        # rows of Psi, weighted, their cotangents, tiles
        working = 14.0 * threads * min(BLOCK_BYTES, 8.0 * n * m)
        return 8.0 * n * m * stored + working + 8.0 * (8 * m**2 + 10 * n)


@dataclasses.dataclass(frozen=True)
class SubsetOfRegressors(AbstractLowRank):
    """f(x) = sum_i alpha_i k(x, z_i): a degenerate prior whose variance vanishes far from the inducing inputs
    (8.3.1).

    augment: each prediction adds k(x, x*) to the basis (Rasmussen and Quinonero-Candela), which mends the
    variance at n m flops for each test input; Gaussian noise only.
    """

    augment: bool = False

    rest_at_test: ClassVar[bool] = False

    @property
    def in_chunks(self) -> str | None:  # type: ignore[override]
        """Not with a weight for each test input, which looks at all data."""
        return None if self.augment else "sums"

    def factor(self, prior: Any, X: np.ndarray, sites: Sites, workspace: Any = None) -> AbstractState:
        state = AugmentedState if self.augment else LowRankState
        return state(self, prior, X, sites, workspace or self.workspace(prior, X))


@dataclasses.dataclass(frozen=True)
class ProjectedProcess(AbstractLowRank):
    """The mean of SubsetOfRegressors with a variance that returns to the prior far from the data (8.3.4)."""


@dataclasses.dataclass(frozen=True)
class FITC(AbstractLowRank):
    """Fully independent training conditionals (Snelson and Ghahramani):
    variances at the data are those of the exact prior.
    """

    rest_in_prior: ClassVar[bool] = True

    @classmethod
    def propose(cls, task: Any) -> Iterable[Proposal]:
        return () if task.gaussian else _proposals(cls, task)


@dataclasses.dataclass(frozen=True)
class VFE(AbstractLowRank):
    """The variational bound of Titsias: `log_evidence` never exceeds the exact one, and its gap says how good
    m is. O(n m^2).

    m: how many inducing inputs
    select: how they are chosen from X, a name ("k-means", "random", "pivoted" ...) or an instance of
        `mercer.selection`
    inducing: the inputs themselves (m, d) instead
    learn: whether `fit` moves them
    store: keep the n x m features (True), or compute them again in blocks (False); None keeps them where
        they are small
    seed: of the choice

    >>> post = mercer.GP(kernels.SE()).condition(X, y, noise_variance=0.1, solver=VFE(m=10))
    >>> post.evidence_bounds()                                # the exact log evidence lies between
    """

    rest_in_bound: ClassVar[bool] = True

    def rest(self, prior: AbstractPrior, X: np.ndarray) -> float:
        """Mean variance of f at the data that the inducing inputs do not explain, on a sample."""
        rows = np.random.default_rng(self.seed).permutation(X.shape[0])[:SAMPLE]
        features = self.workspace(prior, X[rows]).known(prior)
        return float(np.mean(np.maximum(features.diagonal - np.sum(features.of(X[rows]) ** 2, 1), 0.0)))

    @classmethod
    def propose(cls, task: Any) -> Iterable[Proposal]:
        return _proposals(cls, task) if task.gaussian else ()


def _proposals(cls, task):
    """More and more inducing inputs until they are accurate enough, by the variance they leave unexplained;
    or as many as are worth it, where held-out rows will tell.

    Half its mean over the noise variance is the loss of the bound per datum; other likelihoods are taken to
    be as informative as noise of the variance of f.
    """
    from mercer.solvers.auto import LADDER

    if task.several:
        return
    scale = task.noise or task.unexplained(0)
    for m in LADDER:
        seconds = task.rounds * (
            (4.0 * task.n * m**2 + 2.0 * m**3) / RATE + task.n * (4e-6 + 1e-8 * m * (1 + task.d / 40))
        )
        if 2 * m > task.n or seconds > WORTH * task.exact_seconds:
            break
        error = 0.5 * task.unexplained(m) / max(scale, 1e-12)
        says = (
            f"inducing inputs leave about {2 * error:.2g} of the "
            f"{'noise' if task.gaussian else 'prior'} variance unexplained"
        )
        yield Proposal(cls(m=m), seconds, cls(m=m).bytes(task.n, threads=2), error, says)
        if error <= task.tolerance and not task.judged:
            break


@dataclasses.dataclass(frozen=True)
class Nystrom(AbstractLowRank):
    """K replaced by its Nystrom approximation where it is inverted, and only there (8.3.2): variances may
    come out negative, which is guarded and reported. Predictions take n kernel values each;
    SubsetOfRegressors and ProjectedProcess are safer.
    """

    offers: ClassVar[frozenset[str]] = frozenset({"logdet", "variance", "stream"})
    in_chunks: ClassVar[str | None] = None

    def factor(self, prior: Any, X: np.ndarray, sites: Sites, workspace: Any = None) -> AbstractState:
        return NystromState(self, prior, X, sites, workspace or self.workspace(prior, X))
