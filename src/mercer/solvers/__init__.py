"""Solvers: how Gaussian algebra is done: `dense` (any kernel, n^3), `weight_space` (kernels of finite rank),
those for large data.

>>> mercer.GPRegressor(solver=solvers.VFE(m=512)).fit(X, y)
>>> solvers.by_name("vfe")
"""

from __future__ import annotations

from typing import Any

from mercer.registry import exporter, named
from mercer.solvers.basis import WithBasis
from mercer.solvers.dense import Dense
from mercer.solvers.protocol import AbstractSolver, AbstractState, Cotangents, Sites, SolverError
from mercer.solvers.weight_space import WeightSpace

# imported when first used
_MODULES = {
    "auto": "Auto",
    "single": "SinglePrecision",
    "lowrank": "SubsetOfRegressors ProjectedProcess FITC VFE Nystrom",
    "subset": "SubsetOfData",
    "committee": "Committee",
    "condensed": "Condensed",
    "correlated": "CorrelatedNoise",
    "iterative": "ConjugateGradient",
    "grid": "Kronecker Toeplitz",
    "kiss": "KISS",
    "outputs": "Outputs",
    "random_features": "RandomFeatures",
    "vecchia": "Vecchia",
    "sparse": "SparseCholesky",
    "markov": "Markov",
}
# where people type something shorter than the name of the class
_SHORT = {
    "ProjectedProcess": "pp",
    "SinglePrecision": "single",
    "SubsetOfData": "subset",
    "SubsetOfRegressors": "sr",
}

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
    *" ".join(_MODULES.values()).split(),
]

__getattr__ = exporter(__name__, _MODULES)


def by_name(solver: Any) -> AbstractSolver:
    """A solver from its name ("vfe", "conjugate-gradient"), an instance, or None (dense)."""
    if solver is None:
        return Dense()
    if isinstance(solver, AbstractSolver):
        return solver
    return named("solvers", solver, AbstractSolver, _SHORT, error=SolverError)()


def __dir__() -> list[str]:
    return sorted(__all__)
