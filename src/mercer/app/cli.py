"""The command line, `mercer`. Each command stands in a module of its own, which imports what computes within
the command: `mercer --help` loads neither JAX nor NumPy (docs/architecture.md).
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mercer.app import (
    backtest,
    compare,
    control,
    doctor,
    em,
    explain,
    fit,
    forecast,
    optimise,
    predict,
    report,
    saved,
    serve,
)
from mercer.app.command import Commands, command
from mercer.app.console import found, warnings_as_notes, wrote
from mercer.app.paths import check_outputs
from mercer.app.studio import command as studio

app = typer.Typer(
    name="mercer",
    cls=Commands,
    help=(
        "Gaussian processes for people with data: predictions with honest uncertainty, and how far to "
        "trust them."
    ),
    epilog="Start with: mercer demo. Every command has an example under --help.",
    no_args_is_help=True,
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
@command
def demo(
    out: Annotated[Path, typer.Option(help="Where to write the picture (.png, .pdf or .svg).")] = Path(
        "mercer_demo.png"
    ),
    quick: Annotated[bool, typer.Option("--quick", help="Use every third month only.")] = False,
) -> None:
    """Learn the CO2 record of Mauna Loa, and look ahead.

    Fits trend + season + irregularities to the monthly means to 1981, which come with the package, looks 20
    years ahead, says what was learned and how many of the months that were kept back lie in their intervals,
    and draws it.

    Example: mercer demo --out co2.png
    """
    check_outputs([], pictures=[out])
    from mercer.app.demo import run

    with warnings_as_notes():
        found(**run(out, quick))
    wrote("picture", out, "drawn in")


LEARNING = fit, predict, forecast, backtest, compare, saved, explain, report
OTHERS = optimise, em, control, serve, studio, doctor
for module in (*LEARNING, *OTHERS):
    module.register(app)


if __name__ == "__main__":
    main()
