"""Sunspots many years ahead by repeating a forecast of one: moment matching beside Monte Carlo (Girard et al. 2003; Kuss 7.2.2).

A Gaussian process learns next year from the nine years before. From the second step on some of these nine are
themselves forecasts, a Gaussian input: the moments of the next value, and its covariance with them, make the next one.
"""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np

import mercer as mc
from experiments._table import table
from mercer import datasets, uncertain
from mercer import kernels as k

LAGS, STEPS, EVERY, PARTICLES = 9, 12, 3, 4000
RULES = {"moment matching": uncertain.moments, "linearised": uncertain.linearised}
SHOWN = (1, 2, 3, 5, 8, 12)


def yearly() -> tuple[np.ndarray, np.ndarray]:
    """Years and the square root of the mean number of sunspots, whose noise is about even."""
    spots = datasets.load("sunspots")
    year = np.floor(spots.X[:, 0] + 1e-6)
    whole = [y for y in np.unique(year) if np.sum(year == y) == 12]
    return np.array(whole), np.array([np.sqrt(spots.y[year == y].mean()) for y in whole])


def windows(y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Rows of the nine values before each value, the latest first, and the values."""
    return np.array([y[i - LAGS : i][::-1] for i in range(LAGS, y.size)]), y[LAGS:]


@functools.partial(jax.jit, static_argnames="rule")
def ahead(predictor: uncertain.Predictor, x: jax.Array, rule: str) -> tuple[jax.Array, jax.Array]:
    """Means and variances (STEPS,) of the years after a window x (LAGS,)."""

    def step(at, _):
        mu, Sigma = at
        found = RULES[rule](predictor, mu, Sigma)
        mean, variance, cross = found.mean[0], found.variance[0] + predictor.noise[0], found.cross[:-1, 0]
        mu = jnp.concatenate([mean[None], mu[:-1]])
        Sigma = jnp.block([[variance[None, None], cross[None]], [cross[:, None], Sigma[:-1, :-1]]])
        return (mu, Sigma), (mean, variance)

    return jax.lax.scan(step, (x, jnp.zeros((LAGS, LAGS))), length=STEPS)[1]


@jax.jit
def plugged(predictor: uncertain.Predictor, x: jax.Array) -> tuple[jax.Array, jax.Array]:
    """The same with forecasts taken for what came, and the variance of one step for that of all."""

    def step(x, _):
        mean, variance = predictor.mean(x)[0], predictor.variance(x)[0] + predictor.noise[0]
        return jnp.concatenate([mean[None], x[:-1]]), (mean, variance)

    return jax.lax.scan(step, x, length=STEPS)[1]


@jax.jit
def particles(predictor: uncertain.Predictor, x: jax.Array, key: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Means and variances of drawn paths, each step from the Gaussian predicted at where a path is."""

    def step(x, key):
        mean, variance = (jax.vmap(f)(x)[:, 0] for f in (predictor.mean, predictor.variance))
        total = jnp.sqrt(jnp.maximum(variance, 0.0) + predictor.noise[0])
        drawn = mean + total * jax.random.normal(key, (len(x),))
        return jnp.concatenate([drawn[:, None], x[:, :-1]], 1), (drawn.mean(), drawn.var())

    return jax.lax.scan(step, jnp.tile(x, (PARTICLES, 1)), jax.random.split(key, STEPS))[1]


def forecasts(first: float = 1920.0) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """By each method means and variances (origins, 2, STEPS), learned before `first`; and what came (origins, STEPS)."""
    years, y = yearly()
    X, targets = windows(y[years < first])
    kernel = k.SE([3.0] * LAGS, 4.0) + k.Linear([0.1] * LAGS)
    model = mc.GPRegressor(kernel).fit(X, targets)
    predictor = jax.device_put(model.posterior_.predictor())
    origins = [i for i in range(int(np.argmax(years >= first)), y.size - STEPS + 1, EVERY)]
    at = [jnp.asarray(y[i - LAGS : i][::-1]) for i in origins]
    keys = jax.random.split(jax.random.key(0), len(at))
    found = {rule: [ahead(predictor, x, rule) for x in at] for rule in RULES}
    found["plugged in"] = [plugged(predictor, x) for x in at]
    found["drawn paths"] = [particles(predictor, x, key) for x, key in zip(at, keys, strict=True)]
    return {name: np.array(rows) for name, rows in found.items()}, np.array(
        [y[i : i + STEPS] for i in origins]
    )


def run(out=None) -> str:
    found, came = forecasts()
    drawn = found["drawn paths"]
    std = np.sqrt(drawn[:, 1])
    near, scores = [], []
    for name in (*RULES, "plugged in"):
        away = np.abs(found[name][:, 0] - drawn[:, 0]) / std
        ratio = np.sqrt(found[name][:, 1]) / std
        near.append(
            [name, *(f"{away[:, s - 1].mean():.2f}, {np.median(ratio[:, s - 1]):.2f}" for s in SHOWN)]
        )
    for name, (mean, variance) in ((name, (rows[:, 0], rows[:, 1])) for name, rows in found.items()):
        density = -0.5 * ((came - mean) ** 2 / variance + np.log(2 * np.pi * variance))
        error = np.sqrt(np.mean((came - mean) ** 2, 0))
        scores.append([name, *(f"{error[s - 1]:.2f}, {-density[:, s - 1].mean():.2f}" for s in SHOWN)])
    steps = [f"{s} year{'s' * (s > 1)}" for s in SHOWN]
    return "\n".join([
        "# Sunspots, many steps ahead", "",
        f"Square roots of yearly means, learned until 1919 from the {LAGS} years before each (SE with a length-scale for each, plus linear); forecasts from {len(came)} years "
        f"between 1920 and 2001, the hyperparameters kept. Forecasts of several years repeat that of one; {PARTICLES} drawn paths are what is approximated.", "",
        "How far from the drawn paths: mean distance of the means, in standard deviations of the paths, and the median ratio of standard deviations", "",
        table(["method", *steps], near), "",
        "What came: root mean squared error, and minus log density (of a Gaussian with the mean and variance of the method)", "",
        table(["method", *steps], scores), "",
        "One and two steps are exact but for the noise of the drawing: the input of the first is known, and that of the second Gaussian. Later inputs are not Gaussian, and moment "
        "matching stays close to the paths; a mean taken for straight leaves them the more the wider its input, and a forecast that takes forecasts for what came "
        "is far too sure.",
    ])  # fmt: skip
