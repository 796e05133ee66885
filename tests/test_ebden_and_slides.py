"""Published examples of two short texts: Ebden's regression notes (T-EB) and the lecture slides on kernel
methods (T-SL).
"""

import numpy as np
import pytest
from scipy.optimize import minimize

import mercer as mc
from mercer import kernels as k
from mercer.likelihoods import Gaussian
from mercer.params import fixed

X = np.array([-1.5, -1.0, -0.75, -0.4, -0.25, 0.0])[:, None]
Y = 0.55 * np.array([-3.0, -2.0, -0.6, 0.4, 1.0, 1.6])
XS, NOISE = np.array([[0.2]]), 0.3**2
ROUNDED = k.SE(1.0, 1.27**2)


# ------------------------------------------------------------------------------------------------- Ebden


@pytest.fixture(scope="module")
def fitted():
    """l and sigma_f by maximum likelihood, sigma_n = 0.3 fixed, y centred."""
    model = mc.Model(mc.GP(k.SE(), Y.mean()), Gaussian(fixed(NOISE)))
    return mc.fit(model, X, Y, restarts=2, seed=0)


def test_maximum_likelihood(fitted):
    """D.EB2, T-EB2: l = 0.990308, sigma_f = 1.267896, log evidence -4.209776 (published: 1 and 1.27)."""
    kernel = fitted.model.gp.kernel
    assert float(kernel.lengthscale) == pytest.approx(0.990308, abs=2e-4)
    assert np.sqrt(float(kernel.variance)) == pytest.approx(1.267896, abs=2e-4)
    assert fitted.posterior.log_evidence == pytest.approx(-4.209776, abs=1e-6)
    assert float(fitted.model.likelihood.noise_variance) == NOISE, "a fixed parameter stays"


def test_published_matrices(fitted):
    """D.EB1, T-EB3, T-EB4: K (4) to two decimals at the optimum; K* (5) at the rounded values;
    K** = 1.70 with the noise.
    """
    printed = np.array([
        [1.70, 1.42, 1.21, 0.87, 0.72, 0.51],
        [1.42, 1.70, 1.56, 1.34, 1.21, 0.97],
        [1.21, 1.56, 1.70, 1.51, 1.42, 1.21],
        [0.87, 1.34, 1.51, 1.70, 1.59, 1.48],
        [0.72, 1.21, 1.42, 1.59, 1.70, 1.56],
        [0.51, 0.97, 1.21, 1.48, 1.56, 1.70],
    ])  # fmt: skip
    np.testing.assert_allclose(fitted.model.gp.kernel(X) + NOISE * np.eye(6), printed, atol=0.0051)
    np.testing.assert_allclose(ROUNDED(XS, X)[0], [0.38, 0.79, 1.03, 1.35, 1.46, 1.58], atol=0.0051)
    assert ROUNDED(XS)[0, 0] + NOISE == pytest.approx(1.70, abs=0.005)


def test_published_prediction(fitted):
    """D.EB1, T-EB5: 0.95 and 0.21 at x* = 0.2; noise inside (y*) and outside (f*)."""
    post = fitted.posterior
    assert post.mean(XS)[0] == pytest.approx(0.95239, abs=5e-5)
    assert post.variance(XS)[0] == pytest.approx(0.20701, abs=2e-5)
    assert post.variance(XS, latent=True)[0] == pytest.approx(0.1170, abs=5e-5)
    assert (round(post.mean(XS)[0], 2), round(post.variance(XS)[0], 2)) == (0.95, 0.21)


def test_negative_control_without_centring():
    """T-EB6: raw y gives 0.9807 and 0.2060 at l = 1, sigma_f = 1.27;
    at its own optimum 0.99979 with evidence -4.260036.
    """
    post = mc.GP(ROUNDED).condition(X, Y, noise_variance=NOISE)
    assert (post.mean(XS)[0], post.variance(XS)[0]) == (
        pytest.approx(0.9807, abs=5e-5),
        pytest.approx(0.2060, abs=5e-5),
    )
    raw = mc.fit(mc.Model(mc.GP(k.SE()), Gaussian(fixed(NOISE))), X, Y)
    assert raw.posterior.log_evidence == pytest.approx(-4.260036, abs=1e-6)
    assert float(raw.model.gp.kernel.lengthscale) == pytest.approx(1.0423, abs=5e-4)
    assert np.sqrt(float(raw.model.gp.kernel.variance)) == pytest.approx(1.3414, abs=5e-4)
    assert raw.posterior.mean(XS)[0] == pytest.approx(0.99979, abs=1e-4)


