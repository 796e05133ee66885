"""What conditioning returns: immutable, factored once; everything else is a view.

Latent and observed are never confused: `latent=True` speaks of f, the default of y (noise included). For two
classes the mean of y is the probability of class 1; for C classes it is (m, C).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy.linalg import solve_triangular

from mercer.inputs import Inputs, as_inputs, as_targets
from mercer.kernels.algebra.sums import Sum
from mercer.likelihoods.gaussian import Gaussian
from mercer.linalg.cholesky import cholesky
from mercer.progress import shown, tell
from mercer.solvers.protocol import AbstractState

BLOCK_ROWS = 16384  # test inputs are handled this many at a time, so memory does not grow with their number


@dataclasses.dataclass(frozen=True)
class Component:
    """Posterior of one additive term of the kernel at the test inputs:
    mean and standard deviation (m,) of that part of f.
    """

    name: str
    mean: np.ndarray
    std: np.ndarray


@dataclasses.dataclass(frozen=True, eq=False)
class Posterior:
    """The posterior of a model given data. Made by `GP.condition`, `Model.condition` or `fit`."""

    model: Any
    inputs: Inputs
    y: np.ndarray
    state: AbstractState
    log_evidence: float
    notes: tuple[str, ...] = ()
    loo_rule: Any = None
    status: Any = None
    solver: Any = None  # with the choices it made: inducing inputs, blocks

    # -- predictions -----------------------------------------------------------------------------------------

    def latent_moments(self, Xs, variance: bool = True) -> tuple[np.ndarray, np.ndarray | None]:
        """Mean and variance of f at Xs, in blocks: (m,) each; (m, L) and (m, L, L) for L latent functions."""
        L = self.model.likelihood.latents
        means, variances = [np.zeros((0, L))], [np.zeros((0, L, L) if L > 1 else (0, 1))]
        with shown("predicting"):
            for share, block in self._blocks(Xs):
                mean, var = self.state.predict(block, variance=variance)
                means.append(mean)
                if var is not None:
                    variances.append(var)
                tell(share, 1.0, "rows")
        mean, var = np.concatenate(means), np.concatenate(variances) if variance else None
        return (mean, var) if L > 1 else (mean[:, 0], None if var is None else var[:, 0])

    def mean(self, Xs, latent: bool = False) -> np.ndarray:
        """Predictive mean (m,) of y, or of f with `latent=True` (the same where noise is symmetric)."""
        if latent or self.model.likelihood.mean_is_latent:
            return self.latent_moments(Xs, variance=False)[0]
        return self._likelihood(None).predict(*self.latent_moments(Xs))[0]

    def variance(self, Xs, latent: bool = False, noise_variance=None) -> np.ndarray:
        """Predictive variance (m,) of y, or of f with `latent=True`.
        `noise_variance` for Xs where the training noise was per datum.
        """
        mean, variance = self.latent_moments(Xs)
        assert variance is not None
        return variance if latent else self._likelihood(noise_variance).predict(mean, variance)[1]

    def mean_and_std(self, Xs, latent: bool = False, noise_variance=None) -> tuple[np.ndarray, np.ndarray]:
        """Predictive mean and standard deviation, each (m,), in one pass."""
        mean, variance = self.latent_moments(Xs)
        assert variance is not None
        if latent and variance.ndim == 3:
            variance = np.einsum("mll->ml", variance)
        mean, variance = (
            (mean, variance) if latent else self._likelihood(noise_variance).predict(mean, variance)
        )
        return mean, np.sqrt(variance)

    def std(self, Xs, latent: bool = False, noise_variance=None) -> np.ndarray:
        """Square root of `variance`; of f, for each latent function."""
        return self.mean_and_std(Xs, latent, noise_variance)[1]

    def probability(self, Xs, how: str = "average") -> np.ndarray:
        """Class probabilities: (m,) of class 1 for two classes, (m, C) for more.

        how: "average" over f (3.25), or "map", at the mean of f, which ignores its uncertainty.
        """
        likelihood = self.model.likelihood
        if not hasattr(likelihood, "probability"):
            raise ValueError(
                f"{type(likelihood).__name__} does not speak of classes; ask for mean, quantile or "
                "log_density."
            )
        return likelihood.probability(*self.latent_moments(Xs), how=how)

    def covariance(self, Xs, latent: bool = False, noise_variance=None) -> np.ndarray:
        """Joint predictive covariance (m, m) of y at Xs, or of f."""
        if not latent:
            self._gaussian("the joint covariance of observations", "latent=True gives that of f")
        values = self._values(Xs)
        _, covariance = self.state.predict(values, full=True)
        assert covariance is not None
        if not latent:
            noise = self._likelihood(noise_variance).noise_variance
            covariance = covariance + np.diag(np.broadcast_to(noise, values.shape[0]))
        return covariance

    def sample(
        self, Xs, size: int = 1, seed: Any = None, latent: bool = False, noise_variance=None
    ) -> np.ndarray:
        """`size` joint draws at Xs: (size, m), of y or of f."""
        values = self._values(Xs)
        if self.model.likelihood.latents > 1:
            raise ValueError(
                "joint draws are available for one latent function; use latent_moments or mean for several."
            )
        rng = np.random.default_rng(seed)
        f = self.state.sample(rng, values, size)
        if latent:
            return f
        likelihood = self._likelihood(noise_variance)
        return np.stack([likelihood.sample(rng, draw) for draw in f])

    def log_density(self, Xs, ys, noise_variance=None) -> np.ndarray:
        """Log predictive density (m,) of each observation ys at Xs."""
        values = self._values(Xs)
        likelihood = self._likelihood(noise_variance)
        ys = likelihood.targets(as_targets(ys, values.shape[0], "ys"))
        return likelihood.log_density(ys, *self.latent_moments(values))

    def quantile(self, Xs, q, noise_variance=None) -> np.ndarray:
        """Predictive quantiles of y: (m,) for one q, (m, len(q)) for several."""
        q = np.asarray(q, float)
        if np.any((q <= 0) | (q >= 1)):
            raise ValueError(f"quantiles must lie strictly between 0 and 1, got {q}.")
        mean, variance = self.latent_moments(Xs)
        likelihood = self._likelihood(noise_variance)
        out = [likelihood.quantile(p, mean, variance) for p in np.atleast_1d(q)]
        return out[0] if q.ndim == 0 else np.stack(out, 1)

    # -- the data seen from the model ------------------------------------------------------------------------

    def loo(self):
        """Leave-one-out predictions of the training data: mean, variance, log_density (5.10-5.12; 5.5.3)."""
        return self.loo_rule(self.state, self.y, self.model.likelihood)

    def evidence_bounds(self) -> tuple[float, float]:
        """The exact log evidence lies between these two (solver VFE with Gaussian noise):
        their gap says how good m is.
        """
        self._gaussian("bounds of the exact evidence")
        bounds = self.state.evidence_bounds()
        if bounds is None:
            raise ValueError(
                "bounds of the exact evidence are offered by solvers.VFE and solvers.ProjectedProcess."
            )
        log_noise = self.log_evidence - self.state.log_normaliser
        return bounds.lower + log_noise, bounds.upper + log_noise

    def evidence_terms(self) -> dict[str, float]:
        """The log evidence as data fit + complexity + constant (5.8), for Gaussian noise."""
        self._gaussian("the decomposition (5.8)")
        residual = self.y - np.asarray(self.state.prior.mean.value(self.inputs.values))
        data_fit = float(-0.5 * residual @ np.asarray(self.state.alpha))
        constant = -0.5 * self.y.shape[0] * float(np.log(2 * np.pi))
        return {
            "data_fit": data_fit,
            "complexity": self.log_evidence - data_fit - constant,
            "constant": constant,
        }

    def prequential(self) -> np.ndarray:
        """log p(y_i | y_1 ... y_(i-1)) for every i, in the order of the data:
        they sum to the log evidence (C.BAY7).
        """
        self._gaussian("the sequential decomposition")
        gp, noise = self.state.prior, 1.0 / np.asarray(self.state.sites.precision[:, 0])
        if gp.basis is not None:
            raise ValueError("with basis functions of vague weight the first predictions are undefined.")
        L, _ = cholesky(gp.kernel(self.inputs.values) + np.diag(noise))
        z = solve_triangular(L, self.y - np.asarray(gp.mean.value(self.inputs.values)), lower=True)
        return -np.log(np.diag(L)) - 0.5 * z**2 - 0.5 * np.log(2 * np.pi)

    def smoother(self, Xs) -> np.ndarray:
        """Weights (m, n): the mean at Xs is mean(Xs) + weights (y - mean(X)) (2.25, 2.36)."""
        self._gaussian("a linear smoother")
        self._exact("the weights of a linear smoother")
        return self.state.smoother(self._values(Xs))

    def degrees_of_freedom(self) -> float:
        """Effective number of parameters, the trace of the smoother matrix at the data (2.36)."""
        self._gaussian("the trace of a linear smoother")
        _, kappa = self.state.dual()
        return float(np.sum(1.0 - np.asarray(kappa) / np.asarray(self.state.sites.precision)))

    def components(self, Xs) -> list[Component]:
        """Posterior of every additive term of the kernel at Xs, each with its own uncertainty.
        They sum to the latent mean (less m).
        """
        if self.model.likelihood.latents > 1:
            raise ValueError("components are those of one latent function; this likelihood has several.")
        self._exact("components")
        kernel = self.state.prior.kernel
        terms = kernel.terms if isinstance(kernel, Sum) else (kernel,)
        out = []
        alpha = np.asarray(self.state.alpha)
        for term in terms:
            means, variances = [], []
            for _, block in self._blocks(Xs, rows=2048):
                K = term(self.inputs.values, block)
                means.append(K.T @ alpha)
                prior = np.asarray(term.diag(term.encode(block)))
                variances.append(prior - np.einsum("ij,ij->j", K, self.state.apply(K)))
            empty = np.zeros(0)
            std = np.sqrt(np.maximum(np.concatenate([empty, *variances]), 0.0))
            out.append(Component(str(term), np.concatenate([empty, *means]), std))
        return out

    # -- inside ----------------------------------------------------------------------------------------------

    def _exact(self, what: str) -> None:
        if not self.state.exact:
            raise ValueError(
                f"{what} need predictions by the exact covariance, which this solver approximates: use "
                "solver='dense'."
            )

    def _values(self, Xs) -> np.ndarray:
        inputs = as_inputs(Xs, "Xs", self.inputs.names, self.model.reads_objects())
        d = self.inputs.values.shape[1]
        if inputs.values.shape[1] != d:
            raise ValueError(f"Xs has {inputs.values.shape[1]} columns but the model was conditioned on {d}.")
        return inputs.values

    def _blocks(self, Xs, rows: int | None = None) -> Iterator[tuple[float, np.ndarray]]:
        """Rows of Xs, and the share that is done after them."""
        values = self._values(Xs)
        n, rows = values.shape[0], rows or BLOCK_ROWS
        for start in range(0, n, rows):
            yield min(1.0, (start + rows) / n), values[start : start + rows]

    def _gaussian(self, what: str, instead: str = "") -> None:
        if not isinstance(self.model.likelihood, Gaussian):
            name = type(self.model.likelihood).__name__
            raise ValueError(
                f"{what} is defined for Gaussian noise, not for {name}"
                + (f"; {instead}." if instead else ".")
            )

    def _likelihood(self, noise_variance):
        likelihood = self.model.likelihood
        if noise_variance is not None:
            self._gaussian("noise_variance")
            return Gaussian(noise_variance)
        if getattr(likelihood, "per_datum", False):
            raise ValueError(
                "the training noise was given per datum, so the noise at Xs is unknown: pass "
                "noise_variance= for Xs, "
                "or latent=True for the noise-free function."
            )
        return likelihood

    def __repr__(self) -> str:
        n, d = self.inputs.values.shape
        kernels = ", ".join(map(str, self.model.kernels))
        return f"Posterior({kernels}, n={n}, d={d}, log_evidence={self.log_evidence:.4f})"
