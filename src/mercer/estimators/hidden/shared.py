"""What the estimators that EM fits have in common: how they begin and end, their priors, their files."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state

from mercer.em import Gaussians, InverseWishart, NormalInverseWishart, Outcome
from mercer.em.starts import ENOUGH, plus_plus, smallest_variances, spread


def generator(random_state: Any) -> np.random.Generator:
    """NumPy's generator for scikit-learn's `random_state`."""
    return np.random.default_rng(check_random_state(random_state).randint(2**31 - 1))


def check_chunked(labels: Any, criterion: str) -> None:
    """Refuse what data in chunks cannot have."""
    if labels is not None:
        raise ValueError("labels go with data in one piece: leave them out, or give arrays.")
    if criterion == "held-out":
        raise ValueError("criterion='held-out' fits parts of the data: with chunks use 'bic' or 'aic'.")


def check_emission(given: Any, known: tuple[str, ...]) -> None:
    """Refuse an emission of an HMM that is none of those known."""
    if given not in known:
        raise ValueError(f"emission must be one of {known}, got {given!r}.")


def warn_unless_converged(outcome: Outcome[Any], tol: float) -> None:
    """Say so where EM stopped short, unless `tol` = 0 asked for so many steps, or none were asked for. Called
    by `fit` itself.
    """
    if not outcome.converged and tol > 0 and outcome.iterations > 0:
        warnings.warn(
            f"EM has not converged: {outcome.reason}. Raise max_evaluations or tol.",
            ConvergenceWarning,
            stacklevel=3,
        )


def floor_of(share: float, X: np.ndarray, k: int) -> np.ndarray | None:
    """The smallest variances (d,) of k groups in X, the same for every start; None for a share of 0."""
    rng = np.random.default_rng(0)
    part = X if len(X) <= ENOUGH else X[rng.choice(len(X), ENOUGH, replace=False)]
    return smallest_variances(part, plus_plus(part, min(k, len(part)), rng), share) if share > 0 else None


def warn_at_floor(gaussians: Gaussians, X: np.ndarray, word: str) -> None:
    """Say which components (or states) have the smallest variance that is allowed. Called by `fit` itself.

    A column that does not vary is the same for all of them, and no reason.
    """
    varies = np.nanmax(X, 0) > np.nanmin(X, 0)
    if low := np.flatnonzero(gaussians.at_floor(varies)).tolist():
        names = ", ".join(map(str, low))
        warnings.warn(
            f"{word}{'s' if len(low) > 1 else ''} {names} shrank to the smallest variance that "
            "covariance_floor allows: the rows there are nearly equal, or columns depend on each other. "
            "Take fewer of them, another covariance_type, or a prior.",
            ConvergenceWarning,
            stacklevel=3,
        )


def learned(estimator: Any) -> dict[str, Any]:
    """What a file must say of a model fitted by EM."""
    return {
        "model": estimator.model_, "log_likelihood": estimator.log_likelihood_, "history": estimator.history_,
        "converged": estimator.converged_, "iterations": estimator.n_iter_,
        "selection": [[k, v] for k, v in estimator.selection_.items()],
    }  # fmt: skip


def relearned(estimator: Any, found: dict[str, Any], kind: type) -> None:
    """What `learned` gave, taken back."""
    if not isinstance(found["model"], kind):
        raise TypeError(f"the model is not a {kind.__name__}")
    estimator.selection_ = {int(k): float(v) for k, v in found["selection"]}
    history = np.asarray(found["history"], np.float64)
    estimator._take(
        found["model"],
        float(found["log_likelihood"]),
        history,
        bool(found["converged"]),
        int(found["iterations"]),
    )


def names_of(estimator: Any) -> list[str] | None:
    """Names of the columns, where it was fitted to a table with names."""
    names = getattr(estimator, "feature_names_in_", None)
    return None if names is None else [str(name) for name in names]


def covariance_kind(given: str) -> str:
    """The name of a covariance type; scikit-learn's "diag" as well."""
    return "diagonal" if given == "diag" else given


def prior_of(given: Any, X: np.ndarray, k: int) -> InverseWishart | NormalInverseWishart | None:
    """The prior itself, or one worth that many data whose mode is diagonal: the columns' variances,
    shared out among k groups.
    """
    if given is None or isinstance(given, InverseWishart | NormalInverseWishart):
        return given
    d = X.shape[1]
    strength = float(given)
    if not strength > 2 * d:
        raise ValueError(
            f"a prior must be worth more than 2 d = {2 * d} data to be a proper prior, got {given!r}."
        )
    return InverseWishart(strength - d - 1, strength * np.diag(spread(X)) / k ** (2 / d))
