"""Priors on hyperparameters against SciPy: density, score, normalisation, samples, change of units.
C.BAY9.
"""

import numpy as np
import pytest
from scipy import integrate, stats

from mercer import hyperpriors as hp

CASES = [
    (hp.Normal(0.4, 1.7), stats.norm(0.4, 1.7)),
    (hp.LogNormal(0.3, 0.8), stats.lognorm(0.8, scale=np.exp(0.3))),
    (hp.Gamma(2.5, 1.7), stats.gamma(2.5, scale=1 / 1.7)),
    (hp.InverseGamma(3.0, 2.0), stats.invgamma(3.0, scale=2.0)),
    (hp.Exponential(1.7), stats.expon(scale=1 / 1.7)),
    (hp.HalfNormal(1.3), stats.halfnorm(scale=1.3)),
    (hp.Beta(2.0, 3.5), stats.beta(2.0, 3.5)),
    (hp.Beta(2.0, 3.5, 4.0), stats.beta(2.0, 3.5, scale=4.0)),
    (hp.Uniform(0.5, 3.0), stats.uniform(0.5, 2.5)),
]
each = pytest.mark.parametrize(
    ("prior", "reference"), CASES, ids=lambda x: repr(x) if isinstance(x, hp.AbstractHyperprior) else ""
)


def inside(reference):
    return reference.ppf(np.linspace(0.02, 0.98, 11))


@each
def test_log_density(prior, reference):
    """`log_prob` is SciPy's logpdf, elementwise."""
    x = inside(reference)
    np.testing.assert_allclose(prior.log_prob(x), reference.logpdf(x), rtol=1e-12, atol=1e-13)
    assert np.ndim(prior.log_prob(float(x[3]))) == 0


@each
def test_score(prior, reference):
    """`score` is its derivative."""
    x = inside(reference)
    h = 1e-6 * np.maximum(1.0, np.abs(x))
    expected = (reference.logpdf(x + h) - reference.logpdf(x - h)) / (2 * h)
    np.testing.assert_allclose(prior.score(x), expected, rtol=1e-6, atol=1e-8)


@each
def test_integrates_to_one(prior, reference):
    """The density is normalised (quadrature on its support)."""
    lower, upper = reference.support()
    total, _ = integrate.quad(
        lambda x: np.exp(prior.log_prob(np.float64(x))),
        max(lower, -60.0) + 1e-12,
        min(upper, 500.0) - 1e-12,
        points=inside(reference),
        limit=400,
    )
    assert total == pytest.approx(1.0, abs=1e-6)


@each
def test_samples(prior, reference):
    """Draws pass a Kolmogorov-Smirnov test and follow the seed."""
    draws = prior.sample(3, (4000,))
    assert stats.kstest(draws, reference.cdf).pvalue > 1e-3
    np.testing.assert_array_equal(prior.sample(3, (5,)), prior.sample(3, (5,)))
    assert np.ndim(prior.sample(1)) == 0


@each
def test_change_of_units(prior, reference):
    """`scaled(c)` is the prior of c x: p(cx) = p(x) / c."""
    x, c = inside(reference), 2.5
    np.testing.assert_allclose(
        prior.scaled(c).log_prob(c * x), prior.log_prob(x) - np.log(c), rtol=1e-12, atol=1e-12
    )
    assert type(prior.scaled(c)) is type(prior) and prior.proper


@each
def test_priors_are_static(prior, reference):
    """Frozen and hashable: they can stand in compiled structures."""
    assert hash(prior) == hash(type(prior)(**vars(prior)))
    with pytest.raises(AttributeError):
        prior.mean = 3.0


def test_uniform_outside():
    """No density outside the interval."""
    assert hp.Uniform(0.5, 3.0).log_prob(np.array([0.4, 3.1])).tolist() == [-np.inf, -np.inf]


def test_flat():
    """The improper constant: nothing to add, nothing to sample."""
    flat = hp.Flat()
    assert not flat.proper and flat.scaled(3.0) == flat
    np.testing.assert_array_equal(flat.log_prob(np.array([1.0, 2.0])), [0.0, 0.0])
    np.testing.assert_array_equal(flat.score(np.array([1.0, 2.0])), [0.0, 0.0])
    with pytest.raises(ValueError, match="improper and cannot be sampled"):
        flat.sample(0)


def test_each():
    """One prior for every entry: entries are independent, factors may differ, and lengths have to fit."""
    parts = (hp.LogNormal(0.0, 1.0), hp.Gamma(2.0, 3.0))
    both = hp.Each(parts)
    x = np.array([0.7, 1.9])
    np.testing.assert_allclose(both.log_prob(x), [parts[0].log_prob(0.7), parts[1].log_prob(1.9)])
    np.testing.assert_allclose(both.score(x), [parts[0].score(0.7), parts[1].score(1.9)])
    c = np.array([2.0, 5.0])
    np.testing.assert_allclose(both.scaled(c).log_prob(c * x), both.log_prob(x) - np.log(c))
    assert both.sample(0).shape == (2,) and both.proper and not hp.Each((hp.Flat(),)).proper
    with pytest.raises(ValueError, match="as many entries"):
        both.log_prob(np.ones(3))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: hp.Normal(0.0, 0.0), r"Normal\.sd must be positive"),
        (lambda: hp.LogNormal(0.0, -1.0), r"LogNormal\.sigma must be positive"),
        (lambda: hp.Gamma(-1.0, 1.0), "Gamma needs positive shape and rate"),
        (lambda: hp.InverseGamma(1.0, 0.0), "InverseGamma needs positive"),
        (lambda: hp.Exponential(0.0), r"Exponential\.rate must be positive"),
        (lambda: hp.HalfNormal(-1.0), r"HalfNormal\.sd must be positive"),
        (lambda: hp.Beta(0.0, 1.0), "Beta needs positive"),
        (lambda: hp.Uniform(1.0, 1.0), "Uniform needs lower < upper"),
        (lambda: hp.Each(()), "at least one prior"),
    ],
)
def test_bad_parameters(make, message):
    """Errors name the prior and the field."""
    with pytest.raises(ValueError, match=message):
        make()
