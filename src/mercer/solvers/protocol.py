"""What a solver offers. `solver.factor(prior, X, sites)` does all the hard work and returns a State.

Every approximate Gaussian posterior is an exact one on *sites*: each likelihood factor is replaced by
exp(g.(f - c) - 1/2 (f - c)' W (f - c)). With delta = c - m, R = (K + W^-1)^-1 and alpha = g + R(delta - K g):

    log normaliser = -1/2 log|I + W^1/2 K W^1/2| - 1/2 (delta - Kg)' R (delta - Kg) - g.delta + 1/2 g'Kg
    posterior mean = m + K alpha,   posterior covariance = K - K R K.

Nothing here divides by W: W = 0 is legal, and nothing cancels when W is huge. With L latent functions W is a
block for each datum, diag(D) - P P'; a negative precision is the case D = 0, P = sqrt(-W).
"""

from __future__ import annotations

import abc
import dataclasses
import functools
from collections.abc import Callable, Iterable
from typing import Any, ClassVar, NamedTuple

import jax
import numpy as np

from mercer.linalg.cholesky import NotPositiveDefinite
from mercer.prior import AbstractPrior
from mercer.registry import Saved
from mercer.selection import Pool


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, eq=False)
class Sites:
    """Gaussian sites, one row per datum and L columns (latent functions): centre c, precision W, slope g
    (None: zero).

    `coupling` P (n, L, r) makes the precision of datum i the block diag(W_i) - P_i P_i'.
    """

    centre: Any
    precision: Any
    slope: Any = None
    coupling: Any = None

    def __post_init__(self) -> None:
        if any(
            a is not None and not hasattr(a, "shape")
            for a in (self.centre, self.precision, self.slope, self.coupling)
        ):
            return  # inside a tree transformation
        shapes = {np.shape(a) for a in (self.centre, self.precision, self.slope) if a is not None}
        if len(shapes) != 1 or len(next(iter(shapes))) != 2:
            raise ValueError(
                f"sites need centre, precision and slope of one shape (n, L), got {sorted(map(str, shapes))}."
            )
        if self.coupling is not None and (
            np.ndim(self.coupling) != 3 or np.shape(self.coupling)[:2] != np.shape(self.centre)
        ):
            raise ValueError(
                f"the coupling of sites {np.shape(self.centre)} must be (n, L, r), got "
                f"{np.shape(self.coupling)}."
            )


@dataclasses.dataclass(frozen=True, eq=False)
class Bars:
    """Cotangents of what a State says, for one pass back: None for what is not asked about.

    `inputs`: whether the cotangent of the inputs is asked for too. `consume`: whether the pass may overwrite
    the factor.
    """

    log_normaliser: float = 0.0
    mean: np.ndarray | None = None  # (n, L)
    var: np.ndarray | None = None  # (n, 1), of the variances of one latent function
    alpha: np.ndarray | None = None  # (n, L)
    kappa: np.ndarray | None = None  # (n, 1)
    apply: tuple[np.ndarray, np.ndarray] | None = None  # V (n, q), and the cotangent of R V (n, q)
    inputs: bool = False
    consume: bool = False

    def asked(self) -> frozenset[str]:
        """What must be among a State's `pulls`."""
        named = {name: getattr(self, name) for name in ("mean", "var", "alpha", "kappa", "apply")}
        given = {name for name, bar in named.items() if bar is not None}
        return frozenset(given | {"log_normaliser"} | ({"inputs"} if self.inputs else set()))


PULLS: dict[str, str] = {
    "log_normaliser": "the log normaliser",
    "mean": "means at the data",
    "var": "variances at the data",
    "alpha": "alpha",
    "kappa": "kappa = diag R",
    "apply": "R V",
    "inputs": "the inputs",
}  # what a State may pull back, in words
EVERYTHING = frozenset(PULLS)


