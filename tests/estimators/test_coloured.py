"""Noise correlated along a column: GPRegressor(noise_along=...)."""

import numpy as np
import pandas as pd
import pytest

import mercer as mc
from mercer import kernels as k

N = 150


@pytest.fixture(scope="module")
def fitted():
    """A slow sine and AR(1) errors, of which steps are forgotten within half a day."""
    rng = np.random.default_rng(0)
    t = np.sort(rng.uniform(0, 30, N))
    C = 0.25 * np.exp(-np.abs(t[:, None] - t) / 0.5)
    y = 2.0 * np.sin(t / 4) + np.linalg.cholesky(C) @ rng.normal(size=N) + 0.1 * rng.normal(size=N)
    table = pd.DataFrame({"day": t})
    return t, y, table, mc.GPRegressor(noise_along="day").fit(table, y)


def test_as_by_hand(fitted):
    t, y, _, model = fitted
    kernel, noise = model.kernel_.terms
    X, Xs = t[:, None], np.array([[3.3], [t[10]], [45.0]])
    A = kernel(X) + noise(X) + model.noise_variance_ * np.eye(N)
    residual = np.linalg.solve(A, y - y.mean())
    mean, std = model.predict({"day": Xs[:, 0]}, return_std=True, latent=True)
    K = kernel(X, Xs)
    np.testing.assert_allclose(mean, y.mean() + K.T @ residual, atol=1e-8)
    np.testing.assert_allclose(std**2, np.diag(kernel(Xs) - K.T @ np.linalg.solve(A, K)), atol=1e-8)
    np.testing.assert_allclose(model.predict_columns({"day": Xs[:, 0]}, latent=True)["std"], std)
    K = K + noise(X, Xs)
    np.testing.assert_allclose(model.predict({"day": Xs[:, 0]}), y.mean() + K.T @ residual, atol=1e-8)


def test_the_noise_is_found(fitted, tmp_path):
    t, y, table, model = fitted
    found = model.coloured_noise_
    assert found.column == "day" and found.std == pytest.approx(0.5, rel=0.4)
    assert 0.2 < found.lengthscale < 1.5
    plain = mc.GPRegressor().fit(table, y)
    assert model.log_marginal_likelihood_ > plain.log_marginal_likelihood_ + 3
    truth = 2.0 * np.sin(t / 4)
    errors = [np.sqrt(np.mean((m.predict(table, latent=True) - truth) ** 2)) for m in (model, plain)]
    assert errors[0] < errors[1]  # the free fit follows the errors
    mean, std = model.predict(table, return_std=True, latent=True)
    assert np.mean(np.abs(mean - truth) < 2 * std) > 0.85
    model.save(tmp_path / "m.mercer")
    again = mc.load(tmp_path / "m.mercer")
    assert again.coloured_noise_ == found
    np.testing.assert_allclose(again.predict(table, latent=True), mean, rtol=1e-8)


def test_what_cannot_be(fitted):
    _, y, table, model = fitted
    with pytest.raises(
        ValueError, match="noise_along goes with Gaussian noise of one kernel: leave out likelihood"
    ):
        mc.GPRegressor(noise_along="day", likelihood="student-t").fit(table, y)
    with pytest.raises(ValueError, match="'kind' must be a column of numbers or dates"):
        mc.GPRegressor(noise_along="kind", learn=False).fit(table.assign(kind=np.resize(["a", "b"], N)), y)
    with pytest.raises(ValueError, match="unknown column 'days': did you mean 'day'"):
        mc.GPRegressor(noise_along="days", learn=False).fit(table, y)
    with pytest.raises(ValueError, match="joint draws are of y"):
        model.sample_y(table[:3], latent=True)
    given = mc.GPRegressor(k.SE(3.0), noise_along=0, learn=False).fit(table.to_numpy(), y)
    assert given.coloured_noise_.lengthscale == pytest.approx(0.02 * np.ptp(table.day), rel=1e-6)
