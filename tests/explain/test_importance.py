"""Importance against what is known: linear functions, Ishigami's, Friedman's; closed form against points."""

from __future__ import annotations

import numpy as np
import pytest

import mercer as mc
from mercer import kernels as k
from mercer import likelihoods as lk
from mercer.explain import Importance, PosteriorFunction, importance, sobol_indices
from mercer.explain.products import products

RNG = np.random.default_rng(0)
UNIFORM = np.column_stack([RNG.permutation((np.arange(500) + 0.5) / 500) for _ in range(6)])


def friedman(X):
    """Friedman's first function: x3 is linear, x5 does nothing."""
    bend = 10 * np.sin(np.pi * X[:, 0] * X[:, 1]) + 20 * (X[:, 2] - 0.5) ** 2
    return bend + 10 * X[:, 3] + 5 * X[:, 4]


def friedman_shares():
    """First and total shares (6,) by quadrature over x0 and x1, and variances 20/9, 100/12 and 25/12 of the
    others by hand.
    """
    x, w = np.polynomial.legendre.leggauss(60)
    x, w = 0.5 * (x + 1), 0.5 * w
    surface = 10 * np.sin(np.pi * np.outer(x, x))
    mean = w @ surface @ w
    whole, alone = w @ (surface - mean) ** 2 @ w, w @ (surface @ w - mean) ** 2
    others = np.array([20**2 / 180, 100 / 12, 25 / 12, 0.0])
    V = whole + others.sum()
    return np.r_[alone, alone, others] / V, np.r_[whole - alone, whole - alone, others] / V


def ishigami(X):
    return np.sin(X[:, 0]) + 7 * np.sin(X[:, 1]) ** 2 + 0.1 * X[:, 2] ** 4 * np.sin(X[:, 0])


ISHIGAMI_FIRST, ISHIGAMI_TOTAL = [0.3139, 0.4424, 0.0], [0.5576, 0.4424, 0.2437]  # a = 7, b = 0.1


# ------------------------------------------------------------------------------------------- any function


def test_a_linear_function_shares_its_variance_by_its_coefficients():
    X = np.random.default_rng(1).normal(size=(400, 3)) * [1.0, 2.0, 5.0]
    b = np.array([3.0, -1.0, 0.2])
    found = sobol_indices(lambda x: x @ b + 7.0, X)
    exact = b**2 * X.var(0) / (b**2 @ X.var(0))
    np.testing.assert_allclose(found.first, exact, atol=0.01)
    np.testing.assert_allclose(found.total, exact, atol=0.01)
    assert found.second.max() < 0.01
    assert found.variance == pytest.approx(b**2 @ X.var(0), rel=0.02)


def test_ishigami_within_its_standard_errors():
    found = sobol_indices(ishigami, np.pi * (2 * UNIFORM[:, :3] - 1), points=256)
    for share, error, exact in (
        (found.first, found.first_error, ISHIGAMI_FIRST),
        (found.total, found.total_error, ISHIGAMI_TOTAL),
    ):
        assert np.all(np.abs(share - exact) < 3.5 * error + 1e-3) and error.max() < 0.02
    assert found.second[0, 2] == pytest.approx(0.2437, abs=0.03)


def test_friedmans_function():
    found = sobol_indices(friedman, UNIFORM)
    first, total = friedman_shares()
    np.testing.assert_allclose(found.first, first, atol=0.015)
    np.testing.assert_allclose(found.total, total, atol=0.015)
    assert found.total[5] == 0.0 and np.argmax(found.total) == 3


def test_the_variances_of_several_values_are_summed():
    def two(x):
        return np.column_stack([x[:, 0], 2 * x[:, 1]])

    found = sobol_indices(two, UNIFORM[:, :2])
    np.testing.assert_allclose(found.total, [0.2, 0.8], atol=0.01)


