"""Kernels as sums of Gaussians times polynomials: those whose expectations over a Gaussian input are closed.

A term is

    variance * exp(-1/2 (x - x')' P (x - x')) * prod_k ((x - c_k)' S_k (x' - c_k) + o_k)^degree_k
             * cos(w'(x - x'))

with a precision P (d, d) that may be zero or singular (columns that are not read). SE, constant, linear and
polynomial kernels are such terms, and those of spectral mixtures, with a wave w; so are their products, whole
powers and choices of columns.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from mercer.kernels import (
    SE,
    AbstractKernel,
    Constant,
    Linear,
    LinearCovariance,
    On,
    Polynomial,
    Power,
    Product,
    Scale,
    SpectralMixture,
    Sum,
)


class Factor(eqx.Module):
    """((x - centre)' matrix (x' - centre) + offset)^degree: matrix (d, d), centre (d,), offset ()."""

    matrix: jax.Array
    centre: jax.Array
    offset: jax.Array
    degree: int = eqx.field(static=True)


class Term(eqx.Module):
    """variance () times a Gaussian of this precision (d, d) times polynomials, and the cosine of a wave (d,)
    where there is one.
    """

    variance: jax.Array
    precision: jax.Array
    factors: tuple[Factor, ...] = ()
    wave: jax.Array | None = None

    @property
    def degrees(self) -> tuple[int, ...]:
        """Of its polynomials."""
        return tuple(factor.degree for factor in self.factors)


def kernel_terms(kernel: AbstractKernel, d: int, waves: bool = False) -> list[Term] | None:
    """The kernel, bound to d columns, as a sum of terms; None where it is none, or one with waves where they
    are not taken.

    >>> kernel_terms(kernels.SE([1.0, 2.0]) + kernels.Linear(), 2)
    """
    found = _terms(kernel, np.eye(d))
    return None if found is None or not (waves or all(term.wave is None for term in found)) else found


def one_term(d: int) -> Term:
    """The constant one."""
    return Term(jnp.ones(()), jnp.zeros((d, d)))


def aligned(outputs: Sequence[Sequence[Term]]) -> list[Term]:
    """The terms of p kernels side by side: each a term whose arrays have a leading axis p. Where a kernel has
    fewer terms of a kind (with polynomials of the same degrees) than another, one of variance zero stands in.
    """
    kinds = list(dict.fromkeys(_kind(term) for terms in outputs for term in terms))
    out = []
    for kind in kinds:
        own = [[term for term in terms if _kind(term) == kind] for terms in outputs]
        some = next(terms[0] for terms in own if terms)
        nothing = jax.tree.map(jnp.zeros_like, some)
        for k in range(max(map(len, own))):
            chosen = [terms[k] if k < len(terms) else nothing for terms in own]
            out.append(jax.tree.map(lambda *leaves: jnp.stack(leaves), *chosen))
    return out


def _kind(term: Term) -> tuple[tuple[int, ...], bool]:
    return term.degrees, term.wave is not None


def _terms(kernel: AbstractKernel, E: np.ndarray) -> list[Term] | None:
    """E (d, q) chooses the columns that the kernel reads."""
    d, q = E.shape
    nothing, origin = jnp.zeros((d, d)), jnp.zeros(d)
    if isinstance(kernel, Constant):
        return [Term(jnp.asarray(kernel.variance), nothing)]
    if isinstance(kernel, SE):
        precision = jnp.diag(jnp.broadcast_to(kernel.lengthscale, q) ** -2.0)
        if kernel.loadings is not None:
            precision = precision + kernel.loadings @ kernel.loadings.T
        return [Term(jnp.asarray(kernel.variance), E @ precision @ E.T)]
    if isinstance(kernel, Linear):
        matrix = E @ jnp.diag(jnp.broadcast_to(kernel.variance, q)) @ E.T
        centre = origin if kernel.centre is None else jnp.asarray(E) @ jnp.broadcast_to(kernel.centre, q)
        return [Term(jnp.ones(()), nothing, (Factor(matrix, centre, jnp.zeros(()), 1),))]
    if isinstance(kernel, LinearCovariance):
        L = E @ jnp.tril(kernel.factor)
        factor = Factor(L @ L.T, origin, jnp.asarray(kernel.bias_variance), 1)
        return [Term(jnp.ones(()), nothing, (factor,))]
    if isinstance(kernel, Polynomial):
        L = E if kernel.factor is None else E @ jnp.tril(kernel.factor)
        factor = Factor(jnp.asarray(L @ L.T), origin, jnp.asarray(kernel.offset), int(kernel.degree))
        return [Term(jnp.asarray(kernel.variance), nothing, (factor,))]
    if isinstance(kernel, SpectralMixture):
        return [
            Term(weight, E @ jnp.diag((2.0 * jnp.pi * scale) ** 2) @ E.T, (), 2.0 * jnp.pi * (E @ mean))
            for weight, mean, scale in zip(*kernel.table(), strict=True)
        ]
    if isinstance(kernel, Scale):
        inner = _terms(kernel.kernel, E)
        return None if inner is None else _products([Term(jnp.asarray(kernel.variance), nothing)], inner)
    if isinstance(kernel, On):
        return _terms(kernel.kernel, E[:, [int(c) for c in kernel.columns]])
    if isinstance(kernel, Sum | Product):
        return _combined(kernel.parts, isinstance(kernel, Product), E)
    if isinstance(kernel, Power) and isinstance(kernel.exponent, int):
        return _combined((kernel.kernel,) * kernel.exponent, True, E)
    return None


def _combined(parts: Sequence[AbstractKernel], product: bool, E: np.ndarray) -> list[Term] | None:
    found = [terms for part in parts if (terms := _terms(part, E)) is not None]
    if len(found) < len(parts):
        return None
    if not product:
        return [term for terms in found for term in terms]
    return functools.reduce(_products, found)


def _products(first: list[Term], second: list[Term]) -> list[Term]:
    return [term for a, b in itertools.product(first, second) for term in _times(a, b)]


def _times(a: Term, b: Term) -> list[Term]:
    """The product of two terms: of two waves it is two terms, cos u cos v = (cos(u + v) + cos(u - v)) / 2."""
    variance, precision = a.variance * b.variance, a.precision + b.precision
    factors = (*a.factors, *b.factors)
    if a.wave is None or b.wave is None:
        return [Term(variance, precision, factors, b.wave if a.wave is None else a.wave)]
    return [Term(0.5 * variance, precision, factors, a.wave + sign * b.wave) for sign in (1.0, -1.0)]
