"""GPClassifier: scikit-learn's rules, labels of any kind, many classes, decisions, saving, strings,
frames and bad input.
"""

import itertools
import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy.special import ndtr
from sklearn.base import clone
from sklearn.gaussian_process import GaussianProcessClassifier
from sklearn.gaussian_process import kernels as sk
from sklearn.model_selection import StratifiedKFold, cross_val_predict
from sklearn.utils.estimator_checks import parametrize_with_checks

import mercer as mc
from mercer import kernels as k
from mercer.estimators import GPClassifier, defaults
from mercer.estimators.classification import labels
from mercer.inputs import Inputs
from mercer.persist import ModelFileError

N = 30
RNG = np.random.default_rng(0)
X = RNG.normal(size=(N, 2))
XS = RNG.normal(size=(8, 2))
CODES = (X[:, 0] + 0.5 * RNG.normal(size=N) > 0.3).astype(int)
THREE = np.where(X[:, 1] > 0.5, 2, CODES)
NAMES = np.array(["ant", "bee", "cat"])
KERNEL = k.SE(mc.fixed(1.2), mc.fixed(3.0))  # nothing to learn: quick


def held(**settings):
    return GPClassifier(KERNEL, **settings)


@parametrize_with_checks([held()])
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.mark.slow
@parametrize_with_checks([GPClassifier()])
def test_scikit_learn_checks_that_learn(estimator, check):
    check(estimator)


def test_the_example_of_the_documentation_runs():
    variance = mc.param(4.0, prior=defaults.LATENT_PRIOR)
    clf = mc.GPClassifier(kernel=k.SE(lengthscale=1.0, variance=variance), inference="ep").fit(X, CODES)
    p, (m, v) = clf.predict_proba(XS), clf.latent(XS)
    assert p.shape == (8, 2) and m.shape == v.shape == (8,) and (v > 0).all()
    np.testing.assert_allclose(p[:, 1], ndtr(m / np.sqrt(1 + v)), rtol=1e-10)
    assert clf.log_marginal_likelihood_ < 0 and clf.fit_.status.converged and clf.score(X, CODES) > 0.8
    assert (
        clf.log_marginal_likelihood_
        == clf.posterior_.log_evidence
        == clf.model_.condition(X, 2 * CODES - 1).log_evidence
    )


# ------------------------------------------------------------------------------------------------- two
# classes


LABELS = {
    "0 and 1": np.array([0, 1]),
    "-1 and 1": np.array([-1, 1]),
    "booleans": np.array([False, True]),
    "floats": np.array([3.0, 8.0]),
    "text": np.array(["ill", "well"]),
    "objects": np.array(["no", "yes"], dtype=object),
    "numbers that are objects": np.array([2, 7], dtype=object),
}


@pytest.mark.parametrize("kind", LABELS)
def test_labels_of_any_kind(kind):
    names = LABELS[kind]
    model, plain = held().fit(X, names[CODES]), held().fit(X, CODES)
    np.testing.assert_array_equal(model.classes_, names)
    assert model.predict(XS).dtype == (int if kind == "numbers that are objects" else names.dtype)
    np.testing.assert_array_equal(model.predict_proba(XS), plain.predict_proba(XS))
    np.testing.assert_array_equal(model.predict(XS), names[plain.predict(XS)])
    listed = held().fit(X.tolist(), names[CODES].tolist())
    np.testing.assert_array_equal(listed.predict(XS), model.predict(XS))


@pytest.mark.parametrize(
    "y",
    [pd.Series, pl.Series, lambda v: pd.Series(v, dtype="category")],
    ids=["pandas", "polars", "category"],
)
def test_labels_in_a_series(y):
    model = held().fit(X, y(NAMES[CODES].tolist()))
    assert model.classes_.tolist() == ["ant", "bee"]
    assert set(model.predict(XS)) <= {"ant", "bee"}


