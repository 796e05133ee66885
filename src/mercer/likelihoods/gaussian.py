"""Gaussian noise: y = f + e, e ~ N(0, noise_variance), with what is known of the noise of each row."""

from __future__ import annotations

import abc
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from mercer.columns import Groups
from mercer.inputs import Array, InputError
from mercer.likelihoods.base import AbstractLikelihood
from mercer.likelihoods.quadrature import log_normal
from mercer.likelihoods.scales import NOISE_PRIOR, NOISE_SHARE, typical_weight
from mercer.params import (
    Held,
    Hyper,
    Info,
    ParameterError,
    fixed,
    hyper,
    nonnegative,
    positive,
    real,
    replace_leaves,
)

_LOG_2PI = float(np.log(2 * np.pi))
_OF_ROWS = ("weight", "error", "group", "slopes")


def _held(by: Any) -> Held | None:
    return None if by is None else Held(by)


class AbstractGaussianNoise(AbstractLikelihood):
    """z(y) = f + independent Gaussian noise, with a rising function z of the target: what exact inference
    asks.
    """

    @property
    @abc.abstractmethod
    def variances(self) -> Any:
        """Of the noise at the data: one number, or (n,)."""

    @abc.abstractmethod
    def warped(self, y: Any) -> Any:
        """z(y) (n,)."""

    @abc.abstractmethod
    def log_jacobian(self, y: Any) -> Any:
        """The sum of log z'(y), which is part of the log density of y."""

    @abc.abstractmethod
    def pull(
        self, variances_bar: np.ndarray, y: np.ndarray, warped_bar: np.ndarray, log_jacobian_bar: float
    ) -> dict[str, np.ndarray]:
        """Derivatives with respect to the hyperparameters, by name, from those with respect to the noise
        variance of each datum (n,), to z (n, 1) and to the log Jacobian.
        """


