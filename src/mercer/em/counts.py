"""Hidden states that emit counts: Poisson, one mean for each column, and multinomial, shares of a total."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from scipy.special import gammaln

from mercer.em.emission import expected, updated, vectors
from mercer.em.mixture import dirichlet, simplex
from mercer.hyperpriors import Gamma
from mercer.registry import Saved

SMALLEST = float(np.finfo(float).tiny)  # mean of counts that are never seen


@Saved.register
@dataclass(frozen=True)
class PoissonEmission:
    """Independent counts in d columns with means (N, d). NaN is a missing value.

    prior: of every mean, a `mercer.hyperpriors.Gamma` with shape a and rate b, for the posterior mode: a − 1
        further counts in b further rows. With a < 1 it is highest at zero, and a mean may become zero

    >>> PoissonEmission([[2.0], [9.0]]).log_prob(np.array([[3.0]]))
    """

    means: np.ndarray
    prior: Gamma | None = None

    groups: ClassVar[tuple[str, ...]] = ("means",)
    symbols: ClassVar[int | None] = None

    def __post_init__(self):
        means = np.array(self.means, np.float64)
        if means.ndim != 2 or not np.isfinite(means).all() or not (means >= 0).all():
            raise ValueError(
                f"means of counts are (states, columns), finite and not negative; got {self.means!r}."
            )
        object.__setattr__(self, "means", np.maximum(means, SMALLEST))

    @property
    def states(self) -> int:
        """Number of hidden states N."""
        return self.means.shape[0]

    def parts(self) -> dict[str, Any]:
        """What `mercer.em.scores` reads."""
        return {"rates": self.means}

    def learned(self) -> dict[str, np.ndarray]:
        """Its parameters by the names that people know."""
        return {"means": self.means}

    def check(self, rows: Any, where: str) -> np.ndarray:
        """Counts (T, d)."""
        return counts(rows, self.means.shape[1], where)

    def log_prob(self, rows: np.ndarray) -> np.ndarray:
        """log p(row | state) of every row in every state: (N, rows)."""
        return self.of_logs(np.log(self.means), self.means, rows)

    @staticmethod
    def of_logs(logs: np.ndarray, means: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """Log probabilities (N, rows) for (expected) logarithms of the means and means (N, d)."""
        seen = ~np.isnan(rows)
        x = np.where(seen, rows, 0.0)
        return logs @ x.T - means @ seen.T - gammaln(x + 1).sum(1)

    def summarise(self, rows: np.ndarray, gamma: np.ndarray) -> np.ndarray:
        """Expected sums of the counts and numbers of rows: (2, N, d)."""
        seen = ~np.isnan(rows)
        return np.stack([gamma @ np.where(seen, rows, 0.0), gamma @ seen])

    def maximise(self, sums: np.ndarray) -> PoissonEmission:
        """The emission that explains these sums best, under its prior."""
        total, number = sums if self.prior is None else sums + _further(self.prior)
        seen = number > 10 * np.finfo(float).eps * max(1.0, float(number.sum()))
        means = np.maximum(total, 0.0) / np.where(seen, number, 1.0)
        return replace(self, means=np.where(seen, means, self.means))

    def log_prior(self) -> float:
        """Log density of the parameters under their prior, up to a constant; zero without one."""
        if self.prior is None:
            return 0.0
        more, rows = _further(self.prior).ravel()
        return float(np.sum(more * np.log(self.means) - rows * self.means))

    def q(self, before: PoissonEmission, rows: np.ndarray, gamma: np.ndarray) -> float:
        """Expected log density of the rows under gamma (N, rows), which EM climbs."""
        return expected(gamma, self.log_prob(rows))

    def parameters(self) -> int:
        """How many numbers are learned."""
        return self.means.size

    def sample(self, states: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """One row of counts for each of these states."""
        return rng.poisson(self.means[states])


@Saved.register
@dataclass(frozen=True)
class MultinomialEmission:
    """Counts of L kinds in a row, whose total is given: multinomial with probabilities (N, L). A row of NaN
    is a missing observation. Rows with a total of one are symbols, as in `CategoricalEmission`.

    pseudo_count: added to the expected count of every kind that is not impossible, a Dirichlet prior
    trials: the total of each row that is drawn by `sample`

    >>> MultinomialEmission([[0.5, 0.5], [0.9, 0.1]]).log_prob(np.array([[3.0, 1.0]]))
    """

    probabilities: np.ndarray
    pseudo_count: Any = 0.0
    trials: int | None = None

    groups: ClassVar[tuple[str, ...]] = ("emission",)
    symbols: ClassVar[int | None] = None

    def __post_init__(self):
        given = np.asarray(self.probabilities, np.float64)
        if given.ndim != 2:
            raise ValueError(
                f"emission probabilities are (states, kinds), got an array of shape {given.shape}."
            )
        object.__setattr__(self, "probabilities", simplex(given, "emission probabilities", given.shape))

    @property
    def states(self) -> int:
        """Number of hidden states N."""
        return self.probabilities.shape[0]

    def parts(self) -> dict[str, Any]:
        """What `mercer.em.scores` reads."""
        return {"emission": self.probabilities, "totals": True}

    def learned(self) -> dict[str, np.ndarray]:
        """Its parameters by the names that people know."""
        return {"emission": self.probabilities}

    def check(self, rows: Any, where: str) -> np.ndarray:
        """Counts (T, L); a row is complete or missing."""
        return totals(rows, self.probabilities.shape[1], where)

    def log_prob(self, rows: np.ndarray) -> np.ndarray:
        """log p(row | state) of every row in every state: (N, rows)."""
        with np.errstate(divide="ignore"):
            return self.of_logs(np.log(self.probabilities), rows)

    def of_logs(self, logs: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """Log probabilities (N, rows) for (expected) logarithms (N, L) of the probabilities of kinds."""
        x = np.where(np.isnan(rows), 0.0, rows)
        ways = gammaln(x.sum(1) + 1) - gammaln(x + 1).sum(1)
        possible = np.isfinite(logs)
        out = np.where(possible, logs, 0.0) @ x.T + ways
        return np.where((~possible).astype(float) @ x.T > 0, -np.inf, out)

    def summarise(self, rows: np.ndarray, gamma: np.ndarray) -> np.ndarray:
        """Expected counts (N, L)."""
        return gamma @ np.where(np.isnan(rows), 0.0, rows)

    def maximise(self, counts: np.ndarray) -> MultinomialEmission:
        """The emission that explains the expected counts (N, L) best."""
        return replace(self, probabilities=updated(self.probabilities, counts, self.pseudo_count))

    def log_prior(self) -> float:
        """Log density of the parameters under their prior, up to a constant; zero without one."""
        return dirichlet(self.probabilities, self.pseudo_count)

    def q(self, before: MultinomialEmission, rows: np.ndarray, gamma: np.ndarray) -> float:
        """Expected log density of the rows under gamma (N, rows), which EM climbs."""
        return expected(gamma, self.log_prob(rows))

    def parameters(self) -> int:
        """How many numbers are learned."""
        return int((self.probabilities > 0).sum()) - self.states

    def sample(self, states: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """One row of `trials` counts for each of these states."""
        if self.trials is None:
            raise ValueError(
                "how many counts a row has is not known (they differ in the data): set trials= of the "
                "MultinomialEmission to draw rows."
            )
        return rng.multinomial(self.trials, self.probabilities[states])


def _further(prior: Gamma) -> np.ndarray:
    """Counts and rows that a Gamma prior is worth, as an array (2, 1, 1)."""
    return np.array([prior.shape - 1, prior.rate]).reshape(2, 1, 1)


def counts(rows: Any, columns: int | None, where: str) -> np.ndarray:
    """Counts (T, d) as float64, NaN where missing; a plain vector (T,) is taken as T rows of one count."""
    values = vectors(rows, columns, where)
    if (values < 0).any() or not np.array_equal(np.floor(values), values, equal_nan=True):
        raise ValueError(f"{where} must hold counts: whole numbers from 0 (NaN where missing).")
    return values


def totals(rows: Any, columns: int | None, where: str) -> np.ndarray:
    """Counts (T, L) of which a row is complete or missing."""
    values = counts(rows, columns, where)
    missing = np.isnan(values)
    if (part := missing.any(1) & ~missing.all(1)).any():
        raise ValueError(
            f"{where} misses a part of the counts in row {int(np.argmax(part))}: counts of a multinomial are "
            "all known, or the row is missing as a whole (NaN)."
        )
    return values
