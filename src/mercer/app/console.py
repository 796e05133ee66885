"""Talking to whoever typed a command: text and tables for people, one JSON document for machines, notes.

Text goes to standard output and notes to standard error. With `--json` the text is not printed: a command
says by `found` what a machine should know, and the frame (`app/command.py`) prints it when all is done.
"""

from __future__ import annotations

import contextlib
import contextvars
import dataclasses
import math
import sys
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TextIO

import typer


@dataclasses.dataclass
class Answer:
    """What a command has said: `result` for machines, the `files` it wrote by what they hold, and `notes`.
    `read` are files that must not be replaced, beside those that it names itself; `output` is where the
    document goes, once.
    """

    command: str
    json: bool = False
    quiet: bool = False
    result: dict[str, Any] = dataclasses.field(default_factory=dict)
    files: dict[str, str] = dataclasses.field(default_factory=dict)
    notes: list[str] = dataclasses.field(default_factory=list)
    read: list[Path] = dataclasses.field(default_factory=list)
    output: TextIO = dataclasses.field(default_factory=lambda: sys.stdout)
    answered: bool = False


_answer: contextvars.ContextVar[Answer | None] = contextvars.ContextVar("answer", default=None)


def answer() -> Answer:
    """That of the command that is running."""
    return _answer.get() or Answer("")


@contextlib.contextmanager
def answering(one: Answer) -> Iterator[Answer]:
    """Within, what is said is heard by this one."""
    token = _answer.set(one)
    try:
        yield one
    finally:
        _answer.reset(token)


def say(text: str = "") -> None:
    """A line for people, on standard output."""
    typer.echo(text)


def found(**values: Any) -> None:
    """What machines get under `result` with --json: numbers, texts, arrays, dicts, tables of columns."""
    answer().result.update(values)


def note(message: str) -> None:
    """Something worth knowing, on standard error; and among the notes for machines."""
    answer().notes.append(message)
    if not answer().quiet:
        typer.echo(f"note: {message}", err=True)


def wrote(what: str, path: Path, how: str = "written to") -> None:
    """That a file was written; "-" is standard output."""
    answer().files[what] = str(path)
    if not answer().quiet:
        where = "standard output" if str(path) == "-" else str(path)
        typer.echo(f"note: {what} {how} {where}", err=True)


def next_step(*lines: str) -> None:
    """Commands that may be typed next."""
    for line in lines:
        typer.echo(f"next: {line}")


@contextlib.contextmanager
def warnings_as_notes(quiet: bool = False) -> Iterator[None]:
    """Warnings inside become notes, each said once; or nothing."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
    for message in () if quiet else dict.fromkeys(" ".join(str(w.message).split()) for w in caught):
        note(message)


def show_table(
    title: str, columns: Sequence[str], rows: Iterable[Sequence[str]], right: Sequence[int] = ()
) -> None:
    """A table on standard output; the columns at the positions `right` are flush right."""
    if answer().json:
        return
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for i, name in enumerate(columns):
        table.add_column(name, justify="right" if i in right else "left", overflow="fold")
    for row in rows:
        table.add_row(*map(Text, row))
    console = Console(highlight=False)
    console.print(Text(title, style="bold"))
    console.print(table)
    console.print()


def plain(value: Any) -> Any:
    """A value as JSON has it: arrays as lists, what is not a finite number as null, anything else as text."""
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, int | float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(name): plain(entry) for name, entry in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(entry) for entry in value]
    if hasattr(value, "tolist"):  # arrays and numbers of NumPy and JAX
        dated = getattr(getattr(value, "dtype", None), "kind", "") in "mM"
        return plain((value.astype(str) if dated else value).tolist())
    return str(value)
