"""JSON of every class, there and back with every bit; and text that is not a value."""

import contextlib
import dataclasses
import json

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import mercer as mc
from mercer import (
    columns,
    control,
    hyperpriors,
    inference,
    likelihoods,
    means,
    relatives,
    series,
    solvers,
    warps,
)
from mercer import kernels as k
from mercer.em import HMM, CategoricalEmission, MarkovChain
from mercer.params import Info, Param, Static, parameters
from mercer.persist import SerialiseError, from_json, to_json
from mercer.registry import ROOMS, Saved, address, classes

from ..kernels.conformance import CASES

# every class that files can hold, by its address; those of EM come back with their estimators
FOUND = [cls for room in ROOMS if room != "em" for cls in classes(room, Saved)]
CLASSES = {name: cls for cls in FOUND if (name := address(cls)) is not None}


def trend(X):
    return X[:, 0]


def there_and_back(value, functions=None, arrays=None):
    text = json.dumps(to_json(value, arrays, functions), allow_nan=False)
    return from_json(json.loads(text), arrays, functions)


def same(a, b) -> bool:
    """Equal in class, structure, every static fact and every bit."""
    if isinstance(a, eqx.Module):
        return (
            type(a) is type(b)
            and bool(eqx.tree_equal(a, b))
            and getattr(a, "info", ()) == getattr(b, "info", ())
        )
    if type(a) is not type(b):
        return False
    if isinstance(a, np.ndarray):
        return bool(np.array_equal(a, b))
    if isinstance(a, tuple):
        return len(a) == len(b) and all(map(same, a, b))
    if dataclasses.is_dataclass(a) and not isinstance(a, type):
        return all(same(getattr(a, f.name), getattr(b, f.name)) for f in dataclasses.fields(a))
    return bool(a == b)


