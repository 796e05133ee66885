"""Hyperparameters: what can be said of them, how they are listed, and the way to one vector and back. C.BAY8,
C.BAY9.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import mercer as mc
from mercer import kernels as k
from mercer.hyperpriors import Gamma, LogNormal, Normal
from mercer.params import (
    Info,
    ParameterError,
    element_names,
    fixed,
    flatten,
    interval,
    named_leaves,
    nonnegative,
    param,
    parameters,
    positive,
    real,
    replace_leaves,
    strip,
    unit,
)

CONSTRAINTS = [real, positive, nonnegative, unit, interval(-2.0, 3.0)]
each = pytest.mark.parametrize("constraint", CONSTRAINTS, ids=lambda c: c.name)

MODEL = mc.Model(
    mc.GP(
        k.SE(param([0.5, 2.0], prior=LogNormal(0.1, 0.7), bounds=(0.1, 10.0)), fixed(1.5))
        + 2.0 * k.Periodic(fixed(1.0), param(0.9, tie="l"))
        + k.GammaExponential(param(0.8, tie="l"), gamma=param(1.2, prior=Normal(1.0, 0.3))),
        mc.means.Constant(0.4),
    ),
    mc.likelihoods.Gaussian(param(0.2, prior=Gamma(2.0, 3.0))),
)


# -------------------------------------------------------------------------------------------------
# constraints


@each
@given(u=st.floats(-15, 15))
def test_constraint_is_a_bijection(constraint, u):
    """Any real number becomes a legal value and comes back;
    slope and its logarithm's derivative are the derivatives.
    """
    value = constraint.value(np.float64(u))
    constraint.check(np.asarray(value), "x")
    assert constraint.lower <= value <= constraint.upper
    assert constraint.unconstrained(value) == pytest.approx(u, abs=1e-7)
    h = 1e-5
    slope = (constraint.value(u + h) - constraint.value(u - h)) / (2 * h)
    assert constraint.slope(np.asarray(value)) == pytest.approx(slope, rel=1e-6, abs=1e-9)
    if abs(u) < 8:
        ends = [np.log(constraint.slope(np.asarray(constraint.value(u + s)))) for s in (h, -h)]
        assert constraint.log_slope_derivative(np.asarray(value)) == pytest.approx(
            (ends[0] - ends[1]) / (2 * h), abs=1e-6
        )


def test_ends_of_an_interval():
    """Closed ends are legal values, and map to a finite number."""
    for constraint in (unit, interval(-2.0, 3.0)):
        for end in (constraint.lower, constraint.upper):
            constraint.check(np.asarray(end), "x")
            assert np.isfinite(constraint.unconstrained(np.float64(end)))
    nonnegative.check(np.asarray(0.0), "x")
    with pytest.raises(ParameterError, match=r"^x must be positive, got 0\.$"):
        positive.check(np.asarray(0.0), "x")
    with pytest.raises(ParameterError, match=r"^x must be between -2 and 3, got 3\.5\.$"):
        interval(-2.0, 3.0).check(np.asarray(3.5), "x")
    with pytest.raises(ParameterError, match=r"^x must be finite"):
        real.check(np.asarray(np.inf), "x")


# ------------------------------------------------------------------------------------------------- listing


def test_parameters_by_dotted_name():
    """Every hyperparameter in the order of the leaves, with its status;
    the structural order of a Matern is none.
    """
    assert {p.name: p.status for p in parameters(MODEL)} == {
        "kernel.terms.0.lengthscale": "free",
        "kernel.terms.0.variance": "fixed",
        "kernel.terms.1.variance": "free",
        "kernel.terms.1.kernel.period": "fixed",
        "kernel.terms.1.kernel.lengthscale": "tied: l",
        "kernel.terms.1.kernel.variance": "held",
        "kernel.terms.2.lengthscale": "tied: l",
        "kernel.terms.2.variance": "free",
        "kernel.terms.2.gamma": "free",
        "mean.constant": "free",
        "likelihood.noise_variance": "free",
    }
    assert [p.name for p in parameters(k.Matern(nu=2.5))] == ["lengthscale", "variance"]
    first = parameters(MODEL)[0]
    assert first.info == Info(True, LogNormal(0.1, 0.7), (0.1, 10.0)) and first.value.dtype == np.float64


def test_named_leaves_are_the_pytree_leaves():
    """The quick listing has the same names, in the order of `jax.tree.leaves`."""
    assert [name for name, _ in named_leaves(MODEL)] == [p.name for p in parameters(MODEL)]
    for (_, leaf), expected in zip(named_leaves(MODEL), jax.tree.leaves(MODEL), strict=True):
        assert leaf is expected


def test_values_are_float64_whatever_was_given():
    """Python numbers, integers, lists, float32 and JAX arrays become float64 arrays."""
    for given_value in (
        2,
        [2, 3],
        np.float32(2.0),
        np.array([2, 3]),
        jnp.asarray(2),
        jnp.asarray(2.0, jnp.float32),
    ):
        assert k.SE(given_value).lengthscale.dtype == np.float64
        assert k.SE(param(given_value)).lengthscale.dtype == np.float64


def test_values_are_immutable_and_copied():
    """A kernel does not change when the array it was made of does, nor can it be assigned to."""
    l = np.array([1.0, 2.0])
    kernel = k.SE(l)
    l[0] = 9.0
    assert kernel.lengthscale[0] == 1.0
    with pytest.raises(AttributeError):
        kernel.lengthscale = 3.0


def test_replace_leaves():
    """A copy with named values replaced; unknown names are listed with the known ones."""
    new = replace_leaves(
        MODEL, {"kernel.terms.0.variance": np.float64(9.0), "likelihood.noise_variance": np.float64(0.5)}
    )
    values = {p.name: p.value for p in parameters(new)}
    assert values["kernel.terms.0.variance"] == 9.0 and values["likelihood.noise_variance"] == 0.5
    assert parameters(MODEL)[1].value == 1.5, "the original is untouched"
    assert parameters(new)[0].info == parameters(MODEL)[0].info
    with pytest.raises(
        ParameterError,
        match=(
            r"no hyperparameter named \['kernel.size'\]; there are \['kernel.lengthscale', "
            r"'kernel.variance'"
        ),
    ):
        replace_leaves(mc.Model(mc.GP(k.SE())), {"kernel.size": 1.0})


def test_strip_forgets_what_is_said():
    """Without priors, bounds and ties two models of one structure are one pytree type; values stay."""
    bare = strip(MODEL)
    assert all(p.info == Info() for p in parameters(bare))
    for a, b in zip(jax.tree.leaves(bare), jax.tree.leaves(MODEL), strict=True):
        np.testing.assert_array_equal(a, b)
    assert jax.tree.structure(strip(k.SE(param(1.0, bounds=(0.5, 2.0))))) == jax.tree.structure(
        strip(k.SE(fixed(3.0)))
    )


def test_bad_statements():
    """Bounds in the wrong order; something that is not a number."""
    with pytest.raises(ParameterError, match="lower < upper"):
        param(1.0, bounds=(2.0, 1.0))
    with pytest.raises(ParameterError, match=r"SE\.lengthscale must be a number"):
        k.SE(param({"a": 1}))
    with pytest.raises(ParameterError, match=r"Gaussian\.noise_variance must be zero or positive"):
        mc.likelihoods.Gaussian(-0.1)


# ------------------------------------------------------------------------------------------------- one vector


def test_flatten_and_back():
    """The vector holds free values once (ties share), unconstrained; unflatten restores the model,
    bit for bit up to rounding.
    """
    flat = flatten(MODEL)
    assert flat.names == (
        "kernel.terms.0.lengthscale[0]",
        "kernel.terms.0.lengthscale[1]",
        "kernel.terms.1.variance",
        "kernel.terms.1.kernel.lengthscale",
        "kernel.terms.2.variance",
        "kernel.terms.2.gamma",
        "mean.constant",
        "likelihood.noise_variance",
    )
    g = 1.2 / 2
    expected = [
        np.log(0.5),
        np.log(2.0),
        np.log(2.0),
        np.log(0.9),
        0.0,
        np.log(g / (1 - g)),
        0.4,
        np.log(0.2),
    ]
    np.testing.assert_allclose(flat.vector, expected, rtol=1e-14, atol=1e-15)
    again = {p.name: p.value for p in parameters(flat.unflatten(flat.vector))}
    for p in parameters(MODEL):
        if p.name != "kernel.terms.2.lengthscale":  # the second of the tied ones takes the value of the first
            np.testing.assert_allclose(again[p.name], p.value, rtol=1e-14)
    assert (
        again["kernel.terms.2.lengthscale"]
        == again["kernel.terms.1.kernel.lengthscale"]
        == pytest.approx(0.9)
    )
    assert again["kernel.terms.0.variance"] == 1.5 and again["kernel.terms.1.kernel.period"] == 1.0


@given(st.lists(st.floats(-3, 3), min_size=8, max_size=8))
def test_any_vector_is_a_model(vector):
    """Every real vector gives legal values, and flattening that model gives the vector."""
    flat = flatten(MODEL)
    model = flat.unflatten(np.array(vector))
    for p in parameters(model):
        p.constraint.check(np.asarray(p.value), p.name)
    np.testing.assert_allclose(flatten(model).vector, vector, atol=1e-9)


def test_pull_is_the_chain_rule():
    """Gradients of visible values become gradients of the vector, adding up over ties."""
    flat = flatten(MODEL)
    rng = np.random.default_rng(0)
    coefficients = {p.name: rng.normal(size=np.shape(p.value)) for p in parameters(MODEL)}

    def value(vector):
        return sum(np.sum(coefficients[p.name] * np.sin(p.value)) for p in parameters(flat.unflatten(vector)))

    vector = flat.vector + 0.1
    gradient = {p.name: coefficients[p.name] * np.cos(p.value) for p in parameters(flat.unflatten(vector))}
    steps = 1e-6 * np.eye(len(vector))
    expected = [(value(vector + h) - value(vector - h)) / 2e-6 for h in steps]
    np.testing.assert_allclose(flat.pull(gradient, vector), expected, rtol=1e-7, atol=1e-9)


def test_bounds_of_the_vector():
    """Bounds in the user's scale become bounds of the unconstrained numbers."""
    bounds = flatten(MODEL).bounds()
    np.testing.assert_allclose(bounds[0], np.log([0.1, 10.0]))
    np.testing.assert_allclose(bounds[1], np.log([0.1, 10.0]))
    assert bounds[2:] == [(None, None)] * 6


