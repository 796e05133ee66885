"""Distributions of the parameters of mixtures and hidden Markov models, conjugate to what they emit: a prior
and what the data add to it.

Each has `expected_log` or `log_prob`, what the E-step of `mercer.em.variational` reads, an update by expected
counts or moments, and its divergence from the prior.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import betaln, digamma, gammaln

from mercer.em.blocks import Moments, blocks
from mercer.em.counts import MultinomialEmission, PoissonEmission, counts
from mercer.em.emission import CategoricalEmission, GaussianEmission, vectors
from mercer.em.gaussian import TYPES, Gaussians, NormalInverseWishart, with_rows_of_prior
from mercer.em.mixture import shares
from mercer.em.student import StudentTEmission
from mercer.hyperpriors import Gamma
from mercer.registry import Saved


@Saved.register
@dataclass(frozen=True)
class Dirichlets:
    """Probabilities along the last axis: Dirichlet with concentrations prior + counts. Zero is impossible.

    >>> Dirichlets(np.full(3, 1 / 3), np.zeros(3)).updated([5.0, 2.0, 0.0]).mean()
    """

    prior: np.ndarray
    counts: np.ndarray

    def __post_init__(self):
        prior, counts = np.array(self.prior, np.float64), np.array(self.counts, np.float64)
        fine = (
            prior.ndim >= 1
            and prior.shape == counts.shape
            and (prior >= 0).all()
            and np.isfinite(prior).all()
        )
        if not fine or not (prior.sum(-1) > 0).all() or not (prior + counts >= 0).all():
            raise ValueError(
                "concentrations of a Dirichlet are not negative, of a positive sum, and have the shape of "
                f"the counts; got {self.prior!r} and {self.counts!r}."
            )
        object.__setattr__(self, "prior", prior)
        object.__setattr__(self, "counts", np.where(prior > 0, counts, 0.0))

    def updated(self, counts: Any) -> Dirichlets:
        """The posterior with these expected counts."""
        return Dirichlets(self.prior, counts)

    @property
    def concentration(self) -> np.ndarray:
        """Of the posterior."""
        return self.prior + self.counts

    def mean(self) -> np.ndarray:
        """Expected probabilities."""
        return shares(self.concentration)

    def expected_log(self) -> np.ndarray:
        """Expected logarithms; −inf where impossible."""
        a = self.concentration
        return np.where(a > 0, digamma(np.where(a > 0, a, 1.0)), -np.inf) - digamma(a.sum(-1, keepdims=True))

    def divergence(self) -> float:
        """KL(posterior ‖ prior)."""
        a, b, possible = self.concentration, self.prior, self.prior > 0
        log_norm = gammaln(a.sum(-1)) - gammaln(b.sum(-1))
        each = (
            gammaln(b[possible])
            - gammaln(a[possible])
            + self.counts[possible] * self.expected_log()[possible]
        )
        return float(log_norm.sum() + each.sum())


@Saved.register
@dataclass(frozen=True)
class Sticks:
    """Shares of a Dirichlet process, cut off at k components: of what is left of a stick, component l takes a
    part v_l ~ Beta(1, prior), a posteriori Beta(1 + counts_l, prior + counts after l). Small `prior` leaves
    later components without a share.
    """

    prior: float
    counts: np.ndarray

    def __post_init__(self):
        if not self.prior > 0:
            raise ValueError(f"the concentration of a Dirichlet process is positive, got {self.prior!r}.")
        object.__setattr__(self, "counts", np.array(self.counts, np.float64))

    def updated(self, counts: Any) -> Sticks:
        """The posterior with these expected counts."""
        return Sticks(self.prior, counts)

    @property
    def concentration(self) -> tuple[np.ndarray, np.ndarray]:
        """a and b (k,) of the Beta of every part."""
        after = np.append(np.cumsum(self.counts[::-1])[-2::-1], 0.0)
        return 1.0 + self.counts, self.prior + after

    def mean(self) -> np.ndarray:
        """Expected shares (k,), with the sum one."""
        a, b = self.concentration
        return shares(a / (a + b) * np.append(1.0, np.cumprod(b / (a + b))[:-1]))

    def expected_log(self) -> np.ndarray:
        """Expected logarithms of the shares (k,)."""
        a, b = self.concentration
        return digamma(a) - digamma(a + b) + np.append(0.0, np.cumsum(digamma(b) - digamma(a + b))[:-1])

    def divergence(self) -> float:
        """KL(posterior ‖ prior)."""
        a, b = self.concentration
        both = digamma(a + b)
        tilt = self.counts * (digamma(a) - both) + (b - self.prior) * (digamma(b) - both)
        return float(np.sum(betaln(1.0, self.prior) - betaln(a, b) + tilt))


@Saved.register
@dataclass(frozen=True)
class NormalWisharts:
    """The posterior of k Gaussians in d dimensions: precisions Λ_k ~ Wishart(dof_k, scale_k⁻¹), means μ_k
    given them ~ N(means_k, (weight_k Λ_k)⁻¹).

    scale: (k, d, d) full or (d, d) tied; (k, d) diagonal: each precision is Gamma(dof/2, scale/2); (k,)
        spherical: the one precision is Gamma(d dof/2, d scale/2). E[Λ] = dof scale⁻¹
    dof: (k,), the same for all where the covariance is tied

    As the emission of a `VariationalHMM`, one of them for each state.
    """

    prior: NormalInverseWishart
    means: np.ndarray
    weight: np.ndarray
    dof: np.ndarray
    scale: np.ndarray
    covariance_type: str = "full"

    def __post_init__(self):
        if self.covariance_type not in TYPES:
            raise ValueError(f"covariance_type must be one of {TYPES}, got {self.covariance_type!r}.")
        for name in ("means", "weight", "dof", "scale"):
            object.__setattr__(self, name, np.array(getattr(self, name), np.float64))
        k = len(self.means)
        if not all(v.shape == (k,) and (v > 0).all() for v in (self.weight, self.dof)):
            raise ValueError(f"weight and dof are {k} positive numbers each, one a Gaussian.")
        shared = self.dof[0] if self.covariance_type == "tied" else self.dof
        dof = np.reshape(shared, np.shape(shared) + (1,) * (self.scale.ndim - np.ndim(shared)))
        object.__setattr__(self, "_gaussians", Gaussians(self.means, self.scale / dof, self.covariance_type))

    @classmethod
    def of_prior(cls, prior: NormalInverseWishart, k: int, covariance_type: str = "full") -> NormalWisharts:
        """k Gaussians of which nothing is known but the prior."""
        diagonal = np.diagonal(prior.scale)
        shapes = {
            "full": np.tile(prior.scale, (k, 1, 1)),
            "diagonal": np.tile(diagonal, (k, 1)),
            "spherical": np.full(k, diagonal.mean()),
        }
        scale = shapes.get(covariance_type, prior.scale)
        means = np.tile(prior.mean, (k, 1))
        return cls(prior, means, np.full(k, prior.weight), np.full(k, prior.dof), scale, covariance_type)

    @property
    def gaussians(self) -> Gaussians:
        """With the expected means and precisions."""
        return self._gaussians  # type: ignore[attr-defined]

    @property
    def states(self) -> int:
        """Number of Gaussians k."""
        return len(self.means)

    @property
    def offsets(self) -> np.ndarray:
        """(k,) what E[log N(x | μ, Λ⁻¹)] is more than the log density of `gaussians`."""
        d = self.means.shape[1]
        if self.gaussians.elliptic:
            spread = _sum_digamma(self.dof, d) + d * np.log(2 / self.dof)
        else:
            dof = d * self.dof if self.covariance_type == "spherical" else self.dof
            spread = d * (digamma(dof / 2) + np.log(2 / dof))
        return 0.5 * (spread - d / self.weight)

    def check(self, rows: Any, where: str) -> np.ndarray:
        """Rows (T, d) of numbers."""
        return vectors(rows, self.means.shape[1], where)

    def log_prob(self, rows: np.ndarray) -> np.ndarray:
        """Expected log densities (k, n); missing values integrated over, 0 for a row without any value."""
        out = np.empty((self.states, len(rows)))
        for block in blocks(self.gaussians, rows):
            out[:, block.rows] = block.log_prob() + (self.offsets[:, None] if block.width else 0.0)
        return out

    def predictive(self, rows: np.ndarray) -> np.ndarray:
        """Log densities (k, n) of new rows with the parameters integrated out: Student-t."""
        d, wide = self.means.shape[1], 1 + 1 / self.weight
        if self.covariance_type == "diagonal":
            scale, each = self.gaussians.covariances * wide[:, None], []
            for j in range(d):
                column = Gaussians(self.means[:, [j]], scale[:, [j]], "diagonal")
                each.append(StudentTEmission(column, self.dof).log_prob(rows[:, [j]]))
            return np.sum(each, axis=0)
        if self.covariance_type == "spherical":
            shape = Gaussians(self.means, self.gaussians.covariances * wide, "spherical")
            return StudentTEmission(shape, d * self.dof).log_prob(rows)
        dof = self.dof - d + 1
        matrices = self.gaussians.matrices() * (self.dof / dof * wide)[:, None, None]
        return StudentTEmission(Gaussians(self.means, matrices), dof).log_prob(rows)

    def summarise(self, rows: np.ndarray, gamma: np.ndarray) -> Moments:
        """What the M-step needs of rows with posterior probabilities gamma (k, rows)."""
        return self.gaussians.moments(rows, lambda block: gamma[:, block.rows])

    def maximise(self, moments: Moments) -> NormalWisharts:
        """The posterior given expected moments about `means`."""
        elliptic = self.gaussians.elliptic
        pulled = with_rows_of_prior(moments, self.prior, self.means, elliptic)
        shift = pulled.first / pulled.weight[:, None]
        outer = shift[:, :, None] * shift[:, None, :] if elliptic else shift**2
        scatter = pulled.second - pulled.weight.reshape((-1,) + (1,) * (outer.ndim - 1)) * outer
        scale = (self.prior.scale if elliptic else np.diagonal(self.prior.scale)) + scatter
        dof = self.prior.dof + moments.weight
        if self.covariance_type == "tied":
            scale = self.prior.scale + scatter.sum(0)
            dof = np.full(self.states, self.prior.dof + moments.weight.sum())
        elif self.covariance_type == "spherical":
            scale = scale.mean(1)
        return replace(self, means=self.means + shift, weight=pulled.weight, dof=dof, scale=scale)

    def divergence(self) -> float:
        """KL(posterior ‖ prior)."""
        d, b0 = self.means.shape[1], self.prior.weight
        z = self.means - self.prior.mean
        if self.gaussians.elliptic:
            far = np.einsum("ki,ki->k", z, np.linalg.solve(self.gaussians.matrices(), z[:, :, None])[:, :, 0])
        else:
            far = (z**2 / self.gaussians.roots**2).sum(1)
        ratio = b0 / self.weight
        return float(0.5 * np.sum(d * (ratio - 1 - np.log(ratio)) + b0 * far)) + self._of_precisions()

    def log_prior(self) -> float:
        """Minus the divergence."""
        return -self.divergence()

    def point(self) -> GaussianEmission:
        """Gaussians with the expected means and precisions."""
        return GaussianEmission(self.gaussians)

    def _of_precisions(self) -> float:
        """Σ KL(Wishart ‖ Wishart): of matrices, of a precision for each column, or of one for all columns."""
        prior, d = self.prior, self.means.shape[1]
        if self.gaussians.elliptic:
            tied = self.covariance_type == "tied"
            scale, dof = (self.scale[None], self.dof[:1]) if tied else (self.scale, self.dof)
            trace = np.trace(np.linalg.solve(scale, prior.scale), axis1=1, axis2=2)
            return float(
                np.sum(_wishart_kl(dof, _log_det(scale), prior.dof, _log_det(prior.scale), trace, d))
            )
        scale0 = np.diagonal(prior.scale)
        if self.covariance_type == "spherical":
            scale, scale0, dof, dof0 = d * self.scale, d * scale0.mean(), d * self.dof, d * prior.dof
        else:
            scale, dof, dof0 = self.scale, self.dof[:, None], prior.dof
        return float(np.sum(_wishart_kl(dof, np.log(scale), dof0, np.log(scale0), scale0 / scale, 1)))


def _log_det(matrices: np.ndarray) -> np.ndarray:
    return np.linalg.slogdet(matrices)[1]


def _sum_digamma(dof: np.ndarray, d: int) -> np.ndarray:
    """Σ_i ψ((dof − i)/2), i = 0 … d − 1: E log|Λ| = this + d log 2 − log|scale|."""
    return digamma(0.5 * (np.asarray(dof)[..., None] - np.arange(d))).sum(-1)


def _wishart_kl(dof, log_det, dof0, log_det0, trace, d: int) -> np.ndarray:
    """KL of Wisharts with scale matrices' log determinants and tr(scale0 scale⁻¹)."""
    expected = _sum_digamma(dof, d) + d * np.log(2) - log_det
    norm = 0.5 * (dof * log_det - dof0 * log_det0 - d * (dof - dof0) * np.log(2))
    gammas = _sum_gammaln(dof, d) - _sum_gammaln(dof0, d)
    return norm - gammas + 0.5 * ((dof - dof0) * expected - dof * d + dof * trace)


