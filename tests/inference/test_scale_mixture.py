"""The factorial variational scheme for scale mixtures of normals (Kuss 5.4.1)."""

import numpy as np
import pytest
from scipy.special import digamma, gammaln

import mercer as mc
from mercer import kernels as k
from mercer import likelihoods as lk
from mercer.inference import EP, KL, ScaleMixture, by_name
from mercer.solvers.protocol import SolverError

from . import reference
from .conformance import OUTLYING, REAL, N, X, run

THREE, Y = np.array([[-1.0], [0.0], [1.2]]), np.array([0.3, 2.5, -0.2])
ALPHA, BETA = 1.5, 0.2
STUDENT = lk.StudentT(np.sqrt(BETA / ALPHA), 2 * ALPHA)
NOISES = {
    "student-t": lk.StudentT(0.3, 3.0),
    "laplace": lk.Laplace(0.3),
    "mixture": lk.GaussianMixtureNoise(0.2, 0.2, 20.0),
}
every = pytest.mark.parametrize("noise", NOISES.values(), ids=NOISES)


def three(likelihood, rule=None):
    return mc.Model(mc.GP(k.SE(1.0, 1.0)), likelihood).condition(
        THREE, Y, ScaleMixture() if rule is None else rule
    )


def test_three_points():
    """C.VER5: the bound, means and variances; below the exact evidence."""
    post = three(STUDENT)
    assert post.log_evidence == pytest.approx(-7.217765, abs=1e-6)
    mean, variance = post.latent_moments(THREE)
    np.testing.assert_allclose(mean, [0.40713, 1.16915, -0.06009], atol=6e-6)
    np.testing.assert_allclose(variance, [0.11164, 0.27623, 0.11544], atol=6e-6)
    assert post.status.converged and post.log_evidence < -6.401138


def test_five_terms():
    """C.ROB8: the bound is (5.39) + (5.40) + (5.41) + (5.42) + (5.43),
    and the weights solve (5.34)-(5.36).
    """
    post = three(STUDENT, ScaleMixture(tol=1e-12))
    K = reference.se(THREE, THREE, 1.0, 1.0)
    w = post.state.sites.precision[:, 0]
    a = ALPHA + 0.5
    b = a / w
    A = np.linalg.inv(np.linalg.inv(K) + np.diag(w))
    m = A @ (w * Y)
    np.testing.assert_allclose(b, BETA + 0.5 * ((Y - m) ** 2 + np.diag(A)), rtol=1e-9)
    log_2pi, n = np.log(2 * np.pi), 3
    terms = [
        -0.5 * n * log_2pi
        - 0.5 * np.sum(np.log(b) - digamma(a))
        - 0.5 * np.sum(w * (Y - m) ** 2)
        - 0.5 * np.sum(w * np.diag(A)),
        np.sum(
            -a * BETA / b + ALPHA * np.log(BETA) - gammaln(ALPHA) + (1 + ALPHA) * (digamma(a) - np.log(b))
        ),
        -0.5
        * (
            n * log_2pi
            + np.linalg.slogdet(K)[1]
            + m @ np.linalg.solve(K, m)
            + np.trace(np.linalg.solve(K, A))
        ),
        0.5 * (n * log_2pi + np.linalg.slogdet(A)[1] + n),
        np.sum(a + np.log(b) + gammaln(a) - (1 + a) * digamma(a)),
    ]
    assert post.log_evidence == pytest.approx(sum(terms), abs=1e-9)


@pytest.mark.representative("student-t")
@every
def test_a_lower_bound_on_the_exact_evidence(noise):
    """And below the best Gaussian's bound, which does not factorise."""
    exact, _, _ = reference.integrate(
        lambda i, f: np.asarray(noise.log_prob(f, Y[i])), reference.se(THREE, THREE, 1.0, 1.0), nodes=161
    )
    bound, best = three(noise).log_evidence, three(noise, KL()).log_evidence
    assert bound < best + 1e-9 and best < exact
    assert exact - bound < 2.0


@every
def test_plain_steps_never_lower_the_bound_and_end_at_the_same_place(noise):
    from mercer.gp import choose_solver, prepare
    from mercer.inference.scale_mixture import _Problem

    model = mc.Model(mc.GP(k.SE(1.0, 1.5)), noise)
    inputs, y = prepare(model, X, OUTLYING)
    model = model.bind(inputs)
    solver = choose_solver(model, "dense")
    problem = _Problem(model, inputs.values, y, solver, solver.workspace(model.priors, inputs.values))
    start = problem.starts()[1]
    point, bounds = problem.point(start), []
    for _ in range(200):
        bounds.append(point.bound)
        point = problem.point(point.best.weight)
    assert np.all(np.diff(bounds) >= -1e-10)
    fast = problem.climb(problem.point(start), 1e-9, 100)
    assert fast.bound == pytest.approx(point.bound, abs=1e-7)
    np.testing.assert_allclose(fast.weight, point.weight, rtol=1e-4)


