"""Formulas: what they say, that they read back exactly, and what is said of a wrong one."""

import contextlib
import re

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mercer as mc
from mercer import kernels as k
from mercer.hyperpriors import Each, Gamma, LogNormal
from mercer.params import ParameterError, fixed, param, parameters, strip

from .conformance import CASES, FUNCTIONS, squares


def assert_same(kernel, again):
    """The same classes, structure and numbers, bit for bit, and the same said of every hyperparameter."""
    assert jax.tree.structure(strip(again)) == jax.tree.structure(strip(kernel))
    for before, after in zip(parameters(kernel), parameters(again), strict=True):
        assert (before.name, before.info, before.held) == (after.name, after.info, after.held)
        np.testing.assert_array_equal(after.value, before.value)


# ------------------------------------------------------------------------------------------------- reading


@pytest.mark.parametrize(
    ("text", "kernel"),
    [
        ("SE()", k.SE()),
        ("SE(0.3)", k.SE(0.3)),
        ("SE(l=0.3)", k.SE(0.3)),
        ("SE(lengthscale=[0.3, 1])", k.SE([0.3, 1.0])),
        ("2.1^2 * SE(x1, l=0.3) + Periodic(period=1)", k.SE(0.3, 2.1**2).on("x1") + k.Periodic(1.0)),
        ("2.1**2*SE(x1,l=.3)", k.SE(0.3, 2.1**2).on("x1")),
        ("SE(age, height, l=[1, 2])", k.SE([1.0, 2.0]).on("age", "height")),
        ('SE(l=2).on("my age", 3)', k.SE(2.0).on("my age", 3)),
        ("SE() * 3", k.SE(1.0, 3.0)),
        ("2 * (3 * SE())", 2.0 * k.SE(1.0, 3.0)),
        ("2 * SE(variance=3)", 2.0 * k.SE(1.0, 3.0)),
        ("2 * (SE() + Linear())", 2.0 * (k.SE() + k.Linear())),
        ("2 * SE() * Linear()", k.SE(1.0, 2.0) * k.Linear()),
        ("fixed(2) * SE()", fixed(2.0) * k.SE()),
        ("SE() + 0.5", k.SE() + 0.5),
        (
            "SE(l=fixed(1)) * Periodic(period=param(2, bounds=(1, 3), tie='p'))",
            k.SE(fixed(1.0)) * k.Periodic(param(2.0, bounds=(1.0, 3.0), tie="p")),
        ),
        ("SE(l=param([1, 2], prior=LogNormal(0, 1)))", k.SE(param([1.0, 2.0], prior=LogNormal(0, 1)))),
        ("Matern(l=0.5, nu=3/2)", k.Matern(0.5, nu=1.5)),
        ("(SE() + Linear())^2", (k.SE() + k.Linear()) ** 2),
        ("SE()^0.5", k.SE() ** 0.5),
        (
            "Additive([SE(), Linear()], order=2, variance=[1, 0.1])",
            k.Additive([k.SE(), k.Linear()], 2, [1.0, 0.1]),
        ),
        ("Gibbs(LogLinear([0.7], -1))", k.Gibbs(k.LogLinear([0.7], -1.0))),
        (
            "ChangePoint(SE(), Linear(), location=-1.5, column='t')",
            k.ChangePoint(k.SE(), k.Linear(), -1.5, column="t"),
        ),
        ("Polynomial(3).normalised()", k.Polynomial(3).normalised()),
        ("Categorical(species, levels=['cat', 1])", k.Categorical(["cat", 1]).on("species")),
    ],
)
def test_reading(text, kernel):
    """Short and long forms, columns first, numbers in front, hyperparameters with what is said of them."""
    assert_same(kernel, k.parse(text))


def test_functions_by_name():
    """Functions are given by name, wherever a kernel takes one; a missing one is asked for."""
    u = lambda X: np.log1p(X)  # noqa: E731
    kernel = k.parse(
        "SE(l=0.5).warp(u) + Features(function=u, variance=2) + Invariant(SE(), actions=[u, [[1]]])", {"u": u}
    )
    x = np.array([[0.1], [0.5], [2.0]])
    expected = k.SE(0.5)(u(x)) + 2 * u(x) @ u(x).T + k.Invariant(k.SE(), [u, lambda X: X])(x)
    np.testing.assert_allclose(kernel(x), expected, rtol=1e-13)
    assert "function=u" in kernel.formula()
    assert_same(kernel, k.parse(kernel.formula(17), {"u": u}))
    with pytest.raises(
        k.KernelSyntaxError, match=r"the name u means nothing here; .* functions=\{'u': ...\}"
    ):
        k.parse("Features(function=u)")


