"""Data that change the posterior most (GPML 8.3.3): the informative vector machine, for any likelihood of one
latent function.

A datum that is taken in becomes a Gaussian site. With d = dlogZ/dmean and D = -d2logZ/dmean2 of
Z = E[p(y | f)] where f ~ N(mean, v), it leaves f with variance v (1 - D v) and moves its mean by v d. For
Gaussian noise that is exact, else assumed-density filtering.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import ClassVar

import numpy as np

from mercer.selection.greedy import AbstractActiveSet, greedy
from mercer.selection.protocol import AbstractSelection, Pool, Tilted

# from v, d and D of some data, what including each would gain
Score = Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray]


@dataclasses.dataclass(frozen=True)
class Entropy(AbstractSelection):
    """The largest decrease of differential entropy, Delta_i = -1/2 log(1 - D_i v_i); for Gaussian noise 1/2
    log(1 + v_i / noise) (8.19).

    Needs y, and `noise_variance` or `tilted`. O(n m) for each datum, which all are candidates in every step.

    >>> rows = Entropy().rows(Pool(gp, X, y, noise_variance=0.1), 100)
    """

    name: ClassVar[str] = "entropy"

    def choose(self, pool: Pool, m: int, rng: np.random.Generator) -> np.ndarray:
        return greedy(Informed(pool, m, entropy, str(self)), pool.n, m, rng)


@dataclasses.dataclass(frozen=True)
class InformationGain(AbstractSelection):
    """The largest information gain KL(new || old) = -1/2 log(1 - D v) + 1/2 v (d^2 - D), which unlike the
    entropy of Gaussian noise looks at y too (Seeger; GPML 8.3.3).

    Needs and costs the same as `Entropy`.

    >>> rows = InformationGain().rows(Pool(gp, X, y, noise_variance=0.1), 100)
    """

    name: ClassVar[str] = "information-gain"

    def choose(self, pool: Pool, m: int, rng: np.random.Generator) -> np.ndarray:
        return greedy(Informed(pool, m, information_gain, str(self)), pool.n, m, rng)


def entropy(v: np.ndarray, d: np.ndarray, D: np.ndarray) -> np.ndarray:
    return -0.5 * np.log1p(-D * v)


def information_gain(v: np.ndarray, d: np.ndarray, D: np.ndarray) -> np.ndarray:
    return entropy(v, d, D) + 0.5 * v * (d**2 - D)


class Informed(AbstractActiveSet):
    """Mean and variance (n,) of f at all data given the sites of the active set.

    V holds rows of L^-1 K_mn, with L L' = K_mm + the sites' variances. m n numbers.
    """

    def __init__(self, pool: Pool, m: int, score: Score, who: str):
        y = pool.targets(who)
        self.columns, self.score, self.tilted = pool.columns, score, _tilted(pool, y, who)
        self.mean, self.variance = pool.mean().copy(), self.columns.diagonal.copy()
        self.V = np.empty((m, pool.n))
        self.active: list[int] = []
        self._ask()

    def _ask(self) -> None:
        _, d, D = self.tilted(self.mean[:, None], self.variance[:, None])
        self.d, self.D = d[:, 0], D[:, 0]

    def usable(self) -> np.ndarray:
        """Those whose sites have positive precision D / (1 - D v)."""
        return np.isfinite(self.d) & (self.D > 0) & (self.D * self.variance < 1)

    def scores(self, J: np.ndarray) -> np.ndarray:
        return self.score(self.variance[J], self.d[J], self.D[J])

    def include(self, j: int) -> None:
        k = len(self.active)
        a = self.columns([j])[:, 0] - self.V[:k, j] @ self.V[:k]  # posterior covariance with f_j
        self.V[k] = np.sqrt(self.D[j]) * a
        self.variance = np.maximum(self.variance - self.V[k] ** 2, 0.0)
        self.mean += self.d[j] * a
        self.active.append(j)
        self._ask()


def _tilted(pool: Pool, y: np.ndarray, who: str) -> Tilted:
    """Gaussian noise of known variance in closed form, else what the likelihood says."""
    if pool.noise_variance is None and pool.tilted is not None:
        return pool.tilted
    if pool.noise_variance is None:
        raise ValueError(
            f"{who} needs sites of one latent function: give noise_variance or tilted; with several latent "
            "functions use 'k-means'."
        )
    noise = pool.noise(who)[:, None]

    def gaussian(mean, variance):
        D = 1.0 / (variance + noise)
        r = y[:, None] - mean
        return 0.5 * (np.log(D / (2 * np.pi)) - D * r**2), r * D, D

    return gaussian