POINTS = np.eye(2), np.zeros((1, 2)), np.ones((1, 2))  # centres, log widths and weights of a policy
STEPS = control.Transitions(np.zeros((3, 2)), np.zeros((3, 1)), np.ones((3, 2)), np.zeros(3))
DYNAMICS = control.Dynamics(
    ("a", "b"),
    ("u",),
    (),
    -np.ones(1),
    np.ones(1),
    {"a": {"b": 0.1}},
    None,
    True,
    np.zeros((3, 5)),
    np.ones(3),
    STEPS,
)
# classes that cannot be made without arguments
EXAMPLES = {
    "columns.Category": lambda: columns.Category("c", ("u", "v", None), ("w",)),
    "columns.Columns": lambda: columns.Columns((columns.Number("a", 0.5), columns.Raw("b")), notes=("n",)),
    "columns.Date": lambda: columns.Date("d", "2024-01-31", ("year",), 2.5),
    "columns.Groups": lambda: columns.Groups("c", (1, 2), ((0.0, 1.0), (1.0, 0.0)), ("u", "v")),
    "columns.LeftOut": lambda: columns.LeftOut("i", "is empty in every row"),
    "columns.Number": lambda: columns.Number("a"),
    "columns.Raw": lambda: columns.Raw("a", True),
    "columns.Reader": lambda: columns.Reader(("a", "b"), 2),
    "solvers.Condensed": lambda: mc.solvers.Condensed(
        mc.solvers.VFE(inducing=np.ones((2, 1))), np.eye(2), np.ones((2, 1)), np.ones(4)
    ),
    "control.ActionTable": lambda: control.ActionTable(np.zeros(1), np.ones(1), np.ones((2, 1))),
    "control.ChanceConstraint": lambda: control.ChanceConstraint("velocity", -1.5, 1.5),
    "control.Dynamics": lambda: DYNAMICS,
    "control.Episode": lambda: control.record(control.MountainCar(), lambda s: [1.0], steps=3, seed=0),
    "control.FunctionLoss": lambda: control.FunctionLoss(trend, name="trend"),
    "control.LinearFeedback": lambda: control.LinearFeedback(
        np.zeros(2), np.zeros(1), np.ones((1, 2)), -np.ones(1), np.ones(1), (0,), 0.5
    ),
    "control.GPPolicy": lambda: control.GPPolicy([-1.0], [1.0], (), *POINTS),
    "control.LinearPolicy": lambda: control.LinearPolicy([-1.0], [1.0], (0,), [[0.5, 0.3]], [0.1]),
    "control.RadialPolicy": lambda: control.RadialPolicy([-1.0], [1.0], (), *POINTS),
    "control.Quadratic": lambda: control.Quadratic([0.6, 0.0], [1.0, 0.1]),
    "control.Saturating": lambda: control.Saturating([0.6, 0.0], 0.2, angles=[0]),
    "control.TipLoss": lambda: control.TipLoss(0.5),
    "decide.Categorical": lambda: mc.decide.Categorical(("a", 2, True)),
    "decide.Integer": lambda: mc.decide.Integer(1, 8),
    "decide.LinearConstraint": lambda: mc.decide.LinearConstraint.parse("x + 2*y <= 10"),
    "decide.Real": lambda: mc.decide.Real(1e-5, 0.1, log=True),
    "likelihoods.Mixed": lambda: likelihoods.Mixed(likelihoods.Gaussian(0.1), [0.0, 2.0], [0.0, 0.3]),
    "kernels.Sum": lambda: k.SE(0.1) + k.Linear([1.0, 2.0]),
    "kernels.Product": lambda: k.SE(0.1) * k.Periodic(period=mc.fixed(1.0)),
    "kernels.Power": lambda: k.Linear() ** 2,
    "kernels.Precomputed": lambda: k.Precomputed([[1.0, 0.5], [0.5, 1.0]]),
    "kernels.On": lambda: k.SE([1.0, 2.0]).on(0, "age"),
    "kernels.Fisher": lambda: k.Fisher(
        MarkovChain([0.3, 0.7], [[0.5, 0.5], [0.2, 0.8]]), information="exact", length=4, of=k.SE(2.0)
    ),
    "kernels.TOP": lambda: k.TOP(
        HMM([1.0], [[1.0]], CategoricalEmission([[0.4, 0.6]])),
        MarkovChain([1.0], [[0.5, 0.5]]),
        log_odds=True,
    ),
    "means.Function": lambda: means.Function(trend, "trend"),
    "means.Coordinates": lambda: means.Coordinates([1, 3], centre=[0.5, 0.1], covariance=2.0),
    "means.Features": lambda: means.Features(trend, name="trend", covariance=[1.0, 2.0]),
    "means.Sum": lambda: means.Constant(1.0) + means.Linear([0.5, 0.1]),
    "likelihoods.Warped": lambda: likelihoods.Warped(warps.Log(), likelihoods.Gaussian(0.3)),
    "hyperpriors.Each": lambda: hyperpriors.Each(
        (hyperpriors.LogNormal(0.1, 2.0), hyperpriors.Gamma(2.0, 3.0))
    ),
    "gp.GP": lambda: mc.GP(k.Matern(0.3, nu=1.5), 4.2, means.Polynomial(2)),
    "gp.Model": lambda: mc.Model(mc.GP(k.SE(0.3)), likelihoods.Gaussian(mc.fixed([0.1, 0.2]))),
    "likelihoods.Custom": lambda: likelihoods.Custom(trend, "trend", {"scale": 0.3}),
    "likelihoods.Ordinal": lambda: likelihoods.Ordinal([-1.0, 0.2, 1.5]),
    "likelihoods.MultinomialProbit": lambda: likelihoods.MultinomialProbit(3),
    "likelihoods.Softmax": lambda: likelihoods.Softmax(3),
    "means.LogGaussian": lambda: means.LogGaussian([0.5, 1.0], [[2.0, 0.3], [0.3, 1.0]]),
    "relatives.StudentTProcess": lambda: relatives.StudentTProcess(mc.GP(k.SE(0.5)), 0.2, 7.0),
    "relatives.Polyharmonic": lambda: relatives.Polyharmonic(2, 0.7, [[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]]),
    "solvers.CorrelatedNoise": lambda: solvers.CorrelatedNoise(np.eye(2)),
    "solvers.WithBasis": lambda: solvers.WithBasis(solvers.Dense("jax")),
}


def inside(value):
    """Everything inside a value, and itself."""
    yield value
    if isinstance(value, (tuple, list)):
        children = value
    else:
        children = (
            [getattr(value, f.name) for f in dataclasses.fields(value)]
            if isinstance(value, eqx.Module)
            else []
        )
    for child in children:
        yield from inside(child)


def functions_of(value):
    """The user's functions inside a value, by the name its holder gives them."""
    holders = [v for v in inside(value) if isinstance(v, eqx.Module)]
    return {h.name: h.function for h in holders if hasattr(h, "function") and hasattr(h, "name")}


