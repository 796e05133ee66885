"""Splines as Gaussian processes. GPML 6.2.1, 6.3; catalogue REL6-REL9;
published claims of 6.3.1 and exercise 6.7.3.
"""

import numpy as np
import pandas as pd
import pytest
from scipy.interpolate import CubicSpline, RBFInterpolator, make_smoothing_spline
from sklearn.base import clone
from sklearn.model_selection import cross_val_score

import mercer as mc
from mercer import kernels as k
from mercer.kernels.checks import check_psd
from mercer.relatives import Polyharmonic, SmoothingSpline, ThinPlate, ramps
from mercer.relatives.thin_plate import green, monomials

RNG = np.random.default_rng(11)
N = 40
X = RNG.permutation(np.linspace(2.0, 9.0, N) + RNG.uniform(-0.08, 0.08, N))
Y = 5.0 + np.sin(X) + 0.2 * RNG.normal(size=N)
ORDER = np.argsort(X)
XS = np.linspace(X.min(), X.max(), 57)
BEYOND = np.array([-3.0, 0.0, 1.5, 9.5, 12.0, 15.0])
X2 = RNG.uniform(-2, 3, (50, 2))
Y2 = np.sin(X2[:, 0]) * X2[:, 1] + 0.1 * RNG.normal(size=50)
XS2 = RNG.uniform(-3, 4, (9, 2))


# ------------------------------------------------------------------------------------------------- one column


@pytest.mark.parametrize("smoothing", [1e-4, 0.01, 1.0, 100.0])
def test_the_mean_is_scipys_smoothing_spline(smoothing):
    """At equal smoothing = noise variance / process variance: the curve and its derivative;
    linear beyond the data.
    """
    ours, reference = (
        SmoothingSpline(smoothing).fit(X, Y),
        make_smoothing_spline(X[ORDER], Y[ORDER], lam=smoothing),
    )
    np.testing.assert_allclose(ours.predict(XS), reference(XS), rtol=1e-8)
    np.testing.assert_allclose(ours.predict(XS, derivative=1), reference(XS, 1), rtol=1e-6, atol=1e-8)
    assert ours.noise_variance_ / ours.variance_ == pytest.approx(smoothing, rel=1e-14)
    low, high = ours.predict([X.min(), X.max()]), ours.predict([X.min(), X.max()], derivative=1)
    left, right = X.min() > BEYOND, X.max() < BEYOND
    np.testing.assert_allclose(
        ours.predict(BEYOND[left]), low[0] + high[0] * (BEYOND[left] - X.min()), rtol=1e-9
    )
    np.testing.assert_allclose(
        ours.predict(BEYOND[right]), low[1] + high[1] * (BEYOND[right] - X.max()), rtol=1e-9
    )


def test_weights_and_generalised_cross_validation_are_scipys():
    weight = RNG.uniform(0.3, 3.0, N)
    ours = SmoothingSpline(0.3).fit(X, Y, sample_weight=weight)
    reference = make_smoothing_spline(X[ORDER], Y[ORDER], w=weight[ORDER], lam=0.3)
    np.testing.assert_allclose(ours.predict(XS), reference(XS), rtol=1e-8)
    np.testing.assert_allclose(
        SmoothingSpline("gcv").fit(X, Y).predict(XS), make_smoothing_spline(X[ORDER], Y[ORDER])(XS), rtol=1e-5
    )


@pytest.mark.representative("1")
@pytest.mark.parametrize("order", [1, 2, 3])
def test_against_the_dense_gaussian_process(order):
    """Mean, variance, evidence (2.45) and degrees of freedom for every order, in the units of the data."""
    spline = SmoothingSpline(0.5, order=order).fit(X, Y)
    start = -3.5
    gp = mc.GP(k.IntegratedWiener(order - 1, spline.variance_), basis=mc.means.Polynomial(order - 1))
    dense = gp.condition(X[:, None] - start, Y, noise_variance=spline.noise_variance_, solver="dense")
    for at in (XS, BEYOND):
        mean, std = spline.predict(at, return_std=True)
        expected_mean, expected_std = dense.mean_and_std(at[:, None] - start, latent=True)
        np.testing.assert_allclose(mean, expected_mean, rtol=1e-6)
        np.testing.assert_allclose(std, expected_std, rtol=1e-5)
    assert spline.log_evidence_ == pytest.approx(dense.log_evidence, rel=1e-7)
    assert spline.degrees_of_freedom_ == pytest.approx(dense.degrees_of_freedom(), rel=1e-6)


