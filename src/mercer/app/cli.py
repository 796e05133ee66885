"""The command line: `mercer demo`, `fit`, `predict`, `info`, `assess`, and those of other modules.
Heavy imports happen inside the commands.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mercer.app import backtest as backtest_command
from mercer.app import control as control_command
from mercer.app import em as em_commands
from mercer.app import explain as explain_command
from mercer.app import forecast as forecast_command
from mercer.app import optimise as optimise_command
from mercer.app import report as report_command
from mercer.app.console import note, one_line_errors, show_table, warnings_as_notes
from mercer.app.paths import check_inputs, check_outputs
from mercer.app.studio import command as studio_command

app = typer.Typer(
    name="mercer",
    help=(
        "Gaussian processes for people with data: predictions with honest uncertainty, and how far to "
        "trust them."
    ),
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


def main() -> None:
    """Entry point of the `mercer` command."""
    app()


def _version(asked: bool) -> None:
    if asked:
        from mercer import __version__

        typer.echo(f"mercer {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    pass


@app.command()
@one_line_errors
def demo(
    out: Annotated[Path, typer.Option(help="Where to write the picture (.png, .pdf or .svg).")] = Path(
        "mercer_demo.png"
    ),
    quick: Annotated[bool, typer.Option("--quick", help="Use every third month only.")] = False,
) -> None:
    """Learn the CO2 record of Mauna Loa to 1981; look 20 years ahead, beside what came.

    Fits trend + season + irregularities to the monthly means that come with the package, says what was
    learned and how many of the months that were kept back lie in their intervals, and draws it.
    """
    from mercer.app.demo import run

    check_outputs([out])
    with warnings_as_notes():
        run(out, quick)


@app.command()
@one_line_errors
def fit(
    data: Annotated[
        Path,
        typer.Argument(
            help="Table of data, .csv, .tsv or .parquet, with the names of the columns in the first line."
        ),
    ],
    target: Annotated[str, typer.Option(help="Column to predict. Rows where it is empty are left out.")],
    out: Annotated[Path, typer.Option(help="Where to save the model, for example model.mercer.")],
    features: Annotated[
        str | None, typer.Option(help="Columns to predict from, separated by commas (default: all others).")
    ] = None,
    kernel: Annotated[
        str | None,
        typer.Option(
            help='Covariance function, in the units of the data: "SE() + Periodic(period=1)" '
            "(default: ARD Matern 5/2); auto chooses its roughness, search looks for the structure."
        ),
    ] = None,
    budget: Annotated[
        str | None, typer.Option(help="With --kernel search, how long that may take: 60s (default), 5min.")
    ] = None,
    max_models: Annotated[
        int | None, typer.Option(min=1, help="With --kernel search, how many kernels are looked at, at most.")
    ] = None,
    restarts: Annotated[int, typer.Option(min=0, help="Further random starts of the optimiser.")] = 0,
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
            "(shares), gamma (positive), weibull or log-logistic (waiting times), censored, heteroscedastic "
            "(default: a number with Gaussian noise)."
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
    seed: Annotated[int, typer.Option(help="Seed of the random starts.")] = 0,
    plot: Annotated[
        Path | None, typer.Option(help="Also draw the fit to this file (.png, .pdf or .svg).")
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print nothing but errors.")] = False,
) -> None:
    """Fit a Gaussian process to a table and save it.

    Says what was learned and how well each datum is predicted by the others. A target of text is classified.
    With --robust it also says which rows are outliers, and with --robust auto why it kept a noise model.
    What --trials, --exposure, --event, --lower and --upper say of rows is of training rows alone: predictions
    are of one trial, of exposure 1, and of targets that are seen.

    Example: mercer fit weather.csv --target temperature --features day,altitude --out weather.mercer --plot
    weather.png
    """
    check_inputs([data])
    check_outputs([out, plot, checkpoint], [data])
    from mercer.app import work

    how = {"solver": solver, "memory": memory, "checkpoint": checkpoint}
    how |= work.search_settings(kernel, budget, max_models)
    beside = {"y_error": error, "sample_weight": weight, "exposure": exposure, "trials": trials}
    beside |= {"event": event, "lower": lower, "upper": upper}
    of_rows = {keyword: name for keyword, name in beside.items() if name is not None}
    what = {"likelihood": likelihood, "warp": warp, "groups": groups}
    X, y, rows, notes, known = work.training_data(data, target, features, classify, kernel, of_rows)
    with warnings_as_notes(quiet):
        model = work.fit_model(
            X, y, kernel, restarts, noise, seed, not quiet, classify, robust, rows, how, noise_by, known, what
        )
    model.name_target(target).save(out)
    if plot is not None:
        work.draw_fit(model, y, target, plot)
    if quiet:
        return
    for line in notes:
        note(line)
    typer.echo(model.summary())
    typer.echo()
    for line in work.search_lines(model):
        typer.echo(line)
    for title, columns, lines in work.robust_tables(model):
        show_table(title, columns, lines)
    for title, columns, lines in work.importance_tables(model):
        show_table(title, columns, lines)
    show_table(
        "Left out one at a time, each datum predicted from the others",
        *work.quality(model, y, target),
        right=(1,),
    )
    typer.echo(f"saved {out}" + (f", drawn {plot}" if plot else ""))


@app.command()
@one_line_errors
def predict(
    model: Annotated[Path, typer.Argument(help="A model saved by `mercer fit`.")],
    new: Annotated[
        Path, typer.Argument(help="Table with the columns the model was fitted to, .csv, .tsv or .parquet.")
    ],
    out: Annotated[
        Path, typer.Option(help="Where to write the table with the predictions, .csv, .tsv or .parquet.")
    ],
    level: Annotated[float, typer.Option(help="Level of the intervals, between 0 and 1.")] = 0.95,
    latent: Annotated[
        bool, typer.Option("--latent", help="Predict the noise-free function instead of new observations.")
    ] = False,
) -> None:
    """Predict the rows of a table with a saved model.

    Writes the table with the further columns mean, std, lower and upper; or, for classes, class and the
    probability of each.

    Example: mercer predict weather.mercer tomorrow.csv --out predicted.csv --level 0.9
    """
    check_inputs([model, new])
    check_outputs([out], [model, new])
    from mercer.app import work

    with warnings_as_notes():
        rows = work.predict(model, new, out, level, latent)
    typer.echo(f"predicted {rows} row{'s' if rows != 1 else ''} into {out}")


@app.command()
@one_line_errors
def info(model: Annotated[Path, typer.Argument(help="A model saved by `mercer fit`.")]) -> None:
    """Say what is in a saved model.

    Columns and how much they matter, kernel, noise, outliers, hyperparameters, evidence, versions.
    """
    check_inputs([model])
    from mercer.app import work

    for title, columns, rows in work.describe(model):
        show_table(title, columns, rows)


@app.command()
@one_line_errors
def assess(
    model: Annotated[Path, typer.Argument(help="A model saved by `mercer fit`.")],
    budget: Annotated[str, typer.Option(help="About how long this may take: 60s, 5min.")] = "60s",
    plot: Annotated[Path | None, typer.Option(help="Draw the comparison here (.png, .pdf or .svg).")] = None,
    seed: Annotated[int, typer.Option(help="Seed of the sampled reference.")] = 0,
) -> None:
    """Say how far to trust a model's approximation.

    Runs Laplace, EP and the variational bound beside a sampled reference on the model's own data.
    """
    check_inputs([model])
    check_outputs([plot], [model])
    import mercer
    from mercer.app.work import draw_verdict

    with warnings_as_notes():
        verdict = mercer.assess(mercer.load(model), budget=budget, seed=seed)
        header, rows = verdict.table()
        found, *notes = verdict.report_section()["paragraphs"]
        typer.echo(f"{found}\n")
        show_table("Beside the truth", tuple(header), [tuple(row) for row in rows])
        for line in notes:
            typer.echo(line)
        if plot is not None:
            draw_verdict(verdict, plot)
            note(f"drawn in {plot}")


explain_command.register(app)
em_commands.register(app)
forecast_command.register(app)
backtest_command.register(app)
optimise_command.register(app)
control_command.register(app)
studio_command.register(app)
report_command.register(app)


if __name__ == "__main__":
    main()
