"""What people hand in, checked once: arrays and tables (`arrays`), and data in chunks that need not fit into
memory (`sources`).

>>> mc.fit(model, mc.inputs.parquet("data/*.parquet", target="y"), solver=mc.solvers.VFE(m=512))
"""

from mercer.inputs.arrays import (
    Array,
    InputError,
    Inputs,
    Targets,
    as_inputs,
    as_table,
    as_targets,
    chosen,
    is_table,
    named_columns,
    numeric,
)
from mercer.inputs.sources import AbstractSource, Chunk, Some, chunks, files, is_chunked, parquet

__all__ = [
    "AbstractSource",
    "Array",
    "Chunk",
    "InputError",
    "Inputs",
    "Some",
    "Targets",
    "as_inputs",
    "as_table",
    "as_targets",
    "chosen",
    "chunks",
    "files",
    "is_chunked",
    "is_table",
    "named_columns",
    "numeric",
    "parquet",
]


def __dir__() -> list[str]:
    return sorted(__all__)
