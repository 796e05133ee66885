"""Can probabilities be taken at their word, and which classes are taken for which?"""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer.conditioned import AbstractSubject, Classified
from mercer.metrics import expected_calibration_error, reliability_curve
from mercer.viz._style import BLUE, GREY, SKY, frame, legend

BINS = 10
FEW = 15  # classes whose cells have room for a number


def reliability(found: Classified, ax: Any = None) -> Any:
    """Claimed probabilities against how often they came true, in tenths of the unit interval, with 95 %
    intervals; the bars at the bottom are the shares of the cases. Of two classes it is the probability of the
    second, of more that of the likeliest.
    """
    from scipy.stats import beta

    label = found.labels[1] if len(found.labels) == 2 else None
    truth = np.array(found.labels, dtype=object)[found.codes]
    curve = reliability_curve(truth, found.probability, BINS, label=label, classes=found.labels)
    error = expected_calibration_error(truth, found.probability, BINS, label=label, classes=found.labels)
    what = "the likeliest class" if label is None else label
    ax = frame(ax, f"predicted probability of {what}", "share that came true", size=(4.6, 4.4))
    hits = np.round(curve.observed * curve.cases)
    low, high = (beta.ppf(q, hits + 0.5, curve.cases - hits + 0.5) for q in (0.025, 0.975))
    bars = np.maximum([curve.observed - low, high - curve.observed], 0.0)
    part = np.minimum((curve.claimed * BINS).astype(int), BINS - 1)
    n = len(found.codes)
    where, height = (part + 0.5) / BINS, 0.2 * curve.cases / n
    ax.bar(where, height, 0.9 / BINS, color=SKY, alpha=0.45, label="share of the cases / 5")
    ax.plot([0, 1], [0, 1], color=GREY, linewidth=0.9)
    ax.errorbar(
        curve.claimed,
        curve.observed,
        yerr=bars,
        fmt="o",
        color=BLUE,
        markersize=5,
        elinewidth=1.0,
        capsize=2.5,
        label=f"{found.how}, n = {n}, off by {100 * error:.1f} % on average",
    )
    ax.set(xlim=(-0.02, 1.02), ylim=(-0.02, 1.02), aspect="equal")
    legend(ax, columns=1)
    return ax


def confusion(model: Any, X: Any = None, y: Any = None, ax: Any = None) -> Any:
    """Which classes are taken for which: a row for each true class, a column for each predicted one, the
    number of cases in each cell, shaded by its share of the row.

    model: a fitted `GPClassifier`. X, y: rows and their labels; without them each training row is predicted
    from the others.

    >>> viz.confusion(GPClassifier().fit(df[["a", "b"]], df["species"]))
    """
    found = classified(model, X, y)
    C = len(found.labels)
    counts = np.zeros((C, C), int)
    np.add.at(counts, (found.codes, found.probability.argmax(1)), 1)
    shares = counts / np.maximum(counts.sum(1, keepdims=True), 1)
    side = 2.6 + 0.42 * min(C, 16)
    ax = frame(ax, "predicted", "true", size=(side + 0.4, side))
    ax.imshow(shares, cmap="Blues", vmin=0.0, vmax=1.0)
    ax.set_xticks(np.arange(C), found.labels, rotation=45 if max(map(len, found.labels)) > 3 else 0)
    ax.set_yticks(np.arange(C), found.labels)
    ax.tick_params(length=0)
    ax.spines[["left", "bottom"]].set_visible(False)
    if C <= FEW:
        for i, j in np.argwhere(counts > 0):
            dark = shares[i, j] > 0.55
            ax.text(j, i, str(counts[i, j]), ha="center", va="center", color="white" if dark else "black")
    wrong = int(counts.sum() - np.trace(counts))
    ax.set_title(f"{wrong} of {counts.sum()} wrong, {found.how}", fontsize="small", loc="left")
    return ax


def classified(model: Any, X: Any, y: Any) -> Classified:
    """What a classifier says of rows, or of its training rows left out one at a time."""
    if (X is None) != (y is None):
        raise ValueError("give X with its labels y, or neither: training rows are then left out in turn.")
    found = model.classified(X, y) if isinstance(model, AbstractSubject) else None
    if found is None:
        raise TypeError(f"this picture is of a fitted GPClassifier, not of a {type(model).__name__}.")
    return found
