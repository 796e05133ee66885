"""Ask and tell: the same seed gives the same rows, pending rows are respected, limits are learned, bad input
is named, files go on where they ended.
"""

import json
import os
import random
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

import mercer as mc
from mercer.decide import SpaceError
from mercer.decide.optimiser import ACQUISITIONS

PLANE = {"x": (-5.0, 10.0), "y": (0.0, 15.0)}
MIXED = {"rate": mc.decide.Real(1e-5, 1e-1, log=True), "depth": range(1, 9), "kind": ["a", "b"]}


def branin(x, y):
    inner = y - 5.1 / (4 * np.pi**2) * x**2 + 5 / np.pi * x - 6
    return float(inner**2 + 10 * (1 - 1 / (8 * np.pi)) * np.cos(x) + 10)


def score(rate, depth, kind):
    return -((np.log10(rate) + 3) ** 2) - (depth - 5) ** 2 / 10 - (kind == "a")


@pytest.fixture(scope="module")
def best():
    return mc.optimise(lambda x, y: branin(x, y), PLANE, evaluations=25, seed=0)


def told(best, count=12, **settings):
    """An optimiser that knows the first rows of a run."""
    opt = mc.Optimiser(PLANE, **settings)
    for evaluation in best.history[:count]:
        opt.tell(evaluation.point, evaluation.value)
    return opt


def test_the_least_value_is_found(best):
    assert best.value - 0.397887 < 0.1
    assert best.value == branin(**best.point) == min(e.value for e in best.history)
    assert len(best.history) == 25
    x, y = best.point.values()
    assert str(best) == f"{best.value:.6g} at x = {x:.6g}, y = {y:.6g}, best of 25 evaluations"
    assert "history" not in repr(best)


def test_the_same_seed_gives_the_same_rows_also_one_at_a_time(best):
    opt = mc.Optimiser(PLANE, seed=0)
    for evaluation in best.history[:12]:
        row = opt.ask()
        assert row == evaluation.point
        opt.tell(row, branin(**row))


def test_an_optimiser_prints_what_it_was_told(best):
    opt = told(best)
    opt.tell({"x": 0.0, "y": 0.0}, failed=True)
    assert repr(opt) == "<Optimiser of x, y: 13 evaluations told, 1 failed>"
    several = mc.Optimiser(PLANE, objectives=("weight", "loss"))
    several.tell({"x": 0.0, "y": 1.0}, {"weight": 1.0, "loss": 2.0})
    several.tell({"x": 1.0, "y": 1.0}, {"weight": 2.0, "loss": 3.0})
    assert str(several.front()) == (
        "1 row that none beats, of 2 evaluations\nweight = 1, loss = 2 at x = 0, y = 1"
    )


def test_asked_rows_are_pending_until_told(best):
    opt = told(best, seed=1)
    rows = opt.ask(4)
    points = np.array([[row["x"], row["y"]] for row in rows])
    apart = np.linalg.norm(points[:, None] - points, axis=-1)[np.triu_indices(4, 1)]
    assert opt.pending == rows and apart.min() > 0.05
    opt.tell(rows[2], 1.0)
    assert opt.pending == [rows[0], rows[1], rows[3]]
    opt.forget_pending()
    assert opt.pending == []


def test_a_mixed_space_and_a_file(tmp_path):
    opt = mc.Optimiser(MIXED, maximise=True)
    for _ in range(20):
        row = opt.ask()
        opt.tell(row, score(**row))
    found = opt.best()
    assert found.value > -0.2 and found.point["kind"] == "b" and found.point["depth"] in (4, 5, 6)
    opt.save(tmp_path / "run.mercer")
    again = mc.load(tmp_path / "run.mercer")
    assert again.history == opt.history and again.get_params() == opt.get_params()
    assert again.ask() == opt.ask()
    mc.save(opt, tmp_path / "pending.mercer")
    assert mc.load(tmp_path / "pending.mercer").pending == opt.pending != []


