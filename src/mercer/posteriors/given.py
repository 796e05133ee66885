"""f at test inputs given one draw of the posterior: a Gaussian, of three kinds.

A chain draws the latent values at the data (`GivenLatents`), hyperparameters with f integrated out for
Gaussian noise (`GivenHyperparameters`), or the noise variance of every datum (`GivenScales`). No factor of a
draw is kept: draws are factored one after the other for each request.
"""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Callable, Iterator
from typing import Any, ClassVar, NoReturn

import numpy as np
import scipy.linalg as sla
from scipy.special import ndtr

from mercer.likelihoods.base import continuous_quantile
from mercer.likelihoods.gaussian import Gaussian
from mercer.linalg.cholesky import NOISE_FLOOR, cholesky
from mercer.posteriors.answers import PosteriorError
from mercer.posteriors.packing import Again, read_array
from mercer.sampling.target import cross_moments, prior_moments
from mercer.solvers.dense import Dense
from mercer.solvers.protocol import AbstractState, Sites

SIMULATED = 20  # draws of y for each draw of the posterior, where quantiles have no distribution function


@dataclasses.dataclass(frozen=True, eq=False)
class Mixture:
    """f at some test inputs as an equal mixture of Gaussians: means (S, m, L), variances (S or 1, m, L), a
    likelihood for each draw or one for all."""

    mean: np.ndarray
    variance: np.ndarray
    likelihoods: list[Any]

    def rows(self, noise_variance: Any = None) -> Iterator[tuple[Any, np.ndarray, np.ndarray, int]]:
        """(likelihood, means, variances, number of draws) with draws and test inputs in one leading axis."""
        S, m, L = self.mean.shape
        variance = np.broadcast_to(self.variance, self.mean.shape)
        groups = [slice(None)] if len(self.likelihoods) == 1 else [slice(i, i + 1) for i in range(S)]
        for likelihood, group in zip(self.likelihoods, groups, strict=True):
            mean, var = self.mean[group].reshape(-1, L), variance[group].reshape(-1, L)
            count = self.mean[group].shape[0]
            if noise_variance is not None:
                likelihood = Gaussian(np.tile(np.broadcast_to(noise_variance, m), count))
            elif likelihood.per_datum and count > 1:
                likelihood = likelihood.at_rows(np.tile(np.arange(m), count), m)
            yield likelihood, mean if L > 1 else mean[:, 0], var if L > 1 else var[:, 0], count

    def each(self, function: Callable[..., Any], noise_variance: Any = None) -> np.ndarray:
        """function(likelihood, mean, variance) -> (rows, ...) for every draw: (S, m, ...)."""
        m = self.mean.shape[1]
        parts = []
        for likelihood, mean, variance, s in self.rows(noise_variance):
            out = np.asarray(function(likelihood, mean, variance))
            parts.append(out.reshape(s, m, *out.shape[1:]))
        return np.concatenate(parts)


