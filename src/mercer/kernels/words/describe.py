"""A kernel in words."""

from __future__ import annotations

import math

import numpy as np

from mercer.kernels.algebra.sums import Scale, Sum
from mercer.kernels.base import AbstractKernel
from mercer.kernels.spectral.smoothness import MOST, numerical_smoothness, upcrossings
from mercer.kernels.traits import Traits, columns_of
from mercer.params import ParameterError

COUNT = {1: "once", 2: "twice"}


def describe(kernel: AbstractKernel, d: int | None = None) -> str:
    """What kind of functions a kernel expects: a line for its formula, then one for each thing that can be
    said, then its terms.

    d: the number of input columns; by default as many as its vectors and choices of columns need.

    >>> print(describe(SE(67.0, variance=66.0**2) + SE(90.0) * Periodic(1.0)))
    """
    bound, d = _bound(kernel, d)
    lines = [f"{kernel.formula()}", *("  " + fact for fact in facts(bound, d))]
    for i, (name, term) in enumerate(zip(_terms(kernel), _terms(bound), strict=True), 1):
        lines += [f"  term {i}: {name.formula()}", *("    " + fact for fact in facts(term, d, kind=False))]
    return "\n".join(lines)


def facts(kernel: AbstractKernel, d: int = 1, kind: bool = True) -> list[str]:
    """Sentences about a kernel bound to d columns;
    `kind=False` leaves out what the sum around it says already.
    """
    traits, said = kernel.traits(d), []
    if kind:
        said += [_kind(kernel, traits, d), _validity(kernel, traits, d)]
    said.append(_smoothness(kernel, traits, d))
    if traits.stationary:
        said += [_amplitude(kernel, d), _lengths(traits), _crossings(kernel, traits, d)]
    if traits.beyond:
        said.append(f"Far from the data a prediction {traits.beyond}.")
    return [sentence for sentence in said if sentence]


def _terms(kernel) -> list[AbstractKernel]:
    """The terms of a sum, or of a multiple of one."""
    if isinstance(kernel, Scale):
        return [kernel.rebuild((term,)) for term in _terms(kernel.kernel)]
    return list(kernel.terms) if isinstance(kernel, Sum) else []


def _kind(kernel, traits: Traits, d: int) -> str:
    if kernel.reads_objects():
        return "Of inputs that need not be numbers."
    if traits.stationary and traits.dot_product:
        return "Stationary: a constant."
    if traits.isotropic:
        return f"Stationary{' and isotropic' if d > 1 else ''}: it depends on the distance |x - x'| only."
    if traits.stationary:
        return "Stationary: it depends on x - x' only."
    return (
        "Not stationary: "
        f"{'it depends on the dot product only' if traits.dot_product else 'where x lies matters'}."
    )


def _validity(kernel, traits: Traits, d: int) -> str:
    rank, most = kernel.rank(d), traits.max_dimension
    said = "Not degenerate"
    if rank is not None:
        said = f"Degenerate, of rank at most {rank} on {_columns(d)}: a linear model with that many weights"
    if kernel.reads_objects():
        return f"{said}."
    return f"{said}; valid on {'any number of columns' if most is None else f'at most {_columns(most)}'}."


def _columns(d: int) -> str:
    return f"{d} column{'s' if d != 1 else ''}"


def _smoothness(kernel, traits: Traits, d: int) -> str:
    if kernel.reads_objects():
        return ""
    order, how = traits.smoothness, ""
    if order is None:
        try:
            order, how = numerical_smoothness(kernel, d), ", by a numerical check"
        except ValueError:
            return ""
        if order == MOST:
            return f"Functions are smooth: differentiable {MOST} times or more{how}."
    if order == math.inf:
        return "Functions are smooth: infinitely differentiable."
    if order >= 1:
        return (
            f"Functions are differentiable {COUNT.get(int(order), f'{int(order)} times')} (in mean "
            f"square){how}."
        )
    return (
        "Functions are "
        f"{'continuous but rough: not differentiable' if order == 0 else 'not even continuous'}{how}."
    )


def _amplitude(kernel, d: int) -> str:
    variance = float(kernel(np.zeros((1, d)))[0, 0])
    return f"Standard deviation {math.sqrt(variance):.4g} around the mean, the same everywhere."


def _lengths(traits: Traits) -> str:
    said = []
    if traits.period is not None:
        said.append(f"Period {_each(traits.period)}")
    if traits.lengthscale is not None:
        what = (
            "length-scale"
            if np.ndim(traits.lengthscale) == 0 or np.size(traits.lengthscale) == 1
            else "length-scales by column"
        )
        said.append(f"{'c' if said else 'C'}haracteristic {what} {_each(traits.lengthscale)}")
    return f"{'; '.join(said)}." if said else ""


def _crossings(kernel, traits: Traits, d: int) -> str:
    rate = np.atleast_1d(upcrossings(kernel, d=d))
    if np.isinf(rate).all():
        return "Where it crosses its mean it does so infinitely often."
    if (rate == 0).all():
        return ""
    rate = rate[:1] if traits.isotropic or np.allclose(rate, rate[0]) else rate
    if rate.size == 1:
        return (
            f"Expected upcrossings of the mean: {rate[0]:.4g} per unit length, one every {1 / rate[0]:.4g}."
        )
    return f"Expected upcrossings of the mean per unit length, by column: {_each(rate)}."


def _each(values) -> str:
    return ", ".join(f"{v:.4g}" for v in np.ravel(values))


def _bound(kernel, d: int | None):
    try:
        return columns_of(kernel, d)
    except ParameterError:
        if d is not None or not kernel.reads_objects():
            raise
        return kernel, 1
