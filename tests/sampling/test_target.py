"""The densities that chains run on, against explicit NumPy."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import multivariate_normal

import mercer as mc
from mercer import hyperpriors as hp
from mercer.inference import EP, Laplace
from mercer.params import Constraint, positive, unit
from mercer.sampling.hyper import Hyperparameters, log_prob, on_traced
from mercer.sampling.target import (
    bucket,
    evidence_target,
    joint_target,
    latent_target,
    prior_moments,
    sufficient_target,
    whiten,
)
from mercer.solvers import Dense

k = mc.kernels


def data(n=7):
    rng = np.random.default_rng(3)
    X = rng.uniform(-2, 2, (n, 1))
    return X, np.sin(2 * X[:, 0]) + 0.3 * rng.standard_normal(n)


PRIORS = [
    hp.Normal(0.3, 2.0),
    hp.LogNormal(0.1, 0.7),
    hp.Gamma(2.0, 3.0),
    hp.InverseGamma(3.0, 2.0),
    hp.Exponential(2.0),
    hp.HalfNormal(1.5),
    hp.Beta(2.0, 3.0),
    hp.Uniform(0.0, 2.0),
    hp.Each((hp.LogNormal(), hp.Gamma())),
]


@pytest.mark.parametrize("prior", PRIORS, ids=lambda p: type(p).__name__)
def test_priors_inside_compiled_code(prior):
    x = np.array([0.2, 0.7])
    np.testing.assert_allclose(jax.jit(lambda v: log_prob(prior, v))(x), prior.log_prob(x), rtol=1e-13)
    gradient = jax.grad(lambda v: jnp.sum(log_prob(prior, v)))(x)
    np.testing.assert_allclose(gradient, prior.score(x), rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize(
    "constraint", [positive, unit, Constraint("real"), Constraint("above 2", 2.0)], ids=lambda c: c.name
)
def test_constraints_inside_compiled_code(constraint):
    u = np.array([-1.3, 0.4])
    value = constraint.value(u)
    np.testing.assert_allclose(jax.jit(lambda u: on_traced(constraint.value, u))(u), value, rtol=1e-14)
    slope = jax.jit(lambda v: jnp.broadcast_to(on_traced(constraint.slope, v), (2,)))(value)
    np.testing.assert_allclose(slope, np.broadcast_to(constraint.slope(value), 2), rtol=1e-13)


@pytest.mark.parametrize("rule", [None, Laplace(), EP()], ids=["prior", "laplace", "ep"])
def test_latent_density_is_that_of_the_model(rule):
    X, y = data()
    y = np.where(y > 0, 1.0, -1.0)
    model = mc.Model(mc.GP(k.SE(0.7, 4.0), mean=0.3), mc.likelihoods.Bernoulli("logit"))
    sites = None if rule is None else rule.run(model, X, y, Dense()).state.sites
    white = whiten(model, X, sites)
    target = latent_target(model.likelihood, y, white)
    assert target.size == bucket(7) == 8
    m, (K,) = prior_moments(model, X)
    n = len(y)
    rng = np.random.default_rng(0)
    v = rng.standard_normal((3, n))
    f = white.latents(white.prior_whitened(v))[:, :, 0]
    jacobian = np.linalg.slogdet(white.product())[1]
    for row, latent in zip(v, f, strict=True):
        z = np.zeros(target.size)
        z[target.data["where"]] = row
        ours = (
            float(target.log_density(z, target.data))
            + white.log_normaliser
            - 0.5 * n * np.log(2 * np.pi)
            - jacobian
        )
        exact = multivariate_normal(m[:, 0], K).logpdf(latent) - np.sum(np.log1p(np.exp(-y * latent)))
        np.testing.assert_allclose(ours, exact, rtol=1e-9)


def test_laplace_whitening_is_its_posterior():
    X, y = data()
    y = np.where(y > 0, 1.0, -1.0)
    model = mc.Model(mc.GP(k.SE(0.7, 4.0)), mc.likelihoods.Bernoulli())
    state = Laplace().run(model, X, y, Dense()).state
    white = whiten(model, X, state.sites)
    np.testing.assert_allclose(white.latents(white.start.reshape(1, 1, -1))[0], state.mean(), atol=1e-9)
    C = white.product()
    np.testing.assert_allclose(C @ C.T, state.predict(X, full=True)[1], atol=1e-9)
    np.testing.assert_allclose(white.log_normaliser, state.log_normaliser, rtol=1e-9)


def model_with_priors(likelihood):
    lengthscale = mc.param(0.8, prior=hp.LogNormal(0.0, 0.5))
    return mc.Model(mc.GP(k.SE(lengthscale, mc.fixed(1.5))), likelihood)


def test_density_of_hyperparameters_is_evidence_times_prior_times_jacobian():
    X, y = data()
    noise = hp.Gamma(2.0, 10.0)
    model = model_with_priors(mc.likelihoods.Gaussian(mc.param(0.1, prior=noise)))
    hyper = Hyperparameters(model)
    target = evidence_target(model, X, y, hyper)
    assert hyper.names == ("kernel.lengthscale", "likelihood.noise_variance")
    for z in (np.log([0.8, 0.1]), np.log([1.7, 0.03])):
        l, s = np.exp(z)
        exact = (
            mc.log_evidence(mc.GP(k.SE(l, 1.5)), X, y, noise_variance=s)
            + hp.LogNormal(0.0, 0.5).log_prob(l)
            + noise.log_prob(s)
        )
        np.testing.assert_allclose(target.log_density(z, target.data), exact + z.sum(), rtol=1e-10)


def test_hyperparameters_without_prior_bounds_and_ties():
    shared = mc.param(0.5, tie="l", bounds=(0.1, 3.0))
    model = mc.Model(
        mc.GP(k.SE(shared, mc.fixed(1.0)) + k.SE(shared, 2.0), mean=mc.means.Constant(mc.param(5.0))),
        mc.likelihoods.Gaussian(mc.fixed(0.1)),
    )
    hyper = Hyperparameters(model, spread=2.0)
    assert hyper.size == 3
    values = hyper.values(np.array([[30.0, 0.0, 1.0], [-30.0, 0.0, 1.0]]))
    by_name = dict(zip(hyper.names, values.T, strict=True))
    tied = next(v for name, v in by_name.items() if "lengthscale" in name)
    np.testing.assert_allclose(tied, [3.0, 0.1], rtol=1e-10)  # never outside the bounds
    rebuilt = hyper.model_at(values[0])
    assert [float(t.lengthscale) for t in rebuilt.gp.kernel.terms] == pytest.approx([3.0, 3.0])
    X, y = data()
    target = evidence_target(model, X, y, hyper)
    free = [s for s in hyper.spec.slots if s.prior is None]
    assert len(free) == 3
    assert sorted(hyper.width) == [3.0, 3.0, 50.0]  # the mean is real: its width is 10 |start|
    assert np.isfinite(target.log_density(hyper.vector, target.data))


def test_joint_density_in_both_parametrisations():
    """Ancillary (u held) and sufficient (f held) are the same density,
    up to the determinant of f = m + L u.
    """
    X, y = data()
    model = model_with_priors(mc.likelihoods.Poisson())
    counts = np.abs(np.round(3 * y))
    hyper = Hyperparameters(model)
    white = whiten(model, X, Laplace().run(model, X, counts, Dense()).state.sites)
    target = joint_target(model, X, counts, hyper, white)
    rng = np.random.default_rng(1)
    z = 0.5 * rng.standard_normal(target.size)
    unpack, density, pack = sufficient_target(hyper.spec, 1)
    f, theta = unpack(z, target.data)
    value, u = density(theta, f, target.data)
    np.testing.assert_allclose(pack(u, theta, target.data), z, atol=1e-6)
    l = float(np.exp(theta[0]))
    K = k.SE(l, 1.5)(X) + 1e-8 * 1.5 * np.eye(7)
    half_logdet = 0.5 * np.linalg.slogdet(K)[1]
    np.testing.assert_allclose(target.log_density(z, target.data), value + half_logdet, rtol=1e-9)
    latent, rate = np.asarray(f)[:7, 0], np.exp(np.asarray(f)[:7, 0])
    from scipy.stats import poisson

    exact = multivariate_normal(np.zeros(7), K).logpdf(latent) + poisson(rate).logpmf(counts).sum()
    exact += 3.5 * np.log(2 * np.pi) + hp.LogNormal(0.0, 0.5).log_prob(l) + np.log(l)
    padding = -0.5 * np.sum(np.asarray(u)[0, 7:] ** 2)
    np.testing.assert_allclose(value, exact + padding, rtol=1e-8)
