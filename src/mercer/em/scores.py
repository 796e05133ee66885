"""Fisher scores, derivatives of log p(x | θ) at the fitted θ, of hidden Markov models and Gaussian mixtures
by autodiff.

The coordinates are unconstrained and have no unit. Probabilities (initial states, transitions, symbols,
weights) are θ_i exp(u_i)/Σ_j θ_j exp(u_j) and the score is that by u; in the coordinates of the texts, θ_i
divided by the sum of its row, it is the same divided by θ_i ("probabilities"). Means move by standard
deviations, μ + L m, and covariances by relative ones, L (I + E)(I + E)ᵀ Lᵀ with E lower triangular, where Σ =
L Lᵀ; means of counts and degrees of freedom move by their logarithms. Probabilities of zero and of one are
structure and have no score.

Sequences of different lengths are padded and scored together by one compiled function.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.scipy.linalg import solve_triangular
from jax.scipy.special import gammaln, logsumexp

from mercer.kernels.text.base import width

COORDINATES = ("logits", "probabilities")
SHARES = ("initial", "transition", "emission", "weights")  # groups of probabilities
LOG_ZERO = -1e30  # finite, so that derivatives are
WORK = 2**23  # numbers kept for the backward pass of a batch
LOG_2PI = float(np.log(2 * np.pi))


def scores(
    initial: np.ndarray,
    transition: np.ndarray,
    emission: dict[str, Any],
    sequences: Sequence[np.ndarray],
    groups: tuple[str, ...],
    coordinates: str = "logits",
) -> np.ndarray:
    """Scores (n, p) of sequences, group after group.

    emission: {"emission": (N, L)}, with {"totals": True} for rows of counts instead of symbols;
        {"rates": (N, d)}; or {"gaussians": Gaussians}, with {"weights": (N, M)} for M Gaussians in each
        state, or {"dof": (N,)} for Student-t.
    groups: of "initial", "transition", "emission", "weights", "means", "covariances", "dof".
    """
    if coordinates not in COORDINATES:
        raise ValueError(f"coordinates must be one of {COORDINATES}, got {coordinates!r}.")
    values, kind = _values(initial, transition, emission)
    parts = [np.zeros((len(sequences), 0))]
    found = _batches(values, kind, sequences)
    for group in groups:
        gradient = found[group].reshape(len(sequences), -1)
        if group in SHARES:
            table = {"initial": initial, "transition": transition, **emission}[group]
            free = moving(table)
            gradient = gradient[:, free.ravel()]
            if coordinates == "probabilities":
                gradient = gradient / np.asarray(table)[free]
        parts.append(gradient)
    return np.hstack(parts)


def choose(parameters: Any, groups: tuple[str, ...]) -> tuple[str, ...]:
    """The groups that were asked for, of those that the model has; None: all."""
    if parameters is None:
        return groups
    asked = (parameters,) if isinstance(parameters, str) else tuple(parameters)
    unknown = [name for name in asked if name not in groups]
    if unknown or not asked:
        raise ValueError(f"parameters must be some of {groups}, got {parameters!r}.")
    return tuple(name for name in groups if name in asked)


def moving(table: np.ndarray) -> np.ndarray:
    """Which probabilities are neither zero nor one."""
    table = np.asarray(table)
    return (table > 0) & (table < 1)


def possible(log_likelihood: np.ndarray) -> None:
    """An error for the first sequence of probability zero."""
    bad = np.flatnonzero(~(log_likelihood > 0.1 * LOG_ZERO))
    if len(bad):
        raise ValueError(
            f"sequence {bad[0]} has probability zero under the model, so it has no score: fit the model "
            "with a pseudo_count, or "
            "leave the sequence out."
        )


# ------------------------------------------------------------------------------------------------- the
# compiled function


def _values(initial, transition, emission) -> tuple[dict[str, np.ndarray], tuple[str, str]]:
    """What the compiled function reads of a model, and the names that decide which code it is."""
    values = {"initial": _log(initial), "transition": _log(transition)}
    if "rates" in emission:
        return values | {"rates": np.log(emission["rates"])}, ("poisson", "")
    if "emission" in emission:
        kind = "multinomial" if "totals" in emission else "symbols"
        return values | {"emission": _log(emission["emission"])}, (kind, "")
    gaussians = emission["gaussians"]
    d = gaussians.dimension
    roots = gaussians.roots if gaussians.elliptic else gaussians.roots[:, :, None] * np.eye(d)
    values |= {"centre": gaussians.means, "root": np.asarray(roots)}
    if "weights" in emission:
        values["weights"] = _log(emission["weights"])
    if "dof" in emission:
        values["dof"] = np.log(emission["dof"])
    return values, ("vectors", gaussians.covariance_type)


def _log(table) -> np.ndarray:
    table = np.asarray(table, np.float64)
    return np.where(table > 0, np.log(np.where(table > 0, table, 1.0)), LOG_ZERO)


def _batches(values, kind, sequences) -> dict[str, np.ndarray]:
    """Gradients (n, ...) by group."""
    lengths = np.array([len(s) for s in sequences])
    order, states = np.argsort(-lengths, kind="stable"), len(values["initial"])
    log_likelihood, out, start = np.empty(len(order)), [], 0
    while start < len(order):
        count = max(1, min(256, WORK // (int(lengths[order[start]]) * states**2)))
        chosen = order[start : start + count]
        rows, inside = _pad([sequences[i] for i in chosen], kind[0])
        gaps = kind[0] == "vectors" and bool(np.isnan(rows).any())
        ll, gradient = _compiled(*kind, gaps)(values, rows, inside)
        log_likelihood[chosen] = np.asarray(ll)[: len(chosen)]
        out.append({name: np.asarray(g)[: len(chosen)] for name, g in gradient.items()})
        start += count
    possible(log_likelihood)
    back = np.argsort(order, kind="stable")
    return {name: np.concatenate([part[name] for part in out])[back] for name in out[0]}


def _pad(sequences: list[np.ndarray], kind: str) -> tuple[np.ndarray, np.ndarray]:
    """A table (n, T, ...) filled up at the ends, n and T of few sizes, and which of it are data."""
    longest = max(map(len, sequences))
    T = 1 if longest == 1 else width(longest)
    n = width(len(sequences))
    rows = np.full((n, T), -1, np.int32) if kind == "symbols" else np.zeros((n, T, sequences[0].shape[1]))
    inside = np.zeros((n, T), bool)
    for i, s in enumerate(sequences):
        rows[i, : len(s)], inside[i, : len(s)] = s, True
    return rows, inside


@functools.lru_cache(maxsize=32)
def _compiled(kind: str, covariance_type: str, gaps: bool):
    """(values, rows (n, T, ...), inside (n, T)) -> log-likelihoods (n,),
    their gradients at u = m = E = 0 by group.
    """

    def one(moves, values, rows, inside):
        if kind == "vectors":
            log_b = _vectors(moves, values, rows, covariance_type, gaps)
        else:
            log_b = {"symbols": _symbols, "multinomial": _totals, "poisson": _counts}[kind](
                moves, values, rows
            )
        alpha = _moved(moves, values, "initial") + log_b[0]
        log_A = _moved(moves, values, "transition")

        def step(alpha, given):
            b, here = given
            return jnp.where(here, logsumexp(alpha[:, None] + log_A, 0) + b, alpha), None

        return logsumexp(lax.scan(step, alpha, (log_b[1:], inside[1:]))[0])

    def run(values, rows, inside):
        moves = {name: jnp.zeros(values[name].shape) for name in (*SHARES, "dof") if name in values}
        if kind == "poisson":
            moves["means"] = jnp.zeros(values["rates"].shape)
        if kind == "vectors":
            k, d = values["centre"].shape
            square = d * (d + 1) // 2
            shapes = {"full": (k, square), "diagonal": (k, d), "spherical": (k,), "tied": (square,)}
            moves |= {"means": jnp.zeros((k, d)), "covariances": jnp.zeros(shapes[covariance_type])}
        return jax.vmap(jax.value_and_grad(one), (None, None, 0, 0))(moves, values, rows, inside)

    return jax.jit(run)


def _moved(moves, values, name):
    return jax.nn.log_softmax(values[name] + moves[name], -1)


def _symbols(moves, values, rows):
    """log b (T, N)."""
    log_b = _moved(moves, values, "emission")[:, jnp.maximum(rows, 0)].T
    return jnp.where(rows[:, None] < 0, 0.0, log_b)


def _totals(moves, values, rows):
    """log b (T, N), without what does not depend on the state."""
    return jnp.nan_to_num(rows) @ _moved(moves, values, "emission").T


def _counts(moves, values, rows):
    """log b (T, N), without what does not depend on the state; means move by their logarithm."""
    log_mean = values["rates"] + moves["means"]
    return jnp.nan_to_num(rows) @ log_mean.T - (~jnp.isnan(rows)) @ jnp.exp(log_mean).T


def _vectors(moves, values, rows, covariance_type: str, gaps: bool):
    """log b (T, N), of the observed values."""
    root, centre = values["root"], values["centre"]
    d = centre.shape[1]
    E = moves["covariances"]
    if covariance_type in ("full", "tied"):
        E = jnp.zeros((*E.shape[:-1], d, d)).at[..., *np.tril_indices(d)].set(E)
    elif covariance_type == "diagonal":
        E = E[:, :, None] * jnp.eye(d)
    else:
        E = E[:, None, None] * jnp.eye(d)
    L = root @ (jnp.eye(d) + E)
    mean = centre + jnp.einsum("kij,kj->ki", root, moves["means"])
    far, log_root, d = jax.vmap(_partial if gaps else _complete, (None, 0, 0), (0, 0, None))(rows, mean, L)
    if "dof" in values:
        nu = jnp.exp(values["dof"] + moves["dof"])[:, None]
        norm = gammaln((nu + d) / 2) - gammaln(nu / 2) - d / 2 * jnp.log(jnp.pi * nu)
        log_b = (norm - log_root - (nu + d) / 2 * jnp.log1p(far / nu)).T
    else:
        log_b = (-0.5 * far - log_root - 0.5 * d * LOG_2PI).T
    if "weights" in values:
        log_c = _moved(moves, values, "weights")
        log_b = logsumexp(log_b.reshape(-1, *log_c.shape) + log_c, -1)
    return log_b


def _complete(rows, mean, L):
    """Squared distances (T,), half the log determinant, and how many columns: of what is observed."""
    z = solve_triangular(L, (rows - mean).T, lower=True)
    return jnp.sum(z**2, 0), jnp.sum(jnp.log(jnp.diagonal(L)))[None], jnp.array([float(len(mean))])


def _partial(rows, mean, L):
    """Missing values are integrated over: unit variance in their places, and no deviation."""
    S = L @ L.T

    def one(x):
        seen = ~jnp.isnan(x)
        both = seen[:, None] & seen[None, :]
        root = jnp.linalg.cholesky(jnp.where(both, S, jnp.eye(len(x))))
        z = solve_triangular(root, jnp.where(seen, jnp.where(seen, x, 0.0) - mean, 0.0), lower=True)
        return jnp.sum(z**2), jnp.sum(jnp.log(jnp.diagonal(root))), jnp.sum(seen)

    return jax.vmap(one)(rows)
