"""Any value of Mercer's (kernel, mean, likelihood, model, prior of a hyperparameter ...) as JSON, and back
with every bit.

    {"class": "kernels.SE", "lengthscale": 1.0, "variance": 2.0, "info": {"variance": {"free": false}}}

Reading builds only classes that Mercer itself exports, through their constructors, which check every value;
nothing is imported or run because the text names it. A user's functions are written by name and given again
on reading: `from_json(tree, functions={"u": u})`.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib
import math
from collections.abc import Callable, Mapping
from typing import Any

import equinox as eqx
import jax
import numpy as np

from mercer.hyperpriors import AbstractHyperprior
from mercer.params import Held, Info, Param, Parametrised, Static

__all__ = [
    "DEPTH",
    "EM",
    "INLINE",
    "ROOMS",
    "Functions",
    "SerialiseError",
    "fitted_by_em",
    "from_json",
    "function_names",
    "registry",
    "to_json",
]

ROOMS = (
    "kernels",
    "means",
    "likelihoods",
    "hyperpriors",
    "gp",
    "selection",
    "solvers",
    "inference",
    "series",
    "relatives",
)
EM = (
    "HMM",
    "Categorical",
    "ConstantGate",
    "Exponential",
    "GPExperts",
    "Gaussian",
    "GaussianMixture",
    "GaussianMixtures",
    "Gaussians",
    "InverseWishart",
    "MarkovChain",
    "Mixture",
    "Normal",
    "Poisson",
    "SoftmaxGate",
)
DEPTH = 100  # levels of nesting
INLINE = 32  # arrays with more entries go to `arrays`, where that is given
Functions = Mapping[str, Callable]
_DTYPES = ("bool", "float32", "float64", "int32", "int64", "uint8")


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
    named = {id(f): name for name, f in (functions or {}).items()}
    return _Writer(arrays, named).write(value, where, 0)


def from_json(
    tree: Any, arrays: Mapping[str, np.ndarray] | None = None, functions: Functions | None = None
) -> Any:
    """The value that `to_json` wrote. `functions`: the user's functions by name;
    an error lists those that are missing.
    """
    given = dict(functions or {})
    missing = sorted(function_names(tree) - set(given))
    if missing:
        example = ", ".join(f"{name!r}: {name}" for name in missing)
        raise SerialiseError(
            f"the functions {missing} are not part of the file: pass functions={{{example}}}."
        )
    return _Reader(arrays or {}, given).read(tree, "", 0)


def function_names(tree: Any) -> set[str]:
    """Names of the user's functions that a tree refers to."""
    names, stack = set(), [tree]
    while stack:
        node = stack.pop()
        if isinstance(node, dict):
            if node.get("kind") == "function" and isinstance(node.get("name"), str):
                names.add(node["name"])
            stack.extend(node.values())
        elif isinstance(node, list):
            stack.extend(node)
    return names


@functools.cache
def registry() -> dict[str, type]:
    """The classes that may be written and read, by room and name: what the rooms export."""
    from mercer.inference import AbstractInference
    from mercer.selection import AbstractSelection
    from mercer.solvers import AbstractSolver

    bases = (Parametrised, AbstractHyperprior, AbstractSelection, AbstractSolver, AbstractInference)
    out = {}
    for room in ROOMS:
        module = importlib.import_module(f"mercer.{room}")
        for name in getattr(module, "__all__", None) or list(vars(module)):
            cls = getattr(module, name)
            if name.startswith(("_", "Abstract")) or not (isinstance(cls, type) and issubclass(cls, bases)):
                continue
            if cls.__module__.split(".")[:2] == ["mercer", room]:
                out[f"{room}.{name}"] = cls
    return out


@functools.cache
def fitted_by_em() -> dict[str, type]:
    """The plain classes of models fitted by EM, by name."""
    em = importlib.import_module("mercer.em")
    return {f"em.{name}": getattr(em, name) for name in EM}


@functools.cache
def _names() -> dict[type, str]:
    return {cls: name for name, cls in (registry() | fitted_by_em()).items()}


# ------------------------------------------------------------------------------------------------- writing


