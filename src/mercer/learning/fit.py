"""`fit`: learn the free hyperparameters of a model from data."""

from __future__ import annotations

import dataclasses
import functools
import time
import warnings
from typing import Any

import numpy as np

from mercer.conditioned import AbstractConditioned
from mercer.gp import Model, as_model, choose_solver, posterior, prepare, settle
from mercer.inference import by_name as inference_by_name
from mercer.inference.protocol import site_rule
from mercer.learning import bounds, starts
from mercer.learning.checkpoint import Checkpoint
from mercer.learning.climb import Evaluation, Optimum, Recorder, curvature, levels, maximise
from mercer.learning.inducing import move_inducing
from mercer.learning.objectives import by_name as objective_by_name
from mercer.learning.problem import Problem
from mercer.learning.stochastic import train
from mercer.learning.summary import summary
from mercer.likelihoods import AbstractNoise, Gaussian
from mercer.likelihoods.scales import NOISE_SHARE
from mercer.params import flatten
from mercer.posteriors.protocol import AbstractPosterior
from mercer.progress import STOPPED, Progress, shown


@dataclasses.dataclass(frozen=True)
class Status:
    """How a fit ended.

    `converged` is judged by the final gradient, not by the optimiser's word: it is small, or one more Newton
    step with the curvature
    the optimiser has learned promises less than 0.01 (`expected_gain`, in nats for the evidence).
    """

    converged: bool
    message: str
    interrupted: bool
    gradient_norm: float
    expected_gain: float
    evaluations: int
    seconds: float
    starts: dict[str, float]


@dataclasses.dataclass(frozen=True, eq=False)
class Fit(AbstractConditioned):
    """A fitted model: `model`, its `posterior` (a list of them for pooled data),
    the `history` of evaluations, the `status`.
    """

    model: Model
    posterior: Any
    history: list[Evaluation]
    status: Status
    objective: str
    value: float
    log_prior: float
    gradient: dict[str, float]

    def summary(self) -> str:
        """Values, gradients, bounds, conditioning and jitter, as a text table; for draws,
        their intervals and diagnostics.
        """
        one = self.posterior[0] if isinstance(self.posterior, list) else self.posterior
        return one.summary() if one.averages else summary(self)

    def one_posterior(self) -> AbstractPosterior:
        """The `posterior`, where there is one."""
        if isinstance(self.posterior, list):
            raise ValueError(
                "this fit pooled several data sets: choose one of its posteriors, fit.posterior[i]."
            )
        return self.posterior


KEEPS = "Ctrl-C keeps the best"


class FitWarning(UserWarning):
    """Something about a fit that a person should know."""