@pytest.mark.parametrize(
    ("centre", "l", "sigma_f", "sigma_n", "evidence"),
    [(True, 1.0496, 1.2635, 0.1128, -2.505282), (False, 1.0659, 1.3006, 0.1127, -2.550222)],
    ids=["centred", "raw"],
)
def test_all_three_free(centre, l, sigma_f, sigma_n, evidence):
    """D.EB2, T-EB7: length-scale, signal and noise learned together."""
    found = mc.fit(mc.Model(mc.GP(k.SE(), Y.mean() if centre else None), Gaussian(NOISE)), X, Y)
    assert found.posterior.log_evidence == pytest.approx(evidence, abs=1e-6)
    assert float(found.model.gp.kernel.lengthscale) == pytest.approx(l, abs=5e-4)
    assert np.sqrt(float(found.model.gp.kernel.variance)) == pytest.approx(sigma_f, abs=5e-4)
    assert np.sqrt(float(found.model.likelihood.noise_variance)) == pytest.approx(sigma_n, abs=2e-4)


def test_band_on_a_grid(fitted):
    """D.EB1, T-EB8: mean +- 1.96 sd at 1000 inputs; narrow near the data, wider beyond them."""
    grid = (np.arange(1, 1001) / 1000 * 2.1 - 1.8)[:, None]
    post = fitted.posterior
    low, high = post.quantile(grid, [0.025, 0.975]).T
    np.testing.assert_allclose(high - post.mean(grid), 1.959963984540054 * post.std(grid), rtol=1e-10)
    width = high - low
    inside = (grid[:, 0] > -1.0) & (grid[:, 0] < 0.0)
    assert width[inside].max() < width[-1] and width[inside].max() < width[0]
    assert np.all(np.diff(width[grid[:, 0] > 0.05]) > 0), "growing to the right of the data"
    assert post.covariance(grid).shape == (1000, 1000)


def test_composite_kernels():
    """D.EB3, T-EB9, T-EB10: two SE scales (11);
    SE plus a periodic of unit amplitude (12) keeps correlation at long distance.
    """
    x = np.array([[0.0], [0.4], [7.0]])
    r2 = (x - x.T) ** 2
    two = k.SE(0.5, 1.3) + k.SE(3.0, 0.7)
    np.testing.assert_allclose(two(x), 1.3 * np.exp(-2 * r2) + 0.7 * np.exp(-r2 / 18), rtol=1e-13)
    nu = 0.8
    both = k.SE(0.5, 1.3) + k.Periodic(1 / nu, fixed(1.0), fixed(1.0))
    np.testing.assert_allclose(
        both(x), 1.3 * np.exp(-2 * r2) + np.exp(-2 * np.sin(nu * np.pi * (x - x.T)) ** 2), rtol=1e-12
    )
    assert both([[0.0]], [[20 / nu]])[0, 0] == pytest.approx(1.0, rel=1e-12)


def test_long_and_short_scales_are_told_apart():
    """D.EB3, T-EB9: a short and a six times longer trend are recovered as the two terms of the sum."""
    rng = np.random.default_rng(0)
    x = np.linspace(0, 20, 60)[:, None]
    slow, fast = mc.GP(k.SE(6.0, 4.0)).sample(x, 1, seed=1)[0], mc.GP(k.SE(1.0, 0.3)).sample(x, 1, seed=2)[0]
    y = slow + fast + 0.1 * rng.normal(size=60)
    post = mc.GP(k.SE(6.0, 4.0) + k.SE(1.0, 0.3)).condition(x, y, noise_variance=0.01)
    parts = post.components(x)
    for part, truth in zip(parts, (slow, fast), strict=True):
        assert np.mean(np.abs(part.mean - truth) < 3 * part.std) > 0.95
    assert np.corrcoef(parts[0].mean, slow)[0, 1] > 0.95
    assert post.log_evidence > mc.GP(k.SE(6.0, 4.3)).condition(x, y, noise_variance=0.01).log_evidence + 10


