"""GPflow: GPR with an ARD squared exponential and its SciPy optimiser over a compiled loss."""

from __future__ import annotations

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import gpflow
import numpy as np
import tensorflow as tf

from benchmarks.peers import Timer, serve, versions

tf.config.threading.set_intra_op_parallelism_threads(int(os.environ.get("OMP_NUM_THREADS", "2")))


def fit(data: str) -> dict:
    """An ARD squared-exponential fit with learned noise."""
    arrays = np.load(data)
    X, y = arrays["X"], arrays["y"]
    with Timer() as timer:
        kernel = gpflow.kernels.SquaredExponential(variance=1.0, lengthscales=np.ones(X.shape[1]))
        model = gpflow.models.GPR((X, y[:, None]), kernel, noise_variance=0.1)
        run = gpflow.optimizers.Scipy().minimize(
            model.training_loss, model.trainable_variables, options={"maxiter": 1000}
        )
    return {
        "seconds": timer.seconds,
        "evaluations": int(run.nfev),
        "lengthscale": kernel.lengthscales.numpy().tolist(),
        "variance": float(kernel.variance.numpy()),
        "noise_variance": float(model.likelihood.variance.numpy()),
        "versions": versions("gpflow", "tensorflow", "numpy"),
    }


def sgpr(data: str, repeats: int) -> dict:
    """Titsias' bound and its gradient at fixed hyperparameters, compiled."""
    arrays = np.load(data)
    X, y, Z = arrays["X"], arrays["y"], arrays["Z"]
    kernel = gpflow.kernels.SquaredExponential(variance=1.0, lengthscales=np.full(X.shape[1], 2.0))
    model = gpflow.models.SGPR((X, y[:, None]), kernel, inducing_variable=Z, noise_variance=0.1)
    gpflow.set_trainable(model.inducing_variable, False)

    @tf.function
    def evaluate():
        with tf.GradientTape() as tape:
            value = model.elbo()
        return value, tape.gradient(value, model.trainable_variables)

    seconds = []
    for _ in range(repeats + 1):
        with Timer() as timer:
            value, gradient = evaluate()
            [g.numpy() for g in gradient]
        seconds.append(timer.seconds)
    return {"seconds": seconds[1:], "evidence": float(value), "versions": versions("gpflow", "tensorflow")}


if __name__ == "__main__":
    serve(fit, sgpr)
