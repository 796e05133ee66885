"""Pictures of classifiers, verdicts' surfaces and chains: labelled, with what they say drawn."""

import numpy as np
import pytest

import mercer as mc
from mercer import datasets, viz
from mercer import kernels as k
from mercer.inference import MCMC
from mercer.likelihoods import Bernoulli

LINE = datasets.toy_classification_1d(0)


def test_probability_and_latent_along_a_line():
    post = mc.Model(mc.GP(k.SE(2.6, 49.0)), Bernoulli()).condition(LINE.X, LINE.y, "laplace")
    ax = viz.probability(post, label="Laplace")
    assert ax.get_ylabel() == "probability of class 1" and ax.get_legend() is not None
    curve = ax.get_lines()[0].get_ydata()
    assert np.all((curve > 0) & (curve < 1))
    assert viz.latent(post, level=0.9).get_ylabel() == "latent f"


def test_regions_of_two_inputs():
    plane = datasets.toy_classification_2d(0)
    post = mc.Model(mc.GP(k.SE(0.3, 9.0)), Bernoulli("logit")).condition(plane.X, plane.y, "laplace")
    ax = viz.regions(post, count=12)
    assert len(ax.collections) >= 3
    with pytest.raises(ValueError, match="two inputs"):
        viz.regions(mc.Model(mc.GP(k.SE()), Bernoulli()).condition(LINE.X, LINE.y, "laplace"))


def test_surface_is_marked():
    x, y = np.linspace(0, 1, 5), np.linspace(2, 3, 4)
    ax = viz.surface(x, y, np.add.outer(y, x), xlabel="a", ylabel="b", mark=(0.5, 2.5))
    assert ax.get_xlabel() == "a" and ax.get_lines()[-1].get_marker() == "+"


@pytest.mark.slow
def test_chains():
    rule = MCMC(draws=20, tune=20, chains=2, sampler="hmc")
    post = mc.Model(mc.GP(k.SE(1.0)), Bernoulli()).condition([[0.0], [1.0]], [1, 0], rule)
    axes = viz.chains(post)
    assert axes.shape == (2, 2) and axes[0, 0].get_title(loc="left").startswith("R-hat")
    with pytest.raises(ValueError, match="no quantity named"):
        viz.chains(post, names=["g"])
