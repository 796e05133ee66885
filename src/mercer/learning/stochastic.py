"""Learning from batches: natural gradients for q(w), Adam for hyperparameters and inducing inputs (see
`inference.SVGP`).

In whitened coordinates f(x) = m(x) + psi(x)'w + rest, w ~ N(0, I), psi(x) = L^-1 k_m(x). q(w) = N(P^-1 h,
P^-1); with g = E[d log p / df] and W = -E[d2 log p / df2] a batch of b among n data asks for

    P = I + n/b Psi' W Psi,    h = n/b Psi' (g + W (mean - m)),

and a natural-gradient step of size rho goes that share of the way.
"""

from __future__ import annotations

import dataclasses
import functools
import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.scipy.linalg import solve_triangular

from mercer.gp import Model, at_rows
from mercer.learning import bounds
from mercer.learning.checkpoint import Checkpoint
from mercer.learning.climb import Recorder
from mercer.params import Flattened, flatten, named_leaves, strip
from mercer.progress import STOPPED
from mercer.solvers.inducing import JITTER

if TYPE_CHECKING:
    from mercer.inference.svgp import SVGP

FIRST, NOTED = 300, 30  # steps from every start; one line of the history for so many of them
RATES = 0.1, 0.005  # of Adam, in the first and the last of them
Q_FIRST = 11  # batches in which q alone moves: hyperparameters would follow its ignorance


@dataclasses.dataclass(frozen=True, eq=False)
class Training:
    """Where learning from batches stands: all that the next batch needs, and so all that a file must hold for
    a run that was killed to go on as if it had not been.
    """

    theta: np.ndarray  # (p,): unconstrained hyperparameters
    inducing: np.ndarray  # (m, d)
    h: np.ndarray  # (m,): q(w) = N(P^-1 h, P^-1)
    P: np.ndarray  # (m, m)
    first: np.ndarray  # (p + m d,) or (p,): Adam's moments of the gradient
    second: np.ndarray
    steps: int  # that Adam has made
    epoch: int  # passes over the data that are done
    random: str  # state of the generator that orders the data

    @classmethod
    def begin(cls, theta: np.ndarray, inducing: np.ndarray, rule: SVGP) -> Training:
        """Before the first batch: q is the prior."""
        m, moved = inducing.shape[0], theta.size + (inducing.size if rule.learn_inducing else 0)
        order = json.dumps(np.random.default_rng(rule.seed).bit_generator.state)
        zero = np.zeros(moved)
        return cls(theta, inducing, np.zeros(m), np.eye(m), zero, zero, 0, 0, order)

    @classmethod
    def read(cls, arrays: Mapping[str, np.ndarray]) -> Training:
        """From what a checkpoint holds."""
        found: dict[str, Any] = {field.name: arrays[field.name] for field in dataclasses.fields(cls)}
        plain = {name: found[name].item() for name in ("steps", "epoch", "random")}
        return cls(**(found | plain))

    def arrays(self) -> dict[str, Any]:
        """As a checkpoint holds it."""
        return {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}

    def shuffled(self, n: int) -> tuple[np.ndarray, Training]:
        """The n data in the order of the next epoch."""
        rng = np.random.default_rng()
        rng.bit_generator.state = json.loads(self.random)
        order = rng.permutation(n)
        return order, dataclasses.replace(self, random=json.dumps(rng.bit_generator.state))

    def ascend(self, gradient: np.ndarray, rate: float, unit: np.ndarray) -> Training:
        """A step of Adam (Kingma and Ba), upwards. `unit` (d,): of each column of the inducing inputs."""
        steps = self.steps + 1
        first = 0.9 * self.first + 0.1 * gradient
        second = 0.999 * self.second + 0.001 * gradient**2
        step = rate * (first / (1 - 0.9**steps)) / (np.sqrt(second / (1 - 0.999**steps)) + 1e-12)
        p = self.theta.size
        moved = step[p:].reshape(-1, unit.size) * unit if step.size > p else 0.0
        return dataclasses.replace(
            self,
            theta=self.theta + step[:p],
            inducing=self.inducing + moved,
            first=first,
            second=second,
            steps=steps,
        )


