"""Likelihoods: how observations depend on the latent function."""

from mercer.likelihoods.base import AbstractLikelihood
from mercer.likelihoods.gaussian import Gaussian

__all__ = ["AbstractLikelihood", "Gaussian"]
