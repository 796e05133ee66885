"""Inference rules: how the sites of a posterior are found."""

from mercer.inference.ais import AIS, Estimate
from mercer.inference.enumerate import Enumeration
from mercer.inference.ep import EP
from mercer.inference.exact import Exact
from mercer.inference.gibbs import Gibbs
from mercer.inference.importance import Importance
from mercer.inference.laplace import Laplace
from mercer.inference.mcmc import MCMC
from mercer.inference.protocol import (
    AbstractConditioning,
    AbstractEvidence,
    AbstractInference,
    AbstractSampler,
    AbstractSiteRule,
    InferenceStatus,
    Result,
)
from mercer.inference.scale_mixture import ScaleMixture
from mercer.inference.svgp import SVGP
from mercer.inference.variational import KL, LocalBound
from mercer.sampling.scale_mixture import scales_of

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

_NAMES = {
    "exact": Exact, "laplace": Laplace, "ep": EP, "variational": KL, "kl": KL, "local-bound": LocalBound,
    "mcmc": MCMC, "ais": AIS, "importance": Importance, "scale-mixture": ScaleMixture,
    "gibbs": Gibbs, "enumeration": Enumeration, "svgp": SVGP,
}  # fmt: skip


def by_name(inference, likelihood=None) -> AbstractInference:
    """A rule from its name or an instance; None is the likelihood's default.

    Exact for Gaussian noise, EP for two classes and for Laplace and mixture noise, ScaleMixture for
    Student-t, else Laplace. "variational" is ScaleMixture for noise that is a scale mixture of normals, and
    KL otherwise; "mcmc" is Gibbs for mixture, Student-t and Laplace noise, and MCMC otherwise.
    """
    if inference is None:
        inference = "exact" if likelihood is None else default_for(likelihood)
    if isinstance(inference, AbstractInference):
        return inference
    if inference == "variational" and likelihood is not None and likelihood.scale_mixture:
        inference = "scale-mixture"
    if inference == "mcmc" and scales_of(likelihood) is not None:
        inference = "gibbs"
    if isinstance(inference, str) and inference in _NAMES:
        return _NAMES[inference]()
    raise ValueError(
        f"unknown inference {inference!r}; there are {sorted(_NAMES)}, or an instance from mercer.inference."
    )


def default_for(likelihood) -> str:
    """The rule used for a likelihood when none is named."""
    from mercer.likelihoods import Bernoulli, ContaminatedUniform, Gaussian, GaussianMixtureNoise, StudentT

    if isinstance(likelihood, Gaussian):
        return "exact"
    if isinstance(likelihood, StudentT):
        return "scale-mixture"
    by_ep = (
        isinstance(likelihood, Bernoulli | GaussianMixtureNoise | ContaminatedUniform)
        or not likelihood.smooth
    )
    return "ep" if by_ep else "laplace"


def __dir__() -> list[str]:
    return sorted(__all__)
