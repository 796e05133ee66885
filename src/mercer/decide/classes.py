"""Which class to decide for, given class probabilities and what mistakes cost (GPML §3.1);
when to refuse to decide.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]
REFUSED = -1


class ClassDecision(NamedTuple):
    """For each case the chosen column, or -1 where no decision is made, and the loss to expect, both (n,).

    The expected loss of a refused case is the cost of refusing; NaN when the rule for refusing names no cost.
    """

    choice: NDArray[np.intp]
    risk: Array

    @property
    def refused(self) -> NDArray[np.bool_]:
        """Which cases were refused: (m,) booleans."""
        return self.choice == REFUSED


def decide(
    probabilities: ArrayLike, loss: ArrayLike | None = None, reject: float | tuple[str, float] | None = None
) -> ClassDecision:
    """The decision of least expected loss for each case, from class probabilities (n, C).

    `loss[c, a]` is the cost of deciding for column a when the class is c; the default costs 1 for every
    mistake, which makes the likeliest class the best choice. There may be more decisions than classes.
    `reject` refuses doubtful cases:

    - ("cost", c), or just the number c: refusing costs c, and is done where every decision is expected to
      cost more.
    - ("threshold", t): where the largest probability is below t. With the default loss this is the cost 1 -
      t.
    - ("gap", t): where the two largest probabilities differ by less than t.

        >>> decide([[0.9, 0.1], [0.6, 0.4]], loss=[[0, 1], [5, 0]]).choice      # missing class 1 costs 5
        array([0, 1])
        >>> decide([[0.9, 0.1], [0.6, 0.4]], reject=0.2).choice
        array([ 0, -1])
        >>> labels = classes[decide(model.predict_proba(X)).choice]
    """
    p = _probabilities(probabilities)
    costs = expected_class_loss(p, loss)
    choice, risk = costs.argmin(axis=1), costs.min(axis=1)
    if reject is not None:
        rule, level = _rule(reject)
        second, largest = np.sort(p, axis=1)[:, -2:].T
        refused = {"cost": risk > level, "threshold": largest < level, "gap": largest - second < level}[rule]
        choice = np.where(refused, REFUSED, choice)
        risk = np.where(refused, level if rule == "cost" else np.nan, risk)
    return ClassDecision(choice, risk)


def thresholds(loss: ArrayLike | None = None, reject: float | None = None) -> tuple[float, float]:
    """Where decisions between two classes change, in terms of the probability p of the second.

    Below the first number decide for class 0, above the second for class 1, and in between refuse, at the
    cost `reject`. The two are the same when refusing is not allowed or never pays; at the number itself both
    cost the same.

        >>> thresholds([[0, 1], [4, 0]])        # missing class 1 is four times as bad
        (0.2, 0.2)
        >>> thresholds(reject=0.1)
        (0.1, 0.9)
    """
    (right0, false1), (false0, right1) = _loss(loss, 2, square=True)
    if min(false0, false1) <= max(right0, right1):
        raise ValueError(
            "A threshold needs a loss in which every mistake costs more than every right decision."
        )
    middle = (false1 - right0) / ((false1 - right0) + (false0 - right1))
    lower = upper = middle
    if reject is not None:
        cost = _rule(float(reject))[1]
        lower, upper = (cost - right0) / (false0 - right0), (false1 - cost) / (false1 - right1)
        if lower >= upper:
            lower = upper = middle
    return float(max(lower, 0.0)), float(min(upper, 1.0))


def expected_class_loss(probabilities: ArrayLike, loss: ArrayLike | None = None) -> Array:
    """Expected loss Σ_c p_c loss[c, a] of every decision a: (n, decisions)."""
    p = _probabilities(probabilities)
    return p @ _loss(loss, p.shape[1])


def empirical_risk(
    y: ArrayLike,
    choice: ArrayLike,
    loss: ArrayLike | None = None,
    reject: float | None = None,
    *,
    classes: ArrayLike | None = None,
) -> float:
    """Average loss of decisions about cases whose true classes y are known (GPML 3.3).

    `choice` holds columns as `decide` gives them, -1 where refused, which costs `reject`. `y` holds labels
    among `classes`; without these it holds columns too. With the default loss and no refusal this is the
    error rate.

        >>> empirical_risk(y, decide(proba, loss).choice, loss, classes=model.classes_)
    """
    labels, chosen = np.asarray(y), np.asarray(choice)
    if labels.ndim != 1 or labels.shape != chosen.shape or labels.size == 0:
        raise ValueError(
            f"y and choice must be of shape (cases,), at least one; got {labels.shape} and {chosen.shape}."
        )
    names = np.asarray(classes) if classes is not None else np.arange(_count(labels, chosen, loss))
    matrix = _loss(loss, len(names))
    match = labels[:, None] == names
    if not match.any(axis=1).all():
        raise ValueError(
            f"Label {labels[~match.any(axis=1)][0]!r} in y is none of the classes {list(names)}."
        )
    if not np.isin(chosen, np.arange(REFUSED, matrix.shape[1])).all():
        raise ValueError(f"choice must hold columns 0 to {matrix.shape[1] - 1}, or {REFUSED} where refused.")
    refused = chosen == REFUSED
    if refused.any() and reject is None:
        raise ValueError(
            f"{refused.sum()} of {len(chosen)} cases were refused: give what that costs as reject=."
        )
    made = matrix[match.argmax(axis=1), np.where(refused, 0, chosen).astype(int)]
    return float(np.mean(np.where(refused, 0.0 if reject is None else _rule(float(reject))[1], made)))


def _probabilities(values: ArrayLike) -> Array:
    p = np.asarray(values, dtype=np.float64)
    if p.ndim != 2 or p.shape[1] < 2 or p.size == 0:
        raise ValueError(
            f"probabilities must have shape (cases, classes) with at least two classes; got {p.shape}."
        )
    if not np.all(p >= 0) or not np.allclose(p.sum(axis=1), 1, rtol=0, atol=1e-6):
        raise ValueError("Every row of probabilities must be non-negative and sum to 1.")
    return p


def _loss(loss: ArrayLike | None, classes: int, square: bool = False) -> Array:
    if loss is None:
        return 1.0 - np.eye(classes)
    matrix = np.asarray(loss, dtype=np.float64)
    if matrix.ndim != 2 or len(matrix) != classes or (square and matrix.shape[1] != classes):
        raise ValueError(
            f"loss must have a row for each of the {classes} classes and a column for each decision; got "
            f"{matrix.shape}."
        )
    if not np.isfinite(matrix).all():
        raise ValueError("loss has values that are NaN or infinite.")
    return matrix


def _rule(reject: Any) -> tuple[str, float]:
    rule, level = reject if isinstance(reject, tuple) else ("cost", reject)
    if rule not in ("cost", "threshold", "gap"):
        raise ValueError(f'reject must be a cost, or ("cost" | "threshold" | "gap", number); got {reject!r}.')
    if not np.isfinite(level) or (rule != "cost" and not 0 <= level <= 1):
        raise ValueError(
            f"The {rule} for rejection must be {'finite' if rule == 'cost' else 'between 0 and 1'}; got "
            f"{level!r}."
        )
    return rule, float(level)


def _count(y: NDArray, choice: NDArray, loss: ArrayLike | None) -> int:
    """Number of classes when both y and choice hold columns."""
    if loss is not None:
        return len(np.asarray(loss))
    if y.dtype.kind not in "iu" or choice.dtype.kind not in "iu":
        raise ValueError("y holds labels: name the classes, in the order of the columns, with classes=.")
    return int(max(y.max(), choice.max())) + 1