class AbstractGiven(abc.ABC):
    """What f is given the draws that predictions average over. models: one for all draws, or one for each;
    X (n, d), y (n,): the data."""

    saved: ClassVar[bool]  # whether files can hold it
    drawn: ClassVar[bool] = False  # f at the data was drawn itself

    @abc.abstractmethod
    def packed(self) -> dict[str, np.ndarray]:
        """The arrays that a file must hold for `unpack_given`."""

    @abc.abstractmethod
    def used(self, models: list[Any]) -> int:
        """Number of draws."""

    @abc.abstractmethod
    def mixture(self, models: list[Any], X: np.ndarray, y: np.ndarray) -> Callable[[np.ndarray], Mixture]:
        """The mixture at a block of test inputs, as a function of the block."""

    @abc.abstractmethod
    def joint(
        self, i: int, model: Any, X: np.ndarray, y: np.ndarray, values: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Mean (m,) and covariance (m, m) of one latent function at the test inputs for draw i."""

    @abc.abstractmethod
    def state(self, i: int, model: Any, X: np.ndarray, y: np.ndarray) -> AbstractState:
        """The factored Gaussian of one latent function for draw i."""

    @abc.abstractmethod
    def quantiles(self, mixture: Mixture, levels: np.ndarray, noise_variance: Any) -> np.ndarray:
        """Quantiles of y (m, levels)."""

    @abc.abstractmethod
    def chosen(self, draws: dict[str, np.ndarray], rows: np.ndarray) -> AbstractGiven:
        """The same with these of all the draws (chains and draws in one axis), each with its own model."""

    @abc.abstractmethod
    def outlier_score(self) -> np.ndarray | None:
        """Score of each datum (n,) where the draws say it themselves."""


@dataclasses.dataclass(frozen=True, eq=False)
class GivenLatents(AbstractGiven):
    """The whitened latent values u (S, L, n) were drawn: f = m + L u at the data."""

    whitened: np.ndarray

    saved: ClassVar[bool] = True
    drawn: ClassVar[bool] = True

    def packed(self) -> dict[str, np.ndarray]:
        return {"whitened": self.whitened}

    def used(self, models: list[Any]) -> int:
        return len(self.whitened)

    def mixture(self, models: list[Any], X: np.ndarray, y: np.ndarray) -> Callable[[np.ndarray], Mixture]:
        if len(models) == 1:  # factored once for all draws and blocks
            factors = _factors(models[0], X)

            def at(block: np.ndarray) -> Mixture:
                mean, variance = _given(models[0], factors, self.whitened, X, block)
                return Mixture(mean, variance[None], likelihoods_at(models, block))

            return at

        def each(block: np.ndarray) -> Mixture:
            parts = [
                _given(model, _factors(model, X), u[None], X, block)
                for model, u in zip(models, self.whitened, strict=True)
            ]
            means, variances = np.stack([mean[0] for mean, _ in parts]), np.stack([v for _, v in parts])
            return Mixture(means, variances, likelihoods_at(models, block))

        return each

    def joint(
        self, i: int, model: Any, X: np.ndarray, y: np.ndarray, values: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        n = X.shape[0]
        mean, matrices = prior_moments(model, np.concatenate([X, values]))
        K = matrices[0]
        V = sla.solve_triangular(cholesky(K[:n, :n])[0], K[:n, n:], lower=True)
        return mean[n:, 0] + self.whitened[i, 0] @ V, K[n:, n:] - V.T @ V

    def state(self, i: int, model: Any, X: np.ndarray, y: np.ndarray) -> AbstractState:
        mean, (K,) = prior_moments(model, X)
        f = mean[:, 0] + cholesky(K)[0] @ self.whitened[i, 0]
        return _factored(model, X, f, np.full(len(f), NOISE_FLOOR * np.mean(np.diag(K))))

    def quantiles(self, mixture: Mixture, levels: np.ndarray, noise_variance: Any) -> np.ndarray:
        if isinstance(mixture.likelihoods[0], Gaussian):
            return _gaussian_quantiles(mixture, levels, noise_variance)
        return _simulated_quantiles(mixture, levels)

    def chosen(self, draws: dict[str, np.ndarray], rows: np.ndarray) -> GivenLatents:
        return GivenLatents(draws["u"].reshape(-1, *self.whitened.shape[1:])[rows])

    def outlier_score(self) -> None:
        return None


@dataclasses.dataclass(frozen=True, eq=False)
class GivenHyperparameters(AbstractGiven):
    """Hyperparameters alone were drawn: f is integrated out exactly, for Gaussian noise, by the solver."""

    solver: Any

    saved: ClassVar[bool] = True

    def packed(self) -> dict[str, np.ndarray]:
        return {}

    def used(self, models: list[Any]) -> int:
        return len(models)

    def mixture(self, models: list[Any], X: np.ndarray, y: np.ndarray) -> Callable[[np.ndarray], Mixture]:
        def at(block: np.ndarray) -> Mixture:
            pairs = [self._factor(model, X, y).predict(block) for model in models]
            means, variances = (np.stack(x) for x in zip(*pairs, strict=True))
            return Mixture(means, variances, likelihoods_at(models, block))

        return at

    def joint(
        self, i: int, model: Any, X: np.ndarray, y: np.ndarray, values: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        mean, covariance = self._factor(model, X, y).predict(values, full=True)
        assert covariance is not None
        return mean[:, 0], covariance

    def state(self, i: int, model: Any, X: np.ndarray, y: np.ndarray) -> AbstractState:
        return self._factor(model, X, y)

    def quantiles(self, mixture: Mixture, levels: np.ndarray, noise_variance: Any) -> np.ndarray:
        return _gaussian_quantiles(mixture, levels, noise_variance)

    def chosen(self, draws: dict[str, np.ndarray], rows: np.ndarray) -> GivenHyperparameters:
        return self

    def outlier_score(self) -> None:
        return None

    def _factor(self, model: Any, X: np.ndarray, y: np.ndarray) -> AbstractState:
        """The State of one draw of the hyperparameters."""
        noise = np.broadcast_to(model.likelihood.variances, y.shape)
        state: AbstractState = self.solver.factor(model.priors, X, Sites(y[:, None], 1.0 / noise[:, None]))
        return state


@dataclasses.dataclass(frozen=True, eq=False)
class GivenScales(AbstractGiven):
    """The noise variance of every datum was drawn (`inference.Gibbs`): given it, f is integrated out exactly.

    noise_draws (chains, draws, n): the noise variance of each datum; used_noise (S, n): of the draws that
    predictions average over. score (n,): for a mixture the posterior probability that a datum is an outlier;
    for Student-t and Laplace noise the share of the weight of a regular datum that it has lost, 0 for regular
    ones and close to 1 for outliers. scales: how the noise makes its variances
    (`mercer.sampling.scale_mixture`). outlying (chains, draws, n): for a mixture, true where a datum was an
    outlier.
    """

    noise_draws: np.ndarray
    used_noise: np.ndarray
    score: np.ndarray
    scales: Any
    outlying: np.ndarray | None = None

    saved: ClassVar[bool] = False

    def packed(self) -> NoReturn:
        raise PosteriorError("draws of the noise of each datum are not saved.")

    @property
    def indicators(self) -> np.ndarray:
        """Raster of draws (chains, draws, n), true where a datum was an outlier (Kuss, figure 5.15);
        of a mixture.
        """
        if self.outlying is None:
            raise PosteriorError(
                "only mixture noise has indicators; noise_draws holds the noise variance of each datum."
            )
        return self.outlying

    def used(self, models: list[Any]) -> int:
        return len(self.used_noise)

    def mixture(self, models: list[Any], X: np.ndarray, y: np.ndarray) -> Callable[[np.ndarray], Mixture]:
        def at(block: np.ndarray) -> Mixture:
            pairs = []
            for i, noise in enumerate(self.used_noise):
                if i < len(models):  # computed once where the hyperparameters stand
                    prior = *_at_data(models[i], X), *cross_moments(models[i].priors, X, block)
                mean, V = _conditioned(*prior[:4], y, noise)
                pairs.append((mean, np.maximum(prior[4] - np.einsum("ij,ij->j", V, V), 0.0)))
            means, variances = (np.stack(x)[..., None] for x in zip(*pairs, strict=True))
            return Mixture(means, variances, likelihoods_at(models, block))

        return at

    def joint(
        self, i: int, model: Any, X: np.ndarray, y: np.ndarray, values: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        mean, cross, _ = cross_moments(model.priors, X, values)
        mean, V = _conditioned(*_at_data(model, X), mean, cross, y, self.used_noise[i])
        return mean, prior_moments(model, values)[1][0] - V.T @ V

    def state(self, i: int, model: Any, X: np.ndarray, y: np.ndarray) -> AbstractState:
        return _factored(model, X, y, self.used_noise[i])

    def quantiles(self, mixture: Mixture, levels: np.ndarray, noise_variance: Any) -> np.ndarray:
        """By the distribution function: the noise is a finite mixture of normals."""
        parts = [self.scales.components(likelihood) for likelihood in mixture.likelihoods]
        means, variances = mixture.mean[:, :, 0], mixture.variance[:, :, 0]

        def cdf_and_density(y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
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

    def chosen(self, draws: dict[str, np.ndarray], rows: np.ndarray) -> GivenScales:
        used = self.noise_draws.reshape(-1, self.noise_draws.shape[-1])[rows]
        return dataclasses.replace(self, used_noise=used)

    def outlier_score(self) -> np.ndarray:
        return self.score


def likelihoods_at(models: list[Any], block: np.ndarray) -> list[Any]:
    """Those of the models at test inputs; where they are not known there, a noise variance will be given."""
    found = [model.likelihood.elsewhere(block) for model in models]
    return [model.likelihood if at is None else at for model, at in zip(models, found, strict=True)]


# -- Gaussians of a draw -------------------------------------------------------------------------------------


def unpack_given(packed: dict[str, Any], models: list[Any], again: Again) -> AbstractGiven:
    """What `packed` described: latent values where they were drawn, else hyperparameters alone."""
    if not packed:
        return GivenHyperparameters(again.solver)
    whitened = read_array(packed, "whitened", 3)
    L, n = again.model.likelihood.latents, len(again.y)
    if whitened.shape[1:] != (L, n) or len(models) not in (1, len(whitened)):
        raise ValueError(
            f"the saved draws have shape {whitened.shape}, which does not go with {n} data and "
            f"{len(models)} models."
        )
    return GivenLatents(whitened)


def _factors(model: Any, X: np.ndarray) -> list[np.ndarray]:
    """Cholesky factors of the prior covariance at the data, one for each latent function."""
    _, matrices = prior_moments(model, X)
    done: dict[int, np.ndarray] = {}
    for K in matrices:
        if id(K) not in done:
            done[id(K)] = cholesky(K)[0]
    return [done[id(K)] for K in matrices]


def _given(
    model: Any, factors: list[np.ndarray], u: np.ndarray, X: np.ndarray, block: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Means (S, m, L) and variances (m, L) of f at the block, given u (S, L, n)."""
    priors = model.priors if isinstance(model.priors, tuple) else (model.priors,)
    means, variances = [], []
    for j, gp in enumerate(priors):
        mean, cross, variance = cross_moments(gp, X, block)
        V = sla.solve_triangular(factors[j], cross, lower=True)
        means.append(mean + u[:, j] @ V)
        variances.append(np.maximum(variance - np.einsum("ij,ij->j", V, V), 0.0))
    return np.stack(means, 2), np.stack(variances, 1)


def _factored(model: Any, X: np.ndarray, y: np.ndarray, noise: np.ndarray) -> AbstractState:
    """One latent function given y with these noise variances (n,)."""
    return Dense().factor(model.priors, X, Sites(y[:, None], 1.0 / noise[:, None]))


def _at_data(model: Any, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Prior mean (n,) and covariance (n, n) at the data."""
    m, matrices = prior_moments(model, X)
    return m[:, 0], matrices[0]


def _conditioned(
    m: np.ndarray, K: np.ndarray, mean: np.ndarray, cross: np.ndarray, y: np.ndarray, noise: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Mean (m,) of f at test inputs given y with these noise variances (n,), and V (n, m):
    the covariance is that of the prior less V'V.
    """
    root = 1.0 / np.sqrt(noise)
    L = np.linalg.cholesky(np.eye(len(noise)) + root[:, None] * K * root)
    V = sla.solve_triangular(L, root[:, None] * cross, lower=True)
    a = sla.solve_triangular(L, root * (y - m), lower=True)
    return mean + a @ V, V


# -- quantiles of mixtures -----------------------------------------------------------------------------------


def _gaussian_quantiles(mixture: Mixture, levels: np.ndarray, noise_variance: Any) -> np.ndarray:
    """(m, levels), from the distribution function of a mixture of Gaussians."""
    mean = mixture.mean[:, :, 0]
    noise = [lik.variances for lik in mixture.likelihoods] if noise_variance is None else [noise_variance]
    sd = np.sqrt(mixture.variance[:, :, 0] + np.array(noise, float).reshape(len(noise), -1))
    low, high = (mean - 3 * sd).min(0), (mean + 3 * sd).max(0)

    def cdf(y: np.ndarray) -> Any:
        return ndtr((y - mean) / sd).mean(0)

    return np.stack([continuous_quantile(cdf, p, low, high) for p in levels], 1)


def _simulated_quantiles(mixture: Mixture, levels: np.ndarray) -> np.ndarray:
    """(m, levels), from draws of y."""
    rng = np.random.default_rng(0)

    def simulate(likelihood: Any, mean: np.ndarray, variance: np.ndarray) -> Any:
        f = mean + np.sqrt(variance) * rng.standard_normal(mean.shape)
        return likelihood.sample(rng, f)

    likelihood, S = mixture.likelihoods[0], mixture.mean.shape[0]
    draws = np.concatenate([mixture.each(simulate) for _ in range(SIMULATED)])
    method: Any = (
        "linear" if np.unique(draws[:, :1]).size > S else "inverted_cdf"
    )  # values of discrete observations are never averaged
    if likelihood.categorical and likelihood.latents == 1 and set(np.unique(draws)) <= {-1.0, 1.0}:
        draws = (draws + 1.0) / 2.0
    return np.asarray(np.quantile(draws, levels, axis=0, method=method).T)


def _newton(
    cdf_and_density: Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]],
    levels: np.ndarray,
    centre: np.ndarray,
    spread: np.ndarray,
) -> np.ndarray:
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
