"""What the low-rank solvers know once the sites are given (the notation is that of
`mercer.solvers.lowrank`).
"""

from __future__ import annotations

import dataclasses
import functools
import warnings
from typing import TYPE_CHECKING

import jax
import numpy as np

from mercer.linalg import lapack, tiles
from mercer.linalg.cholesky import factor
from mercer.solvers.host import AbstractHostState, pull_encoding
from mercer.solvers.inducing import JITTER, Workspace
from mercer.solvers.protocol import Bounds, Diagnostics, SolverError, condition_from_pivots

if TYPE_CHECKING:
    from mercer.solvers.lowrank import AbstractLowRank


class LowRankState(AbstractHostState):
    """Posterior over m whitened weights w ~ N(0, I), f = m + Psi w (+ an independent part): `weights()`."""

    exact = False
    variances_last = True

    def __init__(self, solver: AbstractLowRank, prior, X, sites, workspace: Workspace):
        super().__init__(prior, X, sites, workspace.columns, type(solver).__name__)
        self.solver, self.workspace = solver, workspace
        self.features = workspace.features(prior)
        self.kernel = self.features.kernel
        W, n = self.precision, self.centre.shape[0]
        self.t = np.zeros(n)  # k(x, x) - q(x, x): what the inducing inputs do not explain
        if solver.rest_in_prior or solver.rest_in_bound or solver.rest_at_test:
            self.t = np.maximum(self.features.diagonal - self.features.explained, 0.0)
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
        self.notes = workspace.notes

    @functools.cached_property
    def _solved(self):
        if self.slope is not None:
            alpha, value = super()._solved
            return alpha, value - 0.5 * self.trace
        delta, p = self.centre - self.m, self._Psi_Lambda_delta
        w = self._solve_C(p)
        alpha = self.Lambda * (delta - self.features.expand(w)[:, 0])
        return alpha, float(
            -0.5 * self.logdet - 0.5 * (delta @ (self.Lambda * delta) - p[:, 0] @ w[:, 0]) - 0.5 * self.trace
        )

    def diagnostics(self) -> Diagnostics:
        condition, rank = condition_from_pivots(np.diagonal(self.U)), self.U.shape[0]
        return Diagnostics(
            condition, "C = I + Psi' Lambda Psi", self.jitter, rank, self.evidence_bounds(), self.notes
        )

    def evidence_bounds(self) -> Bounds | None:
        """Below, VFE's own; above, that of Titsias (2014). They belong to VFE and ProjectedProcess with
        Gaussian noise.
        """
        if self.slope is not None or self.solver.rest_in_prior or not self.solver.rest_at_test:
            return None
        unpaid = 0.0 if self.solver.rest_in_bound else 0.5 * float(self.precision @ self.t)
        return Bounds(self.log_normaliser - unpaid, self._upper_bound())

    def _upper_bound(self) -> float:
        """W^1/2 K W^1/2 is at most W^1/2 Q W^1/2 + (sum W t) I."""
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

        def work(blocks):
            solved = (lapack.solve_lower(self.U, np.array(Psi, order="C").T) for _, _, Psi in blocks)
            return np.concatenate([np.einsum("ij,ij->j", V, V) for V in solved])

        return np.concatenate(self.features.each(work))

    def weights(self):
        """Posterior mean (m,) and covariance (m, m) of the whitened weights."""
        return self._weight_mean, self._C_inverse

    @functools.cached_property
    def _weight_mean(self) -> np.ndarray:
        if self.slope is None:
            return self._solve_C(self._Psi_Lambda_delta)[:, 0]
        return self.features.project(self.alpha[:, None])[:, 0]

    # -- algebra ---------------------------------------------------------------------------------------------

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

    # -- cotangents ------------------------------------------------------------------------------------------

    def pullback(self, log_normaliser_bar=0.0, *args, **kwargs):
        out = super().pullback(log_normaliser_bar, *args, **kwargs)
        if self.solver.rest_in_bound and log_normaliser_bar:
            out.sites.precision[:] -= 0.5 * log_normaliser_bar * self.t[:, None]
        if self.solver.learn:
            Z_bar = pull_encoding(self.kernel, self.workspace.Z, self._inducing_bar)
            return dataclasses.replace(out, prior=dataclasses.replace(out.prior, inducing=Z_bar))
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

        def work(blocks):
            return np.concatenate([np.einsum("ij,ij->i", Psi @ M, Psi) for _, _, Psi in blocks])

        return np.concatenate(self.features.each(work))

    def resolvent(self, reuse=False):
        return self.apply(np.eye(self.centre.shape[0]))

    def pull_matrix(self, bar, P, Q, inputs):
        raise SolverError(
            f"{type(self.solver).__name__} takes sites of one latent function with non-negative precision."
        )

    def pull_kernel(self, coefficient, P, Q, k, v, inputs):
        """The cotangent S of Q + diag(own) is coefficient R + P Q' - R diag(k) R + N diag(v) N', of which Psi
        needs 2 S Psi.

        Row i of S Psi is (a_i Psi_i C^-1 + Lambda_i Psi_i C^-1 M + P_i Q' Psi), so a pass over blocks of rows
        is enough.
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
        for G, sign, weight in (
            (G_k, -1.0, None if k is None else k * Lambda**2),
            (G_v, 1.0, None if v is None else v * s**2),
        ):
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
        first, second, third, last = (2.0 * (by @ L1) for by in (by_Lambda, C1, np.eye(m), QPsi.T))
        ends = inputs or self.solver.learn

        def work(blocks):
            pull = tiles.PullRectangle(self.kernel, f.Z_panels, ends)
            for rows, panels, Psi in blocks:
                bar = Psi @ first
                bar *= Lambda[rows, None]
                bar += P[rows] @ last
                if extra.any():
                    bar += extra[rows, None] * (Psi @ second)
                if plain.any():
                    bar += plain[rows, None] * (Psi @ third)
                pull.add(panels, bar)
            return pull.kernel, pull.right, pull.left, pull.products

        kernel_bars, right, left, products = zip(*f.each(work), strict=True)
        if (
            "_leverage" not in self.__dict__
            and coefficient
            and Lambda.all()
            and not (extra.any() or plain.any())
        ):
            # the sums are 2 Lambda_i Psi_i by_Lambda Psi_i' + 2 P_i Q' Psi Psi_i': the leverage without
            # products of its own
            sums = np.concatenate(products) - np.einsum("ij,ij->i", P, f.expand(2.0 * QPsi))
            self._leverage = sums / (2.0 * coefficient * Lambda) + (
                f.explained if self.solver.rest_in_bound else 0.0
            )
        K_mm_bar = -(L1.T @ (0.5 * (inner + inner.T)) @ L1)
        # the jitter scales with the diagonal
        np.einsum("ii->i", K_mm_bar)[:] += JITTER * np.trace(K_mm_bar) / m
        none = np.zeros((m, 1))
        at_Z, Z_bar = tiles.pull_symmetric(
            self.kernel, f.Z_panels, 1.0, K_mm_bar, np.ones(m), none, none, inputs or self.solver.learn
        )
        parts = [*kernel_bars, at_Z]
        if t_bar.any():
            parts.append(tiles.pull_diagonal(self.kernel, f.panels, t_bar))
        total = _add(*parts)
        if self.solver.learn:
            self._inducing_bar = _add(*right, Z_bar)
        if not inputs:
            return total, None
        left = jax.tree.map(lambda *t: np.concatenate(t), *left)
        return total, _add(left, _pull_diagonal_inputs(self.kernel, f.panels, t_bar))

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
    """SubsetOfRegressors with one more weight for each test input: its feature is what Z leaves of k(., x*),
    of unit variance.
    """

    def predict(self, Xs, full=False, variance=True):
        if full or self.slope is not None:
            raise SolverError(
                "SubsetOfRegressors(augment=True) predicts single inputs under Gaussian noise: use "
                "ProjectedProcess."
            )
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

    def evidence_bounds(self):
        return None

    def __init__(self, *args):
        super().__init__(*args)
        self.notes: tuple[str, ...] = ()

    def cross(self, Xs, V):
        f = self.features
        return tiles.times(self.kernel, tiles.Panels(self.kernel.encode(Xs), f.panels.size), f.panels, V)

    def predict(self, Xs, full=False, variance=True):
        f = self.features
        panels = tiles.Panels(self.kernel.encode(Xs), f.panels.size)
        mean = (np.asarray(self.prior.mean.value(Xs), float) + self.cross(Xs, self.alpha[:, None])[:, 0])[
            :, None
        ]
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
            warnings.warn(
                f"{bad} of {variance.shape[0]} variances of the Nystrom method are negative and were set "
                "to 1e-10 of the prior's: "
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
    return jax.tree.map(lambda *xs: functools.reduce(np.add, map(np.asarray, xs)), *trees)


def _pull_diagonal_inputs(kernel, panels, bar):
    """The cotangents of the encoded inputs for that of k(x, x)."""
    pieces = panels.vector(bar)
    return panels.join([jax.vjp(kernel.diag, A)[1](b)[0] for A, b in zip(panels.tiles, pieces, strict=True)])
