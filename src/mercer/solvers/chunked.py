"""Features in chunks: the rows of Psi are where the data are, and sums over them, or a number for each, are
asked for by the same State as ever.

Sites are here, a few numbers for each row: what crosses for each question is of the size of its vectors. For
Gaussian noise nothing of the rows need cross at all: see `mercer.inference.chunked`.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
from typing import Any, ClassVar

import jax
import numpy as np

from mercer.distributed.chunks import AbstractExecutor, Sums, tree_sum
from mercer.distributed.parcel import Parcel
from mercer.inputs import AbstractSource, Chunk
from mercer.means import Constant, Zero
from mercer.params import strip
from mercer.prior import AbstractPrior
from mercer.solvers.host import AbstractHoldingWorkspace, Columns
from mercer.solvers.inducing import Features, Inducing, RowBar, RowPull
from mercer.solvers.lowrank import AbstractLowRank
from mercer.solvers.lowrank_state import LowRankState
from mercer.solvers.protocol import AbstractSolver, AbstractState, Cost, Sites, SolverError

STORE_BYTES = 512 * 2**20  # up to this size the features of a chunk are kept while one question is answered
TILE = 256


@dataclasses.dataclass(frozen=True, eq=False)
class InChunks(AbstractSolver):
    """A low-rank solver on rows that are in chunks. `sizes`: rows of each chunk; `reader` turns one into
    inputs. X (n, d) that it is handed is not read: `stand_in` will do.
    """

    base: AbstractLowRank
    source: AbstractSource
    executor: AbstractExecutor
    reader: Any
    sizes: tuple[int, ...]

    pilot: ClassVar[bool] = True

    @property
    def offers(self) -> frozenset[str]:  # type: ignore[override]
        """As the solver that it is made of."""
        return self.base.offers

    def inducing_inputs(self) -> np.ndarray | None:
        return self.base.inducing_inputs()

    def inducing_to_learn(self) -> np.ndarray | None:
        return self.base.inducing_to_learn()

    def with_inducing(self, Z: np.ndarray, learn: bool) -> AbstractSolver:
        base: Any = self.base.with_inducing(Z, learn)
        return dataclasses.replace(self, base=base)

    def workspace(self, prior: Any, X: np.ndarray) -> ChunkedWorkspace:
        return ChunkedWorkspace(self)

    def factor(self, prior: Any, X: np.ndarray, sites: Sites, workspace: Any = None) -> AbstractState:
        if not isinstance(prior.mean, Zero | Constant):
            raise SolverError(
                "with data in chunks and noise that is not Gaussian the prior mean is a number: a mean that "
                "reads the inputs goes with Gaussian noise."
            )
        held: Any = workspace or ChunkedWorkspace(self)
        return LowRankState(self.base, prior, X, sites, held)

    def cost(self, n: int, d: int, L: int = 1) -> Cost:
        return self.base.cost(n, d, L)


def stand_in(n: int, d: int) -> np.ndarray:
    """Inputs (n, d) that take no memory, and are not read."""
    return np.broadcast_to(np.zeros(1), (n, d))


class ChunkedWorkspace(AbstractHoldingWorkspace):
    """What States on the same chunks share."""

    def __init__(self, solver: InChunks):
        self.solver, self.Z, self.jitter = solver, np.asarray(solver.base.inducing), solver.base.jitter
        self.columns = Columns(np.zeros((sum(solver.sizes), 1)))
        self.notes: tuple[str, ...] = ()

    def move_inducing(self, Z: np.ndarray) -> None:
        self.Z = Z

    def compute(self, prior: AbstractPrior) -> ChunkedFeatures:
        base: Any = self.solver.base.with_inducing(self.Z, self.solver.base.learn)
        return ChunkedFeatures(prior, dataclasses.replace(self.solver, base=base))


class ChunkedFeatures:
    """What `Features` says, asked of all chunks."""

    def __init__(self, prior: AbstractPrior, solver: InChunks):
        self.solver, self.prior = solver, prior
        base = solver.base
        self.inducing = Inducing(prior.kernel, np.asarray(base.inducing), TILE, base.jitter)
        self.kernel, self.jitter = self.inducing.kernel, self.inducing.jitter
        self.panels = self.Z_panels = self.inducing.panels
        self.of, self.solve = self.inducing.of, self.inducing.solve
        self.parcel = Parcel(solver.reader, prior, base)
        ends = np.cumsum((0, *solver.sizes))
        self.cuts = [slice(a, b) for a, b in itertools.pairwise(ends)]

    @property
    def m(self) -> int:
        return self.Z_panels.n

    @functools.cached_property
    def _variances(self) -> np.ndarray:
        return np.concatenate(self._map(_variances))

    @property
    def diagonal(self) -> np.ndarray:
        """k(x, x) at the data (n,)."""
        return self._variances[:, 0]

    @property
    def explained(self) -> np.ndarray:
        """q(x, x) at the data (n,)."""
        return self._variances[:, 1]

    def gram(self, weight: np.ndarray, V: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray | None]:
        """Psi' diag(weight) Psi, and Psi' V."""
        parts = [(weight[cut], None if V is None else V[cut]) for cut in self.cuts]
        sums = self._sum(_gram, parts)
        return sums["G"], sums.get("p")

    def project(self, V: np.ndarray) -> np.ndarray:
        """Psi' V."""
        return self._sum(_project, [V[cut] for cut in self.cuts])["p"]

    def expand(self, w: np.ndarray) -> np.ndarray:
        """Psi w for w (m, q)."""
        return np.concatenate(self._map(_expand, w))

    def leverage(self, U: np.ndarray) -> np.ndarray:
        """diag(Psi C^-1 Psi') (n,), for C = U'U."""
        return np.concatenate(self._map(_leverage, U))

    def quadratic(self, M: np.ndarray) -> np.ndarray:
        """diag(Psi M Psi') (n,)."""
        return np.concatenate(self._map(_quadratic, M))

    def pull(self, bar: RowBar, inputs: bool = False, inducing: bool = False) -> RowPull:
        """Cotangents of the kernel and, if asked, of the inducing inputs."""
        if inputs:
            raise SolverError("rows in chunks are not moved: there are no derivatives of the inputs.")
        whole = {name: getattr(bar, name) for name in ("by_Lambda", "by_P", "by_w")}
        rows = [{name: _cut(getattr(bar, name), cut) for name in ("Lambda", "P", "w", "u", "t")}
                for cut in self.cuts]  # fmt: skip
        said = self._map(_pull, whole, inducing, parts=rows)
        sums = tree_sum(sums for sums, _ in said)
        tree: Any = jax.tree.structure(strip(self.prior.kernel))
        kernel = jax.tree.unflatten(tree, [sums[f"kernel {i}"] for i in range(tree.num_leaves)])
        right = None
        if inducing:
            encoded: Any = jax.tree.structure(self.kernel.encode(np.asarray(self.solver.base.inducing)))
            right = jax.tree.unflatten(encoded, [sums[f"right {i}"] for i in range(encoded.num_leaves)])
        return RowPull(kernel, None, right, np.concatenate([products for _, products in said]))

    def _sum(self, work: Any, parts: list[Any]) -> Sums:
        solver = self.solver
        return solver.executor.sum(work, solver.source, [self.parcel], parts)

    def _map(self, work: Any, *shared: Any, parts: list[Any] | None = None) -> list[Any]:
        solver = self.solver
        return solver.executor.map(work, solver.source, [self.parcel, *shared], parts)


