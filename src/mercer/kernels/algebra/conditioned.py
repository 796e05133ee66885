"""The covariance of a process that has been observed, as a kernel of its own."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.linalg import solve_triangular
from numpy.typing import ArrayLike

from mercer.kernels.algebra.observed import Observed
from mercer.kernels.algebra.transforms import AbstractTransform
from mercer.kernels.base import AbstractKernel, Encoded
from mercer.kernels.words.names import EXACT
from mercer.params import Hyper, ParameterError, hyper, nonnegative, parameters, real

FEW = 5  # observations that are written out
FLOOR = 1e-10  # of the mean prior variance: what stands for exact observations


class PosteriorKernel(AbstractTransform):
    """k(x, x') - k(x, X) (k(X, X) + noise)^-1 k(X, x'): the posterior covariance of one stage as the prior
    covariance of the next.

    Made from a posterior, `PosteriorKernel(post)`, or from a kernel, the inputs (n, d) where it was observed
    and the noise variance there, one or n of them. All of it is held. Every tile costs n^3 / 3 operations:
    meant for a first stage of some hundred data.

    >>> second = GP(PosteriorKernel(post), mean=post.mean)  # conditions on further data as if on all at once
    """

    inputs: Hyper = hyper(None, real, free=False)
    noise_variance: Hyper = hyper(0.0, nonnegative, free=False)

    def __post_init__(self):
        if not isinstance(self.kernel, AbstractKernel):
            self.kernel, self.inputs, self.noise_variance = _observed(self.kernel)
        super().__post_init__()

    def __check_init__(self):
        if np.ndim(self.inputs) != 2:
            raise ParameterError("PosteriorKernel.inputs must be points (n, d).")
        if np.ndim(self.noise_variance) and np.shape(self.noise_variance) != np.shape(self.inputs)[:1]:
            raise ParameterError(
                "PosteriorKernel.noise_variance must be one number, or one for each of the inputs."
            )
        if self.kernel.reads_objects():
            raise ParameterError(
                f"PosteriorKernel.kernel must read numbers; {self.kernel} reads text or categories."
            )

    def rebuild(self, parts: tuple[AbstractKernel, ...]) -> PosteriorKernel:
        return PosteriorKernel(parts[0], self.inputs, self.noise_variance, info=self.info)

    def bind(self, d: int, names: tuple[str, ...] | None = None) -> PosteriorKernel:
        if np.shape(self.inputs)[1] != d and not isinstance(self.kernel, Observed):
            raise ParameterError(
                f"PosteriorKernel.inputs has {np.shape(self.inputs)[1]} columns but the kernel sees {d}."
            )
        return self.rebuild((self.kernel.bind(d, names),))

    def suggest(self, X: np.ndarray, variance: float) -> PosteriorKernel:
        return self

    def held(self) -> tuple[str, ...]:
        return tuple(f"kernel.{p.name}" for p in parameters(self.kernel))

    def amplitude(self) -> tuple[str, ...]:
        return ()

    def block(self, A: Encoded, B: Encoded) -> jax.Array:
        X = self.kernel.encode(jnp.asarray(self.inputs))
        K = self.kernel.block(X, X)
        noise = jnp.maximum(self.noise_variance, FLOOR * jnp.mean(jnp.diag(K)))
        L = jnp.linalg.cholesky(K + noise * jnp.eye(K.shape[0]))
        V, W = (solve_triangular(L, self.kernel.block(X, Z), lower=True) for Z in (A, B))
        return self.kernel.block(A, B) - V.T @ W

    def rank(self, d: int) -> None:
        return None

    def formula(self, digits: int = 6) -> str:
        """With all numbers where it is to be read back; else many observations are only counted."""
        many = len(np.asarray(self.inputs))
        if digits >= EXACT or many <= FEW:
            return AbstractKernel.formula(self, digits)
        return f"PosteriorKernel({self.kernel.formula(digits)}, {many} observations)"


def tied_down(kernel: AbstractKernel, points: ArrayLike) -> PosteriorKernel:
    """The kernel of the same process given that it is zero at these points (m, d): a Brownian bridge for any
    kernel.

    >>> tied_down(Wiener(), [[1.0]])
    """
    points = np.asarray(points, float)
    return PosteriorKernel(kernel, points[:, None] if points.ndim == 1 else points)


def _observed(posterior: Any):
    """Bound kernel, inputs and noise variances of a posterior."""
    try:
        gp, state, X = posterior.model.gp, posterior.state, posterior.inputs.values
    except AttributeError:
        raise ParameterError(
            f"PosteriorKernel takes a posterior or a kernel, got {type(posterior).__name__}."
        ) from None
    if gp.basis is not None:
        raise ParameterError(
            "PosteriorKernel takes no model with basis functions: add them to the kernel, for example "
            "Linear()."
        )
    if gp.kernel.reads_objects():
        raise ParameterError(
            f"PosteriorKernel.kernel must read numbers; {gp.kernel} reads text or categories."
        )
    precision = np.asarray(state.sites.precision)[:, 0]
    if not (precision > 0).all():
        raise ParameterError(
            "PosteriorKernel needs observations that all carry information (positive site precisions)."
        )
    return gp.kernel, X, 1.0 / precision
