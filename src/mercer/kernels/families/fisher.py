"""Kernels from generative models: the Fisher kernel and the TOP kernel (GPML 4.4.2).

A model is any object with `scores(data) -> (n, p)`, the derivatives of log p(x | θ) at its fitted θ: those of
`mercer.em`, a fitted `mercer.HMM` or `mercer.GaussianMixture`, or one of yours. The scores are computed once
for each set of inputs; learning and prediction then compare them by an ordinary kernel on p columns.
"""

from __future__ import annotations

import abc
from typing import Any, ClassVar, NoReturn, Self

import equinox as eqx
import jax
import numpy as np

from mercer.inputs import InputError, numeric
from mercer.kernels.base import AbstractKernel, Encoded
from mercer.kernels.families.dot import Linear
from mercer.kernels.text.base import codes, entries
from mercer.kernels.traits import Traits
from mercer.params import Held, ParameterError

INFORMATION = ("identity", "diagonal", "empirical", "exact")
NEGLIGIBLE = 1e-10  # share of the largest eigenvalue below which a direction carries no information


class AbstractScores(AbstractKernel):
    """of(M^-½ φ(x), M^-½ φ(x')) for features φ that a generative model gives."""

    information: str | None = eqx.field(default=None, static=True, kw_only=True)
    data: Any = eqx.field(default=None, static=True, kw_only=True)
    length: int | None = eqx.field(default=None, static=True, kw_only=True)
    parameters: Any = eqx.field(default=None, static=True, kw_only=True)
    alphabet: str | None = eqx.field(default=None, static=True, kw_only=True)
    scaling: Any = eqx.field(default=None, static=True, kw_only=True)
    of: AbstractKernel = eqx.field(default=Linear(), kw_only=True)

    holders: ClassVar[tuple[str, ...]]  # fields that are generative models

    def __post_init__(self):
        super().__post_init__()
        for name in self.holders:
            setattr(self, name, _model(getattr(self, name)))
        self.scaling = None if self.scaling is None else Held(self.scaling)
        self.information = self.information or ("identity" if self.data is None else "empirical")
        if self.parameters is not None:
            self.parameters = (
                (self.parameters,) if isinstance(self.parameters, str) else tuple(self.parameters)
            )
        if not isinstance(self.of, AbstractKernel):
            raise ParameterError(
                f"{type(self).__name__}.of must be a kernel on the scores, such as SE(3.0), got {self.of!r}."
            )
        if self.information not in INFORMATION:
            raise ParameterError(
                f"{type(self).__name__}.information must be one of {INFORMATION}, got {self.information!r}."
            )
        if self.scaling is None and self.information != "identity":
            self.scaling = Held(self._scaling())
        self.data = None

    # -- what the two kernels say ----------------------------------------------------------------------------

    @abc.abstractmethod
    def raw(self, data: Any) -> np.ndarray:
        """Features (n, p) of checked data, before scaling."""

    @abc.abstractmethod
    def exact(self) -> np.ndarray:
        """E[φφᵀ] (p, p) under the model."""

    def models(self) -> tuple[Any, ...]:
        """The generative models."""
        return tuple(getattr(self, name).value for name in self.holders)

    # -- a kernel --------------------------------------------------------------------------------------------

    def reads_objects(self) -> bool:
        return not _reads_rows(self.models()[0])

    def bind(self, d: int, names: tuple[str, ...] | None = None) -> Self:
        return self

    def encode(self, X: Any) -> Encoded:
        """Scaled scores (n, q), as `of` reads them."""
        return self.of.encode(self.scores(X))

    def block(self, A: Encoded, B: Encoded) -> jax.Array:
        return self.of.block(A, B)

    def diag(self, A: Encoded) -> jax.Array:
        return self.of.diag(A)

    def rank(self, d: int) -> int | None:
        scaling = None if self.scaling is None else self.scaling.value
        return None if scaling is None else self.of.rank(scaling.shape[-1])

    def features(self, A: Encoded) -> jax.Array:
        return self.of.features(A)

    def amplitude(self) -> tuple[str, ...]:
        return tuple(f"of.{name}" for name in self.of.amplitude())

    def suggest(self, X: np.ndarray, variance: float) -> Self:
        Z = self.scores(X[:256])
        size = float(np.mean(np.sum(Z**2, 1))) if isinstance(self.of, Linear) else 1.0
        return eqx.tree_at(lambda s: s.of, self, self.of.suggest(Z, variance / (size or 1.0)))

    def traits(self, d: int = 1) -> Traits:
        return Traits(beyond="returns to the mean for an input with little in common with them")

    def formula(self, digits: int = 6) -> str:
        names = ", ".join(type(model).__name__ for model in self.models())
        return (
            f"{type(self).__name__}({names}, information={self.information!r}, of={self.of.formula(digits)})"
        )

    def scores(self, X: Any) -> np.ndarray:
        """M^-½ φ (n, q) of inputs: a list of sequences or strings, or rows of a table for a mixture."""
        phi = self.raw(self._data(X))
        scaling = None if self.scaling is None else self.scaling.value
        return phi if scaling is None else phi * scaling if scaling.ndim == 1 else phi @ scaling

    # -- data and information --------------------------------------------------------------------------------

    def _data(self, X) -> Any:
        if _reads_rows(self.models()[0]):
            return numeric(np.asarray(X, dtype=object if isinstance(X, list) else None))
        wide = isinstance(X, np.ndarray) and X.ndim == 2 and X.shape[1] > 1
        alphabet, who = self.alphabet or getattr(self.models()[0], "alphabet", None), type(self).__name__
        return [
            _sequence(x, i, alphabet, who)
            for i, x in enumerate(numeric(X) if wide else entries(X, "sequences"))
        ]

    def _scaling(self) -> np.ndarray:
        """M^-½: (p,) where M is diagonal, else (p, rank), without the directions that M does not see."""
        if self.information == "exact":
            return _root(self.exact())
        if self.data is None:
            raise ParameterError(
                f"{type(self).__name__}: information={self.information!r} is that of some data: give data= "
                "the sequences (or rows) "
                "the model was fitted to, or information='identity'."
            )
        phi = self.raw(self._data(self.data))
        if self.information == "diagonal":
            size = np.sqrt(np.mean(phi**2, 0))
            return np.where(size > 0, 1.0 / np.where(size > 0, size, 1.0), 0.0)
        root = _root(phi.T @ phi / len(phi))
        if root.shape[1] >= len(phi):
            raise ParameterError(
                f"{type(self).__name__}: {len(phi)} data for {phi.shape[1]} scores: their full empirical "
                "information would call "
                "all of them orthogonal. Give more data=, choose parameters=, or use information='diagonal'."
            )
        return root


