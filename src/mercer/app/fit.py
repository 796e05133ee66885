"""`mercer fit`: a Gaussian process learned from a table, and saved."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from mercer.app import chunked
from mercer.app.chunked import Dask, Tables
from mercer.app.command import command
from mercer.app.console import answer, found, next_step, note, say, show_table, warnings_as_notes, wrote
from mercer.app.options import Features, Plot, Restarts, Seed
from mercer.app.paths import check_inputs, check_outputs


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(fit)


@command
def fit(
    data: Tables,
    target: Annotated[str, typer.Option(help="Column to predict. Rows where it is empty are left out.")],
    out: Annotated[Path, typer.Option(help="Where to write the model, for example model.mercer.")],
    features: Features = None,
    kernel: Annotated[
        str | None,
        typer.Option(
            help='Covariance function, in the units of the data: "SE() + Periodic(period=1)" '
            "(default: ARD Matern 5/2); auto chooses its roughness, search looks for the structure."
        ),
    ] = None,
    budget: Annotated[
        str | None,
        typer.Option(help="About how long this may take, with --kernel search: 60s (default), 5min."),
    ] = None,
    max_models: Annotated[
        int | None, typer.Option(min=1, help="With --kernel search, how many kernels are looked at, at most.")
    ] = None,
    restarts: Restarts = 0,
    noise: Annotated[
        float | None,
        typer.Option(help="Noise variance to start from, in squared units of the target (0: no noise)."),
    ] = None,
    error: Annotated[
        str | None,
        typer.Option(
            help="Column with the known error of the target in each row, a standard deviation in its units. "
            "A noise that all rows share is learned beside it."
        ),
    ] = None,
    weight: Annotated[
        str | None,
        typer.Option(help="Column with the weight of each row: its noise variance is divided by it."),
    ] = None,
    noise_by: Annotated[
        str | None,
        typer.Option(help="Column of groups (instruments, methods) that each have a noise of their own."),
    ] = None,
    likelihood: Annotated[
        str | None,
        typer.Option(
            help="What the target is: poisson or negative-binomial (counts), binomial (successes), beta "
            "(shares), gamma (positive), weibull or log-logistic (waiting times), censored, heteroscedastic, "
            "student-t (default: a number with Gaussian noise)."
        ),
    ] = None,
    trials: Annotated[
        str | None, typer.Option(help="Column with the number of trials of each row, for binomial.")
    ] = None,
    exposure: Annotated[
        str | None,
        typer.Option(help="Column with how much was observed in each row (days, area, people), for counts."),
    ] = None,
    event: Annotated[
        str | None,
        typer.Option(help="Column that is 0 where it had not happened by the time of the target, else 1."),
    ] = None,
    lower: Annotated[
        str | None,
        typer.Option(help="Column with limits that the target is above, empty where it was seen itself."),
    ] = None,
    upper: Annotated[
        str | None,
        typer.Option(help="Column with limits that the target is below, empty where it was seen itself."),
    ] = None,
    warp: Annotated[
        str | None,
        typer.Option(
            help="Rising function of a skewed target, learned: log, box-cox, yeo-johnson, tanh, logit."
        ),
    ] = None,
    groups: Annotated[
        str | None,
        typer.Option(help="Column of groups (schools, patients) that each have an offset of their own."),
    ] = None,
    robust: Annotated[
        str,
        typer.Option(
            help=(
                "Noise that outliers cannot spoil: student-t, laplace, mixture, uniform, or another by name; "
                "auto compares Gaussian, Student-t, Laplace and mixture noise."
            )
        ),
    ] = "none",
    classify: Annotated[
        bool,
        typer.Option(
            "--classify",
            help="The target holds classes, though it is numeric (text is taken as classes anyway).",
        ),
    ] = False,
    solver: Annotated[
        str | None,
        typer.Option(
            help="How the algebra is done: dense, vfe, vecchia ... (default: dense up to 10,000 rows, auto "
            "beyond, which says what it chose)."
        ),
    ] = None,
    memory: Annotated[
        str | None, typer.Option(help="What the solver may use, such as 8GiB (default: 4GiB).")
    ] = None,
    checkpoint: Annotated[
        Path | None,
        typer.Option(help="Keep what is reached in this file; the same command goes on from it if killed."),
    ] = None,
    seed: Seed = 0,
    plot: Plot = None,
    dask: Dask = None,
) -> None:
    """Fit a Gaussian process to a table and save it.

    Says what was learned and how well each datum is predicted by the others. A target of text is classified.
    With --robust it also says which rows are outliers, and with --robust auto why it kept a noise model.
    What --trials, --exposure, --event, --lower and --upper say of rows is of training rows alone: predictions
    are of one trial, of exposure 1, and of targets that are seen.

    Several files, or --dask, are gone through in chunks by a low-rank solver (vfe unless told), with numbers
    as targets; leave-one-out measures are then not computed.

    Example: mercer fit weather.csv --target temperature --features day,altitude --out weather.mercer --plot
    weather.png
    """
    check_inputs([], data)
    check_outputs([out, checkpoint], data, pictures=[plot])
    if chunked.asked(data, dask):
        whole: dict[str, Any] = {
            "error": error,
            "weight": weight,
            "noise-by": noise_by,
            "trials": trials,
            "event": event,
        }
        whole |= {"exposure": exposure, "lower": lower, "upper": upper}
        whole |= {"robust": None if robust == "none" else robust, "plot": plot, "budget": budget}
        if given := [f"--{name}" for name, value in whole.items() if value is not None]:
            raise ValueError(f"{given[0]} goes with one file, without --dask: leave it out.")
        settings: dict[str, Any] = {
            "kernel": kernel,
            "restarts": restarts,
            "random_state": seed,
            "noise_variance": noise,
        }
        settings |= {"likelihood": likelihood, "warp": warp, "groups": groups, "solver": solver}
        settings |= {"memory": memory, "checkpoint": checkpoint}
        chunked.fit(data, target, features, out, dask, settings, classify)
        return
    (table,) = data
    from mercer.app import describe, work

    how = {"solver": solver, "memory": memory, "checkpoint": checkpoint}
    how |= work.search_settings(kernel, budget, max_models)
    beside = {"y_error": error, "sample_weight": weight, "exposure": exposure, "trials": trials}
    beside |= {"event": event, "lower": lower, "upper": upper}
    of_rows = {keyword: name for keyword, name in beside.items() if name is not None}
    what = {"likelihood": likelihood, "warp": warp, "groups": groups}
    X, y, rows, notes, known = work.training_data(table, target, features, classify, kernel, of_rows)
    with warnings_as_notes():
        model = work.fit_model(
            X, y, kernel, restarts, noise, seed, classify, robust, rows, how, noise_by, known, what
        )
    model.name_target(target).save(out)
    if plot is not None:
        work.draw_fit(model, y, target, plot)
    for line in notes:
        note(line)
    if answer().quiet and not answer().json:
        return
    columns, lines, measures = work.quality(model, y, target)
    found(**describe.facts(model), target=target, leave_one_out=measures)
    say(model.summary())
    say()
    for line in describe.search_lines(model):
        say(line)
    for title, header, cells in [*describe.robust_tables(model), *describe.importance_tables(model)]:
        show_table(title, header, cells)
    show_table("Left out one at a time, each datum predicted from the others", columns, lines, right=(1,))
    wrote("model", out, "saved in")
    if plot is not None:
        wrote("picture", plot, "drawn in")
    next_step(f"mercer report {out} --out report.html", f"mercer predict {out} NEW.csv --out predicted.csv")
