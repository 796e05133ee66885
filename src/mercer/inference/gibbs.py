"""Gibbs sampling for robust noise (Kuss 5.3.2, 5.4.2): every datum has its own noise variance,
which is sampled too.
"""

from __future__ import annotations

import dataclasses
from types import SimpleNamespace
from typing import Any

import numpy as np

from mercer.hyperpriors import Beta, Gamma
from mercer.inference.drawing import HYPER_DRAWS, LATENT_DRAWS, AbstractDrawing, spread, status, wide_priors
from mercer.inputs import Inputs
from mercer.likelihoods import AbstractLikelihood, GaussianMixtureNoise, StudentT
from mercer.params import Param, named_leaves, parameters, strip
from mercer.posteriors.draws import DrawsPosterior
from mercer.posteriors.given import GivenScales
from mercer.progress import Progress
from mercer.sampling import chains as runs
from mercer.sampling.hyper import Hyperparameters
from mercer.sampling.scale_mixture import (
    AbstractScales,
    ScaleMixtureStep,
    fixed_spec,
    scales_density,
    scales_of,
    scales_target,
)
from mercer.sampling.target import Target, bucket
from mercer.solvers.protocol import AbstractSolver, SolverError

# chains whose outlier probabilities of a datum differ by more than this have found different explanations
DISAGREE = 0.5


