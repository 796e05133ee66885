"""The page docs/series.md runs as it stands."""

import re
from pathlib import Path

import numpy as np
import pytest

PAGE = Path(__file__).resolve().parents[2] / "docs" / "series.md"


@pytest.mark.slow
@pytest.mark.skipif(not PAGE.exists(), reason="the page is only in a source checkout")
def test_every_block_runs():
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert len(blocks) >= 8
    names: dict = {}
    exec("\n".join(blocks), names)
    assert (np.abs(names["fit"].model.ar - [0.5, 0.3]) < 3 * names["fit"].standard_errors).all()
    assert np.abs(names["signal"].mean - np.sin(names["t"][:, 0] / 8)).mean() < 0.4
    assert np.abs(names["curve"] - np.sin(names["xs"]))[5:-5].max() < 0.3
    assert names["mean"][0] == pytest.approx(1.0, abs=0.2)
