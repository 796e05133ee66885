"""Regression that outliers cannot spoil: noise models by name, the report on outliers,
the comparison of noise models.
"""

from __future__ import annotations

import functools
import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

import mercer as mc
from mercer import hyperpriors, likelihoods
from mercer.estimators import GPRegressor, defaults
from mercer.estimators.regression import tails
from mercer.estimators.regression.robust import Candidate, Outliers, RobustComparison, noise_unit
from mercer.learning import FitWarning
from mercer.likelihoods import scales as noise_scales

ROBUST = ("student-t", "laplace", "mixture", "uniform", "epsilon-insensitive")
BAD = [5, 17, 30]
N = 40
X = np.linspace(0, 6, N)[:, None]
F = np.sin(1.5 * X[:, 0])
CLEAN = F + 0.1 * np.random.default_rng(0).standard_normal(N)
DIRTY = CLEAN.copy()
DIRTY[BAD] += [3.0, -4.0, 2.5]


@functools.cache
def fitted(likelihood: str, dirty: bool = True) -> GPRegressor:
    return GPRegressor(likelihood=likelihood).fit(X, DIRTY if dirty else CLEAN)


def error(model) -> float:
    return mc.metrics.rmse(F, model.predict(X))


# ------------------------------------------------------------------------------------------------- fitting


@pytest.mark.representative("student-t", "uniform", "mixture")
@pytest.mark.parametrize("name", ROBUST)
def test_outliers_hardly_move_the_function(name):
    model = fitted(name)
    assert error(model) < 0.5 * error(fitted("gaussian"))
    assert set(BAD) <= set(model.outliers_.rows)
    assert len(model.outliers_) <= 5
    assert model.fit_.status.converged


@pytest.mark.parametrize("name", ["student-t", "mixture", "uniform"])
def test_an_outlier_of_a_million_standard_deviations_is_harmless(name):
    y = CLEAN.copy()
    y[BAD] += [1e5, -1e5, 3.0]
    model = GPRegressor(likelihood=name).fit(X, y)
    assert error(model) < 0.1
    assert sorted(model.outliers_.rows) == BAD
    assert np.all(np.isfinite(model.predict_interval(X)))


def test_units_do_not_matter():
    a, b = fitted("student-t"), GPRegressor(likelihood="student-t").fit(1e3 * X, 1e-4 * DIRTY + 7.0)
    np.testing.assert_allclose(b.predict(1e3 * X), 1e-4 * a.predict(X) + 7.0, atol=1e-8)
    assert float(b.model_.likelihood.dof) == pytest.approx(float(a.model_.likelihood.dof), rel=1e-3)
    np.testing.assert_array_equal(a.outliers_.rows, b.outliers_.rows)
    np.testing.assert_allclose(a.outliers_.score, b.outliers_.score, atol=1e-3)


@pytest.mark.slow
@pytest.mark.representative("line")
@pytest.mark.parametrize("case", ["wave", "surface", "line"])
def test_without_outliers_student_t_predicts_as_well_as_gaussian_noise(case):
    rng = np.random.default_rng({"wave": 10, "surface": 11, "line": 12}[case])
    if case == "wave":
        Z = rng.uniform(0, 6, (240, 1))
        y = np.sin(1.5 * Z[:, 0]) + 0.3 * rng.standard_normal(240)
    elif case == "surface":
        Z = rng.uniform(0, 1, (240, 2))
        y = np.sin(4 * Z[:, 0]) * Z[:, 1] + 0.1 * rng.standard_normal(240)
    else:
        Z = rng.standard_normal((240, 3))
        y = Z @ [1.0, 0.5, -1.0] + 0.5 * rng.standard_normal(240)
    train, test = slice(0, 80), slice(80, None)
    gaussian, student = (
        -GPRegressor(likelihood=name).fit(Z[train], y[train]).log_density(Z[test], y[test]).mean()
        for name in (None, "student-t")
    )
    assert student <= gaussian + 0.02 * abs(gaussian)


