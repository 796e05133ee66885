"""What the rules ask of a likelihood, for all data at once. Compiled once for each kind of likelihood,
whatever n is: rows are padded.

Arrays are (n, L) outside; a likelihood of one latent function sees (n,).
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from mercer.likelihoods.base import AbstractLikelihood
from mercer.linalg import tiles
from mercer.params import named_leaves, strip
from mercer.programs import program


def log_prob(likelihood: AbstractLikelihood, f: np.ndarray, y: np.ndarray) -> np.ndarray:
    """log p(y | f): (n,)."""
    return _rowwise(_log_prob, likelihood, f, y)


def slopes(
    likelihood: AbstractLikelihood, f: np.ndarray, y: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray | None]:
    """log p (n,), its gradient in f (n, L), and minus its Hessian as D (n, L) and P (n, L, r) or None."""
    value, g, D, P = _rowwise(_slopes, likelihood, f, y)
    return value, g, D, P


def fisher(
    likelihood: AbstractLikelihood, f: np.ndarray, y: np.ndarray
) -> tuple[np.ndarray, np.ndarray | None]:
    """A positive semi-definite stand-in for minus the Hessian, as D (n, L) and P (n, L, r) or None."""
    return _rowwise(_fisher, likelihood, f, y)


def tilted(
    likelihood: AbstractLikelihood, y: np.ndarray, mean: np.ndarray, variance: np.ndarray, power: float = 1.0
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """log Z of p(y | f)^power N(f | mean, variance), with d = dlogZ/dmean and D = -d2logZ/dmean2, each (n,
    1).

    `functools.partial(tilted, likelihood, y)` is all that a selection of data sees of a likelihood
    (`mercer.selection.Pool`).
    """
    log_Z, d, D = _rowwise(_tilted, likelihood, y, mean[:, 0], variance[:, 0], *_powers(power, y))
    return log_Z[:, None], d[:, None], D[:, None]


def tilted_one(
    likelihood: AbstractLikelihood, power: float = 1.0
) -> Callable[[float, float, float], np.ndarray]:
    """`tilted` for data that come one at a time: log Z, d and D as a function of y, mean and variance, (3,).
    Nothing is padded, and the likelihood is taken apart only here.
    """
    leaves, treedef = jax.tree.flatten(strip(likelihood))
    rows = functools.partial(tiles.compiled(_tilted_rows, treedef), leaves)
    powers = _powers(power, np.zeros(1))
    return lambda y, mean, variance: np.asarray(rows(*np.array([[y], [mean], [variance]]), *powers))[0]


def expected(
    likelihood: AbstractLikelihood, y: np.ndarray, mean: np.ndarray, variance: np.ndarray, rough: bool = False
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """E[log p], E[its gradient] and minus E[its second derivative] under N(mean, variance), each (n, 1);
    `rough`: by fewer nodes, for guesses.
    """
    function = _roughly_expected if rough else _expected
    value, gradient, precision = _rowwise(function, likelihood, y, mean[:, 0], variance[:, 0])
    return value[:, None], gradient[:, None], precision[:, None]


def pull_slopes(
    likelihood: AbstractLikelihood,
    f: np.ndarray,
    y: np.ndarray,
    log_prob_bar: np.ndarray,
    slope_bar: np.ndarray,
    precision_bar: np.ndarray,
) -> dict[str, np.ndarray]:
    """Derivatives of sum(log_prob_bar log p + slope_bar . gradient + precision_bar : minus Hessian) with
    respect to the likelihood's hyperparameters, by name. `precision_bar` is (n, 1), or (n, L, L).
    """
    if not jax.tree.leaves(strip(likelihood)):
        return {}
    return _pull(_pull_slopes, likelihood, f, y, log_prob_bar, slope_bar, precision_bar)[0]


def pull_precision(
    likelihood: AbstractLikelihood, f: np.ndarray, y: np.ndarray, precision_bar: np.ndarray
) -> np.ndarray:
    """Derivatives of sum(precision_bar : minus Hessian of log p) with respect to f (n, L)."""
    nothing = np.zeros(f.shape[0]), np.zeros(f.shape)
    return _pull(_pull_slopes, likelihood, f, y, *nothing, precision_bar)[1]


def pull_partition(
    likelihood: AbstractLikelihood, y: np.ndarray, mean: np.ndarray, variance: np.ndarray, power: float = 1.0
) -> dict[str, np.ndarray]:
    """Derivatives of sum log Z with respect to the likelihood's hyperparameters, the cavities held."""
    return _pull(_sum_partition, likelihood, y, mean[:, 0], variance[:, 0], *_powers(power, y))[0]


def pull_expectation(
    likelihood: AbstractLikelihood, y: np.ndarray, mean: np.ndarray, variance: np.ndarray
) -> dict[str, np.ndarray]:
    """Derivatives of sum E[log p] with respect to the likelihood's hyperparameters, the marginals held."""
    return _pull(_sum_expectation, likelihood, y, mean[:, 0], variance[:, 0])[0]


# ------------------------------------------------------------------------------------------------- inside


def _powers(power: float, y: np.ndarray) -> tuple[np.ndarray, ...]:
    """One for each row; none where p itself is asked for, which has closed forms."""
    return () if power == 1.0 else (np.full(y.shape, power),)


