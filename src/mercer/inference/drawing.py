"""What the samplers share (MCMC, Gibbs)."""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from mercer.distributed.jobs import at_hand
from mercer.inference.protocol import AbstractSampler
from mercer.posteriors.answers import InferenceStatus
from mercer.sampling.chains import Chains, drawn
from mercer.sampling.elsewhere import Elsewhere, data_of, told
from mercer.sampling.hyper import Hyperparameters
from mercer.sampling.step import AbstractStep
from mercer.sampling.target import Target

LATENT_DRAWS = 1000  # predictions at fixed hyperparameters average over at most this many draws
HYPER_DRAWS = 200  # and those over hyperparameters over at most this many, each of which is factored again


@dataclasses.dataclass(frozen=True)
class AbstractDrawing(AbstractSampler):
    """A sampler of Markov chains. draws: kept in each chain.

    Chains factor the prior's covariance themselves; the solver does the Gaussian algebra around them, and
    must be exact: draws under the prior do not belong to what stands in its place.
    """

    draws: int = 1000

    needs: ClassVar[frozenset[str]] = frozenset({"exact"})

    @abc.abstractmethod
    def transition(self, model: Any, learn: bool) -> tuple[Callable[..., Any], AbstractStep]:
        """The log density of chains, of the model's free hyperparameters where these are learned, and the
        step they make.
        """

    def elsewhere(self, model: Any, X: np.ndarray, target: Target, learn: bool) -> Elsewhere | None:
        """Who draws once the step is tuned: None for this process, as where chains go side by side in
        vectorised code.
        """
        workers = at_hand()
        if workers.here or target.together:
            return None
        rule = dataclasses.replace(self, progress=None)  # type: ignore[call-arg]
        return Elsewhere(workers, draw, told(model, X, target.data) | {"rule": rule, "learn": learn})

    def notes(self, chains: Chains, diagnostics: Any, used: int) -> tuple[str, ...]:
        """What a person should know of the chains, and of how many draws predictions use."""
        out, total = list(diagnostics.problems()), diagnostics.chains * diagnostics.draws
        if chains.interrupted:
            out.append(f"interrupted: {diagnostics.draws} of {self.draws} draws were made in each chain")
        if used < total:
            out.append(f"predictions average over {used} of {total} draws")
        return tuple(out)


def draw(
    rule: AbstractDrawing, learn: bool, model: Any, X: Any, data: dict[str, Any], **given: Any
) -> dict[str, Any]:
    """A job: a part of one chain."""
    return drawn(*rule.transition(model, learn), data_of(model, X, data), **given)


def spread(shape: tuple[int, int], most: int) -> np.ndarray:
    """Indices of at most so many draws of all chains, evenly spread, every chain with its share."""
    total = shape[0] * shape[1]
    return np.unique(np.linspace(0, total - 1, min(total, most)).round().astype(int))


def status(diagnostics: Any, chains: Chains) -> InferenceStatus:
    """Whether the draws can be trusted, and the figures that say so."""
    message = (
        f"R-hat at most {diagnostics.worst_r_hat:.3f}, at least {diagnostics.least_ess:.0f} effective draws"
    )
    if diagnostics.divergences:
        message += f", {diagnostics.divergences} divergences"
    if chains.interrupted:
        message = "interrupted; " + message
    return InferenceStatus(diagnostics.trusted and not chains.interrupted, diagnostics.draws, message)


def wide_priors(hyper: Hyperparameters) -> tuple[str, ...]:
    """A note on the hyperparameters that were given no prior."""
    wide = ", ".join(hyper.names[slot.start] for slot in hyper.spec.slots if slot.prior is None)
    note = (
        f"no prior was given for {wide}: a wide one around the start was used (LogNormal(log start, 3) "
        "if positive)"
    )
    return (note,) if wide else ()
