"""Hyperparameters in a report: in the user's units, with priors and how sure learning is of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import stats

from mercer import hyperpriors
from mercer.estimators.reports.shared import number
from mercer.kernels import Shared
from mercer.learning import Fit
from mercer.learning.curvature import intervals
from mercer.params import Parameter, element_names, parameters
from mercer.report import AbstractPart, Code, Heading, Notes, Table, Text
from mercer.solvers import Dense

MOST = 60  # hyperparameters that are listed
STANDARD = ("kernel.variance", "likelihood.noise_variance")  # told as standard deviations
EVALUATIONS = 3e11  # flops that curvature may take


def hyperparameters(
    fits: list[Fit], titles: list[str], inference: Any, target: str, terms: tuple[str, ...] = ()
) -> tuple[AbstractPart, ...]:
    """The parts of the section. terms: what the terms of the kernel are called."""
    parts: list[AbstractPart] = []
    for found, title in zip(fits, titles, strict=True):
        if title:
            parts.append(Heading(title))
        if found.posteriors[0].averages:
            parts.append(Text("Hyperparameters were not set to one value, but averaged over:"))
            parts.append(Code(found.summary()))
            continue
        parts += _learned(found, inference, target, terms)
    return tuple(parts)


def _learned(found: Fit, inference: Any, target: str, terms: tuple[str, ...]) -> list[AbstractPart]:
    known, said = _known(found, inference)
    rows: list[list[str]] = []
    for p in parameters(found.model):
        values, names = np.atleast_1d(p.value).ravel(), list(element_names(p.name, np.shape(p.value)))
        if not p.free and values.size > 6:
            rows.append([p.name, f"{values.size} values", "", "", p.status])
            continue
        for i, (name, value) in enumerate(zip(names, values, strict=True)):
            root = _root if p.name in STANDARD else float
            ends = known.get(name)
            between = "" if ends is None else " to ".join(number(root(end)) for end in ends)
            if name in known and ends is None:
                between = "not determined"
            what = called(found, p, i, name, target, terms)
            rows.append([what, number(root(float(value))), between, prior_words(p, i, root), p.status])
    more = len(rows) - MOST
    notes = [said]
    if more > 0:
        notes.append(f"{more} further hyperparameters are not listed.")
    s = found.status
    ended = "converged" if s.converged else f"did not converge ({s.message})"
    if s.evaluations:
        notes.append(
            f"The optimiser {ended}, after {s.evaluations} evaluations and {s.seconds:.2g} s; largest "
            f"gradient {s.gradient_norm:.2g}."
        )
    header = ("hyperparameter", "value", "95 % interval", "prior", "status")
    return [
        Table(
            "Length-scales are in units of their columns, standard deviations in those of the target",
            header,
            rows[:MOST],
            (1,),
        ),
        Notes(tuple(filter(None, notes)), warning=False),
        *([] if s.converged else [Notes(("The optimiser did not converge: see above.",), warning=True)]),
    ]


def _root(variance: float) -> float:
    """People think in units, not in their squares."""
    return float(np.sqrt(variance))


def _known(found: Fit, inference: Any) -> tuple[dict[str, Any], str]:
    """The intervals of free hyperparameters, and what is said of them."""
    free = sum(int(np.size(p.value)) for p in parameters(found.model) if p.free)
    n = len(found.posteriors[0].y)
    if not free:
        return {}, "Nothing was learned: all hyperparameters were given."
    d, latents = found.posteriors[0].inputs.values.shape[1], found.model.likelihood.latents
    solver = found.posteriors[0].solver or Dense()
    if 6.0 * free * solver.cost(n, d, latents).flops > EVALUATIONS:
        return {}, (
            f"Intervals of hyperparameters are not computed for {n:,} rows and {free} of them: they would "
            "take as long as the fit."
        )
    try:
        known = intervals(found, inference if isinstance(inference, str | None) else None)
    except (ValueError, ArithmeticError, np.linalg.LinAlgError) as error:
        return {}, f"Intervals of hyperparameters are not known: {error}"
    return known, (
        "The intervals are approximate: log evidence and log prior are taken for quadratic around their "
        "maximum, in logarithms of positive numbers. Not determined: data and prior leave a factor of more "
        "than 300 to each side."
    )


def called(found: Fit, p: Parameter, i: int, name: str, target: str, terms: tuple[str, ...] = ()) -> str:
    """What a person calls a hyperparameter; its name within the model beside it."""
    posterior = found.posteriors[0]
    inputs, kernel = posterior.inputs, found.model.kernels[0]
    if p.name == "kernel.lengthscale":
        names = kernel.names if isinstance(kernel, Shared) else inputs.names
        if names is not None and np.ndim(p.value):
            return f"length-scale of {names[i]}"
        return "length-scale" if not np.ndim(p.value) else f"length-scale of x{i}"
    words = {
        "kernel.variance": "standard deviation of the function",
        "likelihood.noise_variance": "standard deviation of the noise"
        + (f", group {i}" if np.ndim(p.value) else ""),
        "mean.constant": f"prior mean of {target}",
    }
    for j, term in enumerate(terms):
        if name.startswith(start := f"kernel.terms.{j}."):
            return f"{term}: {name.removeprefix(start)}"
    return words.get(p.name, name)


def prior_words(p: Parameter, i: int, root: Callable[[float], float] = float) -> str:
    """A prior, in words; the numbers between which its middle 95 % lie."""
    prior: Any = p.info.prior
    if not p.free or prior is None:
        return "none" if p.free else ""
    if isinstance(prior, hyperpriors.Each):
        prior = prior.priors[i]
    kind, ends = type(prior).__name__, _middle(prior)
    said = {"LogNormal": "log-normal", "InverseGamma": "inverse gamma", "HalfNormal": "half-normal"}
    name = said.get(kind, kind.lower())
    if ends is None:
        return name
    low, high = (number(root(end), 3) for end in ends)
    return f"{name}, 95 % between {low} and {high}"


def _middle(prior: Any) -> tuple[float, float] | None:
    """The ends of the middle 95 %, of the priors that models have most often."""
    tails = (0.025, 0.975)
    if isinstance(prior, hyperpriors.LogNormal):
        low, high = np.exp(prior.mu + prior.sigma * stats.norm.ppf(tails))
    elif isinstance(prior, hyperpriors.Normal):
        low, high = prior.mean + prior.sd * stats.norm.ppf(tails)
    elif isinstance(prior, hyperpriors.Gamma):
        low, high = stats.gamma.ppf(tails, prior.shape) / prior.rate
    elif isinstance(prior, hyperpriors.InverseGamma):
        low, high = prior.scale / stats.gamma.ppf(tails[::-1], prior.shape)
    else:
        return None
    return float(low), float(high)
