"""Flags and words: what a kernel says of itself is true, for every kernel of the conformance list. A.S2,
A.S6, D.KA2, C.COV1.
"""

import math
import re

import numpy as np
import pytest

from mercer import kernels as k
from mercer.kernels.spectral.smoothness import numerical_smoothness
from mercer.kernels.traits import Traits, columns_of
from mercer.params import ParameterError, fixed

from .conformance import CASES, inputs

NUMERIC = [case for case in CASES if not case[1].reads_objects()]
each = pytest.mark.parametrize(
    ("kernel", "columns"), [case[1:] for case in NUMERIC], ids=[case[0] for case in NUMERIC]
)


def same(K, L) -> bool:
    return bool(np.abs(K - L).max() < 1e-9 * np.abs(K).max())


@each
def test_flags(kernel, columns):
    """A.S2: stationary iff a shift changes nothing, isotropic iff a rotation does not either,
    dot-product if only x . x' counts.
    """
    X = 0.5 * inputs(columns, 10)
    Z, d = X[5:] if callable(columns) else 0.9 * X[5:] - 0.1, X.shape[1]
    X = X[:5]
    rng = np.random.default_rng(1)
    flags, K = kernel.flags(d), kernel(X, Z)
    rotation = np.linalg.qr(rng.normal(size=(d, d)))[0]
    shift = 0.2 if callable(columns) else rng.normal(size=d)
    assert flags.stationary == same(kernel(X + shift, Z + shift), K)
    if d > 1:
        assert flags.isotropic == (flags.stationary and same(kernel(X @ rotation, Z @ rotation), K))
    else:
        assert flags.isotropic == flags.stationary
    if flags.dot_product:
        assert same(kernel(0.9 * X, Z / 0.9), K) and same(kernel(X @ rotation, Z @ rotation), K)
    assert flags.degenerate == (kernel.rank(d) is not None) and flags.rank == kernel.rank(d)


@pytest.mark.representative("matern-", "compact-q1", "gamma", "co2", "wiener", "change")
@each
def test_smoothness_is_true(kernel, columns):
    """A.S6, D.KA2: the number of mean-square derivatives that a kernel claims is that of its differences,
    up to three.
    """
    d = inputs(columns, 2).shape[1]
    claimed = kernel.traits(d).smoothness
    if claimed is None or d > 3 or not isinstance(columns, int):
        pytest.skip("nothing claimed, or not on the whole line")
    assert numerical_smoothness(kernel.bind(d), d) == min(claimed, 3)


@pytest.mark.representative(
    "se-", "matern-3", "co2", "wiener", "gibbs-log-linear", "table", "levels", "additive"
)
@pytest.mark.parametrize(("kernel", "columns"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_every_kernel_is_described(kernel, columns):
    """The formula first, then sentences; a sum goes on with its terms."""
    X = inputs(columns, 4)
    first, *lines = kernel.describe(X.shape[1] if isinstance(X, np.ndarray) else None).split("\n")
    assert first == kernel.formula() and len(lines) >= 2
    assert all(
        line.startswith("  ") and (line.endswith(".") or line.strip().startswith("term ")) for line in lines
    )
    assert sum(line.startswith("  term ") for line in lines) == (
        len(kernel.terms) if isinstance(kernel, k.Sum) else 0
    ) or isinstance(kernel, k.Scale)


@pytest.mark.parametrize(
    ("kernel", "d", "words"),
    [
        (
            k.SE(0.2),
            None,
            "Stationary: it depends on the distance|Not degenerate; valid on any number of columns",
        ),
        (
            k.SE(0.2),
            None,
            "infinitely differentiable|length-scale 0.2|mean: 0.7958 per unit length, one every 1.257",
        ),
        (k.SE(0.2, 4.0), 3, "Stationary and isotropic|Standard deviation 2|returns to the mean"),
        (k.SE([0.2, 0.5]), None, "on x - x' only|length-scales by column 0.2, 0.5|by column: 0.7958, 0.3183"),
        (k.Matern(nu=0.5), None, "continuous but rough|infinitely often"),
        (k.Matern(nu=1.5), None, "differentiable once"),
        (k.Matern(nu=2.5), None, "differentiable twice"),
        (k.Matern(nu=4.5), None, "differentiable 4 times"),
        (k.Periodic(2.0), None, "Period 2|repeats exactly"),
        (
            k.locally_periodic(1.0, 0.7, 90.0),
            None,
            "Period 1; characteristic length-scale 90|returns to the mean",
        ),
        (
            k.PiecewisePolynomial(2.0, q=3, dimension=3),
            None,
            "at most 3 columns|differentiable 3 times|exactly, one length-scale away",
        ),
        (k.Sinc(0.5), None, "at most 3 columns|swinging around it"),
        (k.Cosine(0.5), None, "rank at most 2 on 1 column|Period 3.142|at most 1 column"),
        (
            k.Linear(),
            2,
            "Not stationary: it depends on the dot product only|rank at most 2 on 2 columns|straight line",
        ),
        (k.Polynomial(3), None, "polynomial of degree 3"),
        (k.Constant(4.0), None, "Stationary: a constant|keeps its level"),
        (
            k.SE(0.3).on("age") + k.Linear().on("weight"),
            None,
            r"term 1: SE\(age, l=0.3\)|term 2: Linear\(weight\)",
        ),
        (
            2.0 * (k.SE(0.3) + k.Constant(2.0)),
            None,
            "Standard deviation 2.449|term 2: 2 .* Constant|Standard deviation 2 around",
        ),
        (k.random_fourier_features(k.SE(), 4), None, "rank at most 8"),
    ],
)
def test_words(kernel, d, words):
    text = kernel.describe(d)
    for phrase in words.split("|"):
        assert re.search(phrase, text), (phrase, text)


class Unknown(k.AbstractKernel):
    """Wiener's, without a word about itself."""

    def block(self, A, B):
        import jax.numpy as jnp

        return jnp.minimum(A, B.T)


def test_kernel_that_says_nothing():
    """Defaults claim nothing; smoothness is then found numerically, and said to be."""
    assert Unknown().traits() == Traits() and Unknown().flags().max_dimension is None
    text = Unknown().describe()
    assert "Not stationary" in text and "not differentiable, by a numerical check" in text


def test_columns_of():
    """As many columns as vectors, choices and names of columns need."""
    assert columns_of(k.SE())[1] == 1 and columns_of(k.SE([1.0, 2.0, 3.0]))[1] == 3
    assert (
        columns_of(k.SE().on(4) + k.Linear())[1] == 5
        and columns_of(k.SE().on("a") * k.SE([1.0, 2.0]).on("b", "a"))[1] == 2
    )
    with pytest.raises(ParameterError):
        columns_of(k.SE([1.0, 2.0]), 3)
    with pytest.raises(ParameterError):
        k.SE([1.0, 2.0]).describe(3)


def test_composites_inherit():
    """Sums and products: the least smooth, the narrowest dimension; a product forgets if one factor does."""
    both = k.PiecewisePolynomial(q=1, dimension=3) + k.Sinc() + k.BesselJ(nu=3.0)
    assert both.flags(2).max_dimension == 3 and both.traits(2).smoothness == 1
    assert (k.SE() * k.Linear()).traits().beyond.startswith("returns") and not (
        k.SE() * k.Linear()
    ).flags().stationary
    assert (k.Periodic(2.0) * k.Constant(3.0)).traits().recurs and not (k.SE() * k.Periodic()).traits().recurs
    assert (k.SE() + k.Periodic(fixed(1.0))).traits().recurs and math.isinf(
        k.smoothness(k.SE() * k.Periodic())
    )
