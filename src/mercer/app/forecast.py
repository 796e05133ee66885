"""`mercer forecast`: what comes next in a time series, and what it is made of."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Annotated, Any

import typer

from mercer.app.command import command
from mercer.app.console import found, say, show_table, warnings_as_notes, wrote
from mercer.app.options import Level, Out, Plot, Save, Time, check_level
from mercer.app.paths import check_inputs, check_outputs, named, save_figure

STEPS = 12  # ahead, where nothing is said
SHOWN = 12  # rows of a table that are printed


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(forecast)


@command
def forecast(
    data: Annotated[
        Path,
        typer.Argument(
            help="Table of data, .csv, .tsv or .parquet, with the names of the columns in the first line; or "
            "a model that --save saved; - reads a table from standard input."
        ),
    ],
    time: Time = None,
    target: Annotated[
        str | None, typer.Option(help="Column to forecast. Empty cells are filled in, not forecast.")
    ] = None,
    horizon: Annotated[
        str | None,
        typer.Option(
            help="How far to look ahead: steps (24), or a length of time (2y, 6mo, 6w, 90d, 36h, 15min).",
            show_default="12 steps",
        ),
    ] = None,
    until: Annotated[
        str | None,
        typer.Option(
            help="Look ahead to the end of this date, month or year (2030-06-30), or to this number."
        ),
    ] = None,
    seasonal: Annotated[
        str | None,
        typer.Option(
            help='Seasons: auto, none, names ("week,year") or periods in the unit of time '
            '("12", "cycle=132").',
            show_default="auto",
        ),
    ] = None,
    likelihood: Annotated[
        str | None,
        typer.Option(
            help="gaussian, student-t (outliers), laplace, mixture, or poisson (counts).",
            show_default="gaussian",
        ),
    ] = None,
    regressor: Annotated[
        list[str] | None,
        typer.Option(help="Another column that matters, with a linear effect; may be given several times."),
    ] = None,
    future: Annotated[
        Path | None,
        typer.Option(
            help="Table of what is known of the regressors ahead, with their times. What is not known is "
            "forecast."
        ),
    ] = None,
    events: Annotated[
        Path | None,
        typer.Option(
            help="Table of holidays and events: columns name and date (2024-12-25; 12-25 is every year), and "
            "perhaps before and after (further days), lasting and scale."
        ),
    ] = None,
    changes: Annotated[
        bool, typer.Option("--changes", help="Keep changes of level that are found as parts of the model.")
    ] = False,
    level: Level = 0.95,
    out: Out = None,
    impute: Annotated[
        Path | None,
        typer.Option(help="Fill in what is missing (empty cells, skipped dates, gaps), and write it here."),
    ] = None,
    components: Annotated[
        Path | None,
        typer.Option(help="Write trend, seasons and irregularities here, past and ahead, with their sd."),
    ] = None,
    anomalies: Annotated[Path | None, typer.Option(help="Write the values that do not fit here.")] = None,
    plot: Plot = None,
    history: Annotated[
        str,
        typer.Option(
            help="How much of the series --plot shows: all, steps (100), a length of time (5y) or from a "
            "date on; auto is six times the length of the forecast."
        ),
    ] = "auto",
    save: Save = None,
) -> None:
    """Forecast a time series, with intervals.

    Learns trend, seasons and irregularities. Rows may be in any order, at any distances, with gaps. Says what
    was learned, which values do not fit, and what comes next.

    Example: mercer forecast sales.csv --time month --target sales --horizon 2y --out next.csv --plot next.png

    Example: mercer forecast sales.mercer --until 2030-06-30 --out next.csv --components parts.csv
    """
    read = [file for file in (data, future, events) if file is not None]
    check_inputs([], read)
    files = {"forecast": out, "missing values": impute, "components": components, "anomalies": anomalies}
    check_outputs([save], read, tables=files.values(), pictures=[plot])
    check_level(level)
    ahead = steps_ahead(horizon, until)
    with warnings_as_notes():
        if zipfile.is_zipfile(data):
            said = dict(time=time, target=target, seasonal=seasonal, likelihood=likelihood)
            ts = _loaded(data, **said, regressor=regressor or None, events=events, changes=changes or None)
        else:
            how = seasonal or "auto", likelihood or "gaussian", regressor, events, changes
            ts = learned(data, time, target, *how)
        known = _known(ts, future)
        forecasts = ts.forecast_columns(ahead, level, known)
    odd_ones = ts.anomalies_columns()
    found(
        summary=ts.summary(),
        log_evidence=ts.log_marginal_likelihood_,
        level=level,
        forecast=as_table(ts, *forecasts),
        anomalies=as_table(ts, *odd_ones),
    )
    say(ts.summary())
    say()
    odd = f"Values that do not fit (probability below {ts.anomaly_level:g} given the others)"
    _show(ts, odd, odd_ones, "" if anomalies else ": --anomalies writes them all")
    coming = f"What comes next, with {level:.0%} intervals"
    _show(ts, coming, forecasts, "" if out else ": --out writes them all")
    tables = {
        "forecast": lambda: forecasts,
        "missing values": lambda: ts.impute_columns(level),
        "components": lambda: ts.components_columns(ahead, regressors=known),
        "anomalies": ts.anomalies_columns,
    }
    for what, file in files.items():
        if file is not None:
            rows = _write(ts, file, *tables[what]())
            wrote(what, file, f"({rows} row{'s' if rows != 1 else ''}) written to")
    if plot is not None:
        from mercer import viz

        shown = int(history) if history.isdecimal() else history
        save_figure(viz.forecast(ts, ahead, level=level, history=shown).figure, plot, dpi=150)
        wrote("picture", plot, "drawn in")
    if save is not None:
        ts.save(save)
        wrote("model", save, "saved in")


def steps_ahead(horizon: str | None, until: str | None) -> int | str:
    """Steps, a length of time, or a date, as `GPTimeSeries.forecast` reads them."""
    if until is not None:
        if horizon is not None:
            raise ValueError("--horizon and --until say the same thing: give one of them.")
        return until
    if horizon is None or horizon.isdecimal():
        return int(horizon or STEPS)
    from mercer.estimators.series.ahead import LENGTH

    if not LENGTH.fullmatch(horizon):
        raise ValueError(
            "--horizon is a number of steps (24) or a length of time (2y, 6mo, 6w, 90d, 36h, 15min), not "
            f"{horizon!r}; a date goes with --until."
        )
    return horizon


def _known(ts: Any, future: Path | None) -> Any:
    """What a file says of regressors ahead."""
    from mercer.app.tables import check_column, read_table

    if future is None:
        return None
    table = read_table(future)
    check_column(table, ts.time_name_, named(future), " of times")
    return table


def learned(
    data: Path,
    time: str | None,
    target: str | None,
    seasonal: str,
    likelihood: str,
    regressors: list[str] | None = None,
    events: Path | None = None,
    changes: bool = False,
) -> Any:
    """A series learned from a table."""
    import mercer
    from mercer.app.tables import TableError, check_column, read_table

    table = read_table(data)
    for option, name in (("--time", time), ("--target", target)):
        if name is None:
            listed = ", ".join(table)
            raise TableError(f"say which column of {named(data)} it is: {option}, one of {listed}.")
        check_column(table, name, named(data))
    ts = mercer.GPTimeSeries(seasons_of(seasonal), likelihood=likelihood, changes=changes)
    dates = None if events is None else read_table(events)
    return ts.fit(dict(table), time=time, value=target, regressors=regressors or None, events=dates)


def _loaded(data: Path, **given: Any) -> Any:
    """A series from a file that --save wrote, which has settings of its own."""
    import mercer

    ts = mercer.load(data)
    if not isinstance(ts, mercer.GPTimeSeries):
        raise ValueError(f"{data} holds a {type(ts).__name__}, not a time series: see `mercer info {data}`.")
    if said := [f"--{name}" for name, value in given.items() if value is not None]:
        raise ValueError(f"{data} has learned already: leave {', '.join(said)} out, or give the table again.")
    return ts


def _show(ts: Any, title: str, table: tuple[Any, dict[str, Any]], hint: str) -> None:
    """The first rows of a table of stamps and columns; nothing where it has none."""
    stamps, columns = table
    rows = [
        (text, *(f"{column[i]:.5g}" for column in columns.values()))
        for i, text in enumerate(texts(stamps[:SHOWN], ts.clock_.zone))
    ]
    if rows:
        show_table(title, (ts.time_name_, *columns), rows, right=range(1, 1 + len(columns)))
    if len(stamps) > SHOWN:
        say(f"... and {len(stamps) - SHOWN} more{hint}")


def _write(ts: Any, file: Path, stamps: Any, columns: dict[str, Any]) -> int:
    """A table to a file; the number of its rows."""
    from mercer.app.tables import write_table

    write_table(file, as_table(ts, stamps, columns))
    return len(stamps)


def as_table(ts: Any, stamps: Any, columns: dict[str, Any]) -> dict[str, Any]:
    """Stamps and columns as a table to write."""
    return {ts.time_name_: texts(stamps, ts.clock_.zone) if ts.unit_ else stamps, **columns}


def seasons_of(text: str) -> Any:
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


def texts(stamps: Any, zone: str | None) -> list[str]:
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
