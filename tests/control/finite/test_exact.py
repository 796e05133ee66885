"""Values and best policies of finite processes, beside linear systems, linear programming and each other."""

import numpy as np
import pytest
from scipy.optimize import linprog

from mercer.control import (
    ControlError,
    FiniteProcess,
    policy_iteration,
    policy_value,
    q_values,
    value_iteration,
)


def random_process(S=6, A=3, gamma=0.9, seed=0):
    rng = np.random.default_rng(seed)
    P = rng.dirichlet(np.full(S, 0.5), (S, A))
    return FiniteProcess(P, rng.standard_normal((S, A, S)), gamma)


def corridor(length=6, gamma=1.0, step=-1.0):
    """Left or right, one step at a time; the right end is never left. Each step costs one."""
    P, r = np.zeros((length, 2, length)), np.full((length, 2, length), step)
    for s in range(length - 1):
        P[s, 0, max(s - 1, 0)] = P[s, 1, s + 1] = 1.0
    P[-1, :, -1], r[-1] = 1.0, 0.0
    return FiniteProcess(P, r, gamma)


def test_two_states_that_take_turns():
    """T-MD: 1 / (1 - gamma^2) and gamma times it."""
    cycle = FiniteProcess([[[0, 1]], [[1, 0]]], r=[1, 0], gamma=0.9)
    for method in ("solve", "iterate"):
        np.testing.assert_allclose(policy_value(cycle, [0, 0], method), [5.26315789, 4.73684211], atol=1e-8)
    assert cycle.average_reward([0, 0]) == pytest.approx(0.5)


def test_values_solve_the_linear_system():
    process, rng = random_process(), np.random.default_rng(1)
    policy = rng.dirichlet(np.ones(3), 6)
    T = np.einsum("sa,sat->st", policy, process.P)
    r = np.einsum("sa,sat,sat->s", policy, process.P, process.r)
    v = policy_value(process, policy)
    np.testing.assert_allclose(v, np.linalg.solve(np.eye(6) - 0.9 * T, r), atol=1e-12)
    np.testing.assert_allclose(policy_value(process, policy, "iterate"), v, atol=1e-9)
    np.testing.assert_allclose(np.sum(policy * q_values(process, v), 1), v, atol=1e-12)  # (7.8)


def test_a_sweep_is_a_contraction():
    process, rng = random_process(), np.random.default_rng(2)
    one, two = rng.standard_normal((2, 6))
    before, after = (
        np.abs(one - two).max(),
        np.abs(q_values(process, one).max(1) - q_values(process, two).max(1)),
    )
    assert after.max() <= 0.9 * before


@pytest.mark.parametrize("seed", range(3))
def test_policies_values_and_a_linear_programme_agree(seed):
    process = random_process(seed=seed)
    found, swept = policy_iteration(process), value_iteration(process)
    np.testing.assert_array_equal(found.policy, swept.policy)
    np.testing.assert_allclose(found.value, swept.value, atol=1e-9)
    assert (np.diff(found.history, axis=0) >= -1e-12).all()  # values never fall
    other = policy_iteration(process, policy=np.full(6, 2))
    np.testing.assert_array_equal(found.policy, other.policy)
    S, A = process.shape  # least v with v >= r + gamma P v
    rows = (0.9 * process.P - np.eye(S)[:, None, :]).reshape(S * A, S)
    least = linprog(np.ones(S), rows, -process.expected_reward.ravel(), bounds=(None, None))
    np.testing.assert_allclose(found.value, least.x, atol=1e-6)


def test_walks_to_a_last_state_need_no_discount():
    process = corridor()
    found = policy_iteration(process, policy=np.ones(6, int))
    np.testing.assert_allclose(found.value, [-5, -4, -3, -2, -1, 0])
    np.testing.assert_allclose(value_iteration(process).value, found.value)
    half = np.full((6, 2), 0.5)
    v = policy_value(process, half)
    np.testing.assert_allclose(
        v[0], -(5.0 * 6.0), atol=1e-9
    )  # a random walk off a wall takes L (L + 1) steps
    with pytest.raises(ControlError, match="not finite"):
        policy_value(process, np.zeros(6, int))
    walk = process.walk(np.ones(6, int), 100, start=2)
    np.testing.assert_array_equal(walk.states, [2, 3, 4, 5])


def test_actions_that_are_not_allowed_are_not_taken():
    process = random_process()
    allowed = np.ones((6, 3), bool)
    allowed[np.arange(6), policy_iteration(process).policy] = False
    less = FiniteProcess(process.P, process.r, 0.9, allowed)
    found = policy_iteration(less)
    assert (
        allowed[np.arange(6), found.policy].all() and (found.value <= policy_iteration(process).value).all()
    )
    with pytest.raises(ControlError, match=r"takes action . in state 0, where it is not allowed"):
        policy_value(less, policy_iteration(process).policy)


def test_tables_of_gymnasium():
    table = {
        0: {0: [(0.5, 1, 2.0, True), (0.5, 0, 0.0, False)], 1: [(1.0, 0, 0.1, False)]},
        1: {0: [(1.0, 1, 0.0, True)], 1: [(1.0, 1, 0.0, True)]},
    }
    process = FiniteProcess.of_table(table, gamma=0.5)
    np.testing.assert_allclose(policy_value(process, [0, 0]), [1.0 / 0.75, 0.0])
    assert process.absorbing.tolist() == [False, True]


def test_what_is_no_process_is_named():
    P = np.full((2, 1, 2), 0.5)
    with pytest.raises(ControlError, match="shape"):
        FiniteProcess(P[0], [0, 0], 0.9)
    with pytest.raises(ControlError, match="action 0 in state 0"):
        FiniteProcess(0.9 * P, [0, 0], 0.9)
    with pytest.raises(ControlError, match="gamma"):
        FiniteProcess(P, [0, 0], 1.1)
    with pytest.raises(ControlError, match="r is finite"):
        FiniteProcess(P, [0, np.nan], 0.9)
    with pytest.raises(ControlError, match="a policy is 2 actions below 1"):
        policy_value(FiniteProcess(P, [0, 0], 0.9), [0, 1])
