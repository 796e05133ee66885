"""Predictions where the input itself is uncertain, x ~ N(mu, Sigma).

A `Predictor` holds Gaussian processes that have seen data, as arrays. `moments` gives mean, covariance and
the covariance with the input exactly, for SE, linear and polynomial kernels, their sums and products;
`linearised`, `quadrature` and `monte_carlo` for any other. All are pure functions in JAX: compiled,
differentiated and iterated as they stand. Posteriors and `GPRegressor` offer them as `predict_uncertain`.

>>> predictor = post.predictor()
>>> found = jax.jit(uncertain.moments)(predictor, mu, Sigma)
>>> found.mean, found.covariance, found.cross             # (p,), (p, p), (d, p)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mercer.registry import exporter
from mercer.uncertain.predictor import Moments, Predictor

if TYPE_CHECKING:
    from mercer.uncertain.anywhere import linearised, monte_carlo, quadrature
    from mercer.uncertain.closed import NotClosed, check_closed, expected_product, moments

__all__ = [
    "Moments",
    "NotClosed",
    "Predictor",
    "check_closed",
    "expected_product",
    "linearised",
    "moments",
    "monte_carlo",
    "quadrature",
]

# imported when first used
__getattr__ = exporter(
    __name__,
    {
        "anywhere": "linearised monte_carlo quadrature",
        "closed": "NotClosed check_closed expected_product moments",
    },
)


def __dir__() -> list[str]:
    return sorted(__all__)
