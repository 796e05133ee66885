"""A hidden Markov model with scikit-learn's interface: sequences in, states out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from mercer.distributed import Parallel, team
from mercer.em import HMM as Model
from mercer.em import Filter, InverseWishart, NormalInverseWishart, em
from mercer.em.choose import aic, best_of, bic, candidates, check_criterion, held_out, information
from mercer.em.chunked import ChunkedData
from mercer.em.hmm import known_states
from mercer.em.hmm_starts import EMISSIONS, READERS, VECTORS, Settings, start
from mercer.em.starts import ENOUGH
from mercer.estimators.hidden import words
from mercer.estimators.hidden.shared import (
    check_chunked,
    check_emission,
    covariance_kind,
    floor_of,
    generator,
    learned,
    prior_of,
    relearned,
    warn_at_floor,
    warn_unless_converged,
)
from mercer.estimators.shared_work import AbstractShared
from mercer.hyperpriors import Gamma
from mercer.inputs import is_chunked
from mercer.persist import AbstractSavable
from mercer.processes import check_fork
from mercer.progress import Progress
from mercer.report import AbstractReported, Report


class AbstractHMM(AbstractShared, AbstractSavable, AbstractReported):
    """What fitted hidden Markov models do, however they were fitted."""

    emission: str
    n_symbols: int | None
    random_state: Any
    model_: Model

    def predict(self, X: Any) -> Any:
        """The most probable path of states (T,) of a sequence; a list of them for a list."""
        return self._each(X, lambda model, s: model.viterbi(s)[0])

    def viterbi(self, X: Any) -> Any:
        """As `predict`: argmax_q p(q | O)."""
        return self.predict(X)

    def _told(self, budget: float | str, X: Any) -> Report:
        from mercer.estimators.reports.hidden import hmm_told

        return hmm_told(self, X)

    def predict_proba(self, X: Any) -> Any:
        """p(q_t = i | O), (T, N), of a sequence; a list of them for a list."""
        return self._each(X, lambda model, s: model.posterior(s))

    def decode(self, X: Any, algorithm: Literal["viterbi", "map"] = "viterbi") -> Any:
        """A value and states (T,) of a sequence; a list of them for a list.

        algorithm: "viterbi", the most probable path with its log p(O, q); or "map", at each step the state
            that is most probable by itself with the expected number of right ones, for when steps count, not
            the path
        """
        if algorithm not in ("viterbi", "map"):
            raise ValueError(f'algorithm must be "viterbi" or "map", got {algorithm!r}.')
        return self._each(
            X, lambda model, s: (model.viterbi(s) if algorithm == "viterbi" else model.likeliest(s))[::-1]
        )

    def stationary_distribution(self) -> np.ndarray:
        """Shares (N,) of the states in a long sequence, which a transition leaves as they are."""
        check_is_fitted(self)
        return self.model_.stationary()

    def filter(self, X: Any) -> Any:
        """p(q_t = i | o_1 … o_t), (T, N), of a sequence; a list of them for a list."""
        return self._each(X, lambda model, s: model.filter(s))

    def online(self) -> Filter:
        """A filter that takes one observation at a time: `online().update(o)`."""
        check_is_fitted(self)
        return Filter(self.model_)

    def score(self, X: Any, y: Any = None) -> float:
        """The mean log density of a step, log p(O) of all sequences over their steps, as that of a row in
        `GaussianMixture`: it does not grow with the length. −inf if one of them is impossible.
        `score_samples` gives log p(O) of each.
        """
        check_is_fitted(self)
        sequences = self._read(X)
        return float(self.model_.log_likelihood(sequences).sum()) / sum(map(len, sequences))

    def score_samples(self, X: Any) -> np.ndarray:
        """log p(O) of each sequence."""
        check_is_fitted(self)
        return self.model_.log_likelihood(self._read(X))

    def scores(self, X: Any, parameters: Any = None) -> np.ndarray:
        """Fisher scores (E, p) of sequences, what `kernels.Fisher` compares; see `mercer.em.HMM.scores`."""
        check_is_fitted(self)
        return self.model_.scores(self._read(X), parameters)

    def sample(
        self,
        n_samples: int = 1,
        random_state: int | np.random.RandomState | None = None,
        first: int | None = None,
    ) -> tuple[np.ndarray, np.ndarray]:
        """One sequence of n_samples observations, and its states.

        first: the state it begins in, for example the last of a sequence that goes on; drawn unless told
        """
        check_is_fitted(self)
        return self.model_.sample(n_samples, self._generator(random_state), first)

    def sample_states(
        self, X: Any, n_samples: int = 1, random_state: int | np.random.RandomState | None = None
    ) -> np.ndarray:
        """Paths (n_samples, T) drawn from their posterior given one sequence."""
        check_is_fitted(self)
        return self.model_.sample_paths(X, n_samples, self._generator(random_state))

    # -- what comes in ---------------------------------------------------------------------------------------

    def _each(self, X, use) -> Any:
        check_is_fitted(self)
        found = [use(self.model_, s) for s in self._read(X)]
        return found if _several(X) else found[0]

    def _read(self, X) -> list[np.ndarray]:
        """A list of checked sequences."""
        check_fork()
        given = list(X) if _several(X) else [X]
        if not given:
            raise ValueError("there is no sequence.")
        read = READERS[self.emission]
        if self.emission == "categorical":
            known = (
                self.emission_.shape[1]
                if hasattr(self, "model_") and hasattr(self, "emission_")
                else self.n_symbols
            )
        else:
            known = read(given[0], None, "sequence 0").shape[1]
        return [read(s, known, f"sequence {i}") for i, s in enumerate(given)]

    def _known(self, labels: Any, X: Any) -> list[Any] | None:
        """Labels of each sequence, as they were given."""
        return None if labels is None else list(labels) if _several(X) else [labels]

    def _generator(self, random_state) -> np.random.Generator:
        seed = self.random_state if random_state is None else random_state
        return generator(seed)


class HMM(AbstractHMM):
    """A hidden Markov model fitted by EM (Baum-Welch), to one sequence or to many of different lengths.

    n_states: how many hidden states, or several numbers of which `criterion` chooses one
    emission: "gaussian" vectors, a Gaussian "mixture" in each state, "student-t" vectors (heavy tails:
        outliers do not matter), "categorical" symbols 0, 1, …, "poisson" counts in each column, or
        "multinomial" counts of kinds whose total in a row is given
    n_components: Gaussians in each state, for emission="mixture"
    covariance_type: "full", "diagonal", "spherical" or "tied"
    n_symbols: of emission="categorical"; None takes those of the data
    topology: "full"; "left-right", begins in state 0 and stays or goes on by one; or a table (N, N) of what
        is allowed
    init: dict of any of initial (N,), transition (N, N), means, covariances, weights (of mixtures), scales
        and dof (of Student-t), emission (N, L); the rest is taken from the data. Probabilities of zero stay
        zero
    keep: what stays as it begins, given by init: some of "initial", "transition", "emission"
    restarts: starts beyond the first; the best of all is kept
    max_evaluations, tol: M-steps for each start, and the relative gain of the likelihood below which a start
        has converged; tol=0 takes max_evaluations steps
    pseudo_count: added to each possible count of first states, transitions, symbols and components, a
        Dirichlet prior; or a dict of any of initial (N,), transition (N, N), emission (N, L), weights (N, M),
        for example {"transition": 20 * np.eye(3)} for states that stay
    covariance_floor: smallest variance in any direction, as a share of the variances within the tightest of
        the groups that k-means++ finds; 0 for none. A warning says where it acts
    prior: for the posterior mode of the emission's other parameters: `mercer.em.InverseWishart` of
        covariances (or scales), or how many data it is worth; `mercer.em.NormalInverseWishart` of means and
        covariances; `mercer.hyperpriors.Gamma` of the means of counts
    dof_prior: the same of Student-t's degrees of freedom, a `mercer.hyperpriors.Gamma`
    criterion: "bic", "aic" or "held-out" (5-fold over sequences), where n_states are several
    parallel: who climbs from the starts: None (this process, one after the other), a number of processes, or
        a `dask.distributed.Client`; what is learned does not depend on it

    Sequences are a list of arrays (T, d), or (T,) for symbols and for one number a step; one array is one
    sequence. NaN is a missing value.

    Learned: initial_, transition_, means_, covariances_, weights_ (mixtures), emission_ (symbols, kinds),
    scales_ and dof_ (Student-t; the covariance is dof/(dof − 2) times the scale), log_likelihood_, history_
    (objective before each M-step and at the end: log-likelihood plus log prior), converged_, n_iter_,
    n_states_, selection_ ({N: criterion}) and model_, the model itself.

    >>> hmm = HMM(n_states=3).fit([O1, O2])
    >>> hmm.viterbi(O1), hmm.predict_proba(O1), hmm.score([O1, O2])
    """

    def __init__(
        self,
        n_states: int | Iterable[int] = 2,
        emission: Literal[
            "gaussian", "mixture", "student-t", "categorical", "poisson", "multinomial"
        ] = "gaussian",
        *,
        n_components: int = 2,
        covariance_type: str = "full",
        n_symbols: int | None = None,
        topology: str | ArrayLike = "full",
        init: dict[str, Any] | None = None,
        keep: tuple[str, ...] = (),
        restarts: int = 2,
        max_evaluations: int = 200,
        tol: float = 1e-6,
        pseudo_count: float | dict[str, ArrayLike] = 0.0,
        covariance_floor: float = 1e-6,
        prior: InverseWishart | NormalInverseWishart | Gamma | float | None = None,
        dof_prior: Gamma | None = None,
        criterion: Literal["bic", "aic", "held-out"] = "bic",
        random_state: int | np.random.RandomState | None = 0,
        progress: Progress = None,
        parallel: Parallel = None,
    ):
        self.n_states = n_states
        self.emission = emission
        self.n_components = n_components
        self.covariance_type = covariance_type
        self.n_symbols = n_symbols
        self.topology = topology
        self.init = init
        self.keep = keep
        self.restarts = restarts
        self.max_evaluations = max_evaluations
        self.tol = tol
        self.pseudo_count = pseudo_count
        self.covariance_floor = covariance_floor
        self.prior = prior
        self.dof_prior = dof_prior
        self.criterion = criterion
        self.random_state = random_state
        self.progress = progress
        self.parallel = parallel

    # -- learning --------------------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any = None, *, labels: Any = None) -> HMM:
        """Learn from sequences. y is ignored.

        X may also be a source of chunks, `mercer.inputs.parquet("data/*.parquet")`, each of which is one
        sequence, and which need not fit into memory: starts are made from the first 50,000 steps, and EM goes
        through all.

        labels: states that are known, (T,) of each sequence, −1 where they are not: EM keeps to them
        """
        check_emission(self.emission, EMISSIONS)
        check_criterion(self.criterion)
        numbers = candidates(self.n_states, "n_states")
        data = None
        if is_chunked(X):
            check_chunked(labels, self.criterion)
            data = ChunkedData.of(X, self.parallel, flat=self.emission == "categorical")
            X = data.sequences(ENOUGH)
        sequences, known = self._read(X), self._known(labels, X)
        rng = generator(self.random_state)
        with team(self.parallel):
            outcome, self.selection_ = best_of(
                numbers,
                lambda n: self._climb(sequences, known, n, rng, data),
                lambda outcome, n: self._rate(outcome, sequences, known, n, rng, data),
            )
        self._take(
            outcome.model, outcome.log_likelihood, outcome.path(), outcome.converged, outcome.iterations
        )
        warn_unless_converged(outcome, self.tol)
        if self.emission in VECTORS:
            word = "component" if self.emission == "mixture" else "state"
            warn_at_floor(outcome.model.emission.gaussians, np.concatenate(sequences), word)
        return self

    def _climb(self, sequences, labels, n: int, rng, chunks: ChunkedData | None = None):
        rows = np.concatenate(sequences)
        floor, prior = None, self.prior
        if self.emission in VECTORS:
            prior = prior_of(self.prior, rows, n)
            floor = floor_of(self.covariance_floor, rows, n)
        elif self.emission == "poisson" and not isinstance(prior, Gamma | None):
            raise ValueError(f"the prior of the means of counts is a Gamma, got {prior!r}.")
        elif self.emission in ("categorical", "multinomial") and prior is not None:
            raise ValueError(
                "the prior of symbols and kinds is pseudo_count; prior= is of vectors and counts."
            )
        known = None if labels is None else known_states(labels, [len(s) for s in sequences], n)
        settings = Settings(
            n,
            self.emission,
            self.n_components,
            covariance_kind(self.covariance_type),
            self.n_symbols,
            self.topology,
            self.init or {},
            self.pseudo_count,
            floor,
            prior,
            self.dof_prior,
            known,
            self.keep,
        )
        seeds = rng.integers(2**31, size=1 + self.restarts)
        starts = [lambda seed=seed: start(settings, sequences, np.random.default_rng(seed)) for seed in seeds]
        parts: Any = chunks if chunks is not None else [starts[0]().prepare(sequences, known)]
        return em(
            starts,
            parts,
            max_evaluations=self.max_evaluations,
            tol=self.tol,
            progress=self.progress,
            parallel=self.parallel,
        )

    def _rate(self, outcome, sequences, labels, n: int, rng, chunks: ChunkedData | None = None) -> float:
        if self.criterion == "held-out":

            def fit(part):
                known = None if labels is None else [labels[i] for i in part]
                return self._climb([sequences[i] for i in part], known, n, rng).model

            def score(model, part):
                return float(model.log_likelihood([sequences[i] for i in part]).sum())

            return held_out(np.arange(len(sequences)), fit, score, rng)
        steps = sum(map(len, sequences)) if chunks is None else chunks.n
        return information(self.criterion, outcome, steps)

    def _take(
        self, model: Model, log_likelihood: float, history: np.ndarray, converged: bool, iterations: int
    ) -> None:
        self.model_, n = model, model.states
        self.n_states_, self.initial_, self.transition_ = n, model.initial, model.transition
        for name, value in model.emission.learned().items():
            setattr(self, f"{name}_", value)
        self.log_likelihood_, self.history_ = log_likelihood, history
        self.converged_, self.n_iter_ = converged, iterations

    def _learned(self) -> dict[str, Any]:
        return learned(self)

    def _relearn(self, found: dict[str, Any]) -> None:
        check_emission(self.emission, EMISSIONS)
        relearned(self, found, Model)

    def summary(self) -> str:
        """How long the hidden states last, what is seen in each and what follows it, as text."""
        check_is_fitted(self)
        return words.states(self, f"log-likelihood {self.log_likelihood_:.3f}", self.selection_)

    def bic(self, X: Any) -> float:
        """Bayesian information criterion on sequences; smaller is better."""
        check_is_fitted(self)
        sequences = self._read(X)
        log_likelihood = float(self.model_.log_likelihood(sequences).sum())
        return bic(log_likelihood, self.model_.parameters(), sum(map(len, sequences)))

    def aic(self, X: Any) -> float:
        """Akaike's information criterion on sequences; smaller is better."""
        return aic(float(self.score_samples(X).sum()), self.model_.parameters())


def _several(X: Any) -> bool:
    """Whether X is a list of sequences, and not one sequence."""
    if isinstance(X, np.ndarray):
        return X.ndim == 3 or X.dtype == object
    return isinstance(X, Sequence) and (len(X) == 0 or np.ndim(X[0]) > 0)
