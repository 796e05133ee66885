"""What columns add to a prediction, as linear functionals of f: their means and variances under a posterior.

The Shapley value of a column is a weighted sum of values of f, L f, and so Gaussian under a Gaussian
posterior. With a = L k(., X) (n,), c = L L' k and R = (K + W^-1)^-1

    E[L f] = L m + a . alpha,     V[L f] = c - a' R a

so that only L k is needed: in closed form for each term of the kernel that is a product over columns or a
mixture of such (`mercer.explain.products`), else by the rows of its coalitions.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from mercer.explain.products import ProductTerm, products
from mercer.explain.shapley import ENUMERATED, ROWS, Coalitions, product_values, product_variances
from mercer.kernels import AbstractKernel, On, Product, Scale, Sum
from mercer.posteriors.protocol import AbstractPosterior
from mercer.progress import tell

Groups = Sequence[tuple[int, ...]]

FEW = 16  # rows of the background, at least, where there are as many
CELLS = 3e8  # numbers in the matrices of all products together, for each row
POINTS = 16384  # rows of all coalitions of one term
JOINT = 2048  # rows of which the joint posterior is taken
BLOCK = 2048  # rows of covariances at a time
DRAWS = 400  # of a posterior that has no covariances


@dataclasses.dataclass(frozen=True, eq=False)
class Values:
    """Shapley values (m, G) of m rows, their posterior standard deviations (m, G), or None, the standard
    errors (m, G) of sampled orders, and how they were computed.
    """

    mean: np.ndarray
    std: np.ndarray | None
    error: np.ndarray
    method: str


def by_kernel(posterior: AbstractPosterior) -> bool:
    """Whether predictions are sums of the kernel's own covariances with the data."""
    return posterior.can("components")


