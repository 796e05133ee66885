"""Labels of any kind as numbers, and many classes from decisions between two (one against the rest,
one against one).
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations
from typing import Any

import numpy as np
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d

from mercer.inputs import InputError, Inputs

TINY = float(np.finfo(float).tiny)
ROUNDING = float(np.finfo(float).eps)


def encode(y: Any, n: int | None) -> tuple[np.ndarray, np.ndarray]:
    """The sorted classes (C,) and for each of the n labels (None: as many as there are) the number of its
    class, 0 ... C - 1, as float64.

    Labels are text, whole numbers, booleans or anything that can be sorted; at least two classes must occur.
    """
    labels = check_labels(y)
    if n is not None and len(labels) != n:
        raise InputError(f"y has {len(labels)} entries but there are {n} rows of inputs.")
    check_classification_targets(labels)
    classes, codes = np.unique(labels, return_inverse=True)
    if len(classes) < 2:
        raise InputError(
            f"y holds one class only, {classes.tolist()[0]!r}: to tell classes apart takes at least two."
        )
    return classes, codes.astype(float)


def check_labels(y: Any) -> np.ndarray:
    """Labels (n,) of one kind; an error says which row has none."""
    labels = column_or_1d(y.to_numpy() if hasattr(y, "to_numpy") and not isinstance(y, np.ndarray) else y)
    missing = next((i for i, label in enumerate(labels.tolist()) if _missing(label)), None)
    if missing is not None:
        raise InputError(
            f"y has no label in row {missing} (found {labels[missing]}): leave out the rows without one."
        )
    return _of_one_kind(labels)


def loss_matrix(loss: Any, classes: np.ndarray) -> np.ndarray | None:
    """The matrix (C, C) of what decisions cost; from a dict by label,
    what it costs to miss that class (1 where not said).
    """
    if loss is None:
        return None
    if isinstance(loss, Mapping):
        names = classes.tolist()
        unknown = [label for label in loss if label not in names]
        if unknown:
            raise ValueError(f"loss names {unknown[0]!r}, which is none of the classes {names}.")
        return np.array([loss.get(label, 1.0) for label in names], float)[:, None] * (
            1.0 - np.eye(len(names))
        )
    matrix = np.asarray(loss, float)
    if matrix.shape != (len(classes), len(classes)):
        raise ValueError(
            f"loss must have a row for each true and a column for each predicted class, ({len(classes)}, "
            f"{len(classes)}), in the "
            f"order of classes_; got shape {matrix.shape}."
        )
    return matrix


# ------------------------------------------------------------------------------------------------- two
# classes at a time


def contests(classes: int, scheme: str) -> list[tuple[int, int | None]]:
    """Which class stands against which (None: all the rest), each a problem of two classes;
    the first is labelled +1.
    """
    if scheme == "one-vs-rest":
        return [(c, None) for c in range(classes)]
    return [(j, i) for i, j in combinations(range(classes), 2)]


def contest_rows(codes: np.ndarray, contest: tuple[int, int | None]) -> np.ndarray:
    """The rows (n,) of booleans that take part."""
    first, second = contest
    return np.ones(len(codes), bool) if second is None else (codes == first) | (codes == second)


def contest_data(
    inputs: Inputs, codes: np.ndarray, contest: tuple[int, int | None]
) -> tuple[Inputs, np.ndarray]:
    """Inputs and labels +-1 of a problem of two classes."""
    rows = contest_rows(codes, contest)
    chosen = inputs if rows.all() else Inputs(inputs.values[rows], inputs.names)
    return chosen, np.where(codes[rows] == contest[0], 1.0, -1.0)


def combine(p: np.ndarray, classes: int, scheme: str, sharpness: float = 0.0) -> np.ndarray:
    """Class probabilities (m, C) from the probability p (m, contests) that each contest's first class wins.

    One against the rest: p_c / (1 - p_c)^s, normalised, with s the `sharpness`. With s = 0 the contests are
    shares; with s = 1 they are independent, and it is known that just one class wins. One against one: the
    p_c that make all p_i / (p_i + p_j) agree best with the contests, in closed form (minimum of the sum of
    (r_ji p_i - r_ij p_j)^2 with r_ij = P(i | i or j), after Wu, Lin and Weng 2004).
    """
    if scheme == "one-vs-rest":
        log_p = np.log(np.maximum(p, TINY)) - sharpness * np.log(np.maximum(1.0 - p, ROUNDING))
        shares = np.exp(log_p - log_p.max(1, keepdims=True))
        return shares / shares.sum(1, keepdims=True)
    r = np.zeros((len(p), classes, classes))
    for column, (first, second) in enumerate(contests(classes, scheme)):
        wins = np.clip(p[:, column], 1e-12, 1.0 - 1e-12)
        r[:, first, second], r[:, second, first] = wins, 1.0 - wins
    system = np.zeros((len(p), classes + 1, classes + 1))
    system[:, :classes, :classes] = -r * np.swapaxes(r, 1, 2)
    diagonal = np.arange(classes)
    system[:, diagonal, diagonal] = np.sum(r**2, axis=1)
    system[:, :classes, classes] = system[:, classes, :classes] = 1.0
    right = np.zeros((classes + 1, 1))
    right[classes] = 1.0
    solved = np.maximum(
        np.linalg.solve(system, np.broadcast_to(right, (len(p), classes + 1, 1)))[:, :classes, 0], 0.0
    )
    return solved / solved.sum(1, keepdims=True)


def sharpness(p: np.ndarray, codes: np.ndarray) -> float:
    """The sharpness of `combine` by which rows left out, whose contests have the probabilities p (n, C), have
    their classes with the highest probability; 0 unless this gains more than a number learned from n rows
    costs, 1/2 log n.
    """
    from scipy.optimize import minimize_scalar

    rows = np.arange(len(codes))

    def loss(s: float) -> float:
        right = combine(p, p.shape[1], "one-vs-rest", s)[rows, codes]
        return -float(np.sum(np.log(np.maximum(right, TINY))))

    best = min((float(minimize_scalar(loss, bounds=(0.0, 1.0), method="bounded").x), 1.0), key=loss)
    return best if loss(0.0) - loss(best) > 0.5 * np.log(len(codes)) else 0.0


def _of_one_kind(labels: np.ndarray) -> np.ndarray:
    """Objects that are all numbers or all booleans as such; text stays as it is."""
    if labels.dtype != object or all(isinstance(label, str) for label in labels):
        return labels
    plain = np.array(labels.tolist())
    if plain.ndim != 1 or plain.dtype.kind not in "biuf":
        kinds = ", ".join(sorted({type(label).__name__ for label in labels}))
        raise InputError(
            f"the labels in y ({kinds}) are neither all text nor all numbers: turn them into text."
        )
    return plain


def _missing(label: Any) -> bool:
    try:
        return label is None or bool(label != label)
    except (TypeError, ValueError):
        return True
