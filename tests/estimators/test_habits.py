"""Habits of scikit-learn's users: what its own tests of Gaussian processes check, by meaning, and the ways in
which its tools call an estimator.
"""

import io

import joblib
import numpy as np
import pandas as pd
import pytest
import sklearn
from sklearn.base import BaseEstimator, clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.exceptions import ConvergenceWarning, DataConversionWarning, NotFittedError
from sklearn.gaussian_process import GaussianProcessClassifier, GaussianProcessRegressor
from sklearn.gaussian_process import kernels as sk
from sklearn.model_selection import GridSearchCV, cross_val_predict
from sklearn.multioutput import MultiOutputRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import mercer as mc
from mercer import estimators, means
from mercer import kernels as k
from mercer.learning import FitWarning, UnconvergedWarning
from mercer.relatives import KernelPCA
from mercer.solvers import Dense

RNG = np.random.default_rng(0)
X = RNG.uniform(-2, 2, (24, 2))
Y = np.sin(2 * X[:, 0]) + 0.1 * RNG.standard_normal(24)
LABELS, CLASSES = np.where(Y > 0, "up", "down"), np.digitize(Y, [-0.4, 0.4])
XS = RNG.uniform(-2, 2, (7, 2))
NOISE = 0.04


def regressor(**settings):
    settings = {"mean": None, "noise_variance": mc.fixed(NOISE), "learn": False} | settings
    return mc.GPRegressor(k.SE(1.3, 2.0), **settings)


def classifier(**settings):
    return mc.GPClassifier(k.SE(1.3, 2.0), **({"learn": False} | settings))


THEIR_KERNEL = sk.RBF(1.3) * sk.ConstantKernel(2.0)  # in the order of our theta


@pytest.fixture(scope="module")
def fitted():
    return regressor().fit(X, Y)


@pytest.fixture(scope="module")
def theirs():
    return GaussianProcessRegressor(THEIR_KERNEL, alpha=NOISE, optimizer=None).fit(X, Y)


# ------------------------------------------------------------------------------------------------- before fit


def test_before_fit_it_predicts_from_the_prior_as_scikit_learn_does():
    ours, theirs = mc.GPRegressor(k.SE(1.3, 2.0)), GaussianProcessRegressor(THEIR_KERNEL)
    for asked in ("return_std", "return_cov"):
        for found, expected in zip(
            ours.predict(XS, **{asked: True}), theirs.predict(XS, **{asked: True}), strict=True
        ):
            np.testing.assert_allclose(found, expected, atol=1e-12)
    np.testing.assert_array_equal(ours.predict(XS), np.zeros(7))
    draws = ours.sample_y(XS, 4000)
    assert draws.shape == (7, 4000)
    np.testing.assert_allclose(np.cov(draws), k.SE(1.3, 2.0)(XS), atol=0.25)
    with pytest.raises(NotFittedError):
        classifier().predict_proba(XS)


def test_the_prior_has_the_mean_and_the_noise_that_were_given():
    mean, std = regressor(mean=3.0).predict(XS, return_std=True)
    np.testing.assert_allclose(mean, 3.0)
    np.testing.assert_allclose(std, np.sqrt(2.0 + NOISE))
    low, high = mc.GPRegressor().predict_interval(XS)  # of standardised columns and targets, noise unknown
    np.testing.assert_allclose((low, high), np.outer([-1.959964, 1.959964], np.ones(7)), rtol=1e-6)
    proper = regressor(basis=means.Polynomial(1, covariance=2.0)).predict(XS, return_std=True)[1]
    np.testing.assert_allclose(proper**2, 2.0 + NOISE + 2.0 * (1 + (XS**2).sum(1)))