@dataclasses.dataclass(frozen=True, eq=False)
class PriorBar:
    """Derivatives with respect to a prior: `kernel` and `mean` are values of the same structure with
    derivatives for leaves; `inducing` (m, d) is that of the solver's inducing inputs, where it learns them.
    """

    kernel: Any
    mean: Any
    inducing: np.ndarray | None = None


@dataclasses.dataclass(frozen=True)
class Cotangents:
    """Derivatives of a scalar: of the prior (a tuple for several latent functions), of the sites, and of the
    inputs (n, d) where asked.
    """

    prior: PriorBar | tuple[PriorBar, ...]
    sites: SiteBars
    inputs: np.ndarray | None = None


@dataclasses.dataclass(frozen=True)
class SiteBars:
    """Derivatives with respect to centre (n, L), precision (n, L) or (n, L, L), and slope (n, L)
    (None where there is none).
    """

    centre: Any
    precision: Any
    slope: Any = None


class Bounds(NamedTuple):
    """The exact log normaliser lies between these two."""

    lower: float
    upper: float


class BasisWeights(NamedTuple):
    """Posterior of the weights beta of explicit basis functions h(x)' beta (2.42)."""

    mean: np.ndarray  # (p,)
    covariance: np.ndarray  # (p, p): A^-1
    RH: np.ndarray  # (n, p): R of the prior without them, times H = h(X)
    dropped: tuple[int, ...] = ()  # those left out, as combinations of others at these inputs: weight zero


@dataclasses.dataclass(frozen=True, eq=False)
class MeanWeights:
    """What the posterior mean at new inputs needs besides the prior and the data's inputs (2.27):

        m(x) + h(x)' beta + k(x, X) alpha     (one column of alpha for each latent function)

    With inducing inputs Z, k(x, Z) alpha in place of k(x, X) alpha. Small and plain, where the factor is not:
    this is what files hold. `KernelMean` computes with it.
    """

    weights: np.ndarray  # alpha (n, L), or (m, 1) of the inducing inputs
    beta: np.ndarray | None = None  # (p,): posterior mean of the weights of explicit basis functions
    inducing: np.ndarray | None = None  # Z (m, d)


@dataclasses.dataclass(frozen=True)
class Diagnostics:
    """How the algebra went, for people.

    condition: the condition number of the matrix that was factored, or a lower bound of it; None where no
        matrix was
    matrix: which one that is
    jitter: what was added to its diagonal
    rank: how many functions stand for the prior (inducing inputs, features); None: all of it
    bounds: of the exact log normaliser, where they are known
    notes: what else a person should know about the approximation made
    """

    condition: float | None = None
    matrix: str = ""
    jitter: float = 0.0
    rank: int | None = None
    bounds: Bounds | None = None
    notes: tuple[str, ...] = ()


def worst(parts: Iterable[Diagnostics]) -> Diagnostics:
    """Of several factorisations, that of the worst condition, with the largest jitter of all."""
    parts = tuple(parts)
    worst = max(parts, key=lambda part: part.condition or 0.0)
    return dataclasses.replace(worst, jitter=max(part.jitter for part in parts))


def condition_from_pivots(pivots: np.ndarray) -> float:
    """A lower bound of the condition number of L L', from the diagonal of L."""
    pivots = np.abs(pivots)
    return float((pivots.max() / pivots.min()) ** 2)


RATE = 5e10  # flops per second of the nominal machine, in large products


@dataclasses.dataclass(frozen=True)
class Cost:
    """What a factorisation will take. `rate`: flops per second of this kind of work on the nominal machine,
    which is the same everywhere: what is chosen by it does not depend on how busy a machine is.
    """

    flops: float
    bytes: float
    rate: float = RATE

    @property
    def seconds(self) -> float:
        """Of one value and its gradient, on the nominal machine."""
        return 3.0 * self.flops / self.rate


@dataclasses.dataclass(frozen=True)
class Proposal:
    """A solver for a task (see `mercer.solvers.auto`): seconds for one value and gradient on the nominal
    machine, bytes, the estimated error in nats per datum (0: exact, inf: nobody knows), a few words for
    people, and the mean log density of rows that were held out of it, where that was looked at.
    """

    solver: Any
    seconds: float
    bytes: float
    error: float
    says: str
    held_out: float | None = None


