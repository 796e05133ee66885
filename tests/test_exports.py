"""What each room offers: `__all__` everywhere, every name in it is there, and nothing else shows."""

import ast
import importlib
import pkgutil
from pathlib import Path
from types import ModuleType

import pytest

import mercer

FOUND = [m for m in pkgutil.iter_modules(mercer.__path__) if not m.name.startswith("_")]
ROOMS = sorted(m.name for m in FOUND)
PACKAGES = sorted(m.name for m in FOUND if m.ispkg)


def module(room: str) -> ModuleType:
    return importlib.import_module(f"mercer.{room}")


@pytest.mark.parametrize("room", ROOMS)
def test_every_room_says_what_it_offers(room):
    names = module(room).__all__
    assert len(set(names)) == len(names)
    for name in names:
        assert not name.startswith("_") and getattr(module(room), name) is not None


@pytest.mark.parametrize("room", [*(r for r in ROOMS if r in mercer.__all__), "app", "posteriors"])
def test_nothing_leaks_into_the_rooms_that_people_use(room):
    """Apart from their own modules, `dir` shows what is offered: no numpy, no Any, no helper."""
    here = module(room)
    shown = {name for name in dir(here) if not name.startswith("_")} - set(here.__all__)
    own = {name for name in shown if getattr(getattr(here, name), "__name__", "") == f"mercer.{room}.{name}"}
    assert shown - own == set()


@pytest.mark.parametrize("room", PACKAGES)
def test_no_name_is_both_a_module_and_something_else(room):
    """Importing a module puts it into its room, in place of a function of that name."""
    here = module(room)
    inside = {m.name for m in pkgutil.iter_modules(here.__path__)}
    assert all(isinstance(getattr(here, name), ModuleType) for name in inside & set(here.__all__))


def _named_for_type_checkers() -> set[str]:
    """What `mercer/__init__.py` imports where types are checked, and nowhere else."""
    (block,) = (
        node for node in ast.parse(Path(mercer.__file__).read_text()).body if isinstance(node, ast.If)
    )
    return {alias.name for node in block.body for alias in node.names}


def test_the_package_itself():
    assert set(mercer.__all__) > mercer._ROOMS
    assert _named_for_type_checkers() == set(mercer.__all__)
    assert set(dir(mercer)) == {*mercer.__all__, "__version__"}
    for name in mercer.__all__:
        assert getattr(mercer, name) is not None


def test_unknown_names_are_refused():
    for room in ("estimators", "kernels", "learning", "linalg", "solvers"):
        with pytest.raises(AttributeError, match=f"module 'mercer.{room}' has no attribute 'nothing'"):
            module(room).nothing
