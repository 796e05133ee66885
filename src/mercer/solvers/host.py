"""The part of a State that is the same for every host solver with one latent function: sites in, cotangents
out.

A concrete State knows how to multiply by K and R and how to take the cotangent of K to the kernel; the chain
rule is written here once. With N = I - R K and the posterior covariance A = K - K R K,

    dR = -R dK R + N dW N',    dA = N' dK N - A dW A,    d alpha = -R (dm + dK alpha - dc) + N (dg + dW r)

where r = c - mean is the residual.
"""

from __future__ import annotations

import abc
import functools
from collections.abc import Iterator
from typing import Any, NamedTuple

import jax
import numpy as np

from mercer.linalg import tiles
from mercer.means import AbstractMean
from mercer.params import strip
from mercer.prior import AbstractPrior
from mercer.solvers.protocol import (
    AbstractState,
    AbstractWorkspace,
    Bars,
    Cotangents,
    PriorBar,
    SiteBars,
    Sites,
    check_sites,
)

UNIT_BYTES, UNIT_COLUMNS = 128 * 2**20, 128  # of unit vectors at a time, where R is only seen in columns


class KernelBar(NamedTuple):
    """The cotangent of K as the symmetric matrix coefficient R + P Q' - R diag(kappa) R + N diag(var) N'."""

    coefficient: float
    P: np.ndarray  # (n, q), q >= 1
    Q: np.ndarray  # (n, q); each column pair p q' comes with its mirror image
    kappa: np.ndarray | None = None  # (n,)
    var: np.ndarray | None = None  # (n,)


class Pulled(NamedTuple):
    """What a cotangent of K says of what K was made of."""

    kernel: Any  # of the kernel's structure, derivatives for leaves
    encoded: Any = None  # of the structure of kernel.encode(X), where the inputs were asked about
    inducing: np.ndarray | None = None  # (m, d), where inducing inputs are learned
    variances: np.ndarray | None = None  # (n,): `site_variances`, where they were found on the way