def fit(
    model,
    X,
    y,
    *,
    objective="evidence",
    inference=None,
    solver=None,
    restarts: int = 0,
    seed: int = 0,
    n_folds: int = 10,
    jacobian: bool = False,
    max_evaluations: int = 500,
    progress: Progress = None,
    checkpoint=None,
) -> Fit:
    """Learn the free hyperparameters of `model` from y (n,) at X (n, d).

    objective: "evidence" (with priors: MAP), "loo", "loo-mse", "gcv" or "k-fold". Starts are the given values
    and a data-driven guess; `restarts=r` adds r random ones and, for noise of heavy tails, the prior that
    Gaussian noise learns; the best result is kept. Lists of X and y are pooled: one set of hyperparameters
    for several data sets (GPML 5.4.3). `jacobian=True` takes the priors as densities of the logarithms (the
    MAP then is of those).
    `max_evaluations`: of the objective from each start, about; with 0 nothing is learned.
    `progress`: see `mercer.progress`. Ctrl-C returns the best model so far
    and says so. `checkpoint="fit.npz"`: the best hyperparameters so far are written there; the same call goes
    on from them if it was killed. `inference=MCMC(...)` samples the free hyperparameters instead: `posterior`
    averages over them, `model` holds their medians.

    >>> f = fit(Model(GP(kernels.SE()), likelihoods.Gaussian()), X, y, restarts=2)
    >>> f.model, f.posterior, f.status.converged
    """
    if restarts < 0:
        raise ValueError(f"restarts must be 0 or more, got {restarts}.")
    if max_evaluations < 0:
        raise ValueError(f"max_evaluations must be 0 (nothing is learned) or more, got {max_evaluations}.")
    model = as_model(model)
    pooled = isinstance(y, (list, tuple)) and len(y) > 0 and np.ndim(y[0]) > 0
    if pooled and len(X) != len(y):
        raise ValueError(f"pooled data need as many X as y, got {len(X)} and {len(y)}.")
    data = [prepare(model, *pair) for pair in zip(X, y, strict=True)] if pooled else [prepare(model, X, y)]
    bound = model.bind(data[0][0])
    for inputs, _ in data[1:]:
        model.bind(inputs)
    rule, chosen = inference_by_name(inference, model.likelihood), choose_solver(model, solver)
    if rule.learns == "draws":
        with shown("sampling", progress):
            return _sample(bound, data, rule, chosen, objective)
    if rule.learns == "batches":
        return _from_batches(
            bound, data, rule, solver, objective, restarts, seed, max_evaluations, progress, checkpoint
        )
    rule = site_rule(rule)
    began, guess = None, starts.data_driven(bound, data[0][0].values, data[0][1])
    if chosen.pilot and not pooled and data[0][1].shape[0] > PILOT:
        began = _pilot(bound, data, rule, seed, max_evaluations, progress)
        guess = flatten(bound).unflatten(began[1])
    settled = [settle(guess, inputs, targets, rule, chosen) for inputs, targets in data]
    data = [(inputs, targets) for inputs, targets, _, _ in settled]
    if not pooled:  # several data sets have inducing inputs of their own
        chosen = settled[0][3]
        if began is not None:
            began = began[0], flatten(starts.with_rest(guess, data[0][0].values, chosen)).vector, began[2]
    goal = objective_by_name(objective, n_folds, seed)
    problem = Problem(bound, data, rule.rough(), chosen, goal, jacobian)
    if goal.scale_free:
        _warn_scale_free(problem, goal.name)
    if moved := bounds.moved_starts(problem.flat):
        warnings.warn(f"{moved}: give a value within them.", FitWarning, stacklevel=2)
    with shown("fitting", progress, KEEPS):
        recorder = Recorder(problem.size)
        if checkpoint is not None:
            recorder.checkpoint = Checkpoint(checkpoint, problem.flat.names, data, goal.name)
            if (kept := recorder.checkpoint.found) is not None:
                began = "checkpoint", kept["vector"], int(kept["size"])
        best, ends, interrupted = _search(problem, restarts, seed, recorder, max_evaluations, began)
        if problem.rule != rule and not interrupted and np.isfinite(best.value) and best.expected_gain > 0.01:
            problem.rule = rule.rough(tight=True)  # what stopped it may be the roughness of its values
            best = maximise(problem, best.vector, "refined", recorder, max_evaluations=max_evaluations)
        if checkpoint is not None and recorder.checkpoint is not None and np.isfinite(best.value):
            recorder.checkpoint.keep(best.vector, problem.size, best.value, now=True)
        moves = chosen.inducing_to_learn() is not None
        if moves and max_evaluations and not pooled and not interrupted and np.isfinite(best.value):
            best, Z = move_inducing(problem, best, recorder, max_evaluations)
            chosen = chosen.with_inducing(Z, learn=False)
    if not np.isfinite(best.value):
        value = problem.rule.run(
            problem.flat.unflatten(best.vector), data[0][0].values, data[0][1], chosen
        )  # raises with the cause
        raise FloatingPointError(f"the objective is not finite at any start (evidence {value.log_evidence}).")
    problem.release()
    fitted = problem.flat.unflatten(best.vector)
    gradient = best.gradient if best.gradient is not None else np.zeros_like(best.vector)
    free = bounds.pressed(problem.flat.bounds(), best.vector, gradient) == 0
    norm = float(np.max(np.abs(gradient[free]), initial=0.0))
    status = Status(
        converged=not interrupted and (norm <= bounds.STEEP or best.expected_gain <= 0.01),
        message="interrupted: the best model so far" if interrupted else best.message,
        interrupted=interrupted,
        gradient_norm=norm,
        expected_gain=best.expected_gain,
        evaluations=len(recorder.history),
        seconds=recorder.history[-1].seconds if recorder.history else 0.0,
        starts=ends,
    )
    if interrupted:
        warnings.warn(
            "the fit was interrupted; returning the best model found so far.", FitWarning, stacklevel=2
        )
    elif not status.converged:
        warnings.warn(
            f"the fit stopped with a gradient of {norm:.3g} per unit of log parameter ({best.message}): "
            "the result may be improved "
            "by restarts=, priors or bounds.", FitWarning, stacklevel=2,
        )  # fmt: skip
    if not interrupted and max_evaluations and (stopped := bounds.ends(problem.flat, best.vector, gradient)):
        warnings.warn(
            f"{stopped}, and the objective still rises beyond: widen the bounds, give a prior, or fix it "
            "there with mercer.fixed(...).", FitWarning, stacklevel=2,
        )  # fmt: skip
    with shown("conditioning", progress):
        # as `condition` gives it
        posteriors = [posterior(fitted, inputs, targets, rule, chosen) for inputs, targets in data]
    return Fit(
        fitted, posteriors if pooled else posteriors[0], recorder.history, status, goal.name, best.objective,
        best.value - best.objective, dict(zip(problem.flat.names, gradient, strict=True)),
    )  # fmt: skip


