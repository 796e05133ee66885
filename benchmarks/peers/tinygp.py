"""tinygp in float64: SciPy's L-BFGS-B over a jitted value and gradient in log parameters."""

from __future__ import annotations

import jax

jax.config.update("jax_enable_x64", True)

import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402
from scipy.optimize import minimize  # noqa: E402
from tinygp import GaussianProcess, kernels, transforms  # noqa: E402

from benchmarks.peers import Timer, serve, versions  # noqa: E402


@jax.jit
@jax.value_and_grad
def loss(theta: jax.Array, X: jax.Array, y: jax.Array) -> jax.Array:
    """Minus the log evidence at the logarithms of the length-scales, the variance and the noise variance."""
    lengthscale, variance, noise_variance = jnp.exp(theta[:-2]), jnp.exp(theta[-2]), jnp.exp(theta[-1])
    kernel = variance * transforms.Linear(1 / lengthscale, kernels.ExpSquared())
    return -GaussianProcess(kernel, X, diag=noise_variance).log_probability(y)


def fit(data: str) -> dict:
    """An ARD squared-exponential fit with learned noise."""
    arrays = np.load(data)
    X, y = jnp.asarray(arrays["X"]), jnp.asarray(arrays["y"])

    def objective(theta: np.ndarray) -> tuple[float, np.ndarray]:
        value, gradient = loss(theta, X, y)
        return float(value), np.asarray(gradient)

    start = np.log(np.r_[np.ones(X.shape[1]), 1.0, 0.1])
    with Timer() as timer:
        run = minimize(objective, start, method="L-BFGS-B", jac=True)
    learned = np.exp(run.x)
    return {
        "seconds": timer.seconds,
        "evaluations": int(run.nfev),
        "lengthscale": learned[:-2].tolist(),
        "variance": float(learned[-2]),
        "noise_variance": float(learned[-1]),
        "versions": versions("tinygp", "jax", "scipy"),
    }


if __name__ == "__main__":
    serve(fit)
