"""Gibbs sampling for robust noise (Kuss 5.3.2, 5.4.2): every datum has its own noise variance,
which is sampled too.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import scipy.linalg as sla
from scipy.special import ndtr

from mercer.hyperpriors import Beta, Gamma
from mercer.inference.drawing import HYPER_DRAWS, LATENT_DRAWS, AbstractDrawing, spread, status, wide_priors
from mercer.inputs import Inputs
from mercer.likelihoods import GaussianMixtureNoise, StudentT
from mercer.params import Param, named_leaves, parameters, strip
from mercer.posteriors.draws import DrawsPosterior, Mixture
from mercer.progress import Progress
from mercer.sampling import chains as runs
from mercer.sampling.hyper import Hyperparameters
from mercer.sampling.scale_mixture import ScaleMixtureStep, fixed_spec, scales_of, scales_target
from mercer.sampling.target import bucket, cross_moments, prior_moments
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

    draws: kept in each chain; tune: transitions before, in which steps are tuned and which are thrown away.
    over_relaxed: indicators of a mixture avoid their old value where they can (5.17). progress: True, False,
    None, or a function (done, total, text); Ctrl-C keeps the draws made so far. A mixture weight without a
    prior gets Beta(1, 1), degrees of freedom without one Gamma(2, 0.1): nothing else keeps them finite where
    there are no outliers.

    >>> post = model.condition(X, y, Gibbs(draws=500)); post.outlier_probability, print(post.diagnostics)
    """

    chains: int = 4
    tune: int = 500
    seed: int = 0
    progress: Progress = None
    over_relaxed: bool = True

    def __post_init__(self):
        runs.check_lengths(self.draws, self.tune, self.chains, 1)

    def posterior(self, model: Any, inputs: Inputs, y: np.ndarray, solver: AbstractSolver) -> GibbsPosterior:
        """Draws of the noise variances and of f (chains, draws, n) at the model's hyperparameters."""
        self.check(solver)
        scales = self._scales(model)
        step = ScaleMixtureStep(runs.by_name("hmc"), fixed_spec(model), scales, ())
        target = scales_target(model, inputs.values, y, None, scales)
        start = self._start(model.likelihood, scales, y.shape[0], np.zeros((self.chains, 0)))
        chains = self._run(target, start, step)
        return self._collect(model, inputs, y, solver, None, scales, chains, ())

    def learn(
        self, model: Any, inputs: Inputs, y: np.ndarray, solver: AbstractSolver, near: Any = None
    ) -> GibbsPosterior:
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
        step = ScaleMixtureStep(
            runs.by_name("hmc"), hyper.spec, scales, _of_the_noise(hyper), _conjugate(hyper)
        )
        target = scales_target(model, inputs.values, y, hyper, scales)
        chains = self._run(target, self._start(near.likelihood, scales, y.shape[0], theta), step)
        return self._collect(model, inputs, y, solver, hyper, scales, chains, notes)

    def _scales(self, model):
        scales = scales_of(model.likelihood, self.over_relaxed)
        if scales is None:
            raise SolverError(
                "Gibbs samples GaussianMixtureNoise, StudentT and Laplace noise, not "
                f"{type(model.likelihood).__name__}: use MCMC."
            )
        return scales

    def _start(self, likelihood, scales, n: int, theta: np.ndarray) -> np.ndarray:
        """Every chain from its own scales; f is drawn in the first transition."""
        rng, size = np.random.default_rng([self.seed, 1]), (self.chains, bucket(n))
        return np.concatenate([scales.first(rng, likelihood, size), np.zeros(size), theta], 1)

    def _run(self, target, start, step) -> runs.Chains:
        """One chain after the other: XLA can lock up on matrices that are factored for several chains at once
        inside a loop.
        """
        return runs.sample(
            target.log_density,
            start,
            sampler=step,
            draws=self.draws,
            tune=self.tune,
            chains=self.chains,
            seed=self.seed,
            data=target.data,
            together=False,
            progress=self.progress,
        )

    def _collect(self, model, inputs, y, solver, hyper, scales, chains, notes) -> GibbsPosterior:
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
        apart = np.flatnonzero(np.ptp(lost, 0) > DISAGREE)
        if apart.size:
            shown = ", ".join(map(str, apart[:8])) + (" ..." if apart.size > 8 else "")
            notes = (
                *notes,
                (
                    f"the chains disagree on whether rows {shown} are outliers: the posterior has several "
                    "modes; draw longer"
                ),
            )
        return GibbsPosterior(
            model, inputs, y, draws | {"f": f}, chains, diagnostics, models, None, solver,
            (*notes, *self.notes(chains, diagnostics, len(used))), status(diagnostics, chains),
            noise, noise.reshape(-1, n)[used], lost.mean(0), scales,
        )  # fmt: skip


