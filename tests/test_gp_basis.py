"""Mean functions and explicit basis functions in regression (GPML 2.7),
against the augmented kernel and the limits.
"""

import numpy as np
import pytest
from scipy import stats

import mercer as mc
from mercer import kernels as k
from mercer import means

RNG = np.random.default_rng(4)
X, Y, XS = RNG.normal(size=(11, 2)), RNG.normal(size=11), RNG.normal(size=(4, 2))
NOISE, KERNEL = 0.15, k.SE([0.8, 1.5], 1.4)
VARIANCES, WEIGHTS = np.array([2.0, 0.7, 1.1]), np.array([0.5, -0.4, 0.2])
H, HS = (np.column_stack([np.ones(len(x)), x]) for x in (X, XS))
KY = KERNEL(X) + NOISE * np.eye(11)
exact = dict(rtol=1e-10, atol=1e-11)

solvers = pytest.mark.parametrize("solver", ["dense", mc.solvers.Dense("jax")], ids=["lapack", "jax"])


def gaussian(B=VARIANCES, b=WEIGHTS):
    return means.Polynomial(1, covariance=B, weights=b)


def condition(basis, y=Y, kernel=KERNEL, **how):
    return mc.GP(kernel, basis=basis).condition(X, y, noise_variance=NOISE, **how)


# ------------------------------------------------------------------------------------------------- fixed mean


def test_fixed_mean():
    """A.R16 (2.37-2.38), D.EB4: the same as subtracting and adding it; the variance is unchanged;
    m = 0 is the plain GP.
    """
    m = lambda X: 1.0 + np.sin(X[:, 0]) * X[:, 1]  # noqa: E731
    post = mc.GP(KERNEL, m).condition(X, Y, noise_variance=NOISE)
    plain = mc.GP(KERNEL).condition(X, Y - m(X), noise_variance=NOISE)
    np.testing.assert_allclose(post.mean(XS), m(XS) + plain.mean(XS), **exact)
    np.testing.assert_allclose(post.covariance(XS), plain.covariance(XS), **exact)
    assert post.log_evidence == pytest.approx(plain.log_evidence, rel=1e-12)
    np.testing.assert_allclose(post.loo().mean, plain.loo().mean + m(X), **exact)
    zero, none = (mc.GP(KERNEL, mean).condition(X, Y, noise_variance=NOISE) for mean in (0.0, None))
    assert zero.log_evidence == none.log_evidence


def test_constant_mean_by_evidence():
    """C.GP6, Fig. 3.3: with data around 10 the learned constant is near 10,
    and prediction far away goes there and not to 0.
    """
    y = 10 + 0.3 * Y
    fitted = mc.fit(mc.Model(mc.GP(k.SE([0.8, 1.5]), means.Constant(0.0)), mc.likelihoods.Gaussian()), X, y)
    far = [[40.0, 40.0]]
    assert fitted.posterior.mean(far)[0] == pytest.approx(float(fitted.model.gp.mean.constant), rel=1e-9)
    assert float(fitted.model.gp.mean.constant) == pytest.approx(10.0, abs=0.3)
    assert mc.GP(k.SE()).condition(X, y, noise_variance=0.1).mean(far)[0] == pytest.approx(0.0, abs=1e-9)


# ------------------------------------------------------------------------------------------------- Gaussian
# weights


