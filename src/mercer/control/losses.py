"""What states cost, and what they are expected to cost where they are uncertain (Kuss 7.4.2).

A loss says `expected(state)` of a Gaussian state, exactly where there is a closed form: `Quadratic`,
`Saturating` (without angles), `TipLoss`. A function of one's own is `FunctionLoss`, whose expectation is
approximate, as it says.
"""

from __future__ import annotations

import abc
import dataclasses
import math
from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from mercer.control.environments import ControlError
from mercer.control.propagate import Gaussian, trigonometric
from mercer.registry import Saved, unknown

__all__ = ["AbstractStateLoss", "ChanceConstraint", "FunctionLoss", "Quadratic", "Saturating", "TipLoss"]

APPROXIMATIONS = ("cubature", "taylor")


@Saved.register
class AbstractStateLoss(eqx.Module):
    """A loss of states (D,). `loss(state)` is that of a known one."""

    @abc.abstractmethod
    def expected(self, state: Gaussian) -> Any:
        """The expectation over a Gaussian state."""

    def __call__(self, state: Any) -> Any:
        """Of a state (D,) that is known."""
        s = jnp.asarray(state, float)
        return self.expected(Gaussian(s, jnp.zeros((len(s), len(s)))))


class Quadratic(AbstractStateLoss):
    """sum_i weights_i (s_i - target_i)^2 (7.54); of angles the square is 2 (1 - cos(s_i - target_i)),
    the same nearby and again after a turn. Exact expectations.

    angles: which entries are angles

    >>> loss = mc.control.Quadratic([0.6, 0.0], [1.0, 0.1])
    """

    target: Any
    weights: Any
    angles: tuple[int, ...] = eqx.field(static=True)

    def __init__(
        self, target: Sequence[float], weights: Sequence[float] | float = 1.0, angles: Sequence[int] = ()
    ):
        self.target, self.weights = _pair(target, weights, "weights")
        self.angles = tuple(int(i) for i in angles)

    def expected(self, state: Gaussian) -> Any:
        away, variance = state.mean - self.target, jnp.diag(state.covariance)
        squares = away**2 + variance
        turned = 2.0 * (1.0 - jnp.exp(-0.5 * variance) * jnp.cos(away))
        is_angle = np.isin(np.arange(len(self.target)), self.angles)
        return jnp.sum(self.weights * jnp.where(is_angle, turned, squares))


class Saturating(AbstractStateLoss):
    """1 - exp(-1/2 sum_i ((s_i - target_i) / width_i)^2): 0 at the target, 1 far from it, so that
    a state that may be anywhere is explored and not feared. An infinite width ignores a state variable.

    Exact expectations; angles enter as points on the circle, whose two coordinates are taken as Gaussian.

    >>> loss = mc.control.Saturating([0.6, 0.0], [0.25, np.inf])
    """

    target: Any
    width: Any
    angles: tuple[int, ...] = eqx.field(static=True)

    def __init__(self, target: Sequence[float], width: Sequence[float] | float, angles: Sequence[int] = ()):
        self.target, self.width = _pair(target, width, "width")
        self.angles = tuple(int(i) for i in angles)

    def expected(self, state: Gaussian) -> Any:
        plain = [i for i in range(len(self.target)) if i not in self.angles]
        precision, at = self.width**-2.0, jnp.array(plain, int)
        mean, covariance = state.mean - self.target, state.covariance
        z, S, weights = mean[at], covariance[jnp.ix_(at, at)], precision[at]
        if self.angles:
            turned, cross = trigonometric(Gaussian(mean, covariance), self.angles)
            k = len(self.angles)
            aim = jnp.concatenate([jnp.zeros(k), jnp.ones(k)])
            z = jnp.concatenate([z, turned.mean - aim])
            S = jnp.block([[S, cross[at]], [cross[at].T, turned.covariance]])
            weights = jnp.concatenate([weights, *[precision[jnp.array(self.angles)]] * 2])
        root = jnp.sqrt(weights)
        inner = jnp.eye(len(z)) + root[:, None] * S * root
        factor = jnp.linalg.cholesky(inner)
        pulled = jax.scipy.linalg.solve_triangular(factor, root * z, lower=True)
        return 1.0 - jnp.exp(-0.5 * pulled @ pulled) / jnp.prod(jnp.diag(factor))


