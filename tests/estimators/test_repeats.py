"""Rows that repeat others: copies count once, replicates always."""

import numpy as np
import pytest

import mercer as mc
from mercer.estimators.regression.repeats import copies


def problem(n=40):
    rng = np.random.default_rng(0)
    X = rng.uniform(0, 1, (n, 2))
    return X, np.sin(5 * X[:, 0]) + X[:, 1], rng


def test_a_table_given_twice_teaches_what_it_teaches_once():
    X, f, rng = problem()
    y = f + 0.3 * rng.normal(size=len(f))
    once, twice = mc.GPRegressor().fit(X, y), mc.GPRegressor().fit(np.r_[X, X], np.r_[y, y])
    assert twice.noise_variance_ == once.noise_variance_
    np.testing.assert_array_equal(twice.predict(X), once.predict(X))
    assert "40 of 80 rows are copies of others" in twice.summary()
    assert not any("cop" in note for note in once.posterior_.notes)


def test_what_is_said_of_rows_is_said_of_all_of_them(tmp_path):
    X, f, rng = problem()
    y = f + 0.1 * rng.normal(size=len(f))
    y[3] += 5.0
    order = rng.permutation(np.r_[np.arange(40), [3, 3, 7]])
    model = mc.GPRegressor(likelihood="student-t").fit(X[order], y[order])
    np.testing.assert_array_equal(order[model.outliers_.rows], [3, 3, 3])
    loo, (lower, upper) = model.loo(), model.loo_interval()
    once = model.posterior_.loo()
    for values in (loo.mean, loo.variance, loo.log_density, lower, upper):
        assert values.shape == order.shape
        assert len(np.unique(values[order == 3])) == 1
    assert set(loo.mean) == set(once.mean)
    model.name_rows([f"row {i}" for i in order])
    assert model.outliers_.name(model.outliers_.rows[0]) == "row 3"
    mc.save(model, tmp_path / "model")
    again = mc.load(tmp_path / "model")
    np.testing.assert_allclose(again.loo().mean, loo.mean, rtol=1e-9)
    assert again.posterior_.notes == model.posterior_.notes
    assert again.outliers_.index == model.outliers_.index


def test_replicates_are_evidence_about_the_noise():
    X, f, rng = problem()
    X, y = np.r_[X, X], np.r_[f, f] + 0.3 * rng.normal(size=80)
    merged, kept = (mc.GPRegressor(repeats=how).fit(X, y) for how in ("merge", "keep"))
    assert merged.noise_variance_ == kept.noise_variance_
    assert 0.06 < merged.noise_variance_ < 0.14


def test_rounded_replicates_agree_by_chance():
    rng = np.random.default_rng(0)
    doses = np.repeat([0.0, 10.0, 20.0, 30.0], 12)[:, None]
    for step in (1.0, 0.1, 0.7):  # of noise of standard deviation 1
        y = step * np.round((doses[:, 0] + rng.normal(size=48)) / step)
        assert copies(doses, y) is None
        twice = copies(np.r_[doses, doses], np.r_[y, y])
        assert (twice is None) == (step > 0.1)  # what was rounded less does not agree half of the time


def test_scores_that_never_differ_are_copies():
    scores = np.round(3 * np.random.default_rng(0).normal(size=30))
    apart = np.arange(30.0)[:, None]
    X, y = np.r_[apart, apart, [[4.0]]], np.r_[scores, scores, scores[4] + 1.0]
    assert copies(X[:-1], y[:-1]).count == 30
    assert copies(X, y).count == 30  # one that does is a replicate beside copies


def test_known_noise_counts_every_row():
    X, f, _ = problem(20)
    for noise in (mc.fixed(0.1), np.full(40, 0.1)):
        model = mc.GPRegressor(noise_variance=noise).fit(np.r_[X, X], np.r_[f, f])
        assert model.posterior_.y.shape == (40,)


@pytest.mark.parametrize("kind", ["numbers", "text"])
def test_copies_of_a_table(kind):
    rng = np.random.default_rng(1)
    X = rng.integers(0, 3, (60, 3)).astype(float)
    X[X == 0] *= rng.choice([-1.0, 1.0], (X == 0).sum())  # -0 is 0
    y = rng.normal(size=60)
    again = rng.integers(0, 60, 20)
    X, y = np.r_[X, X[again]], np.r_[y, y[again]]
    rows = [(*row, target) for row, target in zip(X.tolist(), y, strict=True)]
    table = X if kind == "numbers" else np.array(X + 0.0, dtype=object)
    found = copies(table, y)
    assert found.count == len(rows) - len(set(rows)) > 0
    firsts = sorted({row: rows.index(row) for row in rows}.values())
    np.testing.assert_array_equal(found.kept, firsts)
    assert all(rows[found.kept[place]] == row for place, row in zip(found.rows, rows, strict=True))
    assert copies(table, y, "keep") is None


def test_a_wrong_word_is_answered():
    X, f, _ = problem(5)
    with pytest.raises(ValueError, match="did you mean 'merge'"):
        mc.GPRegressor(repeats="merged").fit(X, f)


def test_coverage_is_that_of_all_rows():
    X, f, rng = problem()
    y = f + 0.1 * rng.normal(size=len(f))
    once = mc.GPRegressor(max_evaluations=0).fit(X, y)
    twice = mc.GPRegressor(max_evaluations=0).fit(np.r_[X, X], np.r_[y, y])
    levels = [0.5, 0.95]
    n, shares = twice.coverage(levels)
    assert n == 2 * len(y)
    np.testing.assert_array_equal(shares, once.coverage(levels)[1])
