"""Values published or derived from the texts, and what the texts say should be seen."""

import numpy as np
import pytest
from scipy.special import log_ndtr, ndtr

import mercer as mc
from mercer import kernels as k
from mercer import likelihoods as lk

from .conformance import CLASSES, LABELS, OUTLYING, REAL, RULES, XS, N, X
from .reference import se

ONE = np.zeros((1, 1))


def one_datum(likelihood, y, mean, variance, rule):
    post = mc.Model(mc.GP(k.Constant(variance), mean), likelihood).condition(ONE, [y], RULES[rule])
    m, v = post.latent_moments(ONE)
    return post, m[0], v[0]


def test_one_observation_by_laplace_and_ep():
    """Kuss Fig. 6.3(a): prior N(0, 25), y = 1."""
    post, m, v = one_datum(lk.Bernoulli(), 1, 0.0, 25.0, "laplace")
    assert (m, v, post.log_evidence) == pytest.approx((1.85250914, 5.47158289, -0.86078852), abs=1e-8)
    assert ndtr(-m / np.sqrt(v)) == pytest.approx(0.21419, abs=1e-5)
    post, m, v = one_datum(lk.Bernoulli(), 1, 0.0, 25.0, "ep")
    assert (m, v, post.log_evidence) == pytest.approx((3.91195091, 9.69664009, np.log(0.5)), abs=1e-7)
    assert ndtr(-m / np.sqrt(v)) == pytest.approx(0.10451, abs=1e-5)


def test_the_site_of_figure_3_4():
    """y = +1, cavity N(1, 9)."""
    post, m, v = one_datum(lk.Bernoulli(), 1, 1.0, 9.0, "ep")
    assert (np.exp(post.log_evidence), m, v) == pytest.approx((0.624085, 2.730589, 4.447531), abs=1e-6)
    W, c, g = (
        float(a[0, 0]) for a in (post.state.sites.precision, post.state.sites.centre, post.state.sites.slope)
    )
    centre, spread = c + g / W, 1 / W
    assert (spread, centre) == pytest.approx((8.792543, 4.421287), abs=1e-5)
    log_scale = (
        post.log_evidence + 0.5 * np.log(2 * np.pi * (9 + spread)) + 0.5 * (1 - centre) ** 2 / (9 + spread)
    )
    assert np.exp(log_scale) == pytest.approx(9.168700, abs=1e-5)


@pytest.mark.parametrize(
    ("likelihood", "y", "mean", "variance", "m0", "m1", "m2"),
    [
        (lk.Bernoulli(), -1, 0.6, 2.3, 0.3705907529, -0.6906175413, 1.6509717405),
        (lk.Bernoulli(flip=0.1), 1, -0.7, 1.9, 0.3724131305, 0.1786972638, 1.5628125758),
        (lk.Gaussian(0.25), 1.3, -0.4, 0.7, 0.0894259368, 0.8526315789, 0.9111911357),
        (lk.Laplace(1.0), 0.0, 0.0, 1.0, 0.2615782919, 0.0, 0.4748647238),
    ],
    ids=["CLS3", "CLS14", "normal", "laplace"],
)
def test_tilted_moments(likelihood, y, mean, variance, m0, m1, m2):
    post, m, v = one_datum(likelihood, y, mean, variance, "ep")
    assert (np.exp(post.log_evidence), m, v + m**2) == pytest.approx((m0, m1, m2), abs=1e-8)


EXCHANGEABLE = [  # a, b, n, exact log evidence, EP, Laplace, EP mean / variance, Laplace mean / variance
    (1, 4, 10, -1.849497, -1.878670, -1.998736, 2.9026, 1.79878, 2.0484, 1.58842),
    (25, 100, 100, -2.247172, -2.356085, -3.124621, 16.7373, 35.96957, 3.7353, 30.62174),
    (1, 100, 100, -1.016977, -1.376006, -1.500455, 10.4615, 10.4614, 3.7347, 7.67858),
]


def exchangeable(a, b, n):
    """K = a I + b 11', as a model with all labels +1; log p(y) by quadrature in one variable."""
    u = np.linspace(-12, 12, 20001)
    exact = np.log(
        np.sum(np.exp(-0.5 * u**2 + n * log_ndtr(np.sqrt(b) * u / np.sqrt(1 + a))))
        * (u[1] - u[0])
        / np.sqrt(2 * np.pi)
    )
    return mc.GP(k.SE(1e-3, a) + k.Constant(b)), np.arange(n, dtype=float)[:, None], np.ones(n), exact


