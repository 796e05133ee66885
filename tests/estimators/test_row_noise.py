"""What is known of the noise of each row: weights, known errors, groups with a noise of their own."""

import numpy as np
import pandas as pd
import pytest
import sklearn
from scipy.stats import multivariate_normal
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process import kernels as sk
from sklearn.model_selection import cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from typer.testing import CliRunner

import mercer as mc
from mercer import kernels as k
from mercer import likelihoods, solvers
from mercer.app.cli import app
from mercer.app.tables import read_table, write_table

RNG = np.random.default_rng(5)
N = 60
X = RNG.uniform(0, 5, (N, 1))
F = 2.0 * np.sin(X[:, 0])
ERROR = RNG.uniform(0.05, 1.0, N)
Y = F + ERROR * RNG.normal(size=N)
XS = np.linspace(0, 5, 7)[:, None]
FRAME = pd.DataFrame({"x": X[:, 0], "instrument": np.array(["fine", "rough", "worn"])[np.arange(N) % 3]})
SPREAD = np.array([0.05, 0.3, 1.0])
Y_BY = F + SPREAD[np.arange(N) % 3] * RNG.normal(size=N)


@pytest.fixture(scope="module")
def with_errors():
    return mc.GPRegressor().fit(X, Y, y_error=ERROR)


@pytest.fixture(scope="module")
def by_instrument():
    return mc.GPRegressor(noise_by="instrument").fit(FRAME, Y_BY)


# -- errors --------------------------------------------------------------------------------------------------


def test_errors_are_scikit_learns_alpha():
    """With noise_variance=0 the errors are all of the noise: alpha of scikit-learn, as variances."""
    theirs = GaussianProcessRegressor(
        sk.ConstantKernel(1.7) * sk.Matern(1.2, nu=2.5), alpha=ERROR**2, optimizer=None
    ).fit(X, Y)
    kernel = k.Matern(mc.fixed(1.2), mc.fixed(1.7), nu=2.5)
    ours = mc.GPRegressor(kernel, mean=None, noise_variance=0).fit(X, Y, y_error=ERROR)
    assert ours.log_marginal_likelihood_ == pytest.approx(theirs.log_marginal_likelihood_value_, rel=1e-9)
    mean, std = ours.predict(XS, return_std=True)
    for found, expected in zip((mean, std), theirs.predict(XS, return_std=True), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-7)


def test_errors_beside_a_learned_noise(with_errors):
    """The evidence is that of K + diag(noise + error^2) at what was learned; new rows have the learned noise,
    and with their own errors what they add.
    """
    model, noise = with_errors, with_errors.noise_variance_
    mean = float(model.model_.gp.mean.constant)
    K = model.kernel_(X) + np.diag(noise + ERROR**2)
    assert model.log_marginal_likelihood_ == pytest.approx(
        multivariate_normal(np.full(N, mean), K).logpdf(Y), rel=1e-9
    )
    _, latent = model.predict(XS, return_std=True, latent=True)
    np.testing.assert_allclose(model.predict(XS, return_std=True)[1] ** 2, latent**2 + noise, rtol=1e-9)
    known = model.predict(XS, return_std=True, noise_variance=noise + 0.3**2)[1]
    np.testing.assert_allclose(known**2, latent**2 + noise + 0.09, rtol=1e-9)
    assert noise < 0.05 and "beside the known error of each row" in model.summary()
    count, (inside,) = model.coverage([0.9])
    assert count == N and 0.8 < inside <= 1.0  # each row with its own error
    plain = mc.GPRegressor().fit(X, Y)
    truth = 2.0 * np.sin(XS[:, 0])
    assert np.sum((model.predict(XS) - truth) ** 2) < np.sum((plain.predict(XS) - truth) ** 2)


