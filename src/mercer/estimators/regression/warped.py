"""Targets that are Gaussian only after a rising function of them, as settings of a regressor say it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from mercer.estimators.regression.noise import RowNoise
from mercer.likelihoods import AbstractLikelihood, Gaussian
from mercer.params import parameters

if TYPE_CHECKING:
    from mercer.warps import AbstractWarp


def warp_for(given: Any, y: np.ndarray) -> AbstractWarp | None:
    """The warp of targets y (n,), which it is checked to be defined for: by its name with a start and units
    from y, an instance as it stands.
    """
    if given is None:
        return None
    from mercer.warps import by_name

    warp = by_name(given)
    warp = warp.suited(y) if isinstance(given, str) else warp
    warp.check(y)
    return warp


def with_warp(warp: AbstractWarp | None, noise: AbstractLikelihood) -> AbstractLikelihood:
    """The likelihood of y where `noise` is that of its warped values."""
    if warp is None:
        return noise
    if not isinstance(noise, Gaussian):
        raise ValueError(_NOT_WITH)
    from mercer.likelihoods import Warped

    return Warped(warp, noise)


def is_learned(likelihood: Any) -> bool:
    """Whether the warp has anything to learn, so that no mean of warped targets can be held."""
    return likelihood.warps and any(p.free for p in parameters(likelihood.warp))


def check_warped(warp: Any, likelihood: Any, known: RowNoise, others: list[Any]) -> None:
    """What a warp does not go with. others: settings that must not be given."""
    if warp is None:
        return
    plain = likelihood is None or isinstance(likelihood, Gaussian) or likelihood == "gaussian"
    if not plain or known.error is not None or any(other is not None for other in others):
        raise ValueError(_NOT_WITH)


_NOT_WITH = (
    "warp goes with Gaussian noise of the warped target: leave out likelihood, input_noise, monotone and "
    "convex; and y_error, which is in units of y."
)


def warp_of(likelihood: Any) -> AbstractWarp | None:
    """Its warp, where it has one."""
    return likelihood.warp if likelihood.warps else None


def gaussian_noise(likelihood: Any) -> AbstractLikelihood:
    """The noise of the warped targets, where they are."""
    return likelihood.noise if likelihood.warps else likelihood
