"""`mercer doctor`: versions, devices, threads, cache, extras; whether it computes right, and how fast."""

from __future__ import annotations

import dataclasses
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import typer

from mercer.app.command import FAILED, command
from mercer.app.console import found, note, say, show_table
from mercer.progress import duration

PACKAGES = ("mercer", "jax", "jaxlib", "equinox", "numpy", "scipy", "scikit-learn", "narwhals", "matplotlib")
# what each extra brings, as it is imported
EXTRAS = {
    "parquet": ("pyarrow",),
    "cluster": ("dask", "distributed"),
    "control": ("gymnasium",),
    "sktime": ("sktime",),
    "serve": ("fastapi", "uvicorn"),
    "studio": ("fastapi", "uvicorn", "pydantic"),
}
# log evidence of sin(x) at 0, 0.5, ..., 2.5 by SE() with noise variance 0.01, and its derivative by the
# length-scale, in decimal arithmetic with 60 digits (tests/app/test_doctor.py)
EVIDENCE, SLOPE = -1.14800200259861, 4.172102122722759
WIDE = 96  # columns of a kernel whose derivatives XLA has got wrong
ROWS = 1500  # whose evidence is timed
TIMED = 0.6  # seconds after which it is not timed again


@dataclasses.dataclass(frozen=True)
class Check:
    """One thing that was tried: whether it is right, in words; and what to do where it is not."""

    name: str
    right: bool
    said: str
    remedy: str = ""


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(doctor)


@command
def doctor() -> None:
    """Say whether this installation is sound, and how fast.

    Versions, devices, BLAS and its threads, memory, the cache of compiled functions, extras; a self-test of a
    few seconds against values that are known. The exit code is 1 if something is wrong.

    Example: mercer doctor --json
    """
    facts = about()
    for title, lines in facts.items():
        show_table(title, ("what", "value"), list(lines.items()))
    extras = {name: _installed(modules) for name, modules in EXTRAS.items()}
    rows = [
        (n, "installed" if ok else f'not installed: pip install "mercer[{n}]"') for n, ok in extras.items()
    ]
    show_table("Extras", ("extra", "state"), rows)
    checks = [attempt(name, check) for name, check in CHECKS.items()]
    show_table(
        "Self-test", ("what", "", "found"), [(c.name, "ok" if c.right else "WRONG", c.said) for c in checks]
    )
    timed = speed()
    found(**facts, extras=extras, checks=[dataclasses.asdict(c) for c in checks], speed=timed)
    later = duration(timed["seconds_at_10000"])
    say(
        f"exact evidence of {ROWS:,} rows in {timed['seconds']:.2g} s, {timed['gflops']:.3g} GFLOP/s, "
        f"of 10,000 rows in about {later}"
    )
    if timed["load"] > 1.2:
        note(f"others are at work here ({timed['load']:.1f} programs a processor): alone it would be faster")
    wrong = [check for check in checks if not check.right]
    for check in wrong:
        note(f"{check.name}: {check.remedy}")
    say("everything is in order" if not wrong else f"{len(wrong)} of {len(checks)} checks failed")
    if wrong:
        raise typer.Exit(FAILED)


# -- what there is -------------------------------------------------------------------------------------------


def about() -> dict[str, dict[str, str]]:
    """Tables of what is installed and what it runs on: titles, and values by name."""
    import platform
    import sys
    from importlib.metadata import PackageNotFoundError, version

    import jax

    import mercer
    from mercer.linalg import lapack, memory

    versions = {"python": f"{platform.python_version()} ({sys.executable})"}
    for name in PACKAGES:
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            versions[name] = mercer.__version__ if name == "mercer" else "not installed"
    machine = {
        "system": platform.platform(),
        "processors": f"{_usable()} usable of {os.cpu_count()}",
        "memory": f"{memory.text(memory.available())} available",
        "BLAS": _blas(),
        "BLAS threads": str(lapack.thread_count()),
        "JAX devices": ", ".join(f"{d.platform}:{d.id}" for d in jax.devices()),
        "XLA_FLAGS": os.environ.get("XLA_FLAGS", ""),
    }
    return {"Versions": versions, "Machine": machine, "Cache": cache()}


def cache() -> dict[str, str]:
    """The cache of compiled functions, which make the first call of each kind a matter of milliseconds."""
    import jax

    from mercer.linalg import memory

    folder = getattr(jax.config, "jax_compilation_cache_dir", None)
    if not folder:
        return {"folder": "off (MERCER_CACHE is empty): every process compiles again"}
    path = Path(folder)
    files = [entry.stat().st_size for entry in path.glob("*") if entry.is_file()] if path.is_dir() else []
    return {"folder": folder, "holds": f"{len(files)} files, {memory.text(sum(files))}"}


