"""What conditioning returns: immutable, factored once; everything else is a view.

Latent and observed are never confused: `latent=True` speaks of f, the default of y (noise included).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy.linalg import solve_triangular

from mercer.inputs import Inputs, as_inputs, as_targets
from mercer.kernels.algebra import Sum
from mercer.linalg.cholesky import cholesky
from mercer.solvers.protocol import AbstractState

BLOCK_ROWS = 16384  # test inputs are handled this many at a time, so memory does not grow with their number


@dataclasses.dataclass(frozen=True)
class Component:
    """Posterior of one additive term of the kernel at the test inputs: mean and standard deviation (m,) of that part of f."""

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

    # -- predictions ------------------------------------------------------------------------------------------------

    def latent_moments(self, Xs, variance: bool = True) -> tuple[np.ndarray, np.ndarray | None]:
        """Mean and variance of f at Xs, each (m,), in blocks."""
        means, variances = [], []
        for block in self._blocks(Xs):
            mean, var = self.state.predict(block, variance=variance)
            means.append(mean[:, 0])
            if var is not None:
                variances.append(var[:, 0])
        empty = np.zeros(0)
        return np.concatenate([empty, *means]), np.concatenate([empty, *variances]) if variance else None

    def mean(self, Xs) -> np.ndarray:
        """Predictive mean (m,), the same for f and y."""
        return self.latent_moments(Xs, variance=False)[0]

    def variance(self, Xs, latent: bool = False, noise_variance=None) -> np.ndarray:
        """Predictive variance (m,) of y, or of f with `latent=True`. `noise_variance` for Xs where the training noise was per
        datum.
        """
        mean, variance = self.latent_moments(Xs)
        assert variance is not None
        return variance if latent else self._likelihood(noise_variance).predict(mean, variance)[1]

    def mean_and_std(self, Xs, latent: bool = False, noise_variance=None) -> tuple[np.ndarray, np.ndarray]:
        """Predictive mean and standard deviation, each (m,), in one pass."""
        mean, variance = self.latent_moments(Xs)
        assert variance is not None
        mean, variance = (mean, variance) if latent else self._likelihood(noise_variance).predict(mean, variance)
        return mean, np.sqrt(variance)

    def std(self, Xs, latent: bool = False, noise_variance=None) -> np.ndarray:
        """Square root of `variance`."""
        return np.sqrt(self.variance(Xs, latent, noise_variance))

    def covariance(self, Xs, latent: bool = False, noise_variance=None) -> np.ndarray:
        """Joint predictive covariance (m, m) of y at Xs, or of f."""
        values = self._values(Xs)
        _, covariance = self.state.predict(values, full=True)
        assert covariance is not None
        if not latent:
            noise = self._likelihood(noise_variance).noise_variance
            covariance = covariance + np.diag(np.broadcast_to(noise, values.shape[0]))
        return covariance

    def sample(self, Xs, size: int = 1, seed: Any = None, latent: bool = False, noise_variance=None) -> np.ndarray:
        """`size` joint draws at Xs: (size, m), of y or of f."""
        values = self._values(Xs)
        rng = np.random.default_rng(seed)
        f = self.state.sample(rng, values, size)
        if latent:
            return f
        noise = self._likelihood(noise_variance).noise_variance
        return f + np.sqrt(noise) * rng.standard_normal(f.shape)

    def log_density(self, Xs, ys, noise_variance=None) -> np.ndarray:
        """Log predictive density (m,) of each observation ys at Xs."""
        values = self._values(Xs)
        ys = as_targets(ys, values.shape[0], "ys")
        mean, variance = self.latent_moments(values)
        return self._likelihood(noise_variance).log_density(ys, mean, variance)

    def quantile(self, Xs, q, noise_variance=None) -> np.ndarray:
        """Predictive quantiles of y: (m,) for one q, (m, len(q)) for several."""
        q = np.asarray(q, float)
        if np.any((q <= 0) | (q >= 1)):
            raise ValueError(f"quantiles must lie strictly between 0 and 1, got {q}.")
        mean, variance = self.latent_moments(Xs)
        likelihood = self._likelihood(noise_variance)
        out = [likelihood.quantile(p, mean, variance) for p in np.atleast_1d(q)]
        return out[0] if q.ndim == 0 else np.stack(out, 1)

    # -- the data seen from the model -------------------------------------------------------------------------------

    def loo(self):
        """Leave-one-out predictions of the training data: mean, variance, log_density (5.10-5.12)."""
        return self.loo_rule(self.state, self.y)

    def evidence_terms(self) -> dict[str, float]:
        """The log evidence as data fit + complexity + constant (5.8); exact for Gaussian noise."""
        residual = self.y - np.asarray(self.state.prior.mean.value(self.inputs.values))
        data_fit = float(-0.5 * residual @ np.asarray(self.state.alpha))
        constant = -0.5 * self.y.shape[0] * float(np.log(2 * np.pi))
        return {"data_fit": data_fit, "complexity": self.log_evidence - data_fit - constant, "constant": constant}

    def prequential(self) -> np.ndarray:
        """log p(y_i | y_1 ... y_(i-1)) for every i, in the order of the data: they sum to the log evidence (C.BAY7)."""
        gp, noise = self.state.prior, 1.0 / np.asarray(self.state.sites.precision[:, 0])
        if gp.basis is not None:
            raise ValueError("with basis functions of vague weight the first predictions are undefined.")
        L, _ = cholesky(gp.kernel(self.inputs.values) + np.diag(noise))
        z = solve_triangular(L, self.y - np.asarray(gp.mean.value(self.inputs.values)), lower=True)
        return -np.log(np.diag(L)) - 0.5 * z**2 - 0.5 * np.log(2 * np.pi)

    def smoother(self, Xs) -> np.ndarray:
        """Weights (m, n): the mean at Xs is mean(Xs) + weights (y - mean(X)) (2.25, 2.36)."""
        values = self._values(Xs)
        gp = self.state.prior
        weights = self.state.apply(gp.kernel(self.inputs.values, values)).T
        if gp.basis is not None:
            # the part of the basis: h(x) A^-1 H'R, from the definition of beta in (2.42)
            state: Any = self.state
            rest = np.asarray(gp.basis.features(values), float) - state.base.cross(values, state.RH)
            base = state.base.apply(gp.kernel(self.inputs.values, values)).T
            weights = base + rest @ state.weights_covariance @ state.RH.T
        return weights

    def degrees_of_freedom(self) -> float:
        """Effective number of parameters, the trace of the smoother matrix at the data (2.36)."""
        _, kappa = self.state.dual()
        return float(np.sum(1.0 - np.asarray(kappa) / np.asarray(self.state.sites.precision)))

    def components(self, Xs) -> list[Component]:
        """Posterior of every additive term of the kernel at Xs, each with its own uncertainty. They sum to the latent mean (less
        m).
        """
        kernel = self.state.prior.kernel
        terms = kernel.terms if isinstance(kernel, Sum) else (kernel,)
        out = []
        alpha = np.asarray(self.state.alpha)
        for term in terms:
            means, variances = [], []
            for block in self._blocks(Xs, rows=2048):
                K = term(self.inputs.values, block)
                means.append(K.T @ alpha)
                prior = np.asarray(term.diag(term.encode(block)))
                variances.append(prior - np.einsum("ij,ij->j", K, self.state.apply(K)))
            empty = np.zeros(0)
            std = np.sqrt(np.maximum(np.concatenate([empty, *variances]), 0.0))
            out.append(Component(str(term), np.concatenate([empty, *means]), std))
        return out

    # -- inside -----------------------------------------------------------------------------------------------------

    def _values(self, Xs) -> np.ndarray:
        inputs = as_inputs(Xs, "Xs", self.inputs.names, self.model.gp.kernel.reads_objects())
        d = self.inputs.values.shape[1]
        if inputs.values.shape[1] != d:
            raise ValueError(f"Xs has {inputs.values.shape[1]} columns but the model was conditioned on {d}.")
        return inputs.values

    def _blocks(self, Xs, rows: int = BLOCK_ROWS) -> Iterator[np.ndarray]:
        values = self._values(Xs)
        for start in range(0, values.shape[0], rows):
            yield values[start : start + rows]

    def _likelihood(self, noise_variance):
        likelihood = self.model.likelihood
        if noise_variance is not None:
            return type(likelihood)(noise_variance)
        if getattr(likelihood, "per_datum", False):
            raise ValueError(
                "the training noise was given per datum, so the noise at Xs is unknown: pass noise_variance= for Xs, "
                "or latent=True for the noise-free function."
            )
        return likelihood

    def __repr__(self) -> str:
        n, d = self.inputs.values.shape
        return f"Posterior({self.model.gp.kernel}, n={n}, d={d}, log_evidence={self.log_evidence:.4f})"
