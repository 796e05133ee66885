"""Programs found on disk: the same numbers, never those of another function, structure, shape or source."""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
import uuid
from concurrent.futures import ThreadPoolExecutor

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from mercer import kernels, programs
from mercer.linalg import tiles


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Where programs are kept."""
    monkeypatch.setenv("MERCER_PROGRAMS", "1")
    monkeypatch.setenv("MERCER_CACHE", str(tmp_path))
    monkeypatch.setattr(programs, "_edition", lambda new=uuid.uuid4().hex: new)  # unknown to JAX's cache, too
    return tmp_path / "programs"


def kept(folder) -> list[str]:
    return sorted(path.name for path in folder.glob("*/*"))


def test_what_is_found_gives_the_same_numbers(folder):
    A = np.random.default_rng(0).standard_normal((5, 2))
    leaves, structure = jax.tree.flatten(kernels.SE(lengthscale=[1.0, 2.0]))
    made, found = (programs.program(tiles._rebuilt, tiles._block, structure) for _ in range(2))
    K = np.asarray(made(leaves, A, A))
    (name,) = kept(folder)
    read = []
    load, programs._load = programs._load, lambda *args: read.append(1) or load(*args)
    try:
        np.testing.assert_array_equal(found(leaves, A, A), K)
    finally:
        programs._load = load
    assert read and kept(folder) == [name]
    np.testing.assert_allclose(K, np.asarray(kernels.SE(lengthscale=[1.0, 2.0])(A, A)), rtol=1e-14)
    jitted = jax.jit(lambda A: jnp.sum(found(leaves, A, A)))(A)  # inside jit there is nothing to find
    np.testing.assert_allclose(jitted, K.sum(), rtol=1e-14)


def test_programs_in_the_calling_thread_are_found_too(folder):
    A = jax.device_put(np.random.default_rng(0).standard_normal((5, 2)), programs.inline())
    leaves, structure = jax.tree.flatten(kernels.SE(lengthscale=[1.0, 2.0]))
    made, found = (programs.program(tiles._rebuilt, tiles._block, structure) for _ in range(2))
    K, again = made(leaves, A, A), found(leaves, A, A)
    assert len(kept(folder)) == 1 and K.device == again.device == programs.inline()
    np.testing.assert_array_equal(again, K)


def test_every_function_structure_shape_and_type_has_a_program_of_its_own(folder):
    A = np.random.default_rng(0).standard_normal((4, 2))
    for kernel in (
        kernels.Matern(nu=1.5),
        kernels.Matern(nu=2.5),
        kernels.SE(),
        kernels.SE(lengthscale=[1.0, 1.0]),
    ):
        for X in (A, A[:3], A.astype(np.float32)):
            leaves, structure = jax.tree.flatten(kernel)
            found = programs.program(tiles._rebuilt, tiles._block, structure)(leaves, X, X)
            np.testing.assert_allclose(found, kernel.block(X, X), rtol=1e-6)
    assert len(kept(folder)) == 12


@pytest.mark.filterwarnings("ignore:overflow")  # of the farthest distance in float32
def test_settings_of_jax_that_have_changed_are_kept_to(folder):
    A = np.random.default_rng(0).standard_normal((4, 2))
    leaves, structure = jax.tree.flatten(kernels.SE())
    made = programs.program(tiles._rebuilt, tiles._block, structure)
    expected = np.asarray(made(leaves, A, A))
    with jax.enable_x64(False):
        assert made(leaves, A, A).dtype == np.float32
    with jax.debug_nans(True), pytest.raises(FloatingPointError):
        made(leaves, np.full_like(A, np.nan), A)
    assert made(leaves, A, A).dtype == np.float64
    with jax.disable_jit():
        np.testing.assert_allclose(made(leaves, A, A), expected, rtol=1e-14)
    weak = jax.tree.map(lambda _: jnp.asarray(1.0), leaves)
    assert any(x.weak_type for x in weak) and np.allclose(made(weak, A, A), expected)


class Ours(eqx.Module):
    """Stands for a person's class, whose source may change."""

    scale: jax.Array

    def block(self, A, B):
        return self.scale * A @ B.T


def doubled(x):
    return 2.0 * x


def test_what_has_no_certain_name_is_not_kept(folder):
    leaves, structure = jax.tree.flatten(Ours(jnp.asarray(2.0)))
    A = np.eye(2)
    np.testing.assert_array_equal(
        programs.program(tiles._rebuilt, tiles._block, structure)(leaves, A, A), 2 * A
    )
    np.testing.assert_array_equal(programs.program(doubled)(A), 2 * A)
    np.testing.assert_array_equal(programs.program(jnp.linalg.cholesky)(A), A)
    for value in (lambda x: x, functools.partial(doubled), object(), {1}, np.array([None])):
        with pytest.raises(programs._Nameless):
            programs._words(value)
    assert kept(folder) == []
    made_by_a_function = functools.wraps(tiles._block)(lambda *args: None)  # under the name of ours
    for value in (made_by_a_function, np.dtype(jnp.bfloat16), jax.random.key(0).dtype, np.dtype(">f8")):
        with pytest.raises(programs._Nameless):
            programs._words(value)


