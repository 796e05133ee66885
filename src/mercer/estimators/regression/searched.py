"""kernel="search": the kernel whose structure the data speak for, of those that a grammar can say."""

from __future__ import annotations

import dataclasses
import time
import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from mercer.distributed import Parallel, team
from mercer.estimators.regression.language import Language
from mercer.inputs import Inputs
from mercer.learning import Fit, FitWarning
from mercer.params import parameters
from mercer.progress import Deadline, Progress, duration, seconds_of, shown, within
from mercer.structure.beam import COARSE, Candidate, Found, Search, left_out
from mercer.structure.grammar import NOISES, words
from mercer.structure.parts import Problem, Rows
from mercer.tables import text_table

if TYPE_CHECKING:
    from mercer.estimators.regression.noise import RowNoise
    from mercer.estimators.regression.regressor import GPRegressor

BUDGET = "60s"
RESERVED = (0.2, 0.6)  # of the budget, at least and at most, for learning the best model on all rows
COMPILED, LAST = 4.0, 15  # times as long as one part is the compilation of the best model; evaluations of it
AGAIN = 2  # times that it is learned from where it ended, if it did not converge
RATE = 1e9  # of these n^3 in a second
LISTED = 8  # models
ENDED = {
    "complete": "nothing better grew",
    "budget": "the budget ended before the search did",
    "max-models": "as many as max_models allows",
    "interrupted": "interrupted",
}


@dataclasses.dataclass(frozen=True)
class RankedModel:
    """One model of a search: what it says in `words`; its `sentence`, which `mercer.structure.Sentence.read`
    takes; its `score`, the `log_evidence` less what choosing it cost, in nats; how many `parameters` were
    learned; and `left_out`, the summed log density of rows predicted by the others.
    """

    words: str
    sentence: str
    score: float
    log_evidence: float
    parameters: int
    left_out: float


@dataclasses.dataclass(frozen=True)
class Ranking:
    """The best models of a search, the best first, on `rows` of the data; how many were `seen`, by their
    number of parts; how long it took and why it ended.
    """

    models: tuple[RankedModel, ...]
    seen: Mapping[int, int]
    rows: int
    seconds: float
    ended: str
    doubt: str = ""

    @property
    def best(self) -> RankedModel:
        """The winner."""
        return self.models[0]

    def __str__(self) -> str:
        count = sum(self.seen.values())
        took = f"{count} model{'s' * (count != 1)} seen in {duration(self.seconds)}, {ENDED[self.ended]}"
        rows = [
            (f"{m.score:.1f}", f"{m.log_evidence:.1f}", f"{m.left_out:.1f}", str(m.parameters), m.words)
            for m in self.models
        ]
        lines = [
            f"{took}; compared on {self.rows} rows",
            *text_table(("score", "log evidence", "left out", "learned", "model"), rows),
        ]
        lines.append(
            "score: log evidence - 1/2 log(rows) for each number learned - log(models of that size seen)"
        )
        return "\n".join([*lines, *([self.doubt] if self.doubt else [])])

    def packed(self) -> dict[str, Any]:
        """What a file says of it."""
        seen = {str(size): count for size, count in self.seen.items()}
        return dataclasses.asdict(self) | {"seen": seen}

    @classmethod
    def unpacked(cls, said: Mapping[str, Any]) -> Ranking:
        """The ranking of which `packed` says this."""
        models = tuple(RankedModel(**model) for model in said["models"])
        seen = {int(size): int(count) for size, count in said["seen"].items()}
        return cls(**{**said, "models": models, "seen": seen})


@dataclasses.dataclass(frozen=True)
class SearchResult:
    """What `mercer.search` found: the `ranking`, which it prints as, and the fitted `model` of the winner."""

    ranking: Ranking
    model: GPRegressor

    @property
    def best(self) -> RankedModel:
        """The winner."""
        return self.ranking.best

    def __str__(self) -> str:
        return str(self.ranking)


