"""Robust noise models: far tails, scale mixtures, outlier scores, outliers from a uniform background."""

import jax
import numpy as np
import pytest
from scipy import integrate, stats

from mercer.likelihoods import (
    AbstractNoise,
    ContaminatedUniform,
    Custom,
    EpsilonInsensitive,
    Gaussian,
    GaussianMixtureNoise,
    Laplace,
    StudentT,
    by_name,
)
from mercer.likelihoods.base import continuous_quantile
from mercer.likelihoods.quadrature import derivatives
from mercer.params import ParameterError, param, parameters
from mercer.persist import from_json, to_json

from .conformance import log_normal, panels

NOISES = {
    "student-t": lambda s: StudentT(s, 3.0),
    "cauchy": lambda s: StudentT(s, 1.0),
    "laplace": Laplace,
    "epsilon-insensitive": lambda s: EpsilonInsensitive(s, 0.5 * s),
    "mixture": lambda s: GaussianMixtureNoise(0.1, s**2, 100.0),
    "uniform": lambda s: ContaminatedUniform(0.1, s**2, 30.0 * s),
}


@jax.jit
def moments(noise, y, mean, variance):
    z, d1, d2 = derivatives(lambda m: noise.log_partition(y, m, variance), mean, 2)
    return z, mean + variance * d1, variance + variance**2 * d2


def integral(noise, y, mean, variance):
    """log Z, mean and variance of the tilted density by many panels, with breaks at the kinks."""
    sd = np.sqrt(variance)
    width, kink = float(noise.grain), float(getattr(noise, "epsilon", 0.0))
    low, high = min(mean, y) - 14 * sd, max(mean, y) + 14 * sd
    near = np.concatenate(
        [y + kink + width * np.linspace(-9, 9, 73), y - kink + width * np.linspace(-9, 9, 73)]
    )
    breaks = np.concatenate(
        [np.linspace(low, high, 1201), near[(near > low) & (near < high)], [y - kink, y + kink]]
    )
    f, w = panels(breaks)
    log_q = np.asarray(noise.log_prob(f, y)) + log_normal(f, mean, variance)
    top = log_q.max()
    q = np.exp(log_q - top) * w
    m = np.sum(q * f) / q.sum()
    return top + np.log(q.sum()), m, np.sum(q * (f - m) ** 2) / q.sum()


@pytest.mark.representative("student", "uniform")
@pytest.mark.representative("uniform", "mixture")
@pytest.mark.parametrize("noise", NOISES.values(), ids=NOISES)
def test_tilted_moments_far_into_the_tails(noise):
    """(y - m) / s up to 40, for noise narrower and wider than the cavity."""
    for s in (0.05, 0.5, 3.0):
        for ratio in (0.0, 0.1, 1.0, 5.0, 10.0, 20.0, 40.0):
            for sd in (1.0, s):
                y, at = ratio * (s if sd == s else sd), noise(s)
                z, m, v = (float(a) for a in moments(at, y, 0.0, sd**2))
                expected = integral(at, y, 0.0, sd**2)
                assert z == pytest.approx(expected[0], rel=1e-8, abs=1e-7)
                assert m == pytest.approx(expected[1], abs=1e-6 * sd)
                assert v == pytest.approx(expected[2], rel=2e-5, abs=1e-7 * sd**2)


def test_laplace_noise_where_naive_formulas_fail():
    """C.ROB11: y = 50, scale 0.05."""
    z, m, v = (float(a) for a in moments(Laplace(0.05), 50.0, 0.0, 1.0))
    assert (z, m, v) == pytest.approx((-797.6974149, 20.0, 1.0), abs=1e-6)
    s = 0.05
    assert z == pytest.approx(-50 / s + 0.5 / s**2 - np.log(2 * s), abs=1e-9)


def mixture_integral(mixing_pdf, e):
    """The density of a scale mixture of normals at e."""
    return integrate.quad(
        lambda u: mixing_pdf(np.exp(u)) * np.exp(u) * stats.norm.pdf(e, 0, np.exp(u / 2)),
        -40,
        40,
        limit=400,
        epsabs=1e-13,
        points=[-4, -2, 0, 2, 4],
    )[0]


def test_scale_mixtures_of_normals():
    """C.ROB1 (5.1): inverse-gamma variances are Student-t noise, exponential ones Laplace noise;
    two values are the mixture.
    """
    for e in (0.0, 0.3, 2.0, 7.0):
        student = mixture_integral(stats.invgamma(1.5, scale=1.5 * 0.49).pdf, e)
        assert np.exp(float(StudentT(0.7, 3.0).log_prob(0.0, e))) == pytest.approx(student, rel=1e-7)
        laplace = mixture_integral(stats.expon(scale=2 * 0.7**2).pdf, e)
        assert np.exp(float(Laplace(0.7).log_prob(0.0, e))) == pytest.approx(laplace, rel=1e-6)
        two = 0.8 * stats.norm.pdf(e, 0, 0.5) + 0.2 * stats.norm.pdf(e, 0, 2.0)
        assert np.exp(float(GaussianMixtureNoise(0.2, 0.25, 16.0).log_prob(0.0, e))) == pytest.approx(
            two, rel=1e-13
        )
    for noise in (StudentT(), Laplace(), GaussianMixtureNoise()):
        assert noise.scale_mixture
    assert not EpsilonInsensitive().scale_mixture and not ContaminatedUniform().scale_mixture


