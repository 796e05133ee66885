"""The pages of docs/ whose code runs as it stands."""

import re
from pathlib import Path

import numpy as np
import pytest

DOCS = Path(__file__).resolve().parents[1] / "docs"


def series(names):
    assert (np.abs(names["fit"].model.ar - [0.5, 0.3]) < 3 * names["fit"].standard_errors).all()
    assert np.abs(names["signal"].mean - np.sin(names["t"][:, 0] / 8)).mean() < 0.4
    assert np.abs(names["curve"] - np.sin(names["xs"]))[5:-5].max() < 0.3
    assert names["mean"][0] == pytest.approx(1.0, abs=0.2)


def robust(names):
    assert {10, 40, 41, 70} == set(names["best"].outliers_.rows) <= set(names["model"].outliers_.rows)


def large(names):
    low, high = names["post"].evidence_bounds()
    assert low <= high


@pytest.mark.slow
@pytest.mark.parametrize(
    ("page", "blocks", "check"), [("series", 8, series), ("robust", 2, robust), ("large", 2, large)]
)
def test_every_block_runs(page, blocks, check, tmp_path, monkeypatch):
    path = DOCS / f"{page}.md"
    if not path.exists():
        pytest.skip("the page is only in a source checkout")
    monkeypatch.chdir(tmp_path)
    found = re.findall(r"```python\n(.*?)```", path.read_text(), re.DOTALL)
    assert len(found) >= blocks
    names: dict = {}
    exec("\n".join(found), names)
    check(names)
