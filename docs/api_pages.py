"""The API reference: every public name, by room. `public(room)` says which they are, `pages()` are the pages.

`conf.py` writes the pages when the site is built; `tests/docs/test_docstrings.py` walks the same names.
"""

from __future__ import annotations

import contextlib
import importlib
import inspect
import pkgutil
import re
import types
from collections.abc import Iterator

import mercer

FIRST = ["mercer", "kernels", "means", "likelihoods", "inference", "solvers", "posteriors", "learning"]


def rooms() -> list[str]:
    """Names of the public modules: the package itself, then its rooms, those met first by a user leading."""
    found = {name for name in mercer.__all__ if isinstance(getattr(mercer, name), types.ModuleType)}
    found |= {"mercer", "posteriors"}
    return [name for name in FIRST if name in found] + sorted(found - set(FIRST))


def module(room: str) -> types.ModuleType:
    """The module of a room."""
    return mercer if room == "mercer" else importlib.import_module(f"mercer.{room}")


def exports(home: types.ModuleType) -> list[str]:
    """What a module says it exports; where it says nothing, the public classes and functions it defines."""
    names = vars(home).get("__all__") or [
        name
        for name, value in vars(home).items()
        if not name.startswith("_") and getattr(value, "__module__", None) == home.__name__
    ]
    values = [name for name in names if not isinstance(getattr(home, name), types.ModuleType)]
    return sorted(values, key=str.lower)


def homes(room: str) -> list[types.ModuleType]:
    """The module itself, or, of a room that exports nothing, its public modules."""
    home = module(room)
    if exports(home) or not hasattr(home, "__path__"):
        return [home]
    inside = sorted(info.name for info in pkgutil.iter_modules(home.__path__))
    return [importlib.import_module(f"{home.__name__}.{name}") for name in inside if name[0] != "_"]


def public(room: str) -> Iterator[tuple[str, object]]:
    """Dotted name and value of everything a room exports."""
    for home in homes(room):
        for name in exports(home):
            yield f"{home.__name__}.{name}", getattr(home, name)


def sections(room: str) -> Iterator[tuple[types.ModuleType, str, dict[str, object]]]:
    """(module, heading, names) of each section of a room's page: a package inside the room that the names
    come from (`kernels.families`), or a public module of a room that exports nothing itself; no heading for
    the rest.
    """
    for home in homes(room):
        inside = "" if home is module(room) else home.__name__
        found: dict[str, dict[str, object]] = {inside: {}}
        for name in exports(home):
            value = getattr(home, name)
            path = str(getattr(value, "__module__", "")).split(".")
            package = path[2] if path[:2] == ["mercer", room] and len(path) > 3 else ""
            found.setdefault(package.capitalize() or inside, {})[name] = value
        yield from ((home, heading, names) for heading, names in sorted(found.items()) if names)


def pages() -> dict[str, str]:
    """The reStructuredText of every page by its name: `index`, and the rooms. What two rooms export is
    explained once, on the page that comes first.
    """
    written: dict[int, str] = {}
    found = {room: "".join(f"{line}\n" for line in page(room, written)) for room in rooms()}
    listed = [f"   {room}" for room in found]
    index = [*title("API reference"), ".. toctree::", "   :maxdepth: 1", "", *listed]
    return {"index": "\n".join(index)} | found


def page(room: str, written: dict[int, str]) -> Iterator[str]:
    """The lines of a room's page; adds to `written`, where each value stands."""
    yield from title(module(room).__name__)
    yield from (f".. automodule:: {module(room).__name__}", "   :no-members:", "")
    for home, heading, names in sections(room):
        if heading:
            yield from title(heading, "-")
        if heading == home.__name__:
            yield from (f".. automodule:: {heading}", "   :no-members:", "")
        here = {name: f"{home.__name__}.{name}" for name in names}
        where = {name: written.setdefault(id(value), here[name]) for name, value in names.items()}
        yield from (".. list-table::", "   :class: names", "")
        for name, value in names.items():
            yield from (f"   * - :py:obj:`~{where[name]}`", f"     - {summary(value)}")
        yield ""
        for name, value in names.items():
            if where[name] == here[name]:
                yield from entry(where[name], value)


def title(text: str, line: str = "=") -> list[str]:
    """A heading."""
    return [text, line * len(text), ""]


def summary(value: object) -> str:
    """The first paragraph of a docstring on one line."""
    if not (inspect.isclass(value) or inspect.isroutine(value)):
        return type(value).__name__
    return escaped(" ".join((inspect.getdoc(value) or "").split("\n\n")[0].split()))


def escaped(line: str) -> str:
    """A line with everything that reStructuredText would read as markup escaped, outside of `code`."""
    bullet = re.match(r"\s*[*-] ", line)
    start = bullet.end() if bullet else 0
    parts = re.split(r"(`+[^`]+`+)", line[start:])
    parts[::2] = [re.sub(r"([\\*|`]|_(?!\w))", r"\\\1", text) for text in parts[::2]]
    return line[:start] + "".join(parts)


def entry(name: str, value: object) -> list[str]:
    """The autodoc directive of one name."""
    if inspect.isclass(value):
        ours = any(base.__module__.startswith("mercer") for base in value.__bases__)
        kind, options = "class", ["   :members:", *["   :show-inheritance:"] * ours]
    elif inspect.isroutine(value):
        kind, options = "function", []
    else:
        kind, options = "data", ["   :no-value:"]
    return [f".. auto{kind}:: {name}", *options, ""]


def arguments(value: object) -> set[str]:
    """Names of what a function takes, or of what a class takes and has."""
    found: set[str] = set()
    if inspect.isclass(value):
        found = {
            name for base in value.__mro__ for name in (*vars(base), *vars(base).get("__annotations__", ()))
        }
        value = value.__init__
    with contextlib.suppress(TypeError, ValueError):  # what is built in does not always say
        found |= set(inspect.signature(value).parameters)  # type: ignore[arg-type]
    return found
