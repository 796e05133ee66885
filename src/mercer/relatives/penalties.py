"""Penalties of derivatives, and the kernels that belong to them (GPML 6.2.1 and 6.2.2): a penalty is the
logarithm of a prior, and its Green's function the covariance of that prior.
"""

from __future__ import annotations

import dataclasses
import itertools
import math

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from scipy.integrate import quad
from scipy.signal import residue
from scipy.special import kv

from mercer.kernels import AbstractKernel, ContinuousAR, Matern
from mercer.kernels.spectral.hankel import hankel
from mercer.relatives.checks import Array

EXACT = 1e-9  # to which partial fractions must be the spectrum
NEAR = 1e-2  # distance, over the shortest length of the kernel, below which closed terms cancel


@dataclasses.dataclass(frozen=True, eq=False)
class Penalty:
    """|P f|^2 = sum_m a_m |O^m f|^2 of functions of d inputs: a_0 times the integral of f^2, a_1 times that
    of the squared gradient, a_2 times that of all squared second derivatives ... (6.12).

    coefficients: a_0 ... a_M, not negative; a_0 and a_M positive. 2 M must exceed d, or functions of finite
        penalty need not be continuous. With a_0 = 0 some functions cost nothing: `ThinPlate`

    The prior exp(-|P f|^2 / 2) is a GP with the spectral density 1 / sum_m a_m (2 pi |s|)^(2 m) (6.13). Its
    covariance is the Green's function of the equation sum_m (-1)^m a_m laplacian^m G = delta (6.16).

    >>> Penalty([4.0, 1.0]).kernel()                     # exp(-2 r) / 4
    >>> Penalty([1.0, 2.0, 1.0], d=2).green([0.0, 0.5])
    """

    coefficients: Array
    d: int = 1

    def __post_init__(self) -> None:
        a = np.asarray(self.coefficients, float)
        object.__setattr__(self, "coefficients", a)
        if a.ndim != 1 or a.size < 2 or not (np.isfinite(a).all() and (a >= 0).all()):
            raise ValueError(f"coefficients must be two or more numbers, not negative; got {a.tolist()}.")
        if not (a[0] > 0 and a[-1] > 0):
            raise ValueError(
                "the first and the last coefficient must be positive: without a_0 use ThinPlate."
            )
        if not (self.d >= 1 and 2 * (a.size - 1) > self.d):
            raise ValueError(
                f"derivatives of order {a.size - 1} do not make functions of {self.d} inputs continuous: "
                f"penalise order {self.d // 2 + 1} or higher."
            )

    @classmethod
    def gaussian(cls, lengthscale: float, orders: int, d: int = 1) -> Penalty:
        """a_m = lengthscale^(2 m) / (m! 2^m) up to m = orders: as orders grow, the kernel becomes an SE with
        variance (2 pi lengthscale^2)^(-d / 2) (6.17, 6.18).
        """
        m = np.arange(orders + 1)
        return cls(np.array([lengthscale ** (2 * i) / (math.factorial(i) * 2.0**i) for i in m]), d)

    def spectrum(self, s: ArrayLike) -> Array:
        """The spectral density at frequencies |s|, in cycles per unit (6.13)."""
        x = (2 * np.pi * np.asarray(s, float)) ** 2
        return np.asarray(1.0 / np.polyval(self.coefficients[::-1], x), np.float64)

    def green(self, r: ArrayLike) -> Array:
        """The covariance at distances r: a sum of Bessel functions, one for each root of the polynomial; near
        zero, where these cancel, by a Hankel transform of the spectrum (6.14).
        """
        distance = np.abs(np.asarray(r, float))
        out = np.array([self._at(x) for x in distance.ravel()])
        return out.reshape(distance.shape)

    def covariance(self, A: ArrayLike, B: ArrayLike | None = None) -> Array:
        """The covariances (n, m) of rows of A (n, d) and B (m, d), for penalties without a kernel in closed
        form; with `kernels.Precomputed` they serve as one.
        """
        a = np.asarray(A, float)
        b = a if B is None else np.asarray(B, float)
        if a.shape[1:] != (self.d,) or b.shape[1:] != (self.d,):
            raise ValueError(f"inputs must have {self.d} columns, got shapes {a.shape} and {b.shape}.")
        r = np.sqrt(((a[:, None] - b[None]) ** 2).sum(-1))
        each, place = np.unique(np.round(r, 12), return_inverse=True)
        return self.green(each)[place].reshape(r.shape)

    def kernel(self) -> AbstractKernel:
        """The kernel, where it is one of `mercer.kernels`: of one input always, a `ContinuousAR`; of several
        where the polynomial is a power, a_M (4 pi^2 s^2 + alpha^2)^M, a `Matern` of order M - d / 2 (B.30).
        """
        a, M = self.coefficients, len(self.coefficients) - 1
        alpha2 = a[M - 1] / (M * a[M])
        power = np.array([a[M] * math.comb(M, m) * alpha2 ** (M - m) for m in range(M + 1)])
        variance = float(self.green(0.0))
        if np.allclose(a, power, rtol=1e-10, atol=0.0):
            nu = M - self.d / 2
            return Matern(math.sqrt(2 * nu / alpha2), variance, nu=nu)
        if self.d == 1:
            equation = np.poly(-self._rates()).real[:0:-1]
            return ContinuousAR.from_equation(equation, variance)
        raise ValueError(
            f"of {self.d} inputs these coefficients have no kernel in closed form: use green(r) or "
            "covariance(A, B)."
        )

    def _rates(self) -> np.ndarray:
        """The beta (M,), with positive real parts, of the factors 4 pi^2 s^2 + beta^2 of the polynomial."""
        return np.sqrt(-np.roots(self.coefficients[::-1]).astype(complex))

    def _at(self, r: float) -> float:
        rates, fractions = self._rates(), self._fractions()
        if r == 0.0:
            return self._variance()
        if fractions is None or r * np.max(np.abs(rates)) < NEAR:
            return float(hankel(self.spectrum, r, self.d, float(np.min(np.abs(rates))) / (2 * np.pi)))
        total = 0j
        for weight, root, order in fractions:
            beta, nu = np.sqrt(-root), order - self.d / 2
            scale = (2 * np.pi) ** (-self.d / 2) * 2.0 ** (1 - order) / math.gamma(order)
            total += weight * scale * (r / beta) ** nu * kv(nu, beta * r)
        return float(total.real)

    def _fractions(self) -> list[tuple[complex, complex, int]] | None:
        """The spectrum as a sum of weight / (x - root)^order, x = 4 pi^2 s^2; roots that rounding has moved
        apart are joined. None where they are too near each other for that and for being told apart.
        """
        x = np.max(np.abs(self._rates())) ** 2 * np.linspace(0.0, 3.0, 7)
        true = 1.0 / np.polyval(self.coefficients[::-1], x)
        for joined in (1e-6, 1e-4, 1e-3, 1e-2):
            weights, roots, _ = residue([1.0], self.coefficients[::-1], tol=joined * abs(x[-1]))
            found: list[tuple[complex, complex, int]] = []
            for weight, root in zip(weights, roots, strict=True):
                order = found[-1][2] + 1 if found and found[-1][1] == root else 1
                found.append((complex(weight), complex(root), order))
            terms = np.array([w / (x - root) ** order for w, root, order in found])
            if np.max(np.abs(terms.sum(0) - true)) < EXACT * np.min(true) and np.max(
                np.abs(terms)
            ) < 1e4 * np.max(true):
                return found
        return None

    def _variance(self) -> float:
        """The integral of the spectrum over all frequencies."""
        surface = 2 * np.pi ** (self.d / 2) / math.gamma(self.d / 2)
        unit = float(np.max(np.abs(self._rates()))) / (2 * np.pi)

        def inner(t: float) -> float:  # s = unit t / (1 - t)
            s = unit * t / (1 - t)
            return float(s ** (self.d - 1) * self.spectrum(s)) * unit / (1 - t) ** 2

        return surface * quad(inner, 0.0, 1.0, epsabs=0.0, epsrel=1e-11, limit=400)[0]


