"""How many components: information criteria and held-out likelihood."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from mercer.em.driver import M, Outcome

CRITERIA = ("bic", "aic", "held-out")


def bic(log_likelihood: float, parameters: int, rows: int) -> float:
    """Bayesian information criterion −2 log p + parameters · log rows; smaller is better."""
    return -2 * log_likelihood + parameters * float(np.log(rows))


def aic(log_likelihood: float, parameters: int) -> float:
    """Akaike's information criterion −2 log p + 2 parameters; smaller is better."""
    return -2 * log_likelihood + 2 * parameters


def information(criterion: str, outcome: Outcome[Any], rows: int) -> float:
    """The "bic" or the "aic" of a model fitted to so many rows."""
    parameters = outcome.model.parameters()
    return (
        bic(outcome.log_likelihood, parameters, rows)
        if criterion == "bic"
        else aic(outcome.log_likelihood, parameters)
    )


def best_of(
    numbers: list[int], fit: Callable[[int], Outcome[M]], rate: Callable[[Outcome[M], int], float]
) -> tuple[Outcome[M], dict[int, float]]:
    """The fit with the number that is rated best, and the ratings of all: smaller is better. A single number
    is not rated.
    """
    found = {n: fit(n) for n in numbers}
    ratings = {n: rate(outcome, n) for n, outcome in found.items()} if len(numbers) > 1 else {}
    return found[min(ratings, key=ratings.__getitem__) if ratings else numbers[0]], ratings


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
