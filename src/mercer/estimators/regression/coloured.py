"""Noise that is correlated along a column, such as time: part of y, and not of f.

y = f + n + e, with n an Ornstein-Uhlenbeck process along the column (in equal steps: AR(1) noise) and e
white. n is a term of the kernel, the last; f is the others. What is predicted of y knows n near the data, as
forecasts with autocorrelated errors do; what is predicted of f is without it.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from mercer.columns import Columns, Date, Number, Raw
from mercer.hyperpriors import LogNormal
from mercer.inputs import InputError
from mercer.kernels import AbstractKernel, Matern, Sum
from mercer.likelihoods.scales import NOISE_PRIOR, NOISE_SHARE
from mercer.params import param
from mercer.posteriors import AbstractPosterior

START = 0.02  # of the range of the column: where the correlation length starts


@dataclasses.dataclass(frozen=True)
class ColouredNoise:
    """Noise along a column.

    column: its name
    std: standard deviation, in units of y
    lengthscale: over which its correlation falls to 1 / e, in units of the column (days, of dates)

    In steps of h it is AR(1) noise with the coefficient exp(-h / lengthscale).
    """

    column: str
    std: float
    lengthscale: float


def with_noise(
    kernel: AbstractKernel, along: Any, columns: Columns | None, X: np.ndarray, scale: float
) -> AbstractKernel:
    """The kernel of f and noise along a column, for inputs X (n, d) and targets of standard deviation
    `scale`; the kernel itself where no column is named.
    """
    if along is None:
        return kernel
    assert columns is not None
    name = columns.name_of(along)
    (role,) = (c for c in columns.columns if c.name == name)
    if not isinstance(role, Number | Date | Raw) or len(X) < 3:
        raise InputError(
            f"noise_along: {name!r} must be a column of numbers or dates; it is a {role.words()}."
        )
    at = columns.groups[name][0]
    span = float(np.ptp(np.asarray(X[:, at], float))) or 1.0
    noise = Matern(
        param(START * span, prior=LogNormal(np.log(START * span), 1.5)),
        param(NOISE_SHARE * scale**2, prior=NOISE_PRIOR.scaled(scale**2)),
        nu=0.5,
    )
    return Sum((kernel, noise.on(int(at))))


def noise_of(kernel: Any, along: Any, columns: Columns) -> ColouredNoise | None:
    """What was learned of the noise along a column, where it is asked for."""
    if along is None:
        return None
    learned = kernel.terms[-1].kernel
    std, length = np.sqrt(learned.variance), np.ravel(learned.lengthscale)[0]
    return ColouredNoise(columns.name_of(along), float(std), float(length))


def moments_of_function(posterior: AbstractPosterior, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard deviation (m,) of f without the noise along a column."""
    function: Any = posterior.model.gp
    own = posterior.components(X)[0]
    return np.asarray(function.mean.value(X), float) + own.mean, own.std


def check_coloured(along: Any, settings: dict[str, Any]) -> None:
    """What noise along a column does not go with: other settings, by name, that must not be given."""
    if along is not None and (others := [name for name, value in settings.items() if value is not None]):
        raise ValueError(
            f"noise_along goes with Gaussian noise of one kernel: leave out {', '.join(others)}."
        )