def test_what_only_data_tell_is_refused_before_fit(tmp_path):
    asked = {
        "summary": lambda m: m.summary(),
        "loo": lambda m: m.loo(),
        "importance": lambda m: m.importance(),
        "save": lambda m: m.save(tmp_path / "m"),
        "evidence": lambda m: m.log_marginal_likelihood(),
    }
    for ask in asked.values():
        with pytest.raises(NotFittedError):
            ask(regressor())
    with pytest.raises(ValueError, match="only data determine"):
        regressor(basis=means.Polynomial(1)).predict(XS)
    with pytest.raises(ValueError, match="before fit the columns"):
        mc.GPRegressor().predict([["a", 1.0]])


# ------------------------------------------------------------------------------------------------- learn


def test_without_learning_values_are_held_and_predictions_are_scikit_learns(fitted, theirs):
    np.testing.assert_allclose(fitted.theta_, np.log([1.3, 2.0]))
    mean, covariance = theirs.predict(XS, return_cov=True)
    np.testing.assert_allclose(fitted.predict(XS), mean, atol=1e-9)
    np.testing.assert_allclose(fitted.predict(XS, return_cov=True, latent=True)[1], covariance, atol=1e-9)
    assert "nothing was learned" in fitted.fit_.status.message
    np.testing.assert_allclose(classifier().fit(X, LABELS).theta_, np.log([1.3, 2.0]))
    np.testing.assert_allclose(classifier().fit(X, CLASSES).theta_, np.log([1.3, 2.0]))


def test_without_learning_every_row_counts_and_nothing_is_integrated_out():
    twice = regressor(noise_variance=NOISE).fit(np.r_[X, X], np.r_[Y, Y])
    assert len(twice.posterior_.y) == 48 and not twice.posterior_.notes
    with pytest.raises(ValueError, match="integrates over hyperparameters, which learn=False holds"):
        regressor(inference="ccd").fit(X, Y)


# ------------------------------------------------------------------------------------------------- evidence


def test_evidence_and_gradient_are_scikit_learns(fitted, theirs):
    assert fitted.theta_names_ == ("kernel.lengthscale", "kernel.variance")
    assert fitted.log_marginal_likelihood() == pytest.approx(fitted.log_marginal_likelihood_, rel=1e-12)
    for theta in (theirs.kernel_.theta, np.array([0.4, -0.7])):
        value, gradient = fitted.log_marginal_likelihood(theta, eval_gradient=True)
        expected, slope = theirs.log_marginal_likelihood(theta, eval_gradient=True)
        assert value == pytest.approx(expected, rel=1e-9)
        np.testing.assert_allclose(gradient, slope, rtol=1e-7)


def test_the_evidence_of_laplaces_method_is_scikit_learns():
    ours = classifier(inference="laplace", link="logit").fit(X, LABELS)
    theirs = GaussianProcessClassifier(THEIR_KERNEL, optimizer=None).fit(X, LABELS)
    for theta in (theirs.kernel_.theta, np.array([0.4, 0.2])):
        value, gradient = ours.log_marginal_likelihood(theta, eval_gradient=True)
        expected, slope = theirs.log_marginal_likelihood(theta, eval_gradient=True)
        assert value == pytest.approx(expected, abs=1e-6)
        np.testing.assert_allclose(gradient, slope, atol=1e-5)


EVIDENCES = {
    "default": lambda: mc.GPRegressor(learn=False).fit(X, Y),
    "two classes": lambda: classifier().fit(X, LABELS),
    "one-vs-rest": lambda: classifier(multi_class="one-vs-rest").fit(X, CLASSES),
    **{
        name: pytest.param(make, marks=pytest.mark.slow)
        for name, make in {
            "student-t": lambda: mc.GPRegressor(likelihood="student-t", learn=False).fit(X, Y),
            "label regression": lambda: classifier(inference="label-regression").fit(X, LABELS),
            "weights": lambda: regressor(noise_variance=NOISE).fit(X, Y, sample_weight=1.0 + X[:, 0] ** 2),
            "vfe": lambda: regressor(solver=mc.solvers.VFE(m=6)).fit(X, Y),
            "probit": lambda: classifier(multi_class="probit").fit(X, CLASSES),
            "softmax": lambda: classifier(multi_class="softmax").fit(X, CLASSES),
        }.items()
    },
}


