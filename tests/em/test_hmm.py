"""Hidden Markov models: golden numbers, enumeration over all paths, hmmlearn, structure,
degenerate sequences.
"""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
from hmmlearn.hmm import CategoricalHMM, GaussianHMM

from mercer.em import (
    HMM,
    CategoricalEmission,
    EMError,
    Filter,
    GaussianEmission,
    GaussianMixture,
    GaussianMixtureEmission,
    Gaussians,
    em,
    left_right,
)

A, PI, B = [[0.7, 0.3], [0.4, 0.6]], [0.6, 0.4], [[0.5, 0.4, 0.1], [0.1, 0.3, 0.6]]
O = np.array([0, 1, 2])


def golden():
    return HMM(PI, A, CategoricalEmission(B))


def golden_mixture():
    means, sd = np.array([[-1, 0], [1.5, 2.5]]), np.array([[0.5, 0.7], [0.6, 0.4]])
    gaussians = Gaussians(means.reshape(4, 1), (sd**2).reshape(4, 1, 1))
    return HMM(
        [0.5, 0.5], [[0.9, 0.1], [0.2, 0.8]], GaussianMixtureEmission([[0.6, 0.4], [0.3, 0.7]], gaussians)
    )


def gaussian(N=3, d=2, seed=0):
    rng = np.random.default_rng(seed)
    return HMM(
        rng.dirichlet(np.ones(N)),
        rng.dirichlet(np.ones(N), N),
        GaussianEmission(Gaussians(2 * rng.normal(size=(N, d)), [np.eye(d)] * N)),
    )


def enumerate_paths(model, rows):
    paths = list(itertools.product(range(model.states), repeat=len(rows)))
    return np.array(paths), np.array([model.log_joint(rows, p) for p in paths])


# -- golden


def test_the_golden_numbers_of_a_discrete_model():
    model = golden()
    assert model.log_likelihood([O])[0] == pytest.approx(-3.316488653735201, abs=1e-14)
    np.testing.assert_allclose(
        model.posterior(O)[:, 0], [0.8765159868, 0.6229327453, 0.2121278942], atol=5e-11
    )
    xi = [
        [[0.578831312, 0.2976846748], [0.0441014333, 0.0793825799]],
        [[0.1744211687, 0.4485115766], [0.0377067255, 0.3393605292]],
    ]
    np.testing.assert_allclose(model.pairs(O), xi, atol=5e-10)
    alpha = np.array([[0.3, 0.04], [0.0904, 0.0342], [0.007696, 0.028584]])
    np.testing.assert_allclose(model.filter(O), alpha / alpha.sum(1, keepdims=True), rtol=1e-13)
    found = em(model, [[O]], max_evaluations=1, tol=0)
    assert found.log_likelihood == pytest.approx(-2.708301364393085, abs=1e-13)
    np.testing.assert_allclose(
        found.model.transition, [[0.5023529412, 0.4976470588], [0.1634361233, 0.8365638767]], atol=5e-11
    )
    wanted = [[0.5121102809, 0.3639525895, 0.1239371296], [0.0958411775, 0.2926578812, 0.6115009413]]
    np.testing.assert_allclose(found.model.emission.probabilities, wanted, atol=5e-11)


def test_the_golden_numbers_of_gaussian_mixture_emissions():
    o = np.array([-1, -0.5, 0.2, 2.1, 1.7, 2.4])
    found = em(golden_mixture(), [[o]], max_evaluations=1, tol=0)
    np.testing.assert_allclose(found.path(), [-8.491257480335811, -4.665203435437781], rtol=1e-13)
    emission = found.model.emission
    np.testing.assert_allclose(
        found.model.transition, [[0.659656801, 0.340343199], [7.75507232e-4, 0.999224493]], atol=5e-10
    )
    np.testing.assert_allclose(
        emission.weights, [[0.53612439, 0.46387561], [0.33954381, 0.66045619]], atol=5e-9
    )
    np.testing.assert_allclose(
        emission.gaussians.means.ravel(), [-0.72511168, -0.11356917, 1.75081524, 2.16956437], atol=5e-9
    )
    np.testing.assert_allclose(
        emission.gaussians.covariances.ravel(), [0.11637038, 0.20886271, 0.21281284, 0.06222219], atol=5e-9
    )


# -- enumeration


