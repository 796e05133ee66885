"""A posterior that is a set of draws: every prediction is an average over them (Kuss 4.39).

Means are averages of means, variances the average variance plus the variance of means, densities averages of
densities, and quantiles those of the mixture.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar

import numpy as np
from scipy.special import logsumexp

from mercer.inputs import Inputs
from mercer.likelihoods.gaussian import Gaussian
from mercer.posteriors.answers import InferenceStatus, PosteriorError
from mercer.posteriors.functions import SampledFunctions, joined, sample_functions
from mercer.posteriors.given import AbstractGiven, Mixture, likelihoods_at, unpack_given
from mercer.posteriors.mixture import AbstractMixturePosterior
from mercer.posteriors.packing import Again, models_at, read_array, values_of
from mercer.posteriors.scores import log_likelihoods
from mercer.posteriors.sensitivity import Sensitivity, sensitivity
from mercer.prior import sample_gaussian
from mercer.sampling.chains import Chains
from mercer.sampling.diagnostics import Diagnostics

CELLS = 4_000_000  # numbers (draws times test inputs) in memory at a time


@dataclasses.dataclass(frozen=True, eq=False)
class DrawsPosterior(AbstractMixturePosterior):
    """Draws of the posterior of a model. Made by `Model.condition(..., inference=MCMC())` or `fit(...,
    inference=MCMC())`.

    draws: a dict of arrays (chains, draws, ...): "f" the latent values at the data at fixed hyperparameters,
    "u" the whitened ones (f = m + L u) where both were sampled, and every hyperparameter that was sampled, by
    name. models: one for all draws that predictions use, or one for each. given: what f is given one of them.
    Predictions use `used` draws spread evenly over the chains, and the notes say how many. `model` holds the
    fixed hyperparameters, or the medians of those sampled.

    >>> post = model.condition(X, y, inference.MCMC(draws=500)); print(post.diagnostics); post.mean(Xs)
    """

    model: Any
    inputs: Inputs
    y: np.ndarray
    draws: dict[str, np.ndarray]
    chains: Chains
    diagnostics: Diagnostics
    models: list[Any]
    given: AbstractGiven
    solver: Any = None
    notes: tuple[str, ...] = ()
    status: InferenceStatus = InferenceStatus()
    evidence: float | None = dataclasses.field(default=None, init=False)

    averages: ClassVar[bool] = True
    many: ClassVar[str] = "draws"

    def _nor(self, question: str) -> str | None:
        if question == "log_evidence":
            return (
                "draws of a posterior do not give its evidence; use mercer.log_evidence(model, X, y, "
                "inference=mercer.inference.AIS())."
            )
        if question == "save" and not self.given.saved:
            return (
                "draws of the noise of each datum are not saved yet: save a model fitted with another "
                "inference, or keep its posterior_ in memory (it pickles)."
            )
        return None

    @property
    def used(self) -> int:
        """Number of draws that predictions average over."""
        return self.given.used(self.models)

    # -- files -----------------------------------------------------------------------------------------------

    def packed(self) -> dict[str, Any]:
        """Hyperparameters and latent values of the draws that predictions use, and the chains."""
        return {
            "values": values_of(self.model, self.models),
            "given": self.given.packed(),
            "draws": self.draws,
            "names": list(self.diagnostics.names),
            "chains": {f.name: getattr(self.chains, f.name) for f in dataclasses.fields(self.chains)},
            "status": dataclasses.asdict(self.status),
            "notes": list(self.notes),
        }

    @classmethod
    def unpacked(cls, packed: dict[str, Any], again: Again) -> DrawsPosterior:
        """The same draws; diagnostics are computed again."""
        models = models_at(again.model, read_array(packed, "values", 2))
        draws = {name: read_array(packed["draws"], name) for name in packed["draws"]}
        chains = _read_chains(packed["chains"])
        if any(value.shape[:2] != chains.draws.shape[:2] for value in draws.values()):
            raise ValueError("the saved draws and chains differ in length.")
        quantities = np.concatenate([value.reshape(*value.shape[:2], -1) for value in draws.values()], -1)
        names = tuple(map(str, packed["names"]))
        if quantities.shape[2] != len(names):
            raise ValueError(f"{len(names)} quantities are named but {quantities.shape[2]} were drawn.")
        return cls(
            again.model,
            again.inputs,
            again.y,
            draws,
            chains,
            chains.diagnostics(names, quantities),
            models,
            unpack_given(packed["given"], models, again),
            again.solver,
            tuple(packed["notes"]),
            InferenceStatus(**packed["status"]),
        )

    def to_arviz(self) -> Any:
        """All draws as ArviZ takes them, with what the chains said of themselves, y and, where f was drawn at
        fixed hyperparameters, log p(y | f) of each row: an InferenceData, or from ArviZ 1.0 on a DataTree.

        >>> arviz.summary(post.to_arviz(), var_names=["kernel.lengthscale"])
        """
        from mercer.sampling.exported import to_arviz

        f, logs = self.draws.get("f"), None
        if f is not None and len(self.models) == 1:
            flat = f.reshape(-1, *f.shape[2:])
            logs = log_likelihoods(self.models[0].likelihood, flat, self.y).reshape(*f.shape[:2], -1)
        return to_arviz(self.draws, self.chains.stats(), self.y, logs, self.inputs.names)

    # -- predictions -----------------------------------------------------------------------------------------

    def latent_moments(self, Xs: Any, variance: bool = True) -> tuple[np.ndarray, np.ndarray | None]:
        """Mean and variance of f at Xs: (m,) each; (m, L) and (m, L, L) for L latent functions."""
        L = self.model.likelihood.latents
        means, variances = [np.zeros((0, L))], [np.zeros((0, L, L))]
        for _, mixture in self._mixtures(self._values(Xs)):
            mean = mixture.mean.mean(0)
            e = mixture.mean - mean
            within = np.eye(L) * mixture.variance.mean(0)[:, :, None]
            means.append(mean)
            variances.append(within + np.einsum("sml,smk->mlk", e, e) / e.shape[0])
        mean, var = np.concatenate(means), np.concatenate(variances)
        if L == 1:
            mean, var = mean[:, 0], var[:, 0, 0]
        return mean, var if variance else None

    def _observed(self, values: np.ndarray, noise_variance: Any) -> tuple[np.ndarray, np.ndarray]:
        found = [
            _moments(mixture, _of_rows(noise_variance, rows)) for rows, mixture in self._mixtures(values)
        ]
        mean, variance = (np.concatenate(parts) for parts in zip(*found, strict=True))
        return mean, variance

    def _average(self, values: np.ndarray, function: Callable[..., np.ndarray], how: str) -> np.ndarray:
        if how != "average":
            return function(self.model.likelihood, *self.latent_moments(values))
        return np.concatenate([mixture.each(function).mean(0) for _, mixture in self._mixtures(values)])

    def _log_density(self, values: np.ndarray, ys: np.ndarray, noise_variance: Any) -> np.ndarray:
        out = np.empty(values.shape[0])
        for rows, mixture in self._mixtures(values):

            def density(lik: Any, m: np.ndarray, v: np.ndarray, y: np.ndarray = ys[rows]) -> Any:
                return lik.log_density(np.tile(y, len(m) // max(len(y), 1)), m, v)

            logs = mixture.each(density, _of_rows(noise_variance, rows))
            out[rows] = logsumexp(logs, 0) - np.log(logs.shape[0])
        return out

    def _predictive(
        self, values: np.ndarray, levels: np.ndarray, noise_variance: Any
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Those of the mixture. For Gaussian noise and scale mixtures drawn by Gibbs from the distribution
        function, otherwise from 20 draws of y for each draw of the posterior.
        """
        found = []
        for rows, mixture in self._mixtures(values):
            noise = _of_rows(noise_variance, rows)
            found.append((*_moments(mixture, noise), self.given.quantiles(mixture, levels, noise)))
        mean, variance, quantiles = (np.concatenate(parts) for parts in zip(*found, strict=True))
        return mean, variance, quantiles

    def _sample(
        self, values: np.ndarray, size: int, rng: np.random.Generator, latent: bool, noise_variance: Any
    ) -> np.ndarray:
        """Each draw from one of the posterior chosen at random."""
        chosen = np.sort(rng.integers(0, self.used, size))
        out = np.empty((size, values.shape[0]))
        for i in np.unique(chosen):
            where = np.flatnonzero(chosen == i)
            f = sample_gaussian(*self._joint(int(i), values), where.size, rng)
            if not latent:
                f = self._likelihood_of(i, values, noise_variance).sample(rng, f)
            out[where] = f
        return out[rng.permutation(size)]

    def _sample_functions(
        self, size: int, rng: np.random.Generator, points: np.ndarray | None, waves: int
    ) -> SampledFunctions:
        """Each from one of the posterior chosen at random."""
        chosen, counts = np.unique(rng.integers(0, self.used, size), return_counts=True)
        states = (self.given.state(int(i), self._model(i), self.inputs.values, self.y) for i in chosen)
        each = zip(states, counts, strict=True)
        return joined([sample_functions(s, int(n), rng, self._values, points, waves) for s, n in each], rng)

    def _covariance(self, values: np.ndarray, latent: bool, noise_variance: Any) -> np.ndarray:
        m = values.shape[0]
        means, total = np.empty((self.used, m)), np.zeros((m, m))
        for i in range(self.used):
            means[i], covariance = self._joint(i, values)
            total += covariance
            if not latent:
                own = self._likelihood_of(i, values, noise_variance)
                total += np.diag(np.broadcast_to(own.variances, m))
        e = means - means.mean(0)
        return np.asarray((total + e.T @ e) / self.used)

    def under(self, priors: Mapping[str, Any]) -> Sensitivity:
        """What the same draws say under other priors of some hyperparameters (2.1: vary the prior and
        compare).

        priors: a hyperprior for each name, as in `mercer.hyperpriors`; the others stay. Draws are weighted by
        new over old prior.

        >>> post = fit(model, X, y, inference=MCMC()).posterior
        >>> print(post.under({"kernel.lengthscale": hyperpriors.LogNormal(1.0, 0.5)}))
        """
        return sensitivity(self, priors)

    def marginal_skewness(self) -> np.ndarray:
        """Skewness E[(f - E f)^3] / sd(f)^3 of the marginal of f at each datum, (n,) or (n, L): 0 for a
        Gaussian, so the largest say where Gaussian approximations are furthest from the truth (Kuss 6.3).

        >>> post = model.condition(X, y, inference.MCMC(draws=500))
        >>> np.argsort(-np.abs(post.marginal_skewness()))         # the most skewed first
        """
        f = self.latent_draws()
        e = f - f.mean(0)
        return np.asarray(np.mean(e**3, 0) / np.maximum(np.mean(e**2, 0), np.finfo(float).tiny) ** 1.5)

    def latent_draws(self) -> np.ndarray:
        """Draws of f at the data, those of all chains one after the other: (S, n), or (S, n, L)."""
        if "f" not in self.draws:
            raise PosteriorError(
                "f was integrated out: there are no draws of it at the data; use sample(X, size, "
                "latent=True)."
            )
        f = self.draws["f"]
        return f.reshape(-1, *f.shape[2:])

    # -- the data seen from the model ------------------------------------------------------------------------

    def outlier_score(self) -> np.ndarray:
        """How far each datum is from being a regular observation (n,): what the draws of its noise say, else
        from f given all data.
        """
        self.check("outlier_score")
        drawn = self.given.outlier_score()
        return self._score_given_all() if drawn is None else drawn

    def _log_likelihoods(self, rows: slice, size: int, rng: np.random.Generator) -> np.ndarray:
        """At f of every draw, or at several f for each where f is integrated out given the draw."""
        at = self.given.mixture(self.models, self.inputs.values, self.y)(self.inputs.values[rows])
        again = 1 if self.given.drawn else -(-size // len(at.mean))
        mean, variance = np.repeat(at.mean, again, 0), np.broadcast_to(at.variance, at.mean.shape)
        f = mean + np.sqrt(np.repeat(variance, again, 0)) * rng.standard_normal(mean.shape)
        f = f[:, :, 0] if f.shape[2] == 1 else f
        likelihoods, y = at.likelihoods, self.y[rows]
        if len(likelihoods) == 1:
            return log_likelihoods(likelihoods[0], f, y)
        groups = zip(likelihoods, np.split(f, len(likelihoods)), strict=True)
        return np.concatenate([log_likelihoods(likelihood, group, y) for likelihood, group in groups])

    # -- inside ----------------------------------------------------------------------------------------------

    def _mixtures(self, values: np.ndarray) -> Iterator[tuple[slice, Mixture]]:
        """The mixture at blocks of test inputs; at one block of none where there are none."""
        L = self.model.likelihood.latents
        if values.shape[0] == 0:
            none = np.zeros((self.used, 0, L))
            yield slice(0, 0), Mixture(none, none, likelihoods_at(self.models, values))
            return
        rows = max(1, CELLS // (self.used * L))
        at = self.given.mixture(self.models, self.inputs.values, self.y)
        for first in range(0, values.shape[0], rows):
            block = values[first : first + rows]
            yield slice(first, first + block.shape[0]), at(block)

    def _joint(self, i: int, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Mean (m,) and covariance (m, m) of f at the test inputs for draw i, of one latent function."""
        return self.given.joint(i, self._model(i), self.inputs.values, self.y, values)

    def _model(self, i: int) -> Any:
        """The model of draw i."""
        return self.models[min(int(i), len(self.models) - 1)]

    def _likelihood_of(self, i: int, values: np.ndarray, noise_variance: Any) -> Any:
        """The likelihood of draw i at test inputs."""
        if noise_variance is not None:
            return Gaussian(noise_variance)
        return self._model(i).likelihood.elsewhere(values)

    def _findings(self) -> list[str]:
        """Medians and 90 % intervals of the hyperparameters that were sampled, then the diagnostics."""
        lines = []
        for name, values in self.draws.items():
            if name not in ("f", "u"):
                low, middle, high = np.quantile(values, [0.05, 0.5, 0.95])
                lines.append(f"{name}: median {middle:.6g}, 90 % between {low:.6g} and {high:.6g}")
        return [*lines, str(self.diagnostics)]

    def __repr__(self) -> str:
        n, d = self.inputs.values.shape
        c = self.diagnostics
        kernels = ", ".join(map(str, self.model.kernels))
        return (
            f"DrawsPosterior({kernels}, n={n}, d={d}, {c.chains} chains of {c.draws} draws, R-hat at "
            f"most {c.worst_r_hat:.3f})"
        )


def _moments(mixture: Mixture, noise_variance: Any) -> tuple[np.ndarray, np.ndarray]:
    """Mean and variance of y, the average variance plus the variance of the means."""
    mean, variance = (
        mixture.each(lambda lik, m, v, k=k: lik.predict(m, v)[k], noise_variance) for k in (0, 1)
    )
    return mean.mean(0), variance.mean(0) + mean.var(0)


def _of_rows(noise_variance: Any, rows: slice) -> Any:
    """That of a block of the test inputs, where it is given for each."""
    return noise_variance[rows] if np.ndim(noise_variance) == 1 else noise_variance


def _read_chains(packed: dict[str, Any]) -> Chains:
    """Chains from a file. Not every sampler has an energy: it may be nan."""
    said: dict[str, Any] = {
        "step_size": float(packed["step_size"]),
        "seconds": float(packed["seconds"]),
        "interrupted": bool(packed["interrupted"]),
    }
    for name in {f.name for f in dataclasses.fields(Chains)} - set(said):
        said[name] = read_array(packed, name, finite=name != "energy")
    return Chains(**said)
