"""A classifier learns from a table in chunks: the labels of all chunks are the classes, and each problem of
two classes is a source of its own, whose targets are +1 and -1.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np

from mercer.distributed.on_dask import executor_for, source_of
from mercer.estimators import reading, roughness
from mercer.estimators.chunked import solver_for, surveyed
from mercer.estimators.classification.labels import check_labels, encode
from mercer.estimators.many import checkpoint_of
from mercer.inference import by_name
from mercer.inputs import AbstractSource, Chunk, InputError
from mercer.learning import Fit
from mercer.learning.chunked import SAMPLE, kept, sampled
from mercer.likelihoods import Bernoulli
from mercer.solvers import FITC, VFE

__all__ = ["Contest", "fit_chunks"]


def fit_chunks(estimator: Any, X: Any, y: Any) -> list[Fit]:
    """The fits of a classifier to data in chunks, one for each problem of two classes; sets what `fit` sets
    before it learns.
    """
    kernels = estimator._kernels()
    given = [] if estimator.objective == "evidence" else ["objective"]
    given += ["calibrate"] if estimator.calibrate else []
    given += ["kernel='auto'"] if roughness.asked(estimator.kernel) else []
    given += ["several kernels"] if len(kernels) > 1 else []
    if given:
        raise InputError(
            f"data in chunks do not go with {', '.join(given)}: leave it out, or fit to an array."
        )
    source = source_of(X, y)
    executor = executor_for(source, estimator.parallel)
    each = executor.map(labels, source)
    estimator.classes_, _ = encode(np.concatenate([some for some in each if len(some)] or [[]]), None)
    classes = estimator.classes_
    if len(classes) > 2 and estimator.multi_class != "one-vs-rest":
        raise InputError(
            f"y has {len(classes)} classes, and data in chunks tell several apart one against the rest: use "
            "multi_class='one-vs-rest'."
        )
    coded = Contest(source, classes, None)
    seed, missing = estimator._seed(), estimator.missing
    seen, columns = surveyed(coded, executor, kernels[0], missing, (), seed)
    reading.name_features(estimator, columns)
    rows = kept(seen)
    estimator._data = (seen.inputs.at(rows), seen.y[rows])
    rule = by_name(estimator._rule, Bernoulli())
    solver = solver_for(estimator, seen, rule, VFE if estimator._rule == "exact" else FITC)
    from mercer.learning import fit

    fits = []
    for i, (first, _) in enumerate(estimator._contests):
        contest = Contest(source, classes, first)
        part = sampled(contest, executor, seen.reader, seen.sizes, SAMPLE, seed)
        model = estimator._binary_model(kernels[0], part.inputs, part.y)
        found = fit(
            model, part, inference=rule, solver=solver, seed=seed, restarts=estimator.restarts,
            max_evaluations=estimator.max_evaluations if estimator.learn else 0,
            progress=estimator.progress, checkpoint=checkpoint_of(estimator.checkpoint, i),
            parallel=estimator.parallel,
        )  # fmt: skip
        fits.append(found)
    return fits


@dataclasses.dataclass(frozen=True, eq=False)
class Contest(AbstractSource):
    """A source whose targets are labels, in numbers: +1 for the class `first` and -1 for all others; or the
    number of the class of each row, where `first` is None.
    """

    source: AbstractSource
    classes: np.ndarray
    first: int | None

    def __len__(self) -> int:
        return len(self.source)

    def load(self, i: int) -> Chunk:
        return relabelled(self.source.load, self.classes, self.first, i)

    def remote(self, i: int) -> tuple[Callable[..., Chunk], tuple[Any, ...]]:
        load, arguments = self.source.remote(i)
        return relabelled, (load, self.classes, self.first, *arguments)

    @property
    def mark(self) -> str:
        return f"{self.first} of {self.classes.tolist()} in {self.source.mark}"

    def called(self, i: int, what: str = "") -> str:
        return self.source.called(i, what)


def relabelled(load: Callable[..., Chunk], classes: np.ndarray, first: int | None, *arguments: Any) -> Chunk:
    """A chunk, its labels in numbers."""
    chunk = load(*arguments)
    codes = np.searchsorted(classes, np.asarray(labels(chunk, unique=False), classes.dtype))
    numbers = codes.astype(float) if first is None else np.where(codes == first, 1.0, -1.0)
    return dataclasses.replace(chunk, target=numbers)


def labels(chunk: Chunk, unique: bool = True) -> np.ndarray:
    """The labels of a chunk, checked; each of them once, if `unique`."""
    found = chunk.checked(lambda: check_labels(chunk.y()))
    return np.unique(found) if unique and len(found) else found