@pytest.mark.parametrize("make", EVIDENCES.values(), ids=EVIDENCES)
def test_gradients_of_the_evidence_are_differences(make):
    model = make()
    assert len(model.theta_) == len(model.theta_names_) == len(set(model.theta_names_))
    assert model.log_marginal_likelihood(model.theta_) == pytest.approx(
        model.log_marginal_likelihood_, rel=1e-6
    )
    at, h = model.theta_ + 0.05, 1e-4
    _, gradient = model.log_marginal_likelihood(at, eval_gradient=True)
    for step, slope in zip(h * np.eye(len(at)), gradient, strict=True):
        ends = [model.log_marginal_likelihood(at + sign * step) for sign in (1, -1)]
        assert (ends[0] - ends[1]) / (2 * h) == pytest.approx(slope, rel=1e-4, abs=1e-4)


def test_an_evidence_that_there_is_not_is_said(fitted):
    with pytest.raises(
        ValueError, match=r"theta has shape \(1,\), but there are 2 .*: kernel.lengthscale, kernel"
    ):
        fitted.log_marginal_likelihood([0.0])
    sampled = regressor().fit(X, Y).set_params(inference="mcmc")
    with pytest.raises(ValueError, match="MCMC"):
        sampled.log_marginal_likelihood()


# ------------------------------------------------------------------------------------------------- targets


def test_every_estimator_has_a_score():
    around = {"Event", "ExpectedCount", "RankedModel", "Ranking", "SearchResult", "predict_files", "search"}
    for name in set(estimators.__all__) - around:  # what they take and answer
        cls = getattr(estimators, name)
        assert issubclass(cls, BaseEstimator) and callable(cls.score), name


def test_targets_of_one_column_are_taken_with_scikit_learns_warning():
    frame = pd.DataFrame(X, columns=["a", "b"])
    for inputs, y in ((X, Y[:, None]), (frame, Y[:, None]), (frame, pd.DataFrame({"y": Y}))):
        with pytest.warns(DataConversionWarning):
            model = regressor().fit(inputs, y)
        np.testing.assert_array_equal(model.posterior_.y, Y)
    with pytest.warns(DataConversionWarning):
        assert classifier().fit(frame, LABELS[:, None]).classes_.tolist() == ["down", "up"]


def test_targets_of_several_columns():
    with pytest.raises(ValueError, match=r"y has 2 columns.*MultiOutputClassifier"):
        classifier().fit(X, np.c_[LABELS, LABELS])
    both = MultiOutputRegressor(regressor()).fit(X, np.c_[Y, -Y]).predict(XS)
    np.testing.assert_allclose(both[:, 0], -both[:, 1], atol=1e-12)
    np.testing.assert_allclose(regressor().fit(X, np.c_[Y, -Y]).predict(XS), both, atol=1e-12)


def test_a_fit_that_did_not_converge_warns_as_scikit_learn_does():
    assert issubclass(UnconvergedWarning, FitWarning) and issubclass(UnconvergedWarning, ConvergenceWarning)
    with pytest.warns(ConvergenceWarning, match="gradient"):
        regressor(learn=True, max_evaluations=1).fit(X, Y)
    bounded = mc.GPRegressor(k.SE(mc.param(0.15, bounds=(0.1, 0.2))), noise_variance=mc.fixed(NOISE))
    with pytest.warns(ConvergenceWarning, match=r"kernel.lengthscale is at its upper bound 0\.2"):
        bounded.fit(X, Y)


# ------------------------------------------------------------------------------------------------- draws


