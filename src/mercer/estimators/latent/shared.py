"""What the latent variable models have in common: units of columns, checks, names of columns from files."""

from __future__ import annotations

from typing import Any

import numpy as np

LARGEST = 1e100  # values of a table


def whole(value: Any, name: str, least: int) -> int:
    """A whole number of at least so much; else an error that names the setting."""
    if not isinstance(value, (int, np.integer)) or isinstance(value, bool) or value < least:
        raise ValueError(f"{name} must be a whole number of at least {least}, got {value!r}.")
    return int(value)


def units_of(X: np.ndarray, standardise: bool) -> tuple[np.ndarray, np.ndarray]:
    """Means and scales (d,) of columns by their observed cells: their standard deviations, or for all of them
    the root of the mean variance.
    """
    empty = np.isnan(X).all(0)
    if empty.any():
        raise ValueError(f"column {int(np.argmax(empty))} of X has no values: leave it out.")
    largest = float(np.nanmax(np.abs(X)))
    if largest > LARGEST:
        raise ValueError(
            f"X has values of size {largest:.3g}, whose squares are not finite: scale its columns."
        )
    mean, std = np.nanmean(X, 0), np.nanstd(X, 0)
    varies = std > 1e-12 * np.abs(mean)
    if not varies.any():
        raise ValueError("no column of X varies: all rows are the same.")
    common = np.sqrt(np.mean(std[varies] ** 2))
    return mean, np.where(varies, std, common) if standardise else np.full(X.shape[1], common)


def numbers_of(learned: dict[str, Any], shapes: dict[str, tuple[int, ...]]) -> dict[str, np.ndarray]:
    """Arrays that a file says, finite and of these shapes; else a ValueError."""
    out = {}
    for name, shape in shapes.items():
        out[name] = np.asarray(learned[name], np.float64)
        if out[name].shape != shape or not np.isfinite(out[name]).all():
            raise ValueError(f"{name} must be finite numbers of shape {shape}, got {out[name].shape}")
    return out


def name_columns(estimator: Any, d: int, names: Any) -> None:
    """Set what scikit-learn knows of the columns, from a file."""
    estimator.n_features_in_ = d
    if names is not None:
        if len(names) != d:
            raise ValueError(f"there are {d} columns but {len(names)} names")
        estimator.feature_names_in_ = np.array([str(name) for name in names], dtype=object)
