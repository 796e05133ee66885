"""Long tables of several outputs: GPRegressor(output_column=...)."""

import numpy as np
import pandas as pd
import pytest

import mercer as mc
from mercer.inputs import InputError
from mercer.solvers import Outputs

N = 30
RNG = np.random.default_rng(3)
X = np.sort(RNG.uniform(0, 3, N))
Y = np.column_stack([np.sin(4 * X), 2.0 + 5.0 * np.sin(4 * X)]) + RNG.normal(size=(N, 2)) * [0.1, 0.4]
WIDE = pd.DataFrame(Y, columns=["zinc", "lead"])
LONG = pd.DataFrame(
    {"depth": np.tile(X, 2), "metal": np.repeat(["zinc", "lead"], N), "value": Y.T.ravel()}
).drop(index=range(8, 14))  # zinc was not measured there
GAPS = WIDE.copy()
GAPS.loc[8:13, "zinc"] = np.nan
AT = pd.DataFrame({"depth": [0.3, 1.2, 2.5], "metal": ["lead", "zinc", "lead"]})


def fitted(**settings):
    settings = {"outputs": "coregional", "learn": False, **settings}
    return mc.GPRegressor(output_column="metal", **settings).fit(LONG[["depth", "metal"]], LONG["value"])


@pytest.fixture(scope="module")
def model():
    return fitted()


@pytest.mark.parametrize("outputs", ["coregional", "independent"])
def test_it_is_the_wide_table(outputs, model):
    """Names from the column; predictions of the outputs that rows say, or of all."""
    model = model if outputs == "coregional" else fitted(outputs=outputs)
    wide = mc.GPRegressor(outputs=outputs, learn=False).fit(pd.DataFrame({"depth": X}), GAPS)
    assert model.outputs_ == ("zinc", "lead")
    assert model.log_marginal_likelihood_ == pytest.approx(wide.log_marginal_likelihood_, rel=1e-9)
    new = AT[["depth"]]
    which = (np.arange(3), [1, 0, 1])
    for mine, theirs in zip(model.predict(AT, return_std=True), wide.predict(new, True), strict=True):
        np.testing.assert_allclose(mine, theirs[which], rtol=1e-8)
    np.testing.assert_allclose(model.predict(new), wide.predict(new), rtol=1e-8)
    assert "lead" in model.summary()
    lower, upper = model.predict_interval(AT)
    assert lower.shape == upper.shape == (3,)
    y = np.array([2.0, 0.1, 3.0])
    table = pd.DataFrame({"zinc": [np.nan, 0.1, np.nan], "lead": [2.0, np.nan, 3.0]})
    np.testing.assert_allclose(model.log_density(AT, y), wide.log_density(new, table)[which], rtol=1e-8)


def test_arrays_replicates_and_files(tmp_path):
    """By position; a value measured twice is two rows; complete outputs are found to be so."""
    rows = np.column_stack([np.repeat([0.0, 1.0], N), np.tile(X, 2)])
    twice = np.concatenate([rows, rows[:1], rows[N : N + 1]])
    y = np.concatenate([Y.T.ravel(), Y[0] + 0.1])
    model = mc.GPRegressor(output_column=0, outputs="coregional", learn=False).fit(twice, y)
    member = model.estimators_[0].posterior_
    assert len(member.y) == 2 * N + 2 and isinstance(member.solver, Outputs)
    assert model.outputs_ == ("0", "1")
    assert model.predict(rows[[3, N]]).shape == (2,) and model.predict(X[:4, None]).shape == (4, 2)
    model.save(tmp_path / "m.mercer")
    again = mc.load(tmp_path / "m.mercer")
    np.testing.assert_allclose(again.predict(rows[[3, N]]), model.predict(rows[[3, N]]), rtol=1e-10)


def test_bad_tables(model):
    with pytest.raises(InputError, match=r"row 1: unknown output 'gold'.*zinc"):
        model.predict(AT.assign(metal=["lead", "gold", "zinc"]))
    with pytest.raises(InputError, match="row 2 does not say of which output"):
        model.predict(AT.assign(metal=["lead", "zinc", None]))
    empty = LONG.assign(value=LONG["value"].where(LONG["metal"] == "lead"))
    with pytest.raises(InputError, match="all cells of output 'zinc' are empty"):
        mc.GPRegressor(output_column="metal").fit(empty[["depth", "metal"]], empty["value"])
    with pytest.raises(InputError, match="X has no column 'ore'"):
        mc.GPRegressor(output_column="ore").fit(LONG[["depth"]], LONG["value"])
    with pytest.raises(InputError, match="is a name, and X has none"):
        mc.GPRegressor(output_column="ore").fit(X[:, None], X)
    with pytest.raises(ValueError, match="leave it out"):
        mc.GPRegressor(output_column="metal").fit(AT, Y[:3])
