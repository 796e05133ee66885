"""The dense solver in pure JAX: inside jit, under vmap, on accelerators.

Outside a trace, small n is padded to a bucket with sites of zero precision (exact: they add an identity block
to B), so growing data
reuse one compilation. The log normaliser has a `custom_jvp`, so Hessians and forward mode work and a gradient
costs one inverse.
"""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import jax.scipy.linalg as jsl
import numpy as np

from mercer.params import strip
from mercer.prior import AbstractPrior
from mercer.solvers.protocol import (
    EVERYTHING,
    AbstractState,
    Bars,
    Cotangents,
    Diagnostics,
    PriorBar,
    SiteBars,
    Sites,
    SolverError,
    check_sites,
    condition_from_pivots,
    is_coupled,
)


@jax.custom_jvp
def log_normaliser(K: jax.Array, delta: jax.Array, W: jax.Array, g: jax.Array) -> jax.Array:
    """Log of the integral of N(e | 0, K) prod exp(g (e - delta) - W (e - delta)^2 / 2) de, for W >= 0."""
    return _solve(K, delta, W, g)[0]


@log_normaliser.defjvp
def _log_normaliser_jvp(primals, tangents):
    K, delta, W, g = primals
    dK, ddelta, dW, dg = tangents
    value, alpha, L, root = _solve(K, delta, W, g)
    inverse = jsl.cho_solve((L, True), jnp.eye(K.shape[0], dtype=K.dtype))
    R = root[:, None] * inverse * root[None, :]
    residual = delta - K @ alpha
    variance = jnp.diagonal(K) - jnp.sum(
        jnp.square(jsl.solve_triangular(L, root[:, None] * K, lower=True)), 0
    )
    tangent = (
        0.5 * jnp.sum((jnp.outer(alpha, alpha) - R) * dK)
        - alpha @ ddelta
        - residual @ dg
        - 0.5 * (residual**2 + variance) @ dW
    )
    return value, tangent


def _solve(K, delta, W, g):
    # a square root whose derivative at 0 never matters: it only scales rows that carry no information there
    root = jnp.sqrt(jnp.where(W > 0, W, 0.0))
    B = jnp.eye(K.shape[0], dtype=K.dtype) + root[:, None] * K * root[None, :]
    L = jnp.linalg.cholesky(B)
    Kg = K @ g
    r = root * jsl.cho_solve((L, True), root * (delta - Kg))
    value = -jnp.sum(jnp.log(jnp.diagonal(L))) - 0.5 * (delta - Kg) @ r - g @ delta + 0.5 * g @ Kg
    return value, g + r, L, root


def _quantities(prior, A, X, centre, W, g, V):
    """Everything a pullback may be asked about, differentiable in all arguments.
    W is never under a square root here.
    """
    K = prior.kernel.block(A, A)
    m = prior.mean.value(X)
    delta = centre - m
    n = K.shape[0]
    M = jnp.eye(n, dtype=K.dtype) + W[:, None] * K  # R = (I + W K)^-1 W
    R = jnp.linalg.solve(M, jnp.diag(W))
    alpha = g + R @ (delta - K @ g)
    KR = K @ R
    return dict(
        log_normaliser=log_normaliser(K, delta, W, g),
        mean=m + K @ alpha,
        var=jnp.diagonal(K) - jnp.sum(KR * K, 1),
        alpha=alpha,
        kappa=jnp.diagonal(R),
        apply=R @ V,
    )


@functools.lru_cache(maxsize=128)
def _compiled(treedef):
    def forward(leaves, A, X, centre, W, g):
        prior = jax.tree.unflatten(treedef, leaves)
        K = prior.kernel.block(A, A)
        value, alpha, L, root = _solve(K, centre - prior.mean.value(X), W, g)
        return value, alpha, L, root

    def back(leaves, A, X, centre, W, g, V, bars):
        def run(leaves, A, X, centre, W, g):
            return _quantities(jax.tree.unflatten(treedef, leaves), A, X, centre, W, g, V)

        _, pull = jax.vjp(run, leaves, A, X, centre, W, g)
        return pull(bars)

    return jax.jit(forward), jax.jit(back)


