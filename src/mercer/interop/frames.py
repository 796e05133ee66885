"""Predictions as a table of the kind that the rows came in: pandas (with its index), polars, pyarrow."""

from __future__ import annotations

from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
from narwhals.stable.v2.dependencies import is_pandas_dataframe

from mercer.estimators import GPClassifier, GPRegressor
from mercer.inputs import is_table

__all__ = ["predict_frame", "predicted"]


def predict_frame(
    model: GPRegressor | GPClassifier, X: Any, level: float = 0.95, latent: bool = False
) -> Any:
    """Predictions for the rows of X: of a regressor mean, std, lower and upper (of several outputs each with
    the output's name in front); of a classifier class, and p_LABEL for each label.

    The table is of X's library: pandas with the index of X, polars, pyarrow; a dict of arrays where X is an
    array or a dict. level: of the interval between lower and upper; latent: of the noise-free function.

    >>> interop.predict_frame(model, pl.DataFrame({"x": [0.1, 0.2]}))
    """
    columns = predicted(model, X, level, latent)
    if isinstance(X, dict) or not is_table(X):
        return columns
    backend = nw.from_native(X, eager_only=True).implementation
    made = nw.from_dict(columns, backend=backend).to_native()
    if is_pandas_dataframe(X):
        made.index = X.index
    return made


def predicted(model: Any, X: Any, level: float, latent: bool) -> dict[str, np.ndarray]:
    """The columns by name."""
    if isinstance(model, GPClassifier):
        if latent:
            raise ValueError("latent=True is for models of numeric targets: see model.latent(X).")
        p = model.predict_proba(X)
        labels = [f"p_{label}" for label in model.classes_.tolist()]
        return {"class": model.classes_[p.argmax(1)]} | dict(zip(labels, p.T, strict=True))
    if not isinstance(model, GPRegressor):
        raise TypeError(
            f"tables of predictions are of GPRegressor and GPClassifier, not {type(model).__name__}."
        )
    if model._several is None:
        return model.predict_columns(X, level, latent)
    mean, std = model.predict(X, return_std=True, latent=latent)
    found = {"mean": mean, "std": std}
    if not latent:
        found["lower"], found["upper"] = model.predict_interval(X, level)
    if mean.ndim == 1:
        return found
    names = enumerate(model.outputs_)
    return {f"{output}_{what}": values[:, j] for j, output in names for what, values in found.items()}
