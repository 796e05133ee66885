"""`mercer control`: a world by name, runs that are told and drawn, what was learned saved."""

import pytest
from typer.testing import CliRunner

import mercer as mc
from mercer.app.cli import app


def run(*arguments):
    return CliRunner().invoke(app, [str(a) for a in arguments])


def test_what_is_wrong_is_said_in_one_line(tmp_path):
    for arguments, message in (
        (["mountain-bike"], "unknown world 'mountain-bike': did you mean 'mountain-car'?"),
        (["MountainCar-v0"], "MountainCarContinuous-v0"),
        (["mountain-car", "--out", tmp_path / "run.mp4"], "a run is drawn as .gif or .html, not run.mp4"),
    ):
        said = run("control", *arguments)
        assert said.exit_code == 1 and message in said.stderr and said.stderr.count("\n") == 1, said.output


@pytest.mark.slow
def test_a_car_is_driven_drawn_and_saved(tmp_path):
    film, kept = tmp_path / "run.gif", tmp_path / "car.mercer"
    said = run(
        "control",
        "mountain-car",
        "--episodes",
        1,
        "--horizon",
        6,
        "--steps",
        8,
        "--out",
        film,
        "--save",
        kept,
    )
    assert said.exit_code == 0, said.output
    assert "what was learned" in said.stdout and film.read_bytes()[:4] == b"GIF8"
    controller = mc.load(kept)
    assert controller.act(mc.control.MountainCar().reset(seed=0)).shape == (1,)
