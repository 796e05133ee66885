"""Fill and count the rows of docs/coverage.md.

python tools/ledger.py fill FILE.tsv    apply lines `id<TAB>name<TAB>test<TAB>status` in place, all of them or none
python tools/ledger.py count            how many rows are done, part and not yet, by prefix
"""

import argparse
import re
import sys
from collections import Counter
from pathlib import Path
from typing import NamedTuple

LEDGER = Path(__file__).resolve().parents[1] / "docs" / "coverage.md"
STATUSES = ("done", "part", "not yet")


class Row(NamedTuple):
    id: str
    what: str
    name: str
    test: str
    status: str

    def __str__(self) -> str:
        return re.sub(" +", " ", f"| {' | '.join(self)} |")


def parse(line: str) -> Row | None:
    """The row on one line of the ledger, or None for headings, rules and text."""
    if not re.match(r"\|\s*[A-Z]\.", line):
        return None
    cells = [cell.strip() for cell in line.strip().removeprefix("|").removesuffix("|").split("|")]
    if len(cells) != len(Row._fields):
        raise ValueError(f"a row needs {len(Row._fields)} cells ({', '.join(Row._fields)}): {line.strip()}")
    return Row(*cells)


def read(ledger: Path = LEDGER) -> list[Row]:
    return [row for line in ledger.read_text(encoding="utf-8").splitlines() if (row := parse(line))]


def changes(file: Path, known: set[str]) -> dict[str, list[str]]:
    """`{id: [name, test, status]}` from a TSV file; every bad line is reported at once."""
    found: dict[str, list[str]] = {}
    wrong = []
    for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1):
        if not line.strip():
            continue
        id, *cells = (cell.strip() for cell in line.split("\t"))
        if len(cells) != 3:
            wrong.append(
                f"line {number}: needs id, name, test and status between tabs, got {len(cells) + 1} cells"
            )
        elif id not in known:
            wrong.append(f"line {number}: the ledger has no row {id}")
        elif id in found:
            wrong.append(f"line {number}: {id} was given before")
        elif cells[2] not in STATUSES:
            wrong.append(f"line {number}: {id} has status {cells[2]!r}, use one of {', '.join(STATUSES)}")
        elif cells[2] != "not yet" and not (cells[0] and cells[1]):
            wrong.append(f"line {number}: {id} is {cells[2]!r} and needs a name and a test")
        elif "|" in line:
            wrong.append(f"line {number}: {id} contains '|', which ends a cell")
        else:
            found[id] = cells
    if wrong:
        raise ValueError(f"{file}: nothing was changed\n" + "\n".join(wrong))
    return found


def fill(file: Path, ledger: Path = LEDGER) -> int:
    """Apply the lines of a TSV file to the ledger; returns how many rows it named."""
    new = changes(file, {row.id for row in read(ledger)})
    lines = ledger.read_text(encoding="utf-8").splitlines()
    for i, line in enumerate(lines):
        row = parse(line)
        if row and row.id in new:
            lines[i] = str(Row(row.id, row.what, *new[row.id]))
    ledger.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return len(new)


def count(ledger: Path = LEDGER) -> str:
    """A small table: rows by prefix and status."""
    rows = read(ledger)
    tally = Counter((row.id[0], row.status) for row in rows)
    lines = [f"{'':6}" + "".join(f"{status:>9}" for status in STATUSES)]
    for prefix in sorted({row.id[0] for row in rows}):
        lines.append(f"{prefix:6}" + "".join(f"{tally[prefix, status]:9}" for status in STATUSES))
    totals = Counter(row.status for row in rows)
    lines.append(f"{'all':6}" + "".join(f"{totals[status]:9}" for status in STATUSES))
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("fill").add_argument("file", type=Path, metavar="FILE.tsv")
    commands.add_parser("count")
    args = parser.parse_args()
    try:
        print(f"{fill(args.file)} rows filled" if args.command == "fill" else count())
    except (OSError, ValueError) as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
