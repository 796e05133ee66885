"""Recursions over many small steps, compiled by numba, one module each.

XLA runs a loop step by step at some 40 ns a step, whatever the step does; a compiled loop over scalars has no
such price. Every recursion here has a twin in JAX or NumPy that gives the same numbers: it serves inside
`jit`, where there are so few steps that importing numba would take longer, and where numba is not to be had
(`ready`).

numba is imported when a recursion first runs. What it compiles is kept in the cache folder of Mercer
(MERCER_CACHE, as for XLA), or compiled again in every process where that cannot be written.
"""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Callable, Iterator
from typing import Any

from mercer import jax_settings


class Unready(RuntimeError):
    """numba is missing, or does not work here."""


@functools.cache
def ready() -> bool:
    """Whether recursions can be compiled. MERCER_NUMBA=0 in the environment says that they shall not."""
    if os.environ.get("MERCER_NUMBA", "1") == "0":
        return False
    try:
        return compiled(_probe)(1.0) == 2.0
    except Exception:  # whatever is wrong with numba or what it stands on: the twins do the same
        return False


def compiled(function: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    """`function`, compiled by numba for the types of its arguments when they are first seen.

    A product and a sum may be rounded once instead of twice, nothing else is rearranged.
    options: of `numba.njit`, such as parallel=True
    """

    @functools.cache
    def made() -> Callable[..., Any]:
        try:
            from numba import njit
        except ImportError as error:
            raise Unready(f"numba cannot be imported: {error}") from error
        settings = {"error_model": "numpy", "nogil": True, "fastmath": {"contract"}, **options}
        with _folder() as folder:
            if folder:
                with contextlib.suppress(RuntimeError):  # nobody can write there
                    return njit(cache=True, **settings)(function)
        return njit(**settings)(function)

    @functools.wraps(function)
    def call(*args: Any) -> Any:
        return made()(*args)

    return call


@contextlib.contextmanager
def _folder() -> Iterator[str]:
    """Our folder for what numba compiles while a function of ours is decorated; a user's own functions keep
    theirs. Empty where caching is switched off.
    """
    from numba.core import config as settings

    config: Any = settings
    folder = jax_settings.cache_folder("numba")
    before, config.CACHE_DIR = config.CACHE_DIR, folder or config.CACHE_DIR
    try:
        yield folder
    finally:
        config.CACHE_DIR = before


def _probe(x: float) -> float:
    return x + 1.0


__all__ = ["Unready", "compiled", "ready"]
