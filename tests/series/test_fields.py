"""Gaussian Markov random fields against dense algebra. GPML B.5,
(B.56) with each edge counted once or twice.
"""

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.stats import multivariate_normal

from mercer.series import MarkovField, graph, lattice


@pytest.fixture
def field(rng):
    made = lattice((4, 5), alpha1=0.3, alpha2=0.7)
    made.mean = rng.normal(size=20)
    return made


def energy(x, alpha1, alpha2, edges):
    """-log p up to a constant, as (B.56) is written, on a lattice of x's shape."""
    pairs = sum(np.sum(np.diff(x, axis=axis) ** 2) for axis in range(x.ndim))
    return alpha1 * np.sum(x**2) + {"once": 1, "twice": 2}[edges] * alpha2 * pairs


@pytest.mark.parametrize("edges", ["once", "twice"])
def test_the_density_is_that_of_the_differences(edges, rng):
    x, y = rng.normal(size=(2, 4, 3, 2))
    made = lattice((4, 3, 2), 0.3, 0.7, edges=edges)
    change = energy(x, 0.3, 0.7, edges) - energy(y, 0.3, 0.7, edges)
    assert made.log_density(y.ravel()) - made.log_density(x.ravel()) == pytest.approx(change, rel=1e-12)


def test_against_the_dense_gaussian(field, rng):
    K = np.linalg.inv(field.precision.toarray())
    x = rng.normal(size=20)
    assert field.log_density(x) == pytest.approx(multivariate_normal(field.mean, K).logpdf(x), rel=1e-12)
    np.testing.assert_allclose(field.variances(), np.diag(K), rtol=1e-12)
    np.testing.assert_allclose(field.covariance([3, 7]), K[:, [3, 7]], atol=1e-13)
    draws = field.sample(20_000, seed=1) - field.mean
    error = np.sqrt((K**2 + np.outer(np.diag(K), np.diag(K))) / 20_000)
    assert (np.abs(draws.T @ draws / 20_000 - K) < 5 * error).all()


def test_neighbours_say_it_all(field, rng):
    """Zeros of the precision are conditional independences; the neighbours' regression is the full one."""
    x, K = rng.normal(size=20), np.linalg.inv(field.precision.toarray())
    for i in (0, 7, 19):
        rest = np.arange(20) != i
        weights = np.linalg.solve(K[np.ix_(rest, rest)], K[rest, i])
        near, found, variance = field.regression(i)
        full = np.zeros(20)
        full[near] = found
        np.testing.assert_allclose(full[rest], weights, atol=1e-12)
        mean, same = field.conditional(i, x)
        assert mean == pytest.approx(field.mean[i] + weights @ (x - field.mean)[rest], rel=1e-11)
        assert variance == same == pytest.approx(K[i, i] - K[i, rest] @ weights, rel=1e-12)
    assert list(field.neighbours(0)) == [1, 5]
    assert list(field.neighbours(7)) == [2, 6, 8, 12]


def test_conditioning_and_observing(field, rng):
    K, sites, values = np.linalg.inv(field.precision.toarray()), np.array([2, 11]), np.array([1.0, -2.0])
    rest, given = field.condition(sites, values)
    G = np.linalg.solve(K[np.ix_(sites, sites)], K[np.ix_(sites, rest)])
    np.testing.assert_allclose(given.mean, field.mean[rest] + G.T @ (values - field.mean[sites]), atol=1e-12)
    np.testing.assert_allclose(
        given.variances(), np.diag(K[np.ix_(rest, rest)] - K[np.ix_(rest, sites)] @ G), atol=1e-12
    )
    y, noise = rng.normal(size=20), rng.uniform(0.1, 1.0, 20)
    y[[4, 9]] = np.nan
    seen = ~np.isnan(y)
    C = K[np.ix_(seen, seen)] + np.diag(noise[seen])
    posterior = field.observe(y, noise)
    np.testing.assert_allclose(
        posterior.mean, field.mean + K[:, seen] @ np.linalg.solve(C, (y - field.mean)[seen]), atol=1e-12
    )
    np.testing.assert_allclose(
        posterior.variances(), np.diag(K - K[:, seen] @ np.linalg.solve(C, K[seen])), atol=1e-12
    )
    expected = multivariate_normal(field.mean[seen], C).logpdf(y[seen])
    assert field.log_evidence(y, noise) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("edges, factor", [("once", 2.0), ("twice", 4.0)])
