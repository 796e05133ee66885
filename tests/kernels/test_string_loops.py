"""Kernels on strings by compiled loops: the tables of JAX, their derivatives, in threads."""

import equinox as eqx
import jax
import numpy as np
import pytest

from mercer import compiled
from mercer import kernels as k
from mercer.compiled import strings as loops
from mercer.kernels.text import strings
from mercer.params import strip

pytestmark = pytest.mark.skipif(not compiled.ready(), reason="numba is not installed, or does not work here")

RNG = np.random.default_rng(0)
TEXTS = ["".join(RNG.choice(list("acgt"), n)) for n in (0, 1, 2, 5, 9, 17, 17, 30)]
KERNELS = {
    "gaps": k.GapWeighted(3, decay=0.6),
    "gaps of one": k.GapWeighted(1, decay=0.6),
    "substrings": k.Substring(0.5),
    "mismatches": k.Mismatch(3, 1, alphabet="acgt"),
}


def decaying(kernel, decay):
    return eqx.tree_at(lambda kernel: kernel.decay, kernel, decay)


@pytest.mark.parametrize("name", KERNELS)
def test_loops_are_the_tables(name, monkeypatch):
    kernel = strip(KERNELS[name])
    A, B = kernel.encode(TEXTS), kernel.encode(TEXTS[2:])
    decays = [0.6, 0.3]

    def answers():
        def number(decay):
            changed = (
                kernel if name == "mismatches" else eqx.tree_at(lambda kernel: kernel.decay, kernel, decay)
            )
            return changed.compare(A, B), changed.compare_same(A)

        slopes = jax.jit(jax.jacfwd(number))
        return [number(d) for d in decays], [slopes(d) for d in decays]

    expected = answers()
    monkeypatch.setattr(strings, "LOOPS_FROM", 0)
    for one, two in zip(jax.tree.leaves(answers()), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(one, two, rtol=1e-12, atol=1e-12)


def test_second_derivatives_come_from_the_table(monkeypatch):
    kernel = strip(KERNELS["gaps"])
    A = kernel.encode(TEXTS)

    def total(decay):
        return decaying(kernel, decay).compare(A, A).sum()

    expected = jax.hessian(total)(0.6)
    monkeypatch.setattr(strings, "LOOPS_FROM", 0)
    np.testing.assert_allclose(jax.hessian(total)(0.6), expected, rtol=1e-10)


@pytest.mark.parametrize("threads", (1, 2))
def test_threads_share_the_pairs(threads):
    A = k.GapWeighted(2).encode([t for t in TEXTS for _ in range(30)])
    i, j = (x.ravel() for x in np.indices((len(A), 3)))
    found = loops.over_pairs(loops.gap_weighted(2), 0.7, A, A, (i, j), threads)
    alone = [
        loops.over_pairs(loops.gap_weighted(2), 0.7, A, A, (i[n : n + 1], j[n : n + 1]), 1)[0]
        for n in (0, 100, 700)
    ]
    np.testing.assert_allclose(found[[0, 100, 700]], alone, rtol=1e-14)
