"""Neural networks with infinitely many hidden units:
the covariance of their outputs is known in closed form (GPML 4.2.3).
"""

from __future__ import annotations

import functools
import math
from typing import Self

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from mercer.kernels.base import AbstractKernel
from mercer.kernels.distance import COINCIDENT, safe_sqrt, squared_distance
from mercer.kernels.families.factors import lower_triangular
from mercer.kernels.traits import Traits
from mercer.params import Hyper, ParameterError, hyper, nonnegative, positive


class AbstractNetwork(AbstractKernel):
    """Hidden units h(u . (1, x)) with weights u ~ N(0, Sigma) on the input with a one in front of it.

    bias_variance: prior variance of a unit's bias. weight_variance: of its input weights, one number or one
    for each column, in 1 / squared units of the input. Both are 1 if not given. factor: instead of them, the
    lower Cholesky factor (d+1, d+1) of any Sigma, bias first (`kernels.lower_factor(covariance)`). variance:
    of the output.
    """

    bias_variance: Hyper = hyper(None, nonnegative)
    weight_variance: Hyper = hyper(None, nonnegative)
    variance: Hyper = hyper(1.0, positive)
    factor: Hyper | None = hyper(None, lower_triangular, kw_only=True)

    def __post_init__(self):
        for name in ("bias_variance", "weight_variance"):
            if self.factor is None and getattr(self, name) is None:
                setattr(self, name, 1.0)
            elif self.factor is not None and getattr(self, name) is not None:
                raise ParameterError(
                    f"{type(self).__name__}.{name} is part of the factor: give one or the other."
                )
        super().__post_init__()

    def bind(self, d: int, names: tuple[str, ...] | None = None) -> Self:
        if self.factor is not None and np.shape(self.factor)[0] != d + 1:
            raise ParameterError(
                f"{type(self).__name__}.factor is {np.shape(self.factor)} but with {d} input "
                f"column{'s' if d != 1 else ''} and the "
                f"bias it must be ({d + 1}, {d + 1})."
            )
        return super().bind(d, names)

    def suggest(self, X: np.ndarray, variance: float) -> Self:
        """Units that turn over about half the spread of a column, somewhere in the range of the data."""
        spread = np.std(X, 0)
        weight = (2.0 / np.where(spread > 0, spread, 1.0)) ** 2
        bias = 1.0 + float(np.sum(weight * np.mean(X, 0) ** 2))
        if self.factor is not None:
            return self.with_values(variance=variance)
        each = np.ndim(self.weight_variance) == 1
        return self.with_values(
            variance=variance, bias_variance=bias, weight_variance=weight if each else np.mean(weight)
        )

    def whiten(self, A: jax.Array) -> jax.Array:
        """V (a, d + 1) with V V' = x~' Sigma x~ for the augmented inputs x~ = (1, x)."""
        if self.factor is not None:
            L = jnp.tril(self.factor)
            return L[0] + A @ L[1:]
        bias = jnp.broadcast_to(safe_sqrt(self.bias_variance), (A.shape[0], 1))
        return jnp.concatenate([bias, A * safe_sqrt(self.weight_variance)], 1)


class NeuralNetwork(AbstractNetwork):
    """Units with the error function: (2 / pi) asin(2 x~'Sx~' / sqrt((1 + 2 x~'Sx~)(1 + 2 x~''Sx~'))) (4.29).

    Functions that turn where units have their steps and saturate far out: good for data with steps and
    plateaus.

    >>> NeuralNetwork(bias_variance=4.0, weight_variance=[10.0, 2.0])
    """

    def block(self, A: jax.Array, B: jax.Array) -> jax.Array:
        V, W = self.whiten(A), self.whiten(B)
        v, w, c = jnp.sum(V * V, 1)[:, None], jnp.sum(W * W, 1)[None, :], V @ W.T
        # asin(z) = atan2(z, sqrt(1 - z^2)), the root brought to one that is never below 1
        root = jnp.sqrt(1.0 + 2.0 * (v + w) + 4.0 * jnp.maximum(v * w - c * c, 0.0))
        return self.variance * (2.0 / jnp.pi) * jnp.arctan2(2.0 * c, root)

    def traits(self, d: int = 1) -> Traits:
        return Traits(smoothness=math.inf, beyond="saturates at the level it left the data with")


