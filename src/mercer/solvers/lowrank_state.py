"""What the low-rank solvers know once the sites are given (the notation is that of
`mercer.solvers.lowrank`).
"""

from __future__ import annotations

import functools
import warnings
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from mercer.linalg import lapack, tiles
from mercer.prior import AbstractPrior
from mercer.solvers.condensed import Condensed
from mercer.solvers.host import AbstractHostState, KernelBar, Pulled, pull_encoding, pull_mean
from mercer.solvers.inducing import InducingWorkspace, RowBar, add_trees
from mercer.solvers.lowrank_core import Core
from mercer.solvers.protocol import (
    EVERYTHING,
    AbstractSolver,
    Bounds,
    Diagnostics,
    MeanWeights,
    SiteBars,
    Sites,
    SolverError,
    condition_from_pivots,
)

if TYPE_CHECKING:
    from mercer.solvers.lowrank import AbstractLowRank


class Part(NamedTuple):
    """What some rows say of the log normaliser of all: cotangents of the kernel by their features, of the
    mean's leaves, of their sites, of inducing inputs (m, d) if they are learned, and their part of `inner`
    (m, m), what K_mm needs, beyond what the core says.
    """

    kernel: Any
    mean: Any
    sites: SiteBars
    inducing: np.ndarray | None
    inner: np.ndarray | None