def test_a_bad_row_with_its_error_does_no_harm(with_errors):
    far, error = np.r_[Y, 1e4], np.r_[ERROR, 1e4]
    model = mc.GPRegressor().fit(np.r_[X, [[2.5]]], far, y_error=error)
    np.testing.assert_allclose(model.predict(XS), with_errors.predict(XS), atol=0.05)


# -- weights -------------------------------------------------------------------------------------------------


def test_weights_divide_the_noise_variance():
    """Weights of one change nothing; of c, the learned noise alone, which is that of weight 1."""
    plain, one, nine = (
        mc.GPRegressor().fit(X, Y, sample_weight=w) for w in (None, np.ones(N), np.full(N, 9.0))
    )
    np.testing.assert_allclose(one.predict(XS), plain.predict(XS), rtol=1e-4)
    np.testing.assert_allclose(nine.predict(XS), plain.predict(XS), rtol=1e-3)
    assert nine.noise_variance_ == pytest.approx(9.0 * plain.noise_variance_, rel=1e-3)


def test_a_weight_of_two_is_not_two_rows():
    """It is the mean of two measurements: the same f at a given noise, another evidence, and so another noise
    learned.
    """
    kernel = k.SE(mc.fixed(1.0), mc.fixed(2.0))
    held = dict(noise_variance=mc.fixed(0.2), mean=None, repeats="keep")
    weight = mc.GPRegressor(kernel, **held).fit(X, Y, sample_weight=np.full(N, 2.0))
    twice = mc.GPRegressor(kernel, **held).fit(np.r_[X, X], np.r_[Y, Y])
    np.testing.assert_allclose(weight.predict(XS), twice.predict(XS), rtol=1e-8)
    assert abs(weight.log_marginal_likelihood_ - twice.log_marginal_likelihood_) > 1.0


def test_a_copy_agrees_in_weight_and_error_too():
    both = [np.r_[values, values[:5]] for values in (X, Y, ERROR)]
    same = mc.GPRegressor().fit(both[0], both[1], y_error=both[2])
    other = mc.GPRegressor().fit(both[0], both[1], y_error=np.r_[ERROR, 2.0 * ERROR[:5]])
    assert len(same.posterior_.y) == N and same.loo().mean.shape == (N + 5,)
    assert len(other.posterior_.y) == N + 5


def test_routed_through_a_pipeline_and_cross_validation():
    fits = []

    class Seen(mc.GPRegressor):
        def fit(self, X, y, sample_weight=None, y_error=None):
            fits.append((sample_weight, y_error))
            return super().fit(X, y, sample_weight, y_error)

    kernel = k.Matern(mc.fixed(0.7), mc.fixed(2.0), nu=2.5)
    with sklearn.config_context(enable_metadata_routing=True):
        model = Seen(kernel).set_fit_request(sample_weight=True, y_error=True)
        model.set_score_request(sample_weight=True)
        pipe = make_pipeline(StandardScaler().set_fit_request(sample_weight=False), model)
        params = {"sample_weight": np.arange(1.0, N + 1), "y_error": ERROR}
        scores = cross_validate(pipe, X, Y, cv=3, params=params)["test_score"]
    assert np.all(scores > 0.4) and len(fits) == 3
    for weight, error in fits:
        np.testing.assert_array_equal(error, ERROR[weight.astype(int) - 1])
    assert sum(len(weight) for weight, _ in fits) == 2 * N


# -- groups --------------------------------------------------------------------------------------------------


