"""Dynamics, losses, policies and plans."""

import collections
import dataclasses
import threading
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import mercer as mc
from mercer import control
from mercer.control import planning
from mercer.control.dynamics import Dynamics
from mercer.control.episodes import Transitions
from mercer.control.planning import Task
from mercer.control.propagate import Gaussian


def transitions(env, n, seed=0):
    S, A = env.draw(n, seed)
    new = env.advance(S, A)
    return Transitions(S, A, new, env.reward(new))


@pytest.fixture(scope="module")
def car():
    env = control.MountainCar(dt=0.3)
    return Dynamics.learn(env, transitions(env, 50))


@pytest.fixture(scope="module")
def cart():
    """One evaluation only: what is learned does not matter here."""
    env = control.CartPole()
    return Dynamics.learn(env, transitions(env, 30), max_evaluations=3)


# -- dynamics


@pytest.mark.slow
def test_the_car_is_identified_from_fifty_transitions():
    """T-MC1: errors of about 0.02 and 0.2."""
    env = control.MountainCar()
    found = Dynamics.learn(env, transitions(env, 50), rewards=False)
    S, A = env.draw(400, 1)
    mean, std = found.predict(S, A)
    errors = np.sqrt(np.mean((mean - env.advance(S, A)) ** 2, 0))
    assert errors[0] < 0.02 and errors[1] < 0.25
    assert np.mean(np.abs(mean - env.advance(S, A)) < 1.96 * std) > 0.85


def test_moments_agree_with_draws(cart):
    """Two steps from a known state: the second sees an uncertain one."""
    start, actions = np.array([0.1, 0.2, 2.0, -0.5]), np.array([[2.0], [-1.0]])
    tube, draws = cart.simulate(start, actions), cart.particles(start, actions, size=20_000, seed=1)
    np.testing.assert_allclose(tube.mean, draws.mean(0), atol=5 * tube.std.max() / np.sqrt(20_000))
    np.testing.assert_allclose(tube.covariance[2], np.cov(draws[:, 2].T), atol=0.04 * np.max(tube.covariance))
    first = tube.covariance[1]
    assert np.allclose(first, np.diag(np.diag(first)), atol=1e-12)  # diagonal from a known state, (7.32)
    assert np.abs(tube.covariance[2] - np.diag(np.diag(tube.covariance[2]))).max() > 1e-6


@pytest.mark.slow
def test_draws_of_one_function_begin_as_others_do(cart):
    start, actions = np.array([0.1, 0.2, 2.0, -0.5]), np.array([[2.0], [-1.0]])
    strict = cart.particles(start, actions, size=4000, consistent=True, seed=1)
    plain = cart.particles(start, actions, size=4000, seed=1)
    np.testing.assert_array_equal(strict[:, :2], plain[:, :2])
    assert not np.array_equal(strict[:, 2], plain[:, 2])


@pytest.mark.slow
def test_without_spread_all_methods_agree_on_the_next_state(cart):
    state, action = np.array([0.1, 0.2, 2.0, -0.5]), np.array([[2.0]])
    found = [cart.simulate(state, action, method=m).mean[1] for m in ("moments", "linearised", "mean")]
    np.testing.assert_allclose(found, np.tile(cart.predict(state, action)[0], (3, 1)), rtol=1e-9)


def test_a_turn_more_changes_nothing(cart):
    state, action = np.array([0.1, 0.2, 2.0, -0.5]), np.array([[2.0]])
    turned = state + np.array([0, 0, 2 * np.pi, 0])
    first, second = (cart.simulate(s, action).mean[1] for s in (state, turned))
    np.testing.assert_allclose(second - first, [0, 0, 2 * np.pi, 0], atol=1e-9)


def test_a_sparse_model_with_all_rows_is_the_exact_one_and_fewer_are_close(car):
    S, A = control.MountainCar(dt=0.3).draw(50, 3)
    exact = car.predict(S, A)[0]
    np.testing.assert_array_equal(dataclasses.replace(car, inducing=50).predict(S, A)[0], exact)
    some = dataclasses.replace(car, inducing=30)
    assert np.sqrt(np.mean((some.predict(S, A)[0] - exact) ** 2)) < 0.1 * (exact - S).std()
    assert some.plant.weights.centres.shape == (32, 3)


