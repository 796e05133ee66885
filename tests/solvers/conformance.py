"""The State protocol, and an answer to all of it that shares nothing with the solvers.

A new exact solver joins by one line in `CASES`; what of its derivatives is tested, and what must be refused,
follows from what its State declares (`pulls`).

Reference: f = m + S u with u = (w, beta), S = [K^1/2, H], w ~ N(0, I) and beta ~ N(b, B) or flat. The sites
are quadratic in u, so the integral over u is one Gaussian integral, done here with a symmetric root of the
joint covariance at data and test inputs.
"""

import dataclasses
import re

import numpy as np
import pytest

import mercer as mc
from mercer import kernels as k
from mercer import means
from mercer.params import parameters, replace_leaves
from mercer.solvers import Dense, Sites, SolverError, WeightSpace, WithBasis
from mercer.solvers.protocol import PULLS

N, M, D = 9, 4, 2


@dataclasses.dataclass(frozen=True, eq=False)
class Case:
    """A solver with a prior it can handle."""

    name: str
    solver: object
    gp: mc.GP


FULL = k.Matern([0.9, 1.4], 1.3, nu=2.5) + k.Linear(0.4).on(1)
FINITE = k.Linear([0.7, 0.3]) + k.Constant(0.5) * k.Polynomial(2, 0.6, 0.2)
MEAN = means.Linear([0.3, -0.2], 0.5)
VAGUE = means.Polynomial(1)
GAUSSIAN = means.Polynomial(1, covariance=[2.0, 0.7, 1.1], weights=[0.4, -0.3, 0.2])

CASES = [
    Case("dense-lapack", Dense("lapack"), mc.GP(FULL, MEAN)),
    Case("dense-jax", Dense("jax"), mc.GP(FULL, MEAN)),
    Case("weight-space", WeightSpace(), mc.GP(FINITE, MEAN)),
    Case("basis-dense-lapack", WithBasis(Dense("lapack")), mc.GP(FULL, MEAN, VAGUE)),
    Case("basis-dense-lapack-gaussian", WithBasis(Dense("lapack")), mc.GP(FULL, MEAN, GAUSSIAN)),
    Case("basis-dense-jax", WithBasis(Dense("jax")), mc.GP(FULL, MEAN, VAGUE)),
    Case("basis-weight-space", WithBasis(WeightSpace()), mc.GP(FINITE, MEAN, VAGUE)),
    Case("basis-weight-space-gaussian", WithBasis(WeightSpace()), mc.GP(FINITE, MEAN, GAUSSIAN)),
]


def problem(n: int = N, m: int = M, seed: int = 3):
    """Inputs and test inputs; two rows coincide, and one test input is a datum."""
    rng = np.random.default_rng(seed)
    X, Xs = rng.normal(size=(n, D)), rng.normal(size=(m, D))
    X[1], Xs[0] = X[0], X[2]
    return X, Xs


def sites(kind: str, n: int = N, seed: int = 4) -> Sites:
    """ "noise": one precision for all; "per-datum": a precision each; "general": with slopes, and some sites
    of precision zero.
    """
    rng = np.random.default_rng(seed)
    c, W, g = rng.normal(size=(n, 1)), np.full((n, 1), 4.0), None
    if kind != "noise":
        W = np.exp(rng.normal(size=(n, 1)))
        W[3], W[4] = 40.0, 1e-2
    if kind == "general":
        W[[0, 5]] = 0.0
        g = rng.normal(size=(n, 1))
    return Sites(c, W, g)


KINDS = ("noise", "per-datum", "general")


# ------------------------------------------------------------------------------------------------- reference


def joint_covariance(gp, X, Xs):
    return gp.kernel(np.concatenate([X, Xs]))


