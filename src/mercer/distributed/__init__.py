"""Who does work that can be shared: independent jobs (`jobs`) and work on chunks of rows (`chunks`), in this
process, in several, or on a Dask cluster.

Nothing here knows what the work is, and nothing below imports dask.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mercer.registry import exporter

if TYPE_CHECKING:
    from mercer.distributed.chunks import AbstractExecutor, Here
    from mercer.distributed.jobs import JobError, Parallel, Team, team

__all__ = ["AbstractExecutor", "Here", "JobError", "Parallel", "Team", "team"]

__getattr__ = exporter(__name__, {"chunks": "AbstractExecutor Here", "jobs": "JobError Parallel Team team"})


def __dir__() -> list[str]:
    return sorted(__all__)
