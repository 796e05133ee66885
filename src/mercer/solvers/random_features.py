"""Random Fourier features: a stationary kernel as the average of m random waves, then Bayesian linear
regression. O(n m^2).

By Bochner's theorem (4.5) k(x, x') = k(0) E[cos(w . (x - x'))] with frequencies w drawn from the normalised
spectral density. Here w is a function of draws made once and of the hyperparameters (a Gaussian draw over the
length-scale, ...): the approximate kernel is differentiable, and the same from one evaluation to the next.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from scipy.special import gammaincinv

from mercer.kernels.algebra.columns import On
from mercer.kernels.algebra.sums import Product, Scale, Sum
from mercer.kernels.base import AbstractKernel
from mercer.kernels.families.dot import Constant
from mercer.kernels.families.stationary import SE, GammaExponential, Matern, RationalQuadratic
from mercer.linalg import tiles
from mercer.params import strip
from mercer.prior import AbstractPrior
from mercer.solvers.coupled import CoupledState, CoupledWorkspace
from mercer.solvers.host import AbstractHoldingWorkspace, Columns
from mercer.solvers.protocol import (
    AbstractSolver,
    AbstractState,
    AbstractWorkspace,
    Cost,
    Sites,
    SolverError,
    is_coupled,
)
from mercer.solvers.weight_space import AbstractWeightSpaceState

STEP = 1e-5  # relative, of central differences
PAIRS = 512  # of data, at which the approximate kernel is compared with the true one


@dataclasses.dataclass(frozen=True)
class RandomFeatures(AbstractSolver):
    """Weight-space algebra on m random frequencies (2 m features) for each stationary term of the kernel.

    SE, Matern, RationalQuadratic and GammaExponential kernels, their products, and sums of these with each
    other and with kernels of finite rank (which stay exact). The error of the kernel falls as 1 / sqrt(m);
    the State's notes say how large it is at pairs of data. Far from the data, where the true posterior
    returns to the prior, the waves go on: trust predictions among the data.

    m: frequencies
    seed: of the draws
    orthogonal: frequencies in orthogonal sets, which lowers the error

    >>> mercer.GPRegressor(solver=RandomFeatures(m=500)).fit(X, y)
    """

    m: int = 256
    seed: int = 0
    orthogonal: bool = True

    offers: ClassVar[frozenset[str]] = frozenset(
        {"variance", "logdet", "sample", "full", "blocks", "indefinite"}
    )

    def __post_init__(self) -> None:
        if self.m < 1:
            raise ValueError(f"RandomFeatures.m must be at least 1, got {self.m}.")

    def workspace(self, prior: Any, X: np.ndarray) -> AbstractWorkspace:
        return (
            CoupledWorkspace(self, prior, X)
            if isinstance(prior, tuple)
            else RandomFeaturesWorkspace(self, prior, X)
        )

    def factor(self, prior: Any, X: np.ndarray, sites: Sites, workspace: Any = None) -> AbstractState:
        if is_coupled(sites):
            return CoupledState(self._factor_one, prior, X, sites, workspace)
        return self._factor_one(prior, X, sites, workspace)

    def _factor_one(
        self, prior: AbstractPrior, X: np.ndarray, sites: Sites, workspace: Any
    ) -> RandomFeaturesState:
        return RandomFeaturesState(prior, X, sites, workspace or RandomFeaturesWorkspace(self, prior, X))

    def cost(self, n: int, d: int, L: int = 1) -> Cost:
        p = 2 * self.m
        return Cost(
            flops=L * (2.0 * n * p**2 + p**3 / 3 + 20 * n * p), bytes=8.0 * L * (7.5 * n * p + 2 * p**2)
        )


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Waves:
    """A kernel with the draws for its frequencies:
    what the weight-space State takes for a kernel of finite rank.
    """

    kernel: Any
    draws: Any

    def encode(self, X: np.ndarray) -> Any:
        return self.kernel.encode(X)

    def features(self, A: Any) -> jax.Array:
        """Psi (a, p) with Psi(A) Psi(B)' close to `kernel.block(A, B)`."""
        return _features(self.kernel, A, jax.lax.stop_gradient(self.draws))


