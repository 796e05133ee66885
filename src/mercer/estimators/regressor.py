"""Gaussian-process regression as a scikit-learn estimator."""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.utils.validation import check_is_fitted

from mercer.estimators import defaults
from mercer.estimators.base import AbstractEstimator, evidence_of, read_kernel, relevance, relevance_lines
from mercer.gp import GP, Model
from mercer.inputs import InputError, Inputs, as_targets
from mercer.kernels import AbstractKernel
from mercer.learning import Fit, fit
from mercer.likelihoods import Gaussian
from mercer.means import AbstractMean, Constant, as_mean
from mercer.params import Param, ParameterError, fixed
from mercer.posterior import Component, Posterior


class GPRegressor(RegressorMixin, AbstractEstimator):
    """Gaussian-process regression with learned hyperparameters.

    Without a kernel, an ARD Matern 5/2 is learned under weak priors scaled to the data, so units do not matter. With a kernel, its
    numbers are in your units and it is learned by the evidence alone unless it carries priors; X is never transformed.

    Parameters
    ----------
    kernel : kernel, str or None
        A kernel such as `kernels.SE(1.0)`, its formula as text, or None for the default.
    mean : "empirical", number, mean, callable or None
        Prior mean. "empirical" fixes it at the mean of y; None is zero; `mercer.param(0.0)` is a learned constant.
    basis : basis or None
        Explicit basis functions such as `means.Polynomial(1)`, with their weights integrated out.
    noise_variance : number, `mercer.param`, `mercer.fixed`, array (n,) or None
        Where the noise variance starts, in squared units of y; None starts at a tenth of the variance of y. An array gives a known
        variance to each training row, which is not learned. Zero is noise-free, and is not learned either.
    objective : str
        "evidence" (with priors: MAP), "loo", "loo-mse", "gcv" or "k-fold".
    solver : str, instance or None
        How the algebra is done (default "dense").
    inference : str, instance or None
        How the posterior is found (default "exact"). "mcmc" (or `inference.MCMC(...)`) samples the hyperparameters, "ccd" and
        "grid" integrate over a few settings around the best: predictions then include their uncertainty.
    restarts : int
        Random starts besides the given and the data-driven one.
    random_state : int, RandomState or None
        Seed of the random starts.
    max_evaluations : int
        Limit on evaluations of the objective per start.
    verbose : bool
        Show progress.

    Attributes
    ----------
    kernel_ : kernel with the learned values, in your units
    model_, posterior_, fit_ : the learned `Model`, its `Posterior`, and the `Fit` with status and history
    log_marginal_likelihood_ : log density of your y given X, without priors; None where hyperparameters were averaged over
    noise_variance_ : learned noise variance, or the array given
    relevance_ : share of each input in the learned distance, inverse length-scale times standard deviation, summing to 1: a dict
        by column name, an array, or None for kernels without a length-scale per column (and where no column varies)
    n_features_in_, feature_names_in_ : as in scikit-learn

    Notes
    -----
    A dict of columns is taken by name. Data frames (pandas, polars, pyarrow) must have the columns seen in `fit`, in that
    order, whenever the model is used: this is
    scikit-learn's rule, and the error names the columns. Columns that do not vary have scale 1. Targets that do not vary (a single
    row, or all equal) teach nothing: hyperparameters keep their starting values, which for the default kernel are those of targets
    with standard deviation |y| (a single row) or 1e-6 |y| (all equal), so that the constant is predicted almost surely. With
    `noise_variance=0` repeated rows must have equal targets. Kernels on text or other objects take a list of them, or a frame.

    Examples
    --------
    >>> model = GPRegressor().fit(df[["a", "b"]], df["y"])
    >>> mean, std = model.predict(new[["a", "b"]], return_std=True)
    >>> print(model.summary())
    """

    numeric_targets: ClassVar[bool] = True

    def __init__(
        self, kernel=None, mean="empirical", basis=None, noise_variance=None, objective="evidence", solver=None, inference=None,
        restarts=0, random_state=0, max_evaluations=500, verbose=False,
    ):  # fmt: skip
        self.kernel = kernel
        self.mean = mean
        self.basis = basis
        self.noise_variance = noise_variance
        self.objective = objective
        self.solver = solver
        self.inference = inference
        self.restarts = restarts
        self.random_state = random_state
        self.max_evaluations = max_evaluations
        self.verbose = verbose

    # -- learning ---------------------------------------------------------------------------------------------------

    def fit(self, X, y) -> GPRegressor:
        """Learn from y (n,) at X (n, d): an array, or a data frame with names."""
        kernel = read_kernel(self.kernel)
        inputs, y = self._training_data(X, y, objects=kernel is not None and kernel.reads_objects())
        model = self._model(kernel, inputs, y)
        common: dict[str, Any] = dict(solver=self.solver, progress=bool(self.verbose), seed=self._seed())
        if defaults.constant(y):
            return self._take([fit(defaults.hold(model), inputs, y, **common)])
        common |= dict(objective=self.objective, max_evaluations=self.max_evaluations, restarts=self.restarts)
        return self._take([self._learn(model, inputs, y, self.inference, **common)])

    def _take(self, fits: list[Fit]) -> GPRegressor:
        (found,) = fits
        posterior: Posterior = found.posterior
        if defaults.constant(posterior.y):
            note = "the targets do not vary, so nothing was learned: hyperparameters have their starting values"
            posterior = dataclasses.replace(posterior, notes=(*posterior.notes, note))
            found = dataclasses.replace(found, posterior=posterior)
        self.fit_, self.posterior_, self.model_ = found, posterior, found.model
        self.kernel_ = found.model.gp.kernel
        likelihood: Any = found.model.likelihood
        noise = np.asarray(likelihood.noise_variance)
        self.noise_variance_ = float(noise) if noise.ndim == 0 else noise
        self.log_marginal_likelihood_ = evidence_of(posterior)
        self.relevance_ = relevance(self.kernel_, posterior.inputs)
        return self

    def _model(self, kernel: AbstractKernel | None, inputs: Inputs, y: np.ndarray) -> Model:
        """The model before learning."""
        scale = defaults.target_scale(y)
        if kernel is None:
            kernel = defaults.default_kernel(inputs.values, scale)
        likelihood = Gaussian(self._noise(scale, len(y)))
        _check_duplicates(inputs.values, y, np.broadcast_to(likelihood.noise_variance, y.shape))
        return Model(GP(kernel, self._mean(y), self.basis), likelihood)

    def _mean(self, y: np.ndarray) -> AbstractMean:
        if isinstance(self.mean, str):
            if self.mean != "empirical":
                raise ValueError(f"mean must be 'empirical', a number, a mean function or None, got {self.mean!r}.")
            return Constant(fixed(np.mean(y)))
        return Constant(self.mean) if isinstance(self.mean, Param) else as_mean(self.mean)

    def _noise(self, scale: float, n: int):
        given = self.noise_variance
        if isinstance(given, Param):
            return given
        if given is None or np.ndim(given) == 0:
            if self.kernel is None:
                return defaults.default_noise(scale, given)
            return defaults.NOISE_START * scale**2 if given is None else given
        if np.shape(given) != (n,):
            raise ParameterError(
                f"noise_variance has shape {np.shape(given)} but there are {n} rows: give one number, or one for each row."
            )
        return np.asarray(given, float)

    # -- predictions ------------------------------------------------------------------------------------------------

    def predict(self, X, return_std=False, return_cov=False, latent=False, noise_variance=None):
        """Predictive mean (m,), and with it the standard deviation (m,) or covariance (m, m).

        They are those of a new observation y, or of the noise-free function if `latent`.
        `noise_variance` of the rows of X is needed where it was given for each training row, unless `latent`.
        """
        if return_std and return_cov:
            raise ValueError("ask for return_std or return_cov, not both.")
        X = self._inputs(X)
        if return_cov:
            return self.posterior_.mean(X), self.posterior_.covariance(X, latent, noise_variance)
        if return_std:
            return self.posterior_.mean_and_std(X, latent, noise_variance)
        return self.posterior_.mean(X)

    def predict_quantile(self, X, q, noise_variance=None) -> np.ndarray:
        """Predictive quantiles of y: (m,) for one q, (m, len(q)) for several."""
        return self.posterior_.quantile(self._inputs(X), q, noise_variance)

    def predict_interval(self, X, level=0.95, noise_variance=None) -> tuple[np.ndarray, np.ndarray]:
        """Lower and upper ends, each (m,), of the central interval that holds y with probability `level`."""
        if not 0 < level < 1:
            raise ValueError(f"level must lie strictly between 0 and 1, got {level}.")
        ends = self.predict_quantile(X, [0.5 - 0.5 * level, 0.5 + 0.5 * level], noise_variance)
        return ends[:, 0], ends[:, 1]

    def sample_y(self, X, n_samples=1, random_state=0, latent=False, noise_variance=None) -> np.ndarray:
        """Joint draws from the predictive distribution: (m, n_samples)."""
        if isinstance(random_state, np.random.RandomState):
            random_state = random_state.randint(2**31 - 1)
        return self.posterior_.sample(self._inputs(X), n_samples, random_state, latent, noise_variance).T

    def log_density(self, X, y, noise_variance=None) -> np.ndarray:
        """Log predictive density (m,) of each target."""
        X = self._inputs(X)
        return self.posterior_.log_density(X, as_targets(y, X.shape[0]), noise_variance)

    def components(self, X) -> list[Component]:
        """Posterior of every additive term of the kernel: name, mean (m,) and std (m,).

        The means sum to the predictive mean less the prior mean.
        """
        return self._single(self.posterior_, "components").components(self._inputs(X))

    # -- the fit seen from the data -----------------------------------------------------------------------------------

    def loo(self):
        """Leave-one-out predictions of the training data: mean, variance and log_density, each (n,)."""
        check_is_fitted(self)
        return self._single(self.posterior_, "leave-one-out predictions").loo()

    def summary(self) -> str:
        """What was learned, and how far to trust the optimiser, as text."""
        check_is_fitted(self)
        return "\n".join([self.fit_.summary(), *relevance_lines(self.relevance_)])

    # -- what the shared parts ask ----------------------------------------------------------------------------------------

    @property
    def _training(self) -> tuple[Inputs, np.ndarray]:
        return self.posterior_.inputs, self.posterior_.y

    @property
    def _rule(self) -> Any:
        return self.inference

    def _problems(self, inputs: Inputs, y: np.ndarray) -> list[tuple[Inputs, np.ndarray]]:
        return [(inputs, y)]

    def _targets(self, y, n: int) -> np.ndarray:
        return as_targets(y, n)


def _check_duplicates(X: np.ndarray, y: np.ndarray, noise: np.ndarray) -> None:
    """Noise-free observations of one input must agree."""
    rows = np.flatnonzero(noise == 0)
    if rows.size == 0 or X.dtype == object:
        return
    _, first, inverse = np.unique(X[rows], axis=0, return_index=True, return_inverse=True)
    other = rows[first][inverse.ravel()]
    wrong = np.flatnonzero(y[rows] != y[other])
    if wrong.size:
        i, j = other[wrong[0]], rows[wrong[0]]
        raise InputError(
            f"rows {i} and {j} of X are the same but their targets differ ({y[i]:g} and {y[j]:g}), which noise_variance=0 cannot "
            "explain: give a noise variance, or drop the duplicates."
        )
