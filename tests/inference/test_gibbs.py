"""Gibbs sampling for robust noise, against enumeration, quadrature on a grid,
fine grids of hyperparameters and MCMC on f.
"""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import mercer as mc
from mercer import hyperpriors as hp
from mercer.inference import MCMC, Enumeration, Gibbs, by_name
from mercer.sampling import autocorrelation
from mercer.sampling.hyper import Hyperparameters
from mercer.sampling.scale_mixture import Indicators, LaplaceScales, StudentScales, scales_of, scales_target
from mercer.solvers import Dense
from mercer.solvers.protocol import SolverError

from .test_enumerate import data, model

pytestmark = pytest.mark.slow  # chains and compilations of its own

k, lk = mc.kernels, mc.likelihoods
QUICK = Gibbs(draws=1000, tune=100, chains=4, progress=False)
X3, Y3 = np.array([[-1.0], [0.0], [1.2]]), np.array([0.3, 2.5, -0.2])
NOISES = [lk.GaussianMixtureNoise(0.15, 0.05, 60.0), lk.StudentT(0.3, 3.0), lk.Laplace(0.3)]
IDS = ["mixture", "student-t", "laplace"]


def error(post):
    """Standard error of the mean of f at each datum."""
    f = post.draws["f"]
    return f.std((0, 1)) / np.sqrt(
        np.minimum(post.diagnostics.ess_bulk[-f.shape[2] :], f.shape[0] * f.shape[1])
    )


# ------------------------------------------------------------------------------------------------- at fixed
# hyperparameters


@pytest.fixture(scope="module")
def mixtures():
    X, y = data()
    return {
        flag: model().condition(X, y, dataclasses.replace(QUICK, over_relaxed=flag)) for flag in (True, False)
    }


@pytest.mark.slow
@pytest.mark.representative("False")
@pytest.mark.parametrize("over_relaxed", [True, False])
def test_mixture_noise_has_the_marginals_of_the_enumeration(mixtures, over_relaxed):
    """VER4: 4000 draws; probabilities within 4.5 standard errors of independent draws worth a quarter of
    them.
    """
    X, y = data()
    post, exact = mixtures[over_relaxed], model().condition(X, y, Enumeration())
    assert post.status.converged
    mean, variance = exact.latent_moments(X)
    assert np.all(np.abs(post.draws["f"].mean((0, 1)) - mean) < 4.5 * error(post))
    np.testing.assert_allclose(post.draws["f"].var((0, 1)), variance, rtol=0.15)
    p = exact.outlier_score()
    bound = 4.5 * np.sqrt(p * (1 - p) / 1000) + 1e-3
    assert np.all(np.abs(post.outlier_score() - p) < bound)
    assert np.all(np.abs(post.given.indicators.mean((0, 1)) - p) < bound)
    Xs = np.linspace(-3, 3, 7)[:, None]
    np.testing.assert_allclose(post.mean(Xs), exact.mean(Xs), atol=0.04)
    np.testing.assert_allclose(post.std(Xs), exact.std(Xs), rtol=0.02)
    np.testing.assert_allclose(
        post.log_density(Xs, np.zeros(7)), exact.log_density(Xs, np.zeros(7)), atol=0.06
    )
    np.testing.assert_allclose(post.quantile(Xs, [0.05, 0.5]), exact.quantile(Xs, [0.05, 0.5]), atol=0.08)


def test_the_raster_of_draws(mixtures):
    post = mixtures[True]
    assert post.given.indicators.shape == (4, 1000, 10)
    assert post.given.indicators.dtype == bool
    np.testing.assert_allclose(np.unique(post.given.noise_draws), [0.05, 3.0], rtol=1e-12)
    np.testing.assert_array_equal(post.given.indicators, post.given.noise_draws > 1.0)
    assert set(np.flatnonzero(post.outlier_score() > 0.5)) == {2, 7}


