"""Exact inference on rows in chunks, with a solver whose answers are sums over rows: two passes.

Each chunk sums up what its rows say (`summarise`), m x m numbers with m inducing inputs; the sums of all give
the log evidence. Then each chunk, given them, says its part of the gradient (`pull`), and what belongs to no
row is added once. All that is of rows stays with them: what crosses does not grow with n.

The two functions run where a chunk is; see `mercer.distributed.chunks`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer.distributed.chunks import AbstractExecutor, Sums, add
from mercer.distributed.parcel import Parcel
from mercer.inference.exact import gaussian_sites
from mercer.inference.gradient import prior_gradient
from mercer.inputs import AbstractSource, Chunk
from mercer.solvers.protocol import AbstractSolver, AbstractWhole, SolverError

__all__ = ["check", "check_noise", "evidence", "evidence_and_gradient", "pull", "read", "summarise"]

_LOG_2PI = float(np.log(2 * np.pi))
REST = "rest of the log evidence"  # beside the log normaliser


def evidence(
    executor: AbstractExecutor, source: AbstractSource, reader: Any, model: Any, solver: AbstractSolver
) -> tuple[float, AbstractWhole]:
    """The log evidence of all rows, and what they say together."""
    value, whole, _ = _first_pass(executor, source, Parcel(reader, model, solver))
    return value, whole


def evidence_and_gradient(
    executor: AbstractExecutor, source: AbstractSource, reader: Any, model: Any, solver: AbstractSolver
) -> tuple[float, dict[str, np.ndarray], AbstractWhole]:
    """The log evidence, its derivatives by dotted name, and what all rows say together."""
    parcel = Parcel(reader, model, solver)
    value, whole, sums = _first_pass(executor, source, parcel)
    said = executor.sum(pull, source, [parcel, sums])
    gradient, rest = said["gradient"], said["rest"]
    return value, add(gradient, prior_gradient(model, whole.rest(model.gp, rest))), whole


def _first_pass(
    executor: AbstractExecutor, source: AbstractSource, parcel: Parcel
) -> tuple[float, AbstractWhole, Sums]:
    _, model, solver = parcel.values
    check(model)
    check_noise(model)
    sums = executor.sum(summarise, source, [parcel])
    if not sums:
        raise SolverError("there are no rows: all chunks are empty.")
    rest = sums.pop(REST)
    whole = solver.whole(sums)
    return whole.log_normaliser + rest - 0.5 * whole.n * _LOG_2PI, whole, sums


def check(model: Any) -> None:
    """Refuse what is not a sum over chunks."""
    if not isinstance(model.gp, tuple) and model.gp.basis is not None:
        raise SolverError("basis functions do not go with data in chunks: add a linear kernel instead.")
    if model.likelihood.per_datum:
        raise SolverError("what is known of each row (weights, errors) does not go with data in chunks.")


def check_noise(model: Any) -> None:
    """Refuse sites without end."""
    if not np.all(np.asarray(model.likelihood.variances) > 0):
        raise SolverError("data in chunks need noise: a noise variance above zero.")


def summarise(chunk: Chunk, parcel: Parcel) -> Sums:
    """What the rows of a chunk add to the sums of the solver, and to what else is in the log evidence."""
    reader, model, solver = parcel.values
    X, y = read(chunk, reader, model.likelihood)
    if not len(y):
        return {}
    sites, _ = gaussian_sites(model, X, y)
    rest = 0.5 * float(np.sum(np.log(sites.precision))) + float(model.likelihood.log_jacobian(y))
    return {**solver.sums(model.gp, X, sites), REST: rest}


def pull(chunk: Chunk, parcel: Parcel, sums: Sums) -> Sums:
    """What the rows of a chunk say of the gradient, given the sums of all, by dotted name; and what they say
    for what is added once.
    """
    reader, model, solver = parcel.values
    X, y = read(chunk, reader, model.likelihood)
    if not len(y):
        return {"gradient": {}, "rest": {}}
    sites, _ = gaussian_sites(model, X, y)
    bar, rest = solver.whole(sums).pull(model.gp, X, sites)
    W = np.asarray(sites.precision[:, 0])
    noise_bar = -(np.asarray(bar.sites.precision[:, 0]) + 0.5 / W) * W**2
    by_noise = model.likelihood.pull(noise_bar, y, bar.sites.centre, 1.0)
    gradient = prior_gradient(model, bar.prior) | {f"likelihood.{name}": v for name, v in by_noise.items()}
    return {"gradient": gradient, "rest": rest}


def read(chunk: Chunk, reader: Any, likelihood: Any) -> tuple[np.ndarray, np.ndarray]:
    """Inputs and encoded targets of a chunk."""
    X, y = reader.read(chunk)
    return X, chunk.checked(lambda: likelihood.encode(y)) if len(y) else y
