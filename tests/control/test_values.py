"""Values as Gaussian processes: closed forms beside draws, systems beside tables, a toy beside a grid."""

import equinox as eqx
import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
import pytest

from mercer import control, kernels, viz
from mercer.control import AbstractSystem, Bumps, ControlError, Smooth

MEAN, S = jnp.array([0.3, -0.2]), jnp.array([[0.05, 0.02], [0.02, 0.04]])


def halves(state, action):
    """A toy: s' = s / 2 + a, a little blurred."""
    return 0.5 * state + action, 1e-6 * jnp.eye(1)


@pytest.fixture(scope="module")
def draws():
    rng = np.random.default_rng(0)
    half = rng.multivariate_normal(np.zeros(2), S, 100_000)
    return np.concatenate([MEAN + half, MEAN - half])


def test_expected_rewards_are_averages_over_draws(draws):
    rewards = {
        "bumps": Bumps(
            kernels.SE([0.5, 0.4], 1.0), jnp.array([[0.0, 0.0], [0.4, 0.1]]), jnp.array([1.0, -0.5])
        ),
        "one column": Bumps.at([0.6, 0.0], 0.3, height=2.0, columns=[1]),
        "parabola": Smooth(lambda s: 1.0 - (s[0] - 0.6) ** 2 - 0.5 * s[0] * s[1]),
    }
    other = Bumps.at([0.2, 0.1], 0.4)
    for name, reward in rewards.items():
        values, others = np.asarray(jax.vmap(reward)(draws)), np.asarray(jax.vmap(other)(draws))

        @jax.jit
        def averages(mean, covariance, reward=reward):
            product = reward.expected_with(other, mean, covariance)
            return reward.expected(mean, covariance), reward.expected_square(mean, covariance), product

        mean, square, product = averages(MEAN, S)
        np.testing.assert_allclose(mean, values.mean(), atol=2e-3)
        np.testing.assert_allclose(square, (values**2).mean(), atol=2e-3)
        # of a parabola as if it were straight
        np.testing.assert_allclose(
            product, (values * others).mean(), atol=0.03 if name == "parabola" else 2e-3
        )


def test_gradients_of_expected_rewards():
    reward = Bumps.at([0.6, 0.0], [0.3, 0.5])

    @jax.jit
    def value(mean, covariance):
        return reward.expected(mean, covariance)

    slope, by_covariance = jax.jit(jax.grad(value, (0, 1)))(MEAN, S)
    bend = jax.jit(jax.hessian(value))(MEAN, S)
    for i, step in enumerate(1e-5 * np.eye(2)):
        by_hand = (value(MEAN + step, S) - value(MEAN - step, S)) / 2e-5
        np.testing.assert_allclose(slope[i], by_hand, rtol=1e-6)
    np.testing.assert_allclose(by_covariance, 0.5 * bend, atol=1e-10)  # the heat equation


def test_values_without_a_future_are_rewards():
    support = np.linspace(-2, 2, 9)[:, None]
    reward = Bumps.at([1.0], 0.5)
    v = control.gp_policy_value(halves, reward, support, np.zeros((9, 1)), kernels.SE([0.6], 1.0), gamma=0.0)
    expected = [reward.expected(0.5 * s, 1e-6 * jnp.eye(1)) for s in support]
    np.testing.assert_allclose(v, expected, atol=1e-12)


def test_values_on_states_that_lead_to_each_other_are_those_of_a_table():
    """(7.38) becomes (7.12) where every next state is a support state and nothing is noisy."""
    rng = np.random.default_rng(0)
    support = np.arange(5.0)[:, None]
    to = rng.integers(5, size=5)
    P = np.eye(5)[to][:, None]
    places = jnp.asarray(support[to])

    def jump(state, action):
        return places[jnp.round(state[0]).astype(int)], jnp.zeros((1, 1))

    reward = Bumps(kernels.SE([0.05], 1.0), jnp.asarray(support), jnp.asarray(rng.standard_normal(5)))
    paid = np.asarray(jax.vmap(reward)(support))
    process = control.FiniteProcess(P, paid[to], gamma=0.9)
    for kernel in (kernels.SE([0.7], 1.0), kernels.SE([0.2], 3.0)):
        v = control.gp_policy_value(jump, reward, support, np.zeros((5, 1)), kernel, 0.9, noise_std=1e-6)
        np.testing.assert_allclose(v, control.policy_value(process, np.zeros(5, int)), atol=1e-6)


