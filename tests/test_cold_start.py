"""JAX is loaded when something is computed, and is set up as soon as it is loaded, whoever loads it first.

Each case is a process of its own, which says what it has loaded; no times are measured.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

HEAVY = ("jax", "numpy", "scipy", "sklearn", "matplotlib", "equinox", "rich", "fastapi", "dask", "pyarrow")


def run(program: str, **variables: str) -> dict:
    """What a program has put into `found`, in an environment where nobody has set up JAX."""
    inherited = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("XLA_", "JAX_", "MERCER_", "XDG_CACHE"))
    }
    done = subprocess.run(
        [sys.executable, "-c", f"{program}\nimport json; print('\\n' + json.dumps(found))"],
        capture_output=True,
        text=True,
        check=True,
        env=inherited | {"JAX_PLATFORMS": "cpu"} | variables,
    )
    return json.loads(done.stdout.splitlines()[-1])


COMMAND = """
import contextlib, io, sys
from mercer.app.cli import app
found = {}
for words in CALLS:
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        try:
            app(words)
        except SystemExit as end:
            code = end.code
    found[" ".join(words)] = code, [name for name in HEAVY if name in sys.modules]
"""


def test_help_version_and_wrong_options_load_nothing_heavy():
    from mercer.app.cli import app

    names = [info.name or info.callback.__name__ for info in app.registered_commands]
    helps = [["--help"], ["--version"], *([name, "--help"] for name in names)]
    wrong = [["fti"], ["--nothing"], *([name, "--nothing"] for name in names)]
    missing = [["fit", "no such.csv", "--target", "y", "--out", "m.mercer"], ["info", "no such.mercer"]]
    found = run(f"CALLS, HEAVY = {[*helps, *wrong, *missing]!r}, {HEAVY!r}" + COMMAND)
    assert {line: loaded for line, (_, loaded) in found.items() if loaded} == {}
    for code, calls in {0: helps, 2: wrong, 1: missing}.items():
        assert {line: found[line][0] for line in map(" ".join, calls)} == dict.fromkeys(
            map(" ".join, calls), code
        )


SET_UP = """
import os, sys, jax, jax.numpy as jnp
found = {
    "dtype": str(jnp.ones(2).dtype),
    "cache": jax.config.jax_compilation_cache_dir,
    "flags": os.environ.get("XLA_FLAGS", ""),
    "waiting": sum("jax_settings" in str(type(finder)) for finder in sys.meta_path),
}
"""


@pytest.mark.parametrize(
    "first",
    [
        "import mercer",  # and the person's own `import jax` after it
        "import jax, mercer",
        "from mercer.linalg import lapack",
        "import mercer; from jax._src import config",
    ],
)
def test_jax_is_set_up_before_the_first_array(first, tmp_path):
    found = run(first + SET_UP, MERCER_CACHE=str(tmp_path))
    assert found["dtype"] == "float64" and found["cache"] == str(tmp_path)
    assert found["waiting"] == 0


def test_flags_of_xla_are_set_before_it_reads_them():
    """It reads them when its backend is made, at the first array."""
    found = run(
        "import os, mercer.kernels; from jax._src import xla_bridge\n"
        "found = {'flags': os.environ['XLA_FLAGS'], 'read': xla_bridge.backends_are_initialized()}",
        XLA_FLAGS="--xla_cpu_enable_fast_math=false",
    )
    assert not found["read"]
    assert found["flags"].startswith("--xla_cpu_enable_fast_math=false --xla_")


def test_what_a_person_has_set_stays(tmp_path):
    given = {"MERCER_X64": "0", "MERCER_CACHE": "", "MERCER_XLA": "0"}
    found = run("import mercer" + SET_UP, **given)
    assert found["dtype"] == "float32" and found["cache"] is None and "emitters" not in found["flags"]
    found = run("import mercer" + SET_UP, JAX_COMPILATION_CACHE_DIR=str(tmp_path))
    assert found["cache"] == str(tmp_path)


def test_importing_mercer_loads_no_jax_and_leaves_the_environment_alone():
    found = run(
        "import os; before = dict(os.environ)\nimport mercer, sys\n"
        "found = {'loaded': sorted({'jax', 'numpy'} & set(sys.modules)), 'same': before == dict(os.environ)}"
    )
    assert found == {"loaded": [], "same": True}


FIRST_CALLS = """
import sys
import equinox, jax, sklearn.base
bare = set(sys.modules)
import numpy as np, mercer as mc

def beyond():
    names = [name.split(".") for name in set(sys.modules) - bare]
    others = [n for n in names if n[0] != "mercer" and n[0] not in sys.stdlib_module_names]
    return sorted({".".join(n[: 2 if n[0] in ("scipy", "sklearn") else 1]) for n in others})

programs = []
jax.monitoring.register_event_duration_secs_listener(
    lambda event, *_, **__: programs.append(event) if event.endswith("backend_compile_duration") else None
)
rng = np.random.default_rng(0)
X = rng.standard_normal((100, 3))
y = np.sin(2 * X[:, 0]) + 0.1 * rng.standard_normal(100)
found = {}
for name, targets in {"GPRegressor": y, "GPClassifier": y > 0}.items():
    programs.clear()
    getattr(mc, name)().fit(X, targets).predict(X)
    found[name] = beyond(), len(programs)
programs.clear()
mc.GPTimeSeries().fit(np.arange(100.0), y).forecast(5)
found["GPTimeSeries"] = beyond(), len(programs)
found["own"] = sorted(name for name in sys.modules if name.startswith("mercer."))
"""


def test_a_first_fit_loads_and_compiles_no_more_than_it_needs(tmp_path):
    """Beyond what jax, equinox and scikit-learn's base load themselves (`scipy.stats`, and pandas where it is
    installed, are scikit-learn's). Each further program costs a fresh process tens of milliseconds.
    """
    found = run(FIRST_CALLS, MERCER_CACHE=str(tmp_path))
    few = {"jax", "jaxlib", "markupsafe"}
    assert set(found["GPRegressor"][0]) <= few and found["GPRegressor"][1] <= 4
    assert set(found["GPClassifier"][0]) <= few | {"sklearn.utils"} and found["GPClassifier"][1] <= 6
    assert set(found["GPTimeSeries"][0]) <= few | {"sklearn.utils", "pyarrow"}
    assert found["GPTimeSeries"][1] <= 5
    others = {"mercer.estimators.series.backtest", "mercer.viz"}
    others |= {f"mercer.selection.{rule}" for rule in ("chance", "clusters", "informative", "regressors")}
    assert not others & set(found["own"])


def test_loading_leaves_the_collector_of_garbage_as_it_was():
    found = run(
        "import gc, mercer\nfound = []\n"
        "for switch in (gc.disable, gc.enable):\n"
        "    switch(); mercer.kernels.SE, mercer.GP, mercer.solvers.VFE; found.append(gc.isenabled())"
    )
    assert found == [False, True]


def test_what_was_loaded_is_old_to_the_collector_of_garbage():
    """So that its next searches do not begin with all that; what a person has frozen stays so."""
    code = (
        "import gc, mercer\n{before}; frozen = gc.get_freeze_count(); mercer.GPRegressor\n"
        "young, old = (sum(len(gc.get_objects(g)) for g in which) for which in ((0, 1), (2,)))\n"
        "found = [frozen, gc.get_freeze_count(), young, old]"
    )
    before, after, young, old = run(code.format(before="pass"))
    assert before == after == 0 and young < old / 10
    before, after, *_ = run(code.format(before="gc.freeze()"))
    assert after > before / 2 > 0
