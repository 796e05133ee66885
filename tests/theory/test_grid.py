import numpy as np
import pytest
from scipy import integrate, stats

from mercer.decide import optimal_prediction
from mercer.theory import Density, grid_posterior, map_estimate, to_constrained, to_unconstrained

Y = np.random.default_rng(0).normal(1.0, 0.8, 12)


def normal_likelihood(mu):
    return stats.norm.logpdf(Y, mu, 0.8).sum()


def normal_prior(mu):
    return stats.norm.logpdf(mu, -0.5, 2.0)


def conjugate():
    variance = 1 / (len(Y) / 0.64 + 1 / 4)
    return variance * (Y.sum() / 0.64 - 0.5 / 4), variance


@pytest.fixture(scope="module")
def normal():
    return grid_posterior(normal_likelihood, normal_prior, {"mu": (-12, 12)})


def test_normal_normal_is_conjugate(normal):
    mean, variance = conjugate()
    assert normal.mean["mu"] == pytest.approx(mean, rel=1e-10)
    assert normal.covariance[0, 0] == pytest.approx(variance, rel=1e-9)
    assert normal.mode["mu"] == pytest.approx(mean, abs=1e-7)
    evidence = stats.multivariate_normal.logpdf(Y, np.full(12, -0.5), 0.64 * np.eye(12) + 4.0)
    assert normal.log_evidence == pytest.approx(evidence, rel=1e-11)
    x = np.array([0.3, 1.1])
    exact = stats.norm.logpdf(x, mean, np.sqrt(variance))
    assert [normal.log_density(v) for v in x] == pytest.approx(exact, rel=1e-9)
    np.testing.assert_allclose(
        normal.log_posterior, stats.norm.logpdf(normal.nodes[0], mean, np.sqrt(variance)), atol=1e-8
    )


def test_beta_binomial_is_conjugate():
    k, n, a, b = 3, 10, 2.0, 1.5
    posterior = grid_posterior(
        lambda p: stats.binom.logpmf(k, n, p),
        lambda p: stats.beta.logpdf(p, a, b),
        {"p": (0, 1)},
        support={"p": (0, 1)},
    )
    exact = stats.beta(a + k, b + n - k)
    assert posterior.mean["p"] == pytest.approx(exact.mean(), rel=1e-8)
    assert posterior.mode["p"] == pytest.approx((a + k - 1) / (a + b + n - 2), abs=1e-7)
    assert posterior.log_evidence == pytest.approx(stats.betabinom.logpmf(k, n, a, b), abs=1e-7)
    marginal = posterior.marginal("p")
    for q in (0.025, 0.5, 0.9):
        assert marginal.quantile(q)[0] == pytest.approx(exact.ppf(q), abs=1e-7)
    assert marginal.cdf(0.4) == pytest.approx(exact.cdf(0.4), abs=1e-7)


def test_constant_likelihood_leaves_the_prior():
    posterior = grid_posterior(lambda mu: -3.25, normal_prior, {"mu": (-14, 13)})
    np.testing.assert_allclose(posterior.log_posterior, posterior.grid_log_prior, atol=1e-10)
    assert posterior.log_evidence == pytest.approx(-3.25, abs=1e-10)


