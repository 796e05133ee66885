"""A small Bayesian neural network with robust noise, sampled (Neal 1996):
a rival in the robust experiments.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, RegressorMixin

from mercer.likelihoods import StudentT
from mercer.likelihoods.scales import robust_scale
from mercer.relatives.checks import Array, test_inputs, training_data
from mercer.sampling import sample
from mercer.sampling.step import AbstractStep


class BayesianNeuralNetwork(RegressorMixin, BaseEstimator):
    """Two hidden layers of tanh units with Student-t noise of 4 degrees of freedom, averaged over draws of
    all weights (Kuss 5.6).

    Weights of a layer are Gaussian with a standard deviation of their own, which is drawn too, as is the
    noise scale; those of the later layers are divided by the square root of the number of units. X is
    standardised, y by median and median absolute deviation. Chains of NUTS on all of them together;
    predictions are medians of the draws, which minimise the absolute error.

    units: int, default 6. Units in each hidden layer.
    draws, tune, chains: int. As in `mercer.sampling.sample`.
    sampler: str or step, default "nuts". As there; "hmc" takes shorter trajectories.
    random_state: int, default 0

    chains_: the draws, with `chains_.diagnostics()`. Weights have many equivalent orders, so look at R-hat of
        predictions instead.

    >>> BayesianNeuralNetwork().fit(X, y).predict(Xs)
    """

    def __init__(
        self,
        units: int = 6,
        draws: int = 500,
        tune: int = 500,
        chains: int = 2,
        sampler: str | AbstractStep = "nuts",
        random_state: int = 0,
    ):
        self.units = units
        self.draws = draws
        self.tune = tune
        self.chains = chains
        self.sampler = sampler
        self.random_state = random_state

    def fit(self, X: ArrayLike, y: ArrayLike) -> BayesianNeuralNetwork:
        """Draw networks given inputs X (n, d) and targets y (n,)."""
        inputs, targets = training_data(self, X, y)
        self.location_, self.spread_ = inputs.mean(0), np.std(inputs, 0)
        self.spread_[self.spread_ == 0] = 1.0
        self.centre_, self.scale_ = float(np.median(targets)), robust_scale(targets) or 1.0
        data = {"X": (inputs - self.location_) / self.spread_, "y": (targets - self.centre_) / self.scale_}
        shapes = _shapes(inputs.shape[1], self.units)
        size = sum(int(np.prod(s)) for s in shapes) + SCALES

        def log_density(x, data):
            noise = StudentT(NOISE * jnp.exp(x[-1]), DOF)
            return -0.5 * jnp.sum(x**2) + jnp.sum(noise.log_prob(_network(x, data["X"], shapes), data["y"]))

        start = 0.1 * np.random.default_rng(self.random_state).standard_normal((self.chains, size))
        self.chains_ = sample(
            log_density, start, sampler=self.sampler, draws=self.draws, tune=self.tune, chains=self.chains,
            seed=self.random_state, data=data, progress=False,
        )  # fmt: skip
        self.shapes_ = shapes
        return self

    def functions(self, X: ArrayLike) -> Array:
        """The function of each draw at the rows of X: (draws of all chains, n), in units of y."""
        inputs = (test_inputs(self, X) - self.location_) / self.spread_
        flat = self.chains_.draws.reshape(-1, self.chains_.draws.shape[-1])
        values = jax.vmap(lambda x: _network(x, inputs, self.shapes_))(flat)
        return self.centre_ + self.scale_ * np.asarray(values)

    def predict(self, X: ArrayLike) -> Array:
        """Medians (n,) of the predictive distribution of the function,
        which with symmetric noise is that of y nearly.
        """
        return np.median(self.functions(X), axis=0)

    def log_density(self, X: ArrayLike, y: ArrayLike) -> Array:
        """Log predictive density (n,) of targets y."""
        f, y = self.functions(X), np.asarray(y, dtype=np.float64)
        scale = self.scale_ * NOISE * np.exp(self.chains_.draws[..., -1].reshape(-1, 1))
        logs = np.asarray(StudentT(1.0, DOF).log_prob(f / scale, y / scale)) - np.log(scale)
        return np.asarray(jax.nn.logsumexp(logs, axis=0)) - np.log(len(logs))


DOF = 4.0
NOISE = 0.3  # median of the prior of the noise scale, in robust standard deviations of y
SCALES = 4  # log standard deviations of input weights, hidden weights and output weights; log noise scale


def _shapes(d: int, units: int) -> tuple[tuple[int, ...], ...]:
    return ((d, units), (units,), (units, units), (units,), (units,), (1,))


def _network(x, X, shapes):
    """Values (n,) of the network with standard-normal coordinates x: the weights,
    then the logarithms of their scales.
    """
    parts, first = [], 0
    for shape in shapes:
        last = first + int(np.prod(shape))
        parts.append(x[first:last].reshape(shape))
        first = last
    w1, b1, w2, b2, w3, b3 = parts
    s1, s2, s3 = jnp.exp(x[-SCALES:-1])
    fan = np.sqrt(w2.shape[0])
    h = jnp.tanh(s1 * (X @ w1 / np.sqrt(X.shape[1]) + b1))
    h = jnp.tanh(s2 * (h @ w2 * (2.0 / fan) + b2))
    return s3 * h @ w3 * (2.0 / fan) + b3[0]
