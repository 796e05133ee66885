"""Every kernel: a covariance, its views agree, its derivatives are right, it can be named and read back.

A.K1-K9, A.K13, A.K18, C.COV1, C.COV2.
"""

import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given

from mercer import kernels as k
from mercer.linalg import tiles
from mercer.params import parameters, replace_leaves, strip
from mercer.persist import from_json, to_json

from .conformance import CASES, FUNCTIONS, VARIANTS, composites, inputs

BORDERS = (7, 65, 257)  # inside a tile of 64, inside one of 128, across two of 256

each = pytest.mark.parametrize(
    ("kernel", "columns"), [case[1:] for case in CASES], ids=[case[0] for case in CASES]
)


compiled = pytest.mark.parametrize(
    ("kernel", "columns"),
    [pytest.param(*case[1:], marks=[pytest.mark.slow] if case[0] in VARIANTS else []) for case in CASES],
    ids=[case[0] for case in CASES],
)


def encoded(kernel, X):
    """The kernel as compiled code sees it, and what it reads."""
    d = X.shape[1] if isinstance(X, np.ndarray) else 1
    bound = strip(kernel.bind(d))
    return bound, bound.encode(X)


def numeric(X) -> bool:
    return isinstance(X, np.ndarray) and X.dtype.kind == "f"


def rows(A, which):
    return jax.tree.map(lambda a: a[which], A)


@each
def test_covariance(kernel, columns):
    """Symmetric, positive semi-definite, float64; `diag` is the diagonal; parts are parts of the whole."""
    X = inputs(columns, 60)
    K = kernel(X)
    assert K.dtype == np.float64 and K.shape == (len(X), len(X)) and np.isfinite(K).all()
    scale = np.abs(K).max()
    np.testing.assert_allclose(K, K.T, rtol=0, atol=1e-14 * scale)
    eigenvalues = np.linalg.eigvalsh(K)
    assert eigenvalues[0] >= -1e-12 * len(X) * eigenvalues[-1]
    bound, A = encoded(kernel, X)
    panels = tiles.Panels(A, tiles.tile_size(len(X)))
    np.testing.assert_allclose(tiles.diagonal(bound, panels), np.diag(K), rtol=1e-13, atol=1e-14 * scale)
    np.testing.assert_allclose(kernel(X[:7]), K[:7, :7], rtol=1e-12, atol=1e-14 * scale)
    np.testing.assert_allclose(kernel(X[:20], X[10:50]), K[:20, 10:50], rtol=1e-12, atol=1e-14 * scale)


@pytest.mark.representative("se-ard", "matern-any-order", "compact-q1", "mixed-table", "substring-automaton")
@each
def test_tile_borders(kernel, columns):
    """The same on every side of a tile border."""
    X = inputs(columns, max(BORDERS))
    K = kernel(X)
    scale = np.abs(K).max()
    for n in BORDERS[:-1]:
        np.testing.assert_allclose(kernel(X[:n]), K[:n, :n], rtol=1e-12, atol=1e-14 * scale)
    np.testing.assert_allclose(kernel(X[:70], X[60:200]), K[:70, 60:200], rtol=1e-12, atol=1e-14 * scale)


@compiled
def test_block_of_points(kernel, columns):
    """`block` on encoded inputs, `point` under jit and vmap, and `__call__` are one function."""
    X = inputs(columns, 7)
    bound, A = encoded(kernel, X)
    K = kernel(X)

    @jax.jit
    def views(kernel, A):
        points = jax.vmap(lambda a: jax.vmap(lambda b: kernel.point(a, b))(A))(A)
        return kernel.block(A, A), points, kernel.diag(A)

    block, points, diagonal = views(bound, A)
    assert block.dtype == points.dtype == diagonal.dtype == jnp.float64
    scale = np.abs(K).max()
    np.testing.assert_allclose(block, K, rtol=1e-12, atol=1e-14 * scale)
    np.testing.assert_allclose(points, K, rtol=1e-11, atol=1e-13 * scale)
    np.testing.assert_allclose(diagonal, np.diag(K), rtol=1e-12, atol=1e-14 * scale)


@compiled
def test_gradient_of_hyperparameters(kernel, columns):
    """The derivative of every hyperparameter against central differences, with coincident and distinct
    inputs.

    The value that comes with it is the covariance too: compiled with a derivative, an expression may be
    evaluated differently.
    """
    X = inputs(columns, 9)
    bound, A = encoded(kernel, X)
    bar = np.random.default_rng(1).normal(size=(5, 7))
    left, right = rows(A, slice(0, 5)), rows(A, slice(2, 9))

    @jax.jit
    def value_and_pull(kernel, left, right, bar):
        value, pull = jax.vjp(lambda kernel: kernel.block(left, right), kernel)
        return value, pull(bar)[0]

    value, derivative = value_and_pull(bound, left, right, bar)
    K = tiles.matrix(bound, left, right)
    np.testing.assert_allclose(value, K, rtol=1e-12, atol=1e-14 * np.abs(K).max())
    found = {p.name: np.asarray(p.value) for p in parameters(derivative)}
    names = [p.name for p in parameters(bound)]
    assert sorted(found) == sorted(names) and names
    for p in parameters(bound):
        value = np.asarray(p.value, float)
        expected = np.empty(value.shape)
        for index in np.ndindex(value.shape):
            step = np.zeros(value.shape)
            step[index] = 1e-5 * max(abs(value[index]), 0.1)
            moved = [
                np.sum(bar * tiles.matrix(replace_leaves(bound, {p.name: value + s}), left, right))
                for s in (step, -step)
            ]
            expected[index] = (moved[0] - moved[1]) / (2 * step[index])
        np.testing.assert_allclose(found[p.name], expected, rtol=2e-7, atol=2e-8, err_msg=p.name)


