"""GPyTorch's ExactGP in float64 by Cholesky, fitted by BoTorch's ``fit_gpytorch_mll`` (SciPy's L-BFGS-B)."""

from __future__ import annotations

import time
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

    def __init__(
        self, X: torch.Tensor, y: torch.Tensor, likelihood: gpytorch.likelihoods.GaussianLikelihood
    ) -> None:
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
        likelihood = gpytorch.likelihoods.GaussianLikelihood(
            noise_constraint=gpytorch.constraints.GreaterThan(1e-6)
        ).double()
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


class Sparse(gpytorch.models.ExactGP):
    """SGPR: Titsias' bound with given inducing inputs."""

    def __init__(
        self, X: torch.Tensor, y: torch.Tensor, Z: torch.Tensor, likelihood: gpytorch.likelihoods.Likelihood
    ) -> None:
        super().__init__(X, y, likelihood)
        self.mean_module = gpytorch.means.ZeroMean()
        base = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel(ard_num_dims=X.shape[1]))
        self.covar_module = gpytorch.kernels.InducingPointKernel(
            base, inducing_points=Z.clone(), likelihood=likelihood
        )

    def forward(self, X: torch.Tensor) -> gpytorch.distributions.MultivariateNormal:
        return gpytorch.distributions.MultivariateNormal(self.mean_module(X), self.covar_module(X))


def timed_evidence(model: gpytorch.models.ExactGP, X: torch.Tensor, y: torch.Tensor, repeats: int) -> dict:
    """The log evidence, or its bound, and seconds that it takes with its gradient; the first time is left
    out.
    """
    mll = gpytorch.mlls.ExactMarginalLogLikelihood(model.likelihood, model)
    seconds = []
    for _ in range(repeats + 1):
        model.zero_grad()
        # Importing BoTorch turns these off, and without them GPyTorch forms all n x n covariances.
        with gpytorch.settings.fast_computations(True, True, True), Timer() as timer:
            value = mll(model(X), y)
            (-value).backward()
        seconds.append(timer.seconds)
    return {
        "seconds": seconds[1:],
        "evidence": float(value.detach()) * len(y),
        "versions": versions("torch", "gpytorch"),
    }


def sgpr(data: str, repeats: int) -> dict:
    """The bound and its gradient at fixed hyperparameters."""
    arrays = np.load(data)
    X, y, Z = (torch.from_numpy(arrays[name]) for name in ("X", "y", "Z"))
    likelihood = gpytorch.likelihoods.GaussianLikelihood().double()
    model = Sparse(X, y, Z, likelihood).double()
    likelihood.noise = 0.1
    model.covar_module.base_kernel.outputscale = 1.0
    model.covar_module.base_kernel.base_kernel.lengthscale = torch.full(
        (X.shape[1],), 2.0, dtype=torch.float64
    )
    model.covar_module.inducing_points.requires_grad_(False)
    model.train()
    return timed_evidence(model, X, y, repeats)


class Interpolated(gpytorch.models.ExactGP):
    """KISS-GP: covariances interpolated from a grid."""

    def __init__(
        self,
        X: torch.Tensor,
        y: torch.Tensor,
        grid: int,
        box: list[tuple[float, float]],
        likelihood: gpytorch.likelihoods.Likelihood,
    ) -> None:
        super().__init__(X, y, likelihood)
        self.mean_module = gpytorch.means.ZeroMean()
        base = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel(ard_num_dims=X.shape[1]))
        self.covar_module = gpytorch.kernels.GridInterpolationKernel(
            base, grid_size=grid, num_dims=X.shape[1], grid_bounds=box
        )

    def forward(self, X: torch.Tensor) -> gpytorch.distributions.MultivariateNormal:
        return gpytorch.distributions.MultivariateNormal(self.mean_module(X), self.covar_module(X))


def kiss(data: str, grid: int, lengthscale: float, noise_variance: float, repeats: int) -> dict:
    """The estimated log evidence and its gradient at fixed hyperparameters, by its default settings, save
    that the preconditioner is off: with it, n = 100,000 takes more than 20 GB.
    """
    arrays = np.load(data)
    X, y = torch.from_numpy(arrays["X"]), torch.from_numpy(arrays["y"])
    likelihood = gpytorch.likelihoods.GaussianLikelihood().double()
    box = list(zip(X.min(0).values.tolist(), X.max(0).values.tolist(), strict=True))
    model = Interpolated(X, y, grid, box, likelihood).double()
    likelihood.noise = noise_variance
    model.covar_module.base_kernel.outputscale = 1.0
    model.covar_module.base_kernel.base_kernel.lengthscale = torch.full(
        (X.shape[1],), lengthscale, dtype=torch.float64
    )
    model.train()
    torch.manual_seed(0)
    with gpytorch.settings.max_preconditioner_size(0):
        return timed_evidence(model, X, y, repeats)


