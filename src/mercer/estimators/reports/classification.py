"""The report of a classifier."""

from __future__ import annotations

import warnings

import numpy as np

from mercer import metrics
from mercer.estimators.base import column_lines, fitted
from mercer.estimators.classification.classifier import LABEL_REGRESSION, GPClassifier
from mercer.estimators.reports import columns as of_columns
from mercer.estimators.reports.hyper import hyperparameters
from mercer.estimators.reports.shared import (
    again,
    behind,
    constructor,
    fit_command,
    listed,
    names_of,
    number,
    percent,
    titled,
)
from mercer.estimators.reports.trust import algebra, approximation, assessed
from mercer.estimators.reports.whatif import Live, no_panel, whatif_section
from mercer.estimators.saving import data_hash
from mercer.progress import shown, tell
from mercer.report import (
    AbstractPart,
    Code,
    Facts,
    Figure,
    Figures,
    Heading,
    Notes,
    Report,
    Section,
    Table,
    Text,
)
from mercer.report.charts import Plot, category_axis, heat_map, number_axis

BINS = 10
MOST_CERTIFIED = 400  # rows
MOST_CLASSES = 20  # of a table


def told(model: GPClassifier, budget: float | str) -> Report:
    """The report."""
    fitted(model)
    with shown("report", model.progress):
        return _told(model, budget)


def _told(model: GPClassifier, budget: float | str) -> Report:
    target = model.target_name_ or "class"
    columns = model.columns_
    assert columns is not None
    inputs, codes = model._data
    labels = tuple(map(str, model.classes_.tolist()))
    codes = codes.astype(int)
    tell(1, 6, "explaining")
    explanation = model.explain()
    importance = explanation.importance
    assert importance is not None
    tell(2, 6, "leaving rows out")
    p = model._loo_probabilities() if model._left_out_at_hand else None
    sections = [
        _words(model, explanation, codes, p, target),
        _data(model, inputs.values, codes, labels, target),
    ]
    tell(3, 6, "hyperparameters")
    titles = [""] if len(model._fits) == 1 else [_contest(*pair) for pair in model.contests_]
    learned = hyperparameters(model._fits, titles, model._rule, target)
    sections.append(titled("hyperparameters", learned))
    if len(importance) > 1:
        parts = of_columns.importance_parts(importance, f"the probabilities of {target}")
        sections.append(titled("importance", tuple(parts)))
    sections.append(of_columns.effects_section(model, explanation.effects, importance, target))
    tell(4, 6, "judging")
    if p is not None:
        sections += [_left_out(codes, p, labels, target), _mistakes(codes, p, labels, target)]
    tell(5, 6, "assessing")
    sections.append(_trust(model, budget))
    sections.append(_whatif(model, labels, target, importance.names[0]))
    sections.append(_again(model, target))
    kind = "Gaussian-process classification"
    subtitle = f"{len(codes):,} rows, {len(labels)} classes, {len(columns.columns)} columns: {kind}"
    return Report(f"{target} from {listed(list(columns.names), 5)}", subtitle, tuple(sections))


def _contest(first: object, second: object) -> str:
    return f"{first} against {'the rest' if second is None else second}"


def _words(model, explanation, codes: np.ndarray, p: np.ndarray | None, target: str) -> Section:
    parts: list[AbstractPart] = []
    if p is not None:
        n, y = len(codes), model.classes_[codes]
        wrong = float(np.mean(p.argmax(1) != codes))
        shares = np.bincount(codes) / n
        bits, most = metrics.information(y, p, y), metrics.information_baseline(y, y)
        often = model.classes_[shares.argmax()]
        facts = (
            (
                "right",
                percent(1 - wrong),
                f"of rows left out; always guessing {often}: {percent(shares.max())}",
            ),
            ("information", f"{bits:.2f} bits", f"on {target}, of {most:.2f} that are missing"),
            ("how sure", percent(float(p.max(1).mean())), "on average, of its answers"),
        )
        parts.append(Facts(facts))
    parts += [Text(line) for line in explanation.opening]
    parts.append(Notes(tuple(finding.sentence for finding in explanation.findings)))
    if explanation.notes:
        parts.append(Notes(tuple(explanation.notes)))
    kernels = model.kernel_ if isinstance(model.kernel_, list) else [model.kernel_]
    parts.append(Code("\n".join(dict.fromkeys(map(str, kernels))), "The kernel, in units of your columns:"))
    return titled("words", tuple(parts))