@pytest.mark.parametrize("row", EXCHANGEABLE, ids=lambda r: f"a={r[0]}, b={r[1]}, n={r[2]}")
def test_exchangeable_probit(row):
    """VER1. EP is close but not exact; Laplace's mean is much too small, and its sign right."""
    a, b, n, exact, ep, laplace, ep_mean, ep_variance, laplace_mean, laplace_variance = row
    gp, inputs, y, by_quadrature = exchangeable(a, b, n)
    assert by_quadrature == pytest.approx(exact, abs=2e-6)
    for rule, value, m, v in (
        ("ep", ep, ep_mean, ep_variance),
        ("laplace", laplace, laplace_mean, laplace_variance),
    ):
        post = mc.Model(gp, lk.Bernoulli()).condition(inputs, y, rule)
        assert post.status.converged
        assert post.log_evidence == pytest.approx(value, abs=2e-5)
        mean, variance = post.latent_moments(inputs[:2])
        np.testing.assert_allclose(mean, m, rtol=1e-4)
        np.testing.assert_allclose(variance, v, rtol=1e-4)


def test_a_truncated_gaussian_is_the_limit_of_large_latents():
    """With K = s^2 C and s large, the probit is a step: the evidence is the probability of the positive
    orthant, and the posterior a truncated Gaussian, whose mean Laplace puts far too low."""
    s2, n = 1e6, 20
    gp, inputs, y, _ = exchangeable(s2, 4 * s2, n)
    u = np.linspace(-10, 10, 20001)
    orthant = np.log(np.sum(np.exp(-0.5 * u**2 + n * log_ndtr(2 * u))) * (u[1] - u[0]) / np.sqrt(2 * np.pi))
    ep, laplace = (mc.Model(gp, lk.Bernoulli()).condition(inputs, y, rule) for rule in ("ep", "laplace"))
    assert ep.log_evidence == pytest.approx(orthant, abs=0.1)
    w = np.exp(-0.5 * u**2 + n * log_ndtr(2 * u))
    r = np.exp(-0.5 * (2 * u) ** 2 - 0.5 * np.log(2 * np.pi) - log_ndtr(2 * u))
    mean = np.sqrt(s2) * np.average(2 * u + r, weights=w)  # E[x | x > 0] for N(2u, 1), averaged over u
    assert ep.mean(inputs[:1], latent=True)[0] == pytest.approx(mean, rel=0.02)
    assert laplace.mean(inputs[:1], latent=True)[0] < 0.05 * mean
    assert laplace.log_evidence < ep.log_evidence - 2


def test_evidence_is_flat_in_a_large_signal_variance_by_ep_only():
    """CLS15, VER7: ln sigma from 6 to 8."""
    values = {}
    for rule in ("ep", "laplace"):
        for ln in (0, 4, 6, 8):
            model = mc.Model(mc.GP(k.SE(0.9, np.exp(2.0 * ln))), lk.Bernoulli())
            values[rule, ln] = model.condition(X, LABELS, rule).log_evidence
    assert abs(values["ep", 8] - values["ep", 6]) < 1e-3
    assert values["laplace", 8] < values["laplace", 6] - 0.5 < values["laplace", 4] - 1.0


def test_a_prior_on_the_variance_stops_its_growth():
    """MAP-II: where the evidence is flat the prior decides."""
    from mercer import hyperpriors

    y = np.where(X[:, 0] > 0, 1.0, -1.0)  # separable: the evidence alone asks for a large variance
    with pytest.warns(mc.learning.FitWarning, match="can be separated"):
        free = mc.fit(mc.Model(mc.GP(k.SE(mc.fixed(1.5), 1.0)), lk.Bernoulli()), X, y, inference="ep")
    prior = hyperpriors.LogNormal(0.0, 1.0)
    held = mc.fit(
        mc.Model(mc.GP(k.SE(mc.fixed(1.5), mc.param(1.0, prior=prior))), lk.Bernoulli()), X, y, inference="ep"
    )
    assert held.model.gp.kernel.variance < 0.2 * free.model.gp.kernel.variance


# ------------------------------------------------------------------------------------------------- what the
# texts say


def test_well_explained_points_hardly_count():
    """C11: far on the right side alpha, W -> 0; without them the posterior stays.
    alpha has the label's sign.
    """
    far = np.array([[0.1, 0.1], [0.0, -0.1]])
    gp = mc.GP(k.SE(1.5, 400.0))
    y = np.where(X[:, 0] > 0, 1.0, -1.0)
    post = mc.Model(gp, lk.Bernoulli()).condition(X, y, RULES["laplace"])
    alpha, W = post.state.alpha, post.state.sites.precision[:, 0]
    assert np.all(alpha * y > 0)
    explained = alpha * y < 1e-3 * np.max(alpha * y)
    assert 2 <= explained.sum() < N and np.all(W[explained] < 1e-2 * W.max())
    rest = mc.Model(gp, lk.Bernoulli()).condition(X[~explained], y[~explained], RULES["laplace"])
    a, b = post.latent_moments(far), rest.latent_moments(far)
    np.testing.assert_allclose(a[0], b[0], rtol=1e-3)
    np.testing.assert_allclose(a[1], b[1], rtol=1e-3)


