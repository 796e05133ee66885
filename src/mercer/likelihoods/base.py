"""What a likelihood is: how one observation y depends on the latent value f at its input.

A likelihood needs `log_prob`; everything an inference rule or a prediction asks for has a default by
automatic differentiation or quadrature, replaced where there is a closed form. Methods that rules use
(`log_prob`, `log_partition`, `power_partition`, `expectation`, `curvature`, `fisher`) are JAX-traceable;
those about predictions return NumPy arrays.
"""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Callable
from typing import Any, ClassVar, Self

import jax
import jax.numpy as jnp
import numpy as np

from mercer.inputs import Array, InputError, as_targets
from mercer.likelihoods import quadrature
from mercer.linalg import tiles
from mercer.params import Info, Param, ParameterError, Parametrised, parameters, strip

BLOCK = 1 << 15  # predictions by quadrature are made for this many rows at a time


class AbstractLikelihood(Parametrised):
    """p(y | f), factorised over data.

    `f` is (n,), or (n, L) where `latents` = L > 1; `y` is what `targets` returned. Where f ~ N(mean,
    variance) both are (n,), or (n, L) and (n, L) or (n, L, L).
    """

    mean_is_latent: ClassVar[bool] = False  # E[y | f] = f, so that a predictive mean needs no variance
    smooth: ClassVar[bool] = True  # log p(y | f) has two derivatives everywhere: what Laplace needs
    # y = f + N(0, s) with a random variance s for each datum: what ScaleMixture needs
    scale_mixture: ClassVar[bool] = False
    # a function of y is f plus Gaussian noise: what Exact takes besides Gaussian noise itself
    warps: ClassVar[bool] = False
    categorical: ClassVar[bool] = False  # y is one of several classes: `probability` says how likely each is
    sampled_by: ClassVar[str] = "mcmc"  # the rule that inference="mcmc" stands for
    # what else may be known of each training row, by the names that `fit` of estimators has for it
    side: ClassVar[tuple[str, ...]] = ()

    @property
    def latents(self) -> int:
        """Number of latent functions for each datum."""
        return 1

    @property
    def log_concave(self) -> bool:
        """log p(y | f) is concave in f: the posterior has one mode and every site a positive precision."""
        return False

    @property
    def per_datum(self) -> bool:
        """Some parameter is given for each training datum."""
        return False

    @property
    def seen(self) -> np.ndarray | None:
        """Which training rows' y was seen itself, (n,), where of some only a limit is known; else None."""
        return None

    def at_rows(self, rows: np.ndarray, n: int) -> AbstractLikelihood:
        """The likelihood of some of the n training data, by their positions: what is said of each is cut."""
        if not self.per_datum:
            return self
        return jax.tree.map(lambda a: a[rows] if np.shape(a) == (n,) else a, self)

    def with_side(self, y: np.ndarray, **given: Any) -> tuple[AbstractLikelihood, np.ndarray]:
        """This likelihood with what is known of each row, (n,) each, by the names in `side`; and y (n,) as it
        then reads it.

        >>> Poisson().with_side(y, exposure=days)
        """
        known = {name: as_targets(values, len(y), name) for name, values in given.items()}
        return self._rebuilt(**known), y

    def without_side(self) -> Self:
        """This likelihood of rows of which nothing else is known: of one trial, of exposure 1 ..."""
        fields = {f.name: f.default for f in dataclasses.fields(self)}
        return self._rebuilt(**{name: fields[name] for name in self.side})

    def _rebuilt(self, **new: Any) -> Self:
        fields = [f.name for f in dataclasses.fields(self) if f.init and f.name != "info"]
        return type(self)(**({name: self._given(name) for name in fields} | new))

    def _given(self, field: str) -> Any:
        """A field with all that was said of it, to build another likelihood with."""
        value, said = getattr(self, field), dict(self.info).get(field)
        return value if said is None else Param(value, said)

    def elsewhere(self, X: np.ndarray) -> AbstractLikelihood | None:
        """The likelihood at other inputs X (m, d) than the training data's; None where something that it
        needs was given for those alone.
        """
        return None if self.per_datum else self

    @property
    def contest(self) -> AbstractLikelihood | None:
        """Where y says which of several latent functions wins, p(y | f) = E_u prod_{j != y} p(+1 | u + f_y -
        f_j) with u ~ N(0, 1): the likelihood of one latent function in this product. Else None. EP asks.
        """
        return None

    @property
    def default_rule(self) -> str:
        """The name of the inference rule used where none is asked for."""
        return "laplace" if self.smooth else "ep"

    # -- what people and starts ask --------------------------------------------------------------------------

    def start(self, y: np.ndarray) -> dict[str, Any]:
        """Values for hyperparameters, by name, that suit the scale of targets y (n,): where learning starts.

        Those that are not named keep their values; those that are fixed do anyway.
        """
        return {}

    def weak_priors(self, scale: float) -> dict[str, Info]:
        """Priors and bounds, by name, for hyperparameters learned from targets of this (robust) standard
        deviation, where a person asks for the likelihood by its name alone.
        """
        return {}

    def words(self) -> str:
        """The likelihood as a person would say it, with its values."""
        scalars = [(p.name.rsplit(".", 1)[-1], p.value) for p in parameters(self) if np.ndim(p.value) == 0]
        settings = ", ".join(f"{name} {np.asarray(value):.4g}" for name, value in scalars)
        return type(self).__name__ + (f" with {settings}" if settings else "")

    # -- the data --------------------------------------------------------------------------------------------

    def targets(self, y: Any) -> np.ndarray:
        """y as people give it, checked and encoded: (n,) float64."""
        return self.encode(vector(y))

    def encode(self, y: np.ndarray) -> np.ndarray:
        """Checked numbers y (n,) as the formulas take them; what this likelihood cannot have is refused."""
        return y

    @abc.abstractmethod
    def log_prob(self, f: Array, y: Array) -> jax.Array:
        """log p(y | f): (n,)."""

    def guess(self, y: np.ndarray) -> np.ndarray:
        """Rough latent values that explain y: (n,) or (n, L).
        Their spread is a starting value for that of f.
        """
        return np.asarray(y, float)

    # -- what inference rules ask for ------------------------------------------------------------------------

    def derivatives(self, f: Array, y: Array, order: int = 3) -> tuple[jax.Array, ...]:
        """log p(y | f) and its first derivatives in f (one latent function), each (n,)."""
        return quadrature.derivatives(lambda f: self.log_prob(f, y), f, order)

    def curvature(self, f: Array, y: Array) -> tuple[Array, Array | None]:
        """Minus the Hessian of log p(y | f) as diag(D) - P P': D (n,) and P None, or D (n, L) positive and
        P (n, L, r).
        """
        return -self.derivatives(f, y, 2)[2], None

    def fisher(self, f: Array, y: Array) -> tuple[Array, Array | None]:
        """A positive semi-definite stand-in for `curvature`, in the same form,
        to step with where that is indefinite.
        """
        D, P = self.curvature(f, y)
        return jnp.maximum(D, 0.0), P

    def log_partition(self, y: Array, mean: Array, variance: Array) -> jax.Array:
        """log of the integral of p(y | f) N(f | mean, variance) df: (n,).

        The tilted density has mean `mean + variance d1` and variance `variance + variance^2 d2`, d1 and d2
        the derivatives in `mean`.
        """
        return quadrature.log_integral(lambda f: self.log_prob(f, y), mean, variance, *self.bend(y))

    def power_partition(self, y: Array, mean: Array, variance: Array, power: Array | float) -> jax.Array:
        """log of the integral of p(y | f)^power N(f | mean, variance) df: (n,). Power EP asks."""
        return quadrature.log_integral(lambda f: self.log_prob(f, y) * power, mean, variance, *self.bend(y))

    def probits(self) -> tuple[np.ndarray, np.ndarray, float, bool] | None:
        """Where p(y | f) = flip + (1 - 2 flip) sum_j w_j Phi(y f / s_j) for y = +-1: s^2 (J,), w (J,), flip,
        and whether the sum is the logistic function. None where it is not. Loops over single data ask, which
        cannot call a likelihood.
        """
        return None

    def tilted_moments(
        self, y: np.ndarray | float, mean: np.ndarray | float, variance: np.ndarray | float
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """log Z, mean and variance of the density p(y | f) N(f | mean, variance) / Z of one latent function,
        each (n,): what EP matches.

        >>> Bernoulli().tilted_moments(np.array([-1.0]), np.array([0.6]), np.array([2.3]))
        """
        found = self.compute(_tilted_moments, *np.atleast_1d(y, mean, variance))
        return found[:, 0], found[:, 1], found[:, 2]

    def expectation(self, y: Array, mean: Array, variance: Array) -> jax.Array:
        """E[log p(y | f)] where f ~ N(mean, variance): (n,)."""
        return quadrature.average(lambda f: self.log_prob(f, y), mean, variance, *self.bend(y))

    def rough_expectation(self, y: Array, mean: Array, variance: Array) -> jax.Array:
        """The same to two digits or more, in a quarter of the time where it is no closed form: for steps on
        batches, which differ from each other by more.
        """
        if type(self).expectation is not AbstractLikelihood.expectation:
            return self.expectation(y, mean, variance)
        nodes = quadrature.FEW_NODES
        return quadrature.average(lambda f: self.log_prob(f, y), mean, variance, *self.bend(y), nodes=nodes)

    def bend(self, y: Array) -> tuple[Array | float | None, Array | float | None]:
        """Where log p(y | f) turns from one slope to another, and over what length:
        nodes of quadrature are densest there.
        """
        return None, None

    # -- predictions -----------------------------------------------------------------------------------------

    @abc.abstractmethod
    def predict(self, mean: np.ndarray, variance: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Mean and variance of y where f ~ N(mean, variance)."""

    def log_density(
        self, y: np.ndarray | float, mean: np.ndarray, variance: np.ndarray | float
    ) -> np.ndarray:
        """log of the predictive density (or probability) of y where f ~ N(mean, variance)."""
        return self.compute(_log_partition, y, mean, variance)

    @abc.abstractmethod
    def quantile(self, q: float, mean: np.ndarray, variance: np.ndarray) -> np.ndarray:
        """Quantile q of y where f ~ N(mean, variance);
        of a discrete y the smallest whose distribution function reaches q.
        """

    @abc.abstractmethod
    def sample(self, rng: np.random.Generator, f: np.ndarray) -> np.ndarray:
        """One draw of y for each f: (..., n), or (..., n, L) with L latent functions, of any leading axes, so
        that many draws of f are one call; what is given for each datum is along n.
        """

    def compute(self, method: Callable[..., jax.Array], *arrays: np.ndarray | float) -> np.ndarray:
        """A traceable method on arrays of the same length, compiled,
        in blocks of rows so that memory stays bounded.
        """
        columns, bare = np.broadcast_arrays(*(np.asarray(a, float) for a in arrays)), strip(self)
        n = columns[0].shape[0] if columns[0].ndim else 1
        if n <= BLOCK or any(np.ndim(p.value) for p in parameters(self)):
            return np.asarray(tiles.call(method, bare, *columns))
        starts = range(0, n, BLOCK)
        return np.concatenate(
            [np.asarray(tiles.call(method, bare, *(a[i : i + BLOCK] for a in columns))) for i in starts]
        )


def _tilted_moments(likelihood, y, mean, variance):
    log_Z, d1, d2 = quadrature.derivatives(lambda m: likelihood.log_partition(y, m, variance), mean, 2)
    return jnp.stack([log_Z, mean + variance * d1, variance + variance**2 * d2], 1)


def _log_partition(likelihood, y, mean, variance):
    return likelihood.log_partition(y, mean, variance)


# ------------------------------------------------------------------------------------------------- targets
# and quantiles


def vector(y: Any, name: str = "y") -> np.ndarray:
    """Targets as (n,) float64, all finite."""
    try:
        n = len(y)
    except TypeError:
        raise InputError(f"{name} must be one column of numbers, got {type(y).__name__}.") from None
    return as_targets(y, n, name)


def counts(y: np.ndarray) -> np.ndarray:
    """y, where it holds counts."""
    refuse((y < 0) | (y != np.round(y)), y, "counts (0, 1, 2, ...)")
    return y


def per_row(likelihood: AbstractLikelihood, *fields: str) -> None:
    """Fields that are one number, one for each datum, or None; those for each datum agree in length."""
    given, what = {name: getattr(likelihood, name) for name in fields}, type(likelihood).__name__
    shapes = {name: np.shape(value) for name, value in given.items() if value is not None}
    for name, shape in shapes.items():
        if len(shape) > 1:
            raise ParameterError(f"{what}.{name} must be one number or one for each datum.")
    if len({shape for shape in shapes.values() if shape}) > 1:
        raise ParameterError(f"{what}: {', '.join(shapes)} differ in length.")


def refuse(bad: np.ndarray, y: np.ndarray, what: str) -> None:
    """An error that names the first bad target, where there is one."""
    if bad.any():
        row = int(np.argmax(bad))
        raise InputError(
            f"y must hold {what}: {int(bad.sum())} of {len(y)} do not fit, the first is {y[row]:g} in row "
            f"{row}."
        )


def continuous_quantile(
    cdf: Callable[[np.ndarray], np.ndarray], q: float, low: np.ndarray | float, high: np.ndarray | float
) -> np.ndarray:
    """y with cdf(y) = q, elementwise: the bracket [low, high] is moved and widened until it holds y, then
    shrunk by inverse quadratic interpolation, or by half where that cannot be trusted (Chandrupatla 1997).
    """
    low, high = np.broadcast_arrays(np.asarray(low, float), np.asarray(high, float))
    grain = 4.0 * np.finfo(float).eps * np.abs(high - low)
    x1, f1, x2, f2 = _bracket(lambda y: np.asarray(cdf(y)) - q, low, high)
    t = np.full_like(x1, 0.5)
    for _ in range(100):
        x = x1 + t * (x2 - x1)
        f = np.asarray(cdf(x)) - q
        same = np.sign(f) == np.sign(f1)
        x3, f3 = np.where(same, x1, x2), np.where(same, f1, f2)
        x2, f2 = np.where(same, x2, x1), np.where(same, f2, f1)
        x1, f1 = x, f
        nearest = np.where(np.abs(f1) < np.abs(f2), x1, x2)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            least = (grain + 4.0 * np.finfo(float).eps * np.abs(nearest)) / np.abs(x2 - x1)
            if np.all((least > 0.5) | (f1 == 0) | (f2 == 0)):
                break
            xi, phi = (x1 - x2) / (x3 - x2), (f1 - f2) / (f3 - f2)
            trusted = (phi**2 < xi) & ((1.0 - phi) ** 2 < 1.0 - xi)
            t = f1 / (f2 - f1) * f3 / (f2 - f3) + (x3 - x1) / (x2 - x1) * f1 / (f3 - f1) * f2 / (f3 - f2)
        least = np.minimum(least, 0.5)
        t = np.where(trusted, np.clip(t, least, 1.0 - least), 0.5)
    return np.where(np.abs(f1) < np.abs(f2), x1, x2)


def _bracket(
    excess: Callable, low: np.ndarray, high: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Ends with excess(low) <= 0 <= excess(high), each with its excess; steps grow threefold."""
    below, above, width = excess(low), excess(high), high - low
    for _ in range(200):
        short, long = below > 0, above < 0
        if not (short | long).any():
            break
        if short.any():
            high, above = np.where(short, low, high), np.where(short, below, above)
            low = np.where(short, low - width, low)
            below = np.where(short, excess(low), below)
        if long.any():
            low, below = np.where(long, high, low), np.where(long, above, below)
            high = np.where(long, high + width, high)
            above = np.where(long, excess(high), above)
        width = 3.0 * width
    return low, below, high, above


def count_quantile(
    cdf: Callable[[np.ndarray], np.ndarray], q: float, start: np.ndarray | float
) -> np.ndarray:
    """The smallest integer y >= 0 with cdf(y) >= q, elementwise; `start` is a guess of its size."""
    high = np.maximum(np.ceil(np.asarray(start, float)), 1.0)
    while (short := cdf(high) < q).any():
        high = np.where(short, 2 * high, high)
    low = np.full_like(high, -1.0)  # the distribution function is below q here
    while (high - low > 1).any():
        middle = np.floor(0.5 * (low + high))
        below = cdf(middle) < q
        open_ = high - low > 1
        low, high = np.where(below & open_, middle, low), np.where(~below & open_, middle, high)
    return high
