"""Draws against exact posteriors, quadrature and fine grids; what a posterior made of draws says;
what it refuses.
"""

import dataclasses
import subprocess
import sys

import numpy as np
import pytest
from scipy.special import log_ndtr, ndtr
from scipy.stats import norm, poisson

import mercer as mc
from mercer import hyperpriors as hp
from mercer.inference import MCMC
from mercer.posteriors import GivenLatents, PosteriorError
from mercer.sampling import HMC, sample
from mercer.sampling.hyper import Hyperparameters
from mercer.sampling.interleave import Interleaved
from mercer.sampling.target import joint_target, whiten

k = mc.kernels
QUICK = MCMC(draws=400, tune=200, chains=4, sampler="hmc", progress=False)


def data(n=12, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-3, 3, (n, 1))
    return X, np.sin(2 * X[:, 0]) + 0.3 * rng.standard_normal(n)


def error(post):
    """Standard error of the mean of f at each datum."""
    f = post.draws["f"]
    return f.std((0, 1)) / np.sqrt(np.minimum(post.diagnostics.ess_bulk, f.shape[0] * f.shape[1]))


# ------------------------------------------------------------------------------------------------- latent
# values


@pytest.mark.representative("hmc", "elliptical")
@pytest.mark.parametrize("sampler", ["nuts"])
def test_gaussian_noise_gives_the_exact_posterior(sampler):
    X, y = data()
    model = mc.Model(mc.GP(k.SE(0.8, 1.5), mean=0.2), mc.likelihoods.Gaussian(0.1))
    exact = model.condition(X, y)
    post = model.condition(X, y, dataclasses.replace(QUICK, sampler=sampler))
    m, v = exact.latent_moments(X)
    f = post.draws["f"]
    assert np.all(np.abs(f.mean((0, 1)) - m) < 4.5 * error(post))
    np.testing.assert_allclose(
        f.var((0, 1)), v, rtol=0.25
    )  # the error of a variance of 1000 draws is 5 %, the largest of 12 three times
    Xs = np.linspace(-4, 4, 9)[:, None]
    mean, std = exact.mean_and_std(Xs)
    np.testing.assert_allclose(post.mean(Xs), mean, atol=0.06)
    np.testing.assert_allclose(post.std(Xs), std, rtol=0.06)
    np.testing.assert_allclose(post.quantile(Xs, [0.05, 0.95]), exact.quantile(Xs, [0.05, 0.95]), atol=0.12)
    np.testing.assert_allclose(
        post.log_density(Xs, np.zeros(9)), exact.log_density(Xs, np.zeros(9)), atol=0.15
    )


@pytest.mark.slow
@pytest.mark.parametrize("whitened", ["posterior", "prior"])
def test_exchangeable_probit_has_known_marginals(whitened):
    """K = I + 4 11', ten labels +1: mean and variance of every f by one-dimensional quadrature."""
    model = mc.Model(mc.GP(k.Constant(4.0) + k.SE(1e-3, 1.0)), mc.likelihoods.Bernoulli())
    X, y = np.arange(10.0)[:, None], np.ones(10)
    post = model.condition(X, y, dataclasses.replace(QUICK, whiten=whitened, draws=600, tune=400))
    f = post.draws["f"]
    # all f are alike, and strongly correlated: what counts is the error of the common part
    assert abs(f.mean() - 2.91846) < 4.5 * error(post).max()
    np.testing.assert_allclose(f.var(), 1.97838, rtol=0.15)


