"""Bayes' rule by quadrature for models with up to three parameters (Kuss 2.1-2.6), and changes of scale.

>>> posterior = grid_posterior(
...     lambda mu, sigma: norm.logpdf(y, mu, sigma).sum(),
...     lambda mu, sigma: norm.logpdf(mu, 0, 10) + expon.logpdf(sigma),
...     bounds={"mu": (-5, 5), "sigma": (0, 8)}, support={"sigma": (0, np.inf)}, proper=True)
>>> posterior.mode, posterior.mean, posterior.log_evidence
>>> optimal_prediction(posterior.marginal("sigma"), "absolute").guess
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.polynomial import legendre
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import brentq, minimize
from scipy.special import expit, logit, logsumexp

from mercer.decide.loss import AbstractPredictive, minimise, panel

Array = NDArray[np.float64]
LogDensity = Callable[..., Any]


def grid_posterior(
    log_likelihood: LogDensity,
    log_prior: LogDensity | None,
    bounds: Mapping[str, tuple[float, float]],
    *,
    support: Mapping[str, tuple[float, float]] | None = None,
    proper: bool | None = None,
    points: int | None = None,
    vectorised: bool = False,
) -> GridPosterior:
    """Posterior of one to three parameters on a grid of Gauss-Legendre nodes; both densities should be smooth
    there.

    `log_likelihood` and `log_prior` take the parameters in the order of `bounds` (single numbers; arrays of
    equal shape if `vectorised`). `log_prior=None` is the constant, improper prior. `bounds` encloses the
    posterior; where a bound is the end of a parameter's own range, say so in `support`, and the density may
    end there abruptly. `points` is the number of nodes for each parameter (default 200, 80 or 40 for one, two
    or three).

    `proper` concerns the evidence only: by default the prior is required to integrate to one within the
    bounds; with True you vouch that it does so over its whole range, and the bounds may hold a part of it.
    """
    if not 1 <= len(bounds) <= 3:
        raise ValueError(
            f"A grid serves one to three parameters; got {len(bounds)}: use theory.sampled_posterior."
        )
    for name, (low, high) in bounds.items():
        if not (np.isfinite(low) and np.isfinite(high) and low < high):
            raise ValueError(f"bounds[{name!r}] must be finite and ascending; got {(low, high)}.")
    if stray := set(support or {}) - set(bounds):
        raise ValueError(
            f"support names {stray.pop()!r}, which is not among the parameters {', '.join(bounds)}."
        )
    count = points or (200, 80, 40)[len(bounds) - 1]
    node, weight = legendre.leggauss(count)
    rules = [
        panel(node, weight, np.asarray(low, float), np.asarray(high, float)) for low, high in bounds.values()
    ]
    mesh = np.meshgrid(*(nodes for nodes, _ in rules), indexing="ij")
    log_weight = sum(np.meshgrid(*(np.log(w) for _, w in rules), indexing="ij"))
    flat = log_prior is None
    prior: LogDensity = (lambda *parameters: 0.0 * parameters[0]) if log_prior is None else log_prior
    posterior = GridPosterior(
        names=tuple(bounds),
        bounds={name: (float(low), float(high)) for name, (low, high) in bounds.items()},
        support=dict(support or {}),
        proper=False if flat else proper,
        nodes=tuple(nodes for nodes, _ in rules),
        log_weight=np.asarray(log_weight),
        grid_log_likelihood=_on_grid("log_likelihood", log_likelihood, mesh, vectorised),
        grid_log_prior=_on_grid("log_prior", prior, mesh, vectorised),
        log_joint=lambda *parameters: (
            np.asarray(log_likelihood(*parameters)) + np.asarray(prior(*parameters))
        ),
    )
    posterior._check_resolution()
    for name, side, ratio in posterior._cut_off:
        warnings.warn(
            f"The posterior of {name!r} is still {ratio:.2g} of its peak at the {side} bound: widen "
            f"bounds[{name!r}], "
            f"or state in support that its range ends there. The result is the posterior given the bounds.",
            stacklevel=2,
        )
    return posterior


@dataclass(frozen=True, eq=False, repr=False)
class GridPosterior:
    """A posterior on a grid; made by `grid_posterior`.
    `log_posterior` is the normalised log density at the nodes.
    """

    names: tuple[str, ...]
    bounds: Mapping[str, tuple[float, float]]
    support: Mapping[str, tuple[float, float]]
    proper: bool | None
    nodes: tuple[Array, ...]
    log_weight: Array
    grid_log_likelihood: Array
    grid_log_prior: Array
    log_joint: LogDensity

    def __repr__(self) -> str:
        estimates = ", ".join(
            f"{n} = {m:.4g} ± {self.marginal(n).variance[0] ** 0.5:.2g}" for n, m in self.mean.items()
        )
        return f"GridPosterior({estimates})"

    @cached_property
    def _log_total(self) -> float:
        total = logsumexp(self.grid_log_likelihood + self.grid_log_prior + self.log_weight)
        if not np.isfinite(total):
            raise ValueError(
                "The posterior is zero everywhere within the bounds: log-likelihood + log-prior is -inf."
            )
        return float(total)

    @cached_property
    def log_posterior(self) -> Array:
        """Log density of the posterior at every node of the grid."""
        return self.grid_log_likelihood + self.grid_log_prior - self._log_total

    def log_density(self, *parameters: ArrayLike) -> Array:
        """Normalised log posterior density at any parameters, in the order of `names`."""
        return self.log_joint(*parameters) - self._log_total

    @cached_property
    def _mass(self) -> Array:
        return np.exp(self.log_posterior + self.log_weight)

    @cached_property
    def log_evidence(self) -> float:
        """log p(D), the log of the integral of likelihood times prior (2.2);
        refused when the prior is improper.
        """
        if self.proper is False:
            raise ValueError(
                "The evidence is undefined: the prior is improper. Give a prior that integrates to one."
            )
        inside = float(np.exp(logsumexp(self.grid_log_prior + self.log_weight)))
        if inside > 1.001:
            raise ValueError(
                f"The evidence is undefined: the prior integrates to {inside:.4g} within the bounds, so it "
                "is improper "
                "or not normalised. Include its normalising constant in log_prior."
            )
        if inside < 0.999 and not self.proper:
            raise ValueError(
                f"The prior integrates to {inside:.4g} within the bounds. If it is a normalised density of "
                "which the "
                "bounds hold only a part, pass proper=True; otherwise there is no evidence."
            )
        if self._cut_off:
            name, side, _ = self._cut_off[0]
            raise ValueError(
                f"The evidence is incomplete: the posterior of {name!r} is cut off at the {side} bound."
            )
        return self._log_total

    @cached_property
    def mode(self) -> dict[str, float]:
        """The MAP estimate: the peak of the joint density, refined from the best node."""
        index = np.unravel_index(np.argmax(self.log_posterior), self.log_posterior.shape)
        start = np.array([nodes[i] for nodes, i in zip(self.nodes, index, strict=True)])
        low, high = np.array([self.bounds[name] for name in self.names]).T

        def inside(x: Array) -> float:
            return float(self.log_joint(*x)) if np.all((low <= x) & (x <= high)) else -np.inf

        best = _maximise(inside, start, np.array([np.ptp(nodes) / len(nodes) for nodes in self.nodes]))
        return dict(zip(self.names, best.tolist(), strict=True))

    @cached_property
    def mean(self) -> dict[str, float]:
        """Posterior mean of every parameter."""
        return {name: float(self.marginal(name).mean[0]) for name in self.names}

    @cached_property
    def covariance(self) -> Array:
        """Posterior covariance of the parameters, in the order of `names`."""
        deviation = np.meshgrid(
            *(n - self.mean[k] for n, k in zip(self.nodes, self.names, strict=True)), indexing="ij"
        )
        return np.array([[np.sum(self._mass * a * b) for b in deviation] for a in deviation])

    def marginal(self, name: str) -> Density:
        """The posterior of one parameter: mean, variance, quantiles;
        also the input of `optimal_prediction`.
        """
        if name not in self.names:
            raise ValueError(f"There is no parameter {name!r}; there are {', '.join(self.names)}.")
        axis = self.names.index(name)
        others = tuple(i for i in range(len(self.names)) if i != axis)
        return Density(*self.bounds[name], self._mass.sum(axis=others))

    @cached_property
    def _cut_off(self) -> list[tuple[str, str, float]]:
        """(parameter, side, density relative to its peak) of bounds where the posterior does not end by
        itself.
        """
        found = []
        for name in self.names:
            marginal, ends = self.marginal(name), self.support.get(name, (-np.inf, np.inf))
            height = np.abs(marginal.heights) / marginal.heights.max()
            for side, i in (("lower", 0), ("upper", -1)):
                if height[i] > 1e-4 and self.bounds[name][i] != ends[i]:
                    found.append((name, side, float(height[i])))
        return found

    def _check_resolution(self) -> None:
        for name, nodes in zip(self.names, self.nodes, strict=True):
            marginal = self.marginal(name)
            effective = 1 / np.sum(marginal.mass**2)
            if effective < 3:
                best, step = float(nodes[np.argmax(marginal.mass)]), float(np.diff(nodes).max())
                raise ValueError(
                    f"The grid is too coarse for {name!r}: its posterior falls on {effective:.1f} of "
                    f"{len(nodes)} "
                    f"nodes. Narrow bounds[{name!r}] around {best:.4g} (nodes are {step:.2g} apart) or "
                    "raise points."
                )


class Density(AbstractPredictive):
    """Distribution of one number in [lower, upper], from its probability mass at the Gauss-Legendre nodes
    there.

    The density is the polynomial through the nodes: smooth densities get accurate quantiles from few nodes.
    """

    def __init__(self, lower: float, upper: float, mass: ArrayLike):
        self.lower, self.upper = float(lower), float(upper)
        self.mass = np.asarray(mass, dtype=np.float64)
        node, weight = self._rule = legendre.leggauss(len(self.mass))
        self.values, self._half = (lower + upper) / 2 + (upper - lower) / 2 * node, (upper - lower) / 2
        self.heights = self.mass / (weight * self._half)
        degree = np.arange(len(node))
        self._series = (2 * degree + 1) / 2 * (legendre.legvander(node, len(node) - 1).T @ self.mass)
        self._integral = legendre.legint(self._series, lbnd=-1)

    def _unit(self, y: ArrayLike) -> Array:
        return np.clip((np.asarray(y) - self.lower) / self._half - 1, -1, 1)

    def density(self, y: ArrayLike) -> Array:
        """Density at y, elementwise."""
        return np.asarray(legendre.legval(self._unit(y), self._series) / self._half, dtype=np.float64)

    def cdf(self, y: ArrayLike) -> Array:
        """Distribution function at y, elementwise."""
        return np.asarray(legendre.legval(self._unit(y), self._integral), dtype=np.float64)

    @property
    def mean(self) -> Array:
        """Mean, (1,)."""
        return np.array([self.mass @ self.values])

    @property
    def variance(self) -> Array:
        """Variance, (1,)."""
        return np.array([self.mass @ (self.values - self.mean) ** 2])

    def quantile(self, q: float) -> Array:
        root = brentq(lambda u: legendre.legval(u, self._integral) - q, -1, 1, xtol=1e-15)
        return np.array([self.lower + self._half * (1 + root)])

    def excess(self, g: Array) -> Array:
        y, w = self.nodes(np.asarray(g), smooth=False)
        return np.sum(w * np.maximum(y - g, 0), axis=0)

    def log_mgf(self, t: float) -> Array:
        return np.array([logsumexp(t * self.values, b=self.mass)])

    def probability(self, lower: Array, upper: Array) -> Array:
        return self.cdf(upper) - self.cdf(lower)

    def mode(self, width: float) -> Array:
        height = self.density if width == 0 else lambda g: self.probability(g - width, g + width)
        return minimise(lambda g: -height(g), self.search_points(), at_ends=True)

    def nodes(self, g: Array, smooth: bool) -> tuple[Array, Array]:
        if smooth:
            return self.values[:, None], self.mass[:, None]
        t, w = self._rule
        cut = np.clip(g, self.lower, self.upper)
        panels = [
            panel(t, w, np.full_like(cut, self.lower), cut),
            panel(t, w, cut, np.full_like(cut, self.upper)),
        ]
        y, w = (np.concatenate(part) for part in zip(*panels, strict=True))
        return y, w * self.density(y)

    def search_points(self) -> Array:
        return np.concatenate([[self.lower], self.values, [self.upper]])[:, None]


def to_unconstrained(log_density: LogDensity, transforms: Sequence[str], jacobian: bool = True) -> LogDensity:
    """The log density of ξ = h(φ), given that of φ (Kuss 2.6): log p(h⁻¹(ξ)) + log |∂h⁻¹/∂ξ|.

    `transforms` says "identity", "log" (φ > 0) or "logit" (0 < φ < 1) for each argument. With
    `jacobian=False` the same function is only expressed in ξ: right for likelihoods, which are not densities
    of φ.

        >>> to_unconstrained(gamma(3).logpdf, ["log"])(0.5)
    """
    maps = _transforms(transforms)

    def transformed(*xi: ArrayLike) -> ArrayLike:
        phi = [t.inverse(x) for t, x in zip(maps, xi, strict=True)]
        correction = sum(t.log_slope(x) for t, x in zip(maps, xi, strict=True)) if jacobian else 0.0
        return np.asarray(log_density(*phi)) + correction

    return transformed


def to_constrained(log_density: LogDensity, transforms: Sequence[str], jacobian: bool = True) -> LogDensity:
    """The way back: the log density of φ given that of ξ = h(φ), log p(h(φ)) + log |∂h/∂φ|."""
    maps = _transforms(transforms)

    def transformed(*phi: ArrayLike) -> ArrayLike:
        xi = [t.forward(p) for t, p in zip(maps, phi, strict=True)]
        correction = sum(t.log_slope(x) for t, x in zip(maps, xi, strict=True)) if jacobian else 0.0
        return np.asarray(log_density(*xi)) - correction

    return transformed


def map_estimate(
    log_density: LogDensity, start: Sequence[float], transforms: Sequence[str], jacobian: bool = False
) -> Array:
    """The peak of a density of φ, searched on the unconstrained scale and given in units of φ.

    `jacobian=False` finds the peak of the density of φ itself, `jacobian=True` that of the density of ξ =
    h(φ), which is another point: a MAP estimate depends on its scale. A maximum of the likelihood
    (`jacobian=False`) does not.
    """
    maps = _transforms(transforms)
    objective = to_unconstrained(log_density, transforms, jacobian)
    xi = np.array([t.forward(p) for t, p in zip(maps, start, strict=True)])
    if not np.isfinite(xi).all():
        raise ValueError(
            f"start {tuple(start)} is not inside the range of the transforms {tuple(transforms)}."
        )
    best = _maximise(lambda x: float(objective(*x)), xi, np.full(len(xi), 0.1))
    return np.array([t.inverse(x) for t, x in zip(maps, best, strict=True)])


@dataclass(frozen=True)
class _Transform:
    forward: Callable[[ArrayLike], Array]
    inverse: Callable[[ArrayLike], Array]
    log_slope: Callable[[ArrayLike], Array]  # log |dφ/dξ| as a function of ξ


def _quiet_log(phi: ArrayLike) -> Array:
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.log(phi)


_TRANSFORMS = {
    "identity": _Transform(np.asarray, np.asarray, lambda xi: np.zeros(np.shape(xi))),
    "log": _Transform(_quiet_log, np.exp, np.asarray),
    "logit": _Transform(logit, expit, lambda xi: -np.logaddexp(0, xi) - np.logaddexp(0, np.negative(xi))),
}


def _transforms(names: Sequence[str]) -> list[_Transform]:
    if unknown := [name for name in names if name not in _TRANSFORMS]:
        raise ValueError(f"Unknown transform {unknown[0]!r}; use one of {', '.join(_TRANSFORMS)}.")
    return [_TRANSFORMS[name] for name in names]


def _maximise(f: Callable[[Array], float], start: Array, step: Array) -> Array:
    """Nelder-Mead in units of `step`, started anew once so that a flattened simplex is no end."""
    if not np.isfinite(f(start)):
        raise ValueError(f"The density is zero or undefined at the starting point {start.tolist()}.")
    u = np.zeros(len(start))
    for _ in range(2):
        options = {"initial_simplex": np.vstack([u, u + np.eye(len(u))]), "xatol": 1e-9, "fatol": 1e-13}
        with np.errstate(over="ignore", invalid="ignore"):
            result = minimize(
                lambda v: -f(start + step * v), u, method="Nelder-Mead", options=options | _PATIENCE
            )
        u = result.x
    if not result.success or np.any(np.abs(u) > 1e6):
        raise ValueError(
            f"No peak was found: the search ended at {(start + step * u).tolist()}. Is the density bounded?"
        )
    return start + step * u


_PATIENCE = {"maxiter": 4000, "maxfev": 8000}


def _on_grid(name: str, f: LogDensity, mesh: Sequence[Array], vectorised: bool) -> Array:
    if vectorised:
        values = np.asarray(f(*mesh), dtype=np.float64)
        if values.shape not in ((), mesh[0].shape):
            raise ValueError(f"{name} returned shape {values.shape} for arrays of shape {mesh[0].shape}.")
        values = np.broadcast_to(values, mesh[0].shape)
    else:
        flat = [float(f(*parameters)) for parameters in zip(*(m.ravel() for m in mesh), strict=True)]
        values = np.array(flat).reshape(mesh[0].shape)
    if np.isnan(values).any() or np.isposinf(values).any():
        where = np.argwhere(np.isnan(values) | np.isposinf(values))[0]
        at = ", ".join(f"{m[tuple(where)]:.6g}" for m in mesh)
        raise ValueError(f"{name}({at}) is NaN or infinite; it must be a finite log density or -inf.")
    return values
