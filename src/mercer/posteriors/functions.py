"""Draws of a posterior as functions, by Matheron's rule: a function of the prior, moved to agree with the
data.

    f(x) = g(x) + k(x, X) (alpha - R (g(X) - m(X) + e)),      g a draw of the prior, e ~ N(0, W^-1)

Its mean is m + K_* alpha and its covariance K_** - K_* R K_*', those of the posterior (Wilson et al. 2020).
Where the algebra is seen through inducing inputs Z, or a precision W is negative (then Z = X), values u at Z
are drawn first: f(x) = g(x) + k(x, Z) K_ZZ^-1 (u - g(Z)).
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import scipy.linalg as sla

from mercer.linalg import tiles
from mercer.linalg.cholesky import cholesky
from mercer.params import strip
from mercer.posteriors.answers import PosteriorError
from mercer.solvers.protocol import AbstractState

if TYPE_CHECKING:
    from mercer.kernels.spectral.expansion import PriorFunctions

__all__ = ["NO_FUNCTIONS", "WAVES", "SampledFunctions", "has_functions", "joined", "sample_functions"]

WAVES = 512  # of each draw, for each stationary term of the kernel
NO_FUNCTIONS = (
    "draws as functions need predictions by the exact covariance, or by inducing inputs: use solver='dense' "
    "or solvers.VFE; sample(Xs) gives draws at given inputs."
)


@dataclasses.dataclass(frozen=True, eq=False)
class SampledFunctions:
    """Functions drawn from a posterior of f. The same inputs have the same values, call after call; as
    functions of the inputs they can be differentiated and compiled by JAX, where the kernel can.

    notes: what is approximate in them

    >>> functions = post.sample_functions(3, seed=0)
    >>> functions(Xs), functions[1](Xs)                       # (3, m), (m,)
    >>> jax.grad(lambda x: functions[1](x[None])[0])(jnp.array([0.3]))
    """

    parts: tuple[Part, ...]
    order: np.ndarray
    read: Callable[[Any], np.ndarray]
    notes: tuple[str, ...] = ()
    plain: bool = True  # inputs are columns of numbers as they are, so that JAX may hand them in

    def __len__(self) -> int:
        return len(self.order)

    def __call__(self, Xs: Any) -> Any:
        """All of them at inputs Xs (m, d): (size, m), a NumPy array, or one of JAX inside its code."""
        if isinstance(Xs, jax.core.Tracer):
            if not self.plain:
                raise PosteriorError(
                    "JAX cannot follow a table into numbers: take posterior_.sample_functions(), whose "
                    "inputs are the numbers."
                )
            return jnp.concatenate([part.traced(Xs) for part in self.parts])[self.order]
        values = self.read(Xs)
        return np.concatenate([part(values) for part in self.parts])[self.order]

    def __getitem__(self, i: int) -> Callable[[Any], Any]:
        """Draw i alone, as a function of inputs (m, d): (m,)."""
        place = int(self.order[range(len(self))[i]])
        for part in self.parts:
            if place < part.size:
                one = dataclasses.replace(self, parts=(part.only(place),), order=np.zeros(1, int))
                return lambda Xs: one(Xs)[0]
            place -= part.size
        raise AssertionError

    def reading(self, read: Callable[[Any], np.ndarray], plain: bool) -> SampledFunctions:
        """The same functions of tables that `read` turns into inputs (m, d); plain: whether those are the
        table's columns as they are.
        """
        return dataclasses.replace(self, read=read, plain=plain)


@dataclasses.dataclass(frozen=True, eq=False)
class Part:
    """Draws of one Gaussian process: m(x) + h(x)' beta + g(x) + k(x, Z) weights.

    centres Z (q, d); weights (q, S); beta (p, S), or None where there is no basis; waves: g, or None where
    k(x, Z) weights is all of it.
    """

    prior: Any
    centres: np.ndarray
    weights: np.ndarray
    beta: np.ndarray | None
    waves: PriorFunctions | None

    @property
    def size(self) -> int:
        return int(self.weights.shape[1])

    def only(self, i: int) -> Part:
        """Draw i."""
        waves = None if self.waves is None else self.waves.only(i)
        beta = None if self.beta is None else self.beta[:, [i]]
        return dataclasses.replace(self, weights=self.weights[:, [i]], beta=beta, waves=waves)

    def __call__(self, X: np.ndarray) -> np.ndarray:
        """Values (S, m) at columns X (m, d)."""
        if len(X) == 0:
            return np.zeros((self.size, 0))
        kernel, size = strip(self.prior.kernel), tiles.tile_size(len(self.centres))
        test, centres = (tiles.Panels(kernel.encode(Z), size) for Z in (X, self.centres))
        values = tiles.times(kernel, test, centres, self.weights)
        if self.waves is not None:
            values = values + self.waves(X)
        return np.asarray((values + self._known(X)).T)

    def traced(self, X: jax.Array) -> jax.Array:
        """The same inside code that JAX compiles or differentiates."""
        kernel = strip(self.prior.kernel)
        values: jax.Array = kernel.block(kernel.encode(X), kernel.encode(self.centres)) @ self.weights
        if self.waves is not None:
            values = values + self.waves.values(self.waves.encode(X))
        moved: jax.Array = (values + self._known(X)).T
        return moved

    def _known(self, X: Any) -> Any:
        """m(x), or m(x) + h(x)' beta: (m, 1) or (m, S)."""
        mean = self.prior.mean.value(X)[:, None]
        return mean if self.beta is None else mean + self.prior.basis.features(X) @ self.beta