def test_random_policies_and_mixtures_are_weighed_sums():
    """A policy that draws its action, and a transition that is a mixture, are the same thing."""
    support, kernel, reward = np.linspace(-2, 2, 9)[:, None], kernels.SE([0.6], 1.0), Bumps.at([0.5], 0.4)

    def either(state, action):
        means = jnp.stack([0.5 * state - 0.3, 0.5 * state + 0.6])
        return means, jnp.full((2, 1, 1), 1e-6), jnp.array([0.25, 0.75])

    drawn = (np.tile([[[-0.3], [0.6]]], (9, 1, 1)), np.tile([[0.25, 0.75]], (9, 1)))
    one = control.gp_policy_value(halves, reward, support, drawn, kernel)
    two = control.gp_policy_value(either, reward, support, np.zeros((9, 1)), kernel)
    np.testing.assert_allclose(one, two, atol=1e-10)
    taken, shares = control.gaussian_actions(np.zeros((9, 1)), 0.2, -5.0, 5.0)
    np.testing.assert_allclose(np.sum(shares[0] * taken[0, :, 0] ** 2), 0.04)


class Halves(eqx.Module):
    """The toy as a module of arrays, as dynamics that are learned would be."""

    factor: jax.Array

    def __call__(self, state, action):
        return self.factor * state + action, 1e-6 * jnp.eye(1)


@pytest.fixture(scope="module")
def found():
    support = np.linspace(-2, 2, 21)[:, None]
    return control.gp_policy_iteration(
        Halves(jnp.array(0.5)), Bumps.at([1.0], 0.3), support, [-0.6], [0.6], gamma=0.8, progress=False
    )


def test_a_toy_comes_to_what_a_fine_grid_says(found):
    """s' = s / 2 + a with |a| <= 0.6, a bump at 1: value iteration on 401 states and 61 actions."""
    states, actions = np.linspace(-2, 2, 401), np.linspace(-0.6, 0.6, 61)
    after = 0.5 * states[:, None] + actions
    paid, v = np.exp(-0.5 * ((after - 1.0) / 0.3) ** 2), np.zeros(401)
    for _ in range(100):
        v = (paid + 0.8 * np.interp(after, states, v)).max(1)
    assert found.converged and all(sweep.radius < 1.0 for sweep in found.history)
    np.testing.assert_allclose(found.values, np.interp(found.support[:, 0], states, v), atol=0.05 * v.max())
    assert found.values.max() <= 1.02 / (1.0 - 0.8)
    best = actions[(paid + 0.8 * np.interp(after, states, v)).argmax(1)]
    at = np.array([-1.5, -0.5, 0.3, 0.9, 1.4])
    np.testing.assert_allclose(found.act(at[:, None])[:, 0], np.interp(at, states, best), atol=0.08)
    np.testing.assert_allclose(found([0.3]), found.act([[0.3]])[0])
    residual = found.residual(found.support), found.residual(np.linspace(-1.95, 1.85, 20)[:, None])
    assert np.abs(residual[0]).max() < 0.02 * v.max() and np.abs(residual[1]).max() < 0.1 * v.max()
    between = found.value_std(np.array([[0.1]])), found.value_std(np.array([[5.0]]))
    assert between[0] < 0.05 * between[1]


def test_the_best_action_is_found_between_the_grid():
    grid = jnp.linspace(-1.0, 1.0, 5)[:, None]
    from mercer.control.bounded import best_action

    for top in (0.33, -0.95, 2.0):
        a, _ = best_action(lambda x: -jnp.cosh(3.0 * (x[0] - top)), grid, jnp.array([-1.0]), jnp.array([1.0]))  # noqa: B023
        assert a[0] == pytest.approx(np.clip(top, -1.0, 1.0), abs=1e-4)


