"""kernel="auto": six kernels by evidence."""

import numpy as np
import pytest

import mercer as mc
from mercer import kernels as k
from mercer.estimators.regression import roughness

RNG = np.random.default_rng(0)
X = RNG.uniform(-1, 1, (60, 2))
SLOPES = X @ [8.0, -5.0]


def test_the_six_kernels_start_where_the_default_ended():
    learned = k.Matern([0.7, 1.3], 2.0, nu=2.5)
    found = roughness.candidates(X, 3.0, None, learned)
    assert next(iter(found)) == "Matern 5/2" and len(found) == 6
    for name, kernel in found.items():
        stationary = float(kernel.diag(X)[0]) if "linear" not in name else None
        assert stationary is None or stationary == pytest.approx(2.0)
    straight = found["SE + linear"](X) - found["SE"](X)
    assert np.linalg.matrix_rank(straight) == 2
    assert np.mean(np.diag(straight)) == pytest.approx(roughness.LINEAR_SHARE * 9.0, rel=1e-6)


def test_a_linear_part_is_found_and_units_do_not_matter(tmp_path):
    y = SLOPES + np.sin(9 * X[:, 0]) + 0.1 * RNG.normal(size=60)
    model = mc.GPRegressor(kernel="auto").fit(X, y)
    (note,) = [note for note in model.posterior_.notes if note.startswith("kernel='auto'")]
    assert "+ linear of Matern 5/2" in note and "kernel='auto' chose" in model.summary()
    assert model.log_marginal_likelihood_ > mc.GPRegressor().fit(X, y).log_marginal_likelihood_ + 2
    other = mc.GPRegressor(kernel="auto").fit(1000 * X + 7e4, 100 * y - 3)
    new = RNG.uniform(-1, 1, (5, 2))
    np.testing.assert_allclose(other.predict(1000 * new + 7e4), 100 * model.predict(new) - 3, rtol=1e-3)
    model.save(tmp_path / "m.mercer")
    np.testing.assert_allclose(mc.load(tmp_path / "m.mercer").predict(new), model.predict(new), rtol=1e-8)


def test_what_it_does_not_go_with():
    with pytest.raises(ValueError, match="compares evidences"):
        mc.GPRegressor(kernel="auto", objective="loo").fit(X, SLOPES)
