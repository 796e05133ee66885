"""`mercer compare`: kernels, noise models, saved models on one table, by evidence and what they predict."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mercer.app.command import command
from mercer.app.console import found, note, say, show_table, warnings_as_notes, wrote
from mercer.app.options import Features, Out, Restarts, Seed, Table
from mercer.app.paths import check_inputs, check_outputs, named

if TYPE_CHECKING:
    import numpy as np

BY_DEFAULT = ("default", "SE()")  # kernels that are compared where none are named


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(compare)


@command
def compare(
    data: Table,
    target: Annotated[str, typer.Option(help="Column to predict. Rows where it is empty are left out.")],
    kernel: Annotated[
        list[str] | None,
        typer.Option(
            help='A covariance function, such as "Matern(nu=0.5)", default or auto; give several.',
            show_default="default and SE()",
        ),
    ] = None,
    likelihood: Annotated[
        list[str] | None,
        typer.Option(
            help="A noise model, such as student-t; give several. Every kernel is tried with every one.",
            show_default="gaussian",
        ),
    ] = None,
    model: Annotated[
        list[Path] | None,
        typer.Option(help="A saved model; give several. They are judged by the rows of the table."),
    ] = None,
    features: Features = None,
    classify: Annotated[
        bool, typer.Option("--classify", help="The target holds classes, though it is numeric.")
    ] = False,
    folds: Annotated[
        int | None,
        typer.Option(
            min=2,
            help="Judge by rows held out of learning, in so many parts in turn.",
            show_default="each row left out, at what all have learned",
        ),
    ] = None,
    restarts: Restarts = 0,
    seed: Seed = 0,
    out: Out = None,
) -> None:
    """Compare kernels, noise models or saved models on a table.

    By the log evidence, and by the negative log density (NLPD) of rows that a model has not learned from:
    its difference to the best, row by row, has a standard error that says whether the data decide. Saved
    models are judged by rows that they have not seen, or, on their own data, by leaving out each.

    Example: mercer compare houses.csv --target price --kernel "SE()" --kernel "Matern(nu=0.5)" --folds 5
    """
    check_inputs(model or [], [data])
    check_outputs([], [data, *(model or [])], tables=[out])
    if model and (kernel or likelihood or folds):
        raise ValueError("--model compares saved models: leave out --kernel, --likelihood and --folds.")
    with warnings_as_notes():
        if model:
            judged, how = _saved(data, target, model)
        else:
            settings = {"features": features, "classify": classify, "restarts": restarts, "seed": seed}
            judged, how = _learned(data, target, kernel or [*BY_DEFAULT], likelihood or [], folds, settings)
    judged.sort(key=lambda j: -j.log_density.mean())
    rows = [_compared(j, judged[0]) for j in judged]
    found(target=target, judged_by=how, models=rows, best=rows[0]["model"], undecided=_close(rows))
    error = "error rate" if judged[0].classes else "RMSE"
    show_table(
        f"{target}: {how}, the best first",
        ("model", "log evidence", "learned", "NLPD", "worse by", error),
        [_line(row) for row in rows],
        right=range(1, 6),
    )
    say(_verdict(rows))
    if out is not None:
        from mercer.app.tables import write_table

        write_table(out, {name: [row[name] for row in rows] for name in rows[0]})
        wrote("table", out)


@dataclasses.dataclass(frozen=True)
class Judged:
    """A model, and how it predicts rows that it has not learned from: the log density (n,) of each, and the
    error of all. `learned` counts its free hyperparameters.
    """

    name: str
    log_evidence: float
    learned: int
    log_density: np.ndarray
    error: float
    classes: bool


def _learned(
    data: Path,
    target: str,
    kernels: list[str],
    likelihoods: list[str],
    folds: int | None,
    settings: dict[str, Any],
) -> tuple[list[Judged], str]:
    """Every kernel with every likelihood, learned from the table; and how they are judged."""
    import numpy as np

    from mercer.app import work
    from mercer.posteriors.loo import folds as parts_of
    from mercer.progress import shown, tell

    classify, seed = settings["classify"], settings["seed"]
    pairs = [(k, l) for k in dict.fromkeys(kernels) for l in dict.fromkeys(likelihoods or ["gaussian"])]
    read = {}
    for k in dict.fromkeys(kernels):
        given = None if k == "default" else k
        X, y, _, notes, _ = work.training_data(data, target, settings["features"], classify, given)
        read[k] = given, X, y
        for line in notes:
            note(line)
    judged = []
    with shown("comparing"):
        for i, (k, l) in enumerate(pairs):
            tell(i, len(pairs), "models")
            given, X, y = read[k]

            def fitted(rows: Any, given: Any = given, X: Any = X, y: Any = y, l: str = l) -> Any:
                some = {name: column[rows] for name, column in X.items()}
                what: dict[str, str | None] = {} if l == "gaussian" else {"likelihood": l}
                return work.fit_model(
                    some, y[rows], given, settings["restarts"], None, seed, classify, what=what
                )

            model = fitted(slice(None))
            name = k if len(set(likelihoods)) < 2 and l == "gaussian" else f"{k}, {l}"
            if folds is None:
                judged.append(_by_leaving_out(name, model, y))
                continue
            density, mean = np.empty(len(y)), np.empty(len(y), y.dtype)
            for rows in parts_of(len(y), folds, seed):
                others = np.setdiff1d(np.arange(len(y)), rows)
                new = {column: values[rows] for column, values in X.items()}
                density[rows], mean[rows] = _asked(fitted(others), new, y[rows])
            judged.append(_judged(name, model, density, mean, y))
    how = "each row left out" if folds is None else f"rows held out in {folds} parts"
    return judged, how


def _saved(data: Path, target: str, paths: list[Path]) -> tuple[list[Judged], str]:
    """Saved models: all by rows that they have not seen, or all by leaving out each of their own."""
    import numpy as np

    import mercer as mc
    from mercer.app.features import new_columns
    from mercer.app.tables import drop_missing, numeric, read_table

    table, rows = drop_missing(read_table(data), target, named(data))
    models = [(path, mc.load(path)) for path in dict.fromkeys(paths)]
    for path, model in models:
        if not isinstance(model, mc.GPRegressor | mc.GPClassifier):
            raise ValueError(
                f"{path} holds a {type(model).__name__}: regressors and classifiers are compared."
            )
    if len({isinstance(model, mc.GPClassifier) for _, model in models}) > 1:
        raise ValueError("models of numbers and of classes cannot be compared with each other.")
    classes = isinstance(models[0][1], mc.GPClassifier)
    text = table[target].dtype.kind not in "fiub"
    y = table[target] if classes and text else numeric(table, [target], named(data), rows)[target]
    if classes:
        kind = models[0][1].classes_.dtype.kind
        y = np.array([str(label) for label in y], object) if kind in "OU" else y.astype(int)
    inputs = [new_columns(model.columns_, table, named(data)) for _, model in models]
    seen = [_seen(model, X, y) for (_, model), X in zip(models, inputs, strict=True)]
    if all(own for own, _ in seen):
        return [_by_leaving_out(str(path), model, y) for path, model in models], "each row left out"
    judged = []
    for (path, model), X, (_, many) in zip(models, inputs, seen, strict=True):
        if many:
            note(
                f"{path} has learned from {many} of these {len(y)} rows, or others at their inputs, which "
                "flatters it: take rows that none has seen"
            )
        judged.append(_judged(str(path), model, *_asked(model, X, y), y))
    return judged, f"{len(y)} rows of {named(data)}"


def _seen(model: Any, X: Any, y: np.ndarray) -> tuple[bool, int]:
    """Whether these are the rows that a model has learned from, in their order; and how many of them have
    inputs that it has learned from.
    """
    import numpy as np

    import mercer as mc

    values = np.asarray(model.columns_.encode(X).inputs.values)
    inputs, known = model._training[0].values, np.ravel(model._training[1])
    if isinstance(model, mc.GPRegressor):
        inputs, known = model._each_row(inputs), model._each_row(known)
        same = len(known) == len(y) and np.allclose(known, y, rtol=1e-12)
    else:  # its labels, one number for each
        same = len(known) == len(y) and len({*zip(known.tolist(), y.tolist(), strict=True)}) == len({*known})
    rows, learned = (list(map(tuple, a.reshape(len(a), -1).tolist())) for a in (values, np.asarray(inputs)))
    distinct = {*learned}
    return bool(same and rows == learned), sum(row in distinct for row in rows)


def _by_leaving_out(name: str, model: Any, y: np.ndarray) -> Judged:
    import numpy as np

    import mercer as mc

    loo = model.loo()
    if isinstance(model, mc.GPClassifier):
        return _judged(name, model, *_of_classes(model, np.asarray(loo.probability), y), y)
    return _judged(name, model, np.asarray(loo.log_density), np.asarray(loo.mean), y)


def _asked(model: Any, X: Any, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Log density (m,) of targets at new rows, and what was predicted (m,)."""
    import mercer as mc

    if isinstance(model, mc.GPClassifier):
        return _of_classes(model, model.predict_proba(X), y)
    return model.log_density(X, y), model.predict(X)


