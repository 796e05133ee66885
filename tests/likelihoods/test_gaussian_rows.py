"""Gaussian noise of which something is known for each row: its weight, its error, its group."""

import numpy as np
import pytest
from scipy.stats import multivariate_normal

import mercer as mc
from mercer import kernels as k
from mercer import solvers
from mercer.columns import Groups
from mercer.gp import HeldOut
from mercer.inference import EP, Exact
from mercer.inputs import Inputs
from mercer.likelihoods import Gaussian
from mercer.params import ParameterError, parameters, replace_leaves

RNG = np.random.default_rng(3)
N = 12
X = np.c_[np.sort(RNG.uniform(0, 4, N)), RNG.integers(0, 3, N)]
Y = np.sin(X[:, 0]) + 0.3 * RNG.normal(size=N)
XS = np.array([[0.5, 0.0], [1.7, 1.0], [3.1, 2.0], [2.0, 7.0]])
WEIGHT, ERROR = RNG.uniform(0.5, 4.0, N), RNG.uniform(0.0, 0.5, N)
BY = Groups("kind", (1,), ((0.0,), (1.0,), (2.0,)), ("a", "b", "c"))
CODES = X[:, 1].astype(int)
NOISE = np.array([0.05, 0.2, 0.6])
KERNEL = k.Matern(1.1, 1.3, nu=1.5).on(0)

LIKELIHOODS = {
    "weight": (Gaussian(0.1, weight=WEIGHT), 0.1 / WEIGHT),
    "error": (Gaussian(0.1, error=ERROR), 0.1 + ERROR**2),
    "groups": (Gaussian(mc.param(NOISE), by=BY, group=CODES), NOISE[CODES]),
    "all": (
        Gaussian(mc.param(NOISE), weight=WEIGHT, error=ERROR, by=BY, group=CODES),
        NOISE[CODES] / WEIGHT + ERROR**2,
    ),
}


@pytest.fixture(params=LIKELIHOODS)
def case(request):
    likelihood, noise = LIKELIHOODS[request.param]
    return mc.Model(mc.GP(KERNEL), likelihood), noise


def test_posterior_evidence_and_left_out_rows_by_hand(case):
    model, noise = case
    post = model.condition(X, Y)
    K, cross = KERNEL(X) + np.diag(noise), KERNEL(X, XS)
    mean, covariance = cross.T @ np.linalg.solve(K, Y), KERNEL(XS) - cross.T @ np.linalg.solve(K, cross)
    assert post.log_evidence == pytest.approx(multivariate_normal(np.zeros(N), K).logpdf(Y), rel=1e-10)
    np.testing.assert_allclose(post.mean(XS), mean, rtol=1e-9)
    np.testing.assert_allclose(post.variance(XS, latent=True), np.diag(covariance), rtol=1e-8)
    inverse = np.linalg.inv(K)
    left = post.loo()
    np.testing.assert_allclose(left.variance, 1.0 / np.diag(inverse), rtol=1e-9)
    np.testing.assert_allclose(left.mean, Y - inverse @ Y / np.diag(inverse), rtol=1e-9)
    # elsewhere the noise is the learned one: of weight 1, of the group, of a mean of them where it is new
    learned = np.append(NOISE, NOISE.mean()) if model.likelihood.by else np.full(4, 0.1)
    np.testing.assert_allclose(post.variance(XS), np.diag(covariance) + learned, rtol=1e-8)
    np.testing.assert_allclose(post.covariance(XS), covariance + np.diag(learned), rtol=1e-8, atol=1e-12)
    np.testing.assert_allclose(
        post.quantile(XS, 0.975), mean + 1.959963984540054 * np.sqrt(np.diag(covariance) + learned), rtol=1e-8
    )


def test_gradient_against_differences(case):
    model, _ = case
    _, gradient = mc.log_evidence_and_gradient(model, X, Y)
    values = {p.name: p.value for p in parameters(model)}
    assert sorted(gradient) == sorted(values)
    for name in set(values) - {"likelihood.group"}:
        for index in np.ndindex(np.shape(values[name])):
            step = np.zeros(np.shape(values[name]))
            step[index] = 1e-5
            ends = [
                mc.log_evidence(replace_leaves(model, {name: values[name] + s}), X, Y) for s in (step, -step)
            ]
            assert gradient[name][index] == pytest.approx((ends[0] - ends[1]) / 2e-5, rel=1e-5, abs=1e-7)