@pytest.mark.parametrize("order, derivative", [(2, 1), (3, 1), (3, 2)])
def test_derivatives_by_differences_of_draws(order, derivative):
    """Mean and standard deviation, inside the data and beyond them:
    differences of the exact posterior of nearby values.
    """
    spline = SmoothingSpline(0.5, order=order).fit(X, Y)
    h = 0.02 if derivative == 1 else 0.05
    stencil = np.array([-0.5, 0.5] if derivative == 1 else [-1.0, 0.0, 1.0])
    weights = np.array([-1.0, 1.0] if derivative == 1 else [1.0, -2.0, 1.0]) / h**derivative
    start, at = -4.0, np.array([-1.0, 3.3, 6.0, 11.0])
    gp = mc.GP(k.IntegratedWiener(order - 1, spline.variance_), basis=mc.means.Polynomial(order - 1))
    dense = gp.condition(X[:, None] - start, Y, noise_variance=spline.noise_variance_)
    mean, std = spline.predict(at, return_std=True, derivative=derivative)
    for i, x in enumerate(at):
        near = (x + h * stencil - start)[:, None]
        assert mean[i] == pytest.approx(weights @ dense.mean(near), abs=3e-3)
        assert std[i] == pytest.approx(
            np.sqrt(weights @ dense.covariance(near, latent=True) @ weights), rel=0.03
        )


def test_smoothing_and_noise_by_the_evidence():
    """The smoothing has the largest evidence, over its neighbours and over other variances;
    the noise is recovered.
    """
    best = SmoothingSpline().fit(X, Y)
    for factor in (0.9, 1.1):
        assert SmoothingSpline(factor * best.smoothing_).fit(X, Y).log_evidence_ < best.log_evidence_
        for process, noise in ((factor, 1.0), (1.0, factor)):
            gp = mc.GP(k.IntegratedWiener(1, process * best.variance_), basis=mc.means.Polynomial(1))
            other = gp.condition(X[:, None], Y, noise_variance=noise * best.noise_variance_).log_evidence
            assert other < best.log_evidence_
    assert np.sqrt(best.noise_variance_) == pytest.approx(0.2, rel=0.3)
    assert 2.0 < best.degrees_of_freedom_ < N


def test_limits_of_the_smoothing():
    """Much: the least-squares line; little: the natural interpolating spline."""
    line = np.polyfit(X, Y, 1)
    straight = SmoothingSpline(1e12).fit(X, Y)
    np.testing.assert_allclose(straight.predict(XS), np.polyval(line, XS), rtol=1e-8)
    assert straight.degrees_of_freedom_ == pytest.approx(2.0, abs=1e-6)
    interpolant = CubicSpline(X[ORDER], Y[ORDER], bc_type="natural")
    np.testing.assert_allclose(SmoothingSpline(1e-12).fit(X, Y).predict(XS), interpolant(XS), rtol=1e-6)


def test_ten_thousand_data_where_banded_solutions_lose_their_digits():
    """With a smoothing this large the spline is the line to eleven digits, and stays it."""
    x = np.sort(RNG.uniform(0, 1, 10_000))
    y = np.sin(8 * x) + 0.2 * RNG.normal(size=x.size)
    spline = SmoothingSpline(1e13).fit(x, y)
    np.testing.assert_allclose(
        spline.predict([0.0, 1.0]), np.polyval(np.polyfit(x, y, 1), [0.0, 1.0]), rtol=1e-6
    )


def test_the_answer_does_not_depend_on_units_order_or_origin():
    best = SmoothingSpline().fit(X, Y)
    other = SmoothingSpline().fit(1000.0 * X[ORDER, None] - 5e3, 100.0 * Y[ORDER] - 7.0)
    np.testing.assert_allclose(other.predict(1000.0 * XS - 5e3), 100.0 * best.predict(XS) - 7.0, rtol=1e-5)
    assert other.smoothing_ == pytest.approx(best.smoothing_ * 1e9, rel=1e-3)
    assert other.noise_variance_ == pytest.approx(best.noise_variance_ * 1e4, rel=1e-3)


