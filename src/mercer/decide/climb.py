"""The best point of an acquisition function on a mixed space.

Many rows are looked at: a Sobol sequence over the space, and rows near the best ones known. From the best
few of them, apart from one another, quasi-Newton steps go uphill in the continuous columns, side by side in
one compiled program; columns of whole numbers and categories then try their neighbours, and climb again.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from mercer.decide.acquisition import Data, Score
from mercer.decide.space import Space

__all__ = ["maximise"]

SPREAD = 1024  # rows over the space
NEAR = 512  # rows near the best known
CLIMBS = 8
STEPS = 40
LENGTHS = (4.0, 2.0, 1.0, 0.5, 0.2, 0.05, 0.01, 0.001)  # of a step, tried side by side
ROUNDS = 4  # of neighbours in columns that are not continuous


def maximise(
    score: Score, data: Data, space: Space, near: np.ndarray, taken: np.ndarray, rng: np.random.Generator
) -> tuple[np.ndarray, float]:
    """The point u (D,) of the space where the score is largest, and the score.

    near (k, D): good rows to look around; taken (t, D): rows not to be given again
    """
    U = candidates(space, near, rng)
    values = _values(score, data, U)
    values[_among(U, taken)] = -np.inf
    if not np.isfinite(values).any():
        return U[0], -np.inf
    starts = _apart(U, values, CLIMBS)
    tops, scores = _climbed(score, data, space, starts, taken)
    for _ in range(ROUNDS if not space.continuous.all() else 0):
        beside = _neighbours(space, tops[np.argsort(-scores)[:2]])
        if not len(beside):
            break
        values = _values(score, data, _filled(beside, SPREAD + NEAR))[: len(beside)]
        values[_among(beside, taken)] = -np.inf
        if not values.max() > scores.max():
            if space.continuous.any():
                new, reached = _climbed(score, data, space, _apart(beside, values, CLIMBS), taken)
                if reached.max() > scores.max():
                    tops, scores = new, reached
                    continue
            break
        tops, scores = _climbed(score, data, space, _apart(beside, values, CLIMBS), taken)
    best = int(np.argmax(scores))
    if not scores[best] > -np.inf:
        return U[int(np.argmax(_values(score, data, U)))], -np.inf
    return tops[best], float(scores[best])


def candidates(space: Space, near: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Rows to look at first, always SPREAD + NEAR of them: over the space, and about the points `near`."""
    over = space.sobol(SPREAD, rng)
    if len(near):
        centre = near[rng.integers(len(near), size=2 * NEAR)]
        size = 10.0 ** rng.uniform(-3.0, -0.5, (2 * NEAR, 1))
        moved = centre + size * rng.standard_normal(centre.shape) * (rng.random(centre.shape) < 0.7)
        other = space.sobol(2 * NEAR, rng)
        other = _filled(other, 2 * NEAR)
        jump = (rng.random((2 * NEAR, len(space.columns))) < 0.15)[:, space.groups] & ~space.continuous
        moved = space.snap(np.where(jump, other, moved))
        over = np.concatenate([over, moved[space.allowed(moved)][:NEAR]])
    return _filled(over, SPREAD + NEAR)


def _values(score: Score, data: Data, U: np.ndarray) -> np.ndarray:
    values = np.array(_score(score, U, data))
    return np.where(np.isfinite(values), values, -np.inf)


@functools.partial(jax.jit, static_argnums=0)
def _score(score, A, data):
    return score(A, data)


