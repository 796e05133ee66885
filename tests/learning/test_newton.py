"""Climbs from a curvature that is known: the same tops as L-BFGS-B finds, with fewer evaluations."""

import numpy as np
import pytest

import mercer as mc
from mercer import kernels, learning, likelihoods
from mercer.hyperpriors import LogNormal
from mercer.inference import Exact
from mercer.inputs import Inputs
from mercer.learning.climb import Optimum, Recorder, curvature, maximise
from mercer.learning.newton import ascend, prior_curvature
from mercer.learning.objectives import by_name
from mercer.learning.problem import LearningProblem
from mercer.learning.search import climb_near
from mercer.params import flatten, param


class Quadratic:
    """-1/2 (v - top)' H (v - top), with a box of its own."""

    size, jacobian = 100, True

    def __init__(self, model, H, top):
        self.flat, self.H, self.top = flatten(model), H, top

    def value_and_gradient(self, v):
        slope = self.H @ (self.top - v)
        value = -0.5 * (self.top - v) @ slope
        return value, slope, value


def about(value, sigma, **rest):
    return param(value, prior=LogNormal(np.log(value), sigma), **rest)


def model(**rest):
    return mc.Model(
        mc.GP(kernels.Matern(about(2.0, 1.0), about(0.5, 1.5), nu=1.5)),
        likelihoods.Gaussian(about(0.1, 2.0, **rest)),
    )


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(3)
    X = np.sort(rng.uniform(0, 30, 60))
    return X[:, None], np.sin(X) + 0.3 * rng.normal(size=60)


def test_curvature_of_log_normal_priors_is_their_precision():
    found = prior_curvature(model(), jacobian=True)
    assert np.allclose(found, np.diag(np.array([1.0, 1.5, 2.0]) ** -2), rtol=1e-6)


def test_flat_priors_count_as_weak_ones():
    plain = mc.Model(mc.GP(kernels.Matern(2.0, 0.5)), likelihoods.Gaussian(0.1))
    assert np.allclose(prior_curvature(plain), np.eye(3) / 9)


@pytest.mark.parametrize("known", [True, False])
def test_top_of_a_quadratic_function(known):
    rng = np.random.default_rng(0)
    A = rng.normal(size=(3, 3))
    H, recorder = A @ A.T + np.diag([1.0, 10.0, 300.0]), Recorder(100)
    problem = Quadratic(model(), H, flatten(model()).vector + np.array([0.3, -0.5, 1.0]))
    start = problem.flat.vector
    top = ascend(problem, start, H if known else prior_curvature(model(), True), "x", recorder)
    assert top.value > -1e-3 and top.expected_gain < 1e-3
    assert np.linalg.eigvalsh(top.curvature).min() > 0
    if known:  # Newton's step is the answer; one more confirms it
        assert len(recorder.history) <= 3 and np.allclose(top.vector, problem.top, atol=1e-8)
        assert np.allclose(top.curvature, H, rtol=1e-6)
    else:
        assert len(recorder.history) <= 20


def test_bounds_hold():
    bounded = model(bounds=(0.05, 0.2))
    H = np.diag([2.0, 3.0, 4.0])
    problem = Quadratic(bounded, H, flatten(bounded).vector + np.array([0.3, -0.5, 2.0]))
    top = ascend(problem, problem.flat.vector, H, "x", Recorder(100))
    assert np.allclose(np.exp(top.vector[2]), 0.2) and np.allclose(top.vector[:2], problem.top[:2], atol=1e-6)


def test_evaluations_have_a_limit(data):
    how = dict(starts="given", curvature=prior_curvature(model(), True), jacobian=True, solver="markov")
    with pytest.warns(learning.UnconvergedWarning):
        found = learning.fit(model(), *data, max_evaluations=2, **how)
    assert found.status.evaluations == 2 and "LIMIT" in found.status.message


def test_same_top_as_from_several_starts_with_fewer_evaluations(data):
    how = dict(jacobian=True, solver="markov")
    several = learning.fit(model(), *data, **how)
    given = dict(starts="given", curvature=prior_curvature(model(), True), **how)
    found = learning.fit(model(), *data, **given)
    assert found.value + found.log_prior > several.value + several.log_prior - 2e-3
    assert found.status.converged and found.status.evaluations < 0.6 * several.status.evaluations
    again = learning.fit(found.model, *data, **given | dict(curvature=found.curvature))
    assert again.status.evaluations <= 4


def test_curvature_goes_with_the_values_given(data):
    with pytest.raises(ValueError, match="starts='given'"):
        learning.fit(model(), *data, curvature=np.eye(3))


@pytest.mark.parametrize(
    ("curvature", "said"),
    [
        (np.eye(2), "a row and a column for each of kernel.lengthscale"),
        (np.diag([1.0, 1.0, -1.0]), "eigenvalues above 0"),
        (np.triu(np.ones((3, 3))), "symmetric"),
        (np.diag([1.0, 1.0, np.nan]), "eigenvalues above 0"),
    ],
)
def test_what_cannot_be_a_curvature_is_refused(data, curvature, said):
    with pytest.raises(ValueError, match=said):
        learning.fit(model(), *data, starts="given", curvature=curvature, solver="markov")


def test_near_a_good_start_the_top_of_many_data_is_few_steps_away():
    """From values of few data, the top of 4,000 is many of their standard deviations away."""
    rng = np.random.default_rng(0)
    X = np.sort(rng.uniform(0, 100, 4000))[:, None]
    y = np.sin(X[:, 0]) + 0.3 * np.sin(3.1 * X[:, 0]) + 0.2 * rng.standard_normal(4000)
    given = mc.Model(mc.GP(kernels.Matern(2.0, 1.0, nu=1.5)), likelihoods.Gaussian(0.1))
    problem = LearningProblem(
        given, [(Inputs(X, None), y)], Exact(), mc.solvers.Markov(), by_name("evidence")
    )
    start, recorder, slow = flatten(given).vector, Recorder(4000), Recorder(4000)
    top = climb_near(problem, start, "near", recorder, 100)
    part = problem.subset(1600, 0)
    at_start = Optimum(start, *part.value_and_gradient(start))
    scaling = curvature(part, at_start, "part", Recorder(1600), 4000 / part.size)
    expected = maximise(problem, start, "near", slow, scaling=scaling, gtol=2e-2)
    assert top.value == pytest.approx(expected.value, abs=1e-3)
    asked = [sum(one.size == 4000 for one in r.history) for r in (recorder, slow)]
    assert asked[0] < asked[1]
