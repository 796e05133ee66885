"""The subtree kernel on parse trees and other ordered, labelled trees."""

from __future__ import annotations

import dataclasses
import hashlib
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from mercer.inputs import InputError
from mercer.kernels.text.base import AbstractComparison, entries, width
from mercer.kernels.text.pairs import forward
from mercer.kernels.text.strings import check_decay
from mercer.params import Hyper, hyper, unit


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Trees:
    """Trees with children before parents: a number for each node's production (n, nodes), padded by -1, and
    the places of its children (n, nodes, most), which are `nodes` where there is none."""

    productions: Any
    children: Any


class Subtree(AbstractComparison):
    """All fragments of a tree, each weighted by its size: the kernel of Collins and Duffy.

    A tree is a tuple (label, child, child ...) whose children are trees or words. A production is a label
    with those of its children; a fragment is a connected set of whole productions, and one of p productions
    counts decay^p for each pair of places in x and x'.

    >>> Subtree(0.4)([("S", ("N", "Jo"), ("V", "sings")), ("S", ("N", "Jo"), ("V", "runs"))])
    """

    decay: Hyper = hyper(0.5, unit)

    what: ClassVar[str] = "trees"

    def __check_init__(self):
        check_decay(self)

    def encode(self, X: Any) -> Trees:
        found = [_nodes(tree, i) for i, tree in enumerate(entries(X, "trees"))]
        nodes = width(max(map(len, found)))
        most = max((len(children) for tree in found for _, children in tree), default=0)
        most = 1 << max(most - 1, 0).bit_length()
        productions = np.full((len(found), nodes), -1, dtype=np.int64)
        places = np.full((len(found), nodes, most), nodes, dtype=np.int32)
        for row, tree in enumerate(found):
            for node, (production, children) in enumerate(tree):
                productions[row, node] = production
                for child, place in enumerate(children):
                    if place is not None:
                        places[row, node, child] = place
        return Trees(productions, places)

    def compare(self, A: Trees, B: Trees) -> jax.Array:
        return forward(lambda decay, A, B: lax.map(lambda a: _common(decay, a, B), A), analytic=True)(
            jnp.asarray(self.decay), A, B
        )

    def compare_same(self, A: Trees) -> jax.Array:
        def own(decay, A):
            return lax.map(lambda a: _common(decay, a, jax.tree.map(lambda x: x[None], a))[0], A)

        return forward(own, analytic=True)(jnp.asarray(self.decay), A)


def _common(decay, tree: Trees, others: Trees):
    """Weighted number of pairs of equal fragments of one tree and each of m others: (m,).

    C(i, j) counts those rooted in nodes i and j: decay times the product over the children of 1 + C(child of
    i, child of j).
    """
    nodes, (m, other_nodes) = tree.productions.shape[0], others.productions.shape
    most = min(tree.children.shape[-1], others.children.shape[-1])
    places = jnp.moveaxis(others.children, 2, 0)

    def node(i, C):
        def times(child, factor):
            rooted = C[tree.children[i, child]]
            return factor * (1.0 + jnp.take_along_axis(rooted, places[child], 1))

        factor = lax.fori_loop(0, most, times, jnp.broadcast_to(decay, (m, other_nodes)))
        here = jnp.where(tree.productions[i] == others.productions, factor, 0.0)
        return C.at[i, :, :other_nodes].set(here)

    C = jnp.zeros((nodes + 1, m, other_nodes + 1)) * decay
    return jnp.sum(lax.fori_loop(0, jnp.sum(tree.productions >= 0), node, C), (0, 2))


def _nodes(tree, row: int) -> list[tuple[int, list[int | None]]]:
    """Production and places of the children (None: a word) of every node, children before parents."""
    out: list[tuple[int, list[int | None]]] = []

    def visit(node) -> int:
        if not isinstance(node, tuple) or not node or not isinstance(node[0], str):
            raise InputError(
                f"row {row}: a tree is a tuple (label, child, ...) of trees and words, got {node!r}."
            )
        children = [None if isinstance(child, str) else visit(child) for child in node[1:]]
        signs = [("word", child) if isinstance(child, str) else ("node", child[0]) for child in node[1:]]
        out.append((_fingerprint((node[0], signs)), children))
        return len(out) - 1

    visit(tree)
    return out


def _fingerprint(production) -> int:
    return (
        int.from_bytes(
            hashlib.blake2b(repr(production).encode("utf-8", "surrogatepass"), digest_size=8).digest(), "big"
        )
        >> 1
    )
