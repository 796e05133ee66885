"""The generative topographic mapping: EM against loops in NumPy, the objective that never falls, factor
analysis as a limit, and mercer.GTM on a curved surface.
"""

import warnings

import numpy as np
import pytest
from numpy.polynomial.hermite_e import hermegauss
from scipy.stats import multivariate_normal, norm
from sklearn.utils.estimator_checks import check_estimator

import mercer as mc
import mercer.kernels as k
from mercer import viz
from mercer.em import TopographicMap, em
from mercer.em.topographic import features_of


def table(n=25, empty=True, seed=0):
    """A bent line in three columns."""
    rng = np.random.default_rng(seed)
    t = rng.uniform(-1, 1, n)
    Y = np.column_stack([t, np.sin(2 * t), t**2]) + 0.05 * rng.normal(size=(n, 3))
    Y = (Y - Y.mean(0)) / Y.std(0)
    if empty:
        Y[0, 1] = Y[3, 2] = Y[4, 2] = np.nan
    return t, Y


def start(Y, K=7):
    nodes = np.linspace(-1, 1, K)[:, None]
    features = features_of(np.asarray(k.SE(0.5)(nodes)))
    weights = np.linalg.lstsq(features, 2.0 * nodes @ np.array([[0.6, 0.5, 0.1]]), rcond=None)[0]
    return nodes, TopographicMap(features, weights, 0.3, np.full(K, 1 / K))


def test_em_is_that_of_plain_loops():
    _, Y = table()
    _, model = start(Y)
    Phi, W, s2, K = model.features, model.weights, model.noise_variance, 7
    for _ in range(3):
        C = Phi @ W
        R, log_likelihood = np.zeros((K, len(Y))), 0.0
        for i, y in enumerate(Y):
            seen = ~np.isnan(y)
            p = [np.prod(norm(C[c, seen], np.sqrt(s2)).pdf(y[seen])) / K for c in range(K)]
            R[:, i], log_likelihood = np.array(p) / sum(p), log_likelihood + np.log(sum(p))
        summary = model.expect(Y)
        assert summary.log_likelihood == pytest.approx(log_likelihood, rel=1e-10)
        np.testing.assert_allclose(model.responsibilities(Y).T, R, atol=1e-10)
        model = model.maximise(summary)
        new = np.empty_like(W)
        for d in range(3):
            seen = ~np.isnan(Y[:, d])
            G, right = np.diag(R[:, seen].sum(1)), R[:, seen] @ Y[seen, d]
            new[:, d] = np.linalg.solve(Phi.T @ G @ Phi + s2 * np.eye(len(Phi.T)), Phi.T @ right)
        W, C = new, Phi @ new
        s2 = sum(
            R[c, i] * (Y[i, d] - C[c, d]) ** 2
            for c in range(K) for i in range(len(Y)) for d in range(3) if not np.isnan(Y[i, d])
        ) / np.sum(~np.isnan(Y))  # fmt: skip
        np.testing.assert_allclose(model.weights, W, atol=1e-9)
        assert model.noise_variance == pytest.approx(s2, rel=1e-9)


def test_the_objective_never_falls_and_parts_add_up():
    _, Y = table()
    _, model = start(Y)
    whole = em(model, [Y], tol=0.0, max_evaluations=30)
    assert (np.diff(whole.path()) >= -1e-9).all() and whole.path()[-1] > whole.path()[0] + 1.0
    parts = em(model, [Y[:9], Y[9:]], tol=0.0, max_evaluations=30)
    np.testing.assert_allclose(parts.model.weights, whole.model.weights, atol=1e-8)


def test_a_linear_map_of_a_gaussian_grid_is_factor_analysis():
    """Nodes and weights of Gauss-Hermite quadrature: the density is N(0, W'W + s2 I) (Tipping and Bishop)."""
    nodes, weights = hermegauss(40)
    W = np.array([[0.8, -0.5, 0.3]])
    model = TopographicMap(nodes[:, None], W, 0.4, weights / weights.sum())
    Y = np.random.default_rng(0).normal(size=(6, 3))
    exact = multivariate_normal(np.zeros(3), W.T @ W + 0.4 * np.eye(3)).logpdf(Y)
    np.testing.assert_allclose(model.log_prob(Y), exact, atol=1e-6)


