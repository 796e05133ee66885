"""`mercer optimise`: the next experiment of a search that a file keeps, or a program driven to the end."""

from __future__ import annotations

import inspect
import shlex
import shutil
import subprocess
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mercer.app.command import command
from mercer.app.console import found, note, say, show_table, warnings_as_notes, wrote
from mercer.app.options import Out
from mercer.app.paths import STANDARD, check_inputs, check_outputs, named

if TYPE_CHECKING:
    from mercer.decide import Evaluation, Optimiser

SHOWN = 10  # rows of the report


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(optimise)


@command
def optimise(
    space: Annotated[Path, typer.Argument(help="What is searched, a .toml file with a table [space].")],
    ask: Annotated[bool, typer.Option("--ask", help="Print a row to try next, as a table.")] = False,
    batch: Annotated[int, typer.Option(min=1, help="How many rows to ask for.")] = 1,
    tell: Annotated[
        Path | None,
        typer.Option(
            help="Rows that were tried: a table with the columns of the space and `value` (or the names of "
            "objectives and limits; also `cost`, `feasible`). An empty value is a failure."
        ),
    ] = None,
    command: Annotated[
        str | None,
        typer.Option(
            help="A program that evaluates a row, such as './simulate {x} {y}': no shell is used, the last "
            "line of its output is the value, an exit code other than 0 a failure."
        ),
    ] = None,
    evaluations: Annotated[int, typer.Option(min=1, help="How many, of --command.")] = 50,
    parallel: Annotated[int, typer.Option(min=1, help="How many programs at once.")] = 1,
    timeout: Annotated[
        float | None, typer.Option(help="Seconds after which a program has failed and is stopped.")
    ] = None,
    report: Annotated[bool, typer.Option("--report", help="Say what was found so far.")] = False,
    state: Annotated[
        Path | None,
        typer.Option(help="The file that keeps the search.", show_default="space.mercer beside space.toml"),
    ] = None,
    out: Out = None,
) -> None:
    """Choose the next experiment, or let a program be optimised.

    The search is kept in a file: ask for a row, try it, tell its value, ask again.

    Example: mercer optimise space.toml --ask; mercer optimise space.toml --tell row.csv; mercer optimise
    space.toml --command "./simulate {x} {y}" --evaluations 40
    """
    check_inputs([space], [tell])
    kept = state or space.with_suffix(".mercer")
    check_outputs([kept], [space, tell], tables=[out])
    said = read_space(space)
    if command is not None:
        with warnings_as_notes():
            _drive(said, command, kept, evaluations, parallel, timeout)
    elif ask or tell is not None:
        with warnings_as_notes():
            _step(said, kept, tell, batch if ask else 0, out)
    if report or not (ask or tell is not None or command is not None):
        _report(_opened(said, kept))


def read_space(path: Path) -> dict[str, Any]:
    """The settings of an `Optimiser` that a .toml file says: `[space]`, and the other settings by name."""
    from mercer.decide import Optimiser
    from mercer.registry import unknown

    try:
        said = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{path}: {error}.") from None
    settings = set(inspect.signature(Optimiser).parameters)
    for key in set(said) - settings:
        raise ValueError(f"{path}: {unknown('setting', key, settings)}")
    if not isinstance(said.get("space"), dict):
        raise ValueError(f"{path}: the columns stand in a table [space], such as x = [-5.0, 10.0].")
    said["space"] = {name: _column(name, column) for name, column in said["space"].items()}
    if "limits" in said:
        said["limits"] = {name: _limit(name, pair) for name, pair in said["limits"].items()}
    return said


