"""A Gaussian state, moved one step: exact moments of SE processes at a Gaussian input, made for planning.

The formulas are those of `mercer.uncertain` (Kuss 7.20-7.31), for squared exponentials that share their
centres. A plan asks for them thousands of times with gradients, so that here every sum over pairs of centres

    alpha' L beta,   log L = left right'        left (N, d + 2), right (N, d + 2)

is one matrix product and one exponential for each pair: its derivatives, alpha * (L (beta * right)) and the
like, are made in the same pass, and nothing of size N^2 is kept for the way back.

Data are padded with centres of zero weight, so that a program is compiled once for each doubling of them.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.linalg import cho_solve

__all__ = ["Gaussian", "Reply", "Weights", "expected_mean", "linear_reply", "reply", "trigonometric"]


class Gaussian(NamedTuple):
    """A vector that is known so far: mean (D,) and covariance (D, D)."""

    mean: Any
    covariance: Any


class Weights(NamedTuple):
    """p functions of d columns with N centres in common, as arrays: level + slope x + k(x, centres) alpha.

    centres (N, d); precision (p, d): one over squared length-scales; variance (p,) of the kernels; alpha
    (p, N); R (p, N, N): the variance of a function is k(x, x) - k(x, centres) R k(centres, x), None where the
    functions are certain; level (p,) and slope (p, d) of the prior mean; noise (p,): variance that comes on
    top at each step
    """

    centres: Any
    precision: Any
    variance: Any
    alpha: Any
    R: Any
    level: Any
    slope: Any
    noise: Any


class Reply(NamedTuple):
    """What p functions are at x ~ N(mu, Sigma): mean (p,), covariance (p, p), and expected slope (d, p):
    whatever is jointly Gaussian with x has the covariance cov(., x) slope with them (Stein's lemma).
    """

    mean: Any
    covariance: Any
    slope: Any


def reply(weights: Weights, mu: Any, Sigma: Any) -> Reply:
    """Exact moments at x ~ N(mu (d,), Sigma (d, d)); zero is a certain input. Differentiable in everything,
    R apart.
    """
    weights = jax.tree.map(jnp.asarray, weights)
    away = weights.centres - mu
    d = len(mu)
    root = jnp.sqrt(weights.precision)  # (p, d)
    inner = jnp.eye(d) + root[:, :, None] * Sigma * root[:, None, :]
    factor = jnp.linalg.cholesky(inner)
    scaled = away * root[:, None, :]  # (p, N, d)
    pulled = cho_solve((factor, True), scaled.mT).mT  # (p, N, d): inner^-1 of each centre
    log_size = -jnp.sum(jnp.log(jnp.diagonal(factor, axis1=1, axis2=2)), 1)
    l = weights.alpha * jnp.exp(log_size[:, None] - 0.5 * jnp.sum(scaled * pulled, 2))  # (p, N)
    l = l * weights.variance[:, None]
    gp_mean = jnp.sum(l, 1)
    gp_slope = root * jnp.einsum("pn,pnd->pd", l, pulled)

    square, explained = _squares(weights, away, Sigma)
    covariance = square - jnp.outer(gp_mean, gp_mean)
    if weights.R is not None:
        covariance += jnp.diag(jnp.maximum(weights.variance - explained, 0.0))
    both = weights.slope @ Sigma @ gp_slope.T
    covariance += both + both.T + weights.slope @ Sigma @ weights.slope.T
    mean = gp_mean + weights.level + weights.slope @ mu
    return Reply(mean, 0.5 * (covariance + covariance.T), (gp_slope + weights.slope).T)


def expected_mean(weights: Weights, mu: Any, Sigma: Any) -> Any:
    """The means (p,) alone, in O(N)."""
    away, root = weights.centres - mu, jnp.sqrt(weights.precision)
    factor = jnp.linalg.cholesky(jnp.eye(len(mu)) + root[:, :, None] * Sigma * root[:, None, :])
    scaled = away * root[:, None, :]
    log_size = -jnp.sum(jnp.log(jnp.diagonal(factor, axis1=1, axis2=2)), 1)
    squares = jnp.sum(scaled * cho_solve((factor, True), scaled.mT).mT, 2)
    l = weights.variance[:, None] * jnp.exp(log_size[:, None] - 0.5 * squares)
    return jnp.sum(weights.alpha * l, 1) + weights.level + weights.slope @ mu


def certain(weights: Weights, x: Any) -> tuple[Any, Any]:
    """Means (p,) and variances (p,) at a known x (d,), in O(N) and O(N^2)."""
    k = cross(weights, x)
    mean = jnp.sum(weights.alpha * k, 1) + weights.level + weights.slope @ x
    if weights.R is None:
        return mean, jnp.zeros_like(mean)
    explained = jnp.einsum("pn,pnm,pm->p", k, weights.R, k)
    return mean, jnp.maximum(weights.variance - explained, 0.0)


def cross(weights: Weights, x: Any) -> Any:
    """Covariances (p, N) of the functions at x with those at the centres."""
    return weights.variance[:, None] * jnp.exp(-0.5 * weights.precision @ ((weights.centres - x) ** 2).T)


def linear_reply(weights: Weights, mu: Any, Sigma: Any) -> Reply:
    """Moments as if the functions were straight around mu, with the variances that they have there."""
    k = cross(weights, mu)
    mean, doubt = certain(weights, mu)
    weighed = weights.alpha * k
    slope = weights.precision * (weighed @ (weights.centres - mu)) + weights.slope  # (p, d)
    return Reply(mean, slope @ Sigma @ slope.T + jnp.diag(doubt), slope.T)


# ------------------------------------------------------------------------------ sums over pairs of centres


def _squares(weights: Weights, away: Any, Sigma: Any) -> tuple[Any, Any]:
    """alpha_A' L_AB alpha_B of all pairs (p, p), and tr(R L_AA) (p,)."""
    p, d = weights.precision.shape
    a = away * weights.precision[:, None, :]  # (p, N, d)
    own = -0.5 * jnp.sum(away * a, 2)  # (p, N)
    one = jnp.ones((len(away), 1))

    def factors(A: Any, B: Any) -> tuple[Any, Any, Any]:
        """left, right and what multiplies the exponential of their product."""
        wide = jnp.sqrt(weights.precision[A] + weights.precision[B])
        spread = wide[:, None] * Sigma * wide
        factor = jnp.linalg.cholesky(jnp.eye(d) + spread)
        V = cho_solve((factor, True), spread) / (wide[:, None] * wide)
        aV, bV = a[A] @ V, a[B] @ V
        rows = own[A] + 0.5 * jnp.sum(aV * a[A], 1)
        columns = own[B] + 0.5 * jnp.sum(bV * a[B], 1)
        left = jnp.concatenate([aV, rows[:, None], one], 1)
        right = jnp.concatenate([a[B], one, columns[:, None]], 1)
        return left, right, weights.variance[A] * weights.variance[B] / jnp.prod(jnp.diag(factor))

    def alone(A: Any) -> tuple[Any, Any]:
        left, right, size = factors(A, A)
        if weights.R is None:
            return size * _form(left, right, weights.alpha[A], weights.alpha[A]), jnp.zeros(())
        square, explained = _weighed(left, right, weights.alpha[A], weights.R[A])
        return size * square, size * explained

    def two(pair: Any) -> Any:
        left, right, size = factors(*pair)
        return size * _form(left, right, weights.alpha[pair[0]], weights.alpha[pair[1]])

    squares, explained = jax.lax.map(alone, jnp.arange(p))
    if p == 1:
        return squares[:, None], explained
    first, second = np.triu_indices(p, 1)
    upper = jax.lax.map(two, (jnp.asarray(first), jnp.asarray(second)))
    upper = jnp.zeros((p, p)).at[first, second].set(upper)
    return jnp.diag(squares) + upper + upper.T, explained


@jax.custom_vjp
def _form(left: Any, right: Any, alpha: Any, beta: Any) -> Any:
    """alpha' exp(left right') beta."""
    return alpha @ (jnp.exp(left @ right.T) @ beta)


def _form_forward(left, right, alpha, beta):
    L = jnp.exp(left @ right.T)
    ahead = L @ (beta[:, None] * jnp.concatenate([right, jnp.ones((len(right), 1))], 1))
    back = L.T @ (alpha[:, None] * jnp.concatenate([left, jnp.ones((len(left), 1))], 1))
    return alpha @ ahead[:, -1], (ahead, back, alpha, beta)


def _form_backward(kept, bar):
    ahead, back, alpha, beta = kept
    return (
        bar * alpha[:, None] * ahead[:, :-1],
        bar * beta[:, None] * back[:, :-1],
        bar * ahead[:, -1],
        bar * back[:, -1],
    )


_form.defvjp(_form_forward, _form_backward)


@jax.custom_vjp
def _weighed(left: Any, right: Any, alpha: Any, R: Any) -> tuple[Any, Any]:
    """alpha' L alpha and tr(R L) of L = exp(left right'). No derivative in R."""
    L = jnp.exp(left @ right.T)
    return alpha @ (L @ alpha), jnp.sum(R * L)


def _weighed_forward(left, right, alpha, R):
    L = jnp.exp(left @ right.T)
    ahead = L @ (alpha[:, None] * jnp.concatenate([right, jnp.ones((len(right), 1))], 1))
    back = L.T @ (alpha[:, None] * jnp.concatenate([left, jnp.ones((len(left), 1))], 1))
    RL = R * L
    kept = (ahead, back, RL @ right, RL.T @ left, alpha)
    return (alpha @ ahead[:, -1], jnp.sum(RL)), kept


def _weighed_backward(kept, bars):
    ahead, back, of_left, of_right, alpha = kept
    bar, doubt = bars
    return (
        bar * alpha[:, None] * ahead[:, :-1] + doubt * of_left,
        bar * alpha[:, None] * back[:, :-1] + doubt * of_right,
        bar * (ahead[:, -1] + back[:, -1]),
        None,
    )


_weighed.defvjp(_weighed_forward, _weighed_backward)


# ----------------------------------------------------------------------------------------------------- angles


def trigonometric(state: Gaussian, angles: tuple[int, ...]) -> tuple[Gaussian, Any]:
    """Sines and then cosines of some entries of a Gaussian vector: their exact mean (2k,) and covariance
    (2k, 2k), and the covariance (D, 2k) of the vector with them.
    """
    at = jnp.asarray(angles, int)
    m, S = state.mean[at], state.covariance[jnp.ix_(at, at)]
    v = jnp.diag(S)
    shrunk = jnp.exp(-0.5 * v)
    sine, cosine = shrunk * jnp.sin(m), shrunk * jnp.cos(m)
    both = -0.5 * (v[:, None] + v)
    less, more = jnp.exp(both + S), jnp.exp(both - S)  # of differences and sums of angles
    apart, together = m[:, None] - m, m[:, None] + m
    ss = 0.5 * (less * jnp.cos(apart) - more * jnp.cos(together)) - jnp.outer(sine, sine)
    cc = 0.5 * (less * jnp.cos(apart) + more * jnp.cos(together)) - jnp.outer(cosine, cosine)
    sc = 0.5 * (less * jnp.sin(apart) + more * jnp.sin(together)) - jnp.outer(sine, cosine)
    covariance = jnp.block([[ss, sc], [sc.T, cc]])
    cross = jnp.concatenate([state.covariance[:, at] * cosine, -state.covariance[:, at] * sine], 1)
    return Gaussian(jnp.concatenate([sine, cosine]), covariance), cross
