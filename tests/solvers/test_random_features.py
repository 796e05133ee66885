"""Random Fourier features: exact weight-space algebra on a kernel that converges to the true one."""

import numpy as np
import pytest

import mercer as mc
from mercer import kernels as k
from mercer import means
from mercer.inputs import as_inputs
from mercer.linalg import tiles
from mercer.solvers import RandomFeatures, SolverError
from mercer.solvers.random_features import RandomFeaturesWorkspace, _values

from .conformance import KINDS, MEAN, problem, reference, sites

X, XS = problem()
KERNELS = {
    "se": k.SE([0.9, 1.4], 1.3),
    "loadings": k.SE(1.5, loadings=[[0.5], [-0.4]]),
    "matern-1/2": k.Matern(1.2, 0.7, nu=0.5),
    "matern-5/2": k.Matern([0.8, 1.5], nu=2.5),
    "matern-learned": k.Matern(0.8, nu=mc.param(1.2)),
    "rational quadratic": k.RationalQuadratic(0.8, 0.9, 1.4),
    "gamma-exponential": k.GammaExponential(1.1, 0.6, 1.5),
    "gamma = 2": k.GammaExponential(1.1, 0.6, 2.0),
    "product": 1.4 * (k.SE(0.9).on(0) * k.Matern(1.3, nu=1.5).on(1) * k.Constant(1.2)),
    "same columns": k.SE([0.9, 1.4]) * k.RationalQuadratic(1.5),
    "sum": 0.5 * (k.SE([0.9, 1.4]) + k.Matern(0.5, nu=1.5).on(1)) + k.Linear(0.3),
}


def approximate(solver, kernel, A, B=None, on=X):
    """The kernel that the solver works with."""
    prior = mc.GP(kernel).bind(as_inputs(on))
    waves = RandomFeaturesWorkspace(solver, prior, on).waves(prior)
    left, right = (
        np.asarray(tiles.call(_values, waves, waves.encode(Z))) for Z in (A, A if B is None else B)
    )
    return left @ right.T


@pytest.mark.representative("se", "sum", "product", "matern-5/2")
@pytest.mark.parametrize("name", list(KERNELS))
def test_kernel_converges(name):
    """m = 20,000: every entry within five standard deviations, at most sqrt(1 / m) of the variance each;
    the diagonal exact.
    """
    kernel, m = KERNELS[name], 20_000
    K, exact = approximate(RandomFeatures(m), kernel, X, XS), kernel(X, XS)
    variance = float(kernel(X[:1])[0, 0])
    terms = 2 if name == "sum" else 1
    assert np.abs(K - exact).max() < 5 * variance * np.sqrt(terms / m)
    np.testing.assert_allclose(
        np.diag(approximate(RandomFeatures(8), kernel, X)), np.diag(kernel(X)), rtol=1e-12
    )


def test_error_falls_as_the_root_of_m_and_orthogonality_helps():
    """Root-mean-square over seeds, 8 columns: a quarter with 16 times the frequencies;
    less for orthogonal ones at the same m.
    """
    kernel, X = k.SE(3.0), np.random.default_rng(1).normal(size=(40, 8))

    def rms(m, orthogonal=False):
        errors = [
            approximate(RandomFeatures(m, seed, orthogonal), kernel, X, on=X) - kernel(X)
            for seed in range(10)
        ]
        return np.sqrt(np.mean(np.square(errors)))

    assert rms(512) == pytest.approx(rms(32) / 4, rel=0.25)
    assert rms(32, orthogonal=True) < 0.8 * rms(32)


