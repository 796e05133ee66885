"""The report of a regressor of several outputs."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer.estimators.regression.coregional import Coregional
from mercer.estimators.regression.regressor import GPRegressor
from mercer.estimators.reports import columns as of_columns
from mercer.estimators.reports import left_out as of_rows
from mercer.estimators.reports.hyper import hyperparameters
from mercer.estimators.reports.shared import again, constructor, listed, names_of, number, titled
from mercer.estimators.reports.trust import algebra, approximation
from mercer.estimators.reports.whatif import Live, no_panel, whatif_section
from mercer.estimators.saving import data_hash
from mercer.progress import tell
from mercer.report import AbstractPart, Code, Facts, Figures, Heading, Notes, Report, Section, Table, Text

MOST_OUTPUTS = 8


def several_told(model: GPRegressor, budget: float | str) -> Report:
    """The report: a heading for each output within each section."""
    several: Any = model._several
    columns = model.columns_
    assert columns is not None
    together = isinstance(several, Coregional)
    sections = _together(model, several) if together else _independent(model, several)
    how = "learned together" if together else "learned one by one"
    subtitle = (
        f"{len(several.names)} outputs, {how}, {len(columns.columns)} columns: Gaussian-process regression"
    )
    title = f"{listed(list(several.names), 4)} from {listed(list(columns.names), 4)}"
    return Report(title, subtitle, tuple(sections))


def _independent(model: GPRegressor, several: Any) -> list[Section]:
    found: dict[str, list[AbstractPart]] = {}
    names = several.names[:MOST_OUTPUTS]
    for i, (name, member) in enumerate(zip(names, several.members, strict=False)):
        tell(i + 1, len(names), "outputs")
        explanation = member.explain()
        importance, rows = explanation.importance, of_rows.left_out(member)
        said: dict[str, list[AbstractPart]] = {
            "words": [
                *([Facts(tuple(of_rows.facts(rows, name)))] if rows is not None else []),
                *(Text(line) for line in explanation.opening),
                Notes(tuple(one.sentence for one in explanation.findings)),
            ],
            "hyperparameters": list(hyperparameters([member.fit_], [""], member._rule, name)),
            "importance": of_columns.importance_parts(importance, name) if len(importance) > 1 else [],
            "effects": list(of_columns.effects_section(member, explanation.effects, importance, name).parts),
        }
        if rows is not None:
            said["left-out"] = list(of_rows.section(member, rows, name).parts)
            said["outliers"] = list(of_rows.outliers_section(member, rows, name).parts)
        said["trust"] = [Text(approximation(member.posterior_)), algebra(member.posterior_)]
        for key, parts in said.items():
            if parts:
                found.setdefault(key, []).extend([Heading(name), *parts])
    first = several.members[0]
    X = first.posterior_.inputs.values
    data = of_columns.data_table(model.columns_, X, None, "")
    ranges = [
        [
            name,
            f"{len(m.posterior_.y):,}",
            *(number(float(v)) for v in np.quantile(m.posterior_.y, [0, 0.5, 1])),
        ]
        for name, m in zip(several.names, several.members, strict=True)
    ]
    table = Table("Outputs", ("output", "rows", "least", "median", "most"), ranges, (1, 2, 3, 4))
    sections = [titled(key, parts) for key, parts in found.items()]
    sections.insert(1, titled("data", (table, *data)))
    live = [Live(name, m.posterior_) for name, m in zip(several.names, several.members, strict=True)]
    return [*sections, whatif_section(model.columns_, live), _again(model, several)]


def _together(model: GPRegressor, several: Coregional) -> list[Section]:
    (member,) = several.members
    names, p = several.names, len(several.names)
    correlations = [
        [name, *(f"{c:.2f}" for c in row)] for name, row in zip(names, several.correlations, strict=True)
    ]
    noise = zip(names, np.sqrt(several.noise_variance), strict=True)
    facts = tuple((f"noise of {name}", number(float(std), 3), "standard deviation") for name, std in noise)
    words: list[AbstractPart] = [
        Facts(facts[:6]),
        Text(
            "The outputs are functions that are correlated: what is known of one helps to predict the others."
        ),
        Table(
            "Correlation of the functions without noise", ("", *names), correlations, tuple(range(1, p + 1))
        ),
    ]
    output = member.posterior_.inputs.values[:, -1].astype(int)
    loo = member.loo()
    std = np.sqrt(loo.variance)
    figures, left = [], []
    for j, name in enumerate(names[:MOST_OUTPUTS]):
        own = output == j
        scale, centre = several.scale[j], several.centre[j]
        y, mean, half = (
            member.posterior_.y[own] * scale + centre,
            loo.mean[own] * scale + centre,
            1.96 * std[own] * scale,
        )
        rows = of_rows.LeftOut(
            y,
            mean,
            mean - half,
            mean + half,
            (y - mean) / (half / 1.96),
            loo.log_density[own] - np.log(scale),
            [str(i) for i in range(int(own.sum()))],
        )
        figures += [of_rows.observed(rows, name), of_rows.residuals(rows, name)]
        table = of_rows.quality(rows, name)
        left += [Heading(name), table]
    sections = [
        titled("words", tuple(words)),
        titled("hyperparameters", hyperparameters([member.fit_], [""], member._rule, "output")),
        titled("left-out", (*left, Figures(tuple(figures)))),
        titled("trust", (Text(approximation(member.posterior_)), algebra(member.posterior_))),
        no_panel("the kernel of outputs that are learned together is not known to the script of this page"),
        _again(model, several),
    ]
    sections.insert(1, Section("summary", "In one text", (Code(several.summary()),)))
    return sections


def _again(model: GPRegressor, several: Any) -> Section:
    columns = model.columns_
    assert columns is not None
    X = f"df[{names_of(columns.names)}]" if columns.named else "X"
    code = ["import mercer", *(["import pandas as pd", "", 'df = pd.read_csv("data.csv")'] * columns.named)]
    code += [
        f"model = {constructor(model)}",
        f"model.fit({X}, df[{names_of(several.names)}])",
        'model.save("model.mercer")',
    ]
    member = several.members[0]
    digest = data_hash(member._training[0].values, member._training[1])
    return again("\n".join(code), None, digest, model.random_state)
