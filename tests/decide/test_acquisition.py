"""Acquisitions against Monte Carlo and finite differences; the surrogate against `GP`."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import erfcx
from scipy.stats import norm

import mercer as mc
from mercer.decide import acquisition, ahead, feasible, pareto, surrogate

GROUPS = np.array([0, 1])
THETA = np.array([np.log(0.4), np.log(0.7), np.log(1.3), np.log(0.01), np.log(5.0)])


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    U = rng.random((12, 2))
    return U, np.exp(2 * U[:, 0]) + 3 * (U[:, 1] - 0.4) ** 2 + 0.1 * rng.standard_normal(12)


@pytest.fixture(scope="module")
def gp(data):
    return surrogate.condition(THETA, *data, GROUPS)


@pytest.fixture(scope="module")
def places():
    return np.random.default_rng(1).random((16, 2))


@pytest.fixture(scope="module")
def draws(gp, places):
    """Joint draws of f at the places and at the data, (S, 16 + 12)."""
    both = np.r_[places, np.asarray(gp.inputs)[:12]]
    mean = np.asarray(surrogate.predict(gp, both)[0])
    C = np.asarray(surrogate.covariance(gp, both, both))
    L = np.linalg.cholesky(C + 1e-10 * np.eye(28))
    return mean + np.random.default_rng(2).standard_normal((200_000, 28)) @ L.T


def test_the_surrogate_is_the_gp_of_its_data(data, gp, places):
    U, y = data
    z = np.asarray(gp.warp(y))
    assert abs(z.mean()) < 1e-12 and z.std() == pytest.approx(1.0)
    k = mc.kernels.Matern(np.exp(THETA[:2]), np.exp(THETA[2])) + mc.kernels.Constant(1.0)
    post = mc.GP(k).condition(U, z, noise_variance=np.exp(THETA[3]))
    mean, variance = surrogate.predict(gp, places)
    np.testing.assert_allclose(mean, post.mean(places), atol=1e-8)
    np.testing.assert_allclose(variance, post.variance(places, latent=True), atol=1e-8)
    best, unit = surrogate.anchor(y)
    t = np.r_[(y - best) / unit, np.zeros(4)]
    padded, mask = np.r_[U, np.zeros((4, 2))], np.r_[np.ones(12), np.zeros(4)]
    both = [surrogate.log_posterior(theta, padded, t, mask, GROUPS) for theta in (THETA, THETA + 1e-5)]
    slope = jax.grad(surrogate.log_posterior)(THETA + 5e-6, padded, t, mask, GROUPS)
    np.testing.assert_allclose((both[1] - both[0]) / 1e-5, slope.sum(), rtol=1e-6)
    jacobian = np.log(np.asarray(jax.vmap(jax.grad(lambda v: gp.warp(v) * unit))(y))).sum()
    log_prior = float(both[0]) - float(post.log_evidence) - jacobian
    assert -20 < log_prior <= 0
    np.testing.assert_allclose(gp.warp.back(z), y, rtol=1e-10)


def test_rows_appended_are_rows_conditioned_on(data, gp, places):
    U, _ = data
    grown = surrogate.append(surrogate.append(gp, places[0], 2.0), places[1], 3.0)
    z = np.r_[np.asarray(gp.targets)[:12], [float(gp.warp(v)) for v in (2.0, 3.0)]]
    k = mc.kernels.Matern(np.exp(THETA[:2]), np.exp(THETA[2])) + mc.kernels.Constant(1.0)
    post = mc.GP(k).condition(np.r_[U, places[:2]], z, noise_variance=np.exp(THETA[3]))
    mean, variance = surrogate.predict(grown, places)
    np.testing.assert_allclose(mean, post.mean(places), atol=1e-8)
    np.testing.assert_allclose(variance, post.variance(places, latent=True), atol=1e-8)


def test_log_improvement_in_both_tails():
    u = np.array([-1e6, -300.0, -40.0, -25.1, -24.9, -8.0, -1.0, -1e-9, 0.0, 1e-9, 1.0, 9.0, 300.0])
    below, above = u[u < 0], u[u >= 0]
    share = 1 - np.sqrt(np.pi / 2) * -below * erfcx(-below / np.sqrt(2))  # phi(u) + u Phi(u) over phi(u)
    v = below**-2.0
    share = np.where(below < -100, v - 3 * v**2 + 15 * v**3, share)
    truth = np.r_[norm.logpdf(below) + np.log(share), np.log(norm.pdf(above) + above * norm.cdf(above))]
    np.testing.assert_allclose(acquisition.log_improvement(u), truth, rtol=1e-9, atol=1e-9)
    slopes = jax.vmap(jax.grad(acquisition.log_improvement))(u)
    assert np.isfinite(slopes).all() and (np.asarray(slopes) > 0).all()
    np.testing.assert_allclose(slopes[2], 40.0 + 2 / 40.0, rtol=1e-2)


def _scores(gp, places):
    """Every acquisition with its data."""
    best = float(np.asarray(surrogate.predict(gp, gp.inputs)[0])[:12].min())
    rivals = np.r_[np.asarray(gp.inputs)[:12], np.zeros((4, 2))]
    noisy = acquisition.noisy(
        gp, rivals, np.r_[np.ones(12), np.zeros(4)], acquisition.standard_normals(1024, 16)
    )
    nothing = (np.zeros(2, bool), np.zeros(2))
    front = np.array([[-1.0, 1.0], [0.0, 0.0], [1.0, -1.0]])
    limit = {"gp": gp, "low": -0.5, "high": 0.7}
    return {
        "improvement": (acquisition.expected_improvement, {"gp": gp, "best": best}),
        "probability": (acquisition.probability_of_improvement, {"gp": gp, "best": best}),
        "bound": (acquisition.confidence_bound, {"gp": gp, "kappa": 2.0}),
        "noisy": (acquisition.noisy_improvement, noisy),
        "knowledge": (ahead.knowledge_gradient, ahead.knowledge(gp, places, nothing)),
        "entropy": (ahead.entropy_of_the_least, ahead.least_values(gp, places)),
        "thompson": (ahead.thompson, ahead.draw(gp, np.random.default_rng(0))),
        "volume": (pareto.hypervolume_improvement, pareto.volume_data((gp, gp), front, np.array([1.5, 1.5]))),
        "limits": (feasible.log_within, limit),
    }


def test_values_against_monte_carlo(gp, places, draws):
    scores = _scores(gp, places)
    found = {name: np.asarray(score(places, data)) for name, (score, data) in scores.items()}
    f, at_data = draws[:, :16], draws[:, 16:]
    best = scores["improvement"][1]["best"]
    np.testing.assert_allclose(np.exp(found["improvement"]), np.maximum(best - f, 0).mean(0), atol=4e-3)
    np.testing.assert_allclose(np.exp(found["probability"]), (f < best).mean(0), atol=4e-3)
    gain = np.maximum(at_data.min(1)[:, None] - f, 0)
    np.testing.assert_allclose(np.exp(found["noisy"]), gain.mean(0), atol=6e-3)
    np.testing.assert_allclose(np.exp(found["limits"]), ((f > -0.5) & (f < 0.7)).mean(0), atol=4e-3)
    g = np.random.default_rng(3).permutation(f)  # the second objective is independent
    front, reference = np.array([[-1.0, 1.0], [0.0, 0.0], [1.0, -1.0]]), np.array([1.5, 1.5])
    have = pareto.dominated_volume(front, reference)
    for i in (0, 5):
        added = [
            pareto.dominated_volume(np.r_[front, [[a, b]]], reference) - have
            for a, b in zip(f[:4000, i], g[:4000, i], strict=True)
        ]
        error = np.std(added) / np.sqrt(4000)
        assert np.exp(found["volume"][i]) == pytest.approx(np.mean(added), abs=4 * error + 1e-4)
    assert (found["entropy"] < 3).all() and np.isfinite(found["knowledge"]).all()


@pytest.mark.slow
def test_the_knowledge_gradient_is_what_a_value_tells(gp, places):
    """Against refitting the surrogate on drawn values."""
    score, data = _scores(gp, places)["knowledge"]
    found = np.exp(np.asarray(score(places[:2], data)))
    T = np.asarray(data["targets"])
    for i in range(2):
        rows = np.r_[T, places[i : i + 1]]
        mean, variance = (float(part[0]) for part in surrogate.predict(gp, places[i : i + 1]))
        now = float(np.asarray(surrogate.predict(gp, rows)[0]).min())
        std = np.sqrt(variance + float(gp.noise_variance))
        after = [
            float(
                np.asarray(
                    surrogate.predict_jit(surrogate.believe(gp, places[i], mean + std * z), rows)[0]
                ).min()
            )
            for z in data["normals"]
        ]
        assert found[i] == pytest.approx(now - np.mean(after), abs=1e-6)


@pytest.mark.representative("improvement", "limits", "entropy")
@pytest.mark.parametrize(
    "name", ["improvement", "noisy", "volume", "limits", "thompson", "knowledge", "entropy"]
)
def test_gradients_against_differences(gp, places, name):
    score, data = _scores(gp, places)[name]
    at = jnp.array([[0.31, 0.62]])
    slope = np.asarray(jax.grad(lambda a: score(a, data)[0])(at))[0]
    step = 1e-6
    for j in range(2):
        move = np.eye(2)[j][None] * step
        difference = float(score(at + move, data)[0] - score(at - move, data)[0]) / (2 * step)
        assert slope[j] == pytest.approx(difference, rel=1e-4, abs=1e-6)


def test_labels_are_those_of_the_classifier(data, places):
    U, _ = data
    labels = (U[:, 0] > 0.5).astype(int)
    learner = feasible.LabelLearner(GROUPS)
    gp = learner.gp(U, labels)
    model = learner._model(learner.values)
    expected = model.condition(U, labels, inference="ep").probability(places)
    np.testing.assert_allclose(np.exp(np.asarray(feasible.log_label(places, gp))), expected, atol=1e-8)


def test_the_front_and_its_volume():
    Y = np.array([[0.0, 1.0], [1.0, 0.0], [1.0, 1.0], [0.0, 1.0], [2.0, 2.0]])
    assert pareto.front_rows(Y).tolist() == [0, 1]
    assert pareto.dominated_volume(Y[:2], np.array([2.0, 2.0])) == pytest.approx(3.0)
    rng = np.random.default_rng(0)
    Y = rng.random((12, 3))
    seen = rng.random((200_000, 3)) * 1.2
    share = np.mean([(s >= Y).all(1).any() for s in seen[:20_000]])
    volume = pareto.dominated_volume(Y[pareto.front_rows(Y)], np.full(3, 1.2))
    assert volume == pytest.approx(share * 1.2**3, abs=0.03)
