"""Saving a fitted estimator to one file, and loading it.

The file is a zip of two uncompressed entries: `manifest.json` (settings, columns, model, hash of the training
data) and `arrays.safetensors` (training data, large hyperparameter arrays). Nothing in it is code: loading
builds Mercer's own classes from checked numbers, and conditions on the data again.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
import os
import platform
import warnings
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from mercer.estimators.averaged import pack as pack_average
from mercer.estimators.averaged import unpack as unpack_average
from mercer.estimators.classification.classifier import GPClassifier
from mercer.estimators.hidden.experts import GPMixture
from mercer.estimators.hidden.hmm import HMM
from mercer.estimators.hidden.mixture import GaussianMixture
from mercer.estimators.regression.regressor import GPRegressor
from mercer.estimators.series.forecaster import GPTimeSeries
from mercer.gp import Model
from mercer.inputs import Inputs
from mercer.learning import Fit, Status
from mercer.learning.climb import Evaluation
from mercer.serialise import SerialiseError, from_json, to_json
from mercer.solvers import Dense

SCHEMA = 1
MANIFEST, ARRAYS = "manifest.json", "arrays.safetensors"
MANIFEST_BYTES = 64 * 2**20
_CLASSES: dict[str, Any] = {
    "GPClassifier": GPClassifier,
    "GPRegressor": GPRegressor,
    "GPTimeSeries": GPTimeSeries,
}
# saved by what they `_learned`
_BY_EM: dict[str, Any] = {"GPMixture": GPMixture, "GaussianMixture": GaussianMixture, "HMM": HMM}


class ModelFileError(ValueError):
    """A file that is not a saved model, is damaged, or needs something that was not given."""


def save(estimator, path, functions: Mapping[str, Callable] | None = None) -> None:
    """Write a fitted estimator to `path`: settings, learned model and (for Gaussian processes) training data.

    Your own functions (means, features) are saved by name only: the name given where they are used, or here,
    `functions={"u": u}`.

    >>> save(model, "m.mercer")
    >>> model = load("m.mercer")
    """
    from safetensors.numpy import save as pack

    name = type(estimator).__name__
    if (_CLASSES | _BY_EM).get(name) is not type(estimator):
        raise TypeError(f"save takes one of {sorted(_CLASSES | _BY_EM)}, got {name}.")
    check_is_fitted(estimator)
    if name in _BY_EM:
        return _save_learned(estimator, Path(path), functions)
    inputs, y = estimator._training
    X, fits = inputs.values, estimator._fits
    for found in fits:
        if (reason := found.posterior.why_not("save")) is not None:
            raise SerialiseError(reason)
    arrays: dict[str, np.ndarray] = {"y": y} if X.dtype == object else {"X": X, "y": y}
    data = {"rows": X.shape[0], "columns": X.shape[1], "sha256": _hash(X, y)}
    if X.dtype == object:
        data["objects"] = to_json(X.tolist(), None, None, "X")
    settings = estimator.get_params(deep=False)
    if isinstance(settings.get("random_state"), np.random.RandomState):
        raise SerialiseError(
            "a RandomState cannot be saved: set_params(random_state=0), or another whole number, first."
        )
    manifest = {
        "format": "mercer",
        "schema": SCHEMA,
        "class": name,
        "versions": _versions(),
        "settings": {k: to_json(v, arrays, functions, f"settings.{k}") for k, v in settings.items()},
        "columns": None if inputs.names is None else list(inputs.names),
        "data": data,
        "log_evidence": estimator.log_marginal_likelihood_,
        "model": to_json(
            tuple(f.model for f in fits) if len(fits) > 1 else fits[0].model, arrays, functions, "model"
        ),
        "fit": _course(fits[0]) if len(fits) == 1 else {"each": [_course(f) for f in fits]},
    }
    chosen = [f.posterior.solver for f in fits]
    if not all(s is None or isinstance(s, Dense) for s in chosen):
        manifest["solvers"] = to_json(chosen, arrays, functions, "solvers")
    if (labels := estimator._labels()) is not None:
        manifest["labels"] = to_json(labels, None, None, "labels")
    averaged = {
        str(i): pack_average(f.posterior, arrays, f"average.{i}")
        for i, f in enumerate(fits)
        if f.posterior.averages
    }
    if averaged:
        manifest["averaged"] = averaged
    text = json.dumps(manifest, indent=1, allow_nan=False, ensure_ascii=False).encode()
    if len(text) > MANIFEST_BYTES:
        raise SerialiseError(
            f"the inputs are more than {MANIFEST_BYTES // 2**20} MB of text, too much for a saved model."
        )
    packed = pack({k: np.ascontiguousarray(a) for k, a in arrays.items()})
    _write(Path(path), {MANIFEST: text, ARRAYS: packed})


def load(path, functions: Mapping[str, Callable] | None = None):
    """Read an estimator that `save` wrote. It predicts as before; the file may come from anyone: nothing in
    it is executed.

    functions: your own functions by the names they were saved under, for example {"u": u}; an error lists the
    missing ones.
    """
    path = Path(path)
    try:
        texts = _read(path)
        manifest, arrays = _manifest(texts[MANIFEST]), _arrays(texts[ARRAYS])
        return (_rebuild_learned if manifest["class"] in _BY_EM else _rebuild)(manifest, arrays, functions)
    except ModelFileError as error:
        raise ModelFileError(f"{path}: {error}") from error.__cause__
    except SerialiseError as error:
        raise ModelFileError(f"{path}: {error}") from error


# ------------------------------------------------------------------------------------------------- from the
# file


def _read(path: Path) -> dict[str, bytes]:
    """The two entries. They are stored uncompressed, so that none can be larger than the file itself."""
    with open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        try:
            with zipfile.ZipFile(file) as archive:
                entries = archive.infolist()
                if sorted(e.filename for e in entries) != sorted((MANIFEST, ARRAYS)):
                    raise ModelFileError(
                        f"not a saved model: it should hold {MANIFEST} and {ARRAYS} and nothing else."
                    )
                for e in entries:
                    plain = e.compress_type == zipfile.ZIP_STORED and not e.flag_bits & 1
                    if not plain or not e.compress_size == e.file_size <= size:
                        raise ModelFileError(
                            f"{e.filename} is compressed, encrypted or of an impossible size: not a saved "
                            "model."
                        )
                    if e.filename == MANIFEST and e.file_size > MANIFEST_BYTES:
                        raise ModelFileError(f"{MANIFEST} is larger than {MANIFEST_BYTES // 2**20} MB.")
                return {e.filename: archive.read(e) for e in entries}
        except (
            zipfile.BadZipFile,
            EOFError,
            NotImplementedError,
            RuntimeError,
            OSError,
            UnicodeDecodeError,
        ) as error:
            raise ModelFileError(f"not a saved model, or damaged ({error}).") from error


def _manifest(text: bytes) -> dict:
    def refuse(constant):
        raise ValueError(f"{constant} is not JSON")

    def number(digits):
        value = float(digits)
        return value if math.isfinite(value) else refuse(digits)

    try:
        manifest = json.loads(text.decode("utf-8"), parse_constant=refuse, parse_float=number)
    except (ValueError, RecursionError) as error:
        raise ModelFileError(f"{MANIFEST} is not readable ({error}).") from error
    if not isinstance(manifest, dict) or manifest.get("format") != "mercer":
        raise ModelFileError(f"{MANIFEST} is not that of a saved model.")
    if manifest.get("schema") != SCHEMA:
        raise ModelFileError(
            f"written in schema {manifest.get('schema')!r}, but this version of mercer reads schema "
            f"{SCHEMA}: load it with the "
            f"version that wrote it ({manifest.get('versions')}), or fit and save again."
        )
    kinds: dict[str, Any] = {"class": str, "settings": dict}
    if manifest.get("class") in list(_BY_EM):
        kinds |= {"learned": dict}
    else:
        kinds |= dict.fromkeys(("data", "model", "fit"), dict)
        kinds |= {"columns": (list, type(None)), "log_evidence": (int, float, type(None))}
    for key, kind in kinds.items():
        if key not in manifest or not isinstance(manifest[key], kind):
            raise ModelFileError(f"{MANIFEST} has no valid {key!r}.")
    return manifest


def _arrays(packed: bytes) -> dict[str, np.ndarray]:
    from safetensors import SafetensorError
    from safetensors.numpy import load as unpack

    try:
        return unpack(packed)
    except (SafetensorError, ValueError, KeyError, TypeError) as error:
        raise ModelFileError(f"{ARRAYS} is damaged ({error}).") from error


def _rebuild(manifest: dict, arrays: dict[str, np.ndarray], functions):
    cls = _CLASSES.get(manifest["class"])
    if cls is None:
        raise ModelFileError(f"there is no estimator {manifest['class']!r}.")
    inputs, y = _training_data(manifest, arrays)
    one = "each" not in manifest["fit"]
    courses = [manifest["fit"]] if one else manifest["fit"]["each"]
    if not isinstance(courses, list) or not all(isinstance(c, dict) for c in courses):
        raise ModelFileError(f"{MANIFEST} has no valid 'fit'.")
    tree = {"settings": {"kind": "dict", "items": manifest["settings"]}, "model": manifest["model"]}
    tree |= {
        "solvers": manifest.get("solvers"),
        "labels": manifest.get("labels"),
        "fit": [{"kind": "dict", "items": c} for c in courses],
    }
    read = from_json({"kind": "dict", "items": tree}, arrays, functions)
    try:
        estimator = cls(**read["settings"])
        estimator._restore(inputs, y, read["labels"])
        models = (read["model"],) if one else read["model"]
        problems = estimator._problems(inputs, y)
        if not isinstance(models, tuple) or not all(isinstance(m, Model) for m in models):
            raise TypeError("the model is not a Model")
        chosen = read["solvers"] or [None] * len(models)
        fits = []
        for i, (model, problem, rest) in enumerate(zip(models, problems, read["fit"], strict=True)):
            average = manifest.get("averaged", {}).get(str(i))
            if average is None:
                posterior = model.condition(*problem, estimator._rule, chosen[i] or estimator.solver)
            else:
                posterior = unpack_average(
                    average,
                    arrays,
                    f"average.{i}",
                    model.bind(problem[0]),
                    problem[0],
                    problem[1],
                    estimator.solver,
                )
            history = [Evaluation(*row) for row in zip(*rest["history"].values(), strict=True)]
            rest |= {"status": Status(**rest["status"]), "history": history}
            fits.append(Fit(model=posterior.model if average is None else model, posterior=posterior, **rest))
        estimator._take(fits)
    except (TypeError, ValueError, KeyError, AttributeError, ArithmeticError, IndexError) as error:
        raise ModelFileError(f"the model cannot be built: {error}") from error
    _compare(manifest["log_evidence"], estimator.log_marginal_likelihood_)
    return estimator


def _rebuild_learned(manifest: dict, arrays: dict[str, np.ndarray], functions):
    tree = {key: {"kind": "dict", "items": manifest[key]} for key in ("settings", "learned")}
    read = from_json({"kind": "dict", "items": tree}, arrays, functions)
    try:
        estimator = _BY_EM[manifest["class"]](**read["settings"])
        estimator._relearn(read["learned"])
    except (TypeError, ValueError, KeyError, AttributeError, ArithmeticError, IndexError) as error:
        raise ModelFileError(f"the model cannot be built: {error}") from error
    return estimator


def _training_data(manifest: dict, arrays: dict[str, np.ndarray]) -> tuple[Inputs, np.ndarray]:
    y, names = arrays.get("y", np.zeros(0)), manifest["columns"]
    X = (
        _object_table(manifest["data"]["objects"])
        if "objects" in manifest["data"]
        else arrays.get("X", np.zeros(0))
    )
    if (
        y.dtype != np.float64
        or X.dtype not in (np.float64, object)
        or X.ndim != 2
        or y.shape != X.shape[:1]
        or not X.size
    ):
        raise ModelFileError("the training data are missing or have no sensible shape.")
    if names is not None and (len(names) != X.shape[1] or not all(isinstance(n, str) for n in names)):
        raise ModelFileError(f"there are {X.shape[1]} columns of training data but the names {names}.")
    if not (np.isfinite(y).all() and (X.dtype == object or np.isfinite(X).all())):
        raise ModelFileError("the training data are not finite.")
    if manifest["data"].get("sha256") != _hash(X, y):
        raise ModelFileError("the training data do not match their hash: the file is damaged or was changed.")
    return Inputs(X, None if names is None else tuple(names)), y


def _object_table(tree: Any) -> np.ndarray:
    rows = from_json(tree)
    if not isinstance(rows, list) or not all(isinstance(r, list) and len(r) == len(rows[0]) for r in rows):
        raise ModelFileError("the training data are not a table.")
    table = np.empty((len(rows), len(rows[0]) if rows else 0), dtype=object)
    for i, row in enumerate(rows):
        for j, entry in enumerate(row):
            table[i, j] = entry
    return table


def _compare(saved: float | None, now: float | None) -> None:
    if saved is None or now is None:
        return
    if not abs(saved - now) <= 1e-6 * max(1.0, abs(saved)):
        warnings.warn(
            f"the loaded model has a log evidence of {now:.6f} but it was {saved:.6f} when saved: the "
            "functions given differ from "
            "those it was fitted with, or the file was changed.", UserWarning, stacklevel=4,
        )  # fmt: skip


# ------------------------------------------------------------------------------------------------- to the
# file


def _save_learned(estimator: Any, path: Path, functions) -> None:
    """A model fitted by EM: settings, and what `_learned` says."""
    from safetensors.numpy import save as pack

    arrays: dict[str, np.ndarray] = {}
    settings = {
        k: list(v) if isinstance(v, range) else v for k, v in estimator.get_params(deep=False).items()
    }
    if isinstance(settings.get("random_state"), np.random.RandomState):
        raise SerialiseError(
            "a RandomState cannot be saved: set_params(random_state=0), or another whole number, first."
        )
    parts = {"settings": settings, "learned": estimator._learned()}
    written = {
        key: {k: to_json(v, arrays, functions, f"{key}.{k}") for k, v in part.items()}
        for key, part in parts.items()
    }
    manifest = {
        "format": "mercer",
        "schema": SCHEMA,
        "class": type(estimator).__name__,
        "versions": _versions(),
        **written,
    }
    text = json.dumps(manifest, indent=1, allow_nan=False, ensure_ascii=False).encode()
    _write(path, {MANIFEST: text, ARRAYS: pack({k: np.ascontiguousarray(a) for k, a in arrays.items()})})


def _course(found: Fit) -> dict[str, Any]:
    """How a fit went: everything but the model and its posterior."""
    rest = {
        f.name: getattr(found, f.name)
        for f in dataclasses.fields(found)
        if f.name not in ("model", "posterior")
    }
    history = {f.name: [getattr(e, f.name) for e in found.history] for f in dataclasses.fields(Evaluation)}
    rest |= {"status": dataclasses.asdict(found.status), "history": history}
    return {k: to_json(v, None, None, f"fit.{k}") for k, v in rest.items()}


def _hash(X: np.ndarray, y: np.ndarray) -> str:
    objects = json.dumps(to_json(X.tolist(), None, None, "X")).encode() if X.dtype == object else b""
    digest = hashlib.sha256(repr(X.shape).encode() + objects)
    for a in (y,) if objects else (X, y):
        digest.update(np.ascontiguousarray(a, dtype="<f8").tobytes())
    return digest.hexdigest()


def _versions() -> dict[str, str]:
    from importlib.metadata import version

    libraries = ("mercer", "jax", "equinox", "numpy", "scipy", "scikit-learn")
    return {"python": platform.python_version()} | {name: version(name) for name in libraries}


def _write(path: Path, entries: dict[str, bytes]) -> None:
    """Write beside the target and move into place, so that a file is never half written."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with zipfile.ZipFile(temporary, "w", zipfile.ZIP_STORED) as archive:
            for name, content in entries.items():
                archive.writestr(zipfile.ZipInfo(name), content)
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
