"""What was found, in plain words: the lines that summaries open with."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

__all__ = ["classes_left_out", "figure", "numbers_left_out", "opened"]

TINY = float(np.finfo(float).tiny)


def figure(value: float, digits: int = 4) -> str:
    """A number to so many digits, written out where it is large: 142,300, not 1.423e+05.

    >>> figure(142345.6), figure(0.12345)
    ('142,300', '0.1235')
    """
    short = f"{value:.{digits}g}"
    return f"{float(short):,.0f}" if 10**digits <= abs(value) < 1e9 else short


def numbers_left_out(y: np.ndarray, predicted: np.ndarray, inside: np.ndarray, each: str = "row") -> str:
    """How well values y (n,) are predicted, each from the others, beside guessing their mean; inside (n,):
    which lie in their 95 % interval.
    """
    if len(y) < 2:
        return "nothing else is there to predict the only value from"
    error, spread = float(np.sqrt(np.mean((y - predicted) ** 2))), float(np.std(y))
    explained = 1.0 - (error / spread) ** 2 if spread > 0 else 0.0
    better = (
        f"{100 * explained:.0f} % of the variance is explained" if explained > 0 else "no better than that"
    )
    return (
        f"each {each} predicted from the others: RMSE {figure(error)}, where guessing the mean has "
        f"{figure(spread)} ({better}); {int(inside.sum())} of {len(y)} lie in their 95 % interval"
    )


def classes_left_out(codes: np.ndarray, probability: np.ndarray, classes: Sequence[Any]) -> str:
    """How well labels, (n,) positions in `classes`, are predicted, each from the others, by probabilities
    (n, C); beside guessing by how often each class comes.
    """
    n, answer = len(codes), probability.argmax(1)
    wrong, shares = int(np.sum(answer != codes)), np.bincount(codes, minlength=len(classes)) / n
    loss = 0.0 - np.mean(np.log(np.maximum(probability[np.arange(n), codes], TINY)))
    blind = 0.0 - np.sum(shares * np.log(np.maximum(shares, TINY)))
    often = classes[int(shares.argmax())]
    return (
        f"each row predicted from the others: {wrong} of {n} wrong ({100 * wrong / n:.1f} %; always guessing "
        f"{often}: {100 * (1 - shares.max()):.1f} %); log loss {loss:.3f} (guessing by frequency: "
        f"{blind:.3f}); on average {100 * probability.max(1).mean():.0f} % sure of its answers, and right in "
        f"{100 * (1 - wrong / n):.0f} %"
    )


def opened(opening: Iterable[str], rest: str) -> str:
    """A text that opens with these lines; what they say is not said again in the rest."""
    first = list(opening)
    return "\n".join([*first, "", *(line for line in rest.splitlines() if line not in first)])
