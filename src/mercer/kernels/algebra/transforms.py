"""Kernels from a kernel: rescaled, warped, normalised, blurred (GPML 4.2.4)."""

from __future__ import annotations

import dataclasses
import itertools
import math
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from mercer.inputs import Array
from mercer.kernels.algebra.functions import AbstractFunction, Function, LinearMap, as_function
from mercer.kernels.algebra.sums import AbstractComposite
from mercer.kernels.base import AbstractKernel, Encoded, given
from mercer.kernels.distance import safe_sqrt
from mercer.kernels.families.stationary import SE
from mercer.kernels.traits import Traits
from mercer.params import Hyper, ParameterError, hyper, positive


class AbstractTransform(AbstractComposite):
    """One kernel, changed; written as a call."""

    kernel: AbstractKernel

    def __check_init__(self):
        if not isinstance(self.kernel, AbstractKernel):
            raise ParameterError(f"{type(self).__name__}.kernel must be a kernel, got {self.kernel!r}.")

    @property
    def parts(self) -> tuple[AbstractKernel, ...]:
        return (self.kernel,)

    def amplitude(self) -> tuple[str, ...]:
        return tuple(f"kernel.{name}" for name in self.kernel.amplitude())

    def formula(self, digits: int = 6) -> str:
        return AbstractKernel.formula(self, digits)


class Rescale(AbstractTransform):
    """a(x) k(x, x') a(x'): the functions of k, multiplied by a(x).

    function: a function of yours, X (n, d) -> (n,), or a learned one such as `LogLinear`.

    >>> SE(0.3).rescale(lambda X: np.exp(-X[:, 0] ** 2))
    """

    function: AbstractFunction = eqx.field(converter=as_function)

    def rebuild(self, parts: tuple[AbstractKernel, ...]) -> Rescale:
        return Rescale(parts[0], self.function)

    def bind(self, d: int, names: tuple[str, ...] | None = None) -> Rescale:
        if (q := self.function.outputs(d)) not in (None, 1):
            raise ParameterError(
                f"Rescale.function must give one number for each input, {self.function} gives {q}."
            )
        return super().bind(d, names)

    def encode(self, X: Array) -> tuple[Encoded, Array]:
        return self.kernel.encode(X), self.function.encode(X)

    def _split(self, A):
        inner, read = A
        return inner, self.function.value(read).reshape(-1)

    def block(self, A: tuple[Encoded, jax.Array], B: tuple[Encoded, jax.Array]) -> jax.Array:
        (X, a), (Y, b) = self._split(A), self._split(B)
        return a[:, None] * self.kernel.block(X, Y) * b[None, :]

    def rank(self, d: int) -> int | None:
        return self.kernel.rank(d)

    def features(self, A: tuple[Encoded, jax.Array]) -> jax.Array:
        X, a = self._split(A)
        return a[:, None] * self.kernel.features(X)


class Warp(AbstractTransform):
    """k(u(x), u(x')): the kernel on changed inputs; the number of columns may change.

    function: u, a function of yours, X (n, d) -> (n,) or (n, q), a (q, d) matrix for u(x) = matrix x, or a
    learned one.

    >>> SE(0.3).warp(np.log)
    """

    function: AbstractFunction = eqx.field(converter=as_function)

    def rebuild(self, parts: tuple[AbstractKernel, ...]) -> Warp:
        return Warp(parts[0], self.function)

    def bind(self, d: int, names: tuple[str, ...] | None = None) -> Warp:
        return Warp(self.kernel.bind(self.function.outputs(d) or 1), self.function)

    def reads_objects(self) -> bool:
        return False

    def encode(self, X: Array) -> Encoded:
        read = self.function.encode(X)
        return self.kernel.encode(_table(read)) if isinstance(self.function, Function) else read

    def warped(self, A: Encoded) -> Encoded:
        """What the inner kernel reads."""
        return (
            A if isinstance(self.function, Function) else self.kernel.encode(_table(self.function.value(A)))
        )

    def suggest(self, X: np.ndarray, variance: float) -> Warp:
        return Warp(self.kernel.suggest(_table(self.function(X)), variance), self.function)

    def block(self, A: Encoded, B: Encoded) -> jax.Array:
        return self.kernel.block(self.warped(A), self.warped(B))

    def rank(self, d: int) -> int | None:
        return self.kernel.rank(self.function.outputs(d) or 1)

    def features(self, A: Encoded) -> jax.Array:
        return self.kernel.features(self.warped(A))

    def traits(self, d: int = 1) -> Traits:
        if not isinstance(self.function, LinearMap):
            return Traits()
        inner = self.kernel.traits(self.function.outputs(d))
        return Traits(
            stationary=inner.stationary,
            isotropic=inner.stationary and d == 1,
            smoothness=inner.smoothness,
            recurs=inner.recurs,
            beyond=inner.beyond,
        )


