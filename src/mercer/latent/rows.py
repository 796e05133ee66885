"""Latent points of new rows of data: the map is held, each row is on its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from mercer.latent.descent import minimise
from mercer.latent.mapping import Mapping
from mercer.progress import tell

BLOCK = 64  # rows that are compiled as one; fewer are filled up, so that a row's answer is its own
NEIGHBOURS = 10  # training rows whose latent points are tried as starts


def locate(
    mapping: Mapping, Y: np.ndarray, known: np.ndarray, mu: np.ndarray, s: np.ndarray, bayesian: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Latent points (k, Q) of rows Y (k, D), NaN where a cell is empty, and their variances (k, Q).

    known: the training rows (n, D), NaN where empty; mu, s: their latent points and variances (n, Q). The
    search of each row starts at the best of the points of the training rows that are most like it, by the
    cells that both have. A row without any observed cell has the prior, N(0, I).

    `bayesian`: the best q(x) = N(mu, diag s) of each row; else the most probable point, with the variances
    of the Gaussian that has the same curvature there (Laplace).
    """
    find = _by_bound if bayesian else _by_mode
    found = [np.empty((len(Y), mu.shape[1])) for _ in range(2)]
    observed = ~np.isnan(Y)
    for first in range(0, len(Y), BLOCK):
        rows = slice(first, min(first + BLOCK, len(Y)))
        near = _nearest(Y[rows], known)
        fill = [(0, BLOCK - len(near))]
        starts = [np.pad(a[near], [*fill, (0, 0), (0, 0)], mode="edge") for a in (mu, s)]
        padded = [np.pad(a[rows].astype(float), [*fill, (0, 0)]) for a in (np.nan_to_num(Y), observed)]
        for out, new in zip(found, find(mapping, *padded, *starts), strict=True):
            out[rows] = np.asarray(new)[: len(near)]
        tell(rows.stop, len(Y), "rows")
    nothing = ~observed.any(1)
    found[0][nothing], found[1][nothing] = 0.0, 1.0
    return found[0], found[1]


def spread(mapping: Mapping, Y: np.ndarray, X: np.ndarray) -> np.ndarray:
    """Variances (n, Q) of the latent points X (n, Q) of rows Y (n, D), by the curvature of the log posterior
    there.
    """
    out = np.empty(X.shape)
    observed = ~np.isnan(Y)
    for first in range(0, len(Y), BLOCK):
        rows = slice(first, min(first + BLOCK, len(Y)))
        fill = [(0, BLOCK - (rows.stop - first)), (0, 0)]
        given = (np.pad(a[rows].astype(float), fill) for a in (X, np.nan_to_num(Y), observed))
        out[rows] = np.asarray(_curvatures(mapping, *given))[: rows.stop - first]
    return out


def _nearest(Y: np.ndarray, known: np.ndarray) -> np.ndarray:
    """Positions (k, NEIGHBOURS) of the training rows most like each of Y, nearest first: the mean squared
    difference over the cells that both have.
    """
    both = (~np.isnan(Y)).astype(float) @ (~np.isnan(known)).T.astype(float)
    squares = [np.nan_to_num(a) ** 2 @ (~np.isnan(b)).T.astype(float) for a, b in ((Y, known), (known, Y))]
    apart = squares[0] + squares[1].T - 2.0 * np.nan_to_num(Y) @ np.nan_to_num(known).T
    apart = np.where(both > 0, apart / np.maximum(both, 1.0), np.inf)
    order = np.argsort(apart, 1, kind="stable")[:, :NEIGHBOURS]
    return np.pad(order, [(0, 0), (0, NEIGHBOURS - order.shape[1])], mode="edge")


@jax.jit
def _by_mode(
    mapping: Mapping, Y: jax.Array, observed: jax.Array, mu: jax.Array, s: jax.Array
) -> tuple[jax.Array, jax.Array]:
    def one(y: jax.Array, seen: jax.Array, starts: jax.Array) -> jax.Array:
        loss = _loss(mapping, y, seen)
        return minimise(loss, _best(loss, starts))

    X = jax.vmap(one)(Y, observed, mu)
    return X, _curvatures(mapping, X, Y, observed)


@jax.jit
def _by_bound(
    mapping: Mapping, Y: jax.Array, observed: jax.Array, mu: jax.Array, s: jax.Array
) -> tuple[jax.Array, jax.Array]:
    q = mu.shape[-1]

    def one(y: jax.Array, seen: jax.Array, starts: jax.Array) -> jax.Array:
        def loss(x: jax.Array) -> jax.Array:
            return -mapping.bound(x[:q], jnp.exp(x[q:]), y, seen)

        return minimise(loss, _best(loss, starts))

    found = jax.vmap(one)(Y, observed, jnp.concatenate([mu, jnp.log(s)], -1))
    return found[:, :q], jnp.exp(found[:, q:])


@jax.jit
def _curvatures(mapping: Mapping, X: jax.Array, Y: jax.Array, observed: jax.Array) -> jax.Array:
    """Diagonals of the inverse Hessians; a direction that bends the other way has the prior's."""

    def one(x: jax.Array, y: jax.Array, seen: jax.Array) -> jax.Array:
        values, vectors = jnp.linalg.eigh(jax.hessian(_loss(mapping, y, seen))(x))
        return (vectors**2) @ (1.0 / jnp.maximum(values, 1.0))

    return jax.lax.map(lambda row: one(*row), (X, Y, observed))


def _loss(mapping: Mapping, y: jax.Array, seen: jax.Array) -> Callable[[jax.Array], jax.Array]:
    return lambda x: -mapping.log_posterior(x, y, seen)


def _best(loss: Any, starts: jax.Array) -> jax.Array:
    return starts[jnp.argmin(jax.lax.map(loss, starts))]
