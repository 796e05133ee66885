"""The reports of mixtures and hidden Markov models. They do not keep their training data: what is shown of
rows is of those that are handed in.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from mercer.estimators.hidden.shared import names_of
from mercer.estimators.hidden.words import LEAST, emissions
from mercer.estimators.reports.shared import again, behind, constructor, number, percent, titled
from mercer.inputs import is_table, named_columns
from mercer.report import AbstractPart, Code, Facts, Figure, Figures, Report, Section, Table, Text
from mercer.report.charts import Plot, bar_chart, number_axis

MOST_DOTS = 800
MOST_STEPS = 600
WITHOUT = (
    "A {what} does not keep the rows it was learned from: give them, report(path, X=X) or --data, and they "
    "are shown here."
)


def mixture_told(model: Any, X: Any) -> Report:
    """The report of a Gaussian mixture."""
    check_is_fitted(model)
    weights, means = np.asarray(model.weights_), np.asarray(model.means_)
    matrices = np.asarray(model.model_.gaussians.matrices())
    given, X = _table(X)
    names = names_of(model) or given or [f"x{j}" for j in range(means.shape[1])]
    used = np.flatnonzero(weights >= LEAST)
    used = used[np.argsort(-weights[used], kind="stable")]
    rows = None if X is None else model._rows(X)
    sections = [
        _words(model, len(used), "components"),
        _components(weights, means, matrices, names, used),
        _where(weights, means, matrices, names, used, rows, model),
        _climb(model),
    ]
    if rows is not None:
        sections.insert(3, _rows(model, rows, used))
    sections.append(_again(model, "X"))
    return Report(
        f"{len(used)} clusters of {', '.join(names[:5])}",
        f"{type(model).__name__} with {len(weights)} components of {means.shape[1]} columns",
        tuple(sections),
    )


def hmm_told(model: Any, X: Any) -> Report:
    """The report of a hidden Markov model."""
    check_is_fitted(model)
    _, X = _table(X)
    many = model.n_states_
    sections = [_words(model, many, "states"), _transitions(model)]
    if X is None:
        sections.append(Section("rows", "The sequence", (Text(WITHOUT.format(what="hidden Markov model")),)))
    else:
        sections.append(_sequence(model, X))
    sections += [_climb(model), _again(model, "X")]
    return Report(f"{many} hidden states", f"{type(model).__name__}: a hidden Markov model", tuple(sections))


def _table(X: Any) -> tuple[list[str] | None, Any]:
    """Names of the columns and their numbers, where a table is given; else X as it is."""
    if not is_table(X):
        return None, X
    columns = named_columns(X)
    return list(columns), np.column_stack([np.asarray(column, float) for column in columns.values()])


def _words(model: Any, many: int, what: str) -> Section:
    bound = vars(model).get("lower_bound_")
    value = ("lower bound", bound) if bound is not None else ("log-likelihood", model.log_likelihood_)
    facts = [
        (what, str(many), "spoken of" if what == "components" else "hidden"),
        (value[0], number(float(value[1]), 6), "nats"),
        ("EM", "converged" if model.converged_ else "not converged", f"after {model.n_iter_} steps"),
    ]
    head, _, _ = model.summary().partition("\n\n")
    lines: list[AbstractPart] = [Text(line[:1].upper() + line[1:] + ".") for line in head.splitlines()]
    parts: list[AbstractPart] = [Facts(tuple(facts)), *lines]
    chosen = vars(model).get("selection_") or {}
    if len(chosen) > 1:
        rows = [[str(k), number(v, 6)] for k, v in sorted(chosen.items())]
        parts.append(Table(f"{what.capitalize()} that were tried", (what, "criterion"), rows, (1,)))
    return titled("words", tuple(parts))


def _components(weights, means, matrices, names: list[str], used: np.ndarray) -> Section:
    std = np.sqrt(np.diagonal(matrices, axis1=1, axis2=2))
    rows = [
        [
            f"{j}",
            percent(weights[j]),
            *(f"{number(m)} ± {number(s, 2)}" for m, s in zip(means[j], std[j], strict=True)),
        ]
        for j in used
    ]
    wide, narrow = (
        bar_chart([f"component {j}" for j in used], weights[used], "share of the rows", None, "Sizes", width)
        for width in (620, 360)
    )
    header = ("component", "share", *names)
    table = Table("Mean ± standard deviation of each column", header, rows, tuple(range(1, len(header))))
    return Section("components", "The clusters", (Figure(narrow, "How large each is.", wide=wide), table))


def _where(weights, means, matrices, names, used, rows: np.ndarray | None, model: Any) -> Section:
    """Pairs of columns with the ellipses of components; of one column the densities."""
    d = means.shape[1]
    spread = np.sqrt(np.diagonal(matrices, axis1=1, axis2=2))
    if d == 1:
        low, high = (means[used, 0] - 3 * spread[used, 0]).min(), (means[used, 0] + 3 * spread[used, 0]).max()
        at = np.linspace(low, high, 161)
        each = [
            weights[j]
            * np.exp(-0.5 * ((at - means[j, 0]) / spread[j, 0]) ** 2)
            / (spread[j, 0] * np.sqrt(2 * np.pi))
            for j in used
        ]
        plot = Plot(number_axis(names[0], at, room=0.0), number_axis("density", sum(each), zero=True))
        plot.line(at, sum(each), 7)
        for i, curve in enumerate(each):
            plot.line(at, curve, 1 + i % 6)
        return titled("where", (Figure(plot.svg("Density"), "The density, and its components."),))
    between = means[used].std(0) / np.maximum(spread[used].mean(0), 1e-300)  # columns that tell them apart
    order = np.argsort(-between, kind="stable")[: min(d, 4)]
    pairs = [(int(order[a]), int(order[b])) for a in range(len(order)) for b in range(a + 1, len(order))][:6]
    labels = None if rows is None else model.predict(rows)
    shown = None if rows is None else np.random.default_rng(0).permutation(len(rows))[:MOST_DOTS]
    figures = []
    for a, b in pairs:
        ends = [means[used][:, [c]] + s * 2.3 * spread[used][:, [c]] for c in (a, b) for s in (-1, 1)]
        data = [] if rows is None or shown is None else [rows[shown, a], rows[shown, b]]
        x = number_axis(names[a], ends[0], ends[1], *data[:1])
        y = number_axis(names[b], ends[2], ends[3], *data[1:])
        plot = Plot(x, y, 380, 300)
        for i, j in enumerate(used):
            colour = 1 + i % 8
            if rows is not None and shown is not None and labels is not None:
                own = shown[labels[shown] == j]
                plot.dots(rows[own, a], rows[own, b], colour, 2.2)
            plot.ellipse(means[j][[a, b]], matrices[j][np.ix_([a, b], [a, b])], colour)
        legend = tuple((1 + i % 8, f"component {j}") for i, j in enumerate(used[:8]))
        caption = f"{names[b]} against {names[a]}: ellipses two standard deviations from each centre."
        if rows is not None and shown is not None and len(shown) < len(rows):
            caption += f" {len(shown)} of {len(rows):,} rows, chosen at random."
        figures.append(Figure(plot.svg(f"{names[b]} against {names[a]}"), caption, legend=legend))
    parts: list[AbstractPart] = [Figures(tuple(figures))]
    if rows is None:
        parts.append(Text(WITHOUT.format(what="mixture")))
    return titled("where", tuple(parts))


def _rows(model: Any, rows: np.ndarray, used: np.ndarray) -> Section:
    """How sure it is of each row."""
    p = model.predict_proba(rows)
    best = p.max(1)
    counts = [
        [str(j), f"{int((p.argmax(1) == j).sum()):,}", percent(float(best[p.argmax(1) == j].mean()))]
        for j in used
        if (p.argmax(1) == j).any()
    ]
    edges = np.linspace(0, 1, 21)
    heights, _ = np.histogram(best, edges)
    plot = Plot(
        number_axis("probability of the likeliest component", [0, 1]), number_axis("rows", heights, zero=True)
    )
    plot.bars(edges[:-1], edges[1:], heights)
    density = model.score_samples(rows)
    low = np.argsort(density, kind="stable")[:12]
    odd = [[str(i), number(float(density[i]))] for i in low]
    return Section(
        "rows",
        "The rows",
        (
            Table("Rows by component", ("component", "rows", "how sure, on average"), counts, (1, 2)),
            Figure(plot.svg("How sure"), "How sure it is of the component of each row."),
            Table("The least probable rows", ("row", "log density"), odd, (1,)),
        ),
    )


def _transitions(model: Any) -> Section:
    """What follows what, and what is seen in each state."""
    A, first = np.asarray(model.transition_), np.asarray(model.initial_)
    many = len(A)
    lasts = ["for ever" if a >= 1 else number(1 / (1 - a), 3) for a in np.diag(A)]
    rows = [[f"state {i}", percent(first[i]), lasts[i], *(percent(a) for a in A[i])] for i in range(many)]
    header = ("state", "at first", "lasts (steps)", *(f"to {j}" for j in range(many)))
    names, seen = emissions(model)
    wide, narrow = (
        bar_chart(
            [f"state {i}" for i in range(many)],
            np.asarray(model.stationary_distribution()),
            "share of the time, in the long run",
            None,
            "How often each state is taken",
            width,
        )
        for width in (620, 360)
    )
    return Section(
        "states",
        "The states",
        (
            Figure(narrow, "How much of the time is spent in each state.", wide=wide),
            Table("What follows what", header, rows, tuple(range(1, len(header)))),
            Table(
                "What is seen in each",
                ("state", *names),
                [[f"state {i}", *row] for i, row in enumerate(seen)],
                tuple(range(1, 1 + len(names))),
            ),
        ),
    )


def _sequence(model: Any, X: Any) -> Section:
    """The states along a sequence: of several, the first."""
    rows = model._read(X)
    path = model.predict(X)
    path = np.asarray(path[0] if isinstance(path, list) else path)
    p = model.predict_proba(X)
    p = np.asarray(p[0] if isinstance(p, list) else p)
    values = np.asarray(rows[0], float).reshape(len(path), -1)
    n = min(len(path), MOST_STEPS)
    at = np.arange(n)
    changes = np.flatnonzero(np.diff(path[:n])) + 1
    starts, ends = np.append(0, changes), np.append(changes, n)
    charts = []
    for width, height in ((380, 250), (960, 320)):
        plot = Plot(number_axis("step", at, room=0.01), number_axis("observed", values[:n, 0]), width, height)
        for state in range(model.n_states_):
            own = path[starts] == state
            plot.spans(starts[own] - 0.5, ends[own] - 0.5, 1 + state % 8)
        plot.dots(at, values[:n, 0], 7, 1.8)
        charts.append(plot.svg("The sequence and its states"))
    said = "" if n == len(path) else f" The first {n} of {len(path):,} steps are shown."
    legend = tuple((1 + i % 8, f"state {i}") for i in range(min(model.n_states_, 8)))
    counts = np.bincount(path, minlength=model.n_states_)
    sure = [percent(float(p[path == i, i].mean())) if counts[i] else "" for i in range(model.n_states_)]
    rows_ = [[f"state {i}", f"{counts[i]:,}", sure[i]] for i in range(model.n_states_)]
    return Section(
        "rows",
        "The sequence",
        (
            Figure(
                charts[0],
                f"What was observed, and the likeliest state at each step.{said}",
                behind("Sequence", {"step": at, "observed": values[:n, 0], "state": path[:n]}),
                charts[1],
                legend,
            ),
            Table("Steps by state", ("state", "steps", "how sure, on average"), rows_, (1, 2)),
        ),
    )


def _climb(model: Any) -> Section:
    history = np.asarray(model.history_, float)
    plot = Plot(number_axis("step", np.arange(len(history))), number_axis("objective", history))
    plot.line(np.arange(len(history)), history)
    text = (
        "converged" if model.converged_ else "did NOT converge: raise max_evaluations, or take more restarts"
    )
    return titled(
        "trust",
        (
            Text(f"EM {text}. It climbs to the nearest peak: other starts (restarts) may find a higher one."),
            Figure(
                plot.svg("Objective along the steps of EM"),
                "The objective along the steps of EM.",
                behind("Objective", {"step": np.arange(len(history)), "objective": history}),
            ),
        ),
    )


def _again(model: Any, X: str) -> Section:
    code = f'import mercer\n\nmodel = {constructor(model)}\nmodel.fit({X})\nmodel.save("model.mercer")'
    section = again(code, None, None, model.random_state)
    return Section(
        section.id, section.title, (*section.parts, Code(model.summary(), "All that was learned:"))
    )
