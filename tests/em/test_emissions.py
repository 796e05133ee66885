"""Poisson, multinomial and Student-t emissions: enumeration over all paths, hmmlearn, scipy, missing values,
priors, scores.
"""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
from hmmlearn.hmm import MultinomialHMM, PoissonHMM
from scipy.stats import multivariate_t

import mercer as mc
from mercer.em import (
    HMM,
    GaussianEmission,
    Gaussians,
    InverseWishart,
    MultinomialEmission,
    PoissonEmission,
    StudentTEmission,
    em,
)
from mercer.hyperpriors import Gamma

PI, A = [0.6, 0.4], [[0.8, 0.2], [0.3, 0.7]]
KINDS = ("poisson", "multinomial", "student-t")


def poisson():
    return HMM(PI, A, PoissonEmission([[2.0, 0.5], [6.0, 3.0]]))


def multinomial():
    return HMM(PI, A, MultinomialEmission([[0.6, 0.3, 0.1], [0.1, 0.3, 0.6]], trials=5))


def student():
    scales = np.array([[[1.0, 0.3], [0.3, 0.5]], [[0.6, 0.0], [0.0, 2.0]]])
    return HMM(PI, A, StudentTEmission(Gaussians([[0.0, 0.0], [3.0, 1.0]], scales), [3.0, 8.0]))


MAKE = [poisson, multinomial, student]


def drawn(model, lengths=(30, 12), seed=0):
    rng = np.random.default_rng(seed)
    return [np.asarray(model.sample(n, rng)[0], float) for n in lengths]


@pytest.mark.parametrize("make", MAKE)
def test_the_sum_over_all_paths_and_the_steps_of_em(make):
    model = make()
    rows = drawn(model, (5,))[0]
    rows[2] = np.nan
    paths = np.array(list(itertools.product(range(2), repeat=5)))
    joint = np.array([model.log_joint(rows, q) for q in paths])
    assert model.log_likelihood([rows])[0] == pytest.approx(np.logaddexp.reduce(joint), rel=1e-12)
    np.testing.assert_array_equal(model.viterbi(rows)[0], paths[joint.argmax()])
    data = drawn(model)
    assert all(len(row) == len(model.emission.check(row, "it")) for row in data)
    new = model.maximise(model.expect(data))
    assert new.q(model, data).emission > model.q(model, data).emission
    whole, parts = model.expect(data), model.expect(data[:1]) + model.expect(data[1:])
    np.testing.assert_allclose(
        *[
            np.hstack([np.ravel(v) for v in model.maximise(s).emission.learned().values()])
            for s in (whole, parts)
        ],
        rtol=1e-10,
    )
    path = em(model, [data], max_evaluations=15, tol=0, slack=1e-12).path()
    assert (np.diff(path) > -1e-10).all() and path[-1] > path[0]
    never = replace(model, initial=[1.0, 0.0], transition=np.eye(2))
    kept = em(never, [data], max_evaluations=2, tol=0).model.emission.learned()
    assert all(np.array_equal(kept[k][1], v[1]) for k, v in model.emission.learned().items())


@pytest.mark.slow
@pytest.mark.parametrize("make", MAKE)
def test_scores_are_derivatives_of_the_log_likelihood(make):
    model, h = make(), 1e-6
    data = drawn(model, (6, 4))
    data[0][1] = np.nan
    phi = model.scores(data)

    def value(model):
        return model.log_likelihood(data)

    if make is poisson:
        moved = [
            replace(
                model,
                emission=PoissonEmission(model.emission.means * np.exp(s * h * np.eye(4)[0].reshape(2, 2))),
            )
            for s in (1, -1)
        ]
        at = -4
    elif make is multinomial:
        logits = np.log(model.emission.probabilities)
        moved = []
        for s in (1, -1):
            p = np.exp(logits + s * h * np.eye(6)[0].reshape(2, 3))
            moved.append(replace(model, emission=MultinomialEmission(p / p.sum(1, keepdims=True))))
        at = -6
    else:
        moved = [
            replace(model, emission=replace(model.emission, dof=model.emission.dof * np.exp([s * h, 0])))
            for s in (1, -1)
        ]
        at = -2
    np.testing.assert_allclose(phi[:, at], (value(moved[0]) - value(moved[1])) / (2 * h), atol=1e-7)


# -- hmmlearn


def test_ten_iterations_with_counts_are_those_of_hmmlearn():
    data = drawn(poisson(), (60, 40))
    start = replace(poisson(), emission=PoissonEmission([[1.5, 1.0], [4.0, 2.0]]))
    ours = em(start, [data], max_evaluations=10, tol=0)
    peer = PoissonHMM(2, n_iter=10, tol=-np.inf, init_params="")
    peer.startprob_, peer.transmat_, peer.lambdas_ = start.initial, start.transition, start.emission.means
    rows = np.concatenate(data).astype(int)
    peer.fit(rows, [60, 40])
    np.testing.assert_allclose(ours.model.transition, peer.transmat_, atol=1e-9)
    np.testing.assert_allclose(ours.model.emission.means, peer.lambdas_, rtol=1e-9)
    assert ours.log_likelihood == pytest.approx(peer.score(rows, [60, 40]), abs=1e-8)
    np.testing.assert_array_equal(ours.model.viterbi(data[0])[0], peer.predict(rows[:60]))


