"""Selection of active sets: what each criterion builds up equals a fresh computation. Algorithm 8.1,
(8.17)-(8.19).
"""

import numpy as np
import pytest
from scipy.special import log_ndtr

import mercer as mc
from mercer import kernels as k
from mercer import likelihoods, means
from mercer.inputs import as_inputs
from mercer.solvers import Dense, Sites, SolverError
from mercer.solvers.selection import (
    HOW,
    _Columns,
    _Noise,
    _Posterior,
    _Regressors,
    centres,
    inducing,
    scaled,
    select,
    tilted,
)

N, M = 30, 6
rng = np.random.default_rng(2)
X = rng.uniform(-2, 2, size=(N, 2))
Y = np.sin(2 * X[:, 0]) + 0.2 * rng.normal(size=N) + 0.5
GP = mc.GP(k.Matern([1.0, 2.0], 1.3, nu=1.5), means.Constant(0.4)).bind(as_inputs(X))
K, NOISE = GP.kernel(X), 0.05
LABELS = np.where(Y > 0.5, 1.0, -1.0)
R = Y - 0.4


def low_rank(active):
    """K~ of (8.4)."""
    return K[:, active] @ np.linalg.solve(K[np.ix_(active, active)], K[active])


def value(how, active, noise=NOISE):
    """What a criterion on columns maximises, from nothing."""
    Q = low_rank(active) if len(active) else np.zeros((N, N))
    if how == "trace":
        return -np.trace(K - Q)
    if how == "residual":
        return (
            -np.sum((R - K[:, active] @ np.linalg.lstsq(K[:, active], R, rcond=None)[0]) ** 2)
            if len(active)
            else -R @ R
        )
    S = Q + noise * np.eye(N)
    quadratic = R @ np.linalg.solve(S, R)
    return -quadratic if how == "matching" else -0.5 * quadratic - 0.5 * np.linalg.slogdet(S)[1]


# ------------------------------------------------------------------------------------------------- greedy on
# columns


@pytest.mark.parametrize("how", ["trace", "residual", "matching", "evidence"])
def test_every_step_takes_the_best_column(how):
    """With all candidates in the working set: each score is the gain of its criterion, recomputed,
    and the best is taken.
    """
    weights = np.ones(N) if how == "residual" else np.full(N, NOISE**-0.5)
    state = _Regressors(
        _Columns(GP, X), M, how, None if how == "trace" else R, None if how == "trace" else weights
    )
    chosen = select(GP, X, Y, M, how, noise_variance=NOISE, candidates=None)
    rest = list(range(N))
    for j in chosen:
        gains = np.array([value(how, [*state.active, i]) - value(how, state.active) for i in rest])
        np.testing.assert_allclose(state.scores(np.array(rest)), gains, rtol=1e-8, atol=1e-9)
        assert rest[int(np.argmax(gains))] == j
        state.include(j)
        rest.remove(j)
    np.testing.assert_allclose(state.V.T @ state.V, low_rank(state.active), atol=1e-11)
    np.testing.assert_allclose(state.variance, np.diag(K - low_rank(state.active)), atol=1e-11)
    if how in ("matching", "evidence"):
        G = np.linalg.inv(low_rank(state.active) + NOISE * np.eye(N))
        np.testing.assert_allclose(np.eye(N) - state.F.T @ state.F, NOISE * G, atol=1e-11)
        np.testing.assert_allclose(state.e, np.sqrt(NOISE) * G @ R, atol=1e-11)


def test_quadratic_identity():
    """(8.18): residual and prior terms of the subset of regressors make up the quadratic form that "matching"
    lowers.
    """
    active = select(GP, X, Y, M, "matching", noise_variance=NOISE)
    Knm, Kmm = K[:, active], K[np.ix_(active, active)]
    a = np.linalg.solve(Knm.T @ Knm + NOISE * Kmm, Knm.T @ R)
    assert np.sum((R - Knm @ a) ** 2) / NOISE + a @ Kmm @ a == pytest.approx(
        -value("matching", active), rel=1e-10
    )


def test_pivoted():
    """Pivots are the largest residual variances;
    what is left is the trace of K minus that of its approximation.
    """
    chosen = select(GP, X, None, M, "pivoted")
    for i in range(M):
        residual = np.diag(K) - (np.diag(low_rank(chosen[:i])) if i else 0.0)
        assert residual[chosen[i]] == pytest.approx(residual.max(), rel=1e-10)


def test_greedy_beats_random():
    """The trace of K - K~ after greedy steps is below that of random subsets,
    and a working set of 10 is nearly as good as all.
    """
    random = np.mean([value("trace", select(GP, X, None, M, "random", seed=s)) for s in range(20)])
    greedy = value("trace", select(GP, X, None, M, "trace", candidates=None))
    some = np.mean([value("trace", select(GP, X, None, M, "trace", candidates=10, seed=s)) for s in range(5)])
    assert random < value("trace", select(GP, X, None, M, "pivoted")) < 0
    assert random < some <= greedy


