"""Hyperparameters integrated over a few settings, against a fine grid."""

import numpy as np
import pytest

import mercer as mc
from mercer import kernels as k
from mercer.hyperpriors import LogNormal
from mercer.learning import integrate
from mercer.learning.integration import _design, _volume
from mercer.likelihoods import Bernoulli, Gaussian
from mercer.posteriors import AveragedPosterior

RNG = np.random.default_rng(2)
X = np.sort(RNG.uniform(-3, 3, 30))[:, None]
Y = np.sin(1.5 * X[:, 0]) + 0.3 * RNG.normal(size=30)
XS = np.linspace(-4, 4, 9)[:, None]
MODEL = mc.Model(
    mc.GP(k.SE(mc.param(1.0, prior=LogNormal(0.0, 1.0)), mc.fixed(1.0))),
    Gaussian(mc.param(0.1, prior=LogNormal(-2.0, 1.0))),
)


def fine_grid():
    """Mean and variance by brute force over (log l, log noise),
    with the same priors as densities of the logarithms.
    """
    logs, parts = [], []
    for l in np.linspace(-1.5, 2.5, 25):
        for s in np.linspace(-5, 1, 25):
            model = mc.Model(mc.GP(k.SE(np.exp(l), 1.0)), Gaussian(np.exp(s)))
            post = model.condition(X, Y)
            logs.append(post.log_evidence - 0.5 * l**2 - 0.5 * (s + 2.0) ** 2)
            parts.append(post.mean_and_std(XS))
    w = np.exp(np.array(logs) - max(logs))
    w /= w.sum()
    means, stds = (np.stack(x) for x in zip(*parts, strict=True))
    mean = w @ means
    return mean, np.sqrt(w @ (stds**2 + (means - mean) ** 2))


def test_against_a_fine_grid():
    """Both designs come closer to the integral than the mode alone, which is too sure of itself."""
    fit = mc.fit(MODEL, X, Y)
    mean, std = fine_grid()
    alone = np.max(np.abs(fit.posterior.std(XS) - std))
    for how in ("ccd", "grid"):
        post = integrate(fit, how=how)
        m, s = post.mean_and_std(XS)
        assert np.max(np.abs(s - std)) < 0.5 * alone, how
        assert np.max(np.abs(m - mean)) < 0.1 * np.max(std)
        assert "integrated over" in post.notes[0] and post.weights.sum() == pytest.approx(1.0)


def test_composite_kernels_are_averaged():
    """D.EB3: a short SE and a periodic term (Ebden 12), length-scale, frequency and noise integrated out,
    against brute force in NumPy; the spread of the frequency widens the band where it is extrapolated.
    """
    x = np.sort(RNG.uniform(0, 4, 25))
    y = np.sin(2 * np.pi * 0.8 * x) + 0.4 * np.sin(5 * x) + 0.2 * RNG.normal(size=25)
    xs = np.array([1.0, 4.5, 6.0, 8.0])
    said = {"l": (-0.7, 0.5), "p": (0.22, 0.05), "s": (-3.2, 0.5)}  # log normal priors
    value = {name: mc.param(np.exp(m), prior=LogNormal(m, sd)) for name, (m, sd) in said.items()}
    kernel = k.SE(value["l"], mc.fixed(0.3)) + k.Periodic(value["p"], mc.fixed(1.0), mc.fixed(1.0))
    fit = mc.fit(mc.Model(mc.GP(kernel), Gaussian(value["s"])), x[:, None], y)

    def covariance(a, b, l, p):
        r = a[:, None] - b[None]
        return 0.3 * np.exp(-0.5 * (r / l) ** 2) + np.exp(-2.0 * np.sin(np.pi * r / p) ** 2)

    logs, means, variances = [], [], []
    steps = np.linspace(-2.5, 2.5, 15)
    for u in np.stack(np.meshgrid(steps, steps, steps), -1).reshape(-1, 3):
        l, p, s = (np.exp(m + sd * v) for (m, sd), v in zip(said.values(), u, strict=True))
        K, cross = covariance(x, x, l, p) + s * np.eye(25), covariance(xs, x, l, p)
        solved = np.linalg.solve(K, np.column_stack([y, cross.T]))
        logs.append(-0.5 * (y @ solved[:, 0] + np.linalg.slogdet(K)[1]) - 0.5 * u @ u)
        means.append(cross @ solved[:, 0])
        variances.append(1.3 - np.einsum("ij,ji->i", cross, solved[:, 1:]))
    w = np.exp(np.array(logs) - max(logs))
    w /= w.sum()
    mean = w @ np.array(means)
    std = np.sqrt(w @ (np.array(variances) + (means - mean) ** 2))
    for how in ("ccd", "grid"):
        m, s = integrate(fit, how=how).mean_and_std(xs[:, None], latent=True)
        np.testing.assert_allclose(m, mean, atol=0.15 * std.max())
        np.testing.assert_allclose(s, std, rtol=0.15)


