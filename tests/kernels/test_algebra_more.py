"""Kernels from kernels: rescaling, warping, normalisation, blurring, columns, groups, powers, posteriors;
kernels of features.
"""

import itertools
import math

import jax.numpy as jnp
import numpy as np
import pytest

import mercer as mc
from mercer import kernels as k
from mercer.likelihoods import Bernoulli, Gaussian
from mercer.params import ParameterError, fixed, param, parameters

RNG = np.random.default_rng(21)
X1, X2 = RNG.normal(size=(9, 3)), RNG.normal(size=(7, 3))
x1, x2 = X1[:, :1], X2[:, :1]
SIGMA = np.array([[2.0, 0.4, -0.3], [0.4, 1.5, 0.2], [-0.3, 0.2, 0.8]])
exact = dict(rtol=1e-12, atol=1e-14)


def free(kernel):
    return [p.name for p in parameters(kernel) if p.free]


# ------------------------------------------------------------------------------------------------- functions
# of the input


def test_rescale():
    """A.A3, D.KC3: a(x) k a(x'), also with a sign; finite rank stays finite; a learned envelope."""
    a = lambda X: np.sin(2 * X[:, 0]) * X[:, 1]  # noqa: E731
    expected = a(X1)[:, None] * k.SE(0.7, 1.3)(X1, X2) * a(X2)[None]
    np.testing.assert_allclose(k.SE(0.7, 1.3).rescale(a)(X1, X2), expected, **exact)
    np.testing.assert_allclose(k.SE(0.7, 1.3).rescale(lambda X: a(X)[:, None])(X1, X2), expected, **exact)
    assert k.Linear().rescale(a).rank(3) == 3 and k.SE().rescale(a).rank(3) is None
    learned = k.SE(0.7).rescale(k.LogLinear([0.3, 0.0, -0.2], 0.5))
    e = lambda X: np.exp(0.5 + 0.3 * X[:, 0] - 0.2 * X[:, 2])  # noqa: E731
    np.testing.assert_allclose(learned(X1, X2), e(X1)[:, None] * k.SE(0.7)(X1, X2) * e(X2)[None], **exact)
    assert free(learned) == [
        "kernel.lengthscale",
        "kernel.variance",
        "function.weights",
        "function.intercept",
    ]


def test_warp():
    """A.K17, D.KC9, C.COV2: k(u(x), u(x')), more columns or fewer; MacKay's periodic kernel from the circle;
    a matrix.
    """
    circle = lambda X: np.hstack([np.cos(X), np.sin(X)])  # noqa: E731
    np.testing.assert_allclose(k.SE(0.9).warp(circle)(x1, x2), k.Periodic(2 * np.pi, 0.9)(x1, x2), **exact)
    radius = lambda X: np.sqrt((X**2).sum(1))  # noqa: E731
    np.testing.assert_allclose(
        k.SE(0.9).warp(radius)(X1, X2), k.SE(0.9)(radius(X1)[:, None], radius(X2)[:, None]), **exact
    )
    M = RNG.normal(size=(2, 3))
    np.testing.assert_allclose(
        k.Matern([0.9, 2.0]).warp(M)(X1, X2), k.Matern([0.9, 2.0])(X1 @ M.T, X2 @ M.T), rtol=1e-11
    )
    named = k.SE(0.9).warp(radius).on("a", "b")
    table, other = ({c: X[:, j] for j, c in enumerate("abc")} for X in (X1, X2))
    np.testing.assert_allclose(named(table, other), k.SE(0.9).warp(radius)(X1[:, :2], X2[:, :2]), **exact)
    assert k.Linear().warp(circle).rank(1) == 2


def test_warp_in_a_model():
    """Data smooth in log x: a warp predicts as the plain kernel does on warped inputs,
    and learns the same.
    """
    x = np.exp(RNG.uniform(0, 4, (30, 1)))
    y = np.sin(2 * np.log(x[:, 0])) + 0.05 * RNG.normal(size=30)
    warped, plain = (
        mc.fit(mc.Model(mc.GP(q)), z, y) for q, z in ((k.SE().warp(np.log), x), (k.SE(), np.log(x)))
    )
    np.testing.assert_allclose(warped.posterior.log_evidence, plain.posterior.log_evidence, rtol=1e-6)
    np.testing.assert_allclose(
        warped.posterior.mean(x[:5]), plain.posterior.mean(np.log(x[:5])), rtol=1e-3, atol=1e-4
    )


