"""Grids of xarray in and out, and tables as they came in: the numbers are those of the plain table."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import mercer as mc
from mercer import interop

xr = pytest.importorskip("xarray", reason="needs xarray: pip install xarray")
pytestmark = pytest.mark.filterwarnings("ignore::mercer.learning.unconverged.UnconvergedWarning")

LAT, LON = np.linspace(0, 1, 5), np.linspace(2, 3, 4)


@pytest.fixture(scope="module")
def warm():
    values = np.sin(4 * LAT)[:, None] + LON[None, :] ** 2
    values[1, 2] = values[4, 0] = np.nan
    array = xr.DataArray(values, {"lat": LAT, "lon": LON}, ["lat", "lon"], name="temperature")
    height = xr.DataArray(LON, {"lon": LON}, ["lon"])
    return xr.Dataset({"temperature": array, "height": height})


@pytest.fixture(scope="module")
def model(warm):
    return interop.fit_grid(mc.GPRegressor(max_evaluations=5, progress=False), warm["temperature"])


def test_grids_are_tables_of_cells(warm, model):
    plain = warm["temperature"].to_dataframe().reset_index().dropna()
    again = mc.GPRegressor(max_evaluations=5, progress=False).fit(plain[["lat", "lon"]], plain["temperature"])
    grid = interop.predict_grid(model, warm["temperature"], level=0.8)
    assert dict(grid.sizes) == {"lat": 5, "lon": 4} and list(grid) == ["mean", "std", "lower", "upper"]
    cells = pd.DataFrame({"lat": [LAT[1], LAT[2]], "lon": [LON[2], LON[3]]})
    expected = again.predict_columns(cells, 0.8)
    for name in grid:
        found = [float(grid[name].sel(lat=a, lon=o)) for a, o in cells.to_numpy()]
        np.testing.assert_allclose(found, expected[name], rtol=1e-9)


def test_other_coordinates_in_any_order(model):
    grid = interop.predict_grid(model, {"lon": [2.5, 2.6, 2.7], "lat": [0.1, 0.2]})
    assert grid["mean"].dims == ("lon", "lat") and grid["mean"].shape == (3, 2)
    assert grid["lon"].values.tolist() == [2.5, 2.6, 2.7]
    one = model.predict({"lat": [0.2], "lon": [2.7]})
    np.testing.assert_allclose(float(grid["mean"].sel(lon=2.7, lat=0.2)), one[0], rtol=1e-9)


def test_variables_as_columns_and_dates(warm):
    by_height = interop.fit_grid(
        mc.GPRegressor(max_evaluations=3, progress=False), warm, "temperature", features=["height"]
    )
    assert list(by_height.feature_names_in_) == ["lat", "lon", "height"]
    grid = interop.predict_grid(by_height, warm, features=["height"])
    assert grid["mean"].shape == (5, 4)
    days = np.datetime64("2024-01-01") + np.arange(9)
    series = xr.DataArray(np.arange(9.0), {"day": days}, ["day"])
    daily = interop.fit_grid(mc.GPRegressor(max_evaluations=3, progress=False), series)
    assert interop.predict_grid(daily, series.isel(day=slice(0, 3)))["std"].shape == (3,)


def test_what_is_wrong_is_said(warm, model):
    with pytest.raises(ValueError, match="has no coordinates"):
        interop.predict_grid(model, xr.DataArray(np.zeros((2, 2)), dims=["lat", "lon"]))
    with pytest.raises(ValueError, match="target= says which variable"):
        interop.fit_grid(mc.GPRegressor(), warm)
    with pytest.raises(TypeError, match="a DataArray or a Dataset"):
        interop.fit_grid(mc.GPRegressor(), np.zeros((2, 2)))
    with pytest.raises(ValueError, match="every cell"):
        interop.fit_grid(mc.GPRegressor(), warm["temperature"] * np.nan)


# -- tables as they came in ----------------------------------------------------------------------------------

CELLS = {"lat": [0.1, 0.2], "lon": [2.5, 2.6]}


@pytest.mark.parametrize("kind", [pd.DataFrame, pl.DataFrame, pa.table])
def test_tables_come_back_as_they_came(model, kind):
    expected = model.predict_columns(CELLS, 0.9)
    found = interop.predict_frame(model, kind(CELLS), level=0.9)
    assert type(found) is type(kind(CELLS))
    for name, column in expected.items():
        np.testing.assert_array_equal(np.asarray(found[name]), column)


def test_labels_of_rows_stay(model):
    frame = pd.DataFrame(CELLS, index=pd.Index(["a", "b"], name="place"))
    found = interop.predict_frame(model, frame)
    assert found.index.equals(frame.index) and list(found.columns) == ["mean", "std", "lower", "upper"]


def test_arrays_and_dicts_give_columns(model):
    assert sorted(interop.predict_frame(model, CELLS)) == ["lower", "mean", "std", "upper"]


def test_classes_and_several_outputs():
    x = np.linspace(-1, 1, 20)
    classes = mc.GPClassifier(max_evaluations=3, progress=False).fit({"x": x}, np.where(x > 0, "up", "down"))
    found = interop.predict_frame(classes, pl.DataFrame({"x": [0.9]}))
    assert found.columns == ["class", "p_down", "p_up"] and found["class"][0] == "up"
    both = mc.GPRegressor(max_evaluations=3, progress=False).fit({"x": x}, {"a": x, "b": -x})
    found = interop.predict_frame(both, pd.DataFrame({"x": [0.5]}))
    assert list(found.columns)[:3] == ["a_mean", "a_std", "a_lower"] and "b_upper" in found
    with pytest.raises(TypeError, match="GPRegressor and GPClassifier"):
        interop.predict_frame(mc.GaussianMixture(), {"x": [1.0]})


def test_what_scikit_learn_offers_for_transformers():
    """`set_output` is of transformers: GTM and GPLVM answer in frames of pandas and polars."""
    X = pd.DataFrame(np.random.default_rng(0).normal(size=(20, 3)), columns=list("abc"))
    gtm = mc.GTM(max_evaluations=3, progress=False, tol=0.0).set_output(transform="polars").fit(X)
    assert isinstance(gtm.transform(X), pl.DataFrame)
