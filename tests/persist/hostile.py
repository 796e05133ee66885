"""Hostile and mutated model files, and a process with limits that tries to load many of them.

    python -m tests.persist.hostile FOLDER SEED NUMBER [predict]

loads NUMBER mutants of the files in FOLDER, each within 5 seconds of processor time and 1 GiB beyond what the
process had, and prints a line for each that did not end as a model or as a ModelFileError. With `predict`
every model must also predict, or refuse, within the same limits. The last line says how many ended how.
"""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import io
import json
import resource
import signal
import struct
import sys
import traceback
import warnings
import zipfile
from collections import Counter
from pathlib import Path

import numpy as np

import mercer as mc
from mercer import registry
from mercer.persist import ModelFileError

SECONDS, BYTES = 5.0, 2**30
MANIFEST, ARRAYS = "manifest.json", "arrays.safetensors"


class Late(BaseException):
    """Not an Exception: nobody may take it for a bad file."""


def read(path: Path) -> dict[str, bytes]:
    """The entries of a model file."""
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def written(entries: dict[str, bytes]) -> bytes:
    """A model file of these entries."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, content in entries.items():
            archive.writestr(zipfile.ZipInfo(name), content)
    return buffer.getvalue()


# ------------------------------------------------------------------------------------------- mutations


def mutant(rng: np.random.Generator, entries: dict[str, bytes]) -> bytes:
    """A file with something changed: bytes of the whole, the manifest as a tree, or the arrays."""
    kind = rng.choice(["bytes", "tree", "arrays"], p=[0.15, 0.7, 0.15])
    if kind == "bytes":
        return _bytes(rng, written(entries))
    if kind == "arrays":
        return written(entries | {ARRAYS: _arrays(rng, entries[ARRAYS])})
    manifest = json.loads(entries[MANIFEST])
    for _ in range(rng.integers(1, 4)):
        _change(rng, manifest)
    return written(entries | {MANIFEST: json.dumps(manifest).encode()})


def _bytes(rng: np.random.Generator, content: bytes) -> bytes:
    damaged, at = bytearray(content), int(rng.integers(len(content)))
    match rng.integers(5):
        case 0:
            return content[:at]
        case 1:
            damaged[at] ^= 1 << int(rng.integers(8))
        case 2:
            del damaged[at : at + int(rng.integers(1, 200))]
        case 3:
            damaged[at : at + 8] = rng.bytes(8)
        case 4:
            other = int(rng.integers(len(content)))
            damaged[at : at + 64] = content[other : other + 64]
    return bytes(damaged)


def _arrays(rng: np.random.Generator, packed: bytes) -> bytes:
    """Names, types, shapes and places of the arrays, which stand before them as JSON."""
    size = struct.unpack("<Q", packed[:8])[0]
    head, body = json.loads(packed[8 : 8 + size]), packed[8 + size :]
    if not head:
        return _bytes(rng, packed)
    name = str(rng.choice(list(head)))
    match rng.integers(6):
        case 0:
            head[name]["shape"] = [int(rng.choice([0, 1, 2, 10**6, 2**40, 2**62])), *head[name]["shape"]]
        case 1:
            head[name]["dtype"] = str(rng.choice(["F64", "F32", "I64", "BOOL", "U8", "BF16", "F8_E5M2", "?"]))
        case 2:
            head[name]["data_offsets"] = [0, int(rng.choice([0, 8, len(body), 2**40]))]
        case 3:
            head[str(rng.choice(["", "../x", "learned"]))] = head.pop(name)
        case 4:
            numbers = np.frombuffer(body[: 8 * (len(body) // 8)]).copy()
            place = rng.integers(numbers.size)
            numbers[place] = rng.choice([np.nan, np.inf, -1.0, 0.0, 1e300, 1e-300, -numbers[place]])
            body = numbers.tobytes() + body[numbers.nbytes :]
        case 5:
            return struct.pack("<Q", int(rng.choice([0, 1, 2**32, 2**63]))) + packed[8:]
    text = json.dumps(head).encode()
    return struct.pack("<Q", len(text)) + text + body


def nodes(tree, path=()):
    """The paths to all that a tree holds."""
    children = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    for key, child in children:
        yield (*path, key)
        yield from nodes(child, (*path, key))


def at(tree, path):
    for key in path:
        tree = tree[key]
    return tree


def _change(rng: np.random.Generator, manifest: dict) -> None:
    """Something of a random place: removed, replaced by a nasty value, or by what stands in another place."""
    places = list(nodes(manifest))
    path, other = (places[i] for i in rng.integers(len(places), size=2))
    holder, key = at(manifest, path[:-1]), path[-1]
    choice = rng.integers(6)
    if choice == 0:
        del holder[key]
    elif choice == 1:
        holder[key] = copy.deepcopy(at(manifest, other))
    elif choice == 2 and isinstance(holder[key], dict):
        holder[key]["class"] = str(rng.choice(ADDRESSES))
    elif choice == 3 and isinstance(holder[key], int | float):
        holder[key] = rng.choice([-1, 0, 0.5, 1e300, 1e-300, 4096, 10**5, 10**9, 2**62, -(10**6)]).item()
    elif choice == 4:
        holder[key] = greedy(rng, str(rng.choice(ADDRESSES)))
    else:
        holder[key] = copy.deepcopy(NASTY[int(rng.integers(len(NASTY)))])


def nested(levels, inner, wrap):
    for _ in range(levels):
        inner = wrap(inner)
    return inner


NASTY = [
    None, True, False, -1, 0, 1, 0.5, 2**63, -(2**63), 1e300, 1e-320, "", "X", "auto", "mcmc", "dense",
    "\x00", "x" * 10_000, [], [[]], [1.0], [1, "a", None], list(range(1000)), {}, {"class": "os.system"},
    {"kind": "tuple", "items": []}, {"kind": "float", "value": "nan"}, {"kind": "float", "value": "inf"},
    {"kind": "array", "name": "learned.data.X"}, {"kind": "function", "name": "eval"},
    {"kind": "array", "dtype": "float64", "shape": [2**31, 2**31], "data": []},
    {"kind": "array", "dtype": "float64", "shape": [0, 5], "data": []},
    {"kind": "static", "value": 1e9}, {"kind": "param", "value": -1.0}, {"kind": "dict", "items": {}},
    nested(30, 1, lambda x: [x]), nested(200, 1, lambda x: [x]), nested(20, {}, lambda x: {"a": x}),
    nested(28, {"class": "kernels.SE"}, lambda x: {"class": "kernels.Normalised", "kernel": x}),
    nested(60, {"class": "kernels.SE"}, lambda x: {"class": "kernels.Normalised", "kernel": x}),
]  # fmt: skip


# ---------------------------------------------------------------------------------------- every class


def addresses() -> list[str]:
    """All classes that files may name."""
    found = []
    for room in registry.ROOMS:
        for cls in registry.classes(room, registry.Saved):
            if (address := registry.address(cls)) is not None:
                found.append(address)
    return sorted(set(found))


ADDRESSES = addresses()


def greedy(rng: np.random.Generator, address: str) -> dict:
    """A value of a class with some of its fields as large as files may say."""
    cls = registry.find(address, {})
    node: dict = {"class": address}
    for field in dataclasses.fields(cls):
        if field.init and field.name != "info" and rng.random() < 0.7:
            text = str(field.type)
            if "int" in text:
                node[field.name] = int(rng.choice([1, 2, 64, 1000, 4096, 10**5]))
            elif "float" in text or "Hyper" in text:
                node[field.name] = float(rng.choice([1e-300, 0.5, 1.0, 1e3, 1e9]))
            elif "kernel" in field.name or "base" in field.name:
                node[field.name] = {"class": str(rng.choice(["kernels.SE", "solvers.Dense"]))}
    return node


SLOTS = {
    "kernels": ("learned", "fits", 0, "model", "gp", "kernel"),
    "means": ("learned", "fits", 0, "model", "gp", "mean"),
    "basis": ("learned", "fits", 0, "model", "gp", "basis"),
    "likelihoods": ("learned", "fits", 0, "model", "likelihood"),
    "solvers": ("learned", "fits", 0, "solver"),
    "asked": ("settings", "solver"),
    "inference": ("settings", "inference"),
    "selection": ("settings", "solver"),
}


def large(rng: np.random.Generator, entries: dict[str, bytes], address: str) -> list[bytes]:
    """Files of a regression that name a class where it belongs, with fields as large as they may be."""
    room = address.partition(".")[0]
    out = []
    for slot in [room, {"means": "basis", "solvers": "asked"}.get(room)]:
        if slot in SLOTS:
            manifest = json.loads(entries[MANIFEST])
            *path, key = SLOTS[slot]
            at(manifest, path)[key] = greedy(rng, address)
            out.append(written(entries | {MANIFEST: json.dumps(manifest).encode()}))
    return out


# ------------------------------------------------------------------------------------- a process with limits


@contextlib.contextmanager
def limited():
    """Within, this process has a gibibyte more than it has now; after 5 seconds of its time it is `Late`."""
    with open("/proc/self/status") as file:
        said = dict(line.split(":", 1) for line in file)
    now = int(said["VmSize"].split()[0]) * 1024
    resource.setrlimit(resource.RLIMIT_AS, (now + BYTES, resource.RLIM_INFINITY))
    signal.signal(signal.SIGPROF, _late)
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


def _late(*_):
    raise Late


def tried(path: Path, content: bytes, predict: bool) -> tuple[str, str]:
    """How loading a file ended: "model", "error", or "bad" and the end of the traceback."""
    path.write_bytes(content)
    try:
        with limited():
            model = mc.load(path)
        if predict:
            with limited(), contextlib.suppress(ValueError, ArithmeticError):
                used(model)
        return "model", ""
    except ModelFileError:
        return "error", ""
    except Late:
        return "bad", f"more than {SECONDS} s: {traceback.format_exc(limit=-6)}"
    except BaseException:
        return "bad", traceback.format_exc(limit=-6)


def used(model) -> None:
    model.forecast(2) if isinstance(model, mc.GPTimeSeries) else model.predict(np.zeros((3, 2)))


def main(folder: Path, seed: int, number: int, predict: bool) -> None:
    warnings.simplefilter("ignore")
    bases = [read(path) for path in sorted(folder.glob("*.mercer"))]
    for path in sorted(folder.glob("*.mercer")):  # so that imports are not counted
        model = mc.load(path)
        if predict:
            used(model)
    rng, path, ends = np.random.default_rng(seed), folder / f"mutant {seed}", Counter()
    contents = [large(rng, bases[0], address) for address in ADDRESSES] if seed == 0 else []
    for content in [one for several in contents for one in several]:
        count(ends, path, content, predict)
    for _ in range(number):
        count(ends, path, mutant(rng, bases[int(rng.integers(len(bases)))]), predict)
    path.unlink()
    print(json.dumps(ends))


def count(ends: Counter, path: Path, content: bytes, predict: bool) -> None:
    end, why = tried(path, content, predict)
    ends[end] += 1
    if end == "bad":
        kept = path.with_name(f"{path.name} {ends['bad']}.bad")
        kept.write_bytes(content)
        print(f"{kept}: {why}", flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), "predict" in sys.argv)
