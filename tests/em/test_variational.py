"""Variational Bayes: scikit-learn's and hmmlearn's numbers from the same start, bounds, limits, missing
values.
"""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
import pytest
from hmmlearn.vhmm import VariationalCategoricalHMM, VariationalGaussianHMM
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning
from sklearn.mixture import BayesianGaussianMixture

from mercer.em import (
    HMM,
    CategoricalEmission,
    DirichletEmission,
    Dirichlets,
    GammaEmission,
    GaussianEmission,
    GaussianMixture,
    Gaussians,
    MultinomialEmission,
    NormalInverseWishart,
    NormalWisharts,
    PoissonEmission,
    Sticks,
    VariationalHMM,
    VariationalMixture,
    em,
)
from mercer.hyperpriors import Gamma

TYPES = ("full", "diagonal", "spherical", "tied")


def rows(n=90, d=2, seed=0):
    rng = np.random.default_rng(seed)
    centres = 4 * rng.normal(size=(3, d))
    return centres[rng.integers(3, size=n)] + rng.normal(size=(n, d))


def prior_of(X, dof=None):
    d = X.shape[1]
    return NormalInverseWishart(d if dof is None else dof, np.cov(X.T).reshape(d, d), X.mean(0), 1.0)


# -- scikit-learn


@pytest.mark.parametrize("process", [True, False])
@pytest.mark.parametrize(("kind", "d"), [("full", 2), ("full", 1), ("diag", 1), ("spherical", 1)])
def test_ten_iterations_are_those_of_scikit_learn(process, kind, d):
    X, k = rows(d=d), 4
    name = "dirichlet_process" if process else "dirichlet_distribution"
    peer = BayesianGaussianMixture(
        n_components=k, covariance_type=kind, weight_concentration_prior_type=name,
        weight_concentration_prior=0.3, reg_covar=0.0, max_iter=10, tol=0.0, random_state=0,
    )  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        peer.fit(X)
    labels = KMeans(k, n_init=1, random_state=np.random.RandomState(0)).fit(X).labels_
    weights = Sticks(0.3, np.zeros(k)) if process else Dirichlets(np.full(k, 0.3), np.zeros(k))
    ours_kind = "diagonal" if kind == "diag" else kind
    start = VariationalMixture.assigned(X, np.eye(k)[labels].T, weights, prior_of(X), ours_kind)
    found = em(start, [X], max_evaluations=10, tol=0, slack=1e-12).model
    np.testing.assert_allclose(found.weights.mean(), peer.weights_, atol=1e-9)
    np.testing.assert_allclose(found.gaussians.means, peer.means_, atol=1e-8)
    np.testing.assert_allclose(found.gaussians.dof, peer.degrees_of_freedom_, rtol=1e-9)
    np.testing.assert_allclose(found.gaussians.weight, peer.mean_precision_, rtol=1e-9)
    np.testing.assert_allclose(found.gaussians.gaussians.covariances, peer.covariances_, rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(found.responsibilities(X), peer.predict_proba(X), atol=1e-8)


# -- bounds


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("process", [True, False])
def test_the_bound_climbs_and_is_that_of_the_definition(kind, process):
    X = rows(40, seed=1)
    X[3, 0], X[7, 1], X[11], X[20:30] = np.nan, np.nan, np.nan, np.nan
    k = 3
    seen = X[~np.isnan(X).any(1)]
    R = np.random.default_rng(0).dirichlet(np.ones(k), len(X)).T
    weights = Sticks(1.0, np.zeros(k)) if process else Dirichlets(np.full(k, 0.5), np.zeros(k))
    start = VariationalMixture.assigned(X, R, weights, prior_of(seen), kind)
    found = em(start, [X], max_evaluations=25, tol=0, slack=1e-12)  # raises where the bound falls
    path = found.path()
    assert path[-1] > path[0]
    whole, parts = start.expect(X), start.expect(X[:9]) + start.expect(X[9:])
    assert whole.log_likelihood == pytest.approx(parts.log_likelihood, rel=1e-12)
    # nothing is better for given expected moments than what the M-step gives
    summary = start.expect(X)
    best = start.maximise(summary)

    def bound(model):
        """E[log p(X, z | θ)] of the old responsibilities, less the divergence."""
        again = start.gaussians.gaussians.moments(X, lambda block: start.responsibilities(X)[block.rows].T)
        counts = again.weight
        return (
            counts @ model.weights.expected_log() + _expected(model.gaussians, start, X) + model.log_prior()
        )

    if np.isnan(X).any():
        X = seen
    summary = start.expect(X)
    best = start.maximise(summary)
    value = bound(best)
    for change in (
        replace(best, gaussians=replace(best.gaussians, means=best.gaussians.means + 0.05)),
        replace(best, gaussians=replace(best.gaussians, weight=best.gaussians.weight * 1.1)),
        replace(best, gaussians=replace(best.gaussians, dof=best.gaussians.dof * 1.1)),
        replace(best, gaussians=replace(best.gaussians, scale=best.gaussians.scale * 1.1)),
        replace(best, weights=best.weights.updated(best.weights.counts + 1.0)),
    ):
        assert bound(change) < value


def _expected(gaussians, start, X):
    return float((start.responsibilities(X).T * gaussians.log_prob(X)).sum())


def test_one_gaussian_has_its_exact_evidence_and_predictive_density():
    X = rows(12, d=1)
    prior = NormalInverseWishart(3.0, [[2.0]], [0.5], 0.7)
    start = VariationalMixture.assigned(X, np.ones((1, 12)), Dirichlets([1.0], [0.0]), prior)
    found = em(start, [X], max_evaluations=1, tol=0)
    # the evidence by the chain rule of predictive densities
    total, before = 0.0, NormalWisharts.of_prior(prior, 1)
    for i in range(12):
        total += before.predictive(X[i : i + 1])[0, 0]
        before = NormalWisharts.of_prior(prior, 1).maximise(
            NormalWisharts.of_prior(prior, 1).gaussians.moments(
                X[: i + 1], lambda b: np.ones((1, b.log_prob().shape[1]))
            )
        )
    assert found.objective == pytest.approx(total, rel=1e-10)
    for kind in TYPES:
        model = VariationalMixture.assigned(X, np.ones((1, 12)), Dirichlets([1.0], [0.0]), prior, kind)
        side = np.linspace(-400, 400, 400001)
        area = np.exp(model.log_prob(side[:, None])).sum() * (side[1] - side[0])
        assert area == pytest.approx(1.0, abs=1e-4)


def test_the_predictive_density_is_the_integral_over_the_parameters():
    X = rows(15, d=2, seed=3)
    prior = NormalInverseWishart(4.0, np.eye(2), np.zeros(2), 1.0)
    rng, x = np.random.default_rng(0), np.array([[0.5, -0.3]])
    for kind in TYPES:
        model = VariationalMixture.assigned(
            X, np.ones((1, 15)), Dirichlets([1.0], [0.0]), prior, kind
        ).gaussians
        S, nu, b, n = model.scale, model.dof[0], model.weight[0], 40000
        if model.gaussians.elliptic:
            from scipy.stats import wishart

            L = wishart(nu, np.linalg.inv(S.reshape(2, 2))).rvs(n, random_state=0)
        elif kind == "diagonal":
            L = np.eye(2) * rng.gamma(nu / 2, 2 / S[0], (n, 2))[:, None]
        else:
            L = np.eye(2) * rng.gamma(nu, 1 / S[0], n)[:, None, None]
        root = np.linalg.cholesky(np.linalg.inv(L))
        mu = model.means[0] + np.einsum("nij,nj->ni", root, rng.standard_normal((n, 2))) / np.sqrt(b)
        z = x[0] - mu
        density = np.sqrt(np.linalg.det(L)) / (2 * np.pi) * np.exp(-0.5 * np.einsum("ni,nij,nj->n", z, L, z))
        assert np.exp(model.predictive(x)[0, 0]) == pytest.approx(density.mean(), rel=0.03)
        # and E log of it is what the E-step reads
        expected = (
            0.5 * np.linalg.slogdet(L)[1] - np.log(2 * np.pi) - 0.5 * np.einsum("ni,nij,nj->n", z, L, z)
        )
        assert model.log_prob(x)[0, 0] == pytest.approx(expected.mean(), abs=0.05)


def test_a_strong_concentration_of_data_is_maximum_likelihood():
    X = np.tile(rows(60, seed=2), (2000, 1))
    start = GaussianMixture.around(X, 2, np.random.default_rng(0))
    one = em(start, [X], max_evaluations=3, tol=0).model
    prior = NormalInverseWishart(2.0, 1e-6 * np.eye(2), X.mean(0), 1e-6)
    before = VariationalMixture(
        Dirichlets([1.0, 1.0], start.weights * len(X)),
        NormalWisharts(
            prior, start.means, start.weights * len(X), start.weights * len(X),
            start.covariances * (start.weights * len(X))[:, None, None],
        ),
    )  # fmt: skip
    other = em(before, [X], max_evaluations=3, tol=0).model.point()
    np.testing.assert_allclose(other.means, one.means, atol=1e-3)
    np.testing.assert_allclose(other.covariances, one.covariances, atol=1e-3)


# -- hidden Markov models: hmmlearn

PI, A = np.array([0.6, 0.4]), np.array([[0.8, 0.2], [0.3, 0.7]])


@pytest.mark.parametrize(("kind", "d"), [("full", 2), ("tied", 2), ("diag", 1), ("spherical", 1)])
def test_ten_iterations_with_gaussians_are_those_of_hmmlearn(kind, d):
    rng = np.random.default_rng(1)
    truth = HMM(PI, A, GaussianEmission(Gaussians([[0.0] * d, [3.0] * d], [np.eye(d)] * 2)))
    data = [truth.sample(n, rng)[0] for n in (60, 40, 1)]
    X = np.concatenate(data)
    prior = NormalInverseWishart(d + 1.0, 0.5 * np.eye(d), X.mean(0), 0.8)
    peer = VariationalGaussianHMM(2, kind, n_iter=10, tol=-np.inf, init_params="")
    peer.startprob_prior_ = peer.startprob_posterior_ = np.array([0.5, 0.5])
    peer.transmat_prior_, peer.transmat_posterior_ = np.full((2, 2), 0.5), 20 * A
    peer.means_prior_, peer.beta_prior_ = np.tile(prior.mean, (2, 1)), np.full(2, 0.8)
    peer.means_posterior_, peer.beta_posterior_ = np.array([[0.5] * d, [2.0] * d]), np.array([30.0, 20.0])
    shape = {
        "full": np.tile(np.eye(d), (2, 1, 1)),
        "tied": np.eye(d),
        "diag": np.ones((2, d)),
        "spherical": np.ones(2),
    }
    peer.dof_prior_, peer.scale_prior_ = np.full(2, d + 1.0), 0.5 * shape[kind]
    peer.dof_posterior_, peer.scale_posterior_ = np.array([30.0, 20.0]), 25.0 * shape[kind]
    if kind == "tied":
        peer.dof_prior_, peer.dof_posterior_ = d + 1.0, 50.0
    dof = np.full(2, 50.0) if kind == "tied" else np.array([30.0, 20.0])
    ours_kind = "diagonal" if kind == "diag" else kind
    start = VariationalHMM(
        Dirichlets([0.5, 0.5], [0.0, 0.0]), Dirichlets(np.full((2, 2), 0.5), 20 * A - 0.5),
        NormalWisharts(prior, peer.means_posterior_, [30.0, 20.0], dof, 25.0 * shape[kind], ours_kind),
    )  # fmt: skip
    peer.fit(X, [60, 40, 1])
    found = em(start, [data], max_evaluations=10, tol=0, slack=1e-12)
    model = found.model
    np.testing.assert_allclose(model.transition.concentration, peer.transmat_posterior_, rtol=1e-8)
    np.testing.assert_allclose(model.initial.concentration, peer.startprob_posterior_, rtol=1e-8)
    np.testing.assert_allclose(model.emission.means, peer.means_posterior_, rtol=1e-8, atol=1e-9)
    np.testing.assert_allclose(model.emission.scale, peer.scale_posterior_, rtol=1e-8, atol=1e-8)
    constant = 0.5 * d * len(X) * np.log(2 * np.pi)  # which hmmlearn leaves out
    np.testing.assert_allclose(found.path()[:-1] + constant, list(peer.monitor_.history)[-10:], rtol=1e-8)
    np.testing.assert_array_equal(model.point().viterbi(data[0])[0], peer.predict(data[0]))


def test_ten_iterations_with_symbols_are_those_of_hmmlearn():
    rng = np.random.default_rng(2)
    B = np.array([[0.7, 0.2, 0.1], [0.1, 0.2, 0.7]])
    truth = HMM(PI, A, CategoricalEmission(B))
    data = [truth.sample(n, rng)[0] for n in (80, 40)]
    peer = VariationalCategoricalHMM(2, n_iter=10, tol=-np.inf, init_params="", n_features=3)
    peer.startprob_prior_, peer.startprob_posterior_ = np.full(2, 0.5), np.array([1.5, 1.0])
    peer.transmat_prior_, peer.transmat_posterior_ = np.full((2, 2), 0.5), 30 * A
    peer.emissionprob_prior_, peer.emissionprob_posterior_ = np.full((2, 3), 1 / 3), 50 * B
    start = VariationalHMM(
        Dirichlets([0.5, 0.5], [1.0, 0.5]), Dirichlets(np.full((2, 2), 0.5), 30 * A - 0.5),
        DirichletEmission(Dirichlets(np.full((2, 3), 1 / 3), 50 * B - 1 / 3), truth.emission),
    )  # fmt: skip
    peer.fit(np.concatenate(data)[:, None], [80, 40])
    found = em(start, [data], max_evaluations=10, tol=0, slack=1e-12)
    np.testing.assert_allclose(found.model.transition.concentration, peer.transmat_posterior_, rtol=1e-8)
    np.testing.assert_allclose(
        found.model.emission.table.concentration, peer.emissionprob_posterior_, rtol=1e-8
    )
    np.testing.assert_allclose(found.path()[:-1], list(peer.monitor_.history)[-10:], rtol=1e-8)


# -- hidden Markov models: limits


EMISSIONS = {
    "gaussian": (
        GaussianEmission(Gaussians([[0.0], [3.0]], np.ones((2, 1, 1)))),
        NormalInverseWishart(2.0, [[1.0]], [1.0], 0.5),
    ),
    "symbols": (CategoricalEmission([[0.7, 0.3], [0.2, 0.8]]), 0.5),
    "kinds": (MultinomialEmission([[0.7, 0.3], [0.2, 0.8]], trials=4), 0.5),
    "counts": (PoissonEmission([[1.0], [5.0]]), Gamma(1.0, 0.3)),
}  # fmt: skip


@pytest.mark.parametrize("name", EMISSIONS)
def test_equal_rows_make_a_mixture_and_the_bound_never_falls(name):
    emission, prior = EMISSIONS[name]
    truth = HMM(PI, A, emission)
    data = [truth.sample(n, np.random.default_rng(n))[0] for n in (25, 14, 1)]
    start = VariationalHMM.around(truth, data, prior)
    found = em(start, [data], max_evaluations=40, tol=0, slack=1e-12)  # raises where the bound falls
    assert found.path()[-1] > found.path()[0]
    parts = start.expect(data[:1]) + start.expect(data[1:])
    assert parts.log_likelihood == pytest.approx(start.expect(data).log_likelihood, rel=1e-12)
    # without transitions it is a mixture, whose log normalisers are sums over rows
    single = [row[None] for part in data for row in part]
    joint = start.initial.expected_log()[:, None] + start.emission.log_prob(np.concatenate(data))
    assert start.expect(single).log_likelihood == pytest.approx(
        np.logaddexp.reduce(joint, 0).sum(), rel=1e-12
    )


def test_impossible_transitions_stay_so():
    emission, prior = EMISSIONS["gaussian"]
    truth = HMM([1.0, 0.0], [[0.9, 0.1], [0.0, 1.0]], emission)
    data = [truth.sample(30, np.random.default_rng(i))[0] for i in range(3)]
    point = em(VariationalHMM.around(truth, data, prior), [data], max_evaluations=10, tol=0).model.point()
    assert point.transition[1, 0] == 0 and point.initial[1] == 0


def test_a_posterior_of_counts_is_the_gamma():
    emission = GammaEmission(Gamma(2.0, 1.0), np.array([[[10.0]], [[4.0]]]))
    assert emission.point().means[0, 0] == pytest.approx(12 / 5)
    rate = np.random.default_rng(0).gamma(12.0, 1 / 5.0, 200000)
    expected = 3 * np.log(rate) - rate - np.log(6)
    assert emission.log_prob(np.array([[3.0]]))[0, 0] == pytest.approx(expected.mean(), abs=2e-3)


def test_wrong_priors_are_refused_in_words():
    with pytest.raises(ValueError, match="concentrations of a Dirichlet"):
        Dirichlets([0.0, 0.0], [1.0, 1.0])
    with pytest.raises(ValueError, match="concentration of a Dirichlet process"):
        Sticks(0.0, np.zeros(2))
    with pytest.raises(ValueError, match="the mean of a prior in 2 dimensions"):
        NormalInverseWishart(2.0, np.eye(2), [0.0], 1.0)
