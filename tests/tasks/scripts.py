"""What a person writes for a task: a few lines of Python, or commands, run where the files are."""

from __future__ import annotations

import contextlib
import io
import shlex
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from mercer.app.cli import app

MOST = 10  # lines
WRITTEN = ("written to", "drawn in", "saved in")


def python(folder: Path, text: str) -> tuple[dict[str, Any], str]:
    """The names that the script leaves, and what it printed; warnings are errors."""
    assert len(lines(text)) <= MOST
    names: dict[str, Any] = {}
    with contextlib.chdir(folder), contextlib.redirect_stdout(io.StringIO()) as said:
        exec(compile(text, "script.py", "exec"), names)
    return names, said.getvalue()


def commands(folder: Path, text: str) -> tuple[str, list[str]]:
    """What the commands said, and their notes, warnings among them; not the lines on how far they are, and
    where files are.
    """
    assert len(lines(text)) <= MOST
    out: list[str] = []
    notes: list[str] = []
    for line in lines(text):
        program, *arguments = shlex.split(line)
        assert program == "mercer"
        with contextlib.chdir(folder):
            result = CliRunner().invoke(app, arguments, env={"COLUMNS": "120"})
        assert result.exit_code == 0, result.output
        out.append(result.stdout)
        told = [note for note in result.stderr.splitlines() if note.startswith(("note:", "warning:"))]
        notes += [note for note in told if not any(word in note for word in WRITTEN)]
    return "".join(out), notes


def lines(text: str) -> list[str]:
    """Those that are not empty."""
    return [line for line in text.splitlines() if line.strip()]
