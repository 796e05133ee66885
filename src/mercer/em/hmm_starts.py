"""Where Baum-Welch starts: groups of similar observations (or of neighbouring ones, left to right),
and what the user gave.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from mercer.em.counts import MultinomialEmission, PoissonEmission, counts, totals
from mercer.em.emission import (
    CategoricalEmission,
    GaussianEmission,
    GaussianMixtureEmission,
    symbols,
    vectors,
)
from mercer.em.gaussian import Gaussians
from mercer.em.hmm import HMM, left_right
from mercer.em.mixture import shares
from mercer.em.starts import plus_plus
from mercer.em.student import StudentTEmission
from mercer.hyperpriors import Gamma

# how sequences are read, by what states emit
READERS = {
    "gaussian": vectors,
    "mixture": vectors,
    "student-t": vectors,
    "categorical": symbols,
    "poisson": counts,
    "multinomial": totals,
}
EMISSIONS = tuple(READERS)
VECTORS = ("gaussian", "mixture", "student-t")  # with Gaussians inside
DOF = 5.0  # of Student-t states at the start
STAY = 0.8  # probability of staying in a state at the start


@dataclass(frozen=True)
class Settings:
    """What a model shall be like; see `mercer.HMM`."""

    states: int
    emission: str
    components: int
    covariance_type: str
    symbols: int | None
    topology: Any
    given: dict[str, Any]
    pseudo_count: Any
    floor: np.ndarray | None
    prior: Any
    dof_prior: Gamma | None = None
    known: list[np.ndarray] | None = None
    keep: tuple[str, ...] = ()

    def pseudo_counts(self, name: str) -> Any:
        """Of "initial", "transition", "emission" or "weights"."""
        if not isinstance(self.pseudo_count, dict):
            return self.pseudo_count
        return np.asarray(self.pseudo_count.get(name, 0.0), np.float64)


def start(settings: Settings, sequences: list[np.ndarray], rng: np.random.Generator) -> HMM:
    """A model to begin with."""
    allowed = {
        "gaussian": {"means", "covariances"},
        "mixture": {"means", "covariances", "weights"},
        "student-t": {"means", "scales", "dof"},
        "categorical": {"emission"},
        "poisson": {"means"},
        "multinomial": {"emission"},
    }[settings.emission] | {"initial", "transition"}
    if unknown := sorted(set(settings.given) - allowed):
        raise ValueError(f"init of emission={settings.emission!r} has {sorted(allowed)}, not {unknown}.")
    if isinstance(settings.pseudo_count, dict):
        names = {"initial", "transition"} | (allowed & {"emission", "weights"})
        if unknown := sorted(set(settings.pseudo_count) - names):
            raise ValueError(f"pseudo_count is a number, or a dict of {sorted(names)}, not of {unknown}.")
    initial, transition = _chain(settings, rng)
    make: Any = {"categorical": _symbols, "poisson": _counts, "multinomial": _totals}
    emission = make.get(settings.emission, _gaussians)(settings, sequences, rng)
    return HMM(
        settings.given.get("initial", initial),
        settings.given.get("transition", transition),
        emission,
        settings.pseudo_counts("transition"),
        settings.pseudo_counts("initial"),
        settings.keep,
    )


def _chain(settings: Settings, rng) -> tuple[np.ndarray, np.ndarray]:
    N, topology = settings.states, settings.topology
    if isinstance(topology, str) and topology == "left-right":
        return left_right(N)
    if isinstance(topology, str) and topology != "full":
        raise ValueError(
            f'topology must be "full", "left-right" or a table of what is allowed, got {topology!r}.'
        )
    mask = np.ones((N, N), bool) if isinstance(topology, str) else np.asarray(topology, bool)
    if mask.shape != (N, N) or not mask.any(1).all():
        raise ValueError(f"topology must be a table {(N, N)} with a way out of every state.")
    guess = STAY * np.eye(N) + (1 - STAY) * rng.dirichlet(np.full(N, 2.0), N)
    return np.full(N, 1 / N), shares(np.where(mask, guess + 1e-3, 0.0))


def _labels(settings: Settings, sequences: list[np.ndarray], rows: np.ndarray, rng) -> np.ndarray:
    N = settings.states
    known = None if settings.known is None else np.concatenate(settings.known)
    if isinstance(settings.topology, str) and settings.topology == "left-right":
        order = np.concatenate([np.minimum(np.arange(len(s)) * N // len(s), N - 1) for s in sequences])
        return order if known is None else np.where(known >= 0, known, order)
    return plus_plus(rows, N, rng, known=known)


def _gaussians(
    settings: Settings, sequences: list[np.ndarray], rng
) -> GaussianEmission | GaussianMixtureEmission | StudentTEmission:
    rows, given = _rows(sequences), settings.given
    if settings.emission == "student-t":
        rows = _without_outliers(rows)
        given = given | ({"covariances": given["scales"]} if "scales" in given else {})
    M = settings.components if settings.emission == "mixture" else 1
    k, d = settings.states * M, rows.shape[1]
    parts = {}
    if "means" in given:
        parts["means"] = np.reshape(np.asarray(given["means"], np.float64), (k, d))
    if "covariances" in given:
        shape = {"full": (k, d, d), "diagonal": (k, d), "spherical": (k,), "tied": (d, d)}.get(
            settings.covariance_type, (k, d, d)
        )
        parts["covariances"] = np.reshape(np.asarray(given["covariances"], np.float64), shape)
    weights = np.full((settings.states, M), 1 / M)
    if len(parts) < 2:
        labels = _labels(settings, sequences, rows, rng)
        inside = np.zeros(len(rows), np.intp)
        for i in range(settings.states if M > 1 else 0):
            mine = np.flatnonzero(labels == i)
            inside[mine] = (
                plus_plus(rows[mine], M, rng) if len(mine) >= M else rng.integers(M, size=len(mine))
            )
        member = np.eye(k)[labels * M + inside].T
        near = Gaussians.fitted(rows, member, settings.covariance_type, settings.floor, settings.prior)
        weights = shares(member.sum(1).reshape(weights.shape), 1.0)
        parts = {"means": near.means, "covariances": near.covariances} | parts
    gaussians = Gaussians(
        **parts, covariance_type=settings.covariance_type, floor=settings.floor, prior=settings.prior
    ).lifted()
    if settings.emission == "gaussian":
        return GaussianEmission(gaussians)
    if settings.emission == "student-t":
        dof = np.broadcast_to(np.asarray(given.get("dof", DOF), np.float64), (settings.states,))
        return StudentTEmission(gaussians, dof, dof_prior=settings.dof_prior)
    return GaussianMixtureEmission(
        given.get("weights", weights), gaussians, settings.pseudo_counts("weights")
    )


def _symbols(settings: Settings, sequences: list[np.ndarray], rng) -> CategoricalEmission:
    if "emission" in settings.given:
        return CategoricalEmission(settings.given["emission"], settings.pseudo_counts("emission"))
    rows = np.concatenate(sequences)
    L = settings.symbols or int(rows.max()) + 1
    if L < 1:
        raise ValueError("the sequences have no symbols; n_symbols says how many there are.")
    frequent = shares(np.bincount(rows[rows >= 0], minlength=L), 1.0)
    guess = frequent * rng.gamma(2.0, size=(settings.states, L))
    if settings.known is not None:
        here = np.concatenate(settings.known)
        np.add.at(guess, (here[(here >= 0) & (rows >= 0)], rows[(here >= 0) & (rows >= 0)]), 1.0)
    return CategoricalEmission(shares(guess), settings.pseudo_counts("emission"))


def _counts(settings: Settings, sequences: list[np.ndarray], rng) -> PoissonEmission:
    if "means" in settings.given:
        return PoissonEmission(np.reshape(settings.given["means"], (settings.states, -1)), settings.prior)
    rows = _rows(sequences)
    member = np.eye(settings.states)[_labels(settings, sequences, np.sqrt(rows), rng)].T
    seen = ~np.isnan(rows)
    total, number = member @ np.where(seen, rows, 0.0), member @ seen
    overall = np.nansum(rows, 0) / seen.sum(0)
    return PoissonEmission((total + overall) / (number + 1.0), settings.prior)


def _totals(settings: Settings, sequences: list[np.ndarray], rng) -> MultinomialEmission:
    rows = _rows(sequences)
    each = np.unique(rows[~np.isnan(rows).any(1)].sum(1))
    trials = int(each[0]) if len(each) == 1 else None
    if "emission" in settings.given:
        return MultinomialEmission(settings.given["emission"], settings.pseudo_counts("emission"), trials)
    share = shares(np.nan_to_num(rows), 1e-6)
    member = np.eye(settings.states)[_labels(settings, sequences, np.sqrt(share), rng)].T
    near = shares(member @ np.nan_to_num(rows), 1.0)
    return MultinomialEmission(near, settings.pseudo_counts("emission"), trials)


def _without_outliers(rows: np.ndarray) -> np.ndarray:
    """Values outside Tukey's fences moved onto them, so that a start sees groups."""
    low, high = np.nanquantile(rows, [0.25, 0.75], axis=0)
    reach = np.where(high > low, 1.5 * (high - low), np.inf)
    return np.clip(rows, low - reach, high + reach)


def _rows(sequences: list[np.ndarray]) -> np.ndarray:
    """All rows (T, d), with values in every column."""
    rows = np.concatenate(sequences)
    empty = np.isnan(rows).all(axis=0)
    if empty.any():
        raise ValueError(f"column {int(np.argmax(empty))} of the sequences has no values.")
    return rows
