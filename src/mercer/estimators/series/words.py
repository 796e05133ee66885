"""What was learned of a time series, in words."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer.estimators.findings import numbers_left_out
from mercer.estimators.series.effects import effects
from mercer.likelihoods import AbstractNoise, Gaussian
from mercer.tables import text_table


def summary(ts: Any) -> str:
    """How well it predicts, data, what does not fit, notes; then parts, noise, evidence."""
    told = int((~np.isnan(ts._y)).sum())
    first, last = ts.clock_.stamps(ts._t[[0, -1]])
    values, predicted, inside = ts._left_out()
    lines = [
        numbers_left_out(values, predicted, inside, "value"),
        f"{told} values from {stamp_text(first)} to {stamp_text(last)}, {ts.clock_.words()}",
    ]
    if told < len(ts._y):
        lines[-1] += f"; {len(ts._y) - told} missing"
    odd = len(ts.anomalies_columns()[0])
    if odd:
        lines.append(f"{odd} of them {'does' if odd == 1 else 'do'} not fit: see anomalies_")
    lines += change_lines(ts)
    lines += [f"note: {text}" for text in ts.notes_]
    if ts.clock_.every:
        lines.append(f"forecasts go on and gaps are filled {ts.clock_.grid_words()}")
    if ts.transform_ == "log":
        lines.append("the logarithm is modelled: parts multiply, and their sizes are relative")
    elif ts.logarithmic_:
        lines.append("the logarithm of the rate is modelled: parts multiply")
    lines += ["", *text_table(["part", "what was learned"], part_rows(ts)), ""]
    if len(ts.trends_) > 1:
        tried = ", ".join(f"{name} {value:.2f}" for name, value in ts.trends_.items())
        lines.append(f"log evidence of the trends: {tried}; kept: {ts.trend_}")
    status = ts.fit_.status
    ended = "converged" if status.converged else f"not converged ({status.message})"
    lines.append(
        f"log evidence {ts.log_marginal_likelihood_:.3f}; optimiser: {ended}, {status.evaluations} "
        "evaluations"
    )
    return "\n".join(lines)


def change_lines(ts: Any) -> list[str]:
    """A line on changes of level, where there are any."""
    stamps, columns = ts.changes_columns()
    if not len(stamps):
        return []
    sizes = zip(stamps, columns["size"], columns["std"], strict=True)
    said = ", ".join(f"{stamp_text(stamp)} ({size:+.3g} +- {std:.2g})" for stamp, size, std in sizes)
    kept = "" if ts._design.changes else "; changes=True (--changes) keeps them in the model"
    return [f"changes of level: {said}{kept}"]


def part_rows(ts: Any) -> list[list[str]]:
    """A row of text for every part and the noise."""
    kernel = ts.kernel_
    terms = dict(zip(ts.component_names_, getattr(kernel, "terms", (kernel,)), strict=False))
    t = ts._t
    rows = []
    for name, term in terms.items():
        if name == "trend" and ts.trend_ == "linear":
            wander = np.sqrt(float(term.variance) * max(np.ptp(t), ts.step_) / 10)
            rows.append(
                [
                    name,
                    (
                        f"a line; in a tenth of the series its slope changes by about {wander:.3g} per "
                        f"{ts.unit_ or 'unit'}"
                    ),
                ]
            )
        elif name == "trend":
            rows.append(
                [name, f"a level, sd {_sd(term):.3g}, changing over about {_span(ts, term.lengthscale)}"]
            )
        elif name == "irregular":
            rows.append([name, f"sd {_sd(term):.3g}, lasting about {_span(ts, term.lengthscale)}"])
        else:
            shape, decay = term.factors
            words = f"period {_span(ts, shape.period)}, {shape.harmonics} harmonics, sd {_sd(shape):.3g}"
            rows.append([name, f"{words}, changing over about {_span(ts, decay.lengthscale)}"])
    rows += effect_rows(ts)
    noisy = isinstance(ts._likelihood, Gaussian | AbstractNoise)
    return [*rows, ["noise", ts._likelihood.words() if noisy else type(ts._likelihood).__name__]]


def effect_rows(ts: Any) -> list[list[str]]:
    """A row of text for every regressor and event."""
    design = ts._design
    labels, size, std = effects(design, ts.posterior_.state)
    said = [f"{b:+.3g} +- {s:.2g}" for b, s in zip(size, std, strict=True)]
    words = [
        f"{text} for each unit" if j < len(design.regressors)
        else text if label == column.name
        else f"{label.removeprefix(column.name).strip()}: {text}"
        for j, (column, label, text) in enumerate(zip(design.columns, labels, said, strict=True))
    ]  # fmt: skip
    return [[name, "; ".join(words[j] for j in design.of(name))] for name in design.names]


def stamp_text(stamp: Any) -> str:
    """A stamp without the parts of it that are zero."""
    if not isinstance(stamp, np.datetime64):
        return f"{stamp:.6g}"
    return str(stamp).removesuffix(".000000").removesuffix(":00").removesuffix("T00:00")


def _sd(kernel: Any) -> float:
    return float(np.sqrt(kernel.variance))


LONGER = {
    "second": ("minute", 60.0),
    "minute": ("hour", 60.0),
    "hour": ("day", 24.0),
    "day": ("year", 365.2425),
    "month": ("year", 12.0),
}
MANY = 2  # of the longer unit, from which on it is used


def _span(ts: Any, length: Any) -> str:
    """A length of time in a unit of a handy size."""
    size, unit = float(np.reshape(length, ())), ts.unit_
    while unit in LONGER and size >= MANY * LONGER[unit][1]:
        unit, factor = LONGER[unit]
        size /= factor
    return f"{size:.3g}" + (f" {unit}s" if unit else "")
