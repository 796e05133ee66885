"""The default solver: dense, and for many data one that `solver="auto"` chooses."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from mercer.linalg import memory as room
from mercer.progress import Progress
from mercer.solvers.dense import Dense
from mercer.solvers.protocol import AbstractSolver

ROWS = 10_000
"""Up to so many rows the default solver is dense: exact."""


def solver_for(
    given: str | AbstractSolver | None,
    memory: str | float | None,
    shape: tuple[int, int],
    latents: int,
    progress: Progress,
) -> Any:
    """The solver of a fit to data of this shape (n, d), as `mercer.fit` takes it.

    Without one given it is dense up to 10,000 rows, if its matrices fit into `memory` (by default 4 GiB), and
    "auto" beyond: a rule in n and bytes, not in what a machine has free or how fast it is, so that the same
    call gives the same model everywhere.
    """
    if given is not None and given != "auto":
        if memory is not None:
            raise ValueError("memory= is a limit for solver='auto'; other solvers take what they need.")
        return given
    limit, need = room.LIMIT if memory is None else room.parse(memory), Dense().cost(*shape, latents).bytes
    if given == "auto":
        because = ""
    elif shape[0] > ROWS:
        because = f"solver='auto', as for more than {ROWS:,} rows (solver='dense' is exact)"
    elif need > limit:
        because = f"solver='auto', as solver='dense' needs {room.text(need)}"
    else:
        return None
    from mercer.solvers.auto import Auto

    return Auto(memory=memory, say=progress is not False, because=because)


def checkpoint_of(path: str | os.PathLike[str] | None, part: str | int) -> Path | None:
    """The checkpoint of one fit of several: the file itself for the first, or the one of this name beside it.

    >>> checkpoint_of("fit.npz", 0), checkpoint_of("fit.npz", 2)
    (Path("fit.npz"), Path("fit-2.npz"))
    """
    if path is None:
        return None
    path = Path(path)
    return path.with_name(f"{path.stem}-{part}{path.suffix}") if part else path
