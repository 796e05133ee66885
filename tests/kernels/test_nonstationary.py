"""Non-stationary kernels against their formulas in plain NumPy, quadrature, simulation and conditioning."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special
from scipy.interpolate import make_smoothing_spline

import mercer as mc
from mercer import kernels as k
from mercer import means
from mercer.inputs import InputError
from mercer.params import ParameterError, fixed, parameters

RNG = np.random.default_rng(11)
X1, X2 = RNG.normal(size=(9, 2)), RNG.normal(size=(7, 2))
T1, T2 = RNG.uniform(0, 1, (8, 1)), RNG.uniform(0, 1, (6, 1))
SIGMA = np.array([[2.0, 0.4, -0.3], [0.4, 1.5, 0.2], [-0.3, 0.2, 0.8]])
exact = dict(rtol=1e-12, atol=1e-14)


def augmented(X):
    return np.hstack([np.ones((len(X), 1)), X])


# ------------------------------------------------------------------------------------------------- infinite
# networks


def arcsine(A, B, S):
    """(4.29)"""
    inner = lambda P, Q: np.einsum("id,de,je->ij", augmented(P), S, augmented(Q))  # noqa: E731
    scale = (1 + 2 * np.diag(inner(A, A)))[:, None] * (1 + 2 * np.diag(inner(B, B)))[None, :]
    return 2 / np.pi * np.arcsin(2 * inner(A, B) / np.sqrt(scale))


def test_neural_network():
    """A.K15, D.K15, C.COV11: (4.29) with diagonal and with full weight covariance; the golden value."""
    K = k.NeuralNetwork(0.7, [1.5, 0.4], 1.3)(X1, X2)
    np.testing.assert_allclose(K, 1.3 * arcsine(X1, X2, np.diag([0.7, 1.5, 0.4])), **exact)
    full = k.NeuralNetwork(factor=k.lower_factor(SIGMA), variance=1.3)
    np.testing.assert_allclose(full(X1, X2), 1.3 * arcsine(X1, X2, SIGMA), **exact)
    np.testing.assert_allclose(
        k.NeuralNetwork(4.0, 2.25)([[0.3]], [[-0.9]])[0, 0], 0.427499772697218, rtol=1e-14
    )
    assert {p.name for p in parameters(full) if p.free} == {"factor", "variance"}


def test_neural_network_is_the_average_over_random_networks():
    """A.K15, C.COV13: the mean of h(x) h(x') over weights,
    and networks with many units and random output weights.
    """
    rng = np.random.default_rng(0)
    X = X1[:4]
    u = rng.normal(size=(400_000, 3)) @ k.lower_factor(SIGMA).T
    h = special.erf(u @ augmented(X).T)
    products = h[:, :, None] * h[:, None, :]
    error = products.std(0) / math.sqrt(len(u))
    K = k.NeuralNetwork(factor=k.lower_factor(SIGMA))(X)
    assert (np.abs(products.mean(0) - K) < 5 * error).all() and error.max() < 2e-3
    # output bias of variance 0.5 and 50 units with weights of variance 2 / 50: the covariance, and almost
    # Gaussian
    networks, units = 8000, 50
    v = rng.normal(size=(networks, units)) * math.sqrt(2.0 / units)
    f = rng.normal(size=(networks, 1)) * math.sqrt(0.5) + np.einsum(
        "nu,nux->nx", v, h.reshape(networks, units, -1)
    )
    np.testing.assert_allclose(f.T @ f / networks, 0.5 + 2.0 * K, atol=0.12)
    kurtosis = (f**4).mean(0) / (f**2).mean(0) ** 2
    np.testing.assert_allclose(kurtosis, 3.0, atol=0.2)


def test_neural_network_with_huge_weights():
    """The arcsine at its end: values at most the variance, derivatives finite and right."""
    x = np.array([[-1.0], [-1e-3], [0.0], [1e-3], [1.0]])
    kernel = k.NeuralNetwork(1e2, 1e8)
    K = kernel(x)
    assert np.abs(K).max() <= 1.0 and np.linalg.eigvalsh(K)[0] > 0
    slope = jax.grad(lambda w: k.NeuralNetwork(1e2, w).block(x, x).sum())(1e8)
    step = [k.NeuralNetwork(1e2, 1e8 * s)(x).sum() for s in (1.001, 0.999)]
    np.testing.assert_allclose(slope, (step[0] - step[1]) / 2e5, rtol=1e-4)


def test_gaussian_network():
    """A.K16, D.K16, C.COV13, A.A3: (4.30) by quadrature over the centres, its golden value,
    and as a rescaled SE.
    """
    g, u = 0.7, 1.3
    np.testing.assert_allclose(
        k.GaussianNetwork(g, u)([[0.4]], [[-0.6]])[0, 0], 0.213079432891093, rtol=1e-14
    )
    centres = np.linspace(-14, 14, 4001)
    weight = np.exp(-0.5 * (centres / u) ** 2) / (math.sqrt(2 * math.pi) * u) * (centres[1] - centres[0])

    def bumps(x):
        return np.exp(-0.5 * (x[:, None] - centres) ** 2 / g**2)

    by_column = [(bumps(X1[:, j]) * weight) @ bumps(X2[:, j]).T for j in range(2)]
    np.testing.assert_allclose(
        k.GaussianNetwork(g, u, 1.5)(X1, X2), 1.5 * by_column[0] * by_column[1], rtol=1e-11
    )
    s2, m2, e2 = 2 * g**2 + g**4 / u**2, 2 * u**2 + g**2, 1 / (2 / g**2 + 1 / u**2)
    rescaled = k.SE(math.sqrt(s2)).rescale(lambda X: math.sqrt(e2) / u * np.exp(-0.5 * (X**2).sum(1) / m2))
    np.testing.assert_allclose(k.GaussianNetwork(g, u)(X1, X2), rescaled(X1, X2), **exact)


def test_gaussian_network_limit():
    """A.K16: centres spread everywhere give the SE with length-scale sqrt(2) width,
    with an error that falls as 1 / spread^2.
    """
    errors = []
    for u in (1e2, 1e3):
        kernel = k.GaussianNetwork(0.7, u)
        K = kernel(X1, X2) / kernel(np.zeros((1, 2)))
        errors.append(np.abs(K - k.SE(math.sqrt(2) * 0.7)(X1, X2)).max())
    assert errors[0] < 1e-3
    np.testing.assert_allclose(errors[0] / errors[1], 100.0, rtol=0.02)


@pytest.mark.parametrize("order", [0, 1, 2])
def test_arc_cosine(order):
    """The closed forms J_n of the angle, and the average over random units with weights ~ N(0, Sigma)."""
    inner = augmented(X1[:4]) @ SIGMA @ augmented(X1[:4]).T
    length = np.sqrt(np.diag(inner))
    theta = np.arccos(np.clip(inner / np.outer(length, length), -1, 1))
    J = [
        np.pi - theta,
        np.sin(theta) + (np.pi - theta) * np.cos(theta),
        3 * np.sin(theta) * np.cos(theta) + (np.pi - theta) * (1 + 2 * np.cos(theta) ** 2),
    ][order]
    K = k.ArcCosine(factor=k.lower_factor(SIGMA), order=order)(X1[:4])
    np.testing.assert_allclose(K, np.outer(length, length) ** order * J / np.pi, rtol=1e-7)
    rng = np.random.default_rng(1)
    a = rng.normal(size=(300_000, 3)) @ k.lower_factor(SIGMA).T @ augmented(X1[:4]).T
    h = np.where(a > 0, np.abs(a) ** order, 0.0)
    products = 2 * h[:, :, None] * h[:, None, :]
    assert (np.abs(products.mean(0) - K) < 5 * products.std(0) / math.sqrt(len(a))).all()


# ------------------------------------------------------------------------------------------------- varying
# length-scales


def gibbs(A, B, l, m):
    """(4.32) for length-scales l (a, d) and m (b, d)."""
    total = l[:, None] ** 2 + m[None] ** 2
    prefactor = np.sqrt(2 * l[:, None] * m[None] / total).prod(-1)
    return prefactor * np.exp(-((A[:, None] - B[None]) ** 2 / total).sum(-1))


def lengths(X):
    return np.exp(0.4 * X) + 0.1


def test_gibbs():
    """A.K19, D.K17: (4.32); one length-scale for all columns; a constant one is the SE."""
    np.testing.assert_allclose(
        k.Gibbs(lengths, 1.3)(X1, X2), 1.3 * gibbs(X1, X2, lengths(X1), lengths(X2)), **exact
    )
    common = k.Gibbs(lambda X: 0.5 + X[:, 0] ** 2)
    l, m = (np.repeat(0.5 + X[:, :1] ** 2, 2, 1) for X in (X1, X2))
    np.testing.assert_allclose(common(X1, X2), gibbs(X1, X2, l, m), **exact)
    np.testing.assert_allclose(
        k.Gibbs(lambda X: np.full(len(X), 0.8), 1.3)(X1, X2), k.SE(0.8, 1.3)(X1, X2), **exact
    )
    columns = k.Gibbs(lambda X: np.tile([0.8, 1.7], (len(X), 1)))
    np.testing.assert_allclose(columns(X1, X2), k.SE([0.8, 1.7])(X1, X2), **exact)


def test_learned_lengthscale_functions():
    """A.K19: the families against their formulas; a latent process goes through its values,
    and to their mean far away.
    """
    weights, intercept = np.array([[0.3, -0.2], [0.1, 0.4]]), np.array([0.2, -0.1])
    np.testing.assert_allclose(k.LogLinear(weights, intercept)(X1), np.exp(intercept + X1 @ weights), **exact)
    centres, w = RNG.normal(size=(3, 2)), np.array([0.5, -1.0, 0.2])
    bumps = np.exp(-0.5 * ((X1[:, None] - centres) ** 2).sum(-1) / 0.7**2)
    np.testing.assert_allclose(k.LogRadial(centres, w, 0.7, 0.3)(X1), np.exp(0.3 + bumps @ w), **exact)
    process = k.LogProcess(centres, w, k.SE(0.8))
    np.testing.assert_allclose(process(centres), np.exp(w), rtol=1e-8)
    np.testing.assert_allclose(process([[99.0, 99.0]]), np.exp(w.mean()), rtol=1e-12)
    K, cross = k.SE(0.8)(centres), k.SE(0.8)(X1, centres)
    np.testing.assert_allclose(
        process(X1), np.exp(w.mean() + cross @ np.linalg.solve(K, w - w.mean())), rtol=1e-8
    )
    assert [p.name for p in parameters(k.Gibbs(process)) if p.free] == ["lengthscale.values", "variance"]
    np.testing.assert_allclose(
        k.Gibbs(k.LogLinear(weights, intercept))(X1, X2),
        k.Gibbs(lambda X: np.exp(intercept + X @ weights))(X1, X2),
        **exact,
    )


def test_a_varying_lengthscale_is_learned():
    """Data that wiggle ever faster: log l linear in x, learned by the evidence,
    beats the SE by far and has the right sign.
    """
    x = np.linspace(0, 3, 60)[:, None]
    y = np.sin(np.exp(1.4 * x[:, 0])) + 0.05 * np.random.default_rng(3).normal(size=60)
    fits = {}
    for name, kernel in (("se", k.SE(0.3)), ("gibbs", k.Gibbs(k.LogLinear([0.0], -1.0)))):
        fits[name] = mc.fit(mc.Model(mc.GP(kernel)), x, y)
    assert fits["gibbs"].posterior.log_evidence > fits["se"].posterior.log_evidence + 15
    slope = fits["gibbs"].model.gp.kernel.lengthscale.weights
    np.testing.assert_allclose(slope, -1.4, atol=0.4)


def test_paciorek_schervish_is_gibbs():
    """A.K20, D.K18: the SE with squared length-scales on the diagonal;
    a constant S is the stationary kernel.
    """
    squared = k.PaciorekSchervish(k.SE(variance=1.3), lambda X: lengths(X) ** 2)
    np.testing.assert_allclose(squared(X1, X2), k.Gibbs(lengths, 1.3)(X1, X2), **exact)
    constant = k.PaciorekSchervish(k.Matern(nu=1.5), lambda X: np.tile([0.5, 2.0], (len(X), 1)))
    np.testing.assert_allclose(constant(X1, X2), k.Matern(np.sqrt([0.5, 2.0]), nu=1.5)(X1, X2), **exact)
    learned = k.PaciorekSchervish(k.SE(), k.LogLinear(weights=[0.6, 0.0]))
    half = k.Gibbs(k.LogLinear(weights=[0.3, 0.0]))
    np.testing.assert_allclose(learned(X1, X2), half(X1, X2), **exact)


def matrices(X):
    """Positive-definite (n, 3, 3)."""
    out = []
    for x in X:
        L = np.array([[1.0 + x[0] ** 2, 0, 0], [0.3 * x[1], 0.7, 0], [x[0], -0.2, 0.5 + abs(x[2])]])
        out.append(L @ L.T)
    return np.array(out)


def test_paciorek_schervish_full():
    """A.K20: (4.33-4.34) pair by pair with full matrices in three columns;
    diagonal matrices given in full.
    """
    A, B = RNG.normal(size=(5, 3)), RNG.normal(size=(4, 3))
    expected = np.empty((5, 4))
    for i, (x, S) in enumerate(zip(A, matrices(A), strict=True)):
        for j, (y, T) in enumerate(zip(B, matrices(B), strict=True)):
            Q = (x - y) @ np.linalg.solve((S + T) / 2, x - y)
            scale = (
                2**1.5 * np.linalg.det(S) ** 0.25 * np.linalg.det(T) ** 0.25 / np.sqrt(np.linalg.det(S + T))
            )
            expected[i, j] = scale * (1 + Q / (2 * 0.8)) ** -0.8
    kernel = k.PaciorekSchervish(k.RationalQuadratic(alpha=0.8), matrices)
    np.testing.assert_allclose(kernel(A, B), expected, rtol=1e-11)
    np.testing.assert_allclose(np.diag(kernel(A)), 1.0, rtol=1e-12)
    diagonal = k.PaciorekSchervish(k.SE(), lambda X: np.einsum("nd,de->nde", lengths(X) ** 2, np.eye(2)))
    np.testing.assert_allclose(diagonal(X1, X2), k.Gibbs(lengths)(X1, X2), rtol=1e-11)


# ------------------------------------------------------------------------------------------------- Brownian
# motion


def test_wiener():
    """A.K22, D.K20: min(t, t'); eigenvalues 1 / ((i - 1/2)^2 pi^2) on [0, 1];
    H = 1/2 of the fractional process.
    """
    np.testing.assert_allclose(k.Wiener(1.3)(T1, T2), 1.3 * np.minimum(T1, T2.T), **exact)
    n = 400
    grid = (np.arange(n)[:, None] + 0.5) / n
    eigenvalues = np.linalg.eigvalsh(k.Wiener()(grid))[::-1][:4] / n
    np.testing.assert_allclose(eigenvalues, 1 / ((np.arange(1, 5) - 0.5) * np.pi) ** 2, rtol=2e-4)
    np.testing.assert_allclose(k.FractionalBrownian(0.5, 1.3)(T1, T2), k.Wiener(1.3)(T1, T2), **exact)


def test_fractional_brownian():
    """(|x|^2H + |x'|^2H - |x - x'|^2H) / 2, and increments of variance |x - x'|^2H."""
    norm = lambda D: np.sqrt((D**2).sum(-1))  # noqa: E731
    H = 0.3
    expected = 0.5 * (norm(X1)[:, None] ** 0.6 + norm(X2)[None] ** 0.6 - norm(X1[:, None] - X2[None]) ** 0.6)
    np.testing.assert_allclose(k.FractionalBrownian(H)(X1, X2), expected, **exact)
    K = k.FractionalBrownian(H)(X1[:2])
    np.testing.assert_allclose(K[0, 0] + K[1, 1] - 2 * K[0, 1], norm(X1[0] - X1[1]) ** 0.6, rtol=1e-12)


@pytest.mark.parametrize("order", [0, 1, 2, 3, 5])
def test_integrated_wiener(order):
    """The integral over u < min of (t - u)^p (t' - u)^p / p!^2 by Gauss-Legendre, which is exact here;
    order 0 is Wiener.
    """
    nodes, weights = np.polynomial.legendre.leggauss(order + 1)
    v = np.minimum(T1, T2.T)
    u = v[..., None] * (nodes + 1) / 2
    integrand = (T1[:, :, None] - u) ** order * (T2.T[:, :, None] - u) ** order / math.factorial(order) ** 2
    expected = 1.3 * (integrand * weights).sum(-1) * v / 2
    np.testing.assert_allclose(k.IntegratedWiener(order, 1.3)(T1, T2), expected, rtol=1e-10)


def test_integrated_wiener_of_order_one():
    """|t - t'| v^2 / 2 + v^3 / 3, and the double integral of min(u, u')."""
    v = np.minimum(T1, T2.T)
    np.testing.assert_allclose(
        k.IntegratedWiener(1)(T1, T2), np.abs(T1 - T2.T) * v**2 / 2 + v**3 / 3, rtol=1e-12
    )
    u = (np.arange(1500) + 0.5) / 1500
    double = np.minimum(0.7 * u[:, None], 0.4 * u[None]).mean() * 0.7 * 0.4
    np.testing.assert_allclose(k.IntegratedWiener(1)([[0.7]], [[0.4]])[0, 0], double, rtol=1e-5)


def test_integrated_wiener_is_the_cubic_smoothing_spline():
    """With a vague straight line in the mean,
    the posterior mean is SciPy's smoothing spline with penalty noise / variance.
    """
    x = np.sort(np.random.default_rng(5).uniform(0, 1, 25))
    y = np.sin(6 * x) + 0.1 * np.random.default_rng(6).normal(size=25)
    gp = mc.GP(k.IntegratedWiener(1, 40.0), basis=means.Polynomial(1))
    post = gp.condition(x[:, None], y, noise_variance=0.01)
    grid = np.linspace(x[0], x[-1], 50)
    spline = make_smoothing_spline(x, y, lam=0.01 / 40.0)
    np.testing.assert_allclose(post.mean(grid[:, None]), spline(grid), atol=1e-8)


def test_brownian_bridge():
    """A.K23: min - t t'; Brownian motion conditioned on f(1) = 0 through the GP itself; other lengths;
    tied down by a kernel.
    """
    np.testing.assert_allclose(
        k.BrownianBridge()(T1, T2), np.minimum(T1, T2.T) - T1 * T2.T, rtol=1e-12, atol=1e-15
    )
    post = mc.GP(k.Wiener(1.3)).condition([[1.0]], [0.0])
    np.testing.assert_allclose(
        post.covariance(T1, latent=True), k.BrownianBridge(variance=1.3)(T1), atol=2e-10
    )
    np.testing.assert_allclose(
        k.tied_down(k.Wiener(1.3), [1.0])(T1, T2), k.BrownianBridge(variance=1.3)(T1, T2), atol=2e-10
    )
    longer = np.minimum(T1, T2.T) - T1 * T2.T / 2.5
    np.testing.assert_allclose(k.BrownianBridge(2.5)(T1, T2), longer, rtol=1e-12)
    assert k.BrownianBridge()([[0.0], [1.0]], [[0.3]]).tolist() == [[0.0], [0.0]]


# ------------------------------------------------------------------------------------------------- others


def test_change_point():
    """(1 - s) k1 (1 - s') + s k2 s'; far on either side it is one of the kernels,
    and across them nothing is shared.
    """
    before, after = k.SE(0.7, 1.3), k.Matern(0.3, nu=1.5)
    s, t = (1 / (1 + np.exp(-3.0 * (X[:, 1] - 0.2))) for X in (X1, X2))
    expected = np.outer(1 - s, 1 - t) * before(X1, X2) + np.outer(s, t) * after(X1, X2)
    np.testing.assert_allclose(k.ChangePoint(before, after, 0.2, 3.0, column=1)(X1, X2), expected, **exact)
    table, other = {"a": X1[:, 0], "b": X1[:, 1]}, {"a": X2[:, 0], "b": X2[:, 1]}
    np.testing.assert_allclose(
        k.ChangePoint(before, after, 0.2, 3.0, column="b")(table, other), expected, **exact
    )
    x = np.array([[-50.0], [-49.5], [49.5], [50.0]])
    K = k.ChangePoint(before, after, 0.0, 2.0)(x)
    np.testing.assert_allclose(K[:2, :2], before(x[:2]), rtol=1e-14)
    np.testing.assert_allclose(K[2:, 2:], after(x[2:]), rtol=1e-14)
    assert np.abs(K[:2, 2:]).max() < 1e-40


def test_change_point_is_found():
    """A smooth function that turns rough at 0.6: the evidence finds the place."""
    x = np.linspace(0, 1, 80)[:, None]
    rng = np.random.default_rng(4)
    rough = mc.GP(k.SE(0.02)).sample(x, 1, seed=2)[0] * (x[:, 0] > 0.6)
    y = np.sin(4 * x[:, 0]) + rough + 0.05 * rng.normal(size=80)
    kernel = k.ChangePoint(k.SE(0.5), k.SE(0.05), 0.5, fixed(100.0))
    fit = mc.fit(mc.Model(mc.GP(kernel)), x, y)
    np.testing.assert_allclose(fit.model.gp.kernel.location, 0.6, atol=0.05)


def test_varying_coefficients():
    """A.K21, D.K19: phi(x)' W phi(x') k(x, x'), with a full W and with variances."""
    phi = lambda X: np.hstack([np.ones((len(X), 1)), X])  # noqa: E731
    expected = (phi(X1) @ SIGMA @ phi(X2).T) * k.SE(0.8)(X1, X2)
    np.testing.assert_allclose(k.varying_coefficients(phi, SIGMA, k.SE(0.8))(X1, X2), expected, **exact)
    w = np.array([2.0, 0.5, 1.0])
    expected = (phi(X1) @ np.diag(w) @ phi(X2).T) * k.SE(0.8)(X1, X2)
    np.testing.assert_allclose(k.varying_coefficients(phi, w, k.SE(0.8))(X1, X2), expected, **exact)


NOT_PSD = [[1.0, 2.0], [2.0, 1.0]]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: k.NeuralNetwork(-1.0), r"NeuralNetwork\.bias_variance must be zero or positive"),
        (
            lambda: k.NeuralNetwork(2.0, factor=np.eye(2)),
            r"NeuralNetwork\.bias_variance is part of the factor",
        ),
        (lambda: k.NeuralNetwork(1.0, [1.0, 2.0])(T1), r"NeuralNetwork\.weight_variance has 2 entries"),
        (
            lambda: k.NeuralNetwork(factor=NOT_PSD),
            r"NeuralNetwork\.factor must be lower triangular with a positive diagonal",
        ),
        (
            lambda: k.NeuralNetwork(factor=np.eye(2))(X1),
            r"NeuralNetwork\.factor is \(2, 2\) but with 2 input columns",
        ),
        (
            lambda: k.lower_factor(NOT_PSD),
            r"covariance must be positive definite, but its smallest eigenvalue is -1",
        ),
        (lambda: k.lower_factor([[1.0, 0.5], [0.2, 1.0]]), r"covariance must be symmetric"),
        (lambda: k.lower_factor([1.0, 2.0]), r"covariance must be a square matrix"),
        (lambda: k.varying_coefficients(lengths, NOT_PSD, k.SE()), r"covariance must be positive definite"),
        (lambda: k.ArcCosine(order=3), r"ArcCosine\.order must be 0, 1 or 2, got 3"),
        (lambda: k.GaussianNetwork(width=0.0), r"GaussianNetwork\.width must be positive"),
        (lambda: k.GaussianNetwork([1.0, 2.0]), r"GaussianNetwork\.width must be one number"),
        (lambda: k.Gibbs("long"), r"expected a function"),
        (
            lambda: k.Gibbs(lambda X: np.ones((len(X), 3)))(X1),
            r"Gibbs\.lengthscale gives 3 numbers for each input",
        ),
        (
            lambda: k.Gibbs(lambda X: X - 9.0)(X1),
            r"Gibbs\.lengthscale must be positive, but <lambda> gives .* in row 0",
        ),
        (
            lambda: k.Gibbs(lambda X: np.ones(3))(X1),
            r"the function '<lambda>' gave shape \(3,\) for inputs of shape \(9, 2\)",
        ),
        (lambda: k.Gibbs(k.LogLinear([1.0]))(X1), r"LogLinear\.weights has 1 rows but the kernel sees 2"),
        (
            lambda: k.LogRadial([[1.0], [2.0]], [1.0]),
            r"LogRadial needs one weight or value for each of its 2 points",
        ),
        (lambda: k.LogProcess([1.0], [1.0], k.SE()), r"LogProcess\.support must be points"),
        (
            lambda: k.PaciorekSchervish(k.Linear(), lengths),
            r"PaciorekSchervish\.kernel must be a stationary kernel",
        ),
        (
            lambda: k.PaciorekSchervish(k.SE([1.0, 2.0]), lengths),
            r"PaciorekSchervish\.kernel must have a single length-scale",
        ),
        (
            lambda: k.PaciorekSchervish(k.PiecewisePolynomial(), lengths),
            r"PaciorekSchervish\.kernel must be valid in every dimension",
        ),
        (
            lambda: k.PaciorekSchervish(k.SE(), lambda X: -lengths(X))(X1),
            r"PaciorekSchervish\.covariance must be positive definite",
        ),
        (
            lambda: k.PaciorekSchervish(k.SE(), lambda X: np.tile(NOT_PSD, (len(X), 1, 1)))(X1),
            r"has eigenvalue -1",
        ),
        (lambda: k.Wiener(-1.0), r"Wiener\.variance must be positive"),
        (
            lambda: k.Wiener()([[0.5], [-0.1]]),
            r"Wiener is defined for times zero or positive, but row 1 has -0\.1",
        ),
        (lambda: k.IntegratedWiener()([[-2.0]]), r"IntegratedWiener is defined for times zero or positive"),
        (lambda: k.Wiener()(X1), r"Wiener reads one column, a time; the inputs have 2"),
        (lambda: k.IntegratedWiener(order=-1), r"IntegratedWiener\.order must be a whole number"),
        (lambda: k.IntegratedWiener(order=1.5), r"IntegratedWiener\.order must be a whole number"),
        (
            lambda: k.BrownianBridge()([[1.2]]),
            r"BrownianBridge is defined for times between 0 and 1, but row 0 has 1\.2",
        ),
        (lambda: k.FractionalBrownian(1.0), r"FractionalBrownian\.hurst must be strictly between 0 and 1"),
        (lambda: k.FractionalBrownian(1.2), r"FractionalBrownian\.hurst must be between 0 and 1"),
        (lambda: k.ChangePoint(k.SE(), k.SE(), steepness=0.0), r"ChangePoint\.steepness must be positive"),
        (
            lambda: k.ChangePoint(k.SE(), k.SE(), column=2)(X1),
            r"ChangePoint\.column\(2\): the inputs have only 2 columns",
        ),
    ],
)
def test_bad_parameters(make, message):
    """Errors name the field, what is wrong, and where."""
    with pytest.raises((ParameterError, InputError), match=message):
        make()


