"""Sites that couple latent functions or have negative precision, on any host solver: W = diag(D) - P P'.

The part diag(D) is factored for each latent function by the solver itself: R_l = (K_l + D_l^-1)^-1. The rest
is a downdate. With N = I - R K (block-diagonal), G = N P and M = I - P'(K - K R K) P,

    (K + W^-1)^-1 = R - G M^-1 G',    |I + K W| = |I + K D| |M|,

and the posterior is proper exactly if M is positive definite. For softmax sites (D = pi, P = pi stacked) G =
E and M = sum_c E_c
of (3.45-3.47): Algorithm 3.3, of order (C + 1) n^3 per factorisation, with C + 1 matrices of n x n beside the
factors.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from mercer.linalg import lapack
from mercer.linalg.cholesky import NotPositiveDefinite
from mercer.prior import AbstractPrior
from mercer.solvers.host import AbstractMatrixState, pull_mean
from mercer.solvers.protocol import (
    AbstractSolver,
    AbstractState,
    AbstractWorkspace,
    Bars,
    Cotangents,
    Diagnostics,
    MeanWeights,
    PriorBar,
    SiteBars,
    Sites,
    SolverError,
    condition_from_pivots,
    worst,
)

WEAK = 1e-6  # below this D k(x, x), a site says so little that its own equation loses digits

# how a solver factors one latent function: (prior, X, sites, its workspace or None)
FactorOne = Callable[[AbstractPrior, np.ndarray, Sites, Any], AbstractMatrixState]


class CoupledState(AbstractState):
    """L latent functions, independent a priori. Arrays are (n, L);
    for L = 1 `alpha` is (n,) as everywhere.
    """

    pulls = frozenset({"log_normaliser", "mean", "alpha", "apply"})
    who = "a State with coupled or negative sites"
    instead = "solver='dense' with sites of one latent function and non-negative precision"

    def __init__(
        self,
        factor_one: FactorOne,
        prior: AbstractPrior | tuple[AbstractPrior, ...],
        X: np.ndarray,
        sites: Sites,
        workspace: Any = None,
    ):
        L = sites.centre.shape[1]
        priors = prior if isinstance(prior, tuple) else (prior,) * L
        if len(priors) != L:
            raise SolverError(f"there are {len(priors)} priors but the sites have {L} latent functions.")
        self.prior, self.priors, self.X, self.sites, self.L = prior, priors, X, sites, L  # type: ignore[assignment]
        self.D, self.rows, self.P = _split(sites)
        spaces = _spaces(workspace, L)
        self.parts: list[AbstractMatrixState] = []
        for j in range(L):
            slope = None if sites.slope is None else sites.slope[:, [j]]
            one = Sites(sites.centre[:, [j]], self.D[:, [j]], slope)
            self.parts.append(factor_one(priors[j], X, one, spaces[j]))
        self.jitter = max(part.jitter for part in self.parts)
        n = X.shape[0]
        # a column for each datum, as in softmax
        self.every_datum = self.rows.shape[0] == n and bool((self.rows == np.arange(n)).all())
        self.G, M = self._downdate()
        self.U = M  # the factor of M in its upper triangle
        if M.shape[0] and (lapack.potrf(M) != 0 or not np.isfinite(np.einsum("ii->i", M)).all()):
            raise NotPositiveDefinite(
                "the sites of negative precision outweigh the prior: the posterior is not proper."
            )
        logdet = sum(part.logdet for part in self.parts) + 2.0 * float(np.sum(np.log(np.einsum("ii->i", M))))
        m, c = self.prior_mean(), np.asarray(sites.centre)
        g = np.zeros_like(c) if sites.slope is None else np.asarray(sites.slope)
        delta, Kg = c - m, self._times_K(g) if sites.slope is not None else np.zeros_like(c)
        r = self._apply(delta - Kg)
        self._alpha = g + r
        self.alpha = self._alpha[:, 0] if L == 1 else self._alpha
        self.log_normaliser = float(
            -0.5 * logdet - 0.5 * np.sum((delta - Kg) * r) - np.sum(g * delta) + 0.5 * np.sum(g * Kg)
        )

    # -- the downdate ----------------------------------------------------------------------------------------

    def _downdate(self) -> tuple[list[np.ndarray], np.ndarray]:
        """G_l = N_l P_l (n, q) for every latent function, and M = I - sum_l P_l'(K_l - K_l R_l K_l) P_l.

        Column j of P_l has one entry, P_lj in row `rows_j`.
        """
        rows, G = self.rows, []
        M = np.eye(rows.shape[0])
        for part, P, D in zip(self.parts, self.P, self.D.T, strict=True):
            if rows.size and (D[rows] > 0).all():
                G.append(self._add_by_resolvent(part, P, P / D[rows], M))
            else:
                g, less = part.downdate(rows, P)
                M += less
                G.append(g)
        return G, M

    def _add_by_resolvent(
        self, part: AbstractMatrixState, P: np.ndarray, scale: np.ndarray, M: np.ndarray
    ) -> np.ndarray:
        """Where D > 0, with scale = P / D: G = N P = R diag(scale) (n, q), which is returned, and M gains
        P'(K R K - K) P = diag(scale) R diag(scale) - diag(scale) P.
        """
        rows, every_datum = self.rows, self.every_datum  # then no copies
        R = part.resolvent(reuse=True)
        G = R if every_datum else R[:, rows]
        if (scale != 1.0).any():
            G *= scale
        at_rows = G if every_datum else G[rows]
        M += at_rows if (scale == 1.0).all() else scale[:, None] * at_rows
        if every_datum:
            np.einsum("ii->i", M)[:] -= P * scale
        else:  # several columns may belong to one datum
            M -= np.where(rows[:, None] == rows[None, :], P[:, None] * scale, 0.0)
        return G

    # -- products with stacked vectors (n, L) ----------------------------------------------------------------

    def _apply(self, V: np.ndarray) -> np.ndarray:
        """R V for V (n, L) or (n, L, q)."""
        flat = V.reshape(*V.shape[:2], -1)
        if not self.rows.size:
            return np.stack([part.apply(flat[:, j]) for j, part in enumerate(self.parts)], 1).reshape(V.shape)
        s = sum(lapack.matmul(G.T, flat[:, j]) for j, G in enumerate(self.G))
        s = lapack.solve_lower(self.U, lapack.solve_lower(self.U, np.asfortranarray(s)), transpose=True)
        out = np.stack(
            [part.apply(flat[:, j]) - lapack.matmul(self.G[j], s) for j, part in enumerate(self.parts)], 1
        )
        return out.reshape(V.shape)

    def diagnostics(self) -> Diagnostics:
        """Of the worst of the matrices that were factored: B_l = I + D_l^1/2 K_l D_l^1/2, and M."""
        found = [part.diagnostics() for part in self.parts]
        if self.rows.size:
            condition = condition_from_pivots(np.diagonal(self.U))
            found.append(Diagnostics(condition, "M = I - P'(K - K R K) P"))
        return dataclasses.replace(worst(found), notes=self.notes)

    def flattened(self) -> AbstractState | None:
        return self.parts[0] if self.L == 1 else None

    def _times_K(self, V: np.ndarray) -> np.ndarray:
        if all(prior is self.priors[0] for prior in self.priors):  # one matrix for all
            return self.parts[0].times_K(V.reshape(V.shape[0], -1)).reshape(V.shape)
        flat = V.reshape(*V.shape[:2], -1)
        return np.stack([part.times_K(flat[:, j]) for j, part in enumerate(self.parts)], 1).reshape(V.shape)

    # -- views -----------------------------------------------------------------------------------------------

    def prior_mean(self) -> np.ndarray:
        return np.concatenate([part.prior_mean() for part in self.parts], 1)

    def mean(self) -> np.ndarray:
        return self.prior_mean() + self._times_K(self._alpha)

    def marginals(self) -> tuple[np.ndarray, np.ndarray]:
        variance = self.blocks()
        return self.mean(), variance[:, 0] if self.L == 1 else variance

    def dual(self) -> tuple[np.ndarray, np.ndarray]:
        kappa = [
            part.kappa() - np.sum(self._whiten(G) ** 2, 0) for part, G in zip(self.parts, self.G, strict=True)
        ]
        return self._alpha, np.stack(kappa, 1)

    def apply(self, V: np.ndarray) -> np.ndarray:
        return self._apply(V[:, None])[:, 0] if self.L == 1 else self._apply(V)

    def times_K(self, V: np.ndarray) -> np.ndarray:
        return self._times_K(V[:, None])[:, 0] if self.L == 1 else self._times_K(V)

    def cross(self, Xs: np.ndarray, V: np.ndarray) -> np.ndarray:
        if self.L == 1:
            return self.parts[0].cross(Xs, V)
        return np.stack([part.cross(Xs, V[:, j]) for j, part in enumerate(self.parts)], 1)

    def _whiten(self, S: np.ndarray) -> np.ndarray:
        """U'^-1 S' for S (m, q): (q, m)."""
        if not self.rows.size:
            return np.zeros((0, S.shape[0]))
        return lapack.solve_lower(self.U, np.array(S.T, order="F"))

    def _explained(self, j: int) -> np.ndarray:
        """K_j G_j (n, q): by the site's own equation, K N P = P/D - D^-1 G, where it says enough."""
        part, D, G = self.parts[j], self.D[:, j], self.G[j]
        strong = part.prior_variance() * D >= WEAK
        if (D[self.rows] <= 0).any() or not strong.any():
            return part.times_K(G)
        safe = np.where(strong, D, 1.0)
        out = -G / safe[:, None]
        out[self.rows, np.arange(self.rows.shape[0])] += self.P[j] / safe[self.rows]
        weak = np.flatnonzero(~strong)
        if weak.size:
            out[weak] = part.rows_times_K(weak, G)
        return out

    @functools.cached_property
    def _T(self) -> list[np.ndarray]:
        """T_l = U'^-1 G_l' (q, n) for every latent function: what the blocks and a pullback have in
        common, kept for it.
        """
        return [self._whiten(G) for G in self.G]

    @functools.cached_property
    def _blocks(self) -> np.ndarray:
        """diag A_l, and H_i'H_j with H_l = U'^-1 (K_l G_l)'."""
        n, L = self.X.shape[0], self.L
        out = np.zeros((n, L, L))
        if self.every_datum and (self.D > 0).all():
            self._add_products(out)
        elif self.rows.size:
            H = [self._whiten(self._explained(j)) for j in range(L)]
            for j in range(L):
                for i in range(j + 1):
                    out[:, i, j] = out[:, j, i] = np.einsum("qn,qn->n", H[i], H[j])
        for j, part in enumerate(self.parts):
            out[:, j, j] += part.variances()
        return out

    def _add_products(self, out: np.ndarray, block: int = 32) -> None:
        """H_i'H_j for every datum, where each has a column with D > 0: by the sites' own equation
        H_l = U'^-1 diag(P_l / D_l) - T_l D_l^-1, some data at a time; where a site says too little, directly.
        """
        inverse = self.U.copy()
        lapack.trtri(inverse)
        inverse = np.triu(inverse)  # row j is column j of U'^-1
        direct = {}
        for j, part in enumerate(self.parts):
            weak = np.flatnonzero(part.prior_variance() * self.D[:, j] < WEAK)
            if weak.size:
                direct[j] = weak, self._whiten(part.rows_times_K(weak, self.G[j])).T
        for first in range(0, out.shape[0], block):
            rows = slice(first, first + block)
            H = np.stack(
                [p[rows, None] * inverse[rows] - T.T[rows] for p, T in zip(self.P, self._T, strict=True)], 1
            )
            H /= self.D[rows, :, None]
            for j, (weak, columns) in direct.items():
                here = (weak >= first) & (weak < first + block)
                H[weak[here] - first, j] = columns[here]
            out[rows] += H @ H.transpose(0, 2, 1)

    def blocks(self) -> np.ndarray:
        """Posterior covariance of the L latent values at each datum: (n, L, L)."""
        return self._blocks

    def predict(
        self, Xs: np.ndarray, full: bool = False, variance: bool = True
    ) -> tuple[np.ndarray, np.ndarray | None]:
        prior = np.concatenate([np.asarray(p.mean.value(Xs), float)[:, None] for p in self.priors], 1)
        mean = prior + np.stack(
            [part.cross(Xs, self._alpha[:, [j]])[:, 0] for j, part in enumerate(self.parts)], 1
        )
        if not variance:
            return mean, None
        own = [np.asarray(part.predict(Xs, full)[1]) for part in self.parts]
        S = [self._whiten(part.cross(Xs, G)) for part, G in zip(self.parts, self.G, strict=True)]
        if self.L == 1:
            return mean, own[0] + (S[0].T @ S[0] if full else np.sum(S[0] ** 2, 0)[:, None])
        if full:
            both = np.stack([[Si.T @ Sj for Sj in S] for Si in S])  # (L, L, m, m)
            for j in range(self.L):
                both[j, j] += own[j]
            return mean, both.transpose(2, 0, 3, 1)
        out = np.empty((Xs.shape[0], self.L, self.L))
        for j in range(self.L):
            for i in range(j + 1):
                out[:, i, j] = out[:, j, i] = np.einsum("qm,qm->m", S[i], S[j])
            out[:, j, j] += own[j][:, 0]
        return mean, out

    def mean_weights(self) -> MeanWeights | None:
        return None if self.parts[0].mean_weights() is None else MeanWeights(self._alpha)

    # -- cotangents ------------------------------------------------------------------------------------------

    def pull(self, bars: Bars) -> Cotangents:
        """As for one latent function (`mercer.solvers.host`), with R = R - G M^-1 G' and blocks for W."""
        (n, L), ln = self._alpha.shape, float(bars.log_normaliser)
        total, residual = _Total(n, L), np.asarray(self.sites.centre) - self.mean()
        if ln:
            self._pull_log_normaliser(ln, residual, total)
        if bars.mean is not None:
            self._pull_mean(np.asarray(bars.mean, float).reshape(n, L), residual, total)
        if bars.alpha is not None:
            self._pull_alpha(np.asarray(bars.alpha, float).reshape(n, L), residual, total)
        if bars.apply is not None:
            V, bar = (np.asarray(x, float).reshape(n, L, -1) for x in bars.apply)
            self._pull_apply(V, bar, total)
        priors = self._pull_priors(ln, total)
        vars(self).pop("_T", None)
        slope = None if self.sites.slope is None else total.slope
        precision = total.precision[:, :, 0] if L == 1 else total.precision
        return Cotangents(priors[0] if L == 1 else priors, SiteBars(total.centre, precision, slope))

    def _pull_log_normaliser(self, bar: float, residual: np.ndarray, total: _Total) -> None:
        """d log Z = 1/2 (alpha' dK alpha - tr R dK) + alpha'(dm - dc) - r'dg - 1/2 tr (r r' + A) dW.

        What R says of K is taken in by `_pull_priors`.
        """
        total.outer(0.5 * bar * self._alpha, self._alpha)
        total.mean += bar * self._alpha
        total.centre -= bar * self._alpha
        total.slope -= bar * residual
        total.block(-0.5 * bar * residual, residual)
        total.precision -= 0.5 * bar * self.blocks()

    def _pull_mean(self, bar: np.ndarray, residual: np.ndarray, total: _Total) -> None:
        """With t = N bar: d mean = N'(dm + dK alpha) + (I - N') dc + A (dg + dW r), and A bar = K t."""
        t = bar - self._apply(self._times_K(bar))
        Kt = self._times_K(t)
        total.outer(t, self._alpha)
        total.mean += t
        total.centre += bar - t
        total.slope += Kt
        total.block(Kt, residual)

    def _pull_alpha(self, bar: np.ndarray, residual: np.ndarray, total: _Total) -> None:
        """With b = R bar: d alpha = -R (dm + dK alpha - dc) + N (dg + dW r), and N' bar = bar - K b."""
        b = self._apply(bar)
        rest = bar - self._times_K(b)
        total.outer(-b, self._alpha)
        total.mean -= b
        total.centre += b
        total.slope += rest
        total.block(rest, residual)

    def _pull_apply(self, V: np.ndarray, bar: np.ndarray, total: _Total) -> None:
        """d(R V) = -R dK R V + N dW N' V, for V (n, L, q)."""
        RV, R_bar = self._apply(V), self._apply(bar)
        left, right = bar - self._times_K(R_bar), V - self._times_K(RV)
        for i in range(V.shape[2]):
            total.outer(-R_bar[:, :, i], RV[:, :, i])
            total.block(left[:, :, i], right[:, :, i])

    def _pull_priors(self, ln: float, total: _Total) -> tuple[PriorBar, ...]:
        """Cotangents of every prior. Latent functions with the same prior are pulled together:
        their share is with the first.
        """
        kernels: list[Any] = []
        for j, prior in enumerate(self.priors):
            same = [i for i in range(self.L) if self.priors[i] is prior]
            if same[0] < j:
                kernels.append(jax.tree.map(np.zeros_like, kernels[same[0]]))
            else:
                kernels.append(self.parts[j].pull_matrix(self._kernel_bar(ln, same, total)))
        means = [
            pull_mean(part.prior.mean, part.columns, total.mean[:, j]) for j, part in enumerate(self.parts)
        ]
        return tuple(PriorBar(*pair) for pair in zip(kernels, means, strict=True))

    def _kernel_bar(self, ln: float, same: list[int], total: _Total) -> np.ndarray:
        """The cotangent of the covariance (n, n) that some latent functions share, in its upper triangle:
        the sum over them of -1/2 ln (R - G M^-1 G') and of the pairs sym(p q').
        """
        bar = np.zeros((self.X.shape[0],) * 2)
        if ln:
            for i in same:
                bar += self._resolvent(i)
                if self.rows.size:
                    lapack.syrk("T", -1.0, self._T[i].T, 1.0, bar)
            bar *= -0.5 * ln
        P, Q = total.columns(same)
        bar += lapack.matmul(P, Q.T)
        return bar

    def _resolvent(self, j: int) -> np.ndarray:
        """R_j (n, n), which is G_j where each datum has a column with P = D > 0."""
        P, D = self.P[j], self.D[:, j]
        known = self.every_datum and bool((D > 0).all() and (P == D).all())
        return self.G[j] if known else self.parts[j].resolvent()