# ------------------------------------------------------------------------------------------------- writing


def test_what_is_written():
    """Compact, for people: the variance in front, l for the length-scale, columns by name first."""
    written = [
        (k.SE(0.3, 2.1**2).on("x1"), "4.41 * SE(x1, l=0.3)"),
        (k.SE([0.5, 2.0]).on(0, 2), "SE(l=[0.5, 2]).on(0, 2)"),
        (k.SE(1 / 3), "SE(l=0.333333)"),
        (k.SE(1.0, 2.0).on("my column"), "2 * SE(l=1).on('my column')"),
        (2.0 * k.SE(90.0) * k.Periodic(fixed(1.0), 1.3), "2 * SE(l=90) * Periodic(period=1, l=1.3)"),
        (2.0 * (k.SE(1.0, 3.0) + 1), "2 * (3 * SE(l=1) + Constant())"),
        (k.Matern(nu=1.5) * k.Linear(3.0), "Matern(l=1, nu=1.5) * (3 * Linear())"),
        (k.SE().warp(squares), "Warp(SE(l=1), function=squares)"),
        (k.Gibbs(k.LogLinear([0.5], -1.0), 2.0), "2 * Gibbs(LogLinear(weights=[0.5], intercept=-1))"),
        ((k.SE() + k.Linear()) ** 2, "(SE(l=1) + Linear()) ** 2"),
    ]
    for kernel, text in written:
        assert str(kernel) == text
    bound = k.SE().on("age").bind(2, ("height", "age"))
    assert bound.columns == (1,) and str(bound) == "SE(age, l=1)", "a fitted kernel still says the names"


SAID = [
    k.SE(fixed(1 / 3), param(2.0, bounds=(0.1, 7.5), tie="s")),
    k.SE(param([0.1, 0.2], prior=Each((LogNormal(0.1, 1 / 3), Gamma(2.0, 3.0))))),
    k.Matern(param(0.1, prior=LogNormal(np.float64(0.3), 1.0)), nu=param(1.7)),
    fixed(0.1) * (k.SE() + k.Linear(fixed(0.7))),
    param(0.1, tie="s") * k.SE(1.0, param(1.0, tie="t")),
    0.1 * k.SE(1.0, 1.0),
    0.1 * k.SE(1.0, 0.3),
    0.1 * k.SE().on("a"),
    0.1 * k.SE(0.2, 0.7).on(1),
    0.1 * (0.2 * k.SE(1.0, 1.0)),
    0.1 * (k.SE(1.0, 0.3) * k.Linear(0.7)),
    0.1 * k.Linear([0.3, 0.4]),
    0.1 * k.SE(1.0, fixed(1.0)),
    (0.1 * k.SE()) ** 2 + 0.3 * k.Constant(),
    k.SE() * (k.SE() + k.SE()) * k.SE(1.0, 0.3) ** 3,
    (0.1 * k.SE(0.2).on("a") + k.Linear().on("b")).on("a", "b"),
    k.SE().warp(k.LinearMap(param([[0.1, 1 / 3]]))),
    k.GaussianNetwork(np.nextafter(0.1, 1), 1e-300, 1e300),
    k.BrownianBridge(param(2.0)),
]


@pytest.mark.parametrize("kernel", SAID, ids=range(len(SAID)))
def test_complete_text(kernel):
    """With 17 digits: every bit, where each amplitude belongs, and fixed, bounds, ties and priors."""
    assert_same(kernel, k.parse(kernel.formula(17), FUNCTIONS))


@pytest.mark.parametrize("kernel", [c[1] for c in CASES], ids=[c[0] for c in CASES])
def test_every_kernel_reads_back(kernel):
    """Issue item 4: every kernel and composite of the conformance list, exactly;
    the short text reads back to a kernel, too.
    """
    assert_same(kernel, k.parse(kernel.formula(17), FUNCTIONS))
    assert str(k.parse(str(kernel), FUNCTIONS)) == str(kernel)


numbers = st.floats(1e-6, 1e6)
names = st.sampled_from(["x1", "age", "my column", 0, 3])


def hyperparameters():
    plain = numbers | st.lists(numbers, min_size=2, max_size=2)
    return (
        plain
        | plain.map(fixed)
        | plain.map(lambda v: param(v, bounds=(1e-7, 1e7)))
        | plain.map(lambda v: param(v, tie="t"))
    )


