"""The posterior mean at new inputs without a factor: a sum of kernels at the data (2.27), or at inducing
inputs.
"""

from __future__ import annotations

import functools

import numpy as np

from mercer.linalg import tiles
from mercer.params import strip
from mercer.prior import AbstractPrior
from mercer.solvers.protocol import MeanWeights

__all__ = ["KernelMean"]


class KernelMean:
    """The mean of f as a function of inputs (m, d): (m, L). prior: one, or one for each latent function; X
    (n, d): the inputs of the data, in whose place inducing inputs stand where there are any.

    >>> KernelMean(prior, X, state.mean_weights())(Xs)
    """

    def __init__(self, prior: AbstractPrior | tuple[AbstractPrior, ...], X: np.ndarray, needs: MeanWeights):
        L = needs.weights.shape[1]
        self.priors = prior if isinstance(prior, tuple) else (prior,) * L
        self.X, self.needs = X if needs.inducing is None else needs.inducing, needs

    def __call__(self, Xs: np.ndarray) -> np.ndarray:
        return np.stack([self._latent(j, Xs) for j in range(len(self.priors))], 1)

    def _latent(self, j: int, Xs: np.ndarray) -> np.ndarray:
        prior, weights = self.priors[j], self.needs.weights[:, [j]]
        mean = np.asarray(prior.mean.value(Xs), float)
        if self.needs.beta is not None:
            assert prior.basis is not None
            mean = mean + np.asarray(prior.basis.features(Xs), float) @ self.needs.beta
        kernel, panels = strip(prior.kernel), self._panels(j)
        test = tiles.Panels.beside(panels, kernel.encode(Xs))
        return mean + tiles.times(kernel, test, panels, weights)[:, 0]

    def _panels(self, j: int) -> tiles.Panels:
        """The data, or the inducing inputs, as a kernel reads them."""
        alike = next(i for i, prior in enumerate(self.priors) if prior.kernel is self.priors[j].kernel)
        if alike not in self._read:
            encoded = self.priors[j].kernel.encode(self.X)
            self._read[alike] = tiles.Panels(encoded, tiles.tile_size(self.X.shape[0]))
        return self._read[alike]

    @functools.cached_property
    def _read(self) -> dict[int, tiles.Panels]:
        return {}