class _Total:
    """The sum of what the bars say of the mean functions, the sites (n, L), their precision blocks (n, L, L)
    and, as a list of pairs (n, L), of the covariances.
    """

    def __init__(self, n: int, L: int):
        self.mean, self.centre, self.slope = (np.zeros((n, L)) for _ in range(3))
        self.precision = np.zeros((n, L, L))
        self._pairs: list[tuple[np.ndarray, np.ndarray]] = []

    def outer(self, p: np.ndarray, q: np.ndarray) -> None:
        """sym(p_l q_l') more in the cotangent of every K_l."""
        self._pairs.append((p, q))

    def block(self, p: np.ndarray, q: np.ndarray) -> None:
        """sym(p_i q_i') more in the cotangent of the precision of every datum."""
        self.precision += 0.5 * (p[:, :, None] * q[:, None, :] + q[:, :, None] * p[:, None, :])

    def columns(self, which: list[int]) -> tuple[np.ndarray, np.ndarray]:
        """P and Q (n, q) whose product P Q' is the sum of the pairs of these latent functions."""
        both = [(p[:, i], q[:, i]) for p, q in self._pairs for i in which]
        P = np.stack([x for p, q in both for x in (0.5 * p, 0.5 * q)], 1)
        return P, np.stack([x for p, q in both for x in (q, p)], 1)


