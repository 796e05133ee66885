"""``python -m benchmarks``: run the tasks, print the tables, write the JSON;
``python -m benchmarks setup`` first.
"""

from __future__ import annotations

import json
import os
import platform
import tempfile
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from benchmarks.environments import PEERS, create
from benchmarks.tasks import TASKS, Outcome, Run
from benchmarks.workers import THREADS, WorkerError, pin

app = typer.Typer(add_completion=False, help="Mercer beside its peers in one run.")
console = Console()
Peers = Annotated[str | None, typer.Option(help=f"Peers, by commas, of: {', '.join(PEERS)}.")]


@app.callback(invoke_without_command=True)
def run(
    context: typer.Context,
    quick: Annotated[
        bool, typer.Option(help="Small sizes, seconds in all, no peers unless asked for.")
    ] = False,
    only: Annotated[
        list[str] | None, typer.Option(help=f"A task ({', '.join(TASKS)}); may be repeated.")
    ] = None,
    peers: Peers = None,
    repeats: Annotated[int, typer.Option(min=1, help="Turns of the fit; each library once a turn.")] = 3,
    out: Annotated[Path, typer.Option(help="Where the JSON goes.")] = Path("benchmarks/results/latest.json"),
) -> None:
    """Run the tasks and write the results."""
    if context.invoked_subcommand:
        return
    names = listed(peers, [] if quick else list(PEERS), PEERS, "peer")
    chosen = listed(",".join(only or []) or None, list(TASKS), TASKS, "task")
    pin()
    results: dict[str, Any] = {"machine": machine(), "quick": quick, "threads": THREADS, "tasks": {}}
    failed = False
    if (results["machine"]["load"] or 0.0) > 0.5:
        console.print(
            f"the machine is busy (load {results['machine']['load']:.1f}): do not trust the times",
            style="red",
        )
    with tempfile.TemporaryDirectory() as folder:
        settings = Run(
            Path(folder),
            tuple(names),
            quick,
            1 if quick else repeats,
            lambda text: console.print(text, style="dim"),
        )
        for name in chosen:
            try:
                outcome = TASKS[name](settings)
            except WorkerError as error:
                outcome = Outcome(name, errors=[str(error)])
            failed |= bool(outcome.errors)
            show(outcome)
            results["tasks"][name] = asdict(outcome) | {
                "checks": [asdict(check) | {"met": check.met} for check in outcome.checks]
            }
            out.parent.mkdir(parents=True, exist_ok=True)
            out.write_text(json.dumps(results, indent=1) + "\n")
    console.print(f"written to {out}")
    raise typer.Exit(int(failed))


@app.command()
def setup(peers: Peers = None) -> None:
    """Create the peers' environments under benchmarks/envs (several GB, some minutes);
    finished ones are kept.
    """
    for name in listed(peers, list(PEERS), PEERS, "peer"):
        console.print(f"environment of {name}")
        create(name)


def listed(text: str | None, default: list[str], known: dict[str, Any], kind: str) -> list[str]:
    """The names in a comma-separated option, checked."""
    names = default if text is None else [name.strip() for name in text.split(",") if name.strip()]
    for name in names:
        if name not in known:
            raise typer.BadParameter(f"there is no {kind} {name!r}; choose from {', '.join(known)}")
    return names


def machine() -> dict[str, Any]:
    """Where and when: figures from two machines, or from a busy one, do not compare."""
    return {
        "when": datetime.now(UTC).isoformat(timespec="seconds"),
        "system": platform.platform(),
        "python": platform.python_version(),
        "cores": os.cpu_count(),
        "load": os.getloadavg()[0] if hasattr(os, "getloadavg") else None,
    }


def show(outcome: Outcome) -> None:
    """Print a task's table, its targets and its errors."""
    if outcome.rows:
        table = Table(title=outcome.title, title_justify="left")
        columns = list(outcome.rows[0])
        for column in columns:
            table.add_column(column, justify="left" if isinstance(outcome.rows[0][column], str) else "right")
        for row in outcome.rows:
            table.add_row(*(cell(row[column]) if column in row else "-" for column in columns))
        console.print(table)
    for check in outcome.checks:
        target = "" if check.most is None else f"at most {check.most:g}"
        target = target if check.least is None else f"at least {check.least:g}"
        verdict = "" if not target else "[green]met[/green]" if check.met else "[red]missed[/red]"
        console.print(f"  {check.label}: [bold]{check.value:.4g}[/bold] {target} {verdict}", highlight=False)
    for note in outcome.notes:
        console.print(f"  {note}", style="dim", highlight=False)
    for error in outcome.errors:
        console.print(f"  error: {error}", style="red", markup=False, highlight=False)


def cell(value: Any) -> str:
    """A table's entry."""
    if isinstance(value, float):
        return f"{value:.2f}" if abs(value) >= 100 else f"{value:.3g}"
    return "-" if value is None else str(value)


if __name__ == "__main__":
    app()