def test_states_from_which_every_action_leaves_are_worth_nothing():
    def runs(state, action):
        return 2.0 * state + action, 1e-6 * jnp.eye(1)

    support = np.linspace(-1, 1, 11)[:, None]
    found = control.gp_policy_iteration(
        runs, Bumps.at([0.0], 0.2), support, [-0.25], [0.25], box=[[-1.0], [1.0]], progress=False
    )
    must = np.abs(support[:, 0]) > 0.625
    assert found.leaves[must].all() and not found.leaves[np.abs(support[:, 0]) < 0.5].any()
    assert np.abs(found.values[found.leaves]).max() < 1e-9


@pytest.mark.slow
def test_doubt_of_values_grows_with_that_of_the_next_state():
    support, reward = np.linspace(-2, 2, 15)[:, None], Bumps.at([1.0], 0.4)
    noises = []
    for std in (0.05, 0.3):
        found = control.gp_policy_iteration(
            lambda s, a, std=std: (0.5 * s + a, std**2 * jnp.eye(1)), reward, support, [-0.6], [0.6],
            gamma=0.8, bellman=True, max_iterations=4, progress=False,
        )  # fmt: skip
        noises.append(found.noise)
        i, rng = 7, np.random.default_rng(0)
        after = 0.5 * support[i] + found.actions[i] + std * rng.standard_normal((4000, 1))
        drawn = np.asarray(jax.vmap(reward)(after)) + 0.8 * (
            found.value(after) + found.value_std(after) * rng.standard_normal(4000)
        )
        assert found.noise[i] == pytest.approx(drawn.var(), rel=0.3, abs=2e-3)
    assert noises[1].mean() > 3.0 * noises[0].mean()


@pytest.mark.slow
def test_values_of_actions_come_to_the_same(found):
    states, actions = np.meshgrid(np.linspace(-2, 2, 17), np.linspace(-0.6, 0.6, 7), indexing="ij")
    by_actions = control.gp_q_iteration(
        Halves(jnp.array(0.5)), Bumps.at([1.0], 0.3), states.reshape(-1, 1), actions.reshape(-1, 1),
        [-0.6], [0.6], gamma=0.8, progress=False,
    )  # fmt: skip
    at = np.linspace(-1.8, 1.8, 9)[:, None]
    np.testing.assert_allclose(by_actions.value(at), found.value(at), atol=0.15 * found.values.max())
    np.testing.assert_allclose(by_actions([0.0]), found([0.0]), atol=0.1)


@pytest.mark.slow
def test_exploring_actions_cost_something(found):
    explores = control.gp_policy_iteration(
        Halves(jnp.array(0.5)), Bumps.at([1.0], 0.3), found.support, [-0.6], [0.6], gamma=0.8, action_std=0.3,
        progress=False,
    )  # fmt: skip
    assert (explores.values < found.values).all()
    drawn = np.array([explores.explore([0.0], seed)[0] for seed in range(50)])
    assert drawn.std() > 0.05 and np.abs(drawn).max() <= 0.6
    again = control.gp_policy_iteration(
        Halves(jnp.array(0.5)), Bumps.at([1.0], 0.3), found.support, [-0.6], [0.6], gamma=0.8, start=found,
        progress=False,
    )  # fmt: skip
    assert len(again.history) < len(found.history)


def test_values_beyond_what_rewards_allow_are_seen():
    from mercer.control.values import solved

    S, kernel = np.linspace(-1, 1, 5)[:, None], kernels.SE([0.5], 1.0)
    wild = 1.15 * np.asarray(kernel(S))  # what is wrong in values grows from step to step
    r = np.array([0.0, 0.0, 1.0, 0.0, 0.0])
    v, radius, beyond = solved(kernel, S, np.full(5, 1e-4), wild, r, 0.9, 0.0)
    assert beyond and radius > 1.0 and v.max() <= 10.001 and v.min() >= 0.0
    calm = solved(kernel, S, np.full(5, 1e-4), 0.5 * np.asarray(kernel(S)), r, 0.9, 0.0)
    assert not calm[2] and calm[1] < 1.0