@pytest.mark.slow
def test_over_relaxed_indicators_forget_faster():
    """(5.17): 6000 sweeps alone have the probabilities of the enumeration,
    and the least certain indicator a smaller lag.
    """
    X, y = data()
    exact = model().condition(X, y, Enumeration()).outlier_score()
    K, delta, mask = jnp.pad(model().gp.kernel(X), (0, 6)), jnp.pad(y - 0.1, (0, 6)), jnp.arange(16) < 10
    lag = {}
    for flag in (True, False):

        def sweep(c, key, scales=Indicators(flag)):
            c = scales.sweep(key, NOISES[0], c, K, delta, mask)
            return c, c

        keys = jax.random.split(jax.random.key(0), 6000)
        kept = np.asarray(
            jax.jit(lambda keys, sweep=sweep: jax.lax.scan(sweep, jnp.zeros(16), keys)[1])(keys)
        )[:, :10]
        np.testing.assert_allclose(kept.mean(0), exact, atol=0.01)
        lag[flag] = autocorrelation(kept[:, int(np.argmin(np.abs(exact - 0.5)))])[1]
    assert lag[True] < lag[False] - 0.05


@pytest.mark.representative("laplace")
@pytest.mark.parametrize(
    ("likelihood", "means", "variances"),
    [
        (lk.StudentT(np.sqrt(0.2 / 1.5), 3.0), (0.48111, 1.28611, 0.03593), (0.20606, 0.61093, 0.22591)),
        (lk.Laplace(0.3), (0.49226, 1.62633, 0.01957), (0.15312, 0.35993, 0.16577)),
    ],
    ids=IDS[1:],
)
def test_three_data_against_a_grid(likelihood, means, variances):
    """VER5: exact means and variances by quadrature over (f1, f2, f3)."""
    post = mc.Model(mc.GP(k.SE(1.0, 1.0)), likelihood).condition(
        X3, Y3, dataclasses.replace(QUICK, draws=2000)
    )
    assert np.all(np.abs(post.draws["f"].mean((0, 1)) - means) < 4.5 * error(post))
    assert error(post).max() < 0.02
    np.testing.assert_allclose(post.draws["f"].var((0, 1)), variances, rtol=0.1)
    mean, variance = post.latent_moments(X3)
    np.testing.assert_allclose(mean, means, atol=0.06)
    np.testing.assert_allclose(variance, variances, rtol=0.12)
    assert np.argmax(post.outlier_score()) == 1
    with pytest.raises(ValueError, match="only mixture noise"):
        _ = post.given.indicators


@pytest.mark.slow
@pytest.mark.parametrize("likelihood", NOISES, ids=IDS)
def test_both_samplers_agree(likelihood):
    """ROB10: scales with f exact given them, and Hamiltonian Monte Carlo on f."""
    X, y = data(8)
    m = mc.Model(mc.GP(k.SE(1.0, 1.2)), likelihood)
    ours, other = m.condition(X, y, QUICK), m.condition(X, y, MCMC(draws=600, tune=300, progress=False))
    apart = ours.draws["f"].mean((0, 1)) - other.draws["f"].mean((0, 1))
    assert np.all(np.abs(apart) < 4.5 * np.hypot(error(ours), error(other)))
    np.testing.assert_allclose(ours.draws["f"].std((0, 1)), other.draws["f"].std((0, 1)), rtol=0.2)


# -------------------------------------------------------------------------------------------------
# conditionals


@pytest.mark.slow
def test_scales_come_from_their_conditionals():
    """Kolmogorov-Smirnov distance of 20 000 draws from the exact conditional, below its 0.1 % point."""
    r = np.full(20_000, 0.7)
    t = np.asarray(StudentScales().draw(jax.random.key(0), lk.StudentT(0.4, 3.0), r))
    exact = stats.invgamma(2.0, scale=0.5 * (3.0 * 0.16 + 0.49))
    assert stats.kstest(np.exp(t), exact.cdf).statistic < 1.95 / np.sqrt(r.size)
    for residual in (0.7, 1e-9, 40.0):
        v = np.exp(
            np.asarray(LaplaceScales().draw(jax.random.key(1), lk.Laplace(0.4), np.full(20_000, residual)))
        )
        inverse = stats.geninvgauss(0.5, residual / 0.4, scale=residual * 0.4)  # of the variance
        assert stats.kstest(v, inverse.cdf).statistic < 1.95 / np.sqrt(r.size), residual