Judge = Callable[["AbstractSolver"], float]
"""Mean log density, in nats, that a solver gives to rows held out of the data it is conditioned on. Who knows
likelihoods makes one; it raises `SolverError` or LinAlgError for a solver that cannot work on them."""


class SolverError(ValueError):
    """A solver was asked for something it does not do; the message names one that does."""


def check_sites(sites: Sites, who: str) -> None:
    """Finite centres and precisions; one latent function, no precision negative."""
    if not (np.isfinite(sites.precision).all() and np.isfinite(sites.centre).all()):
        raise SolverError("the sites are not finite.")
    if is_coupled(sites):
        raise SolverError(
            f"{who} needs sites of one latent function with non-negative precision; "
            "Dense(backend='lapack') takes all."
        )


def is_coupled(sites: Sites) -> bool:
    """Whether the sites need more than one latent function with precisions W >= 0."""
    if sites.centre.shape[1] > 1 or sites.coupling is not None:
        return True
    return not isinstance(sites.precision, jax.core.Tracer) and bool((np.asarray(sites.precision) < 0).any())


@Saved.register
@dataclasses.dataclass(frozen=True)
class AbstractSolver(abc.ABC):
    """How Gaussian algebra is done. `offers` is a set out of variance, logdet, blocks, indefinite, sample,
    stream, full: the joint covariance of f at the data is what `predict` says at the same inputs, and exact:
    the algebra is that of the prior itself, nothing stands in its place. why: how it came to be chosen, for
    people.
    """

    offers: ClassVar[frozenset[str]]
    # choices depend on hyperparameters: learning finds rough ones on a part of the data first
    pilot: ClassVar[bool] = False
    # how it works on data in chunks: "sums" over rows (`mercer.solvers.lowrank_core`), "members" that see one
    # chunk each; None: it does not
    in_chunks: ClassVar[str | None] = None
    why: str = dataclasses.field(
        default="", kw_only=True, compare=False, repr=False, metadata={"words": True}
    )

    # -- hooks: what only some solvers do, with a default that does nothing ----------------------------------

    @classmethod
    def propose(cls, task: Any) -> Iterable[Proposal]:
        """Itself, for solver="auto", where it suits the task; nothing by default."""
        return ()

    def chosen(
        self, prior: Any, X: np.ndarray, noise_variance: Any = None, judge: Judge | None = None
    ) -> AbstractSolver:
        """The solver that does the work: itself by default. Asked first, before `rows` and `prepare`; `judge`
        says how well a candidate predicts rows held out of it.
        """
        return self

    def rows(self, pool: Pool) -> np.ndarray | slice:
        """Which of the data it works on, in ascending order: all of them by default. Asked once, before
        `prepare`; whoever asks cuts the data.
        """
        return slice(None)

    def some_rows(self, X: np.ndarray, size: int, rng: np.random.Generator) -> np.ndarray:
        """About so many rows of X, at random and in ascending order, that it can work on as it does on all:
        learning looks at a part of the data first. All rows where no part will do.
        """
        return np.sort(rng.choice(X.shape[0], max(2, min(X.shape[0], size)), replace=False))

    def prepare(self, prior: Any, X: np.ndarray, y: np.ndarray, noise_variance: Any = None) -> AbstractSolver:
        """The same solver with every choice made that depends on data (inducing inputs, blocks). Called once
        before learning.

        `noise_variance` is that of Gaussian noise, else None.
        """
        return self

    def one_matrix(self, n: int) -> bool:
        """Whether its algebra of n data is one covariance matrix, factored by LAPACK on the host."""
        return False

    def learned_from(self, n: int) -> int:
        """How many rows there were, where it holds n of them."""
        return n

    def check_room(self, n: int) -> None:  # noqa: B027  (a hook)
        """Refuse n rows that surely do not fit into memory, before anything is done with a part of them."""

    def with_basis(self) -> AbstractSolver:
        """The same solver for a prior with explicit basis functions."""
        from mercer.solvers.basis import WithBasis

        return WithBasis(self)

    def rest(self, prior: AbstractPrior, X: np.ndarray) -> float:
        """Mean variance of f at the data that the solver takes for noise."""
        return 0.0

    def inducing_inputs(self) -> np.ndarray | None:
        """Inducing inputs (m, d) through which the prior is seen; None: there are none, or not yet."""
        return None

    def inducing_to_learn(self) -> np.ndarray | None:
        """Inducing inputs (m, d) that learning is asked to move; None: there are none."""
        return None

    def with_inducing(self, Z: np.ndarray, learn: bool) -> AbstractSolver:
        """The same solver with its inducing inputs at Z (m, d), to be moved further or not."""
        return self

    # -- rows in several places: hooks of solvers whose `in_chunks` is "sums" --------------------------------

    def sums(self, prior: AbstractPrior, X: np.ndarray, sites: Sites) -> dict[str, Any]:
        """What these rows say, as numbers and arrays that add up to what all rows say."""
        raise self._no_sums()

    def whole(self, sums: dict[str, Any]) -> AbstractWhole:
        """What all rows say, from the sum of what each of several parts said."""
        raise self._no_sums()

    def together(
        self, priors: tuple[Any, ...], Xs: np.ndarray, answers: list[tuple[np.ndarray, np.ndarray]]
    ) -> tuple[np.ndarray, np.ndarray]:
        """Mean (m, L) and covariance (m, L, L) of f at each of Xs by itself, from what all members say of it
        (`AbstractState.answers`): a hook of solvers whose `in_chunks` is "members".
        """
        raise self._no_sums()

    def _no_sums(self) -> SolverError:
        return SolverError(
            f"{type(self).__name__} does not work on rows in several places: use solvers.VFE(m=512), FITC or "
            "ProjectedProcess."
        )

    # -- what every solver does ------------------------------------------------------------------------------

    @abc.abstractmethod
    def factor(
        self, prior: AbstractPrior, X: np.ndarray, sites: Sites, workspace: Any = None
    ) -> AbstractState:
        """All the hard work. `prior` is bound to the columns of X (n, d)."""

    @abc.abstractmethod
    def workspace(self, prior: AbstractPrior, X: np.ndarray) -> AbstractWorkspace:
        """What can be reused between factorisations on the same X: buffers, encoded inputs.
        `prior` may be a tuple of priors.
        """

    @abc.abstractmethod
    def cost(self, n: int, d: int, L: int = 1) -> Cost:
        """What factoring n rows of d columns with L latent functions takes: flops and bytes."""


