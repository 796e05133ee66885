"""Numbers from the texts (or derived from their formulas) that closed forms have to hit."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import integrate, stats

from mercer.likelihoods import (
    Bernoulli,
    EpsilonInsensitive,
    Gaussian,
    GaussianMixtureNoise,
    Laplace,
    Ordinal,
    Poisson,
    StudentT,
)
from mercer.likelihoods.quadrature import derivatives, log_integral
from mercer.likelihoods.special import (
    inverse_mills,
    log_logistic_normal,
    log_ndtr,
    log_sigmoid,
    log_sub,
    sigmoid,
)


def moments(likelihood, y, mean, variance):
    """Z, mean and variance of the tilted density."""
    z, d1, d2 = derivatives(lambda m: likelihood.log_partition(y, m, variance), mean, 2)
    return float(jnp.exp(z)), float(mean + variance * d1), float(variance + variance**2 * d2)


# ------------------------------------------------------------------------------------------------- special
# functions


def test_probit_derivatives_in_both_tails():
    """A.C4: asymptotic series in 1 / z^2 far left, where naive formulas have no digits left;
    closed forms near.
    """
    z = np.array([-1e5, -1e3, -60.0])
    _, d1, d2, d3 = derivatives(log_ndtr, z, 3)
    u = 1 / z**2
    np.testing.assert_allclose(d1, -z * (1 + u - 2 * u**2 + 10 * u**3), rtol=1e-10)
    np.testing.assert_allclose(d2, -(1 - u + 6 * u**2 - 50 * u**3), rtol=1e-8)
    np.testing.assert_allclose(d3, -2 / z**3 * (1 - 12 * u + 150 * u**2), rtol=1e-6)
    z = np.array([-4.9, -2.0, 0.0, 1.5, 6.0])
    _, d1, d2, d3 = derivatives(log_ndtr, z, 3)
    r = stats.norm.pdf(z) / stats.norm.cdf(z)
    np.testing.assert_allclose(d1, r, rtol=1e-13)
    np.testing.assert_allclose(d2, -r * (z + r), rtol=1e-12)
    np.testing.assert_allclose(d3, 2 * r**3 + 3 * z * r**2 + (z**2 - 1) * r, rtol=1e-9)


def test_probit_is_smooth_where_the_continued_fraction_takes_over():
    z = np.array([-5.0 - 1e-9, -5.0 + 1e-9])
    for value in derivatives(log_ndtr, z, 3):
        assert float(value[0]) == pytest.approx(float(value[1]), rel=1e-7)
    h = 1e-4
    fourth = (inverse_third(-8 + h) - inverse_third(-8 - h)) / (2 * h)
    assert derivatives(log_ndtr, np.array(-8.0), 4)[4] == pytest.approx(fourth, rel=1e-6)


def inverse_third(z):
    return float(derivatives(inverse_mills, np.array(z), 2)[2])


def test_logistic_derivatives_keep_their_digits():
    """A.C4, E1: t - pi, -pi (1 - pi), -pi (1 - pi)(1 - 2 pi)."""
    f = np.array([-300.0, -40.0, -1.0, 0.3, 50.0])
    _, d1, d2, d3 = derivatives(log_sigmoid, f, 3)
    p, q = 1 / (1 + np.exp(-f)), 1 / (1 + np.exp(f))
    np.testing.assert_allclose(d1, q, rtol=1e-14)
    np.testing.assert_allclose(d2, -p * q, rtol=1e-14)
    np.testing.assert_allclose(d3, -p * q * (q - p), rtol=1e-13)


def test_log_difference():
    assert log_sub(jnp.log(3.0), jnp.log(1.0)) == pytest.approx(np.log(2.0), rel=1e-15)
    assert log_sub(-1000.0, -1000.0 - 2.0**-30) == pytest.approx(-1000 - 30 * np.log(2.0), rel=1e-12)


# ------------------------------------------------------------------------------------------------- binary
# labels


def test_gpml_figure_3_4():
    """A.C16: y = +1 and cavity N(1, 9)."""
    Z, mean, variance = moments(Bernoulli(), 1.0, 1.0, 9.0)
    assert (Z, mean, variance) == pytest.approx((0.624085, 2.730589, 4.447531), abs=1e-6)
    precision = 1 / variance - 1 / 9
    assert (1 / precision, (mean / variance - 1 / 9) / precision) == pytest.approx(
        (8.792543, 4.421287), abs=1e-5
    )


def test_probit_moments():
    """C.CLS3 (6.10), and the corrected second moment."""
    Z, mean, variance = moments(Bernoulli(), -1.0, 0.6, 2.3)
    assert (Z, mean, variance + mean**2) == pytest.approx(
        (0.3705907529, -0.6906175413, 1.6509717405), abs=1e-9
    )


def test_probit_integral_of_any_width():
    """A.C16 (3.82), (3.85), (3.87): Phi((x - m) / v) for a width v, by a change of variable,
    against scipy's integral.
    """
    m, v, mu, variance = 0.4, 1.7, -0.6, 2.5
    Z, mean, var = moments(Bernoulli(), 1.0, (mu - m) / v, variance / v**2)
    f = stats.norm(mu, np.sqrt(variance)).pdf
    w = [
        integrate.quad(lambda x, k=k: x**k * stats.norm.cdf((x - m) / v) * f(x), -20, 20, epsabs=1e-13)[0]
        for k in range(3)
    ]
    assert pytest.approx(w[0], rel=1e-11) == Z
    assert m + v * mean == pytest.approx(w[1] / w[0], rel=1e-10)
    assert v**2 * var == pytest.approx(w[2] / w[0] - (w[1] / w[0]) ** 2, rel=1e-9)


def test_one_observation():
    """C.VER2: prior N(0, 25), y = 1."""
    assert moments(Bernoulli(), 1.0, 0.0, 25.0) == pytest.approx((0.5, 3.91195091, 9.69664009), abs=1e-8)


def test_wrong_labels():
    """C.CLS14 (6.18); and no wrong labels is C.CLS3."""
    Z, mean, variance = moments(Bernoulli(flip=0.1), 1.0, -0.7, 1.9)
    assert (Z, mean, variance + mean**2) == pytest.approx(
        (0.3724131305, 0.1786972638, 1.5628125758), abs=1e-9
    )
    assert moments(Bernoulli(flip=1e-15), -1.0, 0.6, 2.3) == pytest.approx(
        moments(Bernoulli(), -1.0, 0.6, 2.3), rel=1e-12
    )
    assert not Bernoulli(flip=0.1).log_concave and Bernoulli().log_concave


def test_slope_in_flip_at_zero():
    """log p = log(flip + (1 - 2 flip) Phi): the slope at flip = 0 is 1 / Phi - 2."""
    slope = jax.grad(lambda l: l.log_prob(-1.2, 1.0))(Bernoulli()).flip
    assert slope == pytest.approx(1 / stats.norm.cdf(-1.2) - 2, rel=1e-12)


@pytest.mark.parametrize(
    "mean, variance", [(0.0, 1.0), (1.5, 4.0), (-3.0, 0.3), (2.0, 400.0), (-40.0, 25.0), (-300.0, 1.0)]
)
def test_logistic_normal_integral(mean, variance):
    """A.C9: the mixture of probits against scipy's adaptive integral, to 1e-10; also where it is e^-300."""
    sd = np.sqrt(variance)
    peak = mean + variance if mean + variance < 0 else 0.0  # where sigma(f) N(f) is largest, roughly
    top = float(log_sigmoid(peak)) + stats.norm.logpdf(peak, mean, sd)

    def integrand(f):
        return np.exp(
            -np.logaddexp(0.0, -f) - 0.5 * ((f - mean) / sd) ** 2 - np.log(sd) - 0.5 * np.log(2 * np.pi) - top
        )

    breaks = sorted({peak, 0.0, mean})
    low, high = min(mean, peak) - 12 * sd, max(mean, peak) + 12 * sd
    value = integrate.quad(
        integrand, low, high, points=[b for b in breaks if low < b < high], epsabs=0, epsrel=1e-12, limit=500
    )[0]
    assert log_logistic_normal(mean, variance) == pytest.approx(top + np.log(value), abs=1e-10)