def test_bad_maps_are_refused():
    with pytest.raises(ValueError, match="features"):
        TopographicMap(np.ones((3, 2)), np.ones((3, 2)), 1.0, np.full(3, 1 / 3))
    with pytest.raises(ValueError, match="positive noise"):
        TopographicMap(np.ones((3, 2)), np.ones((2, 2)), 0.0, np.full(3, 1 / 3))
    with pytest.raises(ValueError, match="sum must be one"):
        TopographicMap(np.ones((3, 2)), np.ones((2, 2)), 1.0, np.ones(3))


@pytest.fixture(scope="module")
def model():
    return mc.GTM(1, nodes=30).fit(10.0 * table(60)[1] + 3.0)


def test_the_hidden_line_is_found(model, tmp_path):
    t, Y = table(60)
    Y = 10.0 * Y + 3.0
    points, std = model.transform(Y, return_std=True)
    assert abs(np.corrcoef(points[:, 0], t)[0, 1]) > 0.97 and (std >= 0).all()
    np.testing.assert_allclose(points, model.embedding_, atol=1e-12)
    R = model.responsibilities(Y)
    np.testing.assert_allclose(R.sum(1), 1.0)
    np.testing.assert_allclose(R @ model.nodes_, points)
    np.testing.assert_allclose(model.inverse_transform(model.nodes_), model.centres_, atol=1e-5)
    seen = ~np.isnan(Y)
    assert np.sqrt(np.mean((model.inverse_transform(points) - Y)[seen] ** 2)) < 2.5  # of columns of std 10
    assert model.score_samples(Y).sum() == pytest.approx(model.log_likelihood_, rel=1e-9)
    assert set(model.selection_) == {0.2, 0.3, 0.5, 0.8} and (np.diff(model.history_) >= -1e-9).all()
    model.save(tmp_path / "m.mercer")
    again = mc.load(tmp_path / "m.mercer")
    np.testing.assert_array_equal(again.transform(Y), points)
    assert again.summary() == model.summary() and "30 nodes in 1 dimension," in model.summary()
    nothing = model.transform(np.full((1, 3), np.nan))
    np.testing.assert_allclose(nothing, 0.0, atol=1e-12)


def test_two_dimensions_and_the_picture():
    pytest.importorskip("matplotlib")
    rng = np.random.default_rng(0)
    z = rng.uniform(-1, 1, (60, 2))
    Y = np.column_stack([z, z[:, 0] ** 2 - z[:, 1]]) + 0.05 * rng.normal(size=(60, 3))
    model = mc.GTM(nodes=6, lengthscale=0.5, standardise=False, tol=1e-4).fit(Y)
    assert model.embedding_.shape == (60, 2) and np.abs(model.embedding_).max() < 1.0 + 1e-12
    ax = viz.latent_space(model, labels=z[:, 0] > 0, count=6)
    assert "magnification" in ax.figure.axes[-1].get_ylabel()
    import matplotlib.pyplot as plt

    plt.close("all")


def test_bad_settings_are_named():
    _, Y = table()
    for settings, message in (
        ({"n_components": 4}, "one, two or three dimensions"),
        ({"nodes": 1}, "nodes must be a whole number of at least 2"),
        ({"lengthscale": -1.0}, "lengthscale must be a positive number"),
        ({"kernel": k.SE([1.0, 2.0, 3.0])}, "3 entries"),
    ):
        with pytest.raises(ValueError, match=message):
            mc.GTM(**settings).fit(Y)
    with pytest.raises(ValueError, match="column 1 of X has no values"):
        mc.GTM().fit(np.column_stack([Y[:, 0], np.full(len(Y), np.nan)]))


@pytest.mark.slow
def test_it_keeps_the_rules_of_scikit_learn():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = check_estimator(mc.GTM(1, nodes=10), on_fail=None)
    assert [r["check_name"] for r in found if r["status"] == "failed"] == []
