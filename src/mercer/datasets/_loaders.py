"""The loaders, and the table of files that `load` knows."""

from __future__ import annotations

import csv
import hashlib
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, eq=False, repr=False)
class Dataset:
    """Inputs X (n, d), targets y (n,) and what they mean.

    `columns` names the columns of X and `target` names y (a tuple of names when y has several columns). `units` maps a
    column or target name to its unit, where one is known. Text sets have X (n,) of strings; class labels may be text.
    """

    X: NDArray
    y: NDArray
    columns: tuple[str, ...]
    target: str | tuple[str, ...]
    units: Mapping[str, str]
    source: str
    description: str

    def __repr__(self) -> str:
        return f"Dataset(X={self.X.shape}, y={self.y.shape}, target={self.target!r}: {self.description})"


def load_co2() -> Dataset:
    """Monthly mean CO2 at Mauna Loa, March 1958 to December 2001, in ppm; shipped with the package.

    X is the middle of the month in decimal years. 521 months; the 5 without a measurement are left out. This is not
    the file of the book (545 months to 2003: `load("co2_gpml")`), but agrees with it to 0.1 ppm (standard deviation).
    """
    text = resources.files("mercer.datasets").joinpath("mauna_loa_co2_monthly.csv").read_text(encoding="utf-8")
    rows = list(csv.DictReader(line for line in text.splitlines() if not line.startswith("#")))
    year, month, co2 = (np.array([float(row[name]) for row in rows]) for name in ("year", "month", "co2"))
    return Dataset(
        X=(year + (month - 0.5) / 12)[:, None],
        y=co2,
        columns=("decimal_year",),
        target="co2",
        units={"decimal_year": "year", "co2": "ppm"},
        source="Keeling and Whorf (2004), by way of the public-domain weekly record in statsmodels; monthly means",
        description="monthly mean CO2 at Mauna Loa, 1958-2001",
    )


def ebden() -> Dataset:
    """The six points of Ebden's introduction to Gaussian process regression; observation noise has sd 0.3.

    The published prediction at x = 0.2 (mean 0.95, variance 0.21) subtracts the mean of y first and adds it back.
    """
    return Dataset(
        X=np.array([[-1.5], [-1.0], [-0.75], [-0.4], [-0.25], [0.0]]),
        y=np.array([-1.65, -1.10, -0.33, 0.22, 0.55, 0.88]),
        columns=("x",),
        target="y",
        units={},
        source=(
            "M. Ebden (2008), Gaussian Processes for Regression: A Quick Introduction. It prints X and plots y; "
            "these y are from a script attributed to the author and reproduce its figures"
        ),
        description="six points of a one-dimensional example",
    )


def load(name: str, part: str | None = None, *, split: int = 0, verify: bool = True) -> Dataset:
    """The data set called `name` (see `names`), read from the folder that the environment variable MERCER_DATA names.

    `part` is "train", "test" or "all", where the set is divided so; the default is "train" for sets that come with a
    fixed division and "all" for the others. Sets with several published divisions take their number as `split`.
    `verify=False` accepts a file whose checksum differs from the one this loader was written for.
    """
    if name in _SHIPPED:
        if part not in (None, "all"):
            raise ValueError(f"{name!r} has no part {part!r}; it has: all.")
        return _SHIPPED[name]()
    if name not in _TABLE:
        raise ValueError(f"There is no data set called {name!r}. Known: {', '.join(names())}.")
    entry = _TABLE[name]
    part = entry.parts[0] if part is None else part
    if part not in entry.parts:
        raise ValueError(f"{name!r} has no part {part!r}; it has: {', '.join(entry.parts)}.")
    if not 0 <= split < entry.splits:
        raise ValueError(f"{name!r} has {entry.splits} published division(s); split must be 0 to {entry.splits - 1}.")
    paths = [_find(name, entry, file, sha256 if verify else None) for file, sha256 in entry.files.items()]
    X, y = entry.read(entry, paths, part, split)
    return Dataset(X, y, entry.columns, entry.target, entry.units, entry.source, entry.description)


