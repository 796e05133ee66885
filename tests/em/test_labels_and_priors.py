"""What is known beforehand: labels of some rows and steps, priors of all parameters (the posterior mode); and
what
is asked of a chain: its stationary distribution, paths, draws that go on.
"""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
from hmmlearn.hmm import GaussianHMM

import mercer as mc
from mercer.em import (
    HMM,
    CategoricalEmission,
    GaussianEmission,
    GaussianMixture,
    Gaussians,
    InverseWishart,
    Labelled,
    NormalInverseWishart,
    em,
)
from mercer.hyperpriors import Gamma

TYPES = ("full", "diagonal", "spherical", "tied")
PI, A = [0.6, 0.4], [[0.8, 0.2], [0.3, 0.7]]


def two_groups(n=40, apart=3.0, seed=0):
    rng = np.random.default_rng(seed)
    labels = rng.integers(2, size=n)
    return np.where(labels[:, None] == 1, apart, 0.0) + rng.normal(size=(n, 2)), labels


def truth(d=2):
    return HMM(PI, A, GaussianEmission(Gaussians([[0.0] * d, [3.0] * d], [np.eye(d)] * 2)))


# -- labels


def test_all_labels_give_the_moments_of_the_groups():
    X, labels = two_groups()
    start = GaussianMixture([0.5, 0.5], Gaussians([[1.0, 1.0], [0.0, 0.0]], [np.eye(2)] * 2))
    found = em(start, [Labelled(X, labels)], max_evaluations=1, tol=0).model
    for k in (0, 1):
        np.testing.assert_allclose(found.means[k], X[labels == k].mean(0), rtol=1e-12)
        np.testing.assert_allclose(found.covariances[k], np.cov(X[labels == k].T, bias=True), rtol=1e-10)
    np.testing.assert_allclose(found.weights, np.bincount(labels) / len(X), rtol=1e-12)
    none = em(start, [Labelled(X, np.full(len(X), -1))], max_evaluations=5, tol=0)
    np.testing.assert_allclose(none.path(), em(start, [X], max_evaluations=5, tol=0).path(), rtol=1e-13)
    gone = X.copy()
    gone[::3] = np.nan
    em(start, [Labelled(gone, labels)], max_evaluations=10, tol=0, slack=1e-12)  # raises where it falls
    halves = start.expect(Labelled(X[:9], labels[:9])) + start.expect(Labelled(X[9:], labels[9:]))
    assert halves.log_likelihood == pytest.approx(start.expect(Labelled(X, labels)).log_likelihood)


def test_known_states_are_a_condition_on_the_path():
    model, rows = truth(), truth().sample(5, np.random.default_rng(1))[0]
    labels = np.array([-1, 1, -1, -1, 0])
    data = model.prepare([rows], [labels])
    paths = [p for p in itertools.product(range(2), repeat=5) if p[1] == 1 and p[4] == 0]
    joint = np.array([model.log_joint(rows, p) for p in paths])
    found = model.smooth(data)
    assert found.log_likelihood[0] == pytest.approx(np.logaddexp.reduce(joint), rel=1e-12)
    weight = np.exp(joint - np.logaddexp.reduce(joint))
    gamma = np.array([[weight[[p[t] == i for p in paths]].sum() for t in range(5)] for i in range(2)])
    np.testing.assert_allclose(found.gamma[:, data.chunks.back], gamma, atol=1e-12)


def test_a_few_labels_name_the_groups_and_help_where_they_overlap():
    X, labels = two_groups(300, apart=1.5, seed=1)
    known = np.where(np.arange(300) % 4 == 0, labels, -1)
    with_labels = mc.GaussianMixture(2, random_state=0).fit(X, labels=known)
    rest = known < 0
    assert np.mean(with_labels.predict(X)[rest] == labels[rest]) > 0.8  # by their own names
    flipped = mc.GaussianMixture(2, random_state=0).fit(X, labels=np.where(known >= 0, 1 - known, -1))
    np.testing.assert_allclose(flipped.means_[::-1], with_labels.means_, atol=1e-6)
    bayes = mc.BayesianGaussianMixture(3, random_state=0).fit(X, labels=known)
    assert np.mean(bayes.predict(X)[rest] == labels[rest]) > 0.7
    several = mc.GaussianMixture([2, 3], random_state=0, criterion="held-out", restarts=0).fit(
        X, labels=known
    )
    assert several.n_components_ in (2, 3)
    for wrong in (labels[:5], np.full(300, 7), np.full(300, 0.5)):
        with pytest.raises(ValueError, match="labels must be 300 whole numbers"):
            mc.GaussianMixture(2).fit(X, labels=wrong)


