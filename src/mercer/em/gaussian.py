"""Several Gaussians over the same space: log densities, weighted moments, and the parameters that fit them
(Bilmes, section 3).

Rows are gone through in blocks that fit into the cache. Weights and densities of k Gaussians at b rows are
arrays (k, b). A NaN is a missing value: it is integrated over, exactly.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from mercer.em.blocks import Moments, Quadratic, blocks
from mercer.registry import Saved

TYPES = ("full", "diagonal", "spherical", "tied")


@Saved.register
@dataclass(frozen=True)
class InverseWishart:
    """A prior of covariances with density ∝ |Σ|^{-(dof + d + 1)/2} exp(-tr(scale Σ⁻¹)/2); its mode is
    scale/(dof + d + 1).

    It keeps a covariance positive definite when its component has few data: the update becomes (scale +
    S)/(dof + d + 1 + N).
    """

    dof: float
    scale: np.ndarray

    def __post_init__(self):
        scale = np.array(self.scale, np.float64)
        object.__setattr__(self, "scale", scale)
        if scale.ndim != 2 or scale.shape[0] != scale.shape[1] or not np.allclose(scale, scale.T):
            raise ValueError(
                f"the scale of an inverse Wishart is a symmetric matrix, got an array of shape {scale.shape}."
            )
        if not self.dof > scale.shape[0] - 1 or np.linalg.eigvalsh(scale)[0] <= 0:
            raise ValueError(
                f"an inverse Wishart needs dof > d - 1 = {scale.shape[0] - 1} and a positive definite scale."
            )

    mean: ClassVar[Any] = None  # there is no prior of the means
    weight: ClassVar[float] = 0.0

    @property
    def strength(self) -> float:
        """Of how many data it has the weight: dof + d + 1."""
        return self.dof + self.scale.shape[0] + 1


@Saved.register
@dataclass(frozen=True)
class NormalInverseWishart:
    """A prior of means and covariances: Σ ~ `InverseWishart(dof, scale)`, and μ given Σ ~ N(mean, Σ/weight).

    It is worth `weight` rows at `mean` for the means. With it EM climbs to the posterior mode, and
    variational Bayes has a closed form.

    mean: (d,)
    weight: how many rows the prior mean counts for

    >>> NormalInverseWishart(dof=2.0, scale=np.eye(2), mean=np.zeros(2), weight=1.0).strength
    6.0
    """

    dof: float
    scale: np.ndarray
    mean: np.ndarray
    weight: float

    def __post_init__(self):
        object.__setattr__(self, "scale", InverseWishart(self.dof, self.scale).scale)
        mean = np.array(self.mean, np.float64)
        object.__setattr__(self, "mean", mean)
        if mean.shape != self.scale.shape[:1] or not np.isfinite(mean).all() or not self.weight > 0:
            raise ValueError(
                f"the mean of a prior in {len(self.scale)} dimensions has as many numbers, with a positive "
                f"weight; got {self.mean!r} and {self.weight!r}."
            )

    @property
    def strength(self) -> float:
        """Of how many data it has the weight for a covariance: dof + d + 2."""
        return self.dof + len(self.scale) + 2


def with_rows_of_prior(moments: Moments, prior: Any, means: np.ndarray, elliptic: bool) -> Moments:
    """Moments about `means` (k, d) with `prior.weight` rows more, all of them at the prior's mean."""
    if prior.weight == 0:
        return moments
    offset = prior.mean - means
    outer = offset[:, :, None] * offset[:, None, :] if elliptic else offset**2
    return moments + Moments(np.full(len(means), prior.weight), prior.weight * offset, prior.weight * outer)