@compiled
def test_gradient_of_inputs(kernel, columns):
    """The derivative of `point` in its first input: central differences where inputs differ,
    finite where they coincide.
    """
    X = inputs(columns, 8)
    if not numeric(X):
        pytest.skip("inputs are not numbers")
    bound, _ = encoded(kernel, X)
    d = X.shape[1]

    @jax.jit
    def slopes(kernel, X1, X2):
        value = lambda x1, x2: kernel.point(*[rows(kernel.encode(x[None]), 0) for x in (x1, x2)])  # noqa: E731
        return jax.vmap(jax.grad(value))(X1, X2)

    found = np.asarray(slopes(bound, X[:4], X[4:]))
    step = 1e-5 * np.eye(d)
    moved = [np.concatenate([x + step, x - step]) for x in X[:4]]
    for i in range(4):
        K = kernel(moved[i], X[4:])[:, i]
        np.testing.assert_allclose(found[i], (K[:d] - K[d:]) / 2e-5, rtol=1e-6, atol=1e-8)
    assert np.isfinite(np.asarray(slopes(bound, X[:4], X[:4]))).all()


@each
def test_features(kernel, columns):
    """A kernel of finite rank p has features (n, p) with K = Psi Psi'; others say which solver to use."""
    X = inputs(columns, 25)
    bound, A = encoded(kernel, X)
    rank = kernel.rank(X.shape[1] if isinstance(X, np.ndarray) else 1)
    if rank is None:
        with pytest.raises(TypeError, match="no finite feature expansion"):
            bound.features(A)
        return
    Psi = np.asarray(bound.features(A))
    K = kernel(X)
    assert Psi.shape == (25, rank)
    np.testing.assert_allclose(Psi @ Psi.T, K, rtol=1e-12, atol=1e-13 * np.abs(K).max())
    assert np.linalg.matrix_rank(K) <= rank


@each
def test_formula(kernel, columns):
    """The algebraic name reads back to the same kernel, bit for bit with 17 digits;
    repr is the short form.
    """
    assert repr(kernel) == kernel.formula()
    again = k.parse(kernel.formula(17), FUNCTIONS)
    X = inputs(columns, 12)
    np.testing.assert_allclose(again(X), kernel(X), rtol=1e-14, atol=0)
    assert again.formula(17) == kernel.formula(17)


@each
def test_json(kernel, columns):
    """JSON text keeps every bit of the values, the structure, and what was said of each hyperparameter."""
    again = from_json(json.loads(json.dumps(to_json(kernel))), functions=FUNCTIONS)
    assert jax.tree.structure(again) == jax.tree.structure(kernel)
    for before, after in zip(parameters(kernel), parameters(again), strict=True):
        assert (before.name, before.info, before.held) == (after.name, after.info, after.held)
        np.testing.assert_array_equal(after.value, before.value)


@each
def test_starting_values(kernel, columns):
    """`suggest` keeps the structure and everything that is fixed, and gives positive, finite starts."""
    X = inputs(columns, 20)
    if not numeric(X):
        pytest.skip("inputs are not numbers")
    bound = kernel.bind(X.shape[1])
    start = bound.suggest(X, 2.5)
    assert jax.tree.structure(start) == jax.tree.structure(bound)
    for before, after in zip(parameters(bound), parameters(start), strict=True):
        assert before.name == after.name and np.isfinite(after.value).all()
        if not before.info.free:
            np.testing.assert_array_equal(after.value, before.value)
    K = start(X)
    assert np.isfinite(K).all() and np.diag(K).mean() < 1e3 * 2.5


@given(drawn=composites())
def test_random_composites(drawn):
    """C.COV2: sums, products, scales, powers and choices of columns equal the same algebra on the leaves'
    matrices.
    """
    kernel, value = drawn
    X = inputs(2, 20)
    K, expected = kernel(X), value(X)
    np.testing.assert_allclose(K, expected, rtol=1e-12, atol=1e-13 * np.abs(expected).max())
    eigenvalues = np.linalg.eigvalsh(K)
    assert eigenvalues[0] >= -1e-12 * len(X) * eigenvalues[-1]
    np.testing.assert_allclose(k.parse(kernel.formula(17))(X), K, rtol=1e-13, atol=1e-14 * np.abs(K).max())
    if kernel.rank(2) is not None:
        bound, A = encoded(kernel, X)
        Psi = np.asarray(bound.features(A))
        np.testing.assert_allclose(Psi @ Psi.T, K, rtol=1e-11, atol=1e-12 * np.abs(K).max())
