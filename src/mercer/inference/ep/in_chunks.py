"""EP on rows in chunks: sites stay with their rows from sweep to sweep, and only sums cross.

A sweep is one pass. What all rows say together, m x m numbers, goes to each chunk; there the sites of its
rows take a step (`OneLatent.point`, on a solver that has seen all rows), and what they then say is summed up,
with how far they were from their fixed point. For log-concave likelihoods, where every precision is positive.

A run begins without sites, wherever the last one ended: the evidence depends on the hyperparameters alone,
and what a lost worker held is found again by the sweeps of this run.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import numpy as np

from mercer.distributed.chunks import AbstractExecutor, Sums, add, tree_sum
from mercer.distributed.parcel import Parcel
from mercer.inference import pointwise
from mercer.inference.chunked import read
from mercer.inference.ep.point import OneLatent, Point
from mercer.inference.gradient import prior_gradient
from mercer.inputs import AbstractSource, Chunk
from mercer.posteriors.answers import InferenceStatus
from mercer.posteriors.cavity import cavity
from mercer.progress import keep_time
from mercer.solvers.protocol import AbstractSolver, AbstractWhole, Sites, SolverError

PIECE = 16_384  # rows whose features are held at a time


@dataclasses.dataclass(frozen=True, eq=False)
class Swept:
    """Where EP ended: what all rows say together, the sites of each chunk, where they are, and the log
    evidence.
    """

    executor: AbstractExecutor
    source: AbstractSource
    parcel: Parcel
    whole: AbstractWhole
    sums: Sums
    held: Any
    log_evidence: float
    status: InferenceStatus

    @property
    def notes(self) -> tuple[str, ...]:
        if self.status.converged:
            return ()
        return (f"EP did not converge ({self.status.message}) in {self.status.iterations} sweeps",)

    def gradient(self) -> dict[str, np.ndarray]:
        """Derivatives of the log evidence by dotted name, the sites held (5.23): one more pass."""
        _, model, _, _ = self.parcel.values
        said = self.executor.sum(pull, self.source, [self.parcel, self.sums], self.held)
        return add(said["gradient"], prior_gradient(model, self.whole.rest(model.gp, said["rest"])))

    def sites(self, rows: list[np.ndarray]) -> Sites:
        """Those of some rows of each chunk."""
        parts = self.executor.map(_at, self.source, [rows], self.held)
        return _sites(np.concatenate(parts))


def run(
    executor: AbstractExecutor,
    source: AbstractSource,
    reader: Any,
    model: Any,
    solver: AbstractSolver,
    rule: Any,
) -> Swept:
    """Sweeps until sites change by no more than `rule.tol`, all of them together, in units of the marginals'
    deviations. The step is shortened when changes grow, as in `Parallel`.
    """
    parcel = Parcel(reader, model, solver, rule)
    held, sums = executor.carry(begin, source, [parcel])
    if not sums:
        raise SolverError("there are no rows: all chunks are empty.")
    last, step, sweep = np.inf, rule.damping, 0
    for sweep in range(1, rule.max_iterations + 1):  # noqa: B007
        keep_time()
        moved, said = executor.carry(take_step, source, [parcel, sums, step], held)
        change, improper = float(np.sqrt(said["squares"])), said["improper"]
        if change <= rule.tol and not improper:
            break
        if change > last:
            step = max(0.5 * step, 0.02)
        elif change < (1.0 - 0.4 * step) * last:
            step = min(1.2 * step, rule.damping)
        last = change
        held_before, sums_before, held, sums = held, sums, moved, said["sums"]
    else:
        held, sums = held_before, sums_before  # to which what was said belongs
    whole = solver.whole(sums)
    value = whole.log_normaliser + said["log scale"]
    converged = bool(change <= rule.tol and not improper and np.isfinite(value))
    status = InferenceStatus(converged, sweep, f"parallel, last change {change:.1e}")
    return Swept(executor, source, parcel, whole, sums, held, value, status)


# ---------------------------------------------------------------------------------------- where a chunk is


def begin(chunk: Chunk, held: None, parcel: Parcel) -> tuple[np.ndarray, Sums]:
    """No sites: centres at the prior mean, precisions and slopes of zero, in three columns."""
    reader, model, solver, _ = parcel.values
    X, y = read(chunk, reader, model.likelihood)
    if not len(y):
        return np.zeros((0, 3)), {}
    nothing = np.zeros((len(y), 3))
    nothing[:, 0] = model.gp.mean.value(X)
    return nothing, solver.sums(model.gp, X, _sites(nothing))


def take_step(
    chunk: Chunk, held: np.ndarray, parcel: Parcel, sums: Sums, step: float
) -> tuple[np.ndarray, Sums]:
    """The sites of a chunk moved by a step towards those that match moments, and what they then say; with
    how far they were from them, and the log of their scales.
    """
    _, model, solver, _ = parcel.values
    moved, said = [np.zeros((0, 3))], []
    for X, point in _points(chunk, held, parcel, sums):
        new = point.moved(step)
        moved.append(np.concatenate([new.centre, new.precision, new.slope], 1))
        unit = point.variance
        squares = np.sum((point.dW * unit) ** 2) + np.sum(point.dg**2 * unit)
        numbers = {
            "squares": float(squares),
            "improper": 0 if point.proper else 1,
            "log scale": point.log_scale,
        }
        said.append({"sums": solver.sums(model.gp, X, new), **numbers})
    return np.concatenate(moved), tree_sum(said)


def pull(chunk: Chunk, held: np.ndarray, parcel: Parcel, sums: Sums) -> Sums:
    """What the rows of a chunk say of the gradient, and for what is added once."""
    _, model, solver, rule = parcel.values
    whole = solver.whole(sums)
    said: list[Sums] = [{"gradient": {}, "rest": {}}]
    for X, y, sites in _pieces(chunk, held, parcel):
        c = cavity(whole.condensed().factor(model.gp, X, sites), rule.power)
        by_name = pointwise.pull_partition(model.likelihood, y, c.mean, c.variance, rule.power)
        bar, rest = whole.pull(model.gp, X, sites)
        gradient = prior_gradient(model, bar.prior)
        said.append(
            {"gradient": gradient | {name: v / rule.power for name, v in by_name.items()}, "rest": rest}
        )
    return tree_sum(said)


def _points(chunk: Chunk, held: np.ndarray, parcel: Parcel, sums: Sums) -> Iterator[tuple[np.ndarray, Point]]:
    """A bounded number of rows at a time, and how EP would change their sites given what all rows say."""
    _, model, solver, rule = parcel.values
    seen = solver.whole(sums).condensed()
    for X, y, sites in _pieces(chunk, held, parcel):
        problem = OneLatent(model, X, y, seen, seen.workspace(model.gp, X), rule.power)
        yield X, problem.point(sites)


def _pieces(chunk: Chunk, held: np.ndarray, parcel: Parcel) -> Iterator[tuple[np.ndarray, np.ndarray, Sites]]:
    reader, model, _, _ = parcel.values
    X, y = read(chunk, reader, model.likelihood)
    for first in range(0, len(y), PIECE):
        rows = slice(first, first + PIECE)
        yield X[rows], y[rows], _sites(held[rows])


def _sites(held: np.ndarray) -> Sites:
    return Sites(held[:, [0]], held[:, [1]], held[:, [2]])


def _at(chunk: Chunk, held: np.ndarray, rows: list[np.ndarray]) -> np.ndarray:
    return held[rows[chunk.number]]
