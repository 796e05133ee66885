from itertools import pairwise

import numpy as np
import pytest
from scipy import integrate, optimize, stats

from mercer.decide import PredictiveMixture, Samples, expected_loss, gaussian, optimal_prediction

MEAN, STD = np.array([-1.0, 0.0, 3.0]), np.array([0.5, 2.0, 1.0])
W, M, S = np.array([0.7, 0.3]), np.array([0.0, 4.0]), np.array([1.0, 0.5])
SKEWED = PredictiveMixture(W, M, S)
LOSSES = {
    "squared": ({}, lambda y, g: (y - g) ** 2),
    "absolute": ({}, lambda y, g: np.abs(y - g)),
    "pinball": ({"q": 0.8}, lambda y, g: np.where(y > g, 0.8 * (y - g), 0.2 * (g - y))),
    "linex": ({"a": 0.7}, lambda y, g: np.exp(0.7 * (g - y)) - 0.7 * (g - y) - 1),
}


def density(y):
    return W @ stats.norm.pdf(y, M, S)


def brute_risk(loss, g):
    """Adaptive quadrature of the loss under the two-component mixture,
    cut at the guess and at the components.
    """
    cuts = sorted({-12.0, -3.0, 0.0, 3.0, 4.0, 8.0, 16.0, float(g)})
    parts = [
        integrate.quad(lambda y: loss(y, g) * density(y), a, b, epsabs=1e-12)[0] for a, b in pairwise(cuts)
    ]
    return sum(parts)


def test_gaussian_closed_forms():
    p = gaussian(MEAN, STD)
    guess, risk = optimal_prediction(p)
    np.testing.assert_allclose(guess, MEAN, rtol=1e-15)
    np.testing.assert_allclose(risk, STD**2, rtol=1e-15)
    guess, risk = optimal_prediction(p, "absolute")
    np.testing.assert_array_equal(guess, MEAN)  # mean = median
    np.testing.assert_allclose(risk, STD * np.sqrt(2 / np.pi), rtol=1e-14)
    guess, risk = optimal_prediction(p, "pinball", q=0.9)
    np.testing.assert_allclose(guess, stats.norm.ppf(0.9, MEAN, STD), rtol=1e-14)
    np.testing.assert_allclose(risk, STD * stats.norm.pdf(stats.norm.ppf(0.9)), rtol=1e-13)
    guess, risk = optimal_prediction(p, "linex", a=1.5)
    np.testing.assert_allclose(guess, MEAN - 0.75 * STD**2, rtol=1e-14)
    np.testing.assert_allclose(risk, 0.5 * (1.5 * STD) ** 2, rtol=1e-12)
    guess, risk = optimal_prediction(p, "zero-one", width=0.3)
    np.testing.assert_array_equal(guess, MEAN)
    np.testing.assert_allclose(risk, 2 * stats.norm.sf(0.3 / STD), rtol=1e-12)
    assert np.all(optimal_prediction(p, "zero-one").risk == 1)


@pytest.mark.parametrize("name", LOSSES)
def test_mixture_against_adaptive_quadrature_and_minimisation(name):
    parameters, loss = LOSSES[name]
    guess, risk = optimal_prediction(SKEWED, name, **parameters)
    brute = optimize.minimize_scalar(
        lambda g: brute_risk(loss, g), bracket=(guess[0] - 1, guess[0] + 0.1, guess[0] + 1), tol=1e-10
    )
    assert guess[0] == pytest.approx(brute.x, abs=1e-6)
    assert risk[0] == pytest.approx(brute.fun, rel=1e-9)
    assert expected_loss(SKEWED, 2.2, name, **parameters)[0] == pytest.approx(brute_risk(loss, 2.2), rel=1e-9)


@pytest.mark.parametrize("name", LOSSES)
def test_a_function_gives_what_its_name_gives(name):
    parameters, loss = LOSSES[name]
    for p in (SKEWED, gaussian(MEAN, STD)):
        named, general = optimal_prediction(p, name, **parameters), optimal_prediction(p, loss)
        np.testing.assert_allclose(general.guess, named.guess, atol=3e-7)
        np.testing.assert_allclose(general.risk, named.risk, rtol=1e-11)


