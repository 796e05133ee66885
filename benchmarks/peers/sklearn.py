"""scikit-learn: ConstantKernel * RBF + WhiteKernel, its own L-BFGS-B with wide bounds and no restarts."""

from __future__ import annotations

import warnings

import numpy as np
from scipy.optimize import minimize
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process import GaussianProcessClassifier, GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

from benchmarks.peers import Timer, serve, versions

WIDE = (1e-6, 1e6)


def fit(data: str) -> dict:
    """An ARD squared-exponential fit with learned noise."""
    arrays = np.load(data)
    X, y = arrays["X"], arrays["y"]
    evaluations = 0

    def lbfgs(objective, theta, bounds):
        """What ``optimizer="fmin_l_bfgs_b"`` does, with the count kept."""
        nonlocal evaluations
        result = minimize(objective, theta, method="L-BFGS-B", jac=True, bounds=bounds)
        evaluations = result.nfev
        return result.x, result.fun

    kernel = ConstantKernel(1.0, WIDE) * RBF(np.ones(X.shape[1]), WIDE) + WhiteKernel(0.1, WIDE)
    with Timer() as timer, warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        learned = GaussianProcessRegressor(kernel, alpha=0.0, optimizer=lbfgs).fit(X, y).kernel_
    return {
        "seconds": timer.seconds,
        "evaluations": int(evaluations),
        "lengthscale": learned.k1.k2.length_scale.tolist(),
        "variance": float(learned.k1.k1.constant_value),
        "noise_variance": float(learned.k2.noise_level),
        "versions": versions("scikit-learn", "numpy", "scipy"),
    }


def laplace_fit(data: str) -> dict:
    """A binary ARD fit; the likelihood is the logit, inference Laplace's."""
    arrays = np.load(data)
    X, y = arrays["X"], arrays["y"]
    kernel = ConstantKernel(1.0, WIDE) * RBF(np.ones(X.shape[1]), WIDE)
    with Timer() as timer, warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        learned = GaussianProcessClassifier(kernel).fit(X, y).kernel_
    return {
        "seconds": timer.seconds,
        "lengthscale": learned.k2.length_scale.tolist(),
        "variance": float(learned.k1.constant_value),
        "versions": versions("scikit-learn", "numpy", "scipy"),
    }


def digits(n: int) -> dict:
    """Ten digits, one against the rest, at fixed hyperparameters: scikit-learn has no joint model."""
    images = load_digits()
    X, y = images.data / 16.0, images.target
    kernel = ConstantKernel(25.0, "fixed") * RBF(2.0, "fixed")
    with Timer() as timer:
        model = GaussianProcessClassifier(kernel, optimizer=None).fit(X[:n], y[:n])
    p = model.predict_proba(X[1000:])
    right = p[np.arange(len(p)), y[1000:]]
    return {
        "seconds": timer.seconds,
        "evidence": float(model.log_marginal_likelihood_value_),
        "accuracy": float(np.mean(p.argmax(1) == y[1000:])),
        "log_loss": float(-np.mean(np.log(right))),
    }


if __name__ == "__main__":
    serve(fit, laplace_fit, digits)
