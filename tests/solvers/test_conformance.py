"""Every solver says what one Gaussian integral says, and pulls every cotangent back right. GPML 2.2-2.7, 5.4,
5.9.
"""

import importlib
import inspect

import numpy as np
import pytest

import mercer as mc
from mercer import kernels as k
from mercer import means
from mercer.inputs import as_inputs
from mercer.solvers import Dense, Sites, SolverError, WeightSpace, WithBasis, by_name
from mercer.solvers.protocol import PULLS, AbstractState

from .conformance import (
    CASES,
    FINITE,
    FULL,
    KINDS,
    MEAN,
    VAGUE,
    N,
    assert_draws,
    assert_pullback,
    assert_sum_of_parts,
    bars_of,
    found_cotangents,
    problem,
    reference,
    sites,
)

SLOW = {"basis-dense-jax", "basis-weight-space-gaussian"}
each = pytest.mark.parametrize(
    "case",
    [pytest.param(case, marks=[pytest.mark.slow] if case.name in SLOW else []) for case in CASES],
    ids=[case.name for case in CASES],
)
kinds = pytest.mark.parametrize("kind", KINDS)
close = dict(rtol=1e-10, atol=1e-11)

X, XS = problem()
V = np.random.default_rng(5).normal(size=(N, 3))


def factor(case, kind):
    return case.solver.factor(bound(case.gp), X, sites(kind))


def bound(gp, X=X):
    return gp.bind(as_inputs(X))


# ------------------------------------------------------------------------------------------------- items 1-4,
# 6


@kinds
@each
def test_log_normaliser(case, kind):
    """Item 1: the log of the integral of prior times sites."""
    state = factor(case, kind)
    assert state.log_normaliser == pytest.approx(
        reference(case.gp, X, sites(kind))["log_normaliser"], rel=1e-10, abs=1e-10
    )
    assert state.jitter == 0.0


@kinds
@each
def test_marginals(case, kind):
    """Item 2: posterior mean and variance of f at the data; the site sees the same in an exact solver."""
    state, expected = factor(case, kind), reference(case.gp, X, sites(kind))
    for mean, variance in (state.marginals(), state.site_marginals()):
        assert mean.shape == variance.shape == (N, 1)
        np.testing.assert_allclose(mean[:, 0], expected["mean"], **close)
        np.testing.assert_allclose(variance[:, 0], expected["var"], **close)


