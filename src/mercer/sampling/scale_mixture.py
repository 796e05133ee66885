"""Gibbs sampling where noise is a scale mixture of normals: y_i ~ N(f_i, v_i), the v_i drawn by the noise
model (Kuss 5.1).

The state of a chain is (scales, f, theta): what makes the noise variance of each datum (an indicator, or the
logarithm of the variance itself), the latent values and the free hyperparameters. A transition integrates out
whatever it can:

1. theta given the scales, f integrated out: Hamiltonian Monte Carlo on a Gaussian evidence (5.16);
2. indicators of a mixture one after the other, f integrated out (5.15);
3. f given the scales: a Gaussian;
4. parameters of the noise given f, the scales integrated out: a few random-walk proposals, O(n) each;
5. scales given f, independently, from their exact conditional; then a mixture weight with a Beta prior from
   its own.
"""

from __future__ import annotations

import abc
import dataclasses
import functools
from collections.abc import Callable
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import jax.scipy.linalg as jsl
import numpy as np

from mercer.hyperpriors import Beta
from mercer.likelihoods import GaussianMixtureNoise, Laplace, StudentT
from mercer.params import strip
from mercer.sampling.hyper import Hyperparameters, Spec, on_traced
from mercer.sampling.step import AbstractStep, Info, LogDensity, Point
from mercer.sampling.target import JITTER, Target, bucket, encoded, likelihood_data, moments
from mercer.solvers.dense_jax import log_normaliser

_LOG_2PI = float(np.log(2 * np.pi))
_TINY = 1e-300
BLOCK = 32  # data between two updates of the whole inverse matrix in a sweep
NODES = 100  # of a noise model that is written as a finite mixture


@dataclasses.dataclass(frozen=True)
class AbstractScales(abc.ABC):
    """How a noise model makes the noise variance of each datum. Scales, residuals r = y - f and results are
    (n,).

    A `likelihood` here is one of that model, or anything with its parameters as attributes; they may be
    arrays that broadcast against the scales.
    """

    @abc.abstractmethod
    def variance(self, likelihood: Any, scales: Any) -> jax.Array:
        """Noise variance of each datum."""

    @abc.abstractmethod
    def log_prob(self, likelihood: Any, scales: Any) -> jax.Array:
        """Log density (or probability) of each scale."""

    @abc.abstractmethod
    def draw(self, key: jax.Array, likelihood: Any, r: Any) -> jax.Array:
        """Scales from their exact conditional given the residuals."""

    @abc.abstractmethod
    def first(self, rng: np.random.Generator, likelihood: Any, size: tuple[int, ...]) -> np.ndarray:
        """Scales from their prior, where chains start: an array of that size."""

    @abc.abstractmethod
    def pull(self, likelihood: Any, r: Any) -> jax.Array:
        """Weight of each datum relative to a regular one, in [0, 1], averaged over its scale."""

    @abc.abstractmethod
    def components(self, likelihood: Any) -> tuple[np.ndarray, np.ndarray]:
        """The noise as a finite mixture of normals: variances (J,) and weights (J,) that sum to one."""

    @abc.abstractmethod
    def sweep(
        self,
        key: jax.Array,
        likelihood: Any,
        scales: jax.Array,
        K: jax.Array,
        delta: jax.Array,
        mask: jax.Array,
    ) -> jax.Array:
        """New scales with f integrated out, given K (n, n), delta = y - m and which rows are data (`mask`);
        the same ones where that has no closed form.
        """