class AbstractWorkspace(abc.ABC):  # noqa: B024  (hooks)
    """What factorisations on one X can reuse. `memory` is where an inference rule keeps its last sites,
    to start from them again. The hooks do nothing by default: right where there is nothing to keep.
    """

    @functools.cached_property
    def memory(self) -> dict[str, Any]:
        """Sites of the last run, by the name of the rule."""
        return {}

    def hold(self, prior: AbstractPrior | tuple[AbstractPrior, ...]) -> None:  # noqa: B027  (a hook)
        """The prior will stay the same until the next call: what depends on it alone is computed once."""

    def share(self, other: Any) -> None:  # noqa: B027  (a hook)
        """Use what another workspace of the same solver holds."""

    def move_inducing(self, Z: np.ndarray) -> None:  # noqa: B027  (a hook)
        """The solver's inducing inputs are at Z (m, d) from now on."""


class PlainWorkspace(AbstractWorkspace):
    """Of a solver that has nothing to reuse."""


class AbstractWhole(abc.ABC):
    """What all rows together say of a problem whose rows are in several places."""

    log_normaliser: float
    n: int  # rows

    @abc.abstractmethod
    def pull(
        self, prior: AbstractPrior, X: np.ndarray, sites: Sites
    ) -> tuple[Cotangents, dict[str, np.ndarray]]:
        """Of the log normaliser of all: what some rows say of its derivatives, and what they say for `rest`.
        Both are to be summed over all rows.
        """

    @abc.abstractmethod
    def rest(self, prior: AbstractPrior, sums: dict[str, np.ndarray]) -> PriorBar:
        """What remains of its derivatives when all rows have said theirs."""

    @abc.abstractmethod
    def condensed(self) -> AbstractSolver:
        """A solver that has seen all rows, and predicts without them. Its State is of the rows it is given,
        as a part of all.
        """


