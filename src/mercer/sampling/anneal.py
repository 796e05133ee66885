"""Annealing: Hamiltonian moves through likelihood^tau times prior, as tau goes through a ladder of
temperatures.

The prior is made standard normal. At fixed hyperparameters the coordinates are rotated so that the curvature
L'W L of the likelihood is diagonal: at temperature tau the variances are then close to 1 / (1 + tau
curvature), and each coordinate gets its own step.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import scipy.linalg as sla

from mercer.likelihoods.gaussian import Gaussian
from mercer.params import strip
from mercer.progress import STOPPED, Progress, shown, tell
from mercer.sampling.hmc import HMC
from mercer.sampling.hyper import Hyperparameters
from mercer.sampling.step import guarded, over
from mercer.sampling.target import (
    SMALL,
    Whitening,
    _blocks,
    bucket,
    encoded,
    latent_data,
    latent_values,
    likelihood_data,
    log_evidence_of,
    total_log_prob,
)  # fmt: skip

CHUNK = 250  # temperatures between two looks at the keyboard
GROUP = 8  # at least so many runs go through the ladder side by side
PILOT = 10  # the pilot visits one temperature in so many


@dataclasses.dataclass(frozen=True, eq=False)
class Path:
    """log_prior(z, data) and log_likelihood(z, data), traceable;
    `curvature` (d,) scales the steps with the temperature.
    """

    log_prior: Any
    log_likelihood: Any
    data: Any
    curvature: np.ndarray
    draw: Any  # rng -> z (d,), a draw of the prior
    back: Any = None  # latent values (R, n, L) -> z (R, d)
    together: bool = True  # whether runs are vectorised; not where matrices are factored

    def group(self, runs: int) -> int:
        """How many runs go together: Ctrl-C keeps groups that are finished, so at most four are made."""
        return max(GROUP, -(-runs // 4)) if self.together else 1

    def prior_draws(self, rng, runs: int) -> np.ndarray:
        return np.stack([self.draw(rng) for _ in range(runs)])

    def from_latents(self, f: np.ndarray) -> np.ndarray:
        return self.back(f)

    def from_chains(self, post, hyper: Hyperparameters, runs: int, gaussian: bool) -> np.ndarray:
        """The last draw of each chain, in the coordinates of this path."""
        ends = post.chains.draws[:runs, -1]
        theta = ends[:, ends.shape[1] - hyper.size :]
        return theta if gaussian else self.back(post.draws["u"][:runs, -1], theta)


@dataclasses.dataclass(frozen=True, eq=False)
class Annealed:
    """Log weights (runs,), log likelihoods (T + 1, runs) in the order the temperatures were visited,
    and mean acceptance.
    """

    log_weights: np.ndarray
    log_likelihood: np.ndarray
    acceptance: float
    log_step: np.ndarray  # (T + 1,)
    interrupted: bool = False  # fewer runs than were asked for


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
        return dataclasses.replace(self, temperatures=self.temperatures[::-1])

    def pilot(self, path: Path, start: np.ndarray, rng) -> Any:
        """log step size as a function of the temperature, learned on a coarse pass that is thrown away."""
        coarse = self.temperatures[:: max(1, min(PILOT, len(self.temperatures) // 100))]
        first = np.full(coarse.shape, np.log(0.5 * np.pi / self.leapfrogs))
        out = _pass(
            path,
            dataclasses.replace(self, temperatures=coarse, progress=False),
            start,
            first,
            rng,
            adapt=True,
        )
        # a moving average: single values follow single acceptances
        width = max(1, coarse.shape[0] // 20)
        padded = np.pad(out.log_step, (width, width), mode="edge")
        smooth = np.convolve(padded, np.ones(2 * width + 1) / (2 * width + 1), mode="valid")
        return coarse, smooth


def anneal(path: Path, ladder: Ladder, start: np.ndarray, pilot, rng) -> Annealed:
    """A pass of every run through the ladder, with the step sizes of the pilot: in groups, so that Ctrl-C
    keeps finished ones.

    Where Ctrl-C comes before any is finished, KeyboardInterrupt goes on to the caller.
    """
    coarse, log_step = pilot
    sizes = np.interp(ladder.temperatures, coarse, log_step)
    done: list[Annealed] = []
    interrupted = False
    try:
        size = path.group(start.shape[0])
        for i in range(0, start.shape[0], size):
            done.append(_pass(path, ladder, start[i : i + size], sizes, rng, adapt=False))
    except STOPPED:
        if not done:
            raise
        interrupted = True
    weights, logs = (
        np.concatenate([d.log_weights for d in done]),
        np.concatenate([d.log_likelihood for d in done], 1),
    )
    return Annealed(
        weights, logs, float(np.mean([d.acceptance for d in done])), done[0].log_step, interrupted
    )


def _pass(path: Path, ladder: Ladder, start, log_step: np.ndarray, rng, adapt: bool) -> Annealed:
    tau = ladder.temperatures
    steps = tau.shape[0] - 1
    padded = -(-steps // CHUNK) * CHUNK
    change = np.pad(np.diff(tau), (0, padded - steps))
    next_tau, next_step = (np.pad(a[1:], (0, padded - steps), mode="edge") for a in (tau, log_step))
    run = _compiled(path.log_prior, path.log_likelihood, ladder.transitions, ladder.leapfrogs, path.together)
    runs = start.shape[0]
    z, log_w, offset = jnp.asarray(start), jnp.zeros(runs), jnp.zeros(())
    key = jax.random.key(int(rng.integers(2**32)))
    outs = []
    with shown("annealing", ladder.progress, "Ctrl-C keeps finished runs"):
        for i in range(0, padded, CHUNK):
            part = slice(i, i + CHUNK)
            live = np.arange(i, i + CHUNK) < steps
            z, log_w, offset, out = run(
                path.data,
                path.curvature,
                jax.random.fold_in(key, i),
                z,
                log_w,
                offset,
                change[part],
                next_tau[part],
                next_step[part],
                live,
                adapt,
            )
            outs.append(jax.tree.map(np.asarray, out))
            tell(min(i + CHUNK, steps), steps, "temperatures")
        last = run.log_likelihood(path.data, z)
    log_lik, acceptance, used = (np.concatenate(x)[:steps] for x in zip(*outs, strict=True))
    if not np.isfinite(np.asarray(log_w)).all():
        raise FloatingPointError(
            "the weights of an annealing run are not finite: the likelihood is zero or undefined at prior "
            "draws."
        )
    log_step = np.concatenate([used[:1], used])
    return Annealed(
        np.asarray(log_w),
        np.concatenate([log_lik, np.asarray(last)[None]]),
        float(acceptance.mean()),
        log_step,
    )


class _Run:
    def __init__(self, advance, log_likelihood):
        self.advance, self.log_likelihood = advance, log_likelihood

    def __call__(self, *args):
        return self.advance(*args)


@functools.lru_cache(maxsize=32)
def _compiled(log_prior, log_likelihood, transitions: int, leapfrogs: int, together: bool) -> _Run:
    move = HMC(leapfrogs, 0.2)

    def advance(data, curvature, key, z, log_w, offset, change, tau, log_step, live, adapt):
        def one(carry, inputs):
            z, log_w, offset = carry
            key, change, tau, log_step, live = inputs
            log_lik = over(lambda z: log_likelihood(z, data), together, z)
            log_w = log_w + change * log_lik
            density = guarded(lambda z: log_prior(z, data) + tau * log_likelihood(z, data))
            variance = 1.0 / (1.0 + tau * curvature)
            size = log_step + offset

            def walk(key, z):
                point, accepted = move.begin(density, z), 0.0
                for sub in jax.random.split(key, transitions):
                    point, info = move(sub, point, density, jnp.exp(size), variance)
                    accepted += info.acceptance / transitions
                return point.position, accepted

            new, acceptance = over(walk, together, jax.random.split(key, z.shape[0]), z)
            z = jnp.where(live, new, z)
            mean = jnp.mean(acceptance)
            offset = jnp.where(adapt & live, jnp.clip(offset + 0.15 * (mean - 0.8), -8.0, 0.0), offset)
            return (z, log_w, offset), (log_lik, mean, size)

        keys = jax.random.split(key, CHUNK)
        (z, log_w, offset), out = jax.lax.scan(one, (z, log_w, offset), (keys, change, tau, log_step, live))
        return z, log_w, offset, out

    return _Run(
        jax.jit(advance), jax.jit(lambda data, z: over(lambda z: log_likelihood(z, data), together, z))
    )


# ------------------------------------------------------------------------------------------------- paths


def fixed_path(likelihood: Any, y: np.ndarray, white: Whitening, sites: Any) -> Path:
    """From the prior to the posterior of the latent values at fixed hyperparameters.
    `white` is that of the prior.
    """
    n, L = white.shape
    size = n if likelihood.per_datum else bucket(n)
    curvature, Q = np.zeros(n * L), np.eye(n * L)
    if sites is not None:
        W = _blocks(sites)
        A = np.block(
            [[white.factors[j].T @ (W[:, j, k, None] * white.factors[k]) for k in range(L)] for j in range(L)]
        )
        curvature, Q = sla.eigh(A)
        curvature = np.maximum(curvature, 0.0)
    turned = dataclasses.replace(white, turn=Q)
    data = likelihood_data(likelihood, y, size) | latent_data(turned, size)
    where = np.concatenate([np.arange(n) + j * size for j in range(L)])
    padded = np.zeros(L * size)
    padded[where] = curvature
    _, treedef = jax.tree.flatten(strip(likelihood))

    def back(f: np.ndarray) -> np.ndarray:
        f = f.reshape(f.shape[0], n, L)
        u = [
            sla.solve_triangular(white.factors[j], (f[:, :, j] - white.mean[:, j]).T, lower=True)
            for j in range(L)
        ]
        z = np.zeros((f.shape[0], L * size))
        z[:, where] = np.concatenate(u).T @ Q
        return z

    return Path(
        _standard_normal,
        _latent_likelihood(treedef, L),
        data,
        padded,
        lambda rng: rng.standard_normal(L * size),
        back,
    )


def _standard_normal(z, data):
    return -0.5 * jnp.sum(z**2)


@functools.lru_cache(maxsize=64)
def _latent_likelihood(treedef, L: int):
    def log_likelihood(z, data):
        f = data["middle"] + (data["C"] @ z).reshape(L, -1).T
        return total_log_prob(jax.tree.unflatten(treedef, data["leaves"]), f, data["y"], data["mask"])

    return log_likelihood


def integrated_path(model: Any, X: np.ndarray, y: np.ndarray, hyper: Hyperparameters) -> Path:
    """From the prior to the posterior of the hyperparameters: alone for Gaussian noise,
    with the whitened latents otherwise.
    """
    n, L = y.shape[0], model.likelihood.latents
    size = n if model.likelihood.per_datum else bucket(n)
    data = encoded(model, X, size) | likelihood_data(model.likelihood, y, size) | hyper.data()
    if isinstance(model.likelihood, Gaussian):
        return Path(
            _hyper_prior(hyper.spec, 0),
            _hyper_likelihood(hyper.spec, 0),
            data,
            np.zeros(hyper.size),
            hyper.draw,
            together=size <= SMALL,
        )

    def draw(rng):
        return np.concatenate([rng.standard_normal(L * size), hyper.draw(rng)])

    def back(u: np.ndarray, theta: np.ndarray) -> np.ndarray:
        z = np.zeros((u.shape[0], L, size))
        z[:, :, :n] = u
        return np.concatenate([z.reshape(u.shape[0], -1), theta], 1)

    curvature = np.zeros(L * size + hyper.size)
    return Path(
        _hyper_prior(hyper.spec, L),
        _hyper_likelihood(hyper.spec, L),
        data,
        curvature,
        draw,
        back,
        size <= SMALL,
    )


@functools.lru_cache(maxsize=64)
def _hyper_prior(spec, L: int):
    def log_prior(z, data):
        d = L * data["mask"].shape[0]
        return spec.build(z[d:], data)[1] - 0.5 * jnp.sum(z[:d] ** 2)

    return log_prior


@functools.lru_cache(maxsize=64)
def _hyper_likelihood(spec, L: int):
    def log_likelihood(z, data):
        d = L * data["mask"].shape[0]
        model, _ = spec.build(z[d:], data)
        if L == 0:
            return log_evidence_of(model, data)
        f = latent_values(model, z[:d].reshape(L, -1), data)
        return total_log_prob(model.likelihood, f, data["y"], data["mask"])

    return log_likelihood
