"""solver="auto" picks what is exact or accurate enough, says why, and foresees what does not fit."""

import numpy as np
import pytest

import mercer as mc
from mercer import kernels as k
from mercer.inputs import as_inputs
from mercer.solvers import FITC, VFE, Auto, Dense, Kronecker, Markov, SolverError, Toeplitz, Vecchia, WeightSpace, by_name
from mercer.solvers.auto import Task
from mercer.solvers.vecchia import expected_loss

RNG = np.random.default_rng(0)


@pytest.fixture(autouse=True)
def same_machine(monkeypatch):
    """Choices by time do not depend on how busy the machine is."""
    monkeypatch.setattr(Task, "rate", 5e10)


def gp(kernel, X):
    return mc.GP(kernel).bind(as_inputs(X))


def test_small_data_are_dense():
    X = RNG.normal(size=(200, 3))
    choice = Auto().choose(gp(k.SE([1.0] * 3), X), X, 0.1)
    assert isinstance(choice.solver, Dense)
    assert "exact" in choice.why and "n = 200" in choice.why


def test_finite_rank():
    X = RNG.normal(size=(3000, 3))
    assert isinstance(Auto().choose(gp(k.Linear() + k.Constant(), X), X, 0.1).solver, WeightSpace)


def test_smooth_functions_of_few_inputs_need_few_inducing_inputs():
    X = RNG.uniform(-3, 3, (6000, 2))
    choice = Auto().choose(gp(k.SE([1.5, 1.5]), X), X, 0.05)
    assert isinstance(choice.solver, VFE)
    # what it promised, on all data: half the unexplained variance over the noise variance
    post = mc.GP(k.SE([1.5, 1.5])).condition(X, np.zeros(6000), 0.05, solver=choice.solver)
    assert 0.5 * post.state.t.mean() / 0.05 <= 0.05
    assert choice.best.error <= 0.05
    table = str(choice)
    assert "* VFE" in table and "Dense" in table and "nats per datum" in table


def test_rough_functions_of_many_inputs_are_dense_until_time_forbids():
    X = RNG.normal(size=(4000, 8))
    prior = gp(k.Matern(nu=0.5, lengthscale=[0.3] * 8), X)
    assert isinstance(Auto(seconds=1e5).choose(prior, X, 0.01).solver, Dense)
    hurried = Auto(seconds=0.9 * 20 * Auto(seconds=1e5).choose(prior, X, 0.01).best.seconds).choose(prior, X, 0.01)
    assert isinstance(hurried.solver, VFE) and "misses the tolerance" in hurried.why


def test_rough_functions_of_few_inputs_go_to_neighbours():
    X = RNG.uniform(0, 1, (20000, 2))
    choice = Auto().choose(gp(k.Matern(nu=0.5, lengthscale=0.3), X), X, 1e-3)
    assert isinstance(choice.solver, Vecchia) and choice.best.error < 0.05
    # a smooth function under much noise needs more than its neighbours
    rough = expected_loss(k.Matern(nu=0.5, lengthscale=0.3), X[:3000], 1e-3, 10)
    assert expected_loss(k.SE([0.5, 0.5]), X[:3000], 1.0, 10) > 3 * rough


def test_grids():
    t = np.linspace(0, 100, 3000)[:, None]
    assert isinstance(Auto(tolerance=0.0).choose(gp(k.Matern(nu=0.5), t), t, 0.1).solver, Markov)
    assert isinstance(Auto(tolerance=0.0).choose(gp(k.RationalQuadratic(1.0), t), t, 0.1).solver, Toeplitz)
    grid = np.stack(np.meshgrid(np.arange(60.0), np.arange(50.0)), -1).reshape(-1, 2)
    assert isinstance(Auto(tolerance=0.0).choose(gp(k.SE([2.0, 2.0]), grid), grid, 0.1).solver, Kronecker)
    moved = grid + 0.1 * RNG.normal(size=grid.shape)
    assert isinstance(Auto(tolerance=0.0).choose(gp(k.SE([2.0, 2.0]), moved), moved, 0.1).solver, Dense)


def test_other_likelihoods_go_to_fitc():
    X = RNG.uniform(-3, 3, (6000, 2))
    choice = Auto().choose(gp(k.SE([1.5, 1.5]), X), X, None)
    assert isinstance(choice.solver, FITC)


def test_unexplained_variance_falls():
    X = RNG.uniform(-3, 3, (2500, 2))
    task = Task(gp(k.SE([1.0, 1.0], 2.0), X), X, 0.1, False, 0.05)
    left = [task.unexplained(m) for m in (0, 8, 64, 512)]
    assert left[0] == pytest.approx(2.0) and left == sorted(left, reverse=True) and left[-1] < 1e-3


def test_through_an_estimator(capsys):
    X = RNG.uniform(-3, 3, (2500, 1))
    y = np.sin(X[:, 0]) + 0.1 * RNG.normal(size=2500)
    model = mc.GPRegressor(k.SE(1.0), solver="auto").fit(X, y)
    assert "solver: VFE" in capsys.readouterr().err
    assert any(note.startswith("solver: VFE") for note in model.posterior_.notes)
    lower, upper = model.posterior_.evidence_bounds()
    assert upper - lower < 1.0
    assert isinstance(by_name("auto"), Auto)


def test_a_budget_nobody_can_meet():
    X = RNG.normal(size=(5000, 3))
    with pytest.raises(SolverError, match="no solver fits 5,000 data into 977 KiB"):
        Auto(memory="1MB").choose(gp(k.SE([1.0] * 3), X), X, 0.1)
    with pytest.raises(ValueError, match="must be positive"):
        Auto(seconds=0)
    with pytest.raises(ValueError, match="memory must be"):
        Auto(memory="lots")
