"""What columns add to a prediction, against enumeration, draws, and what is known of additive functions."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mercer as mc
from mercer import kernels as k
from mercer import means
from mercer.explain import attributions, influences, shapley_values
from mercer.explain.products import _mixture, products
from mercer.explain.shapley import Coalitions, product_values, product_variances
from mercer.inputs import InputError

RNG = np.random.default_rng(0)
X = RNG.normal(size=(20, 3))
Y = np.sin(X[:, 0] * X[:, 1]) + X[:, 2] + 0.1 * RNG.normal(size=20)
XS = RNG.normal(size=(2, 3))
EACH = [(0,), (1,), (2,)]

CLOSED = k.Matern([1.0, 2.0, 3.0])
MIXED = k.SE(1.0).on(0) * k.Linear().on(1) + k.RationalQuadratic(2.0, alpha=0.8) + k.Linear([1.0, 2.0, 3.0])
GENERAL = k.NeuralNetwork()


def brute_force(function, row, background):
    """Shapley values by their definition."""
    G = len(row)

    def v(S):
        mixed = background.copy()
        mixed[:, list(S)] = row[list(S)]
        return function(mixed).mean()

    values = np.zeros(G)
    for g in range(G):
        rest = [h for h in range(G) if h != g]
        for S in itertools.chain.from_iterable(itertools.combinations(rest, s) for s in range(G)):
            weight = math.factorial(len(S)) * math.factorial(G - len(S) - 1) / math.factorial(G)
            values[g] += weight * (v((*S, g)) - v(S))
    return values


def wavy(x):
    return np.sin(x[:, 0] * x[:, 1]) + x[:, 2] * x[:, 3] * x[:, 0] + x[:, 4] ** 2


# ------------------------------------------------------------------------------------------ any function


def test_shapley_values_are_their_definition():
    row, background = RNG.normal(size=5), RNG.normal(size=(4, 5))
    found = shapley_values(wavy, row, background)
    np.testing.assert_allclose(found.values, brute_force(wavy, row, background), atol=1e-13)
    assert found.base + found.values.sum() == pytest.approx(wavy(row[None])[0], abs=1e-12)
    assert not found.error.any() and found.points == 2**5 * 4


def test_random_orders_are_within_their_error_and_sum_up():
    row, background = RNG.normal(size=5), RNG.normal(size=(8, 5))
    exact, found = brute_force(wavy, row, background), shapley_values(wavy, row, background, enumerated=2)
    assert (np.abs(found.values - exact) < 4 * found.error + 1e-12).all() and found.error.max() > 1e-4
    assert found.base + found.values.sum() == pytest.approx(wavy(row[None])[0], abs=1e-12)
    b = np.array([3.0, -1.0, 0.2, 0.0, 7.0])
    linear = shapley_values(lambda x: x @ b, row, background, enumerated=2)
    np.testing.assert_allclose(linear.values, b * (row - background.mean(0)), atol=1e-12)


def test_columns_that_belong_together_are_one_player():
    row, background = RNG.normal(size=5), RNG.normal(size=(4, 5))
    found = shapley_values(wavy, row, background, groups=[(0, 1), (2, 3, 4)])
    together = background.copy()
    together[:, :2] = row[:2]
    first, second = wavy(together).mean(), found.base
    other = background.copy()
    other[:, 2:] = row[2:]
    expected = 0.5 * (first - second + wavy(row[None])[0] - wavy(other).mean())
    assert found.values[0] == pytest.approx(expected, abs=1e-13)
    with pytest.raises(ValueError, match="one number of columns"):
        shapley_values(wavy, row[:3], background)


@pytest.mark.parametrize("G", [1, 2, 5, 8])
def test_products_need_no_coalitions(G):
    row, background = RNG.normal(size=G), RNG.normal(size=(3, G))
    values = np.mean([product_values(row, b) for b in background], 0)
    np.testing.assert_allclose(values, brute_force(lambda x: x.prod(1), row, background), atol=1e-12)
    own = RNG.normal(size=(G, 6, 6))  # of the row and the background, some product covariance
    own = own @ own.transpose(0, 2, 1)
    variances = product_variances(own[:, 0, 0], own[:, 0, 1:4], own[:, 1:4, 1:4])
    places = np.arange(4.0)[:, None].repeat(G, 1)
    found = Coalitions.of(places[0], places[1:], [(g,) for g in range(G)], True)
    at = found.rows.astype(int)
    K = np.prod([own[g][np.ix_(at[:, g], at[:, g])] for g in range(G)], 0)
    w = found.weights[0]
    np.testing.assert_allclose(variances, np.einsum("gn,nm,gm->g", w, K, w), rtol=1e-10)


@given(
    G=st.integers(1, 5),
    B=st.integers(1, 4),
    scale=st.floats(-6, 6),
    enumerated=st.booleans(),
    seed=st.integers(0, 99),
)
@settings(max_examples=30, deadline=None)
def test_values_sum_up_whatever_the_shapes_and_scales(G, B, scale, enumerated, seed):
    rng = np.random.default_rng(seed)
    row, background = rng.normal(size=G) * 10.0**scale, rng.normal(size=(B, G)) * 10.0**scale

    def function(x):
        return 10.0**scale * np.cos(x.prod(1) / 10.0 ** (G * scale)) + x.sum(1)

    found = shapley_values(function, row, background, enumerated=10 if enumerated else 0, seed=seed)
    size = 10.0**scale
    assert abs(found.base + found.values.sum() - function(row[None])[0]) <= 1e-10 * size


# ------------------------------------------------------------------------------------------- posteriors


@pytest.mark.parametrize(
    "kernel", [k.Matern(nu=0.5), k.Matern(nu=2.5), k.Matern(nu=20.0), k.RationalQuadratic(alpha=0.7)]
)
def test_mixtures_of_squared_exponentials(kernel):
    weights, rates = _mixture(kernel)
    x = np.append(0.0, np.logspace(-4, 2, 99))[:, None]
    exact = np.asarray(kernel(x, np.zeros((1, 1))))[:, 0]
    np.testing.assert_allclose((weights * np.exp(-0.5 * rates * x**2)).sum(1), exact, atol=2e-11)


def by_coalitions(post, row, background, groups=EACH):
    """Means and standard deviations of Shapley values from what a posterior says of every coalition."""
    found = Coalitions.of(row, background, groups, True)
    w = found.weights[0]
    covariance = w @ post.covariance(found.rows, latent=True) @ w.T
    return w @ post.mean(found.rows, latent=True), np.sqrt(np.diag(covariance)), found


CASES = [
    pytest.param(CLOSED, None, id="mixture"),
    pytest.param(GENERAL, None, id="general", marks=pytest.mark.slow),
    pytest.param(MIXED, None, id="sum", marks=pytest.mark.slow),
    pytest.param(CLOSED, means.Polynomial(1), id="basis", marks=pytest.mark.slow),
]


@pytest.mark.parametrize(("kernel", "basis"), CASES)
def test_means_and_deviations_are_those_of_the_coalitions(kernel, basis):
    post = mc.GP(kernel, mean=1.5, basis=basis).condition(X, Y, noise_variance=0.01)
    found = attributions(post, XS)
    mean, std, _ = by_coalitions(post, XS[1], X)
    np.testing.assert_allclose(found.values[1], mean, atol=1e-9)
    np.testing.assert_allclose(found.std[1], std, atol=1e-8)
    np.testing.assert_allclose(found.base + found.values.sum(1), post.mean(XS), atol=1e-10)
    assert (products(kernel, EACH) is None) == ("coalitions" in found.method)


def test_deviations_are_those_of_draws():
    post = mc.GP(CLOSED).condition(X, Y, noise_variance=0.04)
    found = attributions(post, XS[:1])
    _, _, coalitions = by_coalitions(post, XS[0], X)
    drawn = post.sample(coalitions.rows, 4000, seed=0, latent=True) @ coalitions.weights[0].T
    np.testing.assert_allclose(drawn.mean(0), found.values[0], atol=4 * found.std.max() / np.sqrt(4000))
    np.testing.assert_allclose(drawn.std(0), found.std[0], rtol=0.06)


def test_additive_functions_add_their_terms():
    """Of a sum over columns, a column adds its component less the average of the component."""
    kernel = k.SE(1.0).on(0) + k.SE(0.7, 2.0).on(1) + k.SE(3.0).on(2)
    post = mc.GP(kernel, mean=2.0).condition(X, Y, noise_variance=0.01)
    found = attributions(post, XS)
    terms = np.stack([c.mean for c in post.components(XS)], 1)
    average = np.array([c.mean.mean() for c in post.components(X)])
    np.testing.assert_allclose(found.values, terms - average, atol=1e-10)
    np.testing.assert_allclose(found.part_values, found.values, atol=1e-10)
    np.testing.assert_allclose(found.part_std, found.std, atol=1e-8)
    assert len(found.parts) == 3 and "By parts" in str(found)


@pytest.mark.slow
def test_many_columns_of_any_kernel_are_sampled_and_still_sum_up():
    wide = RNG.normal(size=(20, 12))
    post = mc.GP(k.NeuralNetwork()).condition(wide, Y, noise_variance=0.01)
    found = attributions(post, wide[:1] + 0.3)
    np.testing.assert_allclose(found.base + found.values.sum(1), found.prediction, atol=1e-10)
    assert "random orders" in found.method and found.error.max() > 0
    assert any("standard errors" in note for note in found.notes)


@pytest.mark.slow
def test_posteriors_without_exact_covariances_are_asked_at_points():
    prior = mc.GP(k.SE([1.0, 2.0, 3.0]))
    sparse = prior.condition(X, Y, noise_variance=0.01, solver=mc.solvers.VFE(m=20, seed=0))
    exact = prior.condition(X, Y, noise_variance=0.01)
    found, expected = attributions(sparse, XS), attributions(exact, XS)
    np.testing.assert_allclose(found.values, expected.values, atol=1e-4)
    np.testing.assert_allclose(found.std, expected.std, atol=1e-3)
    np.testing.assert_allclose(found.base + found.values.sum(1), sparse.mean(XS), atol=1e-10)
    assert found.influences == ((), ())


@pytest.mark.slow
def test_a_mean_that_varies_is_shared_out_too():
    post = mc.GP(CLOSED, mean=means.Linear([1.0, -2.0, 0.5])).condition(X, Y, noise_variance=0.01)
    found = attributions(post, XS)
    mean, std, _ = by_coalitions(post, XS[1], X)
    np.testing.assert_allclose(found.values[1], mean, atol=1e-9)
    np.testing.assert_allclose(found.std[1], std, atol=1e-8)


@given(
    x=st.tuples(*[st.floats(-8, 8)] * 3),
    y=st.floats(-8, 8),
    away=st.floats(-100, 100),
    seed=st.integers(0, 99),
)
@settings(max_examples=12, deadline=None)
def test_units_do_not_matter(x, y, away, seed):
    """Columns and targets in any units: what columns add is in those of the target, and sums up."""
    scale, size = 10.0 ** np.array(x), 10.0**y
    rows = np.random.default_rng(seed).normal(size=(2, 3))
    plain = mc.GP(k.Matern([1.0, 2.0, 3.0])).condition(X, Y, noise_variance=0.01)
    kernel = k.Matern(scale * [1.0, 2.0, 3.0], size**2)
    post = mc.GP(kernel, mean=size * away).condition(
        X * scale, size * (Y + away), noise_variance=0.01 * size**2
    )
    found, expected = attributions(post, rows * scale), attributions(plain, rows)
    np.testing.assert_allclose(found.base + found.values.sum(1), post.mean(rows * scale), rtol=1e-10)
    np.testing.assert_allclose(found.values / size, expected.values, atol=1e-8)
    np.testing.assert_allclose(found.std / size, expected.std, atol=1e-6)


# -------------------------------------------------------------------------------------------- influences


def test_influences_are_smoother_weights_and_left_out_rows():
    post = mc.GP(CLOSED, mean=1.0).condition(X, Y, noise_variance=0.04)
    (first, _) = influences(post, XS, most=4)
    H = post.smoother(XS)[0]
    assert [one.row for one in first] == np.argsort(-np.abs(H))[:4].tolist()
    np.testing.assert_allclose([one.weight for one in first], [H[one.row] for one in first], atol=1e-12)
    without, _ = post.left_out(XS[[0, 0, 0, 0]], [one.row for one in first])
    np.testing.assert_allclose([one.shift for one in first], post.mean(XS)[0] - without, atol=1e-12)
    assert first[0].target == Y[first[0].row]


# ------------------------------------------------------------------------------------------- the answer


def test_many_rows_are_taken_some_at_a_time(monkeypatch):
    post = mc.GP(CLOSED).condition(X, Y, noise_variance=0.04)
    whole = attributions(post, XS)
    monkeypatch.setattr("mercer.explain.attribution.CELLS", 60)
    apart = attributions(post, XS)
    np.testing.assert_allclose(apart.values, whole.values, atol=1e-12)
    assert apart.labels == whole.labels and apart.also == ()
    # products of other shapes may differ in the last digit
    pairs = [
        pair
        for rows in zip(apart.influences, whole.influences, strict=True)
        for pair in zip(*rows, strict=True)
    ]
    assert all(
        (one.row, one.label, one.target) == (other.row, other.label, other.target) for one, other in pairs
    )
    for name in ("weight", "shift"):
        ours, theirs = np.array([[getattr(one, name) for one in pair] for pair in pairs]).T
        np.testing.assert_allclose(ours, theirs, atol=1e-12)


def test_the_answer_speaks():
    post = mc.GP(CLOSED).condition(X, Y, noise_variance=0.04)
    found = attributions(post, XS, background=X[:1])
    assert len(found) == 2 and found["x1"].shape == (2,)
    np.testing.assert_allclose(found.base, post.mean(X[:1])[0])
    frame = found.to_frame()
    assert list(frame.columns) == ["row", "column", "given", "value", "std"] and len(frame) == 6
    assert frame["value"][:3].abs().is_monotonic_decreasing
    text = str(found)
    assert "row 0: f is" in text and "It rests most on the training rows" in text
    assert found.bars(1).start == found.base[1] and len(found.bars(1).names) == 3
    with pytest.raises(KeyError, match="no column 'z'"):
        found["z"]
    with pytest.raises(IndexError, match="there are 2 rows"):
        found.bars(2)
    with pytest.raises(InputError, match="was conditioned on 3 columns"):
        attributions(post, XS[:, :2])
    with pytest.raises(TypeError, match="give a posterior"):
        attributions(wavy, XS)