def test_negative_times_at_prediction():
    """A model with a Wiener kernel refuses negative times when asked, too."""
    post = mc.GP(k.Wiener()).condition(T1, np.sin(T1[:, 0]), noise_variance=0.1)
    with pytest.raises(InputError, match="row 0 has -1"):
        post.mean([[-1.0]])


def test_a_factor_is_learned_as_a_factor():
    """Learning keeps the weight covariance lower triangular with a positive diagonal,
    and raises the evidence.
    """
    rng = np.random.default_rng(8)
    X = rng.uniform(-1, 1, (40, 2))
    y = special.erf(4 * (X[:, 0] + X[:, 1])) + 0.05 * rng.normal(size=40)
    model = mc.Model(mc.GP(k.NeuralNetwork(factor=np.eye(3))))
    fit = mc.fit(model, X, y, restarts=1, seed=1)
    factor = np.asarray(fit.model.gp.kernel.factor)
    assert (np.triu(factor, 1) == 0).all() and (np.diag(factor) > 0).all()
    S = factor @ factor.T
    assert S[1, 2] / np.sqrt(S[1, 1] * S[2, 2]) > 0.9, "the weights of the two columns go together"
    assert fit.posterior.log_evidence > model.condition(X, y).log_evidence + 20


def test_numpy_and_jax_functions_agree():
    """A function in NumPy is evaluated on the host; in jax.numpy it can be differentiated as well."""
    np.testing.assert_allclose(
        k.SE().warp(lambda X: np.sin(X))(X1, X2), k.SE().warp(lambda X: jnp.sin(X))(X1, X2), rtol=1e-13
    )


def test_step_function():
    """A.P14, A.M20: 64 points of a noisy step: SE < two SEs << neural network,
    with the noise found by the last only.
    """
    from experiments import step_function

    fits = step_function.fits(*step_function.data(), restarts=1)
    evidence = {name: fit.posterior.log_evidence for name, fit in fits.items()}
    assert evidence["SE"] + 5 < evidence["sum of two SE"] < evidence["neural network"] - 30
    assert np.sqrt(fits["neural network"].model.likelihood.noise_variance) == pytest.approx(0.1, abs=0.01)