def reference(gp, X, sites: Sites, Xs=None, V=None, K=None) -> dict[str, np.ndarray]:
    """Everything a State says, from one Gaussian integral in NumPy."""
    Xs = X[:0] if Xs is None else Xs
    n, both = X.shape[0], np.concatenate([X, Xs])
    K = gp.kernel(both) if K is None else K
    eigenvalues, U = np.linalg.eigh(K)
    S = U * np.sqrt(np.maximum(eigenvalues, 0.0))
    m = np.asarray(gp.mean.value(both), float)
    precision, constant = np.ones(both.shape[0]), 0.0
    if gp.basis is not None:
        H = np.asarray(gp.basis.features(both))
        p = H.shape[1]
        S = np.hstack([S, H])
        if gp.basis.covariance is None:
            precision, constant = np.append(precision, np.zeros(p)), 0.5 * p * np.log(2 * np.pi)
        else:
            B = np.asarray(gp.basis.covariance)  # a vector of variances
            precision, constant = np.append(precision, 1 / B), -0.5 * np.sum(np.log(B))
            m = m + H @ np.asarray(gp.basis.weights)
    c, W = sites.centre[:, 0], sites.precision[:, 0]
    g = np.zeros(n) if sites.slope is None else sites.slope[:, 0]
    Sn, e = S[:n], c - m[:n]
    P = np.diag(precision) + (Sn * W[:, None]).T @ Sn
    h = Sn.T @ (g + W * e)
    u = np.linalg.solve(P, h)
    mean, covariance = m + S @ u, S @ np.linalg.solve(P, S.T)
    alpha = g + W * (c - mean[:n])
    R = np.diag(W) - W[:, None] * covariance[:n, :n] * W
    return dict(
        log_normaliser=0.5 * h @ u - 0.5 * np.linalg.slogdet(P)[1] + constant - g @ e - 0.5 * e @ (W * e),
        mean=mean[:n],
        var=np.diag(covariance)[:n],
        alpha=alpha,
        kappa=np.diag(R),
        R=R,
        apply=None if V is None else R @ V,
        test_mean=mean[n:],
        test_covariance=covariance[n:, n:],
    )


# ------------------------------------------------------------------------------------------------- finite
# differences


def central(function, value, step: float = 1e-5) -> np.ndarray:
    """Central differences of a scalar function of an array."""
    value = np.asarray(value, float)
    out = np.empty(value.shape)
    for index in np.ndindex(value.shape):
        h = np.zeros(value.shape)
        h[index] = step * max(1.0, abs(value[index]))
        out[index] = (function(value + h) - function(value - h)) / (2 * h[index])
    return out


def expected_cotangents(gp, X, sites: Sites, scalar, inputs: bool = False) -> dict[str, np.ndarray]:
    """Derivatives by name of scalar(reference) with respect to everything the State was made of."""
    K = gp.kernel(X)  # where it does not change
    at = lambda gp=gp, X=X, sites=sites, K=K: scalar(reference(gp, X, sites, K=K))  # noqa: E731
    out = {}
    for p in parameters(gp.kernel):
        out[f"kernel.{p.name}"] = central(
            lambda v, p=p: at(mc.GP(replace_leaves(gp.kernel, {p.name: v}), gp.mean, gp.basis), K=None),
            p.value,
        )
    for p in parameters(gp.mean):
        out[f"mean.{p.name}"] = central(
            lambda v, p=p: at(mc.GP(gp.kernel, replace_leaves(gp.mean, {p.name: v}), gp.basis)), p.value
        )
    c, W, g = sites.centre, sites.precision, sites.slope
    out["centre"] = central(lambda v: at(sites=Sites(v, W, g)), c)
    out["precision"] = central(lambda v: at(sites=Sites(c, v, g)), W)
    if g is not None:
        out["slope"] = central(lambda v: at(sites=Sites(c, W, v)), g)
    if inputs:
        out["inputs"] = central(lambda v: at(X=v, K=None), X)
    return out


def found_cotangents(cotangents) -> dict[str, np.ndarray]:
    """The same from a State's pullback."""
    out = {}
    for room in ("kernel", "mean"):
        out |= {f"{room}.{p.name}": np.asarray(p.value) for p in parameters(getattr(cotangents.prior, room))}
    out["centre"], out["precision"] = cotangents.sites.centre, cotangents.sites.precision
    if cotangents.sites.slope is not None:
        out["slope"] = cotangents.sites.slope
    if cotangents.inputs is not None:
        out["inputs"] = cotangents.inputs
    return {name: np.asarray(value) for name, value in out.items()}


# ------------------------------------------------------------------------------------------------- what a
# test asserts


