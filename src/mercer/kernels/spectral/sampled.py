"""Bochner's theorem by sampling: frequencies drawn from a kernel's spectral measure make a finite-rank kernel
close to it.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from mercer.kernels.algebra.columns import On
from mercer.kernels.algebra.powers import Power
from mercer.kernels.algebra.sums import Product, Scale, Sum
from mercer.kernels.base import AbstractKernel, given
from mercer.kernels.families.dot import Constant
from mercer.kernels.families.stationary import (
    SE,
    AbstractStationary,
    GammaExponential,
    Matern,
    Periodic,
    RationalQuadratic,
)
from mercer.kernels.spectral.band_limited import BesselJ
from mercer.kernels.spectral.density import SpectralError, _bound, line_spectrum, unit_density
from mercer.kernels.spectral.mixture import LengthscaleMixture, SpectralMixture
from mercer.kernels.traits import Traits
from mercer.params import Hyper, ParameterError, fixed, hyper, positive, real


class FourierFeatures(AbstractKernel):
    """variance / m * sum_i cos(2 pi frequencies_i . (x - x') / lengthscale): m sinusoids with unknown
    amplitudes and phases.

    frequencies: (m, d), in cycles per length-scale; held unless given as `param(...)`. Of rank 2 m:
    `solver="weight-space"` costs O(n m^2). `random_fourier_features` makes one from a stationary kernel.
    """

    frequencies: Hyper = hyper(constraint=real, free=False)
    lengthscale: Hyper = hyper(1.0, positive)
    variance: Hyper = hyper(1.0, positive)

    def __check_init__(self):
        if np.ndim(self.frequencies) != 2:
            raise ParameterError("FourierFeatures.frequencies must be an (m, columns) matrix.")

    def bind(self, d: int, names: tuple[str, ...] | None = None) -> FourierFeatures:
        if np.shape(self.frequencies)[1] != d:
            raise ParameterError(
                f"FourierFeatures.frequencies has {np.shape(self.frequencies)[1]} columns but the kernel "
                f"sees {d}."
            )
        return super().bind(d, names)

    def features(self, A: jax.Array) -> jax.Array:
        angle = 2.0 * jnp.pi * (A / self.lengthscale) @ self.frequencies.T
        return jnp.sqrt(self.variance / angle.shape[1]) * jnp.concatenate([jnp.cos(angle), jnp.sin(angle)], 1)

    def block(self, A: jax.Array, B: jax.Array) -> jax.Array:
        return self.features(A) @ self.features(B).T

    def rank(self, d: int) -> int:
        return 2 * np.shape(self.frequencies)[0]

    def traits(self, d: int = 1) -> Traits:
        swings = "swings on: its frequencies never die away"
        return Traits(stationary=True, isotropic=d == 1, smoothness=math.inf, recurs=True, beyond=swings)


def random_fourier_features(kernel: AbstractKernel, m: int, d: int = 1, seed: Any = 0) -> FourierFeatures:
    """A kernel of rank 2 m on d columns whose frequencies are m draws from the spectral measure of a
    stationary kernel.

    Its covariance differs from the kernel's by about k(0) / sqrt(2 m). Length-scales and variance of a simple
    kernel stay hyperparameters; in a composite only the overall variance does. seed: an integer or a numpy
    Generator.

    >>> gp = GP(random_fourier_features(Matern(nu=1.5, lengthscale=0.7), m=200))
    """
    if not (isinstance(m, (int, np.integer)) and m >= 1):
        raise ParameterError(f"the number of frequencies m must be a whole number of at least 1, got {m!r}.")
    rng = np.random.default_rng(seed)
    bound = _bound(kernel, d)
    if isinstance(bound, AbstractStationary) and bound.loadings is None:
        unit = dataclasses.replace(bound, lengthscale=np.ones(()))
        return FourierFeatures(draw(unit, m, d, rng), given(bound, "lengthscale"), given(bound, "variance"))
    return FourierFeatures(draw(bound, m, d, rng), fixed(1.0), _variance(bound, d))


@line_spectrum.register
def _(kernel: FourierFeatures, lines=None):
    frequencies = np.abs(np.asarray(kernel.bind(1).frequencies)[:, 0] / np.asarray(kernel.lengthscale))
    return np.sort(frequencies), np.full(len(frequencies), float(kernel.variance) / len(frequencies))


@functools.singledispatch
def draw(kernel: AbstractKernel, m: int, d: int, rng: np.random.Generator) -> np.ndarray:
    """m frequencies (m, d), independent draws from the spectral measure of a kernel bound to d columns."""
    if d != 1 or kernel.traits(1).period is None:
        raise SpectralError(f"cannot draw frequencies of {kernel.formula()} on {d} columns.")
    return _draw_lines(kernel, 256, m, rng)[:, None]


@draw.register
def _(kernel: Sum, m, d, rng):
    variances = np.array([_variance(term, d) for term in kernel.terms])
    counts = rng.multinomial(m, variances / variances.sum())
    return rng.permutation(
        np.concatenate([draw(term, c, d, rng) for term, c in zip(kernel.terms, counts, strict=True)])
    )


@draw.register
def _(kernel: Product, m, d, rng):
    """The measure of a product is a convolution: frequencies add."""
    return np.sum([draw(factor, m, d, rng) for factor in kernel.factors], axis=0)


@draw.register
def _(kernel: Power, m, d, rng):
    if not isinstance(kernel.exponent, int):
        raise SpectralError(
            f"cannot draw frequencies of {kernel.formula()}: the exponent is not a whole number."
        )
    return np.sum([draw(kernel.kernel, m, d, rng) for _ in range(kernel.exponent)], axis=0)


@draw.register
def _(kernel: Scale, m, d, rng):
    return draw(kernel.kernel, m, d, rng)


@draw.register
def _(kernel: On, m, d, rng):
    out = np.zeros((m, d))
    out[:, [int(c) for c in kernel.columns]] = draw(kernel.kernel, m, len(kernel.columns), rng)
    return out


@draw.register
def _(kernel: Constant, m, d, rng):
    return np.zeros((m, d))


@draw.register
def _(kernel: FourierFeatures, m, d, rng):
    return rng.choice(np.asarray(kernel.frequencies), m) / np.asarray(kernel.lengthscale)


@draw.register
def _(kernel: Periodic, m, d, rng):
    each = zip(*(np.broadcast_to(v, (d,)) for v in (kernel.period, kernel.lengthscale)), strict=True)
    return np.stack(
        [_draw_lines(Periodic(period, l), 32 + math.ceil(8 / l), m, rng) for period, l in each], 1
    )


@draw.register
def _(kernel: SpectralMixture, m, d, rng):
    weights, means, scales = map(np.asarray, kernel.table())
    which = rng.choice(len(weights), m, p=weights / weights.sum())
    return means[which] + scales[which] * rng.standard_normal((m, d))


@draw.register
def _(kernel: LengthscaleMixture, m, d, rng):
    weights = np.atleast_1d(kernel.weights)
    which = rng.choice(len(weights), m, p=weights / weights.sum())
    return rng.standard_normal((m, d)) / (2 * np.pi * np.atleast_1d(kernel.lengthscales)[which, None])


@draw.register
def _(kernel: AbstractStationary, m, d, rng):
    """Of the distance with matrix M = L L': unit frequencies times L'."""
    M = np.diag(np.broadcast_to(np.asarray(kernel.lengthscale, float), (d,)) ** -2.0)
    if kernel.loadings is not None:
        M = M + np.asarray(kernel.loadings) @ np.asarray(kernel.loadings).T
    directions = rng.standard_normal((m, d))
    return draw_unit(kernel, directions, rng) @ np.linalg.cholesky(M).T


@functools.singledispatch
def draw_unit(kernel: AbstractStationary, z: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Frequencies for unit length-scale from standard normal z (m, d):
    here by inverting the distribution of |s| on a grid.
    """
    m, d = z.shape
    grid = np.concatenate([np.linspace(0.0, 4.0, 161), np.geomspace(4.0, 400.0, 161)[1:]])
    radial = grid ** (d - 1) * unit_density(kernel, grid, d)
    mass = np.concatenate([[0.0], np.cumsum(0.5 * (radial[1:] + radial[:-1]) * np.diff(grid))])
    return _direction(z) * np.interp(rng.uniform(0, mass[-1], m), mass, grid)[:, None]


@draw_unit.register
def _(kernel: SE, z, rng):
    return z / (2 * np.pi)


@draw_unit.register
def _(kernel: Matern, z, rng):
    """A multivariate t with 2 nu degrees of freedom."""
    nu = float(kernel.nu)
    return z / (2 * np.pi * np.sqrt(rng.gamma(nu, 1 / nu, (len(z), 1))))


@draw_unit.register
def _(kernel: RationalQuadratic, z, rng):
    """Normal, with an inverse squared length-scale from the gamma distribution of (4.20)."""
    alpha = float(kernel.alpha)
    return z * np.sqrt(rng.gamma(alpha, 1 / alpha, (len(z), 1))) / (2 * np.pi)


@draw_unit.register
def _(kernel: GammaExponential, z, rng):
    """Normal, with a variance from the positive stable law of index gamma / 2 (Kanter's representation)."""
    a = 0.5 * float(kernel.gamma)
    if a == 1.0:
        return z / (math.sqrt(2) * np.pi)
    u, e = rng.uniform(0, np.pi, (len(z), 1)), rng.exponential(1.0, (len(z), 1))
    stable = np.sin(a * u) / np.sin(u) ** (1 / a) * (np.sin((1 - a) * u) / e) ** ((1 - a) / a)
    return z * np.sqrt(2 * stable) / (2 * np.pi)


@draw_unit.register
def _(kernel: BesselJ, z, rng):
    """On the sphere |s| = 1 / (2 pi), or inside it."""
    m, d = z.shape
    inside = kernel.nu - d / 2 + 1
    radius = np.sqrt(rng.beta(d / 2, inside, (m, 1))) if inside > 0 else 1.0
    return _direction(z) * radius / (2 * np.pi)


def _draw_lines(kernel, lines: int, m: int, rng) -> np.ndarray:
    frequencies, weights = line_spectrum(kernel, lines)
    weights = np.maximum(weights, 0.0)
    return rng.choice(frequencies, m, p=weights / weights.sum()) * rng.choice([-1.0, 1.0], m)


def _direction(z: np.ndarray) -> np.ndarray:
    return z / np.linalg.norm(z, axis=1, keepdims=True)


def _variance(kernel, d: int) -> float:
    return float(kernel(np.zeros((1, d)))[0, 0])