class RandomFeaturesWorkspace(AbstractHoldingWorkspace):
    """Encoded inputs cut into tiles, the draws, and the features of the prior that is held."""

    def __init__(self, solver: RandomFeatures, prior: Any, X: np.ndarray):
        self.columns = Columns(X)
        encoded = prior.kernel.encode(X)
        self.panels = tiles.Panels(encoded, tiles.tile_size(X.shape[0]))
        rng = np.random.default_rng(solver.seed)
        self.draws = _draw(prior.kernel, X.shape[1], solver, rng)
        self.pairs = first, second = rng.integers(0, X.shape[0], (2, PAIRS))
        self.ends = jax.tree.map(lambda a: a[first], encoded), jax.tree.map(lambda a: a[second], encoded)

    def waves(self, prior: AbstractPrior) -> Waves:
        return Waves(strip(prior.kernel), _settle(prior.kernel, self.draws))

    def compute(self, prior: AbstractPrior) -> np.ndarray:
        """The features (n, 2 m)."""
        return tiles.map_rows(_values, self.waves(prior), self.panels)


def _values(waves, A):
    return waves.features(A)


class RandomFeaturesState(AbstractWeightSpaceState):
    """As in weight space; `kernel_error` is the root-mean-square error of k at pairs of data,
    over the mean prior variance.
    """

    exact = False

    def __init__(self, prior: AbstractPrior, X: np.ndarray, sites: Sites, workspace: RandomFeaturesWorkspace):
        super().__init__(prior, X, sites, workspace, workspace.waves(prior), workspace.known(prior))
        true = np.asarray(tiles.call(_at_pairs, self.kernel.kernel, *workspace.ends))
        ours = np.einsum("ij,ij->i", self.Psi[workspace.pairs[0]], self.Psi[workspace.pairs[1]])
        self.kernel_error = float(np.sqrt(np.mean((true - ours) ** 2)) / np.mean(self.prior_variance()))
        self.notes: tuple[str, ...] = (
            f"random features: p = {self.Psi.shape[1]}; root-mean-square error of the kernel at {PAIRS} "
            "pairs of data "
            f"{self.kernel_error:.2g} of the prior variance",
        )

    def leaves_of(self, pulled: Any) -> Any:
        return pulled.kernel


def _at_pairs(kernel, A, B):
    return jax.vmap(kernel.point)(A, B)


# ------------------------------------------------------------------------------------------------- features


def _features(kernel, A, draws):
    if draws is None:  # of finite rank
        return kernel.features(A)
    if isinstance(kernel, Sum):
        return jnp.concatenate(
            [_features(*part) for part in zip(kernel.terms, kernel._split(A), draws, strict=True)], 1
        )
    if isinstance(kernel, On) and not _single(kernel):
        return _features(kernel.kernel, A, draws)
    if isinstance(kernel, Scale) and not _single(kernel):
        return jnp.sqrt(kernel.variance) * _features(kernel.kernel, A, draws)
    angle = _angle(kernel, A, draws)
    amplitude = jnp.sqrt(kernel.diag(A) / angle.shape[1])[:, None]
    return amplitude * jnp.concatenate([jnp.cos(angle), jnp.sin(angle)], 1)


def _single(kernel) -> bool:
    """Whether one set of frequencies describes the kernel: no sum in it."""
    return not isinstance(kernel, Sum) and all(_single(part) for part in getattr(kernel, "parts", ()))


def _angle(kernel, A, draws):
    """w . x for every row and frequency; the frequency of a product is the sum of its factors'."""
    if isinstance(kernel, Product):
        return functools.reduce(
            jnp.add, (_angle(*part) for part in zip(kernel.factors, kernel._split(A), draws, strict=True))
        )
    if isinstance(kernel, (On, Scale)):
        return _angle(kernel.kernel, A, draws)
    if isinstance(kernel, Constant):
        return jnp.zeros((1, 1))
    return (kernel.scale(A) @ draws.normal) * jnp.sqrt(draws.mixed(kernel))


# ------------------------------------------------------------------------------------------------- draws


def _stable(gamma: float, u: np.ndarray) -> np.ndarray:
    """Twice a positive stable variable of order gamma / 2, by Kanter's formula."""
    order, angle = gamma / 2, np.pi * u[0]
    tail = (np.sin((1 - order) * angle) / (-np.log(u[1]) * np.sin(angle))) ** ((1 - order) / order)
    return 2 * np.sin(order * angle) / np.sin(angle) * tail