@pytest.mark.parametrize("noise", NOISES.values(), ids=NOISES)
def test_draws_distribution_and_influence(noise):
    """C.ROB1: draws follow the distribution function;
    Huber's psi is minus the slope of the log density in the residual.
    """
    at = noise(0.7)
    draws = at.sample(np.random.default_rng(3), np.zeros(4000))
    assert stats.kstest(draws, lambda e: np.asarray(at.noise_cdf(e))).pvalue > 1e-3
    r, h = np.array([-3.0, -0.1, 0.6, 5.0]), 1e-6
    slope = (np.asarray(at.log_prob(0.0, r + h)) - np.asarray(at.log_prob(0.0, r - h))) / (2 * h)
    np.testing.assert_allclose(at.influence(r), -slope, rtol=1e-6, atol=1e-7)


@pytest.mark.slow
def test_student_predictive_integrates_to_one():
    """C.ROB9: where f is known far less well than the noise is wide, and the reverse;
    quantiles agree with the density.
    """
    for sd, scale in ((5.0, 0.4), (0.1, 2.0)):
        noise = StudentT(scale, 3.0)
        y, w = panels(
            np.concatenate([np.linspace(-60, 60, 801), np.geomspace(60, 1e6, 80), -np.geomspace(60, 1e6, 80)])
        )
        density = w * np.exp(noise.log_density(y, 0.0, sd**2))
        assert density.sum() == pytest.approx(1.0, abs=1e-8)
        for q in (0.025, 0.5, 0.99):
            at = noise.quantile(q, np.zeros(1), np.full(1, sd**2))[0]
            t, w = panels(np.linspace(min(at, 0.0), max(at, 0.0), 101) if at else [0.0, 1e-9])
            below = np.sign(at) * np.sum(w * np.exp(noise.log_density(t, 0.0, sd**2)))
            assert 0.5 + below == pytest.approx(q, abs=1e-6)


# ------------------------------------------------------------------------------------------------- outlier
# scores


@pytest.mark.representative("student-t")
@pytest.mark.parametrize(
    "noise", [n for k, n in NOISES.items() if k != "cauchy"], ids=[k for k in NOISES if k != "cauchy"]
)
def test_outlier_scores_rise_from_regular_to_far(noise):
    y = np.array([0.0, 1.0, 3.0, 10.0, 1e3, 1e6])
    score = noise(0.3).outlier_score(y, np.zeros(6), np.full(6, 0.05))
    assert score.shape == (6,) and np.all(np.diff(score) >= 0) and np.all((score >= 0) & (score <= 1))
    assert score[0] < 0.3 and score[-1] > 0.99
    np.testing.assert_allclose(
        noise(0.3).outlier_score(-y, np.zeros(6), np.full(6, 0.05)), score, rtol=1e-9, atol=1e-12
    )


def test_student_score_is_the_lost_weight():
    """1 - E[w] / w(0), the expectation over the posterior of f given y."""
    noise, y, mean, variance = StudentT(0.4, 3.0), 1.3, 0.2, 0.3
    f, w = panels(np.linspace(-8, 8, 2001))
    q = w * np.exp(np.asarray(noise.log_prob(f, y)) + log_normal(f, mean, variance))
    weight = np.sum(q / (1 + (y - f) ** 2 / (3 * 0.16))) / q.sum()
    assert noise.outlier_score(np.array([y]), np.array([mean]), np.array([variance]))[0] == pytest.approx(
        1 - weight, abs=1e-9
    )


# ------------------------------------------------------------------------------------------------- a uniform
# background


