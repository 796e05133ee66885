"""What is learned from steps comes to what is computed from the process."""

import numpy as np
import pytest

from mercer import control
from mercer.control import Beliefs, ControlError, FiniteProcess, policy_iteration, policy_value
from tests.control.finite.test_exact import corridor, random_process


@pytest.fixture(scope="module")
def process():
    return random_process(S=4, A=2, gamma=0.8)


def test_temporal_differences_come_to_the_value(process):
    policy = np.array([0, 1, 0, 1])
    v = policy_value(process, policy)
    for trace in (0.0, 0.7):
        found = control.temporal_differences(process, policy, steps=20_000, trace=trace, seed=1)
        assert np.abs(found - v).max() < 0.1 * np.abs(v).max()


def test_a_trace_of_one_is_the_return():
    """Along one walk to the end, TD(1) at rate one puts every state at the sum of what followed."""
    process = corridor(5)
    process = FiniteProcess(process.P, process.r, 1.0, start=np.eye(5)[0])
    found = control.temporal_differences(process, np.ones(5, int), steps=4, trace=1.0, rate=1.0)
    np.testing.assert_allclose(found, [-4, -3, -2, -1, 0])
    without = control.temporal_differences(process, np.ones(5, int), steps=4, rate=1.0)
    np.testing.assert_allclose(without, [-1, -1, -1, -1, 0])


def test_q_learning_finds_the_best_actions(process):
    best = policy_iteration(process)
    found = control.q_learning(process, steps=20_000, exploration=0.3, seed=0)
    np.testing.assert_array_equal(found.policy, best.policy)
    assert np.abs(found.q - best.q).max() < 0.15 * np.abs(best.q).max()
    assert found.visits.sum() == 20_000 == len(found.rewards)


def test_sarsa_values_what_it_does(process):
    """Under steady exploration it comes to the values of the policy that explores, not of the best."""
    found = control.sarsa(process, steps=20_000, exploration=0.5, trace=0.3, seed=0)
    greedy = policy_iteration(process).policy
    explores = 0.5 * np.eye(2)[greedy] + 0.25
    q = control.q_values(process, policy_value(process, explores))
    assert np.abs(found.q - q).max() < 0.15 * np.abs(q).max()


def test_dyna_needs_fewer_real_steps():
    """A reward at the far end of a corridor: one that thinks finds the way again sooner."""
    process = corridor(8, gamma=0.95, step=0.0)
    r = np.zeros((8, 2, 8))
    r[6, 1, 7] = 1.0
    process = FiniteProcess(process.P, r, 0.95, start=np.eye(8)[0])

    def steps_of_five_walks(simulated):
        """After the first, which finds the reward by chance."""
        ends = [
            np.flatnonzero(control.dyna(process, 400, simulated, rate=0.5, seed=seed).rewards)
            for seed in range(5)
        ]
        return np.mean([at[5] - at[0] for at in ends])

    assert steps_of_five_walks(simulated=20) < 0.5 * steps_of_five_walks(simulated=0)


def test_functions_of_single_states_are_tables(process):
    """(7.33) with one weight for each state is (7.15)."""
    walk = process.walk(np.array([0, 1, 0, 1]), 200, seed=3)
    v = np.zeros(4)
    for s, r, after in zip(walk.states[:-1], walk.rewards, walk.states[1:], strict=True):
        v[s] += 0.1 * (r + 0.8 * v[after] - v[s])
    found = control.function_differences(
        lambda w, s: w[s], np.zeros(4), walk.states[:-1], walk.rewards, walk.states[1:], gamma=0.8, rate=0.1
    )
    np.testing.assert_allclose(found, v, atol=1e-12)
    with pytest.raises(ControlError, match="grew out of bounds in 200 steps"):
        control.function_differences(
            lambda w, s: 9.0 * w[s], np.zeros(4), walk.states[:-1], walk.rewards, walk.states[1:], 0.8, 0.9
        )


def test_beliefs_count_what_was_seen(process):
    walk = process.walk(np.full((4, 2), 0.5), 300, seed=0)
    beliefs = Beliefs.prior(4, 2, 0.8, rewards=process.r).after(*walk)
    seen = np.zeros((4, 2, 4))
    np.add.at(seen, (walk.states[:-1], walk.actions, walk.states[1:]), 1.0)
    expected = (seen + 0.25) / (seen.sum(2, keepdims=True) + 1.0)
    np.testing.assert_allclose(beliefs.mean().P, expected)
    draws = np.array([beliefs.sample(seed).P for seed in range(400)])
    total = seen.sum(2, keepdims=True) + 1.0
    np.testing.assert_allclose(draws.mean(0), expected, atol=0.03)
    np.testing.assert_allclose(draws.var(0), expected * (1 - expected) / (total + 1.0), atol=0.01)
    unknown = Beliefs.prior(4, 2, 0.8, noise_std=2.0).after(*walk)
    n = seen.sum(2)
    mean = unknown.sums / (n + 4.0)  # precisions 1 of the prior and 1/4 of every reward
    np.testing.assert_allclose(unknown.mean().r, np.broadcast_to(mean[:, :, None], (4, 2, 4)))


def test_more_is_known_of_the_best_action_after_more_steps(process):
    best = policy_iteration(process).policy
    sure = []
    for steps in (0, 6000):
        walk = process.walk(np.full((4, 2), 0.5), steps, seed=0)
        beliefs = Beliefs.prior(4, 2, 0.8, rewards=process.r).after(*walk)
        chances = beliefs.best_actions(draws=60, seed=0)
        np.testing.assert_allclose(chances.sum(1), 1.0)
        sure.append(chances[np.arange(4), best].mean())
    assert sure[1] > 0.95 > sure[0]


def test_posterior_sampling_loses_little(process):
    found = control.posterior_sampling(
        process, Beliefs.prior(4, 2, 0.8, rewards=process.r), steps=1000, seed=0
    )
    assert (np.diff(found.regret) >= 0).all()
    best = policy_iteration(process)
    walk = process.walk(np.full((4, 2), 0.5), 1000, seed=0)
    at_random = (best.value[:, None] - best.q)[walk.states[:-1], walk.actions].sum()
    assert found.regret[-1] < 0.3 * at_random


def test_the_index_of_an_arm():
    """Gittins' table: equal counts of one, and of two and one."""
    assert control.gittins_index(1, 1, 0.9) == pytest.approx(0.7029, abs=2e-4)
    assert control.gittins_index(1, 1, 0.5) == pytest.approx(0.5590, abs=2e-4)
    assert control.gittins_index(2, 1, 0.0) == pytest.approx(2 / 3, abs=1e-5)


def test_rates():
    assert control.robbins_monro(1.0)(4) == 0.25
    with pytest.raises(ControlError, match=r"above 0\.5"):
        control.robbins_monro(0.5)
    with pytest.raises(ControlError, match="a rate is above 0"):
        control.q_learning(corridor(), steps=1, rate=2.0)
