"""What learning one structure of a series tells of the next: hyperparameters of the parts that both have, and
how sure they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from mercer.estimators.series import structure
from mercer.gp import Model
from mercer.learning import Fit, prior_curvature
from mercer.params import flatten


class Known(NamedTuple):
    """Free hyperparameters by name (a trend's by its kind), and the curvature of the evidence in them."""

    names: list[str]
    vector: np.ndarray
    curvature: np.ndarray


def known(found: Fit, trend: str, parts: Sequence[str]) -> Known:
    """What a fit knows, whose kernel has these parts."""
    return Known(_names(found.model, trend, parts), flatten(found.model).vector, found.curvature)


def begun(model: Model, trend: str, parts: Sequence[str], before: Known | None) -> tuple[Model, np.ndarray]:
    """Where to start with a model of these parts, and the curvature there (p, p): what was learned before of
    parts that it has too, priors of the others.
    """
    flat, curvature = flatten(model), prior_curvature(model, jacobian=True)
    if before is None:
        return model, curvature
    names, vector = _names(model, trend, parts), flat.vector.copy()
    here = [i for i, name in enumerate(names) if name in before.names]
    there = [before.names.index(names[i]) for i in here]
    vector[here] = before.vector[there]
    curvature[np.ix_(here, here)] = before.curvature[np.ix_(there, there)]
    return flat.unflatten(vector), curvature


def _names(model: Model, trend: str, parts: Sequence[str]) -> list[str]:
    """Of the free hyperparameters, in the order of the vector."""
    terms = structure.terms(model.gp.kernel)
    owners = [f"{trend} {part}" if part == "trend" else part for part in parts]
    held = [*zip(owners, terms, strict=True), ("noise", model.likelihood)]
    return [f"{owner}: {name}" for owner, value in held for name in flatten(value).names]
