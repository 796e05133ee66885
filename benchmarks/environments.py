"""The environments of the peers: one virtual environment each under ``benchmarks/envs``,
never shared with Mercer's.
"""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
ENVIRONMENTS = HERE / "envs"


@dataclass(frozen=True)
class Peer:
    """What pip installs, one call per inner list in order, and the tasks in which the library takes part."""

    packages: tuple[list[str], ...]
    tasks: tuple[str, ...]


PEERS: dict[str, Peer] = {
    "sklearn": Peer(
        (["scikit-learn>=1.6,<2", "numpy>=2,<3", "scipy>=1.14,<2"],), ("fit", "laplace_fit", "digits")
    ),
    "gpy": Peer((["GPy>=1.13,<2", "numpy>=1.26,<3", "scipy>=1.11,<2"],), ("fit", "ep", "robust")),
    "gpytorch": Peer(
        (["torch==2.13.0"], ["gpytorch>=1.14,<2", "botorch>=0.14,<0.19"]),
        ("fit", "sgpr", "kiss", "svgp", "svgp_race", "cokriging"),
    ),
    "tinygp": Peer((["tinygp>=0.3,<0.4", "jax>=0.7,<0.13", "scipy>=1.14,<2"],), ("fit", "markov")),
    "celerite2": Peer((["celerite2>=0.3,<0.4", "numpy>=1.26,<3"],), ("markov",)),
    "numpyro": Peer(
        (["numpyro>=0.19,<0.23", "jax>=0.7,<0.13", "scipy>=1.14,<2"],), ("sampling", "hyperparameters")
    ),
    "pymc": Peer((["pymc>=5.28,<6", "numba"],), ("hyperparameters",)),
    "gpflow": Peer(  # needs NumPy 1 and TensorFlow 2.15
        (["tensorflow>=2.15,<2.16", "tensorflow-probability>=0.23,<0.24", "gpflow>=2.9,<2.12", "numpy<2"],),
        ("fit", "sgpr"),
    ),
}


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
    for packages in PEERS[name].packages:
        subprocess.run([str(interpreter(name)), "-m", "pip", "install", "--quiet", *packages], check=True)
    (ENVIRONMENTS / name / "ready").write_text(
        "\n".join(p for packages in PEERS[name].packages for p in packages) + "\n"
    )