def test_noise_for_each_datum():
    """Weights of the data enter "evidence" and "entropy": those with huge noise explain nothing."""
    noise = np.where(np.arange(N) < 15, 0.05, 1e6)
    assert np.all(select(GP, X, Y, M, "entropy", noise_variance=noise) < 15)
    state = _Regressors(_Columns(GP, X), M, "evidence", R, noise**-0.5)
    state.include(3)
    S = low_rank([3]) + np.diag(noise)
    np.testing.assert_allclose(state.e, np.linalg.solve(S, R) * np.sqrt(noise), rtol=1e-9, atol=1e-11)


def test_dependent_columns_are_left_out():
    """Three distinct inputs give three columns, however many are asked for."""
    Z = np.repeat(np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 2.0]]), 4, 0)
    for how in ("pivoted", "trace", "matching", "evidence", "residual"):
        chosen = select(GP, Z, np.arange(12.0), 5, how, noise_variance=0.1)
        assert len(chosen) == 3 and len(np.unique(Z[chosen], axis=0)) == 3
    assert len(select(GP, Z, np.arange(12.0), 5, "entropy", noise_variance=0.1)) == 5


# ------------------------------------------------------------------------------------------------- greedy on
# the posterior


@pytest.mark.parametrize("how", ["entropy", "information"])
def test_posterior_of_the_active_set(how):
    """(8.19): variances and means after every inclusion are those of the exact GP; the best score is taken;
    entropies add up.
    """
    chosen = select(GP, X, Y, M, how, noise_variance=NOISE)
    state = _Posterior(_Columns(GP, X), np.full(N, 0.4), Y, _Noise(np.full(N, NOISE)), M, how)
    rest, total = np.ones(N, bool), 0.0
    for j in chosen:
        v, r = state.variance, Y - state.mean
        expected = 0.5 * np.log1p(v / NOISE)
        total += expected[j]
        if how == "information":
            expected = expected - 0.5 * v / (v + NOISE) + 0.5 * v * r**2 / (v + NOISE) ** 2
        np.testing.assert_allclose(state.scores(np.arange(N)), expected, rtol=1e-9, atol=1e-11)
        assert j == np.flatnonzero(rest)[np.argmax(expected[rest])]
        state.include(j)
        rest[j] = False
        post = GP.condition(X[state.active], Y[state.active], NOISE)
        np.testing.assert_allclose(state.variance, post.variance(X, latent=True), atol=1e-11)
        np.testing.assert_allclose(state.mean, post.mean(X), atol=1e-11)
    Kmm = K[np.ix_(chosen, chosen)]
    assert total == pytest.approx(0.5 * np.linalg.slogdet(np.eye(M) + Kmm / NOISE)[1], rel=1e-10)
    again = select(GP, X, Y, M, how, likelihood=likelihoods.Gaussian(NOISE))
    np.testing.assert_array_equal(again, chosen)


def test_probit_sites():
    """SP16: nu = N(z) / ((1 + v) Phi(z)) (z + N(z) / Phi(z)), against the derivatives that selection uses."""
    mean, v = np.linspace(-3, 3, N), np.linspace(0.1, 5, N)
    z = LABELS * mean / np.sqrt(1 + v)
    ratio = np.exp(-0.5 * z**2 - 0.5 * np.log(2 * np.pi) - log_ndtr(z))
    log_Z, d, D = tilted(likelihoods.Bernoulli(), LABELS, mean, v)
    np.testing.assert_allclose(log_Z, log_ndtr(z), rtol=1e-10)
    np.testing.assert_allclose(d, LABELS * ratio / np.sqrt(1 + v), rtol=1e-9)
    np.testing.assert_allclose(D, ratio * (z + ratio) / (1 + v), rtol=1e-8)


def test_informative_vector_machine():
    """Two classes: after each inclusion mean and variance are those of the sites taken so far;
    the score is -1/2 log(1 - nu v).
    """
    likelihood = likelihoods.Bernoulli()
    chosen = select(GP, X, LABELS, M, "entropy", likelihood=likelihood)
    state = _Posterior(_Columns(GP, X), np.full(N, 0.4), LABELS, likelihood, M, "entropy")
    rest, centre, W, g = np.ones(N, bool), np.zeros(N), np.zeros(N), np.zeros(N)
    for j in chosen:
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
    chosen = select(GP, X, y, 10, "information", likelihood=likelihoods.StudentT(3.0, 0.2))
    assert 4 not in chosen and len(chosen) == 10


# ------------------------------------------------------------------------------------------------- random,
# clusters