def _sample(model: Model, data, rule, solver, objective) -> Fit:
    """Draws of the hyperparameters, from chains that start near their mode."""
    if len(data) > 1 or objective != "evidence":
        raise ValueError(
            "sampling takes one data set and no objective: it draws from the posterior of the "
            "hyperparameters."
        )
    inputs, y = data[0]
    guess = starts.data_driven(model, inputs.values, y)
    began = time.perf_counter()
    post = rule.learn(guess, inputs, y, solver, _mode(guess, inputs, y))
    seconds = time.perf_counter() - began
    d = post.diagnostics
    status = Status(
        post.status.converged,
        post.status.message,
        post.chains.interrupted,
        0.0,
        0.0,
        int(d.evaluations * d.draws * d.chains),
        seconds,
        {},
    )
    if not status.converged:
        warnings.warn(
            f"the draws should not be trusted yet ({status.message}): see posterior.notes.",
            FitWarning,
            stacklevel=3,
        )
    value, log_prior = (
        float(np.mean(post.chains.log_density)),
        flatten(post.model).log_prior(flatten(post.model).vector)[0],
    )
    return Fit(post.model, post, [], status, "draws (mean log density)", value, log_prior, {})


PILOT = 2000  # beyond, solvers that choose by hyperparameters see rough ones first
BATCH_START = 1600  # data that give the hyperparameters from which learning from batches starts


def _part(model: Model, data, rule, most: int, seed: int) -> tuple[Problem, int]:
    """The evidence of at most so many of the data, by dense algebra, and how many there are in all."""
    whole = Problem(model, data, rule, choose_solver(model, None), objective_by_name("evidence"))
    return whole.subset(most, seed) if whole.size > most else whole, whole.size


def _pilot(model: Model, data, rule, seed, max_evaluations, progress) -> tuple[str, np.ndarray, int]:
    """Hyperparameters from a part of the data, by dense algebra."""
    part, size = _part(
        model, data, rule.rough(), PILOT // 2 if model.likelihood.mean_is_latent else PILOT // 4, seed
    )
    with shown("fitting", progress, KEEPS):
        best, _, _ = _search(part, 0, seed, Recorder(size), max_evaluations)
    return "pilot", best.vector, part.size


