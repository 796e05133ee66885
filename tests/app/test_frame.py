"""What every command has: one vocabulary of options, --json, --quiet, --config, standard input."""

from __future__ import annotations

import inspect
import io
import json
import math
import typing
from pathlib import Path

import numpy as np
import pytest
import typer
from typer.testing import CliRunner

import mercer as mc
from mercer.app.cli import app
from mercer.app.command import Commands, answer_now, command
from mercer.app.console import found, note, plain, say
from mercer.app.tables import TableError, read_table, write_table

COMMANDS = {info.name or info.callback.__name__: info.callback for info in app.registered_commands}

# every option that more than one command has: its type, and words that its help has in common
OPTIONS = {
    "--budget": (str, "how long"),
    "--classify": (bool, "The target holds classes, though it is numeric"),
    "--config": (Path, ".toml"),
    "--covariance": (None, "Shape of the Gaussians"),
    "--dask": (str, "Work on a Dask cluster"),
    "--features": (str, "Columns to use, separated by commas"),
    "--folds": (int, ""),
    "--horizon": (None, "ahead"),
    "--json": (bool, "one JSON document"),
    "--kernel": (None, "ovariance function"),
    "--level": (float, "Level of the intervals, between 0 and 1"),
    "--likelihood": (None, "student-t"),
    "--out": (Path, "rite"),  # the result of the command: a model, a table, a page, a picture
    "--plot": (Path, "Draw it to this file (.png, .pdf or .svg)"),
    "--quiet": (bool, "Print nothing but errors"),
    "--restarts": (int, "Further starts, of which the best is kept"),
    "--save": (Path, "Save the model here"),
    "--seasonal": (str, "Seasons: auto, none, names"),
    "--seed": (int, "Seed of what is random"),
    "--target": (str, "Column to"),
    "--time": (str, "Column of times"),
}
# which mean something else elsewhere, and are the one word for it
ALONE = {"--host", "--port", "--token"}


def options(name: str) -> dict[str, tuple[type, str]]:
    """Names of the options of a command, with their types and help."""
    hints = typing.get_type_hints(COMMANDS[name], include_extras=True)
    given = {}
    for parameter, hint in hints.items():
        kind, about = (*typing.get_args(hint), None)[:2] if typing.get_args(hint) else (hint, None)
        if isinstance(about, typer.models.OptionInfo):
            kinds = [t for t in typing.get_args(kind) if t is not type(None)] or [kind]
            written = [d for d in (about.default, *(about.param_decls or ())) if isinstance(d, str)]
            typed = next((d for d in written if d.startswith("--")), f"--{parameter.replace('_', '-')}")
            given[typed.split("/")[0]] = (kinds[0], about.help or "")
    return given


def test_an_option_means_the_same_everywhere():
    everywhere: dict[str, list] = {}
    for name in COMMANDS:
        for option, (kind, text) in options(name).items():
            everywhere.setdefault(option, []).append((name, kind, text))
    shared = {option for option, where in everywhere.items() if len(where) > 1} - ALONE
    assert shared <= set(OPTIONS), "a name that several commands have belongs into the table"
    for option, (kind, words) in OPTIONS.items():
        for name, its_kind, text in everywhere.get(option, []):
            assert kind in (None, its_kind), f"{name} {option}"
            assert words.lower() in text.lower(), f"{name} {option}: {text}"


def test_every_command_has_the_options_of_the_frame_and_an_example():
    for name, function in COMMANDS.items():
        assert {"--json", "--quiet", "--config"} <= set(options(name)), name
        assert f"Example: mercer {name}" in inspect.getdoc(function), name


def test_the_guide_lists_the_options():
    page = Path(__file__).parents[2] / "docs" / "cli.md"
    if not page.exists():
        pytest.skip("the page is only in a source checkout")
    text = page.read_text()
    for option in OPTIONS:
        assert f"`{option}" in text, option
    for name in COMMANDS:
        assert f"mercer {name}" in text, name


