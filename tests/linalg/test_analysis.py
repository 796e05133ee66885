"""Measures, the Fourier pair, convexity, discrete divergences, the heat identity; A.N8, B.MB7, B.MB9,
D.GI4.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jax.scipy.special import log_ndtr

from mercer.linalg import analysis as an

steady = settings(derandomize=True, deadline=None, max_examples=50)
standard_normal = an.Measure(lambda x: np.exp(-0.5 * x * x) / np.sqrt(2 * np.pi))


def test_point_mass_example():
    """B.MB9 (A.26-A.29): the coin: U(0, 1) with probability p, else exactly ½. A jump of 1 − p,
    no density.
    """
    p = 0.3
    coin = an.Measure(lambda x: p, (0.0, 1.0), {0.5: 1 - p})
    np.testing.assert_allclose(coin.integrate(lambda x: 1.0), 1.0, rtol=1e-12)
    np.testing.assert_allclose(coin.integrate(lambda x: x * x), p / 3 + (1 - p) / 4, rtol=1e-12)
    levels = [coin.distribution(z) for z in (-1.0, 0.25, 0.5 - 1e-9, 0.5, 2.0)]
    np.testing.assert_allclose(levels, [0.0, 0.075, 0.15, 0.85, 1.0], atol=1e-8)


def test_lp_norms():
    """B.MB9 (A.30-A.31): Gaussian moments, the counting measure's vector norms, Hölder, and L_p → L_∞."""
    np.testing.assert_allclose(standard_normal.norm(lambda x: x, 2), 1.0, rtol=1e-10)
    np.testing.assert_allclose(standard_normal.norm(lambda x: x, 4), 3 ** (1 / 4), rtol=1e-10)
    np.testing.assert_allclose(standard_normal.norm(lambda x: x, 1), np.sqrt(2 / np.pi), rtol=1e-9)
    v = {0: 3.0, 1: -4.0, 2: 0.0}
    counting = an.Measure(atoms=dict.fromkeys(v, 1.0))
    for p in (1, 2, 3.5, np.inf):
        np.testing.assert_allclose(
            counting.norm(v.__getitem__, p), np.linalg.norm(list(v.values()), p), rtol=1e-14
        )
    unit = an.Measure(lambda x: 1.0, (0.0, 1.0))
    norms = [unit.norm(lambda x: x, p) for p in (1, 2, 8, 64, 512, np.inf)]
    assert np.all(np.diff(norms) > 0)
    np.testing.assert_allclose(norms[-1], 1.0, rtol=1e-12)
    f, g = np.sin, np.exp
    assert abs(unit.inner(f, g)) <= unit.norm(f, 3) * unit.norm(g, 1.5)
    with pytest.raises(ValueError, match="p >= 1"):
        unit.norm(f, 0.5)


def test_essential_supremum_ignores_null_sets():
    """B.MB9 (A.31): a value at one point counts only if that point has mass,
    and f only where the density is not 0.
    """

    def spike(x):
        return 9.0 if x == 0.5 else np.exp(-((x - 0.3) ** 2))

    without, with_atom = (
        an.Measure(lambda x: 1.0, (0.0, 1.0)),
        an.Measure(lambda x: 1.0, (0.0, 1.0), {0.5: 0.1}),
    )
    np.testing.assert_allclose(without.norm(spike, np.inf), 1.0, rtol=1e-10)
    assert with_atom.norm(spike, np.inf) == 9.0
    assert an.Measure(atoms={0.5: 0.0, 0.3: 1.0}).norm(spike, np.inf) == 1.0
    left_half = an.Measure(lambda x: float(x < 0.5), (0.0, 1.0))
    np.testing.assert_allclose(left_half.norm(lambda x: x, np.inf), 0.5, rtol=1e-3)
    np.testing.assert_allclose(
        standard_normal.norm(lambda x: np.exp(-((x - 1) ** 2)), np.inf), 1.0, rtol=1e-10
    )


