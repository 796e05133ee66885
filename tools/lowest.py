"""Can the lowest versions that pyproject.toml declares be installed together, and do they work?

    python tools/lowest.py                   # resolve them with pip; needs an index of packages
    python tools/lowest.py --install FOLDER  # also install them into a new environment there, and try them

A floor that cannot be installed together with the others, or that the package does not work with, is not a
floor: raise it in pyproject.toml.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
import tomllib
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TRIAL = """
import numpy as np, pathlib, tempfile
import mercer as mc
rng = np.random.default_rng(0)
X = rng.uniform(0, 5, (60, 2)); y = np.sin(X[:, 0]) + 0.1 * rng.normal(size=60)
with tempfile.TemporaryDirectory() as folder:
    for model, target in ((mc.GPRegressor(), y), (mc.GPClassifier(), y > 0)):
        path = pathlib.Path(folder) / "m.mercer"
        model.fit(X, target).save(path)
        assert np.array_equal(mc.load(path).predict(X), model.predict(X))
mc.GPRegressor(inference=mc.inference.MCMC(draws=20, tune=20, chains=2)).fit(X[:20], y[:20])
mc.viz.posterior(mc.GPRegressor().fit(X[:, :1], y)).figure.savefig(pathlib.Path(tempfile.gettempdir()) / "a.png")
mc.HMM(2).fit(X)
mc.GPTimeSeries().fit(y).forecast(3)
print("works")
"""


def floors(extra: str | None = None) -> list[str]:
    """ "name==lowest" of every dependency that is declared, and of those of an extra."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    declared = project["dependencies"] + (project["optional-dependencies"][extra] if extra else [])
    return [floor(one) for one in declared]


def floor(requirement: str) -> str:
    """ "jax==0.7" of "jax>=0.7,<0.13"."""
    found = re.match(r"^([A-Za-z0-9_.\-]+)(\[[a-z,]+\])?>=([0-9.]+)", requirement)
    if found is None:
        raise ValueError(f"{requirement!r} has no lower bound: every dependency declares one.")
    return f"{found[1]}{found[2] or ''}=={found[3]}"


def pip(python: str, *arguments: str) -> None:
    subprocess.run([python, "-m", "pip", "--disable-pip-version-check", *arguments], check=True)


def resolved(wanted: list[str]) -> list[str]:
    """All packages that pip would install for these, or its error."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        options = ["--dry-run", "--ignore-installed", "--quiet", "--only-binary", ":all:"]
        pip(sys.executable, "install", *options, "--report", str(report), *wanted)
        found = json.loads(report.read_text())["install"]
    return sorted(f"{one['metadata']['name']} {one['metadata']['version']}" for one in found)


def tried(folder: Path, wanted: list[str]) -> None:
    """Install them into a new environment, with the package itself, and run the trial."""
    venv.create(folder, with_pip=True)
    python = str(folder / "bin" / "python")
    pip(python, "install", "--quiet", "--only-binary", ":all:", *wanted)
    pip(python, "install", "--quiet", "--no-deps", str(ROOT))
    subprocess.run([python, "-W", "ignore", "-c", TRIAL], check=True, cwd=folder)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--extra", help="with the dependencies of this extra, for example parquet")
    parser.add_argument("--install", type=Path, metavar="FOLDER", help="install them there, and try them")
    asked = parser.parse_args()
    wanted = floors(asked.extra)
    print("\n".join(["the floors:", *wanted, "", "resolved:", *resolved(wanted)]))
    if asked.install is not None:
        tried(asked.install, wanted)


if __name__ == "__main__":
    main()
