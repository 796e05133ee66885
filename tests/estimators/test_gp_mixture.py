"""GPMixture: one expert is a GPRegressor, several find jumps and regimes;
saving of everything that EM fits.
"""

import json
import zipfile

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.estimator_checks import check_estimator

import mercer as mc
from mercer import kernels as k
from mercer.em import InverseWishart, MarkovChain
from mercer.persist import ModelFileError


def step(rng, n):
    x = rng.uniform(-1, 1, n)
    return x[:, None], np.sign(x) + 0.1 * rng.normal(size=n)


def regimes(rng, n):
    """A quick wave with little noise, then a slow line with much."""
    x = rng.uniform(0, 4, n)
    quick = x < 2
    return x[:, None], np.where(quick, np.sin(8 * x), 0.5 * x - 2) + np.where(quick, 0.05, 0.3) * rng.normal(
        size=n
    )


@pytest.fixture(scope="module")
def fitted():
    return mc.GPMixture(2, restarts=1).fit(*step(np.random.default_rng(0), 60))


def test_one_expert_is_a_regressor():
    X, y = step(np.random.default_rng(1), 30)
    one, plain = mc.GPMixture(1, max_evaluations=20, tol=1e-10).fit(X, y), mc.GPRegressor().fit(X, y)
    for a, b in zip(one.predict(X, return_std=True), plain.predict(X, return_std=True), strict=True):
        np.testing.assert_allclose(a, b, rtol=0, atol=1e-4)
    np.testing.assert_array_equal(one.responsibilities_, 1.0)
    np.testing.assert_allclose(one.predict_interval(X), plain.predict_interval(X), rtol=0, atol=3e-4)


def test_a_jump_is_predicted_better_than_by_one_process(fitted):
    Xt, yt = step(np.random.default_rng(2), 200)
    one = mc.GPRegressor().fit(*step(np.random.default_rng(0), 60))
    assert fitted.log_density(Xt, yt).mean() > one.log_density(Xt, yt).mean() + 0.5
    low, high = fitted.predict_interval(Xt)
    assert 0.9 <= np.mean((low <= yt) & (yt <= high)) <= 1.0
    assert (
        fitted.predict_gate([[-0.8], [0.8]]).argmax(1) == fitted.predict_gate([[-0.7], [0.7]]).argmax(1)
    ).all()
    assert (
        fitted.responsibilities_.shape == (60, 2)
        and (np.diff(fitted.history_) > -1e-6).all()
        and fitted.converged_
    )


@pytest.mark.slow
def test_two_regimes_have_noise_and_lengths_of_their_own():
    rng = np.random.default_rng(3)
    X, y = regimes(rng, 70)
    Xt, yt = regimes(rng, 300)
    model, one = mc.GPMixture(2, restarts=1).fit(X, y), mc.GPRegressor().fit(X, y)
    assert model.log_density(Xt, yt).mean() > one.log_density(Xt, yt).mean() + 0.2
    std = np.sqrt(np.sort(model.experts_.noise))
    assert 0.03 < std[0] < 0.1 and 0.2 < std[1] < 0.45
    grid = np.linspace(-4, 4, 4001)
    np.testing.assert_allclose(
        np.trapezoid(model.predict_density(Xt[:3], grid), grid, axis=1), 1.0, rtol=1e-6
    )
    means, each = model.predict_experts(Xt[:3])
    assert means.shape == each.shape == (3, 2)


def test_curves_that_overlap():
    rng = np.random.default_rng(4)
    x, upper = rng.uniform(0, 4, 80), rng.random(80) < 0.5
    y = np.where(upper, 2.0 + 0.2 * x, -0.5 * x) + 0.1 * rng.normal(size=80)
    model = mc.GPMixture(2, gating="constant", restarts=1).fit(x[:, None], y)
    which = model.responsibilities_.argmax(1)
    assert max(np.mean(which == upper), np.mean(which != upper)) > 0.97
    np.testing.assert_allclose(model.predict_gate([[1.0]]), model.predict_gate([[3.0]]), rtol=1e-14)