def test_biased():
    """Uniform for a stationary kernel (Drineas and Mahoney); a dot-product kernel prefers large norms."""
    np.testing.assert_array_equal(
        select(GP, X, None, M, "biased", seed=3),
        np.random.default_rng(3).choice(N, M, replace=False, p=np.full(N, 1 / N)),
    )
    Z = X.copy()
    Z[:20] = 0.0
    linear = mc.GP(k.Linear([1.0, 1.0]))
    assert np.all(select(linear, Z, None, 10, "biased") >= 20)
    first = np.array([select(linear, X, None, 1, "biased", seed=s)[0] for s in range(300)])
    weight = np.sum(X**2, 1) ** 2
    assert abs(np.mean(weight[first]) - np.sum(weight**2) / weight.sum()) < 4 * np.std(
        weight[first]
    ) / np.sqrt(300)
    with pytest.raises(ValueError, match="only 10 data have prior variance"):
        select(linear, Z, None, 11, "biased")


def test_clusters():
    """Well separated clouds: one centre and one datum for each, in units of the length-scales."""
    clouds = np.repeat(np.array([[0.0, 0.0], [4.0, 0.0], [0.0, 400.0], [4.0, 400.0]]), 15, 0)
    Z = clouds + np.random.default_rng(0).normal(size=(60, 2)) * [0.1, 10.0]
    gp = mc.GP(k.SE([1.0, 100.0]))
    found = inducing(Z, 4, prior=gp)
    order = np.lexsort((found[:, 0] > 2, found[:, 1] > 200))
    np.testing.assert_allclose(found[order], [Z[i : i + 15].mean(0) for i in range(0, 60, 15)], rtol=1e-10)
    np.testing.assert_array_equal(np.sort(select(gp, Z, None, 4, "kmeans") // 15), np.arange(4))
    np.testing.assert_allclose(scaled(Z, gp), Z / [1.0, 100.0])
    np.testing.assert_allclose(scaled(Z).std(0), 1.0)


def test_clusters_of_many_and_of_coinciding_inputs():
    """A sample of 20 m rows is clustered; where there are just m distinct inputs, those are the centres."""
    Z = np.random.default_rng(0).normal(size=(3000, 3))
    found = inducing(Z, 8)
    assert found.shape == (8, 3)
    np.testing.assert_array_equal(found, inducing(Z, 8))
    grid = np.repeat(np.arange(5.0)[:, None], 1000, 0)
    np.testing.assert_allclose(np.sort(inducing(grid, 5)[:, 0]), np.arange(5.0), atol=1e-14)
    assert len(np.unique(grid[select(GP, grid, None, 5, "kmeans")])) == 5
    with pytest.raises(ValueError, match="only 5 distinct inputs"):
        inducing(grid, 6)
    np.testing.assert_array_equal(centres(np.zeros((3, 1)), 1, rng), [[0.0]])


@pytest.mark.parametrize("how", HOW)
def test_all_ways(how):
    """m distinct indices, the same for the same seed."""
    rows = [select(GP, X, Y, M, how, noise_variance=NOISE, seed=1) for _ in range(2)]
    np.testing.assert_array_equal(*rows)
    assert rows[0].shape == (M,) and len(set(rows[0])) == M and rows[0].min() >= 0 and rows[0].max() < N
    assert inducing(X, M, how, GP, Y, NOISE).shape == (M, 2)


def test_errors():
    for args, match in [
        ((GP, X, Y, M, "best"), "unknown selection 'best'; there are"),
        ((GP, X, Y, 0, "random"), "between 1 and 30"),
        ((GP, X, Y, N + 1, "pivoted"), "cannot select 31 of 30"),
        ((GP, X, None, M, "evidence", 0.1), "looks at the targets"),
        ((GP, X, Y, M, "entropy"), "give noise_variance"),
        ((GP, X, Y, M, "matching"), "give noise_variance"),
        ((GP, X, Y, M, "matching", np.ones(3)), "one for each of the 30"),
        ((GP, X, Y, M, "entropy", -1.0), ">= 0"),
        ((GP, X, Y, M, "trace", None, None, 0, 0), "candidates must be 1"),
    ]:
        with pytest.raises(ValueError, match=match):
            select(*args)
    with pytest.raises(SolverError, match="Softmax has several"):
        select((GP, GP, GP), X, Y, M, "entropy", likelihood=likelihoods.Softmax(3))
    assert len(select((GP, GP, GP), X, Y, M, "pivoted")) == M
    with pytest.raises(ValueError, match="give prior"):
        inducing(X, M, "pivoted")
    with pytest.raises(ValueError, match="cannot make 31 clusters"):
        inducing(X, N + 1)
    with pytest.raises(SolverError, match="numeric inputs"):
        inducing(np.array([["a"], ["b"]], dtype=object), 1)


def test_columns_over_several_strips():
    """Columns of a matrix that needs more than one call each are those of the kernel."""
    Z = np.random.default_rng(0).normal(size=(4200, 2))
    columns = _Columns(GP, Z)
    rows = [0, 17, 4199]
    np.testing.assert_allclose(columns(rows), GP.kernel(Z, Z[rows]), rtol=1e-13)
    np.testing.assert_allclose(columns([4150])[:, 0], GP.kernel(Z, Z[[4150]])[:, 0], rtol=1e-13)
    np.testing.assert_allclose(columns.diagonal, 1.3, rtol=1e-13)
