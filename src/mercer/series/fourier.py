"""Fourier analysis on the line, the circle, the integers and the polygon (GPML B.1), and what sampling and
wrapping do to it.

Everywhere f~ is without factors in the exponent but 2 pi: `analysis` goes from a function to its transform,
`synthesis` back. Sampling a function wraps its spectrum (B.15-B.16); wrapping a function samples its spectrum
(B.17-B.18).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

NODES, WEIGHTS = np.polynomial.legendre.leggauss(24)
SUMMED = 256  # images on each side before the sum becomes an integral


@dataclasses.dataclass(frozen=True)
class Line:
    """Functions on the real line: f(x) = integral of f~(s) exp(2 pi i s x) ds, f~(s) = integral of f(x)
    exp(-2 pi i s x) dx (B.3).

    reach: f is negligible where |x| > reach. band: f~ is negligible where |s| > band. Both may have a kink at
    zero.

    >>> Line(reach=10.0).analysis(lambda x: np.exp(-np.pi * x**2), s=0.5)
    """

    reach: float = 10.0
    band: float = 10.0

    def analysis(self, f: Callable, s: ArrayLike) -> np.ndarray:
        """f~ at frequencies s."""
        return _integral(f, s, -self.reach, self.reach, -1.0)

    def synthesis(self, transform: Callable, x: ArrayLike) -> np.ndarray:
        """f at x."""
        return _integral(transform, x, -self.band, self.band, 1.0)


@dataclasses.dataclass(frozen=True)
class Circle:
    """Functions of period l: f(x) = sum_k f~[k] exp(2 pi i k x / l), f~[k] = 1/l integral_0^l f(x) exp(-2 pi
    i k x / l) dx (B.4).

    harmonics: those with |k| up to this many are summed by `synthesis`.
    """

    length: float = 1.0
    harmonics: int = 512

    def analysis(self, f: Callable, k: ArrayLike) -> np.ndarray:
        """f~[k] at whole numbers k; f may have a kink at zero."""
        return _integral(f, np.asarray(k) / self.length, 0.0, self.length, -1.0) / self.length

    def synthesis(self, transform: Callable, x: ArrayLike) -> np.ndarray:
        """f at x."""
        k = np.arange(-self.harmonics, self.harmonics + 1)
        return _wave(np.asarray(x, float) / self.length, k, 1.0) @ transform(k)


@dataclasses.dataclass(frozen=True)
class Integers:
    """Sequences: f[n] = integral over (0, l) of f~(s) exp(2 pi i s n / l) ds, f~(s) = 1/l sum_n f[n] exp(-2
    pi i s n / l) (B.5).

    period: l, of f~; 1 / the spacing of the samples. reach: f[n] is negligible where |n| > reach.
    """

    period: float = 1.0
    reach: int = 512

    def analysis(self, f: Callable, s: ArrayLike) -> np.ndarray:
        """f~ at frequencies s."""
        n = np.arange(-self.reach, self.reach + 1)
        return _wave(np.asarray(s, float) / self.period, n, -1.0) @ f(n) / self.period

    def synthesis(self, transform: Callable, n: ArrayLike) -> np.ndarray:
        """f[n] at whole numbers n."""
        nodes = 2 * self.reach + 1 + int(np.max(np.abs(n), initial=0))
        s = np.arange(nodes) / nodes
        return _wave(n, s, 1.0) @ transform(self.period * s) * (self.period / nodes)


@dataclasses.dataclass(frozen=True)
class Polygon:
    """N places around a circle: f[n] = sum_k f~[k] exp(2 pi i k n / N),
    f~[k] = 1/N sum_n f[n] exp(-2 pi i k n / N) (B.6).
    """

    N: int

    def analysis(self, f: ArrayLike) -> np.ndarray:
        """f~ (N,) of f (N,)."""
        return np.fft.fft(self._checked(f)) / self.N

    def synthesis(self, transform: ArrayLike) -> np.ndarray:
        """f (N,) of f~ (N,)."""
        return np.fft.ifft(self._checked(transform)) * self.N

    def _checked(self, values):
        values = np.asarray(values)
        if values.shape != (self.N,):
            raise ValueError(
                f"a function on the polygon has {self.N} values, got an array of shape {values.shape}."
            )
        return values


def wrap(f: Callable, x: ArrayLike, period: float) -> np.ndarray:
    """sum over all whole m of f(x + m period): periodisation by summation (B.8), and the spectrum of samples
    (B.15).

    f takes arrays, and is integrable; it may fall as slowly as 1 / x^2. The first 256 images on each side are
    summed, the rest is the integral that Euler and Maclaurin put in their place.

    >>> wrap(lambda t: np.exp(-abs(t)), 0.3, period=2.0)
    """
    if not period > 0:
        raise ValueError(f"the period must be positive, got {period!r}.")
    x = np.asarray(x, float)
    x = x - period * np.round(x / period)
    m = np.arange(-SUMMED, SUMMED + 1)
    total = f(x[..., None] + m * period).sum(-1)
    for side in (-1.0, 1.0):
        start, v = SUMMED + 0.5, 0.5 * (NODES + 1.0)
        tail = f(x[..., None] + side * period * start / v) @ (0.5 * WEIGHTS * start / v**2)
        slope = f(x + side * period * (SUMMED + 1)) - f(x + side * period * SUMMED)
        total = total + tail + slope / 24.0
    return total


def sampled_spectrum(spectrum: Callable, s: ArrayLike, h: float) -> np.ndarray:
    """The spectrum, of period 1 / h, of a process observed at times h apart: sum_m S(s + m / h) (B.15,
    B.54).
    """
    return wrap(spectrum, s, 1.0 / h)


def wrapped_spectrum(spectrum: Callable, k: ArrayLike, length: float) -> np.ndarray:
    """The Fourier coefficients S(k / l) / l of a process wrapped around a circle of this length (B.18,
    B.34 corrected).
    """
    return spectrum(np.asarray(k) / length) / length


def _wave(a, b, sign: float) -> np.ndarray:
    """exp(+-2 pi i a b) for all a and b."""
    return np.exp(sign * 2j * np.pi * np.asarray(a, float)[..., None] * b)


def _integral(f: Callable, s: ArrayLike, low: float, high: float, sign: float) -> np.ndarray:
    """The integral of f(x) exp(+-2 pi i s x) over (low,
    high) by Gauss-Legendre on panels short enough for the fastest wave.
    """
    s = np.asarray(s, float)
    panels = 32 + 2 * int(np.ceil(np.max(np.abs(s), initial=0.0) * (high - low)))
    edges = np.linspace(low, high, 2 * panels + 1)  # with zero among them if it is the middle
    half = 0.5 * np.diff(edges)[:, None]
    x = (0.5 * (edges[1:] + edges[:-1])[:, None] + half * NODES).ravel()
    return _wave(s, x, sign) @ ((half * WEIGHTS).ravel() * f(x))
