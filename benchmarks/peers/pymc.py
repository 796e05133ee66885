"""PyMC: NUTS on the hyperparameters of a regression, by its own `gp.Marginal`."""

from __future__ import annotations

import logging
import time

import numpy as np
import pymc as pm

from benchmarks.peers import serve, versions


def hyperparameters(data: str, out: str, draws: int, tune: int, chains: int, seed: int) -> dict:
    """Draws of log length-scales, variance and noise variance, f integrated out; chains one after the other
    in this process, so that its processor seconds are all of them.
    """
    logging.getLogger("pymc").setLevel(logging.ERROR)
    arrays = np.load(data)
    X, y = arrays["X"], arrays["y"]
    with pm.Model():
        lengthscale = pm.LogNormal("lengthscale", 0.0, 1.0, shape=X.shape[1])
        variance = pm.LogNormal("variance", 0.0, 1.0)
        noise = pm.LogNormal("noise", 0.0, 1.0)
        gp = pm.gp.Marginal(cov_func=variance * pm.gp.cov.ExpQuad(X.shape[1], ls=lengthscale))
        gp.marginal_likelihood("y", X=X, y=y, sigma=pm.math.sqrt(noise), jitter=0.0)
        step = pm.NUTS()  # compiles
        settings = dict(chains=chains, cores=1, step=step, random_seed=seed, progressbar=False)
        start = time.process_time()
        found = pm.sample(draws, tune=tune, compute_convergence_checks=False, **settings).posterior
        cpu = time.process_time() - start
    names = ("lengthscale", "variance", "noise")
    columns = [np.asarray(found[name]).reshape(chains, draws, -1) for name in names]
    np.savez(out, f=np.log(np.concatenate(columns, -1)))
    return {"cpu": cpu, "versions": versions("pymc", "pytensor")}


if __name__ == "__main__":
    serve(hyperparameters)
