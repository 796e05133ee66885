"""The log evidence of few data, and its gradient in the vector of hyperparameters: two compiled programs with
LAPACK between them.

On few data most of an evaluation is Python. Where all of them are in one tile, nothing has to be cut and put
together again: one program makes B = I + K / noise of a vector, the other pulls what LAPACK says of it back
to the vector. The numbers are those of `Exact` on `Dense`.
"""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from mercer.linalg import lapack, tiles
from mercer.linalg.cholesky import factor, invert
from mercer.params import Flattened, Layout, strip
from mercer.programs import Program, inline, program

_LOG_2PI = float(np.log(2 * np.pi))


class OneTile:
    """log p(y) (2.30) and its derivatives (5.9) for Gaussian noise of one variance, as a function of the
    vector: `OneTile(flatten(model), X, y)(vector)`.
    """

    def __init__(self, flat: Flattened, X: np.ndarray, y: np.ndarray):
        model = strip(flat.value)
        self.n, size = y.shape[0], tiles.tile_size(y.shape[0])
        if not jax.tree.leaves(model.gp.mean):  # it need not be compiled
            y = y - np.asarray(model.gp.mean.value(X), float)
        rows = np.minimum(np.arange(size), self.n - 1)
        data = jax.tree.map(lambda a: np.asarray(a)[rows], (model.gp.kernel.encode(X), _columns(X), y))
        self.given = jax.device_put((jax.tree.leaves(model), *data), inline())
        self.B, self.alpha = _aligned(size, size), _aligned(size)
        layout, vector = flat.layout(), flat.vector
        self.covariances = _compiled(_covariances, layout).ready(vector, *self.given)
        self.derivatives = _compiled(_derivatives, layout).ready(vector, *self.given, self.B, self.alpha)

    def __call__(self, vector: np.ndarray) -> tuple[float, np.ndarray]:
        n, B = self.n, self.B[: self.n, : self.n]
        made, delta, noise = map(np.asarray, self.covariances(vector, *self.given))
        factor(functools.partial(np.copyto, src=made[:n, :n]), B)
        log_det = 2.0 * np.sum(np.log(np.diagonal(B))) + n * np.log(noise)
        alpha = lapack.solve_lower(B, delta[:n].copy())
        value = -0.5 * alpha @ alpha / noise - 0.5 * log_det - 0.5 * n * _LOG_2PI
        self.alpha[:n] = lapack.solve_lower(B, alpha, transpose=True) / noise
        invert(B)
        gradient = self.derivatives(vector, *self.given, self.B, self.alpha)
        return float(value), np.array(gradient)


def _columns(X: np.ndarray) -> np.ndarray:
    """What a mean reads."""
    return np.zeros((X.shape[0], 1)) if X.dtype == object else X


def _aligned(*shape: int) -> np.ndarray:
    """Zeros that JAX reads where they are, without a copy."""
    size = int(np.prod(shape))
    whole = np.zeros(size + 8)
    first = -whole.ctypes.data % 64 // 8
    return whole[first : first + size].reshape(shape)


@functools.lru_cache(maxsize=256)
def _compiled(function: Any, layout: Layout) -> Program:
    return program(function, layout)


def _parts(layout, vector, leaves, A, X):
    """K, the mean and the noise variance."""
    model = layout.value(vector, leaves)
    mean = model.gp.mean.value(X) if jax.tree.leaves(model.gp.mean) else jnp.zeros(X.shape[0])
    return model.gp.kernel.block(A, A), mean, model.likelihood.variances


def _covariances(layout, vector, leaves, A, X, y):
    K, mean, noise = _parts(layout, vector, leaves, A, X)
    return K / noise + jnp.eye(y.shape[0]), y - mean, noise


def _derivatives(layout, vector, leaves, A, X, y, inverse, alpha):
    """d log p(y) = 1/2 tr((alpha alpha' - (K + noise I)^-1) d(K + noise I)) + alpha' d mean, of which the
    inverse, times the noise, is given in its upper triangle.
    """
    _, _, noise = _parts(layout, vector, leaves, A, X)
    inside = jnp.triu(jnp.full(inverse.shape, 2.0)) - jnp.eye(alpha.shape[0])
    bar = 0.5 * inside * (alpha[:, None] * alpha[None, :] - inverse / noise)

    def along(vector):
        K, mean, noise = _parts(layout, vector, leaves, A, X)
        return jnp.sum(bar * K) + noise * jnp.trace(bar) + alpha @ mean

    return jax.grad(along)(vector)
