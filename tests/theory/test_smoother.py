"""GP regression as a linear smoother."""

import numpy as np
import pytest

import mercer as mc
from mercer import kernels as k
from mercer.theory import equivalent_kernel, shrinkage


def test_shrinkage_and_degrees_of_freedom():
    """A.R13: factors in [0, 1], their sum is the trace of the smoother; the mean is the shrunken data."""
    rng = np.random.default_rng(0)
    X, y = rng.uniform(-2, 2, (25, 1)), rng.standard_normal(25)
    post = mc.GP(k.SE(0.6)).condition(X, y, noise_variance=0.2)
    s = shrinkage(post)
    assert np.all((s.factors >= 0) & (s.factors <= 1)) and np.all(np.diff(s.eigenvalues) <= 1e-12)
    assert s.degrees_of_freedom == pytest.approx(post.degrees_of_freedom(), rel=1e-9)
    assert s.degrees_of_freedom == pytest.approx(np.trace(post.smoother(X)), rel=1e-9)
    vectors = np.linalg.eigh(mc.GP(k.SE(0.6)).kernel(X))[1][:, ::-1]
    np.testing.assert_allclose(vectors @ (s.factors * s.coefficients), post.mean(X), atol=1e-9)


def test_degrees_of_freedom_limits():
    rng = np.random.default_rng(0)
    X, y = rng.uniform(-2, 2, (15, 3)), rng.standard_normal(15)
    linear = mc.GP(k.Linear())
    assert linear.condition(X, y, noise_variance=1e-8).degrees_of_freedom() == pytest.approx(3.0, abs=1e-5)
    assert linear.condition(X, y, noise_variance=1e8).degrees_of_freedom() == pytest.approx(0.0, abs=1e-5)


def test_equivalent_kernel():
    """A.R14, figure 2.6: side lobes at low noise, fewer and wider at high noise, narrower with more data;
    rows almost sum to 1.
    """
    grid = np.linspace(0, 1, 201)[:, None]
    gp = mc.GP(k.SE(np.sqrt(0.004)))
    rows = {
        key: equivalent_kernel(gp, grid, *key)[100] for key in ((50, 0.1), (50, 10.0), (10, 0.1), (250, 0.1))
    }
    assert rows[50, 0.1].min() < -0.02 * rows[50, 0.1].max()
    assert rows[50, 10.0].max() < rows[50, 0.1].max()
    assert rows[50, 10.0].min() / rows[50, 10.0].max() > rows[50, 0.1].min() / rows[50, 0.1].max()
    widths = {key: np.sum(row > row.max() / 2) for key, row in rows.items()}
    assert widths[250, 0.1] < widths[10, 0.1]
    assert rows[250, 0.1].sum() == pytest.approx(1.0, abs=0.02)
    with pytest.raises(ValueError, match="positive noise"):
        equivalent_kernel(gp, grid, 50, 0.0)


@pytest.mark.slow
def test_equivalent_kernel_is_the_limit_of_real_weights():
    """With data on the grid itself the smoother's rows are the equivalent kernel."""
    grid = np.linspace(0, 1, 60)[:, None]
    gp = mc.GP(k.SE(0.1))
    post = gp.condition(grid, np.zeros(60), noise_variance=0.3)
    np.testing.assert_allclose(post.smoother(grid), equivalent_kernel(gp, grid, 60, 0.3), atol=1e-8)
