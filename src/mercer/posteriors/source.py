"""Where a Gaussian posterior gets its State from: from the rule that made it, or from a file.

A file holds the sites, and what the mean needs. So a model that was loaded predicts means at once; it is
factored when a variance, a draw or anything else that takes the factor is first asked for.
"""

from __future__ import annotations

import abc
import dataclasses
import functools
import threading
import warnings
from typing import Any

import numpy as np

from mercer.posteriors.packing import read_array
from mercer.progress import shown
from mercer.solvers.mean import KernelMean
from mercer.solvers.protocol import AbstractState, MeanWeights, Sites

__all__ = ["AbstractSource", "Made", "Recalled"]

PROBES = 8  # data at which a file says what the mean was
AGREES = 1e-6  # relative difference of what is found and what a file says
_ONE_AT_A_TIME = threading.RLock()  # threads that ask for one State at once wait for it, and share it


class AbstractSource(abc.ABC):
    """A State, which may be made when it is first asked for, and the mean of f at new inputs."""

    state: AbstractState

    @abc.abstractmethod
    def mean(self, Xs: np.ndarray) -> np.ndarray:
        """Mean (m, L) of f at inputs (m, d)."""

    @abc.abstractmethod
    def packed(self) -> dict[str, Any]:
        """What `Recalled.unpacked` takes: arrays, numbers, and dicts of them."""


@dataclasses.dataclass(frozen=True, eq=False)
class Made(AbstractSource):
    """A State that is there."""

    state: AbstractState

    def mean(self, Xs: np.ndarray) -> np.ndarray:
        return self.state.predict(Xs, variance=False)[0]

    def packed(self) -> dict[str, Any]:
        sites, needs = self.state.sites, self.state.mean_weights()
        parts = {f.name: getattr(sites, f.name) for f in dataclasses.fields(sites)}
        said: dict[str, Any] = {
            "sites": {name: np.asarray(a, float) for name, a in parts.items() if a is not None},
            "log_normaliser": float(self.state.log_normaliser),
            "mean": None,
        }
        if needs is None:
            return said
        weights = {"weights": needs.weights} | ({} if needs.beta is None else {"beta": needs.beta})
        rows = _probed(self.state.X)
        means = KernelMean(self.state.prior, self.state.X, needs)(self.state.X[rows])
        induced = needs.inducing is not None
        return said | {"mean": {"weights": weights, "induced": induced, "probes": means}}


@dataclasses.dataclass(frozen=True, eq=False)
class Recalled(AbstractSource):
    """What a file says of a State: its sites, its log normaliser and, where the mean needs no factor, what it
    needs and its values (k, L) at some of the data, `probes`.
    """

    prior: Any
    X: np.ndarray
    sites: Sites
    solver: Any
    log_normaliser: float
    needs: MeanWeights | None
    probes: np.ndarray | None
    said: dict[str, Any]

    @classmethod
    def unpacked(cls, said: dict[str, Any], prior: Any, X: np.ndarray, latents: int, solver: Any) -> Recalled:
        """What `packed` described, of a prior at the data's inputs X (n, d). It may come from anyone: what is
        wrong with it is a ValueError, TypeError or KeyError.
        """
        arrays = {name: read_array(said["sites"], name) for name in said["sites"]}
        sites = Sites(**arrays)
        if sites.centre.shape != (len(X), latents):
            raise ValueError(
                f"the saved sites have shape {sites.centre.shape}, which does not go with {len(X)} data and "
                f"{latents} latent function{'s' * (latents > 1)}."
            )
        needs, probes = _read_mean(said["mean"], prior, X, latents, solver)
        return cls(prior, X, sites, solver, float(said["log_normaliser"]), needs, probes, said)

    @property
    def state(self) -> AbstractState:  # type: ignore[override]
        with _ONE_AT_A_TIME:
            return self._state

    @functools.cached_property
    def _state(self) -> AbstractState:
        with shown("conditioning"):
            state: AbstractState = self.solver.factor(self.prior, self.X, self.sites)
        _compare("log normaliser", np.asarray(state.log_normaliser), np.asarray(self.log_normaliser))
        return state

    def mean(self, Xs: np.ndarray) -> np.ndarray:
        return self.state.predict(Xs, variance=False)[0] if self._mean is None else self._mean(Xs)

    @functools.cached_property
    def _mean(self) -> KernelMean | None:
        if self.needs is None or self.probes is None:
            return None
        mean = KernelMean(self.prior, self.X, self.needs)
        _compare("mean", mean(self.X[_probed(self.X)]), self.probes)
        return mean

    def packed(self) -> dict[str, Any]:
        return self.said


def _read_mean(
    said: Any, prior: Any, X: np.ndarray, latents: int, solver: Any
) -> tuple[MeanWeights | None, np.ndarray | None]:
    """What the mean needs and its values at the probes; None where it needs the factor."""
    if said is None:
        return None, None
    weights, probes = read_array(said["weights"], "weights", 2), read_array(said, "probes", 2)
    beta = read_array(said["weights"], "beta", 1) if "beta" in said["weights"] else None
    Z = solver.inducing_inputs() if said["induced"] else None
    if said["induced"] and Z is None:
        return None, None
    basis = None if isinstance(prior, tuple) else prior.basis
    p = None if basis is None else np.asarray(basis.features(X[:1])).shape[1]
    if (
        weights.shape != (len(X) if Z is None else len(Z), latents)
        or probes.shape != (len(_probed(X)), latents)
        or (None if beta is None else len(beta)) != p
    ):
        raise ValueError("the saved weights of the mean do not go with the model and its data.")
    return MeanWeights(weights, beta, Z), probes


def _probed(X: np.ndarray) -> np.ndarray:
    """The data at which a file says what the mean was."""
    return np.unique(np.linspace(0, len(X) - 1, PROBES).astype(int))


def _compare(what: str, now: np.ndarray, saved: np.ndarray) -> None:
    if not np.max(np.abs(now - saved), initial=0.0) <= AGREES * max(1.0, float(np.max(np.abs(saved)))):
        i = np.argmax(np.abs(now - saved))
        warnings.warn(
            f"the loaded model has a {what} of {now.flat[i]:.6g} where it was {saved.flat[i]:.6g} when it "
            "was saved: the functions given differ from those it was fitted with, or the file was changed.",
            UserWarning,
            stacklevel=2,
        )
