"""`mercer predict`: the rows of a table, predicted by a saved model."""

from __future__ import annotations

from typing import Annotated

import typer

from mercer.app import chunked
from mercer.app.chunked import Dask, Tables
from mercer.app.command import command
from mercer.app.console import found, note, show_table, warnings_as_notes, wrote
from mercer.app.options import Level, Out, Saved, check_level
from mercer.app.paths import check_inputs, check_outputs

SHOWN = 10  # rows that are printed where none are written


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(predict)


@command
def predict(
    model: Saved,
    new: Tables,
    out: Out = None,
    level: Level = 0.95,
    latent: Annotated[
        bool, typer.Option("--latent", help="Predict the noise-free function instead of new observations.")
    ] = False,
    dask: Dask = None,
) -> None:
    """Predict the rows of a table with a saved model.

    Adds the columns mean, std, lower and upper; or, for classes, class and the probability of each. Without
    --out the first rows are shown. Several files, or --dask, go to a folder of Parquet files, one chunk in
    memory at a time; interrupted, the same command goes on.

    Example: mercer predict weather.mercer tomorrow.csv --out predicted.csv --level 0.9
    """
    check_inputs([model], new)
    check_level(level)
    if chunked.asked(new, dask):
        chunked.predict(model, new, out, level, latent, dask)
        return
    (rows_of,) = new
    check_outputs([], [model, rows_of], tables=[out])
    from mercer.app import work
    from mercer.app.tables import write_table

    with warnings_as_notes():
        table, predicted = work.predict(model, rows_of, level, latent)
    rows = len(next(iter(predicted.values())))
    found(rows=rows, level=level, predictions=predicted)
    if out is not None:
        write_table(out, table | predicted)
        wrote("predictions", out, f"({rows} row{'s' if rows != 1 else ''}) written to")
        return
    first = [[_cell(value) for value in column[:SHOWN]] for column in predicted.values()]
    lines = [(str(i + 1), *row) for i, row in enumerate(zip(*first, strict=True))]
    show_table("Predictions", ("row", *predicted), lines, right=range(1 + len(predicted)))
    if rows > SHOWN:
        note(f"{rows - SHOWN} further rows are not shown: --out FILE.csv writes all of them")


def _cell(value: object) -> str:
    return f"{value:.5g}" if isinstance(value, float) else str(value)
