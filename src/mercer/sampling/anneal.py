"""Annealing: Hamiltonian moves through likelihood^tau times prior, as tau goes through a ladder of
temperatures (Kuss 4.42-4.47, Algorithm 12 corrected).

Each run carries a log weight. At every rung it gains (tau_t - tau_(t-1)) log p(y | z), with z as it came from
the temperature before; only then is z moved.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from mercer.progress import STOPPED, Progress, shown, tell
from mercer.sampling.elsewhere import Elsewhere
from mercer.sampling.hmc import HMC
from mercer.sampling.paths import Path
from mercer.sampling.step import between_looks, guarded, over

CHUNK, EASY = 250, 200  # temperatures between two looks at the keyboard, up to so many dimensions
PILOT = 10  # the pilot visits one temperature in so many


@dataclasses.dataclass(frozen=True, eq=False)
class Annealed:
    """Log weights (runs,), log likelihoods (T + 1, runs) in the order the temperatures were visited, and mean
    acceptance.
    """

    log_weights: np.ndarray
    log_likelihood: np.ndarray
    acceptance: float
    log_step: np.ndarray  # (T + 1,)
    interrupted: bool = False  # fewer runs than were asked for


@dataclasses.dataclass(frozen=True, eq=False)
class StepSizes:
    """The log step size as a function of the temperature."""

    temperatures: np.ndarray
    log_step: np.ndarray

    def at(self, temperatures: np.ndarray) -> np.ndarray:
        """At other temperatures."""
        return np.interp(temperatures, self.temperatures, self.log_step)


@dataclasses.dataclass(frozen=True, eq=False)
class Ladder:
    """Temperatures in the order they are visited, and how many moves of how many leapfrog steps are made at
    each.

    A trajectory is at most pi / 2 long, in standard deviations: a quarter of an oscillation forgets most of
    where it began.
    """

    temperatures: np.ndarray
    transitions: int = 1
    leapfrogs: int = 4
    progress: Progress = None

    def reversed(self) -> Ladder:
        """From the posterior down to the prior."""
        return dataclasses.replace(self, temperatures=self.temperatures[::-1])

    def pilot(self, path: Path, start: np.ndarray, rng: np.random.Generator) -> StepSizes:
        """Step sizes learned on a coarse pass that is thrown away."""
        coarse = self.temperatures[:: max(1, min(PILOT, len(self.temperatures) // 100))]
        first = np.full(coarse.shape, np.log(0.5 * np.pi / self.leapfrogs))
        ladder = dataclasses.replace(self, temperatures=coarse, progress=False)
        used = _pass(path, ladder, start, first, int(rng.integers(2**32)), tunes=True).log_step
        # a moving average: single values follow single acceptances
        width = max(1, coarse.shape[0] // 20)
        padded = np.pad(used, (width, width), mode="edge")
        smooth = np.convolve(padded, np.ones(2 * width + 1) / (2 * width + 1), mode="valid")
        return StepSizes(coarse, smooth)


def anneal(
    path: Path,
    ladder: Ladder,
    start: np.ndarray,
    pilot: StepSizes,
    rng: np.random.Generator,
    elsewhere: Elsewhere | None = None,
) -> Annealed:
    """A pass of every run through the ladder, from `start` (runs, d) with the step sizes of the pilot: in
    groups, so that Ctrl-C or a deadline keeps finished ones. `elsewhere`: who makes them; the same runs.

    Where it comes before any is finished, KeyboardInterrupt or DeadlineReached goes on to the caller.
    """
    size, sizes = path.group(start.shape[0]), pilot.at(ladder.temperatures)
    groups = [start[i : i + size] for i in range(0, start.shape[0], size)]
    seeds = [int(rng.integers(2**32)) for _ in groups]
    done: dict[int, Annealed] = {}
    interrupted = False
    try:
        if elsewhere is None:
            for i, (group, seed) in enumerate(zip(groups, seeds, strict=True)):
                done[i] = _pass(path, ladder, group, sizes, seed, tunes=False)
        else:
            for i, found in _elsewhere(elsewhere, path, ladder, groups, sizes, seeds):
                done[i] = found
    except STOPPED:
        if not done:
            raise
        interrupted = True
    made = [done[i] for i in sorted(done)]
    return Annealed(
        np.concatenate([d.log_weights for d in made]),
        np.concatenate([d.log_likelihood for d in made], 1),
        float(np.mean([d.acceptance for d in made])),
        made[0].log_step,
        interrupted,
    )


def _elsewhere(
    elsewhere: Elsewhere, path: Path, ladder: Ladder, groups: list[Any], sizes: np.ndarray, seeds: list[int]
) -> Iterator[tuple[int, Annealed]]:
    """Groups of runs as others have made them."""
    shared = dict(elsewhere.shared) | {
        "curvature": path.curvature,
        "together": path.together,
        "temperatures": ladder.temperatures,
        "transitions": ladder.transitions,
        "leapfrogs": ladder.leapfrogs,
        "log_step": sizes,
    }
    jobs = [{"start": group, "seed": seed} for group, seed in zip(groups, seeds, strict=True)]
    names = [f"group {i + 1} of {len(jobs)} of annealing runs" for i in range(len(jobs))]
    with shown("annealing", ladder.progress, "Ctrl-C keeps finished runs"):
        for i, said in elsewhere.workers.each(elsewhere.work, jobs, shared, names, "groups of runs"):
            yield i, Annealed(**said)


def annealed(
    log_prior: Callable[..., Any],
    log_likelihood: Callable[..., Any],
    data: Any,
    *,
    curvature: np.ndarray,
    together: bool,
    temperatures: np.ndarray,
    transitions: int,
    leapfrogs: int,
    log_step: np.ndarray,
    start: np.ndarray,
    seed: int,
) -> dict[str, Any]:
    """A group of runs, elsewhere: as `anneal` would have made it."""
    path = Path(log_prior, log_likelihood, data, curvature, together=together)
    ladder = Ladder(temperatures, transitions, leapfrogs, progress=False)
    found = _pass(path, ladder, start, log_step, seed, tunes=False)
    return {field.name: getattr(found, field.name) for field in dataclasses.fields(found)}


def _pass(
    path: Path, ladder: Ladder, start: np.ndarray, log_step: np.ndarray, seed: int, tunes: bool
) -> Annealed:
    """Some runs side by side through the whole ladder; `tunes`: step sizes follow the acceptances."""
    tempered = Tempered(
        path.log_prior, path.log_likelihood, HMC(ladder.leapfrogs, 0.2), ladder.transitions, path.together
    )
    climb, log_likelihoods = _compiled(tempered)
    chunk = between_looks(CHUNK, start.shape[1], EASY)
    rungs = _rungs(ladder.temperatures, log_step, tunes, chunk)
    steps = ladder.temperatures.shape[0] - 1
    runs = Runs(jnp.asarray(start), jnp.zeros(start.shape[0]), jnp.zeros(()))
    key = jax.random.key(seed)
    seen: list[Seen] = []
    with shown("annealing", ladder.progress, "Ctrl-C keeps finished runs"):
        for i in range(0, rungs.tau.shape[0], chunk):
            part = Rung(*(values[i : i + chunk] for values in rungs))
            runs, out = climb(path.data, path.curvature, jax.random.fold_in(key, i), runs, part)
            seen.append(jax.tree.map(np.asarray, out))
            tell(min(i + chunk, steps), steps, "temperatures")
        last = log_likelihoods(path.data, runs.z)
    log_weights = np.asarray(runs.log_weights)
    if not np.isfinite(log_weights).all():
        raise FloatingPointError(
            "the weights of an annealing run are not finite: the likelihood is zero or undefined at prior "
            "draws."
        )
    log_likelihood, acceptance, used = (np.concatenate(x)[:steps] for x in zip(*seen, strict=True))
    return Annealed(
        log_weights,
        np.concatenate([log_likelihood, np.asarray(last)[None]]),
        float(acceptance.mean()),
        np.concatenate([used[:1], used]),
    )


# --------------------------------------------------------------------------------------------- compiled steps


class Rung(NamedTuple):
    """A temperature tau, its change from the one before, the log step size of moves there, whether it is
    `live` (no padding), and whether acceptances there tune the step sizes that follow. For many rungs:
    arrays.
    """

    tau: Any
    change: Any
    log_step: Any
    live: Any
    tunes: Any


class Runs(NamedTuple):
    """Where the runs are: z (R, d), log weights (R,), and what tuning has added to the log step sizes."""

    z: Any
    log_weights: Any
    offset: Any


class Seen(NamedTuple):
    """At a rung: log p(y | z) of each run before it moves (R,), mean acceptance, log step size."""

    log_likelihood: Any
    acceptance: Any
    log_step: Any


def _rungs(tau: np.ndarray, log_step: np.ndarray, tunes: bool, chunk: int) -> Rung:
    """All but the first temperature, padded to whole chunks by rungs where nothing happens."""
    steps = tau.shape[0] - 1
    padding = (0, -steps % chunk)
    live = np.pad(np.ones(steps, bool), padding)
    return Rung(
        np.pad(tau[1:], padding, mode="edge"),
        np.pad(np.diff(tau), padding),
        np.pad(log_step[1:], padding, mode="edge"),
        live,
        live & tunes,
    )


@dataclasses.dataclass(frozen=True)
class Tempered:
    """p(y | z)^tau p(z), the integrand of Z_tau (4.41), and the moves that leave it invariant. Runs go
    `together` in vectorised code, or one after the other.
    """

    log_prior: Callable[..., Any]
    log_likelihood: Callable[..., Any]
    move: HMC
    transitions: int
    together: bool

    def log_likelihoods(self, data: Any, z: Any) -> Any:
        """log p(y | z) of each run (R,)."""
        return over(lambda z: self.log_likelihood(z, data), self.together, z)

    def climb(self, data: Any, curvature: Any, key: Any, runs: Runs, rungs: Rung) -> tuple[Runs, Seen]:
        """Through a chunk of rungs, one after the other."""

        def one(runs: Runs, inputs: tuple[Any, Rung]) -> tuple[Runs, Seen]:
            return self.rung(data, curvature, inputs[0], runs, inputs[1])

        return jax.lax.scan(one, runs, (jax.random.split(key, rungs.tau.shape[0]), rungs))

    def rung(self, data: Any, curvature: Any, key: Any, runs: Runs, rung: Rung) -> tuple[Runs, Seen]:
        """ln w += (tau_t - tau_(t-1)) log p(y | z_(t-1)) (4.44, corrected), then z_t by moves at tau_t."""
        log_likelihood = self.log_likelihoods(data, runs.z)
        log_weights = runs.log_weights + rung.change * log_likelihood
        log_step = rung.log_step + runs.offset
        moved, acceptances = self.moved(data, curvature, key, runs.z, rung.tau, log_step)
        acceptance = jnp.mean(acceptances)
        tuned = jnp.clip(runs.offset + 0.15 * (acceptance - 0.8), -8.0, 0.0)
        runs = Runs(
            jnp.where(rung.live, moved, runs.z), log_weights, jnp.where(rung.tunes, tuned, runs.offset)
        )
        return runs, Seen(log_likelihood, acceptance, log_step)

    def moved(self, data: Any, curvature: Any, key: Any, z: Any, tau: Any, log_step: Any) -> tuple[Any, Any]:
        """The runs after their transitions at temperature tau, and the mean acceptance of each."""
        density = guarded(lambda z: self.log_prior(z, data) + tau * self.log_likelihood(z, data))
        variance = 1.0 / (1.0 + tau * curvature)

        def walk(key: Any, z: Any) -> tuple[Any, Any]:
            point, accepted = self.move.begin(density, z), 0.0
            for sub in jax.random.split(key, self.transitions):
                point, info = self.move(sub, point, density, jnp.exp(log_step), variance)
                accepted += info.acceptance / self.transitions
            return point.position, accepted

        return over(walk, self.together, jax.random.split(key, z.shape[0]), z)


@functools.lru_cache(maxsize=32)
def _compiled(tempered: Tempered) -> tuple[Callable[..., tuple[Runs, Seen]], Callable[..., Any]]:
    """`climb` and `log_likelihoods`."""
    return jax.jit(tempered.climb), jax.jit(tempered.log_likelihoods)
