"""A Gaussian-process prior: mean, kernel and, optionally, basis functions."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from mercer.inputs import Inputs, as_inputs
from mercer.kernels.algebra.observed import Observed
from mercer.kernels.base import AbstractKernel
from mercer.linalg.cholesky import cholesky
from mercer.means import AbstractBasis, AbstractMean, ObservedBasis, ObservedMean, Zero, as_mean
from mercer.observe import Observations
from mercer.params import Parametrised
from mercer.registry import of_room


class AbstractPrior(Parametrised):
    """f ~ GP(mean, kernel), plus h(x)' beta where a basis is given.
    Evaluates on any finite set of inputs (2.13-2.14).
    """

    kernel: AbstractKernel
    mean: AbstractMean = Zero()
    basis: AbstractBasis | None = None

    def __check_init__(self):
        if not isinstance(self.kernel, AbstractKernel):
            raise TypeError(
                f"a GP needs a kernel, got {of_room(self.kernel)}; for example mercer.kernels.SE()."
            )
        if self.basis is not None and not isinstance(self.basis, AbstractBasis):
            raise TypeError(
                f"basis must be a basis such as mercer.means.Polynomial(1), got {of_room(self.basis)}."
            )

    def bind(self, inputs: Inputs) -> Self:
        """The same prior for these inputs: names of columns resolved, lengths of vectors checked."""
        kernel = self.kernel.bind(inputs.values.shape[1], inputs.names)
        return type(self)(kernel, self.mean, self.basis)

    def observed(self, data: Observations) -> Self:
        """The prior of what is observed of f: values, derivatives, integrals."""
        if isinstance(self.kernel, Observed):
            self.kernel.rows(data, "the data")
            return self
        d = data.columns
        kernel = Observed(self.kernel, d, data.names).bind(data.rows.shape[1])
        kernel.check(data)
        basis = None if self.basis is None else ObservedBasis(self.basis, d)
        return type(self)(kernel, ObservedMean(self.mean, d), basis)

    @property
    def rows(self) -> Observed | None:
        """The kernel, where its inputs are rows that say what is observed; else None."""
        return self.kernel if isinstance(self.kernel, Observed) else None

    def covariance(self, X: Any, X2: Any = None) -> np.ndarray:
        """Prior covariance matrix of f at X (or between X and X2), without the basis."""
        return self.kernel(X) if X2 is None else self.kernel(X, X2)

    def sample(self, X: Any, size: int = 1, seed: Any = None) -> np.ndarray:
        """`size` functions drawn from the prior at X: (size, n).
        Jitter is added where the covariance is numerically singular.
        """
        inputs = as_inputs(X, objects=self.kernel.reads_objects())
        mean, covariance = np.asarray(self.mean.value(inputs.values)), self.kernel(inputs)
        if self.basis is not None:
            H = np.asarray(self.basis.features(inputs.values), float)
            b, B = self.basis.prior(H.shape[1])
            if B is None:
                raise ValueError(
                    "a prior with basis functions of vague weight cannot be sampled; condition it first."
                )
            mean, covariance = mean + H @ b, covariance + H @ B @ H.T
        return sample_gaussian(mean, covariance, size, seed)


def sample_gaussian(mean: np.ndarray, covariance: np.ndarray, size: int, seed: Any) -> np.ndarray:
    """m + L u (A.2): (size, n)."""
    L, _ = cholesky(covariance)
    u = np.random.default_rng(seed).standard_normal((size, mean.shape[0]))
    return mean + u @ L.T


__all__ = ["AbstractPrior", "as_mean", "sample_gaussian"]
