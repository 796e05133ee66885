"""Low-rank solvers (GPML 8.3): the prior seen through m inducing inputs Z. n m^2 flops, n m numbers, or m^2 when streaming.

With K_mm = L L', Psi = K_nm L^-T (n, m) and Q = Psi Psi' = K_nm K_mm^-1 K_mn, the rest t = diag(K - Q) is treated in one of four
ways; they share everything else:

    SubsetOfRegressors   f ~ N(m, Q) everywhere: too sure of itself far from Z (8.14-8.15)
    ProjectedProcess     the same at the data, the exact prior at test inputs (8.26-8.27); also called DTC
    FITC                 f ~ N(m, Q + diag t) at the data: a prior of its own, every rule runs on it
    VFE                  as ProjectedProcess, with -1/2 sum W t added to the log normaliser: a lower bound of the exact one

A site of precision W on f_i with independent variance t_i acts on the rest as precision Lambda = W / (1 + W t). With
C = I + Psi' Lambda Psi: R = Lambda - Lambda Psi C^-1 Psi' Lambda. C has eigenvalues >= 1, and nothing divides by W.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np

from mercer.linalg import lapack, tiles
from mercer.linalg.cholesky import factor
from mercer.params import strip
from mercer.solvers.host import AbstractHostState, Columns, pull_encoding
from mercer.solvers.protocol import AbstractSolver, AbstractWorkspace, Cost, Proposal, SolverError

JITTER = 1e-9  # of the mean prior variance, added to the diagonal of K_mm: inducing inputs may nearly coincide
BLOCK_BYTES = 64 * 2**20  # rows of Psi worked on at a time
STORE_BYTES = 3 * 2**30  # up to this size Psi is kept, beyond it is computed again in every pass


@dataclasses.dataclass(frozen=True)
class AbstractLowRank(AbstractSolver):
    """What the low-rank solvers share.

    m: number of inducing inputs. select: how they are chosen among the data ("kmeans", "random", "pivoted", "entropy", ...: see
    `mercer.solvers.selection`), once, before learning. inducing: your own choice (m, d) instead. learn: whether `mercer.fit` moves
    them too. store: keep the n x m features (None: if they take less than 3 GiB) or compute them again in every pass.
    """

    m: int = 512
    select: str = "kmeans"
    inducing: Any = dataclasses.field(default=None, compare=False, repr=False)
    learn: bool = False
    store: bool | None = None
    seed: int = 0

    offers: ClassVar[frozenset[str]] = frozenset({"variance", "logdet", "sample", "stream"})
    rest_in_prior: ClassVar[bool] = False  # f has the independent part t at the data (FITC)
    rest_in_bound: ClassVar[bool] = False  # the log normaliser pays for t (VFE)
    rest_at_test: ClassVar[bool] = True  # predictions have the exact prior variance
    pilot: ClassVar[bool] = True

    def __post_init__(self):
        if self.inducing is not None:
            object.__setattr__(self, "m", int(np.shape(self.inducing)[0]))
        if self.m < 1:
            raise ValueError(f"{type(self).__name__} needs at least one inducing input, got m={self.m}.")

    def prepare(self, prior, X, y, noise_variance=None):
        if self.inducing is not None:
            return self
        return dataclasses.replace(self, inducing=self._choose(prior, X, y, noise_variance))

    def _choose(self, prior, X, y=None, noise_variance=None) -> np.ndarray:
        from mercer.solvers.selection import select

        if self.m > X.shape[0]:
            raise SolverError(
                f"{type(self).__name__}(m={self.m}) asks for more inducing inputs than there are data ({X.shape[0]}): "
                "use solver='dense', which is exact."
            )
        if self.m == X.shape[0]:
            return X
        how = "random" if X.dtype == object and self.select == "kmeans" else self.select
        return X[select(prior, X, y, self.m, how, noise_variance=noise_variance, seed=self.seed)]

    def workspace(self, prior, X):
        if isinstance(prior, tuple):
            raise SolverError(f"{type(self).__name__} takes one latent function: use one-vs-rest classes, or solver='dense'.")
        Z = self.inducing if self.inducing is not None else self._choose(prior, X)
        return Workspace(prior, X, Z, self.store)

    def factor(self, prior, X, sites, workspace=None):
        return LowRankState(self, prior, X, sites, workspace or self.workspace(prior, X))

    def cost(self, n, d, L=1):
        m = min(self.m, n)
        rows = n if self.store is not False and 8.0 * n * m <= STORE_BYTES else BLOCK_BYTES / 8.0 / m
        return Cost(flops=L * (2.0 * n * m**2 + n * m * (2 * d + 20)), bytes=8.0 * L * (rows * m + 4 * m**2 + 6 * n))


@dataclasses.dataclass(frozen=True)
class SubsetOfRegressors(AbstractLowRank):
    """f(x) = sum_i alpha_i k(x, z_i): a degenerate prior whose variance vanishes far from the inducing inputs (8.3.1).

    augment: each prediction adds k(x, x*) to the basis (Rasmussen and Quinonero-Candela), which mends the variance at n m flops for
    each test input; Gaussian noise only.
    """

    augment: bool = False

    rest_at_test: ClassVar[bool] = False

    def factor(self, prior, X, sites, workspace=None):
        state = AugmentedState if self.augment else LowRankState
        return state(self, prior, X, sites, workspace or self.workspace(prior, X))


@dataclasses.dataclass(frozen=True)
class ProjectedProcess(AbstractLowRank):
    """The mean of SubsetOfRegressors with a variance that returns to the prior far from the data (8.3.4)."""


@dataclasses.dataclass(frozen=True)
class FITC(AbstractLowRank):
    """Fully independent training conditionals (Snelson and Ghahramani): variances at the data are those of the exact prior."""

    rest_in_prior: ClassVar[bool] = True

    @classmethod
    def propose(cls, task):
        return () if task.gaussian else _proposals(cls, task, rounds=12)


@dataclasses.dataclass(frozen=True)
class VFE(AbstractLowRank):
    """The variational bound of Titsias: `log_evidence` never exceeds the exact one, and its gap says how good m is.

    >>> post = model.condition(X, y, solver=VFE(m=512))
    >>> post.state.upper_bound()   # of the log normaliser: the exact one lies between
    """

    rest_in_bound: ClassVar[bool] = True

    @classmethod
    def propose(cls, task):
        return _proposals(cls, task, rounds=1) if task.gaussian else ()


def _proposals(cls, task, rounds: int):
    """More and more inducing inputs until they are accurate enough, by the variance they leave unexplained.

    Half its mean over the noise variance is the loss of the bound per datum; other likelihoods are taken to be as informative as
    noise of the variance of f.
    """
    from mercer.solvers.auto import LADDER

    if task.several:
        return
    scale = task.noise or task.unexplained(0)
    for m in LADDER:
        if 2 * m > task.n:
            break
        error = 0.5 * task.unexplained(m) / max(scale, 1e-12)
        seconds = rounds * (6.0 * task.n * m**2 / task.rate + 1.2e-8 * task.n * m * (1 + task.d / 8) + 2.0 * m**3 / task.rate)
        says = f"inducing inputs leave about {2 * error:.2g} of the {'noise' if task.gaussian else 'prior'} variance unexplained"
        yield Proposal(cls(m=m), seconds, cls(m=m).cost(task.n, task.d).bytes, error, says)
        if error <= task.tolerance:
            break


@dataclasses.dataclass(frozen=True)
class Nystrom(AbstractLowRank):
    """K replaced by its Nystrom approximation where it is inverted, and only there (8.3.2): variances may come out negative, which
    is guarded and reported. Predictions take n kernel values each; SubsetOfRegressors and ProjectedProcess are safer.
    """

    offers: ClassVar[frozenset[str]] = frozenset({"logdet", "variance", "stream"})

    def factor(self, prior, X, sites, workspace=None):
        return NystromState(self, prior, X, sites, workspace or self.workspace(prior, X))


class Workspace(AbstractWorkspace):
    """Encoded inputs cut into tiles, inducing inputs, and the features of the prior that is held."""

    def __init__(self, prior, X, Z, store: bool | None):
        self.memory: dict[str, Any] = {}
        self.columns, self.Z = Columns(X), np.asarray(Z)
        size = tiles.tile_size(X.shape[0])
        self.panels = tiles.Panels(prior.kernel.encode(X), size)
        self.store = 8.0 * X.shape[0] * self.Z.shape[0] <= STORE_BYTES if store is None else store
        self.buffer: np.ndarray | None = None
        self.held: Features | None = None

    def hold(self, prior):
        self.held = Features(prior, self)

    def share(self, other: Workspace) -> None:
        self.held = other.held

    def features(self, prior) -> Features:
        if self.held is not None and self.held.source is prior.kernel:
            return self.held
        return Features(prior, self)


class Features:
    """Psi = K_nm L^-T in blocks of rows, kept or computed again; `of` gives those of test inputs."""

    def __init__(self, prior, workspace: Workspace):
        self.source, self.kernel, self.panels = prior.kernel, strip(prior.kernel), workspace.panels
        self.Z_panels = tiles.Panels(self.kernel.encode(workspace.Z), self.panels.size)
        m = self.Z_panels.n
        self.U = np.empty((m, m))

        def fill(buffer):
            tiles.upper(self.kernel, self.Z_panels, np.ones(m), buffer)
            diagonal = np.einsum("ii->i", buffer)
            diagonal += JITTER * np.mean(diagonal)

        self.jitter = factor(fill, self.U)
        self.Psi: np.ndarray | None = None
        self.diagonal = tiles.diagonal(self.kernel, self.panels)  # k(x, x)
        if workspace.store:
            if workspace.buffer is None:
                workspace.buffer = np.empty((self.panels.n, m))
            for rows, _, Psi in self._computed(workspace.buffer):
                del rows, Psi
            self.Psi = workspace.buffer

    @property
    def m(self) -> int:
        return self.U.shape[0]

    def blocks(self) -> Iterator[tuple[slice, Any, np.ndarray]]:
        """(rows, panels of those rows, Psi of those rows), which the caller must not change."""
        if self.Psi is None:
            yield from self._computed(None)
            return
        for rows, panels in self._cuts(self.panels):
            yield rows, panels, self.Psi[rows]

    def _cuts(self, panels):
        size = panels.size
        per = max(1, int(BLOCK_BYTES / (8.0 * self.m * size)))
        for first in range(0, len(panels.tiles), per):
            part = panels.part(first, first + per)
            yield slice(first * size, first * size + part.n), part

    def _computed(self, out: np.ndarray | None):
        for rows, panels in self._cuts(self.panels):
            Psi = np.empty((panels.n, self.m)) if out is None else out[rows]
            yield rows, panels, self._fill(panels, Psi)

    def _fill(self, panels, Psi):
        tiles.rectangle(self.kernel, panels, self.Z_panels, Psi)
        lapack.solve_lower(self.U, Psi.T)
        return Psi

    def of(self, Xs) -> np.ndarray:
        panels = tiles.Panels(self.kernel.encode(Xs), self.panels.size)
        return self._fill(panels, np.empty((panels.n, self.m)))

    def gram(self, weight: np.ndarray, V: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray | None]:
        """Psi' diag(weight) Psi for weights of any sign, and Psi' V."""
        G, p = np.zeros((self.m, self.m)), None if V is None else np.zeros((self.m, V.shape[1]))
        positive = bool((weight >= 0).all())
        for rows, _, Psi in self.blocks():
            if positive:
                S = np.sqrt(weight[rows])[:, None] * Psi
                G += S.T @ S  # one syrk
            else:
                G += (weight[rows, None] * Psi).T @ Psi
            if V is not None:
                p += Psi.T @ V[rows]
        return G, p

    def project(self, V: np.ndarray) -> np.ndarray:
        """Psi' V."""
        return functools.reduce(np.add, (Psi.T @ V[rows] for rows, _, Psi in self.blocks()))

    def expand(self, w: np.ndarray) -> np.ndarray:
        """Psi w for w (m, q)."""
        return np.concatenate([Psi @ w for _, _, Psi in self.blocks()])

    def solve(self, B: np.ndarray) -> np.ndarray:
        """L^-1 B."""
        return lapack.solve_lower(self.U, np.array(B, order="F"))