@pytest.mark.representative("lapack")
@solvers
def test_gaussian_weights_equal_the_augmented_kernel(solver):
    """A.R17, C.GP6 (2.39-2.41): h'beta with beta ~ N(b,
    B) is the GP with kernel k + h'Bh' and mean h'b (2.40).
    """
    post = condition(gaussian(), solver=solver)
    augmented = KERNEL + k.Constant(VARIANCES[0]) + k.Linear(VARIANCES[1:])
    mean = means.Linear(WEIGHTS[1:], WEIGHTS[0])
    direct = mc.GP(augmented, mean).condition(X, Y, noise_variance=NOISE)
    np.testing.assert_allclose(post.mean(XS), direct.mean(XS), **exact)
    np.testing.assert_allclose(post.covariance(XS), direct.covariance(XS), **exact)
    np.testing.assert_allclose(post.variance(XS, latent=True), direct.variance(XS, latent=True), **exact)
    assert post.log_evidence == pytest.approx(direct.log_evidence, rel=1e-11)
    left, right = post.loo(), direct.loo()
    for name in ("mean", "variance", "log_density"):
        np.testing.assert_allclose(getattr(left, name), getattr(right, name), **exact)
    assert post.degrees_of_freedom() == pytest.approx(direct.degrees_of_freedom(), rel=1e-9)
    np.testing.assert_allclose(post.components(XS)[0].mean, direct.components(XS)[0].mean, **exact)
    np.testing.assert_allclose(post.components(XS)[0].std, direct.components(XS)[0].std, **exact)


def test_textbook_formula():
    """A.R17, C.GP6 (2.41): beta-bar, R and the predictions as they are printed."""
    B = np.diag(VARIANCES)
    A = np.linalg.inv(B) + H.T @ np.linalg.solve(KY, H)
    beta = np.linalg.solve(A, H.T @ np.linalg.solve(KY, Y) + np.linalg.solve(B, WEIGHTS))
    Ks = KERNEL(X, XS)
    R = HS.T - H.T @ np.linalg.solve(KY, Ks)
    post = condition(gaussian())
    np.testing.assert_allclose(post.state.basis_weights().mean, beta, **exact)
    np.testing.assert_allclose(post.state.basis_weights().covariance, np.linalg.inv(A), **exact)
    np.testing.assert_allclose(post.mean(XS), Ks.T @ np.linalg.solve(KY, Y) + R.T @ beta, **exact)
    extra = R.T @ np.linalg.solve(A, R)
    covariance = KERNEL(XS) - Ks.T @ np.linalg.solve(KY, Ks) + extra
    np.testing.assert_allclose(post.covariance(XS, latent=True), covariance, **exact)
    assert np.linalg.eigvalsh(extra).min() > -1e-12


def test_evidence_with_gaussian_weights():
    """A.R19 (2.43): log N(y | H'b, Ky + H'BH); (2.44) for b = 0 as printed."""
    B = np.diag(VARIANCES)
    expected = stats.multivariate_normal(H @ WEIGHTS, KY + H @ B @ H.T).logpdf(Y)
    assert condition(gaussian()).log_evidence == pytest.approx(expected, rel=1e-11)
    A = np.linalg.inv(B) + H.T @ np.linalg.solve(KY, H)
    inverse = np.linalg.inv(KY)
    C = inverse @ H @ np.linalg.solve(A, H.T) @ inverse
    logdet = sum(np.linalg.slogdet(M)[1] for M in (KY, B, A))
    printed = -0.5 * Y @ inverse @ Y + 0.5 * Y @ C @ Y - 0.5 * logdet - 5.5 * np.log(2 * np.pi)
    assert condition(gaussian(b=None)).log_evidence == pytest.approx(printed, rel=1e-11)


# ------------------------------------------------------------------------------------------------- vague
# weights


@solvers
def test_vague_weights_are_the_limit(solver):
    """A.R18 (2.42): predictions with B = 10^8 I approach the vague ones, whatever b was."""
    vague = condition(means.Polynomial(1), solver=solver)
    for b in (None, WEIGHTS * 10):
        wide = condition(gaussian(1e8, b))
        np.testing.assert_allclose(vague.mean(XS), wide.mean(XS), rtol=1e-6, atol=1e-6)
        np.testing.assert_allclose(vague.covariance(XS), wide.covariance(XS), rtol=1e-6, atol=1e-6)


