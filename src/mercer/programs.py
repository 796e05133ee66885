"""Programs of XLA that are found on disk before anything is traced.

JAX keeps what it has compiled, too, but finds it by the traced and lowered program; tracing and lowering are
most of what a first call in a fresh process takes (20 to 100 ms a program, where reading it takes 3 ms). Here
the name of a program is known beforehand: a function of Mercer's, the structure of the values that it is
called with, shapes and types; and the *edition*, which is everything else that makes it what it is: Mercer's
sources, the versions of JAX and NumPy, XLA's options, the processor.

Whatever has no such name (a class or a function from elsewhere, whose source may change behind our back; a
program that calls out of XLA) is left to `jax.jit`; and so is everything where caching is switched off, where
settings of JAX have been changed since Mercer was loaded, on other devices, and inside `jit`, `vmap` and
`grad`. MERCER_PROGRAMS=0 leaves all of it to `jax.jit`; so should whoever replaces functions of Mercer's at
run time.

A program is machine code, which its file can make do anything. So only files of the user's own are read,
which nobody else can write, in a folder of the same kind. Programs of the last few editions are kept, and no
more than MOST of each. Several processes and threads may find and write the same one at once.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import hashlib
import operator
import os
import pickle
import platform
import shutil
import stat
import sys
import threading
import time
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np

from mercer import files, jax_settings

__all__ = ["Program", "inline", "program"]

EDITIONS = 4  # whose programs are kept
MOST = 1000  # of an edition, some 50 kB each: then the older half goes
PLAIN = (bool, int, float, complex, str, bytes, type(None))
NODES = (tuple, list, dict, type(None))
SETTINGS = (  # of JAX, which may be changed at any time, by threads
    "jax_enable_x64",
    "jax_disable_jit",
    "jax_debug_nans",
    "jax_debug_infs",
    "jax_enable_checks",
    "jax_default_device",
    "jax_default_matmul_precision",
    "jax_default_prng_impl",
    "jax_threefry_partitionable",
    "jax_numpy_dtype_promotion",
    "jax_numpy_rank_promotion",
)
_settings = operator.attrgetter(*(name for name in SETTINGS if hasattr(jax.config, name)))
LOADED_WITH = _settings(jax.config)
_FINDING = threading.RLock()
LOADED = time.time() - time.process_time()  # when this process began, or a little later


def program(function: Callable[..., Any], *static: Any) -> Program:
    """`jax.jit(functools.partial(function, *static))` for a function at the top of a module of Mercer's.

    static: what is not an array and is part of the program: structures of trees, flags, functions
    """
    return Program(function, static)


@functools.cache
def inline() -> jax.Device:
    """The processor as a device whose programs run in the thread that calls them: for many small ones after
    each other, each of which would be handed over to a thread of XLA's, and waited for, longer than it runs.
    Arrays that were put there (`jax.device_put`) make a program run there. The usual device where JAX has no
    such thing.
    """
    usual: jax.Device = jax.local_devices()[0]
    if usual.platform != "cpu":
        return usual
    try:
        from jaxlib import xla_client

        client: Any = xla_client.make_cpu_client(asynchronous=False)
        return client.local_devices()[0]
    except (ImportError, AttributeError, TypeError):  # it is not part of what JAX promises
        return usual


class Program:
    """A function of arrays and trees of them, compiled once for each structure and shape, or found
    on disk.
    """

    def __init__(self, function: Callable[..., Any], static: tuple[Any, ...]):
        self._parts = function, static
        self._jit = jax.jit(named(functools.partial(function, *static), function.__name__))
        self._found: dict[Any, Callable[..., Any]] = {}

    def __call__(self, *args: Any) -> Any:
        return self.ready(*args)(*args)

    def ready(self, *args: Any) -> Callable[..., Any]:
        """The call for arguments of these structures, shapes and types, for whoever makes it again and again:
        to look for it takes as long as to make it.
        """
        leaves, structure = jax.tree.flatten(args)
        try:
            key = structure, tuple(map(_shaped, leaves))
        except _Nameless:
            return self._jit
        if _settings(jax.config) != LOADED_WITH:
            return self._jit
        call = self._found.get(key)
        if call is None:
            with _FINDING:  # of threads that ask for the same, one compiles: JAX's cache is not written whole
                call = self._found.get(key) or self._find(key, args)
                self._found[key] = call
        return call

    def _find(self, key: Any, args: tuple[Any, ...]) -> Callable[..., Any]:
        try:
            path = _folder() / _digest(_words((self._parts, key)), 20)
        except _Nameless:
            return self._jit
        device = _device(args)
        with contextlib.suppress(Exception):  # not there, or not to be read: it is compiled again
            return _load(_read(path), device)
        function, static = self._parts
        # by a name that JAX's own cache does not know: what it has read, XLA cannot tell in bytes again
        name = f"{function.__name__}_{_digest(str(path), 10)}"
        lowered = jax.jit(named(functools.partial(function, *static), name)).lower(*args)
        made = lowered.compile()
        if "custom_call" not in lowered.as_text():  # which may hold addresses of this process
            with contextlib.suppress(Exception):  # nobody can write there, or it cannot be told in bytes
                _store(path, made, args, device)
        return made


def named(function: functools.partial[Any], name: str) -> Callable[..., Any]:
    """The function under a name that profiles show."""
    function.__name__ = name  # type: ignore[attr-defined]
    return function


class _Nameless(Exception):
    """Not to be told in words that mean the same in another process."""


def _shaped(x: Any) -> tuple[Any, ...]:
    """Shape and type of a concrete array."""
    if type(x) is np.ndarray:
        return x.shape, x.dtype, False
    if isinstance(x, np.ndarray | np.generic):
        return x.shape, x.dtype, False
    if isinstance(x, jax.Array) and not isinstance(x, jax.core.Tracer):
        return x.shape, x.dtype, x.weak_type
    raise _Nameless


def _words(x: Any) -> str:
    """What a static value is, in words that are the same in another process, and of no other value."""
    kind = type(x)
    if kind in PLAIN:
        return f"{kind.__name__} {x!r}"
    if kind in (tuple, list):
        return f"{kind.__name__}({', '.join(map(_words, x))})"
    if kind is dict:
        return f"dict({', '.join(f'{_words(k)}: {_words(v)}' for k, v in x.items())})"
    if kind is np.ndarray and x.dtype != object:
        return f"array {x.dtype.str} {x.shape} {x.tobytes().hex()}"
    if isinstance(x, np.dtype) and x.kind in "biufc" and x.isnative:  # not bfloat16 and the like
        return f"dtype {x.str}"
    if kind is jax.tree_util.PyTreeDef:
        data = x.node_data()
        return "*" if data is None else f"node({_words(data)}, {', '.join(map(_words, x.children()))})"
    if isinstance(x, type | types.FunctionType):
        return _ours(x)
    if dataclasses.is_dataclass(kind):
        values = (getattr(x, field.name) for field in dataclasses.fields(x))
        return f"{_ours(kind)}({', '.join(map(_words, values))})"
    if kind.__module__.startswith("equinox.") and not getattr(x, "__dict__", None):
        return f"{kind.__module__}.{kind.__qualname__}"  # its word for nothing
    raise _Nameless


def _ours(x: type | types.FunctionType) -> str:
    """The name of a class or function that Mercer's sources define at the top of a module, or in a class
    there; or of Python's own nodes of trees.
    """
    if x in NODES:
        return x.__name__
    if x.__module__.startswith("mercer."):
        with contextlib.suppress(AttributeError, KeyError):  # made by a function
            if operator.attrgetter(x.__qualname__)(sys.modules[x.__module__]) is x:
                return f"{x.__module__}.{x.__qualname__}"
    raise _Nameless


def _read(path: Path) -> bytes:
    """The content of a file that only its user, who is this one, could write."""
    with open(path, "rb") as file:
        if not (_own(os.stat(path.parent)) and _own(os.fstat(file.fileno()))):
            raise PermissionError(path)
        return file.read()


def _own(status: os.stat_result) -> bool:
    if not hasattr(os, "getuid"):  # where a user's folder is closed to others in other ways
        return True
    return status.st_uid == os.getuid() and not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


def _device(args: tuple[Any, ...]) -> jax.Device:
    """Where a program with these arguments runs: where the first of them is that was put somewhere."""
    arrays = (x for x in jax.tree.leaves(args) if isinstance(x, jax.Array))
    return next((x.device for x in arrays if x.committed), jax.local_devices()[0])


def _load(content: bytes, device: jax.Device) -> Callable[..., Any]:
    from jax.experimental.serialize_executable import deserialize_and_load

    program, given, returned = pickle.loads(content)
    return deserialize_and_load(program, given, returned, device.client, [device])


def _store(path: Path, made: jax.stages.Compiled, args: tuple[Any, ...], device: jax.Device) -> None:
    """Keep a program that, read again, gives the same numbers."""
    from jax.experimental.serialize_executable import serialize

    content = pickle.dumps(serialize(made))
    if not _same(_load(content, device)(*args), made(*args)):
        return
    if not path.parent.exists():
        path.parent.parent.mkdir(parents=True, exist_ok=True)
        path.parent.mkdir(mode=0o700, exist_ok=True)
        _keep(path.parent.parent, EDITIONS, EDITIONS)
    _keep(path.parent, MOST, MOST // 2)
    with files.written_whole(path) as new:
        new.touch(mode=0o600)
        new.write_bytes(content)


def _same(a: Any, b: Any) -> bool:
    x, y = jax.tree.leaves(a), jax.tree.leaves(b)
    return all(np.asarray(u).tobytes() == np.asarray(v).tobytes() for u, v in zip(x, y, strict=True))


def _keep(folder: Path, most: int, rest: int) -> None:
    """Where more than `most` things are in a folder, those written last."""
    with contextlib.suppress(OSError):  # somebody else does the same
        known = list(folder.iterdir())
        if len(known) > most:
            known.sort(key=lambda path: path.stat().st_mtime)
            for path in known[:-rest]:
                if path.is_dir():
                    shutil.rmtree(path, ignore_errors=True)
                else:
                    path.unlink(missing_ok=True)


def _folder() -> Path:
    """Where programs of this edition are kept."""
    config: Any = jax.config
    folder = jax_settings.cache_folder("programs")
    if os.environ.get("MERCER_PROGRAMS", "1") == "0" or not folder or not config.jax_enable_compilation_cache:
        raise _Nameless
    if not config.jax_enable_x64 or config.jax_disable_jit or config.jax_debug_nans or config.jax_debug_infs:
        raise _Nameless
    if jax.default_backend() != "cpu" or jax.device_count() != 1:
        raise _Nameless
    return Path(folder) / _digest(_edition(), 10)


def _digest(text: str, size: int) -> str:
    return hashlib.blake2b(text.encode(), digest_size=size).hexdigest()


@functools.cache
def _edition() -> str:
    """Sources by size and time, as Python knows them when it looks for bytecode; versions; settings; the
    processor and how many there are.
    """
    import equinox
    import jaxlib
    import scipy

    root = os.path.dirname(__file__)
    sources = {
        f"{folder[len(root) :]}/{name}": os.stat(f"{folder}/{name}")
        for folder, _, names in os.walk(root)
        for name in names
        if name.endswith(".py")
    }
    if not sources:  # but bytecode, or an archive
        raise _Nameless
    if max(max(status.st_mtime, status.st_ctime) for status in sources.values()) > LOADED:
        raise _Nameless  # what was loaded may be older than what is there
    told = sorted((name, status.st_size, status.st_mtime_ns) for name, status in sources.items())
    modules = sys.modules["mercer"], jax, jaxlib, equinox, np, scipy
    versions = [module.__version__ for module in modules]
    processors = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else range(os.cpu_count() or 1)
    machine = platform.machine(), _processor(), len(processors), os.environ.get("XLA_FLAGS")
    return repr([told, versions, sys.version, LOADED_WITH, machine])


def _processor() -> str:
    """What the first processor can do, where the system tells."""
    with contextlib.suppress(OSError), open("/proc/cpuinfo") as lines:
        return next((line for line in lines if line.startswith(("flags", "Features"))), "")
    return platform.processor()


def __dir__() -> list[str]:
    return sorted(__all__)
