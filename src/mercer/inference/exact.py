"""Exact inference for Gaussian noise: the sites are the data themselves (2.20-2.30)."""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar

import jax
import numpy as np

from mercer.inference.gradient import prior_gradient
from mercer.inference.one_tile import OneTile
from mercer.inference.protocol import AbstractSiteRule, Result
from mercer.inputs import Array
from mercer.likelihoods.gaussian import AbstractGaussianNoise
from mercer.linalg import tiles
from mercer.linalg.cholesky import NOISE_FLOOR
from mercer.params import Flattened, strip
from mercer.solvers.protocol import AbstractSolver, AbstractWorkspace, Sites, SolverError

_LOG_2PI = float(np.log(2 * np.pi))


@dataclasses.dataclass(frozen=True)
class Exact(AbstractSiteRule):
    """c = y, g = 0, W = 1 / noise variance. The evidence and its gradient are exact. Where a function of y is
    f plus Gaussian noise (`likelihoods.Warped`) c is that function, whose slope is part of the density of y.
    """

    needs: ClassVar[frozenset[str]] = frozenset({"logdet"})
    fixed_sites: ClassVar[bool] = True

    def run(
        self,
        model: Any,
        X: np.ndarray,
        y: np.ndarray,
        solver: AbstractSolver,
        workspace: AbstractWorkspace | None = None,
    ) -> Result:
        self.check(solver)
        sites, floor = gaussian_sites(model, X, y)
        state = solver.factor(model.gp, X, sites, workspace)
        W = sites.precision[:, 0]
        xp = np if isinstance(W, np.ndarray) else jax.numpy
        evidence = state.log_normaliser + 0.5 * xp.sum(xp.log(W)) - 0.5 * W.shape[0] * _LOG_2PI
        evidence = evidence + model.likelihood.log_jacobian(y)
        notes = []
        if floor:
            notes.append(
                f"noise-free conditioning used a noise variance of {floor:.3g} (the jitter policy's floor)"
            )
        if state.jitter:
            notes.append(f"jitter of {state.jitter:.3g} times the noise variance was added to the diagonal")
        return Result(state, evidence, tuple(notes))

    def at_vectors(self, flat: Flattened, X: np.ndarray, y: np.ndarray, solver: AbstractSolver) -> Any:
        if tiles.in_one(y.shape[0]) and solver.one_matrix(y.shape[0]) and _even_noise(flat.value, y):
            return OneTile(flat, X, y)
        return None

    def gradient(
        self,
        model: Any,
        y: np.ndarray,
        result: Result,
        consume: bool = False,
        log_evidence_bar: float = 1.0,
        **bars: Any,
    ) -> dict[str, np.ndarray]:
        state = result.state
        cotangents = state.pullback(log_evidence_bar, **bars, consume=consume)
        gradient = prior_gradient(model, cotangents.prior)
        W = np.asarray(state.sites.precision[:, 0])
        W_bar = np.asarray(cotangents.sites.precision[:, 0]) + 0.5 * log_evidence_bar / W
        noise_bar = -W_bar * W**2
        by_noise = model.likelihood.pull(noise_bar, y, cotangents.sites.centre, log_evidence_bar)
        return gradient | {f"likelihood.{name}": bar for name, bar in by_noise.items()}


def _even_noise(model: Any, y: np.ndarray) -> bool:
    """Whether y is f plus noise of one positive variance for all data."""
    likelihood = model.likelihood
    if not isinstance(likelihood, AbstractGaussianNoise) or likelihood.warped(y) is not y:
        return False
    return np.ndim(likelihood.variances) == 0 and bool(likelihood.variances > 0)


def gaussian_sites(model: Any, X: np.ndarray, y: Array) -> tuple[Sites, float]:
    """The data as sites, and the noise floor if one had to be used."""
    if not isinstance(model.likelihood, AbstractGaussianNoise):
        raise SolverError(
            f"exact inference needs a Gaussian likelihood, not {type(model.likelihood).__name__}: use an "
            "approximate rule."
        )
    y, noise = model.likelihood.warped(y), model.likelihood.variances
    if np.ndim(noise) == 1 and noise.shape[0] != y.shape[0]:
        raise SolverError(f"noise_variance has {noise.shape[0]} entries but there are {y.shape[0]} data.")
    floor = 0.0
    if isinstance(noise, np.ndarray) and np.any(noise == 0):
        kernel = strip(model.gp.kernel)
        panels = tiles.Panels(kernel.encode(X), tiles.tile_size(X.shape[0]))
        floor = NOISE_FLOOR * float(np.mean(tiles.diagonal(kernel, panels)))
        noise = np.where(noise == 0, floor, noise)
    xp = np if isinstance(noise, np.ndarray) and isinstance(y, np.ndarray) else jax.numpy
    precision = xp.broadcast_to(1.0 / noise, y.shape)
    return Sites(y[:, None], precision[:, None]), floor