def test_student_t_alone_means_the_variational_scheme():
    named = GPRegressor(likelihood="student-t", inference="variational").fit(X, DIRTY)
    np.testing.assert_allclose(named.predict(X), fitted("student-t").predict(X), rtol=1e-10)
    assert "lower bound" in named.summary()


@pytest.mark.slow
@pytest.mark.parametrize("inference", ["laplace", "ep"])
def test_other_inference_finds_nearly_the_same(inference):
    settings = dict(kernel="SE(1.0)", likelihood=likelihoods.StudentT(mc.fixed(0.1), mc.fixed(4.0)))
    model, usual = (GPRegressor(inference=rule, **settings).fit(X, DIRTY) for rule in (inference, None))
    assert sorted(model.outliers_.rows) == sorted(usual.outliers_.rows) == BAD
    np.testing.assert_allclose(model.predict(X), usual.predict(X), atol=0.03)


def test_an_instance_is_learned_as_it_stands():
    noise = likelihoods.StudentT(scale=0.1, dof=mc.fixed(4.0))
    model = GPRegressor(kernel="SE(1.0)", likelihood=noise).fit(X, DIRTY)
    assert float(model.model_.likelihood.dof) == 4.0
    assert model.noise_variance_ == pytest.approx(2.0 * float(model.model_.likelihood.scale) ** 2)
    assert error(model) < 0.1


def test_the_robust_mean_is_the_median():
    y = DIRTY.copy()
    y[3] = 1e9
    noise = likelihoods.StudentT(mc.fixed(0.1), mc.fixed(2.0))
    assert float(GPRegressor("SE(1)", likelihood=noise).fit(X, y).model_.gp.mean.constant) == np.median(y)
    learned = GPRegressor("SE(1)", mean=mc.param(0.0), likelihood=noise).fit(X, y)
    assert abs(float(learned.model_.gp.mean.constant)) < 2.0


def test_counts_have_a_rate():
    counts = np.random.default_rng(0).poisson(np.exp(1.0 + F)).astype(float)
    model = GPRegressor(likelihood="poisson").fit(X, counts)
    assert mc.metrics.rmse(np.exp(1.0 + F), model.predict(X)) < 1.0
    assert model.noise_variance_ is None
    lower, upper = model.predict_interval(X)
    assert np.all(lower == np.round(lower)) and np.mean((lower <= counts) & (counts <= upper)) > 0.9
    with pytest.raises(ValueError, match="Poisson has none"):
        _ = model.outliers_


@pytest.mark.slow
def test_targets_that_do_not_vary_or_hardly_vary():
    same = GPRegressor(likelihood="student-t").fit(X, np.full(N, 3.0))
    np.testing.assert_allclose(same.predict(X), 3.0, rtol=1e-6)
    assert len(same.outliers_) == 0
    assert len(GPRegressor(likelihood="auto").fit(X, np.full(N, 3.0)).outliers_) == 0
    mostly = np.zeros(N)
    mostly[:8] = CLEAN[:8]
    with warnings.catch_warnings():  # the evidence has no maximum where most targets are equal
        warnings.simplefilter("ignore", FitWarning)
        fitted = GPRegressor(likelihood="student-t").fit(X, mostly)
    assert np.all(np.isfinite(fitted.predict(X)))


@pytest.mark.parametrize(
    "settings, message",
    [
        (dict(likelihood="student-t", noise_variance=0.1), "noise_variance goes with Gaussian noise"),
        (
            dict(likelihood=likelihoods.Laplace(), noise_variance=0.1),
            "noise_variance goes with Gaussian noise",
        ),
        (dict(likelihood="auto", noise_variance=0.1), "leave out noise_variance"),
        (dict(likelihood="auto", inference="ep"), "leave out inference"),
        (dict(likelihood="cauchy"), "unknown likelihood 'cauchy'; there are .*'student-t', 'uniform'"),
        (dict(likelihood="probit"), "predicts one number for each row"),
        (dict(likelihood=3.0), "unknown likelihood 3.0"),
        (dict(likelihood=likelihoods.Bernoulli()), "predicts one number for each row"),
        (dict(likelihood="poisson"), "counts"),
    ],
)
def test_wrong_settings_are_one_clear_error(settings, message):
    with pytest.raises(ValueError, match=message):
        GPRegressor(**settings).fit(X, DIRTY)


