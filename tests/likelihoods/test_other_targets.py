"""Counts that scatter, trials, shares, positive numbers, waiting times, censored numbers: against
scipy.stats, published fits, and each other.
"""

import numpy as np
import pytest
from scipy import stats

import mercer as mc
from mercer import kernels as k
from mercer.inputs import InputError
from mercer.likelihoods import (
    Bernoulli,
    Beta,
    Binomial,
    Censored,
    Gamma,
    Gaussian,
    LogLogistic,
    NegativeBinomial,
    Poisson,
    Weibull,
)
from mercer.params import ParameterError

F = np.array([-1.1, 0.0, 0.7, 2.0])


def test_densities_are_those_of_scipy():
    mu, y, p = np.exp(F), np.array([0.3, 1.0, 2.5, 6.0]), 1 / (1 + np.exp(-F))
    counts, shares = np.array([0.0, 2.0, 1.0, 9.0]), np.array([0.1, 0.4, 0.7, 0.97])
    for likelihood, target, expected in [
        (NegativeBinomial(0.4), counts, stats.nbinom(2.5, 2.5 / (2.5 + mu)).logpmf(counts)),
        (NegativeBinomial(0.4, 3.0), counts, stats.nbinom(2.5, 2.5 / (2.5 + 3 * mu)).logpmf(counts)),
        (Binomial(9.0), counts, stats.binom(9, p).logpmf(counts)),
        (Binomial(9.0, "probit"), counts, stats.binom(9, stats.norm.cdf(F)).logpmf(counts)),
        (Beta(6.0), shares, stats.beta(6 * p, 6 * (1 - p)).logpdf(shares)),
        (Gamma(1.7), y, stats.gamma(1.7, scale=mu / 1.7).logpdf(y)),
        (Weibull(1.4), y, stats.weibull_min(1.4, scale=mu).logpdf(y)),
        (LogLogistic(1.4), y, stats.fisk(1.4, scale=mu).logpdf(y)),
        (Weibull(1.4, np.zeros(4)), y, stats.weibull_min(1.4, scale=mu).logsf(y)),
        (LogLogistic(1.4, np.zeros(4)), y, stats.fisk(1.4, scale=mu).logsf(y)),
        (Censored(0.5, [0, -1, 1, 2], [0, 0, 0, 0.3]), y, [
            stats.norm(F[0], 0.5).logpdf(y[0]),
            stats.norm(F[1], 0.5).logcdf(y[1]),
            stats.norm(F[2], 0.5).logsf(y[2]),
            np.log(stats.norm(F[3], 0.5).sf(y[3]) - stats.norm(F[3], 0.5).sf(y[3] + 0.3)),
        ]),
    ]:  # fmt: skip
        np.testing.assert_allclose(
            likelihood.log_prob(F, target), expected, rtol=1e-10, err_msg=str(likelihood)
        )


def test_special_cases():
    """One trial is a label; no dispersion is Poisson; shape 1 of Gamma and Weibull is one exponential."""
    y = np.array([1.0, 0.0, 1.0, 0.0])
    np.testing.assert_allclose(
        Binomial().log_prob(F, y), Bernoulli("logit").log_prob(F, 2 * y - 1), rtol=1e-12
    )
    np.testing.assert_allclose(NegativeBinomial(1e-8).log_prob(F, y), Poisson().log_prob(F, y), atol=1e-6)
    np.testing.assert_allclose(Gamma(1.0).log_prob(F, y + 1), Weibull(1.0).log_prob(F, y + 1), rtol=1e-12)
    np.testing.assert_allclose(
        Censored(0.3).log_partition(y, F, 0.2), Gaussian(0.09).log_partition(y, F, 0.2), rtol=1e-12
    )


