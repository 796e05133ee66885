"""The tests of hmmlearn and of scikit-learn's mixtures, by what they are about: every one of them is either
carried over, to a test of ours named in `carried_over.tsv`, or left there with the reason. docs/em.md gives
the counts.
"""

from __future__ import annotations

import ast
import itertools
import re
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from hmmlearn.hmm import GaussianHMM
from sklearn.exceptions import ConvergenceWarning

import mercer as mc
from mercer.em import (
    HMM,
    CategoricalEmission,
    Dirichlets,
    GammaEmission,
    GaussianEmission,
    GaussianMixture,
    GaussianMixtureEmission,
    Gaussians,
    NormalInverseWishart,
    NormalWisharts,
    Sticks,
    VariationalMixture,
    em,
)
from mercer.em.mixture import shares
from mercer.hyperpriors import Gamma

TYPES = ("full", "tied", "diagonal", "spherical")
ROOT = Path(__file__).parents[2]


def of_type(matrices, kind):
    """Covariances (k, d, d) as those of a type."""
    matrices = np.asarray(matrices, float)
    diagonals = np.diagonal(matrices, axis1=1, axis2=2)
    return {
        "full": matrices, "tied": matrices.mean(0), "diagonal": diagonals, "spherical": diagonals.mean(1),
    }[kind]  # fmt: skip


