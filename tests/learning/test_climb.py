"""The climb itself: how many evaluations it takes, and what it is kept from."""

import numpy as np
import pytest

import mercer as mc
from mercer import kernels as k
from mercer.hyperpriors import LogNormal
from mercer.learning import FitWarning

RNG = np.random.default_rng(0)
X = RNG.uniform(-3, 3, (30, 2))
Y = np.sin(2 * X[:, 0]) + 0.1 * RNG.normal(size=30)


@pytest.mark.parametrize("seed", [0, 9])
def test_a_softmax_fit_does_not_walk_on_roughness(seed):
    """These took 440 and 96 evaluations where their neighbours took 14."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-3, 3, (100, 3))
    labels = np.digitize(np.sin(2 * X[:, 0]) + 0.2 * rng.normal(size=100), [-0.3, 0.3])
    status = mc.GPClassifier().fit(X, labels).fit_.status
    assert status.converged and status.evaluations <= 20


def fitted(lengthscale, **options):
    model = mc.Model(mc.GP(k.SE(lengthscale)), mc.likelihoods.Gaussian(0.05))
    return mc.fit(model, X, Y, **options)


def test_no_evaluations_learn_nothing():
    """The values stay as they are given, and there is nothing to warn of."""
    found = fitted(mc.param(1.3, bounds=(0.1, 2.0)), max_evaluations=0)
    assert float(found.model.gp.kernel.lengthscale) == pytest.approx(1.3, rel=1e-12)
    assert found.status.evaluations == 1 and "nothing was learned" in found.status.message
    assert found.value == pytest.approx(mc.log_evidence(found.model, X, Y), rel=1e-13)  # two ways to it
    with pytest.raises(ValueError, match="max_evaluations must be 0"):
        fitted(1.0, max_evaluations=-1)


def test_an_end_at_a_bound_is_said():
    with pytest.warns(
        FitWarning, match=r"kernel.lengthscale\[0\] is at its lower bound 2, and .* widen"
    ) as said:
        found = fitted(mc.param([3.0, 3.0], bounds=(2.0, 1e5)))
    assert len(said) == 1 and found.model.gp.kernel.lengthscale[0] == pytest.approx(2.0)
    with pytest.warns(FitWarning, match="kernel.lengthscale is at its upper bound 0.2"):
        fitted(mc.param(0.1, bounds=(1e-3, 0.2)))


@pytest.mark.parametrize(
    "lengthscale",
    [
        mc.param(0.1, bounds=(1e-3, 1e3)),  # ends inside
        mc.param(0.2, bounds=(0.199, 0.201)),  # held on purpose
        mc.param(0.1, bounds=(1e-3, 0.2), prior=LogNormal(0.0, 1.0)),  # where the prior ends
    ],
)
def test_other_bounds_are_not(lengthscale):
    fitted(lengthscale)


def test_a_start_outside_its_bounds_is_said():
    with pytest.warns(
        FitWarning, match=r"kernel.lengthscale = 50 is outside its bounds \(0.1, 10.0\)"
    ) as said:
        found = fitted(mc.param(50.0, bounds=(0.1, 10.0)))
    assert len(said) == 1 and 0.1 < found.model.gp.kernel.lengthscale < 10.0
    assert found.value == pytest.approx(fitted(mc.param(5.0, bounds=(0.1, 10.0))).value, abs=1e-3)


def test_data_without_noise_are_nothing_to_warn_of():
    """The evidence of a function that goes through all data is rough by rounding: no search converges."""
    x = np.linspace(0, 1, 60)[:, None]
    found = mc.GPRegressor().fit(x, np.exp(x[:, 0]) * np.cos(x[:, 0]))
    inside = np.linspace(0.05, 0.95, 9)
    np.testing.assert_allclose(found.predict(inside[:, None]), np.exp(inside) * np.cos(inside), rtol=1e-5)


@pytest.mark.parametrize("seed", [0, 4])
def test_data_without_noise_in_columns_without_effect(seed):
    """The search ends where the noise cannot be told from none, without a warning."""
    X = np.random.default_rng(seed).normal(size=(50, 3))
    found = mc.GPRegressor().fit(X, np.sin(X[:, 0]))
    np.testing.assert_allclose(found.predict(X), np.sin(X[:, 0]), atol=1e-4)


@pytest.mark.parametrize("shape", [lambda t: 2.0 * t + 1.0, lambda t: np.sin(np.pi * t / 6)])
def test_series_without_noise(shape):
    t = np.arange(60.0)
    ahead = mc.GPTimeSeries(integrate=False).fit(t, shape(t)).forecast(1)
    (mean,), (std,) = (np.asarray(ahead[name], float) for name in ("mean", "std"))
    assert abs(mean - shape(60.0)) < 3 * std + 1e-6


def test_classes_that_can_be_separated_are_said():
    """XOR: the variance of a kernel that is given grows without limit, unless it has a prior."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(100, 2))
    labels = np.logical_xor(x[:, 0] > 0, x[:, 1] > 0)
    product = k.Linear().on(0) * k.Linear(mc.fixed(1.0)).on(1)
    with pytest.warns(FitWarning, match="the classes can be separated"):
        mc.GPClassifier(product).fit(x, labels)
    prior = mc.param(1.0, prior=LogNormal(3.6, 1.5))
    mc.GPClassifier(k.Linear(prior).on(0) * k.Linear(mc.fixed(1.0)).on(1)).fit(x, labels)
