"""The covariance of linear observations of a function: values, derivatives, integrals (GPML 9.4)."""

from __future__ import annotations

import warnings
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from mercer.inputs import Array, InputError, as_inputs
from mercer.kernels.algebra.boxes import Boxes, averaged, node_error
from mercer.kernels.algebra.transforms import AbstractTransform
from mercer.kernels.base import AbstractKernel
from mercer.kernels.spectral.smoothness import MOST, regularity
from mercer.kernels.traits import Traits
from mercer.observe import Observations, values
from mercer.observe.rows import Rows, differentiated, order_of, read, width_of
from mercer.params import ParameterError

ROUGH = 1e-3  # error of an integral by nodes, relative to its standard deviation, from which on it is told


class Observed(AbstractTransform):
    """The covariance of observations L f and L' f of a function f with the covariance `kernel`, applied to it
    from both sides: L L' k(x, x') (9.1). A row of inputs says what L is: see `mercer.observe.rows`.

    columns: how many columns f has. Inputs of just these are values of f
    names: what they are called, where they have names
    boxed: the columns in which boxes may have a width; None: those in which they do

    A GP that is conditioned on `mercer.observe.Observations` gets its kernel wrapped so.

    >>> data = mercer.observe.values(X) + mercer.observe.derivatives(X, column=0)
    >>> Observed(SE(), columns=X.shape[1])(data.rows)         # (2 n, 2 n)
    """

    columns: int = eqx.field(static=True, default=1)
    names: tuple[str, ...] | None = eqx.field(static=True, default=None)
    boxed: tuple[int, ...] | None = eqx.field(static=True, default=None)

    def rebuild(self, parts: tuple[AbstractKernel, ...]) -> Observed:
        return Observed(parts[0], self.columns, self.names, self.boxed)

    def bind(self, d: int, names: tuple[str, ...] | None = None) -> Observed:
        if d != self.columns:
            try:
                order_of(d, self.columns)
            except InputError as error:
                raise ParameterError(str(error)) from None
        if self.kernel.reads_objects():
            raise ParameterError(
                f"{self.kernel.formula()} reads text or other objects, which have no derivatives and no "
                "integrals: give the categories numbers, and a kernel of numbers."
            )
        return self.rebuild((self.kernel.bind(self.columns, self.names),))

    def encode(self, X: Array) -> Rows:
        return read(X, self.columns, self.boxed)

    def suggest(self, X: np.ndarray, variance: float) -> Observed:
        return self.rebuild((self.kernel.suggest(X[:, : self.columns], variance),))

    def block(self, A: Rows, B: Rows) -> jax.Array:
        def by_second(x: Array) -> Any:
            def covariance(z: Array) -> jax.Array:
                return self._average(x, A, z, B)

            return differentiated(covariance, B, axis=1)(B.x)

        K = differentiated(by_second, A, axis=0)(A.x)
        return jnp.asarray(A.weight)[:, None] * K * jnp.asarray(B.weight)[None, :]

    def _average(self, x, A: Rows, z, B: Rows):
        """Of k over the boxes of A, moved to x, and of B, moved to z."""
        kernel = self.kernel

        def at_points(x, z):
            return kernel.block(kernel.encode(x), kernel.encode(z))

        def over_boxes(x, z):
            return averaged(kernel, Boxes(x, A.width, A.boxed), Boxes(z, B.width, B.boxed))

        if not (A.boxed or B.boxed):
            return at_points(x, z)
        some = jnp.any(A.width != 0.0) | jnp.any(B.width != 0.0)  # a tile of points does not pay for boxes
        return jax.lax.cond(some, over_boxes, at_points, x, z)

    def traits(self, d: int = 1) -> Traits:
        return Traits(smoothness=self.kernel.traits(self.columns).smoothness, beyond="knows no derivative")

    # -- what people hand in ---------------------------------------------------------------------------------

    def rows(self, X: Any, name: str = "Xs") -> np.ndarray:
        """Rows of observations, checked; plain inputs X (m, d) are values there."""
        if not isinstance(X, Observations):
            inputs = as_inputs(X, name, self.names)
            d = inputs.values.shape[1]
            if d == self.columns:
                return values(inputs).rows
            if d < width_of(self.columns, 0):
                raise InputError(f"{name} has {d} columns but the model was conditioned on {self.columns}.")
            order_of(d, self.columns)
            return inputs.values
        if X.columns != self.columns:
            raise InputError(
                f"{name} has {X.columns} columns but the model was conditioned on {self.columns}."
            )
        if X.names is not None and self.names is not None and X.names != self.names:
            raise InputError(
                f"{name} has the columns {X.names}, the model {self.names}: give them in its order."
            )
        self.check(X)
        return X.rows

    def check(self, data: Observations) -> None:
        """An error where functions are not differentiable as often as they were; a warning where integrals by
        nodes are not right to a thousandth.
        """
        self._check_boxes(data)
        order = int(data.orders.max(initial=0))
        if order == 0:
            return
        known = regularity(self.kernel, self.columns)
        if order <= known.derivatives:
            return
        most = (
            f"at most {MOST} are looked for"
            if known.numerical and known.derivatives == MOST
            else ("none" if known.derivatives < 1 else f"{known.derivatives:g}")
        )
        raise InputError(
            f"a derivative of order {order} was given or asked for, but functions of {self.kernel.formula()} "
            f"have {most}: use a smoother kernel, such as Matern(nu={order + 0.5:g}) or SE()."
        )

    def _check_boxes(self, data: Observations) -> None:
        """A warning where nodes are too few for the widest box."""
        d = self.columns
        width = data.rows[:, d : 2 * d]
        boxed = tuple(np.flatnonzero(width.any(0)).tolist())
        if not boxed:
            return
        row = int(np.argmax(np.sum(width / np.maximum(width.max(0), 1e-300), 1)))
        error = node_error(self.kernel, Boxes(data.points[row : row + 1], width[row : row + 1], boxed))
        if error > ROUGH:
            warnings.warn(
                f"integrals of functions of {self.kernel.formula()} are sums over nodes, which are too few "
                f"for the box of row {row}: the error is about {error:.1g} of its standard deviation. "
                "Give narrower boxes, or an SE kernel, whose integrals are exact.",
                UserWarning,
                stacklevel=4,
            )
