"""Several outputs: GPRegressor(outputs="independent" | "coregional")."""

import numpy as np
import pandas as pd
import pytest

import mercer as mc
from mercer import kernels as k
from mercer.inputs import InputError
from mercer.solvers import Outputs

N = 40
RNG = np.random.default_rng(3)
X = np.sort(RNG.uniform(0, 3, N))[:, None]
F = np.stack([np.sin(4 * X[:, 0]), 2.0 + 5.0 * np.sin(4 * X[:, 0]) + 0.3 * X[:, 0]], 1)
Y = F + RNG.normal(size=(N, 2)) * [0.1, 0.4]
GAPS = Y.copy()
GAPS[12:28, 0] = np.nan  # the first output is not known in the middle
XS = np.array([[0.3], [1.4], [2.9]])


@pytest.fixture(scope="module")
def alone():
    return mc.GPRegressor().fit(X, GAPS)


@pytest.fixture(scope="module")
def together():
    frame = pd.DataFrame(GAPS, columns=["zinc", "lead"])
    return mc.GPRegressor(outputs="coregional").fit(pd.DataFrame({"depth": X[:, 0]}), frame)


def test_independent_outputs_are_models_of_their_own(alone):
    known = ~np.isnan(GAPS[:, 0])
    first = mc.GPRegressor().fit(X[known], GAPS[known, 0])
    second = mc.GPRegressor().fit(X, GAPS[:, 1])
    mean, std = alone.predict(XS, return_std=True)
    assert mean.shape == std.shape == (3, 2) and alone.outputs_ == ("y0", "y1")
    for j, model in enumerate((first, second)):
        np.testing.assert_array_equal(mean[:, j], model.predict(XS))
        ends = alone.predict_quantile(XS, [0.1, 0.9])
        np.testing.assert_array_equal(ends[:, j], model.predict_quantile(XS, [0.1, 0.9]))
    expected = first.log_marginal_likelihood_ + second.log_marginal_likelihood_
    assert alone.log_marginal_likelihood_ == pytest.approx(expected, rel=1e-12)
    np.testing.assert_allclose(alone.noise_variance_, [first.noise_variance_, second.noise_variance_])
    density = alone.log_density(X, GAPS)
    assert np.array_equal(np.isnan(density), np.isnan(GAPS))
    np.testing.assert_array_equal(density[known, 0], first.log_density(X[known], GAPS[known, 0]))


def test_correlated_outputs_fill_each_others_gaps(alone, together):
    gap = np.isnan(GAPS[:, 0])
    new = pd.DataFrame({"depth": X[:, 0]})
    error = [
        np.sqrt(np.mean((m.predict(x)[gap, 0] - F[gap, 0]) ** 2)) for m, x in ((alone, X), (together, new))
    ]
    assert error[1] < 0.15 and 2 * error[1] < error[0]
    lower, upper = together.predict_interval(new, 0.9)
    assert np.mean((lower <= Y) & (upper >= Y)) > 0.8
    assert together.score(new, Y) > 0.9
    assert abs(together._several.correlations[0, 1]) > 0.8
    np.testing.assert_allclose(np.sqrt(together.noise_variance_), [0.1, 0.4], rtol=0.5)


def test_it_is_one_process_on_rows_and_outputs(together):
    """The same by hand: a dense posterior of the long table in units of each output's own."""
    (member,) = together.estimators_
    several = together._several
    kernel = member.kernel_
    long = member.posterior_.inputs.values
    at = np.column_stack([np.tile(XS, (2, 1)), np.repeat([0.0, 1.0], 3)])
    noise = np.asarray(member.noise_variance_)[long[:, 1].astype(int)]
    K = kernel(long) + np.diag(noise)
    mean = (kernel(at, long) @ np.linalg.solve(K, member.posterior_.y)).reshape(2, 3).T
    shown = together.predict({"depth": XS[:, 0]})
    np.testing.assert_allclose(shown, mean * several.scale + several.centre, rtol=1e-7)
    _, logdet = np.linalg.slogdet(2 * np.pi * K)
    y = member.posterior_.y
    by_hand = -0.5 * (y @ np.linalg.solve(K, y) + logdet) - np.sum(
        np.log(several.scale[long[:, 1].astype(int)])
    )
    assert together.log_marginal_likelihood_ == pytest.approx(by_hand, rel=1e-9)


