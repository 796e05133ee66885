"""Conjugate gradients (SP14) against the reference integral,
and their estimates against their own standard errors.
"""

import tracemalloc

import numpy as np
import pytest

import mercer as mc
from mercer import kernels as k
from mercer import means
from mercer.inputs import as_inputs
from mercer.solvers import ConjugateGradient, Dense, Sites, SolverError, WithBasis

from .conformance import (
    FULL,
    KINDS,
    MEAN,
    VAGUE,
    N,
    assert_pullback,
    assert_views,
    bars_of,
    found_cotangents,
    problem,
    reference,
    sites,
)

X, XS = problem()
GP = mc.GP(FULL, MEAN)
V = np.random.default_rng(5).normal(size=(N, 40))  # more than one block
close = dict(rtol=1e-9, atol=1e-10)
kinds = pytest.mark.parametrize("kind", KINDS)


def state_of(kind, solver=None, gp=GP):
    return (solver or ConjugateGradient(tol=1e-13)).factor(gp.bind(as_inputs(X)), X, sites(kind))


def large(n=300, noise=0.05, seed=0):
    """A smooth problem that a preconditioner of rank 20 does not solve."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2, 2, size=(n, 2))
    y = np.sin(2 * X[:, 0]) * X[:, 1] + np.sqrt(noise) * rng.normal(size=n)
    prior = mc.GP(k.Matern([0.7, 1.1], 1.3, nu=1.5)).bind(as_inputs(X))
    return prior, X, Sites(y[:, None], np.full((n, 1), 1 / noise))


# ------------------------------------------------------------------------------------------------- exact
# things


@kinds
def test_with_a_full_preconditioner_all_is_exact(kind):
    """rank = n: P = B, so the log-determinant has no error left either."""
    state, expected = state_of(kind), reference(GP, X, sites(kind), XS, V)
    assert state.log_normaliser == pytest.approx(expected["log_normaliser"], rel=1e-10)
    assert state.logdet_error < 1e-10
    assert_views(state, expected, XS, V, **close)
    np.testing.assert_allclose(state.cross(XS, V), FULL(XS, X) @ V, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(state.times_K(V), FULL(X) @ V, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("quantity", list(bars_of(V)))
@pytest.mark.parametrize("kind", ["per-datum", "general"])
def test_pullback(kind, quantity):
    """Every bar it declares against central differences of the reference; the others are refused."""
    assert_pullback(state_of(kind), GP, X, sites(kind), quantity, bars_of(V)[quantity])


def test_solutions_meet_the_tolerance():
    """R V equals Cholesky's to the tolerance, with or without a preconditioner, which saves iterations."""
    prior, X, s = large(160)
    rng = np.random.default_rng(1)
    V, Xs = rng.normal(size=(len(X), 3)), rng.uniform(-2, 2, size=(40, 2))
    dense = Dense().factor(prior, X, s)
    counts = []
    for rank in (0, 20, 100):
        state = ConjugateGradient(rank=rank, tol=1e-10).factor(prior, X, s)
        np.testing.assert_allclose(
            state.apply(V), dense.apply(V), rtol=0, atol=1e-7 * np.abs(dense.apply(V)).max()
        )
        np.testing.assert_allclose(state.alpha, dense.alpha, rtol=0, atol=1e-7 * np.abs(dense.alpha).max())
        for ours, exact in zip(state.predict(Xs), dense.predict(Xs), strict=True):
            np.testing.assert_allclose(ours, exact, rtol=0, atol=1e-9)
        counts.append(int(state.notes[0].split(" iterations")[0].split()[-1]))
    np.testing.assert_allclose(state.kappa(), dense.kappa(), rtol=1e-9)
    assert counts[0] > 2 * counts[1] > 2 * counts[2]


def test_basis_functions():
    """A vague linear trend on top: the same as with the dense solver."""
    gp = mc.GP(FULL, MEAN, VAGUE)
    ours, dense = (
        WithBasis(s).factor(gp.bind(as_inputs(X)), X, sites("per-datum"))
        for s in (ConjugateGradient(tol=1e-13), Dense())
    )
    assert ours.log_normaliser == pytest.approx(dense.log_normaliser, rel=1e-9)
    for a, b in zip(ours.predict(XS), dense.predict(XS), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-8, atol=1e-9)