def test_eigenvalues_of_the_torus(edges, factor):
    made = lattice((5, 6), 0.3, 0.7, torus=True, edges=edges)
    i, j = np.meshgrid(np.arange(5) / 5, np.arange(6) / 6, indexing="ij")
    expected = 0.6 + factor * 0.7 * (4 - 2 * np.cos(2 * np.pi * i) - 2 * np.cos(2 * np.pi * j))
    np.testing.assert_allclose(
        np.linalg.eigvalsh(made.precision.toarray()), np.sort(expected.ravel()), rtol=1e-12
    )
    np.testing.assert_allclose(made.variances(), np.mean(1 / expected), rtol=1e-12)


def test_a_large_lattice_against_its_transform():
    """40,000 sites: log determinant by the cosine transform."""
    shape, alpha = (200, 200), (0.05, 0.5)
    made = lattice(shape, *alpha)
    wave = [2 - 2 * np.cos(np.pi * np.arange(m) / m) for m in shape]
    eigenvalues = 2 * alpha[0] + 4 * alpha[1] * np.add.outer(*wave)
    at_zero = 0.5 * (np.sum(np.log(eigenvalues)) - 40_000 * np.log(2 * np.pi))
    assert made.log_density(np.zeros(40_000)) == pytest.approx(at_zero, rel=1e-12)


def test_a_product_of_ou_processes_is_markov_of_order_two_in_the_plane():
    """exp(-a |t1|) exp(-b |t2|) on a grid: its precision reaches the eight nearest sites only."""
    lags = np.abs(np.subtract.outer(np.arange(5), np.arange(5)))
    made = MarkovField(np.where(np.abs(P := np.linalg.inv(np.kron(0.5**lags, 0.8**lags))) > 1e-12, P, 0.0))
    assert list(made.neighbours(12)) == [6, 7, 8, 11, 13, 16, 17, 18]


def test_graphs(rng):
    """Weighted edges; a level that only observations can tell."""
    W = sp.random_array((12, 12), density=0.3, rng=rng)
    W = (W + W.T).toarray()
    np.fill_diagonal(W, 3.0)  # a site is no neighbour of itself
    x = rng.normal(size=12)
    made = graph(W, 0.2, 0.5)
    change = 0.2 * x @ x + 0.5 * np.sum(W * np.subtract.outer(x, x) ** 2)
    assert made.log_density(np.zeros(12)) - made.log_density(x) == pytest.approx(change, rel=1e-11)
    free = lattice((6,), alpha1=0.0)
    with pytest.raises(ValueError, match="not positive definite"):
        free.log_density(np.zeros(6))
    np.testing.assert_allclose(free.observe(np.full(6, 3.0), 1.0).mean, 3.0, rtol=1e-12)


def test_bad_input(field):
    with pytest.raises(ValueError, match="not symmetric"):
        MarkovField([[1.0, 0.5], [0.2, 1.0]])
    with pytest.raises(ValueError, match="square"):
        MarkovField(np.ones((2, 3)))
    with pytest.raises(ValueError, match='"once" or "twice"'):
        lattice((3,), 1.0, edges="thrice")
    with pytest.raises(ValueError, match="symmetric square"):
        graph([[0.0, -1.0], [-1.0, 0.0]], 1.0)
    with pytest.raises(ValueError, match="20 sites"):
        field.log_density(np.ones(3))
    with pytest.raises(ValueError, match="use condition"):
        field.observe(np.ones(20), 0.0)
    with pytest.raises(ValueError, match="at least one site left"):
        field.condition([1, 1], [0.0, 0.0])
