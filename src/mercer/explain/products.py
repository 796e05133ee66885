"""Kernels as sums of products over groups of columns, so that averages over columns are products, too.

SE and periodic kernels are products over columns, and linear ones sums. Matern and rational quadratic kernels
are mixtures of SEs with Gamma weights,

    Matern: E[exp(-r2 / (2 tau))], tau ~ Gamma(nu, nu)      RQ: E[exp(-tau r2 / 2)], tau ~ Gamma(alpha, alpha)

and the integral over log tau by the trapezoidal rule, which converges exponentially here, is good to about
ten digits with some dozen products.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from scipy.special import gammaln

from mercer.kernels import (
    SE,
    AbstractKernel,
    Constant,
    Linear,
    Matern,
    On,
    Periodic,
    Product,
    RationalQuadratic,
    Scale,
    Shared,
    Sum,
)

STEP, WIDTH = 0.3, 0.7  # of the trapezoidal rule in log tau: at most, and in standard deviations of it
NEGLIGIBLE = 1e-13  # of the largest weight
COMPONENTS = 256  # most products that stand for one mixture

Factor = tuple[AbstractKernel, tuple[int, ...]]
"""A kernel and the columns that it reads."""


@dataclasses.dataclass(frozen=True, eq=False)
class Mixed:
    """A kernel that is a mixture of SEs: `weights` (Q,) and `rates` (Q,) of exp(-rate r2 / 2), r2 the squared
    distance in the columns of each group over their length-scales.
    """

    weights: np.ndarray
    rates: np.ndarray
    columns: Mapping[int, tuple[tuple[int, ...], np.ndarray]]  # of each group: its columns, length-scales


@dataclasses.dataclass(frozen=True, eq=False)
class ProductTerm:
    """A number times a kernel for each of some groups of columns, times a mixture where there is one.

    factors: for each group its kernels; a group without one is not read
    """

    scale: float
    factors: Mapping[int, tuple[Factor, ...]]
    mixture: Mixed | None = None

    @property
    def groups(self) -> tuple[int, ...]:
        """The groups that it reads."""
        more = () if self.mixture is None else tuple(self.mixture.columns)
        return tuple(sorted({*self.factors, *more}))

    @property
    def size(self) -> int:
        """How many plain products it stands for."""
        return 1 if self.mixture is None else len(self.mixture.weights)

    def matrices(self, g: int, A: np.ndarray, B: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
        """Of a group, between rows A (m, d) and B (n, d): the plain factor (m, n), and half the squared
        distance (m, n) that the mixture reads, or None.
        """
        plain = [
            np.asarray(kernel(A[:, list(own)], B[:, list(own)])) for kernel, own in self.factors.get(g, ())
        ]
        factor = functools.reduce(np.multiply, plain, np.ones((len(A), len(B))))
        if self.mixture is None or g not in self.mixture.columns:
            return factor, None
        own, lengths = self.mixture.columns[g]
        a, b = (np.asarray(X[:, list(own)], float) / lengths for X in (A, B))
        return factor, 0.5 * np.square(a[:, None] - b[None]).sum(-1)


def products(kernel: AbstractKernel, groups: Sequence[tuple[int, ...]]) -> list[ProductTerm] | None:
    """A kernel as a sum of products of kernels on one group of columns each; None where it is none.

    >>> products(SE([1.0, 2.0]) + SE().on(0), [(0,), (1,)])
    """
    group_of = {column: g for g, columns in enumerate(groups) for column in columns}
    return _terms(kernel, tuple(sorted(group_of)), group_of)


def _terms(
    kernel: AbstractKernel, columns: tuple[int, ...], group_of: Mapping[int, int]
) -> list[ProductTerm] | None:
    together: dict[int, tuple[int, ...]] = {}
    for column in columns:
        g = group_of[column]
        together[g] = (*together.get(g, ()), column)
    if isinstance(kernel, Constant):
        return [ProductTerm(float(kernel.variance), {})]
    if len(together) == 1:
        return [ProductTerm(1.0, {next(iter(together)): ((kernel, columns),)})]
    if isinstance(kernel, On):
        return _terms(kernel.kernel, tuple(columns[int(c)] for c in kernel.columns), group_of)
    if isinstance(kernel, Sum):
        found = _of_each(kernel.parts, columns, group_of)
        return None if found is None else [term for part in found for term in part]
    if isinstance(kernel, Scale):
        inner = _terms(kernel.kernel, columns, group_of)
        by = float(kernel.variance)
        return None if inner is None else [dataclasses.replace(t, scale=by * t.scale) for t in inner]
    if isinstance(kernel, Product):
        found = _of_each(kernel.parts, columns, group_of)
        if found is None:
            return None
        multiplied = [_product(chosen) for chosen in itertools.product(*found)]
        return None if None in multiplied else [term for term in multiplied if term is not None]
    return _of_columns(kernel.expanded() if isinstance(kernel, Shared) else kernel, columns, together)


def _of_each(
    kernels: Sequence[AbstractKernel], columns: tuple[int, ...], group_of: Mapping[int, int]
) -> list[list[ProductTerm]] | None:
    parts = [_terms(part, columns, group_of) for part in kernels]
    return None if None in parts else [part for part in parts if part is not None]


def _of_columns(
    kernel: AbstractKernel, columns: tuple[int, ...], together: Mapping[int, tuple[int, ...]]
) -> list[ProductTerm] | None:
    """Kernels that split into columns by themselves."""

    def split(part: Any) -> dict[int, Any]:
        return {g: part([columns.index(c) for c in own]) for g, own in together.items()}

    def factors(part: Any) -> dict[int, tuple[Factor, ...]]:
        return {g: ((each, together[g]),) for g, each in split(part).items()}

    if isinstance(kernel, SE) and kernel.loadings is None:
        return [ProductTerm(float(kernel.variance), factors(lambda at: SE(_of(kernel.lengthscale, at))))]
    if isinstance(kernel, Periodic):
        periodic = lambda at: Periodic(_of(kernel.period, at), _of(kernel.lengthscale, at))  # noqa: E731
        return [ProductTerm(float(kernel.variance), factors(periodic))]
    if isinstance(kernel, Linear):
        linear = lambda at: Linear(_of(kernel.variance, at), centre=_of(kernel.centre, at))  # noqa: E731
        return [ProductTerm(1.0, {g: factor}) for g, factor in factors(linear).items()]
    if isinstance(kernel, Matern | RationalQuadratic) and kernel.loadings is None:
        found = _mixture(kernel)
        if found is None:
            return None
        lengths = split(lambda at: _of(kernel.lengthscale, at))
        mixture = Mixed(*found, {g: (own, np.asarray(lengths[g])) for g, own in together.items()})
        return [ProductTerm(float(kernel.variance), {}, mixture)]
    return None


def _mixture(kernel: Matern | RationalQuadratic) -> tuple[np.ndarray, np.ndarray] | None:
    """Weights and rates of the SEs that a kernel is a mixture of; None if they would be too many."""
    of_rates = isinstance(kernel, RationalQuadratic)
    shape = float(kernel.alpha) if isinstance(kernel, RationalQuadratic) else float(kernel.nu)
    step = min(STEP, WIDTH / np.sqrt(shape))
    u = step * np.arange(-int(40.0 / (shape * step)) - 20, int(np.log1p(60.0 / shape) / step) + 20)
    log_density = shape * np.log(shape) - gammaln(shape) + shape * (u - np.exp(u))
    kept = log_density > log_density.max() + np.log(NEGLIGIBLE)
    if kept.sum() > COMPONENTS:
        return None
    weights, tau = np.exp(log_density[kept]), np.exp(u[kept])
    return weights / weights.sum(), tau if of_rates else 1.0 / tau


def _product(terms: Sequence[ProductTerm]) -> ProductTerm | None:
    """The product of terms; None where two of them are mixtures."""
    mixtures = [term.mixture for term in terms if term.mixture is not None]
    if len(mixtures) > 1:
        return None
    factors: dict[int, tuple[Factor, ...]] = {}
    for term in terms:
        for g, more in term.factors.items():
            factors[g] = (*factors.get(g, ()), *more)
    scale = functools.reduce(lambda a, term: a * term.scale, terms, 1.0)
    return ProductTerm(scale, factors, mixtures[0] if mixtures else None)


def _of(value: Any, at: list[int]) -> Any:
    if value is None:
        return None
    return np.asarray(value)[at] if np.ndim(value) else float(value)
