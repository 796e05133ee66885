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
        run = gpflow.optimizers.Scipy().minimize(model.training_loss, model.trainable_variables, options={"maxiter": 1000})
    return {
        "seconds": timer.seconds,
        "evaluations": int(run.nfev),
        "lengthscale": kernel.lengthscales.numpy().tolist(),
        "variance": float(kernel.variance.numpy()),
        "noise_variance": float(model.likelihood.variance.numpy()),
        "versions": versions("gpflow", "tensorflow", "numpy"),
    }


if __name__ == "__main__":
    serve(fit)