def test_gauss_hermite_is_exact_for_polynomials():
    p = gaussian(MEAN, STD)
    risk = expected_loss(p, MEAN + 1, lambda y, g: (y - g) ** 4, smooth=True)
    np.testing.assert_allclose(risk, 3 * STD**4 + 6 * STD**2 + 1, rtol=1e-12)
    np.testing.assert_allclose(expected_loss(p, MEAN + 1, lambda y, g: (y - g) ** 4), risk, rtol=1e-12)
    np.testing.assert_allclose(
        optimal_prediction(p, lambda y, g: (y - g) ** 4, smooth=True).guess, MEAN, atol=1e-3
    )


def test_asymmetric_square_gives_the_expectile():
    """The τ-expectile of N(0, 1) solves τ E(y-g)⁺ = (1-τ) E(g-y)⁺."""
    tau = 0.8

    def loss(y, g):
        return np.where(y > g, tau, 1 - tau) * (y - g) ** 2

    def condition(g):
        excess = stats.norm.pdf(g) - g * stats.norm.sf(g)
        return tau * excess - (1 - tau) * (excess + g)

    expectile = optimize.brentq(condition, -3, 3, xtol=1e-14)
    guess = optimal_prediction(gaussian(MEAN, STD), loss).guess
    np.testing.assert_allclose(guess, MEAN + STD * expectile, atol=1e-6)


def test_symmetric_loss_of_a_symmetric_prediction_gives_the_mean():
    guess = optimal_prediction(gaussian(MEAN, STD), lambda y, g: np.minimum(np.abs(y - g), 1.5)).guess
    np.testing.assert_allclose(guess, MEAN, atol=1e-3)


def test_skewed_prediction_has_three_different_answers():
    mean, median, mode = (
        optimal_prediction(SKEWED, loss).guess[0] for loss in ("squared", "absolute", "zero-one")
    )
    assert mean == pytest.approx(1.2, rel=1e-14)
    assert W @ stats.norm.cdf(median, M, S) == pytest.approx(0.5, abs=1e-14)
    assert mode == pytest.approx(
        optimize.minimize_scalar(lambda y: -density(y), (-0.5, 0, 0.5), tol=1e-10).x, abs=1e-6
    )
    assert mode < median < mean


def test_median_of_a_mixture_is_not_the_average_of_medians():
    p = PredictiveMixture(
        np.full((3, 1), 1 / 3), [[0.0, 0.0], [1.0, 0.0], [50.0, 9.0]], [[1.0, 1.0], [2.0, 1.0], [1.0, 1e-3]]
    )
    median = optimal_prediction(p, "absolute").guess
    for j in range(2):
        assert np.mean(stats.norm.cdf(median[j], p.means[:, j], p.stds[:, j])) == pytest.approx(
            0.5, abs=1e-13
        )
    assert np.all(median < p.means.mean(axis=0) - 1)


def test_zero_one_with_width_finds_the_fullest_interval_of_a_mixture():
    spike = PredictiveMixture([0.3, 0.7], [0.0, 6.0], [0.01, 2.0])
    assert optimal_prediction(spike, "zero-one").guess[0] == pytest.approx(0, abs=1e-3)
    guess, risk = optimal_prediction(spike, "zero-one", width=3.0)
    brute = np.linspace(-5, 12, 20001)
    caught = spike.probability(brute - 3.0, brute + 3.0)
    assert guess[0] == pytest.approx(brute[np.argmax(caught)], abs=1e-3)
    assert 1 - caught.max() - 1e-5 < risk[0] <= 1 - caught.max()