def test_vector_inputs():
    """D.EB4: several input columns, |x - x'|^2 in the exponent, with a mean function."""
    rng = np.random.default_rng(3)
    x, y, xs = rng.normal(size=(8, 3)), rng.normal(size=8), rng.normal(size=(2, 3))
    post = mc.GP(k.SE(1.2, 0.9), lambda X: X.sum(1)).condition(x, y, noise_variance=0.1)
    r2 = lambda a, b: ((a[:, None] - b[None]) ** 2).sum(-1)  # noqa: E731
    kernel = lambda a, b: 0.9 * np.exp(-r2(a, b) / (2 * 1.2**2))  # noqa: E731
    expected = xs.sum(1) + kernel(xs, x) @ np.linalg.solve(kernel(x, x) + 0.1 * np.eye(8), y - x.sum(1))
    np.testing.assert_allclose(post.mean(xs), expected, rtol=1e-11)


# ------------------------------------------------------------------------------------------------- slides


def test_kernel_ridge_regression():
    """D.SL1, T-SL2: kernel ridge regression, primal and dual, is the GP mean with lambda = noise variance,
    to 1e-10.
    """
    from sklearn.kernel_ridge import KernelRidge

    rng = np.random.default_rng(5)
    x, t, xs, penalty = rng.normal(size=(15, 2)), rng.normal(size=15), rng.normal(size=(4, 2)), 0.3
    kernel = k.SE(1.1)
    ridge = KernelRidge(alpha=penalty, kernel="precomputed").fit(kernel(x), t)
    np.testing.assert_allclose(
        mc.GP(kernel).condition(x, t, noise_variance=penalty).mean(xs),
        ridge.predict(kernel(xs, x)),
        atol=1e-10,
    )
    Phi, Phis = (np.column_stack([np.ones(len(a)), a, a**2]) for a in (x, xs))
    w = np.linalg.solve(penalty * np.eye(5) + Phi.T @ Phi, Phi.T @ t)
    np.testing.assert_allclose(w, Phi.T @ np.linalg.solve(penalty * np.eye(15) + Phi @ Phi.T, t), atol=1e-11)
    basis = mc.means.Polynomial(2, covariance=1.0)
    tiny = mc.GP(k.Constant(1e-14), basis=basis).condition(x, t, noise_variance=penalty)
    np.testing.assert_allclose(tiny.mean(xs), Phis @ w, atol=1e-10)


def test_hyperparameter_effects():
    """D.SL6, A.R9, T-SL1, Fig. 2.5: data from (l, sf, sn) = (1, 1, 0.1): l = 0.3 drives the noise to 0, l = 3
    up.

    The text does not print its data; this is a draw from the same process.
    """
    rng = np.random.default_rng(8)
    x = np.sort(rng.uniform(-7, 7, 20))[:, None]
    y = mc.GP(k.SE()).sample(x, 1, seed=9)[0] + 0.1 * rng.normal(size=20)
    ends = {l: mc.fit(mc.Model(mc.GP(k.SE(fixed(l))), Gaussian(0.05)), x, y) for l in (0.3, 1.0, 3.0)}
    noise = {l: np.sqrt(float(f.model.likelihood.noise_variance)) for l, f in ends.items()}
    assert noise[0.3] < 0.01 and 0.05 < noise[1.0] < 0.2 and noise[3.0] > 0.5
    assert ends[1.0].value > max(ends[0.3].value, ends[3.0].value) + 2
    # between the data the short scale goes back to the prior, the long one does not
    middle = 0.5 * (x[:-1] + x[1:])[np.argmax(np.diff(x[:, 0]))][None]
    assert (
        ends[0.3].posterior.std(middle, latent=True)[0]
        > 1.5 * ends[1.0].posterior.std(middle, latent=True)[0]
    )


