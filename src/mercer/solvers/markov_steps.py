"""A step in the data from each time on, tested at all times at once: O(n) by the states of the Markov solver.

For the step h_i(t) = 1 where t >= t_i, added to f with a weight beta, the log evidence is quadratic in beta
with slope u_i = h_i' alpha and curvature -I_i, I_i = h_i' R h_i: sums over the data from i on. With one more
state that is constant and zero, I_i is what these data say of it (De Jong and Penzer 1998).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import scipy.linalg as sla

from mercer.linalg import kalman
from mercer.solvers.basis import BasisState
from mercer.solvers.markov import MarkovState


class Steps(NamedTuple):
    """Of a step at each datum, in the order of time, (n,) each: its time, slope u and information I of the
    log evidence in its size, and those of a lone shift of this datum: alpha and kappa.
    """

    t: np.ndarray
    slope: np.ndarray
    information: np.ndarray
    alpha: np.ndarray
    kappa: np.ndarray


def steps(state: Any) -> Steps:
    """What the data say of steps, given the hyperparameters. state: that of a posterior found with
    solver="markov", with basis functions or without.

    >>> found = steps(post.state); found.slope / found.information   # the sizes that fit best
    """
    base = state.base if isinstance(state, BasisState) else state
    if not isinstance(base, MarkovState):
        raise TypeError(f"steps are read off the states of solver='markov'; this is a {type(base).__name__}.")
    n, line = base.line.n, base.line
    alpha, kappa = (line.onto(np.asarray(a, float)[:, 0])[:n] for a in state.dual())
    information = np.asarray(_information(*base.sweeps.whole()))[:n]
    if isinstance(state, BasisState):  # R less what the basis explains
        rows = line.onto(state.RH)[:n][::-1].cumsum(0)[::-1]
        explained = sla.solve_triangular(state.A[0], rows.T, lower=True)
        information = information - np.sum(explained**2, 0)
    slope = alpha[::-1].cumsum()[::-1]
    return Steps(np.asarray(line.t)[:n], slope, np.maximum(information, 0.0), alpha, kappa)


@jax.jit
def _information(links: kalman.Chain, filtered: kalman.Filtered) -> jax.Array:
    """h_i' R h_i for every i, backwards: N is what the data from i on say of the states and the constant."""
    n, s = links.h.shape
    one, none = jnp.ones((n, 1)), jnp.zeros((n, 1))
    h, k = jnp.concatenate([links.h, one], 1), jnp.concatenate([filtered.k, none], 1)
    Phi = jnp.zeros((n, s + 1, s + 1)).at[:, :s, :s].set(links.Phi).at[:, s, s].set(1.0)
    following = jnp.concatenate([Phi[1:], jnp.zeros_like(Phi[:1])])

    def backwards(N, x):
        Phi, h, k, w = x
        F = Phi - w * jnp.outer(Phi @ k, h)
        N = F.T @ N @ F + w * jnp.outer(h, h)
        return N, N[s, s]

    start = jnp.zeros((s + 1, s + 1))
    return jax.lax.scan(backwards, start, (following, h, k, filtered.w), reverse=True)[1]


__all__ = ["Steps", "steps"]
