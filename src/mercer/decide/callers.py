"""Who calls the function that is optimised: threads of this process, or the workers of a cluster."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from typing import Any

from mercer.distributed.cluster import threads

__all__ = ["Tasks", "Threads", "called"]

Done = queue.Queue[tuple[int, Any, str]]  # number, value, and why there is none


def called(function: Callable[..., Any], row: dict[str, Any]) -> tuple[Any, str]:
    """What a function gives, or None and why not."""
    try:
        value = function(**row)
    except Exception as error:
        return None, f"{type(error).__name__}: {error}"
    return value, "" if value is not None else "it gave None"


class Threads:
    """So many threads at a time, none of which outlives the program."""

    def __init__(self, count: int):
        self.count, self.done = count, Done()

    def call(self, number: int, function: Callable[..., Any], row: dict[str, Any]) -> None:
        """Begin an evaluation."""
        threading.Thread(target=lambda: self.done.put((number, *called(function, row))), daemon=True).start()

    def forget(self, number: int) -> None:
        """A thread cannot be ended: it is left to itself."""

    def close(self) -> None:
        """Nothing is waited for."""


class Tasks:
    """The workers of a `dask.distributed.Client`; the function goes there as Dask sends functions."""

    def __init__(self, client: Any):
        self.client, self.done = client, Done()
        self.futures: dict[int, Any] = {}

    @property
    def count(self) -> int:
        """One for each thread of the workers that there are now, at least one."""
        return threads(self.client)

    def call(self, number: int, function: Callable[..., Any], row: dict[str, Any]) -> None:
        """Begin an evaluation."""
        self.futures[number] = future = self.client.submit(function, **row, pure=False)
        future.add_done_callback(lambda future: self._ended(number, future))

    def _ended(self, number: int, future: Any) -> None:
        if not future.cancelled():
            self.done.put((number, *called(future.result, {})))

    def forget(self, number: int) -> None:
        """Cancel an evaluation that takes too long."""
        self.futures.pop(number).cancel(force=True)

    def close(self) -> None:
        """Cancel what is under way."""
        self.client.cancel([f for f in self.futures.values() if not f.done()], force=True)
