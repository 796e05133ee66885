"""The evidence of a kernel from its parts: sums, products and changes are put together on the host, and only
their parts are compiled.

A search tries hundreds of structures, made of a handful of parts. Compiled as a whole, as `solvers.Dense`
does, each of them would cost seconds; by parts, the hundredth costs nothing but its arithmetic. Cotangents go
the same way back: of a sum to each term, of a product to each factor times the others, of a change weighted
by its two sides.

Noise is Gaussian, or Student-t by the bound of each of its factors that is Gaussian in f,

    log t(r) >= log t(rho) - 1/2 w (r^2 - rho^2),     w = (dof + 1) / (dof scale^2 + rho^2),

at the rho that is best, rho^2 = E (y - f)^2: a lower bound of the evidence, stationary in rho.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.special import digamma, gammaln

from mercer.gp import Model
from mercer.kernels import AbstractKernel, ChangePoint, On, Product, Scale, Sum
from mercer.linalg import cholesky, lapack, tiles
from mercer.linalg.cholesky import NotPositiveDefinite
from mercer.params import flatten, named_leaves, strip
from mercer.progress import Deadline

LOG_2PI = float(np.log(2 * np.pi))
ROUNDS = 10  # of the bound's places, at most
SETTLED = 1e-3  # relative change of the precisions at which they are left
Pull = Callable[[np.ndarray], dict[str, np.ndarray]]


class Rows:
    """Inputs X (n, d), cut into tiles once for every choice of columns."""

    def __init__(self, X: np.ndarray):
        self.X = np.ascontiguousarray(X, float)
        self.on = functools.lru_cache(maxsize=256)(self._on)

    def _on(self, columns: tuple[int, ...]) -> Rows:
        return Rows(self.X[:, list(columns)])

    @functools.cached_property
    def panels(self) -> tiles.Panels:
        """The tiles."""
        return tiles.Panels(self.X, tiles.tile_size(len(self.X)))


@functools.singledispatch
def gram(kernel: AbstractKernel, rows: Rows) -> tuple[np.ndarray, Pull]:
    """The covariance (n, n) of a kernel that is bound to its columns, and what takes a symmetric cotangent of
    it (n, n) to those of the hyperparameters, by name.

    >>> K, pull = gram(kernels.SE(1.0) * kernels.Linear(2.0), Rows(X))
    """
    bare, n = strip(kernel), len(rows.X)
    K = np.empty((n, n))
    tiles.upper(bare, rows.panels, np.ones(n), K)

    def pull(bar: np.ndarray) -> dict[str, np.ndarray]:
        nothing = np.zeros((n, 1))
        found, _ = tiles.pull_symmetric(bare, rows.panels, 1.0, bar, np.ones(n), nothing, nothing)
        return dict(named_leaves(found))

    return lapack.symmetrise(K), pull


@gram.register
def _(kernel: Sum, rows: Rows) -> tuple[np.ndarray, Pull]:
    terms = [gram(term, rows) for term in kernel.terms]

    def pull(bar: np.ndarray) -> dict[str, np.ndarray]:
        return _named({f"terms.{i}": pull(bar) for i, (_, pull) in enumerate(terms)})

    return functools.reduce(np.add, [K for K, _ in terms]), pull


@gram.register
def _(kernel: Product, rows: Rows) -> tuple[np.ndarray, Pull]:
    factors = [gram(factor, rows) for factor in kernel.factors]

    def others(i: int) -> np.ndarray:
        return functools.reduce(np.multiply, [K for j, (K, _) in enumerate(factors) if j != i])

    def pull(bar: np.ndarray) -> dict[str, np.ndarray]:
        return _named({f"factors.{i}": pull(bar * others(i)) for i, (_, pull) in enumerate(factors)})

    return functools.reduce(np.multiply, [K for K, _ in factors]), pull


@gram.register
def _(kernel: Scale, rows: Rows) -> tuple[np.ndarray, Pull]:
    K, inner = gram(kernel.kernel, rows)
    variance = float(kernel.variance)

    def pull(bar: np.ndarray) -> dict[str, np.ndarray]:
        return {"variance": np.asarray(np.sum(bar * K)), **_named({"kernel": inner(variance * bar)})}

    return variance * K, pull


@gram.register
def _(kernel: On, rows: Rows) -> tuple[np.ndarray, Pull]:
    K, pull = gram(kernel.kernel, rows.on(tuple(int(c) for c in kernel.columns)))
    return K, lambda bar: _named({"kernel": pull(bar)})


@gram.register
def _(kernel: ChangePoint, rows: Rows) -> tuple[np.ndarray, Pull]:
    sides = [gram(side, rows) for side in (kernel.before, kernel.after)]
    away = rows.X[:, int(kernel.column)] - float(kernel.location)
    steepness = float(kernel.steepness)
    after = 1.0 / (1.0 + np.exp(-np.clip(steepness * away, -700, 700)))
    gates = [1.0 - after, after]

    def pull(bar: np.ndarray) -> dict[str, np.ndarray]:
        found = {}
        slope = np.zeros_like(after)  # of the objective in the second gate
        for name, sign, gate, (K, inner) in zip(("before", "after"), (-1.0, 1.0), gates, sides, strict=True):
            found[name] = inner(bar * gate[:, None] * gate[None, :])
            slope += sign * 2.0 * ((bar * K) @ gate)
        along = slope * after * (1.0 - after)
        own = {"location": -steepness * np.sum(along), "steepness": np.sum(along * away)}
        return _named(found) | {name: np.asarray(value) for name, value in own.items()}

    K = sum(gate[:, None] * gate[None, :] * K for gate, (K, _) in zip(gates, sides, strict=True))
    return K, pull


def _named(found: dict[str, dict[str, np.ndarray]]) -> dict[str, np.ndarray]:
    return {f"{part}.{name}": bar for part, bars in found.items() for name, bar in bars.items()}


# ----------------------------------------------------------------------------------------------- the evidence


class Noise(NamedTuple):
    """What noise says of residuals (n,): precisions of its Gaussian sites, the log of what multiplies these
    sites, and derivatives of the latter by name, the precisions' part within them.
    """

    precision: np.ndarray
    rest: float
    slopes: Callable[[np.ndarray], dict[str, np.ndarray]]


class Solved(NamedTuple):
    """R = (K + 1/W)^-1, alpha = R (y - m), and the log density of y under the Gaussian sites."""

    R: np.ndarray
    alpha: np.ndarray
    log_normaliser: float


def solved(K: np.ndarray, precision: np.ndarray, residual: np.ndarray) -> Solved:
    """Of residuals (n,) whose prior covariance is K (n, n)."""

    def fill(buffer: np.ndarray) -> None:
        np.copyto(buffer, K)
        np.einsum("ii->i", buffer)[:] += 1.0 / precision

    R = np.empty_like(K)
    cholesky.factor(fill, R)
    logdet = 2.0 * float(np.sum(np.log(np.diagonal(R))))
    cholesky.invert(R)
    lapack.symmetrise(R)
    alpha = R @ residual
    value = -0.5 * float(residual @ alpha) - 0.5 * logdet - 0.5 * len(residual) * LOG_2PI
    return Solved(R, alpha, value)


@dataclasses.dataclass(eq=False)
class Problem:
    """Log evidence and log prior of a model as a function of its free hyperparameters, by parts; what
    `learning.climb.maximise` climbs.

    model: one GP with a fixed mean and Gaussian or Student-t noise, bound to the columns
    """

    model: Model
    rows: Rows
    y: np.ndarray
    deadline: Deadline | None = None

    def __post_init__(self) -> None:
        self.flat = flatten(self.model)
        self.residual = self.y - np.asarray(self.model.gp.mean.value(self.rows.X), float)
        self.places: np.ndarray | None = None  # rho^2, from the last evaluation on

    size = property(lambda self: len(self.y))
    smooth = True

    def solve(self, model: Model) -> tuple[Solved, Noise, Pull]:
        """The algebra at the values of a model."""
        K, pull = gram(model.gp.kernel, self.rows)
        settings = {p: np.asarray(value, float) for p, value in named_leaves(strip(model.likelihood))}
        if "noise_variance" in settings:
            noise = gaussian(float(settings["noise_variance"]), len(self.y))
            return solved(K, noise.precision, self.residual), noise, pull
        for _ in range(ROUNDS):
            squares = self.residual**2 if self.places is None else self.places
            noise = student_t(float(settings["scale"]), float(settings["dof"]), squares)
            found = solved(K, noise.precision, self.residual)
            W = noise.precision
            variance = (1.0 - np.diagonal(found.R) / W) / W
            self.places = (found.alpha / W) ** 2 + np.maximum(variance, 0.0)
            after = student_t(float(settings["scale"]), float(settings["dof"]), self.places).precision
            if np.max(np.abs(np.log(after / W))) < SETTLED:
                break
        return found, noise, pull

    def value(self) -> float:
        """Log evidence plus log prior at the values of the model."""
        try:
            with np.errstate(all="ignore"):
                found, noise, _ = self.solve(self.model)
        except NotPositiveDefinite:
            return -np.inf
        total = found.log_normaliser + noise.rest + self.flat.log_prior(self.flat.vector)[0]
        return float(total) if np.isfinite(total) else -np.inf

    def value_and_gradient(self, vector: np.ndarray) -> tuple[float, np.ndarray, float]:
        """Log evidence plus log prior, its gradient (p,), and the log evidence alone."""
        if self.deadline is not None:
            self.deadline.check()
        failed = (-np.inf, np.zeros_like(vector), -np.inf)
        if not self.flat.within_reach(vector):
            return failed
        try:
            with np.errstate(all="ignore"):
                found, noise, pull = self.solve(self.flat.unflatten(vector))
                bars = pull(0.5 * (np.outer(found.alpha, found.alpha) - found.R))
        except NotPositiveDefinite:
            return failed
        W_bar = 0.5 * (np.diagonal(found.R) - found.alpha**2) / noise.precision**2
        by_name = {f"kernel.{name}": bar for name, bar in bars.items()}
        by_name |= {f"likelihood.{name}": bar for name, bar in noise.slopes(W_bar).items()}
        evidence = found.log_normaliser + noise.rest
        prior, slope = self.flat.log_prior(vector)
        gradient = self.flat.pull(by_name, vector) + slope
        if not np.isfinite(evidence + prior) or not np.isfinite(gradient).all():
            return failed
        return evidence + prior, gradient, evidence


def gaussian(variance: float, n: int) -> Noise:
    """One variance for all rows."""

    def slopes(W_bar: np.ndarray) -> dict[str, np.ndarray]:
        return {"noise_variance": np.asarray(-np.sum(W_bar) / variance**2)}

    return Noise(np.full(n, 1.0 / variance), 0.0, slopes)


def student_t(scale: float, dof: float, squares: np.ndarray) -> Noise:
    """The bound at places whose squares are given (n,)."""
    spread = dof * scale**2 + squares
    W = (dof + 1.0) / spread
    log_t = gammaln(0.5 * (dof + 1)) - gammaln(0.5 * dof) - 0.5 * np.log(np.pi * dof) - np.log(scale)
    log_t = log_t - 0.5 * (dof + 1) * np.log1p(squares / (dof * scale**2))
    rest = float(np.sum(log_t + 0.5 * W * squares + 0.5 * LOG_2PI - 0.5 * np.log(W)))

    def slopes(W_bar: np.ndarray) -> dict[str, np.ndarray]:
        by_W = W_bar + 0.5 * squares - 0.5 / W
        ratio = squares / spread
        by_scale = -1.0 / scale + (dof + 1) * ratio / scale + by_W * (-2.0 * dof * scale * W / spread)
        by_dof = 0.5 * (digamma(0.5 * (dof + 1)) - digamma(0.5 * dof) - 1.0 / dof)
        by_dof = by_dof - 0.5 * np.log1p(squares / (dof * scale**2)) + 0.5 * (dof + 1) * ratio / dof
        by_dof = by_dof + by_W * (1.0 / spread - W * scale**2 / spread)
        return {"scale": np.asarray(np.sum(by_scale)), "dof": np.asarray(np.sum(by_dof))}

    return Noise(W, rest, slopes)
