"""GPRegressor: scikit-learn's rules, agreement with scikit-learn's own GP, units, frames and bad input."""

import pickle
import subprocess
import sys

import jax.numpy as jnp
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.base import clone
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process import kernels as sk
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import mercer as mc
from mercer import kernels as k
from mercer import means
from mercer.estimators import GPRegressor, defaults
from mercer.hyperpriors import Each, LogNormal
from mercer.learning import FitWarning
from mercer.params import hyper


def toy(n=40, noise=0.1, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2, 2, (n, 3))
    return X, 5.0 + np.sin(2 * X[:, 0]) + 0.5 * X[:, 1] + noise * rng.standard_normal(n)


X, Y = toy()
XS = toy(15, seed=1)[0]


@pytest.fixture(scope="module")
def fitted():
    return GPRegressor().fit(X, Y)


def expected_failures(estimator):
    """A weight divides the noise variance: it is the mean of so many measurements, not so many rows, and zero
    is no weight.
    """
    reason = "the noise variance is divided by the weight; rows that repeat would tell the noise as well"
    return {"check_sample_weight_equivalence_on_dense_data": reason}


@parametrize_with_checks([GPRegressor(max_evaluations=0)], expected_failed_checks=expected_failures)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.mark.slow
@parametrize_with_checks([GPRegressor()], expected_failed_checks=expected_failures)
def test_scikit_learn_checks_that_learn(estimator, check):
    check(estimator)


