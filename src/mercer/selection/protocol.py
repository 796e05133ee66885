"""What a selection is: rows of a pool of data, chosen before anything is learned from them."""

from __future__ import annotations

import abc
import dataclasses
import functools
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from mercer.prior import AbstractPrior
from mercer.registry import Saved
from mercer.selection.columns import Columns

#: What a likelihood says of p(y | f) N(f | mean, variance), from mean and variance of f at the data, (n, 1)
#: each: log Z, d = dlogZ/dmean and D = -d2logZ/dmean2, (n, 1) each
Tilted = Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray, np.ndarray]]


@dataclasses.dataclass(frozen=True, eq=False)
class Pool:
    """The data to choose from, and what is known of them. A selection says where it needs more than X.

    prior: of f, bound to the columns of X; of several latent functions the first is looked at.
    X: inputs (n, d). y: targets (n,), as the likelihood encodes them.
    noise_variance: of y - f, one number or one for each datum, where the noise is added to f.
    tilted: the sites that a likelihood of one latent function asks for, as a function of mean and variance of
    f. For a likelihood and its targets it is `functools.partial(inference.pointwise.tilted, likelihood, y)`;
    no likelihood is seen here.

    >>> pool = selection.Pool(gp, X, y, noise_variance=0.1)
    >>> rows = selection.Entropy().rows(pool, 500)
    """

    prior: AbstractPrior | tuple[AbstractPrior, ...]
    X: np.ndarray
    y: np.ndarray | None = None
    noise_variance: Any = None
    tilted: Tilted | None = None

    @property
    def n(self) -> int:
        """Number of rows to choose from."""
        return self.X.shape[0]

    @property
    def latent(self) -> AbstractPrior:
        """The prior whose covariances are looked at."""
        return self.prior[0] if isinstance(self.prior, tuple) else self.prior

    @functools.cached_property
    def columns(self) -> Columns:
        """Columns of K."""
        return Columns(self.latent.kernel, self.X)

    def mean(self) -> np.ndarray:
        """Prior mean (n,)."""
        return np.asarray(self.latent.mean.value(self.X), float)

    def targets(self, who: str) -> np.ndarray:
        """y (n,); `who` needs it."""
        if self.y is None:
            raise ValueError(f"{who} looks at the targets: give y.")
        return np.asarray(self.y, float)

    def noise(self, who: str) -> np.ndarray:
        """Noise variances (n,), none of them zero; `who` needs them."""
        if self.noise_variance is None:
            raise ValueError(f"{who} weighs the data by their noise: give noise_variance.")
        noise = np.asarray(self.noise_variance, float)
        known = np.isfinite(noise) & (noise >= 0)
        if noise.ndim > 1 or (noise.ndim == 1 and noise.shape[0] != self.n) or not known.all():
            raise ValueError(f"noise_variance must be one number >= 0 or one for each of the {self.n} data.")
        return np.maximum(np.broadcast_to(noise, self.n), 1e-10 * float(np.mean(self.columns.diagonal)))


@Saved.register
class AbstractSelection(abc.ABC):
    """A way to choose data. Final ones are frozen dataclasses that say how in `choose`."""

    name: ClassVar[str]

    def rows(self, pool: Pool, m: int, seed: int = 0) -> np.ndarray:
        """Indices (m,) of the data to keep, all different, in the order in which they were taken.

        Fewer come back where the rest cannot help: columns that depend numerically on those chosen before,
        or data whose sites would have negative precision.

        >>> rows = selection.Trace().rows(selection.Pool(gp, X), 100)
        """
        if not 1 <= m <= pool.n:
            raise ValueError(f"cannot select {m} of {pool.n} data: m must lie between 1 and {pool.n}.")
        return self.choose(pool, m, np.random.default_rng(seed))

    @abc.abstractmethod
    def choose(self, pool: Pool, m: int, rng: np.random.Generator) -> np.ndarray:
        """The same for 1 <= m <= n, with chance from `rng`."""
