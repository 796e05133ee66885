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
from mercer.solvers.basis import BasisState
from mercer.solvers.markov import MarkovState


def parts(state: Any, t: ArrayLike, H: ArrayLike | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Posterior means and variances (m, p + 1) at times t (m,) of the p terms of the kernel and, in the last
    column, of their sum.

    The prior mean is left out. state: that of a posterior found with solver="markov". H: where the prior has
    basis functions, their values (m, k) at t: the sum is then that of the terms and h' beta.

    >>> mean, variance = parts(post.state, t)
    """
    if isinstance(state, BasisState):
        return _beside_a_basis(state, np.asarray(t, float), np.asarray(H, float))
    mean, variance = _weighted(state, t, state.alpha[:, None])
    return mean[:, :, 0], variance


def _beside_a_basis(state: BasisState, t: np.ndarray, H: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(2.41) and (2.42) for each term: what it has in common with the basis, K_* R H, is as uncertain as the
    weights are.
    """
    found, variance = _weighted(state.base, t, np.column_stack([state.alpha, state.RH]))
    mean, rest = found[:, :, 0], -found[:, :, 1:]
    mean[:, -1] += H @ state.basis_weights().mean
    rest[:, -1] += H[:, state.kept]
    return mean, variance + np.einsum("mpk,kl,mpl->mp", rest, state.inverse, rest)


def _weighted(state: Any, t: ArrayLike, V: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """K_* V (m, p + 1, q) of every term and the sum, and posterior variances (m, p + 1)."""
    if not isinstance(state, MarkovState):
        raise TypeError(
            f"parts are read off the states of solver='markov'; this is a {type(state).__name__}."
        )
    n = state.centre.shape[0]
    at = np.concatenate([state.times, np.asarray(t, float)])
    order, length = np.argsort(at, kind="stable"), 1 << (at.size - 1).bit_length()
    inputs = []
    for values, end in ((at, at[order[-1]]), (np.asarray(state.precision), 0.0), (V, 0.0)):
        padded = np.full((length, *values.shape[1:]), end)
        padded[: at.size] = np.concatenate([values, np.zeros((at.size - len(values), *values.shape[1:]))])[
            order
        ]
        inputs.append(padded)
    place = np.argsort(order, kind="stable")[n:]
    mean, variance = tiles.call(_parts, state.form, *inputs)
    return np.array(mean)[place], np.maximum(np.asarray(variance)[place], 0.0)


def _parts(form: AbstractForm, t, W, V):
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
        Phi, h, k, w, v = x
        F = Phi - w * jnp.outer(Phi @ k, h)
        N, r = F.T @ N @ F + w * jnp.outer(h, h), Phi.T @ r + jnp.outer(h, v)
        return (N, r), (N, r)

    def drive(m, x):
        Phi, Q, r = x
        m = Phi @ m + Q @ r
        return m, m

    nothing, none = jnp.zeros_like(Q[0]), jnp.zeros((Q.shape[1], V.shape[1]))
    _, (P, k, w) = jax.lax.scan(forwards, nothing, (Phi, Q, h, W))
    _, (N, r) = jax.lax.scan(backwards, (nothing, none), (following, h, k, w, V), reverse=True)
    _, m = jax.lax.scan(drive, none, (Phi, Q, r))
    H = chosen * h[:, None, :]  # (n, p + 1, s)
    PH = H @ P
    return jnp.einsum("nps,nsq->npq", H, m), jnp.sum(PH * H, 2) - jnp.sum((PH @ N) * PH, 2)


__all__ = ["parts"]
