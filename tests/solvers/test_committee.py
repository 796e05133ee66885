"""Committees: a block-diagonal posterior for learning, combined predictions. GPML 8.3.5, (8.28)-(8.31)."""

import jax
import numpy as np
import pytest

import mercer as mc
from mercer import kernels as k
from mercer import likelihoods, means
from mercer.inputs import as_inputs
from mercer.solvers import Committee, Dense, Sites, SolverError, by_name

from .conformance import (
    FULL,
    KINDS,
    MEAN,
    along,
    assert_cotangents,
    assert_sum_of_parts,
    bars_of,
    expected_cotangents,
    found_cotangents,
    problem,
    reference,
    sites,
)

GP = mc.GP(FULL, MEAN)
N = 11
X, XS = problem(N, 4)
BLOCKS = 3
RULES = ("bcm", "poe", "gpoe", "rbcm")
V = np.random.default_rng(7).normal(size=(N, 2))
BARS = bars_of(V)


def part(given: Sites, rows) -> Sites:
    return Sites(
        given.centre[rows], given.precision[rows], None if given.slope is None else given.slope[rows]
    )


def regression(n=40, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2, 2, size=(n, 2))
    return X, np.sin(2 * X[:, 0]) + 0.5 * X[:, 1] + 0.2 * rng.normal(size=n), rng.uniform(-2, 2, size=(6, 2))


