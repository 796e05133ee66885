"""Mixture densities p(x) = Σ_l α_l p_l(x) and their EM steps (Bilmes, section 3): of any families,
and of Gaussians.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Protocol

import numpy as np

from mercer.em.blocks import Moments
from mercer.em.gaussian import Gaussians, InverseWishart, NormalInverseWishart
from mercer.em.scores import choose, moving, possible, scores
from mercer.em.starts import ENOUGH, plus_plus, smallest_variances
from mercer.registry import Saved

NODES = {1: 180, 2: 120}  # of the quadrature, by dimension


class Family(Protocol):
    """A density that can be a component: immutable, with a weighted fit. `sample(n, rng)` as well,
    to draw from the mixture.
    """

    def log_prob(self, X: Any) -> np.ndarray:
        """Log densities (n,)."""

    def fit(self, X: Any, weights: np.ndarray) -> Any:
        """The member of the family with the largest Σ_i weights_i log p(x_i),
        or one with a larger one than this.
        """


@dataclass(frozen=True)
class Kept:
    """The rows and their responsibilities: the summary of families whose sufficient statistics are not
    known.
    """

    log_likelihood: float
    parts: tuple[tuple[Any, np.ndarray], ...]

    def __add__(self, other: Kept) -> Kept:
        return Kept(self.log_likelihood + other.log_likelihood, self.parts + other.parts)


@Saved.register
@dataclass(frozen=True)
class Mixture:
    """A mixture of any densities, of one family or of several.

    weights: (k,) α, not negative, of sum one
    components: k objects with `log_prob(X)` and `fit(X, weights)`, for example those of `mercer.em.families`
    pseudo_count: added to each component's expected count, a Dirichlet prior of the weights

    >>> start = Mixture([0.5, 0.5], (PoissonComponent(1.0), PoissonComponent(9.0)))
    >>> em(start, [counts]).model.weights
    """

    weights: np.ndarray
    components: tuple[Any, ...]
    pseudo_count: float = 0.0

    rows: ClassVar[bool] = True  # data are rows of a table, not sequences

    def __post_init__(self):
        object.__setattr__(self, "components", tuple(self.components))
        object.__setattr__(self, "weights", simplex(self.weights, "weights", (len(self.components),)))

    def log_joint(self, X: Any) -> np.ndarray:
        """log α_l p_l(x_i): (k, n)."""
        with np.errstate(divide="ignore"):
            return np.log(self.weights)[:, None] + np.stack(
                [np.asarray(c.log_prob(X)) for c in self.components]
            )

    def log_prob(self, X: Any) -> np.ndarray:
        """Log densities (n,)."""
        return normalise(self.log_joint(X))

    def responsibilities(self, X: Any) -> np.ndarray:
        """p(l | x_i): (n, k)."""
        joint = self.log_joint(X)
        normalise(joint)
        return joint.T

    def scores(self, X: Any, parameters: Any = None) -> np.ndarray:
        """Fisher scores (n, p): r_l − α_l for the weights' logits, and r_l ∇ log p_l(x) for each component
        that has `scores`.

        parameters: "weights", "components" or both.
        """
        groups = choose(parameters, ("weights", "components"))
        joint = self.log_joint(X)
        possible(normalise(joint))
        parts = [(joint.T - self.weights)[:, moving(self.weights)]] if "weights" in groups else []
        for component, r in zip(self.components, joint, strict=True) if "components" in groups else ():
            if not hasattr(component, "scores"):
                raise TypeError(
                    f"{type(component).__name__} has no scores: give it a method scores(X) -> (n, q), the "
                    "derivatives of its "
                    "log_prob by its parameters, or ask for parameters='weights'."
                )
            parts.append(r[:, None] * component.scores(X))
        return np.hstack(parts)

    def expect(self, X: Any) -> Kept:
        """The E-step: responsibilities summed into what `maximise` needs, with the log-likelihood."""
        joint = self.log_joint(X)
        return Kept(float(normalise(joint).sum()), ((X, joint),))

    def maximise(self, summary: Kept) -> Mixture:
        """The M-step: the model that explains the summary best, under its prior."""
        X = summary.parts[0][0] if len(summary.parts) == 1 else np.concatenate([x for x, _ in summary.parts])
        R = np.concatenate([r for _, r in summary.parts], axis=1)
        counts = R.sum(1)
        seen = counts > 10 * np.finfo(float).eps * R.shape[1]
        components = (c.fit(X, r) if s else c for c, r, s in zip(self.components, R, seen, strict=True))
        return replace(self, weights=shares(counts, self.pseudo_count), components=tuple(components))

    def log_prior(self) -> float:
        """Log density of the parameters under their prior, up to a constant; zero without one."""
        return dirichlet(self.weights, self.pseudo_count)

    def sample(self, n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """n draws and the components (n,) they came from."""
        which = rng.choice(len(self.weights), n, p=self.weights)
        draws = [np.asarray(c.sample(int((which == l).sum()), rng)) for l, c in enumerate(self.components)]
        out = np.empty((n, *draws[0].shape[1:]))
        for l, values in enumerate(draws):
            out[which == l] = values
        return out, which


@Saved.register
@dataclass(frozen=True)
class Labelled:
    """Rows of which some are known to come from a component: labels (n,) from 0, −1 where it is not known.
    A row without any value says nothing, labelled or not.

    >>> em(start, [Labelled(X, labels)]).model
    """

    X: np.ndarray
    labels: np.ndarray

    def __len__(self) -> int:
        return len(self.X)


def labelled(data: Any, k: int) -> tuple[np.ndarray, Callable[[np.ndarray, Any], None]]:
    """Rows, and what sets the log joint densities (k, b) of some of them to −inf where a label says
    otherwise.
    """
    if not isinstance(data, Labelled):
        return data, lambda joint, rows: None
    labels, every = known_labels(data.labels, len(data.X), k, "labels"), np.arange(k)[:, None]

    def keep(joint: np.ndarray, rows: Any) -> None:
        joint[(labels[rows] >= 0) & (labels[rows] != every)] = -np.inf

    return data.X, keep


@dataclass(frozen=True)
class Counted:
    """Expected counts and moments: the summary of Gaussians."""

    log_likelihood: float
    moments: Moments
    rows: int

    def __add__(self, other: Counted) -> Counted:
        return Counted(
            self.log_likelihood + other.log_likelihood, self.moments + other.moments, self.rows + other.rows
        )


@Saved.register
@dataclass(frozen=True)
class GaussianMixture:
    """A mixture of Gaussians; NaN in the data is a missing value.

    >>> model = em(GaussianMixture.around(X, 3, np.random.default_rng(0)), [X]).model
    """

    weights: np.ndarray
    gaussians: Gaussians
    pseudo_count: float = 0.0

    rows: ClassVar[bool] = True

    def __post_init__(self):
        object.__setattr__(self, "weights", simplex(self.weights, "weights", (self.gaussians.count,)))

    @classmethod
    def around(
        cls,
        X: np.ndarray,
        k: int,
        rng: np.random.Generator,
        covariance_type: str = "full",
        floor: float = 1e-6,
        prior: InverseWishart | NormalInverseWishart | None = None,
        pseudo_count: float = 0.0,
        known: np.ndarray | None = None,
    ) -> GaussianMixture:
        """A start: k-means++ centres, and the moments of the rows nearest to each, of at most 50,000 rows.

        floor: smallest variance, as a share of the tightest group's own (`starts.smallest_variances`).
        known: (n,) components of rows that are known, −1 of the others; then all rows are looked at.
        """
        whole = len(X) <= ENOUGH or known is not None
        part = X if whole else X[rng.choice(len(X), ENOUGH, replace=False)]
        labels = plus_plus(part, k, rng, known=known)
        return cls.assigned(part, labels, k, covariance_type, floor, prior, pseudo_count)

    @classmethod
    def assigned(
        cls,
        X: np.ndarray,
        labels: np.ndarray,
        k: int,
        covariance_type: str = "full",
        floor: float = 1e-6,
        prior: InverseWishart | NormalInverseWishart | None = None,
        pseudo_count: float = 0.0,
    ) -> GaussianMixture:
        """The mixture whose components are the groups labels (n,) in 0 … k − 1."""
        smallest = smallest_variances(X, labels, floor)
        weights = np.eye(k)[labels].T
        gaussians = Gaussians.fitted(X, weights, covariance_type, smallest, prior)
        return cls(shares(weights.sum(1), pseudo_count), gaussians, pseudo_count)

    # -- named parts -----------------------------------------------------------------------------------------

    @property
    def means(self) -> np.ndarray:
        """(k, d)."""
        return self.gaussians.means

    @property
    def covariances(self) -> np.ndarray:
        """As in `Gaussians`: (k, d, d), (k, d), (k,) or (d, d)."""
        return self.gaussians.covariances

    def parameters(self) -> int:
        """How many numbers are free."""
        return len(self.weights) - 1 + self.gaussians.parameters()

    # -- EM --------------------------------------------------------------------------------------------------

    def expect(self, X: np.ndarray | Labelled) -> Counted:
        """The E-step: responsibilities summed into what `maximise` needs, with the log-likelihood."""
        log_weights, total = self._log_weights(), []
        X, keep = labelled(X, len(self.weights))

        def weigh(block):
            joint = block.log_prob() + log_weights
            if block.width:
                keep(joint, block.rows)
            total.append(normalise(joint).sum())
            return joint

        moments = self.gaussians.moments(X, weigh)
        return Counted(float(np.sum(total)), moments, len(X))

    def maximise(self, summary: Counted) -> GaussianMixture:
        """The M-step: the model that explains the summary best, under its prior."""
        weights = shares(summary.moments.weight, self.pseudo_count)
        return replace(self, weights=weights, gaussians=self.gaussians.maximise(summary.moments))

    def log_prior(self) -> float:
        """Log density of the parameters under their prior, up to a constant; zero without one."""
        return dirichlet(self.weights, self.pseudo_count) + self.gaussians.log_prior()

    # -- use -------------------------------------------------------------------------------------------------

    def log_joint(self, X: np.ndarray) -> np.ndarray:
        """log α_l p_l(x_i): (k, n)."""
        return self.gaussians.log_prob(X) + self._log_weights()

    def log_prob(self, X: np.ndarray) -> np.ndarray:
        """Log densities (n,) of the observed parts of the rows."""
        return normalise(self.log_joint(X))

    def responsibilities(self, X: np.ndarray) -> np.ndarray:
        """p(l | x_i): (n, k)."""
        joint = self.log_joint(X)
        normalise(joint)
        return joint.T

    def scores(self, X: np.ndarray, parameters: Any = None, coordinates: str = "logits") -> np.ndarray:
        """Fisher scores (n, p): derivatives of the log densities, see `mercer.em.scores` for the coordinates.

        parameters: some of "weights", "means", "covariances"; None is all of them.
        """
        X = np.asarray(X, np.float64)
        if X.ndim != 2 or X.shape[1] != self.gaussians.dimension or np.isinf(X).any():
            raise ValueError(
                f"data for this mixture are (rows, {self.gaussians.dimension}) and not infinite, got shape "
                f"{X.shape}."
            )
        names = {"weights": "initial"}
        groups = tuple(names.get(g, g) for g in choose(parameters, ("weights", "means", "covariances")))
        return scores(
            self.weights,
            np.eye(len(self.weights)),
            {"gaussians": self.gaussians},
            list(X[:, None]),
            groups,
            coordinates,
        )

    def information(self, length: int | None = None, parameters: Any = None) -> np.ndarray:
        """The exact Fisher information (p, p) of a row, by quadrature: in up to two dimensions,
        or of one Gaussian.
        """
        k, d = self.means.shape
        if k > 1 and d > 2:
            raise ValueError(
                "the exact information of a mixture is by quadrature in at most 2 dimensions, and there "
                f"are {d}: use "
                "information='empirical' with data=, for example rows drawn by the model's sample()."
            )
        nodes, weights = np.polynomial.hermite_e.hermegauss(3 if k == 1 else NODES[d])
        z = np.stack([g.ravel() for g in np.meshgrid(*[nodes] * d, indexing="ij")], 1)
        w = np.prod(
            np.stack([g.ravel() for g in np.meshgrid(*[weights / weights.sum()] * d, indexing="ij")], 1), 1
        )
        total: Any = 0.0
        roots = np.linalg.cholesky(self.gaussians.matrices())
        for share, mean, root in zip(self.weights, self.means, roots, strict=True):
            phi = self.scores(mean + z @ root.T, parameters)
            total = total + share * phi.T @ (w[:, None] * phi)
        return total

    def sample(self, n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """n draws (n, d) and the components (n,) they came from."""
        which = rng.choice(len(self.weights), n, p=self.weights)
        return self.gaussians.sample(which, rng), which

    def _log_weights(self) -> np.ndarray:
        with np.errstate(divide="ignore"):
            return np.log(self.weights)[:, None]


def normalise(log_joint: np.ndarray) -> np.ndarray:
    """log Σ_l exp of each column (n,); the columns become probabilities, in place.
    A column of −inf stays without any.
    """
    top = log_joint.max(0)
    if not np.isfinite(top).all():
        top = np.where(np.isfinite(top), top, 0.0)
    log_joint -= top
    np.exp(log_joint, out=log_joint)
    total = log_joint.sum(0)
    log_joint /= np.where(total > 0, total, 1.0)
    with np.errstate(divide="ignore"):
        return np.log(total) + top


def shares(counts: np.ndarray, pseudo_count: float | np.ndarray = 0.0) -> np.ndarray:
    """Counts as shares of their sum along the last axis."""
    counts = counts + pseudo_count
    return counts / counts.sum(-1, keepdims=True)


def dirichlet(probabilities: np.ndarray, pseudo_count: Any) -> float:
    """The log density, without its constant, that pseudo-counts mean: one for all, or one for each."""
    counts = np.broadcast_to(np.asarray(pseudo_count, np.float64), probabilities.shape)
    moves = (counts != 0) & (probabilities > 0)
    return float(counts[moves] @ np.log(probabilities[moves]))


def known_labels(labels: Any, n: int, k: int, where: str) -> np.ndarray:
    """Labels (n,) from 0 to k − 1 as whole numbers, −1 (or NaN) where they are not known; checked."""
    given = np.asarray(labels, np.float64)
    values = np.where(np.isnan(given), -1, given)
    if values.shape != (n,) or not np.isin(values, np.arange(-1, k)).all():
        raise ValueError(
            f"{where} must be {n} whole numbers from 0 to {k - 1}, −1 where not known; got an array of shape "
            f"{given.shape}" + (f" with the values {np.unique(given)[:8]}." if given.size else ".")
        )
    return values.astype(np.intp)


def simplex(values: Any, name: str, shape: tuple[int, ...]) -> np.ndarray:
    """Probabilities along the last axis, checked."""
    values = np.array(values, np.float64)
    if values.shape != shape:
        raise ValueError(f"{name} must have the shape {shape}, got {values.shape}.")
    if (
        not np.isfinite(values).all()
        or (values < 0).any()
        or not np.allclose(values.sum(-1), 1.0, rtol=0, atol=1e-6)
    ):
        raise ValueError(f"{name} must be probabilities: not negative, with the sum one.")
    return values / values.sum(-1, keepdims=True)