def test_two_and_three_parameters_against_closed_forms():
    """Normal-inverse-gamma: mean and precision of normal data; a third,
    independent parameter keeps its prior.
    """
    shape, rate, kappa = 3.0, 2.0, 0.5

    def log_prior(mu, tau, *z):
        p = stats.gamma.logpdf(tau, shape, scale=1 / rate) + stats.norm.logpdf(
            mu, 0, 1 / np.sqrt(kappa * tau)
        )
        return p + (stats.norm.logpdf(z[0]) if z else 0.0)

    def log_likelihood(mu, tau, *z):
        return sum(stats.norm.logpdf(y, mu, 1 / np.sqrt(tau)) for y in Y)

    n, mean = len(Y), Y.mean()
    shape_n = shape + n / 2
    rate_n = rate + 0.5 * ((Y - mean) ** 2).sum() + kappa * n * mean**2 / (2 * (kappa + n))
    evidence = stats.multivariate_t.logpdf(
        Y, np.zeros(n), rate / shape * (np.eye(n) + np.ones((n, n)) / kappa), df=2 * shape
    )
    bounds, support = {"mu": (-2, 4), "tau": (0, 12)}, {"tau": (0, np.inf)}
    two = grid_posterior(log_likelihood, log_prior, bounds, support=support, proper=True, vectorised=True)
    three = grid_posterior(
        log_likelihood, log_prior, bounds | {"z": (-6, 6)}, support=support, proper=True, vectorised=True
    )
    for posterior, tolerance in ((two, 1e-7), (three, 2e-4)):
        assert posterior.log_evidence == pytest.approx(evidence, abs=tolerance)
        assert posterior.mean["mu"] == pytest.approx(n * mean / (kappa + n), abs=tolerance)
        assert posterior.mean["tau"] == pytest.approx(shape_n / rate_n, abs=tolerance)
    assert two.covariance[1, 1] == pytest.approx(shape_n / rate_n**2, rel=1e-5)
    assert two.covariance[0, 1] == pytest.approx(0, abs=1e-8)
    assert two.mode["tau"] == pytest.approx((shape_n - 0.5) / rate_n, abs=1e-6)
    assert three.covariance[2, 2] == pytest.approx(1, abs=1e-6)
    assert "tau = " in repr(two)


def test_scalar_and_vectorised_calls_agree(normal):
    def vector(mu):
        return stats.norm.logpdf(Y[:, None], mu, 0.8).sum(axis=0)

    other = grid_posterior(vector, normal_prior, {"mu": (-12, 12)}, vectorised=True)
    np.testing.assert_allclose(other.log_posterior, normal.log_posterior, atol=1e-11)


def test_estimates_of_a_parameter_for_a_loss():
    """Skewed posterior: mean, median and mode of a gamma differ;
    a general loss is minimised over the density.
    """
    exact = stats.gamma(3.0, scale=0.5)
    posterior = grid_posterior(lambda s: 0.0, exact.logpdf, {"s": (0, 20)}, support={"s": (0, np.inf)})
    marginal = posterior.marginal("s")
    squared, absolute = optimal_prediction(marginal), optimal_prediction(marginal, "absolute")
    assert squared.guess[0] == pytest.approx(1.5, abs=1e-9) and squared.risk[0] == pytest.approx(
        0.75, abs=1e-9
    )
    assert absolute.guess[0] == pytest.approx(exact.median(), abs=1e-9)
    deviation = integrate.quad(
        lambda s: abs(s - exact.median()) * exact.pdf(s), 0, 40, points=[exact.median()]
    )[0]
    assert absolute.risk[0] == pytest.approx(deviation, abs=1e-8)
    assert optimal_prediction(marginal, "zero-one").guess[0] == pytest.approx(1.0, abs=1e-6)
    assert posterior.mode["s"] == pytest.approx(1.0, abs=1e-7)
    linex = optimal_prediction(marginal, "linex", a=2.0).guess[0]
    assert linex == pytest.approx(3 / 2 * np.log(1 + 0.5 * 2.0), abs=1e-9)
    general = optimal_prediction(marginal, lambda s, g: np.where(s > g, 3.0, 1.0) * np.abs(s - g))
    assert general.guess[0] == pytest.approx(exact.ppf(0.75), abs=1e-6)
    smooth = optimal_prediction(marginal, lambda s, g: (s - g) ** 2, smooth=True)
    assert smooth.guess[0] == pytest.approx(1.5, abs=1e-6)