def test_each_group_has_its_noise(by_instrument):
    model = by_instrument
    assert model.noise_groups_ == ("fine", "rough", "worn")
    assert np.all(np.abs(np.log(np.sqrt(model.noise_variance_) / SPREAD)) < 0.6)
    assert "by instrument: fine 0.0" in model.summary()
    at = pd.DataFrame({"x": 2.0, "instrument": ["worn", "fine"]})
    latent, std = (model.predict(at, return_std=True, latent=f)[1] for f in (True, False))
    np.testing.assert_allclose(std**2 - latent**2, model.noise_variance_[[2, 0]], rtol=1e-7)
    lower, upper = model.predict_interval(at)
    np.testing.assert_allclose(upper - lower, 2 * 1.959963984540054 * std, rtol=1e-7)
    draws = model.sample_y(at, 400)
    np.testing.assert_allclose(np.std(draws, 1), std, rtol=0.15)
    with pytest.warns(mc.columns.ColumnWarning, match="not seen"):
        new = at[:1].assign(instrument="new")
        latent, std = (model.predict(new, return_std=True, latent=f)[1] for f in (True, False))
    np.testing.assert_allclose(std**2 - latent**2, model.noise_variance_.mean(), rtol=1e-7)


def test_groups_by_a_number_that_a_kernel_reads(by_instrument):
    both = np.c_[X, np.arange(N) % 3]
    model = mc.GPRegressor(k.Matern(1.0, nu=2.5).on(0), noise_by=1).fit(both, Y_BY)
    assert model.noise_groups_ == ("0", "1", "2")
    np.testing.assert_allclose(np.log(model.noise_variance_ / by_instrument.noise_variance_), 0.0, atol=0.3)


def test_few_rows_of_a_group_are_said():
    frame = FRAME.assign(instrument=np.where(np.arange(N) == 4, "once", "often"))
    model = mc.GPRegressor(noise_by="instrument", max_evaluations=3)
    assert "instrument once (1)" in model.fit(frame, Y).summary()


@pytest.mark.slow
@pytest.mark.parametrize("inference", ["ccd", "mcmc"])
def test_averages_over_hyperparameters_know_the_groups(by_instrument, inference):
    model = mc.GPRegressor(noise_by="instrument", inference=inference).fit(FRAME, Y_BY)
    found, ours = (m.predict(FRAME[:6], return_std=True)[1] for m in (model, by_instrument))
    np.testing.assert_allclose(found, ours, rtol=0.35)
    assert np.all(np.diff(model.predict_quantile(FRAME[:6], [0.1, 0.5, 0.9])) > 0)


# -- solvers, files, bad input -------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    "solver", ["markov", "auto", solvers.VFE(m=25), solvers.Vecchia(neighbours=25)], ids=str
)
def test_other_solvers(with_errors, solver):
    model = mc.GPRegressor(solver=solver).fit(X, Y, y_error=ERROR)
    np.testing.assert_allclose(model.predict(XS), with_errors.predict(XS), atol=0.05)
    assert model.coverage([0.9])[1][0] > 0.8


@pytest.mark.slow
def test_batches_take_their_rows_along(with_errors):
    model = mc.GPRegressor(inference=mc.inference.SVGP(m=15, epochs=20, batch=20)).fit(X, Y, y_error=ERROR)
    np.testing.assert_allclose(model.predict(XS), with_errors.predict(XS), atol=0.3)


@pytest.mark.parametrize("name", ["with_errors", "by_instrument"])
def test_saved_and_loaded(name, request, tmp_path):
    model = request.getfixturevalue(name)
    at = XS if name == "with_errors" else FRAME[:5]
    model.save(tmp_path / "m.mercer")
    again = mc.load(tmp_path / "m.mercer")
    assert again.summary() == model.summary() and again.noise_groups_ == model.noise_groups_
    for ours, theirs in zip(
        again.predict(at, return_std=True), model.predict(at, return_std=True), strict=True
    ):
        np.testing.assert_allclose(ours, theirs, rtol=1e-12)
    np.testing.assert_allclose(again.loo().variance, model.loo().variance, rtol=1e-9)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (
            dict(sample_weight=np.r_[-1.0, np.ones(N - 1)]),
            "sample_weight must be above zero, got -1 in row 0",
        ),
        (dict(sample_weight=np.zeros(N)), "got 0 in 60 rows, the first 0: leave out rows of zero weight"),
        (dict(sample_weight=np.r_[np.nan, np.ones(N - 1)]), "sample_weight contains NaN in row 0"),
        (dict(sample_weight=np.ones(N - 1)), "sample_weight has 59 entries but there are 60 rows"),
        (dict(y_error=np.r_[np.ones(N - 1), -0.1]), "y_error must not be negative, got -0.1 in row 59"),
        (dict(y_error=np.full(N, np.inf)), "y_error contains infinity"),
        (dict(y_error=np.ones((N, 2))), "y_error must be one column of numbers"),
    ],
)
def test_bad_weights_and_errors(given, said):
    with pytest.raises(ValueError, match=said):
        mc.GPRegressor().fit(X, Y, **given)