# Scale mixtures: profile(r2) = E[exp(-v r2 / 2)], v a function of the kernel's shape and of two uniform
# numbers
_MIXTURES: dict[type, tuple[str, Callable[[float, np.ndarray], np.ndarray]]] = {
    SE: ("variance", lambda _, u: np.ones(u.shape[1])),
    Matern: ("nu", lambda nu, u: nu / gammaincinv(nu, u[0])),
    RationalQuadratic: ("alpha", lambda alpha, u: gammaincinv(alpha, u[0]) / alpha),
    GammaExponential: ("gamma", _stable),
}


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Draw:
    """For one stationary kernel: normal frequencies (columns, m), uniform numbers (2, m),
    and v (m,) with its derivative.
    """

    normal: Any
    uniform: Any
    v: Any = 0.0
    slope: Any = 0.0

    def settled(self, kernel: AbstractKernel) -> Draw:
        """With v for the kernel's present shape; its derivative by central differences,
        the uniform numbers staying the same.
        """
        field, function = _MIXTURES[type(kernel)]
        at = float(getattr(kernel, field))
        up, down = at * (1 + STEP), at * (1 - STEP)
        up = min(up, 2.0) if field == "gamma" else up
        slope = (function(up, self.uniform) - function(down, self.uniform)) / (up - down)
        return dataclasses.replace(self, v=function(at, self.uniform), slope=slope)

    def mixed(self, kernel: AbstractKernel) -> jax.Array:
        """v as a function of the kernel, for JAX."""
        shape = jnp.asarray(getattr(kernel, _MIXTURES[type(kernel)][0]), float)
        return self.v + self.slope * (shape - jax.lax.stop_gradient(shape))


def _settle(kernel, draws):
    """The draws with all v at the kernel's present values."""
    if isinstance(draws, Draw):
        while isinstance(kernel, (On, Scale)):
            kernel = kernel.kernel
        return draws.settled(kernel)
    if draws is None or isinstance(kernel, Constant):
        return draws
    if isinstance(kernel, (On, Scale)):
        return _settle(kernel.kernel, draws)
    return tuple(_settle(*part) for part in zip(kernel.parts, draws, strict=True))


def _draw(kernel: Any, d: int, solver: RandomFeatures, rng, inside=False) -> Any:
    """Draws in the shape of the kernel: a tuple for a sum or a product, None where the features are exact."""
    if not inside and kernel.rank(d) is not None:
        return None
    if isinstance(kernel, On):
        return _draw(kernel.kernel, len(kernel.columns), solver, rng, inside)
    if isinstance(kernel, Scale):
        return _draw(kernel.kernel, d, solver, rng, inside)
    if isinstance(kernel, Sum) and not inside:
        return tuple(_draw(term, d, solver, rng) for term in kernel.terms)
    if isinstance(kernel, Product):
        return tuple(_draw(factor, d, solver, rng, inside=True) for factor in kernel.factors)
    if isinstance(kernel, Constant):
        return ()
    if type(kernel) not in _MIXTURES:
        raise SolverError(
            f"RandomFeatures has no random frequencies for {kernel}: it takes SE, Matern, "
            "RationalQuadratic and GammaExponential, "
            "their products, and sums of these and of kernels of finite rank. Other solvers take any "
            "kernel: 'dense', VFE."
        )
    columns = d + (0 if kernel.loadings is None else np.shape(kernel.loadings)[1])
    return Draw(_normal(columns, solver, rng), rng.uniform(1e-15, 1 - 1e-15, (2, solver.m)))


def _normal(d: int, solver: RandomFeatures, rng) -> np.ndarray:
    """m standard normal vectors (d, m); each d of them orthogonal if asked."""
    if not solver.orthogonal:
        return rng.standard_normal((d, solver.m))
    blocks = -(-solver.m // d)
    Q, R = np.linalg.qr(rng.standard_normal((blocks, d, d)))
    Q *= np.sign(np.einsum("bii->bi", R))[:, None, :]
    length = np.sqrt(rng.chisquare(d, (blocks, 1, d)))
    return np.moveaxis(Q * length, 0, 1).reshape(d, -1)[:, : solver.m]
