"""Consistency as data grow, and how many data a pilot fit asks for."""

import matplotlib.pyplot as plt
import numpy as np
import pytest

import mercer as mc
from mercer import kernels as k
from mercer import viz
from mercer.relatives import KernelRidge, LinearRegression, NadarayaWatson
from mercer.theory import consistency, data_needed, uniform_nodes

SIZES = [20, 80, 320]
RULE = uniform_nodes(100)
METHODS = {
    "GP": lambda n: KernelRidge(k.SE(0.2), noise_variance=0.01),
    "penalised": lambda n: KernelRidge(k.SE(0.2), noise_variance=0.1 * n**0.5),
    "kernel regression": lambda n: NadarayaWatson(0.3 * n**-0.4),
    "one bandwidth": lambda n: NadarayaWatson(0.2),
    "straight line": lambda n: LinearRegression(),
}


def wave(X):
    return np.sin(6 * X[:, 0])


def uniform(rng, n):
    return rng.random((n, 1))


@pytest.fixture(scope="module")
def found():
    return consistency(METHODS, wave, uniform, SIZES, RULE, noise=0.1, repeats=6)


def test_excess_risk_falls_where_the_method_is_consistent(found):
    """B.TH5: a GP, a penalty and a bandwidth that fall slowly enough; not a fixed bandwidth, nor a line."""
    slopes = found.slopes
    assert slopes["GP"] < -0.7 and slopes["kernel regression"] < -0.5 and slopes["penalised"] < -0.3
    for name in ("one bandwidth", "straight line"):
        assert slopes[name] > -0.1 and found.curves[name].error[-1] > 0.05, name
    assert "straight line: excess risk" in str(found) and str(found).count("not consistent") == 2
    error = found.curves["straight line"].error[-1]
    x, w = RULE[0][:, 0], np.sqrt(RULE[1])
    A = np.column_stack([np.ones_like(x), x])
    best = np.linalg.lstsq(w[:, None] * A, w * np.sin(6 * x), rcond=None)[0]
    assert error == pytest.approx(RULE[1] @ (A @ best - np.sin(6 * x)) ** 2, rel=0.03)  # the best line's


def test_the_gp_is_the_schedule_of_one_over_n():
    """The minimiser of lambda |f|^2 / 2 + the mean loss is the GP's mean with noise variance n lambda."""
    rng = np.random.default_rng(0)
    X, lam = rng.random((20, 1)), 0.01 / 20
    y = wave(X)
    f = METHODS["GP"](20).fit(X, y).function_

    def objective(g):
        return 0.5 * lam * g.norm**2 + np.mean((y - g(X)) ** 2) / 2

    way = METHODS["GP"](20).fit(X, np.cos(X[:, 0])).function_
    for other in (1.001 * f, 0.999 * f, f + 1e-3 * way, f + -1e-3 * way):
        assert objective(f) < objective(other)


def test_squared_loss_of_labels_finds_twice_the_probability_less_one():
    """B.P6, 6.5: from ever more labels -1 and 1, f tends to 2 p - 1."""

    def label(rng, X):
        p = 0.5 + 0.4 * wave(X)
        return np.where(rng.random(len(X)) < p, 1.0, -1.0) - (2 * p - 1)

    method = {"squared": lambda n: KernelRidge(k.SE(0.2), noise_variance=1.0)}
    found = consistency(method, lambda X: 0.8 * wave(X), uniform, SIZES, RULE, noise=label, repeats=6)
    assert found.slopes["squared"] < -0.5 and found.curves["squared"].error[-1] < 0.02


def test_noise_may_be_drawn():
    def skewed(rng, X):
        return rng.exponential(0.1, len(X)) - 0.1

    found = consistency({"GP": METHODS["GP"]}, wave, uniform, SIZES, RULE, noise=skewed, repeats=2)
    assert found.slopes["GP"] < -0.3
    with pytest.raises(ValueError, match="larger"):
        consistency(METHODS, wave, uniform, [20, 20], RULE)
    with pytest.raises(ValueError, match="repeats"):
        consistency(METHODS, wave, uniform, SIZES, RULE, repeats=1)


@pytest.fixture(scope="module")
def pilot():
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, (30, 1))
    return mc.GP(k.SE(0.5)).condition(X, np.sin(2 * X[:, 0]), noise_variance=0.04)


@pytest.fixture(scope="module")
def needed(pilot):
    return data_needed(pilot, target_std=0.08, most=200)


def test_how_many_data(pilot, needed):
    """The curve starts at the posterior's own std and is met by data of the kind it foresees."""
    assert needed.sizes[0] == 30 and needed.sizes[-1] == 230 and (np.diff(needed.std) < 0).all()
    assert needed.noise_std == pytest.approx(0.2) and not needed.extrapolated
    X = np.random.default_rng(1).uniform(-2, 2, (2000, 1))
    assert needed.std[0] == pytest.approx(np.sqrt(np.mean(pilot.std(X, latent=True) ** 2)), rel=0.35)
    more = np.concatenate([pilot.inputs.values, X[: needed.n - 30]])
    then = pilot.model.gp.condition(more, np.zeros(needed.n), noise_variance=0.04)
    assert np.sqrt(np.mean(then.std(X[-500:], latent=True) ** 2)) == pytest.approx(0.08, rel=0.15)
    assert f"about {needed.n} data, {needed.n - 30} more" in str(needed)


def test_beyond_the_simulation(pilot, needed):
    far = data_needed(pilot, target_std=0.01, most=200)
    assert far.extrapolated and far.n > 230 and "extrapolated from 230" in str(far)
    assert far.n == pytest.approx(230 * (far.std[-1] / 0.01) ** (-1 / far.slope), rel=0.05)
    assert data_needed(pilot, 10.0, most=20).n == 30 and data_needed(pilot, most=20).n is None
    assert data_needed(pilot, 1e-9, most=200).n is None  # farther than a power of n is believed
    for wrong in (dict(target_std=0.0), dict(most=1), dict(repeats=1)):
        with pytest.raises(ValueError):
            data_needed(pilot, **wrong)


def test_noise_that_is_not_gaussian_is_refused(pilot):
    model = mc.Model(pilot.model.gp, mc.likelihoods.Poisson())
    counts = model.condition(pilot.inputs.values, np.ones(30), inference="laplace")
    with pytest.raises(ValueError, match="not for Poisson"):
        data_needed(counts, 0.1)


def test_columns_of_few_values_keep_them():
    from mercer.theory.growing import _alike

    rng = np.random.default_rng(0)
    rows = np.column_stack([rng.normal(size=40), rng.integers(0, 2, 40)])
    X = _alike(rows, 4000, rng)
    assert set(X[:, 1]) == {0.0, 1.0} and len(np.unique(X[:, 0])) == 4000
    assert X[:, 0].std() == pytest.approx(rows[:, 0].std(), rel=0.05)
    assert X[:, 0].min() >= rows[:, 0].min() and X[:, 0].max() <= rows[:, 0].max()


def test_pictures(found, needed):
    ax = viz.learning_curves({**found.curves, "a bound": (np.array(SIZES), 1 / np.array(SIZES))})
    assert len(ax.get_legend().get_texts()) == 6 and ax.get_xscale() == ax.get_yscale() == "log"
    ax = viz.data_needed(needed)
    assert f"{needed.n} data" in [text.get_text() for text in ax.get_legend().get_texts()]
    np.testing.assert_array_equal(ax.lines[0].get_ydata(), needed.std)
    plt.close("all")