@pytest.mark.parametrize("kind", KINDS)
def test_state_is_exact_for_its_own_kernel(kind):
    """Everything a State says, with the approximate kernel's matrix put into the reference integral."""
    solver, gp = RandomFeatures(30), mc.GP(KERNELS["sum"], MEAN)
    both = np.concatenate([X, XS])
    expected = reference(gp, X, sites(kind), XS, K=approximate(solver, gp.kernel, both))
    state = solver.factor(gp.bind(as_inputs(X)), X, sites(kind))
    close = dict(rtol=1e-8, atol=1e-9)
    assert state.log_normaliser == pytest.approx(expected["log_normaliser"], rel=1e-9)
    mean, variance = state.marginals()
    np.testing.assert_allclose(mean[:, 0], expected["mean"], **close)
    np.testing.assert_allclose(variance[:, 0], expected["var"], **close)
    mean, covariance = state.predict(XS, full=True)
    np.testing.assert_allclose(mean[:, 0], expected["test_mean"], **close)
    np.testing.assert_allclose(covariance, expected["test_covariance"], **close)
    assert "pairs of data" in state.notes[0] and 0 < state.kernel_error < 0.5


@pytest.mark.representative("se", "sum")
@pytest.mark.parametrize(
    "name", ["se", "matern-learned", "rational quadratic", "gamma-exponential", "product", "sum"]
)
def test_gradient_by_finite_differences(name):
    """The evidence of the approximate model is a smooth function of all hyperparameters,
    and this is its gradient.
    """
    y, solver = np.sin(X[:, 0]), RandomFeatures(20)
    gp = mc.GP(KERNELS[name], means.Constant(0.1))
    value = lambda kernel: mc.log_evidence_and_gradient(mc.GP(kernel, gp.mean), X, y, 0.1, solver=solver)  # noqa: E731
    _, gradient = value(gp.kernel)
    for p in mc.params.parameters(gp.kernel):
        at = np.atleast_1d(p.value).astype(float)
        step = np.zeros(at.shape)
        step.flat[0] = 1e-6
        up, down = (
            value(
                mc.params.replace_leaves(gp.kernel, {p.name: np.reshape(at + s * step, np.shape(p.value))})
            )[0]
            for s in (1, -1)
        )
        assert np.ravel(gradient[f"kernel.{p.name}"])[0] == pytest.approx(
            (up - down) / 2e-6, rel=1e-5, abs=1e-6
        ), p.name


def test_posterior_converges_to_the_dense_one():
    """m = 2,000 on 60 data: evidence within 1, predictions within 0.05 of a prior standard deviation."""
    rng = np.random.default_rng(7)
    X = rng.uniform(-2, 2, size=(60, 2))
    y = np.sin(2 * X[:, 0]) + 0.3 * rng.normal(size=60)
    Xs, kernel = rng.uniform(-2, 2, size=(20, 2)), KERNELS["se"]
    ours, dense = (
        mc.GP(kernel).condition(X, y, noise_variance=0.09, solver=s) for s in (RandomFeatures(2000), "dense")
    )
    assert ours.log_evidence == pytest.approx(dense.log_evidence, abs=1.0)
    np.testing.assert_allclose(ours.mean(Xs), dense.mean(Xs), rtol=0, atol=0.05)


def test_regressor_and_classifiers():
    """Through the estimators: Gaussian noise, and softmax classification with several latent functions."""
    rng = np.random.default_rng(8)
    X = rng.uniform(-2, 2, size=(60, 2))
    y = np.sin(2 * X[:, 0]) + 0.1 * rng.normal(size=60)
    model = mc.GPRegressor(k.SE([1.0, 1.0]), solver=RandomFeatures(60), restarts=0).fit(X, y)
    assert np.mean((model.predict(X) - y) ** 2) < 0.05
    assert any("random features" in note for note in model.posterior_.notes)
    labels = np.digitize(X[:, 0], [-0.7, 0.7])
    classes = mc.GPClassifier(k.SE(1.0), inference="laplace", solver=RandomFeatures(20), restarts=0).fit(
        X, labels
    )
    assert classes.score(X, labels) > 0.9


def test_refusals():
    """Kernels without a sampler, sums inside products, bad m."""
    for kernel in (k.Periodic(), (k.SE() + k.Matern()) * k.SE(), k.SE() * k.Linear()):
        with pytest.raises(SolverError, match="no random frequencies"):
            RandomFeatures(4).workspace(mc.GP(kernel).bind(as_inputs(X)), X)
    with pytest.raises(ValueError, match="at least 1"):
        RandomFeatures(0)