@pytest.mark.parametrize("likelihood", ["student-t", "auto", likelihoods.Poisson()], ids=str)
def test_other_noise_is_refused(likelihood):
    y = np.round(np.abs(Y))
    with pytest.raises(ValueError, match="go with Gaussian noise alone: leave out likelihood="):
        mc.GPRegressor(likelihood=likelihood).fit(X, y, y_error=ERROR)


def test_what_does_not_go_together():
    with pytest.raises(ValueError, match="is all of its noise"):
        mc.GPRegressor(noise_variance=np.full(N, 0.1)).fit(X, Y, sample_weight=ERROR)
    with pytest.raises(ValueError, match="unknown column 'instrumnt': did you mean 'instrument'"):
        mc.GPRegressor(noise_by="instrumnt").fit(FRAME, Y)
    for rows in (N, 10):  # more than there may be groups; and hardly one row for each
        with pytest.raises(
            ValueError, match=f"'x' has {rows} different values in {rows} rows: name one that"
        ):
            mc.GPRegressor(noise_by="x").fit(FRAME[:rows], Y[:rows])
    with pytest.raises(TypeError, match="sample_weight"):
        mc.GPClassifier().fit(X, Y > 0, sample_weight=ERROR)


# -- the command line ----------------------------------------------------------------------------------------


def run(*arguments):
    return CliRunner().invoke(app, [str(a) for a in arguments])


def test_command_line(tmp_path, with_errors):
    data, out = tmp_path / "data.csv", tmp_path / "m.mercer"
    write_table(data, {"x": X[:, 0], "y": Y, "sd": ERROR, "many": np.ones(N)})
    said = run("fit", data, "--target", "y", "--error", "sd", "--weight", "many", "--out", out)
    assert said.exit_code == 0, said.output
    assert "beside the known error of each row" in said.stdout
    assert mc.load(out).columns_.names == ("x",)
    predicted = run("predict", out, data, "--out", tmp_path / "p.csv")
    assert predicted.exit_code == 0 and "ignored: y, sd, many" in predicted.stderr
    np.testing.assert_allclose(
        read_table(tmp_path / "p.csv")["mean"], with_errors.predict(X), rtol=1e-3, atol=1e-3
    )
    for options, what in (
        (("--error", "nothing"), "has no column 'nothing'"),
        (("--error", "sd", "--robust", "student-t"), "leave out --robust"),
        (("--error", "y"), "columns of their own"),
        (("--error", "sd", "--features", "x,sd"), "--features names 'sd'"),
    ):
        wrong = run("fit", data, "--target", "y", *options, "--out", tmp_path / "w.mercer")
        assert wrong.exit_code == 1 and what in wrong.stderr, wrong.output


@pytest.mark.slow
def test_command_line_by_group(tmp_path):
    data, out = tmp_path / "data.csv", tmp_path / "m.mercer"
    write_table(data, {"x": X[:, 0], "instrument": FRAME["instrument"].to_numpy(object), "y": Y_BY})
    said = run("fit", data, "--target", "y", "--noise-by", "instrument", "--out", out)
    assert said.exit_code == 0 and "by instrument: fine 0.0" in said.stdout, said.output
    info = run("info", out)
    assert info.exit_code == 0 and "by instrument" in info.stdout
