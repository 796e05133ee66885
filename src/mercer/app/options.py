"""Options that several commands have, with one name and one meaning each; docs/cli.md lists them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Table = Annotated[
    Path,
    typer.Argument(
        help="Table of data, .csv, .tsv or .parquet, with the names of the columns in the first line; - "
        "reads it from standard input."
    ),
]
Saved = Annotated[Path, typer.Argument(help="A saved model, for example model.mercer.")]
Features = Annotated[
    str | None, typer.Option(help="Columns to use, separated by commas.", show_default="all others")
]
Level = Annotated[float, typer.Option(help="Level of the intervals, between 0 and 1.")]
Plot = Annotated[Path | None, typer.Option(help="Draw it to this file (.png, .pdf or .svg).")]
Save = Annotated[Path | None, typer.Option(help="Save the model here, for example model.mercer.")]
Seed = Annotated[int, typer.Option(help="Seed of what is random.")]
Restarts = Annotated[int, typer.Option(min=0, help="Further starts, of which the best is kept.")]
Out = Annotated[
    Path | None, typer.Option(help="Write the result here, .csv, .tsv or .parquet; - prints it as CSV.")
]
Time = Annotated[
    str | None,
    typer.Option(help="Column of times: dates such as 2024-01-31 or 2024-01-31T12:30, or numbers."),
]


def check_level(level: float) -> None:
    """Refuse what is no level of an interval."""
    if not 0 < level < 1:
        raise ValueError(f"--level must lie strictly between 0 and 1, got {level:g}.")
