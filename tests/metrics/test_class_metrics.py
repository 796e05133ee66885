import numpy as np
import pytest
from sklearn.metrics import log_loss as sklearn_log_loss

from mercer import datasets, metrics

RNG = np.random.default_rng(0)
P = RNG.dirichlet([1.0, 1.5, 0.7], 60)
Y = np.array([RNG.choice(["a", "b", "c"], p=p) for p in P])
TRAIN = RNG.choice(["a", "b", "c"], p=[0.5, 0.3, 0.2], size=90)
TRUE = P[np.arange(60), np.searchsorted(["a", "b", "c"], Y)]


def test_error_rate_is_the_fraction_of_wrong_labels():
    assert metrics.error_rate([1, 2, 2, 3], [1, 2, 3, 2]) == 0.5
    assert metrics.error_rate(["x", "y"], np.array(["x", "y"], dtype=object)) == 0.0


def test_log_loss_against_scikit_learn():
    assert metrics.log_loss(Y, P) == pytest.approx(sklearn_log_loss(Y, P), rel=1e-13)
    order, names = [2, 0, 1], np.array(["c", "a", "b"])
    assert metrics.log_loss(Y, P[:, order], classes=names) == pytest.approx(metrics.log_loss(Y, P), rel=1e-15)


def test_information_is_the_gain_over_each_baseline():
    frequency = {c: np.mean(c == TRAIN) for c in "abc"}
    above_training = np.mean([np.log2(t / frequency[c]) for t, c in zip(TRUE, Y, strict=True)])
    assert metrics.information(Y, P, TRAIN) == pytest.approx(above_training, rel=1e-12)
    assert metrics.information_bits(Y, P, TRAIN) == metrics.information(Y, P, TRAIN)
    assert metrics.information(Y, P) == pytest.approx(np.mean(np.log2(3 * TRUE)), rel=1e-12)
    constant = np.tile(list(frequency.values()), (60, 1))
    assert metrics.information(Y, constant, TRAIN) == pytest.approx(0, abs=1e-14)
    certain = np.eye(3)[np.searchsorted(["a", "b", "c"], Y)]
    assert metrics.information(Y, certain, TRAIN) == pytest.approx(
        metrics.information_baseline(Y, TRAIN), rel=1e-14
    )


def test_binary_information_is_kuss_6_12():
    y, p = np.array([1, -1, 1, -1]), np.array([0.9, 0.3, 0.2, 0.5])
    kuss = (y + 1) / 2 * np.log2(p) + (1 - y) / 2 * np.log2(1 - p) + 1
    assert metrics.information(y, p) == pytest.approx(kuss.mean(), rel=1e-14)
    assert metrics.information(y, np.column_stack([1 - p, p])) == metrics.information(y, p)
    assert metrics.information(y, np.full(4, 0.5)) == 0.0
    assert metrics.information(y, (y + 1) / 2) == 1.0
    assert metrics.information([1, 1], [0.5, 0.25], classes=[-1, 1]) == pytest.approx(-0.5)


def test_information_from_logarithms_survives_underflow():
    assert metrics.information(Y, np.log(P), TRAIN, log=True) == pytest.approx(
        metrics.information(Y, P, TRAIN), rel=1e-13
    )
    sure = np.array([[-1000.0, 0.0], [0.0, -1000.0]])
    assert metrics.log_loss([0, 1], sure, log=True) == 1000.0
    assert metrics.log_loss([0, 1], np.exp(sure)) == np.inf
    assert metrics.log_loss([0, 1], [-0.25, np.log(0.5)], log=True) == pytest.approx(
        -(np.log(-np.expm1(-0.25)) + np.log(0.5)) / 2, rel=1e-14
    )


def test_information_baseline_of_usps_from_the_published_counts():
    """GPML: 0.9956 bits for 3 against 5 (3.76), 3.27 bits for ten digits."""
    three_five = metrics.information_baseline(np.repeat([3, 5], [418, 355]), np.repeat([3, 5], [406, 361]))
    assert three_five == pytest.approx(0.99558, abs=5e-6)
    train = np.repeat(np.arange(10), [767, 622, 475, 406, 409, 361, 420, 390, 377, 422])
    test = np.repeat(np.arange(10), [786, 647, 454, 418, 443, 355, 414, 402, 331, 399])
    assert metrics.information_baseline(test, train) == pytest.approx(3.2699, abs=5e-5)


def test_information_baseline_of_the_usps_files(data_dir):
    for name, published in (("usps_3v5", 0.9956), ("usps", 3.27)):
        train, test = datasets.load(name), datasets.load(name, "test")
        assert metrics.information_baseline(test.y, train.y) == pytest.approx(
            published, abs=5e-5 if name == "usps_3v5" else 5e-3
        )


def test_brier_by_hand():
    assert metrics.brier([0, 1, 2], np.eye(3)) == 0.0
    assert metrics.brier([1, 0], np.eye(2)) == 2.0
    assert metrics.brier(["a", "b", "c"], np.full((3, 3), 1 / 3)) == pytest.approx(2 / 3, rel=1e-14)
    p = np.array([0.2, 0.7, 0.9])
    assert metrics.brier([0, 1, 0], p) == pytest.approx(2 * np.mean((p - [0, 1, 0]) ** 2), rel=1e-14)