def train(
    batches: Batches, training: Training, recorder: Recorder, checkpoint: Checkpoint | None = None
) -> tuple[Training, bool]:
    """Where learning stands after `rule.epochs` passes over the data, and whether Ctrl-C ended it before."""
    n = batches.n
    rule = batches.rule
    try:
        while training.epoch < rule.epochs:
            order, training = training.shuffled(n)
            total, parts = 0.0, equal_parts(order, rule.batch)
            for i, rows in enumerate(parts):
                bound, training = batches.step(training, rows, i)
                total += bound
            training = dataclasses.replace(training, epoch=training.epoch + 1)
            if checkpoint is not None:
                checkpoint.write(**training.arrays())
            recorder.note(f"epoch {training.epoch} of {rule.epochs}", n, total / len(parts))
    except STOPPED:
        return training, True
    return training, False


def first_steps(
    batches: Batches, training: Training, recorder: Recorder, label: str
) -> tuple[np.ndarray, float]:
    """Hyperparameters after `FIRST` steps from a start, on random batches that are the same for every start,
    with a rate that falls; and the bound there. Both are averages over the last third of the steps.
    """
    n, rule = len(batches.y), batches.rule
    rng, size = np.random.default_rng(rule.seed), min(rule.batch, n)
    values, thetas = [], []
    for i in range(FIRST):
        rows = np.sort(rng.choice(n, size, replace=False))
        fall = 0.5 + 0.5 * np.cos(np.pi * i / FIRST)
        bound, training = batches.step(training, rows, i, RATES[1] + (RATES[0] - RATES[1]) * fall)
        values.append(bound)
        thetas.append(training.theta)
        if (i + 1) % NOTED == 0:
            recorder.note(label, size, float(np.mean(values[-NOTED:])))
    last = FIRST // 3
    return np.mean(thetas[-last:], 0), float(np.mean(values[-last:]))


def column_units(X: np.ndarray) -> np.ndarray:
    """In which inducing inputs are moved (d,): the columns' spreads."""
    spread = np.std(X, 0) if X.dtype != object else np.ones(X.shape[1])
    return np.where(spread > 0, spread, 1.0)


class Batches:
    """Steps on batches of the data (X, y), or of n data of which these are some."""

    def __init__(
        self,
        model: Model,
        X: np.ndarray,
        y: np.ndarray,
        rule: SVGP,
        n: int | None = None,
        unit: np.ndarray | None = None,
    ):
        self.X, self.y, self.rule = X, y, rule
        self.n = y.shape[0] if n is None else n
        self.flat: Flattened = flatten(model)
        self.encoded = jax.tree.map(np.asarray, model.gp.kernel.encode(X))
        self.unit = column_units(X) if unit is None else unit

    def step(
        self, training: Training, rows: np.ndarray, i: int, rate: float | None = None
    ) -> tuple[float, Training]:
        """The bound as batch i of an epoch sees it, and the state after its step; `rate`: of Adam, in place
        of the rule's.
        """
        rule, n, first_epoch = self.rule, self.n, training.epoch == 0
        bare = strip(at_rows(self.flat.unflatten(training.theta), rows, self.y.shape[0]))
        leaves, treedef = jax.tree.flatten(bare)
        A = jax.tree.map(lambda a: a[rows], self.encoded)
        rho = max(rule.step, 1.0 / (1 + i)) if first_epoch else rule.step
        batch, scale = (A, self.X[rows], self.y[rows]), n / len(rows)
        bound, bars, Z_bar, h, P = _compiled(treedef, rule.learn_inducing)[0](
            leaves, training.inducing, training.h, training.P, *batch, scale, rho
        )
        by_name = {name: np.asarray(bar) for (name, _), bar in zip(named_leaves(bare), bars, strict=True)}
        gradient = self.flat.pull(by_name, training.theta) + self.flat.log_prior(training.theta)[1]
        if rule.learn_inducing:
            gradient = np.concatenate([gradient, (np.asarray(Z_bar) * self.unit).ravel()])
        if not np.isfinite(gradient).all():
            raise FloatingPointError(
                f"SVGP's gradient is not finite in epoch {training.epoch + 1}: lower rate={rule.rate} or "
                f"step={rule.step}."
            )
        moved = dataclasses.replace(training, h=h, P=P)
        if not first_epoch or i >= Q_FIRST:
            moved = moved.ascend(gradient / n, rule.rate if rate is None else rate, self.unit)
            moved = dataclasses.replace(moved, theta=bounds.clip(self.flat, moved.theta))
        return float(bound), moved

    def marginals(self, training: Training) -> tuple[np.ndarray, np.ndarray]:
        """Mean and variance (n, 1) of f under q at every datum."""
        leaves, treedef = jax.tree.flatten(strip(self.flat.unflatten(training.theta)))
        q = training.inducing, training.h, training.P
        moments, n = _compiled(treedef, self.rule.learn_inducing)[1], self.y.shape[0]
        size, found = min(self.rule.batch, n), np.empty((2, n, 1))
        for first in range(0, n, size):
            rows = slice(min(first, n - size), min(first + size, n))  # of one size, so that it compiles once
            A = jax.tree.map(lambda a, rows=rows: a[rows], self.encoded)
            found[:, rows, 0] = moments(leaves, *q, A, self.X[rows])[0]
        return found[0], found[1]


