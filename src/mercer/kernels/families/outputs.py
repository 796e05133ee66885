"""Kernels on rows (x, output): what several outputs have in common beside a product with a
`CategoricalCovariance`.
"""

from __future__ import annotations

import math
from typing import Self

import jax
import jax.numpy as jnp
import numpy as np

from mercer.inputs import Array, InputError
from mercer.kernels.base import AbstractKernel
from mercer.kernels.traits import Traits
from mercer.params import Hyper, ParameterError, hyper, positive, real


class OutputNoise(AbstractKernel):
    """Noise that the outputs of one row share: (loadings loadings')[o, o'] for two outputs of the same row,
    and nothing between rows (GPML 9.1). A term of a sum, beside noise of each output's own in the likelihood.

    Reads two columns: the number of the row, and the number of the output, from 0. Rows to predict have
    numbers that the training rows do not have; one below 0 is a row without this noise, where f is asked for.

    loadings: (p, r), one row for each output, in units of y.

    >>> signal = SE().on(0) * CategoricalCovariance([0, 1], [[1.0], [0.5]]).on(2)
    >>> signal + OutputNoise([[0.3], [-0.2]]).on(1, 2)        # columns: x, row, output
    """

    loadings: Hyper = hyper(constraint=real)

    def __check_init__(self):
        if np.ndim(self.loadings) != 2:
            raise ParameterError(
                "OutputNoise.loadings must be (p, r), one row for each output; got shape "
                f"{np.shape(self.loadings)}."
            )

    def bind(self, d: int, names: tuple[str, ...] | None = None) -> Self:
        if d != 2:
            raise ParameterError(
                f"OutputNoise reads two columns, the row's number and the output's; there are {d}: choose "
                "them with .on(...)."
            )
        return self

    def reads_objects(self) -> bool:
        return True

    def encode(self, X: Array) -> Array:
        return as_numbers(X, np.shape(self.loadings)[0], "OutputNoise")

    def block(self, A: jax.Array, B: jax.Array) -> jax.Array:
        a, b = (self.loadings[Z[:, 1].astype(int)] for Z in (A, B))
        same = (A[:, None, 0] == B[None, :, 0]) & (A[:, None, 0] >= 0)
        return jnp.where(same, a @ b.T, 0.0)

    def amplitude(self) -> tuple[str, ...]:
        return ()

    def traits(self, d: int = 1) -> Traits:
        return Traits(beyond="adds noise that the outputs of a row share")


class ProcessConvolution(AbstractKernel):
    """Outputs that share one white noise, each smoothed by a Gaussian of its own width (Boyle and Frean):

        a_o a_o' prod_d sqrt(2 l_od l_o'd / (l_od^2 + l_o'd^2)) exp(-(x_d - x'_d)^2 / (l_od^2 + l_o'd^2))

    Each output on its own is SE with its length-scales; two are the closer related the more alike these are,
    and alike up to a factor where they are equal. For weaker relations multiply by a `CategoricalCovariance`
    on the column of the output.

    Reads the columns of x and, as the last, the number of the output, from 0.

    lengthscales: (p,), or (p, d) for columns of x of their own, in their units
    amplitudes: (p,) or one number, in units of y; of different signs where outputs run against each other

    >>> ProcessConvolution([0.3, 1.2], [1.0, -2.0])           # rows (x, output)
    """

    lengthscales: Hyper = hyper(constraint=positive)
    amplitudes: Hyper = hyper(1.0, real)

    def __check_init__(self):
        p = np.shape(self.lengthscales)[0] if np.ndim(self.lengthscales) else 0
        if np.ndim(self.lengthscales) not in (1, 2):
            raise ParameterError(
                "ProcessConvolution.lengthscales must be (p,) or (p, d), one row for each output; got shape "
                f"{np.shape(self.lengthscales)}."
            )
        if np.shape(self.amplitudes) not in ((), (p,)):
            raise ParameterError(f"ProcessConvolution.amplitudes must be one number or {p}, one each.")

    def bind(self, d: int, names: tuple[str, ...] | None = None) -> Self:
        columns = d - 1 if np.ndim(self.lengthscales) == 1 else np.shape(self.lengthscales)[1]
        if d < 2 or columns != d - 1:
            raise ParameterError(
                f"ProcessConvolution has length-scales of {columns} columns, and reads the output in one "
                f"more; there are {d}."
            )
        return self

    def encode(self, X: Array) -> Array:
        return as_numbers(X, np.shape(self.lengthscales)[0], "ProcessConvolution")

    def reads_objects(self) -> bool:
        return True

    def suggest(self, X: np.ndarray, variance: float) -> ProcessConvolution:
        values = np.asarray(X, float)[:, :-1]
        spread = np.std(values, 0)
        scale = np.where(spread > 0, spread, 1.0)
        width = scale if np.ndim(self.lengthscales) == 2 else float(np.mean(scale))
        signs = np.where(np.asarray(self.amplitudes) < 0, -1.0, 1.0)
        return self.with_values(
            lengthscales=np.broadcast_to(width, np.shape(self.lengthscales)),
            amplitudes=signs * math.sqrt(variance),
        )

    def block(self, A: jax.Array, B: jax.Array) -> jax.Array:
        p, d = self.lengthscales.shape[0], A.shape[1] - 1
        lengths = jnp.broadcast_to(self.lengthscales.reshape(p, -1), (p, d))
        amplitudes = jnp.broadcast_to(self.amplitudes, (p,))
        (a, la), (b, lb) = ((amplitudes[o], lengths[o]) for o in (A[:, -1].astype(int), B[:, -1].astype(int)))
        out = a[:, None] * b[None, :]
        for c in range(d):
            total = la[:, None, c] ** 2 + lb[None, :, c] ** 2
            overlap = jnp.sqrt(2.0 * la[:, None, c] * lb[None, :, c] / total)
            out = out * overlap * jnp.exp(-((A[:, None, c] - B[None, :, c]) ** 2) / total)
        return out

    def amplitude(self) -> tuple[str, ...]:
        return ("amplitudes",)

    def traits(self, d: int = 1) -> Traits:
        return Traits(beyond="returns to the mean")


def as_numbers(X: Array, p: int, who: str) -> Array:
    """Rows (n, d) whose last column numbers the p outputs, checked."""
    if isinstance(X, jax.core.Tracer):
        return X
    values = np.asarray(X, float)
    wrong = np.flatnonzero(~np.isin(values[:, -1], np.arange(p)))
    if wrong.size:
        raise InputError(
            f"{who} knows the outputs 0 to {p - 1}; that of row {wrong[0]} is {values[wrong[0], -1]:g}."
        )
    return values
