"""The lines that summaries open with: how well left-out rows are predicted."""

import numpy as np

from mercer.estimators.findings import classes_left_out, numbers_left_out, opened


def test_numbers_beside_guessing_the_mean():
    y = np.array([1.0, 2.0, 3.0, 6.0])
    said = numbers_left_out(y, y + 0.5, np.array([True, True, False, True]))
    assert "RMSE 0.5, where guessing the mean has 1.871 (93 % of the variance is explained)" in said
    assert said.endswith("3 of 4 lie in their 95 % interval")
    assert "(no better than that)" in numbers_left_out(y, -y, np.zeros(4, bool), each="value")
    assert "the only value" in numbers_left_out(y[:1], y[:1], np.ones(1, bool))
    assert "(no better than that)" in numbers_left_out(np.ones(3), np.ones(3), np.ones(3, bool))


def test_classes_beside_guessing_by_frequency():
    p = np.array([[0.9, 0.1], [0.8, 0.2], [0.6, 0.4], [0.3, 0.7]])
    said = classes_left_out(np.array([0, 0, 1, 1]), p, ["no", "yes"])
    assert "1 of 4 wrong (25.0 %; always guessing no: 50.0 %)" in said
    loss = -np.mean(np.log([0.9, 0.8, 0.4, 0.7]))
    assert f"log loss {loss:.3f} (guessing by frequency: {np.log(2):.3f})" in said
    assert "75 % sure of its answers, and right in 75 %" in said
    assert "log loss 0.000" in classes_left_out(np.zeros(2, int), np.ones((2, 1)), ["only"])


def test_what_the_opening_says_is_not_said_again():
    assert opened(["found", "note: a"], "table\nnote: a\nnote: b") == "found\nnote: a\n\ntable\nnote: b"
