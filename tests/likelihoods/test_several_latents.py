"""Likelihoods with more than one latent function: softmax and input-dependent noise."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import integrate, stats

from mercer.likelihoods import Bernoulli, Gaussian, Heteroscedastic, MultinomialProbit, Softmax
from mercer.persist import from_json, to_json

BOTH = pytest.mark.parametrize(
    "likelihood, y",
    [
        (Softmax(3), [0.0, 2.0, 1.0]),
        (MultinomialProbit(3), [0.0, 2.0, 1.0]),
        (Heteroscedastic(), [0.4, -1.0, 3.0]),
    ],
    ids=["softmax", "multinomial", "noise"],
)


def matrix(D, P):
    """diag(D) - P P'."""
    return jax.vmap(jnp.diag)(D) - jnp.einsum("nir,njr->nij", P, P)


@pytest.mark.representative("noise")
@BOTH
def test_curvature_is_minus_the_hessian(likelihood, y, rng):
    """A.C12, A.E2 (3.38): W = diag(D) - P P', D > 0."""
    f, y = rng.standard_normal((3, likelihood.latents)), likelihood.targets(y)
    D, P = likelihood.curvature(f, y)
    assert D.shape == f.shape and np.all(D > 0)
    hessian = jax.vmap(jax.hessian(lambda f, y: likelihood.log_prob(f[None], y[None])[0]))(f, y)
    np.testing.assert_allclose(matrix(D, P), -hessian, atol=1e-13)
    D, P = likelihood.fisher(f, y)
    assert np.linalg.eigvalsh(matrix(D, P)).min() > -1e-13  # zero along the ones, to rounding
    assert likelihood.guess(y).shape == f.shape


@pytest.mark.representative("softmax")
@BOTH
def test_files_and_compilation(likelihood, y, rng):
    f, y = rng.standard_normal((3, likelihood.latents)), likelihood.targets(y)
    again = from_json(to_json(likelihood))
    assert again == likelihood and again.latents == likelihood.latents
    v = np.full(f.shape, 0.3)
    for name in ("log_prob", "expectation"):
        arguments = (f, y) if name == "log_prob" else (y, f, v)
        compiled = jax.jit(lambda l, *a, name=name: getattr(l, name)(*a))(likelihood, *arguments)
        np.testing.assert_allclose(compiled, getattr(likelihood, name)(*arguments), rtol=1e-13)


@pytest.mark.slow
@BOTH
def test_diagonal_and_full_variances_agree(likelihood, y, rng):
    mean, v, y = (
        rng.standard_normal((3, likelihood.latents)),
        rng.uniform(0.2, 2, (3, likelihood.latents)),
        likelihood.targets(y),
    )
    full = jax.vmap(jnp.diag)(v)
    np.testing.assert_allclose(
        likelihood.expectation(y, mean, v), likelihood.expectation(y, mean, full), rtol=1e-10
    )
    np.testing.assert_allclose(
        likelihood.log_density(y, mean, v), likelihood.log_density(y, mean, np.asarray(full)), atol=2e-3
    )


# ------------------------------------------------------------------------------------------------- softmax


def test_two_classes_are_a_logistic_classifier():
    """A.C12: the difference of two latents, whose variances add up."""
    mean, v = np.array([[0.4, -0.8], [1.0, 2.5]]), np.array([[0.5, 0.7], [2.0, 1.0]])
    p = Softmax(2, samples=8192).probability(mean, v)
    np.testing.assert_allclose(p.sum(1), 1.0, rtol=1e-12)
    np.testing.assert_allclose(
        p[:, 0], Bernoulli("logit").probability(mean[:, 0] - mean[:, 1], v.sum(1)), atol=2e-4
    )
    np.testing.assert_allclose(
        p,
        np.exp(np.stack([Softmax(2, 8192).log_density(np.full(2, c), mean, v) for c in (0, 1)], 1)),
        rtol=1e-12,
    )


def test_averaging_can_change_the_class():
    """A.C13, exercise 3.10.3: the covariance alone moves the largest probability to another class;
    MAP does not see it.
    """
    mean = np.array([[0.2, 0.0, 0.0]])
    covariance = np.diag([0.01, 60.0, 60.0])[None]
    softmax = Softmax(3)
    assert softmax.probability(mean, covariance, "map").argmax() == 0
    assert softmax.probability(mean, covariance).argmax() in (1, 2)
    np.testing.assert_array_equal(
        softmax.probability(mean, covariance), softmax.probability(mean, covariance)
    )
    with pytest.raises(ValueError, match="'average' or 'map'"):
        softmax.probability(mean, covariance, "mackay")


