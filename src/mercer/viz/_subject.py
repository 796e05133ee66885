"""What a picture is of: the posterior inside whatever was handed in, and its one input."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer.conditioned import AbstractConditioned, AbstractSubject, ClassFunction
from mercer.inputs import Inputs, as_inputs


def posterior_of(model: Any) -> Any:
    """The posterior inside `model`."""
    if not isinstance(model, AbstractConditioned):
        raise TypeError(
            f"cannot draw a {type(model).__name__}: give a posterior (what condition returns), a Fit or a "
            "fitted estimator."
        )
    return model.one_posterior()


def input_name(post: Any) -> str:
    """The name of the only column, or x."""
    return post.inputs.names[0] if post.inputs.names else "x"


def knows_noise(post: Any) -> bool:
    """False where noise was given for each training datum: then nothing can be said of y elsewhere,
    only of f.
    """
    return post.model.likelihood.elsewhere(post.inputs.values[:1]) is not None


def classes_of(model: Any) -> ClassFunction:
    """The probabilities of classes as a function, of what was fitted to classes."""
    found = model.class_function() if isinstance(model, AbstractSubject) else None
    if found is None:
        posterior_of(model)  # says what is wrong with what is no model
        raise ValueError("this picture is of classes, and the model predicts none.")
    return found


def grid(post: Any, count: int) -> np.ndarray:
    """(count, 1) along the range of the data and a twentieth more at each end."""
    return line_through(post.inputs, count)


def line_through(inputs: Inputs, count: int) -> np.ndarray:
    """(count, 1) along the range of one input and a twentieth more at each end."""
    values = inputs.values
    if values.shape[1] != 1:
        raise ValueError(f"this picture is of one input, and the model has {values.shape[1]}.")
    low, high = float(values.min()), float(values.max())
    margin = 0.05 * (high - low) or 1.0
    return np.linspace(low - margin, high + margin, count)[:, None]


def line(X: Any, where: str) -> tuple[np.ndarray, np.ndarray]:
    """X (m, 1) and its only column; a plain vector is taken as that column."""
    vector = not hasattr(X, "columns") and not isinstance(X, dict) and np.ndim(X) == 1
    values = as_inputs(np.reshape(X, (-1, 1)) if vector else X).values
    if values.shape[1] != 1:
        raise ValueError(f"{where} draws along one input, but X has {values.shape[1]} columns.")
    return values, values[:, 0]
