"""Mixtures of Gaussian-process experts: the weighted expert, the bound and its climb, one expert, labels,
quantiles.
"""

import dataclasses

import numpy as np
import pytest
from scipy.special import log_softmax
from scipy.stats import multivariate_normal, norm

import mercer as mc
from mercer import kernels as k
from mercer.em import ConstantGate, GPExperts, GPGate, SoftmaxGate, em
from mercer.em.experts import weighted, weighted_evidence
from mercer.inputs import Inputs
from mercer.likelihoods import Gaussian
from mercer.params import fixed


def step(rng, n=40):
    x = np.sort(rng.uniform(-1, 1, n))
    return x[:, None], np.sign(x) + 0.1 * rng.normal(size=n)


def expert(variance=1.0, lengthscale=1.0, noise=0.05):
    return mc.Model(mc.GP(k.SE(lengthscale, variance)), Gaussian(noise))


def two(rng, X, y, gate=SoftmaxGate):
    return GPExperts.around(X, y, [expert()] * 2, gate.start(X, 2), rng)


def test_weights_are_repetitions():
    """A datum of weight two counts as two equal data; one of weight zero not at all."""
    X, y = step(np.random.default_rng(0), 6)
    r = np.array([1.0, 2.0, 1.0, 0.0, 3.0, 1.0])
    repeated = np.repeat(np.arange(6), r.astype(int))
    model = expert()
    once = model.condition(X[repeated], y[repeated])
    value, _ = weighted_evidence(model, Inputs(X), y, r)
    assert value == pytest.approx(once.log_evidence, abs=1e-9)
    grid = np.linspace(-1, 1, 5)[:, None]
    for a, b in zip(
        weighted(model, Inputs(X), y, r).latent_moments(grid), once.latent_moments(grid), strict=True
    ):
        np.testing.assert_allclose(a, b, rtol=0, atol=1e-9)


def test_weighted_evidence_in_closed_form_and_its_gradient():
    """log ∫ Π N(y_i | f_i, σ²)^{r_i} p(f) df by hand, and differences."""
    rng = np.random.default_rng(1)
    X, y = step(rng, 5)
    r, noise = rng.uniform(0.01, 1.0, 5), 0.07

    def value(model):
        return weighted_evidence(model, Inputs(X), y, r)

    K = k.SE(0.8, 1.3)(X)
    D = np.diag(noise / r)
    by_hand = multivariate_normal(np.zeros(5), K + D).logpdf(y)
    by_hand += 0.5 * np.sum(np.log(2 * np.pi * np.diag(D))) - 0.5 * r.sum() * np.log(2 * np.pi * noise)
    found, gradient = value(expert(1.3, 0.8, noise))
    assert found == pytest.approx(by_hand, abs=1e-10)
    h = 1e-5
    for name, at in {
        "kernel.variance": (1, 0, 0),
        "kernel.lengthscale": (0, 1, 0),
        "likelihood.noise_variance": (0, 0, 1),
    }.items():
        up, down = (value(expert(*(np.array([1.3, 0.8, noise]) + s * h * np.array(at))))[0] for s in (1, -1))
        assert gradient[name] == pytest.approx((up - down) / (2 * h), abs=1e-6)


def brute_force_evidence(experts, log_g, X, y):
    """log p(y) by summing over all labels of the data."""
    n, total = len(y), -np.inf
    for labels in np.ndindex(*(len(experts),) * n):
        c = np.array(labels)
        term = log_g[np.arange(n), c].sum()
        for j, e in enumerate(experts):
            mine = c == j
            if mine.any():
                K = e.gp.kernel(X[mine]) + float(e.likelihood.noise_variance) * np.eye(mine.sum())
                term += multivariate_normal(np.zeros(mine.sum()), K).logpdf(y[mine])
        total = np.logaddexp(total, term)
    return total


def test_the_bound_is_below_the_evidence_and_climbs():
    rng = np.random.default_rng(2)
    X, y = step(rng, 8)
    model = GPExperts(
        (expert(1.0, 1.0), expert(0.5, 2.0)), ConstantGate(np.array([0.4, 0.6])), rng.dirichlet([1, 1], 8)
    )
    exact = brute_force_evidence(model.experts, model.gate.log_prob(X), X, y)
    bounds = []
    for _ in range(12):
        found = model.expect((X, y))
        bounds.append(found.log_likelihood)
        model = dataclasses.replace(model, responsibilities=found.responsibilities)
    assert (np.diff(bounds) > -1e-9).all() and bounds[-1] > bounds[0]
    assert exact - 5.0 < bounds[-1] <= exact


@pytest.mark.parametrize("gate", [SoftmaxGate, ConstantGate, GPGate])
def test_em_climbs(gate):
    X, y = step(np.random.default_rng(3))
    found = em(two(np.random.default_rng(0), X, y, gate), [(X, y)], max_evaluations=6, tol=0.0, slack=1e-9)
    path = found.path()
    assert len(path) == 7 and (np.diff(path) > -1e-9).all() and path[-1] > path[0] + 1


def test_the_order_of_experts_means_nothing():
    X, y = step(np.random.default_rng(4))
    start = two(np.random.default_rng(0), X, y)
    gate = dataclasses.replace(start.gate, weights=start.gate.weights[::-1])
    other = dataclasses.replace(start, gate=gate, responsibilities=start.responsibilities[:, ::-1])
    first, second = (
        em(s, [(X, y)], max_evaluations=3, tol=0.0).model.condition(X, y) for s in (start, other)
    )
    np.testing.assert_allclose(first.mean(X), second.mean(X), rtol=0, atol=1e-6)
    np.testing.assert_allclose(first.responsibilities, second.responsibilities[:, ::-1], rtol=0, atol=1e-6)


