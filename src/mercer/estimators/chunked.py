"""Tables in chunks, as people hand them to an estimator: Dask frames and arrays, sources of files. Fitted
where the chunks are, predicted lazily.
"""

from __future__ import annotations

import functools
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from mercer.columns import Columns, Reader
from mercer.columns.chunked import learn as learn_columns
from mercer.columns.chunked import look
from mercer.distributed.chunks import AbstractExecutor
from mercer.inference.protocol import AbstractInference
from mercer.inputs import AbstractSource, InputError
from mercer.kernels import AbstractKernel
from mercer.learning.chunked import SAMPLE, Surveyed, sampled, survey
from mercer.persist import load, save
from mercer.solvers import FITC, VFE

INDUCING = 512  # inducing inputs unless told

__all__ = ["halves", "lazily", "solver_for", "surveyed"]


def surveyed(
    source: AbstractSource,
    executor: AbstractExecutor,
    kernel: AbstractKernel | None,
    missing: str,
    groups: Sequence[str | int],
    seed: int,
) -> tuple[Surveyed, Columns]:
    """The chunks of a table gone through once, with a sample of their rows, and what its columns are."""
    if kernel is not None:
        seen = survey(source, executor, kernel.reads_objects(), seed=seed)
        reader = seen.reader
        return seen, Columns.raw(reader.names, reader.d, reader.objects)
    looked = executor.map(look, source, [tuple(groups)])
    sizes = tuple(one["rows"] for one in looked)
    if not sum(sizes):
        raise InputError("X has no rows: all chunks are empty.")
    columns = learn_columns(looked, missing, groups)
    reader = Reader(None, sum(column.width for column in columns.columns), columns=columns)
    return sampled(source, executor, reader, sizes, SAMPLE, seed), columns


def solver_for(
    estimator: Any, seen: Surveyed, rule: AbstractInference, otherwise: type[VFE] | type[FITC]
) -> Any:
    """The solver that was asked for, or where none was one of this kind, with no more inducing inputs than
    there are rows. Rules that learn from batches bring their own.
    """
    if estimator.solver is not None or rule.learns == "batches":
        return estimator.solver
    return otherwise(m=min(INDUCING, len(seen.y)))


def lazily(
    estimator: Any, X: Any, question: str, columns: tuple[str, ...], dtype: Any = float, **settings: Any
) -> Any:
    """What an estimator says of each row of a Dask array or frame, computed where its chunks are when it is
    asked for: a series (an array where X is one), or a frame of these columns.
    """
    if isinstance(X, AbstractSource):
        raise InputError(
            "predictions of files go to files: mercer predict, or read them with dask.dataframe."
        )
    from dask import delayed

    packed = delayed(_packed(estimator), traverse=False)
    one = len(columns) == 1
    if not hasattr(X, "columns"):
        rows = X.rechunk({1: -1})
        shape = {"drop_axis": 1} if one else {"chunks": (rows.chunks[0], (len(columns),))}
        return rows.map_blocks(_array, packed, question, columns, settings, dtype=dtype, **shape)
    import pandas as pd

    meta: Any = (
        pd.Series(dtype=dtype, name=columns[0])
        if one
        else pd.DataFrame({name: pd.Series(dtype=dtype) for name in columns})
    )
    return X.map_partitions(_frame, packed, question, columns, settings, meta=meta)


def halves(both: Any) -> tuple[Any, Any]:
    """The two columns of a Dask frame or array."""
    return (
        tuple(both[name] for name in both.columns) if hasattr(both, "columns") else (both[:, 0], both[:, 1])
    )


def _packed(estimator: Any) -> bytes:
    """The estimator as a file holds it."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.mercer"
        save(estimator, path)
        return path.read_bytes()


@functools.lru_cache(maxsize=4)
def _opened(packed: bytes) -> Any:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.mercer"
        path.write_bytes(packed)
        return load(path)


def _array(
    X: Any, packed: bytes, question: str, columns: tuple[str, ...], settings: dict[str, Any]
) -> np.ndarray:
    if not len(X):
        return np.zeros((0, len(columns)) if len(columns) > 1 else 0)
    said = getattr(_opened(packed), question)(X, **settings)
    if isinstance(said, dict):
        said = tuple(said[name] for name in columns)
    return np.stack(said, 1) if isinstance(said, tuple) else np.asarray(said)


def _frame(X: Any, packed: bytes, question: str, columns: tuple[str, ...], settings: dict[str, Any]) -> Any:
    import pandas as pd

    said = _array(X, packed, question, columns, settings)
    if len(columns) == 1:
        return pd.Series(said, index=X.index, name=columns[0])
    return pd.DataFrame(said, index=X.index, columns=list(columns))
