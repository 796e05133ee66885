"""Where learning starts: the given values, data-driven ones, and random ones."""

from __future__ import annotations

import numpy as np

from mercer.gp import GP, Model
from mercer.likelihoods import Gaussian
from mercer.means import Constant, Linear
from mercer.params import flatten, parameters, replace_leaves


def data_driven(model: Model, X: np.ndarray, y: np.ndarray) -> Model:
    """Free hyperparameters at values that fit the scale of the data; fixed ones stay."""
    spread = float(np.var(y)) or 1.0
    gp = model.gp
    mean = gp.mean
    free = {p.name for p in parameters(mean) if p.free}
    if isinstance(mean, Constant) and "constant" in free:
        mean = replace_leaves(mean, {"constant": np.asarray(y.mean())})
    elif isinstance(mean, Linear) and {"weights", "intercept"} <= free and np.ndim(mean.weights) == 1:
        beta = np.linalg.lstsq(np.column_stack([np.ones(len(y)), X]), y, rcond=None)[0]
        mean = replace_leaves(mean, {"intercept": np.asarray(beta[0]), "weights": beta[1:]})
    likelihood = model.likelihood
    if isinstance(likelihood, Gaussian) and parameters(likelihood)[0].free:
        likelihood = replace_leaves(likelihood, {"noise_variance": np.asarray(0.1 * spread)})
    return Model(GP(gp.kernel.suggest(X, spread), mean, gp.basis), likelihood)


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