@pytest.mark.slow
def test_poisson_against_quadrature_in_two_dimensions():
    X, y = np.array([[0.0], [0.7]]), np.array([0, 6])
    model = mc.Model(mc.GP(k.SE(1.0, 2.0), mean=0.5), mc.likelihoods.Poisson())
    post = model.condition(X, y, QUICK)
    g = np.linspace(-6, 6, 601)
    a, b = np.meshgrid(g, g, indexing="ij")
    K = k.SE(1.0, 2.0)(X)
    e = np.stack([a - 0.5, b - 0.5], -1)
    log_p = (
        -0.5 * np.einsum("...i,ij,...j", e, np.linalg.inv(K), e)
        + poisson(np.exp(a)).logpmf(0)
        + poisson(np.exp(b)).logpmf(6)
    )
    w = np.exp(log_p - log_p.max())
    w /= w.sum()
    exact = np.array([(w * a).sum(), (w * b).sum()])
    assert np.all(np.abs(post.draws["f"].mean((0, 1)) - exact) < 4.5 * error(post))
    assert error(post).max() < 0.04
    np.testing.assert_allclose(post.mean(X), [(w * np.exp(a)).sum(), (w * np.exp(b)).sum()], rtol=0.08)
    # a test input: f there given f at the data is Gaussian, so its average is another quadrature
    Xs = np.array([[0.3]])
    weights = np.linalg.solve(K, k.SE(1.0, 2.0)(X, Xs))[:, 0]
    rest = 2.0 - k.SE(1.0, 2.0)(X, Xs)[:, 0] @ weights
    centre = 0.5 + e @ weights
    np.testing.assert_allclose(post.mean(Xs, latent=True), (w * centre).sum(), atol=0.12)
    variance = rest + (w * centre**2).sum() - (w * centre).sum() ** 2
    np.testing.assert_allclose(post.variance(Xs, latent=True), variance, rtol=0.12)


@pytest.mark.slow
def test_classes_several_latents_and_basis_functions():
    X, y = data(15)
    labels = np.digitize(y, [-0.4, 0.4])
    post = mc.Model(mc.GP(k.SE(1.0, 2.0)), mc.likelihoods.Softmax(3)).condition(X, labels, QUICK)
    assert post.draws["f"].shape == (4, 400, 15, 3)
    p = post.probability(X)
    np.testing.assert_allclose(p.sum(1), 1.0, atol=1e-9)
    assert np.mean(p.argmax(1) == labels) > 0.75
    mean, covariance = post.latent_moments(X[:4])
    assert mean.shape == (4, 3)
    assert np.linalg.eigvalsh(covariance).min() > 0
    basis = mc.means.Polynomial(1, covariance=4.0)
    with_basis = mc.Model(mc.GP(k.SE(), basis=basis), mc.likelihoods.Bernoulli())
    signs = np.sign(y)
    ep = with_basis.condition(X, signs, "ep")  # its error is below 0.01 here
    np.testing.assert_allclose(
        with_basis.condition(X, signs, QUICK).probability(X), ep.probability(X), atol=0.04
    )
    with pytest.raises(ValueError, match="proper prior"):
        mc.Model(mc.GP(k.SE(), basis=mc.means.Polynomial(1)), mc.likelihoods.Gaussian(0.1)).condition(
            X, y, QUICK
        )


# -------------------------------------------------------------------------------------------------
# predictions from draws


@pytest.fixture(scope="module")
def classified():
    X, y = data(12)
    model = mc.Model(mc.GP(k.SE(1.0, 4.0)), mc.likelihoods.Bernoulli())
    return model, X, np.where(y > 0, 1, -1), model.condition(X, np.where(y > 0, 1, -1), QUICK)