@pytest.mark.slow
def test_logistic_normal_limits():
    f = np.array([-500.0, -20.0, 0.0, 3.0, 40.0])
    value, d1, d2 = derivatives(lambda m: log_logistic_normal(m, 0.0), f, 2)
    np.testing.assert_allclose(value, log_sigmoid(f), rtol=1e-13, atol=1e-15)
    np.testing.assert_allclose(d1, sigmoid(-f), rtol=1e-11)
    np.testing.assert_allclose(d2, -sigmoid(f) * sigmoid(-f), rtol=1e-10, atol=1e-25)
    # a step, seen from far
    assert log_logistic_normal(1e3, 1e6) == pytest.approx(float(log_ndtr(1.0)), abs=2e-6)


def test_averaged_and_map_probabilities():
    """A.C9, C.CLS4: the average is nearer 1/2, the label the same;
    MacKay's approximation is good to a percent or two.
    """
    mean, variance = np.linspace(-6, 6, 41), np.full(41, 7.0)
    for likelihood in (Bernoulli(), Bernoulli("logit")):
        average, plugged = (
            likelihood.probability(mean, variance),
            likelihood.probability(mean, variance, "map"),
        )
        assert np.all(np.abs(average - 0.5) <= np.abs(plugged - 0.5) + 1e-15)
        np.testing.assert_array_equal(
            np.sign(np.round(average - 0.5, 12)), np.sign(np.round(plugged - 0.5, 12))
        )
        assert likelihood.probability(0.0, 1e3) == pytest.approx(0.5, abs=1e-12)
    np.testing.assert_allclose(
        Bernoulli().probability(mean, variance), stats.norm.cdf(mean / np.sqrt(8.0)), rtol=1e-12
    )
    logit = Bernoulli("logit")
    assert (
        np.max(np.abs(logit.probability(mean, variance, "mackay") - logit.probability(mean, variance))) < 0.02
    )
    with pytest.raises(ValueError, match="exact"):
        Bernoulli().probability(mean, variance, "mackay")
    with pytest.raises(ValueError, match="'average', 'map' or 'mackay'"):
        Bernoulli().probability(mean, variance, "mean")