# -------------------------------------------------------------------------------------------------
# predictions


@pytest.mark.parametrize("name", ["student-t", "laplace", "mixture", "uniform"])
def test_intervals_hold_the_probability_they_claim(name):
    model, x = fitted(name), np.array([[2.0], [8.0]])
    for level in (0.5, 0.95):
        lower, upper = model.predict_interval(x, level)
        y = np.linspace(lower, upper, 1001)
        density = np.exp(model.log_density(np.tile(x, (1001, 1)), y.ravel())).reshape(y.shape)
        np.testing.assert_allclose(np.trapezoid(density, y, axis=0), level, atol=2e-3)
    q = model.predict_quantile(x, [0.025, 0.5, 0.975])
    np.testing.assert_allclose(q[:, 1], model.predict(x), atol=1e-6)
    np.testing.assert_allclose(q[:, [0, 2]].T, model.predict_interval(x), rtol=1e-9)


def test_infinite_variance_is_said_and_intervals_stay_finite():
    model = GPRegressor("SE(1)", likelihood=likelihoods.StudentT(0.1, mc.fixed(1.5))).fit(X, DIRTY)
    assert np.all(np.isinf(model.posterior_.std(X))) and model.noise_variance_ == np.inf
    assert "variance is infinite" in model.summary()
    _, std = model.predict(X, return_std=True)
    lower, upper = model.predict_interval(X, 0.6826894921370859)
    np.testing.assert_allclose(std, 0.5 * (upper - lower), rtol=1e-6)
    shown = model.predict_columns(X)
    np.testing.assert_allclose(shown["std"], std, rtol=1e-6)
    np.testing.assert_allclose(shown["upper"], model.predict_interval(X)[1], rtol=1e-6)
    assert np.all(np.isfinite(model.predict(X, return_std=True, latent=True)[1]))


def test_leave_one_out_intervals():
    lower, upper = fitted("gaussian").loo_interval(0.9)
    loo = fitted("gaussian").loo()
    np.testing.assert_allclose(upper - loo.mean, 1.6448536269514722 * np.sqrt(loo.variance))
    lower, upper = fitted("mixture").loo_interval(0.95)
    regular = np.setdiff1d(np.arange(N), BAD)
    assert np.mean((lower <= DIRTY)[regular] & (upper >= DIRTY)[regular]) > 0.85
    assert not np.any((lower <= DIRTY)[BAD] & (upper >= DIRTY)[BAD])
    with pytest.raises(ValueError, match="level must lie"):
        fitted("mixture").loo_interval(1.0)


# ------------------------------------------------------------------------------------------------- the report


def test_outliers_are_a_report():
    found = fitted("student-t").outliers_
    assert found.kind == "weight" and found.limit == 0.75
    np.testing.assert_array_equal(np.asarray(found), found.score)
    np.testing.assert_allclose(found.weight, 1 - found.score)
    assert np.all((found.score >= 0) & (found.score <= 1))
    assert list(found.rows) == [17, 5, 30]  # the furthest first
    text = str(found)
    assert text.startswith("3 of 40 rows are outliers")
    assert text.splitlines()[4].split()[:2] == ["17", f"{DIRTY[17]:.6g}"]
    section = found.report_section()
    assert set(section) == {"title", "paragraphs", "header", "rows"}
    assert len(section["rows"]) == 3 and len(section["rows"][0]) == len(section["header"])
    assert fitted("mixture").outliers_.kind == "probability"
    frame = found.to_frame()
    assert list(frame.columns) == ["y", "predicted", "residual", "score", "outlier"] and len(frame) == 40
    assert sorted(frame.index[frame.outlier]) == [5, 17, 30]
    assert (
        "3 of 40" in fitted("student-t").summary() and "degrees of freedom" in fitted("student-t").summary()
    )


def test_clean_and_gaussian_fits_have_no_outliers():
    assert str(fitted("student-t", dirty=False).outliers_) == "None of the 40 rows is an outlier."
    gaussian = fitted("gaussian").outliers_
    assert len(gaussian) == 0 and "same weight" in str(gaussian)
    assert "Gaussian with standard deviation" in fitted("gaussian").summary()