def _of_classes(model: Any, p: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The same of probabilities (m, C); a class that was not seen in training has none."""
    import numpy as np

    places = {label: c for c, label in enumerate(model.classes_.tolist())}
    given = np.array([p[i, places[label]] if label in places else 0.0 for i, label in enumerate(y.tolist())])
    with np.errstate(divide="ignore"):
        return np.log(given), model.classes_[p.argmax(1)]


def _judged(name: str, model: Any, density: np.ndarray, predicted: np.ndarray, y: np.ndarray) -> Judged:
    import numpy as np

    import mercer as mc
    from mercer.params import parameters

    classes = isinstance(model, mc.GPClassifier)
    error = np.mean(predicted != y) if classes else mc.metrics.rmse(y, predicted)
    learned = tuple(model.model_) if isinstance(model.model_, list) else model.model_
    free = sum(int(np.size(p.value)) for p in parameters(learned) if p.free)
    return Judged(name, float(model.log_marginal_likelihood_), free, density, float(error), classes)


def _compared(one: Judged, best: Judged) -> dict[str, Any]:
    """A row of the table: how much worse than the best in nats a row, and the standard error of that."""
    import numpy as np

    lost = best.log_density - one.log_density
    spread = (
        np.std(lost, ddof=1) / np.sqrt(len(lost)) if np.isfinite(lost).all() and len(lost) > 1 else np.nan
    )
    return {
        "model": one.name,
        "log_evidence": one.log_evidence,
        "learned": one.learned,
        "nlpd": -float(np.mean(one.log_density)),
        "worse_by": float(np.mean(lost)) if one is not best else 0.0,
        "standard_error": float(spread) if one is not best else 0.0,
        "error": one.error,
    }


def _line(row: dict[str, Any]) -> tuple[str, ...]:
    worse = f"{row['worse_by']:.3f} ± {row['standard_error']:.3f}" if row["standard_error"] else ""
    return (
        row["model"],
        f"{row['log_evidence']:.2f}",
        str(row["learned"]),
        f"{row['nlpd']:.4g}",
        worse,
        f"{row['error']:.4g}",
    )


def _close(rows: list[dict[str, Any]]) -> list[str]:
    """Those that are not worse than the best by two standard errors."""
    return [row["model"] for row in rows[1:] if not row["worse_by"] >= 2 * row["standard_error"]]


def _verdict(rows: list[dict[str, Any]]) -> str:
    best = f"{rows[0]['model']} predicts best"
    evident = max(rows, key=lambda row: row["log_evidence"])["model"]
    if len(rows) == 1:
        return f"only {rows[0]['model']} was given: name others to compare it with."
    if close := _close(rows):
        best += (
            f", but the data do not decide between it and {', '.join(close)} (less than two standard errors)"
        )
    if evident != rows[0]["model"]:
        best += f"; {evident} has the highest evidence"
    return f"{best}."
