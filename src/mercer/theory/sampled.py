"""Bayes' rule by sampling, for models of more parameters than a grid holds (Kuss 2.1-2.6).

>>> posterior = sampled_posterior(
...     lambda mu, sigma: jnp.sum(jax.scipy.stats.norm.logpdf(y, mu, sigma)),
...     lambda mu, sigma: jax.scipy.stats.norm.logpdf(mu, 0, 10) - sigma,
...     start={"mu": 0.0, "sigma": 1.0}, transforms={"sigma": "log"})
>>> posterior.mean, posterior.mode, posterior.log_evidence, print(posterior.diagnostics)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from scipy.optimize import minimize
from scipy.stats import multivariate_t

from mercer.sampling import Chains, Diagnostics, Weighted, importance_sample, sample

LogDensity = Callable[..., Any]

RAYS = 16  # random directions, besides the axes, along which a density has to fall off
FAR = np.array([20.0, 40.0, 80.0])  # how far, in posterior standard deviations
HEAVY = 5.0  # degrees of freedom of the proposal by which the evidence is found
PROPOSALS = 8000

# x = inverse(u) and log |dx / du|
_SCALES: dict[str, tuple[Callable, Callable]] = {
    "identity": (lambda u: u, lambda u: 0.0 * u),
    "log": (jnp.exp, lambda u: u),
    "logit": (jax.nn.sigmoid, lambda u: -jax.nn.softplus(u) - jax.nn.softplus(-u)),
}


def sampled_posterior(
    log_likelihood: LogDensity,
    log_prior: LogDensity | None,
    start: Mapping[str, float],
    *,
    transforms: Mapping[str, str] | None = None,
    draws: int = 1000,
    chains: int = 4,
    seed: int = 0,
) -> SampledPosterior:
    """Posterior of any number of parameters by NUTS; `grid_posterior` is more accurate for up to three.

    log_likelihood, log_prior: functions that JAX can trace, of the parameters in the order of `start`;
        `log_prior=None` is the constant, improper prior
    start: a value for each parameter, by name, where the density is not zero
    transforms: "log" for a parameter that is positive, "logit" for one between 0 and 1

    Refused is a posterior that is improper: whose density, on the scale of `transforms`, has no peak, or does
    not fall off fast enough in every direction to be integrated.
    """
    names = tuple(start)
    if stray := set(transforms or {}) - set(names):
        raise ValueError(
            f"transforms names {stray.pop()!r}, which is not among the parameters {', '.join(names)}."
        )
    scales = tuple((transforms or {}).get(name, "identity") for name in names)
    if bad := set(scales) - set(_SCALES):
        raise ValueError(f"Unknown transform {bad.pop()!r}; use one of {', '.join(_SCALES)}.")

    def prior(u: jax.Array) -> Any:
        volume = sum(_SCALES[s][1](v) for s, v in zip(scales, u, strict=True))
        return volume + (0.0 if log_prior is None else log_prior(*_inverse(scales, u)))

    def joint(u: jax.Array) -> Any:
        return log_likelihood(*_inverse(scales, u)) + prior(u)

    peak, scale = _peak(joint, _forward(scales, np.array([float(v) for v in start.values()])))
    if not _falls_off(joint, peak, scale):
        raise ValueError(
            "The posterior is improper: far from its peak the density does not fall off, so that it has no "
            "integral. Give a prior that integrates to one, or data that say more."
        )
    begin = peak + 0.5 * np.random.default_rng(seed).standard_normal((chains, len(names))) @ scale.T
    found = sample(joint, begin, draws=draws, chains=chains, seed=seed, progress=False)
    proper = log_prior is not None and _proper(prior, peak)
    return SampledPosterior(names, scales, found, joint, peak, proper, seed)


@dataclass(frozen=True, eq=False, repr=False)
class SampledPosterior:
    """Draws of the posterior of a model's parameters; made by `sampled_posterior`."""

    names: tuple[str, ...]
    scales: tuple[str, ...]
    chains: Chains
    log_joint: LogDensity
    peak: np.ndarray
    proper: bool
    seed: int

    def __repr__(self) -> str:
        estimates = ", ".join(f"{n} = {np.mean(v):.4g} ± {np.std(v):.2g}" for n, v in self.draws.items())
        return f"SampledPosterior({estimates})"

    @cached_property
    def draws(self) -> dict[str, np.ndarray]:
        """(chains, draws) of each parameter, in its own units."""
        u = jnp.moveaxis(jnp.asarray(self.chains.draws), -1, 0)
        return {n: np.asarray(x) for n, x in zip(self.names, _inverse(self.scales, u), strict=True)}

    @cached_property
    def diagnostics(self) -> Diagnostics:
        """R-hat and effective sample sizes of the parameters, on the scale on which they were drawn."""
        return self.chains.diagnostics(self.names)

    @property
    def mean(self) -> dict[str, float]:
        """Posterior mean of every parameter."""
        return {name: float(np.mean(x)) for name, x in self.draws.items()}

    @property
    def covariance(self) -> np.ndarray:
        """Posterior covariance of the parameters, in the order of `names`."""
        return np.atleast_2d(np.cov([np.ravel(x) for x in self.draws.values()]))

    @cached_property
    def mode(self) -> dict[str, float]:
        """The MAP estimate: the peak of the density of the parameters in their own units."""

        def own(u: jax.Array) -> Any:
            return self.log_joint(u) - sum(_SCALES[s][1](v) for s, v in zip(self.scales, u, strict=True))

        best = _climb(own, self.peak)
        return {
            n: float(x) for n, x in zip(self.names, _inverse(self.scales, jnp.asarray(best)), strict=True)
        }

    def quantile(self, name: str, q: float) -> float:
        """Quantile q of one parameter."""
        return float(np.quantile(self.draws[name], q))

    @cached_property
    def evidence(self) -> Weighted:
        """Draws of a wide proposal with their weights: `log_normaliser` is the log evidence and
        `standard_error` its error (Kuss 4.31). Refused when the prior is improper.
        """
        if not self.proper:
            raise ValueError(
                "The evidence is undefined: the prior is improper. Give a prior that integrates to one."
            )
        flat = self.chains.draws.reshape(-1, len(self.names))
        wide = multivariate_t(flat.mean(0), np.atleast_2d(np.cov(flat.T)), df=HEAVY)
        joint = jax.jit(jax.vmap(self.log_joint))
        return importance_sample(
            lambda u: np.nan_to_num(np.asarray(joint(u)), nan=-np.inf),
            lambda rng, size: wide.rvs(size, random_state=rng).reshape(size, -1),
            lambda u: np.atleast_1d(wide.logpdf(u)),
            PROPOSALS,
            self.seed,
        )

    @property
    def log_evidence(self) -> float:
        """log p(D), the log of the integral of likelihood times prior (2.2), up to `evidence.standard_error`;
        the prior has to be normalised.
        """
        return self.evidence.log_normaliser


