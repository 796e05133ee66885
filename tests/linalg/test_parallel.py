"""Blocks shared among threads."""

from __future__ import annotations

import numpy as np
import pytest

from mercer.linalg import lapack, parallel


@pytest.fixture(params=[1, 2, 5])
def threads(request, monkeypatch):
    monkeypatch.setattr(parallel, "thread_count", lambda: request.param)
    return request.param


@pytest.mark.parametrize("count", [1, 2, 7])
def test_every_item_once_in_order(threads, count):
    parts = parallel.share(list, range(count))
    assert len(parts) == min(threads, count)
    assert [item for part in parts for item in part] == list(range(count))


def test_an_error_reaches_the_caller_and_stops_the_others(threads):
    seen = []

    def work(items):
        for item in items:
            if item == 0:
                raise ValueError("the first item")
            seen.append(item)

    with pytest.raises(ValueError, match="the first item"):
        parallel.share(work, range(10))


def test_threads_of_blas_are_given_back(threads):
    before = [get() for _, get in lapack._controls()]
    inside = parallel.share(lambda items: [get() for _ in items for _, get in lapack._controls()], range(8))
    if threads > 1:
        assert {count for part in inside for count in part} <= {1}
    assert [get() for _, get in lapack._controls()] == before


def test_products_in_threads_are_products(threads):
    A = np.random.default_rng(0).normal(size=(640, 30))
    blocks = np.array_split(A, 8)
    total = sum(parallel.share(lambda items: sum(B.T @ B for B in items), blocks))
    np.testing.assert_allclose(total, A.T @ A, rtol=1e-12)


@pytest.mark.parametrize("left", ["C", "F", "strided"])
@pytest.mark.parametrize("right", ["C", "F", "column"])
def test_products_by_one_library(left, right):
    rng = np.random.default_rng(1)
    A, B = rng.normal(size=(7, 5)), rng.normal(size=(5, 3))
    A = {"C": A, "F": np.asfortranarray(A), "strided": np.repeat(A, 2, 1)[:, ::2]}[left]
    B = {"C": B, "F": np.asfortranarray(B), "column": B[:, 1:2]}[right]
    np.testing.assert_allclose(lapack.matmul(A, B), A @ B, rtol=1e-13)


def test_the_last_of_several_threads_gives_blas_its_threads_back():
    before = [get() for _, get in lapack._controls()]
    first, second = lapack.one_thread(), lapack.one_thread()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert {get() for _, get in lapack._controls()} <= {1}
    second.__exit__(None, None, None)
    assert [get() for _, get in lapack._controls()] == before
