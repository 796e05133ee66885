"""Smoothing splines as Gaussian processes (GPML 6.3): the curve, how sure it is,
and the smoothing chosen by the evidence.
"""

from __future__ import annotations

import abc
import math
from collections.abc import Callable
from typing import Any, Self

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import minimize_scalar
from scipy.stats import norm
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils.validation import check_is_fitted

from mercer.gp import GP
from mercer.inputs import as_inputs, as_targets
from mercer.kernels.families.brownian import IntegratedWiener
from mercer.kernels.statespace import TOLERANCE, chain, state_space
from mercer.linalg import kalman
from mercer.means import Polynomial
from mercer.params import fixed, strip
from mercer.posteriors import GaussianPosterior
from mercer.solvers.markov import Line
from mercer.solvers.protocol import AbstractState

SEARCHED = np.linspace(-11.0, 4.0, 16)  # decades of the smoothing, for each datum and unit of length
_SMOOTHING = 'smoothing must be a positive number, None (by the evidence) or "gcv", got {!r}.'


class AbstractSpline(RegressorMixin, BaseEstimator, abc.ABC):
    """What splines share: data on a unit scale, the smoothing and the noise by the evidence, predictions.

    A spline minimises sum_i w_i (y_i - f(x_i))^2 + smoothing * |m-th derivatives of f|^2. That is the
    posterior mean of a GP with smoothing = noise variance / variance of the process and m-th order
    polynomials of vague weight (2.42, 6.29).
    """

    smoothing: float | str | None

    @abc.abstractmethod
    def _order(self, d: int) -> int:
        """The order m of the derivatives, for d columns."""

    @abc.abstractmethod
    def _condition(
        self, U: np.ndarray, z: np.ndarray, variance: float, noise: np.ndarray
    ) -> GaussianPosterior:
        """The posterior on the unit scale."""

    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Fit inputs X (n, d), in any order, and targets y (n,).
        A weight w_i makes the noise variance noise_variance_ / w_i.
        """
        inputs = _columns(X, "X")
        y = as_targets(y, inputs.shape[0])
        n, d = inputs.shape
        weight = np.broadcast_to(np.asarray(1.0 if sample_weight is None else sample_weight, float), (n,))
        if not (np.isfinite(weight) & (weight > 0)).all():
            raise ValueError(
                "sample_weight must be positive; leave a datum out rather than give it no weight."
            )
        self.n_features_in_, self.order_ = d, self._order(d)
        degrees = _degrees(d, self.order_)
        distinct = np.unique(inputs, axis=0).shape[0]
        if distinct <= len(degrees):
            raise ValueError(
                f"a spline of order {self.order_} needs at least {len(degrees) + 1} different inputs to "
                "tell the curve from the "
                f"noise, and there are {distinct}."
            )
        self._low, self._length = inputs.min(0), float(np.ptp(inputs, axis=0).max())
        self._centre, self._spread = float(y.mean()), float(y.std()) or 1.0
        U, z = self._unit(inputs), (y - self._centre) / self._spread
        per_unit = self._length ** (2 * self.order_ - d)
        free = n - len(degrees)
        given = None if isinstance(self.smoothing, str | None) else float(self.smoothing)
        smoothing = self._smoothing(U, z, weight, free) if given is None else given / per_unit
        q, log_evidence, _ = self._profile(U, z, weight, free, smoothing)
        variance = q / free
        self.posterior_ = self._condition(U, z, variance, smoothing * variance / weight)
        self.smoothing_ = float(smoothing * per_unit) if given is None else given
        self.noise_variance_ = float(smoothing * variance * self._spread**2)
        self.variance_ = self.noise_variance_ / self.smoothing_
        self.log_evidence_ = float(
            log_evidence - free * np.log(self._spread) - sum(degrees) * np.log(self._length)
        )
        return self

    @property
    def degrees_of_freedom_(self) -> float:
        """The trace of the smoother matrix: from the number of polynomials (much smoothing) to n (none)."""
        check_is_fitted(self)
        return self.posterior_.degrees_of_freedom()

    def predict(self, X: ArrayLike, return_std: bool = False) -> np.ndarray | tuple[np.ndarray, np.ndarray]:
        """The curve (n,) at the rows of X; with `return_std` also the standard deviation (n,) of the curve
        there.
        """
        mean, variance = self._moments(self._test(X))
        mean = self._centre + self._spread * mean
        return (mean, self._spread * np.sqrt(variance)) if return_std else mean

    def predict_interval(
        self, X: ArrayLike, level: float = 0.95, latent: bool = False
    ) -> tuple[np.ndarray, np.ndarray]:
        """Lower and upper ends, each (n,), of the central interval that holds a new y (latent:
        the curve) with probability `level`.
        """
        if not 0 < level < 1:
            raise ValueError(f"level must lie strictly between 0 and 1, got {level}.")
        mean, std = self.predict(X, return_std=True)
        half = norm.ppf(0.5 + 0.5 * level) * np.sqrt(std**2 + (0.0 if latent else self.noise_variance_))
        return mean - half, mean + half

    def sample_y(
        self, X: ArrayLike, n_samples: int = 1, random_state: Any = 0, latent: bool = False
    ) -> np.ndarray:
        """Joint draws of y, or of the curve with `latent=True`: (n, n_samples)."""
        rng = np.random.default_rng(random_state)
        f = self._centre + self._spread * self._draws(self._test(X), n_samples, rng).T
        return f if latent else f + np.sqrt(self.noise_variance_) * rng.standard_normal(f.shape)

    # -- on the unit scale -----------------------------------------------------------------------------------

    def _moments(self, U):
        return self.posterior_.latent_moments(U)

    def _draws(self, U, size, rng):
        return self.posterior_.sample(U, size, rng, latent=True)

    def _unit(self, X):
        return (X - self._low) / self._length

    def _test(self, X):
        check_is_fitted(self)
        inputs = _columns(X, "X")
        if inputs.shape[1] != self.n_features_in_:
            raise ValueError(
                f"X has {inputs.shape[1]} columns but the spline was fitted to {self.n_features_in_}."
            )
        return self._unit(inputs)

    def _profile(self, U, z, weight, free: int, smoothing: float) -> tuple[float, float, float]:
        """For this smoothing: the data fit z' R z, the log evidence at the best variance,
        and the GCV score.
        """
        if not (np.isfinite(smoothing) and smoothing > 0):
            raise ValueError(_SMOOTHING.format(self.smoothing))
        posterior = self._condition(U, z, 1.0, smoothing / weight)
        alpha = np.asarray(posterior.state.alpha)
        q = max(float(z @ alpha), 1e-28 * z.size)
        log_evidence = posterior.log_evidence + 0.5 * float(z @ alpha) - 0.5 * free * (np.log(q / free) + 1.0)
        if self.smoothing != "gcv":
            return q, log_evidence, 0.0
        residual = smoothing * alpha / np.sqrt(weight)
        return q, log_evidence, float(residual @ residual) / (z.size - posterior.degrees_of_freedom()) ** 2

    def _smoothing(self, U, z, weight, free) -> float:
        if self.smoothing not in (None, "gcv"):
            raise ValueError(_SMOOTHING.format(self.smoothing))
        which: Callable = (lambda out: np.log(out[2])) if self.smoothing == "gcv" else (lambda out: -out[1])

        def loss(decade):
            return float(which(self._profile(U, z, weight, free, z.size * 10.0**decade)))

        best = SEARCHED[int(np.argmin([loss(decade) for decade in SEARCHED]))]
        found = minimize_scalar(
            loss, bounds=(best - 1.0, best + 1.0), method="bounded", options={"xatol": 1e-6}
        )
        return z.size * 10.0 ** float(found.x)


class SmoothingSpline(AbstractSpline):
    """The natural smoothing spline on one column, in O(n): the function f with the least

        sum_i w_i (y_i - f(x_i))^2 + smoothing * integral of (f^(m))^2.

    Between data it is a polynomial of degree 2m - 1, beyond them of degree m - 1. It is the posterior mean of
    Brownian motion integrated m - 1 times plus a polynomial of vague weight (6.27-6.30; an exact limit, not a
    large variance), by the Kalman filter. So the spline knows how sure it is, and the smoothing that the data
    ask for has the largest evidence (2.45).

    smoothing: float, None or "gcv", default None. In units of X^(2m-1), as `lam` of
        `scipy.interpolate.make_smoothing_spline`. None: that of the largest evidence. "gcv": that of the
        smallest generalised cross-validation score. The noise variance is learned in every case.
    order: int, default 2. The m above; 1: piecewise linear, 2: the cubic spline, 3: quintic.

    smoothing_, noise_variance_, variance_ (of the process: noise_variance_ / smoothing_), log_evidence_,
    degrees_of_freedom_

    Repeated and unsorted inputs are fine. X may be a vector.

    >>> spline = SmoothingSpline().fit(x, y)
    >>> spline.predict(xs), spline.predict(xs, derivative=1), spline.predict_interval(xs)
    """

    def __init__(self, smoothing: float | str | None = None, order: int = 2):
        self.smoothing = smoothing
        self.order = order

    def predict(
        self, X: ArrayLike, return_std: bool = False, derivative: int = 0
    ) -> np.ndarray | tuple[np.ndarray, np.ndarray]:
        """The curve (n,) or its derivative of this order (less than m) at X;
        with `return_std` also its standard deviation (n,).
        """
        U = self._test(X)
        if not 0 <= derivative < self.order_:
            raise ValueError(
                f"a spline of order {self.order_} has derivatives 0 ... {self.order_ - 1}, not "
                f"{derivative!r}."
            )
        mean, variance = self._moments(U, derivative)
        scale = self._spread / self._length**derivative
        mean = scale * mean + (self._centre if derivative == 0 else 0.0)
        return (mean, scale * np.sqrt(variance)) if return_std else mean

    def _order(self, d):
        if d != 1:
            raise ValueError(f"SmoothingSpline reads one column, and X has {d}: use ThinPlate for several.")
        if isinstance(self.order, bool) or self.order not in range(1, 9):
            raise ValueError(f"order must be a whole number from 1 to 8, got {self.order!r}.")
        return int(self.order)

    def _condition(self, U, z, variance, noise):
        m = self.order_
        gp = GP(IntegratedWiener(m - 1, fixed(variance)), basis=Polynomial(m - 1))
        return gp.condition(U, z, noise_variance=noise, solver="markov")

    def _moments(self, U, derivative=0):
        """Before the data f is what its value and derivatives at the first of them say,
        and Brownian motion going backwards.
        """
        state = self.posterior_.state
        beta = state.basis_weights()
        assert beta is not None
        u, m = U[:, 0], self.order_
        H = _powers(u, m, derivative)
        mean, extra, rest = np.zeros(u.size), np.zeros(u.size), H.copy()
        before = u < 0
        p = m - 1 - derivative
        extra[before] = (
            self._unit_variance() * (-u[before]) ** (2 * p + 1) / ((2 * p + 1) * math.factorial(p) ** 2)
        )
        if not before.all():
            mean[~before], extra[~before], known = _conditional(state, u[~before], beta.RH, derivative)
            rest[~before] -= known
        return mean + H @ beta.mean, np.maximum(extra, 0.0) + np.einsum(
            "ij,jk,ik->i", rest, beta.covariance, rest
        )

    def _draws(self, U, size, rng):
        """Time starts at the first of data and test inputs."""
        posterior, start = self.posterior_, float(min(U.min(initial=0.0), 0.0))
        if start < 0:
            noise = 1.0 / np.asarray(posterior.state.sites.precision)[:, 0]
            posterior = self._condition(
                posterior.inputs.values - start, posterior.y, self._unit_variance(), noise
            )
        return posterior.sample(U - start, size, rng, latent=True)

    def _unit_variance(self) -> float:
        return float(self.posterior_.model.gp.kernel.variance)


def ramps(N: int) -> Callable:
    """The features (x - i / N)_+ / sqrt(N), i = 0 ... N - 1, on (0, 1): X (n, 1) -> (n, N) (6.31).

    A linear model on them with standard normal weights becomes the spline's process as N grows (6.28, 6.32).

    >>> mercer.GP(kernels.Features(ramps(200)))
    """
    return lambda X: jnp.maximum(X - jnp.arange(N) / N, 0.0) / math.sqrt(N)


def _conditional(
    state: AbstractState, u: np.ndarray, RH: np.ndarray, derivative: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """At u (m,): K_* alpha (m,) of a derivative of the process without its polynomial, its variance (m,)
    given the polynomial, and K_* RH (m, p).

    Data and test inputs form one chain in which test inputs observe a derivative.
    """
    form = state_space(strip(state.prior.kernel), TOLERANCE)
    t, n, s = np.concatenate([state.X[:, 0], u]), state.X.shape[0], form.size
    line = Line(t)
    W, h = np.zeros(t.size), np.zeros((t.size, s))
    W[:n], h[:n, 0], h[n:, derivative] = state.sites.precision[:, 0], 1.0, 1.0
    V = np.zeros((t.size, 1 + RH.shape[1]))
    V[:n] = np.column_stack([state.alpha, RH])
    products, variances = _sweep(form, line.t, line.onto(h), line.onto(W), line.onto(V))
    products = line.back(products)[n:]
    return products[:, 0], line.back(variances)[n:], products[:, 1:]


@jax.jit
def _sweep(form, t, h, W, V):
    links = chain(form, t)._replace(h=h)
    return kalman.times(links, V), kalman.pull_logdet(links, W).variances


def _powers(u: np.ndarray, m: int, derivative: int) -> np.ndarray:
    """The derivatives of 1, u, ..., u^(m-1): (n, m)."""
    H = np.zeros((u.size, m))
    for j in range(derivative, m):
        H[:, j] = math.perm(j, derivative) * u ** (j - derivative)
    return H


def _degrees(d: int, m: int) -> list[int]:
    """The degree of every monomial in d columns of degree less than m."""
    return [j for j in range(m) for _ in range(math.comb(j + d - 1, d - 1))]


def _columns(X, name: str) -> np.ndarray:
    if len(getattr(X, "shape", None) or np.shape(X)) == 1:  # a vector, or a column of a table
        X = np.asarray(X)[:, None]
    return np.asarray(as_inputs(X, name).values, float)
