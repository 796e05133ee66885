"""Kernels that Mercer does not compute: a function of yours on any Python objects, or a matrix of yours."""

from __future__ import annotations

import collections
import dataclasses
import threading
import weakref
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike

from mercer.inputs import Array, InputError, numeric
from mercer.kernels.algebra.functions import Function
from mercer.kernels.base import AbstractKernel
from mercer.kernels.text.base import entries
from mercer.kernels.words.names import number
from mercer.linalg.tiles import rows
from mercer.params import Hyper, ParameterError, hyper, positive

REMEMBERED = 2**28  # bytes of covariances that are kept for each function


class ObjectKernel(AbstractKernel):
    """variance * function(x, x') for a function of yours on any Python objects: molecules, graphs, strings,
    dictionaries.

    function: (a, b) -> a number; with `blocks=True` (list of a, list of b) -> a matrix. It must be symmetric
    and positive semi-definite. name: how formulas and saved models call it; by default its own name.

    The function runs in Python, once for each pair while learning (its values are remembered); composites
    with other kernels, and all their hyperparameters, work as usual. Equal objects that can be hashed are
    taken as the same one. The objects stay in memory as long as the function.

    >>> shared = ObjectKernel(lambda a, b: len(a & b), name="shared")
    >>> GP(shared + Constant()).condition([{1, 2}, {2, 3}, {5}], y, noise_variance=0.1)
    """

    function: Any
    name: str | None = eqx.field(default=None, static=True)
    blocks: bool = eqx.field(default=False, static=True)
    variance: Hyper = hyper(1.0, positive)

    def __post_init__(self):
        super().__post_init__()
        given = self.function.function if isinstance(self.function, Function) and self.name else self.function
        self.function = given if isinstance(given, Function) else Function(given, self.name or "")
        self.name = None  # it is the function's

    def __check_init__(self):
        try:
            weakref.ref(self.function.function)
        except TypeError:
            raise ParameterError(
                f"ObjectKernel.function: wrap {self.function.name!r} in a Python function (def)."
            ) from None

    def reads_objects(self) -> bool:
        return True

    def bind(self, d: int, names: tuple[str, ...] | None = None) -> ObjectKernel:
        if d != 1:
            raise ParameterError(
                f"ObjectKernel reads one column of objects; there are {d}: choose one with .on(...)."
            )
        return self

    def encode(self, X: Any) -> np.ndarray:
        """Handles (n,) of the objects."""
        return _store(self.function.function).handles(entries(X, "objects"))

    def block(self, A: jax.Array, B: jax.Array) -> jax.Array:
        return self._called(_Store.matrix, (rows(A), rows(B)), A, B)

    def diag(self, A: jax.Array) -> jax.Array:
        return self._called(_Store.diagonal, (rows(A),), A)

    def _called(self, method: Callable, shape: tuple[int, ...], *handles):
        store, function = _store(self.function.function), self.function
        fill = lambda *h: method(store, function, self.blocks, *map(np.asarray, h))  # noqa: E731
        out = jax.pure_callback(fill, jax.ShapeDtypeStruct(shape, float), *handles, vmap_method="sequential")
        return self.variance * out


class _Store:
    """The objects that a function was shown, by handle, and its recent values."""

    def __init__(self):
        self.objects: list[Any] = []
        self.places: dict[Any, int] = {}
        self.recent: collections.OrderedDict[tuple[bytes, ...], np.ndarray] = collections.OrderedDict()
        self.size = 0
        self.lock = threading.Lock()  # tiles are filled by several threads

    def handles(self, objects: list) -> np.ndarray:
        return np.array([self._handle(x) for x in objects], dtype=np.int32)

    def _handle(self, x) -> int:
        try:
            key: Any = (type(x), x)
            hash(key)
        except TypeError:
            key = ("the object at", id(x))
        if key not in self.places:
            self.places[key] = len(self.objects)
            self.objects.append(x)
        return self.places[key]

    def matrix(self, function: Function, blocks: bool, A: np.ndarray, B: np.ndarray) -> np.ndarray:
        return self._remembered((A.tobytes(), B.tobytes()), lambda: self._matrix(function, blocks, A, B))

    def diagonal(self, function: Function, blocks: bool, A: np.ndarray) -> np.ndarray:
        def fill():
            return np.array([self._matrix(function, blocks, a, a)[0, 0] for a in A[:, None]])

        return self._remembered((A.tobytes(),), fill)

    def _matrix(self, function: Function, blocks: bool, A: np.ndarray, B: np.ndarray) -> np.ndarray:
        own = {handle: i for i, handle in enumerate(dict.fromkeys(A.tolist()))}
        other = {handle: i for i, handle in enumerate(dict.fromkeys(B.tolist()))}
        left, right = ([self.objects[h] for h in handles] for handles in (own, other))
        if blocks:
            out = np.asarray(function.function(left, right), float)
        elif own.keys() == other.keys():
            out = np.empty((len(own), len(own)))
            for i, a in enumerate(left):
                for j in range(i + 1):
                    out[i, j] = out[j, i] = function.function(a, left[j])
            out = out[:, [own[h] for h in other]]
        else:
            out = np.array([[function.function(a, b) for b in right] for a in left], dtype=float)
        if out.shape != (len(left), len(right)) or not np.isfinite(out).all():
            raise InputError(
                f"the function {function.name!r} gave shape {out.shape} or entries that are not finite for "
                f"{len(left)} and "
                f"{len(right)} objects."
            )
        return out[np.ix_([own[h] for h in A.tolist()], [other[h] for h in B.tolist()])]

    def _remembered(self, key: tuple[bytes, ...], fill: Callable[[], np.ndarray]) -> np.ndarray:
        with self.lock:
            for known, value in ((key, self.recent.get(key)), (key[::-1], self.recent.get(key[::-1]))):
                if value is not None:
                    self.recent.move_to_end(known)
                    return value.T if known is not key else value
        value = fill()
        with self.lock:
            self.recent[key] = value
            self.size += value.nbytes
            while self.size > REMEMBERED and len(self.recent) > 1:
                self.size -= self.recent.popitem(last=False)[1].nbytes
        return value


