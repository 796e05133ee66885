"""Every public function says what it takes and gives: all parameters and the return are annotated.

Found in the syntax tree: functions and methods with a public name, `__init__` and `__call__`, in public
classes.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import mercer

SOURCE = Path(mercer.__file__).parent


def functions(tree: ast.Module) -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef, bool]]:
    """Dotted name and node of every public function of a module, and whether it is a method."""

    def visit(body: list[ast.stmt], path: tuple[str, ...]):
        for node in body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                yield from visit(node.body, (*path, node.name))
            elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                if not node.name.startswith("_") or node.name in ("__init__", "__call__"):
                    yield ".".join((*path, node.name)), node, bool(path)
            elif isinstance(node, (ast.If, ast.Try, ast.With)):
                yield from visit(list(ast.iter_child_nodes(node)), path)

    return visit(tree.body, ())


def missing(node: ast.FunctionDef | ast.AsyncFunctionDef, method: bool) -> list[str]:
    """Parameters without an annotation, and "return"."""
    given = node.args.posonlyargs + node.args.args
    static = any(isinstance(d, ast.Name) and d.id == "staticmethod" for d in node.decorator_list)
    if method and not static:
        given = given[1:]
    given += node.args.kwonlyargs + [a for a in (node.args.vararg, node.args.kwarg) if a]
    names = [a.arg for a in given if a.annotation is None]
    return names + ["return"] * (node.returns is None and node.name != "__init__")


def unannotated(text: str, where: str) -> list[str]:
    """A line `file:line name: what is missing` for each function of a module that lacks something."""
    return [
        f"{where}:{node.lineno} {name}: {', '.join(names)}"
        for name, node, method in functions(ast.parse(text))
        if (names := missing(node, method))
    ]


def test_every_public_function_is_annotated():
    found = [
        line
        for path in sorted(SOURCE.rglob("*.py"))
        for line in unannotated(path.read_text(), str(path.relative_to(SOURCE.parent)))
    ]
    assert not found, "annotate:\n" + "\n".join(found)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("def f(a, b: int) -> int: ...", "a"),
        ("def f(*a, k=1, **rest): ...", "k, a, rest, return"),
        ("class C:\n    def __init__(self, a): ...", "a"),
        ("class C:\n    def __call__(self): ...", "return"),
        ("class C:\n    @staticmethod\n    def f(a) -> int: ...", "a"),
        ("class C:\n    class D:\n        async def f(self, a: int): ...", "return"),
        ("if True:\n    def f(a) -> int: ...", "a"),
    ],
)
def test_what_is_missing_is_named(text, names):
    (line,) = unannotated(text, "here.py")
    assert line.startswith("here.py:") and line.endswith(f": {names}")


@pytest.mark.parametrize(
    "text",
    [
        "def _f(a): ...",
        "class _C:\n    def f(self, a): ...",
        "class C:\n    def __init__(self, a: int): ...",
        "class C:\n    @classmethod\n    def f(cls, a: int) -> int: ...",
        "def f(a: int) -> int:\n    def g(b): ...\n    return a",
    ],
)
def test_what_is_private_or_complete_is_left_alone(text):
    assert unannotated(text, "here.py") == []
