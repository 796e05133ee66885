"""Processes of this machine that do jobs. They are new ones, never forks (see `mercer.processes`), and know
nothing of the program that starts them: it needs no `if __name__ == "__main__"`.
"""

from __future__ import annotations

import contextlib
import os
import queue
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence

from mercer.distributed.jobs import JobError
from mercer.distributed.worker import JOB, SHARED, read, write
from mercer.linalg.lapack import thread_count
from mercer.progress import keep_time

__all__ = ["Processes"]

TRIES = 3  # processes that a job may end
LOOK = 0.2  # seconds between two looks at the time
# who reads how many threads to use. Not XLA: its sums depend on how many it has, and should be the same here
THREADS = (
    "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS",
    "NUMBA_NUM_THREADS",
)  # fmt: skip


class Processes:
    """Up to `count` processes, started when they are first needed, each with its share of the threads that
    BLAS has here.
    """

    def __init__(self, count: int):
        self.threads = max(1, min(thread_count(), os.cpu_count() or 1) // count)
        self.count = count
        self.crew: list[_Process] = []
        self.answers: queue.Queue[tuple[_Process, bytes | None]] = queue.Queue()

    def each(
        self, function: str, shared: bytes, jobs: Sequence[bytes], names: Sequence[str]
    ) -> Iterator[tuple[int, bytes, str]]:
        """Packed answers as they come: number of the job, answer, who made it. A job whose process ends is
        done again.
        """
        waiting, tries = list(range(len(jobs)))[::-1], [0] * len(jobs)
        while len(self.crew) < min(self.count, len(jobs)):
            self.crew.append(_Process(self.threads, self.answers))
        for process in self.crew:
            process.send(SHARED, shared)
        under_way: dict[_Process, int] = {}

        def next_job(process: _Process) -> None:
            if waiting:
                under_way[process] = waiting.pop()
                process.send(JOB, function.encode() + b"\n" + jobs[under_way[process]])

        try:
            for process in self.crew:
                next_job(process)
            while under_way:
                try:
                    process, answer = self.answers.get(timeout=LOOK)
                except queue.Empty:
                    keep_time()
                    continue
                if process not in under_way:
                    continue  # it was given up
                i = under_way.pop(process)
                if answer is None:
                    tries[i] += 1
                    self._check_tries(tries[i], names[i], process)
                    waiting.append(i)
                    process = self._replaced(process)
                    process.send(SHARED, shared)
                else:
                    yield i, answer, f"process {process.pid}"
                next_job(process)
        finally:
            for process in under_way:
                self.crew.remove(process)
                process.end()

    def _check_tries(self, tries: int, name: str, process: _Process) -> None:
        if tries == TRIES:
            raise JobError(
                f"{name}: {TRIES} processes ended while they did it, the last with exit code "
                f"{process.exit_code()}. Was there enough memory for {self.count} at a time? Ask for fewer "
                "(parallel=), or leave out parallel=."
            )

    def _replaced(self, process: _Process) -> _Process:
        """A new one in place of one that has ended."""
        self.crew.remove(process)
        process.end()
        self.crew.append(_Process(self.threads, self.answers))
        return self.crew[-1]

    def close(self) -> None:
        """End the processes."""
        for process in self.crew:
            process.end()
        self.crew = []


class _Process:
    """One of them; what it says is put into a queue, and None when it ends."""

    def __init__(self, threads: int, answers: queue.Queue[tuple[_Process, bytes | None]]):
        own = dict.fromkeys(THREADS, str(threads)) | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "mercer.distributed.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=os.environ | own,
        )
        self.pid = self._process.pid
        threading.Thread(target=self._listen, args=(answers,), daemon=True).start()

    def _listen(self, answers: queue.Queue[tuple[_Process, bytes | None]]) -> None:
        assert self._process.stdout is not None
        with contextlib.suppress(OSError, ValueError):  # the pipe may be closed meanwhile
            while (frame := read(self._process.stdout)) is not None:
                answers.put((self, frame[1]))
        answers.put((self, None))

    def send(self, kind: bytes, body: bytes) -> None:
        """Hand something over; that nobody reads it any more is seen by `_listen`."""
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):
            write(self._process.stdin, kind, body)

    def exit_code(self) -> int | None:
        return self._process.wait()

    def end(self) -> None:
        """Kill it, whatever it does."""
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            with contextlib.suppress(OSError):
                pipe.close()


def __dir__() -> list[str]:
    return sorted(__all__)
