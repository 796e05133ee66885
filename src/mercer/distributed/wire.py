"""What goes from one process to another: values as JSON and arrays, as in files; never code.

A packed value is the length of its JSON, the JSON, and its arrays in the format of safetensors.
"""

from __future__ import annotations

import json
import struct
from typing import Any

from mercer.persist.values import SerialiseError, from_json, named_functions, to_json, unknown_classes

__all__ = ["WireError", "pack", "unpack"]

LENGTH = struct.Struct("<Q")


class WireError(SerialiseError):
    """A value that cannot be sent to another process."""


def pack(value: Any, what: str = "it") -> bytes:
    """A value of Mercer's, or numbers, text, arrays, and lists, tuples and dicts of these.

    >>> unpack(pack({"kernel": kernels.SE(2.0), "X": X}))
    """
    from safetensors.numpy import save

    arrays: dict[str, Any] = {}
    try:
        tree = to_json(value, arrays)
    except SerialiseError as error:
        raise WireError(f"{what} cannot be sent to other processes: {error} {INSTEAD}") from error
    if functions := sorted(named_functions(tree)):
        raise WireError(
            f"{what} cannot be sent to other processes: it holds your functions {functions}, and no code is "
            f"sent. {INSTEAD}"
        )
    if classes := unknown_classes(tree, {}):
        raise WireError(
            f"{what} cannot be sent to other processes: they would not find {classes}. Register such classes "
            f"as entry points of 'mercer.classes' in an installed package. {INSTEAD}"
        )
    text = json.dumps(tree, ensure_ascii=False).encode()
    return LENGTH.pack(len(text)) + text + save(arrays)


INSTEAD = "Or leave out parallel=: in this process everything works."


def unpack(packed: bytes) -> Any:
    """The value that `pack` was given."""
    from safetensors.numpy import load

    (length,) = LENGTH.unpack_from(packed)
    start = LENGTH.size + length
    return from_json(json.loads(packed[LENGTH.size : start]), load(bytes(packed[start:])))


def __dir__() -> list[str]:
    return sorted(__all__)
