"""What a solver offers. `solver.factor(prior, X, sites)` does all the hard work and returns a State.

Every approximate Gaussian posterior is an exact one on *sites*: each likelihood factor is replaced by
exp(g.(f - c) - 1/2 (f - c)' W (f - c)). With delta = c - m, R = (K + W^-1)^-1 and alpha = g + R(delta - K g):

    log normaliser = -1/2 log|I + W^1/2 K W^1/2| - 1/2 (delta - Kg)' R (delta - Kg) - g.delta + 1/2 g'Kg
    posterior mean = m + K alpha,   posterior covariance = K - K R K.

Nothing here divides by W: W = 0 is legal, and nothing cancels when W is huge.
"""

from __future__ import annotations

import abc
import dataclasses
from typing import Any, ClassVar

import jax
import numpy as np

from mercer.prior import AbstractPrior


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, eq=False)
class Sites:
    """Gaussian sites, one row per datum and L columns (latent functions): centre c, precision W, slope g (None: zero)."""

    centre: Any
    precision: Any
    slope: Any = None

    def __post_init__(self):
        if any(a is not None and not hasattr(a, "shape") for a in (self.centre, self.precision, self.slope)):
            return  # inside a tree transformation
        shapes = {np.shape(a) for a in (self.centre, self.precision, self.slope) if a is not None}
        if len(shapes) != 1 or len(next(iter(shapes))) != 2:
            raise ValueError(f"sites need centre, precision and slope of one shape (n, L), got {sorted(map(str, shapes))}.")


@dataclasses.dataclass(frozen=True)
class Cotangents:
    """Derivatives of a scalar: of the prior's leaves (a prior-shaped value), of the sites, and of the inputs where asked."""

    prior: Any
    sites: Sites
    inputs: Any = None


@dataclasses.dataclass(frozen=True)
class Cost:
    """What a factorisation will take."""

    flops: float
    bytes: float


class SolverError(ValueError):
    """A solver was asked for something it does not do; the message names one that does."""


def check_sites(sites: Sites, who: str) -> None:
    """Finite centres and precisions, none of them negative."""
    if not (np.isfinite(sites.precision).all() and np.isfinite(sites.centre).all()):
        raise SolverError("the sites are not finite.")
    if (np.asarray(sites.precision) < 0).any():
        raise SolverError(f"solver '{who}' needs sites of non-negative precision.")


@dataclasses.dataclass(frozen=True)
class AbstractSolver(abc.ABC):
    """How Gaussian algebra is done. `offers` is a set out of variance, logdet, blocks, indefinite, whiten, sample, full, stream."""

    offers: ClassVar[frozenset[str]]

    @abc.abstractmethod
    def factor(self, prior: AbstractPrior, X: np.ndarray, sites: Sites, workspace: Any = None) -> AbstractState:
        """All the hard work. `prior` is bound to the columns of X (n, d)."""

    @abc.abstractmethod
    def workspace(self, prior: AbstractPrior, X: np.ndarray) -> Any:
        """What can be reused between factorisations on the same X: buffers, encoded inputs."""

    @abc.abstractmethod
    def cost(self, n: int, d: int, L: int = 1) -> Cost: ...


class AbstractState(abc.ABC):
    """A factored problem. Immutable; every method is a view (shapes for L latent functions)."""

    prior: AbstractPrior
    X: np.ndarray
    sites: Sites
    jitter: float
    log_normaliser: float
    alpha: np.ndarray  # (n,): R(z - m)

    @abc.abstractmethod
    def marginals(self) -> tuple[np.ndarray, np.ndarray]:
        """Posterior mean and variance of f at the data, each (n, L), as the likelihood sees them."""

    def site_marginals(self) -> tuple[np.ndarray, np.ndarray]:
        """The same as the site sees them; different only for projected priors."""
        return self.marginals()

    @abc.abstractmethod
    def dual(self) -> tuple[np.ndarray, np.ndarray]:
        """alpha (n, L) and kappa = diag R (n, L)."""

    @abc.abstractmethod
    def apply(self, V: np.ndarray) -> np.ndarray:
        """R V for V (n, q)."""

    @abc.abstractmethod
    def cross(self, Xs: np.ndarray, V: np.ndarray) -> np.ndarray:
        """K(Xs, X) V for V (n, q): (m, q)."""

    @abc.abstractmethod
    def pullback(
        self,
        log_normaliser_bar: float = 0.0,
        mean_bar: np.ndarray | None = None,
        var_bar: np.ndarray | None = None,
        alpha_bar: np.ndarray | None = None,
        kappa_bar: np.ndarray | None = None,
        apply_bar: tuple[np.ndarray, np.ndarray] | None = None,
        *,
        inputs: bool = False,
        consume: bool = False,
    ) -> Cotangents:
        """Cotangents of everything the State was made of, in one joint pass.

        `apply_bar` is (V, cotangent of R V). `consume=True` lets the pass overwrite the factor: the State is spent afterwards.
        """

    @abc.abstractmethod
    def predict(self, Xs: np.ndarray, full: bool = False, variance: bool = True) -> tuple[np.ndarray, np.ndarray | None]:
        """Mean (m, L) and variance (m, L) of f at Xs; `full=True` the covariance (m, m) instead; `variance=False` the mean only."""

    def sample(self, seed: Any, Xs: np.ndarray, size: int) -> np.ndarray:
        """`size` joint draws of f at Xs: (size, m)."""
        from mercer.prior import sample_gaussian

        mean, covariance = self.predict(Xs, full=True)
        assert covariance is not None
        return sample_gaussian(mean[:, 0], covariance, size, seed)
