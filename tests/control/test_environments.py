"""Worlds to act in: the equations of appendix C, what one step gives, bad actions and bad worlds named."""

import numpy as np
import pytest

from mercer import control, viz
from mercer.control import CartPole, ControlError, Gym, MountainCar, record, rk4, rk45

CAR = [  # (C.3), T-DY1
    ((-0.5, 0.0), -4.0, 0.2, (-0.5746432438, -0.6923571158)),
    ((-0.5, 0.0), 4.0, 0.3, (-0.3469825863, 0.8464595162)),
    ((0.6, 0.5), 2.0, 0.2, (0.7034884152, 0.5525207292)),
]
POLE = [  # T-DY2
    ((0, 0, 0, 0), 4.0, (0.0996112407, 0.9779749029, -0.1356179317, -1.2645176803)),
    ((0, 0, 3, 0), 0.0, (-0.0077700590, -0.0813425351, 2.9471095797, -0.5579828664)),
    ((0.2, -0.5, 2, 1.5), -3.0, (0.0228128346, -1.2692530569, 2.0004505554, -1.4938147885)),
]


def test_the_car_moves_as_published():
    for state, force, dt, after in CAR:
        np.testing.assert_allclose(MountainCar(dt=dt).advance(state, [force]), after, atol=1e-8)
    car, start, force = MountainCar(dt=0.3), np.array([-0.2, 1.0]), np.array([4.0])
    over_the_kink = rk45(car.derivative, start, force, 0.3, tolerance=1e-10)  # of the track, at 0
    np.testing.assert_allclose(over_the_kink, (0.0040593335, 0.3472824351), atol=1e-6)
    np.testing.assert_allclose(car.advance(start, force), over_the_kink, atol=1e-4)
    uncorrected = MountainCar(dt=0.3, corrected=False).advance((-0.5, 0.0), [4.0])
    np.testing.assert_allclose(uncorrected, (-0.3450779338, 0.8779030922), atol=1e-8)


def test_the_pole_moves_as_published():
    for state, force, after in POLE:
        np.testing.assert_allclose(CartPole().advance(state, [force]), after, atol=2e-8)


def test_energy_is_kept_where_nothing_acts():
    still = np.zeros(1)
    for corrected, drifts in ((True, False), (False, True)):
        car = MountainCar(dt=1.0, corrected=corrected)
        state = np.array([-0.8, 0.3])
        drift = abs(car.energy(rk4(car.derivative, state, still, 1.0, 200)) - car.energy(state))
        assert (drift > 1e-2) == drifts and (drifts or drift < 1e-7)
    pole = CartPole(
        friction=0.0, cart=0.8, pole=0.3
    )  # M + m is not one: the factor that (C.5b) lacks matters
    state = np.array([0.1, 0.4, 1.0, -2.0])
    drift = pole.energy(rk4(pole.derivative, state, still, 1.0, 200)) - pole.energy(state)
    assert abs(drift) < 1e-7
    mirrored = -pole.advance(-state, [-2.0])
    np.testing.assert_allclose(mirrored, pole.advance(state, [2.0]), atol=1e-12)


def test_the_valley_is_too_steep_to_drive_up():
    car = MountainCar()
    x = np.linspace(-0.5, 0.7, 2401)
    at_rest = np.stack([x, np.zeros_like(x)], -1)
    slope = np.gradient(car.height(x), x, edge_order=2)
    needed = -car.derivative(at_rest, np.zeros((len(x), 1)))[:, 1] * np.sqrt(1 + slope**2)
    assert abs(needed.max() - 6.94) < 0.01 and needed.max() > car.high[0]
    assert abs(np.interp(0.6, x, needed) - 2.0477) < 1e-3  # "forces of approximately 2" hold it (T-MC5)