@pytest.mark.parametrize("inference", ["ep", "laplace", "variational", "local-bound"])
def test_rules_and_links(inference):
    for link in ("logit",) if inference == "local-bound" else ("probit", "logit"):
        model = held(inference=inference, link=link).fit(X, CODES)
        direct = mc.Model(mc.GP(KERNEL), mc.likelihoods.Bernoulli(link)).condition(X, CODES, inference)
        p = model.predict_proba(XS)
        np.testing.assert_allclose(p[:, 1], direct.probability(XS), rtol=1e-12)
        np.testing.assert_allclose(p.sum(1), 1.0, rtol=1e-9)
        np.testing.assert_allclose(
            model.predict_proba(XS, how="map")[:, 1], direct.probability(XS, "map"), rtol=1e-12
        )
        np.testing.assert_allclose(model.latent(XS), direct.latent_moments(XS), rtol=1e-12)
        np.testing.assert_allclose(model.loo().probability[:, 1], direct.loo().mean, rtol=1e-12)
        np.testing.assert_allclose(model.decision_function(XS), np.log(p[:, 1] / p[:, 0]), rtol=1e-9)
        assert model.log_marginal_likelihood_ == direct.log_evidence


def test_laplace_logit_is_scikit_learns():
    model = held(inference="laplace", link="logit").fit(X, CODES)
    oracle = GaussianProcessClassifier(3.0 * sk.RBF(1.2), optimizer=None).fit(X, CODES)
    np.testing.assert_allclose(
        model.log_marginal_likelihood_, oracle.log_marginal_likelihood_value_, rtol=1e-6
    )
    # theirs averages approximately
    np.testing.assert_allclose(model.predict_proba(XS), oracle.predict_proba(XS), atol=1e-3)


def test_a_learned_bias_keeps_predictions_far_away_from_one_half():
    few = (np.arange(N) < 4).astype(int)
    far = [[1e3, 1e3]]
    learned = GPClassifier(k.SE(mc.fixed(0.5), mc.fixed(1.0)), mean="learned").fit(X, few)
    assert held().fit(X, few).predict_proba(far)[0, 1] == pytest.approx(0.5)
    assert learned.predict_proba(far)[0, 1] < 0.25
    same = GPClassifier(k.SE(mc.fixed(0.5), mc.fixed(1.0)), mean=mc.param(0.0)).fit(X, few)
    np.testing.assert_allclose(same.model_.gp.mean.constant, learned.model_.gp.mean.constant)
    given = GPClassifier(k.SE(mc.fixed(0.5), mc.fixed(1.0)), mean=-1.0).fit(X, few)
    assert given.predict_proba(far)[0, 1] == pytest.approx(ndtr(-1 / np.sqrt(2)))


def test_the_prior_keeps_the_latent_variance_finite_for_separable_classes():
    x = np.linspace(-2, 2, 12)[:, None]
    y = x[:, 0] > 0
    default = GPClassifier().fit(x, y)
    with pytest.warns(mc.learning.FitWarning, match="can be separated"):
        alone = GPClassifier(k.Matern(1.0, nu=2.5)).fit(x, y)
    assert alone.kernel_.variance > 100 * default.kernel_.variance
    assert 0.5 < default.kernel_.variance < 100
    prior = dict(default.model_.gp.kernel.info)["variance"].prior
    # its mode
    assert prior == defaults.LATENT_PRIOR and np.exp(prior.mu - prior.sigma**2) == pytest.approx(4.0)


def test_units_of_the_columns_do_not_matter():
    factors = np.array([1e3, 1e-4])
    one, two = GPClassifier().fit(X, CODES), GPClassifier().fit(X * factors, CODES)
    np.testing.assert_allclose(two.predict_proba(XS * factors), one.predict_proba(XS), rtol=1e-5)
    first, second = (model.importance(permutation=False, draws=0) for model in (one, two))
    np.testing.assert_allclose(first.total, second.total, rtol=1e-4)
    assert first.names == second.names == ("x0", "x1")


# ------------------------------------------------------------------------------------------------- regression
# on labels


