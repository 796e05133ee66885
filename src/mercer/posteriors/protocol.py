"""What a posterior is: the one face of everything that conditioning returns.

Latent and observed are never confused: `latent=True` speaks of f, the default of y (noise included). For two
classes the mean of y is the probability of class 1; for C classes it is (m, C).

Not every posterior answers every question: draws have no evidence, averages no leave-one-out. What one cannot
say is declared in `cannot`, and asking for it raises a `PosteriorError` with the same words.
"""

from __future__ import annotations

import abc
import dataclasses
import functools
from collections.abc import Callable, Iterator
from typing import Any, ClassVar, Self

import numpy as np

from mercer.conditioned import AbstractConditioned, ClassFunction
from mercer.html import card, lines
from mercer.inputs import Inputs, as_inputs, as_targets
from mercer.likelihoods.gaussian import Gaussian
from mercer.likelihoods.noise import AbstractNoise
from mercer.observe import Observations
from mercer.posteriors import scores
from mercer.posteriors.answers import (
    Component,
    EvidenceBounds,
    EvidenceTerms,
    InferenceStatus,
    LeaveOneOut,
    Method,
    PosteriorError,
    Predictive,
    UncertainPrediction,
)
from mercer.posteriors.functions import WAVES, SampledFunctions
from mercer.posteriors.packing import Again
from mercer.posteriors.scores import PredictiveScore
from mercer.uncertain.predictor import Predictor

# what a posterior may have to refuse; everything else it always answers
QUESTIONS = frozenset(
    {
        "log_evidence",
        "probability",
        "covariance",
        "sample",
        "sample_functions",
        "quantile",
        "loo",
        "loo_latent",
        "left_out",
        "predict_uncertain",
        "predictor",
        "components",
        "evidence_bounds",
        "evidence_terms",
        "prequential",
        "smoother",
        "degrees_of_freedom",
        "prior_divergence",
        "outlier_score",
        "save",
    }
)


