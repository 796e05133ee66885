"""Autoregressive moving-average processes in discrete time (GPML B.3-B.4),
and their fit by Yule and Walker.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import solve_discrete_lyapunov, solve_toeplitz, toeplitz
from scipy.signal import lfilter

from mercer.series.filtering import innovations, log_density, root, settle


@dataclasses.dataclass(frozen=True, eq=False)
class ARMA:
    """X_t = a_1 X_(t-1) + ... + a_p X_(t-p) + b_0 Z_t + b_1 Z_(t-1) + ... + b_q Z_(t-q) with standard normal
    Z (B.1, B.51).

    ar: a_1 ... a_p (none: a moving average). ma: b_0 ... b_q; one number makes an AR(p), b_0^2 is the
    variance of its innovations.

    >>> process = ARMA([0.5, 0.3], 1.0)
    >>> process.covariance([0, 1, 2])
    array([2.24358974, 1.6025641 , 1.47435897])
    """

    ar: np.ndarray
    ma: np.ndarray = dataclasses.field(default_factory=lambda: np.ones(1))

    def __post_init__(self):
        settle(self)

    def roots(self) -> np.ndarray:
        """The roots of z^p - a_1 z^(p-1) - ... - a_p (complex):
        inside the unit circle if the process is stationary.
        """
        return np.roots([1.0, *-self.ar])

    @property
    def stationary(self) -> bool:
        """Whether the process has a stationary solution that depends on the past only."""
        return bool(np.all(np.abs(self.roots()) < 1.0))

    def covariance(self, lags: ArrayLike) -> np.ndarray:
        """k[j] at whole lags j of any sign (B.40-B.42)."""
        at = np.abs(np.asarray(lags, int))
        impulse = np.zeros(int(at.max(initial=0)) + 1)
        impulse[0] = 1.0
        return lfilter(self.state_space()[2][:, 0], [1.0, *-self.ar], impulse)[at]

    def spectrum(self, s: ArrayLike) -> np.ndarray:
        """S(s) = |B|^2 / |A|^2 at frequencies s, of period one (B.39, B.43, B.52); its integral over (0,
        1) is the variance.
        """
        z = np.exp(-2j * np.pi * np.asarray(s, float))
        return np.abs(np.polyval(self.ma[::-1], z)) ** 2 / np.abs(np.polyval([*-self.ar[::-1], 1.0], z)) ** 2

    def state_space(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Phi, Q and the stationary covariance Pi (r, r), r = max(p, q + 1),
        of a vector AR(1) whose first entry is X_t.
        """
        if not self.stationary:
            size = np.abs(self.roots()).max()
            raise ValueError(
                f"the process is not stationary: a root has modulus {size:.6g}, and all must be less than 1."
            )
        r = max(self.ar.size, self.ma.size)
        Phi, noise = np.diag(np.ones(r - 1), 1), np.zeros(r)
        Phi[: self.ar.size, 0] = self.ar
        noise[: self.ma.size] = self.ma
        Q = np.outer(noise, noise)
        return Phi, Q, solve_discrete_lyapunov(Phi, Q)

    def sample(self, n: int, size: int = 1, seed: Any = None) -> np.ndarray:
        """`size` stationary series of n values: (size, n)."""
        Phi, _, Pi = self.state_space()
        rng = np.random.default_rng(seed)
        before = rng.standard_normal((size, Pi.shape[0])) @ (Phi @ root(Pi)).T
        Z = rng.standard_normal((size, n))
        carried = max(self.ar.size, self.ma.size - 1)
        if carried == 0:
            return self.ma[0] * Z
        return lfilter(self.ma, [1.0, *-self.ar], Z, zi=before[:, :carried])[0]

    def log_density(self, x: ArrayLike, noise_variance: float = 0.0) -> float:
        """log p(x_1 ... x_n), exact in O(n), of the process observed with white noise;
        NaN says that a value is missing.
        """
        return log_density(*self._innovations(x, noise_variance)[:2])

    def forecast(
        self, x: ArrayLike, steps: int, noise_variance: float = 0.0
    ) -> tuple[np.ndarray, np.ndarray]:
        """Mean and variance (steps,) of X after the last of x (n,)."""
        Phi, Q, _ = self.state_space()
        m, P = self._innovations(x, noise_variance)[2:]
        means, variances = np.empty(steps), np.empty(steps)
        for i in range(steps):
            m, P = Phi @ m, Phi @ P @ Phi.T + Q
            means[i], variances[i] = m[0], P[0, 0]
        return means, variances

    def _innovations(self, x, noise_variance):
        Phi, Q, Pi = self.state_space()
        x = np.asarray(x, float)
        if x.ndim != 1 or x.size == 0:
            raise ValueError(f"x must be a series (n,) of at least one value, got shape {x.shape}.")
        first = np.eye(Phi.shape[0])[0]
        return innovations((Phi for _ in x), (Q for _ in x), first, Pi, x, noise_variance)


