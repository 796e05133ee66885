"""`mercer backtest`: how good forecasts of a time series would have been."""

from __future__ import annotations

from typing import Annotated

import typer

from mercer.app.command import command
from mercer.app.console import found, say, warnings_as_notes, wrote
from mercer.app.forecast import STEPS, learned, steps_ahead
from mercer.app.options import Level, Out, Table, Time, check_level
from mercer.app.paths import check_inputs, check_outputs


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(backtest)


@command
def backtest(
    data: Table,
    time: Time = None,
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
    level: Level = 0.9,
    out: Out = None,
) -> None:
    """Judge forecasts of a time series by its past.

    Forecasts are made at earlier times, and set beside what came: how far off they were (MASE: below 1 is
    better than the season before), and how many values lay in their intervals; also for the value one season
    before and exponential smoothing. --out writes every forecast.

    Example: mercer backtest sales.csv --time month --target sales --horizon 1y --folds 4
    """
    check_inputs([], [data])
    check_outputs([], [data], tables=[out])
    check_level(level)
    with warnings_as_notes():
        ts = learned(data, time, target, seasonal, likelihood)
        judged = ts.backtest(steps_ahead(horizon, None), folds, every, refit, level)
    found(scores=judged.scores(), folds=folds, level=level, season=judged.season)
    say(str(judged))
    if out is not None:
        from mercer.app.forecast import texts
        from mercer.app.tables import write_table

        columns = judged.columns()
        dated = {name: texts(columns[name], ts.clock_.zone) for name in ("origin", "stamp") if ts.unit_}
        write_table(out, columns | dated)
        wrote("forecasts", out, f"({judged.values.size} rows) written to")
