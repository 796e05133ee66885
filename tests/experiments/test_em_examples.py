"""Old Faithful and the Nile: published log-likelihoods and the year of the change."""

import pytest

import mercer as mc
from mercer import datasets


def test_old_faithful_has_the_published_likelihoods(data_dir):
    """R's mixtools for two Gaussians (log-likelihood, means, share), R's mclust for three of equal covariance."""
    from experiments.em_examples import PUBLISHED, eruptions

    X = eruptions()
    two = mc.GaussianMixture(2, tol=1e-13, max_iter=1000, random_state=0).fit(X)
    assert two.log_likelihood_ == pytest.approx(PUBLISHED["two full"], abs=5e-4)
    short = two.means_[:, 0].argmin()
    assert two.means_[short] == pytest.approx([2.036388, 54.478516], abs=1e-5)
    assert two.means_[1 - short] == pytest.approx([4.289662, 79.968115], abs=1e-5)
    assert two.weights_[short] == pytest.approx(0.355873, abs=1e-6)
    three = mc.GaussianMixture(3, "tied", n_init=10, tol=1e-9, max_iter=1000, random_state=0).fit(X)
    assert three.log_likelihood_ == pytest.approx(PUBLISHED["three tied"], abs=0.02)


def test_the_nile_changes_in_1898(data_dir):
    data = datasets.load("nile")
    model = mc.HMM(2, n_init=5, tol=1e-10, random_state=0).fit(data.y)
    path = model.viterbi(data.y)
    high = path == model.means_[:, 0].argmax()
    assert high[data.X[:, 0] <= 1898].all() and not high[data.X[:, 0] > 1898].any()
    assert model.log_likelihood_ == pytest.approx(-629.804, abs=5e-4)
