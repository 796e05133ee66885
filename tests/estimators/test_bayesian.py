"""Estimators that average over hyperparameters: sampled, or on a few settings around the best."""

import numpy as np
import pytest

import mercer as mc
from mercer.inference import MCMC
from mercer.serialise import SerialiseError

RNG = np.random.default_rng(0)
X = np.sort(RNG.uniform(-3, 3, 16))[:, None]
Y = np.sin(1.5 * X[:, 0]) + 0.2 * RNG.normal(size=16)
LABELS = np.where(np.sin(1.2 * X[:, 0]) > 0, "up", "down")
XS = np.linspace(-4, 4, 7)[:, None]
SHORT = MCMC(draws=200, tune=200, chains=2, seed=0)


@pytest.mark.filterwarnings("ignore::mercer.learning.FitWarning")
@pytest.mark.parametrize("inference", [SHORT, "ccd"], ids=["mcmc", "ccd"])
def test_regression(inference, tmp_path):
    """Intervals are wider than at the best hyperparameters on the whole, and what has no meaning says so."""
    plain, full = mc.GPRegressor().fit(X, Y), mc.GPRegressor(inference=inference).fit(X, Y)
    mean, std = full.predict(XS, return_std=True)
    assert mean.shape == std.shape == (7,) and np.all(std > 0)
    low, high = full.predict_interval(XS, 0.9)
    assert np.all(low < mean) and np.all(mean < high)
    assert np.mean(np.log(std / plain.predict(XS, return_std=True)[1])) > 0
    assert full.log_marginal_likelihood_ is None and full.log_density(X, Y).shape == (16,)
    for call in (full.loo, lambda: full.components(XS)):
        with pytest.raises(ValueError, match="averages over many"):
            call()
    with pytest.raises(SerialiseError, match="not saved yet"):
        full.save(tmp_path / "m.mercer")


@pytest.mark.filterwarnings("ignore::mercer.learning.FitWarning")
@pytest.mark.parametrize("inference", [SHORT, "ccd"], ids=["mcmc", "ccd"])
def test_classification(inference):
    clf = mc.GPClassifier(inference=inference).fit(X, LABELS)
    p = clf.predict_proba(XS)
    np.testing.assert_allclose(p.sum(1), 1.0)
    assert clf.score(X, LABELS) >= 0.8
    assert clf.latent(XS)[0].shape == (7,)
    with pytest.raises(ValueError, match="averages over many"):
        clf.loo()


def test_unknown_names_list_the_choices():
    with pytest.raises(ValueError, match="'ccd' and 'grid'"):
        mc.GPClassifier(inference="magic").fit(X, LABELS)
