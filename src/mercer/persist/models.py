"""Saving a fitted estimator, and loading it. What belongs to the file each estimator says itself."""

from __future__ import annotations

import abc
import os
import platform
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from mercer import registry
from mercer.persist import file
from mercer.persist.file import ModelFileError
from mercer.persist.values import Functions, SerialiseError, from_json, to_json

__all__ = ["AbstractSavable", "load", "save"]

ROOMS = ("estimators", "control", "decide")  # whose classes have files of their own

# what a constructor or a solver may say of numbers that make no sense together, or too much of them
_REFUSED = (
    TypeError, ValueError, KeyError, AttributeError, ArithmeticError, IndexError, MemoryError, RecursionError,
)  # fmt: skip


class AbstractSavable(abc.ABC):
    """An estimator that files can hold: its settings (`get_params`), and what it has learned."""

    @abc.abstractmethod
    def _learned(self) -> dict[str, Any]:
        """Everything a file must say besides the settings: numbers, text, arrays, values of Mercer's, and
        lists and dicts of them.
        """

    @abc.abstractmethod
    def _relearn(self, learned: dict[str, Any]) -> None:
        """Set the learned attributes from what `_learned` gave. It may come from anyone: check it."""

    def save(self, path: str | os.PathLike, functions: Functions | None = None) -> None:
        """Write the fitted model to one file, to be read by `mercer.load`.

        functions: names for your own functions, by name.
        """
        save(self, path, functions)


def save(estimator: Any, path: str | os.PathLike, functions: Functions | None = None) -> None:
    """Write a fitted estimator to `path`: settings, learned model and (for Gaussian processes) training data.

    functions: your own functions (means, features) are saved by name only: the name given where they are
    used, or here, `functions={"u": u}`. Your own classes are saved by name too, as "package:Class".

    >>> save(model, "m.mercer")
    >>> model = load("m.mercer")
    """
    if not isinstance(estimator, AbstractSavable):
        names = sorted(cls.__name__ for room in ROOMS for cls in registry.classes(room, AbstractSavable))
        raise TypeError(f"save takes one of {names}, got {type(estimator).__name__}.")
    if isinstance(estimator, BaseEstimator):
        check_is_fitted(estimator)
    arrays: dict[str, np.ndarray] = {}
    said = described(estimator)
    manifest = {"class": said.pop("name"), "versions": _versions(), **to_json(said, arrays, functions)}
    file.write(Path(path), manifest, arrays)


def described(estimator: Any) -> dict[str, Any]:
    """What a file, or another process, must know of an estimator to make it again: `rebuilt`."""
    settings: dict[str, Any] = estimator.get_params(deep=False)
    settings.pop("parallel", None)  # who works is no part of a model
    return {"name": type(estimator).__name__, "settings": settings, "learned": estimator._learned()}


def rebuilt(said: dict[str, Any]) -> Any:
    """The estimator of which `described` told."""
    estimator = _estimator(said["name"])(**said["settings"])
    estimator._relearn(said["learned"])
    return estimator


def load(path: str | os.PathLike, functions: Functions | None = None, classes: Iterable[type] = ()) -> Any:
    """Read an estimator that `save` wrote. It predicts as before; the file may come from anyone: nothing in
    it is executed.

    functions: your own functions by the names they were saved under, for example {"u": u}. classes: your own
    kernels, likelihoods, means or solvers, for example [Mine]; not needed for those that an installed package
    registered as entry points of "mercer.classes". An error lists what is missing.

    >>> model.save("m.mercer")
    >>> load("m.mercer").predict(Xs)

    With a kernel of your own:

    >>> class Cauchy(kernels.AbstractStationary):
    ...     def profile(self, r2):
    ...         return 1.0 / (1.0 + r2)
    >>> GPRegressor(Cauchy(0.5)).fit(X, y).save("mine.mercer")
    >>> load("mine.mercer", classes=[Cauchy]).kernel_
    """
    path = Path(path)
    try:
        manifest, arrays = file.read(path)
        _estimator(manifest["class"])  # there is one
        parts = {key: manifest[key] for key in ("settings", "learned")}
        try:
            read = from_json(parts, arrays, functions, classes)
            estimator = rebuilt({"name": manifest["class"], **read})
        except SerialiseError as error:
            raise ModelFileError(str(error)) from error
        except _REFUSED as error:
            raise ModelFileError(f"the model cannot be built: {error or type(error).__name__}") from error
        return estimator
    except ModelFileError as error:
        raise ModelFileError(f"{path}: {error}") from error.__cause__


def _estimator(name: str) -> Any:
    for room in ROOMS:
        if (cls := registry.exported(room, name, AbstractSavable)) is not None:
            return cls
    raise ModelFileError(f"there is no estimator {name!r}.")


def _versions() -> dict[str, str]:
    from importlib.metadata import version

    libraries = ("mercer", "jax", "equinox", "numpy", "scipy", "scikit-learn")
    return {"python": platform.python_version()} | {name: version(name) for name in libraries}
