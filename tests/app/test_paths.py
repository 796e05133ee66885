"""What commands write never replaces what they read."""

from __future__ import annotations

import inspect
import os
import typing
from pathlib import Path

import matplotlib.pyplot as plt
import pytest
import typer
from typer.testing import CliRunner

from mercer.app.cli import app
from mercer.app.paths import check_outputs, save_figure

COMMANDS = {info.callback.__name__: info.callback for info in app.registered_commands}


READ = {"config", "data", "future", "events", "row", "tell"}  # options that are read


def taken(command):
    """What a command takes: its name, whether it is a file, an argument (not an option), and required."""
    parameters = inspect.signature(COMMANDS[command]).parameters
    for name, hint in typing.get_type_hints(COMMANDS[command], include_extras=True).items():
        if name != "return":
            kind, about = typing.get_args(hint)[:2]
            is_file = Path in (kind, *typing.get_args(kind))
            required = parameters[name].default is inspect.Parameter.empty
            yield name, is_file, isinstance(about, typer.models.ArgumentInfo), required


def files(command, arguments):
    """Its files that are read (arguments, and a few options), or written."""
    read = {name: argument or name in READ for name, is_file, argument, _ in taken(command) if is_file}
    return [name for name, is_read in read.items() if is_read == arguments]


def cases():
    for command in sorted(
        COMMANDS.keys() - {"serve"}
    ):  # which may keep a model up to date in the file it came from
        for read in files(command, True):
            for written in files(command, False):
                yield command, read, written


def invoked(command, paths, new):
    """A command with these files, and text wherever something else is required."""
    call = [command]
    for name, is_file, argument, required in taken(command):
        if name in paths or required:
            option = [] if argument else [f"--{name.replace('_', '-')}"]
            call += [*option, str(paths.get(name, new if is_file else "y"))]
    return CliRunner().invoke(app, call)


SPELLINGS = {
    "itself": lambda path: path,
    "relative": lambda path: Path(os.path.relpath(path)),
    "through a folder": lambda path: path.parent / ".." / path.parent.name / path.name,
    "a link": lambda path: path.parent / "link.csv",
    "a hard link": lambda path: path.parent / "hard.csv",
}


@pytest.mark.parametrize(("command", "read", "written"), list(cases()))
def test_no_command_replaces_what_it_reads(command, read, written, tmp_path):
    paths = {name: tmp_path / f"{name}.csv" for name in files(command, True)}
    content = {name: f"[{command}]\n" if name == "config" else "x,y\n1,2\n" for name in paths}
    for name, path in paths.items():
        path.write_text(content[name])
    (tmp_path / "link.csv").symlink_to(paths[read])
    os.link(paths[read], tmp_path / "hard.csv")
    for spelled in SPELLINGS.values():
        result = invoked(command, paths | {written: spelled(paths[read])}, tmp_path / "new")
        assert result.exit_code == 1 and "would be replaced: give another name" in result.output
    assert {name: path.read_text() for name, path in paths.items()} == content


def test_every_command_that_writes_is_asked():
    asked = {command for command, _, _ in cases()}
    assert {"fit", "predict", "assess", "cluster", "hmm", "forecast"} <= asked


def test_two_results_have_two_names(tmp_path):
    with pytest.raises(ValueError, match="two results would be written to"):
        check_outputs([tmp_path / "a", None, tmp_path / ".." / tmp_path.name / "a"])
    check_outputs([tmp_path / "a", tmp_path / "b"], [tmp_path / "c", None])


def test_a_picture_that_cannot_be_drawn_leaves_the_old_one(tmp_path):
    path = tmp_path / "a.png"
    path.write_text("old")
    figure, ax = plt.subplots()
    ax.set_title("$\\nonsense{$")
    with pytest.raises(ValueError):
        save_figure(figure, path, dpi=50)
    assert path.read_text() == "old" and [p.name for p in tmp_path.iterdir()] == ["a.png"]
    ax.set_title("sense")
    save_figure(figure, path, dpi=50)
    assert path.read_bytes().startswith(b"\x89PNG")
    plt.close(figure)
