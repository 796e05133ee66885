"""docs/coverage.md against its list of ids, the package and the tests it names."""

import contextlib
import importlib
import importlib.util
import io
import pkgutil
import re
import sys
import types
from collections import Counter
from pathlib import Path

import pytest
import typer

ROOT = Path(__file__).resolve().parents[1]
IDS = ROOT / "docs" / "coverage_ids.txt"
TOOL = ROOT / "tools" / "ledger.py"

if not (ROOT / "docs" / "coverage.md").exists() or not TOOL.exists():
    pytest.skip(
        "the ledger (docs/coverage.md, tools/ledger.py) is only in a source checkout", allow_module_level=True
    )

spec = importlib.util.spec_from_file_location("ledger", TOOL)
ledger = importlib.util.module_from_spec(spec)
spec.loader.exec_module(ledger)


def fault_of_command(words):
    """Why `mercer WORDS` is not a command, or None: its --help has to succeed."""
    output = io.StringIO()
    argv = sys.argv
    sys.argv = ["mercer", *words, "--help"]
    try:
        main = importlib.import_module("mercer.app.cli").main
        with contextlib.redirect_stdout(output), contextlib.redirect_stderr(output):
            main()
    except SystemExit as stop:
        return f"`{' '.join(sys.argv)}` ends with {stop.code}" if stop.code else None
    except Exception as error:
        return f"`{' '.join(sys.argv)}` raises {type(error).__name__}: {error}"
    finally:
        sys.argv = argv
    return None


def fault_of_name(name):
    """Why a name in the ledger cannot be reached, or None."""
    if command := re.fullmatch(r"cli:`mercer ([^`]+)`", name):
        return fault_of_command(command[1].split())
    if name.endswith(".py"):
        return None if (ROOT / name).is_file() else f"no file {name}"
    if not re.fullmatch(r"mercer(\.\w+)+", name):
        return f"{name!r} is not a name in mercer, cli:`mercer ...` or a .py file"
    try:
        pkgutil.resolve_name(name)
    except Exception as error:
        return f"{name} does not import: {type(error).__name__}: {error}"
    return None


def fault_of_test(test):
    """Why a test in the ledger cannot be found, or None."""
    matched = re.fullmatch(r"(tests/[\w/]+\.py)::(?:\w+::)?(test\w*)", test)
    if not matched:
        return f"{test!r} is not of the form tests/path.py::test_name"
    file, function = ROOT / matched[1], matched[2]
    if not file.is_file():
        return f"no file {matched[1]}"
    if not re.search(rf"^\s*def {function}\(", file.read_text(encoding="utf-8"), re.MULTILINE):
        return f"{matched[1]} has no `def {function}`"
    return None


def faults(row):
    """Everything wrong with one row."""
    if row.status not in ledger.STATUSES:
        return [f"status {row.status!r} is not one of {', '.join(ledger.STATUSES)}"]
    if row.status == "not yet":
        return []
    missing = [f"{field} is empty" for field in ("name", "test") if not getattr(row, field)]
    names = [fault_of_name(name) for name in row.name.split(", ") if name]
    tests = [fault_of_test(test) for test in row.test.split(", ") if test]
    return missing + [fault for fault in names + tests if fault]


def test_every_id_has_exactly_one_row():
    ids = IDS.read_text(encoding="utf-8").split()
    rows = Counter(row.id for row in ledger.read())
    wrong = {
        "listed twice in coverage_ids.txt": [id for id, times in Counter(ids).items() if times > 1],
        "without a row": sorted(set(ids) - set(rows)),
        "with several rows": [id for id, times in rows.items() if times > 1],
        "not in coverage_ids.txt": sorted(set(rows) - set(ids)),
    }
    assert not any(wrong.values()), "\n".join(
        f"{what}: {', '.join(which)}" for what, which in wrong.items() if which
    )
    assert sum(id[0] in "ABCD" for id in ids) == 487  # what the source texts describe


def test_every_row_says_what_it_is():
    assert [row.id for row in ledger.read() if not row.what] == []


def test_done_and_part_rows_name_things_and_tests_that_exist():
    wrong = [f"{row.id}: {fault}" for row in ledger.read() for fault in faults(row)]
    assert not wrong, f"{len(wrong)} faults in docs/coverage.md\n" + "\n".join(wrong)