class _Writer:
    def __init__(self, arrays: dict[str, np.ndarray] | None, named: dict[int, str]):
        self.arrays, self.named = arrays, named
        self.functions: dict[str, Callable] = {}

    def write(self, value, where: str, depth: int, holder: Any = None):
        if depth > DEPTH:
            raise SerialiseError(f"{where}: nested more than {DEPTH} levels deep.")
        if value is None or isinstance(value, (bool, str)):
            return value
        if isinstance(value, np.bool_):
            return bool(value)
        if isinstance(value, Static):
            return {"kind": "static", "value": self.number(float(value))}
        if isinstance(value, (int, np.integer)):
            return self.integer(int(value), where)
        if isinstance(value, (float, np.floating)):
            return self.number(float(value))
        if isinstance(value, Param):
            return {
                "kind": "param",
                "value": self.hyper(value.value, where, depth),
                "info": self.info(value.info, where, depth),
            }
        if isinstance(value, tuple):
            return {
                "kind": "tuple",
                "items": [self.write(v, _join(where, i), depth + 1) for i, v in enumerate(value)],
            }
        if isinstance(value, list):
            return [self.write(v, _join(where, i), depth + 1) for i, v in enumerate(value)]
        if isinstance(value, Mapping):
            if not all(isinstance(k, str) for k in value):
                raise SerialiseError(f"{where}: the keys of a dict must be text.")
            return {
                "kind": "dict",
                "items": {k: self.write(v, _join(where, k), depth + 1) for k, v in value.items()},
            }
        if isinstance(value, Held):
            return self.write(value.value, where, depth, holder)
        if type(value) in _names():
            return self.instance(value, where, depth)
        if isinstance(value, jax.core.Tracer):
            raise SerialiseError(f"{where}: a traced value cannot be saved.")
        if hasattr(value, "__array__"):
            return self.array(np.asarray(value), where)
        if callable(value) and not isinstance(value, (type, eqx.Module)):
            return {"kind": "function", "name": self.function(value, holder, where)}
        what = value.__name__ if isinstance(value, type) else type(value).__name__
        raise SerialiseError(
            f"{where or 'the value'}: {what} is not one of Mercer's own classes and cannot be saved in a "
            "file."
        )

    def instance(self, value, where: str, depth: int):
        out: dict[str, Any] = {"class": _names()[type(value)]}
        for f in dataclasses.fields(value):
            if not f.init or f.name == "info":
                continue
            child, path = getattr(value, f.name), _join(where, f.name)
            write = self.hyper if "constraint" in f.metadata else functools.partial(self.write, holder=value)
            out[f.name] = write(child, path, depth + 1)
        info = {k: self.info(i, _join(where, k), depth) for k, i in getattr(value, "info", ())}
        return out | {"info": info} if info else out

    def hyper(self, value, where: str, depth: int):
        """A hyperparameter: numbers and small arrays as JSON has them;
        the constructor makes float64 arrays of them again.
        """
        if value is None or isinstance(value, Static):
            return self.write(value, where, depth)
        array = np.asarray(value, np.float64)
        if not np.isfinite(array).all():
            raise SerialiseError(f"{where} is not finite.")
        if array.size and (self.arrays is None or array.size <= INLINE):
            return array.tolist()
        return self.array(array, where)

    def info(self, info: Info, where: str, depth: int):
        said = {
            f.name: getattr(info, f.name)
            for f in dataclasses.fields(info)
            if getattr(info, f.name) != f.default
        }
        if "bounds" in said:
            said["bounds"] = list(said["bounds"])
        return {name: self.write(v, _join(where, name), depth + 1) for name, v in said.items()}

    def array(self, array: np.ndarray, where: str):
        if array.dtype.name not in _DTYPES:
            raise SerialiseError(f"{where}: an array of {array.dtype} cannot be saved.")
        if self.arrays is not None and array.size > INLINE:
            self.arrays[where] = np.ascontiguousarray(array)
            return {"kind": "array", "name": where}
        if not np.isfinite(array).all():
            raise SerialiseError(f"{where} is not finite.")
        return {
            "kind": "array",
            "dtype": array.dtype.name,
            "shape": list(array.shape),
            "data": array.ravel().tolist(),
        }

    def function(self, function, holder, where: str) -> str:
        name = (
            self.named.get(id(function)) or getattr(holder, "name", "") or getattr(function, "__name__", "")
        )
        if not name or name == "<lambda>":
            raise SerialiseError(
                f"{where}: a function without a name cannot be saved. Name it where it is used, for example "
                "means.Function(f, name='u'), or on saving: functions={'u': f}."
            )
        if self.functions.setdefault(name, function) is not function:
            raise SerialiseError(
                f"{where}: two different functions are named {name!r}; give them names of their own."
            )
        return name

    @staticmethod
    def number(value: float):
        return value if math.isfinite(value) else {"kind": "float", "value": str(value)}

    @staticmethod
    def integer(value: int, where: str):
        if not -(2**63) <= value < 2**63:
            raise SerialiseError(f"{where}: {value} does not fit into 64 bits.")
        return value