class AbstractLowRankState(AbstractHostState):
    """Posterior over m whitened weights w ~ N(0, I), f = m + Psi w (+ an independent part): `weights()`."""

    exact = False

    def __init__(
        self,
        solver: AbstractLowRank,
        prior: AbstractPrior,
        X: np.ndarray,
        sites: Sites,
        workspace: InducingWorkspace,
        core: Core | None = None,
    ):
        """core: that of all data, where X and the sites are those of some of their rows."""
        self.solver, self.workspace = solver, workspace
        super().__init__(prior, X, sites, workspace.columns)
        self.features = workspace.known(prior)
        self.kernel = self.features.kernel
        W, n = self.precision, self.centre.shape[0]
        self.t = np.zeros(n)  # k(x, x) - q(x, x): what the inducing inputs do not explain
        if solver.rest_in_prior or solver.rest_in_bound or solver.rest_at_test:
            self.t = np.maximum(self.features.diagonal - self.features.explained, 0.0)
        self.own = self.t if solver.rest_in_prior else np.zeros(n)
        self.s = 1.0 / (1.0 + W * self.own)
        self.Lambda = W * self.s
        self.partial = core is not None
        self.core = Core(**self.sums()) if core is None else core
        self.U, self.jitter = self.core.U, max(self.core.jitter, self.features.jitter)
        self.logdet = self.core.logdet(solver.rest_in_bound)

    def sums(self) -> dict[str, Any]:
        """What these rows add to each number of the core."""
        delta, W = self.centre - self.m, self.precision
        pull, quadratic = self.Lambda * delta, float(delta @ (self.Lambda * delta))
        if self.slope is not None:
            h = self.s * self.slope
            pull, quadratic = pull + h, quadratic + float(2.0 * (h @ delta) - self.own @ (h * self.slope))
        G, p = self.features.gram(self.Lambda, pull[:, None])
        return dict(
            G=G,
            p=p,
            quadratic=quadratic,
            log_s=float(np.sum(np.log(self.s))),
            unexplained=float(W @ self.t),
            n=float(W.shape[0]),
        )

    @property
    def who(self) -> str:
        return type(self.solver).__name__

    def solve_sites(self) -> tuple[np.ndarray, float]:
        alpha = self.Lambda * (self.centre - self.m - self.features.expand(self.core.w)[:, 0])
        if self.slope is not None:
            alpha = alpha + self.s * self.slope
        return alpha, self.core.log_normaliser(self.solver.rest_in_bound)

    def diagnostics(self) -> Diagnostics:
        condition, rank = condition_from_pivots(np.diagonal(self.U)), self.U.shape[0]
        return Diagnostics(
            condition, "C = I + Psi' Lambda Psi", self.jitter, rank, self.evidence_bounds(), self.notes
        )

    @functools.cached_property
    def _C_inverse(self) -> np.ndarray:
        return self.core.solve(np.eye(self.U.shape[0]))

    @functools.cached_property
    def _leverage(self) -> np.ndarray:
        """h = diag(Psi C^-1 Psi')."""
        return self.features.leverage(self.U)

    def weights(self) -> tuple[np.ndarray, np.ndarray]:
        """Posterior mean (m,) and covariance (m, m) of the whitened weights."""
        return self._weight_mean, self._C_inverse

    @property
    def _weight_mean(self) -> np.ndarray:
        """Psi' alpha (m,)."""
        return self.core.w[:, 0]

    # -- algebra ---------------------------------------------------------------------------------------------

    def _whole(self) -> None:
        """Refuse what takes all rows where only some are here."""
        if self.partial:
            raise SolverError(
                f"this takes all {self.core.n:,.0f} rows, of which {self.centre.shape[0]:,} were kept: the "
                "model was fitted in chunks. Condition on an array that fits into memory for it."
            )

    def apply(self, V: np.ndarray) -> np.ndarray:
        self._whole()
        LV = self.Lambda[:, None] * V
        w = self.core.solve(self.features.project(LV))
        return LV - self.Lambda[:, None] * self.features.expand(w)

    def times_K(self, V: np.ndarray) -> np.ndarray:
        self._whole()
        out = self.features.expand(self.features.project(V))
        return out + self.own[:, None] * V if self.solver.rest_in_prior else out

    def kappa(self) -> np.ndarray:
        return self.Lambda * (1.0 - self.Lambda * self._leverage)

    def site_variances(self) -> np.ndarray:
        return self._site_variances(self._leverage)

    def _site_variances(self, leverage: np.ndarray) -> np.ndarray:
        """Of Psi w and, where it is in the prior or the bound pays for it, of the independent part."""
        if self.solver.rest_in_prior:
            return self.t * self.s + self.s**2 * leverage
        return leverage + self.t if self.solver.rest_in_bound else leverage

    def _test_half(self, Psi: np.ndarray) -> np.ndarray:
        """V = L_C^-1 Psi' (m, tests): V'V is the posterior covariance of Psi w."""
        return lapack.solve_lower(self.U, np.array(Psi, order="C").T)

    def _test_rest(self, panels: tiles.Panels, Psi: np.ndarray, full: bool) -> np.ndarray:
        """k - q at test inputs: (tests, tests), or its diagonal (tests, 1)."""
        if full:
            return tiles.between(self.kernel, panels, panels) - Psi @ Psi.T
        return np.maximum(tiles.diagonal(self.kernel, panels) - np.einsum("ij,ij->i", Psi, Psi), 0.0)[:, None]

    def _test_panels(self, Xs: np.ndarray) -> tiles.Panels:
        return tiles.Panels(self.kernel.encode(Xs), self.features.panels.size)

    def _prior_mean_at(self, Xs: np.ndarray) -> np.ndarray:
        return np.asarray(self.prior.mean.value(Xs), float)

    # -- cotangents ------------------------------------------------------------------------------------------

    def weighted_squares(self, k: np.ndarray | None, v: np.ndarray | None) -> np.ndarray:
        """With w as in `_row_weights` and G = Psi' diag(w) Psi: -s^2 diag(Psi C^-1 G C^-1 Psi') and what a
        datum says of itself.
        """
        s, h = self.s, self._leverage
        G = self.features.gram(self._row_weights(k, v))[0]
        out = -(s**2) * self.features.quadratic(self._C_inverse @ G @ self._C_inverse)
        if k is not None:
            out += s**2 * k * (1.0 - 2.0 * self.Lambda * h)
        if v is not None:
            own = self.own * s
            out -= v * (own**2 + 2.0 * own * s**2 * h)
        return out

    def _row_weights(self, k: np.ndarray | None, v: np.ndarray | None) -> np.ndarray:
        """w = v s^2 - k Lambda^2 (n,): R diag(k) R has k Lambda^2, and N diag(v) N' has v s^2, on the rows
        of Psi.
        """
        out = np.zeros(self.centre.shape[0])
        if k is not None:
            out -= k * self.Lambda**2
        if v is not None:
            out += v * self.s**2
        return out

    def pull_kernel(self, bar: KernelBar, inputs: bool) -> Pulled:
        """K is Q + diag(own) here, Q = Psi Psi', Psi = K_nm L^-T and K_mm = L L'."""
        self._whole()
        rows, inner = self._feature_bar(bar)
        learn = self.solver.learn
        pulled = self.features.pull(rows, inputs, learn)
        at_Z, Z_bar = self.features.inducing.pull(inner, self.workspace.jitter, learn)
        inducing = None
        if learn:
            inducing = pull_encoding(self.kernel, self.workspace.Z, add_trees(pulled.right, Z_bar))
        variances = None
        if bar.coefficient:
            variances = self._site_variances(self._leverage_on_the_way(rows, bar, pulled.products))
        return Pulled(add_trees(pulled.kernel, at_Z), pulled.left, inducing, variances)

    def _feature_bar(self, bar: KernelBar) -> tuple[RowBar, np.ndarray]:
        """The cotangent of Psi, and inner = 1/2 Psi' Psi_bar, which K_mm needs.

        The cotangent S of K is coefficient R + P Q' - R diag(k) R + N diag(v) N', and that of Psi 2 S Psi.
        R Psi = Lambda Psi C^-1 and N'Psi = s Psi C^-1: with w = v s^2 - k Lambda^2 and G = Psi' diag(w) Psi

            S Psi = Lambda Psi (coefficient C^-1 - C^-1 G C^-1) + w Psi C^-1 + P Q'Psi.

        The bound pays coefficient sum W t more, t = k(x, x) - |Psi|^2.
        """
        f, C1, c = self.features, self._C_inverse, bar.coefficient
        both = f.project(np.concatenate([bar.P, bar.Q], 1))
        PPsi, QPsi = np.split(both, 2, 1)
        by_Lambda = c * C1
        inner = c * (self.core.G @ C1) + PPsi @ QPsi.T
        w = C1_G_C1 = None
        if bar.kappa is not None or bar.var is not None:
            w = self._row_weights(bar.kappa, bar.var)
            G = f.gram(w)[0]
            C1_G_C1 = C1 @ G @ C1
            by_Lambda = by_Lambda - C1_G_C1
            inner = inner + G @ C1 - self.core.G @ C1_G_C1
        t_bar, u = self._rest_bar(bar, w, C1_G_C1), None
        if self.solver.rest_in_bound:  # coefficient W = coefficient Lambda of it is in `by_Lambda`
            by_Lambda = by_Lambda - c * np.eye(f.m)
            inner = inner - c * self.core.G
            if bar.var is not None:
                u = -bar.var
        elif t_bar.any():
            u = -t_bar
        if u is not None:
            inner = inner + f.gram(u)[0]
        return RowBar(self.Lambda, by_Lambda, bar.P, QPsi, w, None if w is None else C1, u, t_bar), inner

    def pull_part(self, bar: float = 1.0) -> Part:
        """What these rows say of the log normaliser of all: S = -1/2 R + 1/2 alpha alpha', and Psi' alpha = w
        is known from the core.
        """
        c, w, learn = -0.5 * bar, self.core.w, self.solver.learn
        alpha = self.alpha[:, None]
        S = KernelBar(c, -c * alpha, alpha)
        by_Lambda = c * (self._C_inverse - np.eye(len(w)) if self.solver.rest_in_bound else self._C_inverse)
        t_bar, u, inner = self._rest_bar(S, None, None), None, None
        if self.solver.rest_in_prior:
            u = -t_bar
            inner = self.features.gram(u)[0]
        rows = RowBar(self.Lambda, by_Lambda, S.P, w, u=u, t=t_bar)
        pulled = self.features.pull(rows, inducing=learn)
        leverage = self._leverage_on_the_way(rows, S, pulled.products)
        mean = pull_mean(self.prior.mean, self.columns, bar * self.alpha)
        residual = self.residual() if self.precision.all() else self.centre - self.mean()[:, 0]
        W_bar = c * (residual**2 + self._site_variances(leverage))
        Z_bar = pull_encoding(self.kernel, self.workspace.Z, pulled.right) if learn else None
        sites = SiteBars(-bar * alpha, W_bar[:, None])
        return Part(pulled.kernel, mean, sites, Z_bar, inner)

    def _rest_bar(self, bar: KernelBar, w: np.ndarray | None, C1_G_C1: np.ndarray | None) -> np.ndarray:
        """The cotangent of t (n,): diag S where t is in the prior, else what bound and test inputs say."""
        if self.solver.rest_in_prior:
            out = bar.coefficient * self.kappa() + np.einsum("ij,ij->i", bar.P, bar.Q)
            if w is not None and C1_G_C1 is not None:
                out += w * (1.0 - 2.0 * self.Lambda * self._leverage)
                out += self.Lambda**2 * self.features.quadratic(C1_G_C1)
            return out
        out = np.zeros(self.centre.shape[0])
        if self.solver.rest_in_bound:
            out += bar.coefficient * self.precision
        if bar.var is not None and self.solver.rest_at_test:
            out += bar.var
        return out

    def _leverage_on_the_way(self, rows: RowBar, bar: KernelBar, products: np.ndarray) -> np.ndarray:
        """h (n,), without products of its own where the log normaliser's bar is alone.

        Row sums of K_nm times its cotangent are 2 Lambda_i Psi_i by_Lambda Psi_i' + 2 P_i Q'Psi Psi_i', and
        by_Lambda is coefficient (C^-1 - I) in the bound, coefficient C^-1 else.
        """
        if rows.w is not None or rows.u is not None or not self.Lambda.all():
            return self._leverage
        f = self.features
        sums = products - np.einsum("ij,ij->i", bar.P, f.expand(2.0 * rows.by_P))
        leverage = sums / (2.0 * bar.coefficient * self.Lambda)
        return leverage + f.explained if self.solver.rest_in_bound else leverage