@pytest.mark.parametrize("kind", ["gaussian", "categorical", "poisson"])
def test_a_few_labels_name_the_states(kind):
    rng = np.random.default_rng(2)
    path = truth().sample(200, rng)[1]
    rows = {
        "gaussian": np.where(path, 2.0, 0.0) + rng.normal(size=200),
        "categorical": np.where(rng.random(200) < np.where(path, 0.85, 0.15), 1, 0),
        "poisson": rng.poisson(np.where(path, 6.0, 2.0)),
    }[kind]
    known = np.where(np.arange(200) % 5 == 0, path, -1)
    for names in (known, np.where(known >= 0, 1 - known, -1)):
        found = mc.HMM(2, kind, random_state=0).fit(
            [rows[:120], rows[120:]], labels=[names[:120], names[120:]]
        )
        right = np.mean(found.predict(rows) == (path if names is known else 1 - path))
        assert right > 0.75
    bayes = mc.BayesianHMM(2, kind, random_state=0).fit(rows, labels=known)
    assert np.mean(bayes.predict(rows) == path) > 0.75
    with pytest.raises(ValueError, match="labels are given for 1 sequences, and there are 2"):
        mc.HMM(2, kind).fit([rows, rows], labels=[known])
    with pytest.raises(ValueError, match="labels of sequence 0 must be 200"):
        mc.HMM(2, kind).fit(rows, labels=known[:3])


# -- priors


@pytest.mark.parametrize("kind", TYPES)
def test_the_mode_of_a_normal_inverse_wishart_posterior(kind):
    X, _ = two_groups(25)
    prior = NormalInverseWishart(4.0, [[2.0, 0.4], [0.4, 1.0]], [0.5, -0.5], 3.0)
    weights = np.random.default_rng(0).dirichlet(np.ones(2), len(X)).T
    first = {
        "full": [np.eye(2)] * 2,
        "diagonal": np.ones((2, 2)),
        "spherical": [1.0, 1.0],
        "tied": np.eye(2),
    }[kind]
    start = Gaussians([[0.0, 0.0], [1.0, 1.0]], first, kind, prior=prior)
    best = start.maximise(start.moments(X, lambda block: weights[:, block.rows]))

    def value(g):
        return float((weights * g.log_prob(X)).sum()) + g.log_prior()

    top = value(best)
    rng = np.random.default_rng(1)
    for _ in range(20):
        move = 0.03 * rng.normal(size=best.covariances.shape)
        if kind in ("full", "tied"):
            move = move + np.swapaxes(move, -1, -2)
        assert value(replace(best, means=best.means + 0.03 * rng.normal(size=(2, 2)))) < top
        assert value(replace(best, covariances=best.covariances + move)) < top
    n = weights.sum(1)
    centre = (weights @ X + 3 * prior.mean) / (n + 3)[:, None]
    np.testing.assert_allclose(best.means, centre, rtol=1e-12)


def test_em_with_priors_of_everything_climbs_the_posterior():
    data = [truth().sample(n, np.random.default_rng(n))[0] for n in (30, 20)]
    prior = NormalInverseWishart(4.0, np.eye(2), np.zeros(2), 2.0)
    start = HMM(
        PI, A, GaussianEmission(Gaussians([[0.5, 0.0], [2.0, 2.0]], [np.eye(2)] * 2, prior=prior)),
        pseudo_count=5 * np.eye(2), initial_pseudo_count=[1.0, 0.5],
    )  # fmt: skip
    summary = start.expect(data)
    counts = summary.transitions + 5 * np.eye(2)
    np.testing.assert_allclose(
        start.maximise(summary).transition, counts / counts.sum(1, keepdims=True), rtol=1e-12
    )
    path = em(start, [data], max_evaluations=30, tol=0, slack=1e-12).path()  # raises where it falls
    assert path[-1] > path[0]
    sticky = mc.HMM(
        2, prior=prior, random_state=0, pseudo_count={"transition": 500 * np.eye(2), "initial": 1.0}
    ).fit(data)
    assert (
        np.diag(sticky.transition_).min()
        > 0.95
        > np.diag(mc.HMM(2, random_state=0).fit(data).transition_).min()
    )
    counted = mc.HMM(2, "poisson", prior=Gamma(500.0, 100.0), random_state=0).fit(np.arange(20) % 4)
    np.testing.assert_allclose(counted.means_, 5.0, atol=0.8)
    heavy = mc.HMM(1, "student-t", dof_prior=Gamma(400.0, 100.0), prior=InverseWishart(3.0, np.eye(2))).fit(
        data
    )
    assert heavy.dof_[0] == pytest.approx(4.0, abs=0.5)
    for settings, words in (
        ({"pseudo_count": {"means": 1.0}}, r"not of \['means'\]"),
        ({"emission": "categorical", "prior": 3.0}, "the prior of symbols and kinds is pseudo_count"),
        ({"emission": "poisson", "prior": 3.0}, "is a Gamma"),
    ):
        with pytest.raises(ValueError, match=words):
            mc.HMM(2, **settings).fit([[0, 1, 1, 0, 1]])


