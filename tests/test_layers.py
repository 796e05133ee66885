"""Every module and package of mercer stands in a layer of the contract that keeps imports pointing down."""

import pkgutil
import tomllib
from pathlib import Path

import mercer

# leaves: they have a contract of their own
LEAVES = {"datasets", "metrics", "report", "viz"}


def test_every_room_stands_in_a_layer():
    settings = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())
    contracts = settings["tool"]["importlinter"]["contracts"]
    layers = next(c["layers"] for c in contracts if c["type"] == "layers")
    named = {name.strip() for layer in layers for name in layer.split(":")}
    leaves = {name for c in contracts if c["name"].startswith("Leaves") for name in c["source_modules"]}
    assert leaves == {f"mercer.{name}" for name in LEAVES}
    rooms = {f"mercer.{m.name}" for m in pkgutil.iter_modules(mercer.__path__)}
    assert rooms - leaves == named