@pytest.mark.parametrize("make", [golden, golden_mixture, gaussian])
def test_everything_is_what_the_sum_over_all_paths_says(make):
    model = make()
    rows = model.sample(5, np.random.default_rng(1))[0]
    paths, joint = enumerate_paths(model, rows)
    total = np.logaddexp.reduce(joint)
    weight = np.exp(joint - total)
    N, T = model.states, len(rows)
    gamma = np.array([[weight[paths[:, t] == i].sum() for i in range(N)] for t in range(T)])
    xi = np.array(
        [
            [[weight[(paths[:, t] == i) & (paths[:, t + 1] == j)].sum() for j in range(N)] for i in range(N)]
            for t in range(T - 1)
        ]
    )
    assert model.log_likelihood([rows])[0] == pytest.approx(total, rel=1e-12)
    np.testing.assert_allclose(model.posterior(rows), gamma, atol=1e-13)
    np.testing.assert_allclose(model.pairs(rows), xi, atol=1e-13)
    np.testing.assert_allclose(model.smooth([rows]).transitions, xi.sum(0), atol=1e-13)
    path, value = model.viterbi(rows)
    np.testing.assert_array_equal(path, paths[joint.argmax()])
    assert value == pytest.approx(joint.max(), rel=1e-12)
    draws = model.sample_paths(rows, 4000, np.random.default_rng(2))
    frequency = np.mean(draws == path, axis=0)
    np.testing.assert_allclose(frequency, gamma[np.arange(T), path], atol=0.04)
    assert all(model.log_joint(rows, q) <= value + 1e-12 for q in draws[:50])


@pytest.mark.parametrize("make", [golden, golden_mixture, gaussian])
def test_q_is_a_certificate(make):
    old, rng = make(), np.random.default_rng(3)
    data = [old.sample(n, rng)[0] for n in (6, 9)]
    new = old.maximise(old.expect(data))
    assert new.q(old, data).total >= old.q(old, data).total - 1e-12
    assert all(a >= b - 1e-12 for a, b in zip(new.q(old, data), old.q(old, data), strict=True))
    h = 1e-6
    change = rng.normal(size=old.transition.shape)
    change -= change.mean(1, keepdims=True)

    def moved(s):
        return replace(old, transition=old.transition + s * h * 0.1 * change)

    slope_q = (moved(1).q(old, data).total - moved(-1).q(old, data).total) / (2 * h)
    slope_l = (moved(1).log_likelihood(data).sum() - moved(-1).log_likelihood(data).sum()) / (2 * h)
    assert slope_q == pytest.approx(slope_l, abs=1e-6)
    rows = data[0]
    paths, joint = enumerate_paths(old, rows)
    weight = np.exp(joint - np.logaddexp.reduce(joint))
    if not isinstance(old.emission, GaussianMixtureEmission):
        by_paths = weight @ [new.log_joint(rows, p) for p in paths]
        assert new.q(old, [rows]).total == pytest.approx(by_paths, rel=1e-10)


# -- invariants


def test_one_state_is_the_mixture_and_equal_rows_are_independent():
    rng = np.random.default_rng(4)
    X = np.concatenate([rng.normal(size=(30, 2)), rng.normal(size=(30, 2)) + 4])
    start = GaussianMixture.around(X, 2, rng, floor=0.0)
    single = HMM([1.0], [[1.0]], GaussianMixtureEmission(start.weights[None], start.gaussians))
    a, b = em(start, [X], max_evaluations=6, tol=0), em(single, [[X]], max_evaluations=6, tol=0)
    np.testing.assert_allclose(a.path(), b.path(), rtol=1e-12)
    np.testing.assert_allclose(a.model.covariances, b.model.emission.gaussians.covariances, rtol=1e-9)
    independent = HMM([0.3, 0.7], [[0.3, 0.7]] * 2, GaussianEmission(start.gaussians))
    iid = GaussianMixture([0.3, 0.7], start.gaussians)
    assert independent.log_likelihood([X])[0] == pytest.approx(iid.log_prob(X).sum(), rel=1e-12)
    np.testing.assert_allclose(independent.posterior(X), iid.responsibilities(X), atol=1e-12)


def test_many_sequences_add_up_and_duplicates_change_nothing():
    model, rng = gaussian(), np.random.default_rng(5)
    data = [model.sample(n, rng)[0] for n in (1, 7, 30, 2)]
    start = replace(model, transition=np.full((3, 3), 1 / 3))
    whole = start.expect(data)
    parts = start.expect(data[:1]) + start.expect(data[1:3]) + start.expect(data[3:])
    np.testing.assert_allclose(parts.transitions, whole.transitions, rtol=1e-11)
    np.testing.assert_allclose(parts.emission.second, whole.emission.second, rtol=1e-11)
    assert whole.log_likelihood == pytest.approx(sum(start.log_likelihood([s])[0] for s in data), rel=1e-12)
    assert whole.first.sum() == pytest.approx(4) and whole.transitions.sum() == pytest.approx(40 - 4)
    once, twice = (
        em(start, [data], max_evaluations=4, tol=0),
        em(start, [data + data], max_evaluations=4, tol=0),
    )
    np.testing.assert_allclose(once.model.transition, twice.model.transition, rtol=1e-10)
    # the printed update does not do this
    np.testing.assert_allclose(once.model.transition.sum(1), 1.0, rtol=1e-12)
    assert (np.diff(em(start, [data], max_evaluations=30, tol=0, slack=1e-12).path()) >= -1e-10).all()