def test_normalised():
    """A.A4, D.KC4: (4.35), a unit diagonal; the amplitude cancels and is held; zero where k(x, x) is zero."""
    base = k.Polynomial(3, 0.5, 7.0)
    K = base.normalised()(X1, X2)
    expected = base(X1, X2) / np.sqrt(np.diag(base(X1))[:, None] * np.diag(base(X2))[None])
    np.testing.assert_allclose(K, expected, **exact)
    np.testing.assert_allclose(np.diag(base.normalised()(X1)), 1.0, rtol=1e-13)
    assert free(base.normalised()) == ["kernel.offset"]
    np.testing.assert_allclose(k.SE(0.7, 5.0).normalised()(X1, X2), k.SE(0.7)(X1, X2), **exact)
    assert k.Linear().normalised()([[0.0], [2.0]]).tolist() == [[0.0, 0.0], [0.0, 1.0]]


# ------------------------------------------------------------------------------------------------- blurring


def blurred_by_grid(kernel, x, y, width):
    """The double integral on a fine grid, with the trapezoid rule (one column)."""
    z = np.linspace(-8 * width, 8 * width, 801)
    w = np.exp(-0.5 * (z / width) ** 2)
    w /= w.sum()
    return np.array([[w @ kernel((a + z)[:, None], (b + z)[:, None]) @ w for b in y] for a in x])


def test_blurred_se():
    """A.A5, D.KC5: l^2 + 2 w^2 and the lost amplitude,
    against the double integral and against the quadrature itself.
    """
    kernel, width = k.SE(0.7, 1.3), 0.4
    points = np.array([0.0, 0.3, -1.1])
    expected = blurred_by_grid(kernel, points, points, width)
    np.testing.assert_allclose(k.Blurred(kernel, width)(points[:, None]), expected, rtol=1e-9)
    l = math.sqrt(0.49 + 0.32)
    np.testing.assert_allclose(k.Blurred(kernel, width)(x1, x2), k.SE(l, 1.3 * 0.7 / l)(x1, x2), **exact)
    by_nodes = k.Blurred(k.SE(0.7) * k.Constant(1.3), width, nodes=30)
    np.testing.assert_allclose(by_nodes(points[:, None]), expected, rtol=1e-9)
    ard = k.Blurred(k.SE([0.7, 1.1]), [0.4, 0.2])(X1[:, :2], X2[:, :2])
    columns = [
        k.Blurred(k.SE(l), w)(X1[:, [j]], X2[:, [j]]) for j, (l, w) in enumerate([(0.7, 0.4), (1.1, 0.2)])
    ]
    np.testing.assert_allclose(ard, columns[0] * columns[1], **exact)


def test_blurred_by_quadrature():
    """A.A5: other kernels, stationary or not, against the double integral; two columns;
    covariances for any number of nodes.
    """
    points = np.array([0.1, 0.4, 1.3])
    for kernel, tolerance in ((k.RationalQuadratic(0.7, alpha=0.8), 1e-6), (k.Linear(0.7) * k.SE(0.9), 1e-6)):
        K = k.Blurred(kernel, 0.3, nodes=20)(points[:, None])
        np.testing.assert_allclose(K, blurred_by_grid(kernel, points, points, 0.3), rtol=tolerance)
    two = k.Blurred(k.SE(0.8) * k.Constant(), 0.3, nodes=8)(X1[:, :2], X2[:, :2])
    np.testing.assert_allclose(two, k.Blurred(k.SE(0.8), 0.3)(X1[:, :2], X2[:, :2]), atol=1e-6)
    x = np.linspace(-1, 1, 40)[:, None]
    for nodes in (1, 2, 5):
        assert k.check_psd(k.Blurred(k.Matern(0.05, nu=0.5), 0.5, nodes=nodes), x)
    np.testing.assert_allclose(k.Blurred(k.Matern(0.5), 0.3, nodes=1)(x), k.Matern(0.5)(x), **exact)


# ------------------------------------------------------------------------------------------------- columns


