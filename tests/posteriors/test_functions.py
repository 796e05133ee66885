"""Draws of a posterior as functions: its moments, the same values call after call, derivatives."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import mercer as mc
from mercer import kernels as k
from mercer import likelihoods as lk
from mercer import solvers
from mercer.inference import Laplace
from mercer.posteriors import PosteriorError
from tests.posteriors.conformance import CASES, XS, X, Y, posterior

SIZE, WAVES = 2000, 16
AT = np.concatenate([X[1:2], XS])


def agree(post, functions, size):
    """Mean and covariance within 5 standard errors."""
    f, covariance = functions(AT), post.covariance(AT, latent=True)
    assert f.shape == (size, len(AT)) and len(functions) == size
    spread = np.sqrt(np.diag(covariance))
    assert np.all(np.abs(f.mean(0) - post.mean(AT, latent=True)) < 5 * spread / np.sqrt(size))
    error = np.abs(np.cov(f.T) - covariance) / np.outer(spread, spread)
    assert error.max() < 5 * np.sqrt(3.0 / size)  # the fourth moment of a mixture exceeds a Gaussian's


@pytest.mark.representative("EP", "averaged")
@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.latents == 1])
def test_functions_have_the_moments_of_the_posterior(name):
    """Of a kernel with a stationary term and one of finite rank; each draw has few waves of its own."""
    post = posterior(name)
    agree(post, post.sample_functions(SIZE, seed=1, waves=WAVES), SIZE)
    if name in ("gaussian", "gaussian on inducing inputs"):
        agree(post, post.sample_functions(SIZE, seed=2, points=XS), SIZE)


def test_negative_precisions():
    """Laplace's sites of outliers under Student-t noise."""
    post = mc.Model(mc.GP(k.SE(0.9, 1.3)), lk.StudentT(3.0, 0.05)).condition(X, Y, Laplace())
    assert np.min(post.state.sites.precision) < 0 or post.state.sites.coupling is not None
    agree(post, post.sample_functions(SIZE, seed=3, waves=WAVES), SIZE)


def test_the_same_inputs_have_the_same_values_and_one_draw_can_be_taken():
    functions = posterior("gaussian").sample_functions(3, seed=0)
    f = functions(AT)
    np.testing.assert_allclose(np.concatenate([functions(AT[[i]]) for i in range(len(AT))], 1), f, rtol=1e-9)
    np.testing.assert_allclose(np.stack([functions[i](AT) for i in range(3)]), f, rtol=1e-12)
    np.testing.assert_allclose(functions[-1](AT), f[2], rtol=1e-12)
    again = posterior("gaussian").sample_functions(3, seed=0)
    np.testing.assert_array_equal(again(AT), f)
    assert functions(AT[:0]).shape == (3, 0) and "512 random waves" in functions.notes[0]
    with pytest.raises(IndexError):
        functions[3]


def test_derivatives_by_jax():
    post = mc.GP(
        k.Matern(1.1, nu=2.5).on(0) * k.Linear(0.5).on(1) + 0.4 * k.Periodic(2.0).on(1),
        mean=lambda Z: 0.1 * Z[:, 0],
        basis=mc.means.Polynomial(1),
    ).condition(np.column_stack([X, X**2 - 1]), Y, noise_variance=0.05)
    functions, x, step = post.sample_functions(2, seed=0), np.array([0.3, -0.2]), 1e-5
    slope = jax.jit(jax.jacobian(lambda z: functions(z[None])[:, 0]))(jnp.asarray(x))
    ends = [functions(x + sign * step * np.eye(2)) for sign in (1, -1)]
    np.testing.assert_allclose(slope, (ends[0] - ends[1]) / (2 * step), rtol=1e-6, atol=1e-8)
    (one,) = jax.grad(lambda z: functions[1](z[None])[0], argnums=(0,))(jnp.asarray(x))
    np.testing.assert_allclose(one, slope[1], rtol=1e-10)


def test_kernels_without_features_say_where_to_look():
    post = mc.GP(k.Wiener()).condition(np.abs(X), Y, noise_variance=0.1)
    with pytest.raises(PosteriorError, match="points=Xp"):
        post.sample_functions(2)
    at = np.array([[0.2], [3.0]])
    f = post.sample_functions(SIZE, seed=0, points=at)(at)
    covariance = post.covariance(at, latent=True)
    np.testing.assert_allclose(np.cov(f.T), covariance, atol=5 * np.sqrt(2 / SIZE) * covariance.max())
    rough = mc.GP(k.SE()).condition(X, Y, noise_variance=0.1, solver=solvers.SubsetOfRegressors(m=3))
    with pytest.raises(PosteriorError, match="VFE"):
        rough.sample_functions()


def test_of_an_estimator_on_a_table():
    table = {"size": X[:, 0], "colour": np.array(["red", "blue", "red", "blue", "red"])}
    model = mc.GPRegressor(max_evaluations=0).fit(table, Y)
    functions = model.sample_functions(400)
    f = functions(table)
    assert f.shape == (400, 5)
    mean, std = model.predict(table, return_std=True)
    assert np.all(np.abs(f.mean(0) - mean) < 5 * std / 20) and f.std(0).max() < std.max() * 1.2
    np.testing.assert_array_equal(model.sample_functions(400)(table), f)
    with pytest.raises(PosteriorError, match="posterior_"):
        jax.grad(lambda x: functions[0](x[None])[0])(jnp.zeros(2))


@pytest.mark.parametrize("wrong", [{"size": 0}, {"waves": 0}])
def test_there_is_at_least_one(wrong):
    post = mc.GP(k.SE()).condition([[0.0], [1.0]], [0.0, 1.0], noise_variance=0.1)
    with pytest.raises(ValueError, match="at least 1"):
        post.sample_functions(**wrong)