def test_contaminated_uniform():
    """(1 - w) N + w / width; moments are those of the Gaussian part and of the cavity, weighted."""
    noise, y, mean, variance = ContaminatedUniform(0.2, 0.25, 8.0), 2.1, 0.3, 0.7
    regular, flat = 0.8 * stats.norm.pdf(y, mean, np.sqrt(0.95)), 0.2 / 8.0
    p = flat / (regular + flat)
    m1, v1 = (mean * 0.25 + y * 0.7) / 0.95, 0.7 * 0.25 / 0.95
    m = (1 - p) * m1 + p * mean
    v = (1 - p) * (v1 + (m1 - m) ** 2) + p * (variance + (mean - m) ** 2)
    z, got_m, got_v = (float(a) for a in moments(noise, y, mean, variance))
    assert (np.exp(z), got_m, got_v) == pytest.approx((regular + flat, m, v), rel=1e-12)
    assert noise.outlier_probability(y, mean, variance) == pytest.approx(p, rel=1e-12)
    draws = noise.sample(np.random.default_rng(0), np.zeros(40_000))
    assert draws.var() == pytest.approx(float(noise.noise_variance), rel=0.05)
    assert stats.kurtosis(draws) == pytest.approx(noise.kurtosis, abs=0.2)
    mean, variance = np.array([0.4, -1.0]), np.array([0.6, 2.0])
    for q in (0.01, 0.5, 0.97):
        at = noise.quantile(q, mean, variance)
        np.testing.assert_allclose(noise.cdf(at, mean, variance), q, atol=1e-10)
        f = mean[:, None] + np.sqrt(variance)[:, None] * np.random.default_rng(1).standard_normal((2, 40_000))
        share = np.mean(noise.sample(np.random.default_rng(2), f) <= at[:, None], 1)
        np.testing.assert_allclose(share, q, atol=0.01)


def test_contaminated_uniform_as_a_value():
    noise = by_name("uniform", width=5.0)
    assert [p.name for p in parameters(noise) if p.free] == ["weight", "variance"]
    assert to_json(from_json(to_json(noise))) == to_json(noise)
    with pytest.raises(ParameterError, match="positive"):
        ContaminatedUniform(width=0.0)


@pytest.mark.parametrize("dof", [0.25, 1.0, 2.5, 8.0, 40.0, 1e4])
def test_student_distribution_function_against_a_sum_over_f(dof):
    """From a noise far wider than the uncertainty of f to one far narrower;
    and the quantile is its inverse.
    """
    noise, z = StudentT(0.3, dof), np.linspace(-9, 9, 20001)
    weights = np.exp(-0.5 * z**2)
    weights /= weights.sum()
    y, mean, variance = (
        np.array([-2.0, 0.1, 0.4, 9.0]),
        np.array([0.3, 0.2, 0.0, -1.0]),
        np.array([1e-6, 1e-2, 1.0, 30.0]),
    )
    f = mean[:, None] + np.sqrt(variance)[:, None] * z
    reference = noise.noise_cdf(y[:, None] - f) @ weights
    np.testing.assert_allclose(noise.cdf(y, mean, variance), reference, rtol=1e-11, atol=1e-14)
    # by general quadrature
    np.testing.assert_allclose(AbstractNoise.cdf(noise, y, mean, variance), reference, atol=1e-7)
    for q in (1e-3, 0.5, 0.975):
        np.testing.assert_allclose(
            noise.cdf(noise.quantile(q, mean, variance), mean, variance), q, rtol=1e-11
        )
    assert noise.cdf(y, 0.0, 1.0).shape == (4,) and noise.cdf(0.3, 0.3, 1.0) == pytest.approx(0.5, abs=1e-14)


def test_very_heavy_tails_have_quantiles():
    y = StudentT(1.0, 0.1).quantile(0.9, np.zeros(1), np.full(1, 1e-4))
    assert StudentT(1.0, 0.1).noise_cdf(y)[0] == pytest.approx(0.9, abs=1e-6)


def test_quantiles_are_found_from_any_bracket():
    """Against normal and Cauchy quantiles, from brackets to the left, to the right, around and very far."""
    cauchy, norm = stats.cauchy, stats.norm
    q = np.array([1e-9, 0.02, 0.5, 0.9, 0.999])
    for low, high in ((-1.0, 1.0), (5.0, 6.0), (-80.0, -79.5), (-1e6, 1e6)):
        ends = np.full(5, low), np.full(5, high)
        np.testing.assert_allclose(continuous_quantile(norm.cdf, q, *ends), norm.ppf(q), rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(
            continuous_quantile(cauchy.cdf, q, *ends), cauchy.ppf(q), rtol=1e-6, atol=1e-9
        )


def test_a_variance_for_each_datum_cannot_be_learned():
    with pytest.raises(ParameterError, match="known, not learned"):
        Gaussian(param([0.1, 0.2]))
    assert not parameters(Gaussian(np.array([0.1, 0.2])))[0].free


def test_counts_of_your_own_without_their_values_are_refused_not_nan():
    def log_prob(f, y):
        return y * f - jax.numpy.exp(f) - jax.scipy.special.gammaln(y + 1)

    mean, variance = np.zeros(3), np.full(3, 0.5)
    with pytest.raises(ParameterError, match="values="):
        Custom(log_prob).predict(mean, variance)
    average, _ = Custom(log_prob, values=range(60)).predict(mean, variance)
    np.testing.assert_allclose(average, np.exp(0.25), rtol=1e-6)
