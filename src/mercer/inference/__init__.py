"""Inference rules: how the sites of a posterior are found. Each is imported when first used."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mercer.inference.protocol import (
    AbstractConditioning,
    AbstractEvidence,
    AbstractInference,
    AbstractSampler,
    AbstractSiteRule,
    Result,
)
from mercer.posteriors.answers import InferenceStatus
from mercer.registry import exporter, named

if TYPE_CHECKING:
    from mercer.inference.ais import AIS
    from mercer.inference.enumerate import Enumeration
    from mercer.inference.ep import EP
    from mercer.inference.estimate import Estimate
    from mercer.inference.exact import Exact
    from mercer.inference.gibbs import Gibbs
    from mercer.inference.importance import Importance
    from mercer.inference.laplace import Laplace
    from mercer.inference.mcmc import MCMC
    from mercer.inference.scale_mixture import ScaleMixture
    from mercer.inference.svgp import SVGP
    from mercer.inference.variational import KL, LocalBound

_MODULES = {
    "ais": "AIS",
    "enumerate": "Enumeration",
    "ep": "EP",
    "estimate": "Estimate",
    "exact": "Exact",
    "gibbs": "Gibbs",
    "importance": "Importance",
    "laplace": "Laplace",
    "mcmc": "MCMC",
    "scale_mixture": "ScaleMixture",
    "svgp": "SVGP",
    "variational": "KL LocalBound",
}

__all__ = [
    "AIS",
    "EP",
    "KL",
    "MCMC",
    "SVGP",
    "AbstractConditioning",
    "AbstractEvidence",
    "AbstractInference",
    "AbstractSampler",
    "AbstractSiteRule",
    "Enumeration",
    "Estimate",
    "Exact",
    "Gibbs",
    "Importance",
    "InferenceStatus",
    "Laplace",
    "LocalBound",
    "Result",
    "ScaleMixture",
    "by_name",
]

__getattr__ = exporter(__name__, _MODULES)


def by_name(inference: Any, likelihood: Any = None) -> AbstractInference:
    """A rule from its name ("scale-mixture") or an instance; None is the likelihood's default.

    Exact for Gaussian noise, EP for two classes and for Laplace and mixture noise, ScaleMixture for
    Student-t, else Laplace. "variational" is ScaleMixture for noise that is a scale mixture of normals, and
    KL otherwise; "mcmc" is Gibbs for mixture, Student-t and Laplace noise, and MCMC otherwise.
    """
    if isinstance(inference, AbstractInference):
        return inference
    if inference is None:
        inference = "exact" if likelihood is None else likelihood.default_rule
    elif inference == "variational":
        inference = "scale-mixture" if likelihood is not None and likelihood.scale_mixture else "kl"
    elif inference == "mcmc" and likelihood is not None:
        inference = likelihood.sampled_by
    return named("inference", inference, AbstractInference, also=("variational",))()


def __dir__() -> list[str]:
    return sorted(__all__)
