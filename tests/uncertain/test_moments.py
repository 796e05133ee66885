"""Predictions at Gaussian inputs: closed forms, and what stands in for them."""

import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import mercer as mc
from mercer import kernels as k
from mercer import means, uncertain
from mercer.inputs import InputError
from mercer.posteriors import PosteriorError

RNG = np.random.default_rng(0)
X = RNG.normal(size=(12, 3))
Y = np.sin(X[:, 0]) + X[:, 1] ** 2
MU = np.array([0.2, -0.3, 0.5])
ROOT = 0.4 * RNG.normal(size=(3, 3))
SIGMA = ROOT @ ROOT.T
SOME_KNOWN = SIGMA * np.outer([1, 1, 0], [1, 1, 0])

# every closed form stands in the first of two outputs, or just SE and linear ones
SIMPLE = k.SE([1.0, 2.0, 1.5], 0.7, loadings=[[0.3], [-0.2], [0.1]]) + k.Linear([0.5, 0.2, 0.1], centre=0.3)
MIXED = (
    k.SE([1.0, 2.0, 1.5], 0.7, loadings=[[0.3], [-0.2], [0.1]]) * k.Polynomial(2, 0.5, 0.3).on(0, 2)
    + k.Linear([0.5, 0.2, 0.1], centre=0.3) * k.SE(2.0).on(1) * 0.8
    + k.LinearCovariance(k.lower_factor(0.2 * np.eye(3) + 0.1), 0.3) ** 2
    + k.Polynomial(3, 0.2, 0.1, factor=np.diag([0.5, 0.4, 0.3]))
    + 2.0
)
PLANE = means.Linear([0.3, -0.2, 0.1], 0.4) + 0.1


WAVES = (
    k.SpectralMixture([0.8, 0.5], [[0.05, 0.0, 0.1], [0.1, 0.05, 0.0]], [[0.05, 0.08, 0.05], [0.05] * 3])
    + k.SpectralMixture(0.4, [[0.08, 0.05, 0.0]], [[0.05, 0.05, 0.05]]) ** 2
    + k.Linear([0.5, 0.2, 0.1], centre=0.3) * k.SpectralMixture(0.4, [0.1], [0.05]).on(1)
)

# the same closed forms in fewer terms: what is compiled grows with their pairs
SHORTER = {
    "products": k.SE([1.0, 2.0, 1.5], loadings=[[0.3], [-0.2], [0.1]]) * k.Polynomial(2, 0.5, 0.3).on(0, 2)
    + k.LinearCovariance(k.lower_factor(0.2 * np.eye(3) + 0.1), 0.3) ** 2,
    "beats": k.SpectralMixture(0.8, [[0.05, 0.0, 0.1]], [[0.05, 0.08, 0.05]])
    + k.Linear([0.5, 0.2, 0.1], centre=0.3) * k.SpectralMixture(0.4, [0.1], [0.05]).on(1),
}
KERNELS = {"simple": SIMPLE, "mixed": MIXED, "waves": WAVES} | SHORTER
QUICK = {"xla_backend_optimization_level": 0}  # run a few times, compiling is all that these cost
BOTH = pytest.mark.parametrize(
    "name", ("simple", *(pytest.param(name, marks=pytest.mark.slow) for name in ("mixed", "waves")))
)


@functools.cache
def posteriors(name):
    """Two outputs, on different data."""
    first = mc.GP(KERNELS[name], mean=PLANE).condition(X, Y, noise_variance=0.05)
    second = mc.GP(k.SE([1.0, 1.5, 2.0]), mean=0.3).condition(X[:9], np.cos(X[:9, 2]), noise_variance=0.1)
    return first, second


@functools.cache
def joined(name="simple"):
    return uncertain.Predictor.joined([post.predictor() for post in posteriors(name)])


moments = jax.jit(uncertain.moments, compiler_options=QUICK)
quadrature = jax.jit(uncertain.quadrature, static_argnames="nodes")


