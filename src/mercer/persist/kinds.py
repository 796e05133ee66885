"""Whether a value that a file names is of the kind that a field says it holds."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

__all__ = ["checked", "of_kind"]

_PLAIN: dict[str, Any] = {
    "None": type(None), "bool": (bool, int), "int": int, "float": (int, float), "str": str,
    "np.ndarray": np.ndarray, "tuple": (tuple, list), "list": list, "dict": dict,
}  # fmt: skip


def of_kind(annotation: str, value: Any) -> bool:
    """Whether the value may stand where this is written. What is not plain (a class, Any) is left to the
    constructor, which knows.

    >>> of_kind("tuple[str, ...] | None", ("a", "b"))
    True
    """
    return any(_is(option.strip(), value) for option in _split(annotation, "|"))


def checked(cls: type, said: Any) -> Any:
    """An instance of a dataclass with the fields that a file says, each of its kind; else a ValueError.

    >>> checked(Clock, {"unit": "day", "step": 7.0})
    """
    kinds = {field.name: str(field.type) for field in dataclasses.fields(cls)}
    if not isinstance(said, dict) or set(said) - set(kinds):
        raise ValueError(f"{cls.__name__} has {sorted(kinds)}, not {said!r}.")
    for name, value in said.items():
        if not of_kind(kinds[name], value):
            raise ValueError(f"{cls.__name__}.{name} must be {kinds[name]}, got {type(value).__name__}.")
    return cls(**said)


def _is(option: str, value: Any) -> bool:
    head, _, inner = option.partition("[")
    if head not in _PLAIN:
        return True
    if not isinstance(value, _PLAIN[head]) or (head in ("int", "float") and isinstance(value, bool)):
        return False
    if head == "np.ndarray":
        return value.dtype.kind in "fiub"
    if not inner:
        return True
    *kinds, last = (kind.strip() for kind in _split(inner.removesuffix("]"), ","))
    if head in ("list", "dict"):
        return all(of_kind(last, item) for item in (value.values() if head == "dict" else value))
    each = kinds * len(value) if last == "..." else [*kinds, last]
    return len(each) == len(value) and all(map(of_kind, each, value))


def _split(text: str, mark: str) -> list[str]:
    """The parts of an annotation between marks that are not within brackets."""
    parts, depth = [""], 0
    for letter in text:
        depth += (letter == "[") - (letter == "]")
        if letter == mark and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    return parts
