"""What commands read and where they write: refused before the work is done, not after."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from mercer.app.console import answer
from mercer.files import written_whole

__all__ = ["STANDARD", "check_inputs", "check_outputs", "named", "save_figure"]

STANDARD = Path("-")  # standard input, of tables that are read, or standard output


def check_inputs(files: Iterable[Path | None], tables: Iterable[Path | None] = ()) -> None:
    """Say at once that a file is missing: what reads it takes seconds to load. One of the tables may be "-",
    standard input. None: not asked for.
    """
    tables = [path for path in tables if path is not None]
    if tables.count(STANDARD) > 1:
        raise ValueError("two tables cannot both be read from standard input: give one of them as a file.")
    for path in [*files, *(path for path in tables if path != STANDARD)]:
        if path is None:
            continue
        if path == STANDARD:
            raise ValueError("only tables are read from standard input: give this one as a file.")
        if path.is_dir():
            raise IsADirectoryError(f"{path} is a folder: give the name of a file.")
        if not path.exists():
            raise FileNotFoundError(f"{path}: there is no such file{_instead(path)}.")


def named(path: Path) -> str:
    """A file, or standard input, in words."""
    return "standard input" if path == STANDARD else str(path)


def _instead(path: Path) -> str:
    """A file beside where it should be, of nearly its name; or that its folder is not there."""
    import difflib

    if not path.parent.is_dir():
        return f", nor a folder {path.parent}"
    beside = sorted(p.name for p in path.parent.iterdir() if p.is_file())
    near = difflib.get_close_matches(path.name, beside, 1)
    return f" (did you mean {path.with_name(near[0])}?)" if near else ""


TABLES = (".csv", ".tsv", ".parquet")
PICTURES = (".png", ".pdf", ".svg", ".jpg", ".jpeg")


def check_outputs(
    outputs: Iterable[Path | None],
    inputs: Iterable[Path | None] = (),
    tables: Iterable[Path | None] = (),
    pictures: Iterable[Path | None] = (),
) -> None:
    """Refuse files to write that cannot be written, or that are among those to be read, however their paths
    are spelled; also two that are the same, and tables and pictures whose ending says no format. None: not
    asked for.
    """
    read = [path for path in (*inputs, *answer().read) if path is not None and path != STANDARD]
    tables, pictures = list(tables), list(pictures)
    written: list[Path] = []
    for path in (*outputs, *tables, *pictures):
        if path is None:
            continue
        if path == STANDARD:
            if path not in tables:
                raise ValueError("only tables are written to standard output: give the name of a file.")
            if answer().json:
                raise ValueError("--json prints to standard output: write the table to a file, not to -.")
        if path.is_dir():
            raise IsADirectoryError(f"{path} is a folder: give the name of a file.")
        if not path.parent.is_dir():
            raise FileNotFoundError(f"cannot write {path}: there is no folder {path.parent}.")
        if any(_same(path, other) for other in read):
            raise ValueError(f"{path} is the file to read from, and would be replaced: give another name.")
        if any(_same(path, other) for other in written):
            raise ValueError(f"two results would be written to {path}: give each a name of its own.")
        written.append(path)
    for path in tables:
        if path != STANDARD:
            check_ending(path, TABLES)
    for path in pictures:
        check_ending(path, PICTURES)


def check_ending(path: Path | None, endings: tuple[str, ...]) -> None:
    """Refuse a file whose ending says no format that is known."""
    if path is not None and path.suffix.lower() not in endings:
        *some, last = endings
        known = f"{', '.join(some)} or {last}"
        raise ValueError(f"{path}: cannot tell the format from the ending {path.suffix!r}; use {known}.")


def save_figure(figure: Any, path: Path, dpi: int) -> None:
    """Write a picture of matplotlib's, whole or not at all; the ending says the format."""
    with written_whole(path) as new:
        figure.savefig(new, dpi=dpi)


def _same(one: Path, other: Path) -> bool:
    """Whether two paths lead to one file: through links, by other spellings, also where there is none yet."""
    if one.exists() and other.exists():
        return one.samefile(other)
    return one.resolve() == other.resolve()
