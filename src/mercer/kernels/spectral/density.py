"""The spectral side of stationary kernels (GPML 4.2.1): S(s) is the integral of k(tau) exp(-2 pi i s . tau),
s in cycles per unit.

Closed forms where there are some; otherwise the Hankel transform of the kernel's profile.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from mercer.kernels.algebra.columns import On
from mercer.kernels.algebra.sums import Product, Scale, Sum
from mercer.kernels.base import AbstractKernel
from mercer.kernels.families.dot import Constant
from mercer.kernels.families.stationary import (
    SE,
    AbstractStationary,
    GammaExponential,
    Matern,
    RationalQuadratic,
)
from mercer.kernels.spectral.band_limited import BesselJ
from mercer.kernels.spectral.hankel import hankel
from mercer.kernels.spectral.mixture import LengthscaleMixture, SpectralMixture
from mercer.linalg import tiles
from mercer.params import strip


class SpectralError(ValueError):
    """A kernel without a spectral density, and why."""


def spectral_density(kernel: AbstractKernel, s: ArrayLike, d: int | None = None) -> np.ndarray:
    """S(s) of a stationary kernel: (n,) for frequencies s (n, d), in cycles per unit of each input.

    A vector s (n,), or a number, are frequencies of one column or, with `d` given, lengths |s| for an
    isotropic kernel of d columns. The integral of S over all frequencies is the variance k(0).

    >>> spectral_density(Matern(nu=1.5), np.linspace(0, 2, 100))
    """
    s = np.asarray(s, float)
    if s.ndim == 2:
        if d not in (None, s.shape[1]):
            raise ValueError(f"s has {s.shape[1]} columns, which is not d = {d}.")
        return density(_bound(kernel, s.shape[1]), s)
    if s.ndim > 2:
        raise ValueError(f"frequencies s must be (n, d) or (n,), got shape {s.shape}.")
    d = d or 1
    bound = _bound(kernel, d)
    if not bound.traits(d).isotropic:
        raise SpectralError(f"the length |s| is enough only for an isotropic kernel: give s as (n, {d}).")
    vectors = np.zeros((s.size, d))
    vectors[:, 0] = s.ravel()
    return density(bound, vectors).reshape(s.shape)


@functools.singledispatch
def line_spectrum(kernel: AbstractKernel, lines: int = 32) -> tuple[np.ndarray, np.ndarray]:
    """Frequencies (m / period, m = 0 ... lines - 1, if it repeats) and the variance at each, of a kernel of
    one column that recurs.

    The variance is that of cosine and sine together: the weights of all lines add up to k(0).
    """
    bound = _bound(kernel, 1)
    traits = bound.traits(1)
    if not traits.recurs:
        raise SpectralError(f"{kernel.formula()} does not repeat: it has a spectral density, not lines.")
    if traits.period is None:
        raise SpectralError(
            f"the lines of {kernel.formula()} have no common period: ask for its terms or factors."
        )
    period, count = float(np.ravel(traits.period)[0]), 8 * lines
    tau = np.arange(count)[:, None] * (period / count)
    weights = np.fft.rfft(bound(tau, np.zeros((1, 1)))[:, 0]).real[:lines] / count
    return np.arange(lines) / period, np.where(np.arange(lines) > 0, 2.0, 1.0) * weights


@line_spectrum.register
def _(kernel: Constant, lines=1):
    return np.zeros(1), np.array([float(kernel.variance)])


def integrable(kernel: AbstractKernel, d: int = 1) -> bool:
    """Whether the integral of r^(d-1) |k(r)| is finite: then the spectral density of an isotropic kernel is
    an ordinary integral.

    Decided numerically, by how r^(d-1) |k| grows from octave to octave of r.
    """
    k = radial(_bound(kernel, d), d)
    octaves = np.arange(4, 40)
    r = 2.0 ** (octaves[:, None] + (np.arange(256) + 0.5) / 256 * 0.999)
    mass = (r**d * np.abs(k(r.ravel()).reshape(r.shape))).mean(1)
    if mass[-1] < 1e-12 * max(mass.max(), 1e-300):
        return True
    return bool(np.polyfit(octaves[18:], np.log2(mass[18:]), 1)[0] < -0.02)


# ------------------------------------------------------------------------------------------------- densities


@functools.singledispatch
def density(kernel: AbstractKernel, s: np.ndarray) -> np.ndarray:
    """S at frequencies s (n, d) of a kernel bound to d columns;
    a kernel class may register its closed form.
    """
    d = s.shape[1]
    lengthscale = kernel.traits(d).lengthscale
    unit = 1.0 if lengthscale is None else float(np.ravel(lengthscale)[0])
    return np.maximum(hankel(radial(kernel, d), np.linalg.norm(s, axis=1), d, unit), 0.0)


@density.register
def _(kernel: Sum, s):
    return np.sum([density(term, s) for term in kernel.terms], axis=0)


@density.register
def _(kernel: Scale, s):
    return np.asarray(kernel.variance) * density(kernel.kernel, s)


@density.register
def _(kernel: On, s):
    columns = list(kernel.columns)
    if len(columns) < s.shape[1]:
        raise SpectralError(
            f"{kernel.formula()} is constant along the columns it does not read: all its power there is at "
            "frequency 0."
        )
    return density(kernel.kernel, s[:, columns])


@density.register
def _(kernel: Product, s):
    """Factors on columns of their own multiply; otherwise the numerical transform."""
    chosen = [(f.kernel, [int(c) for c in f.columns]) for f in kernel.factors if isinstance(f, On)]
    columns = sorted(itertools.chain(*(c for _, c in chosen)))
    if len(chosen) == len(kernel.factors) and columns == list(range(s.shape[1])):
        return np.prod([density(factor, s[:, c]) for factor, c in chosen], axis=0)
    return density.dispatch(object)(kernel, s)


@density.register
def _(kernel: AbstractStationary, s):
    """S_M(s) = |M|^(-1/2) S(sqrt(s' M^-1 s)) with the matrix M of the distance."""
    d = s.shape[1]
    M = np.diag(np.broadcast_to(np.asarray(kernel.lengthscale, float), (d,)) ** -2.0)
    if kernel.loadings is not None:
        M = M + np.asarray(kernel.loadings) @ np.asarray(kernel.loadings).T
    L = np.linalg.cholesky(M)
    radius = np.linalg.norm(np.linalg.solve(L, s.T), axis=0)
    return float(kernel.variance) / np.prod(np.diag(L)) * unit_density(kernel, radius, d)


@density.register
def _(kernel: SpectralMixture, s):
    total = np.zeros(len(s))
    for weight, mean, scale in zip(*map(np.asarray, kernel.table()), strict=True):
        for centre in (mean, -mean):
            gaussian = np.exp(-0.5 * ((s - centre) / scale) ** 2) / (math.sqrt(2 * math.pi) * scale)
            total += 0.5 * weight * np.prod(gaussian, axis=1)
    return total


@density.register
def _(kernel: LengthscaleMixture, s):
    parts = zip(np.atleast_1d(kernel.lengthscales), np.atleast_1d(kernel.weights), strict=True)
    return np.sum([density(SE(length, weight), s) for length, weight in parts], axis=0)


@functools.singledispatch
def unit_density(kernel: AbstractStationary, s: np.ndarray, d: int) -> np.ndarray:
    """S at |s| (n,) for unit length-scale and variance."""
    profile = lambda r: np.asarray(tiles.call(_profile, strip(kernel), r * r))  # noqa: E731
    return np.maximum(hankel(profile, s, d), 0.0)


@unit_density.register
def _(kernel: SE, s, d):
    return (2 * np.pi) ** (d / 2) * np.exp(-2 * np.pi**2 * s**2)


@unit_density.register
def _(kernel: Matern, s, d):
    return _matern(float(kernel.nu), s, d)


@unit_density.register
def _(kernel: GammaExponential, s, d):
    gamma = float(kernel.gamma)
    if gamma == 1.0:
        return _matern(0.5, s, d)
    if gamma == 2.0:
        return np.pi ** (d / 2) * np.exp(-((np.pi * s) ** 2))
    return unit_density.dispatch(object)(kernel, s, d)


@unit_density.register
def _(kernel: RationalQuadratic, s, d):
    from scipy.special import gamma, gammaln, kve

    alpha = float(kernel.alpha)
    order = alpha - d / 2
    zero = s == 0
    z = np.minimum(2 * np.pi * math.sqrt(2 * alpha) * np.where(zero, 1.0, s), 1e3)  # from there on S is zero
    with np.errstate(divide="ignore"):
        log = (
            d / 2 * np.log(2 * np.pi * alpha)
            + np.log(2.0)
            - gammaln(alpha)
            + order * np.log(z / 2)
            + np.log(kve(order, z))
            - z
        )
    at_zero = (2 * np.pi * alpha) ** (d / 2) * gamma(order) / gamma(alpha) if order > 0 else np.inf
    return np.where(zero, at_zero, np.exp(log))


@unit_density.register
def _(kernel: BesselJ, s, d):
    nu = kernel.nu
    if nu == (d - 2) / 2:
        where = "the frequency" if d == 1 else "the sphere of frequencies"
        raise SpectralError(
            f"BesselJ with nu = {nu:g} on {d} columns has no density: all its power is on {where} |s| = 1 "
            "/ (2 pi lengthscale)."
        )
    u = 1 - (2 * np.pi * s) ** 2
    inside = u > 0
    log = (
        math.lgamma(nu + 1)
        - math.lgamma(nu - d / 2 + 1)
        - d / 2 * math.log(math.pi)
        + d * math.log(2 * math.pi)
    )
    return np.where(inside, np.exp(log + (nu - d / 2) * np.log(np.where(inside, u, 1.0))), 0.0)


def _matern(nu: float, s, d: int) -> np.ndarray:
    log = (
        d * math.log(2)
        + d / 2 * math.log(math.pi)
        + math.lgamma(nu + d / 2)
        - math.lgamma(nu)
        + nu * math.log(2 * nu)
    )
    return np.exp(log - (nu + d / 2) * np.log(2 * nu + 4 * np.pi**2 * s**2))


# -------------------------------------------------------------------------------------------------
# numerically


def radial(kernel: Any, d: int) -> Callable[[np.ndarray], np.ndarray]:
    """k as a function of the radius (n,), for an isotropic kernel bound to d columns."""
    traits = kernel.traits(d)
    if not traits.isotropic:
        kind = (
            "isotropic: give its density in closed form"
            if traits.stationary
            else "stationary: it has no spectral density"
        )
        raise SpectralError(f"{kernel.formula()} is not {kind}.")
    if traits.recurs:
        raise SpectralError(
            f"{kernel.formula()} has no spectral density, only lines at single frequencies: see "
            "line_spectrum."
        )
    kernel = strip(kernel)
    direction = np.eye(1, d)
    return lambda r: np.asarray(tiles.call(_along, kernel, np.asarray(r, float), direction))


def _profile(kernel, r2):
    return kernel.profile(r2)


def _along(kernel, r, direction):
    return kernel.block(kernel.encode(r[:, None] * direction), kernel.encode(0.0 * direction))[:, 0]


def _bound(kernel, d: int):
    if not isinstance(kernel, AbstractKernel):
        raise TypeError(f"expected a kernel, got {type(kernel).__name__}.")
    bound = kernel.bind(d)
    if not bound.traits(d).stationary:
        raise SpectralError(f"{kernel.formula()} is not stationary: it has no spectral density.")
    return bound
