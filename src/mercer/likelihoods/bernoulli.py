"""Two classes: y is +1 or -1, p(y | f) = sigma(y f) with the logistic function or the normal distribution
function as sigma.
"""

from __future__ import annotations

from typing import ClassVar, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from mercer.inputs import Array
from mercer.likelihoods.base import AbstractLikelihood, refuse
from mercer.likelihoods.special import LOG_WEIGHTS, SCALES, log_logistic_normal, log_ndtr, log_sigmoid
from mercer.params import Hyper, ParameterError, hyper, interval


class Bernoulli(AbstractLikelihood):
    """Binary labels (GPML 3.5): p(y | f) = flip + (1 - 2 flip) sigma(y f).

    link: "probit", sigma = Phi, whose averages over a Gaussian are in closed form, or "logit", sigma(f) = 1 /
        (1 + exp(-f)), which punishes a wrong label less
    flip: the probability that a label was recorded wrongly, from 0 to below 1/2 (Kuss 6.18); held unless
        given as `param(...)`. With flip > 0 the likelihood is robust to wrong labels but no longer
        log-concave

    Labels (n,) may be given as +-1, 0/1 or booleans; predictions speak of y in 0/1 coding, so that the mean
    is P(y = 1).

    >>> model = mercer.Model(mercer.GP(kernels.SE(1.0, variance=4.0)), Bernoulli("logit"))
    >>> model.condition(X, y > 0, inference="ep").probability(Xs)    # (m,)
    >>> Bernoulli().predict(np.array([0.0, 2.0]), np.array([1.0, 1.0]))[0]
    """

    link: Literal["probit", "logit"] = eqx.field(default="probit", static=True)
    flip: Hyper = hyper(0.0, interval(0.0, 0.5), free=False)

    categorical: ClassVar[bool] = True

    def __check_init__(self):
        if self.link not in ("probit", "logit"):
            raise ParameterError(f"Bernoulli.link must be 'probit' or 'logit', got {self.link!r}.")
        if jnp.ndim(self.flip) > 0:
            raise ParameterError("Bernoulli.flip must be one number.")
        if isinstance(self.flip, np.ndarray) and float(self.flip) >= 0.5:
            raise ParameterError(
                f"Bernoulli.flip must be below 1/2 (labels would say nothing), got {float(self.flip):g}."
            )

    @property
    def default_rule(self) -> str:
        return "ep"

    @property
    def log_concave(self) -> bool:
        """True where `flip` is zero (a traced `flip` counts as positive)."""
        return not isinstance(self.flip, jax.core.Tracer) and float(self.flip) == 0.0

    def encode(self, y: np.ndarray) -> np.ndarray:
        zero_one = bool(np.any(y == 0))
        what = "labels 0 and 1 (or False and True)" if zero_one else "labels -1 and +1, or 0 and 1"
        refuse(~np.isin(y, (0.0, 1.0) if zero_one else (-1.0, 1.0)), y, what)
        return np.where(y > 0, 1.0, -1.0)

    def guess(self, y: np.ndarray) -> np.ndarray:
        return np.asarray(y, float)

    def log_prob(self, f: Array, y: Array) -> jax.Array:
        return self._flipped((log_ndtr if self.link == "probit" else log_sigmoid)(y * f))

    def log_partition(self, y: Array, mean: Array, variance: Array) -> jax.Array:
        if self.link == "probit":
            return self._flipped(log_ndtr(y * mean / jnp.sqrt(1.0 + variance)))
        return self._flipped(log_logistic_normal(y * mean, variance))

    def probits(self) -> tuple[np.ndarray, np.ndarray, float, bool]:
        if self.link == "probit":
            return np.ones(1), np.ones(1), float(self.flip), False
        return SCALES, np.exp(LOG_WEIGHTS), float(self.flip), True

    def bend(self, y: Array) -> tuple[float, float]:
        return 0.0, 1.0

    def _flipped(self, log_p):
        """log(flip + (1 - 2 flip) p), differentiable at flip = 0 too."""
        noisy = self.flip > 0
        flip = jnp.where(noisy, self.flip, 0.25)
        clean = log_p + self.flip * (jnp.exp(jnp.minimum(-jax.lax.stop_gradient(log_p), 700.0)) - 2.0)
        return jnp.where(noisy, jnp.logaddexp(jnp.log(flip), jnp.log1p(-2.0 * flip) + log_p), clean)

    # -- the bound of the logistic link ----------------------------------------------------------------------

    def local_bound(self, xi: ArrayLike) -> tuple[jax.Array, jax.Array]:
        """(lambda, constant) of the lower bound log sigma(z) >= z / 2 - lambda z^2 + constant, tight at z =
        +-xi (logit only).

        lambda(xi) = tanh(xi / 2) / (4 xi), 1/8 at zero; constant = log sigma(xi) - xi / 2 + lambda xi^2. With
        z = y f it is Gaussian in f: the bound of Jaakkola and Jordan, and of Gibbs and MacKay.
        """
        if self.link != "logit":
            raise ValueError("local_bound is a bound on the logistic function: use Bernoulli(link='logit').")
        xi = jnp.asarray(xi, float)
        small = jnp.abs(xi) < 1e-4
        safe = jnp.where(small, 1.0, xi)
        lam = jnp.where(small, 0.125 - xi**2 / 96.0, jnp.tanh(0.5 * safe) / (4.0 * safe))
        return lam, log_sigmoid(xi) - 0.5 * xi + lam * xi**2

    # -- predictions -----------------------------------------------------------------------------------------

    def probability(
        self,
        mean: np.ndarray,
        variance: np.ndarray | float,
        how: Literal["average", "map", "mackay"] = "average",
    ) -> np.ndarray:
        """P(y = 1) where f ~ N(mean, variance).

        "average": the exact average of sigma over f (GPML 3.25). "map": sigma at the mean, never closer to
        1/2, the same label. "mackay": sigma(mean / sqrt(1 + pi variance / 8)), an approximation for the logit
        link.
        """
        mean, variance = np.asarray(mean, float), np.asarray(variance, float)
        if how == "average":
            return np.exp(self.log_density(1.0, mean, variance))
        if how == "map":
            return np.exp(self.log_density(1.0, mean, 0.0))
        if how == "mackay" and self.link == "logit":
            return np.exp(self.log_density(1.0, mean / np.sqrt(1.0 + np.pi * variance / 8.0), 0.0))
        if how == "mackay":
            raise ValueError(
                "how='mackay' approximates the logit link; the probit average is exact: use how='average'."
            )
        raise ValueError(f"how must be 'average', 'map' or 'mackay', got {how!r}.")

    def predict(self, mean: np.ndarray, variance: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        p = self.probability(mean, variance)
        return p, p * self.probability(-np.asarray(mean, float), variance)

    def quantile(self, q: float, mean: np.ndarray, variance: np.ndarray) -> np.ndarray:
        return np.where(self.probability(-np.asarray(mean, float), variance) >= q, 0.0, 1.0)

    def sample(self, rng: np.random.Generator, f: np.ndarray) -> np.ndarray:
        """Labels +1 and -1: the sign of f with normal or logistic noise, of which a share `flip` is wrong."""
        shape = np.shape(f)
        noise = rng.standard_normal(shape) if self.link == "probit" else rng.logistic(size=shape)
        right = rng.random(shape) >= float(self.flip)
        return np.where((np.asarray(f) + noise > 0) == right, 1.0, -1.0)