def test_the_order_of_runge_kutta_and_the_rule_with_steps_of_its_own():
    pole, state, action = CartPole(), np.array([0.2, -0.5, 2.0, 1.5]), np.array([-3.0])
    fine = rk45(pole.derivative, state, action, 0.2, tolerance=1e-12)
    wrong = [np.abs(rk4(pole.derivative, state, action, 0.2, n) - fine).max() for n in (2, 4, 8)]
    assert 12 < wrong[0] / wrong[1] < 24 and 12 < wrong[1] / wrong[2] < 24
    np.testing.assert_allclose(
        pole.advance(state, action), rk45(pole.derivative, state, action, 0.2), atol=1e-6
    )
    many = pole.advance(np.tile(state, (3, 2, 1)), np.tile(action, (3, 2, 1)))
    np.testing.assert_array_equal(many, np.broadcast_to(pole.advance(state, action), (3, 2, 4)))


def test_an_episode_ends_where_the_box_does_and_at_the_limit_of_steps():
    car = MountainCar(max_steps=12)
    swung = record(car, lambda s: [4.0 if s[1] > 0 else -4.0], steps=100, seed=0)
    assert len(swung) <= 12 and (swung.ended or swung.truncated)
    left = record(car, lambda s: [-4.0], steps=5, state=(-0.7, -1.5))
    assert left.ended and "left the feasible region at position = -1" in left.reason
    pole = record(CartPole(max_steps=3), lambda s: [0.0], steps=10)
    assert pole.truncated and not pole.ended and len(pole) == 3 and "3 steps" in pole.reason
    stopped = record(CartPole(), lambda s: [0.0], steps=4)
    assert not stopped.truncated and not stopped.ended and "recorded for 4" in stopped.reason


def test_rewards():
    car, pole = MountainCar(), CartPole()
    assert car.reward(np.array([0.6, 0.0])) == 1.0 and car.reached(np.array([0.55, -0.05]))
    np.testing.assert_allclose(car.reward(np.array([[0.65, 0.0], [0.6, 0.1]])), np.exp([-0.5, -2.0]))
    upright, hanging = np.array([0.0, 0.0, np.pi, 0.0]), np.zeros(4)
    np.testing.assert_allclose(pole.reward(np.stack([upright, hanging])), [0.0, -(1.2**2)], atol=1e-15)
    x, angle, l = 0.1, 2.0, 0.3  # (7.55)
    squared = x**2 + 4 * l * x * np.sin(angle) + 8 * l**2 * (1 + np.cos(angle))
    np.testing.assert_allclose(pole.reward(np.array([x, 0.0, angle, 0.0])), -squared)


def test_bad_actions_are_named():
    car = MountainCar()
    with pytest.raises(ControlError, match=r"call reset\(\) first"):
        car.step([0.0])
    car.reset(seed=0)
    with pytest.raises(ControlError, match=r"force = 4\.5 is not between -4 and 4"):
        car.step([4.5])
    with pytest.raises(ControlError, match="force = nan"):
        car.step([np.nan])
    with pytest.raises(ControlError, match=r"1 numbers \(force\), got shape \(2,\)"):
        car.step([1.0, 2.0])
    assert car.interactions == 0


def test_episodes_are_kept_in_a_file_and_run_again(tmp_path):
    car = MountainCar(start_std=0.01)
    episodes = [record(car, steps=6, seed=seed) for seed in (0, 1)]
    assert not np.array_equal(episodes[0].states[0], episodes[1].states[0])
    control.save_episodes(tmp_path / "runs.npz", episodes)
    again = control.load_episodes(tmp_path / "runs.npz")
    for old, new in zip(episodes, again, strict=True):
        np.testing.assert_array_equal(old.states, new.states)
        np.testing.assert_array_equal(old.actions, new.actions)
        np.testing.assert_array_equal(old.rewards, new.rewards)
        assert (old.reason, old.seed, old.names, old.dt) == (new.reason, new.seed, new.names, new.dt)
    np.testing.assert_allclose(control.replay(MountainCar(), again[0]).states, episodes[0].states)
    with pytest.raises(ControlError, match="at step 1 the environment was not where"):
        control.replay(MountainCar(mass=1.1), again[0])
    steps = control.pooled(again)
    assert steps.states.shape == (12, 2) and steps.actions.shape == (12, 1) and steps.rewards.shape == (12,)
    np.testing.assert_allclose(car.advance(steps.states, steps.actions), steps.next_states)
    (tmp_path / "no.npz").write_text("nothing")
    with pytest.raises(ControlError, match="no file of episodes"):
        control.load_episodes(tmp_path / "no.npz")


