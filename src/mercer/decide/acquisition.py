"""What a further evaluation is worth: pure functions of a surrogate that is to be minimised.

Each takes points A (m, D) of the unit cube and a dict of arrays, `Data`, and gives (m,): the larger, the
better. Improvements are in the units of the warped targets, and on a logarithmic scale, which neither
underflows nor flattens where the improvement is tiny (Ament et al. 2023). With mean m, standard deviation s
and the best so far b, u = (b - m) / s:

    expected improvement      s (phi(u) + u Phi(u))
    probability               Phi(u)
    confidence bound          -(m - kappa s)
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import log_ndtr, logsumexp

from mercer.decide.surrogate import Surrogate, covariance, predict

__all__ = [
    "Data",
    "Score",
    "confidence_bound",
    "expected_improvement",
    "log_improvement",
    "noisy",
    "noisy_improvement",
    "probability_of_improvement",
    "standard_normals",
]

Data: TypeAlias = dict[str, Any]
Score: TypeAlias = Callable[[Any, Data], Any]

LOG_ROOT_2PI = 0.5 * math.log(2 * math.pi)
FAR = -15.0  # where the tail's series is better than the difference


def log_improvement(u: Any) -> Any:
    """log(phi(u) + u Phi(u)), right to rounding from -1e8 to 1e8."""
    above = jnp.maximum(u, 0.0)
    plain = jnp.log(jnp.exp(_log_phi(above)) + above * jnp.exp(log_ndtr(above)))
    near = jnp.clip(u, FAR, 0.0)
    below = _log_phi(near) + jnp.log1p(near * jnp.exp(log_ndtr(near) - _log_phi(near)))  # over phi
    far = jnp.minimum(u, FAR)
    v = 1.0 / far**2
    tail = 1 - v * (3 - v * (15 - v * (105 - v * (945 - v * (10395 - v * 135135)))))
    return jnp.where(u > 0, plain, jnp.where(u > FAR, below, _log_phi(far) + jnp.log(v * tail)))


def _log_phi(u: Any) -> Any:
    return -0.5 * u**2 - LOG_ROOT_2PI


def expected_improvement(A: Any, data: Data) -> Any:
    """log expected improvement on data["best"]."""
    mean, variance = predict(data["gp"], A)
    std = jnp.sqrt(variance)
    return jnp.log(std) + log_improvement((data["best"] - mean) / std)


def probability_of_improvement(A: Any, data: Data) -> Any:
    """log probability of a value below data["best"]."""
    mean, variance = predict(data["gp"], A)
    return log_ndtr((data["best"] - mean) / jnp.sqrt(variance))


def confidence_bound(A: Any, data: Data) -> Any:
    """data["kappa"] standard deviations below the mean, with the sign turned."""
    mean, variance = predict(data["gp"], A)
    return data["kappa"] * jnp.sqrt(variance) - mean


def noisy_improvement(A: Any, data: Data) -> Any:
    """log expected improvement on the best of several values that are not known exactly: those observed with
    noise, and those of points still being evaluated.

    Averaged over draws of these values; given each draw the improvement is in closed form. From `noisy`.
    """
    gp = data["gp"]
    mean, variance = predict(gp, A)
    white = (covariance(gp, A, data["points"]) * data["known"]) @ data["inverse"].T
    left = jnp.sqrt(jnp.maximum(variance - jnp.sum(white**2, 1), 1e-12 * variance))[:, None]
    means = mean[:, None] + white @ data["draws"].T
    each = jnp.log(left) + log_improvement((data["bests"] - means) / left)
    return logsumexp(each, 1) - math.log(data["draws"].shape[0])


@jax.jit
def noisy(gp: Surrogate, points: Any, known: Any, normals: Any) -> Data:
    """What `noisy_improvement` needs: values at points (b, D), of which `known` (b,) are real, from standard
    normal draws (S, b).
    """
    mean, _ = predict(gp, points)
    both = known[:, None] * known
    C = covariance(gp, points, points) * both
    jitter = 1e-9 * (gp.variance + 1.0)
    L = jnp.linalg.cholesky(C + jnp.diag(jnp.where(known > 0, jitter, 1.0)))
    inverse = jax.scipy.linalg.solve_triangular(L, jnp.eye(len(known)), lower=True)
    values = jnp.where(known > 0, mean + normals @ L.T, jnp.inf)
    return {
        "gp": gp, "points": points, "known": known, "inverse": inverse, "draws": normals * known,
        "bests": jnp.min(values, 1),
    }  # fmt: skip


@functools.lru_cache(maxsize=32)
def standard_normals(size: int, d: int, seed: int = 0) -> np.ndarray:
    """Quasi-random standard normal numbers (size, d), the same at every call."""
    from scipy.special import ndtri
    from scipy.stats import qmc

    u = qmc.Sobol(d, rng=np.random.default_rng([seed, d])).random_base2(int(math.log2(size)))
    return ndtri(np.clip(u, 1e-12, 1 - 1e-12))