class ArcCosine(AbstractNetwork):
    """Units u^order for u > 0, else 0: steps (order 0), rectified linear (1) or quadratic (2) units.

    Twice the average of h h', which is |v|^n |v'|^n J_n(angle) / pi with v the augmented weighted inputs,
    |v|^2 = x~'Sx~: so order 0 has k(x, x) = 1, order 1 |v|^2 and order 2 3 |v|^4.

    >>> ArcCosine(order=1, weight_variance=2.0)
    """

    order: int = eqx.field(default=1, static=True)

    def __check_init__(self):
        if isinstance(self.order, bool) or self.order not in (0, 1, 2):
            raise ParameterError(f"ArcCosine.order must be 0, 1 or 2, got {self.order!r}.")

    def block(self, A: jax.Array, B: jax.Array) -> jax.Array:
        V, W = self.whiten(A), self.whiten(B)
        lengths = [safe_sqrt(jnp.sum(X * X, 1)) for X in (V, W)]
        units = [
            X / jnp.where(length > 0, length, 1.0)[:, None] for X, length in zip((V, W), lengths, strict=True)
        ]
        correlation = _angular(self.order, squared_distance(*units))
        return self.variance * correlation * (lengths[0][:, None] * lengths[1][None, :]) ** self.order

    def traits(self, d: int = 1) -> Traits:
        beyond = ("keeps its level", "continues a straight line", "continues a parabola")[self.order]
        return Traits(smoothness=self.order, beyond=beyond)


@functools.partial(jax.custom_jvp, nondiff_argnums=(0,))
def _angular(order: int, r2):
    """J_n(theta) / pi for unit vectors at squared distance r2: theta = 2 asin(r / 2),
    without loss of digits at small angles.
    """
    half = 0.5 * safe_sqrt(r2)
    theta = 2.0 * jnp.arctan2(half, safe_sqrt(jnp.maximum(1.0 - half * half, 0.0)))
    sine, cosine, rest = jnp.sin(theta), 1.0 - 0.5 * r2, jnp.pi - theta
    if order == 0:
        return rest / jnp.pi
    if order == 1:
        return (sine + rest * cosine) / jnp.pi
    return (3.0 * sine * cosine + rest * (1.0 + 2.0 * cosine * cosine)) / jnp.pi


@_angular.defjvp
def _angular_jvp(order, primals, tangents):
    # dJ_n / d cos(theta) is J_(n-1) up to a factor, and d cos(theta) = -d r2 / 2: finite at coincident points
    # for n > 0
    (r2,), (tangent,) = primals, tangents
    value = _angular(order, r2)
    if order:
        return value, -0.5 * (1.0, 4.0)[order - 1] * _angular(order - 1, r2) * tangent
    sine2 = r2 * (1.0 - 0.25 * r2)
    apart = sine2 > COINCIDENT
    return value, jnp.where(
        apart, -0.5 / (jnp.pi * jnp.sqrt(jnp.where(apart, sine2, COINCIDENT))), 0.0
    ) * tangent


class GaussianNetwork(AbstractKernel):
    """Units exp(-|x - u|^2 / (2 width^2)) with centres u ~ N(0, spread^2 I) (4.30): an SE under a Gaussian
    envelope.

    width: of a unit, in the units of the inputs. spread: of the centres around zero; far outside the
    functions are zero. As the spread grows, the kernel divided by k(0, 0) tends to the SE with length-scale
    sqrt(2) width.
    """

    width: Hyper = hyper(1.0, positive)
    spread: Hyper = hyper(1.0, positive)
    variance: Hyper = hyper(1.0, positive)

    def __check_init__(self):
        for name in ("width", "spread"):
            if np.ndim(getattr(self, name)) > 0:
                raise ParameterError(f"GaussianNetwork.{name} must be one number.")

    def suggest(self, X: np.ndarray, variance: float) -> GaussianNetwork:
        scale = float(np.sqrt(np.mean(np.square(X)))) or 1.0
        return self.with_values(width=0.3 * scale, spread=scale, variance=variance)

    def block(self, A: jax.Array, B: jax.Array) -> jax.Array:
        g2, u2 = jnp.square(self.width), jnp.square(self.spread)
        e2, s2, m2 = 1.0 / (2.0 / g2 + 1.0 / u2), 2.0 * g2 + g2 * g2 / u2, 2.0 * u2 + g2
        a, b = (jnp.sum(X * X, 1) for X in (A, B))
        envelope = jnp.exp(-0.5 * (a[:, None] + b[None, :]) / m2)
        scale = self.variance * (e2 / u2) ** (0.5 * A.shape[1])
        return scale * envelope * jnp.exp(-0.5 * squared_distance(A, B) / s2)

    def traits(self, d: int = 1) -> Traits:
        return Traits(
            smoothness=math.inf, beyond="returns to the mean, and far from the origin does not leave it"
        )