@dataclasses.dataclass(frozen=True)
class Gibbs(AbstractDrawing):
    """Draws of the exact posterior for noise that is a scale mixture of normals: `GaussianMixtureNoise`
    (Kuss, Algorithm 1), `StudentT` and `Laplace`.

    `model.condition(X, y, Gibbs())` samples the noise variance of every datum (for a mixture: whether it is
    an outlier) and f, at the hyperparameters as they are; `mercer.fit(model, X, y, inference=Gibbs())`
    samples the free hyperparameters too. Predictions are mixtures of Gaussians, in which f is integrated out
    given the noise variances of a draw.

    draws: kept in each chain
    tune: transitions before, in which steps are tuned and which are thrown away
    over_relaxed: indicators of a mixture avoid their old value where they can (5.17)
    progress: True, False, None, or a function (done, total, text); Ctrl-C keeps the draws made so far

    A mixture weight without a prior gets Beta(1, 1), degrees of freedom without one Gamma(2, 0.1): nothing
    else keeps them finite where there are no outliers.

    >>> post = model.condition(X, y, Gibbs(draws=500)); post.outlier_score(), print(post.diagnostics)
    """

    chains: int = 4
    tune: int = 500
    seed: int = 0
    progress: Progress = None
    over_relaxed: bool = True

    def __post_init__(self):
        runs.check_lengths(self.draws, self.tune, self.chains, 1)

    def posterior(self, model: Any, inputs: Inputs, y: np.ndarray, solver: AbstractSolver) -> DrawsPosterior:
        """Draws of the noise variances and of f (chains, draws, n) at the model's hyperparameters."""
        self.check(solver)
        scales = self._scales(model)
        target = scales_target(model, inputs.values, y, None, scales)
        start = self._start(model.likelihood, scales, y.shape[0], np.zeros((self.chains, 0)))
        chains = self._run(target, start, model, inputs.values, learn=False)
        return self._collect(model, inputs, y, solver, None, scales, chains, ())

    def learn(
        self, model: Any, inputs: Inputs, y: np.ndarray, solver: AbstractSolver, near: Any = None
    ) -> DrawsPosterior:
        """Draws of the free hyperparameters, the noise variances and f.
        Chains start around the hyperparameters of `near`.
        """
        self.check(solver)
        near = model if near is None else near
        model, notes = _with_priors(model)
        scales = self._scales(model)
        hyper = Hyperparameters(model, float(np.std(y)) or 1.0)
        if hyper.size == 0:
            return self.posterior(model, inputs, y, solver)
        rng = np.random.default_rng(self.seed)
        theta = Hyperparameters(near).vector + 0.3 * rng.standard_normal((self.chains, hyper.size))
        target = scales_target(model, inputs.values, y, hyper, scales)
        start = self._start(near.likelihood, scales, y.shape[0], theta)
        chains = self._run(target, start, model, inputs.values, learn=True)
        return self._collect(model, inputs, y, solver, hyper, scales, chains, notes)

    def transition(self, model: Any, learn: bool) -> tuple[Any, ScaleMixtureStep]:
        """Scales and latent values, and the free hyperparameters where these are learned."""
        scales, base = self._scales(model), runs.by_name("hmc")
        if not learn:
            spec = fixed_spec(model)
            return scales_density(spec, scales), ScaleMixtureStep(base, spec, scales, ())
        hyper = Hyperparameters(model)
        step = ScaleMixtureStep(base, hyper.spec, scales, _of_the_noise(hyper), _conjugate(hyper))
        return scales_density(hyper.spec, scales), step

    def _scales(self, model: Any) -> AbstractScales:
        scales = scales_of(model.likelihood, self.over_relaxed)
        if scales is None:
            raise SolverError(
                "Gibbs samples GaussianMixtureNoise, StudentT and Laplace noise, not "
                f"{type(model.likelihood).__name__}: use MCMC."
            )
        return scales

    def _start(
        self, likelihood: AbstractLikelihood, scales: AbstractScales, n: int, theta: np.ndarray
    ) -> np.ndarray:
        """Positions (chains, 2 N + p) of (scales, f, theta), N the padded n: every chain from its own scales;
        f is drawn in the first transition.
        """
        rng, size = np.random.default_rng([self.seed, 1]), (self.chains, bucket(n))
        return np.concatenate([scales.first(rng, likelihood, size), np.zeros(size), theta], 1)

    def _run(self, target: Target, start: np.ndarray, model: Any, X: np.ndarray, learn: bool) -> runs.Chains:
        log_density, step = self.transition(model, learn)
        return runs.sample(
            log_density,
            start,
            sampler=step,
            draws=self.draws,
            tune=self.tune,
            chains=self.chains,
            seed=self.seed,
            data=target.data,
            together=target.together,
            progress=self.progress,
            elsewhere=self.elsewhere(model, X, target, learn),
        )

    def _collect(
        self,
        model: Any,
        inputs: Inputs,
        y: np.ndarray,
        solver: AbstractSolver,
        hyper: Hyperparameters | None,
        scales: AbstractScales,
        chains: runs.Chains,
        notes: tuple[str, ...],
    ) -> DrawsPosterior:
        """What the chains say, with hyperparameters in it where they were sampled."""
        n, size, shape = y.shape[0], bucket(y.shape[0]), chains.draws.shape[:2]
        s, f = chains.draws[..., :n], chains.draws[..., size : size + n]
        draws, quantities, names = {}, f, tuple(f"f[{i}]" for i in range(n))
        used = spread(shape, LATENT_DRAWS if hyper is None else HYPER_DRAWS)
        models, likelihoods = [model], model.likelihood
        if hyper is not None:
            values = hyper.values(chains.draws[..., 2 * size :])
            draws = {name: values[..., i] for i, name in enumerate(hyper.names)}
            quantities, names = np.concatenate([values, f], -1), (*hyper.names, *names)
            flat = values.reshape(-1, hyper.size)
            models = [hyper.model_at(v) for v in flat[used]]
            likelihoods = _stacked(model.likelihood, hyper, draws)
            model = hyper.model_at(np.median(flat, 0))
            notes = (*notes, *wide_priors(hyper))
        noise = np.asarray(scales.variance(likelihoods, s))
        lost = 1.0 - np.asarray(scales.pull(likelihoods, y - f)).mean(1)  # (chains, n)
        diagnostics = chains.diagnostics(names, quantities)
        notes = (*notes, *_disagreement(lost))
        given = GivenScales(
            noise, noise.reshape(-1, n)[used], lost.mean(0), scales, _outlying(model.likelihood, draws, noise)
        )
        return DrawsPosterior(
            model, inputs, y, draws | {"f": f}, chains, diagnostics, models, given, solver,
            (*notes, *self.notes(chains, diagnostics, len(used))), status(diagnostics, chains),
        )  # fmt: skip


