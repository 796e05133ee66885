"""One browser and one fitted model of a mixed table for all tests of reports."""

import numpy as np
import pytest

import mercer
from tests import browser as real


@pytest.fixture(scope="session")
def browser():
    with real.opened() as driver:
        yield driver


@pytest.fixture(scope="module")
def table():
    """Numbers, one with empty cells, a category, dates; and a target that follows them."""
    rng = np.random.default_rng(0)
    n = 60
    age = rng.uniform(0.0, 90.0, n)
    age[rng.random(n) < 0.1] = np.nan
    town = rng.choice(np.array(["Ulm", "Bonn", "Köln"], dtype=object), n)
    sold = np.datetime64("2019-01-01") + rng.integers(0, 1000, n).astype("timedelta64[D]")
    X = {"rooms": rng.integers(2, 9, n).astype(float), "age": age, "town": town, "sold": sold}
    height = {"Ulm": 0.0, "Bonn": 20.0, "Köln": 50.0}
    y = 30.0 * X["rooms"] - 0.5 * np.nan_to_num(age, nan=70.0) + np.array([height[t] for t in town])
    return X, 100.0 + y + rng.normal(0.0, 8.0, n)


@pytest.fixture(scope="module")
def model(table):
    X, y = table
    return mercer.GPRegressor(max_evaluations=15).fit(X, y).name_target("price (k€)")
