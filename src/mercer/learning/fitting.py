"""`fit`: learn the free hyperparameters of a model from data."""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable
from typing import Any, Literal

import numpy as np

from mercer.distributed import Parallel, team
from mercer.gp import Model, as_model, prepare, read
from mercer.inference import by_name as inference_by_name
from mercer.inference.protocol import AbstractInference, refusal
from mercer.inputs import InputError, Inputs, is_chunked
from mercer.learning.objectives import Objective
from mercer.learning.result import Fit
from mercer.learning.task import ENOUGH, Data, Task
from mercer.prior import AbstractPrior
from mercer.progress import Progress
from mercer.solvers.protocol import AbstractSolver

LEARNERS = {
    "gradient": "by_gradient",
    "batches": "from_batches",
    "draws": "by_draws",
    "gradient in chunks": "chunked",
    "batches in chunks": "chunked_batches",
}  # modules beside this


def fit(
    model: Model | AbstractPrior,
    X: Any,
    y: Any = None,
    *,
    objective: str | Objective = "evidence",
    inference: str | AbstractInference | None = None,
    solver: str | AbstractSolver | None = None,
    restarts: int = 0,
    seed: int = 0,
    n_folds: int = 10,
    jacobian: bool = False,
    max_evaluations: int = 500,
    progress: Progress = None,
    checkpoint: str | os.PathLike[str] | None = None,
    starts: Literal["several", "given"] = "several",
    parallel: Parallel = None,
    curvature: np.ndarray | None = None,
    tolerance: float = ENOUGH,
) -> Fit:
    """Learn the free hyperparameters of `model` from y (n,) at X (n, d), or from
    `mercer.observe.Observations`, which have their own y: each kind of them then has a noise variance of its
    own.

    objective: "evidence" (with priors: MAP), "loo", "loo-mse", "gcv", "k-fold" (with `n_folds`) or, of
        labels +-1, "loo-probit"
    inference, solver: as in `Model.condition`; `MCMC(...)` samples the free hyperparameters instead:
        `posterior` averages over them, `model` holds their medians; `SVGP(...)` learns from small batches of
        many data
    restarts: random starts besides the given values and a data-driven guess; for noise of heavy tails also
        the prior that Gaussian noise learns. The best result is kept
    seed: of the random starts
    jacobian: take the priors as densities of the logarithms (the MAP then is of those)
    max_evaluations: of the objective from each start, about; with 0 nothing is learned
    progress: None, True or False, see `mercer.progress`. Ctrl-C returns the best model so far and says so
    checkpoint: a file such as "fit.npz" for what was computed; if the fit is killed, the same call goes on
        from there to the same end. The checkpoint of another fit is refused
        (not of draws: a sampler refuses it)
    starts: "several" climbs from the given values and a data-driven guess; "given" from the values of `model`
        alone, where they are known to be good
    parallel: who climbs from the starts: None (this process, one after the other), so many processes, or a
        `dask.distributed.Client`; what is found does not depend on it. A process takes seconds to start: it
        pays where climbs are longer
    curvature: of starts="given", minus the Hessian (p, p) of objective and log prior there, about, in
        unconstrained coordinates: `Fit.curvature` of a like problem, or `learning.prior_curvature(model)`.
        All data are then climbed on from there by steps of Newton's, few where priors are informative
    tolerance: with `curvature`, nats: the climb ends where no more is to be gained

    X may also be a source of chunks, `mercer.inputs.parquet("data/*.parquet", target="y")`, which need not
    fit into memory, or a Dask array or frame, with y cut at the same rows, which is worked on where its
    chunks are, by the default client of this process: with solvers VFE, FITC, ProjectedProcess and
    Committee, and by `SVGP`. With `parallel=` a client, its workers go through the chunks of any source.

    Lists of X and y are pooled: one set of hyperparameters for several data sets (GPML 5.4.3).

    >>> f = fit(Model(GP(kernels.SE()), likelihoods.Gaussian()), X, y, restarts=2)
    >>> f.model, f.posterior.mean(Xs), f.status.converged
    >>> print(f.summary())
    """
    if restarts < 0:
        raise ValueError(f"restarts must be 0 or more, got {restarts}.")
    if max_evaluations < 0:
        raise ValueError(f"max_evaluations must be 0 (nothing is learned) or more, got {max_evaluations}.")
    if starts not in ("several", "given"):
        raise ValueError(f"starts must be 'several' or 'given', got {starts!r}.")
    if curvature is not None and starts != "given":
        raise ValueError("curvature is that at the values of the model: it goes with starts='given'.")
    model = as_model(model)
    seen = None
    if is_chunked(X):
        seen, X, y = _surveyed(model, X, y, seed, parallel)
    model, data, pooled = _prepared(model, X, y)
    rule = inference_by_name(inference, model.likelihood)
    if rule.learns is None:
        raise refusal(rule)
    with team(parallel) as workers:
        task = Task(
            model=model, data=data, pooled=pooled, rule=rule, solver=solver, objective=objective,
            restarts=restarts, seed=seed, n_folds=n_folds, jacobian=jacobian, max_evaluations=max_evaluations,
            progress=progress, checkpoint=checkpoint, starts=starts, workers=workers,
            curvature=curvature, tolerance=tolerance,
        )  # fmt: skip
        if seen is None:
            return _learner(rule.learns)(task)
        return _learner(f"{rule.learns} in chunks")(task, seen)


def _surveyed(
    model: Model, source: Any, y: Any, seed: int, parallel: Parallel
) -> tuple[Any, Inputs, np.ndarray]:
    """A source of chunks that was gone through once, by the workers of a client where one is given, and a
    sample of its rows.
    """
    from mercer.distributed.on_dask import executor_for, source_of
    from mercer.learning.chunked import Surveyed, survey

    source = source_of(source, y)
    if isinstance(source, Surveyed):
        return source, source.inputs, source.y
    seen = survey(source, executor_for(source, parallel), model.reads_objects(), seed=seed)
    return seen, seen.inputs, seen.y


def _learner(kind: str) -> Callable[..., Fit]:
    """What learns in this way; its module is imported when it is first asked for."""
    if kind not in LEARNERS:
        raise InputError("draws are of data in memory: use solvers.VFE or inference.SVGP on data in chunks.")
    learn: Callable[..., Fit] = importlib.import_module(f"mercer.learning.{LEARNERS[kind]}").learn
    return learn


def _prepared(model: Model, X: Any, y: Any) -> tuple[Model, Data, bool]:
    """The model for the columns of the data, the data sets, checked, and whether there may be several."""
    pooled = isinstance(y, (list, tuple)) and len(y) > 0 and np.ndim(y[0]) > 0
    if not pooled:
        model, inputs, targets = read(model, X, y, learn=True)
        return model, [(inputs, targets)], False
    if len(X) != len(y):
        raise ValueError(f"pooled data need as many X as y, got {len(X)} and {len(y)}.")
    data = [prepare(model, *pair) for pair in zip(X, y, strict=True)]
    first, *_ = [model.bind(inputs) for inputs, _ in data]  # the others must have the same columns
    return first, data, True
