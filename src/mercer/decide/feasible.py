"""Where rows are of use: measured outcomes within their limits, and labels of rows that worked or did not.

Limits are probabilities of a surrogate. Labels (failures among them) are learned by a Gaussian-process
classifier, expectation propagation on the same kernel; its posterior has the form of a surrogate's, with the
resolvent (K + W^-1)^-1 of its sites in place of (K + noise)^-1.
"""

from __future__ import annotations

import math
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax.scipy.special import log_ndtr
from scipy.linalg import solve_triangular

from mercer.decide import surrogate
from mercer.decide.acquisition import Data, Score
from mercer.decide.surrogate import CONSTANT, Surrogate, Warp, bucket, pad, predict
from mercer.gp import GP, Model
from mercer.hyperpriors import LogNormal
from mercer.kernels import Constant, Matern, Shared
from mercer.learning import fit
from mercer.likelihoods import Bernoulli
from mercer.params import fixed, param

__all__ = ["LabelLearner", "Worth", "log_label", "log_within"]

GROWTH = 1.2  # of the rows, after which hyperparameters are learned anew
MAX_EVALUATIONS = 25
LOG_DOUBTFUL = math.log(0.3)  # rows less likely than this to be of use are kept away from,
AVOIDED = 10.0  # by so many times their log probability


class Worth:
    """An acquisition times the probability that a row is of use, over what it costs: a sum of logarithms.

    data: "base" for the acquisition; and where there are such, "limits": surrogates with low and high,
    "labels": the classifier's, "cost": the surrogate of the logarithm of the cost, "full": which columns are
    set to what (of the highest fidelity)
    """

    def __init__(self, base: Score):
        self.base = base

    def __call__(self, A: Any, data: Data) -> Any:
        if "full" in data:
            A = jnp.where(data["full"][0], data["full"][1], A)
        value = self.base(A, data["base"])
        for limit in data.get("limits", ()):
            value = value + log_within(A, limit)
        if "labels" in data:
            label = log_label(A, data["labels"])
            value = value + label + AVOIDED * jnp.minimum(label - LOG_DOUBTFUL, 0.0)
        if "cost" in data:
            value = value - predict(data["cost"], A)[0] * data["cost"].warp.spread * data["cost"].warp.unit
        return value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Worth) and self.base is other.base

    def __hash__(self) -> int:
        return hash((Worth, self.base))


def only_feasible(A: Any, data: Data) -> Any:
    """No preference among rows: used until one is known that is of use."""
    return jnp.zeros(A.shape[0])


def log_within(A: Any, limit: Data) -> Any:
    """log probability that an outcome lies from limit["low"] to limit["high"], in units of the targets."""
    mean, variance = predict(limit["gp"], A)
    std = jnp.sqrt(variance)
    a, b = (limit["low"] - mean) / std, (limit["high"] - mean) / std
    swap = a + b > 0  # the same probability by the other tail
    a, b = jnp.where(swap, -b, a), jnp.where(swap, -a, b)
    first, second = log_ndtr(jnp.maximum(a, -1e8)), log_ndtr(jnp.minimum(b, 1e8))
    return second + jnp.log1p(-jnp.exp(jnp.minimum(first - second, -1e-15)))


def log_label(A: Any, gp: Surrogate) -> Any:
    """log probability of the label 1."""
    mean, variance = predict(gp, A)
    return log_ndtr(mean / jnp.sqrt(1.0 + variance))


class LabelLearner:
    """The classifier of labels while rows come in."""

    def __init__(self, groups: np.ndarray):
        self.groups = groups
        self.values: np.ndarray | None = None  # length-scales and variance
        self.rows = 0

    def gp(self, U: np.ndarray, labels: np.ndarray) -> Surrogate:
        """labels (n,) 0 or 1, both among them, at U (n, D)."""
        if self.values is None or len(labels) > GROWTH * self.rows:
            start = self._start() if self.values is None else self.values
            found = fit(
                self._model(start), U, labels, inference="laplace", progress=False,
                max_evaluations=MAX_EVALUATIONS,
            )  # fmt: skip
            learned: Any = found.model.gp.kernel
            matern = learned.terms[0].kernel
            self.values = np.r_[matern.lengthscale, float(matern.variance)]
            self.rows = len(labels)
        return self._condition(U, labels)

    def _start(self) -> np.ndarray:
        count = int(self.groups.max()) + 1
        return np.r_[np.full(count, 0.5 * math.sqrt(count)), 25.0]

    def _model(self, values: np.ndarray) -> Model:
        count = len(values) - 1
        near = LogNormal(math.log(0.5 * math.sqrt(count)), 1.0)
        kernel = Matern(
            param(values[:-1], prior=near), param(values[-1], prior=LogNormal(math.log(25.0), 1.0)), nu=2.5
        )
        return Model(GP(Shared(kernel, tuple(self.groups)) + Constant(fixed(CONSTANT))), Bernoulli())

    def _condition(self, U: np.ndarray, labels: np.ndarray) -> Surrogate:
        assert self.values is not None
        lengthscale, variance = self.values[:-1][self.groups], self.values[-1]
        posterior: Any = self._model(self.values).condition(U, labels, inference="ep", progress=False)
        sites, (alpha, _) = posterior.state.sites, posterior.state.dual()
        root = np.sqrt(np.maximum(np.asarray(sites.precision)[:, 0], 0.0))
        K = np.asarray(surrogate.kernel(lengthscale, variance)(U))
        L = np.linalg.cholesky(np.eye(len(U)) + root[:, None] * K * root)
        n, size = len(U), bucket(len(U))
        half = np.zeros((size, size))
        half[:n, :n] = solve_triangular(L, np.diag(root), lower=True)  # R = half' half
        theta = np.r_[np.log(self.values), 0.0, 0.0]
        return Surrogate(
            inputs=pad(U, size), targets=pad(labels, size), mask=pad(np.ones(n), size),
            theta=theta, lengthscale=lengthscale, inverse_factor=half,
            alpha=pad(np.asarray(alpha)[:, 0], size), warp=Warp(0.0, 1.0, 1.0, 0.0, 1.0),
        )  # fmt: skip

    def kept(self) -> dict[str, Any]:
        """What a file must say."""
        return {"values": self.values, "rows": self.rows}

    def restore(self, kept: dict[str, Any]) -> None:
        """As it was when `kept` was asked."""
        values = kept["values"]
        self.values = (
            None if values is None else np.asarray(values, float).reshape(int(self.groups.max()) + 2)
        )
        self.rows = int(kept["rows"])
