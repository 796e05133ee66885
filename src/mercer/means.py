"""Mean functions, and explicit basis functions whose weights are integrated out.

A mean is fixed or learned with the other hyperparameters. A basis, h(x)' beta with beta ~ N(b, B) or vague,
is handled exactly (GPML 2.7) by every solver: `GP(kernel, basis=Polynomial(1))`.
"""

from __future__ import annotations

import abc
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from mercer.inputs import Array
from mercer.observe.rows import applied, read
from mercer.params import (
    Hyper,
    Param,
    ParameterError,
    Parametrised,
    fixed,
    hyper,
    parameters,
    real,
    replace_leaves,
)
from mercer.registry import named, of_room

__all__ = [
    "AbstractBasis",
    "AbstractMean",
    "Constant",
    "Coordinates",
    "Expansion",
    "Features",
    "Function",
    "Linear",
    "LogGaussian",
    "ObservedBasis",
    "ObservedMean",
    "Polynomial",
    "Sum",
    "Zero",
    "as_basis",
    "as_mean",
]


class AbstractMean(Parametrised):
    """m(x): `value(X)` on columns (n, d) gives (n,)."""

    @abc.abstractmethod
    def value(self, X: Array) -> Array:
        """m(x) for every row of X (n, d): (n,)."""

    def suggest(self, X: np.ndarray, y: np.ndarray, robust: bool = False) -> AbstractMean:
        """The same mean with free hyperparameters at values that suit latent values y (n,) at X (n, d); the
        same as it is by default.

        robust: outliers in y must not matter.
        """
        return self

    def __add__(self, other):
        return Sum((self, as_mean(other)))


class Zero(AbstractMean):
    """m(x) = 0."""

    def value(self, X: Array) -> Array:
        return np.zeros(X.shape[0])


class Constant(AbstractMean):
    """m(x) = constant, learned unless `fixed(...)`."""

    constant: Hyper = hyper(0.0, real)

    def value(self, X: Array) -> Array:
        return self.constant + np.zeros(X.shape[0])

    def suggest(self, X: np.ndarray, y: np.ndarray, robust: bool = False) -> AbstractMean:
        if "constant" not in _free(self):
            return self
        return replace_leaves(self, {"constant": np.asarray(np.median(y) if robust else y.mean())})


class Linear(AbstractMean):
    """m(x) = intercept + weights . x, learned unless fixed. `weights` is one number per column."""

    weights: Hyper = hyper(0.0, real)
    intercept: Hyper = hyper(0.0, real)

    def value(self, X: Array) -> Array:
        if np.ndim(self.weights) and np.shape(self.weights)[0] != X.shape[1]:
            raise ParameterError(
                f"Linear.weights has {np.shape(self.weights)[0]} entries but there are {X.shape[1]} input "
                "columns."
            )
        return self.intercept + (X * self.weights).sum(1)

    def suggest(self, X: np.ndarray, y: np.ndarray, robust: bool = False) -> AbstractMean:
        """The least-squares plane, where all of it is free and outliers do not spoil it."""
        if robust or not {"weights", "intercept"} <= _free(self) or np.ndim(self.weights) != 1:
            return self
        beta = np.linalg.lstsq(np.column_stack([np.ones(len(y)), X]), y, rcond=None)[0]
        return replace_leaves(self, {"intercept": np.asarray(beta[0]), "weights": beta[1:]})


class LogGaussian(AbstractMean):
    """m(x) = -1/2 (x - location)' covariance^-1 (x - location): the log density of a Gaussian up to its
    level, about which a density is learned. Held unless given as `param(...)`.

    location: (d,). covariance: (d, d), positive definite
    """

    location: Hyper = hyper(None, real, free=False)
    covariance: Hyper = hyper(None, real, free=False)

    def __check_init__(self):
        d = np.shape(self.location)
        if len(d) != 1 or np.shape(self.covariance) != d * 2:
            raise ParameterError(
                f"LogGaussian needs a location (d,) and a covariance (d, d), got {d} and "
                f"{np.shape(self.covariance)}."
            )

    def value(self, X: Array) -> Array:
        offset = X - self.location
        return -0.5 * jnp.sum(offset * jnp.linalg.solve(self.covariance, offset.T).T, 1)


