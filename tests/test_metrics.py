import ast
import math
import pathlib

import numpy as np
import pytest
from scipy import integrate, stats

from mercer import metrics

RNG = np.random.default_rng(0)
N = 40
Y = RNG.normal(2.0, 3.0, N)
MEAN = Y + RNG.normal(0, 1, N)
STD = RNG.uniform(0.5, 2.0, N)
Y_TRAIN = RNG.normal(1.5, 2.5, 60)


def test_point_scores_by_hand():
    y, mean = [1.0, 2.0, 4.0], [1.0, 3.0, 2.0]
    assert metrics.mse(y, mean) == pytest.approx(5 / 3, rel=1e-15)
    assert metrics.rmse(y, mean) == pytest.approx(math.sqrt(5 / 3), rel=1e-15)
    assert metrics.mae(y, mean) == pytest.approx(1.0, rel=1e-15)
    assert metrics.smse(y, mean) == pytest.approx((5 / 3) / (14 / 9), rel=1e-14)


def test_trivial_prediction_scores_one_and_zero():
    assert metrics.smse(Y, Y.mean()) == pytest.approx(1, rel=1e-14)
    # SMSE of the training mean: 1 plus the squared distance of the two means in units of the test spread
    shift = (Y.mean() - Y_TRAIN.mean()) ** 2 / Y.var()
    assert metrics.smse(Y, Y_TRAIN.mean()) == pytest.approx(1 + shift, rel=1e-12)
    assert 0 < shift < 0.1
    assert metrics.msll(Y, Y_TRAIN.mean(), Y_TRAIN.std(), Y_TRAIN) == 0.0


def test_log_scores_against_scipy():
    log_density = stats.norm.logpdf(Y, MEAN, STD)
    trivial = stats.norm.logpdf(Y, Y_TRAIN.mean(), Y_TRAIN.std())
    assert metrics.nlpd(Y, MEAN, STD) == pytest.approx(-log_density.mean(), rel=1e-13)
    assert metrics.nlpd(Y, log_density=log_density) == pytest.approx(-log_density.mean(), rel=1e-15)
    np.testing.assert_allclose(
        metrics.sll(Y, MEAN, STD, Y_TRAIN), trivial - log_density, rtol=1e-11, atol=1e-13
    )
    assert metrics.msll(Y, MEAN, STD, Y_TRAIN) == pytest.approx((trivial - log_density).mean(), rel=1e-12)
    given = metrics.msll(Y, y_train=Y_TRAIN, log_density=log_density)
    assert given == pytest.approx(metrics.msll(Y, MEAN, STD, Y_TRAIN), rel=1e-12)


@pytest.mark.parametrize(("y", "mean", "std"), [(0.3, 0.0, 1.0), (-4.0, 1.0, 0.5), (2.0, 2.0, 3.0)])
def test_crps_against_quadrature(y, mean, std):
    cdf = stats.norm(mean, std).cdf
    below = integrate.quad(
        lambda t: cdf(t) ** 2, mean - 12 * std, y, epsabs=1e-13, points=[mean] if mean < y else None
    )
    above = integrate.quad(lambda t: (1 - cdf(t)) ** 2, y, mean + 12 * std, epsabs=1e-13)
    assert metrics.crps(y, mean, std) == pytest.approx(below[0] + above[0], rel=1e-9)


def test_crps_of_a_certain_prediction_is_the_absolute_error():
    assert metrics.crps(Y, MEAN, 1e-9) == pytest.approx(metrics.mae(Y, MEAN), abs=1e-8)


def test_coverage_counts_ends_and_takes_infinite_ones():
    assert metrics.coverage([0, 1, 2, 3], [0, 2, 0, -np.inf], [1, 3, 2, np.inf]) == 0.75


def test_calibration_curve_of_true_and_overconfident_predictions():
    z = stats.norm.ppf((np.arange(4000) + 0.5) / 4000)
    nominal, empirical = metrics.calibration_curve(z, 0.0, 1.0)
    np.testing.assert_allclose(nominal, np.linspace(0.05, 0.95, 19), rtol=1e-14)
    np.testing.assert_allclose(empirical, nominal, atol=5e-4)
    _, overconfident = metrics.calibration_curve(z, 0.0, 0.5, levels=[0.5, 0.9])
    np.testing.assert_allclose(
        overconfident, [2 * stats.norm.cdf(0.5 * stats.norm.ppf(p)) - 1 for p in (0.75, 0.95)], atol=5e-4
    )


def test_pinball_is_least_at_the_quantile_and_half_the_absolute_error_at_the_median():
    assert metrics.pinball(Y, MEAN, 0.5) == pytest.approx(metrics.mae(Y, MEAN) / 2, rel=1e-14)
    guesses = np.sort(Y)
    losses = [metrics.pinball(Y, g, 0.8) for g in guesses]
    assert np.quantile(Y, 0.8, method="inverted_cdf") == guesses[np.argmin(losses)]


