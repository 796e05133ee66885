"""Every public name, and every public method and property of a public class, says what it is."""

import importlib.util
import inspect
from pathlib import Path

import pytest

PAGES = Path(__file__).resolve().parents[2] / "docs" / "api_pages.py"
if not PAGES.exists():
    pytest.skip("docs/ is only in a source checkout", allow_module_level=True)

spec = importlib.util.spec_from_file_location("api_pages", PAGES)
api_pages = importlib.util.module_from_spec(spec)
spec.loader.exec_module(api_pages)


def said(value) -> bool:
    """Whether there is a docstring, not counting the one a dataclass writes for itself."""
    text = value.__doc__ or ""
    return bool(text) and not (inspect.isclass(value) and text.startswith(f"{value.__name__}("))


def members(cls):
    """Public functions and properties that a class defines itself, and all definitions of that name in the
    classes it comes from: a method says what it does where it is first defined.
    """
    for name, value in vars(cls).items():
        function = value.__func__ if isinstance(value, classmethod | staticmethod) else value
        if not name.startswith("_") and (inspect.isroutine(function) or isinstance(value, property)):
            yield name, [vars(base)[name] for base in cls.__mro__ if name in vars(base)]


def silent(room):
    """Dotted names of a room without a docstring."""
    for name, value in api_pages.public(room):
        if (inspect.isclass(value) or inspect.isroutine(value)) and not said(value):
            yield name
        if inspect.isclass(value) and value.__module__.startswith("mercer"):
            yield from (f"{name}.{m}" for m, defined in members(value) if not any(map(said, defined)))


@pytest.mark.parametrize("room", api_pages.rooms())
def test_every_public_name_has_a_docstring(room):
    missing = list(silent(room))
    assert not missing, f"{len(missing)} without a docstring:\n" + "\n".join(missing)
