"""The State of `Kronecker`: eigenvectors and eigenvalues axis by axis."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator

import jax
import numpy as np

from mercer.kernels.algebra.columns import On
from mercer.kernels.algebra.sums import AbstractComposite, Product, Scale
from mercer.kernels.base import AbstractKernel
from mercer.kernels.families.dot import Constant
from mercer.kernels.families.stationary import SE, Periodic
from mercer.linalg import tiles
from mercer.linalg.kronecker import along_axis, kronecker_diagonal, kronecker_times, rows_contract
from mercer.linalg.lapack import symmetrise
from mercer.params import strip
from mercer.prior import AbstractPrior
from mercer.solvers.grid import AbstractGridState, AbstractGridWorkspace, block_size, diag, diagonal
from mercer.solvers.host import KernelBar, Pulled
from mercer.solvers.protocol import Diagnostics, Sites, SolverError


class KroneckerWorkspace(AbstractGridWorkspace):
    """The grid's axes: for each, the columns it spans and its points, all other columns held at a reference
    input.

    For k = k1 k2 ... with factors on columns of their own, k with all columns but j's at the reference is k_j
    times a constant: so K = (K_1 x K_2 x ...) / c^(axes - 1), with c = k at the reference, and no factor has
    to be taken out of the kernel.
    """

    def find(self, prior: AbstractPrior) -> None:
        X, d = self.X, self.X.shape[1]
        self.groups = separate_columns(prior.kernel, d)
        if len(self.groups) == 1 and d > 1:
            raise SolverError(
                "Kronecker needs a product of kernels on different columns, or an SE or Periodic kernel; "
                f"{prior.kernel} ties "
                "all columns together. Use ConjugateGradient or solver='dense'."
            )
        points, index = [], []
        for columns in self.groups:
            values, inverse = np.unique(X[:, columns], axis=0, return_inverse=True)
            points.append(values)
            index.append(inverse.ravel())
        self.shape = tuple(len(values) for values in points)
        n = math.prod(self.shape)  # of scattered inputs more than an integer of 64 bits holds
        place = np.ravel_multi_index(index, self.shape) if n == len(X) else None
        if place is None or np.unique(place).size != n:
            raise SolverError(
                f"Kronecker needs every point of the grid {' x '.join(map(str, self.shape))} = {n} exactly "
                "once; there are "
                f"{len(X)} data at {len(np.unique(X, axis=0))} of them. ConjugateGradient does without a "
                "grid."
            )
        self.order = np.argsort(place)
        variances = diagonal(strip(prior.kernel), X)
        self.reference = X[int(np.argmax(variances))]
        if not variances.max() > 0:
            raise SolverError(f"Kronecker: {prior.kernel} is zero at all data.")
        self.panels = []
        for columns, values in zip(self.groups, points, strict=True):
            A = prior.kernel.encode(self.along(columns, values))
            self.panels.append(tiles.Panels(A, tiles.tile_size(len(values))))
        self.corner = tiles.Panels(prior.kernel.encode(self.reference[None]), 1)

    def along(self, columns: list[int], values: np.ndarray) -> np.ndarray:
        """Inputs (m, d) that differ from the reference only in these columns."""
        out = np.repeat(self.reference[None], len(values), 0)
        out[:, columns] = values
        return out


def separate_columns(kernel: AbstractKernel, d: int) -> list[list[int]]:
    """The finest partition of d columns such that the kernel is a product of kernels, one on each part."""
    label = np.arange(d)
    for tied in _ties(kernel, list(range(d))):
        label[np.isin(label, label[tied])] = label[tied[0]]
    return [np.flatnonzero(label == j).tolist() for j in np.unique(label)]


def _ties(kernel, columns: list[int]) -> Iterator[list[int]]:
    """Sets of columns that cannot be separated."""
    if isinstance(kernel, On):
        yield from _ties(kernel.kernel, [columns[int(c)] for c in kernel.columns])
    elif isinstance(kernel, (Product, Scale)):
        for part in kernel.parts:
            yield from _ties(part, columns)
    elif not (
        isinstance(kernel, (Periodic, Constant)) or (isinstance(kernel, SE) and kernel.loadings is None)
    ):
        yield sorted(columns_read(kernel, columns))


def columns_read(kernel: AbstractKernel, columns: list[int]) -> set[int]:
    """Those of these columns that a kernel reads."""
    if isinstance(kernel, On):
        return columns_read(kernel.kernel, [columns[int(c)] for c in kernel.columns])
    if isinstance(kernel, AbstractComposite):
        return set().union(*(columns_read(part, columns) for part in kernel.parts))
    return set(columns)


class KroneckerState(AbstractGridState):
    """K = Q diag(lambda) Q' with Q = Q_1 x Q_2 x ...: everything is a function of lambda.
    Tensors have the grid's shape.
    """

    def __init__(self, prior: AbstractPrior, X: np.ndarray, sites: Sites, workspace: KroneckerWorkspace):
        super().__init__(prior, X, sites, workspace)
        self.grid, self.shape = workspace, workspace.shape
        self.c = float(tiles.diagonal(self.kernel, workspace.corner)[0])
        self.share = self.c ** (1 - len(self.shape))
        self.K = [self._matrix(panels) for panels in workspace.panels]
        self.K[0] *= self.share
        pairs = [np.linalg.eigh(K) for K in self.K]
        self.values, self.Q = [np.maximum(pair[0], 0.0) for pair in pairs], [pair[1] for pair in pairs]
        self.eigenvalues = kronecker_diagonal(self.values)
        self.N = 1.0 / (1.0 + self.w * self.eigenvalues)  # eigenvalues of B^-1
        self.logdet = -float(np.sum(np.log(self.N)))

    def diagnostics(self) -> Diagnostics:
        condition = float(self.N.max() / self.N.min())
        return Diagnostics(condition, "B = I + W^1/2 K W^1/2", self.jitter, notes=self.notes)

    def _matrix(self, panels: tiles.Panels) -> np.ndarray:
        out = np.empty((panels.n, panels.n))
        tiles.upper(self.kernel, panels, np.ones(panels.n), out)
        return symmetrise(out)

    def apply(self, V: np.ndarray) -> np.ndarray:
        rotated = kronecker_times([Q.T for Q in self.Q], self._onto(V))
        return self._back(kronecker_times(self.Q, (self.w * self.N)[:, None] * rotated))

    def times_K(self, V: np.ndarray) -> np.ndarray:
        return self._back(kronecker_times(self.K, self._onto(V)))

    def _diagonal_of(self, eigenvalues: np.ndarray) -> np.ndarray:
        return self._back(kronecker_times([Q * Q for Q in self.Q], eigenvalues[:, None])[:, 0])

    def kappa(self) -> np.ndarray:
        return self._diagonal_of(self.w * self.N)

    def variances(self) -> np.ndarray:
        return self._diagonal_of(self.eigenvalues * self.N)

    # -- test inputs: a row of K(Xs, X) is a Kronecker product of rows ---------------------------------------

    def _test_rows(self, Xs) -> Iterator[tuple[slice, list[np.ndarray]]]:
        step = block_size(self.centre.shape[0])
        for first in range(0, Xs.shape[0], step):
            part, out = Xs[first : first + step], []
            for columns, panels in zip(self.grid.groups, self.grid.panels, strict=True):
                left = tiles.Panels(
                    self.kernel.encode(self.grid.along(columns, part[:, columns])), tiles.tile_size(step)
                )
                out.append(tiles.between(self.kernel, left, panels))
            out[0] *= self.share
            yield slice(first, first + step), out

    def _test_blocks(self, Xs: np.ndarray) -> Iterator[tuple[slice, np.ndarray]]:
        for where, rows in self._test_rows(Xs):
            product = functools.reduce(
                lambda p, q: (p[:, :, None] * q[:, None, :]).reshape(p.shape[0], -1), rows
            )
            yield where, self._back(product.T)

    def predict(
        self, Xs: np.ndarray, full: bool = False, variance: bool = True
    ) -> tuple[np.ndarray, np.ndarray | None]:
        if full:
            return self.predict_by_blocks(Xs, full, variance)
        m = np.asarray(self.prior.mean.value(Xs), float)
        alpha, R = self._onto(self.alpha).reshape(self.shape), (self.w * self.N).reshape(self.shape)
        mean, explained = np.empty_like(m), np.empty_like(m)
        for where, rows in self._test_rows(Xs):
            mean[where] = rows_contract(rows, alpha)
            if variance:
                explained[where] = rows_contract(
                    [(row @ Q) ** 2 for row, Q in zip(rows, self.Q, strict=True)], R
                )
        if not variance:
            return (m + mean)[:, None], None
        return (m + mean)[:, None], np.maximum(diagonal(self.kernel, Xs) - explained, 0.0)[:, None]

    # -- cotangents ------------------------------------------------------------------------------------------

    def pull_kernel(self, bar: KernelBar, inputs: bool) -> Pulled:
        total, c_bar = [], 0.0
        for j, panels in enumerate(self.grid.panels):
            axis_bar = self._axis_bar(j, bar)
            if j == 0:
                c_bar = (1 - len(self.shape)) / self.c * float(np.sum(axis_bar * self.K[0]))
                axis_bar *= self.share
            nothing = np.zeros((panels.n, 1))
            total.append(
                tiles.pull_symmetric(self.kernel, panels, 1.0, axis_bar, np.ones(panels.n), nothing, nothing)[
                    0
                ]
            )
        total.append(tiles.pull_rows(diag, self.kernel, self.grid.corner, np.array([c_bar])))
        return Pulled(jax.tree.map(lambda *bars: np.sum(bars, 0), *total))

    def _axis_bar(self, j: int, bar: KernelBar) -> np.ndarray:
        """Cotangent of K_j (n_j, n_j), symmetric."""
        shape, U = self.shape, self.Q[j]
        others = kronecker_diagonal(
            [values for i, values in enumerate(self.values) if i != j] or [np.ones(())]
        )
        first = lambda tensor: np.moveaxis(tensor.reshape(shape), j, 0).reshape(shape[j], -1)  # noqa: E731
        R, N = first(self.w * self.N), first(self.N)
        rotated = np.diag(bar.coefficient * (R @ others))
        for weights, F, sign in ((bar.kappa, R, -1.0), (bar.var, N, 1.0)):
            if weights is not None:
                rotated += sign * self._squeezed(j, first, self._onto(weights), F, others)
        right = self._onto(bar.Q).reshape(*shape, -1)
        for i, K in enumerate(self.K):
            right = right if i == j else along_axis(K, right, i)
        axes = [i for i in range(len(shape) + 1) if i != j]
        outer = np.tensordot(self._onto(bar.P).reshape(*shape, -1), right, axes=(axes, axes))
        return U @ rotated @ U.T + 0.5 * (outer + outer.T)

    def _squeezed(self, j, first, weights, F, others) -> np.ndarray:
        """Cotangent of K_j in its own eigenvectors for F diag(weights) F of K: O(n n_j^2)."""
        tensor, U = weights.reshape(self.shape), self.Q[j]
        for i, Q in enumerate(self.Q):
            tensor = tensor if i == j else along_axis((Q * Q).T, tensor, i)
        spread, out = first(tensor), np.zeros((U.shape[1],) * 2)
        step = max(1, 2**20 // U.size)
        for o in range(0, spread.shape[1], step):
            part = slice(o, o + step)
            inner = np.matmul(U.T * spread.T[part, None, :], U)
            out += np.einsum("o,ao,bo,oab->ab", others[part], F[:, part], F[:, part], inner)
        return out
