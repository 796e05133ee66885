"""Likelihoods: how observations depend on the latent function.

>>> from mercer import likelihoods
>>> likelihoods.Bernoulli("logit"), likelihoods.Poisson(), likelihoods.by_name("student-t")
"""

from __future__ import annotations

from collections.abc import Callable

from mercer.likelihoods.base import AbstractLikelihood
from mercer.likelihoods.bernoulli import Bernoulli
from mercer.likelihoods.custom import Custom, Positive, Real
from mercer.likelihoods.gaussian import Gaussian
from mercer.likelihoods.heteroscedastic import Heteroscedastic
from mercer.likelihoods.laplace import EpsilonInsensitive, Laplace
from mercer.likelihoods.mixture import GaussianMixtureNoise
from mercer.likelihoods.noise import AbstractNoise
from mercer.likelihoods.null_category import NullCategory
from mercer.likelihoods.ordinal import Ordinal
from mercer.likelihoods.poisson import Poisson
from mercer.likelihoods.softmax import Softmax
from mercer.likelihoods.student_t import StudentT
from mercer.likelihoods.uniform import ContaminatedUniform

__all__ = [
    "AbstractLikelihood",
    "AbstractNoise",
    "Bernoulli",
    "ContaminatedUniform",
    "Custom",
    "EpsilonInsensitive",
    "Gaussian",
    "GaussianMixtureNoise",
    "Heteroscedastic",
    "Laplace",
    "NullCategory",
    "Ordinal",
    "Poisson",
    "Positive",
    "Real",
    "Softmax",
    "StudentT",
    "by_name",
]

_NAMES: dict[str, Callable[..., AbstractLikelihood]] = {
    "gaussian": Gaussian,
    "probit": lambda **kw: Bernoulli("probit", **kw),
    "logit": lambda **kw: Bernoulli("logit", **kw),
    "poisson": Poisson,
    "student-t": StudentT,
    "laplace": Laplace,
    "epsilon-insensitive": EpsilonInsensitive,
    "mixture": GaussianMixtureNoise,
    "uniform": ContaminatedUniform,
    "null-category": NullCategory,
    "ordinal": Ordinal,
    "heteroscedastic": Heteroscedastic,
    "softmax": Softmax,
}


def by_name(likelihood, **settings) -> AbstractLikelihood:
    """A likelihood from its name and settings, or an instance as it is: `by_name("softmax", classes=3)`."""
    if isinstance(likelihood, AbstractLikelihood):
        if settings:
            raise ValueError(
                f"settings {sorted(settings)} go with a name; a {type(likelihood).__name__} has its own."
            )
        return likelihood
    if not isinstance(likelihood, str) or likelihood not in _NAMES:
        raise ValueError(
            f"unknown likelihood {likelihood!r}; there are {sorted(_NAMES)}, or an instance from "
            "mercer.likelihoods."
        )
    try:
        return _NAMES[likelihood](**settings)
    except TypeError:
        required = {"softmax": "classes=3", "ordinal": "levels=5"}
        example = f": by_name({likelihood!r}, {required[likelihood]})" if likelihood in required else ""
        raise ValueError(
            f"{likelihood!r} does not take the settings {sorted(settings)}, or lacks one{example}."
        ) from None


def __dir__() -> list[str]:
    return sorted(__all__)
