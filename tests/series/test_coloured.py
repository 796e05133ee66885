"""Coloured noise as a kernel. GPML 9.2 and B.3; catalogue X4."""

import numpy as np
import pytest
from scipy.linalg import toeplitz

import mercer as mc
from mercer import kernels as k
from mercer.inputs import InputError
from mercer.params import ParameterError
from mercer.series import ARMA, Coloured, yule_walker

PROCESSES = [
    ARMA([0.6], 1.3),
    ARMA([0.5, -0.7, 0.2]),
    ARMA([0.9, -0.3], [0.2, 0.5]),
    ARMA([], [1.0, 0.4, -0.3]),
    ARMA([-0.8], 0.7),
]
T = np.array([[3.0], [0.0], [4.0], [1.0], [1.0], [9.0], [1000.0], [-2.0]])


@pytest.mark.parametrize("process", PROCESSES)
def test_the_kernel_is_the_covariance(process):
    """At whole multiples of a step, repeated and far apart; and the process comes back."""
    kernel = Coloured.of(process, step=0.5)
    expected = process.covariance(np.abs(T - T.T).astype(int))
    np.testing.assert_allclose(kernel(0.5 * T), expected, atol=1e-13)
    again = kernel.process()
    np.testing.assert_allclose(again.ar, process.ar, atol=1e-14)
    np.testing.assert_allclose(again.ma, process.ma, atol=1e-13)


@pytest.mark.representative("process1")
@pytest.mark.parametrize(
    "process",
    [PROCESSES[2], *(pytest.param(p, marks=pytest.mark.slow) for p in PROCESSES if p is not PROCESSES[2])],
)
def test_markov_is_dense(process, rng):
    y, gp = rng.normal(size=len(T)), mc.GP(Coloured.of(process) + k.Matern(5.0, nu=1.5))
    values = [
        mc.log_evidence_and_gradient(gp, T, y, noise_variance=0.1, solver=solver)
        for solver in ("dense", "markov")
    ]
    assert values[1][0] == pytest.approx(values[0][0], rel=1e-11)
    for name, slope in values[0][1].items():
        np.testing.assert_allclose(values[1][1][name], slope, rtol=1e-8, atol=1e-10, err_msg=name)
    Xs = np.array([[2.0], [20.0]])
    dense, markov = (gp.condition(T, y, noise_variance=0.1, solver=solver) for solver in ("dense", "markov"))
    np.testing.assert_allclose(markov.mean(Xs), dense.mean(Xs), atol=1e-11)
    np.testing.assert_allclose(markov.variance(Xs), dense.variance(Xs), atol=1e-11)


@pytest.mark.parametrize("process", PROCESSES)
def test_the_evidence_is_the_innovations_form(process, rng):
    x = rng.normal(size=25)
    evidence = (
        mc.GP(Coloured.of(process)).condition(np.arange(25.0)[:, None], x, noise_variance=0.2).log_evidence
    )
    assert evidence == pytest.approx(process.log_density(x, noise_variance=0.2), rel=1e-11)


def test_signal_and_noise_are_told_apart(rng):
    """Their posterior means sum to the fit of the data, and with no memory the noise is white."""
    t, n = np.arange(30.0)[:, None], 30
    y = np.sin(t[:, 0] / 5) + ARMA([0.7], 0.3).sample(n, seed=1)[0]
    post = mc.GP(k.SE(5.0) + Coloured([0.7], None, 0.3**2 / (1 - 0.49))).condition(t, y, noise_variance=1e-4)
    signal, noise = post.components(t)
    np.testing.assert_allclose(signal.mean + noise.mean, post.mean(t), atol=1e-11)
    K, N = k.SE(5.0)(t), toeplitz(ARMA([0.7], 0.3).covariance(np.arange(n)))
    np.testing.assert_allclose(signal.mean, K @ np.linalg.solve(K + N + 1e-4 * np.eye(n), y), atol=1e-10)
    white = mc.GP(k.SE(5.0) + Coloured([0.0], None, 0.2)).condition(t, y, noise_variance=0.1)
    plain = mc.GP(k.SE(5.0)).condition(t, y, noise_variance=0.3)
    assert white.log_evidence == pytest.approx(plain.log_evidence, rel=1e-12)
    np.testing.assert_allclose(white.components(t)[0].mean, plain.mean(t), atol=1e-12)


@pytest.mark.slow
def test_it_is_learned():
    """From 300 values of an AR(2): more likely than the truth and than Yule and Walker's fit,
    and within four standard errors.
    """
    process = ARMA([0.5, -0.6])
    x, t = process.sample(300, seed=4)[0], np.arange(300.0)[:, None]
    model = mc.Model(mc.GP(Coloured([0.1, 0.1])), mc.likelihoods.Gaussian(mc.fixed(1e-6)))
    fit = mc.fit(model, t, x, solver="markov")
    found, by_moments = fit.model.gp.kernel.process(), yule_walker(x, 2, centre=False)
    assert fit.value == pytest.approx(found.log_density(x, 1e-6), rel=1e-9)
    assert fit.value > max(process.log_density(x, 1e-6), by_moments.model.log_density(x, 1e-6))
    assert (np.abs(found.ar - process.ar) < 4 * by_moments.standard_errors).all()


def test_bad_input():
    with pytest.raises(InputError, match="row 1 has 0"):
        Coloured([0.5])([[1.0], [0.3]])
    with pytest.raises(ParameterError, match="between -1 and 1"):
        Coloured([1.5])
    with pytest.raises(ParameterError, match="must be vectors"):
        Coloured(0.5)
    with pytest.raises(ParameterError, match="one column"):
        Coloured([0.5])(np.ones((3, 2)))
    with pytest.raises(ParameterError, match="step must be positive"):
        Coloured([0.5], step=0.0)