@dataclasses.dataclass(frozen=True)
class Indicators(AbstractScales):
    """c_i = 1 for an outlier: variance ratio times as large, with probability `weight`."""

    over_relaxed: bool = True

    def variance(self, likelihood: Any, scales: Any) -> jax.Array:
        return likelihood.variance * jnp.where(scales > 0.5, likelihood.ratio, 1.0)

    def log_prob(self, likelihood: Any, scales: Any) -> jax.Array:
        return jnp.where(scales > 0.5, jnp.log(likelihood.weight), jnp.log1p(-likelihood.weight))

    def draw(self, key: jax.Array, likelihood: Any, r: Any) -> jax.Array:
        p = jax.nn.sigmoid(_log_odds(likelihood, r, 0.0))
        return (jax.random.uniform(key, r.shape) < p).astype(float)

    def first(self, rng: np.random.Generator, likelihood: Any, size: tuple[int, ...]) -> np.ndarray:
        return (rng.random(size) < float(likelihood.weight)).astype(float)

    def pull(self, likelihood: Any, r: Any) -> jax.Array:
        return jax.nn.sigmoid(-_log_odds(likelihood, r, 0.0))

    def components(self, likelihood: Any) -> tuple[np.ndarray, np.ndarray]:
        w, v, ratio = (float(x) for x in (likelihood.weight, likelihood.variance, likelihood.ratio))
        return np.array([v, v * ratio]), np.array([1.0 - w, w])

    def sweep(
        self,
        key: jax.Array,
        likelihood: Any,
        scales: jax.Array,
        K: jax.Array,
        delta: jax.Array,
        mask: jax.Array,
    ) -> jax.Array:
        """One sweep with P = (K + Sigma)^-1 and a = P delta, both made anew for every sweep.

        Without datum i, y_i is N(mu_i, v_i + variance) with 1 / P_ii = v_i + Sigma_ii and y_i - mu_i = a_i /
        P_ii. A flip changes P by a matrix of rank one: at once in the rows of the block that is being
        visited, in the others for the whole block together. Data are visited in random order: in a fixed one
        all chains would be drawn to the same of several modes.
        """
        N = scales.shape[0]
        size = BLOCK if N % BLOCK == 0 else 8
        by_order, by_choice = jax.random.split(key)
        order = jax.random.permutation(by_order, N)
        visited, delta, mask = scales[order], delta[order], mask[order]
        P = _inverse(K[order][:, order], jnp.where(mask, 1.0 / self.variance(likelihood, visited), 0.0))
        log_uniform = jnp.log(jax.random.uniform(by_choice, scales.shape))
        regular, outlying = likelihood.variance, likelihood.variance * likelihood.ratio

        def visit(start, k, carry):
            c, rows, a, shrinks = carry
            i, row = start + k, rows[k]
            pivot, now = jnp.where(mask[i], row[i], 1.0), jnp.where(c[i] > 0.5, outlying, regular)
            log_odds = _log_odds(likelihood, a[i] / pivot, jnp.maximum(1.0 / pivot - now, 0.0))
            if self.over_relaxed:  # (5.17)
                flip = log_uniform[i] < jnp.where(c[i] > 0.5, -log_odds, log_odds)
            else:
                flip = (log_uniform[i] < jax.nn.log_sigmoid(log_odds)) != (c[i] > 0.5)
            new = jnp.where(flip & mask[i], 1.0 - c[i], c[i])
            change = jnp.where(new > 0.5, outlying, regular) - now
            shrink = change / (1.0 + change * pivot)
            column = jnp.where(jnp.arange(size) > k, jax.lax.dynamic_slice_in_dim(row, start, size), 0.0)
            rows = rows - (shrink * column)[:, None] * row
            return c.at[i].set(new), rows, a - shrink * a[i] * row, shrinks.at[k].set(shrink)

        def block(carry, start):
            c, P, a = carry
            begin = (c, jax.lax.dynamic_slice_in_dim(P, start, size), a, jnp.zeros(size))
            c, rows, a, shrinks = jax.lax.fori_loop(0, size, functools.partial(visit, start), begin)
            return (c, P - rows.T @ (shrinks[:, None] * rows), a), None

        (visited, _, _), _ = jax.lax.scan(block, (visited, P, P @ delta), jnp.arange(0, N, size))
        return scales.at[order].set(visited)


def _log_odds(likelihood: Any, r: Any, v: Any) -> jax.Array:
    """Log odds of an outlier where, f integrated out,
    y - mu = r and v is the variance of f without the datum.
    """
    regular, outlying = v + likelihood.variance, v + likelihood.variance * likelihood.ratio
    prior = jnp.log(likelihood.weight) - jnp.log1p(-likelihood.weight)
    return prior + 0.5 * (jnp.log(regular) - jnp.log(outlying) + r**2 * (1.0 / regular - 1.0 / outlying))


