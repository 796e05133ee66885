"""Groups with an offset or a function of their own: GPRegressor(groups=...)."""

import numpy as np
import pandas as pd
import pytest

import mercer as mc
from mercer.columns import Columns, ColumnWarning
from mercer.inputs import InputError

SCHOOLS, EACH = 40, 5


@pytest.fixture(scope="module")
def balanced():
    """One-way: y = 2 + u_g + e, 40 groups (more than a category tells apart) of 5 rows, numbered."""
    rng = np.random.default_rng(0)
    school = np.repeat(np.arange(SCHOOLS), EACH)
    y = 2.0 + rng.normal(size=SCHOOLS)[school] + 0.5 * rng.normal(size=school.size)
    table = pd.DataFrame({"school": school})
    return table, y, mc.GPRegressor(groups="school").fit(table, y)


def test_offsets_are_shrunk_means(balanced):
    """The best linear unbiased predictor: n s_u / (n s_u + s_e) of a group's mean deviation."""
    table, y, model = balanced
    found = model.group_effects()["school"]
    assert sorted(found.labels) == sorted(map(str, range(SCHOOLS))) and np.all(found.rows == EACH)
    means = pd.Series(y).groupby(table.school.astype(str)).mean().reindex(found.labels).to_numpy()
    u, e = found.variance, model.noise_variance_
    np.testing.assert_allclose(found.mean, EACH * u / (EACH * u + e) * (means - y.mean()), rtol=1e-6)
    np.testing.assert_allclose(found.std, np.sqrt(u * e / (EACH * u + e)), rtol=1e-6)
    assert str(found).splitlines()[0].split() == ["school", "offset", "std", "rows"]


def test_variances_and_effects_are_those_of_mixed_models(balanced):
    sm = pytest.importorskip("statsmodels.api")
    table, y, model = balanced
    theirs = sm.MixedLM(y, np.ones((len(y), 1)), groups=table.school).fit(reml=False)
    found = model.group_effects()["school"]
    values = {"kernel.variance": float(np.ravel(theirs.cov_re)[0]), "likelihood.noise_variance": theirs.scale}
    at_theirs = np.log([values[name] for name in model.theta_names_])
    assert model.log_marginal_likelihood(at_theirs) == pytest.approx(theirs.llf, abs=1e-3)
    assert found.variance == pytest.approx(values["kernel.variance"], rel=0.1)  # priors are weak
    assert model.noise_variance_ == pytest.approx(theirs.scale, rel=0.05)
    blups = [float(theirs.random_effects[int(label)].iloc[0]) for label in found.labels]
    np.testing.assert_allclose(found.mean, blups, atol=0.02)


def test_a_new_group_is_less_certain(balanced):
    _, y, model = balanced
    with pytest.warns(ColumnWarning, match="not seen in training"):
        mean, std = model.predict(pd.DataFrame({"school": [0, 99]}), return_std=True)
    u, e = model.group_effects()["school"].variance, model.noise_variance_
    assert mean[1] == pytest.approx(y.mean(), rel=1e-6) and std[1] == pytest.approx(np.sqrt(u + e), rel=1e-6)
    assert std[0] < 0.7 * std[1]


def test_saved(balanced, tmp_path):
    _, _, model = balanced
    model.save(tmp_path / "m.mercer")
    again = mc.load(tmp_path / "m.mercer")
    np.testing.assert_allclose(again.group_effects()["school"].mean, model.group_effects()["school"].mean)
    assert "category of 40 levels" in again.summary()


@pytest.mark.slow
def test_slopes_offsets_and_functions():
    """A common curve with offsets beside statsmodels'; a function of each group where groups have one."""
    sm = pytest.importorskip("statsmodels.api")
    rng = np.random.default_rng(1)
    n, labels = 160, np.array(["a", "b", "c", "d", "e", "f", "g", "h"])
    group, x = rng.integers(0, 8, n), rng.uniform(0, 4, n)
    u = rng.normal(size=8)
    table = pd.DataFrame({"x": x, "group": labels[group]})
    y = 0.8 * x + u[group] + 0.3 * rng.normal(size=n)
    model = mc.GPRegressor(groups="group").fit(table, y)
    theirs = sm.MixedLM(y, sm.add_constant(x), groups=table.group).fit()
    found = model.group_effects()["group"]
    blups = np.array([theirs.random_effects[label].iloc[0] for label in found.labels])
    np.testing.assert_allclose(found.mean - found.mean.mean(), blups - blups.mean(), atol=0.1)
    own = np.sin(x + 2.0 * group) + 0.1 * rng.normal(size=n)
    train, test = np.arange(n) < 110, np.arange(n) >= 110
    functions = mc.GPRegressor(groups={"group": "function"}).fit(table[train], own[train])
    offsets = mc.GPRegressor(groups={"group": "offset"}).fit(table[train], own[train])
    score = [m.log_density(table[test], own[test]).mean() for m in (functions, offsets)]
    assert score[0] > score[1] + 0.3
    assert len(functions.components(table[:3])) == 2
    both = mc.GPRegressor(groups={"group": "offset", 0: "offset"}, learn=False).fit(
        table.assign(x=rng.integers(0, 9, n)), y
    )
    assert set(both.group_effects()) == {"group", "x"}


def test_columns_of_groups():
    table = pd.DataFrame({"id": np.repeat(np.arange(50), 2), "x": np.arange(100.0)})
    learned = Columns.learn(table, groups=["id"])
    assert learned.columns[0].words() == "category of 50 levels" and learned.columns[1].words() == "number"
    assert Columns.learn(table, groups=[0]) == learned
    with pytest.raises(InputError, match="has a different value in every row: its rows form no groups"):
        Columns.learn(table, groups=["x"])
    with pytest.raises(InputError, match="unknown column 'ids': did you mean 'id'"):
        Columns.learn(table, groups=["ids"])


def test_what_cannot_be():
    table, y = pd.DataFrame({"g": [0, 0, 1, 1]}), np.arange(4.0)
    with pytest.raises(ValueError, match="groups adds to the default kernel"):
        mc.GPRegressor(mc.kernels.SE(), groups="g").fit(table, y)
    with pytest.raises(ValueError, match="unknown kind of groups 'slope'"):
        mc.GPRegressor(groups={"g": "slope"}).fit(table, y)
    with pytest.raises(ValueError, match="'g' is the only column"):
        mc.GPRegressor(groups={"g": "function"}).fit(table, y)
    with pytest.raises(ValueError, match="there are no offsets of groups"):
        mc.GPRegressor(learn=False).fit(table, y).group_effects()