_STORES: weakref.WeakKeyDictionary[Callable, _Store] = weakref.WeakKeyDictionary()


def _store(function: Callable) -> _Store:
    return _STORES.setdefault(function, _Store())


# ------------------------------------------------------------------------------------------------- a given
# matrix


class Matrix:
    """An array that is part of a kernel's structure; equal to another of the same bits."""

    def __init__(self, values: ArrayLike):
        self.values = np.array(values, dtype=np.float64)
        self.values.setflags(write=False)
        self._hash = hash((self.values.shape, self.values.tobytes()))

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other) -> bool:
        return self is other or (isinstance(other, Matrix) and np.array_equal(self.values, other.values))

    def __array__(self, dtype=None, copy=None):
        return np.array(self.values, dtype=dtype, copy=copy)

    def formula(self, digits: int = 6) -> str:
        return number(self.values, digits)


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Rows:
    """Places (n,) in a matrix (N, N) and its rows there (n, N)."""

    places: Any
    values: Any


class Precomputed(AbstractKernel):
    """variance * gram[i, j] for a covariance matrix that was computed elsewhere; the inputs are places 0 ...
    N - 1 in it.

    >>> kernel = Precomputed(K)                                   # training and test cases together
    >>> post = GP(kernel).condition(train[:, None], y, noise_variance=0.1)
    >>> post.mean(test[:, None])
    """

    gram: Matrix = eqx.field(static=True, converter=lambda g: g if isinstance(g, Matrix) else Matrix(g))
    variance: Hyper = hyper(1.0, positive)

    def __check_init__(self):
        K = self.gram.values
        if K.ndim != 2 or K.shape[0] != K.shape[1] or K.shape[0] == 0 or not np.isfinite(K).all():
            raise ParameterError(
                f"Precomputed.gram must be a square matrix of finite numbers, got shape {K.shape}."
            )
        if np.abs(K - K.T).max() > 1e-10 * np.abs(K).max():
            raise ParameterError("Precomputed.gram is not symmetric.")
        eigenvalues = np.linalg.eigvalsh(0.5 * (K + K.T))
        if eigenvalues[0] < -1e-10 * K.shape[0] * max(eigenvalues[-1], 0.0):
            raise ParameterError(
                f"Precomputed.gram is not positive semi-definite: smallest eigenvalue {eigenvalues[0]:.3g}."
            )

    def bind(self, d: int, names: tuple[str, ...] | None = None) -> Precomputed:
        if d != 1:
            raise ParameterError(
                f"Precomputed reads one column of places in its matrix; there are {d}: choose one with "
                ".on(...)."
            )
        return self

    def encode(self, X: Array) -> Rows:
        K = self.gram.values
        places = numeric(np.asarray(X)).reshape(-1)
        wrong = (places != np.round(places)) | (places < 0) | (places >= K.shape[0])
        if wrong.any():
            row = int(np.argmax(wrong))
            raise InputError(
                f"row {row} is {places[row]:g}: Precomputed reads places 0 to {K.shape[0] - 1} in its matrix."
            )
        places = places.astype(np.int32)
        return Rows(places, K[places])

    def block(self, A: Rows, B: Rows) -> jax.Array:
        return self.variance * A.values[:, B.places]

    def diag(self, A: Rows) -> jax.Array:
        return self.variance * jnp.take_along_axis(A.values, A.places[:, None], 1)[:, 0]

    def suggest(self, X: np.ndarray, variance: float) -> Precomputed:
        return self.with_values(variance=variance / (float(np.mean(np.diag(self.gram.values))) or 1.0))