def _from_batches(
    model: Model, data, rule, solver, objective, restarts, seed, max_evaluations, progress, checkpoint
) -> Fit:
    """Hyperparameters from a part of the data, then from batches of all; the posterior from all at once."""
    if len(data) > 1 or objective != "evidence":
        raise ValueError("learning from batches takes one data set and objective='evidence'.")
    if solver is not None:
        raise ValueError(
            "SVGP brings its own solver (VFE): set m and select on inference.SVGP(...) instead of solver=."
        )
    inputs, y = data[0]
    first = inference_by_name(None, model.likelihood)
    part, size = _part(model, data, first, BATCH_START, seed)
    with shown("fitting", progress, KEEPS):
        recorder = Recorder(size)
        kept = None if checkpoint is None else Checkpoint(checkpoint, part.flat.names, data, "batches")
        if kept is not None and kept.found is not None:
            start, ends, interrupted = part.flat.unflatten(kept.found["vector"]), {}, False
        else:
            best, ends, interrupted = _search(part, restarts, seed, recorder, max_evaluations)
            start = part.flat.unflatten(best.vector)
        recorder.checkpoint = kept
        part.release()
        _, _, _, chosen = settle(start, inputs, y, rule, rule.solver())
        start = (
            start
            if kept is not None and kept.found is not None
            else starts.with_rest(start, inputs.values, chosen)
        )
        fitted, Z = (
            (start, chosen.inducing)
            if interrupted
            else train(start, inputs.values, y, rule, chosen.inducing, recorder)
        )
    interrupted = interrupted or recorder.interrupted
    post = posterior(fitted, inputs, y, rule, dataclasses.replace(chosen, inducing=Z))
    flat = flatten(fitted)
    message = "interrupted: the last model" if interrupted else f"{rule.epochs} epochs"
    status = Status(
        not interrupted,
        message,
        interrupted,
        0.0,
        0.0,
        len(recorder.history),
        recorder.history[-1].seconds,
        ends,
    )
    if interrupted:
        warnings.warn("the fit was interrupted; returning the last model.", FitWarning, stacklevel=3)
    return Fit(
        fitted,
        post,
        recorder.history,
        status,
        "evidence",
        post.log_evidence,
        flat.log_prior(flat.vector)[0],
        {},
    )


def _mode(model: Model, inputs, y) -> Model:
    """Hyperparameters that a quick search with a deterministic rule finds; the given ones where it fails."""
    rule = site_rule(inference_by_name(None, model.likelihood))
    problem = Problem(
        model, [(inputs, y)], rule, choose_solver(model, None), objective_by_name("evidence"), jacobian=True
    )
    if not problem.flat.vector.size:
        return model
    with shown("fitting", False):
        best = maximise(problem, problem.flat.vector, "mode", Recorder(problem.size), max_evaluations=60)
    return problem.flat.unflatten(best.vector) if np.isfinite(best.value) else model


