"""The pages docs/robust.md and docs/large.md run as they stand."""

import re
from pathlib import Path

import pytest

DOCS = Path(__file__).resolve().parents[1] / "docs"


@pytest.mark.slow
@pytest.mark.parametrize("page", ["robust.md", "large.md"])
def test_every_block_runs(page, tmp_path, monkeypatch):
    if not (DOCS / page).exists():
        pytest.skip("the page is only in a source checkout")
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", (DOCS / page).read_text(), re.DOTALL)
    names: dict = {}
    exec("\n".join(blocks), names)
    if page == "robust.md":
        assert {10, 40, 41, 70} == set(names["best"].outliers_.rows) <= set(names["model"].outliers_.rows)
    else:
        low, high = names["post"].evidence_bounds()
        assert low <= high