def _inverse(scales: tuple[str, ...], u: Any) -> list[Any]:
    return [_SCALES[s][0](v) for s, v in zip(scales, u, strict=True)]


def _forward(scales: tuple[str, ...], x: np.ndarray) -> np.ndarray:
    forward: dict[str, Callable[[float], float]] = {
        "identity": float,
        "log": np.log,
        "logit": lambda v: float(np.log(v) - np.log1p(-v)),
    }
    with np.errstate(divide="ignore", invalid="ignore"):
        u = np.array([forward[s](v) for s, v in zip(scales, x, strict=True)])
    if not np.isfinite(u).all():
        raise ValueError(f"start {x.tolist()} is not inside the range of the transforms {scales}.")
    return u


def _climb(log_density: LogDensity, start: np.ndarray) -> np.ndarray:
    value = jax.jit(jax.value_and_grad(lambda u: -log_density(u)))
    if not np.isfinite(value(start)[0]):
        raise ValueError(f"The density is zero or undefined at the starting point {start.tolist()}.")
    found = minimize(lambda u: [np.asarray(v, float) for v in value(u)], start, jac=True, method="BFGS")
    return np.asarray(found.x)


def _peak(log_density: LogDensity, start: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The peak, and S with S S' the inverse of the curvature there."""
    peak = _climb(log_density, start)
    curvature = -np.asarray(jax.jit(jax.hessian(log_density))(peak))
    values, vectors = np.linalg.eigh(curvature)
    if not np.isfinite(peak).all() or not values[0] > 1e-9 * max(values[-1], 1e-9):
        raise ValueError(
            "The posterior has no peak, or is flat in some direction: the data and the prior together leave "
            "a combination of the parameters open, and the posterior is improper."
        )
    return peak, vectors / np.sqrt(values)


def _proper(log_density: LogDensity, start: np.ndarray) -> bool:
    """Whether a density has a peak and falls off from it."""
    try:
        return _falls_off(log_density, *_peak(log_density, start))
    except ValueError:
        return False


def _falls_off(log_density: LogDensity, peak: np.ndarray, scale: np.ndarray) -> bool:
    """Whether r^p times the density at distance r falls, along axes and random directions: else its integral
    diverges.
    """
    p = len(peak)
    directions = np.random.default_rng(0).standard_normal((RAYS, p))
    directions = np.vstack([np.eye(p), -np.eye(p), directions / np.linalg.norm(directions, axis=1)[:, None]])
    points = peak + FAR[:, None, None] * (directions @ scale.T)  # (distances, directions, p)
    value = np.asarray(jax.jit(jax.vmap(jax.vmap(log_density)))(points), float)
    height = np.where(np.isnan(value), -np.inf, value) + p * np.log(FAR)[:, None]
    return bool(np.all(height[1:] <= np.maximum(height[:-1], -1e300)))
