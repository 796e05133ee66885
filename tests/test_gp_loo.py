"""Leave-one-out and one-step-ahead predictions, against refits. GPML 5.4.2, Kuss 2.10, 3.19."""

import numpy as np
import pytest

import mercer as mc
from mercer import kernels as k
from mercer.posteriors.loo import folds

RNG = np.random.default_rng(9)
X, Y = RNG.normal(size=(10, 2)), RNG.normal(size=10)
KERNEL, MEAN = k.SE([0.8, 1.5], 1.4) + k.Linear(0.3), mc.means.Linear([0.5, -0.2], 0.1)
GP = mc.GP(KERNEL, MEAN)
NOISES = [pytest.param(0.15, id="one-noise"), pytest.param(np.linspace(0.05, 0.6, 10), id="noise-per-datum")]


@pytest.mark.parametrize("noise", NOISES)
def test_leave_one_out(noise):
    """A.M8, C.GP5 (5.10-5.12): mean, variance and log density equal n refits to 1e-10, noise included."""
    found = GP.condition(X, Y, noise_variance=noise).loo()
    each = np.broadcast_to(noise, 10)
    for i in range(10):
        rest = np.delete(np.arange(10), i)
        post = GP.condition(X[rest], Y[rest], noise_variance=noise if np.ndim(noise) == 0 else noise[rest])
        assert found.mean[i] == pytest.approx(post.mean(X[[i]])[0], rel=1e-10, abs=1e-10)
        assert found.variance[i] == pytest.approx(post.variance(X[[i]], noise_variance=each[i])[0], rel=1e-10)
        density = post.log_density(X[[i]], Y[[i]], noise_variance=each[i])[0]
        assert found.log_density[i] == pytest.approx(density, rel=1e-10, abs=1e-10)


@pytest.mark.parametrize(
    "solver", ["dense", mc.solvers.Dense("jax"), "weight-space"], ids=["lapack", "jax", "weight-space"]
)
def test_leave_one_out_on_every_solver(solver):
    """A.M8: written once, for every solver."""
    gp = mc.GP(k.Linear([0.7, 0.3]) + k.Constant(0.5), MEAN)
    found = gp.condition(X, Y, noise_variance=0.2, solver=solver).loo()
    Ky = gp.kernel(X) + 0.2 * np.eye(10)
    inverse, residual = np.linalg.inv(Ky), Y - np.asarray(MEAN.value(X))
    np.testing.assert_allclose(found.mean, Y - inverse @ residual / np.diag(inverse), rtol=1e-9, atol=1e-10)
    np.testing.assert_allclose(found.variance, 1 / np.diag(inverse), rtol=1e-10)


def test_left_out_mean_does_not_see_its_datum():
    """A.M8: mu_i stays when y_i moves."""
    moved = Y.copy()
    moved[3] += 5.0
    a, b = (GP.condition(X, y, noise_variance=0.15).loo() for y in (Y, moved))
    assert b.mean[3] == pytest.approx(a.mean[3], abs=1e-10)
    np.testing.assert_allclose(a.variance, b.variance, rtol=1e-13)
    assert not np.allclose(a.mean, b.mean)


@pytest.mark.parametrize("noise", NOISES)
def test_prequential_densities(noise):
    """C.BAY7, A.R8 (2.10): one-step-ahead densities are predictions from the data before;
    in any order they sum to the evidence.
    """
    post = GP.condition(X, Y, noise_variance=noise)
    found = post.prequential()
    each = np.broadcast_to(noise, 10)
    for i in range(1, 10):
        before = GP.condition(X[:i], Y[:i], noise_variance=each[:i])
        assert found[i] == pytest.approx(
            before.log_density(X[[i]], Y[[i]], noise_variance=each[i])[0], rel=1e-9, abs=1e-10
        )
    assert found.sum() == pytest.approx(post.log_evidence, rel=1e-12)
    order = RNG.permutation(10)
    other = GP.condition(X[order], Y[order], noise_variance=each[order]).prequential()
    assert other.sum() == pytest.approx(post.log_evidence, rel=1e-11)
    assert not np.allclose(other, found)


def test_prequential_needs_proper_weights():
    """C.BAY7: with vague basis functions the first predictions are undefined, and it says so."""
    post = mc.GP(KERNEL, basis=mc.means.Polynomial(1)).condition(X, Y, noise_variance=0.1)
    with pytest.raises(ValueError, match="first predictions are undefined"):
        post.prequential()


def test_expected_loo_exceeds_expected_evidence():
    """A.M21 (exercise 5.6.2): under the model,
    each datum given all others is better predicted than given those before it.
    """
    x = np.linspace(-2, 2, 8)[:, None]
    gp, noise, size = mc.GP(k.SE(0.8)), 0.1, 400
    f = gp.sample(x, size, seed=1)
    y = f + np.sqrt(noise) * np.random.default_rng(2).normal(size=f.shape)
    posts = [gp.condition(x, one, noise_variance=noise) for one in y]
    gaps = np.array([post.loo().log_density.sum() - post.log_evidence for post in posts])
    assert gaps.mean() > 5 * gaps.std() / np.sqrt(size)
    # both have a closed form: the expected log density of a normal is -1/2 log(2 pi e v)
    Ky = gp.kernel(x) + noise * np.eye(8)
    expected_loo = -0.5 * np.sum(np.log(2 * np.pi * np.e / np.diag(np.linalg.inv(Ky))))
    expected_evidence = -0.5 * np.linalg.slogdet(2 * np.pi * np.e * Ky)[1]
    assert gaps.mean() == pytest.approx(expected_loo - expected_evidence, abs=5 * gaps.std() / np.sqrt(size))


def test_folds():
    """Random folds: every row once, sizes that differ by at most one, the same for the same seed."""
    parts = folds(23, 5, seed=1)
    assert sorted(np.concatenate(parts)) == list(range(23)) and {len(p) for p in parts} == {4, 5}
    for a, b in zip(parts, folds(23, 5, seed=1), strict=True):
        np.testing.assert_array_equal(a, b)
    for k_folds in (1, 24):
        with pytest.raises(ValueError, match="between 2 and the number of data"):
            folds(23, k_folds)
