"""`mercer forecast`: what comes next in a time series, and what it is made of."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from mercer.app.console import note, one_line_errors, show_table, warnings_as_notes
from mercer.app.paths import check_inputs, check_outputs, save_figure

SHOWN = 12  # rows of the forecast that are printed


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(forecast)


@one_line_errors
def forecast(
    data: Annotated[
        Path,
        typer.Argument(
            help="Table of data, .csv, .tsv or .parquet, with the names of the columns in the first line."
        ),
    ],
    time: Annotated[
        str, typer.Option(help="Column of times: dates such as 2024-01-31 or 2024-01-31T12:30, or numbers.")
    ],
    target: Annotated[str, typer.Option(help="Column to forecast. Empty cells are filled in, not forecast.")],
    horizon: Annotated[int, typer.Option(min=1, help="How many steps to look ahead.")] = 12,
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
    out: Annotated[Path | None, typer.Option(help="Write the forecast here, .csv, .tsv or .parquet.")] = None,
    plot: Annotated[
        Path | None, typer.Option(help="Draw series and forecast to this file (.png, .pdf or .svg).")
    ] = None,
    model: Annotated[
        Path | None, typer.Option(help="Save the model here, for example series.mercer.")
    ] = None,
) -> None:
    """Forecast a time series: trend, seasons and irregularities with intervals.

    Rows may be in any order, at any distances, with gaps. Says what was learned, which values do not fit, and
    what comes next.

    Example: mercer forecast sales.csv --time month --target sales --horizon 24 --out next.csv --plot next.png
    """
    check_inputs([data])
    import mercer
    from mercer.app.tables import TableError, read_table, write_table

    check_outputs([out, plot, model], [data])
    if not 0 < level < 1:
        raise ValueError(f"--level must lie between 0 and 1, got {level:g}.")
    table = read_table(data)
    for name in (time, target):
        if name not in table:
            raise TableError(f"{data} has no column {name!r}; it has {', '.join(table)}.")
    with warnings_as_notes():
        ts = mercer.GPTimeSeries(_seasons(seasonal), likelihood=likelihood)
        ts.fit({time: table[time], target: table[target]}, time=time, value=target)
        stamps, columns = ts.forecast_columns(horizon, level)
    typer.echo(ts.summary())
    typer.echo()
    _show_anomalies(ts)
    texts = _texts(stamps, ts.clock_.zone)
    rows = [(text, *(f"{columns[name][i]:.5g}" for name in columns)) for i, text in enumerate(texts)]
    show_table(
        f"What comes next, with {level:.0%} intervals", (time, *columns), rows[:SHOWN], right=(1, 2, 3, 4)
    )
    if len(rows) > SHOWN:
        typer.echo(f"... and {len(rows) - SHOWN} more" + ("" if out else ": --out writes them all"))
    if out is not None:
        write_table(out, {time: texts if ts.unit_ else stamps, **columns})
        note(f"written to {out}")
    if plot is not None:
        from mercer import viz

        save_figure(viz.forecast(ts, horizon, level=level, ylabel=target).figure, plot, dpi=150)
        note(f"drawn in {plot}")
    if model is not None:
        ts.save(model)
        note(f"saved {model}")


def _seasons(text: str) -> Any:
    """auto, none, or names and periods separated by commas."""
    if text in ("auto", "none"):
        return None if text == "none" else text
    out: dict[str, Any] = {}
    for entry in map(str.strip, text.split(",")):
        name, _, period = entry.rpartition("=")
        try:
            out[name or f"season {period}"] = float(period)
        except ValueError:
            if name:
                raise ValueError(f"--seasonal: the period of {name!r} is not a number: {period!r}.") from None
            out[period] = period
    return out


def _show_anomalies(ts: Any) -> None:
    stamps, columns = ts.anomalies_columns()
    if stamps.size:
        rows = [
            (text, *(f"{c[i]:.5g}" for c in columns.values()))
            for i, text in enumerate(_texts(stamps, ts.clock_.zone))
        ]
        title = f"Values that do not fit (probability below {ts.anomaly_level:g} given the others)"
        show_table(title, ("time", *columns), rows[:SHOWN], right=(1, 2, 3))


def _texts(stamps: Any, zone: str | None) -> list[str]:
    """Stamps as text: dates in ISO form, in their zone; no time of day where all are at midnight."""
    import datetime
    import zoneinfo

    if stamps.dtype.kind != "M":
        return [f"{x:.10g}" for x in stamps]
    moments = stamps.tolist()
    if zone is not None:
        place = zoneinfo.ZoneInfo(zone)
        moments = [m.replace(tzinfo=datetime.UTC).astimezone(place) for m in moments]
    if all(m.time() == datetime.time() for m in moments) and zone is None:
        return [m.date().isoformat() for m in moments]
    return [m.isoformat() for m in moments]
