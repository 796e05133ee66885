"""The environments of the peers: one virtual environment each under ``benchmarks/envs``,
never shared with Mercer's.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
ENVIRONMENTS = HERE / "envs"

REQUIREMENTS: dict[str, list[list[str]]] = {
    "sklearn": [["scikit-learn>=1.6,<2", "numpy>=2,<3", "scipy>=1.14,<2"]],
    "gpy": [["GPy>=1.13,<2", "numpy>=1.26,<3", "scipy>=1.11,<2"]],
    "gpytorch": [["torch==2.13.0"], ["gpytorch>=1.14,<2", "botorch>=0.14,<0.19"]],
    "tinygp": [["tinygp>=0.3,<0.4", "jax>=0.7,<0.13", "scipy>=1.14,<2"]],
    "celerite2": [["celerite2>=0.3,<0.4", "numpy>=1.26,<3"]],
    "numpyro": [["numpyro>=0.19,<0.23", "jax>=0.7,<0.13", "scipy>=1.14,<2"]],
    "gpflow": [
        ["tensorflow>=2.15,<2.16", "tensorflow-probability>=0.23,<0.24", "gpflow>=2.9,<2.12", "numpy<2"]
    ],
}
"""What pip installs for each peer, one call per inner list in order;
GPflow needs NumPy 1 and TensorFlow 2.15.
"""


def interpreter(name: str) -> Path:
    """The Python of a peer's environment."""
    folder = ENVIRONMENTS / name
    return folder / "Scripts" / "python.exe" if sys.platform == "win32" else folder / "bin" / "python"


def installed(name: str) -> bool:
    """Whether the peer's environment was created to the end."""
    return (ENVIRONMENTS / name / "ready").exists()


def create(name: str) -> None:
    """Create the environment of one peer; a finished one is left as it is (delete its folder to start
    again).
    """
    if installed(name):
        return
    subprocess.run([sys.executable, "-m", "venv", "--clear", str(ENVIRONMENTS / name)], check=True)
    for packages in REQUIREMENTS[name]:
        subprocess.run([str(interpreter(name)), "-m", "pip", "install", "--quiet", *packages], check=True)
    (ENVIRONMENTS / name / "ready").write_text(
        "\n".join(p for packages in REQUIREMENTS[name] for p in packages) + "\n"
    )