def test_label_regression_is_regression_on_signs():
    model = GPClassifier(k.SE(1.0), inference="label-regression").fit(X, NAMES[CODES])
    regression = mc.GPRegressor(k.SE(1.0), mean=None).fit(X, 2.0 * CODES - 1)
    assert model.log_marginal_likelihood_ == pytest.approx(regression.log_marginal_likelihood_, abs=1e-6)
    mean, std = regression.predict(XS, return_std=True)
    np.testing.assert_allclose(model.predict_proba(XS)[:, 1], ndtr(mean / std), rtol=1e-4)
    np.testing.assert_array_equal(model.predict(XS), NAMES[(mean > 0).astype(int)])
    left = regression.loo()
    np.testing.assert_allclose(
        model.loo().probability[:, 1], ndtr(left.mean / np.sqrt(left.variance)), rtol=1e-4
    )
    noise = float(model.model_.likelihood.noise_variance)
    np.testing.assert_allclose(
        model.predict_proba(XS, how="map")[:, 1], ndtr(model.latent(XS)[0] / np.sqrt(noise)), rtol=1e-9
    )


def test_label_regression_can_be_calibrated():
    model = GPClassifier(k.SE(1.0), inference="label-regression", calibrate=True).fit(X, CODES)
    scaling = mc.relatives.PlattScaling().fit(model.posterior_.loo().mean, CODES)
    np.testing.assert_allclose(model.predict_proba(XS), scaling.predict_proba(model.latent(XS)[0]), rtol=1e-9)
    np.testing.assert_allclose(
        model.loo().probability, scaling.predict_proba(model.posterior_.loo().mean), rtol=1e-9
    )


def test_labels_through_the_cumulative_gaussian():
    """B.REL14 (6.42): alpha and beta make left-out labels as probable as they can be, with the variances."""
    model = GPClassifier(k.SE(1.0), inference="label-regression", objective="loo-probit").fit(X, CODES)
    left, signs = model.posterior_.loo(), 2.0 * CODES - 1

    def logs(shift, spread):
        return np.log(ndtr(signs * (left.mean + shift) / np.sqrt(left.variance + spread)))

    found = model.loo().log_density
    assert model.fit_.value == pytest.approx(found.sum(), rel=1e-9)
    for shift, spread in itertools.product((-0.1, -0.01, 0.0, 0.01, 0.1), (0.0, 1e-3, 0.1, 1.0)):
        assert logs(shift, spread).sum() <= found.sum() + 1e-9
    for p, how in ((model.predict_proba(XS), "average"), (model.predict_proba(XS, how="map"), "map")):
        np.testing.assert_allclose(p.sum(1), 1.0, rtol=1e-12, err_msg=how)
    with pytest.raises(ValueError, match="goes with inference='label-regression'"):
        GPClassifier(objective="loo-probit").fit(X, CODES)
    with pytest.raises(ValueError, match="every y must be -1 or 1"):
        mc.GPRegressor(k.SE(1.0), objective="loo-probit").fit(X, X[:, 0])


# ------------------------------------------------------------------------------------------------- more
# classes


@pytest.mark.parametrize("scheme", ["probit", "softmax"])
def test_classes_share_one_kernel_or_have_one_each(scheme):
    likelihood = {"probit": mc.likelihoods.MultinomialProbit(3), "softmax": mc.likelihoods.Softmax(3)}[scheme]
    model = held(multi_class=scheme).fit(X, NAMES[THREE])
    direct = mc.Model(mc.GP(KERNEL), likelihood).condition(X, THREE)
    np.testing.assert_allclose(model.predict_proba(XS), direct.probability(XS), rtol=1e-12)
    np.testing.assert_allclose(model.latent(XS)[0], direct.latent_moments(XS)[0], rtol=1e-12)
    assert model.latent(XS)[1].shape == (8, 3) and model.kernel_ == model.model_.gp.kernel
    np.testing.assert_allclose(model.loo().probability.sum(1), 1.0, rtol=1e-9)
    assert model.score(X, NAMES[THREE]) > 0.8
    assert (model.decision_function(XS).argmax(1) == model.predict_proba(XS).argmax(1)).all()
    own = GPClassifier([KERNEL] * 3, multi_class=scheme).fit(X, NAMES[THREE])
    np.testing.assert_allclose(own.predict_proba(XS), model.predict_proba(XS), rtol=1e-6)
    assert len(own.kernel_) == 3


