"""The two worlds of the text (Kuss 2006, appendix C), with the corrections that energy demands."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mercer.control.environments import AbstractSystem
from mercer.control.losses import ChanceConstraint, Saturating, TipLoss


class MountainCar(AbstractSystem):
    """A car in a valley, too weak to drive up its slope at once: it must swing back first (appendix C.1).

    The state is position (m, from -1 to 1) and velocity (m/s, from -2 to 2), the action a force (N) along the
    slope, held for dt seconds. It starts at rest at the bottom; the reward is a Gaussian bump of height 1 and
    width 0.05 at rest at 0.6. Leaving the feasible box ends an episode, as do max_steps steps.

    force: the largest, either way; mass in kg; gravity in m/s^2
    start_std: of the first state; 0 starts every episode at the same one
    corrected: True is (C.3), which conserves energy; False is (C.2), of Moore and Atkeson (1995), which does
        not

    >>> env = mc.control.MountainCar(dt=0.3)
    >>> env.reset(seed=0); env.step([-4.0]).state
    """

    states = ("position", "velocity")
    angles = ()
    actions = ("force",)
    target = np.array([0.6, 0.0])  # in the middle of what the text calls reached
    reward_std = 0.05

    def __init__(
        self,
        dt: float = 0.2,
        force: float = 4.0,
        mass: float = 1.0,
        gravity: float = 9.81,
        start: Sequence[float] = (-0.5, 0.0),
        start_std: float | Sequence[float] = 0.0,
        max_steps: int | None = 50,
        corrected: bool = True,
    ):
        self.dt, self.mass, self.gravity = dt, mass, gravity
        self.low, self.high = np.array([-force]), np.array([force])
        self.box = np.array([[-1.0, -2.0], [1.0, 2.0]])
        self.max_steps, self.corrected = max_steps, corrected
        self.loss = Saturating(self.target.tolist(), [0.3, 1.0])
        self.constraints = (ChanceConstraint("position", -1.0, 1.0), ChanceConstraint("velocity", -2.0, 2.0))
        self._begin(start, start_std)

    def height(self, position: np.ndarray) -> np.ndarray:
        """Of the track (C.1)."""
        x = np.asarray(position, float)
        return np.where(x < 0.0, x**2 + x, x / np.sqrt(1.0 + 5.0 * x**2))

    def derivative(self, state: np.ndarray, action: np.ndarray) -> np.ndarray:
        x, velocity, force = state[..., 0], state[..., 1], action[..., 0]
        slope = np.where(x < 0.0, 2.0 * x + 1.0, (1.0 + 5.0 * x**2) ** -1.5)
        bend = np.where(x < 0.0, 2.0, -15.0 * x * (1.0 + 5.0 * x**2) ** -2.5)
        steep = 1.0 + slope**2
        acceleration = force / (self.mass * np.sqrt(steep)) - self.gravity * slope / steep
        if self.corrected:
            acceleration = acceleration - velocity**2 * slope * bend / steep
        return np.stack([velocity, acceleration], -1)

    def energy(self, state: np.ndarray) -> np.ndarray:
        """(...), for each kilogram; constant while no force acts."""
        x, velocity = state[..., 0], state[..., 1]
        slope = np.where(x < 0.0, 2.0 * x + 1.0, (1.0 + 5.0 * x**2) ** -1.5)
        return 0.5 * (1.0 + slope**2) * velocity**2 + self.gravity * self.height(x)

    def reward(self, state: np.ndarray) -> np.ndarray:
        away = (np.asarray(state) - self.target) / self.reward_std
        return np.exp(-0.5 * np.sum(away**2, -1))

    def feasible(self, state: np.ndarray) -> np.ndarray:
        return np.all((state >= self.box[0]) & (state <= self.box[1]), -1)

    def sketch(self, state: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
        """Lines (x, y) of a picture: the track, and the car on it."""
        x = np.linspace(-1.1, 1.1, 111)
        at = np.asarray(state)[:1]
        return [(x, self.height(x)), (at, self.height(at) + 0.04)]

    def reached(self, state: np.ndarray) -> np.ndarray:
        """Whether (...) the car is on the top: 0.5 to 0.7 m, and no faster than 0.1 m/s."""
        x, velocity = np.asarray(state)[..., 0], np.asarray(state)[..., 1]
        return (x >= 0.5) & (x <= 0.7) & (np.abs(velocity) <= 0.1)


class CartPole(AbstractSystem):
    """A pole that hangs from a cart, to be swung up and balanced by pushing the cart (appendix C.2).

    The state is position (m) and velocity (m/s) of the cart, angle of the pole (rad, 0 hanging, pi upright)
    and its velocity (rad/s); the action is a force (N) on the cart, held for dt seconds. The reward is minus
    the squared distance (m^2) of the pole's tip from the point at which it stands upright at 0 (7.55). No
    state ends an episode; max_steps steps do.

    force: the largest, either way; cart, pole: masses in kg; length: from the pivot to the pole's centre of
        mass, half of the pole, in m; inertia in kg m^2: the text's 0.06 (a rod of 0.5 kg and 0.6 m has 0.06
        about its end and 0.015 about its centre); friction in N s/m; gravity in m/s^2
    start_std: of the first state; 0 starts every episode at the same one

    >>> env = mc.control.CartPole(force=8.0)
    >>> env.reset(seed=0); env.step([-8.0]).state
    """

    states = ("position", "velocity", "angle", "angular velocity")
    angles = ("angle",)
    actions = ("force",)

    def __init__(
        self,
        dt: float = 0.2,
        force: float = 4.0,
        cart: float = 0.5,
        pole: float = 0.5,
        length: float = 0.3,
        inertia: float = 0.06,
        friction: float = 0.1,
        gravity: float = 9.81,
        start: Sequence[float] = (0.0, 0.0, 0.0, 0.0),
        start_std: float | Sequence[float] = 0.0,
        max_steps: int | None = 60,
    ):
        self.dt, self.cart, self.pole, self.length, self.inertia = dt, cart, pole, length, inertia
        self.friction, self.gravity, self.max_steps = friction, gravity, max_steps
        self.low, self.high = np.array([-force]), np.array([force])
        self.box = np.array([[-1.0, -3.0, 0.0, -8.0], [1.0, 3.0, 2.0 * np.pi, 8.0]])
        self.loss = TipLoss(length)
        self._begin(start, start_std)

    def derivative(self, state: np.ndarray, action: np.ndarray) -> np.ndarray:
        velocity, angle, spin = state[..., 1], state[..., 2], state[..., 3]
        sine, cosine = np.sin(angle), np.cos(angle)
        both, ml = self.cart + self.pole, self.pole * self.length
        about_pivot = self.inertia + ml * self.length
        pushed = action[..., 0] - self.friction * velocity + ml * spin**2 * sine
        weight = ml * self.gravity * sine
        below = both * about_pivot - (ml * cosine) ** 2
        return np.stack(
            [
                velocity,
                (about_pivot * pushed + ml * cosine * weight) / below,
                spin,
                -(ml * cosine * pushed + both * weight) / below,  # (C.5b) lacks the factor M + m
            ],
            -1,
        )

    def energy(self, state: np.ndarray) -> np.ndarray:
        """(...), in J; constant while neither force nor friction acts."""
        velocity, angle, spin = state[..., 1], state[..., 2], state[..., 3]
        ml = self.pole * self.length
        moving = 0.5 * (self.cart + self.pole) * velocity**2 + ml * velocity * spin * np.cos(angle)
        turning = 0.5 * (self.inertia + ml * self.length) * spin**2
        return moving + turning - ml * self.gravity * np.cos(angle)

    def tip(self, state: np.ndarray) -> np.ndarray:
        """Where the pole ends (..., 2): right of 0 and above the pivot, in m."""
        x, angle = np.asarray(state)[..., 0], np.asarray(state)[..., 2]
        reach = 2.0 * self.length
        return np.stack([x + reach * np.sin(angle), -reach * np.cos(angle)], -1)

    def sketch(self, state: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
        """Lines (x, y) of a picture: the rail, the cart and the pole."""
        x, (end, up) = float(np.asarray(state)[0]), self.tip(state)
        rail = np.array([-1.0, 1.0])
        return [
            (rail, np.zeros(2)),
            (x + np.array([-0.1, 0.1]), np.zeros(2)),
            (np.array([x, end]), np.array([0.0, up])),
        ]

    def reward(self, state: np.ndarray) -> np.ndarray:
        return -np.sum((self.tip(state) - np.array([0.0, 2.0 * self.length])) ** 2, -1)

    def feasible(self, state: np.ndarray) -> np.ndarray:
        return np.all(np.isfinite(state), -1)
