"""What commands read and where they write: refused before the work is done, not after."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from mercer.files import written_whole

__all__ = ["check_inputs", "check_outputs", "save_figure"]


def check_inputs(paths: Iterable[Path]) -> None:
    """Say at once that a file is missing: what reads it takes seconds to load."""
    for path in paths:
        if path.is_dir():
            raise IsADirectoryError(f"{path} is a folder: give the name of a file.")
        if not path.exists():
            raise FileNotFoundError(f"{path}: there is no such file.")


def check_outputs(outputs: Iterable[Path | None], inputs: Iterable[Path | None] = ()) -> None:
    """Refuse files to write that cannot be written, or that are among those to be read, however their paths
    are spelled; also two that are the same. None: not asked for.
    """
    read = [path for path in inputs if path is not None]
    named: list[Path] = []
    for path in outputs:
        if path is None:
            continue
        if path.is_dir():
            raise IsADirectoryError(f"{path} is a folder: give the name of a file.")
        if not path.parent.is_dir():
            raise FileNotFoundError(f"cannot write {path}: there is no folder {path.parent}.")
        if any(_same(path, other) for other in read):
            raise ValueError(f"{path} is the file to read from, and would be replaced: give another name.")
        if any(_same(path, other) for other in named):
            raise ValueError(f"two results would be written to {path}: give each a name of its own.")
        named.append(path)


def save_figure(figure: Any, path: Path, dpi: int) -> None:
    """Write a picture of matplotlib's, whole or not at all; the ending says the format."""
    with written_whole(path) as new:
        figure.savefig(new, dpi=dpi)


def _same(one: Path, other: Path) -> bool:
    """Whether two paths lead to one file: through links, by other spellings, also where there is none yet."""
    if one.exists() and other.exists():
        return one.samefile(other)
    return one.resolve() == other.resolve()