GOOD_TEST = "tests/test_coverage_ledger.py::test_every_row_says_what_it_is"


@pytest.mark.parametrize(
    ("name", "test", "status", "expected"),
    [
        ("mercer.linalg", GOOD_TEST, "done", []),
        ("mercer.linalg, tools/ledger.py", f"{GOOD_TEST}, {GOOD_TEST}", "part", []),
        ("", "", "not yet", []),
        ("", "", "done", ["name is empty", "test is empty"]),
        ("mercer.linalg", GOOD_TEST, "almost", ["status 'almost'"]),
        ("mercer.linalg.nothing_of_this_name", GOOD_TEST, "done", ["does not import"]),
        ("os.path", GOOD_TEST, "done", ["is not a name in mercer"]),
        ("experiments/nothing_of_this_name.py", GOOD_TEST, "done", ["no file"]),
        ("cli:`mercer nothing-of-this-name`", GOOD_TEST, "done", ["`mercer nothing-of-this-name --help`"]),
        (
            "mercer.linalg",
            "tests/test_coverage_ledger.py::test_nothing",
            "done",
            ["has no `def test_nothing`"],
        ),
        ("mercer.linalg", "tests/test_nothing.py::test_nothing", "done", ["no file"]),
        ("mercer.linalg", "test_nothing", "done", ["is not of the form"]),
    ],
)
def test_faults_of_a_row(name, test, status, expected):
    found = faults(ledger.Row("A.N1", "something", name, test, status))
    assert len(found) == len(expected)
    assert all(part in fault for part, fault in zip(expected, found, strict=True))


def test_a_command_is_found_by_its_help(monkeypatch):
    app = typer.Typer()
    app.command("fit")(lambda: None)
    app.command("predict")(lambda: None)
    monkeypatch.setitem(sys.modules, "mercer.app.cli", types.SimpleNamespace(main=app))
    assert fault_of_name("cli:`mercer fit`") is None
    assert fault_of_name("cli:`mercer fits`") == "`mercer fits --help` ends with 2"


@pytest.fixture
def small(tmp_path):
    """A ledger of two rows and the TSV file to be applied to it."""
    page = tmp_path / "coverage.md"
    page.write_text("# Page\n\n| id | what | name | test | status |\n|---|---|---|---|---|\n")
    with page.open("a") as file:
        file.write("| A.N1 | first | | | not yet |\n| B.P2 | second | | | not yet |\n\nText.\n")
    return page, tmp_path / "rows.tsv"


def test_fill_changes_only_the_rows_it_is_given(small):
    page, rows = small
    before = page.read_text()
    rows.write_text("B.P2\tmercer.a, mercer.b\ttests/a.py::test_b\tpart\n")
    assert ledger.fill(rows, page) == 1
    filled = "| B.P2 | second | mercer.a, mercer.b | tests/a.py::test_b | part |"
    assert page.read_text() == before.replace("| B.P2 | second | | | not yet |", filled)
    assert " ".join(ledger.count(page).split()) == "done part not yet A 0 0 1 B 0 1 0 all 0 1 1"

    rows.write_text("B.P2\t\t\tnot yet\n")
    ledger.fill(rows, page)
    assert page.read_text() == before


def test_fill_reports_every_bad_line_and_changes_nothing(small):
    page, rows = small
    before = page.read_text()
    lines = ["A.N1\tmercer.a\ttests/a.py::test_b\tdone"] * 2
    lines += ["A.N9\ta\tb\tdone", "B.P2\ta\tb\tmaybe", "B.P2\ta\t\tdone", "B.P2\ta | c\tb\tdone", "B.P2 done"]
    rows.write_text("\n".join(lines))
    with pytest.raises(ValueError, match="nothing was changed") as caught:
        ledger.fill(rows, page)
    assert re.findall(r"^line (\d)", str(caught.value), re.MULTILINE) == list("234567")
    assert page.read_text() == before


def test_a_row_with_the_wrong_number_of_cells_is_refused(small):
    page, _ = small
    page.write_text("| A.N1 | first | | not yet |\n")
    with pytest.raises(ValueError, match=r"5 cells.*A\.N1"):
        ledger.read(page)