def test_local_bound_touches_and_stays_below():
    logit, z = Bernoulli("logit"), np.linspace(-15, 15, 301)
    for xi in (0.0, 1e-6, 1e-4, 0.7, 5.0, 200.0):
        lam, constant = logit.local_bound(xi)
        assert np.all(z / 2 - lam * z**2 + constant <= log_sigmoid(z) + 1e-12)
        for end in (xi, -xi):
            assert end / 2 - lam * end**2 + constant == pytest.approx(float(log_sigmoid(end)), abs=1e-12)
    assert logit.local_bound(0.0)[0] == 0.125
    with pytest.raises(ValueError, match="logit"):
        Bernoulli().local_bound(1.0)


# ------------------------------------------------------------------------------------------------- noise


def test_normal_component():
    """C.ROB3, C.VER6: with (5.10c) corrected."""
    Z, mean, variance = moments(Gaussian(0.25), 1.3, -0.4, 0.7)
    assert (Z, mean, variance + mean**2) == pytest.approx(
        (0.0894259368, 0.8526315789, 0.9111911357), abs=1e-9
    )


def test_mixture_moments_are_those_of_its_components():
    """C.ROB2, C.ROB3 (5.9); a negligible share of outliers is Gaussian noise."""
    y, mean, variance = 2.4, -0.4, 0.7
    noise = GaussianMixtureNoise(0.3, 0.25, 16.0)
    parts = [moments(Gaussian(v), y, mean, variance) for v in (0.25, 4.0)]
    w = np.array([0.7 * parts[0][0], 0.3 * parts[1][0]])
    Z, p = w.sum(), w / w.sum()
    m = p @ [parts[0][1], parts[1][1]]
    v = p @ [parts[0][2] + (parts[0][1] - m) ** 2, parts[1][2] + (parts[1][1] - m) ** 2]
    assert moments(noise, y, mean, variance) == pytest.approx((Z, m, v), rel=1e-12)
    assert noise.outlier_probability(y, mean, variance) == pytest.approx(p[1], rel=1e-12)
    rare = GaussianMixtureNoise(1e-14, 0.25, 16.0)
    assert moments(rare, 1.3, mean, variance) == pytest.approx(
        moments(Gaussian(0.25), 1.3, mean, variance), rel=1e-11
    )


