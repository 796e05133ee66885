"""Markov chain Monte Carlo: draws of the exact posterior, for any likelihood,
at fixed or at free hyperparameters.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from mercer.inference.drawing import HYPER_DRAWS, LATENT_DRAWS, AbstractDrawing, spread, status, wide_priors
from mercer.inference.ep import EP
from mercer.inference.exact import gaussian_sites
from mercer.inference.laplace import Laplace
from mercer.inference.protocol import AbstractSiteRule
from mercer.inputs import Inputs
from mercer.likelihoods.gaussian import Gaussian
from mercer.linalg.cholesky import NotPositiveDefinite
from mercer.posteriors.draws import DrawsPosterior
from mercer.posteriors.given import AbstractGiven, GivenHyperparameters, GivenLatents
from mercer.progress import Progress
from mercer.sampling import chains as runs
from mercer.sampling.chains import Chains
from mercer.sampling.elliptical import EllipticalSlice
from mercer.sampling.hmc import NUTS
from mercer.sampling.hyper import Hyperparameters
from mercer.sampling.interleave import Interleaved
from mercer.sampling.step import AbstractStep
from mercer.sampling.target import (
    Target,
    Whitening,
    evidence_density,
    evidence_target,
    joint_density,
    joint_target,
    latent_density,
    latent_target,
    whiten,
)
from mercer.solvers.protocol import AbstractSolver, Sites, SolverError


@dataclasses.dataclass(frozen=True)
class MCMC(AbstractDrawing):
    """Draws of the posterior by Markov chains (Kuss 4.3, A.4).

    `model.condition(X, y, MCMC())` samples the latent values f at the hyperparameters as they are;
    `mercer.fit(model, X, y, inference=MCMC())` samples the free hyperparameters too (for Gaussian noise
    alone, with f integrated out).

    draws: kept in each chain, of which every `thin`-th is
    tune: steps before, in which step size and variances are tuned and which are thrown away
    chains: how many; two or more can be compared with each other
    seed: of the chains
    sampler: "nuts", "hmc", "elliptical", "metropolis" or an instance from `mercer.sampling`
    progress: True, False, None, or a function (done, total, text)
    whiten: "posterior" (chains run in coordinates in which a Gaussian approximation is standard normal) or
        "prior"
    updates: for free hyperparameters, "ancillary" (theta moves while the whitened latents stand) or
        "interleaved" (then also while f itself stands, which helps where data are strong)
    step_size: where tuning starts, and what is used as it is with tune=0

    With `parallel=` of `mercer.fit` chains are tuned together here, then others draw one each, with the same
    draws; chains of few data (32), or of f at fixed hyperparameters, go side by side here in vectorised code.

    >>> model = mercer.Model(mercer.GP(kernels.SE(1.0, 4.0)), likelihoods.Bernoulli())
    >>> post = model.condition(X, y > 0, MCMC(draws=100, tune=100, chains=2))
    >>> print(post.diagnostics); post.probability(Xs), post.draws["f"]           # (m,), (2, 100, n)
    """

    tune: int = 1000
    chains: int = 4
    seed: int = 0
    sampler: Any = "nuts"
    thin: int = 1
    progress: Progress = None
    whiten: str = "posterior"
    updates: str = "ancillary"
    step_size: float | None = None

    def __post_init__(self):
        runs.check_lengths(self.draws, self.tune, self.chains, self.thin)
        runs.by_name(self.sampler)
        if self.step_size is not None and not self.step_size > 0:
            raise ValueError(f"MCMC.step_size must be above zero, got {self.step_size}.")
        if self.whiten not in ("posterior", "prior"):
            raise ValueError(f"MCMC.whiten must be 'posterior' or 'prior', got {self.whiten!r}.")
        if self.updates not in ("ancillary", "interleaved"):
            raise ValueError(f"MCMC.updates must be 'ancillary' or 'interleaved', got {self.updates!r}.")

    # -- latent values at fixed hyperparameters --------------------------------------------------------------

    def posterior(self, model: Any, inputs: Inputs, y: np.ndarray, solver: AbstractSolver) -> DrawsPosterior:
        """Draws of f (chains, draws, n), or (chains, draws, n, L), at the model's hyperparameters."""
        self.check(solver)
        white, notes = whitening(model, inputs.values, y, solver, self.whiten)
        target = latent_target(model.likelihood, y, white)
        chains = self._run(target, np.zeros(target.size), model, inputs.values, learn=False)
        kept = chains.draws[..., target.data["where"]]
        n, L = white.shape
        u = white.prior_whitened(kept.reshape(-1, n * L))
        f = white.latents(u).reshape(*kept.shape[:2], n, L)
        names = tuple(f"f[{i}]" if L == 1 else f"f[{i},{j}]" for i in range(n) for j in range(L))
        diagnostics = chains.diagnostics(names, f.reshape(*kept.shape[:2], -1))
        used = spread(kept.shape[:2], LATENT_DRAWS)
        if white.jitter:
            notes = (*notes, f"jitter of {white.jitter:.3g} was added to the diagonal")
        return DrawsPosterior(
            model,
            inputs,
            y,
            {"f": f[..., 0] if L == 1 else f},
            chains,
            diagnostics,
            [model],
            GivenLatents(u[used]),
            solver,
            (*notes, *self.notes(chains, diagnostics, len(used))),
            status(diagnostics, chains),
        )

    # -- hyperparameters -------------------------------------------------------------------------------------

    def learn(
        self, model: Any, inputs: Inputs, y: np.ndarray, solver: AbstractSolver, near: Any = None
    ) -> DrawsPosterior:
        """Draws of the free hyperparameters, with f integrated out for Gaussian noise and jointly with f
        otherwise.

        The model's own values are the centre of the wide prior of hyperparameters without one; chains start
        around those of `near`.
        """
        self.check(solver)
        near = model if near is None else near
        guess = np.asarray(model.likelihood.guess(y), float)
        hyper = Hyperparameters(model, float(np.std(guess)) or 1.0)
        if hyper.size == 0:
            return self.posterior(model, inputs, y, solver)
        gaussian = isinstance(model.likelihood, Gaussian)
        if gaussian and np.any(np.asarray(model.likelihood.variances) == 0):
            raise SolverError(
                "sampling hyperparameters needs noise: give the likelihood a noise_variance above zero."
            )
        rng = np.random.default_rng(self.seed)
        theta = Hyperparameters(near).vector + 0.3 * rng.standard_normal((self.chains, hyper.size))
        white: Whitening | None = None
        notes: tuple[str, ...] = ()
        if gaussian:
            target, start = evidence_target(model, inputs.values, y, hyper), theta
        else:
            white, notes = whitening(near, inputs.values, y, solver, self.whiten)
            target = joint_target(model, inputs.values, y, hyper, white)
            latent = rng.standard_normal((self.chains, target.size - hyper.size))
            start = np.concatenate([latent, theta], 1)
        chains = self._run(target, start, model, inputs.values, learn=True)
        return self._collect(model, inputs, y, solver, hyper, white, target, chains, notes)

    def transition(self, model: Any, learn: bool) -> tuple[Any, AbstractStep]:
        """Latent values; or hyperparameters, alone for Gaussian noise, with latent values otherwise."""
        step, L = runs.by_name(self.sampler), model.likelihood.latents
        if not learn:
            step = EllipticalSlice(prior=True) if self.sampler == "elliptical" else step
            return latent_density(model.likelihood, L), step
        spec = Hyperparameters(model).spec
        if isinstance(model.likelihood, Gaussian):
            return evidence_density(spec), step
        step = NUTS(acceptance=0.9) if self.sampler == "nuts" else step
        return joint_density(spec, L), step if self.updates == "ancillary" else Interleaved(step, spec, L)

    def _collect(self, model, inputs, y, solver, hyper, white, target, chains, notes) -> DrawsPosterior:
        shape = chains.draws.shape[:2]
        values = hyper.values(chains.draws[..., target.size - hyper.size :])
        draws = {name: values[..., i] for i, name in enumerate(hyper.names)}
        used = spread(shape, HYPER_DRAWS)
        flat = values.reshape(-1, hyper.size)
        models = [hyper.model_at(v) for v in flat[used]]
        quantities, names = values, hyper.names
        given: AbstractGiven = GivenHyperparameters(solver)
        if white is not None:
            n, L = white.shape
            whitened = white.prior_whitened(chains.draws[..., target.data["where"]].reshape(-1, n * L))
            given = GivenLatents(whitened[used])
            draws["u"] = whitened.reshape(*shape, L, n)
            quantities = np.concatenate([values, whitened.reshape(*shape, -1)], -1)
            names = (*names, *(f"u[{j},{i}]" for j in range(L) for i in range(n)))
        diagnostics = chains.diagnostics(names, quantities)
        median = hyper.model_at(np.median(flat, 0))
        return DrawsPosterior(
            median,
            inputs,
            y,
            draws,
            chains,
            diagnostics,
            models,
            given,
            solver,
            (*notes, *wide_priors(hyper), *self.notes(chains, diagnostics, len(used))),
            status(diagnostics, chains),
        )

    def _run(self, target: Target, start: np.ndarray, model: Any, X: np.ndarray, learn: bool) -> Chains:
        log_density, step = self.transition(model, learn)
        return runs.sample(
            log_density,
            start,
            sampler=step,
            draws=self.draws,
            tune=self.tune,
            chains=self.chains,
            thin=self.thin,
            seed=self.seed,
            data=target.data,
            step_size=self.step_size,
            together=target.together,
            progress=self.progress,
            elsewhere=self.elsewhere(model, X, target, learn),
        )


def whitening(
    model: Any, X: np.ndarray, y: np.ndarray, solver: AbstractSolver, how: str = "posterior"
) -> tuple[Whitening, tuple[str, ...]]:
    """Coordinates for chains, and notes on them: by the best Gaussian approximation there is (exact for
    Gaussian noise, EP for two classes, else Laplace's), or by the prior where none is proper.
    """
    if how == "posterior":
        try:
            return whiten(model, X, approximate_sites(model, X, y, solver)), ()
        except (NotPositiveDefinite, SolverError) as error:
            return whiten(model, X), (
                f"whitened by the prior, because there is no Gaussian approximation: {error}",
            )
    return whiten(model, X), ()


def approximate_sites(model: Any, X: np.ndarray, y: np.ndarray, solver: AbstractSolver) -> Sites:
    """Gaussian sites for the likelihood."""

    name = model.likelihood.default_rule
    if name == "exact":
        return gaussian_sites(model, X, y)[0]
    rule: AbstractSiteRule = EP(tol=1e-3, max_iterations=30) if name == "ep" else Laplace(tol=1e-6)
    return rule.run(model, X, y, solver).state.sites
