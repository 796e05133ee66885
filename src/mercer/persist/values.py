"""Any value of Mercer's (kernel, mean, likelihood, model, prior of a hyperparameter ...) as JSON, and back
with every bit.

    {"class": "kernels.SE", "lengthscale": 1.0, "variance": 2.0, "info": {"variance": {"free": false}}}

Reading builds classes that Mercer exports, that are handed in (`classes=[Mine]`) or that an installed package
registered (`mercer.registry`), through their constructors, which check every value; nothing else is imported
or run because the text names it. A user's functions are written by name and given again on reading:
`from_json(tree, functions={"u": u})`.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Protocol, runtime_checkable

import equinox as eqx
import jax
import numpy as np

from mercer import registry
from mercer.hyperpriors import AbstractHyperprior
from mercer.params import Held, Info, Param, Parametrised, Static
from mercer.persist.kinds import of_kind
from mercer.registry import Saved

__all__ = ["Functions", "SerialiseError", "from_json", "named_functions", "to_json", "unknown_classes"]

DEPTH = 100  # levels of nesting
NESTED = 32  # and of values within values: computing with deeper ones would run out of stack
INLINE = 32  # arrays with more entries go to `arrays`, where that is given
# the largest whole number in a field of a formula (degrees, orders, levels), and of a solver or a rule: more
# would make a small file take hours or all memory
FORMULA, METHOD = 1 << 12, 10**5
DTYPES = ("bool", "float32", "float64", "int32", "int64", "uint8")
Functions = Mapping[str, Callable]
Arrays = Mapping[str, np.ndarray]


class SerialiseError(ValueError):
    """A value that cannot be written as JSON, or JSON that is not a value; says where."""


def to_json(
    value: Any,
    arrays: dict[str, np.ndarray] | None = None,
    functions: Functions | None = None,
    where: str = "",
) -> Any:
    """`value` as JSON-ready dicts, lists, strings and numbers.

    arrays: a dict that receives arrays of more than 32 entries by dotted name (below `where`); without it
    they are written in full.
    functions: names for the user's functions, by name; otherwise a function has the name its holder or its
    definition gives it.
    """
    names = {id(function): name for name, function in (functions or {}).items()}
    return _write(value, _Out(where, 0, 0, arrays, names, {}))


def from_json(
    tree: Any, arrays: Arrays | None = None, functions: Functions | None = None, classes: Iterable[type] = ()
) -> Any:
    """The value that `to_json` wrote.

    functions: the user's functions by name. classes: the user's classes. An error lists what is missing.
    """
    own, given = dict(functions or {}), registry.by_address(classes)
    if missing := sorted(named_functions(tree) - set(own)):
        example = ", ".join(f"{name!r}: {name}" for name in missing)
        raise SerialiseError(
            f"the functions {missing} are not part of the file: pass functions={{{example}}}."
        )
    if missing := unknown_classes(tree, given):
        example = ", ".join(name.partition(":")[2] for name in missing)
        raise SerialiseError(
            f"the classes {missing} are not part of mercer: import them and pass classes=[{example}], or "
            f"install the package that registers them as entry points of {registry.GROUP!r}."
        )
    return _read(tree, _In("", 0, 0, arrays or {}, own, given))


def named_functions(tree: Any) -> set[str]:
    """Names of the user's functions in what `to_json` wrote."""
    return set(_mentioned(tree, "kind", "function", "name"))


def unknown_classes(tree: Any, given: Mapping[str, type]) -> list[str]:
    """Names of classes in what `to_json` wrote that are neither Mercer's, nor given, nor installed."""
    foreign = {name for name in _mentioned(tree, "class", None, "class") if ":" in name}
    return sorted(name for name in foreign if registry.find(name, given) is None)


def _mentioned(tree: Any, key: str, value: str | None, wanted: str) -> Iterator[str]:
    """The text under `wanted` of every object in the tree whose `key` is `value` (None: any)."""
    stack = [tree]
    while stack:
        node = stack.pop()
        if isinstance(node, dict):
            if key in node and value in (None, node[key]) and isinstance(node.get(wanted), str):
                yield node[wanted]
            stack.extend(node.values())
        elif isinstance(node, list):
            stack.extend(node)


@dataclasses.dataclass(frozen=True)
class _Place:
    """Where in a tree: the dotted path, and how deep."""

    path: str
    depth: int
    values: int  # that it is within

    def at(self, key: Any) -> Any:
        """The place of a child."""
        if self.depth >= DEPTH:
            raise SerialiseError(f"{self.path}: nested more than {DEPTH} levels deep.")
        path = f"{self.path}.{key}" if self.path else str(key)
        return dataclasses.replace(self, path=path, depth=self.depth + 1)

    def within(self) -> Any:
        """The place inside the value that is here."""
        if self.values >= NESTED:
            raise SerialiseError(f"{self.path}: more than {NESTED} values nested in one another.")
        return dataclasses.replace(self, values=self.values + 1)

    def fail(self, message: str) -> SerialiseError:
        return SerialiseError(f"{self.path or 'the value'}{message}")