class AbstractProjectedState(AbstractLowRankState):
    """Test inputs are seen through the inducing inputs, as the data are."""

    pulls = EVERYTHING

    def __init__(
        self,
        solver: AbstractLowRank,
        prior: AbstractPrior,
        X: np.ndarray,
        sites: Sites,
        workspace: InducingWorkspace,
        core: Core | None = None,
    ):
        super().__init__(solver, prior, X, sites, workspace, core)
        self.notes = workspace.notes

    def evidence_bounds(self) -> Bounds | None:
        """Below, VFE's own; above, that of Titsias (2014). They belong to VFE and ProjectedProcess with
        Gaussian noise.
        """
        if self.slope is not None or self.solver.rest_in_prior or not self.solver.rest_at_test:
            return None
        unpaid = 0.0 if self.solver.rest_in_bound else 0.5 * self.core.unexplained
        return Bounds(self.log_normaliser - unpaid, self._upper_bound())

    def _upper_bound(self) -> float:
        """W^1/2 K W^1/2 is at most W^1/2 Q W^1/2 + (sum W t) I."""
        core, tau = self.core, self.core.unexplained
        C = core.G + (1.0 + tau) * np.eye(len(core.G))
        p = core.p[:, 0]
        quadratic = (core.quadratic - p @ np.linalg.solve(C, p)) / (1.0 + tau)
        return float(-0.5 * core.logdet(in_bound=False) - 0.5 * quadratic)

    def mean(self) -> np.ndarray:
        mean = self.m + self.features.expand(self._weight_mean[:, None])[:, 0]
        return (mean + self.own * self.alpha)[:, None] if self.solver.rest_in_prior else mean[:, None]

    def variances(self) -> np.ndarray:
        """At the data, as the likelihood sees f."""
        if self.solver.rest_at_test and not self.solver.rest_in_prior:
            return self._leverage + self.t
        return self.site_variances()

    def site_marginals(self) -> tuple[np.ndarray, np.ndarray]:
        if self.solver.rest_at_test and not (self.solver.rest_in_prior or self.solver.rest_in_bound):
            return self.mean(), self._leverage[:, None]
        return self.marginals()

    def cross(self, Xs: np.ndarray, V: np.ndarray) -> np.ndarray:
        self._whole()
        return self.features.of(Xs) @ self.features.project(V)


