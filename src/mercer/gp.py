"""The two names people type: GP (a prior over functions) and Model (a GP with a likelihood)."""

from __future__ import annotations

import functools
from typing import Any, TypeVar

import equinox as eqx
import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import cho_solve

from mercer.distributed import Parallel, team
from mercer.inference import by_name as inference_by_name
from mercer.inference import pointwise
from mercer.inference.protocol import (
    AbstractInference,
    AbstractSiteRule,
    Result,
    conditioning,
    evidential,
    site_rule,
)
from mercer.inputs import InputError, Inputs, as_inputs, as_targets
from mercer.kernels.algebra.observed import Observed
from mercer.kernels.base import AbstractKernel
from mercer.kernels.families.white import noise_apart
from mercer.likelihoods import AbstractLikelihood, Gaussian
from mercer.likelihoods.mixed import check_agreement, of_observations
from mercer.likelihoods.noise import AbstractNoise
from mercer.linalg.cholesky import cholesky
from mercer.means import AbstractBasis, AbstractMean, Zero, as_basis, as_mean
from mercer.observe import Observations
from mercer.params import Info, Param, ParameterError, Parametrised, fixed
from mercer.posteriors.protocol import AbstractPosterior
from mercer.prior import AbstractPrior
from mercer.progress import Progress, shown
from mercer.registry import of_room
from mercer.selection import Pool
from mercer.solvers import SolverError
from mercer.solvers import by_name as solver_by_name
from mercer.solvers.protocol import AbstractSolver, Judge

__all__ = [
    "GP",
    "HeldOut",
    "Model",
    "as_model",
    "at_rows",
    "choose_solver",
    "log_evidence",
    "log_evidence_and_gradient",
    "posterior",
    "prepare",
    "read",
    "settle",
    "sites",
]

Rule = TypeVar("Rule", bound=AbstractInference)


class GP(AbstractPrior):
    """A Gaussian-process prior f ~ GP(mean, kernel), plus h(x)' beta where `basis` is given.

    kernel: the covariance function, in units of the inputs and squared units of f
    mean: None (zero), a number, a function X (n, d) -> (n,), or one of `mercer.means`
    basis: basis functions with weights that are integrated out, such as `means.Polynomial(1)`

    >>> gp = GP(kernels.SE(lengthscale=1.0, variance=1.27**2))
    >>> gp.sample(Xs, 3, seed=0)                              # functions of the prior, (3, m)
    >>> post = gp.condition(X, y, noise_variance=0.09)
    >>> post.mean(Xs), post.variance(Xs)                      # (m,) each
    """

    kernel: AbstractKernel
    mean: AbstractMean = eqx.field(default=Zero(), converter=as_mean)
    basis: AbstractBasis | None = eqx.field(default=None, converter=as_basis)

    def condition(
        self,
        X: Any,
        y: Any = None,
        noise_variance: Any = 0.0,
        inference: AbstractInference | str | None = None,
        solver: AbstractSolver | str | None = None,
        progress: Progress = None,
    ) -> AbstractPosterior:
        """The posterior given observations y (n,) at X (n, d) with Gaussian noise, or given
        `mercer.observe.Observations`, which have their own y. Hyperparameters are not changed: see
        `mercer.fit`.

        noise_variance: in squared units of y: one number, or (n,), one for each datum; 0 interpolates
        inference, solver, progress: as in `Model.condition`

        Shorthand for `Model(gp, Gaussian(noise_variance)).condition(X, y)`.

        >>> post = GP(kernels.Matern(nu=1.5)).condition(X, y, noise_variance=0.09)
        >>> post.log_evidence, post.std(Xs, latent=True)
        """
        return Model(self, Gaussian(fixed(noise_variance))).condition(X, y, inference, solver, progress)

    def extend(self, X: Any, mean: Any, covariance: ArrayLike, Xs: Any) -> tuple[np.ndarray, np.ndarray]:
        """Mean and covariance at Xs of the process whose values at X are N(mean, covariance) and which
        follows the prior elsewhere.

        Any Gaussian posterior over f(X) is a Gaussian-process posterior (Kuss 4.4-4.5): K_*' K^-1 mean, K_**
        - K_*'(K^-1 - K^-1 A K^-1) K_*.
        """
        objects = self.kernel.reads_objects()
        inputs, mean = prepare(Model(self), X, mean)
        test = as_inputs(Xs, "Xs", inputs.names, objects)
        K, cross = self.kernel(inputs), self.kernel(inputs, test)
        L, _ = cholesky(K)
        G = cho_solve((L, True), cross)  # K^-1 K_*
        prior = np.asarray(self.mean.value(inputs.values))
        A = np.asarray(covariance, float)
        return np.asarray(self.mean.value(test.values)) + G.T @ (mean - prior), self.kernel(
            test
        ) - cross.T @ G + G.T @ A @ G


