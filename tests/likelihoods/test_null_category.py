"""Unlabelled inputs keep the boundary away (Kuss 6.19)."""

import numpy as np
import pytest
from scipy import integrate
from scipy.stats import norm

import mercer as mc
from mercer import kernels as k
from mercer.inputs import InputError
from mercer.likelihoods import Bernoulli, NullCategory


def test_probabilities_and_integrals():
    likelihood, f = NullCategory(mc.fixed(1.0)), np.array([-2.0, 0.0, 0.7])
    np.testing.assert_allclose(np.exp(likelihood.log_prob(f, np.ones(3))), norm.cdf(f - 0.5), rtol=1e-12)
    np.testing.assert_allclose(
        np.exp(likelihood.log_prob(f, np.zeros(3))), norm.cdf(f - 0.5) + norm.cdf(-f - 0.5), rtol=1e-12
    )
    for y in (-1.0, 0.0, 1.0):
        exact = integrate.quad(
            lambda u, y=y: (
                float(np.exp(likelihood.log_prob(np.array([u]), np.array([y])))[0]) * norm.pdf(u, 0.4, 1.5)
            ),
            -12,
            12,
        )[0]
        assert float(np.exp(likelihood.log_partition(np.array([y]), 0.4, 2.25))[0]) == pytest.approx(
            exact, rel=1e-7
        )


def test_draws(rng):
    likelihood, f = NullCategory(mc.fixed(1.0)), np.array([-1.2, 0.0, 0.7])
    y = likelihood.sample(rng, np.tile(f, (40_000, 1)))
    assert set(y.ravel()) == {-1.0, 1.0}
    np.testing.assert_allclose((y > 0).mean(0), likelihood.probability(f, 0.0, "map"), atol=0.0125)


def test_no_gap_is_probit_and_unlabelled_say_nothing():
    X, y = np.array([[-1.0], [0.2], [1.1], [0.4]]), np.array([-1.0, 1.0, 1.0, 0.0])
    gp, Xs = mc.GP(k.SE(1.0, 4.0)), np.linspace(-2, 2, 5)[:, None]
    semi = mc.Model(gp, NullCategory(mc.fixed(0.0))).condition(X, y, "ep")
    labelled = mc.Model(gp, Bernoulli()).condition(X[:3], y[:3], "ep")
    assert semi.log_evidence == pytest.approx(labelled.log_evidence, abs=1e-8)
    np.testing.assert_allclose(semi.probability(Xs), labelled.probability(Xs), rtol=1e-7)


def test_unlabelled_clusters_move_the_boundary():
    """One label on each side and a cluster of unlabelled inputs right of the middle:
    the boundary goes around the cluster.
    """
    X = np.concatenate([[-2.0, 2.0], np.linspace(-0.6, 1.6, 9)])[:, None]
    y = np.array([-1.0, 1.0] + [0.0] * 9)
    gp = mc.GP(k.SE(1.0, 25.0))
    supervised = mc.Model(gp, Bernoulli()).condition(X[:2], y[:2], "ep")
    semi = mc.Model(gp, NullCategory(mc.fixed(2.0))).condition(X, y, "ep")
    at = np.array([[-0.4]])
    assert supervised.probability(at)[0] < 0.5 < semi.probability(at)[0]


def test_bad_labels():
    with pytest.raises(InputError, match="0 where the label is unknown"):
        NullCategory().targets([1, 2, 0])
