"""Learning from data in chunks, which need not fit into memory: what must be chosen by looking at data is
chosen by a sample of the rows, then the objective of all of them is climbed, one pass over the chunks after
the other.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import numpy as np

from mercer.columns import Reader
from mercer.distributed.chunks import AbstractExecutor
from mercer.distributed.parcel import Parcel
from mercer.gp import Model
from mercer.inference import members
from mercer.inference.chunked import check, check_noise, evidence, evidence_and_gradient, read
from mercer.inference.ep import in_chunks
from mercer.inference.exact import gaussian_sites
from mercer.inference.members import MembersState
from mercer.inference.protocol import AbstractSiteRule, Result, site_rule
from mercer.inputs import AbstractSource, Chunk, Inputs
from mercer.inputs.sources import agreed, cut
from mercer.learning.by_gradient import gradient_of, nowhere_finite, settled, status_of, warn_of_end
from mercer.learning.checkpoint import Checkpoint, Journal, fingerprint
from mercer.learning.climb import Optimum, Recorder
from mercer.learning.inducing import move_inducing
from mercer.learning.problem import LearningProblem
from mercer.learning.result import Fit
from mercer.learning.search import Found, climb_near, search
from mercer.learning.task import KEEPS, Task
from mercer.linalg.cholesky import NotPositiveDefinite
from mercer.params import Flattened, flatten
from mercer.posteriors.answers import InferenceStatus
from mercer.posteriors.gaussian import GaussianPosterior
from mercer.posteriors.source import Made
from mercer.progress import STOPPED, announce, shown
from mercer.solvers.chunked import InChunks, stand_in
from mercer.solvers.protocol import Sites, SolverError

SAMPLE = 20_000  # rows by which everything is chosen that is chosen before learning
KEPT = 1000  # rows that a posterior keeps, for what is asked of single rows


@dataclasses.dataclass(frozen=True, eq=False)
class Surveyed(AbstractSource):
    """A source that was gone through once, which `mercer.fit` does not do again: how its chunks are read, how
    many rows each has, and a sample of the rows, at random and in their order: inputs, targets, and their
    numbers among all (k,).
    """

    source: AbstractSource
    executor: AbstractExecutor
    reader: Reader
    sizes: tuple[int, ...]
    inputs: Inputs
    y: np.ndarray
    rows: np.ndarray

    def __len__(self) -> int:
        return len(self.source)

    def load(self, i: int) -> Chunk:
        return self.source.load(i)

    @property
    def mark(self) -> str:
        return self.source.mark

    @property
    def n(self) -> int:
        """Rows in all chunks."""
        return sum(self.sizes)

    def targets(self, likelihood: Any) -> np.ndarray:
        """All targets (n,), as the likelihood encodes them."""
        shared = [Parcel(self.reader, likelihood)]
        return np.concatenate(self.executor.map(_targets, self.source, shared))


# ------------------------------------------------------------------------------------------------- one pass


def survey(
    source: AbstractSource,
    executor: AbstractExecutor,
    objects: bool = False,
    size: int = SAMPLE,
    seed: int = 0,
) -> Surveyed:
    """Go through the chunks once, for their sizes and columns; then for a sample of `size` rows. What is
    wrong with a chunk is found here, and named.
    """
    sizes, names, d = agreed(source, executor.map(_look, source, [objects]))
    reader = Reader(names, d, objects)
    return sampled(source, executor, reader, sizes, size, seed)


def sampled(
    source: AbstractSource,
    executor: AbstractExecutor,
    reader: Reader,
    sizes: tuple[int, ...],
    size: int,
    seed: int,
) -> Surveyed:
    """A source whose columns and sizes are known, with a sample of its rows."""
    n = sum(sizes)
    rows = np.sort(np.random.default_rng(seed).choice(n, min(size, n), replace=False))
    X, y = zip(*executor.map(_take, source, [Parcel(reader)], cut(rows, sizes)), strict=True)
    named = reader.names if reader.columns is None else reader.columns.encoded_names
    kept = [x for x in X if len(x)]
    return Surveyed(
        source, executor, reader, sizes, Inputs(np.concatenate(kept), named), np.concatenate(y), rows
    )


def _look(chunk: Chunk, objects: bool) -> tuple[int, tuple[str, ...] | None, int]:
    inputs, y = chunk.numbers(objects=objects)
    return len(y), inputs.names, inputs.values.shape[1]


def _take(chunk: Chunk, rows: np.ndarray, parcel: Parcel) -> tuple[np.ndarray, np.ndarray]:
    (reader,) = parcel.values
    if not len(rows):
        return np.zeros((0, reader.d)), np.zeros(0)
    X, y = reader.read(chunk)
    return X[rows], y[rows]


def _targets(chunk: Chunk, parcel: Parcel) -> np.ndarray:
    return read(chunk, *parcel.values)[1]


# ------------------------------------------------------------------------------------------------- learning


def learn(task: Task, seen: Surveyed) -> Fit:
    """The hyperparameters of the highest evidence of all rows, and the posterior there. `task` is of the
    sample.
    """
    rule = site_rule(task.rule)
    if task.objective != "evidence":
        raise ValueError("data in chunks are learned by the evidence: use objective='evidence'.")
    with shown("fitting", task.progress, KEEPS):
        recorder = Recorder(len(seen.y))
        if task.checkpoint is not None:
            recorder.journal = Journal(Checkpoint(task.checkpoint, _mark(task, seen)))
        try:
            problem, found = _climbed(task, rule, seen, recorder)
        finally:  # also where the cluster is gone
            if recorder.journal is not None:
                recorder.journal.write()
        best = found.best
        if not np.isfinite(best.value):
            raise nowhere_finite(problem.part, best)
    fitted = problem.flat.unflatten(best.vector)
    with shown("conditioning", task.progress):
        posterior = problem.posterior(fitted, rule)
    status = status_of(problem.part, found, recorder)
    warn_of_end(problem.part, best, status, task.max_evaluations, [posterior])
    return Fit(
        fitted,
        posterior,
        recorder.history,
        status,
        "evidence",
        best.objective,
        best.value - best.objective,
        dict(zip(problem.flat.names, gradient_of(best), strict=True)),
    )


def _climbed(
    task: Task, rule: AbstractSiteRule, seen: Surveyed, recorder: Recorder
) -> tuple[ChunkedProblem, Found]:
    """The objective of all rows, and its highest point: the climb begins where one on the sample ended."""
    part, candidates, interrupted = settled(task, rule, recorder)
    problem: Any = ChunkedProblem(task.model, seen, part.rule, part.solver, part, task.jacobian)
    vector, ends = next(iter(candidates.vectors.values())), {}
    if not interrupted and task.max_evaluations and problem.flat.vector.size:
        on_sample = search(part, candidates, recorder, task.seed, task.max_evaluations)
        vector, ends, interrupted = on_sample.best.vector, on_sample.ends, on_sample.interrupted
    part.release()
    recorder.size, recorder.foresight, recorder.highest = problem.size, None, -np.inf
    announce(f"{problem.size:,} rows in {len(seen.sizes)} chunks: begun on {len(seen.y):,} of them")
    if interrupted or not task.max_evaluations or not problem.flat.vector.size:
        best = Optimum(vector, *recorder.ask(problem, vector, "given"), expected_gain=0.0, size=problem.size)
        return problem, Found(best, ends, interrupted)
    try:
        best = climb_near(problem, vector, "sample", recorder, task.max_evaluations)
        if problem.solver.inducing_to_learn() is not None:
            best, Z = move_inducing(problem, best, recorder, task.max_evaluations)
            problem.solver = problem.solver.with_inducing(Z, learn=False)
    except STOPPED:
        best = recorder.best if recorder.best is not None else Optimum(vector)
        interrupted = True
        if best.size != problem.size:
            value, gradient, objective = problem.value_and_gradient(best.vector)
            best = Optimum(best.vector, value, gradient, objective, size=problem.size)
    return problem, Found(best, ends | {"all": best.value}, interrupted)


def _mark(task: Task, seen: Surveyed) -> str:
    """What must be the same for a fit to go on."""
    data = (seen.source.mark, seen.sizes, seen.inputs.values, seen.y)
    return fingerprint(task.model, data, task.rule, task.solver, task.seed, task.jacobian, "chunks")


@dataclasses.dataclass(eq=False)
class ChunkedProblem:
    """The log evidence of all rows, with the log prior, as a function of the unconstrained vector; `part` is
    the same problem on the sample.
    """

    model: Model
    seen: Surveyed
    rule: AbstractSiteRule
    solver: Any
    part: LearningProblem
    jacobian: bool = False

    def __post_init__(self) -> None:
        self.flat: Flattened = flatten(self.model)
        self.by_name: dict[str, np.ndarray] = {}  # of the last evaluation
        self.workspaces: list[Any] = [None]
        check(self.model)
        kind = self.solver.in_chunks
        if kind is None:
            raise SolverError(
                f"{type(self.solver).__name__} does not work on data in chunks: use solvers.VFE(m=512), "
                "FITC, ProjectedProcess or Committee."
            )
        if kind == "sums" and self.rule.fixed_sites:
            check_noise(self.model)

    @property
    def data(self) -> list[tuple[Inputs, np.ndarray]]:
        """The sample."""
        return self.part.data

    @property
    def size(self) -> int:
        return self.seen.n

    @functools.cached_property
    def mark(self) -> str:
        """Of its data, to tell it from problems on other rows."""
        return fingerprint(self.seen.source.mark, self.seen.sizes)

    @property
    def smooth(self) -> bool:
        return self.part.smooth

    def open(self, vector: np.ndarray) -> None:
        """Nothing is kept between evaluations but what a rule remembers."""

    def subset(self, size: int, seed: int) -> LearningProblem:
        """The same problem on some rows of the sample."""
        self.part.solver = self.solver
        return self.part.subset(size, seed) if size < self.part.size else self.part

    def release(self) -> None:
        """Forget what a rule remembers."""
        self.workspaces = [None]

    def value_and_gradient(self, vector: np.ndarray) -> tuple[float, np.ndarray, float]:
        """Objective plus log prior, its gradient, and the objective alone; (-inf, zeros, -inf) where the
        model cannot be factored.
        """
        failed = (-np.inf, np.zeros_like(vector), -np.inf)
        if not np.isfinite(vector).all() or np.abs(vector).max(initial=0.0) > 300.0:
            return failed
        try:
            with np.errstate(all="ignore"):
                value, self.by_name = self._evidence(self.flat.unflatten(vector))
        except NotPositiveDefinite:
            return failed
        prior, prior_gradient = self.flat.log_prior(vector, self.jacobian)
        gradient = self.flat.pull(self.by_name, vector) + prior_gradient
        if not np.isfinite(value + prior) or not np.isfinite(gradient).all():
            return failed
        return float(value + prior), gradient, float(value)

    def _evidence(self, model: Model) -> tuple[float, dict[str, np.ndarray]]:
        seen = self.seen
        if self.solver.in_chunks == "members":
            parcel = Parcel(seen.reader, model, self.solver, self.rule)
            said = seen.executor.sum(members.evidence_and_gradient, seen.source, [parcel])
            return float(said["log evidence"]), said["gradient"]
        if self.rule.fixed_sites:
            value, gradient, _ = evidence_and_gradient(
                seen.executor, seen.source, seen.reader, model, self.solver
            )
            return value, gradient
        if self.rule.sweeps(model):
            swept = self._sweep(model, self.rule)
            return swept.log_evidence, swept.gradient()
        result = self._run(model, self.rule)
        return result.log_evidence, self.rule.gradient(model, self._targets, result)

    def _sweep(self, model: Model, rule: AbstractSiteRule) -> in_chunks.Swept:
        """A rule whose sites stay with their rows."""
        seen = self.seen
        return in_chunks.run(seen.executor, seen.source, seen.reader, model, self.solver, rule)

    @functools.cached_property
    def _targets(self) -> np.ndarray:
        return self.seen.targets(self.model.likelihood)

    def _run(self, model: Model, rule: AbstractSiteRule) -> Result:
        """A rule that looks for its sites: these are here, features where the rows are."""
        seen = self.seen
        solver = InChunks(self.solver, seen.source, seen.executor, seen.reader, seen.sizes)
        X = stand_in(seen.n, seen.inputs.values.shape[1])
        if self.workspaces[0] is None:
            self.workspaces[0] = solver.workspace(model.priors, X)
        self.workspaces[0].move_inducing(self.solver.inducing_inputs())
        return rule.run(model, X, self._targets, solver, self.workspaces[0])

    def posterior(self, model: Model, rule: AbstractSiteRule) -> GaussianPosterior:
        """That of all rows, of which a few are kept."""
        seen = self.seen
        rows = kept(seen)
        inputs, y = seen.inputs.at(rows), model.likelihood.encode(seen.y[rows])
        status, notes = InferenceStatus(), tuple[str, ...]()
        said = f"fitted to {self.size:,} rows in {len(seen.sizes)} chunks, of which {len(y):,} are kept"
        if self.solver.in_chunks == "members":
            parcel = Parcel(seen.reader, model, self.solver, rule)
            nothing = Sites(np.zeros((len(y), 1)), np.zeros((len(y), 1)))
            all_ = MembersState(seen.executor, seen.source, parcel, inputs.values, nothing)
            value = all_.log_evidence
            return GaussianPosterior(model, inputs, y, Made(all_), value, (*notes, said), status, self.solver)
        if rule.fixed_sites:
            value, whole = evidence(seen.executor, seen.source, seen.reader, model, self.solver)
            solver: Any = whole.condensed()
            sites, _ = gaussian_sites(model, inputs.values, y)
        elif rule.sweeps(model):
            swept = self._sweep(model, rule)
            value, status, notes = swept.log_evidence, swept.status, swept.notes
            solver, sites = swept.whole.condensed(), swept.sites(cut(seen.rows[rows], seen.sizes))
        else:
            result = self._run(model, rule)
            value, status, notes = result.log_evidence, result.status, result.notes
            solver, sites = result.state.condensed(), _at(result.state.sites, seen.rows[rows])
        state = solver.factor(model.priors, inputs.values, sites)
        return GaussianPosterior(
            model, inputs, y, Made(state), value, (*notes, *state.notes, said), status, solver
        )


def kept(seen: Surveyed) -> np.ndarray:
    """Which rows of the sample a posterior keeps."""
    return np.linspace(0, len(seen.y) - 1, min(KEPT, len(seen.y))).astype(int)


def _at(sites: Any, rows: np.ndarray) -> Any:
    """Some of the sites."""
    cut = {f.name: getattr(sites, f.name) for f in dataclasses.fields(sites)}
    return type(sites)(**{name: None if a is None else np.asarray(a)[rows] for name, a in cut.items()})
