"""The model that a regressor learns, before learning: its noise, mean and kernel as they were given, and
defaults in the units of the data for the rest.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer.estimators import defaults, roughness
from mercer.estimators.learned import AbstractLearned
from mercer.estimators.regression.coloured import with_noise
from mercer.estimators.regression.groups import default_kernel
from mercer.estimators.regression.noise import RowNoise, check_duplicates
from mercer.estimators.regression.warped import is_learned, warp_for, with_warp
from mercer.gp import GP, Model
from mercer.hyperpriors import Normal
from mercer.inputs import Inputs
from mercer.kernels import AbstractKernel
from mercer.kernels.families.white import noise_apart
from mercer.likelihoods import AbstractLikelihood, AbstractNoise, Gaussian, Heteroscedastic
from mercer.likelihoods.scales import NOISE_SHARE
from mercer.means import AbstractBasis, AbstractMean, Constant, as_mean
from mercer.params import Param, ParameterError, fixed, param
from mercer.registry import named


class AbstractModelled(AbstractLearned):
    """An estimator whose model is put together from settings and data."""

    mean: Any
    basis: AbstractBasis | None
    noise_variance: Any
    warp: Any
    groups: Any
    noise_along: Any

    @property
    def _own_kernel(self) -> bool:
        """No kernel was given."""
        return self.kernel is None or self._chosen_kernel

    @property
    def _chosen_kernel(self) -> bool:
        """The kernel is chosen by the evidence: "auto" or "search"."""
        return roughness.asked(self.kernel) or roughness.asked(self.kernel, "search")

    def _model(
        self, likelihood: Any, kernel: AbstractKernel | None, inputs: Inputs, y: np.ndarray, known: RowNoise
    ) -> Model:
        """The model before learning."""
        said = self.noise_variance is not None or likelihood not in (None, "gaussian")
        kernel, white = (kernel, None) if kernel is None or said else noise_apart(kernel)
        warp = warp_for(self.warp, y)
        z = y if warp is None else np.asarray(warp.forward(y))
        noise = self._likelihood(likelihood, z, known) if white is None else known.gaussian(white, z)
        likelihood = with_warp(warp, noise)
        if isinstance(likelihood, Heteroscedastic):
            return self._varying(likelihood, kernel, inputs, y)
        latent, robust = np.asarray(likelihood.guess(y), float), isinstance(likelihood, AbstractNoise)
        shares = known.shares(latent)
        if kernel is None:
            scale = defaults.target_scale(latent, robust, shares)
            kernel = default_kernel(inputs.values, scale, self.columns_, self.groups)
        if isinstance(noise, Gaussian):
            check_duplicates(inputs.values, y, np.broadcast_to(noise.variances, y.shape))
        spread = defaults.target_scale(latent, robust, shares)
        kernel = with_noise(kernel, self.noise_along, self.columns_, inputs.values, spread)
        mean = self._mean(latent, robust, shares)
        if is_learned(likelihood) and self.mean == "empirical" and isinstance(mean, Constant):
            mean = Constant(param(mean.constant))
        return Model(GP(kernel, mean, self.basis), likelihood)

    def _varying(
        self, likelihood: Heteroscedastic, kernel: AbstractKernel | None, inputs: Inputs, y: np.ndarray
    ) -> Model:
        """Noise with a log variance that is a second function of the default kernel, about a learned mean."""
        if self.basis is not None:
            raise ValueError("basis goes with one latent function: add a linear kernel instead.")
        scale = defaults.target_scale(y)
        own = default_kernel(inputs.values, scale, self.columns_, self.groups)
        level = param(np.log(NOISE_SHARE * scale**2), prior=Normal(np.log(NOISE_SHARE * scale**2), 2.0))
        noise = defaults.default_kernel(inputs.values, 1.0, columns=self.columns_)
        return Model(
            (GP(own if kernel is None else kernel, self._mean(y, False)), GP(noise, Constant(level))),
            likelihood,
        )

    def _likelihood(self, given: Any, y: np.ndarray, known: RowNoise = RowNoise()) -> AbstractLikelihood:
        if given is None or (isinstance(given, str) and given in ("gaussian", "auto")):
            scale = defaults.target_scale(y, shares=known.shares(y))
            return known.gaussian(self._noise(scale * np.sqrt(known.typical_weight), len(y)), y)
        if self.noise_variance is not None:
            raise ValueError(
                "noise_variance goes with Gaussian noise alone: give another noise model its values, as in "
                "likelihood=likelihoods.StudentT(scale=0.1)."
            )
        if isinstance(given, str) and given == "heteroscedastic":
            given = Heteroscedastic()
        likelihood = given if isinstance(given, AbstractLikelihood) else defaults.default_likelihood(given, y)
        one = likelihood.latents == 1 or isinstance(likelihood, Heteroscedastic)
        if not one or likelihood.categorical:
            raise ValueError(
                f"GPRegressor predicts one number for each row; {type(likelihood).__name__} is for "
                "mercer.Model."
            )
        likelihood.encode(y)
        return known.instead_of(likelihood, y)

    def _mean(self, y: np.ndarray, robust: bool, shares: np.ndarray | None = None) -> AbstractMean:
        if isinstance(self.mean, str):
            if self.mean == "empirical":
                mean = np.mean(y) if shares is None else np.average(y, weights=shares)
                return Constant(fixed(np.median(y) if robust else mean))
            return named("means", self.mean, AbstractMean, also=("empirical",))()
        return Constant(self.mean) if isinstance(self.mean, Param) else as_mean(self.mean)

    def _noise(self, scale: float, n: int):
        given: Any = self.noise_variance
        if isinstance(given, Param):
            return given
        if given is None or np.ndim(given) == 0:
            if self._own_kernel:
                return defaults.default_noise(scale, given)
            return defaults.NOISE_SHARE * scale**2 if given is None else given
        if np.shape(given) != (n,):
            raise ParameterError(
                f"noise_variance has shape {np.shape(given)} but there are {n} rows: give one number, or "
                "one for each row."
            )
        return np.asarray(given, float)
