"""Equivalent kernels (GPML 7.1): with what weights h(r) a GP averages a great many data, spread evenly.

Of a density of data (so many in a unit of volume) and the noise variance only the quotient matters,
v = noise_variance / density. The integral of h over all space is S(0) / (S(0) + v).
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import brentq
from scipy.special import jv, kei

from mercer.kernels import AbstractKernel
from mercer.kernels.spectral.hankel import hankel


def equivalent_weights(
    kernel: AbstractKernel, r: ArrayLike, density: float, noise_variance: float, d: int = 1
) -> np.ndarray:
    """h at distances r, of any shape, of an isotropic kernel with a spectral density on d columns: the
    inverse Fourier transform of S / (S + noise_variance / density) (7.9).

    density: data in a unit of volume

    >>> equivalent_weights(SE(0.1), np.linspace(0, 0.5, 100), density=50, noise_variance=0.1)
    """
    v = _noise(density, noise_variance)
    return hankel(lambda s: _kept(kernel.spectral_density(s, d), v), r, d)


def equivalent_ou(
    r: ArrayLike, lengthscale: float, density: float, noise_variance: float, variance: float = 1.0
) -> np.ndarray:
    """h at distances r of variance * exp(-r / lengthscale) on one column (7.10): an exponential again, whose
    width falls as n^(-1/2).
    """
    a, v = 1.0 / lengthscale, _noise(density, noise_variance)
    b = math.sqrt(a**2 + 2 * a * variance / v)
    return variance * a / (v * b) * np.exp(-b * np.abs(r))


def equivalent_matern32(
    r: ArrayLike, lengthscale: float, density: float, noise_variance: float, variance: float = 1.0
) -> np.ndarray:
    """h at distances r of Matern(nu=1.5) on one column: a wave that dies away, of a width that falls as
    n^(-1/4).
    """
    a, v = math.sqrt(3.0) / lengthscale, _noise(density, noise_variance)
    root = math.sqrt(4 * a**3 * variance / v)
    z = np.sqrt(a**2 - 1j * root)
    return root * np.imag(np.exp(-z * np.abs(r)) / (2 * z))


def cutoff_se(
    lengthscale: float, density: float, noise_variance: float, variance: float = 1.0, d: int = 1
) -> float:
    """The frequency s_c above which a GP with the SE kernel takes everything for noise (7.11), where S falls
    to v: it grows as (log n)^(1/2) alone.
    """
    v = _noise(density, noise_variance)
    b = v / (variance * (2 * math.pi * lengthscale**2) ** (d / 2))
    if b >= 1:
        raise ValueError(
            f"the noise hides every frequency (b = {b:.3g} is not below 1): the step of (7.12) needs more "
            "data or less noise. Take equivalent_weights."
        )
    return math.sqrt(-math.log(b) / (2 * math.pi**2)) / lengthscale


def equivalent_se(
    r: ArrayLike, lengthscale: float, density: float, noise_variance: float, variance: float = 1.0, d: int = 1
) -> np.ndarray:
    """h at distances r of the SE kernel, approximately: all frequencies below `cutoff_se` are kept and no
    other, (s_c / r)^(d/2) J_(d/2)(2 pi s_c r) (7.12, 7.13). `equivalent_weights` has the exact one.
    """
    s_c = cutoff_se(lengthscale, density, noise_variance, variance, d)
    distance = np.abs(np.asarray(r, float))
    near = distance * s_c < 1e-8
    ball = (math.sqrt(math.pi) * s_c) ** d / math.gamma(d / 2 + 1)  # the volume |s| < s_c
    safe = np.where(near, 1.0, distance)
    return np.where(near, ball, (s_c / safe) ** (d / 2) * jv(d / 2, 2 * math.pi * s_c * safe))


def equivalent_spline(r: ArrayLike, smoothing: float, order: int = 2, d: int = 1) -> np.ndarray:
    """h at distances r of a smoothing spline with the penalty |grad^order f|^2 on d columns: the inverse
    Fourier transform of 1 / (1 + g w^(2 order)), w = 2 pi |s| (7.45), whose width is g^(1 / (2 order)), that
    is n^(-1 / (2 order)) in any dimension.

    smoothing: g, the weight of the penalty times v. 2 order must be above d, or h(0) is infinite

    >>> equivalent_spline(np.linspace(0, 5, 100), smoothing=1.0)      # Silverman's kernel
    """
    if 2 * order <= d:
        raise ValueError(f"2 order = {2 * order} must be above d = {d}: the spline has no finite h(0).")
    if smoothing <= 0:
        raise ValueError(f"smoothing must be positive, got {smoothing:g}.")
    width = smoothing ** (1 / (2 * order))
    u: np.ndarray = np.abs(np.asarray(r, float)) / width
    if (order, d) == (2, 1):
        h = 0.5 * np.exp(-u / math.sqrt(2)) * np.sin(u / math.sqrt(2) + math.pi / 4)
    elif (order, d) == (2, 2):
        h = np.where(u < 1e-12, 0.125, -kei(np.maximum(u, 1e-12)) / (2 * math.pi))
    else:
        h = hankel(lambda s: 1.0 / (1.0 + (2 * math.pi * s) ** (2 * order)), u, d)
    return h / width**d


def half_width(weights: Callable[[np.ndarray], np.ndarray], scale: float = 1.0) -> float:
    """The distance at which weights h(r) first fall to half of h(0). scale: a length from which on to look.

    >>> half_width(lambda r: equivalent_ou(r, 1.0, density=1000, noise_variance=0.1))
    """

    def above(r: float) -> float:
        return float(np.ravel(weights(np.array([r])))[0]) / peak - 0.5

    peak = float(np.ravel(weights(np.array([0.0])))[0])
    low = scale * 2.0**-60
    while above(2 * low) > 0:
        low *= 2
        if low > scale * 2.0**60:
            raise ValueError("the weights never fall to half of their peak.")
    return float(brentq(above, low, 2 * low, xtol=1e-14 * low, rtol=1e-12))


def _noise(density: float, noise_variance: float) -> float:
    if density <= 0 or noise_variance <= 0:
        raise ValueError(
            f"density and noise_variance must be positive, got {density:g} and {noise_variance:g}."
        )
    return noise_variance / density


def _kept(S: np.ndarray, v: float) -> np.ndarray:
    """S / (S + v), also where S underflows."""
    return np.where(S > 0, S / (S + v), 0.0)