def scattered(n=120, scale=7.0, seed=0):
    """Rows of two groups, as both suites draw them."""
    rng = np.random.default_rng(seed)
    means = scale * rng.random((2, 2))
    return np.concatenate([m + rng.normal(size=(n // 2, 2)) @ np.diag([0.7, 1.2]) for m in means])


# -- hmmlearn


def test_rain_and_umbrellas():
    """The forward-backward example: both recursions, the path, smoothed states, and a draw that goes on."""
    model = HMM([0.5, 0.5], [[0.7, 0.3], [0.3, 0.7]], CategoricalEmission([[0.9, 0.1], [0.2, 0.8]]))
    O = [0, 0, 1, 0, 0]
    assert round(model.log_likelihood([O])[0], 4) == -3.3725
    forward = np.array([[0.45, 0.1], [0.3105, 0.041], [0.0230, 0.0975], [0.0408, 0.0150], [0.0298, 0.0046]])
    np.testing.assert_allclose(model.filter(O), forward / forward.sum(1, keepdims=True), atol=2e-3)
    backward = np.array([[0.0661, 0.0455], [0.0906, 0.1503], [0.4593, 0.2437], [0.69, 0.41], [1.0, 1.0]])
    np.testing.assert_allclose(model.posterior(O), shares(forward * backward), atol=2e-3)
    smoothed = [[0.8673, 0.1327], [0.8204, 0.1796], [0.3075, 0.6925], [0.8204, 0.1796], [0.8673, 0.1327]]
    np.testing.assert_allclose(model.posterior(O), smoothed, atol=1e-4)
    path, value = model.viterbi(O)
    assert path.tolist() == [0, 0, 1, 0, 0] and round(value, 4) == -4.4590
    rng = np.random.default_rng(0)
    before = model.sample(10, rng)[1]
    after = model.sample(10, rng, first=before[-1])[1]
    assert len(before) == len(after) == 10 and after[0] == before[-1]


def test_walk_shop_clean():
    """The Viterbi example: the path with its probability, states step by step, and their probabilities."""
    model = HMM([0.6, 0.4], [[0.7, 0.3], [0.4, 0.6]], CategoricalEmission([[0.1, 0.4, 0.5], [0.6, 0.3, 0.1]]))
    path, value = model.viterbi([0, 1, 2])
    assert path.tolist() == [1, 0, 0] and round(float(np.exp(value)), 5) == 0.01344
    assert model.likeliest([0, 1, 2])[0].tolist() == [1, 0, 0]
    wanted = [[0.23170303, 0.76829697], [0.62406281, 0.37593719], [0.86397706, 0.13602294]]
    np.testing.assert_allclose(model.posterior([0, 1, 2]), wanted, atol=1e-6)


def test_uninformative_transitions_make_a_mixture():
    rng, N = np.random.default_rng(0), 8
    model = HMM(np.full(N, 1 / N), np.full((N, N), 1 / N), CategoricalEmission(rng.dirichlet(np.ones(10), N)))
    O = rng.permutation(10)
    joint = model.emission.log_prob(O)
    np.testing.assert_allclose(model.posterior(O), shares(np.exp(joint.T)), rtol=1e-10)
    np.testing.assert_array_equal(model.viterbi(O)[0], joint.argmax(0))


def test_probabilities_that_are_none_are_refused():
    rng, N = np.random.default_rng(0), 5
    initial, transition = rng.dirichlet(np.ones(N)), rng.dirichlet(np.ones(N), N)
    emission = CategoricalEmission(rng.dirichlet(np.ones(3), N))
    model = HMM(initial, transition, emission)
    assert model.states == N
    np.testing.assert_allclose(model.stationary() @ transition, model.stationary(), rtol=1e-10)
    for wrong in (2 * initial, [], np.zeros((N - 2, 2))):
        with pytest.raises(ValueError, match="initial must"):
            HMM(wrong, transition, emission)
    for wrong in (2 * transition, [], np.zeros((N - 2, N))):
        with pytest.raises(ValueError, match="transition must"):
            HMM(initial, wrong, emission)
    for wrong in ([[0.5, 0.4]], [0.5, 0.5], [[-0.5, 1.5]]):
        with pytest.raises(ValueError, match="emission probabilities"):
            CategoricalEmission(wrong)
    with pytest.raises(ValueError, match="covariance_type must be"):
        mc.HMM(2, covariance_type="badcovariance").fit(rng.normal(size=(20, 2)))


@pytest.mark.parametrize("kind", TYPES)
def test_vectors_far_apart_are_decoded_drawn_and_learned(kind):
    """Scores, paths, draws, a fit from wrong values, one from very far groups, and several sequences."""
    rng, N = np.random.default_rng(10), 3
    means = 20 * np.array([[0.0, 0.0], [1.0, -1.0], [-1.0, 1.0]])
    start = of_type([np.diag([1.0, 1.5])] * N, kind)
    truth = HMM(
        np.full(N, 1 / N),
        shares(rng.random((N, N)) + np.eye(N)),
        GaussianEmission(Gaussians(means, start, kind)),
    )
    states = np.repeat(np.arange(N), 5)
    X = truth.emission.sample(states, rng)
    np.testing.assert_allclose(truth.posterior(X).sum(1), 1.0)
    np.testing.assert_array_equal(truth.viterbi(X)[0], states)
    data = [truth.sample(n, rng)[0] for n in (60, 60, 1)]
    assert all(part.shape[1] == 2 for part in data)
    away = Gaussians(means + rng.normal(size=(N, 2)), 4 * start, kind)
    found = em(
        HMM(np.full(N, 1 / N), np.full((N, N), 1 / N), GaussianEmission(away)),
        [data],
        max_evaluations=8,
        tol=0,
    )
    assert (np.diff(found.path()) > -1e-9).all()
    np.testing.assert_allclose(found.model.emission.gaussians.means, means, atol=1.0)
    far = [1000 * part for part in data]
    assert np.isfinite(mc.HMM(N, covariance_type=kind, random_state=0).fit(far).log_likelihood_)


@pytest.mark.parametrize("kind", TYPES)
def test_steps_with_priors_are_those_of_hmmlearn(kind):
    """Dirichlet priors of the chain, normal ones of the means, inverse Wishart ones of the covariances. In
    several columns hmmlearn's diagonal and spherical priors are Gamma, so that those are compared in one.
    """
    d = 2 if kind in ("full", "tied") else 1
    rng, N = np.random.default_rng(1), 2
    truth = HMM(
        [0.5, 0.5],
        [[0.8, 0.2], [0.3, 0.7]],
        GaussianEmission(Gaussians([[0.0] * d, [4.0] * d], [np.eye(d)] * 2)),
    )
    data = [truth.sample(n, rng)[0] for n in (60, 40)]
    initial, transition = np.array([3.0, 2.0]), np.array([[9.0, 3.0], [4.0, 8.0]])
    centre, weight, dof = np.full(d, 1.0), 2.0, d + 2.0
    scale = np.diag(np.linspace(1.0, 2.0, d))
    prior = NormalInverseWishart(dof, scale, centre, weight)
    means, first = np.array([[0.5] * d, [3.0] * d]), of_type([np.eye(d)] * N, kind)
    start = HMM(
        [0.5, 0.5], np.full((2, 2), 0.5), GaussianEmission(Gaussians(means, first, kind, prior=prior)),
        pseudo_count=transition - 1, initial_pseudo_count=initial - 1,
    )  # fmt: skip
    ours = em(start, [data], max_evaluations=6, tol=0, slack=1e-12).model
    name = "diag" if kind == "diagonal" else kind
    # the mode of a normal-inverse-Wishart is (scale + S)/(dof + d + 2 + n); N means may share a covariance
    strength = dof + d + 2 + (N - 1 if kind == "tied" else 0)
    settings = {"covars_prior": scale if kind in ("full", "tied") else scale[0, 0]}
    settings["covars_weight"] = strength + d
    peer = GaussianHMM(
        N, name, n_iter=6, tol=-np.inf, init_params="", startprob_prior=initial, transmat_prior=transition,
        means_prior=np.tile(centre, (N, 1)), means_weight=weight, min_covar=0.0, **settings,
    )  # fmt: skip
    peer.startprob_, peer.transmat_, peer.means_ = start.initial, start.transition, means
    peer.covars_ = first
    peer.fit(np.concatenate(data), [60, 40])
    np.testing.assert_allclose(ours.initial, peer.startprob_, atol=1e-8)
    np.testing.assert_allclose(ours.transition, peer.transmat_, atol=1e-8)
    np.testing.assert_allclose(ours.emission.gaussians.means, peer.means_, atol=1e-8)
    np.testing.assert_allclose(ours.emission.gaussians.matrices(), peer.covars_, atol=1e-8)


def test_some_parameters_can_be_kept():
    rng = np.random.default_rng(4)
    path = np.repeat(rng.integers(2, size=20), 10)
    data = {
        "gaussian": 4.0 * path + rng.normal(size=200),
        "categorical": np.where(rng.random(200) < 0.8, path, 1 - path),
        "poisson": rng.poisson(2.0 + 8.0 * path),
        "multinomial": rng.multinomial(5, np.where(path[:, None], [0.2, 0.8], [0.8, 0.2])),
    }
    chain = {"initial": np.array([0.5, 0.5]), "transition": np.full((2, 2), 0.5)}
    for emission, rows in data.items():
        first = mc.HMM(2, emission, init=chain, keep=("initial", "transition"), random_state=0).fit(rows)
        np.testing.assert_array_equal(first.transition_, chain["transition"])
        name = "means" if emission in ("gaussian", "poisson") else "emission"
        given = getattr(first, f"{name}_")
        extra = {"covariances": first.covariances_} if emission == "gaussian" else {}
        then = mc.HMM(2, emission, init={name: given, **extra}, keep="emission", random_state=0).fit(rows)
        np.testing.assert_array_equal(getattr(then, f"{name}_"), given)
        assert np.diag(then.transition_).min() > 0.7 and then.log_likelihood_ > first.log_likelihood_
    with pytest.raises(ValueError, match="keep is some of"):
        mc.HMM(2, keep=("means",)).fit(data["gaussian"])


def test_an_outlier_far_beyond_all_does_not_underflow():
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(m, 1, 100) for m in (0, 5, 0, 5)])[:, None]
    X[40] = 10000
    start = HMM(
        [0.0, 1.0],
        [[0.4, 0.6], [0.6, 0.4]],
        GaussianEmission(Gaussians([[0.0], [5.0]], [1.0, 1.0], "spherical")),
    )
    found = em(start, [[X]], max_evaluations=100)
    assert np.isfinite(found.log_likelihood) and (np.diff(found.path()) > -1e-9).all()


def test_left_to_right_with_short_sequences():
    rng, N = np.random.default_rng(0), 3
    data = [rng.random((n, 2)) for n in (10, 8, 1)]
    hmm = mc.HMM(
        N, covariance_type="diagonal", topology="left-right", random_state=0, covariance_floor=1e-3
    ).fit(data)
    allowed = np.eye(N) + np.eye(N, k=1)
    assert (hmm.transition_[allowed == 0] == 0).all() and (hmm.initial_[1:] == 0).all()
    np.testing.assert_allclose(hmm.predict_proba(data[0]).sum(1), 1.0)
    assert np.isfinite(hmm.decode(data[0])[0])


def test_rows_without_variance_and_few_rows_give_finite_parameters():
    X = np.column_stack(
        [np.full(9, 715.0), 585.0 - 65 * np.arange(9), np.sin(np.arange(9)), -7.0 * np.arange(9) ** 0.5]
    )
    for emission in ("gaussian", "mixture"):
        with pytest.warns(ConvergenceWarning, match="smallest variance"):
            hmm = mc.HMM(2, emission, random_state=0).fit(X)
        assert np.isfinite(hmm.covariances_).all() and np.isfinite(hmm.transition_).all()
    one = mc.HMM(1, random_state=0, prior=20).fit([np.zeros((1, 2)), np.ones((1, 2)), np.full((1, 2), 3.0)])
    assert np.isfinite(one.log_likelihood_)


@pytest.mark.parametrize("kind", TYPES)
def test_mixtures_in_states_do_not_depend_on_the_order_of_sequences(kind):
    rng = np.random.default_rng(3)
    means = np.array([[0.0], [3.0], [10.0], [14.0]])
    first = of_type(np.ones((4, 1, 1)), kind)
    truth = HMM(
        [0.5, 0.5],
        [[0.8, 0.2], [0.3, 0.7]],
        GaussianMixtureEmission([[0.5, 0.5]] * 2, Gaussians(means, first, kind)),
    )
    data = [truth.sample(n, rng)[0] for n in (12, 20, 7)]
    states = np.repeat([0, 1], 5)
    np.testing.assert_array_equal(truth.viterbi(truth.emission.sample(states, rng))[0], states)
    start = HMM(
        [0.5, 0.5],
        np.full((2, 2), 0.5),
        GaussianMixtureEmission([[0.5, 0.5]] * 2, Gaussians(means + 0.5, first, kind)),
    )
    paths = [
        em(start, [list(order)], max_evaluations=8, tol=0).path() for order in itertools.permutations(data)
    ]
    np.testing.assert_allclose(paths, [paths[0]] * len(paths), rtol=1e-10)
    assert (np.diff(paths[0]) > -1e-9).all()


def test_more_components_than_rows_of_a_state():
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.uniform(0, 1, (100, 2)), rng.uniform(5, 6, (5, 2))])
    hmm = mc.HMM(2, "mixture", n_components=10, max_evaluations=5, tol=0.0, restarts=0, covariance_floor=1e-3)
    with pytest.warns(ConvergenceWarning):
        hmm.fit(X)
    assert (hmm.means_ > 0).all() and (hmm.means_ < 6).all()


