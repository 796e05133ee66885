"""Values that a file names are of the kind that their field says."""

import numpy as np
import pytest

from mercer.estimators.series.clock import Clock
from mercer.persist.kinds import checked, of_kind

RIGHT = [
    ("int", 3), ("float", 3), ("bool", True), ("str | None", None), ("Any", object()), ("int | Any", "x"),
    ("tuple[str, ...] | None", ("a", "b")), ("tuple[float, float]", (1, 2.5)), ("np.ndarray", np.ones(2)),
    ("tuple[tuple[int, ...], ...]", ((1,), (2, 3))), ("dict[str, float]", {"a": 1.0}), ("list[str]", []),
    ("AbstractKernel", 3), ("Literal['probit', 'logit']", "probit"),
]  # fmt: skip
WRONG = [
    ("int", True), ("int", 3.5), ("float", "3"), ("str", None), ("bool", "yes"), ("tuple[str, ...]", "ab"),
    ("tuple[float, float]", (1.0,)), ("tuple[str, ...] | None", (1,)), ("np.ndarray", np.array(["a"])),
    ("np.ndarray | None", 1.0), ("dict[str, float]", {"a": None}), ("list[float]", ["a"]),
]  # fmt: skip


def test_kinds():
    assert [case for case in RIGHT if not of_kind(*case)] == []
    assert [case for case in WRONG if of_kind(*case)] == []


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ({"unit": 3}, "Clock.unit must be str, got int"),
        ({"unit": "fortnight"}, "counts in one of"),
        ({"step": float("inf")}, "must be finite"),
        ({"hands": 2}, "not {'hands': 2}"),
        (["day"], "Clock has"),
    ],
)
def test_a_clock_that_a_file_says(said, message):
    with pytest.raises(ValueError, match=message):
        checked(Clock, said)
    assert checked(Clock, {"unit": "day", "step": 7}) == Clock("day", step=7.0)
