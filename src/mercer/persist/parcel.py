"""Values that go to another process as they would go to a file."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from mercer.persist.values import from_json, to_json

__all__ = ["Parcel"]


class Parcel:
    """Values of Mercer's (models, solvers, columns ...) that are as they are within this process, and JSON
    with arrays on the way to another: no code travels. A user's function in them cannot, and an error says
    so there.

    >>> model, solver = pickle.loads(pickle.dumps(Parcel(model, solver))).values
    """

    def __init__(self, *values: Any):
        self.values = values

    def __reduce__(self) -> Any:
        arrays: dict[str, np.ndarray] = {}
        tree = to_json(list(self.values), arrays)
        return _opened, (json.dumps(tree, allow_nan=False), arrays)


def _opened(text: str, arrays: dict[str, np.ndarray]) -> Parcel:
    return Parcel(*from_json(json.loads(text), arrays))
