"""Looking for the best hyperparameters from several starts, coarse-to-fine where the data are many."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from mercer.distributed import Team
from mercer.gp import Model, choose_solver
from mercer.inference import by_name as inference_by_name
from mercer.inference.protocol import AbstractSiteRule, site_rule
from mercer.learning import bounds, starts
from mercer.learning.apart import climbs
from mercer.learning.climb import AS_GIVEN, Optimum, Recorder, curvature, levels, maximise
from mercer.learning.foresee import Foresight, stages
from mercer.learning.objectives import by_name as objective_by_name
from mercer.learning.problem import LearningProblem
from mercer.learning.task import ENOUGH, Data
from mercer.likelihoods import AbstractNoise, Gaussian
from mercer.likelihoods.scales import NOISE_SHARE
from mercer.params import flatten
from mercer.progress import STOPPED, shown

ROUND = 1600  # data that tell the curvature near a good start
NEAR_TOP = 1e-7  # nats for each datum that no step near a good start is made for
LAST = 2e-5  # nats for each datum: a last gain from a good start
HEAT = 20  # evaluations after which the best of several scales is known
HERE = Team()
GAUSSIAN_START = 1000  # data that tell the prior which Gaussian noise learns


class Starts(NamedTuple):
    """Where to start, by name. `seen`: how many data the starts were found on; no coarser part is visited.
    `near`: there is one, found on many data with the same solver: no part is climbed on again.
    `rivals`: starts of which only one is climbed from to the end, the highest after a few evaluations.
    `good`: there is one, known to be good; the climb ends where slopes or gains no longer matter.
    `curvature` (p, p): about minus the Hessian at the only one; all data are climbed on from there at once,
    as long as more nats than `tolerance` are to be gained.
    """

    vectors: dict[str, np.ndarray]
    seen: int = 0
    near: bool = False
    rivals: tuple[str, ...] = ()
    good: bool = False
    curvature: np.ndarray | None = None
    tolerance: float = ENOUGH


class Found(NamedTuple):
    """The best point, the value at the end of the climb from each start, and whether it was interrupted."""

    best: Optimum
    ends: dict[str, float]
    interrupted: bool


def search(
    problem: LearningProblem,
    candidates: Starts,
    recorder: Recorder,
    seed: int,
    max_evaluations: int,
    workers: Team = HERE,
) -> Found:
    """The best point over all starts, from each of which one of the workers climbs."""
    given = candidates.vectors.items()
    vectors = _distinct({label: bounds.clip(problem.flat, vector) for label, vector in given})
    if problem.flat.vector.size == 0 or max_evaluations == 0:
        return _as_given(problem, recorder)
    sizes = [s for s in levels(problem.size, problem.rule.warm) if s >= 0.9 * candidates.seen]
    if candidates.curvature is not None:
        sizes = []
    coarse = problem.subset(sizes[0], seed) if sizes else problem
    if coarse.size == problem.size:  # the solver works on all data or none
        sizes, coarse = [], problem
    first = next(iter(vectors.values()))
    climb = functools.partial(maximise, recorder=recorder, max_evaluations=max_evaluations)
    apart = functools.partial(climbs, recorder=recorder, workers=workers, max_evaluations=max_evaluations)
    recorder.foresight = _foresight(problem, sizes, candidates)
    if problem.size == recorder.size:
        recorder.foresight.announce()
    best = Optimum(first)
    ends: dict[str, float] = {}
    try:
        if candidates.near:
            ((label, vector),) = vectors.items()
            top = climb_near(problem, vector, label, recorder, max_evaluations)
            return Found(top, {label: top.value}, False)
        if candidates.curvature is not None:
            ((label, vector),) = vectors.items()
            top = _ascend(
                problem, vector, candidates.curvature, label, recorder, max_evaluations, candidates.tolerance
            )
            return Found(top, {label: top.value}, False)
        vectors = _heat(coarse, vectors, candidates.rivals, apart, max_evaluations)
        if not sizes:
            gtol, ftol = (1e-2, LAST) if candidates.good else (1e-3, 1e-9)
            tops: dict[str, Optimum] = {}
            for label, top in apart(problem, vectors, gtol=gtol, ftol=ftol):
                tops[label], ends[label] = top, top.value
                best = max(best, top, key=_height)
            if len(tops) > 1:  # whoever was the last
                best = max((tops[label] for label in vectors), key=_height)
                problem.fresh(first)
            return Found(best, {label: ends[label] for label in vectors}, False)
        tops = dict(apart(coarse, vectors, ftol=1e-5))
        ends |= {label: tops[label].value for label in vectors}
        label = max(vectors, key=lambda label: tops[label].value)
        start = tops[label]
        coarse.fresh(first)
        for i, size in enumerate([*sizes[1:], problem.size]):
            scaling = curvature(coarse, start, label, recorder, size / coarse.size)
            finer = problem if size == problem.size else problem.subset(size, seed + i + 1)
            if finer.rule.warm:
                finer.foresee(coarse, start.vector)
            coarse.release()
            coarse = finer
            ftol = LAST if candidates.good else 1e-7
            start = climb(coarse, start.vector, label, scaling=scaling, gtol=2e-2, ftol=ftol)
        ends["full"] = start.value
        return Found(start, ends, False)
    except STOPPED:
        problem.release()  # a factorisation may still be running in its buffer
        running = best if recorder.best is None else recorder.best
        if running.size != problem.size:  # judge it on all data
            running = Optimum(running.vector, *problem.value_and_gradient(running.vector))
        return Found(max(best, running, key=_height), ends, True)


def _foresight(problem: LearningProblem, sizes: list[int], candidates: Starts) -> Foresight:
    """What the search will take."""
    parameters = problem.flat.vector.size
    expected = stages([] if candidates.near else sizes, problem.size, len(candidates.vectors), parameters)
    return Foresight(problem, expected)


def climb_near(
    problem: LearningProblem, start: np.ndarray, label: str, recorder: Recorder, max_evaluations: int
) -> Optimum:
    """The best point near a good start. A part of the data tells the curvature; where the data are many the
    top is many of their standard deviations away, which is one step of Newton's, but many of L-BFGS-B's.
    """
    part = problem.subset(ROUND, 0) if problem.size > 2 * ROUND else problem
    at_start = Optimum(start, *recorder.ask(part, start, label))
    scaling = curvature(part, at_start, label, recorder, problem.size / part.size)
    if part is not problem:
        part.release()
    if not problem.smooth:
        return maximise(
            problem, start, label, recorder, scaling=scaling, gtol=2e-2, max_evaluations=max_evaluations
        )
    root = np.linalg.inv(scaling)
    tolerance = max(ENOUGH, NEAR_TOP * problem.size)
    return _ascend(problem, start, root.T @ root, label, recorder, max_evaluations, tolerance)


def _ascend(*given: Any) -> Optimum:
    from mercer.learning.newton import ascend  # which a plain fit does without

    return ascend(*given)


def usual_starts(
    model: Model, data: Data, restarts: int, seed: int, max_evaluations: int, guess: Model | None = None
) -> Starts:
    """The values given and `guess` (from the data, where it is not at hand); with `restarts` so many random
    ones and, for noise of heavy tails, the prior that Gaussian noise learns.
    """
    guess = starts.data_driven(model, data[0][0].values, data[0][1]) if guess is None else guess
    rng = np.random.default_rng(seed)
    models = {"given": model, "data-driven": guess, **starts.longer(guess)}
    rivals = tuple(models) if len(models) > 2 else ()
    models |= {f"random {i + 1}": starts.random(guess, rng) for i in range(restarts)}
    if restarts and isinstance(model.likelihood, AbstractNoise):
        models["Gaussian"] = _by_gaussian_noise(guess, data, seed, max_evaluations)
    return Starts({label: flatten(m).vector for label, m in models.items()}, rivals=rivals)


def part_of(model: Model, data: Data, rule: AbstractSiteRule, most: int, seed: int) -> LearningProblem:
    """The evidence of at most so many of the data, by dense algebra."""
    solver, evidence = choose_solver(model, None), objective_by_name("evidence")
    whole = LearningProblem(model, data, rule, solver, evidence)
    return whole.subset(most, seed) if whole.size > most else whole


def _as_given(problem: LearningProblem, recorder: Recorder) -> Found:
    """The values given, where there is nothing to learn or nothing is to be learned."""
    vector = bounds.clip(problem.flat, problem.flat.vector)
    value, gradient, objective = problem.value_and_gradient(vector)
    recorder.note("given", problem.size, value)
    message = AS_GIVEN if vector.size else "nothing to learn"
    return Found(Optimum(vector, value, gradient, objective, 0.0, message), {"given": value}, False)


def _by_gaussian_noise(guess: Model, data: Data, seed: int, max_evaluations: int) -> Model:
    """The prior that Gaussian noise learns, with the noise of `guess`.

    Noise of heavy tails may take a cluster of data for outliers that a shorter length-scale explains: a local
    optimum, which starts far from the other seldom leave.
    """
    plain = Model(guess.gp, Gaussian(NOISE_SHARE * float(np.var(data[0][1])) or 1.0))
    part = part_of(plain, data, site_rule(inference_by_name(None, plain.likelihood)), GAUSSIAN_START, seed)
    candidates = usual_starts(plain, part.data, 0, seed, max_evaluations)
    with shown("fitting", False):
        found = search(part, candidates, Recorder(part.size), seed, max_evaluations)
    part.release()
    return Model(part.flat.unflatten(found.best.vector).gp, guess.likelihood)


def _heat(
    problem: LearningProblem,
    vectors: dict[str, np.ndarray],
    rivals: tuple[str, ...],
    apart: Callable[..., Iterator[tuple[str, Optimum]]],
    max_evaluations: int,
) -> dict[str, np.ndarray]:
    """The starts with one for all rivals: where the best of them is after `HEAT` evaluations."""
    most = min(HEAT, max_evaluations)
    racing = {label: vector for label, vector in vectors.items() if label in rivals}
    if len(racing) < 2:
        return vectors
    tops = dict(apart(problem, racing, ftol=1e-5, max_evaluations=most))
    label = max(racing, key=lambda label: tops[label].value)
    return {label: tops[label].vector} | {name: v for name, v in vectors.items() if name not in rivals}


def _height(optimum: Optimum) -> float:
    return optimum.value


def _distinct(vectors: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    out: dict[str, np.ndarray] = {}
    for label, vector in vectors.items():
        if not any(np.allclose(vector, v, atol=1e-6) for v in out.values()):
            out[label] = vector
    return out