def test_reliability_by_hand():
    p = np.array([0.05, 0.1, 0.62, 0.68, 1.0])
    curve = metrics.reliability_curve([0, 1, 1, 0, 1], p, bins=4, label=1)
    np.testing.assert_array_equal(curve.cases, [2, 2, 1])
    np.testing.assert_allclose(curve.claimed, [0.075, 0.65, 1.0], rtol=1e-14)
    np.testing.assert_allclose(curve.observed, [0.5, 0.5, 1.0], rtol=1e-14)
    error = metrics.expected_calibration_error([0, 1, 1, 0, 1], p, bins=4, label=1)
    assert error == pytest.approx((2 * 0.425 + 2 * 0.15 + 0) / 5, rel=1e-13)
    top = metrics.reliability_curve([0, 1, 1, 0, 1], p, bins=1)
    assert top.claimed[0] == pytest.approx(np.mean(np.maximum(p, 1 - p)), rel=1e-14) and top.observed[
        0
    ] == pytest.approx(3 / 5)


def test_calibration_error_tells_true_probabilities_from_sharpened_ones():
    rng = np.random.default_rng(1)
    p = rng.uniform(size=20000)
    y = (rng.uniform(size=20000) < p).astype(int)
    sharpened = p**4 / (p**4 + (1 - p) ** 4)
    assert metrics.expected_calibration_error(y, p) < 0.02
    expected = np.mean(np.maximum(sharpened, 1 - sharpened) - np.where(p > 0.5, p, 1 - p))
    assert metrics.expected_calibration_error(y, sharpened) == pytest.approx(expected, abs=0.02)
    assert expected > 0.1


@pytest.mark.parametrize("by", ["largest", "gap", np.arange(60) % 7])
def test_error_reject_curve_equals_brute_force(by):
    top = np.sort(P, axis=1)
    score = {"largest": top[:, -1], "gap": top[:, -1] - top[:, -2]}[by] if isinstance(by, str) else by
    curve = metrics.error_reject_curve(Y, P, by=by, y_train=TRAIN)
    wrong = np.array(list("abc"))[P.argmax(axis=1)] != Y
    np.testing.assert_array_equal(curve.threshold, np.unique(score))
    for threshold, rejected, error, information in zip(*curve, strict=True):
        kept = score >= threshold
        assert rejected == pytest.approx(1 - kept.mean(), abs=1e-14)
        assert error == pytest.approx(wrong[kept].mean(), abs=1e-14)
        frequency = np.array([np.mean(label == TRAIN) for label in Y[kept]])
        assert information == pytest.approx(np.mean(np.log2(TRUE[kept] / frequency)), rel=1e-10)
    assert curve.rejected[0] == 0 and curve.error[0] == metrics.error_rate(
        Y, np.array(list("abc"))[P.argmax(axis=1)]
    )
    assert curve.information[0] == pytest.approx(metrics.information(Y, P, TRAIN), rel=1e-12)


def test_rejecting_by_true_probabilities_lowers_the_error():
    rng = np.random.default_rng(2)
    p = rng.uniform(size=20000)
    y = (rng.uniform(size=20000) < p).astype(int)
    curve = metrics.error_reject_curve(y, p)
    at = np.searchsorted(curve.threshold, [0.5, 0.6, 0.7, 0.8, 0.9])
    np.testing.assert_allclose(curve.rejected[at], [0, 0.2, 0.4, 0.6, 0.8], atol=0.015)
    # mean of 1 - u, u uniform on (t, 1)
    np.testing.assert_allclose(curve.error[at], [0.25, 0.2, 0.15, 0.1, 0.05], atol=0.015)


def test_report_agrees_with_its_parts():
    report = metrics.classification_report(Y, P, TRAIN)
    assert report["error_rate"] == metrics.error_rate(Y, np.array(list("abc"))[P.argmax(axis=1)])
    assert report["information"] == metrics.information(Y, P, TRAIN)
    assert report["log_loss"] == metrics.log_loss(Y, P)
    assert report["brier"] == metrics.brier(Y, P)
    assert report["calibration_error"] == metrics.expected_calibration_error(Y, P)
    assert all(isinstance(value, float) for value in report.values())


HALF = np.full((2, 2), 0.5)


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: metrics.error_rate([1, 2], [1]), r"got \(2,\) and \(1,\)"),
        (lambda: metrics.error_rate([1, 2], ["1", "2"]), "must be of the same kind"),
        (lambda: metrics.log_loss([0, 1], HALF + 0.1), "sum to 1"),
        (lambda: metrics.log_loss([0, 1], [[1.5, -0.5], [0.5, 0.5]]), "non-negative"),
        (lambda: metrics.log_loss([0, 1], HALF, log=True), "sum to 1"),
        (lambda: metrics.log_loss([0, 0], HALF), "name all with classes="),
        (lambda: metrics.log_loss([0, 1], [0.5, 1.5]), "between 0 and 1"),
        (lambda: metrics.log_loss([0, 2], HALF, classes=[0, 1]), "Label .*2.* in y is none of the classes"),
        (lambda: metrics.log_loss([0, 1], HALF, classes=[0, 0]), "different labels"),
        (lambda: metrics.log_loss([[0], [1]], HALF), r"shape \(cases,\)"),
        (lambda: metrics.information([0, 1], [[0.5, np.nan], [0.5, 0.5]]), "NaN or infinite"),
        (lambda: metrics.information([0, 1], HALF, [0, 0], classes=[0, 1]), "in y but not in y_train"),
        (lambda: metrics.reliability_curve([0, 1], HALF, bins=0), "bins must be at least 1"),
        (lambda: metrics.reliability_curve([0, 1], HALF, label=7), "Label .*7"),
        (lambda: metrics.error_reject_curve([0, 1], HALF, by="smallest"), '"largest", "gap" or a score'),
        (lambda: metrics.error_reject_curve([0, 1], HALF, by=[1.0]), "each of the 2 cases"),
    ],
)
def test_bad_input_is_named(call, says):
    with pytest.raises(ValueError, match=says):
        call()