# -- a command of ours, which needs nothing ------------------------------------------------------------------


def small(body) -> typer.Typer:
    """A program with the one command `work`, and another so that it has a name."""
    program = typer.Typer(rich_markup_mode=None, pretty_exceptions_enable=False, cls=Commands)
    body.__name__ = "work"
    program.command()(command(body))

    @program.command()
    def other() -> None: ...

    return program


def test_json_is_one_document_on_standard_output_and_notes_go_beside_it():
    def work(size: typing.Annotated[int, typer.Option(help="n")] = 3) -> None:
        """Work."""
        print("a stray line")
        say("for people")
        note("worth knowing")
        found(
            size=size,
            values=np.arange(size) / 2,
            bad=np.array([np.nan, np.inf]),
            when=np.datetime64("2024-01-31"),
        )

    program = small(work)
    text = CliRunner().invoke(program, ["work"])
    assert text.stdout == "a stray line\nfor people\n" and text.stderr == "note: worth knowing\n"
    machine = CliRunner().invoke(program, ["work", "--json", "--size", "2"])
    assert json.loads(machine.stdout) == {
        "mercer": mc.__version__,
        "command": "work",
        "ok": True,
        "result": {"size": 2, "values": [0.0, 0.5], "bad": [None, None], "when": "2024-01-31"},
        "files": {},
        "notes": ["worth knowing"],
    }
    assert machine.stderr == "note: worth knowing\n"
    quiet = CliRunner().invoke(program, ["work", "--quiet"])
    assert (quiet.exit_code, quiet.output) == (0, "")
    both = CliRunner().invoke(program, ["work", "--quiet", "--json"])
    assert json.loads(both.stdout)["notes"] == ["worth knowing"] and both.stderr == ""


@pytest.mark.parametrize(
    ("error", "code", "kind", "message"),
    [
        (ValueError("no\n good"), 1, "ValueError", "no good"),
        (KeyError("x"), 1, "KeyError", "unexpected KeyError: 'x' (MERCER_TRACEBACK=1 shows where)"),
        (KeyboardInterrupt(), 130, "KeyboardInterrupt", "interrupted"),
        (FileNotFoundError(2, "No such file", "a.csv"), 1, "FileNotFoundError", "a.csv: No such file"),
    ],
)
def test_errors_have_a_line_or_a_document_and_a_code(error, code, kind, message):
    def work() -> None:
        """Work."""
        raise error

    text = CliRunner().invoke(small(work), ["work"])
    assert (text.exit_code, text.stdout, text.stderr) == (code, "", f"mercer: {message}\n")
    quiet = CliRunner().invoke(small(work), ["work", "--quiet"])
    assert (quiet.exit_code, quiet.stderr) == (code, f"mercer: {message}\n")
    machine = CliRunner().invoke(small(work), ["work", "--json"])
    document = json.loads(machine.stdout)
    assert machine.exit_code == code and machine.stderr == "" and document["ok"] is False
    assert document["error"] == {"type": kind, "message": message, "exit_code": code}


def test_a_server_answers_when_it_is_up():
    def work() -> None:
        """Work."""
        found(address="here")
        answer_now()
        note("later")

    assert json.loads(CliRunner().invoke(small(work), ["work", "--json"]).stdout)["result"] == {
        "address": "here"
    }
    assert CliRunner().invoke(small(work), ["work"]).stdout == ""


def test_a_command_line_that_is_not_understood_is_told_as_json_too():
    wrong = CliRunner().invoke(app, ["info", "m.mercer", "--nothing", "--json"])
    document = json.loads(wrong.stdout)
    assert wrong.exit_code == document["error"]["exit_code"] == 2 and document["command"] == "info"
    assert "No such option" in document["error"]["message"]
    missing = CliRunner().invoke(app, ["fit", "a.csv", "--json"])
    assert missing.exit_code == 2 and "Missing option" in json.loads(missing.stdout)["error"]["message"]
    plainly = CliRunner().invoke(app, ["fit", "a.csv"])
    assert plainly.exit_code == 2 and "--help' for help" in plainly.stderr and plainly.stdout == ""