def equal_parts(order: np.ndarray, batch: int) -> list[np.ndarray]:
    """Batches of one size, so that a step is compiled once; rows in ascending order."""
    parts = np.array_split(order, max(1, order.size // min(batch, order.size)))
    size = min(map(len, parts))
    return [np.sort(rows[:size]) for rows in parts]


@functools.lru_cache(maxsize=64)
def _compiled(treedef: Any, learn_inducing: bool) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """A step, and the moments of f under q."""

    def moments(
        leaves: Any, Z: Array, h: Array, P: Array, A: Any, X: Array
    ) -> tuple[tuple[Array, Array], tuple[Array, Array, Array, Array]]:
        """Mean and variance (b,) of f under q at a batch; and Psi (b, m), the prior mean m (b,), the mean of
        w and the lower factor of P.
        """
        model = jax.tree.unflatten(treedef, leaves)
        kernel = model.gp.kernel
        B = kernel.encode(Z)
        K = kernel.block(B, B)
        K = K + JITTER * jnp.mean(jnp.diag(K)) * jnp.eye(K.shape[0])
        Psi = solve_triangular(jnp.linalg.cholesky(K), kernel.block(A, B).T, lower=True).T
        U = jnp.linalg.cholesky(P)
        w = solve_triangular(U, solve_triangular(U, h, lower=True), lower=True, trans="T")
        spread = solve_triangular(U, Psi.T, lower=True)
        m = model.gp.mean.value(X)
        variance = kernel.diag(A) - jnp.sum(Psi**2, 1) + jnp.sum(spread**2, 0)
        return (m + Psi @ w, jnp.maximum(variance, 1e-300)), (Psi, m, w, U)

    @jax.jit
    def step(
        leaves: Any, Z: Array, h: Array, P: Array, A: Any, X: Array, y: Array, scale: float, rho: float
    ) -> tuple[Array, list[Array], Array, Array, Array]:
        """The bound, its derivatives (leaves of the model, Z), and h and P after a natural-gradient step."""
        kept = (lambda leaves, Z: moments(leaves, Z, h, P, A, X)) if learn_inducing else (
            lambda leaves, _: moments(leaves, Z, h, P, A, X)
        )  # fmt: skip
        (mean, variance), pull, (Psi, m, w, U) = jax.vjp(kept, leaves, Z, has_aux=True)

        def expected(leaves: Any, mean: Array, variance: Array) -> Array:
            likelihood = jax.tree.unflatten(treedef, leaves).likelihood
            return jnp.sum(likelihood.rough_expectation(y, mean, variance))

        value, (direct, g, by_variance) = jax.value_and_grad(expected, argnums=(0, 1, 2))(
            leaves, mean, variance
        )
        through, Z_bar = pull((scale * g, scale * by_variance))
        bars = [scale * d + t for d, t in zip(direct, through, strict=True)]
        W = jnp.maximum(-2.0 * by_variance, 0.0)
        new_P = jnp.eye(P.shape[0]) + scale * (Psi * W[:, None]).T @ Psi
        new_h = scale * Psi.T @ (g + W * (mean - m))
        inverse = solve_triangular(U, jnp.eye(P.shape[0]), lower=True)
        kl = 0.5 * (jnp.sum(inverse**2) + w @ w - P.shape[0]) + jnp.sum(jnp.log(jnp.diag(U)))
        return scale * value - kl, bars, Z_bar, (1 - rho) * h + rho * new_h, (1 - rho) * P + rho * new_P

    return step, jax.jit(moments)
