"""What a covariance function is: `block(A, B)` on encoded inputs says it once,
everything else is a view of that.
"""

from __future__ import annotations

import abc
import dataclasses
import numbers
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeAlias, cast

import jax
import numpy as np
from numpy.typing import ArrayLike

from mercer.inputs import Inputs, as_inputs, numeric
from mercer.kernels.traits import Flags, Traits
from mercer.kernels.words.names import CALL, leads, simple
from mercer.linalg import tiles
from mercer.params import Info, Param, ParameterError, Parametrised, replace_leaves, strip

if TYPE_CHECKING:
    from mercer.kernels.algebra.columns import On
    from mercer.kernels.algebra.powers import Power
    from mercer.kernels.algebra.sums import Product, Scale, Sum
    from mercer.kernels.algebra.transforms import Normalised, Rescale, Warp

# what `encode` gives and `block` reads: an array, or a tuple or dataclass of arrays, of leading axis n
Encoded: TypeAlias = Any


class AbstractKernel(Parametrised):
    """A covariance function k(x, x').

    A new kernel defines `block` (or, if stationary, `profile`: see `AbstractStationary`). Kernels combine as
    in the book: `k1 + k2`, `k1 * k2`, `2.0 * k`, `k ** 2`, `k.on(0, 2)`.

    Calling a kernel on inputs gives the covariance matrix as a NumPy array: `k(X)` is (n, n), `k(X1, X2)` is
    (n1, n2).

    >>> kernel = kernels.SE(10.0) + 0.5 * kernels.Periodic(period=1.0)
    >>> kernel(X), kernel(X, Xs)                              # (n, n), (n, m)
    >>> print(kernel, kernel.describe())
    """

    level: ClassVar[int] = CALL

    @abc.abstractmethod
    def block(self, A: Encoded, B: Encoded) -> jax.Array:
        """Covariance matrix (a, b) between encoded inputs with a and b rows; pure JAX."""

    # -- hooks: the defaults are right for a plain numeric kernel --------------------------------------------

    def encode(self, X: Any) -> Encoded:
        """What the kernel reads from the user's inputs: arrays of leading axis n.
        Numeric kernels read the columns as they are.
        """
        return X if isinstance(X, jax.Array) else numeric(X)

    def reads_objects(self) -> bool:
        """Whether the inputs may be text, categories or other Python objects."""
        return False

    def bind(self, d: int, names: tuple[str, ...] | None = None) -> Self:
        """This kernel for inputs with d columns of the given names: resolves names,
        checks the lengths of vectors.
        """
        for f in dataclasses.fields(self):
            value = getattr(self, f.name)
            if "constraint" in f.metadata and np.ndim(value) == 1 and np.shape(value)[0] != d:
                raise ParameterError(
                    f"{type(self).__name__}.{f.name} has {np.shape(value)[0]} entries but the kernel sees "
                    f"{d} input "
                    f"column{'s' if d != 1 else ''}; give one number, {d} of them, or choose columns with "
                    ".on(...)."
                )
        return self

    def rank(self, d: int) -> int | None:
        """Rank of the covariance on d columns if it is finite (a degenerate kernel), else None."""
        return None

    def features(self, A: Encoded) -> jax.Array:
        """Features Psi (a, rank) with `block(A, B) = Psi(A) Psi(B)'`, for kernels of finite rank."""
        raise TypeError(f"{type(self).__name__} has no finite feature expansion: use the 'dense' solver.")

    def traits(self, d: int = 1) -> Traits:
        """What the kernel says of itself on d columns (stationary, smoothness, period ...);
        what it leaves out is not known.
        """
        return Traits()

    def amplitude(self) -> tuple[str, ...]:
        """Names of the hyperparameters that set the overall scale;
        a product keeps only one of its factors' free.
        """
        return ("variance",) if np.ndim(getattr(self, "variance", np.zeros(1))) == 0 else ()

    def suggest(self, X: np.ndarray, variance: float) -> Self:
        """The same kernel with data-driven starting values for what is free: columns X (n, d),
        variance of the targets.
        """
        return self.with_values(variance=variance) if hasattr(self, "variance") else self

    def with_values(self, **values: Any) -> Self:
        """This kernel with new values where they are free (a scalar is spread over a vector);
        the rest stays.
        """
        info = dict(self.info)
        new = {
            name: np.broadcast_to(np.asarray(v, float), np.shape(getattr(self, name))).copy()
            for name, v in values.items()
            if info.get(name, Info()).free
        }
        return replace_leaves(self, new)

    # -- views -----------------------------------------------------------------------------------------------

    def point(self, x1: Encoded, x2: Encoded) -> jax.Array:
        """k(x1, x2) for two single encoded inputs: a scalar, differentiable in the inputs."""
        first = jax.tree.map(lambda a: a[None], (x1, x2))
        return self.block(*first)[0, 0]

    def diag(self, A: Encoded) -> jax.Array:
        """k(x, x) for every row of A: (a,)."""
        return jax.vmap(lambda a: self.point(a, a))(A)

    def flags(self, d: int = 1) -> Flags:
        """The classes the kernel belongs to on d columns: stationary, isotropic, dot-product, degenerate;
        its largest dimension.
        """
        t, rank = self.traits(d), self.rank(d)
        return Flags(t.stationary, t.isotropic, t.dot_product, rank is not None, rank, t.max_dimension)

    def spectral_density(self, s: ArrayLike, d: int | None = None) -> np.ndarray:
        """Spectral density S(s), the Fourier transform of a stationary kernel (4.6);
        see `spectral.spectral_density`.
        """
        from mercer.kernels.spectral.density import spectral_density

        return spectral_density(self, s, d)

    def describe(self, d: int | None = None) -> str:
        """The kernel in words: what kind of functions it expects, term by term for a sum. d:
        the number of columns it will see.
        """
        from mercer.kernels.words.describe import describe

        return describe(self, d)

    def __call__(self, X1: Any, X2: Any = None) -> np.ndarray:
        first = _inputs(X1, self.reads_objects())
        kernel = strip(self.bind(first.values.shape[1], first.names))
        A = kernel.encode(first.values)
        B = A if X2 is None else kernel.encode(_inputs(X2, self.reads_objects(), first.names).values)
        if any(isinstance(x, jax.core.Tracer) for x in jax.tree.leaves((kernel, A, B))):
            return cast("np.ndarray", kernel.block(A, B))  # as a tracer
        return tiles.matrix(kernel, A, B)

    # -- algebra ---------------------------------------------------------------------------------------------

    def __add__(self, other: Any) -> Sum:
        from mercer.kernels.algebra.sums import Sum

        other = _as_kernel(other)
        return NotImplemented if other is None else Sum((*_terms(self, Sum), *_terms(other, Sum)))

    def __radd__(self, other: Any) -> Sum:
        other = _as_kernel(other)
        return NotImplemented if other is None else other + self

    def __mul__(self, other: Any) -> Product | Scale:
        from mercer.kernels.algebra.sums import Product, Scale

        if isinstance(other, (numbers.Real, Param)) or (isinstance(other, np.ndarray) and other.ndim == 0):
            return Scale(other, self)
        if not isinstance(other, AbstractKernel):
            return NotImplemented
        if isinstance(self, Scale):
            return Scale(given(self, "variance"), self.kernel * other)
        if isinstance(other, Scale):
            return Scale(given(other, "variance"), self * other.kernel)
        return Product((*_terms(self, Product), *_terms(other, Product)))

    def __rmul__(self, other: Any) -> Product | Scale:
        return self.__mul__(other)

    def __pow__(self, exponent: float) -> Power:
        from mercer.kernels.algebra.powers import Power

        return Power(self, exponent)

    def on(self, *columns: int | str) -> On:
        """The same kernel reading only these input columns, by position or by name."""
        from mercer.kernels.algebra.columns import On

        return On(self, columns)

    def rescale(self, function: Callable[[np.ndarray], Any]) -> Rescale:
        """a(x) k(x, x') a(x') for a function X (n, d) -> (n,): the same functions, multiplied by a(x)."""
        from mercer.kernels.algebra.functions import as_function
        from mercer.kernels.algebra.transforms import Rescale

        return Rescale(self, as_function(function))

    def warp(self, function: Callable[[np.ndarray], Any] | ArrayLike) -> Warp:
        """k(u(x), u(x')) for a function u, X (n, d) -> (n, q), or a matrix (q, d); q may be another
        number of columns."""
        from mercer.kernels.algebra.functions import as_function
        from mercer.kernels.algebra.transforms import Warp

        return Warp(self, as_function(function))

    def normalised(self) -> Normalised:
        """k(x, x') / sqrt(k(x, x) k(x', x')) (4.35): the correlation."""
        from mercer.kernels.algebra.transforms import Normalised

        return Normalised(self)

    # -- names -----------------------------------------------------------------------------------------------

    def formula(self, digits: int = 6) -> str:
        """The kernel as an algebraic expression that `kernels.parse` reads back;
        17 digits keep every bit and all that was said.
        """
        return simple(self, digits)

    def leads(self, digits: int = 6) -> bool:
        """Whether a number in front of the formula is the kernel's own variance."""
        return leads(self, digits)

    def __repr__(self) -> str:
        return self.formula()


def _as_kernel(other: Any) -> AbstractKernel | None:
    from mercer.kernels.algebra.sums import Constant

    if isinstance(other, AbstractKernel):
        return other
    return (
        Constant(other) if isinstance(other, (numbers.Real, Param)) and not isinstance(other, bool) else None
    )


def _terms(kernel: AbstractKernel, kind: type[Sum | Product]) -> tuple[AbstractKernel, ...]:
    return kernel.children if isinstance(kernel, kind) else (kernel,)


def given(kernel: AbstractKernel, field: str) -> Any:
    """A hyperparameter with all that was said of it, to build another kernel with."""
    value, said = getattr(kernel, field), dict(kernel.info).get(field)
    return value if said is None else Param(value, said)


def _inputs(X: Any, objects: bool, names: tuple[str, ...] | None = None) -> Inputs:
    if isinstance(X, jax.core.Tracer):
        traced: Any = X
        return Inputs(traced)
    return as_inputs(X, columns=names, objects=objects)