def test_direct_sum_and_tensor_product():
    """A.A6, A.A7, D.KC6, D.KC7: kernels on columns of their own;
    SE-ARD is the tensor product of one-dimensional SEs.
    """
    a, b = k.Matern(0.7, 1.3), k.Linear([0.5, 2.0])
    K = k.direct_sum(a, 1, b, [0, 2])(X1, X2)
    np.testing.assert_allclose(K, a(X1[:, [1]], X2[:, [1]]) + b(X1[:, [0, 2]], X2[:, [0, 2]]), **exact)
    K = k.tensor_product(a, 1, b, (0, 2))(X1, X2)
    np.testing.assert_allclose(K, a(X1[:, [1]], X2[:, [1]]) * b(X1[:, [0, 2]], X2[:, [0, 2]]), **exact)
    l = [0.6, 1.1, 2.0]
    product = k.tensor_product(k.SE(l[0], 1.3), 0, k.SE(l[1]), 1, k.SE(l[2]), 2)
    np.testing.assert_allclose(product(X1, X2), k.SE(l, 1.3)(X1, X2), **exact)
    assert (
        k.direct_sum(k.SE(), "age", k.Periodic(), ["hour"]).formula()
        == "SE(age, l=1) + Periodic(hour, period=1, l=1)"
    )
    for bad in ((), (k.SE(),), (k.SE(), 0, 1, 1)):
        with pytest.raises(ParameterError, match="each followed by its columns"):
            k.direct_sum(*bad)


def test_additive():
    """A.A8, D.KC8: every order by enumeration of the subsets;
    all orders with constants are the product of 1 + k_i.
    """
    bases = [k.SE(0.7), k.Matern(1.1, nu=1.5), k.Linear(0.5)]
    z = [b(X1[:, [j]], X2[:, [j]]) for j, b in enumerate(bases)]
    e = [sum(math.prod(c) for c in itertools.combinations(z, q)) for q in range(1, 4)]
    for order in (1, 2, 3):
        variance = np.array([0.8, 0.3, 0.1])[:order]
        K = k.Additive(bases, order, variance)(X1, X2)
        np.testing.assert_allclose(K, sum(v * s for v, s in zip(variance, e, strict=False)), **exact)
    full = k.Additive(bases, order=3) + k.Constant()
    np.testing.assert_allclose(full(X1, X2), (1 + z[0]) * (1 + z[1]) * (1 + z[2]), **exact)
    np.testing.assert_allclose(k.Additive(bases, 2, 1.5)(X1, X2), 1.5 * (e[0] + e[1]), **exact)
    assert free(k.Additive(bases)) == ["kernels.0.lengthscale", "kernels.1.lengthscale", "variance"]


def test_additive_of_many_columns():
    """Twenty columns, interactions of four: against the power-sum recursion of Newton and Girard."""
    X = np.random.default_rng(2).normal(size=(6, 20))
    z = np.array([k.SE(0.9)(X[:, [j]]) for j in range(20)])
    power = [None, *[(z**s).sum(0) for s in range(1, 5)]]
    e = [np.ones((6, 6))]
    for q in range(1, 5):
        e.append(sum((-1) ** (s - 1) * e[q - s] * power[s] for s in range(1, q + 1)) / q)
    v = [1.0, 0.1, 0.01, 0.001]
    K = k.Additive([k.SE(0.9)] * 20, 4, v)(X)
    np.testing.assert_allclose(K, sum(w * s for w, s in zip(v, e[1:], strict=True)), rtol=1e-10)


# ------------------------------------------------------------------------------------------------- groups


def rotations(m):
    angles = 2 * np.pi * np.arange(m) / m
    return [np.array([[np.cos(a), -np.sin(a)], [np.sin(a), np.cos(a)]]) for a in angles]