def _column(name: str, said: Any) -> Any:
    """[0.0, 1.0] real numbers, [1, 8] whole ones, ["a", "b"] levels, or a table with low and high (and log,
    whole), or with levels.
    """
    from mercer.decide import Integer, Real

    if isinstance(said, list):
        if len(said) == 2 and all(isinstance(s, (int, float)) and not isinstance(s, bool) for s in said):
            return Integer(*said) if all(isinstance(s, int) for s in said) else Real(*map(float, said))
        return said
    if isinstance(said, dict) and set(said) == {"levels"}:
        return list(said["levels"])
    if isinstance(said, dict) and {"low", "high"} <= set(said) <= {"low", "high", "log", "whole"}:
        kind: Any = Integer if said.get("whole") else Real
        return kind(said["low"], said["high"], log=bool(said.get("log", False)))
    raise ValueError(
        f"column {name!r}: write [low, high], a list of levels, or {{low = 1e-5, high = 0.1, log = true}}; "
        f"got {said!r}."
    )


def _limit(name: str, said: Any) -> tuple[Any, Any]:
    """{low = 0.0, high = 5.0}, of which one may be left out."""
    if not isinstance(said, dict) or not set(said) <= {"low", "high"}:
        raise ValueError(f"limits of {name!r}: write {{high = 5.0}}, with low or high or both; got {said!r}.")
    return said.get("low"), said.get("high")


def _opened(said: dict[str, Any], kept: Path) -> Optimiser:
    from mercer.decide import Optimiser
    from mercer.decide.run import resumed

    return resumed(Optimiser(**said), kept)


# -- ask and tell --------------------------------------------------------------------------------------------


def _step(said: dict[str, Any], kept: Path, tell: Path | None, asked: int, out: Path | None) -> None:
    from mercer.app.tables import write_table

    opt = _opened(said, kept)
    if tell is not None:
        rows = _told(opt, tell)
        for row, value, more in rows:
            opt.tell(row, value, failed=value is None, **more)
        opt.save(kept)
        found(told=len(rows), evaluations=len(opt.history))
        note(f"told {len(rows)} row{'s' if len(rows) != 1 else ''}, {len(opt.history)} in all")
    if asked:
        rows = opt.ask(asked)
        opt.save(kept)
        columns = {name: [row[name] for row in rows] for name in opt.space.names}
        found(asked=rows)
        write_table(STANDARD, columns)
        if out is not None and out != STANDARD:
            write_table(out, columns)
            wrote("rows to try", out)


def _told(opt: Optimiser, path: Path) -> list[tuple[dict[str, Any], Any, dict[str, Any]]]:
    """Rows, their outcomes (None: a failure), and what else is said of each."""
    import numpy as np

    from mercer.app.tables import TableError, check_column, read_table
    from mercer.decide import Categorical

    table = read_table(path)
    outcomes = (*opt.objectives, *opt.limits)
    for name in (*opt.space.names, *outcomes):
        check_column(table, name, named(path))
    out = []
    for i in range(len(next(iter(table.values())))):
        cells = {name: column[i] for name, column in table.items()}
        row = {}
        for name, column in opt.space.columns.items():
            row[name] = _level(column, cells[name]) if isinstance(column, Categorical) else cells[name]
        values = {name: cells[name] for name in outcomes}
        missing = any(_empty(value) for value in values.values())
        more: dict[str, Any] = {}
        if "cost" in cells and not _empty(cells["cost"]):
            more["cost"] = float(cells["cost"])
        if "feasible" in cells and not _empty(cells["feasible"]):
            more["feasible"] = str(cells["feasible"]).strip().lower() in ("1", "1.0", "true", "yes")
        try:
            opt.space.encode(row)
            numbers = None if missing else {name: float(np.asarray(v)) for name, v in values.items()}
        except ValueError as error:
            raise TableError(f"{named(path)}, row {i + 1}: {error}") from None
        out.append((row, numbers, more))
    return out


def _level(column: Any, cell: Any) -> Any:
    """The level that a cell writes."""
    for level in column.levels:
        if str(level) == str(cell) or (
            isinstance(cell, float) and level == cell and not isinstance(level, bool)
        ):
            return level
    return cell


def _empty(cell: Any) -> bool:
    return str(cell).strip().lower() in ("", "nan", "none")


