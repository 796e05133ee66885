"""stable-baselines3's soft actor-critic, run in an environment of its own: python _sac.py ENVIRONMENT SEED SECONDS.

It learns until 20 evaluation episodes are solved, looked at every 500 interactions, or until its processor time is over, and prints one line of JSON.
"""

import json
import sys
import time

import gymnasium
import numpy as np
import stable_baselines3
import torch

EVERY, EVALUATIONS = 500, 20
SOLVED = {
    "Pendulum-v1": lambda returns: np.mean(returns) >= -200.0,
    "MountainCarContinuous-v0": lambda returns: np.sum(np.asarray(returns) >= 90.0) >= 18,
}
TUNED = {  # as is usual for each environment
    "Pendulum-v1": {"learning_rate": 1e-3},
    "MountainCarContinuous-v0": {
        "learning_rate": 3e-4, "buffer_size": 50_000, "batch_size": 512, "ent_coef": 0.1, "train_freq": 32,
        "gradient_steps": 32, "gamma": 0.9999, "tau": 0.01, "learning_starts": 0, "use_sde": True,
        "policy_kwargs": {"log_std_init": -3.67, "net_arch": [64, 64]},
    },
}  # fmt: skip


def main(name: str, seed: int, seconds: float) -> dict[str, object]:
    torch.set_num_threads(1)
    model = stable_baselines3.SAC("MlpPolicy", gymnasium.make(name), seed=seed, **TUNED[name])
    env, began, solved, returns = gymnasium.make(name), time.process_time(), False, [float("nan")]
    while not solved and time.process_time() - began < seconds:
        model.learn(EVERY, reset_num_timesteps=False)
        returns = []
        for episode in range(EVALUATIONS):
            seen, total, over = env.reset(seed=900_000 + episode)[0], 0.0, False
            while not over:
                seen, reward, ended, truncated, _ = env.step(model.predict(seen, deterministic=True)[0])
                total, over = total + float(reward), ended or truncated
            returns.append(total)
        solved = bool(SOLVED[name](returns))
    return {
        "interactions": model.num_timesteps, "solved": solved, "mean": round(float(np.mean(returns)), 1),
        "cpu": round(time.process_time() - began, 1), "version": stable_baselines3.__version__,
    }  # fmt: skip


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1], int(sys.argv[2]), float(sys.argv[3]))))