def test_counts_are_learned_and_chosen_by_a_criterion():
    """Poisson: values that may not be, the truth from a fit, and the number of states by both criteria."""
    rng = np.random.default_rng(2013)
    path = np.repeat(rng.permutation(np.repeat([0, 1, 2], 8)), 12)
    X = rng.poisson(np.array([1.0, 20.0, 60.0])[path])
    for criterion in ("aic", "bic"):
        hmm = mc.HMM([2, 3], "poisson", criterion=criterion, random_state=0, restarts=1).fit(X)
        assert hmm.n_states_ == 3 and hmm.selection_[2] > hmm.selection_[3]
    np.testing.assert_allclose(np.sort(hmm.means_.ravel()), [1, 20, 60], rtol=0.15)
    assert hmm.aic(X) < hmm.bic(X)


def test_divergences_vanish_at_the_prior_only():
    prior = np.array([1.0, 2.0, 3.0, 4.0])
    assert Dirichlets(prior, np.zeros(4)).divergence() == pytest.approx(0.0, abs=1e-12)
    assert Dirichlets(prior, prior[::-1] - prior).divergence() > 0
    assert Sticks(0.5, np.zeros(3)).divergence() == pytest.approx(0.0, abs=1e-12)
    assert Sticks(0.5, np.array([3.0, 1.0, 0.0])).divergence() > 0
    counts = GammaEmission(Gamma(1.0, 0.01), np.zeros((2, 1, 1)))
    assert counts.log_prior() == pytest.approx(0.0, abs=1e-12)
    assert GammaEmission(Gamma(1.0, 0.01), np.ones((2, 1, 1))).log_prior() < 0
    for kind in TYPES:
        at = NormalWisharts.of_prior(
            NormalInverseWishart(3.0, np.diag([1.0, 1.0]), np.zeros(2), 1.0), 2, kind
        )
        assert at.divergence() == pytest.approx(0.0, abs=1e-12)
        moved = NormalWisharts(at.prior, at.means + 1, at.weight, at.dof, at.scale, kind)
        wider = NormalWisharts(at.prior, at.means, at.weight, at.dof + 900, 300 * at.scale, kind)
        assert moved.divergence() > 0 and wider.divergence() > 0
    # KL(N(0, 1) || N(1, 1)) = 1/2, where the precision is known to be one
    known = NormalWisharts(NormalInverseWishart(1e9, [[1e9]], [0.0], 1.0), [[1.0]], [1.0], [1e9], [[[1e9]]])
    assert known.divergence() == pytest.approx(0.5, rel=1e-6)


