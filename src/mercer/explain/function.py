"""What is explained: a fitted function of columns that can be asked for values, draws and left-out
predictions.
"""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Sequence
from statistics import NormalDist
from typing import Any

import numpy as np

from mercer.explain.closed import closed_indices
from mercer.explain.sobol import Indices
from mercer.inputs import Inputs
from mercer.posteriors.protocol import AbstractPosterior, class_probabilities

DRAWS = 200  # of an interval


class AbstractFitted(abc.ABC):
    """A fitted function with q values at each row: one number, or the probability of each class.

    It is the prediction at the posterior mean of f: f itself where noise is symmetric, the rate of counts,
    the probabilities of classes.
    """

    @property
    @abc.abstractmethod
    def inputs(self) -> Inputs:
        """The training inputs: values (n, d)."""

    @property
    @abc.abstractmethod
    def what(self) -> str:
        """What the values are, in words."""

    @property
    @abc.abstractmethod
    def labels(self) -> tuple[str, ...]:
        """What the q values are called, where they are classes; none for one number."""

    @property
    @abc.abstractmethod
    def is_latent(self) -> bool:
        """Whether what is predicted is f itself, so that a mean needs no variance."""

    @abc.abstractmethod
    def value(self, values: np.ndarray) -> np.ndarray:
        """The function at rows (m, d): (m, q)."""

    @abc.abstractmethod
    def expected(self, values: np.ndarray) -> np.ndarray:
        """What is predicted at rows (m, d), averaged over f: (m, q)."""

    @abc.abstractmethod
    def around(self, values: np.ndarray, level: float, seed: Any) -> np.ndarray:
        """How far below and above the posterior mean of its average over rows (m, d) the function may be: the
        interval of probability `level` (2, q), from the joint posterior at all rows.
        """

    @abc.abstractmethod
    def draw(self, values: np.ndarray, size: int, seed: Any) -> np.ndarray:
        """Joint draws from the posterior of the function at rows (m, d): (size, m, q)."""

    @abc.abstractmethod
    def loss(self, values: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """How badly the target of the training row at each position of `rows` (m,) is predicted at `values`
        (m, d) in its place: (m,).
        """

    @property
    @abc.abstractmethod
    def loss_name(self) -> str:
        """What `loss` is, in words."""

    @abc.abstractmethod
    def closed(self, groups: Sequence[tuple[int, ...]]) -> Indices | None:
        """The Sobol indices of the function in closed form; None where there is none."""

    @property
    @abc.abstractmethod
    def why_no_draws(self) -> str | None:
        """Why `draw` has no answer, or None."""

    @property
    @abc.abstractmethod
    def leaves_out(self) -> bool:
        """Whether `loss` is that of predictions by the other rows alone; else the row itself takes part."""


@dataclasses.dataclass(frozen=True, eq=False)
class PosteriorFunction(AbstractFitted):
    """The function inside one posterior. `classes`: what they are called, where it predicts classes."""

    posterior: AbstractPosterior
    classes: tuple[str, ...] | None = None

    @property
    def labels(self) -> tuple[str, ...]:
        """What classes are called."""
        if not self.posterior.model.likelihood.categorical:
            return ()
        if self.classes is not None:
            return self.classes
        return tuple(f"class {c}" for c in range(self.value(self.inputs.values[:1]).shape[1]))

    @property
    def loss_name(self) -> str:
        """What `loss` is."""
        categorical = self.posterior.model.likelihood.categorical
        return "log loss" if categorical else "squared error / variance of y"

    @property
    def inputs(self) -> Inputs:
        """The training inputs."""
        return self.posterior.inputs

    @property
    def what(self) -> str:
        """What the values are."""
        likelihood = self.posterior.model.likelihood
        return "probabilities of the classes" if likelihood.categorical else "mean of y"

    @property
    def is_latent(self) -> bool:
        """Whether noise is symmetric around f."""
        return bool(self.posterior.model.likelihood.mean_is_latent)

    def value(self, values: np.ndarray) -> np.ndarray:
        """The function at rows (m, d): (m, q)."""
        return self._observed(self.posterior.latent_moments(values, variance=False)[0], values)

    def expected(self, values: np.ndarray) -> np.ndarray:
        """The predicted mean (m, 1), or probabilities of the classes (m, C)."""
        if self.posterior.model.likelihood.categorical:
            return self.posterior.class_probabilities(values)
        return self.posterior.mean(values)[:, None]

    def around(self, values: np.ndarray, level: float, seed: Any) -> np.ndarray:
        """Of Gaussian averages by their covariances, else by draws."""
        if not self.is_latent:
            return around_by_draws(self, values, level, seed)
        variance = max(float(self.posterior.covariance(values, latent=True).mean()), 0.0)
        return np.sqrt(variance) * NormalDist().inv_cdf(0.5 + 0.5 * level) * np.array([[-1.0], [1.0]])

    def draw(self, values: np.ndarray, size: int, seed: Any) -> np.ndarray:
        """Joint draws of the function at rows (m, d): (size, m, q)."""
        f = self.posterior.sample(values, size, seed, latent=True)
        every = self._observed(f.reshape(-1, *f.shape[2:]), np.tile(values, (size, 1)))
        return every.reshape(size, len(values), -1)

    def loss(self, values: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """How badly the targets of these rows are predicted at `values`: squared errors as a share of the
        variance of y, or minus the log probability of the class.
        """
        post, likelihood = self.posterior, self.posterior.model.likelihood
        mean, variance = (
            post.left_out(values, rows, not self.is_latent)
            if self.leaves_out
            else post.latent_moments(values, variance=not self.is_latent)
        )
        y = np.asarray(post.y)[rows]
        if likelihood.categorical:
            return -np.asarray(likelihood.log_density(y, mean, variance))
        own = likelihood.at_rows(rows, len(post.y))
        predicted = mean if self.is_latent else own.predict(mean, variance)[0]
        return np.asarray((y - predicted) ** 2 / (np.var(post.y) or 1.0))

    def closed(self, groups: Sequence[tuple[int, ...]]) -> Indices | None:
        """The Sobol indices in closed form, where the kernel is a sum of products over the groups."""
        return closed_indices(self.posterior, groups)

    @property
    def why_no_draws(self) -> str | None:
        """Why `draw` has no answer, or None."""
        one = self.posterior.model.likelihood.latents == 1
        return self.posterior.why_not("sample" if one else "covariance")

    @property
    def leaves_out(self) -> bool:
        """Whether the posterior can leave out a row."""
        return self.posterior.can("left_out")

    def _observed(self, f: np.ndarray, values: np.ndarray) -> np.ndarray:
        """What is predicted at rows (m, d) where f is known: (m, q)."""
        likelihood = self.posterior.model.likelihood.elsewhere(values) or self.posterior.model.likelihood
        if self.is_latent and f.ndim == 1:
            return f[:, None]
        none = np.zeros(f.shape if f.ndim == 1 else (*f.shape, f.shape[1]))
        if likelihood.categorical:
            return class_probabilities(likelihood, f, none, "map")
        return np.asarray(likelihood.predict(f, none)[0])[:, None]


def around_by_draws(function: AbstractFitted, values: np.ndarray, level: float, seed: Any) -> np.ndarray:
    """`AbstractFitted.around` from draws of the function."""
    averages = function.draw(values, DRAWS, seed).mean(1)
    ends: np.ndarray = np.quantile(averages, [0.5 - 0.5 * level, 0.5 + 0.5 * level], axis=0)
    return ends - averages.mean(0)