@pytest.mark.slow
def test_a_gp_gate_has_regions_of_any_shape():
    """B.X12: two regimes that take turns four times along x, which boundaries of second order cannot say."""
    rng = np.random.default_rng(6)
    x = np.sort(rng.uniform(0, 4, 90))
    first = np.floor(x).astype(int) % 2 == 0
    y = np.where(first, 2.0, -2.0 + np.sin(6 * x)) + np.where(first, 0.05, 0.3) * rng.normal(size=90)
    found = {
        gating: mc.GPMixture(2, gating=gating, restarts=1).fit(x[:, None], y) for gating in ("gp", "softmax")
    }
    centres = found["gp"].predict_gate([[0.5], [1.5], [2.5], [3.5]])
    assert list(centres.argmax(1)) in ([0, 1, 0, 1], [1, 0, 1, 0]) and centres.max(1).min() > 0.9
    grid = np.linspace(0.05, 3.95, 200)
    truth = np.where(np.floor(grid) % 2 == 0, 2.0, -2.0 + np.sin(6 * grid))
    density = {name: model.log_density(grid[:, None], truth).mean() for name, model in found.items()}
    assert density["gp"] > density["softmax"] + 0.3


def test_settings_are_checked():
    X, y = step(np.random.default_rng(5), 10)
    for settings, message in (
        (dict(gating="tree"), r"gating must be one of \['constant', 'gp', 'softmax'\]"),
        (dict(n_experts=11), "n_experts must be a whole number from 1 to n_samples = 10"),
        (dict(n_experts=0), "n_experts must be"),
    ):
        with pytest.raises(ValueError, match=message):
            mc.GPMixture(**settings).fit(X, y)
    with pytest.raises(ValueError, match="NaN"):
        mc.GPMixture().fit(X, np.where(X[:, 0] > 0, np.nan, y))
    with pytest.warns(ConvergenceWarning, match="EM has not converged"):
        mc.GPMixture(max_evaluations=1, tol=1e-12, restarts=0).fit(X, y)
    assert clone(mc.GPMixture(3, "SE(l=2)", gating="constant")).get_params()["kernel"] == "SE(l=2)"


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
def test_scikit_learn_accepts_it():
    check_estimator(mc.GPMixture(restarts=0, max_evaluations=5))


# ------------------------------------------------------------------------------------------------- files


def there_and_back(model, folder):
    mc.save(model, folder / "m.mercer")
    found = mc.load(folder / "m.mercer")
    assert type(found) is type(model)
    return found


def test_a_mixture_of_processes_is_saved(fitted, tmp_path):
    found, X = there_and_back(fitted, tmp_path), np.linspace(-1, 1, 7)[:, None]
    np.testing.assert_allclose(
        found.predict(X, return_std=True), fitted.predict(X, return_std=True), rtol=1e-10, atol=1e-12
    )
    np.testing.assert_allclose(found.predict_interval(X), fitted.predict_interval(X), rtol=0, atol=1e-10)
    np.testing.assert_array_equal(found.history_, fitted.history_)
    assert found.summary() == fitted.summary()
    assert found.summary().startswith("2 experts made these 60 rows: expert 0 ")
    assert found.get_params()["restarts"] == 1


@pytest.mark.parametrize("kind", ["full", "diagonal", "spherical", "tied"])
def test_a_gaussian_mixture_is_saved(kind, tmp_path):
    rows = np.vstack([np.random.default_rng(6).normal(m, 1, (20, 2)) for m in (0, 5)])
    frame = pd.DataFrame(rows, columns=["a", "b"])
    prior = InverseWishart(6.0, np.eye(2)) if kind == "full" else None
    model = mc.GaussianMixture(range(1, 4), kind, prior=prior, random_state=0).fit(frame)
    found = there_and_back(model, tmp_path)
    np.testing.assert_array_equal(found.predict_proba(frame), model.predict_proba(frame))
    assert found.selection_ == model.selection_ and found.n_components_ == model.n_components_
    assert list(found.feature_names_in_) == ["a", "b"] and found.converged_ == model.converged_
    np.testing.assert_array_equal(found.history_, model.history_)
    model.save(tmp_path / "again")
    assert mc.load(tmp_path / "again").score(frame) == model.score(frame)


