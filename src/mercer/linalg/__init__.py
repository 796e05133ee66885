"""Linear algebra: LAPACK on tiles, the jitter policy, Gaussian algebra and matrix identities."""

import importlib
from types import ModuleType

__all__ = [
    "analysis",
    "blocked",
    "cg",
    "cholesky",
    "gaussian",
    "identities",
    "kalman",
    "kronecker",
    "lapack",
    "memory",
    "neighbours",
    "parallel",
    "semidefinite",
    "sparse",
    "tiles",
    "toeplitz",
    "updates",
]


def __getattr__(name: str) -> ModuleType:
    if name not in __all__:
        raise AttributeError(f"module 'mercer.linalg' has no attribute {name!r}")
    return importlib.import_module(f"mercer.linalg.{name}")


def __dir__() -> list[str]:
    return sorted(__all__)
