"""Tables in files: CSV by Python's csv module, Parquet through pyarrow.
A table is a dict of numpy columns of one length.
"""

from __future__ import annotations

import csv
import difflib
import io
import re
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from mercer.app.paths import STANDARD, TABLES, check_ending, named
from mercer.files import written_whole

Table = dict[str, np.ndarray]
# numbers with commas: 1,234.5 and 1.234,5 or 1234,5
THOUSANDS = re.compile(r"[+-]?\d{1,3}(,\d{3})+(\.\d*)?")
DECIMAL = re.compile(r"[+-]?(\d{1,3}(\.\d{3})+|\d*),\d+([eE][+-]?\d+)?")
MISSING = frozenset({"", "na", "n/a", "nan", "null", "none"})


class TableError(ValueError):
    """A file that cannot be read or used as a table, with what is wrong and where."""


def read_table(path: str | Path) -> Table:
    """The columns of a .csv, .tsv or .parquet file ("-": on standard input): float64 where every cell is a
    number or empty (NaN), else arrays of text. Commas in numbers are taken for what they are (1,234.5 and
    1.234,5), where that can be told.

    >>> table = read_table("weather.csv")
    >>> table["temperature"].dtype
    dtype('float64')
    """
    path = Path(path)
    if path == STANDARD:
        return _read_standard()
    return _reader(path)(path)


def write_table(path: str | Path, table: Mapping[str, Any]) -> None:
    """Columns to a .csv, .tsv or .parquet file; numbers keep every digit. A file of that name is replaced
    when the new one is whole, and left as it is if writing fails. "-" is CSV on standard output.
    """
    path = Path(path)
    if path == STANDARD:
        _write_cells(sys.stdout, table, ",")
        return
    write = _write_csv
    if _ending(path) == ".parquet":
        _pyarrow(path)  # refuses, in the name of this file, where it is missing
        write = _write_parquet
    with written_whole(path) as new:
        write(new, table)


def _write_csv(path: Path, table: Mapping[str, Any]) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        _write_cells(file, table, "\t" if path.suffix.lower() == ".tsv" else ",")


def _write_cells(file: TextIO, table: Mapping[str, Any], delimiter: str) -> None:
    writer = csv.writer(file, delimiter=delimiter, lineterminator="\n" if file is sys.stdout else "\r\n")
    writer.writerow(table)
    writer.writerows(zip(*(_whole(_cells(column)) for column in table.values()), strict=True))


def _write_parquet(path: Path, table: Mapping[str, Any]) -> None:
    pyarrow, parquet = _pyarrow(path)
    columns = {name: pyarrow.array(_cells(column)) for name, column in table.items()}
    parquet.write_table(pyarrow.table(columns), path)


MOST_NAMES = 20  # of columns that an error lists


def check_column(table: Mapping[str, Any], name: str, source: str, what: str = "") -> None:
    """That a table has a column; else what it has, the nearest first. `what` it should hold."""
    if name in table:
        return
    near = difflib.get_close_matches(name, table, 1)
    more = len(table) - MOST_NAMES
    listed = ", ".join([*table][:MOST_NAMES]) + (f" and {more} more" if more > 0 else "")
    raise TableError(
        f"{source} has no column {name!r}{what}; it has {listed}"
        + (f": did you mean {near[0]!r}?" if near else ".")
    )


def numeric(
    table: Mapping[str, np.ndarray],
    names: Sequence[str],
    source: str,
    rows: np.ndarray | None = None,
    empty: bool = False,
) -> Table:
    """The named columns, all numbers and (unless `empty`) none missing; else an error that names the column
    and the row.

    `rows`: the rows' numbers in the file, where some were left out.
    """
    chosen = {}
    for name in names:
        column = _column(table, name, source)
        if column.dtype.kind not in "fiub":
            bad = np.array([_number(cell) is None and not _missing(cell) for cell in column])
            raise TableError(
                f"{source}: column {name!r} is not numeric (found {str(column[np.argmax(bad)])!r} in row "
                f"{_row(bad, rows)}): "
                "encode it as numbers, or leave it out."
            )
        bad = np.isinf(column) if empty else ~np.isfinite(column)
        if bad.any():
            what = "no value" if np.isnan(column[np.argmax(bad)]) else "an infinite value"
            raise TableError(
                f"{source}: column {name!r} has {what} in row {_row(bad, rows)} ({int(bad.sum())} such in "
                "all): "
                "fill them in or remove them."
            )
        chosen[name] = np.asarray(column, np.float64)
    return chosen


def drop_missing(table: Mapping[str, np.ndarray], name: str, source: str) -> tuple[Table, np.ndarray]:
    """The table without the rows where column `name` is missing,
    and the numbers (from 1) of the rows that are left.
    """
    column = _column(table, name, source)
    keep = (
        ~np.isnan(column)
        if column.dtype.kind == "f"
        else np.array([not _missing(cell) for cell in column], bool)
    )
    if not keep.any():
        raise TableError(f"{source}: column {name!r} is empty in every row.")
    return {key: values[keep] for key, values in table.items()}, np.flatnonzero(keep) + 1


def _row(bad: np.ndarray, rows: np.ndarray | None) -> int:
    first = int(np.argmax(bad))
    return first + 1 if rows is None else int(rows[first])


def _column(table: Mapping[str, np.ndarray], name: str, source: str) -> np.ndarray:
    check_column(table, name, source)
    return table[name]


# --- formats


def _ending(path: Path) -> str:
    try:
        check_ending(path, TABLES)
    except ValueError as error:
        raise TableError(str(error)) from None
    return path.suffix.lower()