class Gaussian(AbstractGaussianNoise):
    """y = f + independent Gaussian noise, of variance noise_variance / weight + error^2, and
    slopes^2 input_variance where inputs have errors.

    noise_variance: in squared units of y: one number (learned unless `fixed`), or (n,), one known variance
        for each datum (never learned); with `by` one for each group (learned). Zero means noise-free
        observations: they are matched up to the jitter policy's floor, which is reported
    weight: (n,) or None. How many measurements each datum stands for: it is their mean
    error: (n,) or None. Known standard deviation of a further error of each datum, in units of y
    slopes, input_variance: (n, d) and (d,), or None. Derivatives of f at the inputs, and the variances of the
        errors of their columns (learned unless `fixed`): to first order they are errors of y
    by: which rows share a noise variance (`columns.Groups`), or None
    group: (n,), the number of each datum's group, with `by`

    Weights, errors and groups are those of the training data. At other inputs the noise is the learned one,
    that of weight 1 and no further error; with `by` that of the group, and the mean of all groups where it is
    a new one.

    >>> mercer.Model(mercer.GP(kernels.SE()), Gaussian(0.1)).condition(X, y).std(Xs)
    >>> mercer.fit(mercer.Model(mercer.GP(kernels.SE()), Gaussian(0.1, error=errors)), X, y)
    """

    noise_variance: Hyper = hyper(0.1, nonnegative)
    weight: Hyper = hyper(None, positive, free=False, kw_only=True)
    error: Hyper = hyper(None, nonnegative, free=False, kw_only=True)
    group: Hyper = hyper(None, nonnegative, free=False, kw_only=True)
    slopes: Hyper = hyper(None, real, free=False, kw_only=True)
    input_variance: Hyper = hyper(None, nonnegative, kw_only=True)
    by: Any = eqx.field(default=None, static=True, converter=_held, kw_only=True)

    mean_is_latent: ClassVar[bool] = True

    def __check_init__(self):
        value = self.noise_variance
        if jnp.ndim(value) > 1:
            raise ParameterError("Gaussian.noise_variance must be one number or one for each datum.")
        known = self._each_known or (isinstance(value, np.ndarray) and np.ndim(value) == 0 and value == 0.0)
        info = dict(self.info)
        if self._each_known and info.get("noise_variance", Info(free=False)).free:
            raise ParameterError(
                "Gaussian.noise_variance for each datum is known, not learned: give the plain numbers, or "
                "one param(...) for all."
            )
        self._check_rows()
        if known and info.get("noise_variance", Info()).free:
            info["noise_variance"] = Info(free=False)
        info |= {name: Info(free=False) for name in _OF_ROWS if getattr(self, name) is not None}
        object.__setattr__(self, "info", tuple(sorted(info.items())))

    def _check_rows(self) -> None:
        given = {name: getattr(self, name) for name in _OF_ROWS if getattr(self, name) is not None}
        for name, value in given.items():
            if jnp.ndim(value) != (2 if name == "slopes" else 1):
                shape = "d numbers for each datum, (n, d)" if name == "slopes" else "one for each datum, (n,)"
                raise ParameterError(f"Gaussian.{name} is {shape}.")
        if len({len(value) for value in given.values()}) > 1:
            raise ParameterError(f"Gaussian: {', '.join(given)} differ in length.")
        if given and self._each_known:
            raise ParameterError(
                "Gaussian.noise_variance for each datum is all of its noise: leave out weight and error, or "
                "give one noise_variance."
            )
        if (self.slopes is None) != (self.input_variance is None) or (
            self.slopes is not None and jnp.shape(self.input_variance) != jnp.shape(self.slopes)[1:]
        ):
            raise ParameterError("Gaussian.slopes (n, d) and Gaussian.input_variance (d,) go together.")
        if (self.by is None) != (self.group is None):
            raise ParameterError("Gaussian.by and Gaussian.group go together.")
        if self.by is not None:
            groups, known = self.by.value, isinstance(self.group, np.ndarray)
            if not isinstance(groups, Groups) or jnp.shape(self.noise_variance) != (len(groups.levels),):
                raise ParameterError("Gaussian.by is a columns.Groups, with one noise_variance for each.")
            if known and not np.isin(self.group, np.arange(len(groups.levels))).all():
                raise ParameterError(f"Gaussian.group numbers the {len(groups.levels)} groups, from 0.")

    @property
    def _each_known(self) -> bool:
        return jnp.ndim(self.noise_variance) == 1 and self.by is None

    def warped(self, y: Any) -> Any:
        return y

    def log_jacobian(self, y: Any) -> float:
        return 0.0

    @property
    def variances(self) -> Any:
        noise = self._unweighted if self.weight is None else self._unweighted / self.weight
        noise = noise if self.error is None else noise + self.error**2
        return noise if self.slopes is None else noise + self.slopes**2 @ self.input_variance

    @property
    def _unweighted(self) -> Any:
        return self.noise_variance if self.group is None else self.noise_variance[self.group.astype(int)]

    def pull(
        self, variances_bar: np.ndarray, y: Any = None, warped_bar: Any = None, log_jacobian_bar: float = 0.0
    ) -> dict[str, np.ndarray]:
        if self._each_known:
            return {"noise_variance": variances_bar}
        out, bar = {}, variances_bar
        if self.error is not None:
            out["error"] = 2.0 * self.error * bar
        if self.slopes is not None:
            out["slopes"] = 2.0 * self.slopes * self.input_variance * bar[:, None]
            out["input_variance"] = bar @ self.slopes**2
        if self.weight is not None:
            out["weight"] = -self._unweighted / self.weight**2 * bar
            bar = bar / self.weight
        if self.group is None:
            return out | {"noise_variance": np.sum(bar)}
        summed = np.bincount(self.group.astype(int), bar, len(self.noise_variance))
        return out | {"noise_variance": summed, "group": np.zeros_like(bar)}

    def at_rows(self, rows: np.ndarray, n: int) -> Gaussian:
        cut = {name: value[rows] for name in _OF_ROWS if (value := getattr(self, name)) is not None}
        if self._each_known:
            cut["noise_variance"] = self.noise_variance[rows]
        return replace_leaves(self, cut)

    def elsewhere(self, X: np.ndarray) -> Gaussian | None:
        if self._each_known:
            return None
        if self.by is None:
            return Gaussian(fixed(self.noise_variance)) if self.per_datum else self
        noise = np.append(self.noise_variance, np.mean(self.noise_variance))  # the last: of a new group
        return Gaussian(fixed(noise[self.by.value.of(X)]))

    def encode(self, y: np.ndarray) -> np.ndarray:
        n = None if np.ndim(self.variances) == 0 else np.shape(self.variances)[0]
        if n not in (None, y.shape[0]):
            what = "noise_variance" if self._each_known else "the noise of rows"
            raise InputError(f"{what} has {n} entries but there are {y.shape[0]} data.")
        return y

    @property
    def default_rule(self) -> str:
        return "exact"

    def start(self, y: np.ndarray) -> dict[str, Any]:
        noise = NOISE_SHARE * (float(np.var(y)) or 1.0) * self.typical_weight
        return {"noise_variance": np.full(np.shape(self.noise_variance), noise)}

    @property
    def typical_weight(self) -> float:
        """The geometric mean of the weights; 1 where there are none."""
        return 1.0 if self.weight is None else typical_weight(self.weight)

    def weak_priors(self, scale: float) -> dict[str, Info]:
        return {"noise_variance": Info(prior=NOISE_PRIOR.scaled(scale**2 * self.typical_weight))}

    def words(self) -> str:
        if self._each_known:
            return "Gaussian, known for each row"
        std = np.sqrt(np.asarray(self.noise_variance))
        if self.by is None:
            said = f"Gaussian with standard deviation {std:.4g}"
        else:
            each = zip(self.by.value.labels, std, strict=True)
            listed = ", ".join(f"{label} {one:.4g}" for label, one in each)
            said = f"Gaussian with standard deviations by {self.by.value.name}: {listed}"
        weighted = "" if self.weight is None else " for weight 1, its variance divided by the weight of a row"
        known = "" if self.error is None else ", beside the known error of each row"
        if self.slopes is None:
            return said + weighted + known
        errors = ", ".join(f"{e:.4g}" for e in np.sqrt(np.asarray(self.input_variance)))
        return f"{said}{weighted}{known}, beside errors of the inputs with standard deviations {errors}"

    @property
    def log_concave(self) -> bool:
        return True

    @property
    def per_datum(self) -> bool:
        return self._each_known or any(getattr(self, name) is not None for name in _OF_ROWS)

    def log_prob(self, f: Array, y: Array) -> jax.Array:
        noise = self.variances
        return -0.5 * ((y - f) ** 2 / noise + jnp.log(noise) + _LOG_2PI)

    def log_partition(self, y: Array, mean: Array, variance: Array) -> jax.Array:
        return log_normal(y, mean, variance + self.variances)

    def power_partition(self, y: Array, mean: Array, variance: Array, power: Array | float) -> jax.Array:
        """p^power is Gaussian of variance noise / power, but for a constant."""
        constant = (1.0 - power) * (jnp.log(self.variances) + _LOG_2PI) - jnp.log(power)
        return log_normal(y, mean, variance + self.variances / power) + 0.5 * constant

    def expectation(self, y: Array, mean: Array, variance: Array) -> jax.Array:
        return self.log_prob(mean, y) - 0.5 * variance / self.variances

    def predict(self, mean: np.ndarray, variance: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return mean, variance + self.variances

    def log_density(
        self, y: np.ndarray | float, mean: np.ndarray, variance: np.ndarray | float
    ) -> np.ndarray:
        total = variance + self.variances
        return -0.5 * ((y - mean) ** 2 / total + np.log(total) + _LOG_2PI)

    def quantile(self, q: float, mean: np.ndarray, variance: np.ndarray) -> np.ndarray:
        from scipy.special import ndtri

        return mean + np.sqrt(variance + self.variances) * ndtri(q)

    def sample(self, rng: np.random.Generator, f: np.ndarray) -> np.ndarray:
        return f + np.sqrt(self.variances) * rng.standard_normal(np.shape(f))
