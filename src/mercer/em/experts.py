"""Mixtures of Gaussian-process experts (GPML 9.6): each datum belongs to one of K processes, a gate says
which is likely where.

    p(y | x) = Σ_k g_k(x) N(y | f_k(x), σ_k²),    f_k ~ GP

By EM on a lower bound of log p(y), with independent posteriors of the labels and of the functions. Given
responsibilities r_ik, expert k is an exact GP whose datum i has the noise variance σ_k²/r_ik; given the
experts, r_ik ∝ g_k(x_i) exp E[log N(y_i | f_k, σ_k²)].
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import minimize
from scipy.special import log_softmax, logsumexp, ndtr

from mercer.em.mixture import GaussianMixture
from mercer.gp import Model, log_evidence_and_gradient
from mercer.inputs import Inputs, as_inputs, as_targets
from mercer.likelihoods import Gaussian
from mercer.params import fixed, flatten
from mercer.posteriors.protocol import AbstractPosterior
from mercer.registry import Saved

UNSEEN = 1e-10  # responsibility below which a datum does not count for an expert
LOG_2PI = float(np.log(2 * np.pi))


@dataclass(frozen=True)
class Found:
    """What an E-step found: the bound and the responsibilities (n, K)."""

    log_likelihood: float
    responsibilities: np.ndarray
    data: tuple[Inputs, np.ndarray]

    def __add__(self, other: Found) -> Found:
        raise TypeError("a mixture of Gaussian processes needs its data in one part.")


@Saved.register
@dataclass(frozen=True)
class GPExperts:
    """A mixture of Gaussian-process experts, to be fitted by `em`.

    experts: K models with Gaussian noise, `Model(GP(kernel), Gaussian(0.1))`; each learns hyperparameters of
        its own
    gate: of `mercer.em.gates`, or an object like those
    responsibilities: (n, K) of the data that it will be fitted to
    steps: of the optimiser in an M-step

    >>> experts = [Model(GP(kernels.SE()), Gaussian(0.1))] * 2
    >>> start = GPExperts.around(X, y, experts, SoftmaxGate.start(X, 2), rng)
    >>> model = em(start, [(X, y)]).model
    >>> model.condition(X, y).mean(Xs)
    """

    experts: tuple[Model, ...]
    gate: Any
    responsibilities: np.ndarray
    steps: int = 8

    def __post_init__(self):
        object.__setattr__(self, "experts", tuple(self.experts))
        r = np.asarray(self.responsibilities, np.float64)
        if r.ndim != 2 or r.shape[1] != len(self.experts) or not np.allclose(r.sum(1), 1.0) or (r < 0).any():
            raise ValueError(
                f"responsibilities must be probabilities (n, {len(self.experts)}), got an array of shape "
                f"{r.shape}."
            )
        for expert in self.experts:
            if not isinstance(expert.likelihood, Gaussian) or expert.likelihood.per_datum:
                raise ValueError("an expert has Gaussian noise of one variance.")
        object.__setattr__(self, "responsibilities", r)

    @classmethod
    def around(
        cls,
        X: np.ndarray,
        y: np.ndarray,
        experts: Sequence[Model],
        gate: Any,
        rng: np.random.Generator,
        by: str = "both",
    ) -> GPExperts:
        """A start: groups of similar x and y ("both"), or of similar x ("x"),
        by a Gaussian mixture in standardised columns.
        """
        Z = np.column_stack([X, y]) if by == "both" else np.asarray(X)
        spread = Z.std(0)
        Z = (Z - Z.mean(0)) / np.where(spread > 0, spread, 1.0)
        K = len(experts)
        mixture = GaussianMixture.around(Z, K, rng, floor=1e-3)
        for _ in range(5):
            mixture = mixture.maximise(mixture.expect(Z))
        r = 0.9 * mixture.responsibilities(Z) + 0.1 / K
        return cls(tuple(experts), gate.fit(np.asarray(X), r), r)

    # -- EM --------------------------------------------------------------------------------------------------

    def expect(self, data: tuple[Any, Any]) -> Found:
        """New responsibilities from the functions that the present ones give, and the bound with them."""
        inputs, y = _prepared(self.experts[0], *data)
        log_g = self.gate.log_prob(inputs.values)
        fit = [self._explained(k, inputs, y) for k in range(len(self.experts))]
        r = np.exp(log_softmax(log_g + np.stack(fit, 1), axis=1))
        bound = sum(weighted_evidence(e, inputs, y, w)[0] for e, w in zip(self.experts, r.T, strict=True))
        with np.errstate(divide="ignore", invalid="ignore"):
            bound += np.sum(np.where(r > 0, r * (log_g - np.log(r)), 0.0))
        return Found(float(bound), r, (inputs, y))

    def maximise(self, found: Found) -> GPExperts:
        """The M-step: some steps of each expert's optimiser on its weighted rows, and a new gate."""
        inputs, y = found.data
        r = found.responsibilities
        experts = tuple(_climb(e, inputs, y, w, self.steps) for e, w in zip(self.experts, r.T, strict=True))
        return replace(self, experts=experts, gate=self.gate.fit(inputs.values, r), responsibilities=r)

    def log_prior(self) -> float:
        """Log prior of the gate and of the experts' hyperparameters."""
        return self.gate.log_prior() + sum(_log_prior(e)[0] for e in self.experts)

    def condition(self, X: Any, y: Any) -> ConditionedExperts:
        """The posterior of all experts, by responsibilities from one more E-step."""
        inputs, y = _prepared(self.experts[0], X, y)
        return self._conditioned(self.expect((inputs, y)).responsibilities, inputs, y)

    def _conditioned(self, r: np.ndarray, inputs: Inputs, y: np.ndarray) -> ConditionedExperts:
        noise = np.array([_noise(e) for e in self.experts])
        return ConditionedExperts(
            self.gate,
            tuple(weighted(e, inputs, y, w) for e, w in zip(self.experts, r.T, strict=True)),
            noise,
            r,
        )

    def _explained(self, k: int, inputs: Inputs, y: np.ndarray) -> np.ndarray:
        """E[log N(y_i | f_k(x_i), σ_k²)]: (n,)."""
        mean, variance = weighted(self.experts[k], inputs, y, self.responsibilities[:, k]).latent_moments(
            inputs
        )
        noise = _noise(self.experts[k])
        return -0.5 * (((y - mean) ** 2 + variance) / noise + np.log(noise) + LOG_2PI)


