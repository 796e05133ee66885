"""solver="auto" picks what is exact or accurate enough, says why, and foresees what does not fit."""

import numpy as np
import pytest

import mercer as mc
from mercer import kernels as k
from mercer.inputs import as_inputs
from mercer.progress import shown
from mercer.solvers import (
    FITC,
    VFE,
    Auto,
    Dense,
    Kronecker,
    Markov,
    SolverError,
    SparseCholesky,
    Toeplitz,
    Vecchia,
    WeightSpace,
    auto,
    by_name,
)
from mercer.solvers.auto import Task, name
from mercer.solvers.vecchia import expected_loss

RNG = np.random.default_rng(0)


def gp(kernel, X):
    return mc.GP(kernel).bind(as_inputs(X))


def times(n):
    return np.cumsum(np.random.default_rng(1).exponential(size=n))[:, None]


def cube(n, d, side):
    return np.random.default_rng(1).uniform(0, side, (n, d))


def grid(side):
    return np.stack(np.meshgrid(np.arange(side), np.arange(side)), -1).reshape(-1, 2)


TABLE = {  # which solver for which task
    "few data": (Dense(), k.SE(1.0), cube(100, 1, 10), 0.1),
    "few data, although in a series": (Dense(), k.Matern(5.0, nu=1.5), times(500), 0.1),
    "many inputs, not many data": (Dense(), k.SE([2.0] * 8), cube(1000, 8, 4), 0.1),
    "not many data, smooth: still exact": (Dense(), k.SE([3.0] * 3), cube(2000, 3, 4), 0.1),
    "a series": (Markov(), k.Matern(5.0, nu=1.5), times(2000), 0.1),
    "a series of counts or classes": (Markov(), k.Matern(5.0, nu=1.5), times(3000), None),
    "a grid": (Kronecker(), k.SE([3.0] * 2), grid(50.0), 0.1),
    "a grid with classes": (FITC(256), k.SE([3.0] * 2), grid(50.0), None),
    "compact support": (SparseCholesky(), k.PiecewisePolynomial(1.0, q=1), cube(5000, 2, 40), 0.01),
    "compact support, wide": (Vecchia(30), k.PiecewisePolynomial(20.0, q=1), cube(5000, 2, 40), 0.01),
    "finite rank": (WeightSpace(), k.Linear() + k.Constant(), cube(3000, 3, 4), 0.1),
    "smooth, many inputs": (VFE(64), k.SE([8.0] * 8), cube(5000, 8, 4), 0.1),
    "rough, few inputs": (Vecchia(30), k.Matern([1.0] * 2, nu=0.5), cube(5000, 2, 10), 0.01),
    "rough, many inputs": (Dense(), k.Matern([1.0] * 8, nu=0.5), cube(3000, 8, 4), 0.01),
}


SLOW = ("compact support, wide",)


@pytest.mark.parametrize(
    "task", [pytest.param(task, marks=pytest.mark.slow) if task in SLOW else task for task in TABLE]
)
def test_decision_table(task):
    expected, kernel, X, noise = TABLE[task]
    choice = Auto().choose(gp(kernel, X), X, noise)
    assert name(choice.solver) == name(expected), str(choice)
    assert choice.best.error <= Auto.tolerance


def test_scattered_inputs_of_many_columns_are_no_grid():
    """Their grid would have more points than an integer of 64 bits holds."""
    X = cube(3000, 8, 4)
    with pytest.raises(SolverError, match=r"every point of the grid .* there are 3000 data at 3000 of them"):
        Kronecker().workspace(gp(k.SE([1.0] * 8), X), X)


def test_what_takes_half_as_long_as_exact_is_not_considered():
    X = cube(3500, 4, 4)
    choice = Auto(tolerance=0.0).choose(gp(k.SE([0.5] * 4), X), X, 0.1)
    dense = next(p for p in choice.proposals if isinstance(p.solver, Dense))
    assert all(p.seconds <= 0.5 * dense.seconds for p in choice.proposals if isinstance(p.solver, VFE))
    assert any(isinstance(p.solver, VFE) for p in choice.proposals)


def test_memory_is_not_promised_too_small(monkeypatch):
    """The array that is surely needed, and the blocks that two threads work on; measured: 152 MiB for VFE,
    181 for FITC, 125 for VFE that streams."""
    monkeypatch.setattr("mercer.solvers.lowrank.thread_count", lambda: 2)
    MiB = 2**20
    assert 181 * MiB <= FITC(512).cost(20_000, 4).bytes <= 2 * 152 * MiB
    assert 125 * MiB <= VFE(512, store=False).cost(20_000, 4).bytes <= 160 * MiB
    assert VFE(512, store=False).cost(10**6, 4).bytes < 0.2 * VFE(512, store=True).cost(10**6, 4).bytes


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
    hurried = Auto(seconds=0.9 * 20 * Auto(seconds=1e5).choose(prior, X, 0.01).best.seconds).choose(
        prior, X, 0.01
    )
    assert isinstance(hurried.solver, VFE) and "misses the tolerance" in hurried.why


