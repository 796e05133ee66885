"""The log densities that chains run on: latent values at fixed hyperparameters, hyperparameters alone, and
both together.

Latent values are whitened twice. With K = L L' a prior draw is f = m + L u, u ~ N(0, I). With Gaussian sites
(of Laplace, EP, or the data themselves) the posterior of u is close to N(u0, (I + L'W L)^-1), so u = u0 + T v
and v is close to N(0, I): chains need few steps. What is left of the density is the ratio of likelihood and
sites, hence one product C v with C = L T, and the likelihood.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import jax.scipy.linalg as jsl
import numpy as np
import scipy.linalg as sla

from mercer.inputs import Array
from mercer.linalg.cholesky import NotPositiveDefinite, cholesky
from mercer.params import strip
from mercer.prior import AbstractPrior
from mercer.sampling.hyper import Hyperparameters, Spec
from mercer.solvers.dense_jax import log_normaliser
from mercer.solvers.protocol import SolverError

if TYPE_CHECKING:
    from mercer.likelihoods.base import AbstractLikelihood

SMALL = 32  # matrices of up to so many rows are factored for all chains at once
JITTER = 1e-8  # relative to the mean prior variance, where the factor is computed inside compiled code
_LOG_2PI = float(np.log(2 * np.pi))


def bucket(n: int) -> int:
    """n rounded up, so that data of nearby sizes share a compilation: to 8, from 32 on to 32, from 256 to 64,
    from 1024 to 256.
    """
    step = 8 if n <= 32 else 32 if n <= 256 else 64 if n <= 1024 else 256
    return -(-n // step) * step


def prior_moments(model: Any, X: np.ndarray) -> tuple[np.ndarray, list[np.ndarray]]:
    """Prior mean (n, L) and the covariance matrix of each latent function at X."""
    means, matrices = [], []
    shared: dict[int, np.ndarray] = {}
    for gp in _priors(model):
        if id(gp) not in shared:
            shared[id(gp)] = gp.kernel(X)
        m, K = np.asarray(gp.mean.value(X), float), shared[id(gp)]
        if gp.basis is not None:
            H = np.asarray(gp.basis.features(X), float)
            b, B = weight_prior(gp, H.shape[1])
            m, K = m + H @ b, K + H @ B @ H.T
        means.append(m)
        matrices.append(K)
    return np.stack(means, 1), matrices


def cross_moments(gp: Any, X: np.ndarray, Xs: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Prior mean (m,) and variance (m,) at Xs, and the covariance (n, m) between X and Xs,
    of one latent function.
    """
    kernel = strip(gp.kernel)
    mean, cross = np.asarray(gp.mean.value(Xs), float), gp.kernel(X, Xs)
    variance = np.asarray(kernel.diag(kernel.encode(Xs)))
    if gp.basis is not None:
        H, Hs = (np.asarray(gp.basis.features(Z), float) for Z in (X, Xs))
        b, B = weight_prior(gp, H.shape[1])
        mean, cross, variance = (
            mean + Hs @ b,
            cross + H @ B @ Hs.T,
            variance + np.einsum("ij,jk,ik->i", Hs, B, Hs),
        )
    return mean, cross, variance


def weight_prior(gp: Any, p: int) -> tuple[np.ndarray, np.ndarray]:
    b, B = gp.basis.prior(p)
    if B is None:
        raise SolverError(
            "sampling needs a proper prior: give the basis functions a covariance, e.g. Polynomial(1, "
            "covariance=100.0)."
        )
    return b, B


def _priors(model: Any) -> tuple:
    return model.priors if isinstance(model.priors, tuple) else (model.priors,)


# ------------------------------------------------------------------------------------------------- latent
# values


@dataclasses.dataclass(frozen=True, eq=False)
class Whitening:
    """f = mean + factors u for each latent function, and u = start + turn v.
    Vectors u and v stack latent functions: (L n,).
    """

    mean: np.ndarray  # (n, L)
    factors: list[np.ndarray]  # L lower factors (n, n)
    start: np.ndarray  # (L n,)
    turn: np.ndarray | None  # (L n, L n); None: the identity, v = u - start
    sites: Any
    log_normaliser: float  # of prior times sites
    jitter: float

    @property
    def shape(self) -> tuple[int, int]:
        return self.mean.shape

    def prior_whitened(self, v: np.ndarray) -> np.ndarray:
        """u (S, L, n) for v (S, L n)."""
        n, L = self.shape
        u = self.start + (v if self.turn is None else v @ self.turn.T)
        return u.reshape(-1, L, n)

    def latents(self, u: np.ndarray) -> np.ndarray:
        """f (S, n, L) for u (S, L, n)."""
        return self.mean + np.stack([u[:, j] @ factor.T for j, factor in enumerate(self.factors)], 2)

    def product(self) -> np.ndarray:
        """C = L T (L n, L n)."""
        n = self.shape[0]
        if self.turn is None:
            return sla.block_diag(*self.factors)
        return np.concatenate(
            [factor @ self.turn[j * n : (j + 1) * n] for j, factor in enumerate(self.factors)]
        )


