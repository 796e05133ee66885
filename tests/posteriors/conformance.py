"""What every posterior is checked on: a few data, and one posterior of each kind by name.

A kind of posterior joins by one line in `CASES`. Draws are made by hand, not by chains: what is checked is
what follows from them.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import numpy as np

import mercer as mc
from mercer import kernels as k
from mercer import likelihoods as lk
from mercer import solvers
from mercer.gp import prepare
from mercer.inference import EP, Enumeration, Laplace
from mercer.posteriors import (
    AbstractPosterior,
    AveragedPosterior,
    DrawsPosterior,
    GivenHyperparameters,
    GivenLatents,
    GivenScales,
)
from mercer.sampling.chains import Chains
from mercer.sampling.scale_mixture import Indicators

N, CHAINS, DRAWS = 5, 2, 20
RNG = np.random.default_rng(4)
X = np.array([[-1.4], [-0.6], [0.0], [0.8], [1.7]])
XS = np.array([[-0.9], [0.3], [2.5]])
Y = np.array([-0.9, -0.4, 0.2, 2.6, 0.9])  # the fourth is an outlier
LABELS = np.array([-1.0, -1.0, 1.0, -1.0, 1.0])
CLASSES = np.array([0.0, 0.0, 1.0, 2.0, 1.0])

PRIOR = mc.GP(k.SE(0.9, 1.3) + k.Linear(0.2), mean=0.1)
NOISE = lk.GaussianMixtureNoise(0.15, 0.05, 60.0)
GAUSSIAN = mc.Model(PRIOR, lk.Gaussian(0.07))
MIXED = mc.Model(PRIOR, NOISE)
BINARY = mc.Model(PRIOR, lk.Bernoulli())
MODELS = [mc.Model(mc.GP(k.SE(l, 1.3), mean=0.1), lk.Gaussian(0.3 * l)) for l in (0.5, 0.9, 1.6)]


def drawn(model: mc.Model, y: np.ndarray, given: Any, models: list[Any] | None = None) -> DrawsPosterior:
    """Draws by hand: chains that say nothing, and what f is given them."""
    inputs, y = prepare(model, X, y)
    f = RNG.normal(size=(CHAINS, DRAWS, N))
    zeros = np.zeros((CHAINS, DRAWS))
    chains = Chains(f, zeros, zeros, zeros > 0, zeros, zeros, 0.1, np.ones(N), False, 0.0)
    diagnostics = chains.diagnostics(tuple(f"f[{i}]" for i in range(N)))
    models = [model.bind(inputs)] if models is None else [m.bind(inputs) for m in models]
    return DrawsPosterior(
        model.bind(inputs), inputs, y, {"f": f}, chains, diagnostics, models, given, solvers.Dense()
    )


def latents(size: int = CHAINS * DRAWS) -> GivenLatents:
    """Whitened latent values (S, 1, n)."""
    return GivenLatents(np.random.default_rng(5).normal(size=(size, 1, N)))


def scales(noise: np.ndarray | None = None) -> GivenScales:
    """Noise variances of each datum (S, n): of the fourth mostly that of an outlier."""
    rng = np.random.default_rng(6)
    outlying = rng.random((CHAINS, DRAWS, N)) < np.array([0.1, 0.1, 0.1, 0.9, 0.1])
    variances = 0.05 * np.where(outlying, 60.0, 1.0)
    used = variances.reshape(-1, N) if noise is None else noise
    return GivenScales(variances, used, outlying.mean((0, 1)), Indicators(), outlying)


def averaged(models: list[mc.Model], y: np.ndarray, rule: Any = None) -> AveragedPosterior:
    parts = tuple(model.condition(X, y, rule) for model in models)
    return AveragedPosterior(parts, np.arange(1.0, len(parts) + 1) / np.arange(len(parts) + 1).sum())


@dataclasses.dataclass(frozen=True)
class Case:
    """`continuous`: y is a number with a density; `classes`: their number, 0 where there are none. `inexact`:
    how far quantiles may be off as probabilities (those from simulated y); `latents`: L.
    """

    make: Callable[[], AbstractPosterior]
    continuous: bool = True
    classes: int = 0
    inexact: float = 1e-6
    latents: int = 1


def _several_classes(rule: Any) -> AbstractPosterior:
    return mc.Model(mc.GP(k.SE(0.9, 2.0)), lk.Softmax(3)).condition(X, CLASSES, rule)


CASES = {
    "gaussian": Case(lambda: GAUSSIAN.condition(X, Y)),
    "gaussian on inducing inputs": Case(
        lambda: GAUSSIAN.condition(X, Y, solver=solvers.VFE(inducing=X[::2]))
    ),
    "gaussian with a basis": Case(
        lambda: mc.GP(k.SE(0.9), basis=mc.means.Polynomial(1)).condition(X, Y, noise_variance=0.1)
    ),
    "gaussian by EP": Case(lambda: MIXED.condition(X, Y, EP())),
    "gaussian of two classes": Case(lambda: BINARY.condition(X, LABELS, EP()), False, 2),
    "gaussian of three classes": Case(lambda: _several_classes(Laplace()), False, 3, latents=3),
    "draws of f": Case(lambda: drawn(GAUSSIAN, Y, latents())),
    "draws of f, mixture noise": Case(lambda: drawn(MIXED, Y, latents()), inexact=0.06),
    "draws of f, two classes": Case(lambda: drawn(BINARY, LABELS, latents()), False, 2),
    "draws of hyperparameters": Case(
        lambda: drawn(MODELS[1], Y, GivenHyperparameters(solvers.Dense()), MODELS)
    ),
    "draws of noise variances": Case(lambda: drawn(MIXED, Y, scales())),
    "averaged": Case(lambda: averaged(MODELS, Y)),
    "averaged, two classes": Case(
        lambda: averaged([BINARY, mc.Model(mc.GP(k.SE(0.5, 3.0)), lk.Bernoulli())], LABELS, EP()), False, 2
    ),
    "enumerated": Case(lambda: MIXED.condition(X, Y, Enumeration())),
}


@functools.cache
def posterior(name: str) -> AbstractPosterior:
    return CASES[name].make()


def observations(name: str, m: int) -> np.ndarray:
    """Something that may be observed at m test inputs."""
    case = CASES[name]
    return Y[:m] if case.continuous else np.arange(m) % max(case.classes, 2)
