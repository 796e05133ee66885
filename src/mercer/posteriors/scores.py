"""How well a posterior predicts data it has not seen, from its draws: WAIC, and leave-one-out by Pareto
smoothed importance sampling (Vehtari, Gelman and Gabry 2017).

Both need log p(y_i | f_i) at draws of the posterior alone. Without datum i a draw has weight 1 / p(y_i |
f_i): k-hat says of each datum whether these weights can be relied upon.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any

import jax
import numpy as np
from scipy.special import logsumexp

from mercer.linalg import tiles
from mercer.params import strip
from mercer.posteriors.answers import PosteriorError
from mercer.tables import text_table

__all__ = ["PredictiveScore", "ScoreComparison", "compare_scores"]

CELLS = 4_000_000  # numbers (draws times data) in memory at a time
STEADY = 0.4  # variance of log p(y_i | f_i) up to which WAIC can be relied upon


@dataclasses.dataclass(frozen=True, eq=False)
class PredictiveScore:
    """Log density of each datum when it is predicted from the others, as estimated from draws.

    method: "waic" or "psis-loo"
    log_density: (n,), in nats; `total` is their sum, with its `standard_error`
    penalty: (n,), by how much the density of a datum given all is larger: they sum to the effective number of
        parameters
    pareto_k: (n,), of psis-loo: above 0.7 the value of a datum is not to be relied upon
    draws: how many were used
    notes: what a person should know

    >>> score = post.psis_loo(); print(score)
    >>> score.total, score.standard_error, np.flatnonzero(score.pareto_k > 0.7)
    """

    method: str
    log_density: np.ndarray
    penalty: np.ndarray
    draws: int
    pareto_k: np.ndarray | None = None
    notes: tuple[str, ...] = ()

    @property
    def total(self) -> float:
        """The expected log density of as many new data."""
        return float(self.log_density.sum())

    @property
    def standard_error(self) -> float:
        """Of the total, as these data are a sample of all there could be."""
        return _standard_error(self.log_density)

    @property
    def parameters(self) -> float:
        """The effective number of parameters."""
        return float(self.penalty.sum())

    def summary(self) -> str:
        """What was found, as text."""
        lines = [
            f"{self.method}: expected log density {self.total:.2f} +- {self.standard_error:.2f} of "
            f"{len(self.log_density)} data, effective number of parameters {self.parameters:.1f}"
        ]
        if self.pareto_k is not None:
            lines.append(f"k-hat: at most {self.pareto_k.max():.2f}, median {np.median(self.pareto_k):.2f}")
        return "\n".join([*lines, *(f"note: {note}" for note in self.notes)])

    def __str__(self) -> str:
        return self.summary()


@dataclasses.dataclass(frozen=True, eq=False)
class ScoreComparison:
    """Posteriors of the same data side by side, the best first. difference: of each total to that of the
    best; standard_error: of this difference, from the pairs of data.
    """

    names: tuple[str, ...]
    scores: tuple[PredictiveScore, ...]
    difference: np.ndarray
    standard_error: np.ndarray

    @property
    def best(self) -> str:
        """The name of the one that predicts best."""
        return self.names[0]

    def __str__(self) -> str:
        header = ["model", "log density", "difference", "standard error", "parameters", "largest k-hat"]
        rows = [
            [
                name,
                f"{score.total:.2f}",
                f"{difference:.2f}",
                f"{error:.2f}",
                f"{score.parameters:.1f}",
                "" if score.pareto_k is None else f"{score.pareto_k.max():.2f}",
            ]
            for name, score, difference, error in zip(
                self.names, self.scores, self.difference, self.standard_error, strict=True
            )
        ]
        notes = [
            f"note on {n}: {said}" for n, s in zip(self.names, self.scores, strict=True) for said in s.notes
        ]
        close = len(rows) > 1 and bool(np.any(-self.difference[1:] < 2.0 * self.standard_error[1:]))
        if close:
            notes.append("differences within two standard errors do not decide between the models.")
        return "\n".join([*text_table(header, rows), *notes])


def compare_scores(scores: Mapping[str, PredictiveScore] | Iterable[PredictiveScore]) -> ScoreComparison:
    """Scores of several posteriors of the same data, in the same order: which predicts best, and whether the
    data decide it.

    >>> print(compare_scores({"SE": smooth.psis_loo(), "Matern": rough.psis_loo()}))
    """
    named = (
        dict(scores) if isinstance(scores, Mapping) else {f"model {i + 1}": s for i, s in enumerate(scores)}
    )
    if not named:
        raise ValueError("there is no score to compare.")
    if len({(score.method, len(score.log_density)) for score in named.values()}) > 1:
        said = ", ".join(f"{name} ({s.method}, {len(s.log_density)})" for name, s in named.items())
        raise ValueError(f"scores are compared by one method on the same data; got {said}.")
    ranked = sorted(named.items(), key=lambda item: -item[1].total)
    best = ranked[0][1].log_density
    lost = [score.log_density - best for _, score in ranked]
    return ScoreComparison(
        tuple(name for name, _ in ranked),
        tuple(score for _, score in ranked),
        np.array([e.sum() for e in lost]),
        np.array([_standard_error(e) for e in lost]),
    )


# -- from draws ----------------------------------------------------------------------------------------------


def waic(blocks: Iterable[np.ndarray]) -> PredictiveScore:
    """Log density given all, less its variance over draws; from log p(y_i | f_i) at draws, (S, rows) of some
    of the data after the other.
    """
    parts = [(len(logs), *_waic(logs)) for logs in map(_checked, blocks)]
    draws, log_density, penalty = parts[0][0], *(np.concatenate([p[k] for p in parts]) for k in (1, 2))
    n, rough = len(penalty), int(np.sum(penalty > STEADY))
    said = f"of {rough} of {n} data log p(y | f) varies by more than {STEADY}: prefer psis_loo()"
    return PredictiveScore("waic", log_density, penalty, draws, None, (said,) if rough else ())


def psis_loo(blocks: Iterable[np.ndarray]) -> PredictiveScore:
    """Log density given the others, draws weighted by 1 / p(y_i | f_i); blocks as for `waic`."""
    from mercer.sampling.pareto import RELIABLE  # a plain fit does not load the room of samplers

    parts = [(len(logs), *_psis(logs)) for logs in map(_checked, blocks)]
    draws, log_density, given_all, k = (
        parts[0][0],
        *(np.concatenate([p[j] for p in parts]) for j in (1, 2, 3)),
    )
    bad, notes = np.flatnonzero(k > RELIABLE), tuple[str, ...]()
    if bad.size:
        first = ", ".join(map(str, bad[:5])) + (" ..." if bad.size > 5 else "")
        notes = (
            f"k-hat is above {RELIABLE} for {bad.size} of {len(k)} data (rows {first}): draws given all data "
            "say too little of what it is like without them. Ask loo() where the posterior has it, or "
            "condition without them",
        )
    return PredictiveScore("psis-loo", log_density, given_all - log_density, draws, k, notes)


def _checked(logs: np.ndarray) -> np.ndarray:
    if not np.isfinite(logs).all():
        raise PosteriorError(
            "log p(y | f) is not finite at some draws of f: data without noise have no density; use a "
            "noise_variance above zero."
        )
    return logs


def _given_all(logs: np.ndarray) -> np.ndarray:
    found: np.ndarray = logsumexp(logs, 0) - np.log(len(logs))
    return found


def _waic(logs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    penalty = logs.var(0, ddof=1)
    return _given_all(logs) - penalty, penalty


def _psis(logs: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    from mercer.sampling.pareto import pareto_smooth

    weights, k = pareto_smooth(-logs)
    return logsumexp(logs + weights, 0), _given_all(logs), k


def _standard_error(values: np.ndarray) -> float:
    return float(np.sqrt(len(values) * values.var(ddof=1))) if len(values) > 1 else float("nan")


def log_likelihoods(likelihood: Any, f: np.ndarray, y: np.ndarray) -> np.ndarray:
    """log p(y_i | f_i) (S, n) at draws f (S, n), or (S, n, L)."""
    return np.asarray(tiles.call(_each, strip(likelihood), f, np.asarray(y, float)))


def _each(likelihood: Any, f: jax.Array, y: jax.Array) -> jax.Array:
    logs: jax.Array = jax.vmap(lambda one: likelihood.log_prob(one, y))(f)
    return logs


def normal_draws(mean: np.ndarray, variance: np.ndarray, size: int, rng: np.random.Generator) -> np.ndarray:
    """Draws (size, n) of N(mean, variance), (n,) each; (size, n, L) for means (n, L) and variances (n, L) or
    (n, L, L).
    """
    u = rng.standard_normal((size, *mean.shape))
    if variance.ndim < 3:
        off = np.sqrt(np.maximum(variance, 0.0)) * u
    else:
        values, vectors = np.linalg.eigh(variance)
        off = np.einsum("nlk,nk,snk->snl", vectors, np.sqrt(np.maximum(values, 0.0)), u)
    drawn: np.ndarray = mean + off
    return drawn
