"""The search: sentences grow from the best ones seen so far, on a part of the rows first.

The score of a sentence is its log evidence at the hyperparameters learned (MAP), less what choosing costs:

    score = log p(y | theta, M) - p/2 log n - log N_s

with p free hyperparameters (the noise's among them), n rows, and N_s the number of sentences of this size
that were looked at: as if each size were as probable as any other, and each sentence of a size as any other
of it. Scores are of the same rows, and counts of the whole search, before they are compared.
"""

from __future__ import annotations

import abc
import dataclasses
import itertools
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from mercer.distributed import Team
from mercer.gp import Model
from mercer.learning.climb import Recorder, maximise
from mercer.params import flatten
from mercer.progress import Deadline, DeadlineReached, shown, tell
from mercer.structure.grammar import Sentence, Vocabulary, expand
from mercer.structure.parts import Problem, Rows

COARSE, FINE = 256, 1000  # rows of the two rounds
WIDTH = 6  # the best sentences, from which others grow
PATIENCE, LATER = 4, 1  # of these after which nothing better grew; on more rows
LOOK, CLIMB, LAST = 12, 40, 80  # evaluations: of every sentence, of those that may be the best, of the best
CLIMBED = 4  # sentences of a step that are climbed further
HEATS = 2  # starting values of a sentence that are climbed from, at most
CLOSE = 10.0  # nats below the best starting values within which others are climbed from
HIDDEN = ("periodic", "step")  # what a function in the parent explains of them keeps them from being seen
KEPT = 5  # sentences that are looked at on more rows


@dataclasses.dataclass(frozen=True, eq=False)
class Candidate:
    """A sentence with the values learned on some rows, its log evidence there (`value`: and log prior), and
    how many hyperparameters were learned.
    """

    sentence: Sentence
    value: float
    log_evidence: float
    parameters: int
    rows: int

    def score(self, seen: Mapping[int, int]) -> float:
        """What the sentences are compared by, after so many of each size were seen."""
        counted = max(1, seen.get(self.sentence.size, 1))
        return self.log_evidence - 0.5 * self.parameters * math.log(self.rows) - math.log(counted)


class AbstractLanguage(abc.ABC):
    """What sentences mean for some data."""

    vocabulary: Vocabulary

    @abc.abstractmethod
    def model(self, sentence: Sentence) -> Model:
        """The model that a sentence says, bound to the columns, at its values."""

    @abc.abstractmethod
    def learned(self, sentence: Sentence, model: Model) -> Sentence:
        """The sentence with the values of a model made of it."""

    @abc.abstractmethod
    def variants(self, sentence: Sentence, periods: Mapping[int, Sequence[float]]) -> list[Sentence]:
        """The sentence with starting values where it has none, in several ways; periods: likely ones of each
        column.
        """

    @abc.abstractmethod
    def relatives(self, sentence: Sentence) -> list[Sentence]:
        """The sentence with one of its seasons at a multiple or a fraction of the period learned."""

    @abc.abstractmethod
    def units(self, names: Sequence[str]) -> np.ndarray:
        """A step of each hyperparameter (p,) of these names, as learning moves them: 1 for a logarithm."""

    @abc.abstractmethod
    def periods(self, rows: np.ndarray, residual: np.ndarray) -> Mapping[int, Sequence[float]]:
        """Likely periods of each column that may have one, of residuals (m,) at some rows of the data."""


@dataclasses.dataclass(frozen=True, eq=False)
class Found:
    """What a search has seen: candidates of the last round, the best first, with the values learned on its
    `rows` (positions); how many sentences of each size; and why it ended: "complete", "budget", "max-models"
    or "interrupted".
    """

    candidates: tuple[Candidate, ...]
    rows: np.ndarray
    seen: Mapping[int, int]
    ended: str

    @property
    def models(self) -> int:
        """How many sentences were looked at."""
        return sum(self.seen.values())


