"""Which data to keep: active sets chosen at random, by clusters or greedily (GPML 8.1-8.3, Algorithm 8.1).

Greedy selection starts from the empty set; each step scores a working set J of candidates, includes the best
one and updates what the scores are made of. Two things can be built up that way: the posterior of an exact GP
on the active set (`_Posterior`), and the best approximation of all data by regressors in the active set
(`_Regressors`). Memory: m n numbers, or twice that.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from mercer.linalg import tiles
from mercer.params import parameters, strip
from mercer.solvers.pivoted import pivoted_cholesky
from mercer.solvers.protocol import SolverError

# a column whose residual variance is below this part of its prior variance adds nothing but rounding errors
DEPENDENT = 1e-10
STRIP = 4096  # rows of a column computed by one call


def select(
    prior,
    X,
    y,
    m: int,
    how: str = "random",
    noise_variance=None,
    likelihood=None,
    seed: int = 0,
    candidates: int | None = 59,
) -> np.ndarray:
    """Indices (m,) of the data to keep, in the order of their inclusion.

    how, without targets (y may be None):
        "random"       uniformly
        "kmeans"       the datum nearest to each of m cluster centres
        "biased"       at random in proportion to k(x, x)^2 (Drineas and Mahoney); uniform for a stationary
        kernel "pivoted"      the largest residual variance first: pivoted Cholesky (SP4)
        "trace"        the largest decrease of tr(K - K~) (Smola and Schoelkopf)
    on the posterior of an exact GP that sees only the active set, for any likelihood (`noise_variance` stands
    for a Gaussian one):
        "entropy"      the largest decrease of differential entropy, (8.19): informative vector machine
        "information"  the largest information gain KL(new || old), which looks at y too
    as regressors that explain all the data:
        "residual"     the smallest residual sum of squares (Luo and Wahba)
        "matching"     the smallest quadratic form (8.18) (Smola and Bartlett); needs `noise_variance`
        "evidence"     the largest log evidence (8.17) of the subset of regressors; needs `noise_variance`

    "trace", "residual", "matching" and "evidence" cost O(n m) for each candidate: they score `candidates`
    random ones in every step (59 hold one of the best 5% with probability 0.95); None scores all. Fewer than
    m come back where the rest cannot help: columns that depend numerically on those chosen before, or data
    whose sites would have negative precision.

    >>> rows = select(gp, X, y, 500, "entropy", noise_variance=0.1)
    """
    prior = prior[0] if isinstance(prior, tuple) else prior
    n, rng = X.shape[0], np.random.default_rng(seed)
    if how not in HOW:
        raise ValueError(f"unknown selection {how!r}; there are {sorted(HOW)}.")
    if not 1 <= m <= n:
        raise ValueError(f"cannot select {m} of {n} data: m must lie between 1 and {n}.")
    if candidates is not None and candidates < 1:
        raise ValueError(f"candidates must be 1 or more, or None for all, got {candidates}.")
    if how == "random":
        return rng.choice(n, m, replace=False)
    if how == "kmeans":
        return _nearest(scaled(X, prior), m, rng)
    columns = _Columns(prior, X)
    if how == "biased":
        weight = columns.diagonal**2
        if np.count_nonzero(weight) < m:
            raise ValueError(
                f"only {np.count_nonzero(weight)} data have prior variance; cannot select {m} of them."
            )
        return rng.choice(n, m, replace=False, p=weight / weight.sum())
    if how == "pivoted":
        G, pivots, _ = pivoted_cholesky(columns.kernel, columns.panels, m)
        return pivots[G[pivots, np.arange(pivots.size)] ** 2 > DEPENDENT * columns.diagonal[pivots]]
    if how == "trace":
        return _greedy(_Regressors(columns, m, how), n, m, rng, candidates)
    if y is None:
        raise ValueError(f"how={how!r} looks at the targets: give y.")
    y, mean = np.asarray(y, float), np.asarray(prior.mean.value(X), float)
    if how in ("entropy", "information"):
        if likelihood is None or noise_variance is not None:
            likelihood = _Noise(_noise(noise_variance, columns, how))
        elif likelihood.latents > 1:
            raise SolverError(
                f"how={how!r} works with one latent function; {type(likelihood).__name__} has several: use "
                "'kmeans'."
            )
        return _greedy(_Posterior(columns, mean, y, likelihood, m, how), n, m, rng, None)
    weights = np.ones(n) if how == "residual" else 1.0 / np.sqrt(_noise(noise_variance, columns, how))
    return _greedy(_Regressors(columns, m, how, y - mean, weights), n, m, rng, candidates)


HOW = (
    "random",
    "kmeans",
    "biased",
    "pivoted",
    "trace",
    "entropy",
    "information",
    "residual",
    "matching",
    "evidence",
)


def inducing(
    X, m: int, how: str = "kmeans", prior=None, y=None, noise_variance=None, likelihood=None, seed: int = 0
) -> np.ndarray:
    """Inducing inputs (m, d): cluster centres for "kmeans", else the inputs of the data that `select` keeps.

    Distances are in units of the prior's length-scales where it has one for each column, else of the columns'
    spreads.
    """
    if how == "kmeans":
        if not 1 <= m <= X.shape[0]:
            raise ValueError(
                f"cannot make {m} clusters of {X.shape[0]} data: m must lie between 1 and {X.shape[0]}."
            )
        scale = _scale(X, prior)
        return centres(X / scale, m, np.random.default_rng(seed)) * scale
    if prior is None and how != "random":
        raise ValueError(f"how={how!r} depends on the covariance: give prior.")
    return X[select(prior, X, y, m, how, noise_variance, likelihood, seed)]


def tilted(likelihood, y, mean, variance) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """log Z of p(y | f) N(f | mean, variance), d = dlogZ/dmean and D = -d2logZ/dmean2, each (n,)."""
    if isinstance(likelihood, _Noise):
        return likelihood.tilted(y, mean, variance)
    return tuple(likelihood.compute(tilted_rows, y, mean, variance).T)


def tilted_rows(likelihood, y, mean, variance):
    """The same as the columns of one array (n, 3), to be compiled."""

    def slope(mean):
        value, d = jax.jvp(
            lambda m: likelihood.log_partition(y, m, variance), (mean,), (jnp.ones_like(mean),)
        )
        return d, value

    d, curvature, value = jax.jvp(slope, (mean,), (jnp.ones_like(mean),), has_aux=True)
    return jnp.stack([value, d, -curvature], -1)


# ------------------------------------------------------------------------------------------------- clusters


def scaled(X: np.ndarray, prior=None) -> np.ndarray:
    """The columns of X in units in which distances are comparable."""
    return X / _scale(X, prior)


def centres(Z: np.ndarray, m: int, rng: np.random.Generator) -> np.ndarray:
    """m cluster centres of the rows of Z, by k-means on at most 20 m of them."""
    from sklearn.cluster import KMeans

    sample = Z if Z.shape[0] <= 20 * m else Z[rng.choice(Z.shape[0], 20 * m, replace=False)]
    distinct = np.unique(sample, axis=0)
    if distinct.shape[0] <= m and sample.shape[0] < Z.shape[0]:
        distinct = np.unique(Z, axis=0)
    if distinct.shape[0] < m:
        raise ValueError(
            f"the data have only {distinct.shape[0]} distinct inputs; {m} clusters need as many."
        )
    if distinct.shape[0] == m:
        return distinct
    sample = sample if sample.shape[0] > distinct.shape[0] else distinct
    return (
        KMeans(m, n_init=1, max_iter=25, random_state=int(rng.integers(2**31))).fit(sample).cluster_centers_
    )


def _nearest(Z: np.ndarray, m: int, rng) -> np.ndarray:
    """The datum nearest to each centre; where two centres share one, a random other."""
    from sklearn.metrics import pairwise_distances_argmin

    rows = np.unique(pairwise_distances_argmin(centres(Z, m, rng), Z))
    others = np.setdiff1d(np.arange(Z.shape[0]), rows)
    return np.concatenate([rows, rng.choice(others, m - rows.size, replace=False)])


def _scale(X: np.ndarray, prior) -> np.ndarray:
    if X.dtype == object:
        raise SolverError(
            "clusters need numeric inputs; these are objects: choose at random instead ('random')."
        )
    d = X.shape[1]
    for p in [] if prior is None else parameters(prior.kernel):
        if p.name.split(".")[-1] == "lengthscale" and np.shape(p.value) == (d,):
            return np.asarray(p.value, float)
    spread = np.asarray(X, float).std(0)
    return np.where(spread > 0, spread, 1.0)


# ------------------------------------------------------------------------------------------------- greedy
# selection


def _greedy(state, n: int, m: int, rng, candidates: int | None) -> np.ndarray:
    """Algorithm 8.1."""
    rest = np.ones(n, bool)
    for _ in range(m):
        J = np.flatnonzero(rest & state.usable())
        if not J.size:
            break
        if candidates is not None and J.size > candidates:
            J = rng.choice(J, candidates, replace=False)
        j = int(J[np.argmax(state.scores(J))])
        state.include(j)
        rest[j] = False
    return np.array(state.active, int)


class _Posterior:
    """Mean and variance at all inputs of the exact posterior given the active set, each datum taken in as a
    Gaussian site.

    V holds rows of L^-1 K_mn, with L L' = K_mm + the sites' variances; for Gaussian noise this is exact, else
    assumed-density filtering.
    """

    def __init__(self, columns: _Columns, mean, y, likelihood, m: int, how: str):
        self.columns, self.y, self.likelihood, self.how = columns, y, likelihood, how
        self.mean, self.variance = mean.copy(), columns.diagonal.copy()
        self.V = np.empty((m, columns.n))
        self.active: list[int] = []
        self._sites()

    def _sites(self):
        _, self.d, self.D = tilted(self.likelihood, self.y, self.mean, self.variance)

    def usable(self):
        """Sites of negative precision are skipped."""
        return np.isfinite(self.d) & (self.D > 0) & (self.D * self.variance < 1)

    def scores(self, J):
        """Decrease of entropy -1/2 log(1 - D v), or information gain with the shift of the mean."""
        v, d, D = self.variance[J], self.d[J], self.D[J]
        entropy = -0.5 * np.log1p(-D * v)
        return entropy if self.how == "entropy" else entropy + 0.5 * v * (d**2 - D)

    def include(self, j: int):
        k = len(self.active)
        a = self.columns([j])[:, 0] - self.V[:k, j] @ self.V[:k]  # posterior covariance with f_j
        self.V[k] = np.sqrt(self.D[j]) * a
        self.variance = np.maximum(self.variance - self.V[k] ** 2, 0.0)
        self.mean += self.d[j] * a
        self.active.append(j)
        self._sites()


class _Regressors:
    """K~ = V'V on the active set, with V rows of L^-1 K_mn and L L' = K_mm; the residual variances d = diag(K
    - K~); and, for weighted targets, I - F'F = (I + W^1/2 K~ W^1/2)^-1 with its product e with them
      ("residual": the projection instead).
    """

    def __init__(self, columns: _Columns, m: int, how: str, y=None, weights=None):
        self.columns, self.how = columns, how
        self.variance, self.V = columns.diagonal.copy(), np.empty((m, columns.n))
        self.active: list[int] = []
        self.weights, self.ridge = weights, 0.0 if how == "residual" else 1.0
        if y is not None:
            self.F, self.e = np.empty((m, columns.n)), weights * y

    def usable(self):
        return self.variance > DEPENDENT * self.columns.diagonal

    def _rows(self, J) -> np.ndarray:
        """What each candidate would add to V (n, |J|)."""
        k = len(self.active)
        return (self.columns(J) - self.V[:k].T @ self.V[:k, J]) / np.sqrt(self.variance[J])

    def _weigh(self, U) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(I - F'F) U in weighted units, ridge + its product with U, and the product of U with e."""
        F, U = self.F[: len(self.active)], self.weights[:, None] * U
        HU = U - F.T @ (F @ U)
        return HU, np.maximum(self.ridge + np.einsum("ij,ij->j", U, HU), 1e-14 * np.sum(U**2, 0)), self.e @ U

    def scores(self, J):
        U = self._rows(J)
        if self.how == "trace":
            return np.sum(U**2, 0)
        _, q, t = self._weigh(U)
        return 0.5 * (t**2 / q - np.log(q)) if self.how == "evidence" else t**2 / q

    def include(self, j: int):
        k, u = len(self.active), self._rows([j])
        if self.how != "trace":
            Hu, q, t = self._weigh(u)
            self.F[k] = Hu[:, 0] / np.sqrt(q[0])
            self.e = self.e - self.F[k] * (t[0] / np.sqrt(q[0]))
        self.V[k] = u[:, 0]
        self.variance = np.maximum(self.variance - self.V[k] ** 2, 0.0)
        self.active.append(j)