def _reader(path: Path):
    ending = _ending(path)
    if not path.is_file():
        raise TableError(f"{path}: there is no such file.")
    return _read_parquet if ending == ".parquet" else _read_csv


def _read_csv(path: Path) -> Table:
    return _from_text(path.read_bytes(), str(path), "\t" if path.suffix.lower() == ".tsv" else None)


def _read_standard() -> Table:
    """A table on standard input: what is not Parquet is taken for text."""
    if sys.stdin.isatty():
        print("reading a table from standard input; Ctrl-D ends it", file=sys.stderr)
    content = sys.stdin.buffer.read()
    if content.startswith(b"PAR1"):
        return _from_parquet(io.BytesIO(content), named(STANDARD))
    if content.startswith(b"PK\x03\x04"):
        raise TableError("standard input holds an archive (a saved model, a spreadsheet): give a table.")
    return _from_text(content, named(STANDARD), None)


def _from_text(content: bytes, path: str, delimiter: str | None) -> Table:
    """The columns of lines of cells; what parts them is seen in the first line unless it is given."""
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise TableError(f"{path} is not a text file in UTF-8: save it as one.") from None
    first = text.split("\n", 1)[0]
    delimiter = delimiter or max(",;\t", key=first.count)
    rows = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
    header = [name.strip() for name in next(rows, [])]
    if not header:
        raise TableError(f"{path} is empty.")
    _check_header(header, path)
    cells: list[list[str]] = []
    try:
        for row in rows:
            if row and len(row) != len(header):
                raise TableError(
                    f"{path}: line {rows.line_num} has {len(row)} cells, but the header has {len(header)}."
                )
            if row:
                cells.append(row)
    except csv.Error as error:
        raise TableError(f"{path}: line {rows.line_num}: {error}.") from None
    if not cells:
        raise TableError(f"{path} has a header but no rows.")
    columns = ([row[j].strip() for row in cells] for j in range(len(header)))
    return {
        name: _parse(column, f"{path}: column {name!r}", delimiter)
        for name, column in zip(header, columns, strict=True)
    }


def _check_header(header: list[str], path: str) -> None:
    twice = sorted(name for name, count in Counter(header).items() if count > 1)
    if twice:
        what = (
            "columns without a name"
            if twice == [""]
            else f"more than one column called {', '.join(map(repr, twice))}"
        )
        raise TableError(f"{path}: the first line must name the columns, but there are {what}.")
    if all(_number(name) is not None for name in header):
        raise TableError(
            f"{path}: the first line must name the columns, but it holds the numbers {', '.join(header[:4])}."
        )


def _read_parquet(path: Path) -> Table:
    return _from_parquet(path, str(path))


def _from_parquet(source: Any, path: str) -> Table:
    pyarrow, parquet = _pyarrow(path)
    try:
        table = parquet.read_table(source)
    except pyarrow.ArrowInvalid as error:
        raise TableError(f"{path} is not a Parquet file ({str(error).splitlines()[0]}).") from None
    if table.num_rows == 0:
        raise TableError(f"{path} has no rows.")
    out: Table = {}
    for name, column in zip(table.column_names, table.columns, strict=True):
        numbers = ("is_integer", "is_floating", "is_boolean", "is_decimal")
        if any(getattr(pyarrow.types, test)(column.type) for test in numbers):
            out[name] = np.array([np.nan if v is None else float(v) for v in column.to_pylist()])
        else:
            out[name] = np.array(
                [None if v is None else v if isinstance(v, str) else str(v) for v in column.to_pylist()],
                object,
            )
    return out


def _pyarrow(path: str | Path) -> tuple[Any, Any]:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise TableError(f'{path}: Parquet needs pyarrow: pip install "mercer[parquet]".') from None
    return pyarrow, pyarrow.parquet


# --- cells


def _parse(cells: list[str], what: str, delimiter: str) -> np.ndarray:
    """A column of numbers, with commas as people write them, or of text; `what` it is, for errors."""
    plain = [np.nan if _missing(cell) else _number(cell) for cell in cells]
    others = [cell for cell, value in zip(cells, plain, strict=True) if value is None]
    if not others:
        return np.array(plain, np.float64)
    points = any("." in cell for cell, value in zip(cells, plain, strict=True) if value is not None)
    thousands = all(map(THOUSANDS.fullmatch, others))
    decimals = delimiter != "," and not points and all(map(DECIMAL.fullmatch, others))
    if thousands and decimals:
        raise TableError(
            f"{what} has numbers such as {others[0]}, whose comma may stand for decimals or thousands: write "
            "them without, or the decimals with a point."
        )
    if not (thousands or decimals):
        return np.array(cells, object)
    drop, point = (",", ".") if thousands else (".", ",")
    return np.array(
        [
            value if value is not None else float(cell.replace(drop, "").replace(point, "."))
            for cell, value in zip(cells, plain, strict=True)
        ]
    )


def _missing(cell: Any) -> bool:
    return cell is None or str(cell).strip().lower() in MISSING


def _number(cell: Any) -> float | None:
    try:
        return None if "_" in str(cell) else float(cell)
    except (TypeError, ValueError):
        return None


def _cells(column: Any) -> list[Any]:
    """Python values, None where there is none."""
    array = np.asarray(column)
    return [None if np.isnan(v) else v for v in array.tolist()] if array.dtype.kind == "f" else array.tolist()


def _whole(cells: list[Any]) -> list[Any]:
    """A column of whole numbers without decimals: years stay years."""
    numbers = [v for v in cells if isinstance(v, float)]
    if numbers and all(v.is_integer() and abs(v) < 2**53 for v in numbers):
        return [int(v) if isinstance(v, float) else v for v in cells]
    return cells
