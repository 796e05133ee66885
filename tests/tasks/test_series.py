"""An irregular series with gaps, in at most ten lines."""

import numpy as np
import pandas as pd
import pytest

from . import data, scripts

pytestmark = pytest.mark.slow

PYTHON = """
import pandas as pd
import mercer as mc

series = pd.read_csv("data.csv", parse_dates=["day"]).set_index("day")["level"]
ts = mc.GPTimeSeries().fit(series)
print(ts.summary())
ahead = ts.forecast("60d")
filled, parts = ts.impute(), ts.components(gaps=True)
ts.plot("60d").figure.savefig("series.png")
ts.save("level.mercer")
"""

COMMANDS = """
mercer forecast data.csv --time day --target level --horizon 60d --out ahead.csv --save cli.mercer
mercer forecast cli.mercer --until 2024-08-17 --impute filled.csv --components parts.csv --anomalies odd.csv
mercer forecast cli.mercer --horizon 60d --plot cli.png
mercer predict cli.mercer new.csv --out predicted.csv
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("series")
    data.write(folder, *data.series())
    return folder


def judge(mean, lower, upper):
    """Half the error of the last value; intervals of 95 % that are, and not for being wide."""
    train, new = data.series()
    level = new["level"].to_numpy()
    assert len(mean) == len(level) == 60
    error = np.sqrt(np.mean((mean - level) ** 2))
    last = train.sort_values("day")["level"].iloc[-1]
    assert error < 0.5 * np.sqrt(np.mean((last - level) ** 2))
    assert np.mean((lower <= level) & (level <= upper)) > 0.85
    assert np.all(upper - lower < 8.0)


def judge_filled(days):
    """Every day without a value, those of the gap included."""
    train, _ = data.series()
    every = pd.date_range(train["day"].min(), train["day"].max())
    assert sorted(pd.to_datetime(days)) == sorted(set(every) - set(pd.to_datetime(train["day"])))


def test_python(folder):
    names, said = scripts.python(folder, PYTHON)
    ahead = names["ahead"]
    judge(ahead["mean"], ahead["lower"], ahead["upper"])
    judge_filled(names["filled"].index)
    assert "week" in said and (folder / "series.png").stat().st_size > 5000
    assert len(names["parts"]) == 900


def test_command_line(folder):
    said, notes = scripts.commands(folder, COMMANDS)
    ahead, filled, parts, predicted = (
        pd.read_csv(folder / f"{name}.csv") for name in ("ahead", "filled", "parts", "predicted")
    )
    judge(ahead["mean"], ahead["lower"], ahead["upper"])
    judge_filled(filled["day"])
    np.testing.assert_allclose(predicted["mean"], ahead["mean"])
    assert (folder / "odd.csv").exists() and (folder / "cli.png").stat().st_size > 5000
    assert notes == []
    assert {"trend", "year", "irregular"} <= set(parts) and "year" in said
