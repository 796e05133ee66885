"""The Gaussian value against quadrature, Monte Carlo and the textbook forms with explicit inverses.

Catalogue entries are named in the docstrings: A.N1, A.N2, A.N6-A.N8, B.MB1, B.MB2, B.MB6-B.MB8, C.LIN2,
C.GAU1-C.GAU5, D.GI2, D.SL2, D.SL10.
"""

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.stats import multivariate_normal

from mercer.linalg.gaussian import GaussianVector, condition_by_precision
from mercer.linalg.identities import partitioned_inverse, pseudo_inverse, schur_complement
from mercer.linalg.semidefinite import semidefinite_factor

cases = given(seed=st.integers(0, 10**6), n=st.integers(2, 6))
steady = settings(derandomize=True, deadline=None, max_examples=25)
inv = np.linalg.inv


def covariance(rng, n, rank=None):
    B = rng.normal(size=(n, n if rank is None else rank))
    return B @ B.T + (0.2 * np.eye(n) if rank is None else 0.0)


def gaussian(rng, n, rank=None):
    return GaussianVector(rng.normal(size=n), covariance(rng, n, rank))


def assert_same(p, q, tol=1e-9):
    np.testing.assert_allclose(p.mean, q.mean, rtol=tol, atol=tol)
    np.testing.assert_allclose(p.covariance, q.covariance, rtol=tol, atol=tol)


# Marginals, conditionals, Bayes


@steady
@cases
def test_condition_two_forms(seed, n):
    """A.N1, B.MB1, C.GAU2: covariance form, explicit formula and precision form of x | y agree."""
    rng = np.random.default_rng(seed)
    p = gaussian(rng, n)
    index = rng.permutation(n)[: rng.integers(1, n)]
    value = rng.normal(size=len(index))
    keep = np.setdiff1d(np.arange(n), index)
    A, B, C = (p.covariance[np.ix_(i, j)] for i, j in ((keep, keep), (index, index), (keep, index)))
    book = GaussianVector(p.mean[keep] + C @ inv(B) @ (value - p.mean[index]), A - C @ inv(B) @ C.T)
    assert_same(p.condition(index, value), book)
    assert_same(condition_by_precision(p.mean, inv(p.covariance), index, value), book, tol=1e-7)


@steady
@cases
def test_joint_is_marginal_times_conditional(seed, n):
    """B.MB1 (A.1-A.3): p(x, y) = p(y) p(x | y) in log density."""
    rng = np.random.default_rng(seed)
    p = gaussian(rng, n)
    x = rng.normal(size=n)
    split = p.marginal(slice(1, None)).log_prob(x[1:]) + p.condition(slice(1, None), x[1:]).log_prob(x[:1])
    np.testing.assert_allclose(p.log_prob(x), split, rtol=1e-9)


def test_marginal_integrates_the_others_out():
    """B.MB1: the marginal density is the integral of the joint."""
    p = GaussianVector([0.3, -1.0], [[1.0, 0.7], [0.7, 2.0]])
    integral, _ = quad(lambda y: np.exp(p.log_prob([0.9, y])), -np.inf, np.inf, epsabs=1e-12)
    np.testing.assert_allclose(np.exp(p.marginal(0).log_prob([0.9])), integral, rtol=1e-10)
    np.testing.assert_array_equal(p.marginal([1, 0]).mean, [-1.0, 0.3])
    np.testing.assert_array_equal(p.marginal([True, False]).covariance, [[1.0]])