scalars = numbers | numbers.map(fixed) | numbers.map(lambda v: param(v, prior=LogNormal(0.0, v)))
leaves = st.one_of(
    st.builds(k.SE, hyperparameters(), scalars),
    st.builds(k.Matern, hyperparameters(), scalars, nu=st.sampled_from([0.5, 1.5, 0.7]) | numbers.map(param)),
    st.builds(k.RationalQuadratic, scalars, alpha=scalars),
    st.builds(k.Periodic, scalars, scalars, scalars),
    st.builds(k.Linear, hyperparameters()),
    st.builds(k.NeuralNetwork, scalars, scalars, scalars),
    st.builds(k.Polynomial, st.integers(1, 3), scalars, scalars),
    st.builds(k.Features, st.just(squares), scalars),
    st.builds(k.Gibbs, st.builds(k.LogLinear, hyperparameters(), scalars), scalars),
    st.builds(k.Constant, scalars),
)


def composites(inner):
    pairs = st.lists(inner, min_size=2, max_size=3)
    return st.one_of(
        pairs.map(lambda parts: sum(parts[1:], parts[0])),
        pairs.map(lambda parts: parts[0] * parts[1]),
        st.builds(lambda scale, kernel: scale * kernel, scalars, inner),
        st.builds(lambda kernel, p: kernel**p, inner, st.integers(1, 3)),
        st.builds(
            lambda kernel, columns: kernel.on(*columns),
            inner,
            st.lists(names, min_size=1, max_size=2, unique=True),
        ),
        st.builds(k.Normalised, inner),
        st.builds(k.Rescale, inner, st.just(squares)),
        st.builds(k.Blurred, inner, scalars, st.integers(1, 5)),
        st.builds(k.Additive, pairs, st.just(2), st.just(1.0) | st.just([0.1, 0.2])),
        st.builds(k.ChangePoint, inner, inner, scalars, scalars, names),
    )


@settings(max_examples=150)
@given(kernel=st.recursive(leaves, composites, max_leaves=5))
def test_random_composites_read_back(kernel):
    """Random kernels of everything: the complete text reads back to the same value."""
    assert_same(kernel, k.parse(kernel.formula(17), FUNCTIONS))


# ------------------------------------------------------------------------------------------------- wrong
# texts


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("SE(", r"cannot read the kernel 'SE\('"),
        ("", r"cannot read the kernel ''"),
        ("2 + 3", r"'2 \+ 3' is a number, not a kernel"),
        ("fixed(2)", r"is a hyperparameter, not a kernel"),
        ("LogLinear([1])", r"is LogLinear\(weights=\[1\], intercept=0\), not a kernel"),
        ("SE(size=2)", r"at 'SE\(size=2\)': SE got an unexpected keyword argument 'size'"),
        ("Foo()", r"unknown kernel 'Foo'; there are \['Additive', 'ArcCosine'"),
        ("SE() - Linear()", r"only \+, \* and \*\* combine kernels"),
        ("SE() / 2", r"only \+, \* and \*\* combine kernels"),
        ("2 ** SE()", r"only \+, \* and \*\* combine kernels"),
        ("SE() + 'a'", r"at \"'a'\": expected a kernel or a number"),
        ("SE", r"the name SE means nothing here; write SE\(...\)"),
        ("SE(1, age)", r"columns come first"),
        ("SE(l=1, l=2)", r"an argument is given twice"),
        ("SE(l=1, lengthscale=2)", r"an argument is given twice"),
        ("SE(**x)", r"given twice, or with \*\*"),
        ("SE().power(2)", r"a kernel can be followed by \.normalised\(\.\.\.\), \.on"),
        ("fixed(1, 2)", r"fixed\(value\) takes one value"),
        ("fixed(2) * 3 * SE()", r"do the arithmetic inside"),
        ("9^99^9 * SE()", r"the power is too large"),
        ("1/0 * SE()", r"division by zero"),
        ("SE().__class__", r"only kernels, numbers"),
        ("__import__('os')", r"unknown kernel '__import__'"),
        ("[SE() for x in y]", r"only kernels, numbers"),
        ("(lambda: 1)()", r"only kernels can be called"),
        ("LogLinear(age, [1])", r"LogLinear takes no columns"),
        ("9" * 400 + "* SE()", r"too large"),
        ("9" * 5000 + "* SE()", r"cannot read"),
        ("\0", r"cannot read"),
        ("(" * 60 + "SE()" + ")" * 60 + "'\\d'", r"cannot read"),
        ("SE(" * 5000, r"cannot read"),
        ("Sum([SE(), SE()])", r"unknown kernel 'Sum'"),
        ("x" * 100_001, r"longer than 100,000 characters"),
    ],
)
def test_wrong_texts(text, message):
    """A text that is no kernel: what is wrong, and where."""
    with pytest.raises(k.KernelSyntaxError, match=message):
        k.parse(text)


