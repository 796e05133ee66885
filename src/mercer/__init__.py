"""Mercer: Gaussian processes for people with data."""

from __future__ import annotations

import importlib
import os
import pathlib

import jax
import jaxlib

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


def _xla_options() -> None:
    """Options of XLA, added to XLA_FLAGS before JAX reads it, unless they are set already. An option that XLA
    does not know would end the process: those of later versions are not known.

    Fusions by YNNPACK are switched off: matrix products within them have read memory that nobody wrote, so
    that derivatives of kernels on more than 64 columns were garbage (jaxlib 0.10.2).

    Two others, unless MERCER_XLA is 0, compile sooner and loop faster, with the same numbers up to rounding:
    loops of filters along time with up to six states are compiled as a whole, and elementwise code by the
    older emitters, which take half the time to compile and give code as fast.
    """
    version = tuple(int(part) for part in jaxlib.__version__.split(".")[:2])
    options = {}
    if (0, 9) <= version <= (0, 10):
        options["xla_cpu_experimental_ynn_fusion_type"] = ""
    if os.environ.get("MERCER_XLA", "1") != "0" and version <= (0, 10):
        options["xla_backend_extra_options"] = "xla_cpu_small_while_loop_byte_threshold=8192"
        options["xla_cpu_use_fusion_emitters"] = "false"
    flags = os.environ.get("XLA_FLAGS", "")
    for option, value in options.items():
        if option not in flags:
            flags = f"{flags} --{option}={value}".strip()
    os.environ["XLA_FLAGS"] = flags


_compilation_cache()
_xla_options()

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
    "Event": "mercer.estimators",
    "GPClassifier": "mercer.estimators",
    "GPDensity": "mercer.estimators",
    "GPIntensity": "mercer.estimators",
    "GPLVM": "mercer.estimators",
    "GPMixture": "mercer.estimators",
    "GPPanel": "mercer.estimators",
    "GPRegressor": "mercer.estimators",
    "GPTimeSeries": "mercer.estimators",
    "GTM": "mercer.estimators",
    "HMM": "mercer.estimators",
    "search": "mercer.estimators",
    "Optimiser": "mercer.decide",
    "design": "mercer.decide",
    "optimise": "mercer.decide",
    "SmoothingSpline": "mercer.relatives",
    "ThinPlate": "mercer.relatives",
}
_ROOMS = (
    "columns",
    "control",
    "datasets",
    "decide",
    "distributed",
    "em",
    "estimators",
    "explain",
    "hyperpriors",
    "inference",
    "inputs",
    "latent",
    "learning",
    "likelihoods",
    "linalg",
    "means",
    "metrics",
    "observe",
    "online",
    "persist",
    "posteriors",
    "relatives",
    "sampling",
    "selection",
    "series",
    "solvers",
    "structure",
    "theory",
    "uncertain",
    "viz",
    "warps",
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