def compare(found, other, **how):
    for one, two in zip(jax.tree.leaves(found), jax.tree.leaves(other), strict=True):
        np.testing.assert_allclose(one, two, **how)


def golden():
    """T-UI1 of the catalogue."""
    at = np.arange(-2.0, 3.0)[:, None]
    first = mc.GP(k.SE(1.0, 1.0)).condition(at, np.sin(at[:, 0]), noise_variance=0.01)
    second = mc.GP(k.SE(1.5, 2.0)).condition(at, np.cos(at[:, 0]), noise_variance=0.01)
    return first, second


def test_golden_values():
    both = uncertain.Predictor.joined([post.predictor() for post in golden()])
    found = moments(both, jnp.array([0.3]), jnp.array([[0.5]]))
    exact = dict(rtol=1e-11)
    np.testing.assert_allclose(found.mean, [0.228824889030375, 0.742273960266720], **exact)
    np.testing.assert_allclose(found.variance, [0.305459868190243, 0.110205933897701], **exact)
    np.testing.assert_allclose(found.covariance[0, 1], -0.068453113956753, **exact)
    np.testing.assert_allclose(found.cross[0, 0], 0.369849011197901, **exact)
    certain = moments(both, jnp.array([0.3]), jnp.zeros((1, 1)))
    np.testing.assert_allclose([certain.mean[0], certain.variance[0]], [0.29761949, 0.01377365], atol=5e-9)


@BOTH
@pytest.mark.parametrize("Sigma", (SIGMA, SOME_KNOWN), ids=("uncertain", "a column known"))
def test_closed_forms_are_the_integrals(name, Sigma):
    """Sums and products of SE, linear and polynomial kernels, planes as means, one output and across two."""
    predictor = joined(name)
    compare(moments(predictor, MU, Sigma), quadrature(predictor, MU, Sigma, nodes=24), rtol=1e-6, atol=1e-8)


@BOTH
def test_a_certain_input_is_the_ordinary_prediction(name):
    found = moments(joined(name), MU, np.zeros((3, 3)))
    np.testing.assert_allclose(found.cross, 0.0)
    for i, post in enumerate(posteriors(name)):
        mean, variance = post.latent_moments(MU[None])
        np.testing.assert_allclose([found.mean[i], found.variance[i]], [mean[0], variance[0]], rtol=1e-8)


@pytest.mark.parametrize("name", ("simple", *(pytest.param(n, marks=pytest.mark.slow) for n in SHORTER)))
def test_gradients_are_finite_differences(name):
    """Of a number made of all moments, in mu and in every entry of Sigma."""
    predictor = joined(name)

    @functools.partial(jax.jit, compiler_options=QUICK)
    @functools.partial(jax.value_and_grad, argnums=(0, 1))
    def number(mu, Sigma):
        found = uncertain.moments(predictor, mu, Sigma)
        return jnp.sum(jnp.sin(found.mean)) + jnp.sum(found.covariance**2) + jnp.sum(found.cross[:, 0])

    found = np.concatenate([np.ravel(g) for g in number(MU, SIGMA)[1]])
    at, differences = np.concatenate([MU, SIGMA.ravel()]), []
    for step in 1e-5 * np.eye(12):
        ends = [number(v[:3], v[3:].reshape(3, 3))[0] for v in (at + step, at - step)]
        differences.append((ends[0] - ends[1]) / 2e-5)
    np.testing.assert_allclose(found, differences, rtol=1e-6, atol=1e-8)


@pytest.mark.slow
def test_derivatives_in_sigma_are_second_derivatives_in_mu():
    """The heat identity of Gaussian smoothing, dE/dSigma = 1/2 d2E/dmu2, along v v' and v; six v v' span all
    of Sigma.
    """
    predictor = joined()

    def both(mu, Sigma):
        found = uncertain.moments(predictor, mu, Sigma)
        return found.mean, found.spread + jnp.outer(found.mean, found.mean)

    def slope(function):
        return lambda t: jax.jvp(function, (t,), (1.0,))[1]

    @functools.partial(jax.jit, compiler_options=QUICK)
    def sides(v):
        heat = slope(lambda t: both(MU, SIGMA + t * jnp.outer(v, v)))(0.0)
        return heat, slope(slope(lambda t: both(MU + t * v, SIGMA)))(0.0)

    for i, j in itertools.combinations_with_replacement(range(3), 2):
        for heat, bent in zip(*sides(np.eye(3)[i] + np.eye(3)[j]), strict=True):
            np.testing.assert_allclose(heat, 0.5 * bent, rtol=1e-6, atol=1e-8)