def beal():
    """Three models of symbols: forwards, backwards, and independent of what was before."""
    forwards = [[0.0, 1.0, 0.0], [0.0, 0.0, 1.0], [1.0, 0.0, 0.0]]
    emission = CategoricalEmission(np.eye(3))
    start = np.full(3, 1 / 3)
    return [HMM(start, A, emission) for A in (forwards, np.transpose(forwards), np.full((3, 3), 1 / 3))]


def test_symbols_of_three_machines_leave_states_unused():
    """Beal's example: the bound climbs, also with sequences of one step; a state that is not used is at its
    prior.
    """
    rng = np.random.default_rng(1984)
    data = [model.sample(39, rng)[0] for _ in range(4) for model in beal()] + [np.array([0])]
    hmm = mc.BayesianHMM(12, "categorical", random_state=0, restarts=0, max_evaluations=1000).fit(data)
    assert (np.diff(hmm.history_) > -1e-8).all()
    one = [beal()[0].sample(60, rng)[0] for _ in range(5)]
    hmm = mc.BayesianHMM(6, "categorical", random_state=0, restarts=2, max_evaluations=1000).fit(one)
    idle = hmm.counts_ < 1e-3
    assert idle.any()
    np.testing.assert_allclose(hmm.posterior_.emission.table.concentration[idle], 1 / 3, rtol=1e-2)
    np.testing.assert_allclose(hmm.posterior_.transition.concentration[idle], 1 / 6, rtol=1e-2)
    model = HMM(
        hmm.initial_, hmm.transition_, CategoricalEmission(hmm.emission_)
    )  # what EM's model would say
    np.testing.assert_array_equal(hmm.predict(one[0]), model.viterbi(one[0])[0])
    np.testing.assert_allclose(hmm.predict_proba(one[0]), model.posterior(one[0]), atol=1e-12)


