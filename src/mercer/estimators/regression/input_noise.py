"""Training rows whose inputs were measured with errors: to first order an error of x is f' times it in y.

The noise of a row is sigma^2 + g' S g with g the slope of the posterior mean at its input and S the variances
of the errors. Slopes need a fit and the fit needs slopes, so that the two take turns until neither changes
(the noisy-input Gaussian process of McHutchon and Rasmussen 2011).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from mercer.columns import Columns
from mercer.estimators.regression.noise import RowNoise
from mercer.gp import Model
from mercer.hyperpriors import Each, LogNormal
from mercer.inputs import InputError
from mercer.learning import Fit
from mercer.likelihoods import Gaussian
from mercer.params import Param, fixed, param, replace_leaves
from mercer.posteriors import AbstractPosterior

LEARN = "learn"
START = 0.1  # standard deviation of a learned error, in that of its column
PRIOR = LogNormal(-0.6, 2.0)  # of its variance, in that of the column; most probable: 1 %
ROUNDS = 10  # of slopes and fits in turns
SETTLED = 0.02  # relative change of the noise of rows, on average
STEP = 1e-4  # of the standard deviation of a column: what slopes are differences over


def with_inputs(known: RowNoise, given: Any, columns: Columns | None, X: np.ndarray) -> RowNoise:
    """What is known of the rows, with errors of their inputs X (n, d) as `GPRegressor(input_noise=)` says."""
    if given is None:
        return known
    if columns is not None and not columns.plain:
        other = ", ".join(repr(c.name) for c in columns.columns if not c.plain)
        raise InputError(
            f"input_noise is the error of numbers, and the model reads {other} as something else: fit it to "
            "columns of numbers without empty cells, or give a kernel."
        )
    return dataclasses.replace(known, slopes=np.zeros(X.shape), input_variance=_variances(given, columns, X))


def settled(found: Fit, learn: Callable[[Model], Fit]) -> Fit:
    """The fit whose noise has the slopes of its own mean; `learn` fits a model from where it is."""
    said = ""
    for rounds in range(ROUNDS):
        likelihood: Any = found.model.likelihood
        slopes = mean_slopes(found.posterior)
        now = replace_leaves(likelihood, {"slopes": slopes})
        change = float(np.mean(np.abs(np.log(now.variances / likelihood.variances))))
        if change <= SETTLED:
            said = f"settled after {rounds} rounds"
            break
        if rounds:  # half way, or rows in a bend may go to and fro
            slopes = np.sqrt(0.5 * (slopes**2 + likelihood.slopes**2))
        found = learn(replace_leaves(found.model, {"likelihood.slopes": slopes}))
        said = f"did not settle in {ROUNDS} rounds: the noise of rows still changed by {change:.0%}"
    note = f"errors of inputs count as errors of y by the slopes of the mean, which {said}"
    return dataclasses.replace(found, posterior=found.posterior.noting(note))


def mean_slopes(posterior: AbstractPosterior) -> np.ndarray:
    """Derivatives (n, d) of the posterior mean at its data, by differences."""
    X = posterior.inputs.values
    slopes = np.empty(X.shape)
    for j, spread in enumerate(_spreads(X)):
        step = np.zeros(X.shape[1])
        step[j] = STEP * spread
        above, below = (posterior.latent_moments(at, variance=False)[0] for at in (X + step, X - step))
        slopes[:, j] = (above - below) / (2.0 * step[j])
    return slopes


def errors_of(likelihood: Any) -> np.ndarray | None:
    """Standard deviations (d,) of the errors of the columns, given or learned; None where there are none."""
    if not isinstance(likelihood, Gaussian) or likelihood.input_variance is None:
        return None
    return np.sqrt(np.asarray(likelihood.input_variance))


def _variances(given: Any, columns: Columns | None, X: np.ndarray) -> Param:
    """Of the errors of the columns (d,): known, or learned under a weak prior."""
    d = X.shape[1]
    if isinstance(given, str):
        if given != LEARN:
            raise ValueError(f"input_noise must be numbers or {LEARN!r}, got {given!r}.")
        scale = _spreads(X) ** 2
        return param(START**2 * scale, prior=Each((PRIOR,) * d).scaled(scale))
    if isinstance(given, Mapping):
        names = () if columns is None else columns.names
        if unknown := [name for name in given if name not in names]:
            raise InputError(f"input_noise names {unknown[0]!r}, which is no column: they are {list(names)}.")
        given = [given.get(name, 0.0) for name in names]
    errors = np.asarray(given, float)
    if errors.shape not in ((), (d,)) or not (np.isfinite(errors).all() and (errors >= 0).all()):
        raise InputError(
            f"input_noise is a standard deviation, not negative, or one for each of {d} columns, got "
            f"{given!r}."
        )
    return fixed(np.broadcast_to(errors, d) ** 2)


def _spreads(X: np.ndarray) -> np.ndarray:
    spread = np.std(X, 0)
    return np.where(spread > 0, spread, 1.0)