def test_a_row_far_away_with_little_doubt_is_needed():
    ones = np.ones(4)
    found = Outliers(
        np.array([0.9, 0.9, 0.7, 0.1]), "weight", ones, 0 * ones, np.array([5.0, 2.0, 9.0, -9.0]), "Student-t"
    )
    assert list(found.rows) == [0]
    assert str(found).startswith("1 of 4 row is")
    many = Outliers(np.ones(30), "probability", np.ones(30), np.zeros(30), np.full(30, 4.0), "mixture")
    assert str(many).endswith("... and 10 more")


def test_rows_are_called_by_the_labels_of_the_frame(tmp_path):
    frame = pd.DataFrame({"x": X[:, 0]}, index=[f"site {i}" for i in range(N)])
    model = GPRegressor(likelihood="student-t").fit(frame, DIRTY)
    assert "site 17" in str(model.outliers_)
    model.save(tmp_path / "m.mercer")
    assert str(mc.load(tmp_path / "m.mercer").outliers_) == str(model.outliers_)
    assert "no 17" in str(model.name_rows([f"no {i}" for i in range(N)]).outliers_)
    with pytest.raises(ValueError, match="2 names were given for 40 rows"):
        model.name_rows(["a", "b"])
    assert fitted("student-t").outliers_.index is None


def test_noise_units_are_standard_deviations_of_gaussian_noise():
    assert noise_unit(likelihoods.StudentT(2.0, 1e6)) == pytest.approx(2.0, rel=1e-5)
    # tan(0.68269 pi / 2)
    assert noise_unit(likelihoods.StudentT(1.0, 1.0)) == pytest.approx(1.8373, rel=1e-4)
    assert noise_unit(likelihoods.Laplace(1.0)) == pytest.approx(-np.log(2 * 0.15865525), rel=1e-6)
    assert noise_unit(likelihoods.ContaminatedUniform(1e-9, 4.0, 100.0)) == pytest.approx(2.0, rel=1e-6)


@pytest.mark.parametrize(
    "likelihood, words",
    [
        (likelihoods.Gaussian(4.0), "standard deviation 2"),
        (likelihoods.Gaussian(np.ones(3)), "known for each row"),
        (likelihoods.StudentT(0.5, 100.0), "tails almost Gaussian"),
        (likelihoods.StudentT(0.5, 1.0), "variance is infinite"),
        (likelihoods.Laplace(0.5), "double exponential"),
        (likelihoods.GaussianMixtureNoise(0.1, 4.0, 25.0), "standard deviation 2, but 10 for the 10 %"),
        (likelihoods.EpsilonInsensitive(0.5, 0.25), "scale 0.5, epsilon 0.25"),
        (likelihoods.Poisson(), "Poisson"),
    ],
)
def test_noise_in_plain_words(likelihood, words):
    assert words in likelihood.words()


# ------------------------------------------------------------------------------------------------- which
# noise model


@pytest.mark.slow
def test_auto_keeps_robust_noise_where_there_are_outliers(tmp_path):
    model = fitted("auto")
    compared = model.robust_comparison_
    assert [c.name for c in compared.candidates] == ["gaussian", "student-t", "laplace", "mixture"]
    assert compared.best == compared.suggested in ("student-t", "mixture")
    assert compared[compared.best].held_out > compared["gaussian"].held_out + 10
    alone = GPRegressor(likelihood=compared.best, inference="variational").fit(X, DIRTY)
    np.testing.assert_allclose(model.predict(X), alone.predict(X), atol=0.02)
    text = str(compared)
    assert text.splitlines()[2].startswith(compared.best) and "kept" in text.splitlines()[2]
    assert f"Kept {compared.best} noise: it predicts held-out rows better by" in text
    model.save(tmp_path / "m.mercer")
    loaded = mc.load(tmp_path / "m.mercer")
    assert loaded.robust_comparison_ == compared
    np.testing.assert_allclose(loaded.predict(X), model.predict(X), rtol=1e-8)


