"""mercer.GaussianMixture: scikit-learn's rules, scikit-learn's numbers, choices, degenerate data, pictures,
command line.
"""

from __future__ import annotations

import contextlib
import csv
import pickle
import warnings

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning
from sklearn.mixture import GaussianMixture as Peer
from sklearn.utils.estimator_checks import check_estimator
from typer.testing import CliRunner

import mercer as mc
from mercer.em import InverseWishart


def three_groups(n=60, seed=0):
    rng = np.random.default_rng(seed)
    return np.concatenate(
        [rng.normal(size=(n, 2)) * s + c for s, c in ((1, [0, 0]), (0.5, [6, 0]), (1, [0, 7]))]
    )


def test_it_keeps_the_rules_of_scikit_learn():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        results = check_estimator(mc.GaussianMixture(random_state=0), on_fail=None)
    assert [r["check_name"] for r in results if r["status"] == "failed"] == []


@pytest.mark.parametrize("kind", ["full", "diag", "spherical", "tied"])
def test_the_same_start_leads_where_scikit_learn_goes(kind):
    X = three_groups()
    start = Peer(3, covariance_type=kind, reg_covar=0.0, max_iter=1, random_state=0, tol=0.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        start.fit(X)
        peer = Peer(
            3,
            covariance_type=kind,
            reg_covar=0.0,
            max_iter=300,
            tol=1e-14,
            weights_init=start.weights_,
            means_init=start.means_,
            precisions_init=start.precisions_,
        ).fit(X)
    init = {"weights": start.weights_, "means": start.means_, "covariances": start.covariances_}
    ours = mc.GaussianMixture(
        3, kind, init=init, restarts=0, tol=1e-14, max_evaluations=300, covariance_floor=0.0
    ).fit(X)
    np.testing.assert_allclose(ours.weights_, peer.weights_, rtol=1e-6)
    np.testing.assert_allclose(ours.means_, peer.means_, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(ours.covariances_, peer.covariances_, rtol=1e-6, atol=1e-6)
    assert ours.score(X) == pytest.approx(peer.score(X), abs=1e-9)
    np.testing.assert_allclose(ours.predict_proba(X), peer.predict_proba(X), atol=1e-6)
    assert ours.bic(X) == pytest.approx(peer.bic(X), rel=1e-9) and ours.aic(X) == pytest.approx(
        peer.aic(X), rel=1e-9
    )


@pytest.mark.parametrize("criterion", ["bic", "aic", "held-out"])
def test_the_number_of_components_is_found(criterion):
    X = three_groups(40)
    model = mc.GaussianMixture(range(1, 5), "spherical", criterion=criterion, restarts=2, random_state=0).fit(
        X
    )
    assert model.n_components_ == 3 or (criterion == "aic" and model.n_components_ == 4)
    assert set(model.selection_) == {1, 2, 3, 4} and model.selection_[1] > model.selection_[3]
    if criterion == "bic":
        assert model.selection_[3] == pytest.approx(model.bic(X), rel=1e-12)


def test_what_it_learns_and_says():
    X = three_groups()
    model = mc.GaussianMixture(3, random_state=0).fit(X)
    assert model.converged_ and (np.diff(model.history_) >= -1e-9).all()
    assert (
        model.history_[-1] == pytest.approx(model.score(X) * len(X)) == pytest.approx(model.log_likelihood_)
    )
    np.testing.assert_allclose(model.predict_proba(X).sum(1), 1.0, rtol=1e-13)
    np.testing.assert_array_equal(model.predict(X), model.predict_proba(X).argmax(1))
    found, ended, _, header, *_ = model.summary().splitlines()
    assert found.startswith("3 components with ") and header.split() == ["component", "share", "x0", "x1"]
    assert ended == f"log-likelihood {model.log_likelihood_:.3f}; EM converged after {model.n_iter_} steps"
    draws, which = model.sample(500, random_state=1)
    assert draws.shape == (500, 2) and np.mean(model.predict(draws) == which) > 0.97
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))
    labels = mc.GaussianMixture(3, random_state=0).fit_predict(X)
    assert all(len(set(labels[i : i + 60])) == 1 for i in (60,)) and len(set(labels)) == 3