def linear(likelihood, x, y):
    """Intercept and slope, with everything else that is free, by the evidence of vague weights."""
    gp = mc.GP(k.SE(mc.fixed(1.0), mc.fixed(1e-10)), 0.0, mc.means.Polynomial(1))
    found = mc.fit(mc.Model(gp, likelihood), x[:, None], y, inference="laplace")
    at = found.posterior.mean([[0.0], [1.0]], latent=True)
    return at[0], at[1] - at[0], found.model.likelihood


@pytest.mark.slow
def test_remission_of_leukaemia():
    """Gehan (1965): weeks until relapse, on a drug (x = 0) and without (x = 1), 12 of 42 still in remission.
    By maximum likelihood log time is 3.516 - 1.267 x with a Weibull distribution of shape 1 / 0.732.
    """
    drug = [6, 6, 6, 6, 7, 9, 10, 10, 11, 13, 16, 17, 19, 20, 22, 23, 25, 32, 32, 34, 35]
    still = [0, 0, 0, 1, 0, 1, 0, 1, 1, 0, 0, 1, 1, 1, 0, 0, 1, 1, 1, 1, 1]
    without = [1, 1, 2, 2, 3, 4, 4, 5, 5, 8, 8, 8, 8, 11, 11, 12, 12, 15, 17, 22, 23]
    x = np.repeat([0.0, 1.0], 21)
    event = 1.0 - np.concatenate([still, np.zeros(21)])
    weeks = np.array([*drug, *without], float)
    held = Weibull(mc.fixed(1 / 0.732), event)
    a, b, _ = linear(held, x, weeks)
    assert a == pytest.approx(3.516, abs=2e-3) and b == pytest.approx(-1.267, abs=2e-3)
    # weights that are integrated out leave the shape nearer to its prior knowledge, here none
    *_, free = linear(Weibull(1.0, event), x, weeks)
    assert float(free.shape) == pytest.approx(1 / 0.732, rel=0.05)


@pytest.mark.slow
def test_o_rings_of_the_space_shuttle():
    """Damage to six O-rings by the temperature (F) at the start: logit p = 11.663 - 0.2162 t by maximum
    likelihood (Faraway's table of the flights before the accident).
    """
    temperature = [53, 57, 58, 63, 66, 67, 67, 67, 68, 69, 70, 70, 70, 70, 72, 73, 75, 75, 76, 76, 78, 79, 81]
    damage = [5, 1, 1, 1, 0, 0, 0, 0, 0, 0, 1, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0]
    a, b, _ = linear(Binomial(6.0), (np.array(temperature) - 70.0) / 10, np.array(damage, float))
    assert b / 10 == pytest.approx(-0.2162, abs=1e-4)
    assert a - 7 * b == pytest.approx(11.663, abs=2e-3)


def test_coal_mining(data_dir):
    """Yearly counts: hardly more scattered than Poisson's, so the dispersion is small and the rates agree."""
    with np.load(data_dir / "reference_inputs.npz") as file:
        x, y = file["coal_x"], file["coal_y"]
    kernel = k.SE(mc.fixed(0.4), mc.fixed(0.5))
    poisson, scattered = (
        mc.fit(mc.Model(mc.GP(kernel, mc.param(0.0)), l), x, y, inference="laplace")
        for l in (Poisson(), NegativeBinomial(0.3))
    )
    assert float(scattered.model.likelihood.dispersion) < 0.1
    np.testing.assert_allclose(poisson.posterior.mean(x), scattered.posterior.mean(x), rtol=0.15)


# ------------------------------------------------------------------------------------------------- the
# estimator


@pytest.fixture(scope="module")
def wave():
    rng = np.random.default_rng(0)
    x = np.sort(rng.uniform(0, 3, 60))
    return rng, x[:, None], np.sin(2 * x)


