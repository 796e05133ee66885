"""Gaussian processes that learn to act (Kuss 2006, chapter 7).

Environments to act in: `MountainCar`, `CartPole`, and `Gym("Pendulum-v1")` for those of gymnasium. `record`
runs a policy in one and keeps what happened as an `Episode`.

>>> env = mc.control.MountainCar()
>>> episode = mc.control.record(env, lambda state: [4.0], steps=20, seed=0)
>>> episode.states, episode.actions, episode.rewards        # (21, 2), (20, 1), (20,)
"""

from mercer.registry import exporter

_MODULES = {
    "action_values": "ActionValuePolicy gp_q_iteration",
    "controller": "Controller Receding learn",
    "dynamics": "Calibration Dynamics Tube",
    "feedback": "ActionTable LinearFeedback local_linear tabulated",
    "losses": "AbstractStateLoss ChanceConstraint FunctionLoss Quadratic Saturating TipLoss",
    "planning": "Plan Task plan risk",
    "policies": "AbstractPolicy GPPolicy LinearPolicy RadialPolicy",
    "environments": "AbstractEnvironment AbstractSystem ControlError Step",
    "episodes": "Episode Transitions load_episodes pooled record replay save_episodes",
    "finite.beliefs": "Beliefs Sampled gittins_index posterior_sampling",
    "finite.exact": "BestPolicy policy_iteration policy_value q_values value_iteration",
    "finite.learning": (
        "Learned dyna function_differences q_learning robbins_monro sarsa temporal_differences"
    ),
    "finite.process": "FiniteProcess Walk",
    "gym": "Gym",
    "integrate": "rk4 rk45",
    "online": "Practised practise",
    "rewards": "AbstractReward Bumps Smooth",
    "systems": "CartPole MountainCar",
    "values": ("Sweep ValuePolicy World gaussian_actions gp_policy_iteration gp_policy_value support_grid"),
}

__all__ = sorted(name for names in _MODULES.values() for name in names.split())
__getattr__ = exporter(__name__, _MODULES)


def __dir__() -> list[str]:
    return sorted(__all__)
