"""Autoregressive processes in continuous time as kernels: GM3, GM4 (B.26, B.29, B.30),
all stable equations and no other.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from mercer import kernels as k
from mercer.kernels.families.autoregressive import AutoregressiveForm
from mercer.params import ParameterError
from mercer.series import ContinuousARMA

LAGS = np.array([0.0, 1e-4, 0.2, 0.9, 3.0, 17.0])
ORIGIN = np.zeros((1, 1))


@pytest.mark.parametrize(
    "ar", [[1.5], [2.0, 3.0], [4.0, 0.3], [1.0, 2.5, 3.0], [3.0, 5.0, 6.0, 2.5]], ids=len
)
def test_the_covariance_is_that_of_the_equation(ar):
    """Covariance (B.29) and spectrum (B.26) of a_0 ... a_(p-1),
    by matrix exponentials and Lyapunov's equation.
    """
    kernel, process = k.ContinuousAR.from_equation(ar, 1.7), ContinuousARMA(ar)
    np.testing.assert_allclose(kernel.equation(), ar, rtol=1e-13)
    scale = 1.7 / process.covariance(0.0)
    np.testing.assert_allclose(
        kernel(LAGS[:, None], ORIGIN)[:, 0], scale * process.covariance(LAGS), rtol=1e-11, atol=1e-14
    )
    s = np.array([0.0, 0.1, 0.7, 5.0])
    np.testing.assert_allclose(kernel.spectral_density(s), scale * process.spectrum(s), rtol=1e-12)
    assert k.smoothness(kernel) == len(ar) - 1


def test_oscillator_is_its_formula():
    """Below, at and above critical damping; at it the process is the Matern of order 3/2,
    and the second order of ContinuousAR.
    """
    period, lengthscale = 0.9, 1.6
    w = np.sqrt((2 * np.pi / period) ** 2 - lengthscale**-2.0)
    expected = 1.3 * np.exp(-LAGS / lengthscale) * (np.cos(w * LAGS) + np.sin(w * LAGS) / (w * lengthscale))
    oscillator = k.Oscillator(period, lengthscale, 1.3)
    np.testing.assert_allclose(oscillator(LAGS[:, None], ORIGIN)[:, 0], expected, rtol=0, atol=1e-14)
    same = k.ContinuousAR([2 * np.pi / period, 2 / lengthscale], 1.3)
    np.testing.assert_allclose(same(LAGS[:, None]), oscillator(LAGS[:, None]), rtol=1e-13)
    for nearly in (1 - 1e-9, 1.0, 1 + 1e-9):
        critical, matern = k.Oscillator(2 * np.pi, nearly), k.Matern(np.sqrt(3.0), nu=1.5)
        np.testing.assert_allclose(critical(LAGS[:, None]), matern(LAGS[:, None]), rtol=0, atol=1e-8)
    fast, slow = 40.0 + np.sqrt(1600 - 0.25), 0.25 / (40.0 + np.sqrt(1600 - 0.25))
    expected = (fast * np.exp(-slow * LAGS) - slow * np.exp(-fast * LAGS)) / (fast - slow)
    np.testing.assert_allclose(
        k.Oscillator(4 * np.pi, 1 / 40.0)(LAGS[:, None], ORIGIN)[:, 0], expected, rtol=0, atol=1e-14
    )


@pytest.mark.slow
def test_derivatives_across_critical_damping():
    """The slope in the lengthscale is smooth where waves cease: no root of zero,
    no difference of large numbers.
    """

    def value(lengthscale):
        return k.Oscillator(2 * np.pi, lengthscale).block(jnp.asarray([[0.7]]), jnp.zeros((1, 1)))[0, 0]

    slopes = [float(jax.grad(value)(1.0 + step)) for step in (-1e-6, -1e-12, 0.0, 1e-12, 1e-6)]
    central = float(value(1.0 + 1e-5) - value(1.0 - 1e-5)) / 2e-5
    np.testing.assert_allclose(slopes, central, rtol=2e-6)


@pytest.mark.slow
def test_upcrossings():
    """-k''(0) / k(0) = a_0 of an oscillator: upcrossings at the undamped frequency (4.3),
    from derivatives at coincident inputs.
    """
    assert k.upcrossings(k.Oscillator(2.5, 0.3, 1.4)) == pytest.approx(1 / 2.5, rel=1e-12)
    assert k.upcrossings(k.ContinuousAR([1.3, 0.4, 2.0])) == pytest.approx(1.3 / (2 * np.pi), rel=1e-12)


@pytest.mark.slow
def test_long_and_short_steps():
    """Q of a step is right to rounding however short, and the process forgets over any gap however long."""
    form = AutoregressiveForm(k.ContinuousAR([0.7, 1.1, 0.9]))
    Phi, Q = (np.asarray(a) for a in form.transition(jnp.zeros(3), jnp.asarray([0.0, 1e-5, 1e9])))
    np.testing.assert_array_equal(Phi[0], np.eye(3))
    np.testing.assert_array_equal(Q[0], np.zeros((3, 3)))
    white = 2 * 0.9 * (0.7 * 1.1) ** 2
    assert Q[1, 0, 0] == pytest.approx(white * 1e-25 / (5 * 2**2), rel=1e-4)
    np.testing.assert_allclose(Phi[2], 0.0, atol=1e-12)
    np.testing.assert_allclose(Q[2], np.eye(3), atol=1e-12)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: k.ContinuousAR.from_equation([1.0, -0.1]), "not stable"),
        (lambda: k.ContinuousAR.from_equation([9.0, 1.0, 1.0]), "not stable"),
        (lambda: k.ContinuousAR(1.0), "vector of p numbers"),
        (lambda: k.Oscillator()(np.zeros((2, 2))), "reads one column"),
    ],
)
def test_errors(make, message):
    with pytest.raises(ParameterError, match=message):
        make()
