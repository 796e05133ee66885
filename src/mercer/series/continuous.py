"""Autoregressive processes in continuous time: linear stochastic differential equations (GPML B.2, B.4)."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import expm, solve_continuous_lyapunov

from mercer.series.autoregressive import ARMA
from mercer.series.filtering import innovations, log_density, root, settle

MOST = 100_000  # steps of the Riccati recursion


@dataclasses.dataclass(frozen=True, eq=False)
class ContinuousARMA:
    """X^(p) + a_(p-1) X^(p-1) + ... + a_0 X = b_0 Z + b_1 Z' + ... + b_q Z^(q), Z white noise of unit
    spectral density, q < p (B.2, B.53).

    ar: a_0 ... a_(p-1). ma: b_0 ... b_q. An AR(p) has p - 1 derivatives in mean square. `ContinuousARMA([a])`
    is the Ornstein-Uhlenbeck process; the coefficients of (z + alpha)^p give the Matern process of order p -
    1/2 (B.30).

    >>> process = ContinuousARMA([2.0, 3.0])
    >>> process.covariance([0.0, 0.5])
    array([0.08333333, 0.07043182])
    """

    ar: np.ndarray
    ma: np.ndarray = dataclasses.field(default_factory=lambda: np.ones(1))

    def __post_init__(self):
        settle(self)
        if self.ma.size > self.ar.size:
            raise ValueError(
                f"a continuous ARMA(p, q) needs q < p to have a finite variance, got p = {self.ar.size} "
                f"and q = {self.ma.size - 1}."
            )

    @classmethod
    def matern(cls, alpha: float, p: int, b: float = 1.0) -> ContinuousARMA:
        """The process of spectral density b^2 / (4 pi^2 s^2 + alpha^2)^p (B.30): Matern, nu = p - 1/2,
        length-scale sqrt(2 nu) / alpha.
        """
        return cls(np.poly(np.full(p, -float(alpha)))[:0:-1], np.array([b]))

    def roots(self) -> np.ndarray:
        """The roots of a_0 + a_1 z + ... + z^p (complex):
        in the left half plane if the process is stationary.
        """
        return np.roots([1.0, *self.ar[::-1]])

    @property
    def stationary(self) -> bool:
        """Whether the process has a stationary solution."""
        return bool(np.all(self.roots().real < 0.0))

    def spectrum(self, s: ArrayLike) -> np.ndarray:
        """S(s) = |B(2 pi i s)|^2 / |A(2 pi i s)|^2 (B.26); its integral over the line is the variance."""
        z = 2j * np.pi * np.asarray(s, float)
        return np.abs(np.polyval(self.ma[::-1], z)) ** 2 / np.abs(np.polyval([1.0, *self.ar[::-1]], z)) ** 2

    def covariance(self, t: ArrayLike) -> np.ndarray:
        """k(t) at lags t of any sign (B.29, B.30)."""
        return self._scaled.covariance(np.abs(np.asarray(t, float)))

    def on_circle(self, t: ArrayLike, length: float) -> np.ndarray:
        """The covariance of the same equation on a circle of this length: k(t) wrapped,
        sum_m k(t + m l) (B.35-B.36 corrected).
        """
        if not length > 0:
            raise ValueError(f"length must be positive, got {length!r}.")
        angle, scaled = np.mod(np.asarray(t, float), length), self._scaled
        whole = np.linalg.inv(np.eye(self.ar.size) - expm(scaled.F * scaled.rate * length))
        start = whole @ scaled.Pi @ scaled.h
        return scaled.decay(angle, start) + scaled.decay(length - angle, start)

    def sampled(self, h: float) -> ARMA:
        """The discrete process that this one is when observed at times h apart, exactly: an ARMA(p, p - 1)
        (theorem B.1).

        Only an Ornstein-Uhlenbeck process becomes an AR: the coefficient is exp(-a_0 h).
        """
        if not h > 0:
            raise ValueError(f"h must be positive, got {h!r}.")
        scaled = self._scaled
        Phi, Q = (step[0] for step in scaled.steps(np.array([h])))
        ar = -np.real(np.poly(np.exp(self.roots() * h)))[1:]
        P, last = scaled.Pi, np.inf
        # Kalman's filter in the long run: the innovations of its gain are the Z of the ARMA
        for _ in range(MOST):
            gain = P @ scaled.h
            S = scaled.h @ gain
            if abs(S - last) <= 1e-15 * S:
                break
            last, P = S, Phi @ (P - np.outer(gain, gain / S)) @ Phi.T + Q
        ma = np.real(np.poly(Phi - np.outer(Phi @ gain / S, scaled.h)))[: self.ar.size]
        return ARMA(ar, np.sqrt(S) * ma)

    def sample(self, t: ArrayLike, size: int = 1, seed: Any = None) -> np.ndarray:
        """`size` stationary paths at times t (n,), ascending: (size, n)."""
        t, scaled, rng = _times(t), self._scaled, np.random.default_rng(seed)
        Phi, Q = scaled.steps(np.diff(t))
        shape = (self.ar.size, size)
        x = root(scaled.Pi) @ rng.standard_normal(shape)
        out = [scaled.h @ x]
        for A, R in zip(Phi, root(Q), strict=True):
            x = A @ x + R @ rng.standard_normal(shape)
            out.append(scaled.h @ x)
        return np.stack(out, 1)

    def log_density(self, t: ArrayLike, x: ArrayLike, noise_variance: float = 0.0) -> float:
        """log p(x) for observations x (n,) at ascending times t (n,), exact in O(n);
        NaN says that a value is missing.
        """
        t, x, scaled = _times(t), np.asarray(x, float), self._scaled
        if x.shape != t.shape:
            raise ValueError(f"x must have one value for each of the {t.size} times, got shape {x.shape}.")
        Phi, Q = scaled.steps(np.diff(t, prepend=t[0]))
        return log_density(*innovations(Phi, Q, scaled.h, scaled.Pi, x, noise_variance)[:2])

    @functools.cached_property
    def _scaled(self) -> _Scaled:
        if not self.stationary:
            largest = self.roots().real.max()
            raise ValueError(
                f"the process is not stationary: a root has real part {largest:.6g}, and all must be "
                "negative."
            )
        return _Scaled(self.ar, self.ma)


class _Scaled:
    """dx = F x dtau + e_p dW, X = h . x, in the time tau = rate t in which the coefficients are at most
    one.
    """

    def __init__(self, ar: np.ndarray, ma: np.ndarray):
        p = ar.size
        self.rate = float(np.max(np.abs(ar) ** (1.0 / (p - np.arange(p)))))
        self.F = np.diag(np.ones(p - 1), 1)
        self.F[-1] = -ar / self.rate ** (p - np.arange(p))
        self.h = np.zeros(p)
        self.h[: ma.size] = ma * self.rate ** (np.arange(ma.size) - p + 0.5)
        self.noise = np.zeros((p, p))
        self.noise[-1, -1] = 1.0
        self.Pi = solve_continuous_lyapunov(self.F, -self.noise)

    def decay(self, t, start):
        """h . exp(F t) start."""
        return np.einsum("i,...ij,j->...", self.h, expm(self.F * (self.rate * t)[..., None, None]), start)

    def covariance(self, t):
        return self.decay(t, self.Pi @ self.h)

    def steps(self, gaps: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Phi and Q (n, p, p) over gaps (n,): by Van Loan's exponential where they are short,
        by what is missing from Pi else.
        """
        tau, p = self.rate * gaps, self.F.shape[0]
        Phi = expm(self.F * tau[:, None, None])
        Q = self.Pi - Phi @ self.Pi @ Phi.mT
        short = tau < 1.0
        both = np.block([[-self.F, self.noise], [np.zeros((p, p)), self.F.T]])
        Q[short] = Phi[short] @ expm(both * tau[short, None, None])[:, :p, p:]
        return Phi, 0.5 * (Q + Q.mT)


def _times(t) -> np.ndarray:
    t = np.asarray(t, float)
    if t.ndim != 1 or t.size == 0 or not np.isfinite(t).all() or np.any(np.diff(t) < 0):
        raise ValueError("t must be a vector of at least one finite time, in ascending order.")
    return t
