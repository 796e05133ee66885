"""Hidden states that emit vectors with heavy tails: Student-t, so that outliers do not move means and scales.

A Student-t vector is a Gaussian one whose precision is multiplied by a hidden u ~ Gamma(ν/2, ν/2). The E-step
expects u of every row, (ν + d)/(ν + δ²) at the squared distance δ²; the M-step is that of Gaussians with
these weights, and one equation for ν.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from scipy.special import digamma, gammaln

from mercer.em.blocks import LOG_2PI, Moments, blocks, squares
from mercer.em.emission import expected, vectors
from mercer.em.gaussian import Gaussians
from mercer.hyperpriors import Gamma
from mercer.registry import Saved

FEWEST, MOST = 0.5, 1000.0  # degrees of freedom that are learned


@Saved.register
@dataclass(frozen=True)
class StudentTEmission:
    """A Student-t vector for each state. NaN is a missing value, a row of NaN a missing observation.

    gaussians: locations as `means`, scale matrices as `covariances` (times dof/(dof − 2): the covariance)
    dof: (N,) degrees of freedom: few for heavy tails, 1000 are Gaussian
    learn_dof: False keeps them
    dof_prior: a `mercer.hyperpriors.Gamma` of each of them, for the posterior mode

    >>> StudentTEmission(Gaussians([[0.0]], [[[1.0]]]), [4.0]).log_prob(np.array([[100.0]]))
    """

    gaussians: Gaussians
    dof: np.ndarray
    learn_dof: bool = True
    dof_prior: Gamma | None = None

    groups: ClassVar[tuple[str, ...]] = ("means", "covariances", "dof")
    symbols: ClassVar[int | None] = None

    def __post_init__(self):
        dof = np.array(self.dof, np.float64)
        if dof.shape != (self.gaussians.count,) or not (np.isfinite(dof) & (dof > 0)).all():
            raise ValueError(
                f"dof are {self.gaussians.count} positive numbers, one a state; got {self.dof!r}."
            )
        object.__setattr__(self, "dof", dof)

    @property
    def states(self) -> int:
        """Number of hidden states N."""
        return self.gaussians.count

    def parts(self) -> dict[str, Any]:
        """What `mercer.em.scores` reads."""
        return {"gaussians": self.gaussians, "dof": self.dof}

    def learned(self) -> dict[str, np.ndarray]:
        """Its parameters by the names that people know."""
        return {"means": self.gaussians.means, "scales": self.gaussians.covariances, "dof": self.dof}

    def check(self, rows: Any, where: str) -> np.ndarray:
        """Rows (T, d) of numbers."""
        return vectors(rows, self.gaussians.dimension, where)

    def log_prob(self, rows: np.ndarray) -> np.ndarray:
        """log p(row | state) of every row in every state: (N, rows)."""
        out, nu = np.empty((self.states, len(rows))), self.dof[:, None]
        for block in blocks(self.gaussians, rows):
            d = block.width
            norm = gammaln((nu + d) / 2) - gammaln(nu / 2) + d / 2 * (LOG_2PI - np.log(nu * np.pi))
            tail = 0.5 * (nu + d) * np.log1p(squares(block) / nu)
            out[:, block.rows] = norm + block.log_norm()[:, None] - tail
        return out

    def summarise(self, rows: np.ndarray, gamma: np.ndarray) -> Weighed:
        """What the M-step needs of rows with posterior probabilities gamma (N, rows) of the states."""
        total, nu = Weighed(Moments.zero(self.gaussians), np.zeros((2, self.states))), self.dof[:, None]
        for block in blocks(self.gaussians, rows):
            if block.width == 0:
                continue
            g, d, far = gamma[:, block.rows], block.width, squares(block)
            u = (nu + d) / (nu + far)
            log_u = digamma((nu + d) / 2) - np.log((nu + far) / 2)
            sums = np.stack([g.sum(1), (g * (log_u - u)).sum(1)])
            total = total + Weighed(block.moments(g * u, g), sums)
        return total

    def maximise(self, summary: Weighed) -> StudentTEmission:
        """The emission that explains the summary best, under its priors."""
        counts, balance = summary.sums
        dof = self._degrees(counts, balance) if self.learn_dof else self.dof
        return replace(self, gaussians=self.gaussians.maximise(summary.moments, counts), dof=dof)

    def log_prior(self) -> float:
        """Log density of the parameters under their priors, up to a constant; zero without any."""
        if self.dof_prior is None:
            return self.gaussians.log_prior()
        more, rate = self.dof_prior.shape - 1, self.dof_prior.rate
        return self.gaussians.log_prior() + float(np.sum(more * np.log(self.dof) - rate * self.dof))

    def q(self, before: StudentTEmission, rows: np.ndarray, gamma: np.ndarray) -> float:
        """Expected log density of the rows under gamma (N, rows), which EM climbs."""
        return expected(gamma, self.log_prob(rows))

    def parameters(self) -> int:
        """How many numbers are learned."""
        return self.gaussians.parameters() + self.states * self.learn_dof

    def sample(self, states: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """One observation for each of these states."""
        u = rng.gamma(self.dof[states] / 2, 2 / self.dof[states])
        centre = self.gaussians.means[states]
        return centre + (self.gaussians.sample(states, rng) - centre) / np.sqrt(u)[:, None]

    def _degrees(self, counts: np.ndarray, balance: np.ndarray) -> np.ndarray:
        """ν with the largest Σγ [ν/2 log ν/2 − log Γ(ν/2) + ν/2 (E log u − E u)] + log prior, concave where
        the prior's shape is at least one: bisection on its derivative, in log ν."""
        more, rate = (0.0, 0.0) if self.dof_prior is None else (self.dof_prior.shape - 1, self.dof_prior.rate)

        def slope(nu: np.ndarray) -> np.ndarray:
            gain = 0.5 * (counts * (np.log(nu / 2) + 1 - digamma(nu / 2)) + balance)
            return gain + more / nu - rate

        low, high = np.log(np.minimum(FEWEST, self.dof)), np.log(np.maximum(MOST, self.dof))
        for _ in range(60):
            middle = 0.5 * (low + high)
            rising = slope(np.exp(middle)) > 0
            low, high = np.where(rising, middle, low), np.where(rising, high, middle)
        seen = counts > 10 * np.finfo(float).eps * max(1.0, float(counts.sum()))
        return np.where(seen, np.exp(0.5 * (low + high)), self.dof)


@dataclass(frozen=True)
class Weighed:
    """Moments with weights γ u, and sums (2, N) of γ and of γ (E log u − E u)."""

    moments: Moments
    sums: np.ndarray

    def __add__(self, other: Weighed) -> Weighed:
        return Weighed(self.moments + other.moments, self.sums + other.sums)
