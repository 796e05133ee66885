"""Gridded data of xarray: a cell of a grid is a row, its coordinates are columns."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any, TypeVar

import numpy as np

from mercer.estimators import GPClassifier, GPRegressor
from mercer.interop.frames import predicted

__all__ = ["fit_grid", "predict_grid"]

Model = TypeVar("Model", GPRegressor, GPClassifier)


def fit_grid(model: Model, data: Any, target: str | None = None, features: Any = ()) -> Model:
    """Fit a model to the cells of a grid that have a value: y from the coordinates, and from `features`.

    data: a DataArray, or a Dataset with the variable `target`
    features: names of further variables of the Dataset, broadcast to the target's grid

    Empty cells (NaN) of the target are left out, and can be predicted.

    >>> model = interop.fit_grid(mercer.GPRegressor(), temperature)              # y(lat, lon)
    >>> interop.predict_grid(model, {"lat": np.linspace(40, 50, 21), "lon": [7.0, 8.0]})["mean"]
    """
    array = _variable(data, target)
    columns = _columns(array) | {name: _values(data[name], array) for name in features}
    y = np.asarray(array.values).ravel()
    seen = ~np.isnan(y) if y.dtype.kind == "f" else np.ones(y.size, bool)
    if not seen.any():
        raise ValueError("every cell of the grid is empty: there is nothing to learn from.")
    model.fit({name: column[seen] for name, column in columns.items()}, y[seen])
    return model


def predict_grid(model: Any, grid: Any, level: float = 0.95, latent: bool = False, features: Any = ()) -> Any:
    """Predictions on a grid, as a Dataset with its coordinates: mean, std, lower and upper; of a classifier
    class and p_LABEL.

    grid: a DataArray or a Dataset, whose cells are predicted, with values or not; or coordinates by name. Its
        dimensions are the columns that the model was fitted to, in any order
    features: names of variables of the Dataset that are columns too, such as a map of heights
    level, latent: as in `predict_columns`
    """
    import xarray as xr

    if isinstance(grid, Mapping) and not isinstance(grid, xr.Dataset):
        grid = xr.Dataset(coords={name: (name, np.asarray(axis)) for name, axis in grid.items()})
    axes: dict[Hashable, Any] = {name: grid.indexes[name] for name in grid.dims if name in grid.indexes}
    if missing := [name for name in grid.dims if name not in axes]:
        raise ValueError(
            f"the dimension {missing[0]!r} has no coordinates: assign them, .assign_coords(...)."
        )
    if not axes:
        raise ValueError("the grid has no dimensions.")
    like = xr.DataArray(np.zeros([len(axis) for axis in axes.values()]), axes, list(axes))
    columns = _columns(like) | {name: _values(grid[name], like) for name in features}
    found = predicted(model, columns, level, latent)
    shaped = {name: (like.dims, np.asarray(v).reshape(like.shape)) for name, v in found.items()}
    return xr.Dataset(shaped, coords=axes, attrs={"level": level})


def _variable(data: Any, target: str | None) -> Any:
    import xarray as xr

    if isinstance(data, xr.DataArray):
        return data
    if not isinstance(data, xr.Dataset):
        raise TypeError(f"a grid is a DataArray or a Dataset of xarray, not {type(data).__name__}.")
    if target is None or target not in data:
        raise ValueError(
            f"target= says which variable is predicted, of {', '.join(map(str, data.data_vars))}."
        )
    return data[target]


def _columns(array: Any) -> dict[str, np.ndarray]:
    """The coordinates of every cell, in the order of its values."""
    if missing := [name for name in array.dims if name not in array.indexes]:
        raise ValueError(
            f"the dimension {missing[0]!r} has no coordinates: assign them, .assign_coords(...)."
        )
    axes = [np.asarray(array.indexes[name]) for name in array.dims]
    places = np.meshgrid(*axes, indexing="ij")
    return {str(name): place.ravel() for name, place in zip(array.dims, places, strict=True)}


def _values(variable: Any, like: Any) -> np.ndarray:
    """A variable at every cell of the grid of another."""
    return np.asarray(variable.broadcast_like(like).transpose(*like.dims).values).ravel()