@pytest.mark.parametrize("kind", TYPES)
def test_four_states_of_five_are_found_by_variational_bayes(kind):
    """McGrory and Titterington's example in one dimension; the bound climbs for every type of covariance."""
    A = [[0.2, 0.2, 0.3, 0.3], [0.3, 0.2, 0.2, 0.3], [0.2, 0.3, 0.3, 0.2], [0.3, 0.3, 0.2, 0.2]]
    truth = HMM(
        np.full(4, 0.25),
        A,
        GaussianEmission(Gaussians([[-1.5], [0.0], [1.5], [3.0]], np.full((4, 1, 1), 0.05))),
    )
    X = truth.sample(300, np.random.default_rng(0))[0]
    hmm = mc.BayesianHMM(
        5, covariance_type=kind, random_state=0, max_evaluations=2000, restarts=0, tol=1e-8
    ).fit(X)
    assert (np.diff(hmm.history_) > -1e-8).all()
    used = hmm.counts_ > 3
    assert (np.abs(hmm.means_[used] - [[-1.5, 0.0, 1.5, 3.0]]).min(0) < 0.15).all()


# -- scikit-learn


@pytest.mark.parametrize("kind", TYPES)
def test_moving_the_data_moves_the_means_alone(kind):
    X = scattered()
    for make in (
        lambda: mc.BayesianGaussianMixture(4, kind, random_state=0, max_evaluations=2000),
        lambda: mc.GaussianMixture(2, kind, random_state=0),
    ):
        a, b = make().fit(X), make().fit(X + 100)
        np.testing.assert_allclose(b.means_ - 100, a.means_, atol=1e-5)
        np.testing.assert_allclose(b.weights_, a.weights_, atol=1e-6)
        np.testing.assert_allclose(b.covariances_, a.covariances_, atol=1e-5)
        np.testing.assert_array_equal(make().fit_predict(X), a.predict(X))
        np.testing.assert_array_equal(a.predict_proba(X).argmax(1), a.predict(X))
        assert (X.min(0) <= a.means_).all() and (a.means_ <= X.max(0)).all() and a.converged_