class LowRankState(AbstractHostState):
    """Posterior over m whitened weights w ~ N(0, I), f = m + Psi w (+ an independent part): `weights()`."""

    exact = False

    def __init__(self, solver: AbstractLowRank, prior, X, sites, workspace: Workspace):
        super().__init__(prior, X, sites, workspace.columns, type(solver).__name__)
        self.solver, self.workspace = solver, workspace
        self.features = workspace.features(prior)
        self.kernel = self.features.kernel
        W, n = self.precision, self.centre.shape[0]
        self.t = np.empty(n)  # k(x, x) - q(x, x): what the inducing inputs do not explain
        if solver.rest_in_prior or solver.rest_in_bound or solver.rest_at_test:
            for rows, _, Psi in self.features.blocks():
                self.t[rows] = self.features.diagonal[rows] - np.einsum("ij,ij->i", Psi, Psi)
            np.maximum(self.t, 0.0, out=self.t)
        else:
            self.t[:] = 0.0
        self.own = self.t if solver.rest_in_prior else np.zeros(n)
        self.s = 1.0 / (1.0 + W * self.own)
        self.Lambda = W * self.s
        delta = self.centre - self.m
        G, p = self.features.gram(self.Lambda, (self.Lambda * delta)[:, None])
        assert p is not None
        self._Psi_Lambda_delta = p
        self.U = np.empty_like(G)

        def fill(buffer):
            buffer[:] = G
            np.einsum("ii->i", buffer)[:] += 1.0

        self.jitter = max(factor(fill, self.U), self.features.jitter)
        self.logdet = 2.0 * float(np.sum(np.log(np.einsum("ii->i", self.U)))) - float(np.sum(np.log(self.s)))
        self.trace = float(W @ self.t) if solver.rest_in_bound else 0.0

    @functools.cached_property
    def _solved(self):
        if self.slope is not None:
            alpha, value = super()._solved
            return alpha, value - 0.5 * self.trace
        delta, p = self.centre - self.m, self._Psi_Lambda_delta
        w = self._solve_C(p)
        alpha = self.Lambda * (delta - self.features.expand(w)[:, 0])
        return alpha, float(-0.5 * self.logdet - 0.5 * (delta @ (self.Lambda * delta) - p[:, 0] @ w[:, 0]) - 0.5 * self.trace)

    def lower_bound(self) -> float:
        """The exact log normaliser is above this: VFE's."""
        return self.log_normaliser - (0.0 if self.solver.rest_in_bound else 0.5 * float(self.precision @ self.t))

    def upper_bound(self) -> float:
        """The exact log normaliser is below this (Titsias 2014): W^1/2 K W^1/2 is at most W^1/2 Q W^1/2 + (sum W t) I."""
        if self.slope is not None or self.solver.rest_in_prior or not self.solver.rest_at_test:
            raise SolverError("the upper bound belongs to VFE and ProjectedProcess with Gaussian noise.")
        tau = float(self.precision @ self.t)
        C = np.triu(self.U).T @ np.triu(self.U) + tau * np.eye(self.U.shape[0])
        delta = self.centre - self.m
        p = self._Psi_Lambda_delta[:, 0]
        quadratic = (delta @ (self.precision * delta) - p @ np.linalg.solve(C, p)) / (1.0 + tau)
        return float(-0.5 * self.logdet - 0.5 * quadratic)

    def _solve_C(self, B):
        Y = np.array(B, order="F")
        return lapack.solve_lower(self.U, lapack.solve_lower(self.U, Y), transpose=True)

    @functools.cached_property
    def _C_inverse(self) -> np.ndarray:
        return self._solve_C(np.eye(self.U.shape[0]))

    @functools.cached_property
    def _leverage(self) -> np.ndarray:
        """diag(Psi C^-1 Psi')."""
        parts = []
        for _, _, Psi in self.features.blocks():
            V = lapack.solve_lower(self.U, np.array(Psi, order="C").T)
            parts.append(np.einsum("ij,ij->j", V, V))
        return np.concatenate(parts)

    def weights(self):
        """Posterior mean (m,) and covariance (m, m) of the whitened weights."""
        return self._weight_mean, self._C_inverse

    @functools.cached_property
    def _weight_mean(self) -> np.ndarray:
        if self.slope is None:
            return self._solve_C(self._Psi_Lambda_delta)[:, 0]
        return self.features.project(self.alpha[:, None])[:, 0]

    # -- algebra ----------------------------------------------------------------------------------------------------

    def apply(self, V):
        LV = self.Lambda[:, None] * V
        w = self._solve_C(self.features.project(LV))
        return LV - self.Lambda[:, None] * self.features.expand(w)

    def times_K(self, V):
        out = self.features.expand(self.features.project(V))
        return out + self.own[:, None] * V if self.solver.rest_in_prior else out

    def rows_times_K(self, rows, V):
        return self.times_K(V)[rows]

    def prior_variance(self):
        """As the sites see it."""
        return self.features.diagonal - self.t + self.own

    def kappa(self):
        return self.Lambda * (1.0 - self.Lambda * self._leverage)

    def variances(self):
        """At the data, as the likelihood sees f."""
        if self.solver.rest_in_prior:
            return self.t * self.s + self.s**2 * self._leverage
        return self._leverage + self.t if self.solver.rest_at_test else self._leverage

    def site_marginals(self):
        if self.solver.rest_at_test and not (self.solver.rest_in_prior or self.solver.rest_in_bound):
            return self.mean(), self._leverage[:, None]
        return self.marginals()

    def mean(self):
        mean = self.m + self.features.expand(self._weight_mean[:, None])[:, 0]
        return (mean + self.own * self.alpha)[:, None] if self.solver.rest_in_prior else mean[:, None]

    def cross(self, Xs, V):
        return self.features.of(Xs) @ self.features.project(V)

    def predict(self, Xs, full=False, variance=True):
        Psi = self.features.of(Xs)
        mean = (np.asarray(self.prior.mean.value(Xs), float) + Psi @ self._weight_mean)[:, None]
        if not variance:
            return mean, None
        V = lapack.solve_lower(self.U, np.array(Psi, order="C").T)
        covariance = V.T @ V if full else np.einsum("ij,ij->j", V, V)[:, None]
        if self.solver.rest_at_test:
            covariance = covariance + self._rest(Xs, Psi, full)
        return mean, covariance

    def _rest(self, Xs, Psi, full):
        panels = tiles.Panels(self.kernel.encode(Xs), self.features.panels.size)
        if full:
            K = np.empty((panels.n, panels.n))
            tiles.rectangle(self.kernel, panels, panels, K)
            return K - Psi @ Psi.T
        return np.maximum(tiles.diagonal(self.kernel, panels) - np.einsum("ij,ij->i", Psi, Psi), 0.0)[:, None]

    # -- cotangents -------------------------------------------------------------------------------------------------

    def pullback(self, log_normaliser_bar=0.0, *args, **kwargs):
        out = super().pullback(log_normaliser_bar, *args, **kwargs)
        if self.solver.rest_in_bound and log_normaliser_bar:
            out.sites.precision[:] -= 0.5 * log_normaliser_bar * self.t[:, None]
        if self.solver.learn:
            out.prior.inducing = pull_encoding(self.kernel, self.workspace.Z, self._inducing_bar)
        return out

    def weighted_squares(self, k, v):
        out, s, h, C1 = np.zeros(self.centre.shape[0]), self.s, self._leverage, self._C_inverse
        if k is not None:
            G, _ = self.features.gram(k * self.Lambda**2)
            out += s**2 * (k * (1.0 - 2.0 * self.Lambda * h) + self._quadratic(C1 @ G @ C1))
        if v is not None:
            G, _ = self.features.gram(v * s**2)
            own = self.own * s
            out -= s**2 * self._quadratic(C1 @ G @ C1) + v * (own**2 + 2.0 * own * s**2 * h)
        return out

    def _quadratic(self, M):
        """diag(Psi M Psi')."""
        return np.concatenate([np.einsum("ij,ij->i", Psi @ M, Psi) for _, _, Psi in self.features.blocks()])

    def resolvent(self, reuse=False):
        return self.apply(np.eye(self.centre.shape[0]))

    def pull_matrix(self, bar, P, Q, inputs):
        raise SolverError(f"{type(self.solver).__name__} takes sites of one latent function with non-negative precision.")

    def pull_kernel(self, coefficient, P, Q, k, v, inputs):
        """The cotangent S of Q + diag(own) is coefficient R + P Q' - R diag(k) R + N diag(v) N', of which Psi needs 2 S Psi.

        Row i of S Psi is (a_i Psi_i C^-1 + Lambda_i Psi_i C^-1 M + P_i Q' Psi), so a pass over blocks of rows is enough.
        """
        f, Lambda, s, C1 = self.features, self.Lambda, self.s, self._C_inverse
        n, m = self.centre.shape[0], f.m
        C_less_I = np.triu(self.U).T @ np.triu(self.U) - np.eye(m)  # Psi' Lambda Psi
        G_k = None if k is None else f.gram(k * Lambda**2)[0]
        G_v = None if v is None else f.gram(v * s**2)[0]
        both = f.project(np.concatenate([P, Q], 1))
        PPsi, QPsi = both[:, : P.shape[1]], both[:, P.shape[1] :]
        # by weights that multiply rows of Psi: Lambda, and what the bars k and v say of each datum
        by_Lambda = coefficient * C1
        inner = coefficient * (C_less_I @ C1) + PPsi @ QPsi.T  # Psi' S Psi
        extra = np.zeros(n)
        for G, sign, weight in ((G_k, -1.0, None if k is None else k * Lambda**2), (G_v, 1.0, None if v is None else v * s**2)):
            if G is not None and weight is not None:
                by_Lambda = by_Lambda - sign * C1 @ G @ C1
                inner = inner + sign * (G @ C1 - C_less_I @ C1 @ G @ C1)
                extra += sign * weight
        t_bar = self._rest_bar(coefficient, P, Q, k, v, G_k, G_v)
        plain = np.zeros(n)  # weight of Psi itself, from t = k(x, x) - |Psi|^2
        if self.solver.rest_in_bound:
            by_Lambda = by_Lambda - coefficient * np.eye(m)
            inner = inner - coefficient * C_less_I
            if v is not None:
                plain -= v
        else:
            plain -= t_bar
        if plain.any():
            inner = inner + f.gram(plain)[0]
        L1 = f.solve(np.eye(m))  # L^-1
        first, second, third, last = by_Lambda @ L1, C1 @ L1, L1, QPsi.T @ L1
        pull = tiles.PullRectangle(self.kernel, f.Z_panels, inputs or self.solver.learn)
        for rows, panels, Psi in f.blocks():
            bar = (Lambda[rows, None] * Psi) @ first
            bar += P[rows] @ last
            if extra.any():
                bar += (extra[rows, None] * Psi) @ second
            if plain.any():
                bar += (plain[rows, None] * Psi) @ third
            bar *= 2.0
            pull.add(panels, bar)
        K_mm_bar = -(L1.T @ (0.5 * (inner + inner.T)) @ L1)
        np.einsum("ii->i", K_mm_bar)[:] += JITTER * np.trace(K_mm_bar) / m  # the jitter scales with the diagonal
        none = np.zeros((m, 1))
        at_Z, Z_bar = tiles.pull_symmetric(
            self.kernel, f.Z_panels, 1.0, K_mm_bar, np.ones(m), none, none, inputs or self.solver.learn
        )
        parts = [pull.kernel, at_Z]
        if t_bar.any():
            parts.append(tiles.pull_rows(tiles._diag, self.kernel, f.panels, t_bar))
        total = _add(*parts)
        if self.solver.learn:
            self._inducing_bar = _add(pull.right, Z_bar)
        if not inputs:
            return total, None
        return total, _add(pull.left, _pull_diagonal_inputs(self.kernel, f.panels, t_bar))

    def _rest_bar(self, coefficient, P, Q, k, v, G_k, G_v) -> np.ndarray:
        """The cotangent of t (n,)."""
        if self.solver.rest_in_prior:  # diag S
            Lambda, s, h, C1 = self.Lambda, self.s, self._leverage, self._C_inverse
            out = coefficient * self.kappa() + np.einsum("ij,ij->i", P, Q)
            if k is not None:
                out -= Lambda**2 * (k * (1.0 - 2.0 * Lambda * h) + self._quadratic(C1 @ G_k @ C1))
            if v is not None:
                out += v * s**2 * (1.0 - 2.0 * Lambda * h) + Lambda**2 * self._quadratic(C1 @ G_v @ C1)
            return out
        out = np.zeros(self.centre.shape[0])
        if self.solver.rest_in_bound:
            out += coefficient * self.precision
        if v is not None and self.solver.rest_at_test:
            out += v
        return out