def test_a_limit_of_detection(wave):
    """Values below the limit pull the function up where they are taken as seen, and do not where they are
    known as limits.
    """
    rng, X, f = wave
    y = f + 0.1 * rng.normal(size=60)
    low = y < -0.3
    recorded = np.where(low, -0.3, y)
    known = mc.GPRegressor().fit(X, recorded, upper=np.where(low, -0.3, np.nan))
    taken = mc.GPRegressor().fit(X, recorded)
    error = [float(np.mean(np.abs(m.predict(X, latent=True) - f)[low])) for m in (known, taken)]
    assert 3 * error[0] < error[1]
    assert f"{low.sum()} rows of which only limits are known" in known.summary()
    assert "row that was seen itself" in known.summary()
    assert known.predict(X).min() < -0.6
    empty = mc.GPRegressor().fit(X, np.where(low, np.nan, y), upper=np.where(low, -0.3, np.nan))
    np.testing.assert_array_equal(empty.predict(X), known.predict(X))  # where there is a limit y is not read


@pytest.mark.slow
def test_every_side_datum_reaches_its_likelihood(wave, tmp_path):
    rng, X, f = wave
    many = rng.integers(1, 30, 60)
    end = 1.5
    time = np.exp(f) * rng.weibull(2.0, 60)
    for name, y, side in [
        ("poisson", rng.poisson(many * np.exp(f)), {"exposure": many}),
        (
            "negative-binomial",
            rng.poisson(many * np.exp(f) * rng.gamma(3.0, 1 / 3.0, 60)),
            {"exposure": many},
        ),
        ("binomial", rng.binomial(many, 1 / (1 + np.exp(-f))), {"trials": many}),
        ("weibull", np.minimum(time, end), {"event": time < end}),
        ("log-logistic", np.minimum(time, end), {"event": time < end}),
        ("beta", np.clip(rng.beta(20 / (1 + np.exp(-f)), 20 / (1 + np.exp(f))), 1e-9, 1 - 1e-9), {}),
        ("gamma", np.exp(f) * rng.gamma(4.0, 0.25, 60), {}),
    ]:
        model = mc.GPRegressor(likelihood=name).fit(X, y, **side)
        assert np.corrcoef(model.predict(X, latent=True), f)[0, 1] > 0.9, name
        model.save(tmp_path / "m.mercer")
        again = mc.load(tmp_path / "m.mercer")
        np.testing.assert_allclose(again.predict(X), model.predict(X), rtol=1e-12)
    assert model.predict(X).min() > 0


def test_what_cannot_be(wave):
    _, X, f = wave
    counts = np.round(np.exp(f))
    for side, likelihood, error, words in [
        ({"trials": counts + 1}, None, ValueError, "trials goes with likelihood='binomial'"),
        ({"event": counts > 1}, "poisson", ValueError, "event goes with likelihood='weibull' or"),
        ({"trials": counts - 1}, "binomial", ValueError, "positive|at most"),
        ({"exposure": np.zeros(60)}, "poisson", ParameterError, "positive"),
        ({"exposure": [1.0]}, "poisson", InputError, "exposure has 1 entries but there are 60 rows"),
        ({"event": counts}, "weibull", ValueError, "positive numbers|1 .it happened. or 0|between 0 and 1"),
        ({"lower": np.full(60, 2.0), "upper": 1.0}, None, InputError, "lower is above upper in row 0"),
        ({"lower": np.full(60, -np.inf), "upper": np.inf}, None, InputError, "nothing is known of row 0"),
        ({}, "gamma", InputError, "positive numbers"),
        ({}, "beta", InputError, "strictly between 0 and 1"),
    ]:  # fmt: skip
        y = counts if likelihood in ("poisson", "binomial", None) else counts - 1
        with pytest.raises(error, match=words):
            mc.GPRegressor(likelihood=likelihood).fit(X, y, **side)
    with pytest.raises(ParameterError, match="width is needed"):
        Censored(1.0, [2.0])
    with pytest.raises(ParameterError, match="whole numbers"):
        Binomial(2.5)
    with pytest.raises(ParameterError, match="'probit' or 'logit'"):
        Binomial(2.0, "cauchit")
