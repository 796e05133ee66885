"""Predictions averaged over several posteriors with weights: models (Kuss 2.11),
or settings of hyperparameters (5.2).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np
from scipy.special import logsumexp, ndtr

from mercer.inputs import Inputs
from mercer.likelihoods.base import continuous_quantile
from mercer.likelihoods.gaussian import Gaussian
from mercer.posteriors.answers import InferenceStatus, PosteriorError
from mercer.posteriors.functions import SampledFunctions, joined
from mercer.posteriors.gaussian import GaussianPosterior
from mercer.posteriors.mixture import AbstractMixturePosterior
from mercer.posteriors.packing import Again, models_at, read_array, values_of
from mercer.posteriors.protocol import AbstractPosterior


@dataclasses.dataclass(frozen=True, eq=False)
class AveragedPosterior(AbstractMixturePosterior):
    """A mixture of posteriors of the same data: means are averaged, variances gain the spread of the means.

    weights (k,) sum to one. `evidence` is the log evidence of the mixture where the parts' weights came from
    their evidences, else None. `model` is that of the heaviest part.

    >>> post = learning.integrate(fit(model, X, y)); post.mean_and_std(Xs), post.weights
    """

    posteriors: tuple[AbstractPosterior, ...]
    weights: np.ndarray
    evidence: float | None = None
    notes: tuple[str, ...] = ()
    model: Any = dataclasses.field(init=False)
    inputs: Inputs = dataclasses.field(init=False)
    y: np.ndarray = dataclasses.field(init=False)
    status: InferenceStatus = dataclasses.field(init=False)
    solver: Any = dataclasses.field(init=False)

    averages: ClassVar[bool] = True
    many: ClassVar[str] = "posteriors"

    def __post_init__(self) -> None:
        weights = np.asarray(self.weights, float)
        if len(self.posteriors) == 0 or weights.shape != (len(self.posteriors),):
            raise ValueError(
                f"{len(self.posteriors)} posteriors need as many weights, got shape {weights.shape}."
            )
        if np.any(weights < 0) or not np.isclose(weights.sum(), 1.0):
            raise ValueError(f"weights must be non-negative and sum to one, got {weights}.")
        heaviest = self.posteriors[int(np.argmax(weights))]
        states = [part.status for part in self.posteriors]
        status = InferenceStatus(
            all(s.converged for s in states), sum(s.iterations for s in states), f"average of {len(states)}"
        )
        for name, value in (
            ("weights", weights),
            ("model", heaviest.model),
            ("inputs", heaviest.inputs),
            ("y", heaviest.y),
            ("status", status),
            ("solver", heaviest.solver),
        ):
            object.__setattr__(self, name, value)

    def _nor(self, question: str) -> str | None:
        if question == "log_evidence" and self.evidence is None:
            return (
                "an average of posteriors has an evidence only where its weights came from evidences; the "
                "parts have theirs: [part.log_evidence for part in posterior.posteriors]."
            )
        if question == "save" and not all(
            np.array_equal(part.inputs.values, self.inputs.values) for part in self.posteriors
        ):
            return (
                "its parts were conditioned on different data, which files do not hold: use a solver that "
                "takes all data."
            )
        if question == "quantile" and not all(
            isinstance(p.model.likelihood, Gaussian) for p in self.posteriors
        ):
            return "quantiles of a mixture are available for Gaussian noise; use sample or probability."
        if question == "sample_functions":
            return next((why for part in self.posteriors if (why := part.why_not(question))), None)
        return None

    # -- files -----------------------------------------------------------------------------------------------

    def packed(self) -> dict[str, Any]:
        """Hyperparameters and sites of every part, and the weights."""
        return {
            "values": values_of(self.model, [part.model for part in self.posteriors]),
            "parts": [{"packed": part.packed(), "solver": part.solver} for part in self.posteriors],
            "weights": self.weights,
            "evidence": self.evidence,
            "notes": list(self.notes),
        }

    @classmethod
    def unpacked(cls, packed: dict[str, Any], again: Again) -> AveragedPosterior:
        """The same parts, not factored yet."""
        weights = read_array(packed, "weights", 1)
        models = models_at(again.model, read_array(packed, "values", 2))
        parts = tuple(
            GaussianPosterior.unpacked(
                part["packed"], dataclasses.replace(again, model=model, solver=part["solver"])
            )
            for model, part in zip(models, packed["parts"], strict=True)
        )
        evidence = None if packed["evidence"] is None else float(packed["evidence"])
        return cls(parts, weights, evidence, tuple(map(str, packed["notes"])))

    # -- predictions -----------------------------------------------------------------------------------------

    def latent_moments(self, Xs: Any, variance: bool = True) -> tuple[np.ndarray, np.ndarray | None]:
        """Mean and variance of f at Xs: (m,) each; (m, L) and (m, L, L) for L latent functions."""
        values = self._values(Xs)
        if not variance:
            return self._sum(
                [part.latent_moments(values, variance=False)[0] for part in self.posteriors]
            ), None
        moments = [part._moments(values, True, None) for part in self.posteriors]
        return self._pooled([m for m, _ in moments], [v for _, v in moments])

    def _observed(self, values: np.ndarray, noise_variance: Any) -> tuple[np.ndarray, np.ndarray]:
        moments = [part._observed(values, noise_variance) for part in self.posteriors]
        return self._pooled([m for m, _ in moments], [v for _, v in moments])

    def _predictive(
        self, values: np.ndarray, levels: np.ndarray, noise_variance: Any
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        moments = [part._observed(values, noise_variance) for part in self.posteriors]
        mean, sd = np.stack([m for m, _ in moments]), np.sqrt([v for _, v in moments])
        low, high = (mean - 3 * sd).min(0), (mean + 3 * sd).max(0)

        def cdf(y: np.ndarray) -> Any:
            return self.weights @ ndtr((y - mean) / sd)

        quantiles = np.stack([continuous_quantile(cdf, q, low, high) for q in levels], 1)
        return *self._pooled([m for m, _ in moments], [v for _, v in moments]), quantiles

    def _log_density(self, values: np.ndarray, ys: np.ndarray, noise_variance: Any) -> np.ndarray:
        logs = np.stack([part._log_density(values, ys, noise_variance) for part in self.posteriors])
        return np.asarray(logsumexp(logs, axis=0, b=self.weights[:, None]))

    def _average(self, values: np.ndarray, function: Callable[..., np.ndarray], how: str) -> np.ndarray:
        return self._sum([part._average(values, function, how) for part in self.posteriors])

    def _covariance(self, values: np.ndarray, latent: bool, noise_variance: Any) -> np.ndarray:
        means = np.stack([part.mean(values, latent=True) for part in self.posteriors])
        e = means - self.weights @ means
        within = self._sum([part._covariance(values, latent, noise_variance) for part in self.posteriors])
        return np.asarray(within + (self.weights * e.T) @ e)

    def _sample(
        self, values: np.ndarray, size: int, rng: np.random.Generator, latent: bool, noise_variance: Any
    ) -> np.ndarray:
        """Each draw from a part chosen by its weight."""
        counts = rng.multinomial(size, self.weights)
        parts = [
            part._sample(values, int(count), rng, latent, noise_variance)
            for part, count in zip(self.posteriors, counts, strict=True)
            if count
        ]
        return np.concatenate(parts)[rng.permutation(size)]

    def _sample_functions(
        self, size: int, rng: np.random.Generator, points: np.ndarray | None, waves: int
    ) -> SampledFunctions:
        """Each from a part chosen by its weight."""
        counts = rng.multinomial(size, self.weights)
        parts = [
            part._sample_functions(int(count), rng, points, waves)
            for part, count in zip(self.posteriors, counts, strict=True)
            if count
        ]
        return joined(parts, rng)

    # -- the data seen from the model ------------------------------------------------------------------------

    def outlier_score(self) -> np.ndarray:
        """How far each datum is from being a regular observation (n,), f given all data."""
        self.check("outlier_score")
        return self._score_given_all()

    def _log_likelihoods(self, rows: slice, size: int, rng: np.random.Generator) -> np.ndarray:
        """Each from a part chosen by its weight."""
        if any(part.inputs.values.shape != self.inputs.values.shape for part in self.posteriors):
            raise PosteriorError("its parts were conditioned on different data: use a solver that takes all.")
        logs = []
        for part, count in zip(self.posteriors, rng.multinomial(size, self.weights), strict=True):
            if count:
                drawn = part._log_likelihoods(rows, int(count), rng)
                same = len(drawn) == count
                logs.append(drawn if same else drawn[rng.integers(0, len(drawn), count)])
        return np.concatenate(logs)

    # -- inside ----------------------------------------------------------------------------------------------

    def _sum(self, values: Sequence[np.ndarray]) -> np.ndarray:
        return np.tensordot(self.weights, np.stack(values), 1)

    def _pooled(
        self, means: Sequence[np.ndarray], variances: Sequence[np.ndarray]
    ) -> tuple[np.ndarray, np.ndarray]:
        """Moments of the mixture: variances gain the spread of the means."""
        mean = self._sum(means)
        spread = [
            e[..., None] * e[..., None, :] if v.ndim == 3 else e**2
            for e, v in zip((m - mean for m in means), variances, strict=True)
        ]
        return mean, self._sum([v + s for v, s in zip(variances, spread, strict=True)])

    def _findings(self) -> list[str]:
        k, w = len(self.posteriors), self.weights
        lines = [f"an average of {k} posteriors: the heaviest has weight {w.max():.3f}"]
        return lines if self.evidence is None else [*lines, f"log evidence: {self.evidence:.4f}"]

    def __repr__(self) -> str:
        return f"AveragedPosterior({len(self.posteriors)} parts, heaviest {self.weights.max():.3f})"
