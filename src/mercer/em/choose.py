"""How many components: information criteria and held-out likelihood."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

CRITERIA = ("bic", "aic", "held-out")


def bic(log_likelihood: float, parameters: int, rows: int) -> float:
    """Bayesian information criterion −2 log p + parameters · log rows; smaller is better."""
    return -2 * log_likelihood + parameters * float(np.log(rows))


def aic(log_likelihood: float, parameters: int) -> float:
    """Akaike's information criterion −2 log p + 2 parameters; smaller is better."""
    return -2 * log_likelihood + 2 * parameters


def held_out(
    data: np.ndarray,
    fit: Callable[[Any], Any],
    score: Callable[[Any, Any], float],
    rng: np.random.Generator,
    folds: int = 5,
) -> float:
    """−2 × the log-likelihood of each fold under the model fitted to the others, summed; smaller is better.

    data: what can be indexed by an array of positions (rows, or an object array of sequences).
    """
    n = len(data)
    folds = min(folds, n)
    if folds < 2:
        raise ValueError("held-out likelihood needs at least two rows, or two sequences.")
    place = rng.permutation(n) % folds
    return -2 * sum(score(fit(data[place != i]), data[place == i]) for i in range(folds))


def check_criterion(criterion: str) -> None:
    if criterion not in CRITERIA:
        raise ValueError(f"criterion must be one of {CRITERIA}, got {criterion!r}.")


def candidates(given: Any, name: str) -> list[int]:
    """One number or several, as a list of whole numbers."""
    numbers = [given] if np.ndim(given) == 0 else list(given)
    if not numbers or not all(
        isinstance(n, int | np.integer) and not isinstance(n, bool) and n >= 1 for n in numbers
    ):
        raise ValueError(f"{name} must be a whole number from 1, or several to choose from; got {given!r}.")
    return [int(n) for n in numbers]
