"""mercer.BayesianGaussianMixture and mercer.BayesianHMM: how many components, the interface, files,
pictures.
"""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.mixture import BayesianGaussianMixture
from sklearn.utils.estimator_checks import check_estimator

import mercer as mc
from mercer.em import HMM, GaussianEmission, Gaussians, NormalInverseWishart, PoissonEmission

CENTRES = np.array([[0.0, 0.0], [6.0, 1.0], [0.0, 7.0]])


def groups(n=40, seed=0):
    rng = np.random.default_rng(seed)
    return np.concatenate([c + rng.normal(size=(n, 2)) for c in CENTRES])


@pytest.fixture(scope="module")
def mixture():
    return mc.BayesianGaussianMixture(8, random_state=0).fit(groups())


@pytest.mark.parametrize("weights", ["dirichlet-process", "dirichlet"])
@pytest.mark.parametrize("kind", ["full", "diagonal", "spherical", "tied"])
def test_components_that_are_not_needed_lose_their_rows(weights, kind):
    X = groups()
    X[5, 0], X[60, 1] = np.nan, np.nan
    found = mc.BayesianGaussianMixture(
        7, kind, weights=weights, random_state=0, concentration=1e-3, max_evaluations=2000, restarts=4
    ).fit(X)
    used = np.flatnonzero(found.counts_ > 2)
    assert len(used) == 3 and found.n_components_ == 7
    means = found.means_[used]
    near = ((means[:, None] - CENTRES) ** 2).sum(-1).min(0)
    assert (near < 0.5).all() and found.weights_[used].sum() > 0.97
    assert found.converged_ and (np.diff(found.history_) > -1e-8).all()
    assert found.counts_.sum() == pytest.approx(len(X), rel=1e-10)


def test_it_finds_what_scikit_learn_finds():
    X = groups()
    ours = mc.BayesianGaussianMixture(3, weights="dirichlet", random_state=0, concentration=1.0).fit(X)
    peer = BayesianGaussianMixture(
        n_components=3, weight_concentration_prior_type="dirichlet_distribution", reg_covar=0.0,
        weight_concentration_prior=1.0, tol=1e-10, max_iter=1000, random_state=0,
        covariance_prior=np.cov(X.T) + 1e-6 * np.diag(X.var(0)),
    ).fit(X)  # fmt: skip
    a, b = ours.weights_.argsort(), peer.weights_.argsort()
    order = [int(((peer.means_ - m) ** 2).sum(1).argmin()) for m in ours.means_]
    np.testing.assert_allclose(ours.means_, peer.means_[order], atol=1e-3)
    np.testing.assert_allclose(ours.covariances_, peer.covariances_[order], atol=2e-3)
    assert len(a) == len(b)


def test_the_interface_of_the_mixture(mixture, tmp_path):
    X = groups()
    assert clone(mixture).get_params() == mixture.get_params()
    assert mixture.predict_proba(X).shape == (120, 8) and mixture.predict(X).shape == (120,)
    np.testing.assert_allclose(mixture.predict_proba(X).sum(1), 1.0)
    assert mixture.summary().startswith("3 of 8 components with 3") and "lower bound" in mixture.summary()
    # predictive densities integrate to one: a grid that holds nearly all of it
    side = np.linspace(-25, 32, 400)
    grid = np.stack(np.meshgrid(side, side), -1).reshape(-1, 2)
    assert np.exp(mixture.score_samples(grid)).sum() * (side[1] - side[0]) ** 2 == pytest.approx(
        1.0, abs=0.02
    )
    assert mixture.score(X) == pytest.approx(mixture.score_samples(X).mean())
    draws, which = mixture.sample(500, random_state=1)
    assert draws.shape == (500, 2) and set(which) <= set(range(8))
    mixture.save(tmp_path / "it")
    again = mc.load(tmp_path / "it")
    np.testing.assert_allclose(again.predict_proba(X), mixture.predict_proba(X), atol=1e-12)
    assert again.lower_bound_ == mixture.lower_bound_ and again.n_iter_ == mixture.n_iter_
    assert len(mc.viz.ellipses(again, X).patches) == 2 * (mixture.counts_ >= 0.5).sum() < 16
    with pytest.raises(NotFittedError):
        mc.BayesianGaussianMixture().predict(X)


