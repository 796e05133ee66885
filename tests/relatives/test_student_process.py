"""The Student-t process beside scipy's multivariate t, its own differences, and the GP that it becomes."""

import numpy as np
import pytest
from scipy.stats import multivariate_t
from scipy.stats import t as student

import mercer as mc
from mercer.kernels import SE
from mercer.means import Constant
from mercer.relatives import StudentTProcess

rng = np.random.default_rng(0)
X = np.sort(rng.uniform(0, 5, (12, 1)), 0)
y = 3.0 * np.sin(X[:, 0]) + 0.2 * rng.standard_normal(12) + 1.0
Xs = np.array([[0.3], [2.2], [7.0]])


def process(dof=4.0, **settings):
    return StudentTProcess(mc.GP(SE(0.9, 1.3), Constant(0.4)), noise_variance=0.05, dof=dof, **settings)


@pytest.fixture(scope="module")
def post():
    return process().condition(X, y)


def test_evidence_and_predictions_are_those_of_the_multivariate_t(post):
    """p(y* | y) = p(y*, y) / p(y), by scipy."""
    one = process()
    K = one.gp.kernel(X) + 0.05 * np.eye(12)
    exact = multivariate_t(np.full(12, 0.4), K, df=4.0).logpdf(y)
    assert np.isclose(post.log_evidence, exact, rtol=1e-10)
    for x, target in zip(Xs, (0.1, 5.0, -2.0), strict=True):
        both = np.vstack([X, x])
        joint = multivariate_t(np.full(13, 0.4), one.gp.kernel(both) + 0.05 * np.eye(13), df=4.0)
        assert np.isclose(post.log_density(x[None], [target])[0], joint.logpdf([*y, target]) - exact)


def test_the_mean_is_that_of_the_gp_and_the_width_follows_the_data(post):
    gaussian = process().gaussian.condition(X, y)
    assert np.allclose(post.mean(Xs), gaussian.mean(Xs))
    wide = process().condition(X, 0.4 + 10 * (y - 0.4))
    assert wide.inflation > 20 * post.inflation / 2 and wide.inflation > 1
    assert np.allclose(wide.scale(Xs) / post.scale(Xs), np.sqrt(wide.inflation / post.inflation))
    near = process().condition(X, 0.4 + 0.01 * (y - 0.4))
    assert near.inflation < 1 and (near.std(Xs) < gaussian.std(Xs)).all()


def test_it_becomes_the_gp_as_dof_grows():
    t, gaussian = process(1e9).condition(X, y), process().gaussian.condition(X, y)
    assert np.isclose(t.log_evidence, gaussian.log_evidence, atol=1e-5)
    assert np.allclose(t.std(Xs), gaussian.std(Xs), rtol=1e-6)
    assert np.allclose(t.quantile(Xs, [0.1, 0.9]), gaussian.quantile(Xs, [0.1, 0.9]), rtol=1e-6)


def test_quantiles_and_draws(post):
    q = post.quantile(Xs, [0.05, 0.5, 0.95])
    assert q.shape == (3, 3) and post.quantile(Xs, 0.5).shape == (3,)
    assert np.allclose(q[:, 1], post.mean(Xs)) and post.dof == 16.0
    assert np.allclose(
        student.cdf((q - post.mean(Xs)[:, None]) / post.scale(Xs)[:, None], 16), [0.05, 0.5, 0.95]
    )
    drawn = post.sample(Xs, 20000, seed=1)
    assert np.allclose(drawn.std(0), post.std(Xs), rtol=0.03)
    assert np.allclose(np.quantile(drawn, 0.05, axis=0), q[:, 0], atol=0.05 * post.std(Xs).max())
    prior = process(3.0).sample(X[:2], 4000, seed=0)
    assert np.mean(np.abs(prior[:, 0] - 0.4) > 3 * np.sqrt(1.3)) > 0.03  # heavy tails: 0.0027 of a Gaussian
    with pytest.raises(ValueError, match="strictly between"):
        post.quantile(Xs, 1.0)


def test_the_gradient_is_that_of_differences():
    def moved(name, step):
        values = {"kernel.lengthscale": 0.9, "kernel.variance": 1.3, "mean.constant": 0.4}
        values |= {"noise_variance": 0.05, "dof": 4.0}
        values[name] += step
        kernel = SE(values["kernel.lengthscale"], values["kernel.variance"])
        gp = mc.GP(kernel, Constant(values["mean.constant"]))
        return StudentTProcess(gp, values["noise_variance"], values["dof"])

    value, gradient = process().log_evidence_and_gradient(X, y)
    assert np.isclose(value, process().condition(X, y).log_evidence)
    for name, slope in gradient.items():
        h = 1e-5
        ends = [moved(name, s * h).log_evidence_and_gradient(X, y)[0] for s in (1, -1)]
        assert np.isclose(float(slope), (ends[0] - ends[1]) / (2 * h), rtol=1e-5, atol=1e-6), name
    assert set(gradient) == {
        "kernel.lengthscale",
        "kernel.variance",
        "mean.constant",
        "noise_variance",
        "dof",
    }


def test_learning_climbs_and_degrees_of_freedom_are_learned():
    start = StudentTProcess(mc.GP(SE(0.9, 1.3)), 0.05)
    found = start.fit(X, y)
    assert found.condition(X, y).log_evidence > start.condition(X, y).log_evidence + 1
    assert float(found.dof) != float(start.dof) and 0.5 < float(found.dof) < 1e4
    held = StudentTProcess(mc.GP(SE(0.9, 1.3)), 0.05, mc.fixed(4.0)).fit(X, y)
    assert float(held.dof) == 4.0
    with pytest.warns(mc.learning.UnconvergedWarning, match="max_evaluations"):
        start.fit(X, y, max_evaluations=2)


def test_what_it_does_not_take_is_refused():
    with pytest.raises(TypeError, match="needs a GP first"):
        StudentTProcess(SE())
    with pytest.raises(ValueError, match="basis functions"):
        StudentTProcess(mc.GP(SE(), basis=mc.means.Polynomial(1)))
    with pytest.raises(ValueError, match="dof"):
        process(-1.0)


def test_gross_outliers_widen_everything():
    """The data of docs/robust.md: learning converges, and one factor for all rows does not see outliers."""
    rng = np.random.default_rng(0)
    X = np.sort(rng.uniform(-3, 3, (80, 1)), 0)
    y = np.sin(2 * X[:, 0]) + 0.1 * rng.standard_normal(80)
    y[[10, 40, 41, 70]] += [4.0, -6.0, 5.0, 30.0]
    start = StudentTProcess(mc.GP(SE([1.0])), noise_variance=0.1)
    post = start.fit(X, y).condition(X, y)
    low, high = post.quantile(X[:3], [0.05, 0.95]).T
    assert (
        post.log_evidence > StudentTProcess(mc.GP(SE([1.0])), noise_variance=0.1).condition(X, y).log_evidence
    )
    assert (high - low > 3.0).all()
