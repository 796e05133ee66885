"""Gaussians: densities beside SciPy, moments, floors, priors, missing values, lost digits."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import invwishart, multivariate_normal

from mercer.em import (
    Gaussians,
    InverseWishart,
    NormalComponent,
    log_det_gradient,
    quadratic_gradient,
    trace_gradient,
)
from mercer.em import blocks as blocks_module
from mercer.em.blocks import Diagonal, Elliptic, QuadraticBlock, blocks

TYPES = ("full", "diagonal", "spherical", "tied")


def gaussians(kind, k=3, d=2, seed=0, **options):
    rng = np.random.default_rng(seed)
    B = rng.normal(size=(k, d, d))
    full = B @ np.swapaxes(B, 1, 2) + 0.5 * np.eye(d)
    shapes = {
        "full": full,
        "diagonal": np.diagonal(full, axis1=1, axis2=2),
        "spherical": full[:, 0, 0],
        "tied": full[0],
    }
    return Gaussians(rng.normal(size=(k, d)), shapes[kind], kind, **options)


def data(n=40, d=2, seed=1):
    return np.random.default_rng(seed).normal(size=(n, d)) * 2


@pytest.mark.parametrize("kind", TYPES)
def test_log_densities_are_those_of_scipy(kind):
    g, X = gaussians(kind), data()
    wanted = [multivariate_normal(m, C).logpdf(X) for m, C in zip(g.means, g.matrices(), strict=True)]
    np.testing.assert_allclose(g.log_prob(X), wanted, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("kind", TYPES)
def test_features_and_each_gaussian_by_itself_agree(kind, monkeypatch):
    g, X = gaussians(kind), data()
    W = np.random.default_rng(2).random((3, 40))
    assert all(isinstance(b, QuadraticBlock) for b in blocks(g, X))
    fast = g.log_prob(X), g.moments(X, lambda block: W[:, block.rows])
    monkeypatch.setattr(blocks_module, "LOST", 0.0)
    assert all(isinstance(b, Elliptic | Diagonal) for b in blocks(g, X))
    slow = g.log_prob(X), g.moments(X, lambda block: W[:, block.rows])
    np.testing.assert_allclose(fast[0], slow[0], rtol=1e-12)
    for name in ("weight", "first", "second"):
        np.testing.assert_allclose(getattr(fast[1], name), getattr(slow[1], name), rtol=1e-11, atol=1e-11)


def test_far_from_the_origin_and_far_apart_no_digits_are_lost():
    rng = np.random.default_rng(0)
    near = 1e-4 * rng.normal(size=(50, 2))
    X = np.concatenate([near, near + 1e6]) + 1e8
    labels = np.repeat([[1.0, 0.0], [0.0, 1.0]], 50, axis=0).T
    found = Gaussians.fitted(X, labels)
    exact = np.cov((X[:50] - X[0]).T, bias=True)
    np.testing.assert_allclose(
        found.maximise(found.moments(X, lambda b: labels[:, b.rows])).covariances[0], exact, rtol=1e-6
    )
    assert not any(isinstance(b, QuadraticBlock) for b in blocks(found, X))


@pytest.mark.parametrize("kind", TYPES)
def test_maximum_likelihood_of_one_gaussian_is_mean_and_biased_covariance(kind):
    X = data()
    found = Gaussians.fitted(X, np.ones((1, 40)), kind)
    C = np.cov(X.T, bias=True)
    wanted = {"full": C[None], "diagonal": np.diag(C)[None], "spherical": [np.diag(C).mean()], "tied": C}[
        kind
    ]
    np.testing.assert_allclose(found.means[0], X.mean(0), rtol=1e-12)
    np.testing.assert_allclose(found.covariances, wanted, rtol=1e-12)
    if kind == "full":
        normal = NormalComponent.of(X)
        np.testing.assert_allclose(normal.covariance, C, rtol=1e-12)
        step = 1e-6
        for direction in np.eye(2):
            up, down = (
                replace(normal, mean=normal.mean + s * step * direction).log_prob(X).sum() for s in (1, -1)
            )
            assert abs(up - down) / (2 * step) < 1e-7  # the score is zero


@pytest.mark.parametrize("kind", TYPES)
def test_the_m_step_is_the_maximum_of_the_weighted_likelihood(kind):
    X, W = data(), np.random.default_rng(3).random((3, 40))
    prior = InverseWishart(4.0, np.diag([1.0, 2.0]))
    g = gaussians(kind, prior=prior)
    best = g.maximise(g.moments(X, lambda b: W[:, b.rows]))

    def objective(model):
        return (W * model.log_prob(X)).sum() + model.log_prior()

    top, rng = objective(best), np.random.default_rng(4)
    assert top > objective(g)
    for _ in range(20):
        turn = rng.normal(size=best.covariances.shape) * 0.02
        if best.elliptic:
            turn = turn + np.swapaxes(turn, -1, -2)
        assert objective(replace(best, covariances=best.covariances * (1 + turn))) < top
        assert objective(replace(best, means=best.means + 0.02 * rng.normal(size=(3, 2)))) < top


def test_the_prior_is_the_inverse_wishart_of_scipy_up_to_a_constant():
    prior = InverseWishart(5.0, np.array([[2.0, 0.3], [0.3, 1.0]]))
    a, b = gaussians("full", k=1, seed=5, prior=prior), gaussians("full", k=1, seed=6, prior=prior)
    wanted = invwishart(5, prior.scale).logpdf(a.covariances[0]) - invwishart(5, prior.scale).logpdf(
        b.covariances[0]
    )
    assert a.log_prior() - b.log_prior() == pytest.approx(wanted, rel=1e-12)
    with pytest.raises(ValueError, match="dof"):
        InverseWishart(0.5, np.eye(2))


@pytest.mark.parametrize("kind", TYPES)
def test_a_floor_is_kept_and_is_the_constrained_maximum(kind):
    X = np.column_stack([np.linspace(-1, 1, 30), np.linspace(-2, 2, 30)])  # on a line
    floor = np.array([0.01, 0.04])
    found = Gaussians.fitted(X, np.ones((1, 30)), kind, floor)
    scaled = found.matrices()[0] / np.sqrt(np.outer(floor, floor))
    least = np.linalg.eigvalsh(scaled)[0]
    assert least >= 1 - 1e-9 or (kind == "spherical" and found.covariances[0] >= floor.mean())
    if kind == "full":
        top, rng = found.log_prob(X).sum(), np.random.default_rng(0)
        for _ in range(30):
            B = 0.1 * rng.normal(size=(2, 2))
            other = np.linalg.eigh(scaled + B + B.T)
            values = np.maximum(other[0], 1.0)
            feasible = (other[1] * values) @ other[1].T * np.sqrt(np.outer(floor, floor))
            assert replace(found, covariances=feasible[None]).log_prob(X).sum() <= top + 1e-9


def test_covariances_below_the_floor_can_be_lifted():
    g = Gaussians(np.zeros((2, 2)), [np.eye(2), 1e-8 * np.eye(2)], floor=np.full(2, 1e-4)).lifted()
    np.testing.assert_allclose(g.covariances, [np.eye(2), 1e-4 * np.eye(2)], rtol=1e-12)


@pytest.mark.parametrize("kind", TYPES)
def test_a_missing_value_is_integrated_over(kind):
    g = gaussians(kind, d=3)
    X = data(d=3)[:6]
    X[0, 0] = X[1, [0, 2]] = X[2] = X[4, 1] = np.nan
    found = g.log_prob(X)
    for i, x in enumerate(X):
        seen = ~np.isnan(x)
        for k, (m, C) in enumerate(zip(g.means, g.matrices(), strict=True)):
            wanted = (
                multivariate_normal(m[seen], C[np.ix_(seen, seen)]).logpdf(x[seen]) if seen.any() else 0.0
            )
            assert found[k, i] == pytest.approx(wanted, rel=1e-12, abs=1e-12)


def test_moments_of_missing_values_are_conditional_expectations():
    g = gaussians("full", k=1, d=2)
    x, C, m = 1.3, g.covariances[0], g.means[0]
    found = g.moments(np.array([[x, np.nan]]), lambda b: np.ones((1, 1)))
    mean = C[1, 0] / C[0, 0] * (x - m[0])
    np.testing.assert_allclose(found.first, [[x - m[0], mean]], rtol=1e-13)
    assert found.second[0, 1, 1] == pytest.approx(mean**2 + C[1, 1] - C[1, 0] ** 2 / C[0, 0], rel=1e-13)


def test_wrong_input_is_refused_with_what_to_do():
    with pytest.raises(ValueError, match=r"shape \(2, 1, 1\)"):
        Gaussians([[0.0], [1.0]], [[1.0], [1.0]])
    with pytest.raises(ValueError, match="floor or a prior"):
        Gaussians([[0.0, 0.0]], [[[1.0, 1.0], [1.0, 1.0]]])
    with pytest.raises(ValueError, match="covariance_type"):
        Gaussians([[0.0]], [[[1.0]]], "round")
    with pytest.raises(ValueError, match="row 1 of the data is infinite"):
        gaussians("full").log_prob(np.array([[0.0, 1.0], [np.inf, 0.0]]))
    with pytest.raises(ValueError, match=r"\(rows, 2\)"):
        gaussians("full").log_prob(np.zeros((3, 4)))


def test_derivatives_for_symmetric_matrices_are_finite_differences():
    rng = np.random.default_rng(0)
    B = rng.normal(size=(3, 3))
    A, x = B @ B.T + np.eye(3), rng.normal(size=3)

    def slope(f, i, j, h=1e-5):
        E = np.zeros((3, 3))
        E[i, j] = E[j, i] = h
        return (f(A + E) - f(A - E)) / (2 * h)

    for i in range(3):
        for j in range(3):
            assert slope(lambda M: np.linalg.slogdet(M)[1], i, j) == pytest.approx(
                log_det_gradient(A)[i, j], abs=1e-8
            )
            assert slope(lambda M: np.trace(M @ B), i, j) == pytest.approx(trace_gradient(B)[i, j], abs=1e-8)
    h = 1e-6 * np.eye(3)
    numeric = [((x + e) @ B @ (x + e) - (x - e) @ B @ (x - e)) / 2e-6 for e in h]
    np.testing.assert_allclose(quadratic_gradient(B, x), numeric, atol=1e-8)