def test_observed_states_give_relative_frequencies():
    path = [0, 0, 1, 1, 0, 1, 1, 1, 0, 0]
    model = HMM([0.5, 0.5], [[0.5, 0.5]] * 2, CategoricalEmission(np.eye(2)))
    found = em(model, [[path]], max_evaluations=1, tol=0).model
    np.testing.assert_allclose(found.transition, [[2 / 4, 2 / 4], [2 / 5, 3 / 5]], rtol=1e-13)
    np.testing.assert_allclose(found.initial, [1, 0])


def test_gamma_is_the_slope_of_the_likelihood_in_the_log_emissions():
    model = golden()
    gamma, h = model.posterior(O), 1e-6
    for t, i in itertools.product(range(3), range(2)):

        def value(s, t=t, i=i):
            emission = np.tile(np.eye(2)[i] * s * h, (1, 1)).T
            paths, joint = enumerate_paths(model, O)
            return np.logaddexp.reduce(joint + emission[paths[:, t], 0])

        assert (value(1) - value(-1)) / (2 * h) == pytest.approx(gamma[t, i], abs=1e-8)


def test_zeros_stay_zeros_and_left_right_goes_left_to_right():
    initial, transition = left_right(4)
    np.testing.assert_array_equal(transition > 0, np.eye(4, dtype=bool) | np.eye(4, k=1, dtype=bool))
    rng = np.random.default_rng(6)
    truth = HMM(initial, [[0.8, 0.2, 0, 0], [0, 0.7, 0.3, 0], [0, 0, 0.6, 0.4], [0, 0, 0, 1]],
                GaussianEmission(Gaussians(5.0 * np.arange(4)[:, None], np.ones((4, 1, 1)))))  # fmt: skip
    data = [truth.sample(40, rng)[0] for _ in range(20)]
    start = HMM(
        initial,
        transition,
        GaussianEmission(Gaussians(4.0 * np.arange(4)[:, None], np.full((4, 1, 1), 4.0))),
        pseudo_count=0.5,
    )
    found = em(start, [data], max_evaluations=50).model
    np.testing.assert_array_equal(found.transition > 0, transition > 0)
    np.testing.assert_allclose(found.transition, truth.transition, atol=0.1)
    assert (np.diff(found.viterbi(data[0])[0]) >= 0).all()


def test_pseudo_counts_are_added_to_what_is_possible():
    model = replace(golden(), pseudo_count=2.0, emission=CategoricalEmission(B, pseudo_count=1.0))
    summary = model.expect([O])
    found = model.maximise(summary)
    counts = summary.transitions + 2.0
    np.testing.assert_allclose(found.transition, counts / counts.sum(1, keepdims=True), rtol=1e-13)
    em(model, [[O, O[::-1]]], max_evaluations=20, tol=0, slack=1e-12)


def test_a_long_draw_has_the_stationary_distribution():
    model = golden()
    symbols, path = model.sample(20000, np.random.default_rng(7))
    np.testing.assert_allclose(np.bincount(path) / 20000, [4 / 7, 3 / 7], atol=0.02)
    np.testing.assert_allclose(np.bincount(symbols[path == 1]) / (path == 1).sum(), B[1], atol=0.02)


# -- hmmlearn


def test_ten_iterations_with_gaussians_are_those_of_hmmlearn():
    model, rng = gaussian(), np.random.default_rng(8)
    data = [model.sample(n, rng)[0] for n in (80, 45)]
    start = HMM(
        np.full(3, 1 / 3),
        np.full((3, 3), 1 / 3),
        GaussianEmission(Gaussians(model.emission.gaussians.means + 0.3, [2 * np.eye(2)] * 3)),
    )
    ours = em(start, [data], max_evaluations=10, tol=0)
    peer = GaussianHMM(
        3,
        "full",
        n_iter=10,
        tol=-np.inf,
        init_params="",
        covars_prior=0.0,
        covars_weight=2.0,
        min_covar=0.0,
        implementation="log",
    )
    peer.startprob_, peer.transmat_ = start.initial, start.transition
    peer.means_, peer.covars_ = start.emission.gaussians.means, start.emission.gaussians.covariances
    peer.fit(np.concatenate(data), [80, 45])
    np.testing.assert_allclose(ours.model.transition, peer.transmat_, atol=1e-6)
    np.testing.assert_allclose(ours.model.emission.gaussians.means, peer.means_, rtol=1e-6)
    assert ours.log_likelihood == pytest.approx(peer.score(np.concatenate(data), [80, 45]), abs=1e-6)
    np.testing.assert_array_equal(ours.model.viterbi(data[0])[0], peer.predict(data[0]))


