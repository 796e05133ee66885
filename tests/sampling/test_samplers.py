"""Samplers against quadrature, and the properties that make them right: reversibility, small energy errors,
detailed balance.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import log_ndtr

from mercer.sampling import HMC, RandomWalk, leapfrog, metropolis_hastings, sample

SAMPLERS = ["nuts", "hmc", "elliptical", "metropolis"]


def density(x):
    """Two independent problems: Kuss' Figure 6.3 (prior N(0, 25), one observation y = 1, probit),
    and a bent valley.
    """
    probit = -0.5 * x[0] ** 2 / 25.0 + jax.scipy.stats.norm.logcdf(x[0])
    valley = -0.5 * x[1] ** 2 - 0.5 * ((x[2] - 0.4 * x[1] ** 2) / 0.8) ** 2
    return probit + valley


def within(draws, values, exact, errors=4.5):
    """The average over draws is within so many Monte-Carlo errors of the exact one."""
    from mercer.sampling import effective_sample_size

    x = values(draws)
    error = x.std() / np.sqrt(effective_sample_size(x, "mean"))
    assert error < 0.2 * max(1.0, x.std())
    assert abs(x.mean() - exact) < errors * error, (x.mean(), exact, error)


@pytest.mark.slow
@pytest.mark.representative("hmc")
@pytest.mark.parametrize("sampler", SAMPLERS)
def test_one_and_two_dimensions_against_quadrature(sampler):
    draws = 6000 if sampler == "metropolis" else 2000
    chains = sample(density, np.zeros(3), sampler=sampler, draws=draws, tune=600, seed=3, progress=False)
    x = np.linspace(-40, 60, 20001)
    p = np.exp(-0.5 * x**2 / 25 + log_ndtr(x))
    p /= p.sum()
    mean = float(p @ x)
    np.testing.assert_allclose(mean, 3.91195091, rtol=1e-6)
    within(chains.draws, lambda d: d[..., 0], mean)
    within(chains.draws, lambda d: (d[..., 0] - mean) ** 2, float(p @ (x - mean) ** 2))
    within(chains.draws, lambda d: (d[..., 0] < 0).astype(float), 0.0628330)
    g = np.linspace(-8, 12, 801)
    a, b = np.meshgrid(g, g, indexing="ij")
    q = np.exp(-0.5 * a**2 - 0.5 * ((b - 0.4 * a**2) / 0.8) ** 2)
    q /= q.sum()
    within(chains.draws, lambda d: d[..., 2], float((q * b).sum()))
    within(chains.draws, lambda d: d[..., 1] ** 2, float((q * a**2).sum()))
    within(chains.draws, lambda d: d[..., 1] ** 2 * d[..., 2], float((q * a**2 * b).sum()))
    assert chains.diagnostics().worst_r_hat < 1.03


COVARIANCE = np.array([[1.0, 0.8, 0.1], [0.8, 2.0, -0.3], [0.1, -0.3, 0.5]])
PRECISION = np.linalg.inv(COVARIANCE)


def correlated(x):
    return -0.5 * x @ PRECISION @ x


def trajectory(step_size, steps, momentum, position=np.array([0.3, -1.0, 0.5])):
    gradient, one = jax.grad(correlated), np.ones(3)
    return leapfrog(
        correlated, jnp.asarray(position), jnp.asarray(momentum), gradient(position), step_size, one, steps
    )


def energy(x, p):
    return float(-correlated(x) + 0.5 * jnp.sum(p**2))


def test_leapfrog_is_reversible():
    start, momentum = np.array([0.3, -1.0, 0.5]), np.array([0.7, 0.1, -1.2])
    x, p, *_ = trajectory(np.array([0.1, 0.05, 0.2]), 40, momentum)
    back, q, *_ = trajectory(np.array([0.1, 0.05, 0.2]), 40, -np.asarray(p), np.asarray(x))
    np.testing.assert_allclose(back, start, atol=1e-10)
    np.testing.assert_allclose(-np.asarray(q), momentum, atol=1e-10)


def test_energy_error_is_quadratic_in_the_step():
    momentum = np.array([0.7, 0.1, -1.2])
    before = energy(np.array([0.3, -1.0, 0.5]), momentum)
    errors = []
    for halvings in range(4):
        x, p, *_ = trajectory(0.1 / 2**halvings, 10 * 2**halvings, momentum)
        errors.append(abs(energy(x, p) - before))
    ratios = np.array(errors[:-1]) / np.array(errors[1:])
    np.testing.assert_allclose(ratios, 4.0, rtol=0.1)


def test_hmc_moments_and_acceptance_on_a_correlated_gaussian():
    exact = sample(
        correlated, np.zeros(3), sampler=HMC(leapfrogs=10), draws=1500, tune=400, seed=0, progress=False
    )
    x = exact.draws.reshape(-1, 3)
    np.testing.assert_allclose(x.T @ x / len(x), COVARIANCE, atol=0.12)  # standard errors below 0.03
    timid = sample(
        correlated, np.zeros(3), sampler=HMC(leapfrogs=10), draws=100, tune=0, step_size=0.01, progress=False
    )
    assert timid.acceptance.min() > 0.999
    assert timid.step_size == pytest.approx(0.01)


@pytest.mark.slow
def test_steps_for_each_coordinate_are_tuned():
    scales = np.array([0.05, 1.0, 20.0])
    chains = sample(
        lambda x: -0.5 * jnp.sum((x / scales) ** 2),
        np.zeros(3),
        sampler="hmc",
        draws=800,
        tune=800,
        progress=False,
    )
    np.testing.assert_allclose(chains.draws.std((0, 1)), scales, rtol=0.1)
    np.testing.assert_allclose(np.sqrt(chains.variance), scales, rtol=0.3)


# -------------------------------------------------------------------------------------------------
# Metropolis-Hastings


def test_detailed_balance_on_three_states():
    p = np.array([0.2, 0.5, 0.3])
    proposal = np.array([[0.1, 0.8, 0.1], [0.45, 0.1, 0.45], [0.1, 0.8, 0.1]])  # not symmetric
    walk = metropolis_hastings(
        lambda i: np.log(p[i]), 0, 40_000, propose=lambda rng, i: int(rng.choice(3, p=proposal[i])),
        log_proposal=lambda new, old: np.log(proposal[old, new]), seed=0,
    )  # fmt: skip
    states = walk.draws[0]
    counts = np.zeros((3, 3))
    np.add.at(counts, (states[:-1], states[1:]), 1)
    # standard errors about 0.003
    np.testing.assert_allclose(np.bincount(states) / len(states), p, atol=0.015)
    accept = np.minimum(1.0, (p[None] * proposal.T) / (p[:, None] * proposal))
    flow = p[:, None] * proposal * accept
    for i in range(3):
        for j in range(i):
            np.testing.assert_allclose(counts[i, j], counts[j, i], atol=4 * np.sqrt(counts[i, j]))
            np.testing.assert_allclose(counts[i, j] / len(states), flow[i, j], atol=0.01)


def test_metropolis_with_the_wrong_proposal_ratio_fails_this_test():
    p, proposal = np.array([0.2, 0.5, 0.3]), np.array([[0.1, 0.8, 0.1], [0.45, 0.1, 0.45], [0.1, 0.8, 0.1]])
    walk = metropolis_hastings(
        lambda i: np.log(p[i]), 0, 20_000, propose=lambda rng, i: int(rng.choice(3, p=proposal[i]))
    )
    assert np.abs(np.bincount(walk.draws[0]) / 20_000 - p).max() > 0.03


def test_random_walk_on_the_host():
    walk = metropolis_hastings(lambda x: -0.5 * np.sum(x**2), np.zeros(2), 6000, step=1.7, chains=2, seed=1)
    assert walk.draws.shape == (2, 6000, 2)
    np.testing.assert_allclose(walk.draws.var((0, 1)), 1.0, atol=0.15)
    assert 0.2 < walk.accepted.mean() < 0.6
    with pytest.raises(ValueError, match="at the start"):
        metropolis_hastings(lambda x: -np.inf, 0.0, 10)


# ------------------------------------------------------------------------------------------------- running
# chains


def test_same_seed_same_draws_and_thinning():
    a = sample(correlated, np.zeros(3), sampler="hmc", draws=60, tune=50, seed=5, progress=False)
    b = sample(correlated, np.zeros(3), sampler="hmc", draws=60, tune=50, seed=5, progress=False)
    c = sample(correlated, np.zeros(3), sampler="hmc", draws=20, tune=50, thin=3, seed=5, progress=False)
    np.testing.assert_array_equal(a.draws, b.draws)
    np.testing.assert_array_equal(a.draws[:, 2::3], c.draws)
    assert (
        np.abs(
            a.draws
            - sample(correlated, np.zeros(3), sampler="hmc", draws=60, tune=50, seed=6, progress=False).draws
        ).max()
        > 0.1
    )


def stop_after(limit):
    def progress(done, total, text):
        if done >= limit:
            raise KeyboardInterrupt

    return progress


def test_interrupting_keeps_what_was_drawn():
    chains = sample(correlated, np.zeros(3), sampler="hmc", draws=500, tune=50, progress=stop_after(150))
    assert chains.interrupted
    assert chains.draws.shape == (4, 100, 3)
    with pytest.raises(KeyboardInterrupt):  # nothing was drawn yet
        sample(correlated, np.zeros(3), sampler="hmc", draws=500, tune=200, progress=stop_after(100))


@pytest.mark.slow
def test_undefined_densities_are_rejected_not_visited():
    def half(x):  # not a number for negative x
        return jnp.sum(jnp.log(x)) - jnp.sum(x)

    chains = sample(half, np.full((4, 1), 2.0), sampler="hmc", draws=1500, tune=500, seed=2, progress=False)
    assert (chains.draws > 0).all()
    within(chains.draws[..., 0], lambda d: d, 2.0)  # Gamma(2, 1)


def test_bad_requests():
    with pytest.raises(ValueError, match="at least one chain"):
        sample(correlated, np.zeros(3), chains=0)
    with pytest.raises(ValueError, match="too few"):
        sample(correlated, np.zeros(3), draws=3)
    with pytest.raises(ValueError, match="unknown sampler 'gibs'"):
        sample(correlated, np.zeros(3), sampler="gibs")
    with pytest.raises(ValueError, match="2 rows but there are 4"):
        sample(correlated, np.zeros((2, 3)))
    with pytest.raises(ValueError, match="not finite where the chains start"):
        sample(lambda x: jnp.log(-jnp.sum(x**2)), np.zeros(3), sampler="metropolis")
    with pytest.raises(ValueError, match="leapfrogs"):
        HMC(leapfrogs=0)


@pytest.mark.slow
def test_divergences_are_counted_and_reported():
    chains = sample(
        correlated,
        np.full((2, 3), 0.1),
        sampler=HMC(leapfrogs=10),
        draws=40,
        chains=2,
        tune=0,
        step_size=9.0,
        progress=False,
    )
    d = chains.diagnostics()
    assert d.divergences > 0
    assert not d.trusted
    assert any("divergent" in p for p in d.problems())
    assert "warning" in str(d)


def test_random_walk_is_a_step_of_its_own():
    assert RandomWalk().first_step_size(4) == pytest.approx(1.2)
