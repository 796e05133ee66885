"""Targets that are Gaussian after a rising function of them: GPRegressor(warp=...), likelihoods.Warped."""

import numpy as np
import pytest

import mercer as mc
from mercer import kernels as k
from mercer import warps
from mercer.gp import log_evidence, log_evidence_and_gradient
from mercer.likelihoods import Gaussian, StudentT, Warped
from mercer.params import ParameterError, flatten

N = 120


@pytest.fixture(scope="module")
def drawn():
    """z about a sine, and a new set of it."""
    rng = np.random.default_rng(0)
    X = np.sort(rng.uniform(0, 3, (2 * N, 1)), 0)
    z = np.sin(2 * X[:, 0]) + 0.3 * rng.normal(size=2 * N)
    return (X[::2], z[::2]), (X[1::2], z[1::2])


def cube(z):
    """Whose Box-Cox transform of power 0.3 is z."""
    return (1.0 + 0.3 * z) ** (1 / 0.3)


@pytest.fixture(scope="module")
def fitted(drawn):
    (X, z), _ = drawn
    return mc.GPRegressor(warp="box-cox").fit(X, cube(z))


def test_the_logarithm_is_a_gp_of_log_y(drawn):
    (X, z), (Xs, zs) = drawn
    y, ys = np.exp(z), np.exp(zs)
    model, plain = mc.GPRegressor(warp="log").fit(X, y), mc.GPRegressor().fit(X, z)
    assert model.log_marginal_likelihood_ == pytest.approx(plain.log_marginal_likelihood_ - z.sum(), rel=1e-9)
    np.testing.assert_allclose(
        model.predict_quantile(Xs, [0.1, 0.9]), np.exp(plain.predict_quantile(Xs, [0.1, 0.9]))
    )
    np.testing.assert_allclose(model.log_density(Xs, ys), plain.log_density(Xs, zs) - zs)
    mean, std = plain.predict(Xs, return_std=True)
    np.testing.assert_allclose(model.predict(Xs), np.exp(mean + 0.5 * std**2))
    np.testing.assert_allclose(model.loo().log_density, plain.loo().log_density - z, rtol=1e-7)
    np.testing.assert_allclose(model.sample_y(Xs[:5], 3), np.exp(plain.sample_y(Xs[:5], 3)))


def test_the_evidence_has_its_gradient(drawn):
    (X, z), _ = drawn
    X, y = X[:20], cube(z)[:20]
    for warp in (warps.BoxCox(0.6), warps.Tanh([0.5], [2.0], [0.3])):
        gp = mc.GP(k.SE(), mc.means.Constant(mc.param(0.2)))
        model = mc.Model(gp, Warped(warp, Gaussian(0.1)))
        flat, (value, gradient) = flatten(model), log_evidence_and_gradient(model, X, y)
        steps = 1e-5 * np.eye(len(flat.vector))
        differences = [
            (
                log_evidence(flat.unflatten(flat.vector + h), X, y)
                - log_evidence(flat.unflatten(flat.vector - h), X, y)
            )
            / 2e-5
            for h in steps
        ]
        np.testing.assert_allclose(flat.pull(gradient, flat.vector), differences, rtol=1e-5, atol=1e-5)
        assert value == pytest.approx(log_evidence(model, X, y), rel=1e-12)


def test_the_power_is_found_and_intervals_hold(drawn, fitted):
    _, (Xs, zs) = drawn
    ys = cube(zs)
    assert float(fitted.warp_.power) == pytest.approx(0.3, abs=0.15)
    lower, upper = fitted.predict_interval(Xs, 0.9)
    assert np.mean((lower <= ys) & (ys <= upper)) == pytest.approx(0.9, abs=0.06)
    plain = mc.GPRegressor().fit(fitted.posterior_.inputs.values, fitted.posterior_.y)
    assert fitted.log_density(Xs, ys).mean() > plain.log_density(Xs, ys).mean() + 0.1
    assert fitted.log_marginal_likelihood_ > plain.log_marginal_likelihood_ + 10


def test_moments_are_those_of_draws_and_densities_integrate_to_one(fitted):
    Xs = np.array([[0.4], [2.4]])
    draws = fitted.sample_y(Xs, 20000, random_state=1)
    mean, std = fitted.predict(Xs, return_std=True)
    np.testing.assert_allclose(mean, draws.mean(1), rtol=0.02)
    np.testing.assert_allclose(std, draws.std(1), rtol=0.03)
    grid = np.linspace(1e-6, 15.0, 3001)
    density = np.exp(fitted.log_density(np.full((3001, 1), 0.4), grid))
    assert np.trapezoid(density, grid) == pytest.approx(1.0, abs=1e-3)
    likelihood, (m, v) = fitted.model_.likelihood, fitted.posterior_.latent_moments(Xs)
    q = fitted.predict_quantile(Xs, 0.2)
    np.testing.assert_allclose(likelihood.cdf(q, m, v), 0.2, rtol=1e-9)
    assert likelihood.cdf(np.array([-1.0]), m[:1], v[:1])[0] == 0.0
    with pytest.raises(ValueError, match="BoxCox takes y above 0"):
        fitted.log_density(Xs, [-1.0, 0.5])