@pytest.mark.slow
def test_failures_are_learned_and_the_loop_lives_on():
    def fragile(x, y):
        if x < 1:
            raise RuntimeError("it broke")
        return branin(x, y)

    found = mc.optimise(fragile, PLANE, evaluations=24, seed=0)
    failed = [e.failed for e in found.history]
    assert found.point["x"] >= 1 and found.value == min(e.value for e in found.history if not e.failed)
    assert sum(failed[:5]) > 0 and np.mean(failed[12:]) < 0.35
    assert {e.note for e in found.history if e.failed} == {"RuntimeError: it broke"}


def test_limits_and_constraints_are_kept_by_the_best_row():
    found = mc.optimise(
        lambda x, y: {"value": branin(x, y), "sum": x + y},
        PLANE, evaluations=22, limits={"sum": (None, 8.0)}, constraints=["x - y >= -9"],
    )  # fmt: skip
    assert found.outcomes["sum"] <= 8.0 and found.point["x"] - found.point["y"] >= -9 - 1e-9
    assert all(e.point["x"] - e.point["y"] >= -9 - 1e-9 for e in found.history)
    assert found.value < 1.0  # the minimum at (9.42, 2.47) breaks the limit, (3.14, 2.28) does not


@pytest.mark.slow
def test_labels_of_feasible_rows_are_respected(best):
    opt = mc.Optimiser(PLANE)
    for e in best.history[:14]:
        opt.tell(e.point, e.value, feasible=e.point["x"] < 2)
    for _ in range(10):
        row = opt.ask()
        opt.tell(row, branin(**row), feasible=row["x"] < 2)
    assert opt.best().point["x"] < 2 and opt.best().value < 0.6
    assert sum(e.point["x"] >= 2 for e in opt.history[-6:]) <= 3


@pytest.mark.slow
def test_two_objectives_have_a_front():
    found = mc.optimise(
        lambda x, y: (x**2 + y**2, (x - 1) ** 2 + y**2),
        {"x": (-2.0, 2.0), "y": (-2.0, 2.0)}, evaluations=16, objectives=["first", "second"],
    )  # fmt: skip
    values = np.array(found.values)
    assert len(values) >= 6 and (np.diff(values[:, 0]) > 0).all() and (np.diff(values[:, 1]) < 0).all()
    reference = np.array([1.5, 1.5])
    ideal = np.array([[t**2, (t - 1) ** 2] for t in np.linspace(0, 1, 200)])
    share = mc.decide.dominated_volume(values, reference) / mc.decide.dominated_volume(ideal, reference)
    assert share > 0.9
    opt = mc.Optimiser({"x": (0.0, 1.0)}, objectives=["a", "b"])
    with pytest.raises(ValueError, match="`front` gives those that none beats"):
        opt.best()


@pytest.mark.slow
def test_cheap_likenesses_are_used_where_they_cost_less():
    def likeness(x, y, share):
        return {"value": branin(x, y) + 5 * (1 - share) * np.sin(x), "cost": 0.05 + share**2}

    found = mc.optimise(likeness, PLANE | {"share": (0.1, 1.0)}, evaluations=16, fidelity="share")
    shares = [e.point["share"] for e in found.history]
    assert found.point["share"] == 1.0 and np.median(shares[6:]) < 0.9


@pytest.mark.slow
@pytest.mark.parametrize("name", ACQUISITIONS)
def test_every_acquisition_gets_there(name):
    found = mc.optimise(branin, PLANE, evaluations=16, acquisition=name)
    assert found.value < 4.0 and found.value < min(e.value for e in found.history[:5])
    assert len(told(found, acquisition=name).ask(2)) == 2


@pytest.mark.slow
def test_noise_is_averaged_out():
    rng = np.random.default_rng(0)
    found = mc.optimise(
        lambda x: (x - 0.3) ** 2 + 0.1 * rng.standard_normal(), {"x": (0.0, 1.0)}, evaluations=30
    )
    assert abs(found.point["x"] - 0.3) < 0.15


