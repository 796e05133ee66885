"""WAIC and PSIS-LOO against closed forms, refits and each other."""

import numpy as np
import pytest
from scipy.special import logsumexp

import mercer as mc
from mercer import kernels as k
from mercer import likelihoods as lk
from mercer.inference import EP
from mercer.posteriors import AveragedPosterior, PosteriorError, compare_scores
from tests.posteriors.conformance import CASES, MODELS, N, X, Y, posterior

RNG = np.random.default_rng(8)
XN = np.sort(RNG.uniform(-3, 3, (24, 1)), 0)
YN = np.sin(XN[:, 0]) + 0.5 * RNG.standard_normal(24)
NOISY = mc.Model(mc.GP(k.SE(1.2)), lk.Gaussian(0.25))


@pytest.mark.parametrize("name", CASES)
def test_every_posterior_has_both(name):
    post = posterior(name)
    for score in (post.waic(200), post.psis_loo(200)):
        assert score.log_density.shape == score.penalty.shape == (N,) and score.draws >= 40
        assert np.isfinite(score.total) and score.standard_error > 0 and score.method in str(score)
        assert score.total == pytest.approx(score.log_density.sum())
    np.testing.assert_array_equal(post.psis_loo(200).log_density, score.log_density)
    assert score.pareto_k.shape == (N,) and np.all(score.penalty >= -1e-9)
    with pytest.raises(ValueError, match="at least 2"):
        post.waic(1)


def test_gaussian_regression_is_the_exact_leave_one_out():
    """Within Monte Carlo error; far in the tail these ratios have the shape v / noise."""
    post = NOISY.condition(XN, YN)
    score, exact = post.psis_loo(), post.loo().log_density
    assert score.pareto_k.max() < 0.7
    np.testing.assert_allclose(score.log_density, exact, atol=0.06)
    np.testing.assert_allclose(score.pareto_k, post.variance(XN, latent=True) / 0.25, atol=0.35)
    assert score.parameters == pytest.approx(post.log_density(XN, YN).sum() - exact.sum(), abs=0.1)
    waic = post.waic()
    assert waic.total == pytest.approx(exact.sum(), abs=0.5)
    assert waic.standard_error == pytest.approx(exact.std(ddof=1) * np.sqrt(24), rel=0.1)


def test_waic_is_its_definition():
    """For Gaussian noise the variance of log p(y | f) over f ~ N(m, v) is (v^2 / 2 + v (y - m)^2) / s^2."""
    post = NOISY.condition(XN, YN)
    mean, v = post.latent_moments(XN)
    score = post.waic(40_000)
    penalty = (v**2 / 2 + v * (YN - mean) ** 2) / 0.25**2
    np.testing.assert_allclose(score.penalty, penalty, rtol=0.08)
    np.testing.assert_allclose(score.log_density, post.log_density(XN, YN) - penalty, atol=0.02)


def test_two_classes_against_refits_without_each_row():
    model = mc.Model(mc.GP(k.SE(1.2, 1.5)), lk.Bernoulli())
    y = np.where(YN > 0, 1.0, -1.0)
    score = model.condition(XN, y, EP()).psis_loo()
    assert score.pareto_k.max() < 0.7 and not score.notes
    for i in range(0, 24, 3):
        others = np.delete(np.arange(24), i)
        refit = model.condition(XN[others], y[others], EP()).log_density(XN[[i]], y[[i]])
        assert score.log_density[i] == pytest.approx(refit[0], abs=0.04)


def test_averages_weigh_their_parts_again():
    """Without datum i a part has weight w / p(y_i | y_-i, part)."""
    post = AveragedPosterior(tuple(m.condition(XN, YN) for m in MODELS), np.array([0.2, 0.5, 0.3]))
    each = np.stack([part.loo().log_density for part in post.posteriors])
    exact = -logsumexp(-each, axis=0, b=post.weights[:, None])
    score = post.psis_loo()
    reliable = score.pareto_k < 0.7
    assert reliable.sum() > 15
    np.testing.assert_allclose(score.log_density[reliable], exact[reliable], atol=0.1)


def test_what_cannot_be_relied_upon_is_said():
    y = Y.copy()
    y[3] = 9.0
    score = mc.GP(k.SE(0.3)).condition(X, y, noise_variance=0.01).psis_loo()
    assert score.pareto_k[3] > 0.7 and "k-hat is above 0.7" in score.notes[0] and "note:" in score.summary()
    assert "psis_loo" in mc.GP(k.SE(0.3)).condition(X, y, noise_variance=0.01).waic().notes[0]
    with pytest.raises(PosteriorError, match="noise"):
        mc.GP(k.SE()).condition(X, Y, noise_variance=0.0).waic()


def test_comparison():
    wrong = mc.Model(mc.GP(k.SE(30.0)), lk.Gaussian(0.25)).condition(XN, YN).psis_loo()
    right = NOISY.condition(XN, YN).psis_loo()
    found = compare_scores({"flat": wrong, "wavy": right})
    assert found.best == "wavy" and found.names == ("wavy", "flat")
    lost = wrong.log_density - right.log_density
    np.testing.assert_allclose(found.difference, [0.0, lost.sum()])
    np.testing.assert_allclose(found.standard_error, [0.0, np.sqrt(24) * lost.std(ddof=1)])
    assert "wavy" in str(found).splitlines()[2]
    assert compare_scores([right, right]).names == ("model 1", "model 2")
    with pytest.raises(ValueError, match="one method"):
        compare_scores([right, NOISY.condition(XN, YN).waic()])