def test_invariance():
    """Sums over the group; the covariance and draws from the prior do not change under it;
    averaging twice is averaging once.
    """
    X, Y = X1[:, :2], X2[:, :2]
    group = rotations(4)
    kernel = k.Invariant(k.SE([0.7, 1.4], 1.3), group)
    base = k.SE([0.7, 1.4], 1.3)
    expected = np.mean([base(X @ g.T, Y @ h.T) for g in group for h in group], 0)
    np.testing.assert_allclose(kernel(X, Y), expected, **exact)
    for g in group:
        np.testing.assert_allclose(kernel(X @ g.T, Y), kernel(X, Y), rtol=1e-11)
    np.testing.assert_allclose(k.Invariant(kernel, group)(X, Y), kernel(X, Y), rtol=1e-11)
    swap = k.Invariant(k.SE([0.7, 1.4]), [lambda X: X, lambda X: X[:, ::-1]])
    np.testing.assert_allclose(swap(X[:, ::-1], Y), swap(X, Y), **exact)
    post = mc.GP(k.Invariant(k.SE(), [[[1.0]], [[-1.0]]])).condition(
        [[0.5], [1.2]], [1.0, -0.3], noise_variance=1e-4
    )
    np.testing.assert_allclose(
        post.mean([[-0.5], [-1.2], [2.0]]), post.mean([[0.5], [1.2], [-2.0]]), rtol=1e-9
    )


def test_invariance_of_finite_rank():
    """The even part of a polynomial: rank and features stay consistent, odd monomials vanish."""
    even = k.Invariant(k.Polynomial(3), [[[1.0]], [[-1.0]]])
    expected = 1 + 3 * (x1 @ x2.T) ** 2
    np.testing.assert_allclose(even(x1, x2), expected, **exact)
    Psi = np.asarray(even.features(even.encode(x1)))
    np.testing.assert_allclose(Psi @ Psi.T, even(x1), **exact)


# ------------------------------------------------------------------------------------------------- powers


def test_real_powers():
    """A.A9: the SE rescales its length-scale, RQ its alpha; products, scales and columns of such kernels;
    others are refused.
    """
    np.testing.assert_allclose((k.SE(0.7) ** 0.3)(X1, X2), k.SE(0.7 / math.sqrt(0.3))(X1, X2), **exact)
    rq = k.RationalQuadratic(0.7, alpha=0.8) ** 2.5
    np.testing.assert_allclose(rq(X1, X2), k.RationalQuadratic(0.7, alpha=0.8)(X1, X2) ** 2.5, **exact)
    np.testing.assert_allclose((k.Matern(0.7, nu=0.5) ** 0.5)(X1, X2), k.Matern(1.4, nu=0.5)(X1, X2), **exact)
    mixed = (2.0 * k.SE(0.7).on(0) * k.Matern(0.9, nu=1.5).on(1, 2)) ** 0.5
    np.testing.assert_allclose(
        mixed(X1), np.sqrt(2 * k.SE(0.7)(X1[:, :1]) * k.Matern(0.9, nu=1.5)(X1[:, 1:])), **exact
    )
    X = RNG.normal(size=(150, 2))
    for kernel in (
        k.Matern(0.7, nu=1.5),
        k.Matern(0.7, nu=2.5),
        k.Periodic(1.3, 0.7),
        k.GammaExponential(0.7, gamma=1.5),
    ):
        assert k.check_psd(kernel**0.2, X), kernel
    assert (k.SE() ** 2.0).exponent == 2 and isinstance((k.SE() ** 2.0).exponent, int)
    for refused in (k.Linear(), k.SE() + k.SE(), k.SE() * k.Polynomial(), k.NeuralNetwork()):
        with pytest.raises(ParameterError, match="infinitely divisible"):
            refused**0.5
    bad = np.abs(k.Cosine(0.3)(X[:, :1])) ** 0.5  # what a refused power would give
    assert np.linalg.eigvalsh(bad)[0] < -0.1
    for p in (-1.0, 0.0, 0, "2", True):
        with pytest.raises(ParameterError, match="exponent of a kernel"):
            k.SE() ** p


def test_a_real_power_far_apart():
    """The covariance underflows to zero; the derivative does not become NaN."""
    import jax

    far = np.array([[0.0], [1e3]])
    slope = jax.grad(lambda l: (k.SE(l) ** 0.5).block(far, far).sum())(1.0)
    assert np.isfinite(slope)


# ------------------------------------------------------------------------------------------------- posterior
# as a prior


