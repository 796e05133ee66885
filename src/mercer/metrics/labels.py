"""Labels and the probabilities that were given to them, checked."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mercer.metrics.checks import Array, finite


def class_names(y: ArrayLike, y_train: ArrayLike | None, classes: ArrayLike | None) -> NDArray:
    """The labels that the columns of `proba` stand for."""
    if classes is None:
        return np.unique(np.asarray(y if y_train is None else y_train))
    names = np.asarray(classes)
    if names.ndim != 1 or len(np.unique(names)) != names.size:
        raise ValueError(f"classes must be a list of different labels; got {classes!r}.")
    return names


def columns_of(y: ArrayLike, names: NDArray) -> NDArray[np.intp]:
    """The column that belongs to each label."""
    labels = np.asarray(y)
    if labels.ndim != 1 or labels.size == 0:
        raise ValueError(f"y must be labels of shape (cases,), at least one; got shape {labels.shape}.")
    match = labels[:, None] == names
    if not match.any(axis=1).all():
        raise ValueError(
            f"Label {labels[~match.any(axis=1)][0]!r} in y is none of the classes {list(names)}."
        )
    return match.argmax(axis=1)


def labelled(
    y: ArrayLike, proba: ArrayLike, names: NDArray, log: bool = False
) -> tuple[NDArray[np.intp], Array]:
    """Column of `proba` that belongs to each label, and the checked (n,
    C) probabilities or their logarithms.
    """
    index, p = columns_of(y, names), finite("proba", proba, may_be_infinite=log)
    if p.ndim == 1 and len(names) == 2:
        if np.any((p > 0) if log else (p < 0) | (p > 1)):
            raise ValueError("proba must lie between 0 and 1 (its logarithm below 0).")
        with np.errstate(divide="ignore"):
            p = np.column_stack([np.log(-np.expm1(p)) if log else 1 - p, p])
    if p.shape != (len(index), len(names)):
        raise ValueError(
            f"proba must have shape (cases, classes) = ({len(index)}, {len(names)}); got {p.shape}. "
            f"The classes are {list(names)}: if there are others, name all with classes=."
        )
    total = (np.exp(p) if log else p).sum(axis=1)
    if (not log and np.any(p < 0)) or not np.allclose(total, 1, rtol=0, atol=1e-6):
        raise ValueError("Every row of proba must be non-negative and sum to 1.")
    return index, p


def log_probability(
    y: ArrayLike, proba: ArrayLike, names: NDArray, log: bool
) -> tuple[NDArray[np.intp], Array]:
    """Column of each label, and the natural logarithm of the probability it was given."""
    index, p = labelled(y, proba, names, log)
    chosen = p[np.arange(len(p)), index]
    with np.errstate(divide="ignore"):
        return index, chosen if log else np.log(chosen)


def baseline(index: NDArray[np.intp], y_train: ArrayLike | None, names: NDArray) -> Array:
    """log₂ of what the baseline gives to each label: its training frequency,
    or one in as many as there are classes.
    """
    if y_train is None:
        return np.full(len(index), -math.log2(len(names)))
    frequency = np.bincount(columns_of(y_train, names), minlength=len(names)) / np.size(y_train)
    if np.any(frequency[index] == 0):
        unseen = names[index][frequency[index] == 0][0]
        raise ValueError(
            f"Label {unseen!r} is in y but not in y_train: its training frequency, the baseline, is zero."
        )
    return np.log2(frequency[index])