@pytest.mark.slow
def test_rough_functions_of_few_inputs_go_to_neighbours():
    X = RNG.uniform(0, 1, (20000, 2))
    choice = Auto().choose(gp(k.Matern(nu=0.5, lengthscale=0.3), X), X, 1e-3)
    assert isinstance(choice.solver, Vecchia) and choice.best.error < 0.05
    # a smooth function under much noise needs more than its neighbours
    rough = expected_loss(k.Matern(nu=0.5, lengthscale=0.3), X[:3000], 1e-3, 10)
    assert expected_loss(k.SE([0.5, 0.5]), X[:3000], 1.0, 10) > 3 * rough


def test_grids():
    t = np.linspace(0, 100, 3500)[:, None]
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


@pytest.mark.slow
def test_through_an_estimator(capsys, monkeypatch):
    monkeypatch.setattr(auto, "QUICK", 0.5)
    X = RNG.uniform(-3, 3, (2500, 1))
    y = np.sin(X[:, 0]) + 0.1 * RNG.normal(size=2500)
    model = mc.GPRegressor(k.SE(1.0), solver="auto").fit(X, y)
    said = capsys.readouterr().err
    assert said.startswith("solver: VFE") and max(map(len, said.splitlines())) < 80
    (note,) = [note for note in model.posterior_.notes if note.startswith("solver: VFE")]
    assert "rows held out" in note and "Dense() " in note and "SubsetOfData" not in note
    lower, upper = model.posterior_.evidence_bounds()
    assert upper - lower < 1.0
    assert isinstance(by_name("auto"), Auto)
    mc.GPRegressor(k.SE(1.0), solver="auto", progress=False, max_evaluations=0).fit(X, y)
    assert capsys.readouterr().err == ""


# -- by rows held out ---------------------------------------------------------------------------------------


def judged(scores, X, noise=0.1, kernel=None, **settings):
    """The choice where each solver has the density `scores` gives to its name, and the names in the order in
    which they were tried."""
    tried = []

    def judge(solver):
        tried.append(name(solver))
        score = scores[name(solver)]
        if score is None:
            raise SolverError("does not work")
        return score

    kernel = k.Matern([1.0] * X.shape[1], nu=1.5) if kernel is None else kernel
    return Auto(**settings).choose(gp(kernel, X), X, noise, judge), tried


LARGE = cube(6000, 4, 4)
V30, DENSE, PART = "Vecchia(neighbours=30)", "Dense()", "SubsetOfData(m=4000)"


def test_what_another_candidate_beats_is_not_taken():
    scores = {"VFE(m=64)": 0.0, "VFE(m=128)": 0.02, V30: 0.4, PART: 0.2, DENSE: 0.42}
    choice, tried = judged(scores, LARGE)
    assert name(choice.solver) == V30 and f"{DENSE} 0.420, {V30} 0.400" in choice.why
    assert tried == ["VFE(m=64)", V30, "VFE(m=128)", PART, DENSE]  # no larger size: it would not catch up
    assert "0.4000" in str(choice) and "held-out log density" in str(choice)
    choice, _ = judged({**scores, DENSE: 0.46}, LARGE)
    assert name(choice.solver) == DENSE


def test_a_slow_size_is_not_tried_that_could_only_come_up_to_a_faster_one():
    """It is announced what the comparison takes at most."""
    ladder = {f"VFE(m={m})": 0.08 * i for i, m in enumerate(auto.LADDER)}
    heard = []
    with shown("", lambda done, total, text: heard.append(text)):
        choice, tried = judged({**ladder, V30: 0.4, PART: 0.1, DENSE: 0.42}, LARGE)
    assert name(choice.solver) == V30 and "VFE(m=512)" in tried and "VFE(m=1024)" not in tried
    assert heard == ["up to 9 solvers are compared first: at most about 53 s"]
    _, tried = judged({**ladder, V30: 0.2, PART: 0.1, DENSE: 0.42}, LARGE)
    assert "VFE(m=1024)" in tried


