"""Classes by name: Mercer's own, imported when first used, and those that other packages bring.

People type the name of a class in lower case with hyphens ("student-t" is StudentT), or the short one its
room gives it ("sr"). Files say "room.Class" of Mercer's own classes ("kernels.SE") and "package:Class" of
others. Those are found among the classes that are handed in, or under an entry point of an installed package:

    [project.entry-points."mercer.classes"]
    "their_package:Skewed" = "their_package.noise:Skewed"    # as files say it
    skewed = "their_package.noise:Skewed"                    # as people type it: likelihood="skewed"

A name is looked up and never used as the path of a module: text causes no import except of what a room of
Mercer's exports, or an installed package registered.
"""

from __future__ import annotations

import abc
import contextlib
import difflib
import gc
import importlib
import inspect
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

__all__ = [
    "GROUP",
    "ROOMS",
    "Saved",
    "address",
    "all_installed",
    "by_address",
    "classes",
    "exported",
    "exporter",
    "find",
    "installed",
    "named",
    "of_room",
    "spelled",
    "unknown",
]

GROUP = "mercer.classes"  # the entry points
# whose classes files may name
ROOMS = (
    "columns",
    "control",
    "decide",
    "em",
    "gp",
    "hyperpriors",
    "inference",
    "kernels",
    "likelihoods",
    "means",
    "relatives",
    "selection",
    "series",
    "solvers",
    "warps",
)


class Saved(abc.ABC):  # noqa: B024
    """Marks classes whose values are written to files field by field, and made again by their constructors.

    >>> @Saved.register
    ... class AbstractSolver: ...
    """


# ------------------------------------------------------------------------------------------------- rooms


def exporter(package: str, modules: Mapping[str, str]) -> Callable[[str], Any]:
    """A `__getattr__` for a package: each module is imported when one of the names it holds is first used.

    >>> __getattr__ = exporter(__name__, {"lowrank": "VFE FITC", "markov": "Markov"})
    """
    where = {name: module for module, names in modules.items() for name in names.split()}

    def export(name: str) -> Any:
        if name not in where:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        with _uncollected():
            return getattr(importlib.import_module(f"{package}.{where[name]}"), name)

    return export


@contextlib.contextmanager
def _uncollected() -> Iterator[None]:
    """Modules are loaded without looking for garbage among what they make, all of which stays; and then it
    counts as old, so that the next search does not begin with it. Both together would be a tenth of the time
    of a first import.
    """
    looking, loaded = gc.isenabled(), len(sys.modules)
    gc.disable()
    try:
        yield
    finally:
        if looking:
            if len(sys.modules) > loaded and not gc.get_freeze_count():
                gc.freeze()
                gc.unfreeze()  # into the oldest generation
            gc.enable()


def classes(room: str, kind: type) -> Iterator[type[Any]]:
    """The final classes of this kind that a room exports; imports all of them."""
    module = importlib.import_module(f"mercer.{room}")
    for name in module.__all__:
        if _is_final(value := getattr(module, name), kind):
            yield value


def exported(room: str, name: str, kind: type) -> type[Any] | None:
    """The final class of this kind that a room exports under its own name; None where there is none."""
    module = importlib.import_module(f"mercer.{room}")
    return value if name in module.__all__ and _is_final(value := getattr(module, name), kind) else None


def installed(name: str, kind: type) -> type[Any] | None:
    """The class of this kind that an installed package registered under a name; imports that class alone."""
    for point in _entry_points().select(name=name):
        if _is_final(value := point.load(), kind):
            return value
    return None


def all_installed(kind: type) -> list[type[Any]]:
    """Every class of this kind that installed packages registered; imports all that they registered."""
    loaded = {point.value: point.load() for point in _entry_points()}
    return [value for value in loaded.values() if _is_final(value, kind)]


def _entry_points() -> Any:
    from importlib.metadata import entry_points

    return entry_points(group=GROUP)


