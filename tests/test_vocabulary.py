"""One vocabulary: every public signature is walked, and the same thing has the same name everywhere."""

import ast
import importlib
import inspect
import pkgutil
import re
from collections import defaultdict
from pathlib import Path
from types import ModuleType

import pytest
from sklearn.base import BaseEstimator

import mercer
from mercer import inference, kernels, likelihoods, means
from mercer.params import ParameterError

PAGE = (Path(__file__).parents[1] / "docs" / "vocabulary.md").read_text(encoding="utf-8")

OTHER_NAMES = {
    "verbose": "progress",
    "n_init": "restarts",
    "n_restarts": "restarts",
    "max_iter": "max_evaluations (a fit) or max_iterations (a rule or solver)",
    "max_sweeps": "max_iterations",
    "n_iter": "max_iterations",
    "max_fun": "max_evaluations",
    "key": "seed",
}


def rooms():
    """Every public module directly below mercer."""
    return [
        importlib.import_module(f"mercer.{m.name}")
        for m in pkgutil.iter_modules(mercer.__path__)
        if m.name != "app" and not m.name.startswith("_")
    ]


def callables():
    """(where, object) for every public class, function and method."""
    for room in rooms():
        for name in getattr(room, "__all__", ()):
            thing = getattr(room, name)
            where = f"{room.__name__}.{name}"
            if inspect.isfunction(thing):
                yield where, thing
            elif inspect.isclass(thing):
                yield where, thing
                ours = [vars(c) for c in reversed(thing.__mro__) if c.__module__.startswith("mercer.")]
                for method, function in {k: v for members in ours for k, v in members.items()}.items():
                    if not method.startswith("_") and inspect.isfunction(function):
                        yield f"{where}.{method}", function


def signatures():
    found = []
    for where, thing in callables():
        try:
            found.append((where, thing, inspect.signature(thing)))
        except ValueError:  # a class whose constructor is written in C
            continue
    return found


SIGNATURES = signatures()


def test_the_walk_sees_what_is_public():
    names = {where for where, _, _ in SIGNATURES}
    assert len(names) > 700
    assert {"mercer.learning.fit", "mercer.estimators.GPRegressor", "mercer.solvers.VFE"} <= names


@pytest.mark.parametrize("name", OTHER_NAMES)
def test_no_second_name_for_the_same_thing(name):
    found = [where for where, _, signature in SIGNATURES if name in signature.parameters]
    assert not found, f"{name} should be {OTHER_NAMES[name]} in {found}"


def test_estimators_take_a_random_state_and_functions_a_seed():
    """scikit-learn's word on its side of the house, ours on the other; an estimator's default is 0."""
    for where, thing, signature in SIGNATURES:
        parts = where.split(".")
        owner = getattr(importlib.import_module(".".join(parts[:2])), parts[2])
        estimator = inspect.isclass(owner) and issubclass(owner, BaseEstimator)
        unwanted = "seed" if estimator else "random_state"
        assert unwanted not in signature.parameters, where
        if inspect.isclass(thing) and "random_state" in signature.parameters:
            assert signature.parameters["random_state"].default == 0, where


def test_options_are_spelled_with_hyphens():
    for where, _, signature in SIGNATURES:
        for parameter in signature.parameters.values():
            if isinstance(parameter.default, str) and parameter.name not in ("name", "target"):
                assert "_" not in parameter.default, f"{where}({parameter.name}={parameter.default!r})"


def test_progress_means_the_same_everywhere():
    """None: in a terminal, where it takes long."""
    for where, _, signature in SIGNATURES:
        if "progress" in signature.parameters:
            default = signature.parameters["progress"].default
            assert default in (None, inspect.Parameter.empty), where


# -- what the page says --------------------------------------------------------------------------------------


def table(title: str) -> list[list[str]]:
    """The cells of the table under a heading of the page, its own heading left out."""
    section = PAGE.partition(f"## {title}\n")[2].partition("\n## ")[0]
    rows = [
        [cell.strip() for cell in line.strip("|").split(" | ")]
        for line in section.splitlines()
        if line[:1] == "|"
    ]
    return rows[2:]


def codes(cell: str) -> list[str]:
    return re.findall("`([^`]+)`", cell)


def test_defaults_are_those_of_the_page():
    """The page names every default of public signatures; it may be silent where an argument is required
    somewhere, and where every rule has its own.
    """
    defaults = defaultdict(set)
    for _, _, signature in SIGNATURES:
        for parameter in signature.parameters.values():
            defaults[parameter.name].add(repr(parameter.default))
    for names, _, said in table("Arguments"):
        for name in codes(names):
            found = defaults[name] - {repr(inspect.Parameter.empty)}
            if codes(said):
                assert {repr(ast.literal_eval(value)) for value in codes(said)} == found, name
            else:
                assert len(defaults[name]) > 1, f"the default of {name} is {found} everywhere: say so"


def shared_names() -> dict[str, set[str]]:
    """Names that several public classes have, and the rooms of these."""
    found = defaultdict(set)
    for room in rooms():
        offered = [getattr(room, name) for name in room.__all__]
        modules = [thing for thing in offered if isinstance(thing, ModuleType)]
        inside = [value for module in modules for name, value in vars(module).items() if name[0] != "_"]
        for thing in offered + inside:
            if inspect.isclass(thing) and thing.__module__.startswith("mercer."):
                found[thing.__name__].add(thing)
    return {
        name: {c.__module__.split(".")[1] for c in classes}
        for name, classes in found.items()
        if len(classes) > 1
    }


def test_classes_of_one_name_are_those_of_the_page():
    said = {
        name: set(codes(where))
        for names, where, _ in table("Two classes of one name")
        for name in codes(names)
    }
    assert shared_names() == said
    assert all(len(where) == 2 for where in said.values())


MIXED_UP = {
    "kernel for a mean": lambda: mercer.GP(kernels.SE(), mean=kernels.Linear()),
    "basis for a mean": lambda: mercer.GP(kernels.SE(), mean=means.Polynomial(1)),
    "mean for a kernel": lambda: mercer.GP(means.Linear()),
    "kernel for a basis": lambda: mercer.GP(kernels.SE(), basis=kernels.Polynomial(2)),
    "mean for a basis": lambda: mercer.GP(kernels.SE(), basis=means.Linear()),
    "noise for a rule": lambda: inference.by_name(likelihoods.Laplace()),
    "kernel for a rule": lambda: inference.by_name(kernels.Gibbs(lambda x: x)),
    "rule for noise": lambda: likelihoods.by_name(inference.Laplace()),
    "rule for a model's noise": lambda: mercer.Model(mercer.GP(kernels.SE()), inference.Laplace()),
    "rule for a kernel": lambda: mercer.GP(inference.Gibbs()),
}


@pytest.mark.parametrize("mixed_up", MIXED_UP)
def test_one_class_in_the_place_of_its_namesake_is_refused(mixed_up):
    with pytest.raises((ParameterError, TypeError, ValueError), match=r"must be|needs a|unknown"):
        MIXED_UP[mixed_up]()


def test_errors_name_the_room_of_a_namesake():
    with pytest.raises(ParameterError, match=r"mean must be a mean .* got kernels\.Linear"):
        mercer.GP(kernels.SE(), mean=kernels.Linear())
    with pytest.raises(TypeError, match=r"basis must be a basis .* got means\.Linear"):
        mercer.GP(kernels.SE(), basis=means.Linear())