def grid_precision(penalty: Penalty, shape: int | tuple[int, ...], spacing: float) -> sparse.csc_matrix:
    """The matrix P (N, N) with f' P f = |P f|^2 for values f (N,) of a function on a grid, derivatives taken
    as differences: sum_m a_m D_m' D_m, times the volume of a cell (6.21).

    shape: the number of places along each of the d inputs; f has the last index fastest. spacing: between
    neighbours

    f is then a Gaussian Markov random field with this precision: its covariance, the inverse, becomes
    `penalty.green` as the spacing falls, away from the edges, where derivatives are free.

    >>> P = grid_precision(Penalty([1.0, 1.0]), 200, 0.05)
    >>> P.shape
    (200, 200)
    """
    sides = (shape,) if isinstance(shape, int) else tuple(shape)
    orders = len(penalty.coefficients)
    if len(sides) != penalty.d or min(sides) < orders:
        raise ValueError(f"the grid must have {penalty.d} sides of {orders} places or more, got {shape!r}.")
    total = sparse.csc_matrix((math.prod(sides),) * 2)
    for m, a in enumerate(penalty.coefficients):
        for along in itertools.product(range(m + 1), repeat=penalty.d):
            if a == 0.0 or sum(along) != m:
                continue
            times = math.factorial(m) / math.prod(math.factorial(j) for j in along)
            product = sparse.identity(1)
            for n, j in zip(sides, along, strict=True):
                D = _difference(n, j, spacing)
                product = sparse.kron(product, D.T @ D)
            total = total + a * times * product
    return sparse.csc_matrix(total * spacing**penalty.d)


def _difference(n: int, order: int, spacing: float) -> sparse.csc_matrix:
    """The derivative of this order by differences, (n - order, n)."""
    signs = [(-1.0) ** (order - i) * math.comb(order, i) / spacing**order for i in range(order + 1)]
    return sparse.csc_matrix(sparse.diags(signs, list(range(order + 1)), shape=(n - order, n)))
