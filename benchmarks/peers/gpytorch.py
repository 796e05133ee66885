"""GPyTorch's ExactGP in float64 by Cholesky, fitted by BoTorch's ``fit_gpytorch_mll`` (SciPy's L-BFGS-B)."""

from __future__ import annotations

from contextlib import ExitStack

import gpytorch
import numpy as np
import torch
from botorch.fit import fit_gpytorch_mll
from botorch.models.gpytorch import GPyTorchModel

from benchmarks.peers import Timer, serve, versions


class Regression(gpytorch.models.ExactGP, GPyTorchModel):
    """Zero mean, scaled ARD RBF, no priors."""

    _num_outputs = 1

    def __init__(self, X: torch.Tensor, y: torch.Tensor, likelihood: gpytorch.likelihoods.GaussianLikelihood) -> None:
        super().__init__(X, y, likelihood)
        self.mean_module = gpytorch.means.ZeroMean()
        self.covar_module = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel(ard_num_dims=X.shape[1]))
        self.evaluations = 0

    def forward(self, X: torch.Tensor) -> gpytorch.distributions.MultivariateNormal:
        self.evaluations += 1
        return gpytorch.distributions.MultivariateNormal(self.mean_module(X), self.covar_module(X))


def fit(data: str) -> dict:
    """An ARD squared-exponential fit with learned noise."""
    arrays = np.load(data)
    X, y = torch.from_numpy(arrays["X"]), torch.from_numpy(arrays["y"])
    with Timer() as timer, ExitStack() as settings:
        settings.enter_context(gpytorch.settings.max_cholesky_size(10**6))
        settings.enter_context(gpytorch.settings.fast_computations(False, False, False))
        likelihood = gpytorch.likelihoods.GaussianLikelihood(noise_constraint=gpytorch.constraints.GreaterThan(1e-6)).double()
        model = Regression(X, y, likelihood).double()
        likelihood.noise = 0.1
        model.covar_module.outputscale = 1.0
        model.covar_module.base_kernel.lengthscale = torch.ones(X.shape[1], dtype=torch.float64)
        mll = gpytorch.mlls.ExactMarginalLogLikelihood(likelihood, model)
        fit_gpytorch_mll(mll)
    return {
        "seconds": timer.seconds,
        "evaluations": model.evaluations,
        "lengthscale": model.covar_module.base_kernel.lengthscale.detach().numpy().ravel().tolist(),
        "variance": float(model.covar_module.outputscale),
        "noise_variance": float(likelihood.noise),
        "versions": versions("torch", "gpytorch", "botorch"),
    }


if __name__ == "__main__":
    serve(fit)