def test_auto_keeps_gaussian_noise_where_it_is_enough():
    model = fitted("auto", dirty=False)
    assert model.robust_comparison_.best == "gaussian"
    np.testing.assert_allclose(model.predict(X), fitted("gaussian", dirty=False).predict(X), rtol=1e-10)
    assert fitted("gaussian").robust_comparison_ is None


def test_held_out_density_is_that_of_three_folds():
    from mercer.posteriors.loo import folds

    model, total = fitted("gaussian"), 0.0
    for fold in folds(N, 3):
        rest = np.setdiff1d(np.arange(N), fold)
        total += model.model_.condition(X[rest], DIRTY[rest]).log_density(X[fold], DIRTY[fold]).sum()
    assert fitted("auto").robust_comparison_["gaussian"].held_out == pytest.approx(total, rel=1e-12)


@pytest.mark.parametrize(
    ("name", "likelihood"),
    [
        ("gaussian", likelihoods.Gaussian(0.04)),
        ("student-t", likelihoods.StudentT(0.2, 3.0)),
        ("laplace", likelihoods.Laplace(0.2)),
        ("mixture", likelihoods.GaussianMixtureNoise(0.1, 0.04, 50.0)),
    ],
)
def test_left_out_density_is_that_of_the_likelihood(name, likelihood):
    rng = np.random.default_rng(0)
    residual, variance = rng.standard_normal(N), rng.uniform(0.01, 0.3, N)
    shape = {"student-t": ["dof"], "mixture": ["weight", "ratio"]}.get(name, [])
    V, share = tails.FAMILIES[name].mixing(*(np.log(float(getattr(likelihood, p))) for p in shape))
    scale = {"laplace": 2 * 0.2**2}.get(name, 0.04)
    total = variance[:, None] + scale * V
    density = (np.exp(-0.5 * residual[:, None] ** 2 / total) / np.sqrt(2 * np.pi * total)) @ share
    expected = likelihood.log_density(residual, np.zeros(N), variance)
    np.testing.assert_allclose(np.log(density), expected, atol=1e-6)


def test_ties_go_to_the_simpler_and_failures_are_said():
    def compared(left_out, held_out=(None, None, None)):
        names = ("gaussian", "student-t", "laplace")
        return RobustComparison(tuple(map(Candidate, names, left_out, held_out)))

    tied = compared((-11.9, -10.0, -30.0))
    assert tied.best == tied.suggested == "gaussian" and "more than 1.9 nats" in tied.paragraph()
    assert compared((-12.1, -10.0, -9.0)).suggested == "student-t"
    assert compared((-50.0, -30.0, -10.0)).suggested == "laplace"
    kept = compared((-50.0, -10.0, -30.0), (-48.0, -11.0, None))
    assert kept.best == "student-t" and "better by 37.0 nats" in kept.paragraph()
    worse = compared((-50.0, -10.0, -30.0), (-48.0, -59.0, None))
    assert worse.best == "gaussian" and "worse by 11.0 nats" in worse.paragraph()
    failed = compared((-50.0, -10.0, -30.0), (-48.0, -np.inf, None))
    assert failed.best == "gaussian" and "could not be fitted" in failed.paragraph()
    assert failed.report_section()["title"] == "Which noise model"
    with pytest.raises(KeyError, match="no noise model named 'cauchy'"):
        failed["cauchy"]


def test_a_summary_hints_at_robust_noise_where_residuals_speak_for_it():
    assert "hint: left-out rows lie further off than Gaussian noise" in fitted("gaussian").summary()
    assert "hint" not in fitted("gaussian", dirty=False).summary()
    assert "hint" not in fitted("student-t").summary()


# -------------------------------------------------------------------------------------------------
# scikit-learn and files


def test_clone_keeps_the_likelihood():
    for given in (None, "student-t"):
        assert clone(GPRegressor(likelihood=given)).get_params()["likelihood"] is given
    copied = clone(GPRegressor(likelihood=likelihoods.StudentT(0.2, mc.fixed(3.0)))).likelihood
    assert (
        isinstance(copied, likelihoods.StudentT)
        and float(copied.scale) == 0.2
        and not dict(copied.info)["dof"].free
    )