def test_the_scheme_suits_the_rule_and_the_solver():
    schemes = {
        "ep": "probit",
        "laplace": "softmax",
        "mcmc": "probit",
        "ccd": "probit",
        "variational": "one-vs-rest",
        "label-regression": "one-vs-rest",
        None: "probit",
    }
    assert {rule: GPClassifier(inference=rule)._suited(90) for rule in schemes} == schemes
    assert GPClassifier(inference=mc.inference.EP(damping=0.5))._suited(90) == "probit"
    assert GPClassifier(solver="vfe")._suited(90) == GPClassifier()._suited(3001) == "one-vs-rest"
    assert GPClassifier(inference="ep")._suited(3001) == "probit"  # as asked for
    for settings in ({}, {"inference": "laplace"}, {"solver": mc.solvers.VFE(m=10)}):
        model = held(**settings).fit(X, THREE)
        assert model.score(X, THREE) > 0.8
        for far in (1e3, 1e6):
            p = model.predict_proba(far * X[:3])
            np.testing.assert_allclose(p.sum(1), 1.0, rtol=1e-12)
            np.testing.assert_allclose(p, 1 / 3, atol=1e-2)


def test_contests_against_the_rest_that_are_independent():
    """Sharpness 1: the probability of each class where just one of independent contests is won. It is learned
    from rows left out, and left at 0 where it gains too little."""
    rng = np.random.default_rng(0)
    p = rng.uniform(0.02, 0.98, (20, 4))
    won = np.stack([p[:, c] * np.prod(np.delete(1 - p, c, 1), 1) for c in range(4)], 1)
    np.testing.assert_allclose(labels.combine(p, 4, "one-vs-rest", 1.0), won / won.sum(1, keepdims=True))
    np.testing.assert_allclose(labels.combine(p, 4, "one-vs-rest"), p / p.sum(1, keepdims=True))
    assert np.isfinite(labels.combine(np.array([[1.0, 1.0, 0.0, 0.0]]), 4, "one-vs-rest", 1.0)).all()
    sure = np.where(np.eye(4, dtype=bool)[np.arange(80) % 4], 0.8, 0.1)
    assert labels.sharpness(sure, np.arange(80) % 4) == 1.0
    assert labels.sharpness(sure, rng.integers(0, 4, 80)) == 0.0
    faint = np.where(sure > 0.5, 0.4, 0.3)  # 0.1 nats a row
    assert [labels.sharpness(faint[:n], np.arange(n) % 4) for n in (8, 80)] == [0.0, 1.0]


def test_several_classes_are_not_underconfident():
    """Laplace's method leaves a log loss of 0.29 here; where x is sure, so must be the probabilities."""
    rng = np.random.default_rng(1)
    Z = rng.normal(size=(120, 2))
    y = np.digitize(Z[:, 0], [-0.5, 0.5])
    model = GPClassifier().fit(Z[:80], y[:80])
    p = model.predict_proba(Z[80:])
    assert -np.mean(np.log(p[np.arange(40), y[80:]])) < 0.15
    far = model.predict_proba([[1e6, 0.0], [-1e9, 1e9]])
    assert np.isfinite(far).all()
    np.testing.assert_allclose(far.sum(1), 1.0, rtol=1e-12)
    np.testing.assert_allclose(far, 1 / 3, atol=1e-2)


def test_classes_with_kernels_of_their_own_learn_a_bias_each():
    # 21 of class 0, 6 of class 1, 3 of class 2
    y = np.where(np.arange(N) < 3, 2, (np.arange(N) < 9).astype(int))
    model = GPClassifier([k.SE(mc.fixed(0.2), mc.fixed(1.0))] * 3, mean="learned").fit(X, y)
    far = model.predict_proba([[1e3, 1e3]])[0]
    assert far[0] > 0.5 > far[1] > far[2]
    assert sorted(p for p in model.fit_.gradient) == [f"gp.{c}.mean.constant" for c in range(3)]


@pytest.fixture(scope="module")
def rest():
    return held(multi_class="one-vs-rest").fit(X, NAMES[THREE])


@pytest.fixture(scope="module")
def pairs():
    return held(multi_class="one-vs-one").fit(X, NAMES[THREE])


