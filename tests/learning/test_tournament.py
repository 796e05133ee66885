"""While hyperparameters are learned, solvers are compared at hyperparameters of their own."""

import numpy as np
import pytest

import mercer as mc
from mercer import kernels as k
from mercer import likelihoods as lik
from mercer.gp import HeldOut, prepare
from mercer.inference import by_name
from mercer.learning import tournament
from mercer.solvers import VFE, Auto, Dense, Vecchia

RNG = np.random.default_rng(0)
# a smooth function, and one of its own for every few rows that are close together
X = np.repeat(RNG.uniform(0, 1, (175, 2)), 4, 0) + 0.002 * RNG.normal(size=(700, 2))
Y = np.sin(6 * X[:, 0]) + 0.3 * np.repeat(RNG.normal(size=175), 4) + 0.05 * RNG.normal(size=700)
MODEL = mc.Model(mc.GP(k.Matern([0.5, 0.5], nu=1.5)), lik.Gaussian(0.1))


@pytest.fixture
def few(monkeypatch):
    """Candidates are compared for hundreds of rows already."""
    monkeypatch.setattr("mercer.solvers.auto.QUICK", 0.01)
    monkeypatch.setattr("mercer.learning.by_gradient.PILOT", 300)


def test_rows_are_held_out():
    inputs, y = prepare(MODEL, X, Y)
    held = HeldOut(inputs, y, by_name(None, MODEL.likelihood))
    assert held.out.size == 70 and np.array_equal(np.sort(np.r_[held.out, held.kept]), np.arange(700))
    _, kept, targets = held.data(MODEL, 50)
    assert kept.values.shape == (50, 2) and not np.isin(targets, Y[held.out]).any()
    expected = MODEL.condition(X[held.kept], Y[held.kept]).log_density(X[held.out], Y[held.out])
    assert held.score(MODEL, Dense()) == pytest.approx(np.mean(expected), abs=1e-10)


@pytest.mark.slow
def test_the_pick_is_not_beaten_by_a_candidate(few):
    """Learned on all rows by itself, no candidate predicts fresh rows better by more than the tolerance and
    what chance does."""
    rows = np.random.default_rng(1).permutation(700) >= 100
    auto = mc.fit(MODEL, X[rows], Y[rows], solver=Auto(say=False))
    (why,) = auto.posterior.notes
    assert "held out" in why and not why.startswith("solver: VFE(m=64)")

    def density(fit):
        return float(np.mean(fit.posterior.log_density(X[~rows], Y[~rows])))

    rivals = [mc.fit(MODEL, X[rows], Y[rows], solver=s) for s in (VFE(64), Vecchia(), Dense())]
    assert density(auto) > max(map(density, rivals)) - 0.1
    assert auto.status.converged and next(iter(auto.status.starts)) in why


@pytest.mark.slow
def test_rounding_does_not_decide(few):
    """Targets that differ in their last digits lead to predictions as good."""
    rows = np.random.default_rng(1).permutation(700) >= 100

    def density(seed):
        y = Y[rows] * (1.0 + 1e-13 * np.random.default_rng(seed).normal(size=rows.sum()))
        found = mc.fit(MODEL, X[rows], y, solver=Auto(say=False))
        return float(np.mean(found.posterior.log_density(X[~rows], Y[~rows])))

    densities = [density(seed) for seed in range(3)]
    assert np.ptp(densities) < 0.05


def test_an_interrupted_comparison_leaves_a_model(few):
    def stop(done, total, text):
        if "VFE(m=64)" in text:
            raise KeyboardInterrupt

    with pytest.warns(mc.learning.FitWarning, match="interrupted"):
        fit = mc.fit(MODEL, X, Y, solver=Auto(say=False), progress=stop)
    assert fit.status.interrupted and np.isfinite(fit.value)
    assert fit.model.condition(X, Y, solver=fit.posterior.solver).log_evidence == pytest.approx(
        fit.posterior.log_evidence, rel=1e-9
    )


def test_nothing_is_learned_where_nothing_is_to_be(few):
    fit = mc.fit(MODEL, X, Y, solver=Auto(say=False), max_evaluations=0)
    assert fit.model.likelihood.noise_variance == pytest.approx(0.1) and "held out" in fit.posterior.notes[0]


@pytest.mark.slow
def test_basis_functions_are_kept(few):
    gp = mc.GP(k.Matern([0.5, 0.5], nu=1.5), basis=mc.means.Polynomial(1))
    fit = mc.fit(mc.Model(gp, lik.Gaussian(0.1)), X, Y, solver=Auto(say=False))
    assert "held out" in fit.posterior.notes[0] and "WithBasis" not in fit.posterior.notes[0]


@pytest.mark.slow
def test_own_hyperparameters_are_found_on_many_rows(few, monkeypatch):
    monkeypatch.setattr(tournament, "OWN_ROWS", 400)
    monkeypatch.setattr(tournament, "EXACT_ROWS", 400)
    fit = mc.fit(MODEL, X, Y, solver=Auto(say=False))
    own = {e.size for e in fit.history if "(" in e.start}
    assert own == {400, 700}


def test_several_data_sets_share_one_solver(few):
    """Pooled: what suits the largest, and can work on the others, works on each of them."""
    parts = np.arange(700) < 600
    data = [X[parts], X[~parts]], [Y[parts], Y[~parts]]
    fit = mc.fit(MODEL, *data, solver=Auto(say=False), max_evaluations=0)
    (chosen,) = {type(p.solver) for p in fit.posterior}
    assert chosen is not Auto and "n = 600" in fit.posterior[1].solver.why
    assert [p.y.size for p in fit.posterior] == [600, 100]
    again = mc.fit(MODEL, *data, solver=fit.posterior[0].solver, max_evaluations=0)
    assert sum(p.log_evidence for p in fit.posterior) == pytest.approx(
        sum(p.log_evidence for p in again.posterior), rel=1e-9
    )