def test_conditional_is_the_schur_complement():
    """D.SL2: the conditional covariance is Σ/Σ_bb, the inverse of the aa-block of the precision, and the
    block factors of the proof multiply to the inverse of the joint covariance."""
    rng = np.random.default_rng(1)
    p = gaussian(rng, 5)
    a, b = slice(0, 2), slice(2, 5)
    S = p.covariance
    schur = schur_complement(S[a, a], S[a, b], S[b, b])
    np.testing.assert_allclose(p.condition(b, 0.0).covariance, schur, rtol=1e-12)
    np.testing.assert_allclose(inv(p.precision[a, a]), schur, rtol=1e-10)
    assert_same(p.marginal(a), GaussianVector(p.mean[:2], S[a, a]))
    weights = inv(S[b, b]) @ S[b, a]
    left = np.block([[np.eye(2), np.zeros((2, 3))], [-weights, np.eye(3)]])
    middle = np.block([[inv(schur), np.zeros((2, 3))], [np.zeros((3, 2)), inv(S[b, b])]])
    np.testing.assert_allclose(left @ middle @ left.T, inv(S), rtol=1e-9, atol=1e-10)
    np.testing.assert_allclose(
        partitioned_inverse(S[a, a], S[a, b], S[b, a], S[b, b], "S")[0], inv(schur), rtol=1e-10
    )


@steady
@cases
def test_linear_gaussian_update(seed, n):
    """C.GAU2 (B.19-B.20), D.SL10 with ER19: mean Σ(Aᵀ Σ₂⁻¹ (y−b) + Σ₁⁻¹ μ), evidence N(y | Aμ + b,
    Σ₂ + A Σ₁ Aᵀ).
    """
    rng = np.random.default_rng(seed)
    p, m = gaussian(rng, n), int(rng.integers(1, 5))
    A, b, noise, y = rng.normal(size=(m, n)), rng.normal(size=m), covariance(rng, m), rng.normal(size=m)
    posterior, log_evidence = p.update(y, A, b, noise)
    C = inv(inv(p.covariance) + A.T @ inv(noise) @ A)
    book = GaussianVector(C @ (A.T @ inv(noise) @ (y - b) + inv(p.covariance) @ p.mean), (C + C.T) / 2)
    assert_same(posterior, book, tol=1e-8)
    evidence = multivariate_normal(A @ p.mean + b, A @ p.covariance @ A.T + noise)
    np.testing.assert_allclose(log_evidence, evidence.logpdf(y), rtol=1e-9)
    joint = p.joint(A, b, noise)
    assert_same(joint.condition(slice(n, None), y), book, tol=1e-8)
    assert_same(joint.marginal(slice(n, None)), p.affine(A, b, noise))


def test_affine_map_by_monte_carlo():
    """C.GAU2: y = A x + c has mean Aμ + c and covariance A Σ Aᵀ."""
    rng = np.random.default_rng(2)
    p, A, c = gaussian(rng, 3), rng.normal(size=(2, 3)), np.array([1.0, -2.0])
    draws = p.sample(200_000, seed=3) @ A.T + c
    q = p.affine(A, c)
    error = np.sqrt(np.diagonal(q.covariance) / 200_000)
    assert np.all(np.abs(draws.mean(axis=0) - q.mean) < 4 * error)
    np.testing.assert_allclose(np.cov(draws.T), q.covariance, rtol=0.02, atol=0.02 * q.covariance.max())
    np.testing.assert_allclose(p.affine([1.0, 0.0, 2.0], noise=0.5).covariance.shape, (1, 1))


# Products


@steady
@cases
def test_product_pointwise(seed, n):
    """A.N2, B.MB1, C.GAU1, D.GI2: N(x|a,A) N(x|b,B) = Z N(x|c,C) at every x, with the explicit C,
    c and (B.18).
    """
    rng = np.random.default_rng(seed)
    p, q, x = gaussian(rng, n), gaussian(rng, n), rng.normal(size=(4, n))
    r, log_z = p.product(q)
    np.testing.assert_allclose(p.log_prob(x) + q.log_prob(x), log_z + r.log_prob(x), rtol=1e-8)
    A, B, a, b = p.covariance, q.covariance, p.mean, q.mean
    C = inv(inv(A) + inv(B))
    assert_same(r, GaussianVector(C @ (inv(A) @ a + inv(B) @ b), (C + C.T) / 2), tol=1e-8)
    np.testing.assert_allclose(r.covariance, A - A @ inv(A + B) @ A, rtol=1e-7, atol=1e-9)
    c = r.mean
    forms = a @ inv(A) @ a + b @ inv(B) @ b - c @ inv(C) @ c
    b18 = -0.5 * (n * np.log(2 * np.pi) + np.linalg.slogdet(A @ B @ inv(C))[1] + forms)
    np.testing.assert_allclose(log_z, b18, rtol=1e-7)