def test_latent_intervals_are_those_of_the_functions_alone(car):
    """The text's (MI2): neither the noise that was learned nor the widening comes on top."""
    S, A = control.MountainCar(dt=0.3).draw(20, 3)
    latent = dataclasses.replace(car, intervals="latent")
    mean, std = latent.predict(S, A)
    calibrated, wide = car.predict(S, A)
    np.testing.assert_allclose(mean, calibrated, rtol=1e-12, atol=1e-12)  # sums of terms of order 1
    noise = np.sqrt(np.asarray(car.plant.weights.noise))
    np.testing.assert_allclose(np.hypot(car.spread[:2] * std, noise), wide, rtol=1e-7)  # both are differences
    with pytest.raises(control.ControlError, match="latent"):
        dataclasses.replace(car, intervals="latnt")


@pytest.mark.slow
def test_known_structure_is_the_prior_mean():
    env = control.MountainCar()
    known = {"position": {"velocity": env.dt}}
    found = Dynamics.learn(env, transitions(env, 20), known=known, rewards=False, max_evaluations=3)
    far = np.array([[50.0, 3.0]])
    level = float(found.plant.weights.level[0])
    np.testing.assert_allclose(found.predict(far, [[0.0]])[0][0, 0], 50.0 + 0.6 + level)


def test_what_cannot_be_learned_from_is_named(car):
    env = control.MountainCar()
    few = transitions(env, 4)
    with pytest.raises(control.ControlError, match="4 transitions are too few"):
        Dynamics.learn(env, few)
    bad = transitions(env, 10)
    bad.next_states[3, 1] = np.nan
    with pytest.raises(control.ControlError, match="next_states of transition 3"):
        Dynamics.learn(env, bad)
    with pytest.raises(control.ControlError, match="not the 4"):
        Dynamics.learn(control.CartPole(), transitions(env, 10))
    with pytest.raises(control.ControlError, match="method"):
        car.simulate([0.0, 0.0], [[1.0]], method="moment")
    with pytest.raises(control.ControlError, match="3 steps"):
        car.calibration([control.record(env, lambda s: [0.0], steps=2, seed=0)], steps=3)
    with pytest.raises(control.ControlError, match="is an angle"):
        Dynamics.learn(control.CartPole(), transitions(control.CartPole(), 9), {"velocity": {"angle": 1.0}})


# -- losses


MEAN, ROOT = np.array([0.1, -0.4, 3.0, 0.5]), np.array([0.3, 0.2, 0.4, 0.5])
COVARIANCE = np.outer(ROOT, ROOT) * (0.6 * np.eye(4) + 0.4)


@pytest.mark.parametrize(
    ("loss", "tolerance"),
    [
        (control.Quadratic([0.0, 0.0, np.pi, 0.0], [1.0, 0.1, 2.0, 0.1], angles=[2]), 0.01),
        pytest.param(
            control.Saturating([0.0, 0.0, 2.5, 0.0], [0.5, 1.0, 1.0, np.inf]), 0.01, marks=pytest.mark.slow
        ),
        (control.TipLoss(0.3), 0.01),
        (control.FunctionLoss(lambda s: s[0] ** 2 + s[1] * s[2] + s[3]), 0.01),
        pytest.param(
            control.FunctionLoss(lambda s: jnp.cos(s[2]), method="taylor"), 0.02, marks=pytest.mark.slow
        ),
        (control.Saturating([0.0, 0.0, np.pi, 0.0], [0.5, 1.0, 1.0, np.inf], angles=[2]), 0.02),
    ],
    ids=lambda p: type(p).__name__,
)
def test_expected_losses_are_those_of_draws(loss, tolerance):
    draws = np.random.default_rng(0).multivariate_normal(MEAN, COVARIANCE, 40_000)
    mean = float(jnp.mean(jax.vmap(loss)(draws)))
    got = float(loss.expected(Gaussian(jnp.asarray(MEAN), jnp.asarray(COVARIANCE))))
    assert abs(got - mean) < tolerance * (1 + abs(mean))


