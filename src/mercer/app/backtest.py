"""`mercer backtest`: how good forecasts of a time series would have been."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mercer.app.console import note, one_line_errors, warnings_as_notes
from mercer.app.forecast import STEPS, learned, steps_ahead
from mercer.app.paths import check_inputs, check_outputs


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(backtest)


@one_line_errors
def backtest(
    data: Annotated[
        Path,
        typer.Argument(
            help="Table of data, .csv, .tsv or .parquet, with the names of the columns in the first line."
        ),
    ],
    time: Annotated[
        str | None,
        typer.Option(help="Column of times: dates such as 2024-01-31 or 2024-01-31T12:30, or numbers."),
    ] = None,
    target: Annotated[str | None, typer.Option(help="Column to forecast.")] = None,
    horizon: Annotated[
        str,
        typer.Option(
            help="How far each forecast looks ahead: steps (24), or a length of time (2y, 6mo, 6w, 90d, 36h, "
            "15min)."
        ),
    ] = str(STEPS),
    folds: Annotated[int, typer.Option(help="How many forecasts are made.")] = 5,
    every: Annotated[
        int | None,
        typer.Option(help="Steps from one forecast to the next.", show_default="as far as they look ahead"),
    ] = None,
    refit: Annotated[
        bool, typer.Option(help="Learn again for each forecast, or keep what the first learned (faster).")
    ] = True,
    seasonal: Annotated[
        str,
        typer.Option(
            help='Seasons: auto, none, names ("week,year") or periods in the unit of time '
            '("12", "cycle=132").'
        ),
    ] = "auto",
    likelihood: Annotated[
        str, typer.Option(help="gaussian, student-t (outliers), laplace, mixture, or poisson (counts).")
    ] = "gaussian",
    level: Annotated[float, typer.Option(help="Level of the intervals, between 0 and 1.")] = 0.9,
    out: Annotated[
        Path | None, typer.Option(help="Write every forecast beside what came here, .csv, .tsv or .parquet.")
    ] = None,
) -> None:
    """Judge forecasts of a time series by the past: made at earlier times, beside what came.

    Says how far off they were (MASE: below 1 is better than the season before), and how many values lay in
    their intervals, beside the value one season before and exponential smoothing.

    Example: mercer backtest sales.csv --time month --target sales --horizon 1y --folds 4
    """
    check_inputs([data])
    check_outputs([out], [data])
    if not 0 < level < 1:
        raise ValueError(f"--level must lie between 0 and 1, got {level:g}.")
    with warnings_as_notes():
        ts = learned(data, time, target, seasonal, likelihood)
        found = ts.backtest(steps_ahead(horizon, None), folds, every, refit, level)
    typer.echo(str(found))
    if out is not None:
        from mercer.app.forecast import texts
        from mercer.app.tables import write_table

        columns = found.columns()
        dated = {name: texts(columns[name], ts.clock_.zone) for name in ("origin", "stamp") if ts.unit_}
        write_table(out, columns | dated)
        note(f"forecasts written to {out} ({found.values.size} rows)")