def bucket(n: int) -> int:
    """n rounded up to a size that is compiled once: 64, 128, 256, 512, then multiples of 512."""
    return next((s for s in (64, 128, 256, 512) if n <= s), -(-n // 512) * 512)


class JaxState(AbstractState):
    """State on JAX arrays; inside a trace shapes are taken as they come."""

    jitter = 0.0
    pulls = EVERYTHING
    who = "Dense(backend='jax')"

    def __init__(self, prior: AbstractPrior, X: np.ndarray, sites: Sites):
        if is_coupled(sites):
            raise SolverError(
                "Dense(backend='jax') takes sites of one latent function with non-negative precision; "
                "backend='lapack' takes all."
            )
        self.prior, self.X, self.sites = prior, X, sites
        self.bare = strip(prior)
        self.n = X.shape[0]
        self.traced = any(
            isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves((self.bare, X, sites))
        )
        if not self.traced:
            check_sites(sites, "Dense(backend='jax')")
        pad = 0 if self.traced else bucket(self.n) - self.n
        self.padded = pad

        def rows(a):
            return jnp.concatenate([a, jnp.repeat(a[-1:], pad, 0)]) if pad else a

        self.Xp = rows(jnp.asarray(X))
        self.A = jax.tree.map(lambda a: rows(jnp.asarray(a)), self.bare.kernel.encode(X))
        self.centre = rows(jnp.asarray(sites.centre[:, 0]))
        zero = jnp.zeros(pad)
        self.W = jnp.concatenate([jnp.asarray(sites.precision[:, 0]), zero])
        slope = jnp.zeros(self.n) if sites.slope is None else jnp.asarray(sites.slope[:, 0])
        self.g = jnp.concatenate([slope, zero])
        leaves, self.treedef = jax.tree.flatten(self.bare)
        self.leaves = leaves
        forward = _compiled(self.treedef)[0]
        value, alpha, self.L, self.root = forward(leaves, self.A, self.Xp, self.centre, self.W, self.g)
        self.log_normaliser = value if self.traced else float(value)
        self._alpha, self.alpha = alpha, alpha[: self.n]
        if not self.traced and not np.isfinite(self.log_normaliser):
            from mercer.linalg.cholesky import NotPositiveDefinite

            raise NotPositiveDefinite(
                "the covariance matrix is not positive definite; add noise or use backend='lapack'."
            )

    def _K(self, A, B):
        return self.bare.kernel.block(A, B)

    def _out(self, x):
        return x if self.traced else np.asarray(x)

    def _apply(self, V: jax.Array) -> jax.Array:
        return self.root[:, None] * jsl.cho_solve((self.L, True), self.root[:, None] * V)

    def prior_mean(self) -> np.ndarray:
        return self._out(self.bare.mean.value(self.Xp)[: self.n, None])

    def mean(self) -> np.ndarray:
        return self._out(
            (self.bare.mean.value(self.Xp) + self._K(self.A, self.A) @ self._alpha)[: self.n, None]
        )

    def marginals(self) -> tuple[np.ndarray, np.ndarray]:
        K = self._K(self.A, self.A)
        mean = self.bare.mean.value(self.Xp) + K @ self._alpha
        V = jsl.solve_triangular(self.L, self.root[:, None] * K, lower=True)
        variance = jnp.diagonal(K) - jnp.sum(V * V, 0)
        return self._out(mean[: self.n, None]), self._out(variance[: self.n, None])

    def dual(self) -> tuple[np.ndarray, np.ndarray]:
        inverse = jsl.solve_triangular(self.L, jnp.diag(self.root), lower=True)
        return self._out(self.alpha[:, None]), self._out(jnp.sum(inverse * inverse, 0)[: self.n, None])

    def apply(self, V: np.ndarray) -> np.ndarray:
        padded = jnp.concatenate([jnp.asarray(V), jnp.zeros((self.padded, V.shape[1]))])
        return self._out(self._apply(padded)[: self.n])

    def times_K(self, V: np.ndarray) -> np.ndarray:
        A = jax.tree.map(lambda a: a[: self.n], self.A)
        return self._out(self._K(A, A) @ jnp.asarray(V))

    def diagnostics(self) -> Diagnostics:
        condition = condition_from_pivots(np.diagonal(np.asarray(self.L))[: self.n])
        return Diagnostics(condition, "B = I + W^1/2 K W^1/2", self.jitter, notes=self.notes)

    def cross(self, Xs: np.ndarray, V: np.ndarray) -> np.ndarray:
        encoded = self.bare.kernel.encode(Xs)
        return self._out(self._K(encoded, jax.tree.map(lambda a: a[: self.n], self.A)) @ V)

    def predict(
        self, Xs: np.ndarray, full: bool = False, variance: bool = True
    ) -> tuple[np.ndarray, np.ndarray | None]:
        B = self.bare.kernel.encode(Xs)
        K = self._K(B, self.A)
        mean = (self.bare.mean.value(jnp.asarray(Xs)) + K @ self._alpha)[:, None]
        if not variance:
            return self._out(mean), None
        V = jsl.solve_triangular(self.L, self.root[:, None] * K.T, lower=True)
        if full:
            return self._out(mean), self._out(self._K(B, B) - V.T @ V)
        return self._out(mean), self._out((self.bare.kernel.diag(B) - jnp.sum(V * V, 0))[:, None])

    def pull(self, bars: Bars) -> Cotangents:
        size = self.n + self.padded

        def rows(bar):
            return (
                jnp.zeros(size)
                if bar is None
                else jnp.zeros(size).at[: self.n].set(jnp.reshape(jnp.asarray(bar), self.n))
            )

        V, Y = (np.zeros((self.n, 1)),) * 2 if bars.apply is None else bars.apply
        fill = jnp.zeros((self.padded, V.shape[1]))
        padded = dict(
            log_normaliser=jnp.asarray(bars.log_normaliser, float), mean=rows(bars.mean), var=rows(bars.var),
            alpha=rows(bars.alpha), kappa=rows(bars.kappa), apply=jnp.concatenate([jnp.asarray(Y), fill]),
        )  # fmt: skip
        back = _compiled(self.treedef)[1]
        leaves, A, X, centre, W, g = back(
            self.leaves,
            self.A,
            self.Xp,
            self.centre,
            self.W,
            self.g,
            jnp.concatenate([jnp.asarray(V), fill]),
            padded,
        )
        prior = jax.tree.unflatten(self.treedef, [self._out(x) for x in leaves])
        slope = None if self.sites.slope is None else self._out(g[: self.n, None])
        sites = SiteBars(self._out(centre[: self.n, None]), self._out(W[: self.n, None]), slope)
        inputs_bar = None
        if bars.inputs:  # directly through the mean, and through what the kernel reads
            _, pull = jax.vjp(self.bare.kernel.encode, self.Xp)
            inputs_bar = self._out((X + pull(A)[0])[: self.n])
        return Cotangents(PriorBar(prior.kernel, prior.mean), sites, inputs_bar)