def test_product_integrates_to_its_constant():
    """A.N2, B.MB1, D.GI2: Z is the integral of the product."""
    p, q = (
        GaussianVector([0.2, 0.1], [[1.0, 0.4], [0.4, 0.6]]),
        GaussianVector([-0.5, 1.0], [[0.8, -0.2], [-0.2, 1.5]]),
    )
    axis = np.linspace(-8, 8, 161)
    grid = np.stack(np.meshgrid(axis, axis), axis=-1)
    integral = np.exp(p.log_prob(grid) + q.log_prob(grid)).sum() * 0.1**2
    np.testing.assert_allclose(np.exp(p.product(q)[1]), integral, rtol=1e-11)


def test_product_with_singular_factors():
    """D.GI2: A (A+B)⁻¹ B needs no inverse of a factor:
    two degenerate normals meet where their supports do.
    """
    plane = GaussianVector([0.0, 0.0, 1.0], np.diag([2.0, 3.0, 0.0]))
    line = GaussianVector([1.0, 5.0, 0.0], np.diag([2.0, 0.0, 4.0]))
    r, _ = plane.product(line)
    np.testing.assert_allclose(r.mean, [0.5, 5.0, 1.0], atol=1e-12)
    np.testing.assert_allclose(r.covariance, np.diag([1.0, 0.0, 0.0]), atol=1e-12)
    assert r.rank == 1
    same_plane, log_z = plane.product(GaussianVector([1.0, 1.0, 1.0], np.diag([1.0, 1.0, 0.0])))
    expected, expected_log_z = plane.marginal([0, 1]).product(GaussianVector([1.0, 1.0], np.eye(2)))
    np.testing.assert_allclose(same_plane.mean[:2], expected.mean, rtol=1e-12)
    np.testing.assert_allclose(log_z, expected_log_z, rtol=1e-12)
    with pytest.raises(ValueError, match="away from the support"):
        plane.product(GaussianVector([0.0, 0.0, 2.0], np.diag([1.0, 1.0, 0.0])))


def test_averaging_a_gaussian_over_its_mean():
    """C.GAU3 (B.24): ∫ N(x|a,A) N(a|b,B) da = N(x|b,A+B)."""
    A, b, B, x = 0.7, -0.4, 1.9, 0.8
    inner = GaussianVector(b, B)
    integral, _ = quad(
        lambda a: np.exp(GaussianVector(a, A).log_prob([x]) + inner.log_prob([a])),
        -np.inf,
        np.inf,
        epsabs=1e-12,
    )
    np.testing.assert_allclose(np.exp(inner.affine(1.0, noise=A).log_prob([x])), integral, rtol=1e-9)
    assert_same(inner.affine(1.0, noise=A), GaussianVector(b, A + B))


# Densities, entropies, divergences