def test_settings_with_priors_are_saved(tmp_path):
    data = [truth().sample(30, np.random.default_rng(0))[0]]
    prior = NormalInverseWishart(4.0, np.eye(2), np.zeros(2), 2.0)
    for made in (
        mc.HMM(
            2,
            prior=prior,
            random_state=0,
            keep=("initial",),
            init={"initial": [0.5, 0.5]},
            pseudo_count={"transition": 3 * np.eye(2)},
        ),
        mc.HMM(2, "student-t", dof_prior=Gamma(4.0, 1.0), random_state=0, max_evaluations=5, tol=0),
        mc.BayesianHMM(2, prior=prior, random_state=0),
        mc.BayesianHMM(2, "poisson", prior=Gamma(2.0, 1.0), random_state=0),
        mc.GaussianMixture(2, prior=prior, random_state=0),
        mc.BayesianGaussianMixture(2, "tied", prior=prior, random_state=0),
    ):
        mixture = isinstance(made, mc.GaussianMixture | mc.BayesianGaussianMixture)
        rows = data[0] if mixture else [np.abs(data[0]).round()] if made.emission == "poisson" else data
        made.fit(rows).save(tmp_path / "it")
        again = mc.load(tmp_path / "it")
        np.testing.assert_allclose(again.predict_proba(rows), made.predict_proba(rows), atol=1e-12)
        assert str(again.get_params()["prior"]) == str(made.prior)
        again.fit(rows)  # with the settings that were saved
        np.testing.assert_allclose(again.history_, made.history_, rtol=1e-10)


# -- what is asked of a chain


def test_the_stationary_distribution():
    np.testing.assert_allclose(truth().stationary(), [0.6, 0.4], rtol=1e-12)
    np.testing.assert_allclose(truth().stationary() @ A, truth().stationary(), rtol=1e-12)
    turn = HMM(PI, [[0.0, 1.0], [1.0, 0.0]], truth().emission)
    np.testing.assert_allclose(turn.stationary(), [0.5, 0.5], rtol=1e-12)
    absorbing = HMM(PI, [[0.9, 0.1], [0.0, 1.0]], truth().emission)
    np.testing.assert_allclose(absorbing.stationary(), [0.0, 1.0], atol=1e-12)
    with pytest.raises(ValueError, match="several stationary distributions"):
        HMM(PI, np.eye(2), truth().emission).stationary()
    peer = GaussianHMM(2)
    peer.startprob_, peer.transmat_ = np.array(PI), np.array(A)
    peer.means_, peer.covars_ = np.zeros((2, 2)), np.ones((2, 2))
    np.testing.assert_allclose(truth().stationary(), peer.get_stationary_distribution(), rtol=1e-12)


def test_paths_by_both_algorithms_are_those_of_hmmlearn():
    data = [truth().sample(n, np.random.default_rng(n))[0] for n in (80, 50)]
    hmm = mc.HMM(2, random_state=0).fit(data)
    peer = GaussianHMM(2, "full")
    peer.startprob_, peer.transmat_, peer.means_, peer.covars_ = (
        hmm.initial_, hmm.transition_, hmm.means_, hmm.covariances_,
    )  # fmt: skip
    for algorithm in ("viterbi", "map"):
        value, states = hmm.decode(data[0], algorithm)
        wanted, path = peer.decode(data[0], algorithm=algorithm)
        assert value == pytest.approx(wanted, rel=1e-10)
        np.testing.assert_array_equal(states, path)
        assert len(hmm.decode(data, algorithm)) == 2
    np.testing.assert_array_equal(hmm.decode(data[0])[1], hmm.predict(data[0]))
    np.testing.assert_allclose(hmm.stationary_distribution(), peer.get_stationary_distribution(), rtol=1e-9)
    with pytest.raises(ValueError, match="algorithm must be"):
        hmm.decode(data[0], "best")
    one = HMM([1.0, 0.0], [[0.5, 0.5], [0.5, 0.5]], CategoricalEmission(np.eye(2)))
    states, right = one.likeliest([0, 1, 1])
    assert states.tolist() == [0, 1, 1] and right == pytest.approx(3.0)


def test_draws_go_on_from_a_state():
    for first in (0, 1):
        states = truth().sample(6, np.random.default_rng(0), first)[1]
        assert states[0] == first
    hmm = mc.HMM(2, random_state=0).fit(truth().sample(60, np.random.default_rng(3))[0])
    assert hmm.sample(3, random_state=0, first=1)[1][0] == 1
