"""Points in, intensities and densities out: what must hold whatever the grid."""

import itertools
import warnings

import matplotlib.pyplot as plt
import numpy as np
import pytest

import mercer as mc
from mercer import viz
from mercer.estimators.points.cells import Cells
from mercer.inputs import InputError
from mercer.kernels import SE, Matern

HELD = {"kernel": Matern(0.5, 1.5, nu=2.5), "learn": False}


def rate(x):
    return 30.0 + 25.0 * np.sin(3.0 * x)


@pytest.fixture(scope="module")
def times():
    """Thinned from a homogeneous pattern, on 0 to 4."""
    rng = np.random.default_rng(3)
    x = 4 * np.sort(rng.random(rng.poisson(4 * 55.0)))
    return x[rng.random(len(x)) < rate(x) / 55.0]


@pytest.fixture(scope="module")
def intensity(times):
    return mc.GPIntensity(**HELD, region=(0, 4), cells=80).fit(times)


@pytest.fixture(scope="module")
def density(times):
    return mc.GPDensity(**HELD, region=(0, 4), cells=80).fit(times)


def test_the_intensity_is_found_with_bands_that_hold_it(intensity, times):
    x = np.linspace(0.05, 3.95, 79)
    lower, upper = intensity.predict_interval(x)
    assert np.mean((lower < rate(x)) & (upper > rate(x))) > 0.9
    flat = len(times) / 4
    assert np.mean((intensity.predict(x) - rate(x)) ** 2) < 0.25 * np.mean((flat - rate(x)) ** 2)
    assert "intensity of" in intensity.summary() and "converged" in intensity.summary()


def test_expected_counts_add_up_to_the_points(intensity, times):
    whole = intensity.expected_count()
    assert abs(whole.mean - len(times)) < 0.02 * len(times)
    assert whole.lower < len(times) < whole.upper and whole.std > 0.7 * np.sqrt(len(times))
    ends = [0.0, 0.33, 1.7, 4.0]
    parts = [intensity.expected_count(a, b).mean for a, b in itertools.pairwise(ends)]
    assert np.isclose(sum(parts), whole.mean, rtol=1e-9)


def test_refining_the_grid_changes_nothing_in_the_end(intensity, times):
    x = np.linspace(0.2, 3.8, 19)
    with pytest.warns(UserWarning, match="changes within the width of a cell"):
        coarse = mc.GPIntensity(**HELD, region=(0, 4), cells=12).fit(times)
    assert "note: the log intensity" in coarse.summary()
    fine = mc.GPIntensity(**HELD, region=(0, 4), cells=320).fit(times)
    first, second = (np.std(np.log(m.predict(x) / fine.predict(x))) for m in (coarse, intensity))
    assert second < 0.02 and second < 0.6 * first
    evidence = [m.log_marginal_likelihood_ for m in (coarse, intensity, fine)]
    assert abs(evidence[1] - evidence[2]) < 0.5


def test_a_density_is_normalised_and_the_intensity_up_to_its_level(density, intensity, times):
    x = (np.arange(800) + 0.5) / 200
    assert np.isclose(density.predict(x).mean() * 4, 1.0, atol=2e-3)
    assert np.isclose(density.probability(), 1.0) and 0 < density.probability(0.0, 1.0) < 1
    shape = intensity.predict(x) / intensity.expected_count().mean
    assert np.abs(density.predict(x) - shape).max() < 0.1 * shape.max()
    assert density.score_samples([[5.0]])[0] == -np.inf and density.predict([-1.0])[0] == 0
    assert density.sample(50, random_state=1).shape == (50, 1)
    assert np.isclose(density.score(times), np.log(density.predict(times)).mean())


def test_bands_of_a_density_are_those_of_its_draws(density):
    x = np.array([0.5, 1.5, 2.6])
    drawn = density.sample_density(x, 4000)
    lower, upper = density.predict_interval(x)
    ends = np.quantile(drawn, [0.025, 0.975], axis=1)
    assert np.allclose([lower, upper], ends, rtol=0.08)
    assert np.allclose(drawn.mean(1), density.predict(x), rtol=0.03)


def test_what_was_not_observed_is_no_absence(times):
    """With a hole the intensity in it is as about it, not zero; half the exposure doubles the intensity."""
    seen = times[np.abs(times - 0.6) > 0.3]
    hole = mc.GPIntensity(**HELD, region=(0, 4), cells=80).fit(
        seen, exposure=lambda X: np.abs(X[:, 0] - 0.6) > 0.3
    )
    blind = mc.GPIntensity(**HELD, region=(0, 4), cells=80).fit(seen)
    assert hole.predict([0.6])[0] > 5 * blind.predict([0.6])[0]
    half = mc.GPIntensity(**HELD, region=(0, 4), cells=80).fit(times, exposure=np.full(80, 0.5))
    whole = mc.GPIntensity(**HELD, region=(0, 4), cells=80).fit(times)
    assert np.allclose(half.predict([1.0, 2.0]), 2 * whole.predict([1.0, 2.0]), rtol=0.03)