def test_types_of_covariance_are_parts_of_the_full_one():
    """After one step: scales on the diagonal, their mean, and the sum of all that is not the prior."""
    X = scattered()
    R, prior = np.eye(2)[np.arange(len(X)) % 2].T, NormalInverseWishart(2.0, np.cov(X.T), X.mean(0), 1.0)
    found = {
        kind: VariationalMixture.assigned(X, R, Dirichlets([1.0, 1.0], [0.0, 0.0]), prior, kind).gaussians
        for kind in TYPES
    }
    full = found["full"].scale
    np.testing.assert_allclose(found["diagonal"].scale, np.diagonal(full, axis1=1, axis2=2), rtol=1e-12)
    np.testing.assert_allclose(found["spherical"].scale, found["diagonal"].scale.mean(1), rtol=1e-12)
    np.testing.assert_allclose(found["tied"].scale, (full - prior.scale).sum(0) + prior.scale, rtol=1e-12)
    model = VariationalMixture.assigned(X, R, Sticks(0.5, np.zeros(2)), prior)
    a, b = model.weights.concentration
    np.testing.assert_allclose(
        model.weights.mean(), shares(np.array([a[0] / (a + b)[0], (b / (a + b))[0] * (a / (a + b))[1]]))
    )


@pytest.mark.parametrize("kind", TYPES)
def test_more_starts_are_never_worse_and_one_step_says_that_it_was_one(kind):
    X = np.random.default_rng(0).normal(size=(50, 3))
    one, five = (
        mc.GaussianMixture(2, kind, random_state=0, restarts=r, max_evaluations=1000).fit(X) for r in (0, 4)
    )
    assert five.score(X) >= one.score(X) - 1e-12
    with pytest.warns(ConvergenceWarning, match="max_evaluations=1 reached"):
        short = mc.GaussianMixture(2, kind, max_evaluations=1, tol=1e-12, restarts=0).fit(X)
    assert short.n_iter_ == 1
    with pytest.warns(ConvergenceWarning):
        assert (
            mc.BayesianGaussianMixture(2, kind, max_evaluations=1, tol=1e-12, restarts=0).fit(X).n_iter_ == 1
        )
    free = 3 * 2 + {"full": 12, "tied": 6, "diagonal": 6, "spherical": 2}[kind] + 1
    assert one.model_.parameters() == free
    total = one.score(X) * len(X)
    assert one.aic(X) == pytest.approx(-2 * total + 2 * free)
    assert one.bic(X) == pytest.approx(-2 * total + free * np.log(len(X)))


