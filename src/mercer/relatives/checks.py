"""What comes into the estimators of this room, checked as scikit-learn's are."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

Array = NDArray[np.float64]
Indices = NDArray[np.intp]


def training_data(estimator: BaseEstimator, X: ArrayLike, y: ArrayLike) -> tuple[Array, Array]:
    """Inputs (n, d) and targets (n,) as numbers."""
    inputs, targets = validate_data(estimator, X, y, dtype=np.float64, y_numeric=True)
    return inputs, targets.astype(np.float64)


def training_labels(estimator: BaseEstimator, X: ArrayLike, y: ArrayLike) -> tuple[Array, NDArray, Indices]:
    """Inputs (n, d), the sorted classes (C,), and the place of each label among them (n,)."""
    inputs, labels = validate_data(estimator, X, y, dtype=np.float64)
    check_classification_targets(labels)
    classes, index = np.unique(labels, return_inverse=True)
    if len(classes) < 2:
        raise ValueError(f"A classifier needs at least two classes; y has only one class, {classes[0]!r}.")
    return inputs, classes, index


def test_inputs(estimator: BaseEstimator, X: ArrayLike) -> Array:
    """Inputs (m, d) for a fitted estimator."""
    check_is_fitted(estimator)
    return validate_data(estimator, X, dtype=np.float64, reset=False)