def test_ten_iterations_with_symbols_are_those_of_hmmlearn():
    rng = np.random.default_rng(9)
    data = [golden().sample(n, rng)[0] for n in (60, 90)]
    ours = em(golden(), [data], max_evaluations=10, tol=0)
    peer = CategoricalHMM(2, n_iter=10, tol=-np.inf, init_params="", n_features=3)
    peer.startprob_, peer.transmat_, peer.emissionprob_ = np.array(PI), np.array(A), np.array(B)
    peer.fit(np.concatenate(data)[:, None], [60, 90])
    np.testing.assert_allclose(ours.model.transition, peer.transmat_, atol=1e-6)
    np.testing.assert_allclose(ours.model.emission.probabilities, peer.emissionprob_, atol=1e-6)


# -- degenerate input


def test_sequences_of_one_step_leave_the_transitions_alone():
    found = em(golden(), [[[0], [2], [1]]], max_evaluations=3, tol=0).model
    np.testing.assert_array_equal(found.transition, A)
    assert np.isfinite(found.emission.probabilities).all()
    assert golden().pairs([1]).shape == (0, 2, 2)


def test_a_state_that_is_never_visited_stays_as_it_was():
    model = HMM(
        [1.0, 0.0], [[1.0, 0.0], [0.5, 0.5]], GaussianEmission(Gaussians([[0.0], [3.0]], np.ones((2, 1, 1))))
    )
    found = em(model, [[np.array([0.1, -0.2, 0.3])]], max_evaluations=5, tol=0).model
    np.testing.assert_array_equal(found.transition[1], [0.5, 0.5])
    assert found.emission.gaussians.means[1, 0] == 3.0


def test_an_impossible_sequence_is_an_error_in_words():
    model = HMM([1.0, 0.0], [[0.0, 1.0], [1.0, 0.0]], CategoricalEmission([[1.0, 0.0], [0.0, 1.0]]))
    assert model.log_likelihood([[0, 1, 0], [0, 0]]).tolist() == [0.0, -np.inf]
    with pytest.raises(EMError, match="probability zero"):
        em(model, [[[0, 0]]])
    for use in (model.posterior, model.filter, model.viterbi):
        with pytest.raises(ValueError, match="probability zero"):
            use([0, 0])
    online = Filter(model)
    online.update(0)
    with pytest.raises(ValueError, match="observation 1 is impossible"):
        online.update(0)


def test_wrong_sequences_are_refused_by_name():
    with pytest.raises(ValueError, match="sequence 1 has the symbol 7"):
        golden().log_likelihood([[0], [7]])
    with pytest.raises(ValueError, match="sequence 0 must hold whole numbers"):
        golden().log_likelihood([[0.5]])
    with pytest.raises(ValueError, match="sequence 0 is empty"):
        gaussian().log_likelihood([np.zeros((0, 2))])
    with pytest.raises(ValueError, match=r"sequence 0 must have the shape \(T, 2\)"):
        gaussian().log_likelihood([np.zeros((4, 3))])
    with pytest.raises(ValueError, match="sequence 0 is infinite in row 1"):
        gaussian().log_likelihood([np.array([[0, 1], [np.inf, 0]])])
    with pytest.raises(ValueError, match="there is no sequence"):
        golden().log_likelihood([])
    with pytest.raises(ValueError, match="transition must be probabilities"):
        HMM(PI, [[0.5, 0.4], [0.5, 0.5]], CategoricalEmission(B))


def test_missing_observations_are_steps_in_the_dark():
    model = golden()
    joint = enumerate_paths(model, [0, -1, 2])[1]
    assert model.log_likelihood([[0, np.nan, 2]])[0] == pytest.approx(np.logaddexp.reduce(joint), rel=1e-12)
    g = gaussian()
    rows = g.sample(4, np.random.default_rng(0))[0]
    rows[1], rows[2, 0] = np.nan, np.nan
    joint = enumerate_paths(g, rows)[1]
    assert g.log_likelihood([rows])[0] == pytest.approx(np.logaddexp.reduce(joint), rel=1e-12)
    em(g, [[rows, g.sample(20, np.random.default_rng(1))[0]]], max_evaluations=2, tol=0, slack=1e-12)


def test_online_filtering_is_the_forward_procedure():
    model = gaussian()
    rows = model.sample(20, np.random.default_rng(0))[0]
    online = Filter(model)
    found = np.array([online.update(o) for o in rows])
    np.testing.assert_allclose(found, model.filter(rows), atol=1e-13)
    assert online.log_likelihood == pytest.approx(model.log_likelihood([rows])[0], rel=1e-12)
    np.testing.assert_allclose(
        online.predict(3), found[-1] @ np.linalg.matrix_power(model.transition, 3), rtol=1e-12
    )
    before = online.predict()
    np.testing.assert_allclose(online.update(None), before, rtol=1e-14)