def test_a_row_left_out_is_predicted_by_the_others(fitted):
    post, i = fitted.posterior_, 17
    rest = np.delete(np.arange(N), i)
    again = post.model.condition(post.inputs.values[rest], post.y[rest])
    left, X = post.loo(), post.inputs.values[i : i + 1]
    assert left.mean[i] == pytest.approx(again.mean(X)[0], rel=1e-6)
    assert left.log_density[i] == pytest.approx(again.log_density(X, post.y[i : i + 1])[0], rel=1e-6)


def test_what_it_says_and_keeps(fitted, tmp_path):
    assert "of the Box-Cox transform of y with power 0.3" in fitted.summary()
    fitted.save(tmp_path / "m.mercer")
    again = mc.load(tmp_path / "m.mercer")
    Xs = np.array([[0.5], [2.5]])
    for ask in ("predict", "predict_interval"):
        np.testing.assert_allclose(getattr(again, ask)(Xs), getattr(fitted, ask)(Xs), rtol=1e-9)
    assert float(again.warp_.power) == float(fitted.warp_.power)
    before = mc.GPRegressor(warp="log").predict_quantile(Xs, 0.5)  # of the prior
    np.testing.assert_allclose(before, 1.0)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["yeo-johnson", "tanh", "logit"])
def test_other_warps(drawn, name):
    (X, z), (Xs, zs) = drawn
    back = {"logit": lambda z: 1 / (1 + np.exp(-2 * z))}.get(name, lambda z: np.sinh(2 * z) + 3 * z**2)
    y, ys = back(z), back(zs)
    model, plain = mc.GPRegressor(warp=name).fit(X, y), mc.GPRegressor().fit(X, y)
    assert model.log_density(Xs, ys).mean() > plain.log_density(Xs, ys).mean() + 0.1
    lower, upper = model.predict_interval(Xs, 0.9)
    assert np.mean((lower <= ys) & (ys <= upper)) == pytest.approx(0.9, abs=0.08)


@pytest.mark.slow
def test_weights_groups_solvers_and_sampling(drawn):
    """What Gaussian noise knows of rows, it knows of warped ones; other solvers and rules agree."""
    (X, z), _ = drawn
    rng = np.random.default_rng(1)
    table = np.column_stack([X[:, 0], rng.integers(0, 2, N)])
    model = mc.GPRegressor(warp="log", noise_by=1).fit(table, np.exp(z), sample_weight=rng.uniform(0.5, 2, N))
    plain = mc.GPRegressor(noise_by=1).fit(table, z, sample_weight=np.exp(0 * z) * 1.0)
    assert model.noise_groups_ == plain.noise_groups_ and model.noise_variance_.shape == (2,)
    exact = mc.GPRegressor(k.SE(0.7), warp="log", learn=False).fit(X, np.exp(z))
    many = mc.GPRegressor(k.SE(0.7), warp="log", learn=False, solver=mc.solvers.VFE(m=60)).fit(X, np.exp(z))
    np.testing.assert_allclose(many.predict(X), exact.predict(X), rtol=1e-4)
    ep = exact.model_.condition(X, np.exp(z), "ep")
    assert ep.log_evidence == pytest.approx(exact.log_marginal_likelihood_, rel=1e-6)
    averaged = mc.GPRegressor(warp="box-cox", inference="ccd").fit(X, cube(z))
    np.testing.assert_allclose(
        averaged.predict(X[:3]), mc.GPRegressor(warp="box-cox").fit(X, cube(z)).predict(X[:3]), rtol=0.05
    )


def test_what_cannot_be(drawn):
    (X, z), _ = drawn
    X, z = X[:20], z[:20]
    with pytest.raises(ValueError, match=r"Log takes y above 0.*warp='yeo-johnson'"):
        mc.GPRegressor(warp="log").fit(X, z)
    for settings in (
        {"likelihood": "student-t"},
        {"monotone": {0: 1}},
        {"input_noise": 0.1},
        {"likelihood": "auto"},
    ):
        with pytest.raises(ValueError, match="warp goes with Gaussian noise"):
            mc.GPRegressor(warp="yeo-johnson", **settings).fit(X, z)
    with pytest.raises(ValueError, match="y_error, which is in units of y"):
        mc.GPRegressor(warp="yeo-johnson").fit(X, z, y_error=0.1 + 0 * z)
    with pytest.raises(ValueError, match="leave out likelihood and warp"):
        mc.GPRegressor(warp="yeo-johnson", outputs="coregional").fit(X, np.stack([z, z], 1))
    with pytest.raises(ParameterError, match="Warped takes a warp"):
        Warped(warps.Log(), StudentT())
