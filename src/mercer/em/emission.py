"""What a hidden state emits: symbols, Gaussian vectors, or vectors from a Gaussian mixture; counts are in
`mercer.em.counts`, heavy tails in `mercer.em.student`. Densities are (states, rows).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from mercer.em.blocks import Moments
from mercer.em.gaussian import Gaussians
from mercer.em.mixture import dirichlet, normalise, shares, simplex
from mercer.registry import Saved


@Saved.register
@dataclass(frozen=True)
class CategoricalEmission:
    """Symbols 0 … L − 1 with probabilities (N, L). A symbol −1 is a missing observation.

    pseudo_count: added to the expected count of every symbol that is not impossible, a Dirichlet prior
    """

    probabilities: np.ndarray
    pseudo_count: Any = 0.0

    groups: ClassVar[tuple[str, ...]] = ("emission",)  # of parameters

    def __post_init__(self):
        given = np.asarray(self.probabilities, np.float64)
        if given.ndim != 2:
            raise ValueError(
                f"emission probabilities are (states, symbols), got an array of shape {given.shape}."
            )
        object.__setattr__(self, "probabilities", simplex(given, "emission probabilities", given.shape))

    @property
    def states(self) -> int:
        """Number of hidden states N."""
        return self.probabilities.shape[0]

    @property
    def symbols(self) -> int | None:
        """How many symbols there are; None for vectors."""
        return self.probabilities.shape[1]

    def parts(self) -> dict[str, Any]:
        """What `mercer.em.scores` reads."""
        return {"emission": self.probabilities}

    def learned(self) -> dict[str, np.ndarray]:
        """Its parameters by the names that people know."""
        return {"emission": self.probabilities}

    def check(self, rows: Any, where: str) -> np.ndarray:
        """Symbols (T,) as whole numbers."""
        return symbols(rows, self.probabilities.shape[1], where)

    def log_prob(self, rows: np.ndarray) -> np.ndarray:
        """log p(row | state) of every row in every state: (N, rows)."""
        with np.errstate(divide="ignore"):
            return self.of_logs(np.log(self.probabilities), rows)

    def of_logs(self, logs: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """Log probabilities (N, rows) for (expected) logarithms (N, L) of the probabilities of symbols."""
        return np.column_stack([logs, np.zeros(len(logs))])[:, rows]

    def summarise(self, rows: np.ndarray, gamma: np.ndarray) -> np.ndarray:
        """What the M-step needs of rows with posterior probabilities gamma (N, rows) of the states."""
        L = self.probabilities.shape[1]
        place = np.where(rows < 0, L, rows)
        return np.stack([np.bincount(place, g, L + 1)[:L] for g in gamma])

    def maximise(self, counts: np.ndarray) -> CategoricalEmission:
        """The emission that explains the expected counts (N, L) best."""
        return replace(self, probabilities=updated(self.probabilities, counts, self.pseudo_count))

    def log_prior(self) -> float:
        """Log density of the parameters under their prior, up to a constant; zero without one."""
        return dirichlet(self.probabilities, self.pseudo_count)

    def q(self, before: CategoricalEmission, rows: np.ndarray, gamma: np.ndarray) -> float:
        """Σ_t Σ_i γ_i(t) log b_i(o_t)."""
        return expected(gamma, self.log_prob(rows))

    def parameters(self) -> int:
        """How many numbers are learned."""
        return int((self.probabilities > 0).sum()) - self.states

    def sample(self, states: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """One observation for each of these states."""
        return drawn(self.probabilities[states], rng)


@Saved.register
@dataclass(frozen=True)
class GaussianEmission:
    """A Gaussian vector for each state. NaN is a missing value, a row of NaN a missing observation."""

    gaussians: Gaussians

    groups: ClassVar[tuple[str, ...]] = ("means", "covariances")
    symbols: ClassVar[int | None] = None

    @property
    def states(self) -> int:
        """Number of hidden states N."""
        return self.gaussians.count

    def parts(self) -> dict[str, Any]:
        """Its arrays by name, as the scores go through them."""
        return {"gaussians": self.gaussians}

    def learned(self) -> dict[str, np.ndarray]:
        """Its parameters by the names that people know."""
        return {"means": self.gaussians.means, "covariances": self.gaussians.covariances}

    def check(self, rows: Any, where: str) -> np.ndarray:
        """Rows (T, d) of numbers."""
        return vectors(rows, self.gaussians.dimension, where)

    def log_prob(self, rows: np.ndarray) -> np.ndarray:
        """log p(row | state) of every row in every state: (N, rows)."""
        return self.gaussians.log_prob(rows)

    def summarise(self, rows: np.ndarray, gamma: np.ndarray) -> Moments:
        """What the M-step needs of rows with posterior probabilities gamma (N, rows) of the states."""
        return self.gaussians.moments(rows, lambda block: gamma[:, block.rows])

    def maximise(self, moments: Moments) -> GaussianEmission:
        """The emission that explains these moments best."""
        return GaussianEmission(self.gaussians.maximise(moments))

    def log_prior(self) -> float:
        """Log density of the parameters under their prior, up to a constant; zero without one."""
        return self.gaussians.log_prior()

    def q(self, before: GaussianEmission, rows: np.ndarray, gamma: np.ndarray) -> float:
        """Expected log density of the rows under gamma (N, rows), which EM climbs."""
        return expected(gamma, self.log_prob(rows))

    def parameters(self) -> int:
        """How many numbers are learned."""
        return self.gaussians.parameters()

    def sample(self, states: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """One observation for each of these states."""
        return self.gaussians.sample(states, rng)


@Saved.register
@dataclass(frozen=True)
class GaussianMixtureEmission:
    """A mixture of M Gaussians for each state: weights (N, M), and the Gaussians of all states,
    M of each state in turn.
    """

    weights: np.ndarray
    gaussians: Gaussians
    pseudo_count: float = 0.0

    groups: ClassVar[tuple[str, ...]] = ("weights", "means", "covariances")
    symbols: ClassVar[int | None] = None

    def __post_init__(self):
        given = np.asarray(self.weights, np.float64)
        if given.ndim != 2 or given.size != self.gaussians.count:
            raise ValueError(
                f"weights (states, components) of {self.gaussians.count} Gaussians, got an array of shape "
                f"{given.shape}."
            )
        object.__setattr__(self, "weights", simplex(given, "mixture weights", given.shape))

    @property
    def states(self) -> int:
        """Number of hidden states N."""
        return self.weights.shape[0]

    def parts(self) -> dict[str, Any]:
        """Its arrays by name, as the scores go through them."""
        return {"weights": self.weights, "gaussians": self.gaussians}

    def learned(self) -> dict[str, np.ndarray]:
        """Its parameters by the names that people know, (N, M, ...)."""
        means, covariances = self.gaussians.means, self.gaussians.covariances
        if self.gaussians.covariance_type != "tied":
            covariances = covariances.reshape(*self.weights.shape, *covariances.shape[1:])
        return {
            "weights": self.weights,
            "means": means.reshape(*self.weights.shape, -1),
            "covariances": covariances,
        }

    def check(self, rows: Any, where: str) -> np.ndarray:
        """Rows as (n, d) numbers, or an error that says where they are not."""
        return vectors(rows, self.gaussians.dimension, where)

    def log_prob(self, rows: np.ndarray) -> np.ndarray:
        """log p(row | state) of every row in every state: (N, rows)."""
        out = np.empty((self.states, len(rows)))
        for i, joint in enumerate(self._joint(self.gaussians.log_prob(rows))):
            out[i] = normalise(joint)
        return out

    def summarise(self, rows: np.ndarray, gamma: np.ndarray) -> _Counts:
        """What the M-step needs of rows with posterior probabilities gamma (N, rows) of the states."""
        moments = self.gaussians.moments(
            rows, lambda block: self._split(block.log_prob(), gamma[:, block.rows])
        )
        return _Counts(moments, moments.weight.reshape(self.weights.shape))

    def maximise(self, summary: _Counts) -> GaussianMixtureEmission:
        """The emission that explains these moments and counts best."""
        weights = updated(self.weights, summary.counts, self.pseudo_count)
        return replace(self, weights=weights, gaussians=self.gaussians.maximise(summary.moments))

    def log_prior(self) -> float:
        """Log density of the parameters under their prior, up to a constant; zero without one."""
        return dirichlet(self.weights, self.pseudo_count) + self.gaussians.log_prior()

    def q(self, before: GaussianMixtureEmission, rows: np.ndarray, gamma: np.ndarray) -> float:
        """Σ_t Σ_i Σ_l γ_il(t) log c_il b_il(o_t)."""
        split = before._split(before.gaussians.log_prob(rows), gamma)
        return expected(split, self._joint(self.gaussians.log_prob(rows)).reshape(split.shape))

    def parameters(self) -> int:
        """How many numbers are learned."""
        return self.weights.size - self.states + self.gaussians.parameters()

    def sample(self, states: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """One observation for each of these states."""
        M = self.weights.shape[1]
        return self.gaussians.sample(states * M + drawn(self.weights[states], rng), rng)

    def _joint(self, log_prob: np.ndarray) -> np.ndarray:
        """log c_il b_il: (N, M, rows)."""
        with np.errstate(divide="ignore"):
            return log_prob.reshape(*self.weights.shape, -1) + np.log(self.weights)[:, :, None]

    def _split(self, log_prob: np.ndarray, gamma: np.ndarray) -> np.ndarray:
        """γ_il = γ_i c_il b_il / b_i: (N M, rows)."""
        joint = self._joint(log_prob)
        for part, g in zip(joint, gamma, strict=True):
            normalise(part)
            part *= g
        return joint.reshape(log_prob.shape)


@dataclass(frozen=True)
class _Counts:
    moments: Moments
    counts: np.ndarray

    def __add__(self, other: _Counts) -> _Counts:
        return _Counts(self.moments + other.moments, self.counts + other.counts)


def updated(before: np.ndarray, counts: np.ndarray, pseudo_count: Any) -> np.ndarray:
    """Rows of probabilities from expected counts; zeros stay zeros,
    and a row without any count stays as it was.
    """
    counts = np.where(before > 0, counts + np.asarray(pseudo_count), 0.0)
    total = counts.sum(-1, keepdims=True)
    seen = total > np.finfo(float).tiny * 1e10
    return np.where(seen, shares(np.where(seen, counts, 1.0)), before)


def expected(weights: np.ndarray, values: np.ndarray) -> float:
    """Σ w v, where a weight of zero counts for nothing."""
    return float(np.sum(weights * np.where(weights > 0, values, 0.0)))


def drawn(probabilities: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """One index for each row of probabilities (n, k)."""
    levels = np.cumsum(probabilities, axis=1)
    return np.minimum((rng.random((len(levels), 1)) > levels).sum(1), levels.shape[1] - 1)


def symbols(rows: Any, count: int | None, where: str) -> np.ndarray:
    """Symbols (T,) as whole numbers from −1 (missing) to count − 1; NaN is missing, too."""
    given = np.asarray(rows)
    if given.ndim == 2 and given.shape[1] == 1:
        given = given[:, 0]
    if given.ndim != 1 or given.dtype.kind not in "iufb":
        raise ValueError(
            f"{where} must be whole numbers (T,), symbols from 0; got an array of shape {given.shape} and "
            f"{given.dtype}."
        )
    values = np.where(np.isnan(given), -1, given) if given.dtype.kind == "f" else given
    if len(values) == 0:
        raise ValueError(f"{where} is empty.")
    out = values.astype(np.intp)
    if not np.array_equal(out, values) or out.min() < -1:
        raise ValueError(f"{where} must hold whole numbers from 0 (NaN where missing).")
    if count is not None and out.max() >= count:
        raise ValueError(
            f"{where} has the symbol {out.max()}, but the model knows the symbols 0 to {count - 1} only."
        )
    return out


def vectors(rows: Any, dimension: int | None, where: str) -> np.ndarray:
    """Rows (T, d) as float64, NaN where missing; a plain vector (T,) is taken as T rows of one number."""
    values = np.asarray(rows, np.float64)
    values = values[:, None] if values.ndim == 1 else values
    if values.ndim != 2 or (dimension is not None and values.shape[1] != dimension):
        wanted = "(T, d)" if dimension is None else f"(T, {dimension})"
        raise ValueError(f"{where} must have the shape {wanted}, got {values.shape}.")
    if len(values) == 0:
        raise ValueError(f"{where} is empty.")
    if np.isinf(values).any():
        raise ValueError(f"{where} is infinite in row {int(np.argmax(np.isinf(values).any(1)))}.")
    return values