def test_predictions_leave_their_inputs_alone(fitted):
    frozen = XS.copy()
    frozen.flags.writeable = False
    for asked in ({}, {"return_std": True}, {"return_cov": True}):
        fitted.predict(frozen, **asked)
    with pytest.raises(ValueError, match="not both"):
        fitted.predict(XS, return_std=True, return_cov=True)


def test_draws_do_not_factor_the_data_again(monkeypatch):
    model = regressor().fit(X, Y)

    def refuse(*args, **settings):
        raise AssertionError("factored again")

    monkeypatch.setattr(Dense, "factor", refuse)
    draws = model.sample_y(XS, 3, random_state=1)
    np.testing.assert_array_equal(draws, model.sample_y(XS, 3, random_state=1))
    assert draws.shape == model.sample_y(XS, 3, random_state=np.random.RandomState(0)).shape == (7, 3)


# ------------------------------------------------------------------------------------------------- its tools


def test_scikit_learns_tools_take_the_estimators():
    found = GridSearchCV(regressor(), {"kernel": [k.SE(1.3), k.SE(0.01)], "learn": [False]}, cv=2).fit(X, Y)
    assert float(found.best_params_["kernel"].lengthscale) == 1.3
    model = classifier()
    p = cross_val_predict(model, X, LABELS, method="predict_proba", cv=2)
    assert p.shape == (24, 2) and np.mean((p[:, 1] > 0.5) == (LABELS == "up")) > 0.6
    calibrated = CalibratedClassifierCV(model, cv=2).fit(X, LABELS)
    np.testing.assert_allclose(calibrated.predict_proba(XS).sum(1), 1.0)


def test_numbers_within_a_kernel_are_settings():
    model = regressor().set_params(kernel__lengthscale=0.5, learn=False)
    assert float(model.kernel.lengthscale) == 0.5 and model.get_params()["kernel__variance"] == 2.0
    found = GridSearchCV(regressor(), {"kernel__lengthscale": [0.01, 1.3]}, cv=2).fit(X, Y)
    assert found.best_params_ == {"kernel__lengthscale": 1.3}
    with pytest.raises(ValueError, match="no hyperparameter named"):
        regressor().set_params(kernel__length_scale=1.0)
    with pytest.raises(ValueError, match="kernel__variance must be positive"):
        regressor().set_params(kernel__variance=-1.0)


def test_fitted_models_travel_by_joblib_and_clones_are_unfitted(fitted):
    file = io.BytesIO()
    joblib.dump(fitted, file)
    file.seek(0)
    back = joblib.load(file)
    np.testing.assert_array_equal(back.predict(XS, return_std=True), fitted.predict(XS, return_std=True))
    again = clone(fitted)
    assert repr(again) == repr(fitted) and "posterior_" not in vars(again)


def test_metadata_are_routed():
    with sklearn.config_context(enable_metadata_routing=True):
        model = make_pipeline(StandardScaler(), regressor().set_predict_request(return_std=True)).fit(X, Y)
        mean, std = model.predict(XS, return_std=True)
    assert mean.shape == std.shape == (7,)


def test_projections_are_frames_where_asked_for():
    frame = pd.DataFrame(X, columns=["a", "b"], index=range(5, 29))
    found = KernelPCA(k.SE(1.3), n_components=3).set_output(transform="pandas").fit_transform(frame)
    assert list(found.columns) == ["kernelpca0", "kernelpca1", "kernelpca2"] and list(found.index) == list(
        range(5, 29)
    )


def test_rows_that_are_no_table_yet():
    pl = pytest.importorskip("polars")
    with pytest.raises(ValueError, match=r"collect it first, X\.collect"):
        mc.GPRegressor().fit(pl.LazyFrame({"a": [1.0, 2.0]}), [1.0, 2.0])
    with pytest.raises(ValueError, match=r"make a frame of it, pandas\.DataFrame"):
        mc.GPClassifier().fit([{"a": 1.0}, {"a": 2.0}], ["u", "v"])