@pytest.mark.slow
def test_several_at_once_with_a_time_out():
    def slow(x, y):
        time.sleep(5.0 if x > 8 else 0.01)
        return branin(x, y)

    found = mc.optimise(slow, PLANE, evaluations=16, parallel=4, timeout=1.0)
    assert len(found.history) == 16 and found.point["x"] <= 8
    late = [e for e in found.history if e.failed]
    assert all(e.note == "no value within 1 s" for e in late)


def test_a_suggestion_says_why(best):
    first = mc.Optimiser(PLANE).suggest()
    assert first.reason.startswith("Row 1 of 5 that fill the space") and set(first.point) == {"x", "y"}
    opt = told(best)
    later = opt.suggest()
    assert "value is expected at" in str(later) and "so far, better with probability" in later.reason
    assert opt.pending == [later.point]


def test_ctrl_c_keeps_all():
    calls = []

    def stopped(x, y):
        calls.append((x, y))
        if len(calls) == 7:
            raise KeyboardInterrupt
        return branin(x, y)

    found = mc.optimise(stopped, PLANE, evaluations=20, progress=False)
    assert len(found.history) == 6 and found.value == min(e.value for e in found.history)


def test_a_search_goes_on_from_its_file(best, tmp_path):
    path = tmp_path / "run.mercer"
    mc.optimise(branin, PLANE, evaluations=9, seed=0, path=path)
    calls = []
    found = mc.optimise(
        lambda x, y: calls.append(x) or branin(x, y), PLANE, evaluations=14, seed=0, path=path
    )
    assert [e.point for e in found.history] == [e.point for e in best.history[:14]] and len(calls) == 5
    with pytest.raises(ValueError, match=r"of another search: \['seed'\] differ"):
        mc.optimise(branin, PLANE, evaluations=14, seed=1, path=path)


KILLED = """
import sys, json, os, time
sys.path.insert(0, {tests!r})
import mercer as mc
from test_optimiser import branin, PLANE

def slow(x, y):
    with open({log!r}, "a") as log:
        log.write(json.dumps([x, y]) + chr(10))
    time.sleep(0.05)
    return branin(x, y)

mc.optimise(slow, PLANE, evaluations={evaluations}, seed=0, path={path!r}, progress=False)
"""