def test_posterior_kernel():
    """D.KC12, C.COV2: k - k K^-1 k; conditioning in two stages is conditioning at once."""
    gp = mc.GP(k.SE(0.7, 1.3) + k.Linear(0.2), mean=0.4)
    X, y = RNG.normal(size=(14, 1)), RNG.normal(size=14)
    noise = RNG.uniform(0.05, 0.2, 14)
    first = gp.condition(X[:8], y[:8], noise_variance=noise[:8])
    kernel = k.PosteriorKernel(first)
    np.testing.assert_allclose(kernel(x1), first.covariance(x1, latent=True), atol=1e-11)
    K, cross = gp.kernel(X[:8]), gp.kernel(x1, X[:8])
    expected = gp.kernel(x1, x2) - cross @ np.linalg.solve(K + np.diag(noise[:8]), gp.kernel(X[:8], x2))
    np.testing.assert_allclose(kernel(x1, x2), expected, atol=1e-11)
    second = mc.GP(kernel, mean=first.mean).condition(X[8:], y[8:], noise_variance=noise[8:])
    joint = gp.condition(X, y, noise_variance=noise)
    np.testing.assert_allclose(second.mean(x1), joint.mean(x1), rtol=1e-8)
    np.testing.assert_allclose(
        second.covariance(x1, latent=True), joint.covariance(x1, latent=True), atol=1e-10
    )
    np.testing.assert_allclose(first.log_evidence + second.log_evidence, joint.log_evidence, rtol=1e-9)
    assert free(kernel) == []


def test_tied_down():
    """Zero at the points, with what is left of the variance in between."""
    kernel = k.tied_down(k.SE(0.5), [[0.0], [1.0]])
    np.testing.assert_allclose(np.diag(kernel([[0.0], [1.0]])), 0.0, atol=1e-9)
    assert 0.05 < kernel([[0.5]])[0, 0] < 1.0


# ------------------------------------------------------------------------------------------------- kernels of
# features


def test_linear_with_weight_covariance():
    """A.K2, D.K13, A.R1: s0^2 + x' S x', and Bayesian linear regression written out in the weights,
    in both solvers.
    """
    kernel = k.LinearCovariance(k.lower_factor(SIGMA), 0.6)
    np.testing.assert_allclose(kernel(X1, X2), 0.6 + X1 @ SIGMA @ X2.T, **exact)
    y, noise = RNG.normal(size=9), 0.3
    prior = np.zeros((4, 4))
    prior[0, 0], prior[1:, 1:] = 0.6, SIGMA
    A, As = (np.hstack([np.ones((len(X), 1)), X]) for X in (X1, X2))
    precision = A.T @ A / noise + np.linalg.inv(prior)
    mean, cov = As @ np.linalg.solve(precision, A.T @ y / noise), As @ np.linalg.solve(precision, As.T)
    C = A @ prior @ A.T + noise * np.eye(9)
    evidence = -0.5 * y @ np.linalg.solve(C, y) - 0.5 * np.linalg.slogdet(2 * np.pi * C)[1]
    for solver in ("dense", "weight-space"):
        post = mc.GP(kernel).condition(X1, y, noise_variance=noise, solver=solver)
        np.testing.assert_allclose(post.mean(X2), mean, rtol=1e-9)
        np.testing.assert_allclose(post.covariance(X2, latent=True), cov, rtol=1e-8, atol=1e-11)
        np.testing.assert_allclose(post.log_evidence, evidence, rtol=1e-11)


def test_polynomial_with_weight_covariance():
    """A.K3, D.K14, C.COV7: (s0^2 + x' S x')^p."""
    K = k.Polynomial(3, 0.5, 1.3, factor=k.lower_factor(SIGMA))(X1, X2)
    np.testing.assert_allclose(K, 1.3 * (0.5 + X1 @ SIGMA @ X2.T) ** 3, rtol=1e-11)
    power = k.LinearCovariance(k.lower_factor(SIGMA), 0.5) ** 3
    np.testing.assert_allclose(1.3 * power(X1, X2), K, rtol=1e-11)


