"""kernel="auto": how rough the function is, and whether a straight part is told from the rest, by evidence.

Six kernels: Matern 3/2, Matern 5/2 and SE, each alone and with a linear part. Matern 5/2, the default, is
learned first; the others start where it ended, and a few evaluations on a part of the rows show which has the
highest evidence. That one is then learned from there on all rows.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable

import numpy as np

from mercer.columns import Columns
from mercer.estimators import defaults
from mercer.gp import GP, Model, at_rows
from mercer.inputs import Inputs, Targets
from mercer.kernels import AbstractKernel, Linear, Scale
from mercer.learning import Fit, FitWarning, fit
from mercer.params import fixed, param, parameters, replace_leaves

NU = {"Matern 5/2": 2.5, "Matern 3/2": 1.5, "SE": math.inf}  # the default first
ROWS = 400  # at most so many show which kernel is the best
EVALUATIONS = 8  # of each
GAIN = 2.0  # nats of log evidence that another kernel than the default must bring
LINEAR_SHARE = 0.1  # of the variance of y: where the linear part starts


def candidates(
    X: np.ndarray, scale: float, columns: Columns | None, learned: AbstractKernel
) -> dict[str, AbstractKernel]:
    """The six kernels by name, with the values that the default kernel has learned."""
    values = {p.name: p.value for p in parameters(learned)}
    found: dict[str, AbstractKernel] = {}
    for name, nu in NU.items():
        found[name] = replace_leaves(defaults.default_kernel(X, scale, columns=columns, nu=nu), values)
    straight = linear_part(X, scale)
    return found | {f"{name} + linear": kernel + straight for name, kernel in found.items()}


def linear_part(X: np.ndarray, scale: float) -> AbstractKernel:
    """Straight lines through the mean of the columns, whose slopes together have one learned variance: that
    of the part's values, with the weak prior of the default kernel's.
    """
    spread = defaults.column_scales(X)
    slopes = Linear(fixed(1.0 / (len(spread) * spread**2)), centre=X.mean(0))
    prior = defaults.VARIANCE_PRIOR.scaled(scale**2)
    return Scale(param(LINEAR_SHARE * scale**2, prior=prior), slopes)


def compare(
    plain: Model, kernels: dict[str, AbstractKernel], inputs: Inputs, y: np.ndarray, seed: int
) -> tuple[dict[str, float], dict[str, Model]]:
    """Log evidence of (a part of) the data under each kernel after a few evaluations, and the models."""
    rows = np.arange(len(y))
    if len(y) > ROWS:
        rows = np.sort(np.random.default_rng(seed).choice(rows, ROWS, replace=False))
    part, targets = Inputs(inputs.values[rows], inputs.names), Targets(y[rows])
    models, evidences = {}, {}
    for name, kernel in kernels.items():
        model = at_rows(Model(GP(kernel, plain.gp.mean, plain.gp.basis), plain.likelihood), rows, len(y))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FitWarning)  # it need not end
            found = fit(model, part, targets, max_evaluations=EVALUATIONS, starts="given", progress=False)
        likelihood = plain.likelihood if plain.likelihood.per_datum else found.model.likelihood
        models[name], evidences[name] = Model(found.model.gp, likelihood), found.value
    return evidences, models


def chosen(
    plain: Fit,
    scale: float,
    columns: Columns | None,
    inputs: Inputs,
    y: np.ndarray,
    seed: int,
    learn: Callable[[Model], Fit],
) -> tuple[Fit, str]:
    """The fit with the kernel of the highest evidence, and what to say of it.

    plain: the fit of the default kernel, learn: what learns a model from its own values
    """
    kernels = candidates(inputs.values, scale, columns, plain.model.gp.kernel)
    evidences, models = compare(plain.model, kernels, inputs, y, seed)
    default = next(iter(kernels))
    best = max(evidences, key=evidences.__getitem__)
    gain = evidences[best] - evidences[default]
    compared = "of " + ", ".join(kernels)
    if best == default or gain < GAIN:
        return plain, f"kernel='auto' kept {default} {compared}: none has a log evidence {GAIN:g} nats higher"
    part = "" if len(y) <= ROWS else f" of {ROWS} rows"
    higher = f"the log evidence{part} is {gain:.1f} nats above that of {default}"
    return learn(models[best]), f"kernel='auto' chose {best} {compared}: {higher}"