def _usable() -> int:
    """Processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _blas() -> str:
    import scipy.linalg.cython_lapack  # noqa: F401  loads SciPy's BLAS, which is the one that is used
    import threadpoolctl

    libraries = [lib for lib in threadpoolctl.threadpool_info() if lib["user_api"] == "blas"]
    said = [f"{lib['internal_api']} {lib['version']} ({lib.get('architecture')})" for lib in libraries]
    return ", ".join(dict.fromkeys(said)) or "not known"


def _installed(modules: tuple[str, ...]) -> bool:
    from importlib.util import find_spec

    return all(find_spec(module) is not None for module in modules)


# -- whether it is right -------------------------------------------------------------------------------------


def attempt(name: str, check: Callable[[], tuple[bool, str, str]]) -> Check:
    """A check that was made; one that cannot be made is wrong too."""
    try:
        return Check(name, *check())
    except Exception as error:
        message = " ".join(str(error).split())
        return Check(
            name, False, f"{type(error).__name__}: {message}", "it could not be tried; see the message"
        )


def _float64() -> tuple[bool, str, str]:
    import jax.numpy as jnp

    kind = str(jnp.ones(1).dtype)
    return kind == "float64", kind, "unset MERCER_X64, and import mercer before arrays of JAX are made"


def _evidence() -> tuple[bool, str, str]:
    import numpy as np

    from mercer import GP, kernels, log_evidence_and_gradient

    x = np.arange(6) / 2
    value, gradient = log_evidence_and_gradient(GP(kernels.SE()), x[:, None], np.sin(x), noise_variance=0.01)
    away = max(abs(value / EVIDENCE - 1), abs(float(gradient["kernel.lengthscale"]) / SLOPE - 1))
    remedy = (
        "numbers cannot be trusted: install jax, jaxlib and scipy again, and report it with `doctor --json`"
    )
    return away < 1e-10, f"evidence and gradient to {away:.0e} of known values", remedy


def _wide() -> tuple[bool, str, str]:
    """d/dl of exp(-r2 / 2 l2) is r2 / l3 times itself."""
    import jax
    import jax.numpy as jnp
    import numpy as np

    from mercer import kernels

    A = np.random.default_rng(0).normal(size=(40, WIDE))
    r2 = ((A[:, None] - A[None]) ** 2).sum(-1)
    slope = jax.jacfwd(lambda l: kernels.SE(l).block(jnp.asarray(A), jnp.asarray(A)))(10.0)
    away = float(np.abs(slope - r2 / 1e3 * np.exp(-r2 / 200)).max())
    remedy = "XLA computes wrong numbers: let mercer set XLA_FLAGS (import it before JAX computes)"
    return away < 1e-10, f"derivatives of a kernel on {WIDE} columns to {away:.0e}", remedy


def _saved() -> tuple[bool, str, str]:
    import numpy as np

    import mercer

    x = np.linspace(0, 3, 8)[:, None]
    model = mercer.GPRegressor(kernel="SE(1)", learn=False).fit(x, np.sin(x[:, 0]))
    with tempfile.TemporaryDirectory() as folder:
        model.save(Path(folder) / "m.mercer")
        same = np.array_equal(mercer.load(Path(folder) / "m.mercer").predict(x), model.predict(x))
    return (
        same,
        "a model saved, loaded, and predicting the same",
        f"look at the folder {tempfile.gettempdir()}",
    )


def _cached() -> tuple[bool, str, str]:
    import jax

    folder = getattr(jax.config, "jax_compilation_cache_dir", None)
    if not folder:
        return True, "off, as MERCER_CACHE says", ""
    Path(folder).mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=folder):
        pass
    return True, "its folder can be written", ""


CHECKS = {
    "float64": _float64,
    "evidence": _evidence,
    "wide kernels": _wide,
    "files": _saved,
    "cache": _cached,
}


def speed() -> dict[str, float]:
    """How long the log evidence of `ROWS` rows takes, at best of a few, by n^3/3 operations; and how many
    programs there are for each processor.
    """
    import numpy as np

    from mercer import GP, kernels, log_evidence

    rng = np.random.default_rng(0)
    X, y = rng.uniform(size=(ROWS, 4)), rng.normal(size=ROWS)
    gp = GP(kernels.SE(0.5))
    log_evidence(gp, X, y, noise_variance=0.1)  # compiles
    took: list[float] = []
    while sum(took) < TIMED and len(took) < 5:
        start = time.perf_counter()
        log_evidence(gp, X, y, noise_variance=0.1)
        took.append(time.perf_counter() - start)
    best = min(took)
    return {
        "load": os.getloadavg()[0] / _usable() if hasattr(os, "getloadavg") else 0.0,
        "rows": ROWS,
        "seconds": best,
        "gflops": ROWS**3 / 3 / best / 1e9,
        "seconds_at_10000": best * (10_000 / ROWS) ** 3,
    }
