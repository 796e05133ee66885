"""What a file says of an estimator around fitted models: the training data and their hash; of each model its
hyperparameters, its solver with the choices made, how its posterior is packed and how the fit went.

Loading never conditions: a posterior is packed with its sites and what its mean needs, and makes its factor
when it is first asked for more.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from typing import TYPE_CHECKING, Any

import numpy as np

from mercer import registry
from mercer.columns import Columns
from mercer.gp import Model, choose_solver, prepare
from mercer.inputs import Inputs, Targets
from mercer.learning import Fit, Status
from mercer.learning.climb import Evaluation
from mercer.persist import SerialiseError, to_json
from mercer.persist.tables import from_table, to_table
from mercer.posteriors.packing import Again
from mercer.posteriors.protocol import AbstractPosterior

if TYPE_CHECKING:
    from mercer.estimators.base import AbstractEstimator

__all__ = ["data_hash", "learned", "relearn"]


def learned(estimator: AbstractEstimator) -> dict[str, Any]:
    """What `relearn` takes back."""
    inputs, y = estimator._training
    X, problems = inputs.values, estimator._problems(inputs, y)
    return {
        "data": {
            "X": to_table(X),
            "y": y,
            "columns": estimator.columns_,
            "sha256": data_hash(X, y),
            "target": estimator.target_name_,
        },
        "targets": estimator._labels(),
        "fits": [_packed(found, *problem) for found, problem in zip(estimator._fits, problems, strict=True)],
    }


def relearn(estimator: AbstractEstimator, said: dict[str, Any]) -> None:
    """Set what `fit` would have set."""
    inputs, y, estimator.columns_ = _data(said["data"])
    estimator._restore(inputs, y, said["targets"])
    name = said["data"].get("target")  # older files do not say it
    if not isinstance(name, str | None):
        raise ValueError("the name of the target is not text.")
    estimator.target_name_ = name
    problems = estimator._problems(inputs, y)
    pairs = zip(said["fits"], problems, strict=True)
    estimator._take([_unpacked(estimator, one, *problem) for one, problem in pairs])


# ------------------------------------------------------------------------------------------------- one model


def _packed(found: Fit, inputs: Inputs, y: np.ndarray) -> dict[str, Any]:
    posterior = found.posterior
    if (reason := posterior.why_not("save")) is not None:
        raise SerialiseError(reason)
    chosen = len(posterior.y) < len(y)  # by a solver that works on a part of the data
    course = {f.name: getattr(found, f.name) for f in dataclasses.fields(found)}
    del course["model"], course["posterior"], course["curvature"]
    columns = [f.name for f in dataclasses.fields(Evaluation)]
    return {
        "model": found.model,
        "solver": posterior.solver,
        "chosen": {"X": to_table(posterior.inputs.values), "y": posterior.y} if chosen else None,
        "posterior": type(posterior).__name__,
        "packed": posterior.packed(),
        "course": course
        | {
            "status": dataclasses.asdict(found.status),
            "history": {name: [getattr(e, name) for e in found.history] for name in columns},
        },
    }


def _unpacked(estimator: AbstractEstimator, said: dict[str, Any], inputs: Inputs, y: np.ndarray) -> Fit:
    model, asked = said["model"], estimator.solver
    if not isinstance(model, Model):
        raise TypeError("the model is not a Model")
    kind = registry.exported("posteriors", said["posterior"], AbstractPosterior)
    if kind is None:
        raise ValueError(f"there is no posterior {said['posterior']!r}")
    choose_solver(model, asked)  # refuses names that there are not
    solver = choose_solver(model, asked if said["solver"] is None else said["solver"])
    if said["chosen"] is not None:
        inputs, y = _columns(said["chosen"], inputs.names)
    again = Again(model.bind(inputs), *prepare(model, inputs, Targets(y)), solver)
    posterior = kind.unpacked(said["packed"], again)
    course = said["course"]
    history = [Evaluation(*row) for row in zip(*course["history"].values(), strict=True)]
    course = course | {"status": Status(**course["status"]), "history": history}
    return Fit(model=model if posterior.averages else posterior.model, posterior=posterior, **course)


# ------------------------------------------------------------------------------------------------- the data


def _data(said: dict[str, Any]) -> tuple[Inputs, np.ndarray, Columns | None]:
    columns = said["columns"]
    if not isinstance(columns, Columns | None):
        raise ValueError(f"the columns are not said, but {type(columns).__name__}.")
    inputs, y = _columns(said, None if columns is None else columns.encoded_names)
    d = inputs.values.shape[1]
    if columns is not None and len(columns.sharing) != d:
        raise ValueError(f"there are {d} columns of training data but {len(columns.sharing)} are said.")
    if said["sha256"] != data_hash(inputs.values, y):
        raise ValueError("the training data do not match their hash: the file is damaged or was changed.")
    return inputs, y, columns


def _columns(said: dict[str, Any], names: tuple[str, ...] | None) -> tuple[Inputs, np.ndarray]:
    """Inputs and targets from a file, checked."""
    X = from_table(said["X"])
    y = said["y"]
    arrays = isinstance(X, np.ndarray) and isinstance(y, np.ndarray)
    if (
        not arrays
        or y.dtype != np.float64
        or X.dtype not in (np.float64, object)
        or X.ndim != 2
        or y.shape != X.shape[:1]
        or not X.size
    ):
        raise ValueError("the training data are missing or have no sensible shape.")
    if names is not None and len(names) != X.shape[1]:
        raise ValueError(f"there are {X.shape[1]} columns of training data but the names {names}.")
    if not (np.isfinite(y).all() and (X.dtype == object or np.isfinite(X).all())):
        raise ValueError("the training data are not finite.")
    return Inputs(X, names), y


def data_hash(X: np.ndarray, y: np.ndarray) -> str:
    """SHA-256 of training data, as numbers."""
    objects = json.dumps(to_json(X.tolist(), where="X")).encode() if X.dtype == object else b""
    digest = hashlib.sha256(repr(X.shape).encode() + objects)
    for a in (y,) if objects else (X, y):
        digest.update(np.ascontiguousarray(a, dtype="<f8").tobytes())
    return digest.hexdigest()