UNSAID = Gaussian()  # the noise of a Model that is given none


class Model(Parametrised):
    """A GP and a likelihood: everything that is needed to condition on data, and everything that can be
    learned.

    gp: a `GP`; a likelihood of several latent functions takes a tuple of them, one for each, or a single one
        that all share
    likelihood: one of `mercer.likelihoods`; Gaussian noise unless given. Noise that the kernel has as a term,
        `SE() + White(0.1)`, becomes that of the likelihood: f is without it

    >>> model = Model(GP(kernels.SE()), likelihoods.Gaussian(0.1))
    >>> model.condition(X, y).mean(Xs)                        # at the hyperparameters it has, (m,)
    >>> Model((GP(kernels.SE()), GP(kernels.SE(3.0))), likelihoods.Heteroscedastic()).condition(X, y)
    """

    gp: Any = eqx.field(metadata={"transparent": True})
    likelihood: AbstractLikelihood = UNSAID

    def __check_init__(self):
        gps = self.gp if isinstance(self.gp, tuple) else (self.gp,)
        for gp in gps:
            if not isinstance(gp, AbstractPrior):
                raise TypeError(
                    f"a Model needs a GP first, got {type(gp).__name__}: mercer.Model(mercer.GP(kernel), "
                    "likelihood)."
                )
        if not isinstance(self.likelihood, AbstractLikelihood):
            raise TypeError(f"a Model needs a likelihood, got {of_room(self.likelihood)}.")
        latents = self.likelihood.latents
        if isinstance(self.gp, tuple) and len(gps) != latents:
            raise ValueError(
                f"{type(self.likelihood).__name__} has {latents} latent function{'s' * (latents > 1)}, but "
                f"{len(gps)} GPs were "
                "given."
            )
        if latents > 1 and any(gp.basis is not None for gp in gps):
            raise ValueError(
                "basis functions go with one latent function; with several, add a linear kernel instead."
            )
        for gp in gps:
            kernel, noise = noise_apart(gp.kernel)
            if noise is not None:
                object.__setattr__(self, "gp", GP(kernel, gp.mean, gp.basis))
                object.__setattr__(self, "likelihood", _with_noise(self.likelihood, noise))

    @property
    def priors(self) -> Any:
        """What a solver takes: the GP, or a tuple with one for each latent function."""
        latents = self.likelihood.latents
        return self.gp if latents == 1 or isinstance(self.gp, tuple) else (self.gp,) * latents

    @property
    def kernels(self) -> tuple[AbstractKernel, ...]:
        """The kernels of its GPs, one for each that was given."""
        return tuple(gp.kernel for gp in (self.gp if isinstance(self.gp, tuple) else (self.gp,)))

    def reads_objects(self) -> bool:
        """Whether inputs may be strings or other objects."""
        return any(kernel.reads_objects() for kernel in self.kernels)

    @property
    def observed(self) -> Observed | None:
        """The kernel, where inputs are rows that say what is observed (`mercer.observe`); else None."""
        rows: Observed | None = None if isinstance(self.gp, tuple) else self.gp.rows
        return rows

    def observing(self, data: Observations, learn: bool = False) -> Model:
        """The model of these observations of f: values, derivatives, integrals, signs. learn: whether it will
        be learned, so that each kind of observation gets a noise variance of its own.
        """
        if isinstance(self.gp, tuple):
            raise InputError("observations are of one latent function: this model has a tuple of GPs.")
        model = Model(self.gp.observed(data), of_observations(self.likelihood, data, learn))
        check_agreement(data, model.likelihood)
        return model

    def bind(self, inputs: Inputs) -> Model:
        """The same model for these inputs: names of columns resolved, lengths of vectors checked."""
        gp = tuple(g.bind(inputs) for g in self.gp) if isinstance(self.gp, tuple) else self.gp.bind(inputs)
        return Model(gp, self.likelihood)

    def condition(
        self,
        X: Any,
        y: Any = None,
        inference: AbstractInference | str | None = None,
        solver: AbstractSolver | str | None = None,
        progress: Progress = None,
    ) -> AbstractPosterior:
        """The posterior given y (n,) at X (n, d), or given `mercer.observe.Observations`, at the
        hyperparameters as they are.

        inference: how it is found, a name ("exact", "laplace", "ep", "variational", "mcmc" ...) or an
            instance of `mercer.inference`; None is the one that suits the likelihood: exact for Gaussian
            noise, EP for two classes
        solver: how the algebra is done, a name ("dense", "vfe", "markov" ...) or an instance of
            `mercer.solvers`
        progress: None, True or False, see `mercer.progress`

        >>> model = Model(GP(kernels.SE(1.0, variance=4.0)), likelihoods.Bernoulli())
        >>> post = model.condition(X, y > 0, inference="laplace")
        >>> post.probability(Xs), post.log_evidence               # (m,), a number
        """
        model, inputs, y = read(self, X, y)
        rule = inference_by_name(inference, model.likelihood)
        solver = rule.solver() if solver is None else solver
        with shown("conditioning", progress):
            return posterior(model, *settle(model, inputs, y, rule, choose_solver(model, solver)))