@pytest.mark.slow
def test_a_million_draws_agree():
    """Within five standard errors of what 10^6 draws of x say."""
    predictor = joined("mixed")
    z = np.random.default_rng(1).normal(size=(1_000_000, 3))
    x = MU + z @ np.linalg.cholesky(SIGMA).T
    means = np.asarray(jax.lax.map(predictor.mean, x, batch_size=4096))
    variances = np.asarray(jax.lax.map(predictor.variance, x, batch_size=4096))
    found = moments(predictor, MU, SIGMA)

    def agree(value, draws):
        assert abs(float(value) - draws.mean()) < 5 * draws.std() / 1000

    away = means - np.asarray(found.mean)
    for i in range(2):
        agree(found.mean[i], means[:, i])
        agree(found.doubt[i], variances[:, i])
        for j in range(2):
            agree(found.spread[i, j], away[:, i] * away[:, j])
        for c in range(3):
            agree(found.cross[c, i], (x[:, c] - MU[c]) * away[:, i])


def test_what_an_uncertain_input_does():
    """T-UI2 to T-UI4: more variance; functions that are independent at a known input become correlated; draws
    of the input say the same.
    """
    both = uncertain.Predictor.joined([post.predictor() for post in golden()])
    known = moments(both, jnp.array([0.3]), jnp.zeros((1, 1)))
    blurred = moments(both, jnp.array([0.3]), jnp.array([[0.5]]))
    assert (blurred.variance > known.variance).all()
    np.testing.assert_allclose(known.spread, 0.0, atol=1e-12)
    assert blurred.covariance[0, 1] / np.sqrt(np.prod(blurred.variance)) < -0.3
    drawn = jax.jit(uncertain.monte_carlo, static_argnames="draws")(both, [0.3], [[0.5]], draws=10_000)
    compare(drawn, blurred, atol=0.02)


def test_far_from_the_data_it_is_the_prior():
    both = uncertain.Predictor.joined([post.predictor() for post in golden()])
    found = moments(both, jnp.array([0.3]), jnp.array([[1e8]]))
    np.testing.assert_allclose(found.mean, 0.0, atol=1e-3)
    np.testing.assert_allclose(found.covariance, np.diag([1.0, 2.0]), atol=1e-3)


# -- what stands in -----------------------------------------------------------------------------------------


def test_other_kernels_by_quadrature_draws_and_slopes():
    """The three agree where the function is nearly straight, and quadrature with draws anywhere."""
    post = mc.GP(k.Matern(nu=2.5, lengthscale=1.2)).condition(X, Y, noise_variance=0.05)
    predictor, small = post.predictor(), 1e-4 * SIGMA
    fine = quadrature(predictor, MU, small, nodes=8)
    straight = jax.jit(uncertain.linearised)(predictor, MU, small)
    np.testing.assert_allclose(straight.mean, fine.mean, atol=1e-4)
    np.testing.assert_allclose(straight.spread, fine.spread, rtol=1e-3)
    np.testing.assert_allclose(straight.cross, fine.cross, rtol=1e-3)
    grid, drawn = (
        quadrature(predictor, MU, SIGMA, nodes=12),
        jax.jit(uncertain.monte_carlo)(predictor, MU, SIGMA),
    )
    compare(drawn, grid, atol=0.03)
    with pytest.raises(uncertain.NotClosed, match="Matern"):
        uncertain.moments(predictor, MU, SIGMA)