def _is_final(value: Any, kind: type) -> bool:
    return isinstance(value, type) and issubclass(value, kind) and not _is_abstract(value)


def _is_abstract(cls: type) -> bool:
    return inspect.isabstract(cls) or cls.__name__.startswith("Abstract")


# ------------------------------------------------------------------------------------- what people type


def spelled(name: str) -> str:
    """The name of a class as people type it: "student-t" for StudentT, "vfe" for VFE."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "-", name).lower()


def named(
    room: str,
    name: Any,
    kind: type,
    short: Mapping[str, str] | None = None,
    also: Sequence[str] = (),
    error: type[ValueError] = ValueError,
    listed: Callable[[type[Any]], bool] = lambda cls: True,
) -> type[Any]:
    """The class of a room, or of an installed package, that people call `name`.

    short: {class: name} where people do not type the class's own name. also: names that the caller knows
    itself, for the error; listed: which of the room's classes it names.
    """
    if isinstance(name, str):
        module, short = importlib.import_module(f"mercer.{room}"), short or {}
        own = next((n for n in module.__all__ if short.get(n, spelled(n)) == name), None)
        if own is not None and _is_final(cls := getattr(module, own), kind):
            return cls
        if (found := installed(name, kind)) is not None:
            return found
    fitting = filter(listed, classes(room, kind))
    own_names = [(short or {}).get(cls.__name__, spelled(cls.__name__)) for cls in fitting]
    others = [cls_name for cls_name in _entry_points().names if ":" not in cls_name]
    what = kind.__name__.removeprefix("Abstract").lower()
    instance = f"an instance from mercer.{room}"
    raise error(unknown(what, name, [*own_names, *also, *others], instance))


def unknown(what: str, given: Any, known: Iterable[str], instead: str = "") -> str:
    """What to say of a name that is not known; the right spelling where it is a near miss."""
    known = sorted(set(known))
    there = f"there are {known}" + (f", or {instead}" if instead else "")
    plain = {spelled(name): name for name in known}
    close = difflib.get_close_matches(spelled(str(given)).replace("_", "-"), plain, 1)
    if close:
        return f"unknown {what} {given!r}: did you mean {plain[close[0]]!r}? {there[0].upper()}{there[1:]}."
    return f"unknown {what} {given!r}; {there}."


# ------------------------------------------------------------------------------------- what files say


def address(cls: type) -> str | None:
    """How a file names a class; None where it is not to be saved."""
    if not _is_final(cls, Saved):
        return None
    package, _, rest = cls.__module__.partition(".")
    room = rest.partition(".")[0]
    if package != "mercer":
        return f"{package}:{cls.__name__}"
    known = room in ROOMS and exported(room, cls.__name__, Saved) is cls
    return f"{room}.{cls.__name__}" if known else None


def of_room(value: Any) -> str:
    """The class of a value as errors name it: with its room ("kernels.Linear"), where it has one."""
    return address(type(value)) or type(value).__name__


def find(name: str, given: Mapping[str, type]) -> type | None:
    """The class that a file names: Mercer's own, one of those `given` by address, or an installed one."""
    if ":" in name:
        return given[name] if name in given else installed(name, Saved)
    room, _, own = name.partition(".")
    cls = exported(room, own, Saved) if room in ROOMS else None
    return cls if cls is not None and address(cls) == name else None


def by_address(given: Iterable[type]) -> dict[str, type]:
    """Classes as people hand them in, by the names that files have for them."""
    out: dict[str, type] = {}
    for cls in given:
        name = address(cls) if isinstance(cls, type) else None
        if name is None:
            raise TypeError(
                f"classes= takes classes of kernels, likelihoods, solvers and the like, got {cls!r}."
            )
        if out.setdefault(name, cls) is not cls:
            raise ValueError(f"two of the classes are named {name!r}.")
    return out


def __dir__() -> list[str]:
    return sorted(__all__)