def whiten(model: Any, X: np.ndarray, sites: Any = None) -> Whitening:
    """By the prior, or by prior times Gaussian sites. NotPositiveDefinite where the latter is not proper."""
    mean, matrices = prior_moments(model, X)
    shared: dict[int, tuple[np.ndarray, float]] = {}
    for K in matrices:
        if id(K) not in shared:
            shared[id(K)] = cholesky(K)
    factors = [shared[id(K)][0] for K in matrices]
    jitter = max(shared[id(K)][1] for K in matrices)
    n, L = mean.shape
    if sites is None:
        return Whitening(mean, factors, np.zeros(n * L), None, None, 0.0, jitter)
    W = _blocks(sites)
    B = np.eye(n * L)
    for j in range(L):
        for k in range(L):
            B[j * n : (j + 1) * n, k * n : (k + 1) * n] += factors[j].T @ (W[:, j, k, None] * factors[k])
    try:
        M = np.linalg.cholesky(B)
    except np.linalg.LinAlgError:
        raise NotPositiveDefinite("prior times sites is not a proper Gaussian.") from None
    slope = np.zeros((n, L)) if sites.slope is None else np.asarray(sites.slope)
    pull = slope + np.einsum("nlk,nk->nl", W, np.asarray(sites.centre) - mean)
    right = np.concatenate([factor.T @ pull[:, j] for j, factor in enumerate(factors)])
    start = sla.cho_solve((M, True), right)
    turn = sla.solve_triangular(M, np.eye(n * L), lower=True, trans="T")
    mode = mean + np.stack([factor @ start[j * n : (j + 1) * n] for j, factor in enumerate(factors)], 1)
    e = mode - np.asarray(sites.centre)
    at_mode = np.sum(slope * e) - 0.5 * np.einsum("nl,nlk,nk->", e, W, e)
    log_z = float(at_mode - 0.5 * start @ start - np.sum(np.log(np.diag(M))))
    return Whitening(mean, factors, start, turn, sites, log_z, jitter)


def _blocks(sites: Any) -> np.ndarray:
    W = np.eye(sites.centre.shape[1]) * np.asarray(sites.precision)[:, :, None]
    return W if sites.coupling is None else W - sites.coupling @ np.swapaxes(sites.coupling, 1, 2)


@dataclasses.dataclass(frozen=True, eq=False)
class Target:
    """A compiled log density with its data: `log_density(z, data)` over z of `size` entries, of which the
    first `used` matter.

    together: whether chains should be vectorised; not where they factor large matrices.
    """

    log_density: Any
    data: Any
    size: int
    used: int
    together: bool = True


def latent_target(likelihood: Any, y: np.ndarray, white: Whitening) -> Target:
    """log of prior(f) p(y | f) / (normaliser of prior times sites), over v.
    Rows and columns are padded to a bucket.
    """
    n, L = white.shape
    size = n if likelihood.per_datum else bucket(n)
    data = likelihood_data(likelihood, y, size) | latent_data(white, size)
    centre, D, g, P = np.zeros((n, L)), np.zeros((n, L)), np.zeros((n, L)), np.zeros((n, L, 1))
    if white.sites is not None:
        centre, D = np.asarray(white.sites.centre), np.asarray(white.sites.precision)
        g = g if white.sites.slope is None else np.asarray(white.sites.slope)
        P = P if white.sites.coupling is None else np.asarray(white.sites.coupling)
    data |= {"site": tuple(_rows(a, size) for a in (centre, D, g, P))}
    where = np.concatenate([np.arange(n) + j * size for j in range(L)])
    return Target(latent_density(likelihood, L), data | {"where": where}, size * L, n * L)


def likelihood_data(likelihood: Any, y: np.ndarray, size: int) -> dict[str, Any]:
    n = y.shape[0]
    return {
        "leaves": jax.tree.leaves(strip(likelihood)),
        "y": np.pad(y, [(0, size - n)] + [(0, 0)] * (y.ndim - 1), mode="edge"),
        "mask": np.arange(size) < n,
    }


