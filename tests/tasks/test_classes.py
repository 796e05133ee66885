"""Three classes that a straight line does not part, in at most ten lines."""

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression

import mercer as mc

from . import data, scripts

pytestmark = pytest.mark.slow

PYTHON = """
import pandas as pd
import mercer as mc

train, new = pd.read_csv("data.csv"), pd.read_csv("new.csv")
model = mc.GPClassifier().fit(train.drop(columns="kind"), train["kind"])
print(model.summary(), model.importance())
p = model.predict_proba(new)
doubtful = model.predict(new, reject=("threshold", 0.7))
mc.viz.confusion(model).figure.savefig("confusion.png")
model.save("plants.mercer")
"""

COMMANDS = """
mercer fit data.csv --target kind --out cli.mercer --plot cli.png
mercer predict cli.mercer new.csv --out predicted.csv
mercer info cli.mercer
"""

KINDS = ["alba", "rosa", "viridis"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("classes")
    data.write(folder, *data.classes())
    return folder


def judge(p):
    """Much better than logistic regression, and as sure as it is right."""
    train, new = data.classes()
    np.testing.assert_allclose(p.sum(1), 1.0)
    rival = LogisticRegression().fit(train.drop(columns="kind"), train["kind"])
    theirs = rival.predict_proba(new.drop(columns="kind"))
    assert mc.metrics.log_loss(new["kind"], p) < 0.7 * mc.metrics.log_loss(new["kind"], theirs)
    right = np.array(KINDS)[p.argmax(1)] == new["kind"]
    assert abs(np.mean(right) - np.mean(p.max(1))) < 0.07


def test_python(folder):
    names, said = scripts.python(folder, PYTHON)
    judge(names["p"])
    doubtful = pd.Series(names["doubtful"])
    assert 0 < doubtful.isna().sum() < 150
    sure = doubtful.notna().to_numpy()
    assert np.mean(doubtful[sure].to_numpy() == data.classes()[1]["kind"].to_numpy()[sure]) > 0.9
    assert set(names["model"].importance().names[:2]) == {"leaf", "stem"}
    assert "leaf" in said and (folder / "confusion.png").stat().st_size > 5000


def test_command_line(folder):
    said, notes = scripts.commands(folder, COMMANDS)
    predicted = pd.read_csv(folder / "predicted.csv")
    judge(predicted[[f"p_{kind}" for kind in KINDS]].to_numpy())
    assert (folder / "cli.png").stat().st_size > 5000 and "always guessing viridis" in said
    assert notes == []
