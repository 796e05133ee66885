"""Where learning starts: the given values, data-driven ones, and random ones."""

from __future__ import annotations

import numpy as np

from mercer.gp import GP, Model
from mercer.likelihoods import Gaussian
from mercer.means import Constant, Linear
from mercer.params import flatten, parameters, replace_leaves


def data_driven(model: Model, X: np.ndarray, y: np.ndarray) -> Model:
    """Free hyperparameters at values that fit the scale of the data; fixed ones stay."""
    latent = np.asarray(model.likelihood.guess(y), float)
    if isinstance(model.gp, tuple):
        gps = tuple(_prior(gp, X, latent[:, j], model.likelihood) for j, gp in enumerate(model.gp))
        return Model(gps, model.likelihood)
    if latent.ndim == 2:  # one GP shared by several latent functions
        spread = float(np.mean(np.var(latent, 0))) or 1.0
        return Model(GP(model.gp.kernel.suggest(X, spread), model.gp.mean, model.gp.basis), model.likelihood)
    gp = _prior(model.gp, X, latent, model.likelihood)
    likelihood = model.likelihood
    if isinstance(likelihood, Gaussian) and parameters(likelihood)[0].free:
        likelihood = replace_leaves(likelihood, {"noise_variance": np.asarray(0.1 * (float(np.var(y)) or 1.0))})
    return Model(gp, likelihood)


def _prior(gp, X: np.ndarray, y: np.ndarray, likelihood) -> GP:
    """A GP whose free hyperparameters fit the scale of the latent values y."""
    spread = float(np.var(y)) or 1.0
    mean = gp.mean
    free = {p.name for p in parameters(mean) if p.free}
    if isinstance(mean, Constant) and "constant" in free:
        mean = replace_leaves(mean, {"constant": np.asarray(y.mean())})
    elif isinstance(mean, Linear) and {"weights", "intercept"} <= free and np.ndim(mean.weights) == 1:
        beta = np.linalg.lstsq(np.column_stack([np.ones(len(y)), X]), y, rcond=None)[0]
        mean = replace_leaves(mean, {"intercept": np.asarray(beta[0]), "weights": beta[1:]})
    return GP(gp.kernel.suggest(X, spread), mean, gp.basis)


def random(model: Model, rng: np.random.Generator) -> Model:
    """Free hyperparameters drawn from their priors, or within a factor of about 5 of their values where they have none."""
    flat = flatten(model)
    vector = flat.vector + rng.normal(0.0, 1.5, flat.vector.shape)
    for p, s in flat.slots:
        if p.info.prior is not None and p.info.prior.proper:
            drawn = p.info.prior.sample(rng, np.shape(p.value))
            vector[s] = np.ravel(p.constraint.unconstrained(np.asarray(drawn, float)))
    for i, (lo, hi) in enumerate(flat.bounds()):
        vector[i] = np.clip(vector[i], -np.inf if lo is None else lo, np.inf if hi is None else hi)
    return flat.unflatten(vector)
