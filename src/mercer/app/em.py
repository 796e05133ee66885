"""`mercer cluster` and `mercer hmm`: groups of rows, and hidden states of sequences."""

from __future__ import annotations

import enum
from pathlib import Path
from typing import Annotated, Any

import typer

from mercer.app.command import command
from mercer.app.console import found, say, show_table, warnings_as_notes, wrote
from mercer.app.options import Features, Out, Plot, Restarts, Save, Seed, Table
from mercer.app.paths import check_inputs, check_outputs, named, save_figure


class Covariance(enum.StrEnum):
    """The choices of --covariance."""

    FULL = "full"
    DIAGONAL = "diagonal"
    SPHERICAL = "spherical"
    TIED = "tied"


class Emission(enum.StrEnum):
    """The choices of --emission."""

    GAUSSIAN = "gaussian"
    STUDENT_T = "student-t"
    POISSON = "poisson"


Shape = Annotated[Covariance, typer.Option(help="Shape of the Gaussians.")]


def register(app: typer.Typer) -> None:
    """Add both commands."""
    app.command()(cluster)
    app.command()(hmm)


@command
def cluster(
    data: Table,
    k: Annotated[
        str, typer.Option("-k", "--clusters", help="How many groups, or 1-8 to choose by BIC.")
    ] = "1-8",
    features: Features = None,
    covariance: Shape = Covariance.FULL,
    out: Out = None,
    plot: Plot = None,
    save: Save = None,
    restarts: Restarts = 4,
    seed: Seed = 0,
) -> None:
    """Find groups of rows by a mixture of Gaussians.

    Empty cells are missing values and no obstacle. --out adds the columns cluster and the probability of each
    cluster.

    Example: mercer cluster faithful.csv -k 2 --out groups.csv --plot groups.png
    """
    check_inputs([], [data])
    check_outputs([save], [data], tables=[out], pictures=[plot])
    import mercer
    from mercer.app.tables import read_table, write_table

    table = read_table(data)
    names, X = chosen_numbers(table, features, named(data), ())
    with warnings_as_notes():
        model = mercer.GaussianMixture(
            _several(k), covariance.value, restarts=restarts, random_state=seed
        ).fit(X)
    _show_choice(model, "components")
    _show_means("Clusters", ("cluster", "share"), model.weights_, model.means_, names)
    say(f"log-likelihood {model.log_likelihood_:.3f} after {model.n_iter_} iterations")
    assigned = model.predict(X)
    found(
        components=model.n_components_,
        features=names,
        shares=model.weights_,
        means=model.means_,
        covariances=model.covariances_,
        log_likelihood=model.log_likelihood_,
        bic=model.selection_,
        cluster=assigned,
    )
    _keep(model, save)
    if out is not None:
        write_table(out, _added(table, "cluster", assigned, model.predict_proba(X), named(data)))
        wrote("table", out)
    if plot is not None:
        from mercer import viz

        save_figure(viz.ellipses(model, X, names=names).figure, plot, dpi=150)
        wrote("picture", plot, "drawn in")


