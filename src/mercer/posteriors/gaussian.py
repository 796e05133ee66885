"""One Gaussian process: what rules that find sites return. Factored once, and everything else is a view on
its State; a posterior that was loaded is factored when the first of these views needs it.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterator
from typing import Any, ClassVar

import numpy as np
from scipy.linalg import solve_triangular

from mercer.inputs import Inputs
from mercer.kernels.algebra.sums import Sum
from mercer.likelihoods.gaussian import Gaussian
from mercer.linalg.cholesky import cholesky
from mercer.observe import Observations
from mercer.observe import values as observed_values
from mercer.posteriors.answers import Component, EvidenceBounds, EvidenceTerms, InferenceStatus, LeaveOneOut
from mercer.posteriors.cavity import cavity
from mercer.posteriors.functions import NO_FUNCTIONS, SampledFunctions, has_functions, sample_functions
from mercer.posteriors.loo import leave_one_out
from mercer.posteriors.packing import Again
from mercer.posteriors.protocol import AbstractPosterior, not_gaussian, not_with
from mercer.posteriors.scores import log_likelihoods, normal_draws
from mercer.posteriors.source import AbstractSource, Made, Recalled
from mercer.progress import shown, tell
from mercer.solvers.dense import Dense
from mercer.solvers.protocol import AbstractState
from mercer.uncertain.predictor import Predictor

MOST_ROWS = 8000  # of the data that a predictor holds
BLOCK_ROWS = 16384  # test inputs are handled this many at a time, so memory does not grow with their number
_OF_GAUSSIAN_NOISE = {
    "evidence_bounds": "a pair of bounds of the exact evidence",
    "evidence_terms": "the decomposition (5.8)",
    "prequential": "the sequential decomposition",
    "smoother": "a linear smoother",
    "degrees_of_freedom": "the trace of a linear smoother",
}
_OF_ONE_LATENT = {
    "components": "components are those",
    "left_out": "f without one datum is known",
    "prior_divergence": "the divergence from the prior is that",
}
_OF_ALL_ROWS = ("degrees_of_freedom", "evidence_terms", "prequential", "prior_divergence", "smoother")
_BY_KERNEL = {
    "components": "components",
    "left_out": "predictions without one datum",
    "predictor": "predictors",
    "prequential": "predictions of each datum from those before it",
    "smoother": "the weights of a linear smoother",
}


@dataclasses.dataclass(frozen=True, eq=False)
class GaussianPosterior(AbstractPosterior):
    """The posterior of a model given data, as one Gaussian process: exact for Gaussian noise, else the
    approximation of Laplace, EP or a bound. Made by `GP.condition`, `Model.condition` or `fit`.

    >>> post = GP(kernels.SE()).condition(X, y, noise_variance=0.1)
    >>> post.mean(Xs), post.std(Xs), post.sample(Xs, 5, seed=0), post.log_evidence, post.loo().log_density
    """

    model: Any
    inputs: Inputs
    y: np.ndarray
    source: AbstractSource
    evidence: float
    notes: tuple[str, ...] = ()
    status: InferenceStatus = InferenceStatus()
    solver: Any = None

    averages: ClassVar[bool] = False

    @property
    def state(self) -> AbstractState:
        """The factored problem; that of a posterior from a file is made when it is first asked for."""
        return self.source.state

    def packed(self) -> dict[str, Any]:
        """The sites, and what the mean needs."""
        return {
            "source": self.source.packed(),
            "evidence": self.evidence,
            "notes": list(self.notes),
            "status": dataclasses.asdict(self.status),
        }

    @classmethod
    def unpacked(cls, packed: dict[str, Any], again: Again) -> GaussianPosterior:
        """The same posterior, not factored yet."""
        model, inputs = again.model, again.inputs
        latents = model.likelihood.latents
        source = Recalled.unpacked(packed["source"], model.priors, inputs.values, latents, again.solver)
        return cls(
            model,
            inputs,
            again.y,
            source,
            float(packed["evidence"]),
            tuple(map(str, packed["notes"])),
            InferenceStatus(**packed["status"]),
            again.solver,
        )

    def why_not(self, question: str) -> str | None:
        """Why one of the `QUESTIONS` has no answer here, and what to do instead; None where it has one."""
        likelihood = self.model.likelihood
        if question in _OF_GAUSSIAN_NOISE and not isinstance(likelihood, Gaussian):
            what = _OF_GAUSSIAN_NOISE[question]
            return not_gaussian(what, likelihood, "condition a model with Gaussian noise for it")
        if question in _OF_ONE_LATENT and likelihood.latents > 1:
            return f"{_OF_ONE_LATENT[question]} of one latent function, and this likelihood has several: " + (
                "take them from a model of one; loo() and latent_moments() speak of all."
            )
        if question in _OF_ALL_ROWS and self.state.partial:
            return (
                "it is of all rows, and this model was fitted in chunks, of which some rows were kept: "
                "condition on an array for it."
            )
        if question == "save" and self._in_chunks:
            return (
                "the members of this committee are with the chunks they were fitted to, and predict there: "
                "save a model with solvers.VFE instead."
            )
        if question in _BY_KERNEL and not self.state.exact:
            return (
                f"{_BY_KERNEL[question]} need predictions by the exact covariance, which this solver "
                "approximates: use solver='dense'."
            )
        if question in ("predict_uncertain", "predictor") and self.model.reads_objects():
            return "inputs that are text or objects have no covariance: use predict."
        if question == "predictor" and likelihood.latents == 1:
            return self._no_predictor()
        if question == "prequential" and self.state.prior.basis is not None:
            return (
                "with basis functions of vague weight the first predictions are undefined: use a linear "
                "kernel instead of the basis."
            )
        if question == "prior_divergence" and self.state.prior.basis is not None:
            return (
                "basis functions of vague weight are infinitely far from their prior: use a linear kernel "
                "instead of the basis."
            )
        if question == "evidence_bounds" and self.state.evidence_bounds() is None:
            return "bounds of the exact evidence are offered by solvers.VFE and solvers.ProjectedProcess."
        if question == "sample_functions" and likelihood.latents == 1 and not has_functions(self.state):
            return NO_FUNCTIONS
        return None if question == "sample" else not_with(likelihood, question)

    # -- predictions -----------------------------------------------------------------------------------------

    def latent_moments(self, Xs: Any, variance: bool = True) -> tuple[np.ndarray, np.ndarray | None]:
        """Mean and variance of f at Xs, in blocks: (m,) each; (m, L) and (m, L, L) for L latent functions."""
        if (this := self._reading(Xs)) is not self:
            return this.latent_moments(Xs, variance)
        L = self.model.likelihood.latents
        means, variances = [np.zeros((0, L))], [np.zeros((0, L, L) if L > 1 else (0, 1))]
        with shown("predicting"):
            for share, block in self._blocks(Xs):
                if variance:
                    mean, var = self.state.predict(block)
                    assert var is not None
                    variances.append(var)
                else:
                    mean = self.source.mean(block)
                means.append(mean)
                tell(share, 1.0, "rows")
        mean, var = np.concatenate(means), np.concatenate(variances) if variance else None
        return (mean, var) if L > 1 else (mean[:, 0], None if var is None else var[:, 0])

    def _observed(self, values: np.ndarray, noise_variance: Any) -> tuple[np.ndarray, np.ndarray]:
        mean, variance = self._likelihood(values, noise_variance).predict(*self.latent_moments(values))
        return mean, variance

    def _predictive(
        self, values: np.ndarray, levels: np.ndarray, noise_variance: Any
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        likelihood, moments = self._likelihood(values, noise_variance), self.latent_moments(values)
        mean, variance = likelihood.predict(*moments)
        return mean, variance, np.stack([likelihood.quantile(q, *moments) for q in levels], 1)

    def _log_density(self, values: np.ndarray, ys: np.ndarray, noise_variance: Any) -> np.ndarray:
        logs: np.ndarray = self._likelihood(values, noise_variance).log_density(
            ys, *self.latent_moments(values)
        )
        return logs

    def _average(self, values: np.ndarray, function: Callable[..., np.ndarray], how: str) -> np.ndarray:
        return function(self.model.likelihood, *self.latent_moments(values))

    def _covariance(self, values: np.ndarray, latent: bool, noise_variance: Any) -> np.ndarray:
        _, covariance = self.state.predict(values, full=True)
        assert covariance is not None
        if latent:
            return covariance
        noise = self._likelihood(values, noise_variance).variances
        return covariance + np.diag(np.broadcast_to(noise, values.shape[0]))

    def _sample(
        self, values: np.ndarray, size: int, rng: np.random.Generator, latent: bool, noise_variance: Any
    ) -> np.ndarray:
        f = self.state.sample(rng, values, size)
        if latent:
            return f
        y: np.ndarray = self._likelihood(values, noise_variance).sample(rng, f)
        return y

    def _sample_functions(
        self, size: int, rng: np.random.Generator, points: np.ndarray | None, waves: int
    ) -> SampledFunctions:
        return sample_functions(self.state, size, rng, self._values, points, waves)

    def _no_predictor(self) -> str | None:
        n = self.state.X.shape[0]
        if n > MOST_ROWS:
            return f"a predictor holds a matrix of {n} x {n} numbers: use fewer than {MOST_ROWS} data."
        if self.state.prior.basis is not None:
            return "predictors know no basis functions: use a linear kernel or a mean in their place."
        return None

    def predictor(self) -> Predictor:
        """This posterior as arrays, for `mercer.uncertain`: predictions at certain and uncertain inputs that
        JAX compiles, differentiates and iterates. Several can be joined.

        >>> uncertain.moments(post.predictor(), jnp.array([0.3]), jnp.array([[0.5]])).covariance
        """
        self.check("predictor")
        return self._predictor

    @functools.cached_property
    def _predictor(self) -> Predictor:
        state = self.state
        noise = (
            self.model.likelihood.elsewhere(state.X[:1])
            if isinstance(self.model.likelihood, Gaussian)
            else None
        )
        return Predictor.of_one(
            state.prior.kernel,
            state.prior.mean,
            state.X,
            np.reshape(state.alpha, -1),
            state.apply(np.eye(len(state.X))),
            0.0 if noise is None else float(np.max(noise.variances)),
        )

    # -- the data seen from the model ------------------------------------------------------------------------

    def loo(self) -> LeaveOneOut:
        """Leave-one-out predictions of the training data, without fitting again (5.10-5.12; 5.5.3)."""
        return leave_one_out(self.state, self.y, self.model.likelihood)

    def _log_likelihoods(self, rows: slice, size: int, rng: np.random.Generator) -> np.ndarray:
        mean, variance = self.latent_moments(self.inputs.values[rows])
        assert variance is not None
        f = normal_draws(mean, variance, size, rng)
        return log_likelihoods(self.model.likelihood, f, self.y[rows])

    def loo_latent(self) -> tuple[np.ndarray, np.ndarray]:
        """Mean and variance of f at each datum given the others, given all where that is improper: (n,) each;
        (n, L) and (n, L, L) for L latent functions.
        """
        self.check("loo_latent")
        mean, variance = self.latent_moments(self.inputs.values)
        assert variance is not None
        without = cavity(self.state)
        if mean.ndim == 2:
            m, v = without.mean, without.variance
            finite = np.isfinite(m).all(1) & np.isfinite(v).all((1, 2))
            least = np.linalg.eigvalsh(np.where(finite[:, None, None], v, variance)).min(1)
            proper = finite & (least > 0)
            return np.where(proper[:, None], m, mean), np.where(proper[:, None, None], v, variance)
        m, v = without.mean[:, 0], without.variance[:, 0]
        proper = np.isfinite(m) & (v > 0) & np.isfinite(v)
        return np.where(proper, m, mean), np.where(proper, v, variance)

    def left_out(self, Xs: Any, rows: Any, variance: bool = True) -> tuple[np.ndarray, np.ndarray | None]:
        """Mean and variance (m,) of f at each of Xs (m, d) given all data but the one at the position `rows`
        (m,) says; given all where that is improper.
        """
        self.check("left_out")
        rows = np.asarray(rows, int)
        alpha, kappa = (np.asarray(a)[:, 0] for a in self.state.dual())
        proper = kappa * np.asarray(self.state.sites.precision)[:, 0] > 0
        kappa = np.where(proper, kappa, np.inf)
        means, variances, first = [np.zeros(0)], [np.zeros(0)], 0
        for _, values in self._blocks(Xs, rows=2048):
            without = rows[first : first + len(values)]
            first += len(values)
            mean, var = self.state.predict(values, variance=variance)
            weight = self.state.own_weights(values, without)
            means.append(mean[:, 0] - weight * alpha[without] / kappa[without])
            if var is not None:
                variances.append(var[:, 0] + weight**2 / kappa[without])
        return np.concatenate(means), np.concatenate(variances) if variance else None

    def outlier_score(self) -> np.ndarray:
        """How far each datum is from being a regular observation (n,), from its prediction by the others."""
        self.check("outlier_score")
        if isinstance(self.model.likelihood, Gaussian):
            return np.zeros(len(self.y))
        score = self.model.likelihood.outlier_score(np.asarray(self.y, float), *self.loo_latent())
        return np.asarray(np.clip(score, 0.0, 1.0))

    def evidence_bounds(self) -> EvidenceBounds:
        """The exact log evidence lies between these two (solver VFE with Gaussian noise):
        their gap says how good m is.
        """
        self.check("evidence_bounds")
        bounds = self.state.evidence_bounds()
        assert bounds is not None
        log_noise = self.log_evidence - self.state.log_normaliser
        return EvidenceBounds(bounds.lower + log_noise, bounds.upper + log_noise)

    def evidence_terms(self) -> EvidenceTerms:
        """The log evidence as data fit + complexity + constant (5.8), for Gaussian noise."""
        self.check("evidence_terms")
        residual = self.y - np.asarray(self.state.prior.mean.value(self.inputs.values))
        data_fit = float(-0.5 * residual @ np.asarray(self.state.alpha))
        constant = -0.5 * self.y.shape[0] * float(np.log(2 * np.pi))
        return EvidenceTerms(data_fit, self.log_evidence - data_fit - constant, constant)

    def prequential(self) -> np.ndarray:
        """log p(y_i | y_1 ... y_(i-1)) for every i (n,), in the order of the data:
        they sum to the log evidence (C.BAY7).
        """
        self.check("prequential")
        gp, noise = self.state.prior, 1.0 / np.asarray(self.state.sites.precision[:, 0])
        L, _ = cholesky(gp.kernel(self.inputs.values) + np.diag(noise))
        z = solve_triangular(L, self.y - np.asarray(gp.mean.value(self.inputs.values)), lower=True)
        logs: np.ndarray = -np.log(np.diag(L)) - 0.5 * z**2 - 0.5 * np.log(2 * np.pi)
        return logs

    def smoother(self, Xs: Any) -> np.ndarray:
        """Weights (m, n): the mean at Xs is mean(Xs) + weights (y - mean(X)) (2.25, 2.36)."""
        self.check("smoother")
        return self.state.smoother(self._values(Xs))

    def degrees_of_freedom(self) -> float:
        """Effective number of parameters, the trace of the smoother matrix at the data (2.36)."""
        self.check("degrees_of_freedom")
        _, kappa = self.state.dual()
        return float(np.sum(1.0 - np.asarray(kappa) / np.asarray(self.state.sites.precision)))

    def prior_divergence(self) -> float:
        """KL(q || p) in nats of the posterior q(f) from the prior p(f) at the training inputs (7.33); of a
        low-rank solver that of its own prior (8.32).

        q is p times Gaussian sites t_i over their normaliser Z, so that it is the sum of E_q[log t_i] less
        log Z: nothing is inverted.
        """
        self.check("prior_divergence")
        sites, (mean, variance) = self.state.sites, self.state.site_marginals()
        away = np.asarray(mean) - np.asarray(sites.centre)
        slope = 0.0 if sites.slope is None else np.asarray(sites.slope)
        expected = slope * away - 0.5 * np.asarray(sites.precision) * (away**2 + np.asarray(variance))
        return max(float(np.sum(expected)) - float(self.state.log_normaliser), 0.0)

    def components(self, Xs: Any) -> list[Component]:
        """Posterior of every additive term of the kernel at Xs, each with its own uncertainty.
        They sum to the latent mean (less m).
        """
        self.check("components")
        kernel = self.state.prior.kernel
        terms = kernel.terms if isinstance(kernel, Sum) else (kernel,)
        out = []
        alpha = np.asarray(self.state.alpha)
        for term in terms:
            means, variances = [np.zeros(0)], [np.zeros(0)]
            for _, block in self._blocks(Xs, rows=2048):
                K = term(self.inputs.values, block)
                means.append(K.T @ alpha)
                prior = np.asarray(term.diag(term.encode(block)))
                variances.append(prior - np.einsum("ij,ij->j", K, self.state.apply(K)))
            std = np.sqrt(np.maximum(np.concatenate(variances), 0.0))
            out.append(Component(str(term), np.concatenate(means), std))
        return out

    # -- inside ----------------------------------------------------------------------------------------------

    def _reading(self, Xs: Any) -> GaussianPosterior:
        if not isinstance(Xs, Observations):
            return self
        plain = self.model.observed is None and self.model.likelihood.latents == 1
        return self._of_rows if plain and self.state.exact else self

    @functools.cached_property
    def _of_rows(self) -> GaussianPosterior:
        """The same posterior, by the same sites, with the kernel that reads rows of observations; factored
        when derivatives or integrals are first asked for.
        """
        data = observed_values(self.inputs, self.y)
        model = self.model.observing(data).bind(Inputs(data.rows))
        solver = Dense() if self.state.prior.basis is None else Dense().with_basis()
        state = solver.factor(model.priors, data.rows, self.state.sites)
        return dataclasses.replace(
            self, model=model, inputs=Inputs(data.rows), source=Made(state), solver=solver
        )

    def _blocks(self, Xs: Any, rows: int | None = None) -> Iterator[tuple[float, np.ndarray]]:
        """Rows of Xs, and the share that is done after them."""
        values = self._values(Xs)
        n, rows = values.shape[0], rows or BLOCK_ROWS
        for start in range(0, n, rows):
            yield min(1.0, (start + rows) / n), values[start : start + rows]

    def _learned_from(self) -> int:
        n = self.inputs.values.shape[0]
        if self._in_chunks:
            return self.state.learned_from
        return n if self.solver is None else int(self.solver.learned_from(n))

    @property
    def _in_chunks(self) -> bool:
        """Whether what predicts is where the rows are."""
        return self.solver is not None and self.solver.in_chunks == "members" and self.state.partial

    def _findings(self) -> list[str]:
        algebra = self.state.diagnostics()
        known = "" if algebra.condition is None else f"condition number at least {algebra.condition:.1e}, "
        return [
            f"log evidence: {self.log_evidence:.4f}",
            f"linear algebra: {known}jitter {algebra.jitter:.1g}",
        ]

    def __repr__(self) -> str:
        n, d = self._learned_from(), self.inputs.values.shape[1]
        kernels = ", ".join(map(str, self.model.kernels))
        return f"GaussianPosterior({kernels}, n={n}, d={d}, log_evidence={self.log_evidence:.4f})"