@dataclasses.dataclass(frozen=True)
class _Out(_Place):
    arrays: dict[str, np.ndarray] | None
    names: dict[int, str]  # of functions, as the user gave them
    functions: dict[str, Callable]  # those written so far
    holder: str = ""  # the name that the holder of a function has for it


@dataclasses.dataclass(frozen=True)
class _In(_Place):
    arrays: Arrays
    functions: dict[str, Callable]
    classes: dict[str, type]


# ------------------------------------------------------------------------------------------------- writing


@runtime_checkable
class _ArrayLike(Protocol):
    def __array__(self) -> np.ndarray: ...


@functools.singledispatch
def _write(value: Any, out: _Out) -> Any:
    """One value; what has no kind of its own below is an array, a function, or an error."""
    if isinstance(value, jax.core.Tracer):
        raise out.fail(": a traced value cannot be saved.")
    if isinstance(value, _ArrayLike):
        return _write_array(np.asarray(value), out)
    if callable(value) and not isinstance(value, type | eqx.Module):
        return {"kind": "function", "name": _function_name(value, out)}
    what = value.__name__ if isinstance(value, type) else type(value).__name__
    raise out.fail(
        f": files cannot hold {what}. They hold what subclasses Mercer's kernels, means, likelihoods ..., "
        "and dataclasses marked by mercer.registry.Saved.register."
    )


@_write.register(type(None))
@_write.register(bool)
@_write.register(str)
def _(value: Any, out: _Out) -> Any:
    return value


@_write.register
def _(value: np.bool_, out: _Out) -> bool:
    return bool(value)


@_write.register(int)
@_write.register(np.integer)
def _(value: Any, out: _Out) -> int:
    return _integer(int(value), out)


@_write.register(float)
@_write.register(np.floating)
def _(value: Any, out: _Out) -> Any:
    return float(value) if math.isfinite(value) else {"kind": "float", "value": str(float(value))}


@_write.register
def _(value: Static, out: _Out) -> dict[str, Any]:
    return {"kind": "static", "value": _write(float(value), out)}


@_write.register
def _(value: Param, out: _Out) -> dict[str, Any]:
    return {"kind": "param", "value": _write_hyper(value.value, out), "info": _write_info(value.info, out)}


@_write.register
def _(value: tuple, out: _Out) -> dict[str, Any]:
    return {"kind": "tuple", "items": _write(list(value), out)}


@_write.register(list)
@_write.register(range)
def _(value: Any, out: _Out) -> list[Any]:
    return [_write(child, out.at(i)) for i, child in enumerate(value)]


@_write.register(Mapping)
def _(value: Any, out: _Out) -> dict[str, Any]:
    if not all(isinstance(key, str) for key in value):
        raise out.fail(": the keys of a dict must be text.")
    items = {key: _write(child, out.at(key)) for key, child in value.items()}
    return {"kind": "dict", "items": items} if items.keys() & {"class", "kind"} else items


@_write.register
def _(value: Held, out: _Out) -> Any:
    return _write(value.value, out)


@_write.register
def _(value: np.random.RandomState, out: _Out) -> Any:
    raise out.fail(
        ": a RandomState cannot be saved: set_params(random_state=0), or another whole number, first."
    )


@_write.register
def _(value: Saved, out: _Out) -> dict[str, Any]:
    """A value by its fields; what was said of its hyperparameters stands beside them."""
    cls, out = type(value), out.within()
    name = registry.address(cls)
    if name is None:
        raise out.fail(f": files cannot hold {cls.__name__}, which mercer does not export.")
    fields = {f.name: f for f in dataclasses.fields(value) if f.init and f.name != "info"}  # type: ignore[arg-type]
    holder = str(value.name) if "name" in fields else ""  # type: ignore[attr-defined]
    tree: dict[str, Any] = {"class": name}
    for key, field in fields.items():
        child, place = getattr(value, key), dataclasses.replace(out.at(key), holder=holder)
        if "constraint" in field.metadata:
            tree[key] = _write_hyper(child, place)
        else:
            tree[key] = _write(_moderate(cls, field, child, place), place)
    info = dict(value.info) if isinstance(value, Parametrised) else {}
    said = {key: _write_info(i, out.at(key)) for key, i in info.items()}
    return tree | {"info": said} if said else tree