def _data(model, X: np.ndarray, codes: np.ndarray, labels: tuple[str, ...], target: str) -> Section:
    said = [line.removeprefix("note: ") for line in [*column_lines(model.columns_), *model._note_lines()]]
    said = [line for line in said if not line.startswith("columns: ")]
    counts = np.bincount(codes, minlength=len(labels))
    rows = [
        [label, f"{n:,}", percent(n / len(codes))]
        for label, n in list(zip(labels, counts.tolist(), strict=True))[:MOST_CLASSES]
    ]
    parts: list[AbstractPart] = [Text(f"{len(codes):,} rows were learned from.")]
    if said:
        parts.append(Notes(tuple(dict.fromkeys(said)), warning=True))
    parts.append(Table(f"Classes of {target}", (target, "rows", "share"), rows, (1, 2)))
    return titled("data", (*parts, *of_columns.data_table(model.columns_, X, None, target)))


def _left_out(codes: np.ndarray, p: np.ndarray, labels: tuple[str, ...], target: str) -> Section:
    n, C = p.shape
    answer = p.argmax(1)
    loss = float(-np.mean(np.log(np.maximum(p[np.arange(n), codes], 1e-300))))
    shares = np.bincount(codes, minlength=C) / n
    blind = float(-np.sum(shares * np.log(np.maximum(shares, 1e-300))))
    measures = [
        ["error", percent(float(np.mean(answer != codes))), f"{int(np.sum(answer != codes))} of {n:,} rows"],
        ["log loss", number(loss), f"nats, lower is better; guessing by frequency: {number(blind)}"],
        ["Brier score", number(float(np.mean(np.sum((p - np.eye(C)[codes]) ** 2, 1)))), "0 is best"],
    ]
    parts: list[AbstractPart] = [
        Table("Each row predicted from the others", ("measure", "value", "meaning"), measures, (1,))
    ]
    confusion = np.zeros((C, C), int)
    np.add.at(confusion, (codes, answer), 1)
    figures = [_reliability(codes, p, labels)]
    if C <= MOST_CLASSES:
        share = confusion / np.maximum(confusion.sum(1, keepdims=True), 1)
        axes = [category_axis(f"{target} {what}", labels) for what in ("predicted", "true")]
        axes = [axis._replace(low=-0.5, high=C - 0.5) for axis in axes]
        edges = np.arange(C + 1) - 0.5
        picture = heat_map(
            axes[0], axes[1], (edges, edges), share.T, "share of the true class", "Confusion", confusion.T
        )
        rows = [
            [f"{label} (true)", *map(str, row)] for label, row in zip(labels, confusion.tolist(), strict=True)
        ]
        table = Table("Rows by true and predicted class", ("", *labels), rows, tuple(range(1, C + 1)))
        figures.append(
            Figure(picture, "Which classes are taken for which: the share of each true class.", table)
        )
    parts.append(Figures(tuple(figures)))
    return titled("left-out", tuple(parts))


