"""Functions of the input inside a kernel: length-scales that vary, warps, envelopes, features.

A function of the user's, X (n, d) -> (n,) or (n, q), is evaluated once for each input, so it may be plain
NumPy (written in `jax.numpy` it can also be differentiated). The other families here have hyperparameters
that are learned with the kernel's own.
"""

from __future__ import annotations

import abc
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike

from mercer.inputs import Array, InputError, numeric
from mercer.kernels.base import AbstractKernel
from mercer.kernels.distance import squared_distance
from mercer.kernels.families.stationary import SE
from mercer.kernels.words.names import call
from mercer.params import Hyper, ParameterError, Parametrised, hyper, parameters, positive, real


class AbstractFunction(Parametrised):
    """x -> one or q numbers, in two steps like a kernel: `encode(X)` is what is read,
    `value(E)` the pure-JAX function of that.
    """

    @abc.abstractmethod
    def value(self, E: Array) -> Array:
        """(n,) or (n, q)."""

    def encode(self, X: Array) -> Array:
        """What the function reads from the user's inputs: arrays of leading axis n."""
        return X if isinstance(X, jax.Array) else numeric(X)

    def outputs(self, d: int) -> int | None:
        """Number q of values for inputs with d columns; None for a single one, (n,)."""
        return None

    def __call__(self, X: ArrayLike) -> np.ndarray:
        return np.asarray(self.value(self.encode(np.asarray(X))))

    def formula(self, digits: int = 6) -> str:
        """As it stands in a kernel's formula."""
        return call(self, digits)

    def __repr__(self) -> str:
        return self.formula()


class Function(AbstractFunction):
    """A function of the user's, X (n, d) -> (n,) or (n, q).

    name: what formulas and saved models call it; by default its own name.
    """

    function: Callable = eqx.field(static=True)
    name: str = eqx.field(static=True, default="")

    def __post_init__(self):
        super().__post_init__()
        if not callable(self.function):
            raise ParameterError(f"expected a function X (n, d) -> (n,) or (n, q), got {self.function!r}.")
        self.name = self.name or getattr(self.function, "__name__", type(self.function).__name__)

    def encode(self, X: Array) -> Array:
        if isinstance(X, jax.core.Tracer):
            return jnp.asarray(self.function(X), float)
        X = numeric(np.asarray(X))
        out = np.asarray(self.function(X), dtype=float)
        if out.ndim == 0 or out.shape[0] != X.shape[0]:
            raise InputError(
                f"the function {self.name!r} gave shape {out.shape} for inputs of shape {X.shape}; it "
                "takes the whole table and "
                f"returns one row for each of its {X.shape[0]} rows."
            )
        if not np.isfinite(out).all():
            row = int(np.argwhere(~np.isfinite(out))[0, 0])
            raise InputError(f"the function {self.name!r} is not finite at row {row}, {X[row]}.")
        return out

    def value(self, E: Array) -> Array:
        return E

    def outputs(self, d: int) -> int | None:
        try:
            with np.errstate(all="ignore"):
                shape = np.shape(self.function(np.ones((2, d))))
        except Exception as error:
            raise ParameterError(
                f"the function {self.name!r} does not take inputs with {d} columns: {error}"
            ) from error
        return shape[1] if len(shape) > 1 else None

    def formula(self, digits: int = 6) -> str:
        return self.name


class LinearMap(AbstractFunction):
    """x -> matrix x, for a (q, d) matrix; held unless given as `param(...)`."""

    matrix: Hyper = hyper(constraint=real, free=False)

    def __check_init__(self):
        if np.ndim(self.matrix) != 2:
            raise ParameterError(
                f"LinearMap.matrix must be a (rows, columns) matrix, got shape {np.shape(self.matrix)}."
            )

    def value(self, E: Array) -> Array:
        return E @ self.matrix.T

    def outputs(self, d: int) -> int:
        q, columns = np.shape(self.matrix)
        if columns != d:
            raise ParameterError(f"LinearMap.matrix has {columns} columns but the kernel sees {d}.")
        return q