def test_a_step_is_found():
    X, y = step(np.random.default_rng(5))
    post = em(two(np.random.default_rng(0), X, y), [(X, y)], max_evaluations=15).model.condition(X, y)
    right = post.responsibilities[:, int(post.responsibilities[-1].argmax())]
    assert ((right > 0.5) == (X[:, 0] > 0)).all()
    np.testing.assert_allclose(post.mean([[-0.8], [0.8]]), [-1.0, 1.0], rtol=0, atol=0.1)


def test_predictions_are_those_of_a_mixture():
    X, y = step(np.random.default_rng(6), 20)
    post = two(np.random.default_rng(0), X, y).condition(X, y)
    Xs = np.array([[-0.9], [0.0], [0.4]])
    g, m, v = post.parts(Xs)
    np.testing.assert_allclose(g.sum(1), 1.0, rtol=1e-14)
    grid = np.linspace(-15, 15, 60_001)
    for i in range(3):
        density = np.exp([float(post.log_density(Xs[[i]], [t])[0]) for t in (-1.0, 0.3)])
        by_hand = [(g[i] * norm(m[i], np.sqrt(v[i])).pdf(t)).sum() for t in (-1.0, 0.3)]
        np.testing.assert_allclose(density, by_hand, rtol=1e-12)
        p = (g[i][:, None] * norm(m[i][:, None], np.sqrt(v[i])[:, None]).pdf(grid)).sum(0)
        mean, std = (a[i] for a in post.mean_and_std(Xs))
        assert mean == pytest.approx(np.trapezoid(p * grid, grid), abs=1e-8)
        assert std**2 == pytest.approx(np.trapezoid(p * (grid - mean) ** 2, grid), abs=1e-7)
    q = post.quantile(Xs, [0.025, 0.5, 0.9])
    below = (g[:, None, :] * norm(m[:, None, :], np.sqrt(v)[:, None, :]).cdf(q[:, :, None])).sum(2)
    np.testing.assert_allclose(below, np.broadcast_to([0.025, 0.5, 0.9], (3, 3)), rtol=0, atol=1e-12)
    np.testing.assert_array_equal(post.quantile(Xs, 0.5), q[:, 1])
    with pytest.raises(ValueError, match="strictly between 0 and 1"):
        post.quantile(Xs, 1.0)


def test_gates_maximise_what_they_say():
    rng = np.random.default_rng(7)
    X, r = rng.normal(size=(30, 2)), rng.dirichlet([1, 1, 1], 30)
    for gate in (SoftmaxGate.start(X, 3), ConstantGate.start(X, 3), GPGate.start(X, 3)):
        fitted = gate.fit(X, r)
        value = lambda g: np.sum(r * g.log_prob(X)) + g.log_prior()  # noqa: E731
        np.testing.assert_allclose(np.exp(fitted.log_prob(X)).sum(1), 1.0, rtol=1e-13)
        for _ in range(20):
            noise = 1e-2 * rng.normal(size=gate.weights.shape)
            near = (
                np.exp(np.log(fitted.weights) + noise)
                if isinstance(gate, ConstantGate)
                else fitted.weights + noise
            )
            near = near / near.sum() if isinstance(gate, ConstantGate) else near
            assert value(dataclasses.replace(fitted, weights=near)) <= value(fitted) + 1e-6


def test_a_gp_gate_is_the_mode_of_softmax_regression():
    """B.X12: with all rows as places and certain labels, the posterior mode that Laplace's method finds."""
    X, labels = np.random.default_rng(8).normal(size=(15, 1)), np.arange(15) % 3
    gate = GPGate.start(X, 3).fit(X, np.eye(3)[labels])
    Z = (X - gate.centre) / gate.scale
    model = mc.Model(mc.GP(k.SE(gate.lengthscale, 25.0)), mc.likelihoods.Softmax(3))
    mode = model.condition(Z, labels, "laplace").mean(Z, latent=True)
    np.testing.assert_allclose(gate.log_prob(X), log_softmax(mode, axis=1), atol=2e-3)


def test_an_expert_without_data_stays():
    X, y = step(np.random.default_rng(8), 12)
    r = np.column_stack([np.ones(12), np.zeros(12)])
    model = GPExperts((expert(), expert()), ConstantGate(np.array([0.5, 0.5])), r).maximise(
        GPExperts((expert(), expert()), ConstantGate(np.array([0.5, 0.5])), r).expect((X, y))
    )
    assert np.isfinite(model.expect((X, y)).log_likelihood)
    assert np.isfinite(model.condition(X, y).mean(X)).all()


def test_what_experts_refuse():
    X, y = step(np.random.default_rng(9), 4)
    gate = ConstantGate(np.array([0.5, 0.5]))
    with pytest.raises(
        ValueError, match=r"responsibilities must be probabilities \(n, 2\), got an array of shape \(4, 1\)"
    ):
        GPExperts((expert(), expert()), gate, np.ones((4, 1)))
    with pytest.raises(ValueError, match="Gaussian noise of one variance"):
        GPExperts((mc.Model(mc.GP(k.SE()), Gaussian(fixed([0.1, 0.2]))),), gate, np.ones((4, 1)))
    model = two(np.random.default_rng(0), X, y)
    with pytest.raises(TypeError, match="data in one part"):
        model.expect((X, y)) + model.expect((X, y))
    with pytest.raises(ValueError, match="NaN"):
        model.expect((X, np.array([np.nan, 1, 2, 3])))
