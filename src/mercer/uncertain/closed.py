"""Exact moments of functions at a Gaussian input (Kuss 7.20-7.31): moment matching.

With l_i = E[k(x, x_i)] and L_ij = E[k(x, x_i) k(x, x_j)] over x ~ N(mu, Sigma),

    mean     = alpha' l                                             (7.22)
    variance = alpha' L alpha - mean^2  +  E[k(x, x)] - tr(R L)     (7.24): spread + doubt
    cov_AB   = alpha_A' L_AB alpha_B - mean_A mean_B                (7.29)
    cov(x, f) = Sigma d mean / d mu                                 (Stein's lemma)

For a kernel of Gaussians exp(-1/2 (x - x_i)' P (x - x_i)) times polynomials, the Gaussians tilt N(mu, Sigma)
to another Gaussian, of covariance V = (I + Sigma P)^-1 Sigma, and the polynomials are averaged over that one.
A wave is the real part of exp(i w'x), which moves the mean of that Gaussian by i V w, and weighs it.
Nothing but I + Sigma P is inverted, so Sigma and P may be singular or zero.
"""

from __future__ import annotations

import itertools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.linalg import lu_factor, lu_solve

from mercer.kernels import AbstractKernel
from mercer.means import AbstractMean, Constant, Linear, Sum, Zero
from mercer.uncertain.polynomials import product_moment, quadratic_moment
from mercer.uncertain.predictor import Moments, Predictor
from mercer.uncertain.terms import Term, aligned, kernel_terms, one_term


class NotClosed(TypeError):
    """A kernel or a mean whose expectations over a Gaussian have no closed form here."""


def moments(predictor: Predictor, mu: jax.Array, Sigma: jax.Array) -> Moments:
    """Exact moments of p functions at x ~ N(mu, Sigma): mu (d,), Sigma (d, d), symmetric and positive
    semi-definite; zero is a certain input.

    A pure function of arrays: `jax.jit(moments)`, differentiable in everything. For kernels that are sums of
    products of SE (one length-scale, ARD or with loadings), constant, linear and polynomial kernels and
    spectral mixtures, and a prior mean that is constant or linear; `NotClosed` for others. Sigma is not
    checked: `jit` cannot.

    >>> found = jax.jit(uncertain.moments)(post.predictor(), jnp.array([0.3]), jnp.array([[0.5]]))
    >>> found.mean, found.covariance, found.cross             # (p,), (p, p), (d, p)
    """
    check_closed(predictor)
    mu, Sigma = jnp.asarray(mu, float), jnp.asarray(Sigma, float)
    Sigma = 0.5 * (Sigma + Sigma.T)
    d = predictor.d
    terms = aligned([kernel_terms(kernel, d, waves=True) or [] for kernel in predictor.kernels])
    level, slope = _affine(predictor, d)

    gp_mean, gradient = jax.vmap(jax.value_and_grad(_mean, 3), (0, 0, 0, None, None))(
        terms, predictor.X, predictor.alpha, mu, Sigma
    )
    of_gp = Sigma @ gradient.T  # (d, p): Stein's lemma
    second, explained = _squares(terms, predictor, mu, Sigma)
    both = slope @ of_gp  # (p, p)
    spread = second - jnp.outer(gp_mean, gp_mean) + both + both.T + slope @ Sigma @ slope.T
    prior = jax.vmap(_prior_variance, (0, None, None))(terms, mu, Sigma)
    return Moments(
        gp_mean + level + slope @ mu, spread, jnp.maximum(prior - explained, 0.0), of_gp + Sigma @ slope.T
    )


def check_closed(predictor: Predictor) -> None:
    """`NotClosed`, with what has no closed form, where `moments` cannot be computed."""
    for kernel, mean in zip(predictor.kernels, predictor.means, strict=True):
        if kernel_terms(kernel, predictor.d, waves=True) is None:
            raise NotClosed(
                f"{kernel.formula()} has no closed form at uncertain inputs: sums and products of SE, "
                "constant, linear and polynomial kernels and spectral mixtures have. Use "
                "uncertain.quadrature, monte_carlo or linearised, or method= of predict_uncertain."
            )
        if not _is_affine(mean):
            raise NotClosed(
                f"the prior mean {type(mean).__name__} has no closed form at uncertain inputs: constant and "
                "linear ones have. Use uncertain.quadrature, monte_carlo or linearised, or method= of "
                "predict_uncertain."
            )