def test_one_vs_rest_is_binary_fits_by_hand(rest):
    by_hand = [held().fit(X, np.equal(THREE, c)) for c in range(3)]
    p = np.stack([m.predict_proba(XS)[:, 1] for m in by_hand], 1)
    left = np.stack([m.loo().probability[:, 1] for m in by_hand], 1)
    s = labels.sharpness(left, THREE)
    together = [q / (1 - q) ** s for q in (p, left)]
    p, left = (q / q.sum(1, keepdims=True) for q in together)
    np.testing.assert_allclose(rest.predict_proba(XS), p, rtol=1e-9)
    np.testing.assert_allclose(rest.loo().probability, left, rtol=1e-9)
    np.testing.assert_allclose(rest.latent(XS), np.stack([m.latent(XS) for m in by_hand], 2), rtol=1e-12)
    assert rest.log_marginal_likelihood_ == pytest.approx(
        sum(m.log_marginal_likelihood_ for m in by_hand), rel=1e-12
    )
    assert (
        rest.contests_ == [("ant", None), ("bee", None), ("cat", None)]
        and len(rest.posterior_) == len(rest.model_) == 3
    )
    assert "bee against the rest" in rest.summary()


def test_one_vs_one_is_binary_fits_by_hand(pairs):
    assert pairs.contests_ == [("bee", "ant"), ("cat", "ant"), ("cat", "bee")]
    for i, (first, second) in enumerate(pairs.contests_):
        rows = np.isin(NAMES[THREE], [first, second])
        by_hand = held().fit(X[rows], NAMES[THREE][rows] == first)
        np.testing.assert_allclose(pairs.latent(XS)[0][:, i], by_hand.latent(XS)[0], rtol=1e-12)
    p, left = pairs.predict_proba(XS), pairs.loo().probability
    np.testing.assert_allclose(p.sum(1), 1.0, rtol=1e-12)
    assert (p >= 0).all() and left.shape == (N, 3) and pairs.score(X, NAMES[THREE]) > 0.8
    assert "cat against bee" in pairs.summary()


def test_leaving_one_out_of_pairs_is_fitting_without_it(pairs):
    left = pairs.loo().probability
    for i in (0, 7):
        others = np.arange(N) != i
        again = held(multi_class="one-vs-one").fit(X[others], NAMES[THREE][others])
        np.testing.assert_allclose(left[i], again.predict_proba(X[i : i + 1])[0], atol=0.01)


def test_pairwise_probabilities_that_agree_are_recovered():
    p = np.random.default_rng(1).dirichlet(np.ones(4), 6)
    wins = np.stack([p[:, a] / (p[:, a] + p[:, b]) for a, b in labels.contests(4, "one-vs-one")], 1)
    np.testing.assert_allclose(labels.combine(wins, 4, "one-vs-one"), p, rtol=1e-9)
    sure = labels.combine(np.array([[0.0, 0.0, 0.0], [1.0, 0.0, 0.0]]), 3, "one-vs-one")
    np.testing.assert_allclose(sure, [[1, 0, 0], [0, 1, 0]], atol=1e-9)
    assert labels.combine(np.zeros((1, 3)), 3, "one-vs-rest").tolist() == [[pytest.approx(1 / 3)] * 3]


def test_label_regression_of_several_classes():
    model = held(inference="label-regression").fit(X, THREE)
    assert model.score(X, THREE) > 0.8
    np.testing.assert_allclose(model.predict_proba(XS).sum(1), 1.0, rtol=1e-12)


# ------------------------------------------------------------------------------------------------- decisions


def test_losses_move_the_decision(rest):
    p = rest.predict_proba(X)
    costly = {"cat": 50.0}
    matrix = np.array([[0, 1, 1], [1, 0, 1], [50, 50, 0]])
    np.testing.assert_array_equal(rest.predict(X, loss=costly), rest.predict(X, loss=matrix))
    np.testing.assert_array_equal(rest.predict(X, loss=matrix), NAMES[(p @ matrix).argmin(1)])
    assert np.sum(rest.predict(X, loss=costly) == "cat") > np.sum(rest.predict(X) == "cat")
    with pytest.raises(ValueError, match=r"\(3, 3\), in the order of classes_; got shape \(2, 2\)"):
        rest.predict(X, loss=np.eye(2))
    with pytest.raises(ValueError, match="loss names 'cow', which is none of the classes"):
        rest.predict(X, loss={"cow": 2.0})