class Fisher(AbstractScores):
    """The Fisher kernel φ(x)' M⁻¹ φ(x') with φ(x) = ∇_θ log p(x | θ), from a fitted model (4.46-4.47), times
    a learned variance.

    model: with `scores(data) -> (n, p)`: a fitted `mercer.HMM` or `mercer.GaussianMixture`, a model of
        `mercer.em` (HMM, Mixture, GaussianMixture, MarkovChain), or one of yours. It does not change when the
        kernel is learned
    information: M. "identity", the default; "empirical", the mean of φφ' over `data`, the default where they
        are given; "diagonal", its diagonal; "exact", E[φφ'] under the model, for Markov chains, for mixtures
        in up to two dimensions, and for hidden Markov models with few symbols and short sequences
    length: of sequences, for "exact"
    parameters: scores by some of the parameters only, for example ("means",) or "emission"
    alphabet: the characters of symbols 0, 1, …, where inputs are strings
    of: how scaled scores are compared: `Linear()`, or SE(l) for exp(-|φ - φ'|²/(2 l²))

    The inputs are a list of sequences, (T, d) or (T,) of any lengths, or of strings; for a mixture the rows
    of a table. Scores are by unconstrained coordinates without units, see `mercer.em.scores`; only "identity"
    and "diagonal" depend on the coordinates.

    >>> hmm = mercer.HMM(n_states=3).fit(sequences)
    >>> mercer.GPClassifier(kernel=Fisher(hmm)).fit(sequences, labels)
    >>> Fisher(hmm, data=sequences, parameters="means", of=SE(2.0))
    """

    model: Any = eqx.field(static=True)

    holders: ClassVar[tuple[str, ...]] = ("model",)

    def raw(self, data: Any) -> np.ndarray:
        return _scored(self.model.value, data, self.parameters)

    def exact(self) -> np.ndarray:
        model = self.model.value
        if not hasattr(model, "information"):
            raise ParameterError(
                f"Fisher: the exact information of {type(model).__name__} is not known: use "
                "information='empirical' with data=."
            )
        return model.information(self.length, **_named(self.parameters))