class Batches(gpytorch.models.ApproximateGP):
    """SVGP with learned inducing inputs; q by its natural parameters, or by a Cholesky factor."""

    def __init__(self, Z: torch.Tensor, natural: bool = False) -> None:
        kinds = gpytorch.variational
        kind = kinds.NaturalVariationalDistribution if natural else kinds.CholeskyVariationalDistribution
        q = kind(Z.shape[0])
        super().__init__(gpytorch.variational.VariationalStrategy(self, Z, q, learn_inducing_locations=True))
        self.mean_module = gpytorch.means.ZeroMean()
        self.covar_module = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel(ard_num_dims=Z.shape[1]))

    def forward(self, X: torch.Tensor) -> gpytorch.distributions.MultivariateNormal:
        return gpytorch.distributions.MultivariateNormal(self.mean_module(X), self.covar_module(X))


def svgp(data: str, m: int, batch: int, epochs: int) -> dict:
    """SVGP by Adam (rate 0.01, as in its documentation), and the NLPD of held-out data."""
    arrays = np.load(data)
    X, y, Xs, ys = (torch.from_numpy(arrays[name]) for name in ("X", "y", "Xs", "ys"))
    torch.manual_seed(0)
    with Timer() as timer:
        model = Batches(X[torch.randperm(len(y))[:m]].clone()).double()
        likelihood = gpytorch.likelihoods.GaussianLikelihood().double()
        optimiser = torch.optim.Adam([*model.parameters(), *likelihood.parameters()], lr=0.01)
        mll = gpytorch.mlls.VariationalELBO(likelihood, model, num_data=len(y))
        for _ in range(epochs):
            for rows in torch.randperm(len(y)).split(batch):
                optimiser.zero_grad()
                (-mll(model(X[rows]), y[rows])).backward()
                optimiser.step()
    model.eval()
    likelihood.eval()
    with torch.no_grad():
        predicted = likelihood(model(Xs))
        nlpd = (
            0.5 * torch.log(2 * torch.pi * predicted.variance)
            + 0.5 * (ys - predicted.mean) ** 2 / predicted.variance
        )
    return {"seconds": timer.seconds, "nlpd": float(nlpd.mean()), "versions": versions("torch", "gpytorch")}


def svgp_race(data: str, m: int, batch: int, natural: bool, seconds: float, seed: int, classes: bool) -> dict:
    """`course`: processor seconds of training and the NLPD of held-out data at steps 1, 2, 4, ... times 25,
    until the seconds are over; what looking takes is not counted, nor a first step by another model, which
    loads what is loaded late.
    """
    torch.set_num_threads(1)
    trained(data, m, batch, natural, 0.0, seed, classes)
    course = trained(data, m, batch, natural, seconds, seed, classes)
    return {"course": course, "versions": versions("torch", "gpytorch")}


