"""Functions that do not change when inputs are turned: copies that count once, tangents, averaged kernels."""

import numpy as np
import pytest

import mercer as mc
from mercer import observe
from mercer.inputs import InputError
from mercer.kernels import SE, Invariant

rng = np.random.default_rng(1)
X = rng.uniform(-2, 2, (14, 2))
Xs = rng.uniform(-1.8, 1.8, (60, 2))
NOISE = 1e-3


def turned(X, t):
    return X @ np.array([[np.cos(t), np.sin(t)], [-np.sin(t), np.cos(t)]])


def f(X):
    return np.cos(2.0 * np.linalg.norm(X, axis=1))


def error(post):
    return float(np.sqrt(np.mean((post.mean(Xs) - f(Xs)) ** 2)))


@pytest.fixture(scope="module")
def plain():
    return mc.GP(SE(0.8)).condition(X, f(X), noise_variance=NOISE)


@pytest.fixture(scope="module")
def along():
    return mc.GP(SE(0.8)).condition(
        observe.values(X, f(X)) + observe.tangents(X, turned), noise_variance=NOISE
    )


def test_tangents_lower_the_error_and_hold(plain, along):
    assert error(along) < 0.7 * error(plain)
    slopes = along.mean(observe.tangents(X, turned))
    before = mc.GP(SE(0.8)).condition(observe.values(X, f(X)), noise_variance=NOISE)
    assert np.abs(slopes).max() < 0.05 < 0.2 < np.abs(before.mean(observe.tangents(X, turned))).max()


def test_virtual_examples_and_averaged_kernels_lower_the_error(plain):
    angles = np.arange(1, 8) * np.pi / 4
    examples = observe.virtual_examples(X, f(X), [lambda X, t=t: turned(X, t) for t in angles])
    assert examples.X.shape == (112, 2) and np.isclose(examples.weight.sum(), 14)
    noise = NOISE / examples.weight
    copied = mc.GP(SE(0.8)).condition(examples.X, examples.y, noise_variance=noise)
    assert error(copied) < 0.5 * error(plain)
    group = [turned(np.eye(2), t) for t in (0.0, *angles)]
    averaged = mc.GP(Invariant(SE(0.8, 4.0), group)).condition(X, f(X), noise_variance=NOISE)
    assert error(averaged) < 0.5 * error(plain)
    assert np.allclose(averaged.mean(turned(Xs, np.pi / 4)), averaged.mean(Xs))


def test_copies_count_once(plain):
    """Of transformations that do nothing nothing is learned."""
    examples = observe.virtual_examples(X, f(X), [lambda X: X, lambda X: X])
    noise = NOISE / examples.weight
    again = mc.GP(SE(0.8)).condition(examples.X, examples.y, noise_variance=noise)
    assert np.allclose(again.mean(Xs), plain.mean(Xs), atol=1e-6)
    assert np.allclose(again.std(Xs, latent=True), plain.std(Xs, latent=True), atol=1e-6)


@pytest.mark.slow
def test_estimators_take_virtual_examples():
    angles = (0.3, -0.3)
    examples = observe.virtual_examples(X, f(X), [lambda X, t=t: turned(X, t) for t in angles])
    kernel = SE([0.8, 0.8])
    model, rival = (mc.GPRegressor(kernel).fit(*data) for data in (examples, (X, f(X))))
    errors = [np.sqrt(np.mean((m.predict(Xs) - f(Xs)) ** 2)) for m in (model, rival)]
    assert errors[0] < 0.9 * errors[1]


def test_what_is_no_transformation_is_refused():
    with pytest.raises(InputError, match="transformation 1 must give finite numbers of the shape"):
        observe.virtual_examples(X, f(X), [lambda X: X, lambda X: X[:, :1]])
    with pytest.raises(InputError, match="must be X itself"):
        observe.tangents(X, lambda X, t: X + 1.0)
    with pytest.raises(InputError, match="moves no row"):
        observe.tangents(X, lambda X, t: X)
    at_centre = np.vstack([X[:2], [0.0, 0.0]])
    assert len(observe.tangents(at_centre, turned, y_error=0.1)) == 2