def test_samples_agree_with_the_mixture_they_come_from():
    rng = np.random.default_rng(0)
    component = rng.random(200_000) < 0.3
    draws = np.where(component, rng.normal(4, 0.5, 200_000), rng.normal(0, 1, 200_000))
    for name, (parameters, _) in LOSSES.items():
        mixture = optimal_prediction(SKEWED, name, **parameters)
        samples = optimal_prediction(Samples(draws), name, **parameters)
        assert samples.guess[0] == pytest.approx(mixture.guess[0], abs=0.02)
        assert samples.risk[0] == pytest.approx(mixture.risk[0], rel=0.02)


def test_samples_minimise_their_own_average_loss():
    draws = np.random.default_rng(1).gamma(2.0, size=(101, 2))
    for name, (parameters, loss) in LOSSES.items():
        guess, risk = optimal_prediction(Samples(draws), name, **parameters)
        np.testing.assert_allclose(risk, loss(draws, guess).mean(axis=0), rtol=1e-12)
        for other in np.linspace(-1, 8, 181):
            assert np.all(risk <= loss(draws, other).mean(axis=0) + 1e-12)
        general = optimal_prediction(Samples(draws), loss)
        np.testing.assert_allclose(general.risk, risk, rtol=1e-3)


def test_zero_one_on_samples():
    labels = Samples(np.array([[0, 2], [1, 2], [1, 0], [1, 2]]))
    guess, risk = optimal_prediction(labels, "zero-one")
    np.testing.assert_array_equal(guess, [1, 2])
    np.testing.assert_array_equal(risk, [0.25, 0.25])
    guess, risk = optimal_prediction(Samples([0.0, 1.0, 1.1, 1.3, 9.0]), "zero-one", width=0.25)
    assert guess[0] == pytest.approx(1.15) and risk[0] == pytest.approx(0.4)
    with pytest.raises(ValueError, match="no value occurs twice"):
        optimal_prediction(Samples([0.1, 0.2, 0.3]), "zero-one")


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: gaussian([0.0], [0.0]), "stds must be positive"),
        (lambda: gaussian([np.nan], [1.0]), "means has values that are NaN"),
        (lambda: PredictiveMixture([0.5, 0.6], M, S), "sum to one"),
        (lambda: Samples([]), "draws must be"),
        (lambda: optimal_prediction(SKEWED, "huber"), "Unknown loss 'huber'; use one of squared"),
        (lambda: optimal_prediction(SKEWED, "pinball"), "needs q="),
        (lambda: optimal_prediction(SKEWED, "pinball", q=1.2), "needs q="),
        (lambda: optimal_prediction(SKEWED, "linex"), "needs a="),
        (lambda: optimal_prediction(SKEWED, "zero-one", width=-1), "width must not be negative"),
        (lambda: optimal_prediction(SKEWED, "squared", q=0.5), "q= does not belong to the loss"),
        (lambda: optimal_prediction(SKEWED, lambda y, g: 1.0), "must work elementwise"),
        (lambda: optimal_prediction(SKEWED, lambda y, g: y - g), "monotone in the guess"),
        (
            lambda: optimal_prediction(SKEWED, lambda y, g: np.full(y.shape, np.inf)),
            "is NaN or infinite for some y",
        ),
    ],
)
def test_bad_input_is_named(call, says):
    with pytest.raises(ValueError, match=says):
        call()


def test_no_guess_on_a_fine_grid_beats_the_answer_for_many_mixtures():
    rng = np.random.default_rng(2)
    p = PredictiveMixture(
        rng.dirichlet(np.ones(4), 30).T, rng.normal(0, 3, (4, 30)), rng.uniform(0.02, 2, (4, 30))
    )
    grid = np.linspace(-12, 12, 4001)
    modes = optimal_prediction(p, "zero-one").guess
    heights = np.array([p.density(np.full(30, g)) for g in grid])
    assert np.all(p.density(modes) >= heights.max(axis=0) - 1e-12)
    loss = LOSSES["pinball"][1]
    risk = optimal_prediction(p, loss).risk
    risks = np.array([expected_loss(p, g, "pinball", q=0.8) for g in grid])
    assert np.all(risk <= risks.min(axis=0) + 1e-12)