@command
def hmm(
    data: Table,
    states: Annotated[str, typer.Option(help="How many hidden states, or 1-5 to choose by BIC.")] = "2",
    group: Annotated[
        str | None, typer.Option(help="Column whose equal values mark the rows of one sequence.")
    ] = None,
    features: Features = None,
    emission: Annotated[
        Emission, typer.Option(help="What states emit: gaussian, student-t (outliers), poisson (counts).")
    ] = Emission.GAUSSIAN,
    covariance: Shape = Covariance.FULL,
    left_right: Annotated[
        bool, typer.Option("--left-right", help="States are gone through in order.")
    ] = False,
    out: Out = None,
    plot: Plot = None,
    save: Save = None,
    restarts: Restarts = 4,
    seed: Seed = 0,
) -> None:
    """Find hidden states of sequences, the rows of a table.

    Empty cells are missing values. --out adds the columns state (of the most probable path) and the
    probability of each state.

    Example: mercer hmm nile.csv --features Nile --states 2 --plot states.png
    """
    check_inputs([], [data])
    check_outputs([save], [data], tables=[out], pictures=[plot])
    import mercer
    from mercer.app.tables import read_table, write_table

    table = read_table(data)
    names, X = chosen_numbers(table, features, named(data), () if group is None else (group,))
    places = _groups(table, group, named(data), len(X))
    topology = "left-right" if left_right else "full"
    with warnings_as_notes():
        model = mercer.HMM(
            _several(states),
            emission.value,
            covariance_type=covariance.value,
            topology=topology,
            restarts=restarts,
            random_state=seed,
        )
        model.fit([X[rows] for rows in places])
    _show_choice(model, "states")
    _show_means("States", ("state", "at first"), model.initial_, model.means_, names)
    lines = [(str(i), *(f"{a:.4f}" for a in row)) for i, row in enumerate(model.transition_)]
    show_table(
        "Transitions",
        ("from", *(f"to {i}" for i in range(len(lines)))),
        lines,
        right=tuple(range(1, 1 + len(lines))),
    )
    sequences = f"{len(places)} sequence{'s' if len(places) != 1 else ''}"
    say(f"{sequences}, log-likelihood {model.log_likelihood_:.3f}")
    import numpy as np

    path = np.empty(len(X), int)
    for rows in places:
        path[rows] = model.predict(X[rows])
    found(
        states=model.n_states_,
        features=names,
        sequences=len(places),
        initial=model.initial_,
        transition=model.transition_,
        means=model.means_,
        log_likelihood=model.log_likelihood_,
        bic=model.selection_,
        state=path,
    )
    _keep(model, save)
    if out is not None:
        probability = np.empty((len(X), len(model.initial_)))
        for rows in places:
            probability[rows] = model.predict_proba(X[rows])
        write_table(out, _added(table, "state", path, probability, named(data)))
        wrote("table", out)
    if plot is not None:
        from mercer import viz

        save_figure(viz.state_path(model, X[places[0]], ylabel=names[0]).figure, plot, dpi=150)
        wrote("picture", plot, f"(of the first of {sequences}) drawn in" if len(places) > 1 else "drawn in")


def _show_choice(model: Any, of: str) -> None:
    """The criterion of each number of components or states, where it had to choose."""
    if model.selection_:
        rows = [(str(n), f"{b:.1f}") for n, b in model.selection_.items()]
        show_table("Bayesian information criterion", (of, "BIC"), rows)


def _show_means(title: str, head: tuple[str, str], shares: Any, means: Any, names: list[str]) -> None:
    """A row for each component or state: its number, its share and its mean."""
    rows = [
        (str(i), f"{share:.3f}", *(f"{value:.4g}" for value in mean))
        for i, (share, mean) in enumerate(zip(shares, means, strict=True))
    ]
    show_table(
        title, (*head, *(f"mean {name}" for name in names)), rows, right=tuple(range(1, 2 + len(names)))
    )


def chosen_numbers(
    table: dict, columns: str | None, source: str, but: tuple[str, ...]
) -> tuple[list[str], Any]:
    """Names and values (n, d) of the columns to use; NaN where a cell is empty."""
    import numpy as np

    from mercer.app.tables import TableError, check_column

    if columns is None:
        names = [name for name, column in table.items() if column.dtype.kind == "f" and name not in but]
    else:
        names = [name.strip() for name in columns.split(",")]
    for name in names:
        check_column(table, name, source)
        if table[name].dtype.kind != "f":
            raise TableError(f"{source}: column {name!r} is not numeric.")
    if not names:
        raise TableError(f"{source} has no numeric columns.")
    return names, np.column_stack([table[name] for name in names])


def _groups(table: dict, group: str | None, source: str, n: int) -> list[Any]:
    """Positions of the rows of each sequence, in the order in which they come first."""
    import numpy as np

    from mercer.app.tables import check_column

    if group is None:
        return [np.arange(n)]
    check_column(table, group, source)
    labels = [str(value) for value in table[group]]
    return [np.flatnonzero([label == first for label in labels]) for first in dict.fromkeys(labels)]


def _several(text: str) -> Any:
    """3, or 1-8 as a list."""
    low, _, high = text.partition("-")
    try:
        return list(range(int(low), int(high) + 1)) if high else int(low)
    except ValueError:
        raise ValueError(f"a number such as 3, or a range such as 1-8, is needed; got {text!r}.") from None


def _keep(model: Any, save: Path | None) -> None:
    if save is not None:
        model.save(save)
        wrote("model", save, "saved in")


def _added(table: dict, what: str, found: Any, probability: Any, source: str) -> dict:
    """The table with the component or state of each row, and the probability of each."""
    from mercer.app.tables import TableError

    columns = {what: found} | {f"p_{i}": p for i, p in enumerate(probability.T)}
    if taken := sorted(set(columns) & set(table)):
        raise TableError(f"{source} already has the columns {', '.join(taken)}: rename them.")
    return {**table, **columns}