@dataclasses.dataclass(frozen=True)
class AbstractLogVariances(AbstractScales):
    """Scales that are the logarithms of the variances."""

    def variance(self, likelihood: Any, scales: Any) -> jax.Array:
        return jnp.exp(scales)

    def sweep(
        self,
        key: jax.Array,
        likelihood: Any,
        scales: jax.Array,
        K: jax.Array,
        delta: jax.Array,
        mask: jax.Array,
    ) -> jax.Array:
        return scales


@dataclasses.dataclass(frozen=True)
class StudentScales(AbstractLogVariances):
    """Log variances, each InvGamma(dof / 2, dof scale^2 / 2) (5.20)."""

    def log_prob(self, likelihood: Any, scales: Any) -> jax.Array:
        a, b = 0.5 * likelihood.dof, 0.5 * likelihood.dof * likelihood.scale**2
        return a * jnp.log(b) - jax.scipy.special.gammaln(a) - a * scales - b * jnp.exp(-scales)

    def draw(self, key: jax.Array, likelihood: Any, r: Any) -> jax.Array:
        b = 0.5 * (likelihood.dof * likelihood.scale**2 + r**2)
        return jnp.log(b) - jax.random.loggamma(key, 0.5 * (likelihood.dof + 1.0), r.shape)

    def first(self, rng: np.random.Generator, likelihood: Any, size: tuple[int, ...]) -> np.ndarray:
        a = 0.5 * float(likelihood.dof)
        return np.log(a * float(likelihood.scale) ** 2) - np.log(np.maximum(rng.gamma(a, size=size), _TINY))

    def pull(self, likelihood: Any, r: Any) -> jax.Array:
        return 1.0 / (1.0 + (r / likelihood.scale) ** 2 / likelihood.dof)

    def components(self, likelihood: Any) -> tuple[np.ndarray, np.ndarray]:
        a = 0.5 * float(likelihood.dof)
        low = -np.log1p(40.0 / a) - 9.0 / np.sqrt(a) * (a > 50)
        return _nodes(self, likelihood, low, 35.0 / a + 9.0 / np.sqrt(a))


@dataclasses.dataclass(frozen=True)
class LaplaceScales(AbstractLogVariances):
    """Log variances, each exponential with mean 2 scale^2 (5.49)."""

    def log_prob(self, likelihood: Any, scales: Any) -> jax.Array:
        b = 0.5 / likelihood.scale**2
        return jnp.log(b) - b * jnp.exp(scales) + scales

    def draw(self, key: jax.Array, likelihood: Any, r: Any) -> jax.Array:
        """1 / variance is inverse Gaussian with mean 1 / (s |r|) and shape 1 / s^2: one of two roots,
        free of cancellation.
        """
        by_root, by_choice = jax.random.split(key)
        product = likelihood.scale * jnp.abs(r)
        b = 0.5 * (likelihood.scale * jax.random.normal(by_root, r.shape)) ** 2
        large = product + b + jnp.sqrt(b * (b + 2.0 * product))
        chosen = jax.random.uniform(by_choice, r.shape) < large / (large + product)
        return jnp.log(jnp.maximum(jnp.where(chosen, large, product / large * product), _TINY))

    def first(self, rng: np.random.Generator, likelihood: Any, size: tuple[int, ...]) -> np.ndarray:
        return np.log(np.maximum(rng.exponential(2.0 * float(likelihood.scale) ** 2, size), _TINY))

    def pull(self, likelihood: Any, r: Any) -> jax.Array:
        return jnp.minimum(1.0, likelihood.scale / jnp.maximum(jnp.abs(r), _TINY))

    def components(self, likelihood: Any) -> tuple[np.ndarray, np.ndarray]:
        return _nodes(self, likelihood, -35.0, 5.0)


def _nodes(scales: AbstractScales, likelihood: Any, low: float, high: float) -> tuple[np.ndarray, np.ndarray]:
    """Variances and weights of the trapezoidal rule in the log variance,
    from low to high around 2 log(scale).
    """
    u = 2.0 * np.log(float(likelihood.scale)) + np.linspace(low, high, NODES)
    log_w = np.asarray(scales.log_prob(likelihood, u))
    w = np.exp(log_w - log_w.max())
    return np.exp(u), w / w.sum()