def _sum_gammaln(dof: np.ndarray, d: int) -> np.ndarray:
    """Σ_i log Γ((dof − i)/2), i = 0 … d − 1."""
    return gammaln(0.5 * (np.asarray(dof)[..., None] - np.arange(d))).sum(-1)


@Saved.register
@dataclass(frozen=True)
class DirichletEmission:
    """The posterior of emission probabilities of symbols or of kinds.

    table: (N, L)
    emission: CategoricalEmission or MultinomialEmission, for how data are read
    """

    table: Dirichlets
    emission: Any

    @property
    def states(self) -> int:
        """Number of hidden states N."""
        return len(self.table.prior)

    def check(self, rows: Any, where: str) -> np.ndarray:
        """As the emission does."""
        return self.emission.check(rows, where)

    def log_prob(self, rows: np.ndarray) -> np.ndarray:
        """Expected log probabilities (N, rows)."""
        return self.emission.of_logs(self.table.expected_log(), rows)

    def summarise(self, rows: np.ndarray, gamma: np.ndarray) -> np.ndarray:
        """Expected counts (N, L)."""
        return self.emission.summarise(rows, gamma)

    def maximise(self, counts: np.ndarray) -> DirichletEmission:
        """The posterior given expected counts."""
        return replace(self, table=self.table.updated(counts))

    def log_prior(self) -> float:
        """Minus the divergence of the posterior from the prior."""
        return -self.table.divergence()

    def point(self) -> Any:
        """The emission with the expected probabilities."""
        return replace(self.emission, probabilities=self.table.mean())


