"""Vecchia's approximation: with all predecessors it is the exact answer,
with few the product of conditionals it says it is.
"""

import numpy as np
import pytest

import mercer as mc
from mercer import kernels as k
from mercer import means
from mercer.inputs import as_inputs
from mercer.linalg.neighbours import ORDERINGS, ordering, predecessors
from mercer.solvers import Dense, Sites, SolverError, Vecchia, WithBasis, by_name
from mercer.solvers.vecchia import reach

from .conformance import (
    FULL,
    MEAN,
    N,
    assert_pullback,
    bars_of,
    central,
    found_cotangents,
    problem,
    reference,
    sites,
)

X, XS = problem()
GP = mc.GP(FULL, MEAN).bind(as_inputs(X))
RNG = np.random.default_rng(6)
V = RNG.normal(size=(N, 3))
BARS = dict(
    log_normaliser_bar=1.7,
    alpha_bar=RNG.normal(size=N),
    kappa_bar=RNG.normal(size=N),
    apply_bar=(V, RNG.normal(size=V.shape)),
)
kinds = pytest.mark.parametrize("kind", ["noise", "per-datum"])


def surface(n, seed=0, noise=0.2):
    rng = np.random.default_rng(seed)
    x = rng.uniform(size=(n, 2))
    return x, np.sin(7 * x[:, 0]) * np.cos(5 * x[:, 1]) + noise * rng.normal(size=n)


# ------------------------------------------------------------------------------------------------- neighbours


