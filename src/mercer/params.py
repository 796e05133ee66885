"""Hyperparameters: bare float64 arrays in the fields of immutable values.

A kernel, mean or likelihood is a `Parametrised` value. A field made with `hyper` holds a hyperparameter; its
constraint stands in the field's metadata, and what a person says about one value (fixed, prior, bounds, tie)
goes to the static `info`:

>>> k.SE(lengthscale=param(1.0, prior=LogNormal(0, 1), bounds=(1e-3, 1e3)), variance=fixed(2.0))

Formulas read `self.lengthscale` and see a number. `parameters(value)` lists every hyperparameter by its
dotted name, `flatten` turns the free ones into one unconstrained vector and back, `strip` forgets priors and
bounds (before jit: they never recompile).
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeAlias, TypeVar

import equinox as eqx
import jax
import numpy as np

from mercer.html import card, lines, table
from mercer.registry import Saved

__all__ = [
    "Constraint",
    "Flattened",
    "Held",
    "Hyper",
    "Info",
    "Layout",
    "Param",
    "Parameter",
    "ParameterError",
    "Parametrised",
    "Static",
    "element_names",
    "fixed",
    "flatten",
    "hyper",
    "interval",
    "listed",
    "named_leaves",
    "nonnegative",
    "param",
    "parameters",
    "positive",
    "real",
    "replace_leaves",
    "strip",
    "unit",
]

# a hyperparameter in a field: given as a number, array, `param` or `fixed`; read as a float64 array
Hyper: TypeAlias = Any

Value = TypeVar("Value")


class ParameterError(ValueError):
    """A hyperparameter has a value its constraint does not allow."""


# -------------------------------------------------------------------------------------------------
# constraints


@dataclasses.dataclass(frozen=True)
class Constraint:
    """The open interval (lower, upper); `value` maps the real line onto it (exp for a half line,
    a logistic for an interval).
    """

    name: str
    lower: float = -np.inf
    upper: float = np.inf
    closed: bool = False  # the ends themselves are legal values, though never reached by learning

    def value(self, u: Any, xp: Any = np) -> Any:
        """Unconstrained number -> value; xp: the module of arrays, `jax.numpy` in compiled code."""
        if math.isfinite(self.lower) and math.isfinite(self.upper):
            return self.lower + (self.upper - self.lower) / (1.0 + xp.exp(-u))
        return self.lower + xp.exp(u) if math.isfinite(self.lower) else u

    def unconstrained(self, value: np.ndarray) -> np.ndarray:
        """Value -> unconstrained number (ends of an interval are moved inwards by 1e-13 of its width)."""
        if math.isfinite(self.lower) and math.isfinite(self.upper):
            t = np.clip((value - self.lower) / (self.upper - self.lower), 1e-13, 1 - 1e-13)
            return np.log(t) - np.log1p(-t)
        return np.log(np.maximum(value - self.lower, 1e-300)) if math.isfinite(self.lower) else value

    def slope(self, value: np.ndarray) -> np.ndarray:
        """d value / d unconstrained, expressed by the value itself."""
        if math.isfinite(self.lower) and math.isfinite(self.upper):
            return (value - self.lower) * (self.upper - value) / (self.upper - self.lower)
        return value - self.lower if math.isfinite(self.lower) else np.ones_like(value)

    def log_slope_derivative(self, value: np.ndarray) -> np.ndarray:
        """d log(slope) / d unconstrained: the Jacobian's part in the gradient of a log density over the
        unconstrained scale.
        """
        if math.isfinite(self.lower) and math.isfinite(self.upper):
            return 1.0 - 2.0 * (value - self.lower) / (self.upper - self.lower)
        return np.ones_like(value) if math.isfinite(self.lower) else np.zeros_like(value)

    def check(self, value: np.ndarray, where: str) -> None:
        """Refuse a value that is not within, or not finite; `where` says of what."""
        if not np.all(np.isfinite(value)):
            raise ParameterError(f"{where} must be finite, got {value}.")
        inside = (
            (value >= self.lower) & (value <= self.upper)
            if self.closed
            else (value > self.lower) & (value < self.upper)
        )
        if not np.all(inside):
            shown = np.array2string(value, formatter={"float_kind": lambda v: f"{v:.6g}"})
            raise ParameterError(f"{where} must be {self.name}, got {shown}.")


real = Constraint("a real number")
positive = Constraint("positive", lower=0.0)
nonnegative = Constraint("zero or positive", lower=0.0, closed=True)
unit = Constraint("between 0 and 1", 0.0, 1.0, closed=True)


def interval(lower: float, upper: float) -> Constraint:
    """The constraint lower <= value <= upper."""
    return Constraint(f"between {lower:g} and {upper:g}", lower, upper, closed=True)


# ------------------------------------------------------------------------------------------------- what a
# person says


@dataclasses.dataclass(frozen=True)
class Info:
    """What is known of a hyperparameter beyond its value; static, never seen by compiled code."""

    free: bool = True
    prior: Any = None
    bounds: tuple[float, float] | None = None
    tie: str | None = None


@dataclasses.dataclass(frozen=True, eq=False)
class Param:
    """A value with its `Info`, unpacked when the object that takes it is built."""

    value: Any
    info: Info


def param(
    value: Any, *, prior: Any = None, bounds: tuple[float, float] | None = None, tie: str | None = None
) -> Param:
    """A hyperparameter to be learned, starting at `value`: with a prior, bounds, or tied to others.

    value: in the units people see, a number or one for each column
    prior: its density, one of `mercer.hyperpriors`; learning then finds the posterior mode
    bounds: (lowest, highest)
    tie: a name; all hyperparameters of that name are one

    >>> kernels.SE(param(1.0, prior=hyperpriors.LogNormal(0, 1), bounds=(1e-3, 1e3)))
    >>> kernels.SE(param(1.0, tie="l")) + kernels.Periodic(1.0, param(1.0, tie="l"))
    """
    if bounds is not None:
        lower, upper = (float(b) for b in bounds)
        if not lower < upper:
            raise ParameterError(f"bounds must be (lower, upper) with lower < upper, got {bounds}.")
        bounds = (lower, upper)
    return Param(value, Info(True, prior, bounds, tie))


def fixed(value: Any) -> Param:
    """A hyperparameter that learning leaves alone.

    >>> kernels.Periodic(period=fixed(1.0), lengthscale=0.8)
    """
    return Param(value, Info(free=False))


class Static(float):
    """A number that is part of a kernel's structure, not of its values (the order of a Matern):
    it decides which code runs.
    """

    __slots__ = ()


jax.tree_util.register_pytree_node(Static, lambda s: ((), float(s)), lambda aux, _: Static(aux))


class Held:
    """A value that compiled code never reads, in a static field: whatever it is, no other code is compiled
    for it.

    A kernel uses it in `encode` only. Two of them are equal, as far as compiled code can tell.
    """

    __slots__ = ("value",)

    def __init__(self, value: Any):
        self.value: Any = value.value if isinstance(value, Held) else value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Held)

    def __hash__(self) -> int:
        return hash(Held)


def hyper(
    default: Any = dataclasses.MISSING,
    constraint: Constraint = positive,
    *,
    free: bool = True,
    structural: bool = False,
    **kw: Any,
) -> Any:
    """A dataclass field that holds a hyperparameter (an array of any shape, or None where the default is
    None).

    `free=False`: held unless given as `param(...)`. `structural=True`: a plain number becomes `Static`,
    `param(...)` an array.
    """
    metadata = {"constraint": constraint, "free": free, "structural": structural}
    return eqx.field(default=default, metadata=metadata, **kw)


# ------------------------------------------------------------------------------------------------- values


@Saved.register
class Parametrised(eqx.Module):
    """Base of everything that carries hyperparameters."""

    info: tuple[tuple[str, Info], ...] = eqx.field(static=True, default=(), kw_only=True, repr=False)

    # Equinox looks, in Python, whether an attribute is a method, to make a tree of it: a third of the time of
    # an evaluation on few data. Methods of ours are not handed to `jit` as values.
    __getattribute__ = object.__getattribute__

    def _repr_html_(self) -> str:
        """As notebooks show it: what it is, and its hyperparameters."""
        rows = listed(self)
        parts = [table(("hyperparameter", "value", "status"), rows)] if rows else []
        return card(type(self).__name__, lines(repr(self)), *parts)

    def __post_init__(self) -> None:
        info = dict(self.info)
        for f in dataclasses.fields(self):
            if (constraint := f.metadata.get("constraint")) is None:
                continue
            given = getattr(self, f.name)
            explicit = isinstance(given, Param)
            if explicit:
                info[f.name], given = given.info, given.value
            elif not f.metadata["free"] and f.name not in info:
                info[f.name] = Info(free=False)
            where = f"{type(self).__name__}.{f.name}"
            if given is None and f.default is None:
                continue
            value: Any = given if isinstance(given, jax.core.Tracer) else _as_array(given, where)
            if not isinstance(value, jax.core.Tracer):
                constraint.check(np.asarray(value), where)
            if f.metadata["structural"] and not explicit and not isinstance(value, jax.core.Tracer):
                value = Static(value)
            setattr(self, f.name, value)
        self.info = tuple(sorted(info.items()))

    def held(self) -> tuple[str, ...]:
        """Dotted names (below this value) that are not free although nobody fixed them; see `Product`."""
        return ()


def _as_array(value: Any, where: str) -> np.ndarray:
    try:
        if value is not None:
            return np.array(value, dtype=np.float64)
    except (TypeError, ValueError):
        pass
    raise ParameterError(f"{where} must be a number or an array of numbers, got {value!r}.")


@dataclasses.dataclass(frozen=True, eq=False)
class Parameter:
    """One hyperparameter inside a value: where it stands, what it is now, what constrains it."""

    name: str
    value: np.ndarray
    constraint: Constraint
    info: Info
    held: bool

    @property
    def free(self) -> bool:
        """Whether it is learned."""
        return self.info.free and not self.held

    @property
    def status(self) -> str:
        """ "free", "fixed", "held", or what it is tied to."""
        if self.held:
            return "held"
        if not self.info.free:
            return "fixed"
        return f"tied: {self.info.tie}" if self.info.tie else "free"


def listed(value: Any, most: int = 50) -> list[tuple[str, str, str]]:
    """Name, value and status of every hyperparameter inside `value`, as text; arrays of more than `most`
    numbers are counted.
    """
    rows = []
    for p in parameters(value):
        values = np.ravel(p.value)
        if values.size > most:
            rows.append((p.name, f"{values.size} values", p.status))
            continue
        names = element_names(p.name, np.shape(p.value))
        rows += [(name, f"{v:.6g}", p.status) for name, v in zip(names, values, strict=True)]
    return rows


def parameters(value: Any) -> list[Parameter]:
    """Every hyperparameter inside `value`, in the order of its leaves,
    named by dotted path (`kernel.terms.0.lengthscale`).
    """
    return [
        Parameter(name, leaf, constraint, info, held)
        for name, leaf, constraint, info, held in _walk(value, (), frozenset())
    ]


def named_leaves(value: Any) -> list[tuple[str, Any]]:
    """Hyperparameters and their dotted names, without what is said of them;
    the names are kept for each structure.
    """
    leaves, treedef = jax.tree.flatten(value)
    return list(zip(_leaf_names(treedef), leaves, strict=True))


@functools.lru_cache(maxsize=512)
def _leaf_names(treedef: Any) -> tuple[str, ...]:
    return tuple(p.name for p in parameters(jax.tree.unflatten(treedef, [np.zeros(())] * treedef.num_leaves)))


@functools.lru_cache(maxsize=4096)
def _kind(of: type) -> type | None:
    """What walks see in a value of this type: `Parametrised`, tuple (or list), dict (any mapping), None."""
    if issubclass(of, Parametrised):
        return Parametrised
    if issubclass(of, (tuple, list)):
        return tuple
    return dict if issubclass(of, Mapping) else None


@functools.lru_cache(maxsize=4096)
def _fields(of: type) -> tuple[dataclasses.Field[Any], ...]:
    return dataclasses.fields(of)


def _walk(
    node: Any, path: tuple[str, ...], held: frozenset[str]
) -> Iterator[tuple[str, Any, Constraint, Info, bool]]:
    kind = _kind(type(node))  # type: ignore[arg-type]
    if kind is tuple:
        for i, child in enumerate(node):
            yield from _walk(child, (*path, str(i)), held)
    elif kind is dict:
        for key in sorted(node):
            yield from _walk(node[key], (*path, str(key)), held)
    elif kind is Parametrised:
        info = dict(node.info)
        held = held | {".".join((*path, name)) for name in node.held()}
        for f in _fields(type(node)):  # type: ignore[arg-type]
            child = getattr(node, f.name)
            if "constraint" in f.metadata:
                if child is not None and not isinstance(child, Static):
                    name = ".".join((*path, f.name))
                    yield name, child, f.metadata["constraint"], info.get(f.name, Info()), name in held
            elif not f.metadata.get("static", False):
                transparent = f.metadata.get("transparent", False) and not isinstance(child, (tuple, list))
                yield from _walk(child, path if transparent else (*path, f.name), held)


def replace_leaves(value: Value, new: Mapping[str, Any]) -> Value:
    """A copy of `value` with the named hyperparameters replaced (names as in `parameters`)."""
    unknown = set(new) - {p.name for p in parameters(value)}
    if unknown:
        raise ParameterError(
            f"no hyperparameter named {sorted(unknown)}; there are {[p.name for p in parameters(value)]}."
        )
    changed: Value = _rebuild(value, (), lambda name, leaf: new.get(name, leaf))
    return changed


def strip(value: Value) -> Value:
    """The same value without priors, bounds and ties: what compiled code sees,
    so that they never cause a recompilation.
    """
    bare: Value = _rebuild(value, (), lambda name, leaf: leaf, keep_info=False)
    return bare


def _rebuild(
    node: Any, path: tuple[str, ...], leaf: Callable[[str, Any], Any], keep_info: bool = True
) -> Any:
    kind = _kind(type(node))  # type: ignore[arg-type]
    if kind is tuple:
        return type(node)(_rebuild(c, (*path, str(i)), leaf, keep_info) for i, c in enumerate(node))
    if kind is dict:
        return {k: _rebuild(v, (*path, str(k)), leaf, keep_info) for k, v in node.items()}
    if kind is not Parametrised:
        return node
    new = object.__new__(type(node))
    for f in _fields(type(node)):  # type: ignore[arg-type]
        child = getattr(node, f.name)
        if f.name == "info":
            child = child if keep_info else ()
        elif "constraint" in f.metadata:
            if child is not None and not isinstance(child, Static):
                child = leaf(".".join((*path, f.name)), child)
        elif not f.metadata.get("static", False):
            transparent = f.metadata.get("transparent", False) and not isinstance(child, (tuple, list))
            child = _rebuild(child, path if transparent else (*path, f.name), leaf, keep_info)
        object.__setattr__(new, f.name, child)
    return new


# ------------------------------------------------------------------------------------------------- one vector


class _Mark:
    """Stands for a hyperparameter in a tree."""

    def __init__(self, name: str):
        self.name = name


@dataclasses.dataclass(frozen=True)
class Layout:
    """How a vector becomes a value, for compiled code: its structure, without what a person says of it; and
    for every free hyperparameter its place among the leaves, where it stands in the vector, its shape and its
    constraint.
    """

    structure: Any
    slots: tuple[tuple[int, int, int, tuple[int, ...], Constraint], ...]

    def value(self, vector: Any, leaves: list[Any]) -> Any:
        """The value with the hyperparameters of a vector; the others are those of `leaves`."""
        leaves = list(leaves)
        for place, start, stop, shape, constraint in self.slots:
            leaves[place] = constraint.value(vector[start:stop], jax.numpy).reshape(shape)
        return jax.tree.unflatten(self.structure, leaves)


LARGEST_LOG = 300.0  # of a hyperparameter: its square is still a number


@dataclasses.dataclass(frozen=True, eq=False)
class Flattened:
    """The free hyperparameters of `value` as one unconstrained vector.

    `vector` (p,), `names` (p entries, `kernel.lengthscale[2]` for elements of arrays), `unflatten(vector)`
    builds a new value.
    """

    value: Any
    # every free parameter and where it stands in the vector (ties share a slice)
    slots: tuple[tuple[Parameter, slice], ...]
    vector: np.ndarray
    names: tuple[str, ...]

    def unflatten(self, vector: np.ndarray) -> Any:
        """The value with the hyperparameters of a vector."""
        (leaves, structure), vector = self._places, np.asarray(vector, float)
        leaves = leaves.copy()
        for (p, s), place in zip(self.slots, self._of_slots, strict=True):
            leaves[place] = p.constraint.value(vector[s]).reshape(np.shape(p.value))
        return jax.tree.unflatten(structure, leaves)

    @functools.cached_property
    def _places(self) -> tuple[list[Any], Any]:
        """The leaves of the value as a tree, and its structure."""
        return jax.tree.flatten(self.value)

    @functools.cached_property
    def _of_slots(self) -> list[int]:
        """Where among the leaves each slot's parameter is."""
        marked = _rebuild(self.value, (), lambda name, leaf: _Mark(name))
        where = {leaf.name: i for i, leaf in enumerate(jax.tree.leaves(marked)) if type(leaf) is _Mark}
        return [where[p.name] for p, _ in self.slots]

    def layout(self) -> Layout:
        """How a vector becomes the value, as compiled code is told."""
        places = zip(self.slots, self._of_slots, strict=True)
        slots = tuple((place, s.start, s.stop, np.shape(p.value), p.constraint) for (p, s), place in places)
        return Layout(jax.tree.structure(strip(self.value)), slots)

    def pull(self, gradient: Mapping[str, Any], vector: np.ndarray) -> np.ndarray:
        """Gradient with respect to the visible values (by dotted name) -> gradient with respect to the
        vector.
        """
        out = np.zeros_like(self.vector)
        for p, s in self.slots:
            value = p.constraint.value(vector[s])
            out[s] += np.ravel(gradient[p.name]) * p.constraint.slope(value)
        return out

    def within_reach(self, vector: np.ndarray) -> bool:
        """Whether all numbers are finite, and none is so large that its exponential would overflow."""
        return bool(np.isfinite(vector).all() and (np.abs(vector[self._under]) <= LARGEST_LOG).all())

    @functools.cached_property
    def _under(self) -> np.ndarray:
        """Which entries (p,) have an exponential taken."""
        under = np.zeros(self.vector.shape, bool)
        for p, s in self.slots:
            under[s] |= p.constraint != real
        return under

    def bounds(self) -> list[tuple[float | None, float | None]]:
        """Bounds of the unconstrained vector, for the optimiser; None where there are none."""
        out: list[tuple[float | None, float | None]] = [(None, None)] * len(self.vector)
        for p, s in self.slots:
            if p.info.bounds is not None:
                lo, hi = (float(p.constraint.unconstrained(np.asarray(b))) for b in p.info.bounds)
                out[s] = [(lo, hi)] * (s.stop - s.start)
        return out

    def log_prior(self, vector: np.ndarray, jacobian: bool = False) -> tuple[float, np.ndarray]:
        """Log density of the priors at the vector and its gradient with respect to the vector.

        The density is of the visible values (`jacobian=False`: MAP in the user's scale) or of the
        unconstrained ones.
        """
        total, gradient, seen = 0.0, np.zeros_like(self.vector), set()
        for p, s in self.slots:
            if p.info.prior is None or (s.start, s.stop) in seen:
                continue
            seen.add((s.start, s.stop))
            value = p.constraint.value(np.asarray(vector[s], float))
            slope = p.constraint.slope(value)
            total += float(np.sum(p.info.prior.log_prob(value)))
            gradient[s] += p.info.prior.score(value) * slope
            if jacobian:
                total += float(np.sum(np.log(slope)))
                gradient[s] += p.constraint.log_slope_derivative(value)
        return total, gradient


