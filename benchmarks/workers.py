"""Driving the libraries: a worker process for each, and fresh processes where start-up itself is measured."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.environments import interpreter

ROOT = Path(__file__).parent.parent
THREADS = 2
"""BLAS, OpenMP and XLA threads of every process."""


def settings() -> dict[str, str]:
    """The environment variables of every process: the same number of threads for all, no warnings in the
    way, and bytecode kept, as an installed package has it.
    """
    threads = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NPROC")
    return (
        os.environ
        | dict.fromkeys(threads, str(THREADS))
        | {"PYTHONWARNINGS": "ignore", "PYTHONDONTWRITEBYTECODE": ""}
    )


def pin() -> None:
    """Keep this process and its children on THREADS cores,
    which bounds the thread pools that heed no variable.
    """
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:THREADS])


class WorkerError(RuntimeError):
    """A library's worker failed; the message says how."""


class Worker:
    """A library's process: ``with Worker("gpy") as worker: worker.ask("fit", data=path)``."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.log = tempfile.TemporaryFile("w+")  # noqa: SIM115 (closed by __exit__)
        python = sys.executable if name == "mercer" else str(interpreter(name))
        command = [python, "-m", f"benchmarks.peers.{name}"]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": self.log}
        self.process = subprocess.Popen(command, cwd=ROOT, env=settings(), text=True, **pipes)

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate()
        self.log.close()

    def ask(self, task: str, **request: Any) -> dict[str, Any]:
        """Send one request and wait for its answer."""
        try:
            self.process.stdin.write(json.dumps({"task": task} | request) + "\n")
            self.process.stdin.flush()
            line = self.process.stdout.readline()
        except BrokenPipeError:
            line = ""
        if not line:
            code = self.process.wait()
            self.log.seek(0)
            raise WorkerError(f"the worker of {self.name} ended with code {code}:\n{self.log.read()[-1500:]}")
        answer = json.loads(line)
        if "error" in answer:
            raise WorkerError(f"{task} by {self.name}: {answer['error']}\n{answer['traceback'][-1500:]}")
        return answer


def processors() -> float:
    """Seconds of processor time that processes started here, and ended, have taken: where other work goes on
    they tell more than the clock.
    """
    used = os.times()
    return used.children_user + used.children_system


def fresh(code: str, clock: Callable[[], float] = time.perf_counter) -> float:
    """Seconds that a new Python of Mercer's environment takes to run the code, start to end, by the clock, or
    another: `processors`.
    """
    start = clock()
    run = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, env=settings(), capture_output=True, text=True
    )
    seconds = clock() - start
    if run.returncode:
        raise WorkerError(f"a fresh process failed:\n{run.stderr[-1500:]}")
    return seconds