@pytest.mark.slow
def test_it_keeps_the_rules_of_scikit_learn():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        results = check_estimator(mc.BayesianGaussianMixture(3, random_state=0), on_fail=None)
    assert [r["check_name"] for r in results if r["status"] == "failed"] == []


def test_wrong_settings_are_refused_in_words():
    X = groups(4)
    for settings, words in (
        ({"n_components": [1, 2]}, "n_components must be a whole number"),
        ({"weights": "equal"}, "weights must be"),
        ({"covariance_type": "round"}, "covariance_type"),
        ({"concentration": -1.0}, "concentration of a Dirichlet process"),
        ({"prior": NormalInverseWishart(1.0, [[1.0]], [0.0], 1.0)}, "data for these Gaussians"),
    ):
        with pytest.raises(ValueError, match=words):
            mc.BayesianGaussianMixture(**settings).fit(X)
    with pytest.raises(ValueError, match="emission must be one of"):
        mc.BayesianHMM(2, "student-t").fit(X)
    with pytest.warns(ConvergenceWarning, match="max_evaluations=1 reached"):
        mc.BayesianGaussianMixture(3, max_evaluations=1, tol=1e-15, restarts=0).fit(groups())
    few = mc.BayesianGaussianMixture(10).fit(X[:3])
    assert np.isfinite(few.score_samples(X)).all()


# -- hidden Markov models

TRUTH = HMM(
    [0.5, 0.5],
    [[0.9, 0.1], [0.2, 0.8]],
    GaussianEmission(Gaussians([[0.0, 0.0], [4.0, 1.0]], [np.eye(2)] * 2)),
)


@pytest.fixture(scope="module")
def sequences():
    rng = np.random.default_rng(1)
    return [TRUTH.sample(n, rng)[0] for n in (150, 80)]


def test_states_that_are_not_needed_are_not_visited(sequences, tmp_path):
    sequences[0][10], sequences[0][20, 0] = np.nan, np.nan
    found = mc.BayesianHMM(4, random_state=0, concentration=0.1, restarts=4, max_evaluations=2000).fit(
        sequences
    )
    used = np.flatnonzero(found.counts_ > 5)
    assert len(used) == 2 and found.counts_.sum() == pytest.approx(230)
    used = used[found.means_[used, 0].argsort()]
    np.testing.assert_allclose(found.means_[used], [[0, 0], [4, 1]], atol=0.4)
    np.testing.assert_allclose(found.transition_[np.ix_(used, used)], TRUTH.transition, atol=0.08)
    assert (np.diff(found.history_) > -1e-8).all() and found.lower_bound_ == found.history_[-1]
    found.save(tmp_path / "it")
    again = mc.load(tmp_path / "it")
    np.testing.assert_array_equal(again.predict(sequences[1]), found.predict(sequences[1]))
    assert again.lower_bound_ == found.lower_bound_
    assert mc.viz.state_path(again, sequences[1]).lines
    shown = [text.get_text() for text in mc.viz.transition_graph(again).texts]
    assert sum(text in map(str, range(4)) for text in shown) == 2
    X, states = again.sample(20, random_state=0)
    assert X.shape == (20, 2) and states.shape == (20,)


def test_symbols_counts_and_kinds():
    rng = np.random.default_rng(1)
    path = TRUTH.sample(200, rng)[1]
    calls = rng.poisson(np.where(path, 12.0, 2.0))
    found = mc.BayesianHMM(2, "poisson", random_state=0).fit(calls)
    np.testing.assert_allclose(np.sort(found.means_.ravel()), [2, 12], rtol=0.2)
    assert isinstance(found.model_.emission, PoissonEmission)
    symbols = np.where(rng.random(200) < np.where(path, 0.9, 0.1), 1, 0)
    found = mc.BayesianHMM(2, "categorical", random_state=0, restarts=4).fit(symbols)
    np.testing.assert_allclose(np.sort(found.emission_[:, 1]), [0.1, 0.9], atol=0.12)
    kinds = rng.multinomial(6, np.where(path[:, None], [0.7, 0.2, 0.1], [0.1, 0.2, 0.7]))
    found = mc.BayesianHMM(2, "multinomial", random_state=0, topology=[[1, 1], [1, 1]]).fit(
        [kinds[:120], kinds[120:]]
    )
    np.testing.assert_allclose(np.sort(found.emission_[:, 0]), [0.1, 0.7], atol=0.1)
