"""Kernels of time as linear stochastic differential equations: f(t) = h(t) . x(t) with a Markov state x (GPML appendix B).

`state_space(kernel)` gives the form of a kernel on one column, exact for Matern of half-integer order, Wiener processes and their
integrals, Brownian bridges, polynomials, cosines, and sums, products and whole powers of those. The SE and the periodic kernel have
no finite state: they are approximated to a tolerance.

>>> form = state_space(Matern(nu=1.5) * Periodic(7.0) + Linear(0.1))
>>> form.size, form.error()
"""

from __future__ import annotations

import abc
import functools
import math
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from scipy.linalg import solve_continuous_lyapunov
from scipy.special import ive

from mercer.kernels.algebra import Product, Scale, Sum
from mercer.kernels.band_limited import BesselJ
from mercer.kernels.base import AbstractKernel
from mercer.kernels.columns import On
from mercer.kernels.dot import Constant, Linear, LinearCovariance, Polynomial
from mercer.kernels.paths import BrownianBridge, IntegratedWiener, Wiener
from mercer.kernels.powers import Power
from mercer.kernels.stationary import SE, Matern, Periodic
from mercer.linalg.kalman import Chain
from mercer.params import Static

TOLERANCE = 1e-3  # of an approximated covariance, relative to its variance
MOST_HARMONICS = 24
SE_ORDERS = (2, 4, 6, 8, 10, 12)


class NoStateSpace(ValueError):
    """The kernel is not that of a Markov process of finite state."""


@functools.singledispatch
def state_space(kernel: AbstractKernel, tolerance: float = TOLERANCE) -> AbstractForm:
    """The state-space form of a kernel on one column (a time).

    tolerance: the largest error of an approximated correlation (SE, Periodic). The leaves of the form are those of the kernel, in
    the same order; what is static in it (numbers of harmonics and states) was chosen for the kernel's values of now.
    """
    raise NoStateSpace(f"{type(kernel).__name__} has no state-space form")


def chain(form: AbstractForm, t) -> Chain:
    """The Markov chain of a form at times t (n,) in ascending order."""
    Phi, Q = form.transition(jnp.concatenate([t[:1], t[:-1]]), t)
    return Chain(Phi, Q.at[0].set(form.covariance(t[:1])[0]), form.observation(t))


class AbstractForm(eqx.Module):
    """x(t1) = Phi x(t0) + N(0, Q) for t0 <= t1, cov x(t) = Pi(t), f(t) = h(t) . x(t), for all times of a vector at once."""

    @property
    @abc.abstractmethod
    def size(self) -> int:
        """Number s of states."""

    @abc.abstractmethod
    def transition(self, t0, t1) -> tuple[Any, Any]:
        """Phi and Q (n, s, s) from times t0 to t1 (n,)."""

    @abc.abstractmethod
    def covariance(self, t):
        """Pi(t) (n, s, s) before any datum."""

    @abc.abstractmethod
    def observation(self, t):
        """h(t) (n, s)."""

    def error(self) -> float:
        """The largest error of the covariance, relative to the largest variance involved; zero where the form is exact."""
        return 0.0


# ------------------------------------------------------------------------------------------------- processes


@state_space.register
def _(kernel: Matern, tolerance=TOLERANCE):
    if isinstance(kernel.nu, Static):
        p = float(kernel.nu) - 0.5
        if p == int(p) and p <= 6:
            return MaternForm(kernel, int(p))
    raise NoStateSpace(f"Matern of order {float(kernel.nu):g} has no state-space form (1/2, 3/2, ... 13/2, not learned, have one)")


class AbstractKernelForm(AbstractForm):
    """The form of one kernel."""

    kernel: Any

    def _spread(self, matrix, t):
        return jnp.broadcast_to(matrix, (t.shape[0], *matrix.shape))


def _rate(kernel):
    """1 / length-scale of a stationary kernel on one column."""
    squared = 1.0 / jnp.square(jnp.reshape(kernel.lengthscale, ()))
    return jnp.sqrt(squared if kernel.loadings is None else squared + jnp.sum(jnp.square(kernel.loadings)))