def test_golden_values_of_the_tip_loss():
    """T-IP5, with the identities of exact and Taylor's expectation."""
    loss = control.TipLoss(0.3, position=0, angle=1)
    S = jnp.array([[0.01, 0.005], [0.005, 0.04]])
    for mean, exact, taylor in (([0.1, 3.0], 0.0520964, 0.0521171), ([0.1, 0.2], 1.4608074, 1.4607789)):
        state = Gaussian(jnp.array(mean), S)
        np.testing.assert_allclose(loss.expected(state), exact, atol=1e-7)
        np.testing.assert_allclose(control.FunctionLoss(loss, "taylor").expected(state), taylor, atol=1e-7)


# -- plans


@pytest.mark.parametrize(
    "case", ["loss", *(pytest.param(name, marks=pytest.mark.slow) for name in ("reward", "cart"))]
)
def test_the_gradient_of_a_plan_is_that_of_differences(case, car, request):
    dynamics, loss, state = car, control.Quadratic([0.6, 0.0], [1.0, 0.1]), np.array([-0.5, 0.1])
    if case == "reward":
        loss = None
    if case == "cart":
        dynamics, loss = request.getfixturevalue("cart"), control.TipLoss(0.3)
        state = np.array([0.1, 0.2, 2.0, -0.5])
    actions = np.array([[2.0], [-1.0], [0.5], [1.0]])
    _, gradient = control.risk(dynamics, loss, state, actions, discount=1.1)
    for t in range(4):
        step = np.zeros((4, 1))
        step[t] = 2e-3
        there = {
            k: control.risk(dynamics, loss, state, actions + k * step, discount=1.1)[0]
            for k in (-2, -1, 1, 2)
        }
        slope = (8 * (there[1] - there[-1]) - (there[2] - there[-2])) / (12 * 2e-3)
        np.testing.assert_allclose(gradient[t, 0], slope, rtol=1e-5, atol=1e-8)


@pytest.mark.parametrize(
    "kind",
    [
        pytest.param("radial", marks=pytest.mark.slow),
        pytest.param("linear", marks=pytest.mark.slow),
        pytest.param("gp", marks=pytest.mark.slow),
    ],
)
def test_the_gradient_in_the_parameters_of_a_policy_is_that_of_differences(kind, car):
    from mercer.control.controller import _beginning

    policy = _beginning(kind, control.Receding(), car, 0)
    task = Task.of(car, control.Quadratic([0.6, 0.0], [1.0, 0.1]), [-0.5, 0.0], 0.01 * np.eye(2))

    def value(parameters):
        return planning._policy_gradient(parameters, policy, (task,), 0.0, 3, "moments")

    parameters = policy.parameters()
    _, gradient = value(parameters)
    rng = np.random.default_rng(0)
    along = tuple(rng.standard_normal(np.shape(p)) for p in parameters)
    ends = [
        value(tuple(p + s * 1e-5 * a for p, a in zip(parameters, along, strict=True)))[0] for s in (1, -1)
    ]
    slope = sum(float(np.sum(g * a)) for g, a in zip(gradient, along, strict=True))
    np.testing.assert_allclose(slope, (ends[0] - ends[1]) / 2e-5, rtol=1e-5)


@pytest.mark.slow
def test_a_policy_has_the_moments_of_its_actions():
    rng = np.random.default_rng(0)
    policy = control.RadialPolicy(
        np.array([-2.0]),
        np.array([4.0]),
        (1,),
        rng.normal(size=(5, 3)),
        np.zeros((1, 3)),
        rng.normal(size=(1, 5)),
    )
    mean, S = np.array([0.3, 0.8]), np.array([[0.02, 0.01], [0.01, 0.03]])
    action, cross = policy.moments(Gaussian(jnp.asarray(mean), jnp.asarray(S)))
    draws = rng.multivariate_normal(mean, S, 5000)
    acted = np.array([policy(s) for s in draws])
    np.testing.assert_allclose(action.mean, acted.mean(0), atol=0.02)
    np.testing.assert_allclose(action.covariance[0, 0], acted.var(), rtol=0.08)
    np.testing.assert_allclose(
        cross[:, 0], [np.cov(draws[:, i], acted[:, 0])[0, 1] for i in range(2)], rtol=0.1
    )
    assert np.all((acted >= -2.0) & (acted <= 4.0))


