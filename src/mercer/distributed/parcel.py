"""Values that go to another process as they would go to a file."""

from __future__ import annotations

import functools
from typing import Any

from mercer.distributed.wire import pack, unpack

__all__ = ["Parcel"]


class Parcel:
    """Values of Mercer's (models, solvers, columns ...) that are as they are within this process, and JSON
    with arrays on the way to another: no code travels. A user's function in them cannot, and an error says
    so.

    >>> model, solver = pickle.loads(pickle.dumps(Parcel(model, solver))).values
    """

    def __init__(self, *values: Any):
        self.values = values

    @functools.cached_property
    def packed(self) -> bytes:
        """As they travel."""
        return pack(list(self.values), "the model")

    def __reduce__(self) -> Any:
        return _opened, (self.packed,)


def _opened(packed: bytes) -> Parcel:
    return Parcel(*unpack(packed))
