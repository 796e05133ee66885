"""Compiled forward-backward and Viterbi: the numbers of the plain recursions."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest

from mercer import compiled
from mercer.em import HMM, GaussianEmission, Gaussians, forward, gathered, logspace
from mercer.em.forward import Chunks
from mercer.em.hmm import Expected, prepared

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


@pytest.mark.parametrize("transition", (FORGETS, REMEMBERS), ids=("forgets", "remembers"))
@pytest.mark.parametrize("lengths", SHAPES.values(), ids=SHAPES)
@pytest.mark.parametrize("known", (False, True), ids=("hidden", "partly known"))
def test_one_sweep_gathers_what_the_posterior_says(lengths, transition, known, monkeypatch):
    """Some steps at a time; a chain that does not forget is run as a whole instead."""
    rng = np.random.default_rng(1)
    gaussians = Gaussians(rng.normal(size=(3, 2)), [np.eye(2)] * 3)
    model = HMM([0.2, 0.3, 0.5], transition, GaussianEmission(gaussians))
    rows = [rng.normal(size=(n, 2)) for n in lengths]
    labels = [np.where(rng.random(n) < 0.1, 1, -1) for n in lengths] if known else None
    data = prepared(model.emission, rows, labels)
    data = replace(data, **cut(data, lengths, rows, labels, 60))
    expected = Expected.of(model.smooth(data), data, model.emission)
    monkeypatch.setattr(forward, "LOOPS_FROM", 0)
    monkeypatch.setattr(gathered, "SLOTS", 50)
    found = model.expect(data)
    np.testing.assert_allclose(found.log_likelihood, expected.log_likelihood, rtol=1e-12)
    for name in ("first", "transitions"):
        np.testing.assert_allclose(getattr(found, name), getattr(expected, name), rtol=1e-10, atol=1e-11)
    for name in ("weight", "first", "second"):
        one, two = (getattr(e.emission, name) for e in (found, expected))
        np.testing.assert_allclose(one, two, rtol=1e-10, atol=1e-10)


def test_memory_that_is_used_again_keeps_nothing(monkeypatch):
    """E-steps over the same sequences by models of several sizes, in turn and at once in threads."""
    monkeypatch.setattr(forward, "LOOPS_FROM", 0)
    rng = np.random.default_rng(2)
    rows = [rng.normal(size=(n, 1)) for n in (400, 90)]

    def model(N):
        emission = GaussianEmission(Gaussians(rng.normal(size=(N, 1)), [np.eye(1)] * N))
        return HMM(np.full(N, 1 / N), np.full((N, N), 0.3 / N) + 0.7 * np.eye(N), emission)

    models = [model(N) for N in (2, 3, 3, 4)]
    data = models[0].prepare(rows)
    alone = [m.expect(m.prepare(rows)).transitions for m in models]
    for m, expected in zip(models, alone, strict=True):
        np.testing.assert_allclose(m.expect(data).transitions, expected, rtol=1e-12)
    with ThreadPoolExecutor(4) as threads:
        found = list(threads.map(lambda m: m.expect(data).transitions, 10 * models))
    for one, expected in zip(found, 10 * alone, strict=True):
        np.testing.assert_allclose(one, expected, rtol=1e-12)


def cut(data, lengths, rows, labels, length):
    """The same sequences in chunks of another length."""
    chunks = Chunks(lengths, 3, length)
    known = None if labels is None else np.append(np.concatenate(labels), -1)[chunks.index]
    return {"rows": np.concatenate([*rows, rows[0][:1]])[chunks.index], "length": length, "labels": known}


def test_what_could_underflow_goes_through_logarithms(monkeypatch):
    monkeypatch.setattr(forward, "LOOPS_FROM", 0)
    chunks = Chunks([300], 2, 40)
    log_b = np.zeros((2, chunks.index.size))
    log_b[0, chunks.back[100:200]] = -900.0
    stuck = np.array([[1.0, 0.0], [0.0, 1.0]])
    found = forward.smooth(np.array([1.0, 0.0]), stuck, log_b, chunks)
    np.testing.assert_allclose(found.log_likelihood, [-90_000.0])
    np.testing.assert_allclose(found.gamma[0, chunks.back], 1.0)
