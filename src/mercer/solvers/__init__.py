"""Solvers: how Gaussian algebra is done. `dense` (any kernel, n^3) and `weight_space` (kernels of finite rank p, n p^2)."""

from mercer.solvers.basis import WithBasis
from mercer.solvers.dense import Dense
from mercer.solvers.protocol import AbstractSolver, AbstractState, Cotangents, Sites, SolverError
from mercer.solvers.weight_space import WeightSpace

__all__ = ["AbstractSolver", "AbstractState", "Cotangents", "Dense", "Sites", "SolverError", "WeightSpace", "WithBasis", "by_name"]

_NAMES = {"dense": Dense, "weight_space": WeightSpace}


def by_name(solver) -> AbstractSolver:
    """A solver from its name, an instance, or None (dense)."""
    if solver is None:
        return Dense()
    if isinstance(solver, AbstractSolver):
        return solver
    if isinstance(solver, str) and solver in _NAMES:
        return _NAMES[solver]()
    raise SolverError(f"unknown solver {solver!r}; there are {sorted(_NAMES)}, or an instance from mercer.solvers.")