@pytest.mark.slow
def test_copies_of_one_draw_are_one_gaussian(classified):
    model, X, _, post = classified
    one = dataclasses.replace(post, given=GivenLatents(np.repeat(post.given.whitened[:1], 7, 0)))
    single = dataclasses.replace(post, given=GivenLatents(post.given.whitened[:1]))
    Xs = np.linspace(-4, 4, 5)[:, None]
    f = post.draws["f"].reshape(-1, 12)[0]
    K, cross = model.gp.kernel(X), model.gp.kernel(X, Xs)
    mean, variance = one.latent_moments(Xs)
    np.testing.assert_allclose(mean, cross.T @ np.linalg.solve(K, f), rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(
        variance, 4.0 - np.sum(cross * np.linalg.solve(K, cross), 0), rtol=1e-6, atol=1e-8
    )
    np.testing.assert_allclose(one.probability(Xs), ndtr(mean / np.sqrt(1 + variance)), rtol=1e-9)
    np.testing.assert_allclose(one.probability(Xs), single.probability(Xs), rtol=1e-12)


def test_probabilities_densities_and_draws_agree(classified):
    _, _, _, post = classified
    Xs = np.array([[-2.0], [0.1], [5.0]])
    p = post.probability(Xs)
    np.testing.assert_allclose(post.mean(Xs), p)
    np.testing.assert_allclose(post.variance(Xs), p * (1 - p), rtol=1e-9)
    np.testing.assert_allclose(np.exp(post.log_density(Xs, np.ones(3))), p, rtol=1e-9)
    np.testing.assert_allclose(np.exp(post.log_density(Xs, -np.ones(3))), 1 - p, rtol=1e-9)
    np.testing.assert_array_equal(post.quantile(Xs, 0.5), (p > 0.5).astype(float))
    mean, variance = post.latent_moments(Xs)
    f = post.sample(Xs, 4000, seed=0, latent=True)
    np.testing.assert_allclose(f.mean(0), mean, atol=0.15)  # 4.5 standard errors of 2 / sqrt(4000)
    np.testing.assert_allclose(f.var(0), variance, rtol=0.12)
    np.testing.assert_allclose(np.cov(f.T), post.covariance(Xs, latent=True), atol=0.4)
    labels = post.sample(Xs, 2000, seed=1)
    assert set(np.unique(labels)) == {-1.0, 1.0}
    np.testing.assert_allclose((labels == 1).mean(0), p, atol=0.05)
    assert np.abs(post.probability(Xs, how="map") - 0.5)[0] >= np.abs(p - 0.5)[0]


def test_draws_have_no_evidence_and_say_who_has(classified):
    model, X, y, post = classified
    with pytest.raises(PosteriorError, match="AIS"):
        post.log_evidence
    with pytest.raises(ValueError, match=r"mercer\.fit"):
        mc.log_evidence_and_gradient(model, X, y, inference=QUICK)
    assert post.status.converged
    assert "R-hat" in repr(post)
    assert "chains" in post.summary()
    assert post.model.gp.kernel.lengthscale == 1.0  # condition never changes hyperparameters
    with pytest.raises(ValueError, match="2 columns"):
        post.mean(np.zeros((2, 2)))


@pytest.mark.slow
def test_quantiles_are_those_of_the_mixture():
    X, y = data(8)
    model = mc.Model(mc.GP(k.SE(0.8, 1.5)), mc.likelihoods.Gaussian(0.1))
    post = model.condition(X, y, QUICK)
    u = post.given.whitened[0]
    two = dataclasses.replace(post, given=GivenLatents(np.stack([u + 2.0, u - 2.0])))
    Xs = np.array([[0.0], [1.0]])
    q = two.quantile(Xs, [0.1, 0.5, 0.9])
    parts = [
        dataclasses.replace(post, given=GivenLatents(two.given.whitened[[i]])).mean_and_std(Xs)
        for i in (0, 1)
    ]
    cdf = np.mean([norm(m[:, None], s[:, None]).cdf(q) for m, s in parts], 0)
    np.testing.assert_allclose(cdf, np.tile([0.1, 0.5, 0.9], (2, 1)), atol=1e-9)


# -------------------------------------------------------------------------------------------------
# hyperparameters


def regression():
    X, y = data(15, seed=2)
    noise = mc.param(0.1, prior=hp.LogNormal(-2.0, 0.7))
    model = mc.Model(
        mc.GP(k.SE(mc.param(1.0, prior=hp.LogNormal(0.0, 0.6)), mc.fixed(1.0))),
        mc.likelihoods.Gaussian(noise),
    )
    a, b = np.linspace(-2.5, 2.0, 46), np.linspace(-5.0, 0.5, 46)
    prior = -0.5 * (a[:, None] / 0.6) ** 2 - 0.5 * ((b[None] + 2.0) / 0.7) ** 2
    evidence = np.array(
        [[mc.log_evidence(mc.GP(k.SE(np.exp(i), 1.0)), X, y, noise_variance=np.exp(j)) for j in b] for i in a]
    )
    w = np.exp(evidence + prior - (evidence + prior).max())
    w /= w.sum()
    moments = [
        (w.sum(1) @ a, np.sqrt(w.sum(1) @ a**2 - (w.sum(1) @ a) ** 2)),
        (w.sum(0) @ b, np.sqrt(w.sum(0) @ b**2 - (w.sum(0) @ b) ** 2)),
    ]
    return model, X, y, moments


@pytest.fixture(scope="module")
def grid():
    return regression()


def agrees(draws, moments):
    """Mean within 4.5 Monte-Carlo errors, standard deviation within 15 %."""
    from mercer.sampling import effective_sample_size

    for x, (mean, sd) in zip(np.moveaxis(draws, -1, 0), moments, strict=True):
        ess = effective_sample_size(x)
        assert ess > 150
        assert abs(x.mean() - mean) < 4.5 * sd / np.sqrt(ess), (x.mean(), mean, sd, ess)
        np.testing.assert_allclose(x.std(), sd, rtol=0.15)


@pytest.mark.slow
def test_hyperparameters_against_a_fine_grid(grid):
    model, X, y, moments = grid
    fit = mc.fit(model, X, y, inference=MCMC(draws=500, tune=300, progress=False))
    post = fit.posterior
    draws = np.log(np.stack([post.draws["kernel.lengthscale"], post.draws["likelihood.noise_variance"]], -1))
    agrees(draws, moments)
    assert fit.status.converged
    assert float(fit.model.gp.kernel.lengthscale) == pytest.approx(np.exp(np.median(draws[..., 0])), rel=1e-6)
    assert fit.model.gp.kernel.variance == 1.0
    assert "median" in fit.summary()
    Xs = np.array([[0.0], [6.0]])
    mean, std = post.mean_and_std(Xs)
    assert post.used == 200
    assert any("200 of 2000" in note for note in post.notes)
    by_hand = [m.condition(X, y).mean_and_std(Xs) for m in post.models]
    means, stds = (np.array(v) for v in zip(*by_hand, strict=True))
    np.testing.assert_allclose(mean, means.mean(0), rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(std**2, (stds**2).mean(0) + means.var(0), rtol=1e-8)
    assert post.sample(Xs, 5, seed=0).shape == (5, 2)


@pytest.mark.slow
@pytest.mark.parametrize("interleaved", [False, True], ids=["ancillary", "interleaved"])
def test_joint_sampling_against_the_same_grid(grid, interleaved):
    """Latents and hyperparameters together, for Gaussian noise:
    the marginal of theta is known from the grid.
    """
    model, X, y, moments = grid
    hyper = Hyperparameters(model)
    sites = mc.solvers.Sites(y[:, None], np.full((15, 1), 10.0))
    target = joint_target(model, X, y, hyper, whiten(model, X, sites))
    step = HMC(leapfrogs=12, longest=1.6)
    step = Interleaved(step, hyper.spec, 1) if interleaved else step
    start = np.zeros((4, target.size))
    start[:, -2:] = hyper.vector + 0.3 * np.random.default_rng(0).standard_normal((4, 2))
    chains = sample(
        target.log_density, start, sampler=step, draws=600, tune=400, data=target.data, seed=1, progress=False
    )
    agrees(chains.draws[..., -2:], moments)


@pytest.mark.slow
def test_fit_of_a_classifier_samples_both(classified):
    _, X, y, _ = classified
    model = mc.Model(
        mc.GP(k.SE(mc.param(1.0, prior=hp.LogNormal(0.0, 0.5)), mc.fixed(4.0))), mc.likelihoods.Bernoulli()
    )
    fit = mc.fit(model, X, y, inference=dataclasses.replace(QUICK, draws=400, tune=300))
    x = np.linspace(-1.8, 1.8, 37)
    fixed = [mc.Model(mc.GP(k.SE(np.exp(i), 4.0)), mc.likelihoods.Bernoulli()) for i in x]
    # EP is within 0.05 here
    log_p = np.array([mc.log_evidence(m, X, y, inference="ep") for m in fixed]) - 0.5 * (x / 0.5) ** 2
    w = np.exp(log_p - log_p.max())
    w /= w.sum()
    draws = np.log(fit.posterior.draws["kernel.lengthscale"])
    np.testing.assert_allclose(draws.mean(), w @ x, atol=0.1)
    p = fit.posterior.probability(X)
    assert np.mean((p > 0.5) == (y > 0)) > 0.9
    assert fit.posterior.draws["u"].shape == (4, 400, 1, 12)


@pytest.mark.slow
def test_simulation_based_calibration():
    """Hyperparameter and latents drawn from the prior, data from them:
    the rank of the truth among draws must be uniform.
    """
    X = np.linspace(-2, 2, 8)[:, None]
    prior = hp.LogNormal(0.0, 0.5)
    model = mc.Model(mc.GP(k.SE(mc.param(1.0, prior=prior), mc.fixed(1.0))), mc.likelihoods.Poisson())
    hyper, white = Hyperparameters(model), whiten(model, X)
    rng = np.random.default_rng(7)
    ranks = []
    for seed in range(60):
        l = float(prior.sample(rng))
        f = mc.GP(k.SE(l, 1.0)).sample(X, 1, rng)[0]
        y = rng.poisson(np.exp(f)).astype(float)
        target = joint_target(model, X, y, hyper, white)
        start = np.zeros((2, target.size))
        start[:, -1] = rng.normal(0.0, 0.5, 2)
        chains = sample(
            target.log_density,
            start,
            sampler=HMC(10, longest=1.6),
            draws=25,
            tune=125,
            thin=4,
            chains=2,
            data=target.data,
            seed=seed,
            progress=False,
        )
        ranks.append([np.mean(chains.draws[..., -1] < np.log(l)), np.mean(chains.draws[..., 0] < f[0])])
    ranks = np.array(ranks)
    # of 60 uniform ranks, the Kolmogorov distance exceeds 0.25 once in a thousand
    grid = np.linspace(0, 1, 21)
    for column in ranks.T:
        assert np.abs((column[:, None] <= grid).mean(0) - grid).max() < 0.25
    np.testing.assert_allclose(ranks.mean(0), 0.5, atol=0.13)  # 3.5 standard errors of 0.29 / sqrt(60)


# ------------------------------------------------------------------------------------------------- what can
# go wrong


def test_bad_requests_are_refused():
    for bad, message in (
        ({"chains": 0}, "at least one chain"),
        ({"draws": 2}, "too few"),
        ({"sampler": "gibbs"}, "unknown sampler"),
        ({"thin": 0}, "thin"),
        ({"whiten": "no"}, "whiten"),
        ({"updates": "no"}, "updates"),
    ):
        with pytest.raises(ValueError, match=message):
            MCMC(**bad)


@pytest.mark.slow
def test_few_draws_are_not_called_converged():
    X, y = data(10)
    model = mc.Model(mc.GP(k.SE(1.0, 9.0)), mc.likelihoods.Bernoulli())
    post = model.condition(
        X, np.sign(y), MCMC(draws=10, tune=0, chains=2, sampler="metropolis", progress=False)
    )
    assert not post.status.converged
    assert any("draw" in note for note in post.notes)
    with pytest.warns(mc.learning.FitWarning, match="not be trusted"):
        free = mc.Model(mc.GP(k.SE()), mc.likelihoods.Gaussian())
        fit = mc.fit(
            free, X, y, inference=MCMC(draws=10, tune=0, chains=2, sampler="metropolis", progress=False)
        )
    assert any("LogNormal(log start, 3)" in note for note in fit.posterior.notes)
    with pytest.raises(ValueError, match="needs noise"):
        mc.fit(mc.Model(mc.GP(k.SE()), mc.likelihoods.Gaussian(0.0)), X, y, inference=QUICK)
    with pytest.raises(ValueError, match="one data set"):
        mc.fit(free, [X, X], [y, y], inference=QUICK)


def test_interrupting_keeps_the_draws():
    X, y = data(10)

    def progress(done, total, text):
        if text == "draws" and done >= 300:
            raise KeyboardInterrupt

    model = mc.Model(mc.GP(k.SE()), mc.likelihoods.Bernoulli())
    post = model.condition(X, np.sign(y), dataclasses.replace(QUICK, progress=progress))
    assert post.draws["f"].shape == (4, 100, 10)
    assert not post.status.converged
    assert any("interrupted: 100 of 400" in note for note in post.notes)
    assert np.isfinite(post.probability(X)).all()


def test_importing_mercer_does_not_import_blackjax():
    code = (
        "import sys, mercer; mercer.inference.MCMC(), mercer.sampling, mercer.fit; sys.exit('blackjax' "
        "in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.slow
def test_log_ndtr_reference():
    """The quadrature behind the numbers of the exchangeable problem."""
    u, w = np.polynomial.hermite_e.hermegauss(100)
    assert np.log(w @ np.exp(10 * log_ndtr(2.0 * u / np.sqrt(2.0))) / np.sqrt(2 * np.pi)) == pytest.approx(
        -1.849497, abs=2e-4
    )