def test_the_return_is_discounted():
    episode = record(CartPole(), lambda s: [1.0], steps=3)
    np.testing.assert_allclose(episode.discounted(0.5), episode.rewards @ [1.0, 0.5, 0.25])
    assert episode.discounted(1.0) == pytest.approx(episode.total)


@pytest.mark.parametrize("ending", [".gif", pytest.param(".html", marks=pytest.mark.slow)])
def test_runs_are_moving_pictures(tmp_path, ending):
    car = MountainCar()
    episode = record(car, lambda s: [4.0 if s[1] > 0 else -4.0], steps=2)
    path = viz.animation(episode, tmp_path / f"run{ending}", car.sketch, title="car")
    if ending == ".gif":
        from PIL import Image

        with Image.open(path) as film:
            assert film.n_frames == 3
    else:
        page = path.read_text()
        assert page.count("data:image/png;base64") == 3
    with pytest.raises(ValueError, match=r"as \.gif or \.html"):
        viz.animation(episode, tmp_path / "run.mp4")
    assert [p.name for p in tmp_path.iterdir()] == [f"run{ending}"]


# -- gymnasium -----------------------------------------------------------------------------------------------

gymnasium = pytest.importorskip("gymnasium")


class Odd(gymnasium.Env):
    """Ends at once, or answers what is no number."""

    def __init__(self, ends=True, state=0.0, actions=None):
        self.observation_space = gymnasium.spaces.Box(-1.0, 1.0, (2,), np.float64)
        self.action_space = actions or gymnasium.spaces.Box(-1.0, 1.0, (1,), np.float64)
        self.ends, self.state = ends, state

    def reset(self, seed=None, options=None):
        return np.zeros(2), {}

    def step(self, action):
        return np.array([0.0, self.state]), 0.0, self.ends, False, {}


def test_environments_of_gymnasium():
    env = Gym("Pendulum-v1", repeat=2, states=("cosine", "sine", "spin"), dt=0.05)
    assert env.dt == 0.1 and env.low == [-2.0] and env.high == [2.0]
    episode = record(env, steps=1000, seed=3)
    assert episode.truncated and not episode.ended and len(episode) == 100
    assert episode.interactions == env.interactions == 200
    np.testing.assert_allclose(episode.states[:, 0] ** 2 + episode.states[:, 1] ** 2, 1.0, atol=1e-6)
    np.testing.assert_array_equal(control.replay(env, episode).states, episode.states)
    with pytest.raises(ControlError, match="action 1 = 3 is not between -2 and 2"):
        env.reset(seed=0)
        env.step([3.0])


def test_bad_environments_are_named():
    with pytest.raises(ControlError, match=r"Discrete\(3\).*MountainCarContinuous"):
        Gym("MountainCar-v0")
    with pytest.raises(ControlError, match="ended at once"):
        record(Gym(Odd()), steps=10)
    with pytest.raises(ControlError, match="state 2 = nan"):
        record(Gym(Odd(ends=False, state=np.nan)), steps=10)
    with pytest.raises(ControlError, match="without bounds"):
        Gym(Odd(actions=gymnasium.spaces.Box(-np.inf, np.inf, (1,), np.float64)))
    with pytest.raises(ControlError, match="names 1"):
        Gym(Odd(), states=("x",))
    with pytest.raises(ControlError, match="placed"):
        record(Gym(Odd()), state=[0.0, 0.0])
