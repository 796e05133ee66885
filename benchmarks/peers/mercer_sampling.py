"""Sampling tasks of Mercer's worker: its own samplers, and blackjax driven without Mercer."""

from __future__ import annotations

import time

import jax
import jax.numpy as jnp
import numpy as np

import mercer as mc
from benchmarks.peers import versions
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