def _with_noise(likelihood: AbstractLikelihood, noise: Param) -> Gaussian:
    """Gaussian noise as a term of the kernel says it, where the likelihood says nothing of it but weights and
    known errors.
    """
    said = likelihood is not UNSAID and isinstance(likelihood, Gaussian) and np.any(likelihood.noise_variance)
    if not isinstance(likelihood, Gaussian) or likelihood.by is not None or said:
        raise ParameterError(
            f"the kernel has White noise, and the likelihood {type(likelihood).__name__} has noise of its "
            "own: leave out one of them."
        )
    info = dict(likelihood.info).get("input_variance", Info())
    errors = None if likelihood.slopes is None else Param(likelihood.input_variance, info)
    return Gaussian(
        noise,
        weight=likelihood.weight,
        error=likelihood.error,
        slopes=likelihood.slopes,
        input_variance=errors,
    )


def prepare(model: Model, X: Any, y: Any) -> tuple[Inputs, np.ndarray]:
    """Checked inputs, and targets as the likelihood encodes them; at least one row."""
    inputs = as_inputs(X, objects=model.reads_objects())
    if inputs.values.shape[0] == 0:
        raise ValueError("X has no rows: conditioning needs at least one datum.")
    return inputs, model.likelihood.encode(as_targets(y, inputs.values.shape[0]))


def read(model: Model, X: Any, y: Any, learn: bool = False) -> tuple[Model, Inputs, np.ndarray]:
    """The model bound to its data, with checked inputs and encoded targets; observations bring their own y,
    and the model then is one of them. learn: as in `Model.observing`.
    """
    if isinstance(X, Observations):
        if y is not None:
            raise InputError("observations have their own y: leave out the other.")
        if X.y is None:
            raise InputError("these observations have no y: they are places to predict at.")
        model, y, X = model.observing(X, learn), X.y, Inputs(X.rows)
    elif model.observed is not None:
        X = Inputs(model.observed.rows(X, "X"))
    if y is None:
        raise InputError("y is missing: give it after X, or observations that have their own.")
    inputs, y = prepare(model, X, y)
    return model.bind(inputs), inputs, y


def choose_solver(model: Model, solver: AbstractSolver | str | None) -> AbstractSolver:
    base = solver_by_name(solver)
    basis = None if isinstance(model.gp, tuple) else model.gp.basis
    return base if basis is None else base.with_basis()


