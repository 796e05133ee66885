"""Data that change the posterior most: what is built up equals a fresh computation. (8.19); SP10, SP16."""

import functools

import numpy as np
import pytest
from scipy.special import log_ndtr

from mercer import likelihoods
from mercer.inference import pointwise
from mercer.selection import Entropy, InformationGain, Pool
from mercer.selection.informative import Informed, entropy, information_gain
from mercer.solvers import Dense, Sites

from .problem import GP, LABELS, NOISE, POOL, K, M, N, X, Y


def pool(likelihood, y):
    return Pool(GP, X, y, tilted=functools.partial(pointwise.tilted, likelihood, y))


def tilted(likelihood, y, mean, variance):
    return [a[:, 0] for a in pointwise.tilted(likelihood, y, mean[:, None], variance[:, None])]


@pytest.mark.parametrize(
    "chosen, score",
    [(Entropy(), entropy), (InformationGain(), information_gain)],
    ids=["entropy", "information-gain"],
)
def test_posterior_of_the_active_set(chosen, score):
    """(8.19): variances and means after every inclusion are those of the exact GP; the best score is taken;
    entropies add up.
    """
    rows = chosen.rows(POOL, M)
    state = Informed(POOL, M, score, "test")
    rest, total = np.ones(N, bool), 0.0
    for j in rows:
        v, r = state.variance, Y - state.mean
        expected = 0.5 * np.log1p(v / NOISE)
        total += expected[j]
        if score is information_gain:
            expected = expected - 0.5 * v / (v + NOISE) + 0.5 * v * r**2 / (v + NOISE) ** 2
        np.testing.assert_allclose(state.scores(np.arange(N)), expected, rtol=1e-9, atol=1e-11)
        assert j == np.flatnonzero(rest)[np.argmax(expected[rest])]
        state.include(j)
        rest[j] = False
        post = GP.condition(X[state.active], Y[state.active], NOISE)
        np.testing.assert_allclose(state.variance, post.variance(X, latent=True), atol=1e-11)
        np.testing.assert_allclose(state.mean, post.mean(X), atol=1e-11)
    Kmm = K[np.ix_(rows, rows)]
    assert total == pytest.approx(0.5 * np.linalg.slogdet(np.eye(M) + Kmm / NOISE)[1], rel=1e-10)
    np.testing.assert_array_equal(chosen.rows(pool(likelihoods.Gaussian(NOISE), Y), M), rows)


def test_probit_sites():
    """SP16: nu = N(z) / ((1 + v) Phi(z)) (z + N(z) / Phi(z)), against the derivatives that selection is fed
    by, for all data at once and for one.
    """
    mean, v = np.linspace(-3, 3, N), np.linspace(0.1, 5, N)
    z = LABELS * mean / np.sqrt(1 + v)
    ratio = np.exp(-0.5 * z**2 - 0.5 * np.log(2 * np.pi) - log_ndtr(z))
    log_Z, d, D = tilted(likelihoods.Bernoulli(), LABELS, mean, v)
    np.testing.assert_allclose(log_Z, log_ndtr(z), rtol=1e-10)
    np.testing.assert_allclose(d, LABELS * ratio / np.sqrt(1 + v), rtol=1e-9)
    np.testing.assert_allclose(D, ratio * (z + ratio) / (1 + v), rtol=1e-8)
    one = pointwise.tilted_one(likelihoods.Bernoulli())
    for i in (0, 7):
        np.testing.assert_allclose(one(LABELS[i], mean[i], v[i]), [log_Z[i], d[i], D[i]], rtol=1e-12)


def test_informative_vector_machine():
    """Two classes: after each inclusion mean and variance are those of the sites taken so far;
    the score is -1/2 log(1 - nu v).
    """
    likelihood = likelihoods.Bernoulli()
    state = Informed(pool(likelihood, LABELS), M, entropy, "test")
    rest, centre, W, g = np.ones(N, bool), np.zeros(N), np.zeros(N), np.zeros(N)
    for j in Entropy().rows(pool(likelihood, LABELS), M):
        _, d, D = tilted(likelihood, LABELS, state.mean, state.variance)
        scores = -0.5 * np.log(1 - D * state.variance)
        assert j == np.flatnonzero(rest)[np.argmax(scores[rest])]
        share = 1 - D[j] * state.variance[j]
        centre[j], W[j], g[j] = state.mean[j], D[j] / share, d[j] / share
        state.include(j)
        rest[j] = False
        exact = Dense().factor(GP, X, Sites(centre[:, None], W[:, None], g[:, None]))
        mean, variance = exact.predict(X)
        np.testing.assert_allclose(state.mean, mean[:, 0], atol=1e-10)
        np.testing.assert_allclose(state.variance, variance[:, 0], atol=1e-10)


def test_sites_of_negative_precision_are_skipped():
    """A gross outlier under Student-t noise would have one."""
    y = Y.copy()
    y[4] = 40.0
    chosen = InformationGain().rows(pool(likelihoods.StudentT(3.0, 0.2), y), 10)
    assert 4 not in chosen and len(chosen) == 10
