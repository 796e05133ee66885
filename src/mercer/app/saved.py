"""`mercer info` and `mercer assess`: what is in a saved model, and how far to trust its approximation."""

from __future__ import annotations

from typing import Annotated

import typer

from mercer.app.command import command
from mercer.app.console import found, say, show_table, warnings_as_notes, wrote
from mercer.app.options import Plot, Saved, Seed
from mercer.app.paths import check_inputs, check_outputs


def register(app: typer.Typer) -> None:
    """Add both commands."""
    app.command()(info)
    app.command()(assess)


@command
def info(model: Saved) -> None:
    """Say what is in a saved model.

    Columns and how much they matter, kernel, noise, outliers, hyperparameters, evidence, versions.

    Example: mercer info weather.mercer
    """
    check_inputs([model])
    from mercer.app import describe

    tables, facts = describe.describe(model)
    found(**facts)
    for title, columns, rows in tables:
        show_table(title, columns, rows)


@command
def assess(
    model: Saved,
    budget: Annotated[str, typer.Option(help="About how long this may take: 60s, 5min.")] = "60s",
    plot: Plot = None,
    seed: Seed = 0,
) -> None:
    """Say how far to trust a model's approximation.

    Runs Laplace, EP and the variational bound beside a sampled reference on the model's own data.

    Example: mercer assess weather.mercer --budget 2min
    """
    check_inputs([model])
    check_outputs([], [model], pictures=[plot])
    import mercer
    from mercer.app.work import draw_verdict

    with warnings_as_notes():
        verdict = mercer.assess(mercer.load(model), budget=budget, seed=seed)
    header, rows = verdict.table()
    told, *notes = verdict.report_section()["paragraphs"]
    found(
        recommended=verdict.recommended,
        verdict=told,
        reference=verdict.reference,
        reference_ok=verdict.reference_ok,
        methods=[
            {
                "name": m.name,
                "log_evidence": m.log_evidence,
                "evidence_error": m.evidence_error,
                "mean_error": m.mean_error,
                "scale_error": m.scale_error,
                "prediction_error": m.prediction_error,
                "trusted": m.trusted,
                "seconds": m.seconds,
            }
            for m in verdict.methods
        ],
    )
    say(f"{told}\n")
    show_table("Beside the truth", tuple(header), [tuple(row) for row in rows])
    for line in notes:
        say(line)
    if plot is not None:
        draw_verdict(verdict, plot)
        wrote("picture", plot, "drawn in")