class AugmentedState(LowRankState):
    """SubsetOfRegressors with one more weight for each test input: its feature is what Z leaves of k(., x*), of unit variance."""

    def predict(self, Xs, full=False, variance=True):
        if full or self.slope is not None:
            raise SolverError("SubsetOfRegressors(augment=True) predicts single inputs under Gaussian noise: use ProjectedProcess.")
        f, Psi = self.features, self.features.of(Xs)
        panels = tiles.Panels(self.kernel.encode(Xs), f.panels.size)
        root = np.sqrt(self._rest(Xs, Psi, False)[:, 0])
        K = np.empty((f.panels.n, panels.n))
        tiles.rectangle(self.kernel, f.panels, panels, K)
        r = (K - f.expand(Psi.T)) / np.maximum(root, 1e-300)
        r[:, root**2 < 1e-12 * tiles.diagonal(self.kernel, panels)] = 0.0
        Lr = self.Lambda[:, None] * r
        c, w = f.project(Lr), self._weight_mean  # its covariance with the other weights, which have mean w
        Cc = self._solve_C(c)
        schur = 1.0 + np.einsum("ij,ij->j", r, Lr) - np.einsum("ij,ij->j", c, Cc)
        own = (Lr.T @ (self.centre - self.m) - c.T @ w) / schur
        reach = root - np.einsum("ij,ji->i", Psi, Cc)
        mean = np.asarray(self.prior.mean.value(Xs), float) + Psi @ w + reach * own
        if not variance:
            return mean[:, None], None
        V = lapack.solve_lower(self.U, np.array(Psi, order="C").T)
        return mean[:, None], (np.einsum("ij,ij->j", V, V) + reach**2 / schur)[:, None]


