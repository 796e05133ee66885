"""NumPyro: NUTS on the whitened latent values of a classifier."""

from __future__ import annotations

import os

os.environ.setdefault("JAX_PLATFORMS", "cpu")

import time

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from numpyro.infer import MCMC, NUTS

from benchmarks.peers import serve, versions
from benchmarks.reference import covariance

jax.config.update("jax_enable_x64", True)


def sampling(
    data: str, out: str, lengthscale: float, variance: float, draws: int, tune: int, chains: int, seed: int
) -> dict:
    """Draws of f = L u for labels +-1 with the logit link."""
    arrays = np.load(data)
    X, y = arrays["X"], arrays["y"]
    L = jnp.asarray(
        np.linalg.cholesky(covariance(X, np.full(X.shape[1], lengthscale), variance, 1e-8 * variance))
    )

    def model(L, y):
        u = numpyro.sample("u", dist.Normal(0.0, 1.0).expand([L.shape[0]]).to_event(1))
        numpyro.sample("y", dist.Bernoulli(logits=L @ u), obs=y)

    labels = jnp.asarray((y > 0).astype(float))
    mcmc = MCMC(
        NUTS(model),
        num_warmup=tune,
        num_samples=draws,
        num_chains=chains,
        chain_method="vectorized",
        progress_bar=False,
    )
    mcmc.run(jax.random.key(seed), L, labels)  # compiles
    start = time.process_time()
    mcmc.run(jax.random.key(seed + 1000), L, labels)
    u = np.asarray(mcmc.get_samples(group_by_chain=True)["u"])
    cpu = time.process_time() - start
    np.savez(out, f=u @ np.asarray(L).T)
    return {"cpu": cpu, "versions": versions("numpyro", "jax")}


def hyperparameters(data: str, out: str, draws: int, tune: int, chains: int, seed: int) -> dict:
    """Draws of log length-scales, noise variance and variance, f integrated out, as in NumPyro's own example
    of Gaussian processes.
    """
    arrays = np.load(data)
    X, y = jnp.asarray(arrays["X"]), jnp.asarray(arrays["y"])

    def model(X, y):
        lengthscale = numpyro.sample("lengthscale", dist.LogNormal(0.0, 1.0).expand([X.shape[1]]).to_event(1))
        noise = numpyro.sample("noise", dist.LogNormal(0.0, 1.0))
        variance = numpyro.sample("variance", dist.LogNormal(0.0, 1.0))
        Z = X / lengthscale
        r2 = jnp.sum((Z[:, None] - Z[None]) ** 2, -1)
        K = variance * jnp.exp(-0.5 * r2) + noise * jnp.eye(X.shape[0])
        numpyro.sample("y", dist.MultivariateNormal(jnp.zeros(X.shape[0]), covariance_matrix=K), obs=y)

    settings = dict(num_samples=draws, num_chains=chains, chain_method="vectorized", progress_bar=False)
    mcmc = MCMC(NUTS(model), num_warmup=tune, **settings)
    mcmc.run(jax.random.key(seed), X, y)  # compiles
    start = time.process_time()
    mcmc.run(jax.random.key(seed + 1000), X, y)
    found = mcmc.get_samples(group_by_chain=True)
    columns = [np.asarray(found[n]).reshape(chains, draws, -1) for n in ("lengthscale", "variance", "noise")]
    cpu = time.process_time() - start
    np.savez(out, f=np.log(np.concatenate(columns, -1)))
    return {"cpu": cpu, "versions": versions("numpyro", "jax")}


if __name__ == "__main__":
    serve(sampling, hyperparameters)
