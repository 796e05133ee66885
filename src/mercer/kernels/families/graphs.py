"""Kernels on the nodes of a graph: functions of the spectrum of its Laplacian (Kondor and Lafferty 2002;
Borovitskiy et al. 2021).

L = U diag(lambda) U' is decomposed once. A kernel is variance * U diag(phi(lambda)) U' with phi scaled so
that the variances of the nodes average to `variance`: the smooth functions on the graph, those of small
lambda, come with the largest weights.
"""

from __future__ import annotations

import abc
import dataclasses
import functools
from collections.abc import Iterable
from typing import Any, Self

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components
from scipy.sparse.linalg import eigsh

from mercer.inputs import Array, InputError
from mercer.kernels.base import AbstractKernel
from mercer.kernels.families.categorical import distinct_labels, label_of
from mercer.kernels.traits import Traits
from mercer.kernels.words.names import EXACT, written
from mercer.params import Hyper, ParameterError, hyper, positive
from mercer.registry import Saved

MOST_NODES = 3000  # that are decomposed in full, unasked
SHOWN = 12  # edges, in a formula for people
SAME = 1e-8  # relative to the largest degree: eigenvalues no further apart belong together


@Saved.register
@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Graph:
    """An undirected graph: nodes by name, and edges between them, each with a positive weight.

    edges: pairs of names (text or numbers), each pair once
    weights: one for each edge; 1 by default
    nodes: the names, needed for nodes without edges; by default the ends of the edges
    modes: how many eigenvectors of the Laplacian stand for the graph, the smoothest ones; needed beyond 3000
        nodes, where all of them take long. Functions that vary faster are then not seen: `kernel.left_out()`
        says how much that can be
    normalised: whether the Laplacian is I - D^-1/2 W D^-1/2 instead of D - W (weights W, degrees D), for
        graphs in which some nodes have many more edges than others

    Parts that no edge joins are independent of each other.

    >>> Graph([("Basel", "Bern"), ("Bern", "Thun")], weights=[1.0, 2.5])
    >>> Graph.from_adjacency(A, nodes=names)                    # A (n, n), dense or of scipy.sparse
    """

    edges: Any
    weights: Any = None
    nodes: Any = None
    modes: int | None = None
    normalised: bool = False

    def __post_init__(self) -> None:
        edges = tuple(tuple(map(_plain, pair)) for pair in self.edges)
        if wrong := [pair for pair in edges if len(pair) != 2]:
            raise ParameterError(f"Graph.edges are pairs of nodes, got {wrong[0]}; weights are `weights`.")
        keep = functools.partial(object.__setattr__, self)
        keep("edges", edges)
        keep("weights", np.ones(len(edges)) if self.weights is None else np.array(self.weights, float))
        keep("nodes", _ends(edges) if self.nodes is None else tuple(map(_plain, self.nodes)))
        keep("normalised", bool(self.normalised))
        self._check()

    @classmethod
    def from_adjacency(
        cls,
        adjacency: Any,
        nodes: Iterable[Any] | None = None,
        modes: int | None = None,
        normalised: bool = False,
    ) -> Graph:
        """The graph with a symmetric matrix (n, n) of weights, dense or of scipy.sparse: zero where there is
        no edge. Nodes are called 0 ... n - 1 unless named.
        """
        W = sp.coo_array(adjacency)
        names = list(range(W.shape[0])) if nodes is None else list(nodes)
        if W.shape != (len(names), len(names)):
            raise ParameterError(
                f"an adjacency matrix is square, a row for each node; got {W.shape} for {len(names)} nodes."
            )
        if abs(W - W.T).max() > 1e-12 * abs(W).max():
            raise ParameterError("the adjacency matrix is not symmetric: edges of a Graph have no direction.")
        upper = sp.coo_array(sp.triu(W))
        upper.eliminate_zeros()
        edges = [(names[i], names[j]) for i, j in zip(upper.row, upper.col, strict=True)]
        return cls(edges, upper.data, names, modes, normalised)

    @functools.cached_property
    def places(self) -> dict[Any, int]:
        """The row of each node in the Laplacian, by what makes names equal (1 and 1.0 are)."""
        return {label_of(name): i for i, name in enumerate(self.nodes)}

    def _check(self) -> None:
        if not self.nodes:
            raise ParameterError("Graph needs at least one node.")
        if len(self.places) != len(self.nodes):
            raise ParameterError("Graph.nodes has a name twice.")
        if self.weights.shape != (len(self.edges),) or not (
            np.isfinite(self.weights).all() and (self.weights > 0).all()
        ):
            raise ParameterError(f"Graph.weights must be {len(self.edges)} positive numbers, one an edge.")
        seen: set[frozenset] = set()
        for pair in self.edges:
            keys = [label_of(end) for end in pair]
            if unknown := [end for end, key in zip(pair, keys, strict=True) if key not in self.places]:
                raise ParameterError(f"the edge {pair} has the end {unknown[0]!r}, which is not in nodes.")
            if keys[0] == keys[1]:
                raise ParameterError(f"the edge {pair} joins a node to itself.")
            if frozenset(keys) in seen:
                raise ParameterError(f"the edge {pair} is given twice (edges have no direction).")
            seen.add(frozenset(keys))
        if self.modes is None and len(self.nodes) > MOST_NODES:
            raise ParameterError(
                f"the graph has {len(self.nodes)} nodes, more than the {MOST_NODES} whose Laplacian is "
                "decomposed in full: say how many of its smoothest eigenvectors to use, such as modes=500."
            )
        if self.modes is not None and not 1 <= self.modes <= len(self.nodes):
            raise ParameterError(
                f"Graph.modes must be between 1 and the number of nodes, {len(self.nodes)}; got {self.modes}."
            )

    @functools.cached_property
    def laplacian(self) -> sp.csr_array:
        """L (N, N): D - W, or I - D^-1/2 W D^-1/2 with zero rows for nodes without edges."""
        N = len(self.nodes)
        ends = np.array([[self.places[label_of(end)] for end in pair] for pair in self.edges], int)
        i, j = ends.reshape(-1, 2).T
        W = sp.coo_array((self.weights, (i, j)), shape=(N, N)).tocsr()
        W = W + W.T
        degree = W.sum(1)
        if not self.normalised:
            return sp.csr_array(sp.diags_array(degree) - W)
        joined = degree > 0
        root = sp.diags_array(np.divide(1.0, np.sqrt(degree), out=np.zeros(N), where=joined))
        return sp.csr_array(sp.diags_array(joined.astype(float)) - root @ W @ root)

    @functools.cached_property
    def spectrum(self) -> tuple[np.ndarray, np.ndarray]:
        """Eigenvalues (M,) of the Laplacian in ascending order, never negative, and eigenvectors (N, M): all,
        or the `modes` smallest (fewer, where that would cut through eigenvalues that are equal).
        """
        L, N = self.laplacian, len(self.nodes)
        if self.modes is None or self.modes == N:
            values, vectors = np.linalg.eigh(L.toarray())
            return np.maximum(values, 0.0), vectors
        parts = connected_components(L, directed=False)[1]
        members = [np.flatnonzero(parts == part) for part in range(parts.max() + 1)]
        found = [_smallest(L[rows][:, rows], self.modes + 1) for rows in members]
        values = np.concatenate([part_values for part_values, _ in found])
        order = np.argsort(values, kind="stable")
        kept, following = order[: self.modes], values[order[self.modes]]
        kept = kept[values[kept] < following - SAME * L.diagonal().max()]
        if not kept.size:
            raise ParameterError(
                f"more than {self.modes} of the Laplacian's eigenvalues are equally small, because the graph "
                "is in many parts: a larger `modes` is needed."
            )
        U = np.zeros((N, kept.size))
        counts = [part_values.size for part_values, _ in found]
        owner = np.repeat(np.arange(len(found)), counts)
        first = np.cumsum([0, *counts])
        for column, mode in enumerate(kept):
            part = owner[mode]
            U[members[part], column] = found[part][1][:, mode - first[part]]
        return np.maximum(values[kept], 0.0), U

    def rows(self, column: np.ndarray) -> np.ndarray:
        """Which node each of these names is: (n,)."""
        names, inverse = distinct_labels(column)
        places = [self.places.get(name, -1) for name in names]
        if -1 in places:
            row = int(np.flatnonzero(inverse == places.index(-1))[0])
            some = ", ".join(map(repr, self.nodes[:5])) + (", ..." if len(self.nodes) > 5 else "")
            raise InputError(
                f"row {row} is {_plain(column[row])!r}, which is not a node of the graph; it has "
                f"{len(self.nodes)}: {some}"
            )
        return np.array(places, int)[inverse]

    def formula(self, digits: int = 6) -> str:
        """What makes it again; of a larger graph, with less than 17 digits, only how large it is."""
        if digits < EXACT and len(self.edges) > SHOWN:
            return f"Graph({len(self.nodes)} nodes, {len(self.edges)} edges)"
        said = [written(self.edges, digits)]
        if (self.weights != 1.0).any():
            said.append(f"weights={written(self.weights, digits)}")
        if self.nodes != _ends(self.edges):
            said.append(f"nodes={written(self.nodes, digits)}")
        said += [f"modes={self.modes}"] * (self.modes is not None) + ["normalised=1"] * self.normalised
        return f"Graph({', '.join(said)})"

    def __repr__(self) -> str:
        return self.formula()

    @functools.cached_property
    def _content(self) -> tuple:
        return self.edges, self.weights.tobytes(), self.nodes, self.modes, self.normalised

    @functools.cached_property
    def _hash(self) -> int:
        return hash(self._content)

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Graph) and self._content == other._content)