@dataclass(frozen=True)
class ConditionedExperts:
    """Experts given data, and their gate. Predictions are mixtures of K Gaussians: often of two peaks where
    regimes meet.

    experts: K posteriors
    noise: (K,) noise variances
    responsibilities: (n, K) of the data
    """

    gate: Any
    experts: tuple[AbstractPosterior, ...]
    noise: np.ndarray
    responsibilities: np.ndarray

    def parts(self, Xs: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Gate probabilities, means and variances of y for each expert: (m, K) each."""
        inputs = as_inputs(Xs, "Xs", self.experts[0].inputs.names)
        moments = [e.latent_moments(inputs) for e in self.experts]
        means, variances = (np.stack(m, 1) for m in zip(*moments, strict=True))
        return np.exp(self.gate.log_prob(inputs.values)), means, variances + self.noise

    def mean(self, Xs: Any) -> np.ndarray:
        """Predictive mean (m,)."""
        return self.mean_and_std(Xs)[0]

    def mean_and_std(self, Xs: Any) -> tuple[np.ndarray, np.ndarray]:
        """Mean and standard deviation (m,) of y under the mixture."""
        g, means, variances = self.parts(Xs)
        mean = np.sum(g * means, 1)
        return mean, np.sqrt(np.sum(g * (variances + (means - mean[:, None]) ** 2), 1))

    def log_density(self, Xs: Any, ys: Any) -> np.ndarray:
        """Log predictive density (m,) of each observation."""
        parts = self.parts(Xs)
        return _log_density(as_targets(ys, len(parts[0]), "ys")[:, None], *parts)

    def density(self, Xs: Any, grid: ArrayLike) -> np.ndarray:
        """Predictive density of y (m, len(grid)) at the values `grid`."""
        parts = self.parts(Xs)
        return np.exp(
            np.stack([_log_density(np.full((1, 1), v), *parts) for v in np.asarray(grid, float)], 1)
        )

    def quantile(self, Xs: Any, q: ArrayLike) -> np.ndarray:
        """Quantiles of y under the mixture: (m,) for one q, (m, len(q)) for several."""
        q = np.asarray(q, float)
        if np.any((q <= 0) | (q >= 1)):
            raise ValueError(f"quantiles must lie strictly between 0 and 1, got {q}.")
        g, means, variances = self.parts(Xs)
        std = np.sqrt(variances)
        out = [_mixture_quantile(p, g, means, std) for p in np.atleast_1d(q)]
        return out[0] if q.ndim == 0 else np.stack(out, 1)


# ------------------------------------------------------------------------------------------------- one
# weighted expert


def weighted(expert: Model, inputs: Inputs, y: np.ndarray, r: np.ndarray) -> AbstractPosterior:
    """The expert given data of which each counts r_i times: noise variance σ²/r_i."""
    seen, r = _seen(r)
    noise = _noise(expert) / r
    return Model(expert.gp, Gaussian(fixed(noise))).condition(
        Inputs(inputs.values[seen], inputs.names), y[seen]
    )


def weighted_evidence(
    expert: Model, inputs: Inputs, y: np.ndarray, r: np.ndarray
) -> tuple[float, dict[str, Any]]:
    """log ∫ Π_i N(y_i | f_i, σ²)^{r_i} p(f) df and its gradient by hyperparameters, by name."""
    seen, r = _seen(r)
    n, noise = len(r), _noise(expert)
    model = Model(expert.gp, Gaussian(fixed(noise / r)))
    value, gradient = log_evidence_and_gradient(model, Inputs(inputs.values[seen], inputs.names), y[seen])
    by_noise = np.sum(gradient["likelihood.noise_variance"] / r) + 0.5 * (n - r.sum()) / noise
    log_2pi_noise = LOG_2PI + np.log(noise)
    value += 0.5 * np.sum((1 - r) * log_2pi_noise - np.log(r))
    return value, gradient | {"likelihood.noise_variance": by_noise}


def _noise(expert: Model) -> float:
    likelihood: Any = expert.likelihood
    return float(likelihood.noise_variance)


def _seen(r: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Data that count, at least those that count most, and how much."""
    seen = (r > UNSEEN) | (r == r.max())
    return seen, np.maximum(r[seen], UNSEEN)


def _climb(expert: Model, inputs: Inputs, y: np.ndarray, r: np.ndarray, steps: int) -> Model:
    """The expert after a few steps towards the largest weighted evidence."""
    expert = expert.bind(inputs)
    flat = flatten(expert)
    if not len(flat.vector):
        return expert

    def cost(vector):
        try:
            value, gradient = weighted_evidence(flat.unflatten(vector), inputs, y, r)
        except (np.linalg.LinAlgError, ArithmeticError, ValueError):
            return 1e100, np.zeros_like(vector)
        prior, slope = flat.log_prior(vector)
        return -value - prior, -flat.pull(gradient, vector) - slope

    bounds = [
        (max(v - 5.0, lo if lo is not None else -np.inf), min(v + 5.0, hi if hi is not None else np.inf))
        for v, (lo, hi) in zip(flat.vector, flat.bounds(), strict=True)
    ]
    found = minimize(
        cost, flat.vector, jac=True, method="L-BFGS-B", bounds=bounds, options={"maxiter": steps}
    )
    return flat.unflatten(found.x) if found.fun < cost(flat.vector)[0] else expert


def _log_prior(expert: Model) -> tuple[float, np.ndarray]:
    flat = flatten(expert)
    return flat.log_prior(flat.vector)


def _prepared(expert: Model, X, y) -> tuple[Inputs, np.ndarray]:
    inputs = as_inputs(X)
    return inputs, as_targets(y, len(inputs.values))


def _log_density(ys: np.ndarray, g: np.ndarray, means: np.ndarray, variances: np.ndarray) -> np.ndarray:
    return logsumexp(-0.5 * ((ys - means) ** 2 / variances + np.log(variances) + LOG_2PI), axis=1, b=g)


def _mixture_quantile(q: float, g: np.ndarray, means: np.ndarray, std: np.ndarray) -> np.ndarray:
    """By bisection of the distribution function."""
    low, high = (means - 40 * std).min(1), (means + 40 * std).max(1)
    for _ in range(100):
        middle = 0.5 * (low + high)
        below = np.sum(g * ndtr((middle[:, None] - means) / std), 1) < q
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    return 0.5 * (low + high)
