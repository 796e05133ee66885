"""Which noise the residuals of left-out rows speak for: Gaussian, or one of heavier tails.

Student-t, Laplace and mixture noise are scale mixtures of normals: e ~ N(0, scale^2 V) with a random V. Where
f without row i is N(m_i, v_i), its target has the density E_V N(y_i | m_i, v_i + scale^2 V): closed form but
for an average over V, so that the noise that makes the left-out targets likeliest is found without a matrix.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from mercer.likelihoods.scales import gamma_nodes
from mercer.posteriors import AbstractPosterior

GAUSSIAN = "gaussian"
REACH = 10.0  # of the logarithm of the noise scale, from where it starts
HINT = 4.0  # nats by which another noise must beat Gaussian noise before a person is told


class _Family(NamedTuple):
    """Shape parameters, as logarithms: where they start, their bounds; V and its probabilities for them."""

    start: tuple[float, ...]
    bounds: tuple[tuple[float, float], ...]
    mixing: Callable[..., tuple[np.ndarray, np.ndarray]]


def _student_t(log_dof: float) -> tuple[np.ndarray, np.ndarray]:
    precision, share = gamma_nodes(0.5 * math.exp(log_dof))
    return 1.0 / precision, share


def _two(log_weight: float, log_ratio: float) -> tuple[np.ndarray, np.ndarray]:
    weight = math.exp(log_weight)
    return np.array([1.0, math.exp(log_ratio)]), np.array([1.0 - weight, weight])


_WEIGHT, _RATIO = (math.log(1e-3), math.log(0.45)), (math.log(2.0), math.log(1e12))
FAMILIES = {  # the simplest first
    GAUSSIAN: _Family((), (), lambda: (np.ones(1), np.ones(1))),
    "student-t": _Family((math.log(4.0),), ((0.0, math.log(300.0)),), _student_t),
    "laplace": _Family((), (), lambda: gamma_nodes(1.0)),
    "mixture": _Family((math.log(0.1), math.log(50.0)), (_WEIGHT, _RATIO), _two),
}


def left_out_densities(posterior: AbstractPosterior) -> dict[str, float]:
    """The summed log density of the targets, each predicted by all others, under each noise at its best
    parameters; the function is that of the posterior, whose noise is Gaussian of one variance.
    """
    left = posterior.loo()
    noise = float(posterior.model.likelihood.noise_variance)
    squares, variance = (posterior.y - left.mean) ** 2, np.maximum(left.variance - noise, 0.0)
    return {name: _best(family, squares, variance) for name, family in FAMILIES.items()}


def hint(posterior: AbstractPosterior) -> str | None:
    """What to say after a fit with Gaussian noise whose left-out residuals have heavier tails; None where
    they have not.
    """
    densities = left_out_densities(posterior)
    best = max(densities, key=densities.__getitem__)
    gain = densities[best] - densities[GAUSSIAN]
    if gain < HINT:
        return None
    return (
        f"left-out rows lie further off than Gaussian noise explains ({best} noise: {gain:.0f} nats better); "
        "outliers may bend the function and widen every interval; try likelihood='auto' (--robust auto)"
    )


def _best(family: _Family, squares: np.ndarray, variance: np.ndarray) -> float:
    """The highest summed log density of residuals with these `squares` (n,), where f has a `variance`."""
    from scipy.optimize import minimize

    unit = max(float(np.median(squares)), 1e-6 * float(np.mean(squares)), np.finfo(float).tiny)
    squares, variance = squares / unit, variance / unit

    def loss(x: np.ndarray) -> float:
        V, share = family.mixing(*x[1:])
        total = variance[:, None] + math.exp(2.0 * x[0]) * V
        terms = -0.5 * (squares[:, None] / total + np.log(2.0 * np.pi * total))
        top = terms.max(1)
        return -float(np.sum(top + np.log(np.exp(terms - top[:, None]) @ share)))

    box = [(-REACH, REACH), *family.bounds]
    found = minimize(
        loss, np.array([0.0, *family.start]), method="L-BFGS-B", bounds=box, options={"ftol": 1e-6}
    )
    return -float(found.fun) - 0.5 * len(squares) * math.log(unit)
