"""What was observed of a function: values, derivatives, integrals over boxes, signs of derivatives.

>>> from mercer import observe
>>> data = observe.values(X, y) + observe.derivatives(X2, dy, column=0) + observe.integrals(lower, upper, z)
>>> post = mercer.GP(kernels.SE()).condition(data, noise_variance=0.01)
>>> post.mean(observe.derivatives(Xs, column=0))
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mercer.observe.observations import Observations, derivatives, integrals, signs, values
from mercer.registry import exporter

if TYPE_CHECKING:
    from mercer.observe.invariances import VirtualExamples, tangents, virtual_examples

__all__ = [
    "Observations",
    "VirtualExamples",
    "derivatives",
    "integrals",
    "signs",
    "tangents",
    "values",
    "virtual_examples",
]

# imported when first used
__getattr__ = exporter(__name__, {"invariances": "VirtualExamples tangents virtual_examples"})


def __dir__() -> list[str]:
    return sorted(__all__)