def test_density_whose_mode_is_at_its_end():
    posterior = grid_posterior(
        lambda p: 0.0, lambda p: stats.beta.logpdf(p, 1, 3), {"p": (0, 1)}, support={"p": (0, 1)}
    )
    assert optimal_prediction(posterior.marginal("p"), "zero-one").guess[0] == pytest.approx(0, abs=1e-6)
    assert posterior.mode["p"] == pytest.approx(0, abs=1e-8)


def test_density_alone():
    _, weight = np.polynomial.legendre.leggauss(12)
    uniform = Density(2.0, 4.0, weight / 2)
    assert uniform.mean[0] == pytest.approx(3) and uniform.variance[0] == pytest.approx(1 / 3)
    assert uniform.quantile(0.25)[0] == pytest.approx(2.5, abs=1e-13)
    assert uniform.probability(np.array([2.5]), np.array([9.0]))[0] == pytest.approx(0.75, abs=1e-13)


def test_evidence_is_refused_without_a_proper_prior():
    flat = grid_posterior(normal_likelihood, None, {"mu": (-4, 6)})
    assert flat.mean["mu"] == pytest.approx(Y.mean(), rel=1e-10)
    with pytest.raises(ValueError, match="prior is improper"):
        flat.log_evidence
    constant = grid_posterior(normal_likelihood, lambda mu: 0.0, {"mu": (-4, 6)})
    with pytest.raises(ValueError, match="integrates to 10 within the bounds, so it is improper"):
        constant.log_evidence
    wide = lambda mu: stats.norm.logpdf(mu, 0, 100)  # noqa: E731
    partial = grid_posterior(normal_likelihood, wide, {"mu": (-4, 6)})
    with pytest.raises(ValueError, match=r"integrates to 0\.03988 within.*proper=True"):
        partial.log_evidence
    vouched = grid_posterior(normal_likelihood, wide, {"mu": (-4, 6)}, proper=True)
    exact = stats.multivariate_normal.logpdf(Y, np.zeros(12), 0.64 * np.eye(12) + 1e4)
    assert vouched.log_evidence == pytest.approx(exact, abs=1e-8)
    declared = grid_posterior(normal_likelihood, normal_prior, {"mu": (-12, 12)}, proper=False)
    with pytest.raises(ValueError, match="prior is improper"):
        declared.log_evidence


def test_a_posterior_cut_off_by_its_bounds_is_reported():
    with pytest.warns(UserWarning, match=r"posterior of 'mu' is still .* at the upper bound: widen"):
        cut = grid_posterior(normal_likelihood, normal_prior, {"mu": (-3, 0.9)}, proper=True)
    with pytest.raises(ValueError, match="cut off at the upper bound"):
        cut.log_evidence


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: grid_posterior(normal_likelihood, None, {}), "one to three parameters; got 0"),
        (
            lambda: grid_posterior(lambda *p: 0.0, None, dict.fromkeys("abcd", (0, 1))),
            "got 4: use theory.sampled_posterior",
        ),
        (lambda: grid_posterior(normal_likelihood, None, {"mu": (0, np.inf)}), "finite and ascending"),
        (
            lambda: grid_posterior(normal_likelihood, None, {"mu": (0, 1)}, support={"nu": (0, 1)}),
            "support names 'nu'",
        ),
        (lambda: grid_posterior(lambda mu: np.nan, None, {"mu": (0, 1)}), r"log_likelihood\(.*\) is NaN"),
        (lambda: grid_posterior(lambda mu: -np.inf, None, {"mu": (0, 1)}), "zero everywhere"),
        (lambda: grid_posterior(normal_likelihood, None, {"mu": (-9e3, 9e3)}), "too coarse for 'mu'"),
        (
            lambda: grid_posterior(lambda mu: mu[:2], None, {"mu": (0, 1)}, vectorised=True),
            r"returned shape \(2,\)",
        ),
        (
            lambda: to_unconstrained(normal_prior, ["exp"]),
            "Unknown transform 'exp'; use one of identity, log, logit",
        ),
        (lambda: map_estimate(stats.gamma(3).logpdf, [-1.0], ["log"]), "not inside the range"),
        (lambda: map_estimate(lambda x: x, [1.0], ["identity"]), "No peak was found"),
        (
            lambda: map_estimate(stats.beta(2, 2).logpdf, [3.0], ["identity"]),
            "zero or undefined at the starting point",
        ),
    ],
)
def test_bad_input_is_named(call, says):
    with pytest.raises(ValueError, match=says):
        call()