# -- a program -----------------------------------------------------------------------------------------------


def _drive(
    said: dict[str, Any], command: str, kept: Path, evaluations: int, parallel: int, timeout: float | None
) -> None:
    from mercer.decide import Optimiser
    from mercer.decide import optimise as search

    opt = Optimiser(**said)
    words = shlex.split(command)
    if not words or shutil.which(words[0]) is None:
        raise ValueError(f"the command {command!r} names no program that can be run.")
    unused = [name for name in opt.space.names if not any(f"{{{name}}}" in word for word in words)]
    if unused:
        raise ValueError(f"the command does not use {unused}: write {{{unused[0]}}} where the value goes.")
    names = (*opt.objectives, *opt.limits)

    def evaluate(**row: Any) -> dict[str, float]:
        return _evaluated(words, row, names, timeout)

    best = search(evaluate, evaluations=evaluations, parallel=parallel, path=kept, progress=None, **said)
    if len(opt.objectives) == 1:
        found(best={"value": best.value, "point": best.point})
        say(f"best {opt.objectives[0]} {best.value:.10g} at " + _row(best.point))
    else:
        found(front=[{"point": e.point, "outcomes": e.outcomes} for e in best.rows])
        say(f"{len(best.rows)} rows that none beats; --report lists them")


def _evaluated(
    words: list[str], row: dict[str, Any], names: tuple[str, ...], timeout: float | None
) -> dict[str, float]:
    """The numbers on the last line that a program prints: the objectives, then the limits."""
    arguments = []
    for word in words:
        for name, value in row.items():
            word = word.replace(f"{{{name}}}", str(value))
        arguments.append(word)
    done = subprocess.run(arguments, capture_output=True, text=True, timeout=timeout, check=False)
    if done.returncode:
        error = (done.stderr.strip().splitlines() or [""])[-1]
        raise RuntimeError(f"exit code {done.returncode}. {error}".strip())
    last = (done.stdout.strip().splitlines() or [""])[-1]
    numbers = last.replace(",", " ").split()
    if len(numbers) != len(names):
        raise RuntimeError(f"the last line of its output should be {', '.join(names)}, but is {last!r}")
    return dict(zip(names, map(float, numbers), strict=True))


# -- the report ----------------------------------------------------------------------------------------------


def _report(opt: Optimiser) -> None:
    history = opt.history
    failed = sum(e.failed for e in history)
    found(evaluations=len(history), failed=failed, pending=len(opt.pending))
    say(f"{len(history)} evaluations, {failed} of them failed; {len(opt.pending)} asked for and not yet told")
    told, fine = opt._usable()
    rows = [history[i] for i, use in zip(told, fine, strict=True) if use]
    if not rows:
        say("no row is known that is feasible" if history else "nothing was told yet")
        return
    if len(opt.objectives) > 1:
        shown, title = list(opt.front().rows), "Rows that none beats"
    else:
        sign = float(opt._signs[0])
        shown, title = sorted(rows, key=lambda e: sign * e.value)[:SHOWN], "The best rows"
        say(f"best {opt.objectives[0]} {opt.best().value:.10g} at {_row(opt.best().point)}")
    found(rows=[{"point": e.point, "outcomes": e.outcomes} for e in shown])
    columns = ("evaluation", *opt.space.names, *opt.objectives, *opt.limits)
    number = {id(e): i + 1 for i, e in enumerate(history)}
    lines = [_line(number[id(e)], e) for e in shown]
    show_table(title, columns, lines, right=range(len(columns)))
    notes = [e.note for e in history if e.failed and e.note]
    if notes:
        say(f"the last failure: {notes[-1]}")


def _line(number: int, e: Evaluation) -> list[str]:
    return [str(number), *(_cell(v) for v in e.point.values()), *(_cell(v) for v in e.outcomes.values())]


def _cell(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _row(point: dict[str, Any]) -> str:
    return ", ".join(f"{name} = {_cell(value)}" for name, value in point.items())
