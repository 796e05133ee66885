"""Which inputs to observe next, or before anything is known (optimal design, GPML 7.3; Krause et al. 2008).

Without a model, points fill the space. With one, candidates are chosen one after the other by what an
observation of each would tell; the covariance of all of them is kept and updated by the matrix of rank one
that an observation takes away (A.12): O(N^2) for each.

    "entropy"               the largest variance of the observation: D-optimal
    "mutual-information"    what it tells about the candidates that are not observed
    "integrated-variance"   by how much it lessens the average variance (7.24): A-optimal
    "label-information"     what a label of two classes tells about f (Houlsby et al. 2011)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from mercer.decide.space import Space
from mercer.inputs import as_inputs
from mercer.kernels.base import AbstractKernel
from mercer.posteriors.protocol import AbstractPosterior
from mercer.registry import unknown

__all__ = ["Design", "design"]

FILLING = ("sobol", "latin-hypercube")
TRIES = 100  # Latin hypercubes of which the one with the largest least distance is taken
NODES = 32  # over f, for the information of a label
TINY = 1e-12  # of the largest variance


@dataclass(frozen=True)
class Design:
    """Inputs that were chosen, in their order.

    points: rows of the space (dicts), or of the candidates (m, d)
    rows: their positions among the candidates (m,); None for points that fill a space
    gains: what each told when it was chosen, in the units of the criterion (m,); None likewise
    std: root mean square of the standard deviations of f over what is predicted, after each (m,); likewise
    """

    points: Any
    rows: np.ndarray | None = None
    gains: np.ndarray | None = None
    std: np.ndarray | None = None


def design(
    inputs: Any,
    size: int | None = None,
    criterion: str | None = None,
    posterior: AbstractPosterior | None = None,
    kernel: AbstractKernel | None = None,
    noise_variance: float = 0.0,
    over: Any = None,
    target_std: float | None = None,
    repeats: bool = False,
    seed: int = 0,
) -> Design:
    """Inputs to observe.

    inputs: a space, as of `Optimiser`, to be filled; or candidates (N, d), up to some thousands
    size: how many; None: until target_std is reached
    criterion: for a space "sobol" (the default) or "latin-hypercube", the one of many with the largest least
        distance; for candidates "entropy", "mutual-information", "integrated-variance" (the default), and
        "label-information" where the posterior is of two classes
    posterior: what is known already; or before there are data a kernel, with a noise_variance
    over: inputs (m, d) that predictions are wanted at; by default at the candidates
    target_std: stop when the root mean square of the standard deviations of f is so small: `len(points)` then
        says how many more data are needed; an error where all candidates do not get there
    repeats: whether a candidate may be observed again, against noise

    >>> design({"x": (0.0, 1.0), "kind": ["a", "b"]}, 16).points
    >>> design(candidates, 5, posterior=regressor.posterior_).points
    >>> len(design(candidates, posterior=post, target_std=0.1, repeats=True).rows)
    """
    if isinstance(inputs, Mapping | Space):
        return Design(_filling(inputs, size, criterion or "sobol", seed))
    criterion = criterion or "integrated-variance"
    if criterion not in (known := (*SCORES, "label-information")):
        raise ValueError(unknown("criterion", criterion, (*known, *FILLING)))
    if (posterior is None) == (kernel is None):
        raise ValueError(
            "candidates are judged by what is known: give a posterior, or a kernel before there are data."
        )
    if size is None and target_std is None:
        raise ValueError("say how many inputs are wanted (size), or how small std is to be (target_std).")
    X = as_inputs(inputs, "inputs").values
    both = X if over is None else np.concatenate([X, as_inputs(over, "over").values])
    if posterior is None:
        assert kernel is not None
        S, noise = kernel(both), np.full(len(X), float(noise_variance))
    elif criterion == "label-information":
        S, noise = posterior.covariance(both, latent=True), np.zeros(len(X))
    else:
        S = posterior.covariance(both, latent=True)
        noise = posterior.variance(X) - posterior.variance(X, latent=True)
    state = State(S, noise, slice(None) if over is None else slice(len(X), None))
    if criterion == "label-information":
        assert posterior is not None
        score = _label_information(posterior, X, state)
    else:
        score = SCORES[criterion](state)
    most = len(X) if not repeats else 100_000
    if size is not None and not 1 <= size <= most:
        raise ValueError(
            f"size must be from 1 to the {len(X)} candidates, got {size}; repeats=True observes some again."
        )
    rows: list[int] = []
    gains: list[float] = []
    stds: list[float] = []
    while len(rows) < (most if size is None else size) and not (target_std and state.std <= target_std):
        gain = score()
        if not repeats:
            gain[rows] = -np.inf
        i = int(np.argmax(gain))
        if repeats and size is None and gain[i] <= TINY:
            break
        state.observe(i)
        rows.append(i)
        gains.append(gain[i])
        stds.append(state.std)
    if target_std and size is None and state.std > target_std:
        raise ValueError(
            f"after {len(rows)} observations std is {state.std:.4g}, not {target_std:.4g}: give more "
            "candidates, or repeats=True where there is noise."
        )
    return Design(np.asarray(inputs)[rows], np.array(rows, int), np.array(gains), np.array(stds))


class State:
    """The covariance S of f at N candidates, and at what is predicted, while candidates are observed.

    noise: variance of an observation of each candidate (N,); predicted: which rows of S are predicted
    """

    def __init__(self, S: np.ndarray, noise: np.ndarray, predicted: slice):
        self.S, self.predicted, self.N = np.array(S, float), predicted, len(noise)
        self.noise = np.maximum(noise, TINY * float(np.diag(S).max()))
        self.listeners: list[Callable[[int], None]] = []

    @property
    def variance(self) -> np.ndarray:
        """Of f at the candidates (N,)."""
        return np.maximum(np.diag(self.S)[: self.N], 0.0)

    @property
    def std(self) -> float:
        """Root mean square of the standard deviations of f, over what is predicted."""
        return float(np.sqrt(np.maximum(np.diag(self.S)[self.predicted], 0.0).mean()))

    def observe(self, i: int) -> None:
        """S - s s' / (S_ii + noise_i), with s the column of candidate i."""
        s = self.S[:, i].copy()
        self.S -= np.outer(s, s / (max(s[i], 0.0) + self.noise[i]))
        for listener in self.listeners:
            listener(i)


