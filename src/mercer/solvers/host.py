"""The part of a State that is the same for every host solver with one latent function: sites in, cotangents
out.

A concrete State knows how to multiply by K and R and how to take the cotangent of K to the kernel; the chain
rule is written here once.
With b = R a, and N = I - R K:

    dR = -R dK R + N dW N'          A = K - K R K (posterior covariance),  dA = N' dK N - A dW A  (N' = I - K
    R)
"""

from __future__ import annotations

import abc
import functools
from typing import ClassVar

import jax
import numpy as np

from mercer.linalg import tiles
from mercer.params import strip
from mercer.prior import AbstractPrior
from mercer.solvers.protocol import AbstractState, Cotangents, PriorBar, SiteBars, Sites, check_sites


class AbstractHostState(AbstractState):
    """State on NumPy arrays with one latent function.
    A concrete one sets `logdet` = log|I + W^1/2 K W^1/2|.
    """

    logdet: float
    # `pull_kernel` finds the variances on its way: ask for them after it
    variances_last: ClassVar[bool] = False

    def __init__(self, prior: AbstractPrior, X: np.ndarray, sites: Sites, columns: Columns, who: str):
        check_sites(sites, who)
        self.prior, self.X, self.sites, self.columns = prior, X, sites, columns
        self.centre, self.precision = sites.centre[:, 0], sites.precision[:, 0]
        self.slope = None if sites.slope is None else sites.slope[:, 0]
        self.m = np.asarray(prior.mean.value(X), float)

    @functools.cached_property
    def _solved(self) -> tuple[np.ndarray, float]:
        """alpha and the log normaliser."""
        delta = self.centre - self.m
        g = self.slope
        if g is None:
            alpha = self.apply(delta[:, None])[:, 0]
            return alpha, float(-0.5 * self.logdet - 0.5 * delta @ alpha)
        Kg = self.times_K(g[:, None])[:, 0]
        r = self.apply((delta - Kg)[:, None])[:, 0]
        return g + r, float(-0.5 * self.logdet - 0.5 * (delta - Kg) @ r - g @ delta + 0.5 * g @ Kg)

    @property
    def alpha(self):  # type: ignore[override]
        return self._solved[0]

    @property
    def log_normaliser(self):  # type: ignore[override]
        return self._solved[1]

    # -- what a concrete State supplies ----------------------------------------------------------------------

    @abc.abstractmethod
    def rows_times_K(self, rows: np.ndarray, V: np.ndarray) -> np.ndarray:
        """K[rows] V."""

    @abc.abstractmethod
    def prior_variance(self) -> np.ndarray:
        """k(x, x) at the data (n,)."""

    @abc.abstractmethod
    def kappa(self) -> np.ndarray:
        """diag R (n,)."""

    @abc.abstractmethod
    def variances(self) -> np.ndarray:
        """Posterior variances of f at the data (n,)."""

    @abc.abstractmethod
    def weighted_squares(self, k: np.ndarray | None, v: np.ndarray | None) -> np.ndarray:
        """sum_j k_j N_ji^2 - sum_j v_j A_ij^2 for every i: what kappa_bar = k and var_bar = v say about W."""

    @abc.abstractmethod
    def resolvent(self, reuse: bool = False) -> np.ndarray:
        """R (n, n), a matrix of the caller's own; with `reuse`,
        one that the workspace's next State may overwrite.
        """

    @abc.abstractmethod
    def pull_matrix(self, bar: np.ndarray, P, Q, inputs):
        """Cotangents of the kernel for cotangent bar + P Q' of K; `bar` (n, n) symmetric,
        of which the upper triangle is read.
        """

    @abc.abstractmethod
    def pull_kernel(self, coefficient, P, Q, k, v, inputs):
        """Cotangents of the kernel for cotangent coefficient * R + P Q' - R diag(k) R + N diag(v) N' of K."""

    def prepare_inverse(self, consume: bool) -> None:
        """Called once before a pullback."""

    def downdate(self, rows: np.ndarray, P: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """G = N P (n, q) and P'(K R K - K) P (q, q) for columns of P with one entry each,
        P_j in row rows_j.
        """
        columns = np.zeros((self.centre.shape[0], rows.shape[0]))
        columns[rows, np.arange(rows.shape[0])] = P
        G = columns - self.apply(self.times_K(columns))
        return G, -P[:, None] * self.rows_times_K(rows, G)

    # -- views -----------------------------------------------------------------------------------------------

    def prior_mean(self):
        return self.m[:, None]

    def mean(self):
        return (self.m + self.times_K(self.alpha[:, None])[:, 0])[:, None]

    def marginals(self):
        return self.mean(), self.variances()[:, None]

    def dual(self):
        return self.alpha[:, None], self.kappa()[:, None]

    def residual(self) -> np.ndarray:
        """c - posterior mean, without cancellation where W > 0."""
        dual = self.alpha if self.slope is None else self.alpha - self.slope
        out = np.divide(dual, self.precision, out=np.zeros_like(dual), where=self.precision > 0)
        if (self.precision == 0).any():
            by_mean = self.centre - self.m - self.times_K(self.alpha[:, None])[:, 0]
            out = np.where(self.precision > 0, out, by_mean)
        return out

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
        n, ln = self.centre.shape[0], float(log_normaliser_bar)
        u, v, a, k = (
            None if bar is None else np.asarray(bar, float).reshape(n)
            for bar in (mean_bar, var_bar, alpha_bar, kappa_bar)
        )
        residual = self.residual()  # and with it alpha, while the factor is there
        t = None if u is None else u - self.apply(self.times_K(u[:, None]))[:, 0]
        b = None if a is None else self.apply(a[:, None])[:, 0]
        applied = None
        if apply_bar is not None:
            V, Ybar = apply_bar
            applied = (V, Ybar, self.apply(V), self.apply(Ybar))
        silent = bool((self.precision == 0).any())
        variances = self.variances() if ln and silent else None
        self.prepare_inverse(consume)

        # by alpha's own equation: what the derivative of log Z + 1/2 log W needs is accurate to rounding
        def by_kappa():
            return (1.0 - self.kappa() / self.precision) / self.precision

        if ln and variances is None and not self.variances_last:
            variances = by_kappa()
        m_bar, c_bar, g_bar, W_bar = (np.zeros(n) for _ in range(4))
        P: list[np.ndarray] = []
        Q: list[np.ndarray] = []

        def outer(p, q):
            """Add sym(p q') to the cotangent of K."""
            P.extend((0.5 * p, 0.5 * q))
            Q.extend((q, p))

        if ln:
            outer(0.5 * ln * self.alpha, self.alpha)
            m_bar += ln * self.alpha
            c_bar -= ln * self.alpha
            g_bar -= ln * residual
        if u is not None and t is not None:
            Kt = self.times_K(t[:, None])[:, 0]
            outer(t, self.alpha)
            m_bar += t
            c_bar += u - t
            g_bar += Kt
            W_bar += Kt * residual
        if a is not None and b is not None:
            rest = a - self.times_K(b[:, None])[:, 0]
            outer(-b, self.alpha)
            m_bar -= b
            c_bar += b
            g_bar += rest
            W_bar += rest * residual
        if applied is not None:
            V, Ybar, RV, RY = applied
            for j in range(V.shape[1]):
                outer(-RY[:, j], RV[:, j])
            W_bar += np.sum((Ybar - self.times_K(RY)) * (V - self.times_K(RV)), 1)
        if k is not None or v is not None:
            W_bar += self.weighted_squares(k, v)
        columns = (np.stack(P, 1), np.stack(Q, 1)) if P else (np.zeros((n, 1)), np.zeros((n, 1)))
        kernel_bar, encoded_bar = self.pull_kernel(-0.5 * ln, columns[0], columns[1], k, v, inputs)
        if ln:
            W_bar -= 0.5 * ln * (residual**2 + (by_kappa() if variances is None else variances))
        mean_leaves = pull_mean(self.prior.mean, self.columns, m_bar)
        slope = None if self.slope is None else g_bar[:, None]
        prior_bar = PriorBar(kernel_bar, mean_leaves)
        inputs_bar = pull_inputs(self.prior, self.X, encoded_bar, m_bar) if inputs else None
        return Cotangents(prior_bar, SiteBars(c_bar[:, None], W_bar[:, None], slope), inputs_bar)


def _mean_value(mean, X):
    return mean.value(X)


def pull_mean(mean, columns: Columns, bar: np.ndarray):
    """Cotangents of the mean's leaves."""
    mean = strip(mean)
    return tiles.pull_rows(_mean_value, mean, columns.panels, bar) if jax.tree.leaves(mean) else mean


def pull_inputs(prior: AbstractPrior, X: np.ndarray, encoded_bar, mean_bar: np.ndarray) -> np.ndarray:
    """Cotangent of the inputs, from those of what the kernel reads of them and of the mean's values."""
    _, pull = jax.vjp(lambda X: (prior.kernel.encode(X), prior.mean.value(X)), X)
    return np.asarray(pull((encoded_bar, mean_bar))[0])


def pull_encoding(kernel, X: np.ndarray, encoded_bar) -> np.ndarray:
    """Cotangent of inputs from those of what the kernel reads of them."""
    return np.asarray(jax.vjp(kernel.encode, X)[1](encoded_bar)[0])


class Columns:
    """The inputs as they came, cut into tiles the first time somebody asks."""

    def __init__(self, X: np.ndarray):
        self.X = X

    @functools.cached_property
    def panels(self) -> tiles.Panels:
        X = np.zeros((self.X.shape[0], 1)) if self.X.dtype == object else self.X
        return tiles.Panels(X, tiles.tile_size(self.X.shape[0]))
