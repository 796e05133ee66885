"""Expectations of products of linear or quadratic forms of a Gaussian vector, by Stein's lemma."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from mercer.uncertain.terms import Factor

Quadratic = tuple[jax.Array, jax.Array, jax.Array]  # z'S z + b'z + e: S (d, d), b (d,), e ()


def product_moment(
    means: Sequence[jax.Array], covariance: Callable[[int, int], jax.Array], degrees: tuple[int, ...]
) -> Any:
    """E[prod_i u_i^degree_i] of jointly Gaussian u with these means and covariances, arrays that broadcast.

    E[u_i g(u)] = E[u_i] E[g(u)] + sum_j cov(u_i, u_j) E[dg / du_j]
    """
    known: dict[tuple[int, ...], Any] = {(0,) * len(degrees): 1.0}

    def moment(powers: tuple[int, ...]) -> Any:
        if powers not in known:
            i = next(i for i, power in enumerate(powers) if power)
            rest = _less(powers, i)
            total = means[i] * moment(rest)
            for j, power in enumerate(rest):
                if power:
                    total = total + power * covariance(i, j) * moment(_less(rest, j))
            known[powers] = total
        return known[powers]

    return moment(degrees)


def quadratic_moment(factors: Sequence[Factor], mu: jax.Array, Sigma: jax.Array) -> jax.Array:
    """E[prod_k ((x - c_k)' S_k (x - c_k) + o_k)^degree_k] over x ~ N(mu, Sigma).

    With z = x - mu, E[z' v(z)] = E[tr(Sigma dv / dz)] takes one form q = z'S z + b'z + e off the product:

        E[q prod_k q_k] = (tr(Sigma S) + e) E[prod_k q_k] + sum_k E[r_k prod_(j != k) q_j]

    where r_k = (S z + b)' Sigma (2 S_k z + b_k) is a quadratic form again.
    """
    forms: list[Quadratic] = []
    for factor in factors:
        away = mu - factor.centre
        b = factor.matrix @ away
        forms.append((factor.matrix, 2.0 * b, away @ b + factor.offset))

    def merged(first: Quadratic, other: Quadratic) -> Quadratic:
        (S, b, _), (T, c, _) = first, other
        product = 2.0 * S @ Sigma @ T
        return 0.5 * (product + product.T), S @ Sigma @ c + 2.0 * T @ Sigma @ b, b @ Sigma @ c

    def times(form: Quadratic, powers: tuple[int, ...]) -> jax.Array:
        """E[form * prod_k q_k^power_k]."""
        total = (jnp.sum(Sigma * form[0]) + form[2]) * moment(powers)
        for k, power in enumerate(powers):
            if power:
                total = total + power * times(merged(form, forms[k]), _less(powers, k))
        return total

    known = {(0,) * len(forms): jnp.ones(())}

    def moment(powers: tuple[int, ...]) -> jax.Array:
        if powers not in known:
            first = next(k for k, power in enumerate(powers) if power)
            known[powers] = times(forms[first], _less(powers, first))
        return known[powers]

    return moment(tuple(factor.degree for factor in factors))


def _less(powers: tuple[int, ...], i: int) -> tuple[int, ...]:
    return (*powers[:i], powers[i] - 1, *powers[i + 1 :])