@pytest.mark.slow
def test_sizes_grow_while_it_helps():
    ladder = {f"VFE(m={m})": s for m, s in zip((64, 128, 256, 512), (0.0, 0.3, 0.4, 0.41), strict=True)}
    choice, tried = judged({**ladder, V30: 0.1, PART: 0.2, DENSE: 0.41}, LARGE)
    # quick ones: the best of them, though a smaller one is within the tolerance
    assert name(choice.solver) == "VFE(m=512)" and "VFE(m=1024)" not in tried
    rng = np.random.default_rng(0)
    for _ in range(50):
        found = {s: float(rng.normal()) for s in (V30, PART, DENSE)}
        found |= {f"VFE(m={m})": float(rng.normal()) for m in auto.LADDER}
        choice, tried = judged(found, LARGE)
        assert found[name(choice.solver)] >= max(found[s] for s in tried) - Auto.tolerance


def test_a_candidate_that_fails_is_left_out():
    choice, _ = judged({"VFE(m=64)": None, V30: None, "VFE(m=128)": None, PART: -1.0, DENSE: None}, LARGE)
    assert name(choice.solver) == PART
    choice, _ = judged(dict.fromkeys(["VFE(m=64)", V30, "VFE(m=128)", PART, DENSE]), LARGE)
    assert "promises" in choice.why  # nobody could say


def test_exact_and_quick_needs_no_judge():
    choice, tried = judged({}, cube(2000, 4, 4))
    assert name(choice.solver) == DENSE and not tried and "exact and quick" in choice.why
    choice, tried = judged({}, times(50_000), kernel=k.Matern(5.0, nu=1.5))
    assert isinstance(choice.solver, Markov) and not tried


@pytest.mark.slow
def test_the_choice_does_not_depend_on_the_machine(monkeypatch):
    scores = {f"VFE(m={m})": 0.1 * i for i, m in enumerate(auto.LADDER)} | {V30: 0.0, PART: 0.0, DENSE: 9.0}
    X = cube(30_000, 4, 4)
    first, tried = judged(scores, X)
    monkeypatch.setattr("mercer.linalg.memory.available", lambda: 1e6)
    monkeypatch.setattr("mercer.solvers.lowrank.thread_count", lambda: 64)
    again, same = judged(scores, X)
    assert str(first) == str(again) and tried == same and DENSE not in tried


def test_a_choice_at_given_hyperparameters_is_judged_too(monkeypatch):
    """Many waves: few inducing inputs do not follow them."""
    monkeypatch.setattr(auto, "QUICK", 0.5)
    rng = np.random.default_rng(0)
    X = rng.uniform(0, 1, (2400, 2))
    y = np.sin(60 * X[:, 0]) + np.sin(60 * X[:, 1])
    post = mc.GP(k.SE([0.03, 0.03])).condition(X, y, 1e-2, solver="auto")
    (note,) = [note for note in post.notes if note.startswith("solver:")]
    assert not note.startswith("solver: VFE(m=64)") and "VFE(m=64)" in note and "held out" in note


@pytest.mark.slow
def test_known_noise_of_each_row_is_held_out_with_it(monkeypatch):
    monkeypatch.setattr(auto, "QUICK", 0.5)
    rng = np.random.default_rng(0)
    X = rng.uniform(-3, 3, (2400, 1))
    noise = np.where(X[:, 0] > 0, 0.01, 0.25)
    y = np.sin(X[:, 0]) + np.sqrt(noise) * rng.normal(size=2400)
    post = mc.GP(k.SE(1.0)).condition(X, y, noise, solver="auto")
    assert any("held out" in note and "SubsetOfData" not in note for note in post.notes)


@pytest.mark.slow
def test_classes_are_judged_by_their_probability(monkeypatch):
    monkeypatch.setattr(auto, "QUICK", 1.0)
    rng = np.random.default_rng(0)
    X = rng.uniform(-3, 3, (1200, 1))
    y = (np.sin(3 * X[:, 0]) > rng.normal(size=1200)).astype(int)
    model = mc.Model(mc.GP(k.SE(0.5, 4.0)), mc.likelihoods.Bernoulli())
    post = model.condition(X, y, "laplace", solver="auto")
    (note,) = [note for note in post.notes if note.startswith("solver:")]
    assert "FITC(m=64) -0." in note and "held out" in note


def test_a_budget_nobody_can_meet():
    X = RNG.normal(size=(5000, 3))
    with pytest.raises(SolverError, match="no solver fits 5,000 data into 977 KiB"):
        Auto(memory="1MB").choose(gp(k.SE([1.0] * 3), X), X, 0.1)
    with pytest.raises(ValueError, match="must be positive"):
        Auto(seconds=0)
    with pytest.raises(ValueError, match="memory must be"):
        Auto(memory="lots")