def expected_product(
    first: AbstractKernel,
    second: AbstractKernel | None,
    X: jax.Array,
    Y: jax.Array | None,
    mu: jax.Array,
    Sigma: jax.Array,
) -> jax.Array:
    """E[first(x, x_i) second(x, y_j)] (n, m) over x ~ N(mu, Sigma), for rows of X (n, d) and Y (m, d);
    without the second kernel E[first(x, x_i)], (n,). What expectations of sums of kernels are made of; for
    the kernels of `moments`, in JAX.

    >>> uncertain.expected_product(kernels.SE(), None, X, None, jnp.zeros(1), jnp.eye(1)) @ weights
    """
    mu, Sigma = jnp.asarray(mu, float), jnp.asarray(Sigma, float)
    d = len(mu)
    of_second = [one_term(d)] if second is None else _closed_terms(second, d)
    at = mu[None] if Y is None else Y
    pairs = itertools.product(_closed_terms(first, d), of_second)
    total = sum((_expected(s, t, X, at, mu, Sigma) for s, t in pairs), jnp.zeros((len(X), len(at))))
    return total[:, 0] if second is None else total


def _closed_terms(kernel: AbstractKernel, d: int) -> list[Term]:
    found = kernel_terms(kernel, d, waves=True)
    if found is None:
        raise NotClosed(f"{kernel.formula()} has no closed form at uncertain inputs.")
    return found


# -- means ---------------------------------------------------------------------------------------------------


def _is_affine(mean: AbstractMean) -> bool:
    if isinstance(mean, Sum):
        return all(map(_is_affine, mean.terms))
    return isinstance(mean, Zero | Constant | Linear)


def _affine(predictor: Predictor, d: int) -> tuple[jax.Array, jax.Array]:
    """Level (p,) and slope (p, d) of prior means that are affine."""
    corners = jnp.concatenate([jnp.zeros((1, d)), jnp.eye(d)])
    values = jnp.stack([jnp.broadcast_to(mean.value(corners), d + 1) for mean in predictor.means])
    return values[:, 0], values[:, 1:] - values[:, :1]


# -- expectations --------------------------------------------------------------------------------------------


def _mean(terms: list[Term], X: jax.Array, alpha: jax.Array, mu: jax.Array, Sigma: jax.Array) -> jax.Array:
    """alpha' l of one function."""
    one, at = one_term(len(mu)), mu[None]
    l = sum((_expected(term, one, X, at, mu, Sigma)[:, 0] for term in terms), jnp.zeros(len(alpha)))
    return alpha @ l


