"""Integrals of expensive functions (Bayesian quadrature, GPML 9.7): that of a Gaussian process against a
measure is a Gaussian number.

With z_i the average of k(x, x_i) under the measure, and c that of k(x, x') over both,

    mean = z' alpha,   variance = c - z' R z                       (plus the integral of the prior mean)

The variance does not see the values, so that points can be chosen ahead: the next is the one that leaves the
least of it. Evidences are integrals of exp(log likelihood) against a prior: there the square root of the
likelihood is the Gaussian process (Gunter et al. 2014), which keeps it positive, and the next point is where
the likelihood is most uncertain.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.linalg import solve_triangular

from mercer.decide.greedy import Residual
from mercer.decide.measures import AbstractMeasure, NormalMeasure, as_measure
from mercer.gp import GP, Model
from mercer.hyperpriors import LogNormal
from mercer.kernels import SE, AbstractKernel, Constant
from mercer.learning import Fit, fit
from mercer.learning.unconverged import UnconvergedWarning
from mercer.likelihoods import Gaussian
from mercer.linalg.cholesky import cholesky
from mercer.params import fixed, param
from mercer.posteriors.protocol import AbstractPosterior
from mercer.progress import Progress, shown, tell

__all__ = ["Integral", "LogEvidence", "evidence", "integral", "integrate"]

CANDIDATES = 2048
SPREAD = 1.3  # of candidates around a normal measure, in its standard deviations
NUGGET = 1e-10  # of the variance of the values: noise that keeps matrices of values without noise regular
GROWTH = 4  # hyperparameters are learned again when so much as 1/4 was added
EPSILON = float(np.finfo(float).eps)
DRAWS = 1024  # nodes at which an evidence's variance is summed, each way


@dataclass(frozen=True)
class Integral:
    """What is known of an integral.

    mean, std: of the integral
    X: points (n, d) at which the function was evaluated
    y: its values (n,)
    """

    mean: float
    std: float
    X: np.ndarray = field(repr=False)
    y: np.ndarray = field(repr=False)


@dataclass(frozen=True)
class LogEvidence:
    """What is known of the logarithm of an evidence.

    log_mean: the logarithm of the expected evidence
    log_std: standard deviation of the log evidence
    X: points (n, d) at which the log likelihood was evaluated
    y: its values (n,)
    """

    log_mean: float
    log_std: float
    X: np.ndarray = field(repr=False)
    y: np.ndarray = field(repr=False)


def integral(posterior: AbstractPosterior, measure: AbstractMeasure | str = "normal") -> tuple[float, float]:
    """Mean and standard deviation of the integral of the latent function against a measure.

    Exact for SE and constant kernels, their sums and products; for others, and for a prior mean, by nodes:
    Gauss's, or 4096 Sobol points for more than three columns. The standard deviation is never below what
    rounding leaves of it, which is much where data are dense and have no noise: there see `integrate`.

    >>> post = GP(kernels.SE()).condition(X, y, noise_variance=0.01)
    >>> integral(post, UniformMeasure(0.0, 3.0))
    """
    measure = as_measure(measure)
    predictor = posterior.predictor()
    if predictor.d != measure.d:
        raise ValueError(f"the measure has {measure.d} columns, the data {predictor.d}.")
    kernel, X = predictor.kernels[0], np.asarray(predictor.X[0])
    alpha, R = np.asarray(predictor.alpha[0]), np.asarray(predictor.R[0])
    z = measure.kernel_mean(kernel, X)
    at, weights = measure.nodes
    prior_mean = float(weights @ np.broadcast_to(np.asarray(predictor.means[0].value(at)), len(at)))
    variance = measure.kernel_variance(kernel) - z @ R @ z
    rounding = EPSILON * (np.abs(z) @ np.abs(R) @ np.abs(z))
    return prior_mean + float(z @ alpha), math.sqrt(max(float(variance), rounding))


def integrate(
    function: Callable[[Any], float],
    measure: AbstractMeasure | str = "normal",
    evaluations: int = 30,
    kernel: AbstractKernel | None = None,
    noise_variance: float | None = 0.0,
    seed: int = 0,
    progress: Progress = None,
) -> Integral:
    """The integral of an expensive function against a measure, from a few evaluations where they tell most.

    function: called with a point: a number for a measure over numbers, otherwise an array (d,)
    measure: "normal" and "uniform" are the standard ones of one column; `NormalMeasure`, `UniformMeasure`
    kernel: what is believed of the function, in the units of its inputs and values, hyperparameters to be
        learned; None: an SE with a length-scale for each column, for smooth functions
    noise_variance: of the values; 0 for a function that gives the same value again, None learns it

    >>> found = integrate(lambda x: np.exp(np.sin(x)), "normal", evaluations=20)
    >>> found.mean, found.std
    """
    measure = as_measure(measure)
    evaluations = _count(evaluations)
    pool = measure.points(CANDIDATES, seed, SPREAD)
    rows = list(range(min(evaluations, 2 * (measure.d + 1))))
    with shown("integrating", progress):
        values = [_called(function, measure, pool[i]) for i in rows]
        tell(len(rows), evaluations, "evaluations")
        while True:
            y = np.array(values)
            centre, unit = (0.0, 1.0) if kernel is not None else (float(y.mean()), float(y.std()) or 1.0)
            noise = None if noise_variance is None else noise_variance / unit**2
            model = Model(GP(kernel or _default(measure)), _noise(noise, float(y.var()) / unit**2 or 1.0))
            learned = _learned(model, pool[rows], (y - centre) / unit)
            found = learned.posterior.predictor()
            bound, noise = found.kernels[0], float(found.noise[0])
            if len(rows) == evaluations:
                break
            residual = Residual(bound, pool, noise)
            residual.toward(measure.kernel_mean(bound, pool))
            for i in rows:
                residual.observe(i)
            for _ in range(min(max(1, len(rows) // GROWTH), evaluations - len(rows))):
                i = int(np.argmax(residual.gain()))
                residual.observe(i)
                rows.append(i)
                values.append(_called(function, measure, pool[i]))
                tell(len(rows), evaluations, "evaluations")
    X = pool[rows]
    L, _ = cholesky(bound(X) + noise * np.eye(len(X)))
    a, b = solve_triangular(
        L, np.stack([(y - centre) / unit, measure.kernel_mean(bound, X)], 1), lower=True
    ).T
    c = measure.kernel_variance(bound)
    return Integral(centre + unit * float(a @ b), unit * math.sqrt(max(c - b @ b, EPSILON * c)), X, y)


def evidence(
    log_likelihood: Callable[[Any], float],
    prior: AbstractMeasure | str = "normal",
    evaluations: int = 50,
    seed: int = 0,
    progress: Progress = None,
) -> LogEvidence:
    """The log of the integral of exp(log_likelihood) against a prior, from a few evaluations.

    log_likelihood: called with a point, as in `integrate`; may be -inf
    prior: a measure, as in `integrate`

    The square root of the likelihood is a Gaussian process, and half the square of its mean is the
    likelihood. The next point is where likelihood times prior is least certain.

    >>> found = evidence(lambda x: -0.5 * ((x - 1.0) / 0.3) ** 2, NormalMeasure(0.0, 1.0), evaluations=25)
    >>> found.log_mean, found.log_std
    """
    measure = as_measure(prior)
    evaluations = _count(evaluations)
    X = measure.points(min(evaluations, 4 * (measure.d + 1)), seed)
    with shown("integrating", progress):
        y = np.array([_called(log_likelihood, measure, x, lowest=-np.inf) for x in X])
        if not np.isfinite(y).any():
            raise ValueError(
                f"the log likelihood is -inf at the first {len(y)} points, drawn from the prior."
            )
        learned_at, kernel = 0, None
        while True:
            root, best = _root(y)
            if kernel is None or len(y) >= learned_at + max(1, learned_at // GROWTH) or len(y) == evaluations:
                model = Model(GP(_root_kernel(measure)), Gaussian(fixed(NUGGET)))
                learned = _learned(model, X, root)
                kernel, learned_at = learned.posterior.predictor().kernels[0], len(y)
            if len(y) == evaluations:
                break
            around = _around(measure, X, y)
            near = around.points(CANDIDATES // 2, seed + len(y))
            wide = measure.points(CANDIDATES // 2, seed + len(y), SPREAD)
            pool = np.concatenate([X, wide, near])[:CANDIDATES]  # always as many: compiled once
            residual = Residual(kernel, pool, NUGGET)
            for i in range(len(X)):
                residual.observe(i, root[i])
            score = 2 * measure.log_density(pool) + np.log(
                np.maximum(residual.variance * residual.mean**2, 1e-300)
            )
            score[: len(X)] = -np.inf
            i = int(np.argmax(score))
            X, y = np.vstack([X, pool[i]]), np.append(y, _called(log_likelihood, measure, pool[i], -np.inf))
            tell(len(y), evaluations, "evaluations")
    return LogEvidence(
        *_squared_integral(learned.posterior, measure, _around(measure, X, y), best, seed), X, y
    )


# -- pieces --------------------------------------------------------------------------------------------------


def _default(measure: AbstractMeasure) -> AbstractKernel:
    """Of standardised values: length-scales about the width of the measure, and an unknown level."""
    start = math.sqrt(measure.d) * measure.scale
    lengthscale = param(start, prior=LogNormal(math.log(float(np.exp(np.log(start).mean()))), 1.0))
    return SE(lengthscale, param(1.0, prior=LogNormal(0.0, 1.5))) + Constant(fixed(1.0))


def _root_kernel(measure: AbstractMeasure) -> AbstractKernel:
    start = 0.5 * math.sqrt(measure.d) * measure.scale
    lengthscale = param(start, prior=LogNormal(math.log(float(np.exp(np.log(start).mean()))), 1.0))
    return SE(lengthscale, param(0.5, prior=LogNormal(-0.7, 1.0)))


def _learned(model: Model, X: np.ndarray, y: np.ndarray) -> Fit:
    """Without a warning where the climb ended early: the evidence of values without noise is rough there."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnconvergedWarning)
        return fit(model, X, y, progress=False)


