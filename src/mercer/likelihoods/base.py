"""What a likelihood is: how one observation y depends on the latent value f at its input."""

from __future__ import annotations

import abc

from mercer.params import Parametrised


class AbstractLikelihood(Parametrised):
    """p(y | f), factorised over data. Predictive methods take the latent mean and variance at test inputs, arrays (m,)."""

    @abc.abstractmethod
    def log_prob(self, f, y):
        """log p(y | f), elementwise."""

    @abc.abstractmethod
    def predict(self, mean, variance):
        """Mean and variance of y where f ~ N(mean, variance)."""

    @abc.abstractmethod
    def log_density(self, y, mean, variance):
        """log of the predictive density of y where f ~ N(mean, variance)."""

    @abc.abstractmethod
    def quantile(self, q, mean, variance):
        """Quantile q of y where f ~ N(mean, variance)."""