def scales_of(likelihood: Any, over_relaxed: bool = True) -> AbstractScales | None:
    """The scales of a noise model; None where it is not one of those that can be sampled so."""
    if isinstance(likelihood, GaussianMixtureNoise):
        return Indicators(over_relaxed)
    if isinstance(likelihood, StudentT):
        return StudentScales()
    return LaplaceScales() if isinstance(likelihood, Laplace) else None


# ------------------------------------------------------------------------------------------------- the
# density and the transition


def scales_target(
    model: Any, X: np.ndarray, y: np.ndarray, hyper: Hyperparameters | None, scales: AbstractScales
) -> Target:
    """log p(y | scales, theta) + log p(scales | theta) + log p(theta) over z = (scales, f, theta), on which f
    has no influence.

    Without `hyper` the hyperparameters stand. Data are padded to a bucket: z has 2 N + p entries.
    """
    size = bucket(y.shape[0])
    free = {"hyper_leaves": jax.tree.leaves(strip(model))} if hyper is None else hyper.data()
    data = encoded(model, X, size) | likelihood_data(model.likelihood, y, size) | free
    spec, p = (fixed_spec(model), 0) if hyper is None else (hyper.spec, hyper.size)
    # one chain after the other: XLA can lock up on matrices that are factored for several at once in a loop
    return Target(scales_density(spec, scales), data, 2 * size + p, 2 * y.shape[0] + p, together=False)


def fixed_spec(model: Any) -> Spec:
    """For compiled code that takes the hyperparameters as they are."""
    return Spec(jax.tree.structure(strip(model)), ())


@functools.lru_cache(maxsize=64)
def scales_density(spec: Spec, scales: AbstractScales) -> Callable[[Any, Any], jax.Array]:
    """log_density(z, data) of `scales_target`."""

    def log_density(z, data):
        N, mask = data["mask"].shape[0], data["mask"]
        model, log_prior = spec.build(z[2 * N :], data)
        m, K = moments(model.priors, data, 0)
        noise = scales.variance(model.likelihood, z[:N])
        W = jnp.where(mask, 1.0 / noise, 0.0)
        each = scales.log_prob(model.likelihood, z[:N]) - 0.5 * (jnp.log(noise) + _LOG_2PI)
        return (
            log_normaliser(K, data["y"] - m, W, jnp.zeros_like(W))
            + jnp.sum(jnp.where(mask, each, 0.0))
            + log_prior
        )

    return log_density