def _noise(noise_variance: float | None, variance: float) -> Gaussian:
    if noise_variance is None:
        return Gaussian(1e-2 * variance)
    return Gaussian(fixed(max(noise_variance, NUGGET * variance)))


def _root(y: np.ndarray) -> tuple[np.ndarray, float]:
    """Square roots of twice the likelihoods, in units of the largest of them, whose logarithm comes next."""
    best = float(y.max())
    return np.sqrt(2.0) * np.exp(0.5 * (y - best)), best


def _around(measure: AbstractMeasure, X: np.ndarray, y: np.ndarray) -> NormalMeasure:
    """A normal density about where the likelihood is: moments of the points, weighed by it, widened."""
    weights = np.exp(0.5 * (y - y.max()))
    weights /= weights.sum()
    mean = weights @ X
    away = X - mean
    covariance = (weights[:, None] * away).T @ away + np.diag(1e-2 * measure.scale**2 / len(X))
    return NormalMeasure(mean, covariance)


def _squared_integral(
    posterior: AbstractPosterior, measure: AbstractMeasure, around: NormalMeasure, best: float, seed: int
) -> tuple[float, float]:
    """Log of the mean, and standard deviation of the log, of the integral of g^2 / 2 against the measure, of
    a Gaussian process g of mean m and covariance C: about m^2 / 2, with covariance m C m' + C^2 / 2.

    By points from the measure and from where the likelihood is, half each, weighed for it.
    """
    at = np.concatenate([measure.points(DRAWS, seed), around.points(DRAWS, seed)])
    density = measure.log_density(at)
    weights = np.exp(density - np.logaddexp(density, around.log_density(at))) / DRAWS
    m, C = posterior.mean(at, latent=True), posterior.covariance(at, latent=True)
    mean = float(weights @ (0.5 * m**2))
    variance = (weights * m) @ C @ (weights * m) + 0.5 * weights @ C**2 @ weights
    return best + math.log(mean), math.sqrt(math.log1p(max(float(variance), 0.0) / mean**2))


def _count(evaluations: int) -> int:
    if isinstance(evaluations, bool) or not evaluations >= 3:
        raise ValueError(f"evaluations must be at least 3, got {evaluations!r}.")
    return int(evaluations)


def _called(
    function: Callable[[Any], float], measure: AbstractMeasure, x: np.ndarray, lowest: float | None = None
) -> float:
    point = float(x[0]) if measure.single else x.copy()
    value = np.asarray(function(point), float)
    if value.size != 1:
        raise ValueError(f"the function must return one number, at {point} it returned shape {value.shape}.")
    number = float(value.reshape(()))
    if not math.isfinite(number) and number != lowest:
        raise ValueError(f"the function returned {number} at {point}: it must be finite.")
    return number