def test_doubtful_cases_are_refused(rest):
    top = rest.predict_proba(X).max(1)
    refused = rest.predict(X, reject=("threshold", 0.8))
    assert refused.dtype == object and 0 < (top < 0.8).sum() < N
    assert [v is None for v in refused] == (top < 0.8).tolist()
    # the same rule, told as a cost
    np.testing.assert_array_equal(rest.predict(X, reject=0.2 + 1e-12), refused)
    named = rest.predict(X, reject=("threshold", 0.8), reject_label="do not know")
    assert named.dtype.kind == "U" and set(named[top < 0.8]) == {"do not know"}
    numbers = held().fit(X, CODES).predict(X, reject=("gap", 0.5), reject_label=-1)
    assert numbers.dtype.kind == "i" and set(numbers) == {-1, 0, 1}
    assert rest.predict(X, reject=0.0, reject_label=-1).tolist() == [-1] * N  # another type: objects
    with pytest.raises(ValueError, match="reject must be a cost"):
        rest.predict(X, reject=("luck", 1.0))


# ------------------------------------------------------------------------------------------------- one file


SAVED = {
    "default": lambda: GPClassifier().fit(X, NAMES[CODES]),
    "booleans": lambda: held(inference="laplace", link="logit").fit(X, CODES == 1),
    "objects, bias": lambda: held(mean="learned").fit(X, NAMES[CODES].astype(object)),
    "probit, small integers": lambda: held().fit(X, (THREE + 5).astype(np.uint8)),
    "softmax": lambda: held(multi_class="softmax").fit(X, NAMES[THREE]),
    "own kernels": lambda: GPClassifier([KERNEL, KERNEL, "SE(fixed(2))"]).fit(X, 0.5 * THREE // 0.5),
    "one vs rest": lambda: held(multi_class="one-vs-rest").fit(X, NAMES[THREE]),
    "one vs one": lambda: held(multi_class="one-vs-one").fit(X, NAMES[THREE]),
    "calibrated": lambda: held(inference="label-regression", calibrate=True).fit(X, NAMES[CODES]),
    "strings": lambda: GPClassifier(k.Spectrum(2, variance=mc.fixed(1.0))).fit(
        WORDS, [len(w) > 4 for w in WORDS]
    ),
}
WORDS = ["acgt", "ttgaca", "acgacg", "tt", "gattaca", "cgc", "tataat", "ag"]


@pytest.mark.representative("probit", "strings", "one vs rest", "calibrated")
@pytest.mark.parametrize("case", SAVED)
def test_what_comes_back_predicts_the_same(case, tmp_path):
    model, path, at = SAVED[case](), tmp_path / "m.mercer", WORDS if case == "strings" else XS
    model.save(path)
    again = mc.load(path)
    assert again.classes_.dtype == model.classes_.dtype and again.classes_.tolist() == model.classes_.tolist()
    np.testing.assert_allclose(again.predict_proba(at), model.predict_proba(at), rtol=1e-9, atol=1e-12)
    np.testing.assert_array_equal(again.predict(at), model.predict(at))
    np.testing.assert_allclose(again.loo().probability, model.loo().probability, rtol=1e-9)
    assert again.log_marginal_likelihood_ == pytest.approx(model.log_marginal_likelihood_, rel=1e-9)
    assert str(again.get_params()) == str(model.get_params())
    assert again.summary().splitlines()[0] == model.summary().splitlines()[0]
    assert getattr(again, "contests_", None) == getattr(model, "contests_", None)


def test_files_with_impossible_labels_are_refused(rest, tmp_path):
    import json
    import zipfile

    rest.save(tmp_path / "m")
    with zipfile.ZipFile(tmp_path / "m") as archive:
        entries = {name: archive.read(name) for name in archive.namelist()}
    good = json.loads(entries["manifest.json"])
    for bad in (
        {"targets": None},
        {"targets": {"type": "str", "classes": ["bee", "ant", "cat"]}},
        {"targets": {"type": "str", "classes": ["ant", "bee"]}},
        {"targets": {"type": "int64", "classes": ["ant", "bee", "cat"]}},
        {"targets": {"type": "str", "classes": [1, 2, 3]}},
        {"targets": {"type": "nothing", "classes": ["ant", "bee", "cat"]}},
        {"fits": good["learned"]["fits"][:1]},
        {"fits": good["learned"]["fits"][0]},
        {"fits": 3},
    ):
        with zipfile.ZipFile(tmp_path / "bad", "w") as archive:
            archive.writestr("manifest.json", json.dumps(good | {"learned": good["learned"] | bad}))
            archive.writestr("arrays.safetensors", entries["arrays.safetensors"])
        with pytest.raises(ModelFileError, match="bad: "):
            mc.load(tmp_path / "bad")


def test_pickle_and_clone(rest):
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(rest)).predict_proba(XS), rest.predict_proba(XS))
    assert clone(rest).multi_class == "one-vs-rest" and not hasattr(clone(rest), "classes_")


