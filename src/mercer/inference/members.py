"""A committee whose members are in chunks: each sees the rows of one chunk, and all are asked for every
prediction, where they are.
"""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np

from mercer.distributed.chunks import AbstractExecutor, Sums
from mercer.distributed.parcel import Parcel
from mercer.inference.chunked import read
from mercer.inputs import AbstractSource, Chunk
from mercer.solvers.protocol import AbstractState, Bars, Cotangents, SolverError

__all__ = ["MembersState", "answer", "evidence_and_gradient"]


def evidence_and_gradient(chunk: Chunk, parcel: Parcel) -> Sums:
    """What the members on a chunk add to log evidence and gradient."""
    reader, model, solver, rule = parcel.values
    X, y = read(chunk, reader, model.likelihood)
    if not len(y):
        return {}
    result = rule.run(model, X, y, solver)
    said = {name: np.asarray(bar) for name, bar in rule.gradient(model, y, result, consume=True).items()}
    return {"gradient": said, "log evidence": float(result.log_evidence)}


def answer(chunk: Chunk, parcel: Parcel, Xs: np.ndarray | None) -> dict[str, Any]:
    """Log evidence and log normaliser of the members on a chunk, and what they say of f at Xs."""
    reader, model, solver, rule = parcel.values
    X, y = read(chunk, reader, model.likelihood)
    if not len(y):
        return {"log evidence": 0.0, "log normaliser": 0.0, "rows": 0, "answers": []}
    result = rule.run(model, X, y, solver)
    said = [] if Xs is None else result.state.answers(Xs)
    value, normaliser = float(result.log_evidence), float(result.state.log_normaliser)
    return {"log evidence": value, "log normaliser": normaliser, "rows": len(y), "answers": said}


class MembersState(AbstractState):
    """The posterior of all members. It predicts in one pass over the chunks for each block of test inputs,
    each by itself; what is asked of training rows is refused.
    """

    exact, partial, jitter = False, True, 0.0
    pulls = frozenset()

    def __init__(
        self, executor: AbstractExecutor, source: AbstractSource, parcel: Parcel, X: np.ndarray, sites: Any
    ):
        self.executor, self.source, self.parcel = executor, source, parcel
        _, model, solver, _ = parcel.values
        self.prior, self.X, self.sites, self.solver = model.priors, X, sites, solver
        said = executor.map(answer, source, [parcel, None])
        self.log_normaliser = float(sum(one["log normaliser"] for one in said))
        self.log_evidence = float(sum(one["log evidence"] for one in said))
        self.rows = sum(one["rows"] for one in said)

    @property
    def learned_from(self) -> int:
        return self.rows

    def predict(
        self, Xs: np.ndarray, full: bool = False, variance: bool = True
    ) -> tuple[np.ndarray, np.ndarray | None]:
        if full:
            raise SolverError("a committee in chunks predicts each row by itself, without covariances.")
        said = self.executor.map(answer, self.source, [self.parcel, Xs])
        priors = self.prior if isinstance(self.prior, tuple) else (self.prior,)
        mean, covariance = self.solver.together(priors, Xs, [a for one in said for a in one["answers"]])
        if not variance:
            return mean, None
        return mean, covariance if len(priors) > 1 else covariance[:, :, 0]

    def _no_rows(self) -> NoReturn:
        raise SolverError(
            "the training rows of a committee in chunks are with their chunks: use solvers.VFE, or condition "
            "on an array, for what is asked of them."
        )

    def prior_mean(self) -> np.ndarray:
        self._no_rows()

    def mean(self) -> np.ndarray:
        self._no_rows()

    def marginals(self) -> tuple[np.ndarray, np.ndarray]:
        self._no_rows()

    def dual(self) -> tuple[np.ndarray, np.ndarray]:
        self._no_rows()

    def apply(self, V: np.ndarray) -> np.ndarray:
        self._no_rows()

    def times_K(self, V: np.ndarray) -> np.ndarray:
        self._no_rows()

    def cross(self, Xs: np.ndarray, V: np.ndarray) -> np.ndarray:
        self._no_rows()

    def pull(self, bars: Bars) -> Cotangents:
        self._no_rows()
