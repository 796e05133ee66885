"""One vocabulary: every public signature is walked, and the same thing has the same name everywhere."""

import importlib
import inspect
import pkgutil

import pytest
from sklearn.base import BaseEstimator

import mercer

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
                for method, function in vars(thing).items():
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