def _reliability(codes: np.ndarray, p: np.ndarray, labels: tuple[str, ...]) -> Figure:
    """Predicted probabilities against how often they come true."""
    two = p.shape[1] == 2
    sure = p[:, 1] if two else p.max(1)
    true = (codes == 1) if two else (p.argmax(1) == codes)
    order = np.argsort(sure, kind="stable")
    groups = [g for g in np.array_split(order, min(BINS, max(1, len(sure) // 10))) if g.size]
    said, seen = (np.array([v[g].mean() for g in groups]) for v in (sure, true.astype(float)))
    size = np.array([g.size for g in groups])
    half = 1.96 * np.sqrt((seen * (1 - seen) + 1.0 / (4 * size)) / size)
    what = f"probability of {labels[1]}" if two else "probability of the answer"
    plot = Plot(number_axis(what, [0.0, 1.0]), number_axis("share that came true", [0.0, 1.0]))
    plot.diagonal().whiskers(said, np.maximum(seen - half, 0), np.minimum(seen + half, 1))
    plot.dots(said, seen, 1, 4.0, "solid")
    caption = (
        f"Rows left out, in {len(groups)} groups by the predicted {what}: how often it came true. Upright "
        "lines are about two standard errors; on the dashed line probabilities can be taken at their word."
    )
    table = behind("Reliability", {"predicted": said, "came true": seen, "rows": size})
    return Figure(plot.svg("Reliability of predicted probabilities"), caption, table)


def _mistakes(codes: np.ndarray, p: np.ndarray, labels: tuple[str, ...], target: str) -> Section:
    own = p[np.arange(len(codes)), codes]
    wrong = np.flatnonzero(p.argmax(1) != codes)
    wrong = wrong[np.argsort(own[wrong], kind="stable")][:20]
    rows = [
        [str(i), labels[codes[i]], labels[p[i].argmax()], percent(p[i].max()), percent(own[i])] for i in wrong
    ]
    text = (
        "Rows whose own label the others find least probable: looked at first, where labels may be wrong."
        if rows
        else "No row left out is classified wrongly."
    )
    header = ("row", f"{target} true", "predicted", "how sure", "probability of the true one")
    table = [Table("The surest mistakes first", header, rows, (3, 4))] if rows else []
    return Section("outliers", "Surest mistakes", (Text(text), *table))


def _trust(model: GPClassifier, budget: float | str) -> Section:
    posterior = model._fits[0].posterior
    parts: list[AbstractPart] = [Text(approximation(posterior))]
    if len(model._fits) > 1:
        parts.append(
            Text(f"It is made of {len(model._fits)} problems of two classes; this is the first of them.")
        )
    parts.append(algebra(posterior))
    if model.inference == LABEL_REGRESSION:
        parts.append(Text("Labels are regressed on as the numbers -1 and 1: quick, but rough probabilities."))
    elif not posterior.averages and len(model._fits) == 1:
        parts += assessed(model, budget)
    parts += _certificate(model)
    return titled("trust", tuple(parts))


def _certificate(model: GPClassifier) -> list[AbstractPart]:
    """The PAC-Bayes bound, where it takes little."""
    inputs, codes = model._data
    columns = model.columns_
    plain = columns is not None and columns.plain and inputs.values.dtype != object
    if len(model.classes_) != 2 or len(codes) > MOST_CERTIFIED or not plain or not model.learn:
        return []
    X = inputs.values
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = model.certificate(X, model.classes_[codes.astype(int)])
    except (ValueError, ArithmeticError, np.linalg.LinAlgError):
        return []
    return [
        Heading("A bound that holds whatever the data are like"),
        *(Text(x) for x in str(found).splitlines()),
    ]


def _whatif(model: GPClassifier, labels: tuple[str, ...], target: str, leading: str) -> Section:
    if len(model._fits) > 1:
        return no_panel(f"the model is made of {len(model._fits)} problems of two classes")
    if model.inference == LABEL_REGRESSION:
        return no_panel("probabilities of label regression are not known to the script of this page")
    return whatif_section(model.columns_, [Live(target, model._fits[0].posterior, labels)], leading)


def _again(model: GPClassifier, target: str) -> Section:
    columns = model.columns_
    assert columns is not None
    inputs, codes = model._data
    X = f"df[{names_of(columns.names)}]" if columns.named else "X"
    of_y = f"df[{target!r}]" if model.target_name_ else "y"
    code = ["import mercer", *(["import pandas as pd", "", 'df = pd.read_csv("data.csv")'] * columns.named)]
    code += [f"model = {constructor(model)}", f"model.fit({X}, {of_y})", 'model.save("model.mercer")']
    command = fit_command(model, columns, " --classify")
    return again("\n".join(code), command, data_hash(inputs.values, codes), model.random_state)
