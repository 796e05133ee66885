"""Functions that do not change when a finite group acts on the input: even functions, exchangeable columns,
rotations.
"""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from mercer.inputs import Array
from mercer.kernels.algebra.functions import AbstractFunction, LinearMap, as_function
from mercer.kernels.algebra.transforms import AbstractTransform, Warp
from mercer.kernels.base import AbstractKernel, Encoded
from mercer.params import ParameterError


class Invariant(AbstractTransform):
    """The average of k(g x, h x') over all g and h of a group: the prior of f averaged over the group, so f(g
    x) = f(x) exactly.

    actions: every element of the group, the identity too: (d, d) matrices, which are checked, or functions X
    (n, d) -> (n, d), which are not.

    >>> Invariant(SE(), [[[1.0]], [[-1.0]]])                      # even functions
    >>> Invariant(SE(), [lambda X: X, lambda X: X[:, ::-1]])      # the order of the columns does not matter
    """

    actions: tuple[AbstractFunction, ...] = eqx.field(
        converter=lambda actions: tuple(map(as_function, actions))
    )

    def __check_init__(self):
        if not self.actions:
            raise ParameterError("Invariant.actions must hold at least the identity.")
        matrices = [np.asarray(g.matrix) for g in self.actions if isinstance(g, LinearMap)]
        if len(matrices) == len(self.actions):
            _check_group(matrices)

    def rebuild(self, parts: tuple[AbstractKernel, ...]) -> Invariant:
        return Invariant(parts[0], self.actions)

    def bind(self, d: int, names: tuple[str, ...] | None = None) -> Invariant:
        for g in self.actions:
            if g.outputs(d) != d:
                raise ParameterError(
                    f"Invariant.actions must keep the number of columns ({d}); {g} does not."
                )
        return super().bind(d, names)

    def _warps(self):
        return [Warp(self.kernel, g) for g in self.actions]

    def reads_objects(self) -> bool:
        return False

    def encode(self, X: Array) -> tuple[Encoded, ...]:
        return tuple(warp.encode(X) for warp in self._warps())

    def block(self, A: tuple[Encoded, ...], B: tuple[Encoded, ...]) -> jax.Array:
        left, right = ([warp.warped(e) for warp, e in zip(self._warps(), Z, strict=True)] for Z in (A, B))
        total = sum((self.kernel.block(a, b) for a in left for b in right), jnp.zeros(()))
        return total / len(self.actions) ** 2

    def rank(self, d: int) -> int | None:
        return self.kernel.rank(d)

    def features(self, A: tuple[Encoded, ...]) -> jax.Array:
        images = [self.kernel.features(warp.warped(e)) for warp, e in zip(self._warps(), A, strict=True)]
        return sum(images, jnp.zeros(())) / len(self.actions)


def _check_group(matrices: list[np.ndarray]) -> None:
    """Closed under products; for finitely many invertible matrices that makes a group."""
    if len({m.shape for m in matrices}) != 1 or matrices[0].shape[0] != matrices[0].shape[1]:
        raise ParameterError("Invariant.actions must be square matrices of one size.")
    scale = max(np.abs(m).max() for m in matrices)
    for i, g in enumerate(matrices):
        if abs(np.linalg.det(g)) < 1e-8:
            raise ParameterError(f"Invariant.actions: matrix {i} is not invertible.")
        for j, h in enumerate(matrices):
            if min(np.abs(g @ h - m).max() for m in matrices) > 1e-8 * scale:
                raise ParameterError(
                    f"Invariant.actions is not a group: the product of matrices {i} and {j} is missing."
                )
