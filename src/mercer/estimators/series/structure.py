"""The default model of a time series: trend + seasons + irregular,
with weak priors in the units of the data.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from mercer.estimators import defaults
from mercer.estimators.series.clock import DAY, MICROSECONDS, Clock
from mercer.gp import GP, Model
from mercer.hyperpriors import LogNormal
from mercer.inputs import InputError
from mercer.kernels import AbstractKernel, Matern
from mercer.kernels.algebra.columns import On
from mercer.kernels.algebra.sums import Sum
from mercer.kernels.families.structural import LocalLinear, Seasonal
from mercer.likelihoods import AbstractLikelihood, AbstractNoise, Gaussian
from mercer.means import AbstractBasis, Constant
from mercer.params import Param, fixed, named_leaves, param, replace_leaves

DAYS = {"day": 1.0, "week": 7.0, "year": 365.2425}  # seasons that "auto" looks for
SEEN, RESOLVED = 2.0, 3.0  # "auto" wants so many periods in the series, and so many steps in a period
HARMONICS, FEWER = 6, 4  # of one season, and of each of several
WINDOW, WINDOWS, VARIED, STEADIER = 4, 4, 1.5, 0.7  # when a series is multiplicative: see `multiplicative`
TRENDS = ("linear", "level")
TIE = 2.0  # nats of log evidence within which the line is kept


def seasons(given: Any, clock: Clock, span: float) -> dict[str, float]:
    """Names and periods, in the unit of the clock, of what was asked for: "auto", None, periods, names,
    or names with periods.
    """
    if given is None:
        return {}
    if isinstance(given, str) and given == "auto":
        found = {name: _in_unit(name, clock) for name in DAYS} if clock.unit else {}
        return {
            n: p for n, p in found.items() if p >= RESOLVED * clock.step and span + clock.step >= SEEN * p
        }
    if isinstance(given, Mapping):
        named = dict(given)
    else:
        listed = [given] if isinstance(given, str) or np.ndim(given) == 0 else list(given)
        named = {p if isinstance(p, str) else f"season {p:g}": p for p in listed}
    out = {str(n): _in_unit(p, clock) if isinstance(p, str) else float(p) for n, p in named.items()}
    for name, period in out.items():
        if not (math.isfinite(period) and period > clock.step):
            unit = clock.unit or "unit of time"
            raise ValueError(
                f"the period of {name!r} is {period:g} {unit}s, but it must be longer than the step of "
                f"{clock.step:g}."
            )
    return out


def _in_unit(name: str, clock: Clock) -> float:
    if name not in DAYS or not clock.unit:
        known = (
            f"known are {', '.join(DAYS)}"
            if clock.unit
            else "a series in plain numbers needs periods in their unit"
        )
        raise ValueError(
            f"cannot tell the period of the season {name!r}: {known}, or give {{{name!r}: period}}."
        )
    if clock.unit in ("month", "year"):
        return DAYS[name] / DAYS["year"] * (12 if clock.unit == "month" else 1)
    return DAYS[name] * DAY / MICROSECONDS[clock.unit]


def read_likelihood(given: Any, z: np.ndarray) -> tuple[AbstractLikelihood, np.ndarray]:
    """The likelihood that a name stands for, or an instance, checked; and about the latent values (n,) of
    values z.
    """
    likelihood = given
    if isinstance(given, str) and given == "gaussian":
        likelihood = Gaussian(_about(0.01 * defaults.target_scale(z) ** 2, 2.0))
    elif isinstance(given, str):
        likelihood = defaults.default_likelihood(given, z)
    if not isinstance(likelihood, AbstractLikelihood):
        raise ValueError(f"likelihood must be a name or an instance, got {likelihood!r}.")
    if likelihood.latents > 1 or likelihood.categorical:
        raise ValueError(
            f"a series has one number for each time; {type(likelihood).__name__} is for mercer.Model."
        )
    if likelihood.per_datum:
        raise ValueError(
            "a series has one noise for all times: with errors or weights of each, fit GPRegressor or "
            "mercer.Model, by solver='markov' where it is long."
        )
    return likelihood, np.asarray(likelihood.guess(likelihood.targets(z)), float)


def default_model(
    trend: str,
    periods: Mapping[str, float],
    irregular: bool,
    harmonics: int | None,
    likelihood: AbstractLikelihood,
    clock: Clock,
    span: float,
    latent: np.ndarray,
    basis: AbstractBasis | None = None,
) -> tuple[Model, tuple[str, ...]]:
    """The model before learning of values whose latent ones are about `latent` (n,), and the names of the
    parts of its kernel. basis: of columns beside the time, which is then the first.
    """
    robust = isinstance(likelihood, AbstractNoise)
    kernel, names = default_kernel(
        trend, periods, irregular, harmonics, clock, span, defaults.target_scale(latent, robust)
    )
    mean = Constant(fixed(np.median(latent) if robust else np.mean(latent)))
    return Model(GP(kernel if basis is None else kernel.on(0), mean, basis), likelihood), names


def with_basis(model: Model, basis: AbstractBasis | None) -> Model:
    """The model with these basis functions of columns beside the time, in place of those it has."""
    kernel = of_time(model.gp.kernel)
    return Model(GP(kernel if basis is None else kernel.on(0), model.gp.mean, basis), model.likelihood)


def of_time(kernel: AbstractKernel) -> AbstractKernel:
    """The kernel of a model as a function of time alone."""
    return kernel.kernel if isinstance(kernel, On) else kernel


def terms(kernel: AbstractKernel) -> tuple[AbstractKernel, ...]:
    """The parts of the kernel of a model."""
    kernel = of_time(kernel)
    return kernel.terms if isinstance(kernel, Sum) else (kernel,)


def default_kernel(
    trend: str,
    periods: Mapping[str, float],
    irregular: bool,
    harmonics: int | None,
    clock: Clock,
    span: float,
    scale: float,
) -> tuple[AbstractKernel, tuple[str, ...]]:
    """The kernel, and the names of its terms, for a series of the given span (in the unit of the clock) and
    standard deviation.

    trend "linear": a straight line whose slope wanders. "level": a Matern 3/2 that returns to the mean. Each
    season is a few harmonics that change with an Ornstein-Uhlenbeck process; irregularities are one too,
    lasting a few steps.
    """
    span = max(span, clock.step)
    s2 = scale**2
    terms: dict[str, AbstractKernel] = {}
    if trend == "linear":
        bend = 3 * (0.3 * scale) ** 2 / span**3  # leaves the line by 0.3 standard deviations at the end
        terms["trend"] = LocalLinear(_about(bend, 2.5), fixed(9 * s2), fixed(25 * s2 / span**2))
    else:
        terms["trend"] = Matern(_about(span / 4, 1.0), _about(s2, 1.5), nu=1.5)
    most = (HARMONICS if len(periods) == 1 else FEWER) if harmonics is None else harmonics
    for name, period in periods.items():
        seen = max(1, min(most, int(period / (2 * clock.step) + 1e-9)))
        shape = Seasonal(fixed(period), _about(0.5, 0.7), _about(0.1 * s2, 1.5), harmonics=seen)
        terms[name] = shape * Matern(_about(max(span, 3 * period), 1.0), fixed(1.0), nu=0.5)
    if irregular:
        terms["irregular"] = Matern(_about(3 * clock.step, 1.0), _about(0.03 * s2, 2.0), nu=0.5)
    kernel, *others = terms.values()
    for other in others:
        kernel = kernel + other
    return kernel, tuple(terms)


def preferred(evidences: Mapping[str, float]) -> str:
    """The trend to keep."""
    linear, level = (evidences.get(trend, -math.inf) for trend in TRENDS)
    return "linear" if linear >= level - TIE else "level"


def _about(value: float, spread: float) -> Param:
    """Positive, and within a factor exp(spread) of the value with 68 % probability."""
    return param(value, prior=LogNormal(math.log(value), spread))


def transform(
    given: str | None, likelihood: Any, y: np.ndarray, periods: Mapping[str, float], clock: Clock
) -> str | None:
    """ "log" or None, as asked for; "auto": where the series is `multiplicative` in windows of its longest
    season.
    """
    gaussian = (isinstance(likelihood, str) and likelihood == "gaussian") or isinstance(likelihood, Gaussian)
    if given == "log":
        if not gaussian:
            raise ValueError("transform='log' goes with Gaussian noise; leave it out for other likelihoods.")
        if not (y > 0).all():
            raise InputError(
                f"transform='log' needs positive values, but the least is {y.min():g}: use transform=None."
            )
        return "log"
    longest = max(periods.values(), default=0.0) / clock.step
    window = round(longest) if longest >= WINDOW else max(WINDOW, y.size // 10)
    return "log" if given == "auto" and gaussian and multiplicative(y, window) else None


def multiplicative(y: np.ndarray, window: int) -> bool:
    """Whether the swings of a positive series grow with its level, so that its logarithm is easier to model.

    In windows of so many values (Guerrero 1993), spread over level varies less than the spread alone (by 30 %
    or more), and the level varies by half or more.
    """
    count = y.size // window
    if count < WINDOWS or not (y > 0).all():
        return False
    parts = y[-count * window :].reshape(count, window)
    level = parts.mean(1)
    x = np.arange(window) - 0.5 * (window - 1)
    slope = parts @ x / (x @ x)
    spread = (parts - level[:, None] - slope[:, None] * x).std(1)
    if not (level.max() >= VARIED * level.min() and (spread > 0).all()):
        return False
    return _variation(spread / level) < STEADIER * _variation(spread)


def _variation(x: np.ndarray) -> float:
    return float(x.std() / x.mean())


def rescaled(model: Model, scale: float, centre: float) -> Model:
    """The default model of values z, for those of centre + scale z."""
    new: dict[str, Any] = {}
    for name, value in named_leaves(model):
        if name.endswith("variance") and ".factors.1." not in name:  # the second factor of a season is 1
            new[name] = value * scale**2
        elif name == "mean.constant":
            new[name] = centre + scale * value
    return replace_leaves(model, new)