def _squares(
    terms: list[Term], predictor: Predictor, mu: jax.Array, Sigma: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """alpha_A' L_AB alpha_B of all pairs (p, p), and tr(R L) of each function (p,)."""
    X, alpha, p = predictor.X, predictor.alpha, predictor.p

    def own(A: Any) -> tuple[jax.Array, jax.Array]:
        """L but for its antisymmetric part, which no quadratic form sees: each pair of terms once."""
        L, mine = jnp.zeros((X.shape[1], X.shape[1])), _of(terms, A)
        for s, t in itertools.combinations_with_replacement(range(len(mine)), 2):
            L = L + (1.0 if s == t else 2.0) * _expected(mine[s], mine[t], X[A], X[A], mu, Sigma)
        return alpha[A] @ (L @ alpha[A]), jnp.sum(predictor.R[A] * L)

    def of_two(A: Any, B: Any) -> jax.Array:
        pairs = itertools.product(_of(terms, A), _of(terms, B))
        return sum(
            (alpha[A] @ (_expected(s, t, X[A], X[B], mu, Sigma) @ alpha[B]) for s, t in pairs), jnp.zeros(())
        )

    if p == 1:
        square, explained = own(0)
        return square[None, None], explained[None]
    squares, explained = jax.lax.map(own, jnp.arange(p))
    first, second = (jnp.asarray(at) for at in np.triu_indices(p, 1))
    upper = jnp.zeros((p, p)).at[first, second].set(jax.lax.map(lambda AB: of_two(*AB), (first, second)))
    return jnp.diag(squares) + upper + upper.T, explained


def _of(terms: list[Term], output: Any) -> list[Term]:
    """The terms of one function."""
    return jax.tree.map(lambda a: a[output], terms)


def _expected(s: Term, t: Term, X: jax.Array, Y: jax.Array, mu: jax.Array, Sigma: jax.Array) -> jax.Array:
    """E[s(x, x_i) t(x, y_j)] over x ~ N(mu, Sigma), for rows of X (n, d) and Y (m, d): (n, m)."""
    d = len(mu)
    lu = lu_factor(jnp.eye(d) + Sigma @ (s.precision + t.precision))
    V = lu_solve(lu, Sigma)  # covariance of the tilted Gaussian
    V = 0.5 * (V + V.T)
    x, y = X - mu, Y - mu
    a, b = x @ s.precision, y @ t.precision  # it is tilted by exp((a_i + b_j)'(x - mu))
    aV, bV = a @ V, b @ V
    rows = -0.5 * jnp.sum((x - aV) * a, 1) - 0.5 * jnp.sum(jnp.log(jnp.abs(jnp.diag(lu[0]))))
    columns = -0.5 * jnp.sum((y - bV) * b, 1)
    weight = s.variance * t.variance * jnp.exp(rows[:, None] + columns + aV @ b.T)
    if not s.factors + t.factors and s.wave is t.wave is None:
        return weight
    # each polynomial is a power of g'(x - mu) + e, with one g for each row or column
    gs = [(X - factor.centre) @ factor.matrix for factor in s.factors]
    hs = [(Y - factor.centre) @ factor.matrix for factor in t.factors]
    means = [
        (g @ (mu - f.centre) + f.offset + jnp.sum(g * aV, 1))[:, None] + g @ bV.T
        for g, f in zip(gs, s.factors, strict=True)
    ] + [
        h @ (mu - f.centre) + f.offset + jnp.sum(h * bV, 1) + aV @ h.T
        for h, f in zip(hs, t.factors, strict=True)
    ]

    def covariance(i: int, j: int) -> jax.Array:
        i, j = min(i, j), max(i, j)
        q = len(gs)
        if j < q:
            return jnp.sum((gs[i] @ V) * gs[j], 1)[:, None]
        if i >= q:
            return jnp.sum((hs[i - q] @ V) * hs[j - q], 1)
        return gs[i] @ V @ hs[j - q].T

    degrees = (*s.degrees, *t.degrees)
    if s.wave is t.wave is None:
        return weight * product_moment(means, covariance, degrees)
    u, v = (jnp.zeros(d) if term.wave is None else term.wave for term in (s, t))
    total = jnp.zeros(weight.shape)
    for sign in (1.0, -1.0):  # cos cos = half the waves of the sum and of the difference
        w = u + sign * v
        Vw = V @ w
        phase = (aV @ w - x @ u)[:, None] + bV @ w - sign * (y @ v)
        carried = jnp.exp(-0.5 * (w @ Vw) + 1j * phase)
        moved = [m + 1j * (g @ Vw)[:, None] for m, g in zip(means, gs, strict=False)]
        moved += [m + 1j * (h @ Vw) for m, h in zip(means[len(gs) :], hs, strict=True)]
        total = total + 0.5 * jnp.real(carried * product_moment(moved, covariance, degrees))
    return weight * total


def _prior_variance(terms: list[Term], mu: jax.Array, Sigma: jax.Array) -> jax.Array:
    """E[k(x, x)]: the Gaussians are one there, the polynomials powers of quadratic forms."""
    return sum((term.variance * quadratic_moment(term.factors, mu, Sigma) for term in terms), jnp.zeros(()))
