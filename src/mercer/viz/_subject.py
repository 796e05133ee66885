"""What a picture is of, whatever was handed in: a Posterior, a Fit or a fitted estimator, in the units of the user's data."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from mercer.inputs import as_inputs


@dataclasses.dataclass(frozen=True, eq=False)
class Subject:
    """The data, and how to predict. `source` is the estimator where there is one, else the posterior."""

    X: np.ndarray
    y: np.ndarray
    xlabel: str
    ylabel: str
    posterior: Any
    source: Any

    @classmethod
    def of(cls, model: Any) -> Subject:
        if hasattr(model, "latent_moments"):
            return cls._of_posterior(model)
        if hasattr(model, "history") and hasattr(model, "posterior"):
            if isinstance(model.posterior, list):
                raise ValueError("this fit pooled several data sets: draw one of its posteriors, fit.posterior[i].")
            return cls._of_posterior(model.posterior)
        if hasattr(model, "posterior_"):
            return cls._of_estimator(model)
        if hasattr(model, "fit") or hasattr(model, "condition"):
            raise TypeError(f"{type(model).__name__} has not seen data yet: condition or fit it first.")
        raise TypeError(f"cannot draw a {type(model).__name__}: give a Posterior, a Fit or a fitted estimator.")

    @classmethod
    def _of_posterior(cls, post: Any) -> Subject:
        names = post.inputs.names
        return cls(post.inputs.values, post.y, names[0] if names else "x", "y", post, post)

    @classmethod
    def _of_estimator(cls, model: Any) -> Subject:
        names = getattr(model, "feature_names_in_", None)
        label = str(names[0]) if names is not None else "x"
        return cls(model.X_train_, model.y_train_, label, getattr(model, "target_name_", None) or "y", model.posterior_, model)

    @property
    def noise_per_datum(self) -> bool:
        """Known noise of the training data only: nothing can be said of y elsewhere."""
        return bool(getattr(self.posterior.model.likelihood, "per_datum", False))

    def grid(self, count: int) -> np.ndarray:
        """(count, 1) along the range of the data and a twentieth more at each end."""
        if self.X.shape[1] != 1:
            raise ValueError(f"this picture is of one input, and the model has {self.X.shape[1]}.")
        low, high = float(self.X.min()), float(self.X.max())
        margin = 0.05 * (high - low) or 1.0
        return np.linspace(low - margin, high + margin, count)[:, None]

    def moments(self, X: np.ndarray, latent: bool) -> tuple[np.ndarray, np.ndarray]:
        """Mean and standard deviation (m,) of f or y."""
        if self.source is self.posterior:
            return self.posterior.mean(X), self.posterior.std(X, latent=latent)
        return self.source.predict(X, return_std=True, latent=latent)

    def sample(self, X: np.ndarray, size: int, seed: Any) -> np.ndarray:
        """Draws of f: (size, m)."""
        if self.source is self.posterior:
            return self.posterior.sample(X, size, seed, latent=True)
        return self.source.sample_y(X, size, seed, latent=True).T

    def components(self, X: np.ndarray) -> list[Any]:
        return self.source.components(X)


def line(X: Any, where: str) -> tuple[np.ndarray, np.ndarray]:
    """X (m, 1) and its only column; a plain vector is taken as that column."""
    values = np.asarray(X, float)[:, None] if np.ndim(X) == 1 and not isinstance(X, dict) else as_inputs(X).values
    if values.shape[1] != 1:
        raise ValueError(f"{where} draws along one input, but X has {values.shape[1]} columns.")
    return values, values[:, 0]