@pytest.mark.skipif(not hasattr(os, "getuid"), reason="files have no owners of this kind")
def test_what_others_could_have_written_is_not_read(folder, monkeypatch):
    A = np.eye(3)
    leaves, structure = jax.tree.flatten(kernels.SE())
    before = os.umask(0o002)
    try:
        programs.program(tiles._rebuilt, tiles._block, structure)(leaves, A, A)
    finally:
        os.umask(before)
    (path,) = folder.glob("*/*")
    assert programs._read(path)
    for place, mode in ((path, 0o664), (path, 0o602), (path.parent, 0o770)):
        usual = place.stat().st_mode
        place.chmod(mode)
        with pytest.raises(PermissionError):
            programs._read(path)
        place.chmod(usual)
    monkeypatch.setattr(os, "getuid", lambda: path.stat().st_uid + 1)
    with pytest.raises(PermissionError):
        programs._read(path)
    content = path.read_bytes()
    monkeypatch.setattr(programs, "_load", lambda content: pytest.fail("read what somebody else owns"))
    with monkeypatch.context() as patch:
        patch.setattr(programs, "_store", lambda *args: None)
        programs.program(tiles._rebuilt, tiles._block, structure)(leaves, A, A)
    assert path.read_bytes() == content


def test_a_file_that_cannot_be_read_and_a_folder_that_cannot_be_written_are_survived(folder, monkeypatch):
    A = np.eye(3)
    leaves, structure = jax.tree.flatten(kernels.SE())
    expected = programs.program(tiles._rebuilt, tiles._block, structure)(leaves, A, A)
    (path,) = folder.glob("*/*")
    path.write_bytes(path.read_bytes()[:100])
    again = programs.program(tiles._rebuilt, tiles._block, structure)(leaves, A, A)
    np.testing.assert_array_equal(again, expected)
    monkeypatch.setenv("MERCER_CACHE", str(path))  # a file
    again = programs.program(tiles._rebuilt, tiles._block, structure)(leaves, A, A)
    np.testing.assert_array_equal(again, expected)


def test_editions_differ_by_sources_and_old_ones_go(folder, monkeypatch):
    A = np.eye(3)
    leaves, structure = jax.tree.flatten(kernels.SE())
    for _ in range(programs.EDITIONS + 2):
        monkeypatch.setattr(programs, "_edition", lambda new=uuid.uuid4().hex: new)
        programs.program(tiles._rebuilt, tiles._block, structure)(leaves, A, A)
    assert len(list(folder.iterdir())) == programs.EDITIONS
    monkeypatch.setattr(programs, "MOST", 4)
    for n in range(2, 12):
        programs.program(tiles._rebuilt, tiles._block, structure)(leaves, A, np.ones((n, 3)))
        assert len(kept(folder)) <= 4 + programs.EDITIONS
    monkeypatch.undo()
    programs._edition.cache_clear()
    before = programs._edition()
    assert "programs.py" in before and jax.__version__ in before
    monkeypatch.setenv("XLA_FLAGS", "--another")
    programs._edition.cache_clear()
    assert programs._edition() != before
    monkeypatch.setattr(programs, "LOADED", os.stat(programs.__file__).st_mtime - 1.0)
    programs._edition.cache_clear()
    with pytest.raises(programs._Nameless):  # the source has changed since it was loaded
        programs._edition()
    programs._edition.cache_clear()


def test_threads_find_the_same_at_once(folder):
    A = np.random.default_rng(0).standard_normal((6, 2))
    leaves, structure = jax.tree.flatten(kernels.SE())
    made = programs.program(tiles._rebuilt, tiles._block, structure)
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: np.asarray(made(leaves, A, A)), range(16)))
    assert all(np.array_equal(K, found[0]) for K in found) and len(kept(folder)) == 1


FIT = """
import jax, json, numpy as np, mercer as mc
traced = []
jax.monitoring.register_event_duration_secs_listener(
    lambda event, *_, **__: traced.append(event) if event.endswith("jaxpr_trace_duration") else None)
rng = np.random.default_rng(0)
X = rng.standard_normal((30, 2))
y = X[:, 0] + 0.1 * rng.standard_normal(30)
r = mc.GPRegressor().fit(X, y).predict(X)
c = mc.GPClassifier().fit(X, y > 0).predict_proba(X)
t = mc.GPTimeSeries().fit(np.arange(30.0), y).forecast_columns(3)[1]["upper"]
print(json.dumps([len(traced), [float.hex(float(v)) for v in (*r, *c[:, 1], *t)]]))
"""


@pytest.mark.slow
def test_a_second_process_traces_nothing_and_finds_the_same_to_the_last_bit(tmp_path):
    environment = os.environ | {"MERCER_CACHE": str(tmp_path), "MERCER_PROGRAMS": "1"}
    found = []
    for _ in range(2):
        done = subprocess.run(
            [sys.executable, "-c", FIT], env=environment, capture_output=True, text=True, check=True
        )
        found.append(json.loads(done.stdout.splitlines()[-1]))
    assert found[0][0] > 0 and found[1][0] == 0
    assert found[0][1] == found[1][1]