@pytest.mark.parametrize("link", ["probit", "logit"])
def test_averaging_is_more_cautious_and_gives_the_same_label(link):
    """C9."""
    grid = np.random.default_rng(2).normal(size=(60, 2)) * 2
    for rule in ("laplace", "ep"):
        post = mc.Model(mc.GP(k.SE(0.9, 9.0)), lk.Bernoulli(link)).condition(X, LABELS, rule)
        average, at_mean = post.probability(grid), post.probability(grid, how="map")
        assert np.all(np.abs(average - 0.5) <= np.abs(at_mean - 0.5) + 1e-12)
        assert np.all((average > 0.5) == (at_mean > 0.5))
        if link == "logit":
            m, v = post.latent_moments(grid)
            np.testing.assert_allclose(post.model.likelihood.probability(m, v, "mackay"), average, atol=0.02)
        else:
            m, v = post.latent_moments(grid)
            np.testing.assert_allclose(average, ndtr(m / np.sqrt(1 + v)), atol=1e-12)
    assert post.probability([[40.0, 40.0]])[0] == pytest.approx(0.5, abs=1e-12)  # far away nothing is known


def test_with_three_classes_the_covariance_can_change_the_label():
    """C13: the class of largest latent mean loses where two others vary together against it."""
    mean = np.array([[0.3, 0.0, -0.1]])
    variance = np.diag([0.01, 30.0, 0.01])[None]
    softmax = lk.Softmax(3)
    at_mean, average = (softmax.probability(mean, variance, how=how)[0] for how in ("map", "average"))
    assert at_mean.argmax() == 0 and average.argmax() == 1
    f1 = np.linspace(-40, 40, 40001)  # the others hardly vary: one integral
    w = np.exp(-0.5 * f1**2 / 30.0)
    e = np.exp(np.stack([np.full(f1.shape, 0.3), f1, np.full(f1.shape, -0.1)]))
    by_hand = np.average(e / e.sum(0), weights=w, axis=1)
    np.testing.assert_allclose(average, by_hand, atol=5e-3)
    # and in a posterior: one class has a far more variable prior
    gps = tuple(mc.GP(k.SE(0.9, v)) for v in (0.5, 0.5, 40.0))
    post = mc.Model(gps, lk.Softmax(3)).condition(X, CLASSES, RULES["laplace"])
    grid = np.stack(np.meshgrid(np.linspace(-3, 3, 13), np.linspace(-3, 3, 13)), -1).reshape(-1, 2)
    assert np.any(post.probability(grid).argmax(1) != post.probability(grid, how="map").argmax(1))


@pytest.mark.parametrize(("rule", "worst", "total"), [("ep", 0.12, 0.25), ("laplace", 0.05, 0.05)])
def test_leave_one_out_against_refits(rule, worst, total):
    """M15, CLS19: cavities instead of n refits."""
    model = mc.Model(mc.GP(k.SE(0.9, 2.5)), lk.Bernoulli())
    loo = model.condition(X, LABELS, RULES[rule]).loo().log_density
    refits = []
    for i in range(N):
        keep = np.arange(N) != i
        refits.append(model.condition(X[keep], LABELS[keep], RULES[rule]).log_density(X[[i]], LABELS[[i]])[0])
    assert np.max(np.abs(loo - refits)) < worst
    assert abs(loo.sum() - np.sum(refits)) < total


def test_laplace_and_ep_agree_where_the_signal_is_weak():
    """CLS6: and otherwise Laplace's means are too small in size, with the same sign."""
    for variance, agree in ((0.05, True), (100.0, False)):
        model = mc.Model(mc.GP(k.SE(0.9, variance)), lk.Bernoulli())
        ep, laplace = (model.condition(X, LABELS, rule) for rule in ("ep", "laplace"))
        m_ep, m_laplace = (p.mean(X, latent=True) for p in (ep, laplace))
        strong = np.abs(m_ep) > 0.2 * np.abs(m_ep).max()
        assert np.all(m_ep[strong] * m_laplace[strong] > 0)
        ratio = np.linalg.norm(m_laplace) / np.linalg.norm(m_ep)
        assert (ratio > 0.98) if agree else (ratio < 0.6)
        assert (
            abs(ep.log_evidence - laplace.log_evidence) < 1e-3
            if agree
            else ep.log_evidence > laplace.log_evidence + 0.5
        )