def test_softmax_far_out_and_in_blocks(monkeypatch):
    from mercer.likelihoods import softmax

    mean, v = np.array([[800.0, 0.0, -800.0], [0.0, 0.0, 0.0], [1.0, 2.0, 3.0]]), np.full((3, 3), 0.5)
    whole = Softmax(3).log_density(np.array([2, 0, 1]), mean, v)
    assert np.isfinite(whole).all() and whole[0] == pytest.approx(-1600, abs=1.0)
    assert np.exp(whole[1]) == pytest.approx(1 / 3, abs=1e-3)
    monkeypatch.setattr(softmax, "_ENTRIES", 1)
    np.testing.assert_array_equal(Softmax(3).log_density(np.array([2, 0, 1]), mean, v), whole)


def test_softmax_expectation_draws_and_quantiles(rng):
    softmax, mean = Softmax(3), np.array([[0.3, -0.5, 1.0]])
    A = rng.standard_normal((3, 3))
    covariance = (A @ A.T)[None]
    f = mean + rng.standard_normal((200_000, 3)) @ A.T
    y = np.array([2.0])
    expected = np.mean(np.asarray(softmax.log_prob(f, np.full(len(f), 2.0))))
    assert softmax.expectation(y, mean, covariance)[0] == pytest.approx(expected, abs=0.02)
    p, variance = softmax.predict(mean, covariance)
    np.testing.assert_allclose(np.bincount(softmax.sample(rng, f).astype(int)) / len(f), p[0], atol=5e-3)
    np.testing.assert_allclose(variance, p * (1 - p))
    assert softmax.quantile(p[0, 0] + 1e-6, mean, covariance) == [1.0]


# -------------------------------------------------------------------------------------------------
# multinomial probit


def test_two_classes_of_a_multinomial_probit_are_a_probit():
    mean, v = np.array([[0.4, -0.8], [1.0, 2.5]]), np.array([[0.5, 0.7], [2.0, 1.0]])
    difference = (mean[:, 1] - mean[:, 0]) / np.sqrt(2)
    p = MultinomialProbit(2).probability(mean, v)
    np.testing.assert_allclose(p[:, 1], Bernoulli().probability(difference, v.sum(1) / 2), rtol=1e-12)


@pytest.mark.slow
def test_the_largest_with_noise_wins(rng):
    """log_prob and averages, against draws; far out too."""
    probit, mean = MultinomialProbit(4), np.array([[0.3, -0.5, 1.0, 0.2]])
    A = rng.standard_normal((4, 4))
    f = mean + rng.standard_normal((400_000, 4)) @ A.T
    counted = np.bincount(probit.sample(rng, f).astype(int)) / len(f)
    p, variance = probit.predict(mean, (A @ A.T)[None])
    np.testing.assert_allclose(p[0], counted, atol=4e-3)
    np.testing.assert_allclose(p.sum(1), 1.0, rtol=1e-12)
    np.testing.assert_allclose(variance, p * (1 - p))
    y = np.arange(4.0)
    at_mean = np.exp(np.asarray(probit.log_prob(np.repeat(mean, 4, 0), y)))
    np.testing.assert_allclose(at_mean.sum(), 1.0, rtol=1e-9)
    np.testing.assert_allclose(probit.probability(mean, 0.0 * mean)[0], at_mean, rtol=2e-3)
    expected = np.mean(np.asarray(probit.log_prob(f[:20_000], np.full(20_000, 2.0))))
    assert probit.expectation(y[2:3], mean, (A @ A.T)[None])[0] == pytest.approx(expected, abs=0.05)
    far = np.array([[300.0, 0.0, -300.0, 40.0]])
    for c in (1, 2, 3):
        by_quadrature = float(probit.log_prob(far, y[c : c + 1])[0])
        assert probit.log_density(y[c : c + 1], far, 0.0 * far)[0] == pytest.approx(by_quadrature, rel=1e-3)


