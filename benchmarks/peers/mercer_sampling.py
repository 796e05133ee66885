"""Sampling tasks of Mercer's worker: its own samplers, and blackjax driven without Mercer."""

from __future__ import annotations

import time
import warnings

import jax
import jax.numpy as jnp
import numpy as np

import mercer as mc
from benchmarks.peers import Timer, versions
from benchmarks.reference import covariance
from mercer.inference import MCMC


def sampling(
    data: str,
    out: str,
    lengthscale: float,
    variance: float,
    draws: int,
    tune: int,
    chains: int,
    seed: int,
    sampler: str,
    whiten: str,
) -> dict:
    """Draws of f by `Model.condition`, the Gaussian approximation that whitens included."""
    arrays = np.load(data)
    X, y = arrays["X"], arrays["y"]
    model = mc.Model(mc.GP(mc.kernels.SE(lengthscale, variance)), mc.likelihoods.Bernoulli("logit"))
    rule = MCMC(
        draws=draws, tune=tune, chains=chains, seed=seed, sampler=sampler, whiten=whiten, progress=False
    )
    # compiles
    model.condition(
        X, y, MCMC(draws=25, tune=25, chains=chains, sampler=sampler, whiten=whiten, progress=False)
    )
    start = time.process_time()
    post = model.condition(X, y, rule)
    cpu = time.process_time() - start
    np.savez(out, f=post.draws["f"])
    return {"cpu": cpu, "versions": versions("mercer", "jax", "blackjax")}


def hyperparameters(data: str, out: str, draws: int, tune: int, chains: int, seed: int) -> dict:
    """Draws of log length-scales, variance and noise variance, f integrated out; the search for the mode from
    which chains start is included.
    """
    arrays = np.load(data)
    X, y = arrays["X"], arrays["y"]
    wide = mc.hyperpriors.LogNormal(0.0, 1.0)
    ones, one, tenth = (mc.param(v, prior=wide) for v in (np.ones(X.shape[1]), 1.0, 0.1))
    model = mc.Model(mc.GP(mc.kernels.SE(ones, one)), mc.likelihoods.Gaussian(tenth))
    for rule in (
        MCMC(draws=25, tune=25, chains=chains, progress=False),  # compiles
        MCMC(draws=draws, tune=tune, chains=chains, seed=seed, progress=False),
    ):
        start = time.process_time()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # 25 draws are few
            post = mc.fit(model, X, y, inference=rule).posterior
        cpu = time.process_time() - start
    columns = [post.draws[name].reshape(chains, draws, -1) for name in sorted(post.draws)]
    np.savez(out, f=np.log(np.concatenate(columns, -1)))
    return {"cpu": cpu, "versions": versions("mercer", "jax", "blackjax")}


def draws_of_y(rows: int, size: int, repeats: int) -> dict:
    """Seconds of `size` joint draws of f, and of y, at 50 inputs, by likelihood."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-3.0, 3.0, (rows, 1))
    f, Xs = np.sin(2.0 * X[:, 0]), np.linspace(-3.0, 3.0, 50)[:, None]
    kinds = {
        "Gaussian": (mc.likelihoods.Gaussian(0.01), f),
        "Bernoulli": (mc.likelihoods.Bernoulli("logit"), np.sign(f)),
        "Poisson": (mc.likelihoods.Poisson(), np.round(np.exp(f))),
        "Beta": (mc.likelihoods.Beta(), 1.0 / (1.0 + np.exp(-f))),
    }
    found = {}
    for name, (likelihood, y) in kinds.items():
        post = mc.Model(mc.GP(mc.kernels.SE()), likelihood).condition(X, y)
        seconds: dict[bool, list[float]] = {True: [], False: []}
        for _ in range(repeats + 1):
            for latent in (True, False):
                with Timer() as timer:
                    post.sample(Xs, size, seed=0, latent=latent)
                seconds[latent].append(timer.seconds)
        found[name] = {"f": min(seconds[True][1:]), "y": min(seconds[False][1:])}
    return found


def sampling_blackjax(
    data: str, out: str, lengthscale: float, variance: float, draws: int, tune: int, chains: int, seed: int
) -> dict:
    """Draws of f = L u by blackjax' NUTS with its window adaptation, as its documentation has it,
    one compiled program.
    """
    import blackjax

    arrays = np.load(data)
    X, y = arrays["X"], jnp.asarray(arrays["y"])
    L = jnp.asarray(
        np.linalg.cholesky(covariance(X, np.full(X.shape[1], lengthscale), variance, 1e-8 * variance))
    )

    def log_density(u):
        return -0.5 * jnp.sum(u**2) - jnp.sum(jnp.logaddexp(0.0, -y * (L @ u)))

    def chain(key):
        first, second, third = jax.random.split(key, 3)
        warm = blackjax.window_adaptation(blackjax.nuts, log_density)
        (state, found), _ = warm.run(first, jax.random.normal(second, (L.shape[0],)), num_steps=tune)
        kernel = blackjax.nuts(log_density, **found)

        def one(state, key):
            state, _ = kernel.step(key, state)
            return state, state.position

        return jax.lax.scan(one, state, jax.random.split(third, draws))[1]

    run = jax.jit(jax.vmap(chain)).lower(jax.random.split(jax.random.key(0), chains)).compile()
    start = time.process_time()
    u = np.asarray(run(jax.random.split(jax.random.key(seed), chains)))
    cpu = time.process_time() - start
    np.savez(out, f=u @ np.asarray(L).T)
    return {"cpu": cpu, "versions": versions("blackjax", "jax")}