@pytest.mark.parametrize(
    "text",
    [
        "SE(l=-1)",
        "-2 * SE()",
        "0 * SE()",
        "SE()^-1",
        "Additive([SE()], order=3)",
        "SE(l='a')",
        "Warp(3, [[1]])",
    ],
)
def test_wrong_values(text):
    """A kernel with an illegal value: what the kernel says of it, and where."""
    with pytest.raises(k.KernelSyntaxError, match=r"in the kernel .*, at ") as caught:
        k.parse(text)
    assert isinstance(caught.value.__cause__, ParameterError)


@settings(max_examples=200)
@given(st.text(alphabet="SEl()[]=+*^.,'\"0129 aX_-/:{}", max_size=40) | st.text(max_size=20))
def test_any_text_is_a_kernel_or_an_error(text):
    """Nothing but our own errors comes out, whatever goes in."""
    with contextlib.suppress(k.KernelSyntaxError):
        assert isinstance(k.parse(text), k.AbstractKernel)


def test_a_formula_is_a_kernel_for_the_estimator():
    """A regressor takes the text; a frame's columns are meant by name."""
    rng = np.random.default_rng(0)
    table = {"age": rng.uniform(0, 5, 40), "height": rng.uniform(0, 1, 40)}
    import pandas as pd

    y = np.sin(table["age"]) + table["height"] + 0.1 * rng.normal(size=40)
    model = mc.GPRegressor(kernel="SE(age, l=1) + Linear(height)").fit(pd.DataFrame(table), y)
    assert str(model.kernel_).startswith(("SE(age", *"0123456789")) and "Linear(height)" in str(model.kernel_)
    again = k.parse(model.kernel_.formula(17))
    np.testing.assert_array_equal(again(table), model.kernel_(table))


# ------------------------------------------------------------------------------------------------- mutations

FORMULAS = (
    "2.1^2 * SE(x1, l=0.3) + SE(l=90) * Periodic(period=fixed(1))",
    "SE(l=param([1, 2], prior=LogNormal(0, 1), bounds=(1e-3, inf), tie='l')).on(0, \"age\")",
    "Additive([SE(), Linear()], order=2, variance=[1, 0.1])",
    "Gibbs(LogLinear([0.7], -1)) + Matern(l=0.5, nu=3/2)",
    "(SE() + Linear())^2 * Polynomial(degree=3) + NeuralNetwork(2)",
    "Warp(SE(l=1), [[1, 2], [0, 1]]).normalised() + RationalQuadratic(alpha=param(2))",
    "Categorical(colour) * SE().rescale(LogLinear([1])) + Wiener()",
)
TOKENS = (
    *"()[],=+-*/^.'\"0", "()", "[]", "[[1]]", "-1", "0", "1e999", "1e-320", "10**9", "None", "True", "inf",
    "'a'", "x", "l=", "SE", "SE()", "fixed", "fixed(1)", "param(1, bounds=3)", "param(SE())", "**",
    "LogNormal(0, 1)", "Each([1])", "LogLinear([1])", "nu=2", "degree=2.5", "order=-1", "tie=3", "prior=1",
    "Matern", "Linear()", "Polynomial(1)", ".on(x)", ".on()", ".warp(1)", ".normalised(2)", "lambda: 1", "{}",
)  # fmt: skip


def mutated(rng):
    """One of the formulas with up to four of its tokens removed, doubled, swapped, replaced or joined by
    others.
    """
    parts = re.findall(r"\w+|\W", FORMULAS[rng.integers(len(FORMULAS))])
    for _ in range(rng.integers(1, 5)):
        i, j = rng.integers(len(parts), size=2)
        match rng.integers(5):
            case 0:
                del parts[i : i + rng.integers(1, 4)]
            case 1:
                parts.insert(i, parts[j])
            case 2:
                parts[i], parts[j] = parts[j], parts[i]
            case 3:
                parts[i] = TOKENS[rng.integers(len(TOKENS))]
            case 4:
                parts.insert(i, TOKENS[rng.integers(len(TOKENS))])
        parts = parts or ["SE"]
    return "".join(parts)


@pytest.mark.filterwarnings("ignore")  # what a kernel is built of may warn: here it is errors that count
@pytest.mark.parametrize(
    ("seed", "number"), [(0, 1000), *(pytest.param(i, 6000, marks=pytest.mark.slow) for i in range(1, 6))]
)
def test_mutated_formulas_are_kernels_or_one_error_with_its_place(seed, number):
    rng = np.random.default_rng(seed)
    kernels = 0
    for _ in range(number):
        text = mutated(rng)
        try:
            kernels += isinstance(k.parse(text), k.AbstractKernel)
        except k.KernelSyntaxError as error:
            assert re.search(r", at |is nested too deeply|, not a kernel; ", str(error)), error
    assert 0.01 * number < kernels < 0.5 * number
