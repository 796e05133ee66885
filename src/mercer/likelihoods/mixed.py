"""Rows of several kinds: values with a likelihood of their own, others with a known Gaussian error, others of
which only the sign was seen.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from mercer.columns import Groups
from mercer.inputs import Array, InputError
from mercer.likelihoods.base import AbstractLikelihood, refuse
from mercer.likelihoods.gaussian import Gaussian
from mercer.likelihoods.quadrature import log_normal
from mercer.likelihoods.special import log_ndtr
from mercer.observe import Observations
from mercer.observe.rows import VALUE
from mercer.params import Hyper, Info, Param, ParameterError, fixed, hyper, nonnegative

AS_VALUES, KNOWN, SIGN = 0.0, 1.0, 2.0


class Mixed(AbstractLikelihood):
    """Data of three kinds: y ~ p(y | f) of `values`; y = f + a Gaussian error of known size; or y the sign of
    f, with P(y | f) = Phi(y f / error), a step where the error is 0. Made by conditioning on
    `mercer.observe.Observations`; at other inputs it is `values`.

    values: the likelihood of the first kind
    role: (n,), 0, 1 or 2: which kind each datum is
    error: (n,), the standard deviations of the other two

    >>> Mixed(Gaussian(0.1), role=[0.0, 0.0, 2.0], error=[0.0, 0.0, 0.0])
    """

    values: AbstractLikelihood
    role: Hyper = hyper(None, nonnegative, free=False)
    error: Hyper = hyper(None, nonnegative, free=False)

    def __check_init__(self):
        if not isinstance(self.values, AbstractLikelihood) or self.values.latents > 1:
            raise ParameterError("Mixed.values must be a likelihood of one latent function.")
        if self.role is None or jnp.ndim(self.role) != 1 or jnp.shape(self.role) != jnp.shape(self.error):
            raise ParameterError("Mixed.role and Mixed.error are one number for each datum, (n,) both.")
        info = dict(self.info) | {name: Info(free=False) for name in ("role", "error")}
        object.__setattr__(self, "info", tuple(sorted(info.items())))

    @property
    def per_datum(self) -> bool:
        return True

    @property
    def log_concave(self) -> bool:
        return self.values.log_concave

    @property
    def default_rule(self) -> str:
        return "ep"

    def elsewhere(self, X: np.ndarray) -> AbstractLikelihood | None:
        return self.values.elsewhere(X)

    def start(self, y: np.ndarray) -> dict[str, Any]:
        return {f"values.{name}": v for name, v in self.values.start(y[self._as_values]).items()}

    def weak_priors(self, scale: float) -> dict[str, Info]:
        return {f"values.{name}": info for name, info in self.values.weak_priors(scale).items()}

    def words(self) -> str:
        return self.values.words()

    @property
    def _as_values(self) -> np.ndarray:
        return np.asarray(self.role) == AS_VALUES

    def encode(self, y: np.ndarray) -> np.ndarray:
        if len(self.role) != len(y):
            raise InputError(f"the likelihood is of {len(self.role)} data but there are {len(y)}.")
        refuse((np.asarray(self.role) == SIGN) & ~np.isin(y, (-1.0, 1.0)), y, "signs +1 and -1 here")
        if self.values.per_datum:
            return np.where(self._as_values, self.values.encode(np.where(self._as_values, y, 1.0)), y)
        out = np.array(y, float)
        out[self._as_values] = self.values.encode(y[self._as_values])
        return out

    def guess(self, y: np.ndarray) -> np.ndarray:
        """Of values; the others say nothing of the size of f."""
        f = np.asarray(self.values.guess(np.where(self._as_values, y, 1.0)), float)
        return np.where(self._as_values, f, f[self._as_values].mean() if self._as_values.any() else 0.0)

    def log_prob(self, f: Array, y: Array) -> jax.Array:
        error = jnp.where(self.role == AS_VALUES, 1.0, self.error)
        return self._chosen(
            self.values.log_prob(f, self._plain(y)),
            log_normal(y, f, error**2),
            log_ndtr(y * f / jnp.maximum(error, 1e-150)),
        )

    def log_partition(self, y: Array, mean: Array, variance: Array) -> jax.Array:
        error = jnp.where(self.role == AS_VALUES, 1.0, self.error)
        spread = variance + error**2
        return self._chosen(
            self.values.log_partition(self._plain(y), mean, variance),
            log_normal(y, mean, spread),
            log_ndtr(y * mean / jnp.sqrt(spread)),
        )

    def _plain(self, y: Array) -> jax.Array:
        """The data that are values; in the place of others a 1, which every likelihood can have."""
        return jnp.where(self.role == AS_VALUES, y, 1.0)

    def _chosen(self, as_values: jax.Array, known: jax.Array, sign: jax.Array) -> jax.Array:
        return jnp.where(self.role == AS_VALUES, as_values, jnp.where(self.role == KNOWN, known, sign))

    # -- predictions of the training data: all as values ----------------------------------------------------

    def predict(self, mean: np.ndarray, variance: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return self.values.predict(mean, variance)

    def quantile(self, q: float, mean: np.ndarray, variance: np.ndarray) -> np.ndarray:
        return self.values.quantile(q, mean, variance)

    def sample(self, rng: np.random.Generator, f: np.ndarray) -> np.ndarray:
        return self.values.sample(rng, f)


def of_observations(likelihood: AbstractLikelihood, data: Observations, learn: bool) -> AbstractLikelihood:
    """The likelihood of observations, from that of values: with their known errors, with signs; where it is
    learned, Gaussian noise has a variance for each kind of observation.
    """
    if isinstance(likelihood, Mixed):
        return of_observations(likelihood.values, data, learn)
    if isinstance(likelihood, Gaussian):
        noisy = _gaussian(likelihood, data, learn)
        if not data.sign.any():
            return noisy
        if np.any(np.broadcast_to(noisy.variances, len(data))[~data.sign] <= 0.0):
            raise InputError(
                "signs beside values without noise cannot be conditioned on: give a noise_variance above 0, "
                "which may be small."
            )
        return Mixed(noisy, fixed(np.where(data.sign, SIGN, AS_VALUES)), fixed(data.error))
    value = (data.kind == VALUE) & ~data.sign
    if value.all() and not data.error.any():
        return likelihood
    if likelihood.latents > 1 or likelihood.per_datum:
        raise InputError(
            f"{type(likelihood).__name__} takes values alone: it has several latent functions, or parameters "
            "for each datum."
        )
    known = ~value & ~data.sign
    if (unknown := known & (data.error == 0.0)).any() or data.error[value].any():
        raise InputError(
            f"beside {type(likelihood).__name__}, derivatives and integrals need a y_error above 0, and "
            f"values take none: see row {int(np.argmax(unknown | (value & (data.error > 0))))}."
        )
    return Mixed(
        likelihood, fixed(np.where(value, AS_VALUES, np.where(known, KNOWN, SIGN))), fixed(data.error)
    )


def check_agreement(data: Observations, likelihood: AbstractLikelihood) -> None:
    """An error where two rows without noise contradict each other: of one thing at one place they say
    different numbers, or a number and its opposite sign.
    """
    if data.y is None:
        return
    noise = likelihood.values if isinstance(likelihood, Mixed) else likelihood
    if not isinstance(noise, Gaussian):
        return
    variance = np.where(data.sign, data.error, np.broadcast_to(noise.variances, len(data)))
    sure = np.flatnonzero(variance == 0.0)
    seen: dict[bytes, int] = {}
    for row in sure.tolist():
        first = seen.setdefault(data.rows[row].tobytes(), row)
        said, before = data.y[row], data.y[first]
        if data.sign[row] or data.sign[first]:
            said, before = np.sign(said), np.sign(before)
        if said != before:
            what = data.kinds[int(data.kind[row])]
            raise InputError(
                f"rows {first} and {row} ({what}) contradict each other: {data.y[first]:g} and "
                f"{data.y[row]:g} at one place, both without noise. Drop one, or give a noise_variance or a "
                "y_error."
            )


def _gaussian(likelihood: Gaussian, data: Observations, learn: bool) -> Gaussian:
    info = dict(likelihood.info).get("noise_variance", Info())
    scalar = np.ndim(likelihood.noise_variance) == 0
    error = fixed(np.where(data.sign, 0.0, data.error)) if data.error[~data.sign].any() else None
    if error is not None and (likelihood.per_datum or not scalar):
        raise InputError("the noise of each row is known already: leave out y_error, or the noise of rows.")
    noise = Param(likelihood.noise_variance, info)
    if likelihood.by is not None:
        group = np.where(data.sign, 0, likelihood.by.value.of(data.rows))
        return Gaussian(noise, by=likelihood.by.value, group=fixed(group.astype(float)))
    codes = np.unique(data.kind[~data.sign])
    if not (learn and info.free and scalar and codes.size > 1):
        return likelihood if error is None else Gaussian(noise, error=error)
    levels = tuple((float(code),) for code in codes)
    labels = tuple(data.kinds[int(code)] for code in codes)
    by = Groups("kind of observation", (2 * data.columns + 1,), levels, labels)
    group = np.where(data.sign, 0, np.searchsorted(codes, data.kind)).astype(float)
    each = Param(np.full(codes.size, float(likelihood.noise_variance)), info)
    return Gaussian(each, error=error, by=by, group=fixed(group))