def _write_hyper(value: Any, out: _Out) -> Any:
    """A hyperparameter: numbers and small arrays as JSON has them;
    the constructor makes float64 arrays of them again.
    """
    if value is None or isinstance(value, Static):
        return _write(value, out)
    array = np.asarray(value, np.float64)
    if not np.isfinite(array).all():
        raise out.fail(" is not finite.")
    if array.size and (out.arrays is None or array.size <= INLINE):
        return array.tolist()
    return _write_array(array, out)


def _write_info(info: Info, out: _Out) -> dict[str, Any]:
    said = {f.name: getattr(info, f.name) for f in dataclasses.fields(info)}
    if info.bounds is not None:
        said["bounds"] = list(info.bounds)
    other = {f.name for f in dataclasses.fields(info) if getattr(info, f.name) != f.default}
    return {key: _write(value, out.at(key)) for key, value in said.items() if key in other}


def _write_array(array: np.ndarray, out: _Out) -> dict[str, Any]:
    if array.dtype.name not in DTYPES:
        raise out.fail(f": an array of {array.dtype} cannot be saved.")
    finite = bool(np.isfinite(array).all())
    if out.arrays is not None and (array.size > INLINE or not finite):
        out.arrays[out.path] = np.ascontiguousarray(array)
        return {"kind": "array", "name": out.path}
    if not finite:
        raise out.fail(" is not finite.")
    shape, data = list(array.shape), array.ravel().tolist()
    return {"kind": "array", "dtype": array.dtype.name, "shape": shape, "data": data}


def _function_name(function: Callable, out: _Out) -> str:
    name = out.names.get(id(function)) or out.holder or getattr(function, "__name__", "")
    if not name or name == "<lambda>":
        raise out.fail(
            ": a function without a name cannot be saved. Name it where it is used, for example "
            "means.Function(f, name='u'), or on saving: functions={'u': f}."
        )
    if out.functions.setdefault(name, function) is not function:
        raise out.fail(f": two different functions are named {name!r}; give them names of their own.")
    return name


def _integer(value: int, place: _Place) -> int:
    if not -(2**63) <= value < 2**63:
        raise place.fail(f": {value} does not fit into 64 bits.")
    return value


def _moderate(cls: type, field: dataclasses.Field, value: Any, place: _Place) -> Any:
    """The value of a field, which must not be a count too large to work with."""
    limit = FORMULA if issubclass(cls, Parametrised) else METHOD
    counts = field.name != "seed" and re.search(r"\bint\b", str(field.type))
    if counts and isinstance(value, int) and abs(value) > limit:
        raise place.fail(f" = {value} is more than the {limit:,} that files may ask for.")
    return value


# ------------------------------------------------------------------------------------------------- reading


def _read(node: Any, place: _In) -> Any:
    if node is None or isinstance(node, bool | str):
        return node
    if isinstance(node, int):
        return _integer(node, place)
    if isinstance(node, float):
        if not math.isfinite(node):
            raise place.fail(" is not finite.")
        return node
    if isinstance(node, list):
        return [_read(child, place.at(i)) for i, child in enumerate(node)]
    if not isinstance(node, dict):
        raise place.fail(f": {type(node).__name__} is not JSON.")
    if "class" in node:
        return _read_instance(node, place)
    if "kind" not in node:
        return {key: _read(child, place.at(key)) for key, child in node.items()}
    kind = node["kind"]
    if not isinstance(kind, str) or kind not in _KINDS:
        raise place.fail(f": expected one of the kinds {sorted(_KINDS)}, got {kind!r}.")
    return _KINDS[kind](node, place)


def _read_instance(node: dict, place: _In) -> Any:
    name, place = node["class"], place.within()
    cls = registry.find(name, place.classes) if isinstance(name, str) else None
    if cls is None:
        raise place.fail(f": there is no class {name!r}.")
    fields = {f.name: f for f in dataclasses.fields(cls) if f.init}
    if unknown := sorted(set(node) - set(fields) - {"class"}):
        raise place.fail(f": {name} has no {unknown}.")
    about = _expect(node.get("info", {}), dict, place)
    if strange := sorted(set(about) - set(fields)):
        raise place.fail(f": {name} has no hyperparameters {strange}.")
    said = {key: _read_info(info, place.at(key)) for key, info in about.items()}
    arguments = {}
    for key in set(node) - {"class", "info"}:
        field, child = fields[key], place.at(key)
        if "constraint" in field.metadata:
            arguments[key] = _as_given(_read_hyper(node[key], child), field, said.get(key))
        else:
            arguments[key] = _moderate(cls, field, _read(node[key], child), child)
            if ":" not in name and not of_kind(str(field.type), arguments[key]):
                raise child.fail(f" must be {field.type}, got {type(arguments[key]).__name__}.")
    if issubclass(cls, AbstractHyperprior) and not all(map(_is_prior_field, arguments.values())):
        raise place.fail(f": {name} takes numbers or priors, got {arguments}.")
    try:
        return cls(**arguments)
    except (TypeError, ValueError, AttributeError, ArithmeticError) as error:
        raise SerialiseError(f"{place.path or name}: {error}") from error