@steady
@cases
def test_log_prob_and_log_determinant(seed, n):
    """A.N6, B.MB6, C.LIN2: log |Σ| = 2 Σ log L_ii, solves by two triangular substitutions, density (A.4)."""
    rng = np.random.default_rng(seed)
    p, x = gaussian(rng, n), rng.normal(size=(2, 3, n))
    L = p.factor.root
    np.testing.assert_allclose(L, np.tril(L))
    np.testing.assert_allclose(L @ L.T, p.covariance, rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(p.log_determinant, np.linalg.slogdet(p.covariance)[1], rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(
        p.factor.solve(x[0].T), np.linalg.solve(p.covariance, x[0].T), rtol=1e-7, atol=1e-9
    )
    np.testing.assert_allclose(p.log_prob(x), multivariate_normal(p.mean, p.covariance).logpdf(x), rtol=1e-9)


@steady
@cases
def test_kl_formula_and_sign(seed, n):
    """A.N8, B.MB7, C.GAU4: (A.23) with explicit inverses; KL ≥ 0, 0 iff equal,
    invariant under affine maps.
    """
    rng = np.random.default_rng(seed)
    p, q = gaussian(rng, n), gaussian(rng, n)
    S0, S1, d = p.covariance, q.covariance, p.mean - q.mean
    book = 0.5 * np.linalg.slogdet(S1 @ inv(S0))[1] + 0.5 * np.trace(inv(S1) @ (np.outer(d, d) + S0 - S1))
    np.testing.assert_allclose(p.kl(q), book, rtol=1e-8)
    assert p.kl(q) > 0
    assert p.kl(p) < 1e-12
    A, b = rng.normal(size=(n, n)) + 3 * np.eye(n), rng.normal(size=n)
    np.testing.assert_allclose(p.affine(A, b).kl(q.affine(A, b)), p.kl(q), rtol=1e-6)


def test_kl_by_monte_carlo_has_the_half():
    """C.GAU4, D.GI2 with ER8: a million draws agree with the corrected (B.31) and exclude the printed one."""
    p = GaussianVector([1.0, -0.5], [[0.5, 0.2], [0.2, 0.4]])
    q = GaussianVector([0.0, 0.4], [[1.2, -0.5], [-0.5, 0.9]])
    x = p.sample(1_000_000, seed=4)
    ratio = p.log_prob(x) - q.log_prob(x)
    error = ratio.std() / 1000
    printed = p.kl(q) + 0.5 * (p.mean - q.mean) @ q.precision @ (p.mean - q.mean)
    assert abs(ratio.mean() - p.kl(q)) < 4 * error
    assert abs(ratio.mean() - printed) > 100 * error


def test_entropy():
    """A.N8, B.MB7, C.GAU4: ½ log |2πeΣ| is −E[log p],
    by quadrature in one dimension and in n by its formula.
    """
    p = GaussianVector(0.7, 0.3)
    integral, _ = quad(
        lambda x: -np.exp(p.log_prob([x])) * p.log_prob([x]), -10, 10, epsabs=1e-12, points=[0.7]
    )
    np.testing.assert_allclose(p.entropy(), integral, rtol=1e-9)
    q = gaussian(np.random.default_rng(5), 4)
    np.testing.assert_allclose(
        q.entropy(), 0.5 * np.linalg.slogdet(2 * np.pi * np.e * q.covariance)[1], rtol=1e-12
    )
    assert GaussianVector(0.0, 1e-4).entropy() < 0


# Expectations and projections


def test_expectations_of_forms():
    """C.GAU3, D.GI2: linear, quadratic and outer forms (B.25-B.27) by tensor Gauss-Hermite,
    exact for these degrees.
    """
    rng = np.random.default_rng(6)
    p, c, A = gaussian(rng, 3), rng.normal(size=3), rng.normal(size=(3, 3))
    nodes, weights = np.polynomial.hermite_e.hermegauss(4)
    grid = np.stack(np.meshgrid(nodes, nodes, nodes), axis=-1).reshape(-1, 3)
    w = (
        np.prod(np.stack(np.meshgrid(weights, weights, weights), axis=-1).reshape(-1, 3), axis=1)
        / (2 * np.pi) ** 1.5
    )
    x = p.mean + grid @ p.factor.root.T
    np.testing.assert_allclose(p.expect_linear(c), w @ (x @ c), rtol=1e-12)
    np.testing.assert_allclose(p.expect_linear(A), w @ (x @ A.T), rtol=1e-11)
    np.testing.assert_allclose(
        p.expect_quadratic(A, c), w @ np.einsum("ki,ij,kj->k", x - c, A, x - c), rtol=1e-12
    )
    np.testing.assert_allclose(p.expect_outer(), np.einsum("k,ki,kj->ij", w, x, x), rtol=1e-11, atol=1e-12)


def test_moment_matching_minimises_kl():
    """A.N8, B.MB8: the projection of a mixture matches its moments,
    and any perturbation raises KL(p ‖ q) (A.24).
    """
    parts, weights = [GaussianVector(-2.0, 0.25), GaussianVector(2.0, 0.49)], np.array([0.4, 0.6])
    x = np.linspace(-8, 8, 4001)
    density = sum(w * np.exp(part.log_prob(x[:, None])) for w, part in zip(weights, parts, strict=True))

    def kl_from_mixture(q):
        return np.sum(density * (np.log(density) - q.log_prob(x[:, None]))) * (x[1] - x[0])

    best = GaussianVector.from_mixture(weights, parts)
    np.testing.assert_allclose(best.mean, [0.4], rtol=1e-12)
    np.testing.assert_allclose(best.covariance, [[0.4 * 0.25 + 0.6 * 0.49 + 0.24 * 16]], rtol=1e-12)
    for shift, scale in ((0.05, 1.0), (-0.05, 1.0), (0.0, 1.05), (0.0, 0.95)):
        assert (
            kl_from_mixture(GaussianVector(best.mean + shift, best.covariance * scale))
            > kl_from_mixture(best) + 1e-5
        )
    assert_same(GaussianVector.from_samples(x, density), best, tol=1e-9)


def test_moment_matching_from_weighted_samples():
    """B.MB8: integer weights count repetitions; no Bessel correction;
    the sample log-likelihood is at its maximum.
    """
    rng = np.random.default_rng(7)
    X, counts = rng.normal(size=(20, 2)), rng.integers(1, 4, size=20)
    fitted = GaussianVector.from_samples(X, counts)
    repeated = np.repeat(X, counts, axis=0)
    assert_same(fitted, GaussianVector(repeated.mean(axis=0), np.cov(repeated.T, bias=True)), tol=1e-12)
    for _ in range(10):
        other = GaussianVector(
            fitted.mean + 0.05 * rng.normal(size=2), fitted.covariance + 0.02 * covariance(rng, 2)
        )
        assert other.log_prob(repeated).sum() < fitted.log_prob(repeated).sum()


# Sampling, regular and singular


def test_sampling_moments():
    """A.N7, B.MB2, C.GAU5: draws m + L u have mean m and covariance K, and the seed decides them."""
    p = gaussian(np.random.default_rng(8), 3)
    draws = p.sample(200_000, seed=9)
    assert np.all(np.abs(draws.mean(axis=0) - p.mean) < 4 * np.sqrt(np.diagonal(p.covariance) / 200_000))
    assert GaussianVector.from_samples(draws).kl(p) < 1e-4
    np.testing.assert_array_equal(p.sample(5, seed=1), p.sample(5, seed=1))
    np.testing.assert_array_equal(
        p.sample((2, 5), np.random.default_rng(1)).reshape(10, 3), p.sample(10, seed=1)
    )
    assert p.sample((), seed=0).shape == (3,)


def test_jitter_adds_its_variance_and_no_more():
    """A.N7, B.MB2: K + εI samples have covariance K + εI; a small ε moves the draws by about √ε."""
    x = np.linspace(0, 1, 40)
    smooth = GaussianVector(np.zeros(40), np.exp(-0.5 * (x[:, None] - x) ** 2 / 0.3**2))
    assert smooth.rank < 40
    noisy = smooth.sample(4000, seed=10, jitter=0.25)
    np.testing.assert_allclose(noisy.var(axis=0), 1.25, rtol=0.1)
    roughness = np.diff(noisy, n=2, axis=1).var()
    np.testing.assert_allclose(roughness, 6 * 0.25, rtol=0.05)
    tiny = np.diff(smooth.sample(200, seed=10, jitter=1e-10), n=2, axis=1)
    none = np.diff(smooth.sample(200, seed=10), n=2, axis=1)
    np.testing.assert_allclose(tiny.std(), none.std(), rtol=0.1)


@steady
@given(seed=st.integers(0, 10**6), n=st.integers(2, 7))
def test_singular_normal(seed, n):
    """C.GAU5, D.GI2 (3.22): rank, draws on the support,
    density with pseudo-inverse and non-zero eigenvalues.
    """
    rng = np.random.default_rng(seed)
    rank = int(rng.integers(1, n))
    p = gaussian(rng, n, rank)
    assert p.rank == rank
    x = p.sample(3, seed=seed)
    K = pseudo_inverse(p.covariance, rtol=1e-12)
    nonzero = np.linalg.eigvalsh(p.covariance)[-rank:]
    form = np.einsum("ki,ij,kj->k", x - p.mean, K, x - p.mean)
    book = -0.5 * (form + rank * np.log(2 * np.pi) + np.log(nonzero).sum())
    np.testing.assert_allclose(p.log_prob(x), book, rtol=1e-6)
    off = np.linalg.svd(p.covariance)[0][:, -1]
    assert p.log_prob(x[0] + 1e-3 * off) == -np.inf
    np.testing.assert_allclose(
        p.entropy(), 0.5 * np.log(2 * np.pi * np.e * nonzero).sum(), rtol=1e-9, atol=1e-12
    )
    assert p.kl(p) < 1e-9
    assert p.kl(gaussian(rng, n)) == np.inf
    assert gaussian(rng, n).kl(p) == np.inf
    with pytest.raises(ValueError, match="no inverse"):
        p.precision


def test_singular_kl_equals_that_on_the_support():
    """A.N8: normals on one line compare as normals on that line."""
    direction = np.array([3.0, 4.0, 0.0]) / 5
    p, q = GaussianVector(0.3, 0.5), GaussianVector(-0.2, 1.5)
    np.testing.assert_allclose(
        p.affine(direction[:, None]).kl(q.affine(direction[:, None])), p.kl(q), rtol=1e-10
    )
    assert p.affine(direction[:, None]).kl(q.affine(direction[:, None], [0.0, 0.0, 1.0])) == np.inf
    assert (
        GaussianVector([0.0, 0.0], np.diag([1.0, 0.0])).kl(GaussianVector([0.0, 0.0], np.diag([0.0, 1.0])))
        == np.inf
    )


@steady
@cases
def test_exact_knowledge_leaves_a_point(seed, n):
    """D.GI2: conditioning away all variation leaves rank 0,
    by `condition` and by noise-free `update` alike.
    """
    rng = np.random.default_rng(seed)
    p = gaussian(rng, n, rank=1)
    x = p.sample((), seed)
    rest = p.condition(0, x[0])
    assert rest.rank == 0
    np.testing.assert_allclose(rest.mean, x[1:], rtol=1e-6, atol=1e-6)
    assert rest.log_prob(rest.mean) == 0.0
    assert rest.affine(rng.normal(size=(2, n - 1))).rank == 0
    assert rest.update(0.0, np.ones(n - 1), noise=1.0)[0].rank == 0
    assert rest.product(GaussianVector(np.zeros(n - 1), np.eye(n - 1)))[0].rank == 0
    assert rest.product(rest)[1] == 0.0
    assert rest.marginal(0).rank == 0
    pair = p.marginal([0, 1])
    first, second = pair.factor.root[:, 0]
    assert pair.affine(np.outer(rng.normal(size=4), [second, -first])).rank == 0
    regular = gaussian(rng, n)
    y = regular.sample((), seed)
    known, _ = regular.update(y[:-1], np.eye(n)[:-1])
    assert known.rank == 1
    np.testing.assert_allclose(known.mean[:-1], y[:-1], rtol=1e-7, atol=1e-7)
    np.testing.assert_allclose(
        known.marginal(n - 1).covariance, regular.condition(slice(0, n - 1), y[:-1]).covariance
    )


def test_ill_conditioned_noise_free_update():
    """D.GI2: 50 exact values of a very smooth function on 500 points leave a semi-definite,
    right posterior.
    """
    x = np.linspace(0, 10, 500)
    prior = GaussianVector(np.zeros(500), np.exp(-0.5 * (x[:, None] - x) ** 2))
    path = prior.sample((), seed=12)
    posterior, _ = prior.update(path[::10], np.eye(500)[::10])
    assert posterior.rank < 20
    np.testing.assert_allclose(posterior.mean, path, atol=1e-4)
    assert np.all(np.abs(np.diagonal(posterior.covariance)) < 1e-9)


def test_vague_priors_and_mixed_units_keep_their_rank():
    """D.GI2: 1e20 prior variance leaves the posterior the noise;
    variances 1e-16 beside 1e8 are not taken for zero.
    """
    vague, _ = GaussianVector([0.0, 0.0], 1e20 * np.eye(2)).update([1.0, 2.0], np.eye(2), noise=0.5)
    assert vague.rank == 2
    np.testing.assert_allclose(vague.covariance, 0.5 * np.eye(2), atol=1e-9)
    units = GaussianVector([0.0, 0.0], [[1e8, 0.5e-4], [0.5e-4, 1e-16]])
    assert units.rank == 2
    np.testing.assert_allclose(units.log_determinant, np.log(0.75e-8), rtol=1e-12)
    assert semidefinite_factor(np.zeros((2, 2))).rank == 0


# What a value refuses


def test_natural_parameters_round_trip():
    """C.GAU2: exp(hᵀx − ½ xᵀPx) back to mean and covariance."""
    p = gaussian(np.random.default_rng(11), 4)
    assert_same(GaussianVector.from_natural(p.precision @ p.mean, p.precision), p)


def test_a_gaussian_is_immutable_and_keeps_its_own_copy():
    mean = np.zeros(2)
    p = GaussianVector(mean, np.eye(2))
    mean[0] = 1.0
    assert p.mean[0] == 0.0
    with pytest.raises(ValueError, match="read-only"):
        p.mean[0] = 1.0
    with pytest.raises(dataclasses.FrozenInstanceError):
        p.mean = mean


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: GaussianVector([0.0, 0.0], np.eye(3)), "shape"),
        (lambda: GaussianVector([0.0, np.nan], np.eye(2)), "not finite"),
        (lambda: GaussianVector([0.0, 0.0], [[1.0, 0.5], [0.4, 1.0]]), "symmetric"),
        (lambda: GaussianVector([0.0, 0.0], np.diag([1.0, -1.0])), "coordinate 1 is negative"),
        (lambda: GaussianVector([0.0, 0.0], [[1.0, 2.0], [2.0, 1.0]]).rank, "not positive semi-definite"),
        (lambda: GaussianVector([0.0, 0.0], np.eye(2)).condition([0, 1], 0.0), "leaves none"),
        (lambda: GaussianVector([0.0, 0.0], np.eye(2)).marginal([0, 0]), "none twice"),
        (
            lambda: GaussianVector([0.0, 0.0, 0.0], np.ones((3, 3))).condition([0, 1], [0.0, 1.0]),
            "away from the support",
        ),
        (lambda: GaussianVector(0.0, 0.0).update(1.0, 1.0), "away from the support"),
        (lambda: GaussianVector(0.0, 1.0).affine(1.0, noise=-0.5), "cannot be negative"),
        (lambda: GaussianVector([0.0, 0.0], np.eye(2)).affine(np.ones((2, 3))), r"\(m, 2\), not \(2, 3\)"),
        (lambda: GaussianVector([0.0, 0.0], np.eye(2)).log_prob([1.0, 2.0, 3.0]), "must have 2 coordinates"),
        (lambda: GaussianVector.from_natural([0.0, 0.0], np.ones((2, 2))), "no inverse"),
        (lambda: GaussianVector(0.0, 1.0).kl(GaussianVector([0.0, 0.0], np.eye(2))), "dimensions"),
        (lambda: GaussianVector.from_samples(np.zeros((3, 2)), [1.0, -1.0, 1.0]), "non-negative"),
        (lambda: semidefinite_factor(np.zeros((2, 3))), "square"),
    ],
)
def test_errors_say_what_is_wrong(build, message):
    with pytest.raises(ValueError, match=message):
        build()