class Function(AbstractMean):
    """A function of the user's, X (n, d) -> (n,); `name` is how a saved model asks for it on loading."""

    function: Callable = eqx.field(static=True)
    name: str = eqx.field(static=True, default="")

    def value(self, X: Array) -> Array:
        return self.function(X)


class Sum(AbstractMean):
    """m1 + m2 + ..."""

    terms: tuple[AbstractMean, ...]

    def value(self, X: Array) -> Array:
        return sum((t.value(X) for t in self.terms), np.zeros(()))


class Expansion(AbstractMean):
    """m(x) + sum_i weights_i k(x, x_i): the mean of a process with the mean m and the covariance k that has
    been observed at the inputs x_i, as the prior mean of a next stage. All of it is held.

    mean, kernel: those of the first stage, the kernel bound to its columns
    inputs: x_i (n, d), or what else the kernel reads as numbers
    weights: (n,), alpha of the first stage

    >>> GP(kernels.PosteriorKernel(post), Expansion(Zero(), post.model.gp.kernel, X, post.state.alpha))
    """

    mean: AbstractMean
    kernel: Any
    inputs: Hyper = hyper(None, real, free=False)
    weights: Hyper = hyper(None, real, free=False)

    def held(self) -> tuple[str, ...]:
        parts = {"mean": self.mean, "kernel": self.kernel}
        return tuple(f"{part}.{p.name}" for part, value in parts.items() for p in parameters(value))

    def value(self, X: Array) -> Array:
        kernel = self.kernel
        K = kernel.block(kernel.encode(X), kernel.encode(jnp.asarray(self.inputs)))
        return jnp.asarray(self.mean.value(X)) + K @ jnp.asarray(self.weights)


class ObservedMean(AbstractMean):
    """What is observed of a mean m of `columns` columns: L m, for rows that say what L is (`mercer.observe`).

    >>> ObservedMean(Linear(2.0), 1).value(mercer.observe.derivatives(X).rows)         # 2.0 at every row
    """

    mean: AbstractMean
    columns: int = eqx.field(static=True, default=1)

    def value(self, X: Array) -> Array:
        return applied(self.mean.value, read(X, self.columns))


def _free(mean: AbstractMean) -> set[str]:
    return {p.name for p in parameters(mean) if p.free}


def as_mean(mean: Any) -> AbstractMean:
    """None, a number (fixed; `param(...)` to learn it), a name such as "linear", a callable or a mean
    -> a mean.
    """
    if mean is None:
        return Zero()
    if isinstance(mean, AbstractMean):
        return mean
    if isinstance(mean, str):
        return named("means", mean, AbstractMean, error=ParameterError)()
    if isinstance(mean, Parametrised):  # a kernel can be called, too
        raise ParameterError(
            f"mean must be a mean such as mercer.means.Linear(), a function or a number, got {of_room(mean)}."
        )
    if callable(mean):
        return Function(mean, getattr(mean, "__name__", ""))
    return Constant(mean if isinstance(mean, Param) else fixed(mean))


# ------------------------------------------------------------------------------------------------- basis
# functions


class AbstractBasis(Parametrised):
    """Basis functions h(x) with weights beta ~ N(weights, covariance), or a vague prior where covariance is
    None.

    `features(X)` (n, p). The prior is data, not a hyperparameter: it is not learned.
    """

    @abc.abstractmethod
    def features(self, X: Array) -> Array:
        """h(x) for every row of X (n, d): (n, p)."""

    @abc.abstractmethod
    def prior(self, p: int) -> tuple[np.ndarray, np.ndarray | None]:
        """Prior mean (p,) and covariance (p, p) of the weights, or None for vague."""


def as_basis(basis: Any) -> Any:
    """A basis from its name ("polynomial"); anything else as it is."""
    return named("means", basis, AbstractBasis, error=ParameterError)() if isinstance(basis, str) else basis


