"""Kernels that change from place to place: length-scales as functions of the input,
and a change-point between two kernels.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from mercer.inputs import Array, InputError
from mercer.kernels.algebra.columns import position
from mercer.kernels.algebra.functions import AbstractFunction, Function, as_function
from mercer.kernels.algebra.sums import AbstractComposite
from mercer.kernels.base import AbstractKernel, Encoded, given
from mercer.kernels.families.stationary import AbstractStationary
from mercer.kernels.traits import Traits
from mercer.params import Hyper, ParameterError, hyper, positive, real

# encoded inputs: the columns (n, d), and what the function of them reads
Pair: TypeAlias = tuple[Array, Array]


class Gibbs(AbstractKernel):
    """The SE with length-scales l_d(x) that vary (4.32), k(x, x) = variance.

    prod_d sqrt(2 l_d l_d' / (l_d^2 + l_d'^2)) exp(-sum_d (x_d - x_d')^2 / (l_d^2 + l_d'^2)).

    lengthscale: a function of yours, X (n, d) -> (n,) for all columns alike or (n, d), or a learned one:
    `LogLinear`, `LogRadial` (basis expansions of log l) or `LogProcess` (log l a Gaussian process). Where a
    short length-scale meets a long one the factor in front makes the correlation drop at once: that is the
    kernel, not a mistake.

    >>> Gibbs(lambda X: 0.1 + 0.5 * X[:, 0] ** 2)
    >>> Gibbs(LogLinear(weights=[0.7], intercept=-1.0), variance=2.0)
    """

    lengthscale: AbstractFunction = eqx.field(converter=as_function)
    variance: Hyper = hyper(1.0, positive)

    def bind(self, d: int, names: tuple[str, ...] | None = None) -> Gibbs:
        q = self.lengthscale.outputs(d)
        if q not in (None, 1, d):
            raise ParameterError(
                f"Gibbs.lengthscale gives {q} numbers for each input; it needs one, or {d}: one for each "
                "column."
            )
        return self

    def encode(self, X: Array) -> Pair:
        read = self.lengthscale.encode(X)
        if (
            isinstance(self.lengthscale, Function)
            and not isinstance(read, jax.core.Tracer)
            and not (read > 0).all()
        ):
            row = int(np.argwhere(read <= 0)[0, 0])
            raise InputError(
                f"Gibbs.lengthscale must be positive, but {self.lengthscale} gives {read[row]} in row {row}."
            )
        return super().encode(X), read

    def block(self, A: Pair, B: Pair) -> jax.Array:
        (X, read), (Y, other) = A, B
        d = X.shape[1]
        l, m = (_columns(self.lengthscale.value(e), d) for e in (read, other))
        log_prefactor, distance = jnp.zeros(()), jnp.zeros(())
        for j in range(d):
            s, t = l[:, j, None], m[None, :, j]
            total = s * s + t * t
            log_prefactor = log_prefactor + jnp.log(2.0 * s * t / total)
            distance = distance + (X[:, j, None] - Y[None, :, j]) ** 2 / total
        return self.variance * jnp.exp(0.5 * log_prefactor - distance)

    def traits(self, d: int = 1) -> Traits:
        return Traits(beyond="returns to the mean within a few of the length-scales there")


class PaciorekSchervish(AbstractKernel):
    """Any stationary kernel with a local covariance matrix S(x) in place of the squared length-scales
    (4.33-4.34).

    2^(d/2) |S|^1/4 |S'|^1/4 |S + S'|^-1/2 k((x - x')' ((S + S') / 2)^-1 (x - x')).

    kernel: SE, Matern, RationalQuadratic or another that is valid in every dimension; its length-scale
    multiplies and is held.
    covariance: a function X (n, d) -> (n,) or (n, d), squared length-scales, or -> (n, d, d)
    positive-definite matrices. With the SE and squared length-scales this is `Gibbs`.

    >>> PaciorekSchervish(Matern(nu=1.5), LogLinear(weights=[0.7]))
    """

    kernel: AbstractStationary
    covariance: AbstractFunction = eqx.field(converter=as_function)

    def __check_init__(self):
        if not isinstance(self.kernel, AbstractStationary):
            raise ParameterError(
                f"PaciorekSchervish.kernel must be a stationary kernel such as Matern(), got {self.kernel!r}."
            )
        if self.kernel.loadings is not None or np.ndim(self.kernel.lengthscale) > 0:
            raise ParameterError(
                "PaciorekSchervish.kernel must have a single length-scale: directions belong to the "
                "covariance."
            )
        if self.kernel.traits(1).max_dimension is not None:
            raise ParameterError(
                f"PaciorekSchervish.kernel must be valid in every dimension, which {self.kernel} is not."
            )

    def bind(self, d: int, names: tuple[str, ...] | None = None) -> PaciorekSchervish:
        if isinstance(self.covariance, Function):
            return self
        if (q := self.covariance.outputs(d)) not in (None, 1, d):
            raise ParameterError(
                f"PaciorekSchervish.covariance gives {q} numbers for each input; it needs 1, {d} or ({d}, "
                f"{d})."
            )
        return self

    def held(self) -> tuple[str, ...]:
        return ("kernel.lengthscale",)

    def amplitude(self) -> tuple[str, ...]:
        return ("kernel.variance",)

    def suggest(self, X: np.ndarray, variance: float) -> PaciorekSchervish:
        kernel: Any = self.kernel.with_values(variance=variance)
        return PaciorekSchervish(kernel, self.covariance)

    def encode(self, X: Array) -> Pair:
        X, read = super().encode(X), self.covariance.encode(X)
        if isinstance(self.covariance, Function) and not isinstance(read, jax.core.Tracer):
            _check_positive(np.asarray(read), X.shape[1], self.covariance)
        return X, read

    def block(self, A: Pair, B: Pair) -> jax.Array:
        (X, read), (Y, other) = A, B
        d = X.shape[1]
        S, T = self.covariance.value(read), self.covariance.value(other)
        quadratic, log_determinants = _diagonal(X, Y, S, T) if jnp.ndim(S) < 3 else _full(X, Y, S, T)
        prefactor = jnp.exp(0.5 * d * jnp.log(2.0) + log_determinants)
        scale = self.kernel.variance * prefactor
        return scale * self.kernel.profile(2.0 * quadratic / jnp.square(self.kernel.lengthscale))

    def traits(self, d: int = 1) -> Traits:
        return Traits(beyond="returns to the mean within a few of the length-scales there")


def _columns(values, d: int):
    """One number for each column: (n, d)."""
    values = values[:, None] if jnp.ndim(values) == 1 else values
    return jnp.broadcast_to(values, (values.shape[0], d))


def _diagonal(X, Y, S, T):
    """(x - y)' (S + T)^-1 (x - y) and the logarithm of |S|^1/4 |T|^1/4 |S + T|^-1/2, for diagonal S and T."""
    d = X.shape[1]
    S, T = _columns(S, d), _columns(T, d)
    quadratic, logarithm = jnp.zeros(()), jnp.zeros(())
    for j in range(d):
        s, t = S[:, j, None], T[None, :, j]
        quadratic = quadratic + (X[:, j, None] - Y[None, :, j]) ** 2 / (s + t)
        logarithm = logarithm + 0.25 * (jnp.log(s) + jnp.log(t)) - 0.5 * jnp.log(s + t)
    return quadratic, logarithm


def _full(X, Y, S, T):
    """The same for full matrices: Cholesky on S + T with every entry an (a, b) array,
    substituting as it goes.
    """
    d = X.shape[1]
    own = [0.25 * jnp.linalg.slogdet(M)[1] for M in (S, T)]
    logarithm = own[0][:, None] + own[1][None, :]
    L: list[list] = [[None] * d for _ in range(d)]
    z: list = []
    quadratic = jnp.zeros(())
    for i in range(d):
        residual = X[:, i, None] - Y[None, :, i]
        for j in range(i + 1):
            entry = (
                S[:, i, j, None]
                + T[None, :, i, j]
                - sum((L[i][k] * L[j][k] for k in range(j)), jnp.zeros(()))
            )
            L[i][j] = jnp.sqrt(entry) if i == j else entry / L[j][j]
        z.append((residual - sum((L[i][k] * z[k] for k in range(i)), jnp.zeros(()))) / L[i][i])
        quadratic = quadratic + z[i] ** 2
        logarithm = logarithm - jnp.log(L[i][i])
    return quadratic, logarithm


def _check_positive(S: np.ndarray, d: int, name) -> None:
    if S.ndim > 3 or (S.ndim == 3 and S.shape[1:] != (d, d)) or (S.ndim == 2 and S.shape[1] not in (1, d)):
        raise InputError(
            f"PaciorekSchervish.covariance gives shape {S.shape}; it needs (n,), (n, {d}) or (n, {d}, {d})."
        )
    if S.ndim == 3 and not np.allclose(S, np.swapaxes(S, 1, 2), rtol=1e-10):
        raise InputError(f"PaciorekSchervish.covariance: the matrices that {name} gives are not symmetric.")
    smallest = np.linalg.eigvalsh(S)[:, 0] if S.ndim == 3 else S.reshape(len(S), -1).min(1)
    if not (smallest > 0).all():
        row = int(np.argmin(smallest))
        raise InputError(
            f"PaciorekSchervish.covariance must be positive definite, but {name} has eigenvalue "
            f"{smallest[row]:.3g} in row {row}."
        )


class ChangePoint(AbstractComposite):
    """One kernel before a place, another after it: (1 - s(x)) k1 (1 - s(x')) + s(x) k2 s(x') with s a
    logistic function.

    location: where the change is, in the units of the column. steepness: how sharp, in 1 / units: the change
    takes about 4 / steepness. column: which one, by position or name.

    >>> ChangePoint(SE(1.0), Matern(0.1), location=1975.0, steepness=2.0)
    """

    before: AbstractKernel
    after: AbstractKernel
    location: Hyper = hyper(0.0, real)
    steepness: Hyper = hyper(1.0, positive)
    column: int | str = eqx.field(default=0, static=True)

    def __check_init__(self):
        if not all(isinstance(part, AbstractKernel) for part in self.parts):
            raise ParameterError(f"ChangePoint.before and .after must be kernels, got {self.parts}.")
        for name in ("location", "steepness"):
            if np.ndim(getattr(self, name)) > 0:
                raise ParameterError(f"ChangePoint.{name} must be one number.")

    @property
    def parts(self) -> tuple[AbstractKernel, ...]:
        """The kernels it is made of."""
        return (self.before, self.after)

    def rebuild(self, parts: tuple[AbstractKernel, ...]) -> ChangePoint:
        before, after = parts
        return ChangePoint(before, after, given(self, "location"), given(self, "steepness"), self.column)

    def bind(self, d: int, names: tuple[str, ...] | None = None) -> ChangePoint:
        column = position(self.column, d, names, "ChangePoint.column")
        before, after = (part.bind(d, names) for part in self.parts)
        return ChangePoint(before, after, given(self, "location"), given(self, "steepness"), column)

    def encode(self, X: Array) -> tuple[Encoded, ...]:
        if isinstance(self.column, str):
            raise ParameterError(
                f"ChangePoint.column {self.column!r} is not bound to inputs yet: use a data frame with "
                "that column."
            )
        column = X[:, self.column]
        return (
            *(part.encode(X) for part in self.parts),
            column if isinstance(X, jax.Array) else column.astype(float),
        )

    def suggest(self, X: np.ndarray, variance: float) -> ChangePoint:
        x = X[:, position(self.column, X.shape[1], None, "ChangePoint.column")].astype(float)
        spread = float(np.std(x)) or 1.0
        parts = tuple(part.suggest(X, variance) for part in self.parts)
        return self.rebuild(parts).with_values(location=float(np.median(x)), steepness=4.0 / spread)

    def block(self, A: tuple[Encoded, ...], B: tuple[Encoded, ...]) -> jax.Array:
        (*first, x), (*second, y) = A, B
        s, t = (jax.nn.sigmoid(self.steepness * (v - self.location)) for v in (x, y))
        k1, k2 = (part.block(a, b) for part, a, b in zip(self.parts, first, second, strict=True))
        r, q = (jax.nn.sigmoid(-self.steepness * (v - self.location)) for v in (x, y))
        return r[:, None] * q[None, :] * k1 + s[:, None] * t[None, :] * k2

    def amplitude(self) -> tuple[str, ...]:
        return tuple(f"before.{name}" for name in self.before.amplitude())

    def formula(self, digits: int = 6) -> str:
        return AbstractKernel.formula(self, digits)

    def traits(self, d: int = 1) -> Traits:
        parts = [part.traits(d) for part in self.parts]
        smooth = [t.smoothness for t in parts]
        return Traits(
            smoothness=None if None in smooth else min(s for s in smooth if s is not None), max_dimension=None
        )