def test_groups_of_columns_are_drawn_together():
    """x1 is a copy of x0 within its group: their sum is one column of twice the size."""
    X = UNIFORM[:, [0, 0, 1]]
    found = sobol_indices(lambda x: x.sum(1), X, [(0, 1), (2,)])
    np.testing.assert_allclose(found.total, [0.8, 0.2], atol=0.01)
    apart = sobol_indices(lambda x: x.sum(1), X)
    np.testing.assert_allclose(apart.total, [1 / 3] * 3, atol=0.01)


def test_a_constant_has_no_shares():
    found = sobol_indices(lambda x: np.ones(len(x)), UNIFORM[:, :2], points=16)
    assert found.variance == 0.0 and not found.total.any() and not found.first_error.any()
    rounding = sobol_indices(lambda x: 1e10 + 1e-6 * np.sign(x[:, 0] - 0.5), UNIFORM[:, :2], points=16)
    assert not rounding.total.any() and not rounding.total_error.any()


# ---------------------------------------------------------------------------------- posteriors, closed form

X, Y = UNIFORM[:150], friedman(UNIFORM[:150]) - 14.0
LENGTHS = np.array([0.5, 0.5, 0.6, 5.0, 5.0, 50.0])
KERNELS = {
    "se": k.SE(LENGTHS, 50.0),
    "scaled, constant": 50.0 * k.SE(LENGTHS) + k.Constant(2.0),
    "terms": k.SE(LENGTHS, 50.0) + 3.0 * k.Periodic(1.3).on(2) * k.SE(0.8).on(0),
    "any kernel of one column": k.tensor_product(k.Matern(2.0, nu=1.5), 3, k.RationalQuadratic(1.0), 0)
    + k.SE(LENGTHS[1:], 30.0).on(1, 2, 3, 4, 5),
}


@pytest.mark.parametrize("groups", [None, [(0, 1), (2,), (3, 4), (5,)]], ids=["columns", "groups"])
@pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)
def test_closed_form_agrees_with_points(kernel, groups):
    groups = groups or [(j,) for j in range(6)]
    function = PosteriorFunction(mc.GP(kernel, mean=1.0).condition(X, Y, noise_variance=0.01))
    closed, points = function.closed(groups), sobol_indices(function.value, X, groups, 256)
    assert closed.points == 0 and points.points > 0
    assert np.all(np.abs(closed.total - points.total) < 4 * points.total_error + 1e-3)
    assert np.all(np.abs(closed.first - points.first) < 4 * points.first_error + 1e-3)
    assert np.all(np.abs(closed.second - points.second) < 4 * points.second_error + 1e-3)
    assert points.total_error.max() < 0.02 and points.second_error.max() < 0.04
    assert closed.variance == pytest.approx(points.variance, rel=0.03)


def test_what_has_no_closed_form():
    groups = [(j,) for j in range(6)]
    other = k.NeuralNetwork()
    assert products(other, groups) is None and products(k.SE(1.0).on(0) + other, groups) is None
    assert products(other, [tuple(range(6))]) is not None  # all columns are one group
    assert products(k.Matern(LENGTHS), groups)[0].mixture is not None  # too many products for quadratic forms
    for gp in (mc.GP(KERNELS["se"], basis=mc.means.Polynomial(1)), mc.GP(KERNELS["se"], mean=friedman)):
        assert PosteriorFunction(gp.condition(X, Y, noise_variance=0.1)).closed(groups) is None
    nearly = mc.GP(k.SE(np.full(6, 30.0), 1e6)).condition(X, Y, noise_variance=1e-7)
    assert PosteriorFunction(nearly).closed(groups) is None  # the squares of alpha lose the digits


