"""Chains in different modes are told apart from chains that have not settled;
draws survive Ctrl-C in every sampler.
"""

import jax.numpy as jnp
import numpy as np
import pytest

from mercer.sampling import HMC, gibbs, metropolis_hastings, modes, sample


def bimodal(x):
    """Two Gaussians at +-6 with weights 1 : e, which no chain crosses."""
    return jnp.logaddexp(-0.5 * jnp.sum((x - 6.0) ** 2), 1.0 - 0.5 * jnp.sum((x + 6.0) ** 2))


@pytest.mark.slow
def test_two_modes_are_reported_in_words():
    start = np.array([[6.0, 6.0], [-6.0, -6.0], [6.1, 5.9], [-6.0, -6.0]])
    chains = sample(bimodal, start, sampler=HMC(8, longest=1.6), draws=200, tune=150, seed=0, progress=False)
    found = chains.diagnostics(("a", "b"))
    assert [m.chains for m in found.modes] == [(0, 2), (1, 3)]
    np.testing.assert_allclose(found.modes[0].centre, 6.0, atol=0.4)
    np.testing.assert_allclose(found.modes[1].centre, -6.0, atol=0.4)
    assert found.modes[1].log_density - found.modes[0].log_density == pytest.approx(1.0, abs=0.4)
    assert all(m.share == 0.5 and m.r_hat < 1.1 for m in found.modes) and found.worst_r_hat > 1.5
    assert not found.trusted
    (text,) = [p for p in found.problems() if "modes" in p]
    assert "chains 1, 3" in text and "chains 2, 4" in text and "no chain went" in text
    one = sample(
        bimodal,
        np.full((4, 2), 6.0),
        sampler=HMC(8, longest=1.6),
        draws=200,
        tune=150,
        seed=0,
        progress=False,
    )
    assert len(one.diagnostics().modes) == 1 and not any("modes" in p for p in one.diagnostics().problems())


def test_a_chain_that_switches_once_is_counted_in_both(rng):
    x = rng.standard_normal((4, 400)) * 0.5
    x[1] += 10.0
    x[2, 200:] += 10.0
    found = modes(x)
    assert [m.chains for m in found] == [(0, 2, 3), (1, 2)]
    assert [m.share for m in found] == [5 / 8, 3 / 8]
    assert np.isnan(found[0].log_density)


def test_chains_on_their_way_are_not_modes(rng):
    drifting = np.linspace(0, 40, 400) + rng.standard_normal((4, 400)) + 13.0 * np.arange(4)[:, None]
    assert len(modes(drifting)) < 2
    with pytest.raises(ValueError, match="at least 4 draws"):
        modes(np.zeros((2, 3)))


class Stop:
    """Raises KeyboardInterrupt at the count-th call."""

    def __init__(self, count):
        self.left = count

    def __call__(self, *_):
        self.left -= 1
        if self.left <= 0:
            raise KeyboardInterrupt


@pytest.mark.representative("hmc")
@pytest.mark.parametrize("sampler", ["nuts", "hmc", "elliptical", "metropolis"])
def test_interrupted_chains_are_kept(sampler):
    chains = sample(
        lambda x: -0.5 * jnp.sum(x**2), np.zeros(2), sampler=sampler, draws=200, tune=50, progress=Stop(5)
    )
    assert chains.interrupted and chains.draws.shape == (4, 75, 2)
    with pytest.raises(KeyboardInterrupt):  # nothing was drawn yet
        sample(
            lambda x: -0.5 * jnp.sum(x**2), np.zeros(2), sampler=sampler, draws=200, tune=50, progress=Stop(1)
        )


def test_interrupted_metropolis_hastings_and_gibbs():
    stop = Stop(150)

    def density(x):
        stop()
        return -0.5 * x**2

    walk = metropolis_hastings(density, 0.0, 100, chains=3)
    assert walk.interrupted and walk.draws.shape == walk.accepted.shape == (1, 100)
    stop.left = 40
    walk = metropolis_hastings(density, 0.0, 100, chains=3)
    assert walk.interrupted and walk.draws.shape == walk.log_density.shape == (1, 38)
    assert not metropolis_hastings(lambda x: -0.5 * x**2, 0.0, 20).interrupted
    draws = gibbs({"x": lambda rng, s: rng.normal()}, {"x": 0.0}, 100, progress=Stop(30))
    assert draws["x"].shape == (30,)


@pytest.mark.slow
def test_one_after_the_other_is_the_same_density():
    both = [
        sample(
            bimodal,
            np.full((2, 2), 6.0),
            sampler="hmc",
            draws=60,
            tune=50,
            chains=2,
            together=together,
            progress=False,
        ).draws
        for together in (True, False)
    ]
    np.testing.assert_allclose(both[0], both[1], atol=1e-6)