@pytest.mark.parametrize("p", [1, 2, 3, 5, 7])
def test_design_has_the_moments_of_a_normal(p):
    """With a standard normal posterior the weighted points have mean 0 and E|z|^2 = p."""
    points = np.array(_design(p))
    w = np.exp([-0.5 * z @ z + _volume(z, p, "ccd") for z in points])
    w /= w.sum()
    np.testing.assert_allclose(w @ points, 0.0, atol=1e-12)
    assert w @ np.sum(points**2, 1) == pytest.approx(p, rel=1e-10)


def test_classification_and_nothing_to_integrate():
    y = np.where(Y > 0, 1.0, -1.0)
    model = mc.Model(
        mc.GP(k.SE(mc.param(1.0, prior=LogNormal(0.0, 1.0)), mc.param(4.0, prior=LogNormal(1.4, 1.0)))),
        Bernoulli(),
    )
    fit = mc.fit(model, X, y, inference="laplace")
    p = integrate(fit, inference="laplace").probability(XS)
    assert p.shape == (9,) and np.all((p > 0) & (p < 1)) and not np.allclose(p, fit.posterior.probability(XS))
    fixed = mc.fit(mc.Model(mc.GP(k.SE(mc.fixed(1.0), mc.fixed(1.0))), Gaussian(mc.fixed(0.1))), X, Y)
    np.testing.assert_allclose(integrate(fixed).mean(XS), fixed.posterior.mean(XS))
    with pytest.raises(ValueError, match="'ccd' or 'grid'"):
        integrate(fit, how="magic", inference="laplace")


def test_averaging():
    """BAY6: two identical models change nothing; quantiles and draws are those of the mixture."""
    a = mc.GP(k.SE(1.0, 1.0)).condition(X, Y, noise_variance=0.1)
    b = mc.GP(k.SE(0.3, 2.0)).condition(X, Y, noise_variance=0.1)
    twice = AveragedPosterior((a, a), np.array([0.3, 0.7]))
    np.testing.assert_allclose(twice.mean_and_std(XS), a.mean_and_std(XS), rtol=1e-12)
    np.testing.assert_allclose(twice.quantile(XS, 0.9), a.quantile(XS, 0.9), rtol=1e-9)
    np.testing.assert_allclose(twice.log_density(X, Y), a.log_density(X, Y), rtol=1e-12)
    both = AveragedPosterior((a, b), np.array([0.25, 0.75]))
    draws = both.sample(XS, 4000, seed=0)
    np.testing.assert_allclose(draws.mean(0), both.mean(XS), atol=5 * both.std(XS).max() / np.sqrt(4000))
    np.testing.assert_allclose(np.quantile(draws, 0.9, axis=0), both.quantile(XS, 0.9), atol=0.1)
    with pytest.raises(ValueError, match="sum to one"):
        AveragedPosterior((a, b), np.array([0.5, 0.6]))