@pytest.mark.parametrize("likelihood", NOISES, ids=IDS)
def test_the_density_of_a_state(likelihood):
    """(5.12), (5.47): Gaussian evidence with the noise variances of the state, and their density,
    both by scipy.
    """
    X, y = data(6)
    gp = mc.GP(k.SE(1.0, 1.2), mean=0.1)
    m, scales = mc.Model(gp, likelihood), scales_of(likelihood)
    s = scales.first(np.random.default_rng(2), likelihood, (6,))
    target = scales_target(m, X, y, None, scales)
    z = np.zeros(target.size)
    z[:6] = s
    value = float(target.log_density(z, target.data))
    v = np.asarray(scales.variance(likelihood, s))
    expected = stats.multivariate_normal(np.full(6, 0.1), gp.kernel(X) + np.diag(v)).logpdf(y)
    if isinstance(likelihood, lk.GaussianMixtureNoise):
        expected += np.where(s > 0, np.log(0.15), np.log(0.85)).sum()
    elif isinstance(likelihood, lk.StudentT):
        expected += (stats.invgamma(1.5, scale=1.5 * 0.09).logpdf(v) + s).sum()
    else:
        expected += (stats.expon(scale=2 * 0.09).logpdf(v) + s).sum()
    np.testing.assert_allclose(value, expected, rtol=1e-9)


@pytest.mark.parametrize(
    "likelihood",
    [*NOISES, lk.StudentT(2.0, 1.0), lk.StudentT(0.1, 80.0)],
    ids=[*IDS, "cauchy", "almost normal"],
)
def test_noise_as_a_finite_mixture(likelihood):
    v, w = scales_of(likelihood).components(likelihood)
    e = np.linspace(-3.0, 3.0, 25)
    np.testing.assert_allclose(w.sum(), 1.0, rtol=1e-12)
    np.testing.assert_allclose(
        w @ stats.norm(0, np.sqrt(v)[:, None]).cdf(e), likelihood.noise_cdf(e), atol=2e-5
    )


# -------------------------------------------------------------------------------------------------
# hyperparameters


@pytest.mark.slow
def test_degrees_of_freedom_and_scale_against_a_grid():
    """One datum repeated far apart: f has almost no variance, so that (scale,
    dof) are those of independent t draws, on a grid.
    """
    rng = np.random.default_rng(4)
    y = 0.5 * rng.standard_t(3.0, 40)
    likelihood = lk.StudentT(mc.param(0.5, prior=hp.LogNormal(-1.0, 1.0)), 4.0)
    m = mc.Model(mc.GP(k.SE(mc.fixed(1.0), mc.fixed(1e-8))), likelihood)
    inputs, y = mc.gp.prepare(m, np.arange(40.0)[:, None], y)
    post = dataclasses.replace(QUICK, draws=1500, tune=500).learn(m.bind(inputs), inputs, y, Dense())
    assert any("Gamma(shape=2.0, rate=0.1)" in note for note in post.notes)
    log_s, log_nu = np.meshgrid(np.linspace(-3.5, 1.5, 241), np.linspace(-2.5, 6.0, 301), indexing="ij")
    s, nu = np.exp(log_s), np.exp(log_nu)
    log_p = (
        sum(stats.t(nu, scale=s).logpdf(v) for v in y) - 0.5 * (log_s + 1.0) ** 2 + 2.0 * log_nu - 0.1 * nu
    )
    p = np.exp(log_p - log_p.max())
    p /= p.sum()
    for name, grid in (("likelihood.scale", log_s), ("likelihood.dof", log_nu)):
        mean = (p * grid).sum()
        sd = np.sqrt((p * grid**2).sum() - mean**2)
        drawn = np.log(post.draws[name])
        ess = post.diagnostics.ess_bulk[post.diagnostics.names.index(name)]
        assert ess > 300
        assert abs(drawn.mean() - mean) < 4.5 * sd / np.sqrt(ess)
        np.testing.assert_allclose(drawn.std(), sd, rtol=0.15)