# ------------------------------------------------------------------------------------------------- reading


class _Reader:
    def __init__(self, arrays: Mapping[str, np.ndarray], functions: dict[str, Callable]):
        self.arrays, self.functions = arrays, functions

    def read(self, node, where: str, depth: int):
        if depth > DEPTH:
            raise SerialiseError(f"{where}: nested more than {DEPTH} levels deep.")
        if node is None or isinstance(node, (bool, str)):
            return node
        if isinstance(node, int):
            return _Writer.integer(node, where)
        if isinstance(node, float):
            if not math.isfinite(node):
                raise SerialiseError(f"{where} is not finite.")
            return node
        if isinstance(node, list):
            return [self.read(v, _join(where, i), depth + 1) for i, v in enumerate(node)]
        if not isinstance(node, dict):
            raise SerialiseError(f"{where}: {type(node).__name__} is not JSON.")
        if "class" in node:
            return self.instance(node, where, depth)
        kind = node.get("kind")
        if not isinstance(kind, str) or kind not in _KINDS:
            raise SerialiseError(f"{where}: expected one of the kinds {sorted(_KINDS)}, got {kind!r}.")
        return _KINDS[kind](self, node, where, depth)

    def instance(self, node: dict, where: str, depth: int):
        name = node["class"]
        cls = registry().get(name) or fitted_by_em().get(name) if isinstance(name, str) else None
        if cls is None:
            raise SerialiseError(f"{where or 'the value'}: there is no class {name!r}.")
        fields = {f.name: f for f in dataclasses.fields(cls) if f.init}
        unknown = sorted(set(node) - set(fields) - {"class"})
        if unknown:
            raise SerialiseError(f"{where}: {name} has no {unknown}.")
        said = {
            k: self.info(i, _join(where, k), depth)
            for k, i in _expect(node.get("info", {}), dict, where).items()
        }
        if set(said) - set(fields):
            raise SerialiseError(f"{where}: {name} has no hyperparameters {sorted(set(said) - set(fields))}.")
        arguments = {}
        for key in node:
            if key in ("class", "info"):
                continue
            path = _join(where, key)
            if "constraint" in fields[key].metadata:
                value = self.hyper(node[key], path, depth + 1)
                explicit = key in said or fields[key].metadata["structural"]
                plain = value is None or isinstance(value, Static) or not explicit
                arguments[key] = value if plain else Param(value, said.get(key, Info()))
            else:
                arguments[key] = self.read(node[key], path, depth + 1)
        if issubclass(cls, AbstractHyperprior) and not all(map(_prior_field, arguments.values())):
            raise SerialiseError(f"{where}: {name} takes numbers or priors, got {arguments}.")
        try:
            return cls(**arguments)
        except (TypeError, ValueError, AttributeError, ArithmeticError) as error:
            raise SerialiseError(f"{where or name}: {error}") from error

    def hyper(self, node, where: str, depth: int):
        value = self.read(node, where, depth)
        if value is None or isinstance(value, Static):
            return value
        try:
            array = np.array(value, dtype=np.float64)
        except (TypeError, ValueError, OverflowError):
            raise SerialiseError(f"{where} must be a number or an array of numbers.") from None
        if not np.isfinite(array).all():
            raise SerialiseError(f"{where} is not finite.")
        return array

    def info(self, node, where: str, depth: int) -> Info:
        said = {k: self.read(v, _join(where, k), depth + 1) for k, v in _expect(node, dict, where).items()}
        if isinstance(said.get("bounds"), list):
            said["bounds"] = tuple(said["bounds"])
        try:
            info = Info(**said)
        except TypeError:
            raise SerialiseError(
                f"{where}: a hyperparameter has free, prior, bounds and tie, not {sorted(said)}."
            ) from None
        valid = isinstance(info.free, bool) and isinstance(info.tie, str | None)
        valid = (
            valid
            and isinstance(info.prior, AbstractHyperprior | None)
            and (info.bounds is None or _interval(info.bounds))
        )
        if not valid:
            raise SerialiseError(
                f"{where}: free, prior, bounds or tie of a hyperparameter is not valid: {said}."
            )
        return info

    # -- kinds -----------------------------------------------------------------------------------------------

    def read_static(self, node, where, depth):
        return Static(_expect(self.read(node.get("value"), where, depth + 1), (int, float), where))

    def read_float(self, node, where, depth):
        if node.get("value") not in ("inf", "-inf", "nan"):
            raise SerialiseError(f"{where}: a special number is inf, -inf or nan, not {node.get('value')!r}.")
        return float(node["value"])

    def read_param(self, node, where, depth):
        value = self.hyper(node.get("value"), where, depth + 1)
        if value is None:
            raise SerialiseError(f"{where}: a hyperparameter needs a value.")
        return Param(
            float(value) if np.shape(value) == () else value, self.info(node.get("info", {}), where, depth)
        )

    def read_tuple(self, node, where, depth):
        return tuple(self.read(_expect(node.get("items"), list, where), where, depth))

    def read_dict(self, node, where, depth):
        return {
            k: self.read(v, _join(where, k), depth + 1)
            for k, v in _expect(node.get("items"), dict, where).items()
        }

    def read_function(self, node, where, depth):
        function = self.functions[_expect(node.get("name"), str, where)]
        if not callable(function):
            raise SerialiseError(
                f"{where}: {node['name']!r} was given as {type(function).__name__}, which is not a function."
            )
        return function

    def read_array(self, node, where, depth):
        if "name" in node:
            name = _expect(node["name"], str, where)
            if name not in self.arrays:
                raise SerialiseError(f"{where}: the array {name!r} is missing.")
            return np.array(self.arrays[name])
        dtype, shape, data = (
            node.get("dtype"),
            _expect(node.get("shape"), list, where),
            _expect(node.get("data"), list, where),
        )
        if (
            dtype not in _DTYPES
            or not all(type(n) is int and n >= 0 for n in shape)
            or math.prod(shape) != len(data)
        ):
            raise SerialiseError(f"{where}: an array needs a dtype, a shape and as many entries.")
        try:
            return np.array(data, dtype=dtype).reshape(shape)
        except (TypeError, ValueError, OverflowError):
            raise SerialiseError(
                f"{where}: the entries of an array of {dtype} are not such numbers."
            ) from None


_KINDS = {
    name: getattr(_Reader, f"read_{name}")
    for name in ("static", "float", "param", "tuple", "dict", "function", "array")
}


def _expect(value, kind, where: str):
    if not isinstance(value, kind) or isinstance(value, bool):
        raise SerialiseError(
            f"{where}: expected {getattr(kind, '__name__', 'a number')}, got {type(value).__name__}."
        )
    return value


def _prior_field(value) -> bool:
    if isinstance(value, tuple):
        return all(isinstance(v, AbstractHyperprior) for v in value)
    return isinstance(value, int | float) and math.isfinite(value)


def _interval(bounds) -> bool:
    numeric = (
        isinstance(bounds, tuple) and len(bounds) == 2 and all(isinstance(b, int | float) for b in bounds)
    )
    return numeric and bounds[0] < bounds[1]


def _join(where: str, key) -> str:
    return f"{where}.{key}" if where else str(key)