# ------------------------------------------------------------------------------------------------- strings
# and frames


def test_strings_are_classified():
    model = GPClassifier(kernel=k.Spectrum(3, variance=mc.fixed(1.0))).fit(
        ["acgtacgt", "ttgattga", "acgaacgt", "ttgtttga"], ["+", "-", "+", "-"]
    )
    assert model.predict(["acgacgacg", "ttgttgttg"]).tolist() == ["+", "-"]
    assert model.n_features_in_ == 1 and "importance" not in model.summary()
    kernel = k.Spectrum(2, variance=mc.fixed(1.0))
    framed = GPClassifier(kernel).fit(pl.DataFrame({"word": WORDS}), [len(w) > 4 for w in WORDS])
    assert list(framed.feature_names_in_) == ["word"] and framed.predict(
        pl.DataFrame({"word": WORDS})
    ).shape == (8,)


@pytest.mark.slow
def test_promoters(data_dir):
    data = mc.datasets.load("promoters")
    strings = data.X.tolist()
    variance = mc.param(4.0, prior=defaults.LATENT_PRIOR)
    model = GPClassifier(k.Spectrum(4, normalise=True, variance=variance))
    fitted = model.fit(strings, data.y)
    left = fitted.classes_[fitted.loo().probability.argmax(1)]
    assert np.sum(left != data.y) <= 6  # of 106; we found 4
    folds = StratifiedKFold(5, shuffle=True, random_state=0)
    predicted = cross_val_predict(model, np.array(strings, dtype=object), data.y, cv=folds)
    assert np.sum(predicted != data.y) <= 10  # we found 6


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame, dict], ids=["pandas", "polars", "dict"])
def test_frames_keep_their_names(frame):
    def table(values):
        return frame({"a": values[:, 0], "b": values[:, 1]})

    model = GPClassifier(k.SE(mc.fixed([1.0, 4.0]), mc.fixed(3.0))).fit(table(X), NAMES[CODES])
    plain = GPClassifier(k.SE(mc.fixed([1.0, 4.0]), mc.fixed(3.0))).fit(X, NAMES[CODES])
    np.testing.assert_array_equal(model.predict_proba(table(XS)), plain.predict_proba(XS))
    assert list(model.feature_names_in_) == ["a", "b"]
    assert "importance: a " in model.summary() and "\nclasses: ant (" in model.summary()
    wrong = int(np.sum(model.classes_[model.loo().probability.argmax(1)] != NAMES[CODES]))
    assert model.summary().startswith(f"each row predicted from the others: {wrong} of {len(CODES)} wrong")
    with pytest.raises(ValueError, match="b"):
        model.predict(frame({"a": XS[:, 0]}))


# ------------------------------------------------------------------------------------------------- bad input


def with_nan():
    bad = X.copy()
    bad[4, 1] = np.nan
    return bad


