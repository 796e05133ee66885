"""One-dimensional integrals against N(f | mean, variance), elementwise, for likelihoods without a closed
form.

Nodes are f = centre + width sinh(t), t equally spaced (trapezoid rule): dense where the integrand changes
quickly, sparse out to ten standard deviations. Two such sets, around two centres, share the integral: each
takes the part 1 / (1 + (d_i / d_j)^4) that is nearer to its own centre, d_i^2 = width_i^2 + (f - centre_i)^2.
So a narrow likelihood in a wide Gaussian, and the reverse, are both resolved. Nodes stand on the leading
axis, (nodes, n), so that parameters given per datum broadcast. They carry no derivative: those of the
integrals come from the Gaussian factor and are as accurate as the integrals; only where the Gaussian is far
narrower than the likelihood do nodes move with it, so that nothing is divided by a tiny variance.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from mercer.inputs import Array
from mercer.likelihoods.special import LOG_2PI

NODES, FEW_NODES = 101, 25  # around each centre
_REACH = 10.0  # standard deviations
_TINY = 0.03
_STEPS = 20
_SHARES = 0.25 ** np.arange(12)  # of a Newton step, tried together


def log_normal(f: Array, mean: Array | float, variance: Array | float) -> jax.Array:
    """log N(f | mean, variance)."""
    squared: Any = (f - mean) ** 2 / variance
    return -0.5 * (squared + jnp.log(variance) + LOG_2PI)


def derivatives(
    function: Callable[[jax.Array], jax.Array], f: ArrayLike, order: int = 3
) -> tuple[jax.Array, ...]:
    """An elementwise function of f and its first derivatives, each of the shape of f."""
    f = jnp.asarray(f, float)
    functions = [function]
    for _ in range(order):
        functions.append(_slope(functions[-1]))
    return tuple(g(f) for g in functions)


def _slope(function):
    return lambda f: jax.jvp(function, (f,), (jnp.ones_like(f),))[1]


def log_integral(
    log_p: Callable[[jax.Array], jax.Array],
    mean: ArrayLike,
    variance: ArrayLike,
    centre: ArrayLike | None = None,
    width: ArrayLike | None = None,
    follow: bool = True,
    nodes: int = NODES,
) -> jax.Array:
    """log of the integral of exp(log_p(f)) N(f | mean, variance) df.

    One set of nodes stands around the mode of the integrand, the other around `centre` over lengths of
    `width` (by default the Gaussian's own). follow: nodes of a very narrow Gaussian move with it; this needs
    finite derivatives of log_p everywhere.
    """
    mean, variance, m, sd = _gaussian(mean, variance, centre)
    if centre is None:
        centre, width = m, sd
    assert width is not None  # it goes with the centre
    centre, width = (jax.lax.stop_gradient(jnp.broadcast_to(x, m.shape)) for x in (centre, width))
    mode, narrow = _mode(log_p, m, sd**2, centre)
    low = jnp.minimum(m - _REACH * sd, mode - _REACH * narrow)
    high = jnp.maximum(m + _REACH * sd, mode + _REACH * narrow)
    offset, log_w = _shared(
        (mode, narrow), (jnp.clip(centre, low, high), jnp.minimum(width, sd)), m, low, high, nodes
    )
    # an overflow far out, where nothing is lost
    bad = ~jnp.isfinite(jax.lax.stop_gradient(log_p(m + offset)))
    offset, log_w = jnp.where(bad, mode - m, offset), jnp.where(bad, -jnp.inf, log_w)
    if not follow:
        return jax.nn.logsumexp(log_p(m + offset) + log_normal(offset, mean - m, variance) + log_w, axis=0)
    moves = sd < _TINY * width
    f = jnp.where(moves, mean + offset * jnp.sqrt(variance) / sd, m + offset)
    gaussian = log_normal(offset, jnp.where(moves, 0.0, mean - m), jnp.where(moves, sd**2, variance))
    return jax.nn.logsumexp(log_p(f) + gaussian + log_w, axis=0)


def average(
    function: Callable[[jax.Array], Array],
    mean: ArrayLike,
    variance: ArrayLike,
    centre: ArrayLike | None = None,
    width: ArrayLike | None = None,
    nodes: int = NODES,
) -> jax.Array:
    """The integral of function(f) N(f | mean, variance) df;
    with a second set of nodes around `centre` over lengths of `width`.
    """
    mean, variance, m, sd = _gaussian(mean, variance, centre)
    low, high = m - _REACH * sd, m + _REACH * sd
    if centre is None:
        offset, log_w = _around(m, sd, m, low, high, nodes)
    else:
        assert width is not None  # it goes with the centre
        pair = (jnp.clip(centre, low, high), jnp.minimum(width, sd))
        centre, width = (jax.lax.stop_gradient(jnp.broadcast_to(x, m.shape)) for x in pair)
        offset, log_w = _shared((m, sd), (centre, width), m, low, high, nodes)
    return jnp.sum(function(m + offset) * jnp.exp(log_normal(offset, mean - m, variance) + log_w), axis=0)


def share_moments(p: Callable[[jax.Array], jax.Array], mean: ArrayLike, variance: ArrayLike) -> jax.Array:
    """E[p(f)] and E[p(f) (1 - p(f))] of a probability with p(-f) = 1 - p(f), on a last axis."""
    first = average(p, mean, variance, 0.0, 1.0)
    both = average(lambda f: p(f) * p(-f), mean, variance, 0.0, 1.0)
    return jnp.stack([first, both], -1)


def _gaussian(mean, variance, centre) -> tuple[jax.Array, jax.Array, jax.Array, jax.Array]:
    """Mean and variance, and mean and standard deviation without derivatives.
    A point mass is a very narrow Gaussian.
    """
    shape = jnp.broadcast_shapes(*(jnp.shape(x) for x in (mean, variance, 0.0 if centre is None else centre)))
    mean, variance = (
        jnp.broadcast_to(jnp.asarray(mean, float), shape),
        jnp.broadcast_to(jnp.asarray(variance, float), shape),
    )
    variance = jnp.maximum(variance, 1e-18 * (1.0 + mean**2))
    return mean, variance, jax.lax.stop_gradient(mean), jnp.sqrt(jax.lax.stop_gradient(variance))


def _around(centre, width, origin, low, high, nodes):
    """Nodes (nodes, n) from low to high, as differences from the origin, and the logs of their weights."""
    a, b = jnp.arcsinh((low - centre) / width), jnp.arcsinh((high - centre) / width)
    step = (b - a) / (nodes - 1)
    t = a + step * jnp.arange(nodes, dtype=float).reshape((-1,) + (1,) * a.ndim)
    return (centre - origin) + width * jnp.sinh(t), jnp.log(width * step) + jnp.log(jnp.cosh(t))


def _shared(first, second, origin, low, high, nodes):
    def log_distance(pair, offset):
        return 0.5 * jnp.log(pair[1] ** 2 + (offset - (pair[0] - origin)) ** 2)

    offsets, weights = [], []
    for own, other in ((first, second), (second, first)):
        offset, log_w = _around(own[0], own[1], origin, low, high, nodes)
        offsets.append(offset)
        weights.append(
            log_w - jnp.logaddexp(0.0, 4.0 * (log_distance(own, offset) - log_distance(other, offset)))
        )
    return jnp.concatenate(offsets), jnp.concatenate(weights)


def _mode(log_p, mean, variance, start):
    """Mode of log_p(f) + log N(f | mean, variance) and its width: Newton steps that never go down,
    from the better start.
    """

    def target(f):
        return log_p(f) - 0.5 * (f - mean) ** 2 / variance

    def curvature(f):
        second = -derivatives(log_p, f, 2)[2]
        return jnp.where(second > 0, second, 0.0) + 1.0 / variance

    def best(candidates):
        value = target(candidates)
        k = jnp.argmax(jnp.where(jnp.isnan(value), -jnp.inf, value), axis=0)
        return jnp.take_along_axis(candidates, k[None], axis=0)[0]

    def step(_, f):
        direction = derivatives(target, f, 1)[1] / curvature(f)
        direction = jnp.where(jnp.isfinite(direction), direction, 0.0)
        return best(jnp.concatenate([f[None], f + _SHARES.reshape((-1,) + (1,) * f.ndim) * direction]))

    mode = jax.lax.stop_gradient(jax.lax.fori_loop(0, _STEPS, step, best(jnp.stack([mean, start]))))
    return mode, jax.lax.stop_gradient(1.0 / jnp.sqrt(curvature(mode)))