def sample_functions(
    state: AbstractState,
    size: int,
    rng: np.random.Generator,
    read: Callable[[Any], np.ndarray],
    points: np.ndarray | None,
    waves: int,
) -> SampledFunctions:
    """`size` functions of the posterior that a State of one latent function is; where `points` are given,
    exact at them.
    """
    exact, through = state.exact and not _negative(state), _through(state)
    if not has_functions(state):
        raise PosteriorError(NO_FUNCTIONS)
    assert through is not None
    g = (
        _waves(state, through, size, rng, waves)
        if points is None
        else _exact(state, through, points, size, rng)
    )
    beta, moved = _matheron(state, g.values, rng) if exact else (None, _given(state, through, g.values, rng))
    weights = g.weights + np.concatenate([moved, np.zeros((len(g.centres) - len(moved), size))])
    part = Part(state.prior, g.centres, weights, beta, g.waves)
    return SampledFunctions((part,), np.arange(size), read, (g.note,))


def has_functions(state: AbstractState) -> bool:
    """Whether draws of this State can be functions."""
    return _through(state) is not None and (
        state.prior.basis is None or (state.exact and not _negative(state))
    )


def joined(parts: Sequence[SampledFunctions], rng: np.random.Generator) -> SampledFunctions:
    """Those of several posteriors of the same data, in random order."""
    first, size = parts[0], sum(map(len, parts))
    notes = tuple(dict.fromkeys(note for part in parts for note in part.notes))
    return SampledFunctions(
        tuple(one for part in parts for one in part.parts), rng.permutation(size), first.read, notes
    )


class _Prior(NamedTuple):
    """Draws of the prior without its mean: waves and k(x, centres) weights, their values (q, S) at the inputs
    through which the data are seen, and what is approximate in them.
    """

    waves: PriorFunctions | None
    centres: np.ndarray
    weights: np.ndarray
    values: np.ndarray
    note: str


def _waves(
    state: AbstractState, through: np.ndarray, size: int, rng: np.random.Generator, waves: int
) -> _Prior:
    from mercer.kernels.spectral.density import SpectralError
    from mercer.kernels.spectral.expansion import prior_functions

    try:
        g = prior_functions(state.prior.kernel, through.shape[1], size, waves, rng)
    except SpectralError as error:
        raise PosteriorError(
            f"draws as functions: {error} Say where they will be looked at, points=Xp: then they are exact "
            "there, whatever the kernel."
        ) from None
    note = (
        f"each draw is a sum of {waves} random waves for each stationary term of the kernel: over draws mean "
        "and covariance are the posterior's, and a single one has the kernel's covariance within about "
        f"{1 / math.sqrt(2 * waves):.1g} of its variance"
        if g.expansion.random
        else "exact"
    )
    return _Prior(g, through, np.zeros((len(through), size)), g(through), note)


def _exact(
    state: AbstractState, through: np.ndarray, points: np.ndarray, size: int, rng: np.random.Generator
) -> _Prior:
    """k(x, A) K_AA^-1 g_A at A, the given points and those through which the data are seen."""
    A = np.concatenate([through, points])
    L, _ = cholesky(state.prior.kernel(A))
    u = rng.standard_normal((len(A), size))
    weights = sla.solve_triangular(L, u, lower=True, trans=1)
    note = "exact at the given points; between them each draw is the smoothest function through its values"
    return _Prior(None, A, weights, (L @ u)[: len(through)], note)


def _matheron(
    state: AbstractState, g: np.ndarray, rng: np.random.Generator
) -> tuple[np.ndarray | None, np.ndarray]:
    """Weights of the basis functions (p, S) and of the data (n, S) that move g (n, S) to the posterior."""
    W = np.asarray(state.sites.precision, float)
    root = np.divide(1.0, np.sqrt(W), out=np.zeros_like(W), where=W > 0)
    off = g + root * rng.standard_normal(g.shape)
    alpha, basis = np.asarray(state.alpha, float).reshape(-1, 1), state.basis_weights()
    if basis is None:
        return None, alpha - state.apply(off)
    assert state.prior.basis is not None
    H = np.asarray(state.prior.basis.features(state.X), float)
    _, B = state.prior.basis.prior(H.shape[1])
    own = np.zeros((H.shape[1], g.shape[1]))  # what a vague prior adds cancels
    if B is not None:
        own = np.linalg.cholesky(B) @ rng.standard_normal(own.shape)
    off += H @ own
    beta = basis.mean[:, None] + own - basis.covariance @ (basis.RH.T @ off)
    return beta, alpha - state.apply(off)


def _given(state: AbstractState, Z: np.ndarray, g: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """K_ZZ^-1 (u - m - g) (q, S) for u drawn from the posterior at Z."""
    u = state.sample(rng, Z, g.shape[1]).T - np.asarray(state.prior.mean.value(Z))[:, None]
    L, _ = cholesky(state.prior.kernel(Z))
    solved: np.ndarray = sla.cho_solve((L, True), u - g)
    return solved


def _through(state: AbstractState) -> np.ndarray | None:
    """Inputs through which the data are seen: given f there, it is the prior's elsewhere."""
    return state.X if state.exact else state.anchors()


def _negative(state: AbstractState) -> bool:
    sites = state.sites
    return sites.coupling is not None or bool(np.any(np.asarray(sites.precision) < 0))