class AbstractHostState(AbstractState):
    """State on NumPy arrays with one latent function.
    A concrete one sets `logdet` = log|I + W^1/2 K W^1/2|.
    """

    logdet: float

    def __init__(self, prior: AbstractPrior, X: np.ndarray, sites: Sites, columns: Columns | None = None):
        check_sites(sites, self.who)
        self._keep(prior, X, sites, Columns(X) if columns is None else columns)

    def _keep(self, prior: AbstractPrior, X: np.ndarray, sites: Sites, columns: Columns) -> None:
        self.prior, self.X, self.sites, self.columns = prior, X, sites, columns
        self.centre, self.precision = sites.centre[:, 0], sites.precision[:, 0]
        self.slope = None if sites.slope is None else sites.slope[:, 0]
        self.m = np.asarray(prior.mean.value(X), float)

    # -- what a concrete State supplies, beside `apply`, `times_K`, `cross` and `predict` --------------------

    @abc.abstractmethod
    def kappa(self) -> np.ndarray:
        """diag R (n,)."""

    @abc.abstractmethod
    def variances(self) -> np.ndarray:
        """Posterior variances of f at the data (n,)."""

    @abc.abstractmethod
    def pull_kernel(self, bar: KernelBar, inputs: bool) -> Pulled:
        """Cotangents of the kernel, and of what it reads of the inputs if asked, for that of K."""

    # -- hooks -----------------------------------------------------------------------------------------------

    def solve_sites(self) -> tuple[np.ndarray, float]:
        """alpha (n,) and the log normaliser, found together; where one is cheap without the other, the two
        properties are written instead.
        """
        if self.slope is None:
            return self.solve_data()
        delta, g = self.centre - self.m, self.slope
        Kg = self.times_K(g[:, None])[:, 0]
        r = self.apply((delta - Kg)[:, None])[:, 0]
        return g + r, float(-0.5 * self.logdet - 0.5 * (delta - Kg) @ r - g @ delta + 0.5 * g @ Kg)

    def solve_data(self) -> tuple[np.ndarray, float]:
        """The same for sites without slopes."""
        delta = self.centre - self.m
        alpha = self.apply(delta[:, None])[:, 0]
        return alpha, float(-0.5 * self.logdet - 0.5 * delta @ alpha)

    def mean(self) -> np.ndarray:
        return (self.m + self.times_K(self.alpha[:, None])[:, 0])[:, None]

    def prepare_inverse(self, consume: bool) -> None:
        """Called once in a pullback, when the factor is needed no more; `consume`: it may be overwritten."""

    def weighted_squares(self, k: np.ndarray | None, v: np.ndarray | None) -> np.ndarray:
        """sum_j k_j N_ji^2 - sum_j v_j A_ij^2 for every i: what kappa_bar = k and var_bar = v say about W.

        Here by columns of N, one solution for each datum.
        """
        out = np.zeros(self.centre.shape[0])
        for rows, N in self.unit_blocks():
            if k is not None:
                out[rows] += k @ (N * N)
            if v is not None:
                out -= self.times_K(N) ** 2 @ v[rows]
        return out

    def site_variances(self) -> np.ndarray:
        """v (n,) in d log Z / dW = -1/2 (r^2 + v): the variances of f as the log normaliser sees them."""
        return self.variances()

    def site_kappa(self) -> np.ndarray:
        """diag R (n,) for the same use, where it may be an estimate."""
        return self.kappa()

    # -- views -----------------------------------------------------------------------------------------------

    @functools.cached_property
    def _solved(self) -> tuple[np.ndarray, float]:
        return self.solve_sites()

    @property
    def alpha(self) -> np.ndarray:  # type: ignore[override]
        return self._solved[0]

    @property
    def log_normaliser(self) -> float:  # type: ignore[override]
        return self._solved[1]

    def prior_mean(self) -> np.ndarray:
        return self.m[:, None]

    def marginals(self) -> tuple[np.ndarray, np.ndarray]:
        return self.mean(), self.variances()[:, None]

    def dual(self) -> tuple[np.ndarray, np.ndarray]:
        return self.alpha[:, None], self.kappa()[:, None]

    def residual(self) -> np.ndarray:
        """r = c - posterior mean (n,), without cancellation where W is not 0: alpha = g + W r."""
        dual = self.alpha if self.slope is None else self.alpha - self.slope
        told = self.precision != 0
        if told.all():
            return dual / self.precision
        out = np.divide(dual, self.precision, out=np.zeros_like(dual), where=told)
        return np.where(told, out, self.centre - self.m - self.times_K(self.alpha[:, None])[:, 0])

    def unit_blocks(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Numbers of data, and the columns of N = I - R K (n, block) that belong to them."""
        n = self.centre.shape[0]
        step = int(np.clip(UNIT_BYTES // (8 * n), 1, UNIT_COLUMNS))
        for first in range(0, n, step):
            rows = np.arange(first, min(first + step, n))
            unit = np.zeros((n, rows.size))
            unit[rows, np.arange(rows.size)] = 1.0
            yield rows, unit - self.apply(self.times_K(unit))

    # -- cotangents ------------------------------------------------------------------------------------------

    def pull(self, bars: Bars) -> Cotangents:
        n, ln = self.centre.shape[0], float(bars.log_normaliser)
        mean, var, alpha, kappa = (
            None if bar is None else np.asarray(bar, float).reshape(n)
            for bar in (bars.mean, bars.var, bars.alpha, bars.kappa)
        )
        total, residual = _Total(n), self.residual()
        if ln:
            self._pull_log_normaliser(ln, residual, total)
        if mean is not None:
            self._pull_mean(mean, residual, total)
        if alpha is not None:
            self._pull_alpha(alpha, residual, total)
        if bars.apply is not None:
            self._pull_apply(*bars.apply, total)
        silent = bool(ln) and bool((self.precision == 0).any())
        variances = self.site_variances() if silent else None  # while the factor is there
        self.prepare_inverse(bars.consume)
        if kappa is not None or var is not None:
            total.precision += self.weighted_squares(kappa, var)
        pulled = self.pull_kernel(KernelBar(-0.5 * ln, *total.columns(), kappa, var), bars.inputs)
        if ln:
            if variances is None:
                variances = self._variances_by_kappa() if pulled.variances is None else pulled.variances
            total.precision -= 0.5 * ln * (residual**2 + variances)
        return self._cotangents(total, pulled, bars.inputs)

    def _pull_log_normaliser(self, bar: float, residual: np.ndarray, total: _Total) -> None:
        """d log Z = 1/2 (alpha' dK alpha - tr R dK) + alpha'(dm - dc) - r'dg - 1/2 (r^2 + v)' dW (5.9).

        What R says of K, and v of W, are taken in by `pull`.
        """
        total.outer(0.5 * bar * self.alpha, self.alpha)
        total.mean += bar * self.alpha
        total.centre -= bar * self.alpha
        total.slope -= bar * residual

    def _pull_mean(self, bar: np.ndarray, residual: np.ndarray, total: _Total) -> None:
        """With t = N bar: d mean = N'(dm + dK alpha) + (I - N') dc + A (dg + r dW), and A bar = K t."""
        t = bar - self.apply(self.times_K(bar[:, None]))[:, 0]
        Kt = self.times_K(t[:, None])[:, 0]
        total.outer(t, self.alpha)
        total.mean += t
        total.centre += bar - t
        total.slope += Kt
        total.precision += Kt * residual

    def _pull_alpha(self, bar: np.ndarray, residual: np.ndarray, total: _Total) -> None:
        """With b = R bar: d alpha = -R (dm + dK alpha - dc) + N (dg + r dW), and N' bar = bar - K b."""
        b = self.apply(bar[:, None])[:, 0]
        rest = bar - self.times_K(b[:, None])[:, 0]
        total.outer(-b, self.alpha)
        total.mean -= b
        total.centre += b
        total.slope += rest
        total.precision += rest * residual

    def _pull_apply(self, V: np.ndarray, bar: np.ndarray, total: _Total) -> None:
        """d(R V) = -R dK R V + N dW N' V."""
        RV, R_bar = self.apply(V), self.apply(bar)
        for left, right in zip(R_bar.T, RV.T, strict=True):
            total.outer(-left, right)
        total.precision += np.sum((bar - self.times_K(R_bar)) * (V - self.times_K(RV)), 1)

    def _variances_by_kappa(self) -> np.ndarray:
        """By alpha's own equation: what the derivative of log Z + 1/2 log W needs is accurate to rounding."""
        return (1.0 - self.site_kappa() / self.precision) / self.precision

    def _cotangents(self, total: _Total, pulled: Pulled, inputs: bool) -> Cotangents:
        mean_bar = pull_mean(self.prior.mean, self.columns, total.mean)
        slope = None if self.slope is None else total.slope[:, None]
        return Cotangents(
            PriorBar(pulled.kernel, mean_bar, pulled.inducing),
            SiteBars(total.centre[:, None], total.precision[:, None], slope),
            pull_inputs(self.prior, self.X, pulled.encoded, total.mean) if inputs else None,
        )


class AbstractMatrixState(AbstractHostState):
    """A State that can show R as a matrix, and take any cotangent of K: what sites that couple latent
    functions or have negative precision are built on (`mercer.solvers.coupled`).
    """

    @abc.abstractmethod
    def rows_times_K(self, rows: np.ndarray, V: np.ndarray) -> np.ndarray:
        """K[rows] V."""

    @abc.abstractmethod
    def prior_variance(self) -> np.ndarray:
        """k(x, x) at the data (n,)."""

    @abc.abstractmethod
    def resolvent(self, reuse: bool = False) -> np.ndarray:
        """R (n, n), a matrix of the caller's own; with `reuse`,
        one that the workspace's next State may overwrite.
        """

    @abc.abstractmethod
    def pull_matrix(self, bar: np.ndarray) -> Any:
        """The cotangent of the kernel (its structure, derivatives for leaves) for that of K, `bar` (n, n)
        symmetric, of which the upper triangle is read.
        """

    def downdate(self, rows: np.ndarray, P: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """G = N P (n, q) and P'(K R K - K) P (q, q), which may be right in its upper triangle alone, for
        columns of P with one entry each, P_j in row rows_j.
        """
        columns = np.zeros((self.centre.shape[0], rows.shape[0]))
        columns[rows, np.arange(rows.shape[0])] = P
        G = columns - self.apply(self.times_K(columns))
        return G, -P[:, None] * self.rows_times_K(rows, G)


class _Total:
    """The sum of what the bars say of the mean function, the sites and, as a list of column pairs, of K."""

    def __init__(self, n: int):
        self.mean, self.centre, self.slope, self.precision = (np.zeros(n) for _ in range(4))
        self._left: list[np.ndarray] = []
        self._right: list[np.ndarray] = []

    def outer(self, p: np.ndarray, q: np.ndarray) -> None:
        """sym(p q') more in the cotangent of K."""
        self._left += (0.5 * p, 0.5 * q)
        self._right += (q, p)

    def columns(self) -> tuple[np.ndarray, np.ndarray]:
        """P and Q (n, q) of `KernelBar`."""
        if not self._left:
            nothing = np.zeros((self.mean.shape[0], 1))
            return nothing, nothing
        return np.stack(self._left, 1), np.stack(self._right, 1)


def conditional(prior: np.ndarray, half: np.ndarray) -> np.ndarray:
    """K_** - V'V for V = L^-1 W^1/2 K_*' (n, m) (2.24): the covariance where `prior` is (m, m), which is
    overwritten; variances, never negative, where it is the diagonal (m,).
    """
    if prior.ndim == 1:
        return np.maximum(prior - np.einsum("ij,ij->j", half, half), 0.0)
    prior -= half.T @ half
    return prior


def _mean_value(mean, X):
    return mean.value(X)


def pull_mean(mean: AbstractMean, columns: Columns, bar: np.ndarray) -> AbstractMean:
    """Cotangents of the mean's leaves for that of its values at the data (n,)."""
    mean = strip(mean)
    return tiles.pull_rows(_mean_value, mean, columns.panels, bar) if jax.tree.leaves(mean) else mean


def pull_inputs(prior: AbstractPrior, X: np.ndarray, encoded_bar: Any, mean_bar: np.ndarray) -> np.ndarray:
    """Cotangent of the inputs (n, d), from those of what the kernel reads of them (the structure of
    `kernel.encode(X)`) and of the mean's values (n,).
    """
    _, pull = jax.vjp(lambda X: (prior.kernel.encode(X), prior.mean.value(X)), X)
    return np.asarray(pull((encoded_bar, mean_bar))[0])


def pull_encoding(kernel: Any, X: np.ndarray, encoded_bar: Any) -> np.ndarray:
    """Cotangent of inputs (n, d) from those of what the kernel reads of them."""
    return np.asarray(jax.vjp(kernel.encode, X)[1](encoded_bar)[0])


class AbstractHoldingWorkspace(AbstractWorkspace):
    """A workspace with something that depends on the kernel and the inputs alone: computed once while a prior
    is held, else whenever it is asked for.
    """

    _held: tuple[Any, Any] = (None, None)  # the kernel, and what it gives

    @abc.abstractmethod
    def compute(self, prior: AbstractPrior) -> Any:
        """What is kept, for this prior."""

    def hold(self, prior: Any) -> None:
        self._held = prior.kernel, self.compute(prior)

    def share(self, other: Any) -> None:
        self._held = other._held

    def known(self, prior: AbstractPrior) -> Any:
        """What is kept, if this prior is the one that is held; else computed."""
        kernel, value = self._held
        return value if kernel is prior.kernel else self.compute(prior)


class Columns:
    """The inputs as they came, cut into tiles the first time somebody asks."""

    def __init__(self, X: np.ndarray):
        self.X = X

    @functools.cached_property
    def panels(self) -> tiles.Panels:
        X = np.zeros((self.X.shape[0], 1)) if self.X.dtype == object else self.X
        return tiles.Panels(X, tiles.tile_size(self.X.shape[0]))