@Saved.register
@dataclass(frozen=True)
class GammaEmission:
    """The posterior of the means of counts: Gamma(prior.shape + sums[0], prior.rate + sums[1]).

    sums: (2, N, d) expected sums of the counts, and numbers of rows
    """

    prior: Gamma
    sums: np.ndarray

    @property
    def states(self) -> int:
        """Number of hidden states N."""
        return self.sums.shape[1]

    def check(self, rows: Any, where: str) -> np.ndarray:
        """Counts (T, d)."""
        return counts(rows, self.sums.shape[2], where)

    def log_prob(self, rows: np.ndarray) -> np.ndarray:
        """Expected log probabilities (N, rows)."""
        shape, rate = self._posterior()
        return PoissonEmission.of_logs(digamma(shape) - np.log(rate), shape / rate, rows)

    def summarise(self, rows: np.ndarray, gamma: np.ndarray) -> np.ndarray:
        """Expected sums (2, N, d)."""
        return self.point().summarise(rows, gamma)

    def maximise(self, sums: np.ndarray) -> GammaEmission:
        """The posterior given expected sums."""
        return replace(self, sums=sums)

    def log_prior(self) -> float:
        """Minus the divergence of the posterior from the prior."""
        (a, b), a0, b0 = self._posterior(), self.prior.shape, self.prior.rate
        each = (a - a0) * digamma(a) - gammaln(a) + gammaln(a0) + a0 * np.log(b / b0) + a * (b0 - b) / b
        return -float(each.sum())

    def point(self) -> PoissonEmission:
        """The emission with the expected means."""
        shape, rate = self._posterior()
        return PoissonEmission(shape / rate)

    def _posterior(self) -> tuple[np.ndarray, np.ndarray]:
        return self.prior.shape + self.sums[0], self.prior.rate + self.sums[1]


def of_emission(emission: Any, prior: Any) -> Any:
    """What stands for an emission of an HMM, before it has seen data."""
    N = emission.states
    if isinstance(emission, GaussianEmission):
        found = NormalWisharts.of_prior(prior, N, emission.gaussians.covariance_type)
        return replace(found, means=emission.gaussians.means)
    if isinstance(emission, PoissonEmission):
        return GammaEmission(prior, np.zeros((2, *emission.means.shape)))
    if isinstance(emission, CategoricalEmission | MultinomialEmission):
        table = np.where(emission.probabilities > 0, prior, 0.0)
        return DirichletEmission(Dirichlets(table, np.zeros_like(table)), emission)
    raise TypeError(f"there is no variational posterior of a {type(emission).__name__}.")