@pytest.mark.parametrize("lengthscale", [0.5, 1.0, 2.0])
def test_fourier_pair_of_the_squared_exponential(lengthscale):
    """B.MB9 (A.32): exp(−r²/2ℓ²) ↔ √(2π) ℓ exp(−2π²ℓ²s²), no 2π outside, and back again to rounding."""
    n, h = 256, 0.15
    x = an.centred_grid(n, h)
    values = np.exp(-0.5 * (x / lengthscale) ** 2)
    spectrum, (step,) = an.fourier(values, h)
    s = an.centred_grid(n, step)
    book = np.sqrt(2 * np.pi) * lengthscale * np.exp(-2 * (np.pi * lengthscale * s) ** 2)
    np.testing.assert_allclose(spectrum, book, atol=1e-12)
    back, (h_back,) = an.inverse_fourier(spectrum, step)
    np.testing.assert_allclose(h_back, h, rtol=1e-14)
    np.testing.assert_allclose(back, values, atol=1e-14)


def test_fourier_sign_parseval_and_two_dimensions():
    """B.MB9 (A.32): a shift by a multiplies by exp(−2πi s a); energies agree;
    axes of different size and spacing.
    """
    n, h, a = 255, 0.1, 0.7
    x = an.centred_grid(n, h)
    spectrum, (step,) = an.fourier(np.exp(-np.pi * (x - a) ** 2), h)
    s = an.centred_grid(n, step)
    np.testing.assert_allclose(spectrum, np.exp(-np.pi * s**2 - 2j * np.pi * s * a), atol=1e-12)
    y = an.centred_grid(100, 0.12)
    values = np.exp(-np.pi * (x[:, None] ** 2 + (y / 2) ** 2))
    spectrum, steps = an.fourier(values, (h, 0.12))
    t = an.centred_grid(100, steps[1])
    book = np.exp(-np.pi * s[:, None] ** 2) * 2 * np.exp(-np.pi * (2 * t) ** 2)
    np.testing.assert_allclose(spectrum, book, atol=1e-11)
    np.testing.assert_allclose(
        np.sum(np.abs(spectrum) ** 2) * np.prod(steps), np.sum(values**2) * h * 0.12, rtol=1e-12
    )


def test_convexity_of_functions():
    """B.MB9 (Hessian test): minus the log of logistic, probit, Poisson likelihoods is convex,
    of Student-t is not.
    """
    f = np.linspace(-6, 6, 41)
    assert an.is_convex(lambda z: jnp.logaddexp(0.0, -z), f)
    assert an.is_convex(lambda z: -log_ndtr(z), f)
    assert an.is_convex(lambda z: jnp.exp(z) - 3 * z, f)
    assert not an.is_convex(lambda z: jnp.log1p(z**2 / 4), f)
    assert not an.is_convex(lambda z: -jnp.logaddexp(0.0, -z), f)
    points = np.random.default_rng(0).normal(size=(12, 3))
    assert an.is_convex(lambda x: jax.scipy.special.logsumexp(x), points)
    assert not an.is_convex(lambda x: x[0] * x[1] + x[2] ** 2, points)


def test_convexity_without_derivatives():
    """B.MB9 (A.33-A.34): the chord test agrees, also where there is a kink; discs are convex sets,
    rings are not.
    """
    f = np.linspace(-3, 3, 13)
    assert an.is_convex_on_chords(abs, f)
    assert an.is_convex_on_chords(lambda z: max(0.0, 1 - z), f)
    assert not an.is_convex_on_chords(lambda z: np.sqrt(abs(z)), f)
    points = np.random.default_rng(1).uniform(-1, 1, size=(30, 2))
    assert an.is_convex_on_chords(lambda x: x @ x, points)
    assert an.is_convex_set(lambda x: np.linalg.norm(x) <= 0.9, points)
    assert not an.is_convex_set(lambda x: 0.4 <= np.linalg.norm(x) <= 0.9, points)


