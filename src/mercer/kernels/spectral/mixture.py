"""Mixtures: of Gaussians in frequency (spectral mixture),
and of squared exponentials over their length-scale.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from mercer.kernels.base import AbstractKernel
from mercer.kernels.distance import squared_distance
from mercer.kernels.traits import Traits
from mercer.params import Hyper, ParameterError, fixed, hyper, positive, real


class SpectralMixture(AbstractKernel):
    """sum_q weights_q cos(2 pi means_q . tau) exp(-2 pi^2 sum_d scales_qd^2 tau_d^2): Gaussians in the
    spectral density.

    weights: (Q,), each component's variance. means: (Q, d) frequencies in cycles per unit of the input.
    scales: (Q, d), the standard deviations of the Gaussians around them, in the same unit: a component
    forgets over a distance of 1 / (2 pi scale). For one column means and scales may be (Q,).

    >>> SpectralMixture(weights=[1.0, 0.5], means=[0.0, 1.0], scales=[0.1, 0.02])  # trend, yearly season
    """

    weights: Hyper = hyper(1.0, positive)
    means: Hyper = hyper(0.0, real)
    scales: Hyper = hyper(1.0, positive)

    def __check_init__(self):
        if np.ndim(self.weights) > 1:
            raise ParameterError("SpectralMixture.weights must be one number for each component.")
        for name in ("means", "scales"):
            shape = np.shape(getattr(self, name))
            if len(shape) > 2 or (shape or (1,))[0] != self.components:
                raise ParameterError(
                    f"SpectralMixture.{name} must be (components, columns) with {self.components} "
                    "components, as many as weights; "
                    f"it is {shape}."
                )

    @property
    def components(self) -> int:
        """How many Gaussians the spectral density is made of."""
        return int(np.size(self.weights))

    def bind(self, d: int, names: tuple[str, ...] | None = None) -> SpectralMixture:
        for name in ("means", "scales"):
            shape = np.shape(getattr(self, name))
            if (shape[1] if len(shape) == 2 else 1) != d:
                raise ParameterError(
                    f"SpectralMixture.{name} has shape {shape} but the kernel sees {d} input "
                    f"column{'s' if d != 1 else ''}; "
                    f"it must be ({self.components}, {d})."
                )
        return self

    def table(self) -> tuple[jax.Array, jax.Array, jax.Array]:
        """Weights (Q,), means and scales (Q, d)."""
        size = self.components
        return (
            jnp.reshape(self.weights, (size,)),
            jnp.reshape(self.means, (size, -1)),
            jnp.reshape(self.scales, (size, -1)),
        )

    def block(self, A: jax.Array, B: jax.Array) -> jax.Array:
        total = jnp.zeros(())
        for weight, mean, scale in zip(*self.table(), strict=True):
            phase = 2.0 * jnp.pi * ((A @ mean)[:, None] - (B @ mean)[None, :])
            total = total + weight * jnp.cos(phase) * jnp.exp(
                -2.0 * jnp.pi**2 * squared_distance(A * scale, B * scale)
            )
        return total

    def amplitude(self) -> tuple[str, ...]:
        return ()

    def suggest(self, X: np.ndarray, variance: float) -> SpectralMixture:
        return self.with_values(weights=np.asarray(self.weights) * variance / np.sum(self.weights))

    def traits(self, d: int = 1) -> Traits:
        means, scales = (np.reshape(v, (self.components, -1)) for v in (self.means, self.scales))
        centred = not means.any() and all(np.unique(row).size == 1 for row in scales)
        return Traits(
            stationary=True,
            isotropic=d == 1 or centred,
            smoothness=math.inf,
            beyond="returns to the mean within a few times 1 / (2 pi scale)",
        )


class LengthscaleMixture(AbstractKernel):
    """sum_q weights_q exp(-r^2 / (2 lengthscales_q^2)): every isotropic kernel that is valid in all
    dimensions is such a mixture.

    lengthscales, weights: (Q,). `lengthscale_mixture` makes one from a density of length-scales.

    >>> LengthscaleMixture(lengthscales=[0.1, 1.0, 10.0], weights=[0.2, 1.0, 5.0])
    """

    lengthscales: Hyper = hyper(1.0, positive)
    weights: Hyper = hyper(1.0, positive)

    def __check_init__(self):
        if np.shape(self.lengthscales) != np.shape(self.weights) or np.ndim(self.weights) > 1:
            raise ParameterError(
                "LengthscaleMixture: weights and lengthscales must be vectors of the same length."
            )

    def bind(self, d: int, names: tuple[str, ...] | None = None) -> LengthscaleMixture:
        return self

    def block(self, A: jax.Array, B: jax.Array) -> jax.Array:
        lengthscales, weights = jnp.atleast_1d(self.lengthscales), jnp.atleast_1d(self.weights)
        r2 = squared_distance(A, B)
        total = jnp.zeros(())
        for q in range(lengthscales.shape[0]):
            total = total + weights[q] * jnp.exp(-0.5 * r2 / lengthscales[q] ** 2)
        return total

    def amplitude(self) -> tuple[str, ...]:
        return ()

    def suggest(self, X: np.ndarray, variance: float) -> LengthscaleMixture:
        spread = np.mean(np.std(X, 0)) * np.sqrt(np.sqrt(X.shape[1])) or 1.0
        centre = np.exp(np.mean(np.log(self.lengthscales)))
        weights = np.asarray(self.weights)
        return self.with_values(
            lengthscales=np.asarray(self.lengthscales) * spread / centre,
            weights=weights * variance / weights.sum(),
        )

    def traits(self, d: int = 1) -> Traits:
        lengths = np.unique(self.lengthscales)
        beyond = "returns to the mean within a few of the longest length-scale"
        return Traits(
            True,
            True,
            smoothness=math.inf,
            lengthscale=lengths[0] if lengths.size == 1 else None,
            beyond=beyond,
        )


def lengthscale_mixture(density: Callable, low: float, high: float, nodes: int = 24) -> LengthscaleMixture:
    """The mixture of squared exponentials whose length-scales have this density on (low, high), by quadrature
    in log length-scale.

    density: length-scales (n,) -> (n,); it need not be normalised: its integral is the variance. The result
    is held fixed; its formula and its saved form are the nodes and weights.

    >>> lengthscale_mixture(lambda l: np.exp(-l), 0.05, 20.0)
    """
    if not 0 < low < high:
        raise ParameterError(f"lengthscale_mixture needs 0 < low < high, got {low} and {high}.")
    x, w = np.polynomial.legendre.leggauss(nodes)
    half = 0.5 * math.log(high / low)
    lengths = math.sqrt(low * high) * np.exp(half * x)
    weights = half * w * lengths * np.asarray(density(lengths), float)
    if not (np.isfinite(weights).all() and (weights >= 0).all() and weights.any()):
        raise ParameterError(
            "the density of a mixture of length-scales must be finite, not negative, and not zero everywhere."
        )
    keep = weights > 0
    return LengthscaleMixture(fixed(lengths[keep]), fixed(weights[keep]))