def test_vague_weights_are_generalised_least_squares():
    """A.R18: beta-bar is the GLS estimate with covariance (H Ky^-1 H')^-1;
    data in the span of h are reproduced everywhere.
    """
    post = condition(means.Polynomial(1))
    A = H.T @ np.linalg.solve(KY, H)
    np.testing.assert_allclose(
        post.state.basis_weights().mean, np.linalg.solve(A, H.T @ np.linalg.solve(KY, Y)), **exact
    )
    np.testing.assert_allclose(post.state.basis_weights().covariance, np.linalg.inv(A), **exact)
    beta = np.array([3.0, -2.0, 100.0])
    np.testing.assert_allclose(condition(means.Polynomial(1), H @ beta).mean(XS), HS @ beta, rtol=1e-10)
    np.testing.assert_allclose(
        condition(means.Polynomial(1), Y + H @ beta).mean(XS), post.mean(XS) + HS @ beta, rtol=1e-10
    )


def test_vague_evidence():
    """A.R19 (2.45): as printed with n - m, and the limit of (2.43) + 1/2 log|B| + m/2 log 2 pi."""
    found = condition(means.Polynomial(1)).log_evidence
    inverse = np.linalg.inv(KY)
    A = H.T @ inverse @ H
    C = inverse @ H @ np.linalg.solve(A, H.T) @ inverse
    logdet = np.linalg.slogdet(KY)[1] + np.linalg.slogdet(A)[1]
    assert found == pytest.approx(
        -0.5 * Y @ inverse @ Y + 0.5 * Y @ C @ Y - 0.5 * logdet - 4.0 * np.log(2 * np.pi), rel=1e-11
    )
    wide = [
        condition(gaussian(b, None)).log_evidence + 1.5 * np.log(b) + 1.5 * np.log(2 * np.pi)
        for b in (1e4, 1e6)
    ]
    assert abs(wide[1] - found) < 1e-5 and abs(wide[1] - found) < 0.02 * abs(wide[0] - found)


def test_ordinary_kriging():
    """A.R18: a constant with vague weight; smoother weights sum to one,
    so constant data come back exactly.
    """
    post = condition(means.Polynomial(0))
    W = post.smoother(XS)
    np.testing.assert_allclose(W.sum(1), 1.0, rtol=1e-11)
    np.testing.assert_allclose(W @ Y, post.mean(XS), **exact)
    np.testing.assert_allclose(condition(means.Polynomial(0), np.full(11, 7.0)).mean(XS), 7.0, rtol=1e-11)
    assert post.variance([[50.0, 50.0]], latent=True)[0] > 1.4, "the constant is uncertain too"
    assert post.degrees_of_freedom() == pytest.approx(np.trace(post.smoother(X)), rel=1e-9)


@pytest.mark.parametrize("basis", [means.Polynomial(1), gaussian()], ids=["vague", "gaussian"])
def test_leave_one_out_with_a_basis(basis):
    """A.M8, A.R18: left-out predictions equal refits without the datum."""
    found = condition(basis).loo()
    for i in range(11):
        rest = np.delete(np.arange(11), i)
        post = mc.GP(KERNEL, basis=basis).condition(X[rest], Y[rest], noise_variance=NOISE)
        assert found.mean[i] == pytest.approx(post.mean(X[[i]])[0], rel=1e-9, abs=1e-10)
        assert found.variance[i] == pytest.approx(post.variance(X[[i]])[0], rel=1e-9)
        assert found.log_density[i] == pytest.approx(post.log_density(X[[i]], Y[[i]])[0], rel=1e-9, abs=1e-10)


@pytest.mark.parametrize("basis", [means.Polynomial(1), gaussian()], ids=["vague", "gaussian"])
def test_gradient_with_a_basis(basis):
    """A.M3, A.R19: derivatives of (2.43) and (2.45) with respect to kernel and noise;
    the prior of the weights is data.
    """

    def evidence(l0, l1, variance, noise):
        gp = mc.GP(k.SE([l0, l1], variance), basis=basis)
        return mc.log_evidence_and_gradient(gp, X, Y, noise_variance=noise)

    at = np.array([0.8, 1.5, 1.4, NOISE])
    _, gradient = evidence(*at)
    expected = [(evidence(*(at + h))[0] - evidence(*(at - h))[0]) / 2e-5 for h in 1e-5 * np.eye(4)]
    found = [
        *gradient["kernel.lengthscale"],
        gradient["kernel.variance"],
        gradient["likelihood.noise_variance"],
    ]
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-8)
    assert all(np.all(value == 0) for name, value in gradient.items() if name.startswith("basis"))