def test_features():
    """A.K25, A.R2, C.COV12: phi' S phi'; primal and dual agree;
    the rank of the matrix is the number of features.
    """
    phi = lambda X: np.hstack([np.ones((len(X), 1)), X, np.sin(X)])  # noqa: E731
    W = np.diag([1.0, 0.5, 0.2]) + 0.1
    kernel = k.Features(phi, factor=k.lower_factor(W))
    np.testing.assert_allclose(kernel(x1, x2), phi(x1) @ W @ phi(x2).T, **exact)
    np.testing.assert_allclose(k.Features(phi, 0.7)(x1, x2), 0.7 * phi(x1) @ phi(x2).T, **exact)
    x, y = RNG.normal(size=(30, 1)), RNG.normal(size=30)
    assert np.linalg.matrix_rank(kernel(x)) == kernel.rank(1) == 3
    dual, primal = (
        mc.GP(kernel).condition(x, y, noise_variance=0.2, solver=s) for s in ("dense", "weight-space")
    )
    A = phi(x).T @ phi(x) / 0.2 + np.linalg.inv(W)
    np.testing.assert_allclose(primal.mean(x2), phi(x2) @ np.linalg.solve(A, phi(x).T @ y / 0.2), rtol=1e-9)
    np.testing.assert_allclose(dual.mean(x2), primal.mean(x2), rtol=1e-8)
    np.testing.assert_allclose(dual.covariance(x2), primal.covariance(x2), rtol=1e-8)
    np.testing.assert_allclose(dual.log_evidence, primal.log_evidence, rtol=1e-10)
    learned = mc.fit(mc.Model(mc.GP(k.Features(phi, [1.0, 1.0, 1.0]))), x, y, solver="weight-space")
    assert np.isfinite(learned.posterior.log_evidence)


def test_many_gaussian_bumps_tend_to_the_se():
    """A.K25, D.KC14: (4.10)-(4.13): dense bumps of width l give sqrt(pi) l times the SE with length-scale
    sqrt(2) l.
    """
    l, spacing = 0.5, 0.05
    centres = np.arange(-8, 8, spacing)
    bumps = lambda X: jnp.exp(-0.5 * (X - centres) ** 2 / l**2)  # noqa: E731
    K = k.Features(bumps, spacing)(x1, x2)
    np.testing.assert_allclose(K, math.sqrt(math.pi) * l * k.SE(math.sqrt(2) * l)(x1, x2), atol=1e-9)


# ------------------------------------------------------------------------------------------------- what is no
# kernel


def test_white_noise_is_of_observations():
    """A.K24, D.K2, D.K22, C.COV8: a term of the kernel that is in y and not in f; two observations at one
    place, and a test case there, have noise of their own.
    """
    X, y, Xs = np.array([[0.0], [0.0], [1.0]]), np.array([1.0, 1.2, 0.3]), np.array([[0.0], [0.0], [2.0]])
    kernel = k.SE(0.8) + k.White(0.1)
    post = mc.GP(kernel).condition(X, y)
    K = k.SE(0.8)(X, X) + 0.1 * np.eye(3)
    cross = k.SE(0.8)(Xs, X)
    covariance = k.SE(0.8)(Xs, Xs) - cross @ np.linalg.solve(K, cross.T)
    np.testing.assert_allclose(post.mean(Xs), cross @ np.linalg.solve(K, y), rtol=1e-10)
    np.testing.assert_allclose(post.covariance(Xs, latent=True), covariance, atol=1e-12)
    np.testing.assert_allclose(post.covariance(Xs), covariance + 0.1 * np.eye(3), atol=1e-12)
    np.testing.assert_array_equal(kernel(X, X), k.SE(0.8)(X, X))
    np.testing.assert_array_equal(
        mc.GP(kernel).sample(Xs, 2, seed=0)[:, 0], mc.GP(k.SE(0.8)).sample(Xs, 2, seed=0)[:, 0]
    )
    expected = -0.5 * (y @ np.linalg.solve(K, y) + np.linalg.slogdet(K)[1] + 3 * np.log(2 * np.pi))
    assert mc.log_evidence(mc.GP(k.parse("SE(l=0.8) + White(0.1)")), X, y) == pytest.approx(
        expected, rel=1e-10
    )


