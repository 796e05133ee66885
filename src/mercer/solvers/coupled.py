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
from typing import Any

import numpy as np

from mercer.linalg import lapack
from mercer.linalg.cholesky import NotPositiveDefinite
from mercer.solvers.protocol import (
    AbstractSolver,
    AbstractState,
    AbstractWorkspace,
    Cotangents,
    Diagnostics,
    PriorBar,
    SiteBars,
    Sites,
    SolverError,
    condition_from_pivots,
    worst,
)

WEAK = 1e-6  # below this D k(x, x), a site says so little that its own equation loses digits


class CoupledState(AbstractState):
    """L latent functions, independent a priori. Arrays are (n, L);
    for L = 1 `alpha` is (n,) as everywhere.
    """

    def __init__(self, solver: AbstractSolver, prior, X: np.ndarray, sites: Sites, workspace=None):
        L = sites.centre.shape[1]
        priors = prior if isinstance(prior, tuple) else (prior,) * L
        if len(priors) != L:
            raise SolverError(f"there are {len(priors)} priors but the sites have {L} latent functions.")
        self.prior, self.priors, self.X, self.sites, self.L = prior, priors, X, sites, L
        D, self.rows, self.P = _split(sites)
        self.D = D
        spaces = (
            [None] * L
            if workspace is None
            else workspace.children
            if isinstance(workspace, CoupledWorkspace)
            else [workspace]
        )
        self.parts: list[Any] = []
        for j in range(L):
            slope = None if sites.slope is None else sites.slope[:, [j]]
            one = Sites(sites.centre[:, [j]], D[:, [j]], slope)
            self.parts.append(solver.factor(priors[j], X, one, spaces[j]))
        self.jitter = max(part.jitter for part in self.parts)
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

    def _downdate(self) -> tuple[list[np.ndarray], np.ndarray]:
        """G_l = N_l P_l (n, q) for every latent function, and M (q, q)."""
        rows, q = self.rows, self.rows.shape[0]
        M, G = np.eye(q), []
        # a column for every datum, as in softmax
        one_each = q == self.X.shape[0] and (rows == np.arange(q)).all()
        for part, P, D in zip(self.parts, self.P, self.D.T, strict=True):
            if (D[rows] > 0).all() and q > 0:  # N P = R P / D, and P'A P = P'P / D - (P / D)' R (P / D)
                scale = P / D[rows]
                R = part.resolvent(reuse=True)
                g = R if one_each else R[:, rows]
                if (scale != 1.0).any():
                    g *= scale
                    M += scale[:, None] * (g if one_each else g[rows])
                else:
                    M += g if one_each else g[rows]
                if one_each:
                    np.einsum("ii->i", M)[:] -= P * scale
                else:
                    M -= np.where(rows[:, None] == rows[None, :], P[:, None] * scale, 0.0)
            else:
                g, less = part.downdate(rows, P)
                M += less
            G.append(g)
        return G, M

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

    def prior_mean(self):
        return np.concatenate([part.prior_mean() for part in self.parts], 1)

    def mean(self):
        return self.prior_mean() + self._times_K(self._alpha)

    def marginals(self):
        variance = self.blocks()
        return self.mean(), variance[:, 0] if self.L == 1 else variance

    def dual(self):
        kappa = [
            part.kappa() - np.sum(self._whiten(G) ** 2, 0) for part, G in zip(self.parts, self.G, strict=True)
        ]
        return self._alpha, np.stack(kappa, 1)

    def apply(self, V):
        return self._apply(V[:, None])[:, 0] if self.L == 1 else self._apply(V)

    def times_K(self, V):
        return self._times_K(V[:, None])[:, 0] if self.L == 1 else self._times_K(V)

    def cross(self, Xs, V):
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
    def _blocks(self) -> np.ndarray:
        n, out = self.X.shape[0], np.zeros((self.X.shape[0], self.L, self.L))
        H = [self._whiten(self._explained(j)) for j in range(self.L)]
        for j in range(self.L):
            out[:, j, j] = self.parts[j].variances()
            for i in range(j + 1):
                shared = np.einsum("qn,qn->n", H[i], H[j]) if H[j].size else np.zeros(n)
                out[:, i, j] += shared
                if i != j:
                    out[:, j, i] += shared
        return out

    def blocks(self) -> np.ndarray:
        """Posterior covariance of the L latent values at each datum: (n, L, L)."""
        return self._blocks

    def predict(self, Xs, full=False, variance=True):
        if full and self.L > 1:
            raise SolverError(
                "a joint covariance over inputs is available for one latent function; ask for variances."
            )
        prior = np.concatenate([np.asarray(p.mean.value(Xs), float)[:, None] for p in self.priors], 1)
        mean = prior + np.stack(
            [part.cross(Xs, self._alpha[:, [j]])[:, 0] for j, part in enumerate(self.parts)], 1
        )
        if not variance:
            return mean, None
        answers = [part.predict(Xs, full) for part in self.parts]
        S = [self._whiten(part.cross(Xs, G)) for part, G in zip(self.parts, self.G, strict=True)]
        if self.L == 1:
            second = answers[0][1]
            return mean, second + (S[0].T @ S[0] if full else np.sum(S[0] ** 2, 0)[:, None])
        out = np.empty((Xs.shape[0], self.L, self.L))
        for j in range(self.L):
            for i in range(j + 1):
                out[:, i, j] = out[:, j, i] = np.einsum("qm,qm->m", S[i], S[j])
            out[:, j, j] += answers[j][1][:, 0]
        return mean, out

    # -- cotangents ------------------------------------------------------------------------------------------

    def pullback(
        self,
        log_normaliser_bar=0.0,
        mean_bar=None,
        var_bar=None,
        alpha_bar=None,
        kappa_bar=None,
        apply_bar=None,
        *,
        inputs=False,
        consume=False,
    ):
        if var_bar is not None or kappa_bar is not None or inputs:
            raise SolverError(
                "with coupled or negative sites, derivatives are available of the log normaliser, mean, "
                "alpha and apply."
            )
        n, L, ln = self.X.shape[0], self.L, float(log_normaliser_bar)
        residual = np.asarray(self.sites.centre) - self.mean()
        m_bar, c_bar, g_bar = (np.zeros((n, L)) for _ in range(3))
        W_bar = np.zeros((n, L, L))
        pairs: list[tuple[np.ndarray, np.ndarray]] = []  # the cotangent of K has sym(p q') for each

        def block(p, q):
            W_bar[:] += 0.5 * (p[:, :, None] * q[:, None, :] + q[:, :, None] * p[:, None, :])

        if ln:
            pairs.append((0.5 * ln * self._alpha, self._alpha))
            m_bar += ln * self._alpha
            c_bar -= ln * self._alpha
            g_bar -= ln * residual
            block(-0.5 * ln * residual, residual)
            W_bar -= 0.5 * ln * self.blocks()
        if mean_bar is not None:
            u = np.asarray(mean_bar, float).reshape(n, L)
            t = u - self._apply(self._times_K(u))
            Kt = self._times_K(t)
            pairs.append((t, self._alpha))
            m_bar += t
            c_bar += u - t
            g_bar += Kt
            block(Kt, residual)
        if alpha_bar is not None:
            a = np.asarray(alpha_bar, float).reshape(n, L)
            b = self._apply(a)
            rest = a - self._times_K(b)
            pairs.append((-b, self._alpha))
            m_bar -= b
            c_bar += b
            g_bar += rest
            block(rest, residual)
        if apply_bar is not None:
            V, Y = (np.asarray(x, float).reshape(n, L, -1) for x in apply_bar)
            RV, RY = self._apply(V), self._apply(Y)
            left, right = Y - self._times_K(RY), V - self._times_K(RV)
            for i in range(V.shape[2]):
                pairs.append((-RY[:, :, i], RV[:, :, i]))
                block(left[:, :, i], right[:, :, i])
        priors = self._pull_priors(ln, pairs, m_bar)
        slope = None if self.sites.slope is None else g_bar
        W_bar_out = W_bar[:, :, 0] if L == 1 else W_bar
        return Cotangents(priors[0] if L == 1 else tuple(priors), SiteBars(c_bar, W_bar_out, slope))

    def _pull_priors(self, ln: float, pairs, m_bar: np.ndarray) -> list[Any]:
        """Cotangents of every prior. Latent functions with the same prior are pulled together:
        their share is with the first.
        """
        from mercer.solvers.host import pull_mean

        kernels: list[Any] = []
        means: list[Any] = []
        for j, part in enumerate(self.parts):
            first = next(i for i in range(self.L) if self.priors[i] is self.priors[j])
            means.append(pull_mean(self.priors[j].mean, part.columns, m_bar[:, j]))
            if first != j:
                kernels.append(_zero(kernels[first]))
                continue
            shared = [i for i in range(j, self.L) if self.priors[i] is self.priors[j]]
            bar = np.zeros((self.X.shape[0],) * 2)
            if ln:
                for i in shared:
                    T = self._whiten(self.G[i])
                    bar += self.parts[i].resolvent()
                    bar -= lapack.matmul(T.T, T)
                bar *= -0.5 * ln
            P = np.stack([x for p, q in pairs for i in shared for x in (0.5 * p[:, i], 0.5 * q[:, i])], 1)
            Q = np.stack([x for p, q in pairs for i in shared for x in (q[:, i], p[:, i])], 1)
            bar += lapack.matmul(P, Q.T)
            none = np.zeros((bar.shape[0], 1))
            kernels.append(part.pull_matrix(bar, none, none, False)[0])
        return [PriorBar(*pair) for pair in zip(kernels, means, strict=True)]


class CoupledWorkspace(AbstractWorkspace):
    """A workspace for each latent function; those with the same prior share what depends on it alone."""

    def __init__(self, solver: AbstractSolver, priors: tuple, X: np.ndarray):
        self.memory: dict[str, Any] = {}
        self.children = [solver.workspace(prior, X) for prior in priors]

    def hold(self, prior):
        for j, child in enumerate(self.children):
            first = next(i for i in range(j + 1) if prior[i] is prior[j])
            child.hold(prior[j]) if first == j else child.share(self.children[first])

    def share(self, other):
        for mine, theirs in zip(self.children, other.children, strict=True):
            mine.share(theirs)


def _zero(kernel):
    import jax

    return jax.tree.map(np.zeros_like, kernel)


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
