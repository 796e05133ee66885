"""The recursions: any way of cutting gives the plain result;
logarithms where scaled numbers would underflow.
"""

from __future__ import annotations

import numpy as np
import pytest

from mercer.em import logspace
from mercer.em.forward import Chunks, chunk_length, filtered, smooth


def problem(T=200, N=4, seed=0, spread=2.0):
    rng = np.random.default_rng(seed)
    return rng.dirichlet(np.ones(N)), rng.dirichlet(np.ones(N), N), -spread * rng.exponential(size=(N, T))


def plain(initial, transition, log_b):
    """Unscaled recursions in extended precision, one sequence."""
    b = np.exp(log_b.astype(np.longdouble))
    N, T = b.shape
    alpha, beta = np.zeros((T, N), np.longdouble), np.ones((T, N), np.longdouble)
    alpha[0] = initial * b[:, 0]
    for t in range(1, T):
        alpha[t] = (alpha[t - 1] @ transition) * b[:, t]
    for t in range(T - 2, -1, -1):
        beta[t] = transition @ (b[:, t + 1] * beta[t + 1])
    total = alpha[-1].sum()
    xi = sum(np.outer(alpha[t], b[:, t + 1] * beta[t + 1]) * transition for t in range(T - 1)) / total
    return (alpha * beta / total).T, xi, np.log(total), alpha, beta


def in_slots(log_b, chunks):
    out = np.zeros((len(log_b), chunks.index.size))
    out[:, chunks.back] = log_b
    return out


@pytest.mark.parametrize("length", [1, 2, 7, 32, 100, 199, 200, None])
def test_chunks_of_any_length_give_the_plain_result(length):
    initial, transition, log_b = problem()
    gamma, xi, total, alpha, beta = plain(initial, transition, log_b)
    np.testing.assert_allclose(np.float64((alpha * beta).sum(1) / (alpha * beta)[0].sum()), 1.0, rtol=1e-13)
    chunks = Chunks([200], 4, length)
    found = smooth(initial, transition, in_slots(log_b, chunks), chunks)
    np.testing.assert_allclose(found.gamma[:, chunks.back], gamma.astype(float), rtol=1e-11)
    np.testing.assert_allclose(found.transitions, xi.astype(float), rtol=1e-11)
    assert found.log_likelihood[0] == pytest.approx(float(total), rel=1e-13)
    alone = filtered(initial, transition, in_slots(log_b, chunks), chunks)
    np.testing.assert_allclose(alone[0], found.alpha, rtol=1e-14)


@pytest.mark.parametrize("length", [3, 10, None])
def test_sequences_side_by_side_are_those_one_by_one(length):
    initial, transition, log_b = problem(61)
    lengths = [1, 20, 7, 33]
    chunks = Chunks(lengths, 4, length)
    found = smooth(initial, transition, in_slots(log_b, chunks), chunks)
    ends = np.cumsum(lengths)
    parts = [plain(initial, transition, log_b[:, e - n : e]) for n, e in zip(lengths, ends, strict=True)]
    np.testing.assert_allclose(
        found.gamma[:, chunks.back], np.concatenate([p[0] for p in parts], 1).astype(float), rtol=1e-11
    )
    np.testing.assert_allclose(found.transitions, sum(p[1] for p in parts).astype(float), rtol=1e-11)
    np.testing.assert_allclose(found.log_likelihood, [float(p[2]) for p in parts], rtol=1e-12)


def test_logarithms_give_the_same():
    initial, transition, log_b = problem(90)
    chunks = Chunks([50, 40], 4, 9)
    a, b = (f(initial, transition, in_slots(log_b, chunks), chunks) for f in (smooth, logspace.smooth))
    np.testing.assert_allclose(a.gamma[:, chunks.back], b.gamma[:, chunks.back], rtol=1e-10)
    np.testing.assert_allclose(a.transitions, b.transitions, rtol=1e-10)
    np.testing.assert_allclose(a.log_likelihood, b.log_likelihood, rtol=1e-12)
    np.testing.assert_allclose(
        logspace.filtered(initial, transition, in_slots(log_b, chunks), chunks)[0][:, chunks.back],
        a.alpha[:, chunks.back],
        rtol=1e-10,
    )


@pytest.mark.parametrize("length", [2, 5, 12])
def test_steps_far_below_the_smallest_number_are_exact(length):
    """Two states that cannot be left, and an observation e^2000 times more probable in the one the data are
    not in.
    """
    initial, transition = np.array([1.0, 0.0]), np.array([[1.0, 0.0], [0.0, 1.0]])
    log_b = np.zeros((2, 12))
    log_b[0, 5], log_b[1, 5] = -2000.0, 0.0
    chunks = Chunks([12], 2, length)
    found = smooth(initial, transition, in_slots(log_b, chunks), chunks)
    assert found.log_likelihood[0] == pytest.approx(-2000.0, rel=1e-13)
    np.testing.assert_array_equal(found.gamma[0, chunks.back], 1.0)
    assert filtered(initial, transition, in_slots(log_b, chunks), chunks)[1][0] == pytest.approx(
        -2000.0, rel=1e-13
    )


def test_an_impossible_step_is_minus_infinity():
    initial, transition, log_b = problem(20)
    log_b[:, 7] = -np.inf
    chunks = Chunks([10, 10], 4)
    np.testing.assert_array_equal(
        np.isneginf(filtered(initial, transition, in_slots(log_b, chunks), chunks)[1]), [True, False]
    )


def test_forgetful_and_unforgetting_chains_are_linked_alike():
    for stay in (0.0, 0.999999):
        N, T = 3, 400
        transition = stay * np.eye(N) + (1 - stay) / N
        _, _, log_b = problem(T, N, spread=0.3)
        initial = np.array([0.98, 0.01, 0.01])
        whole, cut = Chunks([T], N, T), Chunks([T], N, 16)
        a, b = (smooth(initial, transition, in_slots(log_b, c), c) for c in (whole, cut))
        np.testing.assert_allclose(b.gamma[:, cut.back], a.gamma[:, whole.back], rtol=1e-10)
        np.testing.assert_allclose(a.transitions, b.transitions, rtol=1e-9)


def test_a_million_steps():
    """A chain of two states with a known likelihood: emissions do not depend on the state."""
    T = 1_000_000
    chunks = Chunks([T], 2)
    steps = np.random.default_rng(0).normal(size=T) - 3.0
    found = smooth(
        np.array([0.5, 0.5]),
        np.array([[0.9, 0.1], [0.1, 0.9]]),
        in_slots(np.stack([steps, steps]), chunks),
        chunks,
    )
    assert found.log_likelihood[0] == pytest.approx(steps.sum(), rel=1e-12)
    np.testing.assert_allclose(found.transitions / (T - 1), [[0.45, 0.05], [0.05, 0.45]], rtol=1e-9)


def test_short_sequences_are_not_cut():
    assert chunk_length(np.full(1000, 100), 8) == 100
    assert chunk_length(np.array([100_000]), 8) <= 100_000 // 16  # side by side
