"""Files that are written whole or not at all."""

from __future__ import annotations

import contextlib
import os
import shutil
import uuid
from collections.abc import Iterator
from pathlib import Path

__all__ = ["written_whole"]


@contextlib.contextmanager
def written_whole(path: str | os.PathLike[str]) -> Iterator[Path]:
    """A new file to write, of the same ending. When the block is done it takes the place of `path`, with the
    permissions that a file there had; after an error nothing has changed.

    Whoever reads `path`, also after a crash or while others write it too, finds the old file or the new one,
    never a part. A link stays a link. What is no file (a pipe, /dev/null) is written directly.

    >>> with written_whole("m.csv") as new:
    ...     new.write_text("a,b")
    """
    target = Path(path).resolve()
    if target.exists() and not target.is_file():
        yield target
        return
    new = target.with_name(f".{uuid.uuid4().hex}.part{target.suffix[:16]}")
    try:
        yield new
        if target.exists():
            shutil.copymode(target, new)
        _to_disk(new)
        os.replace(new, target)
    except OSError as error:
        if error.filename == str(new):
            error.filename = str(path)  # what a person asked for
        raise
    finally:
        new.unlink(missing_ok=True)


def _to_disk(path: Path) -> None:
    """Wait until the content of a file is safe: a name must not survive a power cut that its content does
    not.
    """
    with open(path, "rb") as file:
        os.fsync(file.fileno())


def __dir__() -> list[str]:
    return sorted(__all__)