@pytest.mark.parametrize("emission", ["gaussian", "mixture", "categorical"])
def test_a_hidden_markov_model_is_saved(emission, tmp_path):
    rng = np.random.default_rng(7)
    data = [rng.integers(0, 3, T) if emission == "categorical" else rng.normal(size=(T, 2)) for T in (8, 20)]
    init = dict(transition=[[0.9, 0.1], [0.2, 0.8]])
    model = mc.HMM(2, emission, init=init, max_evaluations=3, tol=0.0, restarts=0, random_state=0).fit(data)
    found = there_and_back(model, tmp_path)
    assert found.score(data) == model.score(data)
    for a, b in zip(found.predict_proba(data), model.predict_proba(data), strict=True):
        np.testing.assert_array_equal(a, b)
    np.testing.assert_array_equal(found.transition_, model.transition_)
    assert found.n_states_ == 2 and found.n_iter_ == model.n_iter_


@pytest.mark.slow
def test_a_classifier_with_a_fisher_kernel_is_saved(tmp_path):
    rng = np.random.default_rng(8)
    data = [rng.normal(i % 2, 1, (int(T), 1)) for i, T in enumerate(rng.integers(4, 9, 12))]
    labels = np.arange(12) % 2
    hmm = mc.HMM(2, max_evaluations=3, tol=0.0, restarts=0, random_state=0).fit(data)
    for kernel in (
        k.Fisher(hmm, information="diagonal", data=data),
        k.Fisher(hmm, of=k.SE(3.0)) + k.Constant(0.1),
    ):
        model = mc.GPClassifier(kernel=kernel, inference="laplace").fit(data, labels)
        found = there_and_back(model, tmp_path)
        np.testing.assert_allclose(found.predict_proba(data), model.predict_proba(data), rtol=0, atol=1e-8)
        assert isinstance(found.kernel_, type(model.kernel_))
    chain = MarkovChain.of(["aab", "bba"], alphabet="ab")
    model = mc.GPRegressor(kernel=k.TOP(chain, chain, log_odds=True)).fit(
        ["ab", "bb", "aab", "abb"], [0.0, 1.0, 0.5, 2.0]
    )
    found = there_and_back(model, tmp_path)
    np.testing.assert_allclose(found.predict(["aa", "ba"]), model.predict(["aa", "ba"]), rtol=0, atol=1e-8)


def test_a_model_of_ones_own_is_not_saved(tmp_path):
    class Lengths:
        def scores(self, sequences):
            return np.array([[float(len(s))] for s in sequences])

    model = mc.GPRegressor(kernel=k.Fisher(Lengths())).fit(
        [np.zeros(3), np.zeros(5), np.zeros(4)], [1.0, 2.0, 1.4]
    )
    with pytest.raises(ValueError, match=r"files cannot hold Lengths"):
        mc.save(model, tmp_path / "m")


def test_damaged_files_say_so(tmp_path):
    model = mc.GaussianMixture(1).fit(np.random.default_rng(9).normal(size=(10, 2)))
    mc.save(model, tmp_path / "m")
    with zipfile.ZipFile(tmp_path / "m") as archive:
        entries = {e: archive.read(e) for e in archive.namelist()}
    manifest = json.loads(entries["manifest.json"])

    def changed(change):
        other = json.loads(json.dumps(manifest))
        change(other)
        with zipfile.ZipFile(tmp_path / "bad", "w") as archive:
            archive.writestr("manifest.json", json.dumps(other))
            archive.writestr("arrays.safetensors", entries["arrays.safetensors"])
        return tmp_path / "bad"

    for change, message in (
        (lambda m: m.pop("learned"), "no valid 'learned'"),
        (lambda m: m["learned"].pop("model"), "the model cannot be built"),
        (lambda m: m["learned"].update(model=3), "the model is not a GaussianMixture"),
        (lambda m: m["learned"]["model"].update(weights=[0.5]), "weights must be np.ndarray, got list"),
        (lambda m: m["learned"]["model"].update({"class": "em.Outcome"}), "there is no class 'em.Outcome'"),
    ):
        with pytest.raises(ModelFileError, match=message):
            mc.load(changed(change))