# ------------------------------------------------------------------------------------------------- estimates


def test_log_determinant_within_its_error():
    """Twenty seeds: unbiased, and as far off as it says; the preconditioner takes most of the error away."""
    prior, X, s = large(200)
    exact = Dense().factor(prior, X, s).logdet
    states = [ConjugateGradient(rank=20, probes=8, seed=seed).factor(prior, X, s) for seed in range(20)]
    errors = np.array([state.logdet - exact for state in states])
    said = np.array([state.logdet_error for state in states])
    assert abs(errors.mean()) < 3 * np.sqrt(np.mean(said**2) / 20)
    assert 0.6 < np.sqrt(np.mean(errors**2) / np.mean(said**2)) < 1.5
    plain = ConjugateGradient(rank=0, probes=8).factor(prior, X, s).logdet_error
    assert ConjugateGradient(rank=100, probes=8).factor(prior, X, s).logdet_error < 0.3 * plain


def test_gradient_within_its_error():
    """The derivative of the evidence: the mean over seeds against the dense one,
    in units of the stated standard error.
    """
    prior, X, s = large()
    exact = found_cotangents(Dense().factor(prior, X, s).pullback(1.0))
    states = [ConjugateGradient(rank=20, probes=8, seed=seed).factor(prior, X, s) for seed in range(12)]
    found = [found_cotangents(state.pullback(1.0)) for state in states]
    said = [state.gradient_error() for state in states]
    for name in ("kernel.lengthscale", "kernel.variance"):
        error = np.stack([f[name] - exact[name] for f in found])
        scale = np.sqrt(np.mean(np.stack([e[name] for e in said]) ** 2, 0))
        assert (np.abs(error.mean(0)) < 3 * scale / np.sqrt(12)).all(), name
        ratio = np.sqrt(np.mean(error**2, 0)) / scale
        assert ((ratio > 0.5) & (ratio < 1.6)).all(), name
    noise = np.array([np.sum(f["precision"] - exact["precision"]) for f in found])
    assert abs(noise.mean()) < 3 * noise.std(ddof=1) / np.sqrt(12)
    # along the log amplitude the notes say the error, without extra work
    amplitude = said[0]["kernel.variance"] * 1.3
    assert f"log amplitude {amplitude:.2g}" in states[0].notes[1]


def test_evidence_gradient_by_finite_differences():
    """Through the front door, with a preconditioner that is exact."""
    y = np.sin(X[:, 0])

    def evidence(variance, noise):
        gp = mc.GP(k.Matern([0.9, 1.4], variance, nu=1.5), means.Constant(0.1))
        return mc.log_evidence_and_gradient(gp, X, y, noise, solver=ConjugateGradient(tol=1e-13))

    gradient, h = evidence(1.3, 0.2)[1], 1e-5
    for name, step in {"kernel.variance": (h, 0.0), "likelihood.noise_variance": (0.0, h)}.items():
        up, down = (evidence(1.3 + sign * step[0], 0.2 + sign * step[1])[0] for sign in (1, -1))
        assert gradient[name] == pytest.approx((up - down) / (2 * h), rel=1e-7), name


# ------------------------------------------------------------------------------------------------- use


@pytest.mark.slow
def test_memory_is_linear_in_n():
    """No array of n x n, at no moment: the peak of a factorisation,
    a gradient and a prediction is far below one.
    """
    n = 3000
    prior, X, s = large(n, noise=0.5)
    solver = ConjugateGradient(rank=20, probes=2, tol=1e-2)
    solver.factor(prior, X[:300], Sites(s.centre[:300], s.precision[:300])).pullback(1.0)  # compile
    tracemalloc.start()
    try:
        state = solver.factor(prior, X, s)
        state.pullback(1.0)
        state.predict(X[:40])
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 0.25 * 8 * n**2
    first, second, third = (solver.cost(i * n, 2).bytes for i in (1, 2, 3))
    assert peak < first
    assert third - second == second - first


