"""Designs: every greedy choice against the definition of its criterion, computed anew from whole matrices."""

import itertools

import numpy as np
import pytest

import mercer as mc
from mercer import kernels, likelihoods
from mercer.decide.designs import design

KERNEL, NOISE = kernels.SE(0.3), 0.05
X = np.random.default_rng(0).random((7, 1))
GRID = np.linspace(0.0, 1.0, 9)[:, None]


def log_det(rows, X=X):
    """Of the covariance of observations."""
    rows = list(rows)
    return np.linalg.slogdet(KERNEL(X[rows]) + NOISE * np.eye(len(rows)))[1] if rows else 0.0


def entropy(rows):
    return 0.5 * log_det(rows)


def mutual_information(rows):
    others = [i for i in range(len(X)) if i not in rows]
    return 0.5 * (log_det(rows) + log_det(others) - log_det(range(len(X))))


def integrated_variance(rows):
    """Less of it is better."""
    K = KERNEL(X[list(rows)]) + NOISE * np.eye(len(rows))
    cross = KERNEL(GRID, X[list(rows)])
    return -float(np.mean(np.diag(KERNEL(GRID) - cross @ np.linalg.solve(K, cross.T))))


@pytest.mark.parametrize(
    ("criterion", "value"),
    [
        ("entropy", entropy),
        ("mutual-information", mutual_information),
        ("integrated-variance", integrated_variance),
    ],
)
def test_each_choice_is_the_best_by_definition(criterion, value):
    """And all together come within 1 - 1/e of the best set of three: the bound of submodular functions."""
    over = GRID if criterion == "integrated-variance" else None
    found = design(X, 3, criterion, kernel=KERNEL, noise_variance=NOISE, over=over)
    chosen = list(found.rows)
    for k in range(3):
        options = [i for i in range(len(X)) if i not in chosen[:k]]
        assert chosen[k] == max(options, key=lambda i: value([*chosen[:k], i]))
    sets = [value(list(rows)) for rows in itertools.combinations(range(len(X)), 3)]
    nothing = (
        -1.0 if criterion == "integrated-variance" else 0.5 * 3 * np.log(NOISE) * (criterion == "entropy")
    )
    assert value(chosen) - nothing >= (1 - 1 / np.e) * (max(sets) - nothing)
    np.testing.assert_allclose(found.points, X[chosen])


def test_how_many_more_data_a_target_takes():
    """Observing what was chosen brings std to what was foretold: the values do not matter."""
    data, y = X[:2], np.sin(5 * X[:2, 0])
    post = mc.GP(KERNEL).condition(data, y, noise_variance=NOISE)
    found = design(GRID, posterior=post, target_std=0.25)
    assert found.std[-1] <= 0.25 < found.std[-2]
    more = np.concatenate([data, found.points])
    after = mc.GP(KERNEL).condition(more, np.zeros(len(more)), noise_variance=NOISE)
    assert np.sqrt(np.mean(after.variance(GRID, latent=True))) == pytest.approx(found.std[-1], rel=1e-6)
    with pytest.raises(ValueError, match="give more candidates, or repeats=True"):
        design(GRID, posterior=post, target_std=0.02)
    assert len(design(GRID, posterior=post, target_std=0.1, repeats=True).rows) > len(GRID)


def test_the_best_points_of_an_ornstein_uhlenbeck_process_are_regular():
    """Five of 41 places: nearly at the middles of five equal parts, and better than random ones (TH10)."""
    places, kernel = np.linspace(0.0, 1.0, 41)[:, None], kernels.Matern(1.0, nu=0.5)
    found = design(places, 5, kernel=kernel, noise_variance=1e-8)
    assert np.abs(np.sort(found.points[:, 0]) - np.linspace(0.1, 0.9, 5)).max() < 0.13
    rng = np.random.default_rng(0)

    def std(rows):
        K = kernel(places[rows]) + 1e-8 * np.eye(5)
        cross = kernel(places, places[rows])
        return np.sqrt(np.mean(1.0 - np.einsum("ij,ji->i", cross, np.linalg.solve(K, cross.T))))

    assert found.std[-1] < min(std(rng.choice(41, 5, replace=False)) for _ in range(30))


def test_labels_are_asked_for_where_they_tell():
    """Between the classes; not where f is known, nor twice at the same place."""
    x = np.array([[-2.0], [-1.0], [1.0], [2.0]])
    model = mc.Model(mc.GP(kernels.SE(1.0, variance=4.0)), likelihoods.Bernoulli())
    post = model.condition(x, np.array([0, 0, 1, 1]), inference="laplace")
    places = np.concatenate([x, [[-0.1], [0.0], [0.1], [6.0]]])
    found = design(places, 2, "label-information", posterior=post)
    assert 7 in found.rows and found.rows.min() >= 4
    assert 0 < found.gains.min() <= found.gains.max() < np.log(2)


def test_space_filling():
    """Rows of the space; a Latin hypercube has one point in each of n parts of every column."""
    space = {"x": (0.0, 2.0), "depth": range(1, 5), "kind": ["a", "b"]}
    rows = design(space, 8).points
    assert len(rows) == 8 and {row["kind"] for row in rows} == {"a", "b"}
    square = design({"x": (0.0, 1.0), "y": (0.0, 1.0)}, 10, "latin-hypercube", seed=3).points
    U = np.array([[row["x"], row["y"]] for row in square])
    assert np.array_equal(np.sort((10 * U).astype(int), axis=0), np.repeat(np.arange(10)[:, None], 2, 1))


def test_what_is_missing_is_named():
    with pytest.raises(ValueError, match="give a posterior, or a kernel"):
        design(X, 2)
    with pytest.raises(ValueError, match="did you mean 'entropy'"):
        design(X, 2, "entrpy", kernel=KERNEL)
    with pytest.raises(ValueError, match="size"):
        design(X, kernel=KERNEL)
    with pytest.raises(ValueError, match="from 1 to the 7 candidates"):
        design(X, 8, kernel=KERNEL)
    with pytest.raises(ValueError, match="chooses among candidates"):
        design({"x": (0.0, 1.0)}, 3, "entropy")
