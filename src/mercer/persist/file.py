"""One file for a model: a zip of two uncompressed entries, `manifest.json` and `arrays.safetensors`.

Nothing in it is code. It is written beside its place and then moved there, so that it is never half written,
whoever else writes it at the same time; it is read with limits on everything that could be larger than it.
"""

from __future__ import annotations

import json
import math
import os
import zipfile
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from mercer.files import written_whole
from mercer.persist.values import SerialiseError

__all__ = ["SCHEMA", "ModelFileError", "read", "write"]

SCHEMA = 3
MANIFEST, ARRAYS = "manifest.json", "arrays.safetensors"
MANIFEST_BYTES = 64 * 2**20
# what reading a damaged zip may raise
_DAMAGED = (
    zipfile.BadZipFile, EOFError, NotImplementedError, RuntimeError, OSError, UnicodeDecodeError,
)  # fmt: skip


class ModelFileError(ValueError):
    """A file that is not a saved model, is damaged, or needs something that was not given."""


def write(path: Path, manifest: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
    """Write a model. `manifest`: what JSON can hold."""
    from safetensors.numpy import save as pack

    head = {"format": "mercer", "schema": SCHEMA}
    text = json.dumps(head | manifest, indent=1, allow_nan=False, ensure_ascii=False).encode()
    if len(text) > MANIFEST_BYTES:
        raise SerialiseError(
            f"the inputs are more than {MANIFEST_BYTES // 2**20} MB of text, too much for a saved model."
        )
    packed = pack({name: np.ascontiguousarray(array) for name, array in arrays.items()})
    with written_whole(path) as new, zipfile.ZipFile(new, "w", zipfile.ZIP_STORED) as archive:
        for name, content in ((MANIFEST, text), (ARRAYS, packed)):
            archive.writestr(zipfile.ZipInfo(name), content)


def read(path: Path) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """The manifest and the arrays that `write` was given."""
    entries = _entries(path)
    return _manifest(entries[MANIFEST]), _arrays(entries[ARRAYS])


def _entries(path: Path) -> dict[str, bytes]:
    """The two entries. They are stored uncompressed, so that none can be larger than the file itself."""
    with open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        try:
            with zipfile.ZipFile(file) as archive:
                entries = archive.infolist()
                if sorted(e.filename for e in entries) != sorted((MANIFEST, ARRAYS)):
                    raise ModelFileError(
                        f"not a saved model: it should hold {MANIFEST} and {ARRAYS} and nothing else."
                    )
                for entry in entries:
                    _check(entry, size)
                return {e.filename: archive.read(e) for e in entries}
        except _DAMAGED as error:
            raise ModelFileError(f"not a saved model, or damaged ({error}).") from error


def _check(entry: zipfile.ZipInfo, size: int) -> None:
    plain = entry.compress_type == zipfile.ZIP_STORED and not entry.flag_bits & 1
    if not plain or not entry.compress_size == entry.file_size <= size:
        raise ModelFileError(
            f"{entry.filename} is compressed, encrypted or of an impossible size: not a saved model."
        )
    if entry.filename == MANIFEST and entry.file_size > MANIFEST_BYTES:
        raise ModelFileError(f"{MANIFEST} is larger than {MANIFEST_BYTES // 2**20} MB.")


def _manifest(text: bytes) -> dict[str, Any]:
    try:
        manifest = json.loads(text.decode("utf-8"), parse_constant=_refuse, parse_float=_number)
    except (ValueError, RecursionError) as error:
        raise ModelFileError(f"{MANIFEST} is not readable ({error}).") from error
    if not isinstance(manifest, dict) or manifest.get("format") != "mercer":
        raise ModelFileError(f"{MANIFEST} is not that of a saved model.")
    schema = manifest.get("schema")
    if schema != SCHEMA:
        newer = isinstance(schema, int) and schema > SCHEMA
        remedy = "upgrade mercer" if newer else "load it with the version that wrote it"
        raise ModelFileError(
            f"written in schema {schema!r}, but this version of mercer reads schema {SCHEMA}: {remedy} "
            f"(written by {manifest.get('versions')}), or fit and save again."
        )
    for key, kind in {"class": str, "settings": dict, "learned": dict}.items():
        if not isinstance(manifest.get(key), kind):
            raise ModelFileError(f"{MANIFEST} has no valid {key!r}.")
    return manifest


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON")


def _number(digits: str) -> float:
    value = float(digits)
    return value if math.isfinite(value) else _refuse(digits)


def _arrays(packed: bytes) -> dict[str, np.ndarray]:
    from safetensors import SafetensorError
    from safetensors.numpy import load as unpack

    try:
        return unpack(packed)
    except (SafetensorError, ValueError, KeyError, TypeError) as error:
        raise ModelFileError(f"{ARRAYS} is damaged ({error}).") from error
