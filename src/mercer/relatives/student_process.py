"""The Student-t process: a Gaussian process whose overall variance is not known (GPML 9.9).

    k~ = k / tau, tau ~ Gamma of mean 1 and shape dof / 2:   y ~ T(m, K_y, dof), K_y = K + noise (9.3, 9.4)

Everything is said by the Gaussian process with covariance K_y. With d^2 = (y - m)' K_y^-1 (y - m), tau has
the mean c = (dof + n) / (dof + d^2) given y; predictions are Student-t with dof + n degrees of freedom about
the mean of the Gaussian process, of its variance over c; and the gradient of the log evidence is that of the
Gaussian one with covariance K_y / c and c held.
"""

from __future__ import annotations

import dataclasses
import math
import warnings
from typing import Any

import equinox as eqx
import numpy as np
from scipy.optimize import minimize
from scipy.special import digamma, gammaln
from scipy.stats import t as student

from mercer.gp import GP, Model, log_evidence, log_evidence_and_gradient
from mercer.hyperpriors import LogNormal
from mercer.inputs import InputError, as_inputs, as_targets
from mercer.learning.unconverged import UnconvergedWarning
from mercer.likelihoods import Gaussian
from mercer.params import Hyper, Param, Parametrised, fixed, flatten, hyper, nonnegative, param, positive
from mercer.posteriors import AbstractPosterior
from mercer.solvers.protocol import AbstractSolver

_LOG_2PI = math.log(2 * math.pi)
DOF_BOUNDS = (0.5, 1e4)


def weak_dof(start: float = 5.0) -> Param:
    """Degrees of freedom to be learned, with a weak prior: one set of data says little of them."""
    return param(start, prior=LogNormal(math.log(8.0) + 1.0, 1.0), bounds=DOF_BOUNDS)


class StudentTProcess(Parametrised):
    """A Student-t process prior with noise: as a Gaussian process, but the variances of f and of the noise
    are known only up to one common factor.

    gp: a `GP`, whose kernel is the scale of the process, not its covariance (which is dof / (dof - 2) times
        it, where dof > 2)
    noise_variance: its scale, in squared units of y, likewise
    dof: degrees of freedom, positive; a Gaussian process as it grows. Learned by `fit` with a weak prior
        unless given as `fixed(...)` or `param(...)`

    Predictions have the mean of the Gaussian process. Their width depends on y: data that lie farther from
    the mean than the kernel says widen it everywhere, and closer ones narrow it; a Gaussian process' does
    not. Noise and function share the factor, so that this is not robust against single outliers: see
    `likelihoods.StudentT` for that.

    >>> process = StudentTProcess(GP(kernels.SE()), noise_variance=0.1, dof=4.0)
    >>> process.condition(X, y).quantile(Xs, [0.05, 0.95])
    >>> process.fit(X, y).condition(X, y).log_evidence            # at learned hyperparameters
    """

    gp: GP = eqx.field(metadata={"transparent": True})
    noise_variance: Hyper = hyper(0.1, nonnegative)
    dof: Hyper = hyper(weak_dof(), positive)

    def __check_init__(self):
        if not isinstance(self.gp, GP):
            raise TypeError(f"a StudentTProcess needs a GP first, got {type(self.gp).__name__}.")
        if self.gp.basis is not None:
            raise ValueError("a StudentTProcess takes a mean, not basis functions; add a linear kernel.")

    @property
    def gaussian(self) -> Model:
        """The Gaussian process with covariance K + noise."""
        return Model(self.gp, Gaussian(fixed(self.noise_variance)))

    def sample(self, X: Any, size: int = 1, seed: Any = None) -> np.ndarray:
        """Functions of the prior at X (n, d): (size, n), each with a factor of its own."""
        rng, dof = np.random.default_rng(seed), float(self.dof)
        mean = np.asarray(self.gp.mean.value(as_inputs(X).values))
        return mean + (self.gp.sample(X, size, rng) - mean) * _factors(dof, size, rng)

    def condition(self, X: Any, y: Any, solver: AbstractSolver | str | None = None) -> StudentTPosterior:
        """The posterior given y (n,) at X (n, d), at the hyperparameters as they are."""
        gaussian, y = self.gaussian, as_targets(y, as_inputs(X).values.shape[0])
        post = gaussian.condition(X, y, solver=solver)
        at_y = float(post.log_evidence)
        at_mean = log_evidence(gaussian, X, self._mean(X), solver=solver)
        distance = max(2.0 * (at_mean - at_y), 0.0)
        return StudentTPosterior(self, post, distance, self._log_evidence(at_y, distance, len(y)))

    def log_evidence_and_gradient(
        self, X: Any, y: Any, solver: AbstractSolver | str | None = None
    ) -> tuple[float, dict[str, Any]]:
        """Log density of y (9.3), and its derivative in every hyperparameter, by name.

        >>> value, gradient = process.log_evidence_and_gradient(X, y); gradient["dof"]
        """
        inputs = as_inputs(X)
        n, dof = inputs.values.shape[0], float(self.dof)
        at_y, slope = log_evidence_and_gradient(self.gaussian, X, y, solver=solver)
        at_mean, flat = log_evidence_and_gradient(self.gaussian, X, self._mean(X), solver=solver)
        distance = max(2.0 * (at_mean - at_y), 0.0)
        c = (dof + n) / (dof + distance)
        gradient = {
            name: (1.0 - c) * np.asarray(flat[name]) + c * np.asarray(bar) for name, bar in slope.items()
        }
        gradient["noise_variance"] = gradient.pop("likelihood.noise_variance")
        gradient["dof"] = 0.5 * (
            digamma(0.5 * (dof + n)) - digamma(0.5 * dof) - n / dof - math.log1p(distance / dof)
            + (dof + n) * distance / (dof * (dof + distance))
        )  # fmt: skip
        return self._log_evidence(at_y, distance, n), gradient

    def fit(
        self, X: Any, y: Any, solver: AbstractSolver | str | None = None, max_evaluations: int = 500
    ) -> StudentTProcess:
        """The process at the hyperparameters with the highest log evidence and log prior, from those it
        has.
        """
        flat = flatten(self)

        def loss(vector: np.ndarray) -> tuple[float, np.ndarray]:
            value, gradient = flat.unflatten(vector).log_evidence_and_gradient(X, y, solver)
            prior, slope = flat.log_prior(vector)
            return -(value + prior), -(flat.pull(gradient, vector) + slope)

        bounds, limits = flat.bounds(), {"maxfun": max_evaluations}
        found = minimize(loss, flat.vector, jac=True, method="L-BFGS-B", bounds=bounds, options=limits)
        if not found.success:
            warnings.warn(
                f"learning ended elsewhere than at an optimum: {found.message}. Raise max_evaluations, or "
                "start nearer.",
                UnconvergedWarning,
                stacklevel=2,
            )
        learned: StudentTProcess = flat.unflatten(found.x)
        return learned

    def _mean(self, X: Any) -> np.ndarray:
        """m at the data; the Gaussian log evidence of targets there is that of y and half of d^2 more."""
        return np.asarray(self.gp.mean.value(as_inputs(X).values), float)

    def _log_evidence(self, gaussian: float, distance: float, n: int) -> float:
        """(9.3), from the log evidence of the Gaussian process."""
        dof = float(self.dof)
        return float(
            gaussian + 0.5 * distance + 0.5 * n * _LOG_2PI
            + gammaln(0.5 * (dof + n)) - gammaln(0.5 * dof) - 0.5 * n * math.log(math.pi * dof)
            - 0.5 * (dof + n) * math.log1p(distance / dof)
        )  # fmt: skip