def test_scikit_learn_is_imported_only_when_used():
    code = (
        "import sys, mercer; assert 'sklearn' not in sys.modules; mercer.GPRegressor; assert 'sklearn' "
        "in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


# ------------------------------------------------------------------------------------------------- the oracle


PAIRS = {
    "ARD SE": (k.SE(mc.fixed([0.7, 1.3, 2.0]), mc.fixed(1.7)), 1.7 * sk.RBF([0.7, 1.3, 2.0])),
    "Matern": (k.Matern(mc.fixed(1.4), mc.fixed(0.8), nu=1.5), 0.8 * sk.Matern(1.4, nu=1.5)),
    "sum": (
        k.RationalQuadratic(mc.fixed(0.9), mc.fixed(1.1), alpha=mc.fixed(0.6)) + k.Linear(mc.fixed(0.3)),
        1.1 * sk.RationalQuadratic(0.9, 0.6) + 0.3 * sk.DotProduct(0.0, "fixed"),
    ),
}


@pytest.mark.parametrize("name", PAIRS)
def test_equal_hyperparameters_give_scikit_learns_numbers(name):
    kernel, theirs = PAIRS[name]
    ours = GPRegressor(kernel, mean=None, noise_variance=mc.fixed(0.05)).fit(X, Y)
    oracle = GaussianProcessRegressor(theirs, alpha=0.05, optimizer=None).fit(X, Y)
    mean, cov = oracle.predict(XS, return_cov=True)
    np.testing.assert_allclose(ours.predict(XS), mean, rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(ours.predict(XS, return_cov=True, latent=True)[1], cov, rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(ours.predict(XS, return_std=True)[1] ** 2, np.diag(cov) + 0.05, rtol=1e-8)
    np.testing.assert_allclose(
        ours.log_marginal_likelihood_, oracle.log_marginal_likelihood_value_, rtol=1e-8
    )


def test_learning_reaches_scikit_learns_optimum():
    wide = (1e-6, 1e6)
    theirs = sk.ConstantKernel(1.0, wide) * sk.RBF([1.0] * 3, wide) + sk.WhiteKernel(0.1, wide)
    oracle = GaussianProcessRegressor(theirs, alpha=0.0, n_restarts_optimizer=2, random_state=0).fit(
        X, Y - Y.mean()
    )
    ours = GPRegressor(k.SE([1.0] * 3)).fit(X, Y)
    assert ours.log_marginal_likelihood_ > oracle.log_marginal_likelihood_value_ - 0.01


# ------------------------------------------------------------------------------------------------- units


def test_units_do_not_matter():
    factors, shift, scale, offset = np.array([1e3, 1e-4, 7.0]), np.array([1.0, -5.0, 300.0]), 250.0, -3e4
    one = GPRegressor().fit(X, Y)
    two = GPRegressor().fit(X * factors + shift, scale * Y + offset)
    mean, std = one.predict(XS, return_std=True)
    mean2, std2 = two.predict(XS * factors + shift, return_std=True)
    np.testing.assert_allclose((mean2 - offset) / scale, mean, rtol=1e-6)
    np.testing.assert_allclose(std2 / scale, std, rtol=1e-6)
    np.testing.assert_allclose(two.kernel_.lengthscale / factors, one.kernel_.lengthscale, rtol=1e-5)
    np.testing.assert_allclose(two.noise_variance_ / scale**2, one.noise_variance_, rtol=1e-5)
    evidence = two.log_marginal_likelihood_ + len(Y) * np.log(scale)  # a density of the user's y
    np.testing.assert_allclose(evidence, one.log_marginal_likelihood_, atol=1e-6)


def test_priors_written_for_standardised_data_are_carried_to_the_units():
    Z = (X - X.mean(0)) / X.std(0)
    kernel, units = defaults.default_kernel(Z, 1.0), defaults.default_kernel(X, Y.std())
    np.testing.assert_allclose(kernel.lengthscale, 3**0.25, rtol=1e-12)
    np.testing.assert_allclose(units.lengthscale, 3**0.25 * X.std(0), rtol=1e-12)
    prior, carried = dict(kernel.info)["lengthscale"].prior, dict(units.info)["lengthscale"].prior
    assert prior.priors[0].mu == pytest.approx(np.sqrt(2) + np.log(3) / 2) and prior.priors[
        0
    ].sigma == pytest.approx(np.sqrt(3))
    at = np.array([0.3, 1.0, 4.0])
    np.testing.assert_allclose(
        carried.log_prob(at * X.std(0)) + np.log(X.std(0)), prior.log_prob(at), rtol=1e-12
    )


def test_each_is_one_prior_for_each_entry():
    each = Each((LogNormal(0.0, 1.0), LogNormal(2.0, 0.5)))
    at = np.array([1.5, 3.0])
    np.testing.assert_allclose(
        each.log_prob(at), [p.log_prob(v) for p, v in zip(each.priors, at, strict=True)]
    )
    step = 1e-6
    slope = (each.log_prob(at + step) - each.log_prob(at - step)) / (2 * step)
    np.testing.assert_allclose(each.score(at), slope, rtol=1e-7)
    np.testing.assert_allclose(
        each.scaled([2.0, 3.0]).log_prob(at * [2, 3]) + np.log([2, 3]), each.log_prob(at)
    )
    assert each.sample(0, (2,)).shape == (2,) and each.proper
    with pytest.raises(ValueError, match="2 priors needs a vector"):
        each.log_prob(np.ones(3))


def test_given_kernel_is_in_the_users_units():
    kernel = k.SE(mc.fixed(1.5), variance=mc.fixed(2.0))
    model = GPRegressor(kernel, noise_variance=mc.fixed(0.04)).fit(X, Y)
    direct = mc.GP(kernel, Y.mean()).condition(X, Y, noise_variance=0.04)
    np.testing.assert_array_equal(model.predict(XS), direct.mean(XS))
    assert model.kernel_.lengthscale == 1.5 and model.noise_variance_ == 0.04
    assert model.log_marginal_likelihood_ == direct.log_evidence


# ------------------------------------------------------------------------------------------------- what is
# learned


def test_default_fit_predicts_with_honest_uncertainty():
    train, y = toy(80, noise=0.2, seed=2)
    test, truth = toy(400, noise=0.2, seed=3)
    model = GPRegressor().fit(train, y)
    mean, std = model.predict(test, return_std=True)
    assert np.sqrt(np.mean((mean - truth) ** 2)) < 0.26  # 0.2 is the noise itself
    assert 0.90 < np.mean(np.abs(mean - truth) < 1.96 * std) < 0.99
    assert 0.02 < model.noise_variance_ < 0.08
    assert model.score(test, truth) > 0.85
    assert model.importance(permutation=False, draws=0).names == ("x0", "x1", "x2")
    assert model.fit_.status.converged


def test_methods_agree_with_each_other(fitted):
    mean, std = fitted.predict(XS, return_std=True)
    assert mean.shape == std.shape == (15,)
    np.testing.assert_allclose(np.sqrt(np.diag(fitted.predict(XS, return_cov=True)[1])), std, rtol=1e-9)
    latent = fitted.predict(XS, return_std=True, latent=True)[1]
    np.testing.assert_allclose(std**2 - latent**2, fitted.noise_variance_, rtol=1e-9)
    lower, upper = fitted.predict_interval(XS, level=0.9)
    np.testing.assert_allclose(upper - lower, 2 * 1.6448536269514722 * std, rtol=1e-9)
    np.testing.assert_allclose(fitted.predict_quantile(XS, 0.5), mean, rtol=1e-12)
    density = -0.5 * ((mean - 1.0) / std) ** 2 - np.log(std) - 0.5 * np.log(2 * np.pi)
    np.testing.assert_allclose(fitted.log_density(XS, np.ones(15)), density, rtol=1e-9)
    assert fitted.loo().mean.shape == Y.shape
    assert fitted.n_features_in_ == 3 and not hasattr(fitted, "feature_names_in_")


def test_samples_have_the_predictive_moments(fitted):
    draws = fitted.sample_y(XS, n_samples=4000, random_state=0)
    mean, cov = fitted.predict(XS, return_cov=True)
    assert draws.shape == (15, 4000)
    np.testing.assert_allclose(draws.mean(1), mean, atol=5 * np.sqrt(cov.max() / 4000))
    np.testing.assert_allclose(np.cov(draws), cov, atol=0.1 * cov.max())
    np.testing.assert_array_equal(fitted.sample_y(XS, 2), fitted.sample_y(XS, 2))
    state = np.random.RandomState(3)
    assert not np.array_equal(fitted.sample_y(XS, 1, state), fitted.sample_y(XS, 1, state))


def test_components_sum_to_the_mean():
    model = GPRegressor(k.SE(1.0).on(0) + k.Linear().on(1), noise_variance=0.01).fit(X, Y)
    parts = model.components(XS)
    assert [p.name for p in parts] == [str(t) for t in model.kernel_.terms]
    np.testing.assert_allclose(sum(p.mean for p in parts) + Y.mean(), model.predict(XS), rtol=1e-9)
    assert all(p.std.shape == (15,) and (p.std > 0).all() for p in parts)


def test_summary_opens_with_what_was_found(fitted):
    text = fitted.summary()
    error = np.sqrt(np.mean((Y - fitted.loo().mean) ** 2))
    first, second, third, *_ = text.splitlines()
    assert first.startswith(f"each row predicted from the others: RMSE {error:.4g}, ")
    assert second.startswith("importance: x0 0.") and third.startswith("noise: Gaussian")
    for said in (
        "kernel.lengthscale[2]",
        "likelihood.noise_variance",
        "log evidence",
        "converged",
        "importance: x0 0.",
    ):
        assert said in text


@pytest.mark.parametrize(
    ("mean", "check"),
    [
        ("empirical", lambda m: m.constant == Y.mean()),
        (None, lambda m: isinstance(m, means.Zero)),
        (4.5, lambda m: m.constant == 4.5),
        (mc.param(0.0), lambda m: abs(m.constant - 5.0) < 1.0),
        (means.Linear([0.0] * 3), lambda m: abs(m.weights[1] - 0.5) < 0.2),
        (lambda X: 5.0 + 0.5 * X[:, 1], lambda m: isinstance(m, means.Function)),
    ],
    ids=["empirical", "zero", "number", "param", "mean", "callable"],
)
def test_means(mean, check):
    model = GPRegressor(k.SE(1.0), mean=mean, noise_variance=0.01).fit(X, Y)
    assert check(model.model_.gp.mean)
    assert model.score(X, Y) > 0.9


def test_basis_is_integrated_out():
    model = GPRegressor(k.SE(1.0).on(0), basis=means.Polynomial(1), noise_variance=0.01).fit(X, Y)
    far = np.array([[0.0, 50.0, 0.0], [0.0, 51.0, 0.0]])
    slope = np.diff(model.predict(far))[0]
    assert abs(slope - 0.5) < 0.1


def test_noise_variance_may_be_known_for_each_row():
    noise = np.where(np.arange(len(Y)) < 20, 1e-4, 4.0)
    model = GPRegressor(noise_variance=noise).fit(X, Y)
    np.testing.assert_array_equal(model.noise_variance_, noise)
    residual = np.abs(model.predict(X) - Y)
    assert residual[:20].max() < 0.05 < residual[20:].max()
    with pytest.raises(ValueError, match=r"noise_variance= for Xs, or latent=True"):
        model.predict(XS, return_std=True)
    latent = model.predict(XS, return_std=True, latent=True)[1]
    np.testing.assert_allclose(
        model.predict(XS, return_std=True, noise_variance=0.5)[1] ** 2, latent**2 + 0.5, rtol=1e-12
    )


def test_noise_variance_is_a_start_or_fixed():
    assert GPRegressor(k.SE(1.0), noise_variance=3.0).fit(X, Y).noise_variance_ < 0.1
    assert GPRegressor(noise_variance=mc.fixed(0.3)).fit(X, Y).noise_variance_ == 0.3
    held = GPRegressor(noise_variance=mc.param(0.1, bounds=(0.05, 1.0)))
    with pytest.warns(FitWarning, match="likelihood.noise_variance is at its lower bound 0.05"):
        held.fit(X, Y)
    assert held.noise_variance_ == pytest.approx(0.05, rel=1e-6)


def test_kernel_as_text():
    model = GPRegressor("2 * SE(lengthscale=fixed(1.5)) + Linear()").fit(X, Y)
    assert isinstance(model.kernel_, k.Sum) and model.kernel_.terms[0].lengthscale == 1.5


def test_restarts_are_reproducible_and_never_worse():
    y = np.sin(6 * X[:, 0])
    runs = [GPRegressor(k.SE(1.0), restarts=3, random_state=s).fit(X[:15], y[:15]) for s in (1, 1)]
    assert runs[0].log_marginal_likelihood_ == runs[1].log_marginal_likelihood_
    assert {"random 1", "random 2", "random 3"} <= set(runs[0].fit_.status.starts)
    single = GPRegressor(k.SE(1.0)).fit(X[:15], y[:15])
    assert runs[0].log_marginal_likelihood_ >= single.log_marginal_likelihood_ - 1e-9
    state = np.random.RandomState(0)
    assert GPRegressor(restarts=1, random_state=state).fit(X, Y).fit_.status.converged


def test_works_inside_scikit_learn(fitted):
    pipeline = make_pipeline(StandardScaler(), GPRegressor())
    assert cross_val_score(pipeline, X, Y, cv=3).mean() > 0.8
    again = clone(GPRegressor(k.SE(1.0), noise_variance=mc.fixed(0.1)))
    assert isinstance(again.kernel, k.SE) and again.noise_variance.value == 0.1
    copy = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(copy.predict(XS), fitted.predict(XS))
    assert copy.summary() == fitted.summary()


# ------------------------------------------------------------------------------------------------- frames


FRAMES = {
    "pandas": lambda values, names: pd.DataFrame(values, columns=list(names)),
    "polars": lambda values, names: pl.DataFrame(values, schema=list(names)),
    "pyarrow": lambda values, names: pa.table(dict(zip(names, values.T, strict=True))),
}


@pytest.mark.parametrize("frame", FRAMES.values(), ids=FRAMES)
def test_frames_keep_their_names(frame):
    table = frame(np.column_stack([X, Y]), ["a", "b", "c", "y"])
    model = GPRegressor().fit(frame(X, "abc"), table["y"])
    assert list(model.feature_names_in_) == ["a", "b", "c"] and model.n_features_in_ == 3
    assert "importance: a 0." in model.summary()
    plain = GPRegressor().fit(X, Y)
    np.testing.assert_allclose(model.predict(frame(XS, "abc")), plain.predict(XS), rtol=1e-12)
    with pytest.raises(ValueError, match="X lacks the column 'c' that the model was fitted with"):
        model.predict(frame(XS[:, :2], "ab"))
    np.testing.assert_array_equal(model.predict(frame(XS[:, ::-1], "cba")), model.predict(frame(XS, "abc")))
    with pytest.warns(mc.columns.ColumnWarning, match="ignored: d"):
        model.predict(frame(np.column_stack([XS, XS[:, 0]]), "abcd"))
    with pytest.warns(UserWarning, match="fitted with feature names"):
        model.predict(XS)


def test_kernels_read_columns_by_name():
    frame = FRAMES["polars"]
    model = GPRegressor(k.SE(1.0).on("a") + k.Linear().on("b")).fit(frame(X, "abc"), Y)
    same = GPRegressor(k.SE(1.0).on(0) + k.Linear().on(1)).fit(X, Y)
    np.testing.assert_allclose(model.predict(frame(XS, "abc")), same.predict(XS), rtol=1e-12)


class Lengths(k.AbstractKernel):
    """A kernel on words: SE of the number of letters."""

    lengthscale: float = hyper(2.0)

    def reads_objects(self):
        return True

    def encode(self, X):
        return np.array([[float(len(word))] for word in X[:, 0]])

    def block(self, A, B):
        return jnp.exp(-0.5 * ((A - B.T) / self.lengthscale) ** 2)


def test_kernels_on_objects_read_them_as_they_are():
    words = ["a", "bb", "ccc", "dddd", "eeeee", "ffffff"]
    y = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]
    model = GPRegressor(Lengths(), noise_variance=mc.fixed(0.01)).fit(words, y)
    np.testing.assert_allclose(model.predict(words), y, atol=0.3)
    assert model.n_features_in_ == 1 and "importance" not in model.summary()
    framed = GPRegressor(Lengths(), noise_variance=mc.fixed(0.01)).fit(pl.DataFrame({"word": words}), y)
    with pytest.warns(mc.columns.ColumnWarning, match="ignored: other"):
        found = framed.predict(pl.DataFrame({"other": words, "word": words}))
    np.testing.assert_array_equal(found, model.predict(words))
    assert list(framed.feature_names_in_) == ["word"]
    with pytest.raises(ValueError, match="lacks the column 'word'"):
        framed.predict(pl.DataFrame({"other": words}))


# ------------------------------------------------------------------------------------------------- bad input


def with_entry(value):
    bad = X.copy()
    bad[4, 1] = value
    return bad


BAD = {
    "NaN": (with_entry(np.nan), Y, {"missing": "error"}, r"NaN or empty cells: 'x1' \(1\)"),
    "NaN and a kernel": (with_entry(np.nan), Y, {"kernel": "SE()"}, "NaN in row 4, column 1.*give no kernel"),
    "infinity": (with_entry(np.inf), Y, {}, "infinity in column 'x1', in row 4"),
    "what to do with empty cells": (X, Y, {"missing": "drop"}, "missing must be one of 'indicator', 'error'"),
    "NaN in y": (X, np.where(np.arange(40) == 3, np.nan, Y), {}, "y contains NaN"),
    "NaN in a frame": (
        pd.DataFrame(with_entry(np.nan), columns=list("abc")),
        Y,
        {"missing": "error"},
        r"'b' \(1\)",
    ),
    "null in a frame": (
        pl.DataFrame({"a": [1.0, None, 3.0]}),
        Y[:3],
        {"kernel": "SE()"},
        "row 1, column 'a'",
    ),
    "text": (np.array([["1.0"], ["two"]]), Y[:2], {"kernel": "SE()"}, "not numeric.*kernels.Categorical"),
    "text in a frame": (
        pd.DataFrame({"a": [1.0, 2.0], "b": ["x", "y"]}),
        Y[:2],
        {"kernel": "SE()"},
        "column 'b' of X is not numeric.*kernels.Categorical",
    ),
    "names in a frame": (pd.DataFrame({"a": list("uvw")}), Y[:3], {}, "'a' has a different value in every"),
    "text in y": (X, np.array(["x"] * 40), {}, "y is not numeric"),
    "one dimension": (X[:, 0], Y, {}, "Expected 2D array"),
    "three dimensions": (X[None], Y[:1], {}, "3"),
    "lengths": (X, Y[:5], {}, "inconsistent numbers of samples"),
    "lengths, frame": (
        pd.DataFrame(X, columns=list("abc")),
        Y[:5],
        {},
        "y has 5 entries but there are 40 rows",
    ),
    "no rows": (X[:0], Y[:0], {}, r"0 sample\(s\)"),
    "no rows, frame": (pd.DataFrame({"a": []}), [], {}, "no rows"),
    "no columns": (X[:, :0], Y, {}, r"0 feature\(s\)"),
    "no y": (X, None, {}, "y is None"),
    "no y, frame": (pd.DataFrame(X, columns=list("abc")), None, {}, "y is None"),
    "an output of text": (X, np.column_stack([Y, Y]).astype(str).astype(object) + "m", {}, "is not numeric"),
    "columns twice": (pd.DataFrame(X, columns=list("aab")), Y, {}, "'a'"),
    "contradiction without noise": (
        np.r_[X, X[:1]],
        np.r_[Y, Y[0] + 1],
        {"noise_variance": 0},
        "rows 0 and 40 of X are the same",
    ),
    "unit far too large": (X, 1e200 * Y, {}, "use other units"),
    "unit far too small": (1e-40 * X, Y, {}, "use other units"),
    "noise of other length": (X, Y, {"noise_variance": np.ones(3)}, r"shape \(3,\) but there are 40 rows"),
    "negative noise": (X, Y, {"noise_variance": -1.0}, "zero or positive"),
    "kernel text": (X, Y, {"kernel": "SE("}, "cannot read the kernel"),
    "mean text": (X, Y, {"mean": "median"}, "unknown mean 'median'; there are .*'empirical'"),
    "objective": (X, Y, {"objective": "luck"}, "unknown objective 'luck'"),
    "solver": (X, Y, {"solver": "magic"}, "unknown solver 'magic'"),
    "inference": (X, Y, {"inference": "magic"}, "unknown inference 'magic'"),
    "restarts": (X, Y, {"restarts": -1}, "restarts must be 0 or more"),
    "lengthscales": (X, Y, {"kernel": k.SE([1.0, 2.0])}, "2 entries but the kernel sees 3 input columns"),
    "column of the kernel": (X, Y, {"kernel": k.SE().on("a")}, "needs inputs with column names"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_one_clear_error(case):
    table, y, settings, message = BAD[case]
    with pytest.raises(ValueError, match=message):
        GPRegressor(**settings).fit(table, y)


def test_bad_input_after_fitting(fitted):
    with pytest.raises(TypeError, match="kernel must be a kernel"):
        GPRegressor(kernel=3).fit(X, Y)
    with pytest.raises(ValueError, match="X has 2 features, but GPRegressor is expecting 3"):
        fitted.predict(XS[:, :2])
    with pytest.raises(ValueError, match="'x1' has 1 cell without a value, in row 4, and no"):
        fitted.predict(with_entry(np.nan))
    with pytest.raises(ValueError, match="not both"):
        fitted.predict(XS, return_std=True, return_cov=True)
    with pytest.raises(ValueError, match="level must lie strictly between"):
        fitted.predict_interval(XS, level=95)
    with pytest.raises(ValueError, match="y has 2 entries but there are 15"):
        fitted.log_density(XS, [1.0, 2.0])


def test_one_row_gives_the_defaults():
    model = GPRegressor().fit([[1.0, 2.0]], [-4.0])
    mean, std = model.predict([[1.0, 2.0], [1e3, 2.0]], return_std=True)
    np.testing.assert_allclose(mean, -4.0)
    # prior variance y^2 and noise a tenth of it
    np.testing.assert_allclose(std[1], 4.0 * np.sqrt(1.1), rtol=1e-9)
    assert std[0] < std[1] and "importance" not in model.summary()
    assert "nothing was learned" in model.summary()
    given = GPRegressor(k.SE(1.0, variance=2.0), noise_variance=0.1).fit([[1.0]], [3.0])
    assert given.kernel_.variance == 2.0 and given.noise_variance_ == 0.1


def test_equal_targets_are_predicted_almost_surely():
    model = GPRegressor().fit(X, np.full(40, 0.1))
    mean, std = model.predict(XS, return_std=True)
    np.testing.assert_allclose(mean, 0.1, rtol=1e-12)
    assert 0 < std.max() < 1e-6
    zero = GPRegressor().fit(X, np.zeros(40))
    np.testing.assert_allclose(zero.predict(XS), 0.0, atol=1e-12)
    kept = GPRegressor(k.SE(1.5)).fit(X, np.ones(40))
    assert kept.kernel_.lengthscale == 1.5 and "nothing was learned" in kept.summary()


def test_columns_that_do_not_vary_are_harmless():
    flat = np.column_stack([X, np.full(40, 0.1)])
    model, plain = GPRegressor().fit(flat, Y), GPRegressor().fit(X, Y)
    assert model.importance(permutation=False, draws=0)["x3"] == 0.0
    np.testing.assert_allclose(model.predict(flat), plain.predict(X), atol=0.1)
    nothing = GPRegressor().fit(np.ones((40, 2)), Y)
    assert nothing.importance().total.max() == 0.0 and "importance" not in nothing.summary()
    assert abs(nothing.predict(np.ones((1, 2)))[0] - Y.mean()) < 0.1


def test_repeated_rows_without_noise_are_matched():
    model = GPRegressor(noise_variance=0).fit(np.r_[X, X[:3]], np.r_[Y, Y[:3]])
    np.testing.assert_allclose(model.predict(X), Y, atol=1e-4)
    assert any("noise-free" in note for note in model.posterior_.notes)


def test_a_dict_of_columns_is_taken_by_name():
    model = GPRegressor().fit({"a": X[:, 0], "b": X[:, 1]}, Y)
    assert list(model.feature_names_in_) == ["a", "b"]
    new = {"b": XS[:, 1], "a": XS[:, 0]}
    np.testing.assert_allclose(model.predict(new), GPRegressor().fit(X[:, :2], Y).predict(XS[:, :2]))
    with pytest.raises(ValueError, match="lacks the column 'b'"):
        model.predict({"a": XS[:, 0]})


def test_latent_is_the_latent_function_with_and_without_its_deviation():
    X = np.linspace(0, 3, 15)[:, None]
    model = GPRegressor(kernel=k.SE(1.0), likelihood="poisson", max_evaluations=0).fit(X, np.arange(15.0))
    mean, _ = model.predict(X, latent=True, return_std=True)
    np.testing.assert_array_equal(model.predict(X, latent=True), mean)
    np.testing.assert_array_equal(model.predict(X, latent=True, return_cov=True)[0], mean)
