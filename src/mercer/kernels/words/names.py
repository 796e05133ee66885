"""How a kernel is written: the text that `kernels.parse` reads back.

With 17 digits the text is complete: every bit of every number, and what was said of the hyperparameters
(`fixed(1.0)`, `param(2.0, bounds=(1, 3))`, priors, ties). With fewer it is for people.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import numpy as np

from mercer.params import Info, Parametrised, Static

EXACT = 17
SHORT = {"lengthscale": "l"}  # fields with a short form
SUM, PRODUCT, POWER, CALL = range(4)  # how tightly a formula holds together: a kernel's `level`


def call(
    value: Parametrised, digits: int = 6, columns: tuple[str, ...] = (), skip: tuple[str, ...] = ()
) -> str:
    """`Name(columns, kernels, field=...)`. Kernels that come first stand without the name of their field."""
    shown, leading = list(columns), not columns
    for f in dataclasses.fields(value):
        child = getattr(value, f.name)
        if f.name == "info" or f.name in skip or (child is None and f.default is None):
            continue
        text = hyperparameter(value, f.name, digits) if "constraint" in f.metadata else written(child, digits)
        leading = leading and isinstance(child, Parametrised) and not text.isidentifier()
        shown.append(text if leading else f"{SHORT.get(f.name, f.name)}={text}")
    return f"{type(value).__name__}({', '.join(shown)})"


def simple(kernel: Any, digits: int = 6, columns: tuple[str, ...] = (), chosen: str = "") -> str:
    """A kernel without an operator of its own, its variance in front: `2 * SE(l=0.3)`. `chosen`: `.on(...)`,
    if that follows.
    """
    if not leads(kernel, digits):
        return call(kernel, digits, columns) + chosen
    text = call(kernel, digits, columns, skip=("variance",)) + chosen
    return text if _is_one(kernel.variance) else f"{number(kernel.variance, digits)} * {text}"


def bracketed(kernel: Any, digits: int, level: int) -> str:
    """The kernel's formula, in brackets if it holds together less tightly than `level`."""
    text = kernel.formula(digits)
    own = min(kernel.level, PRODUCT) if text[0].isdigit() else kernel.level
    return f"({text})" if own < level else text


def leads(kernel: Any, digits: int = 6) -> bool:
    """Whether the kernel's variance is written as a number in front of it."""
    variance = getattr(kernel, "variance", None)
    said = digits >= EXACT and dict(kernel.info).get("variance", Info()) != Info()
    return variance is not None and np.ndim(variance) == 0 and not said


def written(value: Any, digits: int = 6) -> str:
    """Anything that stands in a field."""
    if hasattr(value, "formula"):
        return value.formula(digits)
    if isinstance(value, (tuple, list)):
        return f"[{', '.join(written(v, digits) for v in value)}]"
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        shown = ", ".join(
            f"{f.name}={written(getattr(value, f.name), digits)}" for f in dataclasses.fields(value)
        )
        return f"{type(value).__name__}({shown})"
    return (
        number(value, digits)
        if isinstance(value, (float, np.floating, np.ndarray, jax.Array))
        else repr(value)
    )


def number(value: Any, digits: int = 6) -> str:
    """A number or array of numbers."""
    if isinstance(value, jax.core.Tracer):
        return "traced"
    array = np.asarray(value, float)
    if array.ndim:
        return f"[{', '.join(number(v, digits) for v in array)}]"
    return f"{float(array)!r}".removesuffix(".0") if digits >= EXACT else f"{float(array):.{digits}g}"


def hyperparameter(owner: Parametrised, name: str, digits: int = 6) -> str:
    """The value of a field and, in the complete text, what was said of it."""
    value, metadata = getattr(owner, name), type(owner).__dataclass_fields__[name].metadata
    if value is None:
        return "None"
    text = number(value, digits)
    default = Info(free=metadata["free"])
    info = dict(owner.info).get(name, default)
    if isinstance(value, Static) or digits < EXACT:
        return text
    if info == Info(free=False) != default:
        return f"fixed({text})"
    if info == default and not metadata["structural"]:
        return text
    said = [
        f"{k}={written(getattr(info, k), digits)}"
        for k in ("prior", "bounds", "tie")
        if getattr(info, k) is not None
    ]
    return f"param({', '.join([text, *said])})"


def _is_one(value) -> bool:
    return not isinstance(value, jax.core.Tracer) and float(value) == 1.0
