"""Anderson acceleration: sites that creep towards a fixed point, or circle it, get there in a few steps."""

from __future__ import annotations

import numpy as np


class Anderson:
    """Acceleration of a fixed-point iteration:
    the next point is the mixture of the last ones whose residuals cancel best.
    """

    def __init__(self, depth: int = 6):
        self.depth = depth
        self.points: list[np.ndarray] = []
        self.residuals: list[np.ndarray] = []

    def step(
        self, W: np.ndarray, h: np.ndarray, dW: np.ndarray, dh: np.ndarray, unit: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray] | None:
        """Sites exp(h f - W f^2 / 2) and the plain change of them -> better ones; None at first. `unit`:
        marginal deviations.
        """
        self.points.append(np.concatenate([W, h]).ravel())
        self.residuals.append(np.concatenate([dW, dh]).ravel())
        self.points, self.residuals = self.points[-self.depth :], self.residuals[-self.depth :]
        if len(self.points) < 2:
            return None
        scale = np.concatenate([unit**2, unit]).ravel()
        X = np.diff(self.points, axis=0).T
        R = np.diff(self.residuals, axis=0).T
        weights = np.linalg.lstsq(scale[:, None] * R, scale * self.residuals[-1], rcond=1e-10)[0]
        new = self.points[-1] + self.residuals[-1] - (X + R) @ weights
        better_W, better_h = new.reshape(2, *W.shape)
        return better_W, better_h