@dataclasses.dataclass(frozen=True, eq=False)
class StudentTPosterior:
    """What a Student-t process says after data: Student-t distributions with `dof` degrees of freedom.

    process, gaussian: the prior, and the posterior of the Gaussian process with its kernel and noise
    distance: (y - m)' K_y^-1 (y - m), about n where the kernel's size is right
    log_evidence: log density of y
    """

    process: StudentTProcess
    gaussian: AbstractPosterior
    distance: float
    log_evidence: float

    @property
    def dof(self) -> float:
        """Degrees of freedom, those of the prior and one for each datum."""
        return float(self.process.dof) + len(self.gaussian.y)

    @property
    def inflation(self) -> float:
        """What the variances of the Gaussian process are multiplied by: above 1 where the data lie farther
        from the mean than the kernel says.
        """
        return (float(self.process.dof) + self.distance) / self.dof

    def mean(self, Xs: Any) -> np.ndarray:
        """Of f and of y (m,): that of the Gaussian process."""
        return self.gaussian.mean(Xs)

    def scale(self, Xs: Any, latent: bool = False) -> np.ndarray:
        """Scale (m,) of the Student-t distribution of y, or of f if `latent`."""
        return math.sqrt(self.inflation) * self.gaussian.std(Xs, latent)

    def std(self, Xs: Any, latent: bool = False) -> np.ndarray:
        """Standard deviation (m,); infinite for at most 2 degrees of freedom."""
        factor = math.sqrt(self.dof / (self.dof - 2.0)) if self.dof > 2 else math.inf
        return factor * self.scale(Xs, latent)

    def quantile(self, Xs: Any, q: Any, latent: bool = False) -> np.ndarray:
        """(m,) for one q, (m, len(q)) for several."""
        levels = np.asarray(q, float)
        if not ((levels > 0) & (levels < 1)).all():
            raise InputError(f"quantiles lie strictly between 0 and 1, got {q}.")
        mean, scale = self.mean(Xs), self.scale(Xs, latent)
        ends = np.multiply.outer(scale, student.ppf(levels, self.dof))
        return mean.reshape(-1, *(1,) * levels.ndim) + ends

    def log_density(self, Xs: Any, ys: Any) -> np.ndarray:
        """Log predictive density (m,) of each target."""
        mean = self.mean(Xs)
        return np.asarray(student.logpdf(as_targets(ys, len(mean)), self.dof, mean, self.scale(Xs)))

    def sample(self, Xs: Any, size: int = 1, seed: Any = None, latent: bool = False) -> np.ndarray:
        """Joint draws (size, m) of y, or of f if `latent`."""
        rng, mean = np.random.default_rng(seed), self.mean(Xs)
        drawn = self.gaussian.sample(Xs, size, rng, latent) - mean
        return mean + math.sqrt(self.inflation) * drawn * _factors(self.dof, size, rng)


def _factors(dof: float, size: int, rng: np.random.Generator) -> np.ndarray:
    """tau^-1/2 of draws (size, 1), tau ~ Gamma of mean 1 and shape dof / 2."""
    return np.sqrt(dof / rng.chisquare(dof, (size, 1)))