def test_repeated_inputs_are_averaged():
    """Two data at one place are one of double weight; the noise is learned from what they differ by."""
    x, y = np.append(X, X[:5]), np.append(Y, Y[:5] + 0.1)
    weight = np.where(np.arange(N) < 5, 2.0, 1.0)
    merged = SmoothingSpline(0.3).fit(X, np.where(np.arange(N) < 5, Y + 0.05, Y), sample_weight=weight)
    np.testing.assert_allclose(SmoothingSpline(0.3).fit(x, y).predict(XS), merged.predict(XS), rtol=1e-9)


def test_intervals_and_draws():
    """The interval of the curve is inside that of y; draws have its moments, also before the first datum."""
    spline = SmoothingSpline(0.3).fit(X, Y)
    at = np.array([0.0, 1.0, 5.0, 9.5])
    mean, std = spline.predict(at, return_std=True)
    for latent, total in ((True, std**2), (False, std**2 + spline.noise_variance_)):
        low, high = spline.predict_interval(at, 0.9, latent=latent)
        np.testing.assert_allclose(high - low, 2 * 1.6448536269514722 * np.sqrt(total), rtol=1e-9)
        np.testing.assert_allclose(0.5 * (high + low), mean, rtol=1e-12)
        draws = spline.sample_y(at, 4000, random_state=1, latent=latent)
        assert draws.shape == (4, 4000)
        assert (np.abs(draws.mean(1) - mean) < 5 * np.sqrt(total / 4000)).all()
        np.testing.assert_allclose(draws.var(1), total, rtol=0.15)
    with pytest.raises(ValueError, match="strictly between 0 and 1"):
        spline.predict_interval(at, 1.0)


def test_intervals_hold_what_they_promise():
    """Of curves drawn from the model, 95 % intervals of the curve hold 95 %."""
    x, held, rng = np.linspace(0, 1, 30), [], np.random.default_rng(3)
    K = k.IntegratedWiener(1, 200.0)(x[:, None]) + 1e-12 * np.eye(30)
    L = np.linalg.cholesky(K)
    for _ in range(40):
        f = 1.0 - 3.0 * x + L @ rng.normal(size=30)
        low, high = (
            SmoothingSpline(0.04 / 200.0)
            .fit(x, f + 0.2 * rng.normal(size=30))
            .predict_interval(x, latent=True)
        )
        held.append(np.mean((low < f) & (f < high)))
    assert np.mean(held) == pytest.approx(0.95, abs=0.03)


@pytest.mark.slow
def test_random_ramps_become_the_spline():
    """(6.31-6.32): the covariance converges as 1 / N, and so does the posterior mean."""
    x, y = np.linspace(0.05, 0.95, 12)[:, None], np.sin(6 * np.linspace(0.05, 0.95, 12))
    limit, sizes = k.IntegratedWiener(1), (50, 100, 200)
    errors = [np.abs(k.Features(ramps(size))(x) - limit(x)).max() for size in sizes]
    np.testing.assert_allclose(np.divide(errors[:-1], errors[1:]), 2.0, rtol=0.05)

    def mean(kernel):
        return mc.GP(kernel, basis=mc.means.Polynomial(1)).condition(x, y, noise_variance=1e-3).mean(x)

    expected = SmoothingSpline(1e-3).fit(x[:, 0], y).predict(x)
    np.testing.assert_allclose(mean(limit), expected, rtol=1e-8)
    gaps = [np.abs(mean(k.Features(ramps(size))) - expected).max() for size in sizes]
    assert gaps[2] < 0.35 * gaps[0] < 0.01


def test_the_prior_is_rougher_than_the_mean():
    """Draws have one derivative; the mean has continuous second ones (third differences do not blow up)."""
    spline = SmoothingSpline(0.3).fit(X, Y)

    def third(h):
        at = 5.0 + h * np.arange(200)
        mean, draw = spline.predict(at), spline.sample_y(at, 1, random_state=2, latent=True)[:, 0]
        return np.abs(np.diff(mean, 2)).max() / h**2, np.abs(np.diff(draw, 2)).max() / h**2

    coarse, fine = third(4e-3), third(1e-3)
    assert fine[0] < 1.5 * coarse[0]
    assert fine[1] > 1.3 * coarse[1]


