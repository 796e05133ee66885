"""One job, wherever it is done: packed values in, a packed answer out. Errors and warnings travel back."""

from __future__ import annotations

import builtins
import importlib
import traceback
import warnings
from collections.abc import Callable
from typing import Any

from mercer.distributed.jobs import JobError
from mercer.distributed.wire import pack, unpack

__all__ = ["address", "answer", "done"]

ROOMS = ("mercer.", "numpy.", "builtins")  # whose errors and warnings are raised again as what they were


def address(function: Callable[..., Any]) -> str:
    """How a function is called by another process: "mercer.em.driver:climb"."""
    name = f"{function.__module__}:{function.__qualname__}"
    if not function.__module__.startswith("mercer.") or "." in function.__qualname__:
        raise TypeError(f"a job is a function of one of Mercer's own modules, not {name}.")
    return name


def done(function: str, shared: dict[str, Any], job: bytes) -> bytes:
    """The answer of `function(**shared, **job)`, packed, with its error and its warnings."""
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        try:
            module, _, name = function.partition(":")
            said = {"value": getattr(importlib.import_module(module), name)(**shared, **unpack(job))}
            packed = pack(said | {"warnings": _told(heard)}, "the answer")
        except Exception as error:
            text = "".join(traceback.format_exception(error))
            said = {"error": _named(type(error)), "message": str(error), "traceback": text}
            packed = pack(said | {"warnings": _told(heard)})
    return packed


def answer(packed: bytes, name: str, who: str) -> Any:
    """What `done` packed, here: its warnings are given again and its error is raised, with the job's name."""
    said = unpack(packed)
    for cls, message in said["warnings"]:
        warnings.warn(_class(cls, Warning, UserWarning)(message), stacklevel=4)
    if "error" not in said:
        return said["value"]
    cls = _class(said["error"], Exception, JobError)
    try:
        error = cls(said["message"])
    except Exception:  # a class whose constructor takes something else
        error = JobError(f"{said['error'].rpartition(':')[2]}: {said['message']}")
    error.add_note(f"in {name}, {who}:\n{said['traceback']}")
    raise error


def _told(heard: list[Any]) -> list[list[str]]:
    return [[_named(w.category), str(w.message)] for w in heard]


def _named(cls: type) -> str:
    return f"{cls.__module__}:{cls.__qualname__}"


def _class(name: str, kind: type, otherwise: Any) -> Any:
    """The class of this name, if it is one of Python's, NumPy's or Mercer's."""
    module, _, own = name.partition(":")
    if module == "builtins":
        found = getattr(builtins, own, otherwise)
    elif module.startswith(ROOMS) and "." not in own:
        found = getattr(importlib.import_module(module), own, otherwise)
    else:
        found = otherwise
    return found if isinstance(found, type) and issubclass(found, kind) else otherwise


def __dir__() -> list[str]:
    return sorted(__all__)