class LogLinear(AbstractFunction):
    """exp(intercept + weights . x): weights (d,), or (d, q) with q intercepts for q functions."""

    weights: Hyper = hyper(0.0, real)
    intercept: Hyper = hyper(0.0, real)

    def value(self, E: Array) -> Array:
        weights = (
            jnp.broadcast_to(self.weights, (E.shape[1],)) if jnp.ndim(self.weights) == 0 else self.weights
        )
        return jnp.exp(self.intercept + E @ weights)

    def outputs(self, d: int) -> int | None:
        return _outputs("LogLinear.weights", self.weights, d)


class LogRadial(AbstractFunction):
    """exp(intercept + sum_j weights_j exp(-|x - centres_j|^2 / (2 width^2))).

    centres: (m, d), held. weights: (m,) or (m, q), learned like the intercept and the width.
    """

    centres: Hyper = hyper(constraint=real, free=False)
    weights: Hyper = hyper(constraint=real)
    width: Hyper = hyper(1.0, positive)
    intercept: Hyper = hyper(0.0, real)

    def __check_init__(self):
        _check_points("LogRadial", "centres", self.centres, self.weights)

    def value(self, E: Array) -> Array:
        bumps = jnp.exp(-0.5 * squared_distance(E, self.centres) / jnp.square(self.width))
        return jnp.exp(self.intercept + bumps @ self.weights)

    def outputs(self, d: int) -> int | None:
        return _points_outputs("LogRadial", "centres", self.centres, self.weights, d)


class LogProcess(AbstractFunction):
    """exp of the mean of a latent Gaussian process given its `values` (m,) or (m, q) at `support` (m, d).

    The values are logarithms of the function at the support points and are learned; the latent kernel is
    held.

    >>> Gibbs(LogProcess(support=[[0.0], [0.5], [1.0]], values=[-1.0, -2.0, -1.0], kernel=SE(0.4)))
    """

    support: Hyper = hyper(constraint=real, free=False)
    values: Hyper = hyper(constraint=real)
    kernel: AbstractKernel = eqx.field(default=SE())

    def __check_init__(self):
        _check_points("LogProcess", "support", self.support, self.values)
        if not isinstance(self.kernel, AbstractKernel) or self.kernel.reads_objects():
            raise ParameterError(f"LogProcess.kernel must be a kernel on numbers, got {self.kernel!r}.")

    def value(self, E: Array) -> Array:
        """The mean is the average value plus the interpolated rest, so that it returns to the average,
        not to one, far away.
        """
        support = self.kernel.encode(jnp.asarray(self.support))
        K = self.kernel.block(support, support)
        K = K + 1e-10 * jnp.mean(jnp.diag(K)) * jnp.eye(K.shape[0])
        centre = jnp.mean(self.values, 0)
        solved = jnp.linalg.solve(K, self.values - centre)
        return jnp.exp(centre + self.kernel.block(self.kernel.encode(E), support) @ solved)

    def outputs(self, d: int) -> int | None:
        return _points_outputs("LogProcess", "support", self.support, self.values, d)

    def held(self) -> tuple[str, ...]:
        return tuple(f"kernel.{p.name}" for p in parameters(self.kernel))


def as_function(value: Any) -> AbstractFunction:
    """A function of the user's, a matrix, or one of the families here."""
    if isinstance(value, AbstractFunction):
        return value
    if not callable(value) and np.ndim(value) == 2:
        return LinearMap(value)
    return Function(value)


def _outputs(what: str, weights, d: int) -> int | None:
    shape = np.shape(weights)
    if shape and shape[0] != d:
        raise ParameterError(
            f"{what} has {shape[0]} rows but the kernel sees {d} input column{'s' if d != 1 else ''}."
        )
    return shape[1] if len(shape) == 2 else None


def _points_outputs(who: str, field: str, points, weights, d: int) -> int | None:
    if np.shape(points)[1] != d:
        raise ParameterError(f"{who}.{field} has {np.shape(points)[1]} columns but the kernel sees {d}.")
    return np.shape(weights)[1] if np.ndim(weights) == 2 else None


def _check_points(who: str, field: str, points, weights) -> None:
    if np.ndim(points) != 2:
        raise ParameterError(f"{who}.{field} must be points (m, d), got shape {np.shape(points)}.")
    if np.ndim(weights) not in (1, 2) or np.shape(weights)[0] != np.shape(points)[0]:
        raise ParameterError(
            f"{who} needs one weight or value for each of its {np.shape(points)[0]} points, got shape "
            f"{np.shape(weights)}."
        )
