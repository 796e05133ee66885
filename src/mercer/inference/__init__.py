"""Inference rules: how the sites of a posterior are found."""

from mercer.inference.ais import AIS, Estimate
from mercer.inference.base import AbstractInference, InferenceStatus, Result
from mercer.inference.ep import EP
from mercer.inference.exact import Exact
from mercer.inference.importance import Importance
from mercer.inference.laplace import Laplace
from mercer.inference.loo import LeaveOneOut, leave_one_out
from mercer.inference.mcmc import MCMC
from mercer.inference.variational import KL, LocalBound

__all__ = [
    "AIS", "EP", "KL", "MCMC", "AbstractInference", "Estimate", "Exact",
    "Importance", "InferenceStatus", "Laplace", "LeaveOneOut", "LocalBound", "Result", "by_name",
    "leave_one_out",
]  # fmt: skip

_NAMES = {
    "exact": Exact, "laplace": Laplace, "ep": EP, "variational": KL, "kl": KL, "local-bound": LocalBound,
    "mcmc": MCMC, "ais": AIS, "importance": Importance,
}  # fmt: skip


def by_name(inference, likelihood=None) -> AbstractInference:
    """A rule from its name or an instance. None: exact for Gaussian noise, EP for two classes, else Laplace."""
    if inference is None:
        inference = "exact" if likelihood is None else default_for(likelihood)
    if isinstance(inference, AbstractInference):
        return inference
    if isinstance(inference, str) and inference in _NAMES:
        return _NAMES[inference]()
    raise ValueError(f"unknown inference {inference!r}; there are {sorted(_NAMES)}, or an instance from mercer.inference.")


def default_for(likelihood) -> str:
    """The rule used for a likelihood when none is named."""
    from mercer.likelihoods import Bernoulli, Gaussian

    if isinstance(likelihood, Gaussian):
        return "exact"
    return "ep" if isinstance(likelihood, Bernoulli) or not likelihood.smooth else "laplace"
