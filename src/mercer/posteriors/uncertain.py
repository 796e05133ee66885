"""Predictions of a posterior where the input is uncertain, x ~ N(mu, Sigma)."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, get_args

import jax
import numpy as np
from scipy.special import ndtri
from scipy.stats import qmc

from mercer.inputs import InputError
from mercer.likelihoods.gaussian import Gaussian
from mercer.linalg.semidefinite import semidefinite_factor
from mercer.posteriors.answers import Method, PosteriorError, UncertainPrediction
from mercer.uncertain import Moments, NotClosed, Predictor, check_closed, linearised, moments
from mercer.uncertain.anywhere import NODES, hermite_grid

if TYPE_CHECKING:
    from mercer.posteriors.protocol import AbstractPosterior

SETS, POINTS = 8, 512  # of Monte Carlo: independent sets of points that fill the space evenly, and their size
ROUNDING = 1e-8  # of its largest eigenvalue: how far below zero one of Sigma may be


def predict_uncertain(
    posterior: AbstractPosterior, mu: Any, Sigma: Any, latent: bool, method: str | None, noise: Any, seed: Any
) -> UncertainPrediction:
    """What `AbstractPosterior.predict_uncertain` answers."""
    if method not in (None, *get_args(Method)):
        raise ValueError(f"method must be None or one of {', '.join(get_args(Method))}, got {method!r}.")
    single = np.ndim(mu) < 2 and not isinstance(mu, dict)
    values = posterior._values(np.reshape(np.asarray(mu, float), (1, -1)) if single else mu)
    Sigmas = covariances(Sigma, *values.shape)
    predictor = None if method in ("quadrature", "monte-carlo") else _predictor(posterior, latent, method)
    if predictor is not None:
        found = _in_jax(posterior, predictor, values, Sigmas, latent, noise, method or "exact")
    else:
        found = _by_points(posterior, values, Sigmas, latent, noise, method, seed)
    return found.row(0) if single else found


def covariances(Sigma: Any, m: int, d: int) -> np.ndarray:
    """Covariances (m, d, d) of m inputs: from one number, (d,) variances, (d, d), or one for each input."""
    given = np.asarray(Sigma, float)
    if given.ndim < 2 and given.shape in ((), (d,)):
        given = np.diag(np.broadcast_to(given, d))
    if given.shape not in ((d, d), (m, d, d)):
        raise InputError(
            f"Sigma has shape {given.shape}: the covariance of an input of {d} columns is ({d}, {d}), or "
            f"({d},) variances where they are independent; ({m}, {d}, {d}) gives each of {m} inputs its own."
        )
    if not np.isfinite(given).all():
        raise InputError("Sigma must be finite; a column that is known has variance 0.")
    for i, one in enumerate(given.reshape(-1, d, d)):
        where = f" (of input {i})" if given.ndim == 3 else ""
        size = np.abs(one).max()
        if np.abs(one - one.T).max() > ROUNDING * size:
            raise InputError(f"Sigma{where} is not symmetric: a covariance is; check how it was made.")
        eigenvalues, vectors = np.linalg.eigh(0.5 * (one + one.T))
        if eigenvalues[0] < -ROUNDING * size:
            along = ", ".join(f"{v:.3g}" for v in vectors[:, 0])
            raise InputError(
                f"Sigma{where} is not positive semi-definite: along ({along}) the input would have the "
                f"variance {eigenvalues[0]:.3g}. A covariance has no negative eigenvalue: check how it "
                "was made."
            )
    return np.broadcast_to(given, (m, d, d))


# -- closed forms and derivatives ----------------------------------------------------------------------------


def _predictor(posterior: AbstractPosterior, latent: bool, method: str | None) -> Predictor | None:
    """What is computed with in JAX; None where points have to do, an error where `method` insists."""
    if not latent and not isinstance(posterior.model.likelihood, Gaussian):
        if method is None:
            return None
        raise PosteriorError(
            f"method={method!r} is for f, or for y with Gaussian noise: take latent=True, or 'quadrature'."
        )
    if method is None and not posterior.can("predictor"):
        return None
    predictor = posterior.predictor()
    try:
        if method != "linear":
            check_closed(predictor)
    except NotClosed as error:
        if method is None:
            return None
        raise PosteriorError(str(error)) from None
    return predictor


@functools.partial(jax.jit, static_argnames="how")
def _each(predictor: Predictor, mu: jax.Array, Sigma: jax.Array, how: str) -> Moments:
    rule = linearised if how == "linear" else moments
    found: Moments = jax.lax.map(lambda at: rule(predictor, *at), (mu, Sigma))
    return found


def _in_jax(
    posterior: AbstractPosterior,
    predictor: Predictor,
    mu: np.ndarray,
    Sigma: np.ndarray,
    latent: bool,
    noise: Any,
    how: Any,
) -> UncertainPrediction:
    found = _each(predictor, mu, Sigma, how)
    spread = np.maximum(np.asarray(found.spread)[:, 0, 0], 0.0)
    known = 0.0 if latent else posterior._likelihood(mu, noise).variances
    variance = spread + np.asarray(found.doubt)[:, 0] + known
    cross = np.asarray(found.cross)[:, :, 0]
    return UncertainPrediction(np.asarray(found.mean)[:, 0], variance, cross, spread, how)


# -- points --------------------------------------------------------------------------------------------------


def _by_points(
    posterior: AbstractPosterior,
    mu: np.ndarray,
    Sigma: np.ndarray,
    latent: bool,
    noise: Any,
    method: str | None,
    seed: Any,
) -> UncertainPrediction:
    """From predictions at points (N, d) that stand for x, in as many directions as it varies in."""
    roots = [semidefinite_factor(one, floor=ROUNDING * np.abs(one).max() / len(one)).root for one in Sigma]
    few = max(root.shape[1] for root in roots) <= max(NODES)
    how: Any = method or ("quadrature" if few else "monte-carlo")
    noises = np.broadcast_to(np.nan if noise is None else np.asarray(noise, float), len(mu))
    answers = []
    for centre, root, own in zip(mu, roots, noises, strict=True):
        sets = []
        for z, weights in _points(root.shape[1], how, seed):
            away = z @ root.T
            means, variances = posterior._moments(
                centre + away, latent, None if noise is None else float(own)
            )
            mean = weights @ means
            centred = weights * (means - mean)
            sets.append((mean, weights @ variances, centred @ (means - mean), away.T @ centred))
        error = np.std([one[0] for one in sets]) / np.sqrt(max(len(sets) - 1, 1))
        answers.append((*(np.mean(part, 0) for part in zip(*sets, strict=True)), error))
    mean, rest, spread, cross, error = (np.array(part) for part in zip(*answers, strict=True))
    return UncertainPrediction(
        mean, spread + rest, cross, spread, how, error if how == "monte-carlo" else None
    )


def _points(directions: int, how: str, seed: Any) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Points (N, directions) and weights (N,) that stand for a standard normal: one set of quadrature,
    several of Monte Carlo.
    """
    if how == "quadrature":
        yield hermite_grid(directions)
        return
    for rng in np.random.default_rng(seed).spawn(SETS):
        z = ndtri(qmc.Sobol(directions, rng=rng).random(POINTS)) if directions else np.zeros((POINTS, 0))
        z -= z.mean(0)
        if 4 * directions < POINTS:  # their covariance is the identity: straight functions have no error
            z = np.linalg.solve(np.linalg.cholesky(z.T @ z / POINTS), z.T).T
        yield z, np.full(POINTS, 1.0 / POINTS)
