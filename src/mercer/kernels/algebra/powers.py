"""Powers of a kernel."""

from __future__ import annotations

import math
from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from mercer.kernels.algebra.columns import On
from mercer.kernels.algebra.sums import AbstractComposite, Product, Scale, row_products
from mercer.kernels.base import AbstractKernel, Encoded
from mercer.kernels.families.dot import Constant
from mercer.kernels.families.stationary import SE, GammaExponential, Matern, Periodic, RationalQuadratic
from mercer.kernels.traits import Traits, joint
from mercer.kernels.words.names import POWER
from mercer.params import ParameterError


class Power(AbstractComposite):
    """k ** p: a whole number p >= 1, or any p > 0 for a kernel that is infinitely divisible (SE, Matern, RQ,
    their products).
    """

    level: ClassVar[int] = POWER
    kernel: AbstractKernel
    exponent: float = eqx.field(static=True)

    def __post_init__(self):
        super().__post_init__()
        p = self.exponent
        if isinstance(p, (int, float, np.number)) and not isinstance(p, bool):
            self.exponent = int(p) if float(p).is_integer() else float(p)

    def __check_init__(self):
        p = self.exponent
        whole = isinstance(p, int) and not isinstance(p, bool) and p >= 1
        if not whole and not (isinstance(p, float) and p > 0 and infinitely_divisible(self.kernel)):
            raise ParameterError(
                f"the exponent of a kernel must be a whole number of at least 1, got {p!r}: other positive "
                "powers are covariances "
                "only for infinitely divisible kernels (SE, Matern, RationalQuadratic, GammaExponential, "
                "Periodic, Constant, their "
                "products)."
            )

    @property
    def parts(self) -> tuple[AbstractKernel, ...]:
        """The kernels it is made of."""
        return (self.kernel,)

    def rebuild(self, parts: tuple[AbstractKernel, ...]) -> Power:
        return Power(parts[0], self.exponent)

    def suggest(self, X: np.ndarray, variance: float) -> Power:
        return self.rebuild((self.kernel.suggest(X, variance ** (1 / self.exponent)),))

    def block(self, A: Encoded, B: Encoded) -> jax.Array:
        K = self.kernel.block(A, B)
        if isinstance(self.exponent, int):
            return K**self.exponent
        return jnp.where(K > 0.0, jnp.where(K > 0.0, K, 1.0) ** self.exponent, 0.0)

    def rank(self, d: int) -> int | None:
        rank = self.kernel.rank(d)
        if rank is None or (rank > 1 and not isinstance(self.exponent, int)):
            return None
        return int(rank**self.exponent)

    def features(self, A: Encoded) -> jax.Array:
        features = self.kernel.features(A)
        return (
            row_products([features] * self.exponent)
            if isinstance(self.exponent, int)
            else features**self.exponent
        )

    def traits(self, d: int = 1) -> Traits:
        return joint([self.kernel.traits(d)] * math.ceil(self.exponent), product=True)

    def amplitude(self) -> tuple[str, ...]:
        return tuple(f"kernel.{name}" for name in self.kernel.amplitude())

    def formula(self, digits: int = 6) -> str:
        return f"({self.kernel.formula(digits)}) ** {self.exponent!r}"


def infinitely_divisible(kernel: AbstractKernel) -> bool:
    """Whether every positive power of the kernel is known to be a covariance.

    The SE, gamma-exponential and Matern are characteristic functions of the normal, stable and Student t
    distributions, which are infinitely divisible; powers of the periodic kernel and of the rational quadratic
    change only a parameter.
    """
    if isinstance(kernel, Product):
        return all(map(infinitely_divisible, kernel.factors))
    if isinstance(kernel, (Scale, On, Power)):
        return infinitely_divisible(kernel.kernel)
    return isinstance(kernel, (SE, Matern, RationalQuadratic, GammaExponential, Periodic, Constant))