@pytest.mark.parametrize(
    "y, scale, mean, variance, expected",
    [
        (0.3, 0.5, -0.2, 0.8, (np.log(0.3264062256), 0.1538993634, 0.2425726535)),
        (50.0, 0.05, 0.0, 1.0, (-797.69741, 20.0, 1.0)),
        (0.0, 1.0, 0.0, 1.0, (np.log(0.2615782919), 0.0, 0.4748647238)),
    ],
)
def test_laplace_moments(y, scale, mean, variance, expected):
    """C.ROB11 (5.56)-(5.60), C.VER6."""
    z, d1, d2 = derivatives(lambda m: Laplace(scale).log_partition(y, m, variance), mean, 2)
    got = (float(z), float(mean + variance * d1), float(variance + variance**2 * d2))
    assert got == pytest.approx(expected, rel=1e-9, abs=5e-6 if y == 50 else 1e-9)


def test_laplace_pins_f_to_y_as_the_scale_vanishes():
    _, mean, variance = moments(Laplace(1e-6), 0.8, 0.0, 1.0)
    assert mean == pytest.approx(0.8, abs=1e-10) and variance == pytest.approx(2e-12, rel=1e-3, abs=1e-15)


@pytest.mark.slow
def test_laplace_noise_in_closed_form_and_by_quadrature():
    """C.INF9: quadrature moments equal the closed ones."""
    for likelihood, y in ((Bernoulli(), 1.0), (Gaussian(0.2), 0.9), (Poisson(), 3.0)):
        direct = log_integral(lambda f, l=likelihood, y=y: l.log_prob(f, y), 0.4, 1.3)
        assert direct == pytest.approx(float(likelihood.log_partition(y, 0.4, 1.3)), abs=1e-12)


def test_student_noise_in_a_wide_gaussian():
    """C.ROB9: the predictive density where 64 Gauss-Hermite nodes give about half of it (sd 5, scale 0.4)."""
    for dof in (2.0, 3.0, 30.0):
        noise = StudentT(0.4, dof)

        def integrand(f, dof=dof):
            return stats.t.pdf(-f / 0.4, dof) / 0.4 * stats.norm.pdf(f, 0, 5)

        truth = integrate.quad(integrand, -60, 60, points=[-0.4, 0, 0.4], epsrel=1e-12, limit=300)[0]
        assert np.exp(noise.log_density(0.0, 0.0, 25.0)) == pytest.approx(truth, rel=1e-9)


@pytest.mark.slow
def test_student_noise_is_a_scale_mixture_of_normals():
    """C.ROB1, C.ROB7 (5.20)-(5.21): InvGamma(dof / 2, dof scale^2 / 2) variances."""
    noise, mean, variance, y = StudentT(0.7, 3.0), 0.2, 0.9, 2.2
    mixing = stats.invgamma(1.5, scale=1.5 * 0.49)
    truth = integrate.quad(
        lambda u: mixing.pdf(np.exp(u)) * np.exp(u) * stats.norm.pdf(y, mean, np.sqrt(variance + np.exp(u))),
        -9,
        30,
    )
    assert np.exp(noise.log_density(y, mean, variance)) == pytest.approx(truth[0], rel=1e-7)
    assert moments(StudentT(0.5, 1e9), 1.3, -0.4, 0.7) == pytest.approx(
        moments(Gaussian(0.25), 1.3, -0.4, 0.7), rel=1e-7
    )