class Search:
    """A search under way on inputs X (n, d) and targets y (n,).

    >>> found = Search(language, X, y, deadline=Deadline.after("60s")).run()
    """

    def __init__(
        self,
        language: AbstractLanguage,
        X: np.ndarray,
        y: np.ndarray,
        deadline: Deadline | None = None,
        max_models: int | None = None,
        seed: int = 0,
        workers: Team | None = None,
    ):
        self.language, self.y = language, y
        self.deadline, self.max_models, self.workers = deadline, max_models, workers or Team()
        order = np.random.default_rng(seed).permutation(len(y))
        sizes = [COARSE, FINE] if len(y) > 1.25 * COARSE else [len(y)]
        self.rounds = [np.sort(order[: min(size, len(y))]) for size in sizes]
        self.X = X
        self.seen: Counter[int] = Counter()
        self.met: set[Sentence] = set()
        self.doubted: set[Sentence] = set()  # learned once more from other values
        self.best: list[Candidate] = []  # of the round under way, or of the last that ended
        self.rows = self.rounds[0]  # that they are of
        self.ended = "complete"

    def run(self) -> Found:
        """Every round, until nothing better grows, the time is up or Ctrl-C."""
        try:
            self._rounds()
        except DeadlineReached:
            self.ended = "budget"
        except KeyboardInterrupt:
            self.ended = "interrupted"
        if not self.best:
            self._default()
        return Found(tuple(self._ranked(self.best)), self.rows, dict(self.seen), self.ended)

    def _default(self) -> None:
        """One function of all columns, where there was no time for anything."""
        data = _Data(self.language, self.rows, Rows(self.X[self.rows]), self.y[self.rows], None)
        only = self.language.vocabulary.default()
        self.seen = Counter({only.size: 1})
        found = data.learn([only], 1)
        if found is None:
            raise ValueError("no model has an evidence: look at the data for values that are far too large.")
        self.best = [found]

    def _rounds(self) -> None:
        sentences: list[Sentence] = self.language.vocabulary.starts()
        for i, rows in enumerate(self.rounds):
            data = _Data(self.language, rows, Rows(self.X[rows]), self.y[rows], self.deadline)
            candidates: list[Candidate] = []
            if i == 0:
                self.best = candidates
            self._look(data, sentences, LOOK if i == 0 else CLIMB, data.usual, candidates)
            self.best, self.rows = candidates, rows
            self._grow(data, candidates, PATIENCE if i == 0 else LATER)
            sentences = [c.sentence for c in self._ranked(candidates)[:KEPT]]
        self._climb(data, candidates, LAST, 2)
        if self._full:
            self.ended = "max-models"

    def _grow(self, data: _Data, candidates: list[Candidate], patience: int) -> None:
        """Let sentences grow from the best that has not, and in turn from the best without a change, until
        both stay the best: a change explains something of everything, and would hide the rest.
        """
        grown: set[Sentence] = set()
        idle, turn = 0, 0
        self._climb(data, candidates, CLIMB, CLIMBED)
        while idle < patience and not self._full:
            lanes = self._lanes(candidates)
            best = [lane[0].sentence for lane in lanes if lane]
            waiting = [[c for c in lane[:WIDTH] if c.sentence not in grown] for lane in lanes]
            parents = waiting[turn % 2] or waiting[1 - turn % 2]
            if not parents:
                return
            sentence = parents[0].sentence
            grown.add(sentence)
            # changes have many places, and cost the most: only the best sentences have them
            children = expand(sentence, self.language.vocabulary, changes=sentence in best)
            self._again(data, children, candidates)
            known = {c.sentence for c in candidates}
            new = [child for child in children if child not in known]
            self._look(data, new, LOOK, data.hints(parents[0]), candidates)
            self._climb(data, candidates, CLIMB, CLIMBED)
            after = [lane[0].sentence for lane in self._lanes(candidates) if lane]
            idle, turn = 0 if after != best else idle + 1, turn + 1

    def _lanes(self, candidates: list[Candidate]) -> list[list[Candidate]]:
        """The candidates ranked: all, and those without a change."""
        ranked = self._ranked(candidates)
        return [ranked, [c for c in ranked if not c.sentence.changes]]

    def _again(self, data: _Data, children: list[Sentence], candidates: list[Candidate]) -> None:
        """Learn sentences again whose parent's values are a better start than where they ended."""
        where = {c.sentence: i for i, c in enumerate(candidates)}
        for child in children:
            if (i := where.get(child)) is None:
                continue
            start = self.language.variants(child, {})[0]
            if data.problem(start).value() > candidates[i].value:
                better = data.learn([start], LOOK)
                if better is not None and better.value > candidates[i].value:
                    candidates[i] = better
                    data.climbed.discard((child, CLIMB))

    def _climb(self, data: _Data, candidates: list[Candidate], evaluations: int, most: int) -> None:
        """Climb on from the best candidates, once each."""
        for candidate in self._ranked(candidates)[:most]:
            if (candidate.sentence, evaluations) not in data.climbed:
                data.climbed.add((candidate.sentence, evaluations))
                found = [candidate, data.learn([candidate.sentence], evaluations)]
                if candidate.sentence not in self.doubted:
                    self.doubted.add(candidate.sentence)
                    found += self._elsewhere(data, _best(found) or candidate, evaluations)
                candidates[candidates.index(candidate)] = _best(found) or candidate

    def _elsewhere(self, data: _Data, candidate: Candidate, evaluations: int) -> Iterator[Candidate | None]:
        """A sentence learned from other values than those that grew with it: as if it were the first, for
        what a part explained before another came may keep it from its place; and with seasons whose period is
        a multiple or a fraction of the one found, where these come close.
        """
        yield data.learn(self.language.variants(candidate.sentence.bare(), data.usual), evaluations)
        if related := self.language.relatives(candidate.sentence):
            found = data.learn(related, LOOK)
            if found is not None and found.value > candidate.value - CLOSE:
                yield data.learn([found.sentence], evaluations)

    def _look(
        self,
        data: _Data,
        sentences: Iterable[Sentence],
        evaluations: int,
        periods: Mapping[int, Sequence[float]],
        candidates: list[Candidate],
    ) -> None:
        """Learn each sentence for so many evaluations, and put it among the candidates. A sentence counts as
        seen when it is begun.
        """
        counted = self._counted(sentences)
        while some := list(itertools.islice(counted, self.workers.size)):
            tries = [data.tries(sentence, periods) for sentence in some]
            found = data.learn_each(tries, evaluations, self.workers)
            candidates += [c for c in found if c is not None]
            tell(len(self.met), None, self._words())

    def _counted(self, sentences: Iterable[Sentence]) -> Iterator[Sentence]:
        for sentence in sentences:
            if sentence not in self.met:
                if self._full:
                    return
                self.met.add(sentence)
                self.seen[sentence.size] += 1
            yield sentence

    @property
    def _full(self) -> bool:
        return self.max_models is not None and len(self.met) >= self.max_models

    def _ranked(self, candidates: Sequence[Candidate]) -> list[Candidate]:
        return sorted(candidates, key=lambda c: (-c.score(self.seen), str(c.sentence)))

    def _words(self) -> str:
        best = f", best so far: {self._ranked(self.best)[0].sentence}" if self.best else ""
        return f"{len(self.met)} models{best}"