class AbstractGraphKernel(AbstractKernel):
    """Reads one column, of names of nodes. In a table with other columns: `.on("station")`."""

    graph: eqx.AbstractVar[Graph]

    @abc.abstractmethod
    def weight(self, eigenvalues: Array) -> jax.Array:
        """phi(lambda) (M,), positive and falling, up to a factor."""

    def spectrum(self) -> jax.Array:
        """The variance of the weight of each eigenvector (M,): variance * phi, scaled such that the variances
        of all nodes average to `variance`.
        """
        phi = self.weight(self.graph.spectrum[0])
        share = len(self.graph.nodes) * phi / jnp.sum(phi)
        return self.variance * share  # type: ignore[attr-defined]

    def left_out(self) -> float:
        """The largest share of the variance that eigenvectors beyond `modes` can have had; 0 with all."""
        phi, N = np.asarray(self.weight(self.graph.spectrum[0])), len(self.graph.nodes)
        beyond = (N - phi.size) * phi[-1]
        return float(beyond / (phi.sum() + beyond))

    def reads_objects(self) -> bool:
        return True

    def bind(self, d: int, names: tuple[str, ...] | None = None) -> Self:
        if d != 1:
            raise ParameterError(
                f"{type(self).__name__} reads one column of nodes; there are {d}: choose one with .on(...)."
            )
        return self

    def encode(self, X: Any) -> np.ndarray:
        """Rows (n, M) of the eigenvectors."""
        return self.graph.spectrum[1][self.graph.rows(np.asarray(X)[:, 0])]

    def block(self, A: jax.Array, B: jax.Array) -> jax.Array:
        return (A * self.spectrum()) @ B.T

    def diag(self, A: jax.Array) -> jax.Array:
        return jnp.square(A) @ self.spectrum()

    def rank(self, d: int) -> int:
        return self.graph.spectrum[0].size

    def features(self, A: jax.Array) -> jax.Array:
        return A * jnp.sqrt(self.spectrum())

    def traits(self, d: int = 1) -> Traits:
        return Traits(lengthscale=self.lengthscale, beyond="returns to the mean")  # type: ignore[attr-defined]


