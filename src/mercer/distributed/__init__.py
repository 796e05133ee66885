"""Who does work that can be shared: work on chunks of rows (`chunks`), in this process or on a Dask cluster.

Nothing here knows what the work is, and nothing below imports dask.
"""

from mercer.distributed.chunks import AbstractExecutor, Here

__all__ = ["AbstractExecutor", "Here"]


def __dir__() -> list[str]:
    return sorted(__all__)