def latent_data(white: Whitening, size: int) -> dict[str, Any]:
    """Mean of f at v = 0, and C, both padded:
    a padded latent value stays at zero and its v is a standard normal of its own.
    """
    n, L = white.shape
    middle = white.latents(white.start.reshape(1, L, n))[0]
    C = np.zeros((L, size, L, size))
    C[:, :n, :, :n] = white.product().reshape(L, n, L, n)
    return {"middle": _rows(middle, size), "C": C.reshape(L * size, L * size)}


def _rows(a: np.ndarray, size: int) -> np.ndarray:
    return np.pad(a, [(0, size - a.shape[0])] + [(0, 0)] * (a.ndim - 1))


def total_log_prob(likelihood: AbstractLikelihood, f: jax.Array, y: jax.Array, mask: jax.Array) -> jax.Array:
    """Sum of log p(y | f) over the rows that are not padding; f (N, L)."""
    return jnp.sum(jnp.where(mask, likelihood.log_prob(f[:, 0] if f.shape[1] == 1 else f, y), 0.0))


def latent_density(likelihood: Any, L: int) -> Callable[..., Any]:
    """log_density(v, data) of `latent_target`."""
    return _latent_density(jax.tree.structure(strip(likelihood)), L)


@functools.lru_cache(maxsize=64)
def _latent_density(treedef, L: int):
    def log_density(v, data):
        likelihood = jax.tree.unflatten(treedef, data["leaves"])
        f = data["middle"] + (data["C"] @ v).reshape(L, -1).T
        centre, D, g, P = data["site"]
        e = f - centre
        site = jnp.sum(g * e) - 0.5 * jnp.sum(D * e**2) + 0.5 * jnp.sum(jnp.einsum("nlr,nl->nr", P, e) ** 2)
        return total_log_prob(likelihood, f, data["y"], data["mask"]) - site - 0.5 * jnp.sum(v**2)

    return log_density


# -------------------------------------------------------------------------------------------------
# hyperparameters


def encoded(model: Any, X: np.ndarray, size: int) -> dict[str, Any]:
    """What kernels and means read of X, padded by repeating the last row."""

    def rows(a):
        a = np.asarray(a)
        return np.concatenate([a, np.repeat(a[-1:], size - a.shape[0], 0)])

    values = X if X.dtype != object else np.zeros(X.shape)
    inputs = [jax.tree.map(rows, strip(gp.kernel).encode(X)) for gp in _priors(model)]
    H = [None if gp.basis is None else rows(np.asarray(gp.basis.features(X), float)) for gp in _priors(model)]
    weights = [
        None if h is None else weight_prior(gp, h.shape[1]) for gp, h in zip(_priors(model), H, strict=True)
    ]
    return {"X": rows(values), "encoded": inputs, "H": H, "weights": weights}


def moments(gp: AbstractPrior, data: Mapping[str, Any], j: int) -> tuple[Array, jax.Array]:
    """Prior mean (N,) and covariance (N, N) of latent function j, in JAX."""
    m, K = gp.mean.value(data["X"]), gp.kernel.block(data["encoded"][j], data["encoded"][j])
    if data["H"][j] is not None:
        H, (b, B) = data["H"][j], data["weights"][j]
        m, K = m + H @ b, K + H @ B @ H.T
    return m, K


def latent_values(model: Any, u: jax.Array, data: Mapping[str, Any]) -> jax.Array:
    """f (N, L) = m + L_theta u for u (L, N), with fixed relative jitter; padding is cut off from the rest."""
    mask, columns = data["mask"], []
    for j, gp in enumerate(_priors(model)):
        m, K = moments(gp, data, j)
        columns.append(m + _factor(K, mask) @ u[j])
    return jnp.stack(columns, 1)


def _factor(K, mask):
    scale = jnp.sum(jnp.where(mask, jnp.diagonal(K), 0.0)) / jnp.sum(mask)
    K = jnp.where(mask[:, None] & mask[None, :], K, 0.0)
    return jnp.linalg.cholesky(K + jnp.diag(jnp.where(mask, JITTER * scale, 1.0)))