@dataclasses.dataclass(frozen=True, eq=False)
class YuleWalkerFit:
    """An AR(p) learned from data: the `model`, the `standard_errors` (p,) of its coefficients,
    and the `mean` taken out.
    """

    model: ARMA
    standard_errors: np.ndarray
    mean: float


def yule_walker(x: ArrayLike, order: int, centre: bool = True) -> YuleWalkerFit:
    """The AR(p) whose covariances at lags 0 ... p are those of the series x (n,) (B.40-B.41); it is always
    stationary.

    centre: subtract the mean first. The standard errors are those of many data: the root of b_0^2 / n times
    the inverse of the covariance matrix of p neighbours.

    >>> fit = yule_walker(x, order=2)
    >>> fit.model.ar, fit.standard_errors
    """
    x = np.asarray(x, float)
    if x.ndim != 1 or not np.isfinite(x).all():
        raise ValueError(
            f"x must be a series (n,) of finite values, got shape {x.shape}, {np.sum(~np.isfinite(x))} not "
            "finite."
        )
    if not 0 <= order < x.size:
        raise ValueError(f"order must be between 0 and n - 1 = {x.size - 1}, got {order}.")
    mean = float(x.mean()) if centre else 0.0
    k = sample_covariance(x - mean, order)
    if not k[0] > 0:
        raise ValueError("x is constant: it has no autocovariance to learn from.")
    model = from_covariances(k, order)
    if order == 0:
        return YuleWalkerFit(model, np.zeros(0), mean)
    errors = model.ma[0] * np.sqrt(np.diag(np.linalg.inv(toeplitz(k[:order]))) / x.size)
    return YuleWalkerFit(model, errors, mean)


def from_covariances(k: ArrayLike, order: int | None = None) -> ARMA:
    """The AR(p) with these covariances k[0] ... k[p] at lags 0 ... p, by Levinson's recursion (B.40-B.41)."""
    k = np.asarray(k, float)
    order = k.size - 1 if order is None else order
    if k.size <= order:
        raise ValueError(f"an AR({order}) needs covariances at lags 0 ... {order}, got {k.size} of them.")
    ar = solve_toeplitz(k[:order], k[1 : order + 1]) if order else np.zeros(0)
    innovation = k[0] - ar @ k[1 : order + 1]
    if not innovation > 0:
        raise ValueError(
            "k is not a covariance: the Toeplitz matrix of k[0] ... k[p] is not positive definite."
        )
    return ARMA(ar, np.array([np.sqrt(innovation)]))


def sample_covariance(x: ArrayLike, lags: int) -> np.ndarray:
    """1/n sum_t x_t x_(t+j) for j = 0 ... lags, of a series whose mean is zero;
    positive definite as a sequence.
    """
    x = np.asarray(x, float)
    return np.array([x[: x.size - j] @ x[j:] for j in range(lags + 1)]) / x.size