SOLVERS = [solvers.VFE(m=N), "markov", solvers.FITC(m=N), solvers.Vecchia(neighbours=N)]


@pytest.mark.parametrize(
    "solver", [SOLVERS[0], *(pytest.param(s, marks=pytest.mark.slow) for s in SOLVERS[1:])]
)
def test_every_solver_of_noise_by_row(solver):
    """Where their approximation is vacuous they are dense algebra."""
    x, likelihood = X[:, :1], Gaussian(0.1, weight=WEIGHT, error=ERROR)
    model = mc.Model(mc.GP(k.Matern(1.1, 1.3, nu=1.5)), likelihood)
    dense = mc.log_evidence_and_gradient(model, x, Y)
    other = mc.log_evidence_and_gradient(model, x, Y, solver=solver)
    assert other[0] == pytest.approx(dense[0], rel=1e-6)
    for name, bar in dense[1].items():
        np.testing.assert_allclose(other[1][name], bar, rtol=1e-4, atol=1e-6, err_msg=name)


def test_an_approximate_rule_is_exact_for_them():
    model = mc.Model(mc.GP(KERNEL), LIKELIHOODS["all"][0])
    ours, theirs = model.condition(X, Y), model.condition(X, Y, EP())
    assert theirs.log_evidence == pytest.approx(ours.log_evidence, rel=1e-6)
    np.testing.assert_allclose(theirs.std(XS), ours.std(XS), rtol=1e-6)


@pytest.mark.slow
def test_draws_of_hyperparameters_have_the_noise_of_the_rows():
    model = mc.Model(
        mc.GP(mc.kernels.Matern(mc.fixed(1.1), mc.fixed(1.3), nu=1.5).on(0)), LIKELIHOODS["all"][0]
    )
    post = mc.fit(
        model, X, Y, inference=mc.inference.MCMC(draws=60, tune=60, chains=2, progress=False)
    ).posterior
    assert post.variance(XS).shape == (4,) and np.all(post.variance(XS) > post.variance(XS, latent=True))


def test_rows_are_cut_with_the_data():
    whole = LIKELIHOODS["all"][0]
    rows = np.array([7, 2, 3])
    cut = whole.at_rows(rows, N)
    np.testing.assert_array_equal(cut.variances, whole.variances[rows])
    np.testing.assert_array_equal(cut.noise_variance, NOISE)
    three = Gaussian(mc.param(NOISE), by=BY, group=[0, 1, 2])  # as many data as groups
    np.testing.assert_array_equal(three.at_rows(np.array([2]), 3).noise_variance, NOISE)


def test_rows_held_out_are_judged_with_their_own_noise():
    """By which solver="auto" compares its candidates."""
    model, inputs = mc.Model(mc.GP(KERNEL), LIKELIHOODS["all"][0]), Inputs(X, None)
    held = HeldOut.of(model, inputs, Y, Exact())
    out, kept = held.out, held.kept
    post = mc.Model(mc.GP(KERNEL), model.likelihood.at_rows(kept, N)).condition(X[kept], Y[kept])
    noise = model.likelihood.variances[out]
    assert held.score(model, solvers.Dense()) == pytest.approx(
        post.log_density(X[out], Y[out], noise_variance=noise).mean(), rel=1e-9
    )


def test_a_series_has_one_noise():
    with pytest.raises(ValueError, match="a series has one noise for all times"):
        mc.GPTimeSeries(likelihood=Gaussian(0.1, error=ERROR)).fit(np.arange(float(N)), Y)


def test_what_is_wrong_is_said():
    for wrong in (
        dict(weight=[0.0, 1.0]),
        dict(weight=[1.0, np.nan]),
        dict(error=[-0.1, 1.0]),
        dict(error=0.1),
        dict(weight=[1.0], error=[1.0, 2.0]),
        dict(noise_variance=[0.1, 0.2], weight=[1.0, 1.0]),
        dict(group=[0.0]),
        dict(noise_variance=[0.1, 0.2, 0.3], by=BY, group=[3.0]),
        dict(noise_variance=[0.1, 0.2], by=BY, group=[0.0]),
    ):
        with pytest.raises(ParameterError):
            Gaussian(**wrong)
    with pytest.raises(ValueError, match="the noise of rows has 2 entries but there are 12 data"):
        mc.Model(mc.GP(KERNEL), Gaussian(0.1, error=[0.1, 0.2])).condition(X, Y)
