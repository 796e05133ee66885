"""mercer.GPLVM: curved tables straightened, empty cells, new rows, relevance, files, scikit-learn's rules."""

import warnings

import numpy as np
import pytest
from scipy.stats import norm
from sklearn.utils.estimator_checks import check_estimator

import mercer as mc
import mercer.kernels as k
from mercer import viz

SETTINGS = {"m": 12, "max_evaluations": 150}


def curve(n=30, seed=0):
    """Four columns that all depend on one hidden number."""
    rng = np.random.default_rng(seed)
    t = rng.uniform(-2, 2, n)
    Y = np.column_stack([t, np.tanh(2 * t), t + 0.3 * t**2, 0.5 * np.sin(2 * t) - t])
    return t, 10.0 * (Y + 0.03 * rng.normal(size=Y.shape)) + 5.0


def fitted(method, Y, **settings):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", mc.learning.FitWarning)  # few evaluations
        return mc.GPLVM(2, method, **{**SETTINGS, **settings}).fit(Y)


@pytest.fixture(scope="module", params=["bayesian", pytest.param("map", marks=pytest.mark.slow)])
def model(request):
    return fitted(request.param, curve()[1])


def test_one_hidden_number_is_found_and_the_other_dimension_is_not_used(model):
    t, Y = curve()
    assert (
        abs(np.corrcoef(np.argsort(np.argsort(model.embedding_[:, 0])), np.argsort(np.argsort(t)))[0, 1])
        > 0.98
    )
    assert model.relevance_.sum() == pytest.approx(1.0) and model.relevance_[0] > 0.8
    assert (np.diff(model.relevance_) <= 0).all() and (np.diff(model.history_) >= 0).all()
    assert model.history_[-1] == pytest.approx(model.objective_, rel=1e-9)
    rows, std = model.inverse_transform(model.embedding_, return_std=True)
    assert (
        np.sqrt(np.mean((rows - Y) ** 2)) < 0.6 < 0.1 * Y.std() and (std > 0).all() and std.shape == Y.shape
    )


def test_new_rows_are_placed_where_they_belong_with_their_uncertainty(model):
    _, Y = curve(8, seed=1)
    points, std = model.transform(Y, return_std=True)
    assert points.shape == std.shape == (8, 2) and (std > 0).all()
    back = model.inverse_transform(points)
    assert np.sqrt(np.mean((back - Y) ** 2)) < 1.0
    holes = Y.copy()
    holes[:, 0] = np.nan
    less, wider = model.transform(holes, return_std=True)
    assert wider[:, 0].mean() > std[:, 0].mean()
    filled = model.inverse_transform(less)[:, 0]
    assert np.sqrt(np.mean((filled - Y[:, 0]) ** 2)) < 3.0  # of a column from -5 to 15
    nothing, wide = model.transform(np.full((1, 4), np.nan), return_std=True)
    np.testing.assert_array_equal(nothing, 0.0)
    np.testing.assert_array_equal(wide, 1.0)


def test_rows_of_the_training_data_keep_their_points(model):
    _, Y = curve()
    np.testing.assert_array_equal(model.transform(Y), model.embedding_)
    mean, std = model.inverse_transform(model.embedding_, return_std=True)
    assert model.score(Y) == pytest.approx(norm(mean, std).logpdf(Y).mean())
    if model.method == "bayesian":  # and are found again when they are moved by next to nothing
        again = model.transform(Y[:5] + 1e-9)[:, 0]
        np.testing.assert_allclose(again, model.embedding_[:5, 0], atol=0.01)


def test_it_is_saved_and_loaded(model, tmp_path):
    _, new = curve(4, seed=2)
    model.save(tmp_path / "m.mercer")
    again = mc.load(tmp_path / "m.mercer")
    np.testing.assert_array_equal(again.embedding_, model.embedding_)
    np.testing.assert_allclose(again.transform(new), model.transform(new), atol=1e-9)
    np.testing.assert_allclose(again.inverse_transform(new[:, :2]), model.inverse_transform(new[:, :2]))
    assert again.summary() == model.summary() and "latent dimensions are used" in model.summary()


def test_the_picture(model):
    pytest.importorskip("matplotlib")
    t, _ = curve()
    ax = viz.latent_space(model, labels=t > 0, count=8)
    assert ax.get_xlabel() == "latent dimension 0" and len(ax.get_legend().get_texts()) == 2
    with pytest.raises(ValueError, match="one for each of the 30 rows"):
        viz.latent_space(model, labels=[1, 2])
    with pytest.raises(ValueError, match="two of 0 to 1"):
        viz.latent_space(model, dimensions=(0, 2))
    with pytest.raises(TypeError, match="no latent space"):
        viz.latent_space(mc.GPRegressor())
    import matplotlib.pyplot as plt

    plt.close("all")


