"""Mixtures and hidden Markov models by variational Bayes, with scikit-learn's interface: components and
states that the data do not ask for lose their share by themselves.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted, validate_data

from mercer.distributed import Parallel
from mercer.em import (
    Dirichlets,
    Labelled,
    NormalInverseWishart,
    Sticks,
    VariationalHMM,
    VariationalMixture,
    em,
)
from mercer.em.hmm import known_states
from mercer.em.hmm_starts import Settings, start
from mercer.em.mixture import known_labels
from mercer.em.starts import plus_plus, spread
from mercer.estimators.hidden import words
from mercer.estimators.hidden.hmm import AbstractHMM
from mercer.estimators.hidden.mixture import AbstractMixture
from mercer.estimators.hidden.shared import (
    check_emission,
    covariance_kind,
    floor_of,
    generator,
    names_of,
    warn_unless_converged,
)
from mercer.hyperpriors import Gamma
from mercer.progress import Progress

EMISSIONS = ("gaussian", "categorical", "poisson", "multinomial")


class BayesianGaussianMixture(AbstractMixture):
    """A mixture of Gaussians by variational Bayes: a posterior of its parameters instead of a point, and as
    many components as the data ask for. NaN in the data is a missing value.

    n_components: the most there may be; those that are not needed end with hardly any rows (`counts_`)
    covariance_type: "full", "diagonal", "spherical", or "tied": the same for all
    weights: prior of the shares: "dirichlet-process", cut off at n_components, or a finite "dirichlet"
    concentration: of that prior, for each component of a Dirichlet; smaller leaves fewer components; None is
        1/n_components
    prior: of means and covariances, a `mercer.em.NormalInverseWishart`; None is worth about a row: mean and
        covariance of the columns
    restarts: starts beyond the first; the one with the highest bound is kept
    max_evaluations, tol: M-steps for each start, and the relative gain of the bound below which it has
        converged
    parallel: who climbs from the starts: None (this process, one after the other), a number of processes, or
        a `dask.distributed.Client`; what is learned does not depend on it

    `score_samples` are predictive densities, the parameters integrated out; `predict_proba` are the
    probabilities of the variational posterior; `sample` draws at the expected parameters.

    Learned: weights_ (k,), means_ (k, d) and covariances_, the expected weights, means and (inverse)
    precisions; counts_ (k,), rows that each component explains; lower_bound_ of the log evidence, history_,
    converged_, n_iter_, n_components_, posterior_ (a `mercer.em.VariationalMixture`) and model_, the mixture
    with the expected parameters.

    >>> found = BayesianGaussianMixture(10).fit(X)
    >>> found.counts_.round(1), found.predict(X)
    """

    def __init__(
        self,
        n_components: int = 10,
        covariance_type: str = "full",
        *,
        weights: Literal["dirichlet-process", "dirichlet"] = "dirichlet-process",
        concentration: float | None = None,
        prior: NormalInverseWishart | None = None,
        restarts: int = 2,
        max_evaluations: int = 500,
        tol: float = 1e-6,
        random_state: int | np.random.RandomState | None = 0,
        progress: Progress = None,
        parallel: Parallel = None,
    ):
        self.n_components = n_components
        self.covariance_type = covariance_type
        self.weights = weights
        self.concentration = concentration
        self.prior = prior
        self.restarts = restarts
        self.max_evaluations = max_evaluations
        self.tol = tol
        self.random_state = random_state
        self.progress = progress
        self.parallel = parallel

    def fit(self, X: Any, y: Any = None, *, labels: Any = None) -> BayesianGaussianMixture:
        """Learn from rows X (n, d). y is ignored.

        labels: components that are known, (n,), −1 where they are not
        """
        X = validate_data(self, X, dtype=np.float64, ensure_all_finite="allow-nan", ensure_min_samples=2)
        empty = np.isnan(X).all(axis=0)
        if empty.any():
            raise ValueError(f"column {int(np.argmax(empty))} of X has no values.")
        k = _whole(self.n_components, "n_components")
        prior, kind = prior_around(self.prior, X), covariance_kind(self.covariance_type)
        shares = self._shares(k)
        known = None if labels is None else known_labels(labels, len(X), k, "labels")

        def begin(seed):
            rng, groups = np.random.default_rng(seed), k if known is not None else min(k, len(X))
            member = np.eye(k)[plus_plus(X, groups, rng, known=known)].T
            return VariationalMixture.assigned(X, member, shares, prior, kind)

        _climb(self, begin, X if known is None else Labelled(X, known))
        return self

    def _shares(self, k: int) -> Dirichlets | Sticks:
        concentration = 1 / k if self.concentration is None else float(self.concentration)
        if self.weights == "dirichlet-process":
            return Sticks(concentration, np.zeros(k))
        if self.weights == "dirichlet":
            return Dirichlets(np.full(k, concentration), np.zeros(k))
        raise ValueError(f'weights must be "dirichlet-process" or "dirichlet", got {self.weights!r}.')

    def _take(
        self, posterior: VariationalMixture, history: np.ndarray, converged: bool, iterations: int
    ) -> None:
        self.posterior_, self.model_ = posterior, posterior.point()
        self.n_components_, self.counts_ = len(self.model_.weights), posterior.weights.counts
        self.weights_, self.means_ = self.model_.weights, self.model_.means
        self.covariances_ = self.model_.covariances
        self.lower_bound_, self.history_ = float(history[-1]), history
        self.converged_, self.n_iter_ = converged, max(1, iterations)

    @property
    def _density(self) -> VariationalMixture:
        return self.posterior_

    def _learned(self) -> dict[str, Any]:
        return _learned(self) | {"columns": self.n_features_in_, "names": names_of(self)}

    def _relearn(self, found: dict[str, Any]) -> None:
        self.n_features_in_ = int(found["columns"])
        if found["names"] is not None:
            self.feature_names_in_ = np.array(found["names"], dtype=object)
        self._take(*_again(found, VariationalMixture))

    def summary(self) -> str:
        """How many components the data ask for, how large, where and how wide, as text."""
        check_is_fitted(self)
        return words.mixture(self, f"lower bound of the log evidence {self.lower_bound_:.3f}")


class BayesianHMM(AbstractHMM):
    """A hidden Markov model by variational Bayes: a posterior of its parameters instead of a point; states
    that the data do not ask for are left without visits.

    n_states: the most there may be
    emission: "gaussian" vectors, "categorical" symbols 0, 1, …, "poisson" counts in each column, or
        "multinomial" counts of kinds whose total in a row is given
    covariance_type: "full", "diagonal", "spherical" or "tied"
    n_symbols: of emission="categorical"; None takes those of the data
    topology: "full"; "left-right", begins in state 0 and stays or goes on by one; or a table (N, N) of what
        is allowed
    concentration: of each possible transition, and first state, a Dirichlet prior; None is 1/n_states
    prior: of the emission; None is worth about a row: `mercer.em.NormalInverseWishart` of vectors, a number
        (the concentration of each symbol or kind), `mercer.hyperpriors.Gamma` of the means of counts
    init: dict of what a start is made from, as of `mercer.HMM`
    restarts: starts beyond the first; the one with the highest bound is kept
    max_evaluations, tol: M-steps for each start, and the relative gain of the bound below which it has
        converged
    parallel: who climbs from the starts: None (this process, one after the other), a number of processes, or
        a `dask.distributed.Client`; what is learned does not depend on it

    What is said of sequences (`predict`, `predict_proba`, `score`, `sample`) is by model_, at the expected
    parameters.

    Learned: initial_, transition_ and those of the emission as of `mercer.HMM`, expected; counts_ (N,), steps
    spent in each state; lower_bound_ of the evidence, history_, converged_, n_iter_, n_states_, posterior_
    (a `mercer.em.VariationalHMM`) and model_.

    >>> BayesianHMM(6).fit([O1, O2]).counts_
    """

    def __init__(
        self,
        n_states: int = 5,
        emission: Literal["gaussian", "categorical", "poisson", "multinomial"] = "gaussian",
        *,
        covariance_type: str = "full",
        n_symbols: int | None = None,
        topology: str | ArrayLike = "full",
        concentration: float | None = None,
        prior: NormalInverseWishart | Gamma | float | None = None,
        init: dict[str, Any] | None = None,
        restarts: int = 2,
        max_evaluations: int = 500,
        tol: float = 1e-6,
        random_state: int | np.random.RandomState | None = 0,
        progress: Progress = None,
        parallel: Parallel = None,
    ):
        self.n_states = n_states
        self.emission = emission
        self.covariance_type = covariance_type
        self.n_symbols = n_symbols
        self.topology = topology
        self.concentration = concentration
        self.prior = prior
        self.init = init
        self.restarts = restarts
        self.max_evaluations = max_evaluations
        self.tol = tol
        self.random_state = random_state
        self.progress = progress
        self.parallel = parallel

    def fit(self, X: Any, y: Any = None, *, labels: Any = None) -> BayesianHMM:
        """Learn from sequences. y is ignored.

        labels: states that are known, (T,) of each sequence, −1 where they are not
        """
        check_emission(self.emission, EMISSIONS)
        n, sequences = _whole(self.n_states, "n_states"), self._read(X)
        rows, given = np.concatenate(sequences), self._known(labels, X)
        known = None if given is None else known_states(given, [len(s) for s in sequences], n)
        floor = floor_of(1e-6, rows, n) if self.emission == "gaussian" else None
        settings = Settings(
            n, self.emission, 1, covariance_kind(self.covariance_type), self.n_symbols, self.topology,
            self.init or {}, 0.0, floor, None, None, known,
        )  # fmt: skip
        prior = self._prior(rows)

        data = start(settings, sequences, np.random.default_rng(0)).prepare(sequences, known)

        def begin(seed):
            model = start(settings, sequences, np.random.default_rng(seed))
            return VariationalHMM.around(model, data, prior, self.concentration, self.concentration)

        _climb(self, begin, data)
        return self

    def _prior(self, rows: np.ndarray) -> Any:
        if self.prior is not None:
            return self.prior
        if self.emission == "gaussian":
            return prior_around(None, rows)
        if self.emission == "poisson":
            return Gamma(1.0, 1.0 / max(float(np.nanmean(rows)), 1e-300))
        return 1.0 / (self.n_symbols or (rows.shape[1] if rows.ndim == 2 else int(rows.max()) + 1))

    def _take(self, posterior: VariationalHMM, history: np.ndarray, converged: bool, iterations: int) -> None:
        self.posterior_, self.model_ = posterior, posterior.point()
        self.n_states_, self.counts_ = posterior.states, posterior.visits()
        self.initial_, self.transition_ = self.model_.initial, self.model_.transition
        for name, value in self.model_.emission.learned().items():
            setattr(self, f"{name}_", value)
        self.lower_bound_, self.history_ = float(history[-1]), history
        self.converged_, self.n_iter_ = converged, iterations

    def _learned(self) -> dict[str, Any]:
        return _learned(self)

    def _relearn(self, found: dict[str, Any]) -> None:
        check_emission(self.emission, EMISSIONS)
        self._take(*_again(found, VariationalHMM))

    def summary(self) -> str:
        """How long the hidden states last, what is seen in each and what follows it, as text."""
        check_is_fitted(self)
        return words.states(self, f"lower bound of the log evidence {self.lower_bound_:.3f}")


def prior_around(given: NormalInverseWishart | None, X: np.ndarray) -> NormalInverseWishart:
    """The prior itself, or one worth about a row: the columns' mean and covariance, d degrees of freedom."""
    if given is not None:
        return given
    centre, d = np.nanmean(X, axis=0), X.shape[1]
    Z = np.where(np.isnan(X), 0.0, X - centre)
    scale = Z.T @ Z / max(len(X) - 1, 1) + 1e-6 * np.diag(spread(X))
    return NormalInverseWishart(float(d), scale, centre, 1.0)