def test_without_a_step_the_start_is_kept():
    X = scattered()
    means, covariances = np.array([[20.0, 30.0], [30.0, 25.0]]), np.array([np.eye(2), 2 * np.eye(2)])
    found = mc.GaussianMixture(
        2, max_evaluations=0, restarts=0, init={"means": means, "covariances": covariances}
    ).fit(X)
    np.testing.assert_array_equal(found.means_, means)
    np.testing.assert_allclose(found.covariances_, covariances)
    start = mc.GaussianMixture(2, max_evaluations=0, restarts=0, random_state=3).fit(X)
    assert not np.allclose(start.means_[0], start.means_[1])  # no two means at one place
    # going on from where a fit ended is one long fit
    first = mc.GaussianMixture(2, restarts=0, tol=0, max_evaluations=3, random_state=3).fit(X)
    ended = {"weights": first.weights_, "means": first.means_, "covariances": first.covariances_}
    on = mc.GaussianMixture(2, restarts=0, tol=0, max_evaluations=4, init=ended).fit(X)
    straight = mc.GaussianMixture(2, restarts=0, tol=0, max_evaluations=7, random_state=3).fit(X)
    np.testing.assert_allclose(on.means_, straight.means_, rtol=1e-10)
    whole = mc.GaussianMixture(2, restarts=0, random_state=3).fit(X)
    ended = {"weights": whole.weights_, "means": whole.means_, "covariances": whole.covariances_}
    again = mc.GaussianMixture(2, restarts=0, init=ended).fit(X)
    assert again.converged_ and again.n_iter_ <= 2


def test_equal_rows_without_a_floor_fail_clearly():
    X = np.vstack([np.ones((5, 5)), np.zeros((5, 5))])
    for kind in TYPES:
        with pytest.raises(Exception, match="floor or a prior"):
            mc.GaussianMixture(4, kind, covariance_floor=0.0, random_state=0).fit(X)
    few = np.random.default_rng(0).normal(size=(3, 2))
    assert mc.GaussianMixture(1).fit(few).sample(1)[0].shape == (1, 2)


def test_draws_have_the_moments_that_were_learned():
    X = scattered(600)
    for kind in TYPES:
        found = mc.GaussianMixture(2, kind, random_state=0).fit(X)
        draws, which = found.sample(6000, random_state=1)
        for k, matrix in enumerate(found.model_.gaussians.matrices()):
            np.testing.assert_allclose(draws[which == k].mean(0), found.means_[k], atol=0.15)
            np.testing.assert_allclose(np.cov(draws[which == k].T), matrix, atol=0.2)
    assert isinstance(found.model_, GaussianMixture)


# -- the account


def defined_in(path):
    """Names of the tests that a file defines: functions, and methods of classes as Class::method."""
    tree = ast.parse(path.read_text())
    found = [n.name for n in tree.body if isinstance(n, ast.FunctionDef)]
    for cls in (n for n in tree.body if isinstance(n, ast.ClassDef)):
        found += [f"{cls.name}::{n.name}" for n in cls.body if isinstance(n, ast.FunctionDef)]
    return {name for name in found if name.split("::")[-1].startswith("test")}


def account():
    """(peer's file, its test, ours or nothing, why not or nothing)."""
    lines = (Path(__file__).parent / "carried_over.tsv").read_text().splitlines()
    return [tuple(line.split("\t")) for line in lines[1:]]


def test_every_test_of_the_peers_is_accounted_for():
    """Carried over to a test that exists, or left with a reason; none is twice, none of theirs forgotten."""
    rows, own = account(), {}
    assert len({row[:2] for row in rows}) == len(rows)
    for _, _, ours, why in rows:
        assert bool(ours) != bool(why)
        if ours:
            path, test = ours.split("::")
            assert test in own.setdefault(path, defined_in(ROOT / path)), ours
    for name in {row[0] for row in rows}:
        package, file = name.split("/")
        spec = find_spec("hmmlearn.tests" if package == "hmmlearn" else "sklearn.mixture.tests")
        path = Path(spec.submodule_search_locations[0]) / file if spec else None
        if path is None or not path.exists():
            continue  # installed without its tests
        missing = defined_in(path) - {test for peer, test, _, _ in rows if peer == name}
        assert not missing, f"{name} has tests that are neither carried over nor left: {sorted(missing)}"


def test_the_page_has_the_counts():
    text = (ROOT / "docs" / "em.md").read_text()
    for package, title in (("hmmlearn", "hmmlearn"), ("sklearn", "scikit-learn")):
        carried = [bool(ours) for peer, _, ours, _ in account() if peer.startswith(package)]
        row = re.search(rf"\| {title}[^|]*\| (\d+) \| (\d+) \| (\d+) \|", text)
        counts = (len(carried), sum(carried), len(carried) - sum(carried))
        assert row and tuple(map(int, row.groups())) == counts