@pytest.mark.slow
@pytest.mark.parametrize("method", ["bayesian", "map"])
def test_empty_cells_are_filled_from_the_others(method):
    _, Y = curve()
    rng = np.random.default_rng(3)
    holes = Y.copy()
    holes[rng.random(Y.shape) < 0.1] = np.nan
    found = fitted(method, holes)
    filled, std = found.inverse_transform(found.embedding_, return_std=True)
    gone = np.isnan(holes)
    by_mean = np.broadcast_to(np.nanmean(holes, 0), Y.shape)
    error, plain = (np.sqrt(np.mean((a - Y)[gone] ** 2)) for a in (filled, by_mean))
    assert error < 0.3 * plain
    assert np.mean(np.abs(filled - Y)[gone] < 3 * std[gone]) > 0.8


@pytest.mark.slow
def test_a_linear_kernel_spans_the_plane_of_the_principal_components():
    rng = np.random.default_rng(0)
    Y = rng.normal(size=(40, 2)) @ rng.normal(size=(2, 5)) + 0.05 * rng.normal(size=(40, 5))
    found = fitted("map", Y, kernel=k.Linear(mc.fixed([1.0, 1.0])), standardise=False, max_evaluations=500)
    U = np.linalg.svd(Y - Y.mean(0), full_matrices=False)[0][:, :2]
    basis = np.linalg.qr(found.embedding_)[0]
    np.testing.assert_allclose(np.linalg.svd(U.T @ basis)[1], 1.0, atol=1e-3)


def test_no_start_is_left_and_units_do_not_matter(model):
    """The same model of columns in other units; nothing is learned with max_evaluations=0. Nothing is
    compiled for data of a shape that was seen.
    """
    _, Y = curve()
    compiled = mc.latent.bound_and_gradient._cache_size(), mc.latent.log_joint_and_gradient._cache_size()
    start = mc.GPLVM(2, model.method, m=12, max_evaluations=0).fit(Y)
    other = mc.GPLVM(2, model.method, m=12, max_evaluations=0).fit(Y * [1.0, 100.0, 0.01, 1.0])
    np.testing.assert_allclose(other.embedding_, start.embedding_, atol=1e-8)
    assert other.objective_ == pytest.approx(start.objective_, rel=1e-9)  # 100 times 0.01 is one
    assert start.objective_ < model.objective_
    again = mc.latent.bound_and_gradient._cache_size(), mc.latent.log_joint_and_gradient._cache_size()
    assert again == compiled


@pytest.mark.slow
def test_the_best_of_several_starts_is_kept():
    _, Y = curve()
    one, more = fitted("bayesian", Y), fitted("bayesian", Y, restarts=2)
    assert more.objective_ >= one.objective_ and more.n_iter_ > one.n_iter_


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"method": "bayes"}, "did you mean 'bayesian'"),
        ({"n_components": 0}, "n_components must be a whole number of at least 1"),
        ({"m": 2.5}, "m must be a whole number"),
        ({"kernel": k.Matern(nu=1.5)}, "closed forms for SE"),
        ({"kernel": k.SE([1.0, 2.0, 3.0])}, "3 entries"),
    ],
)
def test_bad_settings_are_named(settings, message):
    with pytest.raises(ValueError, match=message):
        mc.GPLVM(**settings).fit(curve()[1])


def test_bad_tables_are_named():
    _, Y = curve()
    Y[:, 2] = np.nan
    with pytest.raises(ValueError, match="column 2 of X has no values"):
        mc.GPLVM().fit(Y)
    with pytest.raises(ValueError, match="no column of X varies"):
        mc.GPLVM().fit(np.ones((5, 3)))
    with pytest.raises(ValueError, match="squares are not finite"):
        mc.GPLVM().fit(np.array([[1e200, 1.0], [0.0, 2.0]]))


@pytest.mark.slow
def test_oil_flow_has_at_most_a_quarter_of_the_errors_of_principal_components(data_dir):
    """300 rows, few evaluations; docs/results/oil_flow.md has all of them."""
    from experiments.oil_flow import errors

    data = mc.datasets.load("oil_flow", part="train")
    X, labels = data.X[:300], data.y[:300]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", mc.learning.FitWarning)
        found = mc.GPLVM(5, m=30, standardise=False, max_evaluations=300).fit(X)
    U, size, _ = np.linalg.svd(X - X.mean(0), full_matrices=False)
    assert errors(found.embedding_[:, :2], labels) <= errors((U * size)[:, :2], labels) / 4


@pytest.mark.slow
@pytest.mark.parametrize("method", ["bayesian", "map"])
def test_it_keeps_the_rules_of_scikit_learn(method):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = check_estimator(mc.GPLVM(1, method, m=5, max_evaluations=10), on_fail=None)
    assert [r["check_name"] for r in found if r["status"] == "failed"] == []
