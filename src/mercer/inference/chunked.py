"""Exact inference on rows in chunks, with a low-rank solver: two passes.

Each chunk sums up what its rows say of the m weights (`summarise`); the sums of all give the core, and the
log evidence. Then each chunk, given the core, says its part of the gradient (`pull`), and the part of K_mm is
added once. All that is of rows stays with them: what crosses is m x m numbers each way, whatever n is.

The two functions run where a chunk is; see `mercer.distributed.chunks`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import numpy as np

from mercer.distributed.chunks import AbstractExecutor, Sums, tree_sum
from mercer.inference.exact import gaussian_sites
from mercer.inference.gradient import prior_gradient
from mercer.inputs import AbstractSource, Chunk
from mercer.persist import Parcel
from mercer.solvers.inducing import Inducing
from mercer.solvers.lowrank_core import Core, pull_inducing
from mercer.solvers.protocol import PriorBar, SolverError

__all__ = ["evidence", "evidence_and_gradient", "pull", "summarise"]

PIECE_BYTES = 64 * 2**20  # of features that are held at a time
_LOG_2PI = float(np.log(2 * np.pi))


def evidence(
    executor: AbstractExecutor, source: AbstractSource, reader: Any, model: Any, solver: Any
) -> tuple[float, Core]:
    """The log evidence of all rows, and what they say together."""
    check(model, solver)
    sums = executor.sum(summarise, source, [Parcel(reader, model, solver)])
    if not sums:
        raise SolverError("there are no rows: all chunks are empty.")
    rest = sums.pop("rest")
    core = Core(**sums)
    return core.log_normaliser(solver.rest_in_bound) + rest - 0.5 * core.n * _LOG_2PI, core


def evidence_and_gradient(
    executor: AbstractExecutor, source: AbstractSource, reader: Any, model: Any, solver: Any
) -> tuple[float, dict[str, np.ndarray], Core]:
    """The log evidence, its derivatives by dotted name, and the core."""
    value, core = evidence(executor, source, reader, model, solver)
    fields = {field.name: getattr(core, field.name) for field in dataclasses.fields(core)}
    gradient = executor.sum(pull, source, [Parcel(reader, model, solver), fields])
    inner = gradient.pop("inner", None)
    inducing = Inducing(model.gp.kernel, solver.inducing, 256, solver.jitter)
    kernel, Z_bar = pull_inducing(solver, inducing, core, inner)
    at_Z = prior_gradient(model, PriorBar(kernel, (), Z_bar))
    for name, bar in at_Z.items():
        gradient[name] = gradient[name] + bar if name in gradient else bar
    return value, gradient, core


def check(model: Any, solver: Any) -> None:
    """Refuse what is not a sum over chunks."""
    if model.gp.basis is not None:
        raise SolverError("basis functions do not go with data in chunks: add a linear kernel instead.")
    if model.likelihood.per_datum:
        raise SolverError("what is known of each row (weights, errors) does not go with data in chunks.")
    if not np.all(np.asarray(model.likelihood.variances) > 0):
        raise SolverError("data in chunks need noise: a noise variance above zero.")


def summarise(chunk: Chunk, parcel: Parcel) -> Sums:
    """What the rows of a chunk add to the core, and to what else is in the log evidence (`rest`)."""
    reader, model, solver = parcel.values

    def sums() -> Iterator[Sums]:
        for X, y in _pieces(chunk, reader, model, solver):
            sites, _ = gaussian_sites(model, X, y)
            state = solver.part(model.gp, X, sites)
            rest = 0.5 * float(np.sum(np.log(sites.precision))) + float(model.likelihood.log_jacobian(y))
            yield {field.name: getattr(state.core, field.name) for field in dataclasses.fields(Core)} | {
                "rest": rest
            }

    return tree_sum(sums())


def pull(chunk: Chunk, parcel: Parcel, fields: dict[str, Any]) -> Sums:
    """What the rows of a chunk say of the gradient, given the core of all, by dotted name."""
    reader, model, solver = parcel.values
    core = Core(**fields)

    def parts() -> Iterator[Sums]:
        for X, y in _pieces(chunk, reader, model, solver):
            sites, _ = gaussian_sites(model, X, y)
            part = solver.part(model.gp, X, sites, core).pull_part()
            W = np.asarray(sites.precision[:, 0])
            noise_bar = -(np.asarray(part.sites.precision[:, 0]) + 0.5 / W) * W**2
            by_noise = model.likelihood.pull(noise_bar, y, part.sites.centre, 1.0)
            said = prior_gradient(model, PriorBar(part.kernel, part.mean, part.inducing))
            said |= {f"likelihood.{name}": bar for name, bar in by_noise.items()}
            yield said | ({} if part.inner is None else {"inner": part.inner})

    return tree_sum(parts())


def _pieces(chunk: Chunk, reader: Any, model: Any, solver: Any) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Inputs and encoded targets of a chunk, a bounded number of rows at a time."""
    X, y = reader.read(chunk)
    if len(y) == 0:
        return
    y = chunk.checked(lambda: model.likelihood.encode(y))
    rows = max(512, int(PIECE_BYTES / (8.0 * solver.m)) // 512 * 512)
    for first in range(0, len(y), rows):
        yield X[first : first + rows], y[first : first + rows]
