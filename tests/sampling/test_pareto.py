"""Pareto smoothed importance weights."""

import numpy as np
import pytest
from scipy import stats

from mercer.sampling import fit_pareto, pareto_smooth


@pytest.mark.parametrize("k", (-0.3, 0.0, 0.4, 0.9))
def test_shape_and_scale_are_recovered(k):
    """From 20,000 draws of SciPy's generalised Pareto; the pull towards 1/2 has the weight of ten."""
    x = np.sort(stats.genpareto(k, scale=2.5).rvs(20_000, random_state=1))
    found, scale = fit_pareto(x)
    assert found == pytest.approx(k, abs=0.03) and scale == pytest.approx(2.5, rel=0.04)


def test_few_draws_are_pulled_towards_a_half():
    x = np.sort(stats.genpareto(-0.5).rvs(10, random_state=0))
    assert fit_pareto(x)[0] > -0.3


def test_importance_weights_of_known_tails():
    """The ratio of N(0, 1) to N(0, s^2) has the shape 1 - s^2 for s < 1, and is bounded for s > 1."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((4000, 2)) * np.array([1.5, 0.6])
    ratios = stats.norm(0, 1).logpdf(x) - stats.norm(0, [1.5, 0.6]).logpdf(x)
    weights, k = pareto_smooth(ratios)
    np.testing.assert_allclose(np.exp(weights).sum(0), 1.0, rtol=1e-12)
    assert k[0] < 0.3 and k[1] == pytest.approx(1 - 0.6**2, abs=0.2)
    second = np.exp(weights[:, 0]) @ x[:, 0] ** 2
    assert second == pytest.approx(1.0, abs=0.05)
    (one,), (shape,) = pareto_smooth(ratios[:, :1]).log_weights.T, pareto_smooth(ratios[:, :1]).pareto_k
    np.testing.assert_array_equal(one, weights[:, 0])
    assert shape == k[0]


def test_only_the_tail_is_changed_and_none_exceeds_the_largest():
    ratios = np.random.default_rng(3).standard_normal(1000) * 2.0
    weights, _ = pareto_smooth(ratios)
    order = np.argsort(ratios)
    rest = order[: 1000 - int(np.ceil(3 * np.sqrt(1000)))]
    raw = ratios - ratios.max()
    shift = weights[order[0]] - raw[order[0]]
    np.testing.assert_allclose(weights[rest], raw[rest] + shift, rtol=1e-12)
    assert np.all(weights <= shift + 1e-12) and np.all(np.argsort(weights[order]) == np.arange(1000))


def test_equal_weights_and_bad_ones():
    weights, k = pareto_smooth(np.full(50, 3.0))
    np.testing.assert_allclose(np.exp(weights), 1 / 50)
    assert k == 0.0
    assert pareto_smooth(np.arange(10.0)).pareto_k == np.inf  # two in the tail
    with pytest.raises(ValueError, match="finite"):
        pareto_smooth(np.array([0.0, np.nan]))