def test_bad_input_is_named():
    support, reward = np.linspace(-1, 1, 5)[:, None], Bumps.at([0.0], 0.2)
    with pytest.raises(ControlError, match="gamma is from 0 to below 1"):
        control.gp_policy_iteration(halves, reward, support, [-1.0], [1.0], gamma=1.0)
    with pytest.raises(ControlError, match="every low below its high"):
        control.gp_policy_iteration(halves, reward, support, [1.0], [-1.0])
    with pytest.raises(ControlError, match=r"box is \(2, 1\)"):
        control.gp_policy_iteration(halves, reward, support, [-1.0], [1.0], box=[-1.0, 1.0])
    with pytest.raises(ControlError, match="a transition gives the mean"):
        control.gp_policy_iteration(lambda s, a: (s, s), reward, support, [-1.0], [1.0])


@pytest.mark.experiment
def test_the_car_is_identified_and_driven_up():
    """T-MC1 and, of one seed, T-MC3: 50 random transitions, and up it goes."""
    car = control.MountainCar()
    states, actions = car.draw(50, seed=0)
    after = car.advance(states, actions)
    seen = control.Transitions(states, actions, after, car.reward(after))
    dynamics = control.Dynamics.learn(car, seen, rewards=False)
    fresh, tried = car.draw(200, seed=99)
    mean, _ = dynamics.predict(fresh, tried)
    wrong = np.sqrt(np.mean((mean - car.advance(fresh, tried)) ** 2, 0))
    assert wrong[0] < 0.05 and wrong[1] < 0.4
    found = control.gp_policy_iteration(
        dynamics.plant, Bumps.at([0.6, 0.0], 0.05), control.support_grid(car.box, (19, 19)),
        car.low, car.high, gamma=0.9, box=car.box, max_iterations=8, progress=False,
    )  # fmt: skip
    episode = control.record(car, found, steps=20)
    assert episode.actions[0, 0] < 0.0 and episode.states[:, 0].max() > 0.5 and not episode.ended


class Drawn:
    """What maps ask of a policy."""

    support = control.support_grid([[-1.0, -2.0], [1.0, 2.0]], (3, 3))
    after = 0.5 * support
    leaves = np.abs(support[:, 0]) == 1.0

    def value(self, states):
        return states[:, 0]

    def act(self, states):
        return states[:, 1:]


def test_maps_of_a_policy():
    ax = viz.value_map(Drawn(), ylabel="speed")
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("state 1", "speed") and ax.get_xlim() == (-1.0, 1.0)
    grid = ax.collections[0].get_array().reshape(51, 51)  # rows are the second column of the state
    np.testing.assert_allclose(grid[0], np.linspace(-1, 1, 51))
    taken = viz.policy_map(Drawn()).collections[0].get_array().reshape(51, 51)
    np.testing.assert_allclose(taken[:, 0], np.linspace(-2, 2, 51))
    arrows = viz.transition_map(Drawn())
    assert arrows.collections[0].N == 3 and len(arrows.lines[0].get_xdata()) == 6
    with pytest.raises(ValueError, match="2 columns"):
        viz.value_map(Drawn(), columns=(0, 2))
    plt.close("all")


class Slider(AbstractSystem):
    """One number that is pushed, and slides back to zero."""

    states, angles, actions = ("place",), (), ("push",)
    dt, low, high = 0.5, np.array([-1.0]), np.array([1.0])
    box, max_steps = np.array([[-2.0], [2.0]]), None

    def __init__(self):
        self._begin([0.0], 0.2)

    def derivative(self, state, action):
        return 1.5 * action - state

    def reward(self, state):
        return np.exp(-0.5 * ((state[..., 0] - 0.8) / 0.3) ** 2)

    def feasible(self, state):
        return np.abs(state[..., 0]) < 5.0


@pytest.mark.slow
def test_a_policy_is_found_while_acting():
    slider = Slider()
    practised = control.practise(
        slider, Bumps.at([0.8], 0.3), control.support_grid(slider.box, (21,)), gamma=0.8, action_std=0.1,
        random_episodes=2, episodes=2, steps=8, seed=0, progress=False,
    )  # fmt: skip
    assert len(practised.episodes) == 4
    episode = control.record(slider, practised.policy, steps=8, seed=7)
    assert (
        episode.rewards[-4:].mean() > 0.85 > 0.1 + np.mean([e.rewards.mean() for e in practised.episodes[:2]])
    )