class MaternForm(AbstractKernelForm):
    """(d/dt + a)^(p + 1) f = white noise, a = sqrt(2 nu) / l (B.30): x_j is the j-th derivative of f over a^j."""

    p: int = eqx.field(static=True)

    @property
    def size(self):
        return self.p + 1

    def transition(self, t0, t1):
        fixed, s = _matern(self.p), self.p + 1
        x = jnp.sqrt(2.0 * self.p + 1.0) * _rate(self.kernel) * (t1 - t0)
        decay = jnp.exp(-x)
        Phi = jnp.stack([decay * x**k for k in range(s)], 1) @ fixed.transition.reshape(s, -1)
        Q = _moments(2 * self.p, x) @ fixed.diffusion.reshape(2 * self.p + 1, -1)
        return Phi.reshape(-1, s, s), self.kernel.variance * Q.reshape(-1, s, s)

    def covariance(self, t):
        return self._spread(self.kernel.variance * _matern(self.p).stationary, t)

    def observation(self, t):
        return self._spread(jnp.eye(self.p + 1)[0], t)


class _Matern:
    """Constants of the Matern process with a = 1 and unit variance, M = F + I nilpotent: exp(F x) = exp(-x) sum_k M^k x^k / k!."""

    def __init__(self, p: int):
        s = p + 1
        F = np.diag(np.ones(p), 1)
        F[-1] = [-math.comb(s, j) for j in range(s)]
        powers = [np.linalg.matrix_power(F + np.eye(s), k) / math.factorial(k) for k in range(s)]
        noise = np.zeros((s, s))
        noise[-1, -1] = 1.0
        stationary = solve_continuous_lyapunov(F, -noise)
        density = 1.0 / stationary[0, 0]
        self.transition = np.array(powers)
        self.stationary = density * stationary
        self.diffusion = np.zeros((2 * p + 1, s, s))
        for i, j in np.ndindex(s, s):
            self.diffusion[i + j] += density * np.outer(powers[i][:, -1], powers[j][:, -1])


@functools.lru_cache
def _matern(p: int) -> _Matern:
    return _Matern(p)


@functools.partial(jax.custom_jvp, nondiff_argnums=(0,))
def _moments(top: int, x):
    """The integrals of u^m exp(-2u) over (0, x) for m = 0 ... top (n, top + 1), to rounding for small x too."""
    decay, middle = jnp.exp(-2.0 * x), 1.0 + top / 4
    near, far = jnp.minimum(x, middle), jnp.maximum(x, middle)
    series = jnp.ones_like(x)
    for k in range(20 + top, 0, -1):
        series = 1.0 + 2.0 * near / (top + 1 + k) * series
    downwards = [near ** (top + 1) * decay * series / (top + 1)]
    for m in range(top - 1, -1, -1):
        downwards.append((2.0 * downwards[-1] + near ** (m + 1) * decay) / (m + 1))
    upwards = [0.5 - 0.5 * decay]
    for m in range(1, top + 1):
        upwards.append(0.5 * (m * upwards[-1] - far**m * decay))
    return jnp.stack([jnp.where(x < middle, a, b) for a, b in zip(downwards[::-1], upwards, strict=True)], 1)


@_moments.defjvp
def _moments_jvp(top, primals, tangents):
    (x,), (tangent,) = primals, tangents
    slope = tangent * jnp.exp(-2.0 * x)
    return _moments(top, x), jnp.stack([x**m * slope for m in range(top + 1)], 1)


@state_space.register
def _(kernel: SE, tolerance=TOLERANCE):
    order = next((N for N in SE_ORDERS if _se(N).error <= tolerance), SE_ORDERS[-1])
    return SEForm(kernel, order)


