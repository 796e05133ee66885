"""Explicit basis functions for every solver (2.39-2.45): f = f0 + h(x)' beta, beta ~ N(b, B) or vague.

The log normaliser of any State is quadratic in the mean, with slope alpha and curvature -R. Integrating the
weights out needs only those two, so one wrapper serves all: with A = B^-1 + H' R H (B^-1 = 0 if vague) and a
= H' alpha,

    log Z = log Z0 + 1/2 a' A^-1 a - 1/2 log|A| - 1/2 log|B|   (vague: without log|B|, plus p/2 log 2 pi, so
    that 2.45 has n - p).
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import scipy.linalg as sla

from mercer.means import AbstractMean, Sum
from mercer.prior import AbstractPrior
from mercer.selection import Pool
from mercer.solvers.protocol import (
    AbstractSolver,
    AbstractState,
    AbstractWorkspace,
    Bars,
    BasisWeights,
    Cost,
    Cotangents,
    Diagnostics,
    Judge,
    MeanWeights,
    PriorBar,
    SiteBars,
    Sites,
    SolverError,
)

DEPENDENT = 1e-7


@dataclasses.dataclass(frozen=True)
class WithBasis(AbstractSolver):
    """Any solver, with the prior's basis functions integrated out."""

    base: AbstractSolver

    @property
    def offers(self) -> frozenset[str]:  # type: ignore[override]
        """What it can do on this base."""
        return frozenset({"variance", "logdet", "sample", "full", "indefinite"}) | (
            self.base.offers & {"exact"}
        )

    @property
    def pilot(self) -> bool:  # type: ignore[override]
        return self.base.pilot

    def with_basis(self) -> AbstractSolver:
        return self

    def chosen(
        self, prior: Any, X: np.ndarray, noise_variance: Any = None, judge: Judge | None = None
    ) -> AbstractSolver:
        with_basis = None if judge is None else lambda base: judge(base.with_basis())
        chosen = self.base.chosen(prior, X, noise_variance, with_basis)
        return WithBasis(chosen, why=chosen.why)

    def check_room(self, n: int) -> None:
        self.base.check_room(n)

    def rows(self, pool: Pool) -> np.ndarray | slice:
        return self.base.rows(pool)

    def some_rows(self, X: np.ndarray, size: int, rng: np.random.Generator) -> np.ndarray:
        return self.base.some_rows(X, size, rng)

    def prepare(self, prior: Any, X: np.ndarray, y: np.ndarray, noise_variance: Any = None) -> AbstractSolver:
        return dataclasses.replace(self, base=self.base.prepare(prior, X, y, noise_variance))

    def inducing_inputs(self) -> np.ndarray | None:
        return self.base.inducing_inputs()

    def inducing_to_learn(self) -> np.ndarray | None:
        return self.base.inducing_to_learn()

    def with_inducing(self, Z: np.ndarray, learn: bool) -> AbstractSolver:
        return WithBasis(self.base.with_inducing(Z, learn))

    def workspace(self, prior: Any, X: np.ndarray) -> AbstractWorkspace:
        return self.base.workspace(prior, X)

    def factor(self, prior: Any, X: np.ndarray, sites: Sites, workspace: Any = None) -> AbstractState:
        return BasisState(self.base, prior, X, sites, workspace)

    def cost(self, n: int, d: int, L: int = 1) -> Cost:
        return self.base.cost(n, d, L)