class TipLoss(AbstractStateLoss):
    """The squared distance of the tip of a pole on a cart from where it stands upright over 0 (7.55), for
    states that hold the cart's position and the angle from hanging. Exact expectations.

    length: from the pivot to the pole's centre of mass, half of the pole; position, angle: which states

    >>> loss = mc.control.TipLoss(length=0.3)
    """

    length: float
    position: int = eqx.field(static=True, default=0)
    angle: int = eqx.field(static=True, default=2)

    def expected(self, state: Gaussian) -> Any:
        x, angle, l = state.mean[self.position], state.mean[self.angle], self.length
        S = state.covariance
        with_angle = S[self.position, self.angle]
        shrunk = jnp.exp(-0.5 * S[self.angle, self.angle])
        crossed = x * jnp.sin(angle) + with_angle * jnp.cos(angle)
        upright = 8.0 * l**2 * (1.0 + shrunk * jnp.cos(angle))
        return x**2 + S[self.position, self.position] + 4.0 * l * shrunk * crossed + upright


class FunctionLoss(AbstractStateLoss):
    """A loss of your own, written with `jax.numpy`: state (D,) -> number.

    method: its expectation is approximate: "cubature" averages it at 2D + 1 points with the state's mean and
        covariance (exact for polynomials of degree 3), "taylor" adds half the trace of its curvature times
        the covariance (7.57)
    name: by which a saved controller asks for the function on loading

    >>> loss = mc.control.FunctionLoss(lambda s: jnp.abs(s[0] - 0.6))
    """

    function: Callable[[Any], Any] = eqx.field(static=True)
    method: str = eqx.field(static=True, default="cubature")
    name: str = eqx.field(static=True, default="")

    def __check_init__(self) -> None:
        if self.method not in APPROXIMATIONS:
            raise ControlError(unknown("method", self.method, APPROXIMATIONS))

    def expected(self, state: Gaussian) -> Any:
        mean, S = state
        if self.method == "taylor":
            return self.function(mean) + 0.5 * jnp.sum(jax.hessian(self.function)(mean) * S)
        D = len(mean)
        tiny = 1e-14 * jnp.trace(S) + 1e-18
        far = jnp.sqrt(3.0) * jnp.linalg.cholesky(S + tiny * jnp.eye(D)).T
        around = jax.vmap(self.function)(jnp.concatenate([mean + far, mean - far]))
        return (1.0 - D / 3.0) * self.function(mean) + jnp.sum(around) / 6.0


@Saved.register
@dataclasses.dataclass(frozen=True)
class ChanceConstraint:
    """A state or an action is to lie between low and high, with at least this probability at every step
    of the plan. It is that of the Gaussian prediction, as good as the model is.

    >>> mc.control.ChanceConstraint("position", -0.9, 0.9, probability=0.95)
    """

    name: str
    low: float = -math.inf
    high: float = math.inf
    probability: float = 0.95

    def __post_init__(self) -> None:
        if not self.low < self.high:
            raise ControlError(f"a constraint has low < high, got {self.low} and {self.high} of {self.name}.")
        if not 0.5 <= self.probability < 1:
            raise ControlError(f"probability must be at least 0.5 and below 1, got {self.probability}.")


def _pair(target: Any, other: Any, name: str) -> tuple[np.ndarray, np.ndarray]:
    aim = np.atleast_1d(np.asarray(target, float))
    with_it = np.asarray(other, float)
    if with_it.ndim > 1 or (with_it.ndim == 1 and len(with_it) != len(aim)):
        raise ControlError(f"{name} must be one number, or one for each of the {len(aim)} states.")
    if not np.isfinite(aim).all() or np.isnan(with_it).any():
        raise ControlError(f"target and {name} must be numbers, got {target!r} and {other!r}.")
    return aim, np.broadcast_to(with_it, aim.shape).copy()