def search(
    X: Any,
    y: Any,
    budget: float | str | None = None,
    *,
    max_models: int | None = None,
    likelihood: str = "auto",
    parallel: Parallel = None,
    seed: int = 0,
    progress: Progress = None,
) -> SearchResult:
    """Look for the structure of y (n,) as a function of X (n, d): which kernel, of those a grammar can say.

    The grammar: sums of products of smooth, very smooth and rough functions (of a column, or of several
    together), straight lines, seasons, steps, factors that grow along a column; one sum until a place and
    another after it; Gaussian or Student-t noise. Seasons, changes and growths are looked for along the only
    column, or along those of two or three whose values are evenly spaced. The search begins with a constant,
    every part alone and, of several columns, the default kernel and its relatives; the best models grow by a
    part, a factor, a column, a change or another noise as long as something better comes of it, on 256 of the
    rows first, then on up to 1000.

    A model's score is its log evidence at the learned hyperparameters, less 1/2 log n for each of them and
    less the logarithm of the number of models of its size that were looked at: the more was tried, the more a
    winner must bring. The log densities of left-out rows stand beside it as a check; where they speak for
    another model, the ranking says so. The winner is then learned on all rows, with the priors of the default
    kernel in the units of the data.

    budget: how long this may take, as seconds, "60s" or "5min", compilation included; None is "60s", or no
        limit where `max_models` is given. How far a search comes by the clock depends on the machine.
    max_models: look at so many models at most: without a budget, the same call then finds the same
    likelihood: the noise: "gaussian", "student-t", or "auto", which chooses between them
    parallel: who looks at models: None (this process, one after the other), a number of processes, or a
        `dask.distributed.Client`; what is found without a budget does not depend on it
    seed: of the rows that are looked at first

    Ctrl-C keeps the best so far. `mercer.GPRegressor(kernel="search")` is the same as an estimator.

    >>> found = search(X, y, max_models=12)
    >>> print(found)
    >>> found.best.words, found.model.predict(Xs)
    """
    from mercer.estimators.regression.regressor import GPRegressor

    model = GPRegressor(
        kernel="search",
        budget=budget,
        max_models=max_models,
        likelihood=likelihood,
        parallel=parallel,
        random_state=seed,
        progress=progress,
    ).fit(X, y)
    if model.search_ is None:
        raise ValueError("the targets do not vary: there is nothing to search for.")
    return SearchResult(model.search_, model)


# ------------------------------------------------------------------------------------------ for the estimator


def check(estimator: GPRegressor, known: RowNoise) -> None:
    """Refuse settings that the search cannot keep to."""
    if estimator.objective != "evidence" or estimator.inference is not None:
        raise ValueError("kernel='search' compares evidences: leave out objective and inference.")
    plain = ("basis", "noise_variance", "warp", "input_noise", "noise_by", "noise_along", "checkpoint")
    if given := [name for name in plain if getattr(estimator, name) is not None]:
        raise ValueError(f"kernel='search' does not go with {given[0]}: search first, then give its kernel.")
    if not known.nothing or estimator.noise_covariance_ is not None:
        raise ValueError(
            "kernel='search' goes with one noise for all rows: search without weights and errors, then give "
            "the kernel it finds."
        )
    name = estimator.likelihood
    if not (name is None or (isinstance(name, str) and name in (*NOISES, "auto"))):
        raise ValueError(
            f"kernel='search' goes with likelihood 'gaussian', 'student-t' or 'auto', not {name!r}."
        )


def noises(likelihood: Any) -> tuple[str, ...]:
    """The noise models that a search may choose from."""
    if likelihood == "auto":
        return NOISES
    return (NOISES[0] if likelihood is None else likelihood,)


