"""Where learning starts: the given values, data-driven ones, and random ones."""

from __future__ import annotations

import functools

import numpy as np

from mercer.gp import GP, Model
from mercer.learning import bounds
from mercer.likelihoods import (
    AbstractNoise,
    ContaminatedUniform,
    EpsilonInsensitive,
    Gaussian,
    GaussianMixtureNoise,
    Laplace,
    StudentT,
)
from mercer.means import Constant, Linear
from mercer.params import flatten, parameters, replace_leaves

NOISE_SHARE = 0.1  # of the variance of y, to start with
MAD = 1.4826  # standard deviation over median absolute deviation, for a Gaussian


def data_driven(model: Model, X: np.ndarray, y: np.ndarray) -> Model:
    """Free hyperparameters at values that fit the scale of the data; fixed ones stay.

    Where the noise has heavy tails the scale is `robust_scale`, so that outliers do not matter.
    """
    latent = np.asarray(model.likelihood.guess(y), float)
    if isinstance(model.gp, tuple):
        gps = tuple(_prior(gp, X, latent[:, j], model.likelihood) for j, gp in enumerate(model.gp))
        return Model(gps, model.likelihood)
    if latent.ndim == 2:  # one GP shared by several latent functions
        spread = float(np.mean(np.var(latent, 0))) or 1.0
        return Model(GP(model.gp.kernel.suggest(X, spread), model.gp.mean, model.gp.basis), model.likelihood)
    likelihood = model.likelihood
    free = {p.name for p in parameters(likelihood) if p.free}
    values = {name: np.asarray(v) for name, v in noise_values(likelihood, y).items() if name in free}
    return Model(
        _prior(model.gp, X, latent, likelihood), replace_leaves(likelihood, values) if values else likelihood
    )


def with_rest(model: Model, X: np.ndarray, solver) -> Model:
    """Free Gaussian noise raised by what the solver takes for noise: what inducing inputs do not explain.

    Exact algebra on a part of the data may have found almost none, where a bound by m inducing inputs is
    millions of nats too low and so steep that a search runs away to a model that is nothing but noise.
    """
    likelihood = model.likelihood
    if not isinstance(likelihood, Gaussian) or np.ndim(likelihood.noise_variance) != 0:
        return model
    if not any(p.free for p in parameters(likelihood) if p.name == "noise_variance"):
        return model
    # as variance of y, and once more in the bound
    noise = float(likelihood.noise_variance) + 2.0 * solver.rest(model.gp, X)
    return Model(model.gp, replace_leaves(likelihood, {"noise_variance": np.asarray(noise)}))


def _prior(gp, X: np.ndarray, y: np.ndarray, likelihood) -> GP:
    """A GP whose free hyperparameters fit the scale of the latent values y."""
    heavy = isinstance(likelihood, AbstractNoise)
    spread = (robust_scale(y) ** 2 if heavy else float(np.var(y))) or 1.0
    mean = gp.mean
    free = {p.name for p in parameters(mean) if p.free}
    if isinstance(mean, Constant) and "constant" in free:
        mean = replace_leaves(mean, {"constant": np.asarray(np.median(y) if heavy else y.mean())})
    elif (
        isinstance(mean, Linear)
        and {"weights", "intercept"} <= free
        and np.ndim(mean.weights) == 1
        and not heavy
    ):
        beta = np.linalg.lstsq(np.column_stack([np.ones(len(y)), X]), y, rcond=None)[0]
        mean = replace_leaves(mean, {"intercept": np.asarray(beta[0]), "weights": beta[1:]})
    return GP(gp.kernel.suggest(X, spread), mean, gp.basis)


def robust_scale(y: np.ndarray) -> float:
    """1.4826 times the median absolute deviation: the standard deviation of Gaussian y, whatever a few
    outliers do.

    Where more than half of y are equal, the median of the deviations that are not zero; zero where all are
    equal.
    """
    away = np.abs(y - np.median(y))
    return MAD * float(np.median(away) or np.median(away[away > 0] if away.any() else away))


@functools.singledispatch
def noise_values(likelihood, y: np.ndarray) -> dict[str, float]:
    """Starting values of noise parameters by name, from the scale of y; none for what is not noise."""
    return {}


@noise_values.register
def _(likelihood: Gaussian, y):
    return {"noise_variance": NOISE_SHARE * (float(np.var(y)) or 1.0)}


@noise_values.register
def _(likelihood: StudentT, y):
    return {"scale": _noise_scale(y)}


@noise_values.register
def _(likelihood: Laplace, y):
    return {"scale": _noise_scale(y) / np.sqrt(2.0)}


@noise_values.register
def _(likelihood: EpsilonInsensitive, y):
    return {"scale": 0.5 * _noise_scale(y), "epsilon": 0.5 * _noise_scale(y)}


@noise_values.register
def _(likelihood: GaussianMixtureNoise, y):
    return {"variance": _noise_scale(y) ** 2, "ratio": _outlier_ratio(y)}


@noise_values.register
def _(likelihood: ContaminatedUniform, y):
    return {"variance": _noise_scale(y) ** 2, "width": max(float(np.ptp(y)), 10 * robust_scale(y)) or 10.0}


def _noise_scale(y: np.ndarray) -> float:
    return float(np.sqrt(NOISE_SHARE) * robust_scale(y)) or 1.0


def _outlier_ratio(y: np.ndarray) -> float:
    """Mean square of y further than 5 robust scales from the median, over the noise variance;
    100 if there are none.
    """
    away = np.abs(y - np.median(y))
    far = away[away > 5 * robust_scale(y)]
    return max(float(np.mean((far / _noise_scale(y)) ** 2)) if far.size else 0.0, 100.0)


def random(model: Model, rng: np.random.Generator) -> Model:
    """Free hyperparameters drawn from their priors,
    or within a factor of about 5 of their values where they have none.
    """
    flat = flatten(model)
    vector = flat.vector + rng.normal(0.0, 1.5, flat.vector.shape)
    for p, s in flat.slots:
        if p.info.prior is not None and p.info.prior.proper:
            drawn = p.info.prior.sample(rng, np.shape(p.value))
            vector[s] = np.ravel(p.constraint.unconstrained(np.asarray(drawn, float)))
    return flat.unflatten(bounds.clip(flat, vector))