def trained(
    data: str, m: int, batch: int, natural: bool, seconds: float, seed: int, classes: bool
) -> list[tuple[float, float, int]]:
    """The course of one model by Adam (rate 0.01), or by natural gradients of q (rate 0.1) with Adam for the
    rest, both as in GPyTorch's documentation.
    """
    arrays = np.load(data)
    X, y, Xs, ys = (torch.from_numpy(arrays[name]) for name in ("X", "y", "Xs", "ys"))
    torch.manual_seed(seed)
    began, looked = time.process_time(), 0.0
    model = Batches(X[torch.randperm(len(y))[:m]].clone(), natural).double()
    model.covar_module.outputscale = 1.0
    model.covar_module.base_kernel.lengthscale = torch.ones(X.shape[1], dtype=torch.float64)
    if classes:
        likelihood = gpytorch.likelihoods.BernoulliLikelihood().double()
        y, ys = (y + 1) / 2, (ys + 1) / 2
    else:
        likelihood = gpytorch.likelihoods.GaussianLikelihood().double()
        likelihood.noise = 0.1
    rest = [*model.hyperparameters(), *likelihood.parameters()]
    if natural:
        optimisers = [
            gpytorch.optim.NGD(model.variational_parameters(), num_data=len(y), lr=0.1),
            torch.optim.Adam(rest, lr=0.01),
        ]
    else:
        optimisers = [torch.optim.Adam([*model.variational_parameters(), *rest], lr=0.01)]
    mll = gpytorch.mlls.VariationalELBO(likelihood, model, num_data=len(y))
    course, step, look = [], 0, 25
    while not course or course[-1][0] < seconds:
        for rows in torch.randperm(len(y)).split(batch):
            for optimiser in optimisers:
                optimiser.zero_grad()
            (-mll(model(X[rows]), y[rows])).backward()
            for optimiser in optimisers:
                optimiser.step()
            step += 1
            spent = time.process_time() - began - looked
            if step == look or spent >= seconds:
                course.append((spent, held_out_nlpd(model, likelihood, Xs, ys), step))
                look *= 2
                looked = time.process_time() - began - spent
                if spent >= seconds:
                    break
    return course


def held_out_nlpd(
    model: gpytorch.models.ApproximateGP,
    likelihood: gpytorch.likelihoods.Likelihood,
    X: torch.Tensor,
    y: torch.Tensor,
) -> float:
    """Mean of -log p(y) by the marginal predictive distribution; the model goes on training after it."""
    model.eval()
    likelihood.eval()
    with torch.no_grad():
        found = likelihood(model(X))
        if isinstance(found, torch.distributions.Bernoulli):
            log_density = found.log_prob(y)
        else:
            log_density = torch.distributions.Normal(found.mean, found.variance.sqrt()).log_prob(y)
    model.train()
    likelihood.train()
    return -float(log_density.mean())


class Multitask(gpytorch.models.ExactGP, GPyTorchModel):
    """One ARD Matern 5/2 times an index kernel of rank 2, about a constant (Hadamard: a row is an
    input and the number of its task, so that tasks need not be known everywhere).
    """

    _num_outputs = 1

    def __init__(
        self, X: torch.Tensor, y: torch.Tensor, tasks: int, likelihood: gpytorch.likelihoods.Likelihood
    ) -> None:
        super().__init__(X, y, likelihood)
        columns = X.shape[1] - 1
        self.mean_module = gpytorch.means.ConstantMean()
        self.covar_module = gpytorch.kernels.MaternKernel(nu=2.5, ard_num_dims=columns)
        self.index_module = gpytorch.kernels.IndexKernel(num_tasks=tasks, rank=min(2, tasks))

    def forward(self, X: torch.Tensor) -> gpytorch.distributions.MultivariateNormal:
        covariance = self.covar_module(X[..., :-1]).mul(self.index_module(X[..., -1:].long()))
        return gpytorch.distributions.MultivariateNormal(self.mean_module(X), covariance)


def cokriging(data: str) -> dict:
    """Mean and standard deviation of each task at new inputs, from rows (x, task) and their values, with a
    noise of each task; inputs and values come standardised.
    """
    arrays = np.load(data)
    X, y, new = (torch.from_numpy(arrays[name]) for name in ("X", "y", "new"))
    tasks = int(arrays["tasks"])
    torch.manual_seed(0)
    with Timer() as timer, ExitStack() as settings:
        settings.enter_context(gpytorch.settings.max_cholesky_size(10**6))
        settings.enter_context(gpytorch.settings.fast_computations(False, False, False))
        likelihood = gpytorch.likelihoods.HadamardGaussianLikelihood(
            num_tasks=tasks, task_feature_index=-1
        ).double()
        model = Multitask(X, y, tasks, likelihood).double()
        fit_gpytorch_mll(gpytorch.mlls.ExactMarginalLogLikelihood(likelihood, model))
        model.eval()
        likelihood.eval()
        with torch.no_grad():
            found = likelihood(model(new), new)
    return {
        "seconds": timer.seconds,
        "mean": found.mean.numpy().tolist(),
        "std": found.variance.sqrt().numpy().tolist(),
        "versions": versions("torch", "gpytorch", "botorch"),
    }


if __name__ == "__main__":
    serve(fit, sgpr, kiss, svgp, svgp_race, cokriging)
