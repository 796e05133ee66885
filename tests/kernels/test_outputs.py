"""Kernels on rows (x, output): process convolutions and noise that outputs share. B.X1, B.X3."""

import numpy as np
import pytest

import mercer as mc
from mercer import kernels as k
from mercer.inputs import InputError
from mercer.params import ParameterError

LENGTHS, AMPLITUDES = np.array([0.3, 1.2, 0.7]), np.array([1.4, -0.8, 0.5])


def smoothing(u, width, amplitude):
    """h with integral of h^2 amplitude^2, exp(-u^2 / width^2) by shape."""
    h = np.exp(-((u / width) ** 2))
    return amplitude * h / np.sqrt(np.sum(h**2) * (u[1] - u[0]))


def test_it_is_the_integral_of_two_smoothing_kernels():
    """cov(f_o(x), f_o'(x')) = integral of h_o(x - u) h_o'(x' - u) du, by a sum over a fine grid."""
    u = np.linspace(-15, 15, 6001)
    x = np.array([-0.7, 0.0, 0.4])
    rows = np.column_stack([np.tile(x, 3), np.repeat(np.arange(3.0), 3)])
    shifted = [np.interp(x_i - u, u, smoothing(u, LENGTHS[int(o)], AMPLITUDES[int(o)])) for x_i, o in rows]
    expected = np.array([[np.sum(a * b) * (u[1] - u[0]) for b in shifted] for a in shifted])
    kernel = k.ProcessConvolution(LENGTHS, AMPLITUDES)
    np.testing.assert_allclose(kernel(rows), expected, atol=2e-5)
    two = k.ProcessConvolution(np.column_stack([LENGTHS, LENGTHS[::-1]]), AMPLITUDES)
    square = np.column_stack([rows[:, 0], 0.5 * rows[:, 0], rows[:, 1]])
    other = kernel(np.column_stack([0.5 * rows[:, 0], 2.0 - rows[:, 1]]))
    ends = AMPLITUDES[::-1][rows[:, 1].astype(int)]
    np.testing.assert_allclose(two(square), kernel(rows) * other / np.outer(ends, ends), rtol=1e-12)


def test_each_output_alone_is_squared_exponential():
    x = np.linspace(-1, 1, 5)[:, None]
    kernel = k.ProcessConvolution(LENGTHS, AMPLITUDES)
    for o in range(3):
        rows = np.column_stack([x, np.full(5, o)])
        np.testing.assert_allclose(kernel(rows), k.SE(LENGTHS[o], AMPLITUDES[o] ** 2)(x), rtol=1e-12)


def test_outputs_of_different_smoothness_help_each_other():
    """The rough one is known where the smooth one is not."""
    rng = np.random.default_rng(0)
    x = np.sort(rng.uniform(0, 4, 40))
    kernel = k.ProcessConvolution([0.3, 0.5], [1.0, -1.0])
    rows = np.column_stack([np.tile(x, 2), np.repeat([0.0, 1.0], 40)])
    y = mc.GP(kernel).sample(rows, 1, seed=1)[0]
    known = np.r_[0:40, 40:50, 70:80]
    together = mc.GP(kernel).condition(rows[known], y[known], noise_variance=1e-4)
    alone = mc.GP(kernel).condition(rows[known[40:]], y[known[40:]], noise_variance=1e-4)
    gap = rows[50:70]
    assert np.all(together.variance(gap, latent=True) < alone.variance(gap, latent=True))
    error = [np.sqrt(np.mean((post.mean(gap) - y[50:70]) ** 2)) for post in (together, alone)]
    assert error[0] < 0.5 * error[1]


@pytest.mark.slow
def test_widths_are_learned():
    rng = np.random.default_rng(0)
    x = np.sort(rng.uniform(0, 6, 60))
    rows = np.column_stack([np.tile(x, 2), np.repeat([0.0, 1.0], 60)])
    drawn = mc.GP(k.ProcessConvolution([0.4, 1.0], [1.0, -2.0])).sample(rows, 1, seed=1)[0]
    y = drawn + 0.05 * rng.normal(size=120)
    model = mc.GPRegressor(k.ProcessConvolution([1.0, 1.0], [1.0, -1.0]), noise_by=-1).fit(rows, y)
    np.testing.assert_allclose(model.kernel_.lengthscales, [0.4, 1.0], rtol=0.15)
    np.testing.assert_allclose(np.sqrt(model.noise_variance_), 0.05, rtol=0.3)


def test_independent_channels_with_correlated_noise():
    """B.X1: independent priors, noise that is correlated between the channels of a row: functions that were
    independent are correlated once data are seen; with diagonal noise they stay so.
    """
    x, rng = np.linspace(0, 2, 6), np.random.default_rng(0)
    rows = np.column_stack([np.tile(x, 2), np.tile(np.arange(6.0), 2), np.repeat([0.0, 1.0], 6)])
    signal = k.SE(0.7).on(0) * k.CategoricalCovariance([0.0, 1.0], np.zeros((2, 1)), [1.0, 2.0]).on(2)
    y, at = rng.normal(size=12), np.array([[0.5, -1.0, 0.0], [0.5, -1.0, 1.0]])
    noise = np.array([[0.3], [0.4]])
    Sigma = noise @ noise.T + 0.1 * np.eye(2)
    K = signal(rows) + np.kron(Sigma, np.eye(6))
    cross = signal(at, rows)
    by_hand = signal(at) - cross @ np.linalg.solve(K, cross.T)
    post = mc.GP(signal + k.OutputNoise(noise).on(1, 2)).condition(rows, y, noise_variance=0.1)
    np.testing.assert_allclose(post.mean(at), cross @ np.linalg.solve(K, y), rtol=1e-9)
    np.testing.assert_allclose(post.covariance(at, latent=True), by_hand, atol=1e-10)
    new = at + np.array([0.0, 9.0, 0.0])  # a row of its own, with its noise
    np.testing.assert_allclose(post.covariance(new), by_hand + Sigma, atol=1e-10)
    assert abs(by_hand[0, 1]) > 0.01
    plain = mc.GP(signal).condition(rows, y, noise_variance=0.1).covariance(at, latent=True)
    assert abs(plain[0, 1]) < 1e-12


def test_what_cannot_be():
    with pytest.raises(ParameterError, match=r"OutputNoise.loadings must be \(p, r\)"):
        k.OutputNoise([1.0, 2.0])
    with pytest.raises(ParameterError, match="reads two columns"):
        k.OutputNoise([[1.0]])(np.zeros((3, 3)))
    with pytest.raises(InputError, match="knows the outputs 0 to 1; that of row 1 is 2"):
        k.OutputNoise([[1.0], [2.0]])(np.array([[0.0, 0.0], [1.0, 2.0]]))
    with pytest.raises(ParameterError, match="one row for each output"):
        k.ProcessConvolution(1.0)
    with pytest.raises(ParameterError, match="one number or 2"):
        k.ProcessConvolution([1.0, 2.0], [1.0])
    with pytest.raises(ParameterError, match="length-scales of 2 columns"):
        k.ProcessConvolution(np.ones((2, 2)))(np.zeros((3, 2)))
