"""Gibbs sampling, over-relaxation and importance sampling."""

import numpy as np
import pytest
from scipy.special import log_ndtr, ndtr, ndtri

from mercer.sampling import gibbs, importance_sample, over_relaxed_bernoulli, self_normalised


def test_gibbs_on_a_correlated_gaussian():
    rho = 0.8
    conditional = lambda other: lambda rng, s: rng.normal(rho * s[other], np.sqrt(1 - rho**2))  # noqa: E731
    out = gibbs({"x": conditional("y"), "y": conditional("x")}, {"x": 0.0, "y": 0.0}, 20_000, burn=50)
    draws = np.stack([out["x"], out["y"]])
    np.testing.assert_allclose(np.cov(draws), [[1, rho], [rho, 1]], atol=0.1)  # standard errors about 0.025


def test_truncated_gaussian_in_767_dimensions():
    """Kuss' Figure 6.4c: one eigenvalue of 100 along the diagonal, all others 1, truncated to x >= 0.
    x_i = e_i + s u.
    """
    d, s = 767, np.sqrt(99 / 767)

    def x_given_u(rng, state):
        low = ndtr(-s * state["u"])
        return s * state["u"] - ndtri((1 - low) * rng.random(d))

    def u_given_x(rng, state):
        precision = 1 + d * s**2
        return rng.normal(s * state["x"].sum() / precision, precision**-0.5)

    out = gibbs(
        {"x": x_given_u, "u": u_given_x},
        {"x": np.full(d, 2.0), "u": 6.0},
        12_000,
        burn=500,
        thin=2,
        keep=("x",),
    )["x"]
    # all coordinates are alike, so averages are over all of them; what is left is the error of the common u,
    # about 1 %
    np.testing.assert_allclose(out.mean(), 2.415638, rtol=0.015)
    np.testing.assert_allclose(np.sqrt(np.mean(out**2) - out.mean() ** 2), 0.980016, rtol=0.015)
    z = (out - 2.415638) / 0.980016
    np.testing.assert_allclose(np.mean(z**3), 0.128182, atol=0.06)


@pytest.mark.parametrize("p", [0.1, 0.5, 0.8])
def test_over_relaxation_keeps_the_probability_and_forgets_faster(p):
    out = gibbs(
        {"c": lambda rng, s: over_relaxed_bernoulli(rng, s["c"], p)}, {"c": np.zeros(50, int)}, 2000, burn=10
    )["c"]
    assert set(np.unique(out)) <= {0, 1}
    np.testing.assert_allclose(out.mean(), p, atol=4 * np.sqrt(p * (1 - p) / out.size) + 0.002)
    lag = np.mean((out[1:] - p) * (out[:-1] - p)) / (p * (1 - p))
    # eigenvalue of the two-state chain; plain Gibbs has 0
    expected = 1 - min(1, p / (1 - p)) - min(1, (1 - p) / p)
    np.testing.assert_allclose(lag, expected, atol=0.02)
    assert lag < -0.05


def test_over_relaxation_at_the_ends():
    rng = np.random.default_rng(0)
    np.testing.assert_array_equal(
        over_relaxed_bernoulli(rng, np.array([0, 1, 0, 1]), np.array([0.0, 0.0, 1.0, 1.0])), [0, 0, 1, 1]
    )


def test_gibbs_says_what_is_wrong_and_keeps_draws_when_interrupted():
    with pytest.raises(ValueError, match=r"\['y'\]"):
        gibbs({"x": lambda rng, s: 0.0}, {"x": 0.0, "y": 0.0}, 10)
    with pytest.raises(ValueError, match="sweeps > burn"):
        gibbs({"x": lambda rng, s: 0.0}, {"x": 0.0}, 10, burn=10)

    def progress(done, total, text):
        if done == 30:
            raise KeyboardInterrupt

    assert gibbs({"x": lambda rng, s: rng.normal()}, {"x": 0.0}, 100, burn=10, progress=progress)[
        "x"
    ].shape == (20,)


def test_importance_sampling_of_a_one_dimensional_evidence():
    """Prior N(0, 25), y = 1, probit: the evidence is 1/2 and the posterior mean 3.912."""
    w = importance_sample(
        lambda f: -0.5 * f**2 / 25 - 0.5 * np.log(2 * np.pi * 25) + log_ndtr(f),
        lambda rng, size: rng.normal(4.0, 4.0, size),
        lambda f: -0.5 * ((f - 4) / 4) ** 2 - 0.5 * np.log(2 * np.pi * 16),
        20_000,
    )
    assert w.standard_error < 0.01
    assert abs(w.log_normaliser - np.log(0.5)) < 4 * w.standard_error
    np.testing.assert_allclose(w.average(w.draws), 3.91195, atol=0.12)
    np.testing.assert_allclose(w.weights.sum(), 1.0)
    assert 5_000 < w.effective_sample_size < 20_000


def test_importance_weights_collapse_with_dimension():
    sizes = []
    for d in (1, 10, 40):
        w = importance_sample(
            lambda x: -0.5 * np.sum(x**2, 1), lambda rng, size, d=d: 1.3 * rng.standard_normal((size, d)),
            lambda x: -0.5 * np.sum((x / 1.3) ** 2, 1), 4000,
        )  # fmt: skip
        sizes.append(w.effective_sample_size)
    assert sizes[0] > 3000 > sizes[1] > 300 > sizes[2]
    with pytest.raises(ValueError, match="misses the density"):
        self_normalised(np.full(3, -np.inf), np.zeros(3), np.zeros(3))
