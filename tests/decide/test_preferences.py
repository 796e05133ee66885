"""Preference learning: comparisons of pairs, made by a known utility with known noise."""

import numpy as np
import pytest
from scipy.special import ndtr
from scipy.stats import spearmanr

import mercer as mc
from mercer import kernels as k
from mercer import likelihoods as lk
from mercer.decide import utilities
from mercer.params import ParameterError

RNG = np.random.default_rng(0)
ITEMS = RNG.uniform(-2, 2, (20, 2))


def utility(x):
    return 2.5 * np.sin(1.2 * x[:, 0]) - 0.8 * x[:, 1]


def compared(n, rng):
    """Pairs (n, 4) of items, and whether the first was preferred."""
    first, second = np.array([rng.choice(len(ITEMS), 2, replace=False) for _ in range(n)]).T
    lead = utility(ITEMS[first]) - utility(ITEMS[second])
    return np.hstack([ITEMS[first], ITEMS[second]]), rng.random(n) < ndtr(lead)


PAIRS, WON = compared(150, RNG)
MODEL = mc.Model(mc.GP(k.Preference(k.SE([1.0, 2.0], 4.0))), lk.Bernoulli())


@pytest.fixture(scope="module")
def post():
    return MODEL.condition(PAIRS, WON)


def swapped(pairs):
    return np.hstack([pairs[:, 2:], pairs[:, :2]])


def test_covariance_is_that_of_differences():
    base = k.SE([1.0, 2.0], 4.0)
    K = base(ITEMS)
    D = np.zeros((6, 20))
    D[np.arange(6), np.arange(6)], D[np.arange(6), np.arange(6) + 8] = 1.0, -1.0
    pairs = np.hstack([ITEMS[:6], ITEMS[8:14]])
    np.testing.assert_allclose(k.Preference(base)(pairs), D @ K @ D.T, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(
        k.Preference(base)(pairs, swapped(pairs)), -D @ K @ D.T, rtol=1e-10, atol=1e-12
    )


def test_probabilities_are_antisymmetric_and_the_order_of_a_pair_says_nothing(post):
    p = post.probability(PAIRS[:40])
    np.testing.assert_allclose(post.probability(swapped(PAIRS[:40])), 1.0 - p, atol=1e-10)
    winners = np.where(WON[:, None], PAIRS, swapped(PAIRS))
    sorted_out = MODEL.condition(winners, np.ones(len(winners)))
    np.testing.assert_allclose(sorted_out.probability(PAIRS[:40]), p, atol=1e-6)
    same = np.hstack([ITEMS[:1], ITEMS[:1]])
    np.testing.assert_allclose(post.probability(same), 0.5, atol=1e-6)


def test_the_ranking_is_recovered(post):
    found, true = utilities(post, ITEMS), utility(ITEMS)
    assert spearmanr(found.mean, true).statistic > 0.93
    assert np.mean(found.mean) == pytest.approx(0.0, abs=1e-9)
    z = (found.mean - (true - true.mean())) / found.std
    assert np.mean(z**2) < 2.0 and np.mean(np.abs(z) < 2) >= 0.8
    assert true[found.ranking[0]] >= np.sort(true)[-3]
    chance = found.probability_best()
    assert chance.sum() == pytest.approx(1.0) and chance.argmax() in found.ranking[:3]


def test_utilities_do_not_depend_on_the_order_of_the_items(post):
    found, turned = utilities(post, ITEMS), utilities(post, ITEMS[::-1])
    np.testing.assert_allclose(turned.mean[::-1], found.mean, atol=1e-8)
    np.testing.assert_allclose(turned.covariance[::-1, ::-1], found.covariance, atol=1e-8)
    a, b = found.mean[3] - found.mean[7], post.mean(np.hstack([ITEMS[[3]], ITEMS[[7]]]), latent=True)
    assert a == pytest.approx(b[0], abs=1e-9)


def test_probabilities_are_calibrated(post):
    """Of 2,000 new comparisons, of those predicted with p about p are as predicted."""
    pairs, won = compared(2000, np.random.default_rng(1))
    p = post.probability(pairs)
    for low in (0.0, 0.25, 0.5, 0.75):
        inside = (p >= low) & (p < low + 0.25)
        assert np.mean(won[inside]) == pytest.approx(np.mean(p[inside]), abs=0.08)
    assert -np.mean(post.log_density(pairs, won)) < 0.75 * np.log(2)


def test_a_classifier_learns_it_and_says_the_utilities():
    model = mc.GPClassifier(k.Preference(k.SE([1.0, 1.0])), max_evaluations=15).fit(PAIRS, WON)
    assert spearmanr(utilities(model, ITEMS).mean, utility(ITEMS)).statistic > 0.93
    assert model.kernel_.kernel.lengthscale.shape == (2,)
    with pytest.raises(ValueError, match="2 columns each"):
        utilities(model, ITEMS[:, :1])


def test_names_text_and_odd_columns():
    with pytest.raises(ParameterError, match="even number of columns"):
        k.Preference(k.SE())(np.zeros((2, 3)))
    words = np.array([["ant", "bee"], ["bee", "cat"], ["ant", "cat"]], object)
    post = mc.Model(mc.GP(k.Preference(k.Categorical())), lk.Bernoulli()).condition(words, np.ones(3))
    assert list(utilities(post, np.array(["cat", "ant", "bee"], object)).ranking) == [1, 2, 0]