@pytest.mark.parametrize("jacobian", [False, True])
def test_log_prior(jacobian):
    """C.BAY8: the density of the visible values, or of the unconstrained ones (with the Jacobian);
    its gradient by differences.
    """
    from scipy import stats

    flat = flatten(MODEL)
    vector = flat.vector + np.linspace(-0.2, 0.3, len(flat.vector))

    def expected(vector):
        l, gamma, noise = np.exp(vector[:2]), 2 / (1 + np.exp(-vector[5])), np.exp(vector[7])
        density = stats.lognorm(0.7, scale=np.exp(0.1)).logpdf(l).sum() + stats.norm(1.0, 0.3).logpdf(gamma)
        density += stats.gamma(2.0, scale=1 / 3.0).logpdf(noise)
        slopes = [*l, gamma * (2 - gamma) / 2, noise]
        return density + (np.sum(np.log(slopes)) if jacobian else 0.0)

    value, gradient = flat.log_prior(vector, jacobian)
    assert value == pytest.approx(expected(vector), rel=1e-12)
    steps = 1e-6 * np.eye(len(vector))
    differences = [(expected(vector + h) - expected(vector - h)) / 2e-6 for h in steps]
    np.testing.assert_allclose(gradient, differences, rtol=1e-6, atol=1e-8)