def test_missing_values_are_no_obstacle():
    X = three_groups()
    whole = mc.GaussianMixture(3, random_state=0).fit(X)
    gaps = X.copy()
    gaps[np.random.default_rng(0).random(X.shape) < 0.15] = np.nan
    model = mc.GaussianMixture(3, random_state=0).fit(gaps)
    a, b = (m.means_[np.lexsort(m.means_.round(0).T)] for m in (whole, model))
    # of 60 rows a group with standard deviation 1, 15 % gone: a mean moves by sqrt(0.15 / 60) = 0.05
    np.testing.assert_allclose(a, b, atol=0.1)
    np.testing.assert_allclose(model.predict_proba([[np.nan, np.nan]])[0], model.weights_, rtol=1e-12)
    gaps[:, 1] = np.nan
    with pytest.raises(ValueError, match="column 1 of X has no values"):
        mc.GaussianMixture(2).fit(gaps)


def test_priors_and_pseudo_counts_hold_a_small_component():
    X = np.concatenate([three_groups(), [[50.0, 50.0]]])
    prior = InverseWishart(5.0, np.eye(2))
    model = mc.GaussianMixture(
        4, prior=prior, pseudo_count=1.0, covariance_floor=0.0, random_state=0, restarts=4
    ).fit(X)
    lonely = model.predict([[50.0, 50.0]])[0]
    np.testing.assert_allclose(model.covariances_[lonely], np.eye(2) / (5 + 2 + 1 + 1), rtol=1e-6)
    assert model.weights_[lonely] == pytest.approx((1 + 1) / (181 + 4), rel=1e-6)
    assert np.isfinite(mc.GaussianMixture(4, prior=10, random_state=0).fit(X).covariances_).all()


@pytest.mark.parametrize(
    "X",
    [
        np.zeros((6, 2)),
        np.column_stack([np.arange(6.0), np.ones(6)]),
        np.repeat([[0.0, 0.0], [1.0, 1.0]], 3, axis=0),
    ],
)
@pytest.mark.parametrize("kind", ["full", "diagonal", "spherical", "tied"])
def test_degenerate_data_give_finite_parameters(X, kind):
    repeated = X[0, 0] == X[1, 0] != X[-1, 0]
    with (
        pytest.warns(ConvergenceWarning, match="smallest variance") if repeated else contextlib.nullcontext()
    ):
        model = mc.GaussianMixture(2, kind, random_state=0).fit(X)
    assert (
        np.isfinite(model.covariances_).all()
        and np.isfinite(model.means_).all()
        and np.isfinite(model.score(X))
    )


def test_groups_far_apart_keep_their_own_variances():
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(0, 0.1, 100), rng.normal(1000, 0.1, 100)])[:, None]
    found = mc.GaussianMixture(2, "diagonal").fit(X)
    own = [X[:100].var(), X[100:].var()]
    np.testing.assert_allclose(found.covariances_[np.argsort(found.means_[:, 0]), 0], own, rtol=1e-6)


def test_a_component_on_one_row_says_that_it_is_at_the_floor_and_leaves_the_others_alone():
    X = np.append(np.random.default_rng(0).normal(size=200), 1e5)[:, None]
    with pytest.warns(ConvergenceWarning, match="component 1 shrank"):
        found = mc.GaussianMixture(2).fit(X)
    assert found.covariances_[0, 0, 0] == pytest.approx(X[:200].var(), rel=1e-6)