class NystromState(LowRankState):
    """R of SubsetOfRegressors with exact covariances to the test inputs."""

    def __init__(self, *args):
        super().__init__(*args)
        self.notes: tuple[str, ...] = ()

    def cross(self, Xs, V):
        f = self.features
        return tiles.times(self.kernel, tiles.Panels(self.kernel.encode(Xs), f.panels.size), f.panels, V)

    def predict(self, Xs, full=False, variance=True):
        f = self.features
        panels = tiles.Panels(self.kernel.encode(Xs), f.panels.size)
        mean = (np.asarray(self.prior.mean.value(Xs), float) + self.cross(Xs, self.alpha[:, None])[:, 0])[:, None]
        if not variance:
            return mean, None
        K = np.empty((panels.n, f.panels.n))
        tiles.rectangle(self.kernel, panels, f.panels, K)
        RK = self.apply(K.T)
        if full:
            covariance = np.empty((panels.n, panels.n))
            tiles.rectangle(self.kernel, panels, panels, covariance)
            return mean, covariance - K @ RK
        prior = tiles.diagonal(self.kernel, panels)
        return mean, self._guard(prior - np.einsum("ij,ji->i", K, RK), prior)[:, None]

    def _guard(self, variance, prior):
        bad = int(np.sum(variance < 0.0))
        if bad:
            import warnings

            warnings.warn(
                f"{bad} of {variance.shape[0]} variances of the Nystrom method are negative and were set to 1e-10 of the prior's: "
                "use ProjectedProcess, FITC or VFE, or more inducing inputs.", RuntimeWarning, stacklevel=4,
            )  # fmt: skip
        return np.where(variance < 0.0, 1e-10 * prior, variance)

    def mean(self):
        return (self.m + self.cross(self.X, self.alpha[:, None])[:, 0])[:, None]

    def variances(self):
        return self.predict(self.X)[1][:, 0]

    def site_marginals(self):
        return self.marginals()


def _add(*trees):
    import jax

    return jax.tree.map(lambda *xs: functools.reduce(np.add, map(np.asarray, xs)), *trees)


def _pull_diagonal_inputs(kernel, panels, bar):
    """The cotangents of the encoded inputs for that of k(x, x)."""
    import jax

    pieces = panels.vector(bar)
    parts = [jax.vjp(kernel.diag, A)[1](b)[0] for A, b in zip(panels.tiles, pieces, strict=True)]
    return jax.tree.map(lambda *t: np.concatenate([np.asarray(x) for x in t])[: panels.n], *parts)