def evidence_target(model: Any, X: np.ndarray, y: np.ndarray, hyper: Hyperparameters) -> Target:
    """log p(y | theta) + log p(theta) over the unconstrained hyperparameters, f integrated out:
    Gaussian noise (4.48).
    """
    n = y.shape[0]
    size = n if model.likelihood.per_datum else bucket(n)
    data = encoded(model, X, size) | likelihood_data(model.likelihood, y, size) | hyper.data()
    return Target(evidence_density(hyper.spec), data, hyper.size, hyper.size, size <= SMALL)


def log_evidence_of(model: Any, data: Mapping[str, Any]) -> jax.Array:
    """log p(y | theta) for Gaussian noise, in JAX."""
    m, K = moments(model.priors, data, 0)
    noise = jnp.broadcast_to(model.likelihood.variances, data["y"].shape)
    W = jnp.where(data["mask"], 1.0 / noise, 0.0)
    value = log_normaliser(K, data["y"] - m, W, jnp.zeros_like(W))
    return value - 0.5 * jnp.sum(jnp.where(data["mask"], jnp.log(noise) + _LOG_2PI, 0.0))


@functools.lru_cache(maxsize=64)
def evidence_density(spec: Spec) -> Callable[..., Any]:
    """log_density(z, data) of `evidence_target`."""

    def log_density(z, data):
        model, log_prior = spec.build(z, data)
        return log_evidence_of(model, data) + log_prior

    return log_density


def joint_target(
    model: Any, X: np.ndarray, y: np.ndarray, hyper: Hyperparameters, white: Whitening
) -> Target:
    """log p(y | f) + log p(f | theta) + log p(theta) over z = (v, theta);
    u = start + turn v stands while theta moves.
    """
    n, L = white.shape
    size = n if model.likelihood.per_datum else bucket(n)
    start = _rows(white.start.reshape(L, n).T, size).T
    turn = np.tile(np.eye(size)[None, :, None], (L, 1, L, 1)) * np.eye(L)[:, None, :, None]
    if white.turn is not None:
        turn[:, :n, :, :n] = white.turn.reshape(L, n, L, n)
    data = encoded(model, X, size) | likelihood_data(model.likelihood, y, size) | hyper.data()
    data |= {"start": start.ravel(), "turn": turn.reshape(L * size, L * size)}
    data["where"] = np.concatenate([np.arange(n) + j * size for j in range(L)])
    return Target(
        joint_density(hyper.spec, L), data, L * size + hyper.size, n * L + hyper.size, size <= SMALL
    )


@functools.lru_cache(maxsize=64)
def joint_density(spec: Spec, L: int) -> Callable[..., Any]:
    """log_density(z, data) of `joint_target`."""

    def log_density(z, data):
        d = data["turn"].shape[0]
        model, log_prior = spec.build(z[d:], data)
        u = data["start"] + data["turn"] @ z[:d]
        f = latent_values(model, u.reshape(L, -1), data)
        return total_log_prob(model.likelihood, f, data["y"], data["mask"]) - 0.5 * jnp.sum(u**2) + log_prior

    return log_density


def sufficient_target(
    spec: Spec, L: int
) -> tuple[Callable[..., Any], Callable[..., Any], Callable[..., Any]]:
    """log p(f | theta) + log p(y | f, theta) + log p(theta), and the way from z = (v, theta) to f and back:
    theta moves, f is held. Three functions: unpack(z, data) -> f (N, L) and theta (p,); log_density(theta, f,
    data) -> the value and u (L, N); pack(u, theta, data) -> z.
    """

    def unpack(z, data):
        d = data["turn"].shape[0]
        model, _ = spec.build(z[d:], data)
        u = data["start"] + data["turn"] @ z[:d]
        return latent_values(model, u.reshape(L, -1), data), z[d:]

    def whitened(model, f, data):
        """u (L, N) and the log determinant of the factors."""
        us: list[Any] = []
        logdet: Any = 0.0
        for j, gp in enumerate(_priors(model)):
            m, K = moments(gp, data, j)
            factor = _factor(K, data["mask"])
            us.append(jsl.solve_triangular(factor, f[:, j] - m, lower=True))
            logdet += jnp.sum(jnp.log(jnp.diagonal(factor)))
        return jnp.stack(us), logdet

    def log_density(theta, f, data):
        model, log_prior = spec.build(theta, data)
        u, logdet = whitened(model, f, data)
        value = (
            total_log_prob(model.likelihood, f, data["y"], data["mask"])
            - 0.5 * jnp.sum(u**2)
            - logdet
            + log_prior
        )
        return value, u

    def pack(u, theta, data):
        return jnp.concatenate([jsl.solve(data["turn"], u.ravel() - data["start"]), theta])

    return unpack, log_density, pack