def test_a_prior_with_a_vague_basis_cannot_be_sampled():
    """A flat prior has no draws; the posterior does."""
    with pytest.raises(ValueError, match="cannot be sampled; condition it first"):
        mc.GP(KERNEL, basis=means.Polynomial(0)).sample(XS)
    assert condition(means.Polynomial(0)).sample(XS, 3, seed=0).shape == (3, 4)


def test_collinear_columns_are_left_out_and_named():
    """Predictions, evidence and files are those of the basis without them."""
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(X, columns=["a", "b"]).assign(
        a_again=lambda t: 3 * t.a, total=lambda t: t.a - t.b
    )
    new = pandas.DataFrame(XS, columns=["a", "b"]).assign(
        a_again=lambda t: 3 * t.a, total=lambda t: t.a - t.b
    )
    kernel = k.SE(0.8).on("a", "b")
    fitted = mc.GPRegressor(kernel, basis=means.Polynomial(1), max_evaluations=0).fit(frame, Y)
    plain = mc.GPRegressor(kernel, basis=means.Polynomial(1), max_evaluations=0).fit(frame[["a", "b"]], Y)
    assert fitted.log_marginal_likelihood_ == pytest.approx(plain.log_marginal_likelihood_, rel=1e-10)
    for got, expected in zip(fitted.predict(new, True), plain.predict(new[["a", "b"]], True), strict=True):
        np.testing.assert_allclose(got, expected, **exact)
    np.testing.assert_allclose(fitted.loo().mean, plain.loo().mean, **exact)
    assert any("left out" in note and "a_again, total" in note for note in fitted.posterior_.notes)
    assert not any("left out" in note for note in plain.posterior_.notes)


# ------------------------------------------------------------------------------------------------- columns
# beside a time


def test_columns_beside_a_time_on_the_markov_solver():
    """Effects of other columns are integrated out in O(n): evidence, predictions and parts
    are those of dense algebra, and draws have their moments.
    """
    from mercer.solvers.markov_parts import parts

    smooth, rough = k.Matern(0.8, 1.4, nu=1.5), k.Matern(0.3, 0.5, nu=0.5)
    basis = means.Coordinates([1], centre=0.3, covariance=[0.7], weights=[0.4])
    markov, dense = (
        mc.GP((smooth + rough).on(0), basis=basis).condition(X, Y, noise_variance=NOISE, solver=s)
        for s in ("markov", "dense")
    )
    direct = mc.GP(smooth.on(0) + rough.on(0) + k.Linear(0.7, centre=0.3).on(1)).condition(
        X, Y - 0.4 * (X[:, 1] - 0.3), noise_variance=NOISE
    )
    assert markov.log_evidence == pytest.approx(direct.log_evidence, rel=1e-10)
    np.testing.assert_allclose(markov.mean(XS), dense.mean(XS), atol=1e-9)
    np.testing.assert_allclose(markov.covariance(XS), dense.covariance(XS), atol=1e-9)
    mean, variance = parts(markov.state, XS[:, 0], XS[:, 1:] - 0.3)
    for j, part in enumerate(direct.components(XS)[:2]):
        np.testing.assert_allclose(mean[:, j], part.mean, atol=1e-8)
        np.testing.assert_allclose(variance[:, j], part.std**2, atol=1e-8)
    np.testing.assert_allclose(mean[:, -1], dense.mean(XS), atol=1e-8)
    np.testing.assert_allclose(variance[:, -1], dense.variance(XS, latent=True), atol=1e-8)
    draws = markov.sample(XS, 4000, seed=0, latent=True)
    np.testing.assert_allclose(draws.mean(0), mean[:, -1], atol=0.05)
    np.testing.assert_allclose(np.cov(draws.T), dense.covariance(XS, latent=True), atol=0.05)
    with pytest.raises(mc.params.ParameterError, match="reads columns"):
        means.Coordinates([2]).features(X)