ROUNDING = 1e-6  # of the prior variance: how far below zero a posterior variance may be


class AbstractState(abc.ABC):
    """A factored problem. Immutable; every method is a view (shapes for L latent functions)."""

    prior: AbstractPrior
    X: np.ndarray
    sites: Sites
    jitter: float
    log_normaliser: float
    alpha: np.ndarray  # (n,), or (n, L): R(z - m)
    instead: str = "solver='dense'"  # what does the derivatives that it does not, for people
    notes: tuple[str, ...] = ()  # what a person should know about the approximation made
    partial: bool = False  # X are some of the rows that were learned from
    exact: bool = True  # predictions are K_* alpha and K_** - K_* R K_*' with the prior's own covariances

    @property
    def learned_from(self) -> int:
        """How many rows, of which X are all unless it is `partial`."""
        return int(self.X.shape[0])

    @property
    @abc.abstractmethod
    def pulls(self) -> frozenset[str]:
        """What `pullback` takes: a set of names out of `PULLS`. Everything else it refuses."""

    @property
    def who(self) -> str:
        """How errors name it."""
        return type(self).__name__.removesuffix("State")

    @abc.abstractmethod
    def prior_mean(self) -> np.ndarray:
        """m at the data (n, L)."""

    @abc.abstractmethod
    def mean(self) -> np.ndarray:
        """Posterior mean of f at the data (n, L)."""

    @abc.abstractmethod
    def marginals(self) -> tuple[np.ndarray, np.ndarray]:
        """Posterior mean (n, L) and variance of f at the data, as the likelihood sees them.

        The variance is (n, 1) for one latent function, and (n, L, L) for several.
        """

    def site_marginals(self) -> tuple[np.ndarray, np.ndarray]:
        """The same as the site sees them; different only for projected priors."""
        return self.marginals()

    @abc.abstractmethod
    def dual(self) -> tuple[np.ndarray, np.ndarray]:
        """alpha (n, L) and kappa = diag R (n, L)."""

    @abc.abstractmethod
    def apply(self, V: np.ndarray) -> np.ndarray:
        """R V for V (n, q)."""

    @abc.abstractmethod
    def times_K(self, V: np.ndarray) -> np.ndarray:
        """K V for V (n, q), K the prior covariance at the data; (n, L) for several latent functions."""

    @abc.abstractmethod
    def cross(self, Xs: np.ndarray, V: np.ndarray) -> np.ndarray:
        """K(Xs, X) V for V (n, q): (m, q)."""

    def pullback(
        self,
        log_normaliser_bar: float = 0.0,
        mean_bar: np.ndarray | None = None,
        var_bar: np.ndarray | None = None,
        alpha_bar: np.ndarray | None = None,
        kappa_bar: np.ndarray | None = None,
        apply_bar: tuple[np.ndarray, np.ndarray] | None = None,
        *,
        inputs: bool = False,
        consume: bool = False,
    ) -> Cotangents:
        """Cotangents of everything the State was made of, in one joint pass.

        `apply_bar` is (V, cotangent of R V). `consume=True` lets the pass overwrite the factor: the State is
        spent afterwards.
        """
        bars = Bars(log_normaliser_bar, mean_bar, var_bar, alpha_bar, kappa_bar, apply_bar, inputs, consume)
        if beyond := bars.asked() - self.pulls:
            missing = [words for name, words in PULLS.items() if name in beyond]
            raise SolverError(
                f"{self.who} has no derivatives of {' and '.join(missing)}; use {self.instead}."
            )
        return self.pull(bars)

    @abc.abstractmethod
    def pull(self, bars: Bars) -> Cotangents:
        """The pass itself, for bars that are all among `pulls`."""

    @abc.abstractmethod
    def predict(
        self, Xs: np.ndarray, full: bool = False, variance: bool = True
    ) -> tuple[np.ndarray, np.ndarray | None]:
        """Mean (m, L) and variance of f at Xs, (m, 1) or (m, L, L); `full=True` the covariance (m, m)
        instead, (m, L, m, L) of several latent functions; `variance=False` the mean only.
        """

    def sample(self, seed: Any, Xs: np.ndarray, size: int) -> np.ndarray:
        """`size` joint draws of f at Xs: (size, m); (size, m, L) of several latent functions."""
        from mercer.prior import sample_gaussian

        mean, covariance = self.predict(Xs, full=True)
        assert covariance is not None
        if mean.shape[1] > 1:
            together = covariance.reshape(mean.size, mean.size)
            return sample_gaussian(mean.ravel(), together, size, seed).reshape(size, *mean.shape)
        try:
            return sample_gaussian(mean[:, 0], covariance, size, seed)
        except NotPositiveDefinite:
            # where f is all but known the covariance is a small difference of large ones: what is negative
            # by their rounding is zero
            values, vectors = np.linalg.eigh(covariance)
            kernel = self.prior.kernel
            if values[0] < -ROUNDING * float(np.max(np.asarray(kernel.diag(kernel.encode(Xs))))):
                raise
            u = np.random.default_rng(seed).standard_normal((size, len(mean)))
            drawn: np.ndarray = mean[:, 0] + (u * np.sqrt(np.maximum(values, 0.0))) @ vectors.T
            return drawn

    # -- hooks: what only some States know -------------------------------------------------------------------

    def diagnostics(self) -> Diagnostics:
        """How the algebra went."""
        return Diagnostics(jitter=self.jitter, notes=self.notes)

    def evidence_bounds(self) -> Bounds | None:
        """The exact log normaliser lies between these, where a bound above and one below are known."""
        return None

    def basis_weights(self) -> BasisWeights | None:
        """Posterior of the weights of the prior's explicit basis functions; None where it has none."""
        return None

    def mean_weights(self) -> MeanWeights | None:
        """What `predict(..., variance=False)` needs without the factor; None where it needs the factor."""
        return None

    def anchors(self) -> np.ndarray | None:
        """Inputs Z (q, d) through which a State that is not `exact` sees all that was learned: given f there,
        it is the prior's elsewhere. None where there are none.
        """
        return None

    def smoother(self, Xs: np.ndarray) -> np.ndarray:
        """Weights (m, n): without slopes the mean at Xs is m(Xs) + weights (c - m(X)) (2.25)."""
        return self.apply(self.prior.kernel(self.X, Xs)).T

    def own_weights(self, Xs: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """For each of Xs (m, d) the weight that `smoother` gives to one datum, that at the position `rows`
        (m,) says: (m,), without the others.
        """
        kept, which = np.unique(rows, return_inverse=True)
        unit = np.zeros((self.X.shape[0], len(kept)))
        unit[kept, np.arange(len(kept))] = 1.0
        weights: np.ndarray = np.einsum("nm,nm->m", self.prior.kernel(self.X, Xs), self.apply(unit)[:, which])
        return weights

    def answers(self, Xs: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
        """What each member of a committee says of f at Xs, one at a time; alone, what it says itself: mean
        (m, L) and covariance (m, L, L).
        """
        mean, variance = self.predict(Xs)
        L = mean.shape[1]
        return [(mean, np.reshape(np.asarray(variance), (-1, L, L)))]

    def condensed(self) -> AbstractSolver | None:
        """A solver that has seen all rows, as `AbstractWhole.condensed`; None where predictions need them."""
        return None

    def flattened(self) -> AbstractState | None:
        """The State whose negative precisions are taken as zero, where this one was made from it."""
        return None
