"""No module looks behind a wall: solvers, States and posteriors are used by their protocols.

Found in the syntax tree of every module outside the room: `isinstance`, `issubclass`, `type(x) is` and class
patterns with a class of the room; `hasattr`, `getattr` with a default and `except AttributeError` on things
of it. Another room joins by a line in `WALLS`.
"""

import ast
import functools
import inspect
from collections.abc import Iterator
from pathlib import Path

import pytest

import mercer
from mercer.solvers.protocol import AbstractSolver, AbstractState

SOURCE = Path(mercer.__file__).parent

# room -> what its things are called by those who hold one
WALLS = {
    "mercer.solvers": ("state", "solver", "base", "chosen", "curved"),
    "mercer.posteriors": ("posterior", "posteriors", "post", "posterior_", "_posterior"),
}

# "module: what is written" -> why it stays; five at most
EXCEPTIONS: dict[str, str] = {
    "mercer.kernels.algebra.conditioned: except AttributeError:": (
        "PosteriorKernel takes what a person hands in; kernels are below posteriors and cannot name one"
    )
}


def modules(room: str) -> Iterator[tuple[str, str]]:
    """Names and texts of the modules outside a room."""
    for path in sorted(SOURCE.rglob("*.py")):
        name = ".".join(["mercer", *path.relative_to(SOURCE).with_suffix("").parts]).removesuffix(".__init__")
        if name != room and not name.startswith(room + "."):
            yield name, path.read_text()


@functools.cache
def looks(text: str, room: str, things: tuple[str, ...]) -> list[str]:
    """What is written where a module looks behind the wall of a room."""
    tree = ast.parse(text)
    known = dict(imported(tree))
    found = [part for node in ast.walk(tree) for part in gates(node, known, room, things)]
    return [ast.unparse(part).splitlines()[0] for part in found]


def imported(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """Local names and what they stand for, wherever they are imported."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield (
                    alias.asname or alias.name.split(".")[0],
                    alias.name if alias.asname else alias.name.split(".")[0],
                )
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            for alias in node.names:
                yield alias.asname or alias.name, f"{node.module}.{alias.name}"


def gates(node: ast.AST, known: dict[str, str], room: str, things: tuple[str, ...]) -> list[ast.AST]:
    """What a node looks behind the wall with: itself, or the handlers of a `try`."""
    of_room = lambda tree: any(is_class(part, known, room) for part in ast.walk(tree))  # noqa: E731
    found = False
    match node:
        case ast.Call(func=ast.Name("isinstance" | "issubclass"), args=[_, classes]):
            found = of_room(classes)
        case ast.Call(func=ast.Name("hasattr"), args=[thing, *_]):
            found = is_thing(thing, things)
        case ast.Call(func=ast.Name("getattr"), args=[thing, _, _]):
            found = is_thing(thing, things)
        case ast.Compare(left=ast.Call(func=ast.Name("type"), args=[thing]), comparators=others):
            found = is_thing(thing, things) or any(map(of_room, others))
        case ast.MatchClass(cls=cls):
            found = of_room(cls)
        case ast.Try(body=body, handlers=handlers):
            if any(is_thing(part, things) for line in body for part in ast.walk(line)):
                return [h for h in handlers if h.type is not None and "AttributeError" in ast.unparse(h.type)]
    return [node] if found else []


def is_class(node: ast.AST, known: dict[str, str], room: str) -> bool:
    """Whether an expression names a class of the room."""
    if not isinstance(node, ast.Name | ast.Attribute):
        return False
    first, _, rest = ast.unparse(node).partition(".")
    full = ".".join(filter(None, (known.get(first, first), rest)))
    return full.startswith(room + ".") and full.rsplit(".", 1)[-1].lstrip("_")[:1].isupper()


def is_thing(node: ast.AST, things: tuple[str, ...]) -> bool:
    """Whether an expression is called like a thing of the room: `state`, `result.state`, `states[0]`."""
    while isinstance(node, ast.Subscript):
        node = node.value
    return getattr(node, "id", getattr(node, "attr", None)) in things


@pytest.mark.parametrize("room", WALLS)
def test_nobody_looks_behind_the_wall(room):
    found = {f"{name}: {what}" for name, text in modules(room) for what in looks(text, room, WALLS[room])}
    assert sorted(found - set(EXCEPTIONS)) == []


def test_exceptions_are_few_and_real():
    found = {
        f"{name}: {what}"
        for room, things in WALLS.items()
        for name, text in modules(room)
        for what in looks(text, room, things)
    }
    assert len(EXCEPTIONS) <= 5 and set(EXCEPTIONS) <= found and all(EXCEPTIONS.values())


GATES = [
    "from mercer.solvers.dense import Dense\nisinstance(x, Dense)",
    "from mercer.solvers import Dense as D\nisinstance(x, (int, D))",
    "from mercer import solvers\nisinstance(x, int | solvers.Dense)",
    "import mercer.solvers as s\nissubclass(cls, s.protocol.AbstractState)",
    "import mercer\nisinstance(x, mercer.solvers.Dense)",
    "def f(x):\n    from mercer.solvers.basis import WithBasis\n    return isinstance(x, WithBasis)",
    "from mercer.solvers import Dense\ntype(x) is Dense",
    "type(state) is not object",
    "from mercer.solvers import Dense\nmatch x:\n    case Dense():\n        pass",
    "hasattr(solver, 'rest')",
    "getattr(result.state, 'base', None)",
    "getattr(states.state[0], 'base', None)",
    "try:\n    y = state.base\nexcept (KeyError, AttributeError):\n    pass",
]
FREE = [
    "from mercer.kernels import SE\nisinstance(x, SE)",
    "isinstance(state, tuple)",
    "getattr(state, name)",
    "hasattr(kernel, 'variance')",
    "from mercer.solvers import by_name\nby_name('dense')",
    "try:\n    y = kernel.spread\nexcept AttributeError:\n    pass",
]


@pytest.mark.parametrize("text", GATES)
def test_a_gate_is_found(text):
    assert len(looks(text, "mercer.solvers", WALLS["mercer.solvers"])) == 1


@pytest.mark.parametrize("text", FREE)
def test_what_is_no_gate_is_not(text):
    assert looks(text, "mercer.solvers", WALLS["mercer.solvers"]) == []


# things whose every attribute must be of the protocol, and modules whose `state` is something else
PROTOCOLS = {"state": AbstractState, "solver": AbstractSolver}
OTHERS = {
    "mercer.control.dynamics": "the state of a world",
    "mercer.control.losses": "the state of a world",
    "mercer.control.planning": "the state of a world",
    "mercer.control.policies": "the state of a world",
    "mercer.control.propagate": "the state of a world",
    "mercer.sampling.hmc": "the state of a chain",
    "mercer.decide.designs": "the state of a search",
    "mercer.selection.greedy": "the state of a search",
    "mercer.estimators.regression.regressor": "a random state",
}


def test_only_the_protocol_is_used():
    """`result.state.RH` would be a State's own affair."""
    wrong = []
    for name, text in modules("mercer.solvers"):
        for node in ast.walk(ast.parse(text)) if name not in OTHERS else ():
            if isinstance(node, ast.Attribute):
                thing = getattr(node.value, "id", getattr(node.value, "attr", None))
                protocol = PROTOCOLS.get(thing)
                if protocol is not None and node.attr not in {*dir(protocol), *names(protocol)}:
                    wrong.append(f"{name}: {ast.unparse(node)}")
    assert wrong == []


def names(protocol: type) -> set[str]:
    return {name for cls in protocol.__mro__ for name in inspect.get_annotations(cls)}