class _Columns:
    """Columns of K, computed when asked for; `diagonal` is k(x, x)."""

    def __init__(self, prior, X):
        self.kernel, self.n = strip(prior.kernel), X.shape[0]
        self.encoded = self.kernel.encode(X)
        self.panels = tiles.Panels(
            self.encoded, tiles.tile_size(self.n) if self.n <= tiles.SIZES[-1] else STRIP
        )
        self.diagonal = tiles.diagonal(self.kernel, self.panels)

    def __call__(self, rows) -> np.ndarray:
        out = np.empty((self.n, len(rows)))
        size = 1 if len(rows) == 1 else tiles.tile_size(len(rows))
        some = tiles.Panels(jax.tree.map(lambda a: a[np.asarray(rows)], self.encoded), size)
        tiles.rectangle(self.kernel, self.panels, some, out)
        return out


class _Noise:
    """Gaussian noise of known variance as a likelihood, for what `tilted` needs."""

    def __init__(self, variance: Any):
        self.variance = variance

    def tilted(self, y, mean, variance):
        D = 1.0 / (variance + self.variance)
        r = y - mean
        return 0.5 * (np.log(D / (2 * np.pi)) - D * r**2), r * D, D


def _noise(noise_variance, columns: _Columns, how: str) -> np.ndarray:
    if noise_variance is None:
        raise ValueError(f"how={how!r} weighs the data by their noise: give noise_variance.")
    noise = np.asarray(noise_variance, float)
    if (
        noise.ndim > 1
        or (noise.ndim == 1 and noise.shape[0] != columns.n)
        or not (np.isfinite(noise) & (noise >= 0)).all()
    ):
        raise ValueError(f"noise_variance must be one number >= 0 or one for each of the {columns.n} data.")
    return np.maximum(np.broadcast_to(noise, columns.n), 1e-10 * float(np.mean(columns.diagonal)))
