"""`mercer optimise`: ask, tell, a program, the report; what is wrong is said in one line."""

import sys

import pytest
from typer.testing import CliRunner

import mercer as mc
from mercer.app.cli import app
from mercer.app.tables import read_table

SPACE = """
maximise = true
constraints = ["x + depth <= 12"]

[space]
x = [-5.0, 10.0]
depth = [1, 8]
rate = {low = 1e-5, high = 1e-1, log = true}
kind = ["a", "b"]
"""
PROGRAM = """
import sys
x, y = map(float, sys.argv[1:])
if x > 8:
    sys.exit("too far")
print("working")
print((x - 1) ** 2 + (y - 2) ** 2)
"""


def run(*arguments):
    return CliRunner().invoke(app, [str(a) for a in arguments])


def test_ask_and_tell(tmp_path):
    space, row = tmp_path / "space.toml", tmp_path / "row.csv"
    space.write_text(SPACE)
    for i in range(3):
        asked = run("optimise", space, "--ask", "--out", row)
        assert asked.exit_code == 0 and asked.stdout.splitlines()[0] == "x,depth,rate,kind", asked.output
        names, cells = row.read_text().splitlines()
        row.write_text(f"{names},value\n{cells},{'' if i == 1 else i}\n")
        assert run("optimise", space, "--tell", row).exit_code == 0
    opt = mc.load(tmp_path / "space.mercer")
    assert [e.value for e in opt.history] == [0.0, None, 2.0] and opt.pending == []
    assert isinstance(opt.history[0].point["depth"], int)
    report = run("optimise", space, "--report").stdout
    assert "3 evaluations, 1 of them failed" in report and "best value 2 at x = " in report
    both = run("optimise", space, "--ask", "--batch", 2, "--out", row)
    assert len(both.stdout.splitlines()) == 3 and len(read_table(row)["x"]) == 2


def test_a_program_is_driven(tmp_path):
    space, program = tmp_path / "plane.toml", tmp_path / "simulate.py"
    space.write_text("[space]\nx = [-5.0, 10.0]\ny = [0.0, 15.0]\n")
    program.write_text(PROGRAM)
    command = f"{sys.executable} {program} {{x}} {{y}}"
    done = run("optimise", space, "--command", command, "--evaluations", 7, "--report")
    assert done.exit_code == 0 and "best value" in done.stdout and "7 evaluations" in done.stdout
    opt = mc.load(tmp_path / "plane.mercer")
    assert len(opt.history) == 7
    for e in opt.history:
        assert e.failed == (e.point["x"] > 8)
        assert e.note == ("RuntimeError: exit code 1. too far" if e.failed else "")


@pytest.mark.parametrize(
    ("text", "arguments", "message"),
    [
        ("[space]\nx = [3.0, 1.0]", ["--ask"], "Real needs low < high"),
        ("[space]\nx = 3", ["--ask"], "column 'x': write [low, high]"),
        ("x = [0.0, 1.0]", ["--ask"], "unknown setting 'x'"),
        ("seed = 1", ["--ask"], "the columns stand in a table [space]"),
        ("[space", ["--ask"], "space.toml: "),
        ("[space]\nx = [0.0, 1.0]", ["--command", "no-such-program {x}"], "names no program"),
        (
            "[space]\nx = [0.0, 1.0]",
            ["--command", f"{sys.executable} -c 0"],
            "the command does not use ['x']",
        ),
    ],
)
def test_what_is_wrong_is_said_in_one_line(tmp_path, text, arguments, message):
    space = tmp_path / "space.toml"
    space.write_text(text)
    found = run("optimise", space, *arguments)
    assert found.exit_code == 1 and message in found.stderr and found.stderr.count("\n") == 1


def test_rows_outside_the_space_are_named_and_nothing_is_kept(tmp_path):
    space, row = tmp_path / "space.toml", tmp_path / "row.csv"
    space.write_text(SPACE)
    row.write_text("x,depth,rate,kind,value\n1.0,3,0.01,a,1\n1.0,3,0.01,c,1\n")
    found = run("optimise", space, "--tell", row)
    assert found.exit_code == 1 and "row 2: column 'kind': unknown level 'c'" in found.stderr
    assert not (tmp_path / "space.mercer").exists()