def background_size(posterior: AbstractPosterior, groups: Groups, most: int = ROWS) -> int:
    """How many rows of a background can be averaged over with bounded work."""
    G = len(groups)
    if not by_kernel(posterior):
        latents = posterior.model.likelihood.latents
        return int(np.clip(JOINT // latents // 2**G if G <= ENUMERATED else 0, FEW // 2, most))
    this: Any = posterior
    n, kernel, size = len(this.state.X), this.state.prior.kernel, most
    for part in additive(kernel):
        terms = products(part, groups)
        if terms is None:
            k = len(_read(part, groups))
            size = min(size, POINTS // 2**k if k <= ENUMERATED else FEW)
            continue
        for term in terms:
            k = len(term.groups)
            nodes = -(-k // 2)
            size = min(size, _affordable(CELLS / max(term.size * nodes * k, 1), n, 0.5 * (nodes + 1)))
    return int(np.clip(size, FEW, most))


def _affordable(cells: float, n: int, pairs: float) -> int:
    """The largest B with B n + pairs B^2 <= cells."""
    return int((np.sqrt(n * n + 4.0 * pairs * cells) - n) / (2.0 * pairs))


def additive(kernel: AbstractKernel) -> tuple[AbstractKernel, ...]:
    """The terms of a sum; else the kernel itself."""
    return kernel.terms if isinstance(kernel, Sum) else (kernel,)


def shapley_of(
    posterior: AbstractPosterior,
    rows: np.ndarray,
    background: np.ndarray,
    groups: Groups,
    contrast: np.ndarray | None = None,
    seed: int = 0,
) -> Values:
    """Shapley values of the posterior of f at rows (m, d), of the combination `contrast` (L,) of several
    latent functions; None: of the first.
    """
    if by_kernel(posterior):
        return _from_kernel(posterior, rows, background, groups, seed)
    L = posterior.model.likelihood.latents
    one = np.eye(L)[0] if contrast is None else np.asarray(contrast, float)
    found = []
    for i, row in enumerate(rows):
        found.append(_from_points(posterior, row, background, groups, one, seed))
        tell(i + 1, len(rows), "rows")
    mean, std, error = zip(*found, strict=True)
    known = None if any(s is None for s in std) else np.stack([s for s in std if s is not None])
    enumerated = _enumerate(len(groups), len(background), JOINT // L)
    return Values(np.stack(mean), known, np.stack(error), _words(enumerated, len(groups)))


# ----------------------------------------------------------------------------------------- by covariances


def _from_kernel(
    posterior: AbstractPosterior, rows: np.ndarray, background: np.ndarray, groups: Groups, seed: int
) -> Values:
    this: Any = posterior
    state, G, m = this.state, len(groups), len(rows)
    alpha, X = np.asarray(state.alpha, float).reshape(-1), np.asarray(state.X)
    a, c = np.zeros((m, G, len(X))), np.zeros((m, G))
    spread, methods = np.zeros((m, G)), []
    for part in additive(state.prior.kernel):
        terms = products(part, groups)
        if terms is not None:
            for term in terms:
                _add_product(term, rows, background, groups, X, a, c)
            methods.append("closed form")
            continue
        own = _read(part, groups)
        at = [groups[g] for g in own]
        enumerated = _enumerate(len(own), len(background), POINTS)
        methods.append(_words(enumerated, len(own)))
        for i, row in enumerate(rows):
            found = Coalitions.of(row, background, at, enumerated, seed)
            covariances = found.weights @ _covariances(part, found.rows, X)  # (R, k, n)
            a[i, own] += covariances.mean(0)
            spread[i, own] += np.square(found.error_of(covariances @ alpha))
            w = found.weights.mean(0)
            c[i, own] += np.einsum("gn,gn->g", w @ _covariances(part, found.rows, found.rows), w)
            tell(i + 1, m, "rows")
    mean = a @ alpha
    flat = a.reshape(m * G, -1)
    variance = c - np.einsum("in,in->i", flat, state.apply(flat.T).T).reshape(m, G)
    plain, error = _of_function(
        lambda Z: np.asarray(state.prior.mean.value(Z)), rows, background, groups, seed
    )
    mean, spread = mean + plain[..., 0], spread + error[..., 0] ** 2
    weights = state.basis_weights()
    if weights is not None:
        h, error = _of_function(state.prior.basis.features, rows, background, groups, seed)  # (m, G, p)
        across = h @ weights.covariance
        mean = mean + h @ weights.mean
        spread = spread + (error @ np.abs(weights.mean)) ** 2
        variance = variance + np.einsum("mgp,mgp->mg", across, h - 2.0 * (a @ weights.RH))
    return Values(mean, np.sqrt(np.maximum(variance, 0.0)), np.sqrt(spread), _joined(methods))


def _add_product(
    term: ProductTerm,
    rows: np.ndarray,
    background: np.ndarray,
    groups: Groups,
    X: np.ndarray,
    a: np.ndarray,
    c: np.ndarray,
) -> None:
    """Add L k(., X) and L L' k of a term to a (m, G, n) and c (m, G)."""
    own = list(term.groups)
    if not own:
        return

    def between(A: np.ndarray, B: np.ndarray) -> list[tuple[np.ndarray, np.ndarray | None]]:
        return [term.matrices(g, A, B) for g in own]

    to_data, from_background = between(rows, X), between(background, X)
    to_background, among = between(rows, background), between(background, background)
    itself = [between(row[None], row[None]) for row in rows]
    mixture = term.mixture
    parts = [(1.0, 0.0)] if mixture is None else list(zip(mixture.weights, mixture.rates, strict=True))
    for done, (weight, rate) in enumerate(parts):

        def at(pairs: list[tuple[np.ndarray, np.ndarray | None]], rate: float = rate) -> np.ndarray:
            return np.stack([f if half is None else f * np.exp(-rate * half) for f, half in pairs])

        p, q, x, b = at(to_data), at(from_background), at(to_background), at(among)
        for i in range(len(rows)):
            a[i, own] += term.scale * weight * product_values(p[:, i, None], q).mean(1)
            c[i, own] += term.scale * weight * product_variances(at(itself[i])[:, 0, 0], x[:, i], b)
        tell(done + 1, len(parts), "products")


def _of_function(
    function: Any, rows: np.ndarray, background: np.ndarray, groups: Groups, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """Shapley values (m, G, p) of p known functions of rows, and their standard errors."""
    first = _columns(function(np.concatenate([rows, background])))
    shape = (len(rows), len(groups), first.shape[1])
    if not np.ptp(first, 0).any():
        return np.zeros(shape), np.zeros(shape)
    enumerated = _enumerate(len(groups), len(background), POINTS)
    values, errors = np.zeros(shape), np.zeros(shape)
    for i, row in enumerate(rows):
        found = Coalitions.of(row, background, groups, enumerated, seed)
        each = found.weights @ _columns(function(found.rows))  # (R, G, p)
        values[i], errors[i] = each.mean(0), found.error_of(each)
    return values, errors


def _columns(f: Any) -> np.ndarray:
    f = np.asarray(f, float)
    return f.reshape(len(f), -1)


def _read(kernel: AbstractKernel, groups: Groups) -> list[int]:
    """Positions of the groups that a kernel reads."""
    columns = columns_read(kernel, tuple(sorted(c for group in groups for c in group)))
    return [g for g, group in enumerate(groups) if set(group) & set(columns)]


def columns_read(kernel: AbstractKernel, columns: tuple[int, ...]) -> tuple[int, ...]:
    """Which of the columns that are handed to a kernel it reads, as far as its structure says."""
    if isinstance(kernel, On):
        return columns_read(kernel.kernel, tuple(columns[int(c)] for c in kernel.columns))
    if isinstance(kernel, Scale):
        return columns_read(kernel.kernel, columns)
    if isinstance(kernel, Sum | Product):
        return tuple(sorted({c for part in kernel.parts for c in columns_read(part, columns)}))
    return columns


def _covariances(kernel: AbstractKernel, A: np.ndarray, B: np.ndarray) -> np.ndarray:
    """k(A, B), some rows at a time."""
    return np.concatenate([np.asarray(kernel(A[i : i + BLOCK], B)) for i in range(0, len(A), BLOCK)])


# ---------------------------------------------------------------------------------------------- by points


def _from_points(
    posterior: AbstractPosterior,
    row: np.ndarray,
    background: np.ndarray,
    groups: Groups,
    contrast: np.ndarray,
    seed: int,
) -> tuple[np.ndarray, np.ndarray | None, np.ndarray]:
    """Shapley values, standard deviations and standard errors (G,) of any posterior, from what it says of f
    at the rows of coalitions.
    """
    L = len(contrast)
    enumerated = _enumerate(len(groups), len(background), JOINT // L)
    found = Coalitions.of(row, background, groups, enumerated, seed)
    f = posterior.latent_moments(found.rows, variance=False)[0]
    mean, error = found.values(f if f.ndim == 1 else f @ contrast)
    w = found.weights.mean(0)
    if posterior.can("covariance"):
        variance = np.einsum("gn,gn->g", w @ posterior.covariance(found.rows, latent=True), w)
        return mean, np.sqrt(np.maximum(variance, 0.0)), error
    if posterior.can("sample"):
        drawn = posterior.sample(found.rows, DRAWS, seed, latent=True)
        return mean, ((drawn if drawn.ndim == 2 else drawn @ contrast) @ w.T).std(0, ddof=1), error
    return mean, None, error


def _enumerate(G: int, B: int, most: int) -> bool:
    """Whether all coalitions of G groups with B rows are looked at: not where these are too many."""
    return G <= ENUMERATED and (most >= 2**G * B or G <= 2)


def _words(enumerated: bool, G: int) -> str:
    return f"all {2**G} coalitions of {G} columns" if enumerated else "random orders of the columns"


def _joined(methods: Sequence[str]) -> str:
    return "; ".join(dict.fromkeys(methods))