BAD = {
    "one class": (X, ["a"] * N, {}, "one class only, 'a'"),
    "NaN": (with_nan(), CODES, {"missing": "error"}, r"NaN or empty cells: 'x1' \(1\)"),
    "NaN in y": (X, np.where(np.arange(N) == 3, np.nan, CODES), {}, "y contains NaN"),
    "no label in a row": (
        pd.DataFrame(X, columns=["a", "b"]),
        [None, *NAMES[CODES][1:]],
        {},
        "no label in row 0",
    ),
    "mixed labels": (
        pd.DataFrame(X, columns=["a", "b"]),
        pd.Series([1, *NAMES[CODES].tolist()[1:]]),
        {},
        r"\(int, str\) are neither all",
    ),
    "numbers that are not labels": (X, X[:, 0], {}, "Unknown label type: continuous"),
    "no y": (X, None, {}, "y is None"),
    "lengths": (X, CODES[:5], {}, "inconsistent numbers of samples"),
    "lengths, frame": (
        pd.DataFrame(X, columns=["a", "b"]),
        CODES[:5],
        {},
        "y has 5 entries but there are 30 rows",
    ),
    "two columns of labels": (X, np.column_stack([CODES, CODES]), {}, "y should be a 1d array"),
    "one dimension": (X[:, 0], CODES, {}, "Expected 2D array"),
    "inference": (
        X,
        CODES,
        {"inference": "magic"},
        "unknown inference 'magic'.*also takes 'label-regression'",
    ),
    "exact": (X, CODES, {"inference": "exact"}, "exact inference needs a Gaussian likelihood"),
    "link": (X, CODES, {"link": "cauchit"}, "link must be 'probit' or 'logit'"),
    "scheme": (X, CODES, {"multi_class": "all"}, "multi_class must be one of 'probit'"),
    "mean": (X, CODES, {"mean": "empirical"}, "mean must be a number, 'learned'"),
    "objective": (X, CODES, {"objective": "luck"}, "unknown objective 'luck'"),
    "solver": (X, CODES, {"solver": "magic"}, "unknown solver 'magic'"),
    "calibrate": (X, CODES, {"calibrate": True}, "goes with inference='label-regression'"),
    "EP of softmax": (X, THREE, {"inference": "ep", "multi_class": "softmax"}, "use inference='laplace'"),
    "KL of three": (X, THREE, {"inference": "kl", "multi_class": "probit"}, "use inference='ep'"),
    "kernels of two classes": (X, CODES, {"kernel": [k.SE(), k.SE()]}, "there is 1 latent function"),
    "kernels of three": (X, THREE, {"kernel": [k.SE(), k.SE()]}, "there are 3 latent functions"),
    "a bias shared by all classes": (
        X,
        THREE,
        {"kernel": k.SE(), "mean": "learned"},
        "share changes nothing",
    ),
    "bound of the wrong link": (X, CODES, {"inference": "local-bound"}, "link='logit'"),
    "kernel text": (X, CODES, {"kernel": "SE("}, "cannot read the kernel"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_one_clear_error(case):
    table, y, settings, message = BAD[case]
    with pytest.raises(ValueError, match=message):
        GPClassifier(**settings).fit(table, y)


def test_bad_input_after_fitting(rest):
    with pytest.raises(TypeError, match="kernel must be a kernel"):
        GPClassifier(kernel=3).fit(X, CODES)
    with pytest.raises(ValueError, match="X has 1 features, but GPClassifier is expecting 2"):
        rest.predict(XS[:, :1])
    with pytest.raises(ValueError, match="X contains NaN in row 4, column 1"):
        rest.predict_proba(with_nan())
    with pytest.raises(ValueError, match="how must be 'average'"):
        rest.predict_proba(XS, how="luck")


def test_labels_are_checked_on_their_own():
    classes, codes = labels.encode(["b", "a", "b"], 3)
    assert classes.tolist() == ["a", "b"] and codes.tolist() == [1.0, 0.0, 1.0]
    inputs = Inputs(X[:3])
    chosen, y = labels.contest_data(inputs, np.array([0.0, 1.0, 2.0]), (2, 0))
    assert chosen.values.shape == (2, 2) and y.tolist() == [-1.0, 1.0]