def test_marginal_of_an_unknown_parameter(normal):
    with pytest.raises(ValueError, match="no parameter 'nu'; there are mu"):
        normal.marginal("nu")


CASES = [("log", stats.gamma(3.0, scale=0.5), (-12, 4)), ("logit", stats.beta(2.0, 5.0), (-30, 30))]


@pytest.mark.parametrize(("transform", "exact", "xi_range"), CASES)
def test_transformed_density_keeps_its_moments_and_comes_back(transform, exact, xi_range):
    inverse = np.exp if transform == "log" else lambda x: 1 / (1 + np.exp(-x))
    on_xi = to_unconstrained(exact.logpdf, [transform])
    for power, expected in ((0, 1.0), (1, exact.mean()), (2, exact.moment(2))):
        moment = integrate.quad(
            lambda x, p=power: inverse(x) ** p * np.exp(on_xi(x)), *xi_range, epsabs=1e-12, limit=200
        )
        assert moment[0] == pytest.approx(expected, rel=1e-8)
    back = to_constrained(on_xi, [transform])
    phi = np.array([0.1, 0.4, 0.9])
    np.testing.assert_allclose(back(phi), exact.logpdf(phi), rtol=1e-12)
    plain = to_unconstrained(exact.logpdf, [transform], jacobian=False)
    np.testing.assert_allclose(
        to_constrained(plain, [transform], jacobian=False)(phi), exact.logpdf(phi), rtol=1e-12
    )


def test_map_moves_with_the_scale_and_maximum_likelihood_does_not():
    gamma, beta = stats.gamma(3.0, scale=0.5), stats.beta(2.0, 5.0)

    def joint(s, p):
        return gamma.logpdf(s) + beta.logpdf(p)

    with_jacobian = map_estimate(joint, [1.0, 0.5], ["log", "logit"], jacobian=True)
    without = map_estimate(joint, [1.0, 0.5], ["log", "logit"], jacobian=False)
    np.testing.assert_allclose(without, [1.0, 0.2], atol=1e-7)  # (k - 1)θ, (a - 1)/(a + b - 2)
    np.testing.assert_allclose(with_jacobian, [1.5, 2 / 7], atol=1e-7)  # kθ, a/(a + b)

    def log_likelihood(sigma):
        return stats.norm.logpdf(Y, Y.mean(), sigma).sum()

    for transform in ("identity", "log"):
        np.testing.assert_allclose(map_estimate(log_likelihood, [1.0], [transform]), Y.std(), atol=1e-7)


def test_the_grid_posterior_on_the_log_scale_has_the_same_evidence():
    """A change of scale moves the mode but not the evidence nor the median."""
    prior, y = stats.gamma(3.0, scale=0.5), Y - Y.mean()

    def log_likelihood(sigma):
        return stats.norm.logpdf(y, 0, sigma).sum()

    plain = grid_posterior(log_likelihood, prior.logpdf, {"s": (0, 12)}, support={"s": (0, np.inf)})
    on_log = grid_posterior(
        to_unconstrained(log_likelihood, ["log"], jacobian=False),
        to_unconstrained(prior.logpdf, ["log"]),
        {"s": (-5, 3)},
    )
    assert on_log.log_evidence == pytest.approx(plain.log_evidence, abs=1e-8)
    median = plain.marginal("s").quantile(0.5)
    np.testing.assert_allclose(np.exp(on_log.marginal("s").quantile(0.5)), median, rtol=1e-7)
    assert np.exp(on_log.mode["s"]) > plain.mode["s"] + 0.01
