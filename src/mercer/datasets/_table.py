"""The table of files that `load` knows."""

from __future__ import annotations

from mercer.datasets._files import _Entry, _read_divided, _read_masked, _read_sarcos, _read_threes_and_fives


def _numbered(stem: str, count: int) -> tuple[str, ...]:
    return tuple(f"{stem}{i}" for i in range(1, count + 1))


_DIVIDED = "an .npz file with the arrays X_train, y_train, X_test and y_test"
_MASKED = "an .npz file with the arrays X, y and test_mask_packed (a row of packed bits for each division)"
_UCI = "UCI Machine Learning Repository"
_R = "R's package datasets"
_NEAL = "R. M. Neal (1997), examples of Software for Flexible Bayesian Modeling"

_USPS_FILE = {"usps_resampled.npz": "16a17de5d0caa6fe08fcb38114a484f00f6a3e6d165bc960c43bcdb49be6a5a1"}
_USPS_SOURCE = (
    "usps_resampled, distributed with Rasmussen and Williams' book at gaussianprocess.org/gpml/data"
)

_ALIASES = {"wisconsin": "breast_cancer", "ripley_synth": "ripley", "neal_3class": "neal_classes"}

_TABLE: dict[str, _Entry] = {
    "co2_gpml": _Entry(
        {
            "mauna_loa_co2_cdiac_1958_2004.csv": "0ebe4b717083e2ee0ecbd6c3a1f4ca693da868d1373953124e6a9859b23a7dbb"
        },
        ("decimal_date_gpml",),
        "co2_ppm",
        "Keeling and Whorf (2004), Carbon Dioxide Information Analysis Center, file maunaloa.co2",
        "the 545 monthly means of CO2 at Mauna Loa to the end of 2003 (GPML 5.4.3)",
        units={"decimal_date_gpml": "year", "co2_ppm": "ppm"},
        layout="a CSV file with the columns year, month, decimal_date_gpml = year + (month - 1)/12, and co2_ppm",
        keep=lambda row: int(row["year"]) <= 2003,
    ),
    "co2_noaa": _Entry(
        {
            "mauna_loa_co2_noaa_monthly.csv": "ec58887de4c276e53f0748baef9d5a3e08007dc62c7c4898a2c7f03e92c93fee"
        },
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
        units={"x": "m", "y": "m", "elev": "m"}
        | dict.fromkeys(("cadmium", "copper", "lead", "zinc"), "mg/kg"),
    ),
    "neal_outliers": _Entry(
        {
            "neal1997_regression_outliers_odata.csv": "df4def98de1f29be087734cec32e1eef9a36826bed3833e1f8c466cf7b192ad7"
        },
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
        _USPS_FILE,
        _numbered("pixel", 256),
        "digit",
        _USPS_SOURCE,
        "handwritten digits of 16 x 16 pixels in [-1, 1], the book's division into 4649 and 4649",
        _read_divided,
        parts=("train", "test", "all"),
        layout=_DIVIDED,
    ),
    "usps_3v5": _Entry(
        _USPS_FILE,
        _numbered("pixel", 256),
        "digit",
        _USPS_SOURCE,
        "handwritten threes and fives, the book's division into 767 and 773",
        _read_threes_and_fives,
        parts=("train", "test", "all"),
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