@pytest.mark.representative("student")
@pytest.mark.parametrize("name", ROBUST)
def test_saved_models_predict_as_before(name, tmp_path):
    model = fitted(name)
    model.save(tmp_path / "m.mercer")
    loaded = mc.load(tmp_path / "m.mercer")
    np.testing.assert_allclose(loaded.predict(X), model.predict(X), rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(loaded.predict_interval(X), model.predict_interval(X), rtol=1e-5, atol=1e-8)
    assert loaded.likelihood == name
    np.testing.assert_array_equal(loaded.outliers_.rows, model.outliers_.rows)


# ------------------------------------------------------------------------------------------------- defaults
# and starts


def test_robust_scales_ignore_outliers():
    y = np.random.default_rng(0).standard_normal(2000)
    assert noise_scales.robust_scale(y) == pytest.approx(1.0, abs=0.05)
    y[:200] = 1e12
    assert noise_scales.robust_scale(y) == pytest.approx(1.1, abs=0.1)
    assert noise_scales.robust_scale(np.array([1.0, 1.0, 1.0, 2.0])) == pytest.approx(noise_scales.MAD)
    assert noise_scales.robust_scale(np.ones(3)) == 0.0
    assert defaults.target_scale(y, robust=True) == noise_scales.robust_scale(y)


def test_default_noise_has_weak_priors_in_the_units_of_y():
    a, b = (
        defaults.default_likelihood("student-t", DIRTY),
        defaults.default_likelihood("student-t", 100 * DIRTY),
    )
    priors = dict(a.info)["scale"].prior, dict(b.info)["scale"].prior
    assert float(b.scale) == pytest.approx(100 * float(a.scale))
    assert priors[0].mu + np.log(100) == pytest.approx(priors[1].mu)
    assert dict(a.info)["dof"].bounds == (1.0, 300.0) and isinstance(
        dict(a.info)["dof"].prior, hyperpriors.LogNormal
    )
    uniform = defaults.default_likelihood("uniform", DIRTY)
    assert float(uniform.width) >= np.ptp(DIRTY) and not dict(uniform.info)["width"].free


def test_the_prior_of_a_noise_scale_says_what_that_of_a_variance_does():
    scales = np.geomspace(0.01, 3, 7)
    by_scale = noise_scales.NOISE_SCALE_PRIOR.log_prob(scales)
    by_variance = noise_scales.NOISE_PRIOR.log_prob(scales**2)
    np.testing.assert_allclose(by_scale - by_scale[0], by_variance - by_variance[0], atol=1e-12)


def test_outlier_variance_starts_where_outliers_are():
    y = CLEAN.copy()
    assert likelihoods.GaussianMixtureNoise().start(y)["ratio"] == 100.0
    y[3] = 1e6
    values = likelihoods.GaussianMixtureNoise().start(y)
    assert np.sqrt(values["ratio"] * values["variance"]) == pytest.approx(1e6, rel=1e-3)


@pytest.mark.slow
def test_sampled_noise_models_report_outliers():
    model = GPRegressor(likelihood="mixture", inference="mcmc").fit(X, DIRTY)
    assert set(BAD) == set(model.outliers_.rows)
    assert error(model) < 0.1
    with pytest.raises(ValueError, match="averages over many"):
        model.loo_interval()


@pytest.mark.parametrize("noise", ["student-t", "mixture"])
@pytest.mark.parametrize("share", [0.83, 0.6])
def test_mostly_equal_targets_end_soon_and_say_so(noise, share):
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(60, 3))
    y = np.where(rng.uniform(size=60) < share, 0.0, np.exp(X[:, 0] + 0.3 * rng.normal(size=60)))
    model = mc.GPRegressor(likelihood=noise).fit(X, y)
    assert model.fit_.status.converged
    assert model.fit_.status.evaluations < 100
    assert any("more than half of the targets are one value" in note for note in model.posterior_.notes)
    lower, upper = model.predict_interval(X)
    assert np.mean((lower <= y) & (y <= upper)) > share
