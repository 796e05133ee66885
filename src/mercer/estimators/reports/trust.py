"""How far to trust a fitted model, in a report: which approximation it is, how its algebra went, and what an
assessment finds.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer.estimators.base import AbstractEstimator
from mercer.estimators.reports import left_out as of_rows
from mercer.estimators.reports.shared import number, titled
from mercer.learning import assess
from mercer.likelihoods.gaussian import AbstractGaussianNoise
from mercer.report import AbstractPart, Heading, Notes, Section, Table, Text

MOST_ASSESSED = 1000  # rows


def trust_section(model: AbstractEstimator, rows: of_rows.LeftOut | None, budget: float | str) -> Section:
    """The section of a model of one posterior."""
    posterior = model._fits[0].posterior
    parts: list[AbstractPart] = [Text(approximation(posterior)), algebra(posterior)]
    if bounds := _bounds(posterior):
        parts.append(Text(bounds))
    exact = isinstance(posterior.model.likelihood, AbstractGaussianNoise)
    if not exact and not posterior.averages:
        parts += assessed(model, budget)
    if rows is not None:
        parts.append(Heading("Do intervals hold what they promise?"))
        parts.append(of_rows.conformal(rows))
        parts.append(
            Text(
                "The last column is how many standard deviations an interval has to reach to hold that share "
                "of the rows left out, each judged by the others: a good guide, though hyperparameters know "
                "all rows. What holds whatever the data are like is promised by rows that were not trained "
                "on: model.calibrate(X_new, y_new), by split-conformal prediction."
            )
        )
    return titled("trust", tuple(parts))


def approximation(posterior: Any) -> str:
    """Which one it is, in words."""
    if posterior.averages:
        return "Predictions average over settings of the hyperparameters: " + "; ".join(posterior.notes)
    solver = posterior.solver
    name = "dense algebra" if solver is None else f"the solver {type(solver).__name__}"
    how = f" ({solver.why})" if solver is not None and solver.why else ""
    if isinstance(posterior.model.likelihood, AbstractGaussianNoise):
        if posterior.state.exact:
            return (
                "Nothing is approximated: with Gaussian noise the posterior is known in closed form, and "
                f"{name} computes it to rounding{how}. What is left to trust is the model: the kernel, the "
                "noise, and hyperparameters set to their most probable values."
            )
        return f"The posterior is approximated by {name}{how}; with exact algebra it would be known."
    return (
        "The noise is not Gaussian, so that the posterior has no closed form: it is approximated by a "
        f"Gaussian, on {name}{how}."
    )


def algebra(posterior: Any) -> Table:
    """How the algebra went."""
    rows = []
    if posterior.can("log_evidence"):
        rows.append(
            ["log evidence", f"{posterior.log_evidence:.4f}", "nats; to compare models of the same data"]
        )
    if not posterior.averages:
        found = posterior.state.diagnostics()
        if found.condition is not None:
            rows.append(["condition number", f"{found.condition:.3g}", f"at least, of {found.matrix or 'K'}"])
        rows.append(
            ["jitter", f"{found.jitter:.3g}", "added to the diagonal" if found.jitter else "none was needed"]
        )
        if found.rank is not None:
            rows.append(["rank", str(found.rank), "functions that stand for the prior"])
        rows += [["note", "", note] for note in found.notes]
    status = posterior.status
    if not status.converged:
        rows.append(["inference", "did not converge", ""])
    return Table("How the algebra went", ("what", "value", "meaning"), rows, (1,))


def _bounds(posterior: Any) -> str:
    if posterior.averages or not posterior.can("evidence_bounds"):
        return ""
    found = posterior.evidence_bounds()
    each = number(found.gap / len(posterior.y), 2)
    return (
        f"The exact log evidence lies between {number(found.lower, 6)} and {number(found.upper, 6)}: the "
        f"approximation loses at most {number(found.gap, 3)} nats, {each} a row."
    )


def assessed(model: AbstractEstimator, budget: float | str) -> list[AbstractPart]:
    """What `mercer.assess` finds within the budget."""
    n = len(model._fits[0].posterior.y)
    heading = Heading("The approximation beside the truth")
    if n > MOST_ASSESSED:
        text = f"Not assessed: sampling a reference for {n:,} rows takes long. `mercer assess` does it."
        return [heading, Text(text)]
    try:
        verdict = assess(model, budget=budget, progress=False)
    except (ValueError, TypeError, ArithmeticError, np.linalg.LinAlgError) as error:
        return [heading, Text(f"Not assessed: {error}")]
    said = verdict.report_section()
    notes = tuple(said["paragraphs"][1:])
    table = Table("Rules beside the sampled reference", said["header"], said["rows"])
    return [heading, Text(said["paragraphs"][0]), table, Notes(notes)]