def flatten(value: Any) -> Flattened:
    """The free hyperparameters of `value` as one unconstrained vector, and the way back."""
    slots: list[tuple[Parameter, slice]] = []
    pieces: list[np.ndarray] = []
    names: list[str] = []
    ties: dict[str, tuple[slice, tuple[int, ...]]] = {}
    for p in parameters(value):
        if not p.free:
            continue
        shape, size = np.shape(p.value), int(np.size(p.value))
        if p.info.tie in ties:
            where, tied_shape = ties[p.info.tie]
            if tied_shape != shape:
                raise ParameterError(
                    f"{p.name} has shape {shape} but is tied ('{p.info.tie}') to one of shape {tied_shape}."
                )
            slots.append((p, where))
            continue
        start = sum(x.size for x in pieces)
        where = slice(start, start + size)
        if p.info.tie is not None:
            ties[p.info.tie] = (where, shape)
        slots.append((p, where))
        pieces.append(np.ravel(p.constraint.unconstrained(np.asarray(p.value, float))))
        names += element_names(p.name, shape)
    vector = np.concatenate(pieces) if pieces else np.zeros(0)
    return Flattened(value, tuple(slots), vector, tuple(names))


def element_names(name: str, shape: tuple[int, ...]) -> Iterable[str]:
    """The name of each element of an array: "lengthscale[0]", "lengthscale[1]"; of a number its own."""
    if shape == ():
        return [name]
    return [f"{name}[{','.join(map(str, index))}]" for index in np.ndindex(*shape)]


def __dir__() -> list[str]:
    return sorted(__all__)
