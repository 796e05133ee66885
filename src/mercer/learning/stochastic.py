"""Learning from batches: natural gradients for q(w), Adam for hyperparameters and inducing inputs (see
`inference.SVGP`).

In whitened coordinates f(x) = m(x) + psi(x)'w + rest, w ~ N(0, I), psi(x) = L^-1 k_m(x). q(w) = N(P^-1 h,
P^-1); with g = E[d log p / df] and W = -E[d2 log p / df2] a batch of b among n data asks for

    P = I + n/b Psi' W Psi,    h = n/b Psi' (g + W (mean - m)),

and a natural-gradient step of size rho goes that share of the way.
"""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.linalg import solve_triangular

from mercer.gp import Model
from mercer.learning.climb import Recorder
from mercer.params import flatten, named_leaves, strip
from mercer.progress import STOPPED
from mercer.solvers.inducing import JITTER


def train(
    model: Model, X: np.ndarray, y: np.ndarray, rule: Any, Z: np.ndarray, recorder: Recorder
) -> tuple[Model, np.ndarray]:
    """The model and inducing inputs after `rule.epochs` passes, from those given.
    Ctrl-C ends it with what was reached.
    """
    flat = flatten(model)
    n, b, m = y.shape[0], min(rule.batch, y.shape[0]), Z.shape[0]
    spread = np.std(X, 0) if X.dtype != object else np.ones(X.shape[1])
    unit = np.where(spread > 0, spread, 1.0)
    encoded = jax.tree.map(np.asarray, model.gp.kernel.encode(X))
    rng = np.random.default_rng(rule.seed)
    theta = np.concatenate([flat.vector, (Z / unit).ravel() if rule.learn_inducing else []])
    p, adam = flat.vector.shape[0], Adam(rule.rate, theta.shape[0])
    h, P, first = jnp.zeros(m), jnp.eye(m), 0
    kept = None if recorder.checkpoint is None else recorder.checkpoint.found
    if kept is not None and kept["theta"].shape == theta.shape and kept["h"].shape == h.shape:
        theta, h, P, first = kept["theta"], jnp.asarray(kept["h"]), jnp.asarray(kept["P"]), int(kept["epoch"])
        Z = theta[p:].reshape(Z.shape) * unit if rule.learn_inducing else Z
        adam.first, adam.second, adam.t = kept["first"], kept["second"], int(kept["t"])
    try:
        for epoch in range(first, rule.epochs):
            total = 0.0
            batches = [rows for rows in np.array_split(rng.permutation(n), max(1, n // b))]
            size = min(len(rows) for rows in batches)  # equal batches: compiled once
            for i, rows in enumerate(batches):
                rows = np.sort(rows[:size])
                current = flat.unflatten(theta[:p])
                bare = strip(current)
                leaves, treedef = jax.tree.flatten(bare)
                A = jax.tree.map(lambda a, rows=rows: a[rows], encoded)
                rho = max(rule.step, 1.0 / (1 + i)) if epoch == 0 else rule.step
                value, bars, Z_bar, h, P = _step(treedef, rule.learn_inducing)(
                    leaves, Z, h, P, A, X[rows], y[rows], n / size, rho
                )
                total += float(value)
                by_name = {
                    name: np.asarray(bar) for (name, _), bar in zip(named_leaves(bare), bars, strict=True)
                }
                _, prior = flat.log_prior(theta[:p])
                gradient = flat.pull(by_name, theta[:p]) + prior
                if rule.learn_inducing:
                    gradient = np.concatenate([gradient, (np.asarray(Z_bar) * unit).ravel()])
                if not np.isfinite(gradient).all():
                    raise FloatingPointError(
                        f"SVGP's gradient is not finite in epoch {epoch + 1}: lower rate={rule.rate} or "
                        f"step={rule.step}."
                    )
                if epoch > 0 or i > 10:  # q comes first: hyperparameters would follow its ignorance
                    theta = theta + adam.step(gradient / n)
                    if rule.learn_inducing:
                        Z = theta[p:].reshape(Z.shape) * unit
            if recorder.checkpoint is not None:
                recorder.checkpoint.keep(
                    theta[:p],
                    n,
                    total / len(batches),
                    now=True,
                    theta=theta,
                    h=h,
                    P=P,
                    epoch=epoch + 1,
                    first=adam.first,
                    second=adam.second,
                    t=adam.t,
                )
            recorder.note(f"epoch {epoch + 1} of {rule.epochs}", n, total / len(batches))
    except STOPPED:
        recorder.interrupted = True
    return flat.unflatten(theta[:p]), Z


class Adam:
    """Steps of Kingma and Ba's method, upwards."""

    def __init__(self, rate: float, size: int):
        self.rate, self.t = rate, 0
        self.first, self.second = np.zeros(size), np.zeros(size)

    def step(self, gradient: np.ndarray) -> np.ndarray:
        self.t += 1
        self.first = 0.9 * self.first + 0.1 * gradient
        self.second = 0.999 * self.second + 0.001 * gradient**2
        return (
            self.rate
            * (self.first / (1 - 0.9**self.t))
            / (np.sqrt(self.second / (1 - 0.999**self.t)) + 1e-12)
        )


@functools.lru_cache(maxsize=64)
def _step(treedef, learn_inducing: bool):
    def moments(leaves, Z, h, P, A, X):
        """Mean and variance of f under q at a batch, and Psi."""
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
    def step(leaves, Z, h, P, A, X, y, scale, rho):
        kept = (lambda leaves, Z: moments(leaves, Z, h, P, A, X)) if learn_inducing else (
            lambda leaves, _: moments(leaves, Z, h, P, A, X)
        )  # fmt: skip
        (mean, variance), pull, (Psi, m, w, U) = jax.vjp(kept, leaves, Z, has_aux=True)

        def expected(leaves, mean, variance):
            return jnp.sum(jax.tree.unflatten(treedef, leaves).likelihood.expectation(y, mean, variance))

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

    return step
