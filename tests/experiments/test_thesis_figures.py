"""Settings of figures in Kuss' thesis that print no numbers: what the text says of them."""

import numpy as np
import pytest

import mercer as mc
from mercer import datasets
from mercer import kernels as k
from mercer.likelihoods import Bernoulli, Gaussian

RNG = np.random.default_rng(1)


def test_evidence_of_arbitrary_and_of_learned_parameters():
    """P.F3.2: 15 noisy values of sin(x) / x; the evidence of ML-II is orders of magnitude above that of an
    arbitrary setting, and neighbouring function values become strongly correlated.
    """
    x = np.sort(RNG.uniform(-10, 10, 15))[:, None]
    y = np.sinc(x[:, 0] / np.pi) + 0.1 * RNG.normal(size=15)
    start = mc.Model(mc.GP(k.SE(0.3, 1.0)), Gaussian(0.01))
    found = mc.fit(start, x, y)
    assert found.value > mc.log_evidence(start, x, y) + np.log(1e3)
    K = found.model.gp.kernel(x)
    apart = np.diff(x[:, 0])
    neighbours = np.diag(K, 1) / K[0, 0]
    assert neighbours[apart < 1.0].min() > 0.5


def test_a_mean_of_zero_and_a_learned_one():
    """P.F3.3: values about 10; away from the data a zero mean returns to 0, a learned constant to 10."""
    x = np.linspace(-2, 2, 12)[:, None]
    y = 10.0 + np.sin(2 * x[:, 0]) + 0.1 * RNG.normal(size=12)
    kernel, noise = k.SE(mc.fixed(0.7), mc.fixed(1.0)), Gaussian(mc.fixed(0.01))
    zero = mc.Model(mc.GP(kernel), noise).condition(x, y)
    learned = mc.fit(mc.Model(mc.GP(kernel, mc.means.Constant(0.0)), noise), x, y).posterior
    far = [[1e4]]
    assert zero.mean(far)[0] == pytest.approx(0.0, abs=1e-6)
    assert learned.mean(far)[0] == pytest.approx(10.0, abs=1.0)
    np.testing.assert_allclose(zero.mean(x), learned.mean(x), atol=0.5)


def test_probabilities_tend_to_one_half_away_from_the_data():
    """P.F6.2: forty points in two dimensions, hyperparameters by the evidence of EP."""
    X = RNG.normal(size=(40, 2)) + np.where(np.arange(40) % 2, 1.5, -1.5)[:, None]
    y = np.where(np.arange(40) % 2, 1.0, -1.0)
    prior = mc.hyperpriors.LogNormal(2.0, 1.0)  # separable data: the evidence alone does not bound it
    model = mc.Model(mc.GP(k.SE(1.0, mc.param(4.0, prior=prior))), Bernoulli())
    post = mc.fit(model, X, y, inference="ep").posterior
    p = post.probability([[2.0, 2.0], [-2.0, -2.0], [1e6, 1e6]])
    assert p[0] > 0.8 and p[1] < 0.2 and p[2] == pytest.approx(0.5, abs=1e-3)


@pytest.mark.slow
def test_laplace_and_ep_at_the_reference_setting(data_dir):
    """P.U1, P.U3, P.U4: digits 3 against 5 at ln sigma = 3.35, ln l = 2.85: a case that EP is sure of and
    Laplace is not; Laplace's means are much smaller, roughly in proportion, and of the same sign.
    """
    train = datasets.load("usps_3v5")
    y = np.where(np.asarray(train.y) == 3, 1.0, -1.0)
    model = mc.Model(mc.GP(k.SE(np.exp(2.85), np.exp(6.7))), Bernoulli())
    found = {rule: model.condition(train.X, y, rule) for rule in ("laplace", "ep")}
    p = {rule: post.probability(train.X) for rule, post in found.items()}
    sure = (p["ep"] < 1e-3) & (p["laplace"] > 0.15)
    assert sure.any()
    m = {rule: post.mean(train.X, latent=True) for rule, post in found.items()}
    assert np.mean(np.sign(m["laplace"]) == np.sign(m["ep"])) > 0.99
    assert np.corrcoef(m["laplace"], m["ep"])[0, 1] > 0.9
    assert np.linalg.norm(m["ep"]) > 2 * np.linalg.norm(m["laplace"])  # 2.9 times; the thesis gives no number