class TOP(AbstractScores):
    """The TOP kernel: tangent vectors of the posterior log-odds, φ(x) = ∇_θ [log p(y=+1 | x, θ) - log p(y=-1
    | x, θ)].

    positive, negative: generative models of the two classes, as in `Fisher`. The features are the scores of
    the first, and those of the second with the other sign (that of the class prior is a constant: add
    `Constant()`).
    log_odds: put the log-odds themselves (of even classes) before them, as in the original definition (Tsuda
    et al. 2002); the models then need `log_likelihood(sequences)`, or `log_prob(rows)`
    information: "identity" (default), or "diagonal" or "empirical" with data=

    >>> TOP(MarkovChain.of(promoters, alphabet="acgt"), MarkovChain.of(others, alphabet="acgt"))
    """

    positive: Any = eqx.field(static=True)
    negative: Any = eqx.field(static=True)
    log_odds: bool = eqx.field(default=False, static=True, kw_only=True)

    holders: ClassVar[tuple[str, ...]] = ("positive", "negative")

    def raw(self, data: Any) -> np.ndarray:
        first, second = (_scored(model, data, self.parameters) for model in self.models())
        parts = [first, -second]
        if self.log_odds:
            above, below = (_log_likelihood(model, data) for model in self.models())
            parts.insert(0, (above - below)[:, None])
        return np.hstack(parts)

    def exact(self) -> NoReturn:
        raise ParameterError(
            "TOP: information is 'identity', 'diagonal' or 'empirical'; log-odds have no exact one."
        )


def _sequence(x: Any, i: int, alphabet: str | None, who: str) -> np.ndarray:
    """A sequence as an array, (T,) or (T, d)."""
    if isinstance(x, str):
        if alphabet is None:
            raise InputError(
                f"row {i} is text: say which symbols the model knows, {who}(..., alphabet='acgt')."
            )
        x = codes(x, alphabet, f"{who}.alphabet")
    x = np.atleast_1d(np.asarray(x))
    if x.size == 0:
        raise InputError(f"row {i} is an empty sequence, which has no score: leave it out.")
    return x


def _model(given: Any) -> Held:
    """A generative model, out of a fitted estimator where it is in one."""
    given = given.value if isinstance(given, Held) else given
    model = getattr(given, "model_", given)
    if not hasattr(model, "scores") or (model is given and hasattr(given, "get_params")):
        what = (
            "fit it first" if hasattr(given, "get_params") else "its method scores(data) -> (n, p) is missing"
        )
        raise ParameterError(
            f"a score kernel needs a fitted generative model; {type(given).__name__}: {what}."
        )
    return Held(model)


def _reads_rows(model: Any) -> bool:
    return bool(getattr(model, "rows", False))


def _named(parameters: Any) -> dict[str, Any]:
    return {} if parameters is None else {"parameters": parameters}


def _scored(model: Any, data: Any, parameters: Any) -> np.ndarray:
    phi = np.asarray(model.scores(data, **_named(parameters)), np.float64)
    if phi.ndim != 2 or len(phi) != len(data) or not np.isfinite(phi).all():
        raise InputError(
            f"{type(model).__name__}.scores must give finite numbers ({len(data)}, p), got shape {phi.shape}."
        )
    return phi


def _log_likelihood(model: Any, data: Any) -> np.ndarray:
    return np.asarray(model.log_prob(data) if _reads_rows(model) else model.log_likelihood(data), np.float64)


def _root(M: np.ndarray) -> np.ndarray:
    """M^-½ (p, rank) on the directions that carry information."""
    values, vectors = np.linalg.eigh(0.5 * (M + M.T))
    keep = values > NEGLIGIBLE * max(values[-1], 0.0)
    return vectors[:, keep] / np.sqrt(values[keep])