def example(name):
    """One value of a class: from EXAMPLES, from the cases of the kernels' conformance suite,
    or with plain arguments.
    """
    if name in EXAMPLES:
        return EXAMPLES[name]()
    cls = CLASSES[name]
    for value in (v for _, kernel, _ in CASES for v in inside(kernel)):
        if type(value) is cls:
            return value
    required = [
        f for f in dataclasses.fields(cls) if f.init and f.default is f.default_factory is dataclasses.MISSING
    ]
    for number in (0.5, [0.5, 0.3], [[0.5, 0.3]]):
        arguments = {f.name: number if "constraint" in f.metadata else k.SE(0.2) for f in required}
        with contextlib.suppress(TypeError, ValueError):
            return cls(**arguments)
    pytest.fail(
        f"{name} needs other arguments: give an example in EXAMPLES, or a kernel in "
        "tests/kernels/conformance.py."
    )


@pytest.mark.parametrize("name", sorted(CLASSES))
def test_every_class_survives(name):
    value = example(name)
    assert to_json(value)["class"] == name
    assert same(there_and_back(value, functions_of(value)), value)


@pytest.mark.parametrize("kernel", [case[1] for case in CASES], ids=[case[0] for case in CASES])
def test_every_kernel_survives(kernel):
    assert same(there_and_back(kernel, functions_of(kernel)), kernel)


def test_a_model_with_coloured_noise_survives():
    """Kernels from outside the room of kernels are part of models too."""
    model = mc.Model(
        mc.GP(k.SE(10.0) + series.Coloured([0.6, -0.2], [0.3], step=0.5)), likelihoods.Gaussian(0.1)
    )
    assert same(there_and_back(model), model)


def test_the_rooms_are_all_there():
    names = set(CLASSES)
    exported = [
        n
        for n in k.__all__
        if isinstance(getattr(k, n), type) and issubclass(getattr(k, n), k.AbstractKernel)
    ]
    assert {f"kernels.{n}" for n in exported if not n.startswith("Abstract")} <= names
    assert {
        "means.Constant",
        "likelihoods.Gaussian",
        "gp.Model",
        "hyperpriors.LogNormal",
        "solvers.Dense",
        "inference.Exact",
    } <= names
    assert not any("Abstract" in n or n.split(".")[1].startswith("_") for n in names)
    assert CLASSES["inference.Exact"] is inference.Exact


def test_everything_said_of_a_hyperparameter_survives():
    prior = hyperpriors.LogNormal(0.25, 1.5)
    kernel = k.SE(mc.param(1.0, prior=prior, bounds=(1e-3, np.inf), tie="l"), mc.fixed(2.0)) + k.SE(
        mc.param(1.0, tie="l")
    )
    again = there_and_back(kernel)
    assert same(again, kernel)
    assert [(p.name, p.status, p.info) for p in parameters(again)] == [
        (p.name, p.status, p.info) for p in parameters(kernel)
    ]
    assert dict(again.terms[0].info)["lengthscale"] == Info(True, prior, (1e-3, np.inf), "l")


def test_structure_and_values_stay_apart():
    structural, learned = there_and_back(k.Matern(nu=1.5)), there_and_back(k.Matern(nu=mc.param(1.5)))
    assert isinstance(structural.nu, Static) and structural.nu == 1.5
    assert isinstance(learned.nu, np.ndarray) and "nu" in {p.name for p in parameters(learned)}
    loadings = there_and_back(k.SE(1.0, loadings=np.arange(6.0).reshape(3, 2))).loadings
    np.testing.assert_array_equal(loadings, np.arange(6.0).reshape(3, 2))
    assert same(there_and_back(k.SE(jnp.array([1.0, 2.0]))), k.SE([1.0, 2.0]))


def test_plain_values_survive():
    values = [
        None,
        True,
        3,
        2.5,
        "text",
        (1, (2.0, "a")),
        [1, [None]],
        {"a": (1,), "b": {}},
        np.inf,
        -np.inf,
        Static(0.5),
    ]
    for value in values:
        again = there_and_back(value)
        assert type(again) is type(value) and again == value
    assert np.isnan(there_and_back(np.nan))
    given = there_and_back(mc.param([1.0, 2.0], bounds=(0.1, 5.0)))
    assert isinstance(given, Param) and given.info == Info(bounds=(0.1, 5.0))
    for array in (np.arange(4), np.ones((2, 3), bool), np.zeros((0, 2)), np.float32([1.5]), np.array(7)):
        again = there_and_back(array)
        assert again.dtype == array.dtype and again.shape == array.shape and np.array_equal(again, array)


