"""B.DC1: the figures of the book that print no table behave as its text says."""

import numpy as np
import pytest

from experiments import book_figures
from mercer import kernels


def test_equivalent_kernels():
    """Figure 2.6: side lobes that noise takes away, a kernel cut off at the edge."""
    found = book_figures.equivalent_kernels()
    x, w = found[50, 0.1, 0.5]
    K = kernels.SE(book_figures.LENGTH)(x[:, None])
    by_hand = np.linalg.solve(
        K + 0.1 * np.eye(50), kernels.SE(book_figures.LENGTH)(x[:, None], [[0.5]])[:, 0]
    )
    np.testing.assert_allclose(w, by_hand, atol=1e-9)
    noisy, edge = found[50, 10.0, 0.5][1], found[50, 0.1, 0.05]
    assert w.min() < -0.05 * w.max() and noisy.min() > -0.02 * noisy.max() and noisy.max() < w.max()
    assert book_figures.width(x, noisy) > book_figures.width(x, w)
    assert abs(edge[0][edge[1].argmax()] - 0.05) < 0.06
    assert found[250, 0.1, 0.5][1].max() < w.max()  # the weight is shared by more data


def test_losses():
    """Figure 6.3: a hinge bounds the error; logistic and probit losses are smooth and never vanish."""
    at = book_figures.losses(np.array([-2.0, 0.0, 1.0, 3.0]))
    np.testing.assert_array_equal(at["hinge"], [3.0, 1.0, 0.0, 0.0])
    np.testing.assert_allclose([at["logistic"][1], at["probit"][1]], np.log(2.0))
    assert np.all(at["logistic"] > 0) and np.all(at["probit"] > 0) and at["probit"][0] > at["logistic"][0]
    np.testing.assert_array_equal(at["epsilon-insensitive"], [1.0, 0.0, 0.0, 2.0])


def test_no_likelihood_has_the_hinge():
    """B.P6, (6.39): with the largest constant the labels' probabilities sum to 1 at f = -1 and 1, and to less
    elsewhere.
    """
    f = np.linspace(-6, 6, 241)
    for C in (0.3, 2.0):
        mass = book_figures.hinge_mass(f, C)
        top = np.isclose(np.abs(f), 1.0)
        np.testing.assert_allclose(mass[top], 1.0, rtol=1e-12)
        assert np.all(mass[~top] < 1.0) and mass[120] == pytest.approx(1 / np.cosh(C))
        far = book_figures.hinge_mass(np.array([200.0]), C)
        assert far[0] == pytest.approx(1 / (1 + np.exp(-2 * C)))
    assert book_figures.hinge_mass(np.zeros(1), 2.0)[0] == pytest.approx(0.2658022288, abs=1e-10)


def test_slopes_are_data():
    """Figure 9.1: values and slopes are met, and slopes make predictions nowhere less certain."""
    plain, sloped, (x, y, slope) = book_figures.slopes()
    h = 1e-4
    np.testing.assert_allclose(sloped(x).mean, y, atol=1e-6)
    assert book_figures.spread(sloped(x)).max() < 1e-3
    np.testing.assert_allclose((sloped(x + h).mean - sloped(x - h).mean) / (2 * h), slope, atol=1e-5)
    grid = np.linspace(-5, 5, 41)
    more, less = (book_figures.spread(model(grid)) for model in (sloped, plain))
    assert np.all(more <= less + 1e-4) and more.mean() < 0.8 * less.mean()


@pytest.mark.slow
def test_spline_and_process():
    """Figure 6.1: beyond the data the spline goes on straight and ever less sure, the process returns."""
    spline, process, _ = book_figures.splines()
    far = np.array([[6.0], [8.0], [10.0]])
    line, std = spline.predict(far, return_std=True)
    assert line[2] - line[1] == pytest.approx(line[1] - line[0], rel=1e-6) and std[2] > 1.5 * std[0]
    assert abs(process.predict(far)[2]) < 0.1 * abs(line[2])