def _partition(likelihood, y, mean, variance, power=None):
    if power is None:
        return likelihood.log_partition(y, mean, variance)
    return likelihood.power_partition(y, mean, variance, power)


def _one(f):
    return f[:, 0] if f.shape[1] == 1 else f


def _log_prob(likelihood, f, y):
    return likelihood.log_prob(_one(f), y)


def _gradient(likelihood, f, y):
    _, pull = jax.vjp(lambda f: _log_prob(likelihood, f, y), f)
    return pull(jnp.ones(f.shape[0]))[0]


def _columns(D, P):
    return (D[:, None] if D.ndim == 1 else D), P


def _slopes(likelihood, f, y):
    return (
        _log_prob(likelihood, f, y),
        _gradient(likelihood, f, y),
        *_columns(*likelihood.curvature(_one(f), y)),
    )


def _fisher(likelihood, f, y):
    return _columns(*likelihood.fisher(_one(f), y))


def _tilted(likelihood, y, mean, variance, *power):
    def log_Z(mean):
        return _partition(likelihood, y, mean, variance, *power)

    def slope(mean):
        value, tangent = jax.jvp(log_Z, (mean,), (jnp.ones_like(mean),))
        return tangent, value

    d, D, value = jax.jvp(slope, (mean,), (jnp.ones_like(mean),), has_aux=True)
    return value, d, -D


def _tilted_rows(likelihood, y, mean, variance, *power):
    return jnp.stack(_tilted(likelihood, y, mean, variance, *power), -1)


def _expected(likelihood, y, mean, variance):
    return _with_slopes(likelihood.expectation, y, mean, variance)


def _roughly_expected(likelihood, y, mean, variance):
    return _with_slopes(likelihood.rough_expectation, y, mean, variance)


def _with_slopes(expectation, y, mean, variance):
    value, pull = jax.vjp(lambda m, v: expectation(y, m, v), mean, variance)
    by_mean, by_variance = pull(jnp.ones_like(value))
    return value, by_mean, -2.0 * by_variance  # Bonnet and Price: d/dm E = E', d/dv E = E'' / 2


def _pull_slopes(likelihood, f, y, log_prob_bar, slope_bar, precision_bar):
    value, g, D, P = _slopes(likelihood, f, y)
    total = jnp.sum(log_prob_bar * value) + jnp.sum(slope_bar * g)
    if precision_bar.ndim == 2:
        return total + jnp.sum(precision_bar * D)
    total += jnp.sum(jnp.einsum("nll->nl", precision_bar) * D)
    return total if P is None else total - jnp.einsum("nlk,nlr,nkr->", precision_bar, P, P)


def _sum_partition(likelihood, y, mean, variance, *power_and_weight):
    *power, weight = power_and_weight
    return jnp.sum(weight * _partition(likelihood, y, mean, variance, *power))


def _sum_expectation(likelihood, y, mean, variance, weight):
    return jnp.sum(weight * likelihood.expectation(y, mean, variance))


def _padding(likelihood, n: int) -> int:
    if likelihood.per_datum:
        return 0
    size = next((s for s in (64, 256, 1024) if n <= s), -(-n // 2048) * 2048)
    return size - n


def _pad(a: np.ndarray, pad: int, repeat: bool) -> np.ndarray:
    """`pad` more rows: the last one again, or zeros."""
    if not pad:
        return a
    return np.concatenate([a, np.repeat(a[-1:], pad, 0) if repeat else np.zeros((pad, *a.shape[1:]))])


def _rowwise(function, likelihood, *arrays) -> Any:
    n = arrays[0].shape[0]
    pad = _padding(likelihood, n)
    padded = (_pad(np.asarray(a, float), pad, True) for a in arrays)
    out = tiles.call(function, strip(likelihood), *padded)
    return jax.tree.map(lambda a: np.array(np.asarray(a)[:n]), out)


@functools.lru_cache(maxsize=256)
def _differentiated(function, treedef):
    return program(_gradients, function, treedef)


def _gradients(function, treedef, leaves, *arrays):
    def total(leaves, first):
        return function(jax.tree.unflatten(treedef, leaves), first, *arrays[1:])

    return jax.grad(total, argnums=(0, 1))(leaves, arrays[0])


def _pull(function, likelihood, *arrays) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Gradient of a sum over rows with respect to the likelihood's leaves, by name, and to the first array;
    bars come last and are padded with zeros."""
    n = arrays[0].shape[0]
    pad = _padding(likelihood, n)
    data = 2  # arrays that are not bars
    if function in (_sum_partition, _sum_expectation):
        data, arrays = len(arrays), (*arrays, np.ones(n))
    padded = [_pad(np.asarray(a, float), pad, i < data) for i, a in enumerate(arrays)]
    bare = strip(likelihood)
    leaves, treedef = jax.tree.flatten(bare)
    by_leaf, by_first = _differentiated(function, treedef)(leaves, *padded)
    names = [name for name, _ in named_leaves(bare)]
    return {f"likelihood.{k}": np.asarray(v) for k, v in zip(names, by_leaf, strict=True)}, np.asarray(
        by_first
    )[:n]
