"""Regression: the identities of GPML chapter 2 and Kuss chapter 3, each against plain NumPy."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

import mercer as mc
from mercer import kernels as k
from mercer.inputs import InputError
from mercer.params import parameters
from mercer.solvers import SolverError

RNG = np.random.default_rng(2)
X, Y, XS = RNG.normal(size=(12, 2)), RNG.normal(size=12), RNG.normal(size=(5, 2))
NOISE = 0.15
KERNEL = k.SE([0.8, 1.5], 1.4) + k.Linear(0.3)
GP = mc.GP(KERNEL)
POST = GP.condition(X, Y, noise_variance=NOISE)
exact = dict(rtol=1e-11, atol=1e-12)


def by_hand(kernel, X, y, Xs, noise):
    """(2.23)-(2.24) by direct solves: mean and covariance of f at Xs."""
    Ky = kernel(X) + np.diag(np.broadcast_to(noise, len(X)))
    Ks = kernel(X, Xs)
    return Ks.T @ np.linalg.solve(Ky, y), kernel(Xs) - Ks.T @ np.linalg.solve(Ky, Ks)


# ------------------------------------------------------------------------------------------------- prior


def test_prior_is_consistent():
    """A.R3 (2.13-2.14): the covariance of a subset is the sub-block, whatever else is looked at."""
    np.testing.assert_allclose(GP.covariance(X[:4]), GP.covariance(X)[:4, :4], rtol=1e-14)
    np.testing.assert_allclose(GP.covariance(X[:4], XS), KERNEL(X[:4], XS), rtol=0)
    with pytest.raises(TypeError, match="a GP needs a kernel, got float"):
        mc.GP(1.0)


def test_prior_samples():
    """A.R4, C.GP8, D.SL4 (2.17): f = m + L u has the prior's mean and covariance (five standard errors),
    and follows the seed.
    """
    gp, size = mc.GP(KERNEL, 0.7), 20_000
    draws = gp.sample(XS, size, seed=1)
    K = KERNEL(XS)
    scale = np.sqrt(np.diag(K))
    assert np.all(np.abs(draws.mean(0) - 0.7) < 5 * scale / np.sqrt(size))
    spread = np.sqrt((np.outer(np.diag(K), np.diag(K)) + K**2) / size)
    assert np.all(np.abs(np.cov(draws.T) - K) < 5 * spread)
    np.testing.assert_array_equal(gp.sample(XS, 3, seed=4), gp.sample(XS, 3, seed=4))


def test_samples_of_smooth_and_degenerate_kernels():
    """A.R4, C.GP8: a grid of an SE needs jitter and gets it; draws of a linear kernel are exactly linear,
    up to that jitter.
    """
    grid = np.linspace(-3, 3, 200)[:, None]
    smooth = mc.GP(k.SE(1.5)).sample(grid, 3, seed=0)
    assert np.isfinite(smooth).all() and np.abs(np.diff(smooth, 3, axis=1)).max() < 2e-2
    lines = mc.GP(k.Linear() + k.Constant()).sample(grid, 4, seed=0)
    fitted = [np.polyval(np.polyfit(grid[:, 0], line, 1), grid[:, 0]) for line in lines]
    np.testing.assert_allclose(lines, fitted, atol=1e-4)
    assert np.ptp(lines, axis=1).min() > 0.1


# ------------------------------------------------------------------------------------------------- prediction


def test_predictive_distribution():
    """A.R6, C.GP3, D.SL5 (2.20-2.27): mean, variance of f and of y, joint covariance, standard deviation."""
    mean, covariance = by_hand(KERNEL, X, Y, XS, NOISE)
    np.testing.assert_allclose(POST.mean(XS), mean, **exact)
    np.testing.assert_allclose(POST.covariance(XS, latent=True), covariance, **exact)
    np.testing.assert_allclose(POST.covariance(XS), covariance + NOISE * np.eye(5), **exact)
    np.testing.assert_allclose(POST.variance(XS, latent=True), np.diag(covariance), **exact)
    np.testing.assert_allclose(POST.variance(XS), np.diag(covariance) + NOISE, **exact)
    np.testing.assert_allclose(POST.std(XS) ** 2, POST.variance(XS), rtol=1e-14)
    empty = POST.mean(XS[:0]), POST.variance(XS[:0]), POST.components(XS[:0])[0].std
    assert {a.shape for a in empty} == {(0,)}


def test_posterior_at_the_data():
    """C.GP3 (3.10c): f | D ~ N(K (K + s2 I)^-1 y, (K^-1 + I / s2)^-1)."""
    K = KERNEL(X)
    np.testing.assert_allclose(POST.mean(X), K @ np.linalg.solve(K + NOISE * np.eye(12), Y), **exact)
    kernel = k.Matern(0.8, nu=0.5)  # well conditioned, so that K^-1 exists in double precision
    post = mc.GP(kernel).condition(X, Y, noise_variance=NOISE)
    inverse = np.linalg.inv(np.linalg.inv(kernel(X)) + np.eye(12) / NOISE)
    np.testing.assert_allclose(post.covariance(X, latent=True), inverse, rtol=1e-9, atol=1e-11)


def test_representer():
    """A.R6 (2.27): the mean is a sum of kernels at the data, sum_i alpha_i k(x_i, .)."""
    alpha = POST.state.alpha
    np.testing.assert_allclose(POST.mean(XS), KERNEL(XS, X) @ alpha, **exact)
    np.testing.assert_allclose((KERNEL(X) + NOISE * np.eye(12)) @ alpha, Y, **exact)


def test_covariance_does_not_depend_on_y():
    """A.R6, C.GP3: the variance is known before the observations."""
    other = GP.condition(X, 5.0 * Y[::-1] + 3.0, noise_variance=NOISE)
    np.testing.assert_array_equal(other.covariance(XS), POST.covariance(XS))
    assert not np.allclose(other.mean(XS), POST.mean(XS))


def test_limits_of_the_noise():
    """C.GP3: no noise interpolates; endless noise leaves the prior; far from the data the prior returns."""
    vague = GP.condition(X, Y, noise_variance=1e12)
    np.testing.assert_allclose(vague.covariance(XS, latent=True), KERNEL(XS), rtol=1e-9)
    np.testing.assert_allclose(vague.mean(XS), 0.0, atol=1e-9)
    far = mc.GP(k.SE(0.5, 1.3), 0.4).condition(X, Y, noise_variance=NOISE)
    np.testing.assert_allclose(far.mean([[50.0, 50.0]]), 0.4, rtol=1e-12)
    np.testing.assert_allclose(far.variance([[50.0, 50.0]], latent=True), 1.3, rtol=1e-12)


def test_more_data_never_increase_the_variance():
    """A.R6 (exercise 2.9.4): var_n <= var_(n-1) everywhere."""
    grid = RNG.normal(size=(40, 2))
    variances = [GP.condition(X[:n], Y[:n], noise_variance=NOISE).variance(grid) for n in range(1, 13)]
    assert np.all(np.diff(variances, axis=0) <= 1e-12)
    assert np.any(np.diff(variances, axis=0) < -1e-3)


def test_noise_per_datum():
    """A.R6: known noise for each observation; what is predicted then needs its noise, or latent=True."""
    noise = np.linspace(0.05, 0.6, 12)
    post = GP.condition(X, Y, noise_variance=noise)
    mean, covariance = by_hand(KERNEL, X, Y, XS, noise)
    np.testing.assert_allclose(post.mean(XS), mean, **exact)
    np.testing.assert_allclose(post.variance(XS, latent=True), np.diag(covariance), **exact)
    np.testing.assert_allclose(post.variance(XS, noise_variance=0.2), np.diag(covariance) + 0.2, **exact)
    np.testing.assert_allclose(
        post.covariance(XS, noise_variance=noise[:5]), covariance + np.diag(noise[:5]), **exact
    )
    for ask in (post.variance, post.covariance, post.sample, lambda Xs: post.quantile(Xs, 0.5)):
        with pytest.raises(ValueError, match="noise at Xs is unknown: pass noise_variance="):
            ask(XS)
    with pytest.raises(InputError, match="noise_variance has 3 entries but there are 12 data"):
        GP.condition(X, Y, noise_variance=[0.1, 0.2, 0.3])


def test_repeated_inputs_have_their_own_noise():
    """A.R6: noise is of the case, not of the input:
    m repeats count as one observation of their mean with noise / m.
    """
    twice = GP.condition(np.vstack([X, X[:3]]), np.append(Y, Y[:3] + 0.4), noise_variance=NOISE)
    merged = Y.copy()
    merged[:3] += 0.2
    noise = np.full(12, NOISE)
    noise[:3] /= 2
    once = GP.condition(X, merged, noise_variance=noise)
    np.testing.assert_allclose(twice.mean(XS), once.mean(XS), **exact)
    np.testing.assert_allclose(twice.variance(XS, latent=True), once.variance(XS, latent=True), **exact)


# -------------------------------------------------------------------------------------------------
# interpolation


def test_noise_free_conditioning():
    """A.R5, C.GP2 (2.18-2.19), Kuss Fig. 3.1: unit SE, 5 points; through the data, variance < 1e-8,
    prior far away.
    """
    x = np.array([-3.0, -1.2, 0.0, 0.9, 2.6])[:, None]
    y = np.array([0.4, -1.0, 0.2, 1.1, -0.5])
    post = mc.GP(k.SE()).condition(x, y)
    np.testing.assert_allclose(post.mean(x), y, atol=1e-8)
    assert np.all(post.variance(x) < 1e-8) and np.all(post.variance(x) >= 0)
    assert post.variance([[40.0]])[0] == pytest.approx(1.0)
    mean, covariance = by_hand(k.SE(), x, y, np.array([[0.4], [-2.0]]), 0.0)
    np.testing.assert_allclose(post.mean([[0.4], [-2.0]]), mean, atol=1e-8)
    np.testing.assert_allclose(post.covariance([[0.4], [-2.0]]), covariance, atol=1e-8)
    assert len(post.notes) == 1 and "noise-free conditioning used a noise variance of 1e-10" in post.notes[0]
    assert GP.condition(X, Y, noise_variance=NOISE).notes == ()


def test_posterior_covariance_changes_sign():
    """A.R5, Fig. 2.4(b): on opposite sides of a datum the posterior covariance is negative,
    though the prior's never is.
    """
    x = np.linspace(-2, 2, 5)[:, None]
    post = mc.GP(k.SE()).condition(x, np.zeros(5))
    assert post.covariance([[-0.5], [0.5]])[0, 1] < -1e-4 < 0 < k.SE()([[-0.5]], [[0.5]])[0, 0]


def test_markov_property_of_the_exponential():
    """A.R5 (exercise 4.5.1): an OU process looks only at the two neighbours, unless there is noise."""
    x = np.array([0.0, 0.7, 1.1, 2.0, 3.2])[:, None]
    weights = mc.GP(k.Matern(nu=0.5)).condition(x, np.zeros(5)).smoother([[1.6]])[0]
    assert np.all(np.abs(weights[[0, 1, 4]]) < 1e-8) and np.all(weights[[2, 3]] > 0.1)
    noisy = mc.GP(k.Matern(nu=0.5)).condition(x, np.zeros(5), noise_variance=0.1).smoother([[1.6]])[0]
    assert np.all(np.abs(noisy) > 1e-3)


# ------------------------------------------------------------------------------------------------- process


@pytest.mark.parametrize("split", [1, 5, 11])
def test_conditioning_in_two_batches(split):
    """A.R7: conditioning the posterior of the first batch on the second equals conditioning at once."""
    first = GP.condition(X[:split], Y[:split], noise_variance=NOISE)
    second, joint = X[split:], np.vstack([X[split:], XS])
    mean, covariance = first.mean(joint), first.covariance(joint, latent=True)
    m = len(second)
    gain = np.linalg.solve(covariance[:m, :m] + NOISE * np.eye(m), covariance[:m, m:])
    np.testing.assert_allclose(
        mean[m:] + gain.T @ (Y[split:] - mean[:m]), POST.mean(XS), rtol=1e-9, atol=1e-10
    )
    np.testing.assert_allclose(
        covariance[m:, m:] - covariance[m:, :m] @ gain,
        POST.covariance(XS, latent=True),
        rtol=1e-8,
        atol=1e-10,
    )


def test_posterior_covariance_is_a_kernel():
    """C.GP3, A.R7: k_*(x, x') is positive semi-definite on any inputs."""
    grid = RNG.normal(size=(30, 2))
    assert np.linalg.eigvalsh(POST.covariance(grid, latent=True)).min() > -1e-11


def test_gaussian_posterior_extends_to_a_process():
    """C.GP9 (4.4-4.5): N(m, A) at the data extends to the process;
    the exact posterior's gives (3.12) back.
    """
    gp = mc.GP(k.Matern(0.8, 1.3, nu=0.5), 0.3)
    post = gp.condition(X, Y, noise_variance=NOISE)
    mean, covariance = gp.extend(X, post.mean(X), post.covariance(X, latent=True), XS)
    np.testing.assert_allclose(mean, post.mean(XS), rtol=1e-9, atol=1e-11)
    np.testing.assert_allclose(covariance, post.covariance(XS, latent=True), rtol=1e-9, atol=1e-11)
    mean, covariance = gp.extend(X, np.full(12, 0.3), gp.covariance(X), XS)  # the prior extends to the prior
    np.testing.assert_allclose(mean, 0.3, rtol=1e-12)
    np.testing.assert_allclose(covariance, gp.covariance(XS), rtol=1e-9, atol=1e-11)


def test_posterior_samples():
    """A.R7, D.SL4: joint draws of f and of y at new inputs (five standard errors); y has the noise,
    f has not.
    """
    size = 20_000
    for latent, extra in ((True, 0.0), (False, NOISE)):
        draws = POST.sample(XS, size, seed=3, latent=latent)
        C = POST.covariance(XS, latent=True) + extra * np.eye(5)
        assert np.all(np.abs(draws.mean(0) - POST.mean(XS)) < 5 * np.sqrt(np.diag(C) / size))
        assert np.all(
            np.abs(np.cov(draws.T) - C) < 5 * np.sqrt((np.outer(np.diag(C), np.diag(C)) + C**2) / size)
        )
    np.testing.assert_array_equal(POST.sample(XS, 2, seed=3), POST.sample(XS, 2, seed=3))


def test_densities_and_quantiles():
    """A.R6: the predictive of y is normal: log densities and quantiles against SciPy."""
    ys = RNG.normal(size=5)
    normal = stats.norm(POST.mean(XS), POST.std(XS))
    np.testing.assert_allclose(POST.log_density(XS, ys), normal.logpdf(ys), rtol=1e-12)
    np.testing.assert_allclose(POST.quantile(XS, 0.9), normal.ppf(0.9), rtol=1e-12)
    np.testing.assert_allclose(
        POST.quantile(XS, [0.05, 0.5]), np.column_stack([normal.ppf(0.05), normal.ppf(0.5)]), **exact
    )
    for q in (0.0, 1.0, [0.5, 1.2]):
        with pytest.raises(ValueError, match="strictly between 0 and 1"):
            POST.quantile(XS, q)


def test_components():
    """Additive terms: each a Gaussian process given the data, with its own uncertainty;
    their means add up.
    """
    parts = POST.components(XS)
    assert [p.name for p in parts] == [str(term) for term in KERNEL.terms]
    np.testing.assert_allclose(sum(p.mean for p in parts), POST.mean(XS), **exact)
    Ky = KERNEL(X) + NOISE * np.eye(12)
    for part, term in zip(parts, KERNEL.terms, strict=True):
        C = term(X, XS)
        np.testing.assert_allclose(part.mean, C.T @ np.linalg.solve(Ky, Y), **exact)
        np.testing.assert_allclose(
            part.std**2, np.diag(term(XS) - C.T @ np.linalg.solve(Ky, C)), rtol=1e-10, atol=1e-11
        )


# ------------------------------------------------------------------------------------------------- evidence


def test_evidence_is_a_normal_density():
    """A.R8, C.GP4, D.GI1 (2.30): log N(y | m, K + noise), with one noise variance or one for each datum."""
    for noise in (NOISE, np.linspace(0.05, 0.6, 12)):
        Ky = KERNEL(X) + np.diag(np.broadcast_to(noise, 12))
        expected = stats.multivariate_normal(np.full(12, 0.4), Ky).logpdf(Y)
        assert mc.GP(KERNEL, 0.4).condition(X, Y, noise_variance=noise).log_evidence == pytest.approx(
            expected, rel=1e-12
        )
        assert mc.log_evidence(mc.GP(KERNEL, 0.4), X, Y, noise_variance=noise) == pytest.approx(
            expected, rel=1e-12
        )


@given(
    seed=st.integers(0, 10**6), n=st.integers(1, 12), scale=st.floats(1e-3, 1e3), noise=st.floats(1e-3, 10)
)
def test_evidence_on_random_problems(seed, n, scale, noise):
    """A.R8: any number of data, any units."""
    rng = np.random.default_rng(seed)
    x, y = scale * rng.normal(size=(n, 2)), scale * rng.normal(size=n)
    kernel = k.SE([scale * 0.8, scale * 1.5], scale**2 * 1.4) + k.Linear(0.3)
    Ky = kernel(x) + scale**2 * noise * np.eye(n)
    expected = stats.multivariate_normal(np.zeros(n), Ky).logpdf(y)
    assert mc.log_evidence(mc.GP(kernel), x, y, noise_variance=scale**2 * noise) == pytest.approx(
        expected, rel=1e-9, abs=1e-9
    )


def test_order_of_the_data_does_not_matter():
    """A.R8: permutation changes nothing."""
    order = RNG.permutation(12)
    other = GP.condition(X[order], Y[order], noise_variance=NOISE)
    assert other.log_evidence == pytest.approx(POST.log_evidence, rel=1e-12)
    np.testing.assert_allclose(other.mean(XS), POST.mean(XS), **exact)
    np.testing.assert_allclose(other.covariance(XS), POST.covariance(XS), **exact)


def test_change_of_units():
    """C.GP7: y in other units moves the density by the log of the unit only;
    NLP_original = NLP_standardised + ln sd.
    """
    c = 7.3
    scaled = mc.GP(k.SE([0.8, 1.5], 1.4 * c**2) + k.Linear(0.3 * c**2)).condition(
        X, c * Y, noise_variance=NOISE * c**2
    )
    assert scaled.log_evidence == pytest.approx(POST.log_evidence - 12 * np.log(c), rel=1e-12)
    np.testing.assert_allclose(scaled.mean(XS), c * POST.mean(XS), **exact)
    ys = RNG.normal(size=5)
    np.testing.assert_allclose(
        scaled.log_density(XS, c * ys), POST.log_density(XS, ys) - np.log(c), rtol=1e-11
    )


def test_evidence_terms():
    """A.M2 (5.8): data fit, complexity and constant are the three terms;
    with a longer length-scale fit falls, complexity eases.
    """
    terms = POST.evidence_terms()
    Ky = KERNEL(X) + NOISE * np.eye(12)
    assert terms.data_fit == pytest.approx(-0.5 * Y @ np.linalg.solve(Ky, Y), rel=1e-11)
    assert terms.complexity == pytest.approx(-0.5 * np.linalg.slogdet(Ky)[1], rel=1e-10)
    assert terms.constant == pytest.approx(-6 * np.log(2 * np.pi))
    assert sum(terms) == terms.total == pytest.approx(POST.log_evidence, rel=1e-14)
    x = np.linspace(-5, 5, 20)[:, None]
    y = mc.GP(k.SE()).sample(x, 1, seed=5)[0] + np.sqrt(0.1) * np.random.default_rng(5).normal(size=20)
    scales = np.array([0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 20.0])
    all_terms = [mc.GP(k.SE(l)).condition(x, y, noise_variance=0.1).evidence_terms() for l in scales]
    assert np.all(np.diff([t.data_fit for t in all_terms])[2:] < 0), "from the spacing of the data on"
    assert np.all(np.diff([t.complexity for t in all_terms]) > 0)
    assert 0.4 < scales[np.argmax([t.total for t in all_terms])] < 2.5


def test_gradient_of_the_evidence():
    """A.M3, C.GP4, D.GI1 (5.9): 1/2 tr((aa' - Ky^-1) dKy) for every hyperparameter,
    against differences of SciPy's density.
    """
    theta = {
        "kernel.terms.0.lengthscale": np.array([0.8, 1.5]),
        "kernel.terms.0.variance": np.array(1.4),
        "kernel.terms.1.variance": np.array(0.3),
        "mean.constant": np.array(0.2),
        "likelihood.noise_variance": np.array(NOISE),
    }

    def density(values):
        l, s, v, c, n = values.values()
        Ky = k.SE(l, s)(X) + k.Linear(v)(X) + n * np.eye(12)
        return stats.multivariate_normal(np.full(12, c), Ky).logpdf(Y)

    gp = mc.GP(KERNEL, mc.means.Constant(0.2))
    value, gradient = mc.log_evidence_and_gradient(gp, X, Y, noise_variance=NOISE)
    assert value == pytest.approx(density(theta), rel=1e-12) and sorted(gradient) == sorted(theta)
    for name, at in theta.items():
        for index in np.ndindex(at.shape):
            step = np.zeros(at.shape)
            step[index] = 1e-5
            ends = [density(theta | {name: at + s}) for s in (step, -step)]
            assert gradient[name][index] == pytest.approx((ends[0] - ends[1]) / 2e-5, rel=2e-7), name


def test_gradient_of_noise_per_datum():
    """A.M3: one derivative for each of the noise variances."""
    noise = np.linspace(0.05, 0.6, 12)
    _, gradient = mc.log_evidence_and_gradient(GP, X, Y, noise_variance=noise)
    Ky = KERNEL(X) + np.diag(noise)
    alpha, inverse = np.linalg.solve(Ky, Y), np.linalg.inv(Ky)
    np.testing.assert_allclose(
        gradient["likelihood.noise_variance"], 0.5 * (alpha**2 - np.diag(inverse)), rtol=1e-9
    )


def test_gradient_is_zero_at_the_optimum():
    """A.M3, C.GP4: ML-II ends where the gradient vanishes, above where it began."""
    x = np.linspace(-4, 4, 25)[:, None]
    y = np.sin(x[:, 0]) + 0.2 * np.random.default_rng(6).normal(size=25)
    start = mc.Model(mc.GP(k.SE()), mc.likelihoods.Gaussian())
    found = mc.fit(start, x, y)
    value, gradient = mc.log_evidence_and_gradient(found.model, x, y)
    values = {p.name: p.value for p in parameters(found.model)}
    assert value > mc.log_evidence(start, x, y) + 1.0
    assert all(abs(gradient[name] * values[name]) < 0.02 for name in gradient)


# ------------------------------------------------------------------------------------------------- smoother


def test_linear_smoother():
    """A.R13, A.R14 (2.25, 2.36): the mean is a linear map of y;
    its trace is the number of degrees of freedom.
    """
    W = POST.smoother(XS)
    assert W.shape == (5, 12)
    np.testing.assert_allclose(W @ Y, POST.mean(XS), **exact)
    np.testing.assert_allclose(W, np.linalg.solve(KERNEL(X) + NOISE * np.eye(12), KERNEL(X, XS)).T, **exact)
    assert POST.degrees_of_freedom() == pytest.approx(np.trace(POST.smoother(X)), rel=1e-10)
    eigenvalues = np.linalg.eigvalsh(KERNEL(X))
    assert POST.degrees_of_freedom() == pytest.approx(np.sum(eigenvalues / (eigenvalues + NOISE)), rel=1e-10)
    with_mean = mc.GP(KERNEL, mc.means.Linear([1.0, 2.0], 0.5)).condition(X, Y, noise_variance=NOISE)
    m = lambda X: 0.5 + X @ [1.0, 2.0]  # noqa: E731
    np.testing.assert_allclose(m(XS) + with_mean.smoother(XS) @ (Y - m(X)), with_mean.mean(XS), **exact)


def test_limits_of_degrees_of_freedom():
    """A.R13: rank K without noise (n, or the number of weights), 0 with endless noise."""
    dof = lambda kernel, noise: mc.GP(kernel).condition(X, Y, noise_variance=noise).degrees_of_freedom()  # noqa: E731
    assert dof(k.Matern(0.5, nu=0.5), 1e-9) == pytest.approx(12, abs=1e-6)
    assert dof(k.Linear(), 1e-9) == pytest.approx(2, abs=1e-6)
    assert dof(k.Linear() + k.Constant(), 1e-9) == pytest.approx(3, abs=1e-6)
    assert dof(KERNEL, 1e9) == pytest.approx(0, abs=1e-6)
    values = [dof(KERNEL, noise) for noise in (1e-3, 1e-2, 0.1, 1.0, 10.0)]
    assert np.all(np.diff(values) < 0) and 0 < values[-1] < values[0] < 12


def test_weight_function():
    """A.R14, Fig. 2.6: with little noise the weight function has negative side lobes; more noise flattens,
    more data narrow it.
    """
    kernel, rng = k.SE(np.sqrt(0.004)), np.random.default_rng(3)
    grid = np.linspace(0, 1, 51)[:, None]

    def weights(x, noise):
        return mc.GP(kernel).condition(x, np.zeros(len(x)), noise_variance=noise).smoother([[0.5]])[0]

    little, much = weights(grid, 0.1), weights(grid, 10.0)
    assert little.min() < -0.02 * little.max() and np.argmax(little) == np.argmax(much) == 25
    assert much.min() / much.max() > little.min() / little.max(), "smaller lobes with more noise"
    assert much.max() < little.max()
    few, many = (weights(np.linspace(0, 1, n)[:, None], 0.1) for n in (11, 251))
    assert np.mean(many > 0.5 * many.max()) < np.mean(few > 0.5 * few.max())
    x = np.sort(rng.uniform(size=50))[:, None]
    y = np.sin(6 * x[:, 0])
    np.testing.assert_allclose(
        weights(x, 0.1) @ y, mc.GP(kernel).condition(x, y, noise_variance=0.1).mean([[0.5]])[0], rtol=1e-10
    )


# ------------------------------------------------------------------------------------------------- weight
# space


def test_bayesian_linear_regression():
    """A.R1 (2.1-2.9): weights, predictions and evidence, in weight space and in function space,
    are the textbook's.
    """
    variance = np.array([2.0, 0.5])
    A = X.T @ X / NOISE + np.diag(1 / variance)
    w = np.linalg.solve(A, X.T @ Y) / NOISE
    covariance = np.linalg.inv(A)
    expected = stats.multivariate_normal(
        np.zeros(12), X @ np.diag(variance) @ X.T + NOISE * np.eye(12)
    ).logpdf(Y)
    for solver in ("weight-space", "dense"):
        post = mc.GP(k.Linear(variance)).condition(X, Y, noise_variance=NOISE, solver=solver)
        np.testing.assert_allclose(post.mean(XS), XS @ w, rtol=1e-10)
        np.testing.assert_allclose(
            post.covariance(XS, latent=True), XS @ covariance @ XS.T, rtol=1e-9, atol=1e-12
        )
        assert post.log_evidence == pytest.approx(expected, rel=1e-11)
    whitened, spread = (
        mc.GP(k.Linear(variance)).condition(X, Y, noise_variance=NOISE, solver="weight-space").state.weights()
    )
    np.testing.assert_allclose(whitened * np.sqrt(variance), w, rtol=1e-11)
    np.testing.assert_allclose(spread * np.sqrt(np.outer(variance, variance)), covariance, rtol=1e-11)
    # variance grows quadratically along a ray
    post = mc.GP(k.Linear(variance)).condition(X, Y, noise_variance=NOISE, solver="weight-space")
    ray = post.variance(np.outer([1.0, 2.0, 10.0], XS[0]), latent=True)
    np.testing.assert_allclose(ray / ray[0], [1.0, 4.0, 100.0], rtol=1e-11)


def test_ridge_regression():
    """A.R1: the posterior mean is scikit-learn's ridge with penalty noise / variance."""
    from sklearn.linear_model import Ridge

    ridge = Ridge(alpha=NOISE / 0.7, fit_intercept=False).fit(X, Y)
    post = mc.GP(k.Linear(0.7)).condition(X, Y, noise_variance=NOISE, solver="weight-space")
    np.testing.assert_allclose(post.mean(XS), ridge.predict(XS), rtol=1e-10)


def test_primal_is_dual():
    """A.R2, D.SL3 (2.10-2.12): p x p in the weights equals n x n in the function values,
    gradients included.
    """
    kernel = k.Polynomial(2, 0.6, 0.4) + k.Linear([0.3, 1.2]) * k.Constant(0.8)
    primal, dual = (
        mc.GP(kernel).condition(X, Y, noise_variance=NOISE, solver=s) for s in ("weight-space", "dense")
    )
    assert primal.log_evidence == pytest.approx(dual.log_evidence, rel=1e-11)
    np.testing.assert_allclose(primal.mean(XS), dual.mean(XS), rtol=1e-9)
    np.testing.assert_allclose(primal.covariance(XS), dual.covariance(XS), rtol=1e-8, atol=1e-10)
    assert np.linalg.matrix_rank(kernel(X)) <= kernel.rank(2)
    gradients = [
        mc.log_evidence_and_gradient(mc.GP(kernel), X, Y, NOISE, solver=s)[1]
        for s in ("weight-space", "dense")
    ]
    for name in gradients[0]:
        np.testing.assert_allclose(gradients[0][name], gradients[1][name], rtol=1e-7, err_msg=name)


# ------------------------------------------------------------------------------------------------- model


def test_model_is_mean_kernel_and_likelihood():
    """C.GP1: `GP.condition` is shorthand for a Model with Gaussian noise;
    parts of the wrong kind are refused.
    """
    model = mc.Model(GP, mc.likelihoods.Gaussian(NOISE))
    post = model.condition(X, Y)
    assert post.log_evidence == POST.log_evidence and post.model.likelihood.noise_variance == NOISE
    np.testing.assert_array_equal(post.mean(XS), POST.mean(XS))
    f = np.linspace(-1, 1, 4)
    np.testing.assert_allclose(
        model.likelihood.log_prob(f, 0.3), stats.norm(f, np.sqrt(NOISE)).logpdf(0.3), rtol=1e-13
    )
    for make, message in [
        (lambda: mc.Model(KERNEL), "a Model needs a GP first"),
        (lambda: mc.Model(GP, KERNEL), "a Model needs a likelihood"),
        (lambda: mc.GP(KERNEL, basis=KERNEL), "basis must be a basis such as"),
    ]:
        with pytest.raises(TypeError, match=message):
            make()
    with pytest.raises(ValueError, match="noise_variance goes with a GP"):
        mc.log_evidence(model, X, Y, noise_variance=0.1)
    with pytest.raises(ValueError, match=r"unknown inference 'magic'; there are .*'exact'"):
        model.condition(X, Y, inference="magic")
    with pytest.raises(SolverError, match="unknown solver 'magic'"):
        model.condition(X, Y, solver="magic")


def test_repr_says_what_it_is():
    """A posterior names its kernel, its size and its evidence."""
    assert repr(POST) == f"GaussianPosterior({KERNEL}, n=12, d=2, log_evidence={POST.log_evidence:.4f})"


def test_many_test_inputs_are_handled_in_blocks(monkeypatch):
    """Blocks of test inputs, small ones here, change no number."""
    from mercer.posteriors import GaussianPosterior
    from mercer.solvers import dense

    grid = RNG.normal(size=(700, 2))
    mean, variance, parts = POST.mean(grid), POST.variance(grid), POST.components(grid)
    monkeypatch.setattr(GaussianPosterior._blocks, "__defaults__", (100,))
    monkeypatch.setattr(dense, "PREDICT_BYTES", 1)
    np.testing.assert_allclose(POST.mean(grid), mean, rtol=1e-12)
    np.testing.assert_allclose(POST.variance(grid), variance, rtol=1e-12)
    np.testing.assert_allclose(POST.components(grid)[0].std, parts[0].std, rtol=1e-10)