def test_a_prior_on_tied_values_counts_once():
    """Two names of one number have one prior."""
    prior = LogNormal(0.0, 1.0)
    kernel = k.SE(param(0.7, prior=prior, tie="l")) + k.SE(param(0.7, prior=prior, tie="l"))
    flat = flatten(kernel)
    assert flat.log_prior(flat.vector)[0] == pytest.approx(float(prior.log_prob(0.7)))


def test_ties_need_one_shape():
    """Tying a number to a vector is refused by name."""
    kernel = k.SE(param(0.7, tie="l")) + k.SE(param([0.7, 0.8], tie="l"))
    with pytest.raises(
        ParameterError,
        match=r"terms\.1\.lengthscale has shape \(2,\) but is tied \('l'\) to one of shape \(\)",
    ):
        flatten(kernel)


def test_nothing_to_learn():
    """A model with everything fixed has the empty vector."""
    flat = flatten(k.SE(fixed(1.0), fixed(2.0)))
    assert flat.vector.shape == (0,) and flat.names == () and flat.bounds() == []


def test_element_names():
    """Numbers have the name, entries of arrays an index."""
    assert list(element_names("a", ())) == ["a"]
    assert list(element_names("a", (2,))) == ["a[0]", "a[1]"]
    assert list(element_names("a", (1, 2))) == ["a[0,0]", "a[0,1]"]