def test_ten_iterations_with_multinomial_counts_are_those_of_hmmlearn():
    data = drawn(multinomial(), (60, 40))
    start = replace(multinomial(), emission=MultinomialEmission([[0.4, 0.4, 0.2], [0.2, 0.3, 0.5]]))
    ours = em(start, [data], max_evaluations=10, tol=0)
    peer = MultinomialHMM(2, n_trials=5, n_iter=10, tol=-np.inf, init_params="")
    peer.startprob_, peer.transmat_ = start.initial, start.transition
    peer.emissionprob_ = start.emission.probabilities
    rows = np.concatenate(data).astype(int)
    peer.fit(rows, [60, 40])
    np.testing.assert_allclose(ours.model.transition, peer.transmat_, atol=1e-9)
    np.testing.assert_allclose(ours.model.emission.probabilities, peer.emissionprob_, atol=1e-9)
    assert ours.log_likelihood == pytest.approx(peer.score(rows, [60, 40]), abs=1e-8)


def test_rows_with_one_count_are_symbols():
    rng = np.random.default_rng(3)
    symbols = rng.integers(3, size=40)
    counts = np.eye(3)[symbols]
    from mercer.em import CategoricalEmission

    p = [[0.6, 0.3, 0.1], [0.1, 0.3, 0.6]]
    a = em(HMM(PI, A, CategoricalEmission(p)), [[symbols]], max_evaluations=3, tol=0)
    b = em(HMM(PI, A, MultinomialEmission(p)), [[counts]], max_evaluations=3, tol=0)
    np.testing.assert_allclose(a.path(), b.path(), rtol=1e-12)
    impossible = MultinomialEmission([[1.0, 0.0], [0.5, 0.5]])
    np.testing.assert_array_equal(impossible.log_prob(np.array([[2.0, 1.0], [2.0, 0.0]]))[0], [-np.inf, 0.0])


# -- Student-t


def test_the_density_is_that_of_scipy_and_missing_values_are_integrated_over():
    emission = student().emission
    rows = np.random.default_rng(1).normal(size=(7, 2)) * 3
    wanted = [
        multivariate_t(m, S, nu).logpdf(rows)
        for m, S, nu in zip(
            emission.gaussians.means, emission.gaussians.matrices(), emission.dof, strict=True
        )
    ]
    np.testing.assert_allclose(emission.log_prob(rows), wanted, rtol=1e-12)
    half = rows.copy()
    half[:, 1] = np.nan
    wanted = [
        multivariate_t(m[:1], S[:1, :1], nu).logpdf(half[:, :1])
        for m, S, nu in zip(
            emission.gaussians.means, emission.gaussians.matrices(), emission.dof, strict=True
        )
    ]
    np.testing.assert_allclose(emission.log_prob(half), wanted, rtol=1e-12)
    data = drawn(student(), (60,))
    data[0][::7, 1], data[0][5] = np.nan, np.nan
    path = em(student(), [data], max_evaluations=30, tol=0, slack=1e-12).path()  # raises where it falls
    assert path[-1] > path[0]


@pytest.mark.parametrize("kind", ["full", "diagonal", "spherical", "tied"])
def test_many_degrees_of_freedom_are_a_gaussian(kind):
    data = drawn(student(), (40,))
    matrices = student().emission.gaussians.matrices()
    first = {
        "full": matrices,
        "diagonal": np.diagonal(matrices, axis1=1, axis2=2),
        "spherical": [1.0, 2.0],
        "tied": matrices[0],
    }[kind]
    gaussians = Gaussians([[0.0, 0.0], [3.0, 1.0]], first, kind)
    heavy = HMM(PI, A, StudentTEmission(gaussians, [1e9, 1e9], learn_dof=False))
    light = HMM(PI, A, GaussianEmission(gaussians))
    a, b = (em(model, [data], max_evaluations=4, tol=0) for model in (heavy, light))
    np.testing.assert_allclose(a.path(), b.path(), rtol=1e-6)
    np.testing.assert_allclose(
        a.model.emission.gaussians.covariances, b.model.emission.gaussians.covariances, rtol=1e-5, atol=1e-7
    )


