"""60,000 rows, in at most ten lines."""

import numpy as np
import pandas as pd
import pytest

from . import data, scripts

pytestmark = pytest.mark.slow

PYTHON = """
import pandas as pd
import mercer as mc

train, new = pd.read_csv("data.csv"), pd.read_csv("new.csv")
model = mc.GPRegressor().fit(train.drop(columns="y"), train["y"])
print(model.summary(), model.importance())
mean, std = model.predict(new, return_std=True)
lower, upper = model.predict_interval(new)
mc.viz.effects(model)[0].figure.savefig("effects.png")
model.save("friedman.mercer")
"""

COMMANDS = """
mercer fit data.csv --target y --out cli.mercer --plot cli.png
mercer predict cli.mercer new.csv --out predicted.csv
mercer info cli.mercer
"""


def judge(y, mean, lower, upper):
    """Hardly any error beside the noise, whose standard deviation is 1; a straight line has 2.4."""
    assert np.sqrt(np.mean((mean - y) ** 2)) < 1.05
    assert 0.93 < np.mean((lower <= y) & (y <= upper)) < 0.97


def judge_importance(names):
    """x3 matters most though its length-scale is long; x5 does not matter."""
    assert names[0] == "x3" and names[-1] == "x5"


def test_python(tmp_path, capsys):
    train, new = data.friedman()
    data.write(tmp_path, train, new)
    names, said = scripts.python(tmp_path, PYTHON)
    judge(new["y"].to_numpy(), names["mean"], names["lower"], names["upper"])
    judge_importance(names["model"].importance().names)
    assert "solver='auto', as for more than 10,000 rows" in said
    assert "60,000" in capsys.readouterr().err  # what was chosen and why, while it runs
    assert (tmp_path / "effects.png").stat().st_size > 5000 and (tmp_path / "friedman.mercer").exists()


def test_command_line(tmp_path):
    """The same way, on fewer rows: the 60,000 are fitted above."""
    train, new = data.friedman(12_000)
    data.write(tmp_path, train, new)
    said, notes = scripts.commands(tmp_path, COMMANDS)
    predicted = pd.read_csv(tmp_path / "predicted.csv")
    judge(new["y"].to_numpy(), predicted["mean"], predicted["lower"], predicted["upper"])
    assert (tmp_path / "cli.png").stat().st_size > 5000 and "as for more than 10,000 rows" in said
    assert notes == []