def test_student_derivatives():
    """A.X7, C.ROB7."""
    f, y, nu, s = 0.3, 2.0, 3.0, 0.6
    r, q = y - f, nu * s**2 + (y - f) ** 2
    value, d1, d2 = StudentT(s, nu).derivatives(f, y, 2)
    assert value == pytest.approx(stats.t.logpdf(r / s, nu) - np.log(s), rel=1e-13)
    assert d1 == pytest.approx((nu + 1) * r / q, rel=1e-13)
    assert d2 == pytest.approx((nu + 1) * (r**2 - nu * s**2) / q**2, rel=1e-12)
    assert StudentT(s, nu).fisher(f, y)[0] == pytest.approx((nu + 1) / q, rel=1e-14)


def test_influence():
    """C.ROB1 (Fig. 5.20): linear, constant, redescending; for a mixture first one slope, then the other."""
    r = np.array([0.1, 1.0, 50.0])
    laplace, student, mixture = Laplace(0.5), StudentT(0.5, 3.0), GaussianMixtureNoise(0.1, 0.1, 100.0)
    np.testing.assert_allclose(laplace.influence(r), 2.0)
    assert student.influence(r)[2] < student.influence(r)[1] and student.influence(
        np.array([1e6])
    ) == pytest.approx(0, abs=1e-5)
    assert mixture.influence(r)[[0, 2]] / r[[0, 2]] == pytest.approx([10.0, 0.1], rel=0.02)
    np.testing.assert_allclose(laplace.influence(-r), -laplace.influence(r))


@pytest.mark.parametrize(
    "noise, frozen", [(StudentT(0.7, 5.0), stats.t(5.0, scale=0.7)), (Laplace(0.7), stats.laplace(scale=0.7))]
)
def test_noise_distributions(noise, frozen):
    """C.ROB1: log density, distribution function, variance and kurtosis."""
    e = np.array([-2.0, -0.1, 0.6, 3.0])
    np.testing.assert_allclose(noise.log_prob(0.0, e), frozen.logpdf(e), rtol=1e-12)
    np.testing.assert_allclose(noise.noise_cdf(e), frozen.cdf(e), rtol=1e-12)
    assert noise.noise_variance == pytest.approx(frozen.var(), rel=1e-12)
    assert noise.kurtosis == pytest.approx(float(frozen.stats("k")), rel=1e-12)


@pytest.mark.parametrize("noise", [EpsilonInsensitive(0.5, 0.3), GaussianMixtureNoise(0.2, 0.4, 9.0)])
def test_noise_moments_by_integration(noise):
    """C.ROB2, C.ROB13."""

    def integral(k, high=np.inf):
        cuts = [-np.inf, -0.3, 0.3, np.inf] if high == np.inf else [-np.inf, -0.3, high]
        density = lambda e: e**k * np.exp(float(noise.log_prob(0.0, e)))  # noqa: E731
        return sum(integrate.quad(density, a, b, epsabs=1e-11)[0] for a, b in itertools.pairwise(cuts))

    assert integral(0) == pytest.approx(1.0, abs=1e-9)
    assert noise.noise_variance == pytest.approx(integral(2), rel=1e-8)
    assert noise.kurtosis == pytest.approx(integral(4) / integral(2) ** 2 - 3, rel=1e-7)
    assert noise.noise_cdf(np.array(0.2)) == pytest.approx(integral(0, 0.2), abs=1e-9)


def test_epsilon_to_zero_is_laplace_noise():
    """C.ROB13."""
    got = moments(EpsilonInsensitive(0.5, 1e-9), 0.3, -0.2, 0.8)
    assert got == pytest.approx(moments(Laplace(0.5), 0.3, -0.2, 0.8), rel=1e-7)


