"""Likelihoods: how observations depend on the latent function.

>>> from mercer import likelihoods
>>> likelihoods.Bernoulli("logit"), likelihoods.Poisson(), likelihoods.by_name("student-t")
"""

from __future__ import annotations

import dataclasses
import importlib
from typing import TYPE_CHECKING, Any, Literal

from mercer.likelihoods.base import AbstractLikelihood
from mercer.likelihoods.gaussian import AbstractGaussianNoise, Gaussian
from mercer.likelihoods.noise import AbstractNoise
from mercer.registry import named

if TYPE_CHECKING:
    from mercer.likelihoods.bernoulli import Bernoulli
    from mercer.likelihoods.beta import Beta
    from mercer.likelihoods.binomial import Binomial
    from mercer.likelihoods.censored import Censored
    from mercer.likelihoods.custom import Custom, Positive, Real
    from mercer.likelihoods.heteroscedastic import Heteroscedastic
    from mercer.likelihoods.laplace import EpsilonInsensitive, Laplace
    from mercer.likelihoods.mixed import Mixed
    from mercer.likelihoods.mixture import GaussianMixtureNoise
    from mercer.likelihoods.multinomial import MultinomialProbit
    from mercer.likelihoods.negative_binomial import NegativeBinomial
    from mercer.likelihoods.null_category import NullCategory
    from mercer.likelihoods.ordinal import Ordinal
    from mercer.likelihoods.poisson import Poisson
    from mercer.likelihoods.positive import Gamma, LogLogistic, Weibull
    from mercer.likelihoods.softmax import Softmax
    from mercer.likelihoods.student_t import StudentT
    from mercer.likelihoods.uniform import ContaminatedUniform
    from mercer.likelihoods.warped import Warped

# where the others are; a module is imported when one of its names is first asked for
_MODULES = {
    "bernoulli": "Bernoulli",
    "beta": "Beta",
    "binomial": "Binomial",
    "censored": "Censored",
    "custom": "Custom Positive Real",
    "heteroscedastic": "Heteroscedastic",
    "laplace": "EpsilonInsensitive Laplace",
    "mixed": "Mixed",
    "mixture": "GaussianMixtureNoise",
    "multinomial": "MultinomialProbit",
    "negative_binomial": "NegativeBinomial",
    "null_category": "NullCategory",
    "ordinal": "Ordinal",
    "poisson": "Poisson",
    "positive": "Gamma LogLogistic Weibull",
    "softmax": "Softmax",
    "student_t": "StudentT",
    "uniform": "ContaminatedUniform",
    "warped": "Warped",
}
_WHERE = {name: module for module, names in _MODULES.items() for name in names.split()}

__all__ = [
    "AbstractGaussianNoise",
    "AbstractLikelihood",
    "AbstractNoise",
    "Bernoulli",
    "Beta",
    "Binomial",
    "Censored",
    "ContaminatedUniform",
    "Custom",
    "EpsilonInsensitive",
    "Gamma",
    "Gaussian",
    "GaussianMixtureNoise",
    "Heteroscedastic",
    "Laplace",
    "LogLogistic",
    "Mixed",
    "MultinomialProbit",
    "NegativeBinomial",
    "NullCategory",
    "Ordinal",
    "Poisson",
    "Positive",
    "Real",
    "Softmax",
    "StudentT",
    "Warped",
    "Weibull",
    "by_name",
    "of_numbers",
]

# where people type something shorter than the name of the class
_SHORT = {"ContaminatedUniform": "uniform", "GaussianMixtureNoise": "mixture"}
_LINKS: dict[str, Literal["logit", "probit"]] = {"logit": "logit", "probit": "probit"}


def by_name(likelihood: Any, **settings: Any) -> AbstractLikelihood:
    """A likelihood from its name and settings, or an instance as it is: `by_name("softmax", classes=3)`.

    The name is that of the class in lower case ("student-t" for `StudentT`), but "mixture" and "uniform" for
    Gaussian noise with outliers of a larger variance and of any value; "probit" and "logit" are
    `Bernoulli`'s.
    """
    if isinstance(likelihood, AbstractLikelihood):
        if settings:
            raise ValueError(
                f"settings {sorted(settings)} go with a name; a {type(likelihood).__name__} has its own."
            )
        return likelihood
    if isinstance(likelihood, str) and likelihood in _LINKS:
        from mercer.likelihoods.bernoulli import Bernoulli

        return Bernoulli(_LINKS[likelihood], **settings)
    cls = named("likelihoods", likelihood, AbstractLikelihood, _SHORT, tuple(_LINKS))
    try:
        return cls(**settings)
    except TypeError:
        fields = dataclasses.fields(cls)
        needed = [f.name for f in fields if f.default is f.default_factory is dataclasses.MISSING]
        example = f"; by_name({likelihood!r}, {', '.join(f'{n}=...' for n in needed)})" if needed else ""
        raise ValueError(f"{likelihood!r} does not take the settings {sorted(settings)}{example}.") from None


def of_numbers(name: str) -> AbstractLikelihood:
    """`by_name`, for targets that are numbers: a name that is not known is answered with those of likelihoods
    that have one latent function, no classes, and need no settings.

    >>> of_numbers("student-t")
    """
    if name not in _LINKS:
        named("likelihoods", name, AbstractLikelihood, _SHORT, listed=_of_numbers)
    return by_name(name)


def _of_numbers(cls: type[Any]) -> bool:
    if cls.categorical:
        return False
    try:
        return bool(cls().latents == 1)
    except TypeError:
        return False


def __getattr__(name: str):
    if name not in _WHERE:
        raise AttributeError(f"module 'mercer.likelihoods' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"mercer.likelihoods.{_WHERE[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