def test_every_method_of_the_estimator():
    model = mc.GPRegressor(k.SE([1.0, 2.0]), learn=False).fit(X[:, :2], Y)
    mu, Sigma = MU[:2], SIGMA[:2, :2]
    exact = model.predict_uncertain(mu, Sigma)
    mean, variance, cross = exact
    assert exact.method == "exact" and np.shape(mean) == np.shape(variance) == () and cross.shape == (2,)
    latent = model.predict_uncertain(mu, Sigma, latent=True)
    np.testing.assert_allclose(variance - latent.variance, model.noise_variance_)
    for method, how in (("quadrature", dict(rtol=1e-8)), ("monte-carlo", dict(rtol=2e-2))):
        other = model.predict_uncertain(mu, Sigma, method=method)
        assert other.method == method and (other.error is None) == (method == "quadrature")
        for one, two in zip(exact, other, strict=True):
            np.testing.assert_allclose(two, one, **how)
    several = model.predict_uncertain(np.stack([mu, mu, mu]), np.stack([Sigma, 0 * Sigma, 2 * Sigma]))
    assert several.cross.shape == (3, 2) and several.mean[0] == mean
    ordinary, std = model.predict(mu[None], return_std=True)
    np.testing.assert_allclose([several.mean[1], several.variance[1]], [ordinary[0], std[0] ** 2], rtol=1e-9)
    with pytest.raises(ValueError, match="method must be None or one of"):
        model.predict_uncertain(mu, Sigma, method="unscented")
    named = mc.GPRegressor(k.SE([1.0, 2.0]), learn=False).fit({"a": X[:, 0], "b": X[:, 1]}, Y)
    assert named.predict_uncertain(mu, Sigma).mean == mean  # by position, without a warning


@pytest.mark.parametrize(
    ("Sigma", "what"),
    (
        ([[1.0, 2.0], [2.0, 1.0]], r"not positive semi-definite: along \(-0.707, 0.707\).*variance -1"),
        ([[1.0, 0.0], [0.5, 1.0]], "not symmetric"),
        (np.eye(3), r"Sigma has shape \(3, 3\)"),
        ([[np.nan, 0.0], [0.0, 1.0]], "must be finite"),
    ),
)
def test_bad_covariances_are_named(Sigma, what):
    post = mc.GP(k.SE()).condition(X[:, :2], Y, noise_variance=0.1)
    with pytest.raises(InputError, match=what):
        post.predict_uncertain([0.0, 0.0], Sigma)


def test_a_cosine_has_its_closed_form():
    """E cos(w (x - x0)) = exp(-w^2 s / 2) cos(w (mu - x0)): of a kernel that is a wave alone."""
    at, mu, s = np.array([[0.4]]), 1.3, 0.35
    post = mc.GP(k.SpectralMixture(2.0, [0.5], [1e-9])).condition(at, [1.0], noise_variance=0.5)
    found = post.predict_uncertain([mu], [[s]], latent=True)
    mean = 2.0 / 2.5 * np.exp(-0.5 * np.pi**2 * s) * np.cos(np.pi * (mu - 0.4))
    square = 4.0 / 2.5 * 0.5 * (1 + np.exp(-2 * np.pi**2 * s) * np.cos(2 * np.pi * (mu - 0.4)))
    variance = square / 2.5 - mean**2 + 2.0 - square
    assert found.method == "exact"
    np.testing.assert_allclose([found.mean, found.variance], [mean, variance], rtol=1e-7)


def test_what_has_no_closed_form_says_so():
    post = mc.GP(k.Matern()).condition(X, Y, noise_variance=0.1)
    with pytest.raises(PosteriorError, match=r"Matern.*no closed form.*SE, constant, linear and polynomial"):
        post.predict_uncertain(MU, SIGMA, method="exact")
    mixed = {"a": [0.0, 1.0, 2.0, 4.0], "b": ["u", "v", "u", "v"]}
    model = mc.GPRegressor(max_evaluations=0).fit(mixed, [0.0, 1.0, 0.5, 2.0])
    with pytest.raises(InputError, match="'b'"):
        model.predict_uncertain(mixed, 0.1)