class LowRankState(AbstractProjectedState):
    """The posterior of the weights, and at test inputs the exact prior variance where the solver says so."""

    def predict(
        self, Xs: np.ndarray, full: bool = False, variance: bool = True
    ) -> tuple[np.ndarray, np.ndarray | None]:
        Psi = self.features.of(Xs)
        mean = (self._prior_mean_at(Xs) + Psi @ self._weight_mean)[:, None]
        if not variance:
            return mean, None
        V = self._test_half(Psi)
        covariance = V.T @ V if full else np.einsum("ij,ij->j", V, V)[:, None]
        if self.solver.rest_at_test:
            covariance = covariance + self._test_rest(self._test_panels(Xs), Psi, full)
        return mean, covariance

    def condensed(self) -> AbstractSolver:
        return Condensed.of(self.solver, self.core, self.solver.why)

    def mean_weights(self) -> MeanWeights:
        w = self._weight_mean[:, None].copy("F")
        alpha = lapack.solve_lower(self.features.inducing.U, w, transpose=True)
        return MeanWeights(alpha, inducing=self.workspace.Z)

    def anchors(self) -> np.ndarray | None:
        return np.asarray(self.workspace.Z) if self.solver.rest_at_test else None


class AugmentedState(AbstractProjectedState):
    """SubsetOfRegressors with one more weight for each test input: its feature is what Z leaves of k(., x*),
    of unit variance.
    """

    def predict(
        self, Xs: np.ndarray, full: bool = False, variance: bool = True
    ) -> tuple[np.ndarray, np.ndarray | None]:
        if full or self.slope is not None:
            raise SolverError(
                "SubsetOfRegressors(augment=True) predicts single inputs under Gaussian noise: use "
                "ProjectedProcess."
            )
        f, Psi = self.features, self.features.of(Xs)
        panels = self._test_panels(Xs)
        root = np.sqrt(self._test_rest(panels, Psi, False)[:, 0])
        r = (tiles.between(self.kernel, f.panels, panels) - f.expand(Psi.T)) / np.maximum(root, 1e-300)
        r[:, root**2 < 1e-12 * tiles.diagonal(self.kernel, panels)] = 0.0
        Lr = self.Lambda[:, None] * r
        c, w = f.project(Lr), self._weight_mean  # its covariance with the other weights, which have mean w
        Cc = self.core.solve(c)
        schur = 1.0 + np.einsum("ij,ij->j", r, Lr) - np.einsum("ij,ij->j", c, Cc)
        own = (Lr.T @ (self.centre - self.m) - c.T @ w) / schur
        reach = root - np.einsum("ij,ji->i", Psi, Cc)
        mean = self._prior_mean_at(Xs) + Psi @ w + reach * own
        if not variance:
            return mean[:, None], None
        V = self._test_half(Psi)
        return mean[:, None], (np.einsum("ij,ij->j", V, V) + reach**2 / schur)[:, None]