def test_interval_score_is_the_two_pinball_losses():
    lower, upper = MEAN - STD, MEAN + STD
    expected = (metrics.pinball(Y, lower, 0.1) + metrics.pinball(Y, upper, 0.9)) / 0.1
    assert metrics.interval_score(Y, lower, upper, level=0.8) == pytest.approx(expected, rel=1e-13)


def test_report_agrees_with_its_parts():
    report = metrics.regression_report(Y, MEAN, STD, Y_TRAIN)
    lower, upper = stats.norm(MEAN, STD).interval(0.95)
    assert report["rmse"] == metrics.rmse(Y, MEAN)
    assert report["smse"] == metrics.smse(Y, MEAN)
    assert report["msll"] == metrics.msll(Y, MEAN, STD, Y_TRAIN)
    assert report["crps"] == metrics.crps(Y, MEAN, STD)
    assert report["coverage_95"] == metrics.coverage(Y, lower, upper)
    assert report["interval_score_95"] == pytest.approx(metrics.interval_score(Y, lower, upper), rel=1e-12)
    # interval score = (two pinball losses) / (alpha/2), here with alpha = 0.05
    assert report["pinball_025"] + report["pinball_975"] == pytest.approx(
        report["interval_score_95"] * 0.025, rel=1e-12
    )
    assert all(isinstance(value, float) for value in report.values())


def test_information_baseline_of_usps_3_against_5():
    """GPML (3.76): 0.9956 bits for 406/361 training and 418/355 test cases."""
    train, test = np.repeat([3, 5], [406, 361]), np.repeat([3, 5], [418, 355])
    frequencies = np.tile(np.array([406, 361]) / 767, (773, 1))
    assert metrics.information_bits(test, frequencies, train) == pytest.approx(0, abs=1e-15)
    certain = np.eye(2)[(test == 5).astype(int)]
    assert metrics.information_bits(test, certain, train) == pytest.approx(0.9956, abs=5e-5)
    assert metrics.information_bits(test, 1 - certain, train) == -np.inf


def test_error_reject_curve_by_hand():
    proba = np.array([[0.9, 0.1], [0.4, 0.6], [0.3, 0.7], [0.6, 0.4]])
    threshold, rejected, error, _ = metrics.error_reject_curve(["a", "a", "b", "b"], proba)
    np.testing.assert_allclose(threshold, [0.6, 0.7, 0.9])
    np.testing.assert_allclose(rejected, [0, 0.5, 0.75])
    np.testing.assert_allclose(error, [0.5, 0, 0])


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: metrics.mse(np.ones((3, 1)), np.ones(3)), r"mean has shape \(3,\) but y has shape \(3, 1\)"),
        (
            lambda: metrics.mse([1.0, np.nan], [1.0, 2.0]),
            r"y has 1 value\(s\) that are NaN or infinite.*index \(1,\)",
        ),
        (lambda: metrics.mse([], []), "y is empty"),
        (lambda: metrics.smse([2.0, 2.0], [1.0, 2.0]), "y is constant"),
        (lambda: metrics.msll(Y, MEAN, STD, [1.0, 1.0]), "y_train is constant"),
        (lambda: metrics.msll(Y, MEAN, STD), "need y_train"),
        (lambda: metrics.nlpd(Y, MEAN), "needs both mean and std"),
        (lambda: metrics.nlpd(Y, MEAN, STD, log_density=Y), "not both"),
        (lambda: metrics.crps([0.0, 1.0], [0.0, 1.0], [1.0, 0.0]), "std must be positive; 1 of 2"),
        (lambda: metrics.coverage([0.0], [1.0], [-1.0]), "lower exceeds upper in 1 of 1"),
        (lambda: metrics.calibration_curve(Y, MEAN, STD, levels=[0.5, 1.0]), "strictly between 0 and 1"),
        (lambda: metrics.pinball(Y, MEAN, 1.0), "q must lie strictly"),
        (lambda: metrics.interval_score(Y, MEAN, MEAN, level=95), "level must lie strictly"),
        (lambda: metrics.information_bits([0, 2], np.full((2, 2), 0.5), [0, 1]), "Label .*2.* in y is none"),
        (lambda: metrics.information_bits([0, 1], np.full((2, 2), 0.6), [0, 1]), "sum to 1"),
        (
            lambda: metrics.error_reject_curve([0, 1], np.full((2, 3), 1 / 3)),
            r"shape \(cases, classes\) = \(2, 2\)",
        ),
    ],
)
def test_bad_input_is_named(call, says):
    with pytest.raises(ValueError, match=says):
        call()


def test_metrics_pull_in_nothing_but_numpy():
    imported = set()
    for path in pathlib.Path(metrics.__file__).parent.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                imported |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                imported.add(node.module)
    others = {name for name in imported if not name.startswith("mercer.metrics.")}
    assert others == {"__future__", "math", "numpy", "numpy.typing", "statistics", "typing"}