@pytest.mark.slow
def test_mixture_weight_has_its_beta_posterior():
    """With indicators that the data settle, weight given Beta(2, 3) is Beta(2 + 3, 3 + 17);
    without a prior Beta(1, 1) is used.
    """
    y = np.where(np.arange(20) % 7 == 0, 50.0, 0.01 * np.arange(20))
    for prior, a, b in ((hp.Beta(2.0, 3.0), 5.0, 20.0), (None, 4.0, 18.0)):
        weight = mc.param(0.2, prior=prior)
        m = mc.Model(
            mc.GP(k.SE(mc.fixed(1.0), mc.fixed(1.0))),
            lk.GaussianMixtureNoise(weight, mc.fixed(0.1), mc.fixed(1e8)),
        )
        inputs, targets = mc.gp.prepare(m, 3.0 * np.arange(20.0)[:, None], y)
        post = QUICK.learn(m.bind(inputs), inputs, targets, Dense())
        np.testing.assert_array_equal(post.given.indicators.mean((0, 1)) > 0.5, y > 40)
        drawn = post.draws["likelihood.weight"].ravel()
        exact = stats.beta(a, b)
        ess = post.diagnostics.ess_bulk[0]
        assert abs(drawn.mean() - exact.mean()) < 4.5 * exact.std() / np.sqrt(ess)
        np.testing.assert_allclose(drawn.std(), exact.std(), rtol=0.1)
        assert any("Beta(a=1.0" in note for note in post.notes) == (prior is None)


@pytest.mark.slow
@pytest.mark.parametrize("likelihood", NOISES, ids=IDS)
def test_all_hyperparameters_as_mcmc_samples_them(likelihood):
    """Kernel and noise together: medians of the logarithms agree with those of chains on (f, theta)."""
    X, y = data(12, seed=5)
    prior = hp.LogNormal(0.0, 0.7)
    gp = mc.GP(k.SE(mc.param(1.0, prior=prior), mc.param(1.0, prior=prior)))
    if isinstance(likelihood, lk.GaussianMixtureNoise):
        noise = lk.GaussianMixtureNoise(
            mc.param(0.15, prior=hp.Beta(1.0, 5.0)),
            mc.param(0.05, prior=hp.LogNormal(-3.0, 0.7)),
            mc.fixed(60.0),
        )
    elif isinstance(likelihood, lk.StudentT):
        noise = lk.StudentT(mc.param(0.3, prior=hp.LogNormal(-1.5, 0.7)), mc.fixed(3.0))
    else:
        noise = lk.Laplace(mc.param(0.3, prior=hp.LogNormal(-1.5, 0.7)))
    m = mc.Model(gp, noise)
    inputs, y = mc.gp.prepare(m, X, y)
    bound = m.bind(inputs)
    ours = dataclasses.replace(QUICK, tune=300).learn(bound, inputs, y, Dense())
    other = MCMC(draws=1000, tune=500, sampler="hmc", progress=False).learn(bound, inputs, y, Dense())
    for name in Hyperparameters(bound).names:
        pair = [np.log(p.draws[name]) for p in (ours, other)]
        ess = [p.diagnostics.ess_bulk[p.diagnostics.names.index(name)] for p in (ours, other)]
        se = np.hypot(*(d.std() / np.sqrt(e) for d, e in zip(pair, ess, strict=True)))
        assert abs(pair[0].mean() - pair[1].mean()) < 4.5 * se, name
        np.testing.assert_allclose(pair[0].std(), pair[1].std(), rtol=0.25)
    Xs = np.linspace(-2, 2, 5)[:, None]
    fewest = [p.diagnostics.ess_bulk.min() for p in (ours, other)]
    error = np.sqrt(ours.variance(Xs, latent=True)) * np.hypot(*(1 / np.sqrt(e) for e in fewest))
    assert (np.abs(ours.mean(Xs) - other.mean(Xs)) < 4.5 * error).all()
    assert ours.sample(Xs, 3, seed=0).shape == (3, 5)
    assert np.linalg.eigvalsh(ours.covariance(Xs, latent=True)).min() > -1e-9


