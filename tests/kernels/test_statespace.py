"""State-space forms: the Markov chain of a kernel has the kernel's covariances. GPML B.2, GM3-GM5, GM10,
GM11.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.linalg import expm, solve_continuous_lyapunov

from mercer import kernels as k
from mercer import param
from mercer.kernels.statespace import NoStateSpace, chain, state_space
from mercer.linalg import kalman, tiles

RNG = np.random.default_rng(0)
T = np.sort(RNG.uniform(0.0, 1.9, 14))
T[0], T[5], T[8] = 0.0, T[4], T[7] + 1e-9  # from the start; one time twice; two that nearly coincide

EXACT = [
    k.OrnsteinUhlenbeck(0.4, 0.7),
    k.Matern([0.6], 1.3, nu=1.5, loadings=[[0.7, 0.4]]),
    k.Matern(20.0, 1.3, nu=2.5),
    k.Matern(0.05, 1.3, nu=3.5),
    k.Matern(0.6, 1.3, nu=6.5),
    k.Wiener(2.0),
    k.IntegratedWiener(1, 2.0),
    k.IntegratedWiener(3, 2.0),
    k.BrownianBridge(1.95, 0.8),
    k.IntegratedOrnsteinUhlenbeck(0.3, 1.7) + k.IntegratedOrnsteinUhlenbeck(40.0, 0.8),
    k.LinearCovariance([[0.7]], 0.4) + k.Constant(2.0),
    k.Polynomial(3, 0.5, 0.4),
    k.Matern(0.4, 1.3, nu=1.5).on(0) + 0.5 * k.Linear(1.0) * k.Matern(nu=0.5),
    (k.Matern(0.4, nu=0.5) + k.Wiener()) ** 2,
    k.Oscillator(0.5, 0.7, 1.3),
    k.Oscillator(8.0, 0.02, 1.3),
    k.ContinuousAR([3.0, 2.0, 11.0, 0.4], 1.3),
    2.0 * k.Wiener() * k.IntegratedWiener(1) * k.Cosine(0.5),
]


def matrix(kernel, tolerance=1e-3, t=T):
    """The covariance of f by the chain."""
    return np.asarray(tiles.call(_matrix, state_space(kernel.bind(1), tolerance), jnp.asarray(t)))


def _matrix(form, t):
    return kalman.times(chain(form, t), jnp.eye(len(t)))


def _steps(form, t0, t1):
    return *form.transition(t0, t1), form.covariance(t0), form.covariance(t1), form.observation(t0)


@pytest.mark.parametrize("kernel", EXACT, ids=str)
def test_covariances_are_those_of_the_kernel(kernel):
    """K = S blockdiag(Q) S' to rounding, at irregular times."""
    K = kernel(T[:, None])
    np.testing.assert_allclose(matrix(kernel), K, rtol=1e-12, atol=2e-14 * K.max())
    assert state_space(kernel.bind(1)).error() == 0.0


@pytest.mark.parametrize("kernel", [*EXACT, k.SE(0.4, 2.0), k.Periodic(0.7, 0.8, 1.2)], ids=str)
def test_steps_and_covariances_agree(kernel):
    """Pi(t1) = Phi Pi(t0) Phi' + Q, Q is positive semi-definite,
    and the leaves are the kernel's in its order.
    """
    form = state_space(kernel.bind(1))
    t0, t1 = jnp.asarray(T[:-1]), jnp.asarray(T[1:])
    Phi, Q, start, end, h = (np.asarray(a) for a in tiles.call(_steps, form, t0, t1))
    scale = np.abs(end).max()
    np.testing.assert_allclose(Phi @ start @ Phi.swapaxes(1, 2) + Q, end, rtol=1e-11, atol=1e-12 * scale)
    assert np.linalg.eigvalsh(Q).min() >= -1e-13 * scale
    assert form.size == Phi.shape[1] == h.shape[1]
    for a, b in zip(jax.tree.leaves(form), jax.tree.leaves(kernel.bind(1)), strict=True):
        np.testing.assert_array_equal(a, b)


def test_small_steps_keep_their_digits():
    """Q of a Matern step is right to rounding however small the step:
    Q_00 -> q dt^(2p+1) / ((2p+1) p!^2) for white noise q.
    """
    for p, density in ((0, 2.0), (1, 4.0), (2, 16 / 3)):  # of white noise for unit a and variance
        a, gap = np.sqrt(2 * p + 1), 1e-7
        form = state_space(k.Matern(1.0, nu=p + 0.5))
        _, Q = form.transition(jnp.zeros(1), jnp.asarray([gap / a]))
        expected = density * gap ** (2 * p + 1) / ((2 * p + 1) * np.prod(np.arange(1, p + 1)) ** 2)
        assert float(Q[0, 0, 0]) == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("p", [0, 1, 2, 3])
def test_matern_is_the_autoregressive_process_of_order_p(p):
    """GM3, GM4: the companion SDE (d/dt + a)^(p+1) with its Lyapunov covariance and matrix exponential has
    the same Phi and Pi.
    """
    lengthscale, variance, gap = 0.7, 1.4, 0.31
    s, a = p + 1, np.sqrt(2 * p + 1) / lengthscale
    F = np.diag(np.ones(p), 1)
    F[-1] = -np.poly([-a] * s)[:0:-1]
    noise = np.zeros((s, s))
    noise[-1, -1] = 1.0
    Pi = solve_continuous_lyapunov(F, -noise)
    Pi *= variance / Pi[0, 0]
    units = a ** np.arange(s)
    form = state_space(k.Matern(lengthscale, variance, nu=p + 0.5))
    Phi, Q = (np.asarray(x[0]) for x in form.transition(jnp.zeros(1), jnp.asarray([gap])))
    exact = expm(F * gap)
    np.testing.assert_allclose(Phi * units[:, None] / units, exact, rtol=1e-9, atol=1e-11)
    np.testing.assert_allclose(
        np.asarray(form.covariance(jnp.zeros(1)))[0] * np.outer(units, units), Pi, rtol=1e-9, atol=1e-9
    )
    np.testing.assert_allclose(
        Q * np.outer(units, units), Pi - exact @ Pi @ exact.T, rtol=1e-8, atol=1e-10 * np.abs(Pi).max()
    )