def _search(problem: Problem, restarts: int, seed: int, recorder: Recorder, max_evaluations: int, began=None):
    """The best point over all starts; coarse-to-fine where the data are many.

    `began`: (label, vector, size) of what was found before on `size` data: the only start then, and no
    coarser level is visited.
    """
    inputs, y = problem.data[0]
    guess = starts.data_driven(problem.model, inputs.values, y)
    rng = np.random.default_rng(seed)
    models = {"given": problem.model, "data-driven": guess} | {
        f"random {i + 1}": starts.random(guess, rng) for i in range(restarts)
    }
    if restarts and began is None and isinstance(problem.model.likelihood, AbstractNoise):
        models["Gaussian"] = _by_gaussian_noise(problem, guess, seed, max_evaluations)
    vectors = {label: bounds.clip(problem.flat, flatten(m).vector) for label, m in models.items()}
    sizes = levels(problem.size, problem.rule.warm)
    if began is not None:
        label, vector, size = began
        vectors, sizes = {label: bounds.clip(problem.flat, vector)}, [s for s in sizes if s >= 0.9 * size]
    best = Optimum(next(iter(vectors.values())))  # of the full problem
    ends: dict[str, float] = {}
    if problem.flat.vector.size == 0 or max_evaluations == 0:
        vector = bounds.clip(problem.flat, problem.flat.vector)
        value, gradient, objective = problem.value_and_gradient(vector)
        recorder.note("given", problem.size, value)
        message = "max_evaluations=0: nothing was learned" if vector.size else "nothing to learn"
        return Optimum(vector, value, gradient, objective, 0.0, message), {"given": value}, False
    try:
        climb = functools.partial(maximise, recorder=recorder, max_evaluations=max_evaluations)
        if not sizes:
            for label, vector in _distinct(vectors).items():
                found = climb(problem, vector, label, gtol=1e-3, ftol=1e-9)
                ends[label] = found.value
                best = max(best, found, key=lambda o: o.value)
            return best, ends, False
        coarse = problem.subset(sizes[0], seed)
        tops = {label: climb(coarse, v, label, ftol=1e-5) for label, v in _distinct(vectors).items()}
        ends |= {label: top.value for label, top in tops.items()}
        label, start = max(tops.items(), key=lambda item: item[1].value)
        for i, size in enumerate([*sizes[1:], problem.size]):
            factor = size / coarse.size
            scaling = curvature(coarse, start, label, recorder, factor)
            finer = problem if size == problem.size else problem.subset(size, seed + i + 1)
            if finer.rule.warm:
                finer.foresee(coarse, start.vector)
            coarse.release()
            coarse = finer
            start = climb(coarse, start.vector, label, scaling=scaling, gtol=2e-2)
        ends["full"] = start.value
        return start, ends, False
    except STOPPED:
        problem.release()  # a factorisation may still be running in its buffer
        running = best if recorder.best is None else recorder.best
        if running.size != problem.size:  # judge it on all data
            running = Optimum(running.vector, *problem.value_and_gradient(running.vector))
        return max(best, running, key=lambda o: o.value), ends, True


def _by_gaussian_noise(problem: Problem, guess: Model, seed: int, max_evaluations: int) -> Model:
    """The prior that Gaussian noise learns, with the noise of `guess`.

    Noise of heavy tails may take a cluster of data for outliers that a shorter length-scale explains: a local
    optimum, which starts far from the other seldom leave.
    """
    plain = Model(guess.gp, Gaussian(NOISE_SHARE * float(np.var(problem.data[0][1])) or 1.0))
    rule = inference_by_name(None, plain.likelihood)
    part, _ = _part(plain, problem.data, rule, PILOT // 2, seed)
    with shown("fitting", False):
        best, _, _ = _search(part, 0, seed, Recorder(part.size), max_evaluations)
    part.release()
    return Model(part.flat.unflatten(best.vector).gp, guess.likelihood)


def _distinct(vectors: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    out: dict[str, np.ndarray] = {}
    for label, vector in vectors.items():
        if not any(np.allclose(vector, v, atol=1e-6) for v in out.values()):
            out[label] = vector
    return out


def _warn_scale_free(problem: Problem, name: str) -> None:
    amplitudes = [p.name for p, _ in problem.flat.slots if p.name.endswith("variance")]
    if len(amplitudes) > 1:
        warnings.warn(
            f"objective '{name}' uses predictive means only and does not determine the overall scale of "
            f"{amplitudes}: "
            "fix one of them, or rescale by the evidence afterwards.", FitWarning, stacklevel=3,
        )  # fmt: skip
