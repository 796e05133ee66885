"""What Mercer asks of JAX: float64, a cache of compiled functions, options of XLA.

Importing `mercer` does not import JAX, which takes most of a second that a command line should not spend on
`--help`. The settings are made at the moment when JAX is loaded, whoever loads it first, so that everything
is float64 from the first array on; where JAX is there already, at once. The environment is left alone until
then, so that programs which are started meanwhile find it as it was.
"""

from __future__ import annotations

import importlib.util
import os
import pathlib
import sys
from typing import Any

__all__ = ["cache_folder", "make_when_loaded"]


def make_when_loaded() -> None:
    """Make the settings now if JAX is loaded, else when it will be."""
    if "jax" in sys.modules:
        _make()
    else:
        sys.meta_path.insert(0, _WhenLoaded())


class _WhenLoaded:
    """Waits for the import of JAX: finds it as anybody would, and makes the settings once it is loaded."""

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> Any:
        if fullname != "jax":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(fullname)
        if spec is not None and spec.loader is not None:
            load = spec.loader.exec_module

            def load_and_make(module: Any) -> None:
                load(module)
                _make()

            spec.loader.exec_module = load_and_make  # type: ignore[method-assign]
        return spec


def _make() -> None:
    import jax

    if os.environ.get("MERCER_X64", "1") != "0":
        jax.config.update("jax_enable_x64", True)
    folder = cache_folder()
    if folder and not getattr(jax.config, "jax_compilation_cache_dir", None):
        jax.config.update("jax_compilation_cache_dir", folder)
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
        jax.config.update("jax_persistent_cache_min_entry_size_bytes", 0)
    _add_xla_options()


def cache_folder(of: str = "") -> str:
    """Where compiled functions are kept: in the user's cache folder, or where MERCER_CACHE says; empty
    switches it off.

    of: a folder of its own for what others than JAX keep there
    """
    chosen = os.environ.get("MERCER_CACHE")
    if chosen is None:
        home = pathlib.Path(os.environ.get("XDG_CACHE_HOME", pathlib.Path.home() / ".cache"))
        return str(home / "mercer" / (of or "xla"))
    return chosen and str(pathlib.Path(chosen) / of)


def _add_xla_options() -> None:
    """Options of XLA, added to XLA_FLAGS before JAX reads it, unless they are set already. An option that XLA
    does not know would end the process: those of later versions are not known.

    Fusions by YNNPACK are switched off: matrix products within them have read memory that nobody wrote, so
    that derivatives of kernels on more than 64 columns were garbage (jaxlib 0.10.2).

    Two others, unless MERCER_XLA is 0, compile sooner and loop faster, with the same numbers up to rounding:
    loops of filters along time with up to six states are compiled as a whole, and elementwise code by the
    older emitters, which take half the time to compile and give code as fast.
    """
    import jaxlib

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


def __dir__() -> list[str]:
    return sorted(__all__)
