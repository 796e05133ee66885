"""Work on many blocks of rows: a thread for each BLAS thread, and BLAS itself with one thread inside.

Covariances, products and sums over a block follow each other in one thread while the block is in its cache;
no thread waits for another between them, as it would if each product were cut up by BLAS.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from typing import Any

from mercer.linalg.lapack import one_thread, thread_count


def share(work: Callable[[Iterator[Any]], Any], items: Sequence[Any]) -> list[Any]:
    """What `work` makes of each thread's part of the items: consecutive ones, about as many for all. In order
    of the parts.

    >>> sum(share(lambda parts: sum(p @ p for p in parts), blocks))

    After Ctrl-C or an error the threads stop at their next item.
    """
    workers = max(1, min(thread_count(), len(items)))
    if workers == 1:
        return [work(iter(items))]
    stop = threading.Event()

    def part(i: int) -> Iterator[Any]:
        for item in items[i * len(items) // workers : (i + 1) * len(items) // workers]:
            if stop.is_set():
                return
            yield item

    with one_thread(), ThreadPoolExecutor(workers) as pool:
        tasks = [pool.submit(work, part(i)) for i in range(workers)]
        try:
            wait(tasks, return_when=FIRST_EXCEPTION)
        finally:
            stop.set()
        return [task.result() for task in tasks]
