"""GPy: GPRegression with an ARD RBF kernel and its L-BFGS-B."""

from __future__ import annotations

import GPy
import numpy as np

from benchmarks.peers import Timer, serve, versions


def fit(data: str) -> dict:
    """An ARD squared-exponential fit with learned noise."""
    arrays = np.load(data)
    X, y = arrays["X"], arrays["y"]
    with Timer() as timer:
        kernel = GPy.kern.RBF(X.shape[1], variance=1.0, lengthscale=np.ones(X.shape[1]), ARD=True)
        model = GPy.models.GPRegression(X, y[:, None], kernel, noise_var=0.1)
        run = model.optimize("lbfgsb", max_iters=1000)
    return {
        "seconds": timer.seconds,
        "evaluations": int(run.funct_eval),
        "lengthscale": np.asarray(kernel.lengthscale).tolist(),
        "variance": float(kernel.variance[0]),
        "noise_variance": float(model.likelihood.variance[0]),
        "versions": versions("GPy", "numpy", "scipy"),
    }


def ep(data: str, lengthscale: float, variance: float) -> dict:
    """Expectation propagation at fixed hyperparameters, probit."""
    arrays = np.load(data)
    X, y = arrays["X"], arrays["y"]
    with Timer() as timer:
        kernel = GPy.kern.RBF(X.shape[1], variance=variance, lengthscale=lengthscale)
        method = GPy.inference.latent_function_inference.EP(epsilon=1e-6)
        model = GPy.core.GP(
            X, (y[:, None] + 1) / 2, kernel, GPy.likelihoods.Bernoulli(), inference_method=method
        )
        value = float(model.log_likelihood())
    return {"seconds": timer.seconds, "evidence": value, "versions": versions("GPy", "numpy", "scipy")}


if __name__ == "__main__":
    serve(fit, ep)