@Saved.register
@dataclass(frozen=True)
class Gaussians:
    """k Gaussians in d dimensions.

    means: (k, d)
    covariances: (k, d, d) full, (k, d) diagonal, (k,) spherical, (d, d) tied, the same for all
    floor: (d,) smallest variances. No eigenvalue of D⁻½ΣD⁻½, with D = diag(floor), falls below one: the exact
        constrained maximum, so that the likelihood still never falls. Spherical covariances keep the mean of
        the floors.
    prior: of the covariances (InverseWishart), or of means and covariances (NormalInverseWishart), for the
        posterior mode instead of the maximum likelihood

    >>> g = Gaussians(np.zeros((1, 2)), np.eye(2)[None])
    >>> g.log_prob(np.zeros((3, 2))).shape
    (1, 3)
    """

    means: np.ndarray
    covariances: np.ndarray
    covariance_type: str = "full"
    floor: np.ndarray | None = None
    prior: InverseWishart | NormalInverseWishart | None = None

    def __post_init__(self):
        if self.covariance_type not in TYPES:
            raise ValueError(f"covariance_type must be one of {TYPES}, got {self.covariance_type!r}.")
        means, covariances = np.array(self.means, np.float64), np.array(self.covariances, np.float64)
        if means.ndim != 2:
            raise ValueError(f"means must be (components, dimensions), got an array of shape {means.shape}.")
        k, d = means.shape
        shape = {"full": (k, d, d), "diagonal": (k, d), "spherical": (k,), "tied": (d, d)}[
            self.covariance_type
        ]
        if covariances.shape != shape:
            raise ValueError(
                f"{self.covariance_type} covariances of {k} Gaussians in {d} dimensions have the shape "
                f"{shape}, got "
                f"{covariances.shape}."
            )
        if not np.isfinite(means).all() or not np.isfinite(covariances).all():
            raise ValueError("means and covariances must be finite.")
        object.__setattr__(self, "means", means)
        object.__setattr__(self, "covariances", covariances)
        try:
            object.__setattr__(self, "_root", self._factor())
        except np.linalg.LinAlgError:
            raise np.linalg.LinAlgError(
                "a covariance is not positive definite: give the covariances a floor or a prior."
            ) from None

    @classmethod
    def fitted(
        cls,
        X: Any,
        weights: Any,
        covariance_type: str = "full",
        floor: np.ndarray | None = None,
        prior: InverseWishart | NormalInverseWishart | None = None,
    ) -> Gaussians:
        """Maximum likelihood for weights (k, n): with ones (1, n) the mean and the biased covariance of X."""
        X, weights = np.asarray(X, np.float64), np.asarray(weights, np.float64)
        observed = ~np.isnan(X)
        centre = np.where(observed, X, 0.0).sum(0) / np.maximum(observed.sum(0), 1)
        Z, seen = np.where(observed, X - centre, 0.0), np.maximum(weights @ observed, np.finfo(float).tiny)
        means = weights @ Z / seen
        variances = (
            np.stack([w @ np.where(observed, Z - m, 0.0) ** 2 for w, m in zip(weights, means, strict=True)])
            / seen
        )
        variances = np.where(variances > 0, variances, 1.0)
        first = {
            "full": variances[:, :, None] * np.eye(X.shape[1]),
            "diagonal": variances,
            "tied": np.diag(variances.mean(0)),
        }
        model = cls(
            centre + means, first.get(covariance_type, variances.mean(1)), covariance_type, floor, prior
        )
        return model.maximise(model.moments(X, lambda block: weights[:, block.rows]))

    # -- shapes ----------------------------------------------------------------------------------------------

    @property
    def count(self) -> int:
        """How many Gaussians, k."""
        return self.means.shape[0]

    @property
    def dimension(self) -> int:
        """How many columns, d."""
        return self.means.shape[1]

    @property
    def elliptic(self) -> bool:
        """Whether covariances have entries off the diagonal."""
        return self.covariance_type in ("full", "tied")

    @property
    def roots(self) -> np.ndarray:
        """Lower Cholesky factors (k, d, d), or standard deviations (k, d)."""
        return self._root  # type: ignore[attr-defined]

    def matrices(self) -> np.ndarray:
        """The covariances (k, d, d), whatever their type."""
        k, d = self.means.shape
        if self.covariance_type == "full":
            return self.covariances
        if self.covariance_type == "tied":
            return np.broadcast_to(self.covariances, (k, d, d))
        variances = self.covariances if self.covariance_type == "diagonal" else self.covariances[:, None]
        return variances[:, :, None] * np.eye(d)

    def parameters(self) -> int:
        """How many numbers are free."""
        k, d = self.means.shape
        square = d * (d + 1) // 2
        return (
            k * d
            + {"full": k * square, "diagonal": k * d, "spherical": k, "tied": square}[self.covariance_type]
        )

    # -- E-step ----------------------------------------------------------------------------------------------

    @functools.cached_property
    def quadratic(self) -> Quadratic:
        """Their log densities as quadratic functions."""
        return Quadratic(self)

    def log_prob(self, X: np.ndarray) -> np.ndarray:
        """Log densities (k, n) of the observed parts of the rows; 0 for a row without any value."""
        out = np.empty((self.count, len(X)))
        for block in blocks(self, X):
            out[:, block.rows] = block.log_prob()
        return out

    def moments(self, X: np.ndarray, weigh: Callable[[Any], np.ndarray]) -> Moments:
        """Moments of X about the means, with weights (k, b) = weigh(block);
        a block knows its `rows` and its `log_prob()`.
        """
        total = Moments.zero(self)
        for block in blocks(self, X):
            total = total + block.moments(weigh(block))
        return total

    # -- M-step ----------------------------------------------------------------------------------------------

    def maximise(self, moments: Moments, counts: np.ndarray | None = None) -> Gaussians:
        """The Gaussians with these moments. A Gaussian without weight stays as it was.

        counts: (k,) how many rows the scatter is shared out to, where they are not weighed by their number
            (Student-t); the moments' own weight unless told.
        """
        weight, tiny = moments.weight, np.finfo(float).tiny
        counts = weight if counts is None else counts
        seen = weight > 10 * np.finfo(float).eps * max(1.0, weight.sum())
        if self.prior is not None:
            moments = with_rows_of_prior(moments, self.prior, self.means, self.elliptic)
            weight = moments.weight
        safe = np.where(seen, weight, 1.0)
        shift = np.where(seen[:, None], moments.first / safe[:, None], 0.0)
        if self.elliptic:
            scatter = moments.second - weight[:, None, None] * shift[:, :, None] * shift[:, None, :]
        else:
            scatter = np.maximum(moments.second - weight[:, None] * shift**2, 0.0)
        extra, pull = 0.0, np.zeros(())
        if self.prior is not None:
            extra = self._strength(self.prior)
            pull = self.prior.scale if self.elliptic else np.diagonal(self.prior.scale)
        if self.covariance_type == "tied":
            covariances = self._lift((scatter[seen].sum(0) + pull) / max(counts[seen].sum() + extra, tiny))
        else:
            found = (scatter + pull) / np.where(seen, counts + extra, 1.0).reshape(
                (-1,) + (1,) * (scatter.ndim - 1)
            )
            if self.covariance_type == "spherical":
                found = found.mean(1)
            keep = np.where(seen.reshape((-1,) + (1,) * (found.ndim - 1)), found, self.covariances)
            covariances = self._lift(keep)
        return replace(self, means=self.means + shift, covariances=covariances)

    def log_prior(self) -> float:
        """Of the parameters, without its constant."""
        if self.prior is None:
            return 0.0
        means = 0.0
        if self.prior.weight:
            z = self.means - self.prior.mean
            roots = self.roots if self.elliptic else self.roots[:, :, None] * np.eye(self.dimension)
            means = -0.5 * self.prior.weight * (np.linalg.solve(roots, z[:, :, None]) ** 2).sum()
        if self.elliptic:
            matrices = self.covariances[None] if self.covariance_type == "tied" else self.covariances
            log_det = np.linalg.slogdet(matrices)[1].sum()
            trace = np.trace(np.linalg.solve(matrices, self.prior.scale[None]), axis1=1, axis2=2).sum()
        else:
            variances = self.roots**2
            log_det, trace = np.log(variances).sum(), (np.diagonal(self.prior.scale) / variances).sum()
        return float(means - 0.5 * self._strength(self.prior) * log_det - 0.5 * trace)

    def _strength(self, prior: InverseWishart | NormalInverseWishart) -> float:
        """Of the prior, where several means may share one covariance."""
        several = self.count - 1 if self.covariance_type == "tied" and prior.weight else 0
        return prior.strength + several

    def lifted(self) -> Gaussians:
        """These, with covariances that keep the floor."""
        return replace(self, covariances=self._lift(self.covariances))

    def at_floor(self, columns: np.ndarray) -> np.ndarray:
        """Whether each Gaussian (k,) has the smallest variance in some direction of these columns (d,)."""
        if self.floor is None or not columns.any():
            return np.zeros(self.count, bool)
        just = 1 + 1e-6
        if self.covariance_type == "spherical":
            return self.covariances <= just * np.mean(self.floor)
        scale = np.sqrt(np.asarray(self.floor)[columns])
        scaled = self.matrices()[:, columns][:, :, columns] / np.outer(scale, scale)
        return np.linalg.eigvalsh(scaled)[:, 0] <= just

    def _lift(self, covariances: np.ndarray) -> np.ndarray:
        if self.floor is None:
            return covariances
        floor = np.asarray(self.floor, np.float64)
        if not self.elliptic:
            return np.maximum(covariances, floor if self.covariance_type == "diagonal" else floor.mean())
        scale = np.sqrt(floor)
        values, vectors = np.linalg.eigh(covariances / np.outer(scale, scale))
        if values.min() >= 1:
            return covariances
        lifted = (vectors * np.maximum(values, 1.0)[..., None, :]) @ np.swapaxes(vectors, -1, -2)
        low = values.min(-1) < 1
        return np.where(low[..., None, None], lifted * np.outer(scale, scale), covariances)

    # -- draws -----------------------------------------------------------------------------------------------

    def sample(self, which: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """One draw from the Gaussian which[i] for each i: (len(which), d)."""
        z = rng.standard_normal((len(which), self.dimension))
        if self.elliptic:
            return self.means[which] + np.einsum("nij,nj->ni", self.roots[which], z)
        return self.means[which] + self.roots[which] * z

    def _factor(self) -> np.ndarray:
        k, d = self.means.shape
        if self.covariance_type == "full":
            return np.linalg.cholesky(self.covariances)
        if self.covariance_type == "tied":
            return np.broadcast_to(np.linalg.cholesky(self.covariances), (k, d, d))
        variances = (
            self.covariances
            if self.covariance_type == "diagonal"
            else np.repeat(self.covariances[:, None], d, 1)
        )
        if not (variances > 0).all():
            raise np.linalg.LinAlgError
        return np.sqrt(variances)