def test_values_as_json_has_them():
    given = {
        1: (np.float32(0.5), True, None),
        "a": {"b": {3}},
        "p": Path("x"),
        "n": math.nan,
        "i": np.int64(2),
    }
    assert plain(given) == {"1": [0.5, True, None], "a": {"b": [3]}, "p": "x", "n": None, "i": 2}


# -- --config ------------------------------------------------------------------------------------------------


def configured(tmp_path, content, *arguments):
    said = {}

    def work(
        data: typing.Annotated[Path, typer.Argument(help="d")],
        target: typing.Annotated[str, typer.Option(help="t")],
        k: typing.Annotated[int, typer.Option("-k", "--components", help="k")] = 1,
        noise_by: typing.Annotated[str | None, typer.Option(help="c")] = None,
        regressor: typing.Annotated[list[str] | None, typer.Option(help="r")] = None,
        latent: typing.Annotated[bool, typer.Option("--latent", help="l")] = False,
    ) -> None:
        """Work."""
        said.update(data=str(data), target=target, k=k, noise_by=noise_by, regressor=regressor, latent=latent)

    (tmp_path / "c.toml").write_text(content)
    result = CliRunner().invoke(small(work), ["work", "--config", str(tmp_path / "c.toml"), *arguments])
    return result, said


def test_options_are_read_from_a_file_and_the_command_line_wins(tmp_path):
    content = """
        [work]
        data = "d.csv"
        target = "y"
        components = 4
        noise-by = ["a", "b"]
        regressor = ["p", "q"]
        latent = true
        [other]
    """
    result, said = configured(tmp_path, content)
    assert result.exit_code == 0, result.output
    expected = {
        "data": "d.csv",
        "target": "y",
        "k": 4,
        "noise_by": "a,b",
        "regressor": ["p", "q"],
        "latent": True,
    }
    assert said == expected
    result, said = configured(tmp_path, content, "other.csv", "--target", "z", "-k", "2", "--regressor", "s")
    assert said == expected | {"data": "other.csv", "target": "z", "k": 2, "regressor": ["s"]}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("[work]\ntagret = 'y'", "unknown option 'tagret': did you mean 'target'?"),
        ("[wrok]\n", "unknown command 'wrok': did you mean 'work'?"),
        ("[other]\n", "has no table [work]; it has [other]"),
        ("", "has no table [work]; it has nothing"),
        ("target = 'y'", "options stand under their command"),
        ("[work]\ntarget = {a = 1}", "takes a value, not a table"),
        ("[work]\ncomponents = 'many'", "Invalid value for '-k' / '--components'"),
        ("[work", "c.toml"),
    ],
)
def test_a_file_that_is_not_understood_is_an_error_before_anything_is_done(tmp_path, content, message):
    result, said = configured(tmp_path, content, "d.csv", "--target", "y")
    assert result.exit_code == 2 and message in " ".join(result.stderr.split()) and said == {}


def test_a_file_of_options_that_is_not_there(tmp_path):
    result = CliRunner().invoke(app, ["info", "m.mercer", "--config", str(tmp_path / "no.toml")])
    assert result.exit_code == 2 and "no.toml" in result.stderr


# -- standard input and output -------------------------------------------------------------------------------


def test_tables_are_read_from_standard_input(monkeypatch, tmp_path):
    columns = {"a": np.array([1.0, 2.5]), "b": np.array(["x", "y, z"], object)}
    contents = {ending: tmp_path / f"t.{ending}" for ending in ("csv", "tsv", "parquet")}
    for path in contents.values():
        write_table(path, columns)
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(path.read_bytes())))
        read = read_table("-")
        assert list(read) == ["a", "b"] and read["b"].tolist() == ["x", "y, z"]
        np.testing.assert_array_equal(read["a"], columns["a"])
    for content, message in ((b"PK\x03\x04", "holds an archive"), (b"", "standard input is empty")):
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(content)))
        with pytest.raises(TableError, match=message):
            read_table("-")


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    folder = tmp_path_factory.mktemp("frame")
    x = np.linspace(0, 3, 12)
    mc.GPRegressor(kernel="SE(1)", learn=False).fit({"x": x}, np.sin(x)).save(folder / "m.mercer")
    return folder / "m.mercer"


