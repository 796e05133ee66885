"""Predictions of data sets in files, which need not fit into memory: Parquet in, Parquet out."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from mercer.distributed import Parallel
from mercer.distributed.cluster import is_client, threads
from mercer.distributed.on_dask import executor_for
from mercer.distributed.wire import pack, unpack
from mercer.files import written_whole
from mercer.inputs import AbstractSource, Chunk, Some, as_table, named_columns, parquet
from mercer.persist.models import described, rebuilt
from mercer.progress import Progress, shown, tell

__all__ = ["predict_files"]

NEEDS_ARROW = "writing Parquet files needs pyarrow: pip install 'mercer[parquet]'"
AT_ONCE = 2  # chunks for each thread of a cluster between two looks at the keyboard


def predict_files(
    model: Any,
    data: AbstractSource | str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    out: str | os.PathLike[str],
    *,
    level: float = 0.95,
    latent: bool = False,
    parallel: Parallel = None,
    progress: Progress = None,
) -> int:
    """Predict every row of a data set in files by a fitted regressor or classifier, and write a folder of
    Parquet files, one for each chunk: the columns of its rows, and what `model.predict_columns` says of them.
    One chunk is in memory at a time. Gives the number of rows.

    data: a source (`mercer.inputs.parquet`, `files`), or Parquet files: a path, a folder, a pattern, a list
    out: the folder. It appears when all is done: until then its files are in a folder beside it, whose name
        ends in ".part", and from there the same call goes on if it was interrupted
    level, latent: as in `predict_columns`
    parallel: None goes through the chunks in this process; so do the workers of a `dask.distributed.Client`,
        which must all reach the folder

    >>> predict_files(model, "new/*.parquet", "predicted/")
    """
    try:
        import pyarrow.parquet  # noqa: F401
    except ImportError:
        raise ImportError(NEEDS_ARROW) from None
    source = data if isinstance(data, AbstractSource) else parquet(data)
    folder = Path(out).resolve()
    if folder.exists():
        raise FileExistsError(f"{out} is there already: name another folder, or remove it.")
    sent = _Sent(model)
    mark = hashlib.sha256(repr((sent.mark, source.mark, len(source), level, latent)).encode()).hexdigest()
    part = _begun(folder, mark)
    executor = executor_for(source, parallel)
    step = AT_ONCE * threads(parallel) if is_client(parallel) else 1
    shared = [sent, str(part), level, latent]
    rows = 0
    with shown("predicting", progress, "Ctrl-C keeps what is written"):
        for i in range(0, len(source), step):
            some = Some(source, range(i, min(i + step, len(source))))
            rows += sum(executor.map(_predict, some, shared))
            tell(some.numbers[-1] + 1, len(source), "chunks")
    (part / MARK).unlink()
    part.rename(folder)
    return rows


MARK = "_begun"  # the file in a folder under way that says what it will hold


def _begun(folder: Path, mark: str) -> Path:
    """The folder under way: what is there of the same predictions is kept."""
    part = folder.with_name(f".{folder.name}.part")
    if part.exists() and (not (part / MARK).exists() or (part / MARK).read_text() != mark):
        shutil.rmtree(part)
    part.mkdir(parents=True, exist_ok=True)
    (part / MARK).write_text(mark)
    return part


class _Sent:
    """A model that is as it is within this process, and JSON with arrays on the way to another, which makes
    it once.
    """

    def __init__(self, model: Any):
        self.model = model
        self.packed = pack(described(model), "the model")
        self.mark = hashlib.sha256(self.packed).hexdigest()

    def __reduce__(self) -> Any:
        return _arrived, (self.mark, self.packed)


class _Arrived:
    """What `_Sent` is elsewhere."""

    def __init__(self, model: Any):
        self.model = model


_here: dict[str, _Arrived] = {}


def _arrived(mark: str, packed: bytes) -> _Arrived:
    if mark not in _here:
        _here.clear()  # the model before it
        _here[mark] = _Arrived(rebuilt(unpack(packed)))
    return _here[mark]


def _inputs(model: Any, table: dict[str, Any]) -> Any:
    """What the model reads of a table: its columns by name, the others are handed through; all of them, in
    their order, where it was fitted without names.
    """
    if not model.columns_.named:
        return as_table(table)[0]
    known = {column.name for column in model.columns_.columns}
    return {name: column for name, column in table.items() if name in known}


def _predict(chunk: Chunk, sent: _Sent | _Arrived, folder: str, level: float, latent: bool) -> int:
    """Predict one chunk into its file, unless that is there."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    path = Path(folder) / f"part-{chunk.number:05d}.parquet"
    if path.exists():
        return int(pq.read_metadata(path).num_rows)
    table = named_columns(chunk.table)
    if not table or len(next(iter(table.values()))) == 0:
        return 0
    with shown("", False):
        found = chunk.checked(
            lambda: sent.model.predict_columns(_inputs(sent.model, table), level=level, latent=latent)
        )
    prefix = "predicted_" if any(name in table for name in found) else ""
    rows = pa.table(table | {prefix + name: values for name, values in found.items()})
    with written_whole(path) as new:
        pq.write_table(rows, new)
    return int(rows.num_rows)
