"""One cluster of two processes for the tests of a module."""

import pytest

from mercer.distributed.chunks import Sums


@pytest.fixture(scope="module")
def client():
    from dask.distributed import Client

    with Client(
        n_workers=2, threads_per_worker=1, memory_limit=0, dashboard_address=":0", processes=True
    ) as client:
        yield client


@pytest.fixture
def work():
    return _sums


def _sums(chunk, factor: float = 1.0) -> Sums:
    _, y = chunk.numbers()
    return {"n": y.size, "sum": factor * y.sum()}