def _as_given(value: Any, field: dataclasses.Field, said: Info | None) -> Any:
    """A hyperparameter as a person would hand it in: what was said of it belongs to it."""
    explicit = said is not None or field.metadata["structural"]
    if value is None or isinstance(value, Static) or not explicit:
        return value
    return Param(value, said or Info())


def _read_hyper(node: Any, place: _In) -> Any:
    value = _read(node, place)
    if value is None or isinstance(value, Static):
        return value
    try:
        array = np.array(value, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise place.fail(" must be a number or an array of numbers.") from None
    if not np.isfinite(array).all():
        raise place.fail(" is not finite.")
    return array


def _read_info(node: Any, place: _In) -> Info:
    said = {key: _read(child, place.at(key)) for key, child in _expect(node, dict, place).items()}
    if isinstance(said.get("bounds"), list):
        said["bounds"] = tuple(said["bounds"])
    try:
        info = Info(**said)
    except TypeError:
        raise place.fail(f": a hyperparameter has free, prior, bounds and tie, not {sorted(said)}.") from None
    valid = (
        isinstance(info.free, bool)
        and isinstance(info.tie, str | None)
        and isinstance(info.prior, AbstractHyperprior | None)
        and (info.bounds is None or _is_interval(info.bounds))
    )
    if not valid:
        raise place.fail(f": free, prior, bounds or tie of a hyperparameter is not valid: {said}.")
    return info


# -- kinds: what JSON has no word for


def _read_static(node: dict, place: _In) -> Static:
    return Static(_expect(_read(node.get("value"), place.at("value")), (int, float), place))


def _read_float(node: dict, place: _In) -> float:
    if node.get("value") not in ("inf", "-inf", "nan"):
        raise place.fail(f": a special number is inf, -inf or nan, not {node.get('value')!r}.")
    return float(node["value"])


def _read_param(node: dict, place: _In) -> Param:
    value = _read_hyper(node.get("value"), place.at("value"))
    if value is None:
        raise place.fail(": a hyperparameter needs a value.")
    info = _read_info(node.get("info", {}), place.at("info"))
    return Param(float(value) if np.shape(value) == () else value, info)


def _read_tuple(node: dict, place: _In) -> tuple:
    return tuple(_read(_expect(node.get("items"), list, place), place))


def _read_dict(node: dict, place: _In) -> dict[str, Any]:
    items = _expect(node.get("items"), dict, place)
    return {key: _read(child, place.at(key)) for key, child in items.items()}


def _read_function(node: dict, place: _In) -> Callable:
    function = place.functions[_expect(node.get("name"), str, place)]
    if not callable(function):
        raise place.fail(
            f": {node['name']!r} was given as {type(function).__name__}, which is not a function."
        )
    return function


def _read_array(node: dict, place: _In) -> np.ndarray:
    if "name" in node:
        name = _expect(node["name"], str, place)
        if name not in place.arrays:
            raise place.fail(f": the array {name!r} is missing.")
        return np.array(place.arrays[name])
    dtype, shape, data = node.get("dtype"), node.get("shape"), node.get("data")
    shape, data = _expect(shape, list, place), _expect(data, list, place)
    sizes = all(type(n) is int and n >= 0 for n in shape)
    if dtype not in DTYPES or not sizes or math.prod(shape) != len(data):
        raise place.fail(": an array needs a dtype, a shape and as many entries.")
    try:
        return np.array(data, dtype=dtype).reshape(shape)
    except (TypeError, ValueError, OverflowError):
        raise place.fail(f": the entries of an array of {dtype} are not such numbers.") from None


_KINDS: dict[str, Callable[[dict, _In], Any]] = {
    "array": _read_array,
    "dict": _read_dict,
    "float": _read_float,
    "function": _read_function,
    "param": _read_param,
    "static": _read_static,
    "tuple": _read_tuple,
}


def _expect(value: Any, kind: Any, place: _In) -> Any:
    if not isinstance(value, kind) or isinstance(value, bool):
        name = kind.__name__ if isinstance(kind, type) else "a number"
        raise place.fail(f": expected {name}, got {type(value).__name__}.")
    return value


def _is_prior_field(value: Any) -> bool:
    if isinstance(value, tuple):
        return all(isinstance(v, AbstractHyperprior) for v in value)
    return isinstance(value, int | float) and math.isfinite(value)


def _is_interval(bounds: Any) -> bool:
    pair = isinstance(bounds, tuple) and len(bounds) == 2
    return pair and all(isinstance(b, int | float) for b in bounds) and bounds[0] < bounds[1]
