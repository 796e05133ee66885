"""Kernels on rows (x, output): what several outputs have in common beside a product with a
`CategoricalCovariance`.
"""

from __future__ import annotations

from typing import Self

import jax
import jax.numpy as jnp
import numpy as np

from mercer.inputs import Array, InputError
from mercer.kernels.base import AbstractKernel
from mercer.kernels.traits import Traits
from mercer.params import Hyper, ParameterError, hyper, real


class OutputNoise(AbstractKernel):
    """Noise that the outputs of one row share: (loadings loadings')[o, o'] for two outputs of the same row,
    and nothing between rows (GPML 9.1). A term of a sum, beside noise of each output's own in the likelihood.

    Reads two columns: the number of the row, and the number of the output, from 0. Rows to predict need
    numbers of their own: those that the training rows do not have.

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
        return jnp.where(A[:, None, 0] == B[None, :, 0], a @ b.T, 0.0)

    def amplitude(self) -> tuple[str, ...]:
        return ()

    def traits(self, d: int = 1) -> Traits:
        return Traits(beyond="adds noise that the outputs of a row share")


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