def _disagreement(lost: np.ndarray) -> tuple[str, ...]:
    """A note where chains found different outliers, from what each takes off the weight of the data
    (chains, n).
    """
    apart = np.flatnonzero(np.ptp(lost, 0) > DISAGREE)
    if not apart.size:
        return ()
    shown = ", ".join(map(str, apart[:8])) + (" ..." if apart.size > 8 else "")
    return (
        f"the chains disagree on whether rows {shown} are outliers: the posterior has several modes; draw "
        "longer",
    )


def _outlying(likelihood: Any, draws: dict[str, np.ndarray], noise: np.ndarray) -> np.ndarray | None:
    """For a mixture (chains, draws, n): true where the noise of a datum was that of an outlier."""
    if not isinstance(likelihood, GaussianMixtureNoise):
        return None
    regular = np.asarray(draws.get("likelihood.variance", np.asarray(likelihood.variance)[None, None]))
    return noise > regular[..., None] * (1.0 + 1e-9)


# -------------------------------------------------------------------------------------------------
# hyperparameters of the noise


def _with_priors(model: Any) -> tuple[Any, tuple[str, ...]]:
    """The model with proper priors for what data without outliers say nothing of, and a note for each."""
    likelihood = model.likelihood
    name, prior = ("dof", Gamma(2.0, 0.1)) if isinstance(likelihood, StudentT) else ("weight", Beta(1.0, 1.0))
    found = [p for p in parameters(likelihood) if p.name == name and p.free and p.info.prior is None]
    if not found:
        return model, ()
    info = dataclasses.replace(found[0].info, prior=prior)
    likelihood = dataclasses.replace(likelihood, **{name: Param(found[0].value, info)})
    note = f"no prior was given for likelihood.{name}: {prior} was used"
    return type(model)(model.gp, likelihood), (note,)


def _leaf_names(hyper: Hyperparameters) -> list[str]:
    return [name for name, _ in named_leaves(strip(hyper.model))]


def _of_the_noise(hyper: Hyperparameters) -> tuple[int, ...]:
    """Entries of the vector that set nothing but the likelihood."""
    names = _leaf_names(hyper)
    slots = [s for s in hyper.spec.slots if all(names[i].startswith("likelihood.") for i in s.leaves)]
    return tuple(i for s in slots for i in range(s.start, s.stop))


def _conjugate(hyper: Hyperparameters) -> tuple[int, Beta, Any] | None:
    """Entry, prior and constraint of a mixture weight on (0, 1) with a Beta prior: given the indicators it is
    Beta again.
    """
    names = _leaf_names(hyper)
    for s in hyper.spec.slots:
        if [names[i] for i in s.leaves] != ["likelihood.weight"] or not isinstance(s.prior, Beta):
            continue
        if (s.constraint.lower, s.constraint.upper, s.prior.upper) == (0.0, 1.0, 1.0):
            return s.start, s.prior, s.constraint
    return None


def _stacked(
    likelihood: AbstractLikelihood, hyper: Hyperparameters, draws: dict[str, np.ndarray]
) -> SimpleNamespace:
    """The parameters of the likelihood by name, with the values of every draw, (chains, draws, 1) each, so
    that the formulas of its scales run over all of them.
    """
    names = _leaf_names(hyper)
    sampled = {names[i]: hyper.names[s.start] for s in hyper.spec.slots for i in s.leaves}
    values = {}
    for name, leaf in named_leaves(strip(likelihood)):
        found = sampled.get(f"likelihood.{name}")
        values[name] = np.asarray(leaf) if found is None else draws[found][..., None]
    return SimpleNamespace(**values)