@given(st.lists(st.floats(min_value=5e-324, max_value=1e308), min_size=1, max_size=40), st.booleans())
def test_every_bit_of_a_number_survives(numbers, outside):
    arrays = {} if outside else None
    kernel = k.SE(numbers)
    np.testing.assert_array_equal(there_and_back(kernel, arrays=arrays).lengthscale, kernel.lengthscale)
    assert list(arrays or {}) == (["lengthscale"] if outside and len(numbers) > 32 else [])


def test_large_arrays_go_aside_by_name():
    arrays: dict = {}
    tree = to_json(
        mc.Model(mc.GP(k.SE(np.ones(50))), likelihoods.Gaussian(np.ones(60))), arrays, where="model"
    )
    assert sorted(arrays) == ["model.gp.kernel.lengthscale", "model.likelihood.noise_variance"]
    assert tree["gp"]["kernel"]["lengthscale"] == {"kind": "array", "name": "model.gp.kernel.lengthscale"}
    del arrays["model.gp.kernel.lengthscale"]
    with pytest.raises(SerialiseError, match=r"model.gp.kernel.lengthscale' is missing"):
        from_json(tree, arrays)


# ------------------------------------------------------------------------------------------------- functions


def test_functions_are_kept_by_name():
    tree = to_json(means.Function(trend, "drift"))
    assert tree["function"] == {"kind": "function", "name": "drift"}
    assert from_json(tree, functions={"drift": trend}).function is trend
    with pytest.raises(
        SerialiseError, match=r"\['drift'\] are not part of the file: pass functions=\{'drift': drift\}"
    ):
        from_json(tree)
    with pytest.raises(SerialiseError, match="which is not a function"):
        from_json(tree, functions={"drift": 3})


def test_functions_need_names_of_their_own():
    nameless = means.Function(lambda X: X[:, 0])
    with pytest.raises(SerialiseError, match="without a name cannot be saved"):
        to_json(nameless)
    assert to_json(nameless, functions={"u": nameless.function})["function"]["name"] == "u"
    with pytest.raises(SerialiseError, match="two different functions are named 'u'"):
        to_json(means.Function(trend, "u") + means.Function(np.sum, "u"))


# ------------------------------------------------------------------------------------------------- what
# cannot be written


class Mine(k.AbstractKernel):
    def block(self, A, B):
        return A @ B.T


class Prior(hyperpriors.LogNormal):
    pass


@dataclasses.dataclass(frozen=True)
class Rule(inference.Laplace):
    extra: int = 3


def test_classes_of_others_are_handed_in():
    values = [k.SE(mc.param(1.0, prior=Prior(0.5))) + Mine(), (Rule(extra=7), solvers.Dense())]
    for value in values:
        tree = json.loads(json.dumps(to_json(value)))
        again = from_json(tree, classes=[Mine, Prior, Rule])
        assert again == value if isinstance(value, tuple) else same(again, value)
        with pytest.raises(SerialiseError, match=r"are not part of mercer: import them and pass classes="):
            from_json(tree)
    with pytest.raises(SerialiseError, match=r"\['tests:Mine'\] are not part"):
        from_json(to_json(values[0]), classes=[Prior])


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (object(), "files cannot hold object"),
        (dict, "files cannot hold dict"),
        ((1, {"a": k.AbstractKernel}), r"1\.a: files cannot hold AbstractKernel"),
        (means.Polynomial(10**5), "degree = 100000 is more than the 4,096 that files may ask for"),
        (np.random.RandomState(0), "a RandomState cannot be saved"),
        ({1: 2}, "keys of a dict must be text"),
        (2**64, "does not fit into 64 bits"),
        (np.array(["a"]), "an array of <U1 cannot be saved"),
        (np.array([1.0, np.nan]), "is not finite"),
    ],
)
def test_what_cannot_be_written_says_so(value, message):
    with pytest.raises(SerialiseError, match=message):
        to_json(value)


def test_nesting_is_limited():
    deep: list = []
    for _ in range(500):
        deep = [deep]
    with pytest.raises(SerialiseError, match="more than 100 levels"):
        to_json(deep)
    with pytest.raises(SerialiseError, match="more than 100 levels"):
        from_json(deep)


