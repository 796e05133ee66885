"""What a regressor says before it has seen data: its prior."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from mercer.estimators import defaults
from mercer.estimators.base import read_kernel
from mercer.estimators.regression.warped import with_warp
from mercer.gp import GP, Model
from mercer.inputs import InputError, Inputs, as_inputs
from mercer.kernels import AbstractKernel
from mercer.likelihoods import AbstractLikelihood, AbstractNoise, Gaussian, Heteroscedastic, by_name
from mercer.posteriors import AbstractPosterior, GaussianPosterior
from mercer.posteriors.source import Made
from mercer.processes import check_fork
from mercer.solvers.dense import Dense
from mercer.solvers.protocol import AbstractSolver, Sites

if TYPE_CHECKING:
    from mercer.estimators.regression.regressor import GPRegressor

NOTHING = np.zeros(1)  # targets of which nothing is known but that their mean is 0


def prior_of(estimator: GPRegressor, X: Any) -> tuple[AbstractPosterior, np.ndarray]:
    """The prior of an estimator without data, and X (m, d) as it reads it."""
    check_fork()
    kernel = None if estimator._own_kernel else read_kernel(estimator.kernel)
    try:
        inputs = as_inputs(X, objects=kernel is not None and kernel.reads_objects())
    except InputError as error:
        if kernel is not None:
            raise
        raise InputError(f"before fit the columns of X must be finite numbers: {error}") from None
    if inputs.values.shape[0] == 0:
        raise InputError("X has no rows.")
    kernel = kernel or _standard_kernel(inputs.values.shape[1])
    gp = GP(kernel, estimator._mean(NOTHING, False), estimator.basis)
    return _without_data(Model(gp, _noise(estimator)), inputs), inputs.values


def _standard_kernel(d: int) -> AbstractKernel:
    """The default kernel of d columns and targets whose standard deviations are 1."""
    return defaults.default_kernel(np.array([[-1.0], [1.0]]) * np.ones(d), 1.0)


def _noise(estimator: GPRegressor) -> AbstractLikelihood:
    """The likelihood, as far as it was given: noise that only data can tell is left out."""
    if estimator.warp is not None:
        from mercer.warps import by_name as warp_by_name

        return with_warp(warp_by_name(estimator.warp), _plain_noise(estimator))
    return _plain_noise(estimator)


def _plain_noise(estimator: GPRegressor) -> AbstractLikelihood:
    given, name = estimator.noise_variance, estimator.likelihood
    if isinstance(name, AbstractLikelihood):
        return estimator._likelihood(name, NOTHING)
    if given is not None:
        return Gaussian(given)
    likelihood = Gaussian() if name in (None, "auto") else by_name(name)
    noise = Gaussian | AbstractNoise | Heteroscedastic
    return Gaussian(0.0) if isinstance(likelihood, noise) else likelihood


def _without_data(model: Model, inputs: Inputs) -> AbstractPosterior:
    """The prior as a posterior that predicts at such inputs: that of one datum whose site has precision zero,
    which says nothing.
    """
    model, first = model.bind(inputs), Inputs(inputs.values[:1], inputs.names)
    solver: AbstractSolver = Dense()
    if model.gp.basis is not None:
        p = np.shape(model.gp.basis.features(first.values))[1]
        if model.gp.basis.prior(p)[1] is None:
            raise ValueError(
                "before fit the basis functions have weights that only data determine, so that nothing can "
                "be predicted: fit first, or give the weights a prior, as in means.Polynomial(1, "
                "covariance=1.0)."
            )
        solver = solver.with_basis()
    site = Sites(np.zeros((1, 1)), np.zeros((1, 1)))
    state = solver.factor(model.priors, first.values, site)
    return GaussianPosterior(model, first, NOTHING, Made(state), 0.0, solver=solver)