class SEForm(AbstractKernelForm):
    """The spectral density exp(-w^2 / 2) as 1 / (1 + w^2 / 2 + ... + (w^2 / 2)^N / N!): N damped oscillators, in pairs."""

    order: int = eqx.field(static=True)

    @property
    def size(self):
        return self.order

    def transition(self, t0, t1):
        fixed = _se(self.order)
        x = _rate(self.kernel) * (t1 - t0)
        damped, angle = jnp.exp(x[:, None] * fixed.roots.real), x[:, None] * fixed.roots.imag
        c, s = damped * jnp.cos(angle), damped * jnp.sin(angle)
        Phi = jnp.zeros((x.shape[0], self.order, self.order))
        even = 2 * np.arange(self.order // 2)
        Phi = Phi.at[:, even, even].set(c).at[:, even + 1, even + 1].set(c)
        Phi = Phi.at[:, even, even + 1].set(s).at[:, even + 1, even].set(-s)
        return Phi, self.kernel.variance * (fixed.stationary - Phi @ fixed.stationary @ Phi.mT)

    def covariance(self, t):
        return self._spread(self.kernel.variance * _se(self.order).stationary, t)

    def observation(self, t):
        return self._spread(jnp.asarray(_se(self.order).observation), t)

    def error(self):
        return _se(self.order).error


class _SquaredExponential:
    """Roots, modes and stationary covariance for length-scale 1 and unit variance; the largest error of the correlation."""

    def __init__(self, N: int):
        coefficients = np.zeros(2 * N + 1)  # of sum_k (-z^2 / 2)^k / k!, highest power first
        for k in range(N + 1):
            coefficients[2 * (N - k)] = (-0.5) ** k / math.factorial(k)
        roots = np.roots(coefficients)
        roots = roots[roots.real < 0]
        F = np.diag(np.ones(N - 1), 1)
        F[-1] = -np.real(np.poly(roots))[:0:-1]
        noise = np.zeros((N, N))
        noise[-1, -1] = 1.0
        P = solve_continuous_lyapunov(F, -noise)
        self.roots = roots[roots.imag > 0]
        vectors = self.roots[None, :] ** np.arange(N)[:, None]
        modes = np.stack([vectors.real, vectors.imag], 2).reshape(N, N)  # F modes = modes [[a, b], [-b, a]]
        inverse = np.linalg.inv(modes)
        stationary = inverse @ (P / P[0, 0]) @ inverse.T
        self.stationary, self.observation = 0.5 * (stationary + stationary.T), modes[0]
        lags = np.linspace(0.0, 12.0, 4001)
        decay = np.exp(lags[:, None] * self.roots)
        start = (modes[0] @ self.stationary).reshape(-1, 2)  # cov(f, x): decays and turns
        first = modes[0].reshape(-1, 2)
        a, b = decay.real, decay.imag
        turned = np.stack([a * start[:, 0] + b * start[:, 1], -b * start[:, 0] + a * start[:, 1]], 2)
        self.error = float(np.abs(np.einsum("tij,ij->t", turned, first) - np.exp(-0.5 * lags**2)).max())


@functools.lru_cache
def _se(order: int) -> _SquaredExponential:
    return _SquaredExponential(order)


@state_space.register
def _(kernel: Wiener, tolerance=TOLERANCE):
    return WienerForm(kernel, 0)


@state_space.register
def _(kernel: IntegratedWiener, tolerance=TOLERANCE):
    return WienerForm(kernel, int(kernel.order))


class WienerForm(AbstractKernelForm):
    """f and its derivatives, the last of them Brownian motion, all zero at time zero."""

    p: int = eqx.field(static=True)

    @property
    def size(self):
        return self.p + 1

    def transition(self, t0, t1):
        p, gap = self.p, t1 - t0
        Phi = jnp.zeros((gap.shape[0], p + 1, p + 1))
        for i in range(p + 1):
            for j in range(i, p + 1):
                Phi = Phi.at[:, i, j].set(gap ** (j - i) / math.factorial(j - i))
        return Phi, self.covariance(gap)

    def covariance(self, t):
        i, j = np.indices((self.p + 1, self.p + 1))
        power = 2 * self.p + 1 - i - j
        factorials = np.vectorize(math.factorial)(self.p - i) * np.vectorize(math.factorial)(self.p - j)
        raised = jnp.stack([t**k for k in range(2 * self.p + 2)])
        return self.kernel.variance * jnp.moveaxis(raised[power], 2, 0) / (power * factorials)

    def observation(self, t):
        return self._spread(jnp.eye(self.p + 1)[0], t)


@state_space.register
def _(kernel: BrownianBridge, tolerance=TOLERANCE):
    return BridgeForm(kernel)


class BridgeForm(AbstractKernelForm):
    """Brownian motion drawn to zero at the end."""

    @property
    def size(self):
        return 1

    def transition(self, t0, t1):
        left = self.kernel.length - t0
        share = jnp.where(left > 0, (self.kernel.length - t1) / jnp.where(left > 0, left, 1.0), 0.0)
        return share[:, None, None], (self.kernel.variance * (t1 - t0) * share)[:, None, None]

    def covariance(self, t):
        return (self.kernel.variance * t * (self.kernel.length - t) / self.kernel.length)[:, None, None]

    def observation(self, t):
        return jnp.ones((t.shape[0], 1))


# ------------------------------------------------------------------------------------------------- functions of few weights


class AbstractWeights(AbstractKernelForm):
    """f(t) = h(t) . w: weights w ~ N(0, I) that stay as they are."""

    def transition(self, t0, t1):
        one = self.covariance(t0)
        return one, jnp.zeros_like(one)

    def covariance(self, t):
        return self._spread(jnp.eye(self.size), t)


@state_space.register(Constant)
@state_space.register(Linear)
@state_space.register(LinearCovariance)
@state_space.register(Polynomial)
@state_space.register(BesselJ)
def _(kernel, tolerance=TOLERANCE):
    rank = kernel.rank(1)
    if rank is None:
        raise NoStateSpace(f"{kernel} has no state-space form (nu = -1/2, the cosine, has one)")
    return FeatureForm(kernel, rank)


class FeatureForm(AbstractWeights):
    """A kernel of finite rank: h are its features."""

    rank: int = eqx.field(static=True)

    @property
    def size(self):
        return self.rank

    def observation(self, t):
        return self.kernel.features(t[:, None])


@state_space.register
def _(kernel: Periodic, tolerance=TOLERANCE):
    a = float(np.reshape(kernel.lengthscale, ())) ** -2.0
    j = next((j for j in range(1, MOST_HARMONICS) if _left_out(a, j) <= tolerance), MOST_HARMONICS)
    return PeriodicForm(kernel, j)


class PeriodicForm(AbstractWeights):
    """The Fourier series with coefficients exp(-a) I_j(a), a = 1 / l^2, of the first harmonics; the variance is kept."""

    harmonics: int = eqx.field(static=True)

    @property
    def size(self):
        return 2 * self.harmonics + 1

    def observation(self, t):
        J = self.harmonics
        a = 1.0 / jnp.square(jnp.reshape(self.kernel.lengthscale, ()))
        ratio, ratios = jnp.zeros_like(a), []
        for j in range(J + 24, 0, -1):  # I_j / I_{j-1}, downwards
            ratio = a / (2.0 * j + a * ratio)
            ratios.append(ratio)
        weights = jnp.cumprod(jnp.stack(ratios[::-1][:J]))
        weights = jnp.concatenate([jnp.ones(1), 2.0 * weights])
        roots = jnp.sqrt(self.kernel.variance * weights / jnp.sum(weights))
        angle = 2.0 * jnp.pi * t[:, None] / jnp.reshape(self.kernel.period, ()) * jnp.arange(1, J + 1)
        constant = jnp.broadcast_to(roots[:1], (t.shape[0], 1))
        return jnp.concatenate([constant, roots[1:] * jnp.cos(angle), roots[1:] * jnp.sin(angle)], 1)

    def error(self):
        return _left_out(float(np.reshape(self.kernel.lengthscale, ())) ** -2.0, self.harmonics)


def _left_out(a: float, harmonics: int) -> float:
    """The largest error of the correlation: twice the share of the harmonics that are left out."""
    return float(2.0 * max(1.0 - ive(0, a) - 2.0 * np.sum(ive(np.arange(1, harmonics + 1), a)), 0.0))


# ------------------------------------------------------------------------------------------------- algebra


@state_space.register
def _(kernel: On, tolerance=TOLERANCE):
    return state_space(kernel.kernel, tolerance)


@state_space.register
def _(kernel: Sum, tolerance=TOLERANCE):
    return SumForm(tuple(state_space(part, tolerance) for part in kernel.terms))


@state_space.register
def _(kernel: Product, tolerance=TOLERANCE):
    return ProductForm(tuple(state_space(part, tolerance) for part in kernel.factors))


@state_space.register
def _(kernel: Power, tolerance=TOLERANCE):
    if not isinstance(kernel.exponent, int):
        raise NoStateSpace(f"{kernel} has no state-space form (whole powers have one)")
    return PowerForm(state_space(kernel.kernel, tolerance), kernel.exponent)


@state_space.register
def _(kernel: Scale, tolerance=TOLERANCE):
    return ScaleForm(kernel.variance, state_space(kernel.kernel, tolerance))


class SumForm(AbstractForm):
    """Independent processes side by side."""

    parts: tuple[AbstractForm, ...]

    @property
    def size(self):
        return sum(part.size for part in self.parts)

    def transition(self, t0, t1):
        Phis, Qs = zip(*(part.transition(t0, t1) for part in self.parts), strict=True)
        return _blocks(Phis), _blocks(Qs)

    def covariance(self, t):
        return _blocks([part.covariance(t) for part in self.parts])

    def observation(self, t):
        return jnp.concatenate([part.observation(t) for part in self.parts], 1)

    def error(self):
        return sum(part.error() for part in self.parts)


class AbstractProductForm(AbstractForm):
    """Kronecker products of the factors' states."""

    @property
    @abc.abstractmethod
    def factors(self) -> tuple[AbstractForm, ...]: ...

    @property
    def size(self):
        return math.prod(part.size for part in self.factors)

    def transition(self, t0, t1):
        # with M = Phi Pi Phi', so that Pi(t1) = M + Q: no difference of large covariances
        steps = [(*part.transition(t0, t1), part.covariance(t0)) for part in self.factors]
        (Phi, Q, Pi), *others = steps
        M = Phi @ Pi @ Phi.mT
        for other, more, start in others:
            N = other @ start @ other.mT
            Q = _kron(M, more) + _kron(Q, N) + _kron(Q, more)
            M, Phi = _kron(M, N), _kron(Phi, other)
        return Phi, Q

    def covariance(self, t):
        return functools.reduce(_kron, [part.covariance(t) for part in self.factors])

    def observation(self, t):
        columns = [part.observation(t)[:, :, None] for part in self.factors]
        return functools.reduce(_kron, columns)[:, :, 0]

    def error(self):
        return math.prod(1.0 + part.error() for part in self.factors) - 1.0


class ProductForm(AbstractProductForm):
    """A product of independent processes has the product of their covariances."""

    parts: tuple[AbstractForm, ...]

    @property
    def factors(self):
        return self.parts


class PowerForm(AbstractProductForm):
    """A product of independent copies."""

    part: AbstractForm
    exponent: int = eqx.field(static=True)

    @property
    def factors(self):
        return (self.part,) * self.exponent


class ScaleForm(AbstractForm):
    """An explicit amplitude."""

    variance: Any
    part: AbstractForm

    @property
    def size(self):
        return self.part.size

    def transition(self, t0, t1):
        return self.part.transition(t0, t1)

    def covariance(self, t):
        return self.part.covariance(t)

    def observation(self, t):
        return jnp.sqrt(self.variance) * self.part.observation(t)

    def error(self):
        return self.part.error()


def _blocks(matrices):
    """Block-diagonal (n, s, s)."""
    if len(matrices) == 1:
        return matrices[0]
    sizes = [m.shape[1] for m in matrices]
    out = jnp.zeros((matrices[0].shape[0], sum(sizes), sum(sizes)))
    for m, first in zip(matrices, np.cumsum([0, *sizes]), strict=False):
        out = out.at[:, first : first + m.shape[1], first : first + m.shape[1]].set(m)
    return out


def _kron(A, B):
    """Kronecker products (n, a b, c d)."""
    (n, a, c), (_, b, d) = A.shape, B.shape
    return (A[:, :, None, :, None] * B[:, None, :, None, :]).reshape(n, a * b, c * d)
