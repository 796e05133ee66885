"""Where learning starts: the given values, data-driven ones, and random ones."""

from __future__ import annotations

import numpy as np

from mercer.gp import GP, Model
from mercer.learning import bounds
from mercer.likelihoods import AbstractLikelihood, AbstractNoise, Gaussian
from mercer.likelihoods.scales import robust_scale
from mercer.params import flatten, parameters, replace_leaves
from mercer.solvers.protocol import AbstractSolver

MANY = 30  # columns, each with a length-scale: from here on the search starts from several scales


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
    values = {name: np.asarray(v) for name, v in likelihood.start(y).items() if name in free}
    return Model(
        _prior(model.gp, X, latent, likelihood), replace_leaves(likelihood, values) if values else likelihood
    )


def longer(model: Model) -> dict[str, Model]:
    """The same with the length-scales of many columns longer, by name; none where columns are few.

    In units of its column a length-scale starts at d^1/4. Among many columns all data are then far from each
    other, and a search may end at noise alone. At sqrt(d), about the distance between them, it seldom does;
    nor is that start always the better one.
    """
    flat = flatten(model)
    many = [(p, s) for p, s in flat.slots if p.name.endswith("lengthscale") and np.size(p.value) >= MANY]
    found = {}
    for label, factor in (("longer", 1.0), ("longest", 2.0)) if many else ():
        vector = flat.vector.copy()
        for p, s in many:
            stretched = factor * np.size(p.value) ** 0.25 * np.asarray(p.value)
            vector[s] = np.ravel(p.constraint.unconstrained(stretched))
        found[label] = flat.unflatten(bounds.clip(flat, vector))
    return found


def with_rest(model: Model, X: np.ndarray, solver: AbstractSolver) -> Model:
    """Free Gaussian noise raised by what the solver takes for noise: what inducing inputs do not explain.

    Exact algebra on a part of the data may have found almost none, where a bound by m inducing inputs is
    millions of nats too low and so steep that a search runs away to a model that is nothing but noise.
    """
    likelihood = model.likelihood
    if not isinstance(likelihood, Gaussian):
        return model
    if not any(p.free for p in parameters(likelihood) if p.name == "noise_variance"):
        return model
    # as variance of y, and once more in the bound
    noise = likelihood.noise_variance + 2.0 * likelihood.typical_weight * solver.rest(model.gp, X)
    return Model(model.gp, replace_leaves(likelihood, {"noise_variance": np.asarray(noise)}))


def _prior(gp: GP, X: np.ndarray, y: np.ndarray, likelihood: AbstractLikelihood) -> GP:
    """A GP whose free hyperparameters fit the scale of the latent values y."""
    heavy = isinstance(likelihood, AbstractNoise)
    spread = (robust_scale(y) ** 2 if heavy else float(np.var(y))) or 1.0
    return GP(gp.kernel.suggest(X, spread), gp.mean.suggest(X, y, heavy), gp.basis)


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
    drawn_model: Model = flat.unflatten(bounds.clip(flat, vector))
    return drawn_model
