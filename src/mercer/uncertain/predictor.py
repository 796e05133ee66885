"""Gaussian processes that have seen data, as arrays: what predictions at uncertain inputs are made of."""

from __future__ import annotations

from collections.abc import Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from mercer.kernels import AbstractKernel
from mercer.means import AbstractMean
from mercer.params import strip


class Predictor(eqx.Module):
    """p functions, each with its own kernel, mean and data, independent of each other where the input is
    certain. It is a pytree of arrays: `jit`, `grad`, `vmap` and `scan` take it as an argument, and the
    hyperparameters in its kernels can be differentiated, too.

    kernels, means: p of each, bound to the columns
    X: inputs (p, n, d); functions with fewer data than others have rows of zero weight
    alpha: weights (p, n): the mean of f is m(x) + k(x, X) alpha
    R: (p, n, n): its variance is k(x, x) - k(x, X) R k(X, x)
    noise: variance (p,) of the noise of y, zero where it is not known

    `posterior.predictor()` makes one of a posterior; `Predictor.joined` puts several together.

    >>> predictor = Predictor.joined([post_a.predictor(), post_b.predictor()])
    >>> uncertain.moments(predictor, mu, Sigma).covariance    # (2, 2)
    """

    kernels: tuple[AbstractKernel, ...]
    means: tuple[AbstractMean, ...]
    X: jax.Array
    alpha: jax.Array
    R: jax.Array
    noise: jax.Array

    @classmethod
    def of_one(
        cls,
        kernel: AbstractKernel,
        mean: AbstractMean,
        X: np.ndarray,
        alpha: np.ndarray,
        R: np.ndarray,
        noise: float = 0.0,
    ) -> Predictor:
        """Of one function, with inputs (n, d), weights (n,) and R (n, n)."""
        arrays = (jnp.asarray(a, float)[None] for a in (X, alpha, R, noise))
        return cls((strip(kernel),), (strip(mean),), *arrays)

    @classmethod
    def joined(cls, predictors: Sequence[Predictor]) -> Predictor:
        """Several side by side: p is the sum of theirs."""
        if not predictors:
            raise ValueError("there is no predictor to join: give at least one.")
        columns = {one.d for one in predictors}
        if len(columns) > 1:
            raise ValueError(f"predictors of the same columns can be joined, these have {sorted(columns)}.")
        n = max(one.X.shape[1] for one in predictors)
        X, alpha, R = [], [], []
        for one in predictors:
            more = (0, n - one.X.shape[1])
            X.append(jnp.pad(one.X, ((0, 0), more, (0, 0)), mode="edge"))
            alpha.append(jnp.pad(one.alpha, ((0, 0), more)))
            R.append(jnp.pad(one.R, ((0, 0), more, more)))
        return cls(
            tuple(kernel for one in predictors for kernel in one.kernels),
            tuple(mean for one in predictors for mean in one.means),
            jnp.concatenate(X),
            jnp.concatenate(alpha),
            jnp.concatenate(R),
            jnp.concatenate([one.noise for one in predictors]),
        )

    @property
    def p(self) -> int:
        """How many functions."""
        return self.alpha.shape[0]

    @property
    def d(self) -> int:
        """How many columns an input has."""
        return self.X.shape[2]

    def mean(self, x: jax.Array) -> jax.Array:
        """Means (p,) of the functions at a certain input x (d,)."""
        return jnp.stack(
            [self._weights(i, x) @ self.alpha[i] + self._prior_mean(i, x) for i in range(self.p)]
        )

    def variance(self, x: jax.Array) -> jax.Array:
        """Variances (p,) of the functions at a certain input x (d,)."""
        found = []
        for i, kernel in enumerate(self.kernels):
            k, at = self._weights(i, x), jax.tree.map(lambda a: a[0], kernel.encode(x[None]))
            found.append(kernel.point(at, at) - k @ self.R[i] @ k)
        return jnp.stack(found)

    def _weights(self, i: int, x: jax.Array) -> jax.Array:
        kernel = self.kernels[i]
        return kernel.block(kernel.encode(x[None]), kernel.encode(self.X[i]))[0]

    def _prior_mean(self, i: int, x: jax.Array) -> jax.Array:
        return jnp.asarray(self.means[i].value(x[None]))[0]


class Moments(eqx.Module):
    """What is known of p functions at an input x ~ N(mu, Sigma).

    mean: (p,)
    spread: (p, p), the covariance of their means as x varies
    doubt: (p,), the variance of each function that is left at a known x, averaged over x
    cross: covariance (d, p) of x and the functions

    The covariance (p, p) of the functions is spread + diag(doubt); of observations, the noise comes on top.
    """

    mean: jax.Array
    spread: jax.Array
    doubt: jax.Array
    cross: jax.Array

    @property
    def covariance(self) -> jax.Array:
        """Of the functions (p, p)."""
        return self.spread + jnp.diag(self.doubt)

    @property
    def variance(self) -> jax.Array:
        """Of each function (p,)."""
        return jnp.diag(self.spread) + self.doubt