# ------------------------------------------------------------------------------------------------- as a prior
# of blocks


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("split", ["k-means", "random"])
def test_views_are_those_of_a_block_diagonal_prior(kind, split):
    solver, given = Committee(BLOCKS, split=split), sites(kind, N)
    state = solver.factor(GP.bind(as_inputs(X)), X, given)
    inside = np.zeros((N, N), bool)
    for rows in solver.members(X):
        inside[np.ix_(rows, rows)] = True
    expected = reference(GP, X, given, V=V, K=np.where(inside, GP.kernel(X), 0.0))
    assert state.log_normaliser == pytest.approx(expected["log_normaliser"], rel=1e-10, abs=1e-10)
    for mean, variance in (state.marginals(), state.site_marginals()):
        np.testing.assert_allclose(mean[:, 0], expected["mean"], rtol=1e-9, atol=1e-10)
        np.testing.assert_allclose(variance[:, 0], expected["var"], rtol=1e-9, atol=1e-10)
    np.testing.assert_allclose(state.mean()[:, 0], expected["mean"], rtol=1e-9, atol=1e-10)
    alpha, kappa = state.dual()
    np.testing.assert_allclose(alpha[:, 0], expected["alpha"], rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(state.alpha, expected["alpha"], rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(kappa[:, 0], expected["kappa"], rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(state.apply(V), expected["apply"], rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(state.prior_mean()[:, 0], GP.mean.value(X), rtol=1e-14)


@pytest.mark.parametrize("quantity", list(BARS))
def test_pullback_is_the_sum_over_blocks(quantity):
    """Each bar against central differences of the reference, block by block: kernel, mean,
    sites and inputs.
    """
    solver, given = Committee(BLOCKS), sites("general", N)
    state = solver.factor(GP.bind(as_inputs(X)), X, given)
    found = found_cotangents(state.pullback(**{f"{quantity}_bar": BARS[quantity]}, inputs=True))
    for name in ("kernel", "mean"):
        assert any(key.startswith(name) for key in found)
    total: dict[str, np.ndarray] = {}
    for rows in solver.members(X):
        bar = jax.tree.map(lambda a, rows=rows: a[rows] if np.ndim(a) else a, BARS[quantity])
        for name, value in expected_cotangents(
            GP, X[rows], part(given, rows), along(quantity, bar), inputs=True
        ).items():
            if name in ("centre", "precision", "slope", "inputs"):
                total.setdefault(name, np.zeros(found[name].shape))[rows] = value
            else:
                total[name] = total.get(name, 0.0) + value
    assert_cotangents(found, total)


def test_joint_pullback_and_workspace():
    """One pass that spends the State gives the sum of separate ones; a workspace is reused for new sites."""
    solver, prior = Committee(BLOCKS), GP.bind(as_inputs(X))
    workspace = solver.workspace(prior, X)
    workspace.hold(prior)
    fresh = lambda: solver.factor(prior, X, sites("general", N), workspace)  # noqa: E731
    assert_sum_of_parts(lambda **bars: fresh().pullback(**bars), BARS, consume=True)
    for kind in KINDS:
        again, afresh = (
            solver.factor(prior, X, sites(kind, N), workspace),
            solver.factor(prior, X, sites(kind, N)),
        )
        assert again.log_normaliser == pytest.approx(afresh.log_normaliser, rel=1e-13)


# -------------------------------------------------------------------------------------------------
# predictions


@pytest.mark.parametrize("combine", RULES)
def test_one_block_is_exact(combine):
    """p = 1: every rule is the exact GP (SP13)."""
    prior, given = GP.bind(as_inputs(X)), sites("general", N)
    one, dense = (s.factor(prior, X, given) for s in (Committee(1, combine=combine, query=2), Dense()))
    assert one.log_normaliser == pytest.approx(dense.log_normaliser, rel=1e-13)
    for full in (False, True):
        for a, b in zip(one.predict(XS, full=full), dense.predict(XS, full=full), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-13)
    assert one.predict(XS, variance=False)[1] is None


def direct(combine, prior, prior_mean, members):
    """The rules by inverses, as they are written."""
    K1 = np.linalg.inv(prior)
    inverses = [np.linalg.inv(C) for _, C in members]
    gains = np.array([0.5 * (np.linalg.slogdet(prior)[1] - np.linalg.slogdet(C)[1]) for _, C in members])
    p = len(members)
    b, b0 = {
        "poe": (np.ones(p), 0.0),
        "gpoe": (gains / gains.sum(), 0.0),
        "bcm": (np.ones(p), 1.0 - p),
        "rbcm": (gains / len(prior), 1.0 - gains.sum() / len(prior)),
    }[combine]
    precision = sum(w * C for w, C in zip(b, inverses, strict=True)) + b0 * K1
    h = sum(w * C @ mean for w, C, (mean, _) in zip(b, inverses, members, strict=True)) + b0 * K1 @ prior_mean
    return np.linalg.solve(precision, h), np.linalg.inv(precision)


@pytest.mark.parametrize("combine", RULES)
def test_the_rules(combine):
    """(8.29)-(8.30) and their relatives by explicit inverses: jointly, in queries, and one by one."""
    X, y, Xs = regression()
    gp, noise = mc.GP(k.Matern([1.0, 2.0], 1.3, nu=1.5), means.Constant(0.7)), 0.04
    base = Committee(4, combine=combine)
    posts = [gp.condition(X[rows], y[rows], noise) for rows in base.members(X)]

    def expected(Xs):
        members = [(p.mean(Xs), p.covariance(Xs, latent=True)) for p in posts]
        return direct(combine, gp.kernel(Xs), np.full(len(Xs), 0.7), members)

    def solved(query):
        return gp.condition(X, y, noise, solver=Committee(4, combine=combine, query=query)).state

    mean, covariance = expected(Xs)
    found = solved(1).predict(Xs, full=True)
    np.testing.assert_allclose(found[0][:, 0], mean, rtol=1e-9, atol=1e-10)
    np.testing.assert_allclose(found[1], covariance, rtol=1e-8, atol=1e-10)
    for query in (1, 4, 6, 100):
        found = solved(query).predict(Xs)
        for i in range(0, len(Xs), query):
            mean, covariance = expected(Xs[i : i + query])
            np.testing.assert_allclose(found[0][i : i + query, 0], mean, rtol=1e-9, atol=1e-10)
            np.testing.assert_allclose(found[1][i : i + query, 0], np.diag(covariance), rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("blocks", [2, 5])
@pytest.mark.parametrize("split", ["k-means", "random"])
def test_bcm_is_exact_when_the_query_holds_the_data(blocks, split):
    """The query-set effect (Exercise 8.7.1): given f at all training inputs, blocks of y are independent."""
    X, y, Xs = regression()
    gp = mc.GP(k.Matern([1.0, 2.0], nu=1.5), means.Constant(0.7))
    exact, post = (
        gp.condition(X, y, 0.04),
        gp.condition(X, y, 0.04, solver=Committee(blocks, split=split, query=46)),
    )
    both = np.concatenate([Xs, X])
    np.testing.assert_allclose(post.mean(both), exact.mean(both), rtol=1e-9, atol=1e-10)
    np.testing.assert_allclose(post.variance(both), exact.variance(both), rtol=1e-9)
    np.testing.assert_allclose(post.covariance(both), exact.covariance(both), rtol=1e-8, atol=1e-10)
    alone = gp.condition(X, y, 0.04, solver=Committee(blocks, split=split))
    assert np.abs(alone.mean(both) - exact.mean(both)).max() > 1e-3


def test_large_queries_are_closer_to_the_truth():
    X, y, _ = regression(60)
    Xs = regression(200, 1)[0][:48]
    gp = mc.GP(k.SE([1.0, 2.0]))
    exact = gp.condition(X, y, 0.04)
    errors = []
    for query in (1, 48):
        post = gp.condition(X, y, 0.04, solver=Committee(4, split="random", query=query))
        errors.append(np.mean((post.mean(Xs) - exact.mean(Xs)) ** 2))
    assert errors[1] < 0.1 * errors[0]


def test_far_from_the_data():
    """Products of experts are p times too sure there; the others return to the prior."""
    X, y, _ = regression()
    far = np.array([[50.0, 50.0]])
    gp = mc.GP(k.SE(1.0, 2.0))
    for combine in RULES:
        post = gp.condition(X, y, 0.04, solver=Committee(4, combine=combine))
        assert post.variance(far, latent=True)[0] == pytest.approx(0.5 if combine == "poe" else 2.0, rel=1e-9)
        assert abs(post.mean(far)[0]) < 1e-9


def test_no_prior_variance_and_no_noise():
    """A test input that the prior knows for certain, and one that coincides with a datum without noise."""
    X, y, _ = regression(12)
    post = mc.GP(k.Linear(1.0)).condition(X, y, 0.04, solver=Committee(2))
    mean, variance = post.latent_moments(np.array([[0.0, 0.0], [1.0, 0.0]]))
    assert abs(mean[0]) < 1e-6 and variance[0] < 1e-9 and variance[1] > 1e-4
    post = mc.GP(k.SE([1.0, 2.0])).condition(X, y, 0.0, solver=Committee(2))
    np.testing.assert_allclose(post.mean(X), y, atol=1e-4)
    assert np.all(post.variance(X, latent=True) < 1e-6)


def test_draws():
    """Joint draws have the mean and covariance of the joint query."""
    X, y, Xs = regression()
    post = mc.GP(k.Matern(1.0, nu=1.5)).condition(X, y, 0.04, solver=Committee(3))
    draws = post.sample(Xs, 20_000, seed=0, latent=True)
    covariance = post.covariance(Xs, latent=True)
    scale = np.sqrt(np.diag(covariance))
    mean = post.state.predict(Xs, full=True)[0][:, 0]
    assert np.all(np.abs(draws.mean(0) - mean) < 5 * scale / np.sqrt(20_000))
    assert np.all(np.abs(np.cov(draws.T) - covariance) < 5 * np.sqrt(2 / 20_000) * np.outer(scale, scale))


# ------------------------------------------------------------------------------------------------- rules and
# learning


@pytest.mark.parametrize("inference", ["laplace", "ep"])
def test_classification(inference):
    """Each block finds its own sites; the latent predictions are combined and then squashed (SP18)."""
    X, y, Xs = regression(30)
    y = np.where(y > 0, 1, -1)
    model = mc.Model(mc.GP(k.SE([1.0, 2.0], 2.0)), likelihoods.Bernoulli())
    dense = model.condition(X, y, inference)
    one = model.condition(X, y, inference, Committee(1))
    assert one.log_evidence == pytest.approx(dense.log_evidence, rel=1e-9)
    np.testing.assert_allclose(one.probability(Xs), dense.probability(Xs), rtol=1e-8)

    solver = Committee(3)
    post = model.condition(X, y, inference, solver)
    parts = [model.condition(X[rows], y[rows], inference) for rows in solver.members(X)]
    assert post.log_evidence == pytest.approx(sum(p.log_evidence for p in parts), rel=1e-7)
    prior = 2.0
    moments = [p.latent_moments(Xs) for p in parts]
    precision = sum(1 / v for _, v in moments) - 2 / prior
    mean = sum(m / v for m, v in moments) / precision
    np.testing.assert_allclose(post.latent_moments(Xs)[0], mean, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(
        post.probability(Xs), likelihoods.Bernoulli().probability(mean, 1 / precision), rtol=1e-5
    )


def test_several_latent_functions():
    """Softmax: blocks of L latent values at each test input are combined;
    one committee member is the dense answer.
    """
    X, y, Xs = regression(24)
    y = np.digitize(y, [-0.4, 0.5])
    model = mc.Model(mc.GP(k.SE(1.0, 1.5)), likelihoods.Softmax(3))
    dense, one = model.condition(X, y), model.condition(X, y, solver=Committee(1))
    np.testing.assert_allclose(one.probability(Xs), dense.probability(Xs), rtol=1e-8)
    solver = Committee(2)
    post = model.condition(X, y, solver=solver)
    parts = [model.condition(X[rows], y[rows]) for rows in solver.members(X)]
    assert post.log_evidence == pytest.approx(sum(p.log_evidence for p in parts), rel=1e-6)
    mean, covariance = post.latent_moments(Xs)
    for i in range(len(Xs)):
        members = [(p.latent_moments(Xs)[0][i], p.latent_moments(Xs)[1][i]) for p in parts]
        a, b = direct("bcm", 1.5 * np.eye(3), np.zeros(3), members)
        np.testing.assert_allclose(mean[i], a, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(covariance[i], b, rtol=1e-5, atol=1e-6)
    with pytest.raises(SolverError, match="one latent function"):
        post.state.predict(Xs, full=True)
    value, gradient = mc.log_evidence_and_gradient(model, X, y, solver=solver)
    both = [mc.log_evidence_and_gradient(model, X[rows], y[rows]) for rows in solver.members(X)]
    assert value == pytest.approx(sum(v for v, _ in both), rel=1e-6)
    for name in gradient:
        np.testing.assert_allclose(gradient[name], sum(g[name] for _, g in both), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    "likelihood", [likelihoods.Gaussian(0.05), likelihoods.Bernoulli()], ids=["exact", "ep"]
)
def test_gradient_of_the_evidence(likelihood):
    """Finite differences of (8.31) summed over blocks."""
    X, y, _ = regression(24)
    y = y if isinstance(likelihood, likelihoods.Gaussian) else np.sign(y)
    at = lambda ell: mc.Model(mc.GP(k.SE([ell, 2.0], 1.3)), likelihood)  # noqa: E731
    solver = Committee(size=9)
    _, gradient = mc.log_evidence_and_gradient(at(1.1), X, y, solver=solver)
    h = 1e-5
    slope = (
        mc.log_evidence(at(1.1 + h), X, y, solver=solver) - mc.log_evidence(at(1.1 - h), X, y, solver=solver)
    ) / (2 * h)
    assert gradient["kernel.lengthscale"][0] == pytest.approx(slope, rel=1e-5)


def test_fit():
    """Learned through the estimator, blocks stay what they are and predictions are nearly those of the dense
    solver.
    """
    X, y, Xs = regression(120)
    committee = mc.GPRegressor(solver=Committee(size=40, query=20)).fit(X, y)
    dense = mc.GPRegressor().fit(X, y)
    assert np.sqrt(np.mean((committee.predict(Xs) - dense.predict(Xs)) ** 2)) < 0.15 * y.std()


# ------------------------------------------------------------------------------------------------- blocks and
# errors


@pytest.mark.parametrize("split", ["k-means", "random"])
@pytest.mark.parametrize(
    ("n", "blocks", "size"), [(50, 7, 1000), (50, None, 20), (5, 5, 1000), (9, 1, 1000), (128, None, 32)]
)
def test_blocks(split, n, blocks, size):
    """Every datum once, sizes equal up to one, the same blocks every time."""
    X = np.random.default_rng(0).normal(size=(n, 3))
    solver = Committee(blocks, size, split)
    rows = solver.members(X)
    np.testing.assert_array_equal(np.sort(np.concatenate(rows)), np.arange(n))
    sizes = [len(r) for r in rows]
    assert len(rows) == (blocks or -(-n // size))
    assert max(sizes) - min(sizes) <= 1 and max(sizes) <= size
    for a, b in zip(rows, solver.members(X), strict=True):
        np.testing.assert_array_equal(a, b)


def test_clusters_are_compact():
    """Two clouds are told apart; coinciding inputs do no harm."""
    X = np.concatenate([np.zeros((10, 2)), np.full((10, 2), 9.0)])[np.random.default_rng(0).permutation(20)]
    for rows in Committee(2).members(X):
        assert np.ptp(X[rows, 0]) == 0
    assert sorted(map(len, Committee(4).members(np.zeros((8, 1))))) == [2, 2, 2, 2]


def test_cost_and_offers():
    small, large = Committee(size=100).cost(1000, 2), Committee(size=100).cost(2000, 2)
    assert large.flops == 2 * small.flops and large.bytes == 2 * small.bytes == 2 * 8 * 1000 * 100
    assert Committee().offers == {"variance", "logdet", "sample", "blocks", "indefinite"}
    assert isinstance(by_name("committee"), Committee)


def test_errors():
    for bad, match in [
        (dict(split="tree"), r"unknown Committee.split 'tree'; there are \['k-means', 'random'\]"),
        (dict(split="kmeans"), "did you mean 'k-means'"),
        (dict(combine="vote"), "unknown Committee.combine 'vote'"),
        (dict(blocks=0), "blocks must be 1"),
        (dict(size=0), "size must be 1"),
        (dict(query=0), "query must be 1"),
    ]:
        with pytest.raises(ValueError, match=match):
            Committee(**bad)
    X, y, Xs = regression(6)
    with pytest.raises(SolverError, match="would leave some empty: ask for at most 6"):
        mc.GP(k.SE()).condition(X, y, 0.1, solver=Committee(7))
    with pytest.raises(SolverError, match="Linear kernel"):
        mc.GP(k.SE(), basis=means.Polynomial(1)).condition(X, y, 0.1, solver=Committee(1)).mean(Xs)
    texts = np.array([["ab"], ["cd"], ["ae"]], dtype=object)
    with pytest.raises(SolverError, match="numeric inputs"):
        Committee(2).members(texts)
    assert len(Committee(2, split="random").members(texts)) == 2


def test_duplicated_test_inputs():
    """Coinciding inputs in one query need jitter and nothing else."""
    X, y, Xs = regression()
    post = mc.GP(k.SE([1.0, 2.0])).condition(X, y, 0.04, solver=Committee(3, query=12))
    twice = np.repeat(Xs, 2, 0)
    once = mc.GP(k.SE([1.0, 2.0])).condition(X, y, 0.04, solver=Committee(3, query=6)).latent_moments(Xs)
    for a, b in zip(post.latent_moments(twice), once, strict=True):
        np.testing.assert_allclose(a[::2], b, rtol=1e-3, atol=1e-4)
