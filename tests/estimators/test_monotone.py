"""Functions that only rise, fall or bend one way: virtual signs of derivatives. B.X9."""

import numpy as np
import pytest

import mercer as mc
from mercer import kernels as k
from mercer.inputs import InputError


def truth(x):
    return np.log1p(4.0 * x)


def sample(seed, n=12):
    rng = np.random.default_rng(seed)
    x = rng.uniform(0.0, 3.0, n)
    return x, truth(x) + 0.4 * rng.normal(size=n), np.linspace(x.min(), x.max(), 101)


def error(model, grid):
    return np.sqrt(np.mean((model.predict({"dose": grid}) - truth(grid)) ** 2))


@pytest.fixture(scope="module")
def rising():
    x, y, grid = sample(9)
    return mc.GPRegressor(monotone={"dose": +1}).fit({"dose": x}, y), grid


def test_it_never_falls_and_is_nearer_to_the_truth(rising):
    """The free fit of this sample follows its noise up and down."""
    x, y, grid = sample(9)
    free = mc.GPRegressor().fit({"dose": x}, y)
    model, _ = rising
    assert np.diff(free.predict({"dose": grid})).min() < 0 <= np.diff(model.predict({"dose": grid})).min()
    assert error(model, grid) < 0.7 * error(free, grid)
    assert "f rises in dose" in model.summary() and model.kernel_.formula().count("Matern") == 1


def test_it_is_a_regressor_like_any_other(rising, tmp_path):
    """Left-out rows, intervals, files: the signs are in the prior."""
    model, grid = rising
    _, y, _ = sample(9)
    assert model.loo().mean.shape == y.shape and model.noise_variance_ > 0
    lower, upper = model.predict_interval({"dose": grid})
    assert (lower < upper).all()
    mc.save(model, tmp_path / "m.mercer")
    again = mc.load(tmp_path / "m.mercer")
    for one in (again.predict({"dose": grid}), again.predict({"dose": grid}, return_std=True)[0]):
        np.testing.assert_allclose(one, model.predict({"dose": grid}), rtol=1e-6)


@pytest.mark.slow
def test_on_average_over_samples():
    errors = []
    for seed in range(10):
        x, y, grid = sample(seed)
        free, rising = mc.GPRegressor(), mc.GPRegressor(monotone={"dose": 1})
        errors.append([error(model.fit({"dose": x}, y), grid) for model in (free, rising)])
        assert np.diff(rising.predict({"dose": grid})).min() >= 0
    free, rising = np.mean(errors, 0)
    assert rising < 0.9 * free


@pytest.mark.slow
def test_rising_and_bent():
    x, y, grid = sample(1)
    model = mc.GPRegressor(monotone={"dose": 1}, convex={"dose": -1}).fit({"dose": x}, y)
    curve = model.predict({"dose": grid})
    assert np.diff(curve).min() >= 0 and np.diff(curve, 2).max() <= 1e-9


@pytest.mark.slow
def test_two_columns_and_falling():
    rng = np.random.default_rng(0)
    X = rng.uniform(0.0, 1.0, (30, 2))
    y = X[:, 1] - 2 * X[:, 0] ** 3 - np.sin(3 * X[:, 1]) * X[:, 0] + 0.3 * rng.normal(size=30)
    model = mc.GPRegressor(k.SE([1.0, 1.0]), monotone={0: -1}).fit(X, y)
    grid = np.linspace(0.03, 0.97, 25)
    a, b = np.meshgrid(grid, grid, indexing="ij")
    assert np.diff(model.predict(np.c_[a.ravel(), b.ravel()]).reshape(25, 25), axis=0).max() <= 0


def test_what_cannot_be_asked():
    x, y, _ = sample(0)
    for settings, says in [
        ({"monotone": {"dos": 1}}, "did you mean 'dose'"),
        ({"monotone": {"dose": 2}}, r"must be \+1 or -1"),
        ({"monotone": ["dose"]}, "the sign for each column"),
        ({"monotone": {"group": 1}}, "is not a number"),
        ({"monotone": {"dose": 1}, "likelihood": "student-t"}, "one Gaussian noise variance"),
    ]:
        with pytest.raises((InputError, ValueError), match=says):
            mc.GPRegressor(**settings).fit({"dose": x, "group": ["a", "b"] * 6}, y)
    with pytest.raises(InputError, match=r"have none: use a smoother kernel"):
        mc.GPRegressor(k.Matern(nu=0.5), monotone={0: 1}, learn=False).fit(x[:, None], y)
