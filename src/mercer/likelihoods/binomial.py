"""How many of a number of trials succeed."""

from __future__ import annotations

from typing import ClassVar, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from mercer.inputs import Array, InputError
from mercer.likelihoods import quadrature
from mercer.likelihoods.base import AbstractLikelihood, count_quantile, counts, per_row, refuse
from mercer.likelihoods.special import log_ndtr, log_sigmoid
from mercer.params import Hyper, ParameterError, hyper, positive


class Binomial(AbstractLikelihood):
    """y ~ Binomial(trials, sigma(f)): how many of `trials` succeed, with a probability that the latent
    function says.

    trials: one number, or (n,), one for each datum; known, never learned. At other inputs than the training
        data's predictions are of one trial, a probability, where they were given for each datum
    link: "logit", sigma(f) = 1 / (1 + exp(-f)), or "probit", sigma = Phi

    >>> model = mercer.Model(mercer.GP(kernels.SE()), Binomial(trials))
    >>> model.condition(X, successes).mean(Xs)                # P(success), (m,)
    """

    side: ClassVar[tuple[str, ...]] = ("trials",)

    trials: Hyper = hyper(1.0, positive, free=False)
    link: Literal["logit", "probit"] = eqx.field(default="logit", static=True)

    def __check_init__(self):
        if self.link not in ("probit", "logit"):
            raise ParameterError(f"Binomial.link must be 'probit' or 'logit', got {self.link!r}.")
        per_row(self, "trials")
        if isinstance(self.trials, np.ndarray) and np.any(self.trials != np.round(self.trials)):
            raise ParameterError("Binomial.trials must be whole numbers.")

    @property
    def log_concave(self) -> bool:
        return True

    @property
    def per_datum(self) -> bool:
        return jnp.ndim(self.trials) == 1

    @property
    def default_rule(self) -> str:
        return "ep"

    def elsewhere(self, X: np.ndarray) -> Binomial:
        return self.without_side() if self.per_datum else self

    def encode(self, y: np.ndarray) -> np.ndarray:
        counts(y)
        trials = np.asarray(self.trials)
        if trials.ndim and trials.shape != y.shape:
            raise InputError(f"there are {len(trials)} numbers of trials but {len(y)} counts.")
        refuse(y > trials, y, "counts of at most `trials`")
        return y

    def guess(self, y: np.ndarray) -> np.ndarray:
        return np.log((y + 0.5) / (np.asarray(self.trials) - y + 0.5))

    def log_prob(self, f: Array, y: Array) -> jax.Array:
        gammaln, n = jax.scipy.special.gammaln, self.trials
        choices = gammaln(n + 1.0) - gammaln(y + 1.0) - gammaln(n - y + 1.0)
        log_p = log_sigmoid if self.link == "logit" else log_ndtr
        return choices + y * log_p(f) + (n - y) * log_p(-f)

    def bend(self, y: Array) -> tuple[jax.Array, jax.Array]:
        hits, misses = y + 0.5, self.trials - y + 0.5
        return jnp.log(hits / misses), jnp.sqrt(1.0 / hits + 1.0 / misses)

    def _success(self, f):
        return jax.nn.sigmoid(f) if self.link == "logit" else jax.scipy.special.ndtr(f)

    def _moments(self, mean, variance):
        return quadrature.share_moments(self._success, mean, variance)

    def predict(self, mean: np.ndarray, variance: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        p, both = np.moveaxis(self.compute(Binomial._moments, mean, variance), -1, 0)
        n = np.asarray(self.trials)
        spread = np.maximum(p * (1.0 - p) - both, 0.0)  # Var[p] = E[p] (1 - E[p]) - E[p (1 - p)]
        return n * p, n * both + n**2 * spread

    def cdf(self, y: np.ndarray | float, mean: np.ndarray, variance: np.ndarray) -> np.ndarray:
        """P(Y <= y) where f ~ N(mean, variance)."""
        y, n = np.floor(np.asarray(y, float)), np.asarray(self.trials)
        inside = self.compute(Binomial._cdf, np.clip(y, 0.0, n - 1.0), mean, variance)
        return np.where(y < 0, 0.0, np.where(y >= n, 1.0, inside))

    def _cdf(self, y, mean, variance):
        def cdf(f):
            return jax.scipy.special.betainc(self.trials - y, y + 1.0, self._success(-f))

        return quadrature.average(cdf, mean, variance, *self.bend(y))

    def quantile(self, q: float, mean: np.ndarray, variance: np.ndarray) -> np.ndarray:
        mean, variance = np.broadcast_arrays(np.asarray(mean, float), np.asarray(variance, float))
        return count_quantile(lambda y: self.cdf(y, mean, variance), q, np.asarray(self.trials) + 0.0 * mean)

    def sample(self, rng: np.random.Generator, f: np.ndarray) -> np.ndarray:
        from scipy.special import expit, ndtr

        p = (expit if self.link == "logit" else ndtr)(np.asarray(f, float))
        return rng.binomial(np.asarray(self.trials).astype(int), p).astype(float)
