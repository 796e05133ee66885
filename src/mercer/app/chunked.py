"""`mercer fit` and `mercer predict` of several files, which need not fit into memory, here or on a Dask
cluster: the options, and what the two commands then do.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from mercer.app.console import found, next_step, note, say, warnings_as_notes, wrote
from mercer.app.paths import STANDARD

Tables = Annotated[
    list[Path],
    typer.Argument(
        help="Table of data, .csv, .tsv or .parquet, with the names of the columns in the first line; - "
        "reads it from standard input. Several files are gone through one after the other, and need not fit "
        "into memory."
    ),
]
Dask = Annotated[
    str | None,
    typer.Option(
        "--dask",
        metavar="ADDRESS",
        help="Work on a Dask cluster: tcp://host:8786, or local:2 for two processes of this machine.",
    ),
]


def asked(data: list[Path], dask: str | None) -> bool:
    """Whether tables are to be gone through in chunks."""
    if len(data) > 1 and STANDARD in data:
        raise ValueError("standard input goes with no other file: give one table, or files only.")
    return len(data) > 1 or dask is not None


@contextlib.contextmanager
def cluster(dask: str | None) -> Iterator[Any]:
    """The client of --dask, whose dashboard is said; None without it."""
    if dask is None:
        yield None
        return
    kind, _, rest = dask.partition(":")
    if not rest or (kind == "local" and not (rest.isdecimal() and int(rest) > 0)):
        raise ValueError(f"--dask takes an address such as tcp://host:8786, or local:2, not {dask!r}.")
    try:
        from dask.distributed import Client
    except ImportError:
        raise ImportError("--dask needs dask: pip install 'mercer[cluster]'") from None
    local = {"n_workers": int(rest), "threads_per_worker": 1, "dashboard_address": ":0"}
    with Client(**local) if kind == "local" else Client(dask, timeout=10) as client:
        note(f"dashboard: {client.dashboard_link}")
        yield client


def source(data: list[Path], target: str | None = None, features: str | None = None) -> Any:
    """The files as a source of chunks."""
    from mercer.inputs import files, parquet

    chosen = None if features is None else [name.strip() for name in features.split(",")]
    whole = all(path.suffix.lower() == ".parquet" for path in data)
    return (parquet if whole else files)(data, target, chosen)


def fit(
    data: list[Path],
    target: str,
    features: str | None,
    out: Path,
    dask: str | None,
    settings: dict[str, Any],
    classify: bool = False,
) -> None:
    """Fit a regressor, or a classifier, to files and save it; Ctrl-C cancels the tasks and saves the best so
    far.
    """
    from mercer import GPClassifier, GPRegressor
    from mercer.app import describe

    estimator: Any = GPRegressor
    if classify:
        of_numbers = {
            "noise_variance": "noise",
            "likelihood": "likelihood",
            "warp": "warp",
            "groups": "groups",
        }
        for name, option in of_numbers.items():
            if settings.pop(name) is not None:
                raise ValueError(f"--{option} is for numbers: leave it out with --classify.")
        estimator, settings = GPClassifier, settings | {"multi_class": "one-vs-rest"}
    with cluster(dask) as client, warnings_as_notes():
        model = estimator(parallel=client, **settings).fit(source(data, target, features), None)
    model.name_target(target).save(out)
    found(**describe.facts(model), target=target)
    say(model.summary())
    wrote("model", out, "saved in")
    next_step(f"mercer predict {out} NEW.parquet --out predicted/")


def predict(
    model: Path, new: list[Path], out: Path | None, level: float, latent: bool, dask: str | None
) -> None:
    """Predict files into a folder of Parquet files."""
    if out is None or out.suffix:
        raise ValueError("predictions of several files, or on a cluster, go to a folder: --out predicted/")
    from mercer import load, predict_files

    with cluster(dask) as client, warnings_as_notes():
        rows = predict_files(load(model), source(new), out, level=level, latent=latent, parallel=client)
    found(rows=rows, level=level)
    wrote("predictions", out, f"({rows} rows) written to")
