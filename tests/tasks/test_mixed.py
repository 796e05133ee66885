"""A mixed table with empty cells and outliers, in at most ten lines."""

import numpy as np
import pandas as pd
import pytest

from . import data, scripts

pytestmark = pytest.mark.slow

PYTHON = """
import pandas as pd
import mercer as mc

train, new = pd.read_csv("data.csv"), pd.read_csv("new.csv")
model = mc.GPRegressor(likelihood="mixture").fit(train.drop(columns="rent"), train["rent"])
print(model.summary(), model.importance(), model.outliers_)
mean = model.predict(new)
lower, upper = model.predict_interval(new, level=0.9)
model.save("rent.mercer")
"""

COMMANDS = """
mercer fit data.csv --target rent --robust mixture --out cli.mercer --plot fit.png
mercer predict cli.mercer new.csv --level 0.9 --out predicted.csv
mercer info cli.mercer
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("mixed")
    train, new, _ = data.mixed()
    data.write(folder, train, new)
    return folder


def straight_line(train, new):
    """Predictions of least squares on the numbers and a column for each label; empty cells hold the mean."""
    both = pd.get_dummies(pd.concat([train, new]).drop(columns=["rent", "day"]))
    A = np.c_[both.fillna(both.mean()).to_numpy(float), np.ones(len(both))]
    return A[len(train) :] @ np.linalg.lstsq(A[: len(train)], train["rent"], rcond=None)[0]


def judge(mean, lower, upper):
    """Half the error of a straight line, and intervals of 90 % that are."""
    train, new, _ = data.mixed()
    rent = new["rent"].to_numpy()
    error = np.sqrt(np.mean((mean - rent) ** 2))
    assert error < 0.5 * np.sqrt(np.mean((straight_line(train, new) - rent) ** 2))
    assert error < 30.0  # the noise is 15
    assert 0.85 < np.mean((lower <= rent) & (rent <= upper)) < 0.98


def test_python(folder):
    names, said = scripts.python(folder, PYTHON)
    judge(names["mean"], names["lower"], names["upper"])
    wrong = data.mixed()[2]
    assert sorted(int(row) + 1 for row in names["model"].outliers_.rows[:4]) == wrong
    assert "quarter" in said and (folder / "rent.mercer").exists()
    assert names["model"].importance().names[0] == "area"


def test_command_line(folder):
    said, notes = scripts.commands(folder, COMMANDS)
    predicted = pd.read_csv(folder / "predicted.csv")
    judge(predicted["mean"], predicted["lower"], predicted["upper"])
    assert "quarter category of 4 levels" in said and "floor number, with empty cells" in said
    assert (folder / "fit.png").stat().st_size > 5000
    assert notes == []