class AbstractPosterior(AbstractConditioned):
    """The posterior of a model given data: immutable, and every method is a view.

    model, inputs, y: what was conditioned, on what; where hyperparameters are averaged over, `model` is one
        that stands for all
    evidence: the log evidence, or None where it is not known
    notes: what a person should know
    status: how the search for it ended
    solver: with the choices it made (inducing inputs, blocks), where there is one

    Test inputs Xs are (m, d), or a frame with the columns of the training data. `noise_variance` is that of
    the rows of Xs, needed where the training noise was given for each datum.

    >>> post = mercer.GP(mercer.kernels.SE()).condition(X, y, noise_variance=0.09)
    >>> post.mean(Xs), post.std(Xs), post.std(Xs, latent=True)                   # (m,) each
    >>> post.quantile(Xs, [0.05, 0.95]), post.covariance(Xs)                     # (m, 2), (m, m)
    >>> post.sample(Xs, 5, seed=0), post.log_evidence, post.loo().mean           # (5, m), a number, (n,)
    """

    model: Any
    inputs: Inputs
    y: np.ndarray
    evidence: float | None
    notes: tuple[str, ...]
    status: InferenceStatus
    solver: Any

    averages: ClassVar[bool]  # over settings of the hyperparameters, so that `model` is one of many

    # -- what it can say -------------------------------------------------------------------------------------

    @abc.abstractmethod
    def why_not(self, question: str) -> str | None:
        """Why one of the `QUESTIONS` has no answer here, and what to do instead; None where it has one."""

    @property
    def cannot(self) -> dict[str, str]:
        """The `QUESTIONS` that have no answer here, each with the reason and what to do instead."""
        return {q: reason for q in sorted(QUESTIONS) if (reason := self.why_not(q)) is not None}

    @property
    def offers(self) -> frozenset[str]:
        """The `QUESTIONS` that have one."""
        return QUESTIONS - self.cannot.keys()

    def can(self, question: str) -> bool:
        """Whether one of the `QUESTIONS` has an answer."""
        return self.why_not(question) is None

    def check(self, question: str) -> None:
        """A `PosteriorError` that says why, and what to do, where the question has no answer."""
        reason = self.why_not(question)
        if reason is not None:
            raise PosteriorError(reason)

    @property
    def log_evidence(self) -> float:
        """Log marginal likelihood of y at the hyperparameters of `model` (2.30), or its approximation."""
        self.check("log_evidence")
        assert self.evidence is not None
        return self.evidence

    # -- predictions -----------------------------------------------------------------------------------------

    @abc.abstractmethod
    def latent_moments(self, Xs: Any, variance: bool = True) -> tuple[np.ndarray, np.ndarray | None]:
        """Mean and variance of f at Xs: (m,) each; (m, L) and (m, L, L) for L latent functions.
        `variance=False`: the mean and None.
        """

    def mean(self, Xs: Any, latent: bool = False) -> np.ndarray:
        """Predictive mean (m,) of y, or of f with `latent=True` (the same where noise is symmetric)."""
        if latent or self.model.likelihood.mean_is_latent:
            return self.latent_moments(Xs, variance=False)[0]
        this = self._reading(Xs)
        values = this._values(Xs)
        this._likelihood(values, None)
        return this._observed(values, None)[0]

    def variance(self, Xs: Any, latent: bool = False, noise_variance: Any = None) -> np.ndarray:
        """Predictive variance (m,) of y, or of f with `latent=True`: (m, L, L) for L latent functions."""
        return self._moments(Xs, latent, noise_variance)[1]

    def mean_and_std(
        self, Xs: Any, latent: bool = False, noise_variance: Any = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Predictive mean and standard deviation, each (m,), in one pass; of f, for each latent function."""
        mean, variance = self._moments(Xs, latent, noise_variance)
        return mean, np.sqrt(np.einsum("mll->ml", variance) if latent and variance.ndim == 3 else variance)

    def std(self, Xs: Any, latent: bool = False, noise_variance: Any = None) -> np.ndarray:
        """Predictive standard deviation (m,) of y, or of f for each latent function."""
        return self.mean_and_std(Xs, latent, noise_variance)[1]

    def quantile(self, Xs: Any, q: Any, noise_variance: Any = None) -> np.ndarray:
        """Predictive quantiles of y: (m,) for one q, (m, len(q)) for several."""
        found = self.predictive(Xs, q, noise_variance).quantiles
        return found[:, 0] if np.ndim(q) == 0 else found

    def predictive(self, Xs: Any, q: Any = (0.025, 0.975), noise_variance: Any = None) -> Predictive:
        """Mean (m,), standard deviation (m,) and quantiles (m, len(q)) of y, in one pass.

        >>> post.predictive(Xs, [0.05, 0.5, 0.95]).quantiles
        """
        levels = np.atleast_1d(np.asarray(q, float))
        if np.any((levels <= 0) | (levels >= 1)):
            raise ValueError(f"quantiles must lie strictly between 0 and 1, got {np.asarray(q, float)}.")
        self.check("quantile")
        this = self._reading(Xs)
        values = this._values(Xs)
        this._likelihood(values, noise_variance)
        mean, variance, quantiles = this._predictive(values, levels, noise_variance)
        return Predictive(mean, np.sqrt(variance), quantiles)

    def log_density(self, Xs: Any, ys: Any, noise_variance: Any = None) -> np.ndarray:
        """Log predictive density (m,), or probability, of each observation ys at Xs."""
        this = self._reading(Xs)
        values = this._values(Xs)
        likelihood = this._likelihood(values, noise_variance)
        targets = likelihood.targets(as_targets(ys, values.shape[0], "ys"))
        return this._log_density(values, targets, noise_variance)

    def probability(self, Xs: Any, how: str = "average") -> np.ndarray:
        """Class probabilities: (m,) of class 1 for two classes, (m, C) for more.

        how: "average" over f (3.25), or "map", at the mean of f, which ignores its uncertainty.
        """
        self.check("probability")

        def of(likelihood: Any, mean: np.ndarray, variance: np.ndarray) -> np.ndarray:
            p: np.ndarray = likelihood.probability(mean, variance, how=how)
            return p

        return self._average(self._values(Xs), of, how)

    def class_probabilities(self, Xs: Any, how: str = "average") -> np.ndarray:
        """Probabilities (m, C) of all classes, C >= 2; of two both are computed, so that a tiny one keeps its
        digits.
        """
        self.check("probability")

        def of(likelihood: Any, mean: np.ndarray, variance: np.ndarray) -> np.ndarray:
            return class_probabilities(likelihood, mean, variance, how)

        return self._average(self._values(Xs), of, how)

    def covariance(self, Xs: Any, latent: bool = False, noise_variance: Any = None) -> np.ndarray:
        """Joint predictive covariance (m, m) of y at Xs, for Gaussian noise, or of f with `latent=True`."""
        self.check("covariance")
        this = self._reading(Xs)
        values = this._values(Xs)
        if not latent:
            this._gaussian("the joint covariance of observations", "latent=True gives that of f")
            this._likelihood(values, noise_variance)
        return this._covariance(values, latent, noise_variance)

    def sample(
        self, Xs: Any, size: int = 1, seed: Any = None, latent: bool = False, noise_variance: Any = None
    ) -> np.ndarray:
        """`size` joint draws at Xs: (size, m), of y or of f; (size, m, L) of several latent functions."""
        self.check("sample")
        this = self._reading(Xs)
        values = this._values(Xs)
        if not latent:
            this._likelihood(values, noise_variance)
        if values.shape[0] == 0:
            return np.zeros((size, 0))
        return this._sample(values, size, np.random.default_rng(seed), latent, noise_variance)

    def sample_functions(
        self, size: int = 1, seed: Any = None, points: Any = None, waves: int = WAVES
    ) -> SampledFunctions:
        """`size` draws of f as functions, which can be evaluated at any inputs, again and again, and
        differentiated by JAX: a function of the prior, moved to agree with the data (Matheron's rule).

        points: inputs (p, d) at which they will be looked at. Draws are then exact there, whatever the
            kernel, at O((n + p)^3)
        waves: without points, how many random waves make a draw of each stationary term of the kernel; terms
            of finite rank are exact

        >>> functions = post.sample_functions(3, seed=0)
        >>> functions(Xs), functions[1](Xs)                       # (3, m), (m,)
        >>> jax.grad(lambda x: functions[1](x[None])[0])(jnp.array([0.3]))
        """
        self.check("sample_functions")
        if min(size, waves) < 1:
            raise ValueError(f"size and waves must be at least 1, got {size} and {waves}.")
        at = None if points is None else self._values(points)
        return self._sample_functions(size, np.random.default_rng(seed), at, waves)

    def predict_uncertain(
        self,
        mu: Any,
        Sigma: Any,
        latent: bool = False,
        method: Method | None = None,
        noise_variance: Any = None,
        seed: Any = 0,
    ) -> UncertainPrediction:
        """Mean and variance of y, or of f with `latent=True`, where the input is uncertain, x ~ N(mu, Sigma),
        and the covariance of x with it: numbers and (d,) for one mu (d,), and (m,), (m,) and (m, d) for mu
        (m, d).

        Sigma: (d, d), or (d,) variances of columns that are independent, or one number for all; (m, d, d)
            gives each input its own. Zero, or zero for some columns, says that they are known
        method: "exact": closed forms, for kernels of SE, constant, linear and polynomial parts; "linear": the
            mean taken for straight around mu, the variance for that at mu; "quadrature" on a grid;
            "monte-carlo": 4096 points that fill the space evenly, with a standard error. None is "exact"
            where there are closed forms, else "quadrature" for up to three uncertain directions, else
            "monte-carlo"; the answer says which
        seed: of Monte Carlo

        The distribution of y itself is not Gaussian: these are its first two moments.

        >>> mean, variance, cross = post.predict_uncertain([0.3, 1.0], [[0.1, 0.02], [0.02, 0.2]])
        """
        from mercer.posteriors.uncertain import predict_uncertain

        self.check("predict_uncertain")
        return predict_uncertain(self, mu, Sigma, latent, method, noise_variance, seed)

    @abc.abstractmethod
    def predictor(self) -> Predictor:
        """This posterior as arrays, for `mercer.uncertain`: predictions at certain and uncertain inputs that
        JAX compiles, differentiates and iterates. Several can be joined.
        """

    # -- the data seen from the model ------------------------------------------------------------------------

    @abc.abstractmethod
    def loo(self) -> LeaveOneOut:
        """Leave-one-out predictions of the training data, without fitting again (5.10-5.12; 5.5.3)."""

    def waic(self, draws: int = 4000, seed: Any = 0) -> PredictiveScore:
        """The widely applicable information criterion of the training data, from draws of f at each of them:
        an estimate of how well new data will be predicted, in nats. See also `psis_loo`, which says where it
        cannot be relied upon, and `loo`.

        >>> print(post.waic())
        """
        return scores.waic(self._drawn(draws, seed))

    def psis_loo(self, draws: int = 4000, seed: Any = 0) -> PredictiveScore:
        """Leave-one-out densities of the training data from draws of f given all of them, by Pareto smoothed
        importance sampling; for any posterior, hyperparameters that were sampled or averaged over included.
        Its `pareto_k` says of each datum whether the value can be relied upon (up to 0.7).

        >>> score = post.psis_loo(); print(score)
        >>> score.total, score.standard_error, score.log_density  # two numbers, (n,)
        """
        return scores.psis_loo(self._drawn(draws, seed))

    @abc.abstractmethod
    def loo_latent(self) -> tuple[np.ndarray, np.ndarray]:
        """Mean and variance of f at each datum given the others, given all where that is improper: (n,) each;
        (n, L) and (n, L, L) for L latent functions.
        """

    @abc.abstractmethod
    def left_out(self, Xs: Any, rows: Any, variance: bool = True) -> tuple[np.ndarray, np.ndarray | None]:
        """Mean and variance (m,) of f at each of Xs (m, d) given all data but one: the datum at the position
        that `rows` (m,) says. At the inputs of the data themselves it is `loo_latent`. `variance=False`: the
        mean and None.

        >>> post.left_out(Xs, np.zeros(len(Xs), int))  # as if the first datum had not been seen
        """

    @abc.abstractmethod
    def outlier_score(self) -> np.ndarray:
        """How far each datum is from being a regular observation (n,): 0 to 1.

        The probability that it is an outlier where the noise has a component for them, else one minus its
        weight relative to that of a regular datum; all zero for Gaussian noise.
        """

    @abc.abstractmethod
    def components(self, Xs: Any) -> list[Component]:
        """Posterior of every additive term of the kernel at Xs, each with its own uncertainty.
        They sum to the latent mean (less m).
        """

    @abc.abstractmethod
    def evidence_bounds(self) -> EvidenceBounds:
        """The exact log evidence lies between these two (solver VFE with Gaussian noise):
        their gap says how good m is.
        """

    @abc.abstractmethod
    def evidence_terms(self) -> EvidenceTerms:
        """The log evidence as data fit + complexity + constant (5.8), for Gaussian noise."""

    @abc.abstractmethod
    def prequential(self) -> np.ndarray:
        """log p(y_i | y_1 ... y_(i-1)) for every i (n,), in the order of the data:
        they sum to the log evidence (C.BAY7).
        """

    @abc.abstractmethod
    def smoother(self, Xs: Any) -> np.ndarray:
        """Weights (m, n): the mean at Xs is mean(Xs) + weights (y - mean(X)) (2.25, 2.36)."""

    @abc.abstractmethod
    def degrees_of_freedom(self) -> float:
        """Effective number of parameters, the trace of the smoother matrix at the data (2.36)."""

    @abc.abstractmethod
    def prior_divergence(self) -> float:
        """KL(q || p) in nats of the posterior q(f) from the prior p(f) at the training inputs (7.33); of a
        low-rank solver that of its own prior (8.32).
        """

    def _repr_html_(self) -> str:
        """As notebooks show it; nothing is computed for it."""
        notes = "".join(f"\nnote: {note}" for note in self.notes)
        return card(type(self).__name__, lines(f"{self!r}{notes}"))

    def summary(self) -> str:
        """What was found, and what a person should know of it, as text."""
        n, d = self._learned_from(), self.inputs.values.shape[1]
        lines = [*(f"kernel: {kernel}" for kernel in self.model.kernels), f"data: n = {n}, d = {d}"]
        return "\n".join([*lines, *self._findings(), *(f"note: {note}" for note in self.notes)])

    def noting(self, note: str) -> Self:
        """The same with one more note, if it is new."""
        if note in self.notes:
            return self
        this: Any = self
        noted: Self = dataclasses.replace(this, notes=(*self.notes, note))
        return noted

    def one_posterior(self) -> Self:
        """Itself."""
        return self

    def class_function(self) -> ClassFunction | None:
        """Probabilities of the classes, called "class 0", "class 1" ..., as a function of the inputs."""
        if not self.can("probability"):
            return None
        C = self.class_probabilities(self.inputs.values[:1]).shape[1]
        codes = (self.y > 0).astype(int) if C == 2 else self.y.astype(int)
        labels = tuple(f"class {c}" for c in range(C))
        return ClassFunction(self.inputs, codes, labels, self.class_probabilities)

    # -- files -----------------------------------------------------------------------------------------------

    @abc.abstractmethod
    def packed(self) -> dict[str, Any]:
        """What a file must say of it besides its model, data, rule and solver: numbers, text, arrays, and
        lists and dicts of them.
        """

    @classmethod
    @abc.abstractmethod
    def unpacked(cls, packed: dict[str, Any], again: Again) -> Any:
        """The posterior that `packed` described. It may come from anyone: what is wrong with it is a
        ValueError, TypeError or KeyError.
        """

    # -- what a kind of posterior says -----------------------------------------------------------------------
    # values: test inputs (m, d), checked; noise_variance: None, or that of Gaussian noise at them

    @abc.abstractmethod
    def _observed(self, values: np.ndarray, noise_variance: Any) -> tuple[np.ndarray, np.ndarray]:
        """Mean and variance of y, each (m,); for C classes (m, C)."""

    @abc.abstractmethod
    def _predictive(
        self, values: np.ndarray, levels: np.ndarray, noise_variance: Any
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Mean (m,), variance (m,) and quantiles (m, levels) of y, f found once."""

    @abc.abstractmethod
    def _log_density(self, values: np.ndarray, ys: np.ndarray, noise_variance: Any) -> np.ndarray:
        """Log predictive density (m,) of targets as the likelihood encodes them."""

    @abc.abstractmethod
    def _average(self, values: np.ndarray, function: Callable[..., np.ndarray], how: str) -> np.ndarray:
        """`function(likelihood, mean, variance)` of the Gaussians that f is a mixture of, averaged over them;
        how="map": at the mean of f.
        """

    @abc.abstractmethod
    def _covariance(self, values: np.ndarray, latent: bool, noise_variance: Any) -> np.ndarray:
        """Covariance (m, m) of one latent function, or of y with Gaussian noise."""

    @abc.abstractmethod
    def _sample(
        self, values: np.ndarray, size: int, rng: np.random.Generator, latent: bool, noise_variance: Any
    ) -> np.ndarray:
        """Draws (size, m)."""

    @abc.abstractmethod
    def _sample_functions(
        self, size: int, rng: np.random.Generator, points: np.ndarray | None, waves: int
    ) -> SampledFunctions:
        """Draws of f as functions."""

    @abc.abstractmethod
    def _log_likelihoods(self, rows: slice, size: int, rng: np.random.Generator) -> np.ndarray:
        """log p(y_i | f_i) of these data at draws of f, and of hyperparameters where they are drawn: (S,
        rows). S is `size` where draws can be made at will.
        """

    @abc.abstractmethod
    def _findings(self) -> list[str]:
        """Lines of the summary."""

    def _learned_from(self) -> int:
        """How many rows: those it holds, unless only some were kept (a hook)."""
        return int(self.inputs.values.shape[0])

    # -- shared ----------------------------------------------------------------------------------------------

    def _reading(self, Xs: Any) -> Self:
        """The same posterior as one that reads Xs: another where they are derivatives or integrals and it was
        conditioned on X and y, if it can.
        """
        return self

    def _moments(self, Xs: Any, latent: bool, noise_variance: Any) -> tuple[np.ndarray, np.ndarray]:
        if not latent:
            this = self._reading(Xs)
            values = this._values(Xs)
            this._likelihood(values, noise_variance)
            return this._observed(values, noise_variance)
        mean, variance = self.latent_moments(Xs)
        assert variance is not None
        return mean, variance

    def _drawn(self, draws: int, seed: Any) -> Iterator[np.ndarray]:
        """log p(y_i | f_i) at draws, (S, rows) of some of the data after the other."""
        if draws < 2:
            raise ValueError(f"draws must be at least 2, got {draws}.")
        n, rng = len(self.y), np.random.default_rng(seed)
        rows = n if self.model.likelihood.per_datum else max(1, scores.CELLS // draws)
        for first in range(0, n, rows):
            yield self._log_likelihoods(slice(first, min(first + rows, n)), draws, rng)

    def _values(self, Xs: Any) -> np.ndarray:
        """Test inputs, checked against the training data."""
        observed, objects = self._reads
        if observed is not None:
            rows: np.ndarray = observed.rows(Xs)
            return rows
        if isinstance(Xs, Observations):
            raise PosteriorError(
                "this posterior speaks of values alone: to predict derivatives and integrals condition on "
                "mercer.observe.values(X, y), on solver='dense'."
            )
        inputs = as_inputs(Xs, "Xs", self.inputs.names, objects)
        d = self.inputs.values.shape[1]
        if inputs.values.shape[1] != d:
            raise ValueError(f"Xs has {inputs.values.shape[1]} columns but the model was conditioned on {d}.")
        return inputs.values

    @functools.cached_property
    def _reads(self) -> tuple[Any, bool]:
        """The kernel that reads rows of observations, if there is one, and whether inputs may be objects."""
        return self.model.observed, self.model.reads_objects()

    def _likelihood(self, values: np.ndarray, noise_variance: Any) -> Any:
        """The likelihood at test inputs."""
        if noise_variance is not None:
            self._gaussian("noise_variance", "leave it out: the noise has its own parameters")
            return Gaussian(noise_variance)
        likelihood = self.model.likelihood.elsewhere(values)
        if likelihood is None:
            raise PosteriorError(
                "the training noise was given per datum, so the noise at Xs is unknown: pass noise_variance= "
                "for Xs, or latent=True for the noise-free function."
            )
        return likelihood

    def _gaussian(self, what: str, instead: str) -> None:
        if not isinstance(self.model.likelihood, Gaussian):
            raise PosteriorError(not_gaussian(what, self.model.likelihood, instead))


def class_probabilities(likelihood: Any, mean: np.ndarray, variance: np.ndarray, how: str) -> np.ndarray:
    """Probabilities (m, C) of all classes where f ~ N(mean, variance); of two, p(-f) is that of the other."""
    p: np.ndarray = likelihood.probability(mean, variance, how=how)
    return p if p.ndim == 2 else np.stack([likelihood.probability(-mean, variance, how=how), p], 1)


def not_gaussian(what: str, likelihood: Any, instead: str) -> str:
    """Why something is not to be had."""
    return f"{what} is defined for Gaussian noise, not for {type(likelihood).__name__}; {instead}."


def not_with(likelihood: Any, question: str) -> str | None:
    """Why no posterior with this likelihood can say it; None where one can."""
    name = type(likelihood).__name__
    if question == "probability" and not likelihood.categorical:
        return f"{name} does not speak of classes; ask for mean, quantile or log_density."
    if question in ("predictor", "predict_uncertain") and likelihood.latents > 1:
        return "predictions at uncertain inputs are of one latent function: ask a model of one."
    if question in ("covariance", "sample", "sample_functions") and likelihood.latents > 1:
        return (
            "joint covariances, and draws of mixtures, are available for one latent function; use "
            "latent_moments or mean for several."
        )
    if question == "outlier_score" and not isinstance(likelihood, Gaussian | AbstractNoise):
        return (
            f"outliers are rows that additive noise cannot explain; {name} has none: look at "
            "loo().log_density."
        )
    return None
