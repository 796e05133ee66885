"""The report of a regressor, of one output or several."""

from __future__ import annotations

import numpy as np

from mercer.estimators.base import column_lines, fitted
from mercer.estimators.regression.regressor import GPRegressor
from mercer.estimators.reports import columns as of_columns
from mercer.estimators.reports import left_out as of_rows
from mercer.estimators.reports.hyper import hyperparameters
from mercer.estimators.reports.shared import again, constructor, fit_command, listed, names_of, number, titled
from mercer.estimators.reports.trust import trust_section
from mercer.estimators.reports.whatif import Live, whatif_section
from mercer.estimators.saving import data_hash
from mercer.estimators.told import Explanation
from mercer.explain import Importance
from mercer.likelihoods import AbstractNoise, Gaussian
from mercer.progress import shown, tell
from mercer.report import AbstractPart, Code, Facts, Figure, Notes, Report, Section, Text
from mercer.report.charts import Plot, number_axis


def told(model: GPRegressor, budget: float | str) -> Report:
    """The report."""
    fitted(model)
    several = model._asking(refused=False)
    with shown("report", model.progress):
        if several is not None:
            from mercer.estimators.reports.outputs import several_told

            return several_told(model, budget)
        return one_told(model, budget)


def one_told(model: GPRegressor, budget: float | str) -> Report:
    """That of one output."""
    target = model.target_name_ or "y"
    columns = model.columns_
    assert columns is not None
    steps = iter(range(1, 9))
    tell(next(steps), 8, "explaining")
    explanation = model.explain()
    importance = explanation.importance
    assert importance is not None
    tell(next(steps), 8, "leaving rows out")
    rows = of_rows.left_out(model)
    tell(next(steps), 8, "importance")
    full = _importance(model, importance)
    X, y = model._training[0].values, model._each_row(model.posterior_.y)
    sections = [_words(model, explanation, rows, target), _data(model, X, y, target)]
    tell(next(steps), 8, "hyperparameters")
    sections.append(titled("hyperparameters", hyperparameters([model.fit_], [""], model._rule, target)))
    if len(importance) > 1:
        sections.append(titled("importance", tuple(of_columns.importance_parts(full, target))))
    tell(next(steps), 8, "effects")
    sections.append(_effects(model, explanation, importance, target))
    if rows is not None:
        sections.append(of_rows.section(model, rows, target))
    sections.append(of_rows.outliers_section(model, rows, target))
    tell(next(steps), 8, "assessing")
    sections.append(trust_section(model, rows, budget))
    tell(next(steps), 8, "what if")
    sections.append(whatif_section(columns, [Live(target, model.posterior_)], importance.names[0]))
    sections.append(reproduce(model, target))
    subtitle = (
        f"{len(y):,} rows, {len(columns.columns)} column{'s' * (len(columns.columns) != 1)}: {_kind(model)}"
    )
    return Report(f"{target} from {listed(list(columns.names), 5)}", subtitle, tuple(sections))


def _kind(model: GPRegressor) -> str:
    robust = isinstance(model.model_.likelihood, AbstractNoise)
    return "Gaussian-process regression" + (" that outliers cannot spoil" if robust else "")


def _importance(model: GPRegressor, plain: Importance) -> Importance:
    """With shuffled columns, where leaving rows out is at hand."""
    return (
        model.importance()
        if len(plain) > 1 and model._left_out_at_hand and model.posterior_.can("left_out")
        else plain
    )