class BasisState(AbstractState):
    """`basis_weights()` is the posterior of beta."""

    who = "WithBasis"
    instead = "a mean or a linear kernel in place of the basis functions, with solver='dense'"

    @property
    def pulls(self) -> frozenset[str]:
        """Through alpha and R H of the solver without basis functions; means where no site is silent."""
        return frozenset({"log_normaliser", "mean", "alpha", "apply"}) | (self.base.pulls & {"kappa"})

    def __init__(
        self, solver: AbstractSolver, prior: AbstractPrior, X: np.ndarray, sites: Sites, workspace: Any
    ):
        self.prior, self.X, self.sites = prior, X, sites
        assert prior.basis is not None
        H = np.asarray(prior.basis.features(X)).astype(float, copy=False)
        b, B = prior.basis.prior(H.shape[1])
        # which basis functions are used: dependent ones have no weights of their own under a vague prior
        self.kept = independent(H) if B is None else np.full(H.shape[1], True)
        self.H, b = H[:, self.kept], np.where(self.kept, b, 0.0)
        n, p = self.H.shape
        mean = Sum((prior.mean, _Vector(b, prior.basis))) if np.any(b) else prior.mean
        self.base = solver.factor(type(prior)(prior.kernel, mean), X, sites, workspace)
        self.jitter, self.notes, self.exact = self.base.jitter, self.base.notes, self.base.exact
        self.RH = self.base.apply(self.H)
        self.b, self.B = b, B  # B None: vague
        precision = np.zeros((p, p)) if B is None else np.linalg.inv(B)
        A = precision + self.H.T @ self.RH
        try:
            self.A = sla.cho_factor(0.5 * (A + A.T), lower=True)
            # each pivot is the part of a basis function that the ones before it do not explain
            told_apart = B is not None or bool(np.all(np.diag(self.A[0]) > 1e-7 * np.sqrt(np.diag(A))))
        except np.linalg.LinAlgError:
            told_apart = False
        if not told_apart:
            raise SolverError(
                f"the {p} basis functions can hardly be told apart at these {n} inputs, so a vague prior "
                "leaves their weights undetermined: use fewer, or give them a covariance."
            )
        base_alpha = self.base.alpha
        self.shift = sla.cho_solve(self.A, self.H.T @ base_alpha)
        self.inverse = sla.cho_solve(self.A, np.eye(p))
        self.alpha = base_alpha - self.RH @ self.shift
        logdet_A = 2.0 * np.sum(np.log(np.diag(self.A[0])))
        constant = 0.5 * p * np.log(2 * np.pi) if B is None else -0.5 * np.linalg.slogdet(B)[1]
        self.log_normaliser = float(
            self.base.log_normaliser + 0.5 * (self.H.T @ base_alpha) @ self.shift - 0.5 * logdet_A + constant
        )

    def prior_mean(self) -> np.ndarray:
        return self.base.prior_mean()

    def mean(self) -> np.ndarray:
        rest = self.H - self.base.cross(self.X, self.RH)
        return self.base.mean() + (rest @ self.shift)[:, None]

    def _leverage(self, rest):
        """diag(rest A^-1 rest') for rest (m, p)."""
        return np.einsum("ij,ij->j", *[sla.solve_triangular(self.A[0], rest.T, lower=True)] * 2)

    def marginals(self) -> tuple[np.ndarray, np.ndarray]:
        mean, variance = self.base.marginals()
        rest = self.H - self.base.cross(self.X, self.RH)
        return mean + (rest @ self.shift)[:, None], variance + self._leverage(rest)[:, None]

    def dual(self) -> tuple[np.ndarray, np.ndarray]:
        _, kappa = self.base.dual()
        return self.alpha[:, None], kappa - self._leverage(self.RH)[:, None]

    def apply(self, V: np.ndarray) -> np.ndarray:
        RV = self.base.apply(V)
        return RV - self.RH @ sla.cho_solve(self.A, self.H.T @ RV)

    def times_K(self, V: np.ndarray) -> np.ndarray:
        return self.base.times_K(V) + self.H @ self._times_BH(V)

    def cross(self, Xs: np.ndarray, V: np.ndarray) -> np.ndarray:
        return self.base.cross(Xs, V) + self._features(Xs) @ self._times_BH(V)

    def _times_BH(self, V: np.ndarray) -> np.ndarray:
        """B H' V: with the basis functions the prior covariance is K + H B H'."""
        if self.B is None:
            raise SolverError(
                "a prior with basis functions of vague weight has no finite covariance; ask for predictions "
                "instead."
            )
        return self.B @ (self.H.T @ V)

    def _features(self, Xs: np.ndarray) -> np.ndarray:
        assert self.prior.basis is not None
        return np.asarray(self.prior.basis.features(Xs), float)[:, self.kept]

    def diagnostics(self) -> Diagnostics:
        """Of the solver without basis functions."""
        return dataclasses.replace(self.base.diagnostics(), bounds=None)

    def basis_weights(self) -> BasisWeights:
        """Zero for those that are not used."""
        (n, _), p = self.H.shape, self.kept.size
        mean, covariance, RH = self.b.copy(), np.zeros((p, p)), np.zeros((n, p))
        mean[self.kept] += self.shift
        covariance[np.ix_(self.kept, self.kept)] = self.inverse
        RH[:, self.kept] = self.RH
        return BasisWeights(mean, covariance, RH, tuple(np.flatnonzero(~self.kept).tolist()))

    def smoother(self, Xs: np.ndarray) -> np.ndarray:
        """Those of the prior without basis functions, and h(x)' A^-1 H'R of the rest h - K_* R H (2.42)."""
        rest = self._features(Xs) - self.base.cross(Xs, self.RH)
        return self.base.smoother(Xs) + rest @ self.inverse @ self.RH.T

    def own_weights(self, Xs: np.ndarray, rows: np.ndarray) -> np.ndarray:
        rest = self._features(Xs) - self.base.cross(Xs, self.RH)
        of_basis = np.einsum("mp,mp->m", rest @ self.inverse, self.RH[rows])
        return self.base.own_weights(Xs, rows) + of_basis

    def predict(
        self, Xs: np.ndarray, full: bool = False, variance: bool = True
    ) -> tuple[np.ndarray, np.ndarray | None]:
        mean, second = self.base.predict(Xs, full, variance)
        rest = self._features(Xs) - self.base.cross(Xs, self.RH)  # R of (2.41), transposed
        mean = mean + (rest @ self.shift)[:, None]
        if not variance:
            return mean, None
        extra = rest @ sla.cho_solve(self.A, rest.T) if full else self._leverage(rest)[:, None]
        return mean, second + extra

    def sample(self, seed: Any, Xs: np.ndarray, size: int) -> np.ndarray:
        """Draws without basis functions, and of the weights the rest h - K_* R H: what the base takes."""
        rng = np.random.default_rng(seed)
        rest = self._features(Xs) - self.base.cross(Xs, self.RH)
        u = rng.standard_normal((self.shift.size, size))
        weights = self.shift[:, None] + sla.solve_triangular(self.A[0], u, lower=True, trans=1)
        return self.base.sample(rng, Xs, size) + (rest @ weights).T

    def mean_weights(self) -> MeanWeights | None:
        """Those of the solver, where they are weights of kernels at the data."""
        base = self.base.mean_weights()
        if base is None or base.inducing is not None:
            return None
        return MeanWeights(self.alpha[:, None], self.basis_weights().mean)

    # -- cotangents ------------------------------------------------------------------------------------------

    def pull(self, bars: Bars) -> Cotangents:
        """One pass of the solver without basis functions, with bars of its alpha, kappa, R H and R V.

        With a = H' alpha0, A = B^-1 + S and S = H' R H, everything is made of alpha0, R H and S.
        """
        if bars.mean is not None:
            return self._pull_mean(bars)
        ln, n, p = bars.log_normaliser, *self.H.shape
        # log Z = log Z0 + 1/2 a' A^-1 a - 1/2 log|A|
        S_bar = -0.5 * ln * (np.outer(self.shift, self.shift) + self.inverse)
        alpha0_bar, RH_bar = np.zeros(n), np.zeros((n, p))
        applied = []
        if bars.alpha is not None:  # alpha = alpha0 - RH A^-1 H' alpha0
            t = np.asarray(bars.alpha, float).reshape(n)
            c = sla.cho_solve(self.A, self.RH.T @ t)
            alpha0_bar += t - self.H @ c
            RH_bar -= np.outer(t, self.shift)
            S_bar += np.outer(c, self.shift)
        if bars.kappa is not None:  # kappa = kappa0 - diag(RH A^-1 RH')
            k = np.asarray(bars.kappa, float).reshape(n)
            G = sla.cho_solve(self.A, self.RH.T).T  # RH A^-1
            RH_bar -= 2.0 * k[:, None] * G
            S_bar += (G * k[:, None]).T @ G
        if bars.apply is not None:  # Y = R V - RH A^-1 H'R V
            V, Y_bar = bars.apply
            C = sla.cho_solve(self.A, self.H.T @ self.base.apply(V))
            D = sla.cho_solve(self.A, self.RH.T @ Y_bar)
            applied.append((V, Y_bar - self.H @ D))
            RH_bar -= Y_bar @ C.T
            S_bar += D @ C.T
        alpha0_bar += self.H @ (ln * self.shift)
        RH_bar += self.H @ S_bar.T
        V, Y_bar = (np.hstack(parts) for parts in zip((self.H, RH_bar), *applied, strict=True))
        out = self.base.pull(dataclasses.replace(bars, alpha=alpha0_bar[:, None], apply=(V, Y_bar)))
        if self.base.prior.mean is self.prior.mean:
            return out
        assert isinstance(out.prior, PriorBar)
        return dataclasses.replace(out, prior=dataclasses.replace(out.prior, mean=out.prior.mean.terms[0]))

    def _pull_mean(self, bars: Bars) -> Cotangents:
        """By the site's own equation, mean = c - (alpha - g) / W."""
        W = np.asarray(self.sites.precision, float)
        u = np.asarray(bars.mean, float).reshape(W.shape)
        if np.any((W == 0) & (u != 0)):
            raise SolverError(
                "with basis functions, the mean at a datum whose site says nothing has no derivative here."
            )
        scaled = np.divide(u, W, out=np.zeros_like(u), where=W != 0)
        alpha_bar = -scaled if bars.alpha is None else np.asarray(bars.alpha, float).reshape(W.shape) - scaled
        out = self.pull(dataclasses.replace(bars, mean=None, alpha=alpha_bar))
        of, dual = out.sites, self.alpha[:, None] - (0.0 if self.sites.slope is None else self.sites.slope)
        slope = None if of.slope is None else of.slope + scaled
        ratio = np.divide(dual, W, out=np.zeros_like(u), where=W != 0)
        sites = SiteBars(of.centre + u, of.precision + scaled * ratio, slope)
        return dataclasses.replace(out, sites=sites)


def independent(H: np.ndarray) -> np.ndarray:
    """Which columns of H (n, p) are not combinations of those before them (p,): of each, more than
    `DEPENDENT` of its length is left when what they explain is taken away (Gram-Schmidt).
    """
    n, p = H.shape
    Q, kept = np.zeros((n, 0)), np.zeros(p, bool)
    for j, h in enumerate(H.T):
        length = np.linalg.norm(h)
        rest = h / (length or 1.0)
        for _ in range(2):  # once more, against rounding
            rest = rest - Q @ (Q.T @ rest)
        left = float(np.linalg.norm(rest))
        if left > DEPENDENT:
            kept[j], Q = True, np.column_stack([Q, rest / left])
    return kept


class _Vector(AbstractMean):
    """h(x)' b for the prior mean b of the weights."""

    weights: Any
    basis: Any

    def value(self, X):
        return self.basis.features(X) @ self.weights