def _cut(vector: np.ndarray | None, cut: slice) -> np.ndarray | None:
    return None if vector is None else vector[cut]


# ---------------------------------------------------------------------------------------- where a chunk is


def _features(chunk: Chunk, parcel: Parcel) -> Features | None:
    """The features of a chunk; None where it is empty."""
    reader, prior, solver = parcel.values
    X, _ = reader.read(chunk)
    if not len(X):
        return None
    store = 8.0 * len(X) * solver.m <= STORE_BYTES
    return dataclasses.replace(solver, store=store).workspace(prior, X).compute(prior)


def _variances(chunk: Chunk, parcel: Parcel) -> np.ndarray:
    f = _features(chunk, parcel)
    return np.zeros((0, 2)) if f is None else np.stack([f.diagonal, f.explained], 1)


def _gram(chunk: Chunk, part: tuple[np.ndarray, np.ndarray | None], parcel: Parcel) -> Sums:
    f = _features(chunk, parcel)
    if f is None:
        return {}
    G, p = f.gram(*part)
    return {"G": G} | ({} if p is None else {"p": p})


def _project(chunk: Chunk, part: np.ndarray, parcel: Parcel) -> Sums:
    f = _features(chunk, parcel)
    return {} if f is None else {"p": f.project(part)}


def _expand(chunk: Chunk, parcel: Parcel, w: np.ndarray) -> np.ndarray:
    f = _features(chunk, parcel)
    return np.zeros((0, w.shape[1])) if f is None else f.expand(w)


def _leverage(chunk: Chunk, parcel: Parcel, U: np.ndarray) -> np.ndarray:
    f = _features(chunk, parcel)
    return np.zeros(0) if f is None else f.leverage(U)


def _quadratic(chunk: Chunk, parcel: Parcel, M: np.ndarray) -> np.ndarray:
    f = _features(chunk, parcel)
    return np.zeros(0) if f is None else f.quadratic(M)


def _pull(
    chunk: Chunk, rows: dict[str, Any], parcel: Parcel, whole: dict[str, Any], inducing: bool
) -> tuple[Sums, np.ndarray]:
    f = _features(chunk, parcel)
    if f is None:
        return {}, np.zeros(0)
    pulled = f.pull(RowBar(**rows, **whole), inducing=inducing)
    kernel, right = jax.tree.leaves(pulled.kernel), jax.tree.leaves(pulled.right)
    said = {f"kernel {i}": np.asarray(leaf) for i, leaf in enumerate(kernel)}
    return said | {f"right {i}": np.asarray(leaf) for i, leaf in enumerate(right)}, pulled.products
