"""What columns add to the latent function that speaks for a class."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import numpy as np

from mercer.explain import Attributions, attributions
from mercer.explain.attribution import stacked, together

if TYPE_CHECKING:
    from mercer.estimators.classification.classifier import GPClassifier


def attributed(
    model: GPClassifier, Z: np.ndarray, beside: np.ndarray | None, groups: Any, seed: int
) -> Attributions:
    """What columns add to the score of the predicted class of each row; of two classes, of the second."""
    classes = [str(label) for label in model.classes_.tolist()]
    p = model._probabilities(Z, "average")
    told = np.ones(len(Z), int) if len(classes) == 2 else p.argmax(1)
    found, order = [], []
    for c in np.unique(told):
        rows = np.flatnonzero(told == c)
        one = _score(model, int(c), Z[rows], beside, groups, seed)
        also = tuple(f"The probability of {classes[c]} is {p[i, c]:.3g}." for i in rows)
        found.append(dataclasses.replace(one, what=(_words(classes, int(c)),) * len(rows), also=also))
        order.append(rows)
    answer = stacked(found, np.argsort(np.concatenate(order)))
    codes = model._training[1].astype(int)
    named = tuple(tuple(i._replace(target=classes[codes[i.row]]) for i in each) for each in answer.influences)
    return dataclasses.replace(answer, influences=named)


def _words(classes: list[str], c: int) -> str:
    if len(classes) == 2:
        return f"the latent function, which is the higher the likelier {classes[c]} is,"
    return f"the latent score of {classes[c]} against the other classes"


def _score(
    model: GPClassifier, c: int, Z: np.ndarray, beside: np.ndarray | None, groups: Any, seed: int
) -> Attributions:
    """Of class c: its function less the average of the others', of the contest against the rest, or of all
    its contests against one.
    """
    C, posteriors = len(model.classes_), model._posteriors
    if model._joint:
        contrast = np.full(C, -1.0 / (C - 1))
        contrast[c] = 1.0
        return attributions(posteriors[0], Z, beside, groups, contrast, seed=seed)
    own = [(i, first == c) for i, (first, second) in enumerate(model._contests) if c in (first, second)]
    if len(own) == 1:
        return attributions(posteriors[own[0][0]], Z, beside, groups, seed=seed)
    around = model._training[0].values if beside is None else beside  # a contest has rows of two classes
    each = [attributions(posteriors[i], Z, around, groups, seed=seed) for i, _ in own]
    return together(each, [(1.0 if ahead else -1.0) / len(own) for _, ahead in own])
