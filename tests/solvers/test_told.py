"""What the dense solver leaves out: rows of sites of precision zero, where B is the identity, and the second
half of an inverse of which the diagonal is asked for.
"""

import jax
import numpy as np
import pytest

import mercer as mc
from mercer import kernels as k
from mercer.linalg import blocked, lapack
from mercer.solvers import Dense, Sites

N = 300  # two tiles
GP = mc.GP(k.Matern([1.0, 2.0], 1.5, nu=2.5))


def data(share: float) -> tuple[np.ndarray, Sites]:
    """Inputs, and sites of which about this share has precision zero."""
    rng = np.random.default_rng(2)
    X, W = rng.normal(size=(N, 2)), np.exp(rng.normal(size=(N, 1)))
    W[rng.random(N) < share] = 0.0
    return X, Sites(rng.normal(size=(N, 1)), W, rng.normal(size=(N, 1)))


@pytest.mark.parametrize("panels", [False, True])
@pytest.mark.parametrize("held", [False, True])
@pytest.mark.parametrize("share", [0.4, 1.0])
def test_as_with_every_row(share, held, panels, monkeypatch):
    """Everything a State says is what the whole B says, which the JAX backend factors; by panels, too,
    as many rows are.
    """
    if panels:
        monkeypatch.setattr(blocked, "FROM", 100)
        monkeypatch.setattr(blocked, "PANEL", 64)
    X, sites = data(share)
    workspace = Dense().workspace(GP, X)
    if held:
        workspace.hold(GP)
    state, whole = Dense("lapack").factor(GP, X, sites, workspace), Dense("jax").factor(GP, X, sites)
    assert state.log_normaliser == pytest.approx(float(whole.log_normaliser), rel=1e-12)
    for ours, theirs in zip(state.marginals() + state.dual(), whole.marginals() + whole.dual(), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-8, atol=1e-10)
    Xs = np.random.default_rng(3).normal(size=(5, 2))
    for ours, theirs in zip(state.predict(Xs, full=True), whole.predict(Xs, full=True), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-8, atol=1e-10)
    bars = np.random.default_rng(4).normal(size=(3, N, 1))
    pulled = [s.pullback(0.7, mean_bar=bars[0], var_bar=bars[1], kappa_bar=bars[2]) for s in (state, whole)]
    ours, theirs = (
        [*jax.tree.leaves(p.prior.kernel), p.sites.centre, p.sites.precision, p.sites.slope] for p in pulled
    )
    for a, b in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-7, atol=1e-8 * (1.0 + np.abs(b).max()))


def test_only_rows_that_are_told_of_are_factored(monkeypatch):
    orders, potrf = [], lapack.potrf
    monkeypatch.setattr(lapack, "potrf", lambda M: orders.append(M.shape[0]) or potrf(M))
    X, sites = data(0.4)
    told = int((sites.precision > 0).sum())
    Dense().factor(GP, X, sites)
    negative = Sites(sites.centre, np.where(sites.precision > 0, sites.precision, -1e-4), sites.slope)
    Dense().factor(GP, X, negative)
    assert told < N
    assert orders == [told, told, N - told]  # the last is that of the downdate


def test_variances_take_half_of_the_inverse(monkeypatch):
    """The rest is done for a pullback, once."""
    done = []
    for name in ("trtri", "lauum", "potri"):
        routine = getattr(lapack, name)
        monkeypatch.setattr(lapack, name, lambda M, f=routine, name=name: done.append(name) or f(M))
    X, sites = data(0.0)
    state = Dense().factor(GP, X, sites, Dense().workspace(GP, X))
    state.marginals()
    state.dual()
    assert done == ["trtri"]
    state.pullback(1.0, consume=True)
    assert done == ["trtri", "lauum"]
