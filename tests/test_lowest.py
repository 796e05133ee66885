"""Every dependency declares a lowest version, which `tools/lowest.py` installs together with the others."""

import importlib.util
from pathlib import Path

import pytest

TOOL = Path(__file__).parents[1] / "tools" / "lowest.py"
spec = importlib.util.spec_from_file_location("lowest", TOOL)
assert spec is not None and spec.loader is not None
lowest = importlib.util.module_from_spec(spec)
spec.loader.exec_module(lowest)


@pytest.mark.parametrize("extra", [None, "parquet", "test", "docs"])
def test_every_dependency_has_a_floor(extra):
    found = lowest.floors(extra)
    assert all(one.count("==") == 1 for one in found) and any(one.startswith("jax==") for one in found)


def test_a_floor_is_the_lowest_version_declared():
    assert lowest.floor("jax>=0.7.2,<0.13") == "jax==0.7.2"
    assert lowest.floor("dask[distributed]>=2025.1") == "dask[distributed]==2025.1"
    with pytest.raises(ValueError, match="'numpy' has no lower bound"):
        lowest.floor("numpy")
