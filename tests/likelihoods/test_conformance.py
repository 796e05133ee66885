"""Every likelihood with one latent function: densities, derivatives, integrals, predictions, files,
errors.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from mercer import likelihoods
from mercer.inputs import InputError
from mercer.params import ParameterError, parameters, replace_leaves
from mercer.persist import from_json, to_json

from .conformance import CASES, CAVITIES, cloglog, log_normal, log_prob, nodes_in_f, panels, sech, tilted

every = pytest.mark.parametrize("case", CASES.values(), ids=CASES)


@jax.jit
def slope_in_the_variance(likelihood, y, mean, variance):
    """Of the log partition."""
    return jax.grad(lambda v: likelihood.log_partition(y, mean, v).sum())(variance)


def pairs(case, cavities=CAVITIES):
    """Every value of y with every cavity: y, mean and variance as vectors."""
    return tuple(np.array(a) for a in zip(*((y, *c) for y in case.y for c in cavities), strict=True))


@every
def test_probabilities_sum_to_one(case):
    for f in (-1.3, 0.0, 2.1):
        if case.values is None:
            b = np.concatenate([case.places(f + k, 1e9) for k in (0.0, *case.kinks)])
            y, w = panels(b)
        else:
            y, w = np.array(case.values, float), 1.0
        total = np.sum(w * np.exp(np.asarray(log_prob(case.likelihood, jnp.full(y.shape, f), y))))
        assert total == pytest.approx(1.0, abs=1e-8)


@every
def test_derivatives_match_finite_differences(case):
    f = np.array([-3.1, -0.73, 0.41, 1.27, 4.2])
    h = 1e-5
    for y in case.y:
        y = np.full(f.shape, y)
        at = case.likelihood.derivatives(f, y, 3)
        up, down = case.likelihood.derivatives(f + h, y, 3), case.likelihood.derivatives(f - h, y, 3)
        for k in range(3):
            slope = (up[k] - down[k]) / (2 * h)
            np.testing.assert_allclose(at[k + 1], slope, rtol=2e-6, atol=2e-6 * (1 + np.abs(at[k]).max()))
        D, P = case.likelihood.curvature(f, y)
        assert P is None
        np.testing.assert_allclose(D, -at[2], rtol=1e-12, atol=1e-300)
        assert np.all(np.asarray(case.likelihood.fisher(f, y)[0]) >= 0)


@pytest.mark.representative("gaussian", "student", "poisson")
@every
def test_concave_where_it_says_so(case):
    f = np.linspace(-30, 30, 601)
    worst = max(float(np.max(case.likelihood.derivatives(f, np.full(f.shape, y), 2)[2])) for y in case.y)
    if case.likelihood.log_concave:
        assert worst <= 1e-12
    else:
        assert worst > 1e-6


@pytest.mark.representative("gaussian", "logit", "poisson")
@every
def test_log_partition_and_tilted_moments(case):
    y, mean, variance = pairs(case)
    got = case.likelihood.tilted_moments(y, mean, variance)
    expected = np.array([tilted(case, *c) for c in zip(y, mean, variance, strict=True)]).T
    np.testing.assert_allclose(got[0], expected[0], rtol=1e-9, atol=3e-8)
    np.testing.assert_allclose((got[1] - expected[1]) / np.sqrt(variance), 0.0, atol=1e-7)
    np.testing.assert_allclose(got[2] / variance, expected[2] / variance, atol=1e-6)


@pytest.mark.representative("gaussian", "probit", "laplace")
@every
def test_slope_in_the_variance_obeys_the_heat_equation(case):
    """d Z / d variance = (d2 Z / d mean^2) / 2 for any integrand."""
    y, mean, variance = pairs(case, CAVITIES[:3])
    _, m, v = case.likelihood.tilted_moments(y, mean, variance)
    slope = slope_in_the_variance(case.likelihood, y, mean, variance)
    d1, d2 = (m - mean) / variance, (v - variance) / variance**2
    np.testing.assert_allclose(slope, 0.5 * (d2 + d1**2), rtol=1e-6, atol=1e-8)


@pytest.mark.representative("gaussian", "probit", "student")
@every
def test_no_variance_is_the_likelihood_itself(case):
    f = np.array([-2.0, 0.1, 1.3])
    for y in case.y:
        y = np.full(3, y)
        got = case.likelihood.log_partition(y, f, np.zeros(3))
        np.testing.assert_allclose(got, case.likelihood.log_prob(f, y), rtol=1e-7, atol=1e-8)


@every
def test_expectation(case):
    y, mean, variance = pairs(case, CAVITIES[:3] + CAVITIES[4:])
    expected = []
    for c in zip(y, mean, variance, strict=True):
        f, w = nodes_in_f(case, *c)
        log_p = np.asarray(log_prob(case.likelihood, f, c[0]))
        expected.append(np.sum(w * np.exp(log_normal(f, c[1], c[2])) * log_p))
    np.testing.assert_allclose(
        jax.jit(type(case.likelihood).expectation)(case.likelihood, y, mean, variance), expected, rtol=2e-6
    )


@pytest.mark.representative("gaussian", "probit", "laplace")
@every
def test_gradients_of_hyperparameters(case):
    y, mean, variance = case.y[-1], 0.7, 0.9
    likelihood = case.likelihood
    methods = (
        ("log_prob", "log_partition")
        if case is CASES["probit"]
        else ("log_prob", "log_partition", "expectation")
    )
    # E[log(flip + (1 - 2 flip) Phi)] has no second derivative at flip = 0: no differences there
    for method in methods:

        def value(l, method=method):
            return l.log_prob(mean, y) if method == "log_prob" else getattr(l, method)(y, mean, variance)

        value = jax.jit(value)
        gradient = jax.grad(value)(likelihood)
        for p, g in zip(parameters(likelihood), parameters(gradient), strict=True):
            for index in np.ndindex(np.shape(p.value)):
                h = np.zeros(np.shape(p.value))
                h[index] = 1e-5
                at = [
                    float(value(replace_leaves(likelihood, {p.name: p.value + k * h}))) for k in (-1, 0, 1, 2)
                ]
                inside = (-3 * at[1] + 4 * at[2] - at[3]) / 2e-5  # for a value at the end of its interval
                slope = inside if p.value[index] == 0 else (at[2] - at[0]) / 2e-5
                assert np.asarray(g.value)[index] == pytest.approx(slope, rel=1e-6, abs=1e-7)


@every
def test_jit_and_vmap(case):
    y = np.repeat(case.y, 2)
    mean, variance = np.linspace(-1, 1, y.size), np.linspace(0.5, 2, y.size)

    def both(l, *a):
        return l.log_partition(*a), l.expectation(*a)

    l, at = case.likelihood, (y, mean, variance)
    plain = both(l, *at)
    assert plain[0].shape == plain[1].shape == y.shape
    np.testing.assert_allclose(jax.jit(both)(l, *at), plain, rtol=1e-12, atol=1e-12)
    mapped = jax.jit(jax.vmap(both, in_axes=(None, 0, 0, 0)))(l, *at)
    np.testing.assert_allclose(mapped, plain, rtol=1e-12, atol=1e-12)
    density = l.log_density(*at)
    assert isinstance(density, np.ndarray)
    np.testing.assert_allclose(density, plain[0], rtol=1e-12, atol=1e-12)


@every
def test_few_nodes_are_enough_for_batches(case):
    at = pairs(case)
    exact, rough = case.likelihood.expectation(*at), case.likelihood.rough_expectation(*at)
    np.testing.assert_allclose(rough, exact, rtol=0.015, atol=0.015)


@every
def test_draws_agree_with_the_predictive_moments(case, rng):
    mean, variance = 0.4, 0.6
    n = 2000 if isinstance(case.likelihood, likelihoods.Custom) else 40_000
    expected, spread_ = (
        float(np.ravel(a)[0]) for a in case.likelihood.predict(np.array([mean]), np.array([variance]))
    )
    if not np.isfinite(spread_):
        pytest.skip("the noise has no variance")
    y = case.likelihood.sample(rng, mean + np.sqrt(variance) * rng.standard_normal((8, n // 8)))
    assert y.shape == (8, n // 8)
    if isinstance(case.likelihood, likelihoods.Bernoulli):
        assert set(y.ravel()) == {-1.0, 1.0}
        y = (y + 1) / 2
    assert abs(y.mean() - expected) < 5 * np.sqrt(spread_ / n)
    assert y.var() == pytest.approx(spread_, rel=0.25)


@pytest.mark.parametrize(
    "of_rows",
    [
        likelihoods.Gaussian(np.array([0.1, 4.0])),
        likelihoods.Poisson(np.array([2.0, 50.0])),
        likelihoods.Binomial(np.array([3.0, 90.0])),
    ],
    ids=["gaussian", "poisson", "binomial"],
)
def test_many_draws_of_rows_with_parameters_of_their_own(of_rows, rng):
    f, S = np.array([-0.3, 0.8]), 20_000
    y = of_rows.sample(rng, np.tile(f, (S, 1)))
    mean, variance = of_rows.predict(f, np.zeros(2))
    np.testing.assert_allclose(y.mean(0), mean, atol=5 * np.sqrt(variance.max() / S))
    np.testing.assert_allclose(y.var(0), variance, rtol=0.1)


@pytest.mark.representative("gaussian", "logit", "laplace")
@every
def test_quantiles(case):
    mean, variance = np.array([0.4, -1.0]), np.array([0.6, 2.0])
    for q in (0.05, 0.5, 0.9):
        x = case.likelihood.quantile(q, mean, variance)
        assert x.shape == (2,)
        for i in range(2):
            if case.values is None:
                low = np.concatenate([case.places(case.latent(x[i]), 1e8), case.places(mean[i], 1e3)])
                y, w = panels(np.concatenate([low[low < x[i]], [x[i]]]))
                below = np.sum(w * np.exp(case.likelihood.log_density(y, mean[i], variance[i])))
                assert below == pytest.approx(
                    q, abs=2e-6 if isinstance(case.likelihood, likelihoods.Custom) else 2e-7
                )
            else:
                y = np.array(case.values, float)
                cdf = np.cumsum(np.exp(case.likelihood.log_density(y, mean[i], variance[i])))
                coded = np.arange(len(y)) if isinstance(case.likelihood, likelihoods.Bernoulli) else y
                assert x[i] == coded[np.argmax(cdf >= q)]


@every
def test_json_round_trip(case):
    tree = to_json(case.likelihood)
    again = from_json(tree, functions={"sech": sech, "cloglog": cloglog})
    assert to_json(again) == tree
    y = np.array(case.y)
    np.testing.assert_array_equal(
        again.log_prob(np.zeros(y.size), y), case.likelihood.log_prob(np.zeros(y.size), y)
    )


@every
def test_targets_and_guesses(case):
    y = case.likelihood.targets(list(case.y))
    assert y.dtype == np.float64 and y.shape == (len(case.y),)
    guess = case.likelihood.guess(y)
    assert guess.shape == y.shape and np.isfinite(guess).all()
    with pytest.raises(InputError, match="NaN"):
        case.likelihood.targets([case.y[0], np.nan])
    with pytest.raises(InputError, match="one column"):
        case.likelihood.targets(3.0)


@pytest.mark.parametrize(
    "likelihood, y, message",
    [
        (
            likelihoods.Bernoulli(),
            [1, -1, 2],
            r"labels -1 and \+1, or 0 and 1: 1 of 3 do not fit, the first is 2 in row 2",
        ),
        (likelihoods.Bernoulli(), [1, 0, -1], r"labels 0 and 1 .* first is -1 in row 2"),
        (likelihoods.Poisson(), [1, 2.5], r"counts \(0, 1, 2, ...\): .* 2.5 in row 1"),
        (likelihoods.Poisson(), [-1, 2], r"-1 in row 0"),
        (likelihoods.Ordinal(3), [0, 3], r"from 0 to 2: .* 3 in row 1"),
        (likelihoods.Softmax(3), [0, 1, 3], r"classes as whole numbers from 0 to 2"),
        (likelihoods.Softmax(3), ["a", "b"], "not numeric"),
        (likelihoods.Custom(cloglog, values=(0, 1)), [0, 2], "one of 0, 1: 1 of 2"),
    ],
)
def test_bad_targets_say_what_and_where(likelihood, y, message):
    with pytest.raises(InputError, match=message):
        likelihood.targets(y)


@pytest.mark.parametrize(
    "build, message",
    [
        (lambda: likelihoods.Bernoulli("cauchit"), "must be 'probit' or 'logit'"),
        (lambda: likelihoods.Bernoulli(flip=0.5), "below 1/2"),
        (lambda: likelihoods.Bernoulli(flip=-0.1), "between 0 and 0.5"),
        (lambda: likelihoods.Bernoulli(flip=[0.1, 0.2]), "one number"),
        (lambda: likelihoods.Poisson([[1.0]]), "one for each datum"),
        (lambda: likelihoods.Poisson(0.0), "positive"),
        (lambda: likelihoods.StudentT(-1.0), "positive"),
        (lambda: likelihoods.GaussianMixtureNoise(ratio=1.0), "greater than 1"),
        (lambda: likelihoods.GaussianMixtureNoise(weight=1.0), "strictly between 0 and 1"),
        (lambda: likelihoods.Ordinal(1), "at least two levels"),
        (lambda: likelihoods.Ordinal([1.0, 0.0]), "increasing"),
        (lambda: likelihoods.Ordinal(4, increments=[1.0]), "has 2 increments"),
        (lambda: likelihoods.Softmax(1), "at least 2"),
        (lambda: likelihoods.Softmax(3, samples=1000), "power of two"),
        (lambda: likelihoods.Custom(3.0), "log_prob"),
        (lambda: likelihoods.Custom(cloglog, step=(0.0, -1.0)), "positive width"),
    ],
)
def test_bad_parameters_are_refused(build, message):
    with pytest.raises(ParameterError, match=message):
        build()


def test_labels_of_every_kind():
    for y in ([True, False], [1, 0], [1.0, -1.0], np.array([1, -1])):
        np.testing.assert_array_equal(likelihoods.Bernoulli().targets(y), [1.0, -1.0])


def test_by_name():
    assert likelihoods.by_name("probit").link == "probit"
    assert likelihoods.by_name("logit", flip=0.1).flip == 0.1
    assert isinstance(likelihoods.by_name("softmax", classes=4), likelihoods.Softmax)
    given = likelihoods.Laplace()
    assert likelihoods.by_name(given) is given
    for name in (
        "poisson",
        "student-t",
        "laplace",
        "mixture",
        "heteroscedastic",
        "gaussian",
        "epsilon-insensitive",
    ):
        assert isinstance(likelihoods.by_name(name), likelihoods.AbstractLikelihood)
    with pytest.raises(ValueError, match=r"by_name\('ordinal', levels=\.\.\.\)"):
        likelihoods.by_name("ordinal")
    with pytest.raises(ValueError, match="unknown likelihood"):
        likelihoods.by_name("normal")
    with pytest.raises(ValueError, match="go with a name"):
        likelihoods.by_name(given, scale=2.0)


@pytest.mark.slow
def test_predictions_in_blocks_are_the_same(monkeypatch):
    from mercer.likelihoods import base

    mean, variance = np.linspace(-2, 2, 23), np.linspace(0.1, 3, 23)
    whole = likelihoods.StudentT().log_density(0.3, mean, variance)
    monkeypatch.setattr(base, "BLOCK", 5)
    np.testing.assert_allclose(likelihoods.StudentT().log_density(0.3, mean, variance), whole, rtol=1e-14)