def test_many_degrees_of_freedom_are_gaussian_noise():
    """And the outcome is exact then."""
    exact = mc.Model(mc.GP(k.SE(1.0, 1.4)), lk.Gaussian(0.25)).condition(X, REAL)
    post = mc.Model(mc.GP(k.SE(1.0, 1.4)), lk.StudentT(0.5, 1e10)).condition(X, REAL)
    assert post.log_evidence == pytest.approx(exact.log_evidence, abs=1e-6)
    np.testing.assert_allclose(post.latent_moments(X), exact.latent_moments(X), atol=1e-7)


def test_rare_outliers_are_gaussian_noise():
    """C.ROB2: weight -> 0."""
    exact = mc.Model(mc.GP(k.SE(1.0, 1.4)), lk.Gaussian(0.25)).condition(X, REAL)
    post = mc.Model(mc.GP(k.SE(1.0, 1.4)), lk.GaussianMixtureNoise(1e-12, 0.25, 10.0)).condition(
        X, REAL, ScaleMixture()
    )
    assert post.log_evidence == pytest.approx(exact.log_evidence, abs=1e-6)


@every
def test_an_outlier_loses_its_weight(noise):
    """The further off, the less it pulls; weights do not depend on the units of y."""
    weights = []
    for far in (0.0, 10.0, 1e6):
        y = REAL + far * (np.arange(N) == 6)
        post = mc.Model(mc.GP(k.SE(1.5, 1.4)), noise).condition(X, y, ScaleMixture())
        weights.append(post.state.sites.precision[6, 0])
        assert post.status.converged and np.isfinite(post.log_evidence)
    assert weights[0] > weights[1] >= weights[2] > 0
    if isinstance(noise, lk.StudentT):
        assert weights[2] == pytest.approx(4.0 / 1e12, rel=1e-3)


def test_warm_weights_save_factorisations():
    from mercer.gp import choose_solver, prepare

    model = mc.Model(mc.GP(k.SE(1.0, 1.4)), lk.StudentT(0.3, 3.0))
    inputs, y = prepare(model, X, OUTLYING)
    model = model.bind(inputs)
    solver = choose_solver(model, "dense")
    workspace = solver.workspace(model.priors, inputs.values)
    cold, warm = (
        ScaleMixture().run(model, inputs.values, y, solver, workspace).status.iterations for _ in range(2)
    )
    assert warm == 1 < cold
    short = ScaleMixture(max_iterations=1)
    result = short.run(model, inputs.values, y, solver)
    assert not result.status.converged and any("had not converged" in note for note in result.notes)


def test_several_maxima_are_said():
    """A tight pair of data that disagree: either may be the outlier."""
    inputs, y = np.array([[0.0], [0.01], [3.0]]), np.array([-5.0, 5.2, 0.0])
    result = run(
        mc.Model(mc.GP(k.SE(1.0, 30.0)), lk.GaussianMixtureNoise(0.2, 0.01, 1e4)), inputs, y, ScaleMixture()
    )[2]
    assert result.status.converged and any("several maxima" in note for note in result.notes)


def test_names_and_refusals():
    assert (
        type(by_name(None, lk.StudentT()))
        is type(by_name("variational", lk.GaussianMixtureNoise()))
        is ScaleMixture
    )
    assert type(by_name("scale-mixture")) is ScaleMixture
    assert (
        type(by_name("variational", lk.Poisson()))
        is type(by_name("variational"))
        is type(by_name("kl", lk.StudentT()))
        is KL
    )
    assert (
        type(by_name(None, lk.GaussianMixtureNoise())) is type(by_name(None, lk.ContaminatedUniform())) is EP
    )
    for likelihood in (lk.Poisson(), lk.ContaminatedUniform(), lk.EpsilonInsensitive()):
        with pytest.raises(SolverError, match="scale mixture of normals"):
            mc.Model(mc.GP(k.SE()), likelihood).condition(X, np.abs(np.round(REAL)), ScaleMixture())
    with pytest.raises(ValueError, match="objective='evidence'"):
        bound, y, result = run(mc.Model(mc.GP(k.SE()), STUDENT), X, REAL, ScaleMixture())
        ScaleMixture().gradient(bound, y, result, mean_bar=np.ones((N, 1)))