def test_the_degrees_of_freedom_are_the_most_likely_ones():
    rng = np.random.default_rng(2)
    X = rng.standard_t(3.0, size=(400, 1))
    one = HMM([1.0], [[1.0]], StudentTEmission(Gaussians([[0.0]], [[[1.0]]]), [10.0]))
    found = em(one, [[X]], max_evaluations=500, tol=1e-12).model
    nu, m, S = (
        found.emission.dof[0],
        found.emission.gaussians.means[0],
        found.emission.gaussians.covariances[0],
    )

    def value(nu, m, S):
        return multivariate_t(m, S, nu).logpdf(X).sum()

    best = value(nu, m, S)
    assert 2.0 < nu < 4.5
    for other in (
        (nu * 1.05, m, S),
        (nu / 1.05, m, S),
        (nu, m + 0.02, S),
        (nu, m, S * 1.05),
        (nu, m, S / 1.05),
    ):
        assert value(*other) < best


def test_outliers_do_not_move_the_states():
    rng = np.random.default_rng(4)
    path = student().sample(150, rng)[1]
    X = np.where(path == 0, 0.0, 4.0)[:, None] + 0.5 * rng.normal(size=(150, 1))
    X[rng.choice(150, 8, replace=False)] = 60 * rng.normal(size=(8, 1))
    hmm = mc.HMM(2, "student-t", random_state=0, restarts=1).fit(X)
    np.testing.assert_allclose(np.sort(hmm.means_.ravel()), [0, 4], atol=0.2)
    assert hmm.dof_.shape == (2,) and hmm.dof_.min() < 2 and hmm.scales_.shape == (2, 1, 1)
    assert np.mean((hmm.predict(X) == np.argmin(np.abs(hmm.means_))) == (path == 0)) > 0.95


# -- priors


def test_priors_give_the_mode_of_the_posterior():
    data, prior = drawn(poisson(), (20,)), Gamma(3.0, 2.0)
    model = replace(poisson(), emission=PoissonEmission([[1.5, 1.0], [4.0, 2.0]], prior))
    summary = model.expect(data)
    total, number = summary.emission
    np.testing.assert_allclose(model.maximise(summary).emission.means, (total + 2) / (number + 2), rtol=1e-13)
    for emission in (
        model.emission,
        MultinomialEmission([[0.5, 0.3, 0.2], [0.2, 0.3, 0.5]], pseudo_count=[[1.0, 2.0, 0.5]] * 2),
        replace(
            student().emission,
            dof_prior=Gamma(2.0, 0.1),
            gaussians=replace(student().emission.gaussians, prior=InverseWishart(4.0, np.eye(2))),
        ),
    ):
        start = HMM(PI, A, emission)
        rows = {PoissonEmission: poisson, MultinomialEmission: multinomial, StudentTEmission: student}
        path = em(start, [drawn(rows[type(emission)]())], max_evaluations=25, tol=0, slack=1e-12).path()
        assert path[-1] > path[0]


# -- the estimator


@pytest.mark.parametrize("kind", KINDS)
def test_the_truth_is_found_saved_and_drawn(kind, tmp_path):
    truth = dict(zip(KINDS, MAKE, strict=True))[kind]()
    data = drawn(truth, (150, 100), seed=5)
    data[0][7] = np.nan
    hmm = mc.HMM(2, kind, random_state=0, max_evaluations=500).fit(data)
    name = {"poisson": "means", "multinomial": "emission", "student-t": "means"}[kind]
    found, wanted = getattr(hmm, name + "_"), truth.emission.learned()[name]
    order = found[:, 0].argsort()
    np.testing.assert_allclose(found[order], wanted[wanted[:, 0].argsort()], atol=0.7, rtol=0.15)
    assert hmm.converged_ and np.isfinite(hmm.predict_proba(data[0])).all()
    hmm.save(tmp_path / "it")
    again = mc.load(tmp_path / "it")
    np.testing.assert_array_equal(again.predict(data[1]), hmm.predict(data[1]))
    assert again.score(data) == pytest.approx(hmm.score(data), rel=1e-12)
    X, states = again.sample(20, random_state=0)
    assert X.shape == (20, data[0].shape[1]) and states.shape == (20,)
    assert mc.viz.state_path(hmm, data[1]).lines


def test_wrong_counts_are_refused_in_words():
    with pytest.raises(ValueError, match="sequence 0 must hold counts"):
        mc.HMM(2, "poisson").fit([[0.5, 1.0, 2.0]])
    with pytest.raises(ValueError, match="sequence 0 must hold counts"):
        poisson().log_likelihood([[[1.0, -1.0]]])
    with pytest.raises(ValueError, match="misses a part of the counts in row 1"):
        multinomial().log_likelihood([[[1.0, 2.0, 0.0], [1.0, np.nan, 0.0]]])
    with pytest.raises(ValueError, match="how many counts a row has"):
        replace(multinomial().emission, trials=None).sample(np.zeros(1, int), np.random.default_rng(0))
    with pytest.raises(ValueError, match="means of counts"):
        PoissonEmission([[-1.0]])
    with pytest.raises(ValueError, match="dof are 1 positive"):
        StudentTEmission(Gaussians([[0.0]], [[[1.0]]]), [0.0])
    with pytest.raises(ValueError, match=r"not \['covariances'\]"):
        mc.HMM(2, "student-t", init={"covariances": np.ones(2)}).fit(np.zeros(9))
