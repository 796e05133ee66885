"""One thread per worker, no display, fixed seeds, short property tests,
and the folder with data that the package does not ship.
"""

import os

# before NumPy and JAX are imported: every worker of pytest-xdist gets one core
for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(variable, "1")
os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false")
os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ["MPLBACKEND"] = "Agg"
# what was compiled for other sources serves these too where they trace to the same: by JAX's own cache
os.environ.setdefault("MERCER_PROGRAMS", "0")

import random  # noqa: E402
from pathlib import Path  # noqa: E402

import numpy as np  # noqa: E402
import pytest  # noqa: E402
from hypothesis import HealthCheck, settings  # noqa: E402

settings.register_profile(
    "mercer", deadline=None, derandomize=True, max_examples=15, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("mercer")


def pytest_configure(config):
    """Compiling is most of what the tests cost: by default without optimisation, which takes a third of the
    time. The slow set and the experiments, with the long computations, are compiled as users have it.
    """
    level = "--xla_backend_optimization_level"
    if config.option.markexpr not in ("slow", "experiment") and level not in os.environ["XLA_FLAGS"]:
        os.environ["XLA_FLAGS"] += f" {level}=0"


@pytest.fixture(autouse=True)
def seeded():
    """Global generators start from the same state in every test;
    tests of ours take explicit seeds all the same.
    """
    random.seed(0)
    np.random.seed(0)  # noqa: NPY002


# memory maps of a process; the kernel's limit is 65,530, and every compiled function takes some
MAPS = 25_000


@pytest.fixture(autouse=True, scope="module")
def forget_compiled():
    """After a module, compiled functions are forgotten where there are so many that the process would soon
    have no maps left.
    """
    yield
    try:
        with open("/proc/self/maps") as file:
            many = sum(1 for _ in file) > MAPS
    except OSError:
        return
    if many:
        import jax

        jax.clear_caches()


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


# cases and tests of the conformance suites of likelihoods and rules that only compile more of the same
_SLOW_CASES = (
    "wrong labels",
    "exposure",
    "cauchy",
    "epsilon-insensitive",
    "ordinal",
    "custom",
    "mixture",
    "laplace-ep",
    "laplace-kl",
    "a kernel each",
    "negative",
    "binomial",
    "beta",
    "gamma",
    "log-logistic",
    "nothing is",
)
_SLOW_TESTS = (
    "test_jit_and_vmap",
    "test_gross_outliers",
    "test_a_vague_basis_is_the_limit",
    "test_warm_starts_and_the_same_bits",
)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    for item in items:
        case = item.callspec.id if hasattr(item, "callspec") else ""
        if (mark := item.get_closest_marker("representative")) and not any(
            name in case for name in mark.args
        ):
            item.add_marker(pytest.mark.slow)
        conformance = item.nodeid.startswith(
            (
                "tests/likelihoods/test_conformance",
                "tests/inference/test_conformance",
                "tests/inference/test_robust",
            )
        )
        if conformance and (any(name in case for name in _SLOW_CASES) or item.name.startswith(_SLOW_TESTS)):
            item.add_marker(pytest.mark.slow)
