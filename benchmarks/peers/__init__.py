"""One worker per library: ``python -m benchmarks.peers.NAME``, run by the Python of that library's
environment.

A worker reads one JSON request a line (``{"task": "fit", "data": "path.npz", ...}``) and answers each with
one line of JSON. Only this module and the standard library are shared, so that a worker runs in any
environment.
"""

from __future__ import annotations

import json
import os
import sys
import time
import traceback
from collections.abc import Callable
from importlib import metadata
from typing import Any

Task = Callable[..., dict[str, Any]]


def serve(*tasks: Task) -> None:
    """Answer requests on stdin until it closes;
    whatever a library prints goes to stderr instead of the answers.
    """
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    known = {task.__name__: task for task in tasks}
    for line in sys.stdin:
        request = json.loads(line)
        try:
            answer = known[request.pop("task")](**request)
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {error}", "traceback": traceback.format_exc()}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


def versions(*packages: str) -> dict[str, str]:
    """The installed versions of the packages that decide a library's speed."""
    return {package: metadata.version(package) for package in packages}


class Timer:
    """``with Timer() as timer: ...`` and then ``timer.seconds``."""

    def __enter__(self) -> Timer:
        self.start = time.perf_counter()
        return self

    def __exit__(self, *_: object) -> None:
        self.seconds = time.perf_counter() - self.start
