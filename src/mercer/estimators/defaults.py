"""The model used when none is given: an ARD Matern 5/2 and learned noise, with weak priors.

The priors are written for standardised data and carried to the user's units by `scaled`. That is the same as
standardising X and y, learning, and undoing it in everything shown; the data are never transformed.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from mercer.columns import Columns
from mercer.hyperpriors import Each, LogNormal
from mercer.inputs import InputError
from mercer.kernels import SE, Matern, Shared
from mercer.likelihoods import AbstractLikelihood, by_name, of_numbers
from mercer.likelihoods.scales import NOISE_PRIOR, NOISE_SHARE, robust_scale
from mercer.params import Info, Param, Parametrised, Static, fixed, param, parameters

VARIANCE_PRIOR = LogNormal(0.0, 2.0)  # median: the variance of y
# of the variance of a latent function behind classes; most probable: 4
LATENT_PRIOR = LogNormal(math.log(4.0) + 1.5**2, 1.5)
# of its length-scales over sqrt(d) standard deviations of the columns; most probable: 2
LATENT_LENGTHSCALE = LogNormal(math.log(2.0) + 1.0, 1.0)
CONSTANT_SCALE = 1e-6  # the scale of targets that do not vary, relative to their size
FLOORS = {"scale": 1e-2, "epsilon": 1e-2, "variance": 1e-4}  # of noise among mostly equal y, over its start
ROUNDING = 8 * float(np.finfo(float).eps)


def default_kernel(
    X: np.ndarray,
    scale: float,
    latent: bool = False,
    columns: Columns | None = None,
    nu: float = 2.5,
    held: bool = False,
) -> Matern | SE | Shared:
    """ARD Matern 5/2 (or of another `nu`; infinite: SE) for columns X (n, d) and targets of standard
    deviation `scale`, about whose variance the prior is weak; with `latent` it is of the functions behind
    classes, and `scale` where they start.

    `columns` says which columns of X are the levels of one category, or the sine and cosine of one season:
    they share a length-scale, and d is then the number of length-scales. held: the variance stays scale^2.

    In units of each column's standard deviation the length-scales have the prior LogNormal(sqrt 2 + log(d)/2,
    sqrt 3): distances between random points grow as sqrt(d), and so do the length-scales thought likely. They
    start at d^1/4, where the data-driven start of any kernel is, so that these two are one. Labels say less
    than numbers, and short length-scales of many columns overfit them: the prior is LATENT_LENGTHSCALE.
    """
    alone = columns is None or len(columns.lengthscales) == X.shape[1]
    spread = column_scales(X) if columns is None or alone else group_scales(X, columns.sharing)
    d = len(spread)
    one = (
        LATENT_LENGTHSCALE.scaled(math.sqrt(d))
        if latent
        else LogNormal(math.sqrt(2.0) + 0.5 * math.log(d), math.sqrt(3.0))
    )
    lengthscale = param(d**0.25 * spread, prior=Each((one,) * d).scaled(spread))
    amplitude = fixed(scale**2) if held else param(scale**2, prior=variance_prior(scale, latent))
    kernel = SE(lengthscale, amplitude) if nu == math.inf else Matern(lengthscale, amplitude, nu=nu)
    return kernel if columns is None or alone else Shared(kernel, columns.sharing, columns.lengthscales)


def variance_prior(scale: float, latent: bool = False) -> LogNormal:
    """Of the variance of a function whose values have the standard deviation `scale`, or stand behind
    classes.
    """
    return LATENT_PRIOR if latent else VARIANCE_PRIOR.scaled(scale**2)


def default_noise(scale: float, start: float | None = None) -> Param:
    """A learned noise variance that starts at a tenth of the variance of y (or at `start`),
    with a weak prior.
    """
    return param(NOISE_SHARE * scale**2 if start is None else start, prior=NOISE_PRIOR.scaled(scale**2))


def default_likelihood(
    name: str, y: np.ndarray, side: Mapping[str, np.ndarray] | None = None
) -> AbstractLikelihood:
    """A likelihood by name that starts where the robust scale of y says, with weak priors on what is learned.

    Both are the likelihood's own: `start` and `weak_priors`. Where most of y are equal, no density of noise
    is too high for them, and a search would follow it without end: then scales and variances do not fall
    below a hundredth, or its square, of where they start. side: what else is known of each row.
    """
    plain = of_numbers(name)
    if plain.categorical:
        return plain
    seen, y = plain.with_side(y, **side) if side else (plain, y)
    seen.encode(y)
    values, said = plain.start(y), plain.weak_priors(target_scale(y, robust=True))
    if mostly_equal(y):
        floors = {key: share * values[key] for key, share in FLOORS.items() if key in values}
        said |= {
            key: dataclasses.replace(said.get(key, Info()), bounds=(low, math.inf))
            for key, low in floors.items()
        }
    settings: dict[str, Param] = {}
    for p in parameters(plain):
        if p.name in values or (p.free and p.name in said):
            value = values.get(p.name, p.value)
            settings[p.name] = Param(value, said.get(p.name, Info())) if p.free else fixed(value)
    return by_name(name, **settings)


def column_scales(X: np.ndarray) -> np.ndarray:
    """Standard deviation of every column (d,); 1 for a column that does not vary."""
    scales = np.array([1.0 if constant(x) else _std(x) for x in X.T])
    return _check_units(scales, "a column of X", 1e-30, 1e30)


def group_scales(X: np.ndarray, groups: Sequence[int]) -> np.ndarray:
    """The root of the summed variances of the columns of each group; 1 for a group that does not vary."""
    variances = np.array([0.0 if constant(x) else _std(x) ** 2 for x in X.T])
    scales = np.sqrt(np.bincount(groups, variances))
    return _check_units(np.where(scales > 0, scales, 1.0), "a column of X", 1e-30, 1e30)


def target_scale(y: np.ndarray, robust: bool = False, shares: np.ndarray | None = None) -> float:
    """Standard deviation of y, by `shares` where rows say more or less of it; or what a few outliers cannot
    change (`robust_scale`). A single target: its absolute value (1 for zero); equal targets: 1e-6 of it.
    """
    if not constant(y):
        return float(_check_units(robust_scale(y) if robust else _std(y, shares), "y", 1e-15, 1e15))
    size = float(np.abs(y).max()) or 1.0
    return float(_check_units(size if len(y) == 1 else CONSTANT_SCALE * size, "y", 1e-15, 1e15))


def mostly_equal(y: np.ndarray) -> bool:
    """True if more than half of the targets are one value."""
    return not constant(y) and bool(np.mean(y == np.median(y)) > 0.5)


def constant(x: np.ndarray) -> bool:
    """True if the entries are equal up to rounding."""
    with np.errstate(over="ignore"):
        return bool(np.ptp(x) <= ROUNDING * np.abs(x).max())


def _std(x: np.ndarray, shares: np.ndarray | None = None) -> float:
    with np.errstate(over="ignore", invalid="ignore"):
        if shares is None:
            return float(np.std(x))
        return float(np.sqrt(np.average((x - np.average(x, weights=shares)) ** 2, weights=shares)))


def _check_units(scales, what: str, low: float, high: float):
    if not np.all((scales >= low) & (scales <= high)):
        worst = float(np.ravel(scales)[np.argmax((np.ravel(scales) < low) | (np.ravel(scales) > high))])
        raise InputError(
            f"{what} has a standard deviation of {worst:.3g}, beyond the {low:g} to {high:g} that can be "
            "handled: use other units."
        )
    return scales


def hold(value: Any) -> Any:
    """The same value with every hyperparameter fixed."""
    if isinstance(value, (tuple, list)):
        return type(value)(hold(v) for v in value)
    if not isinstance(value, Parametrised):
        return value
    new, info = object.__new__(type(value)), dict(value.info)
    for f in dataclasses.fields(value):
        child = getattr(value, f.name)
        if "constraint" in f.metadata and not isinstance(child, Static | None):
            info[f.name] = Info(free=False)
        elif "constraint" not in f.metadata and f.name != "info" and not f.metadata.get("static", False):
            child = hold(child)
        object.__setattr__(new, f.name, child)
    object.__setattr__(new, "info", tuple(sorted(info.items())))
    return new
