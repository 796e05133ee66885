"""White noise as a term of a kernel: said with the covariance, part of y and not of f."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from mercer.inputs import Array
from mercer.kernels.algebra.sums import Sum
from mercer.kernels.base import AbstractKernel, given
from mercer.kernels.traits import Traits
from mercer.linalg.tiles import rows
from mercer.params import Hyper, Param, ParameterError, hyper, param, positive


class White(AbstractKernel):
    """variance * delta_pq (GPML 2.20): noise of the observations p and q, in squared units of y.

    A term of a sum, marked as noise. The delta is of observations, not of places: two observations at one
    input have independent noise, and so has a test case there. So the term adds nothing to the covariance of
    f, `block` is zero, and a `Model` or `GPRegressor` moves it to where noise is, into the Gaussian
    likelihood: predictions of y have it, those of f do not.

    >>> post = GP(SE() + White(0.1)).condition(X, y)          # = GP(SE()).condition(X, y, noise_variance=0.1)
    >>> post.variance(Xs) - post.variance(Xs, latent=True)    # 0.1 at every row
    """

    variance: Hyper = hyper(1.0, positive)

    def encode(self, X: Array) -> Array:
        """Only the number of rows matters, so the columns may hold anything."""
        return np.zeros((X.shape[0], 1)) if X.dtype == object else X

    def block(self, A: jax.Array, B: jax.Array) -> jax.Array:
        return 0.0 * jnp.broadcast_to(self.variance, (rows(A), rows(B)))

    def rank(self, d: int) -> int:
        return 0

    def features(self, A: jax.Array) -> jax.Array:
        return jnp.zeros((rows(A), 0))

    def amplitude(self) -> tuple[str, ...]:
        return ()

    def traits(self, d: int = 1) -> Traits:
        return Traits(
            stationary=True, isotropic=True, smoothness=np.inf, beyond="adds independent noise to y"
        )


def noise_apart(kernel: AbstractKernel) -> tuple[AbstractKernel, Param | None]:
    """The kernel of f and the noise variance, with all that was said of it, of the term `White` in a sum;
    None where there is none.
    """
    terms = kernel.terms if isinstance(kernel, Sum) else (kernel,)
    signal = tuple(term for term in terms if not isinstance(term, White))
    white = [term for term in terms if isinstance(term, White)]
    hidden = any(
        isinstance(v, White) for v in jax.tree.leaves(signal, is_leaf=lambda v: isinstance(v, White))
    )
    if not signal or len(white) > 1 or hidden:
        raise ParameterError(
            f"in {kernel.formula()}, White does not stand as one term beside a kernel of f: write "
            "SE() + White(0.1)."
        )
    if not white:
        return kernel, None
    variance = given(white[0], "variance")
    noise = variance if isinstance(variance, Param) else param(variance)
    return signal[0] if len(signal) == 1 else Sum(signal), noise