def test_scikit_learn_conventions():
    spline, table = clone(SmoothingSpline(0.1, order=3)), pd.DataFrame({"x": X, "y": Y})
    expected = spline.fit(X, Y).predict(XS)
    np.testing.assert_array_equal(spline.fit(table["x"], table["y"]).predict(XS[:, None]), expected)
    np.testing.assert_array_equal(spline.fit(table[["x"]], table["y"]).predict(list(XS)), expected)
    assert spline.get_params() == {"smoothing": 0.1, "order": 3}
    assert cross_val_score(SmoothingSpline(), X[:, None], Y, cv=3).mean() > 0.5
    assert cross_val_score(ThinPlate(), X2, Y2, cv=3).mean() > 0.5


def test_bad_input():
    with pytest.raises(ValueError, match="at least 3 different inputs"):
        SmoothingSpline().fit([0.0, 1.0], [1.0, 2.0])
    with pytest.raises(ValueError, match="and there are 2"):
        SmoothingSpline().fit([0.0, 1.0, 1.0, 0.0], [1.0, 2.0, 3.0, 4.0])
    with pytest.raises(ValueError, match="row 1"):
        SmoothingSpline().fit([0.0, np.nan, 2.0, 3.0], np.ones(4))
    with pytest.raises(ValueError, match="row 3"):
        SmoothingSpline().fit(np.arange(4.0), [0.0, 1.0, 2.0, np.inf])
    with pytest.raises(ValueError, match="use ThinPlate"):
        SmoothingSpline().fit(X2, Y2)
    with pytest.raises(ValueError, match="smoothing must be"):
        SmoothingSpline(-1.0).fit(X, Y)
    with pytest.raises(ValueError, match="smoothing must be"):
        SmoothingSpline("aic").fit(X, Y)
    with pytest.raises(ValueError, match="order must be"):
        SmoothingSpline(order=0).fit(X, Y)
    with pytest.raises(ValueError, match="derivatives 0"):
        SmoothingSpline(1.0).fit(X, Y).predict(XS, derivative=2)
    with pytest.raises(ValueError, match="sample_weight must be positive"):
        SmoothingSpline(1.0).fit(X, Y, sample_weight=np.zeros(N))
    with pytest.raises(ValueError, match="order must be a whole number from 3"):
        ThinPlate(order=2).fit(RNG.normal(size=(9, 4)), np.ones(9))
    with pytest.raises(ValueError, match="lie on a curve or plane"):
        ThinPlate().fit(np.outer(np.arange(9.0), [1.0, 2.0]), np.arange(9.0) ** 2)
    with pytest.raises(ValueError, match="has 1 columns"):
        ThinPlate(1.0).fit(X2, Y2).predict(XS)


def test_data_on_a_line_are_no_trouble():
    """Nothing is left for the noise; a constant, and three data."""
    spline = SmoothingSpline().fit(X, 2.0 - 3.0 * X)
    np.testing.assert_allclose(spline.predict(BEYOND), 2.0 - 3.0 * BEYOND, rtol=1e-6)
    np.testing.assert_allclose(SmoothingSpline().fit(X, np.ones(N)).predict(BEYOND), 1.0, rtol=1e-9)
    low, high = SmoothingSpline().fit([0.0, 1.0, 2.0], [0.0, 1.0, 0.5]).predict_interval([0.5])
    assert np.isfinite([low, high]).all() and low < high


# ------------------------------------------------------------------------------------------------- several
# columns


@pytest.mark.parametrize("smoothing", [1e-3, 0.1, 10.0])
def test_the_surface_is_scipys(smoothing):
    """RBFInterpolator leaves out the constant 1 / 8 pi of the thin plate."""
    ours = ThinPlate(smoothing).fit(X2, Y2)
    reference = RBFInterpolator(X2, Y2, kernel="thin_plate_spline", smoothing=8 * np.pi * smoothing)
    np.testing.assert_allclose(ours.predict(XS2), reference(XS2), rtol=1e-8, atol=1e-9)