def test_heat_identity():
    """D.GI4: ∂E/∂Σ = ½ ∇∇E for a smoothed SE kernel,
    by autodiff and by central differences in a free off-diagonal.
    """
    rng = np.random.default_rng(2)
    B = rng.normal(size=(3, 3))
    mean, S, centre = rng.normal(size=3), B @ B.T + 0.5 * np.eye(3), rng.normal(size=3)

    def smoothed(m, C):
        M = C + jnp.eye(3)
        return jnp.exp(-0.5 * (m - centre) @ jnp.linalg.solve(M, m - centre)) / jnp.sqrt(jnp.linalg.det(M))

    assert an.heat_residual(smoothed, mean, S) < 1e-14
    gradient = an.heat_gradient(smoothed, mean, S)
    h = 1e-5
    free = np.zeros((3, 3))
    free[0, 1] = free[1, 0] = h
    difference = (smoothed(mean, S + free) - smoothed(mean, S - free)) / (2 * h)
    np.testing.assert_allclose(2 * gradient[0, 1], difference, rtol=1e-7)
    free = np.diag([0.0, h, 0.0])
    np.testing.assert_allclose(
        gradient[1, 1], (smoothed(mean, S + free) - smoothed(mean, S - free)) / (2 * h), rtol=1e-7
    )


def test_heat_identity_notices_a_wrong_expectation():
    """D.GI4: a formula with a factor lost does not solve the heat equation; a singular Σ is no obstacle."""

    def wrong(m, C):
        return jnp.exp(-0.5 * m @ jnp.linalg.solve(C + jnp.eye(2), m))

    assert an.heat_residual(wrong, [0.3, 0.2], np.eye(2)) > 0.1

    def quadratic(m, C):
        return m @ m + jnp.trace(C)

    np.testing.assert_allclose(an.heat_gradient(quadratic, [1.0, 2.0], np.zeros((2, 2))), np.eye(2))


@steady
@given(p=st.floats(0, 1), q=st.floats(0.001, 0.999))
def test_bernoulli_kl(p, q):
    """B.MB7, A.N8 (A.22): equals the two-point KL (A.21), is never negative, and bounds 2(p−q)² (Pinsker)."""
    value = an.bernoulli_kl(p, q)
    np.testing.assert_allclose(value, an.discrete_kl([p, 1 - p], [q, 1 - q]), rtol=1e-9, atol=1e-15)
    assert value >= 2 * (p - q) ** 2 * (1 - 1e-12) - 1e-15
    assert an.bernoulli_kl(q, q) == 0.0


def test_discrete_entropy_and_kl():
    """B.MB7 (A.19, A.21): log n for the uniform, zero for certainty, infinite where q has no mass."""
    np.testing.assert_allclose(an.discrete_entropy(np.full(8, 1 / 8)), np.log(8), rtol=1e-15)
    assert an.discrete_entropy([1.0, 0.0]) == 0.0
    p = np.array([0.5, 0.3, 0.2])
    np.testing.assert_allclose(
        an.discrete_kl(p, np.full(3, 1 / 3)), np.log(3) - an.discrete_entropy(p), rtol=1e-13
    )
    assert an.bernoulli_kl(0.5, 0.0) == np.inf
    assert an.bernoulli_kl(0.0, 0.0) == 0.0


def test_rational_quadratic_limit():
    """B.MB9 (A.25): (1 + r²/2α)^−α at α = 1e6 is the SE to its next term x² e^−x / 2α,
    and at α = 1e16 to rounding.
    """
    x = np.linspace(0, 5, 51) ** 2 / 2
    np.testing.assert_allclose(an.rational_power(x, 3.0), (1 + x / 3) ** -3.0, rtol=1e-14)
    gap = an.rational_power(x, 1e6) - np.exp(-x)
    np.testing.assert_allclose(gap, x**2 * np.exp(-x) / 2e6, rtol=1e-4, atol=1e-15)
    np.testing.assert_allclose(an.rational_power(x, 1e16), np.exp(-x), rtol=1e-13)
    np.testing.assert_array_equal(an.rational_power(x, np.inf), np.exp(-x))