@kinds
@each
def test_dual(case, kind):
    """Item 3: alpha = R(z - m) and kappa = diag R."""
    state, expected = factor(case, kind), reference(case.gp, X, sites(kind))
    alpha, kappa = state.dual()
    assert alpha.shape == kappa.shape == (N, 1)
    np.testing.assert_allclose(alpha[:, 0], expected["alpha"], rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(kappa[:, 0], expected["kappa"], rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(np.asarray(state.alpha), alpha[:, 0], rtol=1e-14)


@kinds
@each
def test_apply_and_cross(case, kind):
    """Item 4: R V, K V and K(Xs, X) V (which a prior with basis functions of vague weight does not have)."""
    state = factor(case, kind)
    np.testing.assert_allclose(
        state.apply(V), reference(case.gp, X, sites(kind), V=V)["apply"], rtol=1e-9, atol=1e-9
    )
    basis = case.gp.basis
    if basis is not None and basis.covariance is None:
        for ask in (lambda: state.times_K(V), lambda: state.cross(XS, V)):
            with pytest.raises(SolverError, match="no finite covariance"):
                ask()
        return
    K, K_test = case.gp.kernel(X), case.gp.kernel(XS, X)
    if basis is not None:
        H, H_test = (np.asarray(basis.features(x)) for x in (X, XS))
        B = np.diag(np.asarray(basis.covariance))
        K, K_test = K + H @ B @ H.T, K_test + H_test @ B @ H.T
    np.testing.assert_allclose(state.times_K(V), K @ V, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(state.cross(XS, V), K_test @ V, rtol=1e-12, atol=1e-12)


@kinds
@each
def test_predict(case, kind):
    """Item 6: mean, variances and covariance at new inputs; asking for less changes nothing."""
    state, expected = factor(case, kind), reference(case.gp, X, sites(kind), XS)
    mean, covariance = state.predict(XS, full=True)
    np.testing.assert_allclose(mean[:, 0], expected["test_mean"], **close)
    np.testing.assert_allclose(covariance, expected["test_covariance"], **close)
    mean, variance = state.predict(XS)
    assert mean.shape == variance.shape == (len(XS), 1)
    np.testing.assert_allclose(mean[:, 0], expected["test_mean"], **close)
    np.testing.assert_allclose(variance[:, 0], np.diag(expected["test_covariance"]), **close)
    mean, nothing = state.predict(XS, variance=False)
    assert nothing is None
    np.testing.assert_allclose(mean[:, 0], expected["test_mean"], **close)
    # at the data, predictions are the marginals
    for a, b in zip(state.predict(X), state.marginals(), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-11)


@each
def test_sample(case):
    """Item 7: joint draws have the posterior's mean and covariance (within five standard errors),
    and follow the seed.
    """
    assert_draws(factor(case, "general"), reference(case.gp, X, sites("general"), XS), XS)


# ------------------------------------------------------------------------------------------------- item 5

BARS = bars_of(V)


@pytest.mark.parametrize("kind", ["per-datum", "general"])
@pytest.mark.parametrize("quantity", list(BARS))
@each
def test_pullback(case, quantity, kind):
    """Item 5: each bar against central differences of the reference: kernel, mean, centre, precision, slope,
    inputs; or refused, as the State declares.
    """
    bar = told(kind) * BARS["mean"] if quantity == "mean" and case.gp.basis is not None else BARS[quantity]
    assert_pullback(factor(case, kind), case.gp, X, sites(kind), quantity, bar)


def told(kind):
    """One where a site says something: with basis functions, means elsewhere have no derivative."""
    return (sites(kind).precision[:, 0] > 0).astype(float)


def test_means_at_silent_sites_have_no_derivative_with_basis_functions():
    case = next(case for case in CASES if case.gp.basis is not None)
    with pytest.raises(SolverError, match="a datum whose site says nothing has no derivative"):
        factor(case, "general").pullback(mean_bar=BARS["mean"])


@each
def test_joint_pullback_is_the_sum(case):
    """Item 5: one joint pass, which may overwrite the factor, gives the sum of the separate ones."""
    pulls = factor(case, "general").pulls
    bars = {
        name: bar for name, bar in (BARS | {"mean": told("general") * BARS["mean"]}).items() if name in pulls
    }
    for consume in (False, True):
        assert_sum_of_parts(lambda **bars: factor(case, "general").pullback(**bars), bars, consume=consume)


def test_every_state_declares_what_it_pulls_back():
    """A set of known names on every final State, or on what it is composed of; all pull the evidence back."""
    for module in ("basis", "committee", "coupled", "dense_jax", "iterative", "kronecker", "lowrank_state"):
        importlib.import_module(f"mercer.solvers.{module}")
    for module in ("markov", "outputs", "random_features", "single", "sparse", "toeplitz", "vecchia"):
        importlib.import_module(f"mercer.solvers.{module}")
    final = [cls for cls in descendants(AbstractState) if not inspect.isabstract(cls)]
    final = [cls for cls in final if cls.__module__.startswith("mercer.solvers.")]
    assert len(final) >= 16 and not any(cls.__subclasses__() for cls in final)
    for cls in final:
        if not isinstance(cls.pulls, property):
            assert {"log_normaliser"} <= cls.pulls <= set(PULLS), cls


def descendants(cls):
    return [cls, *(leaf for child in cls.__subclasses__() for leaf in descendants(child))]


def test_a_spent_state_says_so():
    """pullback(consume=True) may spend the State; what it still knows stays,
    the rest asks to factor again.
    """
    state = factor(CASES[0], "noise")
    value = state.log_normaliser
    state.pullback(1.0, consume=True)
    assert state.log_normaliser == value
    for ask in (lambda: state.predict(XS), lambda: state.apply(V), lambda: state.pullback(1.0)):
        with pytest.raises(RuntimeError, match="spent"):
            ask()


# ------------------------------------------------------------------------------------------------- across
# solvers and tiles


@pytest.mark.slow
@pytest.mark.parametrize("n", [70, 257])
def test_solvers_agree_across_tiles(n):
    """LAPACK by tiles, pure JAX and the weight space agree on everything at sizes that need several tiles and
    buckets.
    """
    X, XS = problem(n, 5)
    given = sites("general", n)
    rng = np.random.default_rng(8)
    bars = dict(
        log_normaliser_bar=1.3,
        mean_bar=rng.normal(size=n),
        var_bar=rng.normal(size=n),
        alpha_bar=rng.normal(size=n),
        kappa_bar=rng.normal(size=n),
        apply_bar=(rng.normal(size=(n, 2)), rng.normal(size=(n, 2))),
    )
    for kernel, pair in [(FULL, (Dense("jax"), Dense("lapack"))), (FINITE, (WeightSpace(), Dense("lapack")))]:
        gp = mc.GP(kernel, MEAN).bind(as_inputs(X))
        first, second = (solver.factor(gp, X, given) for solver in pair)
        assert first.log_normaliser == pytest.approx(second.log_normaliser, rel=1e-10)
        for a, b in zip(first.predict(XS, full=True), second.predict(XS, full=True), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-8, atol=1e-9)
        inputs = kernel is FULL
        left, right = (found_cotangents(state.pullback(**bars, inputs=inputs)) for state in (first, second))
        assert sorted(left) == sorted(right)
        for name in left:
            scale = np.abs(left[name]).max()
            np.testing.assert_allclose(right[name], left[name], rtol=1e-7, atol=1e-8 * scale, err_msg=name)


def test_evidence_across_tiles():
    """The log normaliser and its derivatives at two tiles of 256 against the reference."""
    n = 300
    X, _ = problem(n)
    given, gp = sites("per-datum", n), mc.GP(FULL, MEAN).bind(as_inputs(X))
    state = Dense("lapack").factor(gp, X, given)
    expected = reference(gp, X, given)
    assert state.log_normaliser == pytest.approx(expected["log_normaliser"], rel=1e-11)
    found = found_cotangents(state.pullback(1.0))
    for name, moved in [
        ("kernel.terms.0.variance", "variance"),
        ("kernel.terms.0.lengthscale", "lengthscale"),
    ]:
        value = np.asarray(getattr(FULL.terms[0], moved))
        for index in np.ndindex(value.shape):
            ends = []
            for sign in (1, -1):
                new = value.copy()
                new[index] += sign * 1e-4
                kernel = k.Sum((FULL.terms[0].with_values(**{moved: new}), FULL.terms[1]))
                ends.append(reference(mc.GP(kernel, MEAN), X, given)["log_normaliser"])
            assert found[name][index] == pytest.approx((ends[0] - ends[1]) / 2e-4, rel=1e-6)


def test_a_workspace_is_reused():
    """Factoring again with one workspace gives the same answers as afresh,
    for new hyperparameters and sites.
    """
    gp = bound(mc.GP(FULL, MEAN))
    for solver, kernel in [
        (Dense("lapack"), FULL),
        (WeightSpace(), FINITE),
        (WithBasis(Dense("lapack")), FULL),
    ]:
        gp = bound(mc.GP(kernel, MEAN, VAGUE if isinstance(solver, WithBasis) else None))
        workspace = solver.workspace(gp, X)
        for kind in KINDS:
            again, afresh = solver.factor(gp, X, sites(kind), workspace), solver.factor(gp, X, sites(kind))
            assert again.log_normaliser == afresh.log_normaliser
            np.testing.assert_array_equal(again.predict(XS)[1], afresh.predict(XS)[1])


def test_huge_precision_keeps_its_digits():
    """Architecture 1: centred sites lose nothing at noise 1e-8 (the evidence against a solve in extended
    precision).
    """
    x = np.linspace(0, 3, 8)[:, None]
    y = np.sin(2 * x[:, 0])
    gp = mc.GP(k.Matern(0.5, nu=0.5)).bind(as_inputs(x))
    noise = 1e-8
    state = Dense("lapack").factor(gp, x, Sites(y[:, None], np.full((8, 1), 1 / noise)))
    Ky = gp.kernel(x) + noise * np.eye(8)
    found = state.log_normaliser + 0.5 * 8 * np.log(1 / noise)
    assert found == pytest.approx(
        -0.5 * y @ np.linalg.solve(Ky, y) - 0.5 * np.linalg.slogdet(Ky)[1], rel=1e-12
    )


# ------------------------------------------------------------------------------------------------- cost and
# errors


def test_cost():
    """Dense grows as n^3 and n^2 bytes, the weight space as n: figures, not promises."""
    dense, weights = Dense(), WeightSpace(rank=10)
    assert dense.cost(2000, 3).flops / dense.cost(1000, 3).flops == pytest.approx(8, rel=0.1)
    assert dense.cost(1000, 3).bytes == 8e6 and dense.cost(1000, 3, L=3).bytes == 24e6
    assert weights.cost(2000, 3).flops / weights.cost(1000, 3).flops == pytest.approx(2, rel=0.01)
    assert weights.cost(10_000, 3).flops < 1e-3 * dense.cost(10_000, 3).flops
    assert WithBasis(dense).cost(100, 2) == dense.cost(100, 2)


def test_offers():
    """What inference rules ask for is declared."""
    for case in CASES:
        assert {"variance", "logdet", "sample", "full"} <= case.solver.offers


def test_errors():
    """What a solver does not do: the message says what, and what to use instead."""
    gp = bound(mc.GP(FULL, MEAN))
    with pytest.raises(SolverError, match=r"weight-space.*finite rank.*Matern.*Use solver='dense'"):
        WeightSpace().factor(gp, X, sites("noise"))
    negative = Sites(np.zeros((N, 1)), -np.ones((N, 1)))
    with pytest.raises(SolverError, match=r"non-negative precision; backend='lapack' takes all"):
        Dense("jax").factor(gp, X, negative)
    bad = Sites(np.full((N, 1), np.nan), np.ones((N, 1)))
    for case in CASES:
        with pytest.raises(SolverError, match="not finite"):
            case.solver.factor(bound(case.gp), X, bad)
    with pytest.raises(ValueError, match=r"one shape \(n, L\)"):
        Sites(np.zeros((N, 1)), np.ones(N))
    with pytest.raises(ValueError, match=r"Dense\.backend must be"):
        Dense("cuda")
    with pytest.raises(SolverError, match=r"unknown solver 'fast'; there are .*dense"):
        by_name("fast")
    assert by_name(None) == by_name("dense") == Dense()


def test_dependent_basis_functions():
    """Under a vague prior, basis functions that are combinations of those before them are left out; a
    covariance settles their weights.
    """
    x = np.zeros((5, 1)) + 0.3
    twice = lambda X: np.hstack([X, 2 * X])  # noqa: E731
    given = Sites(np.arange(5.0)[:, None], np.ones((5, 1)))
    gp = mc.GP(k.SE(), basis=means.Features(twice))
    state = WithBasis(Dense()).factor(gp, x, given)
    once = WithBasis(Dense()).factor(mc.GP(k.SE(), basis=means.Features(lambda X: X)), x, given)
    assert state.log_normaliser == once.log_normaliser
    assert state.basis_weights().dropped == (1,) and state.basis_weights().mean[1] == 0.0
    gp = mc.GP(k.SE(), basis=means.Features(twice, covariance=1.0))
    assert np.isfinite(WithBasis(Dense()).factor(gp, x, given).log_normaliser)