def _climbed(
    score: Score, data: Data, space: Space, starts: np.ndarray, taken: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Starts (k, D) after climbing, and their scores (k,); -inf where a row is taken already."""
    tops = starts
    if space.continuous.any():
        tops = np.asarray(_ascend(_Penalised(score, space), starts, data, space.continuous.astype(float)))
        tops = np.where(np.isfinite(tops).all(1, keepdims=True), tops, starts)
        tops = _inside(space, starts, space.snap(tops))
    full = _filled(np.concatenate([tops, starts]), SPREAD + NEAR)
    values = _values(score, data, full)[: 2 * len(starts)]
    values[_among(full[: len(values)], taken)] = -np.inf
    return full[: len(values)], values


class _Penalised:
    """A score less what breaking the constraints of the space costs; equal where both are."""

    def __init__(self, score: Score, space: Space):
        self.score, self.space = score, space
        self.key = (score, space.constraints and repr(space))

    def __call__(self, A: Any, data: Data) -> Any:
        excess = self.space.excess(A)
        penalty = (
            0.0 if excess is None else 1e3 * jnp.maximum(excess, 0.0) + 1e5 * jnp.maximum(excess, 0.0) ** 2
        )
        return self.score(A, data) - penalty

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Penalised) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)


@functools.partial(jax.jit, static_argnums=0)
def _ascend(score: Callable, starts, data, free):
    """Quasi-Newton steps (BFGS) uphill within the unit cube, from each start; `free` (D,): which columns
    move.
    """
    k, d = starts.shape
    lengths = jnp.array(LENGTHS)

    def total(x):
        values = jnp.nan_to_num(score(x, data), nan=-1e30, neginf=-1e30)
        return jnp.sum(values), values

    def value_and_slope(x):
        (_, values), slopes = jax.value_and_grad(total, has_aux=True)(x)  # each row has its own
        return values, jnp.nan_to_num(slopes)

    def scaled(slope):
        return 0.1 / (jnp.linalg.norm(slope, axis=1) + 1e-12)

    def step(carry, _):
        x, value, slope, H = carry
        open_ = free * ~(((x <= 0.0) & (slope < 0)) | ((x >= 1.0) & (slope > 0)))
        g = slope * open_
        p = jnp.einsum("kij,kj->ki", H, g) * open_
        uphill = jnp.sum(p * g, 1) > 0
        p = jnp.where(uphill[:, None], p, scaled(g)[:, None] * g)
        longest = jnp.max(jnp.abs(p), 1, keepdims=True)
        p = p * jnp.minimum(1.0, 0.25 / (longest + 1e-30))
        tries = jnp.clip(x[:, None] + lengths[:, None] * p[:, None], 0.0, 1.0)  # (k, lengths, d)
        seen = score(tries.reshape(-1, d), data).reshape(k, -1)
        seen = jnp.where(jnp.isfinite(seen), seen, -jnp.inf)
        at = jnp.argmax(seen, 1)
        better = jnp.take_along_axis(seen, at[:, None], 1)[:, 0] > value
        new = jnp.where(better[:, None], tries[jnp.arange(k), at], x)
        new_value, new_slope = value_and_slope(new)
        s, y = new - x, (slope - new_slope) * open_
        sy = jnp.sum(s * y, 1)
        ok = better & (sy > 1e-12 * jnp.linalg.norm(s, axis=1) * jnp.linalg.norm(y, axis=1)) & (sy > 0)
        rho = jnp.where(ok, 1.0 / jnp.where(ok, sy, 1.0), 0.0)[:, None, None]
        V = jnp.eye(d) - rho * s[:, :, None] * y[:, None]
        updated = V @ H @ jnp.swapaxes(V, 1, 2) + rho * s[:, :, None] * s[:, None]
        again = scaled(new_slope)[:, None, None] * jnp.eye(d)
        H = jnp.where(better[:, None, None], jnp.where(ok[:, None, None], updated, H), again)
        return (new, new_value, new_slope, H), None

    value, slope = value_and_slope(starts)
    H = scaled(slope)[:, None, None] * jnp.eye(d)
    (x, _, _, _), _ = jax.lax.scan(step, (starts, value, slope, H), None, length=STEPS)
    return x


def _inside(space: Space, starts: np.ndarray, tops: np.ndarray) -> np.ndarray:
    """Tops that hold the constraints: moved back towards where they came from as far as needed."""
    if not space.constraints:
        return tops
    low, high = np.zeros(len(tops)), np.ones(len(tops))
    done = space.allowed(tops)
    for _ in range(50):
        middle = 0.5 * (low + high)
        fine = space.allowed(starts + middle[:, None] * (tops - starts))
        low, high = np.where(fine, middle, low), np.where(fine, high, middle)
    return np.where(done[:, None], tops, starts + low[:, None] * (tops - starts))


def _apart(U: np.ndarray, values: np.ndarray, count: int) -> np.ndarray:
    """The best rows, each a little apart from the better ones; `count` of them."""
    chosen: list[int] = []
    for i in np.argsort(-values, kind="stable"):
        if len(chosen) == count or not values[i] > -np.inf:
            break
        gap = 0.05 * np.sqrt(U.shape[1])
        if all(np.linalg.norm(U[i] - U[j]) > gap for j in chosen):
            chosen.append(int(i))
    return _filled(U[chosen], count)


def _neighbours(space: Space, tops: np.ndarray) -> np.ndarray:
    """Rows that differ from the tops in one column that is not continuous."""
    out = []
    for top in tops:
        for _, column, place in space.parts():
            for other in column.neighbours(top[place]):
                row = top.copy()
                row[place] = other
                out.append(row)
    rows = np.array(out).reshape(len(out), space.width)
    return rows[space.allowed(rows)][: SPREAD + NEAR]


def _among(U: np.ndarray, taken: np.ndarray) -> np.ndarray:
    """Which rows are among those taken."""
    known = {row.tobytes() for row in np.round(taken, 9) + 0.0}
    return np.array([row.tobytes() in known for row in np.round(U, 9) + 0.0], bool)


def _filled(rows: np.ndarray, size: int) -> np.ndarray:
    """So many rows, the first repeated where there are too few."""
    if len(rows) >= size:
        return rows[:size]
    return rows[np.arange(size) % len(rows)]