def bars_of(V: np.ndarray, seed: int = 6) -> dict:
    """A cotangent of everything a State says; that of R V has V (n, q) beside it."""
    rng = np.random.default_rng(seed)
    out = {name: rng.normal(size=V.shape[0]) for name in ("mean", "var", "alpha", "kappa")}
    return dict(log_normaliser=1.7, **out, apply=(V, rng.normal(size=V.shape)))


def along(quantity: str, bar):
    """The scalar of the reference whose derivative a bar asks for."""
    if quantity == "apply":
        return lambda answer: np.sum(bar[1] * (answer["R"] @ bar[0]))
    return lambda answer: np.sum(bar * answer[quantity])


def assert_cotangents(found: dict, expected: dict, rtol: float = 1e-6, atol: float = 2e-8) -> None:
    """Every derivative by name; `atol` in units of the largest entry, or of one."""
    assert sorted(found) == sorted(expected)
    for name, value in expected.items():
        np.testing.assert_allclose(
            found[name], value, rtol=rtol, atol=atol * max(1.0, np.abs(value).max()), err_msg=name
        )


def assert_pullback(state, gp, X, sites: Sites, quantity: str, bar, **close) -> None:
    """As the State declares: a bar is right, for the inputs too; or it is refused, with what does it."""
    asked = {f"{quantity}_bar": bar}
    if quantity not in state.pulls:
        assert_refused(state, quantity, **asked)
        return
    inputs = "inputs" in state.pulls
    if not inputs:
        assert_refused(state, "inputs", **asked, inputs=True)
    found = found_cotangents(state.pullback(**asked, inputs=inputs))
    expected = expected_cotangents(gp, X, sites, along(quantity, bar), inputs)
    assert_cotangents(found, expected, **close)


def assert_refused(state, quantity: str, **asked) -> None:
    """The one error for what is not declared: what it is, whose it is not, and what to use."""
    with pytest.raises(
        SolverError, match=f"^{re.escape(state.who)} has no derivatives of .*; use .+"
    ) as error:
        state.pullback(**asked)
    assert PULLS[quantity] in str(error.value)


def assert_sum_of_parts(pullback, bars: dict, **together) -> None:
    """One joint pass gives the sum of a pass for each bar;
    `pullback(**bars)` is that of a fresh State each time.
    """
    bars = {f"{name}_bar": bar for name, bar in bars.items()}
    parts = [found_cotangents(pullback(**{name: bar})) for name, bar in bars.items()]
    for name, value in found_cotangents(pullback(**bars, **together)).items():
        np.testing.assert_allclose(
            value, sum(part[name] for part in parts), rtol=1e-9, atol=1e-9, err_msg=name
        )


def assert_views(state, expected: dict, Xs, V, **close) -> None:
    """Marginals, dual, R V and predictions in all three ways of asking."""
    for answer, names in ((state.marginals(), ("mean", "var")), (state.dual(), ("alpha", "kappa"))):
        for found, name in zip(answer, names, strict=True):
            np.testing.assert_allclose(found[:, 0], expected[name], **close, err_msg=name)
    np.testing.assert_allclose(state.apply(V), expected["apply"], **close)
    full, covariance = state.predict(Xs, full=True)
    single, variance = state.predict(Xs)
    only, nothing = state.predict(Xs, variance=False)
    for mean in (full, single, only):
        np.testing.assert_allclose(mean[:, 0], expected["test_mean"], **close)
    np.testing.assert_allclose(covariance, expected["test_covariance"], **close)
    np.testing.assert_allclose(variance[:, 0], np.diag(expected["test_covariance"]), **close)
    assert nothing is None


def assert_draws(state, expected: dict, Xs, size: int = 20_000) -> None:
    """Joint draws have the posterior's mean and covariance within five standard errors,
    and follow the seed.
    """
    draws, covariance = state.sample(0, Xs, size), expected["test_covariance"]
    assert draws.shape == (size, len(Xs))
    scale = np.sqrt(np.diag(covariance))
    assert np.all(np.abs(draws.mean(0) - expected["test_mean"]) < 5 * scale / np.sqrt(size))
    assert np.all(np.abs(np.cov(draws.T) - covariance) < 5 * np.sqrt(2 / size) * np.outer(scale, scale))
    np.testing.assert_array_equal(state.sample(0, Xs, 2), state.sample(0, Xs, 2))
    assert not np.allclose(state.sample(1, Xs, 2), state.sample(0, Xs, 2))
