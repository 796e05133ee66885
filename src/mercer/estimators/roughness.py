"""kernel="auto": how rough the function is, and whether a straight part is told from the rest, by evidence.

Six kernels: Matern 3/2, Matern 5/2 and SE, each alone and with a linear part. Matern 5/2, the default, is
learned first; the others start where it ended, and a few evaluations on a part of the rows show which has the
highest evidence. That one is then learned from there on all rows.
"""

from __future__ import annotations

import dataclasses
import math
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from mercer.columns import Columns
from mercer.estimators import defaults
from mercer.estimators.base import INTEGRATED
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


def asked(kernel: Any, word: str = "auto") -> bool:
    """Whether a setting of this name is kernel="auto", or another word."""
    return isinstance(kernel, str) and kernel == word


def check(objective: Any, inference: Any) -> None:
    """Refuse settings under which nothing says which kernel is the best."""
    if objective != "evidence" or (isinstance(inference, str) and inference in ("mcmc", *INTEGRATED)):
        raise ValueError(
            "kernel='auto' compares evidences: leave out objective and inference, or give a kernel."
        )


@dataclasses.dataclass(frozen=True)
class Default:
    """The default kernel of an estimator, as `defaults.default_kernel` makes it: of columns X (n, d) and
    targets of standard deviation `scale`, or with `latent` of the functions behind classes.
    """

    X: np.ndarray
    scale: float
    columns: Columns | None = None
    latent: bool = False

    def candidates(self, learned: AbstractKernel) -> dict[str, AbstractKernel]:
        """The six kernels by name, with the values that the default kernel has learned."""
        values = {p.name: p.value for p in parameters(learned)}
        found: dict[str, AbstractKernel] = {}
        for name, nu in NU.items():
            kernel = defaults.default_kernel(self.X, self.scale, self.latent, self.columns, nu)
            found[name] = replace_leaves(kernel, values)
        straight = self.linear_part()
        return found | {f"{name} + linear": kernel + straight for name, kernel in found.items()}

    def linear_part(self) -> AbstractKernel:
        """Straight lines through the mean of the columns, whose slopes together have one learned variance:
        that of the part's values, with the prior of the default kernel's.
        """
        spread = defaults.column_scales(self.X)
        slopes = Linear(fixed(1.0 / (len(spread) * spread**2)), centre=self.X.mean(0))
        prior = defaults.variance_prior(self.scale, self.latent)
        return Scale(param(LINEAR_SHARE * self.scale**2, prior=prior), slopes)


def compare(
    plain: Model,
    kernels: dict[str, AbstractKernel],
    inputs: Inputs,
    y: np.ndarray,
    seed: int,
    inference: Any = None,
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
            found = fit(
                model,
                part,
                targets,
                inference=inference,
                max_evaluations=EVALUATIONS,
                starts="given",
                progress=False,
            )
        likelihood = plain.likelihood if plain.likelihood.per_datum else found.model.likelihood
        models[name], evidences[name] = Model(found.model.gp, likelihood), found.value
    return evidences, models


def chosen(
    plain: Fit,
    default: Default,
    inputs: Inputs,
    y: np.ndarray,
    seed: int,
    learn: Callable[[Model], Fit],
    inference: Any = None,
) -> Fit:
    """The fit with the kernel of the highest evidence, which notes what was compared.

    plain: the fit of the default kernel, learn: what learns a model from its own values
    """
    kernels = default.candidates(plain.model.gp.kernel)
    evidences, models = compare(plain.model, kernels, inputs, y, seed, inference)
    first = next(iter(kernels))
    best = max(evidences, key=evidences.__getitem__)
    gain = evidences[best] - evidences[first]
    compared = "of " + ", ".join(kernels)
    if best == first or gain < GAIN:
        note = f"kernel='auto' kept {first} {compared}: none has a log evidence {GAIN:g} nats higher"
        return _noting(plain, note)
    part = "" if len(y) <= ROWS else f" of {ROWS} rows"
    higher = f"the log evidence{part} is {gain:.1f} nats above that of {first}"
    return _noting(learn(models[best]), f"kernel='auto' chose {best} {compared}: {higher}")


def _noting(found: Fit, note: str) -> Fit:
    return dataclasses.replace(found, posterior=found.posterior.noting(note))
