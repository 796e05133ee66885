"""Several chains side by side, in chunks: step size and variances are tuned on all of them together, then
held.

Ctrl-C, or a deadline, ends a run early and keeps the draws made so far.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike

from mercer.progress import STOPPED, Progress, shown, tell
from mercer.registry import unknown
from mercer.sampling.diagnostics import FEW, Diagnostics, diagnose
from mercer.sampling.elliptical import EllipticalSlice
from mercer.sampling.elsewhere import Elsewhere
from mercer.sampling.hmc import HMC, NUTS
from mercer.sampling.metropolis import RandomWalk
from mercer.sampling.step import AbstractStep, Info, Point, between_looks, guarded, over

CHUNK, EASY = 25, 200  # transitions between two looks at the keyboard, up to so many dimensions
ROUNDS = 4  # in which others draw: what is interrupted keeps those that are done

SAMPLERS: dict[str, AbstractStep] = {
    "nuts": NUTS(), "hmc": HMC(longest=1.6), "elliptical": EllipticalSlice(), "metropolis": RandomWalk(),
}  # fmt: skip


@dataclasses.dataclass(frozen=True, eq=False)
class Chains:
    """Draws (chains, draws, d) and what each transition said;
    `interrupted` where Ctrl-C or a deadline ended the run early.
    """

    draws: np.ndarray
    log_density: np.ndarray
    acceptance: np.ndarray
    divergent: np.ndarray
    energy: np.ndarray
    evaluations: np.ndarray
    step_size: float
    variance: np.ndarray
    interrupted: bool
    seconds: float

    def diagnostics(
        self, names: tuple[str, ...] | None = None, values: np.ndarray | None = None
    ) -> Diagnostics:
        """R-hat, effective sample sizes and the rest, of the coordinates or of `values` (chains, draws,
        q).
        """
        values = self.draws if values is None else values
        names = tuple(f"x[{i}]" for i in range(values.shape[2])) if names is None else names
        return diagnose(values, names, self)

    def stats(self) -> dict[str, np.ndarray]:
        """What each transition said, (chains, draws) each, by the names that ArviZ has for it."""
        said = {"lp": self.log_density, "acceptance_rate": self.acceptance, "diverging": self.divergent}
        said |= {"energy": self.energy, "n_steps": self.evaluations}
        return {name: array for name, array in said.items() if np.shape(array) == self.draws.shape[:2]}

    def to_arviz(self, name: str = "x") -> Any:
        """The draws, called `name`, as ArviZ takes them: an InferenceData, from ArviZ 1.0 on a DataTree."""
        from mercer.sampling.exported import to_arviz

        return to_arviz({name: self.draws}, self.stats())


def by_name(sampler: str | AbstractStep) -> AbstractStep:
    """A step from its name or an instance."""
    if isinstance(sampler, AbstractStep):
        return sampler
    if isinstance(sampler, str) and sampler in SAMPLERS:
        return SAMPLERS[sampler]
    raise ValueError(unknown("sampler", sampler, SAMPLERS, "an instance from mercer.sampling"))


def check_lengths(draws: int, tune: int, chains: int, thin: int) -> None:
    if chains < 1:
        raise ValueError(f"at least one chain is needed, got chains={chains}.")
    if draws < FEW:
        raise ValueError(
            f"draws={draws} is too few to say anything: ask for at least {FEW}, better several hundred."
        )
    if tune < 0 or thin < 1:
        raise ValueError(f"tune must be 0 or more and thin 1 or more, got tune={tune} and thin={thin}.")


def sample(
    log_density: Callable,
    start: ArrayLike,
    *,
    sampler: str | AbstractStep = "nuts",
    draws: int = 1000,
    tune: int = 1000,
    chains: int = 4,
    thin: int = 1,
    seed: int = 0,
    data: Any = None,
    step_size: float | None = None,
    together: bool = True,
    progress: Progress = None,
    elsewhere: Elsewhere | None = None,
) -> Chains:
    """Draws of the density exp(log_density(x)) over x (d,), a function that JAX can trace.

    start: (d,), from which chains begin jittered by a standard normal draw each, or (chains, d)
    sampler: "nuts", "hmc", "elliptical", "metropolis" or an instance
    draws, tune, chains, thin: draws kept of each chain, transitions before them in which the step is tuned,
        how many chains, and transitions for one draw
    data: arrays handed on to log_density as a second argument; others of the same shapes
        do not cause a recompilation
    step_size: where tuning starts; with tune=0 it stays as it is
    together: chains step side by side in vectorised code; False is better where the density factors matrices,
        and keeps chains from waiting for each other
    progress: True, False, None (a line in a terminal after a second) or a function (done, total, text)
    elsewhere: who draws once the step is tuned, a chain each; the same draws

    >>> sample(lambda x: -0.5 * jnp.sum(x**2), np.zeros(2), draws=500).diagnostics()
    """
    check_lengths(draws, tune, chains, thin)
    step = by_name(sampler)
    density = _without_data(log_density) if data is None else log_density
    rng = np.random.default_rng(seed)
    start = np.asarray(start, float)
    if start.ndim == 1:
        start = start + rng.standard_normal((chains, start.shape[0]))
    if start.shape[0] != chains:
        raise ValueError(f"start has {start.shape[0]} rows but there are {chains} chains.")
    begin, advance = _compiled(density, step, together)
    points = begin(data, start)
    if not np.isfinite(np.asarray(points.log_density)).all():
        raise ValueError("the log density is not finite where the chains start: give another start.")
    d = start.shape[1]
    tuning = _fresh(step.first_step_size(d) if step_size is None else step_size, np.ones(d), d)
    key = jax.random.key(int(rng.integers(2**32)))
    total = tune + draws * thin
    kept: list[Any] = []
    interrupted, done, step_by = False, 0, between_looks(CHUNK, d, EASY)
    every = (0, chains)
    began = time.perf_counter()
    with shown("sampling", progress, "Ctrl-C keeps what was drawn"):
        try:
            for length, relearn in _phases(tune, step_by):
                for _ in range(length):
                    points, tuning, _ = jax.block_until_ready(
                        advance(data, jax.random.fold_in(key, done), points, tuning, True, every)
                    )
                    done += step_by
                    tell(min(done, tune), total, "tuning")
                tuning = _relearn(tuning, relearn)
            tuning = tuning._replace(log_step=tuning.log_average)
            stretch = _Stretch(key, done, -(-draws * thin // step_by), every)
            if elsewhere is None:
                parts = _drawn(advance, data, points, tuning, stretch, step_by)
            else:
                parts = _drawn_elsewhere(elsewhere, points, tuning, stretch, step_by)
            made = 0
            for _, out in parts:
                kept.append(out)
                made += out[1].shape[0]
                tell(min(tune + made, total), total, "draws")
        except STOPPED:
            if sum(out[1].shape[0] for out in kept) < FEW * thin:
                raise
            interrupted = True
    seconds = time.perf_counter() - began
    position, log_p, info = jax.tree.map(lambda *a: np.concatenate(a)[: draws * thin], *kept)
    position, log_p = position[thin - 1 :: thin], log_p[thin - 1 :: thin]
    ends = jax.tree.map(lambda a: np.swapaxes(a, 0, 1), (position, log_p, info))
    info = ends[2]
    return Chains(
        ends[0],
        ends[1],
        info.acceptance,
        info.divergent,
        info.energy,
        info.evaluations,
        float(np.exp(tuning.log_step)),
        np.asarray(tuning.variance),
        interrupted,
        seconds,
    )


# ------------------------------------------------------------------------------------------------- draws


class _Stretch(NamedTuple):
    """Which draws: so many chunks from transition `done` on, of the chains from the first to the end of
    `part`.
    """

    key: Any
    done: int
    chunks: int
    part: tuple[int, int]


def _drawn(
    advance: Callable, data: Any, points: Any, tuning: _Tuning, stretch: _Stretch, step_by: int
) -> Iterator[tuple[Any, Any]]:
    """Where the chains are after each chunk, and what was drawn in it, (step_by, chains, ...)."""
    for i in range(stretch.chunks):
        key = jax.random.fold_in(stretch.key, stretch.done + i * step_by)
        points, tuning, out = jax.block_until_ready(advance(data, key, points, tuning, False, stretch.part))
        yield points, jax.tree.map(np.asarray, out)


def _drawn_elsewhere(
    elsewhere: Elsewhere, points: Any, tuning: _Tuning, stretch: _Stretch, step_by: int
) -> Iterator[tuple[Any, Any]]:
    """The same by others, chain by chain, in a few rounds."""
    chains = stretch.part[1]
    each = [[np.asarray(a)[i] for a in points if a is not None] for i in range(chains)]
    names = [f"chain {i + 1} of {chains}" for i in range(chains)]
    ends = np.unique(np.linspace(0, stretch.chunks, ROUNDS + 1).round().astype(int))
    for first, last in itertools.pairwise(ends.tolist()):
        shared = dict(elsewhere.shared) | {
            "log_step": float(tuning.log_step),
            "variance": np.asarray(tuning.variance),
            "key": np.asarray(jax.random.key_data(stretch.key)).astype(np.int64),
            "done": stretch.done + first * step_by,
            "chunks": last - first,
            "chains": chains,
        }
        jobs = [{"which": i, "point": point} for i, point in enumerate(each)]
        found = elsewhere.workers.map(elsewhere.work, jobs, shared, names, "chains")
        each = [one["point"] for one in found]
        position, log_p, *info = (np.stack(a, 1) for a in zip(*(one["drawn"] for one in found), strict=True))
        yield each, (position, log_p, Info(*info))


def drawn(
    log_density: Callable,
    step: AbstractStep,
    data: Any,
    *,
    which: int,
    point: list[np.ndarray],
    log_step: float,
    variance: np.ndarray,
    key: np.ndarray,
    done: int,
    chunks: int,
    chains: int,
) -> dict[str, Any]:
    """One of the chains, elsewhere: as `sample` would have drawn it, from a tuned step on."""
    _, advance = _compiled(log_density, step, False)
    d = len(variance)
    tuning = _fresh(1.0, variance, d)._replace(log_step=jnp.asarray(log_step))
    said = list(
        _drawn(
            advance,
            data,
            Point(*(np.repeat(np.asarray(a)[None], chains, 0) for a in point)),
            tuning,
            _Stretch(
                jax.random.wrap_key_data(jnp.asarray(key, jnp.uint32)), done, chunks, (which, which + 1)
            ),
            between_looks(CHUNK, d, EASY),
        )
    )
    position, log_p, info = jax.tree.map(lambda *a: np.concatenate(a), *(out for _, out in said))
    return {
        "point": [np.asarray(a)[which] for a in said[-1][0] if a is not None],
        "drawn": [np.asarray(a)[:, which] for a in (position, log_p, *info)],
    }


# ------------------------------------------------------------------------------------------------- tuning


class _Tuning(NamedTuple):
    """Dual averaging of the step size (Hoffman and Gelman) and running moments of the positions."""

    log_step: Any
    log_average: Any
    error: Any
    steps: Any
    target: Any  # the step size it is drawn to, in logarithms
    variance: Any
    count: Any
    mean: Any
    squares: Any


def _fresh(step_size: float, variance, d: int) -> _Tuning:
    log_step, zero = jnp.log(step_size), jnp.zeros(())
    target = log_step + jnp.log(2.0)
    return _Tuning(
        log_step, log_step, zero, zero, target, jnp.asarray(variance), zero, jnp.zeros(d), jnp.zeros(d)
    )


def _phases(tune: int, step_by: int) -> list[tuple[int, bool]]:
    """Chunks of tuning, of so many steps, and whether variances are learned at their end: settle,
    three windows for the variances, settle again.
    """
    chunks = -(-tune // step_by)
    if chunks < 6:
        return [(chunks, False)]
    ends = [round(chunks * share) for share in (0.1, 0.25, 0.5, 0.88, 1.0)]
    lengths = np.diff([0, *ends])
    return list(zip(lengths.tolist(), (False, True, True, True, False), strict=True))


def _relearn(tuning: _Tuning, learn: bool) -> _Tuning:
    """Start the moments again; where asked, take the variances found, drawn a little towards the old ones."""
    count = tuning.count
    variance = tuning.variance
    if learn:
        variance = (tuning.squares + 5.0 * variance) / (count + 5.0)
        return _fresh(float(jnp.exp(tuning.log_average)), variance, variance.shape[0])
    zero = jnp.zeros_like(tuning.mean)
    return tuning._replace(count=jnp.zeros(()), mean=zero, squares=zero)


def _learn(tuning: _Tuning, goal: float, acceptance, positions) -> _Tuning:
    """One step of dual averaging with the mean acceptance of all chains,
    and their positions added to the moments.
    """
    steps = tuning.steps + 1.0
    share = 1.0 / (steps + 10.0)
    error = (1.0 - share) * tuning.error + share * (goal - jnp.mean(acceptance))
    log_step = tuning.target - jnp.sqrt(steps) / 0.05 * error
    weight = steps**-0.75
    average = weight * log_step + (1.0 - weight) * tuning.log_average
    count = tuning.count + positions.shape[0]
    delta = positions - tuning.mean
    mean = tuning.mean + jnp.sum(delta, 0) / count
    squares = tuning.squares + jnp.sum(delta * (positions - mean), 0)
    return tuning._replace(
        log_step=log_step,
        log_average=average,
        error=error,
        steps=steps,
        count=count,
        mean=mean,
        squares=squares,
    )


@functools.lru_cache(maxsize=64)
def _without_data(log_density: Callable) -> Callable:
    return lambda x, data: log_density(x)


@functools.lru_cache(maxsize=64)
def _compiled(log_density: Callable, step: AbstractStep, together: bool):
    """begin(data, start), and advance(data, key, points, tuning, adapt, part) by a chunk of transitions: of
    all chains or, one after the other, of a part of them, see `over`.
    """

    def begin(data, start):
        return over(lambda x: step.begin(guarded(lambda z: log_density(z, data)), x), together, start)

    def advance(data, key, points, tuning, adapt, part):
        density = guarded(lambda z: log_density(z, data))
        chains, d = points.position.shape
        keys = jax.random.split(key, between_looks(CHUNK, d, EASY))

        def move(key, point, tuning):
            extra = {"data": data} if getattr(step, "needs_data", False) else {}
            return step(key, point, density, jnp.exp(tuning.log_step), tuning.variance, **extra)

        def one(carry, key):
            points, tuning = carry
            points, info = over(
                lambda key, point: move(key, point, tuning),
                together,
                jax.random.split(key, chains),
                points,
                part=part,
            )
            learned = _learn(tuning, step.acceptance, info.acceptance, points.position)
            tuning = jax.tree.map(lambda a, b: jnp.where(adapt, a, b), learned, tuning)
            return (points, tuning), (points.position, points.log_density, info)

        (points, tuning), out = jax.lax.scan(one, (points, tuning), keys)
        return points, tuning, out

    return jax.jit(begin), jax.jit(advance)