def settle(
    model: Model,
    inputs: Inputs,
    y: np.ndarray,
    rule: Rule,
    solver: AbstractSolver,
    judge: Judge | None = None,
) -> tuple[Inputs, np.ndarray, Rule, AbstractSolver]:
    """Inputs, targets, rule and solver with the solver's choices made: which it is, inducing inputs, blocks,
    the part of the data it uses. `judge` is asked by solver="auto"; by default it holds rows out at the
    hyperparameters of the model.
    """
    solver = chosen(model, inputs, y, rule, solver, judge)
    rows = solver.rows(_pool(model, inputs.values, y))
    inputs, y, n = Inputs(inputs.values[rows], inputs.names), y[rows], y.shape[0]
    if y.shape[0] < n and model.likelihood.per_datum:
        raise SolverError(
            "the likelihood has a parameter for each datum, so data cannot be left out here: cut X, y and it "
            "first."
        )
    return inputs, y, rule, solver.prepare(model.priors, inputs.values, y, _gaussian_noise(model))


def chosen(
    model: Model,
    inputs: Inputs,
    y: np.ndarray,
    rule: AbstractInference,
    solver: AbstractSolver,
    judge: Judge | None = None,
) -> AbstractSolver:
    """Which solver does the work for these data, without choices of its own made; `judge` as in `settle`."""
    if judge is None and (held := HeldOut.of(model, inputs, y, rule)) is not None:
        judge = functools.partial(held.score, model)
    return solver.chosen(model.priors, inputs.values, _gaussian_noise(model), judge)


def _gaussian_noise(model: Model) -> Any:
    """The variance of Gaussian noise, None for another likelihood."""
    return model.likelihood.variances if isinstance(model.likelihood, Gaussian) else None


HELD_OUT = 500  # rows by which solvers are judged


