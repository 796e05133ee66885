import numpy as np
import pytest

from mercer.decide import decide, empirical_risk, expected_class_loss, thresholds

P = np.random.default_rng(0).dirichlet([1.0, 1.0, 1.0], 200)
LOSS = np.array([[0.0, 1.0, 3.0], [2.0, 0.0, 0.5], [7.0, 1.5, 0.0]])


def test_equal_costs_give_the_bayes_classifier():
    found = decide(P)
    np.testing.assert_array_equal(found.choice, P.argmax(axis=1))
    np.testing.assert_allclose(found.risk, 1 - P.max(axis=1), rtol=0, atol=1e-15)
    assert not found.refused.any()


def test_least_expected_loss_by_enumeration():
    found = decide(P, LOSS)
    for p, choice, risk in zip(P, *found, strict=True):
        costs = [sum(p[c] * LOSS[c, a] for c in range(3)) for a in range(3)]
        assert costs[choice] == min(costs) and risk == pytest.approx(min(costs), rel=1e-14)
    np.testing.assert_allclose(
        expected_class_loss(P, LOSS)[np.arange(200), found.choice], found.risk, rtol=1e-15
    )
    assert np.any(found.choice != P.argmax(axis=1))


def test_a_column_of_its_own_is_the_same_as_a_cost_of_refusing():
    wide = np.column_stack([LOSS, np.full(3, 0.4)])
    extra, refusing = decide(P, wide), decide(P, LOSS, reject=0.4)
    np.testing.assert_array_equal(np.where(extra.choice == 3, -1, extra.choice), refusing.choice)
    np.testing.assert_allclose(extra.risk, refusing.risk, rtol=1e-14)
    assert 0 < refusing.refused.sum() < 200


def test_threshold_gap_and_cost():
    top = np.sort(P, axis=1)
    by_threshold, by_cost = decide(P, reject=("threshold", 0.7)), decide(P, reject=("cost", 0.3))
    np.testing.assert_array_equal(by_threshold.choice, by_cost.choice)
    np.testing.assert_array_equal(by_threshold.refused, top[:, -1] < 0.7)
    assert (
        np.isnan(by_threshold.risk[by_threshold.refused]).all()
        and (by_cost.risk[by_cost.refused] == 0.3).all()
    )
    np.testing.assert_array_equal(decide(P, reject=("gap", 0.25)).refused, top[:, 2] - top[:, 1] < 0.25)


@pytest.mark.parametrize("loss", [None, [[0, 1], [4, 0]], [[0.5, 3], [2, -1]]])
@pytest.mark.parametrize("cost", [None, 0.3, 0.9, 50.0])
def test_binary_loss_is_a_threshold_on_the_probability(loss, cost):
    lower, upper = thresholds(loss, cost)
    p = np.linspace(0, 1, 2001)
    p = p[(np.abs(p - lower) > 1e-9) & (np.abs(p - upper) > 1e-9)]
    found = decide(np.column_stack([1 - p, p]), loss, cost).choice
    np.testing.assert_array_equal(found, np.where(p < lower, 0, np.where(p > upper, 1, -1)))


def test_thresholds_by_hand():
    assert thresholds() == (0.5, 0.5)
    assert thresholds([[0, 1], [4, 0]]) == (0.2, 0.2)
    assert thresholds(reject=0.1) == pytest.approx((0.1, 0.9), rel=1e-15)
    assert thresholds(reject=0.5) == (0.5, 0.5)


def test_empirical_risk_is_the_average_loss():
    y, choice = np.array(["b", "a", "c", "c"]), np.array([1, 2, 0, -1])
    assert empirical_risk(y, choice, LOSS, reject=0.6, classes=["a", "b", "c"]) == pytest.approx(
        (0 + 3 + 7 + 0.6) / 4, rel=1e-15
    )
    assert empirical_risk([0, 1, 2, 1], [0, 2, 2, 1]) == 0.25
    assert empirical_risk([0, 1, 2], [2, 1, 1], LOSS) == pytest.approx((3 + 0 + 1.5) / 3, rel=1e-15)


def test_average_risk_foretells_the_empirical_one():
    """Labels drawn from the stated probabilities: the two agree, and no other rule does better."""
    rng = np.random.default_rng(1)
    p = rng.dirichlet([1.0, 1.0, 1.0], 40000)
    y = (rng.uniform(size=(40000, 1)) > np.cumsum(p, axis=1)).sum(axis=1).clip(max=2)
    found = decide(p, LOSS, reject=0.4)
    risk = empirical_risk(y, found.choice, LOSS, reject=0.4)
    assert risk == pytest.approx(found.risk.mean(), abs=0.01)
    assert risk < empirical_risk(y, decide(p, LOSS).choice, LOSS) < empirical_risk(y, decide(p).choice, LOSS)


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: decide([0.5, 0.5]), r"shape \(cases, classes\)"),
        (lambda: decide([[0.5, 0.6]]), "sum to 1"),
        (lambda: decide([[np.nan, 1.0]]), "non-negative and sum to 1"),
        (lambda: decide(P, [[0, 1], [1, 0]]), r"a row for each of the 3 classes.*got \(2, 2\)"),
        (lambda: decide(P, np.full((3, 3), np.inf)), "NaN or infinite"),
        (lambda: decide(P, reject=("margin", 0.5)), r'"cost" \| "threshold" \| "gap"'),
        (lambda: decide(P, reject=("threshold", 90)), "between 0 and 1"),
        (lambda: thresholds([[1, 1], [1, 0]]), "every mistake costs more"),
        (lambda: thresholds(LOSS), "each of the 2 classes"),
        (lambda: empirical_risk([0, 1], [0, -1]), r"1 of 2 cases were refused.*reject="),
        (lambda: empirical_risk(["a"], [0]), "name the classes"),
        (lambda: empirical_risk(["d"], [0], classes=["a", "b"]), "Label .*d.* is none"),
        (lambda: empirical_risk(["a"], [2], classes=["a", "b"]), "columns 0 to 1"),
        (lambda: empirical_risk([0, 1], [0]), r"\(2,\) and \(1,\)"),
    ],
)
def test_bad_input_is_named(call, says):
    with pytest.raises(ValueError, match=says):
        call()