def _weight_prior(weights, covariance, p: int, who: str):
    b = np.zeros(p) if weights is None else np.asarray(weights, float)
    if b.shape not in ((), (p,)):
        raise ParameterError(f"{who}.weights must be one number or {p} of them, got {b.size}.")
    b = np.broadcast_to(b, (p,))
    if covariance is None:
        return b, None
    B = np.asarray(covariance, float)
    B = B * np.eye(p) if B.ndim == 0 else np.diag(B) if B.ndim == 1 else B
    if B.shape != (p, p) or not np.allclose(B, B.T) or np.linalg.eigvalsh(B).min() <= 0:
        raise ParameterError(
            f"{who}.covariance must be a positive-definite ({p}, {p}) matrix, p variances, or one variance."
        )
    return b, B


class Polynomial(AbstractBasis):
    """1, x_d, ..., x_d^degree for every column d (no cross terms): degree 0 is a constant, 1 a plane.

    covariance=None: a vague prior (universal kriging); a number, p numbers or a matrix: Gaussian weights with
    that covariance.
    """

    degree: int = eqx.field(default=1, static=True)
    covariance: Hyper | None = hyper(None, real, free=False)
    weights: Hyper | None = hyper(None, real, free=False)

    def __check_init__(self):
        if not (isinstance(self.degree, (int, np.integer)) and self.degree >= 0):
            raise ParameterError(
                f"the degree of a polynomial basis must be a whole number of at least 0, got {self.degree!r}."
            )

    def features(self, X: Array) -> Array:
        xp = np if isinstance(X, np.ndarray) else jnp
        return xp.concatenate(
            [xp.ones((X.shape[0], 1)), *[X**power for power in range(1, self.degree + 1)]], 1
        )

    def prior(self, p: int) -> tuple[np.ndarray, np.ndarray | None]:
        return _weight_prior(self.weights, self.covariance, p, "Polynomial")


class Coordinates(AbstractBasis):
    """Columns themselves, less a centre: h(x) = x[columns] - centre, so that weights are effects of one unit.

    columns: positions, from 0. centre: one number, or one for each of them.
    covariance=None: a vague prior; a number, p numbers or a matrix: Gaussian weights with that covariance.

    >>> GP(kernels.Matern().on(0), basis=Coordinates([1, 2], covariance=[4.0, 1.0]))
    """

    columns: tuple[int, ...] = eqx.field(static=True, converter=lambda given: tuple(map(int, given)))
    centre: Hyper = hyper(0.0, real, free=False)
    covariance: Hyper | None = hyper(None, real, free=False)
    weights: Hyper | None = hyper(None, real, free=False)

    def features(self, X: Array) -> Array:
        if max(self.columns, default=-1) >= X.shape[1]:
            raise ParameterError(
                f"Coordinates reads columns {self.columns} but there are {X.shape[1]} input columns."
            )
        return X[:, list(self.columns)] - self.centre

    def prior(self, p: int) -> tuple[np.ndarray, np.ndarray | None]:
        return _weight_prior(self.weights, self.covariance, p, "Coordinates")


class Features(AbstractBasis):
    """A user's features, X (n, d) -> (n, p); `name` is how a saved model asks for it on loading."""

    function: Callable = eqx.field(static=True)
    covariance: Hyper | None = hyper(None, real, free=False)
    weights: Hyper | None = hyper(None, real, free=False)
    name: str = eqx.field(static=True, default="")

    def features(self, X: Array) -> Array:
        return self.function(X)

    def prior(self, p: int) -> tuple[np.ndarray, np.ndarray | None]:
        return _weight_prior(self.weights, self.covariance, p, "Features")


class ObservedBasis(AbstractBasis):
    """What is observed of basis functions h of `columns` columns: L h, with the weights of h."""

    basis: AbstractBasis
    columns: int = eqx.field(static=True, default=1)

    def features(self, X: Array) -> Array:
        return applied(self.basis.features, read(X, self.columns))

    def prior(self, p: int) -> tuple[np.ndarray, np.ndarray | None]:
        return self.basis.prior(p)


def __dir__() -> list[str]:
    return sorted(__all__)
