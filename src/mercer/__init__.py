"""Mercer: Gaussian processes for people with data."""

from __future__ import annotations

import importlib
import os
import pathlib

import jax

if os.environ.get("MERCER_X64", "1") != "0":
    jax.config.update("jax_enable_x64", True)


def _compilation_cache() -> None:
    """Compiled functions are kept in the user's cache folder (MERCER_CACHE names another,
    empty switches it off).
    """
    default = (
        pathlib.Path(os.environ.get("XDG_CACHE_HOME", pathlib.Path.home() / ".cache")) / "mercer" / "xla"
    )
    folder = os.environ.get("MERCER_CACHE", str(default))
    if folder and not getattr(jax.config, "jax_compilation_cache_dir", None):
        jax.config.update("jax_compilation_cache_dir", folder)
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
        jax.config.update("jax_persistent_cache_min_entry_size_bytes", 0)


def _whole_loops() -> None:
    """Let XLA compile the loops of filters along time with up to six states as a whole, many times faster
    than step by step.

    This adds an option to XLA_FLAGS, before JAX reads it, unless those backend options are set already or
    MERCER_XLA is 0.
    """
    flags = os.environ.get("XLA_FLAGS", "")
    if os.environ.get("MERCER_XLA", "1") != "0" and "xla_backend_extra_options" not in flags:
        option = "--xla_backend_extra_options=xla_cpu_small_while_loop_byte_threshold=8192"
        os.environ["XLA_FLAGS"] = f"{flags} {option}".strip()


_compilation_cache()
_whole_loops()

__version__ = "0.1.0"

from mercer import kernels as kernels  # noqa: E402
from mercer.params import fixed as fixed  # noqa: E402
from mercer.params import param as param  # noqa: E402

_LAZY = {
    "GP": "mercer.gp",
    "Model": "mercer.gp",
    "log_evidence": "mercer.gp",
    "log_evidence_and_gradient": "mercer.gp",
    "assess": "mercer.learning",
    "compare": "mercer.learning",
    "fit": "mercer.learning",
    "Fit": "mercer.learning",
    "load": "mercer.persist",
    "save": "mercer.persist",
    "BayesianGaussianMixture": "mercer.estimators",
    "BayesianHMM": "mercer.estimators",
    "GaussianMixture": "mercer.estimators",
    "GPClassifier": "mercer.estimators",
    "GPMixture": "mercer.estimators",
    "GPRegressor": "mercer.estimators",
    "GPTimeSeries": "mercer.estimators",
    "HMM": "mercer.estimators",
    "SmoothingSpline": "mercer.relatives",
    "ThinPlate": "mercer.relatives",
}
_ROOMS = (
    "columns",
    "datasets",
    "decide",
    "em",
    "estimators",
    "explain",
    "hyperpriors",
    "inference",
    "learning",
    "likelihoods",
    "linalg",
    "means",
    "metrics",
    "online",
    "persist",
    "posteriors",
    "relatives",
    "sampling",
    "selection",
    "series",
    "solvers",
    "theory",
    "viz",
)

__all__ = ["fixed", "kernels", "param", *_LAZY, *_ROOMS]


def __getattr__(name: str):
    if name in _LAZY:
        return getattr(importlib.import_module(_LAZY[name]), name)
    if name in _ROOMS:
        return importlib.import_module(f"mercer.{name}")
    raise AttributeError(f"module 'mercer' has no attribute {name!r}")


def __dir__():
    return sorted([*__all__, "__version__"])
