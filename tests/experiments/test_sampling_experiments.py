"""The experiments with sampling, small: what they compute is checked,
and that they run from data to table.
"""

import numpy as np
import pytest
from scipy.special import logsumexp

import mercer as mc
from experiments import boston_hmc, ionosphere_evidence, usps_evidence
from mercer import kernels as k


def test_quadrature_over_three_hyperparameters():
    """One eigendecomposition for each length-scale gives the sum of plain evidences over the points;
    the grid is fine enough.
    """
    rng = np.random.default_rng(0)
    X = rng.normal(size=(5, 2))
    y = X[:, 0] + 0.3 * rng.normal(size=5)
    axes = [np.linspace(low, high, 7) for low, high in ((-2.0, 5.0), (-6.0, 10.0), (-7.0, 2.0))]
    logs = [
        float(mc.log_evidence(mc.GP(k.SE(np.exp(l), np.exp(s))), X, y, noise_variance=np.exp(n)))
        + boston_hmc.normal(np.array([l, s, n])).sum()
        for l in axes[0] for s in axes[1] for n in axes[2]
    ]  # fmt: skip
    cell = np.prod([a[1] - a[0] for a in axes])
    assert boston_hmc.quadrature(X, y, 7) == pytest.approx(logsumexp(logs) + np.log(cell), abs=1e-6)
    assert boston_hmc.quadrature(X, y, 61) == pytest.approx(boston_hmc.quadrature(X, y, 41), abs=1e-2)


@pytest.mark.slow
def test_surfaces_and_their_report():
    """Two weak settings on a few digits of noise: all methods agree, and the report says how far."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(20, 2))
    y = np.where(X[:, 0] + 0.5 * rng.normal(size=20) > 0, 1.0, -1.0)
    found = ionosphere_evidence.surfaces(X, y, X, y, np.array([0.5]), np.array([-0.5, 0.0]), 300, 3, 60)
    assert found.evidence.shape == found.bits.shape == (3, 2, 1)
    np.testing.assert_allclose(found.evidence[1], 0.5 * (found.evidence[2] + found.reverse), atol=0.3)
    np.testing.assert_allclose(found.evidence[0], found.evidence[1], atol=0.3)
    np.testing.assert_allclose(found.bits[1], found.bits[2], atol=0.05)
    text = "\n".join(ionosphere_evidence.report(found, "21 x 21", "a command"))
    assert "a grid of 1 x 2" in text and "300 temperatures" in text and "21 x 21" in text


@pytest.mark.experiment
def test_boston_quick(data_dir, tmp_path):
    text = boston_hmc.run(tmp_path, quick=True)
    assert (tmp_path / "boston_hmc.png").stat().st_size > 10_000
    assert "100 training and 106 test" in text and "| quadrature |" in text


@pytest.mark.experiment
@pytest.mark.parametrize("experiment", [ionosphere_evidence, usps_evidence])
def test_evidence_grids_quick(data_dir, tmp_path, experiment):
    text = experiment.run(tmp_path, points=2, steps=300, runs=2, draws=40)
    assert "a grid of 2 x 2" in text and "300 temperatures" in text
