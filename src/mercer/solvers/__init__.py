"""Solvers: how Gaussian algebra is done: `dense` (any kernel, n^3), `weight_space` (kernels of finite rank),
those for large data.

>>> mercer.GPRegressor(solver=solvers.VFE(m=512)).fit(X, y)
>>> solvers.by_name("vfe")
"""

import importlib
from typing import Any

from mercer.solvers.basis import WithBasis
from mercer.solvers.dense import Dense
from mercer.solvers.protocol import AbstractSolver, AbstractState, Cotangents, Sites, SolverError
from mercer.solvers.weight_space import WeightSpace

# imported when first used: name for `by_name`, class, module
_LARGE = (
    ("auto", "Auto", "auto"),
    ("single", "SinglePrecision", "single"),
    ("sr", "SubsetOfRegressors", "lowrank"),
    ("pp", "ProjectedProcess", "lowrank"),
    ("fitc", "FITC", "lowrank"),
    ("vfe", "VFE", "lowrank"),
    ("nystrom", "Nystrom", "lowrank"),
    ("subset", "SubsetOfData", "subset"),
    ("committee", "Committee", "committee"),
    ("conjugate_gradient", "ConjugateGradient", "iterative"),
    ("kronecker", "Kronecker", "grid"),
    ("toeplitz", "Toeplitz", "grid"),
    ("random_features", "RandomFeatures", "random_features"),
    ("vecchia", "Vecchia", "vecchia"),
    ("sparse_cholesky", "SparseCholesky", "sparse"),
    ("markov", "Markov", "markov"),
)
_MODULES = {cls: f"mercer.solvers.{module}" for _, cls, module in _LARGE}

__all__ = [
    "AbstractSolver",
    "AbstractState",
    "Cotangents",
    "Dense",
    "Sites",
    "SolverError",
    "WeightSpace",
    "WithBasis",
    "by_name",
    *_MODULES,
]


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module 'mercer.solvers' has no attribute {name!r}")
    return getattr(importlib.import_module(_MODULES[name]), name)


def by_name(solver) -> AbstractSolver:
    """A solver from its name, an instance, or None (dense)."""
    if solver is None:
        return Dense()
    if isinstance(solver, AbstractSolver):
        return solver
    names = {"dense": "Dense", "weight_space": "WeightSpace"} | {name: cls for name, cls, _ in _LARGE}
    if isinstance(solver, str) and solver in names:
        cls = names[solver]
        return Dense() if cls == "Dense" else WeightSpace() if cls == "WeightSpace" else __getattr__(cls)()
    raise SolverError(
        f"unknown solver {solver!r}; there are {sorted(names)}, or an instance from mercer.solvers."
    )


def __dir__() -> list[str]:
    return sorted(__all__)