class CoupledWorkspace(AbstractWorkspace):
    """A workspace for each latent function; those with the same prior share what depends on it alone."""

    def __init__(self, solver: AbstractSolver, priors: tuple, X: np.ndarray):
        self.children = [solver.workspace(prior, X) for prior in priors]

    def hold(self, prior: Any) -> None:
        for j, child in enumerate(self.children):
            first = next(i for i in range(j + 1) if prior[i] is prior[j])
            child.hold(prior[j]) if first == j else child.share(self.children[first])

    def share(self, other: Any) -> None:
        for mine, theirs in zip(self.children, other.children, strict=True):
            mine.share(theirs)


def _spaces(workspace: Any, L: int) -> list[Any]:
    """A workspace for each latent function."""
    if workspace is None:
        return [None] * L
    return workspace.children if isinstance(workspace, CoupledWorkspace) else [workspace]


def _split(sites: Sites) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """D (n, L) >= 0, and the columns of P: the datum each belongs to (q,) and its entries for every latent
    function (L, q).
    """
    W = np.asarray(sites.precision, float)
    L = W.shape[1]
    rows, columns = [], []
    if sites.coupling is not None:
        P = np.asarray(sites.coupling, float)
        for r in range(P.shape[2]):
            active = np.flatnonzero(np.any(P[:, :, r] != 0, 1))
            rows.append(active)
            columns.append(P[active, :, r].T)
    for j in range(L):
        negative = np.flatnonzero(W[:, j] < 0)
        column = np.zeros((L, negative.size))
        column[j] = np.sqrt(-W[negative, j])
        rows.append(negative)
        columns.append(column)
    return np.maximum(W, 0.0), np.concatenate(rows), np.concatenate(columns, 1)