class Normalised(AbstractTransform):
    """k(x, x') / sqrt(k(x, x) k(x', x')) (4.35): k as a correlation, with a unit diagonal. Its own amplitude
    cancels and is held.

    Where k(x, x) = 0 (a linear kernel at the origin) the result is zero too.
    """

    def rebuild(self, parts: tuple[AbstractKernel, ...]) -> Normalised:
        return Normalised(parts[0])

    def _scale(self, A):
        root = safe_sqrt(self.kernel.diag(A))
        return jnp.where(root > 0, 1.0 / jnp.where(root > 0, root, 1.0), 0.0)

    def block(self, A: Encoded, B: Encoded) -> jax.Array:
        return self._scale(A)[:, None] * self.kernel.block(A, B) * self._scale(B)[None, :]

    def rank(self, d: int) -> int | None:
        return self.kernel.rank(d)

    def features(self, A: Encoded) -> jax.Array:
        return self._scale(A)[:, None] * self.kernel.features(A)

    def held(self) -> tuple[str, ...]:
        return super().amplitude()

    def amplitude(self) -> tuple[str, ...]:
        return ()

    def traits(self, d: int = 1) -> Traits:
        return dataclasses.replace(self.kernel.traits(d), dot_product=False)


class Blurred(AbstractTransform):
    """The covariance of f averaged over a Gaussian around each input: g(x) = integral of N(z | x, width^2)
    f(z) dz.

    width: the standard deviation of the blur, one number or one for each column. For the SE this is again an
    SE, with squared length-scales l^2 + 2 width^2 and variance times prod l / sqrt(l^2 + 2 width^2); any
    other kernel is averaged by Gauss-Hermite quadrature with `nodes` points for each column, which is a
    covariance whatever the number of points.

    >>> Blurred(Matern(1.0, nu=1.5), width=0.2)
    """

    width: Hyper = hyper(1.0, positive)
    nodes: int = eqx.field(default=12, static=True)

    def __check_init__(self):
        if not (isinstance(self.nodes, (int, np.integer)) and 1 <= self.nodes <= 100):
            raise ParameterError(f"Blurred.nodes must be a whole number from 1 to 100, got {self.nodes!r}.")
        if self.kernel.reads_objects():
            raise ParameterError(f"Blurred.kernel must read numbers; {self.kernel} does not.")

    @property
    def closed_form(self) -> bool:
        """Whether the average is known exactly, as it is for the SE; else it is by quadrature."""
        return isinstance(self.kernel, SE) and self.kernel.loadings is None

    def rebuild(self, parts: tuple[AbstractKernel, ...]) -> Blurred:
        return Blurred(parts[0], given(self, "width"), self.nodes)

    def bind(self, d: int, names: tuple[str, ...] | None = None) -> Blurred:
        if np.ndim(self.width) and np.shape(self.width) != (d,):
            raise ParameterError(
                f"Blurred.width has {np.size(self.width)} entries but the kernel sees {d} input columns."
            )
        if not self.closed_form and self.nodes**d > 200:
            raise ParameterError(
                f"Blurred needs {self.nodes}^{d} points for {d} columns: blur fewer columns (.on), or use "
                "fewer nodes or the SE."
            )
        return super().bind(d, names)

    def encode(self, X: Array) -> Array:
        return AbstractKernel.encode(self, X)

    def block(self, A: jax.Array, B: jax.Array) -> jax.Array:
        if self.closed_form:
            return self._blurred_se(A.shape[1]).block(A, B)
        points, weights = _gauss_hermite(self.nodes, A.shape[1])
        m = len(weights)
        pairs = np.repeat(points, m, 0), np.tile(points, (m, 1)), np.outer(weights, weights).ravel()

        @jax.checkpoint
        def add(total, pair):
            left, right, weight = pair
            X, Y = (self.kernel.encode(Z + self.width * shift) for Z, shift in ((A, left), (B, right)))
            return total + weight * self.kernel.block(X, Y), None

        zero = jnp.zeros((A.shape[0], B.shape[0]))
        return jax.lax.scan(add, zero, tuple(map(jnp.asarray, pairs)))[0]

    def _blurred_se(self, d: int) -> SE:
        inner: Any = self.kernel
        l2, w2 = jnp.square(inner.lengthscale), 2.0 * jnp.square(self.width)
        amplitude = jnp.prod(jnp.broadcast_to(jnp.sqrt(l2 / (l2 + w2)), (d,)))
        return SE(jnp.broadcast_to(jnp.sqrt(l2 + w2), (d,)), inner.variance * amplitude)

    def traits(self, d: int = 1) -> Traits:
        inner = self.kernel.traits(d)
        return Traits(inner.stationary, inner.isotropic, smoothness=inner.smoothness, beyond=inner.beyond)


def _table(values):
    """(n,) as a column."""
    return values[:, None] if values.ndim == 1 else values


def _gauss_hermite(nodes: int, d: int) -> tuple[np.ndarray, np.ndarray]:
    """Points (m, d) and weights (m,) whose averages are those of d standard normals."""
    x, w = np.polynomial.hermite_e.hermegauss(nodes)
    points = np.array(list(itertools.product(x, repeat=d)))
    weights = np.array([math.prod(c) for c in itertools.product(w / w.sum(), repeat=d)])
    return points, weights