@dataclasses.dataclass(frozen=True)
class ScaleMixtureStep(AbstractStep):
    """The transition described above, its parts numbered as there: `base` moves theta where it holds more
    than the noise, `tries` random-walk proposals what belongs to the noise alone.
    """

    base: AbstractStep
    spec: Spec
    scales: AbstractScales
    noise: tuple[int, ...]  # entries of theta that only the likelihood reads
    conjugate: tuple[int, Beta, Any] | None = None  # entry, prior and constraint of a weight that has a Beta
    tries: int = 4

    needs_data: ClassVar[bool] = True
    needs_gradient: ClassVar[bool] = False

    @property
    def acceptance(self) -> float:  # type: ignore[override]
        return self.base.acceptance if self.hamiltonian else 1.0

    @property
    def hamiltonian(self) -> bool:
        """Whether theta holds anything but parameters of the noise;
        those alone are moved well enough in step 4.
        """
        return len(self.noise) < sum(s.stop - s.start for s in self.spec.slots)

    def __call__(
        self,
        key: jax.Array,
        point: Point,
        log_density: LogDensity,
        step_size: jax.Array | float,
        variance: jax.Array,
        data: Any = None,
    ) -> tuple[Point, Info]:
        N, mask = data["mask"].shape[0], data["mask"]
        by_theta, by_sweep, by_f, by_noise, by_scales, by_weight = jax.random.split(key, 6)
        s, f, theta = point.position[:N], point.position[N : 2 * N], point.position[2 * N :]
        info = Info(jnp.ones(()), jnp.zeros((), bool), jnp.nan * jnp.ones(()), jnp.zeros((), int))
        if self.hamiltonian:  # 1

            def density(theta):
                return log_density(jnp.concatenate([s, f, theta]))

            start = self.base.begin(density, theta)
            (theta, *_), info = self.base(by_theta, start, density, step_size, variance[2 * N :])
        model, _ = self.spec.build(theta, data)
        m, K = moments(model.priors, data, 0)
        delta = data["y"] - m
        s = self.scales.sweep(by_sweep, model.likelihood, s, K, delta, mask)  # 2
        f = m + _latents(by_f, K, delta, self.scales.variance(model.likelihood, s), mask)  # 3
        if self.noise:  # 4
            theta = self._noise_moves(by_noise, theta, f, jnp.sqrt(variance[2 * N :]), data)
        model, _ = self.spec.build(theta, data)
        s = jnp.where(mask, self.scales.draw(by_scales, model.likelihood, data["y"] - f), s)  # 5
        if self.conjugate is not None:
            theta = self._weight_draw(by_weight, theta, s, mask)
        # the energy is not that of one density from transition to transition, so it says nothing of mixing
        info = info._replace(energy=jnp.nan * jnp.ones(()))
        return self.begin(log_density, jnp.concatenate([s, f, theta])), info

    def _weight_draw(self, key, theta, indicators, mask) -> jax.Array:
        """theta with a new weight of the mixture, from its Beta given the indicators."""
        assert self.conjugate is not None
        i, prior, constraint = self.conjugate
        outliers = jnp.sum(jnp.where(mask, indicators, 0.0))
        drawn = jax.random.beta(key, prior.a + outliers, prior.b + jnp.sum(mask) - outliers)
        return theta.at[i].set(on_traced(constraint.unconstrained, jnp.clip(drawn, 1e-12, 1.0 - 1e-12)))

    def _noise_moves(self, key, theta, f, sd, data) -> jax.Array:
        """theta after random-walk proposals for what belongs to the noise, given f (N,); sd (p,) says how
        long they are.
        """
        where = jnp.array(self.noise)

        def value(theta):
            model, log_prior = self.spec.build(theta, data)
            return jnp.sum(jnp.where(data["mask"], model.likelihood.log_prob(f, data["y"]), 0.0)) + log_prior

        def propose(carry, entry):
            (theta, now), (key, length) = carry, entry
            by_step, by_choice = jax.random.split(key)
            new = theta.at[where].add(length * sd[where] * jax.random.normal(by_step, where.shape))
            then = value(new)
            gain = jnp.where(jnp.isnan(then), -jnp.inf, then - now)
            accepted = jnp.log(jax.random.uniform(by_choice)) < gain
            return (jnp.where(accepted, new, theta), jnp.where(accepted, then, now)), None

        lengths = 2.4 / np.sqrt(len(self.noise)) * np.resize([1.0, 0.3], self.tries)
        each = (jax.random.split(key, self.tries), lengths)
        (theta, _), _ = jax.lax.scan(propose, (theta, value(theta)), each)
        return theta


def _inverse(K: jax.Array, W: jax.Array) -> jax.Array:
    """(K + W^-1)^-1; rows with W = 0 are zero."""
    root = jnp.sqrt(W)
    L = jnp.linalg.cholesky(jnp.eye(K.shape[0]) + root[:, None] * K * root)
    return root[:, None] * jsl.cho_solve((L, True), jnp.eye(K.shape[0])) * root


def _latents(key: jax.Array, K: jax.Array, delta: jax.Array, noise: jax.Array, mask: jax.Array) -> jax.Array:
    """A draw of f - m given y - m = delta and the noise variances: a prior draw,
    corrected by what its own noisy data miss.
    """
    by_f, by_noise = jax.random.split(key)
    K = jnp.where(mask[:, None] & mask, K, 0.0)
    jitter = JITTER * jnp.sum(jnp.where(mask, jnp.diagonal(K), 0.0)) / jnp.sum(mask)
    K = K + jnp.diag(jnp.where(mask, jitter, 1.0))
    prior = jnp.linalg.cholesky(K) @ jax.random.normal(by_f, delta.shape)
    miss = delta - prior - jnp.sqrt(noise) * jax.random.normal(by_noise, delta.shape)
    root = jnp.sqrt(jnp.where(mask, 1.0 / noise, 0.0))
    L = jnp.linalg.cholesky(jnp.eye(K.shape[0]) + root[:, None] * K * root)
    return prior + K @ (root * jsl.cho_solve((L, True), root * miss))