def test_rows_beyond_the_range_of_squares_belong_to_the_wider_component():
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(size=(50, 2)), 5 * rng.normal(size=(50, 2)) + 20])
    found = mc.GaussianMixture(2, "spherical").fit(X)
    wide = int(np.argmax(found.covariances_))
    np.testing.assert_array_equal(found.predict_proba([[1e155, 0.0], [0.0, -1e300]])[:, wide], 1.0)
    assert found.predict([[1e200, 1e10]]) == [wide]


def test_wrong_settings_are_refused_in_words():
    X = three_groups(5)
    for settings, words in (
        ({"n_components": 0}, "n_components must be a whole number"),
        ({"n_components": 99}, "n_components=99"),
        ({"covariance_type": "round"}, "covariance_type"),
        ({"init": "magic"}, "init must be"),
        ({"init": {"mean": 1}}, r"not \['mean'\]"),
        ({"criterion": "best", "n_components": [1, 2]}, "criterion"),
        ({"prior": 1.0}, "a prior must be worth more"),
        (
            {"n_components": 2, "init": {"means": np.zeros((3, 2)), "covariances": [np.eye(2)] * 3}},
            r"shape \(2, 2\)",
        ),
    ):
        with pytest.raises(ValueError, match=words):
            mc.GaussianMixture(**settings).fit(X)
    with pytest.warns(ConvergenceWarning, match="max_evaluations=1 reached"):
        mc.GaussianMixture(3, max_evaluations=1, tol=1e-15, restarts=0, random_state=0).fit(X)


def test_the_picture_has_an_ellipse_for_each_radius_and_component():
    from matplotlib.patches import Ellipse

    X = three_groups()
    model = mc.GaussianMixture(3, random_state=0).fit(X)
    ax = mc.viz.ellipses(model, X)
    assert sum(isinstance(p, Ellipse) for p in ax.patches) == 6
    one = max((p for p in ax.patches if isinstance(p, Ellipse)), key=lambda p: p.width)
    k = int(np.argmin(((model.means_ - one.center) ** 2).sum(1)))
    assert one.width == pytest.approx(4 * np.sqrt(np.linalg.eigvalsh(model.covariances_[k])[-1]), rel=1e-9)
    with pytest.raises(ValueError, match="two columns"):
        mc.viz.ellipses(mc.GaussianMixture(1).fit(X[:, :1]))
    with pytest.raises(TypeError, match="cannot draw"):
        mc.viz.ellipses(object())


def test_the_command_line_writes_clusters_and_a_picture(tmp_path):
    from mercer.app.cli import app

    data, out, picture = tmp_path / "d.csv", tmp_path / "o.csv", tmp_path / "p.png"
    rows = three_groups(20)
    with data.open("w", newline="") as file:
        csv.writer(file).writerows(
            [["a", "b", "name"], *([f"{x:.6f}", f"{y:.6f}", "q"] for x, y in rows), ["", "7.0", "q"]]
        )
    result = CliRunner().invoke(
        app, ["cluster", str(data), "-k", "2-4", "--out", str(out), "--plot", str(picture)]
    )
    assert result.exit_code == 0, result.output
    assert "Clusters" in result.output and "BIC" in result.output
    with out.open() as file:
        written = list(csv.DictReader(file))
    assert len(written) == 61 and {"cluster", "p_0"} <= set(written[0]) and picture.stat().st_size > 1000
    assert len({row["cluster"] for row in written[20:40]}) == 1
    wrong = CliRunner().invoke(app, ["cluster", str(data), "-k", "many"])
    assert wrong.exit_code == 1 and "1-8" in wrong.output
    wrong = CliRunner().invoke(
        app, ["cluster", str(data), "-k", "2", "--out", str(tmp_path / "no" / "o.csv")]
    )
    assert wrong.exit_code == 1 and "there is no folder" in wrong.output
    wrong = CliRunner().invoke(app, ["cluster", str(data), "-k", "2", "--features", "a,name"])
    assert wrong.exit_code == 1 and "'name' is not numeric" in wrong.output
