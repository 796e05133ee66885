"""Estimators whose work others may share."""

from __future__ import annotations

from typing import Any

from mercer.distributed import Parallel
from mercer.estimators.shown import AbstractShown


class AbstractShared(AbstractShown):
    """An estimator with the setting `parallel`. Its clone has the same one: a client cannot be copied."""

    parallel: Parallel

    def __sklearn_clone__(self) -> Any:
        here, self.parallel = self.parallel, None
        try:
            clone = super().__sklearn_clone__()
        finally:
            self.parallel = here
        clone.parallel = here
        return clone
