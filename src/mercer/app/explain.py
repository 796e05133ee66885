"""`mercer explain`: a saved model, or its predictions, in plain sentences."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mercer.app.command import command
from mercer.app.console import found, say, warnings_as_notes, wrote
from mercer.app.options import Out, Plot, Saved
from mercer.app.paths import check_inputs, check_outputs, named

if TYPE_CHECKING:
    from mercer.app.tables import Table


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(explain)


@command
def explain(
    model: Saved,
    row: Annotated[
        Path | None,
        typer.Option(
            help="Table of rows whose predictions are explained, .csv, .tsv or .parquet; - reads it from "
            "standard input."
        ),
    ] = None,
    out: Out = None,
    plot: Plot = None,
) -> None:
    """Say in sentences what a saved model has learned.

    What each column or part does, how strongly, how sure that is. With --row, why it predicts what it does:
    what each column adds to the
    prediction of each row, beside the average, and on which training rows it rests; --plot draws the first.

    Example: mercer explain weather.mercer --row tomorrow.csv
    """
    check_inputs([model], [row])
    check_outputs([], [model, row], tables=[out], pictures=[plot])
    with warnings_as_notes():
        said = explained(model, row)
    found(text=str(said), table=numbers(said))
    say(str(said))
    if out is not None:
        from mercer.app.tables import write_table

        write_table(out, numbers(said))
        wrote("table", out)
    if plot is not None:
        draw(said, plot)
        wrote("picture", plot, "drawn in")


def explained(path: Path, row: Path | None) -> Any:
    """What a saved model says of itself, or of the rows of a table."""
    import mercer as mc
    from mercer.app.features import new_columns
    from mercer.app.tables import read_table

    model = mc.load(path)
    if isinstance(model, mc.GPTimeSeries):
        if row is not None:
            raise ValueError(f"{path} holds a time series, which is explained as a whole: leave out --row.")
        return model.explain()
    if not isinstance(model, mc.GPRegressor | mc.GPClassifier):
        raise ValueError(
            f"{path} holds a {type(model).__name__}, which has no columns to predict from: mercer info says "
            "what was learned."
        )
    if row is None:
        return model.explain()
    assert model.columns_ is not None
    return model.explain(new_columns(model.columns_, read_table(row), named(row)))


def numbers(found: Any) -> Table:
    """The numbers of an explanation, as columns of a table."""
    import numpy as np

    frame = found.to_frame()
    return {str(name): np.asarray(frame[name]) for name in frame}


def draw(found: Any, path: Path) -> None:
    """The picture of an explanation."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    from mercer import viz
    from mercer.app.paths import save_figure

    figure = viz.explain(found).figure
    save_figure(figure, path, dpi=130)
    plt.close(figure)
