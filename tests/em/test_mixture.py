"""Mixtures: golden steps, enumeration over labels, invariants of EM, missing values,
agreement with scikit-learn.
"""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
from sklearn.mixture import GaussianMixture as Peer

from mercer.em import (
    EMError,
    ExponentialComponent,
    GaussianMixture,
    Gaussians,
    InverseWishart,
    Mixture,
    NormalComponent,
    PoissonComponent,
    em,
)
from mercer.em.starts import plus_plus, spread

TYPES = ("full", "diagonal", "spherical", "tied")


def toy(n=60, d=2, seed=0):
    rng = np.random.default_rng(seed)
    return np.concatenate(
        [
            rng.normal(size=(n // 2, d)) * 0.7,
            rng.normal(size=(n - n // 2, d)) @ np.diag(np.arange(1, d + 1)) + 2,
        ]
    )


def test_two_steps_on_four_points_are_the_golden_ones():
    start = GaussianMixture([0.5, 0.5], Gaussians([[0.0], [5.0]], np.ones((2, 1, 1))))
    X = np.array([[0.0], [1.0], [4.0], [5.0]])
    once = em(start, [X], max_evaluations=1, tol=0)
    twice = em(start, [X], max_evaluations=2, tol=0)
    np.testing.assert_allclose(
        twice.path(), [-7.447229538815295, -5.675936420121778, -5.675754132743188], rtol=1e-13
    )
    np.testing.assert_allclose(once.model.means.ravel(), [0.50083848, 4.49916152], atol=5e-9)
    np.testing.assert_allclose(once.model.covariances.ravel(), 0.25335324, atol=5e-9)
    np.testing.assert_allclose(twice.model.means.ravel(), [0.5, 4.5], atol=1e-6)
    np.testing.assert_allclose(twice.model.covariances.ravel(), 0.25, atol=1e-6)


def test_the_q_function_is_the_sum_over_all_labels():
    X = toy(6)
    old = GaussianMixture.around(X, 2, np.random.default_rng(0), floor=0.1)
    new = old.maximise(old.expect(X))
    R, joint = old.responsibilities(X), new.log_joint(X)
    by_labels = 0.0
    for labels in itertools.product(range(2), repeat=6):
        weight = np.prod([R[i, l] for i, l in enumerate(labels)])
        by_labels += weight * sum(joint[l, i] for i, l in enumerate(labels))
    assert by_labels == pytest.approx((R.T * joint).sum(), rel=1e-12)  # Bilmes' equation 5
    assert by_labels >= (R.T * old.log_joint(X)).sum() - 1e-12
    total = sum(
        np.exp(sum(old.log_joint(X)[l, i] for i, l in enumerate(ls)))
        for ls in itertools.product(range(2), repeat=6)
    )
    assert np.log(total) == pytest.approx(old.log_prob(X).sum(), rel=1e-12)


def test_the_gradients_of_q_and_of_the_likelihood_are_the_same():
    X = toy(20)
    model = GaussianMixture.around(X, 2, np.random.default_rng(0), floor=0.0)
    R, h = model.responsibilities(X).T, 1e-5

    def slope(f, direction):
        up, down = (
            replace(model, gaussians=replace(model.gaussians, means=model.means + s * h * direction))
            for s in (1, -1)
        )
        return (f(up) - f(down)) / (2 * h)

    for direction in np.eye(4).reshape(4, 2, 2):
        q = slope(lambda m: (R * m.log_joint(X)).sum(), direction)
        assert slope(lambda m: m.log_prob(X).sum(), direction) == pytest.approx(q, abs=1e-7)


def test_moments_of_the_data_are_kept_by_every_m_step():
    X = toy()
    model = GaussianMixture.around(X, 3, np.random.default_rng(1), floor=0.0)
    for _ in range(5):
        model = model.maximise(model.expect(X))
        second = model.covariances + model.means[:, :, None] * model.means[:, None, :]
        np.testing.assert_allclose(model.weights @ model.means, X.mean(0), rtol=1e-11)
        np.testing.assert_allclose(
            np.einsum("k,kij->ij", model.weights, second), X.T @ X / len(X), rtol=1e-11
        )


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("prior, floor", [(None, 0.3), (InverseWishart(5.0, np.eye(2)), 0.0)])
def test_the_objective_never_falls(kind, prior, floor):
    X = toy()
    start = GaussianMixture.around(X, 4, np.random.default_rng(2), kind, floor, prior, pseudo_count=0.5)
    path = em(start, [X], max_evaluations=40, tol=0, slack=1e-12).path()
    assert path[-1] > path[0]


def test_it_does_not_matter_in_which_units_and_order_things_are():
    X, rng = toy(), np.random.default_rng(3)
    start = GaussianMixture.around(X, 2, rng, floor=0.0)
    B, c = np.array([[2.0, 0.5], [-1.0, 1.5]]), np.array([10.0, -3.0])
    moved = Gaussians(start.means @ B.T + c, B @ start.covariances @ B.T)
    a = em(start, [X], max_evaluations=10, tol=0)
    b = em(GaussianMixture(start.weights, moved), [X @ B.T + c], max_evaluations=10, tol=0)
    np.testing.assert_allclose(b.model.means, a.model.means @ B.T + c, rtol=1e-9)
    np.testing.assert_allclose(b.path(), a.path() - len(X) * np.log(abs(np.linalg.det(B))), rtol=1e-10)
    swapped = GaussianMixture(start.weights[::-1], Gaussians(start.means[::-1], start.covariances[::-1]))
    np.testing.assert_allclose(
        em(swapped, [X], max_evaluations=10, tol=0).model.means[::-1], a.model.means, rtol=1e-9
    )


@pytest.mark.parametrize("kind", TYPES)
def test_ten_iterations_are_those_of_scikit_learn(kind):
    X = toy(200, 3)
    start = GaussianMixture.around(X, 3, np.random.default_rng(4), kind, floor=0.0)
    ours = em(start, [X], max_evaluations=10, tol=0)
    peer = Peer(3, covariance_type={"diagonal": "diag"}.get(kind, kind), reg_covar=0.0)
    peer.weights_, peer.means_, peer.covariances_ = start.weights, start.means, start.covariances
    if start.gaussians.elliptic:
        peer.precisions_cholesky_ = np.swapaxes(np.linalg.inv(np.linalg.cholesky(start.covariances)), -1, -2)
    else:
        peer.precisions_cholesky_ = 1 / np.sqrt(start.covariances)
    for _ in range(10):
        peer._m_step(X, peer._e_step(X)[1])
    np.testing.assert_allclose(ours.model.means, peer.means_, rtol=1e-6)
    np.testing.assert_allclose(ours.model.covariances, peer.covariances_, rtol=1e-6, atol=1e-8)
    assert ours.log_likelihood == pytest.approx(peer.score(X) * len(X), rel=1e-10)
    assert ours.model.parameters() == peer._n_parameters()


def test_missing_values_climb_and_nothing_missing_changes_nothing():
    X = toy(80, 3)
    gaps = X.copy()
    gaps[np.random.default_rng(5).random(X.shape) < 0.2] = np.nan
    gaps[3] = np.nan
    start = GaussianMixture.around(gaps, 2, np.random.default_rng(6))
    found = em(start, [gaps], max_evaluations=30, tol=0, slack=1e-12)
    assert np.isfinite(found.model.covariances).all()
    without = em(start, [np.delete(gaps, 3, axis=0)], max_evaluations=30, tol=0)
    np.testing.assert_allclose(found.model.means, without.model.means, rtol=1e-10)
    assert found.log_likelihood == pytest.approx(without.log_likelihood, rel=1e-12)


def test_missing_values_of_one_gaussian_have_the_known_answer():
    """With x always seen and y missing at random, the likelihood factorises: p(x),
    and a regression of y on x.
    """
    rng = np.random.default_rng(7)
    X = rng.normal(size=(100, 2)) @ np.array([[1.0, 0.8], [0.0, 0.6]])
    X[rng.random(100) < 0.4, 1] = np.nan
    found = em(GaussianMixture.around(X, 1, rng, floor=0.0), [X], max_evaluations=400, tol=0).model
    seen = ~np.isnan(X[:, 1])
    slope, constant = np.polyfit(X[seen, 0], X[seen, 1], 1)
    left = np.mean((X[seen, 1] - slope * X[seen, 0] - constant) ** 2)
    variance = X[:, 0].var()
    np.testing.assert_allclose(found.means[0], [X[:, 0].mean(), constant + slope * X[:, 0].mean()], rtol=1e-8)
    wanted = [[variance, slope * variance], [slope * variance, left + slope**2 * variance]]
    np.testing.assert_allclose(found.covariances[0], wanted, rtol=1e-8)


def test_a_component_on_one_point_keeps_the_floor_and_fails_clearly_without():
    X = np.concatenate([toy(50), [[40.0, 40.0]]])
    labels = np.repeat([0, 1], [50, 1])
    found = em(GaussianMixture.assigned(X, labels, 2), [X], max_evaluations=20)
    assert np.isfinite(found.model.covariances).all() and found.model.weights[1] == pytest.approx(1 / 51)
    np.testing.assert_allclose(
        np.linalg.eigvalsh(found.model.covariances[1] / np.sqrt(np.outer(*[spread(X[:50])] * 2))),
        1e-6,
        rtol=1e-6,
    )
    with pytest.raises(np.linalg.LinAlgError, match="floor or a prior"):
        GaussianMixture.assigned(X, labels, 2, floor=0.0)
    start = GaussianMixture([0.5, 0.5], Gaussians([[0.0, 0], [40, 40]], [np.eye(2)] * 2))
    with pytest.raises((EMError, np.linalg.LinAlgError), match="floor or a prior"):
        em(start, [X])


def test_a_component_without_data_stays_where_it_was():
    start = GaussianMixture([0.5, 0.5], Gaussians([[0.0, 0], [1e4, 0]], [np.eye(2)] * 2))
    found = em(start, [toy()], max_evaluations=5, tol=0).model
    np.testing.assert_array_equal(found.means[1], [1e4, 0])
    assert found.weights[1] == 0 and np.isfinite(found.log_prob(toy())).all()


def test_draws_have_the_moments_of_the_mixture():
    model = GaussianMixture([0.3, 0.7], Gaussians([[0.0, 1], [4, -2]], [[1.0, 2.0], [0.5, 0.5]], "diagonal"))
    X, which = model.sample(20000, np.random.default_rng(8))
    np.testing.assert_allclose(X.mean(0), model.weights @ model.means, atol=0.06)
    assert which.mean() == pytest.approx(0.7, abs=0.02)


# -- any family


def test_any_family_can_be_mixed_and_kinds_may_differ():
    rng = np.random.default_rng(9)
    counts = np.concatenate([rng.poisson(2.0, 300), rng.poisson(11.0, 200)])
    found = em(
        Mixture([0.5, 0.5], (PoissonComponent(1.0), PoissonComponent(20.0))),
        [counts[:100], counts[100:]],
        max_evaluations=300,
        tol=1e-12,
    )
    assert found.converged
    np.testing.assert_allclose([c.mean for c in found.model.components], [2.0, 11.0], rtol=0.1)
    assert found.model.weights @ [c.mean for c in found.model.components] == pytest.approx(
        counts.mean(), rel=1e-10
    )
    waits = np.concatenate([rng.exponential(1.0, 200), rng.normal(20, 1, 100)])[:, None]

    class Column(ExponentialComponent):
        def log_prob(self, X):
            return super().log_prob(X[:, 0])

        def fit(self, X, weights):
            return Column(super().fit(X[:, 0], weights).mean)

    found = em(
        Mixture([0.5, 0.5], (Column(3.0), NormalComponent([15.0], [[9.0]]))), [waits], max_evaluations=100
    )
    assert found.model.weights[0] == pytest.approx(2 / 3, abs=0.02)
    assert found.model.components[1].mean[0] == pytest.approx(20, abs=0.3)


def test_a_mixture_of_normals_is_the_gaussian_mixture():
    X = toy()
    start = GaussianMixture.around(X, 2, np.random.default_rng(10), floor=0.0)
    general = Mixture(
        start.weights, [NormalComponent(m, C) for m, C in zip(start.means, start.covariances, strict=True)]
    )
    a, b = em(start, [X], max_evaluations=8, tol=0), em(general, [X], max_evaluations=8, tol=0)
    np.testing.assert_allclose(a.path(), b.path(), rtol=1e-12)
    np.testing.assert_allclose(b.model.responsibilities(X), a.model.responsibilities(X), atol=1e-10)
    np.testing.assert_allclose(b.model.responsibilities(X).sum(1), 1.0, rtol=1e-14)


def test_one_component_is_ordinary_maximum_likelihood():
    counts = np.array([1, 4, 2, 7.0])
    assert em(Mixture([1.0], [PoissonComponent(1.0)]), [counts], max_evaluations=1, tol=0).model.components[
        0
    ].mean == pytest.approx(3.5)


def test_draws_of_a_mixture_come_with_their_components():
    values, which = Mixture([0.2, 0.8], [PoissonComponent(1.0), PoissonComponent(50.0)]).sample(
        2000, np.random.default_rng(0)
    )
    assert values[which == 1].mean() == pytest.approx(50, abs=0.6) and which.mean() == pytest.approx(
        0.8, abs=0.03
    )


def test_wrong_weights_are_refused():
    with pytest.raises(ValueError, match="weights must be probabilities"):
        Mixture([0.5, 0.7], [PoissonComponent(1.0), PoissonComponent(2.0)])
    with pytest.raises(ValueError, match="weights must have the shape"):
        Mixture([1.0], [PoissonComponent(1.0), PoissonComponent(2.0)])


# -- starts


def test_a_start_for_many_rows_looks_at_some(monkeypatch):
    import mercer.em.mixture as module

    monkeypatch.setattr(module, "ENOUGH", 50)
    X = np.concatenate([toy(400) - 50, toy(400) + 50])
    start = GaussianMixture.around(X, 2, np.random.default_rng(0))
    assert round(len(X) * start.weights[0]) % 16 == 0 and np.ptp(start.means[:, 0]) > 90


def test_k_means_plus_plus_finds_groups_and_leaves_none_empty():
    rng = np.random.default_rng(11)
    X = np.concatenate([rng.normal(size=(30, 2)) + c for c in ([0, 0], [20, 0], [0, 2000])])
    labels = plus_plus(X, 3, rng)
    assert all(len(set(labels[i : i + 30])) == 1 for i in (0, 30, 60)) and len(set(labels)) == 3
    assert set(plus_plus(np.zeros((5, 2)), 3, rng)) == {0, 1, 2}
    assert len(set(plus_plus(rng.normal(size=(300, 1)), 4, rng, most=50))) == 4
    with pytest.raises(ValueError, match="4 groups"):
        plus_plus(X[:3], 4, rng)