@pytest.mark.parametrize("how", ORDERINGS)
@pytest.mark.parametrize(("n", "d", "neighbours"), [(5, 2, 4), (700, 2, 7), (600, 1, 5), (300, 3, 80)])
def test_predecessors_are_the_nearest(n, d, neighbours, how):
    """Against all distances, with coincident points: a permutation, and the nearest of those before,
    nearest first.
    """
    Z = np.random.default_rng(n).normal(size=(n, d))
    Z[n // 2 :: 50] = Z[0]
    order = ordering(Z, how, seed=1)
    np.testing.assert_array_equal(np.sort(order), np.arange(n))
    found, rank = predecessors(Z, order, neighbours), np.argsort(order)
    distances = np.linalg.norm(Z[:, None] - Z[None], axis=2)
    for i in range(n):
        before = np.flatnonzero(rank < rank[i])
        mine = found[i][found[i] >= 0]
        assert mine.size == min(neighbours, before.size) == np.unique(mine).size
        assert np.all(rank[mine] < rank[i])
        np.testing.assert_array_equal(distances[i, mine], np.sort(distances[i, before])[: mine.size])


def test_maximin_spreads_out():
    """The first points keep a distance, whatever their number; those of a shuffle do not."""
    Z = np.random.default_rng(0).uniform(size=(2000, 2))
    for m in (20, 80, 300, 1000):
        closest = {}
        for how in ("maximin", "random"):
            first = Z[ordering(Z, how)[:m]]
            D = np.linalg.norm(first[:, None] - first[None], axis=2)[np.triu_indices(m, 1)]
            closest[how] = D.min()
        assert closest["maximin"] > 2 * closest["random"]
    assert np.array_equal(ordering(Z, seed=3), ordering(Z, seed=3)) and not np.array_equal(
        ordering(Z, seed=3), ordering(Z, seed=4)
    )
    np.testing.assert_array_equal(np.sort(ordering(np.ones((7, 2)))), np.arange(7))


def test_reach():
    """An SE falls to one half at l sqrt(2 log 2); a column the kernel does not read reaches far;
    the units of X come out.
    """
    x = np.random.default_rng(0).uniform(size=(200, 3)) * [1.0, 1.0, 100.0]
    near, middle, far = reach(k.SE([0.1, 0.2]).on(0, 1).bind(3), x)
    assert near == pytest.approx(0.1 * np.sqrt(2 * np.log(2)), rel=0.15)
    assert middle == pytest.approx(0.2 * np.sqrt(2 * np.log(2)), rel=0.15)
    assert far > 100 * 100
    assert reach(k.SE(0.1).bind(1), np.ones((4, 1))) == 1.0


# ------------------------------------------------------------------------------------------------- all
# neighbours


@kinds
@pytest.mark.parametrize("how", ORDERINGS)
@pytest.mark.parametrize("neighbours", [N - 1, 40])
def test_all_neighbours_are_exact(neighbours, how, kind):
    state, expected = (
        Vecchia(neighbours, how).factor(GP, X, sites(kind)),
        reference(GP, X, sites(kind), XS, V),
    )
    close = dict(rtol=1e-10, atol=1e-11)
    assert state.log_normaliser == pytest.approx(expected["log_normaliser"], rel=1e-11)
    root = np.sqrt(sites(kind).precision[:, 0])
    B = np.eye(N) + root[:, None] * GP.kernel(X) * root
    assert 2 * np.sum(np.log(state.pivots)) == pytest.approx(np.linalg.slogdet(B)[1], rel=1e-11)
    assert state.jitter == 0.0
    np.testing.assert_allclose(state.alpha, expected["alpha"], **close)
    np.testing.assert_allclose(state.dual()[1][:, 0], expected["kappa"], **close)
    np.testing.assert_allclose(state.apply(V), expected["apply"], **close)
    np.testing.assert_allclose(state.cross(XS, V), GP.kernel(XS, X) @ V, **close)
    np.testing.assert_allclose(state.prior_mean()[:, 0], MEAN.value(X), **close)
    np.testing.assert_allclose(state.mean()[:, 0], expected["mean"], **close)
    np.testing.assert_allclose(state.marginals()[1][:, 0], expected["var"], **close)
    for full in (False, True):
        mean, second = state.predict(XS, full=full)
        np.testing.assert_allclose(mean[:, 0], expected["test_mean"], **close)
        np.testing.assert_allclose(
            second if full else np.diag(second[:, 0]),
            expected["test_covariance"] * (1.0 if full else np.eye(4)),
            **close,
        )
    assert state.predict(XS, variance=False)[1] is None


@kinds
@pytest.mark.parametrize("quantity", list(bars_of(V)))
def test_pullback_with_all_neighbours(quantity, kind):
    """Each bar against central differences of the exact answer: kernel, mean, centre, precision, inputs;
    those of means and variances are refused.
    """
    state = Vecchia(N).factor(GP, X, sites(kind))
    assert_pullback(state, mc.GP(FULL, MEAN), X, sites(kind), quantity, bars_of(V)[quantity])


def test_one_datum():
    x, given = X[:1], Sites(np.ones((1, 1)), np.full((1, 1), 2.0))
    state, exact = Vecchia().factor(GP, x, given), Dense().factor(GP, x, given)
    assert state.log_normaliser == pytest.approx(exact.log_normaliser, rel=1e-13)
    np.testing.assert_allclose(state.predict(XS)[1], exact.predict(XS)[1], rtol=1e-12)


# ------------------------------------------------------------------------------------------------- few
# neighbours


@pytest.mark.parametrize("n", [60, 300])
def test_the_density_is_the_product_of_conditionals(n):
    """log p(z) = sum_j log p(z_j | its neighbours), by plain conditioning;
    over one and over several chunks.
    """
    x, y = surface(n)
    noise = np.random.default_rng(1).uniform(0.01, 0.2, n)
    gp = mc.GP(k.Matern([0.4, 0.3], 1.2, nu=1.5), 0.3).bind(as_inputs(x))
    solver = Vecchia(6)
    workspace = solver.workspace(gp, x)
    state = solver.factor(gp, x, Sites(y[:, None], 1 / noise[:, None]), workspace)
    C, total = gp.kernel(x) + np.diag(noise), 0.0
    for index, present in zip(workspace.index, workspace.present, strict=True):
        j, near = index[-1], index[:-1][present[:-1]]
        weights = np.linalg.solve(C[np.ix_(near, near)], C[near, j])
        variance = C[j, j] - weights @ C[near, j]
        total -= 0.5 * (
            np.log(2 * np.pi * variance) + (y[j] - 0.3 - weights @ (y[near] - 0.3)) ** 2 / variance
        )
    density = state.log_normaliser - 0.5 * np.sum(np.log(2 * np.pi * noise))
    assert density == pytest.approx(total, rel=1e-11)
    # and it is the density of one Gaussian, whose inverse covariance is R
    R = state.apply(np.eye(n))
    np.testing.assert_allclose(R, R.T, rtol=1e-12, atol=1e-12 * np.abs(R).max())
    assert density == pytest.approx(
        0.5 * np.linalg.slogdet(R / (2 * np.pi))[1] - 0.5 * (y - 0.3) @ R @ (y - 0.3), rel=1e-11
    )
    np.testing.assert_allclose(state.alpha, R @ (y - 0.3), rtol=1e-9, atol=1e-10)
    np.testing.assert_allclose(state.dual()[1][:, 0], np.diag(R), rtol=1e-11)


def test_predictions_condition_on_the_nearest():
    """A prediction is the exact one from the nearest data; a joint covariance from the neighbours of all."""
    x, y = surface(150)
    gp = mc.GP(k.SE(0.3), 0.1).bind(as_inputs(x))
    given = Sites(y[:, None], np.full((150, 1), 25.0))
    state = Vecchia(8, test_neighbours=9).factor(gp, x, given)
    test = np.random.default_rng(2).uniform(size=(5, 2))
    near = np.argsort(np.linalg.norm((test[:, None] - x[None]) / state.workspace.unit, axis=2), 1)[:, :9]
    mean, variance = state.predict(test)
    for t in range(5):
        alone = Dense().factor(gp, x[near[t]], Sites(given.centre[near[t]], given.precision[near[t]]))
        for a, b in zip((mean[t], variance[t]), alone.predict(test[t : t + 1]), strict=True):
            np.testing.assert_allclose(a, b[0], rtol=1e-10)
    rows = np.unique(near)
    together = (
        Dense().factor(gp, x[rows], Sites(given.centre[rows], given.precision[rows])).predict(test, full=True)
    )
    joint = state.predict(test, full=True)
    for a, b in zip(joint, together, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-12)
    assert np.all(np.diag(joint[1]) <= variance[:, 0] + 1e-12)
    assert state.sample(0, test, 3).shape == (3, 5)


def test_pullback_with_few_neighbours():
    """All bars at once against central differences of the approximation itself."""
    solver, given = Vecchia(3), sites("per-datum")
    workspace = solver.workspace(GP, X)

    def scalar(gp=GP, given=given):
        state = solver.factor(gp, X, given, workspace)
        alpha, kappa = state.dual()
        applied = np.sum(BARS["apply_bar"][1] * state.apply(V))
        return (
            1.7 * state.log_normaliser
            + BARS["alpha_bar"] @ alpha[:, 0]
            + BARS["kappa_bar"] @ kappa[:, 0]
            + applied
        )

    found = solver.factor(GP, X, given, workspace).pullback(**BARS)
    c, W, matern = given.centre, given.precision, FULL.terms[0]

    def lengthscale(v):
        return mc.GP(k.Sum((matern.with_values(lengthscale=v), FULL.terms[1])), MEAN).bind(as_inputs(X))

    close = dict(rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(found.sites.centre, central(lambda v: scalar(given=Sites(v, W)), c), **close)
    np.testing.assert_allclose(
        found.sites.precision, central(lambda v: scalar(given=Sites(c, v)), W), **close
    )
    by_difference = central(lambda v: scalar(lengthscale(v)), matern.lengthscale)
    np.testing.assert_allclose(found.prior.kernel.terms[0].lengthscale, by_difference, **close)


def test_evidence_gradient():
    """mercer.log_evidence_and_gradient against central differences, over several chunks."""
    x, y = surface(300)

    def evidence(lengthscale, variance, noise):
        return mc.log_evidence(
            mc.GP(k.Matern(lengthscale, variance, nu=2.5)), x, y, noise, solver=Vecchia(5, "coordinate")
        )

    at = dict(lengthscale=np.array([0.5, 0.4]), variance=1.3, noise=0.05)
    gp = mc.GP(k.Matern(at["lengthscale"], 1.3, nu=2.5))
    value, gradient = mc.log_evidence_and_gradient(gp, x, y, 0.05, solver=Vecchia(5, "coordinate"))
    assert value == evidence(**at)
    named = {
        "kernel.lengthscale": "lengthscale",
        "kernel.variance": "variance",
        "likelihood.noise_variance": "noise",
    }
    assert sorted(gradient) == sorted(named)
    for name, moved in named.items():
        expected = central(lambda v, moved=moved: evidence(**(at | {moved: v})), at[moved], 1e-5)
        np.testing.assert_allclose(gradient[name], expected, rtol=2e-5, atol=1e-4, err_msg=name)


def test_a_markov_process_needs_one_neighbour():
    """An Ornstein-Uhlenbeck process seen (almost) without noise depends on its past through the last point
    alone.
    """
    x = np.sort(np.random.default_rng(0).uniform(0, 10, 80))[:, None]
    gp = mc.GP(k.Matern(2.0, 1.5, nu=0.5))
    y = gp.sample(x, seed=1)[0]
    exact = mc.log_evidence(gp, x, y, 1e-9)
    assert mc.log_evidence(gp, x, y, 1e-9, solver=Vecchia(1, "coordinate")) == pytest.approx(exact, abs=1e-5)
    assert abs(mc.log_evidence(gp, x, y, 1e-9, solver=Vecchia(1, "random")) - exact) > 1.0


def test_more_neighbours_are_nearer():
    """The expected log evidence under the exact model (a divergence) shrinks with k,
    and maximin needs fewest.
    """
    x, _ = surface(150)
    gp = mc.GP(k.Matern(0.3, nu=1.5)).bind(as_inputs(x))
    C = gp.kernel(x) + 0.05 * np.eye(150)

    def divergence(solver):
        R = solver.factor(gp, x, Sites(np.zeros((150, 1)), np.full((150, 1), 20.0))).apply(np.eye(150))
        return 0.5 * (np.trace(R @ C) - 150 - np.linalg.slogdet(R)[1] - np.linalg.slogdet(C)[1])

    found = [divergence(Vecchia(count)) for count in (3, 10, 60)]
    assert np.all(np.diff(found) < 0) and found[-1] < 0.02 * found[0] and found[-1] > 0
    assert divergence(Vecchia(10)) < divergence(Vecchia(10, "coordinate"))


# ------------------------------------------------------------------------------------------------- use


def test_with_basis():
    """Basis functions integrated out: with all neighbours as dense, with few close to it."""
    x, y = surface(60)
    gp, given = (
        mc.GP(k.SE(0.3), basis=means.Polynomial(1)).bind(as_inputs(x)),
        Sites(y[:, None], np.full((60, 1), 25.0)),
    )
    exact = WithBasis(Dense()).factor(gp, x, given)
    test = np.random.default_rng(2).uniform(size=(5, 2))
    for neighbours, tolerance in ((59, 1e-8), (30, 5e-2)):
        state = WithBasis(Vecchia(neighbours)).factor(gp, x, given)
        assert state.log_normaliser == pytest.approx(exact.log_normaliser, rel=tolerance)
        for a, b in zip(state.predict(test), exact.predict(test), strict=True):
            np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance)
    one, other = (
        found_cotangents(s.pullback(1.0)) for s in (WithBasis(Vecchia(59)).factor(gp, x, given), exact)
    )
    for name in other:
        np.testing.assert_allclose(one[name], other[name], rtol=1e-7, atol=1e-8, err_msg=name)


def test_regression():
    """Learned through the estimator, by the evidence and by leave-one-out; as good as dense on new data."""
    x, y = surface(250, noise=0.05)
    test, truth = surface(200, seed=1, noise=0.0)
    kernel = k.Matern([0.4, 0.4], nu=2.5)
    for objective in ("evidence", "loo"):
        found = [
            mc.GPRegressor(kernel, objective=objective, solver=s).fit(x, y) for s in ("dense", Vecchia(15))
        ]
        assert all(model.fit_.status.converged for model in found)
        error, noise = zip(*(_quality(model, test, truth) for model in found), strict=True)
        assert error[1] < 1.1 * error[0]
        assert noise[1] == pytest.approx(noise[0], rel=0.06)
        # two standard errors of a variance that 250 rows tell
        assert noise[0] == pytest.approx(0.05**2, rel=2 * np.sqrt(2 / 250))


def _quality(model, test, truth):
    return np.sqrt(np.mean((model.predict(test) - truth) ** 2)), model.noise_variance_


def test_a_workspace_is_reused():
    solver = Vecchia(3)
    workspace = solver.workspace(GP, X)
    other = solver.workspace(GP, X)
    other.share(workspace)
    assert other.index is workspace.index and other.memory is not workspace.memory
    workspace.hold(GP)
    for kind in ("noise", "per-datum"):
        again, afresh = solver.factor(GP, X, sites(kind), workspace), solver.factor(GP, X, sites(kind))
        assert again.log_normaliser == afresh.log_normaliser


def test_nearly_singular():
    """Duplicated rows almost without noise: jitter, reported; entries that are not finite:
    an error with the cause.
    """
    x = np.repeat(np.linspace(0, 1, 6), 2)[:, None]
    gp = mc.GP(k.SE(5.0)).bind(as_inputs(x))
    state = Vecchia(11).factor(gp, x, Sites(np.zeros((12, 1)), np.full((12, 1), 1e20)))
    assert state.jitter > 0 and np.isfinite(state.log_normaliser)
    with pytest.raises(np.linalg.LinAlgError, match="datum and its neighbours"), np.errstate(all="ignore"):
        Vecchia(3).factor(
            mc.GP(k.SE(1.0, 1e300)).bind(as_inputs(x)), x, Sites(np.zeros((12, 1)), np.full((12, 1), 1e20))
        )


def test_cost():
    """Linear in n, in time and memory."""
    solver = Vecchia(30)
    assert solver.cost(20_000, 2).flops == 2 * solver.cost(10_000, 2).flops
    assert solver.cost(20_000, 2).bytes == 2 * solver.cost(10_000, 2).bytes >= 20_000 * 31 * 8
    assert solver.cost(10**5, 2).flops < 1e-4 * Dense().cost(10**5, 2).flops


def test_errors():
    for wrong, said in (
        (dict(neighbours=0), "neighbours"),
        (dict(neighbours=2.5), "neighbours"),
        (dict(ordering="best"), "ordering"),
    ):
        with pytest.raises(ValueError, match=rf"Vecchia\.{said} must be"):
            Vecchia(**wrong)
    with pytest.raises(ValueError, match="ordering must be one of"):
        ordering(X, "best")
    with pytest.raises(SolverError, match=r"Gaussian noise at every datum.*FITC"):
        Vecchia().factor(GP, X, sites("general"))
    with pytest.raises(SolverError, match="Gaussian noise at every datum"):
        Vecchia().factor(GP, X, Sites(np.zeros((N, 1)), np.zeros((N, 1))))
    with pytest.raises(SolverError, match="one latent function"):
        Vecchia().workspace((GP, GP), X)
    with pytest.raises(SolverError, match=r"variance.*Vecchia does not offer"):
        mc.GPClassifier(solver=Vecchia()).fit(X, np.arange(N) % 2)
    with pytest.raises(
        SolverError, match=r"nearest neighbours, among numbers: X is not numeric \(found 'a'\).*'dense'"
    ):
        mc.GPRegressor(k.Categorical(), solver=Vecchia()).fit(np.array([["a"], ["b"]], object), [1.0, 2.0])
    assert by_name("vecchia") == Vecchia()


def test_a_joint_covariance_may_be_too_large(monkeypatch):
    monkeypatch.setattr("mercer.solvers.vecchia.FULL_ROWS", 4)
    with pytest.raises(SolverError, match=r"condition on \d+ data \(at most 4\)"):
        Vecchia(3).factor(GP, X, sites("noise")).predict(XS, full=True)
