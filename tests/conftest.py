"""One thread per worker, no display, fixed seeds, short property tests, and the folder with data that the package does not ship."""

# ruff: noqa: E402

import os

# before NumPy and JAX are imported: every worker of pytest-xdist gets one core
for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(variable, "1")
os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1")
os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ["MPLBACKEND"] = "Agg"

import random
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

settings.register_profile("mercer", deadline=None, derandomize=True, max_examples=15, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("mercer")


@pytest.fixture(autouse=True)
def seeded():
    """Global generators start from the same state in every test; tests of ours take explicit seeds all the same."""
    random.seed(0)
    np.random.seed(0)  # noqa: NPY002


@pytest.fixture
def rng():
    """A generator with a fixed seed."""
    return np.random.default_rng(20060101)


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """The folder named by MERCER_DATA; tests that need it are skipped without it."""
    folder = os.environ.get("MERCER_DATA")
    if not folder:
        pytest.skip("MERCER_DATA is not set: this test reads data that the package does not ship")
    path = Path(folder)
    if not path.is_dir():
        pytest.fail(f"MERCER_DATA names {folder}, which is not a folder")
    return path