def test_white_noise_is_learned_as_the_likelihoods():
    """The same model, said in two ways, has the same optimum; what was said of the term is kept."""
    model = mc.Model(mc.GP(k.SE() + k.White(param(0.2, bounds=(0.1, 0.3)))))
    assert model.kernels == (k.SE(),)
    assert dict(model.likelihood.info)["noise_variance"].bounds == (0.1, 0.3)
    rng = np.random.default_rng(0)
    X = rng.uniform(0, 3, (15, 1))
    y = np.sin(2 * X[:, 0]) + 0.2 * rng.normal(size=15)
    one = mc.GPRegressor(k.SE() + k.White(0.1)).fit(X, y)
    other = mc.GPRegressor(k.SE()).fit(X, y)
    assert one.log_marginal_likelihood_ == pytest.approx(other.log_marginal_likelihood_, abs=1e-6)
    assert one.noise_variance_ == pytest.approx(other.noise_variance_, rel=1e-3)


@pytest.mark.parametrize(
    ("kernel", "likelihood"),
    [
        (k.SE() + k.White(0.1), Gaussian(0.2)),
        (k.SE() + k.White(0.1), Bernoulli()),
        (k.SE() + k.White(0.1) + k.White(0.2), None),
        (k.SE() * k.White(0.1), None),
        (k.White(0.1), None),
    ],
)
def test_white_noise_is_said_once_and_as_a_term(kernel, likelihood):
    with pytest.raises(ParameterError, match="White"):
        mc.Model(mc.GP(kernel), *([] if likelihood is None else [likelihood]))


def test_tanh_is_refused():
    """A.K26, D.K21, A.S1, D.KA1: refused with its reason, which the check on a Gram matrix shows."""
    with pytest.raises(ParameterError, match="not positive semi-definite for any a and b"):
        k.Sigmoid(1.0, 2.0)
    found = k.check_psd(lambda A, B: np.tanh(1.0 + 0.5 * A @ B.T), X1)
    assert (
        not found
        and found.symmetric
        and found.smallest < -1e-3
        and "not positive semi-definite" in str(found)
    )


