"""A posterior that is a set of draws: every prediction is an average over them (Kuss 4.39).

Means are averages of means, variances the average variance plus the variance of means, densities averages of
densities, and quantiles those of the mixture. No factor of a draw is kept: hyperparameter draws are factored
one after the other for each request.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

import numpy as np
import scipy.linalg as sla
from scipy.special import logsumexp, ndtr

from mercer.inputs import Inputs, as_targets
from mercer.likelihoods.base import continuous_quantile
from mercer.likelihoods.gaussian import Gaussian
from mercer.linalg.cholesky import cholesky
from mercer.posteriors.gaussian import Posterior
from mercer.posteriors.sensitivity import Sensitivity, sensitivity
from mercer.prior import sample_gaussian
from mercer.sampling.chains import Chains
from mercer.sampling.diagnostics import Diagnostics
from mercer.sampling.target import cross_moments, prior_moments

CELLS = 4_000_000  # numbers (draws times test inputs) in memory at a time


@dataclasses.dataclass(frozen=True, eq=False)
class Mixture:
    """f at some test inputs as an equal mixture of Gaussians: means (S, m, L), variances (S or 1, m, L), a
    likelihood for each draw or one for all."""

    mean: np.ndarray
    variance: np.ndarray
    likelihoods: list[Any]

    def rows(self, noise_variance=None) -> Iterator[tuple[Any, np.ndarray, np.ndarray, int]]:
        """(likelihood, means, variances, number of draws) with draws and test inputs in one leading axis."""
        S, m, L = self.mean.shape
        variance = np.broadcast_to(self.variance, self.mean.shape)
        groups = [slice(None)] if len(self.likelihoods) == 1 else [slice(i, i + 1) for i in range(S)]
        for likelihood, group in zip(self.likelihoods, groups, strict=True):
            mean, var = self.mean[group].reshape(-1, L), variance[group].reshape(-1, L)
            shown = likelihood if noise_variance is None else Gaussian(noise_variance)
            yield shown, mean if L > 1 else mean[:, 0], var if L > 1 else var[:, 0], mean.shape[0] // m

    def each(self, function, noise_variance=None) -> np.ndarray:
        """function(likelihood, mean, variance) -> (rows, ...) for every draw: (S, m, ...)."""
        m = self.mean.shape[1]
        parts = []
        for likelihood, mean, variance, s in self.rows(noise_variance):
            out = np.asarray(function(likelihood, mean, variance))
            parts.append(out.reshape(s, m, *out.shape[1:]))
        return np.concatenate(parts)


@dataclasses.dataclass(frozen=True, eq=False)
class DrawsPosterior:
    """Draws of the posterior of a model. Made by `Model.condition(..., inference=MCMC())` or `fit(...,
    inference=MCMC())`.

    draws: a dict of arrays (chains, draws, ...): "f" the latent values at the data at fixed hyperparameters,
    "u" the whitened ones (f = m + L u) where both were sampled, and every hyperparameter that was sampled, by
    name. Predictions use `used` draws spread evenly over the chains, and the notes say how many.
    `model` holds the fixed hyperparameters, or the medians of those sampled.
    """

    model: Any
    inputs: Inputs
    y: np.ndarray
    draws: dict[str, np.ndarray]
    chains: Chains
    diagnostics: Diagnostics
    models: list[Any]  # one for all draws used, or one for each
    whitened: np.ndarray | None  # u (S, L, n) of the draws used: f = m + L u; None where f is integrated out
    solver: Any = None
    notes: tuple[str, ...] = ()
    status: Any = None

    @property
    def log_evidence(self) -> float:
        raise AttributeError(
            "draws of a posterior do not give its evidence; use mercer.log_evidence(model, X, y, "
            "inference=mercer.inference.AIS())."
        )

    @property
    def used(self) -> int:
        """Number of draws that predictions average over."""
        return len(self.models) if self.whitened is None else self.whitened.shape[0]

    # -- predictions -----------------------------------------------------------------------------------------

    def latent_moments(self, Xs, variance: bool = True) -> tuple[np.ndarray, np.ndarray | None]:
        """Mean and variance of f at Xs: (m,) each; (m, L) and (m, L, L) for L latent functions."""
        L = self.model.likelihood.latents
        means, variances = [np.zeros((0, L))], [np.zeros((0, L, L))]
        for _, mixture in self._mixtures(Xs):
            mean = mixture.mean.mean(0)
            e = mixture.mean - mean
            within = np.eye(L) * mixture.variance.mean(0)[:, :, None]
            means.append(mean)
            variances.append(within + np.einsum("sml,smk->mlk", e, e) / e.shape[0])
        mean, var = np.concatenate(means), np.concatenate(variances)
        if L == 1:
            mean, var = mean[:, 0], var[:, 0, 0]
        return mean, var if variance else None

    def mean(self, Xs, latent: bool = False) -> np.ndarray:
        """Predictive mean of y (probabilities for classes), or of f with `latent=True`."""
        if latent or self.model.likelihood.mean_is_latent:
            return self.latent_moments(Xs, variance=False)[0]
        return self._predict(Xs)[0]

    def variance(self, Xs, latent: bool = False, noise_variance=None) -> np.ndarray:
        """Predictive variance of y, or of f with `latent=True`."""
        if latent:
            variance = self.latent_moments(Xs)[1]
            assert variance is not None
            return variance
        return self._predict(Xs, noise_variance)[1]

    def mean_and_std(self, Xs, latent: bool = False, noise_variance=None) -> tuple[np.ndarray, np.ndarray]:
        """Predictive mean and standard deviation in one pass."""
        if not latent:
            mean, variance = self._predict(Xs, noise_variance)
            return mean, np.sqrt(variance)
        mean, spread = self.latent_moments(Xs)
        assert spread is not None
        return mean, np.sqrt(np.einsum("mll->ml", spread) if spread.ndim == 3 else spread)

    def std(self, Xs, latent: bool = False, noise_variance=None) -> np.ndarray:
        """Square root of `variance`; of f, for each latent function."""
        return self.mean_and_std(Xs, latent, noise_variance)[1]

    def probability(self, Xs, how: str = "average") -> np.ndarray:
        """Class probabilities, averaged over the draws; how="map": at the mean of f."""
        likelihood = self.model.likelihood
        if not hasattr(likelihood, "probability"):
            raise ValueError(
                f"{type(likelihood).__name__} does not speak of classes; ask for mean, quantile or "
                "log_density."
            )
        if how != "average":
            return likelihood.probability(*self.latent_moments(Xs), how=how)
        parts = [
            mixture.each(lambda lik, m, v: lik.probability(m, v)).mean(0) for _, mixture in self._mixtures(Xs)
        ]
        return np.concatenate(parts)

    def log_density(self, Xs, ys, noise_variance=None) -> np.ndarray:
        """Log predictive density (m,) of each observation ys at Xs: log of the average density."""
        self._likelihood(noise_variance)
        values = self._values(Xs)
        ys = self.model.likelihood.targets(as_targets(ys, values.shape[0], "ys"))
        out = np.empty(values.shape[0])
        for rows, mixture in self._mixtures(values):

            def density(lik, m, v, y=ys[rows]):
                return lik.log_density(np.tile(y, len(m) // len(y)), m, v)

            logs = mixture.each(density, noise_variance)
            out[rows] = logsumexp(logs, 0) - np.log(logs.shape[0])
        return out

    def quantile(self, Xs, q, noise_variance=None) -> np.ndarray:
        """Predictive quantiles of y, those of the mixture: (m,) for one q, (m, len(q)) for several.

        For Gaussian noise from the exact distribution function; otherwise from 20 draws of y for each draw of
        the posterior.
        """
        levels = np.asarray(q, float)
        if np.any((levels <= 0) | (levels >= 1)):
            raise ValueError(f"quantiles must lie strictly between 0 and 1, got {levels}.")
        self._likelihood(noise_variance)
        out = []
        for _, mixture in self._mixtures(Xs):
            out.append(_quantiles(mixture, np.atleast_1d(levels), noise_variance))
        found = np.concatenate(out, 0) if out else np.zeros((0, levels.size))
        return found[:, 0] if levels.ndim == 0 else found

    def sample(
        self, Xs, size: int = 1, seed: Any = None, latent: bool = False, noise_variance=None
    ) -> np.ndarray:
        """`size` joint draws at Xs, (size, m), of y or of f:
        each from a draw of the posterior chosen at random.
        """
        values = self._values(Xs)
        if self.model.likelihood.latents > 1:
            raise ValueError(
                "joint draws are available for one latent function; use latent_moments or mean for several."
            )
        if not latent:
            self._likelihood(noise_variance)
        rng = np.random.default_rng(seed)
        chosen = np.sort(rng.integers(0, self.used, size))
        out = np.empty((size, values.shape[0]))
        for i in np.unique(chosen):
            where = np.flatnonzero(chosen == i)
            mean, covariance = self._joint(int(i), values)
            f = sample_gaussian(mean, covariance, where.size, rng)
            if not latent:
                lik = (
                    self.models[min(int(i), len(self.models) - 1)].likelihood
                    if noise_variance is None
                    else Gaussian(noise_variance)
                )
                f = np.stack([lik.sample(rng, draw) for draw in f])
            out[where] = f
        return out[rng.permutation(size)]

    def covariance(self, Xs, latent: bool = False, noise_variance=None) -> np.ndarray:
        """Joint predictive covariance (m, m) of f with `latent=True`, or of y for Gaussian noise,
        over the draws used.
        """
        if not latent:
            self._gaussian("the joint covariance of observations", "latent=True gives that of f")
        values = self._values(Xs)
        means, total = [], np.zeros((values.shape[0],) * 2)
        for i in range(self.used):
            mean, covariance = self._joint(i, values)
            noise: Any = 0.0
            if not latent:
                lik = self.models[min(i, len(self.models) - 1)].likelihood
                noise = np.diag(
                    np.broadcast_to(
                        lik.noise_variance if noise_variance is None else noise_variance, values.shape[0]
                    )
                )
            means.append(mean)
            total += covariance + noise
        return total / self.used + np.cov(np.array(means).T, bias=True).reshape(total.shape)

    def under(self, priors: Mapping[str, Any]) -> Sensitivity:
        """What the same draws say under other priors of some hyperparameters (2.1: vary the prior and
        compare).

        priors: a hyperprior for each name, as in `mercer.hyperpriors`; the others stay. Draws are weighted by
        new over old prior.

        >>> post = fit(model, X, y, inference=MCMC()).posterior
        >>> print(post.under({"kernel.lengthscale": hyperpriors.LogNormal(1.0, 0.5)}))
        """
        return sensitivity(self, priors)

    # -- what was drawn --------------------------------------------------------------------------------------

    def summary(self) -> str:
        """Medians and 90 % intervals of the hyperparameters that were sampled,
        then the diagnostics and the notes.
        """
        lines = []
        for name, values in self.draws.items():
            if name not in ("f", "u"):
                low, middle, high = np.quantile(values, [0.05, 0.5, 0.95])
                lines.append(f"{name}: median {middle:.6g}, 90 % between {low:.6g} and {high:.6g}")
        return "\n".join([*lines, str(self.diagnostics), *(f"note: {note}" for note in self.notes)])

    def __repr__(self) -> str:
        n, d = self.inputs.values.shape
        c = self.diagnostics
        kernels = ", ".join(map(str, self.model.kernels))
        return (
            f"DrawsPosterior({kernels}, n={n}, d={d}, {c.chains} chains of {c.draws} draws, R-hat at "
            f"most {c.worst_r_hat:.3f})"
        )

    # -- inside ----------------------------------------------------------------------------------------------

    _values: ClassVar[Any] = Posterior._values
    _gaussian: ClassVar[Any] = Posterior._gaussian
    _likelihood: ClassVar[Any] = Posterior._likelihood

    def _predict(self, Xs, noise_variance=None) -> tuple[np.ndarray, np.ndarray]:
        self._likelihood(noise_variance)
        means, variances = [], []
        for _, mixture in self._mixtures(Xs):
            pairs = [
                mixture.each(lambda lik, m, v, k=k: lik.predict(m, v)[k], noise_variance) for k in (0, 1)
            ]
            mean, variance = pairs
            means.append(mean.mean(0))
            variances.append(variance.mean(0) + mean.var(0))
        return np.concatenate(means), np.concatenate(variances)

    def _mixtures(self, Xs) -> Iterator[tuple[slice, Mixture]]:
        """The mixture at blocks of test inputs."""
        values = self._values(Xs)
        rows = max(1, CELLS // (self.used * self.model.likelihood.latents))
        shared = (
            self._factors(self.models[0]) if len(self.models) == 1 and self.whitened is not None else None
        )
        for first in range(0, max(values.shape[0], 1), rows):
            block = values[first : first + rows]
            yield slice(first, first + block.shape[0]), self._mixture(block, shared)

    def _mixture(self, block: np.ndarray, shared) -> Mixture:
        if self.whitened is None:
            pairs = [self._exact(model).predict(block) for model in self.models]
            means, variances = (np.stack(x) for x in zip(*pairs, strict=True))
            return Mixture(means, variances, [model.likelihood for model in self.models])
        if shared is not None:
            mean, variance = self._given(self.models[0], shared, self.whitened, block)
            return Mixture(mean, variance[None], [self.models[0].likelihood])
        parts = [
            self._given(m, self._factors(m), u[None], block)
            for m, u in zip(self.models, self.whitened, strict=True)
        ]
        return Mixture(
            np.stack([mean[0] for mean, _ in parts]),
            np.stack([v for _, v in parts]),
            [m.likelihood for m in self.models],
        )

    def _factors(self, model) -> list[np.ndarray]:
        _, matrices = prior_moments(model, self.inputs.values)
        done: dict[int, np.ndarray] = {}
        for K in matrices:
            if id(K) not in done:
                done[id(K)] = cholesky(K)[0]
        return [done[id(K)] for K in matrices]

    def _given(self, model, factors, u: np.ndarray, block: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Means (S, m, L) and variances (m, L) of f at the block, given u (S, L, n)."""
        priors = model.priors if isinstance(model.priors, tuple) else (model.priors,)
        means, variances = [], []
        for j, gp in enumerate(priors):
            mean, cross, variance = cross_moments(gp, self.inputs.values, block)
            V = sla.solve_triangular(factors[j], cross, lower=True)
            means.append(mean + u[:, j] @ V)
            variances.append(np.maximum(variance - np.einsum("ij,ij->j", V, V), 0.0))
        return np.stack(means, 2), np.stack(variances, 1)

    def _joint(self, i: int, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Mean (m,) and covariance (m, m) of f at the test inputs for draw i, of one latent function."""
        model = self.models[min(i, len(self.models) - 1)]
        if self.whitened is None:
            mean, covariance = self._exact(model).predict(values, full=True)
            return mean[:, 0], covariance
        both = np.concatenate([self.inputs.values, values])
        n = self.inputs.values.shape[0]
        m, matrices = prior_moments(model, both)
        K = matrices[0]
        V = sla.solve_triangular(cholesky(K[:n, :n])[0], K[:n, n:], lower=True)
        return m[n:, 0] + self.whitened[i, 0] @ V, K[n:, n:] - V.T @ V

    def _exact(self, model):
        """The posterior of f for Gaussian noise, factored for one draw of the hyperparameters."""
        from mercer.solvers.protocol import Sites

        noise = np.broadcast_to(model.likelihood.noise_variance, self.y.shape)
        return self.solver.factor(
            model.priors, self.inputs.values, Sites(self.y[:, None], 1.0 / noise[:, None])
        )


def _quantiles(mixture: Mixture, levels: np.ndarray, noise_variance) -> np.ndarray:
    """(m, levels)."""
    if isinstance(mixture.likelihoods[0], Gaussian):
        mean = mixture.mean[:, :, 0]
        noise = (
            [lik.noise_variance for lik in mixture.likelihoods]
            if noise_variance is None
            else [noise_variance]
        )
        sd = np.sqrt(mixture.variance[:, :, 0] + np.array(noise, float).reshape(len(noise), -1))
        low, high = (mean - 3 * sd).min(0), (mean + 3 * sd).max(0)
        cdf = lambda y: ndtr((y - mean) / sd).mean(0)  # noqa: E731
        return np.stack([continuous_quantile(cdf, p, low, high) for p in levels], 1)
    rng = np.random.default_rng(0)

    def simulate(likelihood, mean, variance):
        f = mean + np.sqrt(variance) * rng.standard_normal(mean.shape)
        return likelihood.sample(rng, f)

    S = mixture.mean.shape[0]
    draws = np.concatenate([mixture.each(simulate) for _ in range(20)])
    method: Any = (
        "linear" if np.unique(draws[:, :1]).size > S else "inverted_cdf"
    )  # values of discrete observations are never averaged
    if (
        hasattr(mixture.likelihoods[0], "probability")
        and mixture.likelihoods[0].latents == 1
        and set(np.unique(draws)) <= {-1.0, 1.0}
    ):
        draws = (draws + 1.0) / 2.0
    return np.quantile(draws, levels, axis=0, method=method).T