class NystromState(AbstractLowRankState):
    """R of SubsetOfRegressors with exact covariances to the test inputs."""

    pulls = EVERYTHING - {"mean", "var"}  # which are not those of the prior that R belongs to
    instead = "ProjectedProcess, FITC or VFE"

    def mean(self) -> np.ndarray:
        return (self.m + self.cross(self.X, self.alpha[:, None])[:, 0])[:, None]

    def variances(self) -> np.ndarray:
        return np.asarray(self.predict(self.X)[1])[:, 0]

    def cross(self, Xs: np.ndarray, V: np.ndarray) -> np.ndarray:
        return tiles.times(self.kernel, self._test_panels(Xs), self.features.panels, V)

    def predict(
        self, Xs: np.ndarray, full: bool = False, variance: bool = True
    ) -> tuple[np.ndarray, np.ndarray | None]:
        mean = (self._prior_mean_at(Xs) + self.cross(Xs, self.alpha[:, None])[:, 0])[:, None]
        if not variance:
            return mean, None
        panels = self._test_panels(Xs)
        K = tiles.between(self.kernel, panels, self.features.panels)
        RK = self.apply(K.T)
        if full:
            return mean, tiles.between(self.kernel, panels, panels) - K @ RK
        prior = tiles.diagonal(self.kernel, panels)
        return mean, self._guard(prior - np.einsum("ij,ji->i", K, RK), prior)[:, None]

    def _guard(self, variance: np.ndarray, prior: np.ndarray) -> np.ndarray:
        bad = int(np.sum(variance < 0.0))
        if bad:
            warnings.warn(
                f"{bad} of {variance.shape[0]} variances of the Nystrom method are negative and were set "
                "to 1e-10 of the prior's: "
                "use ProjectedProcess, FITC or VFE, or more inducing inputs.", RuntimeWarning, stacklevel=4,
            )  # fmt: skip
        return np.where(variance < 0.0, 1e-10 * prior, variance)
