"""Old Faithful and the Nile: the likelihoods of scikit-learn and the year of the change."""

import pytest

import mercer as mc
from mercer import datasets


def test_old_faithful_has_the_likelihoods_of_scikit_learn(data_dir):
    from experiments.em_examples import eruptions, sklearn_log_likelihood

    X = eruptions()
    two = mc.GaussianMixture(2, tol=1e-13, max_evaluations=1000, random_state=0).fit(X)
    assert two.log_likelihood_ == pytest.approx(sklearn_log_likelihood(X, 2, "full"), abs=5e-4)
    three = mc.GaussianMixture(3, "tied", restarts=9, tol=1e-9, max_evaluations=1000, random_state=0).fit(X)
    assert three.log_likelihood_ == pytest.approx(sklearn_log_likelihood(X, 3, "tied"), abs=0.02)


def test_the_nile_changes_in_1898(data_dir):
    data = datasets.load("nile")
    model = mc.HMM(2, restarts=4, tol=1e-10, random_state=0).fit(data.y)
    path = model.viterbi(data.y)
    high = path == model.means_[:, 0].argmax()
    assert high[data.X[:, 0] <= 1898].all() and not high[data.X[:, 0] > 1898].any()
    assert model.log_likelihood_ == pytest.approx(-629.804, abs=5e-4)
