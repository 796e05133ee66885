"""Fitted and saved models in tables for people, and in facts for machines."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

import mercer as mc
from mercer.columns import Columns
from mercer.estimators import GPClassifier, GPRegressor
from mercer.likelihoods import AbstractNoise
from mercer.params import listed, parameters
from mercer.persist import file

Rows = list[tuple[str, ...]]
Table = tuple[str, tuple[str, ...], Rows]
Estimator = GPRegressor | GPClassifier


def describe(path: Path) -> tuple[list[Table], dict[str, Any]]:
    """Tables (title, columns, rows) on a saved model, and its facts."""
    model = mc.load(path)
    manifest, _ = file.read(path)
    versions = ("versions", ", ".join(f"{name} {version}" for name, version in manifest["versions"].items()))
    if not isinstance(model, GPRegressor | GPClassifier | mc.GPTimeSeries):
        settings: Rows = [
            (name, repr(value)) for name, value in model.get_params().items() if value is not None
        ]
        learned = _learned_by_em(model)
        found: Rows = [("estimator", manifest["class"]), *learned, versions]
        tables: list[Table] = [
            (str(path), ("what", "value"), found), ("Settings", ("name", "value"), settings)
        ]  # fmt: skip
        said = {row[0]: row[1] for row in learned}
        return tables, {"estimator": manifest["class"], **said, "versions": manifest["versions"]}
    kernels = model.kernel_ if isinstance(model.kernel_, list) else [model.kernel_]
    n, d = model._training[0].values.shape
    names = list(getattr(model, "feature_names_in_", [f"{d} without names"]))
    lines: Rows = [
        ("estimator", manifest["class"]),
        *(_columns_said(model.columns_) or [("columns", ", ".join(map(str, names)))]),
        ("data", f"{n} rows, {len(names)} column{'s' if len(names) > 1 else ''}"),
        *([("classes", ", ".join(map(str, model.classes_)))] if isinstance(model, GPClassifier) else []),
        *[("kernel", str(kernel)) for kernel in kernels],
        *([] if isinstance(model, GPClassifier) else [("noise", model.model_.likelihood.words())]),
        ("log evidence", f"{model.log_marginal_likelihood_:.4f}"),
        versions,
    ]
    values = listed(tuple(model.model_) if isinstance(model.model_, list) else model.model_)
    tables = [(str(path), ("what", "value"), lines)]
    tables.append(("Hyperparameters", ("name", "value", "status"), [tuple(row) for row in values]))
    if not isinstance(model, mc.GPTimeSeries):
        tables += importance_tables(model, permutation=False, draws=0)
    tables += robust_tables(model)
    return tables, facts(model) | {"versions": manifest["versions"]}


def facts(model: Any) -> dict[str, Any]:
    """What a fitted regressor, classifier or time series is, for machines."""
    n, d = model._training[0].values.shape
    kernels = model.kernel_ if isinstance(model.kernel_, list) else [model.kernel_]
    learned = tuple(model.model_) if isinstance(model.model_, list) else model.model_
    out = {
        "estimator": type(model).__name__,
        "rows": n,
        "features": list(getattr(model, "feature_names_in_", range(d))),
        "kernel": str(kernels[0]) if len(kernels) == 1 else [str(kernel) for kernel in kernels],
        "log_evidence": model.log_marginal_likelihood_,
        "hyperparameters": {p.name: np.asarray(p.value) for p in parameters(learned)},
    }
    if isinstance(model, GPClassifier):
        return out | {"classes": model.classes_}
    return out | {"noise": model.model_.likelihood.words()}


def _columns_said(columns: Columns | None) -> Rows:
    """What each column was read as, where they are not all numbers."""
    if columns is None or columns.plain:
        return []
    return [(f"column {name}", what) for name, what in columns.table()[1]]


def _learned_by_em(model: Any) -> Rows:
    """What a mixture, a hidden Markov model or a mixture of experts has learned."""
    if isinstance(model, mc.GPMixture):
        return [
            ("experts", str(model.n_experts)),
            ("lower bound", f"{model.lower_bound_:.4f}"),
            ("iterations", str(model.n_iter_)),
        ]
    bayesian = isinstance(model, mc.BayesianGaussianMixture | mc.BayesianHMM)
    value = ("lower bound", model.lower_bound_) if bayesian else ("log-likelihood", model.log_likelihood_)
    rows: Rows = [(value[0], f"{value[1]:.4f}"), ("iterations", str(model.n_iter_))]
    if isinstance(model, mc.HMM | mc.BayesianHMM):
        return [("states", str(model.n_states_)), *rows]
    shares = ", ".join(f"{share:.3f}" for share in model.weights_)
    return [("components", str(model.n_components_)), ("shares", shares), *rows]


def importance_tables(model: Estimator, permutation: bool = True, draws: int = 32) -> list[Table]:
    """The table (title, columns, rows) of how much each column matters; none for one column."""
    if model.n_features_in_ < 2:
        return []
    found = model.importance(permutation, draws)
    header, rows = found.table()
    return [(found.paragraph(), tuple(header), [tuple(row) for row in rows])]


def search_lines(model: Estimator) -> list[str]:
    """The ranking of kernels that were looked at, and an empty line; nothing where none were."""
    if not isinstance(model, mc.GPRegressor) or model.search_ is None:
        return []
    return [str(model.search_), ""]


def robust_tables(model: Estimator) -> list[Table]:
    """Tables (title, columns, rows) on why a noise model was kept and on outliers;
    the titles are sentences.
    """
    if not isinstance(model, mc.GPRegressor):
        return []
    found: list[Any] = [] if model.robust_comparison_ is None else [model.robust_comparison_]
    if isinstance(model.model_.likelihood, AbstractNoise):
        found.append(model.outliers_)
    return [
        (part.paragraph(), tuple(header), [tuple(row) for row in rows])
        for part in found
        for header, rows in [part.table()]
    ]