def names(available: bool = False) -> list[str]:
    """Names that `load` knows; with `available=True` only those whose files are in place now."""
    folder = os.environ.get("MERCER_DATA")
    here = Path(folder) if folder else None
    found = [n for n, e in _TABLE.items() if not available or (here and all((here / f).is_file() for f in e.files))]
    return sorted([*_SHIPPED, *found])


def _find(name: str, entry: _Entry, file: str, sha256: str | None) -> Path:
    targets = (entry.target,) if isinstance(entry.target, str) else entry.target
    layout = entry.layout or f"a CSV file with the columns {', '.join((*entry.columns, *targets))}"
    how = f"It holds {layout}. Source: {entry.source}."
    folder = os.environ.get("MERCER_DATA")
    if not folder:
        raise FileNotFoundError(
            f"load({name!r}) needs the file {file!r}, which mercer does not ship, and the environment variable "
            f"MERCER_DATA is not set. Set it to the folder that holds the file. {how}"
        )
    path = Path(folder) / file
    if not path.is_file():
        raise FileNotFoundError(
            f"load({name!r}) needs the file {file!r}, which mercer does not ship and which is not in the folder "
            f"MERCER_DATA={folder}. Put it there. {how}"
        )
    if sha256 and hashlib.sha256(path.read_bytes()).hexdigest() != sha256:
        raise ValueError(
            f"{path} is not the file load({name!r}) was written for: its SHA-256 is not {sha256}. "
            "Fetch it again, or pass verify=False to read it as it is."
        )
    return path


def _read_csv(entry: _Entry, paths: list[Path], part: str, split: int) -> tuple[NDArray, NDArray]:
    with paths[0].open(encoding="utf-8", newline="") as file:
        rows = [row for row in csv.DictReader(file) if entry.keep(row) and part in ("all", row.get("split"))]

    def column(name: str) -> NDArray:
        values = [entry.codes[name][row[name]] for row in rows] if name in entry.codes else [row[name] for row in rows]
        try:
            return np.array(values, dtype=np.float64)
        except ValueError:
            return np.array(values)

    X = column(entry.columns[0]) if entry.text else np.column_stack([column(c) for c in entry.columns])
    if isinstance(entry.target, str):
        y = column(entry.target)
        return X, y.astype(np.int64) if entry.integer_labels else y
    return X, np.column_stack([column(t) for t in entry.target])


def _read_divided(entry: _Entry, paths: list[Path], part: str, split: int) -> tuple[NDArray, NDArray]:
    """Arrays X_train, y_train, X_test, y_test ..."""
    with np.load(paths[0], allow_pickle=False) as z:
        y = z[f"y_{part}"]
        return z[f"X_{part}"].astype(np.float64), y.astype(np.int64 if y.dtype.kind in "iu" else np.float64)


def _read_masked(entry: _Entry, paths: list[Path], part: str, split: int) -> tuple[NDArray, NDArray]:
    """Arrays X, y and one packed test mask for each published division."""
    with np.load(paths[0], allow_pickle=False) as z:
        X, y = z["X"], z["y"]
        test = np.unpackbits(z["test_mask_packed"][split])[: len(y)].astype(bool)
    keep = {"all": slice(None), "train": ~test, "test": test}[part]
    return X[keep], y[keep]


def _read_sarcos(entry: _Entry, paths: list[Path], part: str, split: int) -> tuple[NDArray, NDArray]:
    """Training rows whose torque 1 is known and which are not official test rows; or the official test rows."""
    recovered, official = paths
    if part == "test":
        with np.load(official, allow_pickle=False) as z:
            return z["data"][:, :21], z["data"][:, 21]
    with np.load(recovered, allow_pickle=False) as z:
        clean = ~z["in_official_test"] & ~np.isnan(z["Y"][:, 0])
        return z["X"][clean], z["Y"][clean, 0]


