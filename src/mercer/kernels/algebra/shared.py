"""One length-scale for several columns: those of a category or of a season are one thing."""

from __future__ import annotations

import equinox as eqx
import jax
import numpy as np

from mercer.kernels.algebra.sums import AbstractComposite
from mercer.kernels.base import AbstractKernel, Encoded
from mercer.kernels.families.stationary import AbstractStationary
from mercer.kernels.traits import Traits
from mercer.params import ParameterError, replace_leaves


class Shared(AbstractComposite):
    """A stationary kernel whose length-scales each serve a group of columns.

    kernel: stationary, with one length-scale for each group. groups: for each column the number of its
    length-scale, counted from 0. names: what the length-scales are called.

    A category of m levels in m columns, 0 or 1 / sqrt 2, adds 1 / lengthscale^2 to the squared distance of
    rows with different levels and nothing to that of others; a season is the sine and the cosine of one
    angle.

    >>> Shared(Matern([2.0, 0.7]), groups=[0, 1, 1, 1])       # a number, and a category of three levels
    """

    kernel: AbstractStationary = eqx.field(metadata={"transparent": True})
    groups: tuple[int, ...] = eqx.field(static=True, converter=lambda groups: tuple(map(int, groups)))
    names: tuple[str, ...] | None = eqx.field(static=True, default=None)

    def __check_init__(self):
        if not isinstance(self.kernel, AbstractStationary) or self.kernel.loadings is not None:
            raise ParameterError("Shared takes a stationary kernel with length-scales and no loadings.")
        needed = np.size(self.kernel.lengthscale)
        if np.ndim(self.kernel.lengthscale) != 1 or sorted(set(self.groups)) != list(range(needed)):
            raise ParameterError(
                f"Shared.groups must give each column one of the kernel's {needed} length-scales, and each "
                f"length-scale a column; got {list(self.groups)}."
            )

    @property
    def parts(self) -> tuple[AbstractKernel, ...]:
        """The kernels it is made of."""
        return (self.kernel,)

    def rebuild(self, parts: tuple[AbstractKernel, ...]) -> Shared:
        (kernel,) = parts
        assert isinstance(kernel, AbstractStationary)
        return Shared(kernel, self.groups, self.names)

    def expanded(self) -> AbstractStationary:
        """The same covariance with a length-scale for each column."""
        return replace_leaves(
            self.kernel, {"lengthscale": self.kernel.lengthscale[np.array(self.groups, int)]}
        )

    def bind(self, d: int, names: tuple[str, ...] | None = None) -> Shared:
        if len(self.groups) != d:
            raise ParameterError(f"Shared.groups is for {len(self.groups)} columns but there are {d}.")
        return self

    def suggest(self, X: np.ndarray, variance: float) -> Shared:
        """As `AbstractStationary.suggest`; the spread of a group is the root of the sum of its columns'
        variances.
        """
        sizes = np.bincount(self.groups, np.var(X, 0))
        spread = np.sqrt(np.where(sizes > 0, sizes, 1.0))
        return self.rebuild(
            (self.kernel.with_values(lengthscale=spread * len(spread) ** 0.25, variance=variance),)
        )

    def block(self, A: Encoded, B: Encoded) -> jax.Array:
        return self.expanded().block(A, B)

    def traits(self, d: int = 1) -> Traits:
        return self.expanded().traits(d)

    def amplitude(self) -> tuple[str, ...]:
        return self.kernel.amplitude()
