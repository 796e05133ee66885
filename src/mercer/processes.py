"""What survives a fork. JAX keeps threads, and `os.fork()` copies a process without them: computing in such a
copy would wait for ever. So it is refused at once, where data come in.

A process that is forked before anything was computed is fine, and so is one that is spawned.
"""

from __future__ import annotations

import os

__all__ = ["ForkError", "check_fork"]

_home: int | None = None  # the process in which computing began


class ForkError(RuntimeError):
    """Computing was asked of a process that was forked after computing began."""


def check_fork() -> None:
    """Refuse to compute in a process that was forked from one that has computed."""
    global _home
    here = os.getpid()
    if _home is None:
        _home = here
    if _home != here:
        raise ForkError(
            f"this process ({here}) was forked from one that had already computed ({_home}). The threads of "
            "JAX do not survive a fork, and it would hang: start processes by spawn, as in "
            "multiprocessing.get_context('spawn').Pool(), or with joblib, whose processes are new ones; or "
            "fork before anything is fitted or predicted."
        )


def __dir__() -> list[str]:
    return sorted(__all__)