def test_local_optima():
    """D.SL8, T-SL5, Fig. 5.5: seven points with two explanations: short scale and little noise,
    long scale and much noise.
    """
    rng = np.random.default_rng(0)
    x = np.sort(rng.uniform(-5, 5, 7))[:, None]
    y = np.linalg.cholesky(k.SE()(x) + 0.1 * np.eye(7)) @ rng.normal(size=7)

    def loss(u):
        value, gradient = mc.log_evidence_and_gradient(
            mc.GP(k.SE(np.exp(u[0]))), x, y, noise_variance=np.exp(u[1])
        )
        return -value, -np.exp(u) * [gradient["kernel.lengthscale"], gradient["likelihood.noise_variance"]]

    short, long = (minimize(loss, np.log(start), jac=True, tol=1e-10) for start in ((1.0, 0.05), (6.0, 0.8)))
    for end in (short, long):
        assert np.abs(end.jac).max() < 1e-5
        hessian = np.array([(loss(end.x + h)[1] - loss(end.x - h)[1]) / 2e-4 for h in 1e-4 * np.eye(2)])
        assert np.linalg.eigvalsh(hessian + hessian.T).min() > 0, "a maximum of the evidence"
    assert np.exp(short.x) == pytest.approx([1.25, 0.07], rel=0.2) and np.exp(long.x) == pytest.approx(
        [5.3, 0.73], rel=0.2
    )
    model = mc.Model(mc.GP(k.SE(6.0, fixed(1.0))), Gaussian(0.8))
    best = mc.fit(model, x, y, restarts=3, seed=0)
    assert best.value == pytest.approx(-min(short.fun, long.fun), abs=1e-5), (
        "several starts find the better one"
    )


def test_irrelevant_input_is_found():
    """D.SL9, T-SL4: of three inputs the one that does not matter loses its weight 1 / l^2 by orders of
    magnitude.
    """
    rng = np.random.default_rng(1)
    x = rng.uniform(-2, 2, size=(50, 3))
    y = np.sin(2 * x[:, 0]) + 0.5 * x[:, 1] ** 2 + 0.05 * rng.normal(size=50)
    found = mc.fit(mc.Model(mc.GP(k.SE([1.0, 1.0, 1.0])), Gaussian(0.1)), x, y)
    eta = np.asarray(found.model.gp.kernel.lengthscale) ** -2.0
    assert eta[2] < 1e-3 * eta[:2].min()


def test_linear_gaussian_rules():
    """D.SL10, D.SL2: x ~ N(mu, S), y = A x + noise: marginal and posterior,
    which is Bayesian linear regression.
    """
    rng = np.random.default_rng(6)
    A, y, noise, S = rng.normal(size=(7, 2)), rng.normal(size=7), 0.2, np.array([1.5, 0.4])
    mu = np.array([0.3, -0.7])
    gp = mc.GP(k.Linear(S), mc.means.Linear(fixed(mu)))
    post = gp.condition(A, y, noise_variance=noise, solver="weight-space")
    posterior = np.linalg.inv(np.diag(1 / S) + A.T @ A / noise)
    mean = posterior @ (A.T @ y / noise + mu / S)
    np.testing.assert_allclose(post.mean(np.eye(2)), mean, rtol=1e-11)
    np.testing.assert_allclose(post.covariance(np.eye(2), latent=True), posterior, rtol=1e-10)
    marginal = A @ np.diag(S) @ A.T + noise * np.eye(7)
    residual = y - A @ mu
    log_density = (
        -0.5 * residual @ np.linalg.solve(marginal, residual)
        - 0.5 * np.linalg.slogdet(2 * np.pi * marginal)[1]
    )
    assert post.log_evidence == pytest.approx(log_density, rel=1e-11)
    # the conditional by Schur complements of the joint of (x, y), with the block inverse
    joint = np.block([[np.diag(S), np.diag(S) @ A.T], [A @ np.diag(S), marginal]])
    schur = joint[:2, :2] - joint[:2, 2:] @ np.linalg.solve(joint[2:, 2:], joint[2:, :2])
    np.testing.assert_allclose(post.covariance(np.eye(2), latent=True), schur, rtol=1e-9)
    np.testing.assert_allclose(np.linalg.inv(np.linalg.inv(joint)[:2, :2]), schur, rtol=1e-8)