def _entropy(state: State) -> Callable[[], np.ndarray]:
    """Half the log of the variance of an observation in units of its noise: what log det grows by."""
    return lambda: 0.5 * np.log1p(state.variance / state.noise)


def _integrated_variance(state: State) -> Callable[[], np.ndarray]:
    def score() -> np.ndarray:
        taken = (state.S[state.predicted, : state.N] ** 2).mean(0)
        return taken / (state.variance + state.noise)

    return score


def _mutual_information(state: State) -> Callable[[], np.ndarray]:
    """Half the log of the variance of an observation given those chosen, over that given all the others: the
    inverse of a diagonal entry of the inverse covariance of those not chosen, from which a row and a column
    are taken away by a matrix of rank one.
    """
    P = np.linalg.inv(state.S[: state.N, : state.N] + np.diag(state.noise))
    left = np.ones(state.N, bool)

    def remove(i: int) -> None:
        if left[i]:
            P[:] -= np.outer(P[:, i], P[i] / P[i, i])
            left[i] = False

    state.listeners.append(remove)

    def score() -> np.ndarray:
        given_others = np.where(left, np.diag(P), 1.0 / state.noise)
        return 0.5 * np.log((state.variance + state.noise) * given_others)

    return score


SCORES: dict[str, Callable[[State], Callable[[], np.ndarray]]] = {
    "entropy": _entropy,
    "integrated-variance": _integrated_variance,
    "mutual-information": _mutual_information,
}


def _label_information(posterior: AbstractPosterior, X: np.ndarray, state: State) -> Callable[[], np.ndarray]:
    """Entropy of the label less its expected entropy at a known f, in nats. A label that was chosen counts as
    an observation of f whose precision is the expected information of the label, at the mean as it is.
    """
    mean, _ = posterior.latent_moments(X)
    if np.ndim(mean) != 1:
        raise ValueError(
            "label-information is of two classes: for more, take the largest entropy of probability(X)."
        )
    z, weights = np.polynomial.hermite_e.hermegauss(NODES)
    weights = weights / weights.sum()
    likelihood: Any = posterior.model.likelihood

    def probability(f: np.ndarray) -> np.ndarray:
        p = likelihood.probability(f.ravel(), np.zeros(f.size), how="map")
        return np.clip(np.reshape(p, f.shape), 1e-12, 1 - 1e-12)

    def nodes() -> np.ndarray:
        return mean[:, None] + np.sqrt(state.variance)[:, None] * z

    step = 1e-4
    p = probability(nodes())
    slope = (probability(nodes() + step) - probability(nodes() - step)) / (2 * step)
    state.noise = 1.0 / np.maximum(slope**2 / (p * (1 - p)) @ weights, TINY)

    def score() -> np.ndarray:
        p = probability(nodes())
        return _label_entropy(p @ weights) - _label_entropy(p) @ weights

    return score


def _label_entropy(p: np.ndarray) -> np.ndarray:
    return -p * np.log(p) - (1 - p) * np.log1p(-p)


def _filling(space: Any, size: int | None, criterion: str, seed: int) -> list[dict[str, Any]]:
    from scipy.stats import qmc

    if criterion not in FILLING:
        if criterion in (*SCORES, "label-information"):
            raise ValueError(
                f"{criterion} chooses among candidates (N, d): give these, and a posterior or a kernel."
            )
        raise ValueError(unknown("criterion", criterion, (*SCORES, *FILLING)))
    if size is None or size < 1:
        raise ValueError(f"say how many points are to fill the space: size is {size}.")
    columns = space if isinstance(space, Space) else Space.of(space)
    if criterion == "sobol":
        found = columns.sobol(size if not columns.constraints else 64 * size, seed)[:size]
    else:
        if columns.constraints:
            raise ValueError(
                "a Latin hypercube fills a whole box: with constraints between columns use sobol."
            )
        rng = np.random.default_rng(seed)
        cubes = [qmc.LatinHypercube(len(columns.columns), seed=rng).random(size) for _ in range(TRIES)]
        found = columns.spread(max(cubes, key=_least_distance))
    return [columns.decode(u) for u in found]


def _least_distance(unit: np.ndarray) -> float:
    from scipy.spatial.distance import pdist

    return float(pdist(unit).min()) if len(unit) > 1 else 0.0
