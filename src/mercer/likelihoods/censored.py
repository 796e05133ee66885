"""Gaussian noise with targets that are known only to lie below, above or between limits."""

from __future__ import annotations

from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from scipy.special import ndtri

from mercer.inputs import Array, InputError
from mercer.likelihoods.base import AbstractLikelihood, per_row
from mercer.likelihoods.scales import NOISE_SCALE_PRIOR, noise_scale
from mercer.likelihoods.special import LOG_2PI, log_ndtr, log_sub
from mercer.params import Hyper, Info, ParameterError, hyper, interval, nonnegative, positive

EXACT, BELOW, ABOVE, BETWEEN = 0.0, -1.0, 1.0, 2.0


class Censored(AbstractLikelihood):
    """y = f + N(0, scale^2), where some y were not seen as numbers: below a limit of detection, above the end
    of a scale, or between two limits (the tobit model).

    scale: standard deviation of the noise, in units of y; learned
    how: (n,) or None, what is known of each datum: 0, y itself; -1, that it is below the y given; 1, that it
        is above; 2, that it is between y and y + width
    width: (n,) or None, in units of y, read where `how` is 2

    `Censored.between(lower, upper, y)` writes these from limits. At other inputs nothing is censored.

    >>> likelihood, y = Censored.between(lower, upper)        # equal limits where y was seen
    >>> post = mercer.fit(mercer.Model(mercer.GP(kernels.SE()), likelihood), X, y).posterior
    """

    mean_is_latent: ClassVar[bool] = True
    side: ClassVar[tuple[str, ...]] = ("lower", "upper")

    scale: Hyper = hyper(1.0, positive)
    how: Hyper = hyper(None, interval(BELOW, BETWEEN), free=False)
    width: Hyper = hyper(None, nonnegative, free=False)

    def __check_init__(self):
        per_row(self, "how", "width")
        if isinstance(self.how, np.ndarray) and not np.isin(self.how, (EXACT, BELOW, ABOVE, BETWEEN)).all():
            raise ParameterError("Censored.how must be 0 (seen), -1 (below), 1 (above) or 2 (between).")
        if self.width is None and isinstance(self.how, np.ndarray) and (self.how == BETWEEN).any():
            raise ParameterError("Censored.width is needed for data between two limits.")

    @classmethod
    def between(cls, lower: Any, upper: Any, y: Any = None, scale: Any = 1.0) -> tuple[Censored, np.ndarray]:
        """The likelihood of targets between `lower` and `upper` (n,), and the y (n,) that it reads.

        A limit may be infinite; where both are equal, y was seen. y: what was seen where both limits are NaN.

        >>> Censored.between([0.0, -np.inf, 2.0], [0.0, 1.5, np.inf])    # seen, below 1.5, above 2
        """
        low, high = (np.atleast_1d(np.asarray(limit, float)) for limit in (lower, upper))
        seen = np.full(low.shape, np.nan) if y is None else np.asarray(y, float)
        if low.shape != high.shape or low.ndim != 1 or seen.shape != low.shape:
            raise InputError(
                f"lower, upper and y must have one entry for each row, got {low.shape}, {high.shape} and "
                f"{seen.shape}."
            )
        plain = np.isnan(low) & np.isnan(high)
        low = np.where(plain, seen, np.where(np.isnan(low), -np.inf, low))
        high = np.where(plain, seen, np.where(np.isnan(high), np.inf, high))
        nothing = np.isnan(low) | (np.isinf(low) & np.isinf(high))
        if nothing.any():
            raise InputError(f"nothing is known of row {int(np.argmax(nothing))}: give a limit, or drop it.")
        if (low > high).any():
            row = int(np.argmax(low > high))
            raise InputError(f"lower is above upper in row {row}: {low[row]:g} and {high[row]:g}.")
        how = np.select([low == high, np.isinf(low), np.isinf(high)], [EXACT, BELOW, ABOVE], default=BETWEEN)
        width = np.subtract(high, low, out=np.zeros(len(how)), where=how == BETWEEN)
        return cls(scale, how, width), np.where(how == BELOW, high, low)

    def with_side(self, y: np.ndarray, **given: Any) -> tuple[Censored, np.ndarray]:
        empty = np.full(len(y), np.nan)
        limits = [empty if given.get(name) is None else given[name] for name in self.side]
        return self.between(limits[0], limits[1], y, self._given("scale"))

    @property
    def log_concave(self) -> bool:
        return True

    @property
    def per_datum(self) -> bool:
        return self.how is not None

    @property
    def seen(self) -> np.ndarray | None:
        return None if self.how is None else np.asarray(self.how) == EXACT

    @property
    def default_rule(self) -> str:
        return "ep"

    def elsewhere(self, X: np.ndarray) -> Censored:
        return Censored(self._given("scale"))

    def start(self, y: np.ndarray) -> dict[str, float]:
        return {"scale": noise_scale(y)}

    def weak_priors(self, scale: float) -> dict[str, Info]:
        return {"scale": Info(prior=NOISE_SCALE_PRIOR.scaled(scale))}

    def words(self) -> str:
        hidden = 0 if self.how is None else int(np.sum(np.asarray(self.how) != EXACT))
        rows = f", {hidden} rows of which only limits are known" if hidden else ""
        return f"Gaussian with standard deviation {float(self.scale):.4g}{rows}"

    def guess(self, y: np.ndarray) -> np.ndarray:
        if self.how is None:
            return np.asarray(y, float)
        beyond = np.where(np.abs(self.how) == 1.0, self.how * float(self.scale), 0.0)
        middle = np.where(self.how == BETWEEN, 0.5 * np.asarray(self.width), 0.0)
        return np.asarray(y + beyond + middle)

    def log_prob(self, f: Array, y: Array) -> jax.Array:
        return self.log_partition(y, f, 0.0)

    def log_partition(self, y: Array, mean: Array, variance: Array | float) -> jax.Array:
        sd = jnp.sqrt(self.scale**2 + variance)
        low = (y - mean) / sd
        seen = jnp.asarray(-0.5 * (low**2 + LOG_2PI) - jnp.log(sd))
        if self.how is None:
            return seen
        inside = self.how == BETWEEN
        high = low + jnp.where(inside, self.width, 1.0) / sd
        upper = low + high > 0  # in the upper half the two tails above are subtracted
        between = log_sub(log_ndtr(jnp.where(upper, -low, high)), log_ndtr(jnp.where(upper, -high, low)))
        beyond = log_ndtr(jnp.where(self.how == BELOW, low, -low))
        return jnp.where(self.how == EXACT, seen, jnp.where(inside, between, beyond))

    def bend(self, y: Array) -> tuple[Array, Array]:
        return y, self.scale

    def predict(self, mean: np.ndarray, variance: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return mean, variance + float(self.scale) ** 2

    def quantile(self, q: float, mean: np.ndarray, variance: np.ndarray) -> np.ndarray:
        return np.asarray(mean + np.sqrt(variance + float(self.scale) ** 2) * ndtri(q))

    def sample(self, rng: np.random.Generator, f: np.ndarray) -> np.ndarray:
        return f + float(self.scale) * rng.standard_normal(np.shape(f))
