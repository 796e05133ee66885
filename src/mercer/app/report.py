"""`mercer report`: a saved model as one HTML file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mercer.app.command import command
from mercer.app.console import warnings_as_notes, wrote
from mercer.app.options import Features
from mercer.app.paths import check_inputs, check_outputs, named

if TYPE_CHECKING:
    from mercer.report import AbstractReported


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(report)


@command
def report(
    model: Annotated[Path, typer.Argument(help="A saved model, or an optimisation run.")],
    out: Annotated[Path, typer.Option(help="Where to write the page, for example report.html.")],
    budget: Annotated[
        str, typer.Option(help="About how long an assessment of the approximation may take: 30s, 1min.")
    ] = "30s",
    data: Annotated[
        Path | None,
        typer.Option(
            help="Table of rows to show, of a model of clusters or hidden states, which does not keep those "
            "it learned from."
        ),
    ] = None,
    features: Features = None,
) -> None:
    """Tell a saved model in one HTML file that needs no network.

    What was fitted, in words; the data; what was learned; which columns matter, and how; how well rows are
    predicted; outliers; how far to trust it; sliders that move the prediction; how to reproduce it.

    Example: mercer report houses.mercer --out houses.html
    """
    check_inputs([model, *([] if data is None else [data])])
    check_outputs([out], [model, data])
    with warnings_as_notes():
        told(model).report(out, budget, rows(data, features))
    wrote("page", out)


def rows(path: Path | None, features: str | None) -> dict[str, Any] | None:
    """The columns of numbers of a table."""
    if path is None:
        return None
    from mercer.app.em import chosen_numbers
    from mercer.app.tables import read_table

    names, X = chosen_numbers(read_table(path), features, named(path), ())
    return dict(zip(names, X.T, strict=True))


def told(path: Path) -> AbstractReported:
    """The saved model, where it has a report."""
    import mercer
    from mercer.report import AbstractReported

    found = mercer.load(path)
    if not isinstance(found, AbstractReported):
        raise ValueError(
            f"{path} holds a {type(found).__name__}, which has no report: mercer info describes it."
        )
    return found