def test_what_is_said_and_kept(alone, together, tmp_path):
    assert "output y1" in alone.summary()
    for word in ("correlation of the functions", "zinc", "lead", "by output"):
        assert word in together.summary()
    for model, new in ((alone, XS), (together, {"depth": XS[:, 0]})):
        model.save(tmp_path / "m.mercer")
        again = mc.load(tmp_path / "m.mercer")
        assert again.outputs_ == model.outputs_
        np.testing.assert_allclose(again.predict(new), model.predict(new), rtol=1e-12)
        np.testing.assert_allclose(again.log_density(new, Y[:3]), model.log_density(new, Y[:3]), rtol=1e-8)


def test_what_cannot_be(alone):
    for question in (alone.loo, lambda: alone.components(XS), lambda: alone.outliers_, alone.importance):
        with pytest.raises(ValueError, match="several outputs: ask those in estimators_"):
            question()
    empty = GAPS.copy()
    empty[:, 1] = np.nan
    with pytest.raises(InputError, match="all cells of output 'y1' are empty"):
        mc.GPRegressor().fit(X, empty)
    with pytest.raises(ValueError, match=r"outputs 'coregion'.*coregional"):
        mc.GPRegressor(outputs="coregion").fit(X, Y)
    with pytest.raises(ValueError, match="go with one output"):
        mc.GPRegressor().fit(X, Y, sample_weight=np.ones(N))
    with pytest.raises(ValueError, match="goes with Gaussian noise"):
        mc.GPRegressor(outputs="coregional", likelihood="student-t").fit(X, Y)
    with pytest.raises(ValueError, match="learns a noise of each output: leave out White"):
        mc.GPRegressor(k.SE() + k.White(0.1), outputs="coregional").fit(X, Y)
    with pytest.raises(ValueError, match="output_rank must be between 1 and the number of outputs, 2; got 3"):
        mc.GPRegressor(outputs="coregional", output_rank=3).fit(X, Y)
    with pytest.raises(ValueError, match=r"output_noise 'both'.*correlated"):
        mc.GPRegressor(outputs="coregional", output_noise="both").fit(X, Y)
    with pytest.raises(ValueError, match="use outputs='coregional'"):
        mc.GPRegressor(output_noise="correlated").fit(X, Y)
    with pytest.raises(InputError, match="a column for each of y0, y1"):
        alone.log_density(XS, np.zeros((3, 3)))
    with pytest.raises(InputError, match="not numeric"):
        mc.GPRegressor().fit(X, np.full((N, 2), "a"))


def test_complete_outputs_are_solved_one_by_one():
    """By `Outputs`, unless something else is asked for; with the same result."""
    ours, dense = (
        mc.GPRegressor(outputs="coregional", learn=False, solver=solver).fit(X, Y)
        for solver in (None, "dense")
    )
    assert isinstance(ours.estimators_[0].posterior_.solver, Outputs)
    assert ours.log_marginal_likelihood_ == pytest.approx(dense.log_marginal_likelihood_, abs=1e-8)
    for mine, theirs in zip(
        ours.predict(XS, return_std=True), dense.predict(XS, return_std=True), strict=True
    ):
        np.testing.assert_allclose(mine, theirs, rtol=1e-8)
    assert not isinstance(
        mc.GPRegressor(outputs="coregional", learn=False).fit(X, GAPS).estimators_[0].posterior_.solver,
        Outputs,
    )


@pytest.mark.parametrize("solver", ["outputs", "dense"])
def test_without_common_parts_they_are_independent(solver):
    """Coregional outputs with a diagonal covariance between them are models of their own."""
    own = np.array([0.7, 2.3])
    mixing = k.CategoricalCovariance([0.0, 1.0], np.zeros((2, 1)), own)
    long = np.column_stack([np.tile(X, (2, 1)), np.repeat([0.0, 1.0], N)])
    noise = np.repeat([0.1, 0.3], N)
    both = mc.GP(k.Matern(0.6).on(0) * mixing.on(1)).condition(
        long, Y.T.ravel(), noise_variance=noise, solver=solver
    )
    evidence = 0.0
    for o, y in enumerate(Y.T):
        alone = mc.GP(k.Matern(0.6, own[o])).condition(X, y, noise_variance=noise[o * N])
        evidence += alone.log_evidence
        at = np.column_stack([XS, np.full(len(XS), o)])
        np.testing.assert_allclose(both.mean(at), alone.mean(XS), rtol=1e-9)
        np.testing.assert_allclose(
            both.variance(at, latent=True), alone.variance(XS, latent=True), rtol=1e-9, atol=1e-12
        )
    assert both.log_evidence == pytest.approx(evidence, rel=1e-10)


