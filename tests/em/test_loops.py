"""Compiled forward-backward and Viterbi: the numbers of the plain recursions."""

import numpy as np
import pytest

from mercer import compiled
from mercer.em import forward, logspace
from mercer.em.forward import Chunks

pytestmark = pytest.mark.skipif(not compiled.ready(), reason="numba is not installed, or does not work here")

SHAPES = {"one": [400], "several": [130, 1, 77, 200], "short": [9] * 40}
FORGETS = np.array([[0.7, 0.2, 0.1], [0.3, 0.6, 0.1], [0.2, 0.3, 0.5]])
REMEMBERS = np.array([[1.0, 0.0, 0.0], [1e-4, 1.0 - 1e-4, 0.0], [0.0, 1e-4, 1.0 - 1e-4]])  # left to right


@pytest.mark.parametrize("transition", (FORGETS, REMEMBERS), ids=("forgets", "remembers"))
@pytest.mark.parametrize("lengths", SHAPES.values(), ids=SHAPES)
@pytest.mark.parametrize("length", (7, 60, None))
def test_loops_are_the_recursions(lengths, transition, length, monkeypatch):
    """In chunks of any length, where a chain forgets its beginning and where it does not."""
    rng = np.random.default_rng(0)
    chunks, initial = Chunks(lengths, 3, length or max(lengths)), np.array([0.2, 0.3, 0.5])
    log_b = rng.normal(size=(3, chunks.index.size))
    log_b[:, chunks.empty] = 0.0
    expected = forward.smooth(initial, transition, log_b, chunks)
    exact = logspace.smooth(initial, transition, log_b, chunks)
    best = logspace.viterbi(initial, transition, log_b, chunks)
    monkeypatch.setattr(forward, "LOOPS_FROM", 0)
    found = forward.smooth(initial, transition, log_b, chunks)
    for other in (expected, exact):
        np.testing.assert_allclose(found.log_likelihood, other.log_likelihood, rtol=1e-12)
        np.testing.assert_allclose(found.transitions, other.transitions, rtol=1e-10, atol=1e-12)
        for name in ("alpha", "gamma"):
            one, two = (getattr(run, name)[:, chunks.back] for run in (found, other))
            np.testing.assert_allclose(one, two, rtol=1e-10, atol=1e-13)
    path, value = logspace.viterbi(initial, transition, log_b, chunks)
    np.testing.assert_array_equal(path, best[0])
    np.testing.assert_allclose(value, best[1], rtol=1e-12)


def test_what_could_underflow_goes_through_logarithms(monkeypatch):
    monkeypatch.setattr(forward, "LOOPS_FROM", 0)
    chunks = Chunks([300], 2, 40)
    log_b = np.zeros((2, chunks.index.size))
    log_b[0, chunks.back[100:200]] = -900.0
    stuck = np.array([[1.0, 0.0], [0.0, 1.0]])
    found = forward.smooth(np.array([1.0, 0.0]), stuck, log_b, chunks)
    np.testing.assert_allclose(found.log_likelihood, [-90_000.0])
    np.testing.assert_allclose(found.gamma[0, chunks.back], 1.0)
