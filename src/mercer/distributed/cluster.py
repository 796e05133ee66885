"""Jobs on the workers of a `dask.distributed.Client`."""

from __future__ import annotations

import uuid
import warnings
from collections.abc import Iterator, Sequence
from typing import Any

from mercer.distributed import versions
from mercer.distributed.jobs import JobError
from mercer.distributed.wire import unpack
from mercer.distributed.work import done
from mercer.progress import keep_time

__all__ = ["Cluster", "connected", "is_client", "threads"]

LOOK = 0.5  # seconds between two looks at the time
WAIT = 60.0  # seconds in which a first worker must come


def is_client(given: Any) -> bool:
    """Whether this is a client of Dask; dask is not imported to know."""
    return any(cls.__module__.partition(".")[0] == "distributed" and cls.__name__ == "Client"
               for cls in type(given).__mro__)  # fmt: skip


def threads(client: Any) -> int:
    """Those of the workers that a client has now; at least one."""
    return max(1, sum(client.nthreads().values()))


def connected(client: Any) -> Any:
    """A client with workers, at least one, all of which have the Mercer of this process."""
    if client.asynchronous:
        raise TypeError("parallel= takes a Client that is not asynchronous.")
    if client.status != "running":
        raise JobError(f"the client is {client.status}: hand in one that is connected to its scheduler.")
    if not client.nthreads():  # a cluster that adapts starts workers when there is work
        try:
            client.submit(versions.check_here, versions.mine(), pure=False).result(timeout=WAIT)
        except TimeoutError:
            address = client.scheduler.address
            raise JobError(
                f"the cluster at {address} has no workers, and none came within {WAIT:g} s: start some, as "
                f"by `dask worker {address} --nthreads 1` or cluster.scale(2). Where they take longer, call "
                "client.wait_for_workers(1) before."
            ) from None
    versions.check(client)
    return client


class Cluster:
    """The workers of a client. What is lost with a worker Dask computes again."""

    def __init__(self, client: Any):
        self.client = connected(client)

    @property
    def count(self) -> int:
        """Threads of the workers that there are now."""
        return threads(self.client)

    def each(
        self, function: str, shared: bytes, jobs: Sequence[bytes], names: Sequence[str]
    ) -> Iterator[tuple[int, bytes, str]]:
        """Packed answers as they come: number of the job, answer, who made it."""
        from distributed import wait

        mark = uuid.uuid4().hex
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Sending large graph", category=UserWarning)
            # a task, so that it is there again when the worker that held it is lost
            given = self.client.submit(bytes, shared, key=f"mercer-shared-{mark}", pure=False)
            futures = {
                self.client.submit(
                    _on_worker,
                    function,
                    versions.mine(),
                    given,
                    job,
                    key=f"mercer-job-{mark}-{i}",
                    pure=False,
                ): i
                for i, job in enumerate(jobs)
            }
        pending = set(futures)
        try:
            while pending:
                try:
                    pending = set(wait(pending, timeout=LOOK, return_when="FIRST_COMPLETED").not_done)
                except TimeoutError:
                    keep_time()
                    self._check_alive(len(jobs) - len(pending), len(jobs))
                    continue
                for future in [f for f in futures if f not in pending]:
                    i = futures.pop(future)
                    yield i, *self._answer(future, names[i])
        finally:
            if self.client.status == "running":
                self.client.cancel([given, *pending], force=True)

    def _answer(self, future: Any, name: str) -> tuple[bytes, str]:
        try:
            packed, who = future.result()
        except versions.VersionError:
            raise
        except Exception as error:
            raise JobError(
                f"{name} could not be done on the cluster: {type(error).__name__}: {error}. Where workers "
                "died (KilledWorker), look at their memory: ask for workers with fewer threads."
            ) from error
        return packed, f"worker {who}"

    def _check_alive(self, done: int, total: int) -> None:
        if self.client.status not in ("running", "newly-created"):
            raise JobError(
                f"the scheduler at {self.client.scheduler.address} was lost after {done} of {total} jobs: "
                "start it again and hand in a new Client."
            )

    def close(self) -> None:
        """Nothing of ours is left on the workers."""


def _on_worker(function: str, version: str, shared: bytes, job: bytes) -> tuple[bytes, str]:
    from distributed import get_worker

    versions.check_here(version)
    return done(function, unpack(shared), job), get_worker().address


def __dir__() -> list[str]:
    return sorted(__all__)
