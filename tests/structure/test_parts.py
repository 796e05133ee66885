"""The evidence by parts is that of the whole model, and its gradient the gradient."""

import numpy as np
import pytest

import mercer as mc
from mercer import kernels as k
from mercer.gp import GP, Model
from mercer.inputs import Inputs
from mercer.likelihoods import Gaussian, StudentT
from mercer.structure.beam import left_out
from mercer.structure.parts import Problem, Rows
from mercer.structure.periods import likely_periods, shortest_period

RNG = np.random.default_rng(1)
X = RNG.uniform(0, 10, (40, 2))
Y = np.sin(X[:, 0]) + 0.3 * X[:, 1] + 0.1 * RNG.normal(size=40)
Y[3] += 5.0
KERNEL = k.ChangePoint(
    k.SE(1.3).on(0), k.Scale(0.4, k.Linear(mc.fixed(0.3))).on(1), 4.0, 2.0
) + k.ZeroSumPeriodic(2.0, 1.1, 0.7).on(0) * k.Linear(1.0, centre=mc.param(3.0)).on(1)


@pytest.mark.parametrize("noise", [Gaussian(0.3), StudentT(0.3, 4.0)], ids=["gaussian", "student-t"])
def test_evidence_and_gradient(noise):
    model = Model(GP(KERNEL), noise).bind(Inputs(X))
    problem = Problem(model, Rows(X), Y)
    vector = problem.flat.vector
    for _ in range(30):  # the places of the bound settle
        value, gradient, evidence = problem.value_and_gradient(vector)
    post = model.condition(X, Y)
    assert evidence == pytest.approx(post.log_evidence, abs=1e-5)
    assert problem.value() == pytest.approx(value, abs=1e-6)
    for j, step in enumerate(1e-4 * np.eye(len(vector))):
        ends = []
        for side in (vector + step, vector - step):
            for _ in range(10):
                end = problem.value_and_gradient(side)[0]
            ends.append(end)
        assert gradient[j] == pytest.approx((ends[0] - ends[1]) / 2e-4, rel=1e-3, abs=2e-3)
    if isinstance(noise, Gaussian):
        np.testing.assert_allclose(left_out(problem), post.loo().log_density, rtol=1e-8)


def test_periods_of_irregular_times():
    t = np.sort(RNG.uniform(0, 100, 150))
    found = likely_periods(t, np.sin(2 * np.pi * t / 7.3) + 0.3 * RNG.normal(size=150), shortest_period(t))
    assert found[0] == pytest.approx(7.3, rel=0.02)
    assert likely_periods(t, np.zeros(150), 1.0) == []