def chosen(
    estimator: GPRegressor, inputs: Inputs, y: np.ndarray, settings: Mapping[str, Any]
) -> tuple[Fit, Ranking]:
    """The fit of the best model, which notes what was looked at; and the ranking."""
    began = time.perf_counter()
    limited = estimator.budget is not None or estimator.max_models is None
    seconds = seconds_of(estimator.budget or BUDGET)
    deadline = Deadline.after(seconds) if limited else None
    mean = estimator._mean(y, False)
    if any(p.free for p in parameters(mean)):
        raise ValueError(
            "kernel='search' goes with a mean that is not learned: mean='empirical' or a number."
        )
    language = Language(inputs, y, mean, estimator.columns_, noises(estimator.likelihood))
    last = None if deadline is None else deadline.share(1.0 - _reserved(language, seconds))
    telling = shown("searching", estimator.progress, "Ctrl-C keeps the best so far")
    with telling, team(estimator.parallel) as workers:
        search = Search(language, inputs.values, y, last, estimator.max_models, estimator._seed(), workers)
        found = search.run()
    ranking = ranked(found, language, inputs.values, y)
    model = language.model(found.candidates[0].sentence)
    with warnings.catch_warnings(), within(deadline or Deadline(np.inf)) as watch:
        warnings.simplefilter("ignore", FitWarning)  # from where it ended it is learned again
        fit = estimator._learn(model, inputs, y, None, **settings)
        for _ in range(AGAIN):
            if not fit.status.converged and not watch.reached:
                fit = estimator._learn(fit.model, inputs, y, None, **settings)
    took = time.perf_counter() - began
    ranking = dataclasses.replace(ranking, seconds=took)
    stopped = "; the budget ended while it was learned on all rows" if watch.reached else ""
    note = (
        f"kernel='search' chose {ranking.best.words} of {found.models} model{'s' * (found.models != 1)} "
        f"({ENDED[found.ended]}){stopped}"
    )
    return dataclasses.replace(fit, posterior=fit.posterior.noting(note)), ranking


def _reserved(language: Language, seconds: float) -> float:
    """The share of the time that is kept for learning the best model on all rows: about `LAST` evaluations
    and `COMPILED` times as long as one takes here that compiles a part.
    """
    began, n = time.perf_counter(), len(language.y)
    some = slice(None, COARSE)
    start = language.model(language.vocabulary.starts()[1])
    problem = Problem(start, Rows(language.inputs.values[some]), language.y[some])
    problem.value_and_gradient(problem.flat.vector)
    expected = COMPILED * (time.perf_counter() - began) + LAST * n**3 / RATE
    return float(np.clip(expected / seconds, *RESERVED))


def ranked(found: Found, language: Language, X: np.ndarray, y: np.ndarray) -> Ranking:
    """The best of what was found, with the densities of left-out rows."""
    best = found.candidates[:LISTED]
    rows = found.rows
    data, targets = Rows(X[rows]), y[rows]
    densities = [left_out(Problem(language.model(c.sentence), data, targets)) for c in best]
    models = tuple(
        _model(c, found, language, float(np.sum(density))) for c, density in zip(best, densities, strict=True)
    )
    return Ranking(models, found.seen, len(rows), 0.0, found.ended, _doubt(models, densities))


def _model(candidate: Candidate, found: Found, language: Language, total: float) -> RankedModel:
    return RankedModel(
        words(candidate.sentence, language.names),
        str(candidate.sentence),
        candidate.score(found.seen),
        candidate.log_evidence,
        candidate.parameters,
        total,
    )


def _doubt(models: tuple[RankedModel, ...], densities: list[np.ndarray]) -> str:
    """What the left-out rows say against the winner: another predicts them better by more than two standard
    errors of the difference, and by more than two nats.
    """
    gains = [density - densities[0] for density in densities]
    best = int(np.argmax([gain.sum() for gain in gains]))
    gain = gains[best]
    if gain.sum() <= 2.0 * max(1.0, np.sqrt(len(gain)) * np.std(gain)):
        return ""
    return (
        f"left-out rows are predicted better by model {best + 1} of the list ({models[best].sentence}), by "
        f"{gain.sum():.1f} nats: look at both"
    )


__all__ = ["RankedModel", "Ranking", "SearchResult", "search"]
