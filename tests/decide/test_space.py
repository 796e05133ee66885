"""Search spaces: what people write, rows in the unit cube and back, and what is refused by name."""

import numpy as np
import pytest

from mercer.decide import Categorical, Integer, LinearConstraint, Real, Space, SpaceError

MIXED = {"rate": Real(1e-5, 1e-1, log=True), "depth": range(1, 9), "kind": ["a", "b"], "mode": [1, 2, 3]}


def test_what_people_write():
    space = Space.of({"x": (-5.0, 10.0), "depth": range(1, 9), "kind": ["a", "b", "c"]})
    assert space.columns == {
        "x": Real(-5.0, 10.0),
        "depth": Integer(1, 8),
        "kind": Categorical(("a", "b", "c")),
    }
    assert space.width == 5 and space.groups.tolist() == [0, 1, 2, 2, 2]
    assert space.continuous.tolist() == [True, False, False, False, False]
    assert space.count is None and Space.of({"d": range(3), "k": ["a", "b"]}).count == 6


def test_rows_come_back_from_the_unit_cube():
    space = Space.of(MIXED)
    for row in (
        {"rate": 1e-5, "depth": 1, "kind": "a", "mode": 3},
        {"rate": 3e-3, "depth": 8, "kind": "b", "mode": 1},
    ):
        back = space.decode(space.encode(row))
        assert back | {"rate": 0} == row | {"rate": 0}
        np.testing.assert_allclose(back["rate"], row["rate"], rtol=1e-12)
    assert space.encode({"rate": 1e-3, "depth": 1, "kind": "b", "mode": 1})[0] == pytest.approx(0.5)


def test_filling_points_are_rows_and_use_every_value():
    space = Space.of(MIXED)
    U = space.sobol(128, 0)
    np.testing.assert_allclose(space.snap(U), U, atol=1e-12)
    rows = [space.decode(u) for u in U]
    counts = np.bincount([row["depth"] for row in rows])[1:]
    assert counts.min() >= 12 and {row["mode"] for row in rows} == {1, 2, 3}
    np.testing.assert_array_equal(U, space.sobol(128, 0))


def test_different_levels_are_one_apart():
    codes = [Categorical((1, 2, 3)).encode(level) for level in (1, 2, 3)]
    assert np.linalg.norm(codes[0] - codes[1]) == pytest.approx(1.0)
    assert Categorical(("a", "b")).encode("b").tolist() == [1.0]


def test_linear_constraints_are_read_and_kept():
    space = Space.of({"x": (0.0, 10.0), "y": (0.0, 10.0)}, ["2*x + y <= 10", "x >= y - 4"])
    assert space.constraints[0].coefficients == {"x": 2.0, "y": 1.0} and space.constraints[0].limit == 10.0
    assert space.constraints[1].coefficients == {"x": -1.0, "y": 1.0} and space.constraints[1].limit == 4.0
    rows = [space.decode(u) for u in space.sobol(64, 0)]
    assert all(2 * r["x"] + r["y"] <= 10 + 1e-9 and r["x"] >= r["y"] - 4 - 1e-9 for r in rows)
    assert LinearConstraint.parse("(x - 3*y)/2 <= 1 - x").coefficients == {"x": 1.5, "y": -1.5}


@pytest.mark.parametrize(
    ("space", "message"),
    [
        ({}, "a space is a dict"),
        ({"x": (3.0, 1.0)}, "column 'x': Real needs low < high"),
        ({"x": (0.0, np.inf)}, "column 'x': Real needs finite numbers"),
        ({"x": Real(1.0, 2.0), "k": ["a"]}, "column 'k': a category needs at least two levels"),
        ({"k": ["a", "a"]}, "column 'k': levels must be different"),
        ({"n": range(0, 10, 2)}, "column 'n': a range has whole numbers in steps of one"),
        ({"n": "many"}, "column 'n': write"),
    ],
)
def test_spaces_that_make_no_sense(space, message):
    with pytest.raises(SpaceError, match=message):
        Space.of(space)


def test_a_log_scale_needs_positive_ends():
    with pytest.raises(SpaceError, match="log=True needs low > 0"):
        Real(0.0, 1.0, log=True)


@pytest.mark.parametrize(
    ("constraint", "message"),
    [
        ("x * y <= 1", "is not linear"),
        ("x == 1", "needs <= or >="),
        ("z <= 1", "unknown column of numbers 'z'"),
        ("kind <= 1", "unknown column of numbers 'kind'"),
        ("x + y >= 100", "no point of the space holds"),
    ],
)
def test_constraints_that_make_no_sense(constraint, message):
    with pytest.raises(SpaceError, match=message):
        Space.of({"x": (0.0, 1.0), "y": (0.0, 1.0), "kind": ["a", "b"]}, [constraint])


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"rate": 1.0}, "column 'rate': must be from 1e-05 to 0.1, got 1"),
        ({"depth": 2.5}, "column 'depth': must be a whole number"),
        ({"depth": 9}, "column 'depth': must be from 1 to 8"),
        ({"kind": "A"}, "column 'kind': unknown level 'A': did you mean 'a'"),
        ({"rate": "fast"}, "column 'rate': must be a number"),
        ({"colour": 1}, r"\['colour'\] unknown"),
    ],
)
def test_rows_outside_the_space_are_named(changed, message):
    row = {"rate": 1e-3, "depth": 3, "kind": "a", "mode": 1} | changed
    with pytest.raises(SpaceError, match=message):
        Space.of(MIXED).encode(row)
