"""The Fourier transform of an isotropic function in d dimensions:
an integral over the radius with a Bessel function (4.7, 4.8).
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

OCTAVES = 40  # of the radius, below and above its unit
PER_OCTAVE = 4
ZEROS = 300  # of the Bessel function; beyond them the alternating sum is extrapolated
AVERAGES = 40
_X, _W = np.polynomial.legendre.leggauss(16)


def hankel(f: Callable[[np.ndarray], np.ndarray], s: ArrayLike, d: int = 1, unit: float = 1.0) -> np.ndarray:
    """F(s) = 2 pi s^(1 - d/2) times the integral over r of f(r) J_(d/2 - 1)(2 pi r s) r^(d/2): the same pair
    both ways.

    f: radii (n,) -> (n,), smooth between 0 and infinity except where its length `unit` times a power of 2 is.
    s: any shape.

    >>> hankel(lambda r: np.exp(-0.5 * r**2), 0.5, d=2)         # 2 pi exp(-2 pi^2 s^2)
    """
    frequencies: np.ndarray = np.abs(np.asarray(s, float))
    graded = unit * 2.0 ** (np.arange(-OCTAVES * PER_OCTAVE, OCTAVES * PER_OCTAVE + 1) / PER_OCTAVE)
    values = [_at(f, float(x), d, graded) for x in frequencies.ravel()]
    return np.array(values).reshape(frequencies.shape)


def _at(f: Callable, s: float, d: int, graded: np.ndarray) -> float:
    nu = d / 2 - 1
    # where the Bessel function changes sign, to leading order: near enough to make the sum alternate
    zeros = (np.arange(1, ZEROS + 1) + nu / 2 - 0.25) / (2 * s) if s > 0 else np.full(ZEROS, graded[-1])
    edges = np.sort(np.concatenate([[0.0], np.minimum(graded, zeros[-1]), zeros]))
    half = 0.5 * np.diff(edges)
    r = edges[:-1, None] + half[:, None] * (1.0 + _X)
    surface = 2 * np.pi ** (d / 2) / math.gamma(d / 2)
    kernel = np.reshape(np.asarray(f(r.ravel()), float), r.shape) * _oscillation(nu, 2 * np.pi * r * s)
    with np.errstate(over="ignore", invalid="ignore"):
        terms = np.where(kernel == 0.0, 0.0, kernel * (surface * r ** (d - 1))) * half[:, None] @ _W
    sums = np.concatenate([[0.0], np.cumsum(terms)])[np.searchsorted(edges, zeros, side="right") - 1][
        -AVERAGES:
    ]
    while sums.size > 1:
        sums = 0.5 * (sums[1:] + sums[:-1])
    return float(sums[0])


def _oscillation(nu: float, x: np.ndarray) -> np.ndarray:
    """Gamma(nu + 1) (2 / x)^nu J_nu(x): cos x in one dimension, sin(x) / x in three."""
    if nu == -0.5:
        return np.cos(x)
    if nu == 0.5:
        return np.sinc(x / np.pi)
    from scipy.special import jv

    small = x < 1e-6
    z = np.where(small, 1.0, x)
    return np.where(small, 1.0, math.gamma(nu + 1) * (2 / z) ** nu * jv(nu, z))