def test_correlated_noise_is_found(tmp_path):
    """Functions that run against each other, and noise that runs with each other: both as they were drawn."""
    rng, n = np.random.default_rng(1), 120
    x = np.sort(rng.uniform(0, 6, n))[:, None]
    f = np.column_stack([np.sin(3 * x[:, 0]), -4.0 * np.sin(3 * x[:, 0])])
    Sigma = np.array([[0.09, 0.30], [0.30, 1.44]])  # a correlation of 0.83
    noisy = f + rng.multivariate_normal([0.0, 0.0], Sigma, n)
    model = mc.GPRegressor(outputs="coregional", output_noise="correlated").fit(x, noisy)
    S = model.noise_covariance_
    np.testing.assert_allclose(S, Sigma, rtol=0.25)
    np.testing.assert_allclose(np.diag(S), model.noise_variance_)
    assert model._several.correlations[0, 1] < -0.95
    plain = mc.GPRegressor(outputs="coregional").fit(x, noisy)
    assert model.log_marginal_likelihood_ > plain.log_marginal_likelihood_ + 20
    assert np.array_equal(plain.noise_covariance_, np.diag(plain.noise_variance_))
    _, of_y = model.predict(XS, return_std=True)
    _, of_f = model.predict(XS, return_std=True, latent=True)
    np.testing.assert_allclose(of_y**2 - of_f**2, np.tile(model.noise_variance_, (3, 1)), rtol=1e-6)
    assert "correlation of their noise" in model.summary()
    model.save(tmp_path / "m.mercer")
    again = mc.load(tmp_path / "m.mercer")
    np.testing.assert_allclose(again.predict(XS, return_std=True)[1], of_y, rtol=1e-8)
    np.testing.assert_allclose(again.noise_covariance_, S, rtol=1e-12)


def test_a_sum_of_kernels_has_a_covariance_for_each_term():
    """The linear model of coregionalisation, against the dense sum by hand; of any rank."""
    model = mc.GPRegressor(
        k.SE(0.5) + k.Matern(2.0, nu=1.5), outputs="coregional", output_rank=1, learn=False
    ).fit(X, Y)
    (member,), several = model.estimators_, model._several
    first, second = (term.factors for term in member.kernel_.terms)
    long, noise = member.posterior_.inputs.values, np.asarray(member.noise_variance_)
    output = long[:, 1].astype(int)
    K = np.diag(noise[output])
    for (inner, mixing), plain in zip((first, second), (k.SE(0.5), k.Matern(2.0, nu=1.5)), strict=True):
        assert np.shape(mixing.kernel.loadings) == (2, 1)
        B = np.asarray(mixing.kernel.covariance())
        assert np.asarray(inner.kernel.lengthscale) == np.asarray(plain.lengthscale)
        K = K + inner.kernel(long[:, :1]) * B[np.ix_(output, output)]
    y = member.posterior_.y
    evidence = -0.5 * (y @ np.linalg.solve(K, y) + np.linalg.slogdet(2 * np.pi * K)[1])
    expected = evidence - N * np.sum(np.log(several.scale))
    assert model.log_marginal_likelihood_ == pytest.approx(expected, rel=1e-9)


@pytest.mark.slow
def test_a_kernel_given(together):
    kernel = k.Matern(nu=1.5, lengthscale=1.0, variance=mc.fixed(1.0))
    model = mc.GPRegressor(kernel, outputs="coregional").fit(X, GAPS)
    gap = np.isnan(GAPS[:, 0])
    assert np.sqrt(np.mean((model.predict(X)[gap, 0] - F[gap, 0]) ** 2)) < 0.2


@pytest.mark.slow
def test_cokriging_of_metals(data_dir):
    """Zinc at 60 sites of the Meuse, lead and copper at all 155: zinc at the other 95 is predicted with less
    than half the error (a quarter measured), and a density higher by more than a half.
    """
    table = np.genfromtxt(data_dir / "meuse.csv", delimiter=",", names=True, dtype=None, encoding=None)
    sites = np.column_stack([table["x"], table["y"]]).astype(float)
    metals = np.log(np.column_stack([table[name] for name in ("zinc", "lead", "copper")]).astype(float))
    rng, error, density = np.random.default_rng(0), [], []
    for _ in range(3):
        hidden = rng.permutation(len(sites))[60:]
        known = metals.copy()
        known[hidden, 0] = np.nan
        models = [mc.GPRegressor(outputs=how).fit(sites, known) for how in ("independent", "coregional")]
        found = [m.predict(sites[hidden])[:, 0] for m in models]
        error.append([np.sqrt(np.mean((f - metals[hidden, 0]) ** 2)) for f in found])
        density.append([m.log_density(sites[hidden], metals[hidden])[:, 0].mean() for m in models])
    error, density = np.mean(error, 0), np.mean(density, 0)
    assert error[1] < 0.5 * error[0] and density[1] > density[0] + 0.5
