"""Acquisitions that look further than the next value: Thompson draws, the knowledge gradient, and the entropy
of the least value. Each has a function that prepares its data, and the score that reads them.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import log_ndtr

from mercer.decide.acquisition import LOG_ROOT_2PI, Data, standard_normals
from mercer.decide.surrogate import Surrogate, covariance, of, predict, predict_jit
from mercer.decide.surrogate import kernel as covariance_function
from mercer.kernels.spectral.expansion import prior_functions

__all__ = ["draw", "entropy_of_the_least", "knowledge", "knowledge_gradient", "least_values", "thompson"]

WAVES = 512  # of a drawn function
TARGETS = 64  # rows among which a further value may move the least mean
PLACES = 256  # rows at which functions are drawn, to see their least value
LEAST = 32  # such draws
TINY = 1e-30


# -- Thompson: the least value of one function drawn from the posterior --------------------------------------


def draw(gp: Surrogate, rng: np.random.Generator) -> Data:
    """A function of the posterior by Matheron's rule: one of the prior, moved to agree with the data."""
    k = covariance_function(np.asarray(gp.lengthscale), np.asarray(gp.variance))
    prior = prior_functions(k, gp.inputs.shape[1], 1, WAVES, rng)
    noise = rng.standard_normal(len(gp.mask)) * math.sqrt(float(gp.noise_variance))
    return {"gp": gp, "prior": prior, "weights": _moved(gp, prior, noise)}


@jax.jit
def _moved(gp, prior, noise):
    gap = (gp.targets - prior.values(prior.encode(gp.inputs))[:, 0] - noise) * gp.mask
    return gp.inverse_factor.T @ (gp.inverse_factor @ gap)


def thompson(A: Any, data: Data) -> Any:
    """The drawn function, with the sign turned."""
    gp, prior = data["gp"], data["prior"]
    moved = (of(gp).block(A, gp.inputs) * gp.mask) @ data["weights"]
    return -(prior.values(prior.encode(A))[:, 0] + moved)


# -- the knowledge gradient ----------------------------------------------------------------------------------


def knowledge(gp: Surrogate, places: np.ndarray, full: tuple[np.ndarray, np.ndarray]) -> Data:
    """places (m, D): rows whose means are compared, of which the least are kept; full: which columns (D,) are
    set to what values (D,) in what counts in the end (the highest fidelity).
    """
    seen = np.asarray(gp.inputs)[: int(np.sum(gp.mask))]
    rows = np.where(full[0], full[1], np.concatenate([seen, places]))
    mean = np.asarray(predict_jit(gp, _sized(rows, len(gp.mask) + len(places)))[0])[: len(rows)]
    targets = _sized(rows[np.argsort(mean, kind="stable")[:TARGETS]], TARGETS)
    return {"gp": gp, "targets": targets, "which": full[0], "full": full[1], "normals": _quantiles(TARGETS)}


def knowledge_gradient(A: Any, data: Data) -> Any:
    """log of how far the least posterior mean is expected to fall once a value at A is seen."""
    gp, T = data["gp"], data["targets"]
    goal = jnp.where(data["which"], data["full"], A)
    _, variance = predict(gp, A)
    std = jnp.sqrt(variance + gp.noise_variance)
    known = predict(gp, T)[0]
    slopes = covariance(gp, A, T) / std[:, None]
    own_mean = predict(gp, goal)[0]
    own_slope = jax.vmap(lambda a, g: covariance(gp, a[None], g[None])[0, 0])(A, goal) / std
    z = data["normals"]
    least = jnp.min(known + slopes[:, None] * z[:, None], 2)  # (m, z)
    least = jnp.minimum(least, own_mean[:, None] + own_slope[:, None] * z)
    return jnp.log(jnp.maximum(jnp.minimum(jnp.min(known), own_mean) - jnp.mean(least, 1), TINY))


@functools.lru_cache(maxsize=4)
def _quantiles(size: int) -> np.ndarray:
    from scipy.special import ndtri

    return ndtri((np.arange(size) + 0.5) / size)


# -- the entropy of the least value --------------------------------------------------------------------------


def least_values(gp: Surrogate, places: np.ndarray) -> Data:
    """Draws of the least value of the function, seen at the most promising of `places` (m, D)."""
    mean, variance = (np.asarray(part) for part in predict_jit(gp, places))
    promising = places[np.argsort(mean - 2.0 * np.sqrt(variance), kind="stable")[:PLACES]]
    least = _least(gp, _sized(promising, PLACES), standard_normals(LEAST, PLACES))
    return {"gp": gp, "least": least}


@jax.jit
def _least(gp, places, normals):
    mean, _ = predict(gp, places)
    C = covariance(gp, places, places)
    L = jnp.linalg.cholesky(C + 1e-6 * (gp.variance + 1.0) * jnp.eye(len(places)))
    return jnp.minimum(jnp.min(mean + normals @ L.T, 1), jnp.min(mean) - 1e-3)


def entropy_of_the_least(A: Any, data: Data) -> Any:
    """log of what a value at A is expected to tell of the least value, in nats (Wang and Jegelka 2017)."""
    mean, variance = predict(data["gp"], A)
    u = (mean[:, None] - data["least"]) / jnp.sqrt(variance)[:, None]
    log_cdf = log_ndtr(u)
    hazard = jnp.exp(-0.5 * u**2 - LOG_ROOT_2PI - log_cdf)
    told = 0.5 * u * hazard - log_cdf
    return jnp.log(jnp.maximum(jnp.mean(told, 1), TINY))


def _sized(rows: np.ndarray, size: int) -> np.ndarray:
    return rows[np.arange(size) % len(rows)]
