"""Ask and tell: the same seed gives the same rows, pending rows are respected, bad input is named."""

import numpy as np
import pytest

import mercer as mc
from mercer.decide import SpaceError

PLANE = {"x": (-5.0, 10.0), "y": (0.0, 15.0)}


def branin(x, y):
    inner = y - 5.1 / (4 * np.pi**2) * x**2 + 5 / np.pi * x - 6
    return inner**2 + 10 * (1 - 1 / (8 * np.pi)) * np.cos(x) + 10


@pytest.fixture(scope="module")
def best():
    return mc.optimise(lambda x, y: branin(x, y), PLANE, evaluations=25, seed=0)


def test_the_least_value_is_found(best):
    assert best.value - 0.397887 < 0.1
    assert best.value == branin(**best.point) == min(e.value for e in best.history)
    assert len(best.history) == 25


def test_the_same_seed_gives_the_same_rows_also_one_at_a_time(best):
    opt = mc.Optimiser(PLANE, seed=0)
    for evaluation in best.history[:12]:
        row = opt.ask()
        assert row == evaluation.point
        opt.tell(row, branin(**row))


def test_asked_rows_are_pending_until_told(best):
    opt = mc.Optimiser(PLANE, seed=1)
    for evaluation in best.history[:12]:
        opt.tell(evaluation.point, evaluation.value)
    rows = opt.ask(4)
    points = np.array([[row["x"], row["y"]] for row in rows])
    apart = np.linalg.norm(points[:, None] - points, axis=-1)[np.triu_indices(4, 1)]
    assert opt.pending == rows and apart.min() > 0.05
    opt.tell(rows[2], 1.0)
    assert opt.pending == [rows[0], rows[1], rows[3]]


def test_large_values_are_found_where_they_are_wanted():
    opt = mc.Optimiser({"x": (0.0, 1.0)}, maximise=True, initial=4)
    for _ in range(10):
        row = opt.ask()
        opt.tell(row, -((row["x"] - 0.3) ** 2))
    assert abs(opt.best().point["x"] - 0.3) < 0.02


def test_bad_input_is_named():
    opt = mc.Optimiser(PLANE)
    with pytest.raises(SpaceError, match="column 'x': must be from -5 to 10, got 11"):
        opt.tell({"x": 11.0, "y": 1.0}, 1.0)
    with pytest.raises(ValueError, match="tell takes the value of the row"):
        opt.tell({"x": 1.0, "y": 1.0})
    with pytest.raises(ValueError, match="nothing was told yet"):
        opt.best()
    with pytest.raises(ValueError, match="did you mean 'expected-improvement'"):
        mc.Optimiser(PLANE, acquisition="expected_improvement")
    opt.tell({"x": 1.0, "y": 1.0}, 1.0)
    with pytest.warns(UserWarning, match="was told before, as evaluation 1, with the same value"):
        opt.tell({"x": 1.0, "y": 1.0}, 1.0)