@pytest.mark.slow
def test_the_quadrature_of_a_multinomial_probit(rng):
    for f in (rng.standard_normal(3), np.array([-8.0, 0.0, 7.0]), np.array([60.0, -20.0, 0.0])):
        for c in range(3):
            others = np.delete(f, c)
            u = np.linspace(-5, 110, 200_001)
            log_p = stats.norm.logpdf(u) + stats.norm.logcdf(u[:, None] + f[c] - others).sum(1)
            exact = np.log(np.sum(np.exp(log_p - log_p.max())) * (u[1] - u[0])) + log_p.max()
            if f[c] == f.max():
                continue
            found = float(MultinomialProbit(3).log_prob(f[None], np.array([float(c)]))[0])
            assert found == pytest.approx(exact, abs=1e-6)


def test_orthants_in_blocks(monkeypatch, rng):
    from mercer.likelihoods import multinomial

    mean, v = rng.standard_normal((5, 3)), np.full((5, 3), 0.5)
    whole = MultinomialProbit(3).probability(mean, v)
    monkeypatch.setattr(multinomial, "_ENTRIES", 1)
    np.testing.assert_array_equal(MultinomialProbit(3).probability(mean, v), whole)


# -------------------------------------------------------------------------------------------------
# heteroscedastic noise


@pytest.mark.slow
def test_constant_log_variance_is_gaussian_noise():
    """A.X6."""
    mean, v, y = np.array([[0.3, np.log(0.2)]]), np.array([[0.9, 1e-14]]), np.array([1.1])
    noise, gaussian = Heteroscedastic(), Gaussian(0.2)
    np.testing.assert_allclose(noise.log_density(y, mean, v), gaussian.log_density(y, 0.3, 0.9), rtol=1e-10)
    np.testing.assert_allclose(noise.expectation(y, mean, v), gaussian.expectation(1.1, 0.3, 0.9), rtol=1e-10)
    np.testing.assert_allclose(np.ravel(noise.predict(mean, v)), [0.3, 1.1], rtol=1e-10)
    np.testing.assert_allclose(noise.quantile(0.9, mean, v), gaussian.quantile(0.9, 0.3, 0.9), rtol=1e-9)


@pytest.mark.slow
def test_heteroscedastic_integrals_with_correlated_latents(rng):
    """A.X6: expectation, evidence, distribution function and draws against a two-dimensional integral."""
    m, V, y = np.array([0.4, -0.7]), np.array([[0.8, 0.3], [0.3, 0.5]]), 1.6
    noise, joint = Heteroscedastic(), stats.multivariate_normal(m, V)

    def double(function):
        return integrate.dblquad(lambda f, g: function(f, g) * joint.pdf([f, g]), -5, 4, -6, 7, epsabs=1e-8)[
            0
        ]

    y_, m_, V_ = np.array([y]), m[None], V[None]
    density = double(lambda f, g: stats.norm.pdf(y, f, np.exp(g / 2)))
    assert np.exp(noise.log_density(y_, m_, V_)[0]) == pytest.approx(density, abs=1e-7)
    expected = double(lambda f, g: stats.norm.logpdf(y, f, np.exp(g / 2)))
    assert noise.expectation(y_, m_, V_)[0] == pytest.approx(expected, abs=1e-6)
    below = double(lambda f, g: stats.norm.cdf(y, f, np.exp(g / 2)))
    assert noise.cdf(y_, m_, V_)[0] == pytest.approx(below, abs=1e-7)
    assert noise.quantile(below, m_, V_)[0] == pytest.approx(y, abs=1e-5)
    draws = noise.sample(rng, rng.multivariate_normal(m, V, 100_000))
    mean, variance = (float(a[0]) for a in noise.predict(m_, V_))
    assert draws.mean() == pytest.approx(mean, abs=5 * np.sqrt(variance / 1e5))
    assert draws.var() == pytest.approx(variance, rel=0.03)


def test_heteroscedastic_fisher_is_the_expected_curvature():
    f = np.array([[0.4, -0.7]])
    r = np.linspace(-8, 8, 4001) * np.exp(-0.35)
    w = stats.norm.pdf(r, 0, np.exp(-0.35)) * (r[1] - r[0])
    noise = Heteroscedastic()
    average = sum(
        wi * matrix(*noise.curvature(f, np.array([0.4 + ri])))
        for ri, wi in zip(r[::20], 20 * w[::20], strict=True)
    )
    np.testing.assert_allclose(average, matrix(*noise.fisher(f, np.zeros(1))), atol=1e-6)
