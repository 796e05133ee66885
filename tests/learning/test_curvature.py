"""Intervals of hyperparameters, from the curvature of the evidence."""

import numpy as np
import pytest

import mercer
from mercer import kernels as k
from mercer import likelihoods
from mercer.learning.curvature import intervals


@pytest.fixture(scope="module")
def noise():
    """y ~ N(0, s), nothing else: -n/2 log s - sum y^2 / 2s, whose curvature in log s is n / 2 at its top."""
    y = np.random.default_rng(0).normal(0.0, 2.0, 50)
    nothing = k.SE(mercer.fixed(1.0), mercer.fixed(1e-12))
    model = mercer.Model(mercer.GP(nothing), likelihoods.Gaussian(mercer.param(1.0)))
    return mercer.fit(model, np.arange(50.0)[:, None], y), y


def test_the_interval_of_a_variance_is_the_closed_form(noise):
    found, y = noise
    best, half = np.mean(y**2), 1.96 * np.sqrt(2 / len(y))
    low, high = intervals(found)["likelihood.noise_variance"]
    np.testing.assert_allclose([low, high], [best * np.exp(-half), best * np.exp(half)], rtol=1e-3)


def test_what_data_leave_open_is_said():
    """A length-scale that one row cannot tell."""
    model = mercer.Model(mercer.GP(k.SE(1.0, mercer.fixed(1.0))), likelihoods.Gaussian(mercer.fixed(0.1)))
    found = mercer.fit(model, np.zeros((1, 1)), np.zeros(1), max_evaluations=0)
    assert intervals(found) == {"kernel.lengthscale": None}


def test_nothing_is_said_of_what_was_given():
    model = mercer.Model(
        mercer.GP(k.SE(mercer.fixed(1.0), mercer.fixed(1.0))), likelihoods.Gaussian(mercer.fixed(1.0))
    )
    assert intervals(mercer.fit(model, np.zeros((2, 1)), np.ones(2))) == {}
