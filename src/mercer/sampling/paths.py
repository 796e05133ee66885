"""Paths from the prior to the posterior, for annealing: of latent values at fixed hyperparameters, or of the
hyperparameters.

The prior is made standard normal. At fixed hyperparameters the coordinates are rotated so that the curvature
L'W L of the likelihood is diagonal: at temperature tau the variances are then close to 1 / (1 + tau
curvature), and each coordinate gets its own step.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import scipy.linalg as sla

from mercer.likelihoods.gaussian import Gaussian
from mercer.params import strip
from mercer.sampling.hyper import Hyperparameters
from mercer.sampling.target import (
    SMALL,
    Whitening,
    _blocks,
    bucket,
    encoded,
    latent_data,
    latent_values,
    likelihood_data,
    log_evidence_of,
    total_log_prob,
)  # fmt: skip

GROUP = 8  # at least so many runs go through the ladder side by side


@dataclasses.dataclass(frozen=True, eq=False)
class Path:
    """log_prior(z, data) and log_likelihood(z, data), traceable;
    `curvature` (d,) scales the steps with the temperature.
    """

    log_prior: Callable[..., Any]
    log_likelihood: Callable[..., Any]
    data: Any
    curvature: np.ndarray
    draw: Callable[[np.random.Generator], np.ndarray] | None = None  # z (d,), a draw of the prior
    back: Callable[..., np.ndarray] | None = None  # latent values (R, n, L) -> z (R, d)
    together: bool = True  # whether runs are vectorised; not where matrices are factored

    def group(self, runs: int) -> int:
        """How many runs go together: Ctrl-C keeps groups that are finished, so at most four are made."""
        return max(GROUP, -(-runs // 4)) if self.together else 1

    def prior_draws(self, rng: np.random.Generator, runs: int) -> np.ndarray:
        """Where forward runs start (runs, d)."""
        assert self.draw is not None
        return np.stack([self.draw(rng) for _ in range(runs)])

    def from_latents(self, f: np.ndarray) -> np.ndarray:
        """Latent values (R, n, L) in the coordinates of this path (R, d)."""
        assert self.back is not None
        return self.back(f)

    def from_chains(self, post: Any, hyper: Hyperparameters, runs: int, gaussian: bool) -> np.ndarray:
        """The last draw of each chain, in the coordinates of this path."""
        ends = post.chains.draws[:runs, -1]
        theta = ends[:, ends.shape[1] - hyper.size :]
        if gaussian:
            return theta
        assert self.back is not None
        return self.back(post.draws["u"][:runs, -1], theta)


def densities(model: Any, integrated: bool) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """log_prior and log_likelihood of a path: of latent values, or of the hyperparameters."""
    L = model.likelihood.latents
    if not integrated:
        return _standard_normal, _latent_likelihood(jax.tree.structure(strip(model.likelihood)), L)
    spec, alone = Hyperparameters(model).spec, isinstance(model.likelihood, Gaussian)
    return _hyper_prior(spec, 0 if alone else L), _hyper_likelihood(spec, 0 if alone else L)


def fixed_path(likelihood: Any, y: np.ndarray, white: Whitening, sites: Any) -> Path:
    """From the prior to the posterior of the latent values at fixed hyperparameters.
    `white` is that of the prior.
    """
    n, L = white.shape
    size = n if likelihood.per_datum else bucket(n)
    curvature, Q = np.zeros(n * L), np.eye(n * L)
    if sites is not None:
        W = _blocks(sites)
        A = np.block(
            [[white.factors[j].T @ (W[:, j, k, None] * white.factors[k]) for k in range(L)] for j in range(L)]
        )
        curvature, Q = sla.eigh(A)
        curvature = np.maximum(curvature, 0.0)
    turned = dataclasses.replace(white, turn=Q)
    data = likelihood_data(likelihood, y, size) | latent_data(turned, size)
    where = np.concatenate([np.arange(n) + j * size for j in range(L)])
    padded = np.zeros(L * size)
    padded[where] = curvature
    _, treedef = jax.tree.flatten(strip(likelihood))

    def back(f: np.ndarray) -> np.ndarray:
        f = f.reshape(f.shape[0], n, L)
        u = [
            sla.solve_triangular(white.factors[j], (f[:, :, j] - white.mean[:, j]).T, lower=True)
            for j in range(L)
        ]
        z = np.zeros((f.shape[0], L * size))
        z[:, where] = np.concatenate(u).T @ Q
        return z

    return Path(
        _standard_normal,
        _latent_likelihood(treedef, L),
        data,
        padded,
        lambda rng: rng.standard_normal(L * size),
        back,
    )


def _standard_normal(z, data):
    return -0.5 * jnp.sum(z**2)


@functools.lru_cache(maxsize=64)
def _latent_likelihood(treedef, L: int):
    def log_likelihood(z, data):
        f = data["middle"] + (data["C"] @ z).reshape(L, -1).T
        return total_log_prob(jax.tree.unflatten(treedef, data["leaves"]), f, data["y"], data["mask"])

    return log_likelihood


def integrated_path(model: Any, X: np.ndarray, y: np.ndarray, hyper: Hyperparameters) -> Path:
    """From the prior to the posterior of the hyperparameters: alone for Gaussian noise,
    with the whitened latents otherwise.
    """
    n, L = y.shape[0], model.likelihood.latents
    size = n if model.likelihood.per_datum else bucket(n)
    data = encoded(model, X, size) | likelihood_data(model.likelihood, y, size) | hyper.data()
    if isinstance(model.likelihood, Gaussian):
        return Path(
            _hyper_prior(hyper.spec, 0),
            _hyper_likelihood(hyper.spec, 0),
            data,
            np.zeros(hyper.size),
            hyper.draw,
            together=size <= SMALL,
        )

    def draw(rng):
        return np.concatenate([rng.standard_normal(L * size), hyper.draw(rng)])

    def back(u: np.ndarray, theta: np.ndarray) -> np.ndarray:
        z = np.zeros((u.shape[0], L, size))
        z[:, :, :n] = u
        return np.concatenate([z.reshape(u.shape[0], -1), theta], 1)

    curvature = np.zeros(L * size + hyper.size)
    return Path(
        _hyper_prior(hyper.spec, L),
        _hyper_likelihood(hyper.spec, L),
        data,
        curvature,
        draw,
        back,
        size <= SMALL,
    )


@functools.lru_cache(maxsize=64)
def _hyper_prior(spec, L: int):
    def log_prior(z, data):
        d = L * data["mask"].shape[0]
        return spec.build(z[d:], data)[1] - 0.5 * jnp.sum(z[:d] ** 2)

    return log_prior


@functools.lru_cache(maxsize=64)
def _hyper_likelihood(spec, L: int):
    def log_likelihood(z, data):
        d = L * data["mask"].shape[0]
        model, _ = spec.build(z[d:], data)
        if L == 0:
            return log_evidence_of(model, data)
        f = latent_values(model, z[:d].reshape(L, -1), data)
        return total_log_prob(model.likelihood, f, data["y"], data["mask"])

    return log_likelihood
