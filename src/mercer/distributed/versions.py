"""Workers of a cluster must have the Mercer that asks them: another one might say other numbers."""

from __future__ import annotations

import importlib
from typing import Any

__all__ = ["VersionError", "check", "check_here", "mine"]


class VersionError(RuntimeError):
    """Workers without Mercer, or with another version of it."""


def mine() -> str:
    """The version of this process."""
    version: str = importlib.import_module("mercer").__version__
    return version


def check(client: Any) -> None:
    """Refuse a client some of whose workers have another Mercer, or none; says which."""
    found = client.run(mine, on_error="return")
    if not found:
        return  # none has come yet: each is looked at again with its first job
    other = [f"{worker} has {_said(said)}" for worker, said in sorted(found.items()) if said != mine()]
    if other:
        raise VersionError(
            f"mercer {mine()} is asking, but {'; '.join(other)}: install the same version on every worker."
        )


def check_here(asked: str) -> None:
    """The same on a worker."""
    if asked != mine():
        from distributed import get_worker

        raise VersionError(
            f"mercer {asked} is asking, but worker {get_worker().address} has mercer {mine()}: install the "
            "same version on every worker."
        )


def _said(said: Any) -> str:
    return f"no mercer ({said!r})" if isinstance(said, BaseException) else f"mercer {said}"


def __dir__() -> list[str]:
    return sorted(__all__)