@pytest.mark.slow
@pytest.mark.representative("1-2-cubic")
@pytest.mark.parametrize(
    "d, order, kernel", [(3, 2, "linear"), (2, 3, None), (1, 2, "cubic"), (3, 3, "cubic")]
)
def test_other_dimensions_and_orders(d, order, kernel):
    """Against the equations [G + lambda I, H; H', 0] themselves, and scipy's r and r^3."""
    Z, y, at = RNG.normal(size=(30, d)), RNG.normal(size=30), RNG.normal(size=(7, d))
    ours = ThinPlate(0.2, order=order).fit(Z, y)
    G, H = np.asarray(green(Z, Z, order)), monomials(Z, order)
    q = H.shape[1]
    solved = np.linalg.solve(
        np.block([[G + 0.2 * np.eye(30), H], [H.T, np.zeros((q, q))]]), np.append(y, np.zeros(q))
    )
    expected = np.asarray(green(at, Z, order)) @ solved[:30] + monomials(at, order) @ solved[30:]
    np.testing.assert_allclose(ours.predict(at), expected, rtol=1e-7, atol=1e-8)
    if kernel is not None:
        constant = float(green(np.ones((1, d)) / np.sqrt(d), np.zeros((1, d)), order)[0, 0])
        reference = RBFInterpolator(Z, y, kernel=kernel, smoothing=0.2 / abs(constant), degree=order - 1)
        np.testing.assert_allclose(ours.predict(at), reference(at), rtol=1e-7, atol=1e-8)


def test_on_one_column_it_is_the_smoothing_spline():
    line, plate = SmoothingSpline(0.3).fit(X, Y), ThinPlate(0.3).fit(X, Y)
    for found, expected in zip(plate.predict(BEYOND, True), line.predict(BEYOND, True), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-7)
    assert plate.log_evidence_ == pytest.approx(line.log_evidence_, rel=1e-9)
    assert plate.noise_variance_ == pytest.approx(line.noise_variance_, rel=1e-9)


def test_polynomials_are_reproduced_and_the_limits_hold():
    plane = 2.0 + X2 @ [1.0, -3.0]
    np.testing.assert_allclose(ThinPlate(0.5).fit(X2, plane).predict(XS2), 2.0 + XS2 @ [1.0, -3.0], rtol=1e-8)
    coefficients = np.linalg.lstsq(monomials(X2, 2), Y2, rcond=None)[0]
    np.testing.assert_allclose(
        ThinPlate(1e9).fit(X2, Y2).predict(XS2), monomials(XS2, 2) @ coefficients, rtol=1e-6
    )
    np.testing.assert_allclose(ThinPlate(1e-9).fit(X2, Y2).predict(X2), Y2, atol=1e-6)


def test_turning_and_stretching_the_plane():
    turn = np.array([[0.6, -0.8], [0.8, 0.6]])
    best, turned = ThinPlate().fit(X2, Y2), ThinPlate().fit(10.0 * X2 @ turn, Y2)
    np.testing.assert_allclose(turned.predict(10.0 * XS2 @ turn), best.predict(XS2), atol=1e-3)
    assert turned.smoothing_ == pytest.approx(100.0 * best.smoothing_, rel=1e-2)
    given = ThinPlate(0.05).fit(X2, Y2)
    stretched = ThinPlate(5.0).fit(10.0 * X2 @ turn, Y2)
    np.testing.assert_allclose(stretched.predict(10.0 * XS2 @ turn), given.predict(XS2), rtol=1e-9)


@pytest.mark.slow
def test_the_smoothing_of_the_plate_has_the_largest_evidence():
    best = ThinPlate().fit(X2, Y2)
    for factor in (0.8, 1.25):
        assert ThinPlate(factor * best.smoothing_).fit(X2, Y2).log_evidence_ < best.log_evidence_
    low, high = best.predict_interval(X2)
    assert np.mean((low < Y2) & (high > Y2)) > 0.9


@pytest.mark.slow
def test_the_kernel_of_the_plate():
    """A covariance for any anchors, and with polynomials of vague weight the anchors do not matter."""
    posteriors = []
    basis = mc.means.Features(lambda X: monomials(X, 2), name="plane")
    for anchors in ([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]], [[-2.0, 1.0], [1.0, 3.0], [2.0, -1.0]]):
        kernel = Polyharmonic(2, 3.0, anchors=anchors)
        assert check_psd(kernel, X2)
        np.testing.assert_allclose(kernel(np.array(anchors)), 3.0 * np.eye(3), atol=1e-12)
        posteriors.append(mc.GP(kernel, basis=basis).condition(X2, Y2, noise_variance=0.01))
    first, second = posteriors
    np.testing.assert_allclose(first.mean(XS2), second.mean(XS2), rtol=1e-8)
    np.testing.assert_allclose(first.variance(XS2), second.variance(XS2), rtol=1e-7)
    assert first.log_evidence == pytest.approx(second.log_evidence, rel=1e-9)
    with pytest.raises(ValueError, match="3 points of 2 columns"):
        Polyharmonic(2, anchors=[[0.0, 1.0]])(X2)