def _words(
    model: GPRegressor, explanation: Explanation, rows: of_rows.LeftOut | None, target: str
) -> Section:
    parts: list[AbstractPart] = []
    if rows is not None:
        facts = of_rows.facts(rows, target)
        noise = model.noise_variance_
        plain = isinstance(model.model_.likelihood, Gaussian)
        if isinstance(noise, float) and plain:
            facts.append(
                ("noise", number(float(np.sqrt(noise)), 3), f"standard deviation, in units of {target}")
            )
        parts.append(Facts(tuple(facts)))
    parts += [Text(line) for line in explanation.opening]
    parts.append(Notes(tuple(finding.sentence for finding in explanation.findings)))
    if explanation.notes:
        parts.append(Notes(tuple(explanation.notes)))
    parts.append(Code(str(model.kernel_), "The kernel, in your units:"))
    if model.search_ is not None:
        parts.append(Code(str(model.search_), "The kernels that were looked at:"))
    return titled("words", tuple(parts))


def _data(model: GPRegressor, X: np.ndarray, y: np.ndarray, target: str) -> Section:
    said = [line.removeprefix("note: ") for line in [*column_lines(model.columns_), *model._note_lines()]]
    said = [line for line in said if not line.startswith("columns: ")]
    if (hint := model._noise_hint()) is not None:
        said.append(hint)
    text = (
        f"{len(y):,} rows were learned from; {target} lies between {number(y.min())} and {number(y.max())}."
    )
    parts: list[AbstractPart] = [Text(text)]
    if said:
        parts.append(Notes(tuple(said), warning=True))
    return titled("data", (*parts, *of_columns.data_table(model.columns_, X, y, target)))


def _effects(model: GPRegressor, explanation: Explanation, importance: Importance, target: str) -> Section:
    section = of_columns.effects_section(model, explanation.effects, importance, target)
    X = model.posterior_.inputs.values
    if X.dtype == object or X.shape[1] != 1 or not model.posterior_.can("quantile"):
        return section
    return Section(section.id, section.title, (_curve(model, X[:, 0], target), *section.parts[1:]))


def _curve(model: GPRegressor, x: np.ndarray, target: str) -> Figure:
    """One input: the data, the function and the interval of new observations."""
    posterior = model.posterior_
    name = model.columns_.names[0] if model.columns_ is not None else "x"
    margin = 0.04 * float(np.ptp(x))
    at = np.linspace(x.min() - margin, x.max() + margin, 161)
    known = posterior.model.likelihood.elsewhere(posterior.inputs.values[:1]) is not None
    if known:
        found = posterior.predictive(at[:, None])
        mean, (low, high), what = found.mean, found.quantiles.T, "new observations"
    else:
        mean, std = posterior.mean_and_std(at[:, None], latent=True)
        low, high, what = mean - of_columns.Z95 * std, mean + of_columns.Z95 * std, "the function"
    y = posterior.y
    kept, said = of_rows.shown_rows(y - np.interp(x, at, mean))
    charts = []
    for width, height in ((380, 260), (900, 380)):
        plot = Plot(number_axis(name, at, room=0.0), number_axis(target, y[kept], low, high), width, height)
        plot.band(at, low, high).dots(x[kept], y[kept], 2).line(at, mean)
        charts.append(plot.svg(f"{target} along {name}"))
    caption = f"{target} along {name}: the data, the function, and the 95 % interval of {what}.{said}"
    numbers = {name: at, "mean": mean, "lower": low, "upper": high}
    return Figure(charts[0], caption, of_rows.behind(f"Along {name}", numbers), charts[1])


def reproduce(model: GPRegressor, target: str) -> Section:
    """Code, command, versions, hash."""
    columns = model.columns_
    assert columns is not None
    inputs, y = model._training
    named = columns.named
    X = f"df[{names_of(columns.names)}]" if named else "X"
    of_y = f"df[{target!r}]" if model.target_name_ else "y"
    code = ["import mercer"]
    if named:
        code = ["import mercer", "import pandas as pd", "", 'df = pd.read_csv("data.csv")  # your table']
    code += [f"model = {constructor(model)}", f"model.fit({X}, {of_y})", 'model.save("model.mercer")']
    command = fit_command(model, columns)
    return again("\n".join(code), command, data_hash(inputs.values, y), model.random_state)
