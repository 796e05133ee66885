"""Inference rules: how the sites of a posterior are found."""

from mercer.inference.base import AbstractInference, Result
from mercer.inference.exact import Exact
from mercer.inference.loo import LeaveOneOut, leave_one_out

__all__ = ["AbstractInference", "Exact", "LeaveOneOut", "Result", "by_name", "leave_one_out"]

_NAMES = {"exact": Exact}


def by_name(inference) -> AbstractInference:
    """A rule from its name, an instance, or None (exact)."""
    if inference is None:
        return Exact()
    if isinstance(inference, AbstractInference):
        return inference
    if isinstance(inference, str) and inference in _NAMES:
        return _NAMES[inference]()
    raise ValueError(f"unknown inference {inference!r}; there are {sorted(_NAMES)}, or an instance from mercer.inference.")
