"""Several classes, each with a latent function and normal noise: the largest wins."""

from __future__ import annotations

import functools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from scipy.special import log_ndtr as host_log_ndtr
from scipy.special import logsumexp, ndtri_exp

from mercer.inputs import Array
from mercer.likelihoods.bernoulli import Bernoulli
from mercer.likelihoods.classes import AbstractClasses, deviations, uniform_rule
from mercer.likelihoods.special import inverse_mills, log_ndtr

_ENTRIES = 1 << 22  # numbers held at a time while averaging
_NODES, _STEPS = 24, 12  # of the rule in one dimension, and Newton's to its centre


class MultinomialProbit(AbstractClasses):
    """y is the class whose f_c + noise is the largest, noise ~ N(0, 1) for each class, y = 0 ... C - 1.

    p(y | f) is the average of prod_{j != y} Phi(u + f_y - f_j) over u ~ N(0, 1): y beats each of the others
    in a contest of two, and u, the noise of y, is common to all of them. EP takes such a product one contest
    at a time (Riihimaki, Jylanki and Vehtari 2013), and is as accurate as for two classes, which Laplace's
    method for `Softmax` is not.

    classes: their number C
    samples: points of the fixed quasi-random rule that averages over the latent functions, so that
        predictions are the same at every call (a power of two)

    >>> model = mercer.Model(mercer.GP(kernels.SE()), MultinomialProbit(3))
    >>> model.condition(X, np.digitize(y, [-0.3, 0.3])).probability(Xs)          # (m, 3)
    """

    classes: int = eqx.field(static=True)
    samples: int = eqx.field(default=256, static=True)

    @property
    def default_rule(self) -> str:
        return "ep"

    @property
    def contest(self) -> Bernoulli:
        """The probit of one contest."""
        return Bernoulli()

    def log_prob(self, f: Array, y: Array) -> jax.Array:
        """By Gauss-Hermite quadrature over u, around the mode of the integrand, which is log-concave."""
        own = jax.nn.one_hot(jnp.asarray(y, int), self.classes, dtype=bool)
        ahead = jnp.sum(jnp.where(own, f, 0.0), -1, keepdims=True) - f  # f_y - f_j
        still = jax.lax.stop_gradient(ahead)  # nodes carry no derivative

        def slope_and_bend(u):
            """Of log phi(u) + sum_j log Phi(u + f_y - f_j), the second with the sign changed."""
            z = u[..., None] + still
            r = jnp.where(own, 0.0, inverse_mills(z))
            return jnp.sum(r, -1) - u, 1.0 + jnp.sum(r * (z + r), -1)

        def newton(_, u):
            slope, bend = slope_and_bend(u)
            return u + slope / bend

        # the slope is positive at 0, falls and is convex: Newton's steps never overshoot
        u = jax.lax.fori_loop(0, _STEPS, newton, jnp.zeros(ahead.shape[:-1]))
        width = 1.0 / jnp.sqrt(slope_and_bend(u)[1])
        nodes, log_weights = (x.reshape((-1,) + (1,) * u.ndim) for x in _gauss_hermite())
        at = u + width * nodes
        wins = jnp.sum(jnp.where(own, 0.0, log_ndtr(at[..., None] + ahead)), -1)
        terms = wins - 0.5 * at**2 + 0.5 * nodes**2 + log_weights
        return jax.nn.logsumexp(terms, axis=0) + jnp.log(width)

    def curvature(self, f: Array, y: Array) -> tuple[jax.Array, jax.Array]:
        """Minus the Hessian as diag(D) - P P' with P (n, C, C): of full rank, unlike that of `Softmax`."""
        W = -jax.vmap(jax.hessian(lambda f, y: self.log_prob(f[None], y[None])[0]))(f, y)
        D = jnp.sum(jnp.abs(W), -1) + 1e-12
        return D, jnp.linalg.cholesky(jax.vmap(jnp.diag)(D) - W + 1e-14 * jnp.eye(self.classes))

    def fisher(self, f: Array, y: Array) -> tuple[jax.Array, jax.Array]:
        return self.curvature(f, y)

    def expectation(self, y: Array, mean: Array, variance: Array) -> jax.Array:
        """E[log p(y | f)], by a fixed rule (64 points)."""
        each = jax.vmap(lambda e: self.log_prob(mean + e, y))(deviations(64, variance))
        return jnp.mean(each, 0)

    # -- predictions -----------------------------------------------------------------------------------------

    def log_probability(self, mean: np.ndarray, variance: np.ndarray | float) -> np.ndarray:
        """Orthant probabilities, normalised: what they miss of a sum of one is the error of the rule."""
        mean, variance = np.asarray(mean, float), np.asarray(variance, float)
        logs = np.stack([self._log_win(c, mean, variance) for c in range(self.classes)], 1)
        whole: np.ndarray = logs - logsumexp(logs, axis=1, keepdims=True)
        return whole

    def _log_win(self, c: int, mean: np.ndarray, variance: np.ndarray) -> np.ndarray:
        """log P(y = c): (m,), the probability of an orthant.

        The lead of c over each of the others is normal. With its Cholesky factor, the leads are made positive
        one after the other, the most doubtful first: the probability is the average of a product of
        distribution functions (Genz 1992).
        """
        C = self.classes
        others = np.delete(np.arange(C), c)
        points = uniform_rule(self.samples, max(C - 2, 1))
        out, rows = np.empty(len(mean)), max(1, _ENTRIES // (points.size + C * C))
        for i in range(0, len(mean), rows):
            V = variance[i : i + rows]
            V = (V[:, :, None] * np.eye(C) if V.ndim == 2 else V) + np.eye(C)
            lead = mean[i : i + rows, [c]] - mean[i : i + rows][:, others]
            cov = V[:, [[c]], [[c]]] - V[:, [c]][:, :, others] - V[:, others][:, :, [c]]
            cov = cov + V[:, others[:, None], others[None, :]]
            out[i : i + rows] = _log_orthant(lead, cov, points)
        return out

    def sample(self, rng: np.random.Generator, f: np.ndarray) -> np.ndarray:
        return np.argmax(np.asarray(f) + rng.normal(size=np.shape(f)), -1).astype(float)


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


@functools.lru_cache(maxsize=1)
def _gauss_hermite() -> tuple[np.ndarray, np.ndarray]:
    """Nodes and log weights for averages over N(0, 1)."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(_NODES)
    return nodes, np.log(weights / weights.sum())
