"""Numerical helpers from analysis: measures and L_p norms, the Fourier pair, convexity, divergences,
a limit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike
from scipy.integrate import quad
from scipy.optimize import minimize_scalar
from scipy.special import entr, kl_div, rel_entr


@dataclass(frozen=True, eq=False)
class Measure:
    """A measure on the line: a density on an interval, plus point masses.

    ``density`` maps a number to a non-negative number, None meaning no continuous part; ``support`` is its
    interval, ends possibly infinite; ``atoms`` maps points to their masses. A distribution without a density
    (section A.7 of Rasmussen and Williams: with probability p uniform on [0, 1], otherwise exactly ½) is, for
    p = 0.3,

    >>> coin = Measure(lambda x: 0.3, (0.0, 1.0), {0.5: 0.7})
    >>> coin.integrate(lambda x: x)
    0.5

    and `Measure(lambda x: 1.0, (a, b))` is Lebesgue measure on (a, b).
    """

    density: Callable[[float], float] | None = None
    support: tuple[float, float] = (-np.inf, np.inf)
    atoms: Mapping[float, float] = field(default_factory=dict)

    def integrate(self, f: Callable[[float], float]) -> float:
        """∫ f dμ (A.27, A.29), the continuous part by adaptive quadrature."""
        total = sum(mass * f(x) for x, mass in self.atoms.items())
        if self.density is not None:
            density = self.density
            total += quad(lambda x: f(x) * density(x), *self.support, limit=200, epsabs=1e-12, epsrel=1e-12)[
                0
            ]
        return float(total)

    def distribution(self, z: float) -> float:
        """F(z) = μ(x ≤ z), which jumps at atoms."""
        low, high = self.support
        below = {x: mass for x, mass in self.atoms.items() if x <= z}
        return Measure(self.density if z > low else None, (low, min(z, high)), below).integrate(lambda x: 1.0)

    def norm(self, f: Callable[[float], float], p: float = 2.0) -> float:
        """The L_p(μ) norm of f, (∫ |f|^p dμ)^(1/p) (A.30); p = inf is the essential supremum (A.31).

        The supremum is looked for on 2001 points of the support and polished around the best: a spike between
        them is missed. What happens on a set of measure zero, an isolated point without an atom, does not
        count.
        """
        if not p >= 1:
            raise ValueError(f"an L_p norm needs p >= 1, not {p}")
        if np.isfinite(p):
            return self.integrate(lambda x: abs(f(x)) ** p) ** (1 / p)
        at_atoms = [abs(f(x)) for x, mass in self.atoms.items() if mass > 0]
        return float(max([*at_atoms, self._continuous_supremum(f)]))

    def inner(self, f: Callable[[float], float], g: Callable[[float], float]) -> float:
        """⟨f, g⟩ = ∫ f g dμ in L_2(μ)."""
        return self.integrate(lambda x: f(x) * g(x))

    def _continuous_supremum(self, f: Callable[[float], float]) -> float:
        if self.density is None:
            return 0.0
        density = self.density
        low, high = self.support

        def height(x: float) -> float:
            return abs(f(x)) if density(x) > 0 else 0.0

        angles = np.linspace(np.arctan(low), np.arctan(high), 2003)
        inside = [float(x) for x in np.tan(angles[1:-1])]
        ends = [float(np.nextafter(end, inside[0])) for end in (low, high) if np.isfinite(end)]
        best = int(np.argmax([height(x) for x in inside]))
        polished = minimize_scalar(
            lambda angle: -height(float(np.tan(angle))),
            bounds=(angles[best], angles[best + 2]),
            method="bounded",
        )
        return max(height(inside[best]), -float(polished.fun), *(height(x) for x in ends))


def centred_grid(size: int, spacing: float) -> np.ndarray:
    """``size`` equally spaced points with the origin at position size // 2:
    the grid of `fourier` and its inverse.
    """
    return (np.arange(size) - size // 2) * spacing


def fourier(values: ArrayLike, spacing: float | tuple[float, ...]) -> tuple[np.ndarray, tuple[float, ...]]:
    """f̃(s) = ∫ f(x) exp(−2πi s·x) dx (A.32) from samples of f on a `centred_grid` along each of D axes.

    Frequencies s are in cycles per unit of x: no 2π in front of either integral. Returns the transform, on a
    centred grid too, and its spacing 1/(size · spacing) along each axis. Samples must reach where f has died
    out and be close enough for f̃ to have died out by s = 1/(2 · spacing); then the sum is the integral to
    near rounding.
    """
    return _transform(values, spacing, np.fft.fftn)


def inverse_fourier(
    spectrum: ArrayLike, spacing: float | tuple[float, ...]
) -> tuple[np.ndarray, tuple[float, ...]]:
    """f(x) = ∫ f̃(s) exp(2πi s·x) ds (A.32): undoes `fourier`,
    given the spectrum and the spacing that it returned.
    """
    return _transform(spectrum, spacing, lambda a: np.fft.ifftn(a, norm="forward"))


def is_convex(f: Callable[[Any], Any], points: ArrayLike, tol: float = 1e-9) -> bool:
    """Whether the Hessian of f is positive semi-definite at every point of ``points`` (N, D), or (N,) for D =
    1.

    f takes an array (D,), or a number when points is one-dimensional, and is written with JAX operations.
    Eigenvalues down to −tol times the largest count as zero. Over a convex domain this at every point is
    convexity; f is concave if −f passes (log-concave likelihoods: pass minus log p).
    """
    points = np.asarray(points, dtype=float)
    hessians = np.asarray(jax.jit(jax.vmap(jax.hessian(f)))(jnp.asarray(points)))
    eigenvalues = np.linalg.eigvalsh(hessians.reshape(len(points), *(points.shape[1:] * 2 or (1, 1))))
    return bool(np.all(eigenvalues[:, 0] >= -tol * np.abs(eigenvalues).max(axis=1)))


def is_convex_on_chords(f: Callable[[Any], Any], points: ArrayLike, tol: float = 1e-9) -> bool:
    """Whether f(θ x₁ + (1−θ) x₂) ≤ θ f(x₁) + (1−θ) f(x₂) (A.34) for all pairs of ``points`` and nine θ inside
    (0, 1).

    Needs no derivatives: f maps one point to a number. A False is a proof that f is not convex, up to ``tol``
    relative to the values compared; a True is evidence.
    """
    points = np.asarray(points, dtype=float)
    ends = [float(f(x)) for x in points]
    for i, j, theta, between in _chords(points):
        chord = theta * ends[i] + (1 - theta) * ends[j]
        if float(f(between)) > chord + tol * max(1.0, abs(ends[i]), abs(ends[j])):
            return False
    return True


def is_convex_set(contains: Callable[[Any], bool], points: ArrayLike) -> bool:
    """Whether the segments between all pairs of ``points`` that are in a set stay in it (A.33),
    at nine θ each.
    """
    members = np.asarray([x for x in np.asarray(points, dtype=float) if contains(x)])
    return all(contains(between) for _, _, _, between in _chords(members))


def heat_gradient(
    expectation: Callable[[Any, Any], Any], mean: ArrayLike, covariance: ArrayLike
) -> np.ndarray:
    """∂E/∂Σ = ½ ∇_μ ∇_μᵀ E for any E(μ, Σ) = ∫ g(x) N(x|μ, Σ) dx, written with JAX operations.

    Smoothing by a Gaussian is the heat equation with Σ as time. The gradient is that of a symmetric matrix,
    in which dE = Σ_ij (∂E/∂Σ)_ij dΣ_ij; one free number σ = Σ_ij = Σ_ji, i ≠ j, has ∂E/∂σ = twice the entry.
    """
    mean, covariance = jnp.asarray(mean), jnp.asarray(covariance)
    return 0.5 * np.asarray(jax.jit(jax.hessian(expectation, argnums=0))(mean, covariance))


def heat_residual(expectation: Callable[[Any, Any], Any], mean: ArrayLike, covariance: ArrayLike) -> float:
    """Largest |∂E/∂Σ − ½ ∇∇E| with ∂E/∂Σ by automatic differentiation:
    a ready-made test of a Gaussian expectation.
    """
    mean, covariance = jnp.asarray(mean), jnp.asarray(covariance)
    direct = np.asarray(jax.jit(jax.grad(expectation, argnums=1))(mean, covariance))
    return float(np.abs((direct + direct.T) / 2 - heat_gradient(expectation, mean, covariance)).max())


def discrete_entropy(p: ArrayLike) -> float:
    """−Σ p log p in nats of a discrete distribution (A.19); 0 log 0 is 0."""
    return float(np.sum(entr(np.asarray(p, dtype=float))))


def discrete_kl(p: ArrayLike, q: ArrayLike) -> float:
    """KL(p ‖ q) = Σ p log(p/q) in nats of two discrete distributions (A.21);
    infinite if q misses a point of p.
    """
    return float(np.sum(rel_entr(np.asarray(p, dtype=float), np.asarray(q, dtype=float))))


def bernoulli_kl(p: ArrayLike, q: ArrayLike) -> np.ndarray:
    """KL between Bernoulli(p) and Bernoulli(q), p log(p/q) + (1−p) log((1−p)/(1−q)) (A.22),
    element by element.
    """
    p, q = np.asarray(p, dtype=float), np.asarray(q, dtype=float)
    return np.maximum(kl_div(p, q) + kl_div(1 - p, 1 - q), 0.0)


def rational_power(x: ArrayLike, alpha: float) -> np.ndarray:
    """(1 + x/α)^(−α), which tends to exp(−x) as α → ∞ (A.25, with x = r²/2);
    exact for every α up to inf itself.
    """
    x = np.asarray(x, dtype=float)
    return np.exp(-x) if np.isinf(alpha) else np.exp(-alpha * np.log1p(x / alpha))


def _transform(
    values: ArrayLike, spacing: Any, dft: Callable[[np.ndarray], np.ndarray]
) -> tuple[np.ndarray, Any]:
    values = np.asarray(values)
    steps = np.broadcast_to(np.asarray(spacing, dtype=float), (values.ndim,))
    transform = np.fft.fftshift(dft(np.fft.ifftshift(values))) * np.prod(steps)
    return transform, tuple(float(1 / (size * step)) for size, step in zip(values.shape, steps, strict=True))


def _chords(points: np.ndarray) -> Any:
    for i in range(len(points)):
        for j in range(i):
            for theta in np.linspace(0.1, 0.9, 9):
                yield i, j, theta, theta * points[i] + (1 - theta) * points[j]