class _Data:
    """Some rows, and the sentences that were climbed far on them."""

    def __init__(
        self,
        language: AbstractLanguage,
        where: np.ndarray,
        rows: Rows,
        y: np.ndarray,
        deadline: Deadline | None,
    ):
        self.language, self.where, self.rows, self.y, self.deadline = language, where, rows, y, deadline
        self.climbed: set[tuple[Sentence, int]] = set()
        self.usual = language.periods(where, y - np.mean(y))

    def problem(self, sentence: Sentence) -> Problem:
        """Its evidence on these rows."""
        return Problem(self.language.model(sentence), self.rows, self.y, self.deadline)

    def tries(self, sentence: Sentence, periods: Mapping[int, Sequence[float]]) -> list[Sequence[Sentence]]:
        """Starting values of a sentence; of one with a new season or step a second set."""
        starts: list[Sequence[Sentence]] = [self.language.variants(sentence, periods)]
        if any(p.kind in HIDDEN and not p.values for p in sentence.parts):
            starts.append(self.language.variants(sentence.bare(), self.usual))
        return starts

    def learn_each(
        self, tries: Sequence[Sequence[Sequence[Sentence]]], evaluations: int, workers: Team
    ) -> list[Candidate | None]:
        """The best that is reached from each of the sets of starting values, by one of the workers."""
        if workers.here:
            found = [[self.learn(starts, evaluations) for starts in each] for each in tries]
        else:
            jobs = [{"tries": [self._models(starts) for starts in each]} for each in tries]
            shared = {"X": self.rows.X, "y": self.y, "evaluations": evaluations}
            shared["seconds"] = None if self.deadline is None else self.deadline.left()
            names = [f"the model {each[0][0]}" for each in tries]
            with shown("", False):  # the search says itself how far it is
                answers = workers.map(climb_each, jobs, shared, names)
            found = [
                [self._candidate(starts, top) for starts, top in zip(each, tops, strict=True)]
                for each, tops in zip(tries, answers, strict=True)
            ]
        return [_best(some) for some in found]

    def learn(self, starts: Sequence[Sentence], evaluations: int) -> Candidate | None:
        """The best that is reached from some of the starting values; None where none has an evidence."""
        top = climb(self._models(starts), self.rows, self.y, evaluations, self.deadline)
        return self._candidate(starts, top)

    def _models(self, starts: Sequence[Sentence]) -> list[dict[str, Any]]:
        """What `climb` takes of each start."""
        models = [self.language.model(start) for start in starts]
        return [{"model": m, "units": self.language.units(flatten(m).names)} for m in models]

    def _candidate(self, starts: Sequence[Sentence], top: dict[str, Any] | None) -> Candidate | None:
        if top is None:
            return None
        best = flatten(self.language.model(starts[top["start"]])).unflatten(top["vector"])
        sentence = self.language.learned(starts[0], best)
        return Candidate(sentence, top["value"], top["log_evidence"], len(top["vector"]), len(self.y))

    def hints(self, parent: Candidate) -> Mapping[int, Sequence[float]]:
        """Likely periods: those of what the parent leaves over, then those of y."""
        problem = self.problem(parent.sentence)
        found, noise, _ = problem.solve(problem.model)
        own = self.language.periods(self.where, found.alpha / noise.precision)
        return {c: [*own[c][:2], *self.usual[c]] for c in own}