@pytest.mark.slow
def test_one_step_is_the_best_next_action(car):
    """FH1: planning one step ahead finds the minimum over a grid of actions."""
    loss = control.Quadratic([-0.3, 0.5], [1.0, 0.1])
    grid = np.linspace(-4, 4, 401)
    state = np.array([-0.5, 0.0])
    risks = [control.risk(car, loss, state, [[a]])[0] for a in grid]
    found = control.plan(Task.of(car, loss, state), 1)
    assert abs(found.actions[0, 0] - grid[int(np.argmin(risks))]) < 0.03
    assert found.risk <= min(risks) + 1e-6


@pytest.mark.slow
def test_a_chance_constraint_is_kept_and_its_probability_said(car):
    loss, state = control.Quadratic([0.6, 0.0], [1.0, 0.1]), np.array([-0.5, 0.0])
    free = control.plan(Task.of(car, loss, state), 4)
    keep = (control.ChanceConstraint("velocity", -0.5, 0.5, probability=0.9),)
    kept = control.plan(Task.of(car, loss, state, constraints=keep), 4)
    assert np.abs(free.tube.mean[:, 1]).max() > 0.5
    assert kept.probability.min() > 0.88 and kept.risk > free.risk
    with pytest.raises(control.ControlError, match="speed"):
        Task.of(car, loss, state, constraints=(control.ChanceConstraint("speed", 0.0, 1.0),))


def test_a_deadline_is_kept(car):
    task = Task.of(car, control.Quadratic([0.6, 0.0], [1.0, 0.1]), np.array([-0.5, 0.0]))
    best = control.plan(task, 4)  # compiles
    from mercer.progress import Deadline

    soon = control.plan(task, 4, deadline=Deadline.after(1e-9))
    assert soon.evaluations == 1 and soon.risk >= best.risk  # of the first start alone
    assert soon.actions.shape == (4, 1)
    rest = best.rest()
    np.testing.assert_array_equal(rest.actions, best.actions[1:])
    assert rest.risk == pytest.approx(best.losses[1:].sum()) and len(rest.rest().rest().rest().actions) == 1


def test_work_that_would_end_too_late_is_not_begun():
    pace = planning.Pace()
    assert pace.of("evaluation") == 0.0
    pace._took["evaluation"] = collections.deque([9.0, *[1.0] * 9])  # the first was compiled
    assert pace.of("evaluation") == 1.0
    from mercer.progress import Deadline

    search = planning._Search(Deadline.after(1.5), pace)
    assert search.late("evaluation") and not planning._Search(Deadline.after(60.0), pace).late("evaluation")
    calls = []

    def value(x):
        calls.append(x)
        return (float(x @ x), "rolled"), 2.0 * x

    search.climb(value, np.ones(2), None, 50)
    assert len(calls) == 1 and search.over and search.rolled == "rolled"  # the first is always made
    np.testing.assert_array_equal(search.best, np.ones(2))


def test_nothing_is_compiled_again_as_data_grow_within_a_bucket(car):
    loss, actions = control.Quadratic([0.6, 0.0], [1.0, 0.1]), np.zeros((4, 1))
    env = control.MountainCar(dt=0.3)
    control.risk(car, loss, [-0.5, 0.0], actions)
    size = planning._actions_gradient._cache_size()
    more = car
    for seed in range(3):
        more = more.more(transitions(env, 3, seed + 5), max_evaluations=2)
        control.risk(more, loss, [-0.5, 0.0], actions)
    assert len(more.transitions.states) == 59 and planning._actions_gradient._cache_size() == size


# -- faster controllers


