"""The frame of every command: `--json`, `--quiet`, `--config`, errors of one line, exit codes.

| code | means |
|---|---|
| 0 | done |
| 1 | it could not be done, and the message says why; `mercer doctor`: something is wrong |
| 2 | the command line, or the file of --config, is not understood; nothing was read or computed |
| 130 | interrupted by Ctrl-C |
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import json as json_format
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer

from mercer.app.config import apply
from mercer.app.console import Answer, answer, answering, plain
from mercer.progress import in_lines, shown

EXPECTED = (ValueError, TypeError, OSError, ImportError, ArithmeticError, RuntimeError)
FAILED, USAGE, INTERRUPTED = 1, 2, 130

# typer brings click along under a name that depends on its version
UsageError: Any = next(c for c in typer.BadParameter.__mro__ if c.__name__ == "UsageError")

Config = Annotated[
    Path | None,
    typer.Option(
        callback=apply,
        is_eager=True,
        help="Read options from this .toml file, of this command under its name; the command line wins.",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document, for machines.")]
Quiet = Annotated[bool, typer.Option("--quiet", help="Print nothing but errors (and what --json prints).")]

OF_THE_FRAME = {"config": (Config, None), "json": (Json, False), "quiet": (Quiet, False)}


def command(function: Callable[..., None]) -> Callable[..., None]:
    """A command with the options of the frame. Its errors become one line on standard error (with --json a
    document on standard output) and an exit code; MERCER_TRACEBACK=1 shows where they came from.

    >>> @command
    ... def count(data: Annotated[Path, typer.Argument(help="A table.")]) -> None: ...
    """
    signature = inspect.signature(function, eval_str=True)
    added = {name: how for name, how in OF_THE_FRAME.items() if name not in signature.parameters}

    @functools.wraps(function)
    def framed(*args: Any, **kwargs: Any) -> None:
        said = {name: kwargs.pop(name, default) for name, (_, default) in added.items()}
        one = Answer(function.__name__, bool(said.get("json")), bool(said.get("quiet")))
        if said.get("config") is not None:
            one.read.append(said["config"])
        try:
            with answering(one), _printing(one), in_lines():
                function(*args, **kwargs)
        except typer.Exit as end:
            if one.json:
                print_document(one, ok=end.exit_code == 0)
            raise
        except (typer.Abort, BrokenPipeError, UsageError):
            raise
        except KeyboardInterrupt:
            _fail(one, "interrupted", "KeyboardInterrupt", INTERRUPTED)
        except Exception as error:
            if os.environ.get("MERCER_TRACEBACK"):
                raise
            _fail(one, _message(error), type(error).__name__, FAILED)
        else:
            if one.json:
                print_document(one)

    extra = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=hint)
        for name, (hint, default) in added.items()
    ]
    whole = signature.replace(parameters=[*signature.parameters.values(), *extra])
    framed.__signature__ = whole  # type: ignore[attr-defined]
    framed.__annotations__ = {p.name: p.annotation for p in whole.parameters.values()} | {"return": None}
    return framed


@contextlib.contextmanager
def _printing(one: Answer) -> Iterator[None]:
    """Where what is for people goes: nowhere with --json and --quiet; with --quiet no progress either."""
    with contextlib.ExitStack() as stack:
        if one.json or one.quiet:
            nowhere = stack.enter_context(open(os.devnull, "w", encoding="utf-8"))
            stack.enter_context(contextlib.redirect_stdout(nowhere))
        if one.quiet:
            stack.enter_context(shown("", False))
        yield


def answer_now() -> None:
    """Print what was found with --json, before the command ends: a server says where it is."""
    if answer().json:
        print_document(answer())


def print_document(one: Answer, ok: bool = True, **more: Any) -> None:
    """The JSON document of a command, in one line on standard output."""
    from mercer import __version__

    if one.answered:
        return
    one.answered = True

    about = {"mercer": __version__, "command": one.command, "ok": ok}
    document = about | more | {"result": one.result, "files": one.files, "notes": one.notes}
    one.output.write(json_format.dumps(plain(document), ensure_ascii=False, allow_nan=False) + "\n")
    one.output.flush()


def _fail(one: Answer, message: str, kind: str, code: int) -> NoReturn:
    if one.json:
        print_document(one, ok=False, error={"type": kind, "message": message, "exit_code": code})
    else:
        typer.echo(f"mercer: {message}", err=True)
    raise typer.Exit(code) from None


def _message(error: Exception) -> str:
    if isinstance(error, OSError) and error.filename and error.strerror:
        return f"{error.filename}: {error.strerror}"
    message = " ".join(str(error).split())
    if not isinstance(error, EXPECTED):
        return f"unexpected {type(error).__name__}: {message} (MERCER_TRACEBACK=1 shows where)"
    return message


class Commands(typer.core.TyperGroup):
    """The commands; where --json is typed, what is wrong with the command line is said as JSON too."""

    def main(self, args: Any = None, prog_name: Any = None, **how: Any) -> Any:  # type: ignore[override]
        """Run it."""
        words = sys.argv[1:] if args is None else list(args)
        if "--json" not in words or not how.get("standalone_mode", True):
            return super().main(args=words, prog_name=prog_name, **how)
        try:
            code = super().main(args=words, prog_name=prog_name, **(how | {"standalone_mode": False}))
        except UsageError as error:
            name = next((word for word in words if not word.startswith("-")), "")
            about = {"type": "UsageError", "message": error.format_message(), "exit_code": USAGE}
            print_document(Answer(name), ok=False, error=about)
            code = USAGE
        sys.exit(code if isinstance(code, int) else 0)
