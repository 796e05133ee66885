"""One studio, opened by its command, and one browser for all tests that look at it."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest

from tests.browser import opened


@pytest.fixture(scope="package")
def address():
    """Of a studio that runs in a process of its own, with its token."""
    command = [sys.executable, "-m", "mercer.app.cli", "studio", "--no-browser", "--port", "0"]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, env=os.environ | {"PYTHONUNBUFFERED": "1"}
    )
    try:
        found = re.search(r"http://127\.0\.0\.1:\d+/\?token=\S+", process.stdout.readline())
        assert found is not None
        yield found[0]
    finally:
        process.terminate()
        assert process.wait(30) in (0, -15)
        process.stdout.close()


@pytest.fixture(scope="package")
def downloads(tmp_path_factory):
    """Where the browser saves files."""
    return str(tmp_path_factory.mktemp("downloads"))


@pytest.fixture(scope="package")
def browser(downloads):
    with opened(downloads) as driver:
        yield driver