@pytest.mark.slow
def test_a_local_linear_controller_holds_the_pole():
    """T-IP4, on dynamics learned near the top."""
    env = control.CartPole()
    rng = np.random.default_rng(0)
    S = np.array([0, 0, np.pi, 0]) + rng.uniform(-1, 1, (60, 4)) * [0.5, 1, 0.5, 2]
    A = rng.uniform(-4, 4, (60, 1))
    new = env.advance(S, A)
    dynamics = Dynamics.learn(env, Transitions(S, A, new, env.reward(new)), rewards=False)
    hold = control.local_linear(dynamics, [0.0, 0.0, np.pi, 0.0], [1.0, 0.1, 10.0, 0.1])
    assert hold.shrinks < 1 and abs(hold.action[0]) < 0.2
    episode = control.record(env, hold, steps=40, state=[0.0, 0.0, np.pi - 0.15, 0.0])
    assert abs(episode.states[-1, 2] - np.pi) < 0.02


def test_a_table_says_what_it_was_made_of():
    table = control.tabulated(lambda s: [s[0] + 2 * s[1]], [-1.0, -2.0], [1.0, 2.0], [3, 5])
    np.testing.assert_allclose(table([0.3, -1.1]), [0.3 - 2.2])
    np.testing.assert_allclose(table([5.0, 0.0]), [1.0])


# -- learning


@pytest.fixture(scope="module")
def learned():
    env = control.MountainCar()
    return env, control.learn(
        env, horizon=4, episodes=1, policy="radial", steps=8, first=8, max_evaluations=3, progress=False
    )


@pytest.mark.slow
def test_a_controller_acts_from_several_threads_and_is_saved(learned, tmp_path):
    env, controller = learned
    state = env.reset(seed=1)
    action = controller.act(state)
    found = []
    threads = [threading.Thread(target=lambda: found.append(controller.act(state))) for _ in range(4)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    assert all(np.array_equal(action, other) for other in found)
    controller.save(tmp_path / "car.mercer")
    again = mc.load(tmp_path / "car.mercer")
    np.testing.assert_array_equal(again.act(state), action)
    np.testing.assert_allclose(again.foresee().tube.mean, controller.foresee().tube.mean)
    assert len(again.episodes) == 3 and again.summary() == controller.summary()


def test_what_a_controller_refuses(learned):
    env, controller = learned
    with pytest.raises(control.ControlError, match="2 finite numbers"):
        controller.act([np.nan, 0.0])
    with pytest.raises(control.ControlError, match="policy"):
        control.learn(env, policy="lineal")


@pytest.mark.slow
def test_a_receding_controller_plans_within_its_deadline(car, tmp_path):
    env = control.MountainCar(dt=0.3)
    planner = control.Receding(4, restarts=0, max_evaluations=10)
    controller = control.Controller(planner, car, env.loss, horizon=4)
    first = controller.act([-0.5, 0.0])
    assert first.shape == (1,) and controller.act([-0.5, 0.0], deadline="50ms").shape == (1,)
    planned = controller._before
    controller._pace._took["evaluation"] = collections.deque([9.0] * 5)  # as if every one took too long
    np.testing.assert_array_equal(controller.act([-0.5, 0.0], deadline="50ms"), planned.actions[1])
    controller.act([-0.5, 0.0], deadline="10s")
    assert controller._before.evaluations > 0  # it tries again
    controller.forget()
    controller.save(tmp_path / "plan.mercer")
    np.testing.assert_array_equal(mc.load(tmp_path / "plan.mercer").act([-0.5, 0.0]), first)


@pytest.mark.slow
def test_ctrl_c_keeps_the_best_so_far():
    env = control.MountainCar()
    heard = []

    def listener(done, total, text):
        heard.append(done)
        if done == 1 and total == 5:
            raise KeyboardInterrupt

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        controller = control.learn(
            env,
            horizon=4,
            episodes=5,
            policy="radial",
            steps=8,
            first=8,
            max_evaluations=3,
            progress=listener,
        )
    assert len(controller.episodes) == 3 and 1 in heard  # two of them random
