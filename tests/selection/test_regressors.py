"""Columns that explain the rest: what is built up equals a fresh computation. GPML 8.1, (8.17)-(8.18)."""

import numpy as np
import pytest

from mercer.selection import Entropy, Evidence, Matching, Pivoted, Pool, Random, Residual, Trace
from mercer.selection.columns import Columns
from mercer.selection.regressors import Regressors, Spanned, log_evidence, quadratic

from .problem import GP, NOISE, POOL, K, M, N, R, X, Y, gain, low_rank, value

STATES = {
    "trace": lambda: Spanned(POOL.columns, M),
    "residual": lambda: Regressors(POOL.columns, M, R, np.ones(N), 0.0, quadratic),
    "matching": lambda: Regressors(POOL.columns, M, R, np.full(N, NOISE**-0.5), 1.0, quadratic),
    "evidence": lambda: Regressors(POOL.columns, M, R, np.full(N, NOISE**-0.5), 1.0, log_evidence),
}


@pytest.mark.parametrize(
    "chosen", [cls(candidates=None) for cls in (Trace, Residual, Matching, Evidence)], ids=str
)
def test_every_step_takes_the_best_column(chosen):
    """Each score is the gain of its criterion, recomputed, and the best is taken."""
    state = STATES[chosen.name]()
    rest = list(range(N))
    for j in chosen.rows(POOL, M):
        gains = np.array([gain(chosen.name, state.active, i) for i in rest])
        np.testing.assert_allclose(state.scores(np.array(rest)), gains, rtol=1e-8, atol=1e-9)
        assert rest[int(np.argmax(gains))] == j
        state.include(j)
        rest.remove(j)
    span = state if chosen.name == "trace" else state.span
    np.testing.assert_allclose(span.V.T @ span.V, low_rank(state.active), atol=1e-11)
    np.testing.assert_allclose(span.variance, np.diag(K - low_rank(state.active)), atol=1e-11)
    if chosen.name in ("matching", "evidence"):
        G = np.linalg.inv(low_rank(state.active) + NOISE * np.eye(N))
        np.testing.assert_allclose(np.eye(N) - state.F.T @ state.F, NOISE * G, atol=1e-11)
        np.testing.assert_allclose(state.e, np.sqrt(NOISE) * G @ R, atol=1e-11)


def test_quadratic_identity():
    """(8.18): residual and prior terms of the subset of regressors make up the quadratic form that "matching"
    lowers.
    """
    active = Matching().rows(POOL, M)
    Knm, Kmm = K[:, active], K[np.ix_(active, active)]
    a = np.linalg.solve(Knm.T @ Knm + NOISE * Kmm, Knm.T @ R)
    assert np.sum((R - Knm @ a) ** 2) / NOISE + a @ Kmm @ a == pytest.approx(
        -value("matching", active), rel=1e-10
    )


def test_pivoted():
    """Pivots are the largest residual variances;
    what is left is the trace of K minus that of its approximation.
    """
    chosen = Pivoted().rows(POOL, M)
    for i in range(M):
        residual = np.diag(K) - (np.diag(low_rank(chosen[:i])) if i else 0.0)
        assert residual[chosen[i]] == pytest.approx(residual.max(), rel=1e-10)


def test_greedy_beats_random():
    """The trace of K - K~ after greedy steps is below that of random subsets,
    and a working set of 10 is nearly as good as all.
    """
    random = np.mean([value("trace", Random().rows(POOL, M, seed=s)) for s in range(20)])
    greedy = value("trace", Trace(candidates=None).rows(POOL, M))
    some = np.mean([value("trace", Trace(candidates=10).rows(POOL, M, seed=s)) for s in range(5)])
    assert random < value("trace", Pivoted().rows(POOL, M)) < 0
    assert random < some <= greedy


def test_noise_for_each_datum():
    """Weights of the data enter "evidence" and "entropy": those with huge noise explain nothing."""
    noise = np.where(np.arange(N) < 15, 0.05, 1e6)
    assert np.all(Entropy().rows(Pool(GP, X, Y, noise), M) < 15)
    state = Regressors(POOL.columns, M, R, noise**-0.5, 1.0, log_evidence)
    state.include(3)
    S = low_rank([3]) + np.diag(noise)
    np.testing.assert_allclose(state.e, np.linalg.solve(S, R) * np.sqrt(noise), rtol=1e-9, atol=1e-11)


def test_dependent_columns_are_left_out():
    """Three distinct inputs give three columns, however many are asked for."""
    Z = np.repeat(np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 2.0]]), 4, 0)
    pool = Pool(GP, Z, np.arange(12.0), 0.1)
    for selection in (Pivoted(), Trace(), Matching(), Evidence(), Residual()):
        chosen = selection.rows(pool, 5)
        assert len(chosen) == 3 and len(np.unique(Z[chosen], axis=0)) == 3
    assert len(Entropy().rows(pool, 5)) == 5


def test_columns_over_several_strips():
    """Columns of a matrix that needs more than one call each are those of the kernel."""
    Z = np.random.default_rng(0).normal(size=(4200, 2))
    columns = Columns(GP.kernel, Z)
    rows = [0, 17, 4199]
    np.testing.assert_allclose(columns(rows), GP.kernel(Z, Z[rows]), rtol=1e-13)
    np.testing.assert_allclose(columns([4150])[:, 0], GP.kernel(Z, Z[[4150]])[:, 0], rtol=1e-13)
    np.testing.assert_allclose(columns.diagonal, 1.3, rtol=1e-13)
