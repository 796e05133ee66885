"""The probabilities of a classifier that decides between two classes at a time, as what `mercer.explain`
asks.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from mercer.estimators.classification.labels import TINY, contest_rows
from mercer.explain import AbstractFitted, Indices
from mercer.explain.function import around_by_draws
from mercer.inputs import Inputs
from mercer.posteriors import AbstractPosterior

Wins = Callable[..., np.ndarray]
"""wins(i, mean, variance, how): the probability (m,) that the first class wins contest i."""


@dataclasses.dataclass(frozen=True, eq=False)
class ContestsFunction(AbstractFitted):
    """Probabilities (m, C) of the classes, from a posterior for each contest between two."""

    training: Inputs
    codes: np.ndarray
    posteriors: Sequence[AbstractPosterior]
    contests: Sequence[tuple[int, int | None]]
    wins: Wins
    classes: tuple[str, ...]
    combined: Callable[[np.ndarray], np.ndarray]

    @property
    def labels(self) -> tuple[str, ...]:
        """What the classes are called."""
        return self.classes

    @property
    def inputs(self) -> Inputs:
        """The training inputs of all contests."""
        return self.training

    @property
    def what(self) -> str:
        """What the values are."""
        return "probabilities of the classes"

    @property
    def loss_name(self) -> str:
        """What `loss` is."""
        return "log loss"

    @property
    def is_latent(self) -> bool:
        """Probabilities are not."""
        return False

    def value(self, values: np.ndarray) -> np.ndarray:
        """Probabilities (m, C) at the posterior means of the latent functions."""
        means = [p.latent_moments(values, variance=False)[0] for p in self.posteriors]
        return self._classes([self.wins(i, f, np.zeros_like(f), "map") for i, f in enumerate(means)])

    def expected(self, values: np.ndarray) -> np.ndarray:
        """Probabilities (m, C) averaged over the latent functions."""
        moments = [p.latent_moments(values) for p in self.posteriors]
        return self._classes([self.wins(i, *m, "average") for i, m in enumerate(moments)])

    def around(self, values: np.ndarray, level: float, seed: Any) -> np.ndarray:
        """By draws."""
        return around_by_draws(self, values, level, seed)

    def draw(self, values: np.ndarray, size: int, seed: Any) -> np.ndarray:
        """Probabilities (size, m, C) at joint draws of the latent functions."""
        seeds = np.random.SeedSequence(seed).spawn(len(self.posteriors))
        drawn = [
            p.sample(values, size, s, latent=True).ravel()
            for p, s in zip(self.posteriors, seeds, strict=True)
        ]
        won = [self.wins(i, f, np.zeros_like(f), "map") for i, f in enumerate(drawn)]
        return self._classes(won).reshape(size, len(values), -1)

    def loss(self, values: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """Minus the log probability of the classes of these rows."""
        won = []
        for i, (posterior, contest) in enumerate(zip(self.posteriors, self.contests, strict=True)):
            seen = contest_rows(self.codes, contest)
            position = np.cumsum(seen) - 1  # of a row among those that the contest has seen
            mean, variance = np.empty(len(rows)), np.empty(len(rows))
            own = seen[rows] & self.leaves_out
            if own.any():
                mean[own], variance[own] = posterior.left_out(values[own], position[rows[own]])
            if not own.all():
                mean[~own], variance[~own] = posterior.latent_moments(values[~own])
            won.append(self.wins(i, mean, variance, "average"))
        p = self._classes(won)
        return -np.log(np.maximum(p[np.arange(len(rows)), self.codes[rows].astype(int)], TINY))

    def closed(self, groups: Sequence[tuple[int, ...]]) -> Indices | None:
        """Probabilities have none."""
        return None

    @property
    def why_no_draws(self) -> str | None:
        """Why `draw` has no answer, or None."""
        return next((why for p in self.posteriors if (why := p.why_not("sample")) is not None), None)

    @property
    def leaves_out(self) -> bool:
        """Whether every posterior can leave out a row."""
        return all(p.can("left_out") for p in self.posteriors)

    def _classes(self, won: list[np.ndarray]) -> np.ndarray:
        if len(self.classes) == 2:
            return np.column_stack([1.0 - won[0], won[0]])
        return self.combined(np.column_stack(won))