def test_noise_without_moments_says_so():
    assert StudentT(1.0, 2.0).noise_variance == np.inf and np.isnan(StudentT(1.0, 2.0).kurtosis)
    assert StudentT(1.0, 3.0).kurtosis == np.inf


# ------------------------------------------------------------------------------------------------- counts and
# ranks


def test_poisson_rate():
    """A.X5: E[rate] = exp(m + v / 2); the variance by the law of total variance."""
    mean, variance = Poisson(2.0).predict(np.array([0.3]), np.array([0.8]))
    rate = 2.0 * np.exp(0.3 + 0.4)
    assert mean == pytest.approx(rate, rel=1e-14)
    assert variance == pytest.approx(rate + rate**2 * (np.exp(0.8) - 1), rel=1e-14)
    f = np.array([0.2, 1.4])
    np.testing.assert_allclose(
        Poisson(2.0).log_prob(f, np.array([3.0, 0.0])),
        stats.poisson.logpmf([3, 0], 2 * np.exp(f)),
        rtol=1e-13,
    )
    np.testing.assert_allclose(Poisson(2.0).curvature(f, np.array([3.0, 0.0]))[0], 2 * np.exp(f), rtol=1e-13)


def test_poisson_exposure_for_each_datum():
    """One exposure per datum is the same as one likelihood per datum."""
    y, mean, variance, exposure = (
        np.array([0.0, 2.0, 9.0]),
        np.array([0.1, 0.5, 1.0]),
        np.array([0.3, 2.0, 30.0]),
        [1.0, 0.5, 4.0],
    )
    whole = Poisson(exposure)
    assert whole.per_datum and not Poisson(2.0).per_datum
    for name in ("log_partition", "expectation"):
        single = [
            float(getattr(Poisson(e), name)(y[i], mean[i], variance[i])) for i, e in enumerate(exposure)
        ]
        np.testing.assert_allclose(getattr(whole, name)(y, mean, variance), single, rtol=1e-11)
    np.testing.assert_allclose(whole.guess(y), np.log((y + 0.5) / exposure))


def test_many_counts_look_gaussian_in_the_log():
    """A.X5: large counts are GP regression on log counts with noise 1 / y."""
    y = 1e6
    _, mean, variance = moments(Poisson(), y, 13.0, 1.0)
    assert mean == pytest.approx(np.log(y), abs=3e-6) and variance == pytest.approx(1 / y, rel=1e-4)


def test_two_ordered_levels_are_a_probit_classifier():
    """A.X8: J = 2."""
    ordinal, probit = Ordinal([0.0]), Bernoulli()
    f, v = np.linspace(-9, 9, 7), np.linspace(0, 4, 7)
    for level, label in ((0.0, -1.0), (1.0, 1.0)):
        np.testing.assert_allclose(
            ordinal.log_prob(f, np.full(7, level)), probit.log_prob(f, label), rtol=1e-14
        )
        np.testing.assert_allclose(
            ordinal.log_partition(np.full(7, level), f, v), probit.log_partition(label, f, v), rtol=1e-14
        )


def test_ordinal_levels():
    """A.X8: probabilities sum to one far out too, thresholds stay in order, tails keep their digits."""
    ordinal = Ordinal([-1.0, 0.0, 2.5])
    np.testing.assert_allclose(ordinal.thresholds, [-1.0, 0.0, 2.5])
    np.testing.assert_allclose(
        ordinal.probability(np.array([-40.0, 0.3, 60.0]), np.array([0.5, 3.0, 1e4])).sum(-1), 1.0, rtol=1e-13
    )
    assert stats.norm.cdf(40.0) - stats.norm.cdf(39.0) == 0.0  # what plain differences give
    assert ordinal.log_prob(-40.0, 1.0) == pytest.approx(stats.norm.logsf(39.0), rel=1e-12)
    np.testing.assert_allclose(Ordinal(4).thresholds, [-1.0, 0.0, 1.0])
    assert Ordinal(2).increments.shape == (0,)
