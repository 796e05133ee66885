"""A Gaussian mixture with scikit-learn's interface: density, clusters, how many of them, missing values."""

from __future__ import annotations

import abc
from collections.abc import Iterable
from typing import Any, Literal

import numpy as np
from sklearn.base import DensityMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from mercer.distributed import Parallel, team
from mercer.em import GaussianMixture as Model
from mercer.em import Gaussians, InverseWishart, Labelled, NormalInverseWishart, em
from mercer.em.choose import aic, best_of, bic, candidates, check_criterion, held_out, information
from mercer.em.chunked import ChunkedData
from mercer.em.mixture import known_labels
from mercer.em.starts import ENOUGH
from mercer.estimators.hidden import words
from mercer.estimators.hidden.shared import (
    check_chunked,
    covariance_kind,
    floor_of,
    generator,
    learned,
    names_of,
    prior_of,
    relearned,
    warn_at_floor,
    warn_unless_converged,
)
from mercer.estimators.shared_work import AbstractShared
from mercer.inputs import is_chunked
from mercer.persist import AbstractSavable
from mercer.progress import Progress
from mercer.report import AbstractReported, Report

FARTHEST = 1e100


class AbstractMixture(DensityMixin, AbstractShared, AbstractSavable, AbstractReported):
    """What fitted mixtures of Gaussians do, however they were fitted."""

    model_: Model

    @abc.abstractmethod
    def fit(self, X: Any, y: Any = None) -> Any:
        """Learn from rows X (n, d)."""

    @property
    @abc.abstractmethod
    def _density(self) -> Any:
        """What has `responsibilities`, `log_joint` and `log_prob` of rows."""

    def _told(self, budget: float | str, X: Any) -> Report:
        from mercer.estimators.reports.hidden import mixture_told

        return mixture_told(self, X)

    def predict_proba(self, X: Any) -> np.ndarray:
        """Probability (n, k) of each component, given what is observed of a row."""
        rows = _within(self._rows(X))
        return self._density.responsibilities(rows)

    def predict(self, X: Any) -> np.ndarray:
        """The most probable component (n,) of each row."""
        rows = _within(self._rows(X))
        return self._density.log_joint(rows).argmax(0)

    def fit_predict(self, X: Any, y: Any = None) -> np.ndarray:
        """Fit, and the most probable component (n,) of each row."""
        self.fit(X)
        return self.predict(X)

    def score_samples(self, X: Any) -> np.ndarray:
        """Log densities (n,)."""
        rows = self._rows(X)
        return self._density.log_prob(rows)

    def score(self, X: Any, y: Any = None) -> float:
        """The mean log density of the rows."""
        return float(self.score_samples(X).mean())

    def scores(self, X: Any, parameters: Any = None) -> np.ndarray:
        """Fisher scores (n, p) of rows, what `kernels.Fisher` compares;
        see `mercer.em.GaussianMixture.scores`.
        """
        rows = self._rows(X)
        return self.model_.scores(rows, parameters)

    def sample(
        self, n_samples: int = 1, random_state: int | np.random.RandomState | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Draws (n, d) and their components (n,)."""
        check_is_fitted(self)
        seed = self.random_state if random_state is None else random_state
        return self.model_.sample(n_samples, generator(seed))

    def _rows(self, X) -> np.ndarray:
        check_is_fitted(self)
        return validate_data(self, X, reset=False, dtype=np.float64, ensure_all_finite="allow-nan")

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags


class GaussianMixture(AbstractMixture):
    """A mixture of Gaussians fitted by EM. NaN in the data is a missing value: it is integrated over,
    exactly.

    n_components: how many Gaussians, or several numbers of which `criterion` chooses one
    covariance_type: "full", "diagonal", "spherical", or "tied": the same for all
    init: "k-means++", or dict(weights=(k,), means=(k, d), covariances=...), of which any may be left out
    restarts: starts beyond the first; the best of all is kept
    max_evaluations, tol: M-steps for each start, and the relative gain of the likelihood below which a start
        has converged
    covariance_floor: smallest variance in any direction, as a share of the variances within the tightest of
        the groups that k-means++ finds; 0 for none. A warning says where it acts
    prior: of covariances, a `mercer.em.InverseWishart`, or how many data a prior around the columns'
        variances is worth; of means and covariances, a `mercer.em.NormalInverseWishart`. The fit is then the
        posterior mode
    pseudo_count: added to each component's expected count
    criterion: "bic", "aic" or "held-out" (5-fold), where n_components are several
    random_state: seed of the starts
    progress: None shows a line in terminals after a second, True always, False never
    parallel: who climbs from the starts: None (this process, one after the other), a number of processes, or
        a `dask.distributed.Client`; what is learned does not depend on it

    Learned: weights_ (k,), means_ (k, d), covariances_ ((k, d, d), (k, d), (k,) or (d, d)), log_likelihood_,
    history_ (objective before each M-step and at the end: log-likelihood plus log prior), converged_,
    n_iter_, n_components_, selection_ ({k: criterion}) and model_, the mixture itself.

    >>> GaussianMixture(n_components=3).fit(X).predict_proba(X)          # (n, 3)
    >>> GaussianMixture(n_components=range(1, 8)).fit(X).n_components_   # chosen by BIC
    """

    def __init__(
        self,
        n_components: int | Iterable[int] = 1,
        covariance_type: str = "full",
        *,
        init: str | dict[str, Any] = "k-means++",
        restarts: int = 2,
        max_evaluations: int = 200,
        tol: float = 1e-6,
        covariance_floor: float = 1e-6,
        prior: InverseWishart | NormalInverseWishart | float | None = None,
        pseudo_count: float = 0.0,
        criterion: Literal["bic", "aic", "held-out"] = "bic",
        random_state: int | np.random.RandomState | None = 0,
        progress: Progress = None,
        parallel: Parallel = None,
    ):
        self.n_components = n_components
        self.covariance_type = covariance_type
        self.init = init
        self.restarts = restarts
        self.max_evaluations = max_evaluations
        self.tol = tol
        self.covariance_floor = covariance_floor
        self.prior = prior
        self.pseudo_count = pseudo_count
        self.criterion = criterion
        self.random_state = random_state
        self.progress = progress
        self.parallel = parallel

    # -- learning --------------------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any = None, *, labels: Any = None) -> GaussianMixture:
        """Learn from rows X (n, d). y is ignored.

        X may also be a source of chunks, `mercer.inputs.parquet("data/*.parquet")`, or a Dask array or frame,
        which need not fit into memory: starts are made from 50,000 of its rows, and EM goes through all.

        labels: components that are known, (n,), −1 where they are not: EM keeps to them
        """
        data = None
        if is_chunked(X):
            data, X = self._chunks(X, labels)
        X = validate_data(self, X, dtype=np.float64, ensure_all_finite="allow-nan", ensure_min_samples=2)
        if data is not None and data.names is not None:
            self.feature_names_in_ = np.array(data.names, dtype=object)
        empty = np.isnan(X).all(axis=0)
        if empty.any():
            raise ValueError(f"column {int(np.argmax(empty))} of X has no values.")
        numbers = candidates(self.n_components, "n_components")
        check_criterion(self.criterion)
        rng = generator(self.random_state)
        with team(self.parallel):
            outcome, self.selection_ = best_of(
                numbers,
                lambda k: self._climb(X, labels, k, rng, data),
                lambda outcome, k: self._rate(outcome, X, labels, k, rng, data),
            )
        self._take(
            outcome.model, outcome.log_likelihood, outcome.path(), outcome.converged, outcome.iterations
        )
        warn_unless_converged(outcome, self.tol)
        warn_at_floor(outcome.model.gaussians, X, "component")
        return self

    def _take(
        self, model: Model, log_likelihood: float, history: np.ndarray, converged: bool, iterations: int
    ) -> None:
        self.n_components_, self.model_ = len(model.weights), model
        self.weights_, self.means_, self.covariances_ = model.weights, model.means, model.covariances
        self.log_likelihood_, self.history_ = log_likelihood, history
        self.converged_, self.n_iter_ = converged, max(1, iterations)

    def _learned(self) -> dict[str, Any]:
        return learned(self) | {"columns": self.n_features_in_, "names": names_of(self)}

    def _relearn(self, found: dict[str, Any]) -> None:
        self.n_features_in_ = int(found["columns"])
        if found["names"] is not None:
            self.feature_names_in_ = np.array(found["names"], dtype=object)
        relearned(self, found, Model)

    def _chunks(self, X: Any, labels: Any) -> tuple[ChunkedData, np.ndarray]:
        """Data in chunks, and rows to start from."""
        check_chunked(labels, self.criterion)
        data = ChunkedData.of(X, self.parallel)
        return data, data.rows(ENOUGH, np.random.default_rng(0))

    def _climb(self, X, labels, k: int, rng, chunks: ChunkedData | None = None):
        if k > len(X):
            raise ValueError(
                f"n_components={k} components need at least as many rows, got n_samples = {len(X)}."
            )
        known = None if labels is None else known_labels(labels, len(X), k, "labels")
        starts = [
            lambda seed=seed: self._start(X, known, k, np.random.default_rng(seed))
            for seed in rng.integers(2**31, size=1 + self.restarts)
        ]
        parts: Any = [X if known is None else Labelled(X, known)] if chunks is None else chunks
        return em(
            starts,
            parts,
            max_evaluations=self.max_evaluations,
            tol=self.tol,
            progress=self.progress,
            parallel=self.parallel,
        )

    def _start(self, X, known, k: int, rng) -> Model:
        given = dict(self.init) if isinstance(self.init, dict) else {}
        if not given and not (isinstance(self.init, str) and self.init == "k-means++"):
            raise ValueError(
                f'init must be "k-means++" or a dict of weights, means and covariances, got {self.init!r}.'
            )
        if unknown := sorted(set(given) - {"weights", "means", "covariances"}):
            raise ValueError(f"init has weights, means and covariances, not {unknown}.")
        if "means" in given and np.shape(given["means"]) != (k, X.shape[1]):
            raise ValueError(
                f"init['means'] must have the shape {(k, X.shape[1])}, got {np.shape(given['means'])}."
            )
        kind, prior = covariance_kind(self.covariance_type), prior_of(self.prior, X, k)
        if set(given) >= {"means", "covariances"}:
            floor = floor_of(self.covariance_floor, X, k)
            gaussians = Gaussians(given["means"], given["covariances"], kind, floor, prior)
            weights = np.full(gaussians.count, 1 / gaussians.count)
        else:
            near = Model.around(X, k, rng, kind, self.covariance_floor, prior, self.pseudo_count, known)
            parts = {name: given.get(name, getattr(near, name)) for name in ("means", "covariances")}
            gaussians, weights = (
                Gaussians(**parts, covariance_type=kind, floor=near.gaussians.floor, prior=prior),
                near.weights,
            )
        return Model(given.get("weights", weights), gaussians.lifted(), self.pseudo_count)

    def _rate(self, outcome, X, labels, k: int, rng, chunks: ChunkedData | None = None) -> float:
        if self.criterion == "held-out":
            known = None if labels is None else np.asarray(labels)
            return held_out(
                np.arange(len(X)),
                lambda part: self._climb(X[part], None if known is None else known[part], k, rng).model,
                lambda m, part: float(m.log_prob(X[part]).sum()),
                rng,
            )
        return information(self.criterion, outcome, len(X) if chunks is None else chunks.n)

    @property
    def _density(self) -> Model:
        return self.model_

    def summary(self) -> str:
        """How many components there are, how large, where and how wide, as text."""
        check_is_fitted(self)
        return words.mixture(self, f"log-likelihood {self.log_likelihood_:.3f}", self.selection_)

    def bic(self, X: Any) -> float:
        """Bayesian information criterion on X; smaller is better."""
        log_prob = self.score_samples(X)
        return bic(float(log_prob.sum()), self.model_.parameters(), len(log_prob))

    def aic(self, X: Any) -> float:
        """Akaike's information criterion on X; smaller is better."""
        return aic(float(self.score_samples(X).sum()), self.model_.parameters())


def _within(rows: np.ndarray) -> np.ndarray:
    """Rows whose squares float64 can hold: farther ones are brought back along their direction,
    where the same component wins.
    """
    size = np.nanmax(np.abs(rows), axis=1, initial=0.0)
    return rows * np.minimum(1.0, FARTHEST / np.maximum(size, FARTHEST))[:, None]