def test_a_pipe_from_rows_to_predictions(saved):
    """Rows in, rows out; with --json the same numbers."""
    rows = "x\n0.5\n1.5\n"
    text = CliRunner().invoke(app, ["predict", str(saved), "-", "--out", "-"], input=rows)
    assert text.exit_code == 0, text.output
    header, *lines = text.stdout.splitlines()
    assert header == "x,mean,std,lower,upper"
    document = json.loads(CliRunner().invoke(app, ["predict", str(saved), "-", "--json"], input=rows).stdout)
    predicted = document["result"]["predictions"]
    written = np.array([[float(cell) for cell in line.split(",")] for line in lines])
    np.testing.assert_array_equal(written[:, 1:].T, list(predicted.values()))
    np.testing.assert_allclose(predicted["mean"], np.sin([0.5, 1.5]), atol=0.05)
    shown = CliRunner().invoke(app, ["predict", str(saved), "-"], input=rows)
    assert "Predictions" in shown.stdout and f"{predicted['mean'][1]:.5g}" in shown.stdout


def test_what_cannot_be_standard_input_or_output_is_refused(saved):
    for words, message in (
        (["predict", "-", str(saved)], "only tables are read from standard input"),
        (["predict", str(saved), "-", "--out", "-", "--json"], "--json prints to standard output"),
        (["forecast", "-", "--future", "-"], "two tables cannot both be read"),
        (["fit", "-", "--target", "y", "--out", "-"], "only tables are written to standard output"),
        (["predict", str(saved), "-"], "standard input has no column 'x'; it has y"),
    ):
        result = CliRunner().invoke(app, words, input="y\n1\n")
        assert result.exit_code == 1 and message in result.output


def test_near_misses_are_named(saved, tmp_path):
    result = CliRunner().invoke(app, ["info", str(saved.with_name("n.mercer"))])
    assert f"did you mean {saved}?" in result.stderr
    write_table(tmp_path / "t.csv", {f"column {i}": [1.0] for i in range(30)} | {"height": [2.0]})
    result = CliRunner().invoke(
        app, ["fit", str(tmp_path / "t.csv"), "--target", "heigth", "--out", "m.mercer"]
    )
    assert "and 11 more: did you mean 'height'?" in result.stderr


def test_the_format_is_refused_before_the_work(saved):
    """Not after it: nothing was read."""
    for words in (["predict", saved, "-", "--out", "p.xlsx"], ["explain", saved, "--plot", "p.doc"]):
        result = CliRunner().invoke(app, list(map(str, words)))
        assert result.exit_code == 1 and "cannot tell the format from the ending" in result.stderr


def test_info_and_explain_for_machines(saved):
    document = json.loads(CliRunner().invoke(app, ["info", str(saved), "--json"]).stdout)["result"]
    assert document["estimator"] == "GPRegressor" and document["rows"] == 12 and document["features"] == ["x"]
    model = mc.load(saved)
    assert document["log_evidence"] == pytest.approx(model.log_marginal_likelihood_, rel=1e-12)
    assert document["hyperparameters"]["kernel.lengthscale"] == 1.0
    document = json.loads(CliRunner().invoke(app, ["explain", str(saved), "--json"]).stdout)["result"]
    assert document["text"] and len(set(map(len, document["table"].values()))) == 1


def test_shells_complete_commands_and_options():
    for words, expected in (("mercer pre", "predict"), ("mercer fit --tar", "--target")):
        env = {"_MERCER_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(words.count(" "))}
        assert expected in CliRunner().invoke(app, [], prog_name="mercer", env=env).stdout.split()
