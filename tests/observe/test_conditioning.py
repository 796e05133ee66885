"""Conditioning on values, derivatives and integrals is conditioning of one joint Gaussian, by hand.

B.X9. The oracle differentiates k(x, x') one pair of points at a time, and integrates by nodes.
"""

import functools

import jax
import numpy as np
import pytest

import mercer as mc
from mercer import kernels as k
from mercer import observe
from mercer.observe.rows import NODES, nodes
from mercer.params import strip


def along(function, argument, v):
    """v . grad of a function of two points, in one of them."""
    return lambda x, z: jax.grad(function, argument)(x, z) @ v


class Row:
    """One observation: points with weights, and directions of derivatives."""

    def __init__(self, points, weights=(1.0,), directions=()):
        self.points, self.weights, self.directions = np.atleast_2d(points), np.asarray(weights), directions


def covariance(kernel, left, right):
    d = left[0].points.shape[1]
    bound = strip(kernel.bind(d))

    @functools.cache
    def compiled(first, second):
        function = lambda x, z: bound.block(bound.encode(x[None]), bound.encode(z[None]))[0, 0]  # noqa: E731
        for v in first:
            function = along(function, 0, np.array(v))
        for v in second:
            function = along(function, 1, np.array(v))
        return jax.jit(jax.vmap(jax.vmap(function, (None, 0)), (0, None)))

    K = np.zeros((len(left), len(right)))
    for i, a in enumerate(left):
        for j, b in enumerate(right):
            block = compiled(tuple(map(tuple, a.directions)), tuple(map(tuple, b.directions)))
            K[i, j] = a.weights @ np.asarray(block(a.points, b.points)) @ b.weights
    return K


def problem(d, integrals, seed=0):
    """Observations with coincident points, places to predict at, and both as rows of the oracle."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(0.0, 2.0, (4, d))
    lower = rng.uniform(0.0, 1.0, (2, d))
    width = rng.uniform(0.3, 0.6, (2, d))
    eye, v = np.eye(d), rng.normal(size=d)
    parts = [observe.values(X, np.sin(X.sum(1))), observe.derivatives(X[:2], np.ones(2), column=0)]
    rows = [Row(x) for x in X] + [Row(x, directions=(eye[0],)) for x in X[:2]]
    parts.append(observe.derivatives(X[1:3], np.array([0.3, -0.2]), direction=v))
    rows += [Row(x, directions=(v,)) for x in X[1:3]]
    if integrals:
        parts.append(observe.integrals(lower, lower + width, np.array([0.1, 0.2])))
        t, weights = nodes(tuple(range(d)), d)
        rows += [Row(a + t * w, weights * np.prod(w)) for a, w in zip(lower, width, strict=True)]
    data = functools.reduce(lambda a, b: a + b, parts)
    Xs = np.vstack([X[:1], rng.uniform(0.0, 2.0, (2, d))])
    places = observe.values(Xs) + observe.derivatives(Xs, column=d - 1)
    wanted = [Row(x) for x in Xs] + [Row(x, directions=(eye[d - 1],)) for x in Xs]
    return data, rows, places, wanted


def agrees(kernel, d, integrals=True, noise=0.01):
    data, rows, places, wanted = problem(d, integrals)
    post = mc.GP(kernel).condition(data, noise_variance=noise)
    K = covariance(kernel, rows, rows) + noise * np.eye(len(rows))
    cross, prior = covariance(kernel, rows, wanted), covariance(kernel, wanted, wanted)
    solved = np.linalg.solve(K, np.column_stack([data.y, cross]))
    np.testing.assert_allclose(post.mean(places), cross.T @ solved[:, 0], rtol=1e-8, atol=1e-8)
    expected = prior - cross.T @ solved[:, 1:]
    np.testing.assert_allclose(post.covariance(places, latent=True), expected, rtol=1e-8, atol=1e-8)
    evidence = -0.5 * (data.y @ solved[:, 0] + np.linalg.slogdet(K)[1] + len(data) * np.log(2 * np.pi))
    np.testing.assert_allclose(post.log_evidence, evidence, rtol=1e-8)


KERNELS = {
    "se": lambda d: k.SE(np.linspace(0.7, 1.1, d), 1.3),
    "matern": lambda d: k.Matern(0.9, 1.2, nu=2.5),
    "rational": lambda d: k.RationalQuadratic(0.8, 1.1, alpha=1.5),
    "periodic": lambda d: k.Periodic(3.0, 1.2, 0.9),
    "composite": lambda d: 0.6 * k.SE(0.8).on(0) * k.RationalQuadratic(1.1).on(d - 1) + k.Polynomial(2),
}


@pytest.mark.parametrize(
    ("name", "d", "integrals"),
    [
        ("se", 2, True),
        ("matern", 1, False),
        *(
            pytest.param(name, d, True, marks=pytest.mark.slow)
            for name in KERNELS
            for d in (1, 2, 3)
            if (name, d) != ("se", 2)
        ),
    ],
)
def test_it_is_joint_gaussian_conditioning(name, d, integrals):
    agrees(KERNELS[name](d), d, integrals)


def test_nodes_are_as_many_as_is_said():
    assert NODES == {1: 24, 2: 10, 3: 6} and all(
        word in observe.integrals.__doc__ for word in ("24", "10 x 10")
    )


def test_many_columns():
    """Of more than 64 columns fused matrix products have read memory that nobody wrote."""
    rng = np.random.default_rng(0)
    X, v = rng.normal(size=(2, 4, 100))
    rows = (observe.values(X, np.zeros(4)) + observe.derivatives(X, np.zeros(4), direction=v)).rows
    K, l2, gap = k.Observed(k.SE(20.0), 100)(rows), 400.0, X[:, None] - X
    plain = np.exp(-0.5 * np.sum(gap**2, -1) / l2)
    first = -np.einsum("ijd,jd->ij", -gap, v) / l2 * plain  # cov(f(x), v.f'(x'))
    np.testing.assert_allclose(K[:4, :4], plain, atol=1e-12)
    np.testing.assert_allclose(K[:4, 4:], first, atol=1e-12)