@dataclass(frozen=True)
class _Entry:
    """One line of the table: which files (with SHA-256), what is in them, and how to read them."""

    files: Mapping[str, str]
    columns: tuple[str, ...]
    target: str | tuple[str, ...]
    source: str
    description: str
    read: Callable[[_Entry, list[Path], str, int], tuple[NDArray, NDArray]] = _read_csv
    parts: tuple[str, ...] = ("all",)
    splits: int = 1
    units: Mapping[str, str] = field(default_factory=dict)
    layout: str = ""
    keep: Callable[[Mapping[str, str]], bool] = lambda row: True
    codes: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    text: bool = False
    integer_labels: bool = False


def _numbered(stem: str, count: int) -> tuple[str, ...]:
    return tuple(f"{stem}{i}" for i in range(1, count + 1))


_DIVIDED = "an .npz file with the arrays X_train, y_train, X_test and y_test"
_MASKED = "an .npz file with the arrays X, y and test_mask_packed (a row of packed bits for each division)"
_UCI = "UCI Machine Learning Repository"
_R = "R's package datasets"
_NEAL = "R. M. Neal (1997), examples of Software for Flexible Bayesian Modeling"

_SHIPPED: dict[str, Callable[[], Dataset]] = {"co2": load_co2, "ebden": ebden}