def test_scores_rank_intensities(intensity, times):
    other = intensity.sample(random_state=5)
    assert other.shape[1] == 1 and other.min() > 0 and other.max() < 4
    held = mc.GPIntensity(SE(100.0, 1e-4), learn=False, region=(0, 4), cells=80).fit(times)
    assert intensity.score(other) > held.score(other)
    exact = np.mean(np.log(2.0 * intensity.predict(other))) - 2 * intensity.expected_count().mean / len(other)
    assert np.isclose(intensity.score(other, exposure=2.0), exact, rtol=1e-6)
    assert intensity.sample_intensity([1.0, 2.0], 7).shape == (2, 7)


def test_saved_and_loaded(density, tmp_path):
    density.save(tmp_path / "d.mercer")
    again = mc.load(tmp_path / "d.mercer")
    x = np.array([0.5, 2.0])
    assert np.allclose(again.predict(x), density.predict(x))
    assert np.allclose(again.predict_interval(x), density.predict_interval(x))
    assert np.array_equal(again.points_, density.points_)


def test_pictures(intensity, density):
    for model, word in ((intensity, "intensity"), (density, "density")):
        ax = viz.points(model)
        assert ax.get_ylabel() == word and ax.get_ylim()[0] == 0
        x, drawn = ax.lines[0].get_data()
        assert np.allclose(drawn, model.predict(x))
        plt.close(ax.figure)
    with pytest.raises(TypeError, match="draws a fitted GPIntensity"):
        viz.points(3)


def test_bad_input_is_named(times):
    model = mc.GPIntensity(**HELD, region=(0, 3), cells=20)
    with pytest.raises(InputError, match="outside the region, the first in row"):
        model.fit(times)
    with pytest.raises(InputError, match="region must be"):
        mc.GPIntensity(region=(3, 0)).fit(times)
    with pytest.raises(InputError, match="cells must be"):
        mc.GPIntensity(cells=(3, 3)).fit(times)
    with pytest.raises(InputError, match="does not vary"):
        mc.GPDensity().fit(np.ones(5))
    with pytest.raises(InputError, match="at least two points"):
        mc.GPDensity().fit([1.0])
    with pytest.raises(InputError, match="4 columns"):
        mc.GPDensity().fit(np.eye(4))
    with pytest.raises(InputError, match="where the exposure is 0"):
        mc.GPIntensity(region=(0, 4)).fit(times, exposure=lambda X: X[:, 0] > 2)
    with pytest.raises(InputError, match="one number for each row"):
        mc.GPIntensity(region=(0, 4)).fit(times, exposure=lambda X: X)
    with pytest.raises(InputError, match="not negative"):
        mc.GPIntensity(region=(0, 4), cells=4).fit(times, exposure=np.array([1.0, 1, 1, -1]))
    with pytest.raises(ValueError, match="one Gaussian"):
        mc.GPIntensity(inference="mcmc").fit(times)


def test_boxes_beyond_the_region_are_refused(intensity):
    with pytest.raises(InputError, match="reaches beyond the region, 0 to 4"):
        intensity.expected_count(3.0, 5.0)
    with pytest.raises(InputError, match="upper ends above"):
        intensity.expected_count(2.0, 1.0)
    with pytest.raises(InputError, match="outside the region"):
        intensity.score([9.0])


def test_cells_share_boxes_by_volume():
    cells = Cells(np.zeros(2), np.array([4.0, 2.0]), (4, 2), np.ones(8))
    assert np.isclose(cells.overlap([0.5, 0.25], [3.2, 1.5]).sum() * cells.size, 2.7 * 1.25)
    assert np.array_equal(cells.counts(np.array([[0.1, 0.1], [4.0, 2.0], [0.2, 1.9]])), [1, 1, *[0] * 5, 1])
    assert np.array_equal(cells.numbers(cells.centres), np.arange(8))


@pytest.mark.slow
def test_two_columns_by_name_and_learned():
    pandas = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    X = rng.random((900, 2))
    X = X[rng.random(900) < 0.15 + 0.85 * np.exp(-8 * ((X - 0.4) ** 2).sum(1))]
    frame = pandas.DataFrame(X, columns=["east", "north"])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = mc.GPIntensity(region=[(0, 1), (0, 1)], cells=16).fit(frame)
    near, far = model.predict(pandas.DataFrame({"north": [0.4, 0.95], "east": [0.4, 0.95]}))
    assert near > 2 * far
    box = model.expected_count([0, 0], [0.5, 0.5])
    inside = int((X < 0.5).all(1).sum())
    assert box.lower < inside < box.upper
    ax = viz.points(model)
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("east", "north")
    plt.close(ax.figure)
    assert model.log_marginal_likelihood_ > len(X) * np.log(len(X)) - len(X)  # that of one intensity for all