def test_bounds_on_a_surface():
    """CLS9, INF10: over a grid of length-scales and variances, KL is below EP's evidence,
    and above the bound at EP's posterior.
    """
    for ell in (0.4, 1.5):
        for variance in (0.5, 20.0):
            model = mc.Model(mc.GP(k.SE(ell, variance)), lk.Bernoulli("logit"))
            ep, kl, local = (model.condition(X, LABELS, RULES[rule]) for rule in ("ep", "kl", "local-bound"))
            assert local.log_evidence < kl.log_evidence < ep.log_evidence
            assert bound_at(ep, variance, ell) <= kl.log_evidence + 1e-8
            assert bound_at(kl, variance, ell) == pytest.approx(kl.log_evidence, abs=1e-5)


def bound_at(post, variance, ell):
    """(6.13) for the Gaussian of a posterior, with explicit matrices."""
    K = se(X, X, ell, variance)
    W = np.diag(post.state.sites.precision[:, 0])
    m, A = K @ post.state.alpha, K - K @ np.linalg.solve(np.eye(N) + W @ K, W @ K)
    z, w = np.polynomial.hermite_e.hermegauss(80)
    f = m[:, None] + np.sqrt(np.diag(A))[:, None] * z
    expected = np.sum(-np.logaddexp(0.0, -LABELS[:, None] * f) * w) / np.sqrt(2 * np.pi)
    ratio = np.linalg.inv(np.eye(N) + W @ K)  # A K^-1, transposed
    return (
        expected
        - 0.5 * m @ post.state.alpha
        - 0.5 * np.trace(ratio)
        + 0.5 * np.linalg.slogdet(ratio)[1]
        + 0.5 * N
    )


# ------------------------------------------------------------------------------------------------- mixture
# noise by enumeration


def enumerate_mixture(K, y, weight, variance, ratio):
    """Sum over all 2^n assignments of outliers: log evidence, posterior mean of f,
    probability of each being an outlier.
    """
    n = len(y)
    logs, means, which = [], [], []
    for code in range(2**n):
        c = (code >> np.arange(n)) & 1
        A = K + np.diag(variance * np.where(c, ratio, 1.0))
        L = np.linalg.cholesky(A)
        z = np.linalg.solve(L, y)
        logs.append(
            -0.5 * z @ z
            - np.log(np.diag(L)).sum()
            - 0.5 * n * np.log(2 * np.pi)
            + c.sum() * np.log(weight)
            + (n - c.sum()) * np.log1p(-weight)
        )
        means.append(K @ np.linalg.solve(L.T, z))
        which.append(c)
    logs = np.array(logs)
    p = np.exp(logs - logs.max())
    return logs.max() + np.log(p.sum()), p @ np.array(means) / p.sum(), p @ np.array(which) / p.sum()


def test_mixture_noise_against_all_assignments():
    """ROB3, ROB6; for Laplace the dominant mode (INF4)."""
    n, settings = 8, (0.1, 0.2, 100.0)
    inputs, y = X[:n], OUTLYING[:n]
    exact, means, outlier = enumerate_mixture(se(inputs, inputs, 1.0, 1.4), y, *settings)
    assert outlier[6] > 0.9
    likelihood = lk.GaussianMixtureNoise(*settings)
    model = mc.Model(mc.GP(k.SE(1.0, 1.4)), likelihood)
    ep, laplace, kl = (model.condition(inputs, y, RULES[rule]) for rule in ("ep", "laplace", "kl"))
    assert ep.status.converged
    assert ep.log_evidence == pytest.approx(exact, abs=0.03)
    np.testing.assert_allclose(ep.mean(inputs), means, atol=0.1)
    assert kl.log_evidence <= exact
    np.testing.assert_allclose(laplace.mean(inputs), means, atol=0.25)
    from mercer.posteriors.cavity import cavity

    c = cavity(ep.state)
    np.testing.assert_allclose(
        likelihood.outlier_probability(y, c.mean[:, 0], c.variance[:, 0]), outlier, atol=0.1
    )
    assert np.min(ep.state.sites.precision) < 0  # as a doubtful datum makes it


def test_robust_likelihoods_tend_to_gaussian_noise():
    exact = mc.Model(mc.GP(k.SE(0.9, 1.4)), lk.Gaussian(0.3)).condition(X, REAL)
    for likelihood in (lk.StudentT(np.sqrt(0.3), 1e7), lk.GaussianMixtureNoise(1e-9, 0.3, 10.0)):
        for rule in ("laplace", "ep", "kl"):
            post = mc.Model(mc.GP(k.SE(0.9, 1.4)), likelihood).condition(X, REAL, rule)
            assert post.log_evidence == pytest.approx(exact.log_evidence, abs=1e-4)
            np.testing.assert_allclose(post.mean(XS), exact.mean(XS), atol=1e-4)
