"""Several classes, each with a latent function and normal noise: the largest wins."""

from __future__ import annotations

import functools
from typing import ClassVar, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from scipy.special import log_ndtr as host_log_ndtr
from scipy.special import logsumexp, ndtri_exp

from mercer.likelihoods.base import AbstractLikelihood, refuse
from mercer.likelihoods.bernoulli import Bernoulli
from mercer.likelihoods.softmax import normal_rule
from mercer.likelihoods.special import inverse_mills, log_ndtr
from mercer.params import ParameterError

_ENTRIES = 1 << 22  # numbers held at a time while averaging
_NODES, _STEPS = 24, 12  # of the rule in one dimension, and Newton's to its centre


class MultinomialProbit(AbstractLikelihood):
    """y is the class whose f_c + noise is the largest, noise ~ N(0, 1) for each class, y = 0 ... C - 1.

    p(y | f) is the average of prod_{j != y} Phi(u + f_y - f_j) over u ~ N(0, 1): y beats each of the others in
    a contest of two classes, and u, the noise of y, is common to all of them. Of such a product EP takes one
    contest at a time (Riihimaki, Jylanki and Vehtari 2013), and its posterior is as accurate as that of two
    classes, which Laplace's for `Softmax` is not.

    classes: their number C
    samples: points of the fixed quasi-random rule that averages over the latent functions, so that
        predictions are the same at every call (a power of two)

    >>> post = mercer.Model(mercer.GP(kernels.SE()), MultinomialProbit(3)).condition(X, np.digitize(y, [-0.3, 0.3]))
    >>> post.probability(Xs)                                                     # (m, 3)
    """

    classes: int = eqx.field(static=True)
    samples: int = eqx.field(default=256, static=True)

    categorical: ClassVar[bool] = True

    def __check_init__(self):
        check_classes(self)

    @property
    def latents(self) -> int:
        return self.classes

    @property
    def log_concave(self) -> bool:
        return True

    @property
    def default_rule(self) -> str:
        return "ep"

    @property
    def contest(self) -> Bernoulli:
        """The probit of one contest."""
        return Bernoulli()

    def encode(self, y: np.ndarray) -> np.ndarray:
        return encode_classes(y, self.classes)

    def guess(self, y):
        own = np.arange(self.classes) == np.asarray(y, int)[:, None]
        return np.where(own, 1.0, -1.0 / (self.classes - 1))

    def log_prob(self, f, y):
        own = jax.nn.one_hot(jnp.asarray(y, int), self.classes, dtype=bool)
        ahead = jnp.sum(jnp.where(own, f, 0.0), -1, keepdims=True) - f  # f_y - f_j

        def log_wins(u):
            """log of phi(u) prod_j Phi(u + f_y - f_j)."""
            return jnp.sum(jnp.where(own, 0.0, log_ndtr(u[..., None] + ahead)), -1)

        still = jax.lax.stop_gradient(ahead)

        def newton(_, u):
            z = u[..., None] + still
            r = jnp.where(own, 0.0, inverse_mills(z))
            return u + (jnp.sum(r, -1) - u) / (1.0 + jnp.sum(r * (z + r), -1))

        # the integrand is log-concave, its slope convex: Newton's steps from the left never overshoot
        u = jax.lax.fori_loop(0, _STEPS, newton, jnp.zeros(ahead.shape[:-1]))
        z = u[..., None] + still
        r = jnp.where(own, 0.0, inverse_mills(z))
        width = 1.0 / jnp.sqrt(1.0 + jnp.sum(r * (z + r), -1))
        nodes, log_weights = _gauss_hermite()
        points = [u + width * x for x in nodes]
        terms = [
            log_wins(point) - 0.5 * point**2 + 0.5 * x**2 + w
            for point, x, w in zip(points, nodes, log_weights, strict=True)
        ]
        return jax.nn.logsumexp(jnp.stack(terms), axis=0) + jnp.log(width)

    def curvature(self, f, y):
        """Minus the Hessian as diag(D) - P P' with P (n, C, C): of full rank, unlike that of `Softmax`."""
        W = -jax.vmap(jax.hessian(lambda f, y: self.log_prob(f[None], y[None])[0]))(f, y)
        D = jnp.sum(jnp.abs(W), -1) + 1e-12
        return D, jnp.linalg.cholesky(jax.vmap(jnp.diag)(D) - W + 1e-14 * jnp.eye(self.classes))

    def fisher(self, f, y):
        return self.curvature(f, y)

    def expectation(self, y, mean, variance):
        """E[log p(y | f)], by a fixed rule (64 points)."""
        z = jnp.asarray(normal_rule(64, self.classes))
        if jnp.ndim(variance) == 2:
            deviation = z[:, None, :] * jnp.sqrt(variance)
        else:
            tiny = 1e-12 * jnp.trace(variance, axis1=1, axis2=2)[:, None, None] * jnp.eye(self.classes)
            deviation = jnp.einsum("ncd,sd->snc", jnp.linalg.cholesky(variance + tiny), z)
        return jnp.mean(jax.vmap(lambda e: self.log_prob(mean + e, y))(deviation), 0)

    # -- predictions -----------------------------------------------------------------------------------------

    def probability(self, mean, variance, how: Literal["average", "map"] = "average") -> np.ndarray:
        """P(y = c): (m, C), for f ~ N(mean, variance), mean (m, C), variance (m, C) or (m, C, C).

        "average" over f, which is right; "map": at the mean, which can even prefer another class.
        """
        mean = np.asarray(mean, float)
        if how not in ("average", "map"):
            raise ValueError(f"how must be 'average' or 'map', got {how!r}.")
        log_p = self._log_probability(mean, variance if how == "average" else np.zeros_like(mean))
        return np.exp(log_p)

    def _log_probability(self, mean, variance) -> np.ndarray:
        """log P (m, C), which sum to one: a rule that is the same for all classes would, but for its error."""
        logs = np.stack([self._log_win(c, mean, variance) for c in range(self.classes)], 1)
        return logs - logsumexp(logs, axis=1, keepdims=True)

    def _log_win(self, c: int, mean, variance) -> np.ndarray:
        """log P(y = c): (m,), the probability of an orthant.

        The lead of c over each of the others is normal. With its Cholesky factor, the leads are made positive
        one after the other, the most doubtful first: the probability is the average of a product of
        distribution functions (Genz 1992).
        """
        C = self.classes
        others = np.delete(np.arange(C), c)
        points = _uniform_rule(self.samples, max(C - 2, 1))
        out, rows = np.empty(len(mean)), max(1, _ENTRIES // (points.size + C * C))
        for i in range(0, len(mean), rows):
            V = np.asarray(variance[i : i + rows], float)
            V = (V[:, :, None] * np.eye(C) if V.ndim == 2 else V) + np.eye(C)
            lead = mean[i : i + rows, [c]] - mean[i : i + rows][:, others]
            cov = V[:, [[c]], [[c]]] - V[:, [c]][:, :, others] - V[:, others][:, :, [c]]
            cov = cov + V[:, others[:, None], others[None, :]]
            out[i : i + rows] = _log_orthant(lead, cov, points)
        return out

    def predict(self, mean, variance):
        p = self.probability(mean, variance)
        return p, p * (1.0 - p)

    def log_density(self, y, mean, variance):
        return np.take_along_axis(self._log_probability(mean, variance), np.asarray(y, int)[:, None], 1)[:, 0]

    def quantile(self, q, mean, variance):
        """The first class, in their order, at which the summed probabilities reach q."""
        return (np.cumsum(self.probability(mean, variance), 1)[:, :-1] < q).sum(1).astype(float)

    def sample(self, rng, f):
        return np.argmax(np.asarray(f) + rng.normal(size=np.shape(f)), -1).astype(float)


def check_classes(likelihood) -> None:
    """A whole number of classes, at least two, and of samples a power of two."""
    name, classes, samples = type(likelihood).__name__, likelihood.classes, likelihood.samples
    if isinstance(classes, bool) or not isinstance(classes, int | np.integer) or classes < 2:
        raise ParameterError(f"{name}.classes must be a whole number of at least 2, got {classes!r}.")
    if not isinstance(samples, int | np.integer) or samples < 1 or samples & (samples - 1):
        raise ParameterError(f"{name}.samples must be a power of two, got {samples!r}.")


def encode_classes(y: np.ndarray, classes: int) -> np.ndarray:
    """y, where it holds numbers of classes."""
    bad = (y < 0) | (y >= classes) | (y != np.round(y))
    refuse(bad, y, f"classes as whole numbers from 0 to {classes - 1}")
    return y


# ------------------------------------------------------------------------------------------------- orthants


def _log_orthant(mean: np.ndarray, covariance: np.ndarray, points: np.ndarray) -> np.ndarray:
    """log P(x > 0) where x ~ N(mean, covariance), (m, q) and (m, q, q): (m,), by points (s, q - 1)."""
    order = np.argsort(mean / np.sqrt(np.einsum("mii->mi", covariance)), 1)
    mean = np.take_along_axis(mean, order, 1)
    rows = np.arange(len(mean))[:, None, None]
    L = np.linalg.cholesky(covariance[rows, order[:, :, None], order[:, None, :]])
    m, q = mean.shape
    drawn = np.zeros((q, m, len(points)))
    total = np.zeros((m, len(points)))
    for j in range(q):
        t = (mean[:, j, None] + np.einsum("mk,kms->ms", L[:, j, :j], drawn[:j])) / L[:, j, j, None]
        log_p = host_log_ndtr(t)
        total += log_p
        if j < q - 1:
            drawn[j] = -ndtri_exp(np.log(points[:, j]) + log_p)
    return logsumexp(total, axis=1) - np.log(len(points))


@functools.lru_cache(maxsize=16)
def _uniform_rule(samples: int, dimension: int) -> np.ndarray:
    """Equally weighted points (samples, dimension) of the unit cube: scrambled Sobol, with a fixed seed."""
    from scipy.stats import qmc

    return np.clip(qmc.Sobol(dimension, seed=20060101).random(samples), 1e-12, 1.0 - 1e-12)


@functools.lru_cache(maxsize=1)
def _gauss_hermite() -> tuple[list[float], list[float]]:
    """Nodes and log weights for averages over N(0, 1)."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(_NODES)
    return nodes.tolist(), np.log(weights / weights.sum()).tolist()
