"""Talking to a person in a terminal: tables, notes, and errors of one line."""

from __future__ import annotations

import contextlib
import functools
import os
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import ParamSpec

import typer

from mercer.progress import in_lines

P = ParamSpec("P")
EXPECTED = (ValueError, TypeError, OSError, ImportError, ArithmeticError, RuntimeError)


def one_line_errors(command: Callable[P, None]) -> Callable[P, None]:
    """A command whose errors become one line on stderr and exit code 1;
    MERCER_TRACEBACK=1 shows where they came from.
    """

    @functools.wraps(command)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> None:
        try:
            with in_lines():
                command(*args, **kwargs)
        except (typer.Exit, typer.Abort):
            raise
        except Exception as error:
            if os.environ.get("MERCER_TRACEBACK"):
                raise
            message = " ".join(str(error).split())
            if isinstance(error, OSError) and error.filename and error.strerror:
                message = f"{error.filename}: {error.strerror}"
            if not isinstance(error, EXPECTED):
                message = f"unexpected {type(error).__name__}: {message} (MERCER_TRACEBACK=1 shows where)"
            typer.echo(f"mercer: {message}", err=True)
            raise typer.Exit(1) from None

    return wrapped


def note(message: str) -> None:
    """Something worth knowing, on stderr."""
    typer.echo(f"note: {message}", err=True)


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
    """A table on stdout; the columns at the positions `right` are flush right."""
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