class HeldOut:
    """Rows at random that are set aside, and how well a model conditioned on the others predicts them."""

    def __init__(self, inputs: Inputs, y: np.ndarray, rule: AbstractInference):
        self.inputs, self.y, self.rule = inputs, y, rule

    @functools.cached_property
    def out(self) -> np.ndarray:
        """Which rows are set aside, in ascending order."""
        n = self.y.shape[0]
        return np.sort(np.random.default_rng(0).permutation(n)[: min(HELD_OUT, n // 10)])

    @functools.cached_property
    def kept(self) -> np.ndarray:
        """The others."""
        return np.delete(np.arange(self.y.shape[0]), self.out)

    @classmethod
    def of(cls, model: Model, inputs: Inputs, y: np.ndarray, rule: AbstractInference) -> HeldOut | None:
        """None where it cannot be done: the rule samples, or the likelihood has parameters for each datum."""
        known = isinstance(model.likelihood, Gaussian) or not model.likelihood.per_datum
        return cls(inputs, y, rule) if known and rule.learns == "gradient" else None

    def data(self, model: Model, most: int | None = None) -> tuple[Model, Inputs, np.ndarray]:
        """The model, inputs and targets of the rows that are kept; of at most so many of them, at random."""
        rows = self.kept
        if most is not None and most < rows.size:
            rows = np.sort(np.random.default_rng(1).choice(rows, most, replace=False))
        cut = at_rows(model, rows, self.y.shape[0])
        return cut, Inputs(self.inputs.values[rows], self.inputs.names), self.y[rows]

    def score(self, model: Model, solver: AbstractSolver) -> float:
        """Mean log density of the rows set aside, at the hyperparameters of the model."""
        kept, inputs, y = self.data(model)
        found = posterior(kept, *settle(kept, inputs, y, self.rule, solver))
        likelihood: Any = model.likelihood
        out = likelihood.at_rows(self.out, self.y.shape[0])
        noise = out.variances if likelihood.per_datum else None
        return float(np.mean(found.log_density(self.inputs.values[self.out], self.y[self.out], noise)))


def at_rows(model: Model, rows: np.ndarray, n: int) -> Model:
    """The model of n data for some of their rows: what the likelihood says of each datum is cut."""
    return Model(model.gp, model.likelihood.at_rows(rows, n)) if model.likelihood.per_datum else model


def _pool(model: Model, X: np.ndarray, y: np.ndarray) -> Pool:
    """The data as a solver may choose among them. Of the likelihood it sees noise that is added to f by its
    variance, anything else of one latent function by its tilted moments.
    """
    likelihood = model.likelihood
    noise: Any = None
    if isinstance(likelihood, (Gaussian, AbstractNoise)):
        noise = likelihood.variances if isinstance(likelihood, Gaussian) else likelihood.noise_variance
    tilted = functools.partial(pointwise.tilted, likelihood, y) if likelihood.latents == 1 else None
    return Pool(model.priors, X, y, noise, tilted)


def posterior(
    model: Model, inputs: Inputs, y: np.ndarray, rule: AbstractInference, solver: AbstractSolver
) -> AbstractPosterior:
    """Run a rule on prepared data."""
    return conditioning(rule).posterior(model, inputs, y, solver)


def as_model(model: Model | AbstractPrior, noise_variance: Any = None) -> Model:
    """A GP with a noise variance, or a Model, as a Model."""
    if isinstance(model, AbstractPrior):
        return Model(model) if noise_variance is None else Model(model, Gaussian(noise_variance))
    if noise_variance is not None:
        raise ValueError("noise_variance goes with a GP; a Model has its likelihood.")
    return model


def log_evidence(
    model: Model | AbstractPrior,
    X: Any,
    y: Any = None,
    noise_variance: Any = None,
    inference: AbstractInference | str | None = None,
    solver: AbstractSolver | str | None = None,
    *,
    parallel: Parallel = None,
) -> float:
    """Log marginal likelihood of y (n,) at X (n, d) in nats (2.30), without priors on hyperparameters.

    model: a `Model`, or a `GP` with the `noise_variance` given here
    inference, solver: as in `Model.condition`
    parallel: who makes the runs of `AIS`: None (this process), so many processes, or a
        `dask.distributed.Client`; the estimate is the same

    `inference=AIS(...)` gives an `Estimate`: a float that carries its standard error, and a forward and a
    reverse estimate.

    >>> log_evidence(GP(kernels.SE()), X, y, noise_variance=0.09)
    """
    model = as_model(model, noise_variance)
    model, inputs, y = read(model, X, y)
    with shown("conditioning", None), team(parallel):
        return log_evidence_of(model, inputs, y, inference_by_name(inference, model.likelihood), solver)


def log_evidence_of(
    model: Model, inputs: Inputs, y: np.ndarray, rule: Any, solver: AbstractSolver | str | None
) -> float:
    """The same of data as `read` gives them."""
    rule = evidential(rule)
    solver = rule.solver() if solver is None else solver
    inputs, y, _, chosen = settle(model, inputs, y, rule, choose_solver(model, solver))
    return rule.evidence(model, inputs, y, chosen)


def log_evidence_and_gradient(
    model: Model | AbstractPrior,
    X: Any,
    y: Any = None,
    noise_variance: Any = None,
    inference: AbstractInference | str | None = None,
    solver: AbstractSolver | str | None = None,
) -> tuple[float, dict[str, Any]]:
    """Log evidence, and its derivative with respect to every hyperparameter as people see it: a dict by
    dotted name (5.9).

    >>> value, gradient = log_evidence_and_gradient(gp, X, y, noise_variance=0.09)
    >>> gradient["kernel.lengthscale"]
    """
    model, y, rule, result = sites(model, X, y, noise_variance, inference, solver)
    return result.log_evidence, rule.gradient(model, y, result, consume=True)


def sites(
    model: Model | AbstractPrior,
    X: Any,
    y: Any,
    noise_variance: Any,
    inference: AbstractInference | str | None,
    solver: AbstractSolver | str | None,
) -> tuple[Model, np.ndarray, AbstractSiteRule, Result]:
    """The model as it reads the data, the targets as they are read, the rule of sites, and what it found."""
    model = as_model(model, noise_variance)
    model, inputs, y = read(model, X, y)
    rule = site_rule(inference_by_name(inference, model.likelihood))
    solver = rule.solver() if solver is None else solver
    inputs, y, _, chosen = settle(model, inputs, y, rule, choose_solver(model, solver))
    return model, y, rule, rule.run(model, inputs.values, y, chosen)