@pytest.mark.slow
def test_fit_gives_draws_of_the_hyperparameters():
    X, y = data(20, seed=6)
    found = mc.fit(
        mc.Model(mc.GP(k.SE()), lk.GaussianMixtureNoise()),
        X,
        y,
        inference=dataclasses.replace(QUICK, tune=400),
    )
    post = found.posterior
    assert {
        "kernel.lengthscale",
        "kernel.variance",
        "likelihood.weight",
        "likelihood.variance",
        "likelihood.ratio",
        "f",
    } <= set(post.draws)
    assert post.used == 200
    assert post.outlier_score()[[2, -3]].min() > 0.8
    assert "likelihood.ratio: median" in found.summary()
    assert any("no prior was given for kernel.lengthscale" in note for note in post.notes)
    low, high = post.quantile(X, [0.05, 0.95]).T
    inside = np.delete((y > low) & (y < high), [2, -3])
    assert inside.mean() > 0.8


# ------------------------------------------------------------------------------------------------- the rule


def test_mcmc_by_name_is_gibbs_for_scale_mixtures():
    for likelihood in NOISES:
        assert isinstance(by_name("mcmc", likelihood), Gibbs)
    assert isinstance(by_name("mcmc", lk.Poisson()), MCMC)
    assert isinstance(by_name("mcmc"), MCMC)
    assert isinstance(by_name("gibbs"), Gibbs)


@pytest.mark.slow
def test_interrupted_chains_are_kept():
    X, y = data(6)

    def stop(done, total, text):
        if done > 300:
            raise KeyboardInterrupt

    post = model().condition(X, y, dataclasses.replace(QUICK, progress=stop))
    assert 100 < post.draws["f"].shape[1] < 300
    assert not post.status.converged
    assert any("interrupted" in note for note in post.notes)


@pytest.mark.slow
def test_chains_in_different_modes_are_reported():
    """Two clusters of repeated observations contradict each other: either may be the outliers,
    and few chains change their mind.
    """
    X = np.repeat([[0.0], [0.01]], 8, 0)
    y = np.repeat([-3.0, 3.0], 8) + 0.01 * np.tile(np.arange(8), 2)
    m = mc.Model(mc.GP(k.SE(1.0, 10.0)), lk.GaussianMixtureNoise(0.5, 0.01, 1e4))
    post = m.condition(X, y, dataclasses.replace(QUICK, draws=100, tune=0, chains=8))
    assert any("chains disagree on whether rows" in note for note in post.notes)
    assert not post.status.converged


def test_seeds_and_refusals():
    X, y = data(6)
    short = dataclasses.replace(QUICK, draws=50)
    one, same, other = (
        model().condition(X, y, dataclasses.replace(short, seed=s)).draws["f"] for s in (0, 0, 1)
    )
    np.testing.assert_array_equal(one, same)
    assert not np.array_equal(one, other)
    with pytest.raises(SolverError, match="not Poisson: use MCMC"):
        mc.Model(mc.GP(k.SE()), lk.Poisson()).condition(X, np.ones(6), short)
    with pytest.raises(SolverError, match="Gibbs returns draws"):
        mc.log_evidence_and_gradient(model(), X, y, inference=short)
    with pytest.raises(ValueError, match="draws=2 is too few"):
        Gibbs(draws=2)
    with pytest.raises(ValueError, match="strictly between 0 and 1"):
        model().condition(X, y, short).quantile(X, 1.0)
