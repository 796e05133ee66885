"""A Gaussian process in time and its additive parts, each with its own uncertainty,
in O(n) by the states of the Markov solver.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike

from mercer.kernels.statespace import AbstractForm, SumForm, chain
from mercer.linalg import tiles
from mercer.solvers.markov import MarkovState


def parts(state: Any, t: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    """Posterior means and variances (m, p + 1) at times t (m,) of the p terms of the kernel and, in the last
    column, of their sum.

    The prior mean is left out. state: that of a posterior found with solver="markov".

    >>> mean, variance = parts(post.state, t)
    """
    if not isinstance(state, MarkovState):
        raise TypeError(
            f"parts are read off the states of solver='markov'; this is a {type(state).__name__}."
        )
    n = state.centre.shape[0]
    at = np.concatenate([np.asarray(state.X[:, 0], float), np.asarray(t, float)])
    order, length = np.argsort(at, kind="stable"), 1 << (at.size - 1).bit_length()
    inputs = []
    for values, end in (
        (at, at[order[-1]]),
        (np.asarray(state.precision), 0.0),
        (np.asarray(state.alpha), 0.0),
    ):
        padded = np.full(length, end)
        padded[: at.size] = np.append(values, np.zeros(at.size - values.size))[order]
        inputs.append(padded)
    place = np.argsort(order, kind="stable")[n:]
    mean, variance = tiles.call(_parts, state.form, *inputs)
    return np.asarray(mean)[place], np.maximum(np.asarray(variance)[place], 0.0)


def _parts(form: AbstractForm, t, W, alpha):
    sizes = [part.size for part in form.parts] if isinstance(form, SumForm) else [form.size]
    chosen = np.concatenate([np.repeat(np.eye(len(sizes)), sizes, 1), np.ones((1, sum(sizes)))])  # (p + 1, s)
    Phi, Q, h = chain(form, t)
    following = jnp.concatenate([Phi[1:], jnp.zeros_like(Phi[:1])])

    def forwards(P, x):
        Phi, Q, h, W = x
        P = Phi @ P @ Phi.T + Q
        k = P @ h
        w = W / (1.0 + W * (h @ k))
        return P - w * jnp.outer(k, k), (P, k, w)

    def backwards(later, x):
        """What the data from here on say of the state: N for its covariance, r for its mean."""
        N, r = later
        Phi, h, k, w, a = x
        F = Phi - w * jnp.outer(Phi @ k, h)
        N, r = F.T @ N @ F + w * jnp.outer(h, h), Phi.T @ r + h * a
        return (N, r), (N, r)

    def drive(m, x):
        Phi, Q, r = x
        m = Phi @ m + Q @ r
        return m, m

    nothing = jnp.zeros_like(Q[0])
    _, (P, k, w) = jax.lax.scan(forwards, nothing, (Phi, Q, h, W))
    _, (N, r) = jax.lax.scan(backwards, (nothing, nothing[0]), (following, h, k, w, alpha), reverse=True)
    _, m = jax.lax.scan(drive, nothing[0], (Phi, Q, r))
    H = chosen * h[:, None, :]  # (n, p + 1, s)
    PH = H @ P
    return jnp.einsum("nps,ns->np", H, m), jnp.sum(PH * H, 2) - jnp.sum((PH @ N) * PH, 2)


__all__ = ["parts"]
