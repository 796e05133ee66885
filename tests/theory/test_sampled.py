import jax.numpy as jnp
import numpy as np
import pytest
from jax.scipy.stats import norm
from scipy import stats

from mercer.theory import grid_posterior, sampled_posterior

pytestmark = pytest.mark.slow  # chains and compilations of its own

RNG = np.random.default_rng(3)
PHI = RNG.normal(size=(12, 4))
Y = PHI @ [0.5, -1.0, 0.2, 2.0] + 0.3 * RNG.normal(size=12)
NAMES = ("a", "b", "c", "d")


def likelihood(*w):
    return jnp.sum(norm.logpdf(Y, PHI @ jnp.stack(w), 0.3))


def prior(*w):
    return jnp.sum(norm.logpdf(jnp.stack(w), 0.0, 2.0))


@pytest.fixture(scope="module")
def linear():
    return sampled_posterior(likelihood, prior, dict.fromkeys(NAMES, 0.1), draws=500)


def test_four_weights_are_conjugate(linear):
    """C.BAY1 beyond a grid: mean, covariance, mode and evidence of a linear model in closed form."""
    covariance = np.linalg.inv(PHI.T @ PHI / 0.09 + np.eye(4) / 4.0)
    mean = covariance @ PHI.T @ Y / 0.09
    sd = np.sqrt(np.diag(covariance))
    np.testing.assert_allclose((np.array(list(linear.mean.values())) - mean) / sd, 0.0, atol=0.12)
    np.testing.assert_allclose(list(linear.mode.values()), mean, atol=1e-5)
    np.testing.assert_allclose(linear.covariance / np.outer(sd, sd), covariance / np.outer(sd, sd), atol=0.15)
    exact = stats.multivariate_normal.logpdf(Y, np.zeros(12), 4.0 * PHI @ PHI.T + 0.09 * np.eye(12))
    assert linear.evidence.standard_error < 0.03
    assert abs(linear.log_evidence - exact) < 4 * linear.evidence.standard_error
    assert linear.diagnostics.r_hat.max() < 1.03
    assert linear.quantile("d", 0.5) == pytest.approx(mean[3], abs=0.15 * sd[3])


def test_improper_priors_give_posteriors_but_no_evidence():
    """Weights without a prior are least squares; the evidence is refused. With fewer data than weights the
    posterior itself is improper, and is refused.
    """
    flat = sampled_posterior(likelihood, None, dict.fromkeys(NAMES, 0.1), draws=100)
    np.testing.assert_allclose(list(flat.mode.values()), np.linalg.lstsq(PHI, Y)[0], atol=1e-5)
    with pytest.raises(ValueError, match="prior is improper"):
        _ = flat.log_evidence

    def few(*w):
        return jnp.sum(norm.logpdf(Y[:3], PHI[:3] @ jnp.stack(w), 0.3))

    with pytest.raises(ValueError, match="improper"):
        sampled_posterior(few, None, dict.fromkeys(NAMES, 0.1))


def test_a_floor_of_density_is_improper():
    """A likelihood that never falls below a share of its peak (outliers have any value) needs a prior."""

    def floored(mu, nu):
        return jnp.sum(jnp.logaddexp(norm.logpdf(Y, mu, 1.0), -3.0)) + norm.logpdf(nu)

    start = {"mu": 0.0, "nu": 0.0}
    with pytest.raises(ValueError, match="does not fall off"):
        sampled_posterior(floored, None, start)
    with pytest.raises(ValueError, match="transforms names 'x'"):
        sampled_posterior(floored, None, start, transforms={"x": "log"})


def test_positive_parameters_agree_with_the_grid():
    """Mean and evidence of a scale, drawn in its logarithm, against quadrature."""
    sampled = sampled_posterior(
        lambda s: jnp.sum(norm.logpdf(Y, 0.0, s)),
        lambda s: -s,
        {"s": 1.0},
        transforms={"s": "log"},
        draws=500,
    )
    exact = grid_posterior(
        lambda s: stats.norm.logpdf(Y, 0.0, s).sum(), lambda s: -s, {"s": (1e-3, 12.0)},
        support={"s": (1e-3, np.inf)}, proper=True,
    )  # fmt: skip
    assert sampled.mean["s"] == pytest.approx(exact.mean["s"], abs=0.1 * exact.covariance[0, 0] ** 0.5)
    assert sampled.mode["s"] == pytest.approx(exact.mode["s"], rel=1e-4)
    assert sampled.log_evidence == pytest.approx(exact.log_evidence, abs=4 * sampled.evidence.standard_error)