def _best(candidates: Iterable[Candidate | None]) -> Candidate | None:
    return max((c for c in candidates if c is not None), key=lambda c: c.value, default=None)


def climb(
    starts: Sequence[Mapping[str, Any]],
    rows: Rows,
    y: np.ndarray,
    evaluations: int,
    deadline: Deadline | None,
) -> dict[str, Any] | None:
    """The best end of climbs from the most promising of the models; None where none has an evidence."""
    problems = {i: Problem(start["model"], rows, y, deadline) for i, start in enumerate(starts)}
    if len(problems) > 1:
        values = np.array([p.value() for p in problems.values()])
        order = np.argsort(-values, kind="stable")[:HEATS]
        problems = {int(i): problems[int(i)] for i in order if values[i] > values[order[0]] - CLOSE}
    best: dict[str, Any] | None = None
    for i, problem in problems.items():
        with shown("", False):
            recorder, units = Recorder(len(y)), np.diag(starts[i]["units"])
            start = problem.flat.vector
            top = maximise(problem, start, "", recorder, units, ftol=1e-6, max_evaluations=evaluations)
        if np.isfinite(top.value) and (best is None or top.value > best["value"]):
            best = {"start": i, "vector": top.vector, "value": top.value, "log_evidence": top.objective}
    return best


def climb_each(
    X: np.ndarray, y: np.ndarray, evaluations: int, seconds: float | None, tries: list[list[dict[str, Any]]]
) -> list[dict[str, Any] | None]:
    """A job: `climb` of each set of starting values of one sentence."""
    rows, deadline = Rows(X), None if seconds is None else Deadline.after(max(seconds, 1e-3))
    return [climb(starts, rows, y, evaluations, deadline) for starts in tries]


def left_out(problem: Problem) -> np.ndarray:
    """Log density of each target (n,) given all others, hyperparameters held (5.10-5.12); where noise is not
    Gaussian, that of the other rows' sites.
    """
    found, noise, _ = problem.solve(problem.model)
    kappa = np.diagonal(found.R)
    latent = np.maximum(1.0 / kappa - 1.0 / noise.precision, 0.0)
    mean = problem.y - found.alpha / kappa
    return np.asarray(problem.model.likelihood.log_density(problem.y, mean, latent), float)


__all__ = ["AbstractLanguage", "Candidate", "Found", "Search", "left_out"]
