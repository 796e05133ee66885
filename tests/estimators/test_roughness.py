"""kernel="auto": six kernels by evidence."""

import numpy as np
import pytest

import mercer as mc
from mercer import kernels as k
from mercer.estimators import roughness

RNG = np.random.default_rng(0)
X = RNG.uniform(-1, 1, (60, 2))
SLOPES = X @ [8.0, -5.0]


def test_the_six_kernels_start_where_the_default_ended():
    learned = k.Matern([0.7, 1.3], 2.0, nu=2.5)
    found = roughness.Default(X, 3.0).candidates(learned)
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


def test_classes_of_a_straight_border():
    """Each problem of two classes chooses by itself; a lone 0 among 1s has no evidence for anything."""
    codes = np.where(SLOPES + 0.5 * RNG.normal(size=60) > 0, 1, 0)
    codes[7] = 2
    several = mc.GPClassifier(kernel="auto", multi_class="one-vs-rest", max_evaluations=15).fit(X, codes)
    notes = [next(n for n in p.notes if n.startswith("kernel='auto'")) for p in several.posterior_]
    assert "+ linear of" in notes[1] and "kept Matern 5/2" in notes[2]
    assert "kernel='auto' chose" in several.summary() and not np.isnan(several.predict_proba(X)).any()
    default = mc.GPClassifier(multi_class="one-vs-rest", max_evaluations=15).fit(X, codes)
    assert several.log_marginal_likelihood_ > default.log_marginal_likelihood_ + 2


@pytest.mark.parametrize("estimator", [mc.GPRegressor, mc.GPClassifier])
def test_what_it_does_not_go_with(estimator):
    for other in ({"objective": "loo"}, {"inference": "mcmc"}):
        with pytest.raises(ValueError, match="compares evidences"):
            estimator(kernel="auto", **other).fit(X, SLOPES > 0)
