"""Estimators that average over hyperparameters: sampled, or on a few settings around the best."""

import numpy as np
import pytest

import mercer as mc
from mercer.inference import MCMC
from mercer.posteriors.packing import Again

RNG = np.random.default_rng(0)
X = np.sort(RNG.uniform(-3, 3, 16))[:, None]
Y = np.sin(1.5 * X[:, 0]) + 0.2 * RNG.normal(size=16)
LABELS = np.where(np.sin(1.2 * X[:, 0]) > 0, "up", "down")
XS = np.linspace(-4, 4, 7)[:, None]
SHORT = MCMC(draws=200, tune=200, chains=2, seed=0)


@pytest.mark.representative("ccd")
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
    same_after_a_round_trip(full, tmp_path / "m.mercer")


def same_after_a_round_trip(model, path):
    """Predictions, draws and diagnostics of a saved model are those it had."""
    model.save(path)
    back = mc.load(path)
    predict = "predict_proba" if hasattr(model, "predict_proba") else "predict"
    np.testing.assert_allclose(
        getattr(back, predict)(XS), getattr(model, predict)(XS), rtol=1e-12, atol=1e-12
    )
    old, new = model.posterior_, back.posterior_
    np.testing.assert_allclose(new.std(XS), old.std(XS), rtol=1e-12)
    assert type(new) is type(old) and new.notes == old.notes and back.log_marginal_likelihood_ is None
    if hasattr(old, "draws"):
        assert list(new.draws) == list(old.draws) and new.status == old.status
        for name in old.draws:
            np.testing.assert_array_equal(new.draws[name], old.draws[name])
        np.testing.assert_array_equal(new.diagnostics.r_hat, old.diagnostics.r_hat)
        assert new.summary() == old.summary()
    else:
        np.testing.assert_array_equal(new.weights, old.weights)


@pytest.mark.representative("ccd")
@pytest.mark.filterwarnings("ignore::mercer.learning.FitWarning")
@pytest.mark.parametrize("inference", [SHORT, "ccd"], ids=["mcmc", "ccd"])
def test_classification(inference, tmp_path):
    clf = mc.GPClassifier(inference=inference).fit(X, LABELS)
    p = clf.predict_proba(XS)
    np.testing.assert_allclose(p.sum(1), 1.0)
    assert clf.score(X, LABELS) >= 0.8
    assert clf.latent(XS)[0].shape == (7,)
    with pytest.raises(ValueError, match="averages over many"):
        clf.loo()
    same_after_a_round_trip(clf, tmp_path / "c.mercer")


@pytest.mark.filterwarnings("ignore::mercer.learning.FitWarning")
def test_damaged_averages_are_refused():
    post = mc.GPRegressor(inference="ccd").fit(X, Y).posterior_
    packed, given = post.packed(), Again(post.model, post.inputs, post.y, None)
    back = type(post).unpacked(packed, given)
    np.testing.assert_array_equal(back.mean(XS), post.mean(XS))
    for bad, message in (
        ({"values": packed["values"][:, :1]}, "hyperparameters are an array of shape"),
        ({"parts": packed["parts"][:1]}, "shorter"),
        ({"values": packed["values"] * np.nan}, "not finite"),
        ({"values": None}, "missing"),
        ({"weights": np.zeros((2, 2))}, "sensible shape"),
        ({"weights": 2 * packed["weights"]}, "sum to one"),
    ):
        with pytest.raises(ValueError, match=message):
            type(post).unpacked(packed | bad, given)


def test_unknown_names_list_the_choices():
    with pytest.raises(ValueError, match="'ccd' and 'grid'"):
        mc.GPClassifier(inference="magic").fit(X, LABELS)