def _killed(tmp_path, best, times, evaluations):
    """A run killed at random moments of its loop ends as one that was not, and nothing told is lost."""
    path, log = tmp_path / "run.mercer", tmp_path / "log"
    program = KILLED.format(
        tests=os.path.dirname(__file__), log=str(log), path=str(path), evaluations=evaluations
    )
    moments, known = random.Random(0), 0
    log.touch()
    for _ in range(times):
        before = len(log.read_text().splitlines())
        process = subprocess.Popen([sys.executable, "-c", program])
        while process.poll() is None and len(log.read_text().splitlines()) == before:
            time.sleep(0.01)
        time.sleep(moments.random() * 0.2)
        process.send_signal(signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL  # it was under way, with an evaluation of its own begun
        now = len(mc.load(path).history) if path.exists() else 0
        assert now >= known
        known = now
    found = mc.optimise(branin, PLANE, evaluations=evaluations, seed=0, path=path)
    expected = best.history[:evaluations]
    assert [(e.point, e.value) for e in found.history] == [(e.point, e.value) for e in expected]
    asked = [json.loads(line) for line in log.read_text().splitlines()]
    assert all([e.point["x"], e.point["y"]] in asked for e in found.history[:known])


@pytest.mark.slow
def test_a_killed_search_ends_as_one_that_was_not(best, tmp_path):
    _killed(tmp_path, best, 3, 14)


@pytest.mark.experiment
def test_a_search_killed_twenty_times(best, tmp_path):
    _killed(tmp_path, best, 20, 25)


@pytest.mark.slow
def test_a_batch_of_four_needs_little_more():
    """The values that 20 sequential rows reach, in at most 32 rows of batches of four."""
    ratios = []
    for seed in range(3):
        goal = mc.optimise(branin, PLANE, evaluations=20, seed=seed).value
        opt, rows = mc.Optimiser(PLANE, seed=seed), 0
        while rows < 40:
            for row in opt.ask(4):
                opt.tell(row, branin(**row))
            rows += 4
            if opt.best().value <= goal + 0.05:
                break
        ratios.append(rows / 20)
    assert np.median(ratios) <= 1.6


def test_bad_input_is_named(best):
    opt = mc.Optimiser(PLANE)
    with pytest.raises(SpaceError, match="column 'x': must be from -5 to 10, got 11"):
        opt.tell({"x": 11.0, "y": 1.0}, 1.0)
    with pytest.raises(ValueError, match="tell takes the value of the row"):
        opt.tell({"x": 1.0, "y": 1.0})
    with pytest.raises(ValueError, match="'value' of a row is one number, got 'low'"):
        opt.tell({"x": 1.0, "y": 1.0}, "low")
    with pytest.raises(ValueError, match="a cost is a positive number"):
        opt.tell({"x": 1.0, "y": 1.0}, 1.0, cost=-1.0)
    with pytest.raises(ValueError, match="nothing was told yet"):
        opt.best()
    with pytest.raises(ValueError, match="did you mean 'expected-improvement'"):
        mc.Optimiser(PLANE, acquisition="expected_improvement")
    with pytest.raises(ValueError, match="limits of 'w' need low < high"):
        mc.Optimiser(PLANE, limits={"w": (3.0, 1.0)})
    with pytest.raises(ValueError, match="unknown objective to maximise 'b'"):
        mc.Optimiser(PLANE, objectives=["a", "c"], maximise=["b"])
    opt.tell({"x": 1.0, "y": 1.0}, 1.0)
    with pytest.warns(UserWarning, match="was told before, as evaluation 1, with the same value"):
        opt.tell({"x": 1.0, "y": 1.0}, 1.0)
    opt.tell({"x": 1.0, "y": 2.0}, float("nan"))
    assert opt.history[-1].failed and opt.history[-1].note == "the value was not finite"
    with pytest.raises(ValueError, match=r"none of 5 evaluations gave a value\. The last: TypeError"):
        mc.optimise(lambda x: x, PLANE, evaluations=5)
    limited = mc.Optimiser(PLANE, limits={"w": (0.0, 1.0)})
    with pytest.raises(ValueError, match=r"tell takes a dict of \['value', 'w'\]"):
        limited.tell({"x": 1.0, "y": 1.0}, 1.0)
    limited.tell({"x": 1.0, "y": 1.0}, {"value": 1.0, "w": 2.0})
    with pytest.raises(ValueError, match="none of the 1 rows told is feasible"):
        limited.best()


def test_a_constant_function_is_named():
    with pytest.warns(UserWarning, match="was 3 at all 5 rows told: there is nothing to learn"):
        found = mc.optimise(lambda x, y: 3.0, PLANE, evaluations=6)
    assert found.value == 3.0 and len({tuple(e.point.values()) for e in found.history}) == 6


def test_rows_of_a_small_space_are_not_asked_twice():
    opt = mc.Optimiser({"n": range(3), "k": ["a", "b", "c"]}, initial=3)
    rows = []
    for _ in range(9):
        rows.append(opt.ask())
        opt.tell(rows[-1], float(rows[-1]["n"]) + len(rows) * 1e-3)
    assert len({tuple(row.values()) for row in rows}) == 9


def test_programs_are_compiled_once_a_doubling(best):
    from mercer.decide import climb, surrogate

    opt = told(best, 17)
    opt.ask()
    opt.forget_pending()
    before = climb._ascend._cache_size(), surrogate._log_posterior_and_gradient._cache_size()
    for e in best.history[17:25]:
        opt.tell(e.point, e.value)
        opt.ask()
        opt.forget_pending()
    assert (climb._ascend._cache_size(), surrogate._log_posterior_and_gradient._cache_size()) == before