# ------------------------------------------------------------------------------------------------- text that
# is not a value


SE = {"class": "kernels.SE", "lengthscale": 1.0}
HOSTILE = {
    "unknown class": ({"class": "kernels.Evil"}, "no class 'kernels.Evil'"),
    "class of another library": (
        {"class": "subprocess.Popen", "args": ["true"]},
        "no class 'subprocess.Popen'",
    ),
    "abstract class": ({"class": "kernels.AbstractKernel"}, "no class"),
    "class that is no text": ({"class": ["kernels.SE"]}, "no class"),
    "unknown kind": ({"kind": "pickle", "data": "gASV"}, "expected one of the kinds"),
    "kind that is no text": ({"kind": ["tuple"]}, "expected one of the kinds"),
    "kind that is nothing": ({"kind": None}, "expected one of the kinds"),
    "unknown field": (SE | {"__class__": 1}, r"no \['__class__'\]"),
    "negative": (SE | {"lengthscale": -1.0}, "must be positive"),
    "not finite": (SE | {"lengthscale": {"kind": "float", "value": "nan"}}, "lengthscale is not finite"),
    "infinite literal": (SE | {"lengthscale": float("inf")}, "lengthscale is not finite"),
    "not a number": (SE | {"lengthscale": "1.0e"}, "must be a number"),
    "ragged": (SE | {"lengthscale": [[1.0], [1.0, 2.0]]}, "must be a number or an array"),
    "kernel for a number": (SE | {"lengthscale": SE}, "must be a number"),
    "huge integer": (SE | {"lengthscale": 10**400}, "does not fit into 64 bits"),
    "number for a kernel": ({"class": "gp.GP", "kernel": 3}, "a GP needs a kernel"),
    "missing field": ({"class": "gp.GP"}, "missing"),
    "info of nothing": (SE | {"info": {"size": {}}}, r"no hyperparameters \['size'\]"),
    "info that is no dict": (SE | {"info": [1]}, "expected dict, got list"),
    "unknown info": (SE | {"info": {"lengthscale": {"color": 1}}}, "not \\['color'\\]"),
    "prior that is none": (SE | {"info": {"lengthscale": {"prior": SE}}}, "is not valid"),
    "bounds that are none": (SE | {"info": {"lengthscale": {"bounds": [2.0, 1.0]}}}, "is not valid"),
    "bounds of text": (SE | {"info": {"lengthscale": {"bounds": ["a", "b"]}}}, "is not valid"),
    "free that is no truth": (SE | {"info": {"lengthscale": {"free": "yes"}}}, "is not valid"),
    "prior with a bad scale": ({"class": "hyperpriors.LogNormal", "sigma": -1.0}, "sigma must be positive"),
    "prior with text": ({"class": "hyperpriors.LogNormal", "mu": "0"}, "mu must be float, got str"),
    "param of nothing": ({"kind": "param", "value": None}, "needs a value"),
    "special number": ({"kind": "float", "value": "0x1"}, "inf, -inf or nan"),
    "static text": ({"kind": "static", "value": "a"}, "expected a number"),
    "tuple of nothing": ({"kind": "tuple"}, "expected list"),
    "array too short": (
        {"kind": "array", "dtype": "float64", "shape": [3], "data": [1.0]},
        "as many entries",
    ),
    "array of objects": ({"kind": "array", "dtype": "object", "shape": [1], "data": [1]}, "needs a dtype"),
    "array of text": ({"kind": "array", "dtype": "float64", "shape": [1], "data": ["a"]}, "not such numbers"),
    "absurd shape": (
        {"kind": "array", "dtype": "float64", "shape": [2**62, 4], "data": []},
        "as many entries",
    ),
    "bad structure": ({"class": "kernels.Power", "kernel": SE, "exponent": -1}, "at least 1"),
    "bytes": (b"x", "bytes is not JSON"),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_text_that_is_not_a_value_is_one_clear_error(case):
    tree, message = HOSTILE[case]
    with pytest.raises(SerialiseError, match=message):
        from_json(tree)


def test_missing_fields_take_their_defaults():
    assert same(from_json({"class": "kernels.SE"}), k.SE())
    assert dataclasses.is_dataclass(from_json({"class": "hyperpriors.Flat"}))
