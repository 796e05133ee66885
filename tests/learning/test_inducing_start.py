"""Where a search with inducing inputs starts: noise that holds what they do not explain."""

import numpy as np
import pytest

import mercer as mc
from mercer import kernels as k
from mercer.learning import by_gradient, starts
from mercer.solvers import VFE

RNG = np.random.default_rng(0)
X = RNG.uniform(-2, 2, (400, 4))
Y = np.sin(X @ np.array([1.5, 1.0, -1.0, 0.5])) * np.cos(X[:, 1])
Y = (Y - Y.mean()) / Y.std()


def model(noise):
    return mc.Model(mc.GP(k.SE(np.ones(4))), mc.likelihoods.Gaussian(noise))


def test_the_rest_is_added_to_free_noise():
    solver = VFE(16).prepare(model(0.1).gp, X, Y, 0.1)
    rest = model(0.1).condition(X, Y, solver=solver).state.t.mean()
    # fewer data than the sample: all of them
    assert solver.rest(model(0.1).gp, X) == pytest.approx(rest, rel=1e-10)
    raised = starts.with_rest(model(0.1), X, solver)
    assert float(raised.likelihood.noise_variance) == pytest.approx(0.1 + 2 * rest, rel=1e-10)
    held = model(mc.fixed(0.1))
    assert starts.with_rest(held, X, solver) is held
    assert starts.with_rest(model(0.1), X, mc.solvers.Dense()) == model(0.1)


def test_data_without_noise_and_few_inducing_inputs(monkeypatch):
    """A part of the data is fitted exactly with almost no noise, from where the bound, 10^10 nats too low,
    was not climbed.
    """
    monkeypatch.setattr(by_gradient, "PILOT", 300)
    fit = mc.fit(model(0.1), X, Y, solver=VFE(16))
    first = next(e.value for e in fit.history if e.start == "pilot" and e.size == 400)
    assert first > -1000 and fit.status.converged
    assert fit.value > -535  # 400 data that are all noise: -568