def _whole(given: Any, name: str) -> int:
    if not isinstance(given, int | np.integer) or isinstance(given, bool) or given < 1:
        raise ValueError(f"{name} must be a whole number from 1, the most there may be; got {given!r}.")
    return int(given)


def _climb(estimator: Any, begin: Callable[[int], Any], data: Any) -> None:
    """From every start; the estimator takes the posterior of the highest bound."""
    seeds = generator(estimator.random_state).integers(2**31, size=1 + estimator.restarts)
    found = em(
        [lambda seed=seed: begin(seed) for seed in seeds],
        [data],
        max_evaluations=estimator.max_evaluations,
        tol=estimator.tol,
        progress=estimator.progress,
        parallel=estimator.parallel,
    )
    estimator._take(found.model, found.path(), found.converged, found.iterations)
    warn_unless_converged(found, estimator.tol)


def _learned(estimator: Any) -> dict[str, Any]:
    return {
        "posterior": estimator.posterior_, "history": estimator.history_, "converged": estimator.converged_,
        "iterations": estimator.n_iter_,
    }  # fmt: skip


def _again(found: dict[str, Any], kind: type) -> tuple[Any, np.ndarray, bool, int]:
    if not isinstance(found["posterior"], kind):
        raise TypeError(f"the posterior is not a {kind.__name__}")
    history = np.asarray(found["history"], np.float64)
    return found["posterior"], history, bool(found["converged"]), int(found["iterations"])