_TABLE: dict[str, _Entry] = {
    "co2_gpml": _Entry(
        {"mauna_loa_co2_cdiac_1958_2004.csv": "0ebe4b717083e2ee0ecbd6c3a1f4ca693da868d1373953124e6a9859b23a7dbb"},
        ("decimal_date_gpml",),
        "co2_ppm",
        "Keeling and Whorf (2004), Carbon Dioxide Information Analysis Center, file maunaloa.co2",
        "the 545 monthly means of CO2 at Mauna Loa to the end of 2003 (GPML 5.4.3)",
        units={"decimal_date_gpml": "year", "co2_ppm": "ppm"},
        layout="a CSV file with the columns year, month, decimal_date_gpml = year + (month - 1)/12, and co2_ppm",
        keep=lambda row: int(row["year"]) <= 2003,
    ),
    "co2_noaa": _Entry(
        {"mauna_loa_co2_noaa_monthly.csv": "ec58887de4c276e53f0748baef9d5a3e08007dc62c7c4898a2c7f03e92c93fee"},
        ("decimal_date",),
        "average_ppm",
        "NOAA Global Monitoring Laboratory, monthly mean CO2 at Mauna Loa",
        "monthly mean CO2 at Mauna Loa from 1958 to 2026",
        units={"decimal_date": "year", "average_ppm": "ppm"},
    ),
    "sarcos": _Entry(
        {
            "sarcos_recovered.npz": "45e630859a851307f87db884c950246d3de866f778511af261d56819d896cdb5",
            "sarcos_inv_test.npz": "7fa395f59401d4e6151066a7415b333e224292996de18cec4bce0d2182b7d557",
        },
        (*_numbered("q", 7), *_numbered("qd", 7), *_numbered("qdd", 7)),
        "tau1",
        "S. Vijayakumar; distributed with Rasmussen and Williams' book at gaussianprocess.org/gpml/data",
        "inverse dynamics of the SARCOS arm, torque 1: 9,489 training rows not in the test set, and the test set",
        _read_sarcos,
        parts=("train", "test"),
        layout=(
            "rows of the original sarcos_inv and sarcos_inv_test as .npz: sarcos_recovered has X (n, 21), Y (n, 7) "
            "with NaN where unknown and the mask in_official_test; sarcos_inv_test has data (4449, 28)"
        ),
    ),
    "robot_arm": _Entry(
        {"robot_arm_6d_gpml.npz": "9307c40125561e50fade4f83d3a7d10f88b690ee8b2d040832c43d154227b045"},
        _numbered("x", 6),
        "y",
        "after D. MacKay's robot arm, with noisy copies (x3, x4) of the inputs and irrelevant ones (x5, x6)",
        "horizontal position of a two-joint arm, 2 of 6 inputs informative, noise sd 0.05",
        _read_divided,
        parts=("train", "test"),
        layout=_DIVIDED,
    ),
    "boston": _Entry(
        {"boston_housing.csv": "79ac716620024011b03c0c44d2bf99069b8173649181926d9109c25475a3804c"},
        ("CRIM", "ZN", "INDUS", "CHAS", "NOX", "RM", "AGE", "DIS", "RAD", "TAX", "PTRATIO", "B", "LSTAT"),
        "MEDV",
        f"Harrison and Rubinfeld (1978); {_UCI}, file housing.data",
        "median house values of 506 districts of Boston, capped at 50",
        units={"MEDV": "1000 $"},
    ),
    "boston_split": _Entry(
        {"boston_gpml_split.npz": "4043dcce8e80c8cfa965b1fdd693712f7892819ef62505f1200baa557f558bff"},
        ("CRIM", "ZN", "INDUS", "CHAS", "NOX", "RM", "AGE", "DIS", "RAD", "TAX", "PTRATIO", "B", "LSTAT"),
        "MEDV",
        f"Harrison and Rubinfeld (1978); {_UCI}, file housing.data",
        "the Boston housing data, standardised and divided into 455 and 51 rows",
        _read_divided,
        parts=("train", "test"),
        layout=_DIVIDED,
    ),
    "mcycle": _Entry(
        {"mcycle.csv": "fd0bf0038ec6adf64929f63576961bcdbb41db9e17e97f4be9d938b567f7de91"},
        ("times",),
        "accel",
        "Silverman (1985); data set mcycle of R's package MASS",
        "head acceleration in a simulated motorcycle accident",
        units={"times": "ms", "accel": "g"},
    ),
    "snelson": _Entry(
        {"snelson_1d.csv": "981e216b99506cc70b050494cd6b648d9330d154f3a18e4713a5e8555400fa07"},
        ("x",),
        "y",
        "E. Snelson's example for sparse pseudo-input Gaussian processes",
        "200 points of a one-dimensional function with noise",
    ),
    "kin40k": _Entry(
        {"kin40k_canonical_split.npz": "c0d32d4de289916d95723feab218ae5030b3ab8cea742f84abceef1cb6905a6d"},
        _numbered("x", 8),
        "y",
        "A. Schwaighofer and V. Tresp, data set kin40k in its usual division of 10,000 and 30,000 rows",
        "kinematics of an eight-link robot arm",
        _read_divided,
        parts=("train", "test"),
        layout=_DIVIDED,
    ),
    "kin8nm": _Entry(
        {"uci_kin8nm.npz": "528df58c1f79a77b517a34437cc0d639c9dd4ba871038074a2e1d40dcbd4bcf8"},
        _numbered("theta", 8),
        "y",
        "data set kin8nm of the DELVE archive, with 20 published divisions",
        "distance of the end of an eight-link robot arm from a target",
        _read_masked,
        parts=("all", "train", "test"),
        splits=20,
        layout=_MASKED,
    ),
    "protein": _Entry(
        {"uci_protein.npz": "41ef4a59bce96ef8ac9fc04a64a5a7dc3389cbdecff5f18576c0e2a80cac1c33"},
        _numbered("F", 9),
        "RMSD",
        f"{_UCI}, Physicochemical Properties of Protein Tertiary Structure, with 5 published divisions",
        "size of the residue of decoys in protein folding; 1,711 rows are duplicates and cross the divisions",
        _read_masked,
        parts=("all", "train", "test"),
        splits=5,
        units={"RMSD": "angstrom"},
        layout=_MASKED,
    ),
    "faithful": _Entry(
        {"old_faithful_272.csv": "35755e109446ec911891b1eae5cb33bc2f18367ce712145e4f9d27d19f575bad"},
        ("eruptions",),
        "waiting",
        f"data set faithful of {_R}",
        "duration of an eruption of Old Faithful and the wait for the next",
        units={"eruptions": "min", "waiting": "min"},
    ),
    "marathon": _Entry(
        {"olympic_marathon_men.csv": "8041cdf61e102eb14e680b5750ee3bd5b3346556a8410d45ec6f4bb0df65fe03"},
        ("year",),
        "pace_min_per_km",
        "winning times of the men's Olympic marathon",
        "pace of the winner of the men's Olympic marathon; 1904 is an outlier",
        units={"year": "year", "pace_min_per_km": "min/km"},
    ),
    "nile": _Entry(
        {"nile.csv": "6dedb0a328dcc0d1ddd9070e50d997e012df4796bc47bdcb75096294df1d03c6"},
        ("time",),
        "Nile",
        f"data set Nile of {_R}",
        "annual flow of the Nile at Aswan, 1871-1970",
        units={"time": "year", "Nile": "1e8 m^3"},
    ),
    "sunspots": _Entry(
        {"sunspots_monthly_1749.csv": "ee9a631faa12b3c1882a226e0280957fd7d85b8306a5a4a975b2bb6aab0f7fc8"},
        ("time",),
        "sunspot.month",
        f"data set sunspot.month of {_R}",
        "monthly mean relative sunspot numbers from 1749",
        units={"time": "year"},
    ),
    "airline": _Entry(
        {"airline_passengers.csv": "cd1449e7a1adddbccbe23ce5f83a37377f260a5bfaec8c06a71d57342e7ce355"},
        ("time",),
        "AirPassengers",
        f"Box and Jenkins; data set AirPassengers of {_R}",
        "monthly totals of international airline passengers, 1949-1960",
        units={"time": "year", "AirPassengers": "1000"},
    ),
    "meuse": _Entry(
        {"meuse.csv": "df84e3d49d96070131f5afe7e8fa075777020e71e29e2e8304d96da10d1ca12d"},
        ("x", "y", "elev", "dist"),
        ("cadmium", "copper", "lead", "zinc"),
        "data set meuse of R's package sp",
        "topsoil heavy metal concentrations at 155 sites in a flood plain of the Meuse",
        units={"x": "m", "y": "m", "elev": "m"} | dict.fromkeys(("cadmium", "copper", "lead", "zinc"), "mg/kg"),
    ),
    "neal_outliers": _Entry(
        {"neal1997_regression_outliers_odata.csv": "df4def98de1f29be087734cec32e1eef9a36826bed3833e1f8c466cf7b192ad7"},
        ("x",),
        "y",
        _NEAL,
        "one-dimensional regression with outliers",
    ),
    "neal_classes": _Entry(
        {"neal1997_3class_cdata.csv": "e08da8508d95b89b5c86990650055dc2495206198ef4e47f8854c473f7b38c8b"},
        _numbered("x", 4),
        "class",
        _NEAL,
        "three classes, four inputs",
        integer_labels=True,
    ),
    "ripley": _Entry(
        {"ripley_synth.csv": "79ec08185e7ab7d14b66f07fb85725cfa887fedf713ace31e9880e048aaa16a6"},
        ("xs", "ys"),
        "yc",
        "B. D. Ripley's synthetic data, synth.tr and synth.te of R's package MASS",
        "two overlapping classes in the plane, 250 and 1000 points",
        parts=("train", "test", "all"),
        integer_labels=True,
    ),
    "pima": _Entry(
        {"pima_indians_768.csv": "9a2dcc210fe94ecfd34fed6491882e0bf8fabd6f249cb96172fa1fa4d6e548d3"},
        ("pregnant", "glucose", "pressure", "triceps", "insulin", "mass", "pedigree", "age"),
        "diabetes",
        f"{_UCI}, Pima Indians Diabetes",
        "diabetes in 768 women; zeros in several columns stand for missing values",
    ),
    "pima_ripley": _Entry(
        {"pima_ripley.csv": "29110a4391dca1e2e36fe73f80bdf298d62d679b80ca89824e878f52eaa7110d"},
        ("npreg", "glu", "bp", "skin", "bmi", "ped", "age"),
        "type",
        "data sets Pima.tr and Pima.te of R's package MASS",
        "diabetes in 532 women without missing values, Ripley's division",
        parts=("train", "test", "all"),
    ),
    "sonar": _Entry(
        {"sonar.csv": "87e18926f42bb35b32308c80d1c7bde2030c6247d3f0acaac3d56a147f6da844"},
        _numbered("V", 60),
        "Class",
        f"{_UCI}, Connectionist Bench (Sonar, Mines vs. Rocks)",
        "sonar returns of mines (M) and rocks (R)",
    ),
    "ionosphere": _Entry(
        {"ionosphere.csv": "6a7d004f3a54294154faee1fb6983c22d7aecc2b5b27945f93e4bad2b4b6e10b"},
        _numbered("V", 34),
        "Class",
        f"{_UCI}, Ionosphere",
        "good and bad radar returns; column V2 is constant",
    ),
    "breast_cancer": _Entry(
        {"breast_cancer_wisconsin.csv": "a05e3cf1c519523a56a9661923939206f430fda9f7321f05463556c9399cd142"},
        (
            *("Cl.thickness", "Cell.size", "Cell.shape", "Marg.adhesion", "Epith.c.size"),
            *("Bare.nuclei", "Bl.cromatin", "Normal.nucleoli", "Mitoses"),
        ),
        "Class",
        f"{_UCI}, Breast Cancer Wisconsin (Original)",
        "benign and malignant tumours, the 683 complete rows",
        keep=lambda row: row["Bare.nuclei"] not in ("", "NA"),
    ),
    "crabs": _Entry(
        {"crabs.csv": "c112a5e147591d8e04f32dbf3f3e2be2eb74860119c6f6b5e33191ef84ee16aa"},
        ("sp", "index", "FL", "RW", "CL", "CW", "BD"),
        "sex",
        "data set crabs of R's package MASS",
        "sex of 200 crabs from species (0 blue, 1 orange) and measurements",
        units=dict.fromkeys(("FL", "RW", "CL", "CW", "BD"), "mm"),
        codes={"sp": {"B": 0.0, "O": 1.0}},
    ),
    "usps": _Entry(
        {"usps_resampled.npz": "16a17de5d0caa6fe08fcb38114a484f00f6a3e6d165bc960c43bcdb49be6a5a1"},
        _numbered("pixel", 256),
        "digit",
        "usps_resampled, distributed with Rasmussen and Williams' book at gaussianprocess.org/gpml/data",
        "handwritten digits of 16 x 16 pixels in [-1, 1], the book's division into 4649 and 4649",
        _read_divided,
        parts=("train", "test"),
        layout=_DIVIDED,
    ),
    "oil_flow": _Entry(
        {"oil_flow_3phase.npz": "797dfd0a36f91fe8cf87d8c816f8ee5fe9d1a7bf3c70dc09da502389c6323b1c"},
        _numbered("x", 12),
        "phase",
        "C. M. Bishop and G. D. James (1993), three-phase oil flow",
        "three flow regimes from twelve measurements, 1000 rows a part",
        _read_divided,
        parts=("train", "val", "test"),
        layout="an .npz file with the arrays X_train, y_train, X_val, y_val, X_test and y_test",
    ),
    "promoters": _Entry(
        {"promoter_gene_sequences.csv": "7481c8b145d160d7d1ee5824538bdd731a552504163080ecccab072e17fde432"},
        ("sequence",),
        "class",
        f"{_UCI}, Molecular Biology (Promoter Gene Sequences)",
        "106 strings of DNA, 57 letters each, promoters (+) or not (-)",
        text=True,
    ),
    "reuters": _Entry(
        {"reuters_40.csv": "97b993324f4cac1fdb9e89e07410451e76b30e4b841d283106c25b6e3ee0c547"},
        ("text",),
        "label",
        "a part of Reuters-21578",
        "40 short news texts of two classes",
        text=True,
    ),
}