def test_regressor():
    """Learning with it finds what the dense solver finds, within the error of its estimates;
    the notes say how it went.
    """
    _, X, s = large(80)
    y = s.centre[:, 0]
    found = [
        mc.GPRegressor(k.SE([1.0, 1.0]), solver=solver, restarts=0).fit(X, y)
        for solver in (ConjugateGradient(rank=200), "dense")
    ]
    (mean, std), (exact, exact_std) = (model.predict(X[:20], return_std=True) for model in found)
    np.testing.assert_allclose(mean, exact, rtol=0, atol=1e-3)
    np.testing.assert_allclose(std, exact_std, rtol=1e-3)
    notes = " ".join(found[0].posterior_.notes)
    assert "iterations, relative residual" in notes and "standard error of the log evidence" in notes


@pytest.mark.parametrize("rule", ["laplace", "ep", "kl"])
def test_classification(rule):
    """Newton's steps with an incomplete Cholesky factor (3.4.3), and the other rules:
    evidence and gradient of the dense solver.
    """
    y = np.where(X[:, 0] + 0.3 * X[:, 1] > 0, 1, -1)
    gp = mc.GP(FULL)
    model = mc.Model(gp, mc.likelihoods.Bernoulli())
    ours, dense = (
        mc.log_evidence_and_gradient(model, X, y, inference=rule, solver=solver)
        for solver in (ConjugateGradient(tol=1e-13), "dense")
    )
    assert ours[0] == pytest.approx(dense[0], rel=1e-9)
    for name, value in dense[1].items():
        np.testing.assert_allclose(ours[1][name], value, rtol=1e-6, atol=1e-9, err_msg=name)


def test_not_converged_is_said():
    """A warning, and a note that says so in capitals."""
    prior, X, s = large()
    with pytest.warns(RuntimeWarning, match="raise rank or max_iterations"):
        state = ConjugateGradient(rank=5, max_iterations=3).factor(prior, X, s)
    assert "DID NOT CONVERGE" in state.notes[0]


def test_what_it_does_not_do_is_refused():
    """Several latent functions and negative precisions: with a solver that does."""
    for ask in (
        lambda: ConjugateGradient().workspace((GP, GP), X),
        lambda: ConjugateGradient().factor(
            GP.bind(as_inputs(X)), X, Sites(np.zeros((N, 1)), -np.ones((N, 1)))
        ),
    ):
        with pytest.raises(SolverError, match=r"dense|Dense"):
            ask()
    for bad in (dict(rank=-1), dict(probes=1), dict(tol=0.0), dict(max_iterations=0)):
        with pytest.raises(ValueError, match="ConjugateGradient needs"):
            ConjugateGradient(**bad)


@pytest.mark.slow
def test_compact_support_has_products_with_its_pairs_alone(monkeypatch):
    """The same numbers as by tiles, and as the sparse Cholesky factor; the pairs are few."""
    rng = np.random.default_rng(2)
    X = rng.uniform(0, 10, (300, 2))
    y, Xs = np.sin(X[:, 0]) + 0.1 * rng.normal(size=300), rng.uniform(0, 10, (6, 2))
    model = mc.Model(mc.GP(k.PiecewisePolynomial([1.0, 1.4], q=2)), mc.likelihoods.Gaussian(0.05))
    solver = ConjugateGradient(rank=20, tol=1e-10)

    def answers():
        value, gradient = mc.log_evidence_and_gradient(model, X, y, solver=solver)
        return [value, *gradient.values(), *model.condition(X, y, solver=solver).mean_and_std(Xs)]

    sparse = answers()
    state = model.condition(X, y, solver=solver).state
    assert state.pairs.K.nnz < 0.1 * 300**2
    exact = model.condition(X, y, solver="sparse-cholesky")
    np.testing.assert_allclose(sparse[-2], exact.mean_and_std(Xs)[0], rtol=1e-7)
    monkeypatch.setattr("mercer.solvers.iterative.PAIRS_BYTES", 0.0)
    assert model.condition(X, y, solver=solver).state.pairs is None
    for one, other in zip(sparse, answers(), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-7, atol=1e-7)