def test_importance_of_a_posterior_in_full():
    post = mc.GP(KERNELS["se"]).condition(X, Y, noise_variance=0.01)
    found = importance(post)
    assert isinstance(found, Importance) and found.names[0] == "x3" and found.names[-1] == "x5"
    np.testing.assert_allclose(found.total, np.sort(friedman_shares()[1])[::-1], atol=0.05)
    assert found["x5"] < 1e-3 and {found.pairs[0].first, found.pairs[0].second} == {"x0", "x1"}
    assert np.all(found.total_error[:-1] > 0) and found.total_error.max() < 0.1
    # shuffling an independent column costs twice its variance
    share = Y.var() / (friedman(UNIFORM) - 14).var()
    np.testing.assert_allclose(found.permutation * share, 2 * found.total, atol=0.15)
    assert found.method == "closed form" and "from the other rows" in " ".join(found.notes)
    again = importance(post)
    np.testing.assert_array_equal(found.permutation, again.permutation)
    np.testing.assert_array_equal(found.total_error, again.total_error)


def test_less_data_is_less_certain():
    few, many = (
        importance(mc.GP(KERNELS["se"]).condition(X[:n], Y[:n], noise_variance=1.0), permutation=False)
        for n in (12, 150)
    )
    assert np.mean(few.total_error) > 3 * np.mean(many.total_error)


@pytest.mark.slow
def test_a_function_that_is_all_but_known_can_be_drawn():
    """Its covariance is a small difference of large ones, and not positive by rounding."""
    x = np.random.default_rng(5).normal(size=(90, 2))
    post = mc.GP(k.Matern([231.0, 21.0], 1534.0)).condition(x, x[:, 0] + np.sin(x[:, 1]), noise_variance=2e-8)
    found = importance(post)
    assert found.names == ("x0", "x1") and np.isfinite(found.total_error).all()
    drawn = post.sample(np.repeat(x, 3, 0), 4, seed=0, latent=True)
    np.testing.assert_allclose(drawn, np.tile(post.mean(np.repeat(x, 3, 0)), (4, 1)), atol=1e-2)


def test_groups_have_names():
    post = mc.GP(KERNELS["se"]).condition(X, Y, noise_variance=0.01)
    groups = {"place": (0, 1), "bend": (2,), "line": (3,), "rest": (4, 5)}
    found = importance(post, groups, permutation=False, draws=0)
    assert found.names[:2] == ("place", "line") and set(found.names[2:]) == {"bend", "rest"}
    assert found["place"] == pytest.approx(1 - found["line"] - found["bend"] - found["rest"], abs=0.01)
    for wrong in ({"a": (0, 1)}, {"a": (0, 1, 2, 3, 4, 5), "b": ()}, {"a": range(6), "b": (5,)}):
        with pytest.raises(ValueError, match="groups must name every one of the 6 input columns once"):
            importance(post, wrong)
    with pytest.raises(TypeError, match="cannot explain a str"):
        importance("model")


def test_it_prints_and_becomes_a_frame():
    found = importance(mc.GP(KERNELS["se"]).condition(X, Y, noise_variance=0.01), draws=0)
    text = str(found)
    assert text.startswith("Share of the variance of the mean of y that each column explains")
    assert "together, beyond alone: x1 with x0" in text or "together, beyond alone: x0 with x1" in text
    assert "standard errors are those of the integration (none: closed form)" in text
    frame = found.to_frame()
    assert list(frame.index) == list(found.names) and frame.loc["x3", "total"] == found["x3"]
    assert list(frame.columns)[-2:] == ["permutation", "permutation_error"]
    assert found.line().startswith("x3 0.3") and len(found) == 6
    assert found.report_section()["header"] == ["column", "alone", "total", "shuffled"]
    with pytest.raises(KeyError, match="no column 'x9'"):
        found["x9"]


# --------------------------------------------------------------------------------------------- estimators


def test_a_linear_effect_is_not_called_irrelevant():
    """Its length-scale is the longest of those that count, and it matters most."""
    rng = np.random.default_rng(2)
    X = rng.random((250, 6))
    model = mc.GPRegressor().fit(X, friedman(X) + 0.3 * rng.standard_normal(250))
    assert model.kernel_.lengthscale[3] > 3 * model.kernel_.lengthscale[0]
    found = model.importance()
    first, total = friedman_shares()
    assert found.names[0] == "x3" and found["x5"] < 0.01
    for j in range(6):
        i = found.names.index(f"x{j}")
        assert abs(found.total[i] - total[j]) < 0.04 and abs(found.first_order[i] - first[j]) < 0.04
    assert found.names[np.argmax(found.permutation)] == "x3"
    summary = model.summary()
    assert "irrelevant" not in summary and "importance: x3 0.3" in summary