@dataclasses.dataclass(frozen=True, eq=False)
class GibbsPosterior(DrawsPosterior):
    """Draws of a posterior in which every datum has its own noise variance. Made by `Gibbs`.

    noise_draws (chains, draws, n): the noise variance of each datum; `indicators` says in which draws it was
    an outlier.
    outlier_probability (n,): for a mixture the posterior probability that a datum is an outlier; for
    Student-t and Laplace noise the share of the weight of a regular datum that it has lost, 0 for regular
    ones and close to 1 for outliers.
    """

    noise_draws: Any = None
    used_noise: Any = None  # (S, n), of the draws that predictions average over
    outlier_probability: Any = None
    scales: Any = None

    @property
    def used(self) -> int:
        return self.used_noise.shape[0]

    @property
    def indicators(self) -> np.ndarray:
        """Raster of draws (chains, draws, n), true where a datum was an outlier (Kuss, figure 5.15);
        of a mixture.
        """
        if not isinstance(self.model.likelihood, GaussianMixtureNoise):
            raise AttributeError(
                "only mixture noise has indicators; noise_draws holds the noise variance of each datum."
            )
        regular = self.draws.get(
            "likelihood.variance", np.asarray(self.model.likelihood.variance)[None, None]
        )
        return self.noise_draws > np.asarray(regular)[..., None] * (1.0 + 1e-9)

    def quantile(self, Xs, q, noise_variance=None) -> np.ndarray:
        """Predictive quantiles of y by the distribution function of the mixture: (m,) for one q, (m,
        len(q)) for several.
        """
        levels = np.asarray(q, float)
        if np.any((levels <= 0) | (levels >= 1)):
            raise ValueError(f"quantiles must lie strictly between 0 and 1, got {levels}.")
        self._likelihood(noise_variance)
        out = [self._quantiles(mixture, np.atleast_1d(levels)) for _, mixture in self._mixtures(Xs)]
        found = np.concatenate(out)
        return found[:, 0] if levels.ndim == 0 else found

    def _quantiles(self, mixture: Mixture, levels: np.ndarray) -> np.ndarray:
        """Newton's steps on the distribution function, kept inside a shrinking bracket: (m, levels)."""
        parts = [self.scales.components(likelihood) for likelihood in mixture.likelihoods]
        means, variances = mixture.mean[:, :, 0], mixture.variance[:, :, 0]

        def cdf_and_density(y):
            total, slope = np.zeros_like(y), np.zeros_like(y)
            for i, mean in enumerate(means):
                noise, weights = parts[min(i, len(parts) - 1)]
                sd = np.sqrt(variances[i] + noise[:, None])  # (J, m)
                z = (y[None] - mean[:, None]) / sd[..., None]
                total += np.einsum("j,jml->ml", weights, ndtr(z))
                slope += np.einsum("j,jm,jml->ml", weights, 1.0 / sd, np.exp(-0.5 * z**2)) / np.sqrt(
                    2 * np.pi
                )
            return total / len(means), slope / len(means)

        return _newton(cdf_and_density, levels, means.mean(0), np.sqrt(variances.mean(0)) + means.std(0))

    def _mixture(self, block: np.ndarray, shared) -> Mixture:
        pairs = [
            self._conditioned(prior, noise)
            for prior, noise in zip(self._moments(block), self.used_noise, strict=True)
        ]
        means, variances = (np.stack(x)[..., None] for x in zip(*pairs, strict=True))
        return Mixture(means, variances, [model.likelihood for model in self.models])

    def _moments(self, block: np.ndarray):
        """Prior moments for each draw used: computed once where the hyperparameters stand."""
        for i in range(self.used):
            if i < len(self.models):
                prior = _prior(self.models[i], self.inputs.values, block)
            yield prior

    def _conditioned(self, prior, noise: np.ndarray, full: bool = False) -> tuple[np.ndarray, np.ndarray]:
        """Mean (m,) and variance (m,), or covariance (m, m),
        of f at the block given the noise variances of one draw.
        """
        m, K, mean, cross, variance = prior
        root = 1.0 / np.sqrt(noise)
        L = np.linalg.cholesky(np.eye(len(noise)) + root[:, None] * K * root)
        V = sla.solve_triangular(L, root[:, None] * cross, lower=True)
        a = sla.solve_triangular(L, root * (self.y - m), lower=True)
        if full:
            return mean + a @ V, variance - V.T @ V
        return mean + a @ V, np.maximum(variance - np.einsum("ij,ij->j", V, V), 0.0)

    def _joint(self, i: int, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        model = self.models[min(i, len(self.models) - 1)]
        m, K, mean, cross, _ = _prior(model, self.inputs.values, values)
        return self._conditioned(
            (m, K, mean, cross, prior_moments(model, values)[1][0]), self.used_noise[i], full=True
        )


def _prior(model, X: np.ndarray, block: np.ndarray):
    m, matrices = prior_moments(model, X)
    return m[:, 0], matrices[0], *cross_moments(model.priors, X, block)


def _newton(cdf_and_density, levels: np.ndarray, centre: np.ndarray, spread: np.ndarray) -> np.ndarray:
    """y (m, levels) with cdf(y) = level. Where a step of Newton's leaves the bracket,
    the bracket is halved (or widened).
    """
    shape = (centre.size, levels.size)
    y, width = np.tile(centre[:, None], (1, levels.size)), np.tile(4.0 * spread[:, None], (1, levels.size))
    low, high = np.full(shape, -np.inf), np.full(shape, np.inf)
    for _ in range(100):
        value, slope = cdf_and_density(y)
        below = value < levels
        low, high = np.where(below, y, low), np.where(below, high, y)
        with np.errstate(divide="ignore", invalid="ignore"):
            new = y - (value - levels) / slope
            middle = np.where(
                np.isinf(low), high - width, np.where(np.isinf(high), low + width, 0.5 * (low + high))
            )
        width = 2.0 * width
        far = ~((new >= low) & (new <= high)) | (np.abs(new - y) > width)
        new = np.where(far, middle, new)
        done = np.abs(new - y) <= 1e-10 * (np.abs(y) + spread[:, None])
        y = new
        if done.all():
            break
    return y


# -------------------------------------------------------------------------------------------------
# hyperparameters of the noise


def _with_priors(model) -> tuple[Any, tuple[str, ...]]:
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


def _conjugate(hyper: Hyperparameters):
    """Where a mixture weight with a Beta prior stands: given the indicators it is Beta again."""
    names = _leaf_names(hyper)
    for s in hyper.spec.slots:
        alone = [names[i] for i in s.leaves] == ["likelihood.weight"]
        if (
            alone
            and isinstance(s.prior, Beta)
            and (s.constraint.lower, s.constraint.upper, s.prior.upper) == (0.0, 1.0, 1.0)
        ):
            return s.start, s.prior, s.constraint
    return None


def _stacked(likelihood, hyper: Hyperparameters, draws: dict):
    """The likelihood with the values of every draw, (chains, draws, 1) each,
    so that its formulas run over all of them.
    """
    from types import SimpleNamespace

    names, values = _leaf_names(hyper), {}
    for name, leaf in named_leaves(strip(likelihood)):
        slot = next(
            (s for s in hyper.spec.slots if f"likelihood.{name}" in [names[i] for i in s.leaves]), None
        )
        values[name] = np.asarray(leaf) if slot is None else draws[hyper.names[slot.start]][..., None]
    return SimpleNamespace(**values)