def test_check_psd():
    """A.S1, C.COV1: kernels pass, the wrong ones do not, whatever is wrong with them."""
    found = k.check_psd(k.SE(0.7), X1)
    assert found and str(found).startswith("a covariance matrix")
    assert found.smallest == pytest.approx(np.linalg.eigvalsh(k.SE(0.7)(X1))[0], rel=1e-9)
    assert k.check_psd(k.Linear(), RNG.normal(size=(60, 2))), "singular, and rounding is forgiven"
    lopsided = k.check_psd(lambda A, B: A[:, :1] + 2 * B[:, 0], X1)
    assert not lopsided and not lopsided.symmetric and "not symmetric" in str(lopsided)
    l = lambda X: np.where(np.abs(X) < 1, 0.05, 3.0)  # noqa: E731
    moving = lambda A, B: np.exp(-((A - B.T) ** 2) / (l(A) ** 2 + l(B).T ** 2))  # noqa: E731
    grid = np.linspace(-2, 2, 60)[:, None]
    assert not k.check_psd(moving, grid), "a length-scale that varies without Gibbs's prefactor"
    assert k.check_psd(k.Gibbs(l), grid)
    with pytest.raises(ValueError, match="no Gram matrix"):
        k.check_psd(lambda A, B: A, X1)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: k.SE().rescale(lambda X: X)(X1), r"Rescale\.function must give one number for each input"),
        (
            lambda: k.SE([1.0, 2.0]).warp(lambda X: X)(X1),
            r"SE\.lengthscale has 2 entries but the kernel sees 3",
        ),
        (lambda: k.SE().warp(3.0), r"expected a function"),
        (lambda: k.SE().warp(lambda X: X @ np.ones((2, 2)))(X1), r"does not take inputs with 3 columns"),
        (lambda: k.SE().warp(np.eye(2))(X1), r"LinearMap\.matrix has 2 columns but the kernel sees 3"),
        (lambda: k.Blurred(k.SE(), -0.1), r"Blurred\.width must be positive"),
        (lambda: k.Blurred(k.SE(), nodes=0), r"Blurred\.nodes must be a whole number"),
        (lambda: k.Blurred(k.Matern())(X1), r"Blurred needs 12\^3 points for 3 columns"),
        (lambda: k.Blurred(k.SE(), [0.1, 0.2])(X1), r"Blurred\.width has 2 entries but the kernel sees 3"),
        (lambda: k.Additive([]), r"Additive\.kernels must be kernels"),
        (lambda: k.Additive([k.SE()], order=2), r"Additive\.order must be a whole number from 1 to 1, got 2"),
        (
            lambda: k.Additive([k.SE()] * 3, 2, [1.0] * 3),
            r"Additive\.variance must be one number, or one for each of the 2 orders",
        ),
        (lambda: k.Additive([k.SE()] * 2)(X1), r"Additive has 2 kernels but there are 3 columns"),
        (lambda: k.Invariant(k.SE(), []), r"Invariant\.actions must hold at least the identity"),
        (
            lambda: k.Invariant(k.SE(), rotations(4)[:3]),
            r"Invariant\.actions is not a group: the product of matrices",
        ),
        (lambda: k.Invariant(k.SE(), [np.zeros((2, 2))]), r"matrix 0 is not invertible"),
        (
            lambda: k.Invariant(k.SE(), [lambda X: X[:, :1]])(X1),
            r"Invariant\.actions must keep the number of columns",
        ),
        (lambda: k.PosteriorKernel(3.0), r"PosteriorKernel takes a posterior or a kernel, got float"),
        (lambda: k.PosteriorKernel(k.SE(), [1.0]), r"PosteriorKernel\.inputs must be points"),
        (
            lambda: k.PosteriorKernel(k.SE(), [[1.0]], [0.1, 0.2]),
            r"PosteriorKernel\.noise_variance must be one number",
        ),
        (
            lambda: k.PosteriorKernel(k.SE(), [[1.0]])(X1),
            r"PosteriorKernel\.inputs has 1 columns but the kernel sees 3",
        ),
        (
            lambda: k.LinearCovariance(np.eye(2))(X1),
            r"LinearCovariance\.factor is \(2, 2\) but there are 3 weights",
        ),
        (
            lambda: k.LinearCovariance([[1.0, 0.5], [0.5, 1.0]]),
            r"LinearCovariance\.factor must be lower triangular",
        ),
        (
            lambda: k.LinearCovariance([[1.0, 0.0], [0.5, -1.0]]),
            r"LinearCovariance\.factor must be lower triangular",
        ),
        (lambda: k.LinearCovariance([1.0]), r"LinearCovariance\.factor must be a square matrix"),
        (
            lambda: k.Polynomial(factor=np.eye(2))(X1),
            r"Polynomial\.factor is \(2, 2\) but there are 3 weights",
        ),
        (
            lambda: k.Features(lambda X: X, [1.0, 2.0])(X1),
            r"Features\.variance has shape \(2,\) but there are 3 features",
        ),
        (
            lambda: k.Features(lambda X: X, factor=np.eye(2))(X1),
            r"Features\.factor is \(2, 2\) but there are 3 weights",
        ),
        (
            lambda: k.Features(lambda X: X, [1.0, 2.0], factor=np.eye(2)),
            r"Features\.variance must be one number",
        ),
        (
            lambda: mc.fit(
                mc.Model(mc.GP(k.LinearCovariance(mc.param(np.eye(1), bounds=(0.1, 2))))), x1, x1[:, 0]
            ),
            r"takes no bounds",
        ),
    ],
)
def test_bad_parameters(make, message):
    with pytest.raises(ParameterError, match=message):
        make()


def test_fixed_things_stay():
    """What a person fixed inside a transformed kernel is still fixed."""
    kernel = k.Blurred(k.SE(fixed(0.7)), fixed(0.4)) + k.SE(fixed(1.0)).warp(np.sin)
    assert free(kernel) == ["terms.0.kernel.variance", "terms.1.kernel.variance"]
    assert free(kernel.bind(1)) == free(kernel)


def test_composites_of_one_kernel_read_what_it_reads():
    """Whether that is an array or, for a product over columns, a tuple."""
    X = np.random.default_rng(0).normal(size=(5, 2))
    inner = k.SE(0.5).on(0) * k.SE(1.0).on(1)
    K = inner(X)
    for kernel, expected in ((k.Sum((inner,)), K), (2.0 * inner, 2.0 * K), (inner**2, K**2)):
        np.testing.assert_allclose(kernel(X), expected, rtol=1e-14)
    np.testing.assert_allclose(k.Additive([k.SE(0.5)])(X[:, :1]), k.SE(0.5)(X[:, :1]), rtol=1e-14)
