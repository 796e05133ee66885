"""What the Dockerfile does, in a fresh environment in place of the image: the wheel is built and installed with its extra,
and the entry point serves a model, which is asked once.

    python tools/dockerfile_steps.py model.mercer '{"rows": [{"x": 0.5}]}'
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
import urllib.request
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def main(model: str, body: str) -> None:
    """Build, install, serve, ask."""
    said = (ROOT / "Dockerfile").read_text()
    entry = json.loads(re.search(r"^ENTRYPOINT (\[.*\])$", said, re.M)[1])
    extra = re.search(r"mercer-\*\.whl\)\[(\w+)\]", said)[1]
    health = re.search(r'^HEALTHCHECK CMD python -c "(.*)"$', said, re.M)[1]
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        venv.create(place / "fresh", with_pip=True)
        python = place / "fresh" / "bin" / "python"
        subprocess.run(
            [python, "-m", "pip", "-q", "wheel", "--no-deps", "-w", place / "dist", ROOT], check=True
        )
        (wheel,) = (place / "dist").glob("mercer-*.whl")
        subprocess.run([python, "-m", "pip", "-q", "install", f"{wheel}[{extra}]"], check=True)
        words = [place / "fresh" / "bin" / entry[0], *entry[1:]]
        words = ["127.0.0.1" if word == "0.0.0.0" else "0" if word == "8080" else word for word in words]
        server = subprocess.Popen(
            [*words, Path(model).resolve()], stdout=subprocess.PIPE, text=True, cwd=folder
        )
        try:
            port = re.search(r"http://[^:]+:(\d+)", server.stdout.readline())[1]
            asked = urllib.request.Request(f"http://127.0.0.1:{port}/predict", body.encode())
            with urllib.request.urlopen(asked, timeout=60) as answer:
                print(answer.read().decode())
            subprocess.run([python, "-c", health.replace("8080", port)], check=True)
        finally:
            server.terminate()
            print("ended with", server.wait(60))


if __name__ == "__main__":
    main(*sys.argv[1:])
