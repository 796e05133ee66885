"""HMC steered by a surrogate: moments of the true density, few evaluations, whatever the surrogate is."""

import numpy as np
import pytest

from mercer.decide import surrogate_hmc


def skewed(x):
    """Of two columns that go together, one with a log-logistic tail and one with light ones."""
    return 3 * x[0] - 8 * np.logaddexp(0.0, x[0]) - x[1] ** 4 / 4 + 0.3 * x[0] * x[1]


def moments(log_density):
    """Means and variances by summing over a grid."""
    axis = np.linspace(-7.0, 7.0, 281)
    x, y = np.meshgrid(axis, axis, indexing="ij")
    p = np.exp(log_density(np.stack([x, y])))
    p /= p.sum()
    mean = np.array([(p * x).sum(), (p * y).sum()])
    return mean, np.array([(p * x**2).sum(), (p * y**2).sum()]) - mean**2


def agree(found, log_density):
    """Means and variances within four standard errors."""
    mean, variance = moments(log_density)
    effective = np.minimum(found.effective_sample_size(), len(found.draws))
    assert np.all(np.abs(found.draws.mean(0) - mean) < 4 * np.sqrt(variance / effective))
    squares = (found.draws - mean) ** 2
    assert np.all(np.abs(squares.mean(0) - variance) < 4 * squares.std(0) / np.sqrt(effective / 2))


def test_moments_are_those_of_the_true_density_from_few_evaluations():
    """Nearly every trajectory is accepted and draws are as good as independent, at an evaluation each."""
    calls = []

    def counted(x):
        calls.append(x)
        return skewed(x)

    found = surrogate_hmc(counted, np.zeros(2), draws=400, seed=1)
    assert found.evaluations == len(calls) == 460
    assert found.acceptance > 0.9
    assert found.effective_sample_size().min() > 200
    agree(found, skewed)


@pytest.mark.slow
def test_a_third_of_the_evaluations_of_plain_hmc_and_less():
    """For the same effective draws; and a density that is bent, where the surrogate is good in parts only."""
    import jax.numpy as jnp

    from mercer import sampling

    def traced(x):
        return 3 * x[0] - 8 * jnp.logaddexp(0.0, x[0]) - x[1] ** 4 / 4 + 0.3 * x[0] * x[1]

    plain = sampling.sample(traced, np.zeros(2), sampler="hmc", draws=400, tune=300, chains=1, progress=False)
    effective = np.min(sampling.effective_sample_size(plain.draws, "mean"))
    found = surrogate_hmc(skewed, np.zeros(2), draws=400)
    ours = found.evaluations / found.effective_sample_size().min()
    assert ours < np.sum(plain.evaluations) / effective / 3

    def bent(x):
        return -(x[0] ** 2) / 4 - (x[1] - 0.5 * x[0] ** 2) ** 2

    agree(surrogate_hmc(bent, np.zeros(2), draws=1500, seed=2), bent)


@pytest.mark.slow
def test_the_surrogate_does_not_change_what_is_drawn():
    """Learned from twelve evaluations close together it steers badly: more is rejected, the moments stay."""
    found = surrogate_hmc(skewed, np.zeros(2), draws=3000, training=12, scale=0.3)
    good = surrogate_hmc(skewed, np.zeros(2), draws=400)
    assert found.acceptance < good.acceptance
    agree(found, skewed)


def test_densities_that_end_and_bad_ones():
    with pytest.raises(ValueError, match="not finite at start"):
        surrogate_hmc(lambda x: -np.inf, np.zeros(1))
    with pytest.raises(ValueError, match="is nan at"):
        surrogate_hmc(lambda x: np.nan, np.zeros(1))
    with pytest.raises(ValueError, match="training at least 8"):
        surrogate_hmc(skewed, np.zeros(1), training=3)