def test_sampled_ou_is_a_discrete_autoregression():
    """GM10: at equal distances h the OU process is AR(1) with a_1 = exp(-h / l) and b^2 = k(0) (1 -
    a_1^2).
    """
    h, lengthscale, variance = 0.4, 0.9, 1.7
    Phi, Q = state_space(k.OrnsteinUhlenbeck(lengthscale, variance)).transition(
        jnp.zeros(1), jnp.asarray([h])
    )
    assert float(Phi[0, 0, 0]) == pytest.approx(np.exp(-h / lengthscale), rel=1e-14)
    assert float(Q[0, 0, 0]) == pytest.approx(variance * (1 - np.exp(-2 * h / lengthscale)), rel=1e-14)


@pytest.mark.parametrize("tolerance", [1e-2, 1e-3])
def test_squared_exponential_keeps_its_promise(tolerance):
    """The error of the correlation is what the form says, and at most the tolerance;
    more accuracy takes more states.
    """
    kernel = k.SE(0.6, 2.0)
    form = state_space(kernel, tolerance)
    t = np.linspace(0.0, 6.0, 241)
    found = np.abs(matrix(kernel, tolerance, t) - kernel(t[:, None])).max() / 2.0
    assert found <= form.error() * (1 + 1e-6) <= tolerance * (1 + 1e-6)
    assert found == pytest.approx(form.error(), rel=0.05)
    assert form.size == {1e-2: 6, 1e-3: 8}[tolerance]


@pytest.mark.parametrize(("lengthscale", "tolerance"), [(0.4, 1e-2), (1.0, 1e-9), (3.0, 1e-5)])
def test_periodic_keeps_its_promise(lengthscale, tolerance):
    """Harmonics enough for the tolerance; the variance is exact."""
    kernel = k.Periodic(0.7, lengthscale, 1.4)
    form = state_space(kernel, tolerance)
    K, found = kernel(T[:, None]), matrix(kernel, tolerance)
    assert np.abs(found - K).max() / 1.4 <= form.error() + 1e-14 <= tolerance
    np.testing.assert_allclose(np.diag(found), np.diag(K), rtol=1e-13)


@pytest.mark.parametrize(("lengthscale", "tolerance"), [(0.4, 1e-2), (1e5, 1e-9)])
def test_zero_sum_periodic_keeps_its_promise(lengthscale, tolerance):
    """The same harmonics without the constant; a long length-scale is a cosine, of two states."""
    kernel = k.ZeroSumPeriodic(0.7, lengthscale, 1.4)
    form = state_space(kernel, tolerance)
    K, found = kernel(T[:, None]), matrix(kernel, tolerance)
    assert np.abs(found - K).max() / 1.4 <= form.error() + 1e-9 <= tolerance + 1e-9
    np.testing.assert_allclose(np.diag(found), np.diag(K), rtol=1e-13)
    assert form.size == (14 if lengthscale < 1 else 2)


def test_the_limits_of_approximation_are_told():
    """What cannot reach the tolerance says which error it has."""
    assert state_space(k.SE(), 1e-9).error() == pytest.approx(4.66e-5, rel=0.01)
    assert state_space(k.Periodic(1.0, 0.05), 1e-9).error() > 0.1
    product = state_space(k.Matern(nu=1.5) * k.Periodic(1.0))
    assert 0 < product.error() < 1e-3 and product.size == 2 * state_space(k.Periodic(1.0)).size


@pytest.mark.parametrize(
    ("kernel", "says"),
    [
        (k.RationalQuadratic(), "RationalQuadratic has no state-space form"),
        (k.Matern(nu=1.2), "order 1.2"),
        (k.Matern(nu=param(1.5)), "not learned"),
        (k.Matern(nu=1.5) + k.Sinc(0.3), "no state-space form"),
        (k.Matern(nu=0.5) ** 0.5, "whole powers"),
    ],
    ids=str,
)
def test_kernels_without_a_form_say_so(kernel, says):
    with pytest.raises(NoStateSpace, match=says):
        state_space(kernel.bind(1))


def random_kernel(rng, depth=2):
    """Sums and products of exact kernels."""
    if depth <= 0:
        scale, variance = np.exp(0.5 * rng.normal(size=2))
        return [
            k.Matern(scale, variance, nu=0.5),
            k.Matern(scale, variance, nu=1.5),
            k.Matern(scale, variance, nu=2.5),
            k.Wiener(variance),
            k.Linear(variance),
            k.Constant(variance),
            k.Cosine(scale, variance),
        ][rng.integers(7)]
    left, right = random_kernel(rng, depth - 1), random_kernel(rng, depth - rng.integers(1, 3))
    return left + right if rng.random() < 0.6 else left * right


@pytest.mark.slow
@pytest.mark.representative("0", "1")
@pytest.mark.parametrize("seed", range(4))
def test_random_sums_and_products(seed):
    kernel = random_kernel(np.random.default_rng(seed))
    K = kernel(T[:, None])
    np.testing.assert_allclose(matrix(kernel), K, rtol=1e-11, atol=1e-13 * K.max())