@pytest.mark.representative("one")
@pytest.mark.parametrize("scheme", ["softmax", "one-vs-rest", "one-vs-one", None])
def test_classifiers_by_the_probabilities_of_all_classes(scheme):
    rng = np.random.default_rng(3)
    X = rng.normal(size=(60, 3))
    y = np.digitize(X[:, 0] + 0.3 * X[:, 1], [-0.5, 0.5] if scheme else [0.0])
    kernel = k.SE(mc.fixed([1.0, 2.0, 20.0]), mc.fixed(4.0))
    model = mc.GPClassifier(kernel, multi_class=scheme or "softmax").fit(X, y)
    found = model.importance(draws=8)
    assert found.names == ("x0", "x1", "x2") and found.what == "probabilities of the classes"
    assert found["x0"] > 0.6 and found["x2"] < 0.1
    assert found.permutation[0] > 5 * abs(found.permutation[2])
    assert ("no draws" in " ".join(found.notes)) == (scheme == "softmax")
    same = sobol_indices(lambda x: model.predict_proba(x, how="map"), X, points=16)
    other = importance(model._function(), draws=0, permutation=False)
    np.testing.assert_allclose(same.total, [other[f"x{j}"] for j in range(3)], atol=0.1)


@pytest.mark.slow
def test_left_out_rows_are_those_of_loo():
    """Rows at their own inputs are predicted as leave-one-out does."""
    rng = np.random.default_rng(4)
    X = rng.normal(size=(40, 2))
    kernel, rows = k.SE(mc.fixed(1.0), mc.fixed(4.0)), np.array([3, 3, 17, 39])
    for scheme in ("one-vs-rest", "one-vs-one"):
        model = mc.GPClassifier(kernel, multi_class=scheme).fit(X, np.digitize(X[:, 0], [-0.5, 0.5]))
        loss = model._function().loss(X[rows], rows)
        np.testing.assert_allclose(loss, -model.loo().log_density[rows], rtol=1e-6)
    model = mc.GPRegressor(kernel, noise_variance=mc.fixed(0.1)).fit(X, X[:, 0])
    loss = model._function().loss(X[rows], rows)
    np.testing.assert_allclose(loss, (X[rows, 0] - model.loo().mean[rows]) ** 2 / X[:, 0].var(), rtol=1e-6)


def test_posteriors_that_cannot_draw_or_leave_out():
    coarse = mc.GP(KERNELS["se"]).condition(X, Y, noise_variance=0.01, solver=mc.solvers.VFE(m=60))
    found = importance(coarse)
    assert found.names[0] == "x3" and "which has seen them" in " ".join(found.notes)
    counts = mc.Model(mc.GP(k.SE(LENGTHS, 1.0)), lk.Poisson()).condition(X, np.round(np.exp(Y / 10)))
    assert importance(counts, permutation=False, draws=4).names[-1] == "x5"


@pytest.mark.slow
def test_boston(data_dir):
    """The permutation importance of others says lstat .80, rm .53, nox .10, tax .07, where inverse length-
    scales put tax and nox first. Shares are over independent columns, which these are not: dis is there as
    much as rm.
    """
    data = mc.datasets.load("boston")
    names = [name.lower() for name in data.columns]
    model = mc.GPRegressor().fit(dict(zip(names, data.X.T, strict=True)), data.y)
    found = model.importance()
    assert found.names[0] == "lstat" and set(found.names[:3]) == {"lstat", "dis", "rm"}
    order = np.argsort(-found.permutation)
    assert {found.names[i] for i in order[:2]} == {"lstat", "rm"} and found["tax"] < 0.8 * found["rm"]
