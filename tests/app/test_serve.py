"""`mercer serve`: the command itself, in a process of its own, and the files that it refuses."""

from __future__ import annotations

import http.client
import json
import os
import re
import resource
import signal
import subprocess
import sys
import zipfile

import numpy as np
import pytest
from typer.testing import CliRunner

import mercer as mc
from mercer.app import web
from mercer.app.cli import app

pytest.importorskip("fastapi", reason='needs the extra: pip install "mercer[serve]"')
pytest.importorskip("uvicorn", reason='needs the extra: pip install "mercer[serve]"')
pytestmark = pytest.mark.filterwarnings("ignore::mercer.learning.unconverged.UnconvergedWarning")


def command(*words):
    done = CliRunner().invoke(app, ["serve", *map(str, words)])
    return done.exit_code, " ".join(done.output.split())


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    path = tmp_path_factory.mktemp("served") / "line.mercer"
    x = np.linspace(0, 1, 12)
    mc.GPRegressor(max_evaluations=5, progress=False).fit({"x": x}, x).save(path)
    return path


def bomb(path):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("manifest.json", b"{}" + b" " * 50_000_000)
        archive.writestr("arrays.safetensors", b"\0" * 50_000_000)


def claims(path):
    """A header of arrays that says it is larger than the file."""
    with zipfile.ZipFile(path, "w") as archive:
        said = {"format": "mercer", "schema": 3, "class": "GPRegressor", "settings": {}, "learned": {}}
        archive.writestr("manifest.json", json.dumps(said))
        archive.writestr("arrays.safetensors", (2**62).to_bytes(8, "little") + b"{}")


@pytest.mark.parametrize(
    "make",
    [
        bomb,
        claims,
        lambda path: path.write_bytes(b"not a zip"),
        lambda path: path.write_bytes(b""),
        lambda path: path.write_bytes(b"PK\x03\x04" + os.urandom(500)),
    ],
    ids=["zip bomb", "impossible sizes", "no zip", "empty", "noise"],
)
def test_files_that_are_no_models(tmp_path, make):
    path = tmp_path / "model.mercer"
    make(path)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    code, said = command(path, "--port", "0")
    assert code == 1 and f"{path}: " in said and len(said) < 400
    assert re.search("not a saved model|is damaged|has no valid|cannot be built", said)
    assert (
        resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - peak < 40_000
    )  # kB: 100 MB unpacked would show


def test_settings_that_make_no_sense(saved, tmp_path):
    assert "no such file" in command(tmp_path / "none.mercer")[1]
    assert "--save goes with --update" in command(saved, "--save", saved)[1]
    assert "--update needs a --token" in command(saved, "--update", "--port", "0")[1]
    assert "at least 8 characters" in command(saved, "--token", "short")[1]
    assert "not updated" in command(saved, "--update", "--token", "long-enough", "--port", "0")[1]
    with web.listen("127.0.0.1", 0) as taken:
        taken.listen()
        assert "cannot listen on 127.0.0.1" in command(saved, "--port", taken.getsockname()[1])[1]
    opt = mc.Optimiser({"x": (0.0, 1.0)})
    opt.tell(opt.ask(), 1.0)
    opt.save(tmp_path / "run.mercer")
    assert "Optimiser is not served" in command(tmp_path / "run.mercer", "--port", "0")[1]


@pytest.mark.slow
def test_a_process_from_start_to_end(saved, tmp_path):
    """Starts on a free port, answers without a content type, and ends well when it is told to."""
    secret = tmp_path / "token"
    secret.write_text("a-token-in-a-file\n")
    words = [
        sys.executable,
        "-m",
        "mercer.app.cli",
        "serve",
        str(saved),
        "--port",
        "0",
        "--token-file",
        str(secret),
    ]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            line = process.stdout.readline()
            assert line.startswith("serving line.mercer at http://127.0.0.1:"), process.stderr.read()
            port = int(line.split(":")[2].split()[0])
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
            headers = {"Authorization": "Bearer a-token-in-a-file"}
            connection.request("POST", "/predict", b'{"rows": [{"x": 0.5}]}', headers)
            said = json.loads(connection.getresponse().read())
            assert said["predictions"][0]["mean"] == pytest.approx(0.5, abs=0.05)
            connection.close()
            process.send_signal(signal.SIGTERM)
            assert process.wait(30) in (0, -signal.SIGTERM)
            assert "Traceback" not in process.stderr.read()
        finally:
            process.kill()