class GraphMatern(AbstractGraphKernel):
    """variance * (2 nu / lengthscale^2 + L)^-nu on the nodes of a graph with Laplacian L, scaled to an
    average variance of `variance` (Borovitskiy et al. 2021).

    graph: a `Graph`; the input is a column of its nodes
    lengthscale: how far values stay alike, in steps along edges of weight 1
    nu: smoothness, not learned unless given as `param(...)`; ever larger, it is `GraphDiffusion`

    The variance of a node depends on where it is: in a dead end it is larger.

    >>> roads = Graph([("Basel", "Bern"), ("Bern", "Thun")])
    >>> GraphMatern(roads, lengthscale=2.0).on("town") * SE(10.0).on("day")
    """

    graph: Graph = eqx.field(static=True)
    lengthscale: Hyper = hyper(1.0, positive)
    nu: Hyper = hyper(1.5, positive, free=False)
    variance: Hyper = hyper(1.0, positive)

    def weight(self, eigenvalues: Array) -> jax.Array:
        t = 0.5 * jnp.square(self.lengthscale)
        return jnp.exp(-self.nu * jnp.log1p(t * eigenvalues / self.nu))


class GraphDiffusion(AbstractGraphKernel):
    """variance * exp(-t L), t = lengthscale^2 / 2, on the nodes of a graph with Laplacian L, scaled to an
    average variance of `variance`: heat that has spread along the edges for a time t (Kondor and Lafferty
    2002).

    graph: a `Graph`; the input is a column of its nodes
    lengthscale: how far values stay alike, in steps along edges of weight 1

    >>> GraphDiffusion(Graph([("ann", "bob"), ("bob", "cid")]), lengthscale=1.5)
    """

    graph: Graph = eqx.field(static=True)
    lengthscale: Hyper = hyper(1.0, positive)
    variance: Hyper = hyper(1.0, positive)

    def weight(self, eigenvalues: Array) -> jax.Array:
        return jnp.exp(-0.5 * jnp.square(self.lengthscale) * eigenvalues)


def _smallest(L: sp.csr_array, k: int) -> tuple[np.ndarray, np.ndarray]:
    """The k smallest eigenvalues (k,) of the Laplacian of a connected graph, and eigenvectors (N, k); all,
    where it has no more.
    """
    N = L.shape[0]
    if max(2 * k, 500) >= N:
        values, vectors = np.linalg.eigh(L.toarray())
        return values[:k], vectors[:, :k]
    start = np.random.default_rng(0).normal(size=N)
    values, vectors = eigsh(L.tocsc(), k, sigma=-1e-3 * L.diagonal().max(), v0=start)
    order = np.argsort(values)
    return values[order], vectors[:, order]


def _ends(edges: tuple) -> tuple:
    """The nodes that edges join, as they come."""
    return tuple(dict.fromkeys(end for pair in edges for end in pair))


def _plain(name: Any) -> Any:
    return name.item() if isinstance(name, np.generic) else name
